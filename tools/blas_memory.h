/* blas_memory.h - memory of OpenBLAS, where it is the BLAS. */
#ifndef WV_BLAS_MEMORY_H
#define WV_BLAS_MEMORY_H
#include "failure.h"
#include <stddef.h>

/* Before anything is computed by so many threads: where memory is limited (ulimit -v, -d), buffers for them, or for as
 * many as it is enough for; the thread pools then start no more. Without one OpenBLAS would ask again without end. 0,
 * or the code of *f. */
int reserve_blas(size_t threads, failure *f);
#endif
