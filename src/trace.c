/* trace.c - per-iteration record. */
#include "trace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_trace_reserve(wvgd_fit *f, size_t wanted)
{
    size_t room = f->trace_room ? f->trace_room : 256;
    if (wanted <= f->trace_room)
        return true;
    while (room < wanted)
        room *= 2;
    wvgd_trace_row *rows = realloc(f->trace, wv_times(room, sizeof *rows));
    if (rows)
        f->trace = rows;
    double *beta = realloc(f->trace_beta, wv_times(wv_times(room, f->N), sizeof *beta));
    if (beta)
        f->trace_beta = beta;
    if (!rows || !beta)
        return false;
    f->trace_room = room;
    return true;
}

wvgd_status wv_trace_append(wvgd_fit *f, wvgd_error *error)
{
    if (!wv_trace_reserve(f, f->s.trace_rows + 1))
        return wv_fail(error, WVGD_E_MEMORY, "no memory for the trace of iteration %zu", f->s.iteration);
    f->trace[f->s.trace_rows] = (wvgd_trace_row){f->s.iteration, f->s.evaluations, f->s.seconds, f->s.pelbo,
                                                 f->s.pelbo_se,  f->s.distortion,  f->s.ess,     f->s.step};
    memcpy(f->trace_beta + f->s.trace_rows * f->N, f->beta, f->N * sizeof *f->beta);
    f->s.trace_rows++;
    return WVGD_OK;
}

wvgd_estimate wv_trace_pelbo(const wvgd_fit *f, size_t first, size_t n)
{
    double mean = 0, squares = 0;
    for (size_t k = first; k < first + n; k++)
        mean += f->trace[k].pelbo / (double)n;
    for (size_t k = first; k < first + n; k++)
        squares += (f->trace[k].pelbo - mean) * (f->trace[k].pelbo - mean);
    return (wvgd_estimate){mean, n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : INFINITY};
}

double wv_trace_step(const wvgd_fit *f, size_t first, size_t n)
{
    double mean = 0;
    for (size_t k = first; k < first + n; k++)
        mean += f->trace[k].step / (double)n;
    return mean;
}
