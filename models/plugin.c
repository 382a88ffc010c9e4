/* plugin.c - shared objects: which interface they have, and models of our own. */
#include "external.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *wv_object_load(const char *path, wv_object_kind *kind, char *error, size_t error_size)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    *kind = WV_OBJECT_UNKNOWN;
    if (!object) {
        const char *reason = dlerror();
        snprintf(error, error_size, "%s", reason ? reason : "unknown reason");
        return NULL;
    }
    if (dlsym(object, "wvgd_model_open"))
        *kind = WV_OBJECT_PLUGIN;
    else if (dlsym(object, "bs_model_construct") || dlsym(object, "bs_construct") || dlsym(object, "bs_major_version"))
        *kind = WV_OBJECT_BRIDGESTAN;
    return object;
}

/* NULL, or what is wrong with a model that an object has filled. */
static const char *find_fault(const wvgd_model *model)
{
    if (!model->log_density)
        return "has left log_density NULL";
    for (size_t i = 0; model->names && i < model->dim; i++)
        if (!model->names[i])
            return "has left a name of a coordinate NULL";
    return NULL;
}

static int open_whole(void *symbol, wvgd_model *made, const char *config, char *message, size_t size)
{
    wvgd_model_open_function *open_model;
    memcpy(&open_model, &symbol, sizeof open_model);
    return open_model(made, config, message, size);
}

static int open_shard(void *symbol, wvgd_model *made, const char *config, const wvgd_shard *shard, char *message,
                      size_t size)
{
    wvgd_model_open_shard_function *open_model;
    memcpy(&open_model, &symbol, sizeof open_model);
    return open_model(made, config, shard, message, size);
}

wv_external_status wv_model_plugin(wvgd_model *model, void *object, const char *config, const wvgd_shard *shard,
                                   char *error, size_t error_size)
{
    void *symbol = dlsym(object, shard ? "wvgd_model_open_shard" : "wvgd_model_open");
    char message[512] = "";
    wvgd_model made = {0};
    if (!symbol) {
        snprintf(error, error_size, "--shard rows needs a model that exports %s: see wvgd_model.h",
                 "wvgd_model_open_shard");
        return WV_EXTERNAL_REFUSED;
    }
    if (shard ? open_shard(symbol, &made, config, shard, message, sizeof message)
              : open_whole(symbol, &made, config, message, sizeof message)) {
        message[sizeof message - 1] = '\0';
        snprintf(error, error_size, "%s", *message ? message : "wvgd_model_open failed without a message");
        return WV_EXTERNAL_REFUSED;
    }
    if (made.dim == 0) {
        snprintf(error, error_size, "the model has dimension 0, expected at least 1");
        wvgd_model_close(&made);
        return WV_EXTERNAL_REFUSED;
    }
    const char *fault = find_fault(&made);
    if (fault) {
        snprintf(error, error_size, "wvgd_model_open %s", fault);
        wvgd_model_close(&made);
        return WV_EXTERNAL_BROKEN;
    }
    *model = made;
    return WV_EXTERNAL_OK;
}
