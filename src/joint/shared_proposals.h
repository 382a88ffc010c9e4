/* shared_proposals.h - a few proposals for many particles. */
#ifndef WV_SHARED_PROPOSALS_H
#define WV_SHARED_PROPOSALS_H
#include "wvgd.h"

/* Are there more particles than each can have proposals of its own? */
bool wv_shared_proposals_many(const wvgd_fit *f);

/* Doubles of the proposals' means and roots, f->joint.group. */
size_t wv_shared_proposals_size(const wvgd_fit *f);

/* f->proposals.draws[j] draws of component j and draws[N + j] around particle j are to be made, the latter with
 * nu degrees of freedom (0: of a Gaussian): puts proposals for groups of particles instead of
 * these, with the sums of their draws. */
void wv_shared_proposals_propose(wvgd_fit *f, double nu);
#endif
