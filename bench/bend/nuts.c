/* nuts.c - see nuts.h. */
#include "nuts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t word;

double nuts_uniform(void)
{
    word ^= word << 13; /* xorshift, multiplied */
    word ^= word >> 7;
    word ^= word << 17;
    return ((double)((word * 2685821657736338717u) >> 11) + 0.5) / 9007199254740992.0;
}

double nuts_normal(void)
{
    return sqrt(-2 * log(nuts_uniform())) * cos(2 * M_PI * nuts_uniform());
}

void nuts_seed(uint64_t seed)
{
    word = seed * 0x9E3779B97F4A7C15u + 1;
    for (int i = 0; i < 20; i++)
        nuts_uniform();
}

typedef struct {
    double x[NUTS_MOST], p[NUTS_MOST], g[NUTS_MOST], log_p;
} phase;

static wvgd_point_density *density;
static void *of;
static double metric[NUTS_MOST], step; /* variances */
static size_t dim, gradients;

static void leap(phase *s, double e)
{
    size_t D = dim;
    for (size_t i = 0; i < D; i++) {
        s->p[i] += e / 2 * s->g[i];
        s->x[i] += e * metric[i] * s->p[i];
    }
    s->log_p = density(of, s->x, s->g);
    gradients++;
    for (size_t i = 0; i < D; i++)
        s->p[i] += e / 2 * s->g[i];
}

static double energy(const phase *s)
{
    double k = 0;
    for (size_t i = 0; i < dim; i++)
        k += metric[i] * s->p[i] * s->p[i];
    double h = s->log_p - k / 2;
    return isfinite(h) ? h : -INFINITY;
}

typedef struct {
    phase left, right, chosen;
    double weight, accept, rho[NUTS_MOST];
    size_t n;
    bool good;
} tree;

static bool turns(const double *rho, const phase *a, const phase *b)
{
    double l = 0, r = 0;
    for (size_t i = 0; i < dim; i++) {
        l += metric[i] * a->p[i] * rho[i];
        r += metric[i] * b->p[i] * rho[i];
    }
    return l <= 0 || r <= 0;
}

static double lse(double a, double b)
{
    double top = fmax(a, b);
    return top > -INFINITY ? top + log1p(exp(-fabs(a - b))) : top;
}

static void grow(tree *t, const phase *from, int depth, double e, double h0)
{
    if (!depth) {
        t->left = *from;
        leap(&t->left, e);
        t->right = t->chosen = t->left;
        t->weight = energy(&t->left) - h0;
        t->good = t->weight > -1000;
        t->accept = fmin(1, exp(t->weight));
        t->n = 1;
        memcpy(t->rho, t->left.p, sizeof t->rho);
        return;
    }
    grow(t, from, depth - 1, e, h0);
    if (!t->good)
        return;
    tree *other = malloc(sizeof *other);
    grow(other, e > 0 ? &t->right : &t->left, depth - 1, e, h0);
    double all = lse(t->weight, other->weight);
    if (other->good && log(nuts_uniform()) < other->weight - all)
        t->chosen = other->chosen;
    t->weight = all;
    t->accept += other->accept;
    t->n += other->n;
    if (e > 0)
        t->right = other->right;
    else
        t->left = other->left;
    for (size_t i = 0; i < dim; i++)
        t->rho[i] += other->rho[i];
    t->good = other->good && !turns(t->rho, &t->left, &t->right);
    free(other);
}

static double transition(phase *s)
{
    enum { DEEPEST = 10 };
    tree *t = malloc(sizeof *t), *next = malloc(sizeof *next);
    for (size_t i = 0; i < dim; i++)
        s->p[i] = nuts_normal() / sqrt(metric[i]);
    double h0 = energy(s), accept = 0, n = 0;
    *t = (tree){.left = *s, .right = *s, .chosen = *s, .weight = 0, .good = true};
    memcpy(t->rho, s->p, sizeof t->rho);
    for (int depth = 0; depth < DEEPEST && t->good; depth++) {
        bool right = nuts_uniform() < 0.5;
        grow(next, right ? &t->right : &t->left, depth, right ? step : -step, h0);
        accept += next->accept;
        n += (double)next->n;
        if (!next->good)
            break;
        if (log(nuts_uniform()) < next->weight - t->weight)
            t->chosen = next->chosen;
        t->weight = lse(t->weight, next->weight);
        *(right ? &t->right : &t->left) = right ? next->right : next->left;
        for (size_t i = 0; i < dim; i++)
            t->rho[i] += next->rho[i];
        t->good = !turns(t->rho, &t->left, &t->right);
    }
    *s = t->chosen;
    free(t);
    free(next);
    return accept / n;
}

size_t nuts_run(wvgd_point_density *log_p, void *self, size_t D, uint64_t seed, size_t warmup, size_t draws,
                void (*each)(void *to, const double *x), void *to)
{
    size_t window = 75, next = window, n = 0;
    phase s;
    double mean[NUTS_MOST] = {0}, m2[NUTS_MOST] = {0}, bar = 0, log_bar = 0, mu, k = 0;
    density = log_p;
    of = self;
    dim = D;
    gradients = 0;
    nuts_seed(seed);
    for (size_t i = 0; i < D; i++) {
        metric[i] = 1;
        s.x[i] = nuts_normal() / 2;
    }
    s.log_p = density(of, s.x, s.g);
    step = 0.1;
    mu = log(10 * step);
    for (size_t t = 0; t < warmup + draws; t++) {
        double a = transition(&s);
        if (t < warmup) {
            k++;
            bar += (0.8 - a - bar) / (k + 10);
            double log_step = mu - sqrt(k) / 0.05 * bar, eta = pow(k, -0.75);
            log_bar = eta * log_step + (1 - eta) * log_bar;
            step = exp(log_step);
            if (t >= 75 && t < warmup - 50) {
                n++;
                for (size_t i = 0; i < D; i++) {
                    double d = s.x[i] - mean[i];
                    mean[i] += d / (double)n;
                    m2[i] += d * (s.x[i] - mean[i]);
                }
                if (t + 1 == next + window || t + 1 == warmup - 50) {
                    for (size_t i = 0; i < D; i++)
                        metric[i] = (double)n / ((double)n + 5) * m2[i] / (double)(n - 1) + 1e-3 * 5 / ((double)n + 5);
                    next += window;
                    window *= 2;
                    n = 0;
                    memset(mean, 0, sizeof mean);
                    memset(m2, 0, sizeof m2);
                    mu = log(10 * step);
                    bar = log_bar = k = 0;
                }
            }
            if (t + 1 == warmup)
                step = exp(log_bar);
            continue;
        }
        if (each)
            each(to, s.x);
    }
    return gradients;
}

size_t nuts_price(wvgd_point_density *log_p, void *self, size_t D)
{
    enum { CHAINS = 4, HALF = 1000 };
    size_t sum = 0;
    for (size_t c = 0; c < CHAINS; c++)
        sum += nuts_run(log_p, self, D, 800 + c, HALF, HALF, NULL, NULL);
    return sum;
}
