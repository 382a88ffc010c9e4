/* decisions.c - what the staged solver does next, as pure functions of a few numbers (docs/internals/staged.md). */
#include "staged/decisions.h"
#include "policy.h"
#include <math.h>

/* ---- prices ------------------------------------------------------------------------------------------------------ */
size_t wv_decide_trial_draws(size_t K, double cheap)
{
    bool few = (double)K < wv_policy.trial_many;
    double least = few ? wv_policy.trial_draws + wv_policy.trial_draws_each * (double)K
                       : wv_policy.trial_draws_many + wv_policy.trial_draws_many_each * (double)K,
           extra = floor(fmin(cheap, wv_policy.trial_cheap_most));
    return (size_t)fmax(extra, least);
}

/* Components after a round. */
static double grown(wv_prices p)
{
    return (double)p.K + wv_policy.growth_new_components;
}

/* Draws of a component in an iteration. */
static double draws_each(wv_prices p)
{
    return fmax(wv_policy.growth_draws_least, (double)p.D / wv_policy.growth_draws_dims);
}

double wv_decide_round_price(wv_prices p)
{
    double K = grown(p);
    return wv_policy.trial_draws_many + wv_policy.trial_draws_many_each * K +
           wv_policy.growth_iterations * K * draws_each(p);
}

/* The fit's own work in a round, in evaluations: iterations in which all points meet all components, and matrices of
 * these are factorised. */
static double own_price(wv_prices p)
{
    double D = (double)p.D, K = grown(p),
           points = wv_policy.trial_draws_many + wv_policy.growth_own_batches * K * draws_each(p),
           each = wv_policy.growth_own_products * points + wv_policy.growth_own_matrices * D;
    return p.work > 0 ? wv_policy.growth_iterations * K * D * D * each / p.work : 0;
}

double wv_decide_growth_price(wv_prices p, size_t rounds)
{
    double evaluations = (rounds ? wv_policy.growth_later_price : 1) * wv_decide_round_price(p);
    return fmax(evaluations, fmin(evaluations + wv_policy.growth_own_rounds * own_price(p),
                                  (double)p.draw_budget * wv_policy.growth_budget_share));
}

bool wv_decide_draws_expensive(wv_prices p, double wanted)
{
    return wanted > wv_policy.draws_expensive * wv_decide_round_price(p);
}

/* ---- standard errors --------------------------------------------------------------------------------------------- */
double wv_decide_wanted_se(double evidence_se)
{
    return wv_policy.closing_aim * evidence_se;
}

double wv_decide_draws_needed(double se, size_t n, double evidence_se)
{
    double ratio = se / wv_decide_wanted_se(evidence_se);
    return (double)n * ratio * ratio;
}

double wv_decide_tail_error(size_t rounds)
{
    return fmin(wv_policy.tail_error_each * (double)rounds, wv_policy.tail_error_most);
}

double wv_decide_lognormal_quantile(size_t n, double ess)
{
    double variance = log((double)n / fmax(ess, 1));
    return variance / 2 + wv_policy.weight_quantile_normal * sqrt(variance);
}

bool wv_decide_trial_useful(double trial_ess, size_t n, double share)
{
    return trial_ess > wv_policy.trial_useful_share * share * (double)n;
}

double wv_decide_least_final(size_t N, size_t D, double cheap, size_t trial, bool useful)
{
    double d = (double)D, n = (double)N,
           cells = fmax(wv_policy.closing_per_cell * n, wv_policy.closing_per_cell_flat * n / (d * d)),
           least = fmax(fmax(wv_policy.closing_least, cells), fmax(wv_policy.closing_per_dimension * d, cheap));
    return fmax(wv_policy.closing_least_final, least - (useful ? (double)trial : 0));
}

size_t wv_decide_final_draws(double wanted, double least, size_t chunk)
{
    return (size_t)fmin(fmin(fmax(wanted, least), fmax(floor(wv_policy.closing_first_share * (double)chunk), least)),
                        (double)chunk);
}

/* ---- growth ------------------------------------------------------------------------------------------------------ */
bool wv_decide_exhausted(const wv_growth_facts *g)
{
    return !g->running || (double)g->rounds >= wv_policy.growth_rounds || (double)g->fails >= wv_policy.growth_fails ||
           g->K >= g->room || g->spent >= g->budget;
}

/* The last round has gained enough to go on as before. */
static bool worthwhile(const wv_growth_facts *g)
{
    return g->elbo > g->last + wv_policy.growth_worthwhile;
}

bool wv_decide_growth_stalled(const wv_growth_facts *g)
{
    return (double)g->spent > wv_policy.growth_patience && g->elbo < g->last + wv_policy.growth_worthwhile;
}

bool wv_decide_split(const wv_growth_facts *g)
{
    return !g->rounds || worthwhile(g);
}

bool wv_decide_growth_helped(const wv_growth_facts *g, double share, double last_share, bool undone)
{
    return g->elbo > g->last + wv_policy.growth_helped_elbo ||
           (!undone && share > wv_policy.growth_helped_share * last_share);
}

bool wv_decide_undo(double elbo, double tried_elbo)
{
    return elbo < tried_elbo - wv_policy.growth_harmful;
}

/* Weights whose tail is heavier than a lognormal's call for more growth, once it has begun and pays. */
static bool heavy_tail(const wv_growth_facts *g, const wv_trial_facts *t)
{
    return g->rounds && (double)g->K < wv_policy.growth_many_components &&
           t->weight_quantile > t->lognormal_quantile + wv_policy.growth_heavy_tail && worthwhile(g);
}

/* Walks are sent out once growth was needed, or would have been but for its price; again while they help. */
static bool probe_due(const wv_growth_facts *g, const wv_trial_facts *t)
{
    bool again = g->elbo > t->probe_elbo + wv_policy.probe_gain && g->K > t->probe_K;
    return (g->rounds || t->cost > t->round_price) && (double)t->probes < wv_policy.probes && (!t->probes || again);
}

wv_trial_decision wv_decide_after_trial(const wv_growth_facts *g, const wv_trial_facts *t)
{
    if (wv_decide_exhausted(g) || wv_decide_growth_stalled(g))
        return WV_DECIDE_CLOSE;
    if (t->finite && (t->cost > t->growth_price || heavy_tail(g, t)))
        return WV_DECIDE_GROW;
    return probe_due(g, t) ? WV_DECIDE_PROBE : WV_DECIDE_CLOSE;
}

/* ---- bends ------------------------------------------------------------------------------------------------------- */
double wv_decide_bend_price(wv_prices p)
{
    double D = (double)p.D, batch = fmax(wv_policy.bend_batch, wv_policy.bend_batch_dimension * D),
           evaluations = wv_policy.bend_rounds * batch + (double)wv_decide_trial_draws(1, 0),
           own = p.work > 0 ? wv_policy.bend_own_work * D * D / p.work : 0;
    return evaluations + own;
}

size_t wv_decide_sure_draws(double price, size_t most)
{
    return (size_t)fmin(wv_policy.bend_sure * price, (double)most);
}

double wv_decide_lognormal_wanted(double sd, double evidence_se)
{
    return wv_policy.trial_margin * wv_decide_draws_needed(sqrt(expm1(sd * sd)), 1, evidence_se);
}

bool wv_decide_more_maps(size_t tries, size_t modes)
{
    return (double)tries < (modes > 1 ? wv_policy.bend_tries_modes : wv_policy.bend_tries);
}

bool wv_decide_look_for_bend(double wanted, double price, size_t tries, double walled, bool sure)
{
    double worth = sure ? wv_policy.bend_worth : 1;
    return wanted > worth * (double)(tries + 1) * price && walled <= wv_policy.bend_walled;
}

bool wv_decide_bend(double bent, double straight, size_t modes)
{
    return bent < (modes > 1 ? wv_policy.bend_better_modes : wv_policy.bend_better) * straight;
}

bool wv_decide_tails_unbent(double fall)
{
    return fall < wv_policy.bend_fall;
}

bool wv_decide_give_up_bend(size_t K)
{
    return (double)K > wv_policy.bend_components;
}

/* ---- what walks and modes have shown ----------------------------------------------------------------------------- */
bool wv_decide_point_matters(double log_w, double below)
{
    return exp(log_w) * below > wv_policy.probe_matters;
}

bool wv_decide_tails_uncovered(double most, double weight_quantile)
{
    return most > fmax(wv_policy.probe_uncovered, weight_quantile + wv_policy.probe_above_quantile);
}

bool wv_decide_moves_sd(double share)
{
    return share > wv_policy.modes_moving;
}

bool wv_decide_mode_matters(bool relevant, double elbo, double log_z)
{
    return relevant && !(elbo < log_z - wv_policy.recover_light);
}

bool wv_decide_put_back(double above, size_t recovered, size_t K, size_t room)
{
    return above > wv_policy.recover_uncovered && (double)recovered < wv_policy.recover_most && K < room;
}

bool wv_decide_covered(double above)
{
    return above <= wv_policy.recover_uncovered;
}

double wv_decide_put_back_weight(double elbo, double log_z)
{
    return fmin(fmax(exp(elbo - log_z), wv_policy.recover_least_weight), wv_policy.recover_most_weight);
}

/* ---- the final batch --------------------------------------------------------------------------------------------- */
bool wv_decide_return(const wv_growth_facts *g, const wv_final_facts *c)
{
    bool stalled = wv_decide_growth_stalled(g), costly = c->left > c->growth_price && (!stalled || c->expensive);
    return c->first && !wv_decide_exhausted(g) && (double)c->returns < wv_policy.returns &&
           (costly || (!stalled && c->tails));
}

size_t wv_decide_extension(const wv_growth_facts *g, const wv_final_facts *c, size_t chunk)
{
    /* where the standard error is small already only half of the budget is spent on it */
    size_t budget = c->se < wv_policy.closing_small_se ? g->budget / 2 : g->budget;
    if (!c->room || !g->running || !c->finite)
        return 0;
    if (c->se > c->wanted_se && g->spent < budget)
        return (size_t)fmin(fmax(c->left, wv_policy.closing_extension), (double)chunk);
    return c->n < c->least ? (size_t)fmin(c->least - c->n, (double)chunk) : 0;
}

size_t wv_decide_sd_draws(double se, size_t n, size_t sharpened, size_t chunk)
{
    double ratio = se / wv_policy.closing_sd_se,
           more = (double)n * fmin(wv_policy.closing_margin * ratio * ratio - 1, wv_policy.closing_sd_growth);
    if (!(ratio > 1) || (double)sharpened >= wv_policy.closing_sd_pieces)
        return 0;
    return (size_t)fmin(fmax(more, wv_policy.closing_extension), (double)chunk);
}

bool wv_decide_sd_counts(double tail_k)
{
    return !(tail_k > wv_policy.closing_sd_tail);
}

bool wv_decide_converged(double se, double evidence_se)
{
    return se <= fmax(wv_policy.converged_margin * evidence_se, wv_policy.converged_se);
}

size_t wv_decide_more_cells(size_t N, size_t modes, size_t times)
{
    double each = fmax((double)modes, 1), few = modes > 1 ? wv_policy.cells_more_modes : wv_policy.cells_more,
           last = wv_policy.cells_more_times - 1,
           least = ((double)times < last ? few : wv_policy.cells_more_last) * (double)N;
    return (double)times <= last ? (size_t)(each * ceil(least / each)) : 0;
}

size_t wv_decide_redraw(size_t n, size_t times, size_t more_cells, size_t chunk)
{
    bool turn = times <= more_cells + 1; /* twice, then after every time that there have been more cells */
    return turn && (double)times < wv_policy.cells_redraw_times
               ? (size_t)fmin(wv_policy.cells_redraw * (double)n, (double)chunk)
               : 0;
}

bool wv_decide_exact(double uneven)
{
    return uneven < wv_policy.certificate_exact;
}

double wv_decide_outside(size_t n, size_t chains)
{
    return fmax(wv_policy.certificate_outside, log((double)n / (double)chains));
}

bool wv_decide_walk_on(size_t trajectories, size_t states, double below)
{
    double most = below < wv_policy.certificate_near ? wv_policy.certificate_most : wv_policy.certificate_trajectories;
    return (double)trajectories < wv_policy.certificate_trajectories ||
           (!wv_decide_refuted(states) && (double)trajectories < most);
}

bool wv_decide_refuted(size_t states)
{
    return (double)states >= wv_policy.certificate_refuted;
}

bool wv_decide_grow_outside(size_t failures)
{
    return (double)failures <= wv_policy.certificate_growth;
}
