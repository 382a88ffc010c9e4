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
#include "fit.h"
#include "memory.h"
#include "policy.h"
#include "rng.h"
#include "staged/bridge.h"
#include "staged/chain_states.h"
#include "staged/chains.h"
#include "staged/decisions.h"
#include "staged/ladder.h"
#include "staged/modes.h"
#include "staged/staged_closing.h"
#include "weights.h"
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

/* The metric of all chains, from the later half of the states; not where there are several modes. */
static void learn_metric(wvgd_fit *f)
{
    wv_finisher *c = &f->finish;
    for (size_t i = 1; i < f->chains.now.chains; i++)
        if (f->chains.now.metric[i] != f->chains.now.metric[0])
            return;
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *mean = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, D * D);
    if (wv_chain_states_moments(f, c->now.trajectory / 2, wv_policy.finish_ridge * (double)D / WV_CHAINS, mean, root))
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
    size_t D = f->D, C = f->chains.now.chains, T = c->now.trajectory, kept = T - wv_chain_states_first(f),
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
    wv_chain_states_ratios(f, stride, ratio);
    for (size_t i = 0; i < C; i++)
        for (size_t k = 0; k < each; k++) {
            size_t from = (T - 1 - (each - 1 - k) * stride) * WV_CHAINS + i, to = i * each + k;
            memcpy(x + to * D, c->x + from * D, D * sizeof *x);
            memcpy(g + to * D, c->g + from * D, D * sizeof *g);
            log_p[to] = c->log_p[from];
        }
    if (!replace) {
        size_t drawn;
        double *q = wv_chain_states_drawn(f, &drawn);
        wvgd_estimate e = wv_bridge_states(f, drawn, q, each, ratio);
        c->now.log_z = e.value;
        c->now.se = e.se;
    }
    double z = c->now.log_z, n = (double)(n1 + n2);
    for (size_t i = 0; i < n1; i++)
        log_m[i] = wv_bridge_add(log((double)n1) + f->closing.draws.log_m[i],
                                 log((double)n2) + f->closing.draws.log_p[i] - z) -
                   log(n);
    for (size_t i = 0; i < n2; i++)
        log_m[n1 + i] = replace ? log_p[i] - z
                                : wv_bridge_add(log((double)n1) + log_p[i] - ratio[i], log((double)n2) + log_p[i] - z) -
                                      log(n);
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
        if (wv_chain_states_moments(f, wv_chain_states_first(f), 0, mean, root))
            wv_mixture_set_one(&f->mix, mean, root);
    }
    size_t n = f->closing.draws.n;
    double *log_w = wv_arena_take(f->arena, n), *v = wv_arena_take(f->arena, n);
    wv_posterior_log_weights(&f->closing.draws, log_w);
    wv_weights_normalise(n, log_w, v);
    wvgd_estimate bridge = {c->now.log_z, c->now.se}; /* its error has no end where states and draws are far apart */
    wv_outcome_set_evidence(&f->outcome, isfinite(bridge.se) ? bridge : f->outcome.evidence, wv_weights_ess(n, v));
    wv_arena_release(f->arena, mark);
}

/* ---- ask and tell ------------------------------------------------------------------------------------------------ */
void wv_finisher_ask(wvgd_fit *f)
{
    switch (f->finish.now.phase) {
    case WV_FINISH_JUMP: wv_staged_closing_draw_alone(f, f->chains.now.chains, WV_RNG_JUMP); break;
    case WV_FINISH_FLOOR: wv_ladder_ask_floor(f); break;
    default: wv_chains_ask(f); break;
    }
}

/* The chains have ended; true: nothing is left to do. */
static bool end_walk(wvgd_fit *f, bool good)
{
    if (f->finish.now.hopeless && wv_ladder_begin(f)) {
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
    c->now.missing = wv_chain_states_missing(f);
    if (c->now.missing > wv_policy.finish_hopeless)
        c->now.hopeless = 1;
    if ((double)T >= least && wv_chain_states_settled(f))
        return true;
    if ((c->now.hopeless || wv_chain_states_slow(f)) && (double)c->now.learnt < wv_policy.finish_learn)
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
        return end_walk(f, good || wv_chain_states_settled(f));
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
    c->now.evaluations += f->b.values;
    if (f->chains.now.arriving) {
        wv_chains_arrive(f);
        begin_trajectory(f);
        return false;
    }
    switch (c->now.phase) {
    case WV_FINISH_WALK: return take_step(f);
    case WV_FINISH_JUMP: take_jumps(f); return end_trajectory(f);
    case WV_FINISH_LADDER: wv_ladder_tell(f); return false;
    default:
        wv_ladder_end(f);
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
    wv_chain_states_settled(f);
    conclude(f, false);
}
