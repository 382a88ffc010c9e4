/* cell_refine.c - cells.c fits the components of the cells to the mixture, corrected by what the closing draws say:
 * as good as these. A single component is all that there is of the posterior, and a diagonal one looks at places
 * where the closing draws are few, so those are fitted to the posterior itself: rounds of draws of every component,
 * natural gradient steps on all of them, with deterministic-mixture weights (draws.c). */
#include "staged/cell_refine.h"
#include "fit.h"
#include "gaussian.h"
#include "nearest.h"
#include "dense.h"
#include "evidence.h"
#include "staged/mixture_fit.h"
#include "staged/cells.h"
#include "draws.h"
#include "update/update.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum {
    ROUNDS = 12, /* rounds */
    /* of these, with several diagonal components, on one for the whole space, from which any of them may begin */
    ALONE = 8
};

static const double settled = 1e-4; /* nats of a full step, for each parameter, that are none */

bool wv_cell_refine_wanted(const wvgd_fit *f)
{
    return (f->N == 1 || (f->family != wv_family_get(WVGD_FULL) && f->D > 2)) &&
           2 * f->N + 1 <= wv_draws_components(f) && f->stop == WVGD_CONVERGED;
}

/* The diagonal Gaussian that is best for the whole space: with its restriction to every cell the cells are no worse
 * than one component. Kept where the joint solver has its pilot's best. */
static bool has_whole(const wvgd_fit *f)
{
    return f->N > 1 && f->prefit.wanted;
}

static wv_gaussian whole(const wvgd_fit *f)
{
    return (wv_gaussian){f->family, f->D, f->R, f->prefit.best, f->prefit.best + f->D, 0};
}

static bool on_whole(const wvgd_fit *f)
{
    return has_whole(f) && f->cells.refined < ALONE;
}

/* Draws of a component in a round. */
static size_t draws(const wvgd_fit *f)
{
    size_t D = f->D,
           n = f->N > 1                                ? (on_whole(f) ? 4 : 2) * D
               : f->family == wv_family_get(WVGD_DIAG) ? 8 * D
                                                       : 10 * D,
           least = f->N == 1 ? 40 : 20;
    return n > least ? n + n % 2 : least;
}

/* The last round with several components: what they began with is drawn from too, and the better of both is kept. */
static bool judging(const wvgd_fit *f)
{
    return f->N > 1 && f->cells.refined + 1 == ROUNDS;
}

static wv_gaussian start(const wvgd_fit *f, size_t j)
{
    return (wv_gaussian){
        f->family, f->D, f->R, f->cells.best.mu + j * f->D, f->cells.best.root + j * f->family->size(f->D, f->R), 0};
}

static void begin_whole(wvgd_fit *f)
{
    size_t D = f->D;
    double *P = f->desk.square[0];
    memcpy(f->prefit.best, f->posterior.mean, D * sizeof(double));
    memcpy(P, f->prefit.root, D * D * sizeof *P);
    bool inverted = LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'U', (lapack_int)D, P, (lapack_int)D) == 0;
    for (size_t i = 0; i < D; i++)
        f->prefit.best[D + i] = inverted && P[i * D + i] > 0 ? 1 / sqrt(P[i * D + i]) : sqrt(f->posterior.var[i]);
}

void wv_cell_refine_begin(wvgd_fit *f)
{
    f->stage = WV_REFINE;
    wv_draws_clear(f);
    if (has_whole(f))
        begin_whole(f);
    memcpy(f->cells.best.mu, f->cells.now.mu, f->N * f->D * sizeof(double)); /* what it began with */
    memcpy(f->cells.best.root, f->cells.now.root, f->N * f->family->size(f->D, f->R) * sizeof(double));
}

/* n draws of q join the batch, as a proposal with a full root of its own. */
static void propose(wvgd_fit *f, const wv_gaussian *q, uint64_t key)
{
    size_t D = f->D, c = f->proposals.n, n = draws(f);
    double *root = f->shared.mix_root + c * D * D;
    wv_stream stream = {f->opt.seed, WV_RNG_FIT, f->count.batch, key};
    wv_gaussian_cov(q, root, f->arena);
    if (!wv_dense_chol(D, root, f->desk.square[0]))
        return;
    f->proposals.p[c].q = (wv_gaussian){wv_family_get(WVGD_FULL), D, 0, q->mu, root, q->nu};
    f->proposals.share[c] = n;
    if (q->nu > 0)
        wv_gaussian_draw(q, &stream, 0, n, true, f->b.x + f->b.n * D, f->arena);
    else
        wv_mixture_fit_spread(f, &f->proposals.p[c].q, &stream, n, f->b.x + f->b.n * D);
    f->proposals.n++;
    f->b.n += n;
}

wvgd_status wv_cell_refine_ask(wvgd_fit *f, wvgd_error *error)
{
    (void)error;
    f->b.n = f->proposals.n = 0;
    if (has_whole(f) && f->cells.refined <= ALONE) {
        wv_gaussian q = whole(f);
        propose(f, &q, 0);
    }
    for (size_t j = 0; j < f->N && !on_whole(f); j++)
        for (int other = 0; other <= (judging(f) || f->cells.around[j] > 0); other++) {
            wv_gaussian q = !other       ? wv_partition_component(&f->cells, j)
                            : judging(f) ? start(f, j)
                                         : wv_partition_around(&f->cells, j);
            propose(f, &q, 2 * j + 1 + (uint64_t)other);
        }
    return WVGD_OK;
}

/* Cells of all points of the pool into f->shared.order. */
static void assign(wvgd_fit *f)
{
    size_t n = wv_draws_size(f);
    for (size_t first = 0; first < n; first += WV_FREE) {
        size_t here = n - first < WV_FREE ? n - first : WV_FREE;
        wv_nearest_assign(f, here, f->pool.x + first * f->D, f->shared.order + first, f->desk.free_cost,
                          f->desk.free_cost + WV_FREE);
    }
}

/* Points of the pool that lie in cell j (N: anywhere), gathered, with weights f->desk.gu that stand for q there; *elbo:
 * the ELBO of q on the cell. Returns how many. */
static size_t gather(wvgd_fit *f, const wv_gaussian *q, size_t j, double *elbo)
{
    size_t n = wv_draws_size(f), D = f->D, kept = 0;
    double sum = 0;
    wv_gaussian_log_density(q, n, f->pool.x, f->shared.mix_log, f->desk.y, f->arena);
    for (size_t i = 0; i < n; i++)
        f->desk.psi[i] = f->shared.mix_log[i] - f->pool.log_sum[i];
    *elbo = -INFINITY;
    if (!wv_weights_normalise(n, f->desk.psi, f->desk.glu))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (f->desk.glu[i] > 0 && f->pool.log_p[i] > -INFINITY && (f->shared.order[i] == j || j == f->N || f->N == 1)) {
            memcpy(f->desk.gx + kept * D, f->pool.x + i * D, D * sizeof(double));
            memcpy(f->desk.gg + kept * D, f->pool.grad + i * D, D * sizeof(double));
            f->desk.glp[kept] = f->pool.log_p[i];
            f->desk.gr[kept] = f->pool.log_p[i] - f->shared.mix_log[i];
            sum += f->desk.gu[kept++] = f->desk.glu[i];
        }
    if (!(sum > 0))
        return 0;
    cblas_dscal((int)kept, 1 / sum, f->desk.gu, 1);
    *elbo = log(sum) + cblas_ddot((int)kept, f->desk.gu, 1, f->desk.gr, 1);
    return kept;
}

/* One step of the component with location mu and the given root, fitted on cell j (N: everywhere); returns the nats
 * of a full step, NAN: it could not be taken. */
static double step(wvgd_fit *f, size_t j, double *mu, double *root, double rho)
{
    double elbo;
    wv_gaussian q = {f->family, f->D, f->R, mu, root, 0};
    size_t n = gather(f, &q, j, &elbo);
    wv_update c = {.estimator = WVGD_NATURAL,
                   .family = f->family,
                   .R = f->R,
                   .mu = mu,
                   .root = root,
                   .n = n,
                   .x = f->desk.gx,
                   .log_p = f->desk.glp,
                   .grad = f->desk.gg,
                   .u = f->desk.gu,
                   .ess = n ? wv_weights_ess(n, f->desk.gu) : 0,
                   .precondition = f->prefit.wanted ? f->prefit.root : NULL,
                   .rho = rho,
                   .truncated = f->N > 1 && j < f->N};
    wv_update_result r = c.ess >= 4 && c.ess > (double)draws(f) / 3 ? wv_update_component(f, &c)
                                                                    : (wv_update_result){false, 0};
    return r.ok ? r.kl : NAN;
}

static void put(wvgd_fit *f, size_t j, const double *mu, const double *root)
{
    size_t size = f->family->size(f->D, f->R);
    memcpy(f->cells.now.mu + j * f->D, mu, f->D * sizeof *mu);
    memcpy(f->cells.now.root + j * size, root, size * sizeof *root);
}

/* Components that are worse on their cells than the one for the whole space begin with that; what
 * they begin with is kept. */
static void choose_starts(wvgd_fit *f)
{
    size_t D = f->D, size = f->family->size(D, f->R);
    wv_gaussian all = whole(f);
    for (size_t j = 0; j < f->N; j++) {
        double own, other;
        wv_gaussian q = wv_partition_component(&f->cells, j);
        gather(f, &q, j, &own);
        gather(f, &all, j, &other);
        if (other > own)
            put(f, j, all.mu, all.root);
        memcpy(f->cells.best.mu + j * D, f->cells.now.mu + j * D, D * sizeof(double));
        memcpy(f->cells.best.root + j * size, f->cells.now.root + j * size, size * sizeof(double));
    }
}

static void keep_better(wvgd_fit *f)
{
    for (size_t j = 0; j < f->N; j++) {
        double now, before;
        wv_gaussian q = wv_partition_component(&f->cells, j), old = start(f, j);
        gather(f, &q, j, &now);
        gather(f, &old, j, &before);
        if (before > now)
            put(f, j, old.mu, old.root);
    }
}

/* A component that is alone and has run away, as it does where the density has no end, goes back to where it began. */
static void catch_runaway(wvgd_fit *f)
{
    wv_gaussian q = wv_partition_component(&f->cells, 0), old = start(f, 0);
    double now = f->family->log_det(f->D, f->R, q.root), before = f->family->log_det(f->D, f->R, old.root);
    if (f->N == 1 && !(fabs(now - before) < 5 * (double)f->D))
        put(f, 0, old.mu, old.root);
}

wvgd_status wv_cell_refine_tell(wvgd_fit *f, wvgd_error *error)
{
    bool diagonal = f->family == wv_family_get(WVGD_DIAG);
    double kl = 0, D = (double)f->D, parameters = diagonal ? 2 * D : D * (D + 3) / 2;
    size_t size = f->family->size(f->D, f->R),
           at = on_whole(f) || !has_whole(f) ? f->cells.refined : f->cells.refined - ALONE;
    double rho = diagonal && (f->N == 1 || on_whole(f)) ? 1 / (double)(at + 1) : 0.5 / fmax(1, (double)at);
    (void)error;
    /* draws of the component itself, in mirrored pairs, tell more than these and older ones with unequal weights */
    wv_draws_clear(f);
    wv_draws_take(f, &f->b);
    assign(f);
    if (on_whole(f))
        step(f, f->N, f->prefit.best, f->prefit.best + f->D, rho);
    else if (judging(f))
        keep_better(f);
    else {
        if (has_whole(f) && f->cells.refined == ALONE)
            choose_starts(f);
        for (size_t j = 0; j < f->N; j++)
            kl += f->cells.weight[j] * step(f, j, f->cells.now.mu + j * f->D, f->cells.now.root + j * size, rho);
    }
    f->cells.refined++;
    if ((f->N == 1 && kl < (f->cells.refined > 2 ? 1 : 0.01) * settled * parameters) || f->cells.refined == ROUNDS ||
        f->stop != WVGD_CONVERGED) {
        catch_runaway(f);
        wv_cells_weigh(f);
    }
    return WVGD_OK;
}

void wv_cell_refine_weigh(wvgd_fit *f)
{
    assign(f);
    for (size_t j = 0; j < f->N; j++) {
        wv_gaussian q = wv_partition_component(&f->cells, j);
        if (!gather(f, &q, j, &f->cells.elbo[j]) || !(f->cells.log_Z[j] > -INFINITY))
            f->cells.elbo[j] = -INFINITY;
    }
    wv_evidence_weights(f->N, f->cells.elbo, f->cells.weight);
}

double wv_cell_refine_price(wvgd_fit *f, const wv_gaussian *control, double se)
{
    size_t b = f->pool.batches, first, n;
    double sum = 0, squares = 0, pairs = 0;
    if (!b || !f->cells.refined)
        return 0;
    first = f->pool.batch[b - 1].first;
    n = f->pool.batch[b - 1].n;
    wv_gaussian_log_density(control, n, f->pool.x + first * f->D, f->desk.psi, f->desk.y, f->arena);
    for (size_t i = 0; i + 1 < n; i += 2) {
        double d = (f->pool.log_p[first + i] - f->desk.psi[i] + f->pool.log_p[first + i + 1] - f->desk.psi[i + 1]) / 2;
        if (!isfinite(d))
            continue;
        sum += d;
        squares += d * d;
        pairs++;
    }
    return pairs > 2 ? 2 * fmax(squares / pairs - sum * sum / pairs / pairs, 0) / (se * se) : 0;
}
