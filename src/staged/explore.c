/* explore.c - waves of ascents (ascent.c) in lock step: every batch holds one trial point of each path, so a model that
 * likes batches gets them.
 *
 * Paths run in coordinates of a frame: the user's scale at first, then the mean covariance of the modes found, so
 * that after the first mode neither units nor shears matter. The first ascent goes alone. The others are cut short
 * where they come into the bulk of a known mode with the density that it predicts, or where their start already has the
 * density that the known modes predict.
 *
 * An end that nothing known explains is a candidate: the Gaussian of the path's curvature pairs, at its end, or, where
 * the ascent did not settle, at one of its stations (a funnel's density rises without end, its ELBO does not).
 * Candidates that are not hopelessly light are fitted at once (mixture_fit.c with one component): the fit tells the
 * mass of the mode and whether it is new. Later waves start from wider scatter around the modes found, in units of
 * their own sds, until many starts have found nothing new and every mode of weight has been hit twice. In more than
 * WV_DENSE dimensions ends are taken as they are, with diagonal Gaussians. */
#include "staged/explore.h"
#include "fit.h"
#include "error.h"
#include "memory.h"
#include "gaussian.h"
#include "policy.h"
#include "rng.h"
#include "simd/columns.h"
#include "staged/ascent.h"
#include "staged/decisions.h"
#include "staged/images.h"
#include "staged/mixture_fit.h"
#include "staged/modes.h"
#include "staged/bent.h"
#include "draws.h"
#include <cblas.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

static const double half_log_2pi = 0.918938533204672741780;

size_t wv_explore_paths(size_t D, size_t min_batch)
{
    size_t paths = min_batch > WV_PATHS ? min_batch : WV_PATHS, most = (size_t)wv_policy.explore_most_paths;
    paths = paths < most ? paths : most;
    while (paths > WV_PATHS && (double)paths * (double)D > wv_policy.memory_paths)
        paths /= 2;
    return paths > WV_PATHS ? paths : WV_PATHS;
}

bool wv_explore_new(wv_explore *e, size_t D, bool dense, size_t paths)
{
    bool used = paths > 0;
    size_t each = dense ? WV_STATIONS : 1, padded = wv_columns_round(D), size = dense ? wv_times(D, D) : D;
    memset(e, 0, sizeof *e); /* a literal would take 6 KB of the stack */
    e->D = D;
    e->size = size;
    e->padded = padded;
    e->stations = each;
    e->paths = paths;
    e->path = calloc(paths + 1, sizeof *e->path);
    size_t left = paths * each;
    const wv_slot slots[] = {
        {&e->frame, used ? size : 0},
        {&e->end_x, used ? wv_times(WV_ENDS, D) : 0},
        {&e->path_x, wv_times(paths, D)},
        {&e->path_p, wv_times(paths, D)},
        {&e->path_grad, wv_times(paths, D)},
        {&e->path_wall, wv_times(paths, D)},
        {&e->path_g, wv_times(paths, padded)},
        {&e->path_q, wv_times(paths, padded)},
        {&e->path_s, wv_times(WV_KEPT * paths, padded)},
        {&e->path_y, wv_times(WV_KEPT * paths, padded)},
        {&e->station_x, wv_times(left, D)},
        {&e->station_root, wv_times(left, size)},
        {&e->frame_turned, used && dense ? size : 0},
    };
    e->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    return e->memory && e->path;
}

void wv_explore_free(wv_explore *e)
{
    free(e->memory);
    free(e->path);
}

static bool archive_end(wv_end *end, wv_archive *a)
{
    wv_end e = *end;
    wv_archive_values(a, &e, sizeof e);
    if (e.mode < 0 || e.mode >= WV_MODES)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        *end = e;
    return true;
}

void wv_explore_copy_counts(wv_explore *to, const wv_explore *from)
{
    to->starts = from->starts;
    to->wide = from->wide;
    to->refused = from->refused;
}

bool wv_explore_archive(wv_explore *e, wv_archive *a, bool running)
{
    struct {
        size_t phase, starts, wide, climbed, again_starts, again_climbed, judged, idle, refused, slabs, slab_starts,
            ends, uncovered, waits;
    } s = {e->phase, e->starts,  e->wide,  e->climbed,     e->again_starts, e->again_climbed, e->judged,
           e->idle,  e->refused, e->slabs, e->slab_starts, e->ends,         e->uncovered,     e->waits};
    wv_archive_values(a, &s, sizeof s);
    if (s.phase > WV_EXPLORED || (s.judged && s.judged >= e->paths) || s.ends > WV_ENDS || s.uncovered > WV_UNCOVERED ||
        s.waits > WV_WAITED || (running && !e->frame))
        return wv_archive_refuse(a);
    for (size_t i = 0; i < WV_ENDS; i++)
        if (!archive_end(&e->end[i], a))
            return false;
    for (size_t k = 0; k < e->paths; k++)
        if (!wv_ascent_archive(&e->path[k], a, e->D))
            return false;
    if (wv_archive_reading(a)) {
        e->phase = (wv_exploring)s.phase;
        e->starts = s.starts;
        e->wide = s.wide;
        e->climbed = s.climbed;
        e->again_starts = s.again_starts;
        e->again_climbed = s.again_climbed;
        e->judged = s.judged;
        e->idle = s.idle;
        e->refused = s.refused;
        e->slabs = s.slabs;
        e->slab_starts = s.slab_starts;
        e->ends = s.ends;
        e->uncovered = s.uncovered;
        e->waits = (wv_bend_wait)s.waits;
        e->turned = false;
    }
    size_t paths = running ? e->paths : 0;
    wv_archive_array(a, e->frame, running ? e->size : 0);
    wv_archive_array(a, e->end_x, running ? s.ends * e->D : 0);
    wv_archive_array(a, e->uncovered_p, s.uncovered);
    wv_archive_array(a, e->uncovered_w, s.uncovered);
    wv_archive_array(a, e->path_x, paths * e->D);
    wv_archive_array(a, e->path_p, paths * e->D);
    wv_archive_array(a, e->path_grad, paths * e->D);
    wv_archive_array(a, e->path_wall, paths * e->D);
    wv_archive_array(a, e->path_g, paths * e->padded);
    wv_archive_array(a, e->path_q, paths * e->padded);
    wv_archive_array(a, e->path_s, paths * WV_KEPT * e->padded);
    wv_archive_array(a, e->path_y, paths * WV_KEPT * e->padded);
    wv_archive_array(a, e->station_x, paths * e->stations * e->D);
    wv_archive_array(a, e->station_root, paths * e->stations * e->size);
    return true;
}

const wv_explore *wv_explore_of(const wvgd_fit *f)
{
    return &f->explore;
}

size_t wv_explore_stations(const wvgd_fit *f)
{
    return f->dense ? WV_STATIONS : 1;
}

/* ---- waves ------------------------------------------------------------------------------------------------------- */
static void begin_wave(wvgd_fit *f)
{
    size_t paths = f->modes.n ? f->explore.paths : 1;
    wv_ascent_frame(f, f->modes.frame);
    f->explore.phase = WV_CLIMB;
    for (size_t k = 0; k < f->explore.paths; k++) {
        f->explore.path[k] = (wv_path){.active = k < paths, .fresh = 1};
        if (k < paths) {
            f->explore.path[k].start = f->explore.starts++;
            wv_starts_draw(f, &f->explore.path[k], f->explore.path_x + k * f->D);
        }
    }
}

void wv_explore_begin(wvgd_fit *f)
{
    wv_modes_begin(f);
    begin_wave(f);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */
/* Tops beside a mode, whose Gaussian when fitted becomes the mode's, or tops of a hierarchy, which no Gaussian
 * explains: ends that have been fitted are remembered, and the mode that they led to. The end of path k among these, or
 * f->explore.ends. */
static size_t find_end(wvgd_fit *f, size_t k)
{
    const wv_path *p = &f->explore.path[k];
    size_t e = 0, mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, f->D); /* an end as the mode sees it, from that of path k */
    for (; e < f->explore.ends; e++) {
        wv_gaussian mode = wv_modes_gaussian(f, (size_t)f->explore.end[e].mode);
        mode.mu = f->explore.path_x + k * f->D;
        wv_gaussian_whiten(&mode, 1, f->explore.end_x + e * f->D, y, f->arena);
        if (fabs(f->explore.end[e].log_p - p->log_p) < wv_policy.judge_end_alike &&
            cblas_ddot((int)f->D, y, 1, y, 1) < wv_policy.judge_end_near * (double)f->D)
            break;
    }
    wv_arena_release(f->arena, mark);
    return e;
}

/* The mode to which the end of path k has led often enough, or -1. */
static int fitted_before(wvgd_fit *f, size_t k)
{
    size_t e = f->explore.path[k].at_top ? find_end(f, k) : f->explore.ends;
    return e < f->explore.ends && (double)f->explore.end[e].fits >= wv_policy.judge_end_fits ? f->explore.end[e].mode
                                                                                             : -1;
}

/* Does x lie in the bulk of mode m? */
static bool inside(wvgd_fit *f, size_t m, const double *x)
{
    size_t mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, f->D);
    wv_gaussian g = wv_modes_gaussian(f, m);
    wv_gaussian_whiten(&g, 1, x, y, f->arena);
    bool close = cblas_ddot((int)f->D, y, 1, y, 1) < wv_modes_bulk(f);
    wv_arena_release(f->arena, mark);
    return close;
}

/* The fit of path k's end has led to this mode, and the modes do not tell its height. An end in the bulk of the mode
 * would lead there again; of one outside another fit may show that it is a mode of its own. */
static void remember_end(wvgd_fit *f, size_t k, size_t mode)
{
    const wv_path *p = &f->explore.path[k];
    const double *x = f->explore.path_x + k * f->D;
    size_t e = find_end(f, k), m;
    double distance;
    if (!p->at_top || e == WV_ENDS || p->log_p - wv_modes_predict(f, x, &m, &distance) < wv_policy.judge_explained)
        return;
    if (e == f->explore.ends) {
        f->explore.end[f->explore.ends++] = (wv_end){.log_p = p->log_p};
        memcpy(f->explore.end_x + e * f->D, x, f->D * sizeof *x);
    }
    f->explore.end[e].mode = (int)mode;
    f->explore.end[e].fits += inside(f, mode, x) ? (unsigned)wv_policy.judge_end_fits : 1;
}

bool wv_explore_climbs(const wvgd_fit *f)
{
    const wv_explore *e = &f->explore;
    return f->stage == WV_SEEK && !wv_bent_known(f) && wv_modes_hide(f) &&
           (double)(e->starts - e->again_starts) <= wv_policy.explore_hiding_tops;
}

/* log p~/(m Z) at the end of path k, once there are final draws; 0 before. */
static double log_weight(wvgd_fit *f, size_t k)
{
    const double *x = f->explore.path_x + k * f->D;
    return f->stage == WV_SEEK ? f->explore.path[k].log_p - wv_bent_log_density(f, x, NULL) - f->outcome.evidence.value
                               : 0;
}

/* Is the end of path k explained by what is known? Then it is a hit. Once there are final draws they say whether a mode
 * whose Gaussian is bad explains it. */
static bool explained(wvgd_fit *f, size_t k)
{
    wv_path *p = &f->explore.path[k];
    const double *x = f->explore.path_x + k * f->D;
    size_t m = 0;
    double distance = INFINITY, log_w = log_weight(f, k);
    if (f->modes.n && p->hit < 0)
        p->hit = fitted_before(f, k);
    if (p->hit < 0 && wv_bent_known(f) && log_w < wv_policy.explore_represented)
        p->hit = 0;
    if (f->modes.n &&
        (p->hit >= 0 || (p->log_p - wv_modes_predict(f, x, &m, &distance) < wv_policy.judge_explained &&
                         distance < wv_modes_bulk(f) && (log_w < wv_policy.probe_uncovered || !wv_modes_bad(f, m))))) {
        wv_modes_hit(f, p->hit >= 0 ? (size_t)p->hit : m, p->wide);
        return true;
    }
    return false;
}

/* Have n ascents to W modes taken so few evaluations that more of them are cheap insurance? */
static bool cheap(size_t W, size_t n, size_t evaluations)
{
    return W == 1 && (double)n < wv_policy.explore_insured_starts &&
           (double)evaluations < wv_policy.explore_insured_evaluations;
}

/* Starts that have led to the mode of weight that fewest have led to. */
static double least_hits(const wvgd_fit *f)
{
    size_t least = SIZE_MAX;
    for (size_t m = 0; m < f->modes.n; m++)
        if (f->modes.mode[m].relevant && f->modes.mode[m].hits < least)
            least = f->modes.mode[m].hits;
    return (double)least;
}

/* Starts where the density is foretold at most of them. In many dimensions they hardly ever meet narrow modes, in one
 * or two often. Where a mode that has been found is hard to find, others are. */
static double foretold_starts(wvgd_fit *f)
{
    double wanted = (double)wv_starts_enough(f), several = wv_policy.explore_foretold_starts * wanted,
           most = fmin(wv_policy.explore_foretold_each * (double)f->D, wv_policy.explore_foretold_most);
    if (f->modes.relevant == 1)
        return wv_policy.explore_foretold_starts_one *
               (f->D > 2 && !(wv_starts_far_away(f) > 0) ? 1 : wv_policy.explore_foretold_more);
    if (!wv_starts_few_dims(f))
        return several;
    several = fmax(several, fmin(wv_policy.explore_foretold_few * wanted, most));
    return several * (least_hits(f) < wv_policy.explore_hits_many ? wv_policy.explore_foretold_more : 1);
}

/* Is the density foretold at most starts, so that more of them are cheap? */
static bool foretold(wvgd_fit *f)
{
    const wv_explore *e = &f->explore;
    size_t n = e->starts - e->again_starts, evaluations = e->climbed - e->again_climbed,
           spare = f->modes.relevant == 1 ? (size_t)wv_policy.explore_foretold_spare_one
                                          : (size_t)wv_policy.explore_foretold_spare * wv_starts_enough(f);
    if (e->again_starts && wv_explore_climbs(f))
        return true;
    return (double)e->starts < foretold_starts(f) &&
           evaluations < n + n / (size_t)wv_policy.explore_foretold_share + spare;
}

size_t wv_explore_found(const wvgd_fit *f, size_t m)
{
    return wv_starts_rugged(f) ? f->modes.mode[m].wide : f->modes.mode[m].hits;
}

size_t wv_explore_needed(const wvgd_fit *f)
{
    return (size_t)(wv_starts_rugged(f) ? wv_policy.explore_hits_rugged : wv_policy.explore_hits);
}

size_t wv_explore_unsure(const wvgd_fit *f)
{
    size_t n = 0, needed = wv_explore_needed(f);
    for (size_t m = 0; m < f->modes.n; m++)
        n += f->modes.mode[m].relevant && wv_explore_found(f, m) < needed;
    return n;
}

bool wv_explore_doubtful(const wvgd_fit *f)
{
    return wv_starts_rugged(f) && (double)f->explore.wide < wv_policy.explore_wide_rugged;
}

/* Is it too early to trust a rugged density? */
static bool doubts(const wvgd_fit *f)
{
    return wv_explore_doubtful(f) || wv_explore_unsure(f);
}

/* Have there been enough starts? */
static bool satisfied(wvgd_fit *f)
{
    size_t W = f->modes.relevant, n = f->explore.starts, wanted = wv_starts_enough(f);
    bool doubtful = W && wv_starts_rugged(f) && doubts(f);
    if (f->opt.starts)
        return n >= f->opt.starts;
    /* modes without end, as on a shell: the rest is for the mixture to cover */
    if ((double)f->count.points >
        (doubtful ? wv_policy.explore_most_evaluations_rugged : wv_policy.explore_most_evaluations))
        return true;
    if (doubtful)
        return false;
    if (W && wv_starts_unseen_many(f) && (double)n < wv_starts_patience(f))
        return false;
    if (foretold(f) || (!f->explore.again_starts && cheap(W, n, f->explore.climbed)))
        return false;
    if (f->explore.again_starts && W)
        return true;
    return W && ((n >= wanted && !wv_explore_unsure(f)) ||
                 (n >= (size_t)wv_policy.explore_hit_once * wanted && !wv_starts_rugged(f)) ||
                 (double)n >= wv_policy.explore_most_starts || W == wv_modes_most(f));
}

bool wv_explore_again_wanted(wvgd_fit *f)
{
    return wv_starts_few_dims(f) && f->dense && f->model.has_gradient && f->opt.init == WVGD_INIT_EXPLORE &&
           !f->opt.starts && !f->explore.again_starts && f->modes.relevant &&
           ((double)f->explore.starts < foretold_starts(f) || wv_modes_hide(f));
}

/* What paths have left is not saved between two searches, so it is forgotten. */
static void go_on(wvgd_fit *f)
{
    wv_explore *e = &f->explore;
    memset(e->memory, 0, (size_t)(e->frame_turned + e->size - e->memory) * sizeof *e->memory);
    memset(e->end, 0, sizeof e->end);
    e->ends = e->uncovered = 0;
    e->turned = false;
    wv_images_forget(&f->images);
    begin_wave(f);
}

void wv_explore_again(wvgd_fit *f)
{
    f->explore.again_starts = f->explore.starts;
    f->explore.again_climbed = f->explore.climbed;
    go_on(f);
}

bool wv_explore_waits(const wvgd_fit *f)
{
    return f->explore.waits == WV_WAITING;
}

void wv_explore_go_on(wvgd_fit *f)
{
    f->explore.waits = WV_WAITED;
    go_on(f);
}

/* May a map to bent coordinates pay, if log p~ - log q has this sd under the Gaussian of the only mode? */
static bool bend_pays(const wvgd_fit *f, double sd)
{
    double wanted = wv_decide_lognormal_wanted(sd, f->opt.evidence_se);
    wv_prices p = {.K = 1, .D = f->D, .work = f->model.work, .draw_budget = f->size.close_budget};
    return wv_decide_look_for_bend(wanted, wv_decide_bend_price(p), 0, 0, false);
}

/* Ascents from everywhere lead along the ridges of a bent mode, and Gaussians at their ends explain little: it pays to
 * know the bend first, but in few dimensions, where ascents are short. */
static bool wait_for_bend(wvgd_fit *f)
{
    wv_explore *e = &f->explore;
    size_t m = wv_modes_heaviest(f);
    double sd = f->modes.mode[m].sd;
    wv_gaussian g = wv_modes_gaussian(f, m);
    if (e->waits == WV_NO_WAIT && f->dense && !wv_starts_few_dims(f) && f->modes.relevant == 1 &&
        sd < wv_policy.explore_settled && bend_pays(f, sd) && wv_bent_seems(f, &g))
        e->waits = WV_WAITING;
    return e->waits == WV_WAITING;
}

static void next_wave(wvgd_fit *f)
{
    if (f->modes.n && wv_images_begin(f))
        f->explore.phase = WV_IMAGED;
    else if (f->modes.n && (satisfied(f) || wait_for_bend(f)))
        f->explore.phase = WV_EXPLORED;
    else
        begin_wave(f);
}

/* Refuses a Gaussian that is narrower than doubles can tell. */
static bool refuse(wvgd_fit *f, const wv_gaussian *g)
{
    if (wv_modes_resolved(f, g))
        return false;
    f->explore.refused++;
    return true;
}

/* Has path k, which has ended in a known mode, come by Gaussians that may be a slab around it? Only a start whose
 * density is far more than the modes say tells of one; a few such paths are looked at, one of a wave. */
static bool passed_slab(wvgd_fit *f, size_t k)
{
    wv_path *p = &f->explore.path[k];
    size_t m = p->hit >= 0 ? (size_t)p->hit : 0;
    if (!f->dense || p->hit < 0 || !(p->above > wv_policy.judge_slab_above) || !p->stations ||
        f->explore.slab_starts == f->explore.starts || (double)f->explore.slabs >= wv_policy.judge_slab_paths)
        return false;
    wv_gaussian g = wv_modes_gaussian(f, m);
    if (!wv_ascent_leave_slabs(f, k, wv_modes_top_of(f, m), g.family->log_det(f->D, 0, g.root)))
        return false;
    f->explore.slabs++;
    f->explore.slab_starts = f->explore.starts;
    return true;
}

/* Log mass of the Gaussian g if it has the density of path p at its top. */
static double laplace(const wvgd_fit *f, const wv_path *p, const wv_gaussian *g)
{
    return p->log_p + g->family->log_det(f->D, 0, g->root) + (double)f->D * half_log_2pi;
}

/* Looks at the next path that has ended; when none is left, the next wave begins. */
static void next_end(wvgd_fit *f)
{
    for (size_t k = 0; k < f->explore.paths; k++) {
        wv_path *p = &f->explore.path[k];
        if (p->fresh || p->judged) /* no path, no density, or done with */
            continue;
        p->judged = 1;
        f->explore.wide += p->wide && p->at_top;
        if (explained(f, k)) {
            wv_modes_judge(f);
            if (!passed_slab(f, k))
                continue;
            f->explore.phase = WV_JUDGE;
            f->explore.judged = k;
            return;
        }
        /* got nowhere, or up without end */
        if ((!p->at_top && !p->pairs && !p->stations) || wv_modes_far_below(f, p->log_p) ||
            p->log_p > wv_policy.verdict_grows)
            continue;
        wv_ascent_leave_last(f, k);
        if (!f->dense) {
            wv_gaussian g = wv_ascent_station(f, k, 0);
            if (refuse(f, &g))
                continue;
            wv_modes_add(f, &g, laplace(f, p, &g), wv_policy.judge_unfitted_sd, p->wide);
            wv_modes_rescale(f);
            continue;
        }
        f->explore.phase = WV_JUDGE;
        f->explore.judged = k;
        return;
    }
    next_wave(f);
}

/* Fits the Gaussian in f->mix. */
static void fit_candidate(wvgd_fit *f)
{
    f->explore.phase = WV_ALONE;
    wv_draws_clear(&f->recent);
    wv_mixture_fit_begin(f, false);
}

/* Where the path that has just been fitted ended much higher than all modes together predict, and not at a wall,
 * something narrow stands there. With the mass of a mode its volume is smaller by what the density is
 * higher: that is where its fit begins. */
static bool spike(wvgd_fit *f)
{
    wv_path *p = &f->explore.path[f->explore.judged];
    const double *x = f->explore.path_x + f->explore.judged * f->D;
    size_t m = 0, D = f->D;
    double distance = INFINITY, above = p->log_p - wv_modes_predict(f, x, &m, &distance);
    if (p->spike || !p->at_top || p->walls || !(above > wv_policy.judge_spike && distance < wv_modes_bulk(f)))
        return false;
    p->spike = 1;
    size_t mark = wv_arena_mark(f->arena);
    double *root = wv_arena_take(f->arena, D * D);
    memcpy(root, f->modes.root + m * D * D, D * D * sizeof *root);
    cblas_dscal((int)(D * D), exp(-above / (double)D), root, 1);
    wv_mixture_set_one(&f->mix, x, root);
    wv_arena_release(f->arena, mark);
    fit_candidate(f);
    return true;
}

/* Where an ascent was short the curvature of its top is not known in all directions, and a fit may get lost whose draws
 * fall much farther than it says. It is fitted once more, from a Gaussian as much narrower. */
static bool begin_narrower(wvgd_fit *f, double elbo, double sd)
{
    wv_path *p = &f->explore.path[f->explore.judged];
    wv_gaussian g = wv_ascent_station(f, f->explore.judged, WV_STATIONS - 1);
    double half = (double)f->D / 2, missing = laplace(f, p, &g) - p->top_elbo;
    if (p->narrowed || p->spike || !p->at_top || p->slab < 0 || !f->modes.n || !wv_modes_too_light(f, elbo, sd) ||
        !(missing > wv_policy.judge_too_wide && missing < wv_policy.judge_meaningless))
        return false;
    p->narrowed = 1;
    wv_mixture_set_one(&f->mix, g.mu, g.root);
    wv_mixture_scale_root(&f->mix, 0, sqrt(half / (half + missing)));
    fit_candidate(f);
    return true;
}

/* The fit of a candidate may wander off to a heavier mode that is known, through what lies between the two. If its
 * top is then still not explained, it is a mode as its ascent found it: the Gaussian of the curvature there, unless its
 * draws have shown that it is none of the density. */
static bool keep_top(wvgd_fit *f)
{
    const wv_path *p = &f->explore.path[f->explore.judged];
    const double *x = f->explore.path_x + f->explore.judged * f->D;
    wv_gaussian g = wv_ascent_station(f, f->explore.judged, WV_STATIONS - 1);
    size_t m = 0;
    double distance = INFINITY, above = p->log_p - wv_modes_predict(f, x, &m, &distance),
           elbo = fmin(laplace(f, p, &g), p->top_elbo);
    if (!p->at_top || !(above > wv_policy.judge_kept_top && distance > wv_modes_bulk(f)) ||
        wv_modes_too_light(f, elbo, 0))
        return false;
    wv_modes_add(f, &g, elbo, wv_policy.judge_unfitted_sd, p->wide);
    return true;
}

/* Is g, fitted, mode m, from which it is so far? */
static bool same_mode(const wvgd_fit *f, const wv_gaussian *g, size_t m, double distance)
{
    double D = (double)f->D;
    wv_gaussian mode = wv_modes_gaussian(f, m);
    return distance < wv_policy.judge_same_distance * D + wv_policy.judge_same_spare &&
           fabs(g->family->log_det(f->D, 0, g->root) - mode.family->log_det(f->D, 0, mode.root)) <
               wv_policy.judge_same_volume * D;
}

/* Does a mode hide in mode m, as the final draws say of the end that has been fitted? */
static bool hidden(wvgd_fit *f, size_t m)
{
    return wv_modes_bad(f, m) && !wv_bent_known(f) && log_weight(f, f->explore.judged) > wv_policy.probe_uncovered;
}

/* Mode m has been found again, as g; not by a slab on the way to a top, which has been taken already. */
static void find_again(wvgd_fit *f, size_t m, const wv_gaussian *g, double elbo, double sd)
{
    const wv_path *p = &f->explore.path[f->explore.judged];
    if (p->slab >= 0)
        wv_modes_hit(f, m, p->wide);
    if (elbo > f->modes.mode[m].elbo)
        wv_modes_set(f, m, g, elbo, sd);
    if (p->slab >= 0 && !keep_top(f))
        remember_end(f, f->explore.judged, m);
}

/* One more mode. A spike in the middle of a slab and the slab are found by the same ascents: what hits one hits both.
 */
static void add(wvgd_fit *f, const wv_gaussian *g, double elbo, double sd)
{
    const wv_path *p = &f->explore.path[f->explore.judged];
    size_t m = 0, n = f->modes.n;
    double distance = INFINITY;
    if (n)
        wv_modes_predict(f, g->mu, &m, &distance);
    wv_modes_add(f, g, elbo, sd, p->wide);
    if (p->slab >= 0 && f->modes.n > n)
        remember_end(f, f->explore.judged, n);
    if (p->slab < 0 && f->modes.n > n)
        wv_modes_set_slab(f, n);
    if ((p->spike || p->slab < 0) && f->modes.n > n && distance < wv_policy.judge_nested * (double)f->D)
        wv_modes_join(f, n, m);
}

/* After its top, the slab that the path has passed is fitted, if it may have the mass of the heaviest mode there. */
static bool slab(wvgd_fit *f)
{
    wv_path *p = &f->explore.path[f->explore.judged];
    size_t station = (size_t)p->slab - 1, m = 0;
    double distance = INFINITY;
    if (p->slab <= 0)
        return false;
    p->slab = -1;
    wv_gaussian g = wv_ascent_station(f, f->explore.judged, station);
    if (f->modes.n)
        wv_modes_predict(f, g.mu, &m, &distance);
    if (f->modes.n && p->slab_elbo < f->modes.mode[m].elbo - wv_policy.judge_slab)
        return false;
    wv_mixture_set_one(&f->mix, g.mu, g.root);
    fit_candidate(f);
    return true;
}

/* The Gaussian in f->mix, fitted or (without any hope of weight) as it was found: a mode that is
 * known, or a new one. */
static void take(wvgd_fit *f, double elbo, double sd, bool fitted)
{
    wv_gaussian g = wv_mixture_component(&f->mix, 0);
    size_t m = 0, before = f->modes.relevant;
    double distance = INFINITY;
    if (fitted && begin_narrower(f, elbo, sd))
        return;
    if (isfinite(elbo) && isfinite(g.family->log_det(f->D, 0, g.root)) && !refuse(f, &g)) {
        if (f->modes.n && fitted)
            wv_modes_predict(f, g.mu, &m, &distance);
        if (same_mode(f, &g, m, distance) && !hidden(f, m))
            find_again(f, m, &g, elbo, sd);
        else
            add(f, &g, elbo, sd);
        wv_modes_rescale(f);
        if (fitted && spike(f))
            return;
    }
    if (slab(f))
        return;
    if (!f->explore.path[f->explore.judged].at_top)
        f->explore.idle = before && f->modes.relevant > before ? 0 : f->explore.idle + 1;
    next_end(f);
}

/* Has the candidate become a mode that is known, and no better than that? */
static bool arrived(wvgd_fit *f)
{
    wv_gaussian g = wv_mixture_component(&f->mix, 0);
    size_t m = 0;
    double distance = INFINITY;
    if (!f->modes.n || (double)f->fitting.iteration < wv_policy.judge_arrived_after)
        return false;
    wv_modes_predict(f, g.mu, &m, &distance);
    return f->fitting.elbo < f->modes.mode[m].elbo + wv_policy.judge_arrived_gain &&
           wv_modes_divergence(f, &g, m, distance) <
               wv_policy.judge_arrived_kl + wv_policy.judge_arrived_kl_dim * (double)f->D;
}

/* After some iterations a candidate still has no weight beside what is known: its fit has no need of more. */
static bool hopeless(const wvgd_fit *f)
{
    return f->modes.n && (double)f->fitting.iteration >= wv_policy.judge_patience &&
           wv_modes_too_light(f, f->fitting.best, f->fitting.best_sd);
}

/* Draws that judge a Gaussian. */
static size_t judges(void)
{
    return (size_t)wv_policy.judge_draws;
}

/* ELBO of a Gaussian by its draws x, [judges][D], and their densities, not all of them 0; those that are take some
 * nats from it. */
static double judge_station(wvgd_fit *f, const wv_gaussian *g, const double *x, const double *log_p)
{
    size_t mark = wv_arena_mark(f->arena);
    double *log_q = wv_arena_take(f->arena, judges()), *y = wv_arena_take(f->arena, judges() * f->D), sum = 0,
           finite = 0, n = wv_policy.judge_draws;
    wv_gaussian_log_density(g, judges(), x, log_q, y, f->arena);
    for (size_t k = 0; k < judges(); k++)
        if (log_p[k] > -INFINITY) {
            sum += log_p[k] - log_q[k];
            finite++;
        }
    wv_arena_release(f->arena, mark);
    return finite > 0 ? sum / finite - wv_policy.judge_without_density * (n - finite) / n : -INFINITY;
}

/* Which stations of a path have density; WV_STATIONS: none. */
typedef struct {
    size_t best, first, last;
    size_t slab;            /* the best before the last */
    double elbo, elbo_slab; /* of the best; of the slab */
    double elbo_last;
} judgement;

static judgement judge_path(wvgd_fit *f, size_t path)
{
    judgement j = {WV_STATIONS, WV_STATIONS, 0, WV_STATIONS, -INFINITY, -INFINITY, -INFINITY};
    size_t n = 0;
    for (size_t i = 0; i < WV_STATIONS; i++) {
        if (!(f->explore.path[path].stations & 1u << i))
            continue;
        wv_gaussian g = wv_ascent_station(f, path, i);
        double elbo = judge_station(f, &g, f->b.x + n * f->D, f->b.log_p + n);
        n += judges();
        if (!isfinite(elbo))
            continue;
        if (elbo > j.elbo)
            j.best = i;
        j.elbo = fmax(j.elbo, elbo);
        if (i + 1 == WV_STATIONS)
            j.elbo_last = elbo;
        else if (elbo > j.elbo_slab) {
            j.slab = i;
            j.elbo_slab = elbo;
        }
        j.first = j.first == WV_STATIONS ? i : j.first;
        j.last = i;
    }
    return j;
}

/* An ascent without end whose best station g, with that ELBO, lies in a known bulk and promises no more is a hit; */
static bool hits_bulk(wvgd_fit *f, const wv_gaussian *g, double elbo)
{
    size_t m = 0;
    double distance = INFINITY;
    if (!f->modes.n)
        return false;
    wv_modes_predict(f, g->mu, &m, &distance);
    if (!(distance < wv_modes_bulk(f) && elbo < f->modes.mode[m].elbo + wv_policy.judge_bulk_gain))
        return false;
    wv_modes_hit(f, m, f->explore.path[f->explore.judged].wide);
    wv_modes_judge(f);
    return true;
}

/* The log mass of the heaviest mode. */
static double top_elbo(const wvgd_fit *f)
{
    return f->modes.n ? f->modes.mode[wv_modes_heaviest(f)].elbo : -INFINITY;
}

/* Fits the candidate g, with that ELBO by a few draws, if it may matter: by these, or by what the curvature at its top
 * promises. On a bent ridge both may be hopeless, and yet its top as high as a mode's. */
static void try_candidate(wvgd_fit *f, const wv_path *p, const wv_gaussian *g, double elbo)
{
    bool high = p->at_top && f->modes.n && p->log_p > wv_modes_top(f) - wv_policy.judge_high_top;
    double promise = p->at_top ? fmax(elbo, laplace(f, p, g)) : elbo;
    wv_mixture_set_one(&f->mix, g->mu, g->root);
    if (promise > top_elbo(f) - wv_policy.judge_light - (double)f->D || high)
        fit_candidate(f);
    else if (p->at_top)
        take(f, elbo, wv_policy.judge_unfitted_sd, false);
    else
        next_end(f);
}

/* The best station of the path that has ended is a candidate, if it is the last; else the first: later ones of an
 * ascent without end lie in the neck of a funnel, and fits that begin there stay there. */
static void judge_stations(wvgd_fit *f)
{
    size_t path = f->explore.judged;
    wv_path *p = &f->explore.path[path];
    judgement j = judge_path(f, path);
    if (p->hit >= 0) { /* its top is known */
        p->slab = j.slab < WV_STATIONS ? (int)j.slab + 1 : 0;
        p->slab_elbo = j.elbo_slab;
        if (!slab(f))
            next_end(f);
        return;
    }
    if (j.best == WV_STATIONS && p->at_top && !f->modes.n) {
        /* a top near an edge, or in a small support: the fit contracts where draws have no density */
        j.best = j.last = WV_STATIONS - 1;
        j.elbo = p->log_p;
    }
    if (j.best == WV_STATIONS) {
        next_end(f);
        return;
    }
    if (p->at_top) {
        p->slab = j.elbo_slab > j.elbo_last - wv_policy.judge_slab ? (int)j.slab + 1 : 0;
        p->slab_elbo = j.elbo_slab;
        p->top_elbo = j.elbo_last;
        wv_gaussian top = wv_ascent_station(f, path, WV_STATIONS - 1);
        try_candidate(f, p, &top, j.elbo_last);
        return;
    }
    /* an ascent without end, not only a long one */
    wv_gaussian g = wv_ascent_station(f, path, j.best < j.last ? j.first : j.best);
    bool idle = (double)f->explore.idle >= wv_policy.judge_idle && j.elbo < top_elbo(f);
    if (!p->at_top && (hits_bulk(f, &g, j.elbo) || idle))
        next_end(f);
    else
        try_candidate(f, p, &g, j.elbo);
}

/* ---- ask and tell ------------------------------------------------------------------------------------------------ */
/* Where the model has no gradients densities come first: most starts, and many trial points, need no more. */
static bool unseen(const wvgd_fit *f, const wv_path *p)
{
    return p->active && !p->seen && !f->model.has_gradient;
}

static bool screening(const wvgd_fit *f)
{
    for (size_t k = 0; k < f->explore.paths; k++)
        if (unseen(f, &f->explore.path[k]))
            return true;
    return false;
}

/* Is path k in the batch? */
static bool asks(const wvgd_fit *f, size_t k, bool screened)
{
    const wv_path *p = &f->explore.path[k];
    return screened ? unseen(f, p) : p->active;
}

static void ask_climb(wvgd_fit *f)
{
    size_t n = 0;
    bool screened = screening(f);
    for (size_t k = 0; k < f->explore.paths; k++)
        if (asks(f, k, screened)) {
            f->b.log_p[n] = f->explore.path[k].seen_p;
            wv_ascent_trial(f, k, f->b.x + n++ * f->D);
        }
    f->b.n = n;
    f->b.extra = n > WV_PATHS ? n - WV_PATHS : 0;
}

static void ask_judge(wvgd_fit *f)
{
    size_t n = 0;
    for (size_t i = 0; i < WV_STATIONS; i++)
        if (f->explore.path[f->explore.judged].stations & 1u << i) {
            wv_gaussian g = wv_ascent_station(f, f->explore.judged, i);
            wv_stream stream = {f->opt.seed, WV_RNG_PILOT, f->count.batch, 0};
            wv_gaussian_draw(&g, &stream, 0, judges(), true, f->b.x + n * f->D, f->arena);
            n += judges();
        }
    f->b.n = n;
}

bool wv_explore_wants_gradient(const wvgd_fit *f)
{
    switch (f->explore.phase) {
    case WV_CLIMB: return !screening(f);
    case WV_JUDGE: return false;
    case WV_IMAGED: return wv_images_wants_gradient(f);
    default: return true;
    }
}

wvgd_status wv_explore_ask(wvgd_fit *f, wvgd_error *error)
{
    (void)error;
    switch (f->explore.phase) {
    case WV_CLIMB: ask_climb(f); break;
    case WV_JUDGE: ask_judge(f); break;
    case WV_ALONE: wv_mixture_fit_ask(f); break;
    case WV_IMAGED: wv_images_ask(f); break;
    case WV_EXPLORED: break;
    }
    return WVGD_OK;
}

/* Is the log density steeper than mode m says, at that squared distance from it? */
static bool steeper(wvgd_fit *f, size_t m, double distance, const double *g)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *slope = wv_arena_take(f->arena, D);
    wv_gaussian mode = wv_modes_gaussian(f, m);
    memcpy(slope, g, D * sizeof *slope);
    mode.family->pull(D, 0, mode.root, 1, slope, f->arena);
    bool steep = cblas_ddot((int)D, slope, 1, slope, 1) > wv_policy.explore_steeper * distance;
    wv_arena_release(f->arena, mark);
    return steep;
}

/* A start is noted at which p~/(m Z) is so large that final draws do not cover what is there. */
static void note_uncovered(wv_explore *e, double log_w, double log_p)
{
    if (!(log_w > wv_policy.probe_uncovered) || e->uncovered == WV_UNCOVERED)
        return;
    e->uncovered_p[e->uncovered] = log_p;
    e->uncovered_w[e->uncovered++] = log_w;
}

/* Once there is a mixture, path k ends where it starts if final draws would represent what is there, and no slope leads
 * to something narrow. */
static void foretell(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g)
{
    wv_path *p = &f->explore.path[k];
    double log_w, distance, log_det;
    size_t m = 0;
    if (!f->explore.again_starts || !p->active || wv_explore_climbs(f))
        return;
    wv_modes_predict(f, x, &m, &distance);
    log_w = log_p - wv_bent_log_density(f, x, &log_det) - f->outcome.evidence.value;
    note_uncovered(&f->explore, log_w, log_p + log_det);
    if (log_w > wv_policy.explore_represented || (p->above > 0 && steeper(f, m, distance, g)))
        return;
    p->hit = (int)m;
    wv_ascent_end(f, k, true);
}

/* Where no start of the user's scale had density, that of the first which has, path k, takes its place. */
static void take_scale(wvgd_fit *f, size_t k)
{
    const wv_path *p = &f->explore.path[k];
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, wv_modes_root_size(f));
    for (size_t i = 0; i < D; i++)
        sd[i] = wv_starts_scale(f, p, 1);
    wv_modes_family(f)->set_sd(D, 0, root, sd);
    if (!f->modes.n && p->start && p->tries)
        wv_ascent_frame(f, root);
    wv_arena_release(f->arena, mark);
}

/* The answer at the start of path k: the ascent begins, or another start is tried, closer, where there is no density
 * or a wall; from a wall in larger steps. */
static void tell_start(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g)
{
    wv_path *p = &f->explore.path[k];
    bool nothing = log_p == -INFINITY,
         movable = f->modes.n && p->start >= wv_starts_user(f) && p->closer < wv_policy.start_wall_tries;
    if (!nothing && !(movable && wv_modes_walled(f, x, log_p))) {
        take_scale(f, k);
        wv_ascent_begin(f, k, log_p, x, g);
        foretell(f, k, log_p, x, g);
        return;
    }
    p->tries++;
    p->seen = 0;
    p->closer += nothing ? 2 * (double)p->tries / wv_policy.start_tries : wv_policy.start_wall_step;
    if ((double)p->tries >= wv_policy.start_tries)
        wv_ascent_end(f, k, false);
    else
        wv_starts_draw(f, p, f->explore.path_x + k * f->D);
}

static void tell_path(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g)
{
    bool again = f->explore.path[k].seen;
    f->explore.path[k].evaluations += !again;
    f->explore.climbed += !again;
    if (f->explore.path[k].fresh)
        tell_start(f, k, log_p, x, g);
    else
        wv_ascent_advance(f, k, log_p, x, g);
}

static void tell_climb(wvgd_fit *f)
{
    size_t n = 0, active = 0;
    bool screened = screening(f);
    for (size_t k = 0; k < f->explore.paths; k++) {
        if (asks(f, k, screened)) {
            tell_path(f, k, f->b.log_p[n], f->b.x + n * f->D, screened ? NULL : f->b.grad + n * f->D);
            n++;
        }
        active += f->explore.path[k].active ? 1 : 0;
    }
    if (!active)
        next_end(f);
}

/* Has no start led to a mode, and is the next wave about to begin? */
static bool without_modes(const wvgd_fit *f)
{
    return !f->modes.n && (double)f->explore.starts > wv_policy.explore_hopeless_starts &&
           f->explore.phase == WV_CLIMB && f->explore.path[0].fresh && !f->explore.path[0].seen &&
           !f->explore.path[0].tries;
}

bool wv_explore_done(const wvgd_fit *f)
{
    return f->explore.phase == WV_EXPLORED;
}

/* There was density, and no way up. */
static wvgd_status fail_without_modes(wvgd_fit *f, wvgd_error *error)
{
    size_t all = f->count.evaluations;
    return wv_fail(error, WVGD_E_NO_DRAWS,
                   "no mode found: the log density was finite at %zu of %zu points, but ascents from %zu starting "
                   "points of scale %g came to no top: check the gradient%s; is it the logarithm (not its negative) of "
                   "a density that is proper, and bounded?",
                   all - f->count.zero_points - f->count.bad_points, all, f->explore.starts - 1, f->opt.init_scale,
                   f->model.has_gradient ? " (--check-gradient), and its sign" : "");
}

/* Is the density the same wherever it is not zero, in more dimensions than Gaussians can fill a box in? */
static bool flat_box(const wvgd_fit *f)
{
    return f->differences.room && (double)f->D >= wv_policy.explore_flat_dims && f->count.zero_points &&
           (double)f->count.evaluations > wv_policy.explore_flat_evaluations && wv_differences_flat(&f->differences);
}

wvgd_status wv_explore_tell(wvgd_fit *f, wvgd_error *error)
{
    switch (f->explore.phase) {
    case WV_CLIMB: tell_climb(f); break;
    case WV_JUDGE: judge_stations(f); break;
    case WV_ALONE:
        if (wv_mixture_fit_tell(f) || hopeless(f) || arrived(f))
            take(f, f->fitting.elbo, f->fitting.sd, true);
        break;
    case WV_IMAGED:
        wv_images_tell(f);
        next_wave(f);
        break;
    case WV_EXPLORED: break;
    }
    if (flat_box(f))
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "the log density was %g at %zu of %zu points, and -INFINITY or NaN at all others: there is "
                       "no shape to fit but the walls; if they are limits of parameters, give them as such, so that "
                       "parameters are transformed (wvgd_model_bounded; docs/c.md)",
                       f->differences.highest, f->count.evaluations - f->count.zero_points - f->count.bad_points,
                       f->count.evaluations);
    if (without_modes(f) && f->explore.refused)
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "ascents from %zu starting points ended where the density changes within less than a double "
                       "resolves: shift or rescale the parameters, check the gradient",
                       f->explore.starts - 1);
    if (without_modes(f) && f->count.bad_points && f->count.bad_points + f->count.zero_points == f->count.evaluations)
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "the log density or its gradient was NaN or infinite at all %zu points tried: check the model",
                       f->count.evaluations);
    if (without_modes(f) && f->differences.room && wv_differences_noise(&f->differences) > wv_policy.differences_rough)
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "no mode found from %zu starting points: log densities at neighbouring points scatter (sd "
                       "%.2g), so differences show no way up; fix the random numbers of the model, or make it "
                       "more accurate",
                       f->explore.starts - 1, wv_differences_noise(&f->differences));
    if (without_modes(f) && f->count.zero_points == f->count.evaluations)
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "the log density was -INFINITY at all %zu points tried, near 0 and far from it: give starting "
                       "points where it is finite, set init-scale, or give parameters their limits, so that they are "
                       "transformed (wvgd_model_bounded; docs/c.md)",
                       f->count.evaluations);
    if (without_modes(f))
        return fail_without_modes(f, error);
    return WVGD_OK;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */
/* How many of N particles each mode gets: one each for the heaviest N, the rest in proportion to mass (largest
 * remainders by repeated best quotient). */
static void allot(wvgd_fit *f, size_t *count)
{
    size_t left = f->N;
    memset(count, 0, WV_MODES * sizeof *count);
    while (left) {
        size_t pick = 0;
        double best = -INFINITY;
        bool bare = false;
        for (size_t m = 0; m < f->modes.n; m++)
            bare |= f->modes.mode[m].relevant && !count[m];
        for (size_t m = 0; m < f->modes.n; m++) {
            double score = f->modes.mode[m].elbo - log((double)count[m] + 0.5);
            if (f->modes.mode[m].relevant && (!bare || !count[m]) && score > best) {
                best = score;
                pick = m;
            }
        }
        count[pick]++;
        left--;
    }
}

/* Particle j starts in mode m: at its top when alone there, else at a draw from its Gaussian. */
static void place_in_mode(wvgd_fit *f, size_t j, size_t m, bool alone)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    wv_gaussian g = wv_modes_gaussian(f, m);
    wv_stream stream = {f->opt.seed, WV_RNG_START, 1, j};
    double *z = wv_arena_take(f->arena, D), *sd = wv_arena_take(f->arena, D);
    if (alone)
        memcpy(z, g.mu, D * sizeof *z);
    else
        wv_gaussian_draw(&g, &stream, 0, 1, false, z, f->arena);
    g.family->sd(D, 0, g.root, sd);
    wv_partition_place(&f->cells, j, z, &g, sd);
    wv_arena_release(f->arena, mark);
}

void wv_explore_place(wvgd_fit *f)
{
    size_t count[WV_MODES], j = 0, best = 0;
    if (!f->modes.n) /* stopped before any ascent has ended: particles stay where the given scale puts them */
        return;
    allot(f, count);
    for (size_t m = 0; m < f->modes.n; m++) {
        if (f->modes.mode[m].elbo > f->modes.mode[best].elbo)
            best = m;
        for (size_t c = 0; c < count[m]; c++)
            place_in_mode(f, j++, m, count[m] == 1);
    }
    wv_gaussian g = wv_modes_gaussian(f, best);
    if (f->pilot.wanted)
        wv_pilot_start(&f->pilot, g.mu, g.root);
    if (!(f->opt.metric && f->opt.cost == WVGD_MAHALANOBIS))
        wv_partition_set_metric(&f->cells, g.root);
}
