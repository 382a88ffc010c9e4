/* ranks.h - processes that send each other numbers, with patience that can end. Rank 0 asks, the others answer. */
#ifndef WV_MPI_RANKS_H
#define WV_MPI_RANKS_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Told now and then that nothing has come from a rank for so many seconds. */
typedef void ranks_waiting(void *self, int rank, double seconds);

/* Ends the process, saying why. */
typedef void ranks_end(void *self, const char *text);

typedef struct {
    MPI_Comm comm;
    int rank, count, local; /* local: ranks on this machine */
    double timeout;         /* seconds after which rank 0 gives a rank up; 0: never */
    ranks_waiting *waiting;
    ranks_end *end;     /* when rank 0 itself takes too long */
    void *waiting_self; /* first argument of both */
    bool lost;          /* a rank does not answer: nothing more can be sent, nor MPI be ended */
    char text[240];     /* why */
    struct {
        unsigned long long messages, bytes, shared, alone; /* sent and received by rank 0; batches */
        double wait;                                       /* seconds that rank 0 has waited for others */
    } seen;
} ranks;

void ranks_open(ranks *r); /* once MPI has begun */

extern const double ranks_show_after; /* seconds before r->waiting is told first */

/* Puts into r->text that a rank has not answered. */
void ranks_explain(ranks *r, int rank, double seconds);

/* Waits for n requests, request k being one of rank who[k]. 0, or -1: one of them took too long (r->lost). */
int ranks_wait(ranks *r, size_t n, MPI_Request *request, const int *who);

/* Sends or receives at once, with the same patience. */
int ranks_send(ranks *r, int to, const void *buffer, size_t n, MPI_Datatype type);
int ranks_receive(ranks *r, int from, void *buffer, size_t n, MPI_Datatype type);

/* Every rank gives bytes, and gets those of all: row_shares.gather. self: ranks. */
int ranks_gather(void *self, const void *mine, size_t size, char **all, size_t *sizes);

/* Waits for numbers from rank 0 as long as it takes. */
void ranks_idle(ranks *r, void *buffer, size_t n, MPI_Datatype type);
#endif
