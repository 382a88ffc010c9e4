/* check_gradient.h - --check-gradient: the model's gradient against differences of its log density, at
 * points like those that a fit starts from. */
#ifndef WV_CHECK_GRADIENT_H
#define WV_CHECK_GRADIENT_H
#include "failure.h"
#include "wvgd_tools.h"
#include <stdint.h>

/* Where to look: normal points around each of some given ones in turn; without any, draws from the
 * model's prior, or normal points around 0. */
typedef struct {
    size_t n;
    const double *start; /* [n][dim], or NULL */
    bool prior;          /* the model has one */
    double scale;        /* of normal points */
    uint64_t seed;
} gradient_points;

/* What it finds goes to `note`, points without a density too. EX_SOFTWARE with *f filled: the gradient is wrong
 * somewhere, or cannot be checked. */
int check_gradient(const wvgd_model *model, const gradient_points *points, wvgd_note_callback *note, void *self,
                   failure *f);
#endif
