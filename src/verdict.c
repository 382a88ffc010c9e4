/* verdict.c - what speaks against a result, each with a remedy; or, where nothing does, what has been
 * looked at. "No problems detected" is all that can be said: a mode that no ascent came near leaves no
 * trace in the weights (method, section 5). */
#include "verdict.h"
#include "describe.h"
#include "evidence.h"
#include "fit.h"
#include "number_text.h"
#include "policy.h"
#include "posterior.h"
#include "weights.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static void say(wvgd_fit *f, const char *format, ...)
{
    if (f->messages.reasons == WV_REASONS)
        return;
    va_list args;
    va_start(args, format);
    wv_number_text_vprint(f->messages.reason_text[f->messages.reasons], sizeof f->messages.reason_text[0], format,
                          args);
    va_end(args);
    f->messages.reason[f->messages.reasons] = f->messages.reason_text[f->messages.reasons];
    f->messages.reasons++;
}

enum { NAME_ROOM = 48 };

/* The largest |log p~| among the draws, in units of what a double resolves. */
static double rounding(const wvgd_fit *f)
{
    double largest = 0;
    for (size_t i = 0; i < f->closing.draws.n; i++)
        if (f->closing.v[i] > 0)
            largest = fmax(largest, fabs(f->closing.draws.log_p[i]));
    return largest * 0x1p-52;
}

double wv_verdict_khat_limit(size_t n)
{
    return fmin(1 - 1 / log10((double)n), wv_policy.results_khat_limit);
}

bool wv_verdict_cell_uncovered(double k, double ess, double mass, size_t n)
{
    double m = wv_weights_tail(ess);
    return m >= wv_policy.results_tail_draws && k - (1 + k) * sqrt(m) / (m + 10) > wv_verdict_khat_limit(n) &&
           mass > wv_policy.results_mass;
}

bool wv_verdict_lacks_components(const wvgd_fit *f)
{
    return f->staged && f->mix.K >= f->opt.components;
}

static const char resume_first[] = "let the fit converge first"; /* what it lacks may come by itself */

/* What to do where the fitted distribution is not close enough to the posterior. */
static const char *remedy(const wvgd_fit *f)
{
    if (wv_fit_hurried(f))
        return resume_first;
    if (f->staged)
        return wv_verdict_lacks_components(f)
                   ? "raise --components, or transform the parameters to make the posterior closer to Gaussian"
                   : "transform the parameters to make the posterior closer to Gaussian";
    if (f->dense)
        return "try --solver staged, or more --particles";
    return f->opt.family == WVGD_LOWRANK
               ? "raise --rank, or use --family full"
               : "parameters are correlated, or the posterior is not Gaussian: try --family lowrank, or full";
}

static void about_convergence(wvgd_fit *f)
{
    bool limited = f->stop == WVGD_TIME_UP || f->stop == WVGD_STOPPED || f->stop == WVGD_MAX_EVALUATIONS;
    if (limited && f->quantized)
        say(f,
            "a limit stopped the fit that made the draws before it had converged: resume it and make the cells again");
    else if (f->stop == WVGD_TIME_UP || f->stop == WVGD_STOPPED)
        say(f, "the fit was stopped before it had converged: resume it, or fit again%s",
            f->stop == WVGD_TIME_UP ? ", with a higher --max-seconds" : "");
    else if (f->stop == WVGD_MAX_EVALUATIONS)
        say(f, "the fit has not converged within %zu evaluations: raise --max-evaluations", f->size.evaluations);
    else if (!wv_fit_converged(f) && (!f->staged || f->count.iteration >= f->opt.max_iter))
        say(f, "the fit has not converged within %zu iteration%s: raise --max-iter", f->opt.max_iter,
            f->opt.max_iter == 1 ? "" : "s");
    else if (f->finish.now.result == WV_FINISH_UNSETTLED)
        return; /* about_finish says it */
    else if (!wv_fit_converged(f))
        say(f, "the fit has not converged with the largest number of draws allowed: %s", remedy(f));
}

/* The bound contradicts the evidence, which wv_evidence_reconcile has given its error. */
static bool contradicted(const wvgd_fit *f)
{
    return f->outcome.evidence.se > wv_policy.verdict_evidence_se &&
           wv_evidence_contradicted(f->outcome.evidence, f->outcome.bound, f->outcome.bound_beta,
                                    wv_policy.bound_most_errors);
}

/* A standard error of the log evidence beyond which it is not relied on: means and sds of chains do not rest on it. */
static double evidence_limit(const wvgd_fit *f)
{
    return f->finish.now.result == WV_FINISH_SETTLED ? wv_policy.finish_evidence_se : wv_policy.verdict_evidence_se;
}

static void about_weights(wvgd_fit *f)
{
    double limit = wv_verdict_khat_limit(f->closing.draws.n);
    if (wv_describe_uncorrected(f)) {
        say(f,
            "the effective number of final draws is only %.0f, so means and sds come from the fitted components "
            "without correction, and the log evidence and its standard error say little: %s",
            f->outcome.ess, remedy(f));
        return;
    }
    if (contradicted(f))
        say(f,
            "the bound %.6g lies above the log evidence, so the draws have missed a part of the posterior "
            "(hence the standard error %.2g): %s",
            f->outcome.bound.value, f->outcome.evidence.se, remedy(f));
    else if (!(f->outcome.evidence.se < evidence_limit(f)))
        say(f, "the standard error of the log evidence is %.3g, not below %g%s, because %s: %s", f->outcome.evidence.se,
            evidence_limit(f), f->finish.now.result == WV_FINISH_SETTLED ? " (the limit where chains agree)" : "",
            wv_finisher_has_states(f) ? "the mixture that the chains are compared with is not close to the posterior"
                                      : "the weights are uneven",
            remedy(f));
    if (f->outcome.pareto_k > limit)
        say(f, "Pareto k-hat %.3f is above %.3f, so the draws do not cover the tails: %s", f->outcome.pareto_k, limit,
            remedy(f));
}

/* Chains have found mass that the draws do not represent. */
static void about_certificate(wvgd_fit *f)
{
    const wv_certified *c = &f->certificate.now;
    if (c->result == WV_CERTIFICATE_FAILED && !wv_finisher_has_states(f))
        say(f,
            "%zu of %zu walks found a density of more than %.0f times what the draws say, so a part of the posterior "
            "is missing%s: %s",
            c->outside, c->walks, exp(c->limit),
            c->failures > 1 ? ", and components where earlier walks found some have not helped" : "", remedy(f));
}

/* Chains that would complete the fit are too expensive, or do not agree with each other. */
static void about_finish(wvgd_fit *f)
{
    const wv_finished *s = &f->finish.now;
    const double largest_shown = 1e9; /* where there is no variance */
    if (s->result == WV_FINISH_TOO_EXPENSIVE)
        say(f, "Hamiltonian chains could complete the fit with about %zu evaluations in total: raise --max-evaluations",
            s->needed);
    const char *help = s->trajectory < WV_FINISH_TRAJECTORIES ? "raise --max-evaluations"
                                                              : "transform the parameters to be closer to Gaussian";
    if (s->result != WV_FINISH_UNSETTLED)
        return;
    if (s->mean_se <= wv_policy.finish_mean_se && s->sd_se <= wv_policy.finish_sd_se)
        say(f,
            "the fit has not converged: after %zu trajectories, with an autocorrelation time of %.2g, its chains may "
            "still depend on where they began: %s",
            s->trajectory, s->tau, help);
    else
        say(f,
            "the fit has not converged: after %zu trajectories its chains have errors of %.2g sds in means and %.2g in "
            "log sds (limits %g and %g), and an autocorrelation time of %.2g trajectories: %s",
            s->trajectory, fmin(s->mean_se, largest_shown), fmin(s->sd_se, largest_shown), wv_policy.finish_mean_se,
            wv_policy.finish_sd_se, s->tau, help);
}

/* Variance of a weight if its ELBO has the error se: weights are the softmax of the ELBOs, and `all` is the sum of
 * their (weight se)^2. */
static double weight_variance(double weight, double se, double all)
{
    double others = weight > 0 && isfinite(se) ? all + (1 - 2 * weight) * se * se : all;
    return weight * weight * fmax(others, 0);
}

double wv_verdict_weights_apart(size_t N, const double *weight, const double *elbo_se, const double *beta,
                                const double *beta_se)
{
    double apart = 0, all = 0;
    for (size_t j = 0; j < N; j++)
        all += weight[j] > 0 && isfinite(elbo_se[j]) ? weight[j] * weight[j] * elbo_se[j] * elbo_se[j] : 0;
    for (size_t j = 0; j < N; j++) {
        double se = sqrt(beta_se[j] * beta_se[j] + weight_variance(weight[j], elbo_se[j], all));
        apart += fmax(fabs(weight[j] - beta[j]) - wv_policy.verdict_errors * se, 0);
    }
    return apart;
}

wv_verdict_gains wv_verdict_look_at_gains(size_t N, const double *gain, const double *gain_se, const double *beta)
{
    wv_verdict_gains g = {N, 0};
    double most = wv_policy.verdict_gain;
    for (size_t j = 0; j < N; j++) {
        double sure = gain[j] - wv_policy.verdict_errors * gain_se[j];
        if (!(beta[j] > wv_policy.results_mass))
            continue;
        if (!isfinite(sure))
            g.unknown += beta[j];
        else if (sure > most) {
            most = sure;
            g.worst = j;
        }
    }
    return g;
}

/* What to do where the components are not good enough. */
static const char *ensemble_remedy(const wvgd_fit *f)
{
    return wv_fit_hurried(f)            ? resume_first
           : f->opt.family != WVGD_FULL ? "try --family full, or take draws of the posterior instead of the ensemble"
           : f->growth.more_cells       ? "take draws of the posterior instead of the ensemble"
                                  : "try more --particles, or take draws of the posterior instead of the ensemble";
}

/* The same where that cannot be told. */
static const char *unknown_remedy(const wvgd_fit *f)
{
    return wv_fit_hurried(f)          ? resume_first
           : f->N < f->modes.relevant ? "use as many --particles as there are modes at least"
           : f->N > 1                 ? "use fewer --particles, or take draws of the posterior instead of the ensemble"
                                      : "take draws of the posterior instead of the ensemble";
}

/* What the ensemble is judged by. */
typedef struct {
    double apart; /* weights and masses */
    wv_verdict_gains gains;
} ensemble;

static ensemble look_at_ensemble(const wvgd_fit *f)
{
    const wv_partition *p = &f->cells;
    /* the joint solver does not look at gains */
    return (ensemble){wv_verdict_weights_apart(f->N, p->weight, p->elbo_se, p->beta, p->beta_se),
                      wv_verdict_look_at_gains(f->staged ? f->N : 0, p->gain, p->gain_se, p->beta)};
}

static bool components_good(const wvgd_fit *f, const wv_verdict_gains *g)
{
    return g->worst >= f->N && g->unknown <= wv_policy.verdict_ensemble;
}

bool wv_verdict_components_good(const wvgd_fit *f)
{
    wv_verdict_gains g = look_at_ensemble(f).gains;
    return components_good(f, &g);
}

bool wv_verdict_ensemble_good(const wvgd_fit *f)
{
    ensemble e = look_at_ensemble(f);
    return e.apart <= wv_policy.verdict_ensemble && components_good(f, &e.gains);
}

static void about_ensemble(wvgd_fit *f)
{
    ensemble e = look_at_ensemble(f);
    double apart = e.apart;
    wv_verdict_gains g = e.gains;
    if (apart > wv_policy.verdict_ensemble)
        say(f,
            "weights of the ensemble and masses of its cells differ by %.2g in total, beyond their errors, because "
            "some components are worse than others: %s",
            apart, ensemble_remedy(f));
    if (f->staged && g.worst < f->N)
        say(f, "the component of cell %zu could gain %.2g +- %.1g nats more within its family: %s", g.worst + 1,
            f->cells.gain[g.worst], f->cells.gain_se[g.worst], ensemble_remedy(f));
    if (g.unknown > wv_policy.verdict_ensemble)
        say(f, "cells with %.0f %% of the mass have too few effective draws to tell how good their components are: %s",
            100 * g.unknown, unknown_remedy(f));
}

/* What gives the starts their scale from which unseen modes are estimated. */
static const char *scale_of_starts(wvgd_fit *f)
{
    return f->model.start ? "the prior" : wv_starts_travel(f) ? "the distance of the mode from 0" : "--init-scale";
}

/* The least number of starts that a mode of weight has been found from. */
static size_t least_found(const wvgd_fit *f)
{
    size_t least = SIZE_MAX;
    for (size_t m = 0; m < f->modes.n; m++)
        if (f->modes.mode[m].relevant && wv_explore_found(f, m) < least)
            least = wv_explore_found(f, m);
    return least;
}

/* That number or a larger one, in round numbers. */
static size_t rounded(double n)
{
    const double ten = 10;
    double round = pow(ten, floor(log10(n)));
    return (size_t)(ceil(n / round) * round);
}

/* Starts after which it should have been found twice as often as needed. */
static size_t enough_starts(const wvgd_fit *f)
{
    double least = fmax((double)least_found(f), 1);
    return rounded((double)f->explore.starts * fmax(2 * (double)wv_explore_needed(f) / least, 2));
}

/* Those that most modes should have been found after: every other of the further ones tells of that. */
static size_t starts_for_unseen(const wvgd_fit *f)
{
    double W = (double)f->modes.distinct, needed = W + 2 + (W + 1) / wv_policy.explore_unseen;
    return rounded((double)f->explore.starts + 2 * fmax(needed - (double)f->explore.wide, 1));
}

/* Too few starts for what they have found. */
static void about_unseen(wvgd_fit *f)
{
    const char *plural = f->modes.relevant > 1 ? "s" : "";
    double unseen = wv_starts_unseen(f);
    if (!(unseen > wv_policy.verdict_unseen * (double)f->modes.distinct)) /* NAN: what little is known is said */
        return;
    if (wv_fit_hurried(f))
        say(f, "only %zu starts at the scale of %s led to modes, %zu mode%s, so others may have been missed: %s",
            f->explore.wide, scale_of_starts(f), f->modes.relevant, plural, resume_first);
    else
        say(f,
            "only %zu starts at the scale of %s led to modes, %zu mode%s, so others may have been missed (%.2g are "
            "expected if modes attract starts about equally): set --starts to %zu",
            f->explore.wide, scale_of_starts(f), f->modes.relevant, plural, unseen, starts_for_unseen(f));
}

static void about_starts(wvgd_fit *f)
{
    size_t unsure = f->explore.starts ? wv_explore_unsure(f) : 0, hits = f->modes.wide_hits,
           wide = f->explore.wide > hits ? f->explore.wide : hits; /* a mode may be found on the way to a top */
    bool doubtful = f->explore.starts && wv_explore_doubtful(f);
    if (wv_fit_hurried(f) && (unsure || doubtful)) /* --starts cannot change where a fit is resumed */
        say(f,
            "%zu of %zu starts at the scale of %s led to modes with noticeable mass, so modes may have been missed: %s",
            hits, wide, scale_of_starts(f), resume_first);
    else if (unsure) {
        char which[NAME_ROOM] = "this mode was";
        if (f->modes.relevant > 1)
            snprintf(which, sizeof which, "%zu of these %zu modes %s", unsure, f->modes.relevant,
                     unsure > 1 ? "were" : "was");
        say(f,
            "%zu of %zu starts at the scale of %s led to modes with noticeable mass; %s found by fewer than %zu "
            "starts, so others may have been missed: set --starts to %zu, or --init-scale to the scale of the "
            "parameters",
            hits, wide, scale_of_starts(f), which, wv_explore_needed(f), enough_starts(f));
    } else if (doubtful)
        say(f,
            "%zu of %zu starts at the scale of %s led to modes with noticeable mass, the others to many lower tops, so "
            "other modes may have been missed: set --starts to %zu",
            hits, wide, scale_of_starts(f), enough_starts(f));
    else if (f->explore.starts)
        about_unseen(f);
}

/* Chains that complete the fit walk from the tops of some modes to those of others, in the user's coordinates. */
static bool walked_together(const wvgd_fit *f)
{
    return wv_finisher_has_states(f) && !f->bent.kept && f->finish.now.groups < f->modes.relevant;
}

static void about_modes(wvgd_fit *f)
{
    if (f->outcome.uncovered > wv_policy.verdict_uncovered)
        say(f, "the draws do not cover a mode that the search had found: try another --seed%s",
            wv_verdict_lacks_components(f) ? ", or raise --components" : "");
    if (walked_together(f))
        return; /* they are no modes that starts could count */
    about_starts(f);
    if (f->explore.starts && f->modes.relevant == f->modes.room)
        say(f,
            "there are %zu modes with noticeable mass, the most that the search keeps, so others may have been missed: "
            "remove symmetries from the model, such as interchangeable labels or periods",
            f->modes.relevant);
    if (!f->explore.starts)
        say(f, "there was no search for modes, so a mode far from all particles would go unnoticed: %s",
            f->model.has_gradient      ? "use --init explore"
            : f->D <= WVGD_DIFFERENCES ? "use --solver staged and --estimator natural, which take differences"
                                       : "it needs gradients, which the model does not have");
}

static const char *parameter_name(const wvgd_fit *f, size_t i, char name[NAME_ROOM])
{
    if (f->model.names)
        snprintf(name, NAME_ROOM, "%s", f->model.names[i]);
    else
        snprintf(name, NAME_ROOM, "parameter %zu", i + 1);
    return name;
}

/* The first parameter whose sd is so small beside its mean that a double hardly resolves it; D: none. */
static size_t unresolved(const wvgd_fit *f)
{
    size_t i = 0;
    while (i < f->D &&
           !(sqrt(f->posterior.var[i]) < wv_policy.verdict_roundings * 0x1p-52 * fabs(f->posterior.mean[i])))
        i++;
    return i;
}

bool wv_verdict_has_bad_points(const wvgd_fit *f)
{
    return wv_policy.verdict_bad_points * (double)f->count.bad_points > (double)f->count.evaluations;
}

/* The highest log density among the draws. */
static double highest(const wvgd_fit *f)
{
    double most = -INFINITY;
    for (size_t i = 0; i < f->closing.draws.n; i++)
        if (f->closing.v[i] > 0)
            most = fmax(most, f->closing.draws.log_p[i]);
    return most;
}

bool wv_verdict_wrong_model(const wvgd_fit *f)
{
    return f->stage == WV_DONE && (f->outcome.noise > wv_policy.verdict_noise || f->outcome.wrong_slopes ||
                                   highest(f) > wv_policy.verdict_grows);
}

/* What else there is to say follows from this. */
static void about_model(wvgd_fit *f)
{
    if (highest(f) > wv_policy.verdict_grows)
        say(f,
            "the log densities grow to %.2g, so large that a double resolves them only to %.2g: the posterior is "
            "improper (is the sign of the log density right?), or a constant should be subtracted in the model",
            highest(f), rounding(f));
    else if (f->outcome.noise > wv_policy.verdict_noise)
        say(f,
            "the density is noisy: log densities at the same point differ (sd %.2g), so evidence and sds are biased; "
            "fix the random numbers of the model, or average over more of them; if it has none, it reads or writes "
            "where it should not (the number of parameters, several threads)",
            f->outcome.noise);
    else
        say(f,
            "the gradient is wrong: near %zu checked points it does not match the changes of the log density; means "
            "and sds depend on it; --check-gradient shows where",
            f->outcome.wrong_slopes);
}

static void about_numbers(wvgd_fit *f)
{
    size_t i = unresolved(f);
    char name[NAME_ROOM];
    if (f->tally.limits)
        say(f,
            "%zu steps would have taken a component beyond 1e120 or below 1e-120: is the density proper, and bounded?",
            f->tally.limits);
    if (wv_verdict_has_bad_points(f))
        say(f, "%zu of %zu points had a NaN or infinite density or gradient: check the model there",
            f->count.bad_points, f->count.evaluations);
    if (i < f->D)
        say(f, "%s varies by %.2g around %.6g, hardly more than a double resolves: shift it in the model",
            parameter_name(f, i, name), sqrt(f->posterior.var[i]), f->posterior.mean[i]);
    if (f->outcome.roughness > wv_policy.differences_rough)
        say(f,
            "the density is not smooth: log densities at neighbouring points scatter (sd %.2g), so gradients from "
            "differences are inaccurate, and evidence and sds are biased; make the model smoother or more accurate",
            f->outcome.roughness);
    if (rounding(f) > wv_policy.verdict_resolution)
        say(f,
            "the log densities are so large that a double resolves them only to %.2g: subtract a constant in the model",
            rounding(f));
}

/* Parameters whose sds rest on a tail that is too heavy. They are marked, and what is left of the result is none the
 * worse: no draws and no proposal could tell an sd that does not exist. */
static void about_tails(wvgd_fit *f)
{
    size_t heavy = 0, worst = 0;
    for (size_t i = 0; i < f->D; i++) {
        if (!(f->posterior.tail_k[i] > wv_policy.results_khat_limit))
            continue;
        worst = !heavy || f->posterior.tail_k[i] > f->posterior.tail_k[worst] ? i : worst;
        heavy++;
    }
    char name[NAME_ROOM], others[NAME_ROOM] = "";
    if (heavy > 1)
        snprintf(others, sizeof others, " (and of %zu other%s)", heavy - 1, heavy > 2 ? "s" : "");
    if (heavy)
        say(f,
            "%sthe tails of %s%s are so heavy (tail index %.2f, limit %g) that its sd, and perhaps its mean, is "
            "unreliable or does not exist: use its median and quantiles",
            f->messages.reliable ? "except for what is marked: " : "", parameter_name(f, worst, name), others,
            f->posterior.tail_k[worst], wv_policy.results_khat_limit);
}

/* How far the draws of parameter i reach, in units of the scale of the starts. */
static double reach(const wvgd_fit *f, size_t i)
{
    return fmax(fabs(f->posterior.mean[i]), sqrt(f->posterior.var[i])) / f->opt.init_scale;
}

bool wv_verdict_improper(const wvgd_fit *f)
{
    bool far = false;
    for (size_t i = 0; i < f->D; i++)
        far = far || reach(f, i) > wv_policy.verdict_far;
    return f->stage == WV_DONE && !f->messages.reliable && far;
}

/* A fit follows a density that does not fall off until rounding, or a limit, stops it. Then all other reasons are
 * consequences, and their remedies are in vain. */
static void about_impropriety(wvgd_fit *f)
{
    size_t far = 0;
    char name[NAME_ROOM];
    for (size_t i = 1; i < f->D; i++)
        far = reach(f, i) > reach(f, far) ? i : far;
    f->messages.reasons = 0;
    say(f,
        "%s is %.2g +- %.2g, but starts have scale %g: the posterior is probably improper (its density does not fall "
        "off); give every parameter a proper prior, leave out redundant ones; if it is proper, set --init-scale",
        parameter_name(f, far, name), f->posterior.mean[far], sqrt(f->posterior.var[far]), f->opt.init_scale);
}

static void in_favour_of_search(wvgd_fit *f)
{
    double unseen = wv_starts_unseen(f);
    const char *plural = f->modes.relevant > 1 ? "s" : "";
    if (walked_together(f))
        say(f, "%zu starts led to %zu tops, but chains walk from one to the other, and take them for %zu mode%s",
            f->explore.starts, f->modes.relevant, f->finish.now.groups, f->finish.now.groups > 1 ? "s" : "");
    else if (isnan(unseen))
        say(f,
            "%zu starts led to %zu mode%s; only %zu of those at the scale of %s reached a mode, too few to estimate "
            "how many modes have been missed",
            f->explore.starts, f->modes.relevant, plural, f->explore.wide, scale_of_starts(f));
    else
        say(f,
            "%zu starts led to %zu mode%s; expected number of modes not found: %.3g, if modes attract starts about "
            "equally (from the %zu starts at the scale of %s)",
            f->explore.starts, f->modes.relevant, plural, unseen, f->explore.wide, scale_of_starts(f));
}

/* Of a certificate that has passed. */
static void in_favour_of_draws(wvgd_fit *f)
{
    const wv_certified *c = &f->certificate.now;
    if (c->result != WV_CERTIFICATE_PASSED)
        return;
    if (c->outside)
        say(f, "%zu of %zu walks from the final draws left the approximation, too seldom to matter", c->outside,
            c->walks);
    else
        say(f, "%zu walks from the final draws found no mass outside the approximation%s", c->walks,
            c->failures ? ", which has grown where earlier ones found some" : "");
}

static void in_favour(wvgd_fit *f)
{
    const wv_finished *s = &f->finish.now;
    if (s->result == WV_FINISH_SETTLED)
        say(f,
            "%s%d Hamiltonian chains completed the fit: between-chain errors are at most %.2g sds in means and %.2g in "
            "log sds, split R-hat %.3f",
            f->opt.finish == WVGD_FINISH_ALWAYS ? "" : "importance sampling was not enough, so ", WV_CHAINS, s->mean_se,
            s->sd_se, s->rhat);
    say(f, "converged, and the log evidence has a standard error of %.2g (below %g)", f->outcome.evidence.se,
        evidence_limit(f));
    in_favour_of_search(f);
    if (f->outcome.roughness > 0)
        say(f,
            "gradients are finite differences of log densities, which are smooth to %.2g nats; steps are chosen "
            "accordingly",
            f->outcome.roughness);
    in_favour_of_draws(f);
    say(f, "this search cannot find modes that are very narrow or that no gradient leads to");
    say(f, "all this concerns the computation, not whether the model fits the data");
}

void wv_verdict(wvgd_fit *f)
{
    f->messages.reasons = 0;
    f->messages.reliable = false;
    if (f->stage != WV_DONE)
        return;
    if (wv_verdict_wrong_model(f)) {
        about_model(f);
        return;
    }
    about_numbers(f); /* causes before their consequences */
    about_convergence(f);
    about_weights(f);
    about_certificate(f);
    about_finish(f);
    about_ensemble(f);
    about_modes(f);
    f->messages.reliable = f->messages.reasons == 0;
    if (wv_verdict_improper(f)) {
        about_impropriety(f);
        return;
    }
    if (f->messages.reliable)
        in_favour(f);
    about_tails(f);
}
