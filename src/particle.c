/* particle.c - z_j goes down the transport cost D = E min_j c(z_j, z) (method, section 2).
 * With grad_1 c = a(z,x)(z-x) the damped Weiszfeld step z += lambda (sum w a x / sum w a - z) needs no step size;
 * for squared costs a is constant and the step is Lloyd's. A callback cost has only its gradient: clipped Newton
 * steps. Dividing by beta_j (a mean over the cell, not a sum) is the preconditioner that lets light cells move. */
#include "particle.h"
#include "arena.h"
#include "cost.h"
#include "gaussian.h"
#include "halfspaces.h"
#include "nearest.h"
#include "dense.h"
#include "weights.h"
#include "policy.h"
#include "workers.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* Weights of the posterior in a cell, p~/m; where they are too uneven to trust, tempered towards q_j/m by the
 * largest power of a list that leaves a decent effective size. Returns the effective size; 0: no weight at all. */
static double temper(size_t D, wv_cell_points p, double *weight, wv_arena *arena)
{
    static const double tau[] = {1, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0};
    double enough = fmin(wv_policy.particle_ess_share * (double)p.n,
                         wv_policy.particle_ess_each * (double)D + wv_policy.particle_ess),
           ess = 0;
    size_t mark = wv_arena_mark(arena);
    double *log_w = wv_arena_take(arena, p.n);
    for (size_t t = 0; t < sizeof tau / sizeof *tau && (!t || ess < enough); t++) {
        for (size_t k = 0; k < p.n; k++)
            log_w[k] = p.log_v[k] == -INFINITY ? -INFINITY : tau[t] * p.log_v[k] + (1 - tau[t]) * p.log_u[k];
        if (!wv_weights_normalise(p.n, log_w, weight)) {
            ess = 0;
            break;
        }
        ess = wv_weights_ess(p.n, weight);
    }
    wv_arena_release(arena, mark);
    return ess;
}

/* Weiszfeld target for sum |a_i - b_i|^p, coordinate by coordinate; smoothed at zero by a share of the cell's sd. */
static void weiszfeld(size_t D, double p, size_t n, const double *x, const double *w, const double *z, const double *sd,
                      double *target)
{
    for (size_t i = 0; i < D; i++) {
        double e = wv_policy.particle_smoothing * sd[i], sum = 0, weighted = 0;
        for (size_t k = 0; k < n; k++) {
            double d = x[k * D + i] - z[i], a = w[k] * pow(d * d + e * e, (p - 2) / 2);
            sum += a;
            weighted += a * d;
        }
        target[i] = z[i] + (sum > 0 ? weighted / sum : 0);
    }
}

/* Takes `wanted` of n points evenly by their weights, which sum to 1, into some[wanted][D]. */
static void sample(size_t D, size_t n, const double *x, const double *w, size_t wanted, double *some)
{
    double sum = 0;
    size_t made = 0;
    for (size_t k = 0; k < n && made < wanted; k++)
        for (sum += w[k] * (double)wanted; made < wanted && (sum > (double)made + 0.5 || k + 1 == n); made++)
            memcpy(some + made * D, x + k * D, D * sizeof *x);
}

/* -g over the curvature, in sds, at most so many; where it is not positive all of these. */
static double clipped(double g, double curvature)
{
    double most = wv_policy.particle_newton_most, step = curvature > 0 ? -g / curvature : -copysign(most, g);
    return isfinite(step) && g != 0 ? fmin(fmax(step, -most), most) : 0;
}

/* The Newton step in sds, along each axis of the Hessian as far as its curvature (or its opposite,
 * where that is negative) says. Row i of H[D][D], which is overwritten: what the gradient changes
 * by if coordinate i does by a difference. */
static void newton_step(size_t D, const double *g, const double *sd, double *H, double *step, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *e = wv_arena_take(arena, D), *pull = wv_arena_take(arena, D),
           *work = wv_arena_take(arena, wv_dense_eigh_work(D));
    memset(step, 0, D * sizeof *step);
    for (size_t i = 0; i < D; i++) {
        pull[i] = sd[i] * g[i];
        for (size_t k = 0; k <= i; k++)
            H[i * D + k] = (H[i * D + k] * sd[k] + H[k * D + i] * sd[i]) / 2 / wv_policy.particle_difference;
    }
    if (wv_dense_eigh(D, H, e, work)) {
        double least = 1e-6 * fmax(fabs(e[0]), fabs(e[D - 1]));
        for (size_t k = 0; k < D; k++)
            cblas_daxpy((int)D, clipped(cblas_ddot((int)D, H + k * D, 1, pull, 1), fmax(fabs(e[k]), least)), H + k * D,
                        1, step, 1);
    }
    wv_arena_release(arena, mark);
}

/* Points of a cell that stand for it, and the gradient of their mean cost. */
typedef struct {
    size_t n;
    const double *x, *w; /* [n][D], [n] */
    const double *grad;  /* [D] */
} slope_points;

/* The Newton step in sds into step[D], g[D] being the gradient, with a Hessian by differences of gradients at points
 * that stand for all. In very many dimensions by its diagonal only. */
static void difference_step(const wv_cost *c, size_t D, slope_points p, const double *z, const double *sd,
                            const double *g, double *step, wv_arena *arena)
{
    bool dense = c->metric_family == wv_family_get(WVGD_FULL);
    size_t mark = wv_arena_mark(arena);
    double *at = wv_arena_take(arena, D), *rows = wv_arena_take(arena, dense ? D * D : D);
    memcpy(at, z, D * sizeof *at);
    for (size_t i = 0; i < D; i++) {
        double *row = dense ? rows + i * D : rows;
        at[i] = z[i] + wv_policy.particle_difference * sd[i];
        wv_cost_callback(c, D, at, p.n, p.x, NULL, p.w, row, arena);
        at[i] = z[i];
        cblas_daxpy((int)D, -1.0, p.grad, 1, row, 1);
        step[i] = clipped(sd[i] * g[i], sd[i] * row[i] / wv_policy.particle_difference);
    }
    if (dense)
        newton_step(D, g, sd, rows, step, arena);
    wv_arena_release(arena, mark);
}

/* Newton, clipped to a few sds of the cell. */
static void newton(const wv_cost *c, size_t D, size_t n, const double *x, const double *w, const double *z,
                   const double *sd, double *target, wv_arena *arena)
{
    size_t some_points = (size_t)wv_policy.particle_newton_points, mark = wv_arena_mark(arena);
    double *g = wv_arena_take(arena, D), most = wv_policy.particle_newton_most;
    wv_cost_callback(c, D, z, n, x, NULL, w, g, arena);
    slope_points p = {n, x, w, g};
    if (n > some_points) {
        double *some = wv_arena_take(arena, some_points * D), *equal = wv_arena_take(arena, some_points),
               *grad = wv_arena_take(arena, D);
        sample(D, n, x, w, some_points, some);
        for (size_t k = 0; k < some_points; k++)
            equal[k] = 1.0 / (double)some_points;
        wv_cost_callback(c, D, z, some_points, some, NULL, equal, grad, arena);
        p = (slope_points){some_points, some, equal, grad};
    }
    difference_step(c, D, p, z, sd, g, target, arena);
    for (size_t i = 0; i < D; i++)
        target[i] = z[i] + (isfinite(target[i]) ? sd[i] * fmin(fmax(target[i], -most), most) : 0);
    wv_arena_release(arena, mark);
}

static double mean_cost(const wv_cost *c, size_t D, size_t n, const double *x, const double *w, const double *z,
                        wv_arena *arena)
{
    double sum = 0, cost[WV_BLOCK];
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        wv_cost_callback(c, D, z, here, x + first * D, cost, NULL, NULL, arena);
        for (size_t k = 0; k < here; k++)
            if (w[first + k] > 0)
                sum += w[first + k] * cost[k];
    }
    return sum;
}

/* Costs need not be convex: goes only as far towards the target as the mean cost falls. */
static void hold_back(const wv_cost *c, size_t D, size_t n, const double *x, const double *w, const double *z,
                      double *target, wv_arena *arena)
{
    double before = mean_cost(c, D, n, x, w, z, arena);
    for (int halvings = 0; halvings < (int)wv_policy.particle_halvings; halvings++) {
        if (mean_cost(c, D, n, x, w, target, arena) < before)
            return;
        for (size_t i = 0; i < D; i++)
            target[i] = 0.5 * (z[i] + target[i]);
    }
    memcpy(target, z, D * sizeof *target);
}

/* The spread follows the covariance of the posterior in the cell; less when few points carry it. */
static void step_spread(wv_partition *cells, size_t j, wv_cell_points p, const double *weight, double ess,
                        double lambda, const double *mean, wv_arena *arena)
{
    double needed = cells->shape.cell_family == wv_family_get(WVGD_FULL) ? (double)cells->shape.D : 1;
    double keep = lambda * (ess > wv_policy.particle_spread_ess * needed ? 1 : ess / (ess + needed));
    wv_partition_follow(cells, j, mean, p.n, p.x, weight, keep, arena);
}

/* Where the cost pulls z_j: the weighted mean for squared costs. */
static void attract(const wv_cost *c, size_t D, size_t n, const double *x, const double *w, const double *z,
                    const double *mean, const double *sd, double *target, wv_arena *arena)
{
    switch (c->kind) {
    case WVGD_L1: weiszfeld(D, 1, n, x, w, z, sd, target); break;
    case WVGD_LP: weiszfeld(D, c->power, n, x, w, z, sd, target); break;
    case WVGD_CALLBACK:
        newton(c, D, n, x, w, z, sd, target, arena);
        hold_back(c, D, n, x, w, z, target, arena);
        break;
    default: memcpy(target, mean, D * sizeof *target);
    }
}

size_t wv_particle_free_batches(const wv_geometry *g)
{
    double work = (double)(g->N * g->N) * (double)g->D * (g->cost.kind == WVGD_SQEUCLID ? 1 : (double)g->D) * WV_FREE;
    return g->cost.kind == WVGD_CALLBACK
               ? 0
               : (size_t)fmin(wv_policy.particle_free_batches, wv_policy.particle_free_work / work);
}

/* Adds a batch of draws of q_j and around the particle, half each, weighted to stand for q_j, to
 * sum[D]; returns their weight in the cell. */
static double add_free(const wv_partition *cells, const wv_stream *stream, uint64_t batch, double *sum, wv_arena *arena)
{
    enum { HALF = WV_FREE / 2 };
    size_t D = cells->shape.D, j = stream->component, mark = wv_arena_mark(arena);
    double *x = wv_arena_take(arena, WV_FREE * D), *y = wv_arena_take(arena, WV_FREE * D),
           *weight = wv_arena_take(arena, WV_FREE), *log_r = wv_arena_take(arena, WV_FREE),
           *near = wv_arena_take(arena, WV_FREE), *next = wv_arena_take(arena, WV_FREE), total = 0;
    uint32_t *cell = wv_arena_take_index(arena, WV_FREE);
    wv_gaussian q = wv_partition_component(cells, j), r = wv_partition_proposal(cells, j);
    wv_geometry g = wv_partition_geometry(cells);
    wv_gaussian_draw(&q, stream, batch * WV_FREE, HALF, true, x, arena);
    wv_gaussian_draw(&r, stream, batch * WV_FREE + HALF, HALF, true, x + HALF * D, arena);
    wv_gaussian_log_density(&q, WV_FREE, x, weight, y, arena);
    wv_gaussian_log_density(&r, WV_FREE, x, log_r, y, arena);
    for (size_t k = 0; k < WV_FREE; k++)
        weight[k] = 1 / (1 + exp(log_r[k] - weight[k])); /* from log q_j, up to a factor */
    wv_nearest_assign(&g, WV_FREE, x, cell, near, next, arena);
    for (size_t k = 0; k < WV_FREE; k++)
        if (cell[k] == j) {
            total += weight[k];
            cblas_daxpy((int)D, weight[k], x + k * D, 1, sum, 1);
        }
    wv_arena_release(arena, mark);
    return total;
}

/* Mean of q_j over its cell; false: no draw lies in the cell. */
static bool component_mean(const wv_partition *cells, size_t j, const wv_free_draws *d, double *mean, wv_arena *arena)
{
    size_t D = cells->shape.D;
    double total = 0;
    wv_stream stream = {d->seed, WV_RNG_FREE, d->batch, j};
    memset(mean, 0, D * sizeof *mean);
    for (uint64_t b = 0; b < d->batches; b++)
        total += add_free(cells, &stream, b, mean, arena);
    if (!(total > 0))
        return false;
    cblas_dscal((int)D, 1 / total, mean, 1);
    return true;
}

/* Control variate for the mean of the posterior in cell j: where q_j is close to p_j, the error of the same
 * points' estimate of the mean of q_j, which free draws tell much better, is nearly the same error.
 * Coefficients by coordinate, between 0 and 1. */
static void sharpen(const wv_partition *cells, size_t j, wv_cell_points p, const wv_free_draws *d, const double *weight,
                    double *mean, wv_arena *arena)
{
    size_t D = cells->shape.D, mark = wv_arena_mark(arena);
    double *own = wv_arena_take(arena, D), *exact = wv_arena_take(arena, D), *u = wv_arena_take(arena, p.n),
           *by = wv_arena_take(arena, D);
    bool known = d->batches && wv_weights_normalise(p.n, p.log_u, u) && component_mean(cells, j, d, exact, arena);
    if (known)
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)p.n, (int)D, 1.0, p.x, (int)D, u, 1, 0.0, own, 1);
    for (size_t i = 0; i < D && known; i++) {
        double cross = 0, square = 0;
        for (size_t k = 0; k < p.n; k++) {
            double a = weight[k] * (p.x[k * D + i] - mean[i]), b = u[k] * (p.x[k * D + i] - own[i]);
            cross += a * b;
            square += b * b;
        }
        double c = square > 0 ? fmin(fmax(cross / square, 0), 1) : 0;
        by[i] = c * (exact[i] - own[i]);
    }
    if (known)
        cblas_daxpy((int)D, 1.0, by, 1, mean, 1);
    wv_arena_release(arena, mark);
}

/* What a step towards where the cost pulls is divided by. */
static double damping(const wv_cost *c)
{
    return c->kind == WVGD_LP && c->power > 2 ? c->power - 1 : 1;
}

double wv_particle_step(wv_partition *cells, size_t j, wv_cell_points p, wv_free_draws d, double lambda, double *weight,
                        double *mean, wv_arena *arena)
{
    const wv_shape *shape = &cells->shape;
    size_t D = shape->D, mark = wv_arena_mark(arena);
    double ess = temper(D, p, weight, arena), *target = wv_arena_take(arena, D), *sd = wv_arena_take(arena, D),
           *away = wv_arena_take(arena, D), moved = -1;
    const double *z = cells->now.z + j * D;
    if (ess > 0) {
        wv_gaussian spread = wv_partition_spread(cells, j);
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)p.n, (int)D, 1.0, p.x, (int)D, weight, 1, 0.0, mean, 1);
        sharpen(cells, j, p, &d, weight, mean, arena);
        shape->cell_family->sd(D, 0, spread.root, sd);
        attract(&shape->cost, D, p.n, p.x, weight, z, mean, sd, target, arena);
        lambda /= damping(&shape->cost);
        for (size_t i = 0; i < D; i++)
            away[i] = target[i] - z[i];
        shape->cell_family->whiten(D, 0, spread.root, 1, away, NULL);
        moved = cblas_ddot((int)D, away, 1, away, 1);
        moved = isfinite(moved) ? moved : -1;
    }
    if (moved >= 0) {
        step_spread(cells, j, p, weight, ess, lambda, mean, arena);
        for (size_t i = 0; i < D; i++)
            target[i] = z[i] + lambda * (target[i] - z[i]);
        wv_partition_move(cells, j, target);
    }
    wv_arena_release(arena, mark);
    return moved;
}

void wv_particle_refit(wv_partition *cells, size_t j, wv_cell_points p, wv_arena *arena)
{
    size_t D = cells->shape.D, mark = wv_arena_mark(arena);
    double *weight = wv_arena_take(arena, p.n), *mean = wv_arena_take(arena, D), ess = temper(D, p, weight, arena);
    if (ess > 0) {
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)p.n, (int)D, 1.0, p.x, (int)D, weight, 1, 0.0, mean, 1);
        step_spread(cells, j, p, weight, ess, 1, mean, arena);
        if (cells->shape.N == 1) /* its Gaussian is a proposal only; the particle itself is placed at the very end */
            wv_partition_move(cells, 0, mean);
    }
    wv_arena_release(arena, mark);
}

void wv_particle_place_one(wv_partition *cells, size_t n, const double *x, const double *w, const double *mean,
                           wv_arena *arena)
{
    const wv_shape *shape = &cells->shape;
    size_t D = shape->D, mark = wv_arena_mark(arena);
    double *z = wv_arena_take(arena, D), *target = wv_arena_take(arena, D), *sd = wv_arena_take(arena, D),
           damp = 1 / damping(&shape->cost);
    memcpy(z, cells->now.z, D * sizeof *z);
    shape->cell_family->sd(D, 0, cells->now.spread, sd);
    for (int round = 0; round < (int)wv_policy.particle_place_rounds; round++) {
        attract(&shape->cost, D, n, x, w, z, mean, sd, target, arena);
        for (size_t i = 0; i < D; i++)
            z[i] += damp * (target[i] - z[i]);
    }
    wv_partition_move(cells, 0, z);
    wv_arena_release(arena, mark);
}

/* ---- moves ------------------------------------------------------------------------------------------------------- */
/* Points of one cell with their weights, which sum to 1, and mean. */
typedef struct {
    size_t n;
    double *x, *weight; /* [n][D], [n] */
    double *mean;       /* [D] */
} weighted;

/* Mean of half a standard normal, about. */
static const double half_normal = 0.8;

/* Two positions instead of one particle. */
typedef struct {
    double *a, *b; /* [D] */
} halves;

/* v[D]: the cell's principal axis, one sd long: the image of the unit vector that a few power iterations of A A' leave.
 */
static void principal_axis(const wv_family *family, size_t D, const double *root, double *v)
{
    for (size_t i = 0; i < D; i++)
        v[i] = 1.0 / (1.0 + (double)i);
    for (int round = 0; round < (int)wv_policy.particle_axis_rounds; round++) {
        family->pull(D, 0, root, 1, v, NULL);
        double norm = cblas_dnrm2((int)D, v, 1);
        cblas_dscal((int)D, 1 / norm, v, 1);
        family->colour(D, 0, root, 1, v, NULL);
    }
}

/* Each half to the mean of the points that are nearer to it, cost[2][n] says to which; unless one has none. */
static void lloyd_round(size_t D, const weighted *p, const double *cost_a, const double *cost_b, halves h,
                        wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *sum_a = wv_arena_zeros(arena, D), *sum_b = wv_arena_zeros(arena, D), mass_a = 0, mass_b = 0;
    for (size_t k = 0; k < p->n; k++) {
        bool left = cost_a[k] < cost_b[k];
        cblas_daxpy((int)D, p->weight[k], p->x + k * D, 1, left ? sum_a : sum_b, 1);
        *(left ? &mass_a : &mass_b) += p->weight[k];
    }
    for (size_t i = 0; i < D && mass_a > 0 && mass_b > 0; i++) {
        h.a[i] = sum_a[i] / mass_a;
        h.b[i] = sum_b[i] / mass_b;
    }
    wv_arena_release(arena, mark);
}

/* Splits cell j: two positions along the principal axis, improved by a few rounds of Lloyd. Returns what the cell's
 * cost falls by, less what two means fitted to the noise of so many points would gain, which in many dimensions is most
 * of it. */
static double split_gain(const wv_geometry *g, size_t j, const weighted *p, halves h, wv_arena *arena)
{
    const wv_family *family = g->cost.cell_family;
    size_t D = g->D, n = p->n, mark = wv_arena_mark(arena);
    double *cost_a = wv_arena_take(arena, n), *cost_b = wv_arena_take(arena, n), *y = wv_arena_take(arena, n * D),
           *v = wv_arena_take(arena, D), before = 0, after = 0;
    principal_axis(family, D, g->spread + j * family->size(D, 0), v);
    for (size_t i = 0; i < D; i++) {
        h.a[i] = p->mean[i] - half_normal * v[i];
        h.b[i] = p->mean[i] + half_normal * v[i];
    }
    for (int round = 0, rounds = (int)wv_policy.particle_split_rounds; round <= rounds; round++) {
        wv_cost_cost(g, j, h.a, n, p->x, cost_a, y, arena);
        wv_cost_cost(g, j, h.b, n, p->x, cost_b, y, arena);
        if (round < rounds)
            lloyd_round(D, p, cost_a, cost_b, h, arena);
    }
    for (size_t k = 0; k < n; k++)
        after += p->weight[k] * fmin(cost_a[k], cost_b[k]);
    wv_cost_cost(g, j, g->z + j * D, n, p->x, cost_a, y, arena);
    for (size_t k = 0; k < n; k++)
        before += p->weight[k] * cost_a[k];
    wv_arena_release(arena, mark);
    return before - after - 2 * before / wv_weights_ess(n, p->weight);
}

/* Gathers the n points order[n] of a cell with weights w into p; returns their mass. */
static double gather(size_t D, const wv_batch *b, const double *w, const uint32_t *order, size_t n, weighted *p)
{
    double mass = 0;
    p->n = n;
    memset(p->mean, 0, D * sizeof *p->mean);
    for (size_t k = 0; k < n; k++) {
        memcpy(p->x + k * D, b->x + order[k] * D, D * sizeof *p->x);
        mass += p->weight[k] = w[order[k]];
    }
    for (size_t k = 0; k < n && mass > 0; k++) {
        p->weight[k] /= mass;
        cblas_daxpy((int)D, p->weight[k], p->x + k * D, 1, p->mean, 1);
    }
    return mass;
}

/* The particle whose removal costs least, every point going to its second nearest; *cost is what it costs. */
static size_t least_useful(size_t N, const wv_batch *b, const double *w, const wv_cell_lists *lists, double *cost)
{
    size_t least = 0;
    *cost = INFINITY;
    for (size_t j = 0; j < N; j++) {
        double utility = 0;
        for (size_t k = lists->start[j]; k < lists->start[j + 1]; k++) {
            size_t i = lists->order[k];
            utility += w[i] * (b->next[i] - b->near[i]);
        }
        if (utility < *cost) {
            *cost = utility;
            least = j;
        }
    }
    return least;
}

/* The cell, other than `least`, that gains most from a second particle, N if none gains; *gain is what it gains, and
 * `best` where both would be. */
static size_t most_gaining(const wv_geometry *g, const wv_batch *b, const double *w, const wv_cell_lists *lists,
                           size_t least, double *gain, halves best, wv_arena *arena)
{
    size_t D = g->D, most = g->N, mark = wv_arena_mark(arena);
    halves h = {wv_arena_take(arena, D), wv_arena_take(arena, D)};
    weighted p = {.x = wv_arena_take(arena, b->n * D),
                  .weight = wv_arena_take(arena, b->n),
                  .mean = wv_arena_take(arena, D)};
    *gain = 0;
    for (size_t j = 0; j < g->N; j++) {
        size_t first = lists->start[j], n = lists->start[j + 1] - first;
        double mass = j == least || (double)n < wv_policy.particle_split_points
                          ? 0
                          : gather(D, b, w, lists->order + first, n, &p);
        if (!(mass > 0))
            continue;
        double here = mass * split_gain(g, j, &p, h, arena);
        if (here > *gain) {
            *gain = here;
            most = j;
            memcpy(best.a, h.a, D * sizeof *h.a);
            memcpy(best.b, h.b, D * sizeof *h.b);
        }
    }
    wv_arena_release(arena, mark);
    return most;
}

/* Narrows the spread of a cell along the line between its halves to what a half has. */
static void halve_spread(const wv_family *family, size_t D, halves h, double *root, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *v = wv_arena_take(arena, D);
    for (size_t i = 0; i < D; i++)
        v[i] = (h.b[i] - h.a[i]) / 2;
    family->whiten(D, 0, root, 1, v, NULL);
    double along = cblas_ddot((int)D, v, 1, v, 1), cut = along > 0 ? fmin(1, wv_policy.particle_split_cut / along) : 0;
    if (family == wv_family_get(WVGD_FULL)) {
        double *C = wv_arena_take(arena, D * D);
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k < D; k++)
                C[i * D + k] = (i == k) - cut * v[i] * v[k];
        family->absorb(D, 0, root, C, arena);
    } else
        for (size_t i = 0; i < D; i++)
            root[i] *= sqrt(fmax(1 - cut * v[i] * v[i], wv_policy.particle_split_left));
    wv_arena_release(arena, mark);
}

bool wv_particle_move(wv_partition *cells, const wv_batch *b, const double *w, const wv_cell_lists *lists,
                      size_t moved[2], wv_arena *arena)
{
    const wv_family *family = cells->shape.cell_family;
    size_t N = cells->shape.N, D = cells->shape.D, size = family->size(D, 0), mark = wv_arena_mark(arena);
    halves h = {wv_arena_take(arena, D), wv_arena_take(arena, D)};
    wv_geometry g = wv_partition_geometry(cells);
    double loss, gain, *spread = wv_arena_take(arena, size);
    size_t least = least_useful(N, b, w, lists, &loss), most = most_gaining(&g, b, w, lists, least, &gain, h, arena);
    bool worth = most < N && gain > wv_policy.particle_move_gain * loss;
    if (worth) {
        wv_partition_move(cells, least, h.a);
        wv_partition_move(cells, most, h.b);
        memcpy(spread, wv_partition_spread(cells, most).root, size * sizeof *spread);
        halve_spread(family, D, h, spread, arena);
        wv_partition_set_spread(cells, least, spread);
        wv_partition_set_spread(cells, most, spread);
        moved[0] = least;
        moved[1] = most;
    }
    wv_arena_release(arena, mark);
    return worth;
}
