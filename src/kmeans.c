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
#include "staged/mixture_fit.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

enum {
    RESTARTS = 24,
    ENOUGH = 4,
    FINALS = 6,
    FEW = 8,    /* particles, in few dimensions, of which all starts are settled */
    MINIMA = 4, /* of these at most with all points */
    ROUNDS = 40,
    SEEDS = 32,
    MIXTURE = 8192,  /* draws of the mixture, at most */
    COMPARED = 2048, /* those of them on which starts are compared */
    FEWEST = 512,    /* with one mode in many dimensions, where starts end alike */
    MOST = 200000    /* coordinates of all particles, for several starts */
};
/* gain of a round, relative, at which Lloyd's iteration has settled: to compare starts, and of the best */
static const double roughly = 1e-3, exactly = 1e-5;
static const double varied = 0.02; /* relative range of the distortions of starts that are not much alike */
/* relative differences of settled distortions: that mean the same minimum; of minima among which
 * few points cannot choose */
static const double same = 1e-3, near = 0.05;
static const double clearly = 0.995; /* distortion relative to the current, on the same points */

/* Points that are kept at most. */
static size_t room(const wvgd_fit *f)
{
    return f->size.n_max < f->size.close_max ? f->size.n_max : f->size.close_max;
}

/* Keeps the batch, in the place of the oldest points if there is no other. */
static void keep(wvgd_fit *f)
{
    size_t D = f->D, most = room(f), n = f->b.n < most ? f->b.n : most;
    f->joint.kept = f->closing.draws.n ? f->joint.kept % most : 0;
    for (size_t from = 0, here; from < n; from += here) {
        size_t at = f->joint.kept % most;
        here = n - from < most - at ? n - from : most - at;
        memcpy(f->closing.draws.x + at * D, f->b.x + from * D, here * D * sizeof(double));
        memcpy(f->closing.draws.log_p + at, f->b.log_p + from, here * sizeof(double));
        memcpy(f->closing.draws.log_m + at, f->b.log_m + from, here * sizeof(double));
        f->joint.kept += here;
    }
    f->closing.draws.n = f->closing.draws.n + n < most ? f->closing.draws.n + n : most;
}

void wv_kmeans_pool(wvgd_fit *f)
{
    if (f->b.n < room(f))
        keep(f);
    else
        f->closing.draws.n = 0; /* there is room for no other batch: it is taken when it is looked at */
}

/* Weighted points in flat coordinates. */
typedef struct {
    size_t n;
    const double *y, *w; /* [n][D], [n] */
} points;

static size_t end_of(size_t n, size_t piece)
{
    return (piece + 1) * wv_fit_piece(n) < n ? (piece + 1) * wv_fit_piece(n) : n;
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
    size_t end = end_of(p->n, piece);
    double *cost = f->desk.free_cost;
    a->total[piece] = 0;
    for (size_t first = piece * wv_fit_piece(p->n); first < end; first += WV_FREE) {
        size_t here = end - first < WV_FREE ? end - first : WV_FREE;
        wv_nearest_nearest(f, a->centre, here, p->y + first * f->D, a->cell + first, cost, cost + WV_FREE);
        for (size_t k = 0; k < here; k++)
            a->total[piece] += p->w[first + k] * cost[k];
    }
}

/* Nearest centre of each point; returns the distortion. */
static double assign(wvgd_fit *f, const points *p, const double *centre, uint32_t *cell)
{
    double total = 0;
    assigning a = {.p = p, .centre = centre, .cell = cell};
    wv_fit_share(f, wv_fit_pieces(p->n), (double)(p->n * f->N * f->D), assign_piece, &a);
    for (size_t piece = 0; piece < wv_fit_pieces(p->n); piece++)
        total += a.total[piece];
    return total;
}

/* Lloyd's iteration until the distortion settles. An empty cell keeps its centre. */
static double lloyd(wvgd_fit *f, const points *p, double settled_at, size_t rounds, double *centre)
{
    size_t D = f->D;
    uint32_t *cell = (uint32_t *)(void *)f->desk.psi;
    double *mass = f->desk.wall, *sum = mass + f->N; /* [N], [N][D] */
    double distortion = assign(f, p, centre, cell);
    for (size_t round = 0; round < rounds; round++) {
        memset(mass, 0, f->N * (D + 1) * sizeof *mass);
        for (size_t k = 0; k < p->n; k++) {
            mass[cell[k]] += p->w[k];
            for (size_t i = 0; i < D; i++)
                sum[cell[k] * D + i] += p->w[k] * p->y[k * D + i];
        }
        for (size_t j = 0; j < f->N; j++)
            for (size_t i = 0; mass[j] > 0 && i < D; i++)
                centre[j * D + i] = sum[j * D + i] / mass[j];
        double next = assign(f, p, centre, cell);
        bool settled = next > (1 - settled_at) * distortion;
        distortion = next;
        if (settled)
            break;
    }
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
    size_t D = f->D, end = end_of(p->n, piece);
    double *columns = f->desk.block, least[WV_COLUMNS], other[WV_COLUMNS], which[WV_COLUMNS];
    for (size_t first = piece * wv_fit_piece(p->n); first < end; first += WV_COLUMNS) {
        size_t here = end - first < WV_COLUMNS ? end - first : WV_COLUMNS;
        double *cost = a->cost + first;
        wv_columns_turn(D, here, p->y + first * D, columns);
        wv_columns_best()->nearest(D, wv_columns_round(here), a->to - a->from, columns, a->centre + a->from * D, least,
                                   other, which);
        for (size_t k = 0; k < here; k++)
            cost[k] = least[k] < cost[k] ? least[k] : cost[k];
    }
}

/* Few particles in few dimensions: which minimum they are in is seen, and all starts are affordable. */
static bool thorough(const wvgd_fit *f)
{
    return f->D <= 4 && f->N <= FEW;
}

/* k-means++: each centre a point drawn in proportion to its weight times its cost so far; of many centres, SEEDS at
 * a time. In few dimensions that leaves out minima with many centres where the weight is, so every other start
 * draws in proportion to the weight alone. */
static void seed(wvgd_fit *f, const points *p, uint64_t restart, double *centre)
{
    size_t D = f->D, n = p->n, step = f->N / SEEDS + 1;
    bool plain = thorough(f) && restart % 2;
    double *cost = f->desk.gr, *sum = f->desk.ga;
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
            size_t low = 0, high = n - 1;
            wv_rng_uniform(&stream, i, 1, &u);
            while (low < high) {
                size_t middle = (low + high) / 2;
                if (sum[middle] < u * total)
                    low = middle + 1;
                else
                    high = middle;
            }
            memcpy(centre + i * D, p->y + low * D, D * sizeof *centre);
        }
        approaching a = {p, centre, j, next, cost};
        wv_fit_share(f, wv_fit_pieces(n), (double)(n * (next - j) * D), approach, &a);
    }
}

/* Spread of every cell from the pooled points: marginal variances, as a start. */
static void spreads(wvgd_fit *f, size_t n, const double *w)
{
    size_t D = f->D;
    double *sd = f->desk.vector[0];
    for (size_t j = 0; j < f->N; j++) {
        double mass = 0, *z = f->cells.now.z + j * D;
        memset(sd, 0, D * sizeof *sd);
        for (size_t k = 0; k < n; k++)
            if (f->b.cell[k] == j) {
                mass += w[k];
                for (size_t i = 0; i < D; i++)
                    sd[i] += w[k] * (f->closing.draws.x[k * D + i] - z[i]) * (f->closing.draws.x[k * D + i] - z[i]);
            }
        bool usable = mass > 0;
        for (size_t i = 0; i < D; i++) {
            sd[i] = sqrt(sd[i] / mass);
            usable = usable && sd[i] > 0 && isfinite(sd[i]);
        }
        if (usable)
            f->cell_family->set_sd(D, 0, f->cells.now.spread + j * f->cell_family->size(D, 0), sd);
    }
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
    return (size_t)fmin(fmax(4e9 / ((double)n * (double)(f->N * f->D)), 3), ROUNDS);
}

size_t wv_kmeans_size(const wvgd_fit *f)
{
    size_t one = wv_times(f->N, f->D);
    return one < MOST ? RESTARTS * one : one;
}

/* Starts, and how far they have come. */
typedef struct {
    const points *p;
    double *centre;           /* [RESTARTS][N][D] */
    double after[RESTARTS];   /* distortion of each after two rounds, */
    double settled[RESTARTS]; /* and when it has settled, */
    size_t rounds, first;     /* after so many rounds at most; the first to be tried */
    size_t order[RESTARTS];   /* the better ones first */
} starts;

static void try_start(wvgd_fit *f, void *context, size_t k)
{
    starts *s = context;
    size_t r = s->first + k;
    double *centre = s->centre + r * f->N * f->D;
    seed(f, s->p, r, centre);
    s->after[r] = lloyd(f, s->p, roughly, 2, centre);
}

static void settle_start(wvgd_fit *f, void *context, size_t k)
{
    starts *s = context;
    size_t r = s->order[k];
    s->settled[r] = lloyd(f, s->p, roughly, s->rounds, s->centre + r * f->N * f->D);
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

/* The best of many starts, in flat coordinates, into best[N][D], with its distortion. The starts are compared on the
 * last `few` of the points: first all after two rounds, then the better ones when they have settled. With few
 * particles in few dimensions those that settle in different minima go on with all points, else the best does; in
 * many, a few starts tell whether it matters where one begins. False: it does, and `probe` asked no more. */
static bool search(wvgd_fit *f, size_t n, size_t few, const double *y, const double *w, const double *w_few, bool probe,
                   double *best, double *distortion)
{
    size_t ND = f->N * f->D, restarts = RESTARTS, finals = FINALS, tried = 0;
    points all = {n, y, w}, some = {few, y + (n - few) * f->D, w_few};
    starts s = {.p = &some, .centre = f->shared.starts, .rounds = affordable(f, few)};
    double least = INFINITY, low = INFINITY, kept[MINIMA];
    if ((double)few * (double)ND > 1e8 || ND >= MOST) {
        restarts = finals = 1;
        s.rounds -= 2; /* those of the trial are dear, too */
    } else if (thorough(f))
        finals = RESTARTS;
    if (restarts > 1 && f->D > 4) {
        try_starts(f, &s, 0, ENOUGH);
        if (s.after[s.order[ENOUGH - 1]] < (1 + varied) * s.after[s.order[0]]) {
            restarts = ENOUGH;
            finals = 1;
        } else if (probe)
            return false;
    }
    if (restarts != ENOUGH)
        try_starts(f, &s, restarts > 1 && f->D > 4 ? ENOUGH : 0, restarts);
    wv_fit_share(f, finals, (double)(finals * s.rounds) * (double)(few * ND), settle_start, &s);
    for (size_t k = 0; k < finals; k++) {
        double *centre = f->shared.starts + s.order[k] * ND, d = s.settled[s.order[k]];
        if (thorough(f)) {
            low = fmin(low, fmin(d, s.after[s.order[0]]));
            for (size_t i = 0; i < tried; i++)
                d = fabs(d - kept[i]) < same * d ? INFINITY : d;
            if (d > (1 + near) * low || tried == MINIMA)
                continue;
            kept[tried++] = d;
            d = lloyd(f, &all, exactly, affordable(f, n), centre);
        }
        if (d < least) {
            least = d;
            memcpy(best, centre, ND * sizeof *best);
        }
    }
    *distortion = thorough(f) || (few == n && f->D > 4)
                      ? least
                      : lloyd(f, &all, f->D > 4 ? roughly : exactly, affordable(f, n), best);
    return true;
}

bool wv_kmeans_improve(wvgd_fit *f)
{
    size_t D = f->D, ND = f->N * D;
    double *y = f->desk.y, *w = f->desk.gu, *current = f->shared.try_z, *best = current + ND,
           *origin = f->desk.vector[1];
    if (f->N == 1 || (f->opt.cost != WVGD_SQEUCLID && f->opt.cost != WVGD_MAHALANOBIS))
        return false;
    if (!f->closing.draws.n)
        keep(f);
    size_t n = f->closing.draws.n;
    for (size_t k = 0; k < n; k++)
        f->desk.psi[k] = f->closing.draws.log_p[k] - f->closing.draws.log_m[k];
    if (!wv_weights_normalise(n, f->desk.psi, w) || wv_weights_ess(n, w) < 50 * (double)f->N)
        return false;
    memcpy(origin, f->cells.now.z, D * sizeof *origin);
    memcpy(y, f->closing.draws.x, n * D * sizeof *y);
    memcpy(current, f->cells.now.z, ND * sizeof *current);
    flatten(f, n, y, origin);
    flatten(f, f->N, current, origin);
    points p = {n, y, w};
    double now = lloyd(f, &p, exactly, ROUNDS, current), least;
    search(f, n, n, y, w, w, false, best, &least);
    if (!(least < clearly * now))
        return false;
    assign(f, &p, best, f->b.cell);
    unflatten(f, f->N, best, origin);
    memcpy(f->cells.now.z, best, ND * sizeof *best);
    spreads(f, n, w);
    return true;
}

/* Draws of the mixture, more of the heavier components, into y[n][D] with weights w[n] that sum to `total`. */
static void mixture_points(wvgd_fit *f, uint64_t key, size_t n, double total, double *y, double *w)
{
    size_t K = f->mix.K;
    double before = 0;
    for (size_t k = 0, at = 0; k < K; k++) {
        wv_gaussian q = wv_mixture_component(&f->mix, k);
        wv_stream stream = {f->opt.seed, WV_RNG_SETTLE, key, k};
        before += 0.5 * f->mix.w[k] + 0.5 / (double)K;
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
    size_t ND = f->N * f->D;
    double distortion;
    mixture_points(f, 2, n, 1, f->desk.y, f->desk.gu);
    flatten(f, n, f->desk.y, f->posterior.mean);
    if (!search(f, n, n, f->desk.y, f->desk.gu, f->desk.gu, probe, f->shared.try_z, &distortion))
        return false;
    unflatten(f, f->N, f->shared.try_z, f->posterior.mean);
    memcpy(f->cells.now.z, f->shared.try_z, ND * sizeof(double));
    return true;
}

/* Whether there is nothing to search: for a Gaussian, under the cost that divides by its covariance, particles that
 * are no more than the corners of a simplex are best at those of a regular one, which may lie as it likes. (With as
 * many as that the posterior of one that is not quite Gaussian has its preferences.) */
static bool regular(const wvgd_fit *f)
{
    return f->mix.K == 1 && f->opt.cost == WVGD_MAHALANOBIS && !f->opt.metric && f->N > 1 && 2 * f->N < f->D;
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

void wv_kmeans_place(wvgd_fit *f, double c)
{
    size_t D = f->D, ND = f->N * D, n = f->closing.draws.n < f->size.n_max / 2 ? f->closing.draws.n : f->size.n_max / 2,
           extra = c > 0 ? f->size.n_max - n : 0;
    double *y = f->desk.y, *w = f->desk.gu, *w_few = f->desk.glv, *best = f->shared.try_z, total = 0, distortion;
    size_t few = 50 * f->N > FEWEST ? 50 * f->N : FEWEST, compared = 20 * f->N > COMPARED ? 20 * f->N : COMPARED,
           most = D > 4 ? compared : compared + MIXTURE;
    /* the mixture's draws alone will do, unless they do not know where the density ends */
    bool many = D > 4 && wv_halfspaces_flat(f), alike = c > (many ? 0.5 : 0.9) && !f->count.zero_points;
    extra = extra < most ? extra : most;
    /* all of them, rather than a remainder that does not stand for the mixture */
    compared = compared + 4 * f->mix.K < extra ? compared : extra;
    if (many && alike && extra && regular(f)) {
        place_regular(f);
        return;
    }
    if (many && alike && extra) { /* particles will be sharpened, and a hundredth of the distortion does not matter */
        if (f->modes.relevant > 1 || few >= compared || !place_alone(f, few, true))
            place_alone(f, compared, false);
        return;
    }
    size_t rest = extra - compared, all = rest + n + compared;
    if (rest)
        mixture_points(f, 1, rest, c * (double)rest / (double)extra, y, w);
    for (size_t k = 0; k < n; k++) { /* all draws, or evenly spaced ones: those of a proposal are neighbours */
        size_t i = n < f->closing.draws.n ? (size_t)((double)k * (double)f->closing.draws.n / (double)n) : k;
        memcpy(y + (rest + k) * D, f->closing.draws.x + i * D, D * sizeof *y);
        total += w[rest + k] = f->closing.v[i] - (extra ? c * f->shared.close_spare[i] : 0);
    }
    if (extra)
        mixture_points(f, 2, compared, c * (double)compared / (double)extra, y + (rest + n) * D, w + rest + n);
    total += extra ? c : 0;
    cblas_dscal((int)all, 1 / total, w, 1);
    /* draws and the mixture's last points, which stand for all of them */
    memcpy(w_few, w + rest, (n + compared) * sizeof *w);
    if (extra)
        cblas_dscal((int)compared, (double)extra / (double)compared, w_few + n, 1);
    flatten(f, all, y, f->posterior.mean);
    size_t own = thorough(f) ? n : 0;
    search(f, all, extra && alike ? own + compared : all, y, w, extra && alike ? w_few + n - own : w, false, best,
           &distortion);
    unflatten(f, f->N, best, f->posterior.mean);
    memcpy(f->cells.now.z, best, ND * sizeof *best);
}
