/* bend_arguments.h - the density of the arguments of a bend, where a mixture of a few Gaussians follows it better than
 * the map does: arms, and tails that depend on another argument (docs/internals/bend.md). */
#ifndef WV_BEND_ARGUMENTS_H
#define WV_BEND_ARGUMENTS_H
#include "coordinates/bend.h"
#include "coordinates/bend_fit.h"
#include "rng.h"

enum { WV_BEND_CLOUDS = 6, WV_BEND_CLOUD_ARGUMENTS = 4 };

/* Gaussians of the first r coordinates u, the arguments. */
typedef struct {
    size_t K, r;
    double w[WV_BEND_CLOUDS];                                                       /* weights */
    double mu[WV_BEND_CLOUDS][WV_BEND_CLOUD_ARGUMENTS];                             /* means */
    double root[WV_BEND_CLOUDS][WV_BEND_CLOUD_ARGUMENTS * WV_BEND_CLOUD_ARGUMENTS]; /* [r][r] Cholesky factors */
} wv_bend_clouds;

/* From the points of the pool, without the model. False: the arguments are standard normal, as far as these tell. */
bool wv_bend_arguments_fit(const wv_bend_pool *p, const wv_bend *b, const wv_stream *stream, wv_bend_clouds *to,
                           wv_arena *arena);

/* Every second of the n points x becomes one of these Gaussians, made wider: their arms are followed to their ends. */
void wv_bend_arguments_draw(const wv_bend_clouds *q, const wv_bend *b, const wv_stream *stream, size_t n, double *x,
                            wv_arena *arena);
#endif
