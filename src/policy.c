/* policy.c - the table of policy.def as data. */
#include "policy.h"

#ifdef WV_POLICY_WRITABLE
#define ROW(name, value, unit, why, where) .name = (value),
wv_policy_values wv_policy = {
#include "policy.def"
};
#undef ROW
#endif

#define ROW(name, value, unit, why, where) {#name, value, unit, why, where},
static const wv_policy_row rows[] = {
#include "policy.def"
    {NULL, 0, NULL, NULL, NULL}};
#undef ROW

const wv_policy_row *wv_policy_describe(size_t i)
{
    return i < sizeof rows / sizeof *rows - 1 ? &rows[i] : NULL;
}
