// probe.hpp - preprocessed, never compiled: lines "found NAME VERSION" tell which headers the compiler has.
// clang-format off
#if __has_include(<stan/model/model_base.hpp>)
found stan
#endif
#if __has_include(<Eigen/Dense>)
found eigen
#endif
#if __has_include(<tbb/task_scheduler_observer.h>)
found tbb
#endif
#if __has_include(<jansson.h>)
found jansson
#endif
#if __has_include(<boost/version.hpp>) && __has_include(<boost/random/additive_combine.hpp>)
#include <boost/version.hpp>
found boost BOOST_LIB_VERSION
#endif
found compiler __VERSION__
