/* logistic_truth.c - data and exact variational bounds for Bayesian logistic regression, for tests.
 *
 * softplus(f) = max(f, 0) + log1p(exp(-|f|)). The first part has the closed expectation m Phi(m/s) + s phi(m/s) under N(m, s^2); the
 * second is smooth on either side of 0 and gone beyond |f| = 40, so it is integrated there by a composite Gauss-Legendre rule with
 * panels no wider than min(1, s) in f. The same split serves sigmoid(f) = 1[f > 0] - sign(f) sigmoid(-|f|).
 * Best full-rank Gaussian: precision = I + X' diag(E sigmoid') X and X'(y - E sigmoid) = mu (Newton, damped). */
#include "logistic_truth.h"

#include <cblas.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_integration.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

enum { NODES = 16 };

/* ---- data files ------------------------------------------------------------------------------------------------------------- */
static FILE *open_data(const char *format, const char *name) {
    char path[256];
    snprintf(path, sizeof path, format, name);
    return table_open(path);
}

/* The indices of line `subset` into row[]; returns how many, 0 on failure. */
static size_t read_subset(const char *name, int subset, size_t most, size_t *row) {
    char line[TABLE_LINE];
    size_t n = 0;
    FILE *file = open_data("tests/data/subsets_%s.csv", name);
    if (!file) return 0;
    bool found = true;
    for (int i = 0; i <= subset && found; i++) found = table_next(file, line);
    fclose(file);
    for (char *text = found ? line : NULL, *end; text && n < most; text = *end == ',' ? end + 1 : NULL)
        row[n++] = (size_t)strtoul(text, &end, 10);
    return n;
}

/* Rows and columns (with the target) of an open CSV file, which is left after its header. */
static bool csv_shape(FILE *file, size_t *rows, size_t *columns) {
    char line[TABLE_LINE];
    if (!table_next(file, line)) return false;
    *columns = 1;
    for (const char *c = line; *c; c++) *columns += *c == ',';
    for (*rows = 0; table_next(file, line);) ++*rows;
    rewind(file);
    return table_next(file, line);
}

/* All rows: the features, then a column of ones where the file has the target. */
static bool read_all(logistic_data *data, const char *name) {
    char line[TABLE_LINE];
    FILE *file = open_data("data/%s.csv", name);
    if (!file) return false;
    bool good = csv_shape(file, &data->n, &data->D);
    data->X = good ? calloc(data->n * data->D, sizeof *data->X) : NULL;
    data->y = good ? calloc(data->n, sizeof *data->y) : NULL;
    good = data->X && data->y;
    for (size_t i = 0; i < data->n && good; i++) {
        double *x = data->X + i * data->D;
        good = table_next(file, line) && table_numbers(line, data->D, x) != NULL;
        data->y[i] = x[data->D - 1];
        x[data->D - 1] = 1.0;
    }
    fclose(file);
    return good;
}

static bool keep_rows(logistic_data *data, const char *name, int subset) {
    size_t *row = calloc(data->n, sizeof *row), n = row ? read_subset(name, subset, data->n, row) : 0, D = data->D;
    double *X = calloc(n * D + 1, sizeof *X), *y = calloc(n + 1, sizeof *y);
    bool good = n > 0 && X && y;
    for (size_t i = 0; i < n && good; i++) {
        good = row[i] < data->n;
        if (!good) break;
        memcpy(X + i * D, data->X + row[i] * D, D * sizeof *X);
        y[i] = data->y[row[i]];
    }
    free(row);
    free(data->X);
    free(data->y);
    *data = (logistic_data){.n = n, .D = D, .X = X, .y = y};
    return good;
}

static void standardize_column(logistic_data *data, size_t d) {
    size_t n = data->n, D = data->D;
    double *x = data->X + d, mean = 0.0, square = 0.0, lowest = x[0], highest = x[0];
    for (size_t i = 0; i < n; i++) {
        mean += x[i * D] / (double)n;
        lowest = fmin(lowest, x[i * D]);
        highest = fmax(highest, x[i * D]);
    }
    for (size_t i = 0; i < n; i++) square += (x[i * D] - mean) * (x[i * D] - mean);
    double sd = sqrt(square / (double)(n - 1));
    for (size_t i = 0; i < n; i++) x[i * D] = lowest < highest ? (x[i * D] - mean) / sd : 0.0;
}

bool logistic_data_read(logistic_data *data, const char *name, int subset, bool standardize) {
    *data = (logistic_data){0};
    bool good = read_all(data, name) && (subset == LOGISTIC_ALL_ROWS || keep_rows(data, name, subset));
    if (!good) logistic_data_free(data);
    for (size_t d = 0; standardize && d + 1 < data->D; d++) standardize_column(data, d);
    return good;
}

void logistic_data_free(logistic_data *data) {
    free(data->X);
    free(data->y);
    *data = (logistic_data){0};
}

/* ---- expectations over one normal variable ------------------------------------------------------------------------------------ */
static double normal_pdf(double x) { return 0.3989422804014327 * exp(-0.5 * x * x); }

/* Adds the integral over y = (f - mean)/sd in [lo, hi], where f keeps its sign, of the parts that decay with |f|. */
static void add_decaying(logistic_expectation *e, const gsl_integration_glfixed_table *rule, double mean, double sd, double lo, double hi) {
    if (lo >= hi) return;
    size_t panels = (size_t)ceil((hi - lo) * fmax(1.0, sd));
    double width = (hi - lo) / (double)panels, y, w;
    for (size_t p = 0; p < panels; p++)
        for (size_t i = 0; i < NODES; i++) {
            gsl_integration_glfixed_point(lo + (double)p * width, lo + (double)(p + 1) * width, i, &y, &w, rule);
            double f = mean + sd * y, t = exp(-fabs(f)), mass = w * normal_pdf(y);
            e->softplus += mass * log1p(t);
            e->sigmoid -= mass * copysign(t / (1.0 + t), f);
            e->slope += mass * t / ((1.0 + t) * (1.0 + t));
        }
}

logistic_expectation logistic_expect(double mean, double sd) {
    const double reach = 12.0, far = 40.0; /* mass beyond 12 sd, and exp(-40), are below 1e-17 */
    double t = exp(-fabs(mean));
    if (sd <= 0.0)
        return (logistic_expectation){fmax(mean, 0.0) + log1p(t), (mean > 0.0 ? 1.0 : t) / (1.0 + t), t / ((1.0 + t) * (1.0 + t))};
    double above = gsl_cdf_ugaussian_P(mean / sd);
    logistic_expectation e = {mean * above + sd * normal_pdf(mean / sd), above, 0.0};
    gsl_integration_glfixed_table *rule = gsl_integration_glfixed_table_alloc(NODES);
    add_decaying(&e, rule, mean, sd, fmax((-far - mean) / sd, -reach), fmin(-mean / sd, reach));
    add_decaying(&e, rule, mean, sd, fmax(-mean / sd, -reach), fmin((far - mean) / sd, reach));
    gsl_integration_glfixed_table_free(rule);
    return e;
}

/* ---- bounds ------------------------------------------------------------------------------------------------------------------ */
/* y E f - E softplus(f) for f of N(mean, sd^2) */
static double expected_term(double y, double mean, double sd) { return y * mean - logistic_expect(mean, sd).softplus; }

double logistic_elbo_diag(const logistic_data *data, const double *mu, const double *sd) {
    double elbo = 0.0;
    for (size_t i = 0; i < data->n; i++) {
        const double *x = data->X + i * data->D;
        double mean = 0.0, var = 0.0;
        for (size_t d = 0; d < data->D; d++) {
            mean += x[d] * mu[d];
            var += x[d] * x[d] * sd[d] * sd[d];
        }
        elbo += expected_term(data->y[i], mean, sqrt(var));
    }
    for (size_t d = 0; d < data->D; d++) elbo -= 0.5 * (mu[d] * mu[d] + sd[d] * sd[d] - 1.0) - log(sd[d]);
    return elbo;
}

/* |L' x| */
static double predictor_sd(size_t D, const double *chol, const double *x) {
    double var = 0.0;
    for (size_t d = 0; d < D; d++) {
        double sum = 0.0;
        for (size_t i = d; i < D; i++) sum += chol[i * D + d] * x[i];
        var += sum * sum;
    }
    return sqrt(var);
}

double logistic_elbo_full(const logistic_data *data, const double *mu, const double *chol) {
    size_t D = data->D;
    double elbo = 0.0;
    for (size_t i = 0; i < data->n; i++) {
        const double *x = data->X + i * D;
        elbo += expected_term(data->y[i], cblas_ddot((int)D, x, 1, mu, 1), predictor_sd(D, chol, x));
    }
    for (size_t i = 0; i < D; i++) {
        elbo -= 0.5 * (mu[i] * mu[i] - 1.0) - log(chol[i * D + i]);
        for (size_t j = 0; j <= i; j++) elbo -= 0.5 * chol[i * D + j] * chol[i * D + j];
    }
    return elbo;
}

/* chol of the inverse of precision, both [D][D] */
static bool factor_inverse(size_t D, const double *precision, double *chol) {
    lapack_int n = (lapack_int)D;
    memcpy(chol, precision, D * D * sizeof *chol);
    return LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', n, chol, n) == 0 && LAPACKE_dpotri(LAPACK_ROW_MAJOR, 'L', n, chol, n) == 0 &&
           LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', n, chol, n) == 0;
}

/* What Newton's step needs at N(mu, chol chol'): gradient[D] = X'(y - E sigmoid) - mu, curvature[D][D] = I + X' diag(E sigmoid') X. */
static void newton_terms(const logistic_data *data, const double *mu, const double *chol, double *gradient, double *curvature) {
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
static bool move(const logistic_data *data, double rho, const gaussian *now, const double *gradient, const double *curvature,
                 gaussian *next) {
    size_t D = data->D;
    for (size_t i = 0; i < D * D; i++) next->precision[i] = (1.0 - rho) * now->precision[i] + rho * curvature[i];
    if (!factor_inverse(D, next->precision, next->chol)) return false;
    memcpy(next->mu, gradient, D * sizeof *gradient);
    cblas_dtrmv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)D, next->chol, (int)D, next->mu, 1);
    cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, next->chol, (int)D, next->mu, 1);
    for (size_t d = 0; d < D; d++) next->mu[d] = now->mu[d] + rho * next->mu[d];
    next->elbo = logistic_elbo_full(data, next->mu, next->chol);
    return true;
}

/* Climbs from *now with *next as its other half; rho halves when the bound falls and doubles again. True when it has settled. */
static bool climb(const logistic_data *data, gaussian *now, gaussian *next, double *gradient, double *curvature) {
    double rho = 1.0;
    for (int iteration = 0; iteration < 1000 && rho > 1e-6; iteration++) {
        newton_terms(data, now->mu, now->chol, gradient, curvature);
        if (!move(data, rho, now, gradient, curvature, next)) return false;
        double gain = next->elbo - now->elbo;
        if (rho > 0.1 && fabs(gain) < 1e-12 * fabs(now->elbo)) return true;
        if (gain > 0.0) {
            gaussian swap = *now;
            *now = *next;
            *next = swap;
        }
        rho = gain > 0.0 ? fmin(1.0, 2.0 * rho) : 0.5 * rho;
    }
    return false;
}

double logistic_fullrank(const logistic_data *data, double *mu, double *chol) {
    size_t D = data->D, size = D + 2 * D * D;
    double *work = calloc(2 * size + D + D * D, sizeof *work), elbo = (double)NAN;
    if (!work) return elbo;
    double *other = work + size, *gradient = other + size, *curvature = gradient + D;
    gaussian now = {work, work + D, work + D + D * D, 0.0}, next = {other, other + D, other + D + D * D, 0.0};
    for (size_t d = 0; d < D; d++) now.precision[d * D + d] = now.chol[d * D + d] = 1.0;
    now.elbo = logistic_elbo_full(data, now.mu, now.chol);
    if (climb(data, &now, &next, gradient, curvature)) {
        elbo = now.elbo;
        memcpy(mu, now.mu, D * sizeof *mu);
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++) chol[i * D + j] = j <= i ? now.chol[i * D + j] : 0.0;
    }
    free(work);
    return elbo;
}

/* ---- truths from tables -------------------------------------------------------------------------------------------------------- */
/* What follows "<name> <treatment> <subset> <kind> " in tests/data/<table>, in line. NULL: not there. */
static const char *find_row(const char *table, const char *name, int subset, bool standardize, const char *kind, char line[TABLE_LINE]) {
    char key[256];
    snprintf(key, sizeof key, "%s %s %d %s%s", name, standardize ? "standardized" : "raw", subset, kind, *kind ? " " : "");
    return table_find(table, key, line);
}

bool logistic_truth_read(logistic_truth *truth, const char *name, int subset, bool standardize) {
    char line[TABLE_LINE];
    double value[5];
    const char *rest = find_row("logistic_truth.txt", name, subset, standardize, "", line);
    if (!rest || !table_numbers(rest, 5, value)) return false;
    *truth = (logistic_truth){(size_t)value[0], value[1], value[2], value[3], value[4]};
    return true;
}

bool logistic_moment_read(const char *name, int subset, bool standardize, const char *kind, size_t D, double *value) {
    char line[TABLE_LINE];
    const char *rest = find_row("logistic_moments.txt", name, subset, standardize, kind, line);
    return rest && table_numbers(rest, D, value);
}
