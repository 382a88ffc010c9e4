/* figures.c - scripts for gnuplot, with the data inline. */
#include "figures.h"
#include "ascending.h"
#include "gnuplot.h"
#include "json_values.h"
#include "write.h"
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

enum { GRID = 160, PANELS = 12, PAIR_DRAWS = 2000, NO_CELL = FIGURE_COLOURS + 1 };

/* Text between single quotes; control characters become blanks. */
static void put_quoted(FILE *s, const char *text)
{
    putc('\'', s);
    for (; *text; text++)
        if (*text == '\'')
            fputs("''", s);
        else
            putc((unsigned char)*text < ' ' ? ' ' : *text, s);
    putc('\'', s);
}

static const char *name_of(const run_view *v, size_t c)
{
    const char *name =
        json_string_value(json_array_get(json_object_get(json_object_get(v->run, "posterior"), "names"), c));
    return name ? name : "";
}

static void put_row(FILE *s, size_t n, const double *x)
{
    for (size_t i = 0; i < n; i++) {
        if (i)
            putc(' ', s);
        put_number(s, isfinite(x[i]) ? x[i] : NAN);
    }
    putc('\n', s);
}

/* 1, 2 or 5 times a power of ten: three to six of them in the range. */
static double tick_step(double range)
{
    double power = pow(10, floor(log10(range / 3))), steps = range / 3 / power;
    return isfinite(power) && power > 0 ? power * (steps < 2 ? 1 : steps < 5 ? 2 : 5) : 1;
}

static double keep_between(double x, double lo, double hi)
{
    return isfinite(x) ? fmin(fmax(x, lo), hi) : NAN;
}

/* Decimals that show a difference. */
static int digits_of(double difference)
{
    return difference < 0.1 ? 4 : difference < 10 ? 3 : 2; /* NAN: 2 */
}

/* ---- scripts: false if there is nothing to draw ------------------------------------------------------------------ */
static bool put_marginals(FILE *s, const run_view *v)
{
    weighted_values posterior = posterior_values(v);
    double density[2][GRID], from[PANELS], to[PANELS];
    size_t panels = v->P < PANELS ? v->P : PANELS, columns = panels < 4 ? panels : 4;
    if (!posterior.n || !panels)
        return false;
    for (size_t c = 0; c < panels; c++) {
        double lo, hi;
        weighted_values p = posterior, q = v->ensemble;
        p.x += c;
        q.x = q.n ? q.x + c : NULL;
        find_curve_range(v->n ? v->n : p.n, v->n ? v->draw + c : p.x, v->n ? v->P : p.stride, &lo, &hi);
        if (!estimate_density(&p, GRID, lo, hi, density[0]) || !estimate_density(&q, GRID, lo, hi, density[1]))
            return false;
        fprintf(s, "$m%zu << EOD\n", c);
        for (size_t g = 0; g < GRID; g++)
            put_row(s, 3,
                    (double[]){lo + ((double)g + 0.5) * (hi - lo) / GRID, density[0][g], q.n ? density[1][g] : NAN});
        fputs("EOD\n", s);
        from[c] = lo - 0.05 * (hi - lo);
        to[c] = hi + 0.05 * (hi - lo);
    }
    fprintf(s,
            "set multiplot layout %zu,%zu margins 0.03,0.98,0.07,0.87 spacing 0.03,0.13\nunset ytics\nunset grid\n"
            "set border 1\nset yrange [0:*]\n",
            (panels + columns - 1) / columns, columns);
    for (size_t c = 0; c < panels; c++) {
        fputs("set title ", s);
        put_quoted(s, name_of(v, c));
        fprintf(s, " noenhanced offset 0,-0.6\nset xrange [%.9g:%.9g]\nset xtics %.3g\nset key %s\n", from[c], to[c],
                tick_step(to[c] - from[c]), c ? "off" : "on at screen 0.98,0.99 right top horizontal");
        fprintf(s, "plot $m%zu using 1:2 with filledcurves y1=0 lt 1 fillstyle solid 0.25 title 'posterior'%s\n", c,
                v->ensemble.n ? ", '' using 1:3 with lines lt 2 title 'ensemble'" : "");
    }
    fputs("unset multiplot\n", s);
    return true;
}

/* Which cells have a colour: colours are those of line types, used again and again. */
static void put_colour_key(FILE *s, const run_view *v)
{
    for (size_t c = 0; c < FIGURE_COLOURS && c < v->N; c++) {
        fprintf(s, ", NaN with points pt 7 ps 1 lt %zu title 'cell", c + 1);
        for (size_t j = c, listed = 0; j < v->N && listed < 4; j += FIGURE_COLOURS, listed++)
            if (listed < 3)
                fprintf(s, "%s %zu", listed ? "," : "", j + 1);
            else
                fputs(", ...", s);
        putc('\'', s);
    }
}

/* The first two quantities. */
static bool put_pair(FILE *s, const run_view *v)
{
    bool placed = !v->transformed || v->particle, lost = false;
    size_t step = 1 + v->n / PAIR_DRAWS;
    if (!v->n || v->P < 2)
        return false;
    fputs("$draws << EOD\n", s);
    for (size_t i = 0; i < v->n; i += step) {
        put_row(s, 3,
                (double[]){v->draw[i * v->P], v->draw[i * v->P + 1],
                           v->cell[i] < v->N ? (double)(v->cell[i] % FIGURE_COLOURS + 1) : NO_CELL});
        lost = lost || v->cell[i] >= v->N;
    }
    fputs("EOD\n", s);
    if (placed) {
        fputs("$particles << EOD\n", s);
        for (size_t j = 0; j < v->N; j++) {
            const json_t *p = json_array_get(json_object_get(v->run, "particles"), j), *z = json_object_get(p, "z");
            const double *q = v->transformed ? v->particle + j * v->P : (double[]){run_item(z, 0), run_item(z, 1)};
            put_row(s, 4, (double[]){q[0], q[1], 0.8 + 3 * sqrt(fmax(number_at(p, "beta"), 0)), (double)(j + 1)});
        }
        fputs("EOD\n", s);
    }
    fprintf(s,
            "set linetype %d linecolor rgb '#bbbbbb'\nset grid xtics ytics\nset key outside right top samplen 0.5 "
            "spacing 1.2\nset xlabel ",
            NO_CELL);
    put_quoted(s, name_of(v, 0));
    fputs(" noenhanced\nset ylabel ", s);
    put_quoted(s, name_of(v, 1));
    fputs(" noenhanced\nplot $draws using 1:2:3 with points pt 7 ps 0.35 lc variable notitle", s);
    put_colour_key(s, v);
    if (lost)
        fprintf(s, ", NaN with points pt 7 ps 1 lt %d title 'no cell'", NO_CELL);
    if (placed)
        fputs(", $particles using 1:2:3 with points pt 7 ps variable lc rgb '#222222' notitle, NaN with points pt 7 "
              "ps 1.5 lc rgb '#222222' title 'particle', $particles using 1:2:(sprintf('%d',int($4))) with labels "
              "offset 1.7,1 font ',11' notitle",
              s);
    putc('\n', s);
    return true;
}

static bool put_masses(FILE *s, const run_view *v)
{
    size_t some = 0;
    fputs("$masses << EOD\n", s);
    for (size_t j = 0; j < v->N; j++) {
        const json_t *p = json_array_get(json_object_get(v->run, "particles"), j);
        some += isfinite(number_at(p, "beta")) ? 1 : 0; /* SVGD has none */
        put_row(s, 3, (double[]){(double)(j + 1), number_at(p, "beta"), 2 * number_at(p, "beta_se")});
    }
    fprintf(s,
            "EOD\nset boxwidth 0.6\nset yrange [0:*]\nset xrange [0.3:%g]\nset xtics %d\nset key off\n"
            "set xlabel 'particle'\nset ylabel 'mass of its cell (bars: 2 standard errors)'\n",
            (double)v->N + 0.7, v->N > 20 ? 10 : 1);
    fputs(
        "plot $masses using 1:2 with boxes lt 1, '' using 1:2:3 with yerrorbars lc rgb '#222222' pt 7 ps 0.3 lw 1.5\n",
        s);
    return some > 0;
}

/* The values between which the bound is drawn (report/web/training.js has the same rule). The gap between
 * the final PELBO and the evidence, or two standard errors of the PELBO if these are more, is about a
 * fifteenth of the range at least: values that are further away, as early ones can be, lie outside. y[n] is
 * finite, and in order when this returns. */
static void find_bound_range(size_t n, double *y, double pelbo, double se, double evidence, double *lo, double *hi)
{
    qsort(y, n, sizeof *y, ascending);
    double early = y[n / 10], most = y[n - 1], gap = evidence - pelbo;
    *lo = fmax(y[0], early - 1.5 * (most - early) - 0.5);
    *hi = most;
    if (isfinite(gap)) {
        double error = isfinite(se) ? 2 * se : 0, unit = fmax(fmax(gap, error), 1e-3),
               top = fmax(evidence, pelbo + error);
        *lo = fmin(fmax(*lo, top - 12 * unit), pelbo - unit / 2 - error / 2);
        *hi = fmax(top, fmin(most, top + unit));
    } else {
        *lo = fmin(*lo, fmin(pelbo, evidence)); /* one of them, or neither, is a number */
        *hi = fmax(*hi, fmax(pelbo, evidence));
    }
    double pad = *hi > *lo ? 0.08 * (*hi - *lo) : fmax(fabs(*hi) * 0.01, 0.01);
    *lo -= pad;
    *hi += pad;
}

/* What the fit saw of its bound on the way, and the PELBO of the result, a little to the right. */
static bool put_training(FILE *s, const run_view *v)
{
    const number_table *t = &v->trace;
    const json_t *bounds = json_object_get(v->run, "evidence"), *final = json_object_get(bounds, "pelbo");
    double pelbo = number_at(final, "value"), pelbo_se = number_at(final, "se"),
           evidence = number_at(json_object_get(bounds, "importance"), "value");
    size_t iteration = table_column(t, "iteration"), bound = table_column(t, "pelbo"), se = table_column(t, "pelbo_se"),
           n = 0;
    if (!t->columns || iteration == t->columns || bound == t->columns || se == t->columns)
        return false;
    double *y = malloc((t->rows + 1) * sizeof *y), lo, hi, first = 0, last = 0;
    for (size_t i = 0; y && i < t->rows; i++)
        if (isfinite(table_number(t, i, bound)) && isfinite(table_number(t, i, iteration))) {
            last = table_number(t, i, iteration);
            first = n ? first : last;
            y[n++] = table_number(t, i, bound);
        }
    if (n)
        find_bound_range(n, y, pelbo, pelbo_se, evidence, &lo, &hi);
    free(y);
    if (!n)
        return false;
    fputs("$trace << EOD\n", s);
    for (size_t i = 0; i < t->rows; i++) {
        double y0 = table_number(t, i, bound), e = 2 * table_number(t, i, se), low = lo - 50 * (hi - lo),
               high = hi + 50 * (hi - lo); /* gnuplot cannot clip what is much further away */
        put_row(s, 5,
                (double[]){table_number(t, i, iteration), keep_between(y0, low, high), keep_between(y0 - e, low, high),
                           keep_between(y0 + e, low, high), y0 < lo ? lo + 0.02 * (hi - lo) : NAN});
    }
    double room = fmax(0.05 * (last - first), 0.1);
    fprintf(s,
            "EOD\nset xlabel 'iteration'\nset ylabel 'nats'\nset key tmargin left Left reverse maxcols 1\nset xrange "
            "[%.9g:%.9g]\nset xtics %g\nset yrange [%.9g:%.9g]\n",
            first, last + 2 * room, fmax(1, tick_step(last - first)), lo, hi);
    if (evidence > pelbo)
        fprintf(s,
                "set object 1 rectangle from graph 0, first %.9g to graph 1, first %.9g behind fillcolor rgb '%s' "
                "fillstyle solid 0.16 noborder\n",
                pelbo, evidence, figure_colour(2));
    fprintf(s,
            "plot $trace using 1:3:4 with filledcurves lt 1 fillstyle solid 0.2 notitle, '' using 1:2 with "
            "linespoints lt 1 ps 0.4 title '%s (band: 2 standard errors)', '' using 1:5 with points pt 11 ps 0.9 lc "
            "rgb '%s' notitle",
            is_staged(v) ? "ELBO of the mixture, before the cells are made" : "PELBO, estimated in each iteration",
            figure_colour(0));
    if (isfinite(evidence))
        fprintf(s, ", %.9g with lines lt 2 dashtype 2 title 'log evidence (importance sampling): %.*f'", evidence,
                digits_of(evidence - pelbo), evidence);
    if (isfinite(pelbo))
        fprintf(s,
                ", '+' using (%.9g):(%.9g):(%.9g) every ::::0 with yerrorbars lt 3 pt 13 ps 1.4 title 'PELBO of the "
                "result: %.*f%s'",
                last + room, pelbo, isfinite(pelbo_se) ? 2 * pelbo_se : 0, digits_of(evidence - pelbo), pelbo,
                evidence > pelbo ? " (shaded: its gap to the evidence)" : "");
    putc('\n', s);
    return true;
}

int write_figures(const run_view *v, const char *dir, failure *f)
{
    static const struct {
        const char *name;
        unsigned width, height;
        bool (*put)(FILE *s, const run_view *v);
    } figures[] = {{"marginals", 900, 640, put_marginals},
                   {"pair", 720, 560, put_pair},
                   {"masses", 640, 420, put_masses},
                   {"training", 720, 460, put_training}};
    if (!has_gnuplot())
        return fail(f, EX_UNAVAILABLE,
                    "gnuplot, which draws the figures, is not installed (Debian package gnuplot-nox)");
    if (mkdir(dir, 0777) && errno != EEXIST)
        return fail(f, EX_CANTCREAT, "cannot create %s: %s", dir, strerror(errno));
    file_set set = {.dir = dir};
    int code = 0;
    for (size_t i = 0; i < sizeof figures / sizeof *figures && !code; i++) {
        char *script = NULL;
        size_t size = 0;
        FILE *s = open_memstream(&script, &size);
        bool drawn = s && figures[i].put(s, v);
        bool well = s && !fclose(s);
        code = !well   ? fail(f, EX_SOFTWARE, "no memory for a figure")
               : drawn ? add_figure(&set, figures[i].name, figures[i].width, figures[i].height, script, f)
                       : 0;
        free(script);
    }
    if (!code)
        return commit_files(&set, f);
    abandon_files(&set);
    return code;
}
