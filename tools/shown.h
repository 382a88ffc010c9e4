/* shown.h - draws as users see them: through the model's constraining transformation where it has one. */
#ifndef WV_SHOWN_H
#define WV_SHOWN_H
#include "failure.h"
#include "open_model.h"
#include "repeat.h"
#include "run_json.h"
#include "stan_csv.h"
#include "wvgd_tools.h"
#include <stdio.h>

/* The closing draws of a fit with their weights. refused: draws that the model could not show, which are left out. */
int show_closing_draws(const wvgd_fit *fit, const opened_model *model, shown_draws *out, size_t *refused, failure *f);
void free_shown(shown_draws *draws, const wvgd_fit *fit);

/* Writes n draws (0: all, for weighted ones) as Stan CSV. */
int put_draws(FILE *stream, const wvgd_fit *fit, const opened_model *model, const char *name, wvgd_draws_kind kind,
              uint64_t stream_number, size_t n, failure *f);

/* n resampled draws, in equal parts from the fits that are pooled. Cells and densities of the approximation are those
 * of the first. */
int put_pooled_draws(FILE *stream, const wvgd_fit *first, const repeated_fits *others, const opened_model *model,
                     const char *name, uint64_t stream_number, size_t n, failure *f);

/* The quantities value[n][shown] of points z[n][D], NAN where the model refuses one; random numbers of the model from
 * this seed on. */
void show_points(const opened_model *model, unsigned long long seed, size_t n, const double *z, double *value);

/* Draws in memory: value[n][shown], and log_w[n] unless it is NULL. */
int show_draws(const wvgd_fit *fit, const opened_model *model, wvgd_draws_kind kind, uint64_t stream_number, size_t n,
               double *value, double *log_w, failure *f);
#endif
