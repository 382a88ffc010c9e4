/* gaussian.h - Gaussians q(z; theta) of three families, seen through a square root of their covariance.
 *
 * A Gaussian is a mean mu[D] and a root: a linear map A with covariance A A'. Whitened coordinates
 * y = A^-1 (z - mu) are standard normal.
 *     diag      A = diag(s)                                   root: s[D]
 *     full      A = L, lower Cholesky factor                  root: L[D][D]
 *     lowrank   A = diag(s) (I + Q'(e^1/2 - 1) Q)             root: s[D], e[R], Q[R][D] with orthonormal rows
 * The low-rank covariance is diag(s^2) plus a matrix of rank R that may widen (e > 1) or narrow (e < 1). */
#ifndef WV_GAUSSIAN_H
#define WV_GAUSSIAN_H
#include "arena.h"
#include "rng.h"
#include "wvgd.h"

enum {
    WV_DENSE = 128, /* up to this dimension, D x D matrices are formed for every family */
    WV_DEGREES = 64 /* of freedom that a Student-t may have */
};

typedef struct wv_family {
    const char *name;
    size_t (*size)(size_t D, size_t R);                        /* doubles in a root */
    double (*log_det)(size_t D, size_t R, const double *root); /* log |det A| */
    /* rows y -> A y, in place */
    void (*colour)(size_t D, size_t R, const double *root, size_t n, double *y, wv_arena *arena);
    void (*whiten)(size_t D, size_t R, const double *root, size_t n, double *x, wv_arena *arena); /* rows x -> A^-1 x */
    void (*pull)(size_t D, size_t R, const double *root, size_t n, double *g, wv_arena *arena);   /* rows g -> A' g */
    /* rows y -> A'^-1 y; -A'^-1 y = grad log q */
    void (*push)(size_t D, size_t R, const double *root, size_t n, double *y, wv_arena *arena);
    void (*set_sd)(size_t D, size_t R, double *root, const double *sd); /* diagonal covariance sd^2 */
    void (*sd)(size_t D, size_t R, const double *root, double *sd);     /* marginal standard deviations */
    /* Takes the covariance C[D][D] in the current whitened coordinates (the current one is I
     * there); C is destroyed. */
    bool (*absorb)(size_t D, size_t R, double *root, double *C, wv_arena *arena);
} wv_family;

const wv_family *wv_family_get(wvgd_family family);

/* A view of one Gaussian, or with nu > 0 of the Student-t of nu degrees of freedom, a whole number up to
 * WV_DEGREES, with that location and root. */
typedef struct {
    const wv_family *family;
    size_t D, R;
    const double *mu; /* [D] */
    const double *root;
    double nu;
} wv_gaussian;

/* y[n][D] = A^-1 (x - mu). */
void wv_gaussian_whiten(const wv_gaussian *q, size_t n, const double *x, double *y, wv_arena *arena);

/* log q(x_i); y: [n][D] scratch, left whitened. */
void wv_gaussian_log_density(const wv_gaussian *q, size_t n, const double *x, double *log_q, double *y,
                             wv_arena *arena);

/* x[n][D]: draws first .. first + n of a stream; antithetic: draws 2i and 2i+1 mirror each other. */
void wv_gaussian_draw(const wv_gaussian *q, const wv_stream *stream, uint64_t first, size_t n, bool antithetic,
                      double *x, wv_arena *arena);

/* Covariance [D][D] of the untruncated Gaussian. */
void wv_gaussian_cov(const wv_gaussian *q, double *cov, wv_arena *arena);

/* Moves the covariance behind root (diag or full) by the share `keep` towards that of the points x[n][D] with
 * weights w (summing to 1) about centre. y: [n][D]; C: [D][D] (full). */
void wv_gaussian_follow(const wv_family *family, size_t D, double *root, const double *centre, size_t n,
                        const double *x, const double *w, double keep, double *y, double *C, wv_arena *arena);
#endif
