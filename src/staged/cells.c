/* cells.c - with weighted draws in hand the transport problem is weighted k-means; particles, masses of the
 * cells, then their components (cell_component.c): none of it asks the model (method, sections 5 and 6, quantise). */
#include "staged/cells.h"
#include "describe.h"
#include "fit.h"
#include "gaussian.h"
#include "posterior.h"
#include "rng.h"
#include "staged/bent_cells.h"
#include "staged/cell_bound.h"
#include "nearest.h"
#include "simd/columns.h"
#include "evidence.h"
#include "halfspaces.h"
#include "staged/assess.h"
#include "joint/pilot.h"
#include "particle.h"
#include "kmeans.h"
#include "policy.h"
#include "staged/cell_refine.h"
#include "staged/cell_draws.h"
#include "staged/cell_component.h"
#include "staged/modes.h"
#include "cell_line.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

static bool few_dims(const wvgd_fit *f)
{
    return (double)f->D <= wv_policy.cells_few_dims;
}

/* ---- particles --------------------------------------------------------------------------------------------------- */
/* Stored draws of a piece. */
typedef struct {
    size_t first, n;
} stretch;

static stretch stretch_of(const wvgd_fit *f, size_t piece)
{
    size_t most = wv_workers_piece(f->closing.draws.n), first = piece * most, left = f->closing.draws.n - first;
    return (stretch){first, left < most ? left : most};
}

/* Cells of a piece of the stored draws, which has no more than WV_FREE of them (close_max is 100000 at most). */
static void find_piece(wvgd_fit *f, void *context, size_t piece)
{
    stretch s = stretch_of(f, piece);
    size_t mark = wv_arena_mark(f->arena);
    uint32_t *cell = wv_arena_take_index(f->arena, s.n);
    (void)context;
    wv_halfspaces_assign(&f->halfspaces, s.n, f->closing.draws.x + s.first * f->D, cell, f->arena);
    wv_draws_set_cells(&f->closing.draws, s.first, s.n, cell, NULL);
    wv_arena_release(f->arena, mark);
}

/* The same, and costs to the nearest particle. */
static void assign_piece(wvgd_fit *f, void *context, size_t piece)
{
    stretch s = stretch_of(f, piece);
    size_t mark = wv_arena_mark(f->arena);
    double *near = wv_arena_take(f->arena, s.n), *next = wv_arena_take(f->arena, s.n);
    uint32_t *cell = wv_arena_take_index(f->arena, s.n);
    wv_geometry g = wv_partition_geometry(&f->cells);
    (void)context;
    wv_nearest_assign(&g, s.n, f->closing.draws.x + s.first * f->D, cell, near, next, f->arena);
    wv_draws_set_cells(&f->closing.draws, s.first, s.n, cell, near);
    wv_arena_release(f->arena, mark);
}

static void run_pieces(wvgd_fit *f, wv_fit_task *task)
{
    size_t n = f->closing.draws.n;
    wv_fit_run_tasks(f, wv_workers_pieces(n), (double)(n * f->N * f->D), task, NULL);
}

/* Cells of the stored draws, */
static void find_cells(wvgd_fit *f)
{
    wv_cell_draws_update_walls(f);
    run_pieces(f, find_piece);
}

/* and costs to the nearest particle. */
static void assign_all(wvgd_fit *f)
{
    run_pieces(f, assign_piece);
    wv_cell_draws_update_walls(f);
}

/* Cells of the stored draws, nearly always the right ones: in a time that can be waited for. */
static void assign_roughly(wvgd_fit *f)
{
    size_t n = f->closing.draws.n, mark = wv_arena_mark(f->arena);
    double *near = wv_arena_take(f->arena, n);
    uint32_t *cell = wv_arena_take_index(f->arena, n);
    wv_geometry g = wv_partition_geometry(&f->cells);
    wv_nearest_assign_roughly(&g, n, f->closing.draws.x, cell, near, f->arena);
    wv_draws_set_cells(&f->closing.draws, 0, n, cell, near);
    wv_cell_draws_update_walls(f);
    wv_arena_release(f->arena, mark);
}

/* Particles at stored draws, evenly by their weights. */
static void place_on_draws(wvgd_fit *f)
{
    double sum = 0;
    for (size_t i = 0, j = 0; j < f->N; j++) {
        double wanted = ((double)j + 0.5) / (double)f->N;
        while (i + 1 < f->closing.draws.n && sum + f->closing.v[i] < wanted)
            sum += f->closing.v[i++];
        wv_partition_move(&f->cells, j, f->closing.draws.x + i * f->D);
    }
}

/* Multiplications for what is done with the stored draws of all cells, each of which looks for its own. */
static double work_of(const wvgd_fit *f)
{
    return (double)f->closing.draws.n * (double)(f->N + f->D * f->D);
}

/* Particles to where the cost pulls them, spreads to the covariances of the cells. */
static void settle_particle(wvgd_fit *f, void *context, size_t j)
{
    size_t mark = wv_arena_mark(f->arena);
    wv_cell_sample s = wv_cell_draws_sample(f, j, false);
    double *weight = wv_arena_take(f->arena, s.n), *mean = wv_arena_take(f->arena, f->D);
    (void)context;
    if (s.n > 1) /* there is no component yet: it stands for the posterior */
        wv_particle_step(&f->cells, j, (wv_cell_points){s.n, s.x, s.log_w, s.log_w}, (wv_free_draws){0}, 1, weight,
                         mean, f->arena);
    wv_arena_release(f->arena, mark);
}

static void settle_particles(wvgd_fit *f, double rounds)
{
    double before = INFINITY, distortion;
    for (size_t round = 0; (double)round < rounds; round++) {
        if (f->opt.cost == WVGD_CALLBACK) {
            assign_all(f);
            distortion = cblas_ddot((int)f->closing.draws.n, f->closing.v, 1, f->closing.draws.near, 1);
            if (distortion > (1 - wv_policy.cells_settled_gain) * before)
                return;
            before = distortion;
        } else
            find_cells(f);
        wv_fit_run_tasks(f, f->N, work_of(f), settle_particle, NULL);
    }
    find_cells(f);
}

/* ---- the mixture as a control ------------------------------------------------------------------------------------ */
/* The stored draws estimate masses and means of the mixture in the cells too, with nearly the same errors as those
 * of the posterior; and the mixture's own are known as well as one likes, from points that cost nothing. Under a
 * squared cost the cell of a point x = mu_k + L_k e depends on e only where the N - 1 walls between the first
 * particle and the others look, so in more than four dimensions the points have only as many coordinates as these
 * directions, if they are fewer; elsewhere e has mean 0. */
typedef struct {
    wv_mixture_control like; /* how far the posterior follows it */
    size_t n;                /* points of all components together; 0: there are none */
    const double *e;         /* [n][dims], or the lattice, which all components share, in columns */
    wv_mixture_masses known; /* of the mixture */
    double *sum;             /* [N][D] sums of x in the cells: of the mixture, or of the posterior */
} control;

static size_t control_dims(const wvgd_fit *f)
{
    wv_geometry g = wv_partition_geometry(&f->cells);
    return few_dims(f) ? f->D : wv_halfspaces_dims(&g);
}

static bool lattice(const wvgd_fit *f)
{
    return control_dims(f) <= WV_LATTICE;
}

/* Whether the points are those of wv_halfspaces_lattice, for all components the same. */
static bool same_lattice(const wvgd_fit *f)
{
    return lattice(f) && control_dims(f) < f->D;
}

/* Points for masses and means of the cells; fewer where they cost more. */
static double control_draws(const wvgd_fit *f)
{
    double d = (double)control_dims(f);
    return same_lattice(f) ? WV_LATTICE_POINTS
                           : fmin(fmax(wv_policy.cells_control_work / (d * d), wv_policy.cells_control_least),
                                  wv_policy.cells_control_most);
}

/* Whether the points are affordable. */
static bool controlled(const wvgd_fit *f)
{
    double d = (double)control_dims(f);
    return f->N > 1 &&
           control_draws(f) * (double)f->N * (wv_cost_flat(&f->cells.shape.cost) ? d : d * d) <
               wv_policy.cells_control_affordable &&
           f->opt.cost != WVGD_CALLBACK;
}

/* n standard normal points e[n][dims] for component k of the mixture: a lattice, or mirrored draws. */
static void draw_points(wvgd_fit *f, size_t k, size_t n, double *e)
{
    size_t dims = control_dims(f);
    wv_stream stream = {f->opt.seed, WV_RNG_SETTLE, 0, k};
    if (lattice(f)) {
        wv_rng_lattice(&stream, n, dims, e);
        return;
    }
    wv_rng_normal(&stream, 0, n / 2 * dims, e);
    for (size_t i = 0; i < n / 2 * dims; i++)
        e[n / 2 * dims + i] = -e[i];
}

/* Points of component k: an even number. */
static size_t control_points(const wvgd_fit *f, size_t k)
{
    double K = (double)f->mix.K, most = fmin(control_draws(f), (double)f->size.n_max),
           least = fmin(wv_policy.cells_control_component, wv_policy.cells_control_even * most / K);
    return 2 * (size_t)((least + (most - least * K) * f->mix.w[k]) / 2);
}

/* Points of all components, in the arena of the caller unless they are the lattice. */
static void make_points(wvgd_fit *f, control *c)
{
    size_t dims = control_dims(f), at = 0;
    if (same_lattice(f)) {
        wv_halfspaces_lattice(&f->halfspaces, f->opt.seed, dims);
        c->n = WV_LATTICE_POINTS;
        c->e = f->halfspaces.lattice;
        return;
    }
    for (size_t k = 0; k < f->mix.K; k++)
        c->n += control_points(f, k);
    double *e = wv_arena_take(f->arena, c->n * dims);
    for (size_t k = 0; k < f->mix.K; at += control_points(f, k++))
        draw_points(f, k, control_points(f, k), e + at * dims);
    c->e = e;
}

/* Scores of the cells as one component sees them, and what its points add up to, in its coordinates. */
typedef struct {
    size_t dims;
    double *A, *W, *low; /* [N][D], [N][dims], [N] wv_halfspaces_scores */
    double *mass, *T;    /* [N], [N][dims] weights of the points, and their weighted sums */
} cell_counts;

/* n points e[n][dims], each of weight w; in columns if they are the lattice. */
static void count_columns(wvgd_fit *f, const cell_counts *c, size_t n, const double *e, double w)
{
    size_t dims = c->dims, mark = wv_arena_mark(f->arena);
    double *turned = wv_arena_take(f->arena, dims * WV_COLUMNS), which[WV_COLUMNS]; /* [dims][WV_COLUMNS] */
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
        wv_limit_look(f->arena);
        const double *columns = same_lattice(f) ? e + first * dims : turned;
        if (!same_lattice(f))
            wv_columns_turn(dims, here, e + first * dims, turned);
        wv_columns_best()->highest(dims, wv_columns_round(here), f->N, columns, c->W, c->low, which);
        for (size_t i = 0; i < here; i++) {
            size_t best = (size_t)which[i];
            c->mass[best] += w;
            for (size_t k = 0; k < dims; k++)
                c->T[best * dims + k] += w * columns[k * WV_COLUMNS + i];
        }
    }
    wv_arena_release(f->arena, mark);
}

/* From coordinates along the walls, T[N][dims], to those of the component, T[N][D]. W is overwritten. */
static void from_walls(size_t N, size_t D, const cell_counts *c)
{
    int dims = (int)c->dims;
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)N, dims, 1.0, c->W + dims, dims,
                c->T, dims);
    memcpy(c->W, c->T, N * c->dims * sizeof *c->W);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)N, (int)D, dims, 1.0, c->W, dims, c->A + D, (int)D, 0.0,
                c->T, (int)D);
}

/* Squared costs: adds mass and sums of x in the cells of n points e of component q, each of weight w. */
static void count_points(wvgd_fit *f, const wv_gaussian *q, size_t n, const double *e, double w, double *mass,
                         double *sum)
{
    size_t D = f->D, N = f->N, mark = wv_arena_mark(f->arena);
    cell_counts c = {control_dims(f),
                     wv_arena_take(f->arena, N * D),
                     wv_arena_take(f->arena, N * D),
                     wv_arena_take(f->arena, N),
                     wv_arena_zeros(f->arena, N),
                     wv_arena_zeros(f->arena, N * D)};
    wv_halfspaces_scores(&f->halfspaces, q, c.dims, c.A, c.W, c.low, f->arena);
    count_columns(f, &c, n, e, w);
    if (c.dims < D)
        from_walls(N, D, &c);
    q->family->colour(D, 0, q->root, N, c.T, f->arena);
    cblas_daxpy((int)(N * D), 1.0, c.T, 1, sum, 1);
    for (size_t j = 0; j < N; j++) {
        mass[j] += c.mass[j];
        cblas_daxpy((int)D, c.mass[j], q->mu, 1, sum + j * D, 1);
    }
    wv_arena_release(f->arena, mark);
}

/* The same under any cost: the points themselves are made. */
static void assign_points(wvgd_fit *f, const wv_gaussian *q, size_t n, const double *e, double w, double *mass,
                          double *sum)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, WV_FREE * D); /* [WV_FREE][D] */
    uint32_t *cell = wv_arena_take_index(f->arena, WV_FREE);
    for (size_t first = 0; first < n; first += WV_FREE) {
        size_t here = n - first < WV_FREE ? n - first : WV_FREE;
        memcpy(x, e + first * D, here * D * sizeof *e);
        q->family->colour(D, 0, q->root, here, x, f->arena);
        for (size_t i = 0; i < here; i++)
            cblas_daxpy((int)D, 1.0, q->mu, 1, x + i * D, 1);
        wv_halfspaces_assign(&f->halfspaces, here, x, cell, f->arena);
        for (size_t i = 0; i < here; i++) {
            mass[cell[i]] += w;
            cblas_daxpy((int)D, w, x + i * D, 1, sum + cell[i] * D, 1);
        }
    }
    wv_arena_release(f->arena, mark);
}

/* Masses of the mixture in the cells, mass[N], and its sums of x there, c->sum, from the control points. */
static void mixture_cells(wvgd_fit *f, const control *c, double *mass)
{
    size_t dims = control_dims(f), at = 0;
    memset(mass, 0, f->N * sizeof *mass);
    memset(c->sum, 0, f->N * f->D * sizeof *c->sum);
    for (size_t k = 0; k < f->mix.K; k++) {
        wv_gaussian q = wv_mixture_component(&f->mix, k);
        size_t n = control_points(f, k);
        const double *e = same_lattice(f) ? c->e : c->e + at * dims;
        (wv_cost_flat(&f->cells.shape.cost) ? count_points : assign_points)(f, &q, n, e, f->mix.w[k] / (double)n, mass,
                                                                            c->sum);
        at += n;
    }
}

/* Weights w[n] of the stored draws that stand for the mixture (log density in f->closing.draws.log_mix[0]); returns
 * how far the posterior's follow them, as a coefficient between 0 and 1. */
static double mixture_weights(wvgd_fit *f, double *w)
{
    size_t n = f->closing.draws.n, mark = wv_arena_mark(f->arena);
    double mean = 1 / (double)n, cross = 0, square = 0, *log_w = wv_arena_take(f->arena, n);
    for (size_t i = 0; i < n; i++)
        log_w[i] = f->closing.draws.log_mix[0][i] - f->closing.draws.log_m[i];
    bool some = wv_weights_normalise(n, log_w, w);
    for (size_t i = 0; i < n && some; i++) {
        cross += (f->closing.v[i] - mean) * (w[i] - mean);
        square += (w[i] - mean) * (w[i] - mean);
    }
    wv_arena_release(f->arena, mark);
    return square > 0 ? fmin(fmax(cross / square, 0), 1) : 0;
}

/* Error that the control points leave in a mass. */
static double control_error(const wvgd_fit *f, size_t n, double mass)
{
    return lattice(f) ? wv_halfspaces_lattice_error(control_dims(f), (double)n, mass)
                      : sqrt(mass * (1 - mass) / (double)n);
}

/* What of the weight of stored draw i the mixture does not tell. */
static double own_weight(const wvgd_fit *f, const control *c, size_t i)
{
    return f->closing.v[i] - c->like.c * c->like.w[i];
}

/* Masses of the mixture into beta[N], and its sums of x in the cells into c->sum; with `draws` those of the
 * posterior, by what the stored draws tell of the difference. */
static void sharpen(wvgd_fit *f, const control *c, bool draws, double *beta)
{
    size_t D = f->D, N = f->N;
    mixture_cells(f, c, beta);
    if (!draws)
        return;
    memcpy(c->known.mass, beta, N * sizeof(double));
    cblas_dscal((int)N, c->like.c, beta, 1);
    cblas_dscal((int)(N * D), c->like.c, c->sum, 1);
    for (size_t i = 0; i < f->closing.draws.n; i++) {
        double w = own_weight(f, c, i);
        beta[f->closing.draws.cell[i]] += w;
        cblas_daxpy((int)D, w, f->closing.draws.x + i * D, 1, c->sum + f->closing.draws.cell[i] * D, 1);
    }
}

static double sharpen_rounds(const wvgd_fit *f)
{
    return few_dims(f)       ? wv_policy.cells_sharpen_rounds_few
           : same_lattice(f) ? wv_policy.cells_sharpen_rounds_lattice
                             : wv_policy.cells_sharpen_rounds;
}

/* Lloyd's steps with sharpened means, for squared costs. In few dimensions they are slow to settle, so
 * over-relaxed; in many, where particles lean towards the draws that placed them, that would throw them out of
 * their cells, and a hundredth more or less does not matter: there the steps but for the last are those of the
 * mixture alone, if it is like the posterior. */
static void sharpen_particles(wvgd_fit *f, const control *c)
{
    size_t D = f->D, rounds = (size_t)sharpen_rounds(f), mark = wv_arena_mark(f->arena);
    double *beta = wv_arena_take(f->arena, f->N), *mean = wv_arena_take(f->arena, D);
    for (size_t round = 1; round <= rounds; round++) {
        bool draws = !same_lattice(f) || c->like.c < wv_policy.cells_sharpen_alike || round == rounds;
        double step = few_dims(f) && round < rounds ? wv_policy.cells_sharpen_step : 1;
        if (draws)
            find_cells(f);
        else
            wv_cell_draws_update_walls(f);
        sharpen(f, c, draws, beta);
        for (size_t j = 0; j < f->N; j++)
            if (beta[j] > 0) {
                for (size_t i = 0; i < D; i++)
                    mean[i] = c->sum[j * D + i] / beta[j];
                wv_partition_move_towards(&f->cells, j, step, mean);
            }
    }
    wv_arena_release(f->arena, mark);
}

/* Sharpened masses and their standard errors. */
static void sharpen_masses(wvgd_fit *f, const control *c)
{
    size_t mark = wv_arena_mark(f->arena);
    double total = 0, squares = 0, *own = wv_arena_zeros(f->arena, f->N); /* [N] squares of the weights in a cell */
    double *beta = wv_arena_take(f->arena, f->N);
    sharpen(f, c, true, beta);
    for (size_t j = 0; j < f->N; j++)
        total += beta[j] = fmax(beta[j], 0);
    cblas_dscal((int)f->N, 1 / total, beta, 1);
    for (size_t i = 0; i < f->closing.draws.n; i++) {
        double w = own_weight(f, c, i);
        own[f->closing.draws.cell[i]] += w * w;
        squares += w * w;
    }
    for (size_t j = 0; j < f->N; j++) {
        double b = beta[j], known = c->like.c * control_error(f, c->n, b);
        wv_partition_set_mass(&f->cells, j, b,
                              sqrt(own[j] * (1 - b) * (1 - b) + (squares - own[j]) * b * b + known * known));
    }
    wv_arena_release(f->arena, mark);
}

/* ---- masses in one dimension ------------------------------------------------------------------------------------- */
/* Integrals of p~ over the cells, [N], and their errors: what they change if half of the draws that told it
 * are left out, and what quadrature leaves. */
typedef struct {
    double *mass, *error;
} integrals;

static void integrate(wvgd_fit *f, void *context, size_t j)
{
    const integrals *to = context;
    double log_Z = f->outcome.evidence.value;
    to->mass[j] = exp(wv_cell_line_log_mass(f, &f->mix, j, 1) - log_Z);
    to->error[j] = hypot(to->mass[j] - exp(wv_cell_line_log_mass(f, &f->mix, j, 2) - log_Z),
                         wv_policy.line_error * to->mass[j]);
}

/* Where cells are intervals quadrature tells their masses, mostly better than weights of draws do. */
static void integrate_masses(wvgd_fit *f)
{
    size_t N = f->N, mark = wv_arena_mark(f->arena);
    integrals to = {wv_arena_take(f->arena, N), wv_arena_take(f->arena, N)};
    wv_fit_run_tasks(f, N, wv_policy.cells_component_work * (double)N, integrate, &to);
    double total = cblas_dasum((int)N, to.mass, 1), error = cblas_dasum((int)N, to.error, 1);
    if (error < total * cblas_dasum((int)N, f->cells.beta_se, 1))
        for (size_t j = 0; j < N; j++) {
            double beta = to.mass[j] / total;
            wv_partition_set_mass(&f->cells, j, beta, hypot(to.error[j], beta * error) / total);
        }
    wv_arena_release(f->arena, mark);
}

/* Particles z[N][D] by k-means. */
static void find_particles(wvgd_fit *f, wv_mixture_control like, double *z)
{
    wv_geometry g = wv_partition_geometry(&f->cells);
    wv_kmeans_points p = {.draws = {f->closing.draws.n, f->closing.draws.x, f->closing.v},
                          .mean = f->posterior.mean,
                          .mixture = &f->mix,
                          .control = like,
                          .most = f->size.n_max,
                          .zeros = f->count.zero_points > 0,
                          .several_modes = f->modes.relevant > 1,
                          .given_metric = f->opt.metric != NULL};
    wv_kmeans_place(&g, &p, f->opt.seed, f->count.batch, &f->workers, z);
}

static bool all_finite(size_t n, const double *x)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* The metric of several modes is that within them, so that far modes do not hide how narrow they are, and cells do not
 * hold parts of several. root: that of the posterior. */
static void look_within_modes(wvgd_fit *f, double *root)
{
    size_t mark = wv_arena_mark(f->arena), *mode = wv_arena_take_sizes(f->arena, f->closing.draws.n);
    wv_modes_assign(f, f->closing.draws.n, f->closing.draws.x, mode);
    wv_posterior_root_within(&f->posterior, &f->closing, f->modes.relevant, mode, f->cells.shape.metric_family, root,
                             f->arena);
    wv_arena_release(f->arena, mark);
}

static void place_particles(wvgd_fit *f, wv_mixture_control like)
{
    size_t mark = wv_arena_mark(f->arena);
    double *spread = wv_arena_take(f->arena, f->cells.shape.cell_family->size(f->D, 0)),
           *metric = wv_arena_take(f->arena, f->cells.shape.metric_family->size(f->D, 0)),
           *z = wv_arena_take(f->arena, f->N * f->D);
    wv_posterior_root(&f->posterior, &f->closing, f->cells.shape.cell_family, spread, f->arena);
    for (size_t j = 0; j < f->N; j++)
        wv_partition_set_spread(&f->cells, j, spread);
    if (!(f->opt.metric && f->opt.cost == WVGD_MAHALANOBIS)) {
        wv_posterior_root(&f->posterior, &f->closing, f->cells.shape.metric_family, metric, f->arena);
        if (f->N > 1 && f->modes.relevant > 1)
            look_within_modes(f, metric);
        wv_partition_set_metric(&f->cells, metric);
    }
    if (f->N > 1) {
        find_particles(f, like, z);
        if (all_finite(f->N * f->D, z))
            wv_partition_move_all(&f->cells, z);
        else
            place_on_draws(f); /* one draw has all of the weight, and the metric no size */
    } else
        wv_partition_move(&f->cells, 0, f->posterior.mean); /* where wv_describe_cells finds its position from */
    wv_cell_draws_update_walls(f);
    wv_arena_release(f->arena, mark);
}

/* ---- weights of the components ----------------------------------------------------------------------------------- */
/* ELBO_j from the stored draws of the cell, or by quadrature where that can be had, for the weights only. */
static void weigh_component(wvgd_fit *f, void *context, size_t j)
{
    if (wv_cell_line_cells(f)) {
        wv_partition_set_elbo(&f->cells, j, wv_cell_line_elbo(f, &f->mix, j));
        return;
    }
    const wv_draws *b = &f->closing.draws;
    size_t n = 0, most = b->n < f->size.n_max ? b->n : f->size.n_max, mark = wv_arena_mark(f->arena);
    double *u = wv_arena_take(f->arena, most), *d = wv_arena_take(f->arena, most), sum = 0, mean = 0;
    (void)context;
    for (size_t i = 0; i < b->n && n < most; i++)
        if (b->cell[i] == j && b->log_q[i] > -INFINITY) {
            u[n] = b->log_q[i] - b->log_m[i];
            d[n++] = b->log_p[i] - b->log_q[i];
        }
    double top = wv_weights_largest(n, u); /* far out in the tail of the component all are small */
    for (size_t i = 0; i < n; i++)
        u[i] -= top;
    wv_weights_exp(n, u);
    for (size_t i = 0; i < n; i++) {
        sum += u[i];
        mean += u[i] * d[i];
    }
    wv_gaussian q = wv_partition_component(&f->cells, j);
    bool some = sum > 0 && f->cells.log_Z[j] > -INFINITY;
    wv_ended e = wv_cell_draws_ended(f, j, &q);
    double log_Z = e.told ? e.log_Z.value : f->cells.log_Z[j];
    wv_partition_set_elbo(&f->cells, j, some ? mean / sum + log_Z : -INFINITY);
    wv_arena_release(f->arena, mark);
}

/* Whether ELBO_j lies a nat above the log mass of its cell, which it cannot: of a component that hardly reaches
 * into its cell the stored draws tell nothing. */
static bool incredible(const wvgd_fit *f, size_t j)
{
    return f->cells.elbo[j] > wv_cell_bound_most(f, j) + wv_policy.cells_incredible_nats;
}

/* What cannot be has no weight, where the evidence is known well enough to tell and most is left. */
static void weigh_components(wvgd_fit *f)
{
    double left = 0;
    wv_fit_run_tasks(f, f->N, work_of(f), weigh_component, NULL);
    for (size_t j = 0; j < f->N; j++)
        left += incredible(f, j) ? 0 : f->cells.beta[j];
    bool believed = left > wv_policy.cells_incredible_left && f->outcome.evidence.se < wv_policy.cells_evidence_se;
    for (size_t j = 0; j < f->N && believed; j++)
        if (incredible(f, j))
            wv_partition_set_elbo(&f->cells, j, -INFINITY);
    wv_partition_weigh(&f->cells, f->cells.elbo);
}

static void fit_component(wvgd_fit *f, void *context, size_t j)
{
    (void)context;
    wv_cell_component_fit(f, j);
}

/* known: masses of the mixture, or NULL. */
static void weigh(wvgd_fit *f, const wv_mixture_masses *known)
{
    wv_cell_draws_update_walls(f);
    wv_cell_bound_masses(f, known);
    if (f->cells.refined)
        wv_cell_refine_weigh(f);
    else
        weigh_components(f);
    if (!(cblas_dasum((int)f->N, f->cells.weight, 1) > 0)) /* no component has a draw in its cell that could tell */
        wv_partition_set_weights(&f->cells, f->cells.beta);
}

void wv_cells_forget_bound(wvgd_fit *f)
{
    wv_partition_forget_bounds(&f->cells);
    wv_outcome_set_bounds(&f->outcome, (wvgd_estimate){NAN, NAN}, (wvgd_estimate){NAN, NAN});
}

void wv_cells_leave(wvgd_fit *f)
{
    wv_cells_forget_bound(f);
    wv_fit_cut_short(f);
}

/* Nobody knows what the components have in their cells. */
static void forget_weights(wvgd_fit *f)
{
    for (size_t j = 0; j < f->N; j++)
        wv_partition_set_log_Z(&f->cells, j, (wvgd_estimate){NAN, NAN}, false);
    wv_partition_set_weights(&f->cells, f->cells.beta);
    wv_cells_leave(f);
}

static void weigh_again(void *context)
{
    weigh(context, NULL);
}

bool wv_cells_weigh(wvgd_fit *f)
{
    bool whole = wv_fit_try(f, weigh_again, f);
    if (!whole)
        forget_weights(f);
    return whole;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
/* Rounds of steps without the control. */
static double settle_rounds(const wvgd_fit *f)
{
    return !wv_cost_flat(&f->cells.shape.cost) ? wv_policy.cells_settle_rounds
           : few_dims(f)                       ? wv_policy.cells_settle_rounds_few
                                               : wv_policy.cells_settle_rounds_flat;
}

/* How far the cells have come. */
typedef enum { NOTHING, PARTICLES, CELLS, COMPONENTS } progress;

typedef struct {
    wvgd_fit *f;
    progress have;
} making;

/* Particles, cells and their masses. Fills c from the arena of the caller. */
static void find_partition(making *m, control *c)
{
    wvgd_fit *f = m->f;
    bool some = controlled(f);
    *c = (control){.known.mass = wv_arena_take(f->arena, f->N), .sum = wv_arena_take(f->arena, f->N * f->D)};
    if (some) {
        double *w = wv_arena_take(f->arena, f->closing.draws.n);
        c->like = (wv_mixture_control){mixture_weights(f, w), w};
    }
    place_particles(f, c->like);
    m->have = PARTICLES;
    if (f->N > 1 && (!wv_cost_flat(&f->cells.shape.cost) || !some))
        settle_particles(f, settle_rounds(f));
    if (some)
        make_points(f, c);
    if (c->n && wv_cost_flat(&f->cells.shape.cost))
        sharpen_particles(f, c);
    assign_all(f);
    wv_describe_cells(f);
    if (c->n)
        sharpen_masses(f, c);
    if (f->N > 1 && wv_cell_line_cells(f))
        integrate_masses(f);
    c->known.points = (double)c->n;
    wv_partition_set_weight_beta(&f->cells, f->cells.beta);
}

static void make(void *context)
{
    making *m = context;
    wvgd_fit *f = m->f;
    control c;
    find_partition(m, &c);
    m->have = CELLS;
    if (f->pilot.wanted)
        wv_pilot_take_posterior(f);
    if (wv_bent_cells_suit(f)) {
        wv_bent_cells_fit(f);
        m->have = COMPONENTS;
        return;
    }
    wv_fit_run_tasks(f, f->N, wv_policy.cells_component_work * (double)f->N, fit_component, NULL);
    m->have = COMPONENTS;
    weigh(f, &c.known);
}

/* A limit has struck: what there is not yet becomes what it can without much work. Components get the moments of their
 * cells. */
static void make_roughly(const making *m)
{
    wvgd_fit *f = m->f;
    if (m->have < PARTICLES)
        place_on_draws(f);
    if (m->have < CELLS) {
        assign_roughly(f);
        wv_describe_cells(f);
        wv_partition_set_weight_beta(&f->cells, f->cells.beta);
    }
    if (m->have < COMPONENTS) {
        wv_bent_set_cells(&f->bent, false);
        wv_partition_fit_spreads(&f->cells, f->closing.draws.n, f->closing.draws.x, f->closing.v, f->closing.draws.cell,
                                 f->arena);
        for (size_t j = 0; j < f->N; j++)
            wv_partition_restart_component(&f->cells, j, NULL, f->arena);
    }
    forget_weights(f);
}

bool wv_cells_begin(wvgd_fit *f)
{
    making m = {f, NOTHING};
    wv_partition_begin_rounds(&f->cells);
    wv_bent_set_cells(&f->bent, false);
    wv_outcome_set_meanfield_gap(&f->outcome, NAN);
    bool whole = wv_fit_try(f, make, &m);
    if (!whole)
        make_roughly(&m);
    return whole;
}
