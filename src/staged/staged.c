/* staged.c - explore -> fit -> (trial -> grow -> fit)* -> final -> cells -> bound (method, section 6). Read it
 * from wv_staged_tell at the end upwards.
 *
 *     fit     the mixture of the modes, with soft cells (mixture_fit.c)
 *     trial   draws from the mixture with heavier tails say what the evidence would cost: variance of the
 *             weights / wanted standard error^2
 *     grow    where a round of growth is cheaper than that: split what fits worst, add components
 *             where p~/m is largest, fit again
 *     crawl   once growth was needed, or would have been but for its price, short Hamiltonian walks look for what
 *             the trial cannot see (tail_probe.c); what they find is where the mixture grows
 *     final   the proposal is refined on the draws at hand, then a batch whose size was fixed before it was drawn
 *             gives the evidence; its draws never saw the proposal
 *     cells   the transport problem on the weighted draws (cells.c), without the model
 *     bound   one fresh batch for the PELBO (cell_bound.c) */
#include "staged/staged.h"
#include "fit.h"
#include "gaussian.h"
#include "posterior.h"
#include "staged/tail_probe.h"
#include "staged/explore.h"
#include "staged/mixture_fit.h"
#include "moments.h"
#include "policy.h"
#include "staged/cells.h"
#include "draws.h"
#include "staged/closing.h"
#include "trace.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

bool wv_growth_archive(wv_growth *g, wv_archive *a)
{
    wv_growth s = *g;
    wv_archive_values(a, &s, sizeof s);
    if (s.effort > WV_EFFORT)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        *g = s;
    return true;
}

enum {
    CRAWLS = 3,        /* times that walks are sent out */
    RETURNS = 2,       /* times that a final batch sends the fit back */
    LEAST = 240,       /* draws of trial and final batch together at least */
    LEAST_FINAL = 160, /* of the final batch */
    EXTENSION = 200,   /* of an extension of it */
    RECENT = 4,        /* batches of the fit that growth looks back on */
    PATIENCE = 2500,   /* draws of trials after which growth must pay */
    MANY = 40,         /* components beyond which only the price of the evidence calls for more */
    TRIAL = 512        /* draws of a trial at most because they are cheap */
};

/* log p~ / (m Z) of a place that the proposal does not cover: this, and more than all but a few of its own draws
 * have; and such that what may be missing there, with all that has less density, matters. */
static const double uncovered = 2, few = 0.005, matters = 0.03;

/* Standard error allowed for tails that a mixture which had to grow has not reached: the more rounds it took, the
 * longer they are. More draws do not lessen it. */
static double tails(const wvgd_fit *f)
{
    return fmin(0.003 * (double)f->growth.rounds, 0.02);
}

/* How much more than even weights would have calls for more growth, once it has begun, if the last
 * round has gained so much in the ELBO. */
static const double thin = 0.3, worthwhile = 0.05;

/* Gain in the ELBO since the last walks that makes it worth while to send out others. */
static const double crawl_gain = 0.03;

/* Loss by growth, in nats of the ELBO, that undoes it. */
static const double harmful = 0.1;

/* Whether the trial's draws are of use beside a final batch of which this share is effective: not if it was worse
 * by far, by a draw or two of huge weight. */
static bool useful(const wvgd_fit *f, size_t trial, double share)
{
    return f->growth.trial_ess > 0.25 * share * (double)trial;
}

/* Few draws say little of what the evidence would cost, and growth for nothing costs more than cheap draws. */
static size_t trial_draws(const wvgd_fit *f)
{
    size_t K = f->mix.K, least = K < 10 ? 140 + 20 * K : 240 + 10 * K, cheap = (size_t)fmin(wv_fit_cheap(f), TRIAL);
    return cheap > least ? cheap : least;
}

/* What a round of growth costs, in evaluations, more or less: a trial, and eight iterations with
 * four more components. */
static double round_price(const wvgd_fit *f)
{
    double K = (double)f->mix.K + 4;
    return 240 + 10 * K + 8 * K * fmax(5, (double)f->D / 2);
}

/* What the fit's own work in a round of growth costs, in evaluations: eight iterations, in which all points meet all
 * components, and matrices of these are factorised. */
static double own_price(const wvgd_fit *f)
{
    double D = (double)f->D, K = (double)f->mix.K + 4, points = 240 + 4 * K * fmax(5, D / 2);
    return f->model.work > 0 ? 8 * K * D * D * (8 * points + 30 * D) / f->model.work : 0;
}

/* What more draws may cost before growth is the better choice. In evaluations alone the first round gains most;
 * where these are cheap, work is what counts, and growth, once begun, takes about three rounds. */
static double growth_price(const wvgd_fit *f)
{
    double evaluations = (f->growth.rounds ? 2 : 1) * round_price(f);
    return fmax(evaluations, fmin(evaluations + 3 * own_price(f), (double)f->size.close_budget / 4));
}

/* Whether the draws that are still wanted cost so much that a round of growth is little beside them. */
static bool dear(const wvgd_fit *f)
{
    return f->growth.wanted > 10 * round_price(f);
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
    size_t n = f->closing.draws.n - first;
    double low = -50, high = 50, total = cblas_dasum((int)n, f->closing.v + first, 1);
    for (int round = 0; round < 40; round++) {
        double middle = (low + high) / 2, above = 0;
        for (size_t i = first; i < f->closing.draws.n; i++)
            above += f->closing.draws.log_p[i] - f->closing.draws.log_m[i] - log_z > middle ? f->closing.v[i] : 0;
        *(above > few * total ? &low : &high) = middle;
    }
    return high;
}

/* What `usual` would be for weights that are lognormal, as they are where a good fit is blurred in many directions,
 * with the effective size that n draws have had. */
static double even(const wvgd_fit *f, size_t n)
{
    double variance = log((double)n / fmax(f->last.ess, 1));
    return variance / 2 + 2.576 * sqrt(variance); /* the quantile 1 - few of a normal */
}

/* ---- trace ------------------------------------------------------------------------------------------------------- */
static wvgd_status note(wvgd_fit *f, wvgd_error *error)
{
    if (f->stage < WV_REFINE) {
        f->last.distortion = NAN;
        for (size_t j = 0; j < f->N; j++)
            f->cells.beta[j] = NAN;
    }
    return wv_fit_note(f, error);
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */
static void begin_trial(wvgd_fit *f)
{
    f->stage = WV_TRY;
    wv_closing_begin(f, 0);
}

/* Nothing more can be tried. */
static bool exhausted(const wvgd_fit *f)
{
    return f->stop != WVGD_RUNNING || (double)f->growth.rounds >= wv_policy.growth_rounds || f->growth.fails >= 2 ||
           f->mix.K >= wv_draws_components(f) || f->growth.spent >= f->size.close_budget;
}

/* Growth has gone on for long and no longer helps. */
static bool tired(const wvgd_fit *f)
{
    return f->growth.spent > PATIENCE && f->fitting.elbo < f->growth.last_elbo + worthwhile;
}

static void begin_final(wvgd_fit *f, size_t n)
{
    f->stage = WV_CLOSE;
    f->closing.planned = n;
    wv_closing_begin(f, f->closing.draws.n);
}

/* Forward-KL step of the proposal on everything in the pool. */
static void refine(wvgd_fit *f)
{
    size_t n = wv_draws_size(f);
    for (size_t i = 0; i < n; i++)
        f->desk.psi[i] = f->pool.log_p[i] - f->pool.log_sum[i];
    if (wv_weights_normalise(n, f->desk.psi, f->shared.mix_u)) {
        memcpy(f->desk.glv, f->shared.mix_u, n * sizeof(double));
        wv_grow_refine(f, f->desk.glv);
    }
}

/* Growth has not helped: with more draws for each component it may, where these cost little beside
 * what growth is to save. */
static void fail(wvgd_fit *f)
{
    if (f->growth.effort < WV_EFFORT && dear(f))
        f->growth.effort++;
    else
        f->growth.fails++;
}

/* More components, fitted again; false: no place was found for any. */
static bool grow(wvgd_fit *f, size_t first, wvgd_estimate e)
{
    size_t before = f->mix.K, n = f->closing.draws.n - first;
    double *log_w = f->desk.glv, rel = f->last.ess / (double)n;
    bool better = f->fitting.elbo > f->growth.last_elbo + 0.02 || (!f->growth.undone && rel > 1.2 * f->growth.last_rel);
    /* where that has stopped to pay, only what the draws show is added */
    bool split = !f->growth.rounds || f->fitting.elbo > f->growth.last_elbo + worthwhile;
    if (f->growth.rounds && !better)
        fail(f);
    else
        f->growth.fails = 0;
    f->growth.last_elbo = f->fitting.elbo;
    f->growth.last_rel = rel;
    for (size_t i = 0; i < n; i++)
        log_w[i] = f->closing.draws.log_p[first + i] - f->closing.draws.log_m[first + i] - e.value;
    memcpy(f->shared.close_spare, log_w, n * sizeof *log_w);
    if (split)
        wv_grow_split(f);
    wv_grow_add(f, n, f->closing.draws.x + first * f->D, f->shared.close_spare, 0.2);
    if (f->mix.K == before)
        return false;
    f->growth.rounds++;
    f->stage = WV_MIX;
    wv_mixture_fit_begin(f, true);
    return true;
}

static void conclude(wvgd_fit *f);

/* Final draws at least: some for every cell; for standard deviations of many parameters; in few dimensions, where
 * draws are what limits them, for the truncated components of the cells; and as many as are cheap. */
static double least(const wvgd_fit *f)
{
    double D = (double)f->D, cells = fmax(8 * (double)f->N, 600 * (double)f->N / (D * D));
    return fmax(fmax(LEAST, cells), fmax(32 * D, wv_fit_cheap(f)));
}

/* Of the final batch alone: less the trial's draws, unless these will not be used beside a batch
 * of which this share is effective. */
static double least_final(const wvgd_fit *f, size_t trial, double share)
{
    return fmax(LEAST_FINAL, least(f) - (useful(f, trial, share) ? (double)trial : 0));
}

/* The proposal is settled, and the size of the final batch fixed. */
static void settle(wvgd_fit *f)
{
    double few_draws = least_final(f, f->closing.draws.n, 1), wanted = f->stop == WVGD_RUNNING ? f->growth.wanted : 0;
    if (dear(f))
        refine(f);
    begin_final(f, (size_t)fmin(fmin(fmax(wanted, few_draws), fmax(WV_CHUNK / 3, few_draws)), WV_CHUNK));
}

/* The mixture of the last trial that had density, once more. */
static void go_back(wvgd_fit *f)
{
    wv_mixture_copy(&f->mix, &f->mix_tried);
    f->fitting.elbo = f->growth.tried_elbo;
}

/* The trial has been weighed: grow, or settle the proposal and fix the size of the final batch. */
static void judge_trial(wvgd_fit *f)
{
    wvgd_estimate e = wv_closing_weigh(f, 0);
    double cost = 1.3 * price(f, e, f->closing.draws.n);
    wv_batch drawn = wv_closing_draws(f, 0);
    wv_draws_take(f, &drawn);
    f->growth.wanted = cost;
    f->growth.trial_z = e.value;
    f->growth.trial_ess = f->last.ess;
    f->growth.usual = isfinite(e.value) ? usual(f, 0, e.value) : INFINITY;
    if (isfinite(e.value)) {
        wv_mixture_copy(&f->mix_tried, &f->mix);
        f->growth.tried_elbo = f->fitting.elbo;
    } else if (f->mix_tried.K && f->growth.fails < 2) {
        /* growth has led out of the support: back to the mixture before it, and no more of it */
        go_back(f);
        f->growth.fails = 2;
        begin_trial(f);
        return;
    }
    if (isfinite(e.value) && !exhausted(f) && !tired(f) &&
        (cost > growth_price(f) ||
         (f->growth.rounds && f->mix.K < MANY && f->growth.usual > even(f, f->closing.draws.n) + thin &&
          f->fitting.elbo > f->growth.last_elbo + worthwhile))) {
        if (grow(f, 0, e))
            return;
        f->growth.fails = 2;
    }
    if ((f->growth.rounds || cost > round_price(f)) && !exhausted(f) && !tired(f) && f->growth.probes < CRAWLS &&
        (!f->growth.probes || (f->fitting.elbo > f->growth.probe_elbo + crawl_gain && f->mix.K > f->growth.probe_K))) {
        f->growth.probes++;
        f->growth.probe_elbo = f->fitting.elbo;
        f->growth.probe_K = f->mix.K;
        f->stage = WV_CRAWL;
        if (wv_tail_probe_begin(f))
            return;
    }
    settle(f);
}

/* Share of the posterior, as the stored draws have it, whose density is less than this; at least
 * what one draw stands for. */
static double below(const wvgd_fit *f, double log_p)
{
    double share = 0, total = cblas_dasum((int)f->closing.draws.n, f->closing.v, 1);
    for (size_t i = 0; i < f->closing.draws.n; i++)
        share += f->closing.draws.log_p[i] < log_p ? f->closing.v[i] / total : 0;
    return fmax(share, 1 / (double)f->closing.draws.n);
}

/* The walks have ended: components where they have found much more density than the proposal has,
 * or on to the final batch. */
static void judge_crawl(wvgd_fit *f)
{
    size_t n = f->probe.seen;
    double *log_w = f->shared.close_spare, most = -INFINITY, made = 0;
    wv_closing_propose(f, trial_draws(f)); /* for the density of the trial's proposals */
    for (size_t c = 0; c < f->proposals.n; c++)
        made += f->closing.made[c];
    for (size_t i = 0; i < n; i++)
        log_w[i] = -INFINITY;
    wv_closing_add_density(f, n, f->probe.seen_x, log_w);
    for (size_t i = 0; i < n; i++) {
        log_w[i] = f->probe.seen_log_p[i] - (log_w[i] - log(made)) - f->growth.trial_z;
        if (log_w[i] > most && exp(log_w[i]) * below(f, f->probe.seen_log_p[i]) > matters)
            most = log_w[i];
    }
    if (most > fmax(uncovered, f->growth.usual + 0.3) && f->stop == WVGD_RUNNING) {
        size_t before = f->mix.K;
        wv_grow_add(f, n, f->probe.seen_x, log_w, 0.05); /* tails: little of the mass */
        if (f->mix.K > before) {
            f->growth.rounds++;
            f->stage = WV_MIX;
            wv_mixture_fit_begin(f, false);
            return;
        }
    }
    settle(f);
}

/* Pareto k-hat of the weights of the final draws. */
static double final_k(wvgd_fit *f)
{
    size_t n = f->closing.draws.n - f->closing.trial;
    for (size_t i = 0; i < n; i++)
        f->desk.psi[i] = f->closing.draws.log_p[f->closing.trial + i] - f->closing.draws.log_m[f->closing.trial + i];
    return wv_weights_pareto_k(n, f->desk.psi, NULL, f->shared.order);
}

static bool uncovered_tails(wvgd_fit *f)
{
    double n = (double)(f->closing.draws.n - f->closing.trial);
    return final_k(f) > fmin(1 - 1 / log10(n), 0.7);
}

/* A piece of the final batch has been weighed. Extended from the same proposal until the standard error is what was
 * asked for; a first piece that shows the trial to have been lucky sends the fit back to growth. */
static void judge_final(wvgd_fit *f)
{
    size_t n = f->closing.draws.n - f->closing.trial;
    bool first = n == f->b.n;
    wvgd_estimate e = wv_closing_weigh(f, f->closing.trial);
    double left = 1.2 * (price(f, e, n) - (double)n);
    f->outcome.evidence = (wvgd_estimate){e.value, hypot(e.se, tails(f))};
    f->outcome.ess = f->last.ess;
    f->growth.wanted = left;
    if (first && !exhausted(f) && f->growth.returns < RETURNS &&
        ((left > growth_price(f) && (!tired(f) || dear(f))) || (!tired(f) && uncovered_tails(f)))) {
        wv_batch drawn = wv_closing_draws(f, f->closing.trial);
        f->growth.returns++;
        wv_draws_take(f, &drawn);
        if (grow(f, f->closing.trial, e))
            return;
        wv_draws_drop_last(f); /* so that the last batch there is the trial's */
        f->growth.fails = 2;
    }
    size_t budget = e.se < 0.05 ? f->size.close_budget / 2 : f->size.close_budget;
    if (e.se > wanted_se(f) && f->growth.spent < budget && wv_closing_has_room(f) && f->stop == WVGD_RUNNING &&
        isfinite(e.value)) {
        f->closing.planned = (size_t)fmin(fmax(left, EXTENSION), WV_CHUNK);
        return;
    }
    double few_draws = least_final(f, f->closing.trial, f->outcome.ess / (double)n);
    if ((double)n < few_draws && wv_closing_has_room(f) && f->stop == WVGD_RUNNING && isfinite(e.value)) {
        f->closing.planned = (size_t)fmin(few_draws - (double)n, WV_CHUNK);
        return;
    }
    conclude(f);
}

/* Has a mode that exploration found been lost on the way? Its place and Gaussian then join the mixture once more. */
static bool recover(wvgd_fit *f)
{
    size_t D = f->D, K = f->mix.K;
    double half_log_2pi = 0.918938533204672741780;
    for (size_t m = 0; m < f->modes.n && f->stop == WVGD_RUNNING; m++) {
        const wv_mode *mode = &f->modes.mode[m];
        const double *x = f->modes.x + m * D, *root = f->modes.root + m * D * D;
        double log_m = -INFINITY, sum = 0;
        wv_closing_add_density(f, 1, x, &log_m);
        for (size_t c = 0; c < f->proposals.n; c++)
            sum += f->closing.made[c];
        double top = mode->elbo - wv_family_get(WVGD_FULL)->log_det(D, 0, root) - (double)D * half_log_2pi;
        if (!mode->relevant || mode->elbo < f->outcome.evidence.value - 5.5)
            continue; /* too light to be missed */
        f->outcome.unseen = fmax(f->outcome.unseen, top - (log_m - log(sum)) - f->outcome.evidence.value);
        if (!(top - (log_m - log(sum)) - f->outcome.evidence.value > 4) || f->growth.recovered >= 2 ||
            K == wv_draws_components(f))
            continue;
        memcpy(f->mix.mu + K * D, x, D * sizeof *x);
        memcpy(f->mix.root + K * D * D, root, D * D * sizeof *root);
        double w = fmin(fmax(exp(mode->elbo - f->outcome.evidence.value), 0.05), 0.5);
        cblas_dscal((int)K, 1 - w, f->mix.w, 1);
        f->mix.w[K] = w;
        f->mix.K = K + 1;
        f->growth.recovered++;
        f->growth.rounds = f->growth.fails = 0;
        f->stage = WV_MIX;
        wv_draws_forget(f, RECENT);
        wv_mixture_fit_begin(f, false);
        return true;
    }
    return false;
}

/* The draws are in: moments and cells, without the model; what is left is the bound. */
static void conclude(wvgd_fit *f)
{
    f->outcome.unseen = -INFINITY;
    if (recover(f))
        return;
    f->outcome.pareto_k = final_k(f);
    /* it would rule what both say of the posterior */
    if (f->closing.trial &&
        !useful(f, f->closing.trial, f->outcome.ess / (double)(f->closing.draws.n - f->closing.trial)))
        wv_closing_forget_trial(f);
    wv_closing_pool(f);
    if (f->stop == WVGD_RUNNING)
        f->stop = f->outcome.evidence.se <= fmax(1.05 * f->opt.evidence_se, 0.05) ? WVGD_CONVERGED : WVGD_MAX_ITER;
    if (!wv_posterior_weights(f)) {
        f->stage = WV_CLOSE; /* the caller reports that no draw has density */
        f->closing.draws.n = 0;
        return;
    }
    wv_closing_mixture_density(f);
    wv_moments_estimate(f);
    wv_cells_begin(f);
}

/* Growth that has left the mixture worse than it was is undone. */
static void end_fit(wvgd_fit *f)
{
    wv_grow_drop(f);
    wv_draws_forget(f, RECENT);
    f->growth.undone = f->mix_tried.K && f->fitting.elbo < f->growth.tried_elbo - harmful;
    if (f->growth.undone)
        go_back(f);
    begin_trial(f);
}

void wv_staged_begin(wvgd_fit *f)
{
    size_t D = f->D, K = 0, most = wv_draws_components(f);
    double top = -INFINITY, sum = 0;
    f->growth.last_elbo = -INFINITY;
    for (size_t m = 0; m < f->modes.n; m++)
        top = fmax(top, f->modes.mode[m].elbo);
    for (size_t m = 0; m < f->modes.n && K < most; m++)
        if (f->modes.mode[m].relevant) {
            memcpy(f->mix.mu + K * D, f->modes.x + m * D, D * sizeof(double));
            memcpy(f->mix.root + K * D * D, f->modes.root + m * D * D, D * D * sizeof(double));
            sum += f->mix.w[K++] = exp(f->modes.mode[m].elbo - top);
        }
    if (!K) { /* stopped before any ascent has ended */
        for (size_t i = 0; i < D; i++)
            f->desk.vector[0][i] = f->opt.init_scale;
        memset(f->mix.mu, 0, D * sizeof(double));
        wv_family_get(WVGD_FULL)->set_sd(D, 0, f->mix.root, f->desk.vector[0]);
        sum = f->mix.w[K++] = 1;
    }
    for (size_t k = 0; k < K; k++)
        f->mix.w[k] = fmax(f->mix.w[k] / sum, 0.01 / (double)K);
    cblas_dscal((int)K, 1 / cblas_dasum((int)K, f->mix.w, 1), f->mix.w, 1);
    f->mix.K = K;
    wv_draws_clear(f);
    f->fitting.elbo = top + log(sum);
    if (K > 1) {
        f->stage = WV_MIX;
        wv_mixture_fit_begin(f, false);
    } else
        begin_trial(f);
}

void wv_staged_hurry(wvgd_fit *f, wvgd_stop stop)
{
    if (f->stop != WVGD_RUNNING || f->stage >= WV_REFINE)
        return;
    f->stop = stop;
    if (f->stage == WV_EXPLORE)
        wv_explore_settle(f);
    if (f->stage == WV_MIX) {
        wv_mixture_fit_end(f);
        end_fit(f);
    }
}

wvgd_status wv_staged_ask(wvgd_fit *f, wvgd_error *error)
{
    (void)error;
    switch (f->stage) {
    case WV_MIX: wv_mixture_fit_ask(f); break;
    case WV_TRY: wv_closing_draw(f, trial_draws(f), WV_RNG_TRIAL); break;
    case WV_CRAWL: wv_tail_probe_ask(f); break;
    case WV_CLOSE: wv_closing_draw(f, f->closing.planned, WV_RNG_CLOSE); break;
    default: break;
    }
    return WVGD_OK;
}

wvgd_status wv_staged_tell(wvgd_fit *f, wvgd_error *error)
{
    if (f->stage == WV_MIX) {
        if (wv_mixture_fit_tell(f))
            end_fit(f);
        if (f->count.iteration >= f->opt.max_iter)
            wv_staged_hurry(f, WVGD_MAX_ITER);
        return note(f, error);
    }
    if (f->stage == WV_CRAWL) {
        if (wv_tail_probe_tell(f))
            judge_crawl(f);
        return WVGD_OK;
    }
    wv_closing_take(f);
    f->growth.spent += f->b.n;
    f->count.iteration++;
    if (f->stage == WV_TRY)
        judge_trial(f);
    else
        judge_final(f);
    if (!f->closing.draws.n && f->stage == WV_CLOSE)
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "none of the closing draws has a finite log density: check the model, or start elsewhere");
    return note(f, error);
}
