/* repeat.h - fits of the same model with other seeds: do they agree? */
#ifndef WV_REPEAT_H
#define WV_REPEAT_H
#include "failure.h"
#include "wvgd.h"
#include <jansson.h>

/* A fit that was repeated with another seed. */
typedef struct {
    uint64_t seed;
    wvgd_fit *fit; /* NULL: it has failed */
} repeated_fit;

typedef struct {
    size_t n;           /* that were run */
    repeated_fit *each; /* [n] */
} repeated_fits;

/* Fits with the seeds after that of the options, `count` of them; the callback is told of all, and may stop them: the
 * one under way is then left out, and so are the others. A fit that fails is kept as such. */
int run_repeated(repeated_fits *r, size_t count, const wvgd_model *model, const wvgd_options *options,
                 const double *start, wvgd_progress_callback *callback, void *self, failure *f);
void free_repeated(repeated_fits *r);

/* Puts `repeat` into a run.json, whose fit is the first, and what the fits say of each other into its verdict and
 * warnings. asked: how many fits were wanted in all. */
void describe_repeated(const repeated_fits *r, size_t asked, const wvgd_fit *first, uint64_t seed, json_t *run);

/* Whether fit k is one whose draws count: it is reliable, and its evidence is not less than that of others. */
bool is_pooled(const repeated_fits *r, const wvgd_fit *first, size_t k);
#endif
