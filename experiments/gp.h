/* gp.h - what the experiment gp measures: shared by gp.c, which fits, and gp_figures.c, which draws. */
#ifndef WV_GP_H
#define WV_GP_H
#include "gp_quadrature.h"
#include "reproduce.h"
#include "wvgd.h"

/* Two readings of a series. The rule: oscillation where f s > 1 (more than a period within the length scale of the
 * envelope) and A > B (more signal than noise). */
enum { OSCILLATION, SMOOTH, READINGS };
extern const char *const reading_names[READINGS]; /* "oscillation", "smooth or noise" */
int reading_of(const double *theta);              /* of log A, log f, log s, log B */

/* What is known of the posterior or estimated: log evidence, mass of each reading, and means and sds within it. */
typedef struct {
    double log_evidence, error_mass, error_mean; /* errors of a reference: of a mass, and of a mean in sds */
    double mass[READINGS], mean[READINGS][GP_PARAMETERS], sd[READINGS][GP_PARAMETERS];
} gp_summary;

typedef struct {
    const char *name, *data, *reference; /* files: names for find_shared */
    wv_gp_prior prior;
    gp_axis axis[GP_PARAMETERS]; /* of the picture */
    size_t figure_particles;
} gp_case;

/* The cells that are drawn: cell[i] of point i of the marginal's grid. */
typedef struct {
    const gp_case *of;
    const series_data *series;
    const gp_marginal *marginal;
    const uint32_t *cell; /* [f][B] of the most probable point there */
    size_t N;
    const double *z;    /* [N][4] */
    const double *beta; /* [N] */
} gp_picture;

/* Draws NAME.svg and NAME.png: the partition over the contours of the posterior, and the process
 * that each particle stands for. */
int draw_gp(const reproduction *r, const char *name, const gp_picture *p, failure *f);
#endif
