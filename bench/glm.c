/* glm.c - points a second of generalised linear models on one design, by turns in one process and by the thread's own
 * clock: bernoulli beside the model logistic, and every likelihood beside a bare loop of two matrix products (BLAS)
 * over all rows in blocks and a vector exp in between, which is the least that counts need. glm [ROWS COLUMNS] prints
 * likelihood, points a second, time over that of logistic, time over that of the bare loop: medians of turns. */
#include "../models/models.h"
#include "../models/pass.h"
#include "ascending.h"
#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POINTS = 256, WIDTH = 64, TURNS = 21, MODELS = 7, BLOCK = 512 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t n)
{
    double *p = calloc(n + 8, sizeof *p);
    if (!p)
        exit(70);
    return p;
}

static double uniform(void)
{
    static uint64_t s = 1;
    s = s * 6364136223846793005u + 1442695040888963407u;
    return ((double)(s >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static double poisson(double m)
{
    double y = -1, product = 1, least = exp(-m);
    for (; product > least; y++)
        product *= uniform();
    return y;
}

/* What any model of counts does: eta = X w, exp, X' exp. */
typedef struct {
    size_t rows, P;
    const double *X;
    double *w, *g, *s, *sum;
} bare;

static void run_bare(const bare *b)
{
    int P = (int)b->P, n = WIDTH;
    const wv_pass *pass = wv_pass_best();
    for (size_t k = 0; k < POINTS / WIDTH; k++) {
        memset(b->g, 0, b->P * WIDTH * sizeof *b->g);
        memset(b->sum, 0, WIDTH * sizeof *b->sum);
        for (size_t at = 0; at < b->rows; at += BLOCK) {
            size_t rows = b->rows - at < BLOCK ? b->rows - at : BLOCK;
            const double *X = b->X + at * b->P;
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, n, P, 1.0, X, P, b->w, n, 0.0, b->s, n);
            pass->exp(rows, WIDTH, b->s, b->sum);
            cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, P, n, (int)rows, -1.0, X, P, b->s, n, 1.0, b->g, n);
        }
    }
}

static double median(double *x)
{
    qsort(x, TURNS, sizeof *x, ascending);
    return x[TURNS / 2];
}

int main(int argc, char **argv)
{
    static const char *const names[MODELS] = {"logistic",    "bernoulli", "binomial", "poisson",
                                              "negbinomial", "student",   "gaussian"};
    static const wv_likelihood kinds[MODELS] = {WV_BERNOULLI,   WV_BERNOULLI, WV_BINOMIAL, WV_POISSON,
                                                WV_NEGBINOMIAL, WV_STUDENT,   WV_GAUSSIAN};
    size_t rows = argc == 3 ? strtoul(argv[1], NULL, 10) : 20000, C = argc == 3 ? strtoul(argv[2], NULL, 10) : 30;
    double *X = allocate(rows * C), *y = allocate(6 * rows), *trials = allocate(rows), *z = allocate(POINTS * (C + 3)),
           *log_p = allocate(POINTS), *grad = allocate(POINTS * (C + 3));
    const char **name = allocate(C);
    wv_prior *prior = calloc(C + 3, sizeof *prior);
    wvgd_model model[MODELS];
    if (!rows || !C || !prior)
        return 64;
    for (size_t i = 0; i < rows; i++) {
        double eta = 1;
        for (size_t c = 0; c < C; c++)
            eta += 0.5 / sqrt((double)C) * (X[i * C + c] = normal());
        double m = exp(eta), p = 1 / (1 + exp(-eta));
        trials[i] = 1 + floor(10 * uniform());
        y[WV_GAUSSIAN * rows + i] = y[WV_STUDENT * rows + i] = eta + normal();
        y[WV_BERNOULLI * rows + i] = uniform() < p;
        for (int k = 0; k < (int)trials[i]; k++)
            y[WV_BINOMIAL * rows + i] += uniform() < p;
        y[WV_POISSON * rows + i] = poisson(m);
        y[WV_NEGBINOMIAL * rows + i] = poisson(-m * log(uniform())); /* shape 1 */
    }
    for (size_t c = 0; c < C; c++)
        name[c] = "x";
    for (size_t c = 0; c < C + 3; c++)
        prior[c] = (wv_prior){WV_PRIOR_NORMAL, 0, 1, 0};
    for (size_t k = 0; k < MODELS; k++) {
        wv_regression as_logistic = {.rows = rows,
                                     .columns = C,
                                     .X = X,
                                     .y = y + WV_BERNOULLI * rows,
                                     .names = name,
                                     .intercept = true,
                                     .prior_sd = 1};
        wv_glm g = {.likelihood = kinds[k],
                    .rows = rows,
                    .columns = C,
                    .X = X,
                    .y = y + (size_t)kinds[k] * rows,
                    .trials = kinds[k] == WV_BINOMIAL ? trials : NULL,
                    .names = name,
                    .intercept = true,
                    .prior = prior};
        if (k ? wv_model_glm(&model[k], &g) : wv_model_logistic(&model[k], &as_logistic))
            return 70;
    }
    bare b = {rows,
              C + 1,
              allocate(rows * (C + 1)),
              allocate((C + 1) * WIDTH),
              allocate((C + 1) * WIDTH),
              allocate(BLOCK * WIDTH),
              allocate(WIDTH)};
    double *ones = (double *)(uintptr_t)b.X;
    for (size_t i = 0; i < rows * (C + 1); i++)
        ones[i] = i % (C + 1) < C ? X[i / (C + 1) * C + i % (C + 1)] : 1;
    for (size_t i = 0; i < (C + 1) * WIDTH; i++)
        b.w[i] = 0.1 * normal();
    static double seconds[MODELS + 1][TURNS], ratio[2][MODELS][TURNS];
    for (int turn = -1; turn < TURNS; turn++)
        for (size_t k = 0; k <= MODELS; k++) {
            size_t D = k < MODELS ? model[k].dim : 1;
            for (size_t i = 0; i < POINTS * D; i++)
                z[i] = 0.1 * normal();
            double from = now();
            if (k == MODELS)
                run_bare(&b);
            else if (model[k].log_density(model[k].self, POINTS, z, log_p, grad))
                return 70;
            if (turn >= 0)
                seconds[k][turn] = now() - from;
        }
    printf("%zu x %zu, %s\nlikelihood\tpoints/s\t/logistic\t/bare\n", rows, C, wv_pass_best()->name);
    for (size_t k = 0; k < MODELS; k++) {
        for (int t = 0; t < TURNS; t++) {
            ratio[0][k][t] = seconds[k][t] / seconds[0][t];
            ratio[1][k][t] = seconds[k][t] / seconds[MODELS][t];
        }
    }
    for (size_t k = 0; k < MODELS; k++)
        printf("%s\t%.0f\t%.3f\t%.3f\n", names[k], POINTS / median(seconds[k]), median(ratio[0][k]),
               median(ratio[1][k]));
    return 0;
}
