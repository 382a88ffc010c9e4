/* certificate.c - importance sampling cannot see mass where its proposal has no draws; chains can. They set out from
 * closing draws, resampled by their weights, and take a few Hamiltonian trajectories in lock step, in the metric of the
 * mixture's components of their mode. Mass where p~(x) > c m(x) Z has 1/c as many draws of m as draws of the posterior
 * would give it. If a chain comes near such places all of them go on; if they often stand there, the proposal misses a
 * part of the posterior (method, section 9). */
#include "staged/certificate.h"
#include "fit.h"
#include "memory.h"
#include "policy.h"
#include "rng.h"
#include "staged/chains.h"
#include "staged/decisions.h"
#include "staged/staged_closing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_certificate_new(wv_certificate *c, size_t D)
{
    *c = (wv_certificate){.D = D};
    const wv_slot slots[] = {{&c->outside_x, wv_times(WV_WALKERS, D)}};
    c->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return c->memory != NULL;
}

void wv_certificate_free(wv_certificate *c)
{
    free(c->memory);
}

void wv_certificate_copy(wv_certificate *to, const wv_certificate *from)
{
    to->now = from->now;
}

void wv_certificate_forget(wv_certificate *c)
{
    c->now.result = WV_CERTIFICATE_NONE;
    c->now.walks = c->now.outside = c->now.states = c->now.trajectory = 0;
    c->now.excess = 0;
}

double wv_certificate_unseen_variance(const wv_certificate *c)
{
    return c->now.excess > 0 ? c->now.excess / (double)(WV_WALKERS * c->now.trajectory) : 0;
}

bool wv_certificate_archive(wv_certificate *c, wv_archive *a, bool running)
{
    wv_certified s = c->now;
    wv_archive_values(a, &s, sizeof s);
    if (s.result > WV_CERTIFICATE_FAILED || !(s.excess >= 0) || (s.excess > 0 && !s.trajectory))
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        c->now = s;
    wv_archive_array(a, c->outside_x, running ? WV_WALKERS * c->D : 0);
    return true;
}

static void begin_trajectory(wvgd_fit *f)
{
    wv_chains_begin(f, wv_policy.certificate_length, WV_RNG_CERTIFY);
}

/* Of the final draws. */
static double largest_weight(const wvgd_fit *f)
{
    const wv_draws *d = &f->closing.draws;
    double largest = -INFINITY;
    for (size_t i = f->closing.trial; i < d->n; i++)
        largest = fmax(largest, d->log_p[i] - d->log_m[i]);
    return largest - f->outcome.evidence.value;
}

static bool set_out(wvgd_fit *f)
{
    wv_certificate *c = &f->certificate;
    if (!wv_chains_place(f, WV_WALKERS, WV_RNG_CERTIFY))
        return false;
    c->now.walks = WV_WALKERS;
    c->now.limit = wv_decide_outside(f->closing.draws.n - f->closing.trial, WV_WALKERS);
    c->now.largest = largest_weight(f);
    memcpy(c->outside_x, f->chains.x, WV_WALKERS * c->D * sizeof *c->outside_x);
    for (size_t i = 0; i < WV_WALKERS; i++)
        c->now.most[i] = -INFINITY;
    if (!wv_chains_wait(f))
        begin_trajectory(f);
    return true;
}

/* How far log p~ - log mixture is from being the same at all final draws, beside how far the mixture falls there: those
 * in the tails of the proposal count like all others, for a tail that the mixture does not have shows only there. */
static double unevenness(wvgd_fit *f)
{
    const wv_draws *b = &f->closing.draws;
    size_t first = f->closing.trial, n = b->n - first, top = 0, mark = wv_arena_mark(f->arena);
    double *log_m = wv_arena_take(f->arena, n), most = 0;
    wv_mixture_log_density(&f->mix, n, b->x + first * f->D, log_m, NULL, &f->workers);
    for (size_t i = 1; i < n; i++)
        top = log_m[i] > log_m[top] ? i : top;
    for (size_t i = 0; i < n; i++) {
        double off = fabs(b->log_p[first + i] - b->log_p[first + top] - log_m[i] + log_m[top]);
        most = fmax(most, off / (1 + log_m[top] - log_m[i]));
    }
    wv_arena_release(f->arena, mark);
    return most;
}

bool wv_certificate_begin(wvgd_fit *f)
{
    wv_certificate *c = &f->certificate;
    wv_certificate_forget(c);
    if (!wv_decide_exact(unevenness(f)))
        return set_out(f);
    c->now.result = WV_CERTIFICATE_EXACT;
    return false;
}

/* p~/(m Z) at the states of the chains. Returns the most that any has had. */
static double weigh(wvgd_fit *f)
{
    wv_certificate *c = &f->certificate;
    size_t mark = wv_arena_mark(f->arena), D = c->D;
    double *log_m = wv_arena_take(f->arena, WV_WALKERS), most = -INFINITY;
    wv_staged_closing_log_density(f, WV_WALKERS, f->chains.x, log_m);
    for (size_t i = 0; i < WV_WALKERS; i++) {
        double log_w = f->chains.log_p[i] - log_m[i] - f->outcome.evidence.value;
        bool outside = log_w > c->now.limit;
        c->now.states += outside;
        c->now.excess += fmax(exp(fmin(log_w, c->now.limit)) - exp(c->now.largest), 0);
        if (log_w > c->now.most[i]) {
            c->now.outside += outside && !(c->now.most[i] > c->now.limit);
            c->now.most[i] = log_w;
            memcpy(c->outside_x + i * D, f->chains.x + i * D, D * sizeof *c->outside_x);
        }
        most = fmax(most, c->now.most[i]);
    }
    wv_arena_release(f->arena, mark);
    return most;
}

/* True: it was the last one. */
static bool end_trajectory(wvgd_fit *f)
{
    wv_certificate *c = &f->certificate;
    wv_chains_end(f, 1, WV_RNG_CERTIFY);
    double most = weigh(f);
    if (wv_decide_walk_on(++c->now.trajectory, c->now.states, c->now.limit - most)) {
        begin_trajectory(f);
        return false;
    }
    bool failed = wv_decide_refuted(c->now.states);
    c->now.failures += failed;
    c->now.result = failed ? WV_CERTIFICATE_FAILED : WV_CERTIFICATE_PASSED;
    return true;
}

bool wv_certificate_tell(wvgd_fit *f)
{
    wv_certificate *c = &f->certificate;
    c->now.evaluations += f->b.values;
    if (f->chains.now.arriving) {
        wv_chains_arrive(f);
        begin_trajectory(f);
        return false;
    }
    return wv_chains_tell(f) && end_trajectory(f);
}
