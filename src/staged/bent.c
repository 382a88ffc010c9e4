/* bent.c - the staged solver in bent coordinates (bent.h). */
#include "staged/bent.h"
#include "coordinates/bend_arguments.h"
#include "dense.h"
#include "error.h"
#include "fit.h"
#include "memory.h"
#include "policy.h"
#include "rng.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEEN = 512 }; /* draws of a trial that are kept */

bool wv_bent_new(wv_bent *b, size_t D, size_t room)
{
    const wv_slot slots[] = {{&b->seen_x, wv_times(D, SEEN)}, {&b->seen_p, D ? SEEN : 0}};
    b->D = D;
    b->seen = 0;
    b->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return b->memory && wv_mixture_new(&b->straight, D, room) && wv_mixture_new(&b->bent, D, room);
}

void wv_bent_free(wv_bent *b)
{
    wv_mixture_free(&b->straight);
    wv_mixture_free(&b->bent);
    free(b->memory);
}

typedef struct {
    size_t looked, kept, cells, tries, seen;
    double wanted, elbo, sd;
} flags;

bool wv_bent_archive(wv_bent *b, wv_archive *a)
{
    flags c = {b->looked, b->kept, b->cells, b->tries, b->seen, b->wanted, b->elbo, b->sd};
    wv_archive_values(a, &c, sizeof c);
    if (c.looked > 1 || c.kept > 1 || c.cells > 1 || (c.cells && !c.kept) || c.seen > (b->D ? SEEN : 0))
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        b->looked = c.looked;
        b->kept = c.kept;
        b->cells = c.cells;
        b->tries = c.tries;
        b->seen = c.seen;
        b->wanted = c.wanted;
        b->elbo = c.elbo;
        b->sd = c.sd;
    }
    wv_archive_array(a, b->seen_x, c.seen * b->D);
    wv_archive_array(a, b->seen_p, c.seen);
    return wv_mixture_archive(&b->straight, a, 0) && wv_mixture_archive(&b->bent, a, 0);
}

/* ---- the search -------------------------------------------------------------------------------------------------- */
bool wv_bent_open(const wvgd_fit *f)
{
    return f->bend.D && !f->bent.looked && !f->bend.on && !f->tally.limits; /* improper densities have no map */
}

void wv_bent_remember(wvgd_fit *f)
{
    if (wv_bent_open(f) && (f->model.has_gradient || wv_staged_wants_gradient(f)))
        wv_bend_pool_take(&f->pool, f->b.n, f->b.x, f->b.log_p, f->b.grad);
}

void wv_bent_forget(wvgd_fit *f)
{
    f->bent.looked = true;
    wv_bend_pool_clear(&f->pool);
}

/* The Gaussian that a bend is looked for around: the heaviest mode, or, once the only one has grown into several, the
 * moments of all. */
static bool find_middle(wvgd_fit *f, double *mu, double *root)
{
    size_t heaviest = 0, D = f->D;
    if (f->mix.K > 1 && f->modes.relevant == 1)
        return wv_mixture_moments(&f->mix, mu, root, f->arena);
    for (size_t k = 1; k < f->mix.K; k++)
        heaviest = f->mix.w[k] > f->mix.w[heaviest] ? k : heaviest;
    memcpy(mu, f->mix.mu + heaviest * D, D * sizeof *mu);
    memcpy(root, f->mix.root + heaviest * D * D, D * D * sizeof *root);
    return true;
}

/* Keeps draws of the trial in x, evenly chosen. */
static void keep_seen(wvgd_fit *f)
{
    const wv_draws *d = &f->closing.draws;
    f->bent.seen = d->n < SEEN ? d->n : SEEN;
    for (size_t i = 0; i < f->bent.seen; i++) {
        size_t k = i * d->n / f->bent.seen;
        memcpy(f->bent.seen_x + i * f->D, d->x + k * f->D, f->D * sizeof *d->x);
        f->bent.seen_p[i] = d->log_p[k];
    }
}

size_t wv_bent_see(wvgd_fit *f, double **u, double **log_p)
{
    size_t n = f->bent.seen;
    *u = wv_arena_take(f->arena, n * f->D);
    *log_p = wv_arena_take(f->arena, n);
    memcpy(*log_p, f->bent.seen_p, n * sizeof **log_p);
    wv_bend_inverse(&f->bend, n, f->bent.seen_x, *u, f->arena);
    wv_bend_pull(&f->bend, n, *u, *log_p, NULL, f->arena);
    return n;
}

bool wv_bent_seems(wvgd_fit *f, const wv_gaussian *g)
{
    return wv_bent_open(f) && f->model.has_gradient && wv_bend_seems(&f->pool, g->mu, g->root, f->arena);
}

bool wv_bent_begin(wvgd_fit *f)
{
    if (!wv_bent_open(f))
        return false;
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *mu = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, D * D);
    const wv_draws *d = &f->closing.draws;
    if (d->shape.gradients)
        wv_bend_pool_take(&f->pool, d->n, d->x, d->log_p, d->grad);
    bool found = find_middle(f, mu, root) && wv_bend_find(&f->pool, &f->bend, mu, root, f->arena);
    wv_arena_release(f->arena, mark);
    if (!found) {
        wv_bend_pool_reopen(&f->pool);
        f->bent.tries++;
        return false;
    }
    keep_seen(f);
    wv_mixture_copy(&f->bent.straight, &f->mix);
    f->bent.wanted = f->growth.wanted;
    f->bent.elbo = f->fitting.elbo;
    return true;
}

void wv_bent_ask(wvgd_fit *f)
{
    wv_stream stream = {f->opt.seed, WV_RNG_BEND, f->count.batch, 0}, fitted = stream, drawn = stream;
    fitted.component = 1;
    drawn.component = 2;
    wv_bend_clouds arms;
    f->b.n = wv_bend_batch(f->D);
    wv_bend_draw(&f->pool, &f->bend, &stream, f->b.n, f->b.x, f->arena);
    if (wv_bend_tells_arms(&f->pool) && wv_bend_arguments_fit(&f->pool, &f->bend, &fitted, &arms, f->arena))
        wv_bend_arguments_draw(&arms, &f->bend, &drawn, f->b.n, f->b.x, f->arena);
}

/* The mixture in u has a component for each of these Gaussians of the arguments. */
static void set_clouds(wvgd_fit *f, const wv_bend_clouds *q)
{
    size_t D = f->D, r = q->r, mark = wv_arena_mark(f->arena);
    double *mu = wv_arena_zeros(f->arena, D), *root = wv_arena_zeros(f->arena, D * D);
    for (size_t i = r; i < D; i++)
        root[i * (D + 1)] = 1;
    wv_mixture_clear(&f->mix);
    for (size_t k = 0; k < q->K && f->mix.K < f->mix.room; k++) {
        memcpy(mu, q->mu[k], r * sizeof *mu);
        for (size_t i = 0; i < r; i++)
            memcpy(root + i * D, q->root[k] + i * r, r * sizeof *root);
        wv_mixture_append(&f->mix, &(wv_gaussian){wv_family_get(WVGD_FULL), D, 0, mu, root, 0}, q->w[k]);
    }
    wv_mixture_normalise(&f->mix);
    wv_arena_release(f->arena, mark);
}

/* The mixture in u: a standard normal, or what the arguments have instead. */
static void enter(wvgd_fit *f)
{
    wv_bend_clouds clouds;
    wv_stream stream = {f->opt.seed, WV_RNG_BEND, f->count.batch, 1};
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *mu = wv_arena_zeros(f->arena, D), *root = wv_arena_zeros(f->arena, D * D);
    for (size_t i = 0; i < D; i++)
        root[i * (D + 1)] = 1;
    wv_mixture_set_one(&f->mix, mu, root);
    if (wv_bend_arguments_fit(&f->pool, &f->bend, &stream, &clouds, f->arena))
        set_clouds(f, &clouds);
    wv_mixture_clear(&f->mix_tried);
    wv_draws_clear(&f->recent);
    wv_bend_switch(&f->bend, true);
    wv_arena_release(f->arena, mark);
}

bool wv_bent_tell(wvgd_fit *f)
{
    bool last = wv_bend_learn(&f->pool, &f->bend, f->b.n, f->b.x, f->b.log_p, f->b.grad, f->arena);
    wv_bend_count(&f->bend, 0, f->b.values);
    if (last)
        enter(f);
    return last;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */
bool wv_bent_on_trial(const wvgd_fit *f)
{
    return f->bend.on && !f->bent.kept;
}

void wv_bent_keep(wvgd_fit *f)
{
    f->bent.kept = true;
    wv_modes_unite(f);
}

void wv_bent_leave(wvgd_fit *f)
{
    wv_bend_switch(&f->bend, false);
    wv_bend_pool_reopen(&f->pool);
    f->bent.tries++;
    wv_mixture_copy(&f->mix, &f->bent.straight);
    wv_mixture_clear(&f->mix_tried);
    wv_draws_clear(&f->recent);
}

void wv_bent_give_up(wvgd_fit *f, bool for_good)
{
    wv_bent_leave(f);
    if (for_good)
        f->bent.tries = (size_t)wv_policy.bend_tries;
    wv_bent_forget(f);
    f->bent.kept = false;
    wv_modes_separate(f);
    wv_mixture_fit_set_elbo(&f->fitting, f->bent.elbo);
}

bool wv_bent_asks(const wvgd_fit *f)
{
    return f->bend.on && f->stage != WV_SEEK;
}

void wv_bent_set_cells(wv_bent *b, bool cells)
{
    b->cells = cells;
}

/* ---- draws and mixture between u and x --------------------------------------------------------------------------- */
/* Gradients of the closing draws; NULL: they have none. */
static double *copy_gradients(const wvgd_fit *f)
{
    const wv_draws *d = &f->closing.draws;
    size_t size = d->n * f->D;
    return d->shape.gradients ? memcpy(wv_arena_take(f->arena, size), d->grad, size * sizeof(double)) : NULL;
}

/* All closing draws, by the map or by its inverse; log m changes as log p does. */
static void move_draws(wvgd_fit *f, bool to_user)
{
    const wv_draws *d = &f->closing.draws;
    size_t n = d->n, D = f->D, mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, n * D), *log_p = wv_arena_take(f->arena, n),
           *log_m = wv_arena_take(f->arena, n), *grad = copy_gradients(f);
    memcpy(log_p, d->log_p, n * sizeof *log_p);
    memcpy(log_m, d->log_m, n * sizeof *log_m);
    if (to_user) {
        wv_bend_forward(&f->bend, n, d->x, x, NULL, f->arena);
        wv_bend_push(&f->bend, n, d->x, log_p, grad, f->arena);
        wv_bend_push(&f->bend, n, d->x, log_m, NULL, f->arena);
    } else {
        wv_bend_inverse(&f->bend, n, d->x, x, f->arena);
        wv_bend_pull(&f->bend, n, x, log_p, grad, f->arena);
        wv_bend_pull(&f->bend, n, x, log_m, NULL, f->arena);
    }
    wv_draws_move(&f->closing.draws, x, log_p, grad, log_m);
    wv_arena_release(f->arena, mark);
}

wv_draws wv_bent_view(wvgd_fit *f)
{
    const wv_draws *d = &f->closing.draws;
    size_t n = d->n, D = f->D;
    wv_draws_numbers u = {wv_arena_take(f->arena, n * D), wv_arena_take(f->arena, n), copy_gradients(f),
                          wv_arena_take(f->arena, n), wv_arena_take(f->arena, n)};
    memcpy(u.log_p, d->log_p, n * sizeof *u.log_p);
    memcpy(u.log_m, d->log_m, n * sizeof *u.log_m);
    wv_bend_inverse(&f->bend, n, d->x, u.x, f->arena);
    wv_bend_pull(&f->bend, n, u.x, u.log_p, u.grad, f->arena);
    wv_bend_pull(&f->bend, n, u.x, u.log_m, NULL, f->arena);
    wv_mixture_log_density(&f->bent.bent, n, u.x, u.log_mix, NULL, &f->workers);
    return wv_draws_with(d, &u);
}

/* Slices of the posterior along the first argument, of equal mass: in each of them it is nearly a Gaussian. */
static size_t slices(const wvgd_fit *f)
{
    double most = f->outcome.ess / (wv_policy.bend_slice_draws * (double)f->D);
    return (size_t)fmin(fmax(fmin(most, wv_policy.bend_slices), 1), (double)f->mix.room);
}

/* slice[n] of each closing draw, while these stand in u. */
static void cut(wvgd_fit *f, size_t K, size_t *slice)
{
    const wv_draws *d = &f->closing.draws;
    size_t n = d->n, mark = wv_arena_mark(f->arena);
    double *first = wv_arena_take(f->arena, n), below = 0;
    uint32_t *order = wv_arena_take_index(f->arena, n);
    for (size_t i = 0; i < n; i++)
        first[i] = d->x[i * f->D];
    wv_weights_order(n, first, order, f->arena);
    for (size_t i = 0; i < n; i++) {
        size_t k = (size_t)((double)K * below);
        slice[order[i]] = k < K ? k : K - 1;
        below += f->closing.v[order[i]];
    }
    wv_arena_release(f->arena, mark);
}

/* Mass, mean [D] and root [D][D] of the draws of a slice; false: none. */
static bool slice_moments(wvgd_fit *f, const size_t *slice, size_t k, double *mass, double *mean, double *root)
{
    const wv_draws *d = &f->closing.draws;
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *away = wv_arena_take(f->arena, D), *spare = wv_arena_take(f->arena, D * D);
    *mass = 0;
    memset(mean, 0, D * sizeof *mean);
    memset(root, 0, D * D * sizeof *root);
    for (size_t i = 0; i < d->n; i++)
        if (slice[i] == k) {
            *mass += f->closing.v[i];
            cblas_daxpy((int)D, f->closing.v[i], d->x + i * D, 1, mean, 1);
        }
    if (*mass > 0)
        cblas_dscal((int)D, 1 / *mass, mean, 1);
    for (size_t i = 0; i < d->n; i++)
        if (slice[i] == k) {
            for (size_t c = 0; c < D; c++)
                away[c] = d->x[i * D + c] - mean[c];
            cblas_dsyr(CblasRowMajor, CblasLower, (int)D, f->closing.v[i] / *mass, away, 1, root, (int)D);
        }
    bool good = *mass > 0;
    for (size_t c = 0; c < D; c++)
        good = good && root[c * D + c] > 0 && isfinite(root[c * D + c]);
    good = good && wv_dense_chol(D, root, spare);
    wv_arena_release(f->arena, mark);
    return good;
}

/* The mixture that cells in x begin with: a Gaussian for each slice. */
static void set_slices(wvgd_fit *f, size_t K, const size_t *slice)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *mean = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, D * D), mass;
    wv_mixture_clear(&f->mix);
    for (size_t k = 0; k < K; k++)
        if (slice_moments(f, slice, k, &mass, mean, root))
            wv_mixture_append(&f->mix, &(wv_gaussian){wv_family_get(WVGD_FULL), D, 0, mean, root, 0}, mass);
    if (f->mix.K)
        wv_mixture_normalise(&f->mix);
    else
        wv_mixture_copy(&f->mix, &f->bent.straight);
    wv_arena_release(f->arena, mark);
}

void wv_bent_to_user(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena), K = slices(f), *slice = wv_arena_take_sizes(f->arena, f->closing.draws.n);
    cut(f, K, slice);
    move_draws(f, true);
    wv_bend_switch(&f->bend, false);
    wv_mixture_copy(&f->bent.bent, &f->mix);
    set_slices(f, K, slice);
    wv_arena_release(f->arena, mark);
}

void wv_bent_to_solver(wvgd_fit *f)
{
    if (!f->bent.kept || f->bend.on)
        return;
    move_draws(f, false);
    wv_bend_switch(&f->bend, true);
    wv_mixture_copy(&f->mix, &f->bent.bent);
}

/* y[D] of a free draw, and its weight: standard normal, or in every second draw with wider arguments, for what x is far
 * out in them makes its variances. */
static double free_draw(const wv_bend *map, const wv_stream *stream, uint64_t number, double *y)
{
    double square = 0, widen = wv_policy.bend_free_wider, narrower = (double)map->r * log(widen);
    wv_rng_normal(stream, number, map->D, y);
    for (size_t i = 0; i < map->r; i++) {
        y[i] *= number % 2 ? widen : 1;
        square += y[i] * y[i];
    }
    return 2 / (1 + exp(square / 2 * (1 - 1 / (widen * widen)) - narrower));
}

/* n free draws of component k of the mixture in u, mapped to x, in blocks. sum[6][D]: adds the weight times the powers
 * 0 to 2 of what each is off from `at`, and the square of the weight times the powers 0, 2 and 4. */
static void add_powers(const wv_map_draws *d, size_t k, size_t n, double weight, double *sum, wv_arena *arena)
{
    enum { BLOCK = 1024 };
    wv_gaussian q = wv_mixture_component(d->mix, k);
    wv_stream stream = {d->seed, WV_RNG_BEND, 0, 2 + k};
    size_t D = d->map->D, mark = wv_arena_mark(arena);
    double *u = wv_arena_take(arena, BLOCK * D), *x = wv_arena_take(arena, BLOCK * D), *w = wv_arena_take(arena, BLOCK);
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t here = n - first < BLOCK ? n - first : BLOCK;
        for (size_t i = 0; i < here; i++)
            w[i] = weight * free_draw(d->map, &stream, first + i, u + i * D);
        q.family->colour(D, q.R, q.root, here, u, arena);
        for (size_t i = 0; i < here * D; i++)
            u[i] += q.mu[i % D];
        wv_bend_forward(d->map, here, u, x, NULL, arena);
        for (size_t i = 0; i < here * D; i++) {
            double off = x[i] - d->at[i % D], v = w[i / D], part = v * off * off, *to = sum + i % D;
            to[0] += v;
            to[D] += v * off;
            to[2 * D] += part;
            to[3 * D] += v * v;
            to[4 * D] += v * part;
            to[5 * D] += part * part;
        }
    }
    wv_arena_release(arena, mark);
}

void wv_bent_free_moments(const wv_map_draws *d, const wv_moments_known *to, wv_arena *arena)
{
    size_t D = d->map->D, mark = wv_arena_mark(arena);
    double *sum = wv_arena_zeros(arena, 6 * D), all = wv_policy.bend_free_draws;
    for (size_t k = 0; k < d->mix->K; k++) {
        size_t n = 2 + (size_t)(d->mix->w[k] * all);
        add_powers(d, k, n, d->mix->w[k] / (double)n, sum, arena);
    }
    for (size_t i = 0; i < D; i++) {
        const double *s = sum + i;
        double off = s[D] / s[0], square = s[2 * D] / s[0];
        to->mean[i] = d->at[i] + off;
        to->var[i] = square - off * off;
        to->var_se[i] = sqrt(fmax(s[5 * D] - 2 * square * s[4 * D] + square * square * s[3 * D], 0)) / s[0];
    }
    wv_arena_release(arena, mark);
}

void wv_bent_moments(wvgd_fit *f, const wv_moments_known *to)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *at = wv_arena_zeros(f->arena, D);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)f->closing.draws.n, (int)D, 1, f->closing.draws.x, (int)D, f->closing.v,
                1, 0, at, 1);
    wv_bent_free_moments(&(wv_map_draws){&f->bend, &f->bent.bent, at, f->opt.seed}, to, f->arena);
    wv_arena_release(f->arena, mark);
}

double wv_bent_log_density(wvgd_fit *f, const double *x, double *stretched)
{
    size_t mark = wv_arena_mark(f->arena);
    double *u = wv_arena_take(f->arena, f->D), *spare = wv_arena_take(f->arena, f->D), log_m, log_det = 0;
    if (f->bend.on) {
        wv_bend_inverse(&f->bend, 1, x, u, f->arena);
        wv_bend_forward(&f->bend, 1, u, spare, &log_det, f->arena);
    } else
        memcpy(u, x, f->D * sizeof *u);
    wv_staged_closing_log_density(f, 1, u, &log_m);
    wv_arena_release(f->arena, mark);
    if (stretched)
        *stretched = log_det;
    return log_m - log_det;
}

/* ---- the search for modes in a bend ------------------------------------------------------------------------------ */
void wv_bent_begin_search(wvgd_fit *f)
{
    const wv_draws *d = &f->closing.draws;
    double total = 0, sum = 0, square = 0;
    for (size_t i = 0; i < d->n; i++) {
        double off = d->log_p[i] - d->log_m[i] - f->outcome.evidence.value, w = exp(off);
        if (!(w > 0))
            continue;
        total += w;
        sum += w * off;
        square += w * off * off;
    }
    f->bent.sd = total > 0 ? sqrt(fmax(square / total - pow(sum / total, 2), 0)) : INFINITY;
}

bool wv_bent_known(const wvgd_fit *f)
{
    return f->stage == WV_SEEK && f->bend.on;
}

double wv_bent_sd(const wvgd_fit *f)
{
    return f->bent.sd;
}

double wv_bent_predict(wvgd_fit *f, const double *x, double *distance)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *u = wv_arena_take(f->arena, D), *y = wv_arena_take(f->arena, D), log_det, total = -INFINITY,
           best = -INFINITY, log_q;
    wv_bend_inverse(&f->bend, 1, x, u, f->arena);
    wv_bend_forward(&f->bend, 1, u, y, &log_det, f->arena);
    *distance = INFINITY;
    for (size_t k = 0; k < f->mix_tried.K; k++) {
        wv_gaussian g = wv_mixture_component(&f->mix_tried, k);
        wv_gaussian_log_density(&g, 1, u, &log_q, y, f->arena);
        wv_weights_add_log(1, &total, log(f->mix_tried.w[k]), &log_q);
        if (log_q + log(f->mix_tried.w[k]) > best) {
            best = log_q + log(f->mix_tried.w[k]);
            *distance = cblas_ddot((int)D, y, 1, y, 1);
        }
    }
    wv_arena_release(f->arena, mark);
    return f->outcome.evidence.value + total - log_det;
}
