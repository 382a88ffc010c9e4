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
 * model's own. A point outside the support gets log_p = -INFINITY and any gradient. NaN
 * has no weight either, but tells of an error: results count such points, and with many of them are unreliable. Return
 * 0. Any other value means that the model itself has failed: wvgd_step and wvgd_run return WVGD_E_MODEL, and ask for
 * the same points if called again. */
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

/* The log density of one point; fills grad[dim] unless it is NULL. -INFINITY: no density there; NaN: an error. */
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

/* Makes *model from *inner, whose parameters have limits: lower[i] < theta_i < upper[i]. -INFINITY and INFINITY mean
 * no limit; a NULL array means no limits at all. The coordinates z of *model have no limits, and increase with theta:
 * z = log((theta - lower)/(upper - theta)) between two limits, log(theta - lower) or -log(upper - theta) with one, and
 * theta itself without. The log density, and the gradient if *inner has one, are those of z, including the Jacobian.
 * *inner is never evaluated outside the limits, though rounding may put a point onto one. The evidence is the same.
 * *inner is copied; what it points to must outlive the model, and closing the model does not close it. Returns 0, or -1
 * if memory runs out, model, inner or its log_density is NULL, or some lower limit is not below the upper one. */
int wvgd_model_bounded(wvgd_model *model, const wvgd_model *inner, const double *lower, const double *upper);

/* theta[n][dim] of the points z[n][dim] of a model made by wvgd_model_bounded: of draws, say, for wvgd_describe. The
 * arrays may be the same. Returns 0, or -1 if it was not made so, or an argument is NULL. */
int wvgd_model_parameters(const wvgd_model *model, size_t n, const double *z, double *theta);

/* For wrappers that share batches among processes. wvgd_model_chunk: the number of points in a chunk, in a batch of n;
 * chunks begin at its multiples. wvgd_model_threads_part evaluates a part of such a batch, n points in whole chunks,
 * exactly as the whole batch would be; *model was made by wvgd_model_threads. It returns what log_density does, or -1
 * if model is NULL or chunk is 0. */
size_t wvgd_model_chunk(size_t n);
int wvgd_model_threads_part(const wvgd_model *model, size_t chunk, size_t n, const double *z, double *log_p,
                            double *grad);

/* A shared object that exports a function of this type under the name wvgd_model_open is a model that the program
 * can fit: `wvgd fit ./my_model.so`. It fills *model and returns 0, or writes a message to error[error_size] and
 * returns another value. config is text from the user (a data file's content, or the text of --config), valid during
 * the call, or NULL. See examples/banana.c. */
typedef int wvgd_model_open_function(wvgd_model *model, const char *config, char *error, size_t error_size);

/* A share of the rows of a data file, for `mpirun -n K wvgd-mpi fit ./my_model.so --data FILE.csv --shard rows`. */
typedef struct wvgd_shard {
    unsigned index, count; /* index 0 .. count - 1, in the order of the file */
    /* Replaces x[n] by the sum over all shares, in their order; 0 on success. While the model is opened, all shares
     * must call it equally often. It serves for means over all rows, for example. */
    int (*sum)(void *self, size_t n, double *x);
    void *self;
} wvgd_shard;

/* A shared object that exports such a function under the name wvgd_model_open_shard declares that its log density is a
 * sum over rows: the log densities of all shares add up to that of all rows. So the prior belongs to share 0 alone.
 * config: the header line of the file and the rows of the share, perhaps none; the rest is as for
 * wvgd_model_open. All shares have the same dim and names. See
 * examples/rows.c. */
typedef int wvgd_model_open_shard_function(wvgd_model *model, const char *config, const wvgd_shard *shard, char *error,
                                           size_t error_size);

#ifdef __cplusplus
}
#endif
#endif
