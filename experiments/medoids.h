/* medoids.h - N of M points that stand for all of them, under any cost: no gradient, no mean. */
#ifndef WV_MEDOIDS_H
#define WV_MEDOIDS_H
#include <stddef.h>
#include <stdint.h>

/* Chooses medoid[N] out of M points to make the sum over points i of min_j cost[i][medoid_j] small; cost [M][M].
 * Alternates between cells and the best point of each, from `starts` random starts (each point far from those before
 * it, k-medoids++), and keeps the best. size[N]: points of each cell. Returns the mean cost, or NAN without memory. */
double find_medoids(size_t M, const double *cost, size_t N, size_t starts, uint64_t seed, size_t *medoid, size_t *size);
#endif
