/* wvgd.h - Bayesian inference by Wasserstein variational gradient descent.
 *
 * A fit approximates the density p(z) of a model by N particles z_j. Each owns the cell of points nearest to it
 * under a cost, the mass beta_j of that cell, and a Gaussian q(z; theta_j) truncated to it. Together: a weighted
 * particle set, a continuous density (the ensemble), a lower bound on the log evidence (PELBO), an
 * importance-sampled log evidence, and draws.
 *
 *     wvgd_options o;  wvgd_options_init(&o);
 *     wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
 *     wvgd_run(fit, NULL, NULL, &error);
 *     wvgd_results r;  wvgd_get_results(fit, &r);
 *     wvgd_free(fit);
 *
 * Conventions: arrays are row-major; N particles, D dimensions; logs are natural. The library never prints, exits,
 * reads the environment, opens files or keeps global state (but for a count of its threads). A fit is used by one
 * thread at a time, and starts threads of its own only if the option `threads` says so; different fits are
 * independent. A thread that runs a fit needs 128 KB of stack, more if the model does. After fork, the child has a copy
 * of the fit, which continues in one thread.
 * Every call that can fail returns a wvgd_status and fills *error (which may be NULL) with a sentence for the user;
 * on success *error stays as it was. Warnings name options as the program does: --max-iter is the option max_iter.
 * A NULL pointer where one is required is WVGD_E_ARGUMENT; functions without a status then do nothing, and return NULL
 * or 0. The same seed gives the same bits if the BLAS does; set a threaded BLAS to one thread. */
#ifndef WVGD_H
#define WVGD_H

#include <stdint.h>
#include "wvgd_model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WVGD_VERSION "0.1.0"

/* The version of the library that was loaded; WVGD_VERSION is that of the header. */
const char *wvgd_version(void);

/* ---- did the call work? ------------------------------------------------------------------------------------------ */
typedef enum {
    WVGD_OK = 0,
    WVGD_E_ARGUMENT, /* an argument or option is out of range, or a call comes too early */
    WVGD_E_MEMORY,   /* not enough memory */
    WVGD_E_MODEL,    /* the model returned an error */
    WVGD_E_NO_DRAWS, /* no draw had a finite density, or no draw fell into a cell: nothing to estimate from */
    WVGD_E_STATE,    /* a saved state is damaged, or belongs to another fit */
    /* of wvgd_tools.h, which reads and writes files: */
    WVGD_E_DATA,       /* a file has the wrong content */
    WVGD_E_NO_INPUT,   /* a file does not exist or cannot be opened */
    WVGD_E_CREATE,     /* a file or directory cannot be created, or already exists */
    WVGD_E_IO,         /* reading or writing failed */
    WVGD_E_UNAVAILABLE /* a required program or file is missing */
} wvgd_status;

typedef struct {
    wvgd_status code;
    char text[2048];
} wvgd_error;

/* ---- options ----------------------------------------------------------------------------------------------------- */
typedef enum { WVGD_STAGED, WVGD_JOINT } wvgd_solver;
typedef enum { WVGD_DIAG, WVGD_FULL, WVGD_LOWRANK } wvgd_family;
typedef enum { WVGD_HARD, WVGD_SOFT } wvgd_cells;
typedef enum { WVGD_NATURAL, WVGD_SCORE, WVGD_REPARAM } wvgd_estimator;
typedef enum { WVGD_MIXTURE, WVGD_REJECT } wvgd_sampler;
typedef enum { WVGD_SQEUCLID, WVGD_MAHALANOBIS, WVGD_OWN, WVGD_L1, WVGD_LP, WVGD_CALLBACK } wvgd_cost;
typedef enum { WVGD_BEND_AUTO, WVGD_BEND_NEVER } wvgd_bend;
typedef enum { WVGD_FINISH_AUTO, WVGD_FINISH_NEVER, WVGD_FINISH_ALWAYS } wvgd_finish;
typedef enum { WVGD_INIT_EXPLORE, WVGD_INIT_PRIOR, WVGD_INIT_NORMAL } wvgd_init;

/* c(a, b); fills grad_a[dim] with its gradient in a unless grad_a is NULL. */
typedef double wvgd_cost_function(void *self, size_t dim, const double *a, const double *b, double *grad_a);

/* The same for n points b[n][dim] at once: fills cost[n], unless it is NULL, with c(a, b_k), and grad_a[dim], unless
 * that is NULL, with the sum over k of weight[k] times the gradient in a of c(a, b_k). */
typedef void wvgd_cost_batch(void *self, size_t dim, const double *a, size_t n, const double *b, double *cost,
                             const double *weight, double *grad_a);

/* Fill with wvgd_options_init, then change fields, or set them by name. Ranges and one line of
 * help each: wvgd_options_describe. */
typedef struct wvgd_options {
    size_t size; /* sizeof(wvgd_options); set by wvgd_options_init */
    wvgd_solver solver;
    size_t particles;      /* N */
    size_t most_particles; /* staged: N may grow to this, if components of fewer cells are not good enough for the
                            * verdict; less than particles: it may not */
    size_t components;     /* staged: maximum number of mixture components */
    wvgd_family family;    /* shape of the components */
    size_t rank;           /* low-rank family: number of directions beside the diagonal */
    wvgd_cells cells; /* what a component is fitted to: its cell, or its responsibilities; results have hard cells */
    wvgd_cost cost;   /* distance used to assign points to cells */
    double power;     /* lp cost: sum |a_i - b_i|^power */
    wvgd_estimator estimator; /* of the component update */
    wvgd_sampler sampler;     /* how the points of an iteration are drawn */
    size_t draws;             /* joint: points per component per iteration; 0: chosen from D and the estimator */
    wvgd_init init;           /* where particles or ascents start when wvgd_new is given none */
    wvgd_bend bend;           /* staged: bent coordinates if one Gaussian fits badly, or never */
    wvgd_finish finish;       /* staged: whether chains complete the fit */
    size_t starts;            /* ascents; 0: until they find no new modes */
    double init_scale;        /* rough scale of the parameters */
    size_t max_iter;
    size_t max_evaluations; /* maximum number of points at which the model is evaluated, final draws included, which are
                             * a few at least; 0: 200000 with the staged solver (more if evidence_se is below 0.02,
                             * and 2D + 1 times as many without gradients), no limit with the joint solver */
    double max_seconds;     /* of wvgd_step and wvgd_run; 0: no limit. With ask and tell, which do not see the
                             * time that the model takes, the caller decides: wvgd_stop_now */
    double tol;             /* joint: nats of PELBO that noise and drift may still cost at convergence */
    double evidence_se;     /* target for the standard error of the log evidence */
    uint64_t seed;
    size_t min_batch; /* minimum number of points in a batch, where possible: more ascents at once, more draws; 0: no
                       * minimum. Results depend on it. wvgd_results.widened has the points that it added */
    size_t threads;   /* threads of the fit itself; wvgd_model_threads shares the evaluations. Results do not
                       * depend on it */
    /* not settable by name */
    const double *metric;              /* mahalanobis: [D][D] symmetric positive definite, c = (a-b)' metric (a-b);
                                        * NULL: follows the posterior */
    wvgd_cost_function *cost_function; /* callback cost; called by the thread that runs the fit only,
                                        * which then starts no others */
    void *cost_self;
    wvgd_cost_batch *cost_batch; /* the same cost for many points at once, or NULL; if given, called instead of
                                  * cost_function, which may then be NULL */
} wvgd_options;

void wvgd_options_init(wvgd_options *options);

/* Sets an option from text: wvgd_options_set(&o, "family", "full", &error). Names have '-' or '_' between words. */
wvgd_status wvgd_options_set(wvgd_options *options, const char *name, const char *value, wvgd_error *error);

/* Writes the value of an option as text, from which wvgd_options_set gets exactly the same value. */
wvgd_status wvgd_options_get(const wvgd_options *options, const char *name, char *text, size_t size, wvgd_error *error);

/* Row i of the option table, or NULL past its end. */
typedef struct {
    const char *name;    /* long name, with '-' */
    const char *values;  /* "diag|full|lowrank", or the range of a number */
    const char *initial; /* default, as text */
    const char *help;    /* one line */
    const char *needs;   /* "family lowrank": it has an effect only with this value of another option; NULL: always */
} wvgd_option_info;
const wvgd_option_info *wvgd_options_describe(size_t i);

/* ---- a fit ------------------------------------------------------------------------------------------------------- */
typedef struct wvgd_fit wvgd_fit;

/* A new fit of *model. z0: [N][D] starting particles, copied, or NULL to start as options->init says. The model is
 * copied; what it points to must outlive the fit. Returns NULL and fills *error on failure. Iterations allocate nothing
 * more. */
wvgd_fit *wvgd_new(const wvgd_model *model, const wvgd_options *options, const double *z0, wvgd_error *error);
void wvgd_free(wvgd_fit *fit); /* accepts NULL */

/* Why a run has ended, or WVGD_RUNNING. */
typedef enum {
    WVGD_RUNNING,
    WVGD_CONVERGED,
    WVGD_MAX_ITER,
    WVGD_TIME_UP,
    WVGD_STOPPED,
    WVGD_MAX_EVALUATIONS,
    WVGD_FINISHED /* converged, by chains that completed the fit */
} wvgd_stop;
const char *wvgd_stop_name(wvgd_stop stop); /* "running", "converged", "max_iter", "time_up", "stopped",
                                             * "max_evaluations", "finished", "unknown" */

/* One batch in two halves. wvgd_ask gives n points z[n][D], valid until wvgd_tell; if *gradient is set, tell
 * needs their gradients (otherwise its grad may be NULL). Asking again without telling gives the same
 * points. When the fit has ended, n is 0.
 * A caller without gradients says so in the model: has_gradient is false. Gradients are then never asked for. Where
 * the staged solver needs them, in up to WVGD_DIFFERENCES dimensions, the points are those of the batch, 2D around each
 * of them, and a few that measure how smooth the density is; the fit makes gradients of the log densities told. All are
 * evaluations. Trials, final draws and the bound need no gradients, and are asked for as they are. */
enum { WVGD_DIFFERENCES = 64 };
wvgd_status wvgd_ask(wvgd_fit *fit, size_t *n, const double **z, bool *gradient, wvgd_error *error);
wvgd_status wvgd_tell(wvgd_fit *fit, const double *log_p, const double *grad, wvgd_error *error);

/* ask, evaluate with the model, tell. Does nothing when the fit has ended. */
wvgd_status wvgd_step(wvgd_fit *fit, wvgd_error *error);

/* What a run is doing, for a progress bar. */
typedef struct {
    const char *stage; /* "explore", "fit", "trial", "probe", "bend", "close", "certify", "finish", "refine", "bound",
                        * "done"; joint: also "pilot", "settle", "average" */
    size_t iteration, max_iter, evaluations;
    double seconds;
    double pelbo, pelbo_se, ess; /* of the last batch; NAN before the first */
    wvgd_stop stop;              /* WVGD_RUNNING, or what has ended the iterations: the rest closes the fit */
} wvgd_progress;

/* Called after every batch; a nonzero value stops the run, which then ends with the best state so far. */
typedef int wvgd_progress_callback(void *self, const wvgd_progress *progress);

/* Steps until the fit has ended. callback may be NULL. A fit that has ended does not go on, nor does one restored from
 * what wvgd_save wrote after the end: make a new one with higher limits, or restore a state from before the end. */
wvgd_status wvgd_run(wvgd_fit *fit, wvgd_progress_callback *callback, void *self, wvgd_error *error);

/* Stops the iterations, as a progress callback can: the next ask, tell or step notices it. A step also notices it
 * between calls of the model, and gives up the batch. Call step, run, or ask and tell afterwards for the closing pass.
 * Unlike all other functions, this one may be called from a signal handler, and from another thread while the fit
 * exists. wvgd_save does not save a stop that nothing has noticed yet. */
void wvgd_stop_now(wvgd_fit *fit);

void wvgd_get_progress(const wvgd_fit *fit, wvgd_progress *progress);

/* ---- results ----------------------------------------------------------------------------------------------------- */
typedef struct {
    double value, se;
} wvgd_estimate;

/* Views into the fit, valid until the next tell, step, run or free. During the iterations they describe the
 * last batch, with NAN for what only the closing pass estimates. Afterwards all of them describe one partition,
 * estimated from fresh draws. */
typedef struct wvgd_results {
    size_t N, D, rank;
    wvgd_solver solver; /* the one used: joint if the staged one does not support the options */
    wvgd_stop stop;
    size_t iterations, evaluations;
    size_t widened;       /* of these, points that were added because of min_batch */
    size_t bad_points;    /* points with a NaN or +INF density, or with a NaN gradient: weight zero */
    size_t zero_points;   /* points with density zero (-INFINITY) */
    double seconds;       /* spent in step and run */
    double model_seconds; /* of these, inside log_density */

    const double *z;        /* [N][D] particles */
    const double *beta;     /* [N] posterior mass of each cell */
    const double *beta_se;  /* [N] */
    const double *weight;   /* [N] optimal ensemble weights, softmax of elbo on an independent batch */
    const double *log_Z;    /* [N] log of the mass that the untruncated component has in its cell */
    const double *elbo;     /* [N] ELBO_j <= log(beta_j p(x)); -INFINITY: unavailable, and the cell has no weight */
    const double *elbo_se;  /* [N] */
    const double *cell_ess; /* [N] effective number of final draws in the cell */
    const double *cell_pareto_k; /* [N] NAN: too few draws */
    const double *mu;            /* [N][D] location of the component */
    const double *sd;            /* [N][D] its marginal standard deviations (before truncation) */
    const double *chol;          /* [N][D][D] lower Cholesky factor of its covariance; NULL unless the family is full */
    const double *limit;    /* [N] 1: the component is so much wider than its cell that its variance could as well be
                             * infinite, and mu and sd describe an exponential or constant density there; 0: no */
    const double *cell_cov; /* [N][D][D] covariance of the posterior in the cell (full family), else [N][D] variances */

    wvgd_estimate pelbo;      /* lower bound with the optimal weights */
    wvgd_estimate pelbo_beta; /* lower bound with weight beta, as in the paper */
    wvgd_estimate evidence;   /* importance-sampled log evidence */
    wvgd_estimate distortion; /* D = E min_j c(z_j, z) */
    double ess;               /* effective final draws, */
    size_t closing_draws;     /* out of so many */
    double pareto_k;          /* of their weights; NAN: too few, too even to have a tail that matters, or with states */
    double pareto_k_limit;    /* reliable below this: min(1 - 1/log10 n, 0.7) */
    double meanfield_gap;     /* diag: nats that a diagonal Gaussian must lose, predicted; NAN: unknown */

    size_t starts, modes, hit_once; /* exploration: ascents begun, modes with noticeable mass they ended in, those of
                                     * them found only once; 0 without */
    const double *mode;             /* [modes][D] about where each of them has its mean */
    double expected_unseen;         /* expected number of missed modes, if all modes attract ascents about equally; NAN:
                                     * unknown */

    size_t components; /* staged: number of Gaussians in the mixture that the draws come from; 0 with the joint
                        * solver */
    const double *component_weight; /* [components] */
    const double *component_mu;     /* [components][D] bent: see bent_components */
    const double *component_chol;   /* [components][D][D] lower Cholesky factors */

    const double *mean; /* [D] posterior mean, */
    const double *var;  /* [D] variance, */
    const double *mcse; /* [D] and standard error of the mean, from the final draws with their weights */

    bool reliable;             /* the verdict, once the fit has ended: no problems detected, except for sds (and
                                * means) that tail_k marks */
    size_t reasons;            /* number of texts below */
    const char *const *reason; /* [reasons] if reliable, what was checked; otherwise the problems, each with a remedy */
    size_t warnings;           /* other things a user should know, each with a remedy */
    const char *const *warning; /* [warnings] */

    /* What each component could still gain within its family, and what it loses in total. A loss where there is nothing
     * to gain is the price of the family, not a bad fit. */
    const double *gain;    /* [N] nats of ELBO_j that another step of component j within its family would win, half of
                            * the variance of log p~ - log q_j that (t, t t') explains under q_j, and no more than the
                            * loss. NAN: too few draws to estimate it, or the joint solver, which does not
                            * estimate gains */
    const double *gain_se; /* [N] */
    const double *loss;    /* [N] log(beta_j p(x)) - ELBO_j = KL(q_j || p_j), p(x) by importance sampling; INFINITY
                            * where there is no ELBO_j, NAN before the fit has ended */
    const double *loss_se; /* [N] */

    /* Of the sds: */
    const double *sd_se;  /* [D] standard errors of the sds, */
    const double *tail_k; /* [D] and tail indices of (value - mean)^2, on which sds rest: the largest of Pareto k-hats
                           * of weight (value - mean)^2 among the draws, and of the square in the posterior, each less
                           * its standard error, and of what slopes in the tails tell. NAN: too few draws to tell */
    double tail_k_limit;  /* above it the sd, and perhaps the mean, is unreliable or does not exist: use the
                           * median and other quantiles */

    /* Staged: short Hamiltonian walks from the final draws, in search of mass that the draws missed. */
    size_t walks;             /* number of walks; 0: the fit was stopped, or the weights are equal */
    size_t walks_outside;     /* those that reached points where log p~ - log proposal - log evidence exceeds log 32,
                               * or the log of a 64th of the draws; if they are often there, the fit is wrong, and the
                               * verdict is unreliable */
    size_t walks_evaluations; /* of all walks of the fit; part of `evaluations` */

    /* Staged, with bent coordinates. z, beta, cells, draws and moments are in the user's coordinates, as always. */
    bool bent;               /* mu, sd and chol belong to Gaussians in bent coordinates: a component is such a Gaussian,
                              * mapped to the user's coordinates and truncated to its cell there */
    bool bent_components;    /* the same of component_mu and component_chol, which are not truncated */
    size_t bend_arguments;   /* of the map that was used; 0: none was used */
    size_t bend_maps;        /* maps that were fitted, including those that were not used */
    size_t bend_evaluations; /* for all maps; part of `evaluations` */

    /* Staged: Hamiltonian chains that complete the fit if importance sampling fails (option `finish`). Their states are
     * then among the draws. */
    const char *finish; /* "none"; "too_expensive": max_evaluations does not allow it; "settled", "unsettled" */
    size_t finish_chains, finish_trajectories, finish_states; /* chains; trajectories of each; states among the draws */
    size_t finish_rungs; /* of the ladder that gives the evidence; 0: it comes from a bridge between draws and states */
    size_t finish_evaluations;              /* part of `evaluations` */
    double finish_acceptance, finish_jumps; /* shares of trajectories, and of jumps to draws, that were accepted */
    double finish_mean_se, finish_sd_se;    /* largest between-chain errors: of a mean, in sds; of a log sd */
    double finish_rhat, finish_drift;       /* largest split R-hat; largest change between halves, in standard errors */
    double finish_tau;                      /* autocorrelation time of chains, in trajectories */
    double finish_missing;                  /* mass where the density is more than 32 times what the proposal says */
} wvgd_results;

void wvgd_get_results(const wvgd_fit *fit, wvgd_results *results);

/* The map x = f(u) from bent coordinates u to the user's x (docs/internals/bend.md). It has five pieces, in this order:
 *   lines, v_i = line_i(u_i);
 *   rows of the arguments, each given the arguments before it;
 *   an affine layer of the other D - arguments coordinates, given the arguments;
 *   layers of rows of these, given the arguments, each layer in a basis of its own;
 *   x = centre + basis w.
 * Arrays belong to the fit and change with it. */
typedef struct {
    size_t D, arguments, layers; /* the first `arguments` coordinates are these */
    const double *centre;        /* [D] */
    const double *basis;         /* [D][D] its columns belong to w */
    double clip, log_scale;      /* rows see arguments t between -clip and clip; their s is between -+log_scale */
} wvgd_bend_map;

/* v = m(t) + exp(s(t)) y for parents t: p_k = exp(precision[k].(1, t)), mu_k = location[k].(1, t, t^2 - 1), exp(-2 s) =
 * p_1 + p_2, m = (p_1 mu_1 + p_2 mu_2) / (p_1 + p_2). */
typedef struct {
    size_t parents;
    const size_t *parent;       /* [parents] numbers of arguments, from 0 */
    const double *precision[2]; /* [1 + parents] each */
    const double *location[2];  /* [1 + 2 parents] each */
} wvgd_bend_row;

/* y = o(t) + C(t) v for the n = D - arguments others, C lower triangular: offsets, numbers of C below the diagonal and
 * logs of those on it are sums over features (1, s_1, s_1^2 - 1, s_2, ..) of parents t, s = t / sqrt(1 + t^2/reach^2).
 */
typedef struct {
    size_t parents;
    const size_t *parent; /* [parents] numbers of arguments, from 0 */
    double reach;
    const double *slice; /* [1 + 2 parents][n][n + 1] of each feature; the last column has offsets. NULL: y = v */
} wvgd_bend_affine;

/* A cubic spline with even knots from low to high, straight beyond them. */
typedef struct {
    size_t knots; /* 0: v = u */
    double low, high;
    const double *value, *second; /* [knots] v, and its second derivatives */
} wvgd_bend_line;

/* False, and all is 0: the fit does not have that. Rows of the arguments have layer 0 and 0 <= i < arguments; those of
 * layer 1 .. layers have 0 <= i < D - arguments, and the layer has the basis wvgd_bend_turn(fit, layer) [D - arguments]
 * [D - arguments]: orthonormal, its columns belong to the rows; NULL: none, as in the last one. */
bool wvgd_get_bend(const wvgd_fit *fit, wvgd_bend_map *map);
bool wvgd_get_bend_line(const wvgd_fit *fit, size_t i, wvgd_bend_line *line);
bool wvgd_get_bend_affine(const wvgd_fit *fit, wvgd_bend_affine *affine);
bool wvgd_get_bend_row(const wvgd_fit *fit, size_t layer, size_t i, wvgd_bend_row *row);
const double *wvgd_bend_turn(const wvgd_fit *fit, size_t layer);

/* Covariance [D][D] of component j (before truncation), whatever the family. */
wvgd_status wvgd_component_cov(const wvgd_fit *fit, size_t j, double *cov, wvgd_error *error);

/* One row per iteration. */
typedef struct {
    size_t iteration, evaluations;
    /* step: nats of KL between this and the next proposal, if taken in full */
    double seconds, pelbo, pelbo_se, distortion, ess, step;
} wvgd_trace_row;
const wvgd_trace_row *wvgd_trace(const wvgd_fit *fit, size_t *rows);
const double *wvgd_trace_beta(const wvgd_fit *fit); /* [rows][N] */

/* ---- the fit as a distribution (after it has ended) -------------------------------------------------------------- */
/* Cell of each of n points. */
wvgd_status wvgd_cell(const wvgd_fit *fit, size_t n, const double *z, size_t *cell, wvgd_error *error);

/* The mode (one of results.modes) that each of n points belongs to: the one whose components have the highest density
 * there. To estimate the mass of a mode, pass values to wvgd_expect that are 1 at its draws and 0 elsewhere. All 0
 * if there was no search for modes. */
wvgd_status wvgd_mode(const wvgd_fit *fit, size_t n, const double *z, size_t *mode, wvgd_error *error);

/* Log density of the ensemble sum_j weight_j q_j at n points: exact but for the Monte Carlo error
 * of log_Z and weight. */
wvgd_status wvgd_log_q(const wvgd_fit *fit, size_t n, const double *z, double *log_q, wvgd_error *error);

/* n draws z[n][D] from the ensemble; cell[n] may be NULL. The same stream gives the same draws, however many
 * are asked for. If a component hardly reaches into its cell (log_Z below -7), a draw is one of 256 weighted points
 * around the particle; in one dimension draws are exact. Components do not know where the density ends: of a
 * model with hard limits most draws may lie beyond these. */
wvgd_status wvgd_sample(const wvgd_fit *fit, uint64_t stream, size_t n, double *z, size_t *cell, wvgd_error *error);

/* n draws from the posterior by resampling the final draws with their (Pareto-smoothed) importance
 * weights; index[n] (may be NULL) says which. */
wvgd_status wvgd_resample(const wvgd_fit *fit, uint64_t stream, size_t n, double *z, size_t *index, wvgd_error *error);

/* The final draws themselves: *n points z[n][D] with log density log_p[n], normalised log weights
 * log_w[n] and cells. Outputs may be NULL. */
wvgd_status wvgd_draws(const wvgd_fit *fit, size_t *n, const double **z, const double **log_p, const double **log_w,
                       const uint32_t **cell, wvgd_error *error);

/* Weights of the same draws for expectations: they sum to 1 and, with the staged solver, are
 * calibrated by Stein's identities, so that means and variances have less noise; some may be slightly
 * negative. NULL before the fit has ended. */
const double *wvgd_draw_weights(const wvgd_fit *fit);

/* Posterior means, variances and standard errors of the means of m functions of the parameters, from their values
 * value[n][m] at the final draws (wvgd_draws). With the staged solver, errors account for mirrored pairs of
 * draws and a fixed number of draws per proposal; the known mixture and Stein's identities reduce the variance of
 * means. Values at draws without weight are ignored. A function that is constant on all others has no error; one that
 * is not finite at some of them has NAN everywhere. */
wvgd_status wvgd_expect(const wvgd_fit *fit, size_t m, const double *value, double *mean, double *var, double *mcse,
                        wvgd_error *error);

/* All that is reported of m functions of the parameters, by their values as above: what wvgd_expect gives; standard
 * errors of the sds and tail indices (see wvgd_results); quantiles at level[levels], each more than 0 and less than 1,
 * and their standard errors. A function that rises or falls with one parameter has sharper quantiles: the distribution
 * of the parameter in the mixture is known, and only the difference is estimated. Arrays are the caller's. */
typedef struct wvgd_description {
    double *mean, *var, *mcse;      /* [m] */
    double *sd_se, *tail_k;         /* [m] */
    double *quantile, *quantile_se; /* [m][levels]; not used without levels */
} wvgd_description;
wvgd_status wvgd_describe(const wvgd_fit *fit, size_t m, const double *value, size_t levels, const double *level,
                          const wvgd_description *to, wvgd_error *error);

/* Another partition from the draws of a staged fit that has ended: options are those of the fit, with other
 * particles, cost, power, metric, family or rank. Nothing is fitted again; the new fit has only the batch for its
 * bound left to evaluate (step or run). max_seconds and max_evaluations limit what is done for the new cells, here and
 * in step or run. NULL and *error on failure. */
wvgd_fit *wvgd_quantize(const wvgd_fit *fit, const wvgd_options *options, wvgd_error *error);

/* ---- save and continue ------------------------------------------------------------------------------------------- */
/* Bytes that wvgd_save writes now. */
size_t wvgd_save_size(const wvgd_fit *fit);
/* The state after the last tell. A fit made by wvgd_new with the same model, options and starting points that
 * restores it continues bit for bit, except for times. Not portable between byte orders. */
wvgd_status wvgd_save(const wvgd_fit *fit, void *buffer, size_t size, wvgd_error *error);
wvgd_status wvgd_restore(wvgd_fit *fit, const void *buffer, size_t size, wvgd_error *error);

#ifdef __cplusplus
}
#endif
#endif
