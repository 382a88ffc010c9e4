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
    const uint32_t *order; /* [n] draws in their order, */
    const double *value;   /* [n] and their values */
    double *below, *known; /* [n] sums of weights, and of u, up to the middle of each draw; all weights sum to 1 */
    double slope, all;     /* b; the sum of u over all draws */
    /* the distribution of the mixture: NULL, and slope 0, where there is none */
    const wv_moments_input *in;
    size_t coordinate;
    const double *sd; /* [K] of its components along the coordinate */
} distribution;

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
        if (d->value[middle] <= z)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || low == d->n)
        return low ? total : 0;
    double left = d->value[low - 1], right = d->value[low], t = right > left ? (z - left) / (right - left) : 0;
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
        *(share_below(d, d->value[middle]) < p ? &low : &high) = middle;
    }
    double left = d->value[low], right = d->value[high];
    for (int i = 0; i < HALVINGS; i++) {
        double middle = left + (right - left) / 2;
        *(share_below(d, middle) < p ? &left : &right) = middle;
    }
    return left + (right - left) / 2;
}

/* Half the distance between the quantiles at p + se and p - se; where these are too near to tell a slope, in proportion
 * to those farther apart. */
static double slope_error(const distribution *d, double p, double se)
{
    double end = fmin(p, 1 - p), most = wv_policy.quantile_span_most * end,
           span = fmin(fmax(se, wv_policy.quantile_span * end), most);
    return span > 0 ? (find(d, p + span) - find(d, p - span)) / 2 * (se / span) : NAN;
}

/* The error of a quantile z. Where an error of F could move it into a gap between modes, or far out into a tail, it is
 * not in proportion to that of F: the farther of the quantiles at two and three times that to either side tells. */
static double find_error(const distribution *d, double p, double z, double se)
{
    double most = wv_policy.quantile_span_most * fmin(p, 1 - p), error = slope_error(d, p, se);
    for (double times = 2; se > 0 && times <= wv_policy.quantile_far; times++) {
        double span = fmin(times * se, most);
        error = fmax(error, fmax(find(d, p + span) - z, z - find(d, p - span)) / times);
    }
    return error;
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
    wv_weights_order(n, key, order, arena);
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
        double below = d->value[i] <= z, c = u[k] * (below - share);
        cross += v[k] * (below - p) * c;
        square += c * c;
    }
    return square > 0 ? fmin(fmax(cross * (double)d->n / square, 0), 1) : 0;
}

/* What functions share: factors and u of the draws, [n] each, and the tilt, or NULL. */
typedef struct {
    double *omega, *u;
    const wv_moments_tilt *tilt;
} shared;

/* n draws in this order, with normalised weights v and factors omega or NULL. From the arena. */
static distribution distribute_sorted(size_t n, const uint32_t *order, const double *v, const double *omega,
                                      const double *value, size_t ld, wv_arena *arena)
{
    double *sorted = wv_arena_take(arena, n), *below = wv_arena_take(arena, n), sum = add_up(n, order, v, omega, below);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = value[order[i] * ld];
        below[i] /= sum;
    }
    return (distribution){.n = n, .order = order, .value = sorted, .below = below};
}

/* Those of n draws that have weight. */
static distribution distribute(size_t n, const double *v, const double *value, size_t ld, wv_arena *arena)
{
    uint32_t *order = wv_arena_take_index(arena, n);
    size_t count = sort_draws(n, v, value, ld, false, order, arena);
    return distribute_sorted(count, order, v, NULL, value, ld, arena);
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

/* That of coordinate c, with the mixture, of all draws in this order. */
static distribution distribute_coordinate(const wv_moments_input *in, const shared *s, const uint32_t *order, size_t c)
{
    size_t n = in->draws->n;
    distribution d = distribute_sorted(n, order, in->v, s->omega, in->draws->x + c, in->D, in->arena);
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
/* Of coordinate c, at p: quantile, control slope and the mixture's share below. */
static void find_level(const wv_moments_input *in, const shared *s, distribution d, double p, double *z, double *slope,
                       double *share)
{
    *slope = d.slope = control_slope(&d, in->v, s->u, p, find(&d, p));
    *z = find(&d, p);
    *share = mixture_share(&d, *z);
}

/* Quantiles of all coordinates at p[P], and their standard errors, [2][P][D]; falling: at 1 - p. From the arena. */
static double *coordinates_at(const wv_moments_input *in, const shared *s, size_t P, const double *p, bool falling)
{
    size_t D = in->D, n = in->draws->n;
    double *z = wv_arena_take(in->arena, 2 * P * D), *se = z + P * D;
    size_t mark = wv_arena_mark(in->arena);
    double *share = wv_arena_take(in->arena, P * D), *slope = wv_arena_take(in->arena, P * D);
    uint32_t *order = wv_arena_take_index(in->arena, D * n);
    for (size_t c = 0; c < D; c++) {
        size_t here = wv_arena_mark(in->arena);
        sort_draws(n, in->v, in->draws->x + c, D, true, order + c * n, in->arena);
        distribution d = distribute_coordinate(in, s, order + c * n, c);
        for (size_t l = 0, at = c; l < P; l++, at += D)
            find_level(in, s, d, falling ? 1 - p[l] : p[l], z + at, slope + at, share + at);
        wv_arena_release(in->arena, here);
    }
    for (size_t l = 0; l < P; l++)
        wv_moments_below(in, s->tilt, &(wv_moments_levels){D, D, in->draws->x, z + l * D, share + l * D, slope + l * D},
                         se + l * D);
    for (size_t c = 0; c < D; c++) {
        size_t here = wv_arena_mark(in->arena);
        distribution d = distribute_coordinate(in, s, order + c * n, c);
        for (size_t l = 0, at = c; l < P; l++, at += D) {
            d.slope = slope[at];
            se[at] = find_error(&d, falling ? 1 - p[l] : p[l], z[at], se[at]);
        }
        wv_arena_release(in->arena, here);
    }
    wv_arena_release(in->arena, mark);
    return z;
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
static course find_course(const wv_moments_input *in, size_t k, const distribution *d, size_t *c)
{
    if (d->value[0] == d->value[d->n - 1])
        return CONSTANT;
    for (size_t i = 0; i < in->D; i++) {
        *c = (k + i) % in->D;
        if (follows(in, d, *c, true))
            return RISING;
        if (follows(in, d, *c, false))
            return FALLING;
    }
    return APART;
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
    return d->value[low] + t * (d->value[high] - d->value[low]);
}

/* Quantiles of a function that goes with coordinate c, from those z[P][D] of the coordinates at p, or at 1 - p if it
 * falls. */
static void map_quantiles(const wv_moments_input *in, const distribution *d, size_t c, bool rising, size_t P,
                          const double *z, double *quantile, double *se)
{
    for (size_t l = 0; l < P; l++) {
        double at = z[l * in->D + c], error = z[(P + l) * in->D + c];
        quantile[l] = function_at(in, d, c, rising, at);
        se[l] = fabs(function_at(in, d, c, rising, at + error) - function_at(in, d, c, rising, at - error)) / 2;
    }
}

/* Quantiles of a function that goes with no coordinate, d. */
static void find_apart(const wv_moments_input *in, const shared *s, const distribution *d, size_t ld,
                       const double *value, size_t P, const double *p, double *quantile, double *se)
{
    size_t n = in->draws->n, mark = wv_arena_mark(in->arena);
    double *levels = wv_arena_take(in->arena, n * P), /* [n][P] the value, once for each level */
        sum = add_up(d->n, d->order, in->v, s->omega, d->below);
    for (size_t i = 0; i < d->n; i++)
        d->below[i] /= sum;
    for (size_t i = 0; i < n * P; i++)
        levels[i] = value[i / P * ld];
    for (size_t l = 0; l < P; l++)
        quantile[l] = find(d, p[l]);
    wv_moments_below(in, s->tilt, &(wv_moments_levels){P, P, levels, quantile, NULL, NULL}, se);
    for (size_t l = 0; l < P; l++)
        se[l] = find_error(d, p[l], quantile[l], se[l]);
    wv_arena_release(in->arena, mark);
}

/* Whether a function is a number wherever there is weight. */
static bool is_finite(const wv_moments_input *in, const double *value, size_t ld)
{
    for (size_t i = 0; i < in->draws->n; i++)
        if (in->v[i] > 0 && !isfinite(value[i * ld]))
            return false;
    return true;
}

/* Of one function, which is looked for from coordinate k on. table: quantiles of the coordinates for rising and falling
 * functions; returns false where that is needed and missing, *missing. */
static bool find_one(const wv_moments_input *in, const shared *s, size_t k, size_t ld, const double *value, size_t P,
                     const double *p, double *const *table, size_t *missing, double *quantile, double *se)
{
    size_t c = 0, mark = wv_arena_mark(in->arena);
    bool finite = is_finite(in, value, ld);
    distribution d = {0};
    course how = NOT_FINITE;
    if (finite) {
        d = distribute(in->draws->n, in->v, value, ld, in->arena);
        how = find_course(in, k, &d, &c);
    }
    for (size_t l = 0; l < P; l++) {
        quantile[l] = how == CONSTANT ? d.value[0] : NAN;
        se[l] = how == CONSTANT ? 0 : NAN;
    }
    *missing = how == FALLING;
    bool done = (how != RISING && how != FALLING) || table[*missing];
    if (done && (how == RISING || how == FALLING))
        map_quantiles(in, &d, c, how == RISING, P, table[*missing], quantile, se);
    if (how == APART)
        find_apart(in, s, &d, ld, value, P, p, quantile, se);
    wv_arena_release(in->arena, mark);
    return done;
}

void wv_quantiles(const wv_moments_input *in, const wv_moments_tilt *tilt, size_t m, const double *value, size_t P,
                  const double *p, double *quantile, double *se)
{
    size_t n = in->draws->n, mark = wv_arena_mark(in->arena), falling;
    double *table[2] = {NULL, NULL};
    shared s = {wv_arena_take(in->arena, n), wv_arena_take(in->arena, n), wv_moments_tilts(in, tilt) ? tilt : NULL};
    for (size_t i = 0; i < n; i++)
        s.omega[i] = s.tilt ? 1 - tilt->t[wv_draws_unit(in->draws, i)] : 1;
    wv_moments_ratio(in, s.u);
    for (size_t k = 0; P && k < m;)
        if (find_one(in, &s, k, m, value + k, P, p, table, &falling, quantile + k * P, se + k * P))
            k++;
        else
            table[falling] = coordinates_at(in, &s, P, p, falling);
    wv_arena_release(in->arena, mark);
}

/* ---- independent draws ------------------------------------------------------------------------------------------- */
void wv_quantiles_plain(size_t n, const double *v, size_t m, const double *value, size_t P, const double *p,
                        double *quantile, double *se, wv_arena *arena)
{
    for (size_t k = 0; P && k < m; k++) {
        size_t mark = wv_arena_mark(arena);
        bool finite = true;
        for (size_t i = 0; i < n; i++)
            finite = finite && (!(v[i] > 0) || isfinite(value[i * m + k]));
        distribution d = distribute(n, v, value + k, m, arena);
        for (size_t l = 0; l < P; l++) {
            double error = 0, q = finite ? find(&d, p[l]) : NAN;
            for (size_t i = 0; i < n; i++) {
                double off = v[i] > 0 ? v[i] * ((value[i * m + k] <= q) - p[l]) : 0;
                error += off * off;
            }
            quantile[k * P + l] = q;
            se[k * P + l] = finite ? find_error(&d, p[l], q, sqrt(error)) : NAN;
        }
        wv_arena_release(arena, mark);
    }
}
