/* svgd_record.h - what a run of SVGD leaves: the files of a run directory (docs/formats.md), as far
 * as SVGD has something to put there. */
#ifndef WV_SVGD_RECORD_H
#define WV_SVGD_RECORD_H
#include "failure.h"
#include "file_set.h"
#include "open_model.h"
#include "svgd.h"
#include <jansson.h>

typedef struct {
    size_t iteration, evaluations;
    double seconds, mean_log_p, bandwidth, force;
} svgd_row;

typedef struct {
    const opened_model *model;
    const json_t *asked; /* version, command, model, options */
    svgd_view view;      /* at the end, with log_p of the particles where they are */
    const char *stop;    /* converged, max_iter, time_up or stopped */
    double seconds;
    double force_limit;  /* --tol */
    double kde;          /* bandwidth of the kernel density estimate; NAN: there is none */
    const char *kde_by;  /* how it was chosen: given, quadrature, leave-one-out */
    double kde_ise;      /* integrated squared error, where it was chosen by quadrature; else NAN */
    const svgd_row *row; /* [rows] */
    size_t rows;
    uint64_t seed;
} svgd_results;

/* The object of run.json. NULL without memory. */
json_t *svgd_json(const svgd_results *r);

/* particles.csv, trace.csv and draws.csv. */
int write_svgd_tables(file_set *set, const svgd_results *r, failure *f);
#endif
