/* policy.h - the constants that steer the solvers. Each is a row of policy.def with its unit and its reason; code reads
 * wv_policy.name. */
#ifndef WV_POLICY_H
#define WV_POLICY_H
#include <stddef.h>

#define ROW(name, value, unit, why, where) double name;
typedef struct {
#include "policy.def"
} wv_policy_values;
#undef ROW

/* bench/policy.c is linked to an engine whose table it can write to. Everywhere else values are constants. */
#ifdef WV_POLICY_WRITABLE
extern wv_policy_values wv_policy;
#else
#define ROW(name, value, unit, why, where) .name = (value),
static const wv_policy_values wv_policy = {
#include "policy.def"
};
#undef ROW
#endif

/* Row i, or NULL past the end: for documents and tests. */
typedef struct {
    const char *name;
    double value;
    const char *unit, *why, *where;
} wv_policy_row;
const wv_policy_row *wv_policy_describe(size_t i);
#endif
