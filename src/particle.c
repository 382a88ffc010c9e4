/* particle.c - z_j goes down the transport cost D = E min_j c(z_j, z) (method, section 2).
 * With grad_1 c = a(z,x)(z-x) the damped Weiszfeld step z += lambda (sum w a x / sum w a - z) needs no step size;
 * for squared costs a is constant and the step is Lloyd's. A callback cost has only its gradient: clipped Newton
 * steps. Dividing by beta_j (a mean over the cell, not a sum) is the preconditioner that lets light cells move. */
#include "particle.h"
#include "arena.h"
#include "fit.h"
#include "cost.h"
#include "gaussian.h"
#include "nearest.h"
#include "dense.h"
#include "weights.h"
#include "policy.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* Weights of the posterior in a cell, p~/m; where they are too uneven to trust, tempered towards q_j/m: the largest
 * tau of the list that leaves a decent effective size. Returns it; 0: no weight at all. */
static double temper(wvgd_fit *f, wv_cell_points p, double *weight)
{
    static const double tau[] = {1, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0};
    double enough = fmin(wv_policy.particle_ess_share * (double)p.n,
                         wv_policy.particle_ess_each * (double)f->D + wv_policy.particle_ess),
           ess = 0;
    size_t mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, p.n);
    for (size_t t = 0; t < sizeof tau / sizeof *tau && (!t || ess < enough); t++) {
        for (size_t k = 0; k < p.n; k++)
            log_w[k] = p.log_v[k] == -INFINITY ? -INFINITY : tau[t] * p.log_v[k] + (1 - tau[t]) * p.log_u[k];
        if (!wv_weights_normalise(p.n, log_w, weight)) {
            ess = 0;
            break;
        }
        ess = wv_weights_ess(p.n, weight);
    }
    wv_arena_release(f->arena, mark);
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
static void newton_step(const wvgd_fit *f, const double *g, const double *sd, double *H, double *step)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *e = wv_arena_take(f->arena, D), *pull = wv_arena_take(f->arena, D),
           *work = wv_arena_take(f->arena, wv_dense_eigh_work(D));
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
    wv_arena_release(f->arena, mark);
}

/* Points of a cell that stand for it, and the gradient of their mean cost. */
typedef struct {
    size_t n;
    const double *x, *w; /* [n][D], [n] */
    const double *grad;  /* [D] */
} slope_points;

/* The Newton step in sds into step[D], g[D] being the gradient, with a Hessian by differences of gradients at points
 * that stand for all. In very many dimensions by its diagonal only. */
static void difference_step(const wvgd_fit *f, slope_points p, const double *z, const double *sd, const double *g,
                            double *step)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *at = wv_arena_take(f->arena, D), *rows = wv_arena_take(f->arena, f->dense ? D * D : D);
    memcpy(at, z, D * sizeof *at);
    for (size_t i = 0; i < D; i++) {
        double *row = f->dense ? rows + i * D : rows;
        at[i] = z[i] + wv_policy.particle_difference * sd[i];
        wv_cost_callback(f, at, p.n, p.x, NULL, p.w, row);
        at[i] = z[i];
        cblas_daxpy((int)D, -1.0, p.grad, 1, row, 1);
        step[i] = clipped(sd[i] * g[i], sd[i] * row[i] / wv_policy.particle_difference);
    }
    if (f->dense)
        newton_step(f, g, sd, rows, step);
    wv_arena_release(f->arena, mark);
}

/* Newton, clipped to a few sds of the cell. */
static void newton(const wvgd_fit *f, size_t n, const double *x, const double *w, const double *z, const double *sd,
                   double *target)
{
    size_t D = f->D, some_points = (size_t)wv_policy.particle_newton_points, mark = wv_arena_mark(f->arena);
    double *g = wv_arena_take(f->arena, D), most = wv_policy.particle_newton_most;
    wv_cost_callback(f, z, n, x, NULL, w, g);
    slope_points p = {n, x, w, g};
    if (n > some_points) {
        double *some = wv_arena_take(f->arena, some_points * D), *equal = wv_arena_take(f->arena, some_points),
               *grad = wv_arena_take(f->arena, D);
        sample(D, n, x, w, some_points, some);
        for (size_t k = 0; k < some_points; k++)
            equal[k] = 1.0 / (double)some_points;
        wv_cost_callback(f, z, some_points, some, NULL, equal, grad);
        p = (slope_points){some_points, some, equal, grad};
    }
    difference_step(f, p, z, sd, g, target);
    for (size_t i = 0; i < D; i++)
        target[i] = z[i] + (isfinite(target[i]) ? sd[i] * fmin(fmax(target[i], -most), most) : 0);
    wv_arena_release(f->arena, mark);
}

static double mean_cost(const wvgd_fit *f, size_t n, const double *x, const double *w, const double *z)
{
    double sum = 0, cost[WV_BLOCK];
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        wv_cost_callback(f, z, here, x + first * f->D, cost, NULL, NULL);
        for (size_t k = 0; k < here; k++)
            if (w[first + k] > 0)
                sum += w[first + k] * cost[k];
    }
    return sum;
}

/* Costs need not be convex: goes only as far towards the target as the mean cost falls. */
static void hold_back(const wvgd_fit *f, size_t n, const double *x, const double *w, const double *z, double *target)
{
    double before = mean_cost(f, n, x, w, z);
    for (int halvings = 0; halvings < (int)wv_policy.particle_halvings; halvings++) {
        if (mean_cost(f, n, x, w, target) < before)
            return;
        for (size_t i = 0; i < f->D; i++)
            target[i] = 0.5 * (z[i] + target[i]);
    }
    memcpy(target, z, f->D * sizeof *target);
}

/* The spread follows the covariance of the posterior in the cell; less when few points carry it. */
static void step_spread(wvgd_fit *f, double *root, wv_cell_points p, const double *weight, double ess, double lambda,
                        const double *mean)
{
    double needed = f->cell_family == wv_family_get(WVGD_FULL) ? (double)f->D : 1;
    double keep = lambda * (ess > wv_policy.particle_spread_ess * needed ? 1 : ess / (ess + needed));
    size_t mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, p.n * f->D),
           *C = f->cell_family == wv_family_get(WVGD_FULL) ? wv_arena_take(f->arena, f->D * f->D) : NULL;
    wv_gaussian_follow(f->cell_family, f->D, root, mean, p.n, p.x, weight, keep, y, C, f->arena);
    wv_arena_release(f->arena, mark);
}

/* Where the cost pulls z_j: the weighted mean for squared costs. */
static void attract(const wvgd_fit *f, size_t n, const double *x, const double *w, const double *z, const double *mean,
                    const double *sd, double *target)
{
    switch (f->opt.cost) {
    case WVGD_L1: weiszfeld(f->D, 1, n, x, w, z, sd, target); break;
    case WVGD_LP: weiszfeld(f->D, f->opt.power, n, x, w, z, sd, target); break;
    case WVGD_CALLBACK:
        newton(f, n, x, w, z, sd, target);
        hold_back(f, n, x, w, z, target);
        break;
    default: memcpy(target, mean, f->D * sizeof *target);
    }
}

/* Draws that cost no evaluation: how many batches of WV_FREE of component j are worth the time it
 * takes to find their cells. */
static size_t free_batches(const wvgd_fit *f)
{
    /* where the density is zero the component ends too, which free draws cannot tell */
    if (f->stage != WV_SETTLE || f->count.zero_points || f->count.bad_points)
        return 0;
    double work = (double)(f->N * f->N) * (double)f->D * (f->opt.cost == WVGD_SQEUCLID ? 1 : (double)f->D) * WV_FREE;
    return f->opt.cost == WVGD_CALLBACK
               ? 0
               : (size_t)fmin(wv_policy.particle_free_batches, wv_policy.particle_free_work / work);
}

bool wv_particle_ordered(const wvgd_fit *f)
{
    return free_batches(f) > 0;
}

/* Adds a batch of draws of q_j and around the particle, half each, weighted to stand for q_j, to
 * sum[D]; returns their weight in the cell. */
static double add_free(wvgd_fit *f, size_t j, uint64_t batch, double *sum)
{
    enum { HALF = WV_FREE / 2 };
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, WV_FREE * D), *y = wv_arena_take(f->arena, WV_FREE * D),
           *weight = wv_arena_take(f->arena, WV_FREE), *log_r = wv_arena_take(f->arena, WV_FREE),
           *near = wv_arena_take(f->arena, WV_FREE), *next = wv_arena_take(f->arena, WV_FREE), total = 0;
    uint32_t *cell = wv_arena_take_index(f->arena, WV_FREE);
    wv_gaussian q = wv_partition_component(&f->cells, j), r = wv_partition_around(&f->cells, j);
    wv_stream stream = {f->opt.seed, WV_RNG_FREE, f->count.batch, j};
    wv_gaussian_draw(&q, &stream, batch * WV_FREE, HALF, true, x, f->arena);
    wv_gaussian_draw(&r, &stream, batch * WV_FREE + HALF, HALF, true, x + HALF * D, f->arena);
    wv_gaussian_log_density(&q, WV_FREE, x, weight, y, f->arena);
    wv_gaussian_log_density(&r, WV_FREE, x, log_r, y, f->arena);
    for (size_t k = 0; k < WV_FREE; k++)
        weight[k] = 1 / (1 + exp(log_r[k] - weight[k])); /* from log q_j, up to a factor */
    wv_nearest_assign(f, WV_FREE, x, cell, near, next);
    for (size_t k = 0; k < WV_FREE; k++)
        if (cell[k] == j) {
            total += weight[k];
            cblas_daxpy((int)D, weight[k], x + k * D, 1, sum, 1);
        }
    wv_arena_release(f->arena, mark);
    return total;
}

/* Mean of q_j over its cell; false: no draw lies in the cell. */
static bool component_mean(wvgd_fit *f, size_t j, size_t batches, double *mean)
{
    double total = 0;
    memset(mean, 0, f->D * sizeof *mean);
    for (uint64_t b = 0; b < batches; b++)
        total += add_free(f, j, b, mean);
    if (!(total > 0))
        return false;
    cblas_dscal((int)f->D, 1 / total, mean, 1);
    return true;
}

/* Control variate for the mean of the posterior in cell j: where q_j is close to p_j, the error of the same
 * points' estimate of the mean of q_j, which free draws tell much better, is nearly the same error.
 * Coefficients by coordinate, between 0 and 1. */
static void sharpen(wvgd_fit *f, size_t j, wv_cell_points p, const double *weight, double *mean)
{
    size_t D = f->D, batches = free_batches(f), mark = wv_arena_mark(f->arena);
    double *own = wv_arena_take(f->arena, D), *exact = wv_arena_take(f->arena, D), *u = wv_arena_take(f->arena, p.n),
           *by = wv_arena_take(f->arena, D);
    bool known = batches && wv_weights_normalise(p.n, p.log_u, u) && component_mean(f, j, batches, exact);
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
    wv_arena_release(f->arena, mark);
}

double wv_particle_step(wvgd_fit *f, size_t j, wv_cell_points p, double lambda, double *weight, double *mean)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double ess = temper(f, p, weight), *z = f->cells.now.z + j * D, *target = wv_arena_take(f->arena, D),
           *sd = wv_arena_take(f->arena, D), *away = wv_arena_take(f->arena, D), moved = -1;
    if (ess > 0) {
        wv_gaussian spread = wv_partition_spread(&f->cells, j);
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)p.n, (int)D, 1.0, p.x, (int)D, weight, 1, 0.0, mean, 1);
        sharpen(f, j, p, weight, mean);
        f->cell_family->sd(D, 0, spread.root, sd);
        attract(f, p.n, p.x, weight, z, mean, sd, target);
        if (f->opt.cost == WVGD_LP && f->opt.power > 2)
            lambda /= f->opt.power - 1;
        for (size_t i = 0; i < D; i++)
            away[i] = target[i] - z[i];
        f->cell_family->whiten(D, 0, spread.root, 1, away, NULL);
        moved = cblas_ddot((int)D, away, 1, away, 1);
        moved = isfinite(moved) ? moved : -1;
    }
    if (moved >= 0) {
        step_spread(f, f->cells.now.spread + j * f->cell_family->size(D, 0), p, weight, ess, lambda, mean);
        for (size_t i = 0; i < D; i++)
            z[i] += lambda * (target[i] - z[i]);
    }
    wv_arena_release(f->arena, mark);
    return moved;
}

void wv_particle_refit(wvgd_fit *f, size_t j, wv_cell_points p)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *weight = wv_arena_take(f->arena, p.n), *mean = wv_arena_take(f->arena, D), ess = temper(f, p, weight);
    if (ess > 0) {
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)p.n, (int)D, 1.0, p.x, (int)D, weight, 1, 0.0, mean, 1);
        step_spread(f, f->cells.now.spread + j * f->cell_family->size(D, 0), p, weight, ess, 1, mean);
        if (f->N == 1) /* its Gaussian is a proposal only; the particle itself is placed at the very end */
            memcpy(f->cells.now.z, mean, D * sizeof *mean);
    }
    wv_arena_release(f->arena, mark);
}

void wv_particle_place_one(wvgd_fit *f, size_t n, const double *x, const double *w, const double *mean)
{
    size_t mark = wv_arena_mark(f->arena);
    double *z = f->cells.now.z, *target = wv_arena_take(f->arena, f->D), *sd = wv_arena_take(f->arena, f->D),
           damp = f->opt.cost == WVGD_LP && f->opt.power > 2 ? 1 / (f->opt.power - 1) : 1;
    f->cell_family->sd(f->D, 0, f->cells.now.spread, sd);
    for (int round = 0; round < (int)wv_policy.particle_place_rounds; round++) {
        attract(f, n, x, w, z, mean, sd, target);
        for (size_t i = 0; i < f->D; i++)
            z[i] += damp * (target[i] - z[i]);
    }
    wv_arena_release(f->arena, mark);
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

/* Two positions in the place of one particle. */
typedef struct {
    double *a, *b; /* [D] */
} halves;

/* v[D]: the cell's principal axis, one sd long: the image of the unit vector that a few power iterations of A A' leave.
 */
static void principal_axis(const wvgd_fit *f, const double *root, double *v)
{
    size_t D = f->D;
    for (size_t i = 0; i < D; i++)
        v[i] = 1.0 / (1.0 + (double)i);
    for (int round = 0; round < (int)wv_policy.particle_axis_rounds; round++) {
        f->cell_family->pull(D, 0, root, 1, v, NULL);
        double norm = cblas_dnrm2((int)D, v, 1);
        cblas_dscal((int)D, 1 / norm, v, 1);
        f->cell_family->colour(D, 0, root, 1, v, NULL);
    }
}

/* Each half to the mean of the points that are nearer to it, cost[2][n] says to which; unless one has none. */
static void lloyd_round(const wvgd_fit *f, const weighted *p, const double *cost_a, const double *cost_b, halves h)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sum_a = wv_arena_zeros(f->arena, D), *sum_b = wv_arena_zeros(f->arena, D), mass_a = 0, mass_b = 0;
    for (size_t k = 0; k < p->n; k++) {
        bool left = cost_a[k] < cost_b[k];
        cblas_daxpy((int)D, p->weight[k], p->x + k * D, 1, left ? sum_a : sum_b, 1);
        *(left ? &mass_a : &mass_b) += p->weight[k];
    }
    for (size_t i = 0; i < D && mass_a > 0 && mass_b > 0; i++) {
        h.a[i] = sum_a[i] / mass_a;
        h.b[i] = sum_b[i] / mass_b;
    }
    wv_arena_release(f->arena, mark);
}

/* Splits cell j: two positions along the principal axis, refined by a few rounds of Lloyd. Returns what the cell's cost
 * falls by, less what two means fitted to the noise of so many points would gain, which in many dimensions is most of
 * it. */
static double split_gain(const wvgd_fit *f, size_t j, const weighted *p, halves h)
{
    size_t D = f->D, n = p->n, mark = wv_arena_mark(f->arena);
    double *cost_a = wv_arena_take(f->arena, n), *cost_b = wv_arena_take(f->arena, n),
           *y = wv_arena_take(f->arena, n * D), *v = wv_arena_take(f->arena, D), before = 0, after = 0;
    principal_axis(f, wv_partition_spread(&f->cells, j).root, v);
    for (size_t i = 0; i < D; i++) {
        h.a[i] = p->mean[i] - half_normal * v[i];
        h.b[i] = p->mean[i] + half_normal * v[i];
    }
    for (int round = 0, rounds = (int)wv_policy.particle_split_rounds; round <= rounds; round++) {
        wv_cost_cost(f, j, h.a, n, p->x, cost_a, y);
        wv_cost_cost(f, j, h.b, n, p->x, cost_b, y);
        if (round < rounds)
            lloyd_round(f, p, cost_a, cost_b, h);
    }
    for (size_t k = 0; k < n; k++)
        after += p->weight[k] * fmin(cost_a[k], cost_b[k]);
    wv_cost_cost(f, j, f->cells.now.z + j * D, n, p->x, cost_a, y);
    for (size_t k = 0; k < n; k++)
        before += p->weight[k] * cost_a[k];
    wv_arena_release(f->arena, mark);
    return before - after - 2 * before / wv_weights_ess(n, p->weight);
}

/* Gathers the n points order[n] of a cell with weights w into p; returns their mass. */
static double gather(const wvgd_fit *f, const wv_batch *b, const double *w, const uint32_t *order, size_t n,
                     weighted *p)
{
    size_t D = f->D;
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
static size_t least_useful(const wvgd_fit *f, const wv_batch *b, const double *w, const wv_cell_lists *lists,
                           double *cost)
{
    size_t least = 0;
    *cost = INFINITY;
    for (size_t j = 0; j < f->N; j++) {
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
static size_t most_gaining(const wvgd_fit *f, const wv_batch *b, const double *w, const wv_cell_lists *lists,
                           size_t least, double *gain, halves best)
{
    size_t D = f->D, most = f->N, mark = wv_arena_mark(f->arena);
    halves h = {wv_arena_take(f->arena, D), wv_arena_take(f->arena, D)};
    weighted p = {.x = wv_arena_take(f->arena, b->n * D),
                  .weight = wv_arena_take(f->arena, b->n),
                  .mean = wv_arena_take(f->arena, D)};
    *gain = 0;
    for (size_t j = 0; j < f->N; j++) {
        size_t first = lists->start[j], n = lists->start[j + 1] - first;
        double mass = j == least || (double)n < wv_policy.particle_split_points
                          ? 0
                          : gather(f, b, w, lists->order + first, n, &p);
        if (!(mass > 0))
            continue;
        double here = mass * split_gain(f, j, &p, h);
        if (here > *gain) {
            *gain = here;
            most = j;
            memcpy(best.a, h.a, D * sizeof *h.a);
            memcpy(best.b, h.b, D * sizeof *h.b);
        }
    }
    wv_arena_release(f->arena, mark);
    return most;
}

/* Narrows the spread of a cell along the line between its halves to what a half has. */
static void halve_spread(const wvgd_fit *f, halves h, double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *v = wv_arena_take(f->arena, D);
    for (size_t i = 0; i < D; i++)
        v[i] = (h.b[i] - h.a[i]) / 2;
    f->cell_family->whiten(D, 0, root, 1, v, NULL);
    double along = cblas_ddot((int)D, v, 1, v, 1), cut = along > 0 ? fmin(1, 0.8 / along) : 0;
    if (f->cell_family == wv_family_get(WVGD_FULL)) {
        double *C = wv_arena_take(f->arena, D * D);
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k < D; k++)
                C[i * D + k] = (i == k) - cut * v[i] * v[k];
        f->cell_family->absorb(D, 0, root, C, f->arena);
    } else
        for (size_t i = 0; i < D; i++)
            root[i] *= sqrt(fmax(1 - cut * v[i] * v[i], 0.2));
    wv_arena_release(f->arena, mark);
}

bool wv_particle_move(wvgd_fit *f, const wv_batch *b, const double *w, const wv_cell_lists *lists, size_t moved[2])
{
    size_t D = f->D, size = f->cell_family->size(D, 0), mark = wv_arena_mark(f->arena);
    halves h = {wv_arena_take(f->arena, D), wv_arena_take(f->arena, D)};
    double loss, gain;
    size_t least = least_useful(f, b, w, lists, &loss), most = most_gaining(f, b, w, lists, least, &gain, h);
    bool worth = most < f->N && gain > wv_policy.particle_move_gain * loss;
    if (worth) {
        double *spread = f->cells.now.spread;
        memcpy(f->cells.now.z + least * D, h.a, D * sizeof *h.a);
        memcpy(f->cells.now.z + most * D, h.b, D * sizeof *h.b);
        halve_spread(f, h, spread + most * size);
        memcpy(spread + least * size, spread + most * size, size * sizeof *spread);
        moved[0] = least;
        moved[1] = most;
    }
    wv_arena_release(f->arena, mark);
    return worth;
}
