/* full_prefit.c - a single full Gaussian fitted before diagonal components (method, section 4, families). Its
 * covariance preconditions the steps of their means, which diagonal scales alone cannot do on correlated posteriors; it
 * predicts what a diagonal family must lose; and it joins the closing proposal. */
#include "joint/full_prefit.h"
#include "gaussian.h"
#include "joint/schedule.h"
#include "trace.h"
#include "update/update.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

wv_gaussian wv_full_prefit_gaussian(const wvgd_fit *f)
{
    return (wv_gaussian){wv_family_get(WVGD_FULL), f->D, 0, f->pilot_mu, f->pilot_root, 0};
}

wvgd_status wv_full_prefit_ask(wvgd_fit *f, wvgd_error *error)
{
    (void)error;
    f->proposal[0] = (wv_proposal){wv_full_prefit_gaussian(f), 0};
    f->proposals = 1;
    f->b.n = f->pilot_draws;
    wv_fit_draw(f, f->s.batch, 0, WV_RNG_PILOT, 0, f->b.n, true, 0);
    return WVGD_OK;
}

/* Components, spreads and metric begin where the pilot ended. */
void wv_full_prefit_leave(wvgd_fit *f)
{
    size_t D = f->D;
    /* nats that a diagonal Gaussian must lose: sum log Lambda_ii / 2 - log det Lambda / 2, Lambda
     * the pilot's precision */
    double *inverse = f->square[0], gap = wv_family_get(WVGD_FULL)->log_det(D, 0, f->pilot_root);
    memset(inverse, 0, D * D * sizeof *inverse);
    for (size_t i = 0; i < D; i++)
        inverse[i * D + i] = 1;
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, f->pilot_root,
                (int)D, inverse, (int)D);
    for (size_t i = 0; i < D; i++) {
        double precision = cblas_ddot((int)D, inverse + i, (int)D, inverse + i, (int)D);
        gap += log(precision) / 2;
        f->vector[0][i] = 1 / sqrt(precision);
    }
    f->s.meanfield_gap = gap;
    for (size_t j = 0; j < f->N; j++) {
        if (f->N == 1)
            memcpy(f->now.mu, f->pilot_mu, D * sizeof(double));
        f->family->set_sd(D, f->R, f->now.root + j * f->family->size(D, f->R), f->vector[0]);
        f->cell_family->set_sd(D, 0, f->now.spread + j * f->cell_family->size(D, 0), f->vector[0]);
    }
    if (f->N == 1)
        memcpy(f->now.z, f->pilot_mu, D * sizeof(double));
    if (!f->opt.metric && f->metric_family == wv_family_get(WVGD_FULL))
        memcpy(f->now.metric, f->pilot_root, D * D * sizeof(double));
    f->s.stage = WV_SEARCH;
    f->s.averaged = 0;
    f->s.rho = 0.5;
    f->s.best = -INFINITY;
    wv_schedule_begin_phase(f);
}

wvgd_status wv_full_prefit_tell(wvgd_fit *f, wvgd_error *error)
{
    wv_gaussian q = wv_full_prefit_gaussian(f);
    size_t n = f->b.n, kept = 0, D = f->D;
    double mean = 0, squares = 0;
    wv_gaussian_log_density(&q, n, f->b.x, f->b.log_q, f->y, f->work);
    for (size_t i = 0; i < n; i++)
        if (f->b.log_p[i] > -INFINITY) {
            memcpy(f->gx + kept * D, f->b.x + i * D, D * sizeof(double));
            memcpy(f->gg + kept * D, f->b.grad + i * D, D * sizeof(double));
            f->glp[kept] = f->b.log_p[i];
            f->gr[kept++] = f->b.log_p[i] - f->b.log_q[i];
        }
    if (!kept)
        return wv_fail(
            error, WVGD_E_NO_DRAWS,
            "none of the %zu points of iteration %zu has a finite log density: check the model, or start elsewhere", n,
            f->s.iteration + 1);
    for (size_t i = 0; i < kept; i++)
        mean += f->gr[i] / (double)kept;
    for (size_t i = 0; i < kept; i++) {
        squares += (f->gr[i] - mean) * (f->gr[i] - mean);
        f->gu[i] = 1 / (double)kept;
    }
    f->s.pelbo = mean;
    f->s.pelbo_se = sqrt(squares) / (double)kept;
    bool averaging = f->s.averaged > 0;
    wv_update c = {.estimator = WVGD_NATURAL,
                   .family = q.family,
                   .mu = f->pilot_mu,
                   .root = f->pilot_root,
                   .n = kept,
                   .x = f->gx,
                   .log_p = f->glp,
                   .grad = f->gg,
                   .u = f->gu,
                   .ess = (double)kept,
                   .rho = averaging ? 1 / (1 / f->s.rho + (double)f->s.averaged) : f->s.rho};
    if (2 * kept < n)
        cblas_dscal((int)(D * D), 0.5, f->pilot_root, 1); /* half of it outside the support: draw nearer */
    bool back = wv_schedule_fell(f);
    wv_update_result r = back ? (wv_update_result){false, 0} : wv_update_component(f, &c);
    f->s.step = r.ok ? r.kl : INFINITY;
    f->s.iteration++;
    for (size_t j = 0; j < f->N; j++)
        f->beta[j] = NAN;
    wvgd_status status = wv_trace_append(f, error);
    if (status != WVGD_OK)
        return status;
    if (averaging)
        f->s.averaged++;
    else if (back)
        wv_schedule_begin_phase(f);
    else if (wv_schedule_level(f, 6)) {
        f->s.averaged = 1;
        wv_schedule_begin_phase(f);
    }
    if (wv_schedule_still(f) || f->s.averaged > 20 || 2 * f->s.iteration >= f->opt.max_iter)
        wv_full_prefit_leave(f);
    if (f->s.iteration >= f->opt.max_iter)
        wv_schedule_end(f, WVGD_MAX_ITER);
    return WVGD_OK;
}
