/* stan_csv.h - draws as CmdStan writes those of its pathfinder method, so that its readers take
 * them: comment lines, a line of names
 *     lp__,lp_approx__,path__,log_weight__,PARAMETERS
 * and a line for each draw. path__ is the cell, counted from 1; log_weight__ is 0 for draws of equal weight. */
#ifndef WV_STAN_CSV_H
#define WV_STAN_CSV_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    const char *model; /* its name */
    const char *kind;  /* what the draws are, in words */
    uint64_t seed;
    size_t cells, draws; /* num_paths, num_draws */
    size_t columns;
    const char *const *names; /* [columns] */
} stan_csv_head;

typedef struct {
    double log_p, log_q; /* NaN: not known */
    size_t cell;         /* counted from 0 */
    double log_weight;
} stan_csv_draw;

void put_stan_head(FILE *stream, const stan_csv_head *head);
/* values: [columns] */
void put_stan_draw(FILE *stream, const stan_csv_draw *draw, size_t columns, const double *values);
#endif
