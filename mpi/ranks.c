/* ranks.c - point-to-point messages. MPI's own waiting takes a processor and never ends: here it is a test that is
 * repeated, first at once, then after short sleeps, so that ranks that wait leave their processors to others. */
#include "ranks.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 7, MANY = 400 /* tests, with others given way to, before the first sleep */ };
const double ranks_show_after = 5;

void ranks_open(ranks *r)
{
    *r = (ranks){.comm = MPI_COMM_WORLD};
    MPI_Comm_rank(r->comm, &r->rank);
    MPI_Comm_size(r->comm, &r->count);
    MPI_Comm here;
    MPI_Comm_split_type(r->comm, MPI_COMM_TYPE_SHARED, r->rank, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &r->local);
    MPI_Comm_free(&here);
}

static void rest(unsigned tests)
{
    static const struct timespec moment = {0, 50000};
    if (tests < MANY)
        sched_yield();
    else
        nanosleep(&moment, NULL);
}

/* The rank of the first request that is not done. */
static int find_late(size_t n, MPI_Request *request, const int *who)
{
    for (size_t k = 0; k < n; k++)
        if (request[k] != MPI_REQUEST_NULL)
            return who[k];
    return -1;
}

void ranks_explain(ranks *r, int rank, double seconds)
{
    snprintf(r->text, sizeof r->text,
             "rank %d has not answered for %.0f s (--rank-timeout %g): its model hangs, or its machine", rank, seconds,
             r->timeout);
}

static int give_up(ranks *r, int rank, double seconds)
{
    r->lost = true;
    ranks_explain(r, rank, seconds);
    return -1;
}

int ranks_wait(ranks *r, size_t n, MPI_Request *request, const int *who)
{
    double begin = MPI_Wtime();
    for (unsigned tests = 0;; tests++) {
        int done = 0;
        for (size_t k = 0; k < n; k++)
            if (request[k] != MPI_REQUEST_NULL)
                MPI_Test(&request[k], &done, MPI_STATUS_IGNORE);
        int late = find_late(n, request, who);
        double waited = MPI_Wtime() - begin;
        if (late < 0) {
            r->seen.wait += waited;
            return 0;
        }
        if (r->timeout > 0 && waited > r->timeout)
            return give_up(r, late, waited);
        if (waited > ranks_show_after && r->waiting)
            r->waiting(r->waiting_self, late, waited);
        rest(tests);
    }
}

int ranks_send(ranks *r, int to, const void *buffer, size_t n, MPI_Datatype type)
{
    MPI_Request request;
    MPI_Isend(buffer, (int)n, type, to, TAG, r->comm, &request);
    return ranks_wait(r, 1, &request, &to);
}

int ranks_receive(ranks *r, int from, void *buffer, size_t n, MPI_Datatype type)
{
    MPI_Request request;
    MPI_Irecv(buffer, (int)n, type, from, TAG, r->comm, &request);
    return ranks_wait(r, 1, &request, &from);
}

void ranks_idle(ranks *r, void *buffer, size_t n, MPI_Datatype type)
{
    MPI_Request request;
    int done = 0;
    MPI_Irecv(buffer, (int)n, type, 0, TAG, r->comm, &request);
    for (unsigned tests = 0; !done; tests++) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done)
            rest(tests);
    }
}

static size_t sum_sizes(const ranks *r, const size_t *sizes)
{
    size_t sum = 0;
    for (int k = 0; k < r->count; k++)
        sum += sizes[k];
    return sum;
}

/* Rank 0: hears all, then tells all. Messages have fewer than 2^31 bytes. */
static int gather_here(ranks *r, const void *mine, char **all, size_t *sizes)
{
    size_t count = (size_t)r->count, at = sizes[0];
    for (int k = 1; k < r->count; k++)
        if (ranks_receive(r, k, &sizes[k], sizeof *sizes, MPI_BYTE))
            return -1;
    size_t total = sum_sizes(r, sizes);
    if (!(*all = malloc(total + 1)))
        return -1;
    memcpy(*all, mine, sizes[0]);
    for (int k = 1; k < r->count; at += sizes[k++])
        if (ranks_receive(r, k, *all + at, sizes[k], MPI_BYTE))
            return -1;
    for (int k = 1; k < r->count; k++)
        if (ranks_send(r, k, sizes, count * sizeof *sizes, MPI_BYTE) || ranks_send(r, k, *all, total, MPI_BYTE))
            return -1;
    return 0;
}

int ranks_gather(void *self, const void *mine, size_t size, char **all, size_t *sizes)
{
    ranks *r = self;
    *all = NULL;
    sizes[r->rank] = size;
    if (r->rank == 0)
        return gather_here(r, mine, all, sizes);
    if (ranks_send(r, 0, &size, sizeof size, MPI_BYTE) || ranks_send(r, 0, mine, size, MPI_BYTE))
        return -1;
    ranks_idle(r, sizes, (size_t)r->count * sizeof *sizes, MPI_BYTE);
    size_t total = sum_sizes(r, sizes);
    if (!(*all = malloc(total + 1)))
        return -1;
    ranks_idle(r, *all, total, MPI_BYTE);
    return 0;
}
