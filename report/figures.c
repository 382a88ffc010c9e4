/* figures.c - scripts for gnuplot, with the data inline. */
#include "figures.h"
#include "gnuplot.h"
#include "write.h"
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

enum { GRID = 160, PANELS = 12, PAIR_DRAWS = 2000 };

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
    const char *name = json_string_value(json_array_get(json_object_get(json_object_get(v->run, "posterior"), "names"), c));
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

/* ---- scripts: false if there is nothing to draw ------------------------------------------------------------------------------------------- */
static bool put_marginals(FILE *s, const run_view *v)
{
    weighted_values posterior = posterior_values(v);
    double density[2][GRID], tick[PANELS];
    size_t panels = v->P < PANELS ? v->P : PANELS, columns = panels < 4 ? panels : 4;
    if (!posterior.n || !panels)
        return false;
    for (size_t c = 0; c < panels; c++) {
        double lo, hi;
        weighted_values p = posterior, q = v->ensemble;
        p.x += c;
        q.x = q.n ? q.x + c : NULL;
        find_shown_range(v->n ? v->n : p.n, v->n ? v->draw + c : p.x, v->n ? v->P : p.stride, &lo, &hi);
        if (!estimate_density(&p, GRID, lo, hi, density[0]) || !estimate_density(&q, GRID, lo, hi, density[1]))
            return false;
        fprintf(s, "$m%zu << EOD\n", c);
        for (size_t g = 0; g < GRID; g++)
            put_row(s, 3, (double[]){lo + ((double)g + 0.5) * (hi - lo) / GRID, density[0][g], q.n ? density[1][g] : NAN});
        fputs("EOD\n", s);
        tick[c] = tick_step(hi - lo);
    }
    fprintf(s,
            "set multiplot layout %zu,%zu margins 0.03,0.98,0.07,0.87 spacing 0.03,0.13\nunset ytics\nunset grid\nset border 1\nset yrange "
            "[0:*]\n",
            (panels + columns - 1) / columns, columns);
    for (size_t c = 0; c < panels; c++) {
        fputs("set title ", s);
        put_quoted(s, name_of(v, c));
        fprintf(s, " noenhanced offset 0,-0.6\nset xtics %.3g\nset key %s\n", tick[c], c ? "off" : "on at screen 0.98,0.99 right top horizontal");
        fprintf(s, "plot $m%zu using 1:2 with filledcurves y1=0 lt 1 fillstyle solid 0.25 title 'posterior'%s\n", c,
                v->ensemble.n ? ", '' using 1:3 with lines lt 2 title 'ensemble'" : "");
    }
    fputs("unset multiplot\n", s);
    return true;
}

/* The first two quantities. */
static bool put_pair(FILE *s, const run_view *v)
{
    size_t step = 1 + v->n / PAIR_DRAWS;
    if (!v->n || v->P < 2)
        return false;
    fputs("$draws << EOD\n", s);
    for (size_t i = 0; i < v->n; i += step)
        put_row(s, 3, (double[]){v->draw[i * v->P], v->draw[i * v->P + 1], v->cell[i] < v->N ? (double)(v->cell[i] % 8 + 1) : 7});
    fputs("EOD\n", s);
    if (!v->transformed) {
        fputs("$particles << EOD\n", s);
        for (size_t j = 0; j < v->N; j++) {
            const json_t *p = json_array_get(json_object_get(v->run, "particles"), j), *z = json_object_get(p, "z");
            put_row(s, 4, (double[]){run_item(z, 0), run_item(z, 1), 0.8 + 3 * sqrt(fmax(run_number(p, "beta"), 0)), (double)(j + 1)});
        }
        fputs("EOD\n", s);
    }
    fputs("set grid xtics ytics\nset key off\nset xlabel ", s);
    put_quoted(s, name_of(v, 0));
    fputs(" noenhanced\nset ylabel ", s);
    put_quoted(s, name_of(v, 1));
    fputs(" noenhanced\nplot $draws using 1:2:3 with points pt 7 ps 0.35 lc variable", s);
    if (!v->transformed)
        fputs(", $particles using 1:2:3 with points pt 7 ps variable lc rgb '#222222', $particles using 1:2:(sprintf('%d',int($4))) with "
              "labels offset 1.2,0.8 font ',11'",
              s);
    putc('\n', s);
    return true;
}

static bool put_masses(FILE *s, const run_view *v)
{
    if (!v->N)
        return false;
    fputs("$masses << EOD\n", s);
    for (size_t j = 0; j < v->N; j++) {
        const json_t *p = json_array_get(json_object_get(v->run, "particles"), j);
        put_row(s, 3, (double[]){(double)(j + 1), run_number(p, "beta"), 2 * run_number(p, "beta_se")});
    }
    fprintf(s,
            "EOD\nset boxwidth 0.6\nset yrange [0:*]\nset xrange [0.3:%g]\nset xtics %d\nset key off\nset xlabel 'particle'\nset ylabel "
            "'mass of its cell (bars: 2 standard errors)'\n",
            (double)v->N + 0.7, v->N > 20 ? 10 : 1);
    fputs("plot $masses using 1:2 with boxes lt 1, '' using 1:2:3 with yerrorbars lc rgb '#222222' pt 7 ps 0.3 lw 1.5\n", s);
    return true;
}

static bool put_training(FILE *s, const run_view *v)
{
    const number_table *t = &v->trace;
    size_t iteration = table_column(t, "iteration"), pelbo = table_column(t, "pelbo"), se = table_column(t, "pelbo_se"), some = 0;
    if (!t->columns || iteration == t->columns || pelbo == t->columns || se == t->columns)
        return false;
    fputs("$trace << EOD\n", s);
    for (size_t i = 0; i < t->rows; i++) {
        double x = table_number(t, i, iteration), y = table_number(t, i, pelbo), e = table_number(t, i, se);
        some += isfinite(y) ? 1 : 0;
        put_row(s, 4, (double[]){x, y, y - 2 * e, y + 2 * e});
    }
    fputs("EOD\nset xlabel 'iteration'\nset ylabel 'PELBO, nats (band: 2 standard errors)'\nset key bottom right\n"
          "plot $trace using 1:3:4 with filledcurves lt 1 fillstyle solid 0.2 notitle, '' using 1:2 with linespoints lt 1 ps 0.4 title "
          "'PELBO'",
          s);
    double evidence = run_number(json_object_get(json_object_get(v->run, "evidence"), "importance"), "value");
    if (isfinite(evidence))
        fprintf(s, ", %.9g with lines lt 2 dashtype 2 title 'log evidence (importance sampling)'", evidence);
    putc('\n', s);
    return some > 0;
}

int write_figures(const run_view *v, const char *dir, failure *f)
{
    static const struct {
        const char *name;
        unsigned width, height;
        bool (*put)(FILE *s, const run_view *v);
    } figures[] = {
        {"marginals", 900, 640, put_marginals}, {"pair", 640, 560, put_pair}, {"masses", 640, 420, put_masses}, {"training", 720, 420, put_training}};
    if (!has_gnuplot())
        return fail(f, EX_UNAVAILABLE, "there is no gnuplot, which draws the figures: Debian package gnuplot-nox");
    if (mkdir(dir, 0777) && errno != EEXIST)
        return fail(f, EX_CANTCREAT, "cannot create %s: %s", dir, strerror(errno));
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        char *script = NULL;
        size_t size = 0;
        FILE *s = open_memstream(&script, &size);
        bool drawn = s && figures[i].put(s, v);
        bool well = s && !fclose(s);
        int code = !well   ? fail(f, EX_SOFTWARE, "no memory for a figure")
                   : drawn ? draw_figure(dir, figures[i].name, figures[i].width, figures[i].height, script, f)
                           : 0;
        free(script);
        if (code)
            return code;
    }
    return 0;
}
