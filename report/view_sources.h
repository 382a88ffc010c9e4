/* view_sources.h - a view of a run with all that can be had of it. */
#ifndef WV_VIEW_SOURCES_H
#define WV_VIEW_SOURCES_H
#include "report.h"
#include "wvgd_tools.h"

/* Arrays that a view points to. */
typedef struct {
    wvgd_session *session; /* the run, loaded; NULL: it cannot be */
    double *ensemble, *weight;
    size_t *ensemble_cell, *closing_cell;
    char no_data[2048]; /* as long as a message can be */
} view_sources;

/* Reads all files of the run in dir, all of the same run, and what fit and data add. *v and *s are all zero before, and
 * are freed in either case, v first. request: the model that may be loaded, as for wvgd_load. */
int read_whole_view(const char *dir, const wvgd_request *request, run_view *v, view_sources *s, failure *f);
void free_sources(view_sources *s);
#endif
