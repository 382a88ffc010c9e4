/* joint_batch.h - the batch of one iteration of the joint solver. */
#ifndef WV_JOINT_BATCH_H
#define WV_JOINT_BATCH_H
#include "batch.h"
#include "wvgd.h"

/* Draws f->b from the components and around the particles. */
wvgd_status wv_joint_batch_ask(wvgd_fit *f, wvgd_error *error);

/* Cells and densities of the points, which are listed by cell: order[n] and start[N + 1] are the caller's. */
void wv_joint_batch_weigh(wvgd_fit *f, const wv_cell_lists *lists);
#endif
