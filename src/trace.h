/* trace.h - one row an iteration, and what the rows say about convergence. */
#ifndef WV_TRACE_H
#define WV_TRACE_H
#include "fit.h"

/* Room for so many rows; false without memory. */
bool wv_trace_reserve(wvgd_fit *f, size_t wanted);

/* Appends the current iteration. */
wvgd_status wv_trace_append(wvgd_fit *f, wvgd_error *error);

/* Mean and standard error of the PELBO of rows first .. first + n. */
wvgd_estimate wv_trace_pelbo(const wvgd_fit *f, size_t first, size_t n);

/* Mean of the step size of rows first .. first + n. */
double wv_trace_step(const wvgd_fit *f, size_t first, size_t n);
#endif
