/* joint_batch.c - the batch of one iteration: proposals, draws, cells and densities (method, section 3). */
#include "joint/joint_batch.h"
#include "arena.h"
#include "error.h"
#include "fit.h"
#include "gaussian.h"
#include "joint/batch_density.h"
#include "joint/schedule.h"
#include "joint/shared_proposals.h"
#include "nearest.h"
#include "simd/columns.h"
#include "policy.h"
#include <math.h>
#include <string.h>

/* ---- the proposal ------------------------------------------------------------------------------------------------ */
/* Do groups of particles share proposals? */
static bool grouped(const wvgd_fit *f)
{
    return wv_shared_proposals_many(f) && f->opt.sampler == WVGD_MIXTURE && f->opt.cells != WVGD_SOFT;
}

/* Each cell's M draws come from its component and from a Student-t around its particle: half and half while the
 * component lies in its cell, fewer from a component that does not (a nearly flat one, whose own draws fall
 * elsewhere). One component needs only itself; many share proposals. */
static void propose(wvgd_fit *f)
{
    size_t N = f->N;
    bool mixed = N > 1 && f->opt.sampler == WVGD_MIXTURE;
    f->proposals.n = mixed ? 2 * N : N;
    for (size_t j = 0; j < N; j++) {
        double inside = f->count.iteration ? fmin(exp(f->cells.log_Z[j]), 1) : 1;
        size_t own = inside >= 0 ? 2 * (size_t)ceil((double)f->size.M / 2 *
                                                    fmax(inside / (1 + inside), wv_policy.joint_own_share))
                                 : f->size.M / 2;
        f->proposals.draws[j] = mixed && own < f->size.M ? own : f->size.M;
        f->proposals.p[j].q = wv_partition_component(&f->cells, j);
        if (mixed) {
            f->proposals.draws[N + j] = f->size.M - f->proposals.draws[j];
            f->proposals.p[N + j].q = wv_partition_proposal(&f->cells, j);
        }
    }
    if (grouped(f))
        wv_shared_proposals_propose(f, wv_partition_proposal(&f->cells, 0).nu);
    for (size_t c = 0; c < f->proposals.n; c++)
        f->proposals.p[c].log_alpha = log((double)f->proposals.draws[c] / (double)(N * f->size.M));
}

/* Keeps the draws of component j that fall into its own cell; returns how many. */
static size_t reject(wvgd_fit *f, size_t j, size_t at)
{
    wv_batch *b = &f->b;
    size_t D = f->D, kept = at;
    wv_geometry g = wv_partition_geometry(&f->cells);
    wv_nearest_assign(&g, f->size.M, b->x + at * D, b->cell + at, b->near + at, b->next + at, f->arena);
    for (size_t k = at; k < at + f->size.M; k++)
        if (b->cell[k] == j) {
            memmove(b->x + kept * D, b->x + k * D, D * sizeof(double));
            b->cell[kept] = b->cell[k];
            b->near[kept] = b->near[k];
            b->next[kept++] = b->next[k];
        }
    return kept - at;
}

/* Lists the n points from `first` on of a proposal as stretches, none of them too long; returns how many are listed
 * now.
 */
static size_t list(wvgd_fit *f, size_t listed, size_t first, size_t n, size_t proposal)
{
    size_t piece = wv_workers_piece(f->b.n);
    for (size_t at = 0; at < n; at += piece)
        f->proposals.stretch[listed++] = (wv_stretch){first + at, n - at < piece ? n - at : piece, proposal, at};
    return listed;
}

static void draw_stretch(wvgd_fit *f, void *context, size_t k)
{
    const wv_stretch *s = &f->proposals.stretch[k];
    (void)context;
    wv_fit_draw(f, f->count.batch, s->proposal, WV_RNG_FIT, s->number, s->n, true, s->first);
}

static void draw(wvgd_fit *f)
{
    size_t listed = 0;
    f->b.n = f->N * f->size.M;
    f->b.extra = f->N * (f->size.M - f->size.M_least);
    for (size_t c = 0, at = 0; c < f->proposals.n; at += f->proposals.draws[c++])
        listed = list(f, listed, at, f->proposals.draws[c], c);
    wv_fit_run_tasks(f, listed, 10 * (double)(f->b.n * f->D), draw_stretch, NULL);
}

wvgd_status wv_joint_batch_ask(wvgd_fit *f, wvgd_error *error)
{
    propose(f);
    if (f->opt.sampler == WVGD_MIXTURE) {
        draw(f);
        return WVGD_OK;
    }
    f->b.n = 0;
    for (size_t c = 0; c < f->proposals.n; c++) {
        wv_fit_draw(f, f->count.batch, c, WV_RNG_FIT, 0, f->proposals.draws[c], true, f->b.n);
        f->b.n += reject(f, c, f->b.n);
    }
    return f->b.n ? WVGD_OK
                  : wv_fail(error, WVGD_E_NO_DRAWS, "no component has a draw in its own cell: use the mixture sampler");
}

/* ---- cells and densities ----------------------------------------------------------------------------------------- */
static void sort_by_cell(const wvgd_fit *f, const wv_cell_lists *lists)
{
    size_t *start = lists->start;
    memset(start, 0, (f->N + 1) * sizeof *start);
    for (size_t i = 0; i < f->b.n; i++)
        start[f->b.cell[i] + 1]++;
    for (size_t j = 0; j < f->N; j++)
        start[j + 1] += start[j];
    for (size_t i = 0; i < f->b.n; i++)
        lists->order[start[f->b.cell[i]]++] = (uint32_t)i;
    for (size_t j = f->N; j > 0; j--)
        start[j] = start[j - 1];
    start[0] = 0;
}

/* Cells of a piece of the points and, where proposals are shared (plan), their densities, as long as they are at hand.
 */
static void assign_piece(wvgd_fit *f, void *context, size_t k)
{
    const wv_batch_density_plan *plan = context;
    wv_batch *b = &f->b;
    wv_geometry g = wv_partition_geometry(&f->cells);
    size_t piece = wv_workers_piece(b->n), at = k * piece, n = b->n - at < piece ? b->n - at : piece;
    wv_nearest_assign(&g, n, b->x + at * f->D, b->cell + at, b->near + at, b->next + at, f->arena);
    if (plan)
        wv_batch_density_some(f, b, plan, at, n);
}

static void assign(wvgd_fit *f, wv_batch_density_plan *plan)
{
    wv_fit_run_tasks(f, wv_workers_pieces(f->b.n),
                     (double)(f->b.n * f->D) * (double)(f->N + (plan ? f->proposals.n : 0)), assign_piece, plan);
}

/* Cells, lists and densities of a batch of the mixture. */
static void weigh_mixture(wvgd_fit *f, const wv_cell_lists *lists)
{
    size_t mark = wv_arena_mark(f->arena);
    if (grouped(f)) {
        wv_batch_density_plan plan = wv_batch_density_begin(f);
        assign(f, &plan);
        sort_by_cell(f, lists);
        wv_batch_density_end(f, &f->b, &plan, lists);
    } else {
        const double *const w[2] = {f->cells.weight, NULL};
        assign(f, NULL);
        sort_by_cell(f, lists);
        wv_batch_density(f, &f->b, w);
    }
    wv_arena_release(f->arena, mark);
}

/* Lists and densities of a rejected batch, which has only own draws: u = 1, and Z_j is the share kept. */
static void weigh_kept(wvgd_fit *f, const wv_cell_lists *lists)
{
    wv_batch *b = &f->b;
    size_t mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, b->n * f->D);
    sort_by_cell(f, lists);
    for (size_t first = 0, end; first < b->n; first = end) {
        size_t j = b->cell[first];
        for (end = first; end < b->n && b->cell[end] == j; end++)
            ;
        wv_gaussian_log_density(&f->proposals.p[j].q, end - first, b->x + first * f->D, b->log_q + first, y, f->arena);
        b->sum_u[j] = (double)f->size.M;
        for (size_t k = first; k < end; k++) {
            b->log_m[k] = b->log_q[k];
            b->log_mix[0][k] = b->log_q[k];
        }
    }
    wv_arena_release(f->arena, mark);
}

void wv_joint_batch_weigh(wvgd_fit *f, const wv_cell_lists *lists)
{
    memset(f->b.sum_u, 0, f->N * sizeof *f->b.sum_u);
    if (f->opt.sampler == WVGD_MIXTURE)
        weigh_mixture(f, lists);
    else
        weigh_kept(f, lists);
}
