/* starts.c - where ascents start: given points first, then the model's own or the user's scale, then around the modes
 * that are known, in units of their own sds, but for a share of the former. docs/internals/staged.md has the table. */
#include "staged/starts.h"
#include "fit.h"
#include "gaussian.h"
#include "policy.h"
#include "rng.h"
#include "staged/images.h"
#include "staged/modes.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* Starts that were given, */
static size_t given_starts(const wvgd_fit *f)
{
    return f->given ? f->N : 0;
}

bool wv_starts_few_dims(const wvgd_fit *f)
{
    return (double)f->D < wv_policy.start_few_dims;
}

/* those of the given scale after them (in few dimensions, where ascents are short, more of them are worth while), */
static size_t user_starts(const wvgd_fit *f)
{
    return (size_t)(wv_starts_few_dims(f) ? wv_policy.start_user_few_dims : wv_policy.start_user);
}

/* of which the later ones wait their turn where ascents turn out to be long after all. */
static size_t first_starts(const wvgd_fit *f)
{
    bool lengthy = (double)f->explore.climbed > wv_policy.start_lengthy * (double)f->explore.starts;
    return (size_t)(lengthy ? wv_policy.start_user : (double)user_starts(f));
}

size_t wv_starts_enough(const wvgd_fit *f)
{
    if (f->modes.relevant > 1)
        return (size_t)wv_policy.start_enough_mode * (f->modes.distinct + 1);
    return (size_t)(wv_starts_few_dims(f) ? wv_policy.start_enough_few_dims : wv_policy.start_enough);
}

size_t wv_starts_user(const wvgd_fit *f)
{
    return given_starts(f) + user_starts(f);
}

/* x, a standard normal draw, becomes a start of the model's own. */
static void model_start(wvgd_fit *f, double *x)
{
    size_t mark = wv_arena_mark(f->arena);
    double *normal = wv_arena_take(f->arena, f->D);
    memcpy(normal, x, f->D * sizeof *x);
    f->model.start(f->model.start_self, normal, x);
    wv_arena_release(f->arena, mark);
}

bool wv_starts_rugged(const wvgd_fit *f)
{
    return (double)f->modes.wide_hits < wv_policy.explore_rugged * (double)f->explore.wide;
}

double wv_starts_unseen(const wvgd_fit *f)
{
    double W = (double)f->modes.distinct, n = (double)f->explore.wide;
    return n > W + 2 && W > 0 ? W * (n - 1) / (n - W - 2) - W : NAN;
}

/* Are there lighter modes beside those that matter? Then there may be more of both. */
static bool has_others(const wvgd_fit *f)
{
    double least = f->modes.n ? f->modes.mode[wv_modes_heaviest(f)].elbo - wv_policy.explore_others : 0;
    size_t n = 0;
    for (size_t m = 0; m < f->modes.n; m++)
        n += f->modes.mode[m].elbo > least;
    return n > f->modes.relevant;
}

bool wv_starts_unseen_many(const wvgd_fit *f)
{
    double share = has_others(f) ? wv_policy.explore_unseen_others : wv_policy.explore_unseen;
    return !(wv_starts_unseen(f) <= share * (double)f->modes.distinct);
}

double wv_starts_patience(const wvgd_fit *f)
{
    return (has_others(f) ? wv_policy.explore_unseen_starts_others : wv_policy.explore_unseen_starts) *
           (double)wv_starts_enough(f);
}

/* Is this one of the starts that have the scale of prior or user, to the end? What is unseen is known from them, so
 * that beyond those that are enough all have it. */
static bool keeps_scale(const wvgd_fit *f, size_t start)
{
    double every = wv_starts_rugged(f) ? wv_policy.start_wide_every_rugged : wv_policy.start_wide_every;
    return start < given_starts(f) + first_starts(f) || start % (size_t)every == 0 ||
           (start >= wv_starts_enough(f) && start % 2 == 0 && wv_starts_unseen_many(f));
}

double wv_starts_far_away(wvgd_fit *f)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D), units = 0, sds = 0, n = (double)(f->modes.relevant * D);
    if (f->modes.n && !f->model.start && f->opt.init == WVGD_INIT_EXPLORE &&
        (double)f->explore.starts > wv_policy.start_shell_after) {
        wv_modes_family(f)->sd(D, 0, f->modes.frame, sd);
        for (size_t m = 0; m < f->modes.n; m++)
            for (size_t i = 0; f->modes.mode[m].relevant && i < D; i++) {
                units += pow(f->modes.x[m * D + i] / f->opt.init_scale, 2) / n;
                sds += pow(f->modes.x[m * D + i] / sd[i], 2) / n;
            }
    }
    wv_arena_release(f->arena, mark);
    bool far = fmin(units, sds) > pow(wv_policy.start_far_away, 2);
    return far && units < pow(wv_policy.verdict_far, 2) ? sqrt(sds) : 0; /* else it is hardly proper */
}

bool wv_starts_travel(wvgd_fit *f)
{
    return f->modes.relevant == 1 && wv_starts_far_away(f) > 0;
}

/* The width of a start among the modes, for narrow ones: the fewer coordinates of modes there are, the less is known of
 * how far apart they lie. */
static double narrow_width(const wvgd_fit *f, double u)
{
    double W = (double)f->modes.relevant,
           span = wv_policy.start_narrow_span + wv_policy.start_narrow_unknown / sqrt((double)f->D * (W - 1));
    return exp2(wv_policy.start_narrow_low + span * u) * sqrt(W / (W - 1));
}

/* The width of a start around the modes, in units of their scatter; u: uniform. */
static double width(const wvgd_fit *f, size_t start, double u)
{
    /* among the modes, for narrow ones */
    if (f->modes.relevant > 1 && start > wv_starts_enough(f) && !keeps_scale(f, start))
        return narrow_width(f, u);
    if (f->modes.relevant > 1)
        return exp2(wv_policy.start_several_low + wv_policy.start_several_span * u);
    if (start % (size_t)wv_policy.start_close_every == 0)
        return exp2(wv_policy.start_close_low + wv_policy.start_close_span * u);
    bool early = start < given_starts(f) + (size_t)wv_policy.start_farther_after * user_starts(f);
    return exp2(wv_policy.start_far_low + (early ? wv_policy.start_far_span : wv_policy.start_farther_span) * u);
}

/* The same of one on a shell around the only mode, whose standard normal has this norm. */
static double shell_width(const wvgd_fit *f, double norm, double u)
{
    double nearer = f->explore.again_starts ? wv_policy.start_shell_again : 0; /* sds of what is more than a Gaussian */
    return exp2(wv_policy.start_shell_low - nearer + (wv_policy.start_shell_span + nearer) * u) /
           (f->modes.scatter * norm);
}

/* Is this one of the starts that have the scale of the user although the modes lie wider apart? Starts around these are
 * wider still, and hardly ever lie among modes in the middle. */
static bool returns(const wvgd_fit *f, size_t start)
{
    return !f->model.start && f->modes.relevant > 1 && start % (size_t)wv_policy.start_again_every == 1;
}

/* Is the only mode that matters as easily found as it should be? */
static bool single(const wvgd_fit *f)
{
    return f->modes.relevant == 1 && !wv_starts_rugged(f);
}

/* Is this a start of which the heaviest mode has most coordinates? Without a prior every other of them, since the scale
 * of the user need not be theirs. */
static bool redraws(const wvgd_fit *f, const wv_path *p)
{
    if (p->wide || p->tries)
        return false;
    if (single(f))
        return p->start <= wv_starts_enough(f) || wv_starts_unseen_many(f);
    return wv_starts_rugged(f) && (f->model.start || p->start / 2 % 2);
}

/* x, a standard normal draw, becomes the heaviest mode but for some coordinates, one or a share of them, which have the
 * scale of prior or user, or beside a single mode a wider one. Where tops have parts that are right or wrong on their
 * own, as the lines of a spectrum, the best one may need one part only. */
static void redraw(wvgd_fit *f, const wv_stream *stream, double *x)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *u = wv_arena_take(f->arena, D), which, wider;
    const double *top = f->modes.x + wv_modes_heaviest(f) * D;
    wv_rng_uniform(stream, 1, 1, &which);
    wv_rng_uniform(stream, 3, 1, &wider);
    if (f->model.start)
        model_start(f, x);
    else
        cblas_dscal((int)D, f->opt.init_scale * (single(f) ? exp2(wv_policy.start_redrawn_span * wider) : 1), x, 1);
    wv_rng_uniform(stream, 2, D, u);
    bool one = which < wv_policy.start_redrawn_one;
    size_t only = (size_t)(which / wv_policy.start_redrawn_one * (double)D);
    for (size_t i = 0; i < D; i++)
        if (one ? i != only : u[i] > wv_policy.start_redrawn)
            x[i] = top[i];
    wv_arena_release(f->arena, mark);
}

/* x, a start around the modes of so many units of the frame, is stretched to the user's scale along coordinates where
 * it is narrower, if `stretched`. Whether it then has that scale. */
static bool stretch(wvgd_fit *f, double units, bool stretched, double *x)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D);
    bool narrow = false;
    wv_modes_family(f)->sd(D, 0, f->modes.frame, sd);
    for (size_t i = 0; i < D; i++) {
        double times = fmax(f->opt.init_scale / (units * sd[i]), 1);
        narrow = narrow || times > 1;
        x[i] = stretched ? times * x[i] + f->modes.centre[i] / times : x[i] + f->modes.centre[i];
    }
    wv_arena_release(f->arena, mark);
    return stretched || !narrow;
}

/* x, a standard normal draw, becomes a start around the modes. Whether it has the scale of the user, or a wider one. */
static bool scatter_around(wvgd_fit *f, const wv_path *p, double u, double *x)
{
    size_t D = f->D;
    double closer = pow(wv_policy.start_closer, p->closer);
    bool keeps = keeps_scale(f, p->start),
         shell = !keeps && f->modes.relevant == 1 && (double)p->start > wv_policy.start_shell_after;
    double units = (shell ? shell_width(f, cblas_dnrm2((int)D, x, 1), u) : width(f, p->start, u)) * f->modes.scatter;
    cblas_dscal((int)D, units * closer, x, 1);
    wv_modes_family(f)->colour(D, 0, f->modes.frame, 1, x, f->arena);
    return stretch(f, units, keeps, x);
}

/* x, a standard normal draw, becomes a start about as far from the middle of the user's starts as the modes. */
static void travel(wvgd_fit *f, const wv_path *p, double sds, double u, double *x)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D),
           times = sds * exp2(wv_policy.start_travel_span * (2 * u - 1) / 2) * pow(wv_policy.start_closer, p->closer);
    wv_modes_family(f)->sd(D, 0, f->modes.frame, sd);
    for (size_t i = 0; i < D; i++)
        x[i] *= times * sd[i];
    wv_arena_release(f->arena, mark);
}

/* The mirror image of the heaviest mode: signs that may all be changed, in products and networks. */
static void mirror_mode(const wvgd_fit *f, double *x)
{
    memcpy(x, f->modes.x + wv_modes_heaviest(f) * f->D, f->D * sizeof *x);
    cblas_dscal((int)f->D, -1, x, 1);
}

double wv_starts_scale(const wvgd_fit *f, const wv_path *p, double wide)
{
    double turns = (double)((p->tries + 1) / 2) * (1 + (double)p->start / wv_policy.start_reach);
    return wide * f->opt.init_scale * pow(wv_policy.start_closer, p->tries % 2 ? -turns : turns);
}

void wv_starts_draw(wvgd_fit *f, wv_path *p, double *x)
{
    size_t D = f->D, given = given_starts(f), user = wv_starts_user(f);
    double u, sds = wv_starts_far_away(f);
    bool first = p->start < given + first_starts(f), prior = f->opt.init == WVGD_INIT_PRIOR,
         around = f->modes.n && !first && f->opt.init != WVGD_INIT_NORMAL;
    bool alone = sds > 0 && f->modes.relevant == 1,
         travels = sds > 0 && (alone ? p->start % (size_t)wv_policy.start_travel_every != 1 : returns(f, p->start));
    wv_stream stream = {f->opt.seed, WV_RNG_EXPLORE, p->start, p->tries};
    p->wide = alone ? travels : keeps_scale(f, p->start) || prior || f->opt.init == WVGD_INIT_NORMAL;
    if (p->start < given && !p->tries) {
        memcpy(x, f->cells.now.z + p->start * D, D * sizeof *x);
        return;
    }
    if (around && !p->tries && !p->wide && wv_images_start(f, x))
        return;
    wv_rng_normal(&stream, 0, D, x);
    wv_rng_uniform(&stream, 1, 1, &u);
    if (f->model.start && (prior || (p->wide && !p->tries)))
        model_start(f, x);
    else if (travels && p->start != user)
        travel(f, p, sds, u, x);
    else if (around && p->start != user && !alone && redraws(f, p))
        redraw(f, &stream, x);
    else if (around && p->start == user && !p->tries) {
        mirror_mode(f, x);
        p->wide = 0;
    } else if (around && !p->wide && !p->tries && returns(f, p->start))
        cblas_dscal((int)D, f->opt.init_scale, x, 1);
    else if (around)
        p->wide = scatter_around(f, p, u, x) && !alone;
    else
        cblas_dscal((int)D, wv_starts_scale(f, p, first ? 1 : width(f, p->start, u)), x, 1);
}
