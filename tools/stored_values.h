/* stored_values.h - the quantities that a model shows for its draws, kept with the state of a fit that has ended:
 * commands that only read results need not load the model, which is code. They follow the bytes of wvgd_save, a row
 * of doubles for each closing draw, then for `ensemble` draws of the ensemble (stream 1), then for each particle; the
 * record says reopen{stored{names[], rows, ensemble}}. */
#ifndef WV_STORED_VALUES_H
#define WV_STORED_VALUES_H
#include "open_model.h"
#include "run_json.h"
#include <jansson.h>

/* Adds them to the state, and says so in the record. shown: what show_closing_draws has made of the closing draws. */
int store_values(json_t *asked, const wvgd_fit *fit, const opened_model *model, const shown_draws *shown, void **state,
                 size_t *size, failure *f);

bool has_stored_values(const json_t *asked);

/* Size of the state without them; 0 if the record is wrong. */
size_t stored_state_size(const json_t *asked, size_t size);

/* The record of a run that goes on has none. */
void forget_stored_values(json_t *asked);

/* Looks up what was stored. */
typedef struct {
    size_t D, P, rows, ensemble;
    const char **names; /* [P] */
    double *z;          /* [rows][D] */
    double *value;      /* [rows][P] */
    size_t *order;      /* [rows] of z, in the order of its bytes */
} stored_values;

/* Names, and the values behind the state; the fit is not needed yet. 0, or an exit code. */
int read_values(const json_t *asked, const void *state, size_t size, stored_values *v, failure *f);

/* Finds out which points they belong to, in a fit that is restored. */
int match_values(stored_values *v, const wvgd_fit *fit, failure *f);
void free_values(stored_values *v);

/* As opened_model.show: not 0 for a point whose values were not stored. */
int find_values(void *self, const double *z, double *values);
#endif
