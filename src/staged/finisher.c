/* finisher.c - where neither growth nor more draws help, chains complete the fit (method, section 9; docs/internals/
 * finish.md). Chains in lock step (chains.c) begin at final draws; after each trajectory a jump is tried: a draw y of
 * the proposal m replaces the state x with probability min(1, r(y)/r(x)), r = p~/m, which joins modes. They go on until
 * errors of means and sds, taken between chains, are small.
 *
 * The answer comes from the n1 draws of m and n2 states together: all of them are draws of (n1 m + n2 p~/Z) / (n1 +
 * n2), with weights 1 / (n1 m/p~ + n2/Z). Z solves (Meng and Wong)
 *
 *     Z = sum_i 1 / (n1 m/p~ + n2/Z)    over draws and states
 *
 * States are thinned by their autocorrelation time, so that they count as draws.
 *
 * Where m is hopeless (a fifth of the mass beyond 32 Z) the answer is that of the states alone, the metric is learnt
 * from them, and Z comes from a ladder of rungs p~^b g^(1-b), b = 1 .. 0, g the Gaussian with the moments of the
 * states: chains walk down, and neighbouring rungs are bridged by the same equation. */
#include "staged/finisher.h"
#include "dense.h"
#include "fit.h"
#include "gaussian.h"
#include "memory.h"
#include "policy.h"
#include "rng.h"
#include "staged/chains.h"
#include "staged/decisions.h"
#include "staged/modes.h"
#include "staged/staged_closing.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_finisher_new(wv_finisher *c, size_t D)
{
    *c = (wv_finisher){.D = D};
    size_t states = D ? WV_FINISH_TRAJECTORIES * WV_CHAINS : 0;
    const wv_slot slots[] = {{&c->x, wv_times(states, D)},
                             {&c->g, wv_times(states, D)},
                             {&c->log_p, states},
                             {&c->log_m, states},
                             {&c->mean, D},
                             {&c->root, wv_times(D, D)},
                             {&c->inverse, wv_times(D, D)},
                             {&c->rung_u, D ? WV_FINISH_RUNGS * WV_FINISH_STATES * WV_CHAINS : 0}};
    c->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return c->memory != NULL;
}

void wv_finisher_free(wv_finisher *c)
{
    free(c->memory);
}

void wv_finisher_copy(wv_finisher *to, const wv_finisher *from)
{
    to->now = from->now;
}

bool wv_finisher_archive(wv_finisher *c, wv_archive *a, bool running)
{
    wv_finished s = c->now;
    wv_archive_values(a, &s, sizeof s);
    bool ladder = running && s.phase >= WV_FINISH_LADDER;
    if (s.result > WV_FINISH_UNSETTLED || s.phase > WV_FINISH_FLOOR || s.trajectory > WV_FINISH_TRAJECTORIES ||
        (s.hopeless & ~1) || s.rung > WV_FINISH_RUNGS || (running && (double)s.move > wv_policy.finish_rung_moves) ||
        (running && s.phase < WV_FINISH_LADDER && s.trajectory == WV_FINISH_TRAJECTORIES))
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        c->now = s;
    size_t states = running ? s.trajectory * WV_CHAINS : 0, D = ladder ? c->D : 0;
    wv_archive_array(a, c->x, states * c->D);
    wv_archive_array(a, c->g, states * c->D);
    wv_archive_array(a, c->log_p, states);
    wv_archive_array(a, c->log_m, states);
    wv_archive_array(a, c->mean, D);
    wv_archive_array(a, c->root, D * D);
    wv_archive_array(a, c->inverse, D * D);
    wv_archive_array(a, c->rung_u, ladder ? s.rung * WV_FINISH_STATES * WV_CHAINS : 0);
    return true;
}

bool wv_finisher_has_states(const wvgd_fit *f)
{
    return f->closing.draws.states > 0;
}

/* ---- the bridge -------------------------------------------------------------------------------------------------- */
/* log(exp a + exp b) */
static double add_logs(double a, double b)
{
    double top = fmax(a, b), low = fmin(a, b);
    return low > -INFINITY ? top + log1p(exp(low - top)) : top;
}

/* Two samples: log ratios r[n] of densities p~/q at draws of q and at draws of p, of which those in group `out` of
 * `groups` are left out. In column c of `columns` is a draw of chain c, in group c % groups. */
typedef struct {
    const double *q, *p;
    size_t nq, np, columns_q, columns_p, groups, out;
} samples;

static bool is_out(const samples *s, size_t i, size_t columns)
{
    return s->groups && i % columns % s->groups == s->out;
}

static double count(const samples *s, size_t n, size_t columns)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += !is_out(s, i, columns);
    return sum;
}

/* log Z, by iteration of Z = sum 1 / (n1 q/p~ + n2/Z). */
static double bridge(const samples *s)
{
    enum { ITERATIONS = 1000 };
    const double enough = 1e-10;
    double n1 = count(s, s->nq, s->columns_q), n2 = count(s, s->np, s->columns_p), z = -INFINITY;
    for (size_t i = 0; i < s->nq; i++)
        if (!is_out(s, i, s->columns_q))
            z = add_logs(z, s->q[i]);
    z = isfinite(z) ? z - log(n1) : 0;
    for (int k = 0; k < ITERATIONS; k++) {
        double next = -INFINITY;
        for (size_t i = 0; i < s->nq; i++)
            if (!is_out(s, i, s->columns_q) && s->q[i] > -INFINITY)
                next = add_logs(next, -add_logs(log(n1) - s->q[i], log(n2) - z));
        for (size_t i = 0; i < s->np; i++)
            if (!is_out(s, i, s->columns_p))
                next = add_logs(next, -add_logs(log(n1) - s->p[i], log(n2) - z));
        double change = fabs(next - z);
        z = next;
        if (!(change > enough))
            break;
    }
    return z;
}

/* Squared relative error of a mean over units, [units][each] values one after the other; infinite where all are 0. */
static double square_error(size_t units, size_t each, const double *value)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < units * each; i++)
        mean += value[i] / (double)(units * each);
    for (size_t u = 0; u < units; u++) {
        double own = 0;
        for (size_t k = 0; k < each; k++)
            own += value[u * each + k] / (double)each;
        square += (own - mean) * (own - mean);
    }
    return mean > 0 && units > 1 ? square / ((double)units * ((double)units - 1) * mean * mean) : INFINITY;
}

/* The evidence by the bridge between draws, of log p~/m q[n1], and states p[chains][each], and its standard error, with
 * pairs of draws and chains as units: Z = mean_q A / mean_p B. */
static wvgd_estimate bridge_states(wvgd_fit *f, size_t n1, const double *q, size_t each, const double *p)
{
    size_t C = f->chains.now.chains, n2 = C * each, mark = wv_arena_mark(f->arena);
    double *A = wv_arena_take(f->arena, n1), *B = wv_arena_take(f->arena, n2), share = (double)n1 / (double)(n1 + n2);
    double z = bridge(&(samples){.q = q, .p = p, .nq = n1, .np = n2, .columns_q = n1, .columns_p = n2});
    for (size_t i = 0; i < n1; i++)
        A[i] = exp(-add_logs(log(1 - share), log(share) + z - q[i]));
    for (size_t i = 0; i < n2; i++)
        B[i] = exp(-add_logs(log(1 - share) + p[i] - z, log(share)));
    double se = sqrt(square_error(n1 / 2, 2, A) + square_error(C, each, B));
    wv_arena_release(f->arena, mark);
    return (wvgd_estimate){z, se};
}

/* ---- states ------------------------------------------------------------------------------------------------------ */
/* The first trajectory that counts. */
static size_t first_kept(const wv_finished *s)
{
    return (size_t)((double)s->trajectory / (s->hopeless ? wv_policy.finish_burn_hopeless : wv_policy.finish_burn));
}

/* Final draws, behind those of the trial; log p~/m of them, from the arena. */
static double *drawn_ratios(wvgd_fit *f, size_t *n)
{
    const wv_draws *b = &f->closing.draws;
    size_t first = f->closing.trial;
    *n = b->n - first;
    double *q = wv_arena_take(f->arena, *n);
    for (size_t i = 0; i < *n; i++)
        q[i] = b->log_p[first + i] - b->log_m[first + i];
    return q;
}

/* p[chains][each]: log p~/m at every `stride`-th of the last states of each chain; returns `each`. */
static size_t state_ratios(const wvgd_fit *f, size_t stride, double *p)
{
    const wv_finisher *c = &f->finish;
    size_t C = f->chains.now.chains, T = c->now.trajectory, first = first_kept(&c->now), each = (T - first) / stride;
    for (size_t i = 0; i < C; i++)
        for (size_t k = 0; k < each; k++) {
            size_t at = (T - 1 - (each - 1 - k) * stride) * WV_CHAINS + i;
            p[i * each + k] = c->log_p[at] - c->log_m[at];
        }
    return each;
}

/* Autocorrelation time of p~/(p~ + m Z) along chains, p[chains][each]. */
static double autocorrelation(wvgd_fit *f, size_t each, const double *p, double log_z)
{
    size_t C = f->chains.now.chains, n = C * each, mark = wv_arena_mark(f->arena);
    double *v = wv_arena_take(f->arena, n), mean = 0, square = 0, tau = 1;
    for (size_t i = 0; i < n; i++) {
        v[i] = 1 / (1 + exp(log_z - p[i]));
        mean += v[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        v[i] -= mean;
        square += v[i] * v[i] / (double)n;
    }
    for (size_t lag = 1; lag < each / 2; lag++) {
        double sum = 0;
        for (size_t i = 0; i < C; i++)
            sum += cblas_ddot((int)(each - lag), v + i * each, 1, v + i * each + lag, 1);
        double r = square > 0 ? sum / (double)(C * (each - lag)) / square : 0;
        if (!(r > wv_policy.finish_autocorrelation))
            break;
        tau += 2 * r;
    }
    wv_arena_release(f->arena, mark);
    return tau;
}

/* Sums over units of weight x (value - at): for errors between units. */
typedef struct {
    size_t D, units;
    double *first, *second; /* [units][D] of values, and of squares, less their means */
} unit_sums;

/* Where point i of the pool is: final draws first, then states by chains. */
typedef struct {
    size_t drawn, each, first; /* draws that count; states of each chain, from trajectory `first` on */
    const double *v;           /* [drawn + states] normalised weights */
} pool;

static const double *point_of(const wvgd_fit *f, const pool *o, size_t i)
{
    if (i < o->drawn)
        return f->closing.draws.x + (f->closing.trial + i) * f->D;
    size_t s = i - o->drawn;
    return f->finish.x + ((o->first + s % o->each) * WV_CHAINS + s / o->each) * f->D;
}

static size_t unit_of(const pool *o, size_t i)
{
    return i < o->drawn ? i / 2 : o->drawn / 2 + (i - o->drawn) / o->each;
}

/* Weighted means and variances [D] of the pool. */
static void weigh_pool(const wvgd_fit *f, const pool *o, double *mean, double *var)
{
    size_t D = f->D, n = o->drawn + o->each * f->chains.now.chains;
    memset(mean, 0, D * sizeof *mean);
    memset(var, 0, D * sizeof *var);
    for (size_t i = 0; i < n; i++)
        if (o->v[i] > 0)
            cblas_daxpy((int)D, o->v[i], point_of(f, o, i), 1, mean, 1);
    for (size_t i = 0; i < n; i++) {
        const double *x = point_of(f, o, i);
        for (size_t k = 0; k < D && o->v[i] > 0; k++)
            var[k] += o->v[i] * (x[k] - mean[k]) * (x[k] - mean[k]);
    }
}

static void sum_units(const wvgd_fit *f, const pool *o, const double *mean, const double *var, unit_sums *s)
{
    size_t D = f->D, n = o->drawn + o->each * f->chains.now.chains;
    for (size_t i = 0; i < n; i++) {
        const double *x = point_of(f, o, i);
        double *first = s->first + unit_of(o, i) * D, *second = s->second + unit_of(o, i) * D;
        for (size_t k = 0; k < D && o->v[i] > 0; k++) {
            double d = x[k] - mean[k];
            first[k] += o->v[i] * d;
            second[k] += o->v[i] * (d * d - var[k]);
        }
    }
}

/* Square root of the sum of squares of column k of rows[n][D], less their mean, of rows from `from` to `to`. */
static double scatter(size_t D, size_t k, size_t from, size_t to, const double *rows)
{
    double mean = 0, square = 0;
    for (size_t i = from; i < to; i++)
        mean += rows[i * D + k] / (double)(to - from);
    for (size_t i = from; i < to; i++)
        square += (rows[i * D + k] - mean) * (rows[i * D + k] - mean);
    return sqrt(square);
}

/* Largest change of z and z^2 from one half of a chain's states to the other, in standard errors between chains, and
 * split R-hat, of coordinate k. */
static void compare_halves(const wvgd_fit *f, const pool *o, size_t k, double mean, double sd, double *drift,
                           double *rhat)
{
    size_t C = f->chains.now.chains, half = o->each / 2;
    double change[2] = {0, 0}, square[2] = {0, 0}, within = 0, means = 0, mean_squares = 0;
    for (size_t c = 0; c < C; c++) {
        double sum[2] = {0, 0}, squares[2] = {0, 0};
        for (size_t t = 0; t < 2 * half; t++) {
            double z = (point_of(f, o, o->drawn + c * o->each + t)[k] - mean) / sd;
            sum[t >= half] += z / (double)half;
            squares[t >= half] += z * z / (double)half;
        }
        double d[2] = {sum[1] - sum[0], squares[1] - squares[0]};
        for (size_t h = 0; h < 2; h++) {
            change[h] += d[h] / (double)C;
            square[h] += d[h] * d[h] / (double)C;
            within += (squares[h] - sum[h] * sum[h]) / (double)(2 * C);
            means += sum[h] / (double)(2 * C);
            mean_squares += sum[h] * sum[h] / (double)(2 * C);
        }
    }
    for (size_t h = 0; h < 2; h++) {
        double se = sqrt(fmax(square[h] - change[h] * change[h], 0) / ((double)C - 1));
        *drift = se > 0 ? fmax(*drift, fabs(change[h]) / se) : *drift;
    }
    /* W n/(n-1) is the variance within, and (n-1)/n of it and the variance of the means are that of all */
    double all = within + fmax(mean_squares - means * means, 0) * (2 * (double)C / (2 * (double)C - 1)),
           own = within * (double)half / fmax((double)half - 1, 1);
    *rhat = own > 0 ? fmax(*rhat, sqrt(all / own)) : *rhat;
}

/* Weights of the pool of all final draws and states, by the bridge, or of the states alone. From the arena. */
static pool make_pool(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    size_t C = f->chains.now.chains, first = first_kept(&c->now), each = c->now.trajectory - first, n1, n2 = C * each;
    double *q = drawn_ratios(f, &n1), *p = wv_arena_take(f->arena, n2), *v = wv_arena_take(f->arena, n1 + n2),
           *log_w = wv_arena_take(f->arena, n1 + n2);
    state_ratios(f, 1, p);
    wvgd_estimate e = bridge_states(f, n1, q, each, p);
    c->now.tau = autocorrelation(f, each, p, e.value);
    c->now.log_z = e.value;
    c->now.se = e.se;
    if (c->now.hopeless) {
        for (size_t i = 0; i < n2; i++)
            v[i] = 1 / (double)n2;
        return (pool){0, each, first, v};
    }
    double log_n1 = log((double)n1), log_n2 = log((double)n2 / c->now.tau);
    for (size_t i = 0; i < n1; i++)
        log_w[i] = q[i] > -INFINITY ? -add_logs(log_n1 - q[i], log_n2 - e.value) : -INFINITY;
    for (size_t i = 0; i < n2; i++)
        log_w[n1 + i] = -add_logs(log_n1 - p[i], log_n2 - e.value) - log(c->now.tau);
    wv_weights_normalise(n1 + n2, log_w, v);
    return (pool){n1, each, first, v};
}

/* Whether an sd's error counts: where tails are heavy, more states do not help. */
static void judge_tails(wvgd_fit *f, const pool *o, const double *mean, const double *var, const double *sd_se,
                        double *tail_k)
{
    size_t D = f->D, n = o->drawn + o->each * f->chains.now.chains, mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, n * D);
    for (size_t i = 0; i < n; i++)
        memcpy(x + i * D, point_of(f, o, i), D * sizeof *x);
    wv_weights_tail_indices(n, o->v, D, x, D, mean, var, sd_se, tail_k, f->arena);
    wv_arena_release(f->arena, mark);
}

/* Errors between chains, drift and R-hat; whether all is settled. */
static bool settled(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    size_t D = f->D, C = f->chains.now.chains, mark = wv_arena_mark(f->arena);
    pool o = make_pool(f);
    double *mean = wv_arena_take(f->arena, D), *var = wv_arena_take(f->arena, D), *sd_se = wv_arena_take(f->arena, D),
           *tail_k = wv_arena_take(f->arena, D);
    unit_sums s = {.D = D, .units = o.drawn / 2 + C};
    s.first = wv_arena_zeros(f->arena, s.units * D);
    s.second = wv_arena_zeros(f->arena, s.units * D);
    weigh_pool(f, &o, mean, var);
    sum_units(f, &o, mean, var, &s);
    c->now.mean_se = c->now.sd_se = c->now.drift = c->now.rhat = 0;
    for (size_t k = 0; k < D; k++) {
        double of_draws = o.drawn ? scatter(D, k, 0, o.drawn / 2, s.first) : 0,
               of_chains = scatter(D, k, o.drawn / 2, s.units, s.first),
               squares_draws = o.drawn ? scatter(D, k, 0, o.drawn / 2, s.second) : 0,
               squares_chains = scatter(D, k, o.drawn / 2, s.units, s.second);
        c->now.mean_se = fmax(c->now.mean_se, hypot(of_draws, of_chains) / sqrt(var[k]));
        sd_se[k] = hypot(squares_draws, squares_chains) / (2 * sqrt(var[k]));
        compare_halves(f, &o, k, mean[k], sqrt(var[k]), &c->now.drift, &c->now.rhat);
    }
    judge_tails(f, &o, mean, var, sd_se, tail_k);
    for (size_t k = 0; k < D; k++)
        if (wv_decide_sd_counts(tail_k[k]))
            c->now.sd_se = fmax(c->now.sd_se, sd_se[k] / sqrt(var[k]));
    wv_arena_release(f->arena, mark);
    return c->now.mean_se < wv_policy.finish_mean_se && c->now.sd_se < wv_policy.finish_sd_se &&
           c->now.drift < wv_policy.finish_drift;
}

/* Mean [D] and Cholesky factor [D][D] of the covariance of states from trajectory `first` on, with so much of the
 * variances added; false: none. */
static bool state_moments(wvgd_fit *f, size_t first, double ridge, double *mean, double *root)
{
    const wv_finisher *c = &f->finish;
    size_t D = f->D, C = f->chains.now.chains, T = c->now.trajectory, mark = wv_arena_mark(f->arena);
    double n = (double)((T - first) * C), *away = wv_arena_take(f->arena, C * D),
           *spare = wv_arena_take(f->arena, D * D);
    memset(mean, 0, D * sizeof *mean);
    memset(root, 0, D * D * sizeof *root);
    for (size_t t = first; t < T; t++)
        for (size_t i = 0; i < C; i++)
            cblas_daxpy((int)D, 1 / n, c->x + (t * WV_CHAINS + i) * D, 1, mean, 1);
    for (size_t t = first; t < T; t++) {
        for (size_t i = 0; i < C; i++)
            for (size_t k = 0; k < D; k++)
                away[i * D + k] = c->x[(t * WV_CHAINS + i) * D + k] - mean[k];
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)D, (int)C, 1 / n, away, (int)D, 1.0, root, (int)D);
    }
    bool good = true;
    for (size_t k = 0; k < D; k++) {
        root[k * D + k] *= 1 + ridge;
        good = good && root[k * D + k] > 0 && isfinite(root[k * D + k]);
    }
    good = good && wv_dense_chol(D, root, spare);
    wv_arena_release(f->arena, mark);
    return good;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */
static void begin_trajectory(wvgd_fit *f)
{
    f->finish.now.phase = WV_FINISH_WALK;
    wv_chains_begin(f, f->finish.now.hopeless ? wv_policy.finish_length_hopeless : wv_policy.finish_length,
                    WV_RNG_FINISH);
}

/* Evaluations of so many trajectories of all chains, with a jump each. */
static double price(const wvgd_fit *f, double trajectories)
{
    bool walked = f->certificate.now.walks > 0;
    double D = (double)f->D, step = walked ? exp(f->chains.now.log_step) : wv_policy.certificate_step / sqrt(sqrt(D)),
           values = f->model.has_gradient ? 1 : 2 * D + 1;
    return trajectories * WV_CHAINS * (wv_policy.finish_length / 2 / step + 1) * values;
}

double wv_finisher_price(const wvgd_fit *f)
{
    return price(f, wv_policy.finish_least);
}

bool wv_finisher_visited(wvgd_fit *f, size_t m)
{
    const wv_draws *b = &f->closing.draws;
    for (size_t i = b->n - b->states; i < b->n; i++)
        if (f->bend.on || wv_modes_nearest(f, f->modes.n, b->x + i * f->D) == m)
            return true;
    return false;
}

bool wv_finisher_begin(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    double left = (double)f->size.evaluations - (double)f->count.evaluations - wv_policy.limit_reserve,
           needed = wv_finisher_price(f);
    memset(&c->now, 0, sizeof c->now);
    if (needed > left) {
        c->now.result = WV_FINISH_TOO_EXPENSIVE;
        c->now.needed = (size_t)(needed - left) + f->size.evaluations;
        return false;
    }
    if (!wv_chains_place(f, WV_CHAINS, WV_RNG_FINISH))
        return false;
    if (!wv_chains_wait(f))
        begin_trajectory(f);
    return true;
}

/* States after a trajectory, or after the jump that follows it. */
static void store(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    size_t C = f->chains.now.chains, at = c->now.trajectory * WV_CHAINS;
    memcpy(c->x + at * f->D, f->chains.x, C * f->D * sizeof *c->x);
    memcpy(c->g + at * f->D, f->chains.g, C * f->D * sizeof *c->g);
    memcpy(c->log_p + at, f->chains.log_p, C * sizeof *c->log_p);
    wv_staged_closing_log_density(f, C, f->chains.x, c->log_m + at);
    c->now.trajectory++;
}

static bool jumps(const wv_finished *s)
{
    return (double)s->trajectory >= wv_policy.finish_free &&
           (s->tried < 2 * WV_CHAINS || (double)s->accepted >= wv_policy.finish_jump_least * (double)s->tried);
}

/* Share of the mass, as the last states have it, where the proposal has hardly any draws. */
static double missing_mass(wvgd_fit *f)
{
    const wv_finisher *c = &f->finish;
    size_t C = f->chains.now.chains, T = c->now.trajectory, n1, mark = wv_arena_mark(f->arena);
    double *q = drawn_ratios(f, &n1), z = wv_weights_lse(n1, q) - log((double)n1), sum = 0, n = 0;
    for (size_t t = T / 2; t < T; t++)
        for (size_t i = 0; i < C; i++) {
            size_t at = t * WV_CHAINS + i;
            sum += fmax(0, 1 - exp(wv_policy.certificate_outside + z - c->log_p[at] + c->log_m[at]));
            n++;
        }
    wv_arena_release(f->arena, mark);
    return sum / n;
}

/* The metric of all chains, from the later half of the states; not where there are several modes. */
static void learn_metric(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    for (size_t i = 1; i < f->chains.now.chains; i++)
        if (f->chains.now.metric[i] != f->chains.now.metric[0])
            return;
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *mean = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, D * D);
    if (state_moments(f, c->now.trajectory / 2, wv_policy.finish_ridge * (double)D / WV_CHAINS, mean, root))
        wv_chains_set_metric(&f->chains, f->chains.now.metric[0], root);
    c->now.learnt++;
    wv_arena_release(f->arena, mark);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */
/* States, thinned by their autocorrelation time, join the final draws, or replace them, with log m = log((n1 m + n2
 * p~/Z) / n). */
static void answer(wvgd_fit *f, bool replace)
{
    wv_finisher *c = &f->finish;
    size_t D = f->D, C = f->chains.now.chains, T = c->now.trajectory, kept = T - first_kept(&c->now),
           mark = wv_arena_mark(f->arena), stride = (size_t)fmax(1, round(c->now.tau)), room, n1, n2;
    stride = stride > kept / 2 ? (kept / 2 ? kept / 2 : 1) : stride;
    if (f->closing.trial)
        wv_closing_forget_trial(&f->closing, f->arena);
    if (replace)
        wv_draws_forget_points(wv_closing_lend(&f->closing));
    n1 = f->closing.draws.n;
    room = f->closing.draws.shape.room - n1;
    while (kept / stride * C > room)
        stride++;
    size_t each = kept / stride;
    n2 = each * C;
    if (each < 2) {
        wv_arena_release(f->arena, mark);
        return;
    }
    double *x = wv_arena_take(f->arena, n2 * D), *g = wv_arena_take(f->arena, n2 * D),
           *log_p = wv_arena_take(f->arena, n2), *log_m = wv_arena_take(f->arena, n1 + n2),
           *ratio = wv_arena_take(f->arena, n2);
    state_ratios(f, stride, ratio);
    for (size_t i = 0; i < C; i++)
        for (size_t k = 0; k < each; k++) {
            size_t from = (T - 1 - (each - 1 - k) * stride) * WV_CHAINS + i, to = i * each + k;
            memcpy(x + to * D, c->x + from * D, D * sizeof *x);
            memcpy(g + to * D, c->g + from * D, D * sizeof *g);
            log_p[to] = c->log_p[from];
        }
    if (!replace) {
        size_t drawn;
        double *q = drawn_ratios(f, &drawn);
        wvgd_estimate e = bridge_states(f, drawn, q, each, ratio);
        c->now.log_z = e.value;
        c->now.se = e.se;
    }
    double z = c->now.log_z, n = (double)(n1 + n2);
    for (size_t i = 0; i < n1; i++)
        log_m[i] = add_logs(log((double)n1) + f->closing.draws.log_m[i],
                            log((double)n2) + f->closing.draws.log_p[i] - z) -
                   log(n);
    for (size_t i = 0; i < n2; i++)
        log_m[n1 + i] = replace
                            ? log_p[i] - z
                            : add_logs(log((double)n1) + log_p[i] - ratio[i], log((double)n2) + log_p[i] - z) - log(n);
    wv_draws_add_states(wv_closing_lend(&f->closing), n2, each, x, log_p, g);
    wv_draws_set_log_m(wv_closing_lend(&f->closing), log_m);
    wv_arena_release(f->arena, mark);
}

/* What the states say of the evidence, and the mixture that goes with them where that of the proposal was hopeless. */
static void conclude(wvgd_fit *f, bool good)
{
    wv_finisher *c = &f->finish;
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    c->now.result = good ? WV_FINISH_SETTLED : WV_FINISH_UNSETTLED;
    answer(f, c->now.hopeless);
    if (c->now.hopeless && wv_finisher_has_states(f)) {
        double *mean = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, D * D);
        if (state_moments(f, first_kept(&c->now), 0, mean, root))
            wv_mixture_set_one(&f->mix, mean, root);
    }
    size_t n = f->closing.draws.n;
    double *log_w = wv_arena_take(f->arena, n), *v = wv_arena_take(f->arena, n);
    wv_posterior_log_weights(&f->closing.draws, log_w);
    wv_weights_normalise(n, log_w, v);
    wv_outcome_set_evidence(&f->outcome, (wvgd_estimate){c->now.log_z, c->now.se}, wv_weights_ess(n, v));
    wv_arena_release(f->arena, mark);
}

/* ---- the ladder -------------------------------------------------------------------------------------------------- */
/* log g of the Gaussian at the foot at n points, and its gradient [n][D] unless that is NULL. */
static void foot(wvgd_fit *f, size_t n, const double *x, double *log_g, double *grad)
{
    const double half_log_2pi = 0.918938533204672741780;
    const wv_finisher *c = &f->finish;
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, D), constant = -(double)D * half_log_2pi;
    for (size_t k = 0; k < D; k++)
        constant -= log(c->root[k * D + k]);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < D; k++)
            y[k] = x[i * D + k] - c->mean[k];
        cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, c->inverse, (int)D, y, 1);
        log_g[i] = constant - cblas_ddot((int)D, y, 1, y, 1) / 2;
        if (!grad)
            continue;
        cblas_dtrmv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)D, c->inverse, (int)D, y, 1);
        for (size_t k = 0; k < D; k++)
            grad[i * D + k] = -y[k];
    }
    wv_arena_release(f->arena, mark);
}

/* Answers of the batch become those of p~^b g^(1-b). */
static void temper_batch(wvgd_fit *f, double b)
{
    size_t D = f->D, n = f->b.n, mark = wv_arena_mark(f->arena);
    double *log_g = wv_arena_take(f->arena, n), *grad = wv_arena_take(f->arena, n * D);
    foot(f, n, f->b.x, log_g, grad);
    for (size_t i = 0; i < n; i++)
        f->b.log_p[i] = b * f->b.log_p[i] + (1 - b) * log_g[i];
    for (size_t i = 0; i < n * D; i++)
        f->b.grad[i] = b * f->b.grad[i] + (1 - b) * grad[i];
    wv_arena_release(f->arena, mark);
}

/* Chains that follow the rung b from now on, and followed that of `before`. */
static void change_rung(wvgd_fit *f, double before, double b)
{
    size_t D = f->D, C = f->chains.now.chains, mark = wv_arena_mark(f->arena);
    double *log_g = wv_arena_take(f->arena, C), *grad = wv_arena_take(f->arena, C * D),
           *log_p = wv_arena_take(f->arena, C), *g = wv_arena_take(f->arena, C * D);
    foot(f, C, f->chains.x, log_g, grad);
    for (size_t i = 0; i < C; i++)
        log_p[i] = b * ((f->chains.log_p[i] - (1 - before) * log_g[i]) / before) + (1 - b) * log_g[i];
    for (size_t i = 0; i < C * D; i++)
        g[i] = b * ((f->chains.g[i] - (1 - before) * grad[i]) / before) + (1 - b) * grad[i];
    wv_chains_follow(&f->chains, log_p, g);
    wv_arena_release(f->arena, mark);
}

/* u[chains] = log p~ - log g where the chains are, on rung b. */
static void ratios_now(wvgd_fit *f, double b, double *u)
{
    size_t C = f->chains.now.chains;
    foot(f, C, f->chains.x, u, NULL);
    for (size_t i = 0; i < C; i++)
        u[i] = (f->chains.log_p[i] - u[i]) / b;
}

/* Share of C chains that stay effective on a rung lower by d. */
static double effective(size_t C, const double *u, double d, double *spare, double *w)
{
    for (size_t i = 0; i < C; i++)
        spare[i] = -d * u[i];
    return wv_weights_normalise(C, spare, w) ? wv_weights_ess(C, w) / (double)C : 0;
}

/* The next rung below that of b. */
static double next_rung(wvgd_fit *f, double b)
{
    enum { HALVINGS = 40 };
    size_t C = f->chains.now.chains, mark = wv_arena_mark(f->arena);
    double *u = wv_arena_take(f->arena, C), *spare = wv_arena_take(f->arena, C), *w = wv_arena_take(f->arena, C),
           low = 0, high = b;
    ratios_now(f, b, u);
    for (int k = 0; k < HALVINGS && low < b; k++) {
        double d = k ? (low + high) / 2 : b;
        *(effective(C, u, d, spare, w) >= wv_policy.finish_rung_ess ? &low : &high) = d;
    }
    wv_arena_release(f->arena, mark);
    return b - low > wv_policy.finish_floor ? b - low : 0;
}

/* To the next rung, or to draws of the Gaussian. */
static void descend(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    double b = c->now.beta[c->now.rung], next = c->now.rung + 1 < WV_FINISH_RUNGS ? next_rung(f, b) : 0;
    c->now.rung++;
    c->now.move = 0;
    c->now.beta[c->now.rung] = next;
    c->now.phase = next > 0 ? WV_FINISH_LADDER : WV_FINISH_FLOOR;
    if (next > 0) {
        change_rung(f, b, next);
        wv_chains_begin(f, wv_policy.finish_length, WV_RNG_FINISH);
    }
}

/* False: there is no Gaussian to walk down to. */
static bool begin_ladder(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    if (!state_moments(f, first_kept(&c->now), 0, c->mean, c->root))
        return false;
    wv_dense_invert(f->D, c->root, c->inverse);
    wv_chains_set_metric(&f->chains, 0, c->root);
    for (size_t i = 0; i < f->chains.now.chains; i++)
        wv_chains_use_metric(&f->chains, i, 0);
    c->now.rung = 0;
    c->now.beta[0] = 1;
    descend(f);
    return true;
}

/* Trajectory on a rung; true: the last of it. The later half of them are kept: rung number 1 stands first. */
static void end_move(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    size_t first = (size_t)wv_policy.finish_rung_moves - WV_FINISH_STATES;
    wv_chains_end(f, 1, WV_RNG_FINISH);
    if (c->now.move >= first)
        ratios_now(f, c->now.beta[c->now.rung],
                   c->rung_u + ((c->now.rung - 1) * WV_FINISH_STATES + c->now.move - first) * WV_CHAINS);
    if ((double)++c->now.move < wv_policy.finish_rung_moves)
        wv_chains_begin(f, wv_policy.finish_length, WV_RNG_FINISH);
    else
        descend(f);
}

/* Draws of the Gaussian that are asked for: as many as there are states on a rung, if a batch has room for them. */
static size_t floor_draws(const wvgd_fit *f)
{
    const size_t wanted = WV_FINISH_STATES * WV_CHAINS;
    return wanted <= f->size.n_max ? wanted : WV_CHAINS;
}

static void ask_floor(wvgd_fit *f)
{
    const wv_finisher *c = &f->finish;
    wv_gaussian g = {wv_family_get(WVGD_FULL), f->D, 0, c->mean, c->root, 0};
    wv_stream stream = {f->opt.seed, WV_RNG_JUMP, f->count.batch, 0};
    f->b.n = floor_draws(f);
    wv_gaussian_draw(&g, &stream, 0, f->b.n, false, f->b.x, f->arena);
}

/* Rungs of the ladder: a[n], in columns of chains, of log p~ - log g on each. The first is that of the states. */
typedef struct {
    size_t n;
    const double *u;
} rung;

/* log Z without group `out` of `groups`; 0: with all. */
static double climb(wvgd_fit *f, const rung *rungs, size_t groups, size_t out)
{
    const wv_finished *s = &f->finish.now;
    size_t mark = wv_arena_mark(f->arena), most = 0;
    double z = 0;
    for (size_t k = 0; k <= s->rung; k++)
        most = rungs[k].n > most ? rungs[k].n : most;
    double *q = wv_arena_take(f->arena, most), *p = wv_arena_take(f->arena, most);
    for (size_t k = 0; k < s->rung; k++) {
        double d = s->beta[k] - s->beta[k + 1];
        for (size_t i = 0; i < rungs[k].n; i++)
            p[i] = d * rungs[k].u[i];
        for (size_t i = 0; i < rungs[k + 1].n; i++)
            q[i] = d * rungs[k + 1].u[i];
        z += bridge(&(samples){q, p, rungs[k + 1].n, rungs[k].n, WV_CHAINS, WV_CHAINS, groups, out});
    }
    wv_arena_release(f->arena, mark);
    return z;
}

/* The evidence by the ladder. Its error by a jackknife over groups of chains, which have walked all rungs: what rungs
 * have in common is counted. */
static void take_ladder(wvgd_fit *f)
{
    enum { GROUPS = 16 };
    wv_finisher *c = &f->finish;
    size_t C = f->chains.now.chains, first = first_kept(&c->now), T = c->now.trajectory, n = f->b.n,
           stride = (size_t)fmax(1, round(c->now.tau)), each = (T - first) / stride ? (T - first) / stride : 1,
           mark = wv_arena_mark(f->arena);
    rung rungs[WV_FINISH_RUNGS + 1];
    double *top = wv_arena_take(f->arena, each * WV_CHAINS), *floor_u = wv_arena_take(f->arena, n), value[GROUPS],
           mean = 0, square = 0;
    for (size_t k = 0; k < each; k++) {
        size_t t = T - 1 - k * stride;
        foot(f, C, c->x + t * WV_CHAINS * f->D, top + k * WV_CHAINS, NULL);
        for (size_t i = 0; i < C; i++)
            top[k * WV_CHAINS + i] = c->log_p[t * WV_CHAINS + i] - top[k * WV_CHAINS + i];
    }
    foot(f, n, f->b.x, floor_u, NULL);
    for (size_t i = 0; i < n; i++)
        floor_u[i] = f->b.log_p[i] - floor_u[i];
    rungs[0] = (rung){each * WV_CHAINS, top};
    for (size_t k = 1; k < c->now.rung; k++)
        rungs[k] = (rung){WV_FINISH_STATES * WV_CHAINS, c->rung_u + (k - 1) * WV_FINISH_STATES * WV_CHAINS};
    rungs[c->now.rung] = (rung){n, floor_u};
    c->now.log_z = climb(f, rungs, 0, 0);
    for (size_t g = 0; g < GROUPS; g++) {
        value[g] = climb(f, rungs, GROUPS, g);
        mean += value[g] / GROUPS;
    }
    for (size_t g = 0; g < GROUPS; g++)
        square += (value[g] - mean) * (value[g] - mean);
    c->now.se = sqrt(square * (GROUPS - 1) / GROUPS);
    wv_arena_release(f->arena, mark);
}

/* ---- ask and tell ------------------------------------------------------------------------------------------------ */
void wv_finisher_ask(wvgd_fit *f)
{
    switch (f->finish.now.phase) {
    case WV_FINISH_JUMP: wv_staged_closing_draw_alone(f, f->chains.now.chains, WV_RNG_JUMP); break;
    case WV_FINISH_FLOOR: ask_floor(f); break;
    default: wv_chains_ask(f); break;
    }
}

/* The chains have ended; true: nothing is left to do. */
static bool end_walk(wvgd_fit *f, bool good)
{
    if (f->finish.now.hopeless && begin_ladder(f)) {
        f->finish.now.result = good ? WV_FINISH_SETTLED : WV_FINISH_UNSETTLED;
        return false;
    }
    conclude(f, good);
    return true;
}

/* After some trajectories: what they have shown. True: the chains have ended. */
static bool look(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    size_t T = c->now.trajectory;
    double least = c->now.hopeless ? wv_policy.finish_least_hopeless : wv_policy.finish_least;
    if (fmod((double)T, wv_policy.finish_round) != wv_policy.finish_free)
        return false;
    if ((double)T <= wv_policy.finish_least)
        c->now.groups = wv_chains_join(f);
    c->now.missing = missing_mass(f);
    if (c->now.missing > wv_policy.finish_hopeless)
        c->now.hopeless = 1;
    if ((double)T >= least && settled(f))
        return true;
    if (c->now.hopeless && (double)c->now.learnt < wv_policy.finish_learn)
        learn_metric(f);
    return false;
}

/* The states of a trajectory are complete. */
static bool end_trajectory(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    store(f);
    bool good = look(f);
    if (good || c->now.trajectory == WV_FINISH_TRAJECTORIES)
        return end_walk(f, good || settled(f));
    begin_trajectory(f);
    return false;
}

/* Draws that were accepted become the states of their chains. */
static void take_jumps(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    size_t C = f->chains.now.chains, D = f->D, mark = wv_arena_mark(f->arena);
    double *log_m = wv_arena_take(f->arena, C), *here = wv_arena_take(f->arena, C);
    wv_staged_closing_log_density(f, C, f->b.x, log_m);
    wv_staged_closing_log_density(f, C, f->chains.x, here);
    for (size_t i = 0; i < C; i++) {
        wv_stream own = {f->opt.seed, WV_RNG_JUMP, f->count.batch, WV_CHAINS + i};
        double u;
        wv_rng_uniform(&own, 0, 1, &u);
        double change = f->b.log_p[i] - log_m[i] - f->chains.log_p[i] + here[i];
        c->now.tried++;
        if (!(log(u) < change))
            continue;
        c->now.accepted++;
        wv_chains_put(&f->chains, i, f->b.x + i * D, f->b.grad + i * D, f->b.log_p[i]);
        wv_chains_use_metric(&f->chains, i, wv_chains_metric_at(f, i, f->b.x + i * D));
    }
    wv_arena_release(f->arena, mark);
}

static bool take_step(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    if (!wv_chains_tell(f))
        return false;
    c->now.acceptance +=
        wv_chains_end(f, (double)c->now.trajectory < wv_policy.finish_fast ? 1 : wv_policy.finish_slow_rate,
                      WV_RNG_FINISH);
    if (!jumps(&c->now))
        return end_trajectory(f);
    c->now.phase = WV_FINISH_JUMP;
    return false;
}

bool wv_finisher_tell(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    c->now.evaluations += f->differences.n ? f->differences.n : f->b.n;
    if (f->chains.now.arriving) {
        wv_chains_arrive(f);
        begin_trajectory(f);
        return false;
    }
    switch (c->now.phase) {
    case WV_FINISH_WALK: return take_step(f);
    case WV_FINISH_JUMP: take_jumps(f); return end_trajectory(f);
    case WV_FINISH_LADDER:
        temper_batch(f, c->now.beta[c->now.rung]);
        if (wv_chains_tell(f))
            end_move(f);
        return false;
    default:
        take_ladder(f);
        conclude(f, c->now.result == WV_FINISH_SETTLED);
        return true;
    }
}

void wv_finisher_leave(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    bool enough = (double)c->now.trajectory >= wv_policy.finish_few;
    c->now.result = WV_FINISH_UNSETTLED;
    if (!enough)
        return;
    settled(f);
    conclude(f, false);
}
