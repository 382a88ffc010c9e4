/* bent.h - the staged solver in bent coordinates: when a bend is looked for, whether it is kept, and the way of draws
 * and mixtures between u, where the solver works, and the user's x. */
#ifndef WV_BENT_H
#define WV_BENT_H
#include "archive.h"
#include "coordinates/bend.h"
#include "draws.h"
#include "mixture.h"
#include "moments.h"
#include "wvgd.h"

typedef struct {
    size_t tries;        /* maps that have been fitted and left, and looks that found no argument */
    bool looked;         /* for a bend, and nothing more is looked for */
    bool kept;           /* there is one, and the solver works, or has worked, in u */
    bool cells;          /* components of cells are Gaussians of u */
    double elbo;         /* of the mixture before the bend */
    double sd;           /* of log p~ less what the mixture in u says of it: errors of its predictions */
    double wanted;       /* draws that the evidence would need without a bend */
    wv_mixture straight; /* the mixture before the bend, in x */
    wv_mixture bent;     /* while draws and mixture stand in x: the mixture in u */
    size_t D, seen;      /* dimensions; draws of the trial before the bend, as many as there is room for: */
    double *seen_x;      /* [seen][D] in x, */
    double *seen_p;      /* [seen] their log p~ */
    double *memory;
} wv_bent;

bool wv_bent_new(wv_bent *b, size_t D, size_t room);
void wv_bent_free(wv_bent *b);
bool wv_bent_archive(wv_bent *b, wv_archive *a);

/* Points paid for are remembered until a bend has been looked for. */
void wv_bent_remember(wvgd_fit *f);

/* Whether there seems to be a bend around this Gaussian. */
bool wv_bent_seems(wvgd_fit *f, const wv_gaussian *g);

/* Whether one may still be looked for. */
bool wv_bent_open(const wvgd_fit *f);

/* Looks for a bend around the mixture, whose trial is in: evaluations for its fit come next. False: there is none. */
bool wv_bent_begin(wvgd_fit *f);
void wv_bent_ask(wvgd_fit *f);
bool wv_bent_tell(wvgd_fit *f); /* true: the bend has been fitted, and the solver works in u */

/* Nothing more is looked for. */
void wv_bent_forget(wvgd_fit *f);

/* Whether a trial in u decides if the bend stays; and back to x. */
bool wv_bent_on_trial(const wvgd_fit *f);
void wv_bent_keep(wvgd_fit *f);
void wv_bent_leave(wvgd_fit *f);
void wv_bent_give_up(wvgd_fit *f, bool for_good); /* a bend that was kept: there is none any more, or not now */

/* Draws of the trial before the bend, as it sees them: u[n][D] and log_p[n], from the arena. */
size_t wv_bent_see(wvgd_fit *f, double **u, double **log_p);

/* Whether batches are points in u: all of the solver's but those of the search for modes. */
bool wv_bent_asks(const wvgd_fit *f);

void wv_bent_set_cells(wv_bent *b, bool cells);

/* Closing draws, with their weights, and a mixture for the cells: to x, and back to u where more are drawn. */
void wv_bent_to_user(wvgd_fit *f);
void wv_bent_to_solver(wvgd_fit *f);

/* The closing draws as the solver sees them, while they stand in x: a view, from the arena, with the density of the
 * mixture in u. */
wv_draws wv_bent_view(wvgd_fit *f);

/* Free draws of a mixture in u, mapped to x. */
typedef struct {
    const wv_bend *map;
    const wv_mixture *mix;
    const double *at; /* [D] about where x is, so that no digits are lost */
    uint64_t seed;
} wv_map_draws;

/* Moments in x that they tell. */
void wv_bent_free_moments(const wv_map_draws *d, const wv_moments_known *to, wv_arena *arena);

/* The same of the fit's mixture in u. */
void wv_bent_moments(wvgd_fit *f, const wv_moments_known *to);

/* The search for modes goes on after the final draws: how well does the mixture in u say what the density is? */
void wv_bent_begin_search(wvgd_fit *f);

/* Whether the first mode is bent, and the search knows it; then the log density that it predicts at a point of the
 * user's, and the squared distance in u from the component that says most of it; and what that may be off. */
bool wv_bent_known(const wvgd_fit *f);
double wv_bent_predict(wvgd_fit *f, const double *x, double *distance);
double wv_bent_sd(const wvgd_fit *f);

/* Log density of the closing proposals at a point of the user's; *log_det <- that of the map there, if asked for. */
double wv_bent_log_density(wvgd_fit *f, const double *x, double *stretched);
#endif
