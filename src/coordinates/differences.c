/* differences.c - gradients from values. About a point x, with f = log p~,
 *
 *     g_i = (f(x + h_i e_i) - f(x - h_i e_i)) / 2 h_i
 *
 * and from one side alone where the other has no density, or where the error of that, e / h + h / 2 s^2, is small
 * enough (D + 1 values instead of 2D + 1). With noise of sd e in f, rounding at least, and slopes that change over a
 * distance s_i, the error e / h + h^2 / 6 s^3 is least at
 *
 *     h_i = s_i (3 e)^(1/3)
 *
 * The noise is measured: the fourth difference of five values in a row, at a few points of every batch, is
 * h^4 f'''' + sqrt(70) e, in which the first term is negligible (Hamming's table of differences). So rounding, single
 * precision, tables and random numbers in the density are all seen, and the steps follow. The scale s_i comes from the
 * mixture, or before there is one from second differences, which the same values give. Where all differences along a
 * coordinate vanish, as on plateaus, its step grows until they do not. */
#include "coordinates/differences.h"
#include "error.h"
#include "memory.h"
#include "policy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double rounding = 0x1p-52;

size_t wv_differences_most(size_t D, size_t points)
{
    return wv_times(points, 2 * D + 3);
}

bool wv_differences_new(wv_differences *d, size_t D, size_t room)
{
    size_t most = wv_differences_most(D, room), some = room ? D : 0;
    *d = (wv_differences){.D = D, .room = room, .top = -INFINITY, .lowest = INFINITY, .highest = -INFINITY};
    const wv_slot own[] = {{&d->scale, some}, {&d->least, some}, {&d->step, some}},
                  values[] = {{&d->x, wv_times(most, D)}, {&d->log_p, most}};
    if (!room)
        return true;
    d->memory = wv_memory_carve(own, sizeof own / sizeof *own, WV_ZEROED);
    d->large = wv_memory_carve(values, sizeof values / sizeof *values, WV_AS_IT_IS); /* most of it is never used */
    for (size_t i = 0; d->memory && i < D; i++)
        d->scale[i] = 1;
    return d->memory && d->large;
}

void wv_differences_free(wv_differences *d)
{
    free(d->memory);
    free(d->large);
}

void wv_differences_set_scale(wv_differences *d, const double *scale)
{
    for (size_t i = 0; i < d->D; i++)
        if (isfinite(scale[i]) && scale[i] > 0)
            d->scale[i] = scale[i];
}

/* Numbers that a saved state holds. */
typedef struct {
    size_t again, repeats, doubt;
    double top, lowest, highest;
    wv_noise noise, near;
} saved;

bool wv_differences_archive(wv_differences *d, wv_archive *a)
{
    saved s = {d->again, d->repeats, d->doubt, d->top, d->lowest, d->highest, d->noise, d->near};
    if (!d->room)
        return true;
    wv_archive_values(a, &s, sizeof s);
    if (wv_archive_reading(a)) {
        d->again = s.again;
        d->repeats = s.repeats;
        d->doubt = s.doubt;
        d->top = s.top;
        d->lowest = s.lowest;
        d->highest = s.highest;
        d->noise = s.noise;
        d->near = s.near;
        d->n = 0;
    }
    wv_archive_array(a, d->scale, d->D);
    wv_archive_array(a, d->least, d->D);
    return true;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */
/* The sd of which the measurements would be the upper quartile; 0: there are none. */
static double sd_of(const wv_noise *from)
{
    const double normal = 1.15034938037600798; /* three quarters of |normal numbers| are less */
    double sorted[WV_DIFFERENCES_KEPT];
    size_t n = from->seen < WV_DIFFERENCES_KEPT ? from->seen : WV_DIFFERENCES_KEPT;
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at && sorted[at - 1] > from->sd[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = from->sd[i];
    }
    return n ? fmax(sorted[n - 1 - n / 4] / normal, rounding) : 0;
}

double wv_differences_noise(const wv_differences *d)
{
    return d->noise.seen ? sd_of(&d->noise) : wv_policy.differences_noise;
}

double wv_differences_roughness(const wv_differences *d)
{
    return sd_of(&d->near);
}

bool wv_differences_flat(const wv_differences *d)
{
    return d->highest - d->lowest <= wv_policy.differences_seen * rounding * fabs(d->highest);
}

/* The error of a slope from one side with the best step, h = s sqrt(2 sqrt(2) e), is h / s^2. */
static double forward_step(double noise)
{
    return sqrt(sqrt(8) * noise);
}

bool wv_differences_exact(const wv_differences *d)
{
    bool plateaus = d->doubt;
    for (size_t i = 0; i < d->D; i++)
        plateaus |= d->least[i] > 0;
    return d->noise.seen && !plateaus && forward_step(wv_differences_noise(d)) < wv_policy.differences_forward;
}

static double step_of(const wv_differences *d, size_t i, double noise)
{
    return d->scale[i] * fmin(fmax(d->least[i], cbrt(3 * noise)), wv_policy.differences_longest);
}

double wv_differences_longest(const wv_differences *d)
{
    double noise = wv_differences_noise(d), most = 0;
    for (size_t i = 0; i < d->D; i++)
        most = fmax(most, step_of(d, i, noise) / d->scale[i]);
    return most;
}

/* ---- ask --------------------------------------------------------------------------------------------------------- */
/* Which value is that of point k moved along coordinate i, forwards (side 0) or, with two sides, backwards (1). */
static size_t beside(const wv_differences *d, size_t k, size_t i, size_t side)
{
    return d->points + d->sides * (k * d->D + i) + side;
}

/* Probe p: its point and coordinate, and which values are those of the point moved by two steps, and by one backwards.
 */
typedef struct {
    size_t point, coordinate, value[2], behind;
} probe;

/* Values of a probe alone. */
static size_t values_of_probe(const wv_differences *d)
{
    return d->sides == 2 ? 2 : 3;
}

static probe probe_of(const wv_differences *d, size_t p)
{
    size_t first = d->points * (d->sides * d->D + 1) + values_of_probe(d) * p, point = p * d->points / d->probes,
           i = (d->turn + p) % d->D;
    return (probe){point, i, {first, first + 1}, d->sides == 2 ? beside(d, point, i, 1) : first + 2};
}

/* Value `at` is asked for at x, moved so many steps along coordinate i, which are no shorter than x resolves. */
static void move(const wv_differences *d, const double *x, size_t i, double steps, size_t at)
{
    const double resolved = 0x1p-44;
    double *to = d->x + at * d->D;
    memcpy(to, x, d->D * sizeof *to);
    to[i] += steps * fmax(d->step[i], resolved * fabs(x[i]));
}

void wv_differences_expand(wv_differences *d, size_t n, const double *x, bool learn)
{
    const wv_noise *wanted = n < WV_DIFFERENCES_KEPT ? &d->noise : &d->near;
    size_t D = d->D, most = wanted->seen < WV_DIFFERENCES_KEPT ? (size_t)wv_policy.differences_probes : 1,
           half = (n + 1) / 2;
    double noise = wv_differences_noise(d);
    d->points = n;
    d->turn = d->noise.seen;
    d->probes = half < most ? half : most;
    d->learn = learn;
    d->known = 0;
    d->sides = !learn && wv_differences_exact(d) ? 1 : 2;
    d->n = n * (d->sides * D + 1) + values_of_probe(d) * d->probes;
    for (size_t i = 0; i < D; i++)
        d->step[i] = d->sides == 1 ? d->scale[i] * forward_step(noise) : step_of(d, i, noise);
    memcpy(d->x, x, n * D * sizeof *x);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++)
            for (size_t side = 0; side < d->sides; side++)
                move(d, x + k * D, i, side ? -1 : 1, beside(d, k, i, side));
    for (size_t p = 0; p < d->probes; p++) {
        probe at = probe_of(d, p);
        move(d, x + at.point * D, at.coordinate, 2, at.value[0]);
        move(d, x + at.point * D, at.coordinate, -2, at.value[1]);
        if (d->sides == 1)
            move(d, x + at.point * D, at.coordinate, -1, at.behind);
    }
}

void wv_differences_know(wv_differences *d, const double *log_p)
{
    memcpy(d->log_p, log_p, d->points * sizeof *log_p);
    d->known = d->points;
}

double *wv_differences_lend(const wv_differences *d)
{
    return d->log_p;
}

void wv_differences_leave(wv_differences *d)
{
    d->n = 0;
}

/* ---- tell -------------------------------------------------------------------------------------------------------- */
/* Three values in a row about point k along coordinate i. */
typedef struct {
    double at, ahead, behind; /* log densities; NaN: not asked for */
    double forth, back;       /* distances to the others */
} row;

static row row_of(const wv_differences *d, const double *told, size_t k, size_t i)
{
    size_t ahead = beside(d, k, i, 0), behind = beside(d, k, i, 1);
    double x = d->x[k * d->D + i], forth = d->x[ahead * d->D + i] - x;
    if (d->sides == 1)
        return (row){told[k], told[ahead], NAN, forth, forth};
    return (row){told[k], told[ahead], told[behind], forth, x - d->x[behind * d->D + i]};
}

/* The slope in the middle, from the sides that have density; 0: neither has. */
static double slope(row r)
{
    if (isfinite(r.ahead) && isfinite(r.behind))
        return (r.ahead - r.behind) / (r.forth + r.back);
    if (isfinite(r.ahead))
        return (r.ahead - r.at) / r.forth;
    return isfinite(r.behind) ? (r.at - r.behind) / r.back : 0;
}

static void note(wv_noise *to, double sd)
{
    to->sd[to->seen++ % WV_DIFFERENCES_KEPT] = sd;
}

/* Once scales are known: does a point of this log density say nothing of steps? A walk has gone astray. */
static bool astray(const wv_differences *d, double log_p)
{
    return !d->learn && log_p < d->top - wv_policy.differences_astray * (double)(d->D + 1);
}

/* Notes what the fourth differences at the probes say of the noise. */
static void measure_noise(wv_differences *d, const double *told)
{
    const double factor = 8.36660026534075548; /* sqrt(1 + 16 + 36 + 16 + 1) */
    for (size_t k = 0; k < d->points; k++)
        d->top = isfinite(told[k]) ? fmax(d->top, told[k]) : d->top;
    for (size_t p = 0; p < d->probes; p++) {
        probe at = probe_of(d, p);
        row r = row_of(d, told, at.point, at.coordinate);
        double fourth = told[at.value[0]] - 4 * r.ahead + 6 * r.at - 4 * told[at.behind] + told[at.value[1]];
        double sd = fmax(fabs(fourth) / factor, rounding * fabs(r.at));
        if (!isfinite(fourth) || astray(d, r.at))
            continue;
        note(&d->noise, sd);
        if (r.at > d->top - wv_policy.differences_near * (double)(d->D + 1))
            note(&d->near, sd);
    }
}

/* What the points show along one coordinate. */
typedef struct {
    double rows;            /* with density on all sides that were asked for */
    double curved, log_sum; /* of these, where second differences are more than noise; sum of log |f''| there */
    double level;           /* of these, where all differences are noise, or vanish */
    double points, lost;    /* with density; of these, those that have none on either side */
} shown;

static void show(shown *to, row r, double noise)
{
    const double second = 2.44948974278317810; /* sqrt(1 + 4 + 1) */
    double bend = fabs(r.ahead - 2 * r.at + r.behind), rise = fabs(r.ahead - r.behind),
           least = wv_policy.differences_resolved * second * noise;
    if (!isfinite(r.at))
        return;
    to->points++;
    to->lost += !isfinite(r.ahead) && !isfinite(r.behind);
    if (isnan(r.behind) && isfinite(r.ahead)) {
        to->rows++;
        to->level += fabs(r.ahead - r.at) <= wv_policy.differences_seen * noise;
    }
    if (!isfinite(bend))
        return;
    to->rows++;
    if (bend > least) {
        to->curved++;
        to->log_sum += log(bend / (r.forth * r.back));
    } else if (rise <= wv_policy.differences_seen * noise)
        to->level++;
}

/* Error of a slope, times the scale. */
static double error_of(double step, double scale, double noise)
{
    double h = step / scale;
    return noise / h + h * h / 6;
}

/* Are most differences noise? */
static bool vanishes(const shown *s)
{
    return 2 * s->level > s->rows;
}

/* Scale and least step of coordinate i from what was shown there. Whether the step was so wrong that the answers are of
 * no use. */
static bool adapt(wv_differences *d, size_t i, const shown *s, double noise)
{
    const double longer = wv_policy.differences_stretch;
    double used = d->step[i];
    bool one = d->sides == 1, vanish = vanishes(s), lost = 2 * s->lost > s->points,
         level = vanish && !one && step_of(d, i, noise) < longer * used;
    if (d->learn && 2 * s->curved > s->rows) {
        d->scale[i] = exp(-s->log_sum / s->curved / 2);
        d->least[i] = 0;
    }
    if (level && d->learn)
        d->scale[i] *= longer;
    else if (level)
        d->least[i] = longer * used / d->scale[i];
    if (lost)
        d->scale[i] /= longer;
    double now = step_of(d, i, noise), was = error_of(used, d->scale[i], noise);
    return (level && now > used) || (vanish && one && d->points >= WV_DIFFERENCES_KEPT) || lost ||
           (was > wv_policy.differences_error &&
            error_of(now, d->scale[i], noise) < wv_policy.differences_better * was);
}

/* Whether the batch is to be asked for again. */
static bool ask_again(wv_differences *d, bool wrong)
{
    bool again = wrong && (double)d->again < wv_policy.differences_again &&
                 (double)d->repeats < wv_policy.differences_repeats;
    d->again = again ? d->again + 1 : 0;
    d->repeats += again;
    return again;
}

bool wv_differences_collapse(wv_differences *d, const double *told, double *log_p, double *grad)
{
    size_t D = d->D, n = d->points;
    bool wrong = false, vanish = false;
    measure_noise(d, told);
    for (size_t i = 0; i < d->n; i++)
        if (isfinite(told[i])) {
            d->lowest = fmin(d->lowest, told[i]);
            d->highest = fmax(d->highest, told[i]);
        }
    double noise = wv_differences_noise(d);
    memcpy(log_p, told, n * sizeof *told);
    for (size_t i = 0; i < D; i++) {
        shown s = {0};
        for (size_t k = 0; k < n; k++) {
            row r = row_of(d, told, k, i);
            grad[k * D + i] = isfinite(r.at) ? slope(r) : 0;
            if (!astray(d, r.at))
                show(&s, r, noise);
        }
        wrong |= s.points > 0 && adapt(d, i, &s, noise);
        vanish |= vanishes(&s);
    }
    d->doubt = vanish; /* few points may be tops: the next batch tells */
    d->n = 0;
    return !ask_again(d, wrong);
}
