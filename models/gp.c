/* gp.c - hyperparameters theta = (log A, log f, log s, log B) of a Gaussian process: y ~ N(0, K),
 *     K_ij = k_ij + B [i = j],   k_ij = A exp(-(t_i - t_j)^2 / (2 s^2)) cos(2 pi f (t_i - t_j)) (1 + 1e-10 [i = j]),
 * with independent normal priors of theta. The 1e-10 keeps K positive definite to working precision when B is tiny and times are close; it is part of
 * the model, so the gradient is exact. With K = L L' and alpha = K^-1 y,
 *     log p(y) = -|L^-1 y|^2 / 2 - sum log L_ii - n log(2 pi) / 2,    d log p(y) / d theta = tr((alpha alpha' - K^-1) dK / d theta) / 2,
 *     dk / d log A = k,   dk / d log f = -A exp(...) sin(2 pi f dt) 2 pi f dt,   dk / d log s = k dt^2 / s^2,   dK / d log B = B I.
 * Where K cannot be formed or is not positive definite the log density is -INFINITY. */
#include "density.h"
#include "lanes.h"
#include "models.h"
#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 4 };
static const double TWO_PI = 6.283185307179586, JITTER = 1e-10;
static const char *const NAMES[PARAMETERS] = {"log_A", "log_f", "log_s", "log_B"};

typedef struct {
    size_t n;
    wv_gp_prior prior;
    double *t, *y; /* [n] times from the middle of their range, values */
    double store[];
} gp;

/* One point and its work. */
typedef struct {
    double A, omega, B, inverse_s2; /* omega = 2 pi f */
    double *K;     /* [n][n] lower half: covariance, then its factor, then its inverse */
    double *decay; /* [n][n] below the diagonal: A exp(-dt^2 / (2 s^2)) */
    double *cosine, *sine; /* [n] of omega t_i: cos and sin of differences follow from them */
    double *alpha; /* [n] L^-1 y, then K^-1 y */
} point;

static double prior(const gp *g, const double *z, double *grad)
{
    double log_p = 0.0;
    for (size_t d = 0; d < PARAMETERS; d++) {
        double u = (z[d] - g->prior.mean[d]) / g->prior.sd[d];
        log_p -= 0.5 * u * u + log(g->prior.sd[d]) + 0.5 * WV_LOG_2PI;
        if (grad)
            grad[d] = -u / g->prior.sd[d];
    }
    return log_p;
}

/* The lower half of K. */
static void fill_covariance(const gp *g, point *p)
{
    size_t n = g->n;
    for (size_t i = 0; i < n; i++) {
        p->cosine[i] = cos(p->omega * g->t[i]);
        p->sine[i] = sin(p->omega * g->t[i]);
    }
    for (size_t i = 0; i < n; i++) {
        double *K = p->K + i * n, *decay = p->decay + i * n;
        for (size_t j = 0; j < i; j += WV_LANES) {
            wv_lanes dt = g->t[i] - wv_lanes_load(g->t + j, i - j, 0.0);
            wv_lanes_store(decay + j, i - j, p->A * wv_lanes_exp_minus(0.5 * p->inverse_s2 * dt * dt));
        }
        for (size_t j = 0; j < i; j++)
            K[j] = decay[j] * (p->cosine[i] * p->cosine[j] + p->sine[i] * p->sine[j]);
        K[i] = p->A * (1.0 + JITTER) + p->B;
    }
}

/* tr((alpha alpha' - K^-1) dK / d theta) / 2: below the diagonal each pair counts twice. */
static void add_gradient(const gp *g, const point *p, double *grad)
{
    size_t n = g->n;
    double by_A = 0.0, by_f = 0.0, by_s = 0.0, trace = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double *inverse = p->K + i * n, *decay = p->decay + i * n;
        for (size_t j = 0; j < i; j++) {
            double dt = g->t[i] - g->t[j], weight = (p->alpha[i] * p->alpha[j] - inverse[j]) * decay[j];
            double k = weight * (p->cosine[i] * p->cosine[j] + p->sine[i] * p->sine[j]);
            by_A += k;
            by_s += k * dt * dt;
            by_f -= weight * (p->sine[i] * p->cosine[j] - p->cosine[i] * p->sine[j]) * dt;
        }
        trace += p->alpha[i] * p->alpha[i] - inverse[i];
    }
    grad[0] += by_A + 0.5 * trace * p->A * (1.0 + JITTER);
    grad[1] += by_f * p->omega;
    grad[2] += by_s * p->inverse_s2;
    grad[3] += 0.5 * trace * p->B;
}

static double evaluate(const gp *g, const double *z, double *grad, point *p)
{
    lapack_int n = (lapack_int)g->n;
    p->A = exp(z[0]);
    p->omega = TWO_PI * exp(z[1]);
    p->inverse_s2 = exp(-2.0 * z[2]);
    p->B = exp(z[3]);
    if (!isfinite(p->A) || !isfinite(p->omega) || !isfinite(p->inverse_s2) || !isfinite(p->B))
        return -INFINITY;
    fill_covariance(g, p);
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', n, p->K, n) != 0) /* row-major: the lower half */
        return -INFINITY;
    double log_p = prior(g, z, grad) - 0.5 * (double)g->n * WV_LOG_2PI;
    for (size_t i = 0; i < g->n; i++)
        log_p -= log(p->K[i * g->n + i]);
    memcpy(p->alpha, g->y, g->n * sizeof *p->alpha);
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, n, p->K, n, p->alpha, 1);
    log_p -= 0.5 * cblas_ddot(n, p->alpha, 1, p->alpha, 1);
    if (!grad)
        return log_p;
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, n, p->K, n, p->alpha, 1);
    if (LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'U', n, p->K, n) != 0)
        return -INFINITY;
    add_gradient(g, p, grad);
    return log_p;
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const gp *g = self;
    double *work = calloc(2 * g->n + 3, g->n * sizeof *work);
    if (!work)
        return -1;
    point p = {.K = work, .decay = work + g->n * g->n, .cosine = work + 2 * g->n * g->n};
    p.sine = p.cosine + g->n;
    p.alpha = p.sine + g->n;
    for (size_t i = 0; i < n; i++)
        log_p[i] = evaluate(g, z + i * PARAMETERS, grad ? grad + i * PARAMETERS : NULL, &p);
    wv_density_reject(n, PARAMETERS, log_p, grad);
    free(work);
    return 0;
}

/* A draw from the prior. */
static void start(void *self, const double *normal, double *z)
{
    const gp *g = self;
    for (size_t d = 0; d < PARAMETERS; d++)
        z[d] = g->prior.mean[d] + g->prior.sd[d] * normal[d];
}

int wv_model_gp(wvgd_model *model, size_t n, const double *t, const double *y, const wv_gp_prior *prior_of_theta)
{
    gp *g;
    if (n == 0 || n > INT_MAX || !(g = malloc(sizeof *g + 2 * n * sizeof(double))))
        return -1;
    *g = (gp){.n = n, .prior = *prior_of_theta, .t = g->store, .y = g->store + n};
    double lowest = t[0], highest = t[0];
    for (size_t i = 0; i < n; i++) {
        lowest = fmin(lowest, t[i]);
        highest = fmax(highest, t[i]);
    }
    for (size_t i = 0; i < n; i++)
        g->t[i] = t[i] - (0.5 * lowest + 0.5 * highest);
    memcpy(g->y, y, n * sizeof *y);
    *model = (wvgd_model){.name = "gp", .dim = PARAMETERS, .log_density = log_density, .self = g, .has_gradient = true, .thread_safe = true,
                          .names = NAMES, .close = free, .start = start, .start_self = g};
    return 0;
}
