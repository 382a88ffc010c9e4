/* fit.h - a fit: what it is given, how far it has come, and its parts, each of which owns its state. N particles, D
 * dimensions, n points in a batch. */
#ifndef WV_FIT_H
#define WV_FIT_H
#include "arena.h"
#include "batch.h"
#include "closing.h"
#include "coordinates/bend_fit.h"
#include "coordinates/differences.h"
#include "draws.h"
#include "error.h"
#include "gaussian.h"
#include "halfspaces.h"
#include "joint/pilot.h"
#include "joint/joint.h"
#include "limit.h"
#include "mixture.h"
#include "nearest.h"
#include "outcome.h"
#include "partition.h"
#include "posterior.h"
#include "results.h"
#include "staged/bent.h"
#include "staged/cell_refine.h"
#include "staged/certificate.h"
#include "staged/chains.h"
#include "staged/cell_component.h"
#include "staged/cell_bound.h"
#include "staged/explore.h"
#include "staged/finisher.h"
#include "staged/images.h"
#include "staged/mixture_fit.h"
#include "staged/modes.h"
#include "staged/staged.h"
#include "staged/staged_closing.h"
#include "staged/tail_probe.h"
#include "tally.h"
#include "trace.h"
#include "update/step.h"
#include "workers.h"
#include "wvgd.h"

enum { WV_WARNINGS = 16, WV_REASONS = 12 };

/* What a batch is for. */
typedef enum {
    WV_EXPLORE,
    /* staged */
    WV_FIT,
    WV_TRIAL,
    WV_PROBE,
    WV_BEND,
    WV_CLOSING,
    WV_SEEK,
    WV_CERTIFY,
    WV_FINISH,
    WV_REFINE,
    WV_BOUND,
    /* joint */
    WV_PILOT,
    WV_SEARCH,
    WV_SETTLE,
    WV_AVERAGE,
    WV_JOINT_TRIAL,
    WV_JOINT_FINAL,

    WV_DONE
} wv_stage;

/* Limits that follow from the dimension and the options. */
typedef struct {
    size_t M, M_least;        /* draws a component; without min_batch */
    size_t n_max;             /* points in a batch at most */
    size_t close_max;         /* closing draws at most */
    size_t close_budget;      /* staged: closing draws at most, all trials included */
    size_t closing_proposals; /* at most in a batch */
    size_t evaluations;       /* at most; SIZE_MAX: no limit */
    size_t p_max;             /* coefficients of a residual regression at most */
} wv_sizes;

typedef struct {
    size_t iteration; /* shown to users; pilot included */
    size_t batch;     /* all batches: keys the draws, except closing draws of the joint solver */
    size_t points;    /* of all batches that were told: without gradients fewer than values of the density */
    size_t evaluations, bad_points, zero_points;
    size_t widened; /* evaluations that are there because of min_batch */
    double seconds, model_seconds;
} wv_counts;

/* Words for the user. */
typedef struct {
    size_t warnings;
    char warning_text[WV_WARNINGS][240];
    const char *warning[WV_WARNINGS];
    size_t reasons; /* of the verdict */
    char reason_text[WV_REASONS][320];
    const char *reason[WV_REASONS];
    bool reliable;
} wv_messages;

struct wvgd_fit {
    /* ---- what is fitted, and how ---- */
    wvgd_model model;
    wvgd_options opt;
    size_t N, D;
    bool dense;     /* D x D matrices are formed */
    bool staged;    /* the staged solver */
    bool exploring; /* starts from modes found by ascents */
    bool given;     /* starts were given, and stand in cells.now.z */
    wv_sizes size;

    /* ---- how far it has come ---- */
    wv_stage stage;
    wvgd_stop stop;
    wvgd_stop pending; /* asked for between ask and tell: takes effect after the tell */
    bool asked;        /* a batch is waiting to be told */
    bool quantized;    /* the draws are those of another fit, of which `stop` tells */
    wv_counts count;

    /* ---- parts ---- */
    wv_batch b;
    wv_differences differences;
    wv_proposals proposals;
    wv_explore explore;
    wv_images images;
    wv_modes modes;
    wv_mixture mix, mix_best, mix_tried;
    wv_mixture_fitting fitting;
    wv_growth growth;
    wv_bend bend; /* the coordinates of the solver, and the user's */
    wv_bend_pool pool;
    wv_bent bent;
    wv_draws recent;   /* draws of the last batches of the mixture */
    wv_draws gathered; /* joint: points of the last iterations, which kmeans.c looks for better particles on */
    wv_tail_probe probe;
    wv_closing closing;
    wv_staged_closing wide;
    wv_chains chains;
    wv_certificate certificate;
    wv_finisher finish;
    wv_partition cells;
    wv_cell_refine refine;
    wv_halfspaces halfspaces;
    wv_cell_bound bound;
    wv_posterior posterior;
    wv_pilot pilot;
    wv_joint joint;
    wv_outcome outcome;
    wv_tally tally;
    wv_trace trace;
    wv_views views;

    /* ---- the worker: a view is a copy of all that stands before, for another worker ---- */
    wv_workers workers;
    wv_arena *arena; /* of the worker, who owns it */
    wvgd_fit *view;  /* [workers.n - 1] the fit as the other workers see it */
    wv_limit limit;  /* what ends the run early */
    wv_messages messages;
};

/* n draws of f->proposals.p[k], from number `first` on of stream `number`, into f->b at `at`. Draws of another batch
 * need another stream, or other numbers of it. */
void wv_fit_draw(wvgd_fit *f, uint64_t number, size_t k, wv_rng_use use, uint64_t first, size_t n, bool antithetic,
                 size_t at);

/* One step of a component (update/update.h), with the scratch of this worker. */
wv_update_result wv_fit_update(wvgd_fit *f, const wv_update *c);

/* Tasks 0 .. count-1 in this order, run by the workers, each with a view of the fit. A task writes to the
 * scratch of its worker, counts in f->tally, and writes to what belongs to its index alone. work: multiplications of
 * all tasks together, about; with few of them nobody is woken. */
typedef void wv_fit_task(wvgd_fit *f, void *context, size_t index);
void wv_fit_run_tasks(wvgd_fit *f, size_t count, double work, wv_fit_task *task, void *context);

/* The seconds that are left, from `now` on. */
void wv_fit_set_limit(wvgd_fit *f, double now);

/* Does what may take long; its loops call wv_limit_look(f->arena). False: a limit has struck, and it was given up. */
bool wv_fit_try(wvgd_fit *f, wv_limit_work *work, void *context);

/* The fit has come to its end by itself. */
bool wv_fit_converged(const wvgd_fit *f);

/* The run has been told to end early: what is left closes it. */
bool wv_fit_hurried(const wvgd_fit *f);

/* So many of `wanted` points for results as a limit leaves, if all that are to come are `parts` times as many; never
 * fewer than a few. If that are less than wanted, the run ends by the limit. */
size_t wv_fit_afford(wvgd_fit *f, size_t wanted, size_t parts);

/* A limit has struck while results were worked out: the run ends by it, though it may have converged. */
void wv_fit_cut_short(wvgd_fit *f);

/* Whether there may be so many cells; as many from now on, for what is known of them to be found anew, or to be read:
 * then nothing is moved, and going back leaves all as it was. */
bool wv_fit_may_have(const wvgd_fit *f, size_t N);
void wv_fit_set_cells(wvgd_fit *f, size_t N);
void wv_fit_expect_cells(wvgd_fit *f, size_t N);

/* Draws that cost little beside the fit's own work, where an evaluation is known to be cheap; 0
 * where nothing is known. */
double wv_fit_cheap(const wvgd_fit *f);

/* Appends the present iteration to the trace. */
wvgd_status wv_fit_note(wvgd_fit *f, wvgd_error *error);

#endif
