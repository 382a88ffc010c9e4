/* blas.c - OpenBLAS without threads of its own, and with memory. Chunks of ours share the work, and matrices are small.
 * OpenBLAS starts threads before main, which keep a processor busy for 30 ms and, where memory is limited, wait for it
 * for ever: no command would end, not even --version. So it is told before its constructor runs. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "blas.h"
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

void openblas_set_num_threads(int threads) __attribute__((weak));
void *blas_memory_alloc(int unused) __attribute__((weak));
void blas_memory_free(void *buffer) __attribute__((weak));

/* ---- threads ----------------------------------------------------------------------------------------------------- */
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

/* ---- memory ------------------------------------------------------------------------------------------------------ */
enum { BUFFER = 128 << 20, MOST = 64 }; /* bytes of a buffer of OpenBLAS; buffers that it has at least */

static bool limited(void)
{
    struct rlimit space, data;
    return getrlimit(RLIMIT_AS, &space) || getrlimit(RLIMIT_DATA, &data) || space.rlim_cur != RLIM_INFINITY ||
           data.rlim_cur != RLIM_INFINITY;
}

static bool has_room(size_t bytes)
{
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && !munmap(room, bytes);
}

int reserve_blas(size_t threads, failure *f)
{
    void *buffer[MOST];
    size_t wanted = threads < MOST ? threads : MOST, n = 0;
    if (!blas_memory_alloc || !blas_memory_free || !limited())
        return 0;
    while (n < wanted && has_room(BUFFER))
        buffer[n++] = blas_memory_alloc(0);
    for (size_t i = 0; i < n; i++)
        blas_memory_free(buffer[i]); /* which keeps it for the next one who asks */
    return n ? 0
             : fail(f, EX_SOFTWARE,
                    "no memory for BLAS, which needs %d MB of address space: raise the limit (ulimit -v, ulimit -d)",
                    BUFFER >> 20);
}
