/* gnuplot.h - figures, drawn by gnuplot: one script makes NAME.svg and NAME.png, each whole or not at all.
 *
 * The script is text in gnuplot's language that ends in a plot (or a multiplot). Terminal, output, fonts,
 * borders, grid and colours are set before it runs: line types 1 to 8 have the colours of figure_colour(0)
 * to (7), which people with any kind of colour vision can tell apart, so that `plot ... linetype 2` or
 * `lt 2` is all a script has to say. Data go inline:
 * "$points << EOD\n1 2\n3 4\nEOD\nplot $points with lines lt 1 title 'x'\n"; a missing value is NaN.
 *
 *     char *script; size_t size;
 *     FILE *s = open_memstream(&script, &size);
 *     ...  fclose(s);
 *     code = draw_figure(dir, "figure_a", 900, 500, script, f); */
#ifndef WV_GNUPLOT_H
#define WV_GNUPLOT_H
#include "failure.h"
#include "file_set.h"
#include <stdbool.h>
#include <stddef.h>

enum { FIGURE_COLOURS = 8 };

/* Colour i modulo FIGURE_COLOURS as "#rrggbb": blue, vermilion, green, orange, sky blue, purple, grey, black. */
const char *figure_colour(size_t i);

/* Is there a gnuplot in PATH? */
bool has_gnuplot(void);

/* Draws dir/NAME.svg and dir/NAME.png of that size in pixels; name has letters, digits, '_' and '-' only. 0, or an
 * exit code with *f filled and files of that name left as they were: EX_UNAVAILABLE without gnuplot, EX_SOFTWARE
 * with what it said about the script, EX_CANTCREAT, EX_IOERR, or 130: interrupted. */
int draw_figure(const char *dir, const char *name, unsigned width, unsigned height, const char *script, failure *f);

/* The same for several figures: both files join the set, which the caller commits or abandons. */
int add_figure(file_set *set, const char *name, unsigned width, unsigned height, const char *script, failure *f);
#endif
