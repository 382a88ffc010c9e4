/* saved_fit.h - a fit that has ended, back from the state that its run directory keeps. Models are opened again only
 * where draws cannot be shown, or cells not told, without them; values that were stored stand for a model that nobody
 * trusts. */
#ifndef WV_SAVED_FIT_H
#define WV_SAVED_FIT_H
#include "open_model.h"
#include "run_record.h"
#include "stored_values.h"
#include <jansson.h>

typedef struct {
    json_t *asked;
    void *state;
    size_t size;
    opened_model model;   /* without densities, unless it was opened again */
    stored_values stored; /* stand for a model that shows its draws, if `from_store` */
    bool from_store;
    const char **names; /* [dim] */
    double *start;
    wvgd_fit *fit;
} saved_fit;

/* The record and the state of the run in dir, that of its end if it has one; both to be freed, even after a failure.
 * *size: without the values stored behind it. */
int read_saved(const char *dir, json_t **asked, void **state, size_t *size, failure *f);

/* 0, or an exit code with *f filled; free_saved in either case. *s is all zero before, and stays where it is. */
int load_saved(saved_fit *s, const char *dir, const model_trust *trust, failure *f);
void free_saved(saved_fit *s);
#endif
