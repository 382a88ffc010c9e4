/* quadratic.h - the quadratic that log p~ is most like under q_j, by least squares. */
#ifndef WV_QUADRATIC_H
#define WV_QUADRATIC_H
#include "update/step.h"

/* A quadratic that stands for log p~ under q_j, and what it is worked out from. */
typedef struct {
    size_t D;
    wv_update_moments m; /* of y and of the gradients */
    double keep, own;    /* M = keep cov + own I */
    double *M;           /* [D][D] covariance of the cell, shrunk, */
    double *W, *V;       /* [D][D] its lower root and the inverse of that (truncated or score) */
    double *C;           /* [D][D] Cov(gradient - that of log q_j, y), gradient in y, */
    double *X;      /* [D][D] curvature of the fitted quadratic relative to log q_j: the precision aimed at is I - X, */
    double *A;      /* [D][D] curvature of the quadratic in z (truncated or score), */
    double *E;      /* [D][D] eigenvectors, */
    double *Q;      /* [D][D] the new root in y */
    double *S, *S2; /* [D][D] products on the way */
    double *a0, *a1; /* [D] gradient of the quadratic at the mean, in y and in z */
    double *c;       /* [D] eigenvalues */
    double *change;  /* [D] of the slope: d0, */
    double *step;    /* [D] and what a full covariance makes of it (c->precondition) */
    double *delta;   /* [D] new location in y */
    double r2;       /* share of the variance of the gradient (or of log p~) that the quadratic explains;
                      * NAN: not worked out */
    double *y, *z;   /* [n][D] points less their mean, in y and in z (truncated or score) */
} wv_quadratic;

/* Room for one, from the arena: the caller marks it before and releases it afterwards. */
wv_quadratic wv_quadratic_room(const wv_step *s, const wv_update *c);

/* Fits (a0, X), with M, the moments and, for truncated components, W and V. False: no numbers. */
bool wv_quadratic_fit(const wv_step *s, const wv_update *c, wv_quadratic *l);

/* For a diagonal component that is truncated: the diagonal of X alone, slope[D], from the gradients alone. */
bool wv_quadratic_slopes(const wv_step *s, const wv_update *c, wv_quadratic *l, double *slope);

/* Works out l->r2, if it has not been. */
void wv_quadratic_explain(const wv_step *s, const wv_update *c, wv_quadratic *l);

/* zAz[n]: z'Az/2 at every point. */
void wv_quadratic_forms(const wv_step *s, const wv_update *c, const wv_quadratic *l, const double *A, double *zAz);
#endif
