/* tail_probe.c - importance sampling cannot see a tail in which its proposal has no draws: its weights look fine.
 * Hamiltonian walks can: they begin at draws that the weights vouch for and follow the density, in the metric of the
 * component that they begin in, out of what the mixture covers. Where p~ is then many times what m says, the mixture
 * is missing something, and that is where it grows next. */
#include "staged/tail_probe.h"
#include "fit.h"
#include "error.h"
#include "memory.h"
#include "gaussian.h"
#include "policy.h"
#include "rng.h"
#include "dense.h"
#include "staged/assess.h"
#include "staged/modes.h"
#include <cblas.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

bool wv_tail_probe_new(wv_tail_probe *p, size_t D)
{
    size_t rows = wv_times(2 * WV_WALKS, D);
    *p = (wv_tail_probe){.D = D};
    const wv_slot slots[] = {{&p->x, rows},
                             {&p->g, rows},
                             {&p->p, rows},
                             {&p->visited_x, wv_times(WV_WALKS * WV_WALK, D)},
                             {&p->visited_log_p, D ? WV_WALKS * WV_WALK : 0}};
    p->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    return p->memory != NULL;
}

void wv_tail_probe_free(wv_tail_probe *p)
{
    free(p->memory);
}

bool wv_tail_probe_archive(wv_tail_probe *p, wv_archive *a, bool running, size_t components)
{
    struct {
        size_t visited, steps, component[WV_WALKS];
        int alive[WV_WALKS];
        double step[WV_WALKS], energy[WV_WALKS];
    } s;
    memset(&s, 0, sizeof s);
    s.visited = p->visited;
    s.steps = p->steps;
    memcpy(s.component, p->component, sizeof s.component);
    memcpy(s.alive, p->alive, sizeof s.alive);
    memcpy(s.step, p->step, sizeof s.step);
    memcpy(s.energy, p->energy, sizeof s.energy);
    wv_archive_values(a, &s, sizeof s);
    bool good = (running ? s.steps < WV_WALK : s.steps <= WV_WALK) && s.visited <= s.steps * WV_WALKS;
    for (size_t c = 0; c < WV_WALKS; c++)
        good = good && !(s.alive[c] & ~1) && (!running || s.component[c] < components);
    if (!good)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        p->visited = s.visited;
        p->steps = s.steps;
        memcpy(p->component, s.component, sizeof s.component);
        memcpy(p->alive, s.alive, sizeof s.alive);
        memcpy(p->step, s.step, sizeof s.step);
        memcpy(p->energy, s.energy, sizeof s.energy);
    }
    size_t walks = running ? 2 * WV_WALKS : 0, visited = running ? s.visited : 0;
    wv_archive_array(a, p->x, walks * p->D);
    wv_archive_array(a, p->g, walks * p->D);
    wv_archive_array(a, p->p, walks * p->D);
    wv_archive_array(a, p->visited_x, visited * p->D);
    wv_archive_array(a, p->visited_log_p, visited);
    return true;
}

/* The first walks begin at draws that the weights vouch for and follow the posterior. The others set out from the
 * middle of a component along its longest axis, where no other component continues it, and follow a flatter density, a
 * power of the posterior's, which goes further out. */
static size_t weighted_walks(void)
{
    return (size_t)(wv_policy.tail_weighted * WV_WALKS);
}

/* The power of the posterior's density that walk c follows. */
static double power(size_t c)
{
    return c < weighted_walks() ? 1 : wv_policy.tail_flat;
}

static wv_gaussian metric(const wvgd_fit *f, size_t c)
{
    return wv_mixture_component(&f->mix, f->probe.component[c]);
}

/* p += step/2 L' g */
static void kick(wvgd_fit *f, size_t c, double step)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *force = wv_arena_take(f->arena, D);
    wv_gaussian q = metric(f, c);
    memcpy(force, f->probe.g + c * D, D * sizeof *force);
    q.family->pull(D, 0, q.root, 1, force, f->arena);
    cblas_daxpy((int)D, step * power(c), force, 1, f->probe.p + c * D, 1);
    wv_arena_release(f->arena, mark);
}

/* x += step L p */
static void drift(wvgd_fit *f, size_t c)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *velocity = wv_arena_take(f->arena, D);
    wv_gaussian q = metric(f, c);
    memcpy(velocity, f->probe.p + c * D, D * sizeof *velocity);
    q.family->colour(D, 0, q.root, 1, velocity, f->arena);
    cblas_daxpy((int)D, f->probe.step[c], velocity, 1, f->probe.x + c * D, 1);
    wv_arena_release(f->arena, mark);
}

static void begin(wvgd_fit *f, size_t c)
{
    size_t D = f->D, from = (WV_WALKS + c) * D, to = c * D;
    memcpy(f->probe.x + to, f->probe.x + from, D * sizeof(double));
    memcpy(f->probe.g + to, f->probe.g + from, D * sizeof(double));
    memcpy(f->probe.p + to, f->probe.p + from, D * sizeof(double));
    kick(f, c, f->probe.step[c] / 2);
    drift(f, c);
}

/* Walk c begins at stored draw i with the momentum in f->probe.p. */
static void set_out(wvgd_fit *f, size_t c, size_t i, size_t component)
{
    size_t D = f->D;
    double u, *p = f->probe.p + (WV_WALKS + c) * D;
    wv_stream stream = {f->opt.seed, WV_RNG_CRAWL, f->count.batch, 0};
    memcpy(f->probe.x + (WV_WALKS + c) * D, f->closing.draws.x + i * D, D * sizeof *p);
    if (f->closing.draws.shape.gradients)
        memcpy(f->probe.g + (WV_WALKS + c) * D, f->closing.draws.grad + i * D, D * sizeof *p);
    else /* that of the mixture is like it; the next ones are the density's own */
        wv_mixture_log_density(&f->mix, 1, f->closing.draws.x + i * D, &u, f->probe.g + (WV_WALKS + c) * D,
                               &f->workers);
    wv_rng_uniform(&stream, 2 * c + 3, 1, &u);
    f->probe.component[c] = component;
    f->probe.step[c] = (wv_policy.tail_step + wv_policy.tail_step_span * u) / pow((double)D, 0.25);
    f->probe.energy[c] = power(c) * f->closing.draws.log_p[i] - cblas_ddot((int)D, p, 1, p, 1) / 2;
    f->probe.alive[c] = f->closing.draws.log_p[i] > -INFINITY;
    begin(f, c);
}

/* Walks from a systematic sample of the stored draws, by their weights. */
static void sample(wvgd_fit *f, size_t walks)
{
    size_t at = 0, n = f->closing.draws.n;
    double total = cblas_dasum((int)n, f->closing.v, 1), sum = f->closing.v[0] / total, u;
    wv_stream stream = {f->opt.seed, WV_RNG_CRAWL, f->count.batch, 0};
    wv_rng_uniform(&stream, 0, 1, &u);
    for (size_t c = 0; c < walks; c++) {
        while (sum < ((double)c + u) / (double)walks && at + 1 < n)
            sum += f->closing.v[++at] / total;
        wv_rng_normal(&stream, 2 * c + 2, f->D, f->probe.p + (WV_WALKS + c) * f->D);
        set_out(f, c, at, wv_mixture_owner(&f->mix, f->closing.draws.x + at * f->D, f->arena));
    }
}

/* Longest axis of component k, seen in the metric of its mode (root): a unit vector in the component's own
 * coordinates, v = argmax |root^-1 L v|. */
static bool axis(wvgd_fit *f, size_t k, const double *root, double *v)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *A = wv_arena_take(f->arena, D * D), *G = wv_arena_take(f->arena, D * D); /* [D][D] root^-1 L, A'A */
    wv_gaussian q = wv_mixture_component(&f->mix, k);
    memcpy(A, q.root, D * D * sizeof *A);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, root, (int)D, A,
                (int)D);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)D, (int)D, (int)D, 1.0, A, (int)D, A, (int)D, 0.0, G,
                (int)D);
    bool found = wv_dense_longest(D, G, v, A);
    wv_arena_release(f->arena, mark);
    return found;
}

/* Stored draw that is nearest to the middle of component k. */
static size_t nearest_draw(wvgd_fit *f, size_t k)
{
    size_t best = 0, n = f->closing.draws.n, D = f->D, mark = wv_arena_mark(f->arena);
    double least = INFINITY, *y = wv_arena_take(f->arena, WV_BLOCK * D); /* [WV_BLOCK][D] draws as the component sees
                                                                          * them */
    wv_gaussian q = wv_mixture_component(&f->mix, k);
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        wv_gaussian_whiten(&q, here, f->closing.draws.x + first * D, y, f->arena);
        for (size_t i = 0; i < here; i++) {
            double r = cblas_dnrm2((int)D, y + i * D, 1);
            if (r < least && f->closing.draws.log_p[first + i] > -INFINITY) {
                least = r;
                best = first + i;
            }
        }
    }
    wv_arena_release(f->arena, mark);
    return best;
}

/* How little the other components have at some sds of component k along v: log of its share of the mixture there. */
static double lonely(wvgd_fit *f, size_t k, const double *v)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, D), *y = wv_arena_take(f->arena, D), log_q, log_m;
    wv_gaussian q = wv_mixture_component(&f->mix, k);
    memcpy(x, v, D * sizeof *x);
    cblas_dscal((int)D, wv_policy.tail_reach, x, 1);
    q.family->colour(D, 0, q.root, 1, x, f->arena);
    cblas_daxpy((int)D, 1.0, q.mu, 1, x, 1);
    wv_gaussian_log_density(&q, 1, x, &log_q, y, f->arena);
    wv_mixture_log_density(&f->mix, 1, x, &log_m, NULL, &f->workers);
    wv_arena_release(f->arena, mark);
    return log(f->mix.w[k]) + log_q - log_m;
}

/* The ends of the mixture's components, and the component whose axis is at hand. Lengths of axes are seen in the metric
 * of the components of the same mode: in that of all of them, what lies along the way from one mode to another would
 * look short. */
typedef struct {
    size_t modes;
    double *lonely;      /* [K][2] how lonely each end is; -INFINITY: none, or done with */
    double *mode;        /* [K] mode of each component */
    double *mean, *root; /* [D], [D][D] moments of the components of one mode */
    double *v;           /* [D] axis */
    size_t of, middle;   /* the component whose axis is in v, or K; the draw in its middle */
} mixture_ends;

/* The arena keeps what it points to. */
static mixture_ends new_ends(wvgd_fit *f)
{
    size_t K = f->mix.K, D = f->D;
    mixture_ends e = {.modes = f->modes.n > 1 ? f->modes.n : 1,
                      .lonely = wv_arena_take(f->arena, 2 * K),
                      .mode = wv_arena_take(f->arena, K),
                      .mean = wv_arena_take(f->arena, D),
                      .root = wv_arena_take(f->arena, D * D),
                      .v = wv_arena_take(f->arena, D),
                      .of = K};
    for (size_t k = 0; k < K; k++) {
        e.mode[k] = e.modes > 1 ? (double)wv_modes_nearest(f, e.modes, f->mix.mu + k * D) : 0;
        e.lonely[2 * k] = e.lonely[2 * k + 1] = -INFINITY;
    }
    return e;
}

static void measure_ends(wvgd_fit *f, const mixture_ends *e)
{
    for (size_t m = 0; m < e->modes; m++) {
        bool measured = false;
        for (size_t k = 0; k < f->mix.K; k++) {
            if (e->mode[k] != (double)m)
                continue;
            measured = measured || wv_mixture_moments_of(&f->mix, e->mode, (double)m, e->mean, e->root, f->arena);
            if (!measured || !axis(f, k, e->root, e->v))
                continue;
            e->lonely[2 * k] = lonely(f, k, e->v);
            cblas_dscal((int)f->D, -1, e->v, 1);
            e->lonely[2 * k + 1] = lonely(f, k, e->v);
        }
    }
}

/* The axis of component k, into e->v, and the draw in its middle; false: none. */
static bool find_axis(wvgd_fit *f, mixture_ends *e, size_t k)
{
    if (e->of != k) {
        bool found = wv_mixture_moments_of(&f->mix, e->mode, e->mode[k], e->mean, e->root, f->arena) &&
                     axis(f, k, e->root, e->v);
        e->of = found ? k : f->mix.K;
        e->middle = found ? nearest_draw(f, k) : 0;
    }
    return e->of == k;
}

/* Walks outwards from the loneliest ends of the mixture. */
static void extend(wvgd_fit *f, size_t first)
{
    size_t K = f->mix.K, D = f->D, mark = wv_arena_mark(f->arena);
    mixture_ends e = new_ends(f);
    measure_ends(f, &e);
    for (size_t c = first; c < WV_WALKS; c++) {
        size_t end = 0;
        for (size_t i = 1; i < 2 * K; i++)
            end = e.lonely[i] > e.lonely[end] ? i : end;
        f->probe.alive[c] = 0;
        if (!(e.lonely[end] > -INFINITY))
            continue;
        e.lonely[end] = -INFINITY;
        if (!find_axis(f, &e, end / 2))
            continue;
        double *p = f->probe.p + (WV_WALKS + c) * D;
        memset(p, 0, D * sizeof *p);
        cblas_daxpy((int)D, end % 2 ? -wv_policy.tail_push : wv_policy.tail_push, e.v, 1, p, 1);
        set_out(f, c, e.middle, end / 2);
    }
    wv_arena_release(f->arena, mark);
}

bool wv_tail_probe_begin(wvgd_fit *f)
{
    bool alive = false;
    double *const rows[] = {f->probe.x, f->probe.g, f->probe.p};
    f->probe.visited = f->probe.steps = 0;
    memset(f->probe.component, 0, sizeof f->probe.component);
    memset(f->probe.alive, 0, sizeof f->probe.alive);
    memset(f->probe.step, 0, sizeof f->probe.step);
    memset(f->probe.energy, 0, sizeof f->probe.energy);
    /* walks that do not set out have rows too, and these are saved */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        memset(rows[i], 0, 2 * WV_WALKS * f->D * sizeof(double));
    sample(f, weighted_walks());
    extend(f, weighted_walks());
    for (size_t c = 0; c < WV_WALKS; c++)
        alive |= f->probe.alive[c] != 0;
    return alive;
}

void wv_tail_probe_ask(wvgd_fit *f)
{
    size_t n = 0;
    for (size_t c = 0; c < WV_WALKS; c++)
        if (f->probe.alive[c])
            memcpy(f->b.x + n++ * f->D, f->probe.x + c * f->D, f->D * sizeof(double));
    f->b.n = n;
}

/* log p~^power - momentum^2 / 2 of walk c, which is at a point of this density. */
static double energy(const wvgd_fit *f, size_t c, double log_p)
{
    const double *p = f->probe.p + c * f->D;
    return power(c) * log_p - cblas_ddot((int)f->D, p, 1, p, 1) / 2;
}

/* The walk has been at x. */
static void note_point(wvgd_fit *f, const double *x, double log_p)
{
    memcpy(f->probe.visited_x + f->probe.visited * f->D, x, f->D * sizeof *x);
    f->probe.visited_log_p[f->probe.visited++] = log_p;
}

/* A step of walk c, with the answer at its point. */
static void walk(wvgd_fit *f, size_t c, const double *x, double log_p, const double *grad)
{
    size_t D = f->D;
    memcpy(f->probe.g + c * D, grad, D * sizeof *grad);
    kick(f, c, f->probe.step[c] / 2);
    if (energy(f, c, log_p) > f->probe.energy[c] - wv_policy.tail_energy_loss) {
        note_point(f, x, log_p);
        kick(f, c, f->probe.step[c] / 2);
        drift(f, c);
    } else { /* the steps are too long here: once more, with shorter ones */
        f->probe.step[c] *= wv_policy.tail_shorter;
        begin(f, c);
    }
    for (size_t i = 0; i < D; i++)
        if (!(fabs(f->probe.x[c * D + i]) < 1e120))
            f->probe.alive[c] = 0;
}

bool wv_tail_probe_tell(wvgd_fit *f)
{
    size_t D = f->D, n = 0, alive = 0;
    f->probe.steps++;
    for (size_t c = 0; c < WV_WALKS; c++)
        if (f->probe.alive[c]) {
            walk(f, c, f->b.x + n * D, f->b.log_p[n], f->b.grad + n * D);
            alive += f->probe.alive[c] ? 1 : 0;
            n++;
        }
    return !alive || f->probe.steps >= WV_WALK;
}
