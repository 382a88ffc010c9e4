/* bridgestan.c - Stan models compiled by BridgeStan 2.x, through its C interface. Log densities with Jacobian and
 * without dropping constants (jacobian = true, propto = false), so that evidences are those of the Stan program.
 * What a Stan program prints is discarded: it would go to the standard output, where results are. */
#include "external.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bs_model bs_model;
typedef struct bs_rng bs_rng;

/* The functions of BridgeStan 2.x that are needed. */
typedef struct {
    bs_model *(*model_construct)(const char *data, unsigned seed, char **message);
    void (*model_destruct)(bs_model *);
    void (*free_error_msg)(char *message);
    const char *(*name)(const bs_model *);
    const char *(*model_info)(const bs_model *);
    const char *(*param_names)(const bs_model *, bool transformed, bool generated);
    const char *(*param_unc_names)(const bs_model *);
    int (*param_num)(const bs_model *, bool transformed, bool generated);
    int (*param_unc_num)(const bs_model *);
    int (*param_constrain)(const bs_model *, bool transformed, bool generated, const double *z, double *values,
                           bs_rng *, char **message);
    int (*log_density)(const bs_model *, bool propto, bool jacobian, const double *z, double *log_p, char **message);
    int (*log_density_gradient)(const bs_model *, bool propto, bool jacobian, const double *z, double *log_p,
                                double *grad, char **message);
    bs_rng *(*rng_construct)(unsigned seed, char **message);
    void (*rng_destruct)(bs_rng *);
    int (*set_print_callback)(void (*print)(const char *text, size_t size), char **message);
} interface;

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    {"bs_model_construct", offsetof(interface, model_construct)},
    {"bs_model_destruct", offsetof(interface, model_destruct)},
    {"bs_free_error_msg", offsetof(interface, free_error_msg)},
    {"bs_name", offsetof(interface, name)},
    {"bs_model_info", offsetof(interface, model_info)},
    {"bs_param_names", offsetof(interface, param_names)},
    {"bs_param_unc_names", offsetof(interface, param_unc_names)},
    {"bs_param_num", offsetof(interface, param_num)},
    {"bs_param_unc_num", offsetof(interface, param_unc_num)},
    {"bs_param_constrain", offsetof(interface, param_constrain)},
    {"bs_log_density", offsetof(interface, log_density)},
    {"bs_log_density_gradient", offsetof(interface, log_density_gradient)},
    {"bs_rng_construct", offsetof(interface, rng_construct)},
    {"bs_rng_destruct", offsetof(interface, rng_destruct)},
    {"bs_set_print_callback", offsetof(interface, set_print_callback)},
};

/* Names out of one comma-separated text. */
typedef struct {
    size_t count;
    char *text;
    const char **name; /* [count] pointing into text */
} name_list;

struct wv_bridgestan {
    interface bs;
    bs_model *model;
    bs_rng *rng;
    size_t dim;
    name_list coordinates, quantities;
    pthread_mutex_t lock; /* of what follows */
    size_t failures;
    bool settled;        /* a batch with failures has ended: the message is that of its first point */
    const double *first; /* where that point lies in the batch */
    char message[512];
};

/* ---- evaluation -------------------------------------------------------------------------------------------------- */
static void discard(const char *text, size_t size)
{
    (void)text;
    (void)size;
}

/* Counts a failure at z; message: what the object says, or NULL. */
static void note_failure(wv_bridgestan *s, const double *z, char *message, const char *otherwise)
{
    pthread_mutex_lock(&s->lock);
    if (!s->settled && (s->failures == 0 || z < s->first)) {
        s->first = z;
        snprintf(s->message, sizeof s->message, "%s", message && *message ? message : otherwise);
    }
    s->failures++;
    pthread_mutex_unlock(&s->lock);
}

static bool all_finite(size_t n, const double *values)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

/* Log density of one point; NaN if it cannot be evaluated, and then grad is 0. */
static double evaluate(wv_bridgestan *s, const double *z, double *grad)
{
    double log_p = NAN;
    char *message = NULL;
    int code = grad ? s->bs.log_density_gradient(s->model, false, true, z, &log_p, grad, &message)
                    : s->bs.log_density(s->model, false, true, z, &log_p, &message);
    bool zero = code == 0 && log_p == -INFINITY,
         good = code == 0 && isfinite(log_p) && (!grad || all_finite(s->dim, grad));
    if (!good && !zero)
        note_failure(s, z, message,
                     code           ? "the Stan program failed without a message"
                     : isnan(log_p) ? "the log density is not a number"
                     : isinf(log_p) ? "the log density is infinite"
                                    : "the gradient of the log density is not finite");
    if (message)
        s->bs.free_error_msg(message);
    if (good)
        return log_p;
    if (grad)
        memset(grad, 0, s->dim * sizeof *grad);
    return zero ? -INFINITY : NAN;
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    wv_bridgestan *s = self;
    for (size_t i = 0; i < n; i++)
        log_p[i] = evaluate(s, z + i * s->dim, grad ? grad + i * s->dim : NULL);
    return 0;
}

/* As Stan's own algorithms do: uniform between -2 and 2 in each unconstrained coordinate. */
static void start(void *self, const double *normal, double *z)
{
    const wv_bridgestan *s = self;
    for (size_t i = 0; i < s->dim; i++)
        z[i] = 2 * erfc(-normal[i] * 0.70710678118654752) - 2;
}

int wv_bridgestan_constrain(void *self, const double *z, double *values)
{
    wv_bridgestan *s = self;
    char *message = NULL;
    int code = s->bs.param_constrain(s->model, true, true, z, values, s->rng, &message);
    if (code) {
        note_failure(s, z, message, "the Stan program failed without a message");
        for (size_t i = 0; i < s->quantities.count; i++)
            values[i] = NAN;
    }
    if (message)
        s->bs.free_error_msg(message);
    return code ? -1 : 0;
}

int wv_bridgestan_restart(wv_bridgestan *s, unsigned seed)
{
    char *message = NULL;
    bs_rng *rng = s->bs.rng_construct(seed, &message);
    if (message)
        s->bs.free_error_msg(message);
    if (!rng)
        return -1;
    s->bs.rng_destruct(s->rng);
    s->rng = rng;
    return 0;
}

size_t wv_bridgestan_names(const wv_bridgestan *s, const char *const **names)
{
    *names = s->quantities.name;
    return s->quantities.count;
}

size_t wv_bridgestan_failures(wv_bridgestan *s, const char **message)
{
    s->settled = s->failures > 0;
    *message = s->failures ? s->message : NULL;
    return s->failures;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */
/* Splits text at its commas; -1 without memory, or if there are not `count` names. */
static int split_names(name_list *list, const char *text, size_t count)
{
    list->text = text ? strdup(text) : NULL;
    list->name = calloc(count ? count : 1, sizeof *list->name);
    if (!list->text || !list->name)
        return -1;
    char *at = count ? list->text : NULL;
    while (at && list->count < count) {
        list->name[list->count++] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = '\0';
    }
    return list->count == count && !at ? 0 : -1;
}

static void free_names(name_list *list)
{
    free(list->text);
    free(list->name);
}

static wv_external_status load_symbols(interface *bs, void *object, char *error, size_t error_size)
{
    const int *major = dlsym(object, "bs_major_version"); /* not there before 2.0 */
    if (!major || *major != 2) {
        snprintf(error, error_size,
                 "the model was built with BridgeStan %d.x, expected 2.x: build it with a newer BridgeStan",
                 major ? *major : 1);
        return WV_EXTERNAL_REFUSED;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(object, symbols[i].name);
        if (!symbol) {
            snprintf(error, error_size, "the BridgeStan model does not export the function %s", symbols[i].name);
            return WV_EXTERNAL_REFUSED;
        }
        memcpy((char *)bs + symbols[i].offset, &symbol, sizeof symbol);
    }
    return WV_EXTERNAL_OK;
}

/* Writes the object's message, or `otherwise`, to error, and frees it. */
static void take_message(const interface *bs, char *message, const char *otherwise, char *error, size_t error_size)
{
    snprintf(error, error_size, "%s", message && *message ? message : otherwise);
    if (message)
        bs->free_error_msg(message);
}

static wv_external_status construct(wv_bridgestan *s, const char *data, unsigned seed, char *error, size_t error_size)
{
    char *message = NULL;
    if (s->bs.set_print_callback(discard, &message) != 0) {
        take_message(&s->bs, message, "bs_set_print_callback has failed", error, error_size);
        return WV_EXTERNAL_BROKEN;
    }
    message = NULL;
    s->model = s->bs.model_construct(data, seed, &message);
    if (!s->model) {
        take_message(&s->bs, message, "bs_model_construct failed without a message", error, error_size);
        return WV_EXTERNAL_REFUSED;
    }
    message = NULL;
    s->rng = s->bs.rng_construct(seed, &message);
    if (!s->rng) {
        take_message(&s->bs, message, "bs_rng_construct failed without a message", error, error_size);
        return WV_EXTERNAL_BROKEN;
    }
    return WV_EXTERNAL_OK;
}

static wv_external_status describe(wv_bridgestan *s, char *error, size_t error_size)
{
    int dim = s->bs.param_unc_num(s->model), shown = s->bs.param_num(s->model, true, true);
    if (dim <= 0) {
        snprintf(error, error_size, "the Stan program has %d parameters, expected at least 1", dim);
        return WV_EXTERNAL_REFUSED;
    }
    s->dim = (size_t)dim;
    if (shown < 0 || split_names(&s->coordinates, s->bs.param_unc_names(s->model), s->dim) ||
        split_names(&s->quantities, s->bs.param_names(s->model, true, true), (size_t)shown)) {
        snprintf(error, error_size,
                 "the names do not match %d unconstrained and %d constrained parameters, or memory is exhausted", dim,
                 shown);
        return WV_EXTERNAL_BROKEN;
    }
    return WV_EXTERNAL_OK;
}

wv_external_status wv_bridgestan_open(wv_bridgestan **stan, wvgd_model *model, void *object, const char *data,
                                      unsigned seed, char *error, size_t error_size)
{
    wv_bridgestan *s = calloc(1, sizeof *s);
    *stan = NULL;
    if (!s) {
        snprintf(error, error_size, "no memory");
        return WV_EXTERNAL_BROKEN;
    }
    pthread_mutex_init(&s->lock, NULL);
    wv_external_status status = load_symbols(&s->bs, object, error, error_size);
    if (status == WV_EXTERNAL_OK)
        status = construct(s, data, seed, error, error_size);
    if (status == WV_EXTERNAL_OK)
        status = describe(s, error, error_size);
    if (status != WV_EXTERNAL_OK) {
        wv_bridgestan_close(s);
        return status;
    }
    const char *name = s->bs.name(s->model), *info = s->bs.model_info(s->model);
    *model = (wvgd_model){.name = name,
                          .dim = s->dim,
                          .log_density = log_density,
                          .self = s,
                          .has_gradient = true,
                          .names = s->coordinates.name,
                          .thread_safe = info && strstr(info, "STAN_THREADS=true"),
                          .start = start,
                          .start_self = s};
    *stan = s;
    return WV_EXTERNAL_OK;
}

void wv_bridgestan_close(wv_bridgestan *s)
{
    if (!s)
        return;
    if (s->rng)
        s->bs.rng_destruct(s->rng);
    if (s->model)
        s->bs.model_destruct(s->model);
    free_names(&s->coordinates);
    free_names(&s->quantities);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
