/* compare.h - runs side by side, from the objects of their run.json. */
#ifndef WV_COMPARE_H
#define WV_COMPARE_H
#include "failure.h"
#include "wvgd_tools.h"
#include <jansson.h>

struct wvgd_comparison {
    size_t n;
    wvgd_compared *row; /* [n] the best first */
    char **name;        /* [n] what the rows call their runs, in the order of the caller */
    size_t notes;
    char **note; /* [notes] */
    char *text;  /* the last one that was asked for */
};

/* Takes what it needs of run[n], each called name[n]. NULL with *f filled on failure. */
wvgd_comparison *compare_runs(size_t n, json_t *const *run, const char *const *name, failure *f);
#endif
