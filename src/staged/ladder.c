/* ladder.c - the evidence where draws of the proposal are useless: chains walk down rungs p~^b g^(1-b), b = 1 .. 0,
 * from the posterior to the Gaussian g with the moments of its states, and neighbouring rungs are bridged. */
#include "staged/ladder.h"
#include "dense.h"
#include "fit.h"
#include "gaussian.h"
#include "policy.h"
#include "rng.h"
#include "staged/bridge.h"
#include "staged/chain_states.h"
#include "staged/chains.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>

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

bool wv_ladder_begin(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    if (!wv_chain_states_moments(f, wv_chain_states_first(f), 0, c->mean, c->root))
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

void wv_ladder_ask_floor(wvgd_fit *f)
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
        z += wv_bridge(&(wv_bridge_samples){q, p, rungs[k + 1].n, rungs[k].n, WV_CHAINS, WV_CHAINS, groups, out});
    }
    wv_arena_release(f->arena, mark);
    return z;
}

/* The evidence by the ladder. Its error by a jackknife over groups of chains, which have walked all rungs: what rungs
 * have in common is counted. */
void wv_ladder_end(wvgd_fit *f)
{
    enum { GROUPS = 16 };
    wv_finisher *c = &f->finish;
    size_t C = f->chains.now.chains, first = wv_chain_states_first(f), T = c->now.trajectory, n = f->b.n,
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

void wv_ladder_tell(wvgd_fit *f)
{
    temper_batch(f, f->finish.now.beta[f->finish.now.rung]);
    if (wv_chains_tell(f))
        end_move(f);
}
