/* progress.h - what a run is doing, on stderr: a bar in a terminal, a line every few seconds elsewhere. */
#ifndef WV_PROGRESS_H
#define WV_PROGRESS_H
#include "wvgd.h"
#include <stdbool.h>

typedef struct {
    bool quiet, terminal;
    double begun, last; /* seconds of a clock */
    double max_seconds; /* limit of the run; 0: none */
    bool shown;         /* a bar stands in the present line */
} progress_display;

/* Seconds of a clock that only goes forward. */
double clock_now(void);

progress_display begin_progress(bool quiet, double max_seconds);
void show_progress(progress_display *d, const wvgd_progress *p);

/* In the place of that: a rank has not answered for so many seconds. */
void show_rank(progress_display *d, int rank, double seconds);

/* Clears the bar: call before anything else is written to stderr. */
void hide_progress(progress_display *d);
#endif
