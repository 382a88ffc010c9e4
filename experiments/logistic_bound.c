/* logistic_bound.c - exact variational bounds of Bayesian logistic regression and their optima.
 *
 * softplus(f) = max(f, 0) + log1p(exp(-|f|)). The first part has the closed expectation m Phi(m/s) + s phi(m/s)
 * under N(m, s^2); the second is smooth on either side of 0 and gone beyond |f| = 40, so it is integrated there by a
 * composite Gauss-Legendre rule with panels no wider than min(1, s) in f. The same split serves
 * sigmoid(f) = 1[f > 0] - sign(f) sigmoid(-|f|).
 *
 * With E_k = E softplus^(k)(f_i) and var_i = |L' x_i|^2: d E_k / d mean = E_{k+1}, d E_k / d var = E_{k+2} / 2.
 * Best full Gaussian: precision = I + X' diag(E_2) X and X'(y - E_1) = mu. Best diagonal one: the root of
 *     g_mu = X'(y - E_1) - mu,    g_sd = 1 / sd - sd (1 + sum_i x_i^2 E_2),
 * whose Jacobian, with u_i = x_i^2 sd (by coordinate), is minus
 *     [ I + X' diag(E_2) X     X' diag(E_3) U                                          ]
 *     [ .                      diag(1 / sd^2 + 1 + sum_i x_i^2 E_2) + U' diag(E_4) U   ]. */
#include "logistic_bound.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- expectations over one normal variable ----------------------------------------------------------------------- */
/* Half of the Gauss-Legendre rule with 16 nodes on [-1, 1]. */
enum { HALF = 8 };
static const double node[HALF] = {0.0950125098376374402, 0.2816035507792589132, 0.4580167776572273863,
                                  0.6178762444026437484, 0.7554044083550030339, 0.8656312023878317439,
                                  0.9445750230732325761, 0.9894009349916499326};
static const double node_weight[HALF] = {0.1894506104550684963, 0.1826034150449235889, 0.1691565193950025382,
                                         0.1495959888165767321, 0.1246289712555338721, 0.0951585116824927848,
                                         0.0622535239386478929, 0.0271524594117540949};

static double normal_pdf(double x)
{
    return 0.3989422804014327 * exp(-0.5 * x * x);
}

/* Adds `mass` times the parts of softplus and its derivatives at f that decay with |f|. */
static void add_point(logistic_expectation *e, double f, double mass)
{
    double t = exp(-fabs(f)), far = t / (1.0 + t), slope = far / (1.0 + t); /* sigmoid(-|f|), sigmoid' */
    e->softplus += mass * log1p(t);
    e->sigmoid -= mass * copysign(far, f);
    e->slope += mass * slope;
    e->bend -= mass * slope * copysign(1.0 - 2.0 * far, f);
    e->twist += mass * slope * (1.0 - 6.0 * slope);
}

/* Adds the integral over y = (f - mean)/sd in [lo, hi], where f keeps its sign. */
static void add_decaying(logistic_expectation *e, double mean, double sd, double lo, double hi)
{
    if (lo >= hi)
        return;
    size_t panels = (size_t)ceil((hi - lo) * fmax(1.0, sd));
    double half = 0.5 * (hi - lo) / (double)panels;
    for (size_t p = 0; p < panels; p++)
        for (int i = 0; i < 2 * HALF; i++) {
            double y = lo + half * (double)(2 * p + 1) + half * (i < HALF ? node[i] : -node[i - HALF]);
            add_point(e, mean + sd * y, half * node_weight[i % HALF] * normal_pdf(y));
        }
}

logistic_expectation logistic_expect(double mean, double sd)
{
    const double reach = 12.0, far = 40.0; /* mass beyond 12 sd, and exp(-40), are below 1e-17 */
    if (sd <= 0.0) {
        logistic_expectation e = {fmax(mean, 0.0), mean > 0.0 ? 1.0 : 0.0, 0.0, 0.0, 0.0};
        add_point(&e, mean > 0.0 ? mean : -fabs(mean), 1.0);
        return e;
    }
    double above = 0.5 * erfc(-mean / sd * 0.7071067811865476);
    logistic_expectation e = {mean * above + sd * normal_pdf(mean / sd), above, 0.0, 0.0, 0.0};
    add_decaying(&e, mean, sd, fmax((-far - mean) / sd, -reach), fmin(-mean / sd, reach));
    add_decaying(&e, mean, sd, fmax(-mean / sd, -reach), fmin((far - mean) / sd, reach));
    return e;
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */
/* f_i under a diagonal Gaussian. */
static logistic_expectation expect_diag(const logistic_data *data, size_t i, const double *mu, const double *sd,
                                        double *mean)
{
    const double *x = data->X + i * data->D;
    double var = 0.0;
    *mean = 0.0;
    for (size_t d = 0; d < data->D; d++) {
        *mean += x[d] * mu[d];
        var += x[d] * x[d] * sd[d] * sd[d];
    }
    return logistic_expect(*mean, sqrt(var));
}

double logistic_elbo_diag(const logistic_data *data, const double *mu, const double *sd)
{
    double elbo = 0.0, mean;
    for (size_t i = 0; i < data->n; i++) {
        double softplus = expect_diag(data, i, mu, sd, &mean).softplus;
        elbo += data->y[i] * mean - softplus;
    }
    for (size_t d = 0; d < data->D; d++)
        elbo -= 0.5 * (mu[d] * mu[d] + sd[d] * sd[d] - 1.0) - log(sd[d]);
    return elbo;
}

/* |L' x| */
static double predictor_sd(size_t D, const double *chol, const double *x)
{
    double var = 0.0;
    for (size_t d = 0; d < D; d++) {
        double sum = 0.0;
        for (size_t i = d; i < D; i++)
            sum += chol[i * D + d] * x[i];
        var += sum * sum;
    }
    return sqrt(var);
}

double logistic_elbo_full(const logistic_data *data, const double *mu, const double *chol)
{
    size_t D = data->D;
    double elbo = 0.0;
    for (size_t i = 0; i < data->n; i++) {
        const double *x = data->X + i * D;
        double mean = cblas_ddot((int)D, x, 1, mu, 1);
        elbo += data->y[i] * mean - logistic_expect(mean, predictor_sd(D, chol, x)).softplus;
    }
    for (size_t i = 0; i < D; i++) {
        elbo -= 0.5 * (mu[i] * mu[i] - 1.0) - log(chol[i * D + i]);
        for (size_t j = 0; j <= i; j++)
            elbo -= 0.5 * chol[i * D + j] * chol[i * D + j];
    }
    return elbo;
}

/* ---- the best diagonal Gaussian ---------------------------------------------------------------------------------- */
/* gradient[2D] of the bound at z = (mu, sd), and lower half of minus its Hessian, curvature[2D][2D]. u: [D] work. */
static void diag_terms(const logistic_data *data, const double *z, double *gradient, double *curvature, double *u)
{
    size_t D = data->D, W = 2 * D;
    const double *mu = z, *sd = z + D;
    double mean;
    memset(curvature, 0, W * W * sizeof *curvature);
    for (size_t d = 0; d < D; d++) {
        gradient[d] = -mu[d];
        gradient[D + d] = 1.0 / sd[d] - sd[d];
        curvature[d * W + d] = 1.0;
        curvature[(D + d) * W + D + d] = 1.0 / (sd[d] * sd[d]) + 1.0;
    }
    for (size_t i = 0; i < data->n; i++) {
        const double *x = data->X + i * D;
        logistic_expectation e = expect_diag(data, i, mu, sd, &mean);
        for (size_t d = 0; d < D; d++) {
            u[d] = x[d] * x[d] * sd[d];
            gradient[d] += x[d] * (data->y[i] - e.sigmoid);
            gradient[D + d] -= u[d] * e.slope;
            curvature[(D + d) * W + D + d] += x[d] * x[d] * e.slope;
        }
        cblas_dger(CblasRowMajor, (int)D, (int)D, e.slope, x, 1, x, 1, curvature, (int)W);
        cblas_dger(CblasRowMajor, (int)D, (int)D, e.bend, u, 1, x, 1, curvature + D * W, (int)W);
        cblas_dger(CblasRowMajor, (int)D, (int)D, e.twist, u, 1, u, 1, curvature + D * W + D, (int)W);
    }
}

/* next = z + rho step, with sds that stay positive: by at most the factor exp(rho step / sd) where they would fall. */
static void move_diag(size_t D, const double *z, double rho, const double *step, double *next)
{
    for (size_t d = 0; d < 2 * D; d++) {
        double change = rho * step[d];
        next[d] = d < D || change > 0.0 ? z[d] + change : z[d] * exp(change / z[d]);
    }
}

/* Climbs from z[2D]; true when the gain that Newton's step promises is nothing. work: 4D^2 + 5D. */
static bool climb_diag(const logistic_data *data, double *z, double *elbo, double *work)
{
    size_t D = data->D, W = 2 * D;
    double *curvature = work, *step = work + W * W, *next = step + W, *u = next + W;
    *elbo = logistic_elbo_diag(data, z, z + D);
    for (int iteration = 0; iteration < 500; iteration++) {
        diag_terms(data, z, step, curvature, u);
        memcpy(next, step, W * sizeof *next);
        if (LAPACKE_dposv(LAPACK_ROW_MAJOR, 'L', (lapack_int)W, 1, curvature, (lapack_int)W, step, 1) != 0)
            return false;
        if (cblas_ddot((int)W, next, 1, step, 1) < 1e-13)
            return true;
        double rho = 1.0, gained = -1.0;
        for (; rho > 1e-10 && !(gained > 0.0); rho *= 0.5) {
            move_diag(D, z, rho, step, next);
            gained = logistic_elbo_diag(data, next, next + D) - *elbo;
        }
        if (!(gained > 0.0))
            return rho < 1e-10 && cblas_ddot((int)W, step, 1, step, 1) < 1e-8; /* at the limit of rounding */
        memcpy(z, next, W * sizeof *z);
        *elbo += gained;
    }
    return false;
}

double logistic_meanfield(const logistic_data *data, double *mu, double *sd)
{
    size_t D = data->D;
    double *work = calloc(4 * D * D + 7 * D, sizeof *work), elbo = (double)NAN;
    if (!work)
        return elbo;
    double *z = work + 4 * D * D + 5 * D;
    for (size_t d = 0; d < D; d++) /* narrow enough for every predictor to be known to about 1 */
        z[D + d] = 1.0 / sqrt(1.0 + 0.25 * pow(cblas_dnrm2((int)data->n, data->X + d, (int)D), 2.0));
    if (climb_diag(data, z, &elbo, work)) {
        memcpy(mu, z, D * sizeof *mu);
        memcpy(sd, z + D, D * sizeof *sd);
    } else
        elbo = (double)NAN;
    free(work);
    return elbo;
}

/* ---- the best full Gaussian -------------------------------------------------------------------------------------- */
/* chol of the inverse of precision, both [D][D] */
static bool factor_inverse(size_t D, const double *precision, double *chol)
{
    lapack_int n = (lapack_int)D;
    memcpy(chol, precision, D * D * sizeof *chol);
    return LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', n, chol, n) == 0 &&
           LAPACKE_dpotri(LAPACK_ROW_MAJOR, 'L', n, chol, n) == 0 &&
           LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', n, chol, n) == 0;
}

/* What Newton's step needs at N(mu, chol chol'): gradient[D] = X'(y - E sigmoid) - mu,
 * curvature[D][D] = I + X' diag(E sigmoid') X. */
static void newton_terms(const logistic_data *data, const double *mu, const double *chol, double *gradient,
                         double *curvature)
{
    size_t D = data->D;
    memset(curvature, 0, D * D * sizeof *curvature);
    for (size_t d = 0; d < D; d++) {
        gradient[d] = -mu[d];
        curvature[d * D + d] = 1.0;
    }
    for (size_t i = 0; i < data->n; i++) {
        const double *x = data->X + i * D;
        logistic_expectation e = logistic_expect(cblas_ddot((int)D, x, 1, mu, 1), predictor_sd(D, chol, x));
        cblas_daxpy((int)D, data->y[i] - e.sigmoid, x, 1, gradient, 1);
        cblas_dger(CblasRowMajor, (int)D, (int)D, e.slope, x, 1, x, 1, curvature, (int)D);
    }
}

/* A Gaussian on the way to the optimum. */
typedef struct {
    double *mu;        /* [D] */
    double *precision; /* [D][D] */
    double *chol;      /* [D][D] lower factor of the covariance */
    double elbo;
} gaussian;

/* next = now moved by a share rho towards the fixed point: precision mixed with the curvature, mu by rho C gradient. */
static bool move_full(const logistic_data *data, double rho, const gaussian *now, const double *gradient,
                      const double *curvature, gaussian *next)
{
    size_t D = data->D;
    for (size_t i = 0; i < D * D; i++)
        next->precision[i] = (1.0 - rho) * now->precision[i] + rho * curvature[i];
    if (!factor_inverse(D, next->precision, next->chol))
        return false;
    memcpy(next->mu, gradient, D * sizeof *gradient);
    cblas_dtrmv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)D, next->chol, (int)D, next->mu, 1);
    cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, next->chol, (int)D, next->mu, 1);
    for (size_t d = 0; d < D; d++)
        next->mu[d] = now->mu[d] + rho * next->mu[d];
    next->elbo = logistic_elbo_full(data, next->mu, next->chol);
    return true;
}

/* Climbs from *now with *next as its other half; rho halves when the bound falls and doubles
 * again. True when it has settled. */
static bool climb_full(const logistic_data *data, gaussian *now, gaussian *next, double *gradient, double *curvature)
{
    double rho = 1.0;
    for (int iteration = 0; iteration < 1000 && rho > 1e-6; iteration++) {
        newton_terms(data, now->mu, now->chol, gradient, curvature);
        if (!move_full(data, rho, now, gradient, curvature, next))
            return false;
        double gain = next->elbo - now->elbo;
        if (rho > 0.1 && fabs(gain) < 1e-12 * fabs(now->elbo))
            return true;
        if (gain > 0.0) {
            gaussian swap = *now;
            *now = *next;
            *next = swap;
        }
        rho = gain > 0.0 ? fmin(1.0, 2.0 * rho) : 0.5 * rho;
    }
    return false;
}

double logistic_fullrank(const logistic_data *data, double *mu, double *chol)
{
    size_t D = data->D, size = D + 2 * D * D;
    double *work = calloc(2 * size + D + D * D, sizeof *work), elbo = (double)NAN;
    if (!work)
        return elbo;
    double *other = work + size, *gradient = other + size, *curvature = gradient + D;
    gaussian now = {work, work + D, work + D + D * D, 0.0}, next = {other, other + D, other + D + D * D, 0.0};
    for (size_t d = 0; d < D; d++)
        now.precision[d * D + d] = now.chol[d * D + d] = 1.0;
    now.elbo = logistic_elbo_full(data, now.mu, now.chol);
    if (climb_full(data, &now, &next, gradient, curvature)) {
        elbo = now.elbo;
        memcpy(mu, now.mu, D * sizeof *mu);
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++)
                chol[i * D + j] = j <= i ? now.chol[i * D + j] : 0.0;
    }
    free(work);
    return elbo;
}
