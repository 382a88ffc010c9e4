/* history.h - where a fit was on its way: frames of points with weights, for a replay
 * (history.csv, docs/formats.md).
 *
 * Frames live in the record of the run, under `history`, so that a checkpoint has those up to its own state and a
 * run that goes on ends with the same ones. Which batches become frames depends on their number within their stage
 * only: all at first, then every second, every fourth ..., so that no stage has more than a few dozen. */
#ifndef WV_HISTORY_H
#define WV_HISTORY_H
#include "failure.h"
#include "file_set.h"
#include "wvgd.h"
#include <jansson.h>

/* Before a batch of that stage: its points, where they are what moves (ascents, walks). */
void note_points(json_t *asked, const char *stage, wvgd_fit *fit);

/* After it, in all other stages: components, or particles once there are cells. */
void note_batch(json_t *asked, const char *stage, const wvgd_fit *fit);

/* The end of a run: its particles. */
void note_end(json_t *asked, const wvgd_fit *fit);

/* history.csv. names: [D] of the coordinates. */
int write_history(file_set *set, const json_t *asked, size_t D, const char *const *names, failure *f);
#endif
