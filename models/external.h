/* external.h - models in shared objects: our own interface, and BridgeStan's. Objects stay loaded until the program
 * ends, since they may have left threads and thread-local data behind. */
#ifndef WV_EXTERNAL_H
#define WV_EXTERNAL_H
#include "wvgd_model.h"

typedef enum {
    WV_EXTERNAL_OK,
    WV_EXTERNAL_REFUSED, /* this object, or this configuration, cannot be used; error says why */
    WV_EXTERNAL_BROKEN   /* the object does not keep to its interface, or there is no memory; error says why */
} wv_external_status;

typedef enum { WV_OBJECT_UNKNOWN, WV_OBJECT_PLUGIN, WV_OBJECT_BRIDGESTAN } wv_object_kind;

/* Loads an object. path has a '/' in it. Returns a handle for the functions below, or NULL with the reason in error. */
void *wv_object_load(const char *path, wv_object_kind *kind, char *error, size_t error_size);

/* Fills *model; wvgd_model_close frees it. shard: a share of its rows; NULL: all of them. */
wv_external_status wv_model_plugin(wvgd_model *model, void *object, const char *config, const wvgd_shard *shard,
                                   char *error, size_t error_size);

/* A Stan model. Its log density is that of the unconstrained parameters, with Jacobian and constants. A point where
 * the Stan program throws, or where value or gradient are not finite, has the density NaN and counts as failed; the
 * first message is kept. Unless the object was built with STAN_THREADS=true the model is not thread safe, and all
 * calls must come from the thread that loaded the object. */
typedef struct wv_bridgestan wv_bridgestan;

/* data: JSON text, or NULL. seed: of transformed data and generated quantities. *model lives as long as
 * *stan: wv_bridgestan_close frees both. */
wv_external_status wv_bridgestan_open(wv_bridgestan **stan, wvgd_model *model, void *object, const char *data,
                                      unsigned seed, char *error, size_t error_size);
void wv_bridgestan_close(wv_bridgestan *stan); /* accepts NULL */

/* Constrained parameters, transformed parameters and generated quantities: their names, and their values[count] at
 * an unconstrained z[dim]. constrain takes a wv_bridgestan; it returns 0, or -1 with values NAN when the Stan
 * program has thrown: a failed point. Not to be called from two threads at once. */
size_t wv_bridgestan_names(const wv_bridgestan *stan, const char *const **names);
int wv_bridgestan_constrain(void *self, const double *z, double *values);

/* The random numbers of generated quantities begin anew from this seed. 0, or -1: the object could not make
 * a generator, and the old one goes on. */
int wv_bridgestan_restart(wv_bridgestan *stan, unsigned seed);

/* Points failed so far, and the first message or NULL: that of the first point in the first batch with one, whatever
 * thread came to it first. To be called after each batch, and not while one is being evaluated. */
size_t wv_bridgestan_failures(wv_bridgestan *stan, const char **message);
#endif
