/* other_ranks.h - the other processes of a run, if the program was started with some (mpi/start.c). */
#ifndef WV_OTHER_RANKS_H
#define WV_OTHER_RANKS_H
#include "open_model.h"
#include "progress.h"

typedef struct {
    unsigned threads;          /* of each process, unless the user asks for others */
    double timeout;            /* --rank-timeout; 0: none */
    progress_display *display; /* of the run under way, or NULL */
    model_wrapper wrapper;     /* shares batches with them */
} program_ranks;

extern program_ranks *other_ranks; /* NULL: there is one process */
#endif
