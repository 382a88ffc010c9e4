/* gaussian.h - the one likelihood of wv_glm that needs no rows once it is open. */
#ifndef WV_GAUSSIAN_H
#define WV_GAUSSIAN_H
#include "models.h"

/* Coordinates: the columns' names, intercept, log_sigma. */
int wv_model_gaussian(wvgd_model *model, const char *name, const wv_glm *data);
#endif
