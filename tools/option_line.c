/* option_line.c - values of options, checked against the row of their option. */
#include "option_line.h"
#include "text.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

bool is_whole(const option_line *line)
{
    return line->range && strchr("NKR", line->argument[0]) && !line->argument[1];
}

int refuse_value(const option_line *line, const char *value, failure *f)
{
    size_t word = strcspn(line->argument, "|"); /* "median|H": a word stands for a number that is not given */
    bool or_word = line->range && line->argument[word];
    if (!line->range)
        return fail(f, EX_USAGE, "--%s is '%.60s': expected %s", line->name, value, line->argument);
    return fail(f, EX_USAGE, "--%s is '%.60s': expected %.*s%s%s, %s", line->name, value, or_word ? (int)word : 0,
                line->argument, or_word ? " or " : "", is_whole(line) ? "a whole number" : "a number", line->range);
}

int read_value(const option_line *line, const char *text, double *value, failure *f)
{
    const char *high = strstr(line->range, "..") + 2;
    const char *end;
    double number;
    if (read_plain_number(text, &number) || !(number >= convert_number(line->range, &end)) ||
        !(number <= convert_number(high, &end)) || (is_whole(line) && number != floor(number)))
        return refuse_value(line, text, f);
    *value = number;
    return 0;
}

int read_choice(const option_line *line, const char *text, size_t *which, failure *f)
{
    size_t length = strlen(text), k = 0;
    for (const char *at = line->argument; length; at += strcspn(at, "|") + 1, k++) {
        if (strcspn(at, "|") == length && !strncmp(at, text, length)) {
            *which = k;
            return 0;
        }
        if (!strchr(at, '|'))
            break;
    }
    return refuse_value(line, text, f);
}

int read_seed(const option_line *line, const char *text, uint64_t *value, failure *f)
{
    char *end;
    errno = 0;
    unsigned long long u = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        return refuse_value(line, text, f);
    *value = u;
    return 0;
}
