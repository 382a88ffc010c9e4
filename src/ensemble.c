/* ensemble.c - the result as a distribution: q_ens(z) = sum_j w_j q(z; theta_j) 1[z in L_j] / Z_j, and the
 * closing draws as weighted posterior draws. */
#include "nearest.h"
#include "gaussian.h"
#include "posterior.h"
#include "rng.h"
#include "fit.h"
#include "staged/modes.h"
#include "moments.h"
#include "weights.h"
#include <math.h>
#include <string.h>

static wvgd_status ended(const wvgd_fit *f, wvgd_error *error)
{
    if (f->stage != WV_DONE)
        return wv_fail(error, WVGD_E_ARGUMENT, "the fit has not ended: run it first");
    return WVGD_OK;
}

wvgd_status wvgd_cell(const wvgd_fit *f, size_t n, const double *z, size_t *cell, wvgd_error *error)
{
    wvgd_status status = ended(f, error);
    for (size_t first = 0; status == WVGD_OK && first < n; first += f->size.n_max) {
        size_t here = n - first < f->size.n_max ? n - first : f->size.n_max;
        wv_nearest_assign(f, here, z + first * f->D, f->b.cell, f->b.near, f->b.next);
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

/* ---- components and their cells ---------------------------------------------------------------------------------- */
enum { NONE = UINT32_MAX };

/* Points that are looked at together. */
static size_t piece(const wvgd_fit *f)
{
    size_t most = (1 << 19) / f->D;
    return most < 1 ? 1 : most < WV_FREE ? most : WV_FREE;
}

/* f->shared.start[j]: the first cell with the component of cell j. What is drawn or worked out for one serves all of
 * them. */
static void find_first(const wvgd_fit *f)
{
    for (size_t j = 0; j < f->N; j++)
        for (f->shared.start[j] = 0; !wv_partition_same(&f->cells, f->shared.start[j], j);)
            f->shared.start[j]++;
}

/* Chains of the points whose cells are in f->b.cell, in their order: f->shared.member[j] is the first of cell j, or of
 * all that have the component of that one, f->shared.order[i] the next after point i. */
static void chain(const wvgd_fit *f, size_t n, bool components)
{
    for (size_t j = 0; j < f->N; j++)
        f->shared.member[j] = NONE;
    for (size_t i = n; i-- > 0;) {
        size_t j = components ? f->shared.start[f->b.cell[i]] : f->b.cell[i];
        f->shared.order[i] = f->shared.member[j];
        f->shared.member[j] = (uint32_t)i;
    }
}

wvgd_status wvgd_log_q(const wvgd_fit *f, size_t n, const double *z, double *log_q, wvgd_error *error)
{
    wvgd_status status = ended(f, error);
    if (status == WVGD_OK)
        find_first(f);
    for (size_t first = 0, most = piece(f); status == WVGD_OK && first < n; first += most) {
        size_t here = n - first < most ? n - first : most, D = f->D;
        const double *x = z + first * D;
        wv_nearest_assign(f, here, x, f->b.cell, f->b.near, f->b.next);
        chain(f, here, true);
        for (size_t j = 0; j < f->N; j++) {
            size_t k = 0;
            wv_gaussian q = wv_partition_component(&f->cells, j);
            for (uint32_t i = f->shared.member[j]; i != NONE; i = f->shared.order[i])
                memcpy(f->desk.gx + k++ * D, x + i * D, D * sizeof *x);
            if (k)
                wv_gaussian_log_density(&q, k, f->desk.gx, f->desk.psi, f->desk.y, f->arena);
            k = 0;
            for (uint32_t i = f->shared.member[j]; i != NONE; i = f->shared.order[i], k++) {
                size_t cell = f->b.cell[i];
                bool lives = f->cells.weight[cell] > 0 && f->cells.log_Z[cell] > -INFINITY;
                log_q[first + i] = lives ? log(f->cells.weight[cell]) + f->desk.psi[k] - f->cells.log_Z[cell]
                                         : -INFINITY;
            }
        }
    }
    return status;
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
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

/* A cell that its component does not find: the closing draw in it with the largest q_j weight times a random number. */
static void draw_stored(const wvgd_fit *f, size_t j, const wv_stream *stream, double *z)
{
    double best = -INFINITY;
    memcpy(z, f->cells.now.z + j * f->D, f->D * sizeof *z);
    for (size_t i = 0; i < f->closing.draws.n; i++)
        if (f->closing.draws.cell[i] == j) { /* Gumbel trick: a categorical draw in one pass */
            double u, key;
            wv_rng_uniform(stream, i, 1, &u);
            key = f->closing.draws.log_q[i] - f->closing.draws.log_m[i] - log(-log(u));
            if (key > best) {
                best = key;
                memcpy(z, f->closing.draws.x + i * f->D, f->D * sizeof *z);
            }
        }
}

/* A cell that its component hardly reaches into, far out in its tail, would take thousands of tries for a draw. */
static bool remote(const wvgd_fit *f, size_t j)
{
    return f->cells.log_Z[j] < -7;
}

/* There points around the particle are candidates: one of those in the cell, by their weights q_j over
 * the density that they were drawn from. */
static void draw_remote(const wvgd_fit *f, size_t j, const wv_stream *stream, double *z)
{
    enum { CANDIDATES = 256 };
    size_t D = f->D, n = piece(f) < CANDIDATES ? piece(f) : CANDIDATES, chosen = n;
    wv_gaussian q = wv_partition_component(&f->cells, j), r = wv_partition_around(&f->cells, j);
    double best = -INFINITY, *log_q = f->desk.psi, *log_r = f->desk.moving;
    wv_gaussian_draw(&r, stream, 0, n, false, f->desk.gy, f->arena);
    wv_nearest_assign(f, n, f->desk.gy, f->desk.free_cell, f->desk.free_cost, f->desk.free_cost + WV_FREE);
    wv_gaussian_log_density(&q, n, f->desk.gy, log_q, f->desk.y, f->arena);
    wv_gaussian_log_density(&r, n, f->desk.gy, log_r, f->desk.y, f->arena);
    for (size_t i = 0; i < n; i++) {
        double u, key;
        wv_rng_uniform(stream, n + i, 1, &u);
        key = log_q[i] - log_r[i] - log(-log(u));
        if (f->desk.free_cell[i] == j && key > best) {
            best = key;
            chosen = i;
        }
    }
    if (chosen < n)
        memcpy(z, f->desk.gy + chosen * D, D * sizeof *z);
    else
        draw_stored(f, j, stream, z);
}

/* Draws of one component for the cells that have it, tried one after the other until each of the `wanted`
 * draws in the chains of these has one. */
typedef struct {
    const wvgd_fit *f;
    wv_stream stream;
    uint64_t first; /* number of the first draw z */
    size_t wanted;
    double *z;
} trying;

/* Whether the next draw of cell j has seen so many tries miss that it is taken from the closing
 * draws; `tried`: tries so far. */
static bool give_up(trying *t, size_t j, double tried)
{
    enum { TRIES = 20000 };
    const wvgd_fit *f = t->f;
    double *since = f->shared.cell_spare; /* [N] the try after which the last draw was found */
    uint32_t i = f->shared.member[j];
    if (i == NONE || tried < since[j] + TRIES)
        return false;
    wv_stream own = t->stream;
    own.component = ~(t->first + i);
    draw_stored(f, j, &own, t->z + i * f->D);
    f->shared.member[j] = f->shared.order[i];
    since[j] += TRIES;
    t->wanted--;
    return true;
}

static void try_component(trying *t, size_t j)
{
    const wvgd_fit *f = t->f;
    size_t D = f->D, most = piece(f), n;
    wv_gaussian q = wv_partition_component(&f->cells, j);
    for (uint64_t tried = 0; t->wanted; tried += n) {
        n = 2 * t->wanted < 64 ? 64 : 2 * t->wanted;
        n = n < most ? n : most;
        wv_gaussian_draw(&q, &t->stream, tried, n, false, f->desk.gy, f->arena);
        wv_nearest_assign(f, n, f->desk.gy, f->desk.free_cell, f->desk.free_cost, f->desk.free_cost + WV_FREE);
        for (size_t k = 0; k < n; k++) {
            size_t cell = f->desk.free_cell[k];
            if (f->shared.start[cell] != j)
                continue;
            while (give_up(t, cell, (double)(tried + k)))
                ;
            uint32_t i = f->shared.member[cell];
            if (i == NONE)
                continue;
            memcpy(t->z + i * D, f->desk.gy + k * D, D * sizeof *t->z);
            f->shared.member[cell] = f->shared.order[i];
            f->shared.cell_spare[cell] = (double)(tried + k + 1);
            t->wanted--;
        }
        for (size_t cell = j; cell < f->N; cell++)
            while (f->shared.start[cell] == j && give_up(t, cell, (double)(tried + n)))
                ;
    }
}

/* By pieces of 4096, in each of which the k-th draw in a cell is the k-th try that was found there: the draws before
 * it are the same however many are asked for. */
wvgd_status wvgd_sample(const wvgd_fit *f, uint64_t stream, size_t n, double *z, size_t *cell, wvgd_error *error)
{
    wvgd_status status = ended(f, error);
    wv_stream s = {f->opt.seed, WV_RNG_SAMPLE, stream, 0};
    double u, *wanted = f->shared.step_kl; /* [N] draws of each component */
    if (status == WVGD_OK)
        find_first(f);
    for (size_t first = 0; status == WVGD_OK && first < n; first += WV_FREE) {
        size_t here = n - first < WV_FREE ? n - first : WV_FREE;
        memset(wanted, 0, f->N * sizeof *wanted);
        memset(f->shared.cell_spare, 0, f->N * sizeof(double));
        for (size_t i = 0; i < here; i++) {
            wv_rng_uniform(&s, first + i, 1, &u);
            size_t j = pick(f->N, f->cells.weight, u);
            f->b.cell[i] = (uint32_t)j;
            wanted[f->shared.start[j]] += !remote(f, j);
            if (cell)
                cell[first + i] = j;
        }
        chain(f, here, false);
        for (size_t j = 0; j < f->N; j++)
            for (; remote(f, j) && f->shared.member[j] != NONE;
                 f->shared.member[j] = f->shared.order[f->shared.member[j]]) {
                wv_stream own = s;
                own.component = ~(uint64_t)(first + f->shared.member[j]); /* which no component has */
                draw_remote(f, j, &own, z + (first + f->shared.member[j]) * f->D);
            }
        for (size_t j = 0; j < f->N; j++) {
            trying t = {f, s, first, (size_t)wanted[j], z + first * f->D};
            t.stream.component = first / WV_FREE * f->N + j + 1;
            try_component(&t, j);
        }
    }
    return status;
}

wvgd_status wvgd_resample(const wvgd_fit *f, uint64_t stream, size_t n, double *z, size_t *index, wvgd_error *error)
{
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    wv_weights_normalise(f->closing.draws.n, f->closing.smooth, f->shared.close_spare);
    wv_stream s = {f->opt.seed, WV_RNG_RESAMPLE, stream, 0};
    double u, u_order, sum = f->shared.close_spare[0];
    wv_rng_uniform(&s, 0, 1, &u);
    for (size_t i = 0, k = 0; i < n; i++) {
        /* systematic: one random number, every point used as often as its weight says */
        double at = ((double)i + u) / (double)n;
        while (sum < at && k + 1 < f->closing.draws.n)
            sum += f->shared.close_spare[++k];
        /* in random order (each new draw changes places with a random earlier one), so that readers who
         * expect a chain see independent draws */
        wv_rng_uniform(&s, i + 1, 1, &u_order);
        size_t j = (size_t)(u_order * (double)(i + 1));
        j = j < i ? j : i;
        memmove(z + i * f->D, z + j * f->D, f->D * sizeof *z);
        memcpy(z + j * f->D, f->closing.draws.x + k * f->D, f->D * sizeof *z);
        if (index) {
            index[i] = index[j];
            index[j] = k;
        }
    }
    return WVGD_OK;
}

const double *wvgd_draw_weights(const wvgd_fit *f)
{
    return f->stage == WV_DONE ? f->closing.calibrated : NULL;
}

wvgd_status wvgd_expect(const wvgd_fit *fit, size_t m, const double *value, double *mean, double *var, double *mcse,
                        wvgd_error *error)
{
    wvgd_fit *f = (wvgd_fit *)(uintptr_t)fit; /* scratch of its own is written to */
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    if (f->staged)
        wv_moments_of(f, m, value, mean, var, mcse);
    else
        wv_posterior_moments(f, m, value, mean, var, mcse);
    return WVGD_OK;
}

wvgd_status wvgd_draws(const wvgd_fit *f, size_t *n, const double **z, const double **log_p, const double **log_w,
                       const uint32_t **cell, wvgd_error *error)
{
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    if (n)
        *n = f->closing.draws.n;
    if (z)
        *z = f->closing.draws.x;
    if (log_p)
        *log_p = f->closing.draws.log_p;
    if (log_w)
        *log_w = f->closing.log_w;
    if (cell)
        *cell = f->closing.draws.cell;
    return WVGD_OK;
}
