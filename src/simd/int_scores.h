/* int_scores.h - which particles may be the nearest ones of a point, from products of whole numbers: processors that
 * sum four products of bytes, or two of 16-bit numbers, in each lane at once find them in a quarter of the time that
 * single precision takes. Columns and particles are rounded to whole numbers, particles stand in groups of
 * WV_INT_SCORES_GROUP. Who rounds has to know how wrong scores may be (nearest.c). */
#ifndef WV_INT_SCORES_H
#define WV_INT_SCORES_H
#include "simd/columns.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WV_INT_SCORES_GROUP = 16, WV_INT_SCORES_IMAGES = 2 * WV_COLUMNS };

/* The score of particle j is plus[j] - I for a column and minus[j] + I for its mirror image, I the product of the
 * column with the particle; low scores are near. A word has four bytes, those of columns without sign
 * (128 is added) and those of particles with one, or two 16-bit numbers with signs. Images: columns, then,
 * WV_COLUMNS further on, their mirror images, if there are any. */
typedef struct {
    bool bytes, mirrored;
    size_t words, groups;
    int32_t *z;    /* [groups][words][WV_INT_SCORES_GROUP] particles, */
    int32_t *base; /* [groups][WV_INT_SCORES_GROUP] and 128 times the sums of their bytes */
    int32_t *x;    /* [words][WV_COLUMNS] columns */
    float *square; /* [groups][WV_INT_SCORES_GROUP] scores of the middle, infinite if there is no such particle */
    int32_t *plus, *minus; /* [groups][WV_INT_SCORES_GROUP] */
    int32_t *low;          /* [groups][WV_INT_SCORES_IMAGES] the lowest score in each group */
} wv_int_scores_words;

/* Rows of points with particles. */
typedef struct {
    uint32_t *row, *particle; /* [room + WV_INT_SCORES_GROUP] each */
    uint32_t *hit;            /* scratch, the same */
} wv_int_scores_list;

typedef struct {
    /* Rows [n][D] less `middle` as floats e[n][ld], ld the next multiple of 16 from D on, zeros after D; mirrored:
     * halves of the differences of rows 2k and 2k + 1. Returns the largest of them, NaN if there is one. */
    float (*narrow)(bool mirrored, size_t n, size_t D, const double *rows, const double *middle, float *e);
    /* Rounds e times `scale` to whole numbers: word i of row k becomes out[i * stride + k]. size[n],
     * rest[n]: squared norms of scaled rows, and of what rounding took from them, in single
     * precision; sum[n]: sums of the numbers.
     * lift: what is added to bytes. */
    void (*round)(const wv_int_scores_words *w, size_t n, size_t ld, const float *e, float scale, int lift,
                  size_t stride, int32_t *out, float *size, float *rest, int32_t *sum);
    /* plus = square times `scale`, 2^30 at most, + base, and minus = the same - base */
    void (*level)(const wv_int_scores_words *w, float scale);
    /* Fills w->low; out[WV_INT_SCORES_IMAGES]: the lowest of these, or the second lowest, of each image. */
    void (*sweep)(const wv_int_scores_words *w, bool second, int32_t *out);
    /* Lists rows with particles whose scores are not above limit[WV_INT_SCORES_IMAGES], those of a row in
     * the order of particles; mirror images are rows 2k and 2k + 1. Returns how many there are,
     * `room` if they do not fit into less. */
    size_t (*pick)(const wv_int_scores_words *w, const int32_t *limit, size_t room, const wv_int_scores_list *list);
} wv_int_scores;

/* NULL: this processor has no such instructions. */
const wv_int_scores *wv_int_scores_best(void);
#endif
