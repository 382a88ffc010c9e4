// program.hpp - included before the C++ that stanc writes for a program. As in CmdStan, a variable without elements may
// be an empty array of fewer dimensions ([] for a matrix[0, 3]), or missing.
#include <stan/model/model_header.hpp>

namespace wvgd {

template <typename Context>
void validate_dims(const Context &context, const std::string &stage, const std::string &name, const std::string &type,
                   const std::vector<size_t> &dims)
{
    bool empty = false;
    for (size_t d : dims)
        empty = empty || d == 0;
    if (!empty || !context.vals_r(name).empty())
        context.validate_dims(stage, name, type, dims);
}

} // namespace wvgd
