/* columns.h - Gaussians at many points. Points stand in the columns of blocks [D][WV_COLUMNS], so that they are the
 * lanes of vectors: whitening is one product with the inverse root, and the passes before and after it are vector
 * code for several instruction sets (columns_body.h), which differ in the last bits only. */
#ifndef WV_COLUMNS_H
#define WV_COLUMNS_H
#include "arena.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WV_COLUMNS = 64, WV_COLUMNS_WIDTH = 8 };

/* out[m][n] = A B, or with `add` that more. Rows of A[m][k] are a_row apart and its columns a_step; rows of B[k][n] and
 * of out are ldb and ldo apart. */
typedef struct {
    size_t m, n, k;
    const double *a;
    size_t a_row, a_step;
    const double *b;
    size_t ldb;
    double *out;
    size_t ldo;
    bool add;
} wv_product;

/* Passes over the first n columns of blocks, n a multiple of WV_COLUMNS_WIDTH. */
typedef struct {
    /* out[D][] of WV_COLUMNS_WIDTH rows of D numbers, which become its first columns */
    void (*turn)(size_t D, const double *const *row, double *out);
    /* out[D][] = x[D][] - mu[D] */
    void (*subtract)(size_t D, size_t n, const double *x, const double *mu, double *out);
    /* out[] = sum over D of y[D][]^2 */
    void (*squares)(size_t D, size_t n, const double *y, double *out);
    /* out[D][] = w[] y[D][] where w is positive, else 0 */
    void (*scale)(size_t D, size_t n, const double *w, const double *y, double *out);
    /* out[D][] = y[D][] - mean[D] where w is positive, else 0, and that times w */
    void (*centre)(size_t D, size_t n, const double *w, const double *y, const double *mean, double *out,
                   double *weighted);
    /* sum[D] += sum over columns with positive w of w[] y[D][] */
    void (*mean)(size_t D, size_t n, const double *w, const double *y, double *sum);
    /* out[] = log(exp(out[]) + sum over C of exp(log_q[C][])); NaN counts as nothing */
    void (*add_logs)(size_t C, size_t n, const double *log_q, double *out);
    /* out[] = exp(x[] - top), x - top < 700; NaN gives 0 */
    void (*exponentials)(size_t n, double top, const double *x, double *out);
    /* out[] = constant - power log(1 + r[] / nu) */
    void (*tails)(size_t n, double nu, double power, double constant, const double *r, double *out);
    /* out[] = sum over D of ((x[D][] - mu[D]) scale[D])^2 */
    void (*apart)(size_t D, size_t n, const double *x, const double *mu, const double *scale, double *out);
    /* Of the rows z[N][D] the one at the least squared distance from each column of x (the first, if there are
     * several): that distance, the least to any other row, and its number, from 0. */
    void (*nearest)(size_t D, size_t n, size_t N, const double *x, const double *z, double *near, double *next,
                    double *which);
    /* Of the rows g[N][D] the one with the highest score g.x - offset for each column of x (the first, if
     * there are several): its number, from 0. */
    void (*highest)(size_t D, size_t n, size_t N, const double *x, const double *g, const double *offset,
                    double *which);
    /* out[D][] = x[D][] - mu[D], in single precision, all columns of the block */
    void (*shorten)(size_t D, const double *x, const double *mu, float *out);
    /* As `nearest` in single precision, N > 3: the numbers of the two nearest rows, in either order, and the least
     * squared distance to any third. Columns up to the next multiple of 32 are done. */
    void (*nearby)(size_t D, size_t n, size_t N, const float *x, const float *z, int32_t *first, int32_t *second,
                   float *third);
    /* A mixture of densities with the shares alpha[C]: log_m[] its log; log_q[C][], rows ld apart, become q / m.
     * exp(600) at most; NaN counts as nothing. */
    void (*shares)(size_t C, size_t n, size_t ld, const double *alpha, double *log_q, double *log_m);

    /* Passes over rows x[n][D], whose coordinates are the lanes; z = (x - m) s, coordinate by coordinate. */
    /* One row times a matrix: out[D] = sum over k of x[k] M[k][D]; out is not x */
    void (*row_times)(size_t D, const double *x, const double *M, double *out);
    /* v <- H v for the inverse Hessian of limited memory that `pairs` pairs s[], y[] of rows, the newest first, with
     * the products sy[] = s.y and the first step gamma say; rows are D long, a multiple of WV_COLUMNS_WIDTH */
    void (*row_secants)(size_t D, size_t pairs, const double *const *s, const double *const *y, const double *sy,
                        double gamma, double *v);
    /* |x - m|^2 and |(x - m) s|^2 of one row */
    double (*row_distance)(size_t D, const double *x, const double *m);
    double (*row_apart)(size_t D, const double *x, const double *m, const double *s);
    /* Under the weights u[n]: out[D] the mean of x */
    void (*row_means)(size_t n, size_t D, const double *u, const double *x, double *out);
    /* variance[D] of x about m[D] and, unless g is NULL, cross[D], the covariance with x of
     * g[n][D], whose means are gm[D] */
    void (*row_slopes)(size_t n, size_t D, const double *u, const double *x, const double *m, const double *g,
                       const double *gm, double *variance, double *cross);
    /* r[n] -= sum over D of a1 z + a2 z^2/2 */
    void (*row_quadratic)(size_t n, size_t D, const double *x, const double *m, const double *s, const double *a1,
                          const double *a2, double *r);
    /* Under the weights, t = z^2/2 - half: out[4][D] the means of z t, t^2, z r and t r */
    void (*row_products)(size_t n, size_t D, const double *u, const double *r, const double *x, const double *m,
                         const double *s, const double *half, double *out);
    /* T[n][2 D]: the roots of the weights times z and t */
    void (*row_statistics)(size_t n, size_t D, const double *u, const double *x, const double *m, const double *s,
                           const double *half, double *T);

    /* n >= WV_COLUMNS_WIDTH; NULL where BLAS is faster */
    void (*multiply)(const wv_product *p);
} wv_columns;

const wv_columns *wv_columns_best(void);
#ifdef __x86_64__
extern const wv_columns wv_columns_avx512, wv_columns_avx2;
#endif
extern const wv_columns wv_columns_any;

/* n rounded up to whole vectors. */
size_t wv_columns_round(size_t n);

/* block[D][WV_COLUMNS] of the rows x[n][D], n <= WV_COLUMNS; columns up to the rounded n repeat the last. */
void wv_columns_turn(size_t D, size_t n, const double *x, double *block);

/* The same of rows that are `apart` numbers apart. */
void wv_columns_turn_rows(size_t D, size_t n, const double *x, size_t apart, double *block);

/* y = inverse (x - mu) for the first n columns of a block, r[n] = |y|^2; inverse: [D][D] lower
 * triangle; spare: [D][WV_COLUMNS]. */
void wv_columns_whiten(size_t D, size_t n, const double *inverse, const double *mu, const double *x, double *spare,
                       double *y, double *r);

/* Small products, which BLAS would copy before it multiplies. */
void wv_columns_multiply(const wv_product *p);

/* out += inverse' y: rows of A'^-1 y. */
void wv_columns_push(size_t D, size_t n, const double *inverse, const double *y, double *out);

/* out[D][D] += a b', lower: only what lies on and below the diagonal need be right. */
void wv_columns_product(size_t D, size_t n, const double *a, const double *b, bool lower, double *out, wv_arena *arena);

/* The log density is constant - r/2, r = |y|^2, or with nu > 0
 * constant - (nu + D)/2 log(1 + r/nu); log_det: as below. */
double wv_columns_constant(size_t D, double log_det, double nu);
void wv_columns_log(size_t D, size_t n, double constant, double nu, const double *r, double *log_q);

/* log density from r = |y|^2: of a Gaussian whose root has the log determinant log_det, or with
 * nu > 0 of the Student-t. */
void wv_columns_density(size_t D, size_t n, double log_det, double nu, const double *r, double *log_q);
#endif
