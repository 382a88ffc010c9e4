/* schedule.c - what the trace shows, and when a run has converged.
 *
 * search: constant steps until the bound has stopped rising, judged against its own noise, and the particles drift no
 * more than noise would move them; a bound that falls beyond noise sends the fit back to its best state with half the
 * step. settle: the particles go on with a sharper estimate of where they are pulled to, then their steps fall, theirs
 * alone. average: the particles, and so the cells, stay; the components' steps fall like 1/k, which averages the
 * regressions of all iterations from then on.
 * Converged: what noise still costs (the nats of a full step over k) is below the tolerance, the bound has not risen
 * meanwhile, and components of weight have hardly ever been without points. */
#include "joint/schedule.h"
#include "arena.h"
#include "fit.h"
#include "trace.h"
#include "policy.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

static void mark(wvgd_fit *f)
{
    memcpy(f->joint.z_mark, f->cells.now.z, f->N * f->D * sizeof(double));
    f->joint.marked = f->trace.rows;
    f->joint.walked = 0;
}

void wv_schedule_begin_phase(wvgd_fit *f)
{
    f->joint.phase_start = f->trace.rows;
    wv_tally_begin_phase(&f->tally);
    mark(f);
}

void wv_schedule_begin_stage(wvgd_fit *f)
{
    f->joint.averaged = 0;
    wv_schedule_begin_phase(f);
}

static size_t window(const wvgd_fit *f)
{
    return (size_t)(f->N == 1 ? wv_policy.joint_window_one : wv_policy.joint_window);
}

bool wv_schedule_level(const wvgd_fit *f, size_t w)
{
    if (f->trace.rows < f->joint.phase_start + 2 * w)
        return false;
    wvgd_estimate late = wv_trace_pelbo(&f->trace, f->trace.rows - w, w),
                  early = wv_trace_pelbo(&f->trace, f->trace.rows - 2 * w, w);
    double noise = sqrt(late.se * late.se + early.se * early.se);
    return late.value - early.value < fmax(f->opt.tol, wv_policy.joint_level_noise * noise);
}

bool wv_schedule_still(const wvgd_fit *f)
{
    return f->trace.rows >= f->joint.phase_start + 2 &&
           wv_trace_step(&f->trace, f->trace.rows - 2, 2) < wv_policy.joint_still * f->opt.tol;
}

wv_bound_change wv_schedule_compare(wvgd_fit *f)
{
    wv_joint *j = &f->joint;
    double noise = wv_policy.joint_fall_noise *
                   sqrt(f->trace.last.pelbo.se * f->trace.last.pelbo.se + j->best_se * j->best_se);
    if (f->stage == WV_AVERAGE)
        return WV_BOUND_WITHIN; /* steps fall anyway, and the luckiest of many batches is no measure */
    if (f->trace.last.pelbo.value > j->best || j->best == -INFINITY) {
        j->best = f->trace.last.pelbo.value;
        j->best_se = f->trace.last.pelbo.se;
        return WV_BOUND_BEST;
    }
    if (f->trace.last.pelbo.value < j->best - fmax(wv_policy.joint_fall, noise) &&
        j->rho > wv_policy.joint_least_step) {
        j->rho /= 2;
        j->best = -INFINITY; /* judged anew, so that one lucky batch does not hold the fit back */
        return WV_BOUND_FELL;
    }
    return WV_BOUND_WITHIN;
}

bool wv_schedule_best_is_better(const wvgd_fit *f)
{
    size_t w = window(f);
    if (f->stage == WV_SEARCH)
        return f->stop != WVGD_CONVERGED && f->joint.best > -INFINITY;
    if (f->trace.rows < f->joint.phase_start + w)
        return false;
    wvgd_estimate late = wv_trace_pelbo(&f->trace, f->trace.rows - w, w);
    double noise = wv_policy.joint_return_noise * sqrt(late.se * late.se + f->joint.best_se * f->joint.best_se);
    return late.value < f->joint.best - noise - wv_policy.joint_return;
}

/* Every few iterations, at the end of each few. */
static bool move_turn(size_t iterations)
{
    size_t every = (size_t)wv_policy.joint_move_every;
    return iterations % every == every - 1;
}

bool wv_schedule_moves_due(const wvgd_fit *f, size_t iterations)
{
    double most = wv_policy.joint_moves + wv_policy.joint_moves_each * (double)f->N;
    return f->N > 1 && f->stage == WV_SEARCH && move_turn(iterations) && (double)f->joint.moves < most;
}

/* Over the last k iterations, k that of joint_drift, did the particles go further together than independent steps of
 * that size would? For noise around a fixed point the ratio below is about 2, for steady motion about k^2. */
static bool drifted(const wvgd_fit *f)
{
    size_t D = f->D, scratch = wv_arena_mark(f->arena);
    double net = 0, *gone = wv_arena_take(f->arena, D);
    for (size_t j = 0; j < f->N; j++) {
        wv_gaussian spread = wv_partition_spread(&f->cells, j);
        for (size_t i = 0; i < D; i++)
            gone[i] = f->cells.now.z[j * D + i] - f->joint.z_mark[j * D + i];
        spread.family->whiten(D, 0, spread.root, 1, gone, NULL);
        net += f->cells.beta[j] * cblas_ddot((int)D, gone, 1, gone, 1);
    }
    wv_arena_release(f->arena, scratch);
    return net * wv_policy.joint_drift > wv_policy.joint_drift_ratio * f->joint.walked;
}

/* Have the particles gone on for long enough to tell? */
static bool drift_known(const wvgd_fit *f)
{
    return f->trace.rows >= f->joint.marked + (size_t)wv_policy.joint_drift;
}

static bool drifting(const wvgd_fit *f)
{
    return f->N > 1 && (!drift_known(f) || drifted(f));
}

/* In many dimensions particles turn without end if the posterior is about equally wide in several directions, and if
 * they are many, they drift without end in more than four. There it is enough that the distortion has stopped
 * falling, from one window of iterations to the next, within noise. */
static bool turning(const wvgd_fit *f)
{
    bool few = f->dense && (double)f->N <= wv_policy.joint_turning_few;
    size_t w = 2 * (size_t)wv_policy.joint_drift,
           least = w * (size_t)(few ? wv_policy.joint_turning_windows_few : wv_policy.joint_turning_windows);
    double mean[2] = {0, 0}, squares = 0, n = (double)w;
    if ((double)f->D <= wv_policy.joint_turning_dims || f->trace.rows < f->joint.phase_start + least)
        return false;
    const wvgd_trace_row *row = f->trace.row + f->trace.rows - 2 * w;
    for (size_t i = 0; i < 2 * w; i++)
        mean[i / w] += row[i].distortion / n;
    for (size_t i = 0; i < 2 * w; i++)
        squares += pow(row[i].distortion - mean[i / w], 2) / (n * (n - 1));
    return mean[0] - mean[1] <
           fmax(wv_policy.joint_turning_gain * mean[1], wv_policy.joint_level_noise * sqrt(squares));
}

bool wv_schedule_exhausted(const wvgd_fit *f)
{
    return f->N == 1 && !f->tally.starved && wv_schedule_still(f);
}

bool wv_schedule_at_rest(wvgd_fit *f)
{
    if (!wv_schedule_level(f, window(f)))
        return false;
    if (!drifting(f) || turning(f))
        return true;
    if (drift_known(f))
        mark(f);
    return false;
}

size_t wv_schedule_settling(void)
{
    return (size_t)wv_policy.joint_settle;
}

double wv_schedule_lambda(const wvgd_fit *f, double rho)
{
    double falling = (double)f->joint.averaged - wv_policy.joint_settle / 2;
    if (f->stage == WV_SETTLE && falling > 0)
        return 1 / (wv_policy.joint_fall_from + wv_policy.joint_fall_rate * falling);
    if (f->stage == WV_AVERAGE)
        return f->N == 1 ? rho : 0; /* one particle bounds no cell */
    return wv_policy.joint_particle_step;
}

/* Nats that noise may still cost. In many dimensions a nat is less: the tolerance holds for every WV_DENSE of them. */
static double tolerance(const wvgd_fit *f)
{
    return f->opt.tol * fmax(1, (double)f->D / WV_DENSE);
}

static size_t rows_of_phase(const wvgd_fit *f)
{
    return f->trace.rows - f->joint.phase_start;
}

bool wv_schedule_averaged(const wvgd_fit *f)
{
    size_t rows = rows_of_phase(f);
    double gap = wv_trace_step(&f->trace, f->joint.phase_start, rows) / (double)(f->joint.averaged + 1);
    double least = f->N == 1 ? wv_policy.joint_average_one : wv_policy.joint_average;
    return (double)rows >= least && gap < tolerance(f);
}

bool wv_schedule_converged(const wvgd_fit *f)
{
    size_t rows = rows_of_phase(f);
    return wv_schedule_level(f, rows / 2) && wv_policy.joint_starved_each * (double)f->tally.starved <= (double)rows;
}

void wv_schedule_average_on(wvgd_fit *f)
{
    /* with a thousand noisy means what has been averaged is too good to be thrown away */
    f->joint.averaged = f->dense ? 0 : f->joint.averaged / 2;
    wv_schedule_begin_phase(f);
}
