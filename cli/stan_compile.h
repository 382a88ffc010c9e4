/* stan_compile.h - from a Stan program to a shared object with BridgeStan's interface, in the cache. */
#ifndef WV_STAN_COMPILE_H
#define WV_STAN_COMPILE_H
#include "failure.h"
#include "stan_toolchain.h"
#include <stdbool.h>

typedef struct {
    const char *path; /* of the program */
    stan_wish wish;
    bool keep_syntax; /* do not rewrite newer syntax for an older Stan */
    bool quiet;       /* no progress on stderr */
} stan_request;

/* Compiles the program unless the cache has it. *object: the path of the object, to be freed. 0, or an exit code
 * with *f filled: EX_DATAERR if Stan refuses the program (its own text goes to stderr), EX_UNAVAILABLE without a
 * toolchain, EX_SOFTWARE if a compiler fails (its last lines go to stderr). */
int compile_stan(const stan_request *request, char **object, failure *f);
#endif
