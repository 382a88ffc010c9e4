/* prior_distance.c - parameters that the data pull far away from their priors. In a linear model with a normal prior of
 * sd t, the posterior mean of a parameter has the variance t^2 - v over data that the prior makes, where v is the
 * variance of the posterior. So
 *     (posterior mean - prior mean) / sqrt(t^2 - v)
 * is standard normal, whatever the data tell of the other parameters. Positive parameters are compared with the tail of
 * their prior. Priors with heavy tails, student and cauchy, give way to the data and are left out. */
#include "prior_distance.h"
#include "prior_conflict.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double far_away = 4;   /* sds */
static const double unsure = 0.04;  /* t^2 - v is at least that share of t^2: v has an error */
static const double informed = 0.1; /* above it, the posterior tells where the data alone would have a parameter */

typedef struct {
    double sds;  /* how far it is, in sds of its prior */
    double data; /* where the data alone would have it; NAN: unknown */
} distance;

static distance from_normal(double m, double t, double mean, double sd)
{
    double left = t * t - sd * sd, share = fmax(left / (t * t), unsure);
    return (distance){fabs(mean - m) / (t * sqrt(share)), share > informed ? m + (mean - m) / share : NAN};
}

/* Of a positive parameter, whose log has this mean and sd: how far the near end of its interval lies. */
static distance from_positive(const wv_prior *p, double mean, double sd)
{
    double low = exp(mean - 2 * sd), high = exp(mean + 2 * sd), at = exp(mean), c;
    switch (p->kind) {
    case WV_PRIOR_NORMAL: return (distance){fmax((low - p->a) / p->b, (p->a - high) / p->b), at};
    case WV_PRIOR_EXPONENTIAL: return (distance){sqrt(2 * p->a * low), at}; /* P(N > d) is about exp(-d^2 / 2) */
    case WV_PRIOR_LOGNORMAL: return from_normal(p->a, p->b, mean, sd);
    case WV_PRIOR_GAMMA: /* Wilson and Hilferty */
        c = 3 * sqrt(p->a);
        return (distance){fmax((cbrt(low * p->b / p->a) - 1 + 1 / (c * c)) * c,
                               p->a > 1 ? (1 - 1 / (c * c) - cbrt(high * p->b / p->a)) * c : 0),
                          at};
    default: return (distance){0, NAN};
    }
}

static distance measure(const prior_list *list, size_t i, double mean, double sd)
{
    const wv_prior *p = &list->prior[i];
    if (list->each[i].role == PRIOR_POSITIVE)
        return from_positive(p, mean, sd);
    return p->kind == WV_PRIOR_NORMAL ? from_normal(p->a, p->b, mean, sd) : (distance){0, NAN};
}

static void advise(FILE *s, const prior_list *list, size_t i, const distance *d)
{
    const named_prior *n = &list->each[i];
    if (list->equal && !n->given)
        fputs("leave out --prior-sd for priors scaled to the data", s);
    else if (n->given)
        fputs("leave out its --prior for the default, or widen it", s);
    else if (n->role == PRIOR_POSITIVE && !strcmp(n->name, "shape"))
        fprintf(s,
                "try --likelihood poisson, from which counts with such a shape hardly differ, or --prior "
                "'shape=lognormal(%.2g, 2)'",
                log(d->data));
    else if (n->role == PRIOR_POSITIVE)
        fprintf(s, "try --prior '%.80s=exponential(%.2g)'", n->name, 1 / d->data);
    else if (isnan(d->data))
        fprintf(s, "widen it with --prior '%.80s=normal(..)'", n->name);
    else
        fprintf(s, "try --prior '%.80s=normal(%.2g, %.2g)'", n->name, n->prior.a, 2 * fabs(d->data - n->prior.a));
}

char *find_distant(const prior_list *list, bool skip_intercept, const double *mean, const double *var)
{
    distance most = {far_away, NAN};
    size_t worst = list->n, far = 0, size;
    char *text = NULL, prior[PRIOR_ROOM];
    for (size_t i = 0; i < list->n; i++) {
        if (skip_intercept && list->each[i].role == PRIOR_INTERCEPT)
            continue;
        distance d = measure(list, i, mean[i], sqrt(var[i]));
        if (!(d.sds > far_away))
            continue;
        far++;
        if (d.sds > most.sds) {
            most = d;
            worst = i;
        }
    }
    FILE *s = far ? open_memstream(&text, &size) : NULL;
    if (!s)
        return NULL;
    bool positive = list->each[worst].role == PRIOR_POSITIVE;
    double at = positive ? exp(mean[worst]) : mean[worst], sd = sqrt(var[worst]) * (positive ? at : 1);
    fprintf(s,
            PRIOR_CONFLICT ": the data pull %.80s to %.3g +- %.2g, away from its prior %s, which distorts the result",
            list->each[worst].name, at, sd, show_prior(list, worst, prior));
    if (far > 1)
        fprintf(s, " (and so for %zu others)", far - 1);
    fputs("; ", s);
    advise(s, list, worst, &most);
    if (!fclose(s))
        return text;
    free(text);
    return NULL;
}
