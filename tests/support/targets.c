/* targets.c - models with known truths, for tests.
 *
 * Gaussians, their mixtures and Student mixtures are one thing: sum_k w_k g(m_k(z)) with m_k the
 * squared Mahalanobis distance,
 *     log g = -m/2 - log|C|/2 - D log(2 pi)/2                                         Gaussian (nu = INFINITY), and
 *     log g = -(nu+D)/2 log(1 + m/nu) - log|C|/2 + lgamma((nu+D)/2) - lgamma(nu/2) - D log(nu pi)/2    Student.
 * A model's self is one allocation that begins with its target_truth, so that free() closes it. */
#include "targets.h"

#include <cblas.h>
#include <gsl/gsl_sf_psi.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test_random.h"

enum { BLOCK = 64 }; /* points that share a BLAS call */

static const double LOG_2PI = 1.8378770664093453;
static const double PI = 3.141592653589793;

target_truth target_truth_of(const wvgd_model *model)
{
    return *(const target_truth *)model->self;
}

static void fill_model(wvgd_model *model, const char *name, size_t D, wvgd_log_density *log_density, void *self)
{
    *model = (wvgd_model){.name = name,
                          .dim = D,
                          .log_density = log_density,
                          .self = self,
                          .has_gradient = true,
                          .batched = true,
                          .thread_safe = true,
                          .close = free};
}

/* ---- mixtures of Gaussians or Students --------------------------------------------------------------------------- */
typedef struct {
    target_truth truth;
    size_t D, K;
    double nu;          /* INFINITY: Gaussian */
    double *log_weight; /* [K] weight times the constant of the density */
    double *location;   /* [K][D] */
    double *chol;       /* [K][D][D] lower factor of the scale matrix, zeros above */
    double *mean, *cov; /* [D], [D][D] what truth points to */
    double store[];
} elliptic;

static elliptic *elliptic_new(size_t D, size_t K, double nu)
{
    elliptic *e = calloc(1, sizeof *e + (K + K * D + K * D * D + D + D * D) * sizeof(double));
    if (!e)
        return NULL;
    e->D = D;
    e->K = K;
    e->nu = nu;
    e->log_weight = e->store;
    e->location = e->log_weight + K;
    e->chol = e->location + K * D;
    e->mean = e->chol + K * D * D;
    e->cov = e->mean + D;
    return e;
}

/* Lower Cholesky factor of a [D][D], zeros above its diagonal; half its log determinant goes to *half_log_det. */
static bool factor(size_t D, const double *a, double *chol, double *half_log_det)
{
    memcpy(chol, a, D * D * sizeof *chol);
    if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', (lapack_int)D, chol, (lapack_int)D) != 0)
        return false;
    *half_log_det = 0.0;
    for (size_t i = 0; i < D; i++) {
        *half_log_det += log(chol[i * D + i]);
        for (size_t j = i + 1; j < D; j++)
            chol[i * D + j] = 0.0;
    }
    return true;
}

static double log_constant(size_t D, double nu, double half_log_det)
{
    double d = (double)D;
    if (isinf(nu))
        return -half_log_det - 0.5 * d * LOG_2PI;
    return -half_log_det + lgamma(0.5 * (nu + d)) - lgamma(0.5 * nu) - 0.5 * d * log(nu * PI);
}

/* mean = sum w m, cov = sum w (spread scale + m m') - mean mean', with normalised weights and spread = nu/(nu-2). */
static void elliptic_moments(elliptic *e, const double *weight, const double *scale)
{
    size_t D = e->D;
    double total = 0.0, spread = isinf(e->nu) ? 1.0 : e->nu / (e->nu - 2.0);
    for (size_t k = 0; k < e->K; k++)
        total += weight[k];
    e->truth.log_evidence = log(total);
    if (e->nu <= 2.0)
        return;
    for (size_t k = 0; k < e->K; k++)
        cblas_daxpy((int)D, weight[k] / total, e->location + k * D, 1, e->mean, 1);
    for (size_t k = 0; k < e->K; k++) {
        const double *m = e->location + k * D;
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++)
                e->cov[i * D + j] += weight[k] / total *
                                     (spread * scale[(k * D + i) * D + j] + (m[i] - e->mean[i]) * (m[j] - e->mean[j]));
    }
    e->truth.mean = e->mean;
    e->truth.cov = e->cov;
}

/* distance[i] = m_k(z_i) and pull[i] = C^-1 (z_i - m_k) for b points z. */
static void elliptic_distances(const elliptic *e, size_t k, size_t b, const double *z, double *distance, double *pull)
{
    size_t D = e->D;
    const double *m = e->location + k * D, *L = e->chol + k * D * D;
    for (size_t i = 0; i < b; i++)
        for (size_t d = 0; d < D; d++)
            pull[i * D + d] = z[i * D + d] - m[d];
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)b, (int)D, 1.0, L, (int)D, pull,
                (int)D);
    for (size_t i = 0; i < b; i++)
        distance[i] = cblas_ddot((int)D, pull + i * D, 1, pull + i * D, 1);
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)b, (int)D, 1.0, L, (int)D, pull,
                (int)D);
}

static double log_shape(double nu, double d, double m)
{
    return isinf(nu) ? -0.5 * m : -0.5 * (nu + d) * log1p(m / nu);
}

/* -2 d log g / d m */
static double shape_slope(double nu, double d, double m)
{
    return isinf(nu) ? 1.0 : (nu + d) / (nu + m);
}

/* log sum_k exp(log_g[k][i]); turns log_g[.][i] into responsibilities. */
static double responsibilities(size_t K, double *log_g, size_t i)
{
    double top = -INFINITY, sum = 0.0;
    for (size_t k = 0; k < K; k++)
        top = fmax(top, log_g[k * BLOCK + i]);
    if (isinf(top))
        return -INFINITY;
    for (size_t k = 0; k < K; k++)
        sum += exp(log_g[k * BLOCK + i] - top);
    for (size_t k = 0; k < K; k++)
        log_g[k * BLOCK + i] = exp(log_g[k * BLOCK + i] - top) / sum;
    return top + log(sum);
}

/* One block of b <= BLOCK points. work: [K][BLOCK] distances, [K][BLOCK] log densities, [K][BLOCK][D] pulls. */
static void elliptic_block(const elliptic *e, size_t b, const double *z, double *log_p, double *grad, double *work)
{
    size_t D = e->D, K = e->K;
    double *distance = work, *log_g = distance + K * BLOCK, *pull = log_g + K * BLOCK;
    for (size_t k = 0; k < K; k++) {
        elliptic_distances(e, k, b, z, distance + k * BLOCK, pull + k * BLOCK * D);
        for (size_t i = 0; i < b; i++)
            log_g[k * BLOCK + i] = e->log_weight[k] + log_shape(e->nu, (double)D, distance[k * BLOCK + i]);
    }
    for (size_t i = 0; i < b; i++)
        log_p[i] = responsibilities(K, log_g, i);
    if (!grad)
        return;
    memset(grad, 0, b * D * sizeof *grad);
    for (size_t k = 0; k < K; k++)
        for (size_t i = 0; i < b; i++) {
            double slope = log_g[k * BLOCK + i] * shape_slope(e->nu, (double)D, distance[k * BLOCK + i]);
            cblas_daxpy((int)D, -slope, pull + (k * BLOCK + i) * D, 1, grad + i * D, 1);
        }
}

static int elliptic_log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const elliptic *e = self;
    double *work = malloc(e->K * BLOCK * (2 + e->D) * sizeof *work);
    if (!work)
        return -1;
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t b = n - i < BLOCK ? n - i : BLOCK;
        elliptic_block(e, b, z + i * e->D, log_p + i, grad ? grad + i * e->D : NULL, work);
    }
    free(work);
    return 0;
}

int target_student_mixture(wvgd_model *model, size_t D, size_t K, double nu, const double *weight, const double *mean,
                           const double *scale)
{
    elliptic *e = elliptic_new(D, K, nu);
    if (!e)
        return -1;
    memcpy(e->location, mean, K * D * sizeof *mean);
    for (size_t k = 0; k < K; k++) {
        double half_log_det;
        if (!factor(D, scale + k * D * D, e->chol + k * D * D, &half_log_det)) {
            free(e);
            return -1;
        }
        e->log_weight[k] = log(weight[k]) + log_constant(D, nu, half_log_det);
    }
    elliptic_moments(e, weight, scale);
    fill_model(model, isinf(nu) ? "mixture" : "student", D, elliptic_log_density, e);
    return 0;
}

int target_mixture(wvgd_model *model, size_t D, size_t K, const double *weight, const double *mean, const double *cov)
{
    return target_student_mixture(model, D, K, (double)INFINITY, weight, mean, cov);
}

int target_mixture_1d(wvgd_model *model, size_t K, const double *weight, const double *mean, const double *sd)
{
    double *var = malloc(K * sizeof *var);
    if (!var)
        return -1;
    for (size_t k = 0; k < K; k++)
        var[k] = sd[k] * sd[k];
    int status = target_mixture(model, 1, K, weight, mean, var);
    free(var);
    return status;
}

int target_gaussian_cov(wvgd_model *model, size_t D, const double *mean, const double *cov, bool normalised)
{
    const double one = 1.0;
    if (target_mixture(model, D, 1, &one, mean, cov) != 0)
        return -1;
    elliptic *e = model->self;
    if (!normalised) {
        e->truth.log_evidence = -e->log_weight[0];
        e->log_weight[0] = 0.0;
    }
    model->name = "gaussian";
    return 0;
}

int target_gaussian_precision(wvgd_model *model, size_t D, const double *mean, const double *precision, bool normalised)
{
    double half_log_det, *cov = malloc(D * D * sizeof *cov);
    if (!cov)
        return -1;
    int status = -1;
    if (factor(D, precision, cov, &half_log_det) &&
        LAPACKE_dpotri(LAPACK_ROW_MAJOR, 'L', (lapack_int)D, cov, (lapack_int)D) == 0) {
        for (size_t i = 0; i < D; i++)
            for (size_t j = i + 1; j < D; j++)
                cov[i * D + j] = cov[j * D + i];
        status = target_gaussian_cov(model, D, mean, cov, normalised);
    }
    free(cov);
    return status;
}

/* A random orthogonal matrix q: [D][D]: Gram-Schmidt (twice, for accuracy) on normal rows. */
static void random_rotation(test_random *r, size_t D, double *q)
{
    test_random_normals(r, D * D, q);
    for (size_t i = 0; i < D; i++) {
        double *row = q + i * D;
        for (int pass = 0; pass < 2; pass++)
            for (size_t k = 0; k < i; k++)
                cblas_daxpy((int)D, -cblas_ddot((int)D, row, 1, q + k * D, 1), q + k * D, 1, row, 1);
        cblas_dscal((int)D, 1.0 / cblas_dnrm2((int)D, row, 1), row, 1);
    }
}

/* cov = sum_k sd[k]^2 q_k q_k' with random orthonormal q_k; rotation: [D][D] work. */
static void random_cov(test_random *r, size_t D, const double *sd, double *rotation, double *cov)
{
    random_rotation(r, D, rotation);
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) {
            double sum = 0.0;
            for (size_t k = 0; k < D; k++)
                sum += sd[k] * sd[k] * rotation[k * D + i] * rotation[k * D + j];
            cov[i * D + j] = sum;
        }
}

int target_gaussian_random(wvgd_model *model, size_t D, double condition, uint64_t seed, bool normalised)
{
    double *work = malloc((2 * D + 2 * D * D) * sizeof *work);
    if (!work)
        return -1;
    double *mean = work, *sd = mean + D, *cov = sd + D, *rotation = cov + D * D;
    test_random r = test_random_seed(seed);
    test_random_normals(&r, D, mean);
    for (size_t i = 0; i < D; i++)
        sd[i] = D == 1 ? 1.0 : pow(condition, -0.5 * (double)i / (double)(D - 1));
    random_cov(&r, D, sd, rotation, cov);
    int status = target_gaussian_cov(model, D, mean, cov, normalised);
    free(work);
    return status;
}

int target_mixture_random(wvgd_model *model, size_t D, size_t K, double spread, uint64_t seed)
{
    double *work = malloc((K + K * D + K * D * D + D + D * D) * sizeof *work);
    if (!work)
        return -1;
    double *weight = work, *mean = weight + K, *cov = mean + K * D, *sd = cov + K * D * D, *rotation = sd + D,
           total = 0.0;
    test_random r = test_random_seed(seed);
    for (size_t k = 0; k < K; k++)
        total += weight[k] = 0.2 + 0.8 * test_random_uniform(&r);
    for (size_t k = 0; k < K; k++)
        weight[k] /= total;
    for (size_t i = 0; i < K * D; i++)
        mean[i] = spread * test_random_normal(&r);
    for (size_t k = 0; k < K; k++) {
        for (size_t i = 0; i < D; i++)
            sd[i] = 0.3 + 0.7 * test_random_uniform(&r);
        random_cov(&r, D, sd, rotation, cov + k * D * D);
    }
    int status = target_mixture(model, D, K, weight, mean, cov);
    free(work);
    return status;
}

void target_separated(size_t D, size_t K, double box, double apart, uint64_t seed, double *weight, double *mean,
                      double *cov)
{
    double *sd = malloc((D + D * D) * sizeof *sd), total = 0.0;
    test_random r = test_random_seed(seed);
    if (!sd)
        abort();
    for (size_t i = 0; i < D; i++)
        sd[i] = pow(3.0, -0.5 * (double)i / (double)(D > 1 ? D - 1 : 1));
    for (size_t k = 0; k < K;) {
        double *m = mean + k * D, nearest = INFINITY;
        for (size_t i = 0; i < D; i++)
            m[i] = box * (2.0 * test_random_uniform(&r) - 1.0);
        for (size_t other = 0; other < k; other++) {
            double d2 = 0.0;
            for (size_t i = 0; i < D; i++)
                d2 += (m[i] - mean[other * D + i]) * (m[i] - mean[other * D + i]);
            nearest = fmin(nearest, sqrt(d2));
        }
        if (nearest < apart)
            continue;
        random_cov(&r, D, sd, sd + D, cov + k * D * D);
        total += weight[k++] = 0.2 + 0.8 * test_random_uniform(&r);
    }
    for (size_t k = 0; k < K; k++)
        weight[k] /= total;
    free(sd);
}

void target_transform(size_t D, size_t K, const double *A, double *mean, double *cov)
{
    int d = (int)D;
    double *m = malloc((D + 2 * D * D) * sizeof *m), *AC = m + D, *C = AC + D * D;
    if (!m)
        abort();
    for (size_t k = 0; k < K; k++) {
        cblas_dgemv(CblasRowMajor, CblasNoTrans, d, d, 1.0, A, d, mean + k * D, 1, 0.0, m, 1);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, d, d, d, 1.0, A, d, cov + k * D * D, d, 0.0, AC, d);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, d, d, d, 1.0, AC, d, A, d, 0.0, C, d);
        memcpy(mean + k * D, m, D * sizeof *m);
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++)
                cov[(k * D + i) * D + j] = (C[i * D + j] + C[j * D + i]) / 2.0;
    }
    free(m);
}

/* ---- logistic regression ----------------------------------------------------------------------------------------- */
typedef struct {
    target_truth truth;
    size_t n, D;
    double *X; /* [n][D] */
    double *y; /* [n] */
    double store[];
} logistic;

/* Sum over the data of y f - softplus(f); turns f[n] into y - sigmoid(f). softplus(f) = max(f, 0) + log1p(exp(-|f|)) */
static double likelihood(const logistic *l, double *f)
{
    double sum = 0.0;
    for (size_t i = 0; i < l->n; i++) {
        double t = exp(-fabs(f[i])), sigmoid = (f[i] > 0.0 ? 1.0 : t) / (1.0 + t);
        sum += l->y[i] * f[i] - fmax(f[i], 0.0) - log1p(t);
        f[i] = l->y[i] - sigmoid;
    }
    return sum;
}

/* One block of b points z; f: [b][n] work. F = Z X', grad = (y - sigmoid(F)) X - Z. */
static void logistic_block(const logistic *l, size_t b, const double *z, double *log_p, double *grad, double *f)
{
    int B = (int)b, n = (int)l->n, D = (int)l->D;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, B, n, D, 1.0, z, D, l->X, D, 0.0, f, n);
    for (size_t i = 0; i < b; i++) {
        const double *w = z + i * l->D;
        log_p[i] = likelihood(l, f + i * l->n) - 0.5 * cblas_ddot(D, w, 1, w, 1) - 0.5 * (double)l->D * LOG_2PI;
    }
    if (!grad)
        return;
    memcpy(grad, z, b * l->D * sizeof *grad);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, B, D, n, 1.0, f, n, l->X, D, -1.0, grad, D);
}

static int logistic_log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const logistic *l = self;
    double *f = malloc(BLOCK * l->n * sizeof *f);
    if (!f)
        return -1;
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t b = n - i < BLOCK ? n - i : BLOCK;
        logistic_block(l, b, z + i * l->D, log_p + i, grad ? grad + i * l->D : NULL, f);
    }
    free(f);
    return 0;
}

int target_logistic(wvgd_model *model, size_t n, size_t D, const double *X, const double *y)
{
    logistic *l = calloc(1, sizeof *l + (n * D + n) * sizeof(double));
    if (!l)
        return -1;
    l->truth.log_evidence = (double)NAN;
    l->n = n;
    l->D = D;
    l->X = l->store;
    l->y = l->X + n * D;
    memcpy(l->X, X, n * D * sizeof *X);
    memcpy(l->y, y, n * sizeof *y);
    fill_model(model, "logistic", D, logistic_log_density, l);
    return 0;
}

/* ---- curved shapes ----------------------------------------------------------------------------------------------- */
typedef struct {
    target_truth truth;
    size_t D;
    double sd, bend;
    double store[]; /* [D] mean, [D][D] cov */
} shape;

static shape *shape_new(size_t D, double sd, double bend)
{
    shape *s = calloc(1, sizeof *s + (D + D * D) * sizeof(double));
    if (!s)
        return NULL;
    s->D = D;
    s->sd = sd;
    s->bend = bend;
    s->truth.mean = s->store;
    s->truth.cov = s->store + D;
    return s;
}

static double *shape_mean(shape *s)
{
    return s->store;
}

static double *shape_cov(shape *s, size_t i, size_t j)
{
    return s->store + s->D + i * s->D + j;
}

/* A density of one point; fills grad[D] unless it is NULL. */
typedef double point_density(const shape *s, const double *z, double *grad);

static int each_point(const shape *s, point_density *density, size_t n, const double *z, double *log_p, double *grad)
{
    for (size_t i = 0; i < n; i++)
        log_p[i] = density(s, z + i * s->D, grad ? grad + i * s->D : NULL);
    return 0;
}

static double log_normal(double x, double sd)
{
    return -0.5 * (x / sd) * (x / sd) - log(sd) - 0.5 * LOG_2PI;
}

/* Pairs: x of N(1, 10), y given x of N(x^2, 1/10). */
static double rosenbrock_point(const shape *s, const double *z, double *grad)
{
    double sum = 0.0;
    for (size_t i = 0; i < s->D; i += 2) {
        double u = z[i] - 1.0, v = z[i + 1] - z[i] * z[i];
        sum += log_normal(u, sqrt(10.0)) + log_normal(v, sqrt(0.1));
        if (!grad)
            continue;
        grad[i] = -u / 10.0 + 20.0 * z[i] * v;
        grad[i + 1] = -10.0 * v;
    }
    return sum;
}

static int rosenbrock_log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    return each_point(self, rosenbrock_point, n, z, log_p, grad);
}

/* With x of N(1, v), v = 10: E x^2 = 1 + v, var x^2 = 2 v^2 + 4 v, cov(x, x^2) = 2 v. */
int target_rosenbrock(wvgd_model *model, size_t D)
{
    const double v = 10.0;
    shape *s = D % 2 ? NULL : shape_new(D, 0.0, 0.0);
    if (!s)
        return -1;
    for (size_t i = 0; i < D; i += 2) {
        shape_mean(s)[i] = 1.0;
        shape_mean(s)[i + 1] = 1.0 + v;
        *shape_cov(s, i, i) = v;
        *shape_cov(s, i, i + 1) = *shape_cov(s, i + 1, i) = 2.0 * v;
        *shape_cov(s, i + 1, i + 1) = 2.0 * v * v + 4.0 * v + 0.1;
    }
    fill_model(model, "rosenbrock", D, rosenbrock_log_density, s);
    return 0;
}

static double funnel_point(const shape *s, const double *z, double *grad)
{
    double v = z[0], square = cblas_ddot((int)s->D - 1, z + 1, 1, z + 1, 1) * exp(-v), count = (double)(s->D - 1);
    if (grad) {
        grad[0] = -v / (s->sd * s->sd) + 0.5 * square - 0.5 * count;
        for (size_t i = 1; i < s->D; i++)
            grad[i] = -z[i] * exp(-v);
    }
    return log_normal(v, s->sd) - 0.5 * square - 0.5 * count * (v + LOG_2PI);
}

static int funnel_log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    return each_point(self, funnel_point, n, z, log_p, grad);
}

int target_funnel(wvgd_model *model, size_t D, double sd)
{
    shape *s = shape_new(D, sd, 0.0);
    if (!s)
        return -1;
    *shape_cov(s, 0, 0) = sd * sd;
    for (size_t i = 1; i < D; i++)
        *shape_cov(s, i, i) = exp(0.5 * sd * sd);
    fill_model(model, "funnel", D, funnel_log_density, s);
    return 0;
}

static double banana_point(const shape *s, const double *z, double *grad)
{
    double straight = z[1] + s->bend * (z[0] * z[0] - s->sd * s->sd),
           sum = log_normal(z[0], s->sd) + log_normal(straight, 1.0);
    for (size_t i = 2; i < s->D; i++)
        sum += log_normal(z[i], 1.0);
    if (!grad)
        return sum;
    grad[0] = -z[0] / (s->sd * s->sd) - 2.0 * s->bend * z[0] * straight;
    grad[1] = -straight;
    for (size_t i = 2; i < s->D; i++)
        grad[i] = -z[i];
    return sum;
}

static int banana_log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    return each_point(self, banana_point, n, z, log_p, grad);
}

int target_banana(wvgd_model *model, size_t D, double sd, double bend)
{
    shape *s = D < 2 ? NULL : shape_new(D, sd, bend);
    if (!s)
        return -1;
    *shape_cov(s, 0, 0) = sd * sd;
    *shape_cov(s, 1, 1) = 1.0 + 2.0 * bend * bend * pow(sd, 4.0);
    for (size_t i = 2; i < D; i++)
        *shape_cov(s, i, i) = 1.0;
    fill_model(model, "banana", D, banana_log_density, s);
    return 0;
}

/* ---- tails ------------------------------------------------------------------------------------------------------- */
typedef struct {
    target_truth truth;
    size_t D;
    double store[]; /* log-gamma: [D] shapes, [D] mean, [D][D] cov */
} tailed;

static int log_gamma_log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const tailed *t = self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = 0.0;
        for (size_t d = 0; d < t->D; d++) {
            double x = z[i * t->D + d], a = t->store[d];
            log_p[i] += a * x - exp(x) - lgamma(a);
            if (grad)
                grad[i * t->D + d] = a - exp(x);
        }
    }
    return 0;
}

int target_log_gamma(wvgd_model *model, size_t D, const double *shapes)
{
    tailed *t = calloc(1, sizeof *t + (2 * D + D * D) * sizeof(double));
    if (!t)
        return -1;
    t->D = D;
    memcpy(t->store, shapes, D * sizeof *shapes);
    double *mean = t->store + D, *cov = mean + D;
    for (size_t d = 0; d < D; d++) {
        mean[d] = gsl_sf_psi(shapes[d]);
        cov[d * D + d] = gsl_sf_psi_1(shapes[d]);
    }
    t->truth = (target_truth){0.0, mean, cov};
    fill_model(model, "log-gamma", D, log_gamma_log_density, t);
    return 0;
}

static int cauchy_log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const tailed *t = self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = -(double)t->D * log(PI);
        for (size_t d = 0; d < t->D; d++) {
            double x = z[i * t->D + d];
            log_p[i] -= log1p(x * x);
            if (grad)
                grad[i * t->D + d] = -2.0 * x / (1.0 + x * x);
        }
    }
    return 0;
}

int target_cauchy(wvgd_model *model, size_t D)
{
    tailed *t = calloc(1, sizeof *t);
    if (!t)
        return -1;
    t->D = D;
    fill_model(model, "cauchy", D, cauchy_log_density, t);
    return 0;
}

/* ---- gradients against differences ------------------------------------------------------------------------------- */
/* (f(z + h e_d) - f(z - h e_d)) / 2h by one batch of two points; ends: [2][D] work. */
static double central_difference(const wvgd_model *model, const double *z, size_t d, double *ends)
{
    size_t D = model->dim;
    double h = 1e-5 * (1.0 + fabs(z[d])), log_p[2];
    memcpy(ends, z, D * sizeof *ends);
    memcpy(ends + D, z, D * sizeof *ends);
    ends[d] += h;
    ends[D + d] -= h;
    if (model->log_density(model->self, 2, ends, log_p, NULL) != 0)
        return (double)NAN;
    return (log_p[0] - log_p[1]) / (ends[d] - ends[D + d]);
}

double target_gradient_error(const wvgd_model *model, size_t n, const double *z)
{
    size_t D = model->dim;
    double *work = malloc((n + n * D + 2 * D) * sizeof *work), worst = 0.0;
    if (!work)
        return (double)NAN;
    double *log_p = work, *grad = log_p + n, *ends = grad + n * D;
    if (model->log_density(model->self, n, z, log_p, grad) != 0)
        worst = (double)NAN;
    for (size_t i = 0; i < n && !isnan(worst); i++) {
        double size = 1.0 + cblas_dnrm2((int)D, grad + i * D, 1);
        for (size_t d = 0; d < D && !isnan(worst); d++) {
            double error = fabs(grad[i * D + d] - central_difference(model, z + i * D, d, ends)) / size;
            worst = isnan(error) ? error : fmax(worst, error);
        }
    }
    free(work);
    return worst;
}

double target_smooth_cost(void *self, size_t dim, const double *a, const double *b, double *grad_a)
{
    (void)self;
    double sum = 0;
    for (size_t i = 0; i < dim; i++) {
        double d = a[i] - b[i], r = sqrt(1 + d * d);
        sum += r - 1;
        if (grad_a)
            grad_a[i] = d / r;
    }
    return sum;
}

int target_skewed(wvgd_model *model)
{
    const double shapes[] = {2, 8, 2, 8, 2, 8};
    return target_log_gamma(model, 6, shapes);
}

int target_student(wvgd_model *model)
{
    const double mean[] = {0, 1, -1}, scale[] = {1, 0.5, 0, 0.5, 2, 0, 0, 0, 0.3}, weight = 1;
    return target_student_mixture(model, 3, 1, 5, &weight, mean, scale);
}
