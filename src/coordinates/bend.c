/* bend.c - bent coordinates: the map, its inverse, its determinant, and gradients through it (bend.h). */
#include "coordinates/bend.h"
#include "error.h"
#include "memory.h"
#include "policy.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool wv_bend_new(wv_bend *b, size_t D, size_t most)
{
    size_t rows = wv_times(D, sizeof(wv_bend_row) / sizeof(double) + 1),
           lines = wv_times(D, sizeof(wv_bend_line) / sizeof(double) + 1),
           slices = wv_times(WV_BEND_FEATURES, wv_times(D, D));
    double *row = NULL, *line = NULL, *turn = NULL;
    const wv_slot slots[] = {{&b->centre, D},
                             {&b->basis, wv_times(D, D)},
                             {&b->inverse, wv_times(D, D)},
                             {&row, wv_times(1 + WV_BEND_LAYERS, rows)},
                             {&line, lines},
                             {&turn, wv_times(WV_BEND_LAYERS, wv_times(D, D))},
                             {&b->affine.slice, slices},
                             {&b->shown, wv_times(most, D)}};
    b->D = D;
    b->affine.features = 0;
    b->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    if (!b->memory || !D)
        return b->memory != NULL;
    memset(row, 0, (1 + WV_BEND_LAYERS) * rows * sizeof *row); /* padding is saved, too */
    memset(line, 0, lines * sizeof *line);
    b->row = (wv_bend_row *)(void *)row;
    b->line = (wv_bend_line *)(void *)line;
    for (size_t l = 0; l < WV_BEND_LAYERS; l++)
        b->layer[l] = (wv_bend_layer){(wv_bend_row *)(void *)(row + (1 + l) * rows), turn + l * D * D};
    return true;
}

void wv_bend_free(wv_bend *b)
{
    free(b->memory);
}

/* ---- saved states ------------------------------------------------------------------------------------------------ */
typedef struct {
    size_t r, layers, on, tried, points;
    double log_det;
} counts;

static bool sane_row(const unsigned char *from, size_t most)
{
    wv_bend_row row;
    memcpy(&row, from, sizeof row);
    if (row.parents > WV_BEND_PARENTS || row.parents > most)
        return false;
    for (size_t k = 0; k < row.parents; k++)
        if (row.parent[k] >= most)
            return false;
    return true;
}

/* Rows of n coordinates from number `first` on; the first r are arguments, and depend on those before them. */
static bool archive_rows(wv_archive *a, wv_bend_row *row, size_t first, size_t n, size_t r)
{
    const unsigned char *rows = wv_archive_peek(a, n * sizeof *row);
    for (size_t i = 0; i < n && rows; i++)
        if (!sane_row(rows + i * sizeof *row, first + i < r ? first + i : r))
            return wv_archive_refuse(a);
    wv_archive_bytes(a, row, n * sizeof *row);
    return true;
}

/* A flag that is neither 0 nor 1 is none. */
static bool sane_line(const unsigned char *from)
{
    return from[offsetof(wv_bend_line, curved)] <= 1;
}

static bool archive_lines(wv_archive *a, wv_bend_line *line, size_t n)
{
    const unsigned char *lines = wv_archive_peek(a, n * sizeof *line);
    for (size_t i = 0; i < n && lines; i++)
        if (!sane_line(lines + i * sizeof *line))
            return wv_archive_refuse(a);
    wv_archive_bytes(a, line, n * sizeof *line);
    return true;
}

bool wv_bend_archive(wv_bend *b, wv_archive *a)
{
    counts c = {b->r, b->layers, b->on, b->tried, b->points, b->log_det};
    wv_archive_values(a, &c, sizeof c);
    if (c.r > b->D || c.layers > WV_BEND_LAYERS || c.on > 1 || (c.on && !c.tried) || (c.tried && !b->D))
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        b->r = c.r;
        b->layers = c.layers;
        b->on = c.on;
        b->tried = c.tried;
        b->points = c.points;
        b->log_det = c.log_det;
    }
    if (!c.tried)
        return true;
    wv_archive_array(a, b->centre, b->D);
    wv_archive_array(a, b->basis, b->D * b->D);
    wv_archive_array(a, b->inverse, b->D * b->D);
    if (!archive_rows(a, b->row, 0, b->D, c.r) || !archive_lines(a, b->line, b->D))
        return false;
    for (size_t l = 0; l < c.layers; l++) {
        if (!archive_rows(a, b->layer[l].row, c.r, b->D - c.r, c.r))
            return false;
        wv_archive_array(a, b->layer[l].turn, (b->D - c.r) * (b->D - c.r));
    }
    return wv_bend_affine_archive(&b->affine, a, b->D, c.r);
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */
/* Inverse and determinant of the basis, by its LU factors. */
static bool invert(wv_bend *b, wv_arena *arena)
{
    size_t D = b->D, mark = wv_arena_mark(arena);
    lapack_int n = (lapack_int)D, *pivot = (lapack_int *)(void *)wv_arena_take_sizes(arena, D);
    double *work = wv_arena_take(arena, D * D);
    memcpy(b->inverse, b->basis, D * D * sizeof *b->inverse);
    bool good = LAPACKE_dgetrf_work(LAPACK_COL_MAJOR, n, n, b->inverse, n, pivot) == 0;
    b->log_det = 0;
    for (size_t i = 0; i < D; i++)
        b->log_det += log(fabs(b->inverse[i * D + i]));
    good = good && isfinite(b->log_det) &&
           LAPACKE_dgetri_work(LAPACK_COL_MAJOR, n, b->inverse, n, pivot, work, n * n) == 0;
    wv_arena_release(arena, mark);
    return good;
}

bool wv_bend_set_frame(wv_bend *b, size_t r, const double *centre, const double *basis, wv_arena *arena)
{
    b->r = r;
    wv_bend_clear_layers(b);
    memmove(b->centre, centre, b->D * sizeof *centre);
    memmove(b->basis, basis, b->D * b->D * sizeof *basis);
    for (size_t i = 0; i < b->D; i++) {
        wv_bend_row_clear(&b->row[i]);
        wv_bend_line_clear(&b->line[i]);
    }
    return invert(b, arena);
}

void wv_bend_set_row(wv_bend *b, size_t i, const wv_bend_row *row)
{
    b->row[i] = *row;
}

void wv_bend_set_line(wv_bend *b, size_t i, const wv_bend_line *line)
{
    b->line[i] = *line;
}

void wv_bend_clear_layers(wv_bend *b)
{
    b->layers = b->affine.features = 0;
}

void wv_bend_add_layer(wv_bend *b, const double *turn, const wv_bend_row *row)
{
    size_t k = b->D - b->r;
    memcpy(b->layer[b->layers].turn, turn, k * k * sizeof *turn);
    memcpy(b->layer[b->layers++].row, row, k * sizeof *row);
}

void wv_bend_add_affine(wv_bend *b, size_t parents, const double *slice, bool anew)
{
    wv_bend_affine *a = &b->affine;
    a->k = b->D - b->r;
    a->features = 1 + 2 * parents;
    for (size_t i = 0; i < parents; i++)
        a->parent[i] = i;
    for (size_t i = 0; i < a->features * a->k * (a->k + 1); i++)
        a->slice[i] = (anew ? 0 : a->slice[i]) + slice[i];
}

void wv_bend_rescale(wv_bend *b, size_t j, double shift, double scale, wv_arena *arena)
{
    size_t D = b->D;
    for (size_t i = 0; i < D; i++) {
        b->centre[i] += shift * b->basis[i * D + j];
        b->basis[i * D + j] *= scale;
    }
    for (size_t i = j + 1; i < D; i++)
        wv_bend_row_rescale(&b->row[i], j, shift, scale);
    for (size_t l = 0; l < b->layers; l++)
        for (size_t i = 0; i < D - b->r; i++)
            wv_bend_row_rescale(&b->layer[l].row[i], j, shift, scale);
    wv_bend_row_clear(&b->row[j]);
    invert(b, arena);
}

void wv_bend_lean(wv_bend *b, size_t j, const double *delta)
{
    size_t D = b->D;
    for (size_t i = 0; i < D; i++)
        cblas_daxpy((int)D, -b->basis[i * D + j], delta, 1, b->basis + i * D, 1);
    for (size_t c = 0; c < D; c++)
        cblas_daxpy((int)D, c == j ? 0 : delta[c], b->inverse + c * D, 1, b->inverse + j * D, 1);
}

void wv_bend_rotate(wv_bend *b, const double *T, wv_arena *arena)
{
    size_t D = b->D, r = b->r, k = D - r, mark = wv_arena_mark(arena);
    double *to = wv_arena_take(arena, D * k);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)D, (int)k, (int)k, 1.0, b->basis + r, (int)D, T, (int)k,
                0.0, to, (int)k);
    for (size_t i = 0; i < D; i++)
        memcpy(b->basis + i * D + r, to + i * k, k * sizeof *to);
    invert(b, arena);
    wv_arena_release(arena, mark);
}

static void swap_parents(wv_bend_row *row, size_t i, size_t j)
{
    for (size_t k = 0; k < row->parents; k++)
        row->parent[k] = row->parent[k] == i ? j : row->parent[k] == j ? i : row->parent[k];
}

void wv_bend_swap(wv_bend *b, size_t i, size_t j)
{
    size_t D = b->D;
    cblas_dswap((int)D, b->basis + i, (int)D, b->basis + j, (int)D);
    cblas_dswap((int)D, b->inverse + i * D, 1, b->inverse + j * D, 1);
    for (size_t c = b->r; c < D; c++)
        swap_parents(&b->row[c], i, j);
    for (size_t l = 0; l < b->layers; l++)
        for (size_t c = 0; c < D - b->r; c++)
            swap_parents(&b->layer[l].row[c], i, j);
}

void wv_bend_switch(wv_bend *b, bool on)
{
    b->on = on;
}

void wv_bend_count(wv_bend *b, size_t tried, size_t points)
{
    b->tried += tried;
    b->points += points;
}

/* ---- the map ----------------------------------------------------------------------------------------------------- */
/* to[k] = T v[k], or T'v. */
static void turned(size_t k, const double *T, bool back, const double *v, double *to)
{
    cblas_dgemv(CblasRowMajor, back ? CblasTrans : CblasNoTrans, (int)k, (int)k, 1.0, T, (int)k, v, 1, 0.0, to, 1);
}

/* Places of a point on its way from u to w. */
typedef struct {
    double *v, *w;              /* [D] before and after the last rows */
    double *at[WV_BEND_LAYERS]; /* [D - r] T'v of each layer, before its rows */
    double *first, *affine;     /* [D - r] v before the affine layer; [D - r][D - r + 1] that layer */
    double *spare;              /* [D] */
    double narrow;              /* log of the least scale of the others, or less */
} way;

static way new_way(const wv_bend *b, wv_arena *arena)
{
    way p = {.v = wv_arena_take(arena, b->D), .w = wv_arena_take(arena, b->D), .spare = wv_arena_take(arena, b->D)};
    for (size_t l = 0; l < b->layers; l++)
        p.at[l] = wv_arena_take(arena, b->D);
    p.first = wv_arena_take(arena, b->D);
    p.affine = wv_bend_affine_take(&b->affine, arena);
    return p;
}

/* v[n] = line(u[n]); returns the sum of the logs of the slopes. */
static double apply_lines(size_t n, const wv_bend_line *line, const double *u, double *v)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        wv_bend_turn t = wv_bend_line_at(&line[i], u[i]);
        v[i] = t.v;
        sum += line[i].curved ? log(t.slope) : 0;
    }
    return sum;
}

/* Rows at the arguments t: to[n] = m + exp(s) v[n]; returns the sum of the log scales, and adds the least of them to
 * *narrow. */
static double apply_rows(size_t n, const wv_bend_row *row, const double *t, const double *v, double *to, double *narrow)
{
    double sum = 0, least = INFINITY;
    for (size_t i = 0; i < n; i++) {
        wv_bend_place p = wv_bend_row_at(&row[i], t);
        to[i] = p.m + exp(p.s) * v[i];
        sum += p.s;
        least = fmin(least, p.s);
    }
    *narrow += n ? least : 0;
    return sum;
}

/* Arguments and others from u to p->w; returns the log determinant but for that of the basis. */
static double bend_point(const wv_bend *b, const double *u, way *p)
{
    size_t r = b->r, k = b->D - r;
    double sum = apply_lines(b->D, b->line, u, p->v), own = 0;
    p->narrow = 0;
    for (size_t i = 0; i < r; i++) /* later arguments need earlier ones */
        sum += apply_rows(1, &b->row[i], p->w, p->v + i, p->w + i, &own);
    memcpy(p->first, p->v + r, k * sizeof *p->first);
    if (b->affine.features)
        sum += wv_bend_affine_do(&b->affine, p->w, p->affine, p->v + r);
    for (size_t l = b->layers; l-- > 0;) {
        turned(k, b->layer[l].turn, true, p->v + r, p->at[l]);
        sum += apply_rows(k, b->layer[l].row, p->w, p->at[l], p->spare, &p->narrow);
        turned(k, b->layer[l].turn, false, p->spare, p->v + r);
    }
    return sum + apply_rows(k, b->row + r, p->w, p->v + r, p->w + r, &p->narrow);
}

/* All of many points at once: `turn` of the others y[n][D] to `to`[n][D - r], or T back. */
static void turn_many(const wv_bend *b, size_t layer, size_t n, const double *y, size_t ld, bool back, double *to,
                      size_t to_ld)
{
    size_t k = b->D - b->r;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, back ? CblasTrans : CblasNoTrans, (int)n, (int)k, (int)k, 1.0, y, (int)ld,
                b->layer[layer].turn, (int)k, 0.0, to, (int)to_ld);
}

/* y <- m + exp(s) y of a row at n points with arguments t[n][D], or the other way; log scales are added to sum[n]. */
static void apply_row(const wv_bend *b, const wv_bend_row *row, size_t n, const double *t, bool undo,
                      const double *from, double *y, size_t ld, double *sum, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    wv_bend_places p = wv_bend_row_places(row, n, t, b->D, false, arena);
    for (size_t i = 0; i < n; i++)
        y[i * ld] = undo ? (from[i * ld] - p.m[i]) / p.scale[i] : p.m[i] + p.scale[i] * from[i * ld];
    for (size_t i = 0; i < n && sum; i++)
        sum[i] += p.s[i];
    wv_arena_release(arena, mark);
}

/* w[n][D] of u[n][D]; log determinants, but for that of the basis, to sum[n]. */
static void bend_many(const wv_bend *b, size_t n, const double *u, double *w, double *sum, wv_arena *arena)
{
    size_t D = b->D, r = b->r, k = D - r, mark = wv_arena_mark(arena);
    double *turned = wv_arena_take(arena, n * k), *affine = wv_bend_affine_take(&b->affine, arena);
    for (size_t i = 0; i < n; i++)
        sum[i] = apply_lines(D, b->line, u + i * D, w + i * D);
    for (size_t c = 0; c < r; c++)
        apply_row(b, &b->row[c], n, w, false, w + c, w + c, D, sum, arena);
    for (size_t i = 0; i < n && b->affine.features; i++)
        sum[i] += wv_bend_affine_do(&b->affine, w + i * D, affine, w + i * D + r);
    for (size_t l = b->layers; l-- > 0;) {
        turn_many(b, l, n, w + r, D, false, turned, k);
        for (size_t c = 0; c < k; c++)
            apply_row(b, &b->layer[l].row[c], n, w, false, turned + c, turned + c, k, sum, arena);
        turn_many(b, l, n, turned, k, true, w + r, D);
    }
    for (size_t c = r; c < D; c++)
        apply_row(b, &b->row[c], n, w, false, w + c, w + c, D, sum, arena);
    wv_arena_release(arena, mark);
}

enum { BLOCK = 512 };

void wv_bend_forward(const wv_bend *b, size_t n, const double *u, double *x, double *log_det, wv_arena *arena)
{
    size_t D = b->D, mark = wv_arena_mark(arena);
    double *w = wv_arena_take(arena, BLOCK * D), *sum = wv_arena_take(arena, BLOCK);
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t here = n - first < BLOCK ? n - first : BLOCK;
        bend_many(b, here, u + first * D, w, sum, arena);
        for (size_t i = 0; i < here; i++) {
            memcpy(x + (first + i) * D, b->centre, D * sizeof *x);
            if (log_det)
                log_det[first + i] = sum[i] + b->log_det;
        }
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)here, (int)D, (int)D, 1.0, w, (int)D, b->basis,
                    (int)D, 1.0, x + first * D, (int)D);
    }
    wv_arena_release(arena, mark);
}

/* v[n][D] of w[n][D]. */
static void unbend_many(const wv_bend *b, size_t n, const double *w, double *v, wv_arena *arena)
{
    size_t D = b->D, r = b->r, k = D - r, mark = wv_arena_mark(arena);
    double *turned = wv_arena_take(arena, n * k), *affine = wv_bend_affine_take(&b->affine, arena);
    for (size_t c = 0; c < D; c++)
        apply_row(b, &b->row[c], n, w, true, w + c, v + c, D, NULL, arena);
    for (size_t l = 0; l < b->layers; l++) {
        turn_many(b, l, n, v + r, D, false, turned, k);
        for (size_t c = 0; c < k; c++)
            apply_row(b, &b->layer[l].row[c], n, w, true, turned + c, turned + c, k, NULL, arena);
        turn_many(b, l, n, turned, k, true, v + r, D);
    }
    for (size_t i = 0; i < n && b->affine.features; i++)
        wv_bend_affine_undo(&b->affine, w + i * D, affine, v + i * D + r);
    wv_arena_release(arena, mark);
}

void wv_bend_inverse(const wv_bend *b, size_t n, const double *x, double *u, wv_arena *arena)
{
    size_t D = b->D, mark = wv_arena_mark(arena);
    double *away = wv_arena_take(arena, BLOCK * D), *w = wv_arena_take(arena, BLOCK * D);
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t here = n - first < BLOCK ? n - first : BLOCK;
        for (size_t i = 0; i < here * D; i++)
            away[i] = x[first * D + i] - b->centre[i % D];
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)here, (int)D, (int)D, 1.0, away, (int)D, b->inverse,
                    (int)D, 0.0, w, (int)D);
        unbend_many(b, here, w, away, arena);
        for (size_t i = 0; i < here * D; i++)
            u[first * D + i] = wv_bend_line_inverse(&b->line[i % D], away[i]);
    }
    wv_arena_release(arena, mark);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* What a row at the arguments t passes on of the gradient *g by its result, with that of its log scale: to the
 * arguments, by[..], and to v. */
static void pass_back(const wv_bend_row *row, const double *t, double v, double *g, double *by)
{
    wv_bend_place p = wv_bend_row_at(row, t);
    double scaled = *g * exp(p.s);
    for (size_t k = 0; k < row->parents; k++)
        by[row->parent[k]] += (scaled * v + 1) * p.ds[k] + *g * p.dm[k];
    *g = scaled;
}

/* The other way: what came of the row is taken off again. */
static void pass_on(const wv_bend_row *row, const double *t, double v, double *g, double *by)
{
    wv_bend_place p = wv_bend_row_at(row, t);
    double scaled = *g, own = scaled * exp(-p.s);
    for (size_t k = 0; k < row->parents; k++)
        by[row->parent[k]] -= (scaled * v + 1) * p.ds[k] + own * p.dm[k];
    *g = own;
}

/* g[D], the gradient of log p by w, becomes that of log p + log det by u; bend_point has been at p. */
static void pull_point(const wv_bend *b, const double *u, const way *p, double *g)
{
    size_t r = b->r, k = b->D - r;
    for (size_t i = r; i < b->D; i++)
        pass_back(&b->row[i], p->w, p->v[i], &g[i], g);
    for (size_t l = 0; l < b->layers; l++) {
        turned(k, b->layer[l].turn, true, g + r, p->spare);
        for (size_t i = 0; i < k; i++)
            pass_back(&b->layer[l].row[i], p->w, p->at[l][i], &p->spare[i], g);
        turned(k, b->layer[l].turn, false, p->spare, g + r);
    }
    if (b->affine.features)
        wv_bend_affine_pull(&b->affine, p->w, p->affine, p->first, g + r, g);
    for (size_t i = r; i-- > 0;)
        pass_back(&b->row[i], p->w, p->v[i], &g[i], g);
    for (size_t i = 0; i < b->D; i++) {
        wv_bend_turn t = wv_bend_line_at(&b->line[i], u[i]);
        g[i] = g[i] * t.slope + t.log_slope_change;
    }
}

/* The other way: the whole gradient by an argument is known at once, and what came of others is taken off again. */
static void push_point(const wv_bend *b, const double *u, const way *p, double *g)
{
    size_t r = b->r, k = b->D - r;
    for (size_t i = 0; i < b->D; i++) {
        wv_bend_turn t = wv_bend_line_at(&b->line[i], u[i]);
        g[i] = (g[i] - t.log_slope_change) / t.slope;
    }
    for (size_t i = 0; i < r; i++)
        pass_on(&b->row[i], p->w, p->v[i], &g[i], g);
    if (b->affine.features)
        wv_bend_affine_push(&b->affine, p->w, p->affine, p->first, g + r, g);
    for (size_t l = b->layers; l-- > 0;) {
        turned(k, b->layer[l].turn, true, g + r, p->spare);
        for (size_t i = 0; i < k; i++)
            pass_on(&b->layer[l].row[i], p->w, p->at[l][i], &p->spare[i], g);
        turned(k, b->layer[l].turn, false, p->spare, g + r);
    }
    for (size_t i = r; i < b->D; i++)
        pass_on(&b->row[i], p->w, p->v[i], &g[i], g);
}

/* log_p += sign log det; the gradient is changed between two products with the basis or its inverse. */
static void pass(const wv_bend *b, bool pull, size_t n, const double *u, double *log_p, double *grad, wv_arena *arena)
{
    size_t D = b->D, mark = wv_arena_mark(arena);
    double *g = wv_arena_take(arena, D);
    way p = new_way(b, arena);
    for (size_t i = 0; i < n; i++) {
        if (log_p[i] == -INFINITY)
            continue;
        double det = bend_point(b, u + i * D, &p) + b->log_det;
        log_p[i] += pull ? det : -det;
        bool good = isfinite(log_p[i]) && (!pull || p.narrow > -wv_policy.bend_narrowest);
        double *at = grad ? grad + i * D : NULL;
        if (at && pull) {
            cblas_dgemv(CblasRowMajor, CblasTrans, (int)D, (int)D, 1.0, b->basis, (int)D, at, 1, 0.0, g, 1);
            pull_point(b, u + i * D, &p, g);
            memcpy(at, g, D * sizeof *g);
        } else if (at) {
            push_point(b, u + i * D, &p, at);
            cblas_dgemv(CblasRowMajor, CblasTrans, (int)D, (int)D, 1.0, b->inverse, (int)D, at, 1, 0.0, g, 1);
            memcpy(at, g, D * sizeof *g);
        }
        for (size_t k = 0; k < D && at; k++)
            good = good && isfinite(at[k]);
        if (good)
            continue;
        log_p[i] = -INFINITY;
        if (at)
            memset(at, 0, D * sizeof *at);
    }
    wv_arena_release(arena, mark);
}

void wv_bend_pull(const wv_bend *b, size_t n, const double *u, double *log_p, double *grad, wv_arena *arena)
{
    pass(b, true, n, u, log_p, grad, arena);
}

void wv_bend_push(const wv_bend *b, size_t n, const double *u, double *log_p, double *grad, wv_arena *arena)
{
    pass(b, false, n, u, log_p, grad, arena);
}

const double *wv_bend_show(wv_bend *b, size_t n, const double *x, wv_arena *arena)
{
    if (!b->on)
        return x;
    wv_bend_forward(b, n, x, b->shown, NULL, arena);
    return b->shown;
}
