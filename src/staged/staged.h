/* staged.h - the default solver: a mixture is fitted to the modes, grown until its draws weigh the
 * posterior well, and only then cut into cells. */
#ifndef WV_STAGED_H
#define WV_STAGED_H
#include "archive.h"
#include "wvgd.h"

/* What the solver remembers of trials and growth. */
typedef struct {
    double wanted;              /* draws that the final batch will need, as the trial says */
    double trial_z;             /* log evidence, as the trial says */
    double trial_ess;           /* effective size of the trial */
    double weight_quantile;     /* log p~ / (m Z) that all but a few of the posterior's draws stay below */
    double tried_elbo;          /* ELBO of mix_tried, the last mixture of which a trial had density */
    double last_elbo, last_rel; /* ELBO and relative ESS before the last growth */
    size_t rounds, fails;       /* of growth; of these without success, running */
    size_t effort;              /* times that draws for each component have been doubled */
    size_t returns;             /* times that a final batch has sent the fit back to growth */
    size_t recovered;           /* modes that were lost on the way and put back */
    size_t sharpened;           /* pieces of the final batch drawn for the sds */
    size_t spent;               /* closing draws so far, all trials included */
    size_t probes;              /* times that walks have been sent out, */
    double probe_elbo;          /* the ELBO when they last were, */
    size_t probe_K;             /* and components */
    size_t more_cells;          /* times that there have been more cells */
    size_t redrawn;             /* times that there have been more final draws for the components of the cells */
    int undone;                 /* flag: the last growth has been undone */
} wv_growth;

enum { WV_EFFORT = 2 }; /* times that a fit's draws for each component may be doubled */
bool wv_growth_archive(wv_growth *g, wv_archive *a);
void wv_growth_copy(wv_growth *to, const wv_growth *from);

/* Enters the first stage. */
void wv_staged_begin(wvgd_fit *f);

/* Goes on from closing draws that are there, with their weights and moments: cells, and what follows. */
void wv_staged_cells(wvgd_fit *f);

/* Ends the search: what is left is closed with as few draws as possible. */
void wv_staged_hurry(wvgd_fit *f, wvgd_stop stop, bool given_up);

/* Whether the batch that was asked for is of no use without gradients. */
bool wv_staged_wants_gradient(const wvgd_fit *f);

wvgd_status wv_staged_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_staged_tell(wvgd_fit *f, wvgd_error *error);
#endif
