/* ascent.c - one L-BFGS ascent of the log density, in the coordinates of a frame: gradient, direction and curvature
 * pairs stay there. A row in the frame is padded to whole vectors, and what is beyond D is 0. */
#include "staged/ascent.h"
#include "fit.h"
#include "gaussian.h"
#include "policy.h"
#include "simd/columns.h"
#include "staged/modes.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

static bool flag(int value)
{
    return !(value & ~1);
}

bool wv_ascent_archive(wv_path *path, wv_archive *a, size_t D)
{
    wv_path p = *path;
    wv_archive_values(a, &p, sizeof p);
    if (!flag(p.active) || !flag(p.fresh) || p.seen > 1 || !flag(p.at_top) || !flag(p.judged) || !flag(p.spike) ||
        !flag(p.wide) || !flag(p.narrowed) || !flag(p.again) || !flag(p.past) ||
        (double)p.tries > wv_policy.start_tries || p.hit < -1 || p.hit >= WV_MODES || p.slab < -1 ||
        p.slab > WV_STATIONS || p.feeling > D || (p.stations | p.made) >> WV_STATIONS)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        *path = p;
    return true;
}

/* ---- the frame --------------------------------------------------------------------------------------------------- */
void wv_ascent_frame(wvgd_fit *f, const double *root)
{
    memcpy(f->explore.frame, root, wv_modes_root_size(f) * sizeof *root);
    f->explore.turned = false;
}

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

/* Length of a row in the frame. */
static size_t padded(const wvgd_fit *f)
{
    return wv_columns_round(f->D);
}

/* ---- walls ------------------------------------------------------------------------------------------------------- */
/* v, a gradient or a direction at path k, without what pushes against walls: the path slides along them. False: there
 * are none in its way. */
static bool slide(const wvgd_fit *f, size_t k, double *v)
{
    const double *wall = f->explore.path_wall + k * f->D;
    bool some = false;
    for (size_t i = 0; i < f->D; i++)
        if (wall[i] * v[i] > 0) {
            v[i] = 0;
            some = true;
        }
    return some;
}

/* out <- the gradient g at path k as the frame sees it. */
static void see_gradient(wvgd_fit *f, size_t k, const double *g, double *out)
{
    size_t mark = wv_arena_mark(f->arena);
    double *free = wv_arena_take(f->arena, f->D);
    memcpy(free, g, f->D * sizeof *free);
    slide(f, k, free);
    to_frame(f, free, out);
    wv_arena_release(f->arena, mark);
}

/* The direction of path k, in both coordinates, does not lead against walls. */
static void turn_from_walls(wvgd_fit *f, size_t k)
{
    size_t mark = wv_arena_mark(f->arena);
    double *direction = f->explore.path_p + k * f->D, *origin = wv_arena_zeros(f->arena, f->D);
    wv_gaussian frame = {wv_modes_family(f), f->D, 0, origin, f->explore.frame, 0};
    if (slide(f, k, direction))
        wv_gaussian_whiten(&frame, 1, direction, f->explore.path_q + k * padded(f), f->arena);
    wv_arena_release(f->arena, mark);
}

/* ---- curvature --------------------------------------------------------------------------------------------------- */
/* Curvature pairs of a path, the newest of `last` first. */
typedef struct {
    size_t n;
    const double *s[WV_PAIRS], *y[WV_PAIRS]; /* rows in the frame: steps, and by how much the gradient fell */
    double sy[WV_PAIRS];
    double gamma; /* length of the first step */
} pairs;

static pairs pairs_of(const wvgd_fit *f, size_t k, size_t last)
{
    pairs p = {.n = last < WV_PAIRS ? last : WV_PAIRS, .gamma = 1};
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
    size_t mark = wv_arena_mark(f->arena);
    double *A = wv_arena_take(f->arena, p.n * f->D); /* [pairs][D] */
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
    wv_arena_release(f->arena, mark);
}

/* root, which holds the frame, times that of H: of its diagonal, pair by pair from the oldest on,
 *     H <- H - (Hy s' + s y'H)/sy + (1 + y'Hy/sy) s s'/sy, */
static void absorb_diagonal(wvgd_fit *f, size_t k, size_t last, double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    pairs p = pairs_of(f, k, last);
    double *Hy = wv_arena_take(f->arena, padded(f)), *h = wv_arena_take(f->arena, D); /* h: the diagonal */
    for (size_t i = 0; i < D; i++)
        h[i] = p.gamma;
    for (size_t q = p.n; q-- > 0;) {
        const double *s = p.s[q];
        memcpy(Hy, p.y[q], padded(f) * sizeof *Hy);
        wv_columns_best()->row_secants(padded(f), p.n - q - 1, p.s + q + 1, p.y + q + 1, p.sy + q + 1, p.gamma, Hy);
        double step = 1 + cblas_ddot((int)D, p.y[q], 1, Hy, 1) / p.sy[q];
        for (size_t i = 0; i < D; i++)
            h[i] += s[i] * (step * s[i] - 2 * Hy[i]) / p.sy[q];
    }
    for (size_t i = 0; i < D; i++)
        root[i] *= sqrt(fmax(h[i], 1e-300));
    wv_arena_release(f->arena, mark);
}

/* or of all of it. */
static bool absorb_matrix(wvgd_fit *f, size_t k, size_t last, double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *H = wv_arena_take(f->arena, D * D);
    inverse_hessian(f, k, last, H);
    for (size_t i = 0; i < D; i++)
        for (size_t c = 0; c < i; c++)
            H[i * D + c] = H[c * D + i] = (H[i * D + c] + H[c * D + i]) / 2;
    bool made = wv_modes_family(f)->absorb(D, 0, root, H, f->arena);
    wv_arena_release(f->arena, mark);
    return made;
}

/* Root of the path's inverse Hessian, in the model's coordinates. */
static bool path_root(wvgd_fit *f, size_t k, size_t last, double *root)
{
    memcpy(root, f->explore.frame, wv_modes_root_size(f) * sizeof *root);
    if (f->dense)
        return absorb_matrix(f, k, last, root);
    absorb_diagonal(f, k, last, root);
    return true;
}

/* ---- stations ---------------------------------------------------------------------------------------------------- */
wv_gaussian wv_ascent_station(const wvgd_fit *f, size_t k, size_t i)
{
    size_t at = k * wv_explore_stations(f) + i;
    const double *mu = f->explore.station_x + at * f->D, *root = f->explore.station_root + at * wv_modes_root_size(f);
    return (wv_gaussian){wv_modes_family(f), f->D, 0, mu, root, 0};
}

/* Leaves the path's Gaussian behind as station i; its root is worked out when it is wanted, or the pairs are about
 * to be overwritten: a path that settles needs none but the last. */
static void leave(wvgd_fit *f, size_t k, size_t i)
{
    wv_path *p = &f->explore.path[k];
    memcpy(f->explore.station_x + (k * wv_explore_stations(f) + i) * f->D, f->explore.path_x + k * f->D,
           f->D * sizeof(double));
    p->left[i] = p->pairs;
    p->left_p[i] = p->log_p;
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

/* log |det| of the root of station i. */
static double log_det(const wvgd_fit *f, size_t k, size_t i)
{
    wv_gaussian g = wv_ascent_station(f, k, i);
    return g.family->log_det(f->D, 0, g.root);
}

/* Of the stations on the way to a top, of that density and volume, those stay that are larger by far, and may have its
 * mass by what their volume and the density there say. */
static void keep_slabs(wvgd_fit *f, size_t k, double top, double volume)
{
    wv_path *p = &f->explore.path[k];
    for (size_t i = 0; i + 1 < wv_explore_stations(f); i++) {
        double larger = p->stations & 1u << i ? log_det(f, k, i) - volume : -INFINITY;
        if (!(larger > wv_policy.judge_same_volume * (double)f->D &&
              larger + p->left_p[i] - top > -wv_policy.judge_slab))
            p->stations &= ~(1u << i);
    }
}

bool wv_ascent_leave_slabs(wvgd_fit *f, size_t k, double top, double volume)
{
    wv_path *p = &f->explore.path[k];
    p->stations &= ~(1u << (wv_explore_stations(f) - 1));
    make_roots(f, k);
    keep_slabs(f, k, top, volume);
    return p->stations;
}

/* A density that falls from a wall with slope g has a mean 1/g away from it, and that as its sd; curvature makes both
 * smaller. The last station of path k becomes such a Gaussian along coordinates with a wall. */
static void leave_wall(wvgd_fit *f, size_t k)
{
    size_t D = f->D, at = k * wv_explore_stations(f) + wv_explore_stations(f) - 1, mark = wv_arena_mark(f->arena);
    const double *wall = f->explore.path_wall + k * D, *g = f->explore.path_grad + k * D;
    double *C = wv_arena_take(f->arena, D * D), *one = wv_arena_take(f->arena, D), *x = f->explore.station_x + at * D,
           *root = f->explore.station_root + at * D * D;
    wv_gaussian left = wv_ascent_station(f, k, wv_explore_stations(f) - 1);
    bool some = false;
    wv_gaussian_cov(&left, C, f->arena);
    for (size_t i = 0; i < D; i++) {
        one[i] = 1;
        if (!(wall[i] * g[i] > 0))
            continue;
        double variance = 1 / (g[i] * g[i] + 1 / C[i * D + i]);
        for (size_t c = 0; c < D; c++)
            C[i * D + c] = C[c * D + i] = 0;
        C[i * D + i] = variance;
        x[i] -= g[i] * variance;
        some = true;
    }
    if (some) {
        left.family->set_sd(D, 0, root, one);
        left.family->absorb(D, 0, root, C, f->arena);
    }
    wv_arena_release(f->arena, mark);
}

void wv_ascent_leave_last(wvgd_fit *f, size_t k)
{
    wv_path *p = &f->explore.path[k];
    size_t last = wv_explore_stations(f) - 1;
    leave(f, k, last);
    make_roots(f, k);
    if (f->dense)
        leave_wall(f, k);
    if (p->at_top)
        keep_slabs(f, k, p->log_p, log_det(f, k, last));
    else if (f->dense)
        p->stations &= ~(1u << (last - 1));
}

/* ---- the line search --------------------------------------------------------------------------------------------- */
void wv_ascent_trial(const wvgd_fit *f, size_t k, double *x)
{
    const wv_path *p = &f->explore.path[k];
    memcpy(x, f->explore.path_x + k * f->D, f->D * sizeof *x);
    if (p->feeling)
        x[p->feeling - 1] += p->step * f->explore.path_p[k * f->D + p->feeling - 1];
    else if (!p->fresh)
        cblas_daxpy((int)f->D, p->step, f->explore.path_p + k * f->D, 1, x, 1);
}

/* Would the trial point of path k leave the range of numbers? An ascent without end. */
static bool out_of_range(const wvgd_fit *f, size_t k)
{
    const double *x = f->explore.path_x + k * f->D, *direction = f->explore.path_p + k * f->D;
    for (size_t i = 0; i < f->D; i++)
        if (!(fabs(x[i] + f->explore.path[k].step * direction[i]) < 1e120))
            return true;
    return false;
}

void wv_ascent_end(wvgd_fit *f, size_t k, bool at_top)
{
    f->explore.path[k].active = 0;
    f->explore.path[k].at_top = at_top;
}

/* Is the curvature of path k so strong that its steps hardly move? */
static bool collapsed(const wvgd_fit *f, size_t k)
{
    const wv_path *p = &f->explore.path[k];
    return p->pairs && sqrt(pairs_of(f, k, p->pairs).gamma) < wv_policy.ascent_collapsed;
}

static void aim(wvgd_fit *f, size_t k);

/* Path k gains nothing more: it has come to a wall, for which it feels, or to a top, or its curvature has collapsed,
 * whatever the gradient. Then it goes on without that curvature, once. */
static void settle(wvgd_fit *f, size_t k)
{
    wv_path *p = &f->explore.path[k];
    bool tiny = collapsed(f, k);
    if (f->dense && p->outside) {
        p->step = p->high - p->step;
        p->feeling = 1;
    } else if (tiny && !p->again) {
        p->again = 1;
        make_roots(f, k);
        p->pairs = p->stalls = 0;
        aim(f, k);
    } else
        wv_ascent_end(f, k, !tiny);
}

/* The direction H g of path k, and how the density rises along it; the first is the gradient, at most one unit of the
 * frame long. */
static void set_direction(wvgd_fit *f, size_t k)
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
    turn_from_walls(f, k);
    p->slope = cblas_ddot((int)D, dir, 1, g, 1);
}

/* A new direction. One that a wall has turned down is none: then the gradient. */
static void aim(wvgd_fit *f, size_t k)
{
    wv_path *p = &f->explore.path[k];
    set_direction(f, k);
    if (p->walls && p->pairs && !(p->slope > 0)) {
        make_roots(f, k);
        p->pairs = 0;
        set_direction(f, k);
    }
    p->step = 1;
    p->low = 0;
    p->high = INFINITY;
    p->looks = p->outside = 0;
    if (!(p->slope > 0) || !isfinite(p->slope) || out_of_range(f, k))
        wv_ascent_end(f, k, p->slope < wv_policy.ascent_flat && !collapsed(f, k));
}

/* Does the step just made, with y so long, to a point where the gradient is so long and the density higher by `rise`,
 * tell a curvature? After a start of astronomically low density y is the first gradient and nothing else: as a pair it
 * would say that all scales are tiny, and the path would freeze. But a parabola, which rises by half of its slope, may
 * be climbed in one step. */
static bool tells_curvature(const wv_path *p, double y, double gradient, double rise)
{
    return gradient > wv_policy.ascent_pair_gradient * y || rise > wv_policy.ascent_pair_rise * p->step * p->slope;
}

/* The curvature pair of the step just made, to a point with this density and gradient g: kept if the density is concave
 * along it. */
static void keep_pair(wvgd_fit *f, size_t k, double log_p, const double *g)
{
    wv_path *p = &f->explore.path[k];
    size_t D = f->D, P = padded(f), newest = p->pairs % WV_KEPT, mark = wv_arena_mark(f->arena);
    double *s = f->explore.path_s + (k * WV_KEPT + newest) * P, *y = f->explore.path_y + (k * WV_KEPT + newest) * P,
           *last = f->explore.path_g + k * P, *now = wv_arena_take(f->arena, P), sy = 0; /* gradients in the frame */
    see_gradient(f, k, g, now);
    for (size_t i = 0; i < D; i++) {
        s[i] = p->step * f->explore.path_q[k * P + i];
        y[i] = last[i] - now[i];
        last[i] = now[i];
        sy += s[i] * y[i];
    }
    p->sy[newest] = sy;
    double length = cblas_dnrm2((int)D, y, 1);
    if (sy > 1e-12 * cblas_dnrm2((int)D, s, 1) * length &&
        tells_curvature(p, length, cblas_dnrm2((int)D, now, 1), log_p - p->log_p))
        p->pairs++;
    wv_arena_release(f->arena, mark);
}

/* Is the point just reached, with this density, above all that a parabola promised, or steeper than the last? Then
 * something narrower begins. gradient: what its length was. */
static bool enters_spike(const wvgd_fit *f, size_t k, double log_p, double gradient)
{
    const wv_path *p = &f->explore.path[k];
    double promised = p->step * p->slope / 2;
    return log_p - p->log_p > wv_policy.ascent_spike_gain * promised + wv_policy.ascent_spike_spare ||
           cblas_dnrm2((int)f->D, f->explore.path_g + k * padded(f), 1) > gradient;
}

/* Up to there a path leaves the Gaussian of its curvature behind, with its mean where it aims: a slab, if a spike
 * follows. It is the one before the last. */
static void leave_slab(wvgd_fit *f, size_t k)
{
    wv_path *p = &f->explore.path[k];
    size_t i = wv_explore_stations(f) - 2;
    if (!f->dense || p->past || !p->active || !p->pairs)
        return;
    leave(f, k, i);
    p->left_p[i] += p->slope / 2;
    cblas_daxpy((int)f->D, 1.0, f->explore.path_p + k * f->D, 1,
                f->explore.station_x + (k * wv_explore_stations(f) + i) * f->D, 1);
}

/* Accepted steps at which a path leaves station i behind; the last station is its end, the one before it a slab. */
static double station_steps(size_t i)
{
    return i ? wv_policy.ascent_second_station * pow(wv_policy.ascent_station_ratio, (double)(i - 1))
             : wv_policy.ascent_first_station;
}

/* What a step may seem to gain less near a top, where densities are noisy. */
static double noise(const wvgd_fit *f)
{
    return f->differences.room ? wv_policy.ascent_noise * wv_differences_roughness(&f->differences) : 0;
}

/* Do steps without gain make the end of the path just moved a top? Where a ridge is long for its curvature, steps along
 * it are short at first: there the slope, too, has to vanish, as far as noise lets it. */
static bool stalled(const wvgd_fit *f, const wv_path *p)
{
    return (double)p->stalls >= wv_policy.ascent_stalls && p->slope < wv_policy.ascent_level + noise(f);
}

/* Is a path that no step leads higher at a top? There rounding hides what is left to rise. */
static bool level(const wv_path *p)
{
    return (double)p->stalls >= wv_policy.ascent_stalls && p->slope < wv_policy.ascent_flat;
}

static void accept_trial(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g)
{
    wv_path *p = &f->explore.path[k];
    double gradient = cblas_dnrm2((int)f->D, f->explore.path_g + k * padded(f), 1);
    if (p->pairs >= WV_KEPT)
        make_roots(f, k);
    keep_pair(f, k, log_p, g);
    if (p->accepted && enters_spike(f, k, log_p, gradient))
        p->past = 1;
    p->stalls = log_p - p->log_p < wv_policy.ascent_small_gain + noise(f) ? p->stalls + 1 : 0;
    p->log_p = log_p;
    p->accepted++;
    memcpy(f->explore.path_x + k * f->D, x, f->D * sizeof *x);
    memcpy(f->explore.path_grad + k * f->D, g, f->D * sizeof *g);
    for (size_t i = 0; i + 2 < wv_explore_stations(f); i++)
        if ((double)p->accepted == station_steps(i))
            leave(f, k, i);
    p->hit = wv_modes_known(f, x, log_p);
    if (p->hit >= 0)
        wv_ascent_end(f, k, true);
    else if (stalled(f, p))
        settle(f, k);
    else
        aim(f, k);
    leave_slab(f, k);
}

/* Evaluations after which a path is given up. With a known mode's frame, ascents that end are short. */
static double most_evaluations(const wvgd_fit *f, const wv_path *p)
{
    double D = (double)f->D;
    if (!f->modes.n)
        return wv_policy.ascent_most + wv_policy.ascent_most_dim * D;
    if (p->log_p > wv_modes_top(f) + wv_policy.ascent_runaway * D)
        return wv_policy.ascent_most_runaway + wv_policy.ascent_most_runaway_dim * D;
    return wv_policy.ascent_most_known + wv_policy.ascent_most_known_dim * D;
}

void wv_ascent_begin(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g)
{
    wv_path *p = &f->explore.path[k];
    p->log_p = log_p;
    p->hit = wv_modes_foretell(f, x, log_p, &p->above);
    p->fresh = !g && p->hit < 0;
    p->seen = !g && p->hit < 0;
    p->seen_p = log_p;
    memset(f->explore.path_wall + k * f->D, 0, f->D * sizeof(double));
    if (p->hit >= 0)
        wv_ascent_end(f, k, true);
    else if (g) {
        memcpy(f->explore.path_grad + k * f->D, g, f->D * sizeof *g);
        to_frame(f, g, f->explore.path_g + k * padded(f));
        aim(f, k);
    }
}

/* Is the trial point as close to a wall, outside of which there is no density, as is worth while? */
static bool at_wall(const wv_path *p)
{
    return p->outside && p->step > wv_policy.ascent_wall_near * p->high;
}

/* Does even a short step lead outside? Then this is the top, where the wall cuts the density off. */
static bool blocked(const wv_path *p)
{
    return !(p->low > 0) && (double)p->outside >= wv_policy.ascent_wall_looks;
}

/* A path before a wall feels along which coordinates it stands, one after the other, and then slides along it. A wall
 * that is askew is the end. */
static void feel(wvgd_fit *f, size_t k, bool outside)
{
    wv_path *p = &f->explore.path[k];
    size_t i = p->feeling - 1;
    double *wall = f->explore.path_wall + k * f->D;
    if (outside) {
        wall[i] = f->explore.path_p[k * f->D + i] > 0 ? 1 : -1;
        p->walls++;
        p->outside = 0;
    }
    if (p->feeling++ < f->D)
        return;
    p->feeling = 0;
    if (p->outside) { /* still from the line search: no wall was felt */
        wv_ascent_end(f, k, true);
        return;
    }
    p->stalls = 0;
    see_gradient(f, k, f->explore.path_grad + k * f->D, f->explore.path_g + k * padded(f));
    aim(f, k);
}

/* The trial point x of path k is high enough: in a known mode the path ends, elsewhere it wants the gradient. */
static void await_gradient(wvgd_fit *f, size_t k, double log_p, const double *x)
{
    wv_path *p = &f->explore.path[k];
    p->hit = wv_modes_known(f, x, log_p);
    p->seen = p->hit < 0;
    p->seen_p = log_p;
    if (p->seen)
        return;
    p->log_p = log_p;
    p->accepted++;
    memcpy(f->explore.path_x + k * f->D, x, f->D * sizeof *x);
    wv_ascent_end(f, k, true);
}

/* A shorter step than the one that has led down to this density: half of it, which may come to another top; where that
 * has been tried often, to the top of the parabola with the path's slope, for the density is far narrower than thought.
 */
static double shorter(const wv_path *p, double log_p)
{
    double rise = p->step * p->slope, share = rise / (2 * (rise - (log_p - p->log_p)));
    bool narrow = (double)p->looks > wv_policy.ascent_halvings && log_p > -INFINITY;
    return p->step * (narrow ? fmin(fmax(share, wv_policy.ascent_shortest), 0.5) : 0.5);
}

/* Weak Wolfe conditions by bisection. */
void wv_ascent_advance(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g)
{
    wv_path *p = &f->explore.path[k];
    double slope = g ? cblas_ddot((int)f->D, f->explore.path_p + k * f->D, 1, g, 1) : INFINITY;
    bool rises = log_p >= p->log_p + wv_policy.ascent_armijo * p->step * p->slope - noise(f),
         flat = slope <= wv_policy.ascent_curvature * p->slope;
    size_t most = (size_t)wv_policy.ascent_looks;
    if (p->feeling) {
        feel(f, k, log_p == -INFINITY);
        return;
    }
    p->seen = 0;
    p->outside += log_p == -INFINITY;
    if (rises && !g) {
        await_gradient(f, k, log_p, x);
        return;
    }
    if (rises && (flat || at_wall(p) || ++p->looks >= most)) {
        accept_trial(f, k, log_p, x, g);
    } else if (++p->looks >= most || blocked(p)) {
        p->feeling = f->dense && blocked(p);
        if (!p->feeling)
            wv_ascent_end(f, k, level(p));
        return;
    } else {
        if (rises)
            p->low = p->step;
        else
            p->high = p->step;
        p->step = p->high == INFINITY ? 2 * p->step : p->low > 0 ? (p->low + p->high) / 2 : shorter(p, log_p);
    }
    if (p->active && ((double)p->evaluations >= most_evaluations(f, p) || out_of_range(f, k)))
        wv_ascent_end(f, k, false);
}
