/* cell_bound.c - what the components of the cells are worth: their masses in the cells, from draws that cost nothing,
 * and the PELBO, from one fresh batch of draws inside the cells with the mixture as a control (method, section 5). */
#include "staged/cell_bound.h"
#include "fit.h"
#include "gaussian.h"
#include "rng.h"
#include "staged/cell_target.h"
#include "simd/columns.h"
#include "evidence.h"
#include "halfspaces.h"
#include "staged/mixture_fit.h"
#include "staged/cell_refine.h"
#include "staged/cell_draws.h"
#include "staged/cell_component.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum {
    BATCHES = 24, /* batches of WV_FREE free draws for the mass of a cell, */
    TRIES = 60,   /* of draws for the bound */
    FEW = 1024,   /* free draws after which to look again */
    SHARED = 16,  /* cells that are many for one component to draw in */
    RARE = 30     /* draws in a cell that are too few to tell its mass */
};

/* Draws for the bound, in all and for a cell, at least, and in all because they are cheap, at most; standard error
 * wanted of the ELBO of a component that is alone, and its draws at most. */
static const double bound_draws = 100, bound_cell = 16, cheap_draws = 512, alone_se = 0.006, alone_draws = 2000;

/* ---- masses ------------------------------------------------------------------------------------------------------ */
/* Free draws of one cell at most, such that all cells together stay affordable. */
static size_t mass_most(const wvgd_fit *f)
{
    double most = 3e10 / ((double)f->N * (double)f->N * 2 * (double)f->D);
    return (size_t)fmin(fmax(most, 256), WV_FREE * BATCHES);
}

/* Standard error of a log mass that is small enough: what matters is their sum. */
static double fine_enough(const wvgd_fit *f)
{
    double N = (double)f->N;
    return f->D > 4 ? 0.01 * sqrt(N) : 0.005 * fmax(1, sqrt(N / 10));
}

/* Whether so few directions tell a cell that a lattice of points in them tells masses. */
static bool few_walls(const wvgd_fit *f)
{
    return f->N > 1 && f->N <= WV_LATTICE + 1 && f->D > WV_LATTICE && wv_halfspaces_flat(f);
}

/* log Z_j, or as far as the draws go; returns its standard error. Of a component that hardly reaches into its cell,
 * as the best one for a tail may, draws from around the particle tell the rest (f->cells.around). */
static double mass(wvgd_fit *f, size_t j)
{
    double inside = 0, squares = 0, n = 0, error = 0, fine = fine_enough(f), little = f->D > 4 ? 0.02 : 0.1;
    size_t most = mass_most(f), batch = most < FEW ? most : FEW,
           dims = f->N > 1 && wv_halfspaces_flat(f) ? wv_halfspaces_walls(f, j, NULL) : 0;
    bool around = false, known = false;
    if (few_walls(f) && dims <= WV_LATTICE) {
        inside = wv_halfspaces_lattice_mass(f, dims);
        error = inside > 0 ? wv_halfspaces_lattice_error(dims, 2 * WV_LATTICE_POINTS, inside) / inside : INFINITY;
        known = inside > little && error < fine;
        inside = known ? inside : 0;
        n = known;
    }
    for (uint64_t first = 0; first < most && f->N > 1 && !known; first += batch) {
        double all = (double)batch;
        if (dims && !around)
            inside += wv_halfspaces_count(f, j, dims, first, batch, &squares);
        else {
            size_t kept = wv_halfspaces_inside(f, j, WV_RNG_FREE, first, batch, around, &all);
            inside += cblas_dasum((int)kept, f->desk.gu, 1);
            squares += cblas_ddot((int)kept, f->desk.gu, 1, f->desk.gu, 1);
        }
        n += (double)batch;
        if (inside < little * n && !around) {
            around = true;
            inside = squares = n = 0;
            continue;
        }
        error = inside > 0 ? sqrt(fmax(squares / inside / inside - 1 / n, 0)) : INFINITY;
        if (error < fine)
            break;
    }
    f->cells.around[j] = around;
    f->cells.log_Z[j] = f->N == 1 ? 0 : inside > 0 ? log(inside / n) : -INFINITY;
    return error;
}

/* ---- cells with the same component ------------------------------------------------------------------------------- */
/* Where one Gaussian is the best for many cells, as it is where the posterior is like one, its draws serve all of
 * them: f->shared.start[j] is the first cell with the component of cell j, N for one that is not shared by many. */
static void find_shared(wvgd_fit *f, size_t many)
{
    for (size_t j = 0; j < f->N; j++)
        f->shared.start[j] = f->N;
    for (size_t j = 0; j < f->N; j++) {
        size_t cells = 0;
        for (size_t k = j; k < f->N && f->shared.start[j] == f->N; k++)
            cells += f->shared.start[k] == f->N && wv_partition_same(&f->cells, j, k);
        for (size_t k = f->N; k-- > j && cells >= many;)
            if (f->shared.start[k] == f->N && wv_partition_same(&f->cells, j, k))
                f->shared.start[k] = j;
    }
}

/* Draws number first .. first + WV_FREE of the component of cell j, and what is known of them. */
typedef struct {
    size_t j;
    wv_rng_use use;
    uint64_t first;
    double *x;             /* [WV_FREE][D] */
    uint32_t *cell;        /* [WV_FREE] */
    double *log_m, *log_q; /* [WV_FREE] log densities of mixture and component, or NULL */
} drawn;

static void draw_piece(wvgd_fit *f, void *context, size_t piece)
{
    const drawn *d = context;
    size_t n = wv_fit_piece(WV_FREE), at = piece * n;
    wv_gaussian q = wv_partition_component(&f->cells, d->j);
    wv_stream stream = {f->opt.seed, d->use, f->count.batch, d->j};
    double *x = d->x + at * f->D;
    wv_gaussian_draw(&q, &stream, d->first + at, n, false, x, f->arena);
    wv_halfspaces_assign(f, n, x, d->cell + at);
    if (!d->log_m)
        return;
    wv_cell_target(f, n, x, d->log_m + at, NULL);
    wv_gaussian_log_density(&q, n, x, d->log_q + at, f->desk.y, f->arena);
}

/* Into f->desk.gy, their cells into f->desk.free_cell, with `densities` those of the mixture into f->desk.glp and
 * those of the component into f->desk.gr. */
static void draw_shared(wvgd_fit *f, size_t j, wv_rng_use use, uint64_t first, bool densities)
{
    drawn d = {
        j, use, first, f->desk.gy, f->desk.free_cell, densities ? f->desk.glp : NULL, densities ? f->desk.gr : NULL};
    wv_fit_share(f, wv_fit_pieces(WV_FREE), (double)WV_FREE * (double)f->D * (double)(f->N + f->D), draw_piece, &d);
}

/* Shared draws at most. */
static size_t shared_most(const wvgd_fit *f)
{
    return (size_t)fmax(fmin(4e9 / (double)(f->N * f->D), WV_FREE * BATCHES), 2 * WV_FREE);
}

/* Draws of the component of cell j, number first .. first + WV_FREE, that lie in each cell. */
typedef struct {
    size_t j, dims;
    uint64_t first;
    const double *W, *low; /* wv_halfspaces_scores */
    double *count;         /* [pieces][N] */
} counted;

/* Squared costs: of the draws only the coordinates that tell their cell are made, and their mirror images. */
static void count_piece(wvgd_fit *f, void *context, size_t piece)
{
    const counted *c = context;
    size_t half = wv_fit_piece(WV_FREE) / 2, dims = c->dims;
    double *e = f->desk.gy, *count = c->count + piece * f->N, which[WV_COLUMNS]; /* [dims][WV_COLUMNS] */
    wv_stream stream = {f->opt.seed, WV_RNG_FREE, f->count.batch, c->j};
    memset(count, 0, f->N * sizeof *count);
    for (size_t at = 0; at < half; at += WV_COLUMNS) {
        wv_rng_normal(&stream, c->first / 2 + piece * half + at, dims * WV_COLUMNS, e);
        for (int mirrored = 0; mirrored < 2; mirrored++) {
            for (size_t i = 0; i < dims * WV_COLUMNS; i++)
                e[i] = -e[i];
            wv_columns_best()->highest(dims, WV_COLUMNS, f->N, e, c->W, c->low, which);
            for (size_t i = 0; i < WV_COLUMNS; i++)
                count[(size_t)which[i]]++;
        }
    }
}

/* Under any cost the draws themselves are made. */
static void count_shared(wvgd_fit *f, counted *c, double *count)
{
    size_t pieces = wv_fit_pieces(WV_FREE), N = f->N;
    if (!wv_halfspaces_flat(f)) {
        draw_shared(f, c->j, WV_RNG_FREE, c->first, false);
        for (size_t i = 0; i < WV_FREE; i++)
            count[f->desk.free_cell[i]]++;
        return;
    }
    wv_fit_share(f, pieces, (double)WV_FREE * (double)c->dims * (double)(N + 20), count_piece, c);
    for (size_t i = 0; i < pieces * N; i++)
        count[i % N] += c->count[i];
}

/* Whether component j is all of the mixture. */
static bool is_mixture(const wvgd_fit *f, size_t j)
{
    wv_gaussian q = wv_partition_component(&f->cells, j);
    return wv_mixture_is(&f->mix, &q);
}

/* Error of the sum of the logarithms of its masses, weighted by themselves, where so many of n
 * draws are in each cell. */
static double error_of(const wvgd_fit *f, size_t j, double n, const double *count)
{
    double error = 0;
    for (size_t k = j; k < f->N; k++)
        if (f->shared.start[k] == j)
            error = count[k] < RARE ? INFINITY : hypot(error, count[k] / n * sqrt(1 / count[k] - 1 / n));
    return error;
}

/* Masses of the component of cell j in all of its cells. */
static void share_masses(wvgd_fit *f, size_t j)
{
    size_t N = f->N;
    double n = 0, error = INFINITY, *count = f->shared.cell_spare, *W = f->shared.sum_z, *low = f->shared.step_kl;
    counted c = {.j = j, .dims = wv_halfspaces_dims(f), .W = W, .low = low, .count = f->desk.gx};
    wv_gaussian q = wv_partition_component(&f->cells, j);
    if (wv_halfspaces_flat(f))
        wv_halfspaces_scores(f, &q, c.dims, f->shared.try_z, W, low);
    memset(count, 0, N * sizeof *count);
    if (f->known.mass_points > 0 && is_mixture(f, j)) { /* the points that told its masses are as good as draws */
        n = f->known.mass_points;
        cblas_daxpy((int)N, n, f->shared.mix_mass, 1, count, 1);
        error = error_of(f, j, n, count);
    }
    for (; c.first < shared_most(f) && error > fine_enough(f) / sqrt((double)N); c.first += WV_FREE) {
        count_shared(f, &c, count);
        n += WV_FREE;
        error = error_of(f, j, n, count);
    }
    for (size_t k = j; k < N; k++)
        if (f->shared.start[k] == j) {
            f->cells.around[k] = 0;
            f->cells.log_Z[k] = log(count[k] / n);
            f->cells.elbo_se[k] = sqrt(1 / count[k] - 1 / n);
        }
}

/* A component whose share cannot be told gives way to the one before it was polished; and one of which next to
 * nothing lies in the cell to that of the mixture. */
static void mass_of(wvgd_fit *f, void *context, size_t j)
{
    static const struct {
        double error; /* standard error of the log mass that is too large */
        void (*give_way)(wvgd_fit *, size_t);
    } way[] = {{0.1, wv_cell_component_recall}, {0.3, wv_cell_component_plain}};
    (void)context;
    if (f->shared.start[j] < f->N)
        return;
    f->cells.elbo_se[j] = mass(f, j);
    for (size_t i = 0; i < sizeof way / sizeof *way; i++)
        if (!(f->cells.elbo_se[j] < way[i].error)) {
            way[i].give_way(f, j);
            wv_cell_draws_measure(f, j);
            f->cells.elbo_se[j] = mass(f, j);
        }
}

/* Multiplications for so many free draws in every cell: to make them takes as long as to compare
 * them with some twenty particles. */
static double work_of(const wvgd_fit *f, double draws)
{
    return draws * (double)(f->N * f->D) * (double)(f->N + 20);
}

void wv_cell_bound_masses(wvgd_fit *f)
{
    find_shared(f, WV_LATTICE + 2); /* where the lattice does not tell */
    if (few_walls(f))
        wv_halfspaces_lattice(f, f->N - 1);
    for (size_t j = 0; j < f->N; j++)
        if (f->shared.start[j] == j)
            share_masses(f, j);
    wv_fit_share(f, f->N, work_of(f, fmin((double)mass_most(f), 1 / (fine_enough(f) * fine_enough(f)))), mass_of, NULL);
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* Of the Gaussians at hand (components of the mixture, of modes, the component itself) the one that leaves least to
 * estimate of the ELBO of a component that is alone. */
static wv_gaussian best_control(wvgd_fit *f)
{
    size_t D = f->D, K = f->mix.K;
    wv_gaussian best = wv_partition_component(&f->cells, 0);
    double least = wv_cell_refine_price(f, &best, alone_se);
    for (size_t k = 0; k < K + f->modes.n; k++) {
        wv_gaussian g = k < K ? wv_mixture_component(&f->mix, k)
                              : (wv_gaussian){wv_family_get(WVGD_FULL),        D, 0, f->modes.x + (k - K) * D,
                                              f->modes.root + (k - K) * D * D, 0};
        double price = wv_cell_refine_price(f, &g, alone_se);
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
        return 2 * (size_t)(fmin(fmax(wv_cell_refine_price(f, &control, alone_se), bound_draws), alone_draws) / 2);
    }
    double all = fmax(f->cells.refined ? 3 * bound_draws : bound_draws, fmin(wv_fit_cheap(f), cheap_draws));
    return f->cells.weight[j] > 0 ? (size_t)fmax(bound_cell, round(all * f->cells.weight[j])) : 0;
}

/* Draws that cells want, from which place of the batch on, and how many they have, [N] each. */
typedef struct {
    size_t *wanted, *place, *have;
} places;

/* Draws of component j that lie in its cell, if it is not shared. */
static void draw_own(wvgd_fit *f, void *context, size_t j)
{
    const places *p = context;
    size_t D = f->D, at = p->place[j], wanted = p->wanted[j], have = 0;
    if (f->shared.start[j] < f->N)
        return;
    double share = f->cells.around[j] > 0 ? 0.5 : fmax(exp(f->cells.log_Z[j]), 0.01), all;
    /* alone, in mirrored pairs */
    size_t batch = f->N == 1 ? wanted : 2 * (size_t)(fmin(0.55 * (double)wanted / share + 8, WV_FREE / 2));
    for (uint64_t b = 0; b < TRIES && have < wanted; b++) {
        size_t kept = wv_halfspaces_inside(f, j, WV_RNG_BOUND, b * WV_FREE, batch, f->cells.around[j] > 0, &all);
        kept = kept < wanted - have ? kept : wanted - have;
        memcpy(f->b.x + (at + have) * D, f->desk.gx, kept * D * sizeof(double));
        memcpy(f->b.log_m + at + have, f->desk.gu, kept * sizeof(double));
        have += kept;
    }
    p->have[j] = have;
}

/* The same for all cells that share the component of cell j. */
static void draw_all(wvgd_fit *f, size_t j, const places *p)
{
    size_t D = f->D, missing = 0, *wanted = p->wanted, *place = p->place, *have = p->have;
    for (size_t k = j; k < f->N; k++)
        missing += f->shared.start[k] == j ? wanted[k] : 0;
    for (uint64_t first = 0; first < shared_most(f) && missing; first += WV_FREE) {
        draw_shared(f, j, WV_RNG_BOUND, first, false);
        for (size_t i = 0; i < WV_FREE; i++) {
            size_t k = f->desk.free_cell[i];
            if (f->shared.start[k] != j || have[k] == wanted[k])
                continue;
            memcpy(f->b.x + (place[k] + have[k]) * D, f->desk.gy + i * D, D * sizeof(double));
            f->b.log_m[place[k] + have[k]++] = 1;
            missing--;
        }
    }
}

/* Fresh draws of every component of weight that lie in its cell: those that do not are thrown away
 * before they cost anything. */
wvgd_status wv_cell_bound_ask(wvgd_fit *f, wvgd_error *error)
{
    size_t at = 0, D = f->D, N = f->N, *wanted = f->proposals.share, *place = wanted + N, *have = place + N;
    places p = {wanted, place, have};
    wv_halfspaces_update(f);
    find_shared(f, SHARED);
    for (size_t j = 0; j < N; j++) {
        wanted[j] = bound_wanted(f, j);
        wanted[j] = wanted[j] < f->size.n_max - at ? wanted[j] : f->size.n_max - at;
        place[j] = at;
        have[j] = 0;
        at += wanted[j];
    }
    for (size_t j = 0; j < N; j++)
        if (f->shared.start[j] == j)
            draw_all(f, j, &p);
    wv_fit_share(f, N, work_of(f, 4 * bound_cell), draw_own, &p);
    at = 0;
    for (size_t j = 0; j < N; j++) { /* close the gaps */
        memmove(f->b.x + at * D, f->b.x + place[j] * D, have[j] * D * sizeof(double));
        memmove(f->b.log_m + at, f->b.log_m + place[j], have[j] * sizeof(double));
        for (size_t i = 0; i < have[j]; i++)
            f->b.cell[at++] = (uint32_t)j;
    }
    if (!at)
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "none of %zu components reaches into its cell, so there is no bound: is the density proper?", N);
    f->b.n = at;
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

/* E_qj[log m - log q_j] over the cell, m the mixture, from draws that cost nothing, to the wanted
 * standard error or as far as they go. */
static wvgd_estimate free_part(wvgd_fit *f, size_t j, double wanted)
{
    double sum = 0, mean = 0, squares = 0, weights = 0, all, se = INFINITY;
    size_t most = f->cells.refined ? BATCHES * WV_FREE : 2 * WV_FREE,
           batch = mass_most(f) < FEW / 4 ? mass_most(f) : FEW / 4, kept = 0;
    most = most < mass_most(f) ? most : mass_most(f);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    for (uint64_t first = 0; first < most && se > wanted; first += batch) {
        size_t n = wv_halfspaces_inside(f, j, WV_RNG_FREE, BATCHES * WV_FREE + first, batch, f->cells.around[j] > 0,
                                        &all);
        wv_cell_target(f, n, f->desk.gx, f->desk.glp, NULL);
        wv_gaussian_log_density(&q, n, f->desk.gx, f->desk.gr, f->desk.y, f->arena);
        for (size_t i = 0; i < n; i++) {
            double u = f->desk.gu[i], d = f->desk.glp[i] - f->desk.gr[i];
            sum += u;
            mean += u * d;
            squares += u * d * d;
            weights += u * u;
        }
        kept += n;
        if (sum > 0 && (kept > 40 || first + batch >= most)) /* of fewer the error is not known */
            se = sqrt(fmax(squares / sum - mean / sum * (mean / sum), 0) * weights) / sum;
    }
    return (wvgd_estimate){mean / sum, se};
}

/* The same for all cells that share the component of cell j: values into f->shared.cell_spare, standard
 * errors into f->shared.sum_z. */
static void share_free_part(wvgd_fit *f, size_t j)
{
    size_t N = f->N;
    double worst = INFINITY, *value = f->shared.cell_spare, *se = f->shared.sum_z, *n = f->shared.try_z, *sum = n + N,
           *squares = sum + N;
    memset(n, 0, 3 * N * sizeof *n);
    for (uint64_t first = 0; first < shared_most(f) / 2 && worst > fine_enough(f) / 2; first += WV_FREE) {
        draw_shared(f, j, WV_RNG_FREE, BATCHES * WV_FREE + first, true);
        for (size_t i = 0; i < WV_FREE; i++) {
            size_t k = f->desk.free_cell[i];
            double d = f->desk.glp[i] - f->desk.gr[i];
            n[k]++;
            sum[k] += d;
            squares[k] += d * d;
        }
        worst = 0;
        for (size_t k = j; k < N; k++)
            if (f->shared.start[k] == j) {
                value[k] = sum[k] / n[k];
                se[k] = n[k] > 1 ? sqrt(fmax(squares[k] / n[k] - value[k] * value[k], 0) / n[k]) : INFINITY;
                worst = fmax(worst, se[k]);
            }
    }
}

/* E_q[log g - log q] of Gaussians g and q. */
static double gaussian_part(wvgd_fit *f, const wv_gaussian *g, const wv_gaussian *q)
{
    size_t D = f->D;
    double *A = f->desk.square[0], *d = f->desk.vector[0];
    memset(A, 0, D * D * sizeof *A); /* rows: columns of the root of q, by the columns of the identity */
    for (size_t i = 0; i < D; i++)
        A[i * D + i] = 1;
    q->family->colour(D, q->R, q->root, D, A, f->arena);
    g->family->whiten(D, g->R, g->root, D, A, f->arena);
    wv_gaussian_whiten(g, 1, q->mu, d, f->arena);
    return q->family->log_det(D, q->R, q->root) - g->family->log_det(D, g->R, g->root) +
           ((double)D - cblas_ddot((int)(D * D), A, 1, A, 1) - cblas_ddot((int)D, d, 1, d, 1)) / 2;
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

/* Mean of d[n] under q, whose whitened draws are y (rows 2i: one of each pair), given that
 * E y_i y_k = delta_ik: of d less what the regression on these products makes of them, for each pair the one fitted
 * to the others, so that the products' means do not have to be 0 in the sample; and its standard error. With
 * too few pairs for all products the squares must do. */
static wvgd_estimate adjusted_mean(wvgd_fit *f, size_t n, const double *d, const double *y)
{
    size_t D = f->D, p = 1 + D * (D + 1) / 2;
    bool all = p <= f->size.p_max && 2 * p < n;
    double *F = f->desk.F, *T = f->desk.T, *b = f->desk.Fc, *e = f->desk.Fm, sum = 0, squares = 0;
    p = all ? p : 1 + D;
    if (p > f->size.p_max || 3 * p >= n)
        p = 1;
    memset(F, 0, p * p * sizeof *F);
    memset(b, 0, p * sizeof *b);
    memset(e, 0, p * sizeof *e);
    e[0] = 1;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t first = 0; first < n; first += WV_BLOCK) {
            size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
            for (size_t i = 0; i < here; i++)
                products(D, p, all, y + 2 * (first + i) * D, T + i * p);
            if (pass == 0) {
                cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)p, (int)here, 1.0, T, (int)p, 1.0, F, (int)p);
                cblas_dgemv(CblasRowMajor, CblasTrans, (int)here, (int)p, 1.0, T, (int)p, d + first, 1, 1.0, b, 1);
                continue;
            }
            for (size_t i = 0; i < here; i++) {
                /* what the others leave of d: more, by the leverage, and by what the pair has done to the intercept */
                double left = d[first + i] - cblas_ddot((int)p, b, 1, T + i * p, 1),
                       pull = cblas_ddot((int)p, e, 1, T + i * p, 1);
                cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)p, F, (int)p, T + i * p, 1);
                left *= (1 - pull) / (1 - fmin(cblas_ddot((int)p, T + i * p, 1, T + i * p, 1), 0.99));
                sum += left;
                squares += left * left;
            }
        }
        if (pass == 0 &&
            (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, F, (lapack_int)p) != 0 ||
             LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, F, (lapack_int)p, b, (lapack_int)p) != 0 ||
             LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, F, (lapack_int)p, e, (lapack_int)p) != 0))
            return (wvgd_estimate){NAN, INFINITY};
    }
    double mean = sum / (double)n;
    return (wvgd_estimate){b[0] + mean, sqrt(fmax(squares / (double)n - mean * mean, 0) / (double)(n - 1))};
}

/* ELBO of a component that is alone, from mirrored pairs of draws: a Gaussian near it is the control, and
 * what that has to say is known exactly. False: not to be had like this, where the density is zero
 * somewhere, or beyond the range of numbers. */
static bool estimate_alone(wvgd_fit *f)
{
    const wv_batch *b = &f->b;
    wv_gaussian q = wv_partition_component(&f->cells, 0), g = best_control(f);
    double *d = f->desk.glp;
    size_t pairs = b->n / 2;
    for (size_t i = 0; i < b->n; i++)
        if (!(b->log_p[i] > -INFINITY))
            return false;
    wv_gaussian_log_density(&g, b->n, b->x, f->desk.psi, f->desk.y, f->arena);
    wv_gaussian_whiten(&q, b->n, b->x, f->desk.y, f->arena);
    for (size_t i = 0; i < pairs; i++)
        d[i] = (b->log_p[2 * i] - f->desk.psi[2 * i] + b->log_p[2 * i + 1] - f->desk.psi[2 * i + 1]) / 2;
    wvgd_estimate mean = pairs > 2 ? adjusted_mean(f, pairs, d, f->desk.y) : (wvgd_estimate){NAN, INFINITY};
    double elbo = gaussian_part(f, &g, &q) + mean.value;
    if (!isfinite(elbo + mean.se))
        return false;
    f->cells.elbo[0] = elbo;
    f->cells.elbo_se[0] = mean.se;
    return true;
}

/* Weighted variance of log p~ - b[n] over the draws of the batch from `first` on that have density. */
static double spread_of(const wv_batch *batch, size_t first, size_t n, const double *b)
{
    double sum = 0, mean = 0, squares = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++)
            if (batch->log_p[first + i] > -INFINITY) {
                double w = batch->log_m[first + i], d = batch->log_p[first + i] - b[i];
                if (pass == 0) {
                    sum += w;
                    mean += w * d;
                } else
                    squares += w * (d - mean / sum) * (d - mean / sum);
            }
    return squares / sum;
}

/* Cell j has no bound, and no part in the ensemble. */
static void leave_out(wvgd_fit *f, size_t j)
{
    f->cells.elbo[j] = -INFINITY;
    f->cells.weight[j] = 0;
}

/* ELBO_j and its standard error from the draws of cell j in the batch (context: [N + 1] the first of each cell),
 * whose weights stand in b->log_m. The mixture is a control: what of log p~ - log q_j it explains is known, unless
 * the density is zero in a part of the cell that only these draws know of. */
static void estimate(wvgd_fit *f, void *context, size_t j)
{
    const wv_batch *b = &f->b;
    const size_t *begin = context;
    size_t first = begin[j], end = begin[j + 1];
    wv_gaussian q = wv_partition_component(&f->cells, j);
    double mean = 0, squares = 0, n = 0, sum = 0, all = 0, *log_m = f->desk.moving;
    wvgd_estimate known = {0, 0};
    bool cut = false;
    for (size_t i = first; i < end; i++)
        cut |= !(b->log_p[i] > -INFINITY);
    wv_gaussian_log_density(&q, end - first, b->x + first * f->D, f->desk.psi, f->desk.y, f->arena);
    bool controlled = end - first > 2 && !cut && !is_mixture(f, j);
    if (controlled)
        wv_cell_target(f, end - first, b->x + first * f->D, log_m, NULL);
    double left = controlled ? spread_of(b, first, end - first, log_m) : 0;
    if (controlled && left < spread_of(b, first, end - first, f->desk.psi)) {
        /* of the error: draws of the mixture are free, but where evaluations are cheap they take as long */
        double share = wv_fit_cheap(f) > 0 ? 1 : 0.3;
        double wanted = fmax(share * sqrt(left / (double)(end - first)), fine_enough(f) / 2);
        known = f->shared.start[j] < f->N ? (wvgd_estimate){f->shared.cell_spare[j], f->shared.sum_z[j]}
                                          : free_part(f, j, wanted);
        if (isfinite(known.se))
            memcpy(f->desk.psi, log_m, (end - first) * sizeof(double));
        else
            known = (wvgd_estimate){0, 0};
    }
    for (size_t i = first; i < end; i++) {
        all += b->log_m[i];
        if (b->log_p[i] > -INFINITY) {
            n++;
            sum += b->log_m[i];
            mean += b->log_m[i] * (b->log_p[i] - f->desk.psi[i - first]);
        }
    }
    if (n < 2 || !(sum > 0)) {
        leave_out(f, j);
        return;
    }
    mean /= sum;
    for (size_t i = first; i < end; i++)
        if (b->log_p[i] > -INFINITY) {
            double d = b->log_m[i] / sum * (b->log_p[i] - f->desk.psi[i - first] - mean);
            squares += d * d;
        }
    squares *= n / (n - 1);
    f->cells.log_Z[j] += log(sum / all); /* where the density is zero the cell ends too */
    f->cells.elbo[j] = known.value + mean + f->cells.log_Z[j];
    f->cells.elbo_se[j] =
        sqrt(squares + known.se * known.se + f->cells.elbo_se[j] * f->cells.elbo_se[j] + (1 - sum / all) / n);
}

double wv_cell_bound_most(const wvgd_fit *f, size_t j)
{
    return f->outcome.evidence.value + 3 * f->outcome.evidence.se +
           log(fmin(f->cells.beta[j] + 3 * f->cells.beta_se[j], 1));
}

/* Whether ELBO_j lies above the log mass of its cell, by more than the noise of both: then the draws have
 * not told the mass of the component there. */
static bool incredible(const wvgd_fit *f, size_t j)
{
    return f->cells.elbo[j] - 3 * f->cells.elbo_se[j] > wv_cell_bound_most(f, j);
}

/* Leaves out what cannot be, where the evidence is known well enough to tell and something else is left. */
static void disbelieve(wvgd_fit *f)
{
    double others = 0;
    for (size_t j = 0; j < f->N; j++)
        others += f->cells.elbo[j] > -INFINITY && !incredible(f, j) ? f->cells.weight[j] : 0;
    for (size_t j = 0; j < f->N && others > 0 && f->outcome.evidence.se < 0.05; j++)
        if (incredible(f, j))
            leave_out(f, j);
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
        else if (w[j] > 0)
            return; /* a cell without a bound has no part in the ensemble */
    if (!(other.value > f->outcome.bound.value + sqrt(noise)))
        return;
    memcpy(f->cells.weight, w, f->N * sizeof(double));
    f->outcome.bound = other;
}

/* The weights come of earlier estimates of the ELBOs. Where those were noisier than components differ, the masses
 * can be better weights, or those of ELBOs that are two standard errors lower than estimated. An ELBO that came out
 * e too high has a weight that is w (1 - w) e too high, and adds e times that to the bound. */
static void choose_weights(wvgd_fit *f)
{
    double *w = f->shared.cell_spare, *low = f->shared.sum_z, luck = 0;
    f->outcome.bound = bound(f, f->cells.weight);
    f->outcome.bound_beta = bound(f, f->cells.weight_beta);
    consider(f, f->cells.weight_beta, 0);
    for (size_t j = 0; j < f->N; j++)
        low[j] = f->cells.elbo[j] > -INFINITY ? f->cells.elbo[j] - 2 * f->cells.elbo_se[j] : -INFINITY;
    wv_evidence_weights(f->N, low, w);
    for (size_t j = 0; j < f->N; j++)
        luck += w[j] > 0 ? w[j] * (1 - w[j]) * f->cells.elbo_se[j] * f->cells.elbo_se[j] : 0;
    consider(f, w, luck);
}

wvgd_status wv_cell_bound_tell(wvgd_fit *f, wvgd_error *error)
{
    (void)error;
    wv_cell_target_prepare(f);
    wv_halfspaces_update(f);
    find_shared(f, SHARED);
    for (size_t j = 0; j < f->N; j++)
        if (f->shared.start[j] == j && !is_mixture(f, j))
            share_free_part(f, j);
    size_t *begin = f->proposals.share; /* [N + 1] first draw of each cell */
    begin[0] = 0;
    for (size_t j = 0; j < f->N; j++)
        for (begin[j + 1] = begin[j]; begin[j + 1] < f->b.n && f->b.cell[begin[j + 1]] == j;)
            begin[j + 1]++;
    if (f->N > 1 || !estimate_alone(f))
        wv_fit_share(f, f->N, work_of(f, FEW), estimate, begin);
    if (f->N > 1)
        disbelieve(f);
    double kept = cblas_dasum((int)f->N, f->cells.weight, 1);
    if (kept > 0)
        cblas_dscal((int)f->N, 1 / kept, f->cells.weight, 1);
    choose_weights(f);
    f->stage = WV_DONE;
    return WVGD_OK;
}
