/* bend_line.c - a monotone map of one coordinate, for which a density known by its score becomes standard normal: the
 * score is regressed on smooth knees, integrated twice, and the quantiles are interpolated (bend_line.h). */
#include "coordinates/bend_line.h"
#include "policy.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

void wv_bend_line_clear(wv_bend_line *line)
{
    memset(line, 0, sizeof *line);
}

static double step_of(const wv_bend_line *line)
{
    return (line->high - line->low) / (WV_BEND_KNOTS - 1);
}

/* The piece of a spline in which u lies, u being between the first and the last knot. */
static size_t piece_of(const wv_bend_line *line, double u)
{
    double at = (u - line->low) / step_of(line);
    return (size_t)fmin(fmax(floor(at), 0), WV_BEND_KNOTS - 2);
}

/* v and its first two derivatives between the knots. */
static void inside(const wv_bend_line *line, double u, double d[3])
{
    size_t i = piece_of(line, u);
    double h = step_of(line), b = (u - line->low) / h - (double)i, a = 1 - b, m0 = line->second[i],
           m1 = line->second[i + 1], y0 = line->value[i], y1 = line->value[i + 1];
    d[0] = a * y0 + b * y1 + ((a * a * a - a) * m0 + (b * b * b - b) * m1) * h * h / 6;
    d[1] = (y1 - y0) / h + ((3 * b * b - 1) * m1 - (3 * a * a - 1) * m0) * h / 6;
    d[2] = a * m0 + b * m1;
}

wv_bend_turn wv_bend_line_at(const wv_bend_line *line, double u)
{
    double d[3], at = fmin(fmax(u, line->low), line->high);
    if (!line->curved)
        return (wv_bend_turn){u, 1, 0};
    inside(line, at, d);
    return (wv_bend_turn){d[0] + d[1] * (u - at), d[1], at == u ? d[2] / d[1] : 0};
}

double wv_bend_line_inverse(const wv_bend_line *line, double v)
{
    enum { MOST = 60 };
    if (!line->curved)
        return v;
    wv_bend_turn first = wv_bend_line_at(line, line->low), last = wv_bend_line_at(line, line->high);
    if (v <= first.v)
        return line->low + (v - first.v) / first.slope;
    if (v >= last.v)
        return line->high + (v - last.v) / last.slope;
    double low = line->low, high = line->high, u = low + (high - low) * (v - first.v) / (last.v - first.v);
    for (size_t i = 0; i < MOST; i++) { /* Newton's steps, kept between bounds that close in */
        wv_bend_turn t = wv_bend_line_at(line, u);
        *(t.v > v ? &high : &low) = u;
        double next = u - (t.v - v) / t.slope;
        next = next > low && next < high ? next : (low + high) / 2;
        if (next == u || t.v == v)
            break;
        u = next;
    }
    return u;
}

/* Second derivatives at the knots: a tridiagonal system. */
static bool find_second(wv_bend_line *line)
{
    double h = step_of(line), below[WV_BEND_KNOTS], diagonal[WV_BEND_KNOTS], right[WV_BEND_KNOTS];
    const double four = 4, six = 6;
    lapack_int n = WV_BEND_KNOTS - 2;
    for (size_t i = 1; i + 1 < WV_BEND_KNOTS; i++) {
        below[i - 1] = 1;
        diagonal[i - 1] = four;
        right[i - 1] = six * (line->value[i + 1] - 2 * line->value[i] + line->value[i - 1]) / (h * h);
    }
    if (LAPACKE_dptsv_work(LAPACK_COL_MAJOR, n, 1, diagonal, below, right, n) != 0)
        return false;
    line->second[0] = line->second[WV_BEND_KNOTS - 1] = 0;
    memcpy(line->second + 1, right, (size_t)n * sizeof *right);
    return true;
}

/* Whether it rises everywhere, at a rate between these. */
static bool rises(const wv_bend_line *line)
{
    enum { EACH = 4 };
    const double least = 1e-3, most = 1e3;
    for (size_t i = 0; i <= EACH * (WV_BEND_KNOTS - 1); i++) {
        double slope = wv_bend_line_at(line, line->low + (double)i / EACH * step_of(line)).slope;
        if (!(slope > least && slope < most))
            return false;
    }
    return true;
}

bool wv_bend_line_set(wv_bend_line *line, double low, double high, const double *value)
{
    line->curved = true;
    line->low = low;
    line->high = high;
    memcpy(line->value, value, sizeof line->value);
    if (low < high && find_second(line) && rises(line))
        return true;
    wv_bend_line_clear(line);
    return false;
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */
enum { KNEES = 8, TERMS = 2 + KNEES, GRID = 8001 };

static void terms(double v, double *f)
{
    static const double knee[KNEES] = {-7, -4, -2, -0.7, 0.7, 2, 4, 7};
    f[0] = 1;
    f[1] = v;
    for (size_t k = 0; k < KNEES; k++)
        f[2 + k] = sqrt(1 + (v - knee[k]) * (v - knee[k]));
}

static double score_at(const double *c, double v)
{
    double f[TERMS];
    terms(v, f);
    return cblas_ddot(TERMS, c, 1, f, 1);
}

/* One weighted regression of g on the terms F[n][TERMS] at v, about the score -v, with robust weights from the
 * coefficients c before. */
static bool regress(size_t n, const double *v, const double *g, const double *w, const double *F, double *c,
                    wv_arena *arena)
{
    const double robust = 4.5, ridge_knee = 1e-3, ridge_free = 1e-6, tiny = 1e-9;
    size_t mark = wv_arena_mark(arena);
    double *r = wv_arena_take(arena, n), *Z = wv_arena_take(arena, n * TERMS), A[TERMS * TERMS], b[TERMS], total = 0;
    memcpy(r, g, n * sizeof *r);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)n, TERMS, -1.0, F, TERMS, c, 1, 1.0, r, 1);
    for (size_t i = 0; i < n; i++)
        r[i] = fabs(r[i]);
    double scale = wv_weights_smallest(n, r, n / 2, arena) * robust + tiny;
    for (size_t i = 0; i < n; i++)
        total += r[i] = r[i] > scale ? w[i] * scale / r[i] : w[i];
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < TERMS; k++)
            Z[i * TERMS + k] = r[i] / total * F[i * TERMS + k];
        r[i] = g[i] + v[i];
    }
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, TERMS, TERMS, (int)n, 1.0, Z, TERMS, F, TERMS, 0.0, A, TERMS);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, TERMS, 1.0, Z, TERMS, r, 1, 0.0, b, 1);
    for (size_t k = 0; k < TERMS; k++)
        A[k * TERMS + k] += k < 2 ? ridge_free : ridge_knee;
    wv_arena_release(arena, mark);
    if (!(total > 0) || LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', TERMS, A, TERMS) != 0 ||
        LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', TERMS, 1, A, TERMS, b, TERMS) != 0)
        return false;
    memcpy(c, b, sizeof b);
    c[1] -= 1;
    return true;
}

/* The score beyond the points that told it falls again, at a moderate rate. */
static double tamed_score(const double *c, double v, double low, double high)
{
    const double least = 0.2, rate = 0.5;
    if (v > high)
        return fmin(score_at(c, high), -least) - rate * (v - high);
    return v < low ? fmax(score_at(c, low), least) - rate * (v - low) : score_at(c, v);
}

/* The standard normal quantile of a small probability p <= 1/2, by Newton's steps on the log of the distribution
 * function. */
static double normal_quantile(double p)
{
    enum { STEPS = 12 };
    const double root_2pi = 2.50662827463100050242, root_2 = 1.41421356237309504880;
    double x = -sqrt(-2 * log(fmin(2 * p, 1)));
    for (size_t i = 0; i < STEPS; i++) {
        double below = erfc(-x / root_2) / 2, density = exp(-x * x / 2) / root_2pi;
        x -= below / density * log(below / p);
        x = fmin(x, 0);
    }
    return x;
}

/* Quantiles on a grid: below[i] and above[i] are the shares of the density on either side of v = -40 + i / 100. */
static void distribute(const double *c, double low, double high, double *v, double *below, double *above, double *log_p)
{
    const double first = -40, last = 40;
    double h = (last - first) / (GRID - 1), before = 0, top = -INFINITY;
    for (size_t i = 0; i < GRID; i++) {
        v[i] = first + h * (double)i;
        double score = tamed_score(c, v[i], low, high);
        log_p[i] = i ? log_p[i - 1] + (before + score) / 2 * h : 0;
        before = score;
        top = fmax(top, log_p[i]);
    }
    for (size_t i = 0; i < GRID; i++)
        log_p[i] = exp(log_p[i] - top);
    below[0] = above[GRID - 1] = 0;
    for (size_t i = 1; i < GRID; i++)
        below[i] = below[i - 1] + (log_p[i] + log_p[i - 1]) / 2;
    for (size_t i = GRID - 1; i-- > 0;)
        above[i] = above[i + 1] + (log_p[i] + log_p[i + 1]) / 2;
}

/* Shares of the density on either side of points of a grid. */
typedef struct {
    const double *below, *above; /* [GRID] */
    double total;
} shares;

static double quantile_at(const shares *s, size_t i)
{
    return s->below[i] < s->above[i] ? normal_quantile(s->below[i] / s->total)
                                     : -normal_quantile(s->above[i] / s->total);
}

/* Knots from the quantiles: v where u is that of a knot, between two points of the grid. */
static bool interpolate(wv_bend_line *line, const double *v, const double *below, const double *above)
{
    const double least = 1e-11, widest = 6;
    const shares s = {below, above, below[GRID - 1]};
    size_t first = 0, last = GRID - 1;
    double value[WV_BEND_KNOTS];
    while (first < last && !(below[first] > least * s.total))
        first++;
    while (last > first && !(above[last] > least * s.total))
        last--;
    if (last < first + WV_BEND_KNOTS)
        return false;
    double low = fmax(-widest, quantile_at(&s, first)), high = fmin(widest, quantile_at(&s, last));
    for (size_t k = 0, i = first; k < WV_BEND_KNOTS; k++) {
        double at = low + (high - low) * (double)k / (WV_BEND_KNOTS - 1);
        for (size_t end = last; end - i > 1;) {
            size_t middle = i + (end - i) / 2;
            *(quantile_at(&s, middle) < at ? &i : &end) = middle;
        }
        double u = quantile_at(&s, i), next = quantile_at(&s, i + 1), share = next > u ? (at - u) / (next - u) : 0;
        value[k] = v[i] + fmin(fmax(share, 0), 1) * (v[i + 1] - v[i]);
    }
    return wv_bend_line_set(line, low, high, value);
}

void wv_bend_line_fit(wv_bend_line *line, size_t n, const double *v, const double *g, const double *w, wv_arena *arena)
{
    enum { ROUNDS = 6, LEAST = 40, OUTER = 4 };
    const double far = 28;
    size_t mark = wv_arena_mark(arena);
    double c[TERMS] = {0, -1}, *F = wv_arena_take(arena, n * TERMS);
    bool good = n >= LEAST;
    wv_bend_line_clear(line);
    for (size_t i = 0; i < n; i++)
        terms(v[i], F + i * TERMS);
    for (size_t i = 0; i < ROUNDS && good; i++)
        good = regress(n, v, g, w, F, c, arena);
    if (good) {
        double low = fmax(-far, wv_weights_smallest(n, v, OUTER, arena)),
               high = fmin(far, wv_weights_smallest(n, v, n - 1 - OUTER, arena)), *grid = wv_arena_take(arena, GRID),
               *density = wv_arena_take(arena, GRID), *below = wv_arena_take(arena, GRID),
               *above = wv_arena_take(arena, GRID);
        distribute(c, low, high, grid, below, above, density);
        interpolate(line, grid, below, above);
    }
    wv_arena_release(arena, mark);
}
