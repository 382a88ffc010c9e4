/* fake_bridgestan.c - a hand-written model with the C interface of BridgeStan 2.x, as the Stan program
 *     parameters { real mu; real<lower=0> sigma; }        mu ~ normal(1, 2), sigma ~ lognormal(0, 0.5): evidence 1
 *     transformed parameters { real ratio = mu / sigma; }
 *     generated quantities { real draw = the number of draws so far plus the seed; }
 * It throws for mu > 50, and has a density that is not a number for mu < -50. Data {"fail": ...} makes the
 * construction fail. Without threads, calls from another thread than the one that has loaded it fail, where
 * a real model would crash. Compiled with
 *     FAKE_MAJOR=1        another version              FAKE_THREADS="true"  as if built with STAN_THREADS
 *     FAKE_INCOMPLETE     without bs_param_constrain   FAKE_EMPTY           without parameters
 *     FAKE_NAMELESS       with fewer names than parameters */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAKE_MAJOR
#define FAKE_MAJOR 2
#endif
#ifndef FAKE_THREADS
#define FAKE_THREADS "false"
#endif
#ifdef FAKE_NAMELESS
#define NAMES "mu"
#else
#define NAMES "mu,sigma"
#endif
#ifdef FAKE_EMPTY
enum { PARAMETERS = 0 };
#else
enum { PARAMETERS = 2 };
#endif

typedef struct bs_model {
    int unused;
} bs_model;
typedef struct bs_rng {
    unsigned seed, draws;
} bs_rng;

extern const int bs_major_version, bs_minor_version, bs_patch_version;
const int bs_major_version = FAKE_MAJOR, bs_minor_version = 5, bs_patch_version = 0;

bs_model *bs_model_construct(const char *data, unsigned seed, char **message);
void bs_model_destruct(bs_model *model);
void bs_free_error_msg(char *message);
const char *bs_name(const bs_model *model);
const char *bs_model_info(const bs_model *model);
const char *bs_param_names(const bs_model *model, bool transformed, bool generated);
const char *bs_param_unc_names(const bs_model *model);
int bs_param_num(const bs_model *model, bool transformed, bool generated);
int bs_param_unc_num(const bs_model *model);
int bs_param_constrain(const bs_model *model, bool transformed, bool generated, const double *z, double *values,
                       bs_rng *rng, char **message);
int bs_log_density(const bs_model *model, bool propto, bool jacobian, const double *z, double *log_p, char **message);
int bs_log_density_gradient(const bs_model *model, bool propto, bool jacobian, const double *z, double *log_p,
                            double *grad, char **message);
bs_rng *bs_rng_construct(unsigned seed, char **message);
void bs_rng_destruct(bs_rng *rng);
int bs_set_print_callback(void (*print)(const char *text, size_t size), char **message);

static pthread_t loader;
static void (*print_text)(const char *text, size_t size);

__attribute__((constructor)) static void remember_thread(void)
{
    loader = pthread_self();
}

/* Prints, as a Stan program may, to the standard output unless told otherwise. */
static void print_line(const char *text)
{
    if (print_text)
        print_text(text, strlen(text));
    else
        printf("%s\n", text);
}

static int throw_error(char **message, const char *text)
{
    if (message)
        *message = strdup(text);
    return -1;
}

static bool wrong_thread(void)
{
    return strcmp(FAKE_THREADS, "true") != 0 && !pthread_equal(pthread_self(), loader);
}

bs_model *bs_model_construct(const char *data, unsigned seed, char **message)
{
    (void)seed;
    print_line("constructing");
    if (data && strstr(data, "\"fail\"")) {
        throw_error(message, "construct() failed with exception:\n  variable does not exist: y\n");
        return NULL;
    }
    return calloc(1, sizeof(bs_model));
}

void bs_model_destruct(bs_model *model)
{
    free(model);
}

void bs_free_error_msg(char *message)
{
    free(message);
}

const char *bs_name(const bs_model *model)
{
    (void)model;
    return "fake_model";
}

const char *bs_model_info(const bs_model *model)
{
    (void)model;
    return "Stan C++ Defines:\n\tSTAN_THREADS=" FAKE_THREADS "\n\tSTAN_MPI=false\n";
}

const char *bs_param_names(const bs_model *model, bool transformed, bool generated)
{
    (void)model;
    return transformed && generated ? NAMES ",ratio,draw"
           : transformed            ? NAMES ",ratio"
           : generated              ? NAMES ",draw"
                                    : NAMES;
}

const char *bs_param_unc_names(const bs_model *model)
{
    (void)model;
    return "mu,sigma";
}

int bs_param_num(const bs_model *model, bool transformed, bool generated)
{
    (void)model;
    return PARAMETERS + transformed + generated;
}

int bs_param_unc_num(const bs_model *model)
{
    (void)model;
    return PARAMETERS;
}

#ifndef FAKE_INCOMPLETE
int bs_param_constrain(const bs_model *model, bool transformed, bool generated, const double *z, double *values,
                       bs_rng *rng, char **message)
{
    (void)model;
    if (wrong_thread())
        return throw_error(message, "called from another thread");
    if (generated && !rng)
        return throw_error(message, "include_gq=true but rng=nullptr");
    if (z[0] > 50)
        return throw_error(message, "param_constrain() failed with exception: mu is too large\n");
    values[0] = z[0];
    values[1] = exp(z[1]);
    size_t at = 2;
    if (transformed)
        values[at++] = values[0] / values[1];
    if (generated)
        values[at++] = rng->seed + ++rng->draws;
    return 0;
}
#endif

int bs_log_density_gradient(const bs_model *model, bool propto, bool jacobian, const double *z, double *log_p,
                            double *grad, char **message)
{
    (void)model;
    const double mu = z[0], u = z[1], s = 0.5, half_log_2pi = 0.91893853320467274178;
    if (wrong_thread())
        return throw_error(message, "called from another thread");
    if (mu > 50)
        return throw_error(message, "log_density() failed with exception: mu is too large\n");
    print_line("evaluating");
    *log_p = -(mu - 1) * (mu - 1) / 8 - u * u / (2 * s * s) - u;
    grad[0] = -(mu - 1) / 4;
    grad[1] = -u / (s * s) - 1;
    if (!propto)
        *log_p -= log(2) + log(s) + 2 * half_log_2pi;
    if (jacobian) {
        *log_p += u;
        grad[1] += 1;
    }
    if (mu < -50)
        *log_p = NAN;
    return 0;
}

int bs_log_density(const bs_model *model, bool propto, bool jacobian, const double *z, double *log_p, char **message)
{
    double grad[2];
    return bs_log_density_gradient(model, propto, jacobian, z, log_p, grad, message);
}

bs_rng *bs_rng_construct(unsigned seed, char **message)
{
    (void)message;
    bs_rng *rng = calloc(1, sizeof *rng);
    if (rng)
        rng->seed = seed;
    return rng;
}

void bs_rng_destruct(bs_rng *rng)
{
    free(rng);
}

int bs_set_print_callback(void (*print)(const char *text, size_t size), char **message)
{
    (void)message;
    print_text = print;
    return 0;
}
