/* check_gradient.c - compares the gradient with differences at 20 points, at fewer beyond 100 dimensions:
 * each takes 4 evaluations a dimension. */
#include "check_gradient.h"
#include "open_model.h"
#include "models.h"
#include "random.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { LEAST = 4, MOST = 20, DERIVATIVES = 2000 };
static const double tolerance = 1e-4;

/* What was seen at a number of points: how often, and where first. */
typedef struct {
    size_t count;
    char where[320];
} sightings;

typedef struct {
    const wvgd_model *model;
    double *z, *grad; /* [dim] the point, and what the model says there */
    double log_p;
    wv_check found;
    wv_check worst;  /* at the first point where the gradient is wrong */
    size_t compared; /* derivatives */
    double error;    /* the greatest */
    wvgd_note_callback *note;
    void *note_self;
    sightings wrong, zero, bad; /* gradients; densities that are 0; log densities that are NaN or +infinite */
} gradient_check;

static void sight(gradient_check *c, sightings *s)
{
    if (s->count++ == 0)
        show_point(c->model, c->z, s->where, sizeof s->where);
}

/* The gradient at c->z. */
static int look(gradient_check *c, failure *f)
{
    wvgd_model checking;
    if (wv_model_check(&checking, c->model, 1))
        return fail(f, EX_SOFTWARE, "no memory to check the gradient");
    int failed = checking.log_density(checking.self, 1, c->z, &c->log_p, c->grad);
    c->found = wv_model_checked(&checking);
    wvgd_model_close(&checking);
    if (failed) {
        char where[320];
        show_point(c->model, c->z, where, sizeof where);
        return fail(f, EX_SOFTWARE, "the model failed with code %d during the gradient check at %s", failed, where);
    }
    return 0;
}

static void judge(gradient_check *c)
{
    if (!isfinite(c->log_p)) {
        sight(c, c->log_p < 0 ? &c->zero : &c->bad);
        return;
    }
    c->compared += c->found.compared;
    c->error = fmax(c->error, c->found.error);
    if (c->found.compared && !(c->found.error < tolerance)) {
        c->worst = c->wrong.count ? c->worst : c->found;
        sight(c, &c->wrong);
    }
}

/* One line for people. */
__attribute__((format(printf, 2, 3))) static void say(const gradient_check *c, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (c->note)
        c->note(c->note_self, text);
}

static int conclude(const gradient_check *c, size_t points, failure *f)
{
    const wv_check *w = &c->worst;
    if (c->wrong.count)
        return fail(f, EX_SOFTWARE,
                    "the gradient is wrong: d log p / d %s is %.9g in the model, but %.9g by finite differences, at "
                    "%s; wrong at %zu of %zu points%s",
                    c->model->names[w->coordinate], w->gradient, w->difference, c->wrong.where, c->wrong.count, points,
                    w->gradient == 0 ? ": a model that computes no gradient sets has_gradient to false" : "");
    if (!c->compared)
        return fail(f, EX_SOFTWARE, "the gradient cannot be checked: none of %zu points has a finite density, %s at %s",
                    points, c->bad.count ? "it is not a number" : "it is zero",
                    c->bad.count ? c->bad.where : c->zero.where);
    if (c->bad.count)
        say(c, "warning: the log density is NaN or infinite at %zu of %zu points, first at %s", c->bad.count, points,
            c->bad.where);
    if (c->zero.count)
        say(c, "the density is zero at %zu of %zu points, first at %s", c->zero.count, points, c->zero.where);
    char error[60];
    snprintf(error, sizeof error, c->error > 0 ? "largest relative error %.1e" : "none off by more than rounding",
             c->error);
    say(c, "the gradient agrees with finite differences at %zu points: %zu derivatives, %s",
        points - c->zero.count - c->bad.count, c->compared, error);
    return 0;
}

/* A point like those that a fit starts from. */
static void draw_point(gradient_check *c, const gradient_points *p, size_t i, double *normal)
{
    const wvgd_model *m = c->model;
    svgd_random_normal(p->seed, i, m->dim, normal);
    if (p->prior && !p->start) {
        m->start(m->start_self, normal, c->z);
        return;
    }
    for (size_t d = 0; d < m->dim; d++)
        c->z[d] = p->scale * normal[d] + (p->start ? p->start[i % p->n * m->dim + d] : 0);
}

int check_gradient(const wvgd_model *model, const gradient_points *p, wvgd_note_callback *note, void *self, failure *f)
{
    size_t D = model->dim, enough = DERIVATIVES / D, points = enough < LEAST ? LEAST : enough < MOST ? enough : MOST;
    gradient_check c = {.model = model,
                        .note = note,
                        .note_self = self,
                        .z = calloc(D, sizeof *c.z),
                        .grad = calloc(D, sizeof *c.grad)};
    double *normal = calloc(D, sizeof *normal);
    int code = c.z && c.grad && normal ? 0 : fail(f, EX_SOFTWARE, "no memory to check the gradient");
    for (size_t i = 0; i < points && !code; i++) {
        draw_point(&c, p, i, normal);
        code = look(&c, f);
        if (!code)
            judge(&c);
    }
    if (!code)
        code = conclude(&c, points, f);
    free(c.z);
    free(c.grad);
    free(normal);
    return code;
}
