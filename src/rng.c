/* rng.c - draws keyed by (seed, use; iteration, component, draw), normals by Box-Muller. The same
 * index gives the same number on any number of threads, and a batch can be made again after a restart
 * without saving the state of a generator. */
#include "rng.h"
#include "simd/normal.h"
#include <math.h>
#include <Random123/philox.h>
#include <Random123/u01fixedpt.h>

enum { PAIRS = 64 }; /* that are transformed at once */

static philox4x64_ctr_t block(const wv_stream *s, uint64_t draw, uint64_t k)
{
    philox4x64_ctr_t counter = {{k, draw, s->component, s->iteration}};
    philox4x64_key_t key = {{s->seed, (uint64_t)s->use}};
    return philox4x64(counter, key);
}

void wv_rng_uniform(const wv_stream *stream, uint64_t draw, size_t n, double *out)
{
    for (size_t i = 0; i < n; i += 4) {
        philox4x64_ctr_t r = block(stream, draw, i / 4);
        for (size_t k = 0; k < 4 && i + k < n; k++)
            out[i + k] = u01fixedpt_open_open_64_double(r.v[k]);
    }
}

void wv_rng_normal(const wv_stream *stream, uint64_t draw, size_t n, double *out)
{
    wv_normal_function *normal = wv_normal_best();
    double x[PAIRS], y[PAIRS];
    for (size_t first = 0; first < n; first += 2 * PAIRS) {
        size_t here = n - first < 2 * PAIRS ? n - first : 2 * PAIRS, pairs = 0;
        for (size_t i = 0; i < here; i += 4, pairs += 2) {
            philox4x64_ctr_t r = block(stream, draw, (first + i) / 4);
            for (size_t k = 0; k < 2; k++) {
                x[pairs + k] = u01fixedpt_open_open_64_double(r.v[2 * k]);
                y[pairs + k] = u01fixedpt_open_open_64_double(r.v[2 * k + 1]);
            }
        }
        for (; pairs % WV_NORMAL_WIDTH; pairs++)
            x[pairs] = y[pairs] = 0.5;
        normal(pairs, x, y);
        for (size_t i = 0; i < here; i++)
            out[first + i] = i % 2 ? y[i / 2] : x[i / 2];
    }
}

/* What is left of u >= 0 without its whole part, away from 0 and 1. */
static double inside(double u)
{
    double rest = u - (double)(int64_t)u;
    return rest < 1e-15 ? 1e-15 : rest > 1 - 1e-15 ? 1 - 1e-15 : rest;
}

/* Points of a block are `point` numbers apart, their coordinates `coordinate`. */
static void lattice(const wv_stream *stream, size_t n, size_t dims, size_t point, size_t coordinate, double *e)
{
    size_t pairs = (dims + 1) / 2;
    double phi = 2, shift[WV_LATTICE], step[WV_LATTICE], a[WV_LATTICE_BLOCK], b[WV_LATTICE_BLOCK];
    for (int i = 0; i < 40; i++)
        phi = pow(1 + phi, 1 / (2 * (double)pairs + 1));
    for (int i = 0; i < WV_LATTICE; i++)
        step[i] = pow(phi, -(double)(i + 1));
    wv_rng_uniform(stream, 0, WV_LATTICE, shift);
    for (size_t first = 0; first < n; first += WV_LATTICE_BLOCK)
        for (size_t p = 0; p < pairs; p++) {
            double *to = e + first * dims + 2 * p * coordinate;
            for (size_t i = 0; i < WV_LATTICE_BLOCK; i++) {
                double u = shift[2 * p] + (double)(first + i) * step[2 * p],
                       v = shift[2 * p + 1] + (double)(first + i) * step[2 * p + 1];
                a[i] = inside(u);
                b[i] = inside(v);
            }
            wv_normal_best()(WV_LATTICE_BLOCK, a, b);
            for (size_t i = 0; i < WV_LATTICE_BLOCK && first + i < n; i++) {
                to[i * point] = a[i];
                if (2 * p + 1 < dims)
                    to[i * point + coordinate] = b[i];
            }
        }
}

void wv_rng_lattice(const wv_stream *stream, size_t n, size_t dims, double *e)
{
    lattice(stream, n, dims, dims, 1, e);
}

void wv_rng_lattice_columns(const wv_stream *stream, size_t n, size_t dims, double *e)
{
    lattice(stream, n, dims, 1, WV_LATTICE_BLOCK, e);
}
