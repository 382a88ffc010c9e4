/* staged_closing.c - closing draws of the staged solver: the proposal they come from, and the evidence that they give
 * (method, section 5). A trial, if there was one, stands before the final batch. */
#include "staged/staged_closing.h"
#include "error.h"
#include "fit.h"
#include "gaussian.h"
#include "memory.h"
#include "policy.h"
#include "simd/columns.h"
#include "dense.h"
#include "draws.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_staged_closing_new(wv_staged_closing *c, size_t D)
{
    const wv_slot slots[] = {{&c->wide_mu, D}, {&c->wide_root, wv_times(D, D)}};
    c->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return c->memory != NULL;
}

void wv_staged_closing_free(wv_staged_closing *c)
{
    free(c->memory);
}

enum { WIDE = WV_WIDE_PROPOSALS };

/* ---- the proposal ------------------------------------------------------------------------------------------------ */
/* Weight of one of K components in the proposal: between that in the mixture and an equal one. */
static double evened(double w, size_t K)
{
    return (1 - wv_policy.closing_even_share) * w + wv_policy.closing_even_share / (double)K;
}

/* Number c of the proposals is a Student-t with the moments of the mixture, wider, for that share of n draws. */
static void propose_wide(wvgd_fit *f, size_t c, double degrees, double share, size_t n)
{
    f->proposals.p[c].q = (wv_gaussian){wv_family_get(WVGD_FULL), f->D, 0, f->wide.wide_mu, f->wide.wide_root, degrees};
    f->proposals.draws[c] = 2 * (size_t)fmax(2, round(share * (double)n / 2));
}

/* m = 0.88 sum_k (w_k/2 + 1/2K) [0.8 N(mu_k, C_k) + 0.2 t_3(mu_k, C_k)] + 0.08 t_4 + 0.04 t_1(moments of the mixture,
 * twice as wide): about n draws, an even number of each. In bent coordinates the last two are wider along the arguments
 * alone, the first of them with lighter tails: what x has far out is there. Where the tails of the posterior are those
 * of a power, weights and sds have errors of their own only if the proposal's are as heavy: that is what the last one
 * is for. */
static void propose(wvgd_fit *f, size_t n)
{
    size_t K = f->mix.K, total = 0, wider = f->bend.on ? f->bend.r : f->D;
    double share_wide = f->bend.on ? wv_policy.bend_wide_share : wv_policy.closing_wide_share;
    f->proposals.n = 2 * K + WIDE;
    for (size_t k = 0; k < K; k++) {
        double share = (double)n * (1 - share_wide - wv_policy.closing_far_share) * evened(f->mix.w[k], K);
        f->proposals.p[2 * k].q = f->proposals.p[2 * k + 1].q = wv_mixture_component(&f->mix, k);
        f->proposals.p[2 * k + 1].q.nu = wv_policy.closing_tails_degrees;
        f->proposals.draws[2 * k] = 2 * (size_t)fmax(1, round((1 - wv_policy.closing_tails_share) * share / 2));
        f->proposals.draws[2 * k + 1] = 2 * (size_t)fmax(1, round(wv_policy.closing_tails_share * share / 2));
    }
    bool wide = wv_mixture_moments(&f->mix, f->wide.wide_mu, f->wide.wide_root, f->arena);
    cblas_dscal((int)(wider * f->D), wv_policy.closing_wide_scale, f->wide.wide_root, 1);
    propose_wide(f, 2 * K, f->bend.on ? wv_policy.bend_wide_degrees : wv_policy.closing_wide_degrees, share_wide, n);
    propose_wide(f, 2 * K + 1, wv_policy.closing_far_degrees, wv_policy.closing_far_share, n);
    if (!wide)
        f->proposals.draws[2 * K] = f->proposals.draws[2 * K + 1] = 0;
    for (size_t c = 0; c < f->proposals.n; c++)
        total += f->proposals.draws[c];
    f->b.n = total;
}

static void draw(wvgd_fit *f, wv_rng_use use)
{
    for (size_t c = 0, at = 0; c < f->proposals.n; at += f->proposals.draws[c++])
        wv_fit_draw(f, f->count.batch, c, use, 0, f->proposals.draws[c], true, at);
}

/* The proposals of the last batch: components, each with its Student-t copy, and the wide ones. */
typedef struct {
    const wv_draws *set;
    size_t first, n;         /* sources: the first, and how many */
    bool stretched;          /* the wide ones are, along some directions alone */
    const double *w;         /* [n - WIDE] weights of the components */
    double *draws, *t_draws; /* [n] of each as a Gaussian and as a Student-t */
} closing_sources;

static wv_source source(const void *self, size_t k)
{
    const closing_sources *s = self;
    wv_source p = wv_draws_source(s->set, s->first + k);
    p.weight = s->draws[k];
    p.t_weight = s->t_draws[k];
    if (p.weight > 0 || !k)
        return p;               /* a component */
    if (!(s->draws[k - 1] > 0)) /* the second wide t has the root of the first */
        p.like = 1;
    else if (k == 1 && !s->stretched) /* and the first one, around a component alone, that of the component, wider */
        p.like = 1 / (wv_policy.closing_wide_scale * wv_policy.closing_wide_scale);
    return p;
}

/* Component k of the mixture, whose proposal is the source of that number. */
static wv_source component(const void *self, size_t k)
{
    const closing_sources *s = self;
    wv_source p = source(s, k);
    p.weight = s->w[k];
    p.t_weight = 0;
    return p;
}

/* With the draws that have been made of them, from the arena. */
static closing_sources list_sources(wvgd_fit *f)
{
    const wv_draws *set = &f->closing.draws;
    wv_draws_batch last = set->batches ? set->batch[set->batches - 1] : (wv_draws_batch){0};
    size_t n = last.proposals;
    closing_sources s = {.set = set,
                         .first = last.proposal,
                         .n = n,
                         .stretched = f->bend.on,
                         .w = f->mix.w,
                         .draws = wv_arena_take(f->arena, n),
                         .t_draws = wv_arena_take(f->arena, n)};
    for (size_t k = 0; k < n; k++) {
        s.draws[k] = set->draws[s.first + k];
        s.t_draws[k] = set->t_draws[s.first + k];
    }
    return s;
}

void wv_staged_closing_log_density(wvgd_fit *f, size_t n, const double *x, double *log_m)
{
    size_t mark = wv_arena_mark(f->arena);
    closing_sources s = list_sources(f);
    double made = 0;
    for (size_t k = 0; k < s.n; k++)
        made += s.draws[k] + s.t_draws[k];
    wv_sources_log(&(wv_sources){source, &s, s.n, f->D}, n, x, NULL, log_m, &f->workers);
    for (size_t i = 0; i < n; i++)
        log_m[i] -= log(made);
    wv_arena_release(f->arena, mark);
}

/* A point x[D] of source k, as a Gaussian or as a Student-t: mu + R e, R the inverse of what is stored. */
static void draw_source(const closing_sources *s, size_t k, bool student, const wv_stream *stream, double *x)
{
    enum { DEGREES = 16 };
    wv_source p = wv_draws_source(s->set, s->first + k);
    size_t D = s->set->shape.D, degrees = (size_t)fmin(p.nu, DEGREES);
    double normal[DEGREES], chi = 0;
    wv_rng_normal(stream, 0, D, x);
    wv_rng_normal(stream, 1, DEGREES, normal);
    for (size_t i = 0; i < degrees; i++)
        chi += normal[i] * normal[i];
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, p.inverse, (int)D, x, 1);
    cblas_dscal((int)D, student ? sqrt(p.nu / chi) : 1, x, 1);
    cblas_daxpy((int)D, 1, p.mu, 1, x, 1);
}

void wv_staged_closing_draw_alone(wvgd_fit *f, size_t n, wv_rng_use use)
{
    size_t mark = wv_arena_mark(f->arena);
    closing_sources s = list_sources(f);
    double made = 0;
    for (size_t k = 0; k < s.n; k++)
        made += s.draws[k] + s.t_draws[k];
    for (size_t i = 0; i < n; i++) {
        wv_stream own = {f->opt.seed, use, f->count.batch, i};
        double u;
        size_t k = 0;
        wv_rng_uniform(&own, 2, 1, &u);
        u *= made;
        while (k + 1 < s.n && u > s.draws[k] + s.t_draws[k]) {
            u -= s.draws[k] + s.t_draws[k];
            k++;
        }
        draw_source(&s, k, u > s.draws[k], &own, f->b.x + i * f->D);
    }
    f->b.n = n;
    wv_arena_release(f->arena, mark);
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* Points of a trial that are asked for twice: a density that is none of the parameters alone gives two answers. As many
 * are asked for beside them: there the density must have changed as the gradients say. */
enum { REPEATED = 4 };

/* The first draws of some pairs once more, behind all others; then these moved a little towards their partners. */
static void repeat_some(wvgd_fit *f)
{
    size_t D = f->D;
    double *again = f->b.x + f->b.n * D, *moved = again + REPEATED * D;
    for (size_t r = 0; r < REPEATED; r++) {
        const double *x = f->b.x + 2 * r * D, *partner = x + D;
        memcpy(again + r * D, x, D * sizeof *x);
        for (size_t i = 0; i < D; i++)
            moved[r * D + i] = x[i] + wv_policy.slope_step * (partner[i] - x[i]);
    }
    f->b.n += 2 * REPEATED;
}

/* Standard deviation of the noise, from the answers to the same points. */
static double compare_repeated(const wv_batch *b, size_t n)
{
    double squares = 0, count = 0;
    for (size_t r = 0; r < REPEATED; r++) {
        double once = b->log_p[2 * r], again = b->log_p[n + r];
        if (once == again)
            count++;
        else if (isfinite(once) && isfinite(again)) {
            squares += (once - again) * (once - again) / 2;
            count++;
        }
    }
    return count > 0 ? sqrt(squares / count) : 0;
}

/* Whether the density changes from point i to point k as the gradients there say, by the trapezoidal rule; as far as
 * rounding, in single precision, lets it tell. */
static bool slopes_agree(const wv_batch *b, size_t D, size_t i, size_t k)
{
    double change = b->log_p[k] - b->log_p[i], said = 0, terms = 0;
    for (size_t c = 0; c < D; c++) {
        double term = (b->grad[i * D + c] + b->grad[k * D + c]) / 2 * (b->x[k * D + c] - b->x[i * D + c]);
        said += term;
        terms += fabs(term);
    }
    return !isfinite(change) ||
           fabs(change - said) <= wv_policy.slope_apart * terms + wv_policy.slope_rounding * (1 + fabs(b->log_p[i]));
}

/* What the points that are there only for that say of the model; they are then forgotten. */
static void check_model(wvgd_fit *f)
{
    size_t wrong = 0;
    f->b.n -= 2 * REPEATED;
    for (size_t r = 0; r < REPEATED && f->b.grad; r++)
        wrong += !slopes_agree(&f->b, f->D, 2 * r, f->b.n + REPEATED + r);
    wv_outcome_set_noise(&f->outcome, fmax(f->outcome.noise, compare_repeated(&f->b, f->b.n)));
    if ((double)wrong > wv_policy.slope_wrong * REPEATED)
        wv_outcome_set_wrong_slopes(&f->outcome, f->outcome.wrong_slopes + wrong);
}

/* Draws are made, and answers told, where they are stored. */
void wv_staged_closing_draw(wvgd_fit *f, size_t n, wv_rng_use use)
{
    wv_batch end = wv_draws_view(&f->closing.draws, f->closing.draws.n);
    wv_batch_put(&f->b, &end);
    propose(f, n);
    draw(f, use);
    if (use == WV_RNG_TRIAL)
        repeat_some(f);
}

bool wv_staged_closing_has_room(const wvgd_fit *f)
{
    return f->closing.draws.n + WV_CHUNK + 4 * f->size.closing_proposals < f->size.close_max;
}

void wv_staged_closing_take(wvgd_fit *f)
{
    if (f->stage == WV_TRIAL)
        check_model(f);
    wv_batch_put_back(&f->b);
    wv_closing_take(&f->closing, f->b.n, &f->proposals);
}

/* ---- evidence ---------------------------------------------------------------------------------------------------- */
/* The integrals of the proposals are known: E_m[q_c/m] = 1 for each of them. As control variates they remove
 * from the evidence all noise that comes of what the proposal and the posterior have in common; with p~ a
 * mixture of the q_c nothing is left (Owen and Zhou). Equivalently, the draws get weights omega_i, near 1, under
 * which the integrals are right in the sample. */

/* |y|^2 of all stored draws in the coordinates of the sources, if they are few enough to be kept; otherwise
 * NULL, and whoever needs them works them out. */
static const wv_squares *measure(wvgd_fit *f, const closing_sources *s)
{
    return wv_draws_cached_squares(&f->closing.draws, &(wv_sources){source, s, s->n, f->D}, f->mix.version,
                                   &f->workers);
}

/* Controls: Gaussian proposals (the posterior has little in common with the others). */
typedef struct {
    const closing_sources *from;
    const wv_squares *squares; /* of all stored draws, or NULL */
    wv_squares block;          /* else of one block of them: [sources][WV_BLOCK] */
    size_t C;                  /* controls */
    double *log_q, *h;         /* [WV_BLOCK], [WV_BLOCK][C] q_c / m - 1 at a block of draws */
    double *mean, *tilt;       /* [C] means; S^-1 mean */
    double *S;                 /* [C][C] their covariance: ridged, Cholesky factor */
} controls;

static bool is_control(const closing_sources *s, size_t k)
{
    return s->set->draws[s->first + k] > 0;
}

static size_t controls_made(const closing_sources *s)
{
    size_t C = 0;
    for (size_t k = 0; k < s->n; k++)
        C += is_control(s, k);
    return C;
}

/* From the arena. */
static controls take_controls(wvgd_fit *f, const closing_sources *s, const wv_squares *squares)
{
    size_t C = controls_made(s);
    controls c = {.from = s,
                  .squares = squares,
                  .C = C,
                  .log_q = wv_arena_take(f->arena, WV_BLOCK),
                  .h = wv_arena_take(f->arena, WV_BLOCK * C),
                  .mean = wv_arena_take(f->arena, C),
                  .tilt = wv_arena_take(f->arena, C),
                  .S = wv_arena_take(f->arena, C * C)};
    if (!squares)
        c.block = wv_sources_squares(f->D, s->n, WV_BLOCK, 0, f->arena);
    return c;
}

/* c->h at stored draws first .. first + n, n <= WV_BLOCK. */
static void see_controls(wvgd_fit *f, const controls *c, size_t first, size_t n)
{
    const closing_sources *s = c->from;
    const wv_squares *squares = c->squares ? c->squares : &c->block;
    const double *r = squares->r + (c->squares ? first : 0), *log_m = f->closing.draws.log_m + first;
    size_t column = 0;
    if (!c->squares)
        wv_sources_measure(&(wv_sources){source, s, s->n, f->D}, 0, n, f->closing.draws.x + first * f->D, squares,
                           &f->workers);
    for (size_t k = 0; k < s->n; k++) {
        if (!is_control(s, k))
            continue;
        wv_columns_density(f->D, n, s->set->log_det[s->first + k], 0, r + k * squares->row, c->log_q);
        for (size_t i = 0; i < n; i++)
            c->log_q[i] -= log_m[i];
        wv_weights_exp(n, c->log_q);
        for (size_t i = 0; i < n; i++)
            c->h[i * c->C + column] = c->log_q[i] - 1;
        column++;
    }
}

static size_t block_at(size_t n, size_t at)
{
    return n - at < WV_BLOCK ? n - at : WV_BLOCK;
}

/* S^-1 b, in place; false: it has not worked. */
static bool solve(const controls *c, double *b)
{
    lapack_int C = (lapack_int)c->C;
    return LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', C, 1, c->S, C, b, C) == 0;
}

/* Mean, covariance and tilt of the controls over stored draws from `first` on. */
static void calibrate(wvgd_fit *f, const controls *c, size_t first)
{
    size_t n = f->closing.draws.n - first, C = c->C;
    memset(c->mean, 0, C * sizeof *c->mean);
    memset(c->S, 0, C * C * sizeof *c->S);
    for (size_t at = 0; at < n; at += WV_BLOCK) {
        size_t here = block_at(n, at);
        see_controls(f, c, first + at, here);
        for (size_t i = 0; i < here; i++)
            cblas_daxpy((int)C, 1 / (double)n, c->h + i * C, 1, c->mean, 1);
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)C, (int)here, 1 / (double)n, c->h, (int)C, 1.0, c->S,
                    (int)C);
    }
    cblas_dsyr(CblasRowMajor, CblasLower, (int)C, -1.0, c->mean, 1, c->S, (int)C);
    for (size_t k = 0; k < C; k++)
        c->S[k * C + k] = c->S[k * C + k] * (1 + 1e-6) + 1e-9;
    memcpy(c->tilt, c->mean, C * sizeof *c->tilt);
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)C, c->S, (lapack_int)C) != 0 || !solve(c, c->tilt))
        memset(c->tilt, 0, C * sizeof *c->tilt);
}

/* beta[C] = S^-1 Cov(h, v) for the weights v[n], of that mean, of stored draws from `first` on. */
static void regress(wvgd_fit *f, const controls *c, size_t first, const double *v, double mean, double *beta)
{
    size_t n = f->closing.draws.n - first, C = c->C;
    memset(beta, 0, C * sizeof *beta);
    for (size_t at = 0; at < n; at += WV_BLOCK) {
        size_t here = block_at(n, at);
        see_controls(f, c, first + at, here);
        for (size_t i = 0; i < here; i++)
            cblas_daxpy((int)C, (v[at + i] - mean) / (double)n, c->h + i * C, 1, beta, 1);
    }
    solve(c, beta);
}

/* Pairs of draws of one stratum: their number, sum and sum of squares, and the largest. */
typedef struct {
    double n, sum, squares, largest;
} pairs;

static void add_pair(pairs *p, double value)
{
    p->largest = p->n > 0 ? fmax(p->largest, value) : value;
    p->n += 1;
    p->sum += value;
    p->squares += value * value;
}

/* The square of half the number of draws times the variance of their mean, where the mean of all is 1. */
static double variance_of(const pairs *p)
{
    if (p->n > 1)
        return p->n * fmax(p->squares - p->sum * p->sum / p->n, 0) / (p->n - 1);
    return p->n > 0 ? (p->sum - 1) * (p->sum - 1) : 0;
}

/* What a pair like the largest adds to it. */
static double square_of_largest(const pairs *p)
{
    return p->n > 0 ? pow(fmax(p->largest - (p->n > 1 ? p->sum / p->n : 1), 0), 2) : 0;
}

/* Variance within strata of what the controls leave of v[n] / level, times n^2. Weights are skewed: pairs as large as
 * the largest may as well not have been drawn, which the sum would not show. */
static double residual_variance(wvgd_fit *f, const controls *c, size_t first, const double *v, const double *beta,
                                double level)
{
    size_t n = f->closing.draws.n - first, C = c->C, strata = f->closing.draws.shape.sources,
           mark = wv_arena_mark(f->arena);
    double variance = 0, largest = 0;
    pairs *sums = (pairs *)(void *)wv_arena_zeros(f->arena, strata * sizeof *sums / sizeof(double)); /* [strata] */
    for (size_t at = 0; at < n; at += WV_BLOCK) {
        size_t here = block_at(n, at);
        see_controls(f, c, first + at, here);
        for (size_t i = 0; i + 1 < here; i += 2) {
            double pair = 0;
            for (size_t k = i; k <= i + 1; k++)
                pair += (v[at + k] - cblas_ddot((int)C, beta, 1, c->h + k * C, 1)) / level / 2;
            size_t stratum = f->closing.draws.stratum[first + at + i];
            if (stratum < strata)
                add_pair(&sums[stratum], pair);
        }
    }
    for (size_t k = 0; k < strata; k++) {
        variance += variance_of(&sums[k]);
        largest = fmax(largest, square_of_largest(&sums[k]));
    }
    largest *= wv_policy.closing_largest;
    variance = 4 * (variance + (isfinite(largest) ? largest : 0)); /* of improper densities numbers leave their range */
    wv_arena_release(f->arena, mark);
    /* what the regression has fitted away */
    return variance * ((double)n / fmax((double)n - 2 * (double)C, 1));
}

/* Log density of the proposals at stored draws from `first` on, as if they had drawn these alone; returns the largest
 * log weight. */
static double weigh_alone(wvgd_fit *f, const closing_sources *s, const wv_squares *squares, size_t first)
{
    const wv_draws *set = &f->closing.draws;
    double top = -INFINITY;
    wv_draws_weigh(&f->closing.draws, &(wv_sources){source, s, s->n, f->D}, squares, NULL, first, &f->workers);
    for (size_t i = first; i < set->n; i++)
        top = fmax(top, set->log_p[i] - set->log_m[i]);
    return top;
}

/* Whether the controls have corrected the mean only a little. */
static bool is_small(double level, double mean)
{
    return level > mean / wv_policy.closing_correction && level < wv_policy.closing_correction * mean;
}

/* Evidence and its standard error from weights whose largest log is `top`, which become those of the draws. */
static wvgd_estimate estimate(wvgd_fit *f, const controls *c, size_t first, double top)
{
    size_t n = f->closing.draws.n - first, C = c->C, mark = wv_arena_mark(f->arena);
    const double *log_m = f->closing.draws.log_m + first;
    double *v = wv_arena_take(f->arena, n), mean = 0, *beta = wv_arena_take(f->arena, C);
    for (size_t i = 0; i < n; i++) {
        v[i] = exp(f->closing.draws.log_p[first + i] - log_m[i] - top);
        mean += v[i] / (double)n;
    }
    wv_trace_set_ess(&f->trace, wv_weights_ess(n, v));
    calibrate(f, c, first);
    regress(f, c, first, v, mean, beta);
    double level = mean - cblas_ddot((int)C, beta, 1, c->mean, 1);
    if (!is_small(level, mean)) {
        memset(beta, 0, C * sizeof *beta);
        level = mean;
    }
    double variance = residual_variance(f, c, first, v, beta, level);
    wv_closing_set_weights(&f->closing, first, v);
    wv_arena_release(f->arena, mark);
    /* what the draws cannot show: the ridge and rounding; and where some points have no density, a share of
     * such points that n draws may well miss */
    double hidden = hypot(wv_policy.closing_hidden_se, f->count.bad_points + f->count.zero_points ? 1 / (double)n : 0);
    return (wvgd_estimate){top + log(level), hypot(sqrt(variance) / (double)n, hidden)};
}

wvgd_estimate wv_staged_closing_weigh(wvgd_fit *f, size_t first)
{
    wvgd_estimate e = {-INFINITY, INFINITY};
    size_t mark = wv_arena_mark(f->arena);
    closing_sources s = list_sources(f);
    const wv_squares *squares = measure(f, &s);
    double top = weigh_alone(f, &s, squares, first);
    if (isfinite(top)) {
        controls c = take_controls(f, &s, squares);
        e = estimate(f, &c, first, top);
    }
    wv_arena_release(f->arena, mark);
    return e;
}

/* ---- trial and final batch together ------------------------------------------------------------------------------ */
void wv_staged_closing_mixture_density(wvgd_fit *f)
{
    const wv_draws *set = &f->closing.draws;
    size_t mark = wv_arena_mark(f->arena);
    double *log_mix = wv_arena_take(f->arena, set->n);
    closing_sources s = list_sources(f);
    wv_sources sources = {component, &s, f->mix.K, f->D};
    wv_sources_log(&sources, set->n, set->x, measure(f, &s), log_mix, &f->workers);
    wv_draws_set_mixture(&f->closing.draws, log_mix);
    wv_arena_release(f->arena, mark);
}

/* Whether the trial had the proposals of the final batch, as it does unless they were improved in between: its draws
 * are then theirs, too. */
static bool join(const closing_sources *s)
{
    const wv_draws *set = s->set;
    size_t D = set->shape.D, n = s->n;
    bool same = set->batch[0].proposals == n && !memcmp(set->mu, set->mu + s->first * D, n * D * sizeof(double)) &&
                !memcmp(set->inverse, set->inverse + s->first * D * D, n * D * D * sizeof(double));
    for (size_t k = 0; k < n && same; k++) {
        s->draws[k] += set->draws[k];
        s->t_draws[k] += set->t_draws[k];
    }
    return same;
}

/* Log density of both batches together at all stored draws. */
static void weigh_together(wvgd_fit *f, const closing_sources *s, const wv_squares *squares)
{
    const size_t trial = 0;
    bool both = f->closing.draws.batches > 1, joined = both && join(s);
    wv_draws_weigh(&f->closing.draws, &(wv_sources){source, s, s->n, f->D}, squares, both && !joined ? &trial : NULL, 0,
                   &f->workers);
}

void wv_staged_closing_weigh_all(wvgd_fit *f)
{
    size_t n = f->closing.draws.n, mark = wv_arena_mark(f->arena);
    closing_sources s = list_sources(f);
    const wv_squares *squares = measure(f, &s);
    controls c = take_controls(f, &s, squares);
    double *less = wv_arena_take(f->arena, WV_BLOCK);
    weigh_together(f, &s, squares);
    calibrate(f, &c, 0);
    for (size_t at = 0; at < n; at += WV_BLOCK) {
        size_t here = block_at(n, at);
        see_controls(f, &c, at, here);
        for (size_t i = 0; i < here; i++) {
            double omega = 1;
            for (size_t k = 0; k < c.C; k++)
                omega -= (c.h[i * c.C + k] - c.mean[k]) * c.tilt[k];
            less[i] = log(fmin(fmax(omega, wv_policy.closing_omega_least), wv_policy.closing_omega_most));
        }
        wv_draws_lower(&f->closing.draws, at, here, less);
    }
    wv_arena_release(f->arena, mark);
}
