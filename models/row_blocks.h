/* row_blocks.h - sums over the rows of a design for many points at once: s = X w, a pass over s that leaves its
 * derivative there, and X' s. Rows and points go in blocks, so that s [rows][points] stays in the cache; several
 * blocks of points share a block of rows, so that data that do not fit into the cache are fetched less often. Points
 * are columns, so that both products read X as it lies. */
#ifndef WV_ROW_BLOCKS_H
#define WV_ROW_BLOCKS_H
#include "scratch.h"
#include <stdbool.h>

typedef struct {
    size_t rows, P;       /* of X: P weights */
    size_t points, block; /* of a block: points, and rows, multiples of WV_PASS_WIDTH */
    size_t blocks;        /* of points that share one of rows */
    size_t sums, scales;  /* numbers of a point that a pass adds up, and that it reads */
    double *X;            /* [rows][P] */
    wv_scratch scratch;
} wv_row_blocks;

/* Work for a block of points; s is that of all blocks. */
typedef struct {
    size_t width;  /* points, rounded up; 1: there is one point only */
    double *w;     /* [P][width] */
    double *g;     /* [P][width] minus X' s, s being what the pass leaves */
    double *sum;   /* [sums][width] */
    double *scale; /* [scales][width] */
    double *s;     /* [block][width] */
} wv_row_work;

/* What a model does with them. Points z[b][dim], b of them in a block. */
typedef struct {
    size_t dim;
    void (*begin)(const void *self, size_t b, const double *z, wv_row_work *k); /* fills w, which is 0, and scale */
    void (*pass)(const void *self, size_t at, size_t rows, wv_row_work *k);     /* of rows `at` and those after it */
    void (*once)(const void *self, size_t rows, double *s, double *sum);        /* one point: s[rows]; NULL: as two */
    void (*finish)(const void *self, size_t b, const double *z, double *log_p, double *grad, const wv_row_work *k);
    const void *self;
} wv_row_model;

/* 0 and X all 0, or -1: sizes are beyond BLAS, or no memory. Close it in either case. */
int wv_row_blocks_open(wv_row_blocks *r, size_t rows, size_t P, size_t sums, size_t scales);
void wv_row_blocks_close(wv_row_blocks *r);

/* As wvgd_log_density. */
int wv_row_blocks_evaluate(wv_row_blocks *r, const wv_row_model *m, size_t n, const double *z, double *log_p,
                           double *grad);
#endif
