/* gp.c - hyperparameters theta = (log A, log f, log s, log B) of a Gaussian process: y ~ N(0, K),
 *     K_ij = k_ij + B [i = j],   k_ij = A exp(-(t_i - t_j)^2 / (2 s^2)) cos(2 pi f (t_i - t_j)) (1 + 1e-10 [i = j]),
 * with independent normal priors of theta. The 1e-10 keeps K positive definite to working precision when B is tiny
 * and times are close; it is part of the model, so the gradient is exact. With K = L L' and alpha = K^-1 y,
 *     log p(y) = -|L^-1 y|^2 / 2 - sum log L_ii - n log(2 pi) / 2,
 *     d log p(y) / d theta = tr((alpha alpha' - K^-1) dK / d theta) / 2,
 *     dk / d log A = k,   dk / d log f = -A exp(...) sin(2 pi f dt) 2 pi f dt,
 *     dk / d log s = k dt^2 / s^2,   dK / d log B = B I.
 * Where K cannot be formed or is not positive definite the log density is -INFINITY. Covariances
 * below 1e-100 A are taken for 0. */
#include "density.h"
#include "models.h"
#include "pass.h"
#include "scratch.h"
#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 4, SMALL = 16 }; /* SMALL: triangles that LAPACK inverts at once */
static const double TWO_PI = 6.283185307179586, JITTER = 1e-10;
static const char *const NAMES[PARAMETERS] = {"log_A", "log_f", "log_s", "log_B"};

typedef struct {
    size_t n, padded; /* n, up to a multiple of WV_PASS_WIDTH */
    wv_gp_prior prior;
    double *t, *y; /* [padded] times from the middle of their range, values; then 0 */
    const wv_pass *pass;
    wv_scratch scratch;
    double store[];
} gp;

/* One point and its work. */
typedef struct {
    double A, omega, B, inverse_s2; /* omega = 2 pi f */
    double *K;                      /* [n][padded] lower half: covariance, then its factor, then its inverse */
    double *decay;                  /* [n][padded] below the diagonal: A exp(-dt^2 / (2 s^2)), else 0 */
    double *cosine, *sine;          /* [padded] of omega t_i: cos and sin of differences follow from them */
    double *alpha;                  /* [padded] L^-1 y, then K^-1 y */
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

static wv_pass_time time_at(const gp *g, const point *p, size_t i)
{
    return (wv_pass_time){g->t + i, p->cosine + i, p->sine + i, p->alpha + i};
}

/* The lower half of K. */
static void fill_covariance(const gp *g, point *p)
{
    size_t ld = g->padded;
    wv_pass_process process = {p->A, 0.5 * p->inverse_s2};
    wv_pass_time all = time_at(g, p, 0);
    for (size_t i = 0; i < ld; i++) {
        p->cosine[i] = cos(p->omega * g->t[i]);
        p->sine[i] = sin(p->omega * g->t[i]);
    }
    for (size_t i = 0; i < g->n; i++) {
        double *K = p->K + i * ld, *decay = p->decay + i * ld;
        size_t width = wv_pass_width(i);
        wv_pass_time at = time_at(g, p, i);
        g->pass->covariance(width, &process, &at, &all, decay, K);
        for (size_t j = i; j < width; j++)
            decay[j] = K[j] = 0.0;
        K[i] = p->A * (1.0 + JITTER) + p->B;
    }
}

/* tr((alpha alpha' - K^-1) dK / d theta) / 2: below the diagonal each pair counts twice. */
static void add_gradient(const gp *g, const point *p, double *grad)
{
    double sums[3] = {0.0}, trace = 0.0; /* by log A, log s, log f, but for factors */
    wv_pass_time all = time_at(g, p, 0);
    for (size_t i = 0; i < g->n; i++) {
        const double *inverse = p->K + i * g->padded;
        wv_pass_time at = time_at(g, p, i);
        g->pass->covariance_back(wv_pass_width(i), &at, &all, p->decay + i * g->padded, inverse, sums);
        trace += p->alpha[i] * p->alpha[i] - inverse[i];
    }
    grad[0] += sums[0] + 0.5 * trace * p->A * (1.0 + JITTER);
    grad[1] -= sums[2] * p->omega;
    grad[2] += sums[1] * p->inverse_s2;
    grad[3] += 0.5 * trace * p->B;
}

/* Inverts the lower triangular L [n][ld] in place, by halves: of [A 0; B C] that is [A^-1 0; -C^-1 B A^-1 C^-1].
 * (LAPACK's dtrtri inverts blocks of 64 with vector operations: three times slower for 100 rows.) */
static void invert_triangle(size_t n, size_t ld, double *L)
{
    if (n <= SMALL) {
        /* row-major: the lower half */
        LAPACKE_dtrtri_work(LAPACK_COL_MAJOR, 'U', 'N', (lapack_int)n, L, (lapack_int)ld);
        return;
    }
    size_t half = wv_pass_width(n / 2), rest = n - half;
    double *B = L + half * ld, *C = B + half;
    invert_triangle(half, ld, L);
    invert_triangle(rest, ld, C);
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)rest, (int)half, -1.0, L,
                (int)ld, B, (int)ld);
    cblas_dtrmm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)rest, (int)half, 1.0, C, (int)ld,
                B, (int)ld);
}

static double evaluate(const gp *g, const double *z, double *grad, point *p)
{
    size_t n = g->n, ld = g->padded;
    int rows = (int)n, stride = (int)ld;
    p->A = exp(z[0]);
    p->omega = TWO_PI * exp(z[1]);
    p->inverse_s2 = exp(-2.0 * z[2]);
    p->B = exp(z[3]);
    if (!isfinite(p->A) || !isfinite(p->omega) || !isfinite(p->inverse_s2) || !isfinite(p->B))
        return -INFINITY;
    fill_covariance(g, p);
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', rows, p->K, stride) != 0) /* row-major: the lower half */
        return -INFINITY;
    double log_p = prior(g, z, grad) - 0.5 * (double)n * WV_LOG_2PI;
    for (size_t i = 0; i < n; i++)
        log_p -= log(p->K[i * ld + i]);
    memcpy(p->alpha, g->y, ld * sizeof *p->alpha);
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, rows, p->K, stride, p->alpha, 1);
    log_p -= 0.5 * cblas_ddot(rows, p->alpha, 1, p->alpha, 1);
    if (!grad)
        return log_p;
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, rows, p->K, stride, p->alpha, 1);
    invert_triangle(n, ld, p->K);
    if (LAPACKE_dlauum_work(LAPACK_COL_MAJOR, 'U', rows, p->K, stride) != 0) /* K^-1 = L^-1' L^-1 */
        return -INFINITY;
    add_gradient(g, p, grad);
    return log_p;
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    gp *g = self;
    double *piece = wv_scratch_take(&g->scratch);
    if (!piece)
        return -1;
    point p = {.decay = piece, .K = piece + g->n * g->padded};
    p.cosine = p.K + g->n * g->padded;
    p.sine = p.cosine + g->padded;
    p.alpha = p.sine + g->padded;
    for (size_t i = 0; i < n; i++)
        log_p[i] = evaluate(g, z + i * PARAMETERS, grad ? grad + i * PARAMETERS : NULL, &p);
    wv_density_reject(n, PARAMETERS, log_p, grad);
    wv_scratch_give(&g->scratch, piece);
    return 0;
}

/* A draw from the prior. */
static void start(void *self, const double *normal, double *z)
{
    const gp *g = self;
    for (size_t d = 0; d < PARAMETERS; d++)
        z[d] = g->prior.mean[d] + g->prior.sd[d] * normal[d];
}

static void close_gp(void *self)
{
    gp *g = self;
    wv_scratch_close(&g->scratch);
    free(g);
}

int wv_model_gp(wvgd_model *model, size_t n, const double *t, const double *y, const wv_gp_prior *prior_of_theta)
{
    gp *g;
    size_t padded = wv_pass_width(n);
    if (n == 0 || n > INT_MAX || !(g = calloc(1, sizeof *g + 2 * padded * sizeof(double))))
        return -1;
    *g = (gp){.n = n,
              .padded = padded,
              .prior = *prior_of_theta,
              .t = g->store,
              .y = g->store + padded,
              .pass = wv_pass_best()};
    wv_scratch_open(&g->scratch, (2 * n + 3) * padded);
    double lowest = t[0], highest = t[0];
    for (size_t i = 0; i < n; i++) {
        lowest = fmin(lowest, t[i]);
        highest = fmax(highest, t[i]);
    }
    for (size_t i = 0; i < n; i++)
        g->t[i] = t[i] - (0.5 * lowest + 0.5 * highest);
    memcpy(g->y, y, n * sizeof *y);
    *model = (wvgd_model){.name = "gp",
                          .dim = PARAMETERS,
                          .log_density = log_density,
                          .self = g,
                          .has_gradient = true,
                          .thread_safe = true,
                          .names = NAMES,
                          .close = close_gp,
                          .start = start,
                          .start_self = g,
                          .work = (double)n * (double)n * ((double)n + 60)};
    return 0;
}
