/* wvgd_model.h - what a model is. External models need only this header.
 *
 * A model is an unnormalised log density on R^dim, evaluated for many points at once. Everything about how points are
 * evaluated (threads, one point at a time, counting, another machine) is a model that wraps a model.
 * Usable from C11 and C++11. */
#ifndef WVGD_MODEL_H
#define WVGD_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The one call. Fills log_p[i] with the log density at z[i][0..dim) for i < n and, unless grad is NULL,
 * grad[i][0..dim) with its gradient there. z, log_p and grad are row-major and do not overlap; self is the
 * model's own. A point outside the support, or one that cannot be evaluated, gets log_p = -INFINITY and any gradient;
 * NaN counts as a bad point and is treated likewise. Return 0. Any other value means that the model itself has
 * failed: wvgd_step and wvgd_run return WVGD_E_MODEL, and ask for the same points if called again. */
typedef int wvgd_log_density(void *self, size_t n, const double *z, double *log_p, double *grad);

typedef struct wvgd_model {
    const char *name;              /* for messages; NULL: "model" */
    size_t dim;                    /* D >= 1 */
    wvgd_log_density *log_density; /* NULL: the caller evaluates points, by wvgd_ask and wvgd_tell */
    void *self;                    /* first argument of log_density and of close */
    bool has_gradient;             /* it can fill grad; false: grad is always NULL */
    bool thread_safe;              /* log_density may run in several threads at once */
    const char *const *names;      /* [dim] names of the coordinates, or NULL */
    void (*close)(void *self);     /* frees self; NULL: nothing to free */
    /* Turns dim independent standard normals into a starting point, such as a draw from the prior. NULL: starting
     * points are normal with sd init_scale. */
    void (*start)(void *self, const double *normal, double *z);
    void *start_self; /* first argument of start */
    /* Floating-point operations of one evaluation with its gradient, roughly. If evaluations are cheap, the fit takes
     * more draws instead of fitting more components. 0: unknown; the fit then saves evaluations. */
    double work;
    /* What a point gets depends, in its last bits, on how many others are evaluated with it, as it does where matrix
     * products (BLAS) do it: such batches are always cut at the same places. false: at any, so that a slow model is
     * asked for few points at a time. */
    bool batched;
} wvgd_model;

/* Calls model->close, if there is one, once. Accepts NULL, and a model that is already closed. */
void wvgd_model_close(wvgd_model *model);

/* The log density of one point; fills grad[dim] unless it is NULL. NaN or -INFINITY: no density there. */
typedef double wvgd_point_density(void *self, const double *z, double *grad);

/* Makes *model out of a function of one point. self is passed on and must outlive the model.
 * Returns 0, or -1 if memory runs out or model or density is NULL. */
int wvgd_model_pointwise(wvgd_model *model, size_t dim, wvgd_point_density *density, void *self, bool has_gradient);

/* Makes *model out of *inner, with each batch cut into chunks of WVGD_CHUNK points (fewer if the batch is small)
 * that `threads` threads share; results are the same bits for every number of threads. *inner is copied; what it
 * points to must outlive the model, and closing the model does not close it. A model that is not thread_safe is
 * evaluated by one thread. Returns 0, or -1 if memory runs out or model or inner is NULL. */
enum { WVGD_CHUNK = 64 };
int wvgd_model_threads(wvgd_model *model, const wvgd_model *inner, unsigned threads);

/* A shared object that exports a function of this type under the name wvgd_model_open is a model that the program
 * can fit: `wvgd fit ./my_model.so`. It fills *model and returns 0, or writes a message to error[error_size] and
 * returns another value. config is text from the user (a data file's content, or the text of --config), valid during
 * the call, or NULL. See examples/banana.c. */
typedef int wvgd_model_open_function(wvgd_model *model, const char *config, char *error, size_t error_size);

#ifdef __cplusplus
}
#endif
#endif
