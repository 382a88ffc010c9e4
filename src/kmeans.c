/* kmeans.c - quantizers have local minima that single moves do not leave. With weighted posterior
 * points in hand the transport problem is ordinary weighted k-means, and restarts cost no model
 * evaluations (method, section 6, quantise). */
#include "kmeans.h"
#include "fit.h"
#include "gaussian.h"
#include "rng.h"
#include "nearest.h"
#include "simd/columns.h"
#include "halfspaces.h"
#include "policy.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

void wv_kmeans_pool(wvgd_fit *f)
{
    if (f->b.n < f->gathered.shape.room)
        wv_draws_collect(&f->gathered, &f->b);
    else
        wv_draws_clear(&f->gathered); /* there is room for no other batch: it is taken when it is looked at */
}

/* Weighted points in flat coordinates. */
typedef struct {
    size_t n;
    const double *y, *w; /* [n][D], [n] */
} points;

static size_t end_of(size_t n, size_t piece)
{
    return (piece + 1) * wv_workers_piece(n) < n ? (piece + 1) * wv_workers_piece(n) : n;
}

typedef struct {
    const points *p;
    const double *centre;    /* [N][D] */
    uint32_t *cell;          /* [n] */
    double total[WV_PIECES]; /* distortion of each piece of the points */
} assigning;

static void assign_piece(wvgd_fit *f, void *context, size_t piece)
{
    assigning *a = context;
    const points *p = a->p;
    size_t end = end_of(p->n, piece), mark = wv_arena_mark(f->arena);
    double *cost = wv_arena_take(f->arena, WV_FREE), *next = wv_arena_take(f->arena, WV_FREE);
    a->total[piece] = 0;
    for (size_t first = piece * wv_workers_piece(p->n); first < end; first += WV_FREE) {
        size_t here = end - first < WV_FREE ? end - first : WV_FREE;
        wv_nearest_nearest(f, a->centre, here, p->y + first * f->D, a->cell + first, cost, next);
        for (size_t k = 0; k < here; k++)
            a->total[piece] += p->w[first + k] * cost[k];
    }
    wv_arena_release(f->arena, mark);
}

/* Nearest centre of each point; returns the distortion. */
static double assign(wvgd_fit *f, const points *p, const double *centre, uint32_t *cell)
{
    double total = 0;
    assigning a = {.p = p, .centre = centre, .cell = cell};
    wv_fit_share(f, wv_workers_pieces(p->n), (double)(p->n * f->N * f->D), assign_piece, &a);
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
            sum[cell[k] * D + i] += p->w[k] * p->y[k * D + i];
    }
    for (size_t j = 0; j < N; j++)
        for (size_t i = 0; mass[j] > 0 && i < D; i++)
            centre[j * D + i] = sum[j * D + i] / mass[j];
}

/* Lloyd's iteration until the distortion settles. */
static double lloyd(wvgd_fit *f, const points *p, double settled_at, size_t rounds, double *centre)
{
    size_t N = f->N, D = f->D, mark = wv_arena_mark(f->arena);
    uint32_t *cell = wv_arena_take_index(f->arena, p->n);
    double *mass = wv_arena_take(f->arena, N), *sum = wv_arena_take(f->arena, N * D);
    double distortion = assign(f, p, centre, cell);
    bool settled = false;
    for (size_t round = 0; round < rounds && !settled; round++) {
        to_means(N, D, p, cell, mass, sum, centre);
        double next = assign(f, p, centre, cell);
        settled = next > (1 - settled_at) * distortion;
        distortion = next;
    }
    wv_arena_release(f->arena, mark);
    return distortion;
}

typedef struct {
    const points *p;
    const double *centre;
    size_t from, to;
    double *cost; /* [n] */
} approaching;

/* Lowers the costs of a piece of the points to the distances to centres from .. to. */
static void approach(wvgd_fit *f, void *context, size_t piece)
{
    const approaching *a = context;
    const points *p = a->p;
    size_t D = f->D, end = end_of(p->n, piece), mark = wv_arena_mark(f->arena);
    double *columns = wv_arena_take(f->arena, D * WV_COLUMNS); /* [D][WV_COLUMNS] */
    double least[WV_COLUMNS], other[WV_COLUMNS], which[WV_COLUMNS];
    for (size_t first = piece * wv_workers_piece(p->n); first < end; first += WV_COLUMNS) {
        size_t here = end - first < WV_COLUMNS ? end - first : WV_COLUMNS;
        double *cost = a->cost + first;
        wv_columns_turn(D, here, p->y + first * D, columns);
        wv_columns_best()->nearest(D, wv_columns_round(here), a->to - a->from, columns, a->centre + a->from * D, least,
                                   other, which);
        for (size_t k = 0; k < here; k++)
            cost[k] = least[k] < cost[k] ? least[k] : cost[k];
    }
    wv_arena_release(f->arena, mark);
}

static bool few_dims(const wvgd_fit *f)
{
    return (double)f->D <= wv_policy.cells_few_dims;
}

/* Few particles in few dimensions: which minimum they are in is seen, and all starts are affordable. */
static bool thorough(const wvgd_fit *f)
{
    return few_dims(f) && (double)f->N <= wv_policy.kmeans_thorough_particles;
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
static void seed(wvgd_fit *f, const points *p, uint64_t restart, double *centre)
{
    size_t D = f->D, n = p->n, step = f->N / (size_t)wv_policy.kmeans_seeds + 1, mark = wv_arena_mark(f->arena);
    bool plain = thorough(f) && restart % 2;
    double *cost = wv_arena_take(f->arena, n), *sum = wv_arena_take(f->arena, n);
    wv_stream stream = {f->opt.seed, WV_RNG_RESTART, f->count.batch, restart};
    for (size_t k = 0; k < n; k++)
        cost[k] = INFINITY;
    for (size_t j = 0, next; j < f->N; j = next) {
        next = j ? (j + step < f->N ? j + step : f->N) : 1;
        double total = 0;
        for (size_t k = 0; k < n; k++)
            sum[k] = total += (p->w[k] > 0 ? p->w[k] : 0) * (j && !plain ? cost[k] : 1);
        for (size_t i = j; i < next; i++) {
            double u;
            wv_rng_uniform(&stream, i, 1, &u);
            memcpy(centre + i * D, p->y + find_sum(n, sum, u * total) * D, D * sizeof *centre);
        }
        approaching a = {p, centre, j, next, cost};
        wv_fit_share(f, wv_workers_pieces(n), (double)(n * (next - j) * D), approach, &a);
    }
    wv_arena_release(f->arena, mark);
}

/* Spread of every cell from the pooled points with weights w[n]: marginal variances, as a start. */
static void spreads(wvgd_fit *f, size_t n, const double *w, const uint32_t *cell)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D);
    for (size_t j = 0; j < f->N; j++) {
        double mass = 0, *z = f->cells.now.z + j * D;
        memset(sd, 0, D * sizeof *sd);
        for (size_t k = 0; k < n; k++)
            if (cell[k] == j) {
                mass += w[k];
                for (size_t i = 0; i < D; i++)
                    sd[i] += w[k] * (f->gathered.x[k * D + i] - z[i]) * (f->gathered.x[k * D + i] - z[i]);
            }
        bool usable = mass > 0;
        for (size_t i = 0; i < D; i++) {
            sd[i] = sqrt(sd[i] / mass);
            usable = usable && sd[i] > 0 && isfinite(sd[i]);
        }
        if (usable)
            f->cell_family->set_sd(D, 0, f->cells.now.spread + j * f->cell_family->size(D, 0), sd);
    }
    wv_arena_release(f->arena, mark);
}

/* Points and particles, relative to `origin`, in coordinates in which the cost is (or is like) the squared distance. */
static void flatten(const wvgd_fit *f, size_t n, double *y, const double *origin)
{
    for (size_t k = 0; k < n * f->D; k++)
        y[k] -= origin[k % f->D];
    if (f->opt.cost != WVGD_SQEUCLID)
        f->metric_family->whiten(f->D, 0, f->cells.now.metric, n, y, NULL);
}

static void unflatten(const wvgd_fit *f, size_t n, double *y, const double *origin)
{
    if (f->opt.cost != WVGD_SQEUCLID)
        f->metric_family->colour(f->D, 0, f->cells.now.metric, n, y, NULL);
    for (size_t k = 0; k < n * f->D; k++)
        y[k] += origin[k % f->D];
}

/* Rounds of Lloyd's iteration on n points at most. */
static size_t affordable(const wvgd_fit *f, size_t n)
{
    double most = wv_policy.kmeans_rounds_work / ((double)n * (double)(f->N * f->D));
    return (size_t)fmin(fmax(most, wv_policy.kmeans_rounds_least), wv_policy.kmeans_rounds);
}

/* Whether one start must do for particles of so many coordinates. */
static bool one_start(size_t coordinates)
{
    return (double)coordinates >= wv_policy.kmeans_one_start_room;
}

size_t wv_kmeans_size(const wvgd_fit *f)
{
    size_t one = wv_times(f->N, f->D);
    return one_start(one) ? one : (size_t)wv_policy.kmeans_starts * one;
}

/* Starts, and how far they have come. */
typedef struct {
    const points *p;
    double *centre;       /* [kmeans_starts][N][D] */
    double *after;        /* [kmeans_starts] distortion of each after the rounds of the trial, */
    double *settled;      /* [kmeans_starts] and when it has settled, */
    size_t rounds, first; /* after so many rounds at most; the first to be tried */
    size_t *order;        /* [kmeans_starts] the better ones first */
} starts;

/* In the arena of the caller. */
static starts take_starts(wvgd_fit *f, const points *p)
{
    size_t most = (size_t)wv_policy.kmeans_starts;
    return (starts){.p = p,
                    .centre = wv_arena_take(f->arena, wv_kmeans_size(f)),
                    .after = wv_arena_take(f->arena, most),
                    .settled = wv_arena_take(f->arena, most),
                    .rounds = affordable(f, p->n),
                    .order = wv_arena_take_sizes(f->arena, most)};
}

static void try_start(wvgd_fit *f, void *context, size_t k)
{
    starts *s = context;
    size_t r = s->first + k;
    double *centre = s->centre + r * f->N * f->D;
    seed(f, s->p, r, centre);
    s->after[r] = lloyd(f, s->p, wv_policy.kmeans_roughly, (size_t)wv_policy.kmeans_trial_rounds, centre);
}

static void settle_start(wvgd_fit *f, void *context, size_t k)
{
    starts *s = context;
    size_t r = s->order[k];
    s->settled[r] = lloyd(f, s->p, wv_policy.kmeans_roughly, s->rounds, s->centre + r * f->N * f->D);
}

/* Tries starts from .. to, and adds them to those in order. */
static void try_starts(wvgd_fit *f, starts *s, size_t from, size_t to)
{
    s->first = from;
    wv_fit_share(f, to - from, (double)(to - from) * 4 * (double)(s->p->n * f->N * f->D), try_start, s);
    for (size_t r = from; r < to; r++) {
        size_t at = r;
        for (; at && s->after[r] < s->after[s->order[at - 1]]; at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = r;
    }
}

/* Tries as many starts as are affordable; returns how many of them are to settle. In many dimensions a few tell whether
 * it matters where one begins. 0: it does, and `probe` asked no more. */
static size_t try_all(wvgd_fit *f, starts *s, bool probe)
{
    size_t ND = f->N * f->D, all = (size_t)wv_policy.kmeans_starts, few = (size_t)wv_policy.kmeans_probe_starts;
    if ((double)s->p->n * (double)ND > wv_policy.kmeans_one_start_work || one_start(ND)) {
        s->rounds -= (size_t)wv_policy.kmeans_trial_rounds; /* those of the trial are dear, too */
        try_starts(f, s, 0, 1);
        return 1;
    }
    if (few_dims(f)) {
        try_starts(f, s, 0, all);
        return thorough(f) ? all : (size_t)wv_policy.kmeans_finals;
    }
    try_starts(f, s, 0, few);
    if (s->after[s->order[few - 1]] < (1 + wv_policy.kmeans_varied) * s->after[s->order[0]])
        return 1;
    if (probe)
        return 0;
    try_starts(f, s, few, all);
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
static double take_best_minimum(wvgd_fit *f, const points *all, const starts *s, size_t finals, double *best)
{
    size_t ND = f->N * f->D, tried = 0, most = (size_t)wv_policy.kmeans_minima, mark = wv_arena_mark(f->arena);
    double least = INFINITY, low = INFINITY, *kept = wv_arena_take(f->arena, most);
    for (size_t k = 0; k < finals; k++) {
        double *centre = s->centre + s->order[k] * ND, d = s->settled[s->order[k]];
        low = fmin(low, fmin(d, s->after[s->order[0]]));
        if (!other_minimum(d, tried, kept) || d > (1 + wv_policy.kmeans_near) * low || tried == most)
            continue;
        kept[tried++] = d;
        d = lloyd(f, all, wv_policy.kmeans_exactly, affordable(f, all->n), centre);
        if (d < least) {
            least = d;
            memcpy(best, centre, ND * sizeof *best);
        }
    }
    wv_arena_release(f->arena, mark);
    return least;
}

/* The best of many starts, in flat coordinates, into best[N][D], with its distortion. The starts are compared on
 * `some` of the points: first all after two rounds, then the better ones when they have settled. With few particles in
 * few dimensions those that settle in different minima go on with all points, else the best does. False: it matters
 * where one begins, and `probe` asked no more. */
static bool search(wvgd_fit *f, points all, points some, bool probe, double *best, double *distortion)
{
    size_t ND = f->N * f->D, mark = wv_arena_mark(f->arena);
    starts s = take_starts(f, &some);
    size_t finals = try_all(f, &s, probe);
    if (finals) {
        wv_fit_share(f, finals, (double)(finals * s.rounds) * (double)(some.n * ND), settle_start, &s);
        *distortion = thorough(f) ? take_best_minimum(f, &all, &s, finals, best) : take_best(&s, ND, finals, best);
        if (!thorough(f) && (some.n != all.n || few_dims(f)))
            *distortion = lloyd(f, &all, few_dims(f) ? wv_policy.kmeans_exactly : wv_policy.kmeans_roughly,
                                affordable(f, all.n), best);
    }
    wv_arena_release(f->arena, mark);
    return finals > 0;
}

/* Looks for better particles on the n pooled points; what it takes from the arena is the caller's to release. */
static bool find_better(wvgd_fit *f, size_t n)
{
    size_t D = f->D, ND = f->N * D;
    double *y = wv_arena_take(f->arena, n * D), *w = wv_arena_take(f->arena, n), *log_w = wv_arena_take(f->arena, n),
           *current = wv_arena_take(f->arena, ND), *best = wv_arena_take(f->arena, ND),
           *origin = wv_arena_take(f->arena, D), least;
    for (size_t k = 0; k < n; k++)
        log_w[k] = f->gathered.log_p[k] - f->gathered.log_m[k];
    if (!wv_weights_normalise(n, log_w, w) || wv_weights_ess(n, w) < wv_policy.kmeans_enough * (double)f->N)
        return false;
    memcpy(origin, f->cells.now.z, D * sizeof *origin);
    memcpy(y, f->gathered.x, n * D * sizeof *y);
    memcpy(current, f->cells.now.z, ND * sizeof *current);
    flatten(f, n, y, origin);
    flatten(f, f->N, current, origin);
    points p = {n, y, w};
    double now = lloyd(f, &p, wv_policy.kmeans_exactly, (size_t)wv_policy.kmeans_rounds, current);
    search(f, p, p, false, best, &least);
    if (!(least < wv_policy.kmeans_better * now))
        return false;
    uint32_t *cell = wv_arena_take_index(f->arena, n);
    assign(f, &p, best, cell);
    unflatten(f, f->N, best, origin);
    memcpy(f->cells.now.z, best, ND * sizeof *best);
    spreads(f, n, w, cell);
    return true;
}

bool wv_kmeans_improve(wvgd_fit *f)
{
    if (f->N == 1 || !wv_halfspaces_flat(f))
        return false;
    if (!f->gathered.n)
        wv_draws_collect(&f->gathered, &f->b);
    size_t mark = wv_arena_mark(f->arena);
    bool better = find_better(f, f->gathered.n);
    wv_arena_release(f->arena, mark);
    return better;
}

/* Draws of the mixture, more of the heavier components, into y[n][D] with weights w[n] that sum to `total`. */
static void mixture_points(wvgd_fit *f, uint64_t key, size_t n, double total, double *y, double *w)
{
    size_t K = f->mix.K;
    double before = 0, even = wv_policy.kmeans_mixture_even;
    for (size_t k = 0, at = 0; k < K; k++) {
        wv_gaussian q = wv_mixture_component(&f->mix, k);
        wv_stream stream = {f->opt.seed, WV_RNG_SETTLE, key, k};
        before += (1 - even) * f->mix.w[k] + even / (double)K;
        size_t end = k + 1 < K ? (size_t)(before * (double)n) : n, here = end - at;
        if (f->D <= WV_LATTICE) {
            wv_rng_lattice(&stream, here, f->D, y + at * f->D);
            q.family->colour(f->D, 0, q.root, here, y + at * f->D, f->arena);
            for (size_t i = at; i < end; i++)
                cblas_daxpy((int)f->D, 1.0, q.mu, 1, y + i * f->D, 1);
        } else
            wv_gaussian_draw(&q, &stream, 0, here, true, y + at * f->D, f->arena);
        for (size_t i = at; i < end; i++)
            w[i] = total * f->mix.w[k] / (double)here;
        at = end;
    }
}

/* Particles from n draws of the mixture alone; false: as in `search`. */
static bool place_alone(wvgd_fit *f, size_t n, bool probe)
{
    size_t ND = f->N * f->D, mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, n * f->D), *w = wv_arena_take(f->arena, n), *best = wv_arena_take(f->arena, ND),
           distortion;
    points p = {n, y, w};
    mixture_points(f, 2, n, 1, y, w);
    flatten(f, n, y, f->posterior.mean);
    bool found = search(f, p, p, probe, best, &distortion);
    if (found) {
        unflatten(f, f->N, best, f->posterior.mean);
        memcpy(f->cells.now.z, best, ND * sizeof *best);
    }
    wv_arena_release(f->arena, mark);
    return found;
}

/* Whether there is nothing to search: for a Gaussian, under the cost that divides by its covariance, particles that
 * are no more than the corners of a simplex are best at those of a regular one, which may lie as it likes. (With as
 * many as that the posterior of one that is not quite Gaussian has its preferences.) */
static bool regular(const wvgd_fit *f)
{
    return f->mix.K == 1 && f->opt.cost == WVGD_MAHALANOBIS && !f->opt.metric && f->N > 1 &&
           wv_policy.kmeans_regular * (double)f->N < (double)f->D;
}

/* Particles at the corners of a regular simplex around the mixture's mean, in the space of the first N - 1
 * coordinates: corner j has, of coordinates k < j, the height below the centre of the corners k, k + 1, .. in the
 * space that they span, and of coordinate j its own height above it. */
static void place_regular(wvgd_fit *f)
{
    size_t D = f->D, N = f->N;
    double *z = f->cells.now.z;
    memset(z, 0, N * D * sizeof *z);
    for (size_t k = 0; k + 1 < N; k++) {
        double left = (double)(N - k), height = sqrt((left - 1) / left * (double)N / (double)(N - 1));
        z[k * D + k] = height;
        for (size_t j = k + 1; j < N; j++)
            z[j * D + k] = -height / (left - 1);
    }
    unflatten(f, N, z, f->mix.mu);
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

static plan plan_points(const wvgd_fit *f, double c)
{
    size_t N = f->N, half = f->size.n_max / 2, draws = f->closing.draws.n;
    plan p = {.stored = draws < half ? draws : half,
              .compared = at_least((size_t)wv_policy.kmeans_compared_particle * N, wv_policy.kmeans_compared)};
    size_t most = few_dims(f) ? p.compared + (size_t)wv_policy.kmeans_mixture : p.compared,
           room = c > 0 ? f->size.n_max - p.stored : 0;
    p.extra = room < most ? room : most;
    /* all of them, rather than a remainder that does not stand for the mixture */
    p.compared = p.compared + (size_t)wv_policy.kmeans_rest_component * f->mix.K < p.extra ? p.compared : p.extra;
    p.rest = p.extra - p.compared;
    return p;
}

/* In many dimensions with a mixture like the posterior: particles will be sharpened, and a hundredth of the distortion
 * does not matter. */
static void place_by_mixture(wvgd_fit *f, size_t compared)
{
    size_t few = at_least((size_t)wv_policy.kmeans_fewest_particle * f->N, wv_policy.kmeans_fewest);
    if (regular(f))
        place_regular(f);
    else if (f->modes.relevant > 1 || few >= compared || !place_alone(f, few, true))
        place_alone(f, compared, false);
}

/* Stored draws into y[n][D] with weights w[n], less what the mixture stands for: all, or evenly spaced ones, for those
 * of a proposal are neighbours. Returns the sum of the weights. */
static double stored_points(const wvgd_fit *f, size_t n, wv_mixture_control control, double *y, double *w)
{
    size_t D = f->D, all = f->closing.draws.n;
    double total = 0;
    for (size_t k = 0; k < n; k++) {
        size_t i = n < all ? (size_t)((double)k * (double)all / (double)n) : k;
        memcpy(y + k * D, f->closing.draws.x + i * D, D * sizeof *y);
        total += w[k] = f->closing.v[i] - (control.c > 0 ? control.c * control.w[i] : 0);
    }
    return total;
}

/* Stored draws, with those of the mixture as control; alike: starts are compared on the mixture's draws. */
static void place_by_draws(wvgd_fit *f, wv_mixture_control control, plan p, bool alike)
{
    size_t D = f->D, ND = f->N * D, n = p.stored, all = p.rest + n + p.compared, mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, all * D), *w = wv_arena_take(f->arena, all), c = control.c,
           *w_some = wv_arena_take(f->arena, n + p.compared), *best = wv_arena_take(f->arena, ND), distortion;
    if (p.rest)
        mixture_points(f, 1, p.rest, c * (double)p.rest / (double)p.extra, y, w);
    double total = stored_points(f, n, control, y + p.rest * D, w + p.rest);
    if (p.extra)
        mixture_points(f, 2, p.compared, c * (double)p.compared / (double)p.extra, y + (p.rest + n) * D,
                       w + p.rest + n);
    total += p.extra ? c : 0;
    cblas_dscal((int)all, 1 / total, w, 1);
    /* draws and the mixture's last points, which stand for all of them */
    memcpy(w_some, w + p.rest, (n + p.compared) * sizeof *w);
    if (p.extra)
        cblas_dscal((int)p.compared, (double)p.extra / (double)p.compared, w_some + n, 1);
    flatten(f, all, y, f->posterior.mean);
    size_t own = thorough(f) ? n : 0, some = own + p.compared;
    points every = {all, y, w};
    search(f, every, p.extra && alike ? (points){some, y + (all - some) * D, w_some + n - own} : every, false, best,
           &distortion);
    unflatten(f, f->N, best, f->posterior.mean);
    memcpy(f->cells.now.z, best, ND * sizeof *best);
    wv_arena_release(f->arena, mark);
}

void wv_kmeans_place(wvgd_fit *f, wv_mixture_control control)
{
    plan p = plan_points(f, control.c);
    bool many = !few_dims(f) && wv_halfspaces_flat(f);
    /* the mixture's draws alone will do, unless they do not know where the density ends */
    bool alike = control.c > (many ? wv_policy.kmeans_alike_many : wv_policy.kmeans_alike) && !f->count.zero_points;
    if (many && alike && p.extra)
        place_by_mixture(f, p.compared);
    else
        place_by_draws(f, control, p, alike);
}
