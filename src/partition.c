/* partition.c - particles, their cells and the components of these. */
#include "partition.h"
#include "error.h"
#include "evidence.h"
#include "memory.h"
#include "policy.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_partition_new(wv_partition *p, wv_shape shape)
{
    size_t N = shape.N, D = shape.D, ND = wv_times(N, D), root = wv_times(N, shape.family->size(D, shape.R)),
           spread = wv_times(N, shape.cell_family->size(D, 0)), metric = shape.metric_family->size(D, 0);
    *p = (wv_partition){.shape = shape};
    wv_ensemble *e = &p->now, *b = &p->best;
    const wv_slot slots[] = {
        {&e->z, ND},     {&e->mu, ND},     {&e->root, root},  {&e->spread, spread}, {&e->metric, metric},
        {&e->centre, D}, {&e->elbo, N},    {&e->runaways, N}, {&e->beta, N},        {&e->beta2, N},
        {&b->z, ND},     {&b->mu, ND},     {&b->root, root},  {&b->spread, spread}, {&b->metric, metric},
        {&b->centre, D}, {&b->elbo, N},    {&b->runaways, N}, {&b->beta, N},        {&b->beta2, N},
        {&p->around, N}, {&p->beta, N},    {&p->beta_se, N},  {&p->weight, N},      {&p->weight_beta, N},
        {&p->log_Z, N},  {&p->elbo, N},    {&p->elbo_se, N},  {&p->ess, N},         {&p->pareto_k, N},
        {&p->gain, N},   {&p->gain_se, N}, {&p->excess, N},   {&p->excess_se, N},
    };
    p->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    if (!p->memory)
        return false;
    wv_partition_forget(p, 0);
    return true;
}

void wv_partition_forget(wv_partition *p, size_t first)
{
    for (size_t j = first; j < p->shape.N; j++) {
        p->beta[j] = p->beta_se[j] = p->log_Z[j] = p->elbo[j] = p->elbo_se[j] = p->ess[j] = p->pareto_k[j] =
            p->gain[j] = p->gain_se[j] = p->excess[j] = p->excess_se[j] = NAN;
        p->around[j] = p->weight[j] = p->weight_beta[j] = 0;
    }
}

void wv_partition_resize(wv_partition *p, size_t N)
{
    p->shape.N = N;
}

void wv_partition_free(wv_partition *p)
{
    free(p->memory);
}

/* What `e` has of the cells that there are: there may be room for more. */
enum { PARTS = 10 };
typedef struct {
    double *at;
    size_t n;
} part;

static void list_parts(const wv_partition *p, const wv_ensemble *e, part to[PARTS])
{
    const wv_shape *s = &p->shape;
    size_t N = s->N, D = s->D;
    const part parts[PARTS] = {{e->z, N * D},
                               {e->mu, N * D},
                               {e->root, N * s->family->size(D, s->R)},
                               {e->spread, N * s->cell_family->size(D, 0)},
                               {e->metric, s->metric_family->size(D, 0)},
                               {e->centre, D},
                               {e->elbo, N},
                               {e->runaways, N},
                               {e->beta, N},
                               {e->beta2, N}};
    memcpy(to, parts, sizeof parts);
}

static void archive_ensemble(const wv_partition *p, const wv_ensemble *e, wv_archive *a)
{
    part parts[PARTS];
    list_parts(p, e, parts);
    for (size_t i = 0; i < PARTS; i++)
        wv_archive_array(a, parts[i].at, parts[i].n);
}

static void copy_ensemble(const wv_partition *p, const wv_ensemble *from, const wv_ensemble *to)
{
    part source[PARTS], target[PARTS];
    list_parts(p, from, source);
    list_parts(p, to, target);
    for (size_t i = 0; i < PARTS; i++)
        memcpy(target[i].at, source[i].at, source[i].n * sizeof(double));
}

bool wv_partition_archive(wv_partition *p, wv_archive *a)
{
    size_t N = p->shape.N, refined = p->refined;
    double *const results[] = {p->around, p->beta,     p->beta_se, p->weight_beta, p->log_Z,  p->elbo,     p->elbo_se,
                               p->ess,    p->pareto_k, p->gain,    p->gain_se,     p->excess, p->excess_se};
    wv_archive_values(a, &refined, sizeof refined);
    if (wv_archive_reading(a))
        p->refined = refined;
    archive_ensemble(p, &p->now, a);
    archive_ensemble(p, &p->best, a);
    if (!wv_archive_shares(a, N))
        return wv_archive_refuse(a);
    wv_archive_array(a, p->weight, N);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        wv_archive_array(a, results[i], N);
    return true;
}

void wv_partition_keep(wv_partition *p)
{
    copy_ensemble(p, &p->now, &p->best);
}

void wv_partition_go_back(wv_partition *p)
{
    copy_ensemble(p, &p->best, &p->now);
}

wv_geometry wv_partition_geometry(const wv_partition *p)
{
    return (wv_geometry){p->shape.cost, p->shape.N, p->shape.D, p->now.z, p->now.metric, p->now.spread};
}

wv_gaussian wv_partition_component(const wv_partition *p, size_t j)
{
    const wv_shape *s = &p->shape;
    return (wv_gaussian){s->family, s->D, s->R, p->now.mu + j * s->D, p->now.root + j * s->family->size(s->D, s->R), 0};
}

wv_gaussian wv_partition_spread(const wv_partition *p, size_t j)
{
    const wv_shape *s = &p->shape;
    return (wv_gaussian){
        s->cell_family, s->D, 0, p->now.z + j * s->D, p->now.spread + j * s->cell_family->size(s->D, 0), 0};
}

/* Whether two cells have the same component. */
static bool same(const wv_partition *p, size_t i, size_t j)
{
    size_t D = p->shape.D, size = p->shape.family->size(D, p->shape.R);
    return !memcmp(p->now.mu + i * D, p->now.mu + j * D, D * sizeof(double)) &&
           !memcmp(p->now.root + i * size, p->now.root + j * size, size * sizeof(double));
}

/* FNV-1a of the words of a component's mean. */
static uint64_t hash_mean(const wv_partition *p, size_t j)
{
    enum { HALF = 32 };
    static const uint64_t basis = 14695981039346656037u, prime = 1099511628211u;
    uint64_t hash = basis;
    for (size_t i = 0; i < p->shape.D; i++) {
        uint64_t word;
        memcpy(&word, p->now.mu + j * p->shape.D + i, sizeof word);
        hash = (hash ^ word) * prime;
    }
    return hash ^ hash >> HALF;
}

void wv_partition_first_same(const wv_partition *p, size_t *first, wv_arena *arena)
{
    size_t N = p->shape.N, room = 1, mark = wv_arena_mark(arena);
    while (room < 2 * N)
        room *= 2;
    uint32_t *slot = wv_arena_take_index(arena, room); /* [room] first cells, each at its hash or after it; N: none */
    for (size_t k = 0; k < room; k++)
        slot[k] = (uint32_t)N;
    for (size_t j = 0; j < N; j++) {
        size_t k = hash_mean(p, j) & (room - 1);
        while (slot[k] < N && !same(p, slot[k], j))
            k = (k + 1) & (room - 1);
        if (slot[k] == N)
            slot[k] = (uint32_t)j;
        first[j] = slot[k];
    }
    wv_arena_release(arena, mark);
}

/* Cells may be unbounded and components in them decay like exponentials: no Gaussian covers that; in many dimensions a
 * t would waste its draws. */
wv_gaussian wv_partition_proposal(const wv_partition *p, size_t j)
{
    wv_gaussian around = wv_partition_spread(p, j);
    double D = (double)p->shape.D;
    around.nu = D <= wv_policy.around_few_dims    ? wv_policy.around_degrees_few
                : D <= wv_policy.around_some_dims ? wv_policy.around_degrees_some
                                                  : 0;
    return around;
}

/* A root of the family <- that of g, if it is of the same, else the diagonal sd[D]. */
static void set_root(const wv_family *family, size_t D, size_t R, double *root, const wv_gaussian *g, const double *sd)
{
    if (family == g->family)
        memcpy(root, g->root, family->size(D, 0) * sizeof *root);
    else
        family->set_sd(D, R, root, sd);
}

void wv_partition_place(wv_partition *p, size_t j, const double *z, const wv_gaussian *g, const double *sd)
{
    const wv_shape *s = &p->shape;
    size_t D = s->D;
    memcpy(p->now.z + j * D, z, D * sizeof *z);
    memcpy(p->now.mu + j * D, z, D * sizeof *z);
    set_root(s->family, D, s->R, p->now.root + j * s->family->size(D, s->R), g, sd);
    set_root(s->cell_family, D, 0, p->now.spread + j * s->cell_family->size(D, 0), g, sd);
}

void wv_partition_set_sd(wv_partition *p, const double *sd)
{
    const wv_shape *s = &p->shape;
    for (size_t j = 0; j < s->N; j++) {
        s->family->set_sd(s->D, s->R, p->now.root + j * s->family->size(s->D, s->R), sd);
        s->cell_family->set_sd(s->D, 0, p->now.spread + j * s->cell_family->size(s->D, 0), sd);
    }
}

void wv_partition_put(wv_partition *p, size_t j, const double *at)
{
    size_t D = p->shape.D;
    memcpy(p->now.mu + j * D, at, D * sizeof *at);
    memcpy(p->now.z + j * D, at, D * sizeof *at);
}

void wv_partition_set_metric(wv_partition *p, const double *root)
{
    memcpy(p->now.metric, root, p->shape.metric_family->size(p->shape.D, 0) * sizeof *root);
}

void wv_partition_follow_metric(wv_partition *p, size_t n, const double *x, const double *weight, double keep,
                                wv_arena *arena)
{
    const wv_family *family = p->shape.metric_family;
    size_t D = p->shape.D, mark = wv_arena_mark(arena);
    double *y = wv_arena_take(arena, n * D),
           *C = family == wv_family_get(WVGD_FULL) ? wv_arena_take(arena, D * D) : NULL;
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, (int)D, 1.0, x, (int)D, weight, 1, 0.0, p->now.centre, 1);
    wv_gaussian_follow(family, D, p->now.metric, p->now.centre, n, x, weight, keep, y, C, arena);
    wv_arena_release(arena, mark);
}

void wv_partition_move(wv_partition *p, size_t j, const double *z)
{
    memcpy(p->now.z + j * p->shape.D, z, p->shape.D * sizeof *z);
}

void wv_partition_move_all(wv_partition *p, const double *z)
{
    memcpy(p->now.z, z, p->shape.N * p->shape.D * sizeof *z);
}

void wv_partition_move_towards(wv_partition *p, size_t j, double share, const double *z)
{
    double *from = p->now.z + j * p->shape.D;
    for (size_t i = 0; i < p->shape.D; i++)
        from[i] += share * (z[i] - from[i]);
}

/* ---- spreads ----------------------------------------------------------------------------------------------------- */
static double *spread_of(wv_partition *p, size_t j)
{
    return p->now.spread + j * p->shape.cell_family->size(p->shape.D, 0);
}

void wv_partition_set_spread(wv_partition *p, size_t j, const double *root)
{
    memcpy(spread_of(p, j), root, p->shape.cell_family->size(p->shape.D, 0) * sizeof *root);
}

void wv_partition_set_spread_sd(wv_partition *p, size_t j, const double *sd)
{
    p->shape.cell_family->set_sd(p->shape.D, 0, spread_of(p, j), sd);
}

void wv_partition_follow(wv_partition *p, size_t j, const double *mean, size_t n, const double *x, const double *weight,
                         double keep, wv_arena *arena)
{
    const wv_family *family = p->shape.cell_family;
    size_t D = p->shape.D, mark = wv_arena_mark(arena);
    double *y = wv_arena_take(arena, n * D),
           *C = family == wv_family_get(WVGD_FULL) ? wv_arena_take(arena, D * D) : NULL;
    wv_gaussian_follow(family, D, spread_of(p, j), mean, n, x, weight, keep, y, C, arena);
    wv_arena_release(arena, mark);
}

/* Adds the points to the masses of their cells, and their squares about the particles. */
static void add_squares(const wv_partition *p, size_t n, const double *x, const double *w, const uint32_t *cell,
                        double *mass, double *squares)
{
    size_t D = p->shape.D;
    for (size_t k = 0; k < n; k++) {
        const double *z = p->now.z + cell[k] * D;
        double *to = squares + cell[k] * D;
        mass[cell[k]] += w[k];
        for (size_t i = 0; i < D; i++)
            to[i] += w[k] * (x[k * D + i] - z[i]) * (x[k * D + i] - z[i]);
    }
}

/* Sums of squares [D] become sds; false: some are zero, or there are no points. */
static bool to_sds(size_t D, double mass, double *sd)
{
    bool usable = mass > 0;
    for (size_t i = 0; i < D; i++) {
        sd[i] = sqrt(sd[i] / mass);
        usable = usable && sd[i] > 0 && isfinite(sd[i]);
    }
    return usable;
}

void wv_partition_fit_spreads(wv_partition *p, size_t n, const double *x, const double *w, const uint32_t *cell,
                              wv_arena *arena)
{
    size_t D = p->shape.D, N = p->shape.N, mark = wv_arena_mark(arena);
    double *mass = wv_arena_zeros(arena, N), *sd = wv_arena_zeros(arena, N * D); /* [N], [N][D] */
    add_squares(p, n, x, w, cell, mass, sd);
    for (size_t j = 0; j < N; j++)
        if (to_sds(D, mass[j], sd + j * D))
            p->shape.cell_family->set_sd(D, 0, spread_of(p, j), sd + j * D);
    wv_arena_release(arena, mark);
}

/* ---- components -------------------------------------------------------------------------------------------------- */
void wv_partition_set_component(wv_partition *p, size_t j, const double *mu, const double *root)
{
    const wv_shape *s = &p->shape;
    size_t size = s->family->size(s->D, s->R);
    memcpy(p->now.mu + j * s->D, mu, s->D * sizeof *mu);
    memcpy(p->now.root + j * size, root, size * sizeof *root);
}

void wv_partition_set_component_sd(wv_partition *p, size_t j, const double *mu, const double *sd)
{
    const wv_shape *s = &p->shape;
    memcpy(p->now.mu + j * s->D, mu, s->D * sizeof *mu);
    if (sd)
        s->family->set_sd(s->D, s->R, p->now.root + j * s->family->size(s->D, s->R), sd);
}

wv_parameters wv_partition_lend(wv_partition *p, size_t j)
{
    const wv_shape *s = &p->shape;
    return (wv_parameters){p->now.mu + j * s->D, p->now.root + j * s->family->size(s->D, s->R)};
}

wv_gaussian wv_partition_kept_component(const wv_partition *p, size_t j)
{
    const wv_shape *s = &p->shape;
    return (wv_gaussian){s->family, s->D, s->R, p->best.mu + j * s->D, p->best.root + j * s->family->size(s->D, s->R),
                         0};
}

void wv_partition_keep_component(wv_partition *p, size_t j)
{
    const wv_shape *s = &p->shape;
    size_t size = s->family->size(s->D, s->R);
    memcpy(p->best.mu + j * s->D, p->now.mu + j * s->D, s->D * sizeof(double));
    memcpy(p->best.root + j * size, p->now.root + j * size, size * sizeof(double));
}

void wv_partition_recall_component(wv_partition *p, size_t j)
{
    wv_gaussian kept = wv_partition_kept_component(p, j);
    wv_partition_set_component(p, j, kept.mu, kept.root);
}

/* Lowers sds to those that each coordinate has when the others are given, under the covariance with the Cholesky factor
 * root[D][D]: a diagonal Gaussian that is fitted to a correlated one has these. */
static void condition(size_t D, const double *root, double *sd, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *P = wv_arena_take(arena, D * D);
    memcpy(P, root, D * D * sizeof *P);
    bool inverted = LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'U', (lapack_int)D, P, (lapack_int)D) == 0;
    for (size_t i = 0; i < D && inverted; i++)
        sd[i] = fmin(sd[i], 1 / sqrt(P[i * D + i]));
    wv_arena_release(arena, mark);
}

void wv_partition_restart_component(wv_partition *p, size_t j, const double *correlated, wv_arena *arena)
{
    const wv_shape *s = &p->shape;
    size_t D = s->D, size = s->family->size(D, s->R), mark = wv_arena_mark(arena);
    double *root = p->now.root + j * size, *sd = wv_arena_take(arena, D);
    const double *spread = p->now.spread + j * s->cell_family->size(D, 0);
    memcpy(p->now.mu + j * D, p->now.z + j * D, D * sizeof(double));
    if (s->family == s->cell_family) {
        memcpy(root, spread, size * sizeof *root);
        if (correlated && s->family == wv_family_get(WVGD_DIAG))
            condition(D, correlated, root, arena);
    } else {
        s->cell_family->sd(D, 0, spread, sd);
        s->family->set_sd(D, s->R, root, sd);
    }
    wv_arena_release(arena, mark);
}

void wv_partition_count_runaway(wv_partition *p, size_t j)
{
    p->now.runaways[j] += 1;
}

void wv_partition_forget_runaways(wv_partition *p, size_t j)
{
    p->now.runaways[j] = 0;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
void wv_partition_begin_rounds(wv_partition *p)
{
    p->refined = 0;
}

void wv_partition_count_round(wv_partition *p)
{
    p->refined++;
}

void wv_partition_set_mass(wv_partition *p, size_t j, double beta, double se)
{
    p->beta[j] = beta;
    p->beta_se[j] = se;
}

void wv_partition_sum_masses(wv_partition *p, size_t n, const uint32_t *cell, const double *weight)
{
    memset(p->beta, 0, p->shape.N * sizeof *p->beta);
    for (size_t i = 0; i < n; i++)
        p->beta[cell[i]] += weight[i];
}

void wv_partition_forget_masses(wv_partition *p)
{
    for (size_t j = 0; j < p->shape.N; j++)
        p->beta[j] = NAN;
}

void wv_partition_forget_bounds(wv_partition *p)
{
    for (size_t j = 0; j < p->shape.N; j++)
        p->elbo[j] = p->elbo_se[j] = p->gain[j] = p->gain_se[j] = p->excess[j] = p->excess_se[j] = NAN;
}

void wv_partition_set_diagnostics(wv_partition *p, size_t j, double beta_se, double ess, double pareto_k)
{
    p->beta_se[j] = beta_se;
    p->ess[j] = ess;
    p->pareto_k[j] = pareto_k;
}

void wv_partition_set_log_Z(wv_partition *p, size_t j, wvgd_estimate log_Z, bool around)
{
    p->log_Z[j] = log_Z.value;
    p->elbo_se[j] = log_Z.se; /* until there are draws for the bound, which add theirs */
    p->around[j] = around;
}

void wv_partition_set_elbo(wv_partition *p, size_t j, double elbo)
{
    p->elbo[j] = elbo;
}

void wv_partition_set_bound(wv_partition *p, size_t j, wvgd_estimate elbo, double log_Z)
{
    p->elbo[j] = elbo.value;
    p->elbo_se[j] = elbo.se;
    p->log_Z[j] = log_Z;
}

void wv_partition_leave_out(wv_partition *p, size_t j)
{
    p->elbo[j] = -INFINITY;
    p->weight[j] = 0;
}

void wv_partition_estimate(wv_partition *p, const wv_batch *b, double *h_bar, wv_arena *arena)
{
    wv_evidence_elbo(p->shape.N, b, p->elbo, p->log_Z, h_bar, arena);
}

void wv_partition_estimate_se(wv_partition *p, const wv_batch *b, const double *h_bar)
{
    wv_evidence_elbo_se(p->shape.N, b, p->elbo, p->log_Z, h_bar, p->elbo_se);
}

void wv_partition_forget_elbos(wv_partition *p)
{
    for (size_t j = 0; j < p->shape.N; j++)
        p->now.elbo[j] = -INFINITY;
}

void wv_partition_trust_elbo(wv_partition *p, size_t j)
{
    p->now.elbo[j] = p->elbo[j];
}

void wv_partition_remember(wv_partition *p, double elbos, double masses)
{
    wv_ensemble *e = &p->now;
    for (size_t j = 0; j < p->shape.N; j++) {
        double beta = p->beta[j];
        if (p->elbo[j] > -INFINITY)
            e->elbo[j] = e->elbo[j] > -INFINITY && elbos < 1 ? e->elbo[j] + elbos * (p->elbo[j] - e->elbo[j])
                                                             : p->elbo[j];
        e->beta[j] += masses * (beta - e->beta[j]);
        e->beta2[j] += masses * (beta * beta - e->beta2[j]);
    }
}

void wv_partition_weigh(wv_partition *p, const double *elbo)
{
    wv_evidence_weights(p->shape.N, elbo, p->weight);
}

void wv_partition_set_weights(wv_partition *p, const double *w)
{
    memcpy(p->weight, w, p->shape.N * sizeof *w);
}

void wv_partition_set_weight_beta(wv_partition *p, const double *w)
{
    memcpy(p->weight_beta, w, p->shape.N * sizeof *w);
}

void wv_partition_set_gain(wv_partition *p, size_t j, wvgd_estimate gain)
{
    p->gain[j] = gain.value;
    p->gain_se[j] = gain.se;
}

void wv_partition_set_excess(wv_partition *p, size_t j, wvgd_estimate excess)
{
    p->excess[j] = excess.value;
    p->excess_se[j] = excess.se;
}
