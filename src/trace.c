/* trace.c - one row an iteration. It grows as the fit goes on: the one thing that is allocated on the way. */
#include "trace.h"
#include "error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void wv_trace_new(wv_trace *t, size_t N, size_t most)
{
    *t = (wv_trace){.N = N, .most = most, .last = {{NAN, NAN}, {NAN, NAN}, NAN, 0}};
}

void wv_trace_free(wv_trace *t)
{
    free(t->row);
    free(t->beta);
}

/* Room for so many rows; false without memory. */
static bool reserve(wv_trace *t, size_t wanted)
{
    size_t room = t->room ? t->room : 256;
    if (wanted <= t->room)
        return true;
    while (room < wanted)
        room *= 2;
    wvgd_trace_row *rows = realloc(t->row, wv_times(room, sizeof *rows));
    if (rows)
        t->row = rows;
    double *beta = realloc(t->beta, wv_times(wv_times(room, t->most), sizeof *beta));
    if (beta)
        t->beta = beta;
    if (!rows || !beta)
        return false;
    t->room = room;
    return true;
}

bool wv_trace_archive(wv_trace *t, wv_archive *a, size_t most, size_t *rows)
{
    size_t n = t->rows, each = sizeof *t->row + t->N * sizeof *t->beta;
    wv_last last = t->last;
    wv_archive_values(a, &last, sizeof last);
    wv_archive_values(a, &n, sizeof n);
    *rows = n;
    if (n > most || (a->mode == WV_CHECKING && n > a->size / each))
        return wv_archive_refuse(a);
    if (a->mode == WV_CHECKING && !reserve(t, n)) {
        a->memory = true;
        return wv_archive_refuse(a);
    }
    if (wv_archive_reading(a)) {
        t->last = last;
        t->rows = n;
    }
    wv_archive_bytes(a, t->row, n * sizeof *t->row);
    wv_archive_array(a, t->beta, n * t->N);
    return true;
}

void wv_trace_set_pelbo(wv_trace *t, wvgd_estimate pelbo)
{
    t->last.pelbo = pelbo;
}

void wv_trace_set_distortion(wv_trace *t, wvgd_estimate distortion)
{
    t->last.distortion = distortion;
}

void wv_trace_set_ess(wv_trace *t, double ess)
{
    t->last.ess = ess;
}

void wv_trace_set_step(wv_trace *t, double nats)
{
    t->last.step = nats;
}

void wv_trace_copy_last(wv_trace *t, const wv_trace *from)
{
    t->last = from->last;
}

wvgd_status wv_trace_append(wv_trace *t, size_t iteration, size_t evaluations, double seconds, const double *beta,
                            wvgd_error *error)
{
    const wv_last *l = &t->last;
    if (!reserve(t, t->rows + 1))
        return wv_fail(error, WVGD_E_MEMORY, "no memory for the trace of iteration %zu", iteration);
    t->row[t->rows] = (wvgd_trace_row){iteration,   evaluations,         seconds, l->pelbo.value,
                                       l->pelbo.se, l->distortion.value, l->ess,  l->step};
    memcpy(t->beta + t->rows * t->N, beta, t->N * sizeof *beta);
    t->rows++;
    return WVGD_OK;
}

void wv_trace_resize(wv_trace *t, size_t N)
{
    size_t kept = N < t->N ? N : t->N;
    for (size_t k = 0; k < t->rows; k++) { /* longer rows from the last one on, shorter ones from the first */
        size_t row = N > t->N ? t->rows - 1 - k : k;
        memmove(t->beta + row * N, t->beta + row * t->N, kept * sizeof *t->beta);
        for (size_t j = kept; j < N; j++)
            t->beta[row * N + j] = NAN;
    }
    t->N = N;
}

void wv_trace_expect(wv_trace *t, size_t N)
{
    t->N = N;
}

void wv_trace_set_last(wv_trace *t, const double *beta)
{
    if (t->rows)
        memcpy(t->beta + (t->rows - 1) * t->N, beta, t->N * sizeof *beta);
}

wvgd_estimate wv_trace_pelbo(const wv_trace *t, size_t first, size_t n)
{
    double mean = 0, squares = 0;
    for (size_t k = first; k < first + n; k++)
        mean += t->row[k].pelbo / (double)n;
    for (size_t k = first; k < first + n; k++)
        squares += (t->row[k].pelbo - mean) * (t->row[k].pelbo - mean);
    return (wvgd_estimate){mean, n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : INFINITY};
}

double wv_trace_step(const wv_trace *t, size_t first, size_t n)
{
    double mean = 0;
    for (size_t k = first; k < first + n; k++)
        mean += t->row[k].step / (double)n;
    return mean;
}
