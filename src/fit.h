/* fit.h - the state of a fit, in the order in which an iteration fills it. N particles, D
 * dimensions, n points in a batch. */
#ifndef WV_FIT_H
#define WV_FIT_H
#include "gaussian.h"
#include "thread_pool.h"
#include "error.h"
#include "wvgd.h"

enum {
    WV_DENSE = 128,  /* up to this dimension, D x D matrices are formed for every family */
    WV_BLOCK = 256,  /* points whose densities under all proposals are held at once */
    WV_CHUNK = 4096, /* closing draws asked for at once */
    WV_FREE = 4096,  /* draws that are not evaluated, in one batch; at most WV_CHUNK */
    WV_EFFORT = 2,   /* times that a fit's draws for each component may be doubled */
    WV_PATHS = 8,    /* ascents in one wave */
    WV_MODES = 40,   /* modes kept */
    WV_PAIRS = 30,   /* curvature pairs that an ascent looks back on, */
    WV_KEPT = 64,    /* and that are kept, for the Gaussians that it leaves behind */
    WV_STATIONS = 8, /* Gaussians that an ascent leaves behind */
    WV_ENDS = 16,    /* ends of ascents remembered that were no modes */
    WV_BATCHES = 24, /* batches in a pool */
    WV_WALKS = 12,   /* Hamiltonian walks at once, */
    WV_WALK = 24,    /* and steps of each */
    WV_WORKERS = 32, /* threads of a fit at most */
    WV_PIECES = 64,  /* pieces at most into which a batch is cut for them */
    WV_WARNINGS = 16,
    WV_REASONS = 12
};

/* What a batch is for. */
typedef enum {
    WV_EXPLORE,
    /* staged */
    WV_MIX,
    WV_TRY,
    WV_CRAWL,
    WV_CLOSE,
    WV_REFINE,
    WV_BOUND,
    /* joint */
    WV_PILOT,
    WV_SEARCH,
    WV_SETTLE,
    WV_AVERAGE,
    WV_TRIAL,
    WV_FINAL,

    WV_DONE
} wv_stage;

/* What exploration is doing: paths climb; one that has ended is judged by a few draws; its Gaussian is fitted. */
typedef enum { WV_CLIMB, WV_JUDGE, WV_ALONE } wv_exploring;

/* An ascent under way. */
typedef struct {
    int active, fresh;          /* flags; fresh: its start has not been evaluated */
    int settled, judged, spike; /* flags: it has ended at a top; its end has been looked at; a narrow
                                 * peak there has been tried */
    int hit;                    /* the known mode in which it ended, or -1 */
    unsigned stations, made;    /* bits: Gaussians left behind; those whose roots have been worked out */
    size_t left[WV_STATIONS];   /* curvature pairs at each */
    size_t start, tries;        /* which start, after how many without density */
    size_t evaluations, accepted, pairs, stalls, looks;
    double log_p, slope;    /* at the last accepted point */
    double sy[WV_KEPT];     /* products of its curvature pairs */
    double step, low, high; /* of the line search */
} wv_path;

typedef struct {
    double elbo, sd; /* of its Gaussian: log mass, and sd of log p~ - log q */
    size_t hits;
    int relevant; /* flag: not too light to matter */
} wv_mode;

/* Where an ascent ended that led to a known mode when its Gaussian was fitted. */
typedef struct {
    double log_p;
    int mode;
    unsigned fits;
} wv_end;

/* A batch in the pool: its points and the proposals that made them. */
typedef struct {
    size_t first, n, proposal, proposals;
} wv_draws_batch;

/* A mixture being fitted. */
typedef struct {
    size_t K; /* components */
    size_t iteration;
    size_t stalls, small; /* iterations without gain; with hardly any step */
    double rho;           /* step, as a share of the full one */
    double best, best_sd; /* ELBO of the best state */
    double elbo, sd;      /* of the last */
} wv_mixture_fitting;

/* Walks under way. */
typedef struct {
    size_t seen, steps;
    size_t component[WV_WALKS]; /* whose metric each uses */
    int alive[WV_WALKS];        /* flags */
    double step[WV_WALKS];
    double energy[WV_WALKS]; /* log density followed, less momentum^2 / 2, at the start */
} wv_tail_probing;

/* Everything but arrays that a saved state holds: plain values only. */
typedef struct {
    wv_stage stage;
    wvgd_stop stop;
    wvgd_stop pending; /* asked for between ask and tell: takes effect after the tell */
    size_t iteration;  /* of the joint solver, pilot included */
    size_t batch;      /* all batches: keys the draws */
    size_t evaluations, bad_points, zero_points;
    double seconds, model_seconds;
    double rho;             /* step of the components, as a share of the full natural step */
    size_t phase_start;     /* first trace row that still describes this phase (later moves and returns restart it) */
    size_t averaged;        /* iterations in the settling or averaging phase */
    size_t marked;          /* trace row at which the particles were last marked, */
    double walked;          /* and the sum of their squared steps since */
    size_t moves, restarts; /* particles moved to better cells; components begun again on their cell */
    size_t lost;            /* times in this phase that a component of weight had too few points for a step */
    size_t limits;          /* steps undone because a component would have left the range of numbers */
    size_t requantised;     /* times better particles were found on pooled points */
    double best, best_se;   /* PELBO of the best state so far */
    double pelbo, pelbo_se, distortion, distortion_se, ess; /* of the last batch */
    double distortion1, distortion2; /* means of the distortion and its square since the cells have been at rest */
    double step; /* nats between the current state and the full step, summed over components and particles */
    double meanfield_gap;
    size_t planned; /* closing draws in a block of the present stage, fixed before the first */
    size_t block;   /* blocks complete */
    size_t trials;  /* trials before the present one */
    size_t closed;  /* closing draws in the store; before, points kept there by kmeans.c */
    size_t kept;    /* where the next of these goes */
    wvgd_estimate bound, bound_beta, evidence;
    double pareto_k, final_ess;
    size_t trace_rows;
    size_t starts, modes, relevant, hit_once; /* exploration */
    wv_exploring exploring;
    size_t climbed; /* evaluations of paths */
    double scatter; /* of starts around the modes, in units of the frame */
    size_t judged;  /* the path whose end is being looked at */
    wv_mixture_fitting mix;
    size_t batches; /* in the pool */
    wv_draws_batch pooled[WV_BATCHES];
    wv_tail_probing crawl;
    size_t crawls;              /* times that walks have been sent out */
    double tried_elbo;          /* ELBO of mix_tried */
    int undone;                 /* flag: the last growth has been undone */
    size_t effort;              /* times that draws for each component have been doubled */
    size_t tried;               /* components of mix_tried, the last mixture of which a trial had density */
    double wanted;              /* draws that the final batch will need, as the trial says */
    double trial_z;             /* log evidence, as the trial says */
    double trial_ess;           /* effective size of the trial */
    double usual;               /* log p~ / (m Z) that all but a few of the posterior's draws stay below */
    size_t rounds, fails;       /* of growth; of these without success, running */
    size_t returns;             /* times that a final batch has sent the fit back to growth */
    size_t recovered;           /* modes that were lost on the way and put back */
    size_t spent;               /* closing draws so far, all trials included */
    size_t trial;               /* stored draws that are the trial's */
    size_t refined;             /* rounds of evaluations that the components of the cells have had */
    double crawl_elbo;          /* ELBO when they last were */
    size_t crawl_K;             /* and components */
    double last_elbo, last_rel; /* ELBO and relative ESS before the last growth */
    double unseen;              /* log p~ / (m Z) at the mode that the closing proposal covers least */
    wv_path path[WV_PATHS];
    wv_mode mode[WV_MODES];
    size_t ends;
    wv_end end[WV_ENDS];
    size_t idle; /* fits of ascents without end, one after the other, that have led to nothing new */
} wv_scalars;

/* Proposals that made a batch, and its points. The first N proposals are the components. */
typedef struct {
    wv_gaussian q;
    double log_alpha; /* log share in the mixture that was sampled */
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

/* Points of a batch that lie one after the other: draws of one proposal from number `number` on, or
 * of several (proposal: f->proposals). */
typedef struct {
    size_t first, n, proposal, number;
} wv_stretch;

/* What is adapted; one contiguous block, so that the best state can be kept by one copy. */
typedef struct {
    double *z;            /* [N][D] particles */
    double *mu;           /* [N][D] component locations */
    double *root;         /* [N][family->size] component roots */
    double *spread;       /* [N][cell_family->size] roots of the posterior's covariance in each cell */
    double *metric;       /* [metric_family->size] root of the covariance that the mahalanobis cost divides by */
    double *centre;       /* [D] posterior mean, smoothed */
    double *elbo;         /* [N] smoothed ELBO_j: softmax gives the weights that judge the next batch */
    double *losses;       /* [N] times that a component ran away from its cell */
    double *beta, *beta2; /* [N] means of beta_j and its square since the cells have been at rest */
} wv_ensemble;

/* A mixture: means [K][D], roots [K][D][D], weights [K], in one block. */
typedef struct {
    double *mu, *root, *w;
} wv_mixture;

/* Points of the last batches and the proposals that made them. */
typedef struct {
    double *x, *grad, *log_p; /* [n][D], [n][D], [n] */
    double *log_sum;          /* [n] log of the sum over proposals of draws x density, */
    double *part;             /* [WV_BATCHES][n] and of the proposals of each batch; saved as far as it is used */
    /* proposals: location, inverse root, log determinant of the root; draws as a Gaussian, degrees
     * of freedom and draws as a Student-t */
    double *mu, *inverse, *log_det, *share, *nu, *tails;
} wv_pool;

/* Which scratch arrays hold what they are meant to hold from one batch to the next. It is never saved: a new or
 * restored fit knows nothing (WV_KNOWN_NOTHING), and whoever overwrites an array forgets it here. */
typedef struct {
    size_t squares;      /* closing.c: stored draws whose squares are in mix_q; wv_draws_measure, which
                          * writes there, forgets them */
    bool frame;          /* explore.c: frame_turned is the transpose of path_frame */
    size_t lattice_dims; /* halfspaces.c: dimensions of the points in lattice */
    double mass_points;  /* cells.c: points that the masses in mix_mass come from; 0: unknown */
    size_t surveyed;     /* cell_component.c: the mode whose Gaussian cannot be improved by steps, or WV_MODES */
} wv_known;
#define WV_KNOWN_NOTHING ((wv_known){.surveyed = WV_MODES})

struct wvgd_fit {
    wvgd_model model;
    wvgd_options opt;
    size_t N, D, R, M; /* M: draws a component */
    size_t n_max;      /* points in a batch at most */
    size_t close_max;  /* closing draws at most */
    const wv_family *family, *cell_family, *metric_family;
    bool pilot; /* a full Gaussian is fitted first, to precondition diagonal components */
    size_t pilot_draws;
    bool exploring;       /* starts from modes found by ascents */
    bool staged;          /* the staged solver */
    bool given;           /* starts were given, and stand in now.z */
    size_t close_budget;  /* staged: closing draws at most, all trials included */
    size_t mix_size;      /* doubles in a wv_mixture */
    size_t made_room;     /* proposals of a closing batch at most */
    bool dense;           /* D x D matrices are formed */
    size_t ensemble_size; /* doubles in a wv_ensemble */
    bool asked;           /* a batch is waiting to be told */
    double worth_sharing; /* multiplications that take as long as it takes to wake some threads, several times over */

    wv_scalars s;
    /* ---- saved ---- */
    double *saved; /* the block behind the arrays up to `mcse` */
    size_t saved_size;
    wv_ensemble now, best;                      /* current and best state */
    double *pilot_mu, *pilot_root, *pilot_best; /* [D], [D][D], and the best of both */
    double *mode_x, *mode_root;                 /* [modes][D], [modes][D][D] (or [D]) modes found and their Gaussians */
    double *mode_frame, *path_frame;            /* [D][D] (or [D]) roots of the metrics of the next ascents and
                                                 * of those under way */
    double *scatter_centre;                     /* [D] */
    double *end_x;                              /* [ends][D] */
    double *path_x, *path_p;                    /* [paths][D] point and direction of each ascent */
    double *path_g, *path_q;                    /* [paths][D, padded] gradient and direction in the frame, */
    double *path_s, *path_y;                    /* [paths][WV_KEPT][D, padded] and its curvature pairs */
    double *station_x, *station_root;           /* [paths][stations][D], ..[D][D] Gaussians left behind */
    wv_mixture mix, mix_best, mix_tried;
    wv_pool pool;
    double *crawl_x, *crawl_g, *crawl_p; /* [2][walks][D] point, gradient, momentum: now, and at the start */
    double *crawl_seen, *crawl_log_p;    /* [walks * steps][D], [walks * steps] where they have been */
    double *made;                        /* [made_room] final draws of each proposal */
    double *around; /* [N] flags: draws of the component in its cell come from around the particle too */
    double *z_mark; /* [N][D] particles some iterations ago */
    double *adam;   /* reparam: [2][N][D + root size] */
    double *beta, *beta_se, *weight, *weight_beta, *log_Z, *elbo, *elbo_se, *cell_ess, *cell_k; /* [N] results */
    double *mean, *var, *mcse;                                                                  /* [D] */
    wv_batch close;                /* [close_max] closing draws (no gradients) */
    double *close_v, *close_log_w; /* [close_max] their normalised posterior weights, and the logs of these, */
    double *close_smooth;          /* [close_max] and Pareto-smoothed log weights, */
    double *close_cal;             /* [close_max] and weights calibrated by Stein's identities */
    wvgd_trace_row *trace;
    double *trace_beta; /* [rows][N] */
    size_t trace_room;

    /* ---- scratch ---- */
    double *scratch; /* the block behind what follows, */
    size_t scratch_size;
    uint32_t *scratch_index; /* and behind its indices */
    wv_batch b;
    wv_batch own;          /* b as it was made: closing draws of the staged solver are made where they are stored */
    wv_proposal *proposal; /* [3N + 3] */
    size_t *share;         /* [3N + 3] draws of each */
    size_t proposals;
    wv_stretch *stretch;         /* [2 (3N + 3) + 1 + WV_PIECES] */
    size_t *start;               /* [N + 1] first point of each cell in `order` */
    double *tail_mu, *tail_root; /* the wide Student-t of the closing proposal */
    double *scale;               /* weights.c: [3N + 3][D + 1] inverse scales of diagonal proposals and the
                                  * constants in their log densities, */
    double *alpha;               /* [3N + 3] shares of all, */
    double *piece_u;             /* [WV_PIECES][N] and sums over the points of a piece */
    double *rounded;             /* nearest.c: particles as whole numbers */
    double *group;               /* shared_proposals.c: [2N][D + cell_family->size] proposals of groups of particles, */
    uint32_t *member;            /* [N] and particles in the order of groups */
    size_t p_max;
    double *sd_view, *spread_view; /* results in the shape that users see */
    uint32_t *order;               /* [n_max or close_max] points sorted by cell, or by weight */
    double *close_spare;           /* [close_max] */
    double *pooled;                /* [n] weights that stand for the posterior */
    double *soft_grad;             /* soft cells: [n][D] gradient of the log mixture */
    double *cell_spare;            /* [N] */
    double *step_kl;               /* [N] */
    double *try_z, *sum_z;         /* [3][N][D], [N][D] candidate particles */
    double *starts;                /* kmeans.c: [starts][N][D] others */

    double *mix_q, *mix_log, *mix_u; /* [K + 1][pool], [pool], [pool]: densities of components and mixture,
                                      * weights that stand for it */
    double *mix_grad;                /* [blocks][D][WV_COLUMNS] gradients of log p~ less those of the log mixture */
    double *mix_y; /* [K][blocks][D][WV_COLUMNS] points in the coordinates of each component, if there is room */
    double *mix_inverse, *mix_det, *mix_made; /* [K + 1][D][D], [K + 1], [K + 1][2]: inverse roots, log determinants
                                               * of roots; closing.c: draws as Gaussians and Student-t's */
    double *mix_mu, *mix_root;                /* the next mixture */
    double *control;                          /* closing.c: control variates */
    double *frame_turned;                     /* explore.c: [D][D] path_frame' */
    double *facet, *free_inverse;             /* halfspaces.c: walls of the cells; the mixture's inverse roots; */
    double *lattice;                          /* points for cells that few directions tell, in columns */
    double *mix_mass;                         /* [N] masses of the mixture in the cells */
    wv_known known;                           /* what of this scratch is valid */
    double *stein;                            /* moments.c */

    /* ---- workers: threads that share the work see the fit through views, which are the same but
     * for what follows ---- */
    wv_thread_pool *crew;
    size_t views;   /* workers beside the caller, */
    wvgd_fit *view; /* [views] */

    /* ---- scratch of one worker ---- */
    double *desk; /* the block behind what follows */
    size_t desk_size;
    double *block;    /* [WV_BLOCK][N + D + 2] densities or costs of a block (joint: [WV_BLOCK][3N + D + 3]) */
    double *narrow;   /* nearest.c: particles and points in single precision */
    double *gathered; /* weights.c: [2][WV_BLOCK][D] points of a block */
    double *gx, *gg;  /* [n][D] points and gradients of one cell */
    double *glp, *glu, *glv, *gu, *ga, *gr; /* [n] log p, log u, log v, normalised u, normalised tempered
                                             * weights, residuals of one cell */
    double *y, *gy, *uy;                    /* [n][D] whitened points, gradients, weighted points */
    double *square[11];                     /* [D][D] (D <= WV_DENSE), else unused */
    double *vector[10];                     /* [D] */
    double *T, *F, *Fc, *Fm;                /* residual regression: [WV_BLOCK][p], [p][p], [p], [p] */
    double *syev, *work;
    double *undo;        /* [D + root size] a component before its step */
    double *large;       /* low-rank components without D x D matrices */
    uint32_t *free_cell; /* [WV_FREE] */
    double *free_cost;   /* [2][WV_FREE] */
    double *free_y;      /* halfspaces.c: [WV_BLOCK][K][D] points in the coordinates of the mixture's components, */
    double *free_log;    /* [K] log densities of one of them, */
    double *wall;        /* [N][D + 1] and the walls of one cell; kmeans.c: sums over cells */
    double *psi;         /* [n_max or close_max] */
    double *moving;      /* [n] posterior weights of the points, for moves */
    double *columns;     /* draws.c: a block of points */
    double *mix_e;       /* [3 made_room] */
    double *cell_mean, *cell_root; /* cell_component.c: moments of the posterior in a cell, */
    double *correction;            /* and the quadratic that corrects the mixture there */
    bool correction_cross;

    size_t warnings;
    char warning_text[WV_WARNINGS][200];
    const char *warning[WV_WARNINGS];
    size_t reasons; /* of the verdict */
    char reason_text[WV_REASONS][240];
    const char *reason[WV_REASONS];
    bool reliable;
};

/* views */
wv_gaussian wv_fit_component(const wvgd_fit *f, size_t j);
bool wv_fit_same(const wvgd_fit *f, size_t i, size_t j); /* whether two cells have the same component */
wv_gaussian wv_fit_spread(const wvgd_fit *f, size_t j);  /* N(z_j, covariance of the cell) */
wv_gaussian wv_fit_around(const wvgd_fit *f, size_t j);  /* the same as a proposal: a Student-t with that root */

/* n draws of f->proposal[k], from number `first` on of stream `number`, into f->b at `at`. Draws of another batch
 * need another stream, or other numbers of it. */
void wv_fit_draw(wvgd_fit *f, uint64_t number, size_t k, wv_rng_use use, uint64_t first, size_t n, bool antithetic,
                 size_t at);

/* Tasks 0 .. count-1 in this order, shared among the workers, each with a view of the fit. A task writes to the
 * scratch of its worker and to what belongs to its index alone; of the scalars it may count restarts, lost and
 * limits. work: multiplications of all tasks together, about; with few of them nobody is woken. */
typedef void wv_fit_task(wvgd_fit *f, void *context, size_t index);
void wv_fit_share(wvgd_fit *f, size_t count, double work, wv_fit_task *task, void *context);

/* Draws that cost little beside the fit's own work, where an evaluation is known to be cheap; 0
 * where nothing is known. */
double wv_fit_cheap(const wvgd_fit *f);

/* Points in one of the pieces, WV_PIECES at most, into which n points are cut to be shared: it does
 * not depend on the number of workers. */
size_t wv_fit_piece(size_t n);
size_t wv_fit_pieces(size_t n);

#endif
