/* history.c - frames of a run: chosen, kept as JSON in the record of the run, written as a table
 * with a row for each point. */
#include "history.h"
#include "json_values.h"
#include "run_directory.h"
#include "write.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* frames of a stage; points of a frame that are no components or particles; coordinates of a stage, about */
enum { LARGEST_STAGE = 60, SMALLEST_STAGE = 5, LARGEST_FRAME = 48, VALUES = 100000 };
enum { DIGITS = 8 }; /* of a number in single precision */

/* A point and its weight, of any kind. */
typedef struct {
    const char *kind;     /* "ascent", "walk", "component", "particle" */
    size_t n, D, step;    /* every step-th point of n * step */
    const double *z;      /* [n * step][D] */
    const double *weight; /* [n * step] or NULL */
} cloud;

/* Frames that a stage may have. */
static size_t stage_room(size_t N, size_t D)
{
    size_t room = VALUES / D / (N < 8 ? 8 : N);
    return room > LARGEST_STAGE ? LARGEST_STAGE : room < SMALLEST_STAGE ? SMALLEST_STAGE : room;
}

static json_t *member(json_t *object, const char *key, json_t *(*make)(void))
{
    if (!json_object_get(object, key))
        json_object_set_new(object, key, make());
    return json_object_get(object, key);
}

/* "" where there is no text: a record may have been written by anybody. */
static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* Counts a batch of the stage. Is it to become a frame? */
static bool is_wanted(json_t *stage)
{
    size_t seen = count_at(stage, "seen"), stride = count_at(stage, "stride");
    if (!stride)
        set_count(stage, "stride", stride = 1);
    set_count(stage, "seen", seen + 1);
    return seen % stride == 0;
}

/* Drops every second frame of a stage that has too many. */
static void thin(json_t *frames, json_t *stage, const char *name, size_t room)
{
    size_t n = 0, stride = 2 * count_at(stage, "stride");
    if (stride && 2 * count_at(stage, "seen") / stride < room) /* no more than that have become frames, and one */
        return;
    for (size_t i = 0; i < json_array_size(frames); i++)
        n += !strcmp(text_of(json_array_get(frames, i), "stage"), name);
    if (n <= room)
        return;
    set_count(stage, "stride", stride);
    for (size_t i = json_array_size(frames); i-- > 0;) {
        const json_t *frame = json_array_get(frames, i);
        if (!strcmp(text_of(frame, "stage"), name) && count_at(frame, "number") % stride)
            json_array_remove(frames, i);
    }
}

/* Seven digits are enough to look at. */
static json_t *rounded(double x)
{
    return isfinite(x) ? json_real((double)(float)x) : json_null();
}

/* The same as eight hexadecimal digits, for the many numbers of points: as JSON values they would take as long as the
 * fit of a cheap model. */
static char *put_digits(char *to, double x)
{
    float number = isfinite((float)x) ? (float)x : NAN;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    for (size_t i = DIGITS; i-- > 0; bits >>= 4)
        to[i] = "0123456789abcdef"[bits & 15];
    return to + DIGITS;
}

static double take_digits(const char *from)
{
    char text[DIGITS + 1] = "", *end;
    memcpy(text, from, DIGITS);
    uint32_t bits = (uint32_t)strtoul(text, &end, 16);
    float number;
    memcpy(&number, &bits, sizeof number);
    return *end || !isfinite(number) ? NAN : (double)number;
}

/* Weight and coordinates of one point after the other. */
static void add_points(json_t *frame, const cloud *c)
{
    size_t length = c->n * (1 + c->D) * DIGITS;
    char *digits = malloc(length + 1), *to = digits;
    for (size_t k = 0; digits && k < c->n; k++) {
        to = put_digits(to, c->weight ? c->weight[k * c->step] : NAN);
        for (size_t i = 0; i < c->D; i++)
            to = put_digits(to, c->z[k * c->step * c->D + i]);
    }
    json_object_set_new(frame, "kind", json_string(c->kind));
    if (digits)
        json_object_set_new(frame, "points", json_stringn_nocheck(digits, length));
    free(digits);
}

static void add_frame(json_t *asked, const char *stage, const wvgd_fit *fit, const cloud *c, size_t room)
{
    json_t *history = member(asked, "history", json_object), *frames = member(history, "frames", json_array),
           *frame = json_object();
    json_t *counts = json_object_get(json_object_get(history, "stages"), stage);
    wvgd_progress p;
    wvgd_get_progress(fit, &p);
    json_object_set_new(frame, "stage", json_string(stage));
    set_count(frame, "number", counts ? count_at(counts, "seen") - 1 : 0);
    set_count(frame, "iteration", p.iteration);
    set_count(frame, "evaluations", p.evaluations);
    json_object_set_new(frame, "pelbo", rounded(p.pelbo));
    json_object_set_new(frame, "ess", rounded(p.ess));
    add_points(frame, c);
    json_array_append_new(frames, frame);
    if (counts)
        thin(frames, counts, stage, room);
}

static json_t *counts_of(json_t *asked, const char *stage)
{
    return member(member(member(asked, "history", json_object), "stages", json_object), stage, json_object);
}

/* What the points of a batch are, in the stages in which they move from batch to batch. NULL: they are draws. */
static const char *kind_of_points(const char *stage)
{
    return !strcmp(stage, "explore") ? "ascent" : !strcmp(stage, "probe") || !strcmp(stage, "certify") ? "walk" : NULL;
}

void note_points(json_t *asked, const char *stage, wvgd_fit *fit)
{
    size_t n;
    const double *z;
    bool gradient;
    wvgd_results r;
    const char *kind = kind_of_points(stage);
    if (!kind || !is_wanted(counts_of(asked, stage)) || wvgd_ask(fit, &n, &z, &gradient, NULL) != WVGD_OK || !n)
        return;
    wvgd_get_results(fit, &r);
    size_t step = (n + LARGEST_FRAME - 1) / LARGEST_FRAME;
    add_frame(asked, stage, fit, &(cloud){kind, n / step, r.D, step, z, NULL}, stage_room(LARGEST_FRAME, r.D));
}

static cloud particles(const wvgd_results *r)
{
    return (cloud){"particle", r->N, r->D, 1, r->z, r->beta};
}

void note_batch(json_t *asked, const char *stage, const wvgd_fit *fit)
{
    wvgd_results r;
    if (kind_of_points(stage) || !is_wanted(counts_of(asked, stage)))
        return;
    wvgd_get_results(fit, &r);
    bool cells = isfinite(r.beta[0]);
    cloud c = cells ? particles(&r) : (cloud){"component", r.components, r.D, 1, r.component_mu, r.component_weight};
    if (c.n && (cells || !r.bent_components)) /* the page shows frames in x */
        add_frame(asked, stage, fit, &c, stage_room(c.n, r.D));
}

void note_end(json_t *asked, const wvgd_fit *fit)
{
    wvgd_results r;
    wvgd_get_results(fit, &r);
    cloud c = particles(&r);
    json_t *frames = json_object_get(json_object_get(asked, "history"), "frames");
    if (strcmp(text_of(json_array_get(frames, json_array_size(frames) - 1), "stage"), "done"))
        add_frame(asked, "done", fit, &c, SIZE_MAX);
}

/* ---- history.csv ------------------------------------------------------------------------------------------------- */
static double number(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void put_frame(FILE *s, size_t index, const json_t *frame, size_t D)
{
    const json_t *points = json_object_get(frame, "points");
    const char *digits = json_string_value(points);
    for (size_t k = 0; k < json_string_length(points) / ((1 + D) * DIGITS); k++) {
        fprintf(s, "%zu,%zu,%zu,", index, count_at(frame, "iteration"), count_at(frame, "evaluations"));
        put_name(s, text_of(frame, "stage"));
        putc(',', s);
        put_number(s, number(json_object_get(frame, "pelbo")));
        putc(',', s);
        put_number(s, number(json_object_get(frame, "ess")));
        putc(',', s);
        put_name(s, text_of(frame, "kind"));
        fprintf(s, ",%zu,", k + 1);
        for (size_t i = 0; i <= D; i++, digits += DIGITS) {
            put_number(s, take_digits(digits));
            putc(i < D ? ',' : '\n', s);
        }
    }
}

int write_history(file_set *set, const json_t *asked, size_t D, const char *const *names, failure *f)
{
    const json_t *frames = json_object_get(json_object_get(asked, "history"), "frames");
    FILE *s = add_file(set, HISTORY_FILE, f);
    if (!s)
        return f->code;
    fputs("frame,iteration,evaluations,stage,pelbo,ess,kind,point,weight", s);
    for (size_t i = 0; i < D; i++) {
        putc(',', s);
        put_name(s, names[i]);
    }
    putc('\n', s);
    for (size_t i = 0; i < json_array_size(frames); i++)
        put_frame(s, i + 1, json_array_get(frames, i), D);
    return 0;
}
