/* own_work.c - the thread looks several times a second, and is not told when a batch begins: most take less. */
#include "own_work.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

static const double look_every = 0.2; /* seconds */

struct own_work {
    ranks *r;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t closed; /* by the clock that only goes forward */
    double begun;          /* seconds of that clock; 0: there is no batch */
    bool closing;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct timespec at(double seconds)
{
    time_t whole = (time_t)seconds;
    return (struct timespec){whole, (long)(1e9 * (seconds - (double)whole))};
}

static void *look(void *self)
{
    own_work *w = self;
    ranks *r = w->r;
    pthread_mutex_lock(&w->lock);
    while (!w->closing) {
        double waited = w->begun > 0 ? now() - w->begun : 0;
        struct timespec next = at(now() + look_every);
        if (r->timeout > 0 && waited > r->timeout && r->end) {
            ranks_explain(r, 0, waited);
            r->end(r->waiting_self, r->text);
        } else if (waited > ranks_show_after && r->waiting)
            r->waiting(r->waiting_self, 0, waited);
        pthread_cond_timedwait(&w->closed, &w->lock, &next);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Signals are for the thread that runs the program. */
static int begin_thread(own_work *w)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&w->thread, NULL, look, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

own_work *own_work_new(ranks *r)
{
    own_work *w = calloc(1, sizeof *w);
    pthread_condattr_t clock;
    if (!w)
        return NULL;
    w->r = r;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->closed, &clock);
    pthread_condattr_destroy(&clock);
    if (!begin_thread(w))
        return w;
    pthread_cond_destroy(&w->closed);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}

void own_work_free(own_work *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_signal(&w->closed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->closed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void note(own_work *w, double begun)
{
    pthread_mutex_lock(&w->lock);
    w->begun = begun;
    pthread_mutex_unlock(&w->lock);
}

void own_work_begin(own_work *w)
{
    note(w, now());
}

void own_work_end(own_work *w)
{
    note(w, 0);
}
