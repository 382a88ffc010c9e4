/* component.c - steps of the components of a fit: hands on what the estimators need of it. */
#include "fit.h"
#include "update/update.h"

static wv_step step_of(wvgd_fit *f)
{
    return (wv_step){.D = f->D,
                     .dense = f->dense,
                     .most_coefficients = f->size.p_max,
                     .arena = f->arena,
                     .limits = &f->tally.limits,
                     .fit = f};
}

wv_update_result wv_update_component(wvgd_fit *f, const wv_update *c)
{
    wv_step s = step_of(f);
    return wv_update_step(&s, c);
}

void wv_update_target_1d(wvgd_fit *f, const wv_update *c, double gradient[2], double natural[2])
{
    wv_step s = step_of(f);
    wv_update_step_target_1d(&s, c, gradient, natural);
}
