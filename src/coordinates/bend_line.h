/* bend_line.h - a monotone map v(u) of one coordinate: a cubic spline with even knots, straight beyond them. */
#ifndef WV_BEND_LINE_H
#define WV_BEND_LINE_H
#include "arena.h"
#include <stdbool.h>
#include <stddef.h>

enum { WV_BEND_KNOTS = 65 };

typedef struct {
    bool curved;                                        /* otherwise v = u */
    double low, high;                                   /* first and last knot */
    double value[WV_BEND_KNOTS], second[WV_BEND_KNOTS]; /* v at the knots, and its second derivatives */
} wv_bend_line;

void wv_bend_line_clear(wv_bend_line *line);

/* v(u), its derivative, and the derivative of the log of that. */
typedef struct {
    double v, slope, log_slope_change;
} wv_bend_turn;
wv_bend_turn wv_bend_line_at(const wv_bend_line *line, double u);
double wv_bend_line_inverse(const wv_bend_line *line, double v);

/* The map for which u is standard normal where v has these scores g = d log p / dv, at n points of weight w. It stays
 * straight where that is not monotone. */
void wv_bend_line_fit(wv_bend_line *line, size_t n, const double *v, const double *g, const double *w, wv_arena *arena);

/* From values at the knots: natural boundaries. False, and straight: it does not rise everywhere. */
bool wv_bend_line_set(wv_bend_line *line, double low, double high, const double *value);
#endif
