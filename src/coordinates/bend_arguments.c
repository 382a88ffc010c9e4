/* bend_arguments.c - see bend_arguments.h. Where the others are standard normal given the arguments a, log p + |u|^2/2
 * depends on a alone: it is the log of the density of a over that of a standard normal, known with its gradient at
 * every point that has been paid for, and nearly without noise. Between these it is interpolated; a mixture is fitted
 * to draws that are weighted by it. */
#include "coordinates/bend_arguments.h"
#include "dense.h"
#include "policy.h"
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
/* Draws a[n][r] that stand for the density of the arguments. */
typedef struct {
    size_t n, r;
    double *a, *v;         /* [n][r]; [n] weights, sum 1 */
    double *log_p, *log_q; /* [n] log density, up to a constant; of the mixture */
    double *share;         /* [n] scratch */
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
    return d;
}

/* Log of w_j N(mu_j, C_j) at a. */
static double log_cloud(const wv_bend_clouds *q, size_t j, const double *a)
{
    size_t r = q->r;
    double y[MOST], square = 0, log_det = 0;
    for (size_t i = 0; i < r; i++) {
        y[i] = a[i] - q->mu[j][i];
        for (size_t c = 0; c < i; c++)
            y[i] -= q->root[j][i * r + c] * y[c];
        y[i] /= q->root[j][i * r + i];
        square += y[i] * y[i];
        log_det += log(q->root[j][i * r + i]);
    }
    return log(q->w[j]) - square / 2 - log_det - (double)r * log_2pi / 2;
}

static double log_clouds(const wv_bend_clouds *q, const double *a)
{
    double part[WV_BEND_CLOUDS], top = -INFINITY, sum = 0;
    for (size_t j = 0; j < q->K; j++)
        top = fmax(top, part[j] = log_cloud(q, j, a));
    for (size_t j = 0; j < q->K; j++)
        sum += exp(part[j] - top);
    return top + log(sum);
}

/* Mean of log q under the draws. */
static double judge(const cloud_draws *d, const wv_bend_clouds *q)
{
    double sum = 0;
    for (size_t i = 0; i < d->n; i++) {
        d->log_q[i] = log_clouds(q, d->a + i * d->r);
        sum += d->v[i] > 0 ? d->v[i] * d->log_q[i] : 0;
    }
    return sum;
}

/* Gaussian j becomes that of its share of the draws, with a prior that it stays as wide as it is; not too narrow, since
 * the draws do not tell that. */
static void step_one(const cloud_draws *d, wv_bend_clouds *q, size_t j)
{
    const double prior = 1e-3, narrow = 0.05;
    size_t r = d->r;
    double total = 0, mu[MOST] = {0}, C[MOST * MOST] = {0}, spare[MOST * MOST];
    for (size_t i = 0; i < d->n; i++) {
        d->share[i] = d->v[i] > 0 ? d->v[i] * exp(log_cloud(q, j, d->a + i * r) - d->log_q[i]) : 0;
        total += d->share[i];
        cblas_daxpy((int)r, d->share[i], d->a + i * r, 1, mu, 1);
    }
    for (size_t c = 0; c < r; c++)
        mu[c] = (mu[c] + prior * q->mu[j][c]) / (total + prior);
    for (size_t i = 0; i < d->n; i++) {
        double away[MOST];
        for (size_t c = 0; c < r; c++)
            away[c] = d->a[i * r + c] - mu[c];
        cblas_dsyr(CblasRowMajor, CblasLower, (int)r, d->share[i] / (total + prior), away, 1, C, (int)r);
    }
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)r, (int)r, prior / (total + prior), q->root[j], (int)r,
                1.0, C, (int)r);
    for (size_t c = 0; c < r; c++)
        C[c * r + c] += fmax(narrow - C[c * r + c], 0);
    if (!wv_dense_chol(r, C, spare))
        return;
    memcpy(q->root[j], C, r * r * sizeof *C);
    memcpy(q->mu[j], mu, r * sizeof *mu);
    q->w[j] = fmax(total, 1e-9);
}

/* Steps of the EM algorithm; returns the mean of log q. */
static double settle(const cloud_draws *d, wv_bend_clouds *q)
{
    double mean = judge(d, q);
    for (size_t step = 0; step < STEPS; step++) {
        wv_bend_clouds next = *q;
        double sum = 0;
        for (size_t j = 0; j < q->K; j++) {
            wv_bend_clouds one = *q;
            step_one(d, &one, j);
            memcpy(next.mu[j], one.mu[j], sizeof one.mu[j]);
            memcpy(next.root[j], one.root[j], sizeof one.root[j]);
            sum += next.w[j] = one.w[j];
        }
        for (size_t j = 0; j < q->K; j++)
            next.w[j] /= sum;
        *q = next;
        mean = judge(d, q);
    }
    return mean;
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
        first = best = enough ? judge(&d, &now) : 0;
        while (enough && now.K < WV_BEND_CLOUDS) {
            add(&d, &now);
            double mean = settle(&d, &now);
            if (!(mean > best + wv_policy.bend_cloud_gain))
                break;
            best = mean;
            *to = now;
        }
    }
    wv_arena_release(arena, mark);
    return to->K > 1 && best > first + wv_policy.bend_cloud_least;
}
