/* cell_line.c - components of cells in one dimension. The target on a cell is a mixture m times what the closing draws
 * there say of p~/m, between them by interpolation; integrals over the cell are sums over Gauss-Legendre nodes.
 *
 * In units of the posterior on the cell, t = (x - mean)/sd, a component is exp(b t - P t^2/2) / C. The natural gradient
 * step (method, section 4) leads to the coefficients of the regression of the target on (t, -t^2/2) under the
 * component; it is halved until the ELBO rises. P is no smaller than line_flattest: where the best component is an
 * exponential, or level, that stands for it to 1e-4 nats, and mean and sd of the component, far out and large, hold b
 * and P without loss. If P meets this limit, b is the slope of the regression that is left. */
#include "cell_line.h"
#include "fit.h"
#include "interval.h"
#include "policy.h"
#include "weights.h"
#include <math.h>

bool wv_cell_line_cells(const wvgd_fit *f)
{
    wv_geometry g = wv_partition_geometry(&f->cells);
    return wv_interval_cells(&g);
}

/* The cell of j, in the arena of the caller. */
static wv_intervals find_cell(wvgd_fit *f, size_t j)
{
    wv_geometry g = wv_partition_geometry(&f->cells);
    return wv_interval_cell(&g, j, f->arena);
}

double wv_cell_line_log_Z(wvgd_fit *f, size_t j)
{
    size_t mark = wv_arena_mark(f->arena);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wv_intervals cell = find_cell(f, j);
    double log_Z = wv_interval_log_mass(&cell, &q);
    wv_arena_release(f->arena, mark);
    return log_Z;
}

/* ---- what the closing draws say ---------------------------------------------------------------------------------- */
/* log p~ - log m at a closing draw, and its slope there. */
typedef struct {
    double x, value, slope; /* value -INFINITY: the density is zero */
} ratio;

typedef struct {
    size_t n;
    ratio *at;       /* [n] ascending */
    double mean, sd; /* of the posterior, by these draws */
    double level;    /* value where there are none */
} ratios;

/* Mean and sd of the closing draws in cell j; of its particle and its spread if these are too few. */
static void find_moments(const wvgd_fit *f, size_t j, ratios *r)
{
    const wv_draws *b = &f->closing.draws;
    double top = -INFINITY, sum = 0, mean = 0, square = 0;
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        top = b->cell[i] == j ? fmax(top, f->closing.log_w[i]) : top;
    for (int pass = 0; pass < 2 && top > -INFINITY; pass++)
        for (size_t i = 0; i < b->n; i++) {
            double w = b->cell[i] == j ? exp(f->closing.log_w[i] - top) : 0, d = b->x[i] - mean;
            if (!(w > 0))
                continue;
            n += !pass;
            sum += pass ? 0 : w;
            mean += pass ? 0 : w * (b->x[i] - mean) / sum;
            square += pass ? w * d * d / sum : 0;
        }
    bool told = n >= 3 && square > 0;
    r->mean = told ? mean : f->cells.now.z[j];
    r->sd = told ? sqrt(square) : *wv_partition_spread(&f->cells, j).root;
}

/* Whether the ratio is known at closing draw i: finite, with a slope, or zero density. */
static bool tells(const wv_draws *b, size_t i)
{
    return b->log_p[i] == -INFINITY || isfinite(b->log_p[i] + (b->shape.gradients ? b->grad[i] : 0));
}

/* Closing draws in order[]: those in the cell of j, then the first ones beyond its walls. Returns how many: at most all
 * closing draws and two for each part. */
static size_t choose_draws(const wvgd_fit *f, size_t j, const wv_intervals *cell, uint32_t *order)
{
    const wv_draws *b = &f->closing.draws;
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        if (b->cell[i] == j && tells(b, i))
            order[n++] = (uint32_t)i;
    for (size_t p = 0; p < cell->n; p++) {
        size_t low = b->n, high = b->n;
        for (size_t i = 0; i < b->n; i++) {
            double x = b->x[i];
            if (b->cell[i] == j || !tells(b, i))
                continue;
            low = x <= cell->part[p].lo && (low == b->n || x > b->x[low]) ? i : low;
            high = x >= cell->part[p].hi && (high == b->n || x < b->x[high]) ? i : high;
        }
        if (low < b->n)
            order[n++] = (uint32_t)low;
        if (high < b->n)
            order[n++] = (uint32_t)high;
    }
    return n;
}

/* Slope between two of the ratios; 0: there is none. */
static double slope_between(ratio a, ratio b)
{
    double slope = (b.value - a.value) / (b.x - a.x);
    return b.x > a.x && isfinite(slope) ? slope : 0;
}

/* Slopes of the parabolas through three neighbours each; at the ends of the lines through two. */
static void set_slopes(ratios *r)
{
    for (size_t i = 0; i < r->n; i++) {
        ratio a = r->at[i ? i - 1 : 0], b = r->at[i], c = r->at[i + 1 < r->n ? i + 1 : i];
        double left = slope_between(a, b), right = slope_between(b, c),
               share = c.x > a.x ? (b.x - a.x) / (c.x - a.x) : 0;
        r->at[i].slope = left + share * (right - left);
    }
}

/* The chosen draws in the order of their positions x[n]; chosen: their numbers. */
static void set_ratios(wvgd_fit *f, const wv_mixture *m, size_t n, const uint32_t *chosen, size_t every, ratios *r)
{
    const wv_draws *b = &f->closing.draws;
    size_t mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, n), *log_m = wv_arena_take(f->arena, n), *slope = wv_arena_take(f->arena, n);
    uint32_t *order = wv_arena_take_index(f->arena, n);
    for (size_t i = 0; i < n; i++)
        x[i] = b->x[chosen[i]];
    wv_mixture_log_density(m, n, x, log_m, slope, &f->workers);
    wv_weights_order(n, x, order, f->arena);
    for (size_t i = every / 2; i < n; i += every) {
        size_t k = order[i];
        r->at[r->n++] = (ratio){x[k], b->log_p[chosen[k]] - log_m[k],
                                b->shape.gradients ? b->grad[chosen[k]] - slope[k] : 0};
    }
    if (!b->shape.gradients)
        set_slopes(r);
    wv_arena_release(f->arena, mark);
}

/* From every k-th draw, k = `every`. */
static ratios gather(wvgd_fit *f, const wv_mixture *m, size_t j, const wv_intervals *cell, size_t every)
{
    size_t most = f->closing.draws.n + 2 * cell->n;
    ratios r = {.at = (ratio *)wv_arena_take(f->arena, 3 * most), .level = f->outcome.evidence.value};
    size_t mark = wv_arena_mark(f->arena);
    uint32_t *chosen = wv_arena_take_index(f->arena, most);
    find_moments(f, j, &r);
    set_ratios(f, m, choose_draws(f, j, cell, chosen), chosen, every, &r);
    wv_arena_release(f->arena, mark);
    return r;
}

/* The cubic with both values and slopes. If one of the two has density zero: the value of the nearer one. */
static double between(ratio a, ratio b, double x)
{
    double wide = b.x - a.x, s = (x - a.x) / wide, c = 1 - s;
    if (!(a.value > -INFINITY && b.value > -INFINITY))
        return s < 0.5 ? a.value : b.value;
    return a.value * c * c * (1 + 2 * s) + b.value * s * s * (1 + 2 * c) + wide * s * c * (a.slope * c - b.slope * s);
}

/* log p~ - log m at x. *k: the number of draws below the point of the call before; points ascend. Beyond the last draws
 * the ratio is a line: there p~ has the value and slope of the draw, and the curvature of the mixture. */
static double ratio_at(const ratios *r, double x, size_t *k)
{
    while (*k < r->n && r->at[*k].x <= x)
        ++*k;
    if (!r->n)
        return r->level;
    if (*k > 0 && *k < r->n)
        return between(r->at[*k - 1], r->at[*k], x);
    ratio last = r->at[*k ? *k - 1 : 0];
    return last.value > -INFINITY ? last.value + last.slope * (x - last.x) : -INFINITY;
}

/* ---- the cell ---------------------------------------------------------------------------------------------------- */
typedef struct {
    const wv_mixture *m;
    ratios r;
    wv_intervals cell, outer; /* outer: the part of the cell beyond all nodes */
    size_t n;                 /* nodes with density */
    double *x, *t;            /* [n] ascending, and in units of the posterior */
    double *log_w, *log_p;    /* [n] logarithms of the weights and of the target */
    double *u;                /* [n] normalised weights of a component, or of the target */
    double mean, sd;          /* of the posterior on the cell, */
    double log_mass;          /* and the log of its mass, times the evidence */
} line;

enum { EDGES = 15, NODES = 10 };

/* Places, in sds from the mean of a Gaussian, between which it is smooth enough for ten nodes. */
static const double edge[EDGES] = {-9, -6, -4, -3, -2, -1.2, -0.6, 0, 0.6, 1.2, 2, 3, 4, 6, 9};

/* Edges of all components of the mixture and of the cell itself, ascending, into to[EDGES (K + 1)]. */
static void find_edges(wvgd_fit *f, const wv_mixture *m, const ratios *r, double *to)
{
    size_t n = 0, most = EDGES * (m->K + 1), mark = wv_arena_mark(f->arena);
    double *at = wv_arena_take(f->arena, most);
    uint32_t *order = wv_arena_take_index(f->arena, most);
    for (size_t k = 0; k <= m->K; k++)
        for (size_t i = 0; i < EDGES; i++)
            at[n++] = k < m->K ? m->mu[k] + m->root[k] * edge[i] : r->mean + r->sd * edge[i];
    wv_weights_order(n, at, order, f->arena);
    for (size_t i = 0; i < n; i++)
        to[i] = at[order[i]];
    wv_arena_release(f->arena, mark);
}

/* Gauss-Legendre nodes and weights on [lo, hi]. */
static void add_panel(line *l, double lo, double hi)
{
    static const double node[NODES / 2] = {0.14887433898163121, 0.43339539412924719, 0.67940956829902441,
                                           0.86506336668898451, 0.97390652851717172},
                                     weight[NODES / 2] = {0.29552422471475287, 0.26926671930999636, 0.21908636251598204,
                                                          0.14945134915058059, 0.066671344308688138};
    for (int i = 0; i < NODES; i++) {
        int k = i < NODES / 2 ? NODES / 2 - 1 - i : i - NODES / 2;
        l->x[l->n] = (lo + hi) / 2 + (i < NODES / 2 ? -node[k] : node[k]) * (hi - lo) / 2;
        l->log_w[l->n++] = log(weight[k] * (hi - lo) / 2);
    }
}

/* Panels between the edges that lie in an interval. */
static void add_part(line *l, wv_interval part, size_t n, const double *at)
{
    double lo = fmax(part.lo, at[0]), hi = fmin(part.hi, at[n - 1]);
    for (size_t i = 0; i < n; i++)
        if (at[i] > lo && at[i] < hi) {
            add_panel(l, lo, at[i]);
            lo = at[i];
        }
    if (lo < hi)
        add_panel(l, lo, hi);
}

/* The part of the cell beyond the first and the last edge, in the arena of the caller. */
static wv_intervals find_outer(wvgd_fit *f, const wv_intervals *cell, double first, double last)
{
    wv_intervals outer = {0, (wv_interval *)wv_arena_take(f->arena, 4 * cell->n)};
    for (size_t i = 0; i < cell->n; i++) {
        wv_interval part = cell->part[i];
        if (part.lo < first)
            outer.part[outer.n++] = (wv_interval){part.lo, fmin(part.hi, first)};
        if (part.hi > last)
            outer.part[outer.n++] = (wv_interval){fmax(part.lo, last), part.hi};
    }
    return outer;
}

/* The target at the nodes; drops nodes of density zero. */
static void set_target(wvgd_fit *f, const ratios *r, line *l)
{
    size_t kept = 0, below = 0;
    wv_mixture_log_density(l->m, l->n, l->x, l->log_p, NULL, &f->workers);
    for (size_t i = 0; i < l->n; i++) {
        double log_p = l->log_p[i] + ratio_at(r, l->x[i], &below);
        if (!(log_p > -INFINITY))
            continue;
        l->x[kept] = l->x[i];
        l->log_w[kept] = l->log_w[i];
        l->log_p[kept++] = log_p;
    }
    l->n = kept;
}

/* Weights of the target into u, and units. False: it has no mass. */
static bool set_units(line *l)
{
    for (size_t i = 0; i < l->n; i++)
        l->t[i] = l->log_p[i] + l->log_w[i];
    if (!wv_weights_normalise(l->n, l->t, l->u))
        return false;
    l->log_mass = wv_weights_lse(l->n, l->t);
    l->mean = l->sd = 0;
    for (size_t i = 0; i < l->n; i++)
        l->mean += l->u[i] * l->x[i];
    for (size_t i = 0; i < l->n; i++)
        l->sd += l->u[i] * (l->x[i] - l->mean) * (l->x[i] - l->mean);
    l->sd = sqrt(l->sd);
    for (size_t i = 0; i < l->n; i++)
        l->t[i] = (l->x[i] - l->mean) / l->sd;
    return l->sd > 0;
}

/* The cell of j in arrays of the caller's arena, by one out of `every` of its draws; n = 0: nothing is known of it. */
static line make(wvgd_fit *f, const wv_mixture *m, size_t j, size_t every)
{
    line l = {.m = m, .cell = find_cell(f, j)};
    size_t edges = EDGES * (m->K + 1), most = NODES * (edges + l.cell.n);
    l.x = wv_arena_take(f->arena, most);
    l.t = wv_arena_take(f->arena, most);
    l.log_w = wv_arena_take(f->arena, most);
    l.log_p = wv_arena_take(f->arena, most);
    l.u = wv_arena_take(f->arena, most);
    l.r = gather(f, m, j, &l.cell, every);
    double *at = wv_arena_take(f->arena, edges);
    find_edges(f, m, &l.r, at);
    for (size_t i = 0; i < l.cell.n; i++)
        add_part(&l, l.cell.part[i], edges, at);
    l.outer = find_outer(f, &l.cell, at[0], at[edges - 1]);
    set_target(f, &l.r, &l);
    if (!set_units(&l))
        l.n = 0;
    return l;
}

/* ---- components -------------------------------------------------------------------------------------------------- */
/* exp(b t - P t^2/2) / C, by its ELBO. */
typedef struct {
    double b, P, elbo;
} component;

/* Whether q has mass in the cell where there are no nodes, so that these do not tell its ELBO. */
static bool reaches_beyond(const line *l, const component *q)
{
    double mu = l->mean + l->sd * q->b / q->P, sd = l->sd / sqrt(q->P);
    wv_gaussian g = {wv_family_get(WVGD_DIAG), 1, 0, &mu, &sd, 0};
    return l->outer.n &&
           wv_interval_log_mass(&l->outer, &g) - wv_interval_log_mass(&l->cell, &g) > log(wv_policy.line_beyond);
}

/* Weights of q into l->u, and its ELBO; -INFINITY: it reaches beyond the nodes. */
static void weigh(line *l, component *q)
{
    double top = -INFINITY, sum = 0, mean = 0;
    for (size_t i = 0; i < l->n; i++) {
        double t = l->t[i];
        l->u[i] = l->log_w[i] + q->b * t - q->P * t * t / 2;
        top = fmax(top, l->u[i]);
    }
    for (size_t i = 0; i < l->n; i++)
        l->u[i] -= top;
    wv_weights_exp(l->n, l->u);
    for (size_t i = 0; i < l->n; i++) {
        double t = l->t[i];
        sum += l->u[i];
        mean += l->u[i] * (l->log_p[i] - q->b * t + q->P * t * t / 2);
    }
    for (size_t i = 0; i < l->n; i++)
        l->u[i] /= sum;
    q->elbo = reaches_beyond(l, q) ? -INFINITY : mean / sum + top + log(sum);
}

/* Coefficients of the regression of the target on (t, -t^2/2) under the weights u. */
static component regress(const line *l)
{
    double t1 = 0, t2 = 0, p = 0, s11 = 0, s12 = 0, s22 = 0, r1 = 0, r2 = 0;
    for (size_t i = 0; i < l->n; i++) {
        t1 += l->u[i] * l->t[i];
        t2 -= l->u[i] * l->t[i] * l->t[i] / 2;
        p += l->u[i] * l->log_p[i];
    }
    for (size_t i = 0; i < l->n; i++) {
        double one = l->t[i] - t1, two = -l->t[i] * l->t[i] / 2 - t2, u = l->u[i];
        s11 += u * one * one;
        s12 += u * one * two;
        s22 += u * two * two;
        r1 += u * one * (l->log_p[i] - p);
        r2 += u * two * (l->log_p[i] - p);
    }
    double P = (s11 * r2 - s12 * r1) / (s11 * s22 * (1 + 1e-12) - s12 * s12);
    P = fmax(P, wv_policy.line_flattest);
    return (component){(r1 - P * s12) / s11, P, -INFINITY};
}

/* Steps from q on, until they gain nothing. */
static void climb(line *l, component *q)
{
    weigh(l, q);
    for (int k = 0; (double)k < wv_policy.line_steps; k++) {
        component full = regress(l), next = full;
        weigh(l, &next);
        for (double share = 0.5; !(next.elbo > q->elbo) && share > wv_policy.line_shortest; share /= 2) {
            next = (component){q->b + share * (full.b - q->b), q->P + share * (full.P - q->P), 0};
            weigh(l, &next);
        }
        double gain = next.elbo - q->elbo;
        if (!(gain > 0))
            return;
        *q = next;
        if (gain < wv_policy.line_settled)
            return;
    }
}

/* The Gaussian N(mu, sd^2) in units of the cell. */
static component in_units(const line *l, double mu, double sd)
{
    double P = fmax(l->sd * l->sd / (sd * sd), wv_policy.line_flattest);
    return (component){P * (mu - l->mean) / l->sd, P, -INFINITY};
}

static void set_component(wvgd_fit *f, size_t j, double mu, double sd)
{
    size_t mark = wv_arena_mark(f->arena);
    double *root = wv_arena_take(f->arena, f->cells.shape.family->size(1, f->cells.shape.R));
    f->cells.shape.family->set_sd(1, f->cells.shape.R, root, &sd);
    wv_partition_set_component(&f->cells, j, &mu, root);
    wv_arena_release(f->arena, mark);
}

/* The better of *best and where steps from `start` lead. */
static void try_start(line *l, component start, component *best)
{
    climb(l, &start);
    *best = start.elbo > best->elbo + wv_policy.line_settled ? start : *best;
}

/* The first local minimum of the target after node `first`; n: there is none. */
static size_t next_minimum(const line *l, size_t first)
{
    size_t i = first + 1;
    while (i < l->n && !(l->log_p[i] < l->log_p[i - 1] && i + 1 < l->n && l->log_p[i] <= l->log_p[i + 1]))
        i++;
    return i < l->n ? i : l->n;
}

/* From the moments of the target between its minima, where a cell holds several modes. */
static void try_modes(line *l, component *best)
{
    for (size_t first = 0, end; first < l->n; first = end) {
        double mass = 0, mean = 0, square = 0;
        end = next_minimum(l, first);
        for (size_t i = first; i < end; i++) {
            double w = exp(l->log_p[i] + l->log_w[i] - l->log_mass);
            mass += w;
            mean += w * l->t[i];
            square += w * l->t[i] * l->t[i];
        }
        mean /= mass;
        double variance = square / mass - mean * mean;
        if (end - first < l->n && mass > wv_policy.component_start_mass && variance > 0)
            try_start(l, (component){mean / variance, 1 / variance, 0}, best);
    }
}

/* From the posterior's moments, from a level, and from the modes of the cell. A component of the mixture that is as
 * good is taken as it is: then other cells have the same. */
static void choose(wvgd_fit *f, size_t j, line *l)
{
    const wv_mixture *m = l->m;
    component best = {0, 1, -INFINITY};
    climb(l, &best);
    try_start(l, (component){0, wv_policy.line_flattest, 0}, &best);
    try_modes(l, &best);
    set_component(f, j, l->mean + l->sd * best.b / best.P, l->sd / sqrt(best.P));
    for (size_t k = 0; k < m->K; k++) {
        component same = in_units(l, m->mu[k], m->root[k]);
        weigh(l, &same);
        if (same.elbo > best.elbo - wv_policy.line_settled) {
            set_component(f, j, m->mu[k], m->root[k]);
            return;
        }
    }
}

bool wv_cell_line_fit(wvgd_fit *f, const wv_mixture *m, size_t j)
{
    size_t mark = wv_arena_mark(f->arena);
    line l = make(f, m, j, 1);
    bool known = l.n > 0;
    if (known) {
        if (f->opt.cost != WVGD_OWN) /* it bounds the cell */
            wv_partition_set_spread(&f->cells, j, &l.sd);
        choose(f, j, &l);
    }
    wv_arena_release(f->arena, mark);
    return known;
}

/* Component j in units of the cell, with its ELBO. */
static component measured(wvgd_fit *f, size_t j, line *l)
{
    wv_gaussian q = wv_partition_component(&f->cells, j);
    double sd;
    q.family->sd(1, q.R, q.root, &sd);
    double P = l->sd * l->sd / (sd * sd);
    component c = {P * (*q.mu - l->mean) / l->sd, P, 0};
    weigh(l, &c);
    return c;
}

double wv_cell_line_elbo(wvgd_fit *f, const wv_mixture *m, size_t j)
{
    size_t mark = wv_arena_mark(f->arena);
    line l = make(f, m, j, 1);
    double elbo = l.n ? measured(f, j, &l).elbo : -INFINITY;
    wv_arena_release(f->arena, mark);
    return elbo;
}

/* Whether the nodes, which are where the target is, have all of the component in the cell, too. */
static bool nodes_cover(wvgd_fit *f, size_t j, const line *l)
{
    size_t mark = wv_arena_mark(f->arena);
    double *log_q = wv_arena_take(f->arena, l->n), *y = wv_arena_take(f->arena, l->n);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wv_gaussian_log_density(&q, l->n, l->x, log_q, y, f->arena);
    for (size_t i = 0; i < l->n; i++)
        log_q[i] += l->log_w[i];
    double log_Z = wv_weights_lse(l->n, log_q);
    wv_arena_release(f->arena, mark);
    return fabs(log_Z - f->cells.log_Z[j]) < wv_policy.line_error;
}

wvgd_estimate wv_cell_line_control(wvgd_fit *f, const wv_mixture *m, size_t j, size_t n, const double *x, double *log_c)
{
    size_t mark = wv_arena_mark(f->arena);
    line l = make(f, m, j, 1);
    double elbo = l.n && nodes_cover(f, j, &l) ? measured(f, j, &l).elbo : -INFINITY;
    wv_mixture_log_density(m, n, x, log_c, NULL, &f->workers);
    for (size_t i = 0; i < n; i++) {
        size_t below = 0;
        log_c[i] += ratio_at(&l.r, x[i], &below);
    }
    l = make(f, m, j, 2);
    double half = l.n ? measured(f, j, &l).elbo : -INFINITY;
    wv_arena_release(f->arena, mark);
    return (wvgd_estimate){elbo, hypot(elbo - half, wv_policy.line_error)};
}

/* ---- masses ------------------------------------------------------------------------------------------------------ */
double wv_cell_line_log_mass(wvgd_fit *f, const wv_mixture *m, size_t j, size_t every)
{
    size_t mark = wv_arena_mark(f->arena);
    line l = make(f, m, j, every);
    wv_arena_release(f->arena, mark);
    return l.n ? l.log_mass : -INFINITY;
}
