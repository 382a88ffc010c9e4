/* kmeans.c - quantizers have local minima that single moves do not leave. With weighted posterior
 * points in hand the transport problem is ordinary weighted k-means, and restarts cost no model
 * evaluations (method, section 6, quantise). */
#include "kmeans.h"
#include "gaussian.h"
#include "rng.h"
#include "nearest.h"
#include "simd/columns.h"
#include "halfspaces.h"
#include "error.h"
#include "limit.h"
#include "policy.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* So many particles in so many dimensions, what keys their starts, and who looks for them. */
typedef struct {
    size_t N, D;
    uint64_t seed, batch;
    wv_workers *workers;
} task;

/* Weighted points. `columns`: the same in blocks [D][WV_COLUMNS], so that they are turned once for all rounds of all
 * starts; NULL: with many particles, where nearest.c has another way. */
typedef struct {
    size_t n;
    const double *x, *w; /* [n][D], [n] */
    const double *columns;
} points;

static wv_arena *arena_of(const task *t)
{
    return t->workers->arena[0];
}

static size_t end_of(size_t n, size_t piece)
{
    return (piece + 1) * wv_workers_piece(n) < n ? (piece + 1) * wv_workers_piece(n) : n;
}

typedef struct {
    const points *p;
    wv_geometry centres;
    uint32_t *cell;          /* [n] */
    double total[WV_PIECES]; /* distortion of each piece of the points */
} assigning;

static void assign_piece(wv_arena *arena, void *context, size_t piece)
{
    assigning *a = context;
    const points *p = a->p;
    size_t end = end_of(p->n, piece), mark = wv_arena_mark(arena);
    double *cost = wv_arena_take(arena, WV_FREE), *next = wv_arena_take(arena, WV_FREE);
    a->total[piece] = 0;
    for (size_t first = piece * wv_workers_piece(p->n); first < end; first += WV_FREE) {
        size_t here = end - first < WV_FREE ? end - first : WV_FREE;
        if (p->columns)
            wv_nearest_assign_columns(&a->centres, here, p->columns + first * a->centres.D, a->cell + first, cost, next,
                                      arena);
        else
            wv_nearest_assign(&a->centres, here, p->x + first * a->centres.D, a->cell + first, cost, next, arena);
        for (size_t k = 0; k < here; k++)
            a->total[piece] += p->w[first + k] * cost[k];
    }
    wv_arena_release(arena, mark);
}

/* Nearest of the centres [N][D] of each point; returns the distortion. */
static double assign(const task *t, const points *p, const double *centre, uint32_t *cell)
{
    double total = 0;
    assigning a = {.p = p, .centres = {.cost.kind = WVGD_SQEUCLID, .N = t->N, .D = t->D, .z = centre}, .cell = cell};
    wv_workers_run(t->workers, wv_workers_pieces(p->n), (double)(p->n * t->N * t->D), assign_piece, &a);
    for (size_t piece = 0; piece < wv_workers_pieces(p->n); piece++)
        total += a.total[piece];
    return total;
}

/* Each centre to the mean of the points of its cell; that of an empty cell stays. mass: [N], sum: [N][D]. */
static void to_means(size_t N, size_t D, const points *p, const uint32_t *cell, double *mass, double *sum,
                     double *centre)
{
    memset(mass, 0, N * sizeof *mass);
    memset(sum, 0, N * D * sizeof *sum);
    for (size_t k = 0; k < p->n; k++) {
        mass[cell[k]] += p->w[k];
        for (size_t i = 0; i < D; i++)
            sum[cell[k] * D + i] += p->w[k] * p->x[k * D + i];
    }
    for (size_t j = 0; j < N; j++)
        for (size_t i = 0; mass[j] > 0 && i < D; i++)
            centre[j * D + i] = sum[j * D + i] / mass[j];
}

/* Lloyd's iteration until the distortion settles. */
static double lloyd(const task *t, const points *p, double settled_at, size_t rounds, double *centre)
{
    wv_arena *arena = arena_of(t);
    size_t N = t->N, D = t->D, mark = wv_arena_mark(arena);
    uint32_t *cell = wv_arena_take_index(arena, p->n);
    double *mass = wv_arena_take(arena, N), *sum = wv_arena_take(arena, N * D);
    double distortion = assign(t, p, centre, cell);
    bool settled = false;
    for (size_t round = 0; round < rounds && !settled; round++) {
        to_means(N, D, p, cell, mass, sum, centre);
        double next = assign(t, p, centre, cell);
        settled = next > (1 - settled_at) * distortion;
        distortion = next;
    }
    wv_arena_release(arena, mark);
    return distortion;
}

typedef struct {
    const points *p;
    size_t D;
    const double *centre; /* [..][D] */
    size_t from, to;
    double *cost; /* [n] */
} approaching;

/* Lowers the costs of a piece of the points to the distances to centres from .. to. */
static void approach(wv_arena *arena, void *context, size_t piece)
{
    const approaching *a = context;
    const points *p = a->p;
    size_t D = a->D, end = end_of(p->n, piece), mark = wv_arena_mark(arena);
    double *turned = wv_arena_take(arena, D * WV_COLUMNS); /* [D][WV_COLUMNS] */
    double least[WV_COLUMNS], other[WV_COLUMNS], which[WV_COLUMNS];
    for (size_t first = piece * wv_workers_piece(p->n); first < end; first += WV_COLUMNS) {
        size_t here = end - first < WV_COLUMNS ? end - first : WV_COLUMNS;
        double *cost = a->cost + first;
        wv_limit_look(arena);
        if (!p->columns)
            wv_columns_turn(D, here, p->x + first * D, turned);
        const double *columns = p->columns ? p->columns + first * D : turned;
        wv_columns_best()->nearest(D, wv_columns_round(here), a->to - a->from, columns, a->centre + a->from * D, least,
                                   other, which);
        for (size_t k = 0; k < here; k++)
            cost[k] = least[k] < cost[k] ? least[k] : cost[k];
    }
    wv_arena_release(arena, mark);
}

static bool few_dims(size_t D)
{
    return (double)D <= wv_policy.cells_few_dims;
}

/* Few particles in few dimensions: which minimum they are in is seen, and all starts are affordable. */
static bool thorough(size_t N, size_t D)
{
    return few_dims(D) && (double)N <= wv_policy.kmeans_thorough_particles;
}

/* The first of the running sums[n] that is not below `wanted`. */
static size_t find_sum(size_t n, const double *sum, double wanted)
{
    size_t low = 0, high = n - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sum[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* k-means++: each centre a point drawn in proportion to its weight times its cost so far; of many centres, several at
 * a time. In few dimensions that leaves out minima with many centres where the weight is, so every other start
 * draws in proportion to the weight alone. */
static void draw_centres(const task *t, const points *p, uint64_t restart, double *centre)
{
    wv_arena *arena = arena_of(t);
    size_t N = t->N, D = t->D, n = p->n, step = N / (size_t)wv_policy.kmeans_seeds + 1, mark = wv_arena_mark(arena);
    bool plain = thorough(N, D) && restart % 2;
    double *cost = wv_arena_take(arena, n), *sum = wv_arena_take(arena, n);
    wv_stream stream = {t->seed, WV_RNG_RESTART, t->batch, restart};
    for (size_t k = 0; k < n; k++)
        cost[k] = INFINITY;
    for (size_t j = 0, next; j < N; j = next) {
        next = j ? (j + step < N ? j + step : N) : 1;
        wv_limit_look(arena);
        double total = 0;
        for (size_t k = 0; k < n; k++)
            sum[k] = total += (p->w[k] > 0 ? p->w[k] : 0) * (j && !plain ? cost[k] : 1);
        for (size_t i = j; i < next; i++) {
            double u;
            wv_rng_uniform(&stream, i, 1, &u);
            memcpy(centre + i * D, p->x + find_sum(n, sum, u * total) * D, D * sizeof *centre);
        }
        approaching a = {p, D, centre, j, next, cost};
        wv_workers_run(t->workers, wv_workers_pieces(n), (double)(n * (next - j) * D), approach, &a);
    }
    wv_arena_release(arena, mark);
}

/* Points and particles, relative to `origin`, in coordinates in which the cost is (or is like) the squared distance. */
static void flatten(const wv_geometry *g, size_t n, double *y, const double *origin, wv_arena *arena)
{
    for (size_t k = 0; k < n * g->D; k++)
        y[k] -= origin[k % g->D];
    if (g->cost.kind != WVGD_SQEUCLID)
        g->cost.metric_family->whiten(g->D, 0, g->metric, n, y, arena);
}

static void unflatten(const wv_geometry *g, size_t n, double *y, const double *origin, wv_arena *arena)
{
    if (g->cost.kind != WVGD_SQEUCLID)
        g->cost.metric_family->colour(g->D, 0, g->metric, n, y, arena);
    for (size_t k = 0; k < n * g->D; k++)
        y[k] += origin[k % g->D];
}

/* Rounds of Lloyd's iteration on n points at most. */
static size_t affordable(const task *t, size_t n)
{
    double most = wv_policy.kmeans_rounds_work / ((double)n * (double)(t->N * t->D));
    return (size_t)fmin(fmax(most, wv_policy.kmeans_rounds_least), wv_policy.kmeans_rounds);
}

/* Whether one start must do for particles of so many coordinates. */
static bool one_start(size_t coordinates)
{
    return (double)coordinates >= wv_policy.kmeans_one_start_room;
}

/* Doubles that all starts take. */
static size_t starts_size(const task *t)
{
    size_t one = wv_times(t->N, t->D);
    return one_start(one) ? one : (size_t)wv_policy.kmeans_starts * one;
}

/* Starts, and how far they have come. */
typedef struct {
    const task *t;
    bool whole; /* a worker does the whole of a start; else all work at each */
    const points *p;
    double *centre;       /* [kmeans_starts][N][D] */
    double *after;        /* [kmeans_starts] distortion of each after the rounds of the trial, */
    double *settled;      /* [kmeans_starts] and when it has settled, */
    size_t rounds, first; /* after so many rounds at most; the first to be tried */
    size_t *order;        /* [kmeans_starts] the better ones first */
} starts;

/* In the arena of the caller. */
static starts take_starts(const task *t, const points *p)
{
    size_t most = (size_t)wv_policy.kmeans_starts;
    wv_arena *arena = arena_of(t);
    return (starts){.t = t,
                    .p = p,
                    .centre = wv_arena_take(arena, starts_size(t)),
                    .after = wv_arena_take(arena, most),
                    .settled = wv_arena_take(arena, most),
                    .rounds = affordable(t, p->n),
                    .order = wv_arena_take_sizes(arena, most)};
}

static void try_start(wv_arena *arena, void *context, size_t k)
{
    starts *s = context;
    wv_workers one = wv_workers_one(&arena);
    task t = *s->t;
    size_t r = s->first + k;
    double *centre = s->centre + r * t.N * t.D;
    t.workers = s->whole ? &one : t.workers;
    draw_centres(&t, s->p, r, centre);
    s->after[r] = lloyd(&t, s->p, wv_policy.kmeans_roughly, (size_t)wv_policy.kmeans_trial_rounds, centre);
}

static void settle_start(wv_arena *arena, void *context, size_t k)
{
    starts *s = context;
    wv_workers one = wv_workers_one(&arena);
    task t = *s->t;
    size_t r = s->order[k];
    t.workers = s->whole ? &one : t.workers;
    s->settled[r] = lloyd(&t, s->p, wv_policy.kmeans_roughly, s->rounds, s->centre + r * t.N * t.D);
}

static void run_starts(starts *s, size_t count, double work, wv_workers_task *start)
{
    s->whole = wv_workers_worth(s->t->workers, count, work);
    wv_workers_run(s->t->workers, count, work, start, s);
}

/* Tries starts from .. to, and adds them to those in order. */
static void try_starts(starts *s, size_t from, size_t to)
{
    const task *t = s->t;
    s->first = from;
    run_starts(s, to - from, (double)(to - from) * 4 * (double)(s->p->n * t->N * t->D), try_start);
    for (size_t r = from; r < to; r++) {
        size_t at = r;
        for (; at && s->after[r] < s->after[s->order[at - 1]]; at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = r;
    }
}

/* Tries as many starts as are affordable; returns how many of them are to settle. In many dimensions a few tell whether
 * it matters where one begins. 0: it does, and `probe` asked no more. */
static size_t try_all(starts *s, bool probe)
{
    size_t N = s->t->N, D = s->t->D, ND = N * D, all = (size_t)wv_policy.kmeans_starts,
           few = (size_t)wv_policy.kmeans_probe_starts;
    if ((double)s->p->n * (double)ND > wv_policy.kmeans_one_start_work || one_start(ND)) {
        s->rounds -= (size_t)wv_policy.kmeans_trial_rounds; /* those of the trial cost as much */
        try_starts(s, 0, 1);
        return 1;
    }
    if (few_dims(D)) {
        try_starts(s, 0, all);
        return thorough(N, D) ? all : (size_t)wv_policy.kmeans_finals;
    }
    try_starts(s, 0, few);
    if (s->after[s->order[few - 1]] < (1 + wv_policy.kmeans_varied) * s->after[s->order[0]])
        return 1;
    if (probe)
        return 0;
    try_starts(s, few, all);
    return (size_t)wv_policy.kmeans_finals;
}

/* The best of the first `finals` of the order into best[N][D]; returns its distortion. */
static double take_best(const starts *s, size_t ND, size_t finals, double *best)
{
    double least = INFINITY;
    for (size_t k = 0; k < finals; k++)
        if (s->settled[s->order[k]] < least) {
            least = s->settled[s->order[k]];
            memcpy(best, s->centre + s->order[k] * ND, ND * sizeof *best);
        }
    return least;
}

/* Whether a distortion is none of kept[n], but for rounding. */
static bool other_minimum(double d, size_t n, const double *kept)
{
    for (size_t i = 0; i < n; i++)
        if (fabs(d - kept[i]) < wv_policy.kmeans_same * d)
            return false;
    return true;
}

/* The same, if those that settled in different minima, which few points cannot choose among, go on with all points. */
static double take_best_minimum(const points *all, const starts *s, size_t finals, double *best)
{
    const task *t = s->t;
    wv_arena *arena = arena_of(t);
    size_t ND = t->N * t->D, tried = 0, most = (size_t)wv_policy.kmeans_minima, mark = wv_arena_mark(arena);
    double least = INFINITY, low = INFINITY, *kept = wv_arena_take(arena, most);
    for (size_t k = 0; k < finals; k++) {
        double *centre = s->centre + s->order[k] * ND, d = s->settled[s->order[k]];
        low = fmin(low, fmin(d, s->after[s->order[0]]));
        if (!other_minimum(d, tried, kept) || d > (1 + wv_policy.kmeans_near) * low || tried == most)
            continue;
        kept[tried++] = d;
        d = lloyd(t, all, wv_policy.kmeans_exactly, affordable(t, all->n), centre);
        if (d < least) {
            least = d;
            memcpy(best, centre, ND * sizeof *best);
        }
    }
    wv_arena_release(arena, mark);
    return least;
}

/* The points with columns, in the arena of the caller. */
static points with_columns(const task *t, points p)
{
    if ((double)t->N >= wv_policy.nearest_many)
        return p;
    size_t D = t->D, blocks = (p.n + WV_COLUMNS - 1) / WV_COLUMNS;
    double *columns = wv_arena_take(arena_of(t), blocks * WV_COLUMNS * D);
    for (size_t first = 0; first < p.n; first += WV_COLUMNS)
        wv_columns_turn(D, p.n - first < WV_COLUMNS ? p.n - first : WV_COLUMNS, p.x + first * D, columns + first * D);
    p.columns = columns;
    return p;
}

/* The best of many starts, in flat coordinates, into best[N][D], with its distortion. The starts are compared on
 * `some` of the points: first all after two rounds, then the better ones when they have settled. With few particles in
 * few dimensions those that settle in different minima go on with all points, else the best does. False: it matters
 * where one begins, and `probe` asked no more. */
static bool search(const task *t, points all, points some, bool probe, double *best, double *distortion)
{
    wv_arena *arena = arena_of(t);
    size_t ND = t->N * t->D, mark = wv_arena_mark(arena);
    bool few = few_dims(t->D), every = thorough(t->N, t->D), same = some.x == all.x;
    some = with_columns(t, some);
    if (same)
        all.columns = some.columns;
    else if (every)
        all = with_columns(t, all);
    starts s = take_starts(t, &some);
    size_t finals = try_all(&s, probe);
    if (finals) {
        run_starts(&s, finals, (double)(finals * s.rounds) * (double)(some.n * ND), settle_start);
        *distortion = every ? take_best_minimum(&all, &s, finals, best) : take_best(&s, ND, finals, best);
        if (!every && (some.n != all.n || few))
            *distortion = lloyd(t, &all, few ? wv_policy.kmeans_exactly : wv_policy.kmeans_roughly,
                                affordable(t, all.n), best);
    }
    wv_arena_release(arena, mark);
    return finals > 0;
}

bool wv_kmeans_improve(const wv_geometry *g, wv_weighted_points p, uint64_t seed, uint64_t batch, wv_workers *workers,
                       double *z, uint32_t *cell)
{
    size_t D = g->D, ND = g->N * D, mark = wv_arena_mark(workers->arena[0]);
    if (g->N == 1 || !wv_cost_flat(&g->cost) || wv_weights_ess(p.n, p.w) < wv_policy.kmeans_enough * (double)g->N)
        return false;
    task t = {g->N, D, seed, batch, workers};
    double *y = wv_arena_take(arena_of(&t), p.n * D), *current = wv_arena_take(arena_of(&t), ND), least;
    memcpy(y, p.x, p.n * D * sizeof *y);
    memcpy(current, g->z, ND * sizeof *current);
    flatten(g, p.n, y, g->z, arena_of(&t));
    flatten(g, g->N, current, g->z, arena_of(&t));
    points flat = {p.n, y, p.w, NULL};
    double now = lloyd(&t, &flat, wv_policy.kmeans_exactly, (size_t)wv_policy.kmeans_rounds, current);
    search(&t, flat, flat, false, z, &least);
    bool better = least < wv_policy.kmeans_better * now;
    if (better) {
        assign(&t, &flat, z, cell);
        unflatten(g, g->N, z, g->z, arena_of(&t));
    }
    wv_arena_release(arena_of(&t), mark);
    return better;
}

/* ---- a staged fit ------------------------------------------------------------------------------------------------ */
/* What particles are looked for, on which points. */
typedef struct {
    task t;
    const wv_geometry *g;
    const wv_kmeans_points *p;
    double *z; /* [N][D] where they go */
} placing;

static wv_stream mixture_stream(const placing *s, uint64_t key, size_t k)
{
    return (wv_stream){s->t.seed, WV_RNG_SETTLE, key, k};
}

/* Draws of the mixture, more of the heavier components, into y[n][D] with weights w[n] that sum to `total`. */
static void mixture_points(const placing *s, uint64_t key, size_t n, double total, double *y, double *w)
{
    const wv_mixture *mix = s->p->mixture;
    wv_arena *arena = arena_of(&s->t);
    size_t K = mix->K, D = s->t.D;
    double before = 0, even = wv_policy.kmeans_mixture_even;
    for (size_t k = 0, at = 0; k < K; k++) {
        wv_gaussian q = wv_mixture_component(mix, k);
        wv_stream stream = mixture_stream(s, key, k);
        before += (1 - even) * mix->w[k] + even / (double)K;
        size_t end = k + 1 < K ? (size_t)(before * (double)n) : n, here = end - at;
        if (D <= WV_LATTICE) {
            wv_rng_lattice(&stream, here, D, y + at * D);
            q.family->colour(D, 0, q.root, here, y + at * D, arena);
            for (size_t i = at; i < end; i++)
                cblas_daxpy((int)D, 1.0, q.mu, 1, y + i * D, 1);
        } else
            wv_gaussian_draw(&q, &stream, 0, here, true, y + at * D, arena);
        for (size_t i = at; i < end; i++)
            w[i] = total * mix->w[k] / (double)here;
        at = end;
    }
}

/* Particles from n draws of the mixture alone; false: as in `search`. */
static bool place_alone(const placing *s, size_t n, bool probe)
{
    wv_arena *arena = arena_of(&s->t);
    size_t D = s->t.D, mark = wv_arena_mark(arena);
    double *y = wv_arena_take(arena, n * D), *w = wv_arena_take(arena, n), distortion;
    points p = {n, y, w, NULL};
    mixture_points(s, 2, n, 1, y, w);
    flatten(s->g, n, y, s->p->mean, arena_of(&s->t));
    bool found = search(&s->t, p, p, probe, s->z, &distortion);
    if (found)
        unflatten(s->g, s->t.N, s->z, s->p->mean, arena_of(&s->t));
    wv_arena_release(arena, mark);
    return found;
}

/* Whether there is nothing to search: for a Gaussian, under the cost that divides by its covariance, particles that
 * are no more than the corners of a simplex are best at those of a regular one, which may lie as it likes. (With as
 * many as that the posterior of one that is not quite Gaussian has its preferences.) */
static bool regular(const placing *s)
{
    return s->p->mixture->K == 1 && s->g->cost.kind == WVGD_MAHALANOBIS && !s->p->given_metric && s->t.N > 1 &&
           wv_policy.kmeans_regular * (double)s->t.N < (double)s->t.D;
}

/* Particles at the corners of a regular simplex around the mixture's mean, in the space of the first N - 1
 * coordinates: corner j has, of coordinates k < j, the height below the centre of the corners k, k + 1, .. in the
 * space that they span, and of coordinate j its own height above it. */
static void place_regular(const placing *s)
{
    size_t D = s->t.D, N = s->t.N;
    double *z = s->z;
    memset(z, 0, N * D * sizeof *z);
    for (size_t k = 0; k + 1 < N; k++) {
        double left = (double)(N - k), height = sqrt((left - 1) / left * (double)N / (double)(N - 1));
        z[k * D + k] = height;
        for (size_t j = k + 1; j < N; j++)
            z[j * D + k] = -height / (left - 1);
    }
    unflatten(s->g, N, z, s->p->mixture->mu, arena_of(&s->t));
}

/* Points for k-means: so many draws of the mixture, stored draws, then the draws of the mixture on which starts are
 * compared. */
typedef struct {
    size_t rest, stored, compared;
    size_t extra; /* rest + compared: draws of the mixture */
} plan;

static size_t at_least(size_t n, double least)
{
    return (double)n > least ? n : (size_t)least;
}

static plan plan_points(const placing *s)
{
    size_t N = s->t.N, half = s->p->most / 2, draws = s->p->draws.n;
    plan p = {.stored = draws < half ? draws : half,
              .compared = at_least((size_t)wv_policy.kmeans_compared_particle * N, wv_policy.kmeans_compared)};
    size_t most = few_dims(s->t.D) ? p.compared + (size_t)wv_policy.kmeans_mixture : p.compared,
           room = s->p->control.c > 0 ? s->p->most - p.stored : 0;
    p.extra = room < most ? room : most;
    /* all of them, rather than a remainder that does not stand for the mixture */
    p.compared = p.compared + (size_t)wv_policy.kmeans_rest_component * s->p->mixture->K < p.extra ? p.compared
                                                                                                   : p.extra;
    p.rest = p.extra - p.compared;
    return p;
}

/* In many dimensions with a mixture like the posterior: particles will be sharpened, and a hundredth of the distortion
 * does not matter. */
static void place_by_mixture(const placing *s, size_t compared)
{
    size_t few = at_least((size_t)wv_policy.kmeans_fewest_particle * s->t.N, wv_policy.kmeans_fewest);
    if (regular(s))
        place_regular(s);
    else if (s->p->several_modes || few >= compared || !place_alone(s, few, true))
        place_alone(s, compared, false);
}

/* Stored draws into y[n][D] with weights w[n], less what the mixture stands for: all, or evenly spaced ones, for those
 * of a proposal are neighbours. Returns the sum of the weights. */
static double stored_points(const placing *s, size_t n, double *y, double *w)
{
    const wv_weighted_points *draws = &s->p->draws;
    wv_mixture_control control = s->p->control;
    size_t D = s->t.D, all = draws->n;
    double total = 0;
    for (size_t k = 0; k < n; k++) {
        size_t i = n < all ? (size_t)((double)k * (double)all / (double)n) : k;
        memcpy(y + k * D, draws->x + i * D, D * sizeof *y);
        total += w[k] = draws->w[i] - (control.c > 0 ? control.c * control.w[i] : 0);
    }
    return total;
}

/* Stored draws, with those of the mixture as control; alike: starts are compared on the mixture's draws. */
static void place_by_draws(const placing *s, plan p, bool alike)
{
    wv_arena *arena = arena_of(&s->t);
    size_t N = s->t.N, D = s->t.D, n = p.stored, all = p.rest + n + p.compared, mark = wv_arena_mark(arena);
    double *y = wv_arena_take(arena, all * D), *w = wv_arena_take(arena, all), c = s->p->control.c,
           *w_some = wv_arena_take(arena, n + p.compared), distortion;
    if (p.rest)
        mixture_points(s, 1, p.rest, c * (double)p.rest / (double)p.extra, y, w);
    double total = stored_points(s, n, y + p.rest * D, w + p.rest);
    if (p.extra)
        mixture_points(s, 2, p.compared, c * (double)p.compared / (double)p.extra, y + (p.rest + n) * D,
                       w + p.rest + n);
    total += p.extra ? c : 0;
    cblas_dscal((int)all, 1 / total, w, 1);
    /* draws and the mixture's last points, which stand for all of them */
    memcpy(w_some, w + p.rest, (n + p.compared) * sizeof *w);
    if (p.extra)
        cblas_dscal((int)p.compared, (double)p.extra / (double)p.compared, w_some + n, 1);
    flatten(s->g, all, y, s->p->mean, arena_of(&s->t));
    size_t own = thorough(N, D) ? n : 0, some = own + p.compared;
    points every = {all, y, w, NULL};
    search(&s->t, every, p.extra && alike ? (points){some, y + (all - some) * D, w_some + n - own, NULL} : every, false,
           s->z, &distortion);
    unflatten(s->g, N, s->z, s->p->mean, arena_of(&s->t));
    wv_arena_release(arena, mark);
}

void wv_kmeans_place(const wv_geometry *g, const wv_kmeans_points *p, uint64_t seed, uint64_t batch,
                     wv_workers *workers, double *z)
{
    placing s = {{g->N, g->D, seed, batch, workers}, g, p, z};
    plan planned = plan_points(&s);
    bool many = !few_dims(g->D) && wv_cost_flat(&g->cost);
    /* the mixture's draws alone will do, unless they do not know where the density ends */
    bool alike = p->control.c > (many ? wv_policy.kmeans_alike_many : wv_policy.kmeans_alike) && !p->zeros;
    if (many && alike && planned.extra)
        place_by_mixture(&s, planned.compared);
    else
        place_by_draws(&s, planned, alike);
}
