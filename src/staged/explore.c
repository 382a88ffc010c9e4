/* explore.c - waves of L-BFGS ascents in lock step: every batch holds one trial point of each path, so
 * a model that likes batches gets them.
 *
 * Paths run in coordinates of a frame: the user's scale at first, then the mean covariance of the modes found, so
 * that after the first mode neither units nor shears matter. The first ascent goes alone, so that the others can
 * be cut short where they come into the bulk of a mode that is known, with the density that it predicts, or begin
 * where the known modes predict the density exactly. An end that nothing known explains is a candidate: the
 * Gaussian of the path's curvature pairs, at its end, or, where the ascent did not settle, at that of its
 * stations whose ELBO is best (a funnel's density rises without end, its ELBO does not). Candidates that are not
 * hopelessly light are fitted at once (mixture_fit.c with one component): the fit says what mass the mode has and
 * whether it is new. Later waves start from wider scatter around the modes found, in units of their own sds, until many
 * starts have found nothing new and every mode of weight has been hit twice. In more than WV_DENSE dimensions
 * ends are taken as they are, with diagonal Gaussians. */
#include "staged/explore.h"
#include "fit.h"
#include "error.h"
#include "memory.h"
#include "gaussian.h"
#include "rng.h"
#include "simd/columns.h"
#include "joint/joint.h"
#include "staged/mixture_fit.h"
#include "staged/modes.h"
#include "draws.h"
#include "staged/staged.h"
#include <cblas.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

enum {
    MEMORY = WV_PAIRS, /* curvature pairs kept */
    LOOK = 25,         /* trials of a line search */
    JUDGES = 8,        /* draws that judge a candidate */
    PATIENCE = 8,      /* iterations in which it must gain weight */
    FITS = 8,          /* fits of one end */
    MOST = 20000,      /* evaluations after which no wave begins */
    WALLS = 27,        /* tries of a start against walls */
    IDLE = 1           /* fits of ascents without end that have led to nothing new, after which others are not fitted */
};
static const double armijo = 1e-4, curvature = 0.9, relevant = 12, near_end = 0.01,
                    half_log_2pi = 0.918938533204672741780;
/* accepted steps at which a path leaves its Gaussian behind; the last is its end */
static const size_t stations[WV_STATIONS - 1] = {2, 5, 10, 20, 40, 80, 160};

bool wv_explore_new(wv_explore *e, size_t D, bool dense, bool used)
{
    size_t each = dense ? WV_STATIONS : 1, padded = wv_columns_round(D), size = dense ? wv_times(D, D) : D;
    *e = (wv_explore){.D = D, .size = size, .padded = padded, .stations = each};
    size_t paths = used ? WV_PATHS : 0, left = paths * each;
    const wv_slot slots[] = {
        {&e->frame, used ? size : 0},
        {&e->end_x, used ? wv_times(WV_ENDS, D) : 0},
        {&e->path_x, wv_times(paths, D)},
        {&e->path_p, wv_times(paths, D)},
        {&e->path_g, wv_times(paths, padded)},
        {&e->path_q, wv_times(paths, padded)},
        {&e->path_s, wv_times(WV_KEPT * paths, padded)},
        {&e->path_y, wv_times(WV_KEPT * paths, padded)},
        {&e->station_x, wv_times(left, D)},
        {&e->station_root, wv_times(left, size)},
        {&e->frame_turned, used && dense ? size : 0},
    };
    e->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    return e->memory != NULL;
}

void wv_explore_free(wv_explore *e)
{
    free(e->memory);
}

static bool flag(int value)
{
    return !(value & ~1);
}

static bool archive_path(wv_path *path, wv_archive *a)
{
    wv_path p = *path;
    wv_archive_values(a, &p, sizeof p);
    if (!flag(p.active) || !flag(p.fresh) || !flag(p.settled) || !flag(p.judged) || !flag(p.spike) || p.tries > 40 ||
        p.hit < -1 || p.hit >= WV_MODES || (p.stations | p.made) >> WV_STATIONS)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        *path = p;
    return true;
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

bool wv_explore_archive(wv_explore *e, wv_archive *a, bool running)
{
    struct {
        size_t phase, starts, climbed, judged, idle, ends;
    } s = {e->phase, e->starts, e->climbed, e->judged, e->idle, e->ends};
    wv_archive_values(a, &s, sizeof s);
    if (s.phase > WV_ALONE || s.judged >= WV_PATHS || s.ends > WV_ENDS || (running && !e->frame))
        return wv_archive_refuse(a);
    for (size_t i = 0; i < WV_ENDS; i++)
        if (!archive_end(&e->end[i], a))
            return false;
    for (size_t k = 0; k < WV_PATHS; k++)
        if (!archive_path(&e->path[k], a))
            return false;
    if (wv_archive_reading(a)) {
        e->phase = (wv_exploring)s.phase;
        e->starts = s.starts;
        e->climbed = s.climbed;
        e->judged = s.judged;
        e->idle = s.idle;
        e->ends = s.ends;
        e->turned = false;
    }
    size_t paths = running ? WV_PATHS : 0;
    wv_archive_array(a, e->frame, running ? e->size : 0);
    wv_archive_array(a, e->end_x, running ? s.ends * e->D : 0);
    wv_archive_array(a, e->path_x, paths * e->D);
    wv_archive_array(a, e->path_p, paths * e->D);
    wv_archive_array(a, e->path_g, paths * e->padded);
    wv_archive_array(a, e->path_q, paths * e->padded);
    wv_archive_array(a, e->path_s, paths * WV_KEPT * e->padded);
    wv_archive_array(a, e->path_y, paths * WV_KEPT * e->padded);
    wv_archive_array(a, e->station_x, paths * e->stations * e->D);
    wv_archive_array(a, e->station_root, paths * e->stations * e->size);
    return true;
}

static wv_gaussian station(const wvgd_fit *f, size_t k, size_t i)
{
    size_t at = k * wv_explore_stations(f) + i;
    return (wv_gaussian){wv_modes_family(f),
                         f->D,
                         0,
                         f->explore.station_x + at * f->D,
                         f->explore.station_root + at * wv_modes_root_size(f),
                         0};
}

size_t wv_explore_stations(const wvgd_fit *f)
{
    return f->dense ? WV_STATIONS : 1;
}

/* ---- starts ------------------------------------------------------------------------------------------------------ */
/* Starts of the given scale: in few dimensions, where ascents are short, more of them are worth their while. */
static size_t user(const wvgd_fit *f)
{
    return f->D < 10 ? 16 : 8;
}

/* Starts that are enough for as many modes as have been found. */
static size_t enough(const wvgd_fit *f)
{
    /* in many dimensions the far field of several modes leads to one of them */
    return f->modes.relevant <= 1 ? (f->D < 10 ? 24 : 40) : 25 * (f->modes.relevant + 1);
}

/* A start: given ones first, then the model's own or the user's scale, then scattered around the known modes;
 * closer after every start without density. */
static void scatter(wvgd_fit *f, wv_path *p, double *x)
{
    size_t D = f->D, given = f->given ? f->N : 0;
    double u, wide = 1;
    bool first = p->start < given + user(f), prior = f->opt.init == WVGD_INIT_PRIOR;
    wv_stream stream = {f->opt.seed, WV_RNG_EXPLORE, p->start, p->tries};
    if (p->start < given && !p->tries) {
        memcpy(x, f->cells.now.z + p->start * D, D * sizeof *x);
        return;
    }
    wv_rng_normal(&stream, 0, D, x);
    wv_rng_uniform(&stream, 1, 1, &u);
    if (f->model.start && (prior || (first && !p->tries))) {
        memcpy(f->desk.vector[0], x, D * sizeof *x);
        f->model.start(f->model.start_self, f->desk.vector[0], x);
        return;
    }
    if (!first)
        wide = f->modes.relevant > 1 && p->start > enough(f) && p->start % 2
                   ? exp2(-1.5 + u) /* among the modes, for narrow ones */
               : f->modes.relevant > 1 ? exp2(-1 + 3 * u)
               : p->start % 3 == 0     ? exp2(-1 + 2 * u)
                                       : exp2(1 + (p->start < given + 2 * user(f) ? 3 : 5) * u);
    wide *= pow(0.8, (double)p->tries);
    bool around = f->modes.n && !first && f->opt.init != WVGD_INIT_NORMAL;
    if (around && f->modes.relevant == 1 && p->start > 48 && p->start % 2)
        wide = exp2(1.6 + 2.4 * u) / (f->modes.scatter * cblas_dnrm2((int)D, x, 1)) * pow(0.8, (double)p->tries);
    if (around && p->start == given + user(f) && !p->tries) {
        /* signs that may all be changed, in products and networks: the mirror image of a mode */
        memcpy(x, f->modes.x + wv_modes_heaviest(f) * D, D * sizeof *x);
        cblas_dscal((int)D, -1, x, 1);
        return;
    }
    cblas_dscal((int)D, wide * (around ? f->modes.scatter : f->opt.init_scale), x, 1);
    if (around) {
        wv_modes_family(f)->colour(D, 0, f->modes.frame, 1, x, f->arena);
        cblas_daxpy((int)D, 1.0, f->modes.centre, 1, x, 1);
    }
}

static void begin_wave(wvgd_fit *f)
{
    size_t paths = f->modes.n ? WV_PATHS : 1;
    memcpy(f->explore.frame, f->modes.frame, wv_modes_root_size(f) * sizeof(double));
    f->explore.turned = false;
    f->explore.phase = WV_CLIMB;
    for (size_t k = 0; k < WV_PATHS; k++) {
        f->explore.path[k] = (wv_path){.active = k < paths, .fresh = 1};
        if (k < paths) {
            f->explore.path[k].start = f->explore.starts++;
            scatter(f, &f->explore.path[k], f->explore.path_x + k * f->D);
        }
    }
}

void wv_explore_begin(wvgd_fit *f)
{
    f->stage = WV_EXPLORE;
    for (size_t i = 0; i < f->D; i++)
        f->desk.vector[0][i] = f->opt.init_scale;
    wv_modes_family(f)->set_sd(f->D, 0, f->modes.frame, f->desk.vector[0]);
    memset(f->modes.centre, 0, f->D * sizeof(double));
    f->modes.scatter = 1;
    begin_wave(f);
}

/* Would the trial point of path k leave the range of numbers? An ascent without end. */
static bool out_of_range(const wvgd_fit *f, size_t k)
{
    for (size_t i = 0; i < f->D; i++)
        if (!(fabs(f->explore.path_x[k * f->D + i] + f->explore.path[k].step * f->explore.path_p[k * f->D + i]) <
              1e120))
            return true;
    return false;
}

/* ---- one path ---------------------------------------------------------------------------------------------------- */
/* A gradient as the frame sees it, out <- F' g, */
static void to_frame(const wvgd_fit *f, const double *g, double *out)
{
    if (f->dense)
        wv_columns_best()->row_times(f->D, g, f->explore.frame, out);
    for (size_t i = 0; i < f->D && !f->dense; i++)
        out[i] = f->explore.frame[i] * g[i];
}

/* and a direction of the frame in the model's coordinates, out <- F v. */
static void from_frame(wvgd_fit *f, const double *v, double *out)
{
    size_t D = f->D;
    for (size_t i = 0; i < D * D && f->dense && !f->explore.turned; i++)
        f->explore.frame_turned[i % D * D + i / D] = f->explore.frame[i];
    f->explore.turned = true;
    if (f->dense)
        wv_columns_best()->row_times(D, v, f->explore.frame_turned, out);
    for (size_t i = 0; i < D && !f->dense; i++)
        out[i] = f->explore.frame[i] * v[i];
}

/* Path k in the frame: rows of this length, of which what is beyond D is 0. */
static size_t padded(const wvgd_fit *f)
{
    return wv_columns_round(f->D);
}

/* Curvature pairs of a path, the newest of `last` first. */
typedef struct {
    size_t n;
    const double *s[MEMORY], *y[MEMORY];
    double sy[MEMORY];
    double gamma; /* length of the first step */
} pairs;

static pairs pairs_of(const wvgd_fit *f, size_t k, size_t last)
{
    pairs p = {.n = last < MEMORY ? last : MEMORY, .gamma = 1};
    size_t P = padded(f);
    for (size_t q = 0; q < p.n; q++) {
        size_t at = (last - 1 - q) % WV_KEPT;
        p.s[q] = f->explore.path_s + (k * WV_KEPT + at) * P;
        p.y[q] = f->explore.path_y + (k * WV_KEPT + at) * P;
        p.sy[q] = f->explore.path[k].sy[at];
    }
    if (p.n)
        p.gamma = p.sy[0] / cblas_ddot((int)f->D, p.y[0], 1, p.y[0], 1);
    return p;
}

/* H v for the path's L-BFGS inverse Hessian (in the frame) after `last` pairs, in place; v is padded. */
static void two_loop(const wvgd_fit *f, size_t k, size_t last, double *v)
{
    pairs p = pairs_of(f, k, last);
    wv_columns_best()->row_secants(padded(f), p.n, p.s, p.y, p.sy, p.gamma, v);
}

/* H itself, [D][D]: the same for the rows of I, all at once. */
static void inverse_hessian(wvgd_fit *f, size_t k, size_t last, double *H)
{
    int D = (int)f->D;
    pairs p = pairs_of(f, k, last);
    double *A = f->desk.uy; /* [MEMORY][D] */
    memset(H, 0, f->D * f->D * sizeof *H);
    for (size_t i = 0; i < f->D; i++)
        H[i * f->D + i] = 1;
    for (size_t q = 0; q < p.n; q++) {
        double *a = A + q * f->D;
        cblas_dgemv(CblasRowMajor, CblasNoTrans, D, D, 1 / p.sy[q], H, D, p.s[q], 1, 0.0, a, 1);
        cblas_dger(CblasRowMajor, D, D, -1.0, a, 1, p.y[q], 1, H, D);
    }
    cblas_dscal(D * D, p.gamma, H, 1);
    for (size_t q = p.n; q-- > 0;) {
        double *a = A + q * f->D;
        cblas_dgemv(CblasRowMajor, CblasNoTrans, D, D, -1 / p.sy[q], H, D, p.y[q], 1, 1.0, a, 1);
        cblas_dger(CblasRowMajor, D, D, 1.0, a, 1, p.s[q], 1, H, D);
    }
}

/* Root of the path's inverse Hessian, in the model's coordinates. */
static bool path_root(wvgd_fit *f, size_t k, size_t last, double *root)
{
    size_t D = f->D;
    double *H = f->desk.square[1], *v = f->explore.path_q + k * padded(f); /* the direction is no longer needed */
    memcpy(root, f->explore.frame, wv_modes_root_size(f) * sizeof *root);
    if (!f->dense) { /* of its diagonal, one unit vector at a time */
        for (size_t i = 0; i < D; i++) {
            memset(v, 0, padded(f) * sizeof *v);
            v[i] = 1;
            two_loop(f, k, last, v);
            root[i] *= sqrt(fmax(v[i], 1e-300));
        }
        return true;
    }
    inverse_hessian(f, k, last, H);
    for (size_t i = 0; i < D; i++)
        for (size_t c = 0; c < i; c++)
            H[i * D + c] = H[c * D + i] = (H[i * D + c] + H[c * D + i]) / 2;
    return wv_modes_family(f)->absorb(D, 0, root, H, f->arena);
}

/* Leaves the path's Gaussian behind as station i; its root is worked out when it is wanted, or the pairs are about
 * to be overwritten: a path that settles needs none but the last. */
static void leave(wvgd_fit *f, size_t k, size_t i)
{
    wv_path *p = &f->explore.path[k];
    memcpy(f->explore.station_x + (k * wv_explore_stations(f) + i) * f->D, f->explore.path_x + k * f->D,
           f->D * sizeof(double));
    p->left[i] = p->pairs;
    p->stations |= 1u << i;
    p->made &= ~(1u << i);
}

static void make_roots(wvgd_fit *f, size_t k)
{
    wv_path *p = &f->explore.path[k];
    for (size_t i = 0; i < wv_explore_stations(f); i++) {
        double *root = f->explore.station_root + (k * wv_explore_stations(f) + i) * wv_modes_root_size(f);
        if (!(p->stations & ~p->made & 1u << i))
            continue;
        if (!path_root(f, k, p->left[i], root))
            memcpy(root, f->explore.frame, wv_modes_root_size(f) * sizeof *root);
        p->made |= 1u << i;
    }
}

static void end_path(wvgd_fit *f, size_t k, bool settled)
{
    f->explore.path[k].active = 0;
    f->explore.path[k].settled = settled;
}

/* New direction H g; the first is the gradient, at most one unit of the frame long. */
static void aim(wvgd_fit *f, size_t k)
{
    size_t D = f->D;
    wv_path *p = &f->explore.path[k];
    double *dir = f->explore.path_q + k * padded(f), *g = f->explore.path_g + k * padded(f);
    memcpy(dir, g, padded(f) * sizeof *dir);
    if (p->pairs)
        two_loop(f, k, p->pairs, dir);
    else
        cblas_dscal((int)D, 1 / fmax(1, cblas_dnrm2((int)D, dir, 1)), dir, 1);
    from_frame(f, dir, f->explore.path_p + k * D);
    p->slope = cblas_ddot((int)D, dir, 1, g, 1);
    p->step = 1;
    p->low = 0;
    p->high = INFINITY;
    p->looks = 0;
    if (!(p->slope > 0) || !isfinite(p->slope) || out_of_range(f, k))
        end_path(f, k, p->slope < 1e-3);
}

static void accept(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g)
{
    wv_path *p = &f->explore.path[k];
    size_t D = f->D, P = padded(f), newest = p->pairs % WV_KEPT;
    double *s = f->explore.path_s + (k * WV_KEPT + newest) * P, *y = f->explore.path_y + (k * WV_KEPT + newest) * P,
           *last = f->explore.path_g + k * P, *now = f->desk.vector[0], sy = 0;
    if (p->pairs >= WV_KEPT)
        make_roots(f, k);
    to_frame(f, g, now);
    for (size_t i = 0; i < D; i++) {
        s[i] = p->step * f->explore.path_q[k * P + i];
        y[i] = last[i] - now[i];
        last[i] = now[i];
        sy += s[i] * y[i];
    }
    p->sy[newest] = sy;
    if (sy > 1e-12 * cblas_dnrm2((int)D, s, 1) * cblas_dnrm2((int)D, y, 1))
        p->pairs++;
    p->stalls = log_p - p->log_p < 1e-3 ? p->stalls + 1 : 0;
    p->log_p = log_p;
    p->accepted++;
    memcpy(f->explore.path_x + k * D, x, D * sizeof *x);
    for (size_t i = 0; i + 1 < wv_explore_stations(f); i++)
        if (p->accepted == stations[i])
            leave(f, k, i);
    p->hit = wv_modes_known(f, x, log_p);
    if (p->hit >= 0 || p->stalls >= 3)
        end_path(f, k, true);
    else
        aim(f, k);
}

/* Takes the answer at the path's trial point: weak Wolfe conditions by bisection. */
static void advance(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g)
{
    size_t D = f->D;
    wv_path *p = &f->explore.path[k];
    p->evaluations++;
    f->explore.climbed++;
    if (p->fresh) {
        bool nothing = log_p == -INFINITY, far = p->start >= user(f) + (f->given ? f->N : 0);
        if (nothing || (f->modes.n && far && p->tries < WALLS && wv_modes_walled(f, x, log_p))) {
            /* closer, in larger steps from a wall */
            p->tries += nothing ? 1 : 3;
            if (p->tries >= 40)
                end_path(f, k, false);
            else
                scatter(f, p, f->explore.path_x + k * D);
            return;
        }
        p->fresh = 0;
        p->log_p = log_p;
        to_frame(f, g, f->explore.path_g + k * padded(f));
        p->hit = wv_modes_foretell(f, x, log_p);
        if (p->hit >= 0)
            end_path(f, k, true);
        else
            aim(f, k);
        return;
    }
    double slope = cblas_ddot((int)D, f->explore.path_p + k * D, 1, g, 1);
    bool rises = log_p >= p->log_p + armijo * p->step * p->slope, flat = slope <= curvature * p->slope;
    if (rises && (flat || ++p->looks >= LOOK)) {
        accept(f, k, log_p, x, g);
    } else if (++p->looks >= LOOK) {
        end_path(f, k, false);
        return;
    } else {
        if (rises)
            p->low = p->step;
        else
            p->high = p->step;
        p->step = p->high == INFINITY ? 2 * p->step : (p->low + p->high) / 2;
    }
    bool runaway = f->modes.n && p->log_p > wv_modes_top(f) + (double)D;
    /* with a known mode's frame, ascents that end are short */
    if (p->active && (p->evaluations >= (runaway      ? 60 + D
                                         : f->modes.n ? 90 + 2 * D
                                                      : 100 + 4 * D) ||
                      out_of_range(f, k)))
        end_path(f, k, false);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */
/* Small tops beside a mode, whose Gaussian when fitted becomes the mode's: ends that have been fitted are
 * remembered, and the mode that they led to. The end of path k among these, or s.ends. */
static size_t find_end(wvgd_fit *f, size_t k)
{
    const wv_path *p = &f->explore.path[k];
    wv_gaussian here = {wv_modes_family(f), f->D, 0, f->explore.path_x + k * f->D, f->modes.frame, 0};
    size_t e = 0;
    for (; e < f->explore.ends; e++) {
        wv_gaussian_whiten(&here, 1, f->explore.end_x + e * f->D, f->desk.vector[0], f->arena);
        if (fabs(f->explore.end[e].log_p - p->log_p) < 0.1 &&
            cblas_ddot((int)f->D, f->desk.vector[0], 1, f->desk.vector[0], 1) < near_end * (double)f->D)
            break;
    }
    return e;
}

/* The mode to which the end of path k has led again and again, or -1. */
static int fitted_before(wvgd_fit *f, size_t k)
{
    size_t e = f->explore.path[k].settled ? find_end(f, k) : f->explore.ends;
    return e < f->explore.ends && f->explore.end[e].fits >= FITS ? f->explore.end[e].mode : -1;
}

static void remember_end(wvgd_fit *f, size_t k, size_t mode)
{
    const wv_path *p = &f->explore.path[k];
    size_t e = find_end(f, k);
    if (!p->settled || e == WV_ENDS)
        return;
    if (e == f->explore.ends) {
        f->explore.end[f->explore.ends++] = (wv_end){.log_p = p->log_p};
        memcpy(f->explore.end_x + e * f->D, f->explore.path_x + k * f->D, f->D * sizeof(double));
    }
    f->explore.end[e].mode = (int)mode;
    f->explore.end[e].fits++;
}

/* Has the path ended so low that a mode there would have to be wider by e^20 in every direction
 * than the heaviest that is known? */
static bool far_below(const wvgd_fit *f, size_t k)
{
    return f->modes.n && f->explore.path[k].log_p < wv_modes_top(f) - 20 * (double)(f->D + 1);
}

/* Is the end of path k explained by what is known? Then it is a hit. */
static bool explained(wvgd_fit *f, size_t k)
{
    wv_path *p = &f->explore.path[k];
    const double *x = f->explore.path_x + k * f->D;
    size_t m = 0;
    double distance = INFINITY;
    if (f->modes.n && p->hit < 0)
        p->hit = fitted_before(f, k);
    if (f->modes.n &&
        (p->hit >= 0 || (p->log_p - wv_modes_predict(f, x, &m, &distance) < 2 && distance < wv_modes_bulk(f)))) {
        f->modes.mode[p->hit >= 0 ? (size_t)p->hit : m].hits++;
        return true;
    }
    return false;
}

static bool satisfied(const wvgd_fit *f)
{
    size_t W = f->modes.relevant, n = f->explore.starts;
    if (f->opt.starts)
        return n >= f->opt.starts;
    if (f->count.evaluations > MOST) /* modes without end, as on a shell: the rest is for the mixture to cover */
        return true;
    if (W == 1 && n < 48 &&
        f->explore.climbed < 160) /* ascents that cost so little that more of them are cheap insurance */
        return false;
    /* the more so where the known modes foretell the density at most starts */
    if (n < (W == 1 ? 320 : 16 * enough(f)) && f->explore.climbed < n + n / 4 + (W == 1 ? 24 : 4 * enough(f)))
        return false;
    return W && ((n >= enough(f) && !f->modes.hit_once) || n >= 2 * enough(f) || n >= 512 || W == wv_modes_most(f));
}

static void next_wave(wvgd_fit *f)
{
    if (f->modes.n && satisfied(f))
        wv_explore_settle(f);
    else
        begin_wave(f);
}

/* Looks at the next path that has ended; when none is left, the next wave begins. */
static void next_end(wvgd_fit *f)
{
    for (size_t k = 0; k < WV_PATHS; k++) {
        wv_path *p = &f->explore.path[k];
        if (p->fresh || p->judged) /* no path, no density, or done with */
            continue;
        p->judged = 1;
        if (explained(f, k)) {
            wv_modes_judge(f);
            continue;
        }
        if ((!p->settled && !p->pairs) || far_below(f, k)) /* got nowhere */
            continue;
        leave(f, k, wv_explore_stations(f) - 1);
        if (p->settled)
            p->stations = 1u << (wv_explore_stations(f) - 1);
        make_roots(f, k);
        if (!f->dense) {
            wv_gaussian g = station(f, k, 0);
            wv_modes_add(f, &g, p->log_p + g.family->log_det(f->D, 0, g.root) + (double)f->D * half_log_2pi, 0.5);
            wv_modes_rescale(f);
            continue;
        }
        f->explore.phase = WV_JUDGE;
        f->explore.judged = k;
        return;
    }
    next_wave(f);
}

/* Where the path that has just been fitted ended much higher than all modes together predict,
 * something narrow stands there. With the mass of a mode its volume is smaller by what the density is
 * higher: that is where its fit begins. */
static bool spike(wvgd_fit *f)
{
    wv_path *p = &f->explore.path[f->explore.judged];
    const double *x = f->explore.path_x + f->explore.judged * f->D;
    size_t m = 0, D = f->D;
    double distance = INFINITY, above = p->log_p - wv_modes_predict(f, x, &m, &distance);
    if (p->spike || !p->settled || !(above > 3 && distance < wv_modes_bulk(f)))
        return false;
    p->spike = 1;
    memcpy(f->mix.mu, x, D * sizeof(double));
    memcpy(f->mix.root, f->modes.root + m * D * D, D * D * sizeof(double));
    cblas_dscal((int)(D * D), exp(-above / (double)D), f->mix.root, 1);
    f->mix.w[0] = 1;
    f->mix.K = 1;
    f->explore.phase = WV_ALONE;
    wv_draws_clear(f);
    wv_mixture_fit_begin(f, false);
    return true;
}

/* The fit of a candidate may wander off to a heavier mode that is known, through what lies between the two. If its
 * top is then still not explained, it is a mode as its ascent found it: the Gaussian of the curvature there. */
static bool keep_top(wvgd_fit *f)
{
    const wv_path *p = &f->explore.path[f->explore.judged];
    const double *x = f->explore.path_x + f->explore.judged * f->D;
    wv_gaussian g = station(f, f->explore.judged, WV_STATIONS - 1);
    size_t m = 0;
    double distance = INFINITY, above = p->log_p - wv_modes_predict(f, x, &m, &distance),
           elbo = p->log_p + g.family->log_det(f->D, 0, g.root) + (double)f->D * half_log_2pi;
    if (!p->settled || !(above > 2 && distance > wv_modes_bulk(f)) || wv_modes_too_light(f, elbo, 0))
        return false;
    wv_modes_add(f, &g, elbo, 0.5);
    return true;
}

/* The Gaussian in f->mix, fitted or (without any hope of weight) as it was found: a mode that is
 * known, or a new one. */
static void take(wvgd_fit *f, double elbo, double sd, bool fitted)
{
    wv_gaussian g = wv_mixture_component(&f->mix, 0);
    size_t m = 0, before = f->modes.relevant;
    double distance = INFINITY;
    if (isfinite(elbo) && isfinite(g.family->log_det(f->D, 0, g.root))) {
        if (f->modes.n && fitted)
            wv_modes_predict(f, g.mu, &m, &distance);
        wv_gaussian other = wv_modes_gaussian(f, m);
        bool alike = fabs(g.family->log_det(f->D, 0, g.root) - other.family->log_det(f->D, 0, other.root)) <
                     1.5 * (double)f->D;
        if (distance < 2 * (double)f->D + 6 && alike) {
            f->modes.mode[m].hits++;
            if (elbo > f->modes.mode[m].elbo)
                wv_modes_set(f, m, &g, elbo, sd, f->modes.mode[m].hits);
            if (fitted && !keep_top(f))
                remember_end(f, f->explore.judged, m);
        } else
            wv_modes_add(f, &g, elbo, sd);
        wv_modes_rescale(f);
        if (fitted && spike(f))
            return;
    }
    if (!f->explore.path[f->explore.judged].settled)
        f->explore.idle = before && f->modes.relevant > before ? 0 : f->explore.idle + 1;
    next_end(f);
}

/* KL(g || Gaussian of mode m), given the squared distance of their means. */
static double divergence(wvgd_fit *f, const wv_gaussian *g, size_t m, double distance)
{
    size_t D = f->D;
    double *A = f->desk.square[1];
    wv_gaussian mode = wv_modes_gaussian(f, m);
    memcpy(A, g->root, D * D * sizeof *A);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, mode.root,
                (int)D, A, (int)D);
    return (cblas_ddot((int)(D * D), A, 1, A, 1) + distance - (double)D) / 2 + mode.family->log_det(D, 0, mode.root) -
           g->family->log_det(D, 0, g->root);
}

/* Has the candidate become a mode that is known, and no better than that? */
static bool arrived(wvgd_fit *f)
{
    wv_gaussian g = wv_mixture_component(&f->mix, 0);
    size_t m = 0;
    double distance = INFINITY;
    if (!f->modes.n || f->fitting.iteration < 3)
        return false;
    wv_modes_predict(f, g.mu, &m, &distance);
    return f->fitting.elbo < f->modes.mode[m].elbo + 0.1 && divergence(f, &g, m, distance) < 1 + 0.05 * (double)f->D;
}

/* After some iterations a candidate still has no weight beside what is known: its fit has no need of more. */
static bool hopeless(const wvgd_fit *f)
{
    return f->modes.n && f->fitting.iteration >= PATIENCE && wv_modes_too_light(f, f->fitting.best, f->fitting.best_sd);
}

/* ELBO of each station of the path from a few draws; if the best may matter, it is fitted, if it is
 * the last; else from the first on: later ones of an ascent without end lie in the neck of a funnel,
 * and fits that begin there stay there. */
static void judge_stations(wvgd_fit *f)
{
    wv_path *p = &f->explore.path[f->explore.judged];
    size_t D = f->D, n = 0, pick = WV_STATIONS, first = WV_STATIONS, last = 0, m = 0;
    double best = -INFINITY, top = -INFINITY, distance = INFINITY, *log_q = f->desk.psi;
    for (size_t i = 0; i < WV_STATIONS; i++) {
        if (!(p->stations & 1u << i))
            continue;
        wv_gaussian g = station(f, f->explore.judged, i);
        wv_gaussian_log_density(&g, JUDGES, f->b.x + n * D, log_q, f->desk.y, f->arena);
        double sum = 0, finite = 0;
        for (size_t k = 0; k < JUDGES; k++)
            if (f->b.log_p[n + k] > -INFINITY) {
                sum += f->b.log_p[n + k] - log_q[k];
                finite++;
            }
        n += JUDGES;
        double elbo = finite >= JUDGES / 2 ? sum / finite - 10 * (JUDGES - finite) / JUDGES : -INFINITY;
        if (!isfinite(elbo))
            continue;
        if (elbo > best)
            pick = i;
        best = fmax(best, elbo);
        first = first == WV_STATIONS ? i : first;
        last = i;
    }
    if (pick == WV_STATIONS && p->settled && !f->modes.n) {
        /* a top near an edge, or in a small support: the fit contracts where draws have no density */
        pick = last = WV_STATIONS - 1;
        best = p->log_p;
    }
    if (pick == WV_STATIONS) {
        next_end(f);
        return;
    }
    if (pick < last) /* an ascent without end, not only a long one */
        pick = first;
    wv_gaussian g = station(f, f->explore.judged, pick);
    if (!p->settled && f->modes.n) { /* its best station lies in a known bulk, and promises no more */
        wv_modes_predict(f, g.mu, &m, &distance);
        if (distance < wv_modes_bulk(f) && best < f->modes.mode[m].elbo + 1) {
            f->modes.mode[m].hits++;
            wv_modes_judge(f);
            next_end(f);
            return;
        }
    }
    for (m = 0; m < f->modes.n; m++)
        top = fmax(top, f->modes.mode[m].elbo);
    if (!p->settled && f->explore.idle >= IDLE && best < top) {
        next_end(f);
        return;
    }
    memcpy(f->mix.mu, g.mu, D * sizeof(double));
    memcpy(f->mix.root, g.root, D * D * sizeof(double));
    f->mix.w[0] = 1;
    f->mix.K = 1;
    /* on a bent ridge the Gaussian of the curvature may be hopeless, and yet its top as high as a mode's */
    bool high = p->settled && f->modes.n && p->log_p > wv_modes_top(f) - 3;
    if (best > top - relevant - (double)D || high) {
        f->explore.phase = WV_ALONE;
        wv_draws_clear(f);
        wv_mixture_fit_begin(f, false);
    } else if (p->settled)
        take(f, best, 0.5, false);
    else
        next_end(f);
}

/* ---- ask and tell ------------------------------------------------------------------------------------------------ */
static void ask_climb(wvgd_fit *f)
{
    size_t n = 0, D = f->D;
    for (size_t k = 0; k < WV_PATHS; k++) {
        const wv_path *p = &f->explore.path[k];
        if (!p->active)
            continue;
        double *x = f->b.x + n++ * D;
        memcpy(x, f->explore.path_x + k * D, D * sizeof *x);
        if (!p->fresh)
            cblas_daxpy((int)D, p->step, f->explore.path_p + k * D, 1, x, 1);
    }
    f->b.n = n;
}

static void ask_judge(wvgd_fit *f)
{
    size_t n = 0;
    for (size_t i = 0; i < WV_STATIONS; i++)
        if (f->explore.path[f->explore.judged].stations & 1u << i) {
            wv_gaussian g = station(f, f->explore.judged, i);
            wv_stream stream = {f->opt.seed, WV_RNG_PILOT, f->count.batch, 0};
            wv_gaussian_draw(&g, &stream, 0, JUDGES, true, f->b.x + n * f->D, f->arena);
            n += JUDGES;
        }
    f->b.n = n;
}

wvgd_status wv_explore_ask(wvgd_fit *f, wvgd_error *error)
{
    (void)error;
    switch (f->explore.phase) {
    case WV_CLIMB: ask_climb(f); break;
    case WV_JUDGE: ask_judge(f); break;
    case WV_ALONE: wv_mixture_fit_ask(f); break;
    }
    return WVGD_OK;
}

static void tell_climb(wvgd_fit *f)
{
    size_t n = 0, active = 0;
    for (size_t k = 0; k < WV_PATHS; k++)
        if (f->explore.path[k].active) {
            advance(f, k, f->b.log_p[n], f->b.x + n * f->D, f->b.grad + n * f->D);
            n++;
            active += f->explore.path[k].active ? 1 : 0;
        }
    if (!active)
        next_end(f);
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
    }
    if (f->stage == WV_EXPLORE && !f->modes.n && f->explore.starts > 40 && f->explore.phase == WV_CLIMB &&
        f->explore.path[0].fresh && !f->explore.path[0].tries)
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "none of %zu starting points of scale %g, tried 40 times each, has a finite log density that "
                       "can be climbed to a top: give starting points or init-scale; or is the gradient wrong, or the "
                       "top an edge (then transform the parameter that ends there)?",
                       f->explore.starts - 1, f->opt.init_scale);
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
static void settle(wvgd_fit *f, size_t j, size_t m, bool alone)
{
    size_t D = f->D;
    wv_gaussian g = wv_modes_gaussian(f, m);
    wv_stream stream = {f->opt.seed, WV_RNG_START, 1, j};
    double *sd = f->desk.vector[1], *z = f->cells.now.z + j * D;
    if (alone)
        memcpy(z, g.mu, D * sizeof *z);
    else
        wv_gaussian_draw(&g, &stream, 0, 1, false, z, f->arena);
    memcpy(f->cells.now.mu + j * D, z, D * sizeof *z);
    g.family->sd(D, 0, g.root, sd);
    double *root = f->cells.now.root + j * f->family->size(D, f->R),
           *spread = f->cells.now.spread + j * f->cell_family->size(D, 0);
    if (f->family == g.family)
        memcpy(root, g.root, f->family->size(D, 0) * sizeof *root);
    else
        f->family->set_sd(D, f->R, root, sd);
    if (f->cell_family == g.family)
        memcpy(spread, g.root, f->cell_family->size(D, 0) * sizeof *spread);
    else
        f->cell_family->set_sd(D, 0, spread, sd);
}

void wv_explore_settle(wvgd_fit *f)
{
    size_t count[WV_MODES], j = 0, best = 0;
    wv_modes_order(f);
    if (f->staged) {
        wv_staged_begin(f);
        return;
    }
    if (!f->modes.n) { /* stopped before any ascent has ended: particles stay where the given scale puts them */
        wv_joint_begin(f);
        return;
    }
    allot(f, count);
    for (size_t m = 0; m < f->modes.n; m++) {
        if (f->modes.mode[m].elbo > f->modes.mode[best].elbo)
            best = m;
        for (size_t c = 0; c < count[m]; c++)
            settle(f, j++, m, count[m] == 1);
    }
    wv_gaussian g = wv_modes_gaussian(f, best);
    if (f->prefit.wanted) {
        memcpy(f->prefit.mu, g.mu, f->D * sizeof(double));
        memcpy(f->prefit.root, g.root, f->D * f->D * sizeof(double));
    }
    if (!(f->opt.metric && f->opt.cost == WVGD_MAHALANOBIS))
        memcpy(f->cells.now.metric, g.root, wv_modes_root_size(f) * sizeof(double));
    wv_joint_begin(f);
}
