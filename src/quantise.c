/* quantise.c - quantizers have local minima that single moves do not leave. With weighted posterior points in hand the transport problem is ordinary weighted
 * k-means, and restarts cost no model evaluations (method, section 6, quantise). */
#include "quantise.h"
#include "weight.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

enum { RESTARTS = 24, ROUNDS = 40 };
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
static double lloyd(wvgd_fit *f, size_t n, const double *y, const double *w, double *centre)
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
        bool settled = next > (1 - 1e-5) * distortion;
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
            total += w[k] * cost[k];
        }
        wv_rng_uniform(&stream, j, 1, &u);
        size_t pick = 0;
        for (double sum = w[0] * cost[0]; sum < u * total && pick + 1 < n; sum += w[pick] * cost[pick])
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

bool wv_quantise_improve(wvgd_fit *f)
{
    size_t n = f->close.n, D = f->D, ND = f->N * D;
    double *y = f->y, *w = f->gu, *current = f->try_z, *best = current + ND, *trial = best + ND;
    bool metric = f->opt.cost == WVGD_MAHALANOBIS;
    if (f->N == 1 || (f->opt.cost != WVGD_SQEUCLID && !metric))
        return false;
    for (size_t k = 0; k < n; k++)
        f->psi[k] = f->close.log_p[k] - f->close.log_m[k];
    if (!wv_weight_normalise(n, f->psi, w) || wv_weight_ess(n, w) < 50 * (double)f->N)
        return false;
    /* in coordinates in which the cost is the squared distance, centred */
    const double *origin = f->now.z;
    wv_gauss g = {f->metric_family, D, 0, origin, f->now.metric, 0};
    for (size_t k = 0; k < n * D; k++)
        y[k] = f->close.x[k] - origin[k % D];
    for (size_t k = 0; k < ND; k++)
        current[k] = f->now.z[k] - origin[k % D];
    if (metric) {
        g.family->whiten(D, 0, g.root, n, y, NULL);
        g.family->whiten(D, 0, g.root, f->N, current, NULL);
    }
    double now = lloyd(f, n, y, w, current), least = INFINITY;
    for (uint64_t r = 0; r < RESTARTS; r++) {
        seed(f, n, y, w, r, trial);
        double d = lloyd(f, n, y, w, trial);
        if (d < least) {
            least = d;
            memcpy(best, trial, ND * sizeof *best);
        }
    }
    if (!(least < clearly * now))
        return false;
    assign(f, n, y, w, best);
    if (metric)
        g.family->colour(D, 0, g.root, f->N, best, NULL);
    for (size_t i = 0; i < D; i++) /* origin is a particle itself: keep it before it is overwritten */
        f->vector[1][i] = origin[i];
    for (size_t k = 0; k < ND; k++)
        f->now.z[k] = best[k] + f->vector[1][k % D];
    spreads(f, n, w);
    return true;
}
