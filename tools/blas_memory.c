/* blas_memory.c - buffers of OpenBLAS, where memory is limited. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "blas_memory.h"
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sysexits.h>

void *blas_memory_alloc(int unused) __attribute__((weak));
void blas_memory_free(void *buffer) __attribute__((weak));

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
                    "not enough memory for BLAS, which needs %d MB of address space: raise the limit (ulimit -v, "
                    "ulimit -d)",
                    BUFFER >> 20);
}
