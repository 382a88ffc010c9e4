/* modes.c - the modes that ascents have found, each a Gaussian with a log mass: what they predict, which of them
 * matter, and the frame in which later ascents run. */
#include "staged/modes.h"
#include "fit.h"
#include "error.h"
#include "memory.h"
#include "gaussian.h"
#include "dense.h"
#include "mixture.h"
#include "policy.h"
#include "staged/bent.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

/* Modes whose roots of so many doubles there is room for. */
static size_t room_for(size_t size)
{
    size_t fit = (size_t)wv_policy.modes_room / size;
    return fit > WV_MODES ? WV_MODES : fit < 1 ? 1 : fit;
}

bool wv_modes_new(wv_modes *m, size_t D, bool dense, bool used)
{
    *m = (wv_modes){.D = D, .size = used ? (dense ? wv_times(D, D) : D) : 0};
    m->room = used ? room_for(m->size) : 0;
    const wv_slot slots[] = {{&m->x, wv_times(m->room, D)},
                             {&m->root, wv_times(m->room, m->size)},
                             {&m->frame, m->size},
                             {&m->centre, used ? D : 0}};
    m->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    return m->memory != NULL;
}

void wv_modes_free(wv_modes *m)
{
    free(m->memory);
}

void wv_modes_copy(wv_modes *to, const wv_modes *from)
{
    to->n = from->n;
    to->relevant = from->relevant;
    to->hit_once = from->hit_once;
    to->orbits = from->orbits;
    to->distinct = from->distinct;
    to->wide_hits = from->wide_hits;
    to->scatter = from->scatter;
    memcpy(to->mode, from->mode, sizeof to->mode);
    memcpy(to->x, from->x, from->n * from->D * sizeof *to->x);
    memcpy(to->root, from->root, from->n * from->size * sizeof *to->root);
}

bool wv_modes_archive(wv_modes *m, wv_archive *a)
{
    struct {
        size_t n, relevant, hit_once, orbits, distinct, wide_hits;
        double scatter;
        wv_mode mode[WV_MODES];
    } s = {.n = m->n,
           .relevant = m->relevant,
           .hit_once = m->hit_once,
           .orbits = m->orbits,
           .distinct = m->distinct,
           .wide_hits = m->wide_hits,
           .scatter = m->scatter};
    memcpy(s.mode, m->mode, sizeof s.mode);
    wv_archive_values(a, &s, sizeof s);
    bool flags = true;
    for (size_t k = 0; k < WV_MODES; k++)
        flags = flags && !(s.mode[k].relevant & ~1) && !(s.mode[k].imaged & ~1) && !(s.mode[k].slab & ~1) &&
                !(s.mode[k].part & ~1);
    if (!flags || s.n > m->room || s.relevant > s.n)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        m->n = s.n;
        m->relevant = s.relevant;
        m->hit_once = s.hit_once;
        m->orbits = s.orbits;
        m->distinct = s.distinct;
        m->wide_hits = s.wide_hits;
        m->scatter = s.scatter;
        memcpy(m->mode, s.mode, sizeof m->mode);
    }
    wv_archive_array(a, m->x, s.n * m->D);
    wv_archive_array(a, m->root, s.n * m->size);
    wv_archive_array(a, m->frame, m->size);
    wv_archive_array(a, m->centre, m->room ? m->D : 0);
    return true;
}

static const double half_log_2pi = 0.918938533204672741780;

const wv_modes *wv_modes_of(const wvgd_fit *f)
{
    return &f->modes;
}

size_t wv_modes_root_size(const wvgd_fit *f)
{
    return f->dense ? f->D * f->D : f->D;
}

size_t wv_modes_most(const wvgd_fit *f)
{
    return room_for(wv_modes_root_size(f));
}

const wv_family *wv_modes_family(const wvgd_fit *f)
{
    return wv_family_get(f->dense ? WVGD_FULL : WVGD_DIAG);
}

wv_gaussian wv_modes_gaussian(const wvgd_fit *f, size_t m)
{
    return (
        wv_gaussian){wv_modes_family(f), f->D, 0, f->modes.x + m * f->D, f->modes.root + m * wv_modes_root_size(f), 0};
}

double wv_modes_top_of(const wvgd_fit *f, size_t m)
{
    wv_gaussian g = wv_modes_gaussian(f, m);
    return f->modes.mode[m].elbo - g.family->log_det(f->D, 0, g.root) - (double)f->D * half_log_2pi;
}

/* Log density at x that the first `among` modes predict together; the one that says most of it, and the squared
 * distance from it. While a bend is known, the first mode is what it says. */
static double predict(wvgd_fit *f, size_t among, const double *x, size_t *mode, double *distance)
{
    double total = -INFINITY, best = -INFINITY, log_q;
    size_t mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, f->D); /* x in the coordinates of a mode */
    for (size_t m = 0; m < among; m++) {
        double here, apart;
        if (f->modes.mode[m].part)
            continue;
        if (!m && wv_bent_known(f))
            here = wv_bent_predict(f, x, &apart);
        else {
            wv_gaussian g = wv_modes_gaussian(f, m);
            wv_gaussian_log_density(&g, 1, x, &log_q, y, f->arena);
            here = log_q + f->modes.mode[m].elbo;
            apart = cblas_ddot((int)f->D, y, 1, y, 1);
        }
        wv_weights_add_log(1, &total, 0, &here);
        if (here > best) {
            best = here;
            *mode = m;
            *distance = apart;
        }
    }
    wv_arena_release(f->arena, mark);
    return total;
}

double wv_modes_predict(wvgd_fit *f, const double *x, size_t *mode, double *distance)
{
    return predict(f, f->modes.n, x, mode, distance);
}

bool wv_modes_resolved(wvgd_fit *f, const wv_gaussian *g)
{
    size_t mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, f->D);
    bool resolved = true;
    g->family->sd(f->D, 0, g->root, sd);
    for (size_t i = 0; i < f->D; i++)
        resolved = resolved && sd[i] > wv_policy.modes_resolved * 0x1p-52 * fabs(g->mu[i]);
    wv_arena_release(f->arena, mark);
    return resolved;
}

double wv_modes_bulk(const wvgd_fit *f)
{
    return (double)f->D + wv_policy.modes_bulk_sds * sqrt(2 * (double)f->D);
}

bool wv_modes_bad(const wvgd_fit *f, size_t m)
{
    return f->modes.mode[m].sd > wv_policy.explore_hiding;
}

bool wv_modes_hide(const wvgd_fit *f)
{
    size_t bad = 0;
    for (size_t m = 0; m < f->modes.n; m++)
        bad += f->modes.mode[m].relevant && wv_modes_bad(f, m);
    return f->modes.relevant > 1 && bad;
}

/* Nats by which a prediction at this squared distance from mode m may be off. */
static double doubt(const wvgd_fit *f, size_t m, double distance)
{
    return wv_policy.modes_doubt + wv_policy.modes_doubt_distance * distance +
           wv_policy.modes_doubt_sd * (!m && wv_bent_known(f) ? wv_bent_sd(f) : f->modes.mode[m].sd);
}

/* Whether the density is less than any mode predicts in its bulk; that of a bent one may be anything. */
static bool too_low(const wvgd_fit *f, double log_p)
{
    double bulk = wv_modes_bulk(f);
    if (wv_bent_known(f))
        return false;
    for (size_t m = 0; m < f->modes.n; m++)
        if (log_p >= wv_modes_top_of(f, m) - bulk / 2 - doubt(f, m, bulk))
            return false;
    return true;
}

/* What the modes say of a point: the one that says most, the squared distance from it, and the log density. */
typedef struct {
    size_t mode;
    double distance, expected;
} prediction;

/* The mode of which the point is a part, if its density is what is predicted; -1: there is none. */
static int part_of(const wvgd_fit *f, const prediction *p, double log_p)
{
    const wv_mode *mode = &f->modes.mode[p->mode];
    if (wv_explore_climbs(f))
        return -1;
    return !too_low(f, log_p) && mode->relevant && !mode->slab && p->distance < wv_modes_bulk(f) &&
                   fabs(log_p - p->expected) < doubt(f, p->mode, p->distance)
               ? (int)p->mode
               : -1;
}

int wv_modes_known(wvgd_fit *f, const double *x, double log_p)
{
    prediction p = {0, INFINITY, 0};
    if (too_low(f, log_p))
        return -1;
    p.expected = wv_modes_predict(f, x, &p.mode, &p.distance);
    return part_of(f, &p, log_p);
}

int wv_modes_foretell(wvgd_fit *f, const double *x, double log_p, double *above)
{
    prediction p = {0, INFINITY, 0};
    *above = 0;
    if (!f->modes.n)
        return -1;
    p.expected = wv_modes_predict(f, x, &p.mode, &p.distance);
    *above = log_p - p.expected;
    return fabs(log_p - p.expected) < wv_policy.modes_foretold ? (int)p.mode : part_of(f, &p, log_p);
}

size_t wv_modes_heaviest(const wvgd_fit *f)
{
    size_t best = 0;
    for (size_t m = 1; m < f->modes.n; m++)
        best = f->modes.mode[m].elbo > f->modes.mode[best].elbo ? m : best;
    return best;
}

double wv_modes_top(const wvgd_fit *f)
{
    return wv_modes_top_of(f, wv_modes_heaviest(f));
}

/* More than the modes predict anywhere. */
static double highest(const wvgd_fit *f)
{
    double most = -INFINITY;
    for (size_t m = 0; m < f->modes.n; m++)
        most = fmax(most, wv_modes_top_of(f, m));
    return most + log((double)f->modes.n);
}

bool wv_modes_far_below(const wvgd_fit *f, double log_p)
{
    return f->modes.n && log_p < wv_modes_top(f) - wv_policy.judge_far_below * (double)(f->D + 1);
}

bool wv_modes_walled(wvgd_fit *f, const double *x, double log_p)
{
    size_t m = 0;
    double distance = INFINITY, top = wv_modes_top(f);
    if (top - log_p < wv_policy.modes_wall + wv_policy.modes_wall_ratio * (top - highest(f)))
        return false; /* whatever they predict there */
    return top - log_p >
           wv_policy.modes_wall + wv_policy.modes_wall_ratio * (top - wv_modes_predict(f, x, &m, &distance));
}

bool wv_modes_too_light(const wvgd_fit *f, double elbo, double sd)
{
    return !(elbo + fmin(sd * sd / 2, wv_policy.modes_light) >=
             f->modes.mode[wv_modes_heaviest(f)].elbo - wv_policy.modes_light);
}

/* Is mode m an image of one before it that matters? */
static bool repeats(const wvgd_fit *f, size_t m)
{
    for (size_t k = 0; k < m; k++)
        if (f->modes.mode[k].relevant && f->modes.mode[k].orbit == f->modes.mode[m].orbit)
            return true;
    return false;
}

void wv_modes_judge(wvgd_fit *f)
{
    f->modes.relevant = f->modes.hit_once = f->modes.distinct = f->modes.wide_hits = 0;
    for (size_t m = 0; m < f->modes.n; m++) {
        wv_mode *mode = &f->modes.mode[m];
        mode->relevant = !mode->part && !wv_modes_too_light(f, mode->elbo, mode->sd);
        f->modes.relevant += mode->relevant ? 1 : 0;
        f->modes.hit_once += mode->relevant && mode->hits == 1;
        if (mode->relevant && !repeats(f, m)) {
            f->modes.distinct++;
            f->modes.wide_hits += mode->wide;
        }
    }
}

void wv_modes_begin(wvgd_fit *f)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D);
    for (size_t i = 0; i < D; i++)
        sd[i] = f->opt.init_scale;
    wv_modes_family(f)->set_sd(D, 0, f->modes.frame, sd);
    memset(f->modes.centre, 0, D * sizeof(double));
    f->modes.scatter = 1;
    wv_arena_release(f->arena, mark);
}

void wv_modes_hit(wvgd_fit *f, size_t m, bool wide)
{
    for (size_t k = 0; k < f->modes.n; k++)
        if (f->modes.mode[k].orbit == f->modes.mode[m].orbit) {
            f->modes.mode[k].hits++;
            f->modes.mode[k].wide += wide;
        }
}

/* C [D][D] <- the mean covariance of the relevant modes in the coordinates of `frame`, the root of the heaviest. Each
 * is divided by its volume, their sum is multiplied by the mean volume (geometric). A: [D][D]. */
static void mean_covariance(const wvgd_fit *f, const double *frame, double *C, double *A)
{
    size_t D = f->D;
    double volume = 0, count = (double)f->modes.relevant, log_det = wv_modes_family(f)->log_det(D, 0, frame);
    memset(C, 0, D * D * sizeof *C);
    for (size_t m = 0; m < f->modes.n; m++) {
        if (!f->modes.mode[m].relevant)
            continue;
        wv_gaussian g = wv_modes_gaussian(f, m);
        double larger = (g.family->log_det(D, 0, g.root) - log_det) / (double)D;
        memcpy(A, g.root, D * D * sizeof *A);
        cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, exp(-larger),
                    frame, (int)D, A, (int)D);
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)D, (int)D, 1 / count, A, (int)D, 1.0, C, (int)D);
        volume += larger / count;
    }
    cblas_dscal((int)(D * D), exp(2 * volume), C, 1);
    wv_dense_mirror(D, C);
}

/* The frame of later ascents: a root of that mean covariance. All of it is relative to the heaviest mode, so that the
 * sum does not see what the modes have in common, such as units or a shear. */
static bool mean_frame(wvgd_fit *f, double *frame)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    wv_gaussian heaviest = wv_modes_gaussian(f, wv_modes_heaviest(f));
    bool made = true;
    memcpy(frame, heaviest.root, wv_modes_root_size(f) * sizeof *frame);
    if (f->dense) {
        double *C = wv_arena_take(f->arena, D * D), *A = wv_arena_take(f->arena, D * D);
        mean_covariance(f, frame, C, A);
        made = heaviest.family->absorb(D, 0, frame, C, f->arena);
    }
    wv_arena_release(f->arena, mark);
    return made;
}

void wv_modes_scales(const wvgd_fit *f, double *scale)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *inverse = wv_arena_take(f->arena, D * D);
    wv_dense_invert(D, f->modes.frame, inverse);
    for (size_t i = 0; i < D; i++)
        scale[i] = 1 / cblas_dnrm2((int)(D - i), inverse + i * (D + 1), (int)D);
    wv_arena_release(f->arena, mark);
}

/* The mean of the relevant modes, and their mean squared distance from it, a dimension, in units of the frame. */
static double variance_of_modes(wvgd_fit *f, const double *frame, double *centre)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, D), variance = 0; /* a mode in the coordinates of the frame */
    memset(centre, 0, D * sizeof *centre);
    for (size_t m = 0; m < f->modes.n; m++)
        if (f->modes.mode[m].relevant)
            cblas_daxpy((int)D, 1 / (double)f->modes.relevant, f->modes.x + m * D, 1, centre, 1);
    wv_gaussian middle = {wv_modes_family(f), D, 0, centre, frame, 0};
    for (size_t m = 0; m < f->modes.n; m++)
        if (f->modes.mode[m].relevant) {
            wv_gaussian_whiten(&middle, 1, f->modes.x + m * D, y, f->arena);
            variance += cblas_ddot((int)D, y, 1, y, 1) / ((double)f->modes.relevant * (double)D);
        }
    wv_arena_release(f->arena, mark);
    return variance;
}

/* Do starts around such a centre stay in the range of numbers? Where ascents run away they do not. */
static bool in_range(size_t D, const double *centre, const double *sd, double scatter)
{
    for (size_t i = 0; i < D; i++)
        if (!(sd[i] > 1e-110 && scatter * sd[i] < 1e110 && fabs(centre[i]) < 1e110))
            return false;
    return true;
}

void wv_modes_rescale(wvgd_fit *f)
{
    size_t D = f->D, size = wv_modes_root_size(f), mark = wv_arena_mark(f->arena);
    double *frame = wv_arena_take(f->arena, size), *centre = wv_arena_take(f->arena, D),
           *sd = wv_arena_take(f->arena, D);
    wv_modes_judge(f);
    if (mean_frame(f, frame)) {
        double scatter = wv_policy.modes_scatter *
                         fmax(wv_policy.modes_least_sd, sqrt(variance_of_modes(f, frame, centre)));
        wv_modes_family(f)->sd(D, 0, frame, sd);
        if (in_range(D, centre, sd, scatter)) { /* else: go on as before */
            memcpy(f->modes.frame, frame, size * sizeof *frame);
            memcpy(f->modes.centre, centre, D * sizeof *centre);
            f->modes.scatter = scatter;
        }
    }
    wv_arena_release(f->arena, mark);
}

void wv_modes_set(wvgd_fit *f, size_t m, const wv_gaussian *g, double elbo, double sd)
{
    wv_mode *mode = &f->modes.mode[m];
    memcpy(f->modes.x + m * f->D, g->mu, f->D * sizeof(double));
    memcpy(f->modes.root + m * wv_modes_root_size(f), g->root, wv_modes_root_size(f) * sizeof(double));
    mode->elbo = elbo;
    mode->sd = sd;
}

static size_t lightest(const wvgd_fit *f)
{
    size_t m = 0;
    for (size_t i = 1; i < f->modes.n; i++)
        if (f->modes.mode[i].elbo < f->modes.mode[m].elbo)
            m = i;
    return m;
}

void wv_modes_add(wvgd_fit *f, const wv_gaussian *g, double elbo, double sd, bool wide)
{
    size_t m = f->modes.n;
    if (m == wv_modes_most(f)) { /* full: replace the lightest, if this one is better */
        m = lightest(f);
        if (!(elbo > f->modes.mode[m].elbo))
            return;
    } else
        f->modes.n++;
    f->modes.mode[m] = (wv_mode){.hits = 1, .wide = wide, .orbit = f->modes.orbits++};
    wv_modes_set(f, m, g, elbo, sd);
}

void wv_modes_add_image(wvgd_fit *f, size_t m, const wv_gaussian *g)
{
    wv_mode like = f->modes.mode[m];
    size_t at = f->modes.n < wv_modes_most(f) ? f->modes.n++ : lightest(f);
    if (at < f->modes.n - 1 && !(like.elbo > f->modes.mode[at].elbo))
        return;
    like.imaged = 0;
    f->modes.mode[at] = like;
    wv_modes_set(f, at, g, like.elbo, like.sd);
}

void wv_modes_set_imaged(wvgd_fit *f, size_t m)
{
    f->modes.mode[m].imaged = 1;
}

static void exchange(wvgd_fit *f, size_t a, size_t b)
{
    size_t size = wv_modes_root_size(f);
    wv_mode mode = f->modes.mode[a];
    f->modes.mode[a] = f->modes.mode[b];
    f->modes.mode[b] = mode;
    cblas_dswap((int)f->D, f->modes.x + a * f->D, 1, f->modes.x + b * f->D, 1);
    cblas_dswap((int)size, f->modes.root + a * size, 1, f->modes.root + b * size, 1);
}

void wv_modes_order(wvgd_fit *f)
{
    size_t first = 0;
    for (size_t m = 0; m < f->modes.n; m++)
        if (f->modes.mode[m].relevant)
            exchange(f, first++, m); /* all between the two do not matter */
}

size_t wv_modes_nearest(wvgd_fit *f, size_t among, const double *x)
{
    size_t best = 0;
    double distance;
    predict(f, among, x, &best, &distance);
    return best;
}

void wv_modes_join(wvgd_fit *f, size_t a, size_t b)
{
    f->modes.mode[a].orbit = f->modes.mode[b].orbit;
}

void wv_modes_unite(wvgd_fit *f)
{
    wv_mode *mode = f->modes.mode;
    if (f->modes.relevant < 2)
        return;
    exchange(f, 0, wv_modes_heaviest(f));
    for (size_t m = 1; m < f->modes.n; m++)
        if (mode[m].relevant) {
            mode[m].part = 1;
            mode[0].hits += mode[m].hits;
            mode[0].wide += mode[m].wide;
        }
    wv_modes_rescale(f);
}

void wv_modes_separate(wvgd_fit *f)
{
    bool some = false;
    for (size_t m = 0; m < f->modes.n; m++) {
        some = some || f->modes.mode[m].part;
        f->modes.mode[m].part = 0;
    }
    if (some)
        wv_modes_rescale(f);
}

void wv_modes_set_slab(wvgd_fit *f, size_t m)
{
    f->modes.mode[m].slab = 1;
}

double wv_modes_divergence(wvgd_fit *f, const wv_gaussian *g, size_t m, double distance)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *A = wv_arena_take(f->arena, D * D); /* the root of g as the mode sees it */
    wv_gaussian mode = wv_modes_gaussian(f, m);
    memcpy(A, g->root, D * D * sizeof *A);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, mode.root,
                (int)D, A, (int)D);
    double trace = cblas_ddot((int)(D * D), A, 1, A, 1);
    wv_arena_release(f->arena, mark);
    return (trace + distance - (double)D) / 2 + mode.family->log_det(D, 0, mode.root) -
           g->family->log_det(D, 0, g->root);
}

size_t wv_modes_nearest_to(wvgd_fit *f, size_t among, const wv_gaussian *g)
{
    size_t best = 0, mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, f->D), most = -INFINITY;
    for (size_t m = 0; m < among; m++) {
        wv_gaussian mode = wv_modes_gaussian(f, m);
        wv_gaussian_whiten(&mode, 1, g->mu, y, f->arena);
        double mass = f->modes.mode[m].elbo - wv_modes_divergence(f, g, m, cblas_ddot((int)f->D, y, 1, y, 1));
        best = mass > most ? m : best;
        most = fmax(most, mass);
    }
    wv_arena_release(f->arena, mark);
    return best;
}

void wv_modes_assign(wvgd_fit *f, size_t n, const double *x, size_t *mode)
{
    size_t D = f->D, modes = f->modes.relevant, K = f->staged ? f->mix.K : 0, mark = wv_arena_mark(f->arena),
           *mode_of = wv_arena_take_sizes(f->arena, K); /* [K] */
    for (size_t k = 0; k < K; k++) {
        wv_gaussian g = wv_mixture_component(&f->mix, k);
        mode_of[k] = wv_modes_nearest_to(f, modes, &g);
    }
    if (f->staged)
        wv_mixture_owners(&f->mix, n, x, mode, f->arena);
    for (size_t i = 0; i < n; i++)
        mode[i] = modes < 2 ? 0 : f->staged ? mode_of[mode[i]] : wv_modes_nearest(f, modes, x + i * D);
    wv_arena_release(f->arena, mark);
}
