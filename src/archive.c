/* archive.c - the bytes of a saved state: counted, written, checked or read. */
#include "archive.h"
#include <string.h>

bool wv_archive_reading(const wv_archive *a)
{
    return a->mode == WV_READING;
}

bool wv_archive_refuse(wv_archive *a)
{
    a->refused = true;
    return false;
}

/* Whether the next `size` bytes are there; counts them. */
static bool next(wv_archive *a, size_t size)
{
    if (a->mode == WV_COUNTING) {
        a->size += size;
        return false;
    }
    if (a->refused || size > a->size) {
        a->refused = true;
        return false;
    }
    a->size -= size;
    return size > 0;
}

static void copy(wv_archive *a, void *data, size_t size, bool read)
{
    if (!next(a, size))
        return;
    if (a->mode == WV_WRITING) {
        memcpy(a->out, data, size);
        a->out += size;
        return;
    }
    if (read)
        memcpy(data, a->in, size);
    a->in += size;
}

void wv_archive_values(wv_archive *a, void *values, size_t size)
{
    copy(a, values, size, true);
}

void wv_archive_bytes(wv_archive *a, void *array, size_t size)
{
    copy(a, array, size, a->mode == WV_READING);
}

void wv_archive_array(wv_archive *a, double *array, size_t n)
{
    wv_archive_bytes(a, array, n * sizeof *array);
}

const unsigned char *wv_archive_peek(const wv_archive *a, size_t size)
{
    return a->mode == WV_CHECKING && !a->refused && size <= a->size ? a->in : NULL;
}

bool wv_archive_shares(const wv_archive *a, size_t n)
{
    const unsigned char *from = wv_archive_peek(a, n * sizeof(double));
    for (size_t i = 0; from && i < n; i++) {
        double w;
        memcpy(&w, from + i * sizeof w, sizeof w);
        if (!(w >= 0 && w <= 1 + 1e-9)) /* sums to 1 may round up */
            return false;
    }
    return true;
}
