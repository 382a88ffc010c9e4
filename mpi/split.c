/* split.c - batches over ranks, or rows: then all ranks evaluate all points, and rank 0 adds what they say in the order
 * of the ranks, rounds being as large as there is room for the answers of all. Points go out from, and answers come in
 * to, where rank 0 has them; the others have room for a fixed number of points, and larger shares go in several rounds.
 * Nothing is allocated for a batch.
 *
 * A message with what is to be done goes before the points; the status of an answer stands before its log densities. */
#include "split.h"
#include "own_work.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG = 7, ROOM = 1 << 21 /* doubles that a rank has for points and answers, about */ };
enum { END, EVALUATE, EVALUATE_GRADIENT };
enum { WHAT, POINTS, CHUNK, HEAD };
static const double least_work = 1e5; /* floating-point operations that take as long as to tell others */

typedef struct {
    wvgd_model inner;
    ranks *r;
    own_work *own;    /* looks at the batches that this rank evaluates; NULL: nobody does */
    size_t room;      /* points of a share */
    bool asked_again; /* a point without density was evaluated here, too */
    int64_t (*head)[HEAD];
    double *answer;       /* [count][room + 1] status and log densities */
    MPI_Request *request; /* [2 count] */
    int *who;             /* [2 count] */
    double *part;         /* [count][room][D] gradients of rows; NULL: points are shared */
    wvgd_model prior;     /* of rows: all but one take this away; without log_density: it is in none of them */
    double *prior_p;      /* [room][D + 1] its log densities and gradients */
} split;

/* What a rank does in one round: points first .. first + n. */
typedef struct {
    size_t first, n;
} share;

static size_t room_for(size_t dim)
{
    size_t room = ROOM / (2 * dim + 1) / WVGD_CHUNK * WVGD_CHUNK;
    return room ? room : WVGD_CHUNK;
}

/* The share of a rank of `units` cuts of a batch. rank -1: all of it. */
static share share_of(const split *s, size_t n, size_t cut, size_t units, size_t first_unit, int rank)
{
    size_t count = rank < 0 ? 1 : (size_t)s->r->count, k = rank < 0 ? 0 : (size_t)rank,
           from = (first_unit + units * k / count) * cut, to = (first_unit + units * (k + 1) / count) * cut;
    from = from < n ? from : n;
    to = to < n ? to : n;
    return (share){from, to - from};
}

static void count_message(ranks *r, size_t bytes)
{
    r->seen.messages++;
    r->seen.bytes += bytes;
}

/* Sends their shares to the other ranks. */
static int send_shares(split *s, size_t chunk, const share *all, const double *z, bool gradient)
{
    ranks *r = s->r;
    size_t D = s->inner.dim, n = 0;
    for (int k = 1; k < r->count; k++) {
        const share *h = &all[k];
        if (!h->n)
            continue;
        int64_t *head = s->head[k];
        head[WHAT] = gradient ? EVALUATE_GRADIENT : EVALUATE;
        head[POINTS] = (int64_t)h->n;
        head[CHUNK] = (int64_t)chunk;
        s->who[n] = s->who[n + 1] = k;
        MPI_Isend(head, HEAD, MPI_INT64_T, k, TAG, r->comm, &s->request[n++]);
        MPI_Isend(z + h->first * D, (int)(h->n * D), MPI_DOUBLE, k, TAG, r->comm, &s->request[n++]);
        count_message(r, HEAD * sizeof *head);
        count_message(r, h->n * D * sizeof *z);
    }
    return ranks_wait(r, n, s->request, s->who);
}

static size_t ask_answers(split *s, const share *all, double *grad)
{
    ranks *r = s->r;
    size_t D = s->inner.dim, n = 0;
    for (int k = 1; k < r->count; k++) {
        const share *h = &all[k];
        if (!h->n)
            continue;
        s->who[n] = s->who[n + 1] = k;
        MPI_Irecv(s->answer + (size_t)k * (s->room + 1), (int)(h->n + 1), MPI_DOUBLE, k, TAG, r->comm,
                  &s->request[n++]);
        count_message(r, (h->n + 1) * sizeof(double));
        if (!grad)
            continue;
        MPI_Irecv(s->part ? s->part + (size_t)k * s->room * D : grad + h->first * D, (int)(h->n * D), MPI_DOUBLE, k,
                  TAG, r->comm, &s->request[n++]);
        count_message(r, h->n * D * sizeof(double));
    }
    return n;
}

/* Status of the first rank that has failed; log densities to their places. */
static int take_answers(split *s, const share *all, double *log_p)
{
    int failed = 0;
    for (int k = 1; k < s->r->count; k++) {
        const double *answer = s->answer + (size_t)k * (s->room + 1);
        if (all[k].n && answer[0] != 0 && !failed) {
            failed = (int)answer[0];
            snprintf(s->r->text, sizeof s->r->text, "this was on rank %d", k);
        }
        for (size_t i = 0; i < all[k].n && !s->part; i++)
            log_p[all[k].first + i] = answer[1 + i];
    }
    return failed;
}

static void add(size_t n, double times, const double *y, double *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] += times * y[i];
}

/* Rows: log densities and gradients of n points are those of rank 0, plus those of rank 1, 2, ..., less the prior that
 * each but one has had, too. A point without density in one share has none. */
static int add_parts(split *s, size_t n, const double *z, double *log_p, double *grad)
{
    size_t D = s->inner.dim, count = (size_t)s->r->count;
    for (size_t k = 1; k < count; k++) {
        add(n, 1, s->answer + k * (s->room + 1) + 1, log_p);
        if (grad)
            add(n * D, 1, s->part + k * s->room * D, grad);
    }
    if (!s->prior.log_density)
        return 0;
    double *prior_grad = s->prior_p + s->room;
    int failed = s->prior.log_density(s->prior.self, n, z, s->prior_p, grad ? prior_grad : NULL);
    for (size_t i = 0; i < n && !failed; i++)
        if (isfinite(log_p[i])) {
            add(1, -((double)count - 1), s->prior_p + i, log_p + i);
            if (grad)
                add(D, -((double)count - 1), prior_grad + i * D, grad + i * D);
        }
    return failed;
}

/* chunk 0: the model takes points as they come. */
static int evaluate(const wvgd_model *m, size_t chunk, size_t n, const double *z, double *log_p, double *grad)
{
    return !n      ? 0
           : chunk ? wvgd_model_threads_part(m, chunk, n, z, log_p, grad)
                   : m->log_density(m->self, n, z, log_p, grad);
}

/* The same here, on rank 0. */
static int evaluate_here(const split *s, size_t chunk, size_t n, const double *z, double *log_p, double *grad)
{
    if (s->own)
        own_work_begin(s->own);
    int failed = evaluate(&s->inner, chunk, n, z, log_p, grad);
    if (s->own)
        own_work_end(s->own);
    return failed;
}

/* Shares of all ranks, none larger than there is room for. all [count] stands behind s->who. */
static int evaluate_round(split *s, size_t chunk, const share *all, const double *z, double *log_p, double *grad)
{
    size_t D = s->inner.dim;
    if (send_shares(s, chunk, all, z, grad != NULL))
        return -1;
    size_t n = ask_answers(s, all, grad);
    int here = evaluate_here(s, chunk, all[0].n, z + all[0].first * D, log_p + all[0].first,
                             grad ? grad + all[0].first * D : NULL);
    if (ranks_wait(s->r, n, s->request, s->who))
        return -1;
    int there = take_answers(s, all, log_p);
    if (s->part && !here && !there)
        return add_parts(s, all[0].n, z + all[0].first * D, log_p + all[0].first,
                         grad ? grad + all[0].first * D : NULL);
    return here ? here : there;
}

/* Models keep a message about the first point that they cannot evaluate: that of another rank is asked for here, too,
 * once. */
static void ask_again(split *s, size_t from, size_t n, const double *z, double *log_p)
{
    size_t D = s->inner.dim;
    double again;
    for (size_t i = 0; i < n && !s->asked_again; i++)
        if (isnan(log_p[i])) {
            s->asked_again = true;
            if (i >= from)
                s->inner.log_density(s->inner.self, 1, z + i * D, &again, NULL);
        }
}

static bool is_small(const split *s, size_t n, size_t cut)
{
    return (n < 2 * cut && !s->part) || (!s->part && s->inner.work > 0 && s->inner.work * (double)n < least_work);
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    split *s = self;
    size_t chunk = s->inner.batched ? wvgd_model_chunk(n) : 0, cut = chunk ? chunk : 1, units = (n + cut - 1) / cut,
           most = s->room / cut * (s->part ? 1 : (size_t)s->r->count);
    share *all = (share *)(void *)(s->who + 2 * s->r->count);
    int failed = 0;
    s->r->text[0] = '\0';
    if (s->r->lost)
        return -1;
    if (is_small(s, n, cut)) {
        s->r->seen.alone++;
        return evaluate_here(s, chunk, n, z, log_p, grad);
    }
    s->r->seen.shared++;
    for (size_t at = 0, here; at < units && !failed; at += here) {
        here = units - at < most ? units - at : most;
        for (int k = 0; k < s->r->count; k++)
            all[k] = share_of(s, n, cut, here, at, s->part ? -1 : k);
        failed = evaluate_round(s, chunk, all, z, log_p, grad);
    }
    if (!failed && !s->asked_again && !s->part)
        ask_again(s, all[0].first + all[0].n, n, z, log_p);
    return failed;
}

int split_end(ranks *r, int to)
{
    int64_t head[HEAD] = {END, 0, 0};
    return r->lost ? -1 : ranks_send(r, to, head, HEAD, MPI_INT64_T);
}

static void free_split(split *s)
{
    own_work_free(s->own);
    free(s->head);
    free(s->answer);
    free(s->request);
    free(s->who);
    free(s->part);
    free(s->prior_p);
    free(s);
}

static void close_split(void *self)
{
    split *s = self;
    for (int k = 1; k < s->r->count; k++)
        split_end(s->r, k);
    free_split(s);
}

/* Rows: as many points as there is room for the answers of all ranks, whole chunks. */
static size_t room_for_all(size_t dim, size_t count)
{
    size_t room = ROOM / (dim + 1) / count / WVGD_CHUNK * WVGD_CHUNK, most = room_for(dim);
    return room < WVGD_CHUNK ? WVGD_CHUNK : room < most ? room : most;
}

static split *new_split(const wvgd_model *inner, ranks *r, bool rows)
{
    split *s = calloc(1, sizeof *s);
    size_t count = (size_t)r->count, D = inner->dim;
    if (!s)
        return NULL;
    *s = (split){.inner = *inner, .r = r, .room = rows ? room_for_all(D, count) : room_for(D)};
    s->head = calloc(count, sizeof *s->head);
    s->answer = calloc(count, (s->room + 1) * sizeof *s->answer);
    s->request = calloc(2 * count, sizeof *s->request);
    s->who = calloc(count, 2 * sizeof *s->who + sizeof(share));
    s->part = rows ? calloc(count * s->room, D * sizeof *s->part) : NULL;
    s->prior_p = rows ? calloc(s->room, (D + 1) * sizeof *s->prior_p) : NULL;
    if (s->head && s->answer && s->request && s->who && (!rows || (s->part && s->prior_p)))
        return s;
    free_split(s);
    return NULL;
}

int split_open(wvgd_model *model, const wvgd_model *inner, bool rows, const wvgd_model *prior, ranks *r)
{
    split *s = new_split(inner, r, rows);
    if (!s)
        return -1;
    if (prior)
        s->prior = *prior;
    s->own = own_work_new(r);
    *model = *inner;
    model->log_density = log_density;
    model->self = s;
    model->close = close_split;
    model->batched = true; /* whole batches come here, however slow the model is */
    return 0;
}

int split_serve(const wvgd_model *inner, ranks *r)
{
    size_t D = inner ? inner->dim : 1, room = inner ? room_for(D) : 1;
    double *z = calloc(room, (2 * D + 1) * sizeof *z + sizeof *z), *log_p = z ? z + room * D : NULL,
           *grad = z ? log_p + 2 * room : NULL;
    int64_t head[HEAD];
    if (!z)
        return -1;
    for (;;) {
        ranks_idle(r, head, HEAD, MPI_INT64_T);
        if (head[WHAT] == END || !inner)
            break;
        size_t n = (size_t)head[POINTS];
        bool gradient = head[WHAT] == EVALUATE_GRADIENT;
        ranks_idle(r, z, n * D, MPI_DOUBLE);
        log_p[0] = evaluate(inner, (size_t)head[CHUNK], n, z, log_p + 1, gradient ? grad : NULL);
        if (ranks_send(r, 0, log_p, n + 1, MPI_DOUBLE) || (gradient && ranks_send(r, 0, grad, n * D, MPI_DOUBLE)))
            break;
    }
    free(z);
    return 0;
}
