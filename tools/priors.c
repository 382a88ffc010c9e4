/* priors.c - priors by name. */
#include "priors.h"
#include "text.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const struct {
    const char *name;
    size_t arguments;
    const char *usage;
    int positive[3]; /* which arguments must be above 0 */
} distributions[] = {
    [WV_PRIOR_NORMAL] = {"normal", 2, "normal(mean, sd)", {0, 1, 0}},
    [WV_PRIOR_STUDENT] = {"student", 3, "student(nu, location, scale)", {1, 0, 1}},
    [WV_PRIOR_CAUCHY] = {"cauchy", 2, "cauchy(location, scale)", {0, 1, 0}},
    [WV_PRIOR_EXPONENTIAL] = {"exponential", 1, "exponential(rate)", {1, 0, 0}},
    [WV_PRIOR_GAMMA] = {"gamma", 2, "gamma(shape, rate)", {1, 1, 0}},
    [WV_PRIOR_LOGNORMAL] = {"lognormal", 2, "lognormal(meanlog, sdlog)", {0, 1, 0}},
};
enum { DISTRIBUTIONS = sizeof distributions / sizeof *distributions, SIGNED = WV_PRIOR_CAUCHY + 1 };

const char centred_columns[] = " for centred columns", standardized_columns[] = " for standardized columns";

/* ---- lists ------------------------------------------------------------------------------------------------------- */
int name_priors(prior_list *p, size_t columns, const char *const *names, bool intercept, const char *const *positive,
                failure *f)
{
    size_t more = 0;
    while (positive && positive[more])
        more++;
    *p = (prior_list){.n = columns + intercept + more, .columns = columns, .intercept = intercept};
    p->each = calloc(p->n + 1, sizeof *p->each);
    p->prior = calloc(p->n + 1, sizeof *p->prior);
    if (!p->each || !p->prior)
        return fail(f, EX_SOFTWARE, "no memory for %zu priors", p->n);
    for (size_t i = 0; i < p->n; i++)
        p->each[i] = i < columns ? (named_prior){.name = names[i], .role = PRIOR_SLOPE}
                     : i < columns + intercept
                         ? (named_prior){.name = "intercept", .role = PRIOR_INTERCEPT}
                         : (named_prior){.name = positive[i - columns - intercept], .role = PRIOR_POSITIVE};
    return 0;
}

void free_priors(prior_list *p)
{
    free(p->each);
    free(p->prior);
    *p = (prior_list){0};
}

static void set(prior_list *p, size_t i, wv_prior prior)
{
    p->prior[i] = p->each[i].prior = prior;
}

void default_priors(prior_list *p, bool numbers, const double *sd, double mean_y, double sd_y)
{
    double mean = numbers ? mean_y : 0, s = numbers && sd_y > 0 ? sd_y : 1;
    p->centred = true;
    for (size_t i = 0; i < p->n; i++) {
        const char *name = p->each[i].name;
        if (p->each[i].role == PRIOR_SLOPE)
            set(p, i, (wv_prior){WV_PRIOR_NORMAL, 0, 2.5 * s / (sd[i] > 0 ? sd[i] : 1), 0});
        else if (p->each[i].role == PRIOR_INTERCEPT)
            set(p, i, (wv_prior){WV_PRIOR_NORMAL, mean, 2.5 * s, 0});
        else if (!strcmp(name, "nu"))
            set(p, i, (wv_prior){WV_PRIOR_GAMMA, 2, 0.1, 0});
        else
            set(p, i, (wv_prior){WV_PRIOR_EXPONENTIAL, 1 / s, 0, 0});
    }
}

void equal_priors(prior_list *p, double sd)
{
    p->centred = false;
    p->equal = true;
    for (size_t i = 0; i < p->n; i++)
        set(p, i, (wv_prior){p->each[i].role == PRIOR_POSITIVE ? WV_PRIOR_CAUCHY : WV_PRIOR_NORMAL, 0, sd, 0});
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */
/* Four digits, as somebody would write it. */
static void put_argument(char *text, double value)
{
    snprintf(text + strlen(text), PRIOR_ROOM - strlen(text), "%.4g", value);
}

const char *show_prior(const prior_list *p, size_t i, char text[PRIOR_ROOM])
{
    const wv_prior *q = &p->prior[i];
    const double argument[] = {q->a, q->b, q->c};
    snprintf(text, PRIOR_ROOM, "%s(", distributions[q->kind].name);
    for (size_t k = 0; k < distributions[q->kind].arguments; k++) {
        strcat(text, k ? ", " : "");
        put_argument(text, argument[k]);
    }
    strcat(text, ")");
    if (p->each[i].role == PRIOR_POSITIVE && (size_t)q->kind < SIGNED)
        strcat(text, " above 0");
    if (p->standardized && p->columns && p->each[i].role != PRIOR_POSITIVE)
        strcat(text, standardized_columns);
    else if (p->each[i].role == PRIOR_INTERCEPT && p->centred && p->columns)
        strcat(text, centred_columns);
    return text;
}

json_t *describe_priors(const prior_list *p)
{
    json_t *o = json_object();
    char text[PRIOR_ROOM];
    for (size_t i = 0; o && i < p->n; i++)
        json_object_set_new(o, p->each[i].name, json_string(show_prior(p, i, text)));
    return o;
}

static bool same_prior(const wv_prior *a, const wv_prior *b)
{
    return a->kind == b->kind && a->a == b->a && a->b == b->b && a->c == b->c;
}

/* The first slopes that are not all alike; then how many there are. */
void list_priors(const prior_list *p, char *text, size_t size)
{
    enum { SHOWN = 6 };
    char one[PRIOR_ROOM];
    size_t at = 0, alike = 1, shown = p->columns > SHOWN + 1 ? SHOWN : p->columns;
    while (alike < p->columns && same_prior(&p->prior[0], &p->prior[alike]))
        alike++;
    *text = '\0';
    for (size_t k = 0; k < p->n && at < size; k++) {
        size_t i = p->intercept ? k == 0 ? p->columns : k <= p->columns ? k - 1 : k : k; /* the intercept first */
        bool slope = p->each[i].role == PRIOR_SLOPE, all = slope && alike >= p->columns && p->columns > 1;
        if (slope && (all ? i > 0 : i > shown))
            continue;
        const char *comma = at ? "; " : "";
        if (slope && !all && i == shown)
            at += (size_t)snprintf(text + at, size - at, "%s%zu more: see priors in run.json", comma,
                                   p->columns - shown);
        else
            at += (size_t)snprintf(text + at, size - at, "%s%.48s %s", comma, all ? "slopes" : p->each[i].name,
                                   show_prior(p, i, one));
    }
}

/* ---- --prior ----------------------------------------------------------------------------------------------------- */
/* Are they equal but for blanks? a[length]. */
static bool same_name(const char *a, size_t length, const char *b)
{
    const char *end = a + length;
    for (;; a++, b++) {
        while (a < end && isspace((unsigned char)*a))
            a++;
        while (isspace((unsigned char)*b))
            b++;
        if (a == end || !*b)
            return a == end && !*b;
        if (*a != *b)
            return false;
    }
}

static int refuse_name(const prior_list *p, const char *text, const char *name, failure *f)
{
    char list[500] = "", shown[QUOTED], whole[QUOTED];
    size_t at = 0;
    for (size_t i = 0; i <= p->n && at + 80 < sizeof list; i++) {
        const char *one = i < p->n ? p->each[i].name : p->columns ? "slopes" : NULL;
        if (one)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%.60s", at ? ", " : "", one);
    }
    if (at + 80 >= sizeof list)
        strcat(list, " ...");
    return fail(f, EX_USAGE, "--prior is %s: the model has no parameter %s: expected one of %s", quote(text, whole),
                quote(name, shown), list);
}

static int refuse_distribution(const char *text, const char *found, const char *name, bool negative, failure *f)
{
    char list[300] = "", shown[QUOTED], whole[QUOTED];
    size_t n = negative ? (size_t)SIGNED : (size_t)DISTRIBUTIONS, at = 0;
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s",
                               !i          ? ""
                               : i + 1 < n ? ", "
                                           : " or ",
                               distributions[i].usage);
    return fail(f, EX_USAGE, "--prior is %s: found %s as the prior of %.60s, expected %s%s", quote(text, whole),
                quote(found, shown), name, list, negative ? ", since it may be negative" : "");
}

/* DIST(a, b) */
static int read_distribution(const char *whole, const char *text, const named_prior *n, wv_prior *out, failure *f)
{
    char copy[200], shown[QUOTED], *open, *close;
    double value[3] = {0, 0, 0};
    size_t kind = 0, count = 0;
    bool negative = n->role != PRIOR_POSITIVE;
    snprintf(copy, sizeof copy, "%s", text);
    open = strchr(copy, '(');
    close = strrchr(copy, ')');
    if (!open || !close || close < open || strspn(close + 1, " \t") != strlen(close + 1))
        return refuse_distribution(whole, text, n->name, negative, f);
    *open = *close = '\0';
    while (kind < DISTRIBUTIONS && !same_name(copy, strlen(copy), distributions[kind].name))
        kind++;
    if (kind == DISTRIBUTIONS || (negative && kind >= SIGNED))
        return refuse_distribution(whole, text, n->name, negative, f);
    for (char *at = open + 1, *comma; at && count < 4; at = comma ? comma + 1 : NULL, count++) {
        comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        if (count >= 3 || read_number(at, &value[count]) ||
            (distributions[kind].positive[count] && !(value[count] > 1e-150 && value[count] < 1e150))) {
            count = 9;
            break;
        }
    }
    if (count != distributions[kind].arguments)
        return fail(f, EX_USAGE, "--prior is %s: expected %s, in numbers; sds, scales, rates and shapes are above 0",
                    quote(whole, shown), distributions[kind].usage);
    *out = (wv_prior){(wv_prior_kind)kind, value[0], value[1], value[2]};
    return 0;
}

/* One "NAME=DIST(..)"; slopes: is it this name's turn? */
static int read_prior(prior_list *p, const char *text, bool slopes, failure *f)
{
    char shown[QUOTED], name[300];
    const char *equals = strrchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0, found = 0;
    wv_prior prior = {WV_PRIOR_NORMAL, 0, 1, 0};
    if (!equals || length >= sizeof name)
        return fail(f, EX_USAGE, "--prior is %s: expected NAME=DIST(..), such as intercept=normal(0, 5)",
                    quote(text, shown));
    if (same_name(text, length, "slopes") != slopes)
        return 0;
    memcpy(name, text, length);
    name[length] = '\0';
    for (size_t i = 0; i < p->n; i++)
        if (slopes ? p->each[i].role == PRIOR_SLOPE : same_name(text, length, p->each[i].name)) {
            if (read_distribution(text, equals + 1, &p->each[i], &prior, f))
                return f->code;
            set(p, i, prior);
            p->each[i].given = true;
            found++;
        }
    return found ? 0 : refuse_name(p, text, name, f);
}

static bool is_usable(double size)
{
    return size >= 1e-100 && size <= 1e100;
}

/* Scales of normals and rates: those of data, whose squares must be numbers. */
static int check_sizes(const prior_list *p, failure *f)
{
    char text[PRIOR_ROOM], shown[QUOTED];
    for (size_t i = 0; i < p->n; i++) {
        const wv_prior *q = &p->prior[i];
        if ((q->kind == WV_PRIOR_NORMAL && !(is_usable(q->b) && fabs(q->a) <= 1e100)) ||
            (q->kind == WV_PRIOR_EXPONENTIAL && !is_usable(q->a)))
            return fail(
                f, EX_DATAERR,
                "the prior of %s would be %s, expected sizes from 1e-100 to 1e100: write the data in other units",
                quote(p->each[i].name, shown), show_prior(p, i, text));
    }
    return 0;
}

/* First all slopes, then single ones: a name is stronger than a group, whatever comes first. */
int read_priors(prior_list *p, const char *text, failure *f)
{
    char *copy = text ? strdup(text) : NULL;
    int code = text && !copy ? fail(f, EX_SOFTWARE, "no memory for --prior") : 0;
    for (int turn = 0; turn < 2 && copy && !code; turn++) {
        strcpy(copy, text);
        for (char *at = copy, *end; at && !code; at = end) {
            end = at;
            do { /* a level may have a ';' in it: the end is one after a parenthesis */
                end = strchr(end + (end != at), ';');
                const char *back = end;
                while (end && back > at && isspace((unsigned char)back[-1]))
                    back--;
                if (!end || (back > at && back[-1] == ')'))
                    break;
            } while (end);
            if (end)
                *end++ = '\0';
            at += strspn(at, " \t");
            if (*at || !end)
                code = read_prior(p, at, turn == 0, f);
        }
    }
    free(copy);
    return code ? code : check_sizes(p, f);
}
