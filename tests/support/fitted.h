/* fitted.h - a fit that has been run to its end, with its results. Include after cmocka.h. */
#ifndef FITTED_H
#define FITTED_H

#include "wvgd.h"

static inline wvgd_fit *fitted(const wvgd_model *model, const wvgd_options *o, wvgd_results *r)
{
    wvgd_error error;
    wvgd_fit *fit = wvgd_new(model, o, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    wvgd_get_results(fit, r);
    return fit;
}

static inline wvgd_options solver_options(wvgd_solver solver, size_t N, uint64_t seed)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = solver;
    o.particles = N;
    o.seed = seed;
    return o;
}

/* Options of a staged fit. */
static inline wvgd_options staged_options(size_t N, uint64_t seed)
{
    wvgd_options o;
    wvgd_options_init(&o);
    assert_int_equal(o.solver, WVGD_STAGED);
    o.particles = N;
    o.seed = seed;
    return o;
}

#endif
