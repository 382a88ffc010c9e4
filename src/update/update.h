/* update.h - the estimators of the component update. */
#ifndef WV_UPDATE_H
#define WV_UPDATE_H
#include "gaussian.h"
#include "wvgd.h"

struct wv_update;

/* Moments of points y = A^-1 (x - mu), A the component's root, and of the gradients there, under
 * weights that stand for q_j. */
typedef struct wv_update_moments {
    double *mean, *cov;   /* [D], [D][D] */
    double *grad, *cross; /* [D] mean of the gradients; [D][D] Cov(y_i, gradient_k) */
    bool relative;        /* the gradients are those of log p~ - log q_j */
    /* [D][D] Cov(gradient), lower half; needed now and then */
    void (*spread)(wvgd_fit *f, const struct wv_update *c, const struct wv_update_moments *m, double *cov);
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
    bool truncated;                   /* the cell cuts q_j noticeably */
    const double *precondition;       /* Cholesky factor [D][D] of a full covariance for the steps of a diagonal
                                       * component's mean, or NULL */
    double rho;                       /* share of the step to take */
    double *adam;                     /* [2][D + root size] moments (reparam) */
    size_t time;                      /* iterations so far, from 1 (reparam) */
} wv_update;

typedef struct {
    bool ok;   /* false: nothing sensible could be estimated, the component is unchanged */
    double kl; /* nats between the component and the full step */
} wv_update_result;

/* One step of the component. */
wv_update_result wv_update_component(wvgd_fit *f, const wv_update *c);

/* The estimates behind a step, for D = 1 and tests: gradient of ELBO_j in (mu, log sigma), and the natural
 * parameters (coefficients of z and z^2) that the step aims at. */
void wv_update_target_1d(wvgd_fit *f, const wv_update *c, double gradient[2], double natural[2]);
#endif
