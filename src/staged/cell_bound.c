/* cell_bound.c - what the components of the cells are worth: their masses in the cells, from draws that cost nothing,
 * and the PELBO, from one fresh batch of draws inside the cells with the mixture as a control (method, section 5). */
#include "staged/cell_bound.h"
#include "fit.h"
#include "gaussian.h"
#include "rng.h"
#include "simd/columns.h"
#include "evidence.h"
#include "halfspaces.h"
#include "cell_line.h"
#include "memory.h"
#include "policy.h"
#include "staged/mixture_fit.h"
#include "staged/bent_cells.h"
#include "staged/cell_refine.h"
#include "staged/cell_draws.h"
#include "staged/cell_gain.h"
#include "staged/cell_component.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_cell_bound_new(wv_cell_bound *b, size_t N)
{
    const wv_slot slots[] = {{&b->ess, N}, {&b->log_Z, N}, {&b->log_Z_se, N}, {&b->part, N}, {&b->log_Z_part, N}};
    b->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return b->memory != NULL;
}

void wv_cell_bound_free(wv_cell_bound *b)
{
    free(b->memory);
}

/* ---- masses ------------------------------------------------------------------------------------------------------ */
static bool few_dims(const wvgd_fit *f)
{
    return (double)f->D <= wv_policy.cells_few_dims;
}

/* Free draws of one cell at most, such that all cells together stay affordable. */
static size_t mass_most(const wvgd_fit *f)
{
    double most = wv_policy.bound_mass_work / ((double)f->N * (double)f->N * 2 * (double)f->D);
    return (size_t)fmin(fmax(most, wv_policy.bound_mass_least), WV_FREE * wv_policy.bound_mass_batches);
}

/* Standard error of a log mass that is small enough: what matters is their sum. */
static double fine_enough(const wvgd_fit *f)
{
    double N = (double)f->N;
    return few_dims(f) ? wv_policy.bound_mass_se_few * fmax(1, sqrt(N / wv_policy.bound_mass_se_cells))
                       : wv_policy.bound_mass_se * sqrt(N);
}

/* Share of a component in its cell that is too small for its own draws to tell. */
static double little(const wvgd_fit *f)
{
    return few_dims(f) ? wv_policy.bound_little_few : wv_policy.bound_little;
}

/* ---- cells with the same component ------------------------------------------------------------------------------- */
/* Where one Gaussian is the best for many cells, as it is where the posterior is like one, its draws serve all of
 * them. Returns leader[N], in the arena of the caller: the first cell with the component of cell j, N for a component
 * that few cells share. */
static size_t *find_leaders(wvgd_fit *f)
{
    size_t N = f->N, *leader = wv_arena_take_sizes(f->arena, N), mark = wv_arena_mark(f->arena),
           *cells = wv_arena_take_sizes(f->arena, N); /* [N] that have the component of a first one */
    wv_partition_first_same(&f->cells, leader, f->arena);
    memset(cells, 0, N * sizeof *cells);
    for (size_t j = 0; j < N; j++)
        cells[leader[j]]++;
    for (size_t j = 0; j < N; j++)
        leader[j] = (double)cells[leader[j]] >= wv_policy.bound_shared_cells ? leader[j] : N;
    wv_arena_release(f->arena, mark);
    return leader;
}

/* Whether draws of the component of cell j are for cell k; leader: NULL: for j alone. */
static bool serves(const size_t *leader, size_t j, size_t k)
{
    return leader ? leader[k] == j : k == j;
}

/* Draws of the component of cell j, and what is known of them. */
typedef struct {
    size_t j, made; /* as many are made at once, WV_FREE at most; */
    size_t n;       /* of these there are n: all, if cells share them, else those in cell j */
    bool shared;
    wv_rng_use use;
    uint64_t first;        /* number of the first */
    double *x;             /* [made][D] */
    uint32_t *cell;        /* [made] */
    double *log_m, *log_q; /* [made] log densities of mixture and component, or NULL */
} own_draws;

/* In the arena of the caller, not drawn yet. */
static own_draws take_draws(wvgd_fit *f, size_t j, size_t made, bool shared, wv_rng_use use, bool densities)
{
    return (own_draws){.j = j,
                       .made = made,
                       .shared = shared,
                       .use = use,
                       .x = wv_arena_take(f->arena, made * f->D),
                       .cell = wv_arena_take_index(f->arena, made),
                       .log_m = densities ? wv_arena_take(f->arena, made) : NULL,
                       .log_q = densities ? wv_arena_take(f->arena, made) : NULL};
}

/* Densities of n draws from number `at` on, if they are wanted. */
static void find_densities(wvgd_fit *f, const own_draws *d, size_t at, size_t n)
{
    if (!d->log_m)
        return;
    size_t mark = wv_arena_mark(f->arena);
    double *x = d->x + at * f->D, *y = wv_arena_take(f->arena, n * f->D);
    wv_gaussian q = wv_partition_component(&f->cells, d->j);
    wv_mixture_log_density(&f->mix, n, x, d->log_m + at, NULL, &f->workers);
    wv_gaussian_log_density(&q, n, x, d->log_q + at, y, f->arena);
    wv_arena_release(f->arena, mark);
}

static void draw_piece(wvgd_fit *f, void *context, size_t piece)
{
    const own_draws *d = context;
    size_t size = wv_workers_piece(d->n), at = piece * size, n = d->n - at < size ? d->n - at : size;
    wv_gaussian q = wv_partition_component(&f->cells, d->j);
    wv_stream stream = {f->opt.seed, d->use, f->count.batch, d->j};
    wv_gaussian_draw(&q, &stream, d->first + at, n, false, d->x + at * f->D, f->arena);
    wv_halfspaces_assign(&f->halfspaces, n, d->x + at * f->D, d->cell + at, f->arena);
    find_densities(f, d, at, n);
}

/* Those that lie in cell j. */
static void draw_alone(wvgd_fit *f, own_draws *d)
{
    size_t mark = wv_arena_mark(f->arena);
    wv_inside in = wv_cell_draws_inside(f, d->j, d->use, d->first, d->made, false);
    d->n = in.n;
    memcpy(d->x, in.x, in.n * f->D * sizeof *in.x);
    for (size_t i = 0; i < in.n; i++)
        d->cell[i] = (uint32_t)d->j;
    wv_arena_release(f->arena, mark);
    find_densities(f, d, 0, d->n);
}

static void draw(wvgd_fit *f, own_draws *d, uint64_t first)
{
    d->first = first;
    d->n = d->made;
    if (d->shared)
        wv_fit_run_tasks(f, wv_workers_pieces(d->n), (double)d->n * (double)f->D * (double)(f->N + f->D), draw_piece,
                         d);
    else
        draw_alone(f, d);
}

/* Shared draws at most. */
static size_t shared_most(const wvgd_fit *f)
{
    return (
        size_t)fmax(fmin(wv_policy.bound_shared_work / (double)(f->N * f->D), WV_FREE * wv_policy.bound_mass_batches),
                    WV_FREE * wv_policy.bound_shared_least);
}

/* Draws of the component of cell j in all cells. */
typedef struct {
    size_t j, dims, piece; /* draws in a piece, an even number of columns */
    uint64_t first;        /* number of the first of them */
    const double *W, *low; /* wv_halfspaces_scores */
    double *of_piece;      /* [pieces][2][N] */
    double *inside;        /* [N] draws in each cell */
    double *squares;       /* [N] the sum over units of the square of how many of the unit are there */
    double n, units;       /* draws; units of them: single draws, or mirrored pairs */
} counted;

/* Squared costs: of the draws only the coordinates that tell their cell are made, and their mirror images. */
static void count_flat(wvgd_fit *f, const counted *c, size_t at, double *inside, double *squares)
{
    size_t dims = c->dims, mark = wv_arena_mark(f->arena);
    double *e = wv_arena_take(f->arena, dims * WV_COLUMNS), one[WV_COLUMNS], other[WV_COLUMNS]; /* [dims][WV_COLUMNS] */
    wv_stream stream = {f->opt.seed, WV_RNG_FREE, f->count.batch, c->j};
    for (size_t i = 0; i < c->piece / 2; i += WV_COLUMNS) {
        wv_rng_normal(&stream, (c->first + at) / 2 + i, dims * WV_COLUMNS, e);
        wv_columns_best()->highest(dims, WV_COLUMNS, f->N, e, c->W, c->low, one);
        cblas_dscal((int)(dims * WV_COLUMNS), -1, e, 1);
        wv_columns_best()->highest(dims, WV_COLUMNS, f->N, e, c->W, c->low, other);
        for (size_t k = 0; k < WV_COLUMNS; k++) {
            size_t a = (size_t)one[k], b = (size_t)other[k];
            inside[a]++;
            inside[b]++;
            squares[a] += 1 + (a == b);
            squares[b] += 1 + (a == b);
        }
    }
    wv_arena_release(f->arena, mark);
}

/* Under any cost the draws themselves are made. */
static void count_drawn(wvgd_fit *f, const counted *c, size_t at, double *inside, double *squares)
{
    size_t mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, c->piece * f->D);
    uint32_t *cell = wv_arena_take_index(f->arena, c->piece);
    wv_gaussian q = wv_partition_component(&f->cells, c->j);
    wv_stream stream = {f->opt.seed, WV_RNG_FREE, f->count.batch, c->j};
    wv_gaussian_draw(&q, &stream, c->first + at, c->piece, false, x, f->arena);
    wv_halfspaces_assign(&f->halfspaces, c->piece, x, cell, f->arena);
    for (size_t i = 0; i < c->piece; i++)
        inside[cell[i]]++;
    memcpy(squares, inside, f->N * sizeof *squares);
    wv_arena_release(f->arena, mark);
}

static bool paired(const wvgd_fit *f)
{
    return wv_cost_flat(&f->cells.shape.cost);
}

static void count_piece(wvgd_fit *f, void *context, size_t piece)
{
    const counted *c = context;
    double *inside = c->of_piece + 2 * piece * f->N;
    memset(inside, 0, 2 * f->N * sizeof *inside);
    (paired(f) ? count_flat : count_drawn)(f, c, piece * c->piece, inside, inside + f->N);
}

/* Multiplications for so many free draws of dims coordinates: to make one takes as long as to compare it with some
 * twenty particles. */
static double draw_work(const wvgd_fit *f, double draws, size_t dims)
{
    return draws * (double)dims * ((double)f->N + wv_policy.bound_draw_price);
}

/* Counts so many pieces more. */
static void count_more(wvgd_fit *f, counted *c, size_t pieces)
{
    wv_fit_run_tasks(f, pieces, draw_work(f, (double)(pieces * c->piece), c->dims), count_piece, c);
    for (size_t i = 0; i < pieces; i++) {
        cblas_daxpy((int)f->N, 1, c->of_piece + 2 * i * f->N, 1, c->inside, 1);
        cblas_daxpy((int)f->N, 1, c->of_piece + (2 * i + 1) * f->N, 1, c->squares, 1);
    }
    c->first += pieces * c->piece;
    c->n += (double)(pieces * c->piece);
    c->units += (double)(pieces * c->piece) / (paired(f) ? 2 : 1);
}

/* Whether component j is all of the mixture. */
static bool is_mixture(const wvgd_fit *f, size_t j)
{
    wv_gaussian q = wv_partition_component(&f->cells, j);
    return wv_mixture_is(&f->mix, &q);
}

/* Relative error of the mass in cell k. */
static double mass_error(const counted *c, size_t k)
{
    double s = c->inside[k];
    return s > 0 ? hypot(sqrt(fmax(c->squares[k] / s / s - 1 / c->units, 0)), 1 / c->n)
                 : INFINITY; /* none may be outside */
}

/* Error of the log mass in cell j; of a shared component that of their sum, weighted by the masses. */
static double count_error(const wvgd_fit *f, const size_t *leader, const counted *c)
{
    double error = 0;
    for (size_t k = c->j; k < f->N; k++)
        if (serves(leader, c->j, k))
            error = c->inside[k] < wv_policy.bound_rare
                        ? INFINITY
                        : hypot(error, (leader ? c->inside[k] / c->n : 1) * mass_error(c, k));
    return error;
}

/* Draws of the component of cell j, of which most pieces are counted, `at_once` before their error is looked at; with
 * little of it in its cell fewer. */
static void count_until(wvgd_fit *f, const size_t *leader, size_t at_once, size_t most, double wanted, counted *c)
{
    double error = c->n > 0 ? count_error(f, leader, c) : INFINITY;
    bool astray = false;
    for (size_t pieces = 0; pieces < most && error > wanted && !astray; pieces += at_once) {
        count_more(f, c, at_once);
        error = count_error(f, leader, c);
        astray = !leader && c->inside[c->j] < little(f) * c->n;
    }
}

/* Masses by draws of the component of cell j in all cells that they serve. known: of the mixture, or NULL. */
static void find_by_draws(wvgd_fit *f, const size_t *leader, const wv_mixture_masses *known, size_t j)
{
    size_t N = f->N, D = f->D, mark = wv_arena_mark(f->arena), piece = wv_workers_piece(WV_FREE),
           most = (leader ? shared_most(f) : mass_most(f)) / piece + 1,
           look = (leader ? WV_FREE : (size_t)wv_policy.bound_mass_look) / piece, at_once = most < look ? most : look;
    double wanted = fine_enough(f) / (leader ? sqrt((double)N) : 1), *A = wv_arena_take(f->arena, N * D),
           *W = wv_arena_take(f->arena, N * D), *low = wv_arena_take(f->arena, N);
    counted c = {.j = j,
                 .dims = wv_halfspaces_dims(&f->halfspaces.g),
                 .piece = piece,
                 .W = W,
                 .low = low,
                 .of_piece = wv_arena_take(f->arena, 2 * at_once * N),
                 .inside = wv_arena_zeros(f->arena, N),
                 .squares = wv_arena_zeros(f->arena, N)};
    wv_gaussian q = wv_partition_component(&f->cells, j);
    if (wv_cost_flat(&f->cells.shape.cost))
        wv_halfspaces_scores(&f->halfspaces, &q, c.dims, A, W, low, f->arena);
    if (leader && known && known->points > 0 && is_mixture(f, j)) { /* its points are as good as draws */
        c.n = c.units = known->points;
        cblas_daxpy((int)N, c.n, known->mass, 1, c.inside, 1);
        cblas_daxpy((int)N, c.n, known->mass, 1, c.squares, 1);
    }
    count_until(f, leader, at_once, most, wanted, &c);
    for (size_t k = j; k < N; k++)
        if (serves(leader, j, k))
            wv_partition_set_log_Z(&f->cells, k, (wvgd_estimate){log(c.inside[k] / c.n), mass_error(&c, k)},
                                   !leader && c.inside[k] < little(f) * c.n);
    wv_arena_release(f->arena, mark);
}

/* ---- pools ------------------------------------------------------------------------------------------------------- */
/* Of a component that hardly reaches into its cell only weighted draws are at hand, u = q_j/r, r their proposal. Its
 * mass Z^ = mean u and the mean h^ = sum u h / sum u of h = log p~ - log q_j must come of the same draws: then
 *     exp(h^) Z^ <= mean u exp(h) = mean p~/r,
 * whose expectation is the posterior's mass in the cell, however few of the draws matter. So a pool of draws tells the
 * mass and E_qj[log m - log q_j], and those to be evaluated are picked from it in proportion to their weights. */
typedef struct {
    double all, sum, squares; /* weights of all draws; of those inside: their sum and that of their squares */
    double level, d;          /* an arbitrary level of d = log m - log q_j, and the sum of u (d - level) */
    double d1, d2;            /* sums of u^2 (d - level) and u^2 (d - level)^2 */
} pool;

static double pool_ess(const pool *p)
{
    return p->squares > 0 ? p->sum * p->sum / p->squares : 0;
}

/* Adds a batch of WV_FREE draws. */
static void fill_pool(wvgd_fit *f, size_t j, wv_rng_use use, uint64_t batch, pool *p)
{
    size_t mark = wv_arena_mark(f->arena);
    wv_inside in = wv_cell_draws_inside(f, j, use, batch * WV_FREE, WV_FREE, true);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    double *log_m = wv_arena_take(f->arena, in.n), *log_q = wv_arena_take(f->arena, in.n),
           *y = wv_arena_take(f->arena, in.n * f->D);
    wv_mixture_log_density(&f->mix, in.n, in.x, log_m, NULL, &f->workers);
    wv_gaussian_log_density(&q, in.n, in.x, log_q, y, f->arena);
    p->all += in.all;
    for (size_t i = 0; i < in.n; i++) {
        double u = in.u[i], d = log_m[i] - log_q[i];
        if (!(u > 0))
            continue;
        p->level = p->sum > 0 ? p->level : d;
        d -= p->level;
        p->sum += u;
        p->squares += u * u;
        p->d += u * d;
        p->d1 += u * u * d;
        p->d2 += u * u * d * d;
    }
    wv_arena_release(f->arena, mark);
}

/* Fills a pool until it is enough, or all that is affordable. Returns of how many batches. */
static size_t make_pool(wvgd_fit *f, size_t j, wv_rng_use use, pool *p)
{
    size_t batches = 0, most = mass_most(f) / WV_FREE + 1;
    while (batches < most && pool_ess(p) < wv_policy.bound_pool_enough)
        fill_pool(f, j, use, batches++, p);
    return batches;
}

static wvgd_estimate pool_log_Z(const pool *p)
{
    return p->sum > 0
               ? (wvgd_estimate){log(p->sum / p->all), sqrt(fmax(p->squares / (p->sum * p->sum) - 1 / p->all, 0))}
               : (wvgd_estimate){-INFINITY, INFINITY};
}

/* What a pool tells of cell j. */
static void keep_pool(wvgd_fit *f, size_t j, const pool *p)
{
    double mean = p->d / p->sum, s = mean - 1, own = p->sum * p->sum,
           both = (p->d2 - 2 * s * p->d1 + s * s * p->squares) / own;
    f->bound.ess[j] = pool_ess(p);
    f->bound.log_Z[j] = pool_log_Z(p).value;
    f->bound.log_Z_se[j] = pool_log_Z(p).se;
    f->bound.part[j] = p->level + mean;
    f->bound.log_Z_part[j] = sqrt(fmax(both - 1 / p->all, 0));
}

/* ---- masses in cells --------------------------------------------------------------------------------------------- */
/* In closed form: where there is one cell, where cells are intervals, or where one wall parts two of them. False: there
 * is none. */
static bool find_exactly(wvgd_fit *f, size_t j)
{
    bool line = wv_cell_line_cells(f), wall = f->N == 2 && wv_cost_flat(&f->cells.shape.cost);
    if (f->N > 1 && !line && !wall)
        return false;
    wv_gaussian q = wv_partition_component(&f->cells, j);
    double log_Z = f->N == 1 ? 0
                   : line    ? wv_cell_line_log_Z(f, j)
                             : wv_halfspaces_log_mass(&f->halfspaces, j, &q, f->arena);
    wv_partition_set_log_Z(&f->cells, j, (wvgd_estimate){log_Z, 0}, !line && log_Z < log(little(f)));
    return true;
}

/* log Z_j and its standard error. Of a component that hardly reaches into its cell, as the best one for a tail may, a
 * pool tells it (f->cells.around). */
static void find_mass(wvgd_fit *f, size_t j)
{
    if (find_exactly(f, j))
        return;
    find_by_draws(f, NULL, NULL, j);
    if (f->cells.around[j] > 0) {
        pool p = {0};
        make_pool(f, j, WV_RNG_FREE, &p);
        wv_partition_set_log_Z(&f->cells, j, pool_log_Z(&p), true);
    }
}

/* The component becomes the cell's own moments, which lie in it. */
static void begin_again(wvgd_fit *f, size_t j)
{
    wv_partition_restart_component(&f->cells, j, f->pilot.wanted ? f->pilot.root : NULL, f->arena);
}

/* A component whose share of the cell cannot be told gives way to the one that was kept, that one to the
 * mixture's, and that to the cell's moments. context: leader[N]. */
static void mass_of(wvgd_fit *f, void *context, size_t j)
{
    static void (*const give_way[])(wvgd_fit *, size_t) = {wv_cell_component_recall, wv_cell_component_plain,
                                                           begin_again};
    const size_t *leader = context;
    double most = fmax(wv_policy.bound_mass_known, 2 / sqrt((double)mass_most(f)));
    if (leader[j] < f->N)
        return;
    find_mass(f, j);
    for (size_t i = 0; i < sizeof give_way / sizeof *give_way && !(f->cells.elbo_se[j] < most); i++) {
        give_way[i](f, j);
        wv_cell_draws_measure(f, j);
        find_mass(f, j);
    }
}

void wv_cell_bound_masses(wvgd_fit *f, const wv_mixture_masses *known)
{
    size_t mark = wv_arena_mark(f->arena), *leader = find_leaders(f);
    for (size_t j = 0; j < f->N; j++)
        if (leader[j] == j)
            find_by_draws(f, leader, known, j);
    double draws = fmin((double)mass_most(f), 1 / (fine_enough(f) * fine_enough(f)));
    wv_fit_run_tasks(f, f->N, draw_work(f, draws * (double)f->N, f->D), mass_of, leader);
    wv_arena_release(f->arena, mark);
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* Of the Gaussians at hand (components of the mixture, of modes, the component itself) the one that leaves least to
 * estimate of the ELBO of a component that is alone. */
static wv_gaussian best_control(wvgd_fit *f)
{
    size_t D = f->D, K = f->mix.K;
    wv_gaussian best = wv_partition_component(&f->cells, 0);
    double least = wv_cell_refine_price(f, &best, wv_policy.bound_alone_se);
    for (size_t k = 0; k < K + f->modes.n; k++) {
        wv_gaussian g = k < K ? wv_mixture_component(&f->mix, k)
                              : (wv_gaussian){wv_family_get(WVGD_FULL),        D, 0, f->modes.x + (k - K) * D,
                                              f->modes.root + (k - K) * D * D, 0};
        double price = wv_cell_refine_price(f, &g, wv_policy.bound_alone_se);
        if (price < least) {
            least = price;
            best = g;
        }
    }
    return best;
}

/* Draws for the bound from cell j. */
static size_t bound_wanted(wvgd_fit *f, size_t j)
{
    if (f->N == 1) {
        wv_gaussian control = best_control(f);
        return 2 *
               (size_t)(fmin(fmax(wv_cell_refine_price(f, &control, wv_policy.bound_alone_se), wv_policy.bound_draws),
                             wv_policy.bound_alone_draws) /
                        2);
    }
    double all = fmax(f->cells.refined ? wv_policy.bound_draws_refined : wv_policy.bound_draws,
                      fmin(wv_fit_cheap(f), wv_policy.bound_draws_cheap));
    bool counts = f->cells.weight[j] > 0 || f->cells.beta[j] > wv_policy.results_mass;
    return counts ? (size_t)fmax(wv_policy.bound_draws_cell, round(all * f->cells.weight[j])) : 0;
}

/* Draws that cells want, from which point of the batch on, and how many they have; leaders of cells. */
typedef struct {
    size_t *wanted, *first, *have; /* [N] */
    const size_t *leader;          /* [N] */
} cell_plan;

/* Draws to make at once for so many inside the cell of j: a few more than its share tells. All lie there if it is
 * alone, or an interval. */
static size_t draws_at_once(const wvgd_fit *f, size_t j, size_t wanted)
{
    double share = fmax(exp(f->cells.log_Z[j]), wv_policy.bound_share_least);
    double pairs = wv_policy.bound_draw_pairs * (double)wanted / share + wv_policy.bound_draw_spare;
    return f->N == 1 || wv_cell_line_cells(f) ? wanted : 2 * (size_t)(fmin(pairs, WV_FREE / 2));
}

/* Draws of the component of cell j in the cells that they serve. */
static void draw_inside(wvgd_fit *f, const size_t *leader, size_t j, const cell_plan *p)
{
    size_t D = f->D, missing = 0, mark = wv_arena_mark(f->arena);
    for (size_t k = j; k < f->N; k++)
        missing += serves(leader, j, k) ? p->wanted[k] : 0;
    own_draws d = take_draws(f, j, leader ? WV_FREE : draws_at_once(f, j, missing), leader, WV_RNG_BOUND, false);
    double tries = leader ? (double)shared_most(f) / WV_FREE : wv_policy.bound_tries;
    for (uint64_t b = 0; (double)b < tries && missing; b++) {
        draw(f, &d, b * WV_FREE);
        for (size_t i = 0; i < d.n; i++) {
            size_t k = d.cell[i];
            if (!serves(leader, j, k) || p->have[k] == p->wanted[k])
                continue;
            memcpy(f->b.x + (p->first[k] + p->have[k]++) * D, d.x + i * D, D * sizeof(double));
            missing--;
        }
    }
    wv_arena_release(f->arena, mark);
}

/* The draws to be evaluated, from the same batches again: one for each equal part of the sum of the weights. */
static void pick_draws(wvgd_fit *f, size_t j, size_t batches, double sum, const cell_plan *to)
{
    size_t D = f->D, wanted = to->wanted[j], have = 0;
    double passed = 0;
    for (uint64_t b = 0; b < batches && have < wanted; b++) {
        size_t mark = wv_arena_mark(f->arena);
        wv_inside in = wv_cell_draws_inside(f, j, WV_RNG_BOUND, b * WV_FREE, WV_FREE, true);
        for (size_t i = 0; i < in.n; i++) {
            passed += in.u[i];
            for (; have < wanted && ((double)have + 0.5) * sum < passed * (double)wanted; have++)
                memcpy(f->b.x + (to->first[j] + have) * D, in.x + i * D, D * sizeof(double));
        }
        wv_arena_release(f->arena, mark);
    }
    to->have[j] = have;
}

/* No draws are evaluated where the pool cannot support an estimate: such a cell has no bound. */
static void draw_pool(wvgd_fit *f, size_t j, const cell_plan *to)
{
    pool p = {0};
    size_t batches = make_pool(f, j, WV_RNG_BOUND, &p);
    if (!(pool_ess(&p) > wv_policy.bound_pool_least) || !isfinite(p.d2))
        return;
    keep_pool(f, j, &p);
    pick_draws(f, j, batches, p.sum, to);
}

/* Draws of component j for the bound, if it is not shared. */
static void draw_own(wvgd_fit *f, void *context, size_t j)
{
    const cell_plan *p = context;
    if (p->leader[j] < f->N || !p->wanted[j])
        return;
    if (f->cells.around[j] > 0)
        draw_pool(f, j, p);
    else
        draw_inside(f, NULL, j, p);
}

/* Places in the batch for the draws that cells want. */
static cell_plan plan(wvgd_fit *f)
{
    size_t N = f->N, at = 0;
    cell_plan p = {wv_arena_take_sizes(f->arena, N), wv_arena_take_sizes(f->arena, N), wv_arena_take_sizes(f->arena, N),
                   find_leaders(f)};
    for (size_t j = 0; j < N; j++) {
        size_t wanted = bound_wanted(f, j);
        p.wanted[j] = wanted < f->size.n_max - at ? wanted : f->size.n_max - at;
        p.first[j] = at;
        p.have[j] = 0;
        at += p.wanted[j];
    }
    return p;
}

/* Closes the gaps that cells with fewer draws than they wanted have left; returns how many draws there are. */
static size_t close_gaps(wvgd_fit *f, const cell_plan *p)
{
    size_t at = 0, D = f->D;
    for (size_t j = 0; j < f->N; j++) {
        memmove(f->b.x + at * D, f->b.x + p->first[j] * D, p->have[j] * D * sizeof(double));
        for (size_t i = 0; i < p->have[j]; i++)
            f->b.cell[at++] = (uint32_t)j;
    }
    return at;
}

static wvgd_status no_mass(size_t N, wvgd_error *error)
{
    return wv_fail(error, WVGD_E_NO_DRAWS,
                   "none of %zu components has mass in its cell, so there is no bound: is the density proper?", N);
}

/* Fresh draws of every component of weight that lie in its cell: those that do not are thrown away
 * before they cost anything. */
wvgd_status wv_cell_bound_ask(wvgd_fit *f, wvgd_error *error)
{
    size_t N = f->N, mark = wv_arena_mark(f->arena), n;
    if (f->bent.cells) {
        wv_bent_cells_ask(f);
        return f->b.n ? WVGD_OK : no_mass(N, error);
    }
    wv_cell_draws_update_walls(f);
    memset(f->bound.ess, 0, N * sizeof *f->bound.ess);
    cell_plan p = plan(f);
    for (size_t j = 0; j < N; j++)
        if (p.leader[j] == j)
            draw_inside(f, p.leader, j, &p);
    wv_fit_run_tasks(f, N, draw_work(f, 4 * wv_policy.bound_draws_cell * (double)N, f->D), draw_own, &p);
    n = close_gaps(f, &p);
    wv_arena_release(f->arena, mark);
    if (!n)
        return no_mass(N, error);
    f->b.n = n;
    return WVGD_OK;
}

/* ---- estimates --------------------------------------------------------------------------------------------------- */
/* PELBO(w) of the cells that have an ELBO. */
static wvgd_estimate bound(const wvgd_fit *f, const double *w)
{
    wvgd_estimate e = {0, 0};
    double kept = 0;
    for (size_t j = 0; j < f->N; j++)
        kept += f->cells.elbo[j] > -INFINITY ? w[j] : 0;
    if (!(kept > 0))
        return (wvgd_estimate){-INFINITY, INFINITY};
    for (size_t j = 0; j < f->N; j++)
        if (f->cells.elbo[j] > -INFINITY && w[j] > 0) {
            double share = w[j] / kept;
            e.value += share * (f->cells.elbo[j] - log(share));
            e.se += share * share * f->cells.elbo_se[j] * f->cells.elbo_se[j];
        }
    e.se = sqrt(e.se);
    return e;
}

/* Of so many free draws in each cell [N], their sums of d = log m - log q and of its square. */
typedef struct {
    double *n, *sum, *squares;
} cell_sums;

/* E_qj[log m - log q_j] over cells, m the mixture, [N] each. */
typedef struct {
    double *value, *se;
} free_parts;

/* Adds draws. */
static void add_free(const own_draws *d, cell_sums s)
{
    for (size_t i = 0; i < d->n; i++) {
        size_t k = d->cell[i];
        double apart = d->log_m[i] - d->log_q[i];
        s.n[k]++;
        s.sum[k] += apart;
        s.squares[k] += apart * apart;
    }
}

/* What they say of the cells that draws of the component of cell j serve. Returns the largest standard error. */
static double estimate_free(size_t N, const size_t *leader, size_t j, cell_sums s, const free_parts *to)
{
    double worst = 0, least = leader ? 1 : wv_policy.bound_free_known;
    for (size_t k = j; k < N; k++)
        if (serves(leader, j, k)) {
            double mean = s.sum[k] / s.n[k];
            to->value[k] = mean;
            to->se[k] = s.n[k] > least ? sqrt(fmax(s.squares[k] / s.n[k] - mean * mean, 0) / s.n[k]) : INFINITY;
            worst = fmax(worst, to->se[k]);
        }
    return worst;
}

/* From draws that cost nothing, to the wanted standard error or as far as they go. */
static void find_free_parts(wvgd_fit *f, const size_t *leader, size_t j, double wanted, const free_parts *to)
{
    size_t N = f->N, mark = wv_arena_mark(f->arena), look = (size_t)wv_policy.bound_free_look;
    double batches = f->cells.refined ? wv_policy.bound_mass_batches : wv_policy.bound_free_batches,
           most = leader ? wv_policy.bound_control_draws * (double)shared_most(f)
                         : fmin(batches * WV_FREE, (double)mass_most(f)),
           worst = INFINITY;
    uint64_t after = (uint64_t)wv_policy.bound_mass_batches * WV_FREE; /* the draws that told masses */
    cell_sums s = {wv_arena_zeros(f->arena, N), wv_arena_zeros(f->arena, N), wv_arena_zeros(f->arena, N)};
    size_t made = leader ? WV_FREE : mass_most(f) < look ? mass_most(f) : look;
    own_draws d = take_draws(f, j, made, leader, WV_RNG_FREE, true);
    for (uint64_t first = 0; (double)first < most && worst > wanted; first += made) {
        draw(f, &d, after + first);
        add_free(&d, s);
        worst = estimate_free(N, leader, j, s, to);
    }
    wv_arena_release(f->arena, mark);
}

/* E_q[log g - log q] of Gaussians g and q. */
static double gaussian_part(wvgd_fit *f, const wv_gaussian *g, const wv_gaussian *q)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *A = wv_arena_zeros(f->arena, D * D), *d = wv_arena_take(f->arena, D);
    /* rows of A: columns of the root of q, by the columns of the identity */
    for (size_t i = 0; i < D; i++)
        A[i * D + i] = 1;
    q->family->colour(D, q->R, q->root, D, A, f->arena);
    g->family->whiten(D, g->R, g->root, D, A, f->arena);
    wv_gaussian_whiten(g, 1, q->mu, d, f->arena);
    double part = q->family->log_det(D, q->R, q->root) - g->family->log_det(D, g->R, g->root) +
                  ((double)D - cblas_ddot((int)(D * D), A, 1, A, 1) - cblas_ddot((int)D, d, 1, d, 1)) / 2;
    wv_arena_release(f->arena, mark);
    return part;
}

/* Row i of the products of whitened coordinates whose means are known to be 0: all, or the squares alone; after a 1. */
static void products(size_t D, size_t p, bool all, const double *t, double *T)
{
    size_t at = 1;
    T[0] = 1;
    for (size_t k = 0; k < D && at < p; k++)
        for (size_t l = all ? 0 : k; l <= k; l++)
            T[at++] = t[k] * t[l] - (k == l);
}

/* Regression on products of whitened coordinates, a block of draws at a time. */
typedef struct {
    size_t D, p;   /* coefficients */
    bool all;      /* all products, not squares alone */
    double *T;     /* [WV_BLOCK][p] products of a block */
    double *F;     /* [p][p] T'T, then its Cholesky factor */
    double *b, *e; /* [p] coefficients; of the intercept's own column of (T'T)^-1 */
} regression;

/* Fills T with the draws from `first` on; returns how many. */
static size_t fill_block(const regression *r, size_t n, size_t first, const double *y)
{
    size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
    for (size_t i = 0; i < here; i++)
        products(r->D, r->p, r->all, y + 2 * (first + i) * r->D, r->T + i * r->p);
    return here;
}

/* False: there are no coefficients. */
static bool fit_products(const regression *r, size_t n, const double *d, const double *y)
{
    size_t p = r->p;
    lapack_int size = (lapack_int)p;
    memset(r->F, 0, p * p * sizeof *r->F);
    memset(r->b, 0, p * sizeof *r->b);
    memset(r->e, 0, p * sizeof *r->e);
    r->e[0] = 1;
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        int here = (int)fill_block(r, n, first, y);
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)p, here, 1.0, r->T, (int)p, 1.0, r->F, (int)p);
        cblas_dgemv(CblasRowMajor, CblasTrans, here, (int)p, 1.0, r->T, (int)p, d + first, 1, 1.0, r->b, 1);
    }
    return LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', size, r->F, size) == 0 &&
           LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', size, 1, r->F, size, r->b, size) == 0 &&
           LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', size, 1, r->F, size, r->e, size) == 0;
}

/* The intercept and the mean of what the regression fitted to the others leaves of each d. */
static wvgd_estimate leave_one_out(const regression *r, size_t n, const double *d, const double *y)
{
    int p = (int)r->p;
    double sum = 0, squares = 0;
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = fill_block(r, n, first, y);
        for (size_t i = 0; i < here; i++) {
            double *t = r->T + i * r->p;
            /* what the others leave of d: more, by the leverage, and by what the pair has done to the intercept */
            double left = d[first + i] - cblas_ddot(p, r->b, 1, t, 1), pull = cblas_ddot(p, r->e, 1, t, 1);
            cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, p, r->F, p, t, 1);
            left *= (1 - pull) / (1 - fmin(cblas_ddot(p, t, 1, t, 1), 0.99));
            sum += left;
            squares += left * left;
        }
    }
    double mean = sum / (double)n;
    return (wvgd_estimate){r->b[0] + mean, sqrt(fmax(squares / (double)n - mean * mean, 0) / (double)(n - 1))};
}

/* Coefficients that n pairs of draws can tell: of all products, of squares, or of the intercept alone. */
static size_t coefficients(const wvgd_fit *f, size_t n, bool *all)
{
    size_t D = f->D, p = 1 + D * (D + 1) / 2;
    *all = p <= f->size.p_max && wv_policy.bound_products_pairs * (double)p < (double)n;
    p = *all ? p : 1 + D;
    return p > f->size.p_max || wv_policy.bound_squares_pairs * (double)p >= (double)n ? 1 : p;
}

/* Mean of d[n] under q, whose whitened draws are y (rows 2i: one of each pair), given that
 * E y_i y_k = delta_ik: of d less what the regression on these products makes of them, for each pair the one fitted
 * to the others, so that the products' means do not have to be 0 in the sample; and its standard error. With
 * too few pairs for all products the squares must do. */
static wvgd_estimate adjusted_mean(wvgd_fit *f, size_t n, const double *d, const double *y)
{
    size_t mark = wv_arena_mark(f->arena);
    regression r = {.D = f->D};
    r.p = coefficients(f, n, &r.all);
    r.T = wv_arena_take(f->arena, WV_BLOCK * r.p);
    r.F = wv_arena_take(f->arena, r.p * r.p);
    r.b = wv_arena_take(f->arena, r.p);
    r.e = wv_arena_take(f->arena, r.p);
    wvgd_estimate mean = {NAN, INFINITY};
    if (fit_products(&r, n, d, y))
        mean = leave_one_out(&r, n, d, y);
    wv_arena_release(f->arena, mark);
    return mean;
}

/* Whether the density is zero at one of n draws of the batch from `first` on. */
static bool density_ends(const wv_batch *b, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++)
        if (!(b->log_p[i] > -INFINITY))
            return true;
    return false;
}

/* ELBO of a component that is alone, from mirrored pairs of draws: a Gaussian near it is the control, and
 * what that has to say is known exactly. False: not to be had like this, where the density is zero
 * somewhere, or beyond the range of numbers. */
static bool estimate_alone(wvgd_fit *f)
{
    const wv_batch *b = &f->b;
    size_t n = b->n, pairs = n / 2;
    if (density_ends(b, 0, n))
        return false;
    size_t mark = wv_arena_mark(f->arena);
    wv_gaussian q = wv_partition_component(&f->cells, 0), g = best_control(f);
    double *d = wv_arena_take(f->arena, pairs), *log_g = wv_arena_take(f->arena, n),
           *y = wv_arena_take(f->arena, n * f->D); /* [n][D] whitened draws */
    wv_gaussian_log_density(&g, n, b->x, log_g, y, f->arena);
    wv_gaussian_whiten(&q, n, b->x, y, f->arena);
    for (size_t i = 0; i < pairs; i++)
        d[i] = (b->log_p[2 * i] - log_g[2 * i] + b->log_p[2 * i + 1] - log_g[2 * i + 1]) / 2;
    wvgd_estimate mean = pairs > 2 ? adjusted_mean(f, pairs, d, y) : (wvgd_estimate){NAN, INFINITY};
    double elbo = gaussian_part(f, &g, &q) + mean.value;
    bool usable = isfinite(elbo + mean.se);
    if (usable)
        wv_partition_set_bound(&f->cells, 0, (wvgd_estimate){elbo, mean.se}, f->cells.log_Z[0]);
    wv_arena_release(f->arena, mark);
    return usable;
}

/* Draws of a cell in the batch, those number first .. first + n, and log densities of what explains them. */
typedef struct {
    size_t first, n;
    const double *log_p; /* [n] */
    double *log_control; /* [n] of the component, or of the mixture where that explains more */
} cell_draws;

/* Mean and variance of log p~ - b[n] over the draws that have density, and how many these are. */
typedef struct {
    double n, mean, variance;
} cell_moments;

static cell_moments moments_of(const cell_draws *c, const double *b)
{
    cell_moments s = {0, 0, 0};
    for (size_t i = 0; i < c->n; i++)
        if (c->log_p[i] > -INFINITY) {
            s.n++;
            s.mean += c->log_p[i] - b[i];
        }
    s.mean /= s.n;
    for (size_t i = 0; i < c->n; i++)
        if (c->log_p[i] > -INFINITY)
            s.variance += (c->log_p[i] - b[i] - s.mean) * (c->log_p[i] - b[i] - s.mean) / (s.n - 1);
    return s;
}

/* What the answers meet: the first draw of each cell [N + 1], leaders [N], and what these share. */
typedef struct {
    size_t *begin;
    const size_t *leader;
    free_parts parts;
} told;

/* Standard error that is small enough for the mixture's part of a cell whose n evaluated draws leave so much variance.
 * Draws of the mixture are free, but where evaluations are cheap they take as long. */
static double part_wanted(const wvgd_fit *f, double left, double n)
{
    double share = wv_fit_cheap(f) > 0 ? wv_policy.bound_control_cheap : wv_policy.bound_control_expensive;
    return fmax(share * sqrt(left / n), wv_policy.bound_control_se * fine_enough(f));
}

/* The same for the cells that draws of the component of cell j serve: what the strictest of them wants. */
static double shared_wanted(wvgd_fit *f, const told *t, size_t j)
{
    double least = 1;
    for (size_t k = j; k < f->N; k++) {
        size_t first = t->begin[k], n = t->begin[k + 1] - first;
        if (!serves(t->leader, j, k) || n <= 2)
            continue;
        size_t mark = wv_arena_mark(f->arena);
        double *log_m = wv_arena_take(f->arena, n);
        cell_draws c = {first, n, f->b.log_p + first, NULL};
        wv_mixture_log_density(&f->mix, n, f->b.x + first * f->D, log_m, NULL, &f->workers);
        least = fmin(least, part_wanted(f, moments_of(&c, log_m).variance, (double)n));
        wv_arena_release(f->arena, mark);
    }
    return least;
}

/* E_qj[log m - log q_j] of cell j, whose draws leave log p~ - log m with so much variance; its error is that of its sum
 * with log Z_j where a pool tells both. */
static wvgd_estimate mixture_part(wvgd_fit *f, const told *t, size_t j, const cell_draws *c, double left)
{
    if (f->bound.ess[j] > 0)
        return (wvgd_estimate){f->bound.part[j], f->bound.log_Z_part[j]};
    if (t->leader[j] == f->N)
        find_free_parts(f, NULL, j, part_wanted(f, left, (double)c->n), &t->parts);
    return (wvgd_estimate){t->parts.value[j], t->parts.se[j]};
}

/* The mixture as a control: what of log p~ - log q_j it explains is known and goes to *known; c->log_control becomes
 * the mixture's. Unless the density is zero in a part of the cell that only these draws know of, or the mixture
 * explains less than the component: then nothing is known, and nothing changes. */
static bool take_control(wvgd_fit *f, const told *t, size_t j, cell_draws *c, wvgd_estimate *known)
{
    if (c->n <= 2 || density_ends(&f->b, c->first, c->n) || is_mixture(f, j))
        return false;
    size_t mark = wv_arena_mark(f->arena);
    double *log_m = wv_arena_take(f->arena, c->n);
    wv_mixture_log_density(&f->mix, c->n, f->b.x + c->first * f->D, log_m, NULL, &f->workers);
    cell_moments s = moments_of(c, log_m);
    double left = s.variance;
    wv_partition_set_excess(&f->cells, j,
                            (wvgd_estimate){f->outcome.evidence.value - s.mean,
                                            hypot(f->outcome.evidence.se, sqrt(left / s.n))});
    bool better = left < moments_of(c, c->log_control).variance;
    wvgd_estimate part = better ? mixture_part(f, t, j, c, left) : (wvgd_estimate){0, INFINITY};
    bool taken = isfinite(part.value + part.se);
    if (taken) {
        memcpy(c->log_control, log_m, c->n * sizeof *log_m);
        *known = part;
    }
    wv_arena_release(f->arena, mark);
    return taken;
}

/* Squared error of what is known of cell j beside its evaluated draws, whose values have this variance. */
static double known_error(const wvgd_fit *f, size_t j, wvgd_estimate known, bool controlled, double variance)
{
    double mass = f->cells.elbo_se[j];
    if (!(f->bound.ess[j] > 0))
        return known.se * known.se + mass * mass;
    return controlled ? known.se * known.se : mass * mass + variance / f->bound.ess[j];
}

/* ELBO_j and its standard error where the density ends in the cell: neither the mixture nor draws of the component know
 * where, but the stored draws do. They count as so many more of the n evaluated ones, which have moments s. */
static void estimate_ended(wvgd_fit *f, size_t j, double n, cell_moments s, const wv_ended *stored)
{
    double share = fmin(exp(stored->log_Z.value - f->cells.log_Z[j]), wv_policy.component_hardly_cut),
           worth = (1 - share) / (share * stored->log_Z.se * stored->log_Z.se), inside = s.n + worth * share,
           kept = inside / (n + worth), dense = s.n + stored->ess, mass = f->cells.elbo_se[j],
           log_Z = f->cells.log_Z[j] + log(kept), /* the cell ends with the density */
        mean = ((s.n > 0 ? s.n * s.mean : 0) + stored->ess * stored->mean) / dense,
           se = sqrt(stored->variance / dense + mass * mass + (1 - kept) / inside);
    wv_partition_set_bound(&f->cells, j, (wvgd_estimate){mean + log_Z, se}, log_Z);
}

/* ELBO_j and its standard error from the draws of cell j. */
static void estimate_cell(wvgd_fit *f, size_t j, const cell_draws *c, wvgd_estimate known, bool controlled)
{
    cell_moments s = moments_of(c, c->log_control);
    if (s.n < 2) {
        wv_partition_leave_out(&f->cells, j);
        return;
    }
    double kept = s.n / (double)c->n, log_Z = f->cells.log_Z[j] + log(kept), /* where density is zero the cell ends */
        se = sqrt(s.variance / s.n + known_error(f, j, known, controlled, s.variance) + (1 - kept) / s.n);
    wv_partition_set_bound(&f->cells, j, (wvgd_estimate){known.value + s.mean + log_Z, se}, log_Z);
}

/* In one dimension the target of the quadrature is the control, and what it has to say is known. False: the density is
 * zero somewhere, or too few draws tell. */
static bool estimate_line(wvgd_fit *f, size_t j, const cell_draws *c)
{
    if (!wv_cell_line_cells(f) || density_ends(&f->b, c->first, c->n))
        return false;
    size_t mark = wv_arena_mark(f->arena);
    double *log_c = wv_arena_take(f->arena, c->n);
    wvgd_estimate known = wv_cell_line_control(f, &f->mix, j, c->n, f->b.x + c->first, log_c);
    cell_moments s = moments_of(c, log_c);
    double se = hypot(sqrt(s.variance / s.n), known.se);
    bool usable = s.n > 2 && isfinite(known.value + s.mean + se);
    if (usable) {
        wv_partition_set_excess(&f->cells, j, (wvgd_estimate){-s.mean, se});
        wv_partition_set_bound(&f->cells, j, (wvgd_estimate){known.value + s.mean, se}, f->cells.log_Z[j]);
    }
    wv_arena_release(f->arena, mark);
    return usable;
}

static void estimate(wvgd_fit *f, void *context, size_t j)
{
    const told *t = context;
    size_t first = t->begin[j], n = t->begin[j + 1] - first, mark = wv_arena_mark(f->arena);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    cell_draws c = {first, n, f->b.log_p + first, wv_arena_take(f->arena, n)};
    wvgd_estimate known = {0, 0};
    wv_partition_set_excess(&f->cells, j, (wvgd_estimate){NAN, NAN});
    if (f->bent.cells)
        wv_bent_cells_estimate(f, j, first, n);
    if (f->bent.cells || estimate_line(f, j, &c)) {
        wv_arena_release(f->arena, mark);
        return;
    }
    double *y = wv_arena_take(f->arena, n * f->D);
    wv_gaussian_log_density(&q, n, f->b.x + first * f->D, c.log_control, y, f->arena);
    if (f->bound.ess[j] > 0)
        wv_partition_set_log_Z(&f->cells, j, (wvgd_estimate){f->bound.log_Z[j], f->bound.log_Z_se[j]}, true);
    wv_ended stored = wv_cell_draws_ended(f, j, &q);
    if (n && stored.told)
        estimate_ended(f, j, (double)n, moments_of(&c, c.log_control), &stored);
    else {
        bool controlled = take_control(f, t, j, &c, &known);
        estimate_cell(f, j, &c, known, controlled);
    }
    wv_arena_release(f->arena, mark);
}

/* What component j could still gain, if its cell has a bound: no more than it loses. The gain of one step is an
 * expansion about the best fit; of a component far from that a few draws in its tail can make it anything. context:
 * begin[N + 1]. */
static void find_gain(wvgd_fit *f, void *context, size_t j)
{
    const size_t *begin = context, first = begin[j], n = begin[j + 1] - first;
    wvgd_estimate gain = {NAN, NAN}, e = f->outcome.evidence;
    if (f->cells.elbo[j] > -INFINITY)
        gain = f->bent.cells ? wv_bent_cells_gain(f, j)
                             : wv_cell_gain(f, j, n, f->b.x + first * f->D, f->b.log_p + first);
    double loss = fmax(e.value + log(f->cells.beta[j]) - f->cells.elbo[j], 0),
           loss_se = hypot(hypot(e.se, f->cells.elbo_se[j]), f->cells.beta_se[j] / f->cells.beta[j]);
    if (gain.value > loss + wv_policy.verdict_errors * loss_se)
        gain = (wvgd_estimate){loss, loss_se};
    wv_partition_set_gain(&f->cells, j, gain);
}

double wv_cell_bound_most(const wvgd_fit *f, size_t j)
{
    double errors = wv_policy.bound_most_errors;
    return f->outcome.evidence.value + errors * f->outcome.evidence.se +
           log(fmin(f->cells.beta[j] + errors * f->cells.beta_se[j], 1));
}

/* Whether ELBO_j lies above the log mass of its cell, by more than the noise of both: then the draws have
 * not told the mass of the component there. */
static bool incredible(const wvgd_fit *f, size_t j)
{
    return f->cells.elbo[j] - wv_policy.bound_most_errors * f->cells.elbo_se[j] > wv_cell_bound_most(f, j);
}

/* Leaves out what cannot be, where the evidence is known well enough to tell and something else is left. Masses of
 * components in one dimension are exact. */
static void disbelieve(wvgd_fit *f)
{
    double others = 0;
    if (wv_cell_line_cells(f))
        return;
    for (size_t j = 0; j < f->N; j++)
        others += f->cells.elbo[j] > -INFINITY && !incredible(f, j) ? f->cells.weight[j] : 0;
    for (size_t j = 0; j < f->N && others > 0 && f->outcome.evidence.se < wv_policy.bound_evidence_se; j++)
        if (incredible(f, j))
            wv_partition_leave_out(&f->cells, j);
}

/* A cell without a bound has no part in the ensemble. Weights that sum to 1, or to 0 where no cell has any. */
static void mask_weights(const wvgd_fit *f, double *w)
{
    for (size_t j = 0; j < f->N; j++)
        w[j] = f->cells.elbo[j] > -INFINITY ? w[j] : 0;
    double kept = cblas_dasum((int)f->N, w, 1);
    if (kept > 0)
        cblas_dscal((int)f->N, 1 / kept, w, 1);
}

/* Takes other weights, if they are better by more than the noise of the difference; luck: what that noise has added
 * to their bound on average, because they come of the same draws. */
static void consider(wvgd_fit *f, const double *w, double luck)
{
    double noise = 0;
    wvgd_estimate other = bound(f, w);
    other.value -= luck;
    for (size_t j = 0; j < f->N; j++)
        if (f->cells.elbo[j] > -INFINITY)
            noise += (f->cells.weight[j] - w[j]) * (f->cells.weight[j] - w[j]) * f->cells.elbo_se[j] *
                     f->cells.elbo_se[j];
    if (!(other.value > f->outcome.bound.value + sqrt(noise)))
        return;
    wv_partition_set_weights(&f->cells, w);
    wv_outcome_raise_bound(&f->outcome, other);
}

/* The weights come of earlier estimates of the ELBOs. Where those were noisier than components differ, the masses
 * can be better weights, or those of ELBOs that are two standard errors lower than estimated. An ELBO that came out
 * e too high has a weight that is w (1 - w) e too high, and adds e times that to the bound. */
static void choose_weights(wvgd_fit *f)
{
    size_t N = f->N, mark = wv_arena_mark(f->arena);
    double *w = wv_arena_take(f->arena, N), *low = wv_arena_take(f->arena, N), *own = wv_arena_take(f->arena, N),
           luck = 0;
    memcpy(w, f->cells.weight_beta, N * sizeof *w);
    memcpy(own, f->cells.weight, N * sizeof *own);
    mask_weights(f, w);
    mask_weights(f, own);
    wv_partition_set_weights(&f->cells, own);
    wv_outcome_set_bounds(&f->outcome, bound(f, f->cells.weight), bound(f, w));
    consider(f, w, 0);
    for (size_t j = 0; j < N; j++)
        low[j] = f->cells.elbo[j] > -INFINITY ? f->cells.elbo[j] - wv_policy.bound_cautious_errors * f->cells.elbo_se[j]
                                              : -INFINITY;
    wv_evidence_weights(N, low, w);
    for (size_t j = 0; j < N; j++)
        luck += w[j] > 0 ? w[j] * (1 - w[j]) * f->cells.elbo_se[j] * f->cells.elbo_se[j] : 0;
    consider(f, w, luck);
    wv_arena_release(f->arena, mark);
}

/* The first draw of each cell, [N + 1], in the arena of the caller. */
static size_t *first_draws(wvgd_fit *f)
{
    size_t *begin = wv_arena_take_sizes(f->arena, f->N + 1);
    begin[0] = 0;
    for (size_t j = 0; j < f->N; j++)
        for (begin[j + 1] = begin[j]; begin[j + 1] < f->b.n && f->b.cell[begin[j + 1]] == j;)
            begin[j + 1]++;
    return begin;
}

void wv_cell_bound_tell(wvgd_fit *f)
{
    size_t N = f->N, mark = wv_arena_mark(f->arena);
    if (!f->bent.cells)
        wv_cell_draws_update_walls(f);
    told t = {first_draws(f), find_leaders(f), {wv_arena_take(f->arena, N), wv_arena_take(f->arena, N)}};
    for (size_t j = 0; j < N; j++)
        if (t.leader[j] == j && !is_mixture(f, j) && !f->bent.cells)
            find_free_parts(f, t.leader, j, shared_wanted(f, &t, j), &t.parts);
    if (N > 1 || f->bent.cells || !estimate_alone(f))
        wv_fit_run_tasks(f, N, draw_work(f, wv_policy.bound_mass_look * (double)N, f->D), estimate, &t);
    if (N > 1)
        disbelieve(f);
    choose_weights(f);
    wv_outcome_reconcile(&f->outcome);
    wv_fit_run_tasks(f, N, draw_work(f, wv_policy.bound_mass_look * (double)N, f->D), find_gain, t.begin);
    wv_arena_release(f->arena, mark);
}
