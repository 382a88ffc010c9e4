/* sharp_bound.c - the PELBO of a fit that has ended, from as many draws as one likes. */
#include "sharp_bound.h"
#include "random.h"
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double log_two_pi = 1.8378770664093453;

/* Work for n draws of one component. */
typedef struct {
    size_t n, D;
    double *z;     /* [n][D] normals, then draws, then those that are kept */
    double *h;     /* [n] log q, then log p~ - log q of those that are kept */
    double *log_p; /* [n] */
    size_t *cell;  /* [n] */
} bench;

/* Draws of component j, and their log densities in b->h. */
static void draw_component(const wvgd_results *r, size_t j, uint64_t seed, bench *b)
{
    size_t D = r->D;
    const double *mu = r->mu + j * D, *sd = r->sd + j * D, *chol = r->chol ? r->chol + j * D * D : NULL;
    double half_log_det = 0;
    for (size_t d = 0; d < D; d++)
        half_log_det += log(chol ? chol[d * D + d] : sd[d]);
    svgd_random_normal(seed, j, b->n * D, b->z);
    for (size_t i = 0; i < b->n; i++) {
        double *z = b->z + i * D;
        b->h[i] = -0.5 * cblas_ddot((int)D, z, 1, z, 1) - half_log_det - 0.5 * (double)D * log_two_pi;
        if (chol)
            cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, chol, (int)D, z, 1);
        for (size_t d = 0; d < D; d++)
            z[d] = mu[d] + (chol ? 1 : sd[d]) * z[d];
    }
}

/* Moves the draws of cell j to the front; how many there are. */
static size_t keep_cell(size_t j, bench *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->n; i++)
        if (b->cell[i] == j) {
            memmove(b->z + kept * b->D, b->z + i * b->D, b->D * sizeof *b->z);
            b->h[kept++] = b->h[i];
        }
    return kept;
}

/* ELBO_j and its standard error: the influence of a draw is 1_j (h - mean h + 1) / Z_j - 1. Too
 * few in the cell: what the fit says. */
static int bound_cell(const wvgd_model *model, const wvgd_fit *fit, const wvgd_results *r, size_t j, uint64_t seed,
                      bench *b, wvgd_estimate *elbo, wvgd_error *error)
{
    double mean = 0, square = 0, n = (double)b->n;
    draw_component(r, j, seed, b);
    if (wvgd_cell(fit, b->n, b->z, b->cell, error) != WVGD_OK)
        return -1;
    size_t kept = keep_cell(j, b);
    *elbo = (wvgd_estimate){r->elbo[j], r->elbo_se[j]};
    if (kept < 30)
        return 0;
    if (model->log_density(model->self, kept, b->z, b->log_p, NULL)) {
        *error = (wvgd_error){WVGD_E_MODEL, "the model has failed"};
        return -1;
    }
    for (size_t i = 0; i < kept; i++)
        mean += (b->h[i] = b->log_p[i] - b->h[i]) / (double)kept;
    for (size_t i = 0; i < kept; i++)
        square += pow((b->h[i] - mean + 1) * n / (double)kept - 1, 2);
    square += n - (double)kept; /* draws outside: influence -1 */
    *elbo = (wvgd_estimate){mean + log((double)kept / n), sqrt(square) / n};
    return 0;
}

static int make_bench(size_t n, size_t D, bench *b)
{
    *b = (bench){n, D, calloc(n * (D + 2), sizeof(double)), NULL, NULL, calloc(n, sizeof(size_t))};
    b->h = b->z ? b->z + n * D : NULL;
    b->log_p = b->z ? b->h + n : NULL;
    return b->z && b->cell ? 0 : -1;
}

int sharpen_bound(const wvgd_model *model, const wvgd_fit *fit, size_t draws, uint64_t seed, wvgd_estimate *out,
                  wvgd_error *error)
{
    wvgd_results r;
    bench b;
    double value = 0, square = 0;
    wvgd_get_results(fit, &r);
    int failed = make_bench(draws, r.D, &b);
    if (failed)
        *error = (wvgd_error){WVGD_E_MEMORY, "no memory for the draws of a bound"};
    for (size_t j = 0; j < r.N && !failed; j++) {
        wvgd_estimate elbo = {0};
        if (!(r.weight[j] > 0))
            continue;
        b.n = (size_t)fmax(200, r.weight[j] * (double)draws);
        b.n = b.n < draws ? b.n : draws;
        failed = bound_cell(model, fit, &r, j, seed, &b, &elbo, error);
        value += r.weight[j] * (elbo.value - log(r.weight[j]));
        square += pow(r.weight[j] * elbo.se, 2);
    }
    *out = (wvgd_estimate){value, sqrt(square)};
    free(b.z);
    free(b.cell);
    return failed;
}
