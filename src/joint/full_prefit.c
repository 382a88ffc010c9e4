/* full_prefit.c - a single full Gaussian fitted before diagonal components (method, section 4, families). Its
 * covariance preconditions the steps of their means, which diagonal scales alone cannot do on correlated posteriors; it
 * predicts what a diagonal family must lose; and it joins the closing proposal. */
#include "joint/full_prefit.h"
#include "fit.h"
#include "posterior.h"
#include "memory.h"
#include "gaussian.h"
#include "joint/schedule.h"
#include "trace.h"
#include "update/update.h"
#include <cblas.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

bool wv_full_prefit_new(wv_full_prefit *p, size_t D, bool wanted)
{
    size_t both = wanted ? D + D * D : 0;
    *p = (wv_full_prefit){.wanted = wanted, .D = D, .draws = 4 * D > 64 ? 4 * D : 64};
    const wv_slot slots[] = {{&p->mu, both}, {&p->best, both}};
    p->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    p->root = p->mu ? p->mu + D : NULL;
    return p->memory != NULL;
}

void wv_full_prefit_free(wv_full_prefit *p)
{
    free(p->memory);
}

void wv_full_prefit_archive(wv_full_prefit *p, wv_archive *a)
{
    size_t both = p->wanted ? p->D + p->D * p->D : 0;
    wv_archive_array(a, p->mu, both);
    wv_archive_array(a, p->best, both);
}

wv_gaussian wv_full_prefit_gaussian(const wvgd_fit *f)
{
    return (wv_gaussian){wv_family_get(WVGD_FULL), f->D, 0, f->prefit.mu, f->prefit.root, 0};
}

wvgd_status wv_full_prefit_ask(wvgd_fit *f, wvgd_error *error)
{
    (void)error;
    f->proposals.p[0] = (wv_proposal){wv_full_prefit_gaussian(f), 0};
    f->proposals.n = 1;
    f->b.n = f->prefit.draws;
    wv_fit_draw(f, f->count.batch, 0, WV_RNG_PILOT, 0, f->b.n, true, 0);
    return WVGD_OK;
}

/* Components, spreads and metric begin where the pilot ended. */
void wv_full_prefit_leave(wvgd_fit *f)
{
    size_t D = f->D;
    /* nats that a diagonal Gaussian must lose: sum log Lambda_ii / 2 - log det Lambda / 2, Lambda
     * the pilot's precision */
    double *inverse = f->desk.square[0], gap = wv_family_get(WVGD_FULL)->log_det(D, 0, f->prefit.root);
    memset(inverse, 0, D * D * sizeof *inverse);
    for (size_t i = 0; i < D; i++)
        inverse[i * D + i] = 1;
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, f->prefit.root,
                (int)D, inverse, (int)D);
    for (size_t i = 0; i < D; i++) {
        double precision = cblas_ddot((int)D, inverse + i, (int)D, inverse + i, (int)D);
        gap += log(precision) / 2;
        f->desk.vector[0][i] = 1 / sqrt(precision);
    }
    f->outcome.meanfield_gap = gap;
    for (size_t j = 0; j < f->N; j++) {
        if (f->N == 1)
            memcpy(f->cells.now.mu, f->prefit.mu, D * sizeof(double));
        f->family->set_sd(D, f->R, f->cells.now.root + j * f->family->size(D, f->R), f->desk.vector[0]);
        f->cell_family->set_sd(D, 0, f->cells.now.spread + j * f->cell_family->size(D, 0), f->desk.vector[0]);
    }
    if (f->N == 1)
        memcpy(f->cells.now.z, f->prefit.mu, D * sizeof(double));
    if (!f->opt.metric && f->metric_family == wv_family_get(WVGD_FULL))
        memcpy(f->cells.now.metric, f->prefit.root, D * D * sizeof(double));
    f->stage = WV_SEARCH;
    f->joint.averaged = 0;
    f->joint.rho = 0.5;
    f->joint.best = -INFINITY;
    wv_schedule_begin_phase(f);
}

wvgd_status wv_full_prefit_tell(wvgd_fit *f, wvgd_error *error)
{
    wv_gaussian q = wv_full_prefit_gaussian(f);
    size_t n = f->b.n, kept = 0, D = f->D;
    double mean = 0, squares = 0;
    wv_gaussian_log_density(&q, n, f->b.x, f->b.log_q, f->desk.y, f->arena);
    for (size_t i = 0; i < n; i++)
        if (f->b.log_p[i] > -INFINITY) {
            memcpy(f->desk.gx + kept * D, f->b.x + i * D, D * sizeof(double));
            memcpy(f->desk.gg + kept * D, f->b.grad + i * D, D * sizeof(double));
            f->desk.glp[kept] = f->b.log_p[i];
            f->desk.gr[kept++] = f->b.log_p[i] - f->b.log_q[i];
        }
    if (!kept)
        return wv_fail(
            error, WVGD_E_NO_DRAWS,
            "none of the %zu points of iteration %zu has a finite log density: check the model, or start elsewhere", n,
            f->count.iteration + 1);
    for (size_t i = 0; i < kept; i++)
        mean += f->desk.gr[i] / (double)kept;
    for (size_t i = 0; i < kept; i++) {
        squares += (f->desk.gr[i] - mean) * (f->desk.gr[i] - mean);
        f->desk.gu[i] = 1 / (double)kept;
    }
    f->last.pelbo = mean;
    f->last.pelbo_se = sqrt(squares) / (double)kept;
    bool averaging = f->joint.averaged > 0;
    wv_update c = {.estimator = WVGD_NATURAL,
                   .family = q.family,
                   .mu = f->prefit.mu,
                   .root = f->prefit.root,
                   .n = kept,
                   .x = f->desk.gx,
                   .log_p = f->desk.glp,
                   .grad = f->desk.gg,
                   .u = f->desk.gu,
                   .ess = (double)kept,
                   .rho = averaging ? 1 / (1 / f->joint.rho + (double)f->joint.averaged) : f->joint.rho};
    if (2 * kept < n)
        cblas_dscal((int)(D * D), 0.5, f->prefit.root, 1); /* half of it outside the support: draw nearer */
    bool back = wv_schedule_fell(f);
    wv_update_result r = back ? (wv_update_result){false, 0} : wv_update_component(f, &c);
    f->last.step = r.ok ? r.kl : INFINITY;
    f->count.iteration++;
    for (size_t j = 0; j < f->N; j++)
        f->cells.beta[j] = NAN;
    wvgd_status status = wv_fit_note(f, error);
    if (status != WVGD_OK)
        return status;
    if (averaging)
        f->joint.averaged++;
    else if (back)
        wv_schedule_begin_phase(f);
    else if (wv_schedule_level(f, 6)) {
        f->joint.averaged = 1;
        wv_schedule_begin_phase(f);
    }
    if (wv_schedule_still(f) || f->joint.averaged > 20 || 2 * f->count.iteration >= f->opt.max_iter)
        wv_full_prefit_leave(f);
    if (f->count.iteration >= f->opt.max_iter)
        wv_schedule_end(f, WVGD_MAX_ITER);
    return WVGD_OK;
}

void wv_full_prefit_start(wv_full_prefit *p, const double *mu, const double *root)
{
    memcpy(p->mu, mu, p->D * sizeof *mu);
    memcpy(p->root, root, p->D * p->D * sizeof *root);
}

void wv_full_prefit_take_posterior(wvgd_fit *f)
{
    memcpy(f->prefit.mu, f->posterior.mean, f->D * sizeof(double));
    wv_posterior_root(f, wv_family_get(WVGD_FULL), f->prefit.root);
}
