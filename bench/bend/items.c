/* items.c - 137 persons answer 30 questions:
 *     y_ji ~ Bernoulli(1 / (1 + exp(-exp(l_i) (theta_j - b_i))))
 *     theta_j ~ N(0, 1), l_i ~ N(0, exp(z_0)), b_i ~ N(z_2, exp(z_1)); z_0, z_1 ~ N(-1, 1), z_2 ~ N(0, 2)
 *     z = (z_0, z_1, z_2, l[30], b[30], theta[137])
 * Means and sds: 8 chains of NUTS with 5000 draws each. Evidence: bridge sampling (Meng and Wong 1996) between these
 * and a Gaussian, over the first 63 coordinates; the others are independent given these, and integrated on a grid. */
#include "items.h"
#include "nuts.h"
#include "test_random.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 30, PERSONS = 137, ABOVE = 3, SHARED = ABOVE + 2 * ITEMS, ALL = SHARED + PERSONS };

static const double log_2pi = 1.8378770664093453;
static double answer[PERSONS][ITEMS]; /* 1 or 0 */

static double log_normal(double x, double sd)
{
    return -x * x / (2 * sd * sd) - log(sd) - log_2pi / 2;
}

static void make_answers(void)
{
    test_random r = test_random_seed(14);
    double a[ITEMS], b[ITEMS];
    for (size_t i = 0; i < ITEMS; i++) {
        a[i] = exp(0.3 * test_random_normal(&r));
        b[i] = 0.5 + test_random_normal(&r);
    }
    for (size_t j = 0; j < PERSONS; j++) {
        double theta = test_random_normal(&r);
        for (size_t i = 0; i < ITEMS; i++)
            answer[j][i] = test_random_uniform(&r) < 1 / (1 + exp(-a[i] * (theta - b[i])));
    }
}

/* Of all but the persons. */
static double prior(const double *z, double *grad)
{
    const double *l = z + ABOVE, *b = l + ITEMS, sd[2] = {exp(z[0]), exp(z[1])};
    double sum = log_normal(z[0] + 1, 1) + log_normal(z[1] + 1, 1) + log_normal(z[2], 2),
           slope[ABOVE] = {-z[0] - 1, -z[1] - 1, -z[2] / 4};
    for (size_t i = 0; i < ITEMS; i++) {
        double u = l[i] / sd[0], v = (b[i] - z[2]) / sd[1];
        sum += log_normal(u, 1) + log_normal(v, 1) - z[0] - z[1];
        slope[0] += u * u - 1;
        slope[1] += v * v - 1;
        slope[2] += v / sd[1];
        if (grad) {
            grad[ABOVE + i] = -u / sd[0];
            grad[ABOVE + ITEMS + i] = -v / sd[1];
        }
    }
    if (grad)
        memcpy(grad, slope, sizeof slope);
    return sum;
}

static double density(void *self, const double *z, double *grad)
{
    (void)self;
    const double *l = z + ABOVE, *b = l + ITEMS, *theta = b + ITEMS;
    double sum = prior(z, grad), a[ITEMS];
    for (size_t i = 0; i < ITEMS; i++)
        a[i] = exp(l[i]);
    for (size_t j = 0; j < PERSONS; j++) {
        double slope = -theta[j];
        sum += log_normal(theta[j], 1);
        for (size_t i = 0; i < ITEMS; i++) {
            double eta = a[i] * (theta[j] - b[i]), e = exp(-fabs(eta)), p = eta > 0 ? 1 / (1 + e) : e / (1 + e),
                   left = answer[j][i] - p;
            sum += answer[j][i] * eta - fmax(eta, 0) - log1p(e);
            slope += left * a[i];
            if (grad) {
                grad[ABOVE + i] += left * eta;
                grad[ABOVE + ITEMS + i] -= left * a[i];
            }
        }
        if (grad)
            grad[SHARED + j] = slope;
    }
    return sum;
}

/* ---- the truth --------------------------------------------------------------------------------------------------- */
enum { GRID = 97 };

/* log p(z_<63, answers). */
static double shared_density(const double *z)
{
    const double *l = z + ABOVE, *b = l + ITEMS, wide = 6, h = 2 * wide / (GRID - 1);
    static double right[ITEMS][GRID], wrong[GRID], sum[PERSONS][GRID]; /* log odds; log p of all answers wrong */
    double total = prior(z, NULL);
    for (size_t g = 0; g < GRID; g++) {
        double theta = -wide + h * (double)g;
        wrong[g] = log_normal(theta, 1) + log(h);
        for (size_t i = 0; i < ITEMS; i++) {
            double eta = exp(l[i]) * (theta - b[i]);
            right[i][g] = eta;
            wrong[g] -= fmax(eta, 0) + log1p(exp(-fabs(eta)));
        }
    }
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, PERSONS, GRID, ITEMS, 1.0, &answer[0][0], ITEMS,
                &right[0][0], GRID, 0.0, &sum[0][0], GRID);
    for (size_t j = 0; j < PERSONS; j++) {
        double top = -INFINITY, part = 0;
        for (size_t g = 0; g < GRID; g++)
            top = fmax(top, sum[j][g] += wrong[g]);
        for (size_t g = 0; g < GRID; g++)
            part += exp(sum[j][g] - top);
        total += top + log(part);
    }
    return total;
}

typedef struct {
    size_t n, room;
    double *z; /* [room][ALL] */
} chain;

static void keep(void *to, const double *x)
{
    chain *c = to;
    memcpy(c->z + c->n++ * ALL, x, ALL * sizeof *x);
}

/* log q of z under N(mean, L L'), L [SHARED][SHARED] lower. */
static double gaussian(const double *mean, const double *L, const double *z)
{
    double y[SHARED], sum = 0;
    for (size_t k = 0; k < SHARED; k++)
        y[k] = z[k] - mean[k];
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, SHARED, L, SHARED, y, 1);
    for (size_t k = 0; k < SHARED; k++)
        sum -= y[k] * y[k] / 2 + log(L[k * SHARED + k]) + log_2pi / 2;
    return sum;
}

/* log Z from log p - log q at n draws of p and as many of q. */
static double bridge(size_t n, const double *of_p, const double *of_q)
{
    double z = 0;
    for (size_t step = 0; step < 200; step++) {
        double above = 0, below = 0;
        for (size_t i = 0; i < n; i++) {
            above += 1 / (1 + exp(z - of_q[i]));
            below += 1 / (1 + exp(of_p[i] - z));
        }
        z += log(above / below);
    }
    return z;
}

/* Half of the draws, every other block of 1000, give the Gaussian, the other half the ratio. */
static void find_evidence(const chain *c, double *log_z, double *error)
{
    enum { BLOCK = 1000, THIN = 4, PARTS = 8 };
    double *L = calloc(SHARED * SHARED, sizeof *L), *of_p = malloc(c->n * sizeof *of_p),
           *of_q = malloc(c->n * sizeof *of_q), mean[SHARED] = {0}, z[SHARED], part[PARTS];
    size_t n = 0, half = 0;
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < c->n; i++)
            if (i / BLOCK % 2 == 0) {
                half += !pass;
                for (size_t k = 0; k < SHARED; k++)
                    z[k] = c->z[i * ALL + k] - (pass ? mean[k] / (double)half : 0);
                if (pass)
                    cblas_dsyr(CblasRowMajor, CblasLower, SHARED, 1 / (double)half, z, 1, L, SHARED);
                else
                    cblas_daxpy(SHARED, 1, z, 1, mean, 1);
            }
    cblas_dscal(SHARED, 1 / (double)half, mean, 1);
    if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', SHARED, L, SHARED))
        abort();
    for (size_t i = 0; i < c->n; i += THIN)
        if (i / BLOCK % 2) {
            double y[SHARED];
            of_p[n] = shared_density(c->z + i * ALL) - gaussian(mean, L, c->z + i * ALL);
            for (size_t k = 0; k < SHARED; k++)
                y[k] = nuts_normal();
            cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, SHARED, L, SHARED, y, 1);
            for (size_t k = 0; k < SHARED; k++)
                z[k] = mean[k] + y[k];
            of_q[n++] = shared_density(z) - gaussian(mean, L, z);
        }
    double first = n ? of_p[0] : 0, sum = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        of_p[i] -= first;
        of_q[i] -= first;
    }
    *log_z = first + bridge(n, of_p, of_q);
    for (size_t k = 0; k < PARTS; k++) {
        part[k] = bridge(n / PARTS, of_p + k * (n / PARTS), of_q + k * (n / PARTS));
        sum += part[k] / PARTS;
        square += part[k] * part[k] / PARTS;
    }
    *error = sqrt((square - sum * sum) / (PARTS - 1));
    free(L);
    free(of_p);
    free(of_q);
}

void bend_items_refer(const char *path)
{
    enum { CHAINS = 8, DRAWS = 5000 };
    chain c = {0, CHAINS * DRAWS, malloc(CHAINS * DRAWS * ALL * sizeof(double))};
    FILE *file = fopen(path, "w");
    double log_z, error, worst = 0;
    make_answers();
    if (!c.z || !file)
        abort();
    for (size_t k = 0; k < CHAINS; k++)
        nuts_run(density, NULL, ALL, 700 + k, 1000, DRAWS, keep, &c);
    find_evidence(&c, &log_z, &error);
    fprintf(file, "%.4f\n", log_z);
    for (size_t i = 0; i < ALL; i++) {
        double sum = 0, square = 0, between = 0, n = (double)c.n;
        for (size_t k = 0; k < c.n; k++)
            sum += c.z[k * ALL + i] / n;
        for (size_t k = 0; k < c.n; k++)
            square += pow(c.z[k * ALL + i] - sum, 2) / n;
        for (size_t k = 0; k < CHAINS; k++) {
            double own = 0;
            for (size_t m = 0; m < DRAWS; m++)
                own += c.z[(k * DRAWS + m) * ALL + i] / DRAWS;
            between += pow(own - sum, 2) / (CHAINS * (CHAINS - 1));
        }
        worst = fmax(worst, sqrt(between / square));
        fprintf(file, "%.6f %.6f\n", sum, sqrt(square));
    }
    printf("log evidence %.4f, standard error %.4f; largest standard error of a mean %.4f sd\n", log_z, error, worst);
    fclose(file);
    free(c.z);
}

void bend_items(bend_target *t)
{
    FILE *file = fopen(WVGD_SOURCE_DIR "/bench/bend/items.txt", "r");
    make_answers();
    t->dim = ALL;
    t->density = density;
    bool good = file && fscanf(file, "%lf", &t->log_z) == 1;
    for (size_t i = 0; i < ALL && good; i++)
        good = fscanf(file, "%lf %lf", &t->mean[i], &t->sd[i]) == 2;
    if (!good)
        abort();
    fclose(file);
}
