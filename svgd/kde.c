/* kde.c - kernel density estimates. Bandwidths are searched on a grid in log b, whose best point and its neighbours
 * bracket a golden section: the criteria have several minima. */
#include "kde.h"
#include "kernel.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

static const double log_2_pi = 1.8378770664093454836;

static double squared_distance(size_t D, const double *x, const double *y)
{
    double square = 0;
    for (size_t d = 0; d < D; d++)
        square += (x[d] - y[d]) * (x[d] - y[d]);
    return square;
}

void svgd_kde_log_density(size_t n, size_t D, const double *z, double b, size_t m, const double *x, double *log_q)
{
    double constant = -0.5 * (double)D * log_2_pi - (double)D * log(b) - log((double)n);
    for (size_t i = 0; i < m; i++) {
        double top = -INFINITY, sum = 0;
        for (size_t k = 0; k < n; k++) {
            double l = -0.5 * squared_distance(D, x + i * D, z + k * D) / (b * b);
            if (l > top) {
                sum = sum * exp(top - l) + 1;
                top = l;
            } else if (l > -INFINITY)
                sum += exp(l - top);
        }
        log_q[i] = constant + top + log(sum);
    }
}

/* ---- search ------------------------------------------------------------------------------------------------------ */
typedef struct {
    size_t n, D;
    const double *z;
    const svgd_quadrature *q;
    const double *least; /* [n] squared distance of each particle to the nearest other */
    const double *more;  /* [n][n-1] what those to the others have more */
    double *row;         /* [n-1] */
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

/* ---- criteria ---------------------------------------------------------------------------------------------------- */
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
    search s = {.n = n, .D = 1, .z = z, .q = q};
    double b = exp(minimise(ise_at, &s, log(least), log(most)));
    if (ise)
        *ise = svgd_kde_ise(n, z, b, q);
    return b;
}

/* Less what does not depend on b. */
static double unlikelihood_at(const search *s, double log_b)
{
    size_t n = s->n;
    double scale = 0.5 * exp(-2 * log_b), sum = (double)(n * s->D) * log_b;
    for (size_t i = 0; i < n; i++) {
        double all = 0;
        memcpy(s->row, s->more + i * (n - 1), (n - 1) * sizeof *s->row);
        svgd_kernel_exponentials(n - 1, s->row, scale);
        for (size_t k = 0; k < n - 1; k++)
            all += s->row[k];
        sum += scale * s->least[i] - log(all);
    }
    return sum == sum ? sum : INFINITY;
}

/* Distances between particles, for all bandwidths. */
static void measure(size_t n, size_t D, const double *z, double *least, double *more)
{
    for (size_t i = 0; i < n; i++) {
        double *row = more + i * (n - 1);
        least[i] = INFINITY;
        for (size_t k = 0; k < n - 1; k++) {
            row[k] = squared_distance(D, z + i * D, z + (k < i ? k : k + 1) * D);
            least[i] = fmin(least[i], row[k]);
        }
        for (size_t k = 0; k < n - 1; k++)
            row[k] -= least[i];
    }
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
    double sd = n > 1 ? spread(n, D, z) : 0, *least = work, *row = work + n, *more = row + n;
    if (!(sd > 0 && isfinite(sd)))
        return NAN;
    measure(n, D, z, least, more);
    search s = {n, D, z, NULL, least, more, row};
    return exp(minimise(unlikelihood_at, &s, log(1e-4 * sd), log(4 * sd)));
}
