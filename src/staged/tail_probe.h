/* tail_probe.h - short Hamiltonian walks that look for parts of the posterior where the proposal has hardly any draws.
 */
#ifndef WV_TAIL_PROBE_H
#define WV_TAIL_PROBE_H
#include "archive.h"
#include "wvgd.h"

enum {
    WV_WALKS = 12, /* Hamiltonian walks at once, */
    WV_WALK = 24   /* and steps of each */
};

typedef struct {
    size_t D, visited;
    double *visited_x, *visited_log_p; /* [visited][D], [visited] where they have been */
    double *memory;
} wv_tail_probe;

bool wv_tail_probe_new(wv_tail_probe *p, size_t D);
void wv_tail_probe_free(wv_tail_probe *p);
bool wv_tail_probe_archive(wv_tail_probe *p, wv_archive *a, bool running);

/* Walks begin at stored draws, some of them chosen by their weights f->closing.v. */
bool wv_tail_probe_begin(wvgd_fit *f); /* false: there is no draw from which to set out */

/* Takes a step of every walk. True: all have ended; f->probe has the points where they have been, and the log densities
 * there. */
bool wv_tail_probe_tell(wvgd_fit *f);
#endif
