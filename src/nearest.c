/* nearest.c - which particle is nearest: cells L_j = { z : c(z_j, z) < c(z_k, z) for all k } under a cost (cost.c;
 * method, section 1). */
#include "nearest.h"
#include "gaussian.h"
#include "policy.h"
#include "cost.h"
#include "simd/int_scores.h"
#include "simd/columns.h"
#include "dense.h"
#include "error.h"
#include "workers.h"
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Takes particle j, at `cost` from point k, into account. */
static inline void compare(size_t k, uint32_t j, double cost, uint32_t *cell, double *near, double *next)
{
    double old = near[k], after = next[k];
    bool nearer = cost < old;
    double further = nearer ? old : cost; /* no branches: they would often be guessed wrong */
    near[k] = nearer ? cost : old;
    cell[k] = nearer ? j : cell[k];
    next[k] = further < after ? further : after;
}

/* ---- whole numbers ----------------------------------------------------------------------------------------------- */
enum {
    LONG = 4096, /* dimensions at most: products stay below 2^28 */
    ROOM = 4096  /* candidates of a block */
};

/* Have whole numbers 8 bits, not 16? */
static bool bytes(size_t D)
{
    return (double)D > wv_policy.nearest_short;
}

static size_t words(size_t D)
{
    return !bytes(D) ? (D + 1) / 2 : (D + 3) / 4;
}

static size_t groups(size_t N)
{
    return (N + WV_INT_SCORES_GROUP - 1) / WV_INT_SCORES_GROUP;
}

/* Floats in a row of D, by whole vectors. */
static size_t whole_row(size_t D)
{
    return (D + 15) / 16 * 16;
}

static bool crowd(size_t N, size_t D)
{
    return (double)N >= wv_policy.nearest_crowd && D <= LONG && wv_int_scores_best();
}

/* The largest whole number: products of points and particles stay below 2^28. */
static double largest(const wv_int_scores_words *w)
{
    return w->bytes ? 127 : floor(sqrt(0x1p28 / (2 * (double)w->words)));
}

static float *take_floats(wv_arena *arena, size_t n)
{
    return (float *)(void *)wv_arena_take_index(arena, n);
}

static int32_t *take_ints(wv_arena *arena, size_t n)
{
    return (int32_t *)(void *)wv_arena_take_index(arena, n);
}

/* 32-bit words that rounded particles need beside their middle. */
static size_t rounded_words(size_t N, size_t D)
{
    return wv_times(WV_INT_SCORES_GROUP * groups(N), words(D) + 1);
}

/* Rounded particles without values. middle: [D]; room: [rounded_words]. */
static wv_nearest_rounded lay_out_rounded(size_t N, size_t D, double *middle, int32_t *room)
{
    return (wv_nearest_rounded){.w = {.bytes = bytes(D),
                                      .words = words(D),
                                      .groups = groups(N),
                                      .z = room,
                                      .base = room + WV_INT_SCORES_GROUP * groups(N) * words(D)},
                                .middle = middle};
}

/* The middle of the particles z[N][D], and the largest coordinate of one relative to it; NaN if there is one.
 * e: [whole_row] scratch. */
static float centre(size_t N, size_t D, const double *z, double *middle, float *e)
{
    float most = 0;
    memset(middle, 0, D * sizeof *middle);
    for (size_t j = 0; j < N; j++)
        cblas_daxpy((int)D, 1 / (double)N, z + j * D, 1, middle, 1);
    for (size_t j = 0; j < N; j++) {
        float here = wv_int_scores_best()->narrow(false, 1, D, z + j * D, middle, e);
        most = here <= most ? most : here; /* NaN stays, for it is not less than anything */
    }
    return most;
}

/* Rounds the particles z[N][D] into what lay_out_rounded has made. */
static void round_particles(size_t N, size_t D, const double *z, wv_nearest_rounded *r, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    const wv_int_scores *pass = wv_int_scores_best();
    float *e = take_floats(arena, WV_INT_SCORES_GROUP * whole_row(D)), size[WV_INT_SCORES_GROUP],
          rest[WV_INT_SCORES_GROUP], most = centre(N, D, z, r->middle, e); /* e: [group][whole_row] */
    r->scale = largest(&r->w) / (double)most * (1 - 4 * (double)FLT_EPSILON);
    r->fit = most > 1e-15F && most < 1e15F;
    r->radius = r->rest = 0;
    memset(r->w.z, 0, rounded_words(N, D) * sizeof *r->w.z);
    for (size_t j = 0; j < N && r->fit; j += WV_INT_SCORES_GROUP) {
        size_t here = N - j < WV_INT_SCORES_GROUP ? N - j : WV_INT_SCORES_GROUP;
        pass->narrow(false, here, D, z + j * D, r->middle, e);
        pass->round(&r->w, here, whole_row(D), e, (float)r->scale, 0, WV_INT_SCORES_GROUP, r->w.z + j * r->w.words,
                    size, rest, r->w.base + j);
        for (size_t k = 0; k < here; k++) {
            double norm = sqrt((double)size[k]) / r->scale * (1 + (double)D * (double)FLT_EPSILON);
            r->radius = fmax(r->radius, norm);
            r->rest = fmax(r->rest, sqrt((double)rest[k]) / r->scale * (1 + (double)D * (double)FLT_EPSILON) +
                                        2 * (double)FLT_EPSILON * norm);
            r->w.base[j + k] *= r->w.bytes ? 128 : 0;
        }
    }
    wv_arena_release(arena, mark);
}

/* ---- those of one batch ------------------------------------------------------------------------------------------ */
bool wv_nearest_batch_new(wv_nearest_batch *b, size_t N, size_t D)
{
    *b = (wv_nearest_batch){0};
    if (!crowd(N, D))
        return true;
    b->middle = malloc(wv_times(D, sizeof *b->middle));
    b->words = malloc(wv_times(rounded_words(N, D), sizeof *b->words));
    return b->middle && b->words;
}

void wv_nearest_batch_free(wv_nearest_batch *b)
{
    free(b->middle);
    free(b->words);
}

void wv_nearest_prepare(wv_nearest_batch *b, const wv_geometry *g, wv_arena *arena)
{
    if (!b->middle)
        return;
    b->particles = lay_out_rounded(g->N, g->D, b->middle, b->words);
    round_particles(g->N, g->D, g->z, &b->particles, arena);
    b->made = true;
}

/* ---- single precision -------------------------------------------------------------------------------------------- */
/* The coarse part of a sieve: scores of the middle, and scratch. */
static void lay_out_coarse(wv_nearest_sieve *s, const wv_nearest_rounded *r, bool mirrored, wv_arena *arena)
{
    size_t N = s->N, D = s->D, n = WV_INT_SCORES_GROUP * groups(N), room = ROOM + WV_INT_SCORES_GROUP;
    const wv_columns *pass = wv_columns_best();
    double square = pass->row_distance(D, s->middle, r->middle);
    s->rounded = r;
    s->w = r->w;
    s->w.mirrored = mirrored;
    s->apart = sqrt(square);
    s->e = take_floats(arena, WV_COLUMNS * whole_row(D));
    s->list.row = wv_arena_take_index(arena, room);
    s->list.particle = wv_arena_take_index(arena, room);
    s->list.hit = wv_arena_take_index(arena, room);
    s->distance = wv_arena_take(arena, ROOM);
    s->w.x = take_ints(arena, WV_COLUMNS * s->w.words);
    s->w.square = take_floats(arena, n);
    s->w.plus = take_ints(arena, n);
    s->w.minus = take_ints(arena, n);
    s->w.low = take_ints(arena, groups(N) * WV_INT_SCORES_IMAGES);
    memset(s->w.x, 0, WV_COLUMNS * s->w.words * sizeof *s->w.x);
    for (size_t j = 0; j < n; j++)
        s->w.square[j] = j < N ? (float)(pass->row_distance(D, s->wide + j * D, s->middle) - square) : (float)INFINITY;
}

/* A sieve for particles z[N][D], whose memory the caller gives back. middle: NULL for their mean. rounded: the
 * particles as whole numbers; NULL: there are none. */
static wv_nearest_sieve make_sieve(size_t N, size_t D, const double *z, const double *middle,
                                   const wv_nearest_rounded *rounded, wv_arena *arena)
{
    wv_nearest_sieve s = {.N = N,
                          .D = D,
                          .middle = wv_arena_take(arena, D),
                          .z = take_floats(arena, N * D),
                          .x = take_floats(arena, WV_COLUMNS * D),
                          .square = take_floats(arena, N),
                          .wide = z};
    memset(s.middle, 0, D * sizeof *s.middle);
    for (size_t j = 0; j < N && !middle; j++)
        cblas_daxpy((int)D, 1 / (double)N, z + j * D, 1, s.middle, 1);
    if (middle)
        memcpy(s.middle, middle, D * sizeof *middle);
    if (rounded && rounded->fit)
        lay_out_coarse(&s, rounded, middle != NULL, arena);
    return s;
}

/* The same with whole numbers made for this sieve alone, into *r, where they are of use. */
static wv_nearest_sieve make_own_sieve(size_t N, size_t D, const double *z, wv_nearest_rounded *r, wv_arena *arena)
{
    if (!crowd(N, D))
        return make_sieve(N, D, z, NULL, NULL, arena);
    *r = lay_out_rounded(N, D, wv_arena_take(arena, D), take_ints(arena, rounded_words(N, D)));
    round_particles(N, D, z, r, arena);
    return make_sieve(N, D, z, NULL, r, arena);
}

/* Particles in single precision, when they are wanted. */
static void shorten(wv_nearest_sieve *s)
{
    size_t D = s->D;
    for (size_t j = 0; j < s->N && !s->made; j++) {
        double square = wv_columns_best()->row_distance(D, s->wide + j * D, s->middle);
        s->square[j] = (float)square;
        s->radius = fmax(s->radius, sqrt(square));
        for (size_t i = 0; i < D; i++)
            s->z[j * D + i] = (float)(s->wide[j * D + i] - s->middle[i]);
    }
    s->made = true;
}

/* The nearer of two candidates of a point, and what it costs, in double. */
static void choose(const wv_nearest_sieve *s, const double *x, int32_t first, int32_t second, uint32_t *cell,
                   double *near, double *next)
{
    double a = wv_columns_best()->row_distance(s->D, x, s->wide + (size_t)first * s->D),
           b = wv_columns_best()->row_distance(s->D, x, s->wide + (size_t)second * s->D);
    bool swap = b < a || (b == a && second < first);
    *near = swap ? b : a;
    *next = swap ? a : b;
    *cell = (uint32_t)(swap ? second : first);
}

/* Compares a point with all particles. */
static void scan(const wv_nearest_sieve *s, const double *x, uint32_t *cell, double *near, double *next)
{
    *near = *next = INFINITY;
    *cell = 0;
    for (size_t j = 0; j < s->N; j++)
        compare(0, (uint32_t)j, wv_columns_best()->row_distance(s->D, x, s->wide + j * s->D), cell, near, next);
}

/* Rows, or halves of pairs of rows, as whole numbers: sizes and rests in single precision. */
typedef struct {
    double scale;                             /* of the rows */
    float size[WV_COLUMNS], rest[WV_COLUMNS]; /* squared norms of scaled rows, and of what rounding took from them */
} coarse_rows;

/* Raises the scores in limit[WV_INT_SCORES_IMAGES] by what rounding may have added to them, in the units `whole` of
 * scores. If a row is off by `left` and a particle by `rest`, their product is off by left |z| + |e| rest at most, both
 * being measured. False: the numbers are too large. */
static bool raise_limits(const wv_nearest_sieve *s, size_t n, const coarse_rows *c, double whole, int32_t *limit)
{
    const double unit = FLT_EPSILON, R = s->rounded->radius, rounded = s->rounded->rest, reach = R * (R + 2 * s->apart),
                 origin = cblas_dnrm2((int)s->D, s->middle, 1);
    size_t D = s->D;
    for (size_t k = 0; k < WV_COLUMNS; k++) {
        double e = sqrt((double)c->size[k < n ? k : 0]) / c->scale * (1 + (double)D * unit),
               left = sqrt((double)c->rest[k < n ? k : 0]) / c->scale * (1 + (double)D * unit) + 2 * unit * e,
               all = e + R + s->apart;
        double wrong = 2 * (left * R + (e + left) * rounded) * (1 + 1e-9) + 16 * DBL_EPSILON * (origin + all) * all +
                       (double)(D + 8) * DBL_EPSILON * all * all;
        double margin = 2 * (wrong * whole + 2 + 2 * unit * reach * whole);
        if (!(margin < 0x1p28))
            return false;
        limit[k] = k < n ? limit[k] + (int32_t)margin : INT32_MIN;
        limit[WV_COLUMNS + k] = k < n && s->w.mirrored ? limit[WV_COLUMNS + k] + (int32_t)margin : INT32_MIN;
    }
    return true;
}

/* Nearest and second nearest particle of a block of points, by whole numbers: n rows, or n pairs of mirror images,
 * middle + e and middle - e, up to rounding in double. Scores, squares - 2 e.z in units of twice the product of the
 * units of e and z, tell all particles that can be one of the two; these are compared in double.
 * next: NULL if it is not wanted. False: there are too many of them, or the numbers are too large or too small. */
static bool sift_coarse(const wv_nearest_sieve *s, size_t n, const double *rows, uint32_t *cell, double *near,
                        double *next)
{
    const double reach = s->rounded->radius * (s->rounded->radius + 2 * s->apart);
    const wv_int_scores *pass = wv_int_scores_best();
    int32_t limit[WV_INT_SCORES_IMAGES], sum[WV_COLUMNS];
    double spare[2 * WV_COLUMNS];
    size_t D = s->D, points = s->w.mirrored ? 2 * n : n, room = points * s->N / (size_t)wv_policy.nearest_candidates;
    room = room < ROOM ? room : ROOM;
    double most = (double)pass->narrow(s->w.mirrored, n, D, rows, s->middle, s->e);
    coarse_rows c = {.scale = (double)(float)(largest(&s->w) / most * (1 - 4 * (double)FLT_EPSILON))};
    double whole = c.scale * s->rounded->scale / 2;
    if (!(most > 1e-15 && most < 1e15) || !(reach * whole < 0x1p28))
        return false;
    pass->round(&s->w, n, whole_row(D), s->e, (float)c.scale, 128, WV_COLUMNS, s->w.x, c.size, c.rest, sum);
    pass->level(&s->w, (float)whole);
    pass->sweep(&s->w, next != NULL, limit);
    if (!raise_limits(s, n, &c, whole, limit))
        return false;
    size_t listed = pass->pick(&s->w, limit, room, &s->list);
    if (listed == room)
        return false;
    next = next ? next : spare;
    for (size_t k = 0; k < points; k++)
        near[k] = next[k] = INFINITY, cell[k] = 0;
    wv_columns_best()->row_distances(D, listed, rows, s->list.row, s->wide, s->list.particle, s->distance);
    for (size_t i = 0; i < listed; i++)
        compare(s->list.row[i], s->list.particle[i], s->distance[i], cell, near, next);
    return true;
}

/* The same in single precision, points given as rows and in columns. Single precision tells the two; it is as
 * good as double if the third is further away than the second by more than what rounding can change:
 * coordinates by the share `unit` of themselves, and sums of squares by (D + 4) units. Else all are compared.
 * False: that would be for too many points. */
static bool sift(wv_nearest_sieve *s, size_t n, const double *rows, const double *columns, uint32_t *cell, double *near,
                 double *next)
{
    const double unit = FLT_EPSILON;
    int32_t first[WV_COLUMNS], second[WV_COLUMNS];
    float third[WV_COLUMNS];
    size_t D = s->D, doubts = 0;
    shorten(s);
    if (!(s->radius < 1e18))
        return false;
    wv_columns_best()->shorten(D, columns, s->middle, s->x);
    wv_columns_best()->nearby(D, n, s->N, s->x, s->z, first, second, third);
    for (size_t k = 0; k < n; k++) {
        choose(s, rows + k * D, first[k], second[k], &cell[k], &near[k], &next[k]);
        double rest = sqrt((double)third[k] / (1 + (double)(D + 4) * unit)) - unit * (2 * s->radius + sqrt(near[k]));
        if (rest > 0 && rest * rest > next[k] && third[k] > 1e-30F && near[k] < 1e36)
            continue;
        if ((double)++doubts > wv_policy.nearest_doubts)
            return false;
        scan(s, rows + k * D, &cell[k], &near[k], &next[k]);
    }
    return true;
}

/* The same for rows in pairs, middle + e and middle - e, up to rounding in double: products with e serve both. Of
 * squared distances less |e|^2, 2 e.z may be wrong by (D + 4) units of |e||z| and the sum by one of itself. */
static bool sift_mirrored(wv_nearest_sieve *s, size_t pairs, const double *rows, uint32_t *cell, double *near,
                          double *next)
{
    shorten(s);
    const double unit = FLT_EPSILON, R = s->radius, origin = cblas_dnrm2((int)s->D, s->middle, 1);
    int32_t first[2 * WV_COLUMNS], second[2 * WV_COLUMNS];
    float third[2 * WV_COLUMNS];
    size_t D = s->D, doubts = 0;
    if (!(R < 1e18))
        return false;
    for (size_t k = 0; k < pairs; k++)
        for (size_t i = 0; i < D; i++)
            s->x[i * WV_COLUMNS + k] = (float)((rows[2 * k * D + i] - rows[(2 * k + 1) * D + i]) / 2);
    wv_columns_best()->nearby_mirrored(D, pairs, s->N, s->x, s->z, s->square, first, second, third);
    for (size_t k = 0; k < 2 * pairs; k++) {
        size_t from = k / 2 + (k % 2 ? WV_COLUMNS : 0);
        choose(s, rows + k * D, first[from], second[from], &cell[k], &near[k], &next[k]);
        double square = wv_columns_best()->row_distance(D, rows + k * D, s->middle), e = sqrt(square),
               off = 4 * DBL_EPSILON * (origin + e);
        double wrong = unit * ((double)(D + 6) * R * (e + off) + 2 * R * R) + 4 * off * (e + R + off);
        if (square + (double)third[from] - wrong > next[k] && square > 1e-30 && square < 1e36 && R > 1e-15)
            continue;
        if ((double)++doubts > wv_policy.nearest_doubts)
            return false;
        scan(s, rows + k * D, &cell[k], &near[k], &next[k]);
    }
    return true;
}

/* Compares a block of points, which stand in columns, with all particles. */
static void compare_block(size_t N, size_t D, const double *z, size_t n, const double *columns, uint32_t *cell,
                          double *near, double *next)
{
    double which[WV_COLUMNS], least[WV_COLUMNS], other[WV_COLUMNS];
    wv_columns_best()->nearest(D, wv_columns_round(n), N, columns, z, least, other, which);
    for (size_t k = 0; k < n; k++) {
        cell[k] = (uint32_t)which[k];
        near[k] = least[k];
        next[k] = other[k];
    }
}

/* Tries whole numbers; where they fail once they are not tried again. */
static bool try_coarse(wv_nearest_sieve *s, size_t n, const double *rows, uint32_t *cell, double *near, double *next)
{
    if (s && s->rounded && !sift_coarse(s, n, rows, cell, near, next))
        s->rounded = NULL;
    return s && s->rounded;
}

/* Compares a block of rows with all particles. */
static void compare_rows(size_t N, size_t D, const double *z, size_t n, const double *rows, uint32_t *cell,
                         double *near, double *next, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *columns = wv_arena_take(arena, D * WV_COLUMNS); /* [D][WV_COLUMNS] */
    wv_columns_turn(D, n, rows, columns);
    compare_block(N, D, z, n, columns, cell, near, next);
    wv_arena_release(arena, mark);
}

/* Sieves a block of rows in single precision. */
static bool sift_rows(wv_nearest_sieve *s, size_t n, const double *rows, uint32_t *cell, double *near, double *next,
                      wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *columns = wv_arena_take(arena, s->D * WV_COLUMNS); /* [D][WV_COLUMNS] */
    wv_columns_turn(s->D, n, rows, columns);
    bool found = sift(s, n, rows, columns, cell, near, next);
    wv_arena_release(arena, mark);
    return found;
}

/* Nearest and second nearest of the particles z[N][D], by squared distance, of a block of points.
 * s: NULL for few particles. */
static void find(size_t N, size_t D, wv_nearest_sieve *s, const double *z, size_t n, const double *rows, uint32_t *cell,
                 double *near, double *next, wv_arena *arena)
{
    if (!try_coarse(s, n, rows, cell, near, next) && !(s && sift_rows(s, n, rows, cell, near, next, arena)))
        compare_rows(N, D, z, n, rows, cell, near, next, arena);
}

/* Particles enough to sift them. */
static bool many(size_t N)
{
    return (double)N >= wv_policy.nearest_many;
}

/* Under the squared distance. */
static void assign_squared(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                           wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), D = g->D;
    bool sifting = many(g->N) && n >= WV_COLUMNS;
    wv_nearest_rounded rounded;
    wv_nearest_sieve s = {0};
    if (sifting)
        s = make_own_sieve(g->N, D, g->z, &rounded, arena);
    for (size_t first = 0; first < n; first += WV_COLUMNS)
        find(g->N, D, sifting ? &s : NULL, g->z, n - first < WV_COLUMNS ? n - first : WV_COLUMNS, x + first * D,
             cell + first, near + first, next + first, arena);
    wv_arena_release(arena, mark);
}

/* The same for few particles where one metric holds for all cells, a full one: points and particles are
 * whitened, relative to the first particle. */
static void assign_few(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                       wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), D = g->D, block = D * WV_COLUMNS;
    double *inverse = wv_arena_take(arena, D * D), *z = wv_arena_take(arena, g->N * D), /* [D][D], [N][D] */
                                                       *columns = wv_arena_take(arena, block),
           *spare = wv_arena_take(arena, block), *y = wv_arena_take(arena, block),
           r[WV_COLUMNS]; /* [D][WV_COLUMNS] each */
    wv_gaussian metric = {g->cost.metric_family, D, 0, g->z, g->metric, 0};
    wv_gaussian_whiten(&metric, g->N, g->z, z, arena);
    wv_dense_invert(D, g->metric, inverse);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
        wv_columns_turn(D, here, x + first * D, columns);
        wv_columns_whiten(D, wv_columns_round(here), inverse, g->z, columns, spare, y, r);
        compare_block(g->N, D, z, here, y, cell + first, near + first, next + first);
    }
    wv_arena_release(arena, mark);
}

/* The same for any number of particles and any metric. */
static void assign_whitened(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                            wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), D = g->D;
    double *z = wv_arena_take(arena, g->N * D), *rows = wv_arena_take(arena, WV_COLUMNS * D); /* [N][D], [..][D] */
    bool sifting = many(g->N) && n >= WV_COLUMNS;
    wv_gaussian metric = {g->cost.metric_family, D, 0, g->z, g->metric, 0};
    wv_nearest_rounded rounded;
    wv_nearest_sieve s = {0};
    wv_gaussian_whiten(&metric, g->N, g->z, z, arena);
    if (sifting)
        s = make_own_sieve(g->N, D, z, &rounded, arena);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
        wv_gaussian_whiten(&metric, here, x + first * D, rows, arena);
        find(g->N, D, sifting ? &s : NULL, z, here, rows, cell + first, near + first, next + first, arena);
    }
    wv_arena_release(arena, mark);
}

/* The same for any cost. */
static void assign_any(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                       wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), D = g->D;
    double *cost = wv_arena_take(arena, WV_BLOCK), *y = wv_arena_take(arena, WV_BLOCK * D); /* of a block */
    for (size_t k = 0; k < n; k++) {
        cell[k] = 0;
        near[k] = next[k] = INFINITY;
    }
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        for (size_t j = 0; j < g->N; j++) {
            wv_cost_cost(g, j, g->z + j * D, here, x + first * D, cost, y, arena);
            for (size_t k = 0; k < here; k++)
                compare(first + k, (uint32_t)j, cost[k], cell, near, next);
        }
    }
    wv_arena_release(arena, mark);
}

void wv_nearest_assign(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                       wv_arena *arena)
{
    bool whitened = g->cost.kind == WVGD_MAHALANOBIS && (double)g->D <= wv_policy.nearest_whitened,
         few = !many(g->N) && n >= WV_COLUMNS && g->D <= WV_DENSE && g->cost.metric_family == wv_family_get(WVGD_FULL);
    if (!n)
        return;
    if (g->cost.kind == WVGD_SQEUCLID)
        assign_squared(g, n, x, cell, near, next, arena);
    else
        (!whitened ? assign_any : few ? assign_few : assign_whitened)(g, n, x, cell, near, next, arena);
}

bool wv_nearest_mirrored(const wv_nearest_batch *b, const wv_geometry *g, const double *middle, wv_nearest_sieve *s,
                         wv_arena *arena)
{
    if (g->cost.kind != WVGD_SQEUCLID || !many(g->N))
        return false;
    *s = make_sieve(g->N, g->D, g->z, middle, b->made ? &b->particles : NULL, arena);
    return true;
}

void wv_nearest_assign_mirrored(wv_nearest_sieve *s, size_t n, const double *x, uint32_t *cell, double *near,
                                double *next, bool second, wv_arena *arena)
{
    if (try_coarse(s, n / 2, x, cell, near, second ? next : NULL) || sift_mirrored(s, n / 2, x, cell, near, next))
        return;
    for (size_t at = 0, here; at < n; at += here) {
        here = n - at < WV_COLUMNS ? n - at : WV_COLUMNS;
        compare_rows(s->N, s->D, s->wide, here, x + at * s->D, cell + at, near + at, next + at, arena);
    }
}
