/* blas.c - OpenBLAS without threads of its own. Chunks of ours share the work, and matrices are small.
 * OpenBLAS starts threads before main, which keep a processor busy for 30 ms and, where memory is limited, wait for it
 * for ever: no command would end, not even --version. So it is told before its constructor runs. */
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

void openblas_set_num_threads(int threads) __attribute__((weak));

#define ALONE __attribute__((no_sanitize("address", "thread", "undefined"))) /* runs before sanitizers are set up */

static char one_thread[] = "OPENBLAS_NUM_THREADS=1";
static char **lent, *entry; /* the place in the environment that says so until main, and what belongs there */

/* Does this entry of the environment set the same variable as one_thread? */
ALONE static bool sets_threads(const char *text)
{
    size_t i = 0;
    while (text[i] == one_thread[i] && text[i] != '=')
        i++;
    return text[i] == '=' && one_thread[i] == '=';
}

/* Runs before the constructors of shared libraries, which read the array `environment` itself: it cannot grow here, and
 * setenv does not work yet. An empty one has no place to lend, so that the program starts again with one variable. */
ALONE static void tell_blas(int argc, char **argv, char **environment)
{
    static char *alone[] = {one_thread, NULL};
    (void)argc;
    if (!*environment) {
        execve("/proc/self/exe", argv, alone);
        return;
    }
    for (lent = environment; lent[1] && !sets_threads(*lent); lent++)
        ;
    entry = *lent;
    *lent = one_thread;
}

typedef void first_function(int, char **, char **);
__attribute__((section(".preinit_array"), used)) static first_function *const first = tell_blas;

/* Runs after the constructors of shared libraries: the environment is the user's again. */
__attribute__((constructor)) static void take_back(void)
{
    if (lent)
        *lent = entry;
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
}
