/* mixture.h - what the parts of the mixture experiment share: its runs, and figures of them. */
#ifndef WV_MIXTURE_H
#define WV_MIXTURE_H
#include "mixture_targets.h"
#include "reproduce.h"
#include "wvgd.h"

/* Ways to approximate a target. */
typedef enum { WITH_WVGD, WITH_SVGD, WITH_JOINT, WITH_REPARAM, WITH_PAPER, METHODS } mixture_method;

typedef struct {
    size_t target, N, start;
    mixture_method method;
    double ise, pelbo, seconds;
    size_t evaluations;
    double drift; /* SVGD: relative change of ise in the second half of the steps; else 0 */
    bool converged;
} mixture_run;

typedef struct {
    const reproduction *r;
    target_list list;
    size_t count[METHODS];     /* runs of each method */
    mixture_run *run[METHODS]; /* [count] target by target, N by N, start by start */
} mixture_runs;

/* Options of a fit by that method with N particles. */
void mixture_options(mixture_method method, size_t N, uint64_t seed, wvgd_options *options);

/* Mean error over the runs of a method on one target; NAN: there is none. */
double mixture_error(const mixture_runs *all, mixture_method method, size_t target, size_t N);

/* Figure A: the distribution of errors for each N; figure B: particles, cells and transport densities while
 * the joint solver runs on the first target. */
int draw_errors(const mixture_runs *all, failure *f);
int draw_training(const mixture_runs *all, failure *f);
#endif
