/* describe.c - what the closing draws of a fit say, put together of its parts with either solver: weights, moments,
 * masses, diagnostics and distortion (method, section 5). */
#include "describe.h"
#include "arena.h"
#include "evidence.h"
#include "fit.h"
#include "staged/bent.h"
#include "staged/finisher.h"
#include "moments.h"
#include "nearest.h"
#include "particle.h"
#include "policy.h"
#include "posterior.h"
#include "quantiles.h"
#include "staged/modes.h"
#include "weights.h"
#include <math.h>
#include <string.h>

/* ---- weights ----------------------------------------------------------------------------------------------------- */
static bool cut_off(const wvgd_fit *f)
{
    return f->stop == WVGD_TIME_UP || f->stop == WVGD_STOPPED || f->stop == WVGD_MAX_EVALUATIONS;
}

bool wv_describe_uncorrected(const wvgd_fit *f)
{
    bool fitted = f->staged ? cut_off(f) && !wv_finisher_has_states(f) && !f->bend.on && !f->bent.kept
                            : f->stage == WV_DONE;
    return fitted && f->outcome.ess < wv_policy.posterior_few;
}

/* log_w[n]: logs of weights for what has been fitted, up to a factor: the ensemble, or the mixture. */
static void fitted_weights(wvgd_fit *f, double *log_w)
{
    const wv_draws *b = &f->closing.draws;
    if (f->staged)
        wv_mixture_log_density(&f->mix, b->n, b->x, log_w, NULL, &f->workers);
    for (size_t i = 0; f->staged && i < b->n; i++)
        log_w[i] = b->log_p[i] > -INFINITY ? log_w[i] - b->log_m[i] : -INFINITY;
    if (f->staged)
        return;
    for (size_t i = 0; i < b->n; i++) {
        size_t j = b->cell[i];
        log_w[i] = f->cells.weight[j] > 0 && b->log_p[i] > -INFINITY
                       ? log(f->cells.weight[j]) + b->log_q[i] - f->cells.log_Z[j] - b->log_m[i]
                       : -INFINITY;
    }
}

bool wv_describe_weights(wvgd_fit *f)
{
    size_t n = f->closing.draws.n, mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, n), *v = wv_arena_take(f->arena, n);
    wv_posterior_log_weights(&f->closing.draws, log_w);
    bool some = wv_weights_normalise(n, log_w, v), fitted = some && wv_describe_uncorrected(f);
    if (fitted) /* what users see stands for the fitted components */
        fitted_weights(f, log_w);
    if (fitted && f->staged)
        wv_weights_normalise(n, log_w, v);
    wv_closing_set_weights(&f->closing, 0, v);
    double total = wv_weights_lse(n, log_w);
    for (size_t i = 0; i < n; i++)
        log_w[i] = some ? log_w[i] - total : -INFINITY;
    wv_closing_set_log_weights(&f->closing, log_w);
    wv_arena_release(f->arena, mark);
    return some;
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */
/* Pareto k-hat of the weights of all closing draws; infinite where others stand for them. */
static double closing_k(wvgd_fit *f)
{
    if (wv_describe_uncorrected(f))
        return INFINITY;
    size_t n = f->closing.draws.n, mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, n);
    wv_posterior_log_weights(&f->closing.draws, log_w);
    double k = wv_weights_pareto_k(n, log_w, NULL, f->arena);
    wv_arena_release(f->arena, mark);
    return k;
}

/* What the moments of a staged fit are estimated from. */
static wv_moments_input moments_input(wvgd_fit *f)
{
    size_t K = f->mix.K, *mode = wv_arena_take_sizes(f->arena, K);
    for (size_t k = 0; k < K; k++)
        mode[k] = f->modes.n > 1 ? wv_modes_nearest(f, f->modes.n, f->mix.mu + k * f->D) : 0;
    return (wv_moments_input){f->D, &f->closing.draws, f->closing.v, closing_k(f), &f->mix,
                              NULL, f->modes.n,        mode,         f->arena};
}

/* In bent coordinates Stein's identities hold in u, and the mixture in x was fitted to these very draws: it tells
 * nothing of their errors. */
static bool bent(const wvgd_fit *f)
{
    return f->staged && f->bent.kept && !f->bend.on;
}

/* The draws that moments are taken of: as they are, or without a mixture. */
static wv_draws described(wvgd_fit *f)
{
    size_t n = f->closing.draws.n;
    double *nothing = bent(f) ? wv_arena_take(f->arena, n) : NULL;
    for (size_t i = 0; i < n && nothing; i++)
        nothing[i] = -INFINITY;
    return wv_draws_with(&f->closing.draws, &(wv_draws_numbers){.log_mix = nothing});
}

/* The draws of a bent fit, in x, with the density of the mixture in u. */
static wv_draws beside_mixture(wvgd_fit *f, const wv_draws *view)
{
    const wv_draws *d = &f->closing.draws;
    double *log_mix = wv_arena_take(f->arena, d->n);
    for (size_t i = 0; i < d->n; i++)
        log_mix[i] = d->log_m[i] + view->log_mix[0][i] - view->log_m[i];
    return wv_draws_with(d, &(wv_draws_numbers){.log_mix = log_mix});
}

/* view: the draws in u, if the fit is bent. */
static wv_moments_tilt find_tilt(wvgd_fit *f, const wv_moments_input *in, const wv_draws *view)
{
    if (!bent(f))
        return wv_moments_find_tilt(in);
    wv_moments_input u = *in;
    u.draws = view;
    u.mix = &f->bent.bent;
    u.modes = 1;
    return wv_moments_find_tilt(&u);
}

void wv_describe_moments(wvgd_fit *f)
{
    size_t D = f->D, n = f->closing.draws.n, mark = wv_arena_mark(f->arena);
    double *weight = wv_arena_take(f->arena, n);
    wv_moments to = {wv_arena_take(f->arena, D), wv_arena_take(f->arena, D), wv_arena_take(f->arena, D),
                     wv_arena_take(f->arena, D), wv_arena_take(f->arena, D)};
    wv_moments_input in = moments_input(f);
    wv_draws view = bent(f) ? wv_bent_view(f) : f->closing.draws, draws = bent(f) ? beside_mixture(f, &view) : view;
    wv_moments_known known = {wv_arena_take(f->arena, D), wv_arena_take(f->arena, D), wv_arena_take(f->arena, D)};
    in.draws = &draws;
    wv_moments_tilt tilt = find_tilt(f, &in, &view);
    if (bent(f)) {
        wv_bent_moments(f, &known);
        in.known = &known;
    }
    bool tilted = wv_moments_estimate(&in, &tilt, to);
    for (size_t i = 0; i < n; i++)
        weight[i] = tilted ? in.v[i] * (1 - tilt.t[wv_draws_unit(in.draws, i)]) / tilt.kept : in.v[i];
    wv_posterior_set_moments(&f->posterior, D, &to);
    wv_closing_set_calibrated(&f->closing, weight);
    wv_arena_release(f->arena, mark);
}

void wv_describe_functions(wvgd_fit *f, size_t m, const double *value, wv_moments to, size_t P, const double *p,
                           double *quantile, double *se)
{
    size_t mark = wv_arena_mark(f->arena);
    bool known = value == f->closing.draws.x && m == f->D;
    if (known)
        wv_posterior_get_moments(&f->posterior, m, &to);
    if (f->staged && (P || !known)) {
        wv_moments_input in = moments_input(f);
        wv_draws view = bent(f) ? wv_bent_view(f) : f->closing.draws, draws = described(f);
        in.draws = &draws;
        wv_moments_tilt tilt = find_tilt(f, &in, &view);
        if (!known)
            wv_moments_of(&in, &tilt, m, value, to);
        wv_quantiles(&in, &tilt, m, value, P, p, quantile, se);
    } else if (!f->staged) {
        if (!known)
            wv_posterior_moments(&f->closing, m, value, to, f->arena);
        wv_quantiles_plain(f->closing.draws.n, f->closing.calibrated, m, value, P, p, quantile, se, f->arena);
    }
    wv_arena_release(f->arena, mark);
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */
/* The iterations since the cells came to rest have estimated the same masses: both estimates,
 * weighted by their precision. */
static void pool_masses(wvgd_fit *f)
{
    double total = 0, k = (double)f->joint.averaged;
    for (size_t j = 0; j < f->N; j++) {
        double other = fmax(f->cells.now.beta2[j] - f->cells.now.beta[j] * f->cells.now.beta[j], 0) / fmax(k - 1, 1),
               own = f->cells.beta_se[j] * f->cells.beta_se[j];
        if (f->joint.averaged && own > 0 && other > 0)
            wv_partition_set_mass(&f->cells, j,
                                  (f->cells.beta[j] / own + f->cells.now.beta[j] / other) / (1 / own + 1 / other),
                                  sqrt(1 / (1 / own + 1 / other)));
        total += f->cells.beta[j];
    }
    for (size_t j = 0; j < f->N; j++)
        wv_partition_set_mass(&f->cells, j, f->cells.beta[j] / total, f->cells.beta_se[j]);
}

/* Costs of the draws to the one particle. */
static void measure_costs(wvgd_fit *f)
{
    size_t n = f->closing.draws.n, most = f->size.n_max, mark = wv_arena_mark(f->arena);
    uint32_t *cell = wv_arena_take_index(f->arena, most);
    double *near = wv_arena_take(f->arena, most), *next = wv_arena_take(f->arena, most);
    wv_geometry g = wv_partition_geometry(&f->cells);
    for (size_t first = 0; first < n; first += most) {
        size_t here = n - first < most ? n - first : most;
        wv_nearest_assign(&g, here, f->closing.draws.x + first * f->D, cell, near, next, f->arena);
        wv_draws_set_cells(&f->closing.draws, first, here, NULL, near);
    }
    wv_arena_release(f->arena, mark);
}

/* The spread of the one cell, and the metric unless it was given, are those of the posterior. */
static void take_posterior(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    double *spread = wv_arena_take(f->arena, f->cells.shape.cell_family->size(f->D, 0)),
           *metric = wv_arena_take(f->arena, f->cells.shape.metric_family->size(f->D, 0));
    wv_posterior_root(&f->posterior, &f->closing, f->cells.shape.cell_family, spread, f->arena);
    wv_partition_set_spread(&f->cells, 0, spread);
    if (!f->opt.metric) {
        wv_posterior_root(&f->posterior, &f->closing, f->cells.shape.metric_family, metric, f->arena);
        wv_partition_set_metric(&f->cells, metric);
    }
    wv_arena_release(f->arena, mark);
}

/* One particle bounds no cell: it is placed only now. With several, the iterations since the cells came to
 * rest have estimated the same distortion. */
static void distortion(wvgd_fit *f)
{
    if (f->N == 1) {
        take_posterior(f);
        wv_particle_place_one(&f->cells, f->closing.draws.n, f->closing.draws.x, f->closing.v, f->posterior.mean,
                              f->arena);
        measure_costs(f);
    }
    wvgd_estimate d = wv_evidence_mean(f->closing.draws.n, f->closing.v, f->closing.draws.near, 1);
    double k = (double)f->joint.averaged, own = d.se * d.se,
           other = fmax(f->joint.distortion2 - f->joint.distortion1 * f->joint.distortion1, 0) / fmax(k - 1, 1);
    if (f->N > 1 && f->joint.averaged && own > 0 && other > 0 && isfinite(own) && isfinite(other)) {
        d.value = (d.value / own + f->joint.distortion1 / other) / (1 / own + 1 / other);
        d.se = sqrt(1 / (1 / own + 1 / other));
    }
    wv_trace_set_distortion(&f->trace, d);
}

void wv_describe_cells(wvgd_fit *f)
{
    size_t N = f->N, mark = wv_arena_mark(f->arena);
    wv_cell_diagnostics d = {wv_arena_take(f->arena, N), wv_arena_take(f->arena, N), wv_arena_take(f->arena, N)};
    wv_partition_sum_masses(&f->cells, f->closing.draws.n, f->closing.draws.cell, f->closing.v);
    wv_outcome_set_pareto_k(&f->outcome, wv_posterior_smooth(&f->closing, f->arena));
    if (wv_describe_uncorrected(f))
        wv_closing_set_smooth(&f->closing, f->closing.log_w);
    wv_posterior_diagnose(&f->closing, N, f->cells.beta, d, f->arena);
    for (size_t j = 0; j < N; j++)
        wv_partition_set_diagnostics(&f->cells, j, d.beta_se[j], d.ess[j], d.pareto_k[j]);
    wv_arena_release(f->arena, mark);
    pool_masses(f);
    distortion(f);
}
