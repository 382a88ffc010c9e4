/* option_line.c - values of options, checked against the row of their option. */
#include "option_line.h"
#include "text.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

bool is_whole(const option_line *line)
{
    return line->range && strchr("NKR", line->argument[0]) && !line->argument[1];
}

/* Is the word of `length` bytes among the choices "a|b|c"? */
static bool is_choice(const char *choices, const char *word, size_t length)
{
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == length && !strncmp(at, word, length))
            return true;
    return false;
}

/* The one of the choices that a word probably means, in room[64]; NULL: unknown. */
static const char *meant_choice(const char *choices, const char *word, char room[64])
{
    static const char *const likely[][2] = {
        {"euclidean", "sqeuclid"}, {"euclid", "sqeuclid"}, {"l2", "sqeuclid"},     {"squared", "sqeuclid"},
        {"manhattan", "l1"},       {"diagonal", "diag"},   {"meanfield", "diag"},  {"mean-field", "diag"},
        {"low-rank", "lowrank"},   {"random", "normal"},   {"gaussian", "normal"}, {"fullrank", "full"},
        {"full-rank", "full"},
    };
    const char *list[2] = {room, NULL}, *found = NULL;
    for (size_t i = 0; i < sizeof likely / sizeof *likely; i++)
        if (!strcasecmp(word, likely[i][0]) && is_choice(choices, likely[i][1], strlen(likely[i][1])))
            return likely[i][1];
    for (const char *at = choices; at && !found; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        snprintf(room, 64, "%.*s", (int)strcspn(at, "|"), at);
        found = strspn(room, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.") ? NULL : find_nearest(word, list);
    }
    return found;
}

/* What R calls the family of a glm. */
static bool is_likelihood(const char *word)
{
    static const char likelihoods[] = "gaussian|student|bernoulli|binomial|poisson|negbinomial";
    return is_choice(likelihoods, word, strlen(word));
}

int refuse_value(const option_line *line, const char *value, failure *f)
{
    size_t word = strcspn(line->argument, "|"); /* "median|H": a word stands for a number that is not given */
    bool or_word = line->range && line->argument[word];
    char room[64];
    if (!strcmp(line->name, "family") && is_likelihood(value))
        return fail(f, EX_USAGE,
                    "--family is '%.60s': expected %s, the covariance of components: the family of a glm is "
                    "--likelihood %s",
                    value, line->argument, value);
    const char *near = line->range || !strchr(line->argument, '|') ? NULL : meant_choice(line->argument, value, room);
    if (!line->range)
        return fail(f, EX_USAGE,
                    near ? "--%s is '%.60s': expected %s: did you mean %s?" : "--%s is '%.60s': expected %s",
                    line->name, value, line->argument, near);
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
