/* archive.h - the bytes of a saved state. A part names what it saves once, in order, and the archive counts, writes,
 * checks or reads it:
 *
 *     bool wv_x_archive(wv_x *x, wv_archive *a)
 *     {
 *         counts c = x->counts;                            a copy: what is read may be refused
 *         wv_archive_values(a, &c, sizeof c);
 *         if (!sane(&c))
 *             return wv_archive_refuse(a);                 before anything is used as a count or an index
 *         if (wv_archive_reading(a))
 *             x->counts = c;
 *         wv_archive_array(a, x->z, c.n);
 *         return true;
 *     }
 *
 * A state may be forged with a right checksum. So a restore runs over all parts twice: first it checks, and touches no
 * part; then it reads. Other numbers than counts, indices and flags can at worst give wrong results. */
#ifndef WV_ARCHIVE_H
#define WV_ARCHIVE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { WV_COUNTING, WV_WRITING, WV_CHECKING, WV_READING } wv_archiving;

typedef struct {
    wv_archiving mode;
    unsigned char *out;      /* where the next bytes go, or */
    const unsigned char *in; /* come from */
    size_t size;             /* bytes counted; otherwise those that are left */
    bool refused;            /* there were too few bytes, or a part did not like them, */
    bool memory;             /* or had no memory for them */
} wv_archive;

bool wv_archive_reading(const wv_archive *a);

/* Plain values of a part, in a copy that it has made: overwritten when checking and reading. */
void wv_archive_values(wv_archive *a, void *values, size_t size);

/* Arrays, which are written to only when reading. */
void wv_archive_array(wv_archive *a, double *array, size_t n);
void wv_archive_bytes(wv_archive *a, void *array, size_t size);

/* The next n numbers as they stand in the archive when checking, else NULL: for arrays of indices and shares. Not
 * aligned: to be copied one by one. */
const unsigned char *wv_archive_peek(const wv_archive *a, size_t size);

/* Whether the next n doubles are shares, from 0 to 1: numbers that say how many draws a proposal makes. True when
 * nothing is being checked. */
bool wv_archive_shares(const wv_archive *a, size_t n);

/* False, for the caller to return. */
bool wv_archive_refuse(wv_archive *a);
#endif
