/* bend_affine.c - the affine layer of a bend: its map, and gradients through it (bend_affine.h). */
#include "coordinates/bend_affine.h"
#include "policy.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

size_t wv_bend_affine_parents(const wv_bend_affine *a)
{
    return a->features ? (a->features - 1) / 2 : 0;
}

/* ---- saved states ------------------------------------------------------------------------------------------------ */
bool wv_bend_affine_archive(wv_bend_affine *a, wv_archive *archive, size_t D, size_t r)
{
    struct {
        size_t k, features, parent[WV_BEND_PARENTS];
    } c = {.k = a->features ? a->k : 0, .features = a->features};
    memcpy(c.parent, a->parent, wv_bend_affine_parents(a) * sizeof *c.parent);
    wv_archive_values(archive, &c, sizeof c);
    if (!c.features)
        c.k = 0;
    if (c.features > WV_BEND_FEATURES || (c.features && (!r || c.k != D - r || c.features % 2 == 0)))
        return wv_archive_refuse(archive);
    for (size_t i = 0; 2 * i + 1 < c.features; i++)
        if (c.parent[i] >= r)
            return wv_archive_refuse(archive);
    if (wv_archive_reading(archive)) {
        a->k = c.k;
        a->features = c.features;
        memcpy(a->parent, c.parent, sizeof c.parent);
    }
    wv_archive_array(archive, a->slice, c.features * c.k * (c.k + 1));
    return true;
}

/* ---- the map ----------------------------------------------------------------------------------------------------- */
/* phi[features], and, unless NULL, slope[features] of each by its argument. */
static void look(const wv_bend_affine *a, const double *t, double *phi, double *slope)
{
    phi[0] = 1;
    for (size_t i = 0; i < wv_bend_affine_parents(a); i++) {
        double x = t[a->parent[i]], far = x / wv_policy.bend_affine_reach, root = sqrt(1 + far * far), s = x / root;
        phi[1 + 2 * i] = s;
        phi[2 + 2 * i] = s * s - 1;
        if (slope) {
            slope[1 + 2 * i] = 1 / (root * root * root);
            slope[2 + 2 * i] = 2 * s * slope[1 + 2 * i];
        }
    }
}

void wv_bend_affine_features(const wv_bend_affine *a, const double *t, double *phi)
{
    look(a, t, phi, NULL);
}

double *wv_bend_affine_take(const wv_bend_affine *a, wv_arena *arena)
{
    return wv_arena_take(arena, a->features ? a->k * (a->k + 1) : 0);
}

/* The layer at t. */
static void set(const wv_bend_affine *a, const double *t, double *at)
{
    double phi[WV_BEND_FEATURES];
    size_t size = a->k * (a->k + 1);
    look(a, t, phi, NULL);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)a->features, (int)size, 1.0, a->slice, (int)size, phi, 1, 0.0, at, 1);
}

double wv_bend_affine_do(const wv_bend_affine *a, const double *t, double *at, double *v)
{
    size_t k = a->k;
    double sum = 0;
    set(a, t, at);
    for (size_t i = k; i-- > 0;) { /* the last first: others need v, not y */
        const double *c = at + i * (k + 1);
        v[i] = c[k] + exp(c[i]) * v[i] + cblas_ddot((int)i, c, 1, v, 1);
        sum += c[i];
    }
    return sum;
}

void wv_bend_affine_undo(const wv_bend_affine *a, const double *t, double *at, double *y)
{
    size_t k = a->k;
    set(a, t, at);
    for (size_t i = 0; i < k; i++) {
        const double *c = at + i * (k + 1);
        y[i] = (y[i] - c[k] - cblas_ddot((int)i, c, 1, y, 1)) * exp(-c[i]);
    }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* Adds to by[..], `times`, what comes of the arguments of g.y and of the log determinant, g being the gradient by y. */
static void add_arguments(const wv_bend_affine *a, const double *t, const double *at, const double *v, const double *g,
                          double times, double *by)
{
    double phi[WV_BEND_FEATURES], slope[WV_BEND_FEATURES];
    size_t k = a->k;
    look(a, t, phi, slope);
    for (size_t f = 1; f < a->features; f++) {
        double sum = 0;
        for (size_t i = 0; i < k; i++) {
            const double *c = a->slice + (f * k + i) * (k + 1);
            sum += g[i] * (c[k] + cblas_ddot((int)i, c, 1, v, 1)) + c[i] * (g[i] * exp(at[i * (k + 1) + i]) * v[i] + 1);
        }
        by[a->parent[(f - 1) / 2]] += times * sum * slope[f];
    }
}

void wv_bend_affine_pull(const wv_bend_affine *a, const double *t, const double *at, const double *v, double *g,
                         double *by)
{
    size_t k = a->k;
    add_arguments(a, t, at, v, g, 1, by);
    for (size_t i = 0; i < k; i++) {
        const double *c = at + i * (k + 1);
        cblas_daxpy((int)i, g[i], c, 1, g, 1);
        g[i] *= exp(c[i]);
    }
}

void wv_bend_affine_push(const wv_bend_affine *a, const double *t, const double *at, const double *v, double *g,
                         double *by)
{
    size_t k = a->k;
    for (size_t i = k; i-- > 0;) {
        const double *c = at + i * (k + 1);
        g[i] *= exp(-c[i]);
        cblas_daxpy((int)i, -g[i], c, 1, g, 1);
    }
    add_arguments(a, t, at, v, g, -1, by);
}
