/* tally.h - what tasks count, whichever worker runs them. A worker counts in its own view of the fit. */
#ifndef WV_TALLY_H
#define WV_TALLY_H
#include "archive.h"

typedef struct {
    size_t starved; /* times in this phase that a component of weight had too few points for a step */
    size_t limits;  /* steps undone because a component would have left the range of numbers */
} wv_tally;

void wv_tally_archive(wv_tally *t, wv_archive *a);
void wv_tally_copy(wv_tally *t, const wv_tally *from);

/* One component more had too few points; a phase begins. The other number is lent to a step, which counts. */
void wv_tally_count_starved(wv_tally *t);
void wv_tally_begin_phase(wv_tally *t);
size_t *wv_tally_lend_limits(wv_tally *t);

/* Adds what a worker has counted since both were as before. */
void wv_tally_add(wv_tally *t, const wv_tally *before, const wv_tally *after);
#endif
