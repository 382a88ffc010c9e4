/* moments.c - moments from the weighted draws of the staged solver, and their standard errors as the draws were
 * made: in pairs that mirror each other, so many from each proposal. The mean of a function is a sum over pairs;
 * pairs of one proposal are independent, and only what varies among them is error.
 *
 * Stein calibration: for the posterior, with any m and C, y_i = (x_i - m_i) / sqrt(C_ii) and
 * g_i = (C grad log p~)_i / sqrt(C_ii), E[g_i] = 0 and E[y_i g_i] = -1; with m and C those of a mixture that is like
 * it g is nearly -y, and exactly so for a Gaussian. The weights v of the draws are tilted (by least squares) until
 * both hold in the sample: a control variate from gradients that have been paid for, which removes all noise from the
 * variances of a Gaussian (method, section 5).
 * With h = (g, y g + 1) and b = n sum v h for each pair, S the sum over proposals of the scatter of b among their
 * pairs: weights v (1 - (b - b_bar) . S^-1 sum b), b_bar the mean of the proposal.
 * What mirrored pairs, or the number of draws of each proposal, have fixed already does not vary, so that it is
 * left as it is: the masses of modes that lie apart, for one. */
#include "moments.h"
#include "gaussian.h"
#include "policy.h"
#include "simd/columns.h"
#include "dense.h"
#include "mixture.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum {
    PAIRS = WV_COLUMNS, /* of a block, which has those of one proposal only */
    GROUPS = 16,        /* of components */
    PROPOSALS = 256     /* whose means are kept */
};

/* What is wanted of the values. */
typedef enum { AS_THEY_ARE, SQUARED, BELOW } transform;

/* Functions of the parameters by their values at the stored draws: [n][m], m <= D, rows `ld` apart. The function is the
 * value, its square about `at`, or whether it is at most `at`. In the last two cases a value may be that of a
 * coordinate, whose distribution in the mixture q is known: (q/m) (function - share), share the mean of the function
 * under q, has mean 0, and `slope` times that is taken from the function as a control variate. */
typedef struct {
    size_t m, ld;
    const double *value;
    transform what;
    const double *at;            /* [m] */
    const double *share, *slope; /* [m]; NULL: no control variate */
} wanted;

/* Whether the weights are tilted. */
typedef enum { TILT_IF_SMALL, TILT, NO_TILT } tilting;

typedef struct {
    size_t p, q;                    /* statistics; these and functions */
    size_t groups;                  /* of the mixture's components, one for each mode: the last statistics */
    size_t *group;                  /* [K] group of each component */
    double *share;                  /* [GROUPS] weights of the groups */
    double freedom;                 /* pairs, less one for each proposal */
    double *square, *inverse;       /* [p] squares of the statistics over single draws; inverse scales */
    double *total, *c, *cross;      /* [p] sum of the statistics, tilt, scatter of b with the pairs' weights */
    double *sum;                    /* [q] sum over a proposal, of values, too */
    double *S;                      /* [q][q] scatter of statistics and values */
    double *V, *L;                  /* [p][p] V' V = S^-1; root of S */
    double *B;                      /* [m][p] slopes */
    double *H, *A, *Q;              /* [p], [m], [m][PAIRS] statistics, values and their squares of a block's
                                     * pairs, with weights; A follows H */
    double *draws;                  /* [7][D][PAIRS] coordinates, gradients, values of the first and second
                                     * draws, and gradients as they came */
    double *residual, *Z;           /* [p][PAIRS] statistics less their means, and with V */
    double *sd, *unit;              /* [D] units of the coordinates, and their inverses */
    double *mu, *root, *R;          /* [D], [D][D] of the mixture; its correlations times sd */
    double *centre, *scale, *least; /* [m] mean of the values without a tilt, 1 over their sd, and standard
                                     * error if draws were independent */
    double *mean;                   /* [m] mean, in sds, from centre */
    double *sums;                   /* [4][m] over a proposal: of what the statistics leave, its squares,
                                     * squared values, these times the tilt */
    double *var, *error;            /* [m] sums of these over proposals */
    double *largest;                /* [m] of squares: the largest squared error of a pair. Squares are skewed: as
                                     * large a pair may as well not have been drawn, which the sum would not show */
    double *level;                  /* [m] means of the values of one proposal */
    double *omega;                  /* [n] factors of the tilt, for the caller; or NULL */
    double *zero;                   /* [q] zeros */
    double *bar;                    /* [PROPOSALS][q + 2] means over the pairs of each proposal, in the
                                     * order of the draws: of b, of values (from centre), of weights;
                                     * and 1 over their number */
} stein;

/* Arrays for m functions, from the arena: their lengths in doubles. */
static stein new_stein(const wv_moments_input *in, size_t m)
{
    size_t D = in->D, p = 2 * D + GROUPS, q = p + m;
    stein s = {.p = 2 * D, .q = 2 * D + m, .group = wv_arena_take_sizes(in->arena, in->mix->K)};
    const struct {
        double **array;
        size_t length;
    } arrays[] = {
        {&s.share, GROUPS},
        {&s.square, p},
        {&s.inverse, p},
        {&s.total, p},
        {&s.c, p},
        {&s.cross, p},
        {&s.sum, q},
        {&s.S, q * q},
        {&s.V, p * p},
        {&s.L, p * p},
        {&s.B, m * p},
        {&s.H, q * PAIRS},
        {&s.Q, m * PAIRS},
        {&s.sd, D},
        {&s.unit, D},
        {&s.mu, D},
        {&s.draws, 7 * D * PAIRS},
        {&s.root, D * D},
        {&s.R, D * D},
        {&s.centre, m},
        {&s.residual, p * PAIRS},
        {&s.scale, m},
        {&s.least, m},
        {&s.mean, m},
        {&s.Z, p * PAIRS},
        {&s.var, m},
        {&s.error, m},
        {&s.largest, m},
        {&s.level, m},
        {&s.zero, q},
        {&s.sums, 4 * m},
        {&s.bar, PROPOSALS * (q + 2)},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i].array = wv_arena_take(in->arena, arrays[i].length);
    memset(s.zero, 0, q * sizeof *s.zero);
    return s;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */
/* A value as the function that is wanted. */
static double function_of(const wanted *w, size_t k, double value)
{
    return w->what == SQUARED ? (value - w->at[k]) * (value - w->at[k]) : w->what == BELOW ? value <= w->at[k] : value;
}

/* Values of n draws, turned into columns, as functions. */
static void turn_values(const wanted *w, size_t n, const double *value, size_t apart, double *block)
{
    wv_columns_turn_rows(w->m, n, value, apart, block);
    for (size_t k = 0; k < w->m && w->what != AS_THEY_ARE; k++)
        for (size_t i = 0; i < wv_columns_round(n); i++)
            block[k * WV_COLUMNS + i] = function_of(w, k, block[k * WV_COLUMNS + i]);
}

/* u[n] <- the density of the mixture over that of the draws, for n of them. */
static void mixture_ratio(const wv_moments_input *in, size_t first, size_t n, double *u)
{
    for (size_t i = 0; i < n; i++)
        u[i] = in->draws->log_mix[0][first + i] - in->draws->log_m[first + i];
    wv_weights_exp(n, u);
}

/* The means without a tilt, less those of the control variates. */
static void centre_controls(const wv_moments_input *in, const wanted *w, const stein *s)
{
    double u[WV_COLUMNS], n = (double)in->draws->n;
    for (size_t first = 0; first < in->draws->n; first += WV_COLUMNS) {
        size_t here = in->draws->n - first < WV_COLUMNS ? in->draws->n - first : WV_COLUMNS;
        mixture_ratio(in, first, here, u);
        for (size_t i = 0; i < here; i++)
            for (size_t k = 0; k < w->m; k++)
                s->centre[k] -= w->slope[k] * u[i] / n *
                                (function_of(w, k, w->value[(first + i) * w->ld + k]) - w->share[k]);
    }
}

/* Means, sds and standard errors under the weights as they are, as if draws were independent: from sums of what
 * values differ by from those of the first draw of weight. */
static void weighted(const wv_moments_input *in, const wanted *w, const stein *s)
{
    size_t m = w->m, n = in->draws->n, one = 0;
    double *sums = s->sums, *from = s->centre, v[WV_COLUMNS], squares = 0; /* sums of powers; the first draw's values */
    while (one + 1 < n && !(in->v[one] > 0))
        one++;
    for (size_t k = 0; k < m; k++)
        from[k] = function_of(w, k, w->value[one * w->ld + k]);
    memset(sums, 0, 4 * m * sizeof *sums);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS, whole = wv_columns_round(here);
        for (size_t i = 0; i < whole; i++) {
            v[i] = i < here ? in->v[first + i] : 0;
            squares += v[i] * v[i];
        }
        turn_values(w, here, w->value + first * w->ld, w->ld, s->draws);
        wv_columns_best()->powers(m, whole, v, s->draws, from, sums);
    }
    for (size_t k = 0; k < m; k++) {
        double mean = sums[k], var = sums[m + k] - mean * mean,
               least = sums[3 * m + k] - 2 * mean * sums[2 * m + k] + mean * mean * squares;
        s->centre[k] += mean;
        s->scale[k] = var > 0 ? 1 / sqrt(var) : 1;
        s->least[k] = sqrt(fmax(least, 0));
    }
    if (w->slope)
        centre_controls(in, w, s);
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */
/* Units and correlations of the mixture, whose mean and root are in place. */
static void correlate(const stein *s, size_t D)
{
    wv_family_get(WVGD_FULL)->sd(D, 0, s->root, s->sd);
    for (size_t i = 0; i < D; i++) {
        s->unit[i] = 1 / s->sd[i];
        cblas_dscal((int)D, s->unit[i], s->root + i * D, 1);
    }
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)D, (int)D, (int)D, 1.0, s->root, (int)D, s->root, (int)D,
                0.0, s->R, (int)D);
    for (size_t i = 0; i < D * D; i++)
        s->R[i] *= s->sd[i % D];
}

/* Which groups there are. */
static void form_groups(const wv_moments_input *in, stein *s, size_t m)
{
    memset(s->share, 0, GROUPS * sizeof *s->share);
    for (size_t k = 0; k < in->mix->K; k++) {
        size_t mode = in->modes > 1 ? in->mode[k] : 0;
        s->group[k] = mode < GROUPS ? mode : GROUPS - 1;
        s->share[s->group[k]] += in->mix->w[k];
    }
    s->groups = in->modes > 1 ? in->modes : 1;
    s->groups = s->groups < GROUPS ? s->groups : GROUPS;
    s->p = 2 * in->D + s->groups;
    s->q = s->p + m;
}

/* Pairs of one proposal, `pairs` from draw `first` on: columns of a block. */
typedef struct {
    size_t first, pairs, whole;
    double v[2][PAIRS]; /* n times the weights of first and second draws; 0 beyond the pairs */
} stretch;

static stretch next_stretch(const wv_moments_input *in, size_t first)
{
    const uint32_t *stratum = in->draws->stratum;
    stretch r = {.first = first, .pairs = 1};
    while (r.pairs < PAIRS && first + 2 * r.pairs < in->draws->n && stratum[first + 2 * r.pairs] == stratum[first])
        r.pairs++;
    r.whole = wv_columns_round(r.pairs);
    for (size_t i = 0; i < 2 * PAIRS; i++)
        r.v[i % 2][i / 2] = i < 2 * r.pairs ? (double)in->draws->n * in->v[first + i] : 0;
    return r;
}

/* Whether the proposal (of its batch) ends with the stretch. */
static bool last_of_proposal(const wv_moments_input *in, const stretch *r)
{
    size_t next = r->first + 2 * r->pairs;
    return next >= in->draws->n || in->draws->stratum[next] != in->draws->stratum[r->first];
}

/* u[n] <- the density of group g over that of the draws, for those of a stretch. */
static void group_ratio(const wv_moments_input *in, const stein *s, const stretch *r, size_t g, double *u)
{
    size_t n = 2 * r->pairs, mark = wv_arena_mark(in->arena);
    const double *log_m = in->draws->log_m + r->first;
    double *log_q = wv_arena_take(in->arena, n), *y = wv_arena_take(in->arena, n * in->D); /* [n], [n][D] */
    memset(u, 0, n * sizeof *u);
    for (size_t k = 0; k < in->mix->K; k++) {
        if (s->group[k] != g)
            continue;
        wv_gaussian q = wv_mixture_component(in->mix, k);
        wv_gaussian_log_density(&q, n, in->draws->x + r->first * in->D, log_q, y, in->arena);
        for (size_t i = 0; i < n; i++)
            u[i] += in->mix->w[k] * exp(log_q[i] - log_m[i]);
    }
    wv_arena_release(in->arena, mark);
}

/* Densities of the groups over that of the draws, less their weights, which are the means: sums over pairs into the
 * last rows of s->H. Adds squares over single draws to square, if that is not NULL. */
static void see_groups(const wv_moments_input *in, const stein *s, const stretch *r, double *square)
{
    double u[2 * PAIRS];
    for (size_t g = 0; g < s->groups; g++) {
        double *h = s->H + (2 * in->D + g) * PAIRS;
        if (s->groups == 1)
            mixture_ratio(in, r->first, 2 * r->pairs, u);
        else
            group_ratio(in, s, r, g, u);
        for (size_t i = 0; i < PAIRS; i++)
            h[i] = i < r->pairs ? (u[2 * i] - s->share[g]) + (u[2 * i + 1] - s->share[g]) : 0;
        for (size_t i = 0; square && i < 2 * r->pairs; i++)
            square[2 * in->D + g] += (u[i] - s->share[g]) * (u[i] - s->share[g]);
    }
}

/* Sums over the pairs of a stretch of the statistics, with n times the weights: s->H; and squares over single draws. */
static void pair_statistics(const wv_moments_input *in, const stein *s, const stretch *r, double *square)
{
    size_t D = in->D, size = D * PAIRS;
    double *x = s->draws, *g = x + 2 * size, *raw = x + 6 * size;
    for (size_t e = 0; e < 2; e++) {
        wv_columns_turn_rows(D, r->pairs, in->draws->x + (r->first + e) * D, 2 * D, x + e * size);
        wv_columns_turn_rows(D, r->pairs, in->draws->grad + (r->first + e) * D, 2 * D, raw);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)D, (int)r->whole, (int)D, 1.0, s->R, (int)D, raw,
                    PAIRS, 0.0, g + e * size, PAIRS);
    }
    wv_columns_best()->pair_scores(D, r->whole, r->v[0], r->v[1], g, g + size, x, x + size, s->mu, s->unit, s->H,
                                   square);
    see_groups(in, s, r, square);
}

/* Takes the control variates of the pairs of a stretch from s->A. */
static void control_values(const wv_moments_input *in, const wanted *w, const stein *s, const stretch *r)
{
    double u[2 * PAIRS];
    mixture_ratio(in, r->first, 2 * r->pairs, u);
    for (size_t i = 0; i < 2 * r->pairs; i++)
        for (size_t k = 0; k < w->m; k++)
            s->A[k * PAIRS + i / 2] -= s->scale[k] * w->slope[k] * u[i] / (double)in->draws->n *
                                       (function_of(w, k, w->value[(r->first + i) * w->ld + k]) - w->share[k]);
}

/* The same of the values, from `from`, in sds: s->A, with the weights themselves; and of their squares: s->Q.
 * turned: the statistics have the coordinates in columns already. */
static void pair_values(const wv_moments_input *in, const wanted *w, const stein *s, const stretch *r,
                        const double *from, bool turned)
{
    size_t size = in->D * PAIRS;
    double *y = s->draws;
    if (w->value != in->draws->x || w->what != AS_THEY_ARE || !turned) {
        y += 4 * size;
        for (size_t e = 0; e < 2; e++)
            turn_values(w, r->pairs, w->value + (r->first + e) * w->ld, 2 * w->ld, y + e * size);
    }
    wv_columns_best()->pair_values(w->m, r->whole, 1 / (double)in->draws->n, r->v[0], r->v[1], y, y + size, s->centre,
                                   s->scale, from, s->A, s->Q);
    if (w->slope)
        control_values(in, w, s, r);
}

/* Means over the pairs of a proposal that has ended. */
static void keep_means(const stein *s, size_t proposal, double pairs, double weight)
{
    double *bar = s->bar + proposal * (s->q + 2);
    if (proposal >= PROPOSALS)
        return;
    for (size_t k = 0; k < s->q; k++)
        bar[k] = s->sum[k] / pairs;
    bar[s->q] = weight / pairs;
    bar[s->q + 1] = 1 / pairs;
}

/* Sums and scatter of the statistics, and that with values and weights; squares of single draws. */
static void scatter(const wv_moments_input *in, const wanted *w, stein *s)
{
    size_t p = s->p, q = s->q, n = in->draws->n, proposal = 0;
    double pairs = 0, weight = 0, ones[PAIRS], both[PAIRS];
    const wv_columns *pass = wv_columns_best();
    double *const sums[] = {s->total, s->cross, s->square, s->sum};
    for (size_t i = 0; i < 4; i++)
        memset(sums[i], 0, (i < 3 ? p : q) * sizeof(double));
    memset(s->S, 0, q * q * sizeof(double));
    memset(s->mean, 0, w->m * sizeof(double));
    stretch r;
    for (size_t first = 0; first < n; first += 2 * r.pairs) {
        r = next_stretch(in, first);
        for (size_t i = 0; i < PAIRS; i++) {
            ones[i] = i < r.pairs;
            weight += both[i] = r.v[0][i] + r.v[1][i];
        }
        pair_statistics(in, s, &r, s->square);
        pair_values(in, w, s, &r, s->zero, true);
        wv_columns_product(q, r.whole, s->H, s->H, true, s->S);
        pass->mean(q, r.whole, ones, s->H, s->sum);
        pass->mean(p, r.whole, both, s->H, s->cross);
        pairs += (double)r.pairs;
        if (!last_of_proposal(in, &r))
            continue;
        /* what is left is scatter */
        cblas_dsyr(CblasRowMajor, CblasLower, (int)q, -1 / pairs, s->sum, 1, s->S, (int)q);
        cblas_daxpy((int)p, -weight / pairs, s->sum, 1, s->cross, 1);
        cblas_daxpy((int)p, 1.0, s->sum, 1, s->total, 1);
        s->freedom += pairs - 1;
        keep_means(s, proposal++, pairs, weight / (double)n);
        pairs = weight = 0;
        memset(s->sum, 0, q * sizeof(double));
    }
}

/* Of the scatter of a statistic, as a share of what it would be if draws did not come in pairs:
 * less than this is rounding. */
static const double ridge = 1e-8;

/* Scatter, sums and crosses in units of the statistics, with a ridge; false: a statistic is not finite. */
static bool scale_statistics(const stein *s)
{
    size_t p = s->p, q = s->q;
    for (size_t k = 0; k < p; k++) {
        s->inverse[k] = 1 / (sqrt(s->square[k]) + 1e-150);
        if (!isfinite(s->S[k * q + k]) || !isfinite(s->total[k]) || !(s->inverse[k] > 0))
            return false;
    }
    for (size_t k = 0; k < q; k++)
        for (size_t l = 0; l <= k && l < p; l++)
            s->S[k * q + l] *= (k < p ? s->inverse[k] : 1) * s->inverse[l];
    for (size_t k = 0; k < p; k++) {
        s->S[k * q + k] += ridge;
        s->c[k] = s->total[k] * s->inverse[k];
        s->cross[k] *= s->inverse[k];
    }
    return true;
}

/* Tilt, slopes and V in the units of the model, from those in units of the statistics: in s->c, in B [m][q], and by the
 * root in s->S. */
static void unscale(const stein *s, size_t m, const double *B)
{
    size_t p = s->p, q = s->q;
    for (size_t k = 0; k < p; k++) {
        memcpy(s->L + k * p, s->S + k * q, (k + 1) * sizeof(double));
        memset(s->L + k * p + k + 1, 0, (p - k - 1) * sizeof(double));
    }
    wv_dense_invert(p, s->L, s->V);
    for (size_t l = 0; l < p; l++) {
        for (size_t k = 0; k < m; k++)
            s->B[k * p + l] = B[k * q + l] * s->inverse[l];
        for (size_t k = l; k < p; k++)
            s->V[k * p + l] *= s->inverse[l];
        s->c[l] *= s->inverse[l];
    }
}

/* The tilt c, the mean under it, and slopes B = S^-1 scatter of b with (value - mean). False: there is no tilt. */
static bool solve(const wv_moments_input *in, const wanted *w, stein *s)
{
    size_t p = s->p, q = s->q, m = w->m;
    lapack_int size = (lapack_int)p, rows = (lapack_int)q;
    double n = (double)in->draws->n, *B = s->S + p * q; /* [m][q], of which the first p: what LAPACK takes for p x m */
    scatter(in, w, s);
    if (!(s->freedom > wv_policy.moments_freedom * (double)p) || !scale_statistics(s))
        return false;
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', size, s->S, rows) != 0 ||
        LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', size, 1, s->S, rows, s->c, size) != 0)
        return false;
    double kept = 1 - cblas_ddot((int)p, s->cross, 1, s->c, 1) / n; /* sum of the tilted weights */
    if (!(kept > wv_policy.moments_kept_least && kept < wv_policy.moments_kept_most))
        return false;
    for (size_t k = 0; k < m; k++) {
        s->mean[k] = -cblas_ddot((int)p, B + k * q, 1, s->c, 1) / kept; /* the values have mean 0 without the tilt */
        cblas_daxpy((int)p, -s->mean[k] / n, s->cross, 1, B + k * q, 1);
    }
    if (LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', size, (lapack_int)m, s->S, rows, B, rows) != 0)
        return false;
    unscale(s, m, B);
    return true;
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */
/* A proposal has ended with the pair before draw `end`: its part of the variances, of the squared errors and of the
 * weights, weight[n] (of which the pairs' tilts are in place). */
static void end_proposal(const wv_moments_input *in, const stein *s, size_t m, size_t end, size_t pairs, double *weight)
{
    double tilt = 0, n = (double)pairs;
    const double *e = s->sums, *ee = e + m, *square = ee + m, *tilted = square + m;
    for (size_t i = end - 2 * pairs; i < end; i += 2)
        tilt += weight[i] / n;
    for (size_t i = end - 2 * pairs; i < end; i++) {
        double omega = 1 - (weight[i] - tilt);
        weight[i] = in->v[i] * omega;
        if (s->omega)
            s->omega[i] = omega;
    }
    for (size_t k = 0; k < m; k++) {
        s->var[k] += square[k] - tilted[k] + tilt * square[k];
        s->error[k] += pairs > 1 ? n / (n - 1) * fmax(ee[k] - e[k] * e[k] / n, 0) : ee[k];
    }
    memset(s->sums, 0, 4 * m * sizeof(double));
}

/* Tilts t of a stretch's pairs, and what the statistics leave of their values, s->A, as if each had not been there
 * when the slopes were fitted: times `keep`, for a pair that pulls them its way leaves more than it seems (its
 * leverage is |V b|^2). All of it less the means of the proposal: what varies. (Those beyond PROPOSALS are left as
 * they are: their leverages, and so the errors, are too large.) */
static void leave_out(const stein *s, const stretch *r, size_t m, size_t proposal, double *t, double *keep)
{
    size_t p = s->p;
    const double *bar = proposal < PROPOSALS ? s->bar + proposal * (s->q + 2) : NULL;
    for (size_t k = 0; k < m; k++)
        s->level[k] = bar ? bar[p + k] - s->mean[k] * bar[p + m] : 0;
    wv_columns_best()->subtract(m, r->whole, s->A, s->level, s->A);
    wv_columns_whiten(p, r->whole, s->V, bar ? bar : s->zero, s->H, s->residual, s->Z, keep);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)r->whole, (int)p, -1.0, s->B, (int)p,
                s->residual, PAIRS, 1.0, s->A, PAIRS);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)p, (int)r->whole, 1.0, s->residual, PAIRS, s->c, 1, 0.0, t, 1);
    for (size_t i = 0; i < r->whole; i++)
        keep[i] = i < r->pairs ? 1 / (1 - fmin(keep[i] + (bar ? bar[p + m + 1] : 0), wv_policy.moments_leverage)) : 0;
}

/* The largest square that a pair leaves. */
static void see_largest(const stein *s, size_t m, size_t pairs, const double *keep)
{
    for (size_t k = 0; k < m; k++)
        for (size_t i = 0; i < pairs; i++) {
            double e = s->A[k * PAIRS + i] * keep[i];
            s->largest[k] = fmax(s->largest[k], e * e);
        }
}

/* Weights, into weight[n], variances and squared errors, with the tilt (or without: the mean is then
 * s->mean = 0). Returns the sum of the weights. */
static double tilt(const wv_moments_input *in, const wanted *w, const stein *s, bool tilted, double *weight)
{
    size_t m = w->m, n = in->draws->n, pairs = 0, proposal = 0;
    double t[PAIRS] = {0}, keep[PAIRS];
    memset(s->var, 0, m * sizeof(double));
    memset(s->error, 0, m * sizeof(double));
    memset(s->largest, 0, m * sizeof(double));
    memset(s->sums, 0, 4 * m * sizeof(double));
    stretch r;
    for (size_t first = 0; first < n; first += 2 * r.pairs) {
        r = next_stretch(in, first);
        for (size_t i = 0; i < PAIRS; i++)
            keep[i] = i < r.pairs;
        if (tilted)
            pair_statistics(in, s, &r, NULL);
        pair_values(in, w, s, &r, s->mean, tilted);
        if (tilted)
            leave_out(s, &r, m, proposal, t, keep);
        wv_columns_best()->pair_sums(m, r.whole, keep, t, s->A, s->Q, s->sums);
        if (w->what == SQUARED)
            see_largest(s, m, r.pairs, keep);
        for (size_t i = 0; i < r.pairs; i++)
            weight[first + 2 * i] = weight[first + 2 * i + 1] = t[i];
        pairs += r.pairs;
        if (last_of_proposal(in, &r)) {
            end_proposal(in, s, m, first + 2 * r.pairs, pairs, weight);
            pairs = 0;
            proposal++;
        }
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += weight[i];
    cblas_dscal((int)n, 1 / sum, weight, 1);
    return sum;
}

/* Standard error, in sds, that pairs do not show: that of the ridge, and of rounding. */
static const double least_error = 1e-6;

/* Do draws of that effective size and k-hat tell a tilt? */
static bool weights_tell(size_t D, double ess, double pareto_k)
{
    return ess > wv_policy.moments_ess * (double)D && !(pareto_k >= wv_policy.moments_pareto_k);
}

/* Is a tilt a small correction of a function, whose variance becomes var and whose mean moves by shift? sum: of the
 * weights; se: standard error as if draws were independent. */
static bool small_correction(double var, double sum, double shift, double se)
{
    return var > wv_policy.moments_var_least * sum && var < wv_policy.moments_var_most * sum &&
           shift < wv_policy.moments_shift * se;
}

/* What there is to know of m functions, [m] each, and weights [n] under which these are means; omega[n], unless it is
 * NULL: the factors that the tilt gives to draws. */
typedef struct {
    double *mean, *var, *mcse, *weight, *omega;
} estimates;

/* Means, variances and standard errors of the wanted functions, and the weights under which they are means. Where a
 * tilt is not safe, or no small correction, there is none, unless it is known to be one. Returns whether there is. */
static bool estimate(const wv_moments_input *in, const wanted *w, tilting how, estimates to)
{
    size_t m = w->m, n = in->draws->n, mark = wv_arena_mark(in->arena);
    stein s = new_stein(in, m);
    s.omega = to.omega;
    weighted(in, w, &s);
    bool tilted = how != NO_TILT && weights_tell(in->D, wv_weights_ess(n, in->v), in->pareto_k) &&
                  wv_mixture_moments(in->mix, s.mu, s.root, in->arena);
    if (tilted) {
        correlate(&s, in->D);
        form_groups(in, &s, m);
    }
    s.A = s.H + s.p * PAIRS;
    tilted = tilted && solve(in, w, &s);
    double sum = tilted ? tilt(in, w, &s, true, to.weight) : 1;
    for (size_t k = 0; k < m && tilted && how == TILT_IF_SMALL; k++)
        tilted = small_correction(s.var[k], sum, fabs(s.mean[k]) / s.scale[k], s.least[k]);
    if (!tilted) {
        memset(s.mean, 0, m * sizeof(double));
        sum = tilt(in, w, &s, false, to.weight);
    }
    for (size_t k = 0; k < m; k++) {
        double sd = 1 / s.scale[k];
        to.mean[k] = s.centre[k] + sd * s.mean[k];
        to.var[k] = sd * sd * s.var[k] / sum;
        to.mcse[k] = hypot(sd * hypot(sqrt(s.error[k] + s.largest[k]) / sum, least_error), 0x1p-52 * fabs(to.mean[k]));
    }
    wv_arena_release(in->arena, mark);
    return tilted;
}

/* ---- variances --------------------------------------------------------------------------------------------------- */
/* Mean of (z_c - at)^2 under the mixture. */
static double mixture_square(const wv_moments_input *in, size_t c, double at)
{
    double sum = 0;
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
static line line_along(const wv_moments_input *in, const wanted *w, size_t k, size_t c)
{
    const double *x = in->draws->x + c, *y = w->value + k, rounding = 1e-10;
    size_t n = in->draws->n, end = n - 1;
    double b = (y[end * w->ld] - y[0]) / (x[end * in->D] - x[0]), a = y[0] - b * x[0];
    for (size_t i = 0; i < n; i++)
        if (!(fabs(a + b * x[i * in->D] - y[i * w->ld]) <= rounding * (fabs(y[i * w->ld]) + fabs(a))))
            return (line){c, 0, 0};
    return (line){c, a, b};
}

static line line_of(const wv_moments_input *in, const wanted *w, size_t k)
{
    line l = {0, 0, 0};
    for (size_t c = 0; c < in->D && l.b == 0; c++)
        l = line_along(in, w, k, c);
    return l;
}

/* The slope of the squares about w->at, of mean var, on their control, no less than 0 and no more than 1: as for
 * quantiles. u[n]: density of the mixture over that of the draws. */
static double square_slope(const wv_moments_input *in, const wanted *w, size_t k, double var, const double *u)
{
    size_t n = in->draws->n;
    double cross = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double f = function_of(w, k, w->value[i * w->ld + k]) / var, c = u[i] * (f - w->share[k] / var);
        cross += in->v[i] * (f - 1) * c;
        squares += c * c;
    }
    double slope = cross * (double)n / squares;
    return slope > 0 ? fmin(slope, 1) : 0;
}

/* Controls for the squares of those functions that are lines along a coordinate: into share[m] and slope[m]. */
static void control_squares(const wv_moments_input *in, const wanted *w, const double *var, double *share,
                            double *slope)
{
    size_t n = in->draws->n, mark = wv_arena_mark(in->arena);
    double *u = wv_arena_take(in->arena, n);
    mixture_ratio(in, 0, n, u);
    for (size_t k = 0; k < w->m; k++) {
        line l = line_of(in, w, k);
        share[k] = l.b != 0 ? l.b * l.b * mixture_square(in, l.c, (w->at[k] - l.a) / l.b) : 0;
        slope[k] = l.b != 0 && var[k] > 0 && isfinite(share[k]) ? square_slope(in, w, k, var[k], u) : 0;
    }
    wv_arena_release(in->arena, mark);
}

/* Means, variances and errors of both, and tail indices. The variance is the mean of squares under the same tilt, and
 * with a control variate where the mixture tells it: what it knows of a wide mode of little mass few draws see. */
static void estimate_all(const wv_moments_input *in, wanted w, wv_moments to, double *weight)
{
    size_t m = w.m, mark = wv_arena_mark(in->arena);
    double *square = wv_arena_take(in->arena, m), *spare = wv_arena_take(in->arena, m), /* [m] */
                                                      *share = wv_arena_take(in->arena, m),
           *slope = wv_arena_take(in->arena, m), *se = wv_arena_take(in->arena, m),
           *other = wv_arena_take(in->arena, in->draws->n);
    bool tilted = estimate(in, &w, TILT_IF_SMALL, (estimates){to.mean, to.var, to.mcse, weight, NULL});
    w.what = SQUARED;
    w.at = to.mean;
    w.share = share;
    control_squares(in, &w, to.var, share, slope);
    w.slope = slope;
    estimate(in, &w, tilted ? TILT : NO_TILT, (estimates){square, spare, se, other, NULL});
    for (size_t k = 0; k < m; k++) {
        if (slope[k] > 0 && small_correction(square[k], to.var[k], 0, 1))
            to.var[k] = square[k];
        if (!to.sd_se)
            continue;
        to.sd_se[k] = to.var[k] > 0 ? se[k] / (2 * sqrt(to.var[k])) : NAN;
        to.tail_k[k] = wv_weights_tail_index(in->draws->n, in->v, w.value + k, w.ld, to.mean[k],
                                             to.sd_se[k] / sqrt(to.var[k]), in->arena);
    }
    wv_arena_release(in->arena, mark);
}

void wv_moments_estimate(const wv_moments_input *in, wv_moments to, double *weight)
{
    estimate_all(in, (wanted){.m = in->D, .ld = in->D, .value = in->draws->x}, to, weight);
}

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
void wv_moments_of(const wv_moments_input *in, size_t m, const double *value, wv_moments to)
{
    size_t mark = wv_arena_mark(in->arena);
    double *weight = wv_arena_take(in->arena, in->draws->n); /* [n] not wanted */
    for (size_t at = 0, run; at < m;) {
        for (run = 0; run < in->D && at + run < m && !is_plain(in, m, value + at + run, &to.mean[at + run]);)
            run++;
        if (run)
            estimate_all(in, (wanted){.m = run, .ld = m, .value = value + at}, from(to, at), weight);
        else {
            to.var[at] = to.mcse[at] = 0 * to.mean[at];
            if (to.sd_se) {
                to.sd_se[at] = 0 * to.mean[at];
                to.tail_k[at] = NAN;
            }
        }
        at += run ? run : 1;
    }
    wv_arena_release(in->arena, mark);
}

bool wv_moments_tilt(const wv_moments_input *in, double *omega)
{
    size_t D = in->D, mark = wv_arena_mark(in->arena);
    double *mean = wv_arena_take(in->arena, D), *var = wv_arena_take(in->arena, D),
           *mcse = wv_arena_take(in->arena, D); /* not wanted */
    bool tilted = estimate(in, &(wanted){.m = D, .ld = D, .value = in->draws->x}, TILT_IF_SMALL,
                           (estimates){mean, var, mcse, wv_arena_take(in->arena, in->draws->n), omega});
    wv_arena_release(in->arena, mark);
    return tilted;
}

/* Standard error of a probability that pairs do not show: of the ridge. */
static const double least_share_error = 2e-5;

void wv_moments_below(const wv_moments_input *in, const wv_moments_levels *l, bool tilted, double *mean, double *se)
{
    size_t mark = wv_arena_mark(in->arena);
    wanted w = {
        .m = l->m, .ld = l->ld, .value = l->value, .what = BELOW, .at = l->at, .share = l->share, .slope = l->slope};
    estimate(in, &w, tilted ? TILT : NO_TILT,
             (estimates){mean, wv_arena_take(in->arena, l->m), se, wv_arena_take(in->arena, in->draws->n), NULL});
    for (size_t k = 0; k < l->m; k++)
        se[k] = hypot(se[k], least_share_error);
    wv_arena_release(in->arena, mark);
}
