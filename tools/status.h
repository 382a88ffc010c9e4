/* status.h - failures of this library as errors of its callers. */
#ifndef WV_STATUS_H
#define WV_STATUS_H
#include "failure.h"
#include "wvgd.h"
#include <stdbool.h>

/* Fills *error, which may be NULL, from a failure, and returns its status. */
wvgd_status pass_failure(wvgd_error *error, const failure *f);

/* For a caller in C, who has no command line: --name becomes name, except in commands ("wvgd fit --resume DIR"). */
void name_options(failure *f);

/* Is an argument NULL? Then *error says so. */
bool lacks(wvgd_error *error, const char *function, const char *name, const void *argument);
#endif
