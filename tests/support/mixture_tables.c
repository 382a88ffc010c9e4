/* mixture_tables.c - the random 1-D mixtures of tests/data and their deterministic optima. */
#include "mixture_tables.h"

#include "table.h"

/* Reads n numbers at *text and moves it behind them; fails softly once *text is NULL. */
static void take(const char **text, size_t n, double *value)
{
    if (*text)
        *text = table_numbers(*text, n, value);
}

bool mixture_table_read(mixture_table *mixture, int target)
{
    char key[32], line[TABLE_LINE];
    double K = 0.0;
    snprintf(key, sizeof key, "%d ", target);
    const char *text = table_find("mixtures.txt", key, line);
    take(&text, 1, &K);
    if (!text || K < 1.0 || K > MIXTURE_MAX)
        return false;
    mixture->K = (size_t)K;
    take(&text, mixture->K, mixture->weight);
    take(&text, mixture->K, mixture->mean);
    take(&text, mixture->K, mixture->sd);
    return text != NULL;
}

bool mixture_truth_read(mixture_truth *truth, int target, size_t N)
{
    char key[32], line[TABLE_LINE];
    double scalar[4] = {0}, infinite[MIXTURE_MAX] = {0};
    if (N > MIXTURE_MAX)
        return false;
    snprintf(key, sizeof key, "%d %zu ", target, N);
    const char *text = table_find("mixtures_truth.txt", key, line);
    take(&text, 4, scalar);
    *truth =
        (mixture_truth){.N = N, .distortion = scalar[0], .ise = scalar[1], .pelbo = scalar[2], .pelbo_beta = scalar[3]};
    take(&text, N, truth->z);
    take(&text, N, truth->beta);
    take(&text, N, truth->mu);
    take(&text, N, truth->sd);
    take(&text, N, truth->elbo);
    take(&text, N, infinite);
    for (size_t j = 0; j < N; j++) {
        truth->sd_infinite[j] = infinite[j] > 0.0;
        truth->any_infinite = truth->any_infinite || truth->sd_infinite[j];
    }
    return text != NULL;
}
