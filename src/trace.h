/* trace.h - what the last batch has shown, one row an iteration, and what the rows say about convergence. */
#ifndef WV_TRACE_H
#define WV_TRACE_H
#include "archive.h"
#include "wvgd.h"

/* What the last batch has shown. */
typedef struct {
    wvgd_estimate pelbo, distortion;
    double ess;
    double step; /* nats between the current state and the full step, summed over components and particles */
} wv_last;

typedef struct {
    size_t N, most; /* particles; of these at most */
    wv_last last;
    size_t rows, room;
    wvgd_trace_row *row; /* [rows] */
    double *beta;        /* [rows][N] masses of the cells */
} wv_trace;

void wv_trace_new(wv_trace *t, size_t N, size_t most); /* without rows; nothing is known of a batch */
void wv_trace_free(wv_trace *t);
/* Of `most` rows at most; *rows: those of the archive. */
bool wv_trace_archive(wv_trace *t, wv_archive *a, size_t most, size_t *rows);

/* The last batch. */
void wv_trace_set_pelbo(wv_trace *t, wvgd_estimate pelbo);
void wv_trace_set_distortion(wv_trace *t, wvgd_estimate distortion);
void wv_trace_set_ess(wv_trace *t, double ess);
void wv_trace_set_step(wv_trace *t, double nats);
void wv_trace_copy_last(wv_trace *t, const wv_trace *from);

/* Appends what the last batch has shown, with masses beta[N]. */
wvgd_status wv_trace_append(wv_trace *t, size_t iteration, size_t evaluations, double seconds, const double *beta,
                            wvgd_error *error);

/* The rows that there are get masses of N cells: NAN where these are new. */
void wv_trace_resize(wv_trace *t, size_t N);
/* Rows that are about to be read will have N of them. */
void wv_trace_expect(wv_trace *t, size_t N);

/* beta[N] become the masses of the last row. */
void wv_trace_set_last(wv_trace *t, const double *beta);

/* Mean and standard error of the PELBO of rows first .. first + n. */
wvgd_estimate wv_trace_pelbo(const wv_trace *t, size_t first, size_t n);

/* Mean of the step size of rows first .. first + n. */
double wv_trace_step(const wv_trace *t, size_t first, size_t n);
#endif
