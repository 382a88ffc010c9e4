/* rows.c - writes a CSV file for logistic regression to standard output: COLUMNS features that are N(0, 1), weights
 * that get smaller the more there are, and labels y.
 *     rows ROWS COLUMNS
 * The same numbers everywhere. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static double uniform(void)
{
    static uint64_t s = 1;
    s = s * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = s ^ s >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return ((double)(x >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2.0 * log(uniform())) * cos(6.283185307179586 * uniform());
}

int main(int argc, char **argv)
{
    size_t rows = argc == 3 ? strtoul(argv[1], NULL, 10) : 0, columns = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    double *w = columns ? malloc(columns * sizeof *w) : NULL;
    if (!rows || !w) {
        fprintf(stderr, "usage: rows ROWS COLUMNS\n");
        return 64;
    }
    for (size_t d = 0; d < columns; d++) {
        w[d] = 1.5 * normal() / sqrt((double)columns);
        printf("x%zu,", d + 1);
    }
    printf("y\n");
    for (size_t i = 0; i < rows; i++) {
        double f = -0.3;
        for (size_t d = 0; d < columns; d++) {
            double x = normal();
            f += w[d] * x;
            printf("%.5g,", x);
        }
        printf("%d\n", uniform() < 1.0 / (1.0 + exp(-f)));
    }
    free(w);
    return fflush(stdout) || ferror(stdout) ? 74 : 0;
}
