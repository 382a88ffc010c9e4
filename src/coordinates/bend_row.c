/* bend_row.c - location and scale of a coordinate as functions of others: two experts (bend_row.h), and their fit to
 * scores by Levenberg and Marquardt's method. */
#include "coordinates/bend_row.h"
#include "policy.h"
#include "simd/experts.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum { MOST = WV_BEND_TERMS, DAMPED_MOST = 30 };

static const double log_2 = 0.693147180559945309417;

void wv_bend_row_clear(wv_bend_row *row)
{
    memset(row, 0, sizeof *row);
    row->precision[0][0] = row->precision[1][0] = -log_2;
}

/* An argument as a row sees it: beyond the clip rows are constant. */
static double clipped(double t)
{
    double most = wv_policy.bend_clip;
    return t > most ? most : t < -most ? -most : t;
}

/* Both experts at a point. */
typedef struct {
    double t[WV_BEND_PARENTS];
    double share[2], mu[2]; /* p_k / (p_1 + p_2), mu_k */
    double log_precision;   /* log(p_1 + p_2) */
} experts;

static experts look(const wv_bend_row *row, const double *t)
{
    experts e;
    double log_p[2];
    size_t n = row->parents;
    for (size_t i = 0; i < n; i++)
        e.t[i] = clipped(t[row->parent[i]]);
    for (size_t k = 0; k < 2; k++) {
        log_p[k] = row->precision[k][0];
        e.mu[k] = row->location[k][0];
        for (size_t i = 0; i < n; i++) {
            log_p[k] += row->precision[k][1 + i] * e.t[i];
            e.mu[k] += row->location[k][1 + i] * e.t[i] + row->location[k][1 + n + i] * (e.t[i] * e.t[i] - 1);
        }
    }
    double top = fmax(log_p[0], log_p[1]);
    e.log_precision = top + log(exp(log_p[0] - top) + exp(log_p[1] - top));
    e.share[0] = exp(log_p[0] - e.log_precision);
    e.share[1] = exp(log_p[1] - e.log_precision);
    return e;
}

static double log_scale(const experts *e)
{
    return fmin(fmax(-e->log_precision / 2, -wv_policy.bend_log_scale), wv_policy.bend_log_scale);
}

wv_bend_place wv_bend_row_at(const wv_bend_row *row, const double *t)
{
    experts e = look(row, t);
    size_t n = row->parents;
    wv_bend_place p = {.s = log_scale(&e), .m = e.share[0] * e.mu[0] + e.share[1] * e.mu[1]};
    bool free = fabs(e.log_precision) < 2 * wv_policy.bend_log_scale;
    for (size_t i = 0; i < n; i++) {
        bool inside = fabs(t[row->parent[i]]) < wv_policy.bend_clip;
        double b0 = row->precision[0][1 + i], b1 = row->precision[1][1 + i];
        p.ds[i] = inside && free ? -(e.share[0] * b0 + e.share[1] * b1) / 2 : 0;
        double moved = e.share[0] * e.share[1] * (e.mu[0] - e.mu[1]) * (b0 - b1);
        for (size_t k = 0; k < 2; k++)
            moved += e.share[k] * (row->location[k][1 + i] + 2 * e.t[i] * row->location[k][1 + n + i]);
        p.dm[i] = inside ? moved : 0;
    }
    return p;
}

void wv_bend_row_rescale(wv_bend_row *row, size_t which, double shift, double scale)
{
    size_t n = row->parents, i = 0;
    while (i < n && row->parent[i] != which)
        i++;
    if (i == n)
        return;
    for (size_t k = 0; k < 2; k++) {
        double *b = row->precision[k], *c = row->location[k], slope = c[1 + i], square = c[1 + n + i];
        b[0] += b[1 + i] * shift;
        b[1 + i] *= scale;
        c[1 + n + i] = square * scale * scale; /* t = shift + scale t': t^2 - 1 in terms of t' and t'^2 - 1 */
        c[1 + i] = (slope + 2 * square * shift) * scale;
        c[0] += slope * shift + square * (shift * shift - 1) + c[1 + n + i];
    }
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */
/* Parameters in one array: precisions of both experts, then their locations. */
static size_t count(const wv_bend_row *row)
{
    return 4 + 6 * row->parents;
}

static void pack(const wv_bend_row *row, double *theta)
{
    size_t slopes = 1 + row->parents, squares = 1 + 2 * row->parents;
    for (size_t k = 0; k < 2; k++) {
        memcpy(theta + k * slopes, row->precision[k], slopes * sizeof *theta);
        memcpy(theta + 2 * slopes + k * squares, row->location[k], squares * sizeof *theta);
    }
}

static void unpack(wv_bend_row *row, const double *theta)
{
    size_t slopes = 1 + row->parents, squares = 1 + 2 * row->parents;
    for (size_t k = 0; k < 2; k++) {
        memcpy(row->precision[k], theta + k * slopes, slopes * sizeof *theta);
        memcpy(row->location[k], theta + 2 * slopes + k * squares, squares * sizeof *theta);
    }
}

/* ridge[count], and where it pulls: y = v. */
static void make_ridge(const wv_bend_row *row, double slope, double *ridge, double *origin)
{
    wv_bend_row plain = *row;
    size_t n = row->parents, slopes = 1 + n, squares = 1 + 2 * n;
    wv_bend_row_clear(&plain);
    plain.parents = n;
    pack(&plain, origin);
    for (size_t i = 0; i < count(row); i++)
        ridge[i] = slope;
    for (size_t k = 0; k < 2; k++) {
        double *location = ridge + 2 * slopes + k * squares;
        ridge[k * slopes] = wv_policy.bend_ridge_free;
        location[0] = wv_policy.bend_ridge_free;
        for (size_t i = 0; i < n; i++)
            location[1 + i] = wv_policy.bend_ridge_slope;
    }
}

/* Both experts move together: derivatives, and parameters, of the second are those of the first. */
static void tie(const wv_bend_row *row, double *J)
{
    size_t slopes = 1 + row->parents, squares = 1 + 2 * row->parents;
    for (size_t i = 0; i < slopes; i++)
        J[i] = J[slopes + i] = (J[i] + J[slopes + i]) / 2;
    for (size_t i = 0; i < squares; i++)
        J[2 * slopes + i] = J[2 * slopes + squares + i] = (J[2 * slopes + i] + J[2 * slopes + squares + i]) / 2;
}

/* Room for n points of a column. */
static size_t whole(size_t n)
{
    return (n + WV_EXPERTS_WIDTH - 1) / WV_EXPERTS_WIDTH * WV_EXPERTS_WIDTH;
}

/* The points of a fit, in columns. */
static wv_experts_points gather(const wv_bend_row *row, const wv_bend_points *p, size_t *n, wv_arena *arena)
{
    size_t apart = whole(p->n), columns = row->parents + 3;
    double *t = wv_arena_take(arena, columns * apart), *y = t + row->parents * apart, *g = y + apart, *w = g + apart;
    for (size_t i = 0; i < p->n; i++) {
        for (size_t k = 0; k < row->parents; k++)
            t[k * apart + i] = clipped(p->t[i * p->r + row->parent[k]]);
        y[i] = p->y[i * p->apart];
        g[i] = p->g[i * p->apart];
        w[i] = p->w[i];
    }
    for (size_t i = p->n; i < apart; i++)
        for (size_t k = 0; k < columns; k++)
            t[k * apart + i] = 0;
    *n = apart;
    return (wv_experts_points){apart, t, y, g, w};
}

static wv_experts experts_of(const wv_bend_row *row)
{
    return (wv_experts){row->parents,
                        {row->precision[0], row->precision[1]},
                        {row->location[0], row->location[1]},
                        wv_policy.bend_log_scale,
                        wv_policy.bend_huber};
}

wv_bend_places wv_bend_row_places(const wv_bend_row *row, size_t n, const double *t, size_t apart, bool slopes,
                                  wv_arena *arena)
{
    size_t room = whole(n), parents = row->parents;
    double *from = wv_arena_take(arena, (3 + parents * (slopes ? 3 : 1)) * room), *column = from + 3 * room,
           *by = slopes ? column + parents * room : NULL;
    for (size_t k = 0; k < parents; k++)
        for (size_t i = 0; i < room; i++)
            column[k * room + i] = i < n ? clipped(t[i * apart + row->parent[k]]) : 0;
    wv_experts e = experts_of(row);
    wv_experts_best()->places(&e, &(wv_experts_points){.apart = room, .t = column}, room, from, from + room,
                              from + 2 * room, by);
    for (size_t i = 0; i < parents * room && slopes; i++) /* beyond the clip a row is constant */
        if (!(fabs(column[i]) < wv_policy.bend_clip))
            by[i] = by[parents * room + i] = 0;
    return (wv_bend_places){room, from, from + room, from + 2 * room, by, slopes ? by + parents * room : NULL};
}

typedef struct {
    const wv_experts_passes *pass;
    wv_experts_points p;
    size_t n;
    bool tied;
    double ridge[MOST], origin[MOST];
} problem;

static double cost_of(const problem *q, const wv_bend_row *row)
{
    wv_experts e = experts_of(row);
    double sum = q->pass->cost(&e, &q->p, q->n), theta[MOST];
    pack(row, theta);
    for (size_t k = 0; k < count(row); k++)
        sum += q->ridge[k] * (theta[k] - q->origin[k]) * (theta[k] - q->origin[k]);
    return isfinite(sum) ? sum : INFINITY;
}

size_t wv_bend_row_slopes(const wv_bend_row *row, const wv_bend_points *p, double ridge, size_t apart, double *J,
                          double *r, double *M, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), P = count(row), n;
    wv_experts_points columns = gather(row, p, &n, arena);
    wv_experts e = experts_of(row);
    double slope[MOST], origin[MOST];
    wv_experts_best()->slopes(&e, &columns, n, apart, r, J);
    make_ridge(row, ridge, slope, origin);
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)P, (int)n, 1.0, J, (int)apart, 0.0, M, (int)P);
    for (size_t k = 0; k < P; k++)
        M[k * P + k] += slope[k];
    wv_arena_release(arena, mark);
    return P;
}

/* Columns of a symmetric matrix are added up, and its rows, as those of J are by tie(). */
static void tie_both(const wv_bend_row *row, size_t P, double *H, double *h)
{
    double column[MOST];
    for (size_t k = 0; k < P; k++) {
        for (size_t i = 0; i < k; i++)
            H[i * P + k] = H[k * P + i];
    }
    for (size_t k = 0; k < P; k++)
        tie(row, H + k * P);
    for (size_t k = 0; k < P; k++) {
        for (size_t i = 0; i < P; i++)
            column[i] = H[i * P + k];
        tie(row, column);
        for (size_t i = 0; i < P; i++)
            H[i * P + k] = column[i];
    }
    tie(row, h);
}

/* H[P][P] and gradient h[P] of half the cost, J' W J and J' W r with the ridge; J[P][block]. */
static void gauss_newton(const problem *q, const wv_bend_row *row, double *H, double *h, wv_arena *arena)
{
    enum { BLOCK = 256 };
    size_t P = count(row), mark = wv_arena_mark(arena);
    double *J = wv_arena_take(arena, P * BLOCK), *r = wv_arena_take(arena, BLOCK), theta[MOST];
    wv_experts e = experts_of(row);
    memset(H, 0, P * P * sizeof *H);
    memset(h, 0, P * sizeof *h);
    for (size_t first = 0; first < q->n; first += BLOCK) {
        size_t here = q->n - first < BLOCK ? q->n - first : BLOCK;
        const wv_experts_points p = {q->p.apart, q->p.t + first, q->p.y + first, q->p.g + first, q->p.w + first};
        q->pass->slopes(&e, &p, here, BLOCK, r, J);
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)P, (int)here, 1.0, J, BLOCK, 1.0, H, (int)P);
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)P, (int)here, 1.0, J, BLOCK, r, 1, 1.0, h, 1);
    }
    if (q->tied)
        tie_both(row, P, H, h);
    pack(row, theta);
    for (size_t k = 0; k < P; k++) {
        H[k * P + k] += q->ridge[k];
        h[k] += q->ridge[k] * (theta[k] - q->origin[k]);
    }
    wv_arena_release(arena, mark);
}

/* The row after a step damped by `damping`; false: there is none. A: [P][P] scratch. */
static bool try_step(const problem *q, const wv_bend_row *row, const double *H, const double *h, double damping,
                     wv_bend_row *to, double *A)
{
    const double ridge = 1e-9;
    size_t P = count(row);
    double d[MOST], theta[MOST], longest = 0;
    memcpy(A, H, P * P * sizeof *A);
    memcpy(d, h, P * sizeof *d);
    for (size_t k = 0; k < P; k++)
        A[k * P + k] += damping * (H[k * P + k] + ridge) + ridge;
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)P, A, (lapack_int)P) != 0 ||
        LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (lapack_int)P, 1, A, (lapack_int)P, d, (lapack_int)P) != 0)
        return false;
    if (q->tied)
        tie(row, d);
    for (size_t k = 0; k < P; k++)
        longest = fmax(longest, fabs(d[k]));
    if (!isfinite(longest))
        return false;
    pack(row, theta);
    cblas_daxpy((int)P, -fmin(1, wv_policy.bend_step / fmax(longest, ridge)), d, 1, theta, 1);
    *to = *row;
    unpack(to, theta);
    return true;
}

/* Levenberg and Marquardt's iterations; returns the cost. */
static double descend(const problem *q, wv_bend_row *row, wv_arena *arena)
{
    const double first_damping = 1e-2, easier = 0.25, harder = 6, hopeless = 1e6, little = 1e-5;
    size_t mark = wv_arena_mark(arena), P = count(row);
    double *H = wv_arena_take(arena, P * P), *A = wv_arena_take(arena, P * P), h[MOST], damping = first_damping,
           cost = cost_of(q, row);
    for (size_t tries = 0, fresh = 1; tries < DAMPED_MOST && damping < hopeless; tries++) {
        wv_bend_row next;
        if (fresh)
            gauss_newton(q, row, H, h, arena);
        double after = try_step(q, row, H, h, damping, &next, A) ? cost_of(q, &next) : INFINITY;
        fresh = after < cost;
        damping *= fresh ? easier : harder;
        if (!fresh)
            continue;
        double gained = cost - after;
        *row = next;
        cost = after;
        if (gained < little * cost)
            break;
    }
    wv_arena_release(arena, mark);
    return cost;
}

/* The experts are pulled apart along the slope that both have. */
static void part(wv_bend_row *row)
{
    const double least = 0.5;
    size_t n = row->parents;
    double norm = cblas_dnrm2((int)n, row->precision[0] + 1, 1);
    for (size_t i = 0; i < n && norm > 0; i++) {
        double d = row->precision[0][1 + i] / norm * fmax(least, least * norm);
        row->precision[0][1 + i] += d;
        row->precision[1][1 + i] -= d;
    }
}

double wv_bend_row_fit(wv_bend_row *row, const wv_bend_points *p, double ridge, bool anew, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    problem q = {.pass = wv_experts_best(), .tied = true};
    q.p = gather(row, p, &q.n, arena);
    make_ridge(row, ridge, q.ridge, q.origin);
    if (anew) {
        wv_bend_row start;
        wv_bend_row_clear(&start);
        start.parents = row->parents;
        memcpy(start.parent, row->parent, sizeof start.parent);
        *row = start;
        descend(&q, row, arena);
        part(row);
    }
    q.tied = false;
    double cost = descend(&q, row, arena);
    wv_arena_release(arena, mark);
    return cost;
}
