/* staged.c - explore -> fit -> (trial -> grow -> fit)* -> final -> cells -> bound (method, section 6). Read it from wv_staged_tell at the end upwards.
 *
 *     fit     the mixture of the modes, with soft cells (mix.c)
 *     trial   draws from the mixture with heavier tails say what the evidence would cost: variance of the weights / wanted standard error^2
 *     grow    where a round of growth is cheaper than that: split what fits worst, add components where p~/m is largest, fit again
 *     crawl   once growth was needed, short Hamiltonian walks look for what the trial cannot see (crawl.c); what they find is where the mixture grows
 *     final   the proposal is refined on the draws at hand, then a batch whose size was fixed before it was drawn gives the evidence; its draws never saw the proposal
 *     cells   the transport problem on the weighted draws (partition.c), without the model
 *     bound   one fresh batch for the PELBO (bound.c) */
#include "staged.h"
#include "close.h"
#include "columns.h"
#include "crawl.h"
#include "dense.h"
#include "explore.h"
#include "mix.h"
#include "moments.h"
#include "partition.h"
#include "pool.h"
#include "trace.h"
#include "weight.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum { ROUNDS = 12, CRAWLS = 3, RETURNS = 2, LEAST = 240, LEAST_FINAL = 160, EXTENSION = 200, RECENT = 4, PATIENCE = 2500, MANY = 40 }; /* of growth at most; times that walks are sent out; times that a final batch sends the fit back; draws of trial and final batch together at least; of the final batch; of an extension of it; batches of the fit that growth looks back on; draws of trials after which growth must pay; components beyond which only the price of the evidence calls for more */

/* log p~ / (m Z) of a place that the proposal does not cover: this, and more than all but a few of its own draws have; and such that what may be missing there, with all that has
 * less density, matters. */
static const double uncovered = 2, few = 0.005, matters = 0.03;

/* Standard error allowed for tails that a mixture which had to grow has not reached: the more rounds it took, the longer they are. More draws do not lessen it. */
static double tails(const wvgd_fit *f)
{
    return fmin(0.003 * (double)f->s.rounds, 0.02);
}

/* How much more than even weights would have calls for more growth, once it has begun, if the last round has gained so much in the ELBO. */
static const double thin = 0.3, worthwhile = 0.05;

/* Gain in the ELBO since the last walks that makes it worth while to send out others. */
static const double crawl_gain = 0.03;

/* Loss by growth, in nats of the ELBO, that undoes it. */
static const double harmful = 0.1;

/* A trial whose share of effective draws is less than this, relative to the final batch's, is not used. */
static const double spoilt = 0.25;

/* Shares of the proposal: Student-t copies of the components, and one wide t around everything. */
static const double share_tails = 0.2, share_wide = 0.1, degrees_tails = 3, degrees_wide = 4, widening = 2;

static size_t trial_draws(const wvgd_fit *f)
{
    size_t K = f->s.mix.K;
    return K < 10 ? 140 + 20 * K : 240 + 10 * K;
}

/* What a round of growth costs, in evaluations, more or less: a trial, and eight iterations with four more components. */
static double round_price(const wvgd_fit *f)
{
    double K = (double)f->s.mix.K + 4;
    return 240 + 10 * K + 8 * K * fmax(5, (double)f->D / 2);
}

/* What the fit's own work in a round of growth costs, in evaluations: eight iterations, in which all points meet all components, and matrices of these are factorised. */
static double own_price(const wvgd_fit *f)
{
    double D = (double)f->D, K = (double)f->s.mix.K + 4, points = 240 + 4 * K * fmax(5, D / 2);
    return f->model.work > 0 ? 8 * K * D * D * (8 * points + 30 * D) / f->model.work : 0;
}

/* What more draws may cost before growth is the better choice. In evaluations alone the first round gains most; where these are cheap, work is what counts, and growth, once begun, takes about three rounds. */
static double growth_price(const wvgd_fit *f)
{
    double evaluations = (f->s.rounds ? 2 : 1) * round_price(f);
    return fmax(evaluations, fmin(evaluations + 3 * own_price(f), (double)f->close_budget / 4));
}

/* Whether the draws that are still wanted cost so much that a round of growth is little beside them. */
static bool dear(const wvgd_fit *f)
{
    return f->s.wanted > 10 * round_price(f);
}

/* ---- the proposal ---------------------------------------------------------------------------------------------------------------- */
/* m = 0.9 sum_k (w_k/2 + 1/2K) [0.8 N(mu_k, C_k) + 0.2 t_3(mu_k, C_k)] + 0.1 t_4(moments of the mixture, twice as wide): about n draws, an even number of each. */
static void propose(wvgd_fit *f, size_t n)
{
    size_t K = f->s.mix.K, total = 0;
    f->proposals = 2 * K + 1;
    for (size_t k = 0; k < K; k++) {
        double share = (double)n * (1 - share_wide) * (0.5 * f->mix.w[k] + 0.5 / (double)K);
        f->proposal[2 * k].q = f->proposal[2 * k + 1].q = wv_mix_component(f, k);
        f->proposal[2 * k + 1].q.nu = degrees_tails;
        f->share[2 * k] = 2 * (size_t)fmax(1, round((1 - share_tails) * share / 2));
        f->share[2 * k + 1] = 2 * (size_t)fmax(1, round(share_tails * share / 2));
    }
    bool wide = wv_mix_moments(f, f->tail_mu, f->tail_root);
    cblas_dscal((int)(f->D * f->D), widening, f->tail_root, 1);
    f->proposal[2 * K].q = (wv_gauss){wv_family_get(WVGD_FULL), f->D, 0, f->tail_mu, f->tail_root, degrees_wide};
    f->share[2 * K] = wide ? 2 * (size_t)fmax(2, round(share_wide * (double)n / 2)) : 0;
    for (size_t c = 0; c < f->proposals; c++)
        total += f->share[c];
    f->b.n = total;
}

static void draw(wvgd_fit *f, wv_rng_use use)
{
    for (size_t c = 0, at = 0; c < f->proposals; at += f->share[c++])
        wv_fit_draw(f, f->s.batch, c, use, 0, f->share[c], true, at);
}

/* Proposal k of K + 1 as a place: a component with its Student-t copy, or the wide t. */
static wv_place place(const wvgd_fit *f, size_t k)
{
    bool wide = 2 * k + 1 == f->proposals;
    const double *made = f->mix_made + 2 * k;
    return (wv_place){f->proposal[2 * k].q.mu, f->mix_inverse + k * f->D * f->D, f->mix_det[k], wide ? 0 : made[0], wide ? degrees_wide : degrees_tails, made[!wide]};
}

/* What `place` needs, for made[c] draws of each proposal; returns how many places there are. */
static size_t prepare(wvgd_fit *f, const double *made)
{
    size_t D = f->D, places = (f->proposals + 1) / 2;
    for (size_t k = 0; k < places; k++) {
        const wv_gauss *q = &f->proposal[2 * k].q;
        wv_dense_invert(D, q->root, f->mix_inverse + k * D * D);
        f->mix_det[k] = q->family->log_det(D, 0, q->root);
    }
    memcpy(f->mix_made, made, f->proposals * sizeof *made);
    return places;
}

/* Adds log of the sum over proposals of draws x density to log_sum[n]: not divided by the number of draws. */
static void add_density(wvgd_fit *f, const double *made, size_t n, const double *x, double *log_sum)
{
    wv_pool_add(f, place, 0, prepare(f, made), n, x, log_sum);
}

/* ---- the store of closing draws -------------------------------------------------------------------------------------------------- */
/* Stored draws from `first` on. */
static wv_batch stored(const wvgd_fit *f, size_t first)
{
    size_t D = f->D;
    return (wv_batch){.n = f->s.closed - first, .x = f->close.x + first * D, .log_p = f->close.log_p + first, .grad = f->close.grad + first * D, .stratum = f->close.stratum + first};
}

/* The batch has the points, answers and strata of another place. */
static void place_batch(wvgd_fit *f, const wv_batch *at)
{
    f->b.x = at->x;
    f->b.log_p = at->log_p;
    f->b.grad = at->grad;
    f->b.stratum = at->stratum;
}

/* Closing draws are made, and answers told, where they are stored. */
static void draw_in_store(wvgd_fit *f, size_t n, wv_rng_use use)
{
    wv_batch end = stored(f, f->s.closed);
    place_batch(f, &end);
    propose(f, n);
    draw(f, use);
}

static bool room(const wvgd_fit *f)
{
    return f->s.closed + WV_CHUNK + 4 * f->made_room < f->close_max;
}

static void store(wvgd_fit *f)
{
    place_batch(f, &f->own);
    f->s.closed = f->close.n = f->s.closed + f->b.n;
    for (size_t c = 0; c < f->proposals; c++)
        f->made[c] += (double)f->share[c];
}

/* ---- evidence ----------------------------------------------------------------------------------------------------------------------- */
/* The integrals of the proposals are known: E_m[q_c/m] = 1 for each of them. As control variates they remove from the evidence all noise that comes of what the proposal and the
 * posterior have in common; with p~ a mixture of the q_c nothing is left (Owen and Zhou). Equivalently, the draws get weights omega_i, near 1, under which the integrals are
 * right in the sample. */

/* |y|^2 of all stored draws in the coordinates of the proposals' places, if they are few enough to be kept; otherwise `controls` works them out block by block. */
static void measure(wvgd_fit *f)
{
    size_t n = f->s.closed, places = prepare(f, f->made);
    if (n > wv_pool_points(f)) {
        f->measured = 0;
        return;
    }
    wv_pool_measure(f, place, 0, places, f->measured, n, f->close.x, false);
    f->measured = n;
}

/* log_sum[i] <- log(exp log_sum[i] + sum over the first places) at the stored draws from `first` on, after `measure`. */
static void add_measured(wvgd_fit *f, wv_pool_place *which, size_t places, size_t first, double *log_sum)
{
    size_t n = f->s.closed - first;
    if (f->measured)
        wv_pool_sum(f, which, 0, places, first, n, log_sum);
    else
        wv_pool_add(f, which, 0, places, n, f->close.x + first * f->D, log_sum);
}

/* C, the number of controls: Gaussian proposals (the posterior has little in common with the others). */
static size_t controls_made(const wvgd_fit *f)
{
    size_t C = 0;
    for (size_t k = 0; 2 * k + 1 < f->proposals; k++)
        C += f->made[2 * k] > 0;
    return C;
}

/* h[n][C] = q_c/m - 1 at stored draws first .. first + n, n <= WV_BLOCK, after `measure`. */
static void controls(wvgd_fit *f, size_t first, size_t n, size_t C, double *h)
{
    double *log_q = f->block, *r = f->mix_q + (f->measured ? first : 0);
    size_t c = 0, row = wv_pool_points(f);
    if (!f->measured)
        wv_pool_measure(f, place, 0, (f->proposals + 1) / 2, 0, n, f->close.x + first * f->D, false);
    for (size_t k = 0; 2 * k + 1 < f->proposals; k++)
        if (f->made[2 * k] > 0) {
            wv_columns_density(f->D, n, f->mix_det[k], 0, r + k * row, log_q);
            for (size_t i = 0; i < n; i++)
                log_q[i] -= f->close.log_m[first + i];
            wv_weight_exp(n, log_q);
            for (size_t i = 0; i < n; i++)
                h[i * C + c] = log_q[i] - 1;
            c++;
        }
}

/* Mean and (ridged, factorised) covariance S[C][C] of the controls over stored draws from `first` on, which have been measured, and tilt = S^-1 mean. */
static void calibrate(wvgd_fit *f, size_t first, size_t C, double *mean, double *tilt, double *S, double *h)
{
    size_t n = f->s.closed - first;
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

/* log mean p~/m over the stored draws from `first` on, with controls, and its standard error: of the residuals within strata, draws 2i and 2i+1 taken as one, since they mirror
 * each other. Fills close.log_m and the weights close_v. */
static wvgd_estimate weigh(wvgd_fit *f, size_t first)
{
    size_t n = f->s.closed - first, strata = f->proposals, C = controls_made(f);
    double *log_m = f->close.log_m + first, *v = f->close_v + first, top = -INFINITY, mean = 0, variance = 0;
    double *h_bar = f->control, *tilt = h_bar + C, *beta = tilt + C, *S = beta + C, *h = S + C * C;
    for (size_t i = 0; i < n; i++)
        log_m[i] = -INFINITY;
    measure(f);
    add_measured(f, place, (f->proposals + 1) / 2, first, log_m);
    for (size_t i = 0; i < n; i++) {
        log_m[i] -= log((double)n);
        top = fmax(top, f->close.log_p[first + i] - log_m[i]);
    }
    if (!isfinite(top))
        return (wvgd_estimate){-INFINITY, INFINITY};
    for (size_t i = 0; i < n; i++) {
        v[i] = exp(f->close.log_p[first + i] - log_m[i] - top);
        mean += v[i] / (double)n;
    }
    f->s.ess = wv_weight_ess(n, v);
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
    memset(f->mix_e, 0, 3 * strata * sizeof(double)); /* number, sum and sum of squares of the pairs of each stratum */
    for (size_t at = 0; at < n; at += WV_BLOCK) {
        size_t here = n - at < WV_BLOCK ? n - at : WV_BLOCK;
        controls(f, first + at, here, C, h);
        for (size_t i = 0; i + 1 < here; i += 2) {
            double pair = 0, *e = f->mix_e + 3 * f->close.stratum[first + at + i];
            for (size_t k = i; k <= i + 1; k++)
                pair += (v[at + k] - cblas_ddot((int)C, beta, 1, h + k * C, 1)) / level / 2;
            e[0] += 1;
            e[1] += pair;
            e[2] += pair * pair;
        }
    }
    for (size_t c = 0; c < strata; c++) {
        const double *e = f->mix_e + 3 * c;
        if (e[0] > 1)
            variance += 4 * e[0] * fmax(e[2] - e[1] * e[1] / e[0], 0) / (e[0] - 1);
        else if (e[0] > 0)
            variance += 4 * (e[1] - 1) * (e[1] - 1);
    }
    variance *= (double)n / fmax((double)n - 2 * (double)C, 1); /* what the regression has fitted away */
    /* what the draws cannot show: the ridge and rounding; and where some points have no density, a share of such points that n draws may well miss */
    double hidden = hypot(1e-4, f->s.bad_points + f->s.zero_points ? 1 / (double)n : 0);
    return (wvgd_estimate){top + log(level), hypot(sqrt(variance) / (double)n, hidden)};
}

/* The standard error that draws aim at: less than what was asked for, since it is known from these draws only. */
static double wanted_se(const wvgd_fit *f)
{
    return 0.75 * f->opt.evidence_se;
}

/* Evaluations that bring the standard error of the log evidence to what is wanted, if draws go on like these n. */
static double price(const wvgd_fit *f, wvgd_estimate e, size_t n)
{
    double ratio = e.se / wanted_se(f);
    return (double)n * ratio * ratio;
}

/* log p~ / (m Z) that all but a share `few` of the posterior, as the draws from `first` on have it, stays below. */
static double usual(wvgd_fit *f, size_t first, double log_z)
{
    size_t n = f->s.closed - first;
    double low = -50, high = 50, total = cblas_dasum((int)n, f->close_v + first, 1);
    for (int round = 0; round < 40; round++) {
        double middle = (low + high) / 2, above = 0;
        for (size_t i = first; i < f->s.closed; i++)
            above += f->close.log_p[i] - f->close.log_m[i] - log_z > middle ? f->close_v[i] : 0;
        *(above > few * total ? &low : &high) = middle;
    }
    return high;
}

/* What `usual` would be for weights that are lognormal, as they are where a good fit is blurred in many directions, with the effective size that n draws have had. */
static double even(const wvgd_fit *f, size_t n)
{
    double variance = log((double)n / fmax(f->s.ess, 1));
    return variance / 2 + 2.576 * sqrt(variance); /* the quantile 1 - few of a normal */
}

/* ---- trace ------------------------------------------------------------------------------------------------------------------------ */
static wvgd_status note(wvgd_fit *f, wvgd_error *error)
{
    if (f->s.stage < WV_REFINE) {
        f->s.distortion = NAN;
        for (size_t j = 0; j < f->N; j++)
            f->beta[j] = NAN;
    }
    return wv_trace_append(f, error);
}

/* ---- stages ----------------------------------------------------------------------------------------------------------------------- */
static void begin_trial(wvgd_fit *f)
{
    f->s.stage = WV_TRY;
    f->s.closed = f->close.n = f->s.trial = 0;
    f->measured = 0;
    memset(f->made, 0, f->made_room * sizeof(double));
}

/* Nothing more can be tried. */
static bool exhausted(const wvgd_fit *f)
{
    return f->s.stop != WVGD_RUNNING || f->s.rounds >= ROUNDS || f->s.fails >= 2 || f->s.mix.K >= wv_pool_components(f) || f->s.spent >= f->close_budget;
}

/* Growth has gone on for long and no longer helps. */
static bool tired(const wvgd_fit *f)
{
    return f->s.spent > PATIENCE && f->s.mix.elbo < f->s.last_elbo + worthwhile;
}

static void begin_final(wvgd_fit *f, size_t n)
{
    f->s.stage = WV_CLOSE;
    f->s.planned = n;
    f->s.trial = f->s.closed;
    f->measured = 0;
    memset(f->made, 0, f->made_room * sizeof(double));
}

/* Forward-KL step of the proposal on everything in the pool. */
static void refine(wvgd_fit *f)
{
    size_t n = wv_pool_size(f);
    for (size_t i = 0; i < n; i++)
        f->psi[i] = f->pool.log_p[i] - f->pool.log_sum[i];
    if (wv_weight_normalise(n, f->psi, f->mix_u)) {
        memcpy(f->glv, f->mix_u, n * sizeof(double));
        wv_mix_refine(f, f->glv);
    }
}

/* Growth has not helped: with more draws for each component it may, where these cost little beside what growth is to save. */
static void fail(wvgd_fit *f)
{
    if (f->s.effort < WV_EFFORT && dear(f))
        f->s.effort++;
    else
        f->s.fails++;
}

/* More components, fitted again; false: no place was found for any. */
static bool grow(wvgd_fit *f, size_t first, wvgd_estimate e)
{
    size_t before = f->s.mix.K, n = f->s.closed - first;
    double *log_w = f->glv, rel = f->s.ess / (double)n;
    bool better = f->s.mix.elbo > f->s.last_elbo + 0.02 || (!f->s.undone && rel > 1.2 * f->s.last_rel);
    bool split = !f->s.rounds || f->s.mix.elbo > f->s.last_elbo + worthwhile; /* where that has stopped to pay, only what the draws show is added */
    if (f->s.rounds && !better)
        fail(f);
    else
        f->s.fails = 0;
    f->s.last_elbo = f->s.mix.elbo;
    f->s.last_rel = rel;
    for (size_t i = 0; i < n; i++)
        log_w[i] = f->close.log_p[first + i] - f->close.log_m[first + i] - e.value;
    memcpy(f->close_spare, log_w, n * sizeof *log_w);
    if (split)
        wv_mix_split(f);
    wv_mix_add(f, n, f->close.x + first * f->D, f->close_spare, 0.2);
    if (f->s.mix.K == before)
        return false;
    f->s.rounds++;
    f->s.stage = WV_MIX;
    wv_mix_begin(f, true);
    return true;
}

static void conclude(wvgd_fit *f);

/* Final draws at least: some for every cell; for standard deviations of many parameters; and, in few dimensions, where draws are what limits them, for the truncated components of the cells. */
static double least(const wvgd_fit *f)
{
    double D = (double)f->D;
    return fmax(fmax(LEAST, 8 * (double)f->N), fmax(32 * D, 600 * (double)f->N / (D * D)));
}

/* Of the final batch alone: less the trial's draws, unless these will not be used beside a batch of which this share is effective. */
static double least_final(const wvgd_fit *f, size_t trial, double share)
{
    return fmax(LEAST_FINAL, least(f) - (f->s.trial_ess > spoilt * share * (double)trial ? (double)trial : 0));
}

/* The proposal is settled, and the size of the final batch fixed. */
static void settle(wvgd_fit *f)
{
    double few_draws = least_final(f, f->s.closed, 1);
    if (dear(f))
        refine(f);
    begin_final(f, (size_t)fmin(fmin(fmax(f->s.wanted, few_draws), fmax(WV_CHUNK / 3, few_draws)), WV_CHUNK));
}

/* The mixture of the last trial that had density, once more. */
static void go_back(wvgd_fit *f)
{
    wv_mix_copy(f, f->s.tried, &f->mix_tried, &f->mix);
    f->s.mix.K = f->s.tried;
    f->s.mix.elbo = f->s.tried_elbo;
}

/* The trial has been weighed: grow, or settle the proposal and fix the size of the final batch. */
static void judge_trial(wvgd_fit *f)
{
    wvgd_estimate e = weigh(f, 0);
    double cost = 1.3 * price(f, e, f->s.closed);
    wv_batch drawn = stored(f, 0);
    wv_pool_take(f, &drawn);
    f->s.wanted = cost;
    f->s.trial_z = e.value;
    f->s.trial_ess = f->s.ess;
    f->s.usual = isfinite(e.value) ? usual(f, 0, e.value) : INFINITY;
    if (isfinite(e.value)) {
        wv_mix_copy(f, f->s.mix.K, &f->mix, &f->mix_tried);
        f->s.tried = f->s.mix.K;
        f->s.tried_elbo = f->s.mix.elbo;
    } else if (f->s.tried && f->s.fails < 2) { /* growth has led out of the support: back to the mixture before it, and no more of it */
        go_back(f);
        f->s.fails = 2;
        begin_trial(f);
        return;
    }
    if (isfinite(e.value) && !exhausted(f) && !tired(f) && (cost > growth_price(f) || (f->s.rounds && f->s.mix.K < MANY && f->s.usual > even(f, f->s.closed) + thin && f->s.mix.elbo > f->s.last_elbo + worthwhile))) {
        if (grow(f, 0, e))
            return;
        f->s.fails = 2;
    }
    if (f->s.rounds && !exhausted(f) && !tired(f) && f->s.crawls < CRAWLS && (!f->s.crawls || (f->s.mix.elbo > f->s.crawl_elbo + crawl_gain && f->s.mix.K > f->s.crawl_K))) {
        f->s.crawls++;
        f->s.crawl_elbo = f->s.mix.elbo;
        f->s.crawl_K = f->s.mix.K;
        f->s.stage = WV_CRAWL;
        if (wv_crawl_begin(f))
            return;
    }
    settle(f);
}

/* Share of the posterior, as the stored draws have it, whose density is less than this; at least what one draw stands for. */
static double below(const wvgd_fit *f, double log_p)
{
    double share = 0, total = cblas_dasum((int)f->s.closed, f->close_v, 1);
    for (size_t i = 0; i < f->s.closed; i++)
        share += f->close.log_p[i] < log_p ? f->close_v[i] / total : 0;
    return fmax(share, 1 / (double)f->s.closed);
}

/* The walks have ended: components where they have found much more density than the proposal has, or on to the final batch. */
static void judge_crawl(wvgd_fit *f)
{
    size_t n = f->s.crawl.seen;
    double *log_w = f->close_spare, most = -INFINITY, made = 0;
    propose(f, trial_draws(f)); /* for the density of the trial's proposals */
    for (size_t c = 0; c < f->proposals; c++)
        made += f->made[c];
    for (size_t i = 0; i < n; i++)
        log_w[i] = -INFINITY;
    add_density(f, f->made, n, f->crawl_seen, log_w);
    for (size_t i = 0; i < n; i++) {
        log_w[i] = f->crawl_log_p[i] - (log_w[i] - log(made)) - f->s.trial_z;
        if (log_w[i] > most && exp(log_w[i]) * below(f, f->crawl_log_p[i]) > matters)
            most = log_w[i];
    }
    if (most > fmax(uncovered, f->s.usual + 0.3) && f->s.stop == WVGD_RUNNING) {
        size_t before = f->s.mix.K;
        wv_mix_add(f, n, f->crawl_seen, log_w, 0.05); /* tails: little of the mass */
        if (f->s.mix.K > before) {
            f->s.rounds++;
            f->s.stage = WV_MIX;
            wv_mix_begin(f, false);
            return;
        }
    }
    settle(f);
}

/* A piece of the final batch has been weighed. Extended from the same proposal until the standard error is what was asked for; a first piece that shows the trial
 * to have been lucky sends the fit back to growth. */
static void judge_final(wvgd_fit *f)
{
    size_t n = f->s.closed - f->s.trial;
    bool first = n == f->b.n;
    wvgd_estimate e = weigh(f, f->s.trial);
    double left = 1.2 * (price(f, e, n) - (double)n);
    f->s.evidence = (wvgd_estimate){e.value, hypot(e.se, tails(f))};
    f->s.final_ess = f->s.ess;
    f->s.wanted = left;
    if (first && !exhausted(f) && left > growth_price(f) && (!tired(f) || dear(f)) && f->s.returns < RETURNS) {
        wv_batch drawn = stored(f, f->s.trial);
        f->s.returns++;
        wv_pool_take(f, &drawn);
        if (grow(f, f->s.trial, e))
            return;
        f->s.fails = 2;
    }
    size_t budget = e.se < 0.05 ? f->close_budget / 2 : f->close_budget;
    if (e.se > wanted_se(f) && f->s.spent < budget && room(f) && (f->s.stop == WVGD_RUNNING || e.se > 0.05) && isfinite(e.value)) {
        f->s.planned = (size_t)fmin(fmax(left, EXTENSION), WV_CHUNK);
        return;
    }
    double few_draws = least_final(f, f->s.trial, f->s.final_ess / (double)n);
    if ((double)n < few_draws && room(f) && f->s.stop == WVGD_RUNNING && isfinite(e.value)) {
        f->s.planned = (size_t)fmin(few_draws - (double)n, WV_CHUNK);
        return;
    }
    conclude(f);
}

/* A trial that was worse by far than the final batch, by a draw or two of huge weight, would rule what both say of the posterior: it goes. */
static void forget_trial(wvgd_fit *f)
{
    size_t trial = f->s.trial, n = f->s.closed - trial, D = f->D;
    if (f->s.trial_ess > spoilt * f->s.final_ess / (double)n * (double)trial)
        return;
    memmove(f->close.x, f->close.x + trial * D, n * D * sizeof(double));
    memmove(f->close.grad, f->close.grad + trial * D, n * D * sizeof(double));
    memmove(f->close.log_p, f->close.log_p + trial, n * sizeof(double));
    memmove(f->close.stratum, f->close.stratum + trial, n * sizeof(uint32_t));
    f->s.closed = f->close.n = n;
    f->s.trial = f->measured = 0;
    measure(f);
}

/* Component k of the mixture, whose proposal is the place of that number. */
static wv_place component(const wvgd_fit *f, size_t k)
{
    wv_place p = place(f, k);
    p.share = f->mix.w[k];
    p.tails = 0;
    return p;
}

static void mixture_density(wvgd_fit *f)
{
    for (size_t i = 0; i < f->s.closed; i++)
        f->close.log_mix[0][i] = -INFINITY;
    add_measured(f, component, f->s.mix.K, 0, f->close.log_mix[0]);
}

/* Whether a batch of the pool has the proposals of the final one, as it does unless they were refined in between: its draws are then theirs, too, for `place`. */
static bool join(wvgd_fit *f, const wv_pool_batch *batch)
{
    size_t D = f->D, places = (f->proposals + 1) / 2;
    bool same = batch->proposals == places;
    for (size_t k = 0; k < places && same; k++)
        same = !memcmp(f->pool.mu + (batch->proposal + k) * D, f->proposal[2 * k].q.mu, D * sizeof(double)) &&
               !memcmp(f->pool.inverse + (batch->proposal + k) * D * D, f->mix_inverse + k * D * D, D * D * sizeof(double));
    for (size_t k = 0; k < places && same; k++) {
        f->mix_made[2 * k] += k + 1 < places ? f->pool.share[batch->proposal + k] : f->pool.tails[batch->proposal + k];
        if (k + 1 < places)
            f->mix_made[2 * k + 1] += f->pool.tails[batch->proposal + k];
    }
    return same;
}

/* Both batches, which have been measured, under the mixture of both proposals, with the weights omega that the controls give them in log_m. */
static void pool_batches(wvgd_fit *f)
{
    size_t n = f->s.closed, trial = f->s.trial, b = f->s.batches;
    for (size_t i = 0; i < n; i++)
        f->close.log_m[i] = -INFINITY;
    while (b > 0 && f->s.pooled[b - 1].n != trial) /* the batch of the pool that holds the trial's proposals */
        b--;
    bool joined = b && join(f, &f->s.pooled[b - 1]);
    add_measured(f, place, (f->proposals + 1) / 2, 0, f->close.log_m);
    if (b && !joined)
        wv_pool_add_density(f, b - 1, n, f->close.x, f->close.log_m);
    for (size_t i = 0; i < n; i++)
        f->close.log_m[i] -= log((double)n);
    size_t C = controls_made(f);
    double *h_bar = f->control, *tilt = h_bar + C, *S = tilt + C, *h = S + C * C;
    calibrate(f, 0, C, h_bar, tilt, S, h);
    for (size_t at = 0; at < n; at += WV_BLOCK) {
        size_t here = n - at < WV_BLOCK ? n - at : WV_BLOCK;
        controls(f, at, here, C, h);
        for (size_t i = 0; i < here; i++) {
            double omega = 1;
            for (size_t c = 0; c < C; c++)
                omega -= (h[i * C + c] - h_bar[c]) * tilt[c];
            f->close.log_m[at + i] -= log(fmin(fmax(omega, 0.2), 5));
        }
    }
}

/* Has a mode that exploration found been lost on the way? Its place and Gaussian then join the mixture once more. */
static bool recover(wvgd_fit *f)
{
    size_t D = f->D, K = f->s.mix.K;
    double half_log_2pi = 0.918938533204672741780;
    for (size_t m = 0; m < f->s.modes && f->s.stop == WVGD_RUNNING; m++) {
        const wv_mode *mode = &f->s.mode[m];
        const double *x = f->mode_x + m * D, *root = f->mode_root + m * D * D;
        double log_m = -INFINITY, sum = 0;
        add_density(f, f->made, 1, x, &log_m);
        for (size_t c = 0; c < f->proposals; c++)
            sum += f->made[c];
        double top = mode->elbo - wv_family_get(WVGD_FULL)->log_det(D, 0, root) - (double)D * half_log_2pi;
        if (!mode->relevant || mode->elbo < f->s.evidence.value - 4)
            continue; /* too light to be missed */
        f->s.unseen = fmax(f->s.unseen, top - (log_m - log(sum)) - f->s.evidence.value);
        if (!(top - (log_m - log(sum)) - f->s.evidence.value > 4) || f->s.recovered >= 2 || K == wv_pool_components(f))
            continue;
        memcpy(f->mix.mu + K * D, x, D * sizeof *x);
        memcpy(f->mix.root + K * D * D, root, D * D * sizeof *root);
        double w = fmin(fmax(exp(mode->elbo - f->s.evidence.value), 0.05), 0.5);
        cblas_dscal((int)K, 1 - w, f->mix.w, 1);
        f->mix.w[K] = w;
        f->s.mix.K = K + 1;
        f->s.recovered++;
        f->s.rounds = f->s.fails = 0;
        f->s.stage = WV_MIX;
        wv_pool_forget(f, RECENT);
        wv_mix_begin(f, false);
        return true;
    }
    return false;
}

/* The draws are in: moments and cells, without the model; what is left is the bound. */
static void conclude(wvgd_fit *f)
{
    f->s.unseen = -INFINITY;
    if (recover(f))
        return;
    for (size_t i = f->s.trial; i < f->s.closed; i++)
        f->psi[i - f->s.trial] = f->close.log_p[i] - f->close.log_m[i];
    f->s.pareto_k = wv_weight_pareto_k(f->s.closed - f->s.trial, f->psi, NULL, f->order);
    if (f->s.trial)
        forget_trial(f);
    pool_batches(f);
    if (f->s.stop == WVGD_RUNNING)
        f->s.stop = f->s.evidence.se <= fmax(1.05 * f->opt.evidence_se, 0.05) ? WVGD_CONVERGED : WVGD_MAX_ITER;
    if (!wv_close_weights(f)) {
        f->s.stage = WV_CLOSE; /* the caller reports that no draw has density */
        f->s.closed = f->close.n = 0;
        return;
    }
    mixture_density(f);
    wv_moments_estimate(f);
    wv_partition_begin(f);
}

/* Growth that has left the mixture worse than it was is undone. */
static void end_fit(wvgd_fit *f)
{
    wv_mix_drop(f);
    wv_pool_forget(f, RECENT);
    f->s.undone = f->s.tried && f->s.mix.elbo < f->s.tried_elbo - harmful;
    if (f->s.undone)
        go_back(f);
    begin_trial(f);
}

void wv_staged_begin(wvgd_fit *f)
{
    size_t D = f->D, K = 0, most = wv_pool_components(f);
    double top = -INFINITY, sum = 0;
    f->s.last_elbo = -INFINITY;
    for (size_t m = 0; m < f->s.modes; m++)
        top = fmax(top, f->s.mode[m].elbo);
    for (size_t m = 0; m < f->s.modes && K < most; m++)
        if (f->s.mode[m].relevant) {
            memcpy(f->mix.mu + K * D, f->mode_x + m * D, D * sizeof(double));
            memcpy(f->mix.root + K * D * D, f->mode_root + m * D * D, D * D * sizeof(double));
            sum += f->mix.w[K++] = exp(f->s.mode[m].elbo - top);
        }
    if (!K) { /* stopped before any ascent has ended */
        for (size_t i = 0; i < D; i++)
            f->vector[0][i] = f->opt.init_scale;
        memset(f->mix.mu, 0, D * sizeof(double));
        wv_family_get(WVGD_FULL)->set_sd(D, 0, f->mix.root, f->vector[0]);
        sum = f->mix.w[K++] = 1;
    }
    for (size_t k = 0; k < K; k++)
        f->mix.w[k] = fmax(f->mix.w[k] / sum, 0.01 / (double)K);
    cblas_dscal((int)K, 1 / cblas_dasum((int)K, f->mix.w, 1), f->mix.w, 1);
    f->s.mix.K = K;
    wv_pool_clear(f);
    f->s.mix.elbo = top + log(sum);
    if (K > 1) {
        f->s.stage = WV_MIX;
        wv_mix_begin(f, false);
    } else
        begin_trial(f);
}

void wv_staged_hurry(wvgd_fit *f, wvgd_stop stop)
{
    if (f->s.stop != WVGD_RUNNING || f->s.stage >= WV_REFINE)
        return;
    f->s.stop = stop;
    if (f->s.stage == WV_EXPLORE)
        wv_explore_settle(f);
    if (f->s.stage == WV_MIX) {
        wv_mix_end(f);
        end_fit(f);
    }
}

wvgd_status wv_staged_ask(wvgd_fit *f, wvgd_error *error)
{
    (void)error;
    switch (f->s.stage) {
    case WV_MIX: wv_mix_ask(f); break;
    case WV_TRY:
        draw_in_store(f, trial_draws(f), WV_RNG_TRIAL);
        break;
    case WV_CRAWL: wv_crawl_ask(f); break;
    case WV_CLOSE:
        draw_in_store(f, f->s.planned, WV_RNG_CLOSE);
        break;
    default: break;
    }
    return WVGD_OK;
}

wvgd_status wv_staged_tell(wvgd_fit *f, wvgd_error *error)
{
    if (f->s.stage == WV_MIX) {
        if (wv_mix_tell(f))
            end_fit(f);
        if (f->s.iteration >= f->opt.max_iter)
            wv_staged_hurry(f, WVGD_MAX_ITER);
        return note(f, error);
    }
    if (f->s.stage == WV_CRAWL) {
        if (wv_crawl_tell(f))
            judge_crawl(f);
        return WVGD_OK;
    }
    store(f);
    f->s.spent += f->b.n;
    f->s.iteration++;
    if (f->s.stage == WV_TRY)
        judge_trial(f);
    else
        judge_final(f);
    if (!f->s.closed && f->s.stage == WV_CLOSE)
        return wv_fail(error, WVGD_E_NO_DRAWS, "none of the closing draws has a finite log density: check the model, or start elsewhere");
    return note(f, error);
}
