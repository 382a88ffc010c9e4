/* closing.c - the closing draws: what is planned of them, and their weights. */
#include "closing.h"
#include "error.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

bool wv_closing_new(wv_closing *c, wv_draws_shape shape)
{
    memset(c, 0, sizeof *c);
    const wv_slot slots[] = {{&c->v, shape.room},
                             {&c->log_w, shape.room},
                             {&c->smooth, shape.room},
                             {&c->calibrated, shape.room}};
    c->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return c->memory && wv_draws_new(&c->draws, shape);
}

void wv_closing_free(wv_closing *c)
{
    wv_draws_free(&c->draws);
    free(c->memory);
}

/* Counts that a saved state holds. */
typedef struct {
    size_t n, planned, block, trial;
} counts;

static bool sane(const counts *s, const wv_closing_rule *rule)
{
    size_t most = rule->draws.most;
    return s->n <= most && s->planned <= rule->planned_most && s->trial <= s->n && s->block <= most &&
           (s->n || !rule->some) &&
           (!rule->blocks || (s->planned && s->planned <= most / (s->block + 1) &&
                              s->n <= (s->block + 1) * s->planned && s->n >= s->block * s->planned));
}

bool wv_closing_archive(wv_closing *c, wv_archive *a, wv_closing_rule rule)
{
    counts s = {c->draws.n, c->planned, c->block, c->trial};
    wv_archive_values(a, &s, sizeof s);
    if (!sane(&s, &rule))
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        c->planned = s.planned;
        c->block = s.block;
        c->trial = s.trial;
    }
    size_t weights = rule.weights ? s.n : 0;
    wv_archive_array(a, c->smooth, weights);
    wv_archive_array(a, c->calibrated, weights);
    rule.draws.least = rule.draws.most = s.n;
    return wv_draws_archive(&c->draws, a, rule.draws);
}

void wv_closing_copy(wv_closing *to, const wv_closing *from)
{
    wv_draws_copy(&to->draws, &from->draws);
    to->trial = from->trial;
    to->planned = from->planned;
    memcpy(to->calibrated, from->calibrated, from->draws.n * sizeof *from->calibrated);
}

/* ---- what is planned --------------------------------------------------------------------------------------------- */
void wv_closing_clear(wv_closing *c)
{
    wv_draws_clear(&c->draws);
    c->trial = 0;
}

void wv_closing_restart(wv_closing *c, size_t planned)
{
    wv_closing_clear(c);
    c->planned = planned;
    c->block = 0;
}

void wv_closing_plan(wv_closing *c, size_t planned)
{
    c->planned = planned;
}

void wv_closing_add_block(wv_closing *c)
{
    c->block++;
}

void wv_closing_take(wv_closing *c, size_t n, const wv_proposals *p)
{
    if (c->draws.n == c->trial)
        wv_draws_add_batch(&c->draws, n, p);
    else
        wv_draws_extend_batch(&c->draws, n, p);
}

wv_draws *wv_closing_lend(wv_closing *c)
{
    return &c->draws;
}

void wv_closing_end_trial(wv_closing *c)
{
    c->trial = c->draws.n;
}

void wv_closing_forget_trial(wv_closing *c, wv_arena *arena)
{
    wv_draws_forget(&c->draws, 1, arena);
    c->trial = 0;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */
void wv_closing_set_weights(wv_closing *c, size_t first, const double *v)
{
    memcpy(c->v + first, v, (c->draws.n - first) * sizeof *v);
}

void wv_closing_set_log_weights(wv_closing *c, const double *log_w)
{
    memcpy(c->log_w, log_w, c->draws.n * sizeof *log_w);
}

void wv_closing_set_smooth(wv_closing *c, const double *log_w)
{
    memcpy(c->smooth, log_w, c->draws.n * sizeof *log_w);
}

void wv_closing_set_calibrated(wv_closing *c, const double *weight)
{
    memcpy(c->calibrated, weight, c->draws.n * sizeof *weight);
}
