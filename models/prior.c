/* prior.c - log densities, with s the scale and u = (x - location) / s:
 *     normal(m, s)        -u^2/2 - log s - log(2 pi)/2
 *     student(nu, m, s)   -(nu + 1)/2 log(1 + u^2/nu) + lgamma((nu + 1)/2) - lgamma(nu/2) - log(nu pi)/2 - log s
 *     cauchy(m, s)        -log(1 + u^2) - log(pi s)
 *     exponential(r)      log r - r x
 *     gamma(a, r)         a log r - lgamma(a) + (a - 1) log x - r x
 *     lognormal(m, s)     normal for log x, less log x
 * That of the log of a positive x has the Jacobian, log x, in addition; the first three are cut off at 0 for it, and
 * divided by the mass above. */
#include "prior.h"
#include "density.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double location(const wv_prior *p)
{
    return p->kind == WV_PRIOR_STUDENT ? p->b : p->a;
}

static double scale(const wv_prior *p)
{
    return p->kind == WV_PRIOR_STUDENT ? p->c : p->b;
}

/* The mass of a Student-t between 0 and u: with u = sqrt(nu) tan a, its density is one of cos(a)^(nu - 1); Gauss's rule
 * of three points on 400 pieces. */
static double student_mass(double nu, double u)
{
    enum { PIECES = 400 };
    const double node = 0.7745966692414834, weight[] = {5.0 / 18, 8.0 / 18, 5.0 / 18};
    double h = atan(u / sqrt(nu)) / PIECES, sum = 0;
    for (int i = 0; i < PIECES; i++)
        for (int k = 0; k < 3; k++)
            sum += weight[k] * h * pow(cos((i + 0.5 + 0.5 * node * (k - 1)) * h), nu - 1);
    return sum * exp(lgamma((nu + 1) / 2) - lgamma(nu / 2)) / sqrt(M_PI);
}

/* Of the mass, what lies above 0. */
static double mass_above(const wv_prior *p)
{
    double u = location(p) / scale(p);
    switch (p->kind) {
    case WV_PRIOR_NORMAL: return 0.5 * erfc(-u * M_SQRT1_2);
    case WV_PRIOR_STUDENT: return 0.5 + copysign(student_mass(p->a, fabs(u)), u);
    case WV_PRIOR_CAUCHY: return u < 0 ? atan(-1 / u) / M_PI : 0.5 + atan(u) / M_PI;
    default: return 1;
    }
}

static double constant(const wv_prior *p)
{
    switch (p->kind) {
    case WV_PRIOR_NORMAL:
    case WV_PRIOR_LOGNORMAL: return -log(p->b) - 0.5 * WV_LOG_2PI;
    case WV_PRIOR_STUDENT: return lgamma((p->a + 1) / 2) - lgamma(p->a / 2) - 0.5 * log(p->a * M_PI) - log(p->c);
    case WV_PRIOR_CAUCHY: return -log(M_PI * p->b);
    case WV_PRIOR_EXPONENTIAL: return log(p->a);
    default: return p->a * log(p->b) - lgamma(p->a);
    }
}

/* The density of t, which is x or, if positive, log x, but for the constant. */
static double density(const wv_prior_term *q, double t, double *slope)
{
    const wv_prior *p = &q->prior;
    double x = q->positive ? exp(t) : t, jacobian = q->positive ? t : 0, by_x, value, u;
    if (q->positive && p->kind == WV_PRIOR_CAUCHY && p->a == 0) { /* u = log(x / s): 1 / (pi cosh u) */
        u = t - log(p->b);
        *slope = -tanh(u);
        return log(p->b) - fabs(u) - log1p(exp(-2 * fabs(u)));
    }
    switch (p->kind) {
    case WV_PRIOR_NORMAL:
        u = (x - p->a) / p->b;
        value = -0.5 * u * u;
        by_x = -u / p->b;
        break;
    case WV_PRIOR_STUDENT:
        u = (x - p->b) / p->c;
        value = -0.5 * (p->a + 1) * log1p(u * u / p->a);
        by_x = -(p->a + 1) * u / (p->a + u * u) / p->c;
        break;
    case WV_PRIOR_CAUCHY:
        u = (x - p->a) / p->b;
        value = -log1p(u * u);
        by_x = -2 * u / (1 + u * u) / p->b;
        break;
    case WV_PRIOR_LOGNORMAL: /* of log x */
        u = (t - p->a) / p->b;
        *slope = -u / p->b;
        return -0.5 * u * u;
    case WV_PRIOR_EXPONENTIAL:
        value = -p->a * x;
        by_x = -p->a;
        break;
    default: /* gamma: x^(a - 1) times x */ *slope = p->a - p->b * x; return p->a * t - p->b * x;
    }
    *slope = q->positive ? by_x * x + 1 : by_x;
    return value + jacobian;
}

int wv_priors_open(wv_priors *p, size_t columns, bool intercept, size_t positive, const wv_prior *prior,
                   const double *centre)
{
    size_t n = columns + intercept + positive;
    *p = (wv_priors){n, columns, calloc(n + 1, sizeof *p->term), intercept, NULL};
    if (centre && intercept && (p->centre = calloc(columns + 1, sizeof *centre)))
        memcpy(p->centre, centre, columns * sizeof *centre);
    if (!p->term || (centre && intercept && !p->centre))
        return -1;
    for (size_t i = 0; i < n; i++) {
        p->term[i] = (wv_prior_term){prior[i], constant(&prior[i]), i >= columns + intercept};
        if (p->term[i].positive)
            p->term[i].constant -= log(mass_above(&prior[i]));
    }
    return 0;
}

void wv_priors_close(wv_priors *p)
{
    free(p->term);
    free(p->centre);
    *p = (wv_priors){0};
}

double wv_priors_density(const wv_priors *p, const double *z, double *grad)
{
    double sum = 0;
    for (size_t i = 0; i < p->n; i++) {
        bool shifted = p->centre && i == p->columns;
        double t = z[i], slope;
        for (size_t c = 0; shifted && c < p->columns; c++)
            t += p->centre[c] * z[c];
        sum += density(&p->term[i], t, &slope) + p->term[i].constant;
        if (grad)
            grad[i] = slope;
        for (size_t c = 0; grad && shifted && c < p->columns; c++)
            grad[c] += p->centre[c] * slope;
    }
    return sum;
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* P(N < normal), exact in the tail. */
static double below(double normal)
{
    return fmax(0.5 * erfc(-normal * M_SQRT1_2), 1e-300);
}

/* Wallace's approximation of a quantile of Student's t. */
static double student_quantile(double nu, double normal)
{
    double z = normal * (8 * nu + 3) / (8 * nu + 1);
    return copysign(sqrt(nu * expm1(fmin(z * z / nu, 200))), normal);
}

static double cauchy_quantile(double normal)
{
    return copysign(1 / tan(M_PI * below(-fabs(normal))), normal);
}

/* Wilson and Hilferty's approximation of a quantile of gamma(a, 1), on the log scale; x^a / Gamma(a + 1) far below. */
static double log_gamma_quantile(double a, double normal)
{
    double c = 1 - 1 / (9 * a) + normal / (3 * sqrt(a));
    return c > 0.3 && a >= 0.5 ? log(a) + 3 * log(c) : (log(below(normal)) + lgamma(a + 1)) / a;
}

/* u of location + scale u. */
static double draw_standard(const wv_prior *p, double normal)
{
    return p->kind == WV_PRIOR_STUDENT  ? student_quantile(p->a, normal)
           : p->kind == WV_PRIOR_CAUCHY ? cauchy_quantile(normal)
                                        : normal;
}

/* The log of a draw from the part above 0. */
static double draw_above(const wv_prior *p, double normal)
{
    /* around 0 the part above is half of the mass, and |u| has the quantile 1/2 + P/2: u at which 1 - P is the mass of
     * both tails. With another location the sign is left out, which is near enough for a start. */
    double m = location(p), s = scale(p), tail = fmax(0.5 * below(-normal), 1e-300), u;
    if (p->kind == WV_PRIOR_CAUCHY && m == 0)
        return wv_density_start_noise(s, normal);
    if (m != 0)
        return log(fmax(fabs(m + s * draw_standard(p, normal)), 1e-300 * s));
    /* normal quantile of 1 - tail, by Newton from a rough one */
    double z = sqrt(fmax(-2 * log(2 * tail), 0));
    for (int i = 0; i < 60; i++) {
        double step = (below(-z) - tail) / (exp(-0.5 * z * z) / sqrt(2 * M_PI) + 1e-300);
        z = fmax(z + fmin(fmax(step, -1), 1), 0);
    }
    u = draw_standard(p, fmin(z, 30));
    return log(fmax(s * u, 1e-300 * s));
}

static double draw(const wv_prior_term *q, double normal)
{
    const wv_prior *p = &q->prior;
    switch (p->kind) {
    case WV_PRIOR_EXPONENTIAL: return log(-log(below(-normal)) > 0 ? -log(below(-normal)) : below(normal)) - log(p->a);
    case WV_PRIOR_GAMMA: return log_gamma_quantile(p->a, normal) - log(p->b);
    case WV_PRIOR_LOGNORMAL: return p->a + p->b * normal;
    default: return q->positive ? draw_above(p, normal) : location(p) + scale(p) * draw_standard(p, normal);
    }
}

void wv_priors_start(const wv_priors *p, const double *normal, double *z)
{
    for (size_t i = 0; i < p->n; i++)
        z[i] = draw(&p->term[i], normal[i]);
    for (size_t c = 0; p->centre && c < p->columns; c++)
        z[p->columns] -= p->centre[c] * z[c];
}
