/* split.h - a model that shares batches among ranks. They are cut where threads cut them, so the bits are the same for
 * any number of ranks. Rank 0 evaluates the model; the others answer it. */
#ifndef WV_MPI_SPLIT_H
#define WV_MPI_SPLIT_H
#include "ranks.h"
#include "wvgd_model.h"

/* Makes *model out of *inner, which wvgd_model_threads has made and which outlives it. rows: ranks have shares of rows,
 * and the log density is the sum of theirs, less that of *prior, unless it is NULL, for all but one; the bits are then
 * the same for the same number of ranks. Returns 0, or -1 without memory. Closing it tells the other ranks that there
 * are no more batches. */
int split_open(wvgd_model *model, const wvgd_model *inner, bool rows, const wvgd_model *prior, ranks *r);

/* Other ranks: answers batches of rank 0 until there are no more. NULL: waits for that only. 0, or -1 without memory:
 * then nothing was answered. */
int split_serve(const wvgd_model *inner, ranks *r);

/* Tells rank `to` that there are no batches: what closing does for all. */
int split_end(ranks *r, int to);
#endif
