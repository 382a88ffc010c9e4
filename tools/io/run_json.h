/* run_json.h - what a fit has found, as the JSON object of run.json (docs/formats.md). */
#ifndef WV_RUN_JSON_H
#define WV_RUN_JSON_H
#include "json_bytes.h"
#include "wvgd.h"
#include <jansson.h>

/* Quantiles that are shown: 5, 50, 95 %. */
enum { SHOWN_LEVELS = 3 };
extern const double shown_level[SHOWN_LEVELS];

/* Weighted draws of the quantities that are shown to users. */
typedef struct {
    size_t n, columns;
    const char *const *names; /* [columns] */
    const double *value;      /* [n][columns] */
    const double *weight;     /* [n] sum to 1 */
    const double *calibrated; /* [n] likewise, for means and sds; some may be slightly negative */
    const double *known;      /* [3][columns] means, variances and standard errors of the means, where the
                               * fit has told them; or NULL */
    const double *errors; /* [2][columns] standard errors of the sds and tail indices, then [2][columns][SHOWN_LEVELS]
                           * quantiles and their standard errors; or NULL */
    const size_t *mode;   /* [n + N] the mode of each draw, then of each particle; or NULL, where
                           * modes were not searched for */
    const double *mass;   /* [2][modes] masses of the modes and their standard errors */
} shown_draws;

/* A number; null where JSON has none (NaN, infinities). */
json_t *json_number(double value);

/* The object of run.json, but for `version, id, command, model, data, options`, which come from *asked: they
 * are put first. The map to bent coordinates is that of the fit, which may be NULL. NULL without memory. */
json_t *run_json(const json_t *asked, const wvgd_fit *fit, const wvgd_results *r, const shown_draws *draws);
#endif
