/* step.h - what the estimators of the component update share: a component with the points that stand for it, and what
 * a step works with. */
#ifndef WV_STEP_H
#define WV_STEP_H
#include "arena.h"
#include "gaussian.h"
#include "policy.h"
#include "wvgd.h"
#include <stdbool.h>

struct wv_step;
struct wv_update;

/* Moments of points y = A^-1 (x - mu), A the component's root, and of the gradients there, under
 * weights that stand for q_j. */
typedef struct wv_update_moments {
    double *mean, *cov;   /* [D], [D][D] */
    double *grad, *cross; /* [D] mean of the gradients; [D][D] Cov(y_i, gradient_k) */
    bool relative;        /* the gradients are those of log p~ - log q_j */
    /* [D][D] Cov(gradient), lower half; needed now and then. NULL: it comes from the points at hand. */
    void (*grad_cov)(const struct wv_step *s, const struct wv_update *c, const struct wv_update_moments *m,
                     double *cov);
} wv_update_moments;

/* A component and the weighted points that stand for q_j: everything an estimator needs. */
typedef struct wv_update {
    wvgd_estimator estimator;
    const wv_family *family;
    size_t R;
    double *mu, *root; /* in: current, out: next */
    size_t n;
    const double *x, *log_p, *grad; /* [n][D], [n], [n][D] (NULL without gradients): what the component is fitted to */
    const double *u;                /* [n] normalised weights: expectations under q_j */
    const wv_update_moments *moments; /* in place of x, log_p and grad, for natural steps of full components that
                                       * are not truncated; or NULL */
    double ess;                       /* of u */
    bool truncated;                   /* the cell cuts q_j noticeably, */
    bool ended;                       /* and so does the end of the density */
    const double *precondition;       /* Cholesky factor [D][D] of a full covariance for the steps of a diagonal
                                       * component's mean, or NULL */
    double rho;                       /* share of the step to take */
    double *adam;                     /* [2][D + root size] moments (reparam) */
    size_t time;                      /* iterations so far, from 1 (reparam) */
} wv_update;

static inline bool wv_update_diagonal(const wv_update *c)
{
    return c->family == wv_family_get(WVGD_DIAG);
}

/* What the precision of a truncated component keeps, in units of its cell. */
static inline double wv_update_floor(const wv_update *c)
{
    return c->ended ? wv_policy.update_flattest_ended : wv_policy.update_flattest;
}

typedef struct {
    bool ok;   /* false: nothing sensible could be estimated, the component is unchanged */
    double kl; /* nats between the component and the full step */
} wv_update_result;

/* What a step works with beside the component. */
typedef struct wv_step {
    size_t D;
    bool dense;               /* D x D matrices are formed */
    size_t most_coefficients; /* of a residual regression */
    wv_arena *arena;
    size_t *limits; /* counts steps undone because the component would have left the range of numbers */
} wv_step;

enum { WV_STEP_ROWS = 256 }; /* points whose statistics are held at once */
#endif
