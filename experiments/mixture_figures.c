/* mixture_figures.c - the figures of the mixture experiment (the paper's figure 2).
 *     figure_a   errors of WVGD and SVGD for each N: each target a point, with quartiles
 *     figure_b   the joint solver at work on the first target: transport densities at some iterations,
 *                paths of particles, borders of cells */
#include "mixture.h"
#include "ascending.h"
#include "gnuplot.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

typedef struct {
    FILE *stream;
    char *text;
    size_t size;
} script;

static int begin_script(script *s, failure *f)
{
    *s = (script){0};
    s->stream = open_memstream(&s->text, &s->size);
    return s->stream ? 0 : fail(f, EX_SOFTWARE, "no memory for a figure");
}

static int draw_script(const mixture_runs *all, script *s, const char *name, unsigned width, unsigned height,
                       failure *f)
{
    int code = fclose(s->stream) ? fail(f, EX_SOFTWARE, "no memory for a figure")
                                 : draw_result(all->r, name, width, height, s->text, f);
    free(s->text);
    return code;
}

/* ---- figure A ---------------------------------------------------------------------------------------------------- */
/* A block of numbers for each N: x beside which a target is drawn, and its error. */
static void put_errors(FILE *s, const mixture_runs *all, mixture_method m, const char *name, double offset)
{
    fprintf(s, "$%s << EOD\n", name);
    for (size_t N = LEAST_N; N <= MOST_N; N++) {
        for (size_t t = 0; t < all->list.n; t++)
            fprintf(s, "%.4f %.8g\n", (double)N + offset + 0.2 * ((double)(t * 7 % 15) / 14 - 0.5),
                    mixture_error(all, m, t, N));
        fputs("\n\n", s);
    }
    fputs("EOD\n", s);
}

/* The median over targets of what is the best possible. */
static void put_optima(FILE *s, const mixture_runs *all)
{
    double *ise = malloc(all->list.n * sizeof *ise);
    fputs("$optimum << EOD\n", s);
    for (size_t N = LEAST_N; N <= MOST_N && ise; N++) {
        for (size_t t = 0; t < all->list.n; t++)
            ise[t] = all->list.optimum[t * NUMBERS_N + N - LEAST_N].ise;
        qsort(ise, all->list.n, sizeof *ise, ascending);
        fprintf(s, "%zu %.8g\n", N, (ise[(all->list.n - 1) / 2] + ise[all->list.n / 2]) / 2);
    }
    fputs("EOD\n", s);
    free(ise);
}

int draw_errors(const mixture_runs *all, failure *f)
{
    script s;
    int code = begin_script(&s, f);
    if (code)
        return code;
    put_errors(s.stream, all, WITH_WVGD, "wvgd", -0.19);
    put_errors(s.stream, all, WITH_SVGD, "svgd", 0.19);
    if (all->list.optimum)
        put_optima(s.stream, all);
    fputs("set logscale y\nset format y '10^{%T}'\nset xrange [2.5:7.5]\nset xtics ('3 (9)' 3, '4 (12)' 4, '5 (15)' 5, "
          "'6 (18)' 6, '7 (21)' 7)\n"
          "set xlabel 'particles of WVGD (of SVGD)'\nset ylabel 'integrated squared error'\nset key bottom left\n"
          "set style boxplot range 100 nooutliers\n"
          "plot for [i=0:4] $wvgd index i using (i+2.81):2:(0.32) with boxplot lt 1 lw 1.5 title (i == 0 ? 'WVGD' : "
          "''), \\\n"
          "     for [i=0:4] $svgd index i using (i+3.19):2:(0.32) with boxplot lt 2 lw 1.5 title (i == 0 ? 'SVGD, best "
          "bandwidth' : ''), \\\n"
          "     $wvgd using 1:2 with points lt 1 ps 0.4 notitle, $svgd using 1:2 with points lt 2 ps 0.4 notitle",
          s.stream);
    if (all->list.optimum)
        fputs(", \\\n     $optimum using ($1-0.38):2:(0.38):(0) with vectors nohead lt 8 lw 2.5 title 'best possible "
              "(median)'",
              s.stream);
    fputs("\n", s.stream);
    return draw_script(all, &s, "figure_a", 820, 520, f);
}

/* ---- figure B ---------------------------------------------------------------------------------------------------- */
enum { SHOWN_N = 5, SNAPSHOTS = 4, PATH_STEPS = 60, CURVE = 150 };

/* Iterations after which densities are shown; the last one: at the end. */
static const size_t snapshot_at[SNAPSHOTS] = {1, 2, 5, SIZE_MAX};

/* What a fit knew after an iteration, particles in their own order. */
typedef struct {
    size_t iteration;
    double z[SHOWN_N], mu[SHOWN_N], sd[SHOWN_N], beta[SHOWN_N];
} moment;

typedef struct {
    size_t moments;
    moment path[PATH_STEPS + 1]; /* before the first iteration, and after the next ones */
    moment snapshot[SNAPSHOTS];
} training;

static moment look(const wvgd_fit *fit, size_t iteration)
{
    wvgd_results r;
    moment m = {.iteration = iteration};
    wvgd_get_results(fit, &r);
    memcpy(m.z, r.z, sizeof m.z);
    memcpy(m.mu, r.mu, sizeof m.mu);
    memcpy(m.sd, r.sd, sizeof m.sd);
    memcpy(m.beta, r.beta, sizeof m.beta);
    return m;
}

/* All particles begin close together, near the middle. */
static int watch_training(const mixture_runs *all, training *t, failure *f)
{
    static const double start[SHOWN_N] = {-0.4, -0.2, 0, 0.2, 0.4};
    wvgd_model model;
    wvgd_options o;
    wvgd_error error;
    wvgd_progress p = {0};
    if (open_target(&all->list.target[0], &model))
        return fail(f, EX_SOFTWARE, "no memory for a target");
    mixture_options(WITH_JOINT, SHOWN_N, all->r->seed, &o);
    wvgd_fit *fit = wvgd_new(&model, &o, start, &error);
    wvgd_status status = fit ? WVGD_OK : error.code;
    *t = (training){.moments = 1};
    memcpy(t->path[0].z, start, sizeof start);
    while (status == WVGD_OK && (wvgd_get_progress(fit, &p), strcmp(p.stage, "done"))) {
        status = wvgd_step(fit, &error);
        wvgd_get_progress(fit, &p);
        moment m = look(fit, p.iteration);
        if (p.iteration == t->moments && t->moments <= PATH_STEPS)
            t->path[t->moments++] = m;
        for (size_t k = 0; k < SNAPSHOTS; k++)
            if (p.iteration == snapshot_at[k] || k + 1 == SNAPSHOTS)
                t->snapshot[k] = m;
    }
    wvgd_free(fit);
    wvgd_model_close(&model);
    return status == WVGD_OK ? 0 : fail(f, EX_SOFTWARE, "%s", error.text);
}

/* Particles from left to right. */
static void sort_particles(const moment *m, size_t order[SHOWN_N])
{
    for (size_t j = 0; j < SHOWN_N; j++) {
        size_t rank = 0;
        for (size_t k = 0; k < SHOWN_N; k++)
            rank += m->z[k] < m->z[j] || (m->z[k] == m->z[j] && k < j);
        order[rank] = j;
    }
}

/* Mass of N(mu, sd^2) between two points. */
static double normal_mass(double mu, double sd, double low, double high)
{
    double a = (low - mu) / (sd * sqrt(2)), b = (high - mu) / (sd * sqrt(2));
    return a > 0 ? (erfc(a) - erfc(b)) / 2 : (erfc(-b) - erfc(-a)) / 2;
}

/* beta_j q_j of the particle of that rank along its cell, as a block of its own. */
static void put_transport(FILE *s, const moment *m, const size_t *order, size_t rank, double low, double high)
{
    const double root_tau = 2.506628274631000502;
    size_t j = order[rank];
    double from = rank ? (m->z[order[rank - 1]] + m->z[j]) / 2 : -INFINITY,
           to = rank + 1 < SHOWN_N ? (m->z[order[rank + 1]] + m->z[j]) / 2 : INFINITY;
    double mass = normal_mass(m->mu[j], m->sd[j], from, to), begin = fmax(from, low), end = fmin(to, high);
    for (size_t i = 0; i <= CURVE / SHOWN_N; i++) {
        double x = begin + (end - begin) * (double)i / (CURVE / SHOWN_N), u = (x - m->mu[j]) / m->sd[j];
        fprintf(s, "%.5g %.5g\n", x, m->beta[j] * exp(-0.5 * u * u) / (m->sd[j] * root_tau * mass));
    }
    fputs("\n\n", s);
}

static void put_training(FILE *s, const mixture_runs *all, const training *t, double low, double high)
{
    const mixture_target *target = &all->list.target[0];
    size_t order[SHOWN_N];
    fputs("$target << EOD\n", s);
    for (size_t i = 0; i <= CURVE; i++) {
        double x = low + (high - low) * (double)i / CURVE;
        fprintf(s, "%.5g %.5g\n", x, target_density(target, x));
    }
    fputs("EOD\n", s);
    for (size_t k = 0; k < SNAPSHOTS; k++) {
        const moment *m = &t->snapshot[k];
        sort_particles(m, order);
        fprintf(s, "$density%zu << EOD\n", k);
        for (size_t j = 0; j < SHOWN_N; j++)
            put_transport(s, m, order, j, low, high);
        fprintf(s, "EOD\n$particle%zu << EOD\n", k);
        for (size_t j = 0; j < SHOWN_N; j++)
            fprintf(s, "%.5g %zu\n", m->z[order[j]], order[j] + 1);
        fprintf(s, "EOD\n$border%zu << EOD\n", k);
        for (size_t j = 0; j + 1 < SHOWN_N; j++)
            fprintf(s, "%.5g\n", (m->z[order[j]] + m->z[order[j + 1]]) / 2);
        fprintf(s, "EOD\ncolour%zu = '", k);
        for (size_t j = 0; j < SHOWN_N; j++)
            fprintf(s, " %zu", order[j] + 1);
        fputs("'\n", s);
    }
    fputs("$path << EOD\n", s);
    for (size_t i = 0; i < t->moments; i++) { /* iteration + 1, for a logarithmic axis; particles; borders */
        const moment *m = &t->path[i];
        sort_particles(m, order);
        fprintf(s, "%zu", i + 1);
        for (size_t j = 0; j < SHOWN_N; j++)
            fprintf(s, " %.5g", m->z[j]);
        for (size_t j = 0; j + 1 < SHOWN_N; j++)
            fprintf(s, " %.5g", (m->z[order[j]] + m->z[order[j + 1]]) / 2);
        putc('\n', s);
    }
    fputs("EOD\n", s);
}

static void put_panels(FILE *s, const training *t, double low, double high)
{
    /* clang-format off */
    static const char *const left[SNAPSHOTS] = {"0.07", "0.31", "0.55", "0.79"},
                      *const right[SNAPSHOTS] = {"0.28", "0.52", "0.76", "0.99"};
    /* clang-format on */
    fprintf(s,
            "set multiplot\nset xrange [%.3g:%.3g]\nset yrange [0:0.75]\nset ytics 0.2\nset tmargin at screen 0.92\n"
            "set bmargin at screen 0.60\nset xlabel 'z' offset 0,0.5\nunset key\n",
            low, high);
    for (size_t k = 0; k < SNAPSHOTS; k++) {
        fprintf(s, "set lmargin at screen %s\nset rmargin at screen %s\nset title '%s' offset 0,-0.5\n%s", left[k],
                right[k],
                k + 1 < SNAPSHOTS ? (char[][16]){"iteration 1", "iteration 2", "iteration 5"}[k] : "at the end",
                k ? "set format y ''\nunset ylabel\n" : "set ylabel 'density' offset 1\n");
        fprintf(s,
                "plot $target with filledcurves y1=0 fillcolor rgb '#909090' title 'target', for [i=0:%d] $density%zu "
                "index i with lines lt int(word(colour%zu, i+1)) lw 2, \\\n"
                "     $border%zu using 1:(0):(0):(0.75) with vectors nohead lc rgb '#888888' lw 1 dt 3, $particle%zu "
                "using 1:(0.02):2 with points pt 7 ps 1 lc variable\n",
                SHOWN_N - 1, k, k, k, k);
    }
    fprintf(s,
            "set lmargin at screen 0.07\nset rmargin at screen 0.99\nset tmargin at screen 0.46\n"
            "set bmargin at screen 0.10\nset title 'particles and their transport densities (colours), borders of "
            "cells (dotted), target (grey)'\n"
            "set format y '%%g'\nset yrange [%.3g:%.3g]\nset ytics 1\nset logscale x\nset xrange [1:%zu]\n"
            "set xtics ('start' 1, '1' 2, '2' 3, '3' 4, '5' 6, '10' 11, '20' 21, '40' 41, '60' 61)\n"
            "set xlabel 'iteration'\nset ylabel 'z'\n",
            low, high, t->moments);
    fprintf(s,
            "plot for [i=%d:%d] $path using 1:i with lines lc rgb '#888888' lw 1 dt 3, for [i=2:%d] $path using 1:i "
            "with lines lt (i-1)\nunset multiplot\n",
            SHOWN_N + 2, 2 * SHOWN_N, SHOWN_N + 1);
}

int draw_training(const mixture_runs *all, failure *f)
{
    script s;
    training t;
    double low = INFINITY, high = -INFINITY;
    int code = watch_training(all, &t, f);
    if (!code)
        code = begin_script(&s, f);
    if (code)
        return code;
    for (size_t k = 0; k < all->list.target[0].K; k++) {
        low = fmin(low, all->list.target[0].mean[k] - 2.5 * all->list.target[0].sd[k]);
        high = fmax(high, all->list.target[0].mean[k] + 2.5 * all->list.target[0].sd[k]);
    }
    put_training(s.stream, all, &t, low, high);
    put_panels(s.stream, &t, low, high);
    return draw_script(all, &s, "figure_b", 1000, 640, f);
}
