/* pages.c - large tables are converted piece by piece: what has been read goes while the result grows. */
#define _DEFAULT_SOURCE /* madvise */
#include "pages.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void give_back(void *memory, size_t bytes)
{
    long size = sysconf(_SC_PAGESIZE);
    size_t page = size > 0 ? (size_t)size : 4096, ahead = (page - (uintptr_t)memory % page) % page;
    if (bytes < ahead + page)
        return;
    madvise((char *)memory + ahead, (bytes - ahead) / page * page, MADV_DONTNEED); /* a hint: it may fail */
}
