/* kde.c - kernel density estimates. Bandwidths are searched on a grid in log b, whose best point and its neighbours bracket a golden
 * section: the criteria have several minima. */
#include "kde.h"
#include <math.h>

static const double log_2_pi = 1.8378770664093454836;

void svgd_kde_log_density(size_t n, size_t D, const double *z, double b, size_t m, const double *x, bool skip, double *log_q)
{
    double constant = -0.5 * (double)D * log_2_pi - (double)D * log(b);
    for (size_t i = 0; i < m; i++) {
        double top = -INFINITY, sum = 0;
        size_t count = skip && i < n ? n - 1 : n;
        for (size_t k = 0; k < n; k++) {
            double square = 0;
            for (size_t d = 0; d < D; d++) {
                double u = (x[i * D + d] - z[k * D + d]) / b;
                square += u * u;
            }
            double l = skip && k == i ? -INFINITY : -0.5 * square;
            if (l > top) {
                sum = sum * exp(top - l) + 1;
                top = l;
            } else if (l > -INFINITY)
                sum += exp(l - top);
        }
        log_q[i] = constant + top + log(sum) - log((double)count);
    }
}

/* ---- search -------------------------------------------------------------------------------------------------------------------------- */
typedef struct {
    size_t n, D;
    const double *z;
    const svgd_quadrature *q;
    double *work;
} search;

typedef double criterion(const search *s, double log_b);

static double golden(criterion *f, const search *s, double low, double high)
{
    const double share = 0.61803398874989484820;
    double a = high - share * (high - low), b = low + share * (high - low), fa = f(s, a), fb = f(s, b);
    while (high - low > 1e-6) {
        bool left = fa < fb;
        if (left) {
            high = b;
            b = a;
            fb = fa;
            a = high - share * (high - low);
            fa = f(s, a);
        } else {
            low = a;
            a = b;
            fa = fb;
            b = low + share * (high - low);
            fb = f(s, b);
        }
    }
    return (low + high) / 2;
}

/* argmin over [low, high] of log b. */
static double minimise(criterion *f, const search *s, double low, double high)
{
    enum { GRID = 60 };
    double step = (high - low) / GRID, best = INFINITY;
    int at = 0;
    for (int i = 0; i <= GRID; i++) {
        double value = f(s, low + i * step);
        if (value < best) {
            best = value;
            at = i;
        }
    }
    return golden(f, s, low + (at > 0 ? at - 1 : 0) * step, low + (at < GRID ? at + 1 : GRID) * step);
}

/* ---- criteria ------------------------------------------------------------------------------------------------------------------------ */
double svgd_kde_ise(size_t n, const double *z, double b, const svgd_quadrature *q)
{
    double ise = 0, scale = 1 / (b * (double)n * sqrt(exp(log_2_pi)));
    for (size_t i = 0; i < q->m; i++) {
        double density = 0;
        for (size_t k = 0; k < n; k++) {
            double u = (q->x[i] - z[k]) / b;
            density += u * u < 1400 ? exp(-0.5 * u * u) : 0;
        }
        double error = scale * density - q->p[i];
        ise += q->weight[i] * error * error;
    }
    return ise;
}

static double ise_at(const search *s, double log_b)
{
    return svgd_kde_ise(s->n, s->z, exp(log_b), s->q);
}

double svgd_kde_oracle(size_t n, const double *z, double least, double most, const svgd_quadrature *q, double *ise)
{
    search s = {n, 1, z, q, NULL};
    double b = exp(minimise(ise_at, &s, log(least), log(most)));
    if (ise)
        *ise = svgd_kde_ise(n, z, b, q);
    return b;
}

static double unlikelihood_at(const search *s, double log_b)
{
    double sum = 0;
    svgd_kde_log_density(s->n, s->D, s->z, exp(log_b), s->n, s->z, true, s->work);
    for (size_t i = 0; i < s->n; i++)
        sum -= s->work[i];
    return sum == sum ? sum : INFINITY;
}

/* Root mean square over coordinates of the particles' sd. */
static double spread(size_t n, size_t D, const double *z)
{
    double square = 0;
    for (size_t d = 0; d < D; d++) {
        double mean = 0;
        for (size_t i = 0; i < n; i++)
            mean += z[i * D + d] / (double)n;
        for (size_t i = 0; i < n; i++)
            square += (z[i * D + d] - mean) * (z[i * D + d] - mean);
    }
    return sqrt(square / (double)(n * D));
}

double svgd_kde_leave_one_out(size_t n, size_t D, const double *z, double *work)
{
    double sd = n > 1 ? spread(n, D, z) : 0;
    search s = {n, D, z, NULL, work};
    return sd > 0 && isfinite(sd) ? exp(minimise(unlikelihood_at, &s, log(1e-4 * sd), log(4 * sd))) : NAN;
}
