/* staged.c - the default solver (method, section 6). Read it from the end: wv_staged_tell takes the answers of a batch,
 * `next` decides what comes after it.
 *
 *     explore -> [fit ->] trial -> grow and fit again, probe, or close -> [seek ->] certify -> [finish ->] [refine ->]
 * bound
 *
 * `close` may lead back to `fit`, where its draws show that growth is needed or that a mode was lost.
 *
 *     fit     the mixture of the modes, with soft cells (mixture_fit.c)
 *     trial   draws from the mixture with heavier tails say what the evidence would cost: variance of the weights over
 *             the square of the standard error wanted
 *     grow    where a round of growth is cheaper than that: split what fits worst, add components where p~/m is
 *             largest (grow.c), fit again
 *     probe   once growth was needed, or would have been but for its price, short Hamiltonian walks look for what the
 *             trial cannot see (tail_probe.c); the mixture grows where they find it
 *     close   a fresh batch, of a size fixed beforehand, gives the evidence: the proposal was not fitted to these
 *             draws (staged_closing.c)
 *     seek    more starts for modes, where the mixture foretells the density and the modes alone did not (explore.c)
 *     certify chains look for mass that these draws cannot see (certificate.c); where they find some, the mixture grows
 *     finish  where neither growth nor draws help: more of these chains, whose states join the draws (finisher.c)
 *     cells   the transport problem on the weighted draws, without the model (cells.c)
 *     refine  natural-gradient steps of the components of the cells, where that pays (cell_refine.c)
 *     bound   one fresh batch for the PELBO (cell_bound.c); where the components turn out not to be good enough, and
 *             there may be more cells, back to `cells`
 *
 * Decisions are in decisions.c, their constants in policy.def. */
#include "staged/staged.h"
#include "draws.h"
#include "describe.h"
#include "fit.h"
#include "gaussian.h"
#include "policy.h"
#include "verdict.h"
#include "posterior.h"
#include "staged/bent.h"
#include "staged/cell_bound.h"
#include "staged/cell_refine.h"
#include "staged/cells.h"
#include "staged/certificate.h"
#include "staged/chains.h"
#include "staged/staged_closing.h"
#include "staged/decisions.h"
#include "staged/explore.h"
#include "staged/finisher.h"
#include "staged/follow.h"
#include "staged/grow.h"
#include "staged/mixture_fit.h"
#include "staged/tail_probe.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

void wv_growth_copy(wv_growth *to, const wv_growth *from)
{
    *to = *from;
}

bool wv_growth_archive(wv_growth *g, wv_archive *a)
{
    wv_growth s = *g;
    wv_archive_values(a, &s, sizeof s);
    if (s.effort > WV_EFFORT)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        *g = s;
    return true;
}

/* Parts into which the evaluations that are left are divided: a trial is one, final draws one of the rest. */
enum { TRIAL_PARTS = 4, FINAL_PARTS = 2 };

/* ---- facts that decisions rest on -------------------------------------------------------------------------------- */
static wv_prices prices(const wvgd_fit *f)
{
    return (wv_prices){f->mix.K, f->D, f->model.work, f->size.close_budget};
}

static wv_growth_facts growth_facts(const wvgd_fit *f)
{
    return (wv_growth_facts){.running = f->stop == WVGD_RUNNING,
                             .rounds = f->growth.rounds,
                             .fails = f->growth.fails,
                             .K = f->mix.K,
                             .room = f->mix.room,
                             .spent = f->growth.spent,
                             .budget = f->size.close_budget,
                             .elbo = f->fitting.elbo,
                             .last = f->growth.last_elbo};
}

static wv_trial_facts trial_facts(const wvgd_fit *f, wvgd_estimate e)
{
    return (wv_trial_facts){.finite = isfinite(e.value),
                            .cost = f->growth.wanted,
                            .weight_quantile = f->growth.weight_quantile,
                            .lognormal_quantile = wv_decide_lognormal_quantile(f->closing.draws.n, f->trace.last.ess),
                            .round_price = wv_decide_round_price(prices(f)),
                            .growth_price = wv_decide_growth_price(prices(f), f->growth.rounds),
                            .probes = f->growth.probes,
                            .probe_elbo = f->growth.probe_elbo,
                            .probe_K = f->growth.probe_K};
}

/* Upper quantile of log p~/(m Z) under the posterior, from the weighted draws of the trial, by bisection. */
static double weight_quantile(const wvgd_fit *f, double log_z)
{
    const wv_draws *b = &f->closing.draws;
    double low = -50, high = 50, total = cblas_dasum((int)b->n, f->closing.v, 1);
    for (int round = 0; round < 40; round++) {
        double middle = (low + high) / 2, above = 0;
        for (size_t i = 0; i < b->n; i++)
            above += b->log_p[i] - b->log_m[i] - log_z > middle ? f->closing.v[i] : 0;
        *(above > wv_policy.weight_quantile_share * total ? &low : &high) = middle;
    }
    return high;
}

/* Share of the posterior, as the stored draws have it, whose density is less than this; at least what one draw stands
 * for. */
static double below(const wvgd_fit *f, double log_p)
{
    double share = 0, total = cblas_dasum((int)f->closing.draws.n, f->closing.v, 1);
    for (size_t i = 0; i < f->closing.draws.n; i++)
        share += f->closing.draws.log_p[i] < log_p ? f->closing.v[i] / total : 0;
    return fmax(share, 1 / (double)f->closing.draws.n);
}

/* Whether the trial counts beside a final batch of which this share is effective. */
static bool trial_useful(const wvgd_fit *f, size_t trial, double share)
{
    return wv_decide_trial_useful(f->growth.trial_ess, trial, share);
}

/* Does Pareto k-hat of the draws from this one on say that tails are not covered? With states among them no weight is
 * beyond n/n2 (finisher.c). */
static bool uncovered_from(wvgd_fit *f, size_t first)
{
    const wv_draws *b = &f->closing.draws;
    if (b->states)
        return false;
    size_t n = b->n - first, mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, n);
    for (size_t i = 0; i < n; i++)
        log_w[i] = b->log_p[first + i] - b->log_m[first + i];
    double k = wv_weights_pareto_k(n, log_w, NULL, f->arena);
    wv_arena_release(f->arena, mark);
    return k > wv_verdict_khat_limit(n);
}

/* Of the final draws, or of these and the trial, which the verdict looks at. */
static bool uncovered_tails(wvgd_fit *f)
{
    size_t trial = f->closing.trial;
    double share = f->outcome.ess / (double)(f->closing.draws.n - trial);
    return uncovered_from(f, trial) || (trial && trial_useful(f, trial, share) && uncovered_from(f, 0));
}

static double least_final(const wvgd_fit *f, size_t trial, double share)
{
    double least = wv_decide_least_final(f->N, f->D, wv_fit_cheap(f), trial, trial_useful(f, trial, share));
    return f->bend.on ? fmax(least, wv_policy.bend_draws) : least;
}

/* ---- beginnings of stages ---------------------------------------------------------------------------------------- */
static wv_stage begin_fit(wvgd_fit *f, bool step_first)
{
    wv_mixture_fit_begin(f, step_first);
    wv_certificate_forget(&f->certificate);
    return WV_FIT;
}

static wv_stage begin_trial(wvgd_fit *f)
{
    wv_closing_restart(&f->closing, 0); /* as many draws as the mixture needs */
    return WV_TRIAL;
}

/* The proposal is final, and the size of the closing batch is fixed. Whatever its draws or chains show, no map is
 * looked for any more. */
static wv_stage begin_close(wvgd_fit *f)
{
    wv_bent_forget(f);
    double least = least_final(f, f->closing.draws.n, 1), wanted = f->stop == WVGD_RUNNING ? f->growth.wanted : 0;
    if (wv_decide_draws_expensive(prices(f), f->growth.wanted))
        wv_follow_all(f);
    wv_closing_plan(&f->closing, wv_fit_afford(f, wv_decide_final_draws(wanted, least, WV_CHUNK), FINAL_PARTS));
    wv_closing_end_trial(&f->closing);
    return WV_CLOSING;
}

/* The mixture of the last trial that had density, once more. */
static void go_back(wvgd_fit *f)
{
    wv_mixture_copy(&f->mix, &f->mix_tried);
    wv_mixture_fit_set_elbo(&f->fitting, f->growth.tried_elbo);
}

/* ---- growth ------------------------------------------------------------------------------------------------------ */
/* Growth has not helped. Where the draws still wanted are expensive, components get more draws from now on; otherwise
 * it is a failure. */
static void count_failure(wvgd_fit *f)
{
    if (f->growth.effort < WV_EFFORT && wv_decide_draws_expensive(prices(f), f->growth.wanted))
        f->growth.effort++;
    else
        f->growth.fails++;
}

/* Splits and adds components by the closing draws from number `first` on. False: none could be added, and growth ends.
 */
static bool grow(wvgd_fit *f, size_t first, wvgd_estimate e)
{
    wv_growth_facts g = growth_facts(f);
    const wv_draws *b = &f->closing.draws;
    size_t n = b->n - first, mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, n), share = f->trace.last.ess / (double)n;
    if (f->growth.rounds && !wv_decide_growth_helped(&g, share, f->growth.last_rel, f->growth.undone))
        count_failure(f);
    else
        f->growth.fails = 0;
    f->growth.last_elbo = f->fitting.elbo;
    f->growth.last_rel = share;
    for (size_t i = 0; i < n; i++)
        log_w[i] = b->log_p[first + i] - b->log_m[first + i] - e.value;
    if (wv_decide_split(&g))
        wv_grow_split(f);
    wv_grow_add(f, n, b->x + first * f->D, log_w, wv_policy.growth_share);
    wv_arena_release(f->arena, mark);
    if (f->mix.K == g.K) {
        f->growth.fails = (size_t)wv_policy.growth_fails;
        return false;
    }
    f->growth.rounds++;
    return true;
}

/* Components where the walks have found much more density than the proposal has; false: nowhere. */
static bool grow_tails(wvgd_fit *f)
{
    size_t n = f->probe.visited, before = f->mix.K, mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, n), most = -INFINITY;
    wv_staged_closing_log_density(f, n, f->probe.visited_x, log_w);
    for (size_t i = 0; i < n; i++) {
        double log_p = f->probe.visited_log_p[i];
        log_w[i] = log_p - log_w[i] - f->growth.trial_z;
        if (log_w[i] > most && wv_decide_point_matters(log_w[i], below(f, log_p)))
            most = log_w[i];
    }
    if (wv_decide_tails_uncovered(most, f->growth.weight_quantile) && f->stop == WVGD_RUNNING)
        wv_grow_add(f, n, f->probe.visited_x, log_w, wv_policy.probe_share);
    wv_arena_release(f->arena, mark);
    f->growth.rounds += f->mix.K > before;
    return f->mix.K > before;
}

/* Components where chains have found mass that the proposal does not represent; false: there is no room for any. */
static bool grow_outside(wvgd_fit *f)
{
    const wv_certificate *c = &f->certificate;
    size_t before = f->mix.K, mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, WV_WALKERS);
    memcpy(log_w, c->now.most, WV_WALKERS * sizeof *log_w);
    wv_grow_add(f, WV_WALKERS, c->outside_x, log_w, wv_policy.probe_share);
    wv_arena_release(f->arena, mark);
    f->growth.rounds += f->mix.K > before;
    return f->mix.K > before;
}

/* ---- the mixture of the modes ------------------------------------------------------------------------------------ */
/* One Gaussian of the given scale around 0. */
static void set_given_scale(wvgd_fit *f)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D), *mu = wv_arena_zeros(f->arena, D), *root = wv_arena_take(f->arena, D * D);
    for (size_t i = 0; i < D; i++)
        sd[i] = f->opt.init_scale;
    wv_family_get(WVGD_FULL)->set_sd(D, 0, root, sd);
    wv_mixture_set_one(&f->mix, mu, root);
    wv_arena_release(f->arena, mark);
}

/* Modes too light to matter to the evidence that are so far from the others that they change an sd join the mixture of
 * these, whose masses add up to `sum`, in units of the heaviest. Returns what they add to it. */
static double add_light_modes(wvgd_fit *f, double top, double sum)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *mu = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, D * D), *sd = wv_arena_take(f->arena, D),
           added = 0;
    bool known = wv_mixture_moments(&f->mix, mu, root, f->arena);
    if (known)
        wv_family_get(WVGD_FULL)->sd(D, 0, root, sd);
    for (size_t m = 0; m < f->modes.n && f->mix.K < f->mix.room && known; m++) {
        double w = exp(f->modes.mode[m].elbo - top), most = 0;
        for (size_t i = 0; i < D; i++)
            most = fmax(most, w / sum * pow((f->modes.x[m * D + i] - mu[i]) / sd[i], 2));
        if (f->modes.mode[m].relevant || !wv_decide_moves_sd(most))
            continue;
        wv_gaussian g = wv_modes_gaussian(f, m);
        wv_mixture_append(&f->mix, &g, w / sum);
        added += w;
    }
    wv_arena_release(f->arena, mark);
    return added;
}

/* One component for each mode that matters, or, where exploration was stopped before any ascent has ended, one of the
 * given scale. */
static wv_stage begin_mixture(wvgd_fit *f)
{
    double top = -INFINITY, sum = 0;
    f->growth.last_elbo = -INFINITY;
    for (size_t m = 0; m < f->modes.n; m++)
        top = fmax(top, f->modes.mode[m].elbo);
    wv_mixture_clear(&f->mix);
    for (size_t m = 0; m < f->modes.n && f->mix.K < f->mix.room; m++)
        if (f->modes.mode[m].relevant) {
            wv_gaussian g = wv_modes_gaussian(f, m);
            double w = exp(f->modes.mode[m].elbo - top);
            wv_mixture_append(&f->mix, &g, w);
            sum += w;
        }
    if (f->mix.K) {
        wv_mixture_normalise(&f->mix);
        sum += f->dense ? add_light_modes(f, top, sum) : 0;
    }
    if (!f->mix.K) {
        set_given_scale(f);
        sum = 1;
    }
    wv_mixture_raise_weights(&f->mix, 1, wv_policy.start_least_weight / (double)f->mix.K);
    wv_mixture_normalise(&f->mix);
    wv_draws_clear(&f->recent);
    wv_mixture_fit_set_elbo(&f->fitting, top + log(sum));
    return f->mix.K > 1 ? begin_fit(f, false) : begin_trial(f);
}

/* Cells and their components, and a round of evaluations for these where that pays. */
static wv_stage begin_cells(wvgd_fit *f)
{
    if (!wv_cells_begin(f))
        return WV_DONE;
    if (f->bent.cells || !wv_cell_refine_wanted(f))
        return WV_BOUND;
    wv_cell_refine_begin(f);
    return WV_REFINE;
}

/* How far the top of mode m, by its Gaussian, stands above what the proposal has there, for this log evidence. */
static double stands_above(wvgd_fit *f, size_t m, double log_z)
{
    const double half_log_2pi = 0.918938533204672741780;
    const double *x = f->modes.x + m * f->D, *root = f->modes.root + m * f->D * f->D;
    double top = f->modes.mode[m].elbo - wv_family_get(WVGD_FULL)->log_det(f->D, 0, root) - (double)f->D * half_log_2pi;
    return top - wv_bent_log_density(f, x, NULL) - log_z;
}

static bool mode_matters(const wvgd_fit *f, size_t m, double log_z)
{
    return wv_decide_mode_matters(f->modes.mode[m].relevant, f->modes.mode[m].elbo, log_z);
}

/* A mode that exploration found and that the closing proposal has lost: one whose top stands far above what the
 * proposal has there. modes.n: none. Notes how far the worst does. */
static size_t find_lost(wvgd_fit *f)
{
    double log_z = f->outcome.evidence.value;
    wv_outcome_set_uncovered(&f->outcome, -INFINITY);
    for (size_t m = 0; m < f->modes.n && f->stop == WVGD_RUNNING; m++) {
        if (!mode_matters(f, m, log_z))
            continue;
        double above = stands_above(f, m, log_z);
        wv_outcome_set_uncovered(&f->outcome, fmax(f->outcome.uncovered, above));
        if (!f->bend.on && wv_decide_put_back(above, f->growth.recovered, f->mix.K, f->mix.room))
            return m;
    }
    return f->modes.n;
}

/* Whether the trial covers all modes that exploration found. */
static bool covers_modes(wvgd_fit *f)
{
    bool covered = isfinite(f->growth.trial_z);
    for (size_t m = 0; m < f->modes.n && covered; m++)
        covered = !mode_matters(f, m, f->growth.trial_z) || wv_decide_covered(stands_above(f, m, f->growth.trial_z));
    return covered;
}

/* Its Gaussian joins the mixture once more. */
static void put_back(wvgd_fit *f, size_t m)
{
    wv_gaussian g = wv_modes_gaussian(f, m);
    double w = wv_decide_put_back_weight(f->modes.mode[m].elbo, f->outcome.evidence.value);
    wv_mixture_scale_weights(&f->mix, 1 - w);
    wv_mixture_append(&f->mix, &g, w);
    f->growth.rounds = f->growth.fails = 0;
    wv_draws_forget(&f->recent, (size_t)wv_policy.recent_batches, f->arena);
}

/* ---- what comes after each stage --------------------------------------------------------------------------------- */
/* Growth that has left the mixture worse than it was is undone. */
static wv_stage after_fit(wvgd_fit *f)
{
    wv_grow_drop(f);
    wv_draws_forget(&f->recent, (size_t)wv_policy.recent_batches, f->arena);
    f->growth.undone = f->mix_tried.K && wv_decide_undo(f->fitting.elbo, f->growth.tried_elbo);
    if (f->growth.undone)
        go_back(f);
    return begin_trial(f);
}

/* Whether closing draws have gradients, so that a mixture can be fitted to them. */
static bool has_gradients(const wvgd_fit *f)
{
    return f->closing.draws.shape.gradients;
}

/* Closing draws from `first` on join the recent ones. */
static void remember(wvgd_fit *f, size_t first)
{
    wv_batch drawn = wv_draws_view(&f->closing.draws, first);
    if (has_gradients(f))
        wv_draws_take(&f->recent, &drawn, &f->proposals, &f->workers);
}

/* What the trial says of the evidence's price. */
static wvgd_estimate weigh_trial(wvgd_fit *f)
{
    wvgd_estimate e = wv_staged_closing_weigh(f, 0);
    if (!f->closing.planned) /* else those of the trial before stand for the same mixture */
        remember(f, 0);
    f->growth.wanted = wv_policy.trial_margin * wv_decide_draws_needed(e.se, f->closing.draws.n, f->opt.evidence_se);
    f->growth.trial_z = e.value;
    f->growth.trial_ess = f->trace.last.ess;
    f->growth.weight_quantile = isfinite(e.value) ? weight_quantile(f, e.value) : INFINITY;
    return e;
}

/* Share of the closing draws that have no density. */
static double walled(const wvgd_fit *f)
{
    double none = 0;
    for (size_t i = 0; i < f->closing.draws.n; i++)
        none += f->closing.draws.log_p[i] == -INFINITY;
    return none / (double)f->closing.draws.n;
}

/* Whether evaluations for a map to bent coordinates come next: those of a trial with more draws where the map costs far
 * more than the trial that calls for it, then those of the map. */
static bool begin_bend(wvgd_fit *f, wv_stage *next)
{
    double price = wv_decide_bend_price(prices(f));
    size_t enough = wv_decide_sure_draws(price, WV_SURE_TRIAL);
    bool sure = f->closing.planned >= enough || f->closing.draws.n >= enough;
    if (!wv_bent_open(f) || !wv_decide_more_maps(f->bent.tries, f->modes.relevant) ||
        !wv_decide_look_for_bend(f->growth.wanted, price, f->bent.tries, walled(f), sure))
        return false;
    *next = sure ? WV_BEND : WV_TRIAL;
    if (!sure)
        wv_closing_restart(&f->closing, enough);
    return !sure || wv_bent_begin(f);
}

/* How steeply log p~ falls in the coordinates that are no arguments, as a share of what it does in a standard normal:
 * the mean over draws of the trial farther out than all but a thousandth of that; 1 without such draws. Where it is
 * small the posterior has tails of a power. No row or line makes a normal of these, and most of their mass is where
 * draws of the trial are not. */
static double fall_of_others(wvgd_fit *f)
{
    const wv_draws *d = &f->closing.draws;
    const double quantile = 3.0902, most = 2; /* of a standard normal; of a draw */
    size_t r = f->bend.r;
    int others = (int)(f->D - r);
    double c = 2 / (9.0 * others), beyond = others * pow(1 - c + quantile * sqrt(c), 3), fall = 0, n = 0;
    for (size_t i = 0; i < d->n && d->shape.gradients && others; i++) {
        const double *u = d->x + i * f->D + r;
        double square = cblas_ddot(others, u, 1, u, 1);
        if (!(square > beyond && d->log_p[i] > -INFINITY))
            continue;
        fall += fmin(fmax(-cblas_ddot(others, u, 1, d->grad + i * f->D + r, 1) / square, 0), most);
        n++;
    }
    return n > 0 ? fall / n : 1;
}

/* Do draws of the trial before the bend show mass that the trial in bent coordinates misses? An arm where the map is
 * wrong is far from where that draws. With gradients starts of the search that goes on tell that. */
static bool bend_misses(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    double *u, *log_p, most = -INFINITY;
    size_t n = wv_bent_see(f, &u, &log_p);
    double *log_m = wv_arena_take(f->arena, n);
    wv_staged_closing_log_density(f, n, u, log_m);
    for (size_t i = 0; i < n; i++) {
        double log_w = log_p[i] - log_m[i] - f->growth.trial_z;
        if (log_w > most && wv_decide_point_matters(log_w, below(f, log_p[i])))
            most = log_w;
    }
    wv_arena_release(f->arena, mark);
    return wv_decide_tails_uncovered(most, f->growth.weight_quantile);
}

/* Whether the trial in bent coordinates is better than that without, and misses no mode; if not, back to these. Maps
 * are fitted around the heaviest Gaussian: if a good one misses a mode, so will others. So they will if tails are those
 * of a power. */
static bool keep_bend(wvgd_fit *f)
{
    bool covers = covers_modes(f) && (f->model.has_gradient || !bend_misses(f)),
         better = wv_decide_bend(f->growth.wanted, f->bent.wanted, f->bent.straight.K),
         heavy = wv_decide_tails_unbent(fall_of_others(f));
    if (better && covers && !heavy)
        wv_bent_keep(f);
    else {
        wv_bent_leave(f);
        wv_mixture_fit_set_elbo(&f->fitting, f->bent.elbo);
    }
    if (better || heavy)
        wv_bent_forget(f);
    return better && covers && !heavy;
}

/* The mixture of the modes, without a bend that would need many components. */
static wv_stage give_up_bend(wvgd_fit *f)
{
    wv_bent_give_up(f, true);
    f->growth.rounds = f->growth.fails = 0;
    return begin_trial(f);
}

static wv_stage after_trial(wvgd_fit *f)
{
    wvgd_estimate e = weigh_trial(f);
    if (isfinite(e.value)) {
        wv_mixture_copy(&f->mix_tried, &f->mix);
        f->growth.tried_elbo = f->fitting.elbo;
    } else if (f->mix_tried.K && (double)f->growth.fails < wv_policy.growth_fails) {
        go_back(f); /* growth has led out of the support: back to the mixture before it, and no more of it */
        f->growth.fails = (size_t)wv_policy.growth_fails;
        return begin_trial(f);
    }
    if (wv_bent_on_trial(f) && !keep_bend(f))
        return begin_trial(f);
    wv_growth_facts g = growth_facts(f);
    wv_trial_facts t = trial_facts(f, e);
    wv_trial_decision next = wv_decide_after_trial(&g, &t);
    wv_stage stage;
    if (next == WV_DECIDE_GROW && f->bend.on && wv_decide_give_up_bend(f->mix.K))
        return give_up_bend(f);
    if (next == WV_DECIDE_GROW && begin_bend(f, &stage))
        return stage;
    if (wv_explore_waits(f) && !f->bend.on && f->stop == WVGD_RUNNING) {
        wv_closing_clear(&f->closing);
        wv_explore_go_on(f);
        return WV_EXPLORE;
    }
    if (next == WV_DECIDE_GROW && !has_gradients(f) && !f->recent.n) /* what to split by, or to bend, comes first */
        return begin_fit(f, false);
    switch (next) {
    case WV_DECIDE_GROW: return grow(f, 0, e) ? begin_fit(f, has_gradients(f)) : begin_close(f);
    case WV_DECIDE_PROBE:
        wv_bent_forget(f); /* not while trials show that the evidence is expensive: growth may not help */
        f->growth.probes++;
        f->growth.probe_elbo = f->fitting.elbo;
        f->growth.probe_K = f->mix.K;
        return wv_tail_probe_begin(f) ? WV_PROBE : begin_close(f);
    case WV_DECIDE_CLOSE: break;
    }
    return begin_close(f);
}

static wv_stage after_probe(wvgd_fit *f)
{
    return grow_tails(f) ? begin_fit(f, false) : begin_close(f);
}

/* The standard error of the least certain sd, as a share of it, among those that draws can help. */
static double worst_sd(const wvgd_fit *f)
{
    double worst = 0;
    for (size_t i = 0; i < f->D; i++)
        if (wv_decide_sd_counts(f->posterior.tail_k[i]))
            worst = fmax(worst, f->posterior.sd_se[i] / sqrt(f->posterior.var[i]));
    return worst;
}

/* More draws where an sd is too uncertain; false: none. */
static bool sharpen(wvgd_fit *f)
{
    size_t more = wv_decide_sd_draws(worst_sd(f), f->closing.draws.n, f->growth.sharpened, WV_CHUNK);
    if (!more || f->stop != WVGD_RUNNING || wv_finisher_has_states(f) || !wv_staged_closing_has_room(f) ||
        f->growth.spent >= f->size.close_budget)
        return false;
    f->growth.sharpened++;
    wv_closing_plan(&f->closing, more);
    return true;
}

/* Density of the mixture at the closing draws, and moments, in the user's coordinates. */
static void describe_draws(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    if (f->bend.on)
        wv_bent_to_user(f);
    if (f->bent.kept || wv_finisher_has_states(f)) {
        double *log_mix = wv_arena_take(f->arena, f->closing.draws.n);
        wv_mixture_log_density(&f->mix, f->closing.draws.n, f->closing.draws.x, log_mix, NULL, &f->workers);
        wv_draws_set_mixture(&f->closing.draws, log_mix);
    } else
        wv_staged_closing_mixture_density(f);
    wv_describe_moments(f);
    wv_arena_release(f->arena, mark);
}

/* Are final draws so far off as only those of a density are that does not fall off? Chains would follow it. */
static bool runs_away(const wvgd_fit *f)
{
    const wv_draws *d = &f->closing.draws;
    double total = cblas_dasum((int)d->n, f->closing.v, 1), far = wv_policy.verdict_far * f->opt.init_scale;
    for (size_t i = 0; i < f->D && !f->bend.on; i++) {
        double off = 0;
        for (size_t k = 0; k < d->n; k++)
            off += f->closing.v[k] > 0 ? f->closing.v[k] / total * fabs(d->x[k * f->D + i]) : 0;
        if (!(off <= far))
            return true;
    }
    return false;
}

/* Whether chains complete the fit: always, or where the certificate, the evidence or the tails say that draws do not.
 */
static bool finish_wanted(wvgd_fit *f)
{
    bool failed = f->certificate.now.result == WV_CERTIFICATE_FAILED ||
                  !wv_decide_converged(f->outcome.evidence.se, f->opt.evidence_se) || uncovered_tails(f);
    return f->stop == WVGD_RUNNING && f->finish.now.result == WV_FINISH_NONE && isfinite(f->outcome.evidence.value) &&
           !runs_away(f) && (f->opt.finish == WVGD_FINISH_ALWAYS || (f->opt.finish == WVGD_FINISH_AUTO && failed));
}

/* The mode that neither draws nor chains cover, of those that matter. */
static void note_unvisited(wvgd_fit *f)
{
    double worst = -INFINITY;
    for (size_t m = 0; m < f->modes.n; m++)
        if (mode_matters(f, m, f->outcome.evidence.value) && !wv_finisher_visited(f, m))
            worst = fmax(worst, stands_above(f, m, f->outcome.evidence.value));
    wv_outcome_set_uncovered(&f->outcome, worst);
}

/* The draws are in: moments and cells, without the model; what is left is the bound. */
static wv_stage conclude(wvgd_fit *f)
{
    bool walked = wv_finisher_has_states(f);
    size_t lost = walked ? f->modes.n : find_lost(f);
    if (walked)
        note_unvisited(f);
    if (lost < f->modes.n) {
        put_back(f, lost);
        f->growth.recovered++;
        return begin_fit(f, false);
    }
    if (!walked && finish_wanted(f) && wv_finisher_begin(f))
        return WV_FINISH;
    double share = f->outcome.ess / (double)(f->closing.draws.n - f->closing.trial);
    /* the few effective draws of a poor trial would dominate the moments of all draws */
    if (f->closing.trial && !trial_useful(f, f->closing.trial, share))
        wv_closing_forget_trial(&f->closing, f->arena);
    if (!walked)
        wv_staged_closing_weigh_all(f);
    bool some = wv_describe_weights(f);
    if (some) {
        describe_draws(f);
        if (sharpen(f)) {
            wv_bent_to_solver(f);
            return WV_CLOSING;
        }
    }
    if (f->stop == WVGD_RUNNING && walked)
        f->stop = f->finish.now.result == WV_FINISH_SETTLED ? WVGD_FINISHED : WVGD_MAX_ITER;
    else if (f->stop == WVGD_RUNNING)
        f->stop = wv_decide_converged(f->outcome.evidence.se, f->opt.evidence_se) ? WVGD_CONVERGED : WVGD_MAX_ITER;
    if (!some) {
        wv_closing_clear(&f->closing); /* the caller reports that no draw has density */
        return WV_CLOSING;
    }
    return begin_cells(f);
}

/* Chains look for what the final draws cannot see; without any, the fit concludes. */
static wv_stage begin_certificate(wvgd_fit *f)
{
    bool known = f->certificate.now.result != WV_CERTIFICATE_NONE;
    if (known || f->stop != WVGD_RUNNING || !isfinite(f->outcome.evidence.value) || !wv_certificate_begin(f))
        return conclude(f);
    return WV_CERTIFY;
}

/* The search for modes goes on, now that the mixture foretells the density where a Gaussian for each mode did not. The
 * mixture waits where the last one tried does. */
static wv_stage begin_seek(wvgd_fit *f)
{
    bool waits = wv_explore_waits(f);
    if (f->stop != WVGD_RUNNING || !(f->growth.rounds || f->modes.relevant > 1 || f->bend.on) ||
        !isfinite(f->outcome.evidence.value) || !(waits || wv_explore_again_wanted(f)))
        return begin_certificate(f);
    wv_mixture_copy(&f->mix_tried, &f->mix);
    f->growth.tried_elbo = f->fitting.elbo;
    if (f->bend.on)
        wv_bent_begin_search(f);
    if (waits)
        wv_explore_go_on(f);
    else
        wv_explore_again(f);
    return WV_SEEK;
}

/* mode[modes.n] <- those that matter and that the proposal does not cover; how many. */
static size_t new_modes(wvgd_fit *f, size_t *mode)
{
    size_t n = 0;
    for (size_t m = 0; m < f->modes.n && f->stop == WVGD_RUNNING; m++)
        if (mode_matters(f, m, f->outcome.evidence.value) &&
            !wv_decide_covered(stands_above(f, m, f->outcome.evidence.value)))
            mode[n++] = m;
    return n;
}

/* Whether starts have met density that the final draws do not cover. A map may leave aside what it does not follow,
 * where neither draws nor walks in u get. */
static bool leaves_aside(const wvgd_fit *f)
{
    const wv_explore *e = &f->explore;
    bool aside = false;
    for (size_t i = 0; i < e->uncovered && !aside; i++)
        aside = wv_decide_point_matters(e->uncovered_w[i], below(f, e->uncovered_p[i]));
    return aside && f->bend.on && f->stop == WVGD_RUNNING;
}

/* Modes that are new join the mixture, in x: a bend is for one. */
static wv_stage after_seek(wvgd_fit *f)
{
    size_t K = f->mix_tried.K, mark = wv_arena_mark(f->arena), *mode = wv_arena_take_sizes(f->arena, f->modes.n);
    go_back(f);
    wv_modes_order(f);
    size_t n = new_modes(f, mode);
    if (n && f->bend.on) {
        wv_bent_give_up(f, false);
        K = f->mix.K;
    }
    for (size_t i = 0; i < n && f->mix.K < f->mix.room; i++)
        put_back(f, mode[i]);
    wv_arena_release(f->arena, mark);
    if (f->mix.K > K)
        return begin_fit(f, false);
    return leaves_aside(f) ? give_up_bend(f) : begin_seek(f);
}

/* What chains that complete the fit would cost; without them, more than anything. */
static double finish_price(const wvgd_fit *f)
{
    return f->opt.finish == WVGD_FINISH_NEVER ? INFINITY : wv_finisher_price(f);
}

/* A piece of the closing batch has been weighed. It is extended from the same proposal until the standard error is what
 * was asked for; a first piece that shows the trial to have been lucky sends the fit back to growth. */
static wv_stage after_close(wvgd_fit *f)
{
    size_t n = f->closing.draws.n - f->closing.trial;
    wvgd_estimate e = wv_staged_closing_weigh(f, f->closing.trial);
    wv_growth_facts g = growth_facts(f);
    e.se = hypot(e.se, sqrt(wv_certificate_unseen_variance(&f->certificate) / (double)n));
    wv_final_facts c = {.first = n == f->b.n && f->certificate.now.result == WV_CERTIFICATE_NONE,
                        .finite = isfinite(e.value),
                        .se = e.se,
                        .wanted_se = wv_decide_wanted_se(f->opt.evidence_se),
                        .n = (double)n,
                        .room = wv_staged_closing_has_room(f),
                        .returns = f->growth.returns,
                        .growth_price = wv_decide_growth_price(prices(f), f->growth.rounds)};
    c.left = wv_policy.closing_margin * (wv_decide_draws_needed(e.se, n, f->opt.evidence_se) - (double)n);
    c.expensive = wv_decide_draws_expensive(prices(f), c.left);
    wv_outcome_set_evidence(&f->outcome, (wvgd_estimate){e.value, hypot(e.se, wv_decide_tail_error(f->growth.rounds))},
                            f->trace.last.ess);
    c.tails = uncovered_tails(f);
    f->growth.wanted = c.left;
    if (wv_decide_return(&g, &c)) {
        f->growth.returns++;
        remember(f, f->closing.trial);
        if (grow(f, f->closing.trial, e))
            return begin_fit(f, has_gradients(f));
        if (has_gradients(f))
            wv_draws_drop_last(&f->recent, f->arena);
    }
    c.least = least_final(f, f->closing.trial, f->outcome.ess / (double)n);
    size_t more = wv_decide_extension(&g, &c, WV_CHUNK);
    if (!more || (c.left > finish_price(f) && (double)n >= c.least))
        return begin_seek(f);
    wv_closing_plan(&f->closing, more);
    return WV_CLOSING;
}

static wv_stage after_certificate(wvgd_fit *f)
{
    const wv_certified *c = &f->certificate.now;
    bool surprised = wv_certificate_unseen_variance(&f->certificate) > 0;
    f->count.iteration++;
    if (c->result == WV_CERTIFICATE_FAILED && wv_decide_grow_outside(c->failures) && grow_outside(f))
        return begin_fit(f, false);
    /* the error of the evidence is larger than final draws alone have shown: it may take more of them */
    return c->result == WV_CERTIFICATE_PASSED && surprised ? after_close(f) : conclude(f);
}

static wv_stage after_finish(wvgd_fit *f)
{
    f->count.iteration++;
    return conclude(f);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */
void wv_staged_begin(wvgd_fit *f)
{
    wv_explore_begin(f);
    f->stage = WV_EXPLORE;
}

void wv_staged_cells(wvgd_fit *f)
{
    f->stage = begin_cells(f);
}

static wv_stage after_explore(wvgd_fit *f)
{
    wv_modes_order(f);
    return begin_mixture(f);
}

static wv_stage after_refine(wvgd_fit *f)
{
    return wv_cells_weigh(f) ? WV_BOUND : WV_DONE;
}

/* More final draws for the components of the cells, if cells may be added, too; false: none. */
static bool redraw(wvgd_fit *f)
{
    size_t more = wv_decide_redraw(f->closing.draws.n, f->growth.redrawn, f->growth.more_cells, WV_CHUNK);
    if (!more || f->quantized || !f->opt.most_particles || wv_finisher_has_states(f) ||
        !wv_staged_closing_has_room(f) || f->growth.spent >= f->size.close_budget)
        return false;
    f->growth.redrawn++;
    f->stop = WVGD_RUNNING;
    wv_bent_to_solver(f);
    wv_closing_plan(&f->closing, more);
    return true;
}

/* A bound that contradicts the evidence has given it an error, with which it may not have converged. */
static wv_stage after_bound(wvgd_fit *f)
{
    if (f->stop == WVGD_CONVERGED && !wv_decide_converged(f->outcome.evidence.se, f->opt.evidence_se))
        f->stop = WVGD_MAX_ITER;
    if (!wv_fit_converged(f) || wv_verdict_ensemble_good(f))
        return WV_DONE;
    if (!wv_verdict_components_good(f) && redraw(f))
        return WV_CLOSING;
    size_t N = wv_decide_more_cells(f->N, f->modes.relevant, f->growth.more_cells);
    if (!N || !wv_fit_may_have(f, N))
        return WV_DONE;
    f->growth.more_cells++;
    wv_fit_set_cells(f, N);
    wv_stage stage = begin_cells(f);
    wv_trace_set_last(&f->trace, f->cells.beta);
    return stage;
}

/* The final draws that there are will do; if there are none, a few are made. */
static wv_stage hurry_close(wvgd_fit *f)
{
    if (f->closing.draws.n > f->closing.trial && isfinite(f->outcome.evidence.value))
        return conclude(f);
    wv_closing_plan(&f->closing, wv_fit_afford(f, f->closing.planned, FINAL_PARTS));
    return WV_CLOSING;
}

/* Cells are there, but for components that could be better, or for their bound. */
static wv_stage hurry_cells(wvgd_fit *f, wvgd_stop stop, bool given_up)
{
    if (f->stage == WV_BOUND && !given_up)
        return WV_BOUND;
    if (wv_fit_converged(f))
        f->stop = stop;
    if (f->stage == WV_REFINE)
        return after_refine(f);
    wv_cells_leave(f);
    return WV_DONE;
}

void wv_staged_hurry(wvgd_fit *f, wvgd_stop stop, bool given_up)
{
    if (f->stage == WV_REFINE || f->stage == WV_BOUND) {
        f->stage = hurry_cells(f, stop, given_up);
        return;
    }
    if (f->stop != WVGD_RUNNING && !given_up)
        return;
    f->stop = stop;
    switch (f->stage) {
    case WV_EXPLORE: f->stage = after_explore(f); break;
    case WV_SEEK: f->stage = after_seek(f); break;
    case WV_PROBE: f->stage = begin_close(f); break;
    case WV_BEND: f->stage = begin_trial(f); break;
    case WV_CLOSING: f->stage = hurry_close(f); break;
    case WV_FINISH: wv_finisher_leave(f); /* fall through */
    case WV_CERTIFY:
        f->stage = conclude(f);
        wv_trace_set_last(&f->trace, f->cells.beta);
        break;
    default: break;
    }
    if (f->stage == WV_FIT) {
        wv_mixture_fit_end(f);
        f->stage = after_fit(f);
    }
}

/* Draws for the bound, or the answers to them, unless a limit strikes: then there is none. */
static void take_bound(void *context)
{
    wv_cell_bound_tell(context);
}

typedef struct {
    wvgd_fit *f;
    wvgd_status status;
    wvgd_error *error;
} bound_asking;

static void ask_bound(void *context)
{
    bound_asking *a = context;
    a->status = wv_cell_bound_ask(a->f, a->error);
}

static wvgd_status ask_for_bound(wvgd_fit *f, wvgd_error *error)
{
    bound_asking a = {f, WVGD_OK, error};
    bool whole = wv_fit_try(f, ask_bound, &a);
    if (a.status == WVGD_E_NO_DRAWS && wv_finisher_has_states(f)) { /* these have shown what the posterior is */
        wv_cells_forget_bound(f);
        f->stage = WV_DONE;
        return WVGD_OK;
    }
    if (!whole || (a.status == WVGD_OK && wv_fit_hurried(f) && wv_fit_afford(f, f->b.n, 1) < f->b.n)) {
        wv_cells_leave(f);
        f->stage = WV_DONE;
    }
    return a.status;
}

bool wv_staged_wants_gradient(const wvgd_fit *f)
{
    switch (f->stage) {
    case WV_EXPLORE:
    case WV_SEEK: return wv_explore_wants_gradient(f);
    case WV_FIT:
    case WV_PROBE:
    case WV_BEND:
    case WV_CERTIFY:
    case WV_FINISH:
    case WV_REFINE: return true;
    default: return false;
    }
}

static void ask_trial(wvgd_fit *f)
{
    size_t least = wv_decide_trial_draws(f->mix.K, wv_fit_cheap(f)),
           plain = f->closing.planned > least ? f->closing.planned : least,
           wanted = f->opt.min_batch > plain && !wv_fit_hurried(f) ? f->opt.min_batch : plain;
    wv_staged_closing_draw(f, wv_fit_hurried(f) ? wv_fit_afford(f, wanted, TRIAL_PARTS) : wanted, WV_RNG_TRIAL);
    f->b.extra = wanted - plain;
}

wvgd_status wv_staged_ask(wvgd_fit *f, wvgd_error *error)
{
    switch (f->stage) {
    case WV_EXPLORE:
    case WV_SEEK: return wv_explore_ask(f, error);
    case WV_FIT: wv_mixture_fit_ask(f); break;
    case WV_TRIAL: ask_trial(f); break;
    case WV_BEND: wv_bent_ask(f); break;
    case WV_CLOSING: wv_staged_closing_draw(f, f->closing.planned, WV_RNG_CLOSE); break;
    case WV_PROBE:
    case WV_CERTIFY: wv_chains_ask(f); break;
    case WV_FINISH: wv_finisher_ask(f); break;
    case WV_REFINE: wv_cell_refine_ask(f); break;
    case WV_BOUND: return ask_for_bound(f, error);
    default: break;
    }
    return WVGD_OK;
}

static bool take_closing(wvgd_fit *f)
{
    wv_staged_closing_take(f);
    f->growth.spent += f->b.n;
    f->count.iteration++;
    return true;
}

/* Takes the answers of a batch; whether its stage is complete. */
static bool take(wvgd_fit *f, wvgd_status *status, wvgd_error *error)
{
    switch (f->stage) {
    case WV_EXPLORE:
    case WV_SEEK: *status = wv_explore_tell(f, error); return *status == WVGD_OK && wv_explore_done(f);
    case WV_FIT: return wv_mixture_fit_tell(f);
    case WV_PROBE: return wv_tail_probe_tell(f);
    case WV_BEND: return wv_bent_tell(f);
    case WV_CERTIFY: return wv_certificate_tell(f);
    case WV_FINISH: return wv_finisher_tell(f);
    case WV_REFINE: return wv_cell_refine_tell(f);
    case WV_BOUND:
        if (!wv_fit_try(f, take_bound, f))
            wv_cells_leave(f);
        return true;
    default: return take_closing(f);
    }
}

static wv_stage next(wvgd_fit *f)
{
    switch (f->stage) {
    case WV_EXPLORE: return after_explore(f);
    case WV_FIT: return after_fit(f);
    case WV_TRIAL: return after_trial(f);
    case WV_PROBE: return after_probe(f);
    case WV_BEND: return f->mix.K > 1 ? begin_trial(f) : begin_fit(f, false);
    case WV_CLOSING: return after_close(f);
    case WV_SEEK: return after_seek(f);
    case WV_CERTIFY: return after_certificate(f);
    case WV_FINISH: return after_finish(f);
    case WV_REFINE: return after_refine(f);
    case WV_BOUND: return after_bound(f);
    default: return WV_DONE;
    }
}

/* Whether a batch of a stage leaves a row in the trace: chains leave one when all of them have ended. */
static bool leaves_row(wv_stage stage, wv_stage after)
{
    return stage == WV_FIT || stage == WV_TRIAL || stage == WV_CLOSING ||
           ((stage == WV_CERTIFY || stage == WV_FINISH) && after != stage);
}

wvgd_status wv_staged_tell(wvgd_fit *f, wvgd_error *error)
{
    wv_stage stage = f->stage;
    wvgd_status status = WVGD_OK;
    if (stage == WV_EXPLORE || stage == WV_FIT)
        wv_bent_remember(f);
    if (take(f, &status, error))
        f->stage = next(f);
    if (!leaves_row(stage, f->stage))
        return status;
    if (stage == WV_FIT && f->count.iteration >= f->opt.max_iter)
        wv_staged_hurry(f, WVGD_MAX_ITER, false);
    if (!f->closing.draws.n && f->stage == WV_CLOSING)
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "none of the final draws has a finite log density: check the model, or change init-scale");
    if (f->stage != WV_REFINE && f->stage != WV_BOUND && f->stage != WV_DONE) { /* there are no cells yet */
        wv_trace_set_distortion(&f->trace, (wvgd_estimate){NAN, NAN});
        wv_partition_forget_masses(&f->cells);
    }
    return wv_fit_note(f, error);
}
