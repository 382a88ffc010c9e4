/* closing.h - the closing draws, which results are estimated from with either solver: a set of draws, how many of them
 * are planned, and their weights. */
#ifndef WV_CLOSING_H
#define WV_CLOSING_H
#include "archive.h"
#include "draws.h"

typedef struct {
    wv_draws draws;
    size_t planned; /* draws in a block of the present stage, fixed before the first */
    size_t block;   /* blocks complete */
    size_t trial;   /* of the draws, those of the trial, which stand first */

    /* ---- weights ---- */
    double *v, *log_w;  /* [room] normalised posterior weights, and the logs of these, */
    double *smooth;     /* [room] Pareto-smoothed log weights, */
    double *calibrated; /* [room] and weights calibrated by Stein's identities */
    double *memory;
} wv_closing;

/* What a stage has made of the draws, and what the next one relies on. */
typedef struct {
    wv_draws_rule draws;
    bool weights;        /* there are weights for the posterior */
    bool some, blocks;   /* there is one draw at least; draws are within the present block */
    size_t planned_most; /* draws that are planned at most */
} wv_closing_rule;

bool wv_closing_new(wv_closing *c, wv_draws_shape shape);
void wv_closing_free(wv_closing *c);
bool wv_closing_archive(wv_closing *c, wv_archive *a, wv_closing_rule rule);

/* Draws and what is calibrated of them, into a part of the same shape; neither cells nor other weights. */
void wv_closing_copy(wv_closing *to, const wv_closing *from);

/* Forgets the draws; the next come in blocks of so many. */
void wv_closing_restart(wv_closing *c, size_t planned);
void wv_closing_clear(wv_closing *c);

/* The next draws come in a block of so many, behind those that there are; wv_closing_add_block: one as large as that
 * before. */
void wv_closing_plan(wv_closing *c, size_t planned);
void wv_closing_add_block(wv_closing *c);

/* n draws that stand behind the last one already, made by these proposals. */
void wv_closing_take(wv_closing *c, size_t n, const wv_proposals *p);

/* The draws, for what a solver adds to them. */
wv_draws *wv_closing_lend(wv_closing *c);

/* Draws that there are become those of the trial; and are forgotten. */
void wv_closing_end_trial(wv_closing *c);
void wv_closing_forget_trial(wv_closing *c, wv_arena *arena);

/* Normalised weights [n] from `first` on; logs of normalised weights [n] of all draws; Pareto-smoothed ones; weights
 * calibrated by Stein's identities, some of which may be negative. */
void wv_closing_set_weights(wv_closing *c, size_t first, const double *v);
void wv_closing_set_log_weights(wv_closing *c, const double *log_w);
void wv_closing_set_smooth(wv_closing *c, const double *log_w);
void wv_closing_set_calibrated(wv_closing *c, const double *weight);
#endif
