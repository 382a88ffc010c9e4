/* memory.c - several arrays in one block. */
#include "memory.h"
#include <stdint.h>
#include <stdlib.h>

enum { LINE = 64 / sizeof(double) };

static size_t whole_lines(size_t count)
{
    return (count + LINE - 1) / LINE * LINE;
}

double *wv_memory_carve(const wv_slot *slots, size_t n, wv_fill fill)
{
    size_t sum = LINE;
    for (size_t i = 0; i < n; i++) {
        if (slots[i].count > SIZE_MAX / 16 - sum - LINE)
            return NULL;
        sum += whole_lines(slots[i].count);
    }
    double *block = fill == WV_ZEROED ? calloc(sum, sizeof *block) : malloc(sum * sizeof *block);
    size_t at = (LINE - (uintptr_t)block / sizeof *block % LINE) % LINE;
    for (size_t i = 0; block && i < n; at += whole_lines(slots[i++].count))
        *slots[i].where = slots[i].count ? block + at : NULL;
    return block;
}
