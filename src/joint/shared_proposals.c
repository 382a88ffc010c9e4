/* shared_proposals.c - weighing every draw by the components of all particles would take time that grows with the
 * square of their number. Many particles are split into groups of neighbours instead, and the draws of a group come
 * from two Gaussians: one with the moments of its cells together, one with those of its components together. Any
 * proposal that covers the posterior leaves the estimates what they are (method, section 3). Particles are bisected at
 * the median along the axis on which they lie furthest apart, in units of their cells, down to single ones. The log
 * volume of a group for each of its particles is that of the Gaussian of its cells less the log of their number; a
 * branch of the tree becomes one group unless those below it do better. So cells that overlap, in many dimensions say,
 * or lie side by side share a proposal, and modes, between which there is nothing, do not. */
#include "joint/shared_proposals.h"
#include "fit.h"
#include "gaussian.h"
#include "dense.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

static const double spare = 0.05; /* nats that a group may lose to those it could be split into */

/* In many dimensions cells, seen as diagonal Gaussians, overlap so much that proposals of their own are no better
 * than shared ones. With ten dimensions that are correlated they still are, by tenths of a nat. */
bool wv_shared_proposals_many(const wvgd_fit *f)
{
    return f->N > (f->family == wv_family_get(WVGD_DIAG) && f->D >= 32 ? 8 : 32);
}

size_t wv_shared_proposals_size(const wvgd_fit *f)
{
    return wv_shared_proposals_many(f) ? wv_times(2 * f->N, f->D + f->cell_family->size(f->D, 0)) : 0;
}

/* The next proposal: the Gaussian with the moments of n cells, or of n components of which each counts as its draws. */
static wv_gaussian merge(wvgd_fit *f, size_t n, const uint32_t *member, bool cells)
{
    size_t D = f->D, size = D + f->cell_family->size(D, 0);
    bool full = f->cell_family == wv_family_get(WVGD_FULL);
    double *mu = f->shared.group + f->proposals.n * size, *root = mu + D, *sd = f->desk.vector[0],
           *apart = f->desk.vector[1], *C = full ? f->desk.square[0] : root, total = 0;
    memset(mu, 0, D * sizeof *mu);
    memset(C, 0, f->cell_family->size(D, 0) * sizeof *C);
    for (size_t k = 0; k < n; k++)
        total += cells ? 1 : f->shared.cell_spare[member[k]];
    for (size_t k = 0; k < n; k++)
        cblas_daxpy((int)D, (cells ? 1 : f->shared.cell_spare[member[k]]) / total,
                    (cells ? f->cells.now.z : f->cells.now.mu) + member[k] * D, 1, mu, 1);
    for (size_t k = 0; k < n; k++) {
        wv_gaussian q = cells ? wv_partition_spread(&f->cells, member[k])
                              : wv_partition_component(&f->cells, member[k]);
        double w = (cells ? 1 : f->shared.cell_spare[member[k]]) / total;
        for (size_t i = 0; i < D; i++)
            apart[i] = q.mu[i] - mu[i];
        if (full) {
            cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)D, (int)D, w, q.root, (int)D, 1.0, C, (int)D);
            cblas_dsyr(CblasRowMajor, CblasLower, (int)D, w, apart, 1, C, (int)D);
        } else {
            q.family->sd(D, q.R, q.root, sd);
            for (size_t i = 0; i < D; i++)
                C[i] += w * (sd[i] * sd[i] + apart[i] * apart[i]);
        }
    }
    if (full) {
        bool definite = wv_dense_chol(D, C, f->desk.square[1]);
        memcpy(root, definite ? C : wv_partition_spread(&f->cells, member[0]).root, D * D * sizeof *root);
    } else
        for (size_t i = 0; i < D; i++)
            root[i] = sqrt(C[i]);
    return (wv_gaussian){f->cell_family, D, 0, mu, root, 0};
}

static bool before(const wvgd_fit *f, size_t axis, uint32_t a, uint32_t b)
{
    double za = f->cells.now.z[a * f->D + axis], zb = f->cells.now.z[b * f->D + axis];
    return za != zb ? za < zb : a < b;
}

/* Rearranges member[n] so that the first `half` of them come before the others along an axis (Hoare's selection). */
static void divide(const wvgd_fit *f, size_t axis, size_t n, uint32_t *member, size_t half)
{
    for (size_t low = 0, high = n - 1; low < high;) {
        uint32_t pivot = member[(low + high) / 2], swap;
        size_t i = low, k = high;
        for (;;) {
            while (before(f, axis, member[i], pivot))
                i++;
            while (before(f, axis, pivot, member[k]))
                k--;
            if (i >= k)
                break;
            swap = member[i];
            member[i++] = member[k];
            member[k--] = swap;
        }
        if (half <= k)
            high = k;
        else
            low = k + 1;
    }
}

/* The axis on which particles lie furthest apart, in units of their cells: the one with the least
 * share of cells in the variance of all. */
static size_t longest(const wvgd_fit *f, size_t n, const uint32_t *member, const wv_gaussian *all)
{
    size_t D = f->D, axis = 0;
    double *within = f->desk.vector[2], *sd = f->desk.vector[3];
    memset(within, 0, D * sizeof *within);
    for (size_t k = 0; k < n; k++) {
        wv_gaussian cell = wv_partition_spread(&f->cells, member[k]);
        cell.family->sd(D, 0, cell.root, sd);
        for (size_t i = 0; i < D; i++)
            within[i] += sd[i] * sd[i];
    }
    all->family->sd(D, 0, all->root, sd);
    for (size_t i = 0; i < D; i++) {
        within[i] /= sd[i] * sd[i];
        if (within[i] < within[axis])
            axis = i;
    }
    return axis;
}

/* Makes a group of n particles: a proposal with the moments of their cells. Returns the log of its
 * volume for each particle. */
static double unite(wvgd_fit *f, size_t n, const uint32_t *member)
{
    wv_gaussian all = merge(f, n, member, true);
    f->proposals.share[f->proposals.n] = n;
    f->proposals.p[f->proposals.n++].q = all;
    return all.family->log_det(f->D, 0, all.root) - log((double)n);
}

/* Makes groups of n particles: one, unless groups of halves of them can have less volume by more
 * than `spare`. Returns the least volume. */
static double split(wvgd_fit *f, size_t n, uint32_t *member)
{
    size_t at = f->proposals.n, half = n / 2;
    double whole = unite(f, n, member), parts;
    if (n == 1)
        return whole;
    divide(f, longest(f, n, member, &f->proposals.p[at].q), n, member, half);
    f->proposals.n = at;
    parts = (double)half * split(f, half, member);
    parts = (parts + (double)(n - half) * split(f, n - half, member + half)) / (double)n;
    if (whole < parts + spare) {
        f->proposals.n = at;
        unite(f, n, member);
    }
    return fmin(whole, parts);
}

void wv_shared_proposals_propose(wvgd_fit *f, double nu)
{
    for (size_t j = 0; j < f->N; j++) {
        f->shared.member[j] = (uint32_t)j;
        f->shared.cell_spare[j] = (double)f->proposals.share[j];
    }
    f->proposals.n = 0;
    split(f, f->N, f->shared.member);
    size_t groups = f->proposals.n;
    for (size_t g = 0, first = 0; g < groups; g++) {
        size_t n = f->proposals.share[g], draws = 0;
        for (size_t k = 0; k < n; k++)
            draws += (size_t)f->shared.cell_spare[f->shared.member[first + k]];
        f->proposals.p[g].q.nu = nu;
        f->proposals.share[g] = n * f->size.M - draws;
        f->proposals.share[f->proposals.n] = draws;
        f->proposals.p[f->proposals.n].q = merge(f, n, f->shared.member + first, false);
        f->proposals.n++;
        first += n;
    }
}
