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
    uint64_t seed;      /* of the first fit, which is not among them */
} repeated_fits;

/* Beside a first fit with these options `count` fits with other seeds, the least from `seed` on; the callback is told
 * of all, and may stop them: the one under way is then left out, and so are the others. A fit that fails is kept as
 * such. */
int run_repeated(repeated_fits *r, size_t count, const wvgd_model *model, const wvgd_options *options, uint64_t seed,
                 const double *start, wvgd_progress_callback *callback, void *self, failure *f);
void free_repeated(repeated_fits *r);

/* Where the first fit is not pooled, another that is takes its place, so that everything that is shown counts. */
void prefer_pooled(repeated_fits *r, wvgd_fit **first);

/* Puts `repeat` into a run.json, whose fit is the first, and what the fits say of each other into its verdict and
 * warnings. asked: how many fits were wanted in all. */
void describe_repeated(const repeated_fits *r, size_t asked, const wvgd_fit *first, json_t *run);

/* Whether fit k is one whose draws count: it is reliable, and its evidence is not less than that of others. */
bool is_pooled(const repeated_fits *r, const wvgd_fit *first, size_t k);
#endif
