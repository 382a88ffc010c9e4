/* outcome.c - what the closing draws have shown of the whole posterior: evidence, bounds, and how far to trust them. */
#include "outcome.h"
#include "evidence.h"
#include "policy.h"
#include <math.h>

void wv_outcome_new(wv_outcome *o)
{
    const wvgd_estimate unknown = {NAN, NAN};
    *o = (wv_outcome){
        .bound = unknown, .bound_beta = unknown, .evidence = unknown, .pareto_k = NAN, .meanfield_gap = NAN};
}

void wv_outcome_archive(wv_outcome *o, wv_archive *a)
{
    wv_outcome c = *o;
    wv_archive_values(a, &c, sizeof c);
    if (wv_archive_reading(a))
        *o = c;
}

void wv_outcome_copy(wv_outcome *o, const wv_outcome *from)
{
    *o = *from;
}

void wv_outcome_set_evidence(wv_outcome *o, wvgd_estimate evidence, double ess)
{
    o->evidence = evidence;
    o->ess = ess;
}

void wv_outcome_set_bounds(wv_outcome *o, wvgd_estimate bound, wvgd_estimate bound_beta)
{
    o->bound = bound;
    o->bound_beta = bound_beta;
}

void wv_outcome_raise_bound(wv_outcome *o, wvgd_estimate bound)
{
    o->bound = bound;
}

void wv_outcome_reconcile(wv_outcome *o)
{
    o->evidence = wv_evidence_reconcile(o->evidence, o->bound, o->bound_beta, wv_policy.bound_most_errors);
}

void wv_outcome_set_pareto_k(wv_outcome *o, double k)
{
    o->pareto_k = k;
}

void wv_outcome_set_meanfield_gap(wv_outcome *o, double nats)
{
    o->meanfield_gap = nats;
}

void wv_outcome_set_uncovered(wv_outcome *o, double above)
{
    o->uncovered = above;
}

void wv_outcome_set_noise(wv_outcome *o, double sd)
{
    o->noise = sd;
}

void wv_outcome_set_roughness(wv_outcome *o, double sd)
{
    o->roughness = sd;
}

void wv_outcome_set_wrong_slopes(wv_outcome *o, size_t points)
{
    o->wrong_slopes = points;
}
