/* bend_arguments.c - see bend_arguments.h. Where the others are standard normal given the arguments a, log p + |u|^2/2
 * depends on a alone: it is the log of the density of a over that of a standard normal, known with its gradient at
 * every point that has been paid for, and nearly without noise. Between these it is interpolated; a mixture is fitted
 * to draws that are weighted by it. */
#include "coordinates/bend_arguments.h"
#include "dense.h"
#include "policy.h"
#include "sources.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

enum { MOST = WV_BEND_CLOUD_ARGUMENTS, DRAWS = 4096, STEPS = 25 };

static const double log_2pi = 1.8378770664093453;

/* ---- what is known ----------------------------------------------------------------------------------------------- */
/* Points that tell the density of the arguments over a standard normal one. */
typedef struct {
    size_t n, r;
    double *a, *slope;     /* [n][r] arguments; gradient of the log ratio */
    double *ratio, *trust; /* [n] log ratio; 1 where the others are standard normal, less elsewhere */
} known;

/* What a point of u with scores g tells: false, nothing. */
static bool see_point(const wv_bend *b, const double *u, double log_p, const double *g, known *k)
{
    size_t D = b->D, r = b->r, at = k->n;
    double square = 0, left = 0, spread = 0;
    for (size_t c = 0; c < D; c++) {
        square += u[c] * u[c];
        left += c < r ? 0 : (g[c] + u[c]) * u[c];
        spread += c < r ? 0 : u[c] * u[c] / (double)(D - r);
    }
    k->ratio[at] = log_p + square / 2;
    k->trust[at] = 1 / (1 + pow(left / wv_policy.bend_cloud_doubt, 2));
    for (size_t c = 0; c < r; c++) {
        k->a[at * r + c] = u[c];
        k->slope[at * r + c] = g[c] + u[c];
    }
    return isfinite(k->ratio[at]) && k->trust[at] > wv_policy.bend_cloud_trust && spread < wv_policy.bend_reach &&
           isfinite(cblas_dnrm2((int)r, k->slope + at * r, 1)) && cblas_dnrm2((int)r, u, 1) < wv_policy.bend_clip;
}

static known see_points(const wv_bend_pool *p, const wv_bend *b, wv_arena *arena)
{
    size_t D = p->D, n = p->n;
    known k = {0,
               b->r,
               wv_arena_take(arena, n * b->r),
               wv_arena_take(arena, n * b->r),
               wv_arena_take(arena, n),
               wv_arena_take(arena, n)};
    size_t mark = wv_arena_mark(arena);
    double *u = wv_arena_take(arena, n * D), *g = wv_arena_take(arena, n * D), *log_p = wv_arena_take(arena, n);
    memcpy(g, p->g, n * D * sizeof *g);
    memcpy(log_p, p->log_p, n * sizeof *log_p);
    wv_bend_inverse(b, n, p->x, u, arena);
    wv_bend_pull(b, n, u, log_p, g, arena);
    for (size_t i = 0; i < n; i++)
        k.n += see_point(b, u + i * D, log_p[i], g + i * D, &k);
    wv_arena_release(arena, mark);
    return k;
}

/* The log ratio at a[r]: what points say by their value and slope, the more the closer they are; less, the farther
 * away all of them are. */
static double log_ratio(const known *k, const double *a)
{
    const double close = 0.03, beyond = 0.5, steepest = 2;
    double sum = 0, total = 0, nearest = INFINITY;
    for (size_t i = 0; i < k->n; i++) {
        double square = 0, said = 0;
        for (size_t c = 0; c < k->r; c++) {
            double away = a[c] - k->a[i * k->r + c];
            square += away * away;
            said += away * k->slope[i * k->r + c];
        }
        double near = square + close, w = k->trust[i] / (near * near * near);
        said = said > steepest ? steepest : said < -steepest ? -steepest : said;
        sum += w * (k->ratio[i] + said);
        total += w;
        nearest = square < nearest ? square : nearest;
    }
    double far = fmax(sqrt(nearest) - beyond, 0);
    return sum / total - far * far;
}

/* ---- the mixture ------------------------------------------------------------------------------------------------- */
/* Draws a[n][r] that stand for the density of the arguments; n is a multiple of WV_COLUMNS. */
typedef struct {
    size_t n, r;
    double *a, *v;         /* [n][r]; [n] weights, sum 1 */
    double *block;         /* [n / WV_COLUMNS][r][WV_COLUMNS] the same draws */
    double *log_p, *log_q; /* [n] log density, up to a constant; of the mixture */
    double *share;         /* [n] log weights before they are capped */
} cloud_draws;

static double log_gaussian(size_t r, double square, double sd)
{
    return -square / (2 * sd * sd) - (double)r * (log(sd) + log_2pi / 2);
}

/* What any mixture can gain over a standard normal: the divergence of that from what the draws stand for. */
static double most_gain(const cloud_draws *d)
{
    double mean = 0, top = -INFINITY, sum = 0;
    for (size_t i = 0; i < d->n; i++)
        top = fmax(top, d->share[i]);
    for (size_t i = 0; i < d->n; i++) {
        double plain = log_gaussian(d->r, cblas_ddot((int)d->r, d->a + i * d->r, 1, d->a + i * d->r, 1), 1);
        sum += exp(d->share[i] - top) / (double)d->n;
        mean += d->v[i] > 0 ? d->v[i] * (d->log_p[i] - plain) : 0;
    }
    return mean - top - log(2 * sum);
}

/* No draw counts for more than the square root of their number draws do: truncated weights (Ionides). */
static void cap(const cloud_draws *d)
{
    double most = 1 / sqrt((double)d->n), sum = 0;
    for (size_t i = 0; i < d->n; i++)
        sum += d->v[i] = fmin(d->v[i], most);
    cblas_dscal((int)d->n, 1 / sum, d->v, 1);
}

/* Half of them from a standard normal, half from a wider one. */
static cloud_draws draw(const known *k, const wv_stream *stream, wv_arena *arena)
{
    const double wide = wv_policy.bend_cloud_wide;
    size_t n = DRAWS, r = k->r;
    cloud_draws d = {n,
                     r,
                     wv_arena_take(arena, n * r),
                     wv_arena_take(arena, n),
                     wv_arena_take(arena, n * r),
                     wv_arena_take(arena, n),
                     wv_arena_take(arena, n),
                     wv_arena_take(arena, n)};
    wv_rng_normal(stream, 0, n * r, d.a);
    cblas_dscal((int)(n / 2 * r), wide, d.a, 1);
    for (size_t i = 0; i < n; i++) {
        double square = cblas_ddot((int)r, d.a + i * r, 1, d.a + i * r, 1), plain = log_gaussian(r, square, 1),
               other = log_gaussian(r, square, wide), top = fmax(plain, other);
        d.log_p[i] = log_ratio(k, d.a + i * r) + plain;
        d.share[i] = d.log_p[i] - top - log(exp(plain - top) + exp(other - top));
    }
    if (!wv_weights_normalise(n, d.share, d.v))
        d.n = 0;
    cap(&d);
    for (size_t i = 0; i < d.n; i += WV_COLUMNS)
        wv_columns_turn(r, WV_COLUMNS, d.a + i * r, d.block + i * r);
    return d;
}

/* Of the share of the draws that is due to each Gaussian: its weight, sum and squares, about the mean of the Gaussian.
 */
typedef struct {
    double total[WV_BEND_CLOUDS], sum[WV_BEND_CLOUDS][MOST], square[WV_BEND_CLOUDS][MOST * MOST];
} cloud_sums;

/* Adds up what a block of draws is due to Gaussian j. share[]: of the density at each draw, without the weight w_j. */
static void add_sums(const cloud_draws *d, size_t block, const wv_bend_clouds *q, size_t j, double *share,
                     cloud_sums *s, wv_arena *arena)
{
    size_t r = d->r, mark = wv_arena_mark(arena);
    double *away = wv_arena_take(arena, r * WV_COLUMNS), *weighted = wv_arena_take(arena, r * WV_COLUMNS);
    for (size_t i = 0; i < WV_COLUMNS; i++)
        s->total[j] += share[i] *= q->w[j] * d->v[block + i];
    wv_columns_best()->centre(r, WV_COLUMNS, share, d->block + block * r, q->mu[j], away, weighted);
    wv_columns_best()->mean(r, WV_COLUMNS, share, away, s->sum[j]);
    wv_columns_product(r, WV_COLUMNS, weighted, away, true, s->square[j], arena);
    wv_arena_release(arena, mark);
}

/* The Gaussians as sources of draws. */
typedef struct {
    const wv_bend_clouds *q;
    double inverse[WV_BEND_CLOUDS][MOST * MOST], log_det[WV_BEND_CLOUDS];
} cloud_roots;

static wv_source cloud_source(const void *self, size_t j)
{
    const cloud_roots *c = self;
    return (wv_source){.mu = c->q->mu[j], .inverse = c->inverse[j], .log_det = c->log_det[j], .weight = 1};
}

static cloud_roots find_roots(const wv_bend_clouds *q)
{
    cloud_roots c = {.q = q};
    for (size_t j = 0; j < q->K; j++) {
        wv_dense_invert(q->r, q->root[j], c.inverse[j]);
        for (size_t i = 0; i < q->r; i++)
            c.log_det[j] += log(q->root[j][i * q->r + i]);
    }
    return c;
}

/* The mean of log q under the draws; s, unless NULL: what the next step needs. */
static double judge(const cloud_draws *d, const wv_bend_clouds *q, cloud_sums *s, wv_arena *arena)
{
    cloud_roots roots = find_roots(q);
    wv_sources sources = {cloud_source, &roots, q->K, d->r};
    size_t mark = wv_arena_mark(arena);
    double *log_q = wv_arena_take(arena, q->K * WV_COLUMNS), constant[WV_BEND_CLOUDS], mean = 0;
    wv_sources_constants(&sources, constant);
    for (size_t at = 0; at < d->n; at += WV_COLUMNS) {
        wv_sources_each(&sources, constant, WV_COLUMNS, d->a + at * d->r, log_q, arena);
        wv_columns_best()->shares(q->K, WV_COLUMNS, WV_COLUMNS, q->w, log_q, d->log_q + at);
        for (size_t i = at; i < at + WV_COLUMNS; i++)
            mean += d->v[i] > 0 ? d->v[i] * d->log_q[i] : 0;
        for (size_t j = 0; j < q->K && s; j++)
            add_sums(d, at, q, j, log_q + j * WV_COLUMNS, s, arena);
    }
    wv_arena_release(arena, mark);
    return mean;
}

/* Gaussian j becomes that of its share of the draws, with a prior that it stays as wide as it is; not too narrow, since
 * the draws do not tell that. */
static void step_one(const cloud_sums *s, wv_bend_clouds *q, size_t j)
{
    const double prior = 1e-3, narrow = 0.05, least = 1e-9;
    size_t r = q->r;
    double total = s->total[j], to[MOST], C[MOST * MOST] = {0}, spare[MOST * MOST];
    for (size_t c = 0; c < r; c++)
        to[c] = s->sum[j][c] / (total + prior);
    for (size_t c = 0; c < r; c++)
        for (size_t e = 0; e <= c; e++) /* about the new mean */
            C[c * r + e] =
                (s->square[j][c * r + e] - to[c] * s->sum[j][e] - to[e] * s->sum[j][c] + total * to[c] * to[e]) /
                (total + prior);
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)r, (int)r, prior / (total + prior), q->root[j], (int)r,
                1.0, C, (int)r);
    for (size_t c = 0; c < r; c++)
        C[c * r + c] += fmax(narrow - C[c * r + c], 0);
    if (!wv_dense_chol(r, C, spare))
        return;
    memcpy(q->root[j], C, r * r * sizeof *C);
    for (size_t c = 0; c < r; c++)
        q->mu[j][c] += to[c];
    q->w[j] = fmax(total, least);
}

/* Steps of the EM algorithm; returns the mean of log q. */
static double settle(const cloud_draws *d, wv_bend_clouds *q, wv_arena *arena)
{
    for (size_t step = 0; step < STEPS; step++) {
        cloud_sums s = {{0}, {{0}}, {{0}}};
        double sum = 0;
        judge(d, q, &s, arena);
        for (size_t j = 0; j < q->K; j++) {
            step_one(&s, q, j);
            sum += q->w[j];
        }
        cblas_dscal((int)q->K, 1 / sum, q->w, 1);
    }
    return judge(d, q, NULL, arena);
}

/* One Gaussian more, around the draw that the mixture lacks most of those that count. */
static void add(const cloud_draws *d, wv_bend_clouds *q)
{
    const double faint = 9, first = 0.05;
    double top = -INFINITY, most = -INFINITY;
    size_t at = 0, K = q->K, r = d->r;
    for (size_t i = 0; i < d->n; i++)
        top = fmax(top, d->log_p[i]);
    for (size_t i = 0; i < d->n; i++)
        if (d->log_p[i] > top - faint && d->log_p[i] - d->log_q[i] > most) {
            most = d->log_p[i] - d->log_q[i];
            at = i;
        }
    memcpy(q->mu[K], d->a + at * r, r * sizeof(double));
    memset(q->root[K], 0, sizeof q->root[K]);
    for (size_t c = 0; c < r; c++)
        q->root[K][c * r + c] = 1;
    for (size_t j = 0; j < K; j++)
        q->w[j] *= 1 - first;
    q->w[q->K++] = first;
}

bool wv_bend_arguments_fit(const wv_bend_pool *p, const wv_bend *b, const wv_stream *stream, wv_bend_clouds *to,
                           wv_arena *arena)
{
    size_t r = b->r, mark = wv_arena_mark(arena);
    double first = 0, best = 0;
    memset(to, 0, sizeof *to);
    if (r && r < b->D && r <= MOST) {
        known k = see_points(p, b, arena);
        cloud_draws d = draw(&k, stream, arena);
        bool enough = (double)k.n > wv_policy.bend_cloud_points * (double)r && d.n &&
                      most_gain(&d) > wv_policy.bend_cloud_least;
        wv_bend_clouds now = {.K = 1, .r = r, .w = {1}};
        for (size_t c = 0; c < r; c++)
            now.root[0][c * r + c] = 1;
        first = best = enough ? judge(&d, &now, NULL, arena) : 0;
        while (enough && now.K < WV_BEND_CLOUDS) {
            add(&d, &now);
            double mean = settle(&d, &now, arena);
            if (!(mean > best + wv_policy.bend_cloud_gain))
                break;
            best = mean;
            *to = now;
        }
    }
    wv_arena_release(arena, mark);
    return to->K > 1 && best > first + wv_policy.bend_cloud_least;
}

/* The Gaussian that the share `at` of the draws belongs to: by weights half fitted, half equal. */
static size_t choose(const wv_bend_clouds *q, double at)
{
    size_t k = 0;
    for (double sum = 0; k + 1 < q->K; k++)
        if ((sum += (q->w[k] + 1 / (double)q->K) / 2) > at)
            break;
    return k;
}

void wv_bend_arguments_draw(const wv_bend_clouds *q, const wv_bend *b, const wv_stream *stream, size_t n, double *x,
                            wv_arena *arena)
{
    size_t D = b->D, r = q->r, some = n / 2, mark = wv_arena_mark(arena);
    double *u = wv_arena_take(arena, some * D), *to = wv_arena_take(arena, some * D), z[MOST];
    wv_rng_normal(stream, 0, some * D, u);
    for (size_t i = 0; i < some; i++) {
        size_t k = choose(q, ((double)i + 0.5) / (double)some);
        memcpy(z, u + i * D, r * sizeof *z);
        cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)r, q->root[k], (int)r, z, 1);
        for (size_t c = 0; c < r; c++)
            u[i * D + c] = q->mu[k][c] + wv_policy.bend_arm_wide * z[c];
    }
    wv_bend_forward(b, some, u, to, NULL, arena);
    for (size_t i = 0; i < some; i++)
        memcpy(x + 2 * i * D, to + i * D, D * sizeof *x);
    wv_arena_release(arena, mark);
}
