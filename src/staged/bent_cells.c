/* bent_cells.c - components of cells in bent coordinates (bent_cells.h). */
#include "staged/bent_cells.h"
#include "dense.h"
#include "fit.h"
#include "nearest.h"
#include "policy.h"
#include "staged/cell_draws.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

bool wv_bent_cells_suit(const wvgd_fit *f)
{
    return f->bent.kept && !f->bend.on && f->bent.bent.K && f->cells.shape.family == wv_family_get(WVGD_FULL);
}

/* ---- densities and draws ----------------------------------------------------------------------------------------- */
/* u[n][D] of x[n][D], and log |det df/du| there. */
static void straighten(const wvgd_fit *f, size_t n, const double *x, double *u, double *log_det)
{
    size_t mark = wv_arena_mark(f->arena);
    double *spare = wv_arena_take(f->arena, n * f->D);
    wv_bend_inverse(&f->bend, n, x, u, f->arena);
    wv_bend_forward(&f->bend, n, u, spare, log_det, f->arena);
    wv_arena_release(f->arena, mark);
}

void wv_bent_cells_log_density(const wvgd_fit *f, const wv_gaussian *q, size_t n, const double *x, double *log_q)
{
    size_t mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, n * f->D);
    if (!f->bent.cells)
        wv_gaussian_log_density(q, n, x, log_q, y, f->arena);
    else {
        double *u = wv_arena_take(f->arena, n * f->D), *log_det = wv_arena_take(f->arena, n);
        straighten(f, n, x, u, log_det);
        wv_gaussian_log_density(q, n, u, log_q, y, f->arena);
        cblas_daxpy((int)n, -1.0, log_det, 1, log_q, 1);
    }
    wv_arena_release(f->arena, mark);
}

void wv_bent_cells_draw(const wvgd_fit *f, const wv_gaussian *q, const wv_stream *stream, uint64_t first, size_t n,
                        double *x)
{
    size_t mark = wv_arena_mark(f->arena);
    if (!f->bent.cells)
        wv_gaussian_draw(q, stream, first, n, false, x, f->arena);
    else {
        double *u = wv_arena_take(f->arena, n * f->D);
        wv_gaussian_draw(q, stream, first, n, false, u, f->arena);
        wv_bend_forward(&f->bend, n, u, x, NULL, f->arena);
    }
    wv_arena_release(f->arena, mark);
}

/* ---- stored draws of a cell -------------------------------------------------------------------------------------- */
typedef struct {
    size_t j;
    wv_cell_sample s;       /* in rows */
    double *u, *log_det;    /* [n][D], [n] */
    double *log_q, *weight; /* [n] of a Gaussian in x; normalised weights that stand for it */
} seen;

static seen see_cell(wvgd_fit *f, size_t j)
{
    seen c = {.j = j, .s = wv_cell_draws_sample(f, j, false)};
    size_t n = c.s.n;
    c.u = wv_arena_take(f->arena, n * f->D);
    c.log_det = wv_arena_take(f->arena, n);
    c.log_q = wv_arena_take(f->arena, n);
    c.weight = wv_arena_take(f->arena, n);
    straighten(f, n, c.s.x, c.u, c.log_det);
    return c;
}

/* What the draws tell of a Gaussian of u. */
static wv_judgement judge(wvgd_fit *f, const seen *c, const wv_gaussian *q)
{
    size_t n = c->s.n, mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, n * f->D);
    wv_gaussian_log_density(q, n, c->u, c->log_q, y, f->arena);
    cblas_daxpy((int)n, -1.0, c->log_det, 1, c->log_q, 1);
    wv_arena_release(f->arena, mark);
    return wv_cell_draws_judge(f, &c->s, c->log_q, c->weight);
}

/* ---- steps along the arguments ----------------------------------------------------------------------------------- */
enum { ALONG = 3, TERMS = 1 + ALONG + ALONG * (ALONG + 1) / 2 };

/* log p~ - log q in the cell, regressed on 1, t and products of t, the first arguments. */
typedef struct {
    size_t r, p; /* arguments, terms */
    double b[TERMS];
    double explained, left; /* variances */
} slope;

static void terms(size_t r, const double *t, double *to)
{
    size_t k = 1 + r;
    to[0] = 1;
    for (size_t a = 0; a < r; a++) {
        to[1 + a] = t[a];
        for (size_t c = 0; c <= a; c++)
            to[k++] = t[a] * t[c];
    }
}

/* With the weights that judge has left; false: too few draws. */
static bool find_slope(const wvgd_fit *f, const seen *c, wv_judgement about, slope *s)
{
    const double ridge = 1e-8;
    double A[TERMS * TERMS] = {0}, z[TERMS], mean = 0;
    size_t r = f->bend.r < ALONG ? f->bend.r : ALONG, p = 1 + r + r * (r + 1) / 2;
    *s = (slope){.r = r, .p = p};
    if (!(about.ess > wv_policy.bend_cell_draws * (double)p))
        return false;
    for (size_t i = 0; i < c->s.n; i++)
        mean += c->weight[i] * (c->s.log_p[i] - c->log_q[i]);
    for (size_t i = 0; i < c->s.n; i++) {
        terms(r, c->u + i * f->D, z);
        cblas_dsyr(CblasRowMajor, CblasLower, (int)p, c->weight[i], z, 1, A, (int)p);
        cblas_daxpy((int)p, c->weight[i] * (c->s.log_p[i] - c->log_q[i] - mean), z, 1, s->b, 1);
    }
    double along[TERMS];
    memcpy(along, s->b, sizeof along);
    for (size_t k = 0; k < p; k++)
        A[k * p + k] += ridge * (1 + A[k * p + k]);
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, A, (lapack_int)p) != 0 ||
        LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, A, (lapack_int)p, s->b, (lapack_int)p) != 0)
        return false;
    s->explained = fmin(cblas_ddot((int)p, along, 1, s->b, 1), about.variance);
    s->left = about.variance - s->explained;
    return isfinite(s->explained);
}

/* q times exp(share of the slope), as a Gaussian mu[D], root[D][D]; false: it is none. */
static bool tilt(wvgd_fit *f, const wv_gaussian *q, const slope *s, double share, double *mu, double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena), k = 1 + s->r;
    lapack_int d = (lapack_int)D;
    double *P = wv_arena_take(f->arena, D * D), *h = wv_arena_zeros(f->arena, D),
           *spare = wv_arena_take(f->arena, D * D);
    memcpy(P, q->root, D * D * sizeof *P);
    bool good = LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'U', d, P, d) == 0; /* lower half in rows: the precision */
    cblas_dsymv(CblasRowMajor, CblasLower, (int)D, 1.0, P, (int)D, q->mu, 1, 0.0, h, 1);
    for (size_t a = 0; a < s->r; a++) {
        h[a] += share * s->b[1 + a];
        for (size_t c = 0; c <= a; c++, k++)
            P[a * D + c] -= share * s->b[k] * (a == c ? 2 : 1);
    }
    good = good && LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', d, P, d) == 0;
    memcpy(mu, h, D * sizeof *mu);
    good = good && LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', d, 1, P, d, mu, d) == 0 &&
           LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'U', d, P, d) == 0;
    for (size_t i = 0; i < D && good; i++)
        for (size_t c = 0; c < D; c++)
            root[i * D + c] = c <= i ? P[i * D + c] : 0;
    good = good && wv_dense_chol(D, root, spare);
    wv_arena_release(f->arena, mark);
    return good;
}

/* Steps of the Gaussian mu, root that pay; returns what the draws tell of it. */
static wv_judgement climb(wvgd_fit *f, const seen *c, double *mu, double *root)
{
    enum { STEPS = 4 };
    const double little = 1e-3;
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *to_mu = wv_arena_take(f->arena, D), *to_root = wv_arena_take(f->arena, D * D), share = 1;
    wv_gaussian q = {wv_family_get(WVGD_FULL), D, 0, mu, root, 0}, to = {q.family, D, 0, to_mu, to_root, 0};
    wv_judgement best = judge(f, c, &q);
    for (size_t i = 0; i < STEPS; i++) {
        slope s;
        judge(f, c, &q);
        if (!find_slope(f, c, best, &s) || s.explained < little)
            break;
        wv_judgement now = {0, -INFINITY, 0};
        if (tilt(f, &q, &s, share, to_mu, to_root))
            now = judge(f, c, &to);
        if (now.elbo > best.elbo && now.ess > best.ess / 2) {
            memcpy(mu, to_mu, D * sizeof *mu);
            memcpy(root, to_root, D * D * sizeof *root);
            best = now;
        } else
            share /= 2;
    }
    judge(f, c, &q);
    wv_arena_release(f->arena, mark);
    return best;
}

wvgd_estimate wv_bent_cells_gain(wvgd_fit *f, size_t j)
{
    size_t mark = wv_arena_mark(f->arena);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wvgd_estimate gain = {NAN, NAN};
    slope s;
    seen c = see_cell(f, j);
    wv_judgement about = judge(f, &c, &q);
    if (find_slope(f, &c, about, &s)) {
        double noise = s.left * (double)s.p / about.ess; /* what the regression explains by chance */
        gain.value = fmax(s.explained - noise, 0) / 2;
        gain.se = hypot(sqrt(s.explained * s.left / about.ess), noise / 2);
    }
    wv_arena_release(f->arena, mark);
    return gain;
}

/* ---- components -------------------------------------------------------------------------------------------------- */
/* The posterior's covariance in the cell, in x. */
static void set_spread(wvgd_fit *f, size_t j)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    wv_cell_sample s = wv_cell_draws_columns(f, j);
    double *w = wv_arena_take(f->arena, s.n), *mean = wv_arena_take(f->arena, D), *sd = wv_arena_take(f->arena, D),
           *root = wv_arena_take(f->arena, D * D), top = wv_weights_largest(s.n, s.log_w), sum = 0;
    for (size_t i = 0; i < s.n; i++)
        sum += w[i] = exp(s.log_w[i] - top);
    for (size_t i = 0; i < s.n; i++)
        w[i] /= sum;
    if (f->opt.cost != WVGD_OWN && s.n && wv_cell_draws_moments(f, &s, w, mean, root)) {
        if (f->cells.shape.cell_family == wv_family_get(WVGD_FULL))
            wv_partition_set_spread(&f->cells, j, root);
        else {
            wv_family_get(WVGD_FULL)->sd(D, 0, root, sd);
            wv_partition_set_spread_sd(&f->cells, j, sd);
        }
    }
    wv_arena_release(f->arena, mark);
}

/* The best Gaussian of the mixture in u for cell j, and steps from it. */
static void fit_component(wvgd_fit *f, void *context, size_t j)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena), best = 0;
    const wv_mixture *m = &f->bent.bent;
    double *mu = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, D * D), most = -INFINITY;
    (void)context;
    seen c = see_cell(f, j);
    for (size_t k = 0; k < m->K; k++) {
        wv_gaussian q = wv_mixture_component(m, k);
        wv_judgement about = judge(f, &c, &q);
        bool told = about.ess > wv_policy.bend_cell_least;
        if (told ? about.elbo > most : !(most > -INFINITY) && m->w[k] > m->w[best]) {
            best = k;
            most = told ? about.elbo : most;
        }
    }
    memcpy(mu, m->mu + best * D, D * sizeof *mu);
    memcpy(root, m->root + best * D * D, D * D * sizeof *root);
    wv_judgement about = climb(f, &c, mu, root);
    wv_partition_set_component(&f->cells, j, mu, root);
    wv_cell_draws_keep(f, j, c.s.n, c.log_q);
    wv_partition_set_elbo(&f->cells, j, about.elbo);
    set_spread(f, j);
    wv_arena_release(f->arena, mark);
}

/* ---- draws that cost nothing ------------------------------------------------------------------------------------- */
/* A block of draws of the mixture in u, equally many of each component as in any other. */
typedef struct {
    size_t n;
    double *u, *x, *near, *next; /* [n][D], [n][D], [n], [n] */
    double *log_m;               /* [n] log density in u of what made them */
    uint32_t *cell;              /* [n] */
} block;

enum { BLOCK = 1024 };

static size_t of_component(const wv_mixture *m, size_t k)
{
    return (size_t)round(m->w[k] * BLOCK);
}

static size_t block_size(const wv_mixture *m)
{
    size_t n = 0;
    for (size_t k = 0; k < m->K; k++)
        n += of_component(m, k);
    return n;
}

static size_t blocks(const wvgd_fit *f)
{
    double most = wv_policy.bend_mass_work / ((double)f->D * (double)f->D * BLOCK);
    return (size_t)fmin(fmax(most, 2), wv_policy.bend_mass_blocks);
}

static block take_block(wvgd_fit *f)
{
    size_t n = block_size(&f->bent.bent);
    return (block){n,
                   wv_arena_take(f->arena, n * f->D),
                   wv_arena_take(f->arena, n * f->D),
                   wv_arena_take(f->arena, n),
                   wv_arena_take(f->arena, n),
                   wv_arena_take(f->arena, n),
                   wv_arena_take_index(f->arena, n)};
}

static void fill_block(wvgd_fit *f, uint64_t number, const block *b)
{
    const wv_mixture *m = &f->bent.bent;
    size_t D = f->D, at = 0, mark = wv_arena_mark(f->arena);
    double *log_q = wv_arena_take(f->arena, b->n), *y = wv_arena_take(f->arena, b->n * D);
    wv_geometry g = wv_partition_geometry(&f->cells);
    for (size_t k = 0; k < m->K; at += of_component(m, k++)) {
        wv_gaussian q = wv_mixture_component(m, k);
        wv_stream stream = {f->opt.seed, WV_RNG_BOUND, 0, k};
        wv_gaussian_draw(&q, &stream, number * BLOCK, of_component(m, k), false, b->u + at * D, f->arena);
    }
    for (size_t i = 0; i < b->n; i++)
        b->log_m[i] = -INFINITY;
    for (size_t k = 0; k < m->K; k++) {
        wv_gaussian q = wv_mixture_component(m, k);
        double share = log((double)of_component(m, k) / (double)b->n);
        if (!of_component(m, k))
            continue;
        wv_gaussian_log_density(&q, b->n, b->u, log_q, y, f->arena);
        for (size_t i = 0; i < b->n; i++) {
            double a = b->log_m[i], c = log_q[i] + share, top = fmax(a, c);
            b->log_m[i] = top + log(exp(a - top) + exp(c - top));
        }
    }
    wv_bend_forward(&f->bend, b->n, b->u, b->x, NULL, f->arena);
    wv_nearest_assign(&g, b->n, b->x, b->cell, b->near, b->next, f->arena);
    wv_arena_release(f->arena, mark);
}

/* Weights of the draws of a block that stand for the components of their cells; 0 for those of another cell than all
 * that are asked for. */
static void weigh_block(wvgd_fit *f, const block *b, double *weight)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *u = wv_arena_take(f->arena, b->n * D), *y = wv_arena_take(f->arena, b->n * D),
           *log_q = wv_arena_take(f->arena, b->n);
    uint32_t *which = wv_arena_take_index(f->arena, b->n);
    for (size_t j = 0; j < f->N; j++) {
        size_t n = 0;
        wv_gaussian q = wv_partition_component(&f->cells, j);
        for (size_t i = 0; i < b->n; i++)
            if (b->cell[i] == j) {
                memcpy(u + n * D, b->u + i * D, D * sizeof *u);
                which[n++] = (uint32_t)i;
            }
        if (n)
            wv_gaussian_log_density(&q, n, u, log_q, y, f->arena);
        for (size_t i = 0; i < n; i++)
            weight[which[i]] = exp(log_q[i] - b->log_m[which[i]]);
    }
    wv_arena_release(f->arena, mark);
}

/* Masses of all components in their cells, with Monte Carlo errors. */
static void find_masses(wvgd_fit *f)
{
    size_t N = f->N, mark = wv_arena_mark(f->arena);
    block b = take_block(f);
    double *weight = wv_arena_take(f->arena, b.n), *sum = wv_arena_zeros(f->arena, N),
           *squares = wv_arena_zeros(f->arena, N), total = (double)b.n * (double)blocks(f);
    for (size_t k = 0; k < blocks(f) && N > 1; k++) {
        fill_block(f, k, &b);
        weigh_block(f, &b, weight);
        for (size_t i = 0; i < b.n; i++) {
            sum[b.cell[i]] += weight[i];
            squares[b.cell[i]] += weight[i] * weight[i];
        }
        wv_limit_look(f->arena);
    }
    for (size_t j = 0; j < N; j++) {
        double share = sum[j] / total, variance = fmax(squares[j] / total - share * share, 0) / total;
        wvgd_estimate log_Z = {log(share), share > 0 ? sqrt(variance) / share : INFINITY};
        wv_partition_set_log_Z(&f->cells, j, N == 1 ? (wvgd_estimate){0, 0} : log_Z, false);
    }
    wv_arena_release(f->arena, mark);
}

void wv_bent_cells_fit(wvgd_fit *f)
{
    wv_fit_run_tasks(f, f->N, wv_policy.cells_component_work * (double)f->N, fit_component, NULL);
    wv_bent_set_cells(&f->bent, true);
    find_masses(f);
    wv_partition_weigh(&f->cells, f->cells.elbo);
    if (!(cblas_dasum((int)f->N, f->cells.weight, 1) > 0))
        wv_partition_set_weights(&f->cells, f->cells.beta);
}

/* ---- the bound --------------------------------------------------------------------------------------------------- */
/* Draws for the bound from cell j. */
static size_t wanted_of(wvgd_fit *f, size_t j)
{
    double all = fmax(wv_policy.bound_draws_refined, fmin(wv_fit_cheap(f), wv_policy.bound_draws_cheap));
    bool counts = f->cells.weight[j] > 0 || f->cells.beta[j] > wv_policy.results_mass;
    return counts && isfinite(f->cells.log_Z[j])
               ? (size_t)fmax(wv_policy.bound_draws_cell, round(all * f->cells.weight[j]))
               : 0;
}

/* The draws of the blocks that gave the masses: one for each equal part of the sum of the weights of a cell. */
void wv_bent_cells_ask(wvgd_fit *f)
{
    size_t N = f->N, D = f->D, mark = wv_arena_mark(f->arena), at = 0, *wanted = wv_arena_take_sizes(f->arena, N),
           *have = wv_arena_take_sizes(f->arena, N), *first = wv_arena_take_sizes(f->arena, N);
    block b = take_block(f);
    double *weight = wv_arena_take(f->arena, b.n), *passed = wv_arena_zeros(f->arena, N),
           total = (double)b.n * (double)blocks(f);
    for (size_t j = 0; j < N; j++) {
        size_t n = wanted_of(f, j);
        wanted[j] = n < f->size.n_max - at ? n : f->size.n_max - at;
        first[j] = at;
        have[j] = 0;
        at += wanted[j];
    }
    for (size_t k = 0; k < blocks(f); k++) {
        fill_block(f, k, &b);
        weigh_block(f, &b, weight);
        for (size_t i = 0; i < b.n; i++) {
            size_t j = b.cell[i];
            double sum = exp(f->cells.log_Z[j]) * total;
            passed[j] += weight[i];
            for (; have[j] < wanted[j] && ((double)have[j] + 0.5) * sum < passed[j] * (double)wanted[j]; have[j]++)
                memcpy(f->b.x + (first[j] + have[j]) * D, b.x + i * D, D * sizeof *b.x);
        }
        wv_limit_look(f->arena);
    }
    f->b.n = 0;
    for (size_t j = 0; j < N; j++) {
        memmove(f->b.x + f->b.n * D, f->b.x + first[j] * D, have[j] * D * sizeof(double));
        for (size_t i = 0; i < have[j]; i++)
            f->b.cell[f->b.n++] = (uint32_t)j;
    }
    wv_arena_release(f->arena, mark);
}

void wv_bent_cells_estimate(wvgd_fit *f, size_t j, size_t first, size_t n)
{
    size_t mark = wv_arena_mark(f->arena);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    double *log_q = wv_arena_take(f->arena, n), mean = 0, squares = 0;
    wv_bent_cells_log_density(f, &q, n, f->b.x + first * f->D, log_q);
    for (size_t i = 0; i < n; i++)
        mean += (f->b.log_p[first + i] - log_q[i]) / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += pow(f->b.log_p[first + i] - log_q[i] - mean, 2);
    double se = sqrt(squares / fmax((double)n * ((double)n - 1), 1)), log_Z = f->cells.log_Z[j];
    if (n > 1 && isfinite(mean) && isfinite(log_Z))
        wv_partition_set_bound(&f->cells, j, (wvgd_estimate){mean + log_Z, hypot(se, f->cells.elbo_se[j])}, log_Z);
    else
        wv_partition_leave_out(&f->cells, j);
    wv_arena_release(f->arena, mark);
}
