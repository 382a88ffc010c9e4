/* schedule.c - which stage comes next, and when a run has converged.
 *
 * search: constant steps until the bound has stopped rising, judged against its own noise, and the particles drift no
 * more than noise would move them; a bound that falls beyond noise sends the fit back to its best state with half the
 * step. settle: the particles go on with a sharper estimate of where they are pulled to, then their steps fall, theirs
 * alone. average: the particles, and so the cells, stay; the components' steps fall like 1/k, which averages the
 * regressions of all iterations from then on.
 * Converged: what noise still costs (the nats of a full step over k) is below the tolerance, the bound has not risen
 * meanwhile, and components of weight have hardly ever been without points. */
#include "joint/schedule.h"
#include "joint/joint_closing.h"
#include "joint/joint.h"
#include "kmeans.h"
#include "trace.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

enum {
    DRIFT = 16,  /* iterations over which drift is judged */
    SETTLE = 140 /* iterations in which particles settle */
};

static void mark(wvgd_fit *f)
{
    memcpy(f->z_mark, f->now.z, f->N * f->D * sizeof(double));
    f->s.marked = f->s.trace_rows;
    f->s.walked = 0;
}

void wv_schedule_begin_phase(wvgd_fit *f)
{
    f->s.phase_start = f->s.trace_rows;
    f->s.lost = 0;
    mark(f);
}

/* The best state so far is kept, and can be gone back to: of the pilot while it runs, of the ensemble afterwards. */
static void keep_best(wvgd_fit *f)
{
    if (f->s.stage == WV_PILOT)
        memcpy(f->pilot_best, f->pilot_mu, (f->D + f->D * f->D) * sizeof(double));
    else
        memcpy(f->best.z, f->now.z, f->ensemble_size * sizeof(double));
    f->s.best = f->s.pelbo;
    f->s.best_se = f->s.pelbo_se;
}

static void go_back(wvgd_fit *f)
{
    if (f->s.stage == WV_PILOT)
        memcpy(f->pilot_mu, f->pilot_best, (f->D + f->D * f->D) * sizeof(double));
    else
        memcpy(f->now.z, f->best.z, f->ensemble_size * sizeof(double));
}

static size_t window(const wvgd_fit *f)
{
    return f->N == 1 ? 6 : 12;
}

bool wv_schedule_level(const wvgd_fit *f, size_t w)
{
    if (f->s.trace_rows < f->s.phase_start + 2 * w)
        return false;
    wvgd_estimate late = wv_trace_pelbo(f, f->s.trace_rows - w, w),
                  early = wv_trace_pelbo(f, f->s.trace_rows - 2 * w, w);
    double noise = sqrt(late.se * late.se + early.se * early.se);
    return late.value - early.value < fmax(f->opt.tol, 2 * noise);
}

bool wv_schedule_still(const wvgd_fit *f)
{
    return f->s.trace_rows >= f->s.phase_start + 2 && wv_trace_step(f, f->s.trace_rows - 2, 2) < 1e-3 * f->opt.tol;
}

bool wv_schedule_fell(wvgd_fit *f)
{
    double noise = 4 * sqrt(f->s.pelbo_se * f->s.pelbo_se + f->s.best_se * f->s.best_se);
    if (f->s.stage == WV_AVERAGE)
        return false; /* steps fall anyway, and the luckiest of many batches is no measure */
    if (f->s.pelbo > f->s.best || f->s.best == -INFINITY)
        keep_best(f);
    else if (f->s.pelbo < f->s.best - fmax(2, noise) && f->s.rho > 0.02) {
        go_back(f);
        f->s.rho /= 2;
        f->s.best = -INFINITY; /* judged anew, so that one lucky batch does not hold the fit back */
        return true;
    }
    return false;
}

void wv_schedule_end(wvgd_fit *f, wvgd_stop stop)
{
    size_t w = window(f);
    f->s.stop = stop;
    if (f->s.stage != WV_AVERAGE)
        f->s.averaged = 0; /* the cells were not at rest */
    if (f->s.stage == WV_SEARCH && stop != WVGD_CONVERGED && f->s.best > -INFINITY)
        go_back(f);
    else if (f->s.stage != WV_SEARCH && f->s.trace_rows >= f->s.phase_start + w) {
        wvgd_estimate late = wv_trace_pelbo(f, f->s.trace_rows - w, w);
        if (late.value < f->s.best - 6 * sqrt(late.se * late.se + f->s.best_se * f->s.best_se) - 0.1)
            go_back(f);
    }
    wv_joint_closing_begin(f);
}

/* Over the last DRIFT iterations, did the particles go further together than independent steps of that size would?
 * For noise around a fixed point the ratio below is about 2, for steady motion about DRIFT^2. */
static bool drifting(wvgd_fit *f)
{
    size_t D = f->D;
    double net = 0;
    if (f->N == 1)
        return false;
    if (f->s.trace_rows < f->s.marked + DRIFT)
        return true;
    for (size_t j = 0; j < f->N; j++) {
        wv_gaussian spread = wv_fit_spread(f, j);
        for (size_t i = 0; i < D; i++)
            f->vector[0][i] = f->now.z[j * D + i] - f->z_mark[j * D + i];
        spread.family->whiten(D, 0, spread.root, 1, f->vector[0], NULL);
        net += f->beta[j] * cblas_ddot((int)D, f->vector[0], 1, f->vector[0], 1);
    }
    bool drifts = net * DRIFT > 6 * f->s.walked;
    mark(f);
    return drifts;
}

/* In many dimensions particles turn without end if the posterior is about equally wide in several directions, and if
 * they are many, they drift without end in more than four. There it is enough that the distortion has stopped
 * falling: by less than a thousandth, or than noise. */
static bool turning(const wvgd_fit *f)
{
    enum { WINDOW = 2 * DRIFT, PLANE = 4, FEW = 8 };
    /* few particles may have far to go, and need not settle for less */
    size_t least = f->dense && f->N <= FEW ? 8 * WINDOW : 2 * WINDOW;
    double mean[2] = {0, 0}, squares = 0;
    if (f->D <= PLANE || f->s.trace_rows < f->s.phase_start + least)
        return false;
    const wvgd_trace_row *row = f->trace + f->s.trace_rows - 2 * WINDOW;
    for (size_t i = 0; i < 2 * WINDOW; i++)
        mean[i / WINDOW] += row[i].distortion / WINDOW;
    for (size_t i = 0; i < 2 * WINDOW; i++)
        squares += pow(row[i].distortion - mean[i / WINDOW], 2) / (WINDOW * (WINDOW - 1));
    return mean[0] - mean[1] < fmax(1e-3 * mean[1], 2 * sqrt(squares));
}

static void enter(wvgd_fit *f, wv_stage stage)
{
    f->s.stage = stage;
    f->s.averaged = 0;
    wv_schedule_begin_phase(f);
}

double wv_schedule_lambda(const wvgd_fit *f, double rho)
{
    double falling = (double)f->s.averaged - SETTLE / 2;
    if (f->s.stage == WV_SETTLE && falling > 0)
        return 1 / (1.4 + 0.3 * falling);
    if (f->s.stage == WV_AVERAGE)
        return f->N == 1 ? rho : 0; /* one particle bounds no cell */
    return 0.7;
}

/* Nats that noise may still cost. In many dimensions a nat is less: the tolerance holds for every WV_DENSE of them. */
static double tolerance(const wvgd_fit *f)
{
    return f->opt.tol * fmax(1, (double)f->D / WV_DENSE);
}

void wv_schedule_next(wvgd_fit *f)
{
    size_t least = f->N == 1 ? 30 : 150, rows = f->s.trace_rows - f->s.phase_start;
    if (f->s.stage == WV_SEARCH) {
        if (wv_schedule_still(f) && f->N == 1 && !f->s.lost)
            wv_schedule_end(f, WVGD_CONVERGED);
        else if (wv_schedule_level(f, window(f)) && (!drifting(f) || turning(f))) {
            if (f->s.requantised < 3 && wv_kmeans_improve(f)) {
                f->s.requantised++;
                for (size_t j = 0; j < f->N; j++) {
                    wv_joint_restart(f, j);
                    f->now.losses[j] = 0;
                }
                f->s.best = -INFINITY;
                enter(f, WV_SEARCH);
            } else
                enter(f, f->N == 1 ? WV_AVERAGE : WV_SETTLE);
        }
    } else if (f->s.stage == WV_SETTLE) {
        if (++f->s.averaged == SETTLE)
            enter(f, WV_AVERAGE);
    } else {
        f->s.averaged++;
        double gap = wv_trace_step(f, f->s.phase_start, rows) / (double)(f->s.averaged + 1);
        if (rows >= least && gap < tolerance(f)) {
            if (wv_schedule_level(f, rows / 2) && 20 * f->s.lost <= rows)
                wv_schedule_end(f, WVGD_CONVERGED);
            else if (f->dense)
                enter(f, WV_AVERAGE);
            else { /* with a thousand noisy means what has been averaged is too good to be thrown away */
                f->s.averaged /= 2;
                wv_schedule_begin_phase(f);
            }
        }
    }
    if (f->s.stage <= WV_AVERAGE && f->s.iteration >= f->opt.max_iter)
        wv_schedule_end(f, WVGD_MAX_ITER);
}
