/* moments.c - moments from the weighted draws of the staged solver, and their standard errors as the draws were made: in pairs that mirror each other, so many from each proposal. The mean of a function
 * is a sum over pairs; pairs of one proposal are independent, and only what varies among them is error.
 *
 * Stein calibration: for the posterior, with any m and C, y_i = (x_i - m_i) / sqrt(C_ii) and g_i = (C grad log p~)_i / sqrt(C_ii), E[g_i] = 0 and E[y_i g_i] = -1; with m and C those of a
 * mixture that is like it g is nearly -y, and exactly so for a Gaussian. The weights v of the draws are tilted (by least squares) until both hold in the sample: a control variate from gradients
 * that have been paid for, which removes all noise from the variances of a Gaussian (method, section 5).
 * With h = (g, y g + 1) and b = n sum v h for each pair, S the sum over proposals of the scatter of b among their pairs: weights v (1 - (b - b_bar) . S^-1 sum b), b_bar the mean of the proposal.
 * What mirrored pairs, or the number of draws of each proposal, have settled already does not vary, so that it is left as it is: the masses of modes that lie apart, for one. */
#include "moments.h"
#include "close.h"
#include "dense.h"
#include "mix.h"
#include "modes.h"
#include "weight.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#define ROW CblasRowMajor

enum { PAIRS = WV_BLOCK / 2, GROUPS = 16, PROPOSALS = 256 }; /* of a block; of components; whose means are kept */

size_t wv_moments_work(size_t D)
{
    size_t p = 2 * D + GROUPS;
    return 5 * p + 3 * p * p + 2 * p * D + PAIRS * (2 * p + 2 * D) + WV_BLOCK * (2 * D + GROUPS) + 14 * D + 2 * D * D + PROPOSALS * (p + D + 2) + PAIRS;
}

/* Functions of the parameters by their values at the stored draws: [n][m], m <= D, rows `ld` apart. */
typedef struct {
    size_t m, ld;
    const double *value;
} wanted;

typedef struct {
    size_t p, groups;           /* statistics; the last are of groups of the mixture's components, one for each mode, */
    double share[GROUPS];       /* whose weights are these */
    double freedom;             /* pairs, less one for each proposal */
    double *inverse, *total, *c, *cross, *sum; /* [p] inverse scales of the statistics, their sum, tilt, scatter of b with the pairs' weights, sum over a proposal */
    double *S, *V, *spare;      /* [p][p] scatter, V V' = S^-1 */
    double *B, *turned;         /* [m][p] scatter with the values, then slopes, [p][m] the same */
    double *H, *Z, *A, *Q;      /* [PAIRS][p] statistics, with V, [PAIRS][m] values and their squares of a block's pairs, with weights */
    double *Y, *G, *U;          /* [WV_BLOCK][D] y and g of a block, [WV_BLOCK][groups] densities of the mixture's groups over that of the draws */
    double *sd, *unit;          /* [D] units of the coordinates, and their inverses */
    double *mu, *root, *R;      /* [D], [D][D] of the mixture; its correlations */
    double *centre, *scale, *least; /* [m] mean of the values without a tilt, sd, and standard error if draws were independent */
    double *mean, *all;         /* [m] mean, in units of scale, from centre; sum of values */
    double *e, *ee, *q, *tq;    /* [m] sums over a proposal: of what the statistics leave, its squares, squared values, these times the tilt */
    double *var, *error;        /* [m] sums of these over proposals */
    double *bar;                /* [PROPOSALS][p + m + 2] means over the pairs of each proposal, in the order of the draws: of b, of values (from centre), of weights; and 1 over their number */
    double *own;                /* [PAIRS] that number for the pairs of a block: the leverage that each has on its proposal's mean */
} stein;

static stein names(wvgd_fit *f)
{
    size_t D = f->D, p = 2 * D + GROUPS;
    double *at = f->stein;
    stein s = {.inverse = at, .total = at + p, .c = at + 2 * p, .cross = at + 3 * p, .sum = at + 4 * p, .S = at + 5 * p};
    double **const next[] = {&s.centre, &s.scale, &s.least, &s.mean, &s.all, &s.e, &s.ee, &s.q, &s.tq, &s.var, &s.error, &s.sd, &s.unit, &s.mu};
    s.V = s.S + p * p;
    s.spare = s.V + p * p;
    s.B = s.spare + p * p;
    s.turned = s.B + p * D;
    s.H = s.turned + p * D;
    s.Z = s.H + PAIRS * p;
    s.A = s.Z + PAIRS * p;
    s.Q = s.A + PAIRS * D;
    s.Y = s.Q + PAIRS * D;
    s.G = s.Y + WV_BLOCK * D;
    s.U = s.G + WV_BLOCK * D;
    s.root = s.U + WV_BLOCK * GROUPS;
    s.R = s.root + D * D;
    for (size_t i = 0; i < sizeof next / sizeof *next; i++)
        *next[i] = s.R + D * D + i * D;
    s.bar = s.R + D * D + sizeof next / sizeof *next * D;
    s.own = s.bar + PROPOSALS * (p + D + 2);
    return s;
}

/* ---- values ---------------------------------------------------------------------------------------------------------------------- */
/* Means, sds and standard errors under the weights as they are, as if draws were independent. */
static void weighted(wvgd_fit *f, const wanted *w, const stein *s)
{
    size_t m = w->m, n = f->close.n;
    double *const sums[] = {s->centre, s->scale, s->least};
    for (size_t i = 0; i < 3; i++)
        memset(sums[i], 0, m * sizeof(double));
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < m && f->close_v[k] > 0; i++)
            s->centre[i] += f->close_v[k] * w->value[k * w->ld + i];
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < m && f->close_v[k] > 0; i++) {
            double d = w->value[k * w->ld + i] - s->centre[i], v = f->close_v[k];
            s->scale[i] += v * d * d;
            s->least[i] += v * v * d * d;
        }
    for (size_t i = 0; i < m; i++) {
        s->scale[i] = s->scale[i] > 0 ? sqrt(s->scale[i]) : 1;
        s->least[i] = sqrt(s->least[i]);
    }
}

/* Sums over the pairs of a block of the values, from `from` in their units, with weights: s->A; and of their squares: s->Q. */
static void pair_values(const wvgd_fit *f, const wanted *w, const stein *s, size_t first, size_t n, const double *from)
{
    size_t m = w->m;
    memset(s->A, 0, n / 2 * m * sizeof(double));
    memset(s->Q, 0, n / 2 * m * sizeof(double));
    for (size_t i = 0; i < n; i++) {
        const double *value = w->value + (first + i) * w->ld;
        double v = f->close_v[first + i], *a = s->A + i / 2 * m, *q = s->Q + i / 2 * m;
        for (size_t k = 0; k < m && v > 0; k++) {
            double d = (value[k] - s->centre[k]) / s->scale[k] - from[k];
            a[k] += v * d;
            q[k] += v * d * d;
        }
    }
}

/* ---- statistics ------------------------------------------------------------------------------------------------------------------ */
/* Units and correlations of the mixture, whose mean and root are in place. */
static void correlate(const stein *s, size_t D)
{
    wv_family_get(WVGD_FULL)->sd(D, 0, s->root, s->sd);
    for (size_t i = 0; i < D; i++) {
        s->unit[i] = 1 / s->sd[i];
        cblas_dscal((int)D, s->unit[i], s->root + i * D, 1);
    }
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)D, (int)D, (int)D, 1.0, s->root, (int)D, s->root, (int)D, 0.0, s->R, (int)D);
}

/* The group of the mixture's component k. */
static size_t group_of(wvgd_fit *f, size_t k)
{
    size_t m = f->s.modes > 1 ? wv_modes_nearest(f, f->s.modes, f->mix.mu + k * f->D) : 0;
    return m < GROUPS ? m : GROUPS - 1;
}

/* Which groups there are. */
static void form_groups(wvgd_fit *f, stein *s)
{
    size_t D = f->D;
    memset(s->share, 0, sizeof s->share);
    for (size_t k = 0; k < f->s.mix.K; k++) {
        f->mix_e[k] = (double)group_of(f, k);
        s->share[(size_t)f->mix_e[k]] += f->mix.w[k];
    }
    s->groups = f->s.modes > 1 ? f->s.modes : 1;
    s->groups = s->groups < GROUPS ? s->groups : GROUPS;
    s->p = 2 * D + s->groups;
}

/* Densities of the groups over that of the draws, less their weights, which are the means, at the draws first .. first + n: s->U. */
static void see_groups(wvgd_fit *f, const stein *s, size_t first, size_t n)
{
    double *log_q = f->glu;
    for (size_t i = 0; i < n; i++)
        for (size_t g = 0; g < s->groups; g++)
            s->U[i * s->groups + g] = -s->share[g];
    for (size_t k = 0; k < f->s.mix.K && s->groups > 1; k++) {
        wv_gauss q = wv_mix_component(f, k);
        wv_component_log_density(&q, n, f->close.x + first * f->D, log_q, f->y, f->work);
        for (size_t i = 0; i < n; i++)
            s->U[i * s->groups + (size_t)f->mix_e[k]] += f->mix.w[k] * exp(log_q[i] - f->close.log_m[first + i]);
    }
    for (size_t i = 0; i < n && s->groups == 1; i++)
        s->U[i] += exp(f->close.log_mix[0][first + i] - f->close.log_m[first + i]);
}

/* Sums over the pairs of a block of the statistics, with n times the weights: s->H. Adds squares over single draws to square[p], if that is not NULL. */
static void pair_statistics(wvgd_fit *f, const stein *s, size_t first, size_t n, double *square)
{
    size_t D = f->D, p = s->p;
    const double *x = f->close.x + first * D, *grad = f->close.grad + first * D;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < D; k++)
            s->Y[i * D + k] = grad[i * D + k] * s->sd[k];
    wv_dense_product(n, D, s->Y, D, s->R, 1, 0, s->G);
    see_groups(f, s, first, n);
    memset(s->H, 0, n / 2 * p * sizeof(double));
    for (size_t i = 0; i < n; i++) {
        double v = (double)f->close.n * f->close_v[first + i], *h = s->H + i / 2 * p;
        const double *g = s->G + i * D;
        for (size_t k = 0; k < D && v > 0; k++) {
            double odd = v * g[k], even = v * (g[k] * ((x[i * D + k] - s->mu[k]) * s->unit[k]) + 1);
            h[k] += odd;
            h[D + k] += even;
            if (square) {
                square[k] += odd * odd;
                square[D + k] += even * even;
            }
        }
        for (size_t k = 2 * D; k < p; k++) {
            double u = s->U[i * s->groups + k - 2 * D];
            h[k] += u;
            if (square)
                square[k] += u * u;
        }
    }
}

/* Weight of a pair, n times. */
static double pair_weight(const wvgd_fit *f, size_t first)
{
    return (double)f->close.n * (f->close_v[first] + f->close_v[first + 1]);
}

/* Whether the pair that begins with draw i is the last of its proposal (in its batch). */
static bool last_of_proposal(const wvgd_fit *f, size_t i)
{
    return i + 2 >= f->close.n || f->close.stratum[i + 2] != f->close.stratum[i];
}

/* Takes from the sums of products over all pairs those of the sums over one proposal, divided by its pairs: what is left is scatter. */
static void centre_products(const stein *s, size_t m, double pairs, double weight, const double *values)
{
    cblas_dsyr(ROW, CblasLower, (int)s->p, -1 / pairs, s->sum, 1, s->S, (int)s->p);
    cblas_dger(ROW, (int)m, (int)s->p, -1 / pairs, values, 1, s->sum, 1, s->B, (int)s->p);
    cblas_daxpy((int)s->p, -weight / pairs, s->sum, 1, s->cross, 1);
}

/* Means over the pairs of a proposal that has ended. */
static void keep_means(const stein *s, size_t m, size_t proposal, double pairs, double weight)
{
    double *bar = s->bar + proposal * (s->p + m + 2);
    if (proposal >= PROPOSALS)
        return;
    for (size_t k = 0; k < s->p; k++)
        bar[k] = s->sum[k] / pairs;
    for (size_t k = 0; k < m; k++)
        bar[s->p + k] = s->e[k] / pairs;
    bar[s->p + m] = weight / pairs;
    bar[s->p + m + 1] = 1 / pairs;
}

/* Sums and scatter of the statistics, and that with values and weights; squares of single draws into s->inverse. */
static void scatter(wvgd_fit *f, const wanted *w, stein *s)
{
    size_t p = s->p, m = w->m, n = f->close.n, proposal = 0;
    double pairs = 0, weight = 0, *zero = s->mean;
    double *const sums[] = {s->total, s->cross, s->sum, s->inverse};
    for (size_t i = 0; i < 4; i++)
        memset(sums[i], 0, p * sizeof(double));
    memset(s->S, 0, p * p * sizeof(double));
    memset(s->B, 0, p * m * sizeof(double));
    memset(s->e, 0, m * sizeof(double));
    memset(zero, 0, m * sizeof(double));
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        pair_statistics(f, s, first, here, s->inverse);
        pair_values(f, w, s, first, here, zero);
        wv_dense_cross(here / 2, p, s->H, p, s->H, true, s->S);
        wv_dense_cross(here / 2, m, s->A, p, s->H, false, s->B);
        for (size_t i = 0; i < here; i += 2) {
            double c = pair_weight(f, first + i);
            cblas_daxpy((int)p, 1.0, s->H + i / 2 * p, 1, s->sum, 1);
            cblas_daxpy((int)p, c, s->H + i / 2 * p, 1, s->cross, 1);
            cblas_daxpy((int)m, 1.0, s->A + i / 2 * m, 1, s->e, 1);
            weight += c;
            pairs++;
            if (!last_of_proposal(f, first + i))
                continue;
            centre_products(s, m, pairs, weight, s->e);
            cblas_daxpy((int)p, 1.0, s->sum, 1, s->total, 1);
            s->freedom += pairs - 1;
            keep_means(s, m, proposal++, pairs, weight / (double)n);
            pairs = weight = 0;
            memset(s->sum, 0, p * sizeof(double));
            memset(s->e, 0, m * sizeof(double));
        }
    }
}

/* Of the scatter of a statistic, as a share of what it would be if draws did not come in pairs: less than this is rounding. */
static const double ridge = 1e-8;

/* The tilt c, the mean under it, and slopes B = S^-1 scatter of b with (value - mean). B is made transposed, [m][p]: what LAPACK takes for p x m. False: there is no tilt. */
static bool solve(wvgd_fit *f, const wanted *w, stein *s)
{
    size_t p = s->p, m = w->m;
    lapack_int size = (lapack_int)p;
    double n = (double)f->close.n;
    scatter(f, w, s);
    if (!(s->freedom > 2 * (double)p))
        return false;
    for (size_t k = 0; k < p; k++) {
        s->inverse[k] = 1 / (sqrt(s->inverse[k]) + 1e-150);
        if (!isfinite(s->S[k * p + k]) || !isfinite(s->total[k]) || !(s->inverse[k] > 0))
            return false;
    }
    for (size_t k = 0; k < p; k++) {
        for (size_t l = 0; l <= k; l++)
            s->S[k * p + l] *= s->inverse[k] * s->inverse[l];
        s->S[k * p + k] += ridge;
        s->c[k] = s->total[k] * s->inverse[k];
        s->cross[k] *= s->inverse[k];
    }
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', size, s->S, size) != 0 || LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', size, 1, s->S, size, s->c, size) != 0)
        return false;
    double kept = 1 - cblas_ddot((int)p, s->cross, 1, s->c, 1) / n; /* sum of the tilted weights */
    if (!(kept > 0.5 && kept < 2))
        return false;
    for (size_t k = 0; k < m; k++) {
        for (size_t l = 0; l < p; l++)
            s->B[k * p + l] *= s->inverse[l];
        s->mean[k] = -cblas_ddot((int)p, s->B + k * p, 1, s->c, 1) / kept; /* the values have mean 0 without the tilt */
        cblas_daxpy((int)p, -s->mean[k] / n, s->cross, 1, s->B + k * p, 1);
    }
    if (LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', size, (lapack_int)m, s->S, size, s->B, size) != 0)
        return false;
    for (size_t k = 0; k < p; k++)
        memset(s->S + k * p + k + 1, 0, (p - k - 1) * sizeof(double));
    wv_dense_invert(p, s->S, s->spare);
    for (size_t l = 0; l < p; l++) {
        for (size_t k = 0; k < m; k++)
            s->turned[l * m + k] = s->B[k * p + l] * s->inverse[l];
        for (size_t k = 0; k < p; k++)
            s->V[l * p + k] = s->spare[k * p + l] * s->inverse[l];
        s->c[l] *= s->inverse[l];
    }
    return true;
}

/* ---- moments --------------------------------------------------------------------------------------------------------------------- */
/* A proposal has ended with the pair before draw `end`: its part of the variances, of the squared errors and of the weights, weight[n] (of which the pairs' tilts are in place). */
static void end_proposal(const wvgd_fit *f, const stein *s, size_t m, size_t end, size_t pairs, double *weight)
{
    double tilt = 0, n = (double)pairs;
    for (size_t i = end - 2 * pairs; i < end; i += 2)
        tilt += weight[i] / n;
    for (size_t i = end - 2 * pairs; i < end; i++)
        weight[i] = f->close_v[i] * (1 - (weight[i] - tilt));
    for (size_t k = 0; k < m; k++) {
        s->var[k] += s->q[k] - s->tq[k] + tilt * s->q[k];
        s->error[k] += pairs > 1 ? n / (n - 1) * fmax(s->ee[k] - s->e[k] * s->e[k] / n, 0) : s->ee[k];
        s->e[k] = s->ee[k] = s->q[k] = s->tq[k] = 0;
    }
}

/* What the statistics leave of the values of a block's pairs, as if each had not been there when the slopes were fitted: a pair that pulls them its way leaves more than it seems (its leverage is |b' V|^2). */
static void leave_out(const stein *s, size_t m, size_t pairs)
{
    size_t p = s->p;
    wv_dense_product(pairs, p, s->H, m, s->turned, -1, 1, s->A);
    wv_dense_product(pairs, p, s->H, p, s->V, 1, 0, s->Z);
    for (size_t i = 0; i < pairs; i++) {
        double leverage = s->own[i] + cblas_ddot((int)p, s->Z + i * p, 1, s->Z + i * p, 1);
        cblas_dscal((int)m, 1 / (1 - fmin(leverage, 0.9)), s->A + i * m, 1);
    }
}

/* Statistics and values of a block's pairs less the means of their proposals, the first of which is *proposal: what varies. (Those beyond PROPOSALS are left as they are: their leverages, and so the errors, are too large.) */
static void centre_pairs(const wvgd_fit *f, const stein *s, size_t m, size_t first, size_t n, size_t *proposal)
{
    for (size_t i = 0; i < n; i += 2) {
        const double *bar = s->bar + *proposal * (s->p + m + 2);
        double *a = s->A + i / 2 * m;
        s->own[i / 2] = *proposal < PROPOSALS ? bar[s->p + m + 1] : 0;
        if (*proposal < PROPOSALS) {
            cblas_daxpy((int)s->p, -1.0, bar, 1, s->H + i / 2 * s->p, 1);
            for (size_t k = 0; k < m; k++)
                a[k] -= bar[s->p + k] - s->mean[k] * bar[s->p + m];
        }
        *proposal += last_of_proposal(f, first + i) ? 1 : 0;
    }
}

/* Weights, into weight[n], variances and squared errors, with the tilt (or without: the mean is then s->mean = 0). Returns the sum of the weights. */
static double tilt(wvgd_fit *f, const wanted *w, const stein *s, bool tilted, double *weight)
{
    size_t p = s->p, m = w->m, n = f->close.n, pairs = 0, proposal = 0;
    double *const sums[] = {s->e, s->ee, s->q, s->tq, s->var, s->error}, *t = f->block;
    for (size_t i = 0; i < 6; i++)
        memset(sums[i], 0, m * sizeof(double));
    memset(t, 0, PAIRS * sizeof *t);
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        pair_values(f, w, s, first, here, s->mean);
        if (tilted) {
            pair_statistics(f, s, first, here, NULL);
            centre_pairs(f, s, m, first, here, &proposal);
            cblas_dgemv(ROW, CblasNoTrans, (int)here / 2, (int)p, 1.0, s->H, (int)p, s->c, 1, 0.0, t, 1);
            leave_out(s, m, here / 2);
        }
        for (size_t i = 0; i < here; i += 2) {
            const double *e = s->A + i / 2 * m, *q = s->Q + i / 2 * m;
            weight[first + i] = weight[first + i + 1] = t[i / 2];
            for (size_t k = 0; k < m; k++) {
                s->e[k] += e[k];
                s->ee[k] += e[k] * e[k];
                s->q[k] += q[k];
                s->tq[k] += t[i / 2] * q[k];
            }
            pairs++;
            if (last_of_proposal(f, first + i)) {
                end_proposal(f, s, m, first + i + 2, pairs, weight);
                pairs = 0;
            }
        }
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += weight[i];
    cblas_dscal((int)n, 1 / sum, weight, 1);
    return sum;
}

/* Standard error, in sds, that pairs do not show: that of the ridge, and of rounding. */
static const double unseen = 1e-6;

/* Means, variances and standard errors of the wanted functions, and the weights under which they are means. Where a tilt is not safe, or no small correction, there is none. */
static void estimate(wvgd_fit *f, const wanted *w, double *mean, double *var, double *mcse, double *weight)
{
    size_t m = w->m, n = f->close.n;
    stein s = names(f);
    weighted(f, w, &s);
    bool tilted = wv_weight_ess(n, f->close_v) > 10 * (double)f->D && f->s.pareto_k < 0.7 && wv_mix_moments(f, s.mu, s.root);
    if (tilted) {
        correlate(&s, f->D);
        form_groups(f, &s);
        tilted = solve(f, w, &s);
    }
    double sum = tilted ? tilt(f, w, &s, true, weight) : 1;
    for (size_t k = 0; k < m && tilted; k++)
        tilted = s.var[k] > 0.25 * sum && s.var[k] < 4 * sum && fabs(s.mean[k]) * s.scale[k] < 6 * s.least[k];
    if (!tilted) {
        memset(s.mean, 0, m * sizeof(double));
        sum = tilt(f, w, &s, false, weight);
    }
    for (size_t k = 0; k < m; k++) {
        mean[k] = s.centre[k] + s.scale[k] * s.mean[k];
        var[k] = s.scale[k] * s.scale[k] * s.var[k] / sum;
        mcse[k] = hypot(s.scale[k] * hypot(sqrt(s.error[k]) / sum, unseen), 0x1p-52 * fabs(mean[k]));
    }
}

void wv_moments_estimate(wvgd_fit *f)
{
    estimate(f, &(wanted){f->D, f->D, f->close.x}, f->mean, f->var, f->mcse, f->close_cal);
}

/* Whether there is nothing to estimate of a function, whose values are m apart: it is the same at all draws of weight, two at least, or no finite number at one. *mean is then its mean, or NAN. */
static bool is_plain(const wvgd_fit *f, size_t m, const double *value, double *mean)
{
    size_t counted = 0, same = 0;
    for (size_t i = 0; i < f->close.n; i++) {
        double here = value[i * m];
        if (!(f->close_v[i] > 0))
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

/* In runs of at most D functions, between those that have to be left out: they would deprive others of the tilt. */
void wv_moments_of(wvgd_fit *f, size_t m, const double *value, double *mean, double *var, double *mcse)
{
    for (size_t at = 0, run; at < m;) {
        for (run = 0; run < f->D && at + run < m && !is_plain(f, m, value + at + run, &mean[at + run]);)
            run++;
        if (run)
            estimate(f, &(wanted){run, m, value + at}, mean + at, var + at, mcse + at, f->close_spare);
        else
            var[at] = mcse[at] = 0 * mean[at];
        at += run ? run : 1;
    }
}
