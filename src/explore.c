/* explore.c - waves of L-BFGS ascents in lock step: every batch holds one trial point of each path, so a model that likes batches gets them.
 *
 * Paths run in coordinates scaled by w (the user's scale at first, then the sds of the modes found). An end is a mode with a Gaussian from the
 * path's curvature pairs; Laplace's formula gives its mass. A path inside the bulk of a known mode, where the density is what that mode's
 * Gaussian says, is cut short. Later waves start from wider and wider scatter around the modes found, in units of their own sds, until
 * many starts have found nothing new and every mode of weight has been hit twice. */
#include "explore.h"
#include "dense.h"
#include "joint.h"
#include "weight.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

enum { MEMORY = 20, LOOK = 25, BRIDGE = 5 }; /* curvature pairs kept; trials of a line search; points between two ends */
static const double armijo = 1e-4, curvature = 0.9, relevant = 12;

size_t wv_explore_root_size(const wvgd_fit *f)
{
    return f->dense ? f->D * f->D : f->D;
}

size_t wv_explore_modes(const wvgd_fit *f)
{
    size_t fit = 20000000 / wv_explore_root_size(f);
    return fit > WV_MODES ? WV_MODES : fit < 1 ? 1 : fit;
}

static const wv_family *shape(const wvgd_fit *f)
{
    return wv_family_get(f->dense ? WVGD_FULL : WVGD_DIAG);
}

static wv_gauss mode_gauss(const wvgd_fit *f, size_t m)
{
    return (wv_gauss){shape(f), f->D, 0, f->mode_x + m * f->D, f->mode_root + m * wv_explore_root_size(f), 0};
}

/* ---- starts --------------------------------------------------------------------------------------------------------------------- */
/* A start: the user's scale for the first wave, then scattered around the known modes. `closer` shrinks it after starts without density. */
static void scatter(wvgd_fit *f, wv_path *p, double *x)
{
    size_t D = f->D;
    double u, wide = 1;
    wv_stream stream = {f->opt.seed, WV_RNG_EXPLORE, p->start, p->tries};
    wv_rng_normal(&stream, 0, D, x);
    wv_rng_uniform(&stream, 1, 1, &u);
    if (f->s.modes)
        wide = f->s.modes == 1 ? exp2(4 * u) : exp2(-1 + 3 * u);
    for (size_t i = 0; i < D; i++)
        x[i] = f->scatter_centre[i] + pow(0.8, (double)p->tries) * wide * f->scatter_scale[i] * x[i];
}

static void begin_path(wvgd_fit *f, size_t k)
{
    f->s.path[k] = (wv_path){.active = 1, .start = f->s.starts++, .fresh = 1};
    scatter(f, &f->s.path[k], f->path_x + k * f->D);
}

static void begin_wave(wvgd_fit *f)
{
    memcpy(f->path_scale, f->mode_scale, f->D * sizeof(double));
    for (size_t k = 0; k < WV_PATHS; k++)
        begin_path(f, k);
}

void wv_explore_begin(wvgd_fit *f)
{
    f->s.stage = WV_EXPLORE;
    for (size_t i = 0; i < f->D; i++) {
        f->mode_scale[i] = f->scatter_scale[i] = f->opt.init_scale;
        f->scatter_centre[i] = 0;
    }
    begin_wave(f);
}

/* Would the trial point of path k leave the range of numbers? An ascent without end. */
static bool out_of_range(const wvgd_fit *f, size_t k)
{
    for (size_t i = 0; i < f->D; i++)
        if (!(fabs(f->path_x[k * f->D + i] + f->s.path[k].step * f->path_scale[i] * f->path_p[k * f->D + i]) < 1e120))
            return true;
    return false;
}

/* Points between the end of path k and every known mode: is there a valley in between? */
static size_t bridge(wvgd_fit *f, size_t k, double *x)
{
    size_t D = f->D, n = 0;
    const double *end = f->path_x + k * D;
    for (size_t m = 0; m < f->s.path[k].bridges; m++)
        for (size_t b = 1; b <= BRIDGE; b++, n++)
            for (size_t i = 0; i < D; i++)
                x[n * D + i] = end[i] + (f->mode_x[m * D + i] - end[i]) * (double)b / (BRIDGE + 1);
    return n;
}

wvgd_status wv_explore_ask(wvgd_fit *f, wvgd_error *error)
{
    size_t n = 0, D = f->D;
    (void)error;
    for (size_t k = 0; k < WV_PATHS; k++) {
        wv_path *p = &f->s.path[k];
        double *x = f->b.x + n * D;
        if (p->bridges)
            n += bridge(f, k, x);
        else if (p->active) {
            memcpy(x, f->path_x + k * D, D * sizeof *x);
            for (size_t i = 0; !p->fresh && i < D; i++)
                x[i] += p->step * f->path_scale[i] * f->path_p[k * D + i];
            n++;
        }
    }
    f->b.n = n;
    return WVGD_OK;
}

/* ---- modes ---------------------------------------------------------------------------------------------------------------------- */
/* Log density that mode m's Gaussian predicts at x, and the squared Mahalanobis distance. */
static double predict(wvgd_fit *f, size_t m, const double *x, double *distance)
{
    wv_gauss g = mode_gauss(f, m);
    wv_component_whiten(&g, 1, x, f->y, f->work);
    *distance = cblas_ddot((int)f->D, f->y, 1, f->y, 1);
    return f->s.mode[m].log_p - *distance / 2;
}

/* The known mode in whose bulk x lies with the density that it predicts, or -1. */
static int known(wvgd_fit *f, const double *x, double log_p)
{
    double D = (double)f->D, bulk = D + 3 * sqrt(2 * D);
    for (size_t m = 0; m < f->s.modes; m++) {
        double distance, expected = predict(f, m, x, &distance);
        if (distance < bulk && fabs(log_p - expected) < 0.2 + 0.1 * distance)
            return (int)m;
    }
    return -1;
}

/* H v for the path's L-BFGS inverse Hessian (scaled coordinates), in place. */
static void two_loop(const wvgd_fit *f, size_t k, double *v)
{
    size_t D = f->D, pairs = f->s.path[k].pairs < MEMORY ? f->s.path[k].pairs : MEMORY, last = f->s.path[k].pairs;
    const double *S = f->path_s + k * MEMORY * D, *Y = f->path_y + k * MEMORY * D;
    double a[MEMORY], gamma = 1;
    for (size_t q = 1; q <= pairs; q++) {
        const double *s = S + (last - q) % MEMORY * D, *y = Y + (last - q) % MEMORY * D;
        double sy = cblas_ddot((int)D, s, 1, y, 1);
        a[q - 1] = cblas_ddot((int)D, s, 1, v, 1) / sy;
        cblas_daxpy((int)D, -a[q - 1], y, 1, v, 1);
        if (q == 1)
            gamma = sy / cblas_ddot((int)D, y, 1, y, 1);
    }
    cblas_dscal((int)D, gamma, v, 1);
    for (size_t q = pairs; q >= 1; q--) {
        const double *s = S + (last - q) % MEMORY * D, *y = Y + (last - q) % MEMORY * D;
        double b = cblas_ddot((int)D, y, 1, v, 1) / cblas_ddot((int)D, s, 1, y, 1);
        cblas_daxpy((int)D, a[q - 1] - b, s, 1, v, 1);
    }
}

/* Root of the path's inverse Hessian in the original coordinates. */
static bool path_root(wvgd_fit *f, size_t k, double *root)
{
    size_t D = f->D;
    if (!f->dense) {
        for (size_t i = 0; i < D; i++) { /* the diagonal alone, one unit vector at a time */
            memset(f->vector[0], 0, D * sizeof(double));
            f->vector[0][i] = 1;
            two_loop(f, k, f->vector[0]);
            root[i] = f->path_scale[i] * sqrt(fmax(f->vector[0][i], 1e-300));
        }
        return true;
    }
    for (size_t i = 0; i < D; i++) {
        memset(root + i * D, 0, D * sizeof *root);
        root[i * D + i] = 1;
        two_loop(f, k, root + i * D);
    }
    for (size_t i = 0; i < D; i++)
        for (size_t c = 0; c <= i; c++)
            root[i * D + c] = root[c * D + i] = (root[i * D + c] + root[c * D + i]) / 2 * f->path_scale[i] * f->path_scale[c];
    return wv_dense_chol(D, root, f->square[0]);
}

/* Which modes are not too light to matter. */
static void judge(wvgd_fit *f)
{
    double best = -INFINITY;
    for (size_t m = 0; m < f->s.modes; m++)
        best = fmax(best, f->s.mode[m].log_mass);
    for (size_t m = 0; m < f->s.modes; m++)
        f->s.mode[m].relevant = f->s.mode[m].log_mass >= best - relevant;
}

/* Scale and scatter of later starts: sds of the relevant modes (geometric mean), and twice the spread of the modes in these units, twice at least. */
static void rescale(wvgd_fit *f)
{
    size_t D = f->D, count = 0;
    double *sd = f->vector[0], *scale = f->vector[1], *centre = f->vector[2], spread = 0;
    judge(f);
    memset(scale, 0, D * sizeof *scale);
    memset(centre, 0, D * sizeof *centre);
    for (size_t m = 0; m < f->s.modes; m++) {
        if (!f->s.mode[m].relevant)
            continue;
        wv_gauss g = mode_gauss(f, m);
        g.family->sd(D, 0, g.root, sd);
        count++;
        for (size_t i = 0; i < D; i++) {
            scale[i] += log(sd[i]);
            centre[i] += g.mu[i];
        }
    }
    for (size_t i = 0; i < D; i++) {
        scale[i] = exp(scale[i] / (double)count);
        centre[i] /= (double)count;
    }
    for (size_t m = 0; m < f->s.modes; m++)
        for (size_t i = 0; f->s.mode[m].relevant && i < D; i++) {
            double d = (f->mode_x[m * D + i] - centre[i]) / scale[i];
            spread += d * d / (double)(count * D);
        }
    for (size_t i = 0; i < D; i++) { /* where ascents run away, nothing sensible follows from their ends: go on as before */
        double scattered = 2 * scale[i] * fmax(2, sqrt(spread));
        if (!(scale[i] > 1e-110 && scattered < 1e110 && fabs(centre[i]) < 1e110))
            return;
    }
    for (size_t i = 0; i < D; i++) {
        f->mode_scale[i] = scale[i];
        f->scatter_centre[i] = centre[i];
        f->scatter_scale[i] = 2 * scale[i] * fmax(2, sqrt(spread));
    }
}

/* Mode m is where path k has ended. */
static void set_mode(wvgd_fit *f, size_t m, size_t k, size_t hits)
{
    size_t D = f->D;
    double *root = f->mode_root + m * wv_explore_root_size(f);
    if (!path_root(f, k, root))
        shape(f)->set_sd(D, 0, root, f->path_scale);
    memcpy(f->mode_x + m * D, f->path_x + k * D, D * sizeof(double));
    f->s.mode[m] = (wv_mode){.log_p = f->s.path[k].log_p, .hits = hits,
                             .log_mass = f->s.path[k].log_p + shape(f)->log_det(D, 0, root) + (double)D * 0.918938533204672741780};
    rescale(f);
}

static void add_mode(wvgd_fit *f, size_t k)
{
    size_t m = f->s.modes, most = wv_explore_modes(f);
    if (m == most) { /* full: take the place of the lightest, if this one is better */
        m = 0;
        for (size_t i = 1; i < most; i++)
            if (f->s.mode[i].log_mass < f->s.mode[m].log_mass)
                m = i;
        if (!(f->s.path[k].log_p > f->s.mode[m].log_p))
            return;
    } else
        f->s.modes++;
    set_mode(f, m, k, 1);
}

/* The path has got as far as it will. Where no known mode explains its end, the way to each of them is looked at next. */
static void end_path(wvgd_fit *f, size_t k)
{
    wv_path *p = &f->s.path[k];
    p->active = 0;
    if (p->fresh) /* never found any density */
        return;
    int m = known(f, f->path_x + k * f->D, p->log_p);
    if (m >= 0)
        f->s.mode[m].hits++;
    else if (f->s.modes)
        p->bridges = f->s.modes;
    else
        add_mode(f, k);
}

/* log_p: [bridges][BRIDGE]. No valley between the end and a mode: they are one mode, and the higher end stands for it. */
static void cross(wvgd_fit *f, size_t k, const double *log_p)
{
    wv_path *p = &f->s.path[k];
    size_t bridges = p->bridges;
    p->bridges = 0;
    for (size_t m = 0; m < bridges; m++) {
        double lowest = INFINITY;
        for (size_t b = 0; b < BRIDGE; b++)
            lowest = fmin(lowest, log_p[m * BRIDGE + b]);
        if (lowest > fmin(p->log_p, f->s.mode[m].log_p) - 0.1) {
            if (p->log_p > f->s.mode[m].log_p + 0.1)
                set_mode(f, m, k, f->s.mode[m].hits + 1);
            else
                f->s.mode[m].hits++;
            return;
        }
    }
    if (f->s.modes > bridges) /* another path of this wave has found a mode meanwhile: look at that too */
        end_path(f, k);
    else
        add_mode(f, k);
}

/* ---- one path ------------------------------------------------------------------------------------------------------------------- */
/* New direction H g; the first is the gradient, at most one scaled unit long. */
static void aim(wvgd_fit *f, size_t k)
{
    size_t D = f->D;
    wv_path *p = &f->s.path[k];
    double *dir = f->path_p + k * D;
    for (size_t i = 0; i < D; i++)
        dir[i] = f->path_scale[i] * f->path_g[k * D + i];
    if (p->pairs)
        two_loop(f, k, dir);
    else
        cblas_dscal((int)D, 1 / fmax(1, cblas_dnrm2((int)D, dir, 1)), dir, 1);
    p->slope = 0;
    for (size_t i = 0; i < D; i++)
        p->slope += dir[i] * f->path_scale[i] * f->path_g[k * D + i];
    p->step = 1;
    p->low = 0;
    p->high = INFINITY;
    p->looks = 0;
    if (!(p->slope > 1e-12) || !isfinite(p->slope) || out_of_range(f, k))
        end_path(f, k);
}

static void accept(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g)
{
    size_t D = f->D;
    wv_path *p = &f->s.path[k];
    double *s = f->path_s + (k * MEMORY + p->pairs % MEMORY) * D, *y = f->path_y + (k * MEMORY + p->pairs % MEMORY) * D, sy = 0;
    for (size_t i = 0; i < D; i++) {
        s[i] = p->step * f->path_p[k * D + i];
        y[i] = f->path_scale[i] * (f->path_g[k * D + i] - g[i]);
        sy += s[i] * y[i];
    }
    if (sy > 1e-10 * cblas_dnrm2((int)D, s, 1) * cblas_dnrm2((int)D, y, 1))
        p->pairs++;
    p->stalls = log_p - p->log_p < 1e-3 ? p->stalls + 1 : 0;
    p->log_p = log_p;
    memcpy(f->path_x + k * D, x, D * sizeof *x);
    memcpy(f->path_g + k * D, g, D * sizeof *g);
    if (known(f, x, log_p) >= 0)
        end_path(f, k);
    else {
        aim(f, k);
        /* nothing gained lately, and the quadratic model promises no more */
        if (p->active && p->stalls >= 3 && p->slope < 0.1)
            end_path(f, k);
    }
}

/* Takes the answer at the path's trial point: weak Wolfe conditions by bisection. */
static void advance(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g)
{
    size_t D = f->D;
    wv_path *p = &f->s.path[k];
    p->evaluations++;
    if (p->fresh) {
        if (log_p == -INFINITY) {
            if (++p->tries == 40)
                end_path(f, k);
            else
                scatter(f, p, f->path_x + k * D);
            return;
        }
        p->fresh = 0;
        p->log_p = log_p;
        memcpy(f->path_g + k * D, g, D * sizeof *g);
        aim(f, k);
        return;
    }
    double slope = 0;
    for (size_t i = 0; i < D; i++)
        slope += f->path_p[k * D + i] * f->path_scale[i] * g[i];
    bool rises = log_p >= p->log_p + armijo * p->step * p->slope, flat = slope <= curvature * p->slope;
    if (rises && (flat || ++p->looks >= LOOK)) {
        accept(f, k, log_p, x, g);
    } else if (++p->looks >= LOOK) {
        end_path(f, k);
        return;
    } else {
        if (rises)
            p->low = p->step;
        else
            p->high = p->step;
        p->step = p->high == INFINITY ? 2 * p->step : (p->low + p->high) / 2;
    }
    if (p->active && (p->evaluations >= 100 + 4 * D || out_of_range(f, k)))
        end_path(f, k);
}

/* ---- the answer ------------------------------------------------------------------------------------------------------------------ */
/* How many of N particles each mode gets: one each for the heaviest N, the rest in proportion to mass (largest remainders by repeated best quotient). */
static void allot(wvgd_fit *f, size_t *count)
{
    size_t left = f->N;
    memset(count, 0, WV_MODES * sizeof *count);
    while (left) {
        size_t pick = 0;
        double best = -INFINITY;
        bool bare = false;
        for (size_t m = 0; m < f->s.modes; m++)
            bare |= f->s.mode[m].relevant && !count[m];
        for (size_t m = 0; m < f->s.modes; m++) {
            double score = f->s.mode[m].log_mass - log((double)count[m] + 0.5);
            if (f->s.mode[m].relevant && (!bare || !count[m]) && score > best) {
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
    wv_gauss g = mode_gauss(f, m);
    wv_stream stream = {f->opt.seed, WV_RNG_START, 1, j};
    double *sd = f->vector[1], *z = f->now.z + j * D;
    if (alone)
        memcpy(z, g.mu, D * sizeof *z);
    else
        wv_component_draw(&g, &stream, 0, 1, false, z, f->work);
    memcpy(f->now.mu + j * D, z, D * sizeof *z);
    g.family->sd(D, 0, g.root, sd);
    double *root = f->now.root + j * f->family->size(D, f->R), *spread = f->now.spread + j * f->cell_family->size(D, 0);
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
    if (!f->s.modes) { /* stopped before any ascent has ended: particles stay where the given scale puts them */
        wv_joint_begin(f);
        return;
    }
    allot(f, count);
    for (size_t m = 0; m < f->s.modes; m++) {
        if (f->s.mode[m].log_mass > f->s.mode[best].log_mass)
            best = m;
        for (size_t c = 0; c < count[m]; c++)
            settle(f, j++, m, count[m] == 1);
    }
    wv_gauss g = mode_gauss(f, best);
    if (f->pilot) {
        memcpy(f->pilot_mu, g.mu, f->D * sizeof(double));
        memcpy(f->pilot_root, g.root, f->D * f->D * sizeof(double));
    }
    if (!(f->opt.metric && f->opt.cost == WVGD_MAHALANOBIS))
        memcpy(f->now.metric, g.root, wv_explore_root_size(f) * sizeof(double));
    wv_joint_begin(f);
}

/* Enough starts, and no relevant mode seen only once? */
static bool satisfied(wvgd_fit *f)
{
    size_t W = 0, once = 0;
    for (size_t m = 0; m < f->s.modes; m++)
        if (f->s.mode[m].relevant) {
            W++;
            once += f->s.mode[m].hits == 1;
        }
    f->s.hit_once = once;
    size_t enough = W <= 1 ? 32 : 25 * (W + 1);
    if (W == 1 && f->s.starts >= 16 && f->s.evaluations > 100 * (f->D + 10)) /* slow ascents that agree: more of them would tell little */
        return true;
    return W && ((f->s.starts >= enough && !once) || f->s.starts >= 2 * enough || f->s.starts >= 512 || W == wv_explore_modes(f));
}

wvgd_status wv_explore_tell(wvgd_fit *f, wvgd_error *error)
{
    size_t n = 0, active = 0;
    for (size_t k = 0; k < WV_PATHS; k++) {
        size_t bridges = f->s.path[k].bridges;
        if (bridges) {
            cross(f, k, f->b.log_p + n);
            n += bridges * BRIDGE;
        } else if (f->s.path[k].active) {
            advance(f, k, f->b.log_p[n], f->b.x + n * f->D, f->b.grad + n * f->D);
            n++;
        }
    }
    for (size_t k = 0; k < WV_PATHS; k++)
        active += f->s.path[k].active || f->s.path[k].bridges;
    if (active)
        return WVGD_OK;
    if (!f->s.modes && f->s.starts >= 40) {
        begin_wave(f); /* whoever goes on tries again */
        return wv_fail(error, WVGD_E_NO_DRAWS, "none of %zu starting points of scale %g, tried 40 times each, has a finite log density: give starting points or init-scale",
                       f->s.starts - WV_PATHS, f->opt.init_scale);
    }
    if (satisfied(f))
        wv_explore_settle(f);
    else
        begin_wave(f);
    return WVGD_OK;
}
