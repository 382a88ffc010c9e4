/* shared_proposals.c - weighing every draw by the components of all particles would take time that grows with the
 * square of their number. Many particles are split into groups of neighbours instead, and the draws of a group come
 * from two Gaussians: one with the moments of its cells together, one with those of its components together. Any
 * proposal that covers the posterior leaves the estimates what they are (method, section 3). Particles are bisected at
 * the median along the axis on which they lie furthest apart, in units of their cells, down to single ones. The log
 * volume of a group for each of its particles is that of the Gaussian of its cells less the log of their number; a
 * branch of the tree becomes one group unless those below it do better. So cells that overlap, in many dimensions say,
 * or lie side by side share a proposal, and modes, between which there is nothing, do not. */
#include "joint/shared_proposals.h"
#include "arena.h"
#include "fit.h"
#include "gaussian.h"
#include "dense.h"
#include "policy.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* In many dimensions cells, seen as diagonal Gaussians, overlap so much that proposals of their own are no better
 * than shared ones. With ten dimensions that are correlated they still are, by tenths of a nat. */
bool wv_shared_proposals_many(const wvgd_fit *f)
{
    bool overlap = f->cells.shape.family == wv_family_get(WVGD_DIAG) && (double)f->D >= wv_policy.groups_dims;
    return (double)f->N > (overlap ? wv_policy.groups_particles_overlap : wv_policy.groups_particles);
}

size_t wv_shared_proposals_size(const wvgd_fit *f)
{
    return wv_shared_proposals_many(f) ? wv_times(2 * f->N, f->D + f->cells.shape.cell_family->size(f->D, 0)) : 0;
}

/* Particles in the order of groups, and the groups made so far. */
typedef struct {
    uint32_t *member; /* [N] */
    double *draws;    /* [N] of the component of each particle */
    size_t *size;     /* [N] particles of each group */
} grouping;

/* Adds w times the covariance of q about mu to C: the lower half, or the diagonal alone. */
static void add_covariance(const wvgd_fit *f, const wv_gaussian *q, double w, const double *mu, double *C)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D), *apart = wv_arena_take(f->arena, D);
    for (size_t i = 0; i < D; i++)
        apart[i] = q->mu[i] - mu[i];
    if (f->cells.shape.cell_family == wv_family_get(WVGD_FULL)) {
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)D, (int)D, w, q->root, (int)D, 1.0, C, (int)D);
        cblas_dsyr(CblasRowMajor, CblasLower, (int)D, w, apart, 1, C, (int)D);
    } else {
        q->family->sd(D, q->R, q->root, sd);
        for (size_t i = 0; i < D; i++)
            C[i] += w * (sd[i] * sd[i] + apart[i] * apart[i]);
    }
    wv_arena_release(f->arena, mark);
}

/* The next proposal: the Gaussian with the moments of n cells, or (draws) of n components of which each counts as its
 * draws. */
static wv_gaussian merge(wvgd_fit *f, size_t n, const uint32_t *member, const double *draws)
{
    size_t D = f->D, size = f->cells.shape.cell_family->size(D, 0), mark = wv_arena_mark(f->arena);
    double *mu = f->joint.group + f->proposals.n * (D + size), *root = mu + D, *C = wv_arena_zeros(f->arena, size),
           total = 0;
    memset(mu, 0, D * sizeof *mu);
    for (size_t k = 0; k < n; k++)
        total += draws ? draws[member[k]] : 1;
    for (size_t k = 0; k < n; k++)
        cblas_daxpy((int)D, (draws ? draws[member[k]] : 1) / total,
                    (draws ? f->cells.now.mu : f->cells.now.z) + member[k] * D, 1, mu, 1);
    for (size_t k = 0; k < n; k++) {
        wv_gaussian q = draws ? wv_partition_component(&f->cells, member[k])
                              : wv_partition_spread(&f->cells, member[k]);
        add_covariance(f, &q, (draws ? draws[member[k]] : 1) / total, mu, C);
    }
    if (f->cells.shape.cell_family == wv_family_get(WVGD_FULL)) {
        bool definite = wv_dense_chol(D, C, wv_arena_take(f->arena, D * D));
        memcpy(root, definite ? C : wv_partition_spread(&f->cells, member[0]).root, D * D * sizeof *root);
    } else
        for (size_t i = 0; i < D; i++)
            root[i] = sqrt(C[i]);
    wv_arena_release(f->arena, mark);
    return (wv_gaussian){f->cells.shape.cell_family, D, 0, mu, root, 0};
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
    size_t D = f->D, axis = 0, mark = wv_arena_mark(f->arena);
    double *within = wv_arena_zeros(f->arena, D), *sd = wv_arena_take(f->arena, D);
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
    wv_arena_release(f->arena, mark);
    return axis;
}

/* Makes a group of n particles: a proposal with the moments of their cells. Returns the log of its
 * volume for each particle. */
static double unite(wvgd_fit *f, grouping *g, size_t n, const uint32_t *member)
{
    wv_gaussian all = merge(f, n, member, NULL);
    g->size[f->proposals.n] = n;
    f->proposals.p[f->proposals.n++].q = all;
    return all.family->log_det(f->D, 0, all.root) - log((double)n);
}

/* Makes groups of n particles: one, unless groups of halves of them can have less volume by more
 * than groups_spare. Returns the least volume. */
static double split(wvgd_fit *f, grouping *g, size_t n, uint32_t *member)
{
    size_t at = f->proposals.n, half = n / 2;
    double whole = unite(f, g, n, member), parts;
    if (n == 1)
        return whole;
    divide(f, longest(f, n, member, &f->proposals.p[at].q), n, member, half);
    f->proposals.n = at;
    parts = (double)half * split(f, g, half, member);
    parts = (parts + (double)(n - half) * split(f, g, n - half, member + half)) / (double)n;
    if (whole < parts + wv_policy.groups_spare) {
        f->proposals.n = at;
        unite(f, g, n, member);
    }
    return fmin(whole, parts);
}

void wv_shared_proposals_propose(wvgd_fit *f, double nu)
{
    size_t mark = wv_arena_mark(f->arena);
    grouping g = {.member = wv_arena_take_index(f->arena, f->N),
                  .draws = wv_arena_take(f->arena, f->N),
                  .size = wv_arena_take_sizes(f->arena, f->N)};
    for (size_t j = 0; j < f->N; j++) {
        g.member[j] = (uint32_t)j;
        g.draws[j] = (double)f->proposals.draws[j];
    }
    f->proposals.n = 0;
    split(f, &g, f->N, g.member);
    size_t groups = f->proposals.n;
    for (size_t k = 0, first = 0; k < groups; first += g.size[k++]) {
        size_t n = g.size[k], draws = 0;
        for (size_t i = first; i < first + n; i++)
            draws += (size_t)g.draws[g.member[i]];
        f->proposals.p[k].q.nu = nu;
        f->proposals.draws[k] = n * f->size.M - draws;
        f->proposals.draws[f->proposals.n] = draws;
        f->proposals.p[f->proposals.n].q = merge(f, n, g.member + first, g.draws);
        f->proposals.n++;
    }
    wv_arena_release(f->arena, mark);
}
