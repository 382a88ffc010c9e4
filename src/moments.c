/* moments.c - moments from the weighted draws of the staged solver, and their standard errors as the draws were
 * made: in pairs that mirror each other, so many from each proposal. The mean of a function is a sum over pairs;
 * pairs of one proposal are independent, and only what varies among them is error.
 *
 * Stein calibration: for the posterior, with any m and C, y_i = (x_i - m_i) / sqrt(C_ii) and
 * g_i = (C grad log p~)_i / sqrt(C_ii), E[g_i] = 0 and E[y_i g_i] = -1; with m and C those of a mixture that is like
 * it g is nearly -y, and exactly so for a Gaussian. The weights v of the draws are tilted (by least squares) until
 * both hold in the sample: a control variate from gradients that have been paid for, which removes all noise from the
 * variances of a Gaussian (method, section 5).
 * With h = (g, y g + 1) and b = n sum v h for each pair, less the mean of its proposal, S = sum b b' = L L' and
 * z = L^-1 b: weights v (1 - t), t = z . L^-1 sum b. What the statistics say of a function with the values a of pairs
 * is (sum a z') z; the rest is error.
 * Without gradients the same statistics of the mixture take their place, with its weights: y and y^2 - 1. So they do
 * where the density ends at an edge, of which draws without density tell: there Stein's identities lack a term.
 * What mirrored pairs, or the number of draws of each proposal, have fixed already does not vary, so that it is
 * left as it is: the masses of modes that lie apart, for one. */
#include "moments.h"
#include "dense.h"
#include "gaussian.h"
#include "mixture.h"
#include "policy.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum {
    GROUPS = 16,    /* of components */
    PIECE = 256,    /* draws whose gradients are transformed at once */
    FUNCTIONS = 64, /* whose errors are estimated at once */
};

/* ---- pairs ------------------------------------------------------------------------------------------------------- */
/* Where the proposal (of its batch) of draw `first` ends; the number of its first unit; units (pairs, or chains) of a
 * proposal. */
static size_t end_of_proposal(const wv_moments_input *in, size_t first)
{
    return wv_draws_end_of_proposal(in->draws, first);
}

static size_t unit(const wv_moments_input *in, size_t i)
{
    return i < in->draws->n ? wv_draws_unit(in->draws, i) : wv_draws_units(in->draws);
}

/* Takes the mean over the pairs of each proposal from A[n/2][m]. Returns what is left free: pairs less proposals. */
static double centre_pairs(const wv_moments_input *in, size_t m, double *A)
{
    size_t mark = wv_arena_mark(in->arena);
    double *mean = wv_arena_take(in->arena, m), freedom = 0;
    for (size_t first = 0, end; first < in->draws->n; first = end) {
        end = end_of_proposal(in, first);
        memset(mean, 0, m * sizeof *mean);
        for (size_t i = unit(in, first); i < unit(in, end); i++)
            for (size_t k = 0; k < m; k++)
                mean[k] += A[i * m + k];
        for (size_t k = 0; k < m; k++)
            mean[k] /= (double)(unit(in, end) - unit(in, first));
        for (size_t i = unit(in, first); i < unit(in, end); i++)
            for (size_t k = 0; k < m; k++)
                A[i * m + k] -= mean[k];
        freedom += (double)(unit(in, end) - unit(in, first)) - 1;
    }
    wv_arena_release(in->arena, mark);
    return freedom;
}

/* Are some of the points draws from the mixture? States of chains alone may miss most of it, and tell nothing of it. */
static bool has_mixture(const wv_moments_input *in)
{
    return in->draws->states < in->draws->n;
}

void wv_moments_ratio(const wv_moments_input *in, double *u)
{
    for (size_t i = 0; i < in->draws->n; i++)
        u[i] = has_mixture(in) ? in->draws->log_mix[0][i] - in->draws->log_m[i] : -INFINITY;
    wv_weights_exp(in->draws->n, u);
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */
typedef struct {
    size_t p, groups;       /* statistics; the last ones: groups of the mixture's components, one for each mode */
    double share[GROUPS];   /* their weights */
    double *mu, *unit, *R;  /* [D], [D], [D][D] of the mixture: mean, 1 over sds, correlations times sds */
    double *total, *square; /* [p] sums over pairs, and of squares over single draws */
    double *H;              /* [n/2][p] statistics */
} statistics;

static size_t group_of(const wv_moments_input *in, size_t k)
{
    size_t mode = in->modes > 1 ? in->mode[k] : 0;
    return mode < GROUPS ? mode : GROUPS - 1;
}

/* False: the mixture has no moments. */
static bool begin_statistics(const wv_moments_input *in, statistics *s)
{
    size_t D = in->D;
    double *root = wv_arena_take(in->arena, D * D), *sd = wv_arena_take(in->arena, D);
    s->groups = in->modes > 1 ? (in->modes < GROUPS ? in->modes : GROUPS) : 1;
    s->p = 2 * D + s->groups;
    s->mu = wv_arena_take(in->arena, D);
    s->unit = wv_arena_take(in->arena, D);
    s->R = wv_arena_take(in->arena, D * D);
    s->total = wv_arena_zeros(in->arena, s->p);
    s->square = wv_arena_zeros(in->arena, s->p);
    if (!wv_mixture_moments(in->mix, s->mu, root, in->arena))
        return false;
    wv_family_get(WVGD_FULL)->sd(D, 0, root, sd);
    for (size_t i = 0; i < D; i++) {
        s->unit[i] = 1 / sd[i];
        cblas_dscal((int)D, s->unit[i], root + i * D, 1);
    }
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)D, (int)D, (int)D, 1.0, root, (int)D, root, (int)D, 0.0,
                s->R, (int)D);
    for (size_t i = 0; i < D * D; i++)
        s->R[i] *= sd[i % D];
    memset(s->share, 0, sizeof s->share);
    for (size_t k = 0; k < in->mix->K; k++)
        s->share[group_of(in, k)] += in->mix->w[k];
    return true;
}

/* What draw i, with the transformed gradient g[D] and n times its weight v, adds to its pair. */
static void add_scores(const wv_moments_input *in, const statistics *s, size_t i, double v, const double *g)
{
    size_t D = in->D;
    double *h = s->H + unit(in, i) * s->p;
    const double *x = in->draws->x + i * D;
    for (size_t d = 0; d < D; d++) {
        double a = v * g[d], b = v * (g[d] * ((x[d] - s->mu[d]) * s->unit[d]) + 1);
        h[d] += a;
        h[D + d] += b;
        s->square[d] += a * a;
        s->square[D + d] += b * b;
    }
}

/* u[n] <- the density of group g over that of the draws. */
static void group_ratio(const wv_moments_input *in, size_t g, double *u)
{
    size_t n = in->draws->n, D = in->D, mark = wv_arena_mark(in->arena);
    double *log_q = wv_arena_take(in->arena, PIECE), *y = wv_arena_take(in->arena, PIECE * D); /* [PIECE][D] */
    memset(u, 0, n * sizeof *u);
    for (size_t k = 0; k < in->mix->K; k++) {
        wv_gaussian q = wv_mixture_component(in->mix, k);
        for (size_t first = 0; first < n && group_of(in, k) == g; first += PIECE) {
            size_t here = n - first < PIECE ? n - first : PIECE;
            wv_gaussian_log_density(&q, here, in->draws->x + first * D, log_q, y, in->arena);
            for (size_t i = 0; i < here; i++)
                u[first + i] += in->mix->w[k] * exp(log_q[i] - in->draws->log_m[first + i]);
        }
    }
    wv_arena_release(in->arena, mark);
}

/* Densities of the groups over that of the draws, less their weights, which are the means. */
static void add_groups(const wv_moments_input *in, const statistics *s)
{
    size_t mark = wv_arena_mark(in->arena);
    double *u = wv_arena_take(in->arena, in->draws->n);
    for (size_t g = 0; g < s->groups; g++) {
        size_t at = 2 * in->D + g;
        if (s->groups > 1)
            group_ratio(in, g, u);
        else
            wv_moments_ratio(in, u);
        for (size_t i = 0; i < in->draws->n; i++) {
            double h = u[i] - s->share[g];
            s->H[unit(in, i) * s->p + at] += h;
            s->square[at] += h * h;
        }
    }
    wv_arena_release(in->arena, mark);
}

/* Stein's identities. */
static void add_stein(const wv_moments_input *in, const statistics *s)
{
    size_t n = in->draws->n, D = in->D, mark = wv_arena_mark(in->arena);
    double *g = wv_arena_take(in->arena, PIECE * D); /* [PIECE][D] */
    for (size_t first = 0; first < n; first += PIECE) {
        size_t here = n - first < PIECE ? n - first : PIECE;
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)here, (int)D, (int)D, 1.0,
                    in->draws->grad + first * D, (int)D, s->R, (int)D, 0.0, g, (int)D);
        for (size_t i = 0; i < here; i++)
            if (in->v[first + i] > 0)
                add_scores(in, s, first + i, (double)n * in->v[first + i], g + i * D);
    }
    wv_arena_release(in->arena, mark);
}

/* The same of the mixture instead of the posterior: with its density over that of the draws as weights, and a
 * Gaussian's gradients, g = -y, the means are known, too. */
static void add_mixture(const wv_moments_input *in, const statistics *s)
{
    size_t n = in->draws->n, D = in->D, mark = wv_arena_mark(in->arena);
    double *u = wv_arena_take(in->arena, n), *g = wv_arena_take(in->arena, D);
    wv_moments_ratio(in, u);
    for (size_t i = 0; i < n; i++) {
        for (size_t d = 0; d < D; d++)
            g[d] = -(in->draws->x[i * D + d] - s->mu[d]) * s->unit[d];
        add_scores(in, s, i, u[i], g);
    }
    wv_arena_release(in->arena, mark);
}

/* Do Stein's identities hold? Where a part of the mixture has no density there is an edge, and the posterior need not
 * vanish at it. */
static bool stein_holds(const wv_moments_input *in)
{
    size_t n = in->draws->n, mark = wv_arena_mark(in->arena);
    double *u = wv_arena_take(in->arena, n), beyond = 0;
    wv_moments_ratio(in, u);
    for (size_t i = 0; i < n; i++)
        beyond += in->draws->log_p[i] > -INFINITY ? 0 : u[i];
    wv_arena_release(in->arena, mark);
    return beyond <= wv_policy.moments_edge * (double)n;
}

/* Statistics of all pairs, and their sums. */
static void sum_statistics(const wv_moments_input *in, const statistics *s)
{
    size_t units = wv_draws_units(in->draws);
    memset(s->H, 0, units * s->p * sizeof *s->H);
    if (in->draws->shape.gradients && stein_holds(in))
        add_stein(in, s);
    else
        add_mixture(in, s);
    add_groups(in, s);
    for (size_t i = 0; i < units; i++)
        for (size_t k = 0; k < s->p; k++)
            s->total[k] += s->H[i * s->p + k];
}

/* ---- the tilt ---------------------------------------------------------------------------------------------------- */
/* Of the scatter of a statistic, as a share of what it would be if draws did not come in pairs:
 * less than this is rounding. */
static const double ridge = 1e-8;

/* Do draws of that effective size and k-hat tell a tilt? */
static bool weights_tell(const wv_moments_input *in)
{
    return has_mixture(in) && wv_weights_ess(in->draws->n, in->v) > wv_policy.moments_ess * (double)in->D &&
           !(in->pareto_k >= wv_policy.moments_pareto_k);
}

/* Statistics in units of their squares; false: one is not finite. */
static bool scale_statistics(const wv_moments_input *in, const statistics *s)
{
    for (size_t k = 0; k < s->p; k++) {
        s->square[k] = 1 / (sqrt(s->square[k]) + 1e-150);
        s->total[k] *= s->square[k];
        if (!isfinite(s->total[k]) || !(s->square[k] > 0))
            return false;
    }
    for (size_t i = 0; i < wv_draws_units(in->draws); i++)
        for (size_t k = 0; k < s->p; k++)
            s->H[i * s->p + k] *= s->square[k];
    return true;
}

/* z of the pairs in place of their statistics, L^-1 of the total in its place; false: there is none. */
static bool whiten(const wv_moments_input *in, const statistics *s)
{
    size_t p = s->p, pairs = wv_draws_units(in->draws), mark = wv_arena_mark(in->arena);
    double *S = wv_arena_zeros(in->arena, p * p);
    wv_dense_cross(pairs, p, s->H, p, s->H, true, S);
    bool finite = true;
    for (size_t k = 0; k < p; k++) {
        S[k * p + k] += ridge;
        finite = finite && isfinite(S[k * p + k]);
    }
    /* column by column the upper triangle is, row by row, the lower one */
    bool fine = finite && LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, S, (lapack_int)p) == 0;
    if (fine) {
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)pairs, (int)p, 1.0, S, (int)p,
                    s->H, (int)p);
        cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)p, S, (int)p, s->total, 1);
    }
    wv_arena_release(in->arena, mark);
    return fine;
}

/* A pair that pulls the slopes its way leaves more than it seems: as if it had not been there when they were fitted. */
static void find_leverages(const wv_moments_input *in, wv_moments_tilt *tilt)
{
    for (size_t first = 0, end; first < in->draws->n; first = end) {
        end = end_of_proposal(in, first);
        for (size_t i = unit(in, first); i < unit(in, end); i++) {
            const double *z = tilt->Z + i * tilt->p;
            double leverage = cblas_ddot((int)tilt->p, z, 1, z, 1) + 1 / (double)(unit(in, end) - unit(in, first));
            tilt->keep[i] = 1 / (1 - fmin(leverage, wv_policy.moments_leverage));
        }
    }
}

wv_moments_tilt wv_moments_find_tilt(const wv_moments_input *in)
{
    size_t pairs = wv_draws_units(in->draws);
    wv_moments_tilt tilt = {.valid = false};
    statistics s;
    if (!weights_tell(in) || !begin_statistics(in, &s))
        return tilt;
    tilt = (wv_moments_tilt){false,
                             s.p,
                             wv_arena_take(in->arena, pairs * s.p),
                             wv_arena_take(in->arena, pairs),
                             wv_arena_take(in->arena, pairs),
                             1};
    s.H = tilt.Z;
    sum_statistics(in, &s);
    if (!scale_statistics(in, &s) || !(centre_pairs(in, s.p, s.H) > wv_policy.moments_freedom * (double)s.p) ||
        !whiten(in, &s))
        return tilt;
    wv_dense_product(pairs, s.p, tilt.Z, 1, s.total, 1, 0, tilt.t);
    for (size_t i = 0; i < in->draws->n; i++)
        tilt.kept -= in->v[i] * tilt.t[unit(in, i)];
    find_leverages(in, &tilt);
    tilt.valid = tilt.kept > wv_policy.moments_kept_least && tilt.kept < wv_policy.moments_kept_most;
    return tilt;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
/* Squared errors [m] of the means of functions whose pairs have the values A[n/2][m], less those means, with the tilt
 * or NULL; A is lost. largest[m]: the largest of a pair. */
static void square_errors(const wv_moments_input *in, const wv_moments_tilt *tilt, size_t m, double *A, double *error,
                          double *largest)
{
    size_t n = in->draws->n, mark = wv_arena_mark(in->arena);
    double *sum = wv_arena_take(in->arena, m), *squares = wv_arena_take(in->arena, m);
    memset(error, 0, m * sizeof *error);
    memset(largest, 0, m * sizeof *largest);
    if (tilt) {
        double *B = wv_arena_zeros(in->arena, tilt->p * m); /* [p][m] slopes */
        wv_dense_cross(wv_draws_units(in->draws), tilt->p, tilt->Z, m, A, false, B);
        centre_pairs(in, m, A);
        wv_dense_product(wv_draws_units(in->draws), tilt->p, tilt->Z, m, B, -1, 1, A);
    }
    for (size_t first = 0, end; first < n; first = end) {
        end = end_of_proposal(in, first);
        memset(sum, 0, m * sizeof *sum);
        memset(squares, 0, m * sizeof *squares);
        for (size_t i = unit(in, first); i < unit(in, end); i++)
            for (size_t k = 0; k < m; k++) {
                double e = A[i * m + k] * (tilt ? tilt->keep[i] : 1);
                sum[k] += e;
                squares[k] += e * e;
                largest[k] = e * e > largest[k] ? e * e : largest[k];
            }
        double pairs = (double)(unit(in, end) - unit(in, first));
        for (size_t k = 0; k < m; k++)
            error[k] += pairs > 1 ? pairs / (pairs - 1) * fmax(squares[k] - sum[k] * sum[k] / pairs, 0) : squares[k];
    }
    wv_arena_release(in->arena, mark);
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */
/* Functions of the parameters by their values at the draws: [n][m], rows `ld` apart; and of each, [m]: */
typedef struct {
    size_t m, ld;
    const double *value;
    double *centre, *scale; /* mean without a tilt, and 1 over the sd; z = (value - centre) scale */
    double *least;          /* standard error of z if draws were independent */
    double *one;            /* mean of z^2 without a tilt: 1, or 0 for a constant */
    double *mean, *var;     /* of z with the tilt */
    double *spread;         /* sd of z^2 */
    /* Where the function is a line along a coordinate the mixture q tells its square s = (z - mean)^2: (q/m) (s -
     * share), share the mean of s under q, has mean 0, and `slope` times that is taken from s. What the mixture knows
     * of a wide mode of little mass few draws see. */
    double *share, *slope;
    double *share_se; /* standard error of the share */
} functions;

static functions new_functions(const wv_moments_input *in, size_t m, size_t ld, const double *value)
{
    functions f = {.m = m, .ld = ld, .value = value};
    double **arrays[] = {&f.centre, &f.scale,  &f.least, &f.one,   &f.mean,
                         &f.var,    &f.spread, &f.share, &f.slope, &f.share_se};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = wv_arena_zeros(in->arena, m);
    return f;
}

/* Means, sds and standard errors under the weights as they are: from what values differ by from those of the first
 * draw of weight. */
static void weigh(const wv_moments_input *in, const functions *f)
{
    size_t m = f->m, n = in->draws->n, one = 0, mark = wv_arena_mark(in->arena);
    double *first = wv_arena_zeros(in->arena, 4 * m), *second = first + m, *third = second + m, *fourth = third + m,
           squares = 0; /* sums of v y, v y^2, v^2 y, v^2 y^2; of v^2 */
    while (one + 1 < n && !(in->v[one] > 0))
        one++;
    const double *from = f->value + one * f->ld;
    for (size_t i = one; i < n; i++) {
        double v = in->v[i];
        if (!(v > 0))
            continue;
        squares += v * v;
        for (size_t k = 0; k < m; k++) {
            double y = f->value[i * f->ld + k] - from[k];
            first[k] += v * y;
            second[k] += v * y * y;
            third[k] += v * v * y;
            fourth[k] += v * v * y * y;
        }
    }
    for (size_t k = 0; k < m; k++) {
        double mean = first[k], var = second[k] - mean * mean;
        f->centre[k] = from[k] + mean;
        f->scale[k] = var > 0 ? 1 / sqrt(var) : 1;
        f->one[k] = var > 0;
        f->least[k] = f->scale[k] * sqrt(fmax(fourth[k] - 2 * mean * third[k] + mean * mean * squares, 0));
    }
    wv_arena_release(in->arena, mark);
}

/* Moments of z with the tilt, or NULL. */
static void tilt_moments(const wv_moments_input *in, const wv_moments_tilt *tilt, const functions *f)
{
    double kept = tilt ? tilt->kept : 1;
    memset(f->mean, 0, f->m * sizeof *f->mean);
    memset(f->var, 0, f->m * sizeof *f->var);
    memset(f->spread, 0, f->m * sizeof *f->spread);
    for (size_t i = 0; i < in->draws->n; i++) {
        double v = in->v[i], t = tilt ? tilt->t[unit(in, i)] : 0;
        for (size_t k = 0; k < f->m && v > 0; k++) {
            double z = (f->value[i * f->ld + k] - f->centre[k]) * f->scale[k], square = z * z - f->one[k];
            f->mean[k] -= v * t * z / kept;
            f->var[k] -= v * t * square / kept;
            f->spread[k] += v * square * square;
        }
    }
    for (size_t k = 0; k < f->m; k++) {
        f->var[k] += f->one[k] - f->mean[k] * f->mean[k];
        f->spread[k] = sqrt(f->spread[k]);
    }
}

/* Is the tilt a small correction of all functions? */
static bool small_correction(const functions *f)
{
    for (size_t k = 0; k < f->m; k++)
        if (!(f->var[k] > wv_policy.moments_var_least && f->var[k] < wv_policy.moments_var_most &&
              fabs(f->mean[k]) < wv_policy.moments_shift * f->least[k]))
            return false;
    return true;
}

/* ---- what the mixture tells of variances ---- */
/* Mean of (z_c - at)^2 under the mixture. */
static double mixture_square(const wv_moments_input *in, size_t c, double at)
{
    double sum = 0;
    if (in->known)
        return in->known->var[c] + (in->known->mean[c] - at) * (in->known->mean[c] - at);
    for (size_t k = 0; k < in->mix->K; k++) {
        const double *row = in->mix->root + (k * in->D + c) * in->D;
        double off = in->mix->mu[k * in->D + c] - at;
        sum += in->mix->w[k] * (cblas_ddot((int)(c + 1), row, 1, row, 1) + off * off);
    }
    return sum;
}

/* A function that is a + b z_c at all draws; b = 0: there is no such coordinate. */
typedef struct {
    size_t c;
    double a, b;
} line;

/* The line through the first and the last draw, if all others lie on it. */
static line line_along(const wv_moments_input *in, const functions *f, size_t k, size_t c)
{
    const double *x = in->draws->x + c, *y = f->value + k, rounding = 1e-10;
    size_t n = in->draws->n, end = n - 1;
    double b = (y[end * f->ld] - y[0]) / (x[end * in->D] - x[0]), a = y[0] - b * x[0];
    for (size_t i = 0; i < n; i++)
        if (!(fabs(a + b * x[i * in->D] - y[i * f->ld]) <= rounding * (fabs(y[i * f->ld]) + fabs(a))))
            return (line){c, 0, 0};
    return (line){c, a, b};
}

/* That of function k; of the coordinates themselves it is known. */
static line line_of(const wv_moments_input *in, const functions *f, size_t k)
{
    line l = {0, 0, 0};
    if (f->value == in->draws->x)
        return (line){k, 0, 1};
    for (size_t c = 0; c < in->D && l.b == 0; c++)
        l = line_along(in, f, k, c);
    return l;
}

/* Shares and slopes, no less than 0 and no more than 1, of the regression of squares on their controls. u[n]: density
 * of the mixture over that of the draws, over n. */
static void find_controls(const wv_moments_input *in, const functions *f, const double *u)
{
    size_t m = f->m, mark = wv_arena_mark(in->arena);
    double *cross = wv_arena_zeros(in->arena, m), *squares = wv_arena_zeros(in->arena, m);
    for (size_t k = 0; k < m; k++) {
        line l = line_of(in, f, k);
        double mean = f->centre[k] + f->mean[k] / f->scale[k], b = l.b * f->scale[k];
        f->share[k] = l.b != 0 ? b * b * mixture_square(in, l.c, (mean - l.a) / l.b) : 0;
        f->share_se[k] = in->known ? b * b * in->known->var_se[l.c] : 0;
        f->slope[k] = l.b != 0 && f->var[k] > 0 && isfinite(f->share[k]);
    }
    for (size_t i = 0; i < in->draws->n; i++)
        for (size_t k = 0; k < m; k++) {
            if (!(f->slope[k] > 0))
                continue;
            double z = (f->value[i * f->ld + k] - f->centre[k]) * f->scale[k] - f->mean[k],
                   c = u[i] * (z * z - f->share[k]);
            cross[k] += in->v[i] * (z * z - f->share[k]) * c;
            squares[k] += c * c;
        }
    for (size_t k = 0; k < m; k++)
        f->slope[k] = cross[k] > 0 ? fmin(cross[k] / squares[k], 1) : 0;
    wv_arena_release(in->arena, mark);
}

/* A[n/2][2 m]: of functions from number `from` on, m of them, what pairs add to the means of z and of its square, about
 * these means without controls, of which the last half has those of the squares. */
static void pair_values(const wv_moments_input *in, const functions *f, size_t from, size_t m, const double *u,
                        double *A)
{
    memset(A, 0, wv_draws_units(in->draws) * 2 * m * sizeof *A);
    for (size_t i = 0; i < in->draws->n; i++) {
        double *a = A + unit(in, i) * 2 * m, v = in->v[i];
        const double *value = f->value + i * f->ld + from;
        for (size_t k = 0; k < m; k++) {
            double z = (value[k] - f->centre[from + k]) * f->scale[from + k] - f->mean[from + k];
            if (v > 0) {
                a[k] += v * z;
                a[m + k] += v * (z * z - f->var[from + k]);
            }
            if (f->slope[from + k] > 0)
                a[m + k] -= f->slope[from + k] * u[i] * (z * z - f->share[from + k]);
        }
    }
}

/* Takes the means[m] of A[n/2][m] from it. */
static void centre_means(const wv_moments_input *in, const wv_moments_tilt *tilt, size_t m, double *A, double *mean)
{
    memset(mean, 0, m * sizeof *mean);
    for (size_t i = 0; i < wv_draws_units(in->draws); i++)
        for (size_t k = 0; k < m; k++)
            mean[k] += A[i * m + k] * (tilt ? (1 - tilt->t[i]) / tilt->kept : 1);
    size_t drawn = in->draws->n - in->draws->states;
    for (size_t i = 0; i < drawn / 2; i++)
        for (size_t k = 0; k < m; k++)
            A[i * m + k] -= mean[k] * (in->v[2 * i] + in->v[2 * i + 1]);
    for (size_t i = drawn; i < in->draws->n; i++)
        for (size_t k = 0; k < m; k++)
            A[unit(in, i) * m + k] -= mean[k] * in->v[i];
}

/* Standard error, in sds, that pairs do not show: that of the ridge, and of rounding. */
static const double least_error = 1e-6;

/* Variances with their controls, and standard errors, of a few functions, whose means are in place. Squares are skewed:
 * pairs as large as the largest may as well not have been drawn, which the sum would not show. */
static void estimate_errors(const wv_moments_input *in, const wv_moments_tilt *tilt, const functions *f, size_t from,
                            size_t m, const double *u, wv_moments to)
{
    size_t mark = wv_arena_mark(in->arena);
    double *A = wv_arena_take(in->arena, in->draws->n * m), *mean = wv_arena_take(in->arena, 2 * m),
           *error = wv_arena_take(in->arena, 2 * m), *largest = wv_arena_take(in->arena, 2 * m),
           kept = tilt ? tilt->kept : 1;
    pair_values(in, f, from, m, u, A);
    centre_means(in, tilt, 2 * m, A, mean);
    square_errors(in, tilt, 2 * m, A, error, largest);
    for (size_t k = from; k < from + m; k++) {
        double sd = 1 / f->scale[k], *e = error + (k - from), square = f->var[k] + mean[m + k - from];
        to.mcse[k] = hypot(sd * hypot(sqrt(*e) / kept, least_error), 0x1p-52 * fabs(to.mean[k]));
        if (f->slope[k] > 0 && square > wv_policy.moments_var_least * f->var[k] &&
            square < wv_policy.moments_var_most * f->var[k])
            to.var[k] = sd * sd * square;
        if (!to.sd_se)
            continue;
        double unseen = hypot(f->spread[k] * least_error, f->slope[k] * f->share_se[k]),
               of_var = sd * sd * hypot(sqrt(e[m] + wv_policy.moments_largest * largest[m + k - from]) / kept, unseen);
        to.sd_se[k] = to.var[k] > 0 ? of_var / (2 * sqrt(to.var[k])) : NAN;
    }
    wv_arena_release(in->arena, mark);
}

/* ---- tails ------------------------------------------------------------------------------------------------------- */
/* Sums over the draws farthest out: of weights v, v r, and of v^2, v^2 r, v^2 r^2. */
typedef struct {
    double v, vr, vv, vvr, vvrr;
} far_sums;

/* nu by the mean of r, less a standard error; -INFINITY: this is so large that they tell nothing. */
static double degrees(const far_sums *s)
{
    double mean = s->vr / s->v, square = s->vvrr - 2 * mean * s->vvr + mean * mean * s->vv,
           se = sqrt(fmax(square, 0)) / s->v;
    return se <= wv_policy.tail_slope_noise ? -mean - 1 - se : -INFINITY;
}

/* Draws that are so far off that those beyond any of them have less than tail_slope_far of the weight, and some more,
 * in order: their indices in far[n], and how far they are in off[n], which had all. To sort them all would take longer
 * than all else here. */
static size_t find_far(size_t n, double *off, const double *v, uint32_t *far)
{
    double top = wv_weights_largest(n, off), most = wv_policy.tail_slope_far * (double)n, weight;
    size_t found;
    do {
        most = fmin(2 * most, (double)n);
        found = wv_weights_find_large(n, off, top, (size_t)most, far);
        weight = 0;
        for (size_t i = 0; i < found; i++)
            weight += v[far[i]];
    } while (weight < wv_policy.tail_slope_far && most < (double)n);
    for (size_t i = 0; i < found; i++)
        off[i] = off[far[i]];
    return found;
}

/* Index of the tail of x_k^2 by slopes, which tell more of it than the few draws far out: where the density of x_k
 * falls like |x_k|^-(nu + 1), r = (x_k - mean) d.g has the mean -(nu + 1), for g the gradients and any d with d_k = 1.
 * Here d is the regression of all coordinates on x_k, which in a Gaussian leaves no noise. The largest nu counts, of
 * shares of the posterior beyond some distance: there may be a wide mode of little mass. k = 2 / nu, which is too large
 * by as much as tails are not yet a power there. NAN: too few draws are far out, or slopes along bent ridges scatter
 * too much. */
static double slope_tail(const wv_moments_input *in, size_t k, const double *mean, const double *d)
{
    size_t n = in->draws->n, D = in->D, mark = wv_arena_mark(in->arena);
    double *off = wv_arena_take(in->arena, n), nu = -INFINITY, last = 0;
    uint32_t *far = wv_arena_take_index(in->arena, n), *order = wv_arena_take_index(in->arena, n);
    far_sums s = {0, 0, 0, 0, 0};
    for (size_t i = 0; i < n; i++)
        off[i] = fabs(in->draws->x[i * D + k] - mean[k]);
    size_t found = find_far(n, off, in->v, far);
    wv_weights_order(found, off, order, in->arena);
    for (size_t o = found; o-- > 0 && s.v < wv_policy.tail_slope_far;) {
        size_t i = far[order[o]];
        double v = in->v[i],
               r = (in->draws->x[i * D + k] - mean[k]) * cblas_ddot((int)D, d, 1, in->draws->grad + i * D, 1);
        if (!(v > 0))
            continue;
        s.v += v;
        s.vr += v * r;
        s.vv += v * v;
        s.vvr += v * v * r;
        s.vvrr += v * v * r * r;
        if (s.v * s.v < wv_policy.tail_slope_draws * s.vv || s.v < 2 * last)
            continue;
        last = s.v;
        nu = fmax(nu, degrees(&s));
    }
    wv_arena_release(in->arena, mark);
    return nu > -INFINITY ? 2 / fmax(nu, wv_policy.tail_slope_least) - wv_policy.tail_slope_excess : NAN;
}

/* Tail indices of the coordinates are no less than slopes say, where their sds have errors worth a warning. */
static void look_at_slopes(const wv_moments_input *in, wv_moments to)
{
    size_t D = in->D, mark = wv_arena_mark(in->arena);
    double *mean = wv_arena_take(in->arena, D), *root = wv_arena_take(in->arena, D * D),
           *d = wv_arena_take(in->arena, D);
    if (in->draws->shape.gradients && stein_holds(in) && wv_mixture_moments(in->mix, mean, root, in->arena))
        for (size_t k = 0; k < D; k++) {
            if (!(to.sd_se[k] > wv_policy.tail_harmless * sqrt(to.var[k])))
                continue;
            cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)D, (int)D, 1, root, (int)D, root + k * D, 1, 0, d, 1);
            cblas_dscal((int)D, 1 / d[k], d, 1);
            to.tail_k[k] = fmax(to.tail_k[k], slope_tail(in, k, mean, d));
        }
    wv_arena_release(in->arena, mark);
}

/* ---- estimates --------------------------------------------------------------------------------------------------- */
bool wv_moments_tilts(const wv_moments_input *in, const wv_moments_tilt *tilt)
{
    size_t mark = wv_arena_mark(in->arena);
    functions f = new_functions(in, in->D, in->D, in->draws->x);
    weigh(in, &f);
    if (tilt->valid)
        tilt_moments(in, tilt, &f);
    bool small = tilt->valid && small_correction(&f);
    wv_arena_release(in->arena, mark);
    return small;
}

/* value[n][m] <- less their means within the modes of their draws. */
static void centre_in_modes(const wv_moments_input *in, size_t m, double *value)
{
    size_t n = in->draws->n, mark = wv_arena_mark(in->arena), *mode = wv_arena_take_sizes(in->arena, n);
    double *mean = wv_arena_take(in->arena, in->modes * m), *mass = wv_arena_take(in->arena, in->modes);
    memset(mean, 0, in->modes * m * sizeof *mean);
    memset(mass, 0, in->modes * sizeof *mass);
    wv_mixture_owners(in->mix, n, in->draws->x, mode, in->arena);
    for (size_t i = 0; i < n; i++) {
        mode[i] = in->mode[mode[i]];
        mass[mode[i]] += in->v[i];
        if (in->v[i] > 0)
            cblas_daxpy((int)m, in->v[i], value + i * m, 1, mean + mode[i] * m, 1);
    }
    for (size_t i = 0; i < n; i++)
        if (in->v[i] > 0)
            cblas_daxpy((int)m, -1 / mass[mode[i]], mean + mode[i] * m, 1, value + i * m, 1);
    wv_arena_release(in->arena, mark);
}

/* Tail indices are those within modes: a light mode that is far away determines the sd, but is no tail. */
static void find_tails(const wv_moments_input *in, size_t m, size_t ld, const double *value, wv_moments to)
{
    size_t n = in->draws->n, mark = wv_arena_mark(in->arena);
    const double *mean = to.mean;
    if (in->modes > 1) {
        double *centred = wv_arena_take(in->arena, n * m), *zero = wv_arena_take(in->arena, m);
        memset(zero, 0, m * sizeof *zero);
        for (size_t i = 0; i < n; i++)
            memcpy(centred + i * m, value + i * ld, m * sizeof *centred);
        centre_in_modes(in, m, centred);
        value = centred;
        mean = zero;
        ld = m;
    }
    wv_weights_tail_indices(n, in->v, m, value, ld, mean, to.var, to.sd_se, to.tail_k, in->arena);
    wv_arena_release(in->arena, mark);
}

/* Of m functions. Where the tilt is no small correction there is none; returns whether there is. */
static bool estimate(const wv_moments_input *in, const wv_moments_tilt *tilt, size_t m, size_t ld, const double *value,
                     wv_moments to)
{
    size_t mark = wv_arena_mark(in->arena);
    functions f = new_functions(in, m, ld, value);
    weigh(in, &f);
    tilt = tilt->valid ? tilt : NULL;
    tilt_moments(in, tilt, &f);
    if (tilt && !small_correction(&f)) {
        tilt = NULL;
        tilt_moments(in, NULL, &f);
    }
    for (size_t k = 0; k < m; k++) {
        double sd = 1 / f.scale[k];
        to.mean[k] = f.centre[k] + sd * f.mean[k];
        to.var[k] = sd * sd * f.var[k];
    }
    double *u = wv_arena_take(in->arena, in->draws->n);
    wv_moments_ratio(in, u);
    cblas_dscal((int)in->draws->n, 1 / (double)in->draws->n, u, 1);
    find_controls(in, &f, u);
    for (size_t k = 0; k < m; k += FUNCTIONS)
        estimate_errors(in, tilt, &f, k, m - k < FUNCTIONS ? m - k : FUNCTIONS, u, to);
    if (to.sd_se)
        find_tails(in, m, ld, value, to);
    if (to.sd_se && value == in->draws->x && in->modes < 2) /* a light mode would seem a tail */
        look_at_slopes(in, to);
    wv_arena_release(in->arena, mark);
    return tilt;
}

bool wv_moments_estimate(const wv_moments_input *in, const wv_moments_tilt *tilt, wv_moments to)
{
    return estimate(in, tilt, in->D, in->D, in->draws->x, to);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */
/* Whether there is nothing to estimate of a function, whose values are m apart: it is the same at all draws of
 * weight, two at least, or no finite number at one. *mean is then its mean, or NAN. */
static bool is_plain(const wv_moments_input *in, size_t m, const double *value, double *mean)
{
    size_t counted = 0, same = 0;
    for (size_t i = 0; i < in->draws->n; i++) {
        double here = value[i * m];
        if (!(in->v[i] > 0))
            continue;
        if (!isfinite(here)) {
            *mean = NAN;
            return true;
        }
        *mean = counted++ ? *mean : here;
        same += here == *mean;
    }
    return counted > 1 && same == counted;
}

/* From function k on. */
static wv_moments from(wv_moments to, size_t k)
{
    return (wv_moments){to.mean + k, to.var + k, to.mcse + k, to.sd_se ? to.sd_se + k : NULL,
                        to.sd_se ? to.tail_k + k : NULL};
}

/* In runs of at most D functions, between those that have to be left out: they would deprive others of the tilt. */
void wv_moments_of(const wv_moments_input *in, const wv_moments_tilt *tilt, size_t m, const double *value,
                   wv_moments to)
{
    for (size_t at = 0, run; at < m;) {
        for (run = 0; run < in->D && at + run < m && !is_plain(in, m, value + at + run, &to.mean[at + run]);)
            run++;
        if (run)
            estimate(in, tilt, run, m, value + at, from(to, at));
        else {
            to.var[at] = to.mcse[at] = 0 * to.mean[at];
            if (to.sd_se) {
                to.sd_se[at] = 0 * to.mean[at];
                to.tail_k[at] = NAN;
            }
        }
        at += run ? run : 1;
    }
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */
/* Standard error of a probability that pairs do not show: of the ridge. */
static const double least_share_error = 2e-5;

/* A[n/2][m]: what pairs add to the probabilities of functions from number `from` on. */
static void pair_levels(const wv_moments_input *in, const wv_moments_levels *l, size_t from, size_t m, const double *u,
                        double *A)
{
    memset(A, 0, wv_draws_units(in->draws) * m * sizeof *A);
    for (size_t i = 0; i < in->draws->n; i++) {
        const double *value = l->value + i * l->ld;
        for (size_t k = from; k < from + m; k++) {
            double below = value[k] <= l->at[k];
            A[unit(in, i) * m + k - from] += in->v[i] * below -
                                             (l->slope ? l->slope[k] * u[i] * (below - l->share[k]) : 0);
        }
    }
}

void wv_moments_below(const wv_moments_input *in, const wv_moments_tilt *tilt, const wv_moments_levels *l, double *se)
{
    size_t n = in->draws->n, most = l->m < FUNCTIONS ? l->m : FUNCTIONS, mark = wv_arena_mark(in->arena);
    double *u = wv_arena_take(in->arena, n), *A = wv_arena_take(in->arena, wv_draws_units(in->draws) * most),
           *spare = wv_arena_take(in->arena, most), kept = tilt ? tilt->kept : 1;
    wv_moments_ratio(in, u);
    cblas_dscal((int)n, 1 / (double)n, u, 1);
    for (size_t from = 0; from < l->m; from += most) {
        size_t here = l->m - from < most ? l->m - from : most;
        pair_levels(in, l, from, here, u, A);
        centre_means(in, tilt, here, A, spare);
        square_errors(in, tilt, here, A, se + from, spare);
    }
    for (size_t k = 0; k < l->m; k++)
        se[k] = hypot(sqrt(se[k]) / kept, least_share_error);
    wv_arena_release(in->arena, mark);
}
