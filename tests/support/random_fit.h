/* random_fit.h - random targets of known evidence in 1 to 10 dimensions, with options for their fits: good ones, and
 * bad proposals (one component, few draws, few iterations). */
#ifndef RANDOM_FIT_H
#define RANDOM_FIT_H

#include "wvgd.h"

enum { RANDOM_FIT_KINDS = 8 };
extern const char *const random_fit_kind[RANDOM_FIT_KINDS];

/* Fills model and options; the same number gives the same fit everywhere. Returns the kind of the target, -1 without
 * memory. target_truth_of(model) has the evidence. */
int random_fit_make(uint64_t number, wvgd_model *model, wvgd_options *options);

#endif
