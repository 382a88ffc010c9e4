/* ensemble.c - the result as a distribution: q_ens(z) = sum_j w_j q(z; theta_j) 1[z in L_j] / Z_j, and the
 * closing draws as weighted posterior draws. */
#include "nearest.h"
#include "gaussian.h"
#include "posterior.h"
#include "rng.h"
#include "describe.h"
#include "fit.h"
#include "interval.h"
#include "staged/bent_cells.h"
#include "staged/modes.h"
#include "policy.h"
#include "weights.h"
#include <math.h>
#include <string.h>

static wvgd_status ended(const wvgd_fit *f, wvgd_error *error)
{
    if (f->stage != WV_DONE)
        return wv_fail(error, WVGD_E_ARGUMENT, "the fit has not finished: run it first");
    return WVGD_OK;
}

/* Cells of n points, with costs to the nearest and the second nearest particle. */
typedef struct {
    uint32_t *cell;
    double *near, *next;
} nearest_cells;

static nearest_cells take_cells(const wvgd_fit *f, size_t n)
{
    return (nearest_cells){wv_arena_take_index(f->arena, n), wv_arena_take(f->arena, n), wv_arena_take(f->arena, n)};
}

static void find_cells(const wvgd_fit *f, size_t n, const double *x, const nearest_cells *at)
{
    wv_geometry g = wv_partition_geometry(&f->cells);
    wv_nearest_assign(&g, n, x, at->cell, at->near, at->next, f->arena);
}

wvgd_status wvgd_cell(const wvgd_fit *f, size_t n, const double *z, size_t *cell, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_cell", "fit", f) || (n && wv_missing(error, "wvgd_cell", "z", z)) ||
        (n && wv_missing(error, "wvgd_cell", "cell", cell)))
        return WVGD_E_ARGUMENT;
    wvgd_status status = ended(f, error);
    size_t mark = wv_arena_mark(f->arena), most = n < f->size.n_max ? n : f->size.n_max;
    nearest_cells at = take_cells(f, most);
    for (size_t first = 0; status == WVGD_OK && first < n; first += most) {
        size_t here = n - first < most ? n - first : most;
        find_cells(f, here, z + first * f->D, &at);
        for (size_t i = 0; i < here; i++)
            cell[first + i] = at.cell[i];
    }
    wv_arena_release(f->arena, mark);
    return status;
}

wvgd_status wvgd_mode(const wvgd_fit *fit, size_t n, const double *z, size_t *mode, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_mode", "fit", fit) || (n && wv_missing(error, "wvgd_mode", "z", z)) ||
        (n && wv_missing(error, "wvgd_mode", "mode", mode)))
        return WVGD_E_ARGUMENT;
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
    size_t most = (size_t)wv_policy.ensemble_piece / f->D;
    return most < 1 ? 1 : most < WV_FREE ? most : WV_FREE;
}

/* [N] the first cell with the component of each cell, from the arena. What is drawn or worked out for one serves all
 * cells with that component. */
static const size_t *find_first(const wvgd_fit *f)
{
    size_t *first = wv_arena_take_sizes(f->arena, f->N);
    wv_partition_first_same(&f->cells, first, f->arena);
    return first;
}

/* Points in chains, one for each cell, or for each component under the first cell that has it; in each the points
 * have the order that they were given in. */
typedef struct {
    uint32_t *first; /* [N] first point of a chain, or NONE */
    uint32_t *after; /* [n] the next point of its chain, or NONE */
} chains;

static chains take_chains(const wvgd_fit *f, size_t n)
{
    return (chains){wv_arena_take_index(f->arena, f->N), wv_arena_take_index(f->arena, n)};
}

/* Chains of n points that lie in the cells cell[n]. leader: [N] the cell whose chain a cell's points go to; NULL: its
 * own. */
static void link_chains(const chains *c, size_t N, size_t n, const uint32_t *cell, const size_t *leader)
{
    for (size_t j = 0; j < N; j++)
        c->first[j] = NONE;
    for (size_t i = n; i-- > 0;) {
        size_t j = leader ? leader[cell[i]] : cell[i];
        c->after[i] = c->first[j];
        c->first[j] = (uint32_t)i;
    }
}

/* Takes the first point of chain j away. */
static void drop_first(const chains *c, size_t j)
{
    c->first[j] = c->after[c->first[j]];
}

static size_t length(const chains *c, size_t j)
{
    size_t n = 0;
    for (uint32_t i = c->first[j]; i != NONE; i = c->after[i])
        n++;
    return n;
}

/* log q_ens of the points x[][D] in chain j, which lie in the cells cell[] and have the component of cell j. */
static void log_q_of_chain(const wvgd_fit *f, const chains *c, size_t j, const double *x, const uint32_t *cell,
                           double *log_q)
{
    size_t mark = wv_arena_mark(f->arena), D = f->D, n = length(c, j), k = 0;
    wv_gaussian q = wv_partition_component(&f->cells, j);
    double *chained = wv_arena_take(f->arena, n * D), *log_component = wv_arena_take(f->arena, n); /* [n][D], [n] */
    for (uint32_t i = c->first[j]; i != NONE; i = c->after[i])
        memcpy(chained + k++ * D, x + i * D, D * sizeof *x);
    if (n)
        wv_bent_cells_log_density(f, &q, n, chained, log_component);
    k = 0;
    for (uint32_t i = c->first[j]; i != NONE; i = c->after[i], k++) {
        double weight = f->cells.weight[cell[i]], log_Z = f->cells.log_Z[cell[i]];
        log_q[i] = weight > 0 && log_Z > -INFINITY ? log(weight) + log_component[k] - log_Z : -INFINITY;
    }
    wv_arena_release(f->arena, mark);
}

wvgd_status wvgd_log_q(const wvgd_fit *f, size_t n, const double *z, double *log_q, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_log_q", "fit", f) || (n && wv_missing(error, "wvgd_log_q", "z", z)) ||
        (n && wv_missing(error, "wvgd_log_q", "log_q", log_q)))
        return WVGD_E_ARGUMENT;
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    size_t mark = wv_arena_mark(f->arena), most = piece(f);
    const size_t *leader = find_first(f);
    nearest_cells at = take_cells(f, most);
    chains c = take_chains(f, most);
    for (size_t first = 0; first < n; first += most) {
        size_t here = n - first < most ? n - first : most;
        const double *x = z + first * f->D;
        find_cells(f, here, x, &at);
        link_chains(&c, f->N, here, at.cell, leader);
        for (size_t j = 0; j < f->N; j++)
            log_q_of_chain(f, &c, j, x, at.cell, log_q + first);
    }
    wv_arena_release(f->arena, mark);
    return WVGD_OK;
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

/* For a cell that draws of its component miss: one of its closing draws, with probability in proportion to q_j/m. */
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

/* Whether the component of cell j has so little mass in the cell that a draw would take thousands of tries. */
static bool remote(const wvgd_fit *f, size_t j)
{
    return f->cells.log_Z[j] < wv_policy.ensemble_remote;
}

/* Candidates are points around the particle; one of those in the cell is chosen, with weights q_j over the density that
 * they were drawn from. In one dimension the component truncated to the cell is drawn from directly. */
static void draw_remote(const wvgd_fit *f, size_t j, const wv_stream *stream, double *z)
{
    wv_geometry g = wv_partition_geometry(&f->cells);
    if (wv_interval_cells(&g)) {
        size_t mark = wv_arena_mark(f->arena);
        wv_gaussian q = wv_partition_component(&f->cells, j);
        wv_intervals cell = wv_interval_cell(&g, j, f->arena);
        wv_interval_draw(&cell, &q, stream, 0, 1, z);
        wv_arena_release(f->arena, mark);
        return;
    }
    size_t mark = wv_arena_mark(f->arena), D = f->D, most = (size_t)wv_policy.ensemble_candidates,
           n = piece(f) < most ? piece(f) : most, chosen = n;
    wv_gaussian q = wv_partition_component(&f->cells, j), r = wv_partition_proposal(&f->cells, j);
    double best = -INFINITY, *x = wv_arena_take(f->arena, n * D), *y = wv_arena_take(f->arena, n * D),
           *log_q = wv_arena_take(f->arena, n), *log_r = wv_arena_take(f->arena, n);
    nearest_cells at = take_cells(f, n);
    wv_gaussian_draw(&r, stream, 0, n, false, x, f->arena);
    find_cells(f, n, x, &at);
    wv_bent_cells_log_density(f, &q, n, x, log_q);
    wv_gaussian_log_density(&r, n, x, log_r, y, f->arena);
    for (size_t i = 0; i < n; i++) {
        double u, key;
        wv_rng_uniform(stream, n + i, 1, &u);
        key = log_q[i] - log_r[i] - log(-log(u));
        if (at.cell[i] == j && key > best) {
            best = key;
            chosen = i;
        }
    }
    if (chosen < n)
        memcpy(z, x + chosen * D, D * sizeof *z);
    else
        draw_stored(f, j, stream, z);
    wv_arena_release(f->arena, mark);
}

/* Draws of the ensemble, some at a time. */
typedef struct {
    const wvgd_fit *f;
    wv_stream stream;
    uint64_t first;       /* number of the first draw z */
    double *z;            /* [n][D] */
    const size_t *leader; /* [N] the first cell with the component of each cell */
    chains missing;       /* draws that are still to be made, by cells */
    double *since;        /* [N] the try after which the last draw of a cell was found */
    size_t *wanted;       /* [N] draws of each component still to be made, at its first cell */
} drawing;

/* Takes x for the next draw that is missing in cell j. */
static void take_draw(drawing *d, size_t j, const double *x)
{
    memcpy(d->z + d->missing.first[j] * d->f->D, x, d->f->D * sizeof *x);
    drop_first(&d->missing, j);
    d->wanted[d->leader[j]]--;
}

/* Whether the next draw of cell j has seen so many tries miss that it is taken from the closing
 * draws; `tried`: tries so far. */
static bool give_up(drawing *d, size_t j, double tried)
{
    uint32_t i = d->missing.first[j];
    if (i == NONE || tried < d->since[j] + wv_policy.ensemble_tries)
        return false;
    wv_stream own = d->stream;
    own.component = ~(d->first + i);
    draw_stored(d->f, j, &own, d->z + i * d->f->D);
    drop_first(&d->missing, j);
    d->since[j] += wv_policy.ensemble_tries;
    d->wanted[d->leader[j]]--;
    return true;
}

/* Tries x[n][D], which lie in the cells cell[n], go to the cells with the component of cell j that miss draws;
 * `tried`: tries before them. */
static void deal(drawing *d, size_t j, uint64_t tried, size_t n, const double *x, const uint32_t *cell)
{
    for (size_t k = 0; k < n; k++) {
        if (d->leader[cell[k]] != j)
            continue;
        while (give_up(d, cell[k], (double)(tried + k)))
            ;
        if (d->missing.first[cell[k]] == NONE)
            continue;
        take_draw(d, cell[k], x + k * d->f->D);
        d->since[cell[k]] = (double)(tried + k + 1);
    }
    for (size_t other = j; other < d->f->N; other++)
        while (d->leader[other] == j && give_up(d, other, (double)(tried + n)))
            ;
}

static size_t tries_at_once(size_t wanted, size_t most)
{
    size_t least = (size_t)wv_policy.ensemble_tries_least, n = (size_t)wv_policy.ensemble_tries_each * wanted;
    n = n < least ? least : n;
    return n < most ? n : most;
}

/* Draws of the component of cell j for the cells that have it, tried one after the other until none is missing. */
static void try_component(drawing *d, size_t j)
{
    const wvgd_fit *f = d->f;
    size_t mark = wv_arena_mark(f->arena), most = piece(f), n;
    wv_gaussian q = wv_partition_component(&f->cells, j);
    double *x = wv_arena_take(f->arena, most * f->D); /* [most][D] tries */
    nearest_cells at = take_cells(f, most);
    wv_stream stream = d->stream;
    stream.component = d->first / WV_FREE * f->N + j + 1;
    for (uint64_t tried = 0; d->wanted[j]; tried += n) {
        n = tries_at_once(d->wanted[j], most);
        wv_bent_cells_draw(f, &q, &stream, tried, n, x);
        find_cells(f, n, x, &at);
        deal(d, j, tried, n, x, at.cell);
    }
    wv_arena_release(f->arena, mark);
}

/* Draws n, WV_FREE at most, by cells that the weights choose. */
static void draw_some(drawing *d, size_t n, size_t *cell)
{
    const wvgd_fit *f = d->f;
    size_t mark = wv_arena_mark(f->arena);
    uint32_t *of = wv_arena_take_index(f->arena, n); /* cell of each */
    memset(d->wanted, 0, f->N * sizeof *d->wanted);
    memset(d->since, 0, f->N * sizeof *d->since);
    for (size_t i = 0; i < n; i++) {
        double u;
        wv_rng_uniform(&d->stream, d->first + i, 1, &u);
        size_t j = pick(f->N, f->cells.weight, u);
        of[i] = (uint32_t)j;
        d->wanted[d->leader[j]] += !remote(f, j);
        if (cell)
            cell[i] = j;
    }
    link_chains(&d->missing, f->N, n, of, NULL);
    for (size_t j = 0; j < f->N; j++)
        for (; remote(f, j) && d->missing.first[j] != NONE; drop_first(&d->missing, j)) {
            wv_stream own = d->stream;
            own.component = ~(d->first + d->missing.first[j]); /* which no component has */
            draw_remote(f, j, &own, d->z + d->missing.first[j] * f->D);
        }
    for (size_t j = 0; j < f->N; j++)
        if (d->wanted[j])
            try_component(d, j);
    wv_arena_release(f->arena, mark);
}

/* By pieces of 4096, in each of which the k-th draw in a cell is the k-th try that was found there: the draws before
 * it are the same however many are asked for. */
wvgd_status wvgd_sample(const wvgd_fit *f, uint64_t stream, size_t n, double *z, size_t *cell, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_sample", "fit", f) || (n && wv_missing(error, "wvgd_sample", "z", z)))
        return WVGD_E_ARGUMENT;
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    size_t mark = wv_arena_mark(f->arena);
    drawing d = {.f = f,
                 .stream = {f->opt.seed, WV_RNG_SAMPLE, stream, 0},
                 .leader = find_first(f),
                 .missing = take_chains(f, WV_FREE),
                 .since = wv_arena_take(f->arena, f->N),
                 .wanted = wv_arena_take_sizes(f->arena, f->N)};
    for (size_t first = 0; first < n; first += WV_FREE) {
        d.first = first;
        d.z = z + first * f->D;
        draw_some(&d, n - first < WV_FREE ? n - first : WV_FREE, cell ? cell + first : NULL);
    }
    wv_arena_release(f->arena, mark);
    return WVGD_OK;
}

wvgd_status wvgd_resample(const wvgd_fit *f, uint64_t stream, size_t n, double *z, size_t *index, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_resample", "fit", f) || (n && wv_missing(error, "wvgd_resample", "z", z)))
        return WVGD_E_ARGUMENT;
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    size_t mark = wv_arena_mark(f->arena);
    double *weight = wv_arena_take(f->arena, f->closing.draws.n);
    wv_weights_normalise(f->closing.draws.n, f->closing.smooth, weight);
    wv_stream s = {f->opt.seed, WV_RNG_RESAMPLE, stream, 0};
    double u, u_order, sum = weight[0];
    wv_rng_uniform(&s, 0, 1, &u);
    for (size_t i = 0, k = 0; i < n; i++) {
        /* systematic: one random number, every point used as often as its weight says */
        double at = ((double)i + u) / (double)n;
        while (sum < at && k + 1 < f->closing.draws.n)
            sum += weight[++k];
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
    wv_arena_release(f->arena, mark);
    return WVGD_OK;
}

const double *wvgd_draw_weights(const wvgd_fit *f)
{
    return f && f->stage == WV_DONE ? f->closing.calibrated : NULL;
}

wvgd_status wvgd_expect(const wvgd_fit *fit, size_t m, const double *value, double *mean, double *var, double *mcse,
                        wvgd_error *error)
{
    if (wv_missing(error, "wvgd_expect", "fit", fit) || (m && wv_missing(error, "wvgd_expect", "value", value)) ||
        (m && wv_missing(error, "wvgd_expect", "mean", mean)) || (m && wv_missing(error, "wvgd_expect", "var", var)) ||
        (m && wv_missing(error, "wvgd_expect", "mcse", mcse)))
        return WVGD_E_ARGUMENT;
    wvgd_fit *f = (wvgd_fit *)(uintptr_t)fit; /* scratch of its own is written to */
    wvgd_status status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    wv_describe_functions(f, m, value, (wv_moments){mean, var, mcse, NULL, NULL}, 0, NULL, NULL, NULL);
    return WVGD_OK;
}

/* What is wrong with the arguments of wvgd_describe, if anything. */
static wvgd_status check_description(size_t m, const double *value, size_t levels, const double *level,
                                     const wvgd_description *to, wvgd_error *error)
{
    static const char name[] = "wvgd_describe";
    if (wv_missing(error, name, "to", to) || (m && wv_missing(error, name, "value", value)) ||
        (levels && wv_missing(error, name, "level", level)))
        return WVGD_E_ARGUMENT;
    if (m && (wv_missing(error, name, "to->mean", to->mean) || wv_missing(error, name, "to->var", to->var) ||
              wv_missing(error, name, "to->mcse", to->mcse) || wv_missing(error, name, "to->sd_se", to->sd_se) ||
              wv_missing(error, name, "to->tail_k", to->tail_k)))
        return WVGD_E_ARGUMENT;
    if (m && levels &&
        (wv_missing(error, name, "to->quantile", to->quantile) ||
         wv_missing(error, name, "to->quantile_se", to->quantile_se)))
        return WVGD_E_ARGUMENT;
    for (size_t l = 0; l < levels; l++)
        if (!(level[l] > 0 && level[l] < 1))
            return wv_fail(error, WVGD_E_ARGUMENT, "level %g of a quantile: expected more than 0 and less than 1",
                           level[l]);
    return WVGD_OK;
}

wvgd_status wvgd_describe(const wvgd_fit *fit, size_t m, const double *value, size_t levels, const double *level,
                          const wvgd_description *to, wvgd_error *error)
{
    wvgd_status status = wv_missing(error, "wvgd_describe", "fit", fit)
                             ? WVGD_E_ARGUMENT
                             : check_description(m, value, levels, level, to, error);
    wvgd_fit *f = (wvgd_fit *)(uintptr_t)fit; /* scratch of its own is written to */
    if (status == WVGD_OK)
        status = ended(f, error);
    if (status != WVGD_OK)
        return status;
    wv_describe_functions(f, m, value, (wv_moments){to->mean, to->var, to->mcse, to->sd_se, to->tail_k}, levels, level,
                          to->quantile, to->quantile_se);
    return WVGD_OK;
}

wvgd_status wvgd_draws(const wvgd_fit *f, size_t *n, const double **z, const double **log_p, const double **log_w,
                       const uint32_t **cell, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_draws", "fit", f))
        return WVGD_E_ARGUMENT;
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
