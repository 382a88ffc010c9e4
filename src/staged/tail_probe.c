/* tail_probe.c - importance sampling cannot see a tail in which its proposal has no draws: its weights look fine.
 * Hamiltonian walks can: they begin at draws that the weights vouch for and follow the density, in the metric of the
 * component that they begin in, out of what the mixture covers. Where p~ is then many times what m says, the mixture
 * is missing something, and that is where it grows next. */
#include "staged/tail_probe.h"
#include "fit.h"
#include "memory.h"
#include "gaussian.h"
#include "policy.h"
#include "rng.h"
#include "dense.h"
#include "staged/chains.h"
#include "staged/modes.h"
#include <cblas.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

bool wv_tail_probe_new(wv_tail_probe *p, size_t D)
{
    *p = (wv_tail_probe){.D = D};
    const wv_slot slots[] = {{&p->visited_x, wv_times(WV_WALKS * WV_WALK, D)},
                             {&p->visited_log_p, D ? WV_WALKS * WV_WALK : 0}};
    p->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return p->memory != NULL;
}

void wv_tail_probe_free(wv_tail_probe *p)
{
    free(p->memory);
}

bool wv_tail_probe_archive(wv_tail_probe *p, wv_archive *a, bool running)
{
    size_t visited = running ? p->visited : 0;
    wv_archive_values(a, &visited, sizeof visited);
    if (visited > WV_WALKS * WV_WALK)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        p->visited = visited;
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

/* Walk c begins at stored draw i with momentum p[D], in the metric of a component. */
static void set_out(wvgd_fit *f, size_t c, size_t i, size_t component, const double *p)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    const double *x = f->closing.draws.x + i * D;
    double u, log_p = f->closing.draws.log_p[i], *g = wv_arena_take(f->arena, D);
    wv_stream stream = {f->opt.seed, WV_RNG_CRAWL, f->count.batch, 0};
    wv_rng_uniform(&stream, 2 * c + 3, 1, &u);
    if (log_p > -INFINITY) {
        if (f->closing.draws.shape.gradients)
            memcpy(g, f->closing.draws.grad + i * D, D * sizeof *g);
        else /* that of the mixture is like it; the next ones are the density's own */
            wv_mixture_log_density(&f->mix, 1, x, &u, g, &f->workers);
        cblas_dscal((int)D, power(c), g, 1);
        wv_chains_put(&f->chains, c, x, g, power(c) * log_p);
        wv_chains_set_metric(&f->chains, c, f->mix.root + component * D * D);
        wv_chains_push(f, c, p, (wv_policy.tail_step + wv_policy.tail_step_span * u) / pow((double)D, 0.25));
    }
    wv_arena_release(f->arena, mark);
}

/* Walks from a systematic sample of the stored draws, by their weights. */
static void sample(wvgd_fit *f, size_t walks)
{
    size_t at = 0, n = f->closing.draws.n, mark = wv_arena_mark(f->arena);
    double total = cblas_dasum((int)n, f->closing.v, 1), sum = f->closing.v[0] / total, u,
           *p = wv_arena_take(f->arena, f->D);
    wv_stream stream = {f->opt.seed, WV_RNG_CRAWL, f->count.batch, 0};
    wv_rng_uniform(&stream, 0, 1, &u);
    for (size_t c = 0; c < walks; c++) {
        while (sum < ((double)c + u) / (double)walks && at + 1 < n)
            sum += f->closing.v[++at] / total;
        wv_rng_normal(&stream, 2 * c + 2, f->D, p);
        set_out(f, c, at, wv_mixture_owner(&f->mix, f->closing.draws.x + at * f->D, f->arena), p);
    }
    wv_arena_release(f->arena, mark);
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
    double *p = wv_arena_take(f->arena, D);
    mixture_ends e = new_ends(f);
    measure_ends(f, &e);
    for (size_t c = first; c < WV_WALKS; c++) {
        size_t end = 0;
        for (size_t i = 1; i < 2 * K; i++)
            end = e.lonely[i] > e.lonely[end] ? i : end;
        if (!(e.lonely[end] > -INFINITY))
            continue;
        e.lonely[end] = -INFINITY;
        if (!find_axis(f, &e, end / 2))
            continue;
        memcpy(p, e.v, D * sizeof *p);
        cblas_dscal((int)D, end % 2 ? -wv_policy.tail_push : wv_policy.tail_push, p, 1);
        set_out(f, c, e.middle, end / 2, p);
    }
    wv_arena_release(f->arena, mark);
}

bool wv_tail_probe_begin(wvgd_fit *f)
{
    f->probe.visited = 0;
    wv_chains_gather(&f->chains, WV_WALKS, WV_WALK);
    sample(f, weighted_walks());
    extend(f, weighted_walks());
    return wv_chains_moving(&f->chains);
}

/* Walks have been where this batch was; what they follow is a power of the density. */
bool wv_tail_probe_tell(wvgd_fit *f)
{
    size_t D = f->D, n = 0;
    for (size_t c = 0; c < WV_WALKS; c++) {
        if (!f->chains.now.moving[c])
            continue;
        if (isfinite(f->b.log_p[n]) && f->probe.visited < WV_WALKS * WV_WALK) {
            memcpy(f->probe.visited_x + f->probe.visited * D, f->b.x + n * D, D * sizeof(double));
            f->probe.visited_log_p[f->probe.visited++] = f->b.log_p[n];
        }
        f->b.log_p[n] *= power(c);
        cblas_dscal((int)D, power(c), f->b.grad + n * D, 1);
        n++;
    }
    return wv_chains_tell(f);
}
