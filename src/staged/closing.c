/* closing.c - closing draws of the staged solver: the proposal they come from, where they are kept, and the evidence
 * that they give (method, section 5). A trial, if there was one, stands before the final batch. */
#include "staged/closing.h"
#include "fit.h"
#include "gaussian.h"
#include "simd/columns.h"
#include "dense.h"
#include "staged/mixture_fit.h"
#include "draws.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

/* Shares of the proposal: Student-t copies of the components, and one wide t around everything. */
static const double share_tails = 0.2, share_wide = 0.1, degrees_tails = 3, degrees_wide = 4, widening = 2;

/* ---- the proposal ------------------------------------------------------------------------------------------------ */
/* m = 0.9 sum_k (w_k/2 + 1/2K) [0.8 N(mu_k, C_k) + 0.2 t_3(mu_k, C_k)] + 0.1 t_4(moments of the mixture, twice as
 * wide): about n draws, an even number of each. */
void wv_closing_propose(wvgd_fit *f, size_t n)
{
    size_t K = f->mix.K, total = 0;
    f->proposals.n = 2 * K + 1;
    for (size_t k = 0; k < K; k++) {
        double share = (double)n * (1 - share_wide) * (0.5 * f->mix.w[k] + 0.5 / (double)K);
        f->proposals.p[2 * k].q = f->proposals.p[2 * k + 1].q = wv_mixture_component(&f->mix, k);
        f->proposals.p[2 * k + 1].q.nu = degrees_tails;
        f->proposals.share[2 * k] = 2 * (size_t)fmax(1, round((1 - share_tails) * share / 2));
        f->proposals.share[2 * k + 1] = 2 * (size_t)fmax(1, round(share_tails * share / 2));
    }
    bool wide = wv_mixture_moments(&f->mix, f->shared.tail_mu, f->shared.tail_root, f->arena);
    cblas_dscal((int)(f->D * f->D), widening, f->shared.tail_root, 1);
    f->proposals.p[2 * K].q = (wv_gaussian){wv_family_get(WVGD_FULL), f->D,        0, f->shared.tail_mu,
                                            f->shared.tail_root,      degrees_wide};
    f->proposals.share[2 * K] = wide ? 2 * (size_t)fmax(2, round(share_wide * (double)n / 2)) : 0;
    for (size_t c = 0; c < f->proposals.n; c++)
        total += f->proposals.share[c];
    f->b.n = total;
}

static void draw(wvgd_fit *f, wv_rng_use use)
{
    for (size_t c = 0, at = 0; c < f->proposals.n; at += f->proposals.share[c++])
        wv_fit_draw(f, f->count.batch, c, use, 0, f->proposals.share[c], true, at);
}

/* Proposal k of K + 1 as a place: a component with its Student-t copy, or the wide t. */
static wv_place place(const wvgd_fit *f, size_t k)
{
    bool wide = 2 * k + 1 == f->proposals.n;
    const double *made = f->shared.mix_made + 2 * k;
    return (wv_place){f->proposals.p[2 * k].q.mu,
                      f->shared.mix_inverse + k * f->D * f->D,
                      f->shared.mix_det[k],
                      wide ? 0 : made[0],
                      wide ? degrees_wide : degrees_tails,
                      made[!wide],
                      wide && f->mix.K == 1 ? 1 / (widening * widening) : 0};
}

/* What `place` needs, for the draws made of each proposal; returns how many places there are. */
static size_t prepare(wvgd_fit *f)
{
    size_t D = f->D, places = (f->proposals.n + 1) / 2;
    for (size_t k = 0; k < places; k++) {
        const wv_gaussian *q = &f->proposals.p[2 * k].q;
        wv_dense_invert(D, q->root, f->shared.mix_inverse + k * D * D);
        f->shared.mix_det[k] = q->family->log_det(D, 0, q->root);
    }
    memcpy(f->shared.mix_made, f->closing.made, f->proposals.n * sizeof(double));
    return places;
}

void wv_closing_add_density(wvgd_fit *f, size_t n, const double *x, double *log_sum)
{
    wv_draws_add(f, place, 0, prepare(f), n, x, log_sum);
}

/* ---- the store --------------------------------------------------------------------------------------------------- */
void wv_closing_begin(wvgd_fit *f, size_t trial)
{
    f->closing.draws.n = f->closing.trial = trial;
    f->known.squares = 0;
    memset(f->closing.made, 0, f->size.made_room * sizeof(double));
}

wv_batch wv_closing_draws(const wvgd_fit *f, size_t first)
{
    size_t D = f->D;
    return (wv_batch){.n = f->closing.draws.n - first,
                      .x = f->closing.draws.x + first * D,
                      .log_p = f->closing.draws.log_p + first,
                      .grad = f->closing.draws.grad + first * D,
                      .stratum = f->closing.draws.stratum + first};
}

/* The batch has the points, answers and strata of another place. */
static void place_batch(wvgd_fit *f, const wv_batch *at)
{
    f->b.x = at->x;
    f->b.log_p = at->log_p;
    f->b.grad = at->grad;
    f->b.stratum = at->stratum;
}

/* Draws are made, and answers told, where they are stored. */
void wv_closing_draw(wvgd_fit *f, size_t n, wv_rng_use use)
{
    wv_batch end = wv_closing_draws(f, f->closing.draws.n);
    place_batch(f, &end);
    wv_closing_propose(f, n);
    draw(f, use);
}

bool wv_closing_has_room(const wvgd_fit *f)
{
    return f->closing.draws.n + WV_CHUNK + 4 * f->size.made_room < f->size.close_max;
}

void wv_closing_take(wvgd_fit *f)
{
    place_batch(f, &f->own);
    f->closing.draws.n = f->closing.draws.n + f->b.n;
    for (size_t c = 0; c < f->proposals.n; c++)
        f->closing.made[c] += (double)f->proposals.share[c];
}

/* ---- evidence ---------------------------------------------------------------------------------------------------- */
/* The integrals of the proposals are known: E_m[q_c/m] = 1 for each of them. As control variates they remove
 * from the evidence all noise that comes of what the proposal and the posterior have in common; with p~ a
 * mixture of the q_c nothing is left (Owen and Zhou). Equivalently, the draws get weights omega_i, near 1, under
 * which the integrals are right in the sample. */

/* |y|^2 of all stored draws in the coordinates of the proposals' places, if they are few enough to be kept;
 * otherwise `controls` works them out block by block. */
static void measure(wvgd_fit *f)
{
    size_t n = f->closing.draws.n, places = prepare(f);
    if (n > wv_draws_points(f)) {
        f->known.squares = 0;
        return;
    }
    wv_draws_measure(f, place, 0, places, f->known.squares, n, f->closing.draws.x, false);
    f->known.squares = n;
}

/* log_sum[i] <- log(exp log_sum[i] + sum over the first places) at the stored draws from `first`
 * on, after `measure`. */
static void add_measured(wvgd_fit *f, wv_draws_place *which, size_t places, size_t first, double *log_sum)
{
    size_t n = f->closing.draws.n - first;
    if (f->known.squares)
        wv_draws_sum(f, which, 0, places, first, n, log_sum);
    else
        wv_draws_add(f, which, 0, places, n, f->closing.draws.x + first * f->D, log_sum);
}

/* C, the number of controls: Gaussian proposals (the posterior has little in common with the others). */
static size_t controls_made(const wvgd_fit *f)
{
    size_t C = 0;
    for (size_t k = 0; 2 * k + 1 < f->proposals.n; k++)
        C += f->closing.made[2 * k] > 0;
    return C;
}

/* h[n][C] = q_c/m - 1 at stored draws first .. first + n, n <= WV_BLOCK, after `measure`. */
static void controls(wvgd_fit *f, size_t first, size_t n, size_t C, double *h)
{
    double *log_q = f->desk.block, *r = f->shared.mix_q + (f->known.squares ? first : 0);
    size_t c = 0, row = wv_draws_points(f);
    if (!f->known.squares)
        wv_draws_measure(f, place, 0, (f->proposals.n + 1) / 2, 0, n, f->closing.draws.x + first * f->D, false);
    for (size_t k = 0; 2 * k + 1 < f->proposals.n; k++)
        if (f->closing.made[2 * k] > 0) {
            wv_columns_density(f->D, n, f->shared.mix_det[k], 0, r + k * row, log_q);
            for (size_t i = 0; i < n; i++)
                log_q[i] -= f->closing.draws.log_m[first + i];
            wv_weights_exp(n, log_q);
            for (size_t i = 0; i < n; i++)
                h[i * C + c] = log_q[i] - 1;
            c++;
        }
}

/* Mean and (ridged, factorised) covariance S[C][C] of the controls over stored draws from `first` on, which
 * have been measured, and tilt = S^-1 mean. */
static void calibrate(wvgd_fit *f, size_t first, size_t C, double *mean, double *tilt, double *S, double *h)
{
    size_t n = f->closing.draws.n - first;
    memset(mean, 0, C * sizeof *mean);
    memset(S, 0, C * C * sizeof *S);
    for (size_t at = 0; at < n; at += WV_BLOCK) {
        size_t here = n - at < WV_BLOCK ? n - at : WV_BLOCK;
        controls(f, first + at, here, C, h);
        for (size_t i = 0; i < here; i++)
            cblas_daxpy((int)C, 1 / (double)n, h + i * C, 1, mean, 1);
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)C, (int)here, 1 / (double)n, h, (int)C, 1.0, S, (int)C);
    }
    cblas_dsyr(CblasRowMajor, CblasLower, (int)C, -1.0, mean, 1, S, (int)C);
    for (size_t c = 0; c < C; c++)
        S[c * C + c] = S[c * C + c] * (1 + 1e-6) + 1e-9;
    memcpy(tilt, mean, C * sizeof *tilt);
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)C, S, (lapack_int)C) != 0 ||
        LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (lapack_int)C, 1, S, (lapack_int)C, tilt, (lapack_int)C) != 0)
        memset(tilt, 0, C * sizeof *tilt);
}

wvgd_estimate wv_closing_weigh(wvgd_fit *f, size_t first)
{
    size_t n = f->closing.draws.n - first, strata = f->proposals.n, C = controls_made(f);
    double *log_m = f->closing.draws.log_m + first, *v = f->closing.v + first, top = -INFINITY, mean = 0, variance = 0;
    double *h_bar = f->shared.control, *tilt = h_bar + C, *beta = tilt + C, *S = beta + C, *h = S + C * C;
    for (size_t i = 0; i < n; i++)
        log_m[i] = -INFINITY;
    measure(f);
    add_measured(f, place, (f->proposals.n + 1) / 2, first, log_m);
    for (size_t i = 0; i < n; i++) {
        log_m[i] -= log((double)n);
        top = fmax(top, f->closing.draws.log_p[first + i] - log_m[i]);
    }
    if (!isfinite(top))
        return (wvgd_estimate){-INFINITY, INFINITY};
    for (size_t i = 0; i < n; i++) {
        v[i] = exp(f->closing.draws.log_p[first + i] - log_m[i] - top);
        mean += v[i] / (double)n;
    }
    f->last.ess = wv_weights_ess(n, v);
    calibrate(f, first, C, h_bar, tilt, S, h);
    memset(beta, 0, C * sizeof *beta);
    for (size_t at = 0; at < n; at += WV_BLOCK) { /* beta = S^-1 Cov(h, v) */
        size_t here = n - at < WV_BLOCK ? n - at : WV_BLOCK;
        controls(f, first + at, here, C, h);
        for (size_t i = 0; i < here; i++)
            cblas_daxpy((int)C, (v[at + i] - mean) / (double)n, h + i * C, 1, beta, 1);
    }
    LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (lapack_int)C, 1, S, (lapack_int)C, beta, (lapack_int)C);
    double level = mean - cblas_ddot((int)C, beta, 1, h_bar, 1);
    if (!(level > mean / 4 && level < 4 * mean)) { /* no small correction: leave it */
        memset(beta, 0, C * sizeof *beta);
        level = mean;
    }
    memset(f->desk.mix_e, 0,
           3 * strata * sizeof(double)); /* number, sum and sum of squares of the pairs of each stratum */
    for (size_t at = 0; at < n; at += WV_BLOCK) {
        size_t here = n - at < WV_BLOCK ? n - at : WV_BLOCK;
        controls(f, first + at, here, C, h);
        for (size_t i = 0; i + 1 < here; i += 2) {
            double pair = 0, *e = f->desk.mix_e + 3 * f->closing.draws.stratum[first + at + i];
            for (size_t k = i; k <= i + 1; k++)
                pair += (v[at + k] - cblas_ddot((int)C, beta, 1, h + k * C, 1)) / level / 2;
            e[0] += 1;
            e[1] += pair;
            e[2] += pair * pair;
        }
    }
    for (size_t c = 0; c < strata; c++) {
        const double *e = f->desk.mix_e + 3 * c;
        if (e[0] > 1)
            variance += 4 * e[0] * fmax(e[2] - e[1] * e[1] / e[0], 0) / (e[0] - 1);
        else if (e[0] > 0)
            variance += 4 * (e[1] - 1) * (e[1] - 1);
    }
    variance *= (double)n / fmax((double)n - 2 * (double)C, 1); /* what the regression has fitted away */
    /* what the draws cannot show: the ridge and rounding; and where some points have no density, a share of
     * such points that n draws may well miss */
    double hidden = hypot(1e-4, f->count.bad_points + f->count.zero_points ? 1 / (double)n : 0);
    return (wvgd_estimate){top + log(level), hypot(sqrt(variance) / (double)n, hidden)};
}

/* ---- trial and final batch together ------------------------------------------------------------------------------ */
void wv_closing_forget_trial(wvgd_fit *f)
{
    size_t trial = f->closing.trial, n = f->closing.draws.n - trial, D = f->D;
    memmove(f->closing.draws.x, f->closing.draws.x + trial * D, n * D * sizeof(double));
    memmove(f->closing.draws.grad, f->closing.draws.grad + trial * D, n * D * sizeof(double));
    memmove(f->closing.draws.log_p, f->closing.draws.log_p + trial, n * sizeof(double));
    memmove(f->closing.draws.stratum, f->closing.draws.stratum + trial, n * sizeof(uint32_t));
    f->closing.draws.n = n;
    f->closing.trial = f->known.squares = 0;
}

/* Component k of the mixture, whose proposal is the place of that number. */
static wv_place component(const wvgd_fit *f, size_t k)
{
    wv_place p = place(f, k);
    p.share = f->mix.w[k];
    p.tails = 0;
    return p;
}

void wv_closing_mixture_density(wvgd_fit *f)
{
    for (size_t i = 0; i < f->closing.draws.n; i++)
        f->closing.draws.log_mix[0][i] = -INFINITY;
    add_measured(f, component, f->mix.K, 0, f->closing.draws.log_mix[0]);
}

/* Whether a batch of the pool has the proposals of the final one, as it does unless they were refined in between:
 * its draws are then theirs, too, for `place`. */
static bool join(wvgd_fit *f, const wv_draws_batch *batch)
{
    size_t D = f->D, places = (f->proposals.n + 1) / 2;
    bool same = batch->proposals == places;
    for (size_t k = 0; k < places && same; k++)
        same = !memcmp(f->pool.mu + (batch->proposal + k) * D, f->proposals.p[2 * k].q.mu, D * sizeof(double)) &&
               !memcmp(f->pool.inverse + (batch->proposal + k) * D * D, f->shared.mix_inverse + k * D * D,
                       D * D * sizeof(double));
    for (size_t k = 0; k < places && same; k++) {
        f->shared.mix_made[2 * k] += k + 1 < places ? f->pool.share[batch->proposal + k]
                                                    : f->pool.tails[batch->proposal + k];
        if (k + 1 < places)
            f->shared.mix_made[2 * k + 1] += f->pool.tails[batch->proposal + k];
    }
    return same;
}

void wv_closing_pool(wvgd_fit *f)
{
    size_t n = f->closing.draws.n, trial = f->closing.trial, b = f->pool.batches;
    for (size_t i = 0; i < n; i++)
        f->closing.draws.log_m[i] = -INFINITY;
    while (b > 0 && f->pool.batch[b - 1].n != trial) /* the batch of the pool that holds the trial's proposals */
        b--;
    measure(f);
    bool joined = b && join(f, &f->pool.batch[b - 1]);
    add_measured(f, place, (f->proposals.n + 1) / 2, 0, f->closing.draws.log_m);
    if (b && !joined)
        wv_draws_add_density(f, b - 1, n, f->closing.draws.x, f->closing.draws.log_m);
    for (size_t i = 0; i < n; i++)
        f->closing.draws.log_m[i] -= log((double)n);
    size_t C = controls_made(f);
    double *h_bar = f->shared.control, *tilt = h_bar + C, *S = tilt + C, *h = S + C * C;
    calibrate(f, 0, C, h_bar, tilt, S, h);
    for (size_t at = 0; at < n; at += WV_BLOCK) {
        size_t here = n - at < WV_BLOCK ? n - at : WV_BLOCK;
        controls(f, at, here, C, h);
        for (size_t i = 0; i < here; i++) {
            double omega = 1;
            for (size_t c = 0; c < C; c++)
                omega -= (h[i * C + c] - h_bar[c]) * tilt[c];
            f->closing.draws.log_m[at + i] -= log(fmin(fmax(omega, 0.2), 5));
        }
    }
}
