/* quantize.c - other cells from the same closing draws. */
#include "closing.h"
#include "error.h"
#include "describe.h"
#include "fit.h"
#include "posterior.h"
#include "staged/staged.h"
#include "staged/assess.h"
#include "staged/modes.h"
#include "wvgd.h"

wvgd_fit *wvgd_quantize(const wvgd_fit *fit, const wvgd_options *options, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_quantize", "fit", fit) || wv_missing(error, "wvgd_quantize", "options", options))
        return NULL;
    if (fit->stage != WV_DONE || !fit->staged) {
        wv_fail(error, WVGD_E_ARGUMENT, "new cells need a finished fit of the staged solver: this one is %s",
                fit->staged ? "not finished" : "by the joint solver");
        return NULL;
    }
    wvgd_options asked = *options;
    asked.most_particles = 0;
    if (asked.max_seconds > 0) /* limits are those of the cells */
        asked.max_seconds += fit->count.seconds;
    if (asked.max_evaluations)
        asked.max_evaluations += fit->count.evaluations;
    wvgd_fit *f = wvgd_new(&fit->model, &asked, NULL, error);
    if (!f)
        return NULL;
    size_t n = fit->closing.draws.n, D = f->D;
    if (!f->staged || f->mix.room != fit->mix.room || f->size.close_max != fit->size.close_max) {
        wv_fail(error, WVGD_E_ARGUMENT,
                "new cells must keep the options of the fit, except particles, cost, power and family");
        wvgd_free(f);
        return NULL;
    }
    if (f->N > n) {
        wv_fail(error, WVGD_E_ARGUMENT,
                "%zu particles, but only %zu final draws: expected no more particles than draws", f->N, n);
        wvgd_free(f);
        return NULL;
    }
    f->stop = fit->stop;
    f->quantized = true;
    f->count = fit->count;
    wv_tally_copy(&f->tally, &fit->tally);
    wv_trace_copy_last(&f->trace, &fit->trace);
    wv_outcome_copy(&f->outcome, &fit->outcome);
    wv_growth_copy(&f->growth, &fit->growth);
    wv_certificate_copy(&f->certificate, &fit->certificate);
    wv_finisher_copy(&f->finish, &fit->finish);
    wv_explore_copy_counts(&f->explore, &fit->explore);
    wv_mixture_copy(&f->mix, &fit->mix);
    wv_modes_copy(&f->modes, &fit->modes);
    wv_closing_copy(&f->closing, &fit->closing);
    wv_posterior_copy(&f->posterior, &fit->posterior, D);
    double begin = wv_limit_clock();
    wv_fit_set_limit(f, begin);
    wv_describe_weights(f);
    size_t mark = wv_arena_mark(f->arena);
    double *log_mix = wv_arena_take(f->arena, n);
    wv_mixture_log_density(&f->mix, n, f->closing.draws.x, log_mix, NULL, &f->workers);
    wv_draws_set_mixture(&f->closing.draws, log_mix);
    wv_arena_release(f->arena, mark);
    wv_staged_cells(f);
    f->count.seconds += wv_limit_clock() - begin;
    return f;
}
