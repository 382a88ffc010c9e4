/* update.h - the estimators of the component update. */
#ifndef WV_UPDATE_H
#define WV_UPDATE_H
#include "fit.h"

/* A component and the weighted points that stand for q_j: everything an estimator needs. */
typedef struct {
    wvgd_estimator estimator;
    const wv_family *family;
    size_t R;
    double *mu, *root;           /* in: current, out: next */
    size_t n;
    const double *x, *log_p, *grad; /* [n][D], [n], [n][D] (NULL without gradients): what the component is fitted to */
    const double *u;             /* [n] normalised weights: expectations under q_j */
    double ess;                  /* of u */
    bool truncated;              /* the cell cuts q_j noticeably */
    const double *precondition;  /* Cholesky factor [D][D] of a full covariance for the steps of a diagonal component's mean, or NULL */
    double rho;                  /* share of the step to take */
    double *adam;                /* [2][D + root size] moments (reparam) */
    size_t time;                 /* iterations so far, from 1 (reparam) */
} wv_update;

typedef struct {
    bool ok;    /* false: nothing sensible could be estimated, the component is unchanged */
    double kl;  /* nats between the component and the full step */
} wv_update_result;

/* One step of the component. */
wv_update_result wv_update_component(wvgd_fit *f, const wv_update *c);

/* The estimates behind a step, for D = 1 and tests: gradient of ELBO_j in (mu, log sigma), and the natural parameters (coefficients of z and
 * z^2) that the step aims at. */
void wv_update_target_1d(wvgd_fit *f, const wv_update *c, double gradient[2], double natural[2]);
#endif
