/* quantise.c - quantizers have local minima that single moves do not leave. With weighted posterior points in hand the transport problem is ordinary weighted
 * k-means, and restarts cost no model evaluations (method, section 6, quantise). */
#include "quantise.h"
#include "mix.h"
#include "weight.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

enum { RESTARTS = 24, ROUNDS = 40, MIXTURE = 8192 }; /* MIXTURE: draws of the mixture, at most */
static const double roughly = 1e-3, exactly = 1e-5; /* gain of a round, relative, at which Lloyd's iteration has settled: to compare starts, and of the best */
static const double clearly = 0.995; /* distortion relative to the current, on the same points */

void wv_quantise_pool(wvgd_fit *f)
{
    size_t D = f->D, n = f->b.n, room = f->n_max < f->close_max ? f->n_max : f->close_max, have = f->s.closed;
    n = n < room ? n : room;
    if (have + n > room) {
        size_t drop = have + n - room;
        have -= drop;
        memmove(f->close.x, f->close.x + drop * D, have * D * sizeof(double));
        memmove(f->close.log_p, f->close.log_p + drop, have * sizeof(double));
        memmove(f->close.log_m, f->close.log_m + drop, have * sizeof(double));
    }
    memcpy(f->close.x + have * D, f->b.x, n * D * sizeof(double));
    memcpy(f->close.log_p + have, f->b.log_p, n * sizeof(double));
    memcpy(f->close.log_m + have, f->b.log_m, n * sizeof(double));
    f->s.closed = f->close.n = have + n;
}

static double squared(size_t D, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/* Nearest centre of each point into f->b.cell; returns the distortion. */
static double assign(wvgd_fit *f, size_t n, const double *y, const double *w, const double *centre)
{
    double total = 0;
    for (size_t k = 0; k < n; k++) {
        double best = INFINITY;
        for (size_t j = 0; j < f->N; j++) {
            double d = squared(f->D, y + k * f->D, centre + j * f->D);
            if (d < best) {
                best = d;
                f->b.cell[k] = (uint32_t)j;
            }
        }
        total += w[k] * best;
    }
    return total;
}

/* Lloyd's iteration until the distortion settles. An empty cell keeps its centre. */
static double lloyd(wvgd_fit *f, size_t n, const double *y, const double *w, double settled_at, double *centre)
{
    size_t D = f->D;
    double distortion = assign(f, n, y, w, centre);
    for (int round = 0; round < ROUNDS; round++) {
        memset(f->cell_spare, 0, f->N * sizeof(double));
        memset(f->sum_z, 0, f->N * D * sizeof(double));
        for (size_t k = 0; k < n; k++) {
            f->cell_spare[f->b.cell[k]] += w[k];
            cblas_daxpy((int)D, w[k], y + k * D, 1, f->sum_z + f->b.cell[k] * D, 1);
        }
        for (size_t j = 0; j < f->N; j++)
            for (size_t i = 0; f->cell_spare[j] > 0 && i < D; i++)
                centre[j * D + i] = f->sum_z[j * D + i] / f->cell_spare[j];
        double next = assign(f, n, y, w, centre);
        bool settled = next > (1 - settled_at) * distortion;
        distortion = next;
        if (settled)
            break;
    }
    return distortion;
}

/* k-means++: each centre a point drawn in proportion to its weight times its cost so far. */
static void seed(wvgd_fit *f, size_t n, const double *y, const double *w, uint64_t restart, double *centre)
{
    size_t D = f->D;
    double *cost = f->gr;
    wv_stream stream = {f->opt.seed, WV_RNG_RESTART, f->s.batch, restart};
    for (size_t j = 0; j < f->N; j++) {
        double total = 0, u;
        for (size_t k = 0; k < n; k++) {
            double d = j ? squared(D, y + k * D, centre + (j - 1) * D) : 1;
            cost[k] = j > 1 ? fmin(cost[k], d) : d;
            total += fmax(w[k], 0) * cost[k];
        }
        wv_rng_uniform(&stream, j, 1, &u);
        size_t pick = 0;
        for (double sum = fmax(w[0], 0) * cost[0]; sum < u * total && pick + 1 < n; sum += fmax(w[pick], 0) * cost[pick])
            pick++;
        memcpy(centre + j * D, y + pick * D, D * sizeof *centre);
    }
}

/* Spread of every cell from the pooled points: marginal variances, as a start. */
static void spreads(wvgd_fit *f, size_t n, const double *w)
{
    size_t D = f->D;
    double *sd = f->vector[0];
    for (size_t j = 0; j < f->N; j++) {
        double mass = 0, *z = f->now.z + j * D;
        memset(sd, 0, D * sizeof *sd);
        for (size_t k = 0; k < n; k++)
            if (f->b.cell[k] == j) {
                mass += w[k];
                for (size_t i = 0; i < D; i++)
                    sd[i] += w[k] * (f->close.x[k * D + i] - z[i]) * (f->close.x[k * D + i] - z[i]);
            }
        bool usable = mass > 0;
        for (size_t i = 0; i < D; i++) {
            sd[i] = sqrt(sd[i] / mass);
            usable = usable && sd[i] > 0 && isfinite(sd[i]);
        }
        if (usable)
            f->cell_family->set_sd(D, 0, f->now.spread + j * f->cell_family->size(D, 0), sd);
    }
}

/* Points and particles, relative to `origin`, in coordinates in which the cost is (or is like) the squared distance. */
static void flatten(const wvgd_fit *f, size_t n, double *y, const double *origin)
{
    for (size_t k = 0; k < n * f->D; k++)
        y[k] -= origin[k % f->D];
    if (f->opt.cost != WVGD_SQEUCLID)
        f->metric_family->whiten(f->D, 0, f->now.metric, n, y, NULL);
}

static void unflatten(const wvgd_fit *f, size_t n, double *y, const double *origin)
{
    if (f->opt.cost != WVGD_SQEUCLID)
        f->metric_family->colour(f->D, 0, f->now.metric, n, y, NULL);
    for (size_t k = 0; k < n * f->D; k++)
        y[k] += origin[k % f->D];
}

/* The best of many starts, in flat coordinates, into best[N][D]; returns its distortion. The starts are compared on the last `few` of the points, the best goes on with all. */
static double search(wvgd_fit *f, size_t n, size_t few, const double *y, const double *w, double *best, double *trial)
{
    double least = INFINITY;
    const double *y_few = y + (n - few) * f->D, *w_few = w + (n - few);
    for (uint64_t r = 0; r < RESTARTS; r++) {
        seed(f, few, y_few, w_few, r, trial);
        double d = lloyd(f, few, y_few, w_few, roughly, trial);
        if (d < least) {
            least = d;
            memcpy(best, trial, f->N * f->D * sizeof *best);
        }
    }
    return lloyd(f, n, y, w, exactly, best);
}

bool wv_quantise_improve(wvgd_fit *f)
{
    size_t n = f->close.n, D = f->D, ND = f->N * D;
    double *y = f->y, *w = f->gu, *current = f->try_z, *best = current + ND, *trial = best + ND, *origin = f->vector[1];
    if (f->N == 1 || (f->opt.cost != WVGD_SQEUCLID && f->opt.cost != WVGD_MAHALANOBIS))
        return false;
    for (size_t k = 0; k < n; k++)
        f->psi[k] = f->close.log_p[k] - f->close.log_m[k];
    if (!wv_weight_normalise(n, f->psi, w) || wv_weight_ess(n, w) < 50 * (double)f->N)
        return false;
    memcpy(origin, f->now.z, D * sizeof *origin);
    memcpy(y, f->close.x, n * D * sizeof *y);
    memcpy(current, f->now.z, ND * sizeof *current);
    flatten(f, n, y, origin);
    flatten(f, f->N, current, origin);
    double now = lloyd(f, n, y, w, exactly, current), least = search(f, n, n, y, w, best, trial);
    if (!(least < clearly * now))
        return false;
    assign(f, n, y, w, best);
    unflatten(f, f->N, best, origin);
    memcpy(f->now.z, best, ND * sizeof *best);
    spreads(f, n, w);
    return true;
}

/* Draws of the mixture, evenly over its components, into y[n][D] with weights w[n] that sum to `total`. */
static void mixture_points(wvgd_fit *f, size_t n, double total, double *y, double *w)
{
    size_t K = f->s.mix.K;
    for (size_t k = 0, at = 0; k < K; k++) {
        wv_gauss q = wv_mix_component(f, k);
        wv_stream stream = {f->opt.seed, WV_RNG_SETTLE, 1, k};
        size_t here = (n - at) / (K - k);
        wv_component_draw(&q, &stream, 0, here, true, y + at * f->D, f->work);
        for (size_t i = at; i < at + here; i++)
            w[i] = total * f->mix.w[k] / (double)here;
        at += here;
    }
}

void wv_quantise_place(wvgd_fit *f, double c)
{
    size_t D = f->D, ND = f->N * D, n = f->close.n < f->n_max / 2 ? f->close.n : f->n_max / 2, extra = c > 0 ? f->n_max - n : 0;
    double *y = f->y, *w = f->gu, *best = f->try_z, *trial = best + ND, total = 0;
    size_t most = D > 4 ? (100 * f->N > MIXTURE / 4 ? 100 * f->N : MIXTURE / 4) : MIXTURE; /* in many dimensions they cost more, and a hundredth of the distortion does not matter */
    extra = extra < most ? extra : most;
    for (size_t k = 0; k < n; k++) { /* all draws, or evenly spaced ones: those of a proposal are neighbours */
        size_t i = n < f->close.n ? (size_t)((double)k * (double)f->close.n / (double)n) : k;
        memcpy(y + k * D, f->close.x + i * D, D * sizeof *y);
        total += w[k] = f->close_v[i] - (extra ? c * f->close_spare[i] : 0);
    }
    if (extra) {
        mixture_points(f, extra, c, y + n * D, w + n);
        n += extra;
        total += c;
    }
    cblas_dscal((int)n, 1 / total, w, 1);
    flatten(f, n, y, f->mean);
    search(f, n, D > 4 && extra && c > 0.9 ? extra : n, y, w, best, trial);
    unflatten(f, f->N, best, f->mean);
    memcpy(f->now.z, best, ND * sizeof *best);
}
