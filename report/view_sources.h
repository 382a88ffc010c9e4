/* view_sources.h - a view of a run with all that can be had of it. */
#ifndef WV_VIEW_SOURCES_H
#define WV_VIEW_SOURCES_H
#include "report.h"
#include "run_record.h"
#include "saved_fit.h"

/* Arrays that a view points to. */
typedef struct {
    saved_fit saved;
    double *ensemble, *weight;
    size_t *ensemble_cell, *closing_cell;
    char no_data[1200];
} view_sources;

/* Reads all files of the run in dir, all of the same run, and what fit and data add. *v and *s are all zero before, and
 * are freed in either case, v first. */
int read_whole_view(const char *dir, const model_trust *trust, run_view *v, view_sources *s, failure *f);
void free_sources(view_sources *s);
#endif
