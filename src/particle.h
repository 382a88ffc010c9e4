/* particle.h - the particles: their step down the transport cost, the shape of their cells, moves
 * out of local minima. */
#ifndef WV_PARTICLE_H
#define WV_PARTICLE_H
#include "batch.h"
#include "partition.h"

/* Points of a cell, with what weighs them. */
typedef struct {
    size_t n;
    const double *x;             /* [n][D] */
    const double *log_u, *log_v; /* [n] log q_j/m, log p~/m */
} wv_cell_points;

/* Draws of the components that cost no evaluation, in batches of WV_FREE. */
typedef struct {
    uint64_t seed, batch; /* key them */
    size_t batches;       /* 0: there are none */
} wv_free_draws;

/* How many batches of each component are worth the time that it takes to find their cells. */
size_t wv_particle_free_batches(const wv_geometry *g);

/* Steps z_j and the spread of cell j by lambda; fills weight[n] with the weights that stand for the posterior in the
 * cell and mean[D] with its mean. Returns how far the full step would go: |step|^2 in units of the cell's spread;
 * negative: no point had weight. With free draws it looks at the cells of all, so that particles have to step one after
 * the other. */
double wv_particle_step(wv_partition *cells, size_t j, wv_cell_points p, wv_free_draws d, double lambda, double *weight,
                        double *mean, wv_arena *arena);

/* The spread of cell j from its points, taken in full. */
void wv_particle_refit(wv_partition *cells, size_t j, wv_cell_points p, wv_arena *arena);

/* A single particle goes all the way to where the cost pulls it, on points x[n][D] with weights
 * w[n] (summing to 1) and mean[D]. */
void wv_particle_place_one(wv_partition *cells, size_t n, const double *x, const double *w, const double *mean,
                           wv_arena *arena);

/* Utility move (LBG-U): takes the particle whose removal costs least to the cell that gains most from a second one.
 * b has cells, costs and posterior weights w[n], and is listed by cell. True: one moved; its number and that of the one
 * it now neighbours are in moved, both with new spreads. */
bool wv_particle_move(wv_partition *cells, const wv_batch *b, const double *w, const wv_cell_lists *lists,
                      size_t moved[2], wv_arena *arena);
#endif
