/* verdict.c - what speaks against a result, each with a remedy; or, where nothing does, what has been
 * looked at. "No evidence against" is all that can be said: a mode that no ascent came near leaves no
 * trace in the weights (method, section 5). */
#include "verdict.h"
#include "posterior.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static void say(wvgd_fit *f, const char *format, ...)
{
    if (f->reasons == WV_REASONS)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(f->reason_text[f->reasons], sizeof f->reason_text[0], format, args);
    va_end(args);
    f->reason[f->reasons] = f->reason_text[f->reasons];
    f->reasons++;
}

double wv_verdict_unseen(const wvgd_fit *f)
{
    double W = (double)f->s.relevant, n = (double)f->s.starts;
    return n > W + 2 && W > 0 ? W * (n - 1) / (n - W - 2) - W : NAN;
}

/* The largest |log p~| among the draws, in units of what a double resolves. */
static double rounding(const wvgd_fit *f)
{
    double largest = 0;
    for (size_t i = 0; i < f->close.n; i++)
        if (f->close_v[i] > 0)
            largest = fmax(largest, fabs(f->close.log_p[i]));
    return largest * 0x1p-52;
}

static void against(wvgd_fit *f)
{
    const char *more = f->staged
                           ? "give it more components, or transform the parameters so that the posterior is rounder"
                       : f->dense ? "try the staged solver, or more particles"
                       : f->opt.family == WVGD_LOWRANK
                           ? "raise rank, or use family full"
                           : "parameters are correlated, or the posterior is not Gaussian: try family lowrank, or full";
    double limit = fmin(1 - 1 / log10((double)f->close.n), 0.7);
    if (f->s.stop == WVGD_TIME_UP || f->s.stop == WVGD_STOPPED)
        say(f, "stopped before it had converged: resume it, with more max-seconds if they ended it");
    else if (f->s.stop != WVGD_CONVERGED && (!f->staged || f->s.iteration >= f->opt.max_iter))
        say(f, "it has not converged within %zu iterations: raise max-iter", f->opt.max_iter);
    else if (f->s.stop != WVGD_CONVERGED)
        say(f, "it has not converged with the draws that it may make: %s", more);
    if (wv_posterior_uncorrected(f))
        say(f,
            "the weights of the closing draws rest on %.0f of them: means and sds are those of the fitted components, "
            "which they cannot correct",
            f->s.final_ess);
    if (!(f->s.evidence.se < 0.05))
        say(f, "the standard error %.3g of the log evidence is not below 0.05, the weights are uneven: %s",
            f->s.evidence.se, more);
    if (f->s.pareto_k > limit)
        say(f, "Pareto k-hat %.2f is above %.2f, tails are not covered: %s", f->s.pareto_k, limit, more);
    if (f->s.unseen > 4)
        say(f, "a mode that an ascent had found is not covered by the draws: try another seed, or more components");
    if (f->s.hit_once)
        say(f,
            "%zu of %zu modes %s found by one ascent only, so others may have been missed: raise starts, or set "
            "init-scale to the size of the region",
            f->s.hit_once, f->s.relevant, f->s.hit_once > 1 ? "were" : "was");
    if (!f->s.starts)
        say(f, "modes were not searched for, and one that no particle came near would leave no trace: use init "
               "explore, which needs gradients");
    if (f->s.limits)
        say(f,
            "%zu steps would have taken a component beyond 1e120 or below 1e-120: is the density proper, and bounded?",
            f->s.limits);
    if (20 * f->s.bad_points > f->s.evaluations)
        say(f, "%zu of %zu points had a NaN or infinite density or gradient: check the model there", f->s.bad_points,
            f->s.evaluations);
    for (size_t i = 0; i < f->D; i++)
        if (sqrt(f->var[i]) < 64 * 0x1p-52 * fabs(f->mean[i])) {
            say(f,
                "parameter %zu varies by %.2g around %.6g, which is hardly more than a double resolves: shift it in "
                "the model",
                i + 1, sqrt(f->var[i]), f->mean[i]);
            break;
        }
    if (rounding(f) > 0.01)
        say(f, "log densities are so large that a double resolves only %.2g of them: subtract a constant in the model",
            rounding(f));
}

static void in_favour(wvgd_fit *f)
{
    say(f, "converged, and the log evidence has a standard error of %.2g (below 0.05)", f->s.evidence.se);
    say(f,
        "from %zu starts ascents led to %zu mode%s, none of them only once; %.2g more expected unseen, if modes draw "
        "them about equally (narrow ones beside wide ones draw fewer)",
        f->s.starts, f->s.relevant, f->s.relevant > 1 ? "s" : "", wv_verdict_unseen(f));
}

void wv_verdict(wvgd_fit *f)
{
    f->reasons = 0;
    f->reliable = false;
    if (f->s.stage != WV_DONE)
        return;
    against(f);
    f->reliable = f->reasons == 0;
    if (f->reliable)
        in_favour(f);
}
