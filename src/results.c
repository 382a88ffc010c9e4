/* results.c - what a fit has found, as views, with warnings in words. */
#include "fit.h"
#include "gaussian.h"
#include "joint/joint.h"
#include "memory.h"
#include "number_text.h"
#include "policy.h"
#include "results.h"
#include "verdict.h"
#include <cblas.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void add_warning(wvgd_fit *f, const char *format, ...)
{
    if (f->messages.warnings == WV_WARNINGS)
        return;
    va_list args;
    va_start(args, format);
    wv_number_text_vprint(f->messages.warning_text[f->messages.warnings], sizeof f->messages.warning_text[0], format,
                          args);
    va_end(args);
    f->messages.warning[f->messages.warnings] = f->messages.warning_text[f->messages.warnings];
    f->messages.warnings++;
}

static void warn_cells(wvgd_fit *f)
{
    size_t worst = 0, bad = 0, dead = 0, last = 0;
    double missing = 0, given_up = 0; /* mass of cells without a bound, and of those whose component is not fitted */
    for (size_t j = 0; j < f->N; j++) {
        if (wv_verdict_cell_uncovered(f->cells.pareto_k[j], f->cells.ess[j], f->cells.beta[j], f->closing.draws.n)) {
            bad++;
            if (!(f->cells.pareto_k[worst] > f->cells.pareto_k[j]))
                worst = j;
        }
        given_up += f->cells.beta[j] > 0 && wv_joint_gave_up(f, j) ? f->cells.beta[j] : 0;
        if (!(f->cells.beta[j] > 0)) {
            dead++;
            last = j;
        } else if (f->cells.elbo[j] == -INFINITY)
            missing += f->cells.beta[j];
    }
    const char *advice = f->opt.family != WVGD_FULL ? "try --family full"
                         : f->staged                ? "a smaller --evidence-se takes more draws"
                                                    : "try more --particles";
    if (bad)
        add_warning(f,
                    "Pareto k-hat is %.2f in cell %zu (%zu cell%s above %.2f), so the draws cover the posterior there "
                    "poorly: %s",
                    f->cells.pareto_k[worst], worst + 1, bad, bad > 1 ? "s" : "",
                    wv_verdict_khat_limit(f->closing.draws.n), advice);
    if (dead)
        add_warning(f, "%zu of %zu cells have no mass (such as cell %zu): use fewer --particles", dead, f->N, last + 1);
    if (missing > wv_policy.results_mass)
        add_warning(f,
                    "cells with %.2g of the mass have no bound and are left out of the ensemble and the PELBO; means, "
                    "masses and evidence are not affected: use fewer --particles",
                    missing);
    if (given_up > wv_policy.results_mass)
        add_warning(
            f,
            "in cells with %.2g of the mass the fit of the component failed, and the moments of the cell replace it; "
            "the PELBO is lower than necessary, but means, masses and evidence are not affected: %s",
            given_up, f->opt.family != WVGD_FULL ? "try --family full" : "use --solver staged");
}

/* Where the mixture promises more of an ELBO than the draws of the component show. */
static void warn_mixture(wvgd_fit *f)
{
    double mass = 0, most = 0;
    size_t worst = 0;
    for (size_t j = 0; j < f->N; j++) {
        double sure = f->cells.excess[j] - wv_policy.bound_most_errors * f->cells.excess_se[j];
        if (!(sure > wv_policy.results_excess && f->cells.beta[j] > wv_policy.results_mass))
            continue;
        mass += f->cells.beta[j];
        worst = sure > most ? j : worst;
        most = fmax(most, sure);
    }
    if (mass > 0)
        add_warning(f,
                    "the mixture is wrong in cells with %.2g of the mass (in cell %zu it predicts %.4g nats too much), "
                    "so their components may be wrong too: %s",
                    mass, worst + 1, f->cells.excess[worst],
                    wv_verdict_lacks_components(f) ? "raise --components"
                                                   : "take draws of the posterior instead of the ensemble");
}

/* A loss that is left where there is nothing to gain is the price of the family. */
static void warn_loss(wvgd_fit *f)
{
    double loss = f->outcome.evidence.value - f->outcome.bound.value;
    if (loss - wv_policy.verdict_errors * hypot(f->outcome.evidence.se, f->outcome.bound.se) > wv_policy.results_loss)
        add_warning(
            f, "the components fall short of the log evidence by %.3g nats (see loss and gain of each particle): %s",
            loss,
            wv_fit_hurried(f)            ? "let the fit converge first"
            : f->opt.family != WVGD_FULL ? "try --family full"
                                         : "use more --particles");
}

/* The standard error that was asked for has been missed, though it is small enough for the verdict. More draws would
 * not lessen what is added for tails that growth did not reach. */
static void warn_evidence(wvgd_fit *f)
{
    double se = f->outcome.evidence.se, wanted = f->opt.evidence_se;
    bool said = !wv_fit_converged(f) || f->outcome.noise > wv_policy.verdict_noise; /* by the verdict */
    const char *why = wv_verdict_lacks_components(f) ? "raise --components"
                      : !wv_finisher_has_states(f) ? "this posterior is too different from a mixture of Gaussians for "
                                                     "more precision"
                      : f->opt.finish == WVGD_FINISH_ALWAYS
                          ? "it comes from chains; without --finish always, draws take "
                            "their place where they are good"
                          : "it comes from chains, which completed the fit";
    if (!said && se > wv_policy.converged_margin * wanted)
        add_warning(f, "the log evidence has a standard error of %.2g, not the %.2g of --evidence-se: %s", se, wanted,
                    why);
}

/* What a user should know besides the verdict; each with what to do about it. */
static void warnings(wvgd_fit *f)
{
    f->messages.warnings = 0;
    if (f->stage != WV_DONE)
        return;
    if (!wv_verdict_improper(f) && !wv_verdict_wrong_model(f)) {
        warn_cells(f);
        warn_mixture(f);
        warn_loss(f);
        warn_evidence(f);
    }
    if (f->outcome.meanfield_gap > wv_policy.results_meanfield_gap && f->opt.family == WVGD_DIAG)
        add_warning(
            f,
            "the parameters are strongly correlated, so a diagonal Gaussian loses about %.1f nats: use --family full",
            f->outcome.meanfield_gap);
    if (!isfinite(f->trace.last.distortion.value) && !isnan(f->outcome.bound.value))
        add_warning(f,
                    "the distortion is %g: a cost between a particle and a draw is infinite or NaN; check the cost "
                    "function, or --power",
                    f->trace.last.distortion.value);
    if (isnan(f->outcome.bound.value))
        add_warning(f, "a limit was reached while the cells were made: particles and components may be rough, and "
                       "there is no bound; resume the run, or fit again with a higher limit");
    if (f->count.evaluations > f->size.evaluations)
        add_warning(f, "the fit took %zu evaluations, more than --max-evaluations, because the final draws need them",
                    f->count.evaluations);
    if (f->count.bad_points && !wv_verdict_has_bad_points(f))
        add_warning(
            f,
            "%zu of %zu points had a NaN or infinite density or gradient and have weight zero: check the model there",
            f->count.bad_points, f->count.evaluations);
    if (f->explore.refused)
        add_warning(f,
                    "%zu component%s narrower than a double resolves at %s location, and refused: check the density "
                    "for spikes there, or shift the parameters",
                    f->explore.refused, f->explore.refused > 1 ? "s were" : " was",
                    f->explore.refused > 1 ? "their" : "its");
    if (wv_policy.results_zero_points * (double)f->count.zero_points > (double)f->count.evaluations)
        add_warning(f, "%zu of %zu points had density zero: a bounded parameter may need a transformation",
                    f->count.zero_points, f->count.evaluations);
}

bool wv_views_new(wv_views *v, size_t N, size_t sds, size_t cell_covs)
{
    const wv_slot slots[] = {{&v->sd, sds}, {&v->limit, N}, {&v->cell_cov, cell_covs}, {&v->loss, N}, {&v->loss_se, N}};
    v->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return v->memory != NULL;
}

void wv_views_free(wv_views *v)
{
    free(v->memory);
}

/* Whether component j is wider than the posterior in its cell, along some coordinate, by as much as steps let it be. */
static bool without_limit(wvgd_fit *f, size_t j)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    wv_gaussian s = wv_partition_spread(&f->cells, j);
    double *sd = wv_arena_take(f->arena, D), widest = 0;
    s.family->sd(D, 0, s.root, sd);
    for (size_t i = 0; i < D; i++)
        widest = fmax(widest, f->views.sd[j * D + i] / sd[i]);
    wv_arena_release(f->arena, mark);
    return f->N > 1 && !f->bent.cells && widest * widest * wv_policy.update_flattest > wv_policy.results_limit;
}

/* log(beta_j p(x)) - ELBO_j of every cell. */
static void fill_losses(wvgd_fit *f)
{
    const wv_partition *p = &f->cells;
    wvgd_estimate e = f->outcome.evidence;
    for (size_t j = 0; j < f->N; j++) {
        bool known = f->stage == WV_DONE && p->beta[j] > 0;
        f->views.loss[j] = known ? e.value + log(p->beta[j]) - p->elbo[j] : NAN;
        f->views.loss_se[j] =
            known && p->elbo[j] > -INFINITY ? hypot(hypot(e.se, p->elbo_se[j]), p->beta_se[j] / p->beta[j]) : NAN;
    }
}

/* Until there are draws to make cells from the staged solver leaves them as they are. */
static void fill_views(wvgd_fit *f)
{
    size_t D = f->D, size = f->cells.shape.cell_family->size(D, 0);
    bool untouched = f->staged && isnan(f->cells.beta[0]);
    if (untouched && f->views.untouched)
        return;
    f->views.untouched = untouched;
    for (size_t j = 0; j < f->N; j++) {
        wv_gaussian q = wv_partition_component(&f->cells, j), s = wv_partition_spread(&f->cells, j);
        q.family->sd(D, q.R, q.root, f->views.sd + j * D);
        f->views.limit[j] = without_limit(f, j);
        if (f->cells.shape.cell_family == wv_family_get(WVGD_FULL))
            wv_gaussian_cov(&s, f->views.cell_cov + j * size, f->arena);
        else
            for (size_t i = 0; i < D; i++)
                f->views.cell_cov[j * D + i] = s.root[i] * s.root[i];
    }
}

/* What belongs to particles and their cells. */
static void give_cells(const wvgd_fit *f, wvgd_results *r)
{
    r->z = f->cells.now.z;
    r->beta = f->cells.beta;
    r->beta_se = f->cells.beta_se;
    r->weight = f->cells.weight;
    r->log_Z = f->cells.log_Z;
    r->elbo = f->cells.elbo;
    r->elbo_se = f->cells.elbo_se;
    r->cell_ess = f->cells.ess;
    r->cell_pareto_k = f->cells.pareto_k;
    r->gain = f->cells.gain;
    r->gain_se = f->cells.gain_se;
    r->loss = f->views.loss;
    r->loss_se = f->views.loss_se;
    r->mu = f->cells.now.mu;
    r->sd = f->views.sd;
    r->chol = f->opt.family == WVGD_FULL ? f->cells.now.root : NULL;
    r->limit = f->views.limit;
    r->cell_cov = f->views.cell_cov;
}

/* Chains: those that looked for missed mass, and those that completed the fit. */
static void give_finish(const wvgd_fit *f, wvgd_results *r)
{
    static const char *const names[] = {"none", "too_expensive", "settled", "unsettled"};
    const wv_finished *s = &f->finish.now;
    double T = (double)s->trajectory, tried = (double)s->tried;
    bool known = s->result >= WV_FINISH_SETTLED && s->trajectory;
    r->walks = f->certificate.now.walks;
    r->walks_outside = f->certificate.now.outside;
    r->walks_evaluations = f->certificate.now.evaluations;
    r->finish = names[s->result <= WV_FINISH_UNSETTLED ? s->result : 0];
    r->finish_chains = known ? WV_CHAINS : 0;
    r->finish_trajectories = s->trajectory;
    r->finish_states = f->closing.draws.states;
    r->finish_rungs = s->rung;
    r->finish_evaluations = s->evaluations;
    r->finish_acceptance = known ? s->acceptance / T : NAN;
    r->finish_jumps = known && tried > 0 ? (double)s->accepted / tried : NAN;
    r->finish_mean_se = known ? s->mean_se : NAN;
    r->finish_sd_se = known ? s->sd_se : NAN;
    r->finish_rhat = known ? s->rhat : NAN;
    r->finish_drift = known ? s->drift : NAN;
    r->finish_tau = known ? s->tau : NAN;
    r->finish_missing = known ? s->missing : NAN;
}

/* Whether the final draws come, or came, from a mixture in bent coordinates. */
static bool drawn_bent(const wvgd_fit *f)
{
    return f->staged && (f->bend.on || f->bent.kept);
}

/* The mixture that the final draws come from. */
static const wv_mixture *drawn_from(const wvgd_fit *f)
{
    return drawn_bent(f) && !f->bend.on ? &f->bent.bent : &f->mix;
}

static void give_bend(const wvgd_fit *f, wvgd_results *r)
{
    r->bent = f->bent.cells;
    r->bent_components = r->components && drawn_bent(f);
    r->bend_arguments = f->bent.kept ? f->bend.r : 0;
    r->bend_maps = f->bend.tried;
    r->bend_evaluations = f->bend.points;
}

void wvgd_get_results(const wvgd_fit *fit, wvgd_results *r)
{
    if (r && !fit)
        memset(r, 0, sizeof *r);
    if (!r || !fit)
        return;
    wvgd_fit *f = (wvgd_fit *)(uintptr_t)fit; /* the views below are filled on demand, in memory of the fit's own */
    fill_views(f);
    fill_losses(f);
    wv_verdict(f);
    warnings(f);
    const wv_mixture *mix = drawn_from(f);
    bool done = f->stage == WV_DONE, mixture = f->staged && f->closing.v && mix->K;
    *r = (wvgd_results){.N = f->N,
                        .D = f->D,
                        .rank = f->cells.shape.R,
                        .solver = f->staged ? WVGD_STAGED : WVGD_JOINT,
                        .stop = done ? f->stop : WVGD_RUNNING,
                        .iterations = f->count.iteration,
                        .evaluations = f->count.evaluations,
                        .widened = f->count.widened,
                        .bad_points = f->count.bad_points,
                        .zero_points = f->count.zero_points,
                        .seconds = f->count.seconds,
                        .model_seconds = f->count.model_seconds,
                        .pelbo = done ? f->outcome.bound : f->trace.last.pelbo,
                        .pelbo_beta = f->outcome.bound_beta,
                        .evidence = f->outcome.evidence,
                        .distortion = f->trace.last.distortion,
                        .ess = done ? f->outcome.ess : f->trace.last.ess,
                        .closing_draws = done ? f->closing.draws.n : 0,
                        .pareto_k = f->outcome.pareto_k,
                        .pareto_k_limit = done ? wv_verdict_khat_limit(f->closing.draws.n) : NAN,
                        .meanfield_gap = f->outcome.meanfield_gap,
                        .starts = f->explore.starts,
                        .modes = f->modes.relevant,
                        .hit_once = f->modes.hit_once,
                        .mode = f->modes.relevant ? f->modes.x : NULL,
                        .expected_unseen = wv_starts_unseen(f),
                        .components = mixture ? mix->K : 0,
                        .component_weight = mix->w,
                        .component_mu = mix->mu,
                        .component_chol = mix->root,
                        .reliable = f->messages.reliable,
                        .reasons = f->messages.reasons,
                        .reason = f->messages.reason,
                        .mean = f->posterior.mean,
                        .var = f->posterior.var,
                        .mcse = f->posterior.mcse,
                        .sd_se = f->posterior.sd_se,
                        .tail_k = f->posterior.tail_k,
                        .tail_k_limit = wv_policy.results_khat_limit,
                        .warnings = f->messages.warnings,
                        .warning = f->messages.warning};
    give_cells(f, r);
    give_bend(f, r);
    give_finish(f, r);
}

/* ---- the map to bent coordinates --------------------------------------------------------------------------------- */
bool wvgd_get_bend(const wvgd_fit *f, wvgd_bend_map *map)
{
    bool there = f && drawn_bent(f);
    if (map)
        *map = there ? (wvgd_bend_map){.D = f->D,
                                       .arguments = f->bend.r,
                                       .layers = f->bend.layers + 1,
                                       .centre = f->bend.centre,
                                       .basis = f->bend.basis,
                                       .clip = wv_policy.bend_clip,
                                       .log_scale = wv_policy.bend_log_scale}
                     : (wvgd_bend_map){0};
    return there && map;
}

bool wvgd_get_bend_line(const wvgd_fit *f, size_t i, wvgd_bend_line *line)
{
    wvgd_bend_map map;
    bool there = wvgd_get_bend(f, &map) && i < map.D;
    if (line)
        *line = (wvgd_bend_line){0};
    if (there && line && f->bend.line[i].curved) {
        const wv_bend_line *l = &f->bend.line[i];
        *line = (wvgd_bend_line){WV_BEND_KNOTS, l->low, l->high, l->value, l->second};
    }
    return there && line;
}

bool wvgd_get_bend_affine(const wvgd_fit *f, wvgd_bend_affine *affine)
{
    wvgd_bend_map map;
    bool there = wvgd_get_bend(f, &map);
    if (affine)
        *affine = (wvgd_bend_affine){0};
    if (there && affine && f->bend.affine.features) {
        const wv_bend_affine *a = &f->bend.affine;
        *affine = (wvgd_bend_affine){wv_bend_affine_parents(a), a->parent, wv_policy.bend_affine_reach, a->slice};
    }
    return there && affine;
}

bool wvgd_get_bend_row(const wvgd_fit *f, size_t layer, size_t i, wvgd_bend_row *row)
{
    wvgd_bend_map map;
    bool there = wvgd_get_bend(f, &map) && layer <= map.layers && i < (layer ? map.D - map.arguments : map.arguments);
    if (row)
        *row = (wvgd_bend_row){0};
    if (there && row) {
        const wv_bend_row *from = !layer                ? &f->bend.row[i]
                                  : layer == map.layers ? &f->bend.row[map.arguments + i]
                                                        : &f->bend.layer[map.layers - 1 - layer].row[i];
        *row = (wvgd_bend_row){from->parents,
                               from->parent,
                               {from->precision[0], from->precision[1]},
                               {from->location[0], from->location[1]}};
    }
    return there && row;
}

const double *wvgd_bend_turn(const wvgd_fit *f, size_t layer)
{
    wvgd_bend_map map;
    bool there = wvgd_get_bend(f, &map) && layer && layer < map.layers;
    return there ? f->bend.layer[map.layers - 1 - layer].turn : NULL;
}

wvgd_status wvgd_component_cov(const wvgd_fit *f, size_t j, double *cov, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_component_cov", "fit", f) || wv_missing(error, "wvgd_component_cov", "cov", cov))
        return WVGD_E_ARGUMENT;
    if (j >= f->N)
        return wv_fail(error, WVGD_E_ARGUMENT, "component %zu: there are %zu", j, f->N);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wv_gaussian_cov(&q, cov, f->arena);
    return WVGD_OK;
}

const wvgd_trace_row *wvgd_trace(const wvgd_fit *f, size_t *rows)
{
    if (rows)
        *rows = f ? f->trace.rows : 0;
    return f ? f->trace.row : NULL;
}

const double *wvgd_trace_beta(const wvgd_fit *f)
{
    return f ? f->trace.beta : NULL;
}
