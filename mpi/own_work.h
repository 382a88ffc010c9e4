/* own_work.h - a thread of rank 0 that looks at how long the batch takes that rank 0 itself evaluates: nobody waits for
 * it. It tells r->waiting, as ranks_wait does for the others, and when --rank-timeout is over, r->end. */
#ifndef WV_MPI_OWN_WORK_H
#define WV_MPI_OWN_WORK_H
#include "ranks.h"

typedef struct own_work own_work;

own_work *own_work_new(ranks *r); /* NULL: no memory, or no thread */
void own_work_free(own_work *w);  /* accepts NULL */

/* A batch begins, and has ended. Between them the thread alone calls r->waiting. */
void own_work_begin(own_work *w);
void own_work_end(own_work *w);
#endif
