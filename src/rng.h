/* rng.h - counter-based random numbers (Random123, Philox 4x64-10): a draw is a function of its index alone. */
#ifndef WV_RNG_H
#define WV_RNG_H
#include <stddef.h>
#include <stdint.h>

/* What a stream of numbers is for: streams never overlap. */
typedef enum {
    WV_RNG_FIT,
    WV_RNG_PILOT,
    WV_RNG_EXPLORE,
    WV_RNG_START,
    WV_RNG_RESTART,
    WV_RNG_FREE,
    WV_RNG_TRIAL,
    WV_RNG_CLOSE,
    WV_RNG_BOUND,
    WV_RNG_CRAWL,
    WV_RNG_SETTLE,
    WV_RNG_TAIL,
    WV_RNG_SAMPLE,
    WV_RNG_RESAMPLE,
    WV_RNG_BEND,
    WV_RNG_CERTIFY,
    WV_RNG_FINISH,
    WV_RNG_JUMP
} wv_rng_use;

typedef struct {
    uint64_t seed;
    wv_rng_use use;
    uint64_t iteration; /* batch */
    uint64_t component; /* who draws */
} wv_stream;

/* out[i] ~ N(0,1), i < n: the numbers of draw number `draw`. */
void wv_rng_normal(const wv_stream *stream, uint64_t draw, size_t n, double *out);

/* out[i] ~ U(0,1), ends excluded. */
void wv_rng_uniform(const wv_stream *stream, uint64_t draw, size_t n, double *out);

/* n standard normal points e[n][dims], dims <= WV_LATTICE, that fill the space more evenly than draws do:
 * multiples of the powers of 1/phi, phi^(d+1) = phi + 1, moved by a random vector and made normal, a pair
 * of coordinates for each pair of normals. */
enum { WV_LATTICE = 4, WV_LATTICE_BLOCK = 64 };
void wv_rng_lattice(const wv_stream *stream, size_t n, size_t dims, double *e);

/* The same in columns, blocks [dims][WV_LATTICE_BLOCK] of points; n is a multiple of WV_LATTICE_BLOCK. */
void wv_rng_lattice_columns(const wv_stream *stream, size_t n, size_t dims, double *e);
#endif
