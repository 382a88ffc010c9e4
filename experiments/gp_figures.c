/* gp_figures.c - one figure of the experiment gp: left, the plane of frequency and noise, coloured by the cell of
 * the most probable point there, under contours of the posterior's marginal; right, for each particle, the data
 * and the process with its hyperparameters. */
#include "gp.h"
#include "gnuplot.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

enum { TIMES = 240 };
static const double shares[] = {0.5, 0.8, 0.95, 0.99}; /* of the mass, within contours */
enum { SHARES = sizeof shares / sizeof *shares };

static int downwards(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Densities whose contours hold the shares. */
static int find_levels(const gp_marginal *m, double highest, double level[SHARES])
{
    size_t n = m->axis[1].n * m->axis[3].n, k = 0;
    double *density = calloc(n, sizeof *density), total = 0, sum = 0;
    if (!density)
        return -1;
    for (size_t i = 0; i < n; i++)
        total += density[i] = exp(m->log_density[i] - highest);
    qsort(density, n, sizeof *density, downwards);
    for (size_t i = 0; i < n && k < SHARES; i++) {
        sum += density[i];
        while (k < SHARES && sum >= shares[k] * total)
            level[k++] = density[i];
    }
    free(density);
    return k == SHARES ? 0 : -1;
}

/* "#rrggbb" mixed with white. */
static unsigned pale(size_t i, int shift)
{
    unsigned long colour = strtoul(figure_colour(i) + 1, NULL, 16);
    return (unsigned)(255 - (255 - (colour >> shift & 255)) * 2 / 5);
}

/* $cells: x y r g b; $grid: the same points with the density, for contours. */
static void put_grid(FILE *s, const gp_picture *p, double highest)
{
    const gp_marginal *m = p->marginal;
    size_t F = m->axis[1].n, B = m->axis[3].n;
    fputs("$cells << EOD\n", s);
    for (size_t i = 0; i < F; i++)
        for (size_t j = 0; j < B; j++) {
            size_t c = p->cell[i * B + j];
            fprintf(s, "%.5f %.5f %u %u %u\n", gp_axis_at(&m->axis[1], i), gp_axis_at(&m->axis[3], j), pale(c, 16),
                    pale(c, 8), pale(c, 0));
        }
    fputs("EOD\n$grid << EOD\n", s);
    for (size_t i = 0; i < F; i++) {
        for (size_t j = 0; j < B; j++)
            fprintf(s, "%.5f %.5f %.6g\n", gp_axis_at(&m->axis[1], i), gp_axis_at(&m->axis[3], j),
                    exp(m->log_density[i * B + j] - highest));
        fputs("\n", s);
    }
    fputs("EOD\n", s);
}

/* Ticks at 1, 2 and 5 times powers of ten between the ends of a logarithmic axis. */
static void put_ticks(FILE *s, char axis, const gp_axis *a)
{
    const char *comma = "";
    fprintf(s, "set %ctics (", axis);
    for (int power = -6; power < 4; power++)
        for (int k = 0; k < 3; k++) {
            double value = (const int[]){1, 2, 5}[k] * pow(10, power);
            if (log(value) >= a->low && log(value) <= a->high) {
                fprintf(s, "%s'%g' %.6f", comma, value, log(value));
                comma = ", ";
            }
        }
    fputs(")\n", s);
}

static void put_map(FILE *s, const gp_picture *p, const double level[SHARES])
{
    const gp_axis *f = &p->marginal->axis[1], *b = &p->marginal->axis[3];
    fputs("set contour base\nunset surface\nset cntrparam levels discrete ", s);
    for (size_t k = 0; k < SHARES; k++)
        fprintf(s, "%s%.8g", k ? "," : "", level[k]);
    fputs("\nset table $contour\nsplot $grid using 1:2:3 with lines\nunset table\nunset contour\nset "
          "surface\n$particles << EOD\n",
          s);
    for (size_t j = 0; j < p->N; j++)
        fprintf(s, "%.5f %.5f %zu\n", p->z[j * GP_PARAMETERS + 1], p->z[j * GP_PARAMETERS + 3], j + 1);
    fputs("EOD\nset multiplot\nset origin 0,0\nset size 0.5,1\nset title 'cells over the posterior (contours: 50, 80, "
          "95, 99 %)'\nset xlabel 'frequency f'\nset ylabel 'noise variance B'\nunset grid\n",
          s);
    put_ticks(s, 'x', f);
    put_ticks(s, 'y', b);
    fprintf(s, "set xrange [%.5f:%.5f]\nset yrange [%.5f:%.5f]\n", f->low, f->high, b->low, b->high);
    fputs("plot $cells using 1:2:3:4:5 with rgbimage notitle, $contour using 1:2 with lines lc rgb '#202020' lw 1.2 "
          "notitle, $particles using 1:2 with points pt 7 ps 2.6 lc rgb 'white' notitle, $particles using 1:2:3 with "
          "points pt 7 ps 2.1 lc variable notitle, $particles using 1:2:3 with labels tc rgb 'white' font ',10' "
          "notitle\n",
          s);
}

/* One panel of the right half. */
static int put_fit(FILE *s, const gp_picture *p, size_t j)
{
    double times[TIMES], mean[TIMES], sd[TIMES], first = p->series->t[0], last = first;
    const double *z = p->z + j * GP_PARAMETERS;
    for (size_t i = 0; i < p->series->n; i++) {
        first = fmin(first, p->series->t[i]);
        last = fmax(last, p->series->t[i]);
    }
    for (size_t i = 0; i < TIMES; i++)
        times[i] = first + (last - first) * (double)i / (TIMES - 1);
    if (predict_gp(p->series, z, TIMES, times, mean, sd))
        return -1;
    fprintf(s, "$fit%zu << EOD\n", j);
    for (size_t i = 0; i < TIMES; i++)
        fprintf(s, "%.6g %.6g %.6g\n", times[i], mean[i], sd[i]);
    fprintf(s,
            "EOD\nset size 0.5,%.5f\nset origin 0.5,%.5f\nset xrange [%.6g:%.6g]\n"
            "set title '%zu: {/Symbol b} = %.2f, %s (f = %.3g, s = %.2g, A = %.2g, B = %.2g)' font ',11'\n",
            1.0 / (double)p->N, 1.0 - (double)(j + 1) / (double)p->N, first, last, j + 1, p->beta[j],
            reading_names[reading_of(z)], exp(z[1]), exp(z[2]), exp(z[0]), exp(z[3]));
    fprintf(s,
            "set xlabel '%s'\nplot $fit%zu using 1:($2-2*$3):($2+2*$3) with filledcurves lc rgb '%s' fs transparent "
            "solid 0.25 notitle, $fit%zu using 1:2 with lines lt %zu lw 2 notitle, $data using 1:2 with points pt 7 "
            "ps 0.6 lc rgb '#202020' notitle\n",
            j + 1 == p->N ? "t" : "", j, figure_colour(j), j, j + 1);
    return 0;
}

static int put_script(FILE *s, const gp_picture *p)
{
    double level[SHARES], highest = -INFINITY;
    for (size_t i = 0; i < p->marginal->axis[1].n * p->marginal->axis[3].n; i++)
        highest = fmax(highest, p->marginal->log_density[i]);
    if (find_levels(p->marginal, highest, level))
        return -1;
    put_grid(s, p, highest);
    put_map(s, p, level);
    fputs("unset ylabel\nset xtics auto\nset ytics auto\nset autoscale y\nset grid\n$data << EOD\n", s);
    for (size_t i = 0; i < p->series->n; i++)
        fprintf(s, "%.9g %.9g\n", p->series->t[i], p->series->y[i]);
    fputs("EOD\n", s);
    for (size_t j = 0; j < p->N; j++)
        if (put_fit(s, p, j))
            return -1;
    fputs("unset multiplot\n", s);
    return 0;
}

int draw_gp(const reproduction *r, const char *name, const gp_picture *p, failure *f)
{
    char *script = NULL;
    size_t size;
    FILE *s = open_memstream(&script, &size);
    int failed = !s || put_script(s, p);
    if (s && fclose(s))
        failed = 1;
    int code = failed ? fail(f, EX_SOFTWARE, "%s: no memory for a figure", name)
                      : draw_result(r, name, 1300, 820, script, f);
    free(script);
    return code;
}
