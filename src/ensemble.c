/* ensemble.c - the result as a distribution: q_ens(z) = sum_j w_j q(z; theta_j) 1[z in L_j] / Z_j, and the closing draws as weighted posterior draws. */
#include "cell.h"
#include "close.h"
#include "fit.h"
#include "modes.h"
#include "moments.h"
#include "weight.h"
#include <math.h>
#include <string.h>

static wvgd_status ended(const wvgd_fit *f, wvgd_error *error)
{
    if (f->s.stage != WV_DONE)
        return wv_fail(error, WVGD_E_ARGUMENT, "the fit has not ended: run it first");
    return WVGD_OK;
}

wvgd_status wvgd_cell(const wvgd_fit *f, size_t n, const double *z, size_t *cell, wvgd_error *error)
{
    wvgd_status status = ended(f, error);
    for (size_t first = 0; status == WVGD_OK && first < n; first += f->n_max) {
        size_t here = n - first < f->n_max ? n - first : f->n_max;
        wv_cell_assign(f, here, z + first * f->D, f->b.cell, f->b.near, f->b.next);
        for (size_t i = 0; i < here; i++)
            cell[first + i] = f->b.cell[i];
    }
    return status;
}

wvgd_status wvgd_mode(const wvgd_fit *fit, size_t n, const double *z, size_t *mode, wvgd_error *error)
{
    wvgd_fit *f = (wvgd_fit *)(uintptr_t)fit; /* scratch of its own is written to */
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    wv_modes_assign(f, n, z, mode);
    return WVGD_OK;
}

wvgd_status wvgd_log_q(const wvgd_fit *f, size_t n, const double *z, double *log_q, wvgd_error *error)
{
    wvgd_status status = ended(f, error);
    for (size_t first = 0; status == WVGD_OK && first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        const double *x = z + first * f->D;
        wv_cell_assign(f, here, x, f->b.cell, f->b.near, f->b.next);
        for (size_t i = 0; i < here; i++)
            log_q[first + i] = -INFINITY;
        for (size_t j = 0; j < f->N; j++) {
            if (!(f->weight[j] > 0) || !(f->log_Z[j] > -INFINITY))
                continue;
            wv_gauss q = wv_fit_component(f, j);
            wv_component_log_density(&q, here, x, f->psi, f->y, f->work);
            for (size_t i = 0; i < here; i++)
                if (f->b.cell[i] == j)
                    log_q[first + i] = log(f->weight[j]) + f->psi[i] - f->log_Z[j];
        }
    }
    return status;
}

/* Index at which the running sum of w[n] (total 1) passes u. */
static size_t pick(size_t n, const double *w, double u)
{
    size_t k = 0;
    for (double sum = w[0]; sum < u && k + 1 < n; sum += w[++k])
        ;
    while (k > 0 && w[k] <= 0)
        k--;
    return k;
}

/* One draw of component j that lies in its cell; after many misses the closing draw of that cell with the largest q_j weight times a random number. */
static void draw_in_cell(const wvgd_fit *f, size_t j, const wv_stream *stream, uint64_t draw, double *z)
{
    enum { TRIES = 20000 };
    wv_gauss q = wv_fit_component(f, j);
    wv_stream tries = *stream;
    double best = -INFINITY;
    tries.component = draw + 1;
    for (uint64_t t = 0; t < TRIES; t++) {
        uint32_t cell;
        double near, next;
        wv_component_draw(&q, &tries, t, 1, false, z, f->work);
        wv_cell_assign(f, 1, z, &cell, &near, &next);
        if (cell == j)
            return;
    }
    for (size_t i = 0; i < f->close.n; i++)
        if (f->close.cell[i] == j) { /* Gumbel trick: a categorical draw in one pass */
            double u, key;
            wv_rng_uniform(&tries, TRIES + i, 1, &u);
            key = f->close.log_q[i] - f->close.log_m[i] - log(-log(u));
            if (key > best) {
                best = key;
                memcpy(z, f->close.x + i * f->D, f->D * sizeof *z);
            }
        }
}

wvgd_status wvgd_sample(const wvgd_fit *f, uint64_t stream, size_t n, double *z, size_t *cell, wvgd_error *error)
{
    wvgd_status status = ended(f, error);
    wv_stream s = {f->opt.seed, WV_RNG_SAMPLE, stream, 0};
    for (size_t i = 0; status == WVGD_OK && i < n; i++) {
        double u;
        wv_rng_uniform(&s, i, 1, &u);
        size_t j = pick(f->N, f->weight, u);
        draw_in_cell(f, j, &s, i, z + i * f->D);
        if (cell)
            cell[i] = j;
    }
    return status;
}

wvgd_status wvgd_resample(const wvgd_fit *f, uint64_t stream, size_t n, double *z, size_t *index, wvgd_error *error)
{
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    wv_weight_normalise(f->close.n, f->close_smooth, f->close_spare);
    wv_stream s = {f->opt.seed, WV_RNG_RESAMPLE, stream, 0};
    double u, u_order, sum = f->close_spare[0];
    wv_rng_uniform(&s, 0, 1, &u);
    for (size_t i = 0, k = 0; i < n; i++) { /* systematic: one random number, every point used as often as its weight says */
        double at = ((double)i + u) / (double)n;
        while (sum < at && k + 1 < f->close.n)
            sum += f->close_spare[++k];
        /* in random order (each new draw changes places with a random earlier one), so that readers who expect a chain see independent draws */
        wv_rng_uniform(&s, i + 1, 1, &u_order);
        size_t j = (size_t)(u_order * (double)(i + 1));
        j = j < i ? j : i;
        memmove(z + i * f->D, z + j * f->D, f->D * sizeof *z);
        memcpy(z + j * f->D, f->close.x + k * f->D, f->D * sizeof *z);
        if (index) {
            index[i] = index[j];
            index[j] = k;
        }
    }
    return WVGD_OK;
}

const double *wvgd_draw_weights(const wvgd_fit *f)
{
    return f->s.stage == WV_DONE ? f->close_cal : NULL;
}

wvgd_status wvgd_expect(const wvgd_fit *fit, size_t m, const double *value, double *mean, double *var, double *mcse, wvgd_error *error)
{
    wvgd_fit *f = (wvgd_fit *)(uintptr_t)fit; /* scratch of its own is written to */
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    if (f->staged)
        wv_moments_of(f, m, value, mean, var, mcse);
    else
        wv_close_moments(f, m, value, mean, var, mcse);
    return WVGD_OK;
}

wvgd_status wvgd_draws(const wvgd_fit *f, size_t *n, const double **z, const double **log_p, const double **log_w, const uint32_t **cell, wvgd_error *error)
{
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    if (n)
        *n = f->close.n;
    if (z)
        *z = f->close.x;
    if (log_p)
        *log_p = f->close.log_p;
    if (log_w)
        *log_w = f->close_log_w;
    if (cell)
        *cell = f->close.cell;
    return WVGD_OK;
}
