/* table_notes.c - tables that are in order, but hardly what was meant. */
#include "table_notes.h"
#include "text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Does the target have no values but 0 and 1? */
static bool is_binary(const regression_data *d)
{
    for (size_t i = 0; i < d->rows; i++)
        if (d->y[i] != 0 && d->y[i] != 1)
            return false;
    return true;
}

static char *finish(FILE *s, char **text)
{
    if (s && !fclose(s) && *text && **text)
        return *text;
    free(*text);
    return NULL;
}

char *table_hints(const regression_data *d)
{
    char *text = NULL;
    size_t size;
    FILE *s = open_memstream(&text, &size);
    if (s && d->moved)
        fprintf(s, "the target is %s, because the last column is ignored: --target names another one\n", d->target);
    if (s && !d->labels && is_binary(d))
        fprintf(s, "the target %s has only the values 0 and 1: did you mean the model logistic?\n", d->target);
    return finish(s, &text);
}

static bool is_constant(const regression_data *d, size_t column)
{
    for (size_t i = 1; i < d->rows; i++)
        if (d->X[i * d->columns + column] != d->X[column])
            return false;
    return true;
}

char *table_warnings(const regression_data *d)
{
    char *text = NULL, zero[QUOTED], one[QUOTED];
    size_t size;
    FILE *s = open_memstream(&text, &size);
    if (s && d->labels && !strcasecmp(d->label[0], d->label[1]))
        fprintf(s, "the labels %s and %s of the target %s differ only in case: make them one if they mean the same\n",
                quote(d->label[0], zero), quote(d->label[1], one), d->target);
    for (size_t c = 0; s && c < d->columns; c++)
        if (is_constant(d, c))
            fprintf(s, "column %s is constant: its weight only shows the prior; --ignore %s leaves it out\n",
                    d->names[c], d->names[c]);
    return finish(s, &text);
}

target_moments measure_target(const regression_data *d)
{
    target_moments m = {0, 0};
    double square = 0;
    for (size_t i = 0; i < d->rows; i++)
        m.mean += d->y[i] / (double)d->rows;
    for (size_t i = 0; i < d->rows; i++)
        square += (d->y[i] - m.mean) * (d->y[i] - m.mean);
    m.sd = d->rows > 1 ? sqrt(square / (double)(d->rows - 1)) : 0;
    return m;
}

char *next_line(char **lines)
{
    char *line = *lines, *end = line ? strchr(line, '\n') : NULL;
    if (!end)
        return NULL;
    *end = '\0';
    *lines = end + 1;
    return line;
}

char *prior_warning(const json_t *posterior, const char *target, const target_moments *moments, double prior_sd)
{
    enum { PERCENT = 150 }; /* of the target's sd: noise, with few rows and useless features */
    const json_t *names = json_object_get(posterior, "names"), *name, *mean = json_object_get(posterior, "mean");
    char *text = NULL;
    size_t size, i;
    double noise = 0, scale = fmax(fabs(moments->mean), moments->sd);
    json_array_foreach(names, i, name)
        if (!strcmp(json_string_value(name), "log_sigma"))
            noise = exp(json_number_value(json_array_get(mean, i)));
    if (!(100 * noise > PERCENT * moments->sd))
        return NULL;
    FILE *s = open_memstream(&text, &size);
    if (s)
        fprintf(s,
                "the target %s has mean %.3g and sd %.3g, but the prior of the weights has sd %g and keeps the "
                "predictions away from it (noise sd %.3g): the prior decides the result; try --prior-sd %.1g, or "
                "rescale the target",
                target, moments->mean, moments->sd, prior_sd, noise, scale);
    return finish(s, &text);
}
