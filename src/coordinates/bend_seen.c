/* bend_seen.c - see bend_seen.h. */
#include "coordinates/bend_seen.h"
#include "policy.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

void wv_bend_seen_from(const wv_bend_pool *p, const wv_bend *b, const wv_bend_seen *s)
{
    size_t D = p->D;
    double *away = s->g; /* scratch until the gradients come */
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < D; k++)
            away[i * D + k] = p->x[i * D + k] - b->centre[k];
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)p->n, (int)D, (int)D, 1.0, away, (int)D, b->inverse,
                (int)D, 0.0, s->w, (int)D);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)p->n, (int)D, (int)D, 1.0, p->g, (int)D, b->basis,
                (int)D, 0.0, s->g, (int)D);
}

/* Newer points count more, and those where the present map, through which the others have gone, can be right. */
void wv_bend_seen_weigh(const wv_bend_pool *p, double reach, const wv_bend_seen *s)
{
    size_t D = s->D, k = D - s->r;
    double total = 0;
    for (size_t i = 0; i < s->n; i++) {
        const double *w = s->w + i * D;
        double far = 0, square = 0;
        for (size_t c = 0; c < s->r; c++)
            far = fmax(far, fabs(w[c]));
        for (size_t c = s->r; c < D; c++)
            square += w[c] * w[c] / (double)k;
        double rest = square / (1 + 3 / sqrt(fmax((double)k, 1))), out = fmax(far - reach, 0);
        double weight = pow(wv_policy.bend_age, (double)p->batch - p->born[i]) / (1 + rest * rest * rest * rest) /
                        (1 + out * out * out * out);
        total += s->weight[i] = isfinite(weight) ? weight : 0;
    }
    for (size_t i = 0; i < s->n; i++)
        s->weight[i] /= fmax(total, 1e-300);
}

/* Points whose scores of the others are far from standard normal, in mean squares of that size, count little. */
void wv_bend_seen_doubt(const wv_bend_seen *s, double size)
{
    size_t D = s->D, k = D - s->r;
    for (size_t i = 0; i < s->n; i++) {
        double square = 0;
        for (size_t c = s->r; c < D; c++)
            square += pow(s->g[i * D + c] + s->w[i * D + c], 2) / (double)k;
        square = isfinite(square) ? square : INFINITY;
        s->weight[i] /= 1 + pow(square / size, 2);
    }
}

/* Number c of the coordinates. */
wv_bend_points wv_bend_seen_points(const wv_bend_seen *s, size_t c)
{
    return (wv_bend_points){s->n, s->D, s->D, s->w, s->w + c, s->g + c, s->weight};
}

/* Arguments of row c among the first `most`: all, or those whose terms explain most of its scores, one by one. */
void wv_bend_seen_parents(const wv_bend_seen *s, size_t c, size_t most, wv_bend_row *row)
{
    row->parents = most < WV_BEND_PARENTS ? most : WV_BEND_PARENTS;
    for (size_t k = 0; k < row->parents; k++)
        row->parent[k] = k;
    if (most <= WV_BEND_PARENTS)
        return;
    double best[WV_BEND_PARENTS] = {0};
    row->parents = 0;
    for (size_t j = 0; j < most; j++) { /* correlation of rho with t y and with t^2 - 1 */
        double xy[3] = {0}, xx[3] = {1e-12, 1e-12, 1e-12}, yy = 1e-12;
        for (size_t i = 0; i < s->n; i++) {
            double t = s->w[i * s->D + j], y = s->w[i * s->D + c], rho = s->g[i * s->D + c] + y,
                   w = s->weight[i] / fmax(1, rho * rho / 9), f[3] = {t * y, t * t - 1, t};
            yy += w * rho * rho;
            for (size_t k = 0; k < 3; k++) {
                xy[k] += w * rho * f[k];
                xx[k] += w * f[k] * f[k];
            }
        }
        double share = 0;
        for (size_t k = 0; k < 3; k++)
            share = fmax(share, xy[k] * xy[k] / xx[k] / yy);
        size_t at = row->parents < WV_BEND_PARENTS ? row->parents++ : WV_BEND_PARENTS;
        for (; at > 0 && share > best[at - 1]; at--)
            if (at < WV_BEND_PARENTS) {
                best[at] = best[at - 1];
                row->parent[at] = row->parent[at - 1];
            }
        if (at < WV_BEND_PARENTS) {
            best[at] = share;
            row->parent[at] = j;
        }
    }
}

/* Row c is fitted to the scores. */
double wv_bend_seen_fit_row(const wv_bend_seen *s, wv_bend *b, size_t c, bool anew, wv_arena *arena)
{
    wv_bend_row row = b->row[c];
    size_t most = c < s->r ? c : s->r;
    if (anew)
        wv_bend_seen_parents(s, c, most, &row);
    if (!row.parents && c < s->r)
        return 0;
    wv_bend_points p = wv_bend_seen_points(s, c);
    double ridge = c < s->r ? wv_policy.bend_ridge_layer : wv_policy.bend_ridge,
           cost = wv_bend_row_fit(&row, &p, ridge, anew, arena);
    wv_bend_set_row(b, c, &row);
    return cost;
}

/* Coordinate c and its scores through its row: the arguments get what it says of them. */
void wv_bend_seen_undo_row(const wv_bend_seen *s, const wv_bend_row *row, size_t c, wv_arena *arena)
{
    size_t D = s->D, mark = wv_arena_mark(arena);
    wv_bend_places p = wv_bend_row_places(row, s->n, s->w, D, true, arena);
    for (size_t i = 0; i < s->n; i++) {
        double *w = s->w + i * D, *g = s->g + i * D, scaled = g[c] * p.scale[i], v = (w[c] - p.m[i]) / p.scale[i];
        for (size_t k = 0; k < row->parents; k++)
            g[row->parent[k]] += (scaled * v + 1) * p.ds[k * p.apart + i] + g[c] * p.dm[k * p.apart + i];
        g[c] = scaled;
        w[c] = v;
    }
    wv_arena_release(arena, mark);
}

void wv_bend_seen_undo_affine(const wv_bend_seen *s, const wv_bend_affine *a, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *at = wv_bend_affine_take(a, arena);
    for (size_t i = 0; i < s->n; i++) {
        double *w = s->w + i * s->D, *g = s->g + i * s->D;
        wv_bend_affine_undo(a, w, at, w + s->r);
        wv_bend_affine_pull(a, w, at, w + s->r, g + s->r, g);
    }
    wv_arena_release(arena, mark);
}

/* The others, and their scores, in the basis T [k][k], or back from it. */
void wv_bend_seen_turn(const wv_bend_seen *s, const double *T, bool back, wv_arena *arena)
{
    size_t D = s->D, r = s->r, k = D - r, mark = wv_arena_mark(arena);
    double *to = wv_arena_take(arena, s->n * k), *arrays[] = {s->w, s->g};
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, back ? CblasTrans : CblasNoTrans, (int)s->n, (int)k, (int)k, 1.0,
                    arrays[a] + r, (int)D, T, (int)k, 0.0, to, (int)k);
        for (size_t i = 0; i < s->n; i++)
            memcpy(arrays[a] + i * D + r, to + i * k, k * sizeof *to);
    }
    wv_arena_release(arena, mark);
}

/* Weights of the points in regressions of what is left of the scores of the others: less for outliers. */
void wv_bend_seen_residuals(const wv_bend_seen *s, double *weight, wv_arena *arena)
{
    size_t D = s->D, k = D - s->r;
    for (size_t i = 0; i < s->n; i++) {
        weight[i] = 0;
        for (size_t c = s->r; c < D; c++)
            weight[i] += pow(s->g[i * D + c] + s->w[i * D + c], 2) / (double)k;
        weight[i] = isfinite(weight[i]) ? sqrt(weight[i]) : INFINITY;
    }
    double far = wv_policy.bend_outlier * wv_weights_smallest(s->n, weight, s->n / 2, arena) + 1e-9;
    for (size_t i = 0; i < s->n; i++)
        weight[i] = isfinite(weight[i]) ? s->weight[i] / pow(fmax(1, weight[i] / far), 2) : 0;
}

wv_bend_seen wv_bend_seen_take(const wv_bend_pool *p, size_t r, wv_arena *arena)
{
    size_t n = p->n, D = p->D;
    return (wv_bend_seen){n, D, r, wv_arena_take(arena, n * D), wv_arena_take(arena, n * D), wv_arena_take(arena, n)};
}

wv_bend_seen wv_bend_seen_copy(const wv_bend_seen *s, wv_arena *arena)
{
    wv_bend_seen to = *s;
    to.w = wv_arena_take(arena, s->n * s->D);
    to.g = wv_arena_take(arena, s->n * s->D);
    to.weight = wv_arena_take(arena, s->n);
    memcpy(to.w, s->w, s->n * s->D * sizeof *s->w);
    memcpy(to.g, s->g, s->n * s->D * sizeof *s->g);
    memcpy(to.weight, s->weight, s->n * sizeof *s->weight);
    return to;
}
