/* report.c - what the page shows, as JSON: run.json without its matrices, and those, draws, densities, trace and
 * history packed (pack.h). Budgets keep the page below 10 MB: where there is more, draws and frames are thinned and
 * the lightest components go without ellipses, and a note says so. */
#include "report.h"
#include "json_values.h"
#include "pack.h"
#include "run_json.h"
#include <lapacke.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum {
    DRAW_VALUES = 1600000,
    FRAME_VALUES = 300000,
    TRACE_VALUES = 150000,
    CORRELATIONS = 2000000,
    METRIC_DIM = 256,
    BEND_DIM = 64,
    OWN_VALUES = 60000,
    CHECKED = 2000,
    RASTER = 160
};

static double *numbers(size_t n)
{
    return malloc((n + 1) * sizeof(double));
}

/* ---- particles and components ------------------------------------------------------------------------------------ */
/* sd[D] and, unless NULL, correlations r[D(D-1)/2] (row by row below the diagonal) from the chol
 * or sd of a component. */
static void read_shape(const json_t *o, size_t D, double *sd, double *r)
{
    const json_t *chol = json_object_get(o, "chol"), *sds = json_object_get(o, "sd");
    double *L = json_is_array(chol) ? calloc(D * D + 1, sizeof *L) : NULL;
    for (size_t i = 0; L && i < D; i++)
        for (size_t k = 0; k <= i; k++)
            L[i * D + k] = run_item(json_array_get(chol, i), k);
    for (size_t i = 0; i < D; i++) {
        double sum = 0;
        for (size_t k = 0; L && k <= i; k++)
            sum += L[i * D + k] * L[i * D + k];
        sd[i] = L ? sqrt(sum) : run_item(sds, i);
    }
    for (size_t i = 1, at = 0; r && i < D; i++)
        for (size_t k = 0; k < i; k++, at++) {
            double sum = 0;
            for (size_t c = 0; L && c <= k; c++)
                sum += L[i * D + c] * L[k * D + c];
            r[at] = L ? sum / (sd[i] * sd[k]) : 0;
        }
    free(L);
}

/* {key: [number or null]} of every object of the list. */
static json_t *column(const json_t *list, const char *key)
{
    json_t *a = json_array();
    for (size_t j = 0; j < json_array_size(list); j++)
        json_array_append_new(a, json_number(number_at(json_array_get(list, j), key)));
    return a;
}

/* Vectors `key` of every object: [n][D]. */
static json_t *vectors(const json_t *list, const char *key, size_t D)
{
    size_t n = json_array_size(list);
    double *x = numbers(n * D);
    for (size_t j = 0; x && j < n; j++)
        for (size_t i = 0; i < D; i++)
            x[j * D + i] = run_item(json_object_get(json_array_get(list, j), key), i);
    json_t *packed = x ? pack_floats(n * D, x) : NULL;
    free(x);
    return packed;
}

/* mu, sd and, while the budget lasts, correlations. */
static void add_shapes(json_t *o, const json_t *list, size_t D, size_t *budget)
{
    size_t n = json_array_size(list), pairs = D * (D - 1) / 2, most = pairs ? *budget / pairs : n;
    size_t with = most < n ? most : n;
    double *sd = numbers(n * D), *r = numbers(with * pairs);
    for (size_t j = 0; sd && r && j < n; j++)
        read_shape(json_array_get(list, j), D, sd + j * D, j < with ? r + j * pairs : NULL);
    json_object_set_new(o, "mu", vectors(list, "mu", D));
    if (sd && r) {
        json_object_set_new(o, "sd", pack_floats(n * D, sd));
        json_object_set_new(o, "correlations", pack_correlations(with * pairs, r));
        json_object_set_new(o, "correlated", json_integer((json_int_t)with));
        *budget -= with * pairs;
    }
    free(sd);
    free(r);
}

static bool are_bent(const run_view *v, const char *what)
{
    const json_t *how = json_object_get(json_object_get(v->run, "bend"), what);
    return json_is_string(how) && !strcmp(json_string_value(how), "bent");
}

/* Whether the page has what it takes to draw them, but for a budget. */
static bool are_drawn(const run_view *v, const char *what)
{
    return !are_bent(v, what) || (v->D <= BEND_DIM && json_object_get(json_object_get(v->run, "bend"), "map"));
}

/* The map, with which the page draws contours of Gaussians in bent coordinates; null without. */
static json_t *describe_bend(run_view *v)
{
    json_t *map = json_object_get(json_object_get(v->run, "bend"), "map"), *o = json_object();
    bool needed = are_bent(v, "particles") || are_bent(v, "components"), shown = needed && map && v->D <= BEND_DIM;
    if (needed && !map)
        note(v, "run.json has no map of bent coordinates: no contours of components");
    else if (needed && !shown)
        note(v, "no contours of components: they are bent, in more than %d dimensions", BEND_DIM);
    if (shown)
        json_object_set(o, "map", map);
    return o;
}

/* mu and, while the budget lasts, chol, in bent coordinates. */
static void add_bent_shapes(json_t *o, const json_t *list, size_t D, size_t *budget)
{
    const size_t bytes = 4; /* of a number; correlations take one */
    size_t n = json_array_size(list), most = D <= BEND_DIM ? *budget / (bytes * D * D) : 0, with = most < n ? most : n;
    double *root = numbers(with * D * D);
    for (size_t j = 0; root && j < with; j++)
        for (size_t i = 0; i < D * D; i++)
            root[j * D * D + i] = run_item(json_array_get(json_object_get(json_array_get(list, j), "chol"), i / D),
                                           i % D);
    json_object_set_new(o, "mu", vectors(list, "mu", D));
    json_object_set_new(o, "root", root ? pack_floats(with * D * D, root) : json_string(""));
    json_object_set_new(o, "correlated", json_integer(root ? (json_int_t)with : 0));
    *budget -= with * bytes * D * D;
    free(root);
}

static json_t *describe_particles(run_view *v, size_t *budget)
{
    static const char *const keys[] = {"beta", "beta_se",  "weight", "log_Z",   "elbo", "elbo_se",
                                       "ess",  "pareto_k", "gain",   "gain_se", "loss", "loss_se"};
    const json_t *list = json_object_get(v->run, "particles");
    json_t *o = json_object();
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        json_object_set_new(o, keys[k], column(list, keys[k]));
    json_object_set_new(o, "z", vectors(list, "z", v->D));
    if (v->particle)
        json_object_set_new(o, "shown", pack_floats(v->N * v->P, v->particle));
    (are_bent(v, "particles") ? add_bent_shapes : add_shapes)(o, list, v->D, budget);
    if (are_drawn(v, "particles") && number_at(o, "correlated") < (double)v->N)
        note(v, "the page shows ellipses for %.0f of %zu particles only", number_at(o, "correlated"), v->N);
    return o;
}

/* The mixture of the staged solver; components of the joint solver are those of its particles. */
static json_t *describe_components(run_view *v, size_t *budget)
{
    const json_t *list = is_staged(v) ? json_object_get(v->run, "components") : NULL;
    json_t *o = json_object();
    if (!json_is_array(list))
        list = NULL;
    json_object_set_new(o, "weight", list ? column(list, "weight") : json_array());
    if (list)
        (are_bent(v, "components") ? add_bent_shapes : add_shapes)(o, list, v->D, budget);
    if (list && are_drawn(v, "components") && number_at(o, "correlated") < (double)json_array_size(list))
        note(v, "the page shows ellipses for %.0f of %zu mixture components only", number_at(o, "correlated"),
             json_array_size(list));
    return o;
}

/* ---- draws and densities ----------------------------------------------------------------------------------------- */
/* Every step-th row. */
static double *thin_rows(size_t rows, size_t step, size_t columns, const double *x)
{
    double *y = numbers(rows * columns);
    for (size_t i = 0; y && i < rows; i++)
        memcpy(y + i * columns, x + i * step * columns, columns * sizeof *x);
    return y;
}

static json_t *describe_draws(run_view *v)
{
    size_t columns = v->P + (v->coordinate ? v->D : 0), step = (v->n * columns + DRAW_VALUES - 1) / DRAW_VALUES;
    size_t n = step ? v->n / step : 0;
    json_t *o = json_object();
    double *kept = n ? thin_rows(n, step, v->P, v->draw) : NULL,
           *z = n && v->coordinate ? thin_rows(n, step, v->D, v->coordinate) : NULL;
    size_t *cell = calloc(n + 1, sizeof *cell);
    for (size_t i = 0; cell && i < n; i++)
        cell[i] = v->cell[i * step];
    json_object_set_new(o, "n", json_integer((json_int_t)(kept && cell ? n : 0)));
    json_object_set_new(o, "of", json_integer((json_int_t)v->n));
    if (kept && cell) {
        json_object_set_new(o, "values", pack_table(n, v->P, kept));
        json_object_set_new(o, "cell", pack_counts(n, cell));
        if (z)
            json_object_set_new(o, "coordinates", pack_table(n, v->D, z));
    }
    free(kept);
    free(z);
    free(cell);
    return o;
}

/* One curve: its greatest value, and levels between 0 and that. */
static void add_curve(json_t *o, size_t grid, const double *density)
{
    double top = 0;
    for (size_t g = 0; g < grid; g++)
        top = fmax(top, density[g]);
    json_array_append_new(json_object_get(o, "top"), json_number(top));
    json_array_append_new(json_object_get(o, "levels"), pack_levels(grid, density, 1, 0, top));
}

static json_t *new_curves(void)
{
    return json_pack("{s:[], s:[]}", "top", "levels");
}

/* For every quantity a grid from lo to hi and two densities on it. */
static json_t *describe_densities(const run_view *v)
{
    size_t grid = v->P > 500 ? 64 : 160;
    weighted_values posterior = posterior_values(v), ensemble = v->ensemble;
    json_t *o = json_object(), *lo = json_array(), *hi = json_array(), *curves[2] = {new_curves(), new_curves()};
    double *density = numbers(grid);
    for (size_t c = 0; density && posterior.n && c < v->P; c++) {
        double from, to;
        weighted_values p = posterior, q = ensemble;
        p.x += c;
        q.x = q.n ? q.x + c : NULL;
        find_curve_range(v->n ? v->n : p.n, v->n ? v->draw + c : p.x, v->n ? v->P : p.stride, &from, &to);
        json_array_append_new(lo, json_real(from));
        json_array_append_new(hi, json_real(to));
        if (estimate_density(&p, grid, from, to, density))
            add_curve(curves[0], grid, density);
        if (q.n && estimate_density(&q, grid, from, to, density))
            add_curve(curves[1], grid, density);
    }
    free(density);
    json_object_set_new(o, "grid", json_integer((json_int_t)grid));
    json_object_set_new(o, "lo", lo);
    json_object_set_new(o, "hi", hi);
    json_object_set_new(o, "posterior", curves[0]);
    json_object_set_new(o, "ensemble", curves[1]);
    return o;
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */
/* Draws in the coordinates of the fit with weights. */
static weighted_values coordinate_values(const run_view *v)
{
    return v->closing.n ? v->closing : v->transformed ? (weighted_values){0} : posterior_values(v);
}

/* The posterior mean that the run itself works with: [D]. */
static void find_mean(const run_view *v, double *mean)
{
    wvgd_results r;
    if (v->fit)
        wvgd_get_results(v->fit, &r);
    for (size_t i = 0; i < v->D; i++)
        mean[i] = v->fit ? r.mean[i] : run_item(json_object_get(json_object_get(v->run, "posterior"), "mean"), i);
}

/* Second moments C[D][D] of weighted draws around mean[D]. */
static bool find_covariance(const weighted_values *x, size_t D, const double *mean, double *C)
{
    double total = 0;
    memset(C, 0, D * D * sizeof *C);
    for (size_t k = 0; k < x->n; k++)
        total += x->weight ? x->weight[k] : 1;
    for (size_t k = 0; k < x->n; k++) {
        double w = (x->weight ? x->weight[k] : 1) / total;
        if (!(w > 0))
            continue;
        for (size_t i = 0; i < D; i++)
            for (size_t l = 0; l <= i; l++)
                C[i * D + l] += w * (x->x[k * D + i] - mean[i]) * (x->x[k * D + l] - mean[l]);
    }
    for (size_t i = 0; i < D; i++)
        if (!(C[i * D + i] > 0) || !isfinite(C[i * D + i]))
            return false;
    return total > 0;
}

/* Weighted draws as they lie about the mean of their mode, in the memory `moved`; without several modes, about `mean`,
 * which is added. */
static weighted_values gather_modes(const run_view *v, const weighted_values *x, const double *mean, double *moved)
{
    wvgd_results r = {0};
    size_t D = v->D;
    weighted_values out = *x;
    if (v->fit)
        wvgd_get_results(v->fit, &r);
    size_t *mode = r.modes > 1 ? calloc(x->n, sizeof *mode) : NULL;
    double *middle = r.modes > 1 ? calloc(r.modes, D * sizeof *middle) : NULL,
           *mass = r.modes > 1 ? calloc(r.modes, sizeof *mass) : NULL;
    if (mode && middle && mass && moved && wvgd_mode(v->fit, x->n, x->x, mode, NULL) == WVGD_OK) {
        for (size_t k = 0; k < x->n; k++) {
            double w = x->weight ? x->weight[k] : 1;
            mass[mode[k]] += w;
            for (size_t i = 0; i < D; i++)
                middle[mode[k] * D + i] += w * x->x[k * D + i];
        }
        for (size_t k = 0; k < x->n; k++)
            for (size_t i = 0; i < D; i++)
                moved[k * D + i] = x->x[k * D + i] - middle[mode[k] * D + i] / mass[mode[k]] + mean[i];
        out.x = moved;
    }
    free(mode);
    free(middle);
    free(mass);
    return out;
}

/* C to its inverse, both halves filled. */
static bool invert(size_t D, double *C)
{
    lapack_int n = (lapack_int)D;
    if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', n, C, n) || LAPACKE_dpotri(LAPACK_ROW_MAJOR, 'L', n, C, n))
        return false;
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < i; k++)
            C[k * D + i] = C[i * D + k];
    return true;
}

/* Share of draws whose nearest particle under (a-b)' P (a-b) is that of their cell. Around the mean m, with
 * y = x - m and g_j = P (z_j - m), the cost of particle j is (z_j - m)' g_j - 2 y' g_j and what all have in common. */
static double agreement(const run_view *v, const weighted_values *x, const double *z, const double *mean,
                        const double *P)
{
    size_t D = v->D, right = 0, asked = 0, step = 1 + x->n / CHECKED;
    double *g = calloc(v->N * (D + 1) + 1, sizeof *g), *own = g ? g + v->N * D : NULL;
    for (size_t j = 0; g && j < v->N; j++)
        for (size_t i = 0; i < D; i++) {
            for (size_t l = 0; l < D; l++)
                g[j * D + i] += P[i * D + l] * (z[j * D + l] - mean[l]);
            own[j] += g[j * D + i] * (z[j * D + i] - mean[i]);
        }
    for (size_t k = 0; g && k < x->n; k += step) {
        double least = INFINITY;
        size_t nearest = 0;
        if (x->cell[k] >= v->N)
            continue;
        for (size_t j = 0; j < v->N; j++) {
            double cost = own[j];
            for (size_t i = 0; i < D; i++)
                cost -= 2 * g[j * D + i] * (x->x[k * D + i] - mean[i]);
            if (cost < least) {
                least = cost;
                nearest = j;
            }
        }
        asked++;
        right += nearest == x->cell[k];
    }
    free(g);
    return asked ? (double)right / (double)asked : NAN;
}

/* The cell of a point, by the fit itself. */
static size_t cell_at(const run_view *v, const double *x)
{
    size_t cell = 0;
    return wvgd_cell(v->fit, 1, x, &cell, NULL) == WVGD_OK ? cell : 0;
}

/* In two dimensions: the metric of a solver that has followed the posterior in its own way, from the boundaries that
 * the fit has. A point x between the cells of a and b satisfies (x - (a + b)/2)' P (a - b) = 0, which is linear in
 * P; such points are found by halving the way between draws. P up to a factor. */
static bool recover_metric(const run_view *v, const weighted_values *x, const double *z, double *P)
{
    enum { EQUATIONS = 100, HALVINGS = 45 };
    double M[9] = {0}, eigenvalue[3];
    size_t found = 0;
    for (size_t k = 0; v->fit && k + 1 < x->n && found < EQUATIONS; k++) {
        double from[2] = {x->x[2 * k], x->x[2 * k + 1]}, to[2] = {x->x[2 * k + 2], x->x[2 * k + 3]};
        size_t a = cell_at(v, from), b = cell_at(v, to);
        if (a == b)
            continue;
        for (int step = 0; step < HALVINGS; step++) {
            double middle[2] = {(from[0] + to[0]) / 2, (from[1] + to[1]) / 2};
            size_t c = cell_at(v, middle);
            memcpy(c == a ? from : to, middle, sizeof middle);
            b = c == a ? b : c;
        }
        double d[2] = {z[2 * a] - z[2 * b], z[2 * a + 1] - z[2 * b + 1]},
               u[2] = {from[0] - (z[2 * a] + z[2 * b]) / 2, from[1] - (z[2 * a + 1] + z[2 * b + 1]) / 2};
        double row[3] = {u[0] * d[0], u[0] * d[1] + u[1] * d[0], u[1] * d[1]},
               size = sqrt(row[0] * row[0] + row[1] * row[1] + row[2] * row[2]);
        for (size_t i = 0; i < 9 && size > 0; i++)
            M[i] += row[i / 3] * row[i % 3] / (size * size);
        found += size > 0;
    }
    if (found < 3 || LAPACKE_dsyev(LAPACK_ROW_MAJOR, 'V', 'U', 3, M, 3, eigenvalue))
        return false;
    double sign = M[0] < 0 ? -1 : 1; /* the eigenvector of the least eigenvalue is the first column */
    P[0] = sign * M[0];
    P[1] = P[2] = sign * M[3];
    P[3] = sign * M[6];
    return P[0] > 0 && P[0] * P[3] > P[1] * P[1];
}

/* The metric of the mahalanobis cost is the inverse covariance of the posterior, within its modes where there are
 * several; of the others the identity. */
static void add_metric(json_t *o, const run_view *v, const char *cost)
{
    size_t D = v->D;
    const json_t *particles = json_object_get(v->run, "particles");
    weighted_values x = coordinate_values(v);
    bool scaled = !strcmp(cost, "mahalanobis");
    double *C = D <= METRIC_DIM && x.n ? calloc(D * D + D, sizeof *C) : NULL, *z = numbers(v->N * D),
           *moved = C ? numbers(x.n * D) : NULL;
    if (C)
        find_mean(v, C + D * D);
    weighted_values within = C && scaled ? gather_modes(v, &x, C + D * D, moved) : x;
    if (C && z && find_covariance(&within, D, C + D * D, C)) {
        json_object_set_new(o, "mean", pack_floats(D, C + D * D));
        bool made = scaled ? invert(D, C) : true;
        for (size_t i = 0; !scaled && i < D * D; i++)
            C[i] = i % (D + 1) == 0;
        for (size_t j = 0; j < v->N; j++)
            for (size_t i = 0; i < D; i++)
                z[j * D + i] = run_item(json_object_get(json_array_get(particles, j), "z"), i);
        if (made && (scaled || !strcmp(cost, "sqeuclid"))) {
            double right = agreement(v, &x, z, C + D * D, C), P[4];
            if (right < 1 && D == 2 && recover_metric(v, &x, z, P)) {
                /* the size of the metric is that of the posterior */
                double factor = sqrt((C[0] * C[3] - C[1] * C[2]) / (P[0] * P[3] - P[1] * P[2]));
                for (size_t i = 0; i < 4; i++)
                    C[i] = factor * P[i];
                right = agreement(v, &x, z, C + D * D, C);
            }
            json_object_set_new(o, "metric", pack_floats(D * D, C));
            json_object_set_new(o, "agreement", json_number(right));
        }
    }
    free(C);
    free(z);
    free(moved);
}

/* Inverse covariance of every cell and half the log determinant: what the cost `own` measures with. */
static void add_own(json_t *o, const run_view *v)
{
    wvgd_results r;
    size_t D = v->D, size = D * D;
    if (!v->fit || v->N * size > OWN_VALUES)
        return;
    wvgd_get_results(v->fit, &r);
    double *V = r.chol ? numbers(v->N * (size + 1)) : NULL;
    bool made = V != NULL;
    for (size_t j = 0; made && j < v->N; j++) {
        double log_det = 0;
        memcpy(V + j * size, r.cell_cov + j * size, size * sizeof *V);
        made = invert(D, V + j * size);
        double *copy = numbers(size);
        if (copy) {
            memcpy(copy, r.cell_cov + j * size, size * sizeof *V);
            made = made && !LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', (lapack_int)D, copy, (lapack_int)D);
            for (size_t i = 0; i < D; i++)
                log_det += log(copy[i * (D + 1)]);
        }
        free(copy);
        V[v->N * size + j] = log_det;
    }
    if (made) {
        json_object_set_new(o, "own", pack_floats(v->N * size, V));
        json_object_set_new(o, "own_log_det", pack_floats(v->N, V + v->N * size));
    }
    free(V);
}

/* In two dimensions the fit itself says in which cell a point lies: labels on a grid. */
static void add_raster(json_t *o, const run_view *v)
{
    double lo[2], hi[2], *z = numbers(2 * RASTER * RASTER);
    size_t *cell = calloc(RASTER * RASTER, sizeof *cell);
    weighted_values x = coordinate_values(v),
                    shown = v->n && !v->transformed ? (weighted_values){v->n, v->P, v->draw, NULL, NULL, 0} : x;
    if (v->D == 2 && v->fit && shown.n && z && cell) {
        for (size_t i = 0; i < 2; i++)
            find_shown_range(shown.n, shown.x + i, 2, &lo[i], &hi[i]);
        for (size_t k = 0; k < RASTER * RASTER; k++) {
            z[2 * k] = lo[0] + ((double)(k % RASTER) + 0.5) / RASTER * (hi[0] - lo[0]);
            z[2 * k + 1] = lo[1] + ((double)(k / RASTER) + 0.5) / RASTER * (hi[1] - lo[1]);
        }
        if (wvgd_cell(v->fit, RASTER * RASTER, z, cell, NULL) == WVGD_OK)
            json_object_set_new(o, "raster",
                                json_pack("{s:i, s:[f,f], s:[f,f], s:o}", "size", RASTER, "lo", lo[0], lo[1], "hi",
                                          hi[0], hi[1], "cell", pack_counts(RASTER * RASTER, cell)));
    }
    free(z);
    free(cell);
}

static json_t *describe_cells(const run_view *v)
{
    const json_t *options = json_object_get(v->run, "options"), *text = json_object_get(options, "cost");
    const char *cost = json_is_string(text) ? json_string_value(text) : "unknown";
    json_t *o = json_object();
    json_object_set_new(o, "cost", json_string(cost));
    json_object_set_new(o, "power", json_number(strcmp(cost, "l1") ? number_at(options, "power") : 1));
    add_metric(o, v, cost);
    if (!strcmp(cost, "own"))
        add_own(o, v);
    if (number_at(o, "agreement") != 1)
        add_raster(o, v);
    return o;
}

/* ---- trace and history ------------------------------------------------------------------------------------------- */
static json_t *describe_trace(const run_view *v)
{
    const number_table *t = &v->trace;
    size_t step = t->columns ? 1 + t->rows * t->columns / TRACE_VALUES : 1, rows = (t->rows + step - 1) / step;
    json_t *o = json_object(), *names = json_array(), *columns = json_array();
    double *x = numbers(rows);
    for (size_t c = 0; x && c < t->columns; c++) {
        for (size_t i = 0; i < rows; i++)
            x[i] = table_number(t, i * step, c);
        json_array_append_new(names, json_text(table_name(t, c)));
        json_array_append_new(columns, pack_floats(rows, x));
    }
    free(x);
    json_object_set_new(o, "names", names);
    json_object_set_new(o, "columns", columns);
    return o;
}

/* Rows of history.csv that belong to one frame. */
static size_t count_points(const number_table *t, size_t row)
{
    size_t n = 1;
    while (row + n < t->rows && !strcmp(table_text(t, row + n, 0), table_text(t, row, 0)))
        n++;
    return n;
}

static json_t *describe_history(const run_view *v)
{
    enum { OWN = 9 };
    const number_table *t = &v->history;
    static const char *const own[OWN] = {"frame", "iteration", "evaluations", "stage", "pelbo",
                                         "ess",   "kind",      "point",       "weight"};
    bool known = t->columns == v->D + OWN;
    for (size_t c = 0; known && c < OWN; c++)
        known = !strcmp(table_name(t, c), own[c]);
    json_t *o = json_object(), *frames = json_array();
    size_t frames_n = 0, rows = 0, index = 0;
    for (size_t row = 0; known && row < t->rows; row += count_points(t, row))
        frames_n++;
    size_t step = known ? 1 + t->rows * v->D / FRAME_VALUES : 1;
    double *z = known ? numbers(t->rows * v->D) : NULL, *weight = known ? numbers(t->rows) : NULL;
    for (size_t row = 0, n; z && weight && row < t->rows; row += n, index++) {
        n = count_points(t, row);
        if (index % step && index + 1 < frames_n)
            continue;
        json_array_append_new(frames,
                              json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "iteration",
                                        json_number(table_number(t, row, 1)), "evaluations",
                                        json_number(table_number(t, row, 2)), "stage", json_text(table_text(t, row, 3)),
                                        "pelbo", json_number(table_number(t, row, 4)), "ess",
                                        json_number(table_number(t, row, 5)), "kind", json_text(table_text(t, row, 6)),
                                        "n", json_integer((json_int_t)n)));
        for (size_t k = 0; k < n; k++, rows++) {
            weight[rows] = table_number(t, row + k, 8);
            for (size_t i = 0; i < v->D; i++)
                z[rows * v->D + i] = table_number(t, row + k, OWN + i);
        }
    }
    json_object_set_new(o, "frames", frames);
    if (z && weight) {
        /* no levels: an ascent may go a thousand times as far as the result is wide */
        json_object_set_new(o, "z", pack_floats(rows * v->D, z));
        json_object_set_new(o, "weight", pack_floats(rows, weight));
    }
    free(z);
    free(weight);
    return o;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
static json_t *describe_run(const run_view *v)
{
    static const char *const keys[] = {"version",     "command", "model",      "data",        "priors",
                                       "options",     "stop",    "iterations", "evaluations", "bad_points",
                                       "zero_points", "seconds", "evidence",   "distortion",  "diagnostics",
                                       "verdict",     "modes",   "posterior",  "certificate", "finish"};
    json_t *o = json_object();
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (json_object_get(v->run, keys[k]))
            json_object_set(o, keys[k], json_object_get(v->run, keys[k]));
    return o;
}

json_t *describe_report(run_view *v, failure *f)
{
    size_t budget = CORRELATIONS;
    json_t *o = json_object(), *page = describe_model_page(v);
    int failed = json_object_set_new(o, "dir", json_text(v->dir)) | json_object_set_new(o, "run", describe_run(v)) |
                 json_object_set_new(o, "transformed", json_boolean(v->transformed)) |
                 json_object_set_new(o, "particles", describe_particles(v, &budget)) |
                 json_object_set_new(o, "components", describe_components(v, &budget)) |
                 json_object_set_new(o, "bend", describe_bend(v)) | json_object_set_new(o, "draws", describe_draws(v)) |
                 json_object_set_new(o, "densities", describe_densities(v)) |
                 json_object_set_new(o, "cells", describe_cells(v)) |
                 json_object_set_new(o, "trace", describe_trace(v)) |
                 json_object_set_new(o, "history", describe_history(v)) |
                 json_object_set_new(o, "page", page ? page : json_null()) | json_object_set(o, "notes", v->notes);
    if (!failed)
        return o;
    json_decref(o);
    fail(f, EX_SOFTWARE, "no memory for the report of %s", v->dir);
    return NULL;
}
