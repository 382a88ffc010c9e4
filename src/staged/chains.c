/* chains.c - Hamiltonian chains in lock step (method, section 9).
 *
 *     p <- p + (eps/2) L'g,   x <- x + eps L p,   p <- p + (eps/2) L'g,     L L' the metric, g the gradient of log p~
 *
 * A trajectory is accepted with probability min(1, exp(change of log p~ - |p|^2 / 2)). All chains take the same number
 * of steps; each has a step of its own, near a common one. */
#include "staged/chains.h"
#include "fit.h"
#include "memory.h"
#include "policy.h"
#include "rng.h"
#include "staged/modes.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_chains_new(wv_chains *c, size_t D, size_t metrics)
{
    *c = (wv_chains){.D = D, .metrics = metrics};
    size_t rows = wv_times(2 * WV_CHAINS, D);
    const wv_slot slots[] = {{&c->x, rows},
                             {&c->g, rows},
                             {&c->p, wv_times(WV_CHAINS, D)},
                             {&c->root, wv_times(metrics, wv_times(D, D))},
                             {&c->own_step, WV_CHAINS},
                             {&c->energy, WV_CHAINS},
                             {&c->log_p, WV_CHAINS},
                             {&c->start_log_p, WV_CHAINS}};
    c->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return c->memory != NULL;
}

void wv_chains_free(wv_chains *c)
{
    free(c->memory);
}

static bool sane(const wv_chains_now *s, size_t metrics, bool running)
{
    bool good = s->chains <= WV_CHAINS && s->metrics <= metrics && !(s->arriving & ~1) && (!running || s->chains);
    for (size_t m = 0; m < WV_MODES && good; m++)
        good = s->slot[m] <= metrics;
    for (size_t c = 0; c < s->chains && good; c++)
        good = !(s->moving[c] & ~1) && (!running || s->metric[c] < s->metrics);
    return good;
}

bool wv_chains_archive(wv_chains *c, wv_archive *a, bool running)
{
    wv_chains_now s;
    memset(&s, 0, sizeof s);
    if (running)
        s = c->now;
    wv_archive_values(a, &s, sizeof s);
    if (!sane(&s, c->metrics, running))
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        c->now = s;
    size_t rows = running ? s.chains * c->D : 0;
    for (size_t half = 0; half < 2; half++) {
        size_t at = half * WV_CHAINS * c->D;
        wv_archive_array(a, c->x + at, rows);
        wv_archive_array(a, c->g + at, rows);
    }
    wv_archive_array(a, c->p, rows);
    double *const lists[] = {c->own_step, c->energy, c->log_p, c->start_log_p};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        wv_archive_array(a, lists[i], running ? s.chains : 0);
    wv_archive_array(a, c->root, running ? s.metrics * c->D * c->D : 0);
    return true;
}

/* Random numbers of a chain in this batch, and those that all chains share. */
enum { SHARED = 64 };

static wv_stream stream_of(const wvgd_fit *f, size_t chain, wv_rng_use use)
{
    return (wv_stream){f->opt.seed, use, f->count.batch, chain < SHARED ? chain : chain + 1};
}

static wv_stream shared_stream(const wvgd_fit *f, wv_rng_use use)
{
    return (wv_stream){f->opt.seed, use, f->count.batch, SHARED};
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */
/* Modes that chains tell apart. They are known in the user's coordinates: in bent ones there is one for all. */
static size_t modes_of(const wvgd_fit *f)
{
    return f->bend.on || !f->modes.n ? 1 : f->modes.n;
}

/* mode[K] of every component of the mixture. */
static void find_modes(wvgd_fit *f, double *mode)
{
    size_t modes = modes_of(f);
    for (size_t k = 0; k < f->mix.K; k++)
        mode[k] = modes > 1 ? (double)wv_modes_nearest(f, modes, f->mix.mu + k * f->D) : 0;
}

/* The covariance of the mixture's components in a mode, for all chains that begin there. Chains of modes for which
 * there is no room share the last one. */
static void choose_metrics(wvgd_fit *f, size_t chains)
{
    wv_chains *c = &f->chains;
    size_t D = f->D, mark = wv_arena_mark(f->arena), *slot = c->now.slot;
    double *mode = wv_arena_take(f->arena, f->mix.K), *mean = wv_arena_take(f->arena, D);
    for (size_t m = 0; m < WV_MODES; m++)
        slot[m] = c->metrics;
    find_modes(f, mode);
    c->now.metrics = 0;
    for (size_t i = 0; i < chains; i++) {
        size_t k = wv_mixture_owner(&f->mix, c->x + i * D, f->arena), m = (size_t)mode[k];
        if (slot[m] == c->metrics) {
            slot[m] = c->now.metrics < c->metrics ? c->now.metrics++ : c->metrics - 1;
            double *root = c->root + slot[m] * D * D;
            if (!wv_mixture_moments_of(&f->mix, mode, mode[k], mean, root, f->arena))
                memcpy(root, f->mix.root + k * D * D, D * D * sizeof *root);
        }
        c->now.metric[i] = slot[m];
    }
    wv_arena_release(f->arena, mark);
}

size_t wv_chains_metric_at(wvgd_fit *f, size_t chain, const double *x)
{
    const wv_chains *c = &f->chains;
    size_t k = wv_mixture_owner(&f->mix, x, f->arena), modes = modes_of(f),
           m = modes > 1 ? wv_modes_nearest(f, modes, f->mix.mu + k * f->D) : 0;
    return c->now.slot[m] < c->now.metrics ? c->now.slot[m] : c->now.metric[chain];
}

/* label[metrics]: metrics of modes between which chains have passed have the same one, the least of them. */
static void label_joined(wvgd_fit *f, size_t *label)
{
    const wv_chains *c = &f->chains;
    for (size_t m = 0; m < c->now.metrics; m++)
        label[m] = m;
    for (size_t i = 0; i < c->now.chains; i++) {
        size_t a = label[c->now.metric[i]], b = label[wv_chains_metric_at(f, i, c->x + i * c->D)], low = a < b ? a : b,
               high = a < b ? b : a;
        for (size_t m = 0; m < c->now.metrics; m++)
            label[m] = label[m] == high ? low : label[m];
    }
}

size_t wv_chains_join(wvgd_fit *f)
{
    wv_chains *c = &f->chains;
    size_t left = 0, D = f->D, n = c->now.metrics, mark = wv_arena_mark(f->arena),
           *label = wv_arena_take_sizes(f->arena, n);
    double *mode = wv_arena_take(f->arena, f->mix.K), *mean = wv_arena_take(f->arena, D),
           *root = wv_arena_take(f->arena, D * D);
    label_joined(f, label);
    find_modes(f, mode);
    for (size_t k = 0; k < f->mix.K; k++) { /* groups of components are the labels of their modes */
        size_t slot = c->now.slot[(size_t)mode[k]];
        mode[k] = slot < n ? (double)label[slot] : -1;
    }
    for (size_t m = 0; m < n; m++) {
        bool joined = false;
        for (size_t l = 0; l < n; l++)
            joined = joined || (l != m && label[l] == m);
        if (joined && wv_mixture_moments_of(&f->mix, mode, (double)m, mean, root, f->arena))
            memcpy(c->root + m * D * D, root, D * D * sizeof *root);
    }
    for (size_t m = 0; m < WV_MODES; m++)
        c->now.slot[m] = c->now.slot[m] < n ? label[c->now.slot[m]] : c->now.slot[m];
    for (size_t i = 0; i < c->now.chains; i++)
        c->now.metric[i] = label[c->now.metric[i]];
    for (size_t m = 0; m < n; m++) { /* metrics that some mode has: those of modes that were joined before have none */
        bool used = false;
        for (size_t k = 0; k < WV_MODES; k++)
            used = used || c->now.slot[k] == m;
        left += used;
    }
    wv_arena_release(f->arena, mark);
    return left;
}

const double *wv_chains_metric(const wv_chains *c, size_t chain)
{
    return c->root + c->now.metric[chain] * c->D * c->D;
}

void wv_chains_set_metric(wv_chains *c, size_t m, const double *root)
{
    memcpy(c->root + m * c->D * c->D, root, c->D * c->D * sizeof *root);
}

void wv_chains_use_metric(wv_chains *c, size_t chain, size_t m)
{
    c->now.metric[chain] = m;
}

/* ---- starts ------------------------------------------------------------------------------------------------------ */
/* Weights w[n] in proportion to exp(a log_w), with the largest a <= 1 that leaves so many effective draws. */
static void temper(size_t n, const double *log_w, double ess, double *spare, double *w)
{
    double low = 0, high = 1;
    for (int round = 0; round < 30; round++) {
        double a = round ? (low + high) / 2 : 1;
        for (size_t i = 0; i < n; i++)
            spare[i] = log_w[i] > -INFINITY ? a * log_w[i] : -INFINITY;
        wv_weights_normalise(n, spare, w);
        bool enough = wv_weights_ess(n, w) >= ess;
        if (enough && !round)
            return;
        *(enough ? &low : &high) = a;
    }
}

/* Chains at a systematic sample of the final draws. False: none of these has density. */
static bool place(wvgd_fit *f, size_t chains, wv_rng_use use)
{
    wv_chains *c = &f->chains;
    const wv_draws *b = &f->closing.draws;
    size_t first = f->closing.trial, n = b->n - first, at = 0, D = f->D, mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, n), *w = wv_arena_take(f->arena, n), u;
    bool some = false;
    for (size_t i = 0; i < n; i++) {
        log_w[i] = b->log_p[first + i] - b->log_m[first + i];
        some = some || log_w[i] > -INFINITY;
    }
    if (some)
        temper(n, log_w, fmin((double)chains, (double)n / 2), wv_arena_take(f->arena, n), w);
    wv_stream stream = shared_stream(f, use);
    wv_rng_uniform(&stream, 0, 1, &u);
    double sum = some ? w[0] : 0;
    for (size_t i = 0; i < chains && some; i++) {
        while (sum < ((double)i + u) / (double)chains && at + 1 < n)
            sum += w[++at];
        memcpy(c->x + i * D, b->x + (first + at) * D, D * sizeof *c->x);
        if (b->shape.gradients)
            memcpy(c->g + i * D, b->grad + (first + at) * D, D * sizeof *c->g);
        c->log_p[i] = b->log_p[first + at];
    }
    wv_arena_release(f->arena, mark);
    return some;
}

bool wv_chains_place(wvgd_fit *f, size_t chains, wv_rng_use use)
{
    wv_chains *c = &f->chains;
    if (!place(f, chains, use))
        return false;
    c->now.chains = chains;
    choose_metrics(f, chains);
    c->now.log_step = log(wv_policy.certificate_step / pow((double)c->D, 0.25));
    c->now.log_shorter = 0;
    return true;
}

void wv_chains_gather(wv_chains *c, size_t chains, size_t steps)
{
    size_t used = wv_times(chains, c->D) * sizeof(double);
    memset(&c->now, 0, sizeof c->now);
    c->now.chains = c->now.metrics = chains;
    c->now.steps = steps;
    for (size_t m = 0; m < WV_MODES; m++)
        c->now.slot[m] = c->metrics;
    for (size_t i = 0; i < chains; i++)
        c->now.metric[i] = i;
    /* chains that do not set out have rows, too, and these are saved */
    for (size_t half = 0; half < 2; half++) {
        memset(c->x + half * WV_CHAINS * c->D, 0, used);
        memset(c->g + half * WV_CHAINS * c->D, 0, used);
    }
    memset(c->p, 0, used);
    memset(c->root, 0, used * c->D);
    double *const lists[] = {c->own_step, c->energy, c->log_p, c->start_log_p};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        memset(lists[i], 0, chains * sizeof(double));
}

/* ---- trajectories ------------------------------------------------------------------------------------------------ */
/* p += step L'g */
static void kick(wvgd_fit *f, size_t i, double step)
{
    wv_chains *c = &f->chains;
    size_t D = c->D, mark = wv_arena_mark(f->arena);
    double *force = wv_arena_take(f->arena, D);
    memcpy(force, c->g + i * D, D * sizeof *force);
    cblas_dtrmv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)D, wv_chains_metric(c, i), (int)D, force, 1);
    cblas_daxpy((int)D, step, force, 1, c->p + i * D, 1);
    wv_arena_release(f->arena, mark);
}

/* x += step L p */
static void drift(wvgd_fit *f, size_t i)
{
    wv_chains *c = &f->chains;
    size_t D = c->D, mark = wv_arena_mark(f->arena);
    double *velocity = wv_arena_take(f->arena, D);
    memcpy(velocity, c->p + i * D, D * sizeof *velocity);
    cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, wv_chains_metric(c, i), (int)D, velocity,
                1);
    cblas_daxpy((int)D, c->own_step[i], velocity, 1, c->x + i * D, 1);
    wv_arena_release(f->arena, mark);
}

static double energy(const wv_chains *c, size_t i)
{
    const double *p = c->p + i * c->D;
    return c->log_p[i] - cblas_ddot((int)c->D, p, 1, p, 1) / 2;
}

/* Chain i at the start of its trajectory, or back there. */
static void copy_chain(wv_chains *c, size_t i, bool back)
{
    size_t D = c->D, now = i * D, start = (WV_CHAINS + i) * D, to = back ? now : start, from = back ? start : now;
    memcpy(c->x + to, c->x + from, D * sizeof *c->x);
    memcpy(c->g + to, c->g + from, D * sizeof *c->g);
    if (back)
        c->log_p[i] = c->start_log_p[i];
    else
        c->start_log_p[i] = c->log_p[i];
}

/* Chain i begins a trajectory with the momentum that it has. */
static void set_out(wvgd_fit *f, size_t i, double step)
{
    wv_chains *c = &f->chains;
    c->own_step[i] = step;
    c->now.moving[i] = 1;
    copy_chain(c, i, false);
    c->energy[i] = energy(c, i);
    kick(f, i, step / 2);
    drift(f, i);
}

void wv_chains_push(wvgd_fit *f, size_t i, const double *p, double step)
{
    memcpy(f->chains.p + i * f->D, p, f->D * sizeof *p);
    set_out(f, i, step);
}

void wv_chains_begin(wvgd_fit *f, double length, wv_rng_use use)
{
    wv_chains *c = &f->chains;
    wv_stream all = shared_stream(f, use);
    double u, n, longest = length * exp(c->now.log_shorter), step = fmin(exp(c->now.log_step), longest);
    wv_rng_uniform(&all, 1, 1, &u);
    c->now.step = 0;
    c->now.steps = (size_t)fmin(ceil(longest * u / step), wv_policy.certificate_steps);
    for (size_t i = 0; i < c->now.chains; i++) {
        wv_stream own = stream_of(f, i, use);
        wv_rng_normal(&own, 0, c->D, c->p + i * c->D);
        wv_rng_normal(&own, 1, 1, &n);
        set_out(f, i, step * exp(wv_policy.certificate_jitter * n));
    }
}

bool wv_chains_wait(wvgd_fit *f)
{
    wv_chains *c = &f->chains;
    c->now.arriving = !f->closing.draws.shape.gradients;
    if (!c->now.arriving)
        return false;
    c->now.step = 0;
    c->now.steps = 1;
    memset(c->p, 0, c->now.chains * c->D * sizeof *c->p);
    for (size_t i = 0; i < c->now.chains; i++) {
        c->now.moving[i] = 1;
        copy_chain(c, i, false);
    }
    return true;
}

void wv_chains_arrive(wvgd_fit *f)
{
    wv_chains *c = &f->chains;
    c->now.arriving = 0;
    memcpy(c->g, f->b.grad, c->now.chains * c->D * sizeof *c->g);
}

void wv_chains_ask(wvgd_fit *f)
{
    const wv_chains *c = &f->chains;
    size_t n = 0;
    for (size_t i = 0; i < c->now.chains; i++)
        if (c->now.moving[i])
            memcpy(f->b.x + n++ * c->D, c->x + i * c->D, c->D * sizeof(double));
    f->b.n = n;
}

/* Chain i has left the support: back to its last point there, for what its steps have been worth until then. */
static void leave(wvgd_fit *f, size_t i)
{
    wv_chains *c = &f->chains;
    c->now.moving[i] = 0;
    kick(f, i, -c->own_step[i] / 2);
    c->energy[i] = energy(c, i) - c->energy[i];
}

/* The answer at the point of chain i. */
static void take(wvgd_fit *f, size_t i, double log_p, const double *grad)
{
    wv_chains *c = &f->chains;
    bool last = c->now.step == c->now.steps, inside = isfinite(log_p);
    for (size_t k = 0; k < c->D && inside; k++)
        inside = isfinite(grad[k]);
    if (!inside) {
        leave(f, i);
        return;
    }
    c->log_p[i] = log_p;
    memcpy(c->g + i * c->D, grad, c->D * sizeof *grad);
    kick(f, i, last ? c->own_step[i] / 2 : c->own_step[i]);
    if (!last)
        drift(f, i);
}

bool wv_chains_moving(const wv_chains *c)
{
    for (size_t i = 0; i < c->now.chains; i++)
        if (c->now.moving[i])
            return true;
    return false;
}

bool wv_chains_tell(wvgd_fit *f)
{
    wv_chains *c = &f->chains;
    size_t n = 0;
    c->now.step++;
    for (size_t i = 0; i < c->now.chains; i++)
        if (c->now.moving[i]) {
            take(f, i, f->b.log_p[n], f->b.grad + n * c->D);
            n++;
        }
    return c->now.step >= c->now.steps || !wv_chains_moving(c);
}

/* min(1, exp(change of log p~ - |p|^2 / 2)) of the trajectory of chain i, as far as it was in the support. */
static double worth(const wv_chains *c, size_t i)
{
    double a = fmin(1, exp(c->now.moving[i] ? energy(c, i) - c->energy[i] : c->energy[i]));
    return isnan(a) ? 0 : a;
}

/* Acceptance of the trajectory of chain i, which then is at its end or back at its start. */
static double end_walk(wvgd_fit *f, size_t i, double a, wv_rng_use use)
{
    wv_chains *c = &f->chains;
    wv_stream own = stream_of(f, i, use);
    double u, accepted = c->now.moving[i] ? a : 0;
    wv_rng_uniform(&own, 2, 1, &u);
    if (!(u < accepted))
        copy_chain(c, i, true);
    return accepted;
}

double wv_chains_end(wvgd_fit *f, double rate, wv_rng_use use)
{
    wv_chains *c = &f->chains;
    double accepted = 0, fine = 0, inside = 0, n = (double)c->now.chains;
    for (size_t i = 0; i < c->now.chains; i++) {
        double a = worth(c, i);
        fine += a / n;
        inside += c->now.moving[i] / n;
        accepted += end_walk(f, i, a, use) / n;
    }
    /* what keeps trajectories from a wall is that they are short, not that their steps are */
    c->now.log_step += rate * (fine - wv_policy.certificate_acceptance);
    c->now.log_shorter = fmin(0, c->now.log_shorter + rate * (inside - wv_policy.certificate_inside));
    return accepted;
}

void wv_chains_put(wv_chains *c, size_t i, const double *x, const double *grad, double log_p)
{
    memcpy(c->x + i * c->D, x, c->D * sizeof *x);
    memcpy(c->g + i * c->D, grad, c->D * sizeof *grad);
    c->log_p[i] = log_p;
}

void wv_chains_follow(wv_chains *c, const double *log_p, const double *g)
{
    memcpy(c->log_p, log_p, c->now.chains * sizeof *log_p);
    memcpy(c->g, g, c->now.chains * c->D * sizeof *g);
}
