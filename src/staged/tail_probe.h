/* tail_probe.h - short Hamiltonian walks that look for parts of the posterior where the proposal has hardly any draws.
 */
#ifndef WV_TAIL_PROBE_H
#define WV_TAIL_PROBE_H
#include "fit.h"

/* Walks begin at stored draws chosen by their weights close_v. */
bool wv_tail_probe_begin(wvgd_fit *f); /* false: there is no draw from which to set out */

void wv_tail_probe_ask(wvgd_fit *f);

/* Takes a step of every walk. True: all have ended; f->crawl_seen holds where they have been (f->s.crawl.seen
 * points) and f->crawl_log_p the log densities there. */
bool wv_tail_probe_tell(wvgd_fit *f);
#endif
