/* experts_body.h - rows of bent coordinates for one instruction set. Included with WV_LANES, its doubles in a
 * register, WV_TARGET, the attribute of functions that use it, and WV_SET, the name of the table. */
#include "simd/experts.h"
#include "simd/lanes.h"
#include <math.h>

/* Both experts at some points, and what a row makes of them. */
typedef struct {
    wv_lanes share[2], mu[2];
    wv_lanes scale, free;    /* exp(s), and what it would be without limits */
    wv_lanes pull, away;     /* exp(s) g, exp(-s) (y - m) */
    wv_lanes residual, huge; /* their sum, and its size */
} places;

WV_INLINE wv_lanes between(wv_lanes x, double low, double high)
{
    const wv_lanes none = {0};
    x = wv_lanes_select(x < low, none + low, x);
    return wv_lanes_select(x > high, none + high, x);
}

WV_INLINE wv_lanes root_of(wv_lanes x)
{
    for (int k = 0; k < WV_LANES; k++)
        x[k] = sqrt(x[k]);
    return x;
}

WV_INLINE places weigh(const wv_experts *e, const wv_experts_points *p, size_t i)
{
    const double many = 700;
    size_t n = e->parents;
    const wv_lanes none = {0};
    wv_lanes log_p[2], mu[2];
    for (int k = 0; k < 2; k++) {
        const double *b = e->precision[k], *c = e->location[k];
        log_p[k] = none + b[0];
        mu[k] = none + c[0];
        for (size_t j = 0; j < n; j++) {
            wv_lanes t = wv_lanes_load(p->t + j * p->apart + i);
            log_p[k] += b[1 + j] * t;
            mu[k] += c[1 + j] * t + c[1 + n + j] * (t * t - 1.0);
        }
    }
    wv_mask first = log_p[0] >= log_p[1];
    wv_lanes top = wv_lanes_select(first, log_p[0], log_p[1]),
             small = wv_lanes_exp_or_0(wv_lanes_abs(log_p[0] - log_p[1])), most = 1.0 / (1.0 + small),
             least = small * most;
    places at = {.share = {wv_lanes_select(first, most, least), wv_lanes_select(first, least, most)},
                 .mu = {mu[0], mu[1]}};
    at.free = wv_lanes_exp_minus(between(top, -many, many) / 2.0) * root_of(most);
    at.scale = between(at.free, exp(-e->log_scale), exp(e->log_scale));
    return at;
}

WV_INLINE wv_lanes location(const places *at)
{
    return at->share[0] * at->mu[0] + at->share[1] * at->mu[1];
}

WV_INLINE places look(const wv_experts *e, const wv_experts_points *p, size_t i)
{
    places at = weigh(e, p, i);
    at.pull = at.scale * wv_lanes_load(p->g + i);
    at.away = (wv_lanes_load(p->y + i) - location(&at)) / at.scale;
    at.residual = at.pull + at.away;
    at.huge = wv_lanes_abs(at.residual);
    return at;
}

WV_TARGET static double cost(const wv_experts *e, const wv_experts_points *p, size_t n)
{
    wv_lanes sum = {0};
    for (size_t i = 0; i < n; i += WV_LANES) {
        places at = look(e, p, i);
        wv_lanes w = wv_lanes_load(p->w + i), square = at.residual * at.residual,
                 far = e->huber * (2.0 * at.huge - e->huber);
        sum += wv_lanes_keep(w > 0.0, w * wv_lanes_select(at.huge < e->huber, square, far));
    }
    double total = 0;
    for (int k = 0; k < WV_LANES; k++)
        total += sum[k];
    return total;
}

WV_TARGET static void slopes(const wv_experts *e, const wv_experts_points *p, size_t n, size_t ld, double *r, double *J)
{
    size_t parents = e->parents;
    for (size_t i = 0; i < n; i += WV_LANES) {
        places at = look(e, p, i);
        wv_lanes w = wv_lanes_load(p->w + i), apart = at.share[0] * at.share[1] * (at.mu[0] - at.mu[1]) / at.scale,
                 root = root_of(w / wv_lanes_select(at.huge > e->huber, at.huge / e->huber, at.huge * 0.0 + 1.0));
        wv_mask good = (w > 0.0) & (at.huge < INFINITY);
        wv_lanes_store(r + i, wv_lanes_keep(good, root * at.residual));
        for (int k = 0; k < 2; k++) {
            wv_lanes half = 0.5 * at.share[k] * (at.pull - at.away),
                     by_log = wv_lanes_keep(good, root * (k ? apart - half : -apart - half)),
                     by_mu = wv_lanes_keep(good, root * (-at.share[k] / at.scale));
            double *a = J + (size_t)k * (1 + parents) * ld + i,
                   *c = J + (2 * (1 + parents) + (size_t)k * (1 + 2 * parents)) * ld + i;
            wv_lanes_store(a, by_log);
            wv_lanes_store(c, by_mu);
            for (size_t j = 0; j < parents; j++) {
                wv_lanes t = wv_lanes_load(p->t + j * p->apart + i);
                wv_lanes_store(a + (1 + j) * ld, by_log * t);
                wv_lanes_store(c + (1 + j) * ld, by_mu * t);
                wv_lanes_store(c + (1 + parents + j) * ld, by_mu * (t * t - 1.0));
            }
        }
    }
}

WV_TARGET static void find_places(const wv_experts *e, const wv_experts_points *p, size_t n, double *scale, double *s,
                                  double *m, double *by)
{
    size_t parents = e->parents;
    for (size_t i = 0; i < n; i += WV_LANES) {
        places at = weigh(e, p, i);
        wv_lanes apart = at.share[0] * at.share[1] * (at.mu[0] - at.mu[1]);
        wv_lanes_store(scale + i, at.scale);
        wv_lanes_store(s + i, wv_lanes_log(at.scale));
        wv_lanes_store(m + i, location(&at));
        for (size_t j = 0; j < parents && by; j++) {
            double b[2] = {e->precision[0][1 + j], e->precision[1][1 + j]};
            wv_lanes t = wv_lanes_load(p->t + j * p->apart + i), moved = apart * (b[0] - b[1]);
            for (int k = 0; k < 2; k++)
                moved += at.share[k] * (e->location[k][1 + j] + 2.0 * t * e->location[k][1 + parents + j]);
            wv_lanes_store(by + j * p->apart + i,
                           wv_lanes_keep(at.scale == at.free, -(at.share[0] * b[0] + at.share[1] * b[1]) / 2.0));
            wv_lanes_store(by + (parents + j) * p->apart + i, moved);
        }
    }
}

const wv_experts_passes WV_SET = {cost, slopes, find_places};
