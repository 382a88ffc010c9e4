/* decisions.h - what the staged solver does next, and how many draws it makes, as pure functions of a few numbers.
 * Their constants are rows of policy.def. */
#ifndef WV_DECISIONS_H
#define WV_DECISIONS_H
#include <stdbool.h>
#include <stddef.h>

/* The problem, as prices see it. */
typedef struct {
    size_t K, D;        /* components of the mixture, dimensions */
    double work;        /* operations of one evaluation; 0: unknown, and evaluations are what has to be saved */
    size_t draw_budget; /* closing draws at most, all trials included */
} wv_prices;

/* Draws that cost little beside the fit's own work; 0 where nothing is known. Draws of a trial. */
size_t wv_decide_trial_draws(size_t K, double cheap);

/* Evaluations that a round of growth costs, more or less: a trial, and some iterations with more components; and what
 * more draws may cost before growth is the better choice, after so many rounds of it. */
double wv_decide_round_price(wv_prices p);
double wv_decide_growth_price(wv_prices p, size_t rounds);

/* Whether the draws that are still wanted cost so much that a round of growth is little beside them. */
bool wv_decide_draws_expensive(wv_prices p, double wanted);

/* The standard error that draws aim at, and evaluations that bring it there, if draws go on like these n of standard
 * error se. */
double wv_decide_wanted_se(double evidence_se);
double wv_decide_draws_needed(double se, size_t n, double evidence_se);

/* Standard error allowed for tails that a mixture which had to grow has not reached. */
double wv_decide_tail_error(size_t rounds);

/* log p~/(m Z) below which all but a few of n draws would stay if their weights were lognormal, with this effective
 * size. */
double wv_decide_lognormal_quantile(size_t n, double ess);

/* Whether a trial of n draws and this effective size is of use beside a final batch of which this share is
 * effective. */
bool wv_decide_trial_useful(double trial_ess, size_t n, double share);

/* Final draws at least: for N cells in D dimensions, given cheap ones, less those of the trial if it is of use. */
double wv_decide_least_final(size_t N, size_t D, double cheap, size_t trial, bool useful);

/* Size of the first final batch. */
size_t wv_decide_final_draws(double wanted, double least, size_t chunk);

/* How far growth has come. */
typedef struct {
    bool running;         /* nobody has asked to stop */
    size_t rounds, fails; /* of growth; of these without success, running */
    size_t K, room;       /* components, and at most */
    size_t spent, budget; /* closing draws so far, all trials included, and at most */
    double elbo, last;    /* ELBO now, and before the last growth */
} wv_growth_facts;

/* Nothing more can be tried. */
bool wv_decide_exhausted(const wv_growth_facts *g);
/* Growth has gone on for long and no longer helps. */
bool wv_decide_growth_stalled(const wv_growth_facts *g);
/* Components are split again, not only added where draws show that density is missing. */
bool wv_decide_split(const wv_growth_facts *g);
/* The last growth has helped: by the ELBO, or by the share of effective draws. */
bool wv_decide_growth_helped(const wv_growth_facts *g, double share, double last_share, bool undone);

/* What a trial has shown. */
typedef struct {
    bool finite;               /* some draw has density */
    double cost;               /* draws that the evidence will need */
    double weight_quantile;    /* log p~/(m Z) that all but a few of the posterior's draws stay below, */
    double lognormal_quantile; /* and what it would be for lognormal weights */
    double round_price, growth_price;
    size_t probes;     /* tail probes so far, */
    double probe_elbo; /* the ELBO at the last, */
    size_t probe_K;    /* and components */
} wv_trial_facts;

typedef enum { WV_DECIDE_GROW, WV_DECIDE_PROBE, WV_DECIDE_CLOSE } wv_trial_decision;
wv_trial_decision wv_decide_after_trial(const wv_growth_facts *g, const wv_trial_facts *t);

/* Evaluations that a map to bent coordinates costs, with its trial. */
double wv_decide_bend_price(wv_prices p);
/* Draws of a trial on which so dear a map may be decided. */
size_t wv_decide_sure_draws(double price, size_t most);
/* Draws that the evidence wants where log p~ - log q has this sd, and weights are lognormal. */
double wv_decide_lognormal_wanted(double sd, double evidence_se);
/* Whether so many maps that have been left allow for another, with that many modes. */
bool wv_decide_more_maps(size_t tries, size_t modes);
/* Whether one is looked for: by the draws that the evidence wants, that price, maps that have been left, and the share
 * of the trial's draws that have no density. Not sure: whether it might be, if more draws said so. */
bool wv_decide_look_for_bend(double wanted, double price, size_t tries, double walled, bool sure);
/* Whether a bend stays, by the draws that the evidence wants with it, and without it from that many modes. */
/* fall: of log p~ far out in the coordinates that are no arguments, over that of a standard normal. */
bool wv_decide_tails_unbent(double fall);
bool wv_decide_bend(double bent, double straight, size_t modes);
/* Whether a bend is given up whose mixture would have more components than so many. */
bool wv_decide_give_up_bend(size_t K);

/* A point that a walk has found, where log p~/(m Z) is log_w, with this share of the posterior where the density is
 * less: is the mass that may be missing there worth a component? */
bool wv_decide_point_matters(double log_w, double below);
/* The highest log p~/(m Z) among points that matter is one that the proposal does not cover. */
bool wv_decide_tails_uncovered(double most, double weight_quantile);

/* Does a mode change an sd that adds this share to a variance? */
bool wv_decide_moves_sd(double share);

/* A mode that exploration found, of this ELBO, has enough of the evidence to be missed. */
bool wv_decide_mode_matters(bool relevant, double elbo, double log_z);
/* A mode whose top stands so far above what the proposal has there (log p~/(m Z)) joins the mixture again, and with
 * which weight. */
bool wv_decide_put_back(double above, size_t recovered, size_t K, size_t room);
bool wv_decide_covered(double above); /* it stands no higher than that */
double wv_decide_put_back_weight(double elbo, double log_z);

/* What a piece of the final batch has shown. */
typedef struct {
    bool first; /* it is the first piece */
    bool finite;
    double left;    /* draws that are still wanted */
    bool expensive; /* these cost much beside a round of growth */
    bool tails;     /* k-hat says that tails are not covered */
    double growth_price;
    size_t returns; /* times that a final batch has sent the fit back */
    double se, wanted_se;
    double n, least; /* final draws, and at least */
    bool room;       /* for another piece */
} wv_final_facts;

/* Back to growth, if that finds room for a component. */
bool wv_decide_return(const wv_growth_facts *g, const wv_final_facts *c);

/* Draws of another piece; 0: enough. */
size_t wv_decide_extension(const wv_growth_facts *g, const wv_final_facts *c, size_t chunk);

/* Draws of another piece for the sds, of which the least certain has this standard error, as a share of it, from n
 * draws; 0: enough. sharpened: pieces drawn for that before. */
size_t wv_decide_sd_draws(double se, size_t n, size_t sharpened, size_t chunk);
/* Whether a parameter with that tail index counts: where its tails are heavy, draws do not help its sd. */
bool wv_decide_sd_counts(double tail_k);

/* Whether growth that has left the ELBO here is undone. */
bool wv_decide_undo(double elbo, double tried_elbo);

/* Cells after so many whose components were not good enough, this often: each of the modes gets as many more. 0: no
 * more of them. */
size_t wv_decide_more_cells(size_t N, size_t modes, size_t times);

/* Draws to be added to n where components of cells could gain; times, more_cells: that this was done, and that there
 * have been more cells. 0: none, it is their turn. */
size_t wv_decide_redraw(size_t n, size_t times, size_t more_cells, size_t chunk);

/* The mixture is the posterior to rounding, where log p~ - log mixture varies by this: no chains are needed. */
bool wv_decide_exact(double uneven);
/* log p~/(m Z) beyond which a state lies outside of n draws of m. Of the mass that one of the chains stands for, beyond
 * n/chains, there is less than one draw. */
double wv_decide_outside(size_t n, size_t chains);
/* Whether chains go on after so many trajectories, so many states outside, and where they have come this near to it,
 * in nats; whether these states show that the fit is wrong; and whether the mixture grows where they were, after so
 * many failures. */
bool wv_decide_walk_on(size_t trajectories, size_t states, double below);
bool wv_decide_refuted(size_t states);
bool wv_decide_grow_outside(size_t failures);

/* Has the evidence the standard error that was asked for, or one that is small enough? */
bool wv_decide_converged(double se, double evidence_se);
#endif
