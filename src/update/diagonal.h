/* diagonal.h - the natural step of diagonal components, coordinate by coordinate. */
#ifndef WV_DIAGONAL_H
#define WV_DIAGONAL_H
#include "update/step.h"

/* The step of a component that its cell truncates, with more points than dimensions. slope: [D] that of the
 * gradient, less that of log q_j, on y, or NULL: coordinate by coordinate. */
wv_update_result wv_diagonal_truncated(const wv_step *s, const wv_update *c, const double *slope);

/* Steps of the mean along a full covariance, c->precondition: step = B B' d0 with B = diag(1/s)
 * L0; returns |B' d0|^2. */
double wv_diagonal_precondition(const wv_update *c, size_t D, const double *d0, double *step);

/* The step of any diagonal component in many dimensions, or with few points. */
wv_update_result wv_diagonal_large(const wv_step *s, const wv_update *c);
#endif
