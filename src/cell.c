/* cell.c - cells L_j = { z : c(z_j, z) < c(z_k, z) for all k } under a cost.
 *     sqeuclid      |a-b|^2
 *     mahalanobis   (a-b)' C^-1 (a-b), C given (the inverse metric) or the posterior's covariance, which is followed
 *     own           (a-b)' V_j^-1 (a-b)/2 + log|V_j|/2, V_j the posterior's covariance in cell j
 *     l1, lp        sum |a_i-b_i|^p
 *     callback      the user's                                                     (method, sections 1 and 2) */
#include "cell.h"
#include "columns.h"
#include "dense.h"
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

static void squared(size_t D, const double *z, size_t n, const double *x, double *out)
{
    for (size_t k = 0; k < n; k++) {
        double sum = 0;
        for (size_t i = 0; i < D; i++) {
            double d = x[k * D + i] - z[i];
            sum += d * d;
        }
        out[k] = sum;
    }
}

static void powered(size_t D, double p, const double *z, size_t n, const double *x, double *out)
{
    for (size_t k = 0; k < n; k++) {
        double sum = 0;
        for (size_t i = 0; i < D; i++) {
            double d = fabs(x[k * D + i] - z[i]);
            sum += p == 1 ? d : pow(d, p);
        }
        out[k] = sum;
    }
}

/* |A^-1 (x - z)|^2 */
static void whitened(const wv_family *family, const double *root, size_t D, const double *z, size_t n, const double *x, double *out, double *y)
{
    wv_gauss g = {family, D, 0, z, root, 0};
    wv_component_whiten(&g, n, x, y, NULL);
    for (size_t k = 0; k < n; k++)
        out[k] = cblas_ddot((int)D, y + k * D, 1, y + k * D, 1);
}

void wv_cell_cost(const wvgd_fit *f, size_t j, const double *z, size_t n, const double *x, double *out, double *y)
{
    size_t D = f->D;
    switch (f->opt.cost) {
    case WVGD_SQEUCLID: squared(D, z, n, x, out); break;
    case WVGD_MAHALANOBIS: whitened(f->metric_family, f->now.metric, D, z, n, x, out, y); break;
    case WVGD_OWN: {
        wv_gauss own = wv_fit_spread(f, j);
        double half_log_det = own.family->log_det(D, own.R, own.root);
        whitened(own.family, own.root, D, z, n, x, out, y);
        for (size_t k = 0; k < n; k++)
            out[k] = out[k] / 2 + half_log_det;
        break;
    }
    case WVGD_L1: powered(D, 1, z, n, x, out); break;
    case WVGD_LP: powered(D, f->opt.power, z, n, x, out); break;
    case WVGD_CALLBACK:
        for (size_t k = 0; k < n; k++)
            out[k] = f->opt.cost_function(f->opt.cost_self, D, z, x + k * D, NULL);
        break;
    }
}

/* Takes particle j, at `cost` from point k, into account. */
static inline void compare(size_t k, uint32_t j, double cost, uint32_t *cell, double *near, double *next)
{
    if (cost < near[k]) {
        next[k] = near[k];
        near[k] = cost;
        cell[k] = j;
    } else if (cost < next[k])
        next[k] = cost;
}

enum { MANY = 16, DOUBTS = 4 }; /* particles from which on it pays to sift them; points of a block that may be compared with all of them one by one */

size_t wv_cell_narrow_size(size_t N, size_t D)
{
    return wv_times(N + WV_COLUMNS, D + 1) / 2 + D + 1;
}

/* Particles in single precision, relative to a point in their middle, and what is needed to tell how wrong distances from them may be. */
typedef struct {
    float *z, *x, *square; /* [N][D], [D][WV_COLUMNS] of a block of points, [N] |z|^2 */
    const double *wide;    /* [N][D] the particles themselves */
    double *middle;        /* [D] */
    double radius;         /* the largest distance of a particle from the middle */
} sieve;

/* middle: NULL for their mean. */
static sieve make_sieve(const wvgd_fit *f, const double *z, const double *middle)
{
    size_t N = f->N, D = f->D;
    sieve s = {.middle = f->narrow, .z = (float *)(void *)(f->narrow + D), .wide = z};
    s.x = s.z + N * D;
    s.square = s.x + WV_COLUMNS * D;
    memset(s.middle, 0, D * sizeof *s.middle);
    for (size_t j = 0; j < N && !middle; j++)
        cblas_daxpy((int)D, 1 / (double)N, z + j * D, 1, s.middle, 1);
    if (middle)
        memcpy(s.middle, middle, D * sizeof *middle);
    for (size_t j = 0; j < N; j++) {
        double square = wv_columns_best()->row_distance(D, z + j * D, s.middle);
        s.square[j] = (float)square;
        s.radius = fmax(s.radius, sqrt(square));
        for (size_t i = 0; i < D; i++)
            s.z[j * D + i] = (float)(z[j * D + i] - s.middle[i]);
    }
    return s;
}

/* The nearer of two candidates of a point, and what it costs, in double. */
static void choose(const wvgd_fit *f, const sieve *s, const double *x, int32_t first, int32_t second, uint32_t *cell, double *near, double *next)
{
    double a = wv_columns_best()->row_distance(f->D, x, s->wide + (size_t)first * f->D), b = wv_columns_best()->row_distance(f->D, x, s->wide + (size_t)second * f->D);
    bool swap = b < a || (b == a && second < first);
    *near = swap ? b : a;
    *next = swap ? a : b;
    *cell = (uint32_t)(swap ? second : first);
}

/* Compares a point with all particles. */
static void scan(const wvgd_fit *f, const double *z, const double *x, uint32_t *cell, double *near, double *next)
{
    *near = *next = INFINITY;
    *cell = 0;
    for (size_t j = 0; j < f->N; j++)
        compare(0, (uint32_t)j, wv_columns_best()->row_distance(f->D, x, z + j * f->D), cell, near, next);
}

/* Nearest and second nearest particle of a block of points, given as rows and in columns. Single precision tells the two; it is as good as double if the third is further away than
 * the second by more than what rounding can change: coordinates by the share `unit` of themselves, and sums of squares by (D + 4) units. Else all are compared. False: that would be for too many points. */
static bool sift(const wvgd_fit *f, const sieve *s, size_t n, const double *rows, const double *columns, uint32_t *cell, double *near, double *next)
{
    const double unit = FLT_EPSILON;
    int32_t first[WV_COLUMNS], second[WV_COLUMNS];
    float third[WV_COLUMNS];
    size_t D = f->D, doubts = 0;
    if (!(s->radius < 1e18))
        return false;
    wv_columns_best()->shorten(D, columns, s->middle, s->x);
    wv_columns_best()->nearby(D, n, f->N, s->x, s->z, first, second, third);
    for (size_t k = 0; k < n; k++) {
        choose(f, s, rows + k * D, first[k], second[k], &cell[k], &near[k], &next[k]);
        double rest = sqrt((double)third[k] / (1 + (double)(D + 4) * unit)) - unit * (2 * s->radius + sqrt(near[k]));
        if (rest > 0 && rest * rest > next[k] && third[k] > 1e-30F && near[k] < 1e36)
            continue;
        if (++doubts > DOUBTS)
            return false;
        scan(f, s->wide, rows + k * D, &cell[k], &near[k], &next[k]);
    }
    return true;
}

/* The same for rows in pairs, middle + e and middle - e, up to rounding in double: products with e serve both. Of squared distances less |e|^2, 2 e.z may be wrong by (D + 4) units of |e||z| and the sum by one of itself. */
static bool sift_mirrored(const wvgd_fit *f, const sieve *s, size_t pairs, const double *rows, uint32_t *cell, double *near, double *next)
{
    const double unit = FLT_EPSILON, R = s->radius, origin = cblas_dnrm2((int)f->D, s->middle, 1);
    int32_t first[2 * WV_COLUMNS], second[2 * WV_COLUMNS];
    float third[2 * WV_COLUMNS];
    size_t D = f->D, doubts = 0;
    if (!(R < 1e18))
        return false;
    for (size_t k = 0; k < pairs; k++)
        for (size_t i = 0; i < D; i++)
            s->x[i * WV_COLUMNS + k] = (float)((rows[2 * k * D + i] - rows[(2 * k + 1) * D + i]) / 2);
    wv_columns_best()->nearby_mirrored(D, pairs, f->N, s->x, s->z, s->square, first, second, third);
    for (size_t k = 0; k < 2 * pairs; k++) {
        size_t from = k / 2 + (k % 2 ? WV_COLUMNS : 0);
        choose(f, s, rows + k * D, first[from], second[from], &cell[k], &near[k], &next[k]);
        double square = wv_columns_best()->row_distance(D, rows + k * D, s->middle), e = sqrt(square), off = 4 * DBL_EPSILON * (origin + e);
        double wrong = unit * ((double)(D + 6) * R * (e + off) + 2 * R * R) + 4 * off * (e + R + off);
        if (square + (double)third[from] - wrong > next[k] && square > 1e-30 && square < 1e36 && R > 1e-15)
            continue;
        if (++doubts > DOUBTS)
            return false;
        scan(f, s->wide, rows + k * D, &cell[k], &near[k], &next[k]);
    }
    return true;
}

/* Compares a block of points, which stand in columns, with all particles. */
static void compare_block(const wvgd_fit *f, const double *z, size_t n, const double *columns, uint32_t *cell, double *near, double *next)
{
    double which[WV_COLUMNS], least[WV_COLUMNS], other[WV_COLUMNS];
    wv_columns_best()->nearest(f->D, wv_columns_round(n), f->N, columns, z, least, other, which);
    for (size_t k = 0; k < n; k++) {
        cell[k] = (uint32_t)which[k];
        near[k] = least[k];
        next[k] = other[k];
    }
}

/* Nearest and second nearest of the particles z[N][D], by squared distance, of a block of points. s: NULL for few particles. */
static void find(const wvgd_fit *f, const sieve *s, const double *z, size_t n, const double *rows, uint32_t *cell, double *near, double *next)
{
    double *columns = f->block; /* [D][WV_COLUMNS] */
    wv_columns_turn(f->D, n, rows, columns);
    if (!s || !sift(f, s, n, rows, columns, cell, near, next))
        compare_block(f, z, n, columns, cell, near, next);
}

void wv_cell_nearest(const wvgd_fit *f, const double *z, size_t n, const double *x, uint32_t *cell, double *near, double *next)
{
    bool many = f->N >= MANY && n >= WV_COLUMNS;
    sieve s = {0};
    if (many)
        s = make_sieve(f, z, NULL);
    for (size_t first = 0; first < n; first += WV_COLUMNS)
        find(f, many ? &s : NULL, z, n - first < WV_COLUMNS ? n - first : WV_COLUMNS, x + first * f->D, cell + first, near + first, next + first);
}

/* The same for few particles where one metric holds for all cells, a full one: points and particles are whitened, relative to the first particle. */
static void assign_few(const wvgd_fit *f, size_t n, const double *x, uint32_t *cell, double *near, double *next)
{
    size_t D = f->D, size = D * WV_COLUMNS;
    double inverse[WV_DENSE * WV_DENSE], r[WV_COLUMNS], *columns = f->block, *spare = columns + size, *y = spare + size, *z = y + size; /* [D][D], .., [D][WV_COLUMNS], [N][D] */
    wv_gauss metric = {f->metric_family, D, 0, f->now.z, f->now.metric, 0};
    wv_component_whiten(&metric, f->N, f->now.z, z, NULL);
    wv_dense_invert(D, f->now.metric, inverse);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
        wv_columns_turn(D, here, x + first * D, columns);
        wv_columns_whiten(D, wv_columns_round(here), inverse, f->now.z, columns, spare, y, r);
        compare_block(f, z, here, y, cell + first, near + first, next + first);
    }
}

/* The same for any number of particles and any metric. */
static void assign_whitened(const wvgd_fit *f, size_t n, const double *x, uint32_t *cell, double *near, double *next)
{
    size_t D = f->D;
    double *rows = f->block + WV_COLUMNS * D, *z = rows + WV_COLUMNS * D; /* [WV_COLUMNS][D], [N][D] */
    bool many = f->N >= MANY && n >= WV_COLUMNS;
    wv_gauss metric = {f->metric_family, D, 0, f->now.z, f->now.metric, 0};
    sieve s = {0};
    wv_component_whiten(&metric, f->N, f->now.z, z, NULL);
    if (many)
        s = make_sieve(f, z, NULL);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
        wv_component_whiten(&metric, here, x + first * D, rows, NULL);
        find(f, many ? &s : NULL, z, here, rows, cell + first, near + first, next + first);
    }
}

void wv_cell_assign(const wvgd_fit *f, size_t n, const double *x, uint32_t *cell, double *near, double *next)
{
    size_t D = f->D;
    double *cost = f->block, *y = cost + WV_BLOCK; /* [WV_BLOCK], [WV_BLOCK][D] */
    if (!n)
        return;
    if (f->opt.cost == WVGD_SQEUCLID) {
        wv_cell_nearest(f, f->now.z, n, x, cell, near, next);
        return;
    }
    if (f->opt.cost == WVGD_MAHALANOBIS && D <= WV_BLOCK / 2) {
        bool few = f->N < MANY && n >= WV_COLUMNS && D <= WV_DENSE && f->metric_family == wv_family_get(WVGD_FULL);
        (few ? assign_few : assign_whitened)(f, n, x, cell, near, next);
        return;
    }
    for (size_t k = 0; k < n; k++) {
        cell[k] = 0;
        near[k] = next[k] = INFINITY;
    }
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        for (size_t j = 0; j < f->N; j++) {
            wv_cell_cost(f, j, f->now.z + j * D, here, x + first * D, cost, y);
            for (size_t k = 0; k < here; k++)
                compare(first + k, (uint32_t)j, cost[k], cell, near, next);
        }
    }
}

void wv_cell_assign_mirrored(const wvgd_fit *f, const double *middle, size_t n, const double *x, uint32_t *cell, double *near, double *next)
{
    size_t D = f->D;
    if (f->opt.cost != WVGD_SQEUCLID || f->N < MANY || n < 2 * WV_COLUMNS || n % 2) {
        wv_cell_assign(f, n, x, cell, near, next);
        return;
    }
    sieve s = make_sieve(f, f->now.z, middle);
    for (size_t first = 0, here; first < n; first += here) {
        here = n - first < 2 * WV_COLUMNS ? n - first : 2 * WV_COLUMNS;
        if (sift_mirrored(f, &s, here / 2, x + first * D, cell + first, near + first, next + first))
            continue;
        for (size_t at = first, some; at < first + here; at += some) {
            some = first + here - at < WV_COLUMNS ? first + here - at : WV_COLUMNS;
            wv_columns_turn(D, some, x + at * D, f->block);
            compare_block(f, f->now.z, some, f->block, cell + at, near + at, next + at);
        }
    }
}
