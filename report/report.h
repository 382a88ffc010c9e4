/* report.h - what a page or a figure shows of a run: its files, and what follows from the fit
 * behind them where it can still be had. */
#ifndef WV_REPORT_H
#define WV_REPORT_H
#include "kernel_density.h"
#include "failure.h"
#include "number_table.h"
#include "wvgd.h"
#include <jansson.h>

/* A run, as far as it can be read. N particles, D coordinates, P quantities shown. */
typedef struct {
    const char *dir;
    json_t *run; /* run.json */
    size_t N, D, P;
    bool transformed;            /* quantities are not the coordinates themselves */
    number_table trace, history; /* no columns: not there */
    size_t n;                    /* draws of draws.csv; 0: not there */
    double *draw;                /* [n][P] */
    size_t *cell;                /* [n] counted from 0; SIZE_MAX: none */
    json_t *notes;               /* what is missing and why, as texts */

    /* Filled by whoever can: */
    const wvgd_fit *fit;      /* the fit itself, or NULL */
    double *particle;         /* [N][P] particles as quantities, where those are transformed, or NULL */
    double *coordinate;       /* [n][D] draws in the coordinates of the fit where they are transformed, or NULL */
    weighted_values closing;  /* x[n][D], the importance-weighted closing draws in the coordinates of
                               * the fit; n = 0: not there */
    weighted_values ensemble; /* x[n][P], draws of the ensemble; n = 0: not there */
    const char *data;         /* path of the data file, or NULL */
    const char *no_data;      /* why not */
} run_view;

/* Reads what is in the directory. 0, or an exit code with *f filled; free_view in either case.
 * Files but for run.json may be missing. */
int read_view(const char *dir, run_view *v, failure *f);
void free_view(run_view *v);

/* Adds a note for the reader. */
__attribute__((format(printf, 2, 3))) void note(run_view *v, const char *format, ...);

/* Values of run.json that may be missing: NAN then. */
double run_item(const json_t *list, size_t i);

/* Was it the staged solver? Its trace and history then tell of the ELBO of a mixture, which is cut into cells last. */
bool is_staged(const run_view *v);

/* The draws that stand for the posterior: importance-weighted closing draws, or those of draws.csv. */
weighted_values posterior_values(const run_view *v);

/* What the page shows, as JSON. NULL with *f filled on failure. */
json_t *describe_report(run_view *v, failure *f);

/* The part of it that only some models have (model_page.c): the object of the page, or {"missing":
 * why}. NULL: this model has none. */
json_t *describe_model_page(const run_view *v);
#endif
