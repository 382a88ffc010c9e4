/* fit.h - the state of a fit, in the order in which an iteration fills it. N particles, D dimensions, n points in a batch. */
#ifndef WV_FIT_H
#define WV_FIT_H
#include "component.h"
#include "error.h"
#include "wvgd.h"

enum {
    WV_DENSE = 128,       /* up to this dimension, D x D matrices are formed for every family */
    WV_BLOCK = 256,       /* points whose densities under all proposals are held at once */
    WV_CHUNK = 4096,      /* closing draws asked for at once */
    WV_FREE = 4096,       /* draws that are not evaluated, in one batch; at most WV_CHUNK */
    WV_PATHS = 8,         /* ascents in one wave */
    WV_MODES = 40,        /* modes kept */
    WV_WARNINGS = 16
};

/* What a batch is for. */
typedef enum { WV_EXPLORE, WV_PILOT, WV_SEARCH, WV_SETTLE, WV_AVERAGE, WV_TRIAL, WV_FINAL, WV_DONE } wv_stage;

/* An ascent under way. */
typedef struct {
    int active, fresh;      /* flags; fresh: its start has not been evaluated */
    size_t bridges;         /* modes to which the way from its end is being looked at */
    size_t start, tries;    /* which start, after how many without density */
    size_t evaluations, pairs, stalls, looks;
    double log_p, slope;    /* at the last accepted point */
    double step, low, high; /* of the line search */
} wv_path;

typedef struct {
    double log_p, log_mass; /* at the top; Laplace's estimate */
    size_t hits;
    int relevant;           /* flag: not too light to matter */
} wv_mode;

/* Everything but arrays that a saved state holds: plain values only. */
typedef struct {
    wv_stage stage;
    wvgd_stop stop;
    size_t iteration;         /* of the joint solver, pilot included */
    size_t batch;             /* all batches: keys the draws */
    size_t evaluations, bad_points, zero_points;
    double seconds, model_seconds;
    double rho;               /* step of the components, as a share of the full natural step */
    size_t phase_start;       /* first trace row that still describes this phase (later moves and returns restart it) */
    size_t averaged;          /* iterations in the settling or averaging phase */
    size_t marked;            /* trace row at which the particles were last marked, */
    double walked;            /* and the sum of their squared steps since */
    size_t moves, restarts;   /* particles moved to better cells; components begun again on their cell */
    size_t lost;              /* times in this phase that a component of weight had too few points for a step */
    size_t limits;            /* steps undone because a component would have left the range of numbers */
    size_t requantised;       /* times better particles were found on pooled points */
    double best, best_se;     /* PELBO of the best state so far */
    double pelbo, pelbo_se, distortion, distortion_se, ess; /* of the last batch */
    double distortion1, distortion2; /* means of the distortion and its square since the cells have been at rest */
    double step;              /* nats between the current state and the full step, summed over components and particles */
    double meanfield_gap;
    size_t planned;           /* closing draws in a block of the present stage, fixed before the first */
    size_t block;             /* blocks complete */
    size_t trials;            /* trials before the present one */
    size_t closed;            /* closing draws in the store */
    wvgd_estimate bound, bound_beta, evidence;
    double pareto_k, final_ess;
    size_t trace_rows;
    size_t starts, modes, hit_once; /* exploration */
    wv_path path[WV_PATHS];
    wv_mode mode[WV_MODES];
} wv_scalars;

/* Proposals that made a batch, and its points. The first N proposals are the components. */
typedef struct {
    wv_gauss q;
    double log_alpha;  /* log share in the mixture that was sampled */
} wv_proposal;

typedef struct {
    size_t n;
    double *x;            /* [n][D] points */
    double *log_p, *grad; /* [n], [n][D] as told; bad points have log_p = -INFINITY and grad = 0 */
    double *log_m;        /* [n] log density of the mixture sampled */
    double *log_q;        /* [n] log density of the component that owns the point's cell */
    double *log_mix[2];   /* [n] log sum_j w_j q_j for two sets of weights */
    double *near, *next;  /* [n] cost to the nearest and to the second nearest particle */
    uint32_t *cell;       /* [n] nearest particle */
    uint32_t *stratum;    /* [n] proposal that drew the point */
    double *sum_u;        /* [N] sum over all points of q_j / m */
} wv_batch;

/* What is adapted; one contiguous block, so that the best state can be kept by one copy. */
typedef struct {
    double *z;        /* [N][D] particles */
    double *mu;       /* [N][D] component locations */
    double *root;     /* [N][family->size] component roots */
    double *spread;   /* [N][cell_family->size] roots of the posterior's covariance in each cell */
    double *metric;   /* [metric_family->size] root of the covariance that the mahalanobis cost divides by */
    double *centre;   /* [D] posterior mean, smoothed */
    double *elbo;     /* [N] smoothed ELBO_j: softmax gives the weights that judge the next batch */
    double *losses;   /* [N] times that a component ran away from its cell */
    double *beta, *beta2; /* [N] means of beta_j and its square since the cells have been at rest */
} wv_ensemble;

struct wvgd_fit {
    wvgd_model model;
    wvgd_options opt;
    size_t N, D, R, M;     /* M: draws a component */
    size_t n_max;          /* points in a batch at most */
    size_t close_max;      /* closing draws at most */
    const wv_family *family, *cell_family, *metric_family;
    bool pilot;            /* a full Gaussian is fitted first, to precondition diagonal components */
    size_t pilot_draws;
    bool exploring;        /* starts from modes found by ascents */
    bool dense;            /* D x D matrices are formed */
    size_t ensemble_size;  /* doubles in a wv_ensemble */
    bool asked;            /* a batch is waiting to be told */

    wv_scalars s;
    /* ---- saved ---- */
    double *saved;         /* the block behind the arrays up to `mcse` */
    size_t saved_size;
    wv_ensemble now, best; /* current and best state */
    double *pilot_mu, *pilot_root, *pilot_best; /* [D], [D][D], and the best of both */
    double *mode_x, *mode_root;    /* [modes][D], [modes][D][D] (or [D]) modes found and their Gaussians */
    double *mode_scale, *scatter_scale, *scatter_centre, *path_scale; /* [D] */
    double *path_x, *path_g, *path_p; /* [paths][D] point, gradient, direction of each ascent */
    double *path_s, *path_y;          /* [paths][20][D] its curvature pairs */
    double *z_mark;        /* [N][D] particles some iterations ago */
    double *adam;          /* reparam: [2][N][D + root size] */
    double *beta, *beta_se, *weight, *weight_beta, *log_Z, *elbo, *elbo_se, *cell_ess, *cell_k; /* [N] results */
    double *mean, *var, *mcse; /* [D] */
    wv_batch close;        /* [close_max] closing draws (no gradients) */
    double *close_v, *close_log_w; /* [close_max] their normalised posterior weights, and the logs of these, */
    double *close_smooth;  /* [close_max] and Pareto-smoothed log weights */
    wvgd_trace_row *trace;
    double *trace_beta;    /* [rows][N] */
    size_t trace_room;

    /* ---- scratch ---- */
    double *scratch;       /* the block behind what follows, */
    uint32_t *scratch_index; /* and behind its indices */
    wv_batch b;
    wv_proposal *proposal; /* [3N + 3] */
    size_t *share;         /* [3N + 3] draws of each */
    size_t proposals;
    size_t *start;         /* [N + 1] first point of each cell in `order` */
    double *tail_mu, *tail_root;   /* the wide Student-t of the closing proposal */
    double *block;         /* [WV_BLOCK][max(N, proposals) + 2 D] densities or costs of a block */
    double *gx, *gg;       /* [n][D] points and gradients of one cell */
    double *glp, *glu, *glv, *gu, *ga, *gr; /* [n] log p, log u, log v, normalised u, normalised tempered weights, residuals of one cell */
    double *y, *gy, *uy;   /* [n][D] whitened points, gradients, weighted points */
    double *square[8];     /* [D][D] (D <= WV_DENSE), else unused */
    double *vector[10];    /* [D] */
    double *T, *F, *Fc, *Fm; /* residual regression: [WV_BLOCK][p], [p][p], [p], [p] */
    size_t p_max;
    double *syev, *work;
    double *undo;          /* [D + root size] a component before its step */
    double *large;         /* low-rank components without D x D matrices */
    double *sd_view, *spread_view; /* results in the shape that users see */
    double *told_log_p, *told_grad; /* [n], [n][D] answers of the model */
    uint32_t *order;       /* [n_max or close_max] points sorted by cell, or by weight */
    uint32_t *free_cell;   /* [WV_FREE] */
    double *free_cost;     /* [2][WV_FREE] */
    double *psi, *close_spare; /* [n_max or close_max] */
    double *pooled;        /* [n] weights that stand for the posterior */
    double *moving;        /* [n] posterior weights of the points, for moves */
    double *soft_grad;     /* soft cells: [n][D] gradient of the log mixture */
    double *cell_spare;    /* [N] */
    double *step_kl;       /* [N] */
    double *try_z, *sum_z; /* [3][N][D], [N][D] candidate particles */

    size_t warnings;
    char warning_text[WV_WARNINGS][200];
    const char *warning[WV_WARNINGS];
};

/* views */
wv_gauss wv_fit_component(const wvgd_fit *f, size_t j);
wv_gauss wv_fit_spread(const wvgd_fit *f, size_t j); /* N(z_j, covariance of the cell) */
wv_gauss wv_fit_around(const wvgd_fit *f, size_t j); /* the same as a proposal: a Student-t with that root */

/* x drawn from f->proposal[k] into f->b at `at`. */
void wv_fit_draw(wvgd_fit *f, size_t k, wv_rng_use use, uint64_t first, size_t n, bool antithetic, size_t at);


#endif
