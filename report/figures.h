/* figures.h - the main plots of a run as files for papers: SVG and PNG, drawn by gnuplot. */
#ifndef WV_FIGURES_H
#define WV_FIGURES_H
#include "report.h"

/* Makes the directory if it is not there and writes marginals, pair, masses and training into it, each as .svg and
 * .png. 0, or an exit code with *f filled. */
int write_figures(const run_view *v, const char *dir, failure *f);
#endif
