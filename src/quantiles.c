/* quantiles.c - posterior quantiles from the weighted draws of the staged solver, and their standard errors.
 *
 * The distribution function of a coordinate is that of the mixture q, which is known, and what the draws say of the
 * difference:
 *     F(z) = sum_i omega_i [ v_i 1(z_i <= z) - b u_i/n (1(z_i <= z) - Q(z)) ] / sum_i omega_i v_i,   u = q/m
 * with the factors omega of the tilt (moments.c) and the slope b of a regression, so that nothing is left of the noise
 * where the posterior is the mixture. A step of F is spread evenly between the draws beside it.
 * A function that rises or falls with a coordinate has its quantiles where that one has them; others do without Q.
 * The standard error is that of F, as of any mean, over the slope of F there. */
#include "quantiles.h"
#include "gaussian.h"
#include "policy.h"
#include "weights.h"
#include <math.h>
#include <string.h>

/* Values of a function at the draws in ascending order, and sums over these. */
typedef struct {
    size_t n;
    const double *value; /* [.] of all draws, `ld` apart */
    size_t ld;
    const uint32_t *order; /* [n] draws in their order */
    double *below, *known; /* [n] sums of weights, and of u, up to the middle of each draw; all weights sum to 1 */
    double slope, all;     /* b; the sum of u over all draws */
    /* the distribution of the mixture: NULL, and slope 0, where there is none */
    const wv_moments_input *in;
    size_t coordinate;
    const double *sd; /* [K] of its components along the coordinate */
} distribution;

static double value_at(const distribution *d, size_t i)
{
    return d->value[d->order[i] * d->ld];
}

/* Q(z). */
static double mixture_share(const distribution *d, double z)
{
    double sum = 0;
    for (size_t k = 0; d->in && k < d->in->mix->K; k++)
        sum += d->in->mix->w[k] * erfc((d->in->mix->mu[k * d->in->D + d->coordinate] - z) / (d->sd[k] * sqrt(2))) / 2;
    return sum;
}

/* Sums up to z: linear between draws. */
static double step_sum(const distribution *d, const double *sums, double total, double z)
{
    size_t low = 0, high = d->n; /* draws before `low` are at most z, those from `high` on are above */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (value_at(d, middle) <= z)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || low == d->n)
        return low ? total : 0;
    double left = value_at(d, low - 1), right = value_at(d, low), t = right > left ? (z - left) / (right - left) : 0;
    return sums[low - 1] + t * (sums[low] - sums[low - 1]);
}

/* F(z). */
static double share_below(const distribution *d, double z)
{
    double plain = step_sum(d, d->below, 1, z);
    return d->slope > 0 ? plain - d->slope * (step_sum(d, d->known, d->all, z) - d->all * mixture_share(d, z)) : plain;
}

/* Where F(z) = p, by bisection between draws, then between two of them. */
static double find(const distribution *d, double p)
{
    enum { HALVINGS = 40 };
    size_t low = 0, high = d->n - 1;
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        *(share_below(d, value_at(d, middle)) < p ? &low : &high) = middle;
    }
    double left = value_at(d, low), right = value_at(d, high);
    for (int i = 0; i < HALVINGS; i++) {
        double middle = left + (right - left) / 2;
        *(share_below(d, middle) < p ? &left : &right) = middle;
    }
    return left + (right - left) / 2;
}

/* Half the distance between the quantiles at p + se and p - se; where these are too near to tell a slope, in proportion
 * to those farther apart. */
static double find_error(const distribution *d, double p, double se)
{
    double end = fmin(p, 1 - p), most = wv_policy.quantile_span_most * end,
           span = fmin(fmax(se, wv_policy.quantile_span * end), most);
    return span > 0 ? (find(d, p + span) - find(d, p - span)) / 2 * (se / span) : NAN;
}

/* ---- one function ------------------------------------------------------------------------------------------------ */
/* The draws that count, in the order of the function: returns how many. */
static size_t sort_draws(size_t n, const double *v, const double *value, size_t ld, bool all, uint32_t *order,
                         wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), first = 0;
    double *key = wv_arena_take(arena, n);
    for (size_t i = 0; i < n; i++) {
        bool counts = all || v[i] > 0;
        key[i] = counts ? value[i * ld] : -INFINITY;
        first += !counts;
    }
    wv_weights_order(n, key, order);
    memmove(order, order + first, (n - first) * sizeof *order);
    wv_arena_release(arena, mark);
    return n - first;
}

/* Sums of these weights, in the order of the draws, up to the middle of each; returns that of all. */
static double add_up(size_t n, const uint32_t *order, const double *weight, const double *factor, double *sums)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double here = weight[order[i]] * (factor ? factor[order[i]] : 1);
        sums[i] = sum + here / 2;
        sum += here;
    }
    return sum;
}

/* The slope b of v 1 on u 1 about z, no less than 0 and no more than 1. */
static double control_slope(const distribution *d, const double *v, const double *u, double p, double z)
{
    double share = mixture_share(d, z), cross = 0, square = 0;
    for (size_t i = 0; i < d->n; i++) {
        size_t k = d->order[i];
        double below = value_at(d, i) <= z, c = u[k] * (below - share);
        cross += v[k] * (below - p) * c;
        square += c * c;
    }
    return square > 0 ? fmin(fmax(cross * (double)d->n / square, 0), 1) : 0;
}

/* What functions share: factors and u of the draws, [n] each, and whether there is a tilt. */
typedef struct {
    double *omega, *u;
    bool tilted;
} shared;

/* Draws with these normalised weights v[n], and factors omega[n] or NULL. all: those without weight, too. From the
 * arena. */
static distribution distribute(size_t n, const double *v, const double *omega, const double *value, size_t ld, bool all,
                               wv_arena *arena)
{
    uint32_t *order = wv_arena_take_index(arena, n);
    size_t count = sort_draws(n, v, value, ld, all, order, arena);
    distribution d = {.n = count, .value = value, .ld = ld, .order = order, .below = wv_arena_take(arena, count)};
    double sum = add_up(count, order, v, omega, d.below);
    for (size_t i = 0; i < count; i++)
        d.below[i] /= sum;
    return d;
}

/* sds of the components of the mixture along coordinate c: from the arena. */
static const double *component_sds(const wv_moments_input *in, size_t c)
{
    size_t K = in->mix->K, D = in->D;
    double *sd = wv_arena_take(in->arena, K);
    for (size_t k = 0; k < K; k++) {
        const double *row = in->mix->root + (k * D + c) * D;
        double square = 0;
        for (size_t i = 0; i <= c; i++)
            square += row[i] * row[i];
        sd[k] = sqrt(square);
    }
    return sd;
}

/* That of coordinate c, with the mixture. */
static distribution distribute_coordinate(const wv_moments_input *in, const shared *s, size_t c)
{
    size_t n = in->draws->n;
    distribution d = distribute(n, in->v, s->omega, in->draws->x + c, in->D, true, in->arena);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += s->omega[i] * in->v[i];
    d.known = wv_arena_take(in->arena, n);
    d.all = add_up(n, d.order, s->u, s->omega, d.known) / ((double)n * sum);
    for (size_t i = 0; i < n; i++)
        d.known[i] /= (double)n * sum;
    d.in = in;
    d.coordinate = c;
    d.sd = component_sds(in, c);
    return d;
}

/* ---- coordinates ------------------------------------------------------------------------------------------------- */
/* Quantiles z[D] of all coordinates at p, and their standard errors. */
static void find_coordinates(const wv_moments_input *in, const shared *s, double p, double *z, double *se)
{
    size_t D = in->D, mark = wv_arena_mark(in->arena);
    double *share = wv_arena_take(in->arena, D), *slope = wv_arena_take(in->arena, D), *F = wv_arena_take(in->arena, D);
    for (size_t c = 0; c < D; c++) {
        size_t here = wv_arena_mark(in->arena);
        distribution d = distribute_coordinate(in, s, c);
        slope[c] = control_slope(&d, in->v, s->u, p, find(&d, p));
        d.slope = slope[c];
        z[c] = find(&d, p);
        share[c] = mixture_share(&d, z[c]);
        wv_arena_release(in->arena, here);
    }
    wv_moments_below(in, &(wv_moments_levels){D, D, in->draws->x, z, share, slope}, s->tilted, F, se);
    for (size_t c = 0; c < D; c++) {
        size_t here = wv_arena_mark(in->arena);
        distribution d = distribute_coordinate(in, s, c);
        d.slope = slope[c];
        se[c] = find_error(&d, p, se[c]);
        wv_arena_release(in->arena, here);
    }
    wv_arena_release(in->arena, mark);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */
/* How a function goes with the coordinates. */
typedef enum { APART, RISING, FALLING, CONSTANT, NOT_FINITE } course;

/* Whether coordinate c rises (or falls) wherever the function does. */
static bool follows(const wv_moments_input *in, const distribution *d, size_t c, bool rising)
{
    const double *x = in->draws->x + c;
    for (size_t i = 1; i < d->n; i++) {
        double before = x[d->order[i - 1] * in->D], here = x[d->order[i] * in->D];
        if (rising ? here < before : here > before)
            return false;
    }
    return true;
}

/* The coordinate with which a function goes, *c, looked for from number k on. */
static course find_course(const wv_moments_input *in, size_t k, const double *value, size_t ld, size_t *c)
{
    size_t mark = wv_arena_mark(in->arena);
    course found = APART;
    for (size_t i = 0; i < in->draws->n; i++)
        if (in->v[i] > 0 && !isfinite(value[i * ld]))
            return NOT_FINITE;
    distribution d = distribute(in->draws->n, in->v, NULL, value, ld, false, in->arena);
    if (value_at(&d, 0) == value_at(&d, d.n - 1))
        found = CONSTANT;
    for (size_t i = 0; i < in->D && found == APART; i++) {
        *c = (k + i) % in->D;
        found = follows(in, &d, *c, true) ? RISING : follows(in, &d, *c, false) ? FALLING : APART;
    }
    wv_arena_release(in->arena, mark);
    return found;
}

/* The function where the coordinate that it goes with is z: linear between draws and beyond the last ones. */
static double function_at(const wv_moments_input *in, const distribution *d, size_t c, bool rising, double z)
{
    size_t low = 0, high = d->n - 1;
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        double x = in->draws->x[d->order[middle] * in->D + c];
        *((rising ? x <= z : x >= z) ? &low : &high) = middle;
    }
    double left = in->draws->x[d->order[low] * in->D + c], right = in->draws->x[d->order[high] * in->D + c],
           t = right != left ? (z - left) / (right - left) : 0;
    return value_at(d, low) + t * (value_at(d, high) - value_at(d, low));
}

/* Quantiles of a function that goes with coordinate c, from those z[P][D] of the coordinates at p, or at 1 - p if it
 * falls. */
static void map_quantiles(const wv_moments_input *in, const double *value, size_t ld, size_t c, bool rising, size_t P,
                          const double *z, const double *z_se, double *quantile, double *se)
{
    size_t mark = wv_arena_mark(in->arena);
    distribution d = distribute(in->draws->n, in->v, NULL, value, ld, false, in->arena);
    for (size_t l = 0; l < P; l++) {
        double at = z[l * in->D + c], error = z_se[l * in->D + c];
        quantile[l] = function_at(in, &d, c, rising, at);
        se[l] = fabs(function_at(in, &d, c, rising, at + error) - function_at(in, &d, c, rising, at - error)) / 2;
    }
    wv_arena_release(in->arena, mark);
}

/* Quantiles of functions k .. k + run, run <= D, that go with no coordinate. */
static void find_apart(const wv_moments_input *in, const shared *s, size_t m, const double *value, size_t run, size_t P,
                       const double *p, double *quantile, double *se)
{
    size_t n = in->draws->n, mark = wv_arena_mark(in->arena);
    double *at = wv_arena_take(in->arena, run), *F = wv_arena_take(in->arena, run),
           *error = wv_arena_take(in->arena, run);
    for (size_t l = 0; l < P; l++) {
        size_t here = wv_arena_mark(in->arena);
        for (size_t k = 0; k < run; k++) {
            distribution d = distribute(n, in->v, s->omega, value + k, m, false, in->arena);
            at[k] = quantile[k * P + l] = find(&d, p[l]);
            wv_arena_release(in->arena, here);
        }
        wv_moments_below(in, &(wv_moments_levels){run, m, value, at, NULL, NULL}, s->tilted, F, error);
        for (size_t k = 0; k < run; k++) {
            distribution d = distribute(n, in->v, s->omega, value + k, m, false, in->arena);
            se[k * P + l] = find_error(&d, p[l], error[k]);
            wv_arena_release(in->arena, here);
        }
    }
    wv_arena_release(in->arena, mark);
}

/* Quantiles of all coordinates at p[P], [P][D]; falling: at 1 - p. From the arena. */
static double *coordinates_at(const wv_moments_input *in, const shared *s, size_t P, const double *p, bool falling)
{
    double *z = wv_arena_take(in->arena, 2 * P * in->D), *se = z + P * in->D; /* [2][P][D] */
    for (size_t l = 0; l < P; l++)
        find_coordinates(in, s, falling ? 1 - p[l] : p[l], z + l * in->D, se + l * in->D);
    return z;
}

/* Of function k, which is plain or goes with a coordinate. Returns false: neither. table: quantiles of the coordinates
 * for rising and falling functions, made when they are wanted. */
static bool find_one(const wv_moments_input *in, const shared *s, size_t m, const double *value, size_t k, size_t P,
                     const double *p, double **table, double *quantile, double *se)
{
    size_t c = 0, first = 0;
    course how = find_course(in, k, value + k, m, &c);
    if (how == APART)
        return false;
    if (how == RISING || how == FALLING) {
        double **z = &table[how == FALLING];
        *z = *z ? *z : coordinates_at(in, s, P, p, how == FALLING);
        map_quantiles(in, value + k, m, c, how == RISING, P, *z, *z + P * in->D, quantile + k * P, se + k * P);
        return true;
    }
    while (!(in->v[first] > 0))
        first++;
    for (size_t l = 0; l < P; l++) {
        quantile[k * P + l] = how == CONSTANT ? value[first * m + k] : NAN;
        se[k * P + l] = how == CONSTANT ? 0 : NAN;
    }
    return true;
}

void wv_quantiles(const wv_moments_input *in, size_t m, const double *value, size_t P, const double *p,
                  double *quantile, double *se)
{
    size_t n = in->draws->n, mark = wv_arena_mark(in->arena);
    double *table[2] = {NULL, NULL};
    shared s = {wv_arena_take(in->arena, n), wv_arena_take(in->arena, n), false};
    s.tilted = wv_moments_tilt(in, s.omega);
    for (size_t i = 0; i < n; i++)
        s.u[i] = in->draws->log_mix[0][i] - in->draws->log_m[i];
    wv_weights_exp(n, s.u);
    for (size_t k = 0, run = 0; k <= m; k++) {
        bool apart = k < m && !find_one(in, &s, m, value, k, P, p, table, quantile, se);
        run += apart;
        if (run && (!apart || run == in->D)) {
            size_t first = k + apart - run;
            find_apart(in, &s, m, value + first, run, P, p, quantile + first * P, se + first * P);
            run = 0;
        }
    }
    wv_arena_release(in->arena, mark);
}

/* ---- independent draws ------------------------------------------------------------------------------------------- */
void wv_quantiles_plain(size_t n, const double *v, size_t m, const double *value, size_t P, const double *p,
                        double *quantile, double *se, wv_arena *arena)
{
    for (size_t k = 0; k < m; k++) {
        size_t mark = wv_arena_mark(arena);
        bool finite = true;
        for (size_t i = 0; i < n; i++)
            finite = finite && (!(v[i] > 0) || isfinite(value[i * m + k]));
        distribution d = distribute(n, v, NULL, value + k, m, false, arena);
        for (size_t l = 0; l < P; l++) {
            double error = 0, q = finite ? find(&d, p[l]) : NAN;
            for (size_t i = 0; i < n; i++) {
                double off = v[i] > 0 ? v[i] * ((value[i * m + k] <= q) - p[l]) : 0;
                error += off * off;
            }
            quantile[k * P + l] = q;
            se[k * P + l] = finite ? find_error(&d, p[l], sqrt(error)) : NAN;
        }
        wv_arena_release(arena, mark);
    }
}
