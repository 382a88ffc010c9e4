/* shown.c - from points of the fit to named quantities, as a table in memory (for moments) or as Stan CSV. */
#include "shown.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static int show(const opened_model *m, const double *z, double *values)
{
    if (m->show)
        return m->show(m->show_self, z, values);
    memcpy(values, z, m->model.dim * sizeof *values);
    return 0;
}

static double *table(size_t rows, size_t columns)
{
    return columns && rows >= PTRDIFF_MAX / sizeof(double) / columns ? NULL
                                                                     : malloc((rows * columns + 1) * sizeof(double));
}

/* ---- in memory --------------------------------------------------------------------------------------------------- */
/* Which mode draws and particles belong to, and the masses of modes. */
static int show_modes(const wvgd_fit *fit, shown_draws *out, failure *f)
{
    size_t n = out->n;
    const double *z;
    wvgd_error error;
    wvgd_results r;
    wvgd_get_results(fit, &r);
    if (!r.modes)
        return 0;
    size_t *mode = calloc(n + r.N, sizeof *mode);
    double *in = table(n, r.modes), *mass = table(3, r.modes);
    out->mode = mode;
    out->mass = mass;
    if (!mode || !in || !mass) {
        free(in);
        return fail(f, EX_SOFTWARE, "no memory for %zu modes of %zu draws", r.modes, n);
    }
    wvgd_status status = wvgd_draws(fit, NULL, &z, NULL, NULL, NULL, &error);
    if (status == WVGD_OK)
        status = wvgd_mode(fit, n, z, mode, &error);
    if (status == WVGD_OK)
        status = wvgd_mode(fit, r.N, r.z, mode + n, &error);
    for (size_t i = 0; i < n * r.modes; i++)
        in[i] = mode[i / r.modes] == i % r.modes ? 1 : 0;
    if (status == WVGD_OK)
        status = wvgd_expect(fit, r.modes, in, mass, mass + 2 * r.modes, mass + r.modes, &error);
    free(in);
    return status == WVGD_OK ? 0 : fail(f, EX_SOFTWARE, "%s", error.text);
}

int show_closing_draws(const wvgd_fit *fit, const opened_model *m, shown_draws *out, size_t *refused, failure *f)
{
    size_t n = 0;
    const double *z, *log_w;
    wvgd_error error;
    *refused = 0;
    if (wvgd_draws(fit, &n, &z, NULL, &log_w, NULL, &error) != WVGD_OK)
        return fail(f, EX_SOFTWARE, "%s", error.text);
    double *weight = table(n, 2), *value = m->show ? table(n, m->shown) : NULL,
           *known = table(5 + 2 * SHOWN_LEVELS, m->shown), sum = 0, calibrated = 0;
    const double *sharper = wvgd_draw_weights(fit);
    if (!weight || (m->show && !value) || !known) {
        free(weight);
        free(value);
        free(known);
        return fail(f, EX_SOFTWARE, "no memory for %zu draws of %zu quantities", n, m->shown);
    }
    if (m->restart)
        m->restart(m->show_self, m->seed);
    for (size_t i = 0; i < n; i++) { /* those without weight, or that are refused, keep their place */
        double w = exp(log_w[i]), *row = value ? value + i * m->shown : NULL;
        bool shown = w > 0 && !(m->show && m->show(m->show_self, z + i * m->model.dim, row));
        if (m->show && !shown)
            memset(row, 0, m->shown * sizeof *row);
        *refused += w > 0 && !shown;
        weight[i] = shown ? w : 0;
        weight[n + i] = shown ? sharper[i] : 0;
        sum += weight[i];
        calibrated += weight[n + i];
    }
    for (size_t i = 0; i < n; i++) {
        weight[i] /= sum;
        weight[n + i] /= calibrated;
    }
    double *errors = known + 3 * m->shown, *quantile = errors + 2 * m->shown;
    wvgd_description to = {known,
                           known + m->shown,
                           known + 2 * m->shown,
                           errors,
                           errors + m->shown,
                           quantile,
                           quantile + SHOWN_LEVELS * m->shown};
    *out = (shown_draws){n, m->shown, m->shown_names, value ? value : z, weight, weight + n, known, errors, NULL, NULL};
    if (*refused || wvgd_describe(fit, m->shown, out->value, SHOWN_LEVELS, shown_level, &to, NULL) != WVGD_OK) {
        free(known); /* the fit knows only of all draws together */
        out->known = out->errors = NULL;
    }
    int code = show_modes(fit, out, f);
    if (code)
        free_shown(out, fit);
    return code;
}

void free_shown(shown_draws *d, const wvgd_fit *fit)
{
    size_t n;
    const double *z = NULL;
    if (fit)
        wvgd_draws(fit, &n, &z, NULL, NULL, NULL, NULL);
    if (d->value != z)
        free((void *)(uintptr_t)d->value);
    free((void *)(uintptr_t)d->weight);
    free((void *)(uintptr_t)d->known);
    free((void *)(uintptr_t)d->mode);
    free((void *)(uintptr_t)d->mass);
    *d = (shown_draws){0};
}

/* ---- as Stan CSV ------------------------------------------------------------------------------------------------- */
typedef struct {
    size_t n;
    double *z;                     /* [n][D] */
    double *log_p, *log_q, *log_w; /* [n] */
    size_t *cell;                  /* [n] */
} draw_table;

static void free_table(draw_table *t)
{
    free(t->z);
    free(t->log_p);
    free(t->log_q);
    free(t->log_w);
    free(t->cell);
}

static bool make_table(draw_table *t, size_t n, size_t D)
{
    *t = (draw_table){n, table(n, D), table(n, 1), table(n, 1), table(n, 1), NULL};
    t->cell = t->log_w ? calloc(n + 1, sizeof *t->cell) : NULL;
    return t->z && t->log_p && t->log_q && t->log_w && t->cell;
}

static wvgd_status fill_ensemble(const wvgd_fit *fit, uint64_t stream, draw_table *t, wvgd_error *error)
{
    for (size_t i = 0; i < t->n; i++) {
        t->log_p[i] = NAN; /* the model is not asked */
        t->log_w[i] = 0;
    }
    return wvgd_sample(fit, stream, t->n, t->z, t->cell, error);
}

static wvgd_status fill_resampled(const wvgd_fit *fit, uint64_t stream, draw_table *t, wvgd_error *error)
{
    size_t all;
    const double *log_p;
    const uint32_t *cell;
    wvgd_status status = wvgd_resample(fit, stream, t->n, t->z, t->cell, error); /* cell: first the index of the draw */
    if (status == WVGD_OK)
        status = wvgd_draws(fit, &all, NULL, &log_p, NULL, &cell, error);
    for (size_t i = 0; status == WVGD_OK && i < t->n; i++) {
        size_t k = t->cell[i];
        t->log_p[i] = log_p[k];
        t->log_w[i] = 0;
        t->cell[i] = cell[k];
    }
    return status;
}

/* Evenly spaced ones out of all closing draws, which lie in memory proposal by proposal; their weights sum to 1. */
static wvgd_status fill_weighted(const wvgd_fit *fit, size_t D, draw_table *t, wvgd_error *error)
{
    size_t all;
    const double *z, *log_p, *log_w;
    const uint32_t *cell;
    double top = -INFINITY, sum = 0;
    wvgd_status status = wvgd_draws(fit, &all, &z, &log_p, &log_w, &cell, error);
    for (size_t i = 0; status == WVGD_OK && i < t->n; i++) {
        size_t k = (size_t)(((double)i + 0.5) * (double)all / (double)t->n);
        memcpy(t->z + i * D, z + k * D, D * sizeof *z);
        t->log_p[i] = log_p[k];
        t->log_w[i] = log_w[k];
        t->cell[i] = cell[k];
        top = fmax(top, log_w[k]);
    }
    for (size_t i = 0; i < t->n && top > -INFINITY; i++)
        sum += exp(t->log_w[i] - top);
    for (size_t i = 0; i < t->n && top > -INFINITY; i++)
        t->log_w[i] -= top + log(sum);
    return status;
}

/* The quantities of a draw: NAN where the model refuses it. */
static void show_row(const opened_model *m, const double *z, double *value)
{
    if (show(m, z, value))
        for (size_t c = 0; c < m->shown; c++)
            value[c] = NAN;
}

/* Takes n draws of the fit; free_table in either case. */
static int take_draws(const wvgd_fit *fit, size_t D, wvgd_draws_kind kind, uint64_t stream, size_t n, draw_table *t,
                      failure *f)
{
    wvgd_error error;
    if (!make_table(t, n, D))
        return fail(f, EX_SOFTWARE, "no memory for %zu draws", n);
    wvgd_status status = kind == WVGD_DRAWS_ENSEMBLE    ? fill_ensemble(fit, stream, t, &error)
                         : kind == WVGD_DRAWS_RESAMPLED ? fill_resampled(fit, stream, t, &error)
                                                        : fill_weighted(fit, D, t, &error);
    if (status == WVGD_OK)
        status = wvgd_log_q(fit, t->n, t->z, t->log_q, &error);
    return status == WVGD_OK ? 0 : fail(f, EX_SOFTWARE, "%s", error.text);
}

/* Rows of a table, after the head. */
static int put_rows(FILE *stream, const opened_model *m, const draw_table *t, failure *f)
{
    double *value = table(1, m->shown);
    if (!value)
        return fail(f, EX_SOFTWARE, "no memory for %zu quantities", m->shown);
    for (size_t i = 0; i < t->n; i++) {
        show_row(m, t->z + i * m->model.dim, value);
        put_stan_draw(stream, &(stan_csv_draw){t->log_p[i], t->log_q[i], t->cell[i], t->log_w[i]}, m->shown, value);
    }
    free(value);
    return 0;
}

static int put_table(FILE *stream, const opened_model *m, const stan_csv_head *head, const draw_table *t, failure *f)
{
    put_stan_head(stream, head);
    if (m->restart)
        m->restart(m->show_self, head->seed);
    return put_rows(stream, m, t, f);
}

int put_draws(FILE *stream, const wvgd_fit *fit, const opened_model *m, const char *name, wvgd_draws_kind kind,
              uint64_t stream_number, size_t n, failure *f)
{
    static const char *const kinds[] = {"ensemble: draws from the fitted approximation, lp__ not evaluated",
                                        "resampled: final draws resampled by their importance weights",
                                        "weighted: final draws with their normalised importance weights"};
    draw_table t;
    wvgd_results r;
    wvgd_get_results(fit, &r);
    n = kind == WVGD_DRAWS_WEIGHTED && (!n || n > r.closing_draws) ? r.closing_draws : n;
    int code = take_draws(fit, m->model.dim, kind, stream_number, n, &t, f);
    if (!code) {
        stan_csv_head head = {name, kinds[kind], stream_number, r.N, t.n, m->shown, m->shown_names};
        code = put_table(stream, m, &head, &t, f);
    }
    free_table(&t);
    return code;
}

/* n draws of a fit, with the cells and the density of the first. */
static int take_pooled(const wvgd_fit *first, const wvgd_fit *fit, size_t D, uint64_t stream, size_t n, draw_table *t,
                       failure *f)
{
    wvgd_error error;
    int code = take_draws(fit, D, WVGD_DRAWS_RESAMPLED, stream, n, t, f);
    if (code || fit == first)
        return code;
    wvgd_status status = wvgd_cell(first, n, t->z, t->cell, &error);
    if (status == WVGD_OK)
        status = wvgd_log_q(first, n, t->z, t->log_q, &error);
    return status == WVGD_OK ? 0 : fail(f, EX_SOFTWARE, "%s", error.text);
}

int put_pooled_draws(FILE *stream, const wvgd_fit *first, const repeated_fits *others, const opened_model *m,
                     const char *name, uint64_t stream_number, size_t n, failure *f)
{
    size_t pooled = 0, made = 0;
    int code = 0;
    wvgd_results r;
    wvgd_get_results(first, &r);
    for (size_t k = 0; k <= others->n; k++)
        pooled += is_pooled(others, first, k);
    if (!others->n || !pooled)
        return put_draws(stream, first, m, name, WVGD_DRAWS_RESAMPLED, stream_number, n, f);
    stan_csv_head head = {name,
                          "resampled: final draws of several fits, resampled by their importance weights",
                          stream_number,
                          r.N,
                          n,
                          m->shown,
                          m->shown_names};
    put_stan_head(stream, &head);
    if (m->restart)
        m->restart(m->show_self, stream_number);
    for (size_t k = 0; k <= others->n && !code; k++) {
        draw_table t = {0};
        if (!is_pooled(others, first, k))
            continue;
        size_t here = n * (made + 1) / pooled - n * made / pooled;
        code = take_pooled(first, k ? others->each[k - 1].fit : first, m->model.dim, stream_number, here, &t, f);
        if (!code)
            code = put_rows(stream, m, &t, f);
        free_table(&t);
        made++;
    }
    return code;
}

void show_points(const opened_model *m, unsigned long long seed, size_t n, const double *z, double *value)
{
    if (m->restart)
        m->restart(m->show_self, seed);
    for (size_t i = 0; i < n; i++)
        show_row(m, z + i * m->model.dim, value + i * m->shown);
}

int show_draws(const wvgd_fit *fit, const opened_model *m, wvgd_draws_kind kind, uint64_t stream_number, size_t n,
               double *value, double *log_w, failure *f)
{
    draw_table t;
    wvgd_results r;
    wvgd_get_results(fit, &r);
    if (kind == WVGD_DRAWS_WEIGHTED && n > r.closing_draws)
        return fail(f, EX_USAGE, "%zu weighted draws: expected at most %zu, the number of final draws", n,
                    r.closing_draws);
    int code = take_draws(fit, m->model.dim, kind, stream_number, n, &t, f);
    if (!code)
        show_points(m, stream_number, n, t.z, value);
    if (!code && log_w && n)
        memcpy(log_w, t.log_w, n * sizeof *log_w);
    free_table(&t);
    return code;
}
