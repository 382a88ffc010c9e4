/* response.c - distribution functions, with
 *     I(x; a, b)   the regularised incomplete beta function, by its continued fraction (Lentz)
 *     Q(a, x)      the regularised upper incomplete gamma function, by its series or continued fraction
 *         bernoulli    P(Y <= 0) = 1 - mean
 *         binomial     I(1 - mean/n; n - y, y + 1)         n trials
 *         poisson      Q(y + 1, mean)
 *         negbinomial  I(s / (s + mean); s, y + 1)         s the shape
 *         student      1 - I(nu / (nu + u^2); nu/2, 1/2)/2 for u = (y - mean) / sigma > 0
 * Quantiles of mixtures are found by halving; those of normals have a way of their own (predictive.h). */
#include "response.h"
#include "predictive.h"
#include <math.h>
#include <string.h>

enum { TERMS = 100000 };
static const double smallest = 1e-300, precise = 1e-15;

/* The continued fraction of I(x; a, b) for x below (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
    double c = 1, d = 1 - (a + b) * x / (a + 1), h;
    d = 1 / (fabs(d) < smallest ? smallest : d);
    h = d;
    for (int m = 1; m < TERMS; m++) {
        double M = m, even = M * (b - M) * x / ((a + 2 * M - 1) * (a + 2 * M)),
               odd = -(a + M) * (a + b + M) * x / ((a + 2 * M) * (a + 2 * M + 1));
        const double term[] = {even, odd};
        double step = 1;
        for (int i = 0; i < 2; i++) {
            d = 1 + term[i] * d;
            c = 1 + term[i] / c;
            d = 1 / (fabs(d) < smallest ? smallest : d);
            c = fabs(c) < smallest ? smallest : c;
            step = c * d;
            h *= step;
        }
        if (fabs(step - 1) < precise)
            break;
    }
    return h;
}

static double beta_share(double x, double a, double b)
{
    if (!(x > 0))
        return 0;
    if (x >= 1)
        return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a : 1 - front * beta_fraction(1 - x, b, a) / b;
}

static double gamma_above(double a, double x)
{
    if (!(x > 0))
        return 1;
    double front = exp(a * log(x) - x - lgamma(a));
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (int n = 1; n < TERMS && term > sum * precise; n++)
            sum += term *= x / (a + n);
        return 1 - front * sum;
    }
    double b = x + 1 - a, c = 1 / smallest, d = 1 / b, h = d;
    for (int n = 1; n < TERMS; n++) {
        double term = -n * (n - a);
        b += 2;
        d = term * d + b;
        c = b + term / c;
        d = 1 / (fabs(d) < smallest ? smallest : d);
        c = fabs(c) < smallest ? smallest : c;
        h *= c * d;
        if (fabs(c * d - 1) < precise)
            break;
    }
    return front * h;
}

static double same(double t)
{
    return t;
}

static double sigmoid(double t)
{
    return 1 / (1 + exp(-t));
}

static double below_gaussian(double y, double mean, double spread, double tail)
{
    (void)tail;
    return spread > 0 ? erfc((mean - y) / spread * M_SQRT1_2) / 2 : y >= mean;
}

static double below_student(double y, double mean, double spread, double tail)
{
    double u = (y - mean) / spread, out = beta_share(tail / (tail + u * u), tail / 2, 0.5) / 2;
    return u > 0 ? 1 - out : out;
}

static double below_bernoulli(double y, double mean, double spread, double tail)
{
    (void)spread, (void)tail;
    return y >= 1 ? 1 : 1 - mean;
}

static double below_binomial(double y, double mean, double spread, double tail)
{
    (void)tail;
    return y >= spread ? 1 : beta_share(1 - mean / spread, spread - y, y + 1);
}

static double below_poisson(double y, double mean, double spread, double tail)
{
    (void)spread, (void)tail;
    return gamma_above(y + 1, mean);
}

static double below_negbinomial(double y, double mean, double spread, double tail)
{
    (void)tail;
    return beta_share(spread / (spread + mean), spread, y + 1);
}

const response_family *find_family(const char *name)
{
    static const response_family table[] = {
        {"gaussian", "sigma", NULL, false, same, below_gaussian},
        {"student", "sigma", "nu", false, same, below_student},
        {"bernoulli", NULL, NULL, true, sigmoid, below_bernoulli},
        {"binomial", NULL, NULL, true, sigmoid, below_binomial},
        {"poisson", NULL, NULL, true, exp, below_poisson},
        {"negbinomial", "shape", NULL, true, exp, below_negbinomial},
    };
    for (size_t i = 0; name && i < sizeof table / sizeof *table; i++)
        if (!strcmp(name, table[i].name))
            return &table[i];
    return NULL;
}

/* ---- quantiles --------------------------------------------------------------------------------------------------- */
typedef struct {
    const response_family *f;
    size_t n;
    const double *mean, *spread, *tail;
} mixture;

static double below_mixture(const mixture *m, double y)
{
    double sum = 0;
    for (size_t k = 0; k < m->n; k++)
        sum += m->f->below(y, m->mean[k], m->spread ? m->spread[k] : 0, m->tail ? m->tail[k] : 0);
    return sum / (double)m->n;
}

/* Steps of growing width from `from`, until the share is on the other side of p; *last: the point before. */
static double walk(const mixture *m, double from, double step, double p, bool up, double *last)
{
    double y = from;
    *last = from;
    for (int i = 0; i < 1100 && (below_mixture(m, y) < p) == up; i++, step *= 2) {
        *last = y;
        y = up ? y + step : y - step;
    }
    return y;
}

static double count_quantile(const mixture *m, double p)
{
    double low, high = walk(m, 0, 1, p, true, &low);
    if (high == 0 || !isfinite(high))
        return high;
    while (high - low > 1) {
        double y = floor(low + (high - low) / 2);
        if (y <= low || y >= high) /* beyond 2^53 */
            break;
        *(below_mixture(m, y) < p ? &low : &high) = y;
    }
    return high;
}

static double number_quantile(const mixture *m, double p)
{
    double centre, spread, low, high, step = 0;
    describe_draws(m->n, m->mean, &centre, &spread);
    for (size_t k = 0; k < m->n; k++)
        step += m->spread[k] / (double)m->n;
    bool up = below_mixture(m, centre) < p;
    double far = walk(m, centre, step + spread, p, up, &low);
    high = up ? far : low;
    low = up ? low : far;
    for (int i = 0; i < 200 && high - low > 1e-14 * (fabs(low) + fabs(high)); i++) {
        double y = low + (high - low) / 2;
        *(below_mixture(m, y) < p ? &low : &high) = y;
    }
    return low + (high - low) / 2;
}

double response_quantile(const response_family *f, size_t n, const double *mean, const double *spread,
                         const double *tail, double p)
{
    mixture m = {f, n, mean, spread, tail};
    for (size_t k = 0; k < n; k++)
        if (!isfinite(mean[k]))
            return NAN;
    return f->counts ? count_quantile(&m, p) : f->tail ? number_quantile(&m, p) : mixture_quantile(n, mean, spread, p);
}
