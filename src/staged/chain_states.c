/* chain_states.c - what the states of the finisher's chains tell: their moments, their autocorrelation, and whether
 * they agree with each other and with the draws (docs/internals/finish.md). */
#include "staged/chain_states.h"
#include "dense.h"
#include "fit.h"
#include "policy.h"
#include "staged/bridge.h"
#include "staged/decisions.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

size_t wv_chain_states_first(const wvgd_fit *f)
{
    const wv_finished *s = &f->finish.now;
    return (size_t)((double)s->trajectory / (s->hopeless ? wv_policy.finish_burn_hopeless : wv_policy.finish_burn));
}

bool wv_chain_states_slow(const wvgd_fit *f)
{
    const wv_finished *s = &f->finish.now;
    return (double)(s->trajectory - wv_chain_states_first(f)) < wv_policy.finish_times * s->tau;
}

double *wv_chain_states_drawn(wvgd_fit *f, size_t *n)
{
    const wv_draws *b = &f->closing.draws;
    size_t first = f->closing.trial;
    *n = b->n - first;
    double *q = wv_arena_take(f->arena, *n);
    for (size_t i = 0; i < *n; i++)
        q[i] = b->log_p[first + i] - b->log_m[first + i];
    return q;
}

size_t wv_chain_states_ratios(const wvgd_fit *f, size_t stride, double *p)
{
    const wv_finisher *c = &f->finish;
    size_t C = f->chains.now.chains, T = c->now.trajectory, first = wv_chain_states_first(f),
           each = (T - first) / stride;
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
    size_t C = f->chains.now.chains, first = wv_chain_states_first(f), each = c->now.trajectory - first, n1,
           n2 = C * each;
    double *q = wv_chain_states_drawn(f, &n1), *p = wv_arena_take(f->arena, n2), *v = wv_arena_take(f->arena, n1 + n2),
           *log_w = wv_arena_take(f->arena, n1 + n2);
    wv_chain_states_ratios(f, 1, p);
    wvgd_estimate e = wv_bridge_states(f, n1, q, each, p);
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
        log_w[i] = q[i] > -INFINITY ? -wv_bridge_add(log_n1 - q[i], log_n2 - e.value) : -INFINITY;
    for (size_t i = 0; i < n2; i++)
        log_w[n1 + i] = -wv_bridge_add(log_n1 - p[i], log_n2 - e.value) - log(c->now.tau);
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

bool wv_chain_states_settled(wvgd_fit *f)
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
           c->now.drift < wv_policy.finish_drift && !wv_chain_states_slow(f);
}

bool wv_chain_states_moments(wvgd_fit *f, size_t first, double ridge, double *mean, double *root)
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

double wv_chain_states_missing(wvgd_fit *f)
{
    const wv_finisher *c = &f->finish;
    size_t C = f->chains.now.chains, T = c->now.trajectory, n1, mark = wv_arena_mark(f->arena);
    double *q = wv_chain_states_drawn(f, &n1), z = wv_weights_lse(n1, q) - log((double)n1), sum = 0, n = 0;
    for (size_t t = T / 2; t < T; t++)
        for (size_t i = 0; i < C; i++) {
            size_t at = t * WV_CHAINS + i;
            sum += fmax(0, 1 - exp(wv_policy.certificate_outside + z - c->log_p[at] + c->log_m[at]));
            n++;
        }
    wv_arena_release(f->arena, mark);
    return sum / n;
}
