/* shared_file.h - files that come with the program: data sets and inputs of the experiments, found relative to where
 * the program lies, in the build tree and when installed. */
#ifndef WV_SHARED_FILE_H
#define WV_SHARED_FILE_H
#include "failure.h"

/* The path of share/wvgd/NAME ("data/iris.csv", "experiments/mixtures.json"), to be freed; NULL with *f
 * filled: EX_UNAVAILABLE if it is not there. */
char *find_shared(const char *name, failure *f);
#endif
