/* scratch.c - memory that stages use in turn. */
#include "scratch.h"
#include "dense.h"
#include "fit.h"
#include "halfspaces.h"
#include "joint/shared_proposals.h"
#include "kmeans.h"
#include "memory.h"
#include "moments.h"
#include "nearest.h"
#include "simd/columns.h"
#include "update/lowrank.h"
#include <stdlib.h>

bool wv_shared_new(wvgd_fit *f)
{
    size_t N = f->N, D = f->D, n = f->size.n_max, nD = wv_times(n, D), C = f->size.close_max, any = n > C ? n : C;
    bool soft = f->opt.cells == WVGD_SOFT && N > 1, fits = f->exploring && f->dense, joint = !f->staged;
    size_t proposals = wv_times(3, N) + 3, K = fits ? wv_draws_components(f) : 0, pool = fits ? wv_draws_points(f) : 0;
    const wv_slot slots[] = {
        {&f->b.x, nD},
        {&f->b.log_p, n},
        {&f->b.grad, f->model.has_gradient ? nD : 0},
        {&f->b.log_m, n},
        {&f->b.log_q, n},
        {&f->b.log_mix[0], n},
        {&f->b.log_mix[1], n},
        {&f->b.near, n},
        {&f->b.next, n},
        {&f->b.sum_u, N},
        {&f->shared.close_spare, C},
        {&f->shared.mix_q, wv_times(K + 1, pool)},
        {&f->shared.mix_log, pool},
        {&f->shared.mix_u, pool},
        {&f->shared.mix_grad, wv_times(pool, D)},
        {&f->shared.mix_y, fits ? wv_draws_kept(f) : 0},
        {&f->shared.mix_inverse, wv_times(K + 1, fits ? D * D : 0)},
        {&f->shared.mix_det, K + 1},
        {&f->shared.mix_made, 2 * (K + 1)},
        {&f->shared.mix_mu, wv_times(K, D)},
        {&f->shared.mix_root, wv_times(K, fits ? D * D : 0)},
        {&f->shared.facet, f->staged ? wv_times(N, D + 1) : 0},
        {&f->shared.free_inverse, f->staged ? wv_times(K, D * D + D + 1) : 0},
        {&f->shared.lattice, f->staged ? WV_LATTICE * WV_LATTICE_POINTS : 0},
        {&f->shared.mix_mass, f->staged ? N : 0},
        {&f->shared.control, wv_times(f->size.made_room, f->size.made_room + 3 + WV_BLOCK)},
        {&f->shared.stein, f->staged ? wv_moments_work(D) : 0},
        {&f->shared.tail_mu, D},
        {&f->shared.tail_root, f->metric_family->size(D, 0)},
        {&f->shared.scale, joint ? wv_times(proposals, D + 1) : 0},
        {&f->shared.alpha, joint ? proposals : 0},
        {&f->shared.piece_u, joint ? wv_times(WV_PIECES, N) : 0},
        {&f->shared.group, joint ? wv_shared_proposals_size(f) : 0},
        {&f->shared.rounded, joint ? wv_nearest_rounded_size(N, D) : 0},
        {&f->shared.soft_grad, soft ? nD : 0},
        {&f->shared.sd_view, wv_times(N, D)},
        {&f->shared.spread_view, wv_times(N, f->cell_family->size(D, 0))},
        {&f->shared.pooled, n},
        {&f->shared.cell_spare, N},
        {&f->shared.step_kl, N},
        {&f->shared.try_z, wv_times(3, wv_times(N, D))},
        {&f->shared.sum_z, wv_times(N, D)},
        {&f->shared.starts, wv_kmeans_size(f)},
    };
    f->shared.memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    f->shared.index = calloc(wv_times(2, n) + any + N, sizeof *f->shared.index);
    f->shared.start = calloc(N + 1, sizeof *f->shared.start);
    f->proposals.p = calloc(proposals + f->size.made_room, sizeof *f->proposals.p);
    f->proposals.share = calloc(proposals + f->size.made_room, sizeof *f->proposals.share);
    f->proposals.stretch = calloc(2 * proposals + 1 + WV_PIECES, sizeof *f->proposals.stretch);
    if (!f->shared.memory || !f->shared.index || !f->shared.start || !f->proposals.p || !f->proposals.share ||
        !f->proposals.stretch)
        return false;
    f->b.cell = f->shared.index;
    f->b.stratum = f->b.cell + n;
    f->own = f->b;
    f->shared.order = f->b.stratum + n;
    f->shared.member = f->shared.order + any;
    return true;
}

void wv_shared_free(wv_shared *s)
{
    free(s->memory);
    free(s->index);
    free(s->start);
}

void wv_desk_free(wv_desk *d)
{
    free(d->memory);
}

/* The scratch of one worker. As large as a batch, for a cell may have all of its points; memory
 * that is never touched costs nothing. */
bool wv_desk_new(wvgd_fit *f)
{
    size_t N = f->N, D = f->D, n = f->size.n_max, nD = wv_times(n, D),
           any = n > f->size.close_max ? n : f->size.close_max;
    size_t square = f->dense ? D * D : 0, p = f->size.p_max;
    bool fits = f->exploring && f->dense, joint = !f->staged;
    size_t K = f->staged ? wv_draws_components(f) : 0;
    double *free_cell;
    const wv_slot slots[] = {
        {&f->desk.block, wv_times(WV_BLOCK, (f->staged ? N : wv_times(3, N) + 1) + D + 2)},
        {&f->desk.narrow, wv_nearest_narrow_size(N, D)},
        {&f->desk.gathered, joint ? wv_times(2 * WV_BLOCK, D) : 0},
        {&f->desk.gx, nD},
        {&f->desk.gg, nD},
        {&f->desk.glp, n},
        {&f->desk.glu, n},
        {&f->desk.glv, n},
        {&f->desk.gu, n},
        {&f->desk.ga, n},
        {&f->desk.gr, n},
        {&f->desk.y, nD},
        {&f->desk.gy, wv_times(n + WV_COLUMNS, D)},
        {&f->desk.uy, nD},
        {&f->desk.square[0], square},
        {&f->desk.square[1], square},
        {&f->desk.square[2], square},
        {&f->desk.square[3], square},
        {&f->desk.square[4], square},
        {&f->desk.square[5], square},
        {&f->desk.square[6], square},
        {&f->desk.square[7], square},
        {&f->desk.square[8], square},
        {&f->desk.square[9], square},
        {&f->desk.square[10], square},
        {&f->desk.vector[0], D},
        {&f->desk.vector[1], D},
        {&f->desk.vector[2], D},
        {&f->desk.vector[3], D},
        {&f->desk.vector[4], D},
        {&f->desk.vector[5], D},
        {&f->desk.vector[6], D},
        {&f->desk.vector[7], D},
        {&f->desk.vector[8], D},
        {&f->desk.vector[9], D},
        {&f->desk.T, wv_times(WV_BLOCK, p)},
        {&f->desk.F, wv_times(p, p)},
        {&f->desk.Fc, p},
        {&f->desk.Fm, p},
        {&f->desk.syev, wv_dense_eigh_work(f->dense ? D : 1)},
        {&f->desk.undo, D + (f->prefit.wanted || fits ? D * D : f->family->size(D, f->R))},
        {&f->desk.large, f->dense ? 0 : wv_lowrank_work(D, f->R, n)},
        {&free_cell, WV_FREE / 2},
        {&f->desk.free_cost, 2 * WV_FREE},
        {&f->desk.free_y, wv_times(WV_BLOCK * K, D)},
        {&f->desk.free_log, K},
        {&f->desk.wall, wv_times(N, D + 1)},
        {&f->desk.psi, any},
        {&f->desk.moving, n},
        {&f->desk.columns, fits ? wv_draws_work(D) : 0},
        {&f->desk.mix_e, 3 * (f->size.made_room + 3 * N + 3)},
        {&f->desk.cell_mean, D},
        {&f->desk.cell_root, f->staged ? D * D : 0},
        {&f->desk.correction, f->staged ? 1 + 2 * D + D * (D - 1) / 2 : 0},
    };
    f->desk.memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    f->desk.free_cell = f->desk.memory ? (uint32_t *)(void *)free_cell : NULL;
    return f->desk.memory != NULL;
}
