/* bend_fit.c - the fit of a bend to scores, in rounds (bend_fit.h). */
#include "coordinates/bend_fit.h"
#include "coordinates/bend_look.h"
#include "coordinates/bend_others.h"
#include "dense.h"
#include "policy.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

/* ---- arguments --------------------------------------------------------------------------------------------------- */
/* Mean square of v(u) - u for a standard normal u. */
static double departs(const wv_bend_line *line)
{
    double sum = 0, total = 0;
    for (double u = -3; u <= 3; u += 0.25) {
        double w = exp(-u * u / 2), d = wv_bend_line_at(line, u).v - u;
        sum += w * d * d;
        total += w;
    }
    return sum / total;
}

/* The line of coordinate c, whose values and scores are those of v. */
static wv_bend_line fit_line(const wv_bend_seen *s, size_t c, double least, wv_arena *arena)
{
    const double far = 28;
    wv_bend_line line;
    size_t n = 0, mark = wv_arena_mark(arena);
    double *weight = wv_arena_take(arena, s->n), *y = wv_arena_take(arena, s->n), *q = wv_arena_take(arena, s->n);
    for (size_t i = 0; i < s->n; i++)
        if (fabs(s->w[i * s->D + c]) < far && isfinite(s->g[i * s->D + c]) &&
            s->weight[i] * (double)s->n > wv_policy.bend_line_weight) {
            y[n] = s->w[i * s->D + c];
            q[n] = s->g[i * s->D + c];
            weight[n++] = s->weight[i];
        }
    wv_bend_line_fit(&line, n, y, q, weight, arena);
    if (line.curved && departs(&line) < least)
        wv_bend_line_clear(&line);
    wv_arena_release(arena, mark);
    return line;
}

/* Scores of the arguments regressed on (1, t): precision P[r][r], clipped, and mean mu[r]; C[r][r] its inverse. */
static bool fit_gaussian(const wv_bend_seen *s, double *mu, double *C, wv_arena *arena)
{
    size_t r = s->r, p = 1 + r, D = s->D, mark = wv_arena_mark(arena);
    double *A = wv_arena_zeros(arena, p * p), *B = wv_arena_zeros(arena, p * r), *f = wv_arena_take(arena, p),
           *size = wv_arena_take(arena, s->n), *P = wv_arena_take(arena, r * r), *e = wv_arena_take(arena, r),
           *work = wv_arena_take(arena, wv_dense_eigh_work(r)), *spare = wv_arena_take(arena, r * r);
    for (size_t i = 0; i < s->n; i++) {
        size[i] = 0;
        for (size_t c = 0; c < r; c++)
            size[i] += pow(s->g[i * D + c] + s->w[i * D + c], 2) / (double)r;
        size[i] = isfinite(size[i]) ? sqrt(size[i]) : INFINITY;
    }
    double far = wv_policy.bend_outlier * wv_weights_smallest(s->n, size, s->n / 2, arena) + 1e-9;
    for (size_t i = 0; i < s->n; i++) {
        double w = isfinite(size[i]) ? s->weight[i] / fmax(1, size[i] / far) : 0;
        if (!(w > 0))
            continue;
        f[0] = 1;
        memcpy(f + 1, s->w + i * D, r * sizeof *f);
        cblas_dsyr(CblasRowMajor, CblasLower, (int)p, w, f, 1, A, (int)p);
        cblas_dger(CblasRowMajor, (int)p, (int)r, w, f, 1, s->g + i * D, 1, B, (int)r);
    }
    bool good = wv_dense_ridge_solve(p, A, r, B);
    for (size_t i = 0; i < r && good; i++)
        for (size_t j = 0; j < r; j++)
            P[i * r + j] = -(B[(1 + i) * r + j] + B[(1 + j) * r + i]) / 2;
    good = good && wv_dense_eigh(r, P, e, work);
    for (size_t i = 0; i < r && good; i++)
        e[i] = 1 / fmin(fmax(e[i], wv_policy.bend_narrow), 1 / wv_policy.bend_narrow);
    if (good) {
        wv_dense_rebuild(r, P, e, C, spare);
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)r, (int)r, 1.0, C, (int)r, B, 1, 0.0, mu, 1);
        double length = cblas_dnrm2((int)r, mu, 1);
        cblas_dscal((int)r, fmin(1, 2 / fmax(length, 1e-9)), mu, 1);
    }
    wv_arena_release(arena, mark);
    return good;
}

/* Row j of an argument that is Gaussian given those before it: R[r][r] their correlations. */
static wv_bend_row linear_row(size_t r, size_t j, const double *R, wv_arena *arena)
{
    wv_bend_row row;
    size_t mark = wv_arena_mark(arena);
    wv_bend_row_clear(&row);
    double *S = wv_arena_take(arena, j * j + 1), *c = wv_arena_take(arena, j + 1), left = 1;
    if (j && j <= WV_BEND_PARENTS) {
        for (size_t i = 0; i < j; i++) {
            c[i] = R[j * r + i];
            memcpy(S + i * j, R + i * r, j * sizeof *S);
        }
        bool good = wv_dense_ridge_solve(j, S, 1, c);
        for (size_t i = 0; i < j && good; i++)
            left -= c[i] * R[j * r + i];
        row.parents = good ? j : 0;
        for (size_t i = 0; i < row.parents; i++) {
            row.parent[i] = i;
            row.location[0][1 + i] = row.location[1][1 + i] = c[i];
        }
        row.precision[0][0] -= log(fmax(left, 1e-3));
        row.precision[1][0] = row.precision[0][0];
    }
    wv_arena_release(arena, mark);
    return row;
}

/* The arguments become standard: each is shifted and scaled, and depends linearly on those before it. */
static void standardise(const wv_bend_seen *s, wv_bend *b, wv_arena *arena)
{
    size_t r = s->r, mark = wv_arena_mark(arena);
    double *mu = wv_arena_take(arena, r), *C = wv_arena_take(arena, r * r), *d = wv_arena_take(arena, r);
    if (fit_gaussian(s, mu, C, arena)) {
        for (size_t j = 0; j < r; j++)
            d[j] = sqrt(C[j * r + j]);
        for (size_t j = 0; j < r; j++)
            wv_bend_rescale(b, j, mu[j], d[j], arena);
        for (size_t i = 0; i < r; i++)
            for (size_t j = 0; j < r; j++)
                C[i * r + j] /= d[i] * d[j];
        for (size_t j = 0; j < r; j++) {
            wv_bend_row row = linear_row(r, j, C, arena);
            wv_bend_set_row(b, j, &row);
        }
    }
    wv_arena_release(arena, mark);
}

/* Share of the squares of v(u) that no straight line explains, u being a little wider than normal. */
static double crooked(const wv_bend_line *line)
{
    double n = 0, v1 = 0, uv = 0, uu = 0, vv = 0;
    for (double u = -3.5; u <= 3.5; u += 0.1) {
        double w = exp(-u * u / 4), v = wv_bend_line_at(line, u).v;
        n += w;
        v1 += w * v;
        uv += w * u * v;
        uu += w * u * u;
        vv += w * v * v;
    }
    vv -= v1 * v1 / n;
    return 1 - uv * uv / (uu * vv);
}

/* Arguments 0 and c change places, of the map and of its points. */
static void swap_arguments(const wv_bend_seen *s, wv_bend *b, size_t c)
{
    wv_bend_swap(b, 0, c);
    for (size_t i = 0; i < s->n && c; i++) {
        double *w = s->w + i * s->D, *g = s->g + i * s->D, keep = w[0];
        w[0] = w[c];
        w[c] = keep;
        keep = g[0];
        g[0] = g[c];
        g[c] = keep;
    }
}

/* The argument that is least Gaussian comes first: tails of the others depend on it. */
static void order_arguments(const wv_bend_seen *s, wv_bend *b, wv_arena *arena)
{
    const double much = 1.2;
    size_t worst = 0;
    double first = 0, most = 0;
    for (size_t c = 0; c < s->r; c++) {
        wv_bend_line line = fit_line(s, c, 0, arena);
        double by = crooked(&line);
        first = c ? first : by;
        if (by > most) {
            most = by;
            worst = c;
        }
    }
    if (worst && !(most < much * first))
        swap_arguments(s, b, worst);
}

/* Points were drawn wider than normal along argument c: for the arguments before it, whose scores are means over it,
 * those far out count less. */
static void narrow_weights(const wv_bend_seen *s, const wv_bend_line *line, size_t c)
{
    const double rate = 0.35;
    for (size_t i = 0; i < s->n; i++) {
        double u = wv_bend_line_inverse(line, s->w[i * s->D + c]);
        s->weight[i] *= exp(-rate * u * u);
    }
}

/* What the fit leaves of the scores of the arguments, by a loss that far points hardly touch. */
static double cost_of_arguments(const wv_bend_seen *s, const wv_bend *b, const double *weight)
{
    double sum = 0, total = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t c = 0; c < s->r; c++) {
            double u = wv_bend_line_inverse(&b->line[c], s->w[i * s->D + c]);
            wv_bend_turn t = wv_bend_line_at(&b->line[c], u);
            double left = s->g[i * s->D + c] * t.slope + t.log_slope_change + u;
            sum += isfinite(left) ? weight[i] * left * left / (1 + left * left) : weight[i];
            total += weight[i];
        }
    return sum / fmax(total, 1e-300);
}

static void fit_lines_of_others(const wv_bend_seen *s, wv_bend *b, wv_arena *arena)
{
    for (size_t c = s->r; c < s->D; c++) {
        wv_bend_line line = fit_line(s, c, wv_policy.bend_line_departs, arena);
        wv_bend_set_line(b, c, &line);
    }
}

/* Rows and lines of the arguments, last first. */
static void fit_arguments(const wv_bend_seen *s, wv_bend *b, bool anew, wv_arena *arena)
{
    enum { FEW = 3 }; /* of more, hardly a point would count */
    for (size_t c = s->r; c-- > 0;) {
        wv_bend_seen_fit_row(s, b, c, anew, arena);
        wv_bend_seen_undo_row(s, &b->row[c], c, arena);
        wv_bend_line line = fit_line(s, c, 0, arena);
        wv_bend_set_line(b, c, &line);
        if (s->r <= FEW)
            narrow_weights(s, &line, c);
    }
}

/* The argument that comes first is that with which the others are fitted best. */
static void choose_first(const wv_bend_seen *s, wv_bend *b, wv_arena *arena)
{
    size_t best = 0;
    double least = INFINITY;
    for (size_t c = 0; c < s->r && s->r > 1; c++) {
        size_t mark = wv_arena_mark(arena);
        wv_bend_seen tried = wv_bend_seen_copy(s, arena);
        swap_arguments(&tried, b, c);
        fit_arguments(&tried, b, true, arena);
        double cost = cost_of_arguments(&tried, b, s->weight);
        wv_bend_swap(b, 0, c);
        wv_arena_release(arena, mark);
        if (cost < wv_policy.bend_first_gain * least) {
            least = cost;
            best = c;
        }
    }
    swap_arguments(s, b, best);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */
/* Lines of all coordinates, where nothing depends on anything: scores far out tell as much as those close by. */
static void fit_lines(const wv_bend_pool *p, wv_bend *b, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    wv_bend_seen s = wv_bend_seen_take(p, b->r, arena);
    wv_bend_seen_from(p, b, &s);
    for (size_t i = 0; i < s.n; i++)
        s.weight[i] = 1 / (double)s.n;
    for (size_t c = 0; c < s.D; c++) {
        wv_bend_line line = fit_line(&s, c, 0, arena);
        wv_bend_set_line(b, c, &line);
    }
    wv_arena_release(arena, mark);
}

static void fit_all(const wv_bend_pool *p, wv_bend *b, bool anew, wv_arena *arena)
{
    if (p->lines) {
        fit_lines(p, b, arena);
        return;
    }
    size_t D = p->D, mark = wv_arena_mark(arena);
    bool final = (double)p->round >= wv_policy.bend_rounds_gaussian,
         first = (double)p->round == wv_policy.bend_rounds_gaussian;
    wv_bend_seen s = wv_bend_seen_take(p, b->r, arena);
    wv_bend_line straight;
    wv_bend_line_clear(&straight);
    for (size_t c = 0; c < D; c++)
        wv_bend_set_line(b, c, &straight);
    wv_bend_seen_from(p, b, &s);
    for (size_t c = s.r; c < D; c++)
        wv_bend_seen_undo_row(&s, &b->row[c], c, arena);
    wv_bend_seen_weigh(p, wv_policy.bend_reach_arguments, &s);
    if (!anew) /* a map that was far too wide has drawn points where the density is nothing */
        wv_bend_seen_doubt(&s, wv_policy.bend_doubt_rows);
    wv_bend_others_fit(p, &s, b, anew, arena);
    if (p->round > 1 && (double)p->round <= wv_policy.bend_rounds_gaussian)
        order_arguments(&s, b, arena);
    if (final) {
        wv_bend_seen_weigh(p, wv_policy.bend_clip, &s);
        /* where the others are not standard normal, scores of the arguments mean nothing: in the neck of a funnel, say
         */
        wv_bend_seen_doubt(&s, wv_policy.bend_doubt);
        if (first)
            choose_first(&s, b, arena);
        fit_lines_of_others(&s, b, arena);
        fit_arguments(&s, b, first, arena);
    } else
        standardise(&s, b, arena);
    wv_arena_release(arena, mark);
}

/* The first fit after a look: not all that it has found need be arguments. */
static void begin(const wv_bend_pool *p, wv_bend *b, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    wv_bend_seen s = wv_bend_seen_take(p, b->r, arena);
    wv_bend_seen_from(p, b, &s);
    wv_bend_seen_weigh(p, wv_policy.bend_reach_arguments, &s);
    wv_bend_others_drop(p, &s, b, arena);
    wv_arena_release(arena, mark);
    fit_all(p, b, true, arena);
}

/* The bend gets the arguments that a look has found, in the frame given by root [D][D]; false: there are none. */
static bool look(wv_bend_look *l, const double *root, size_t known, const double *centre, wv_bend *b, wv_arena *arena)
{
    size_t D = l->D, mark = wv_arena_mark(arena);
    double *basis = wv_arena_take(arena, D * D);
    size_t r = wv_bend_look_find(l, root, known, basis, arena);
    bool good = r && wv_bend_set_frame(b, r, centre, basis, arena);
    wv_arena_release(arena, mark);
    return good;
}

/* Where the axes are independent, the map has lines alone: one argument, on which nothing depends. */
static bool set_separate(wv_bend_pool *p, const wv_bend_look *l, const double *root, const double *centre, wv_bend *b,
                         wv_arena *arena)
{
    size_t D = l->D, mark = wv_arena_mark(arena);
    double *basis = wv_arena_take(arena, D * D);
    bool good = (double)l->n > wv_policy.bend_least * (double)D && wv_bend_look_separate(l, root, basis, arena) &&
                wv_bend_set_frame(b, 1, centre, basis, arena);
    p->lines = good;
    wv_arena_release(arena, mark);
    return good;
}

bool wv_bend_seems(const wv_bend_pool *p, const double *mu, const double *root, wv_arena *arena)
{
    size_t n = p->n, D = p->D, mark = wv_arena_mark(arena);
    wv_bend_pool near = *p;
    near.x = memcpy(wv_arena_take(arena, n * D), p->x, n * D * sizeof *p->x);
    near.g = memcpy(wv_arena_take(arena, n * D), p->g, n * D * sizeof *p->g);
    near.log_p = memcpy(wv_arena_take(arena, n), p->log_p, n * sizeof *p->log_p);
    near.born = memcpy(wv_arena_take(arena, n), p->born, n * sizeof *p->born);
    double *basis = wv_arena_take(arena, D * D);
    wv_bend_look l = wv_bend_look_take(n, D, arena);
    wv_bend_pool_whiten(&near, mu, root, l.z, l.rho);
    l.n = near.n;
    bool found = D > 1 && n && wv_bend_look_find(&l, root, 0, basis, arena);
    wv_arena_release(arena, mark);
    return found;
}

bool wv_bend_find(wv_bend_pool *p, wv_bend *b, const double *mu, const double *root, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    bool found = false;
    if (p->D > 1 && p->n > 0) {
        wv_bend_look l = wv_bend_look_take(p->n, p->D, arena);
        wv_bend_pool_whiten(p, mu, root, l.z, l.rho);
        l.n = p->n;
        found = look(&l, root, 0, mu, b, arena);
        found = set_separate(p, &l, root, mu, b, arena) || found;
    }
    if (found) {
        p->round = p->batch = 1;
        begin(p, b, arena);
        wv_bend_count(b, 1, 0);
    }
    wv_arena_release(arena, mark);
    return found;
}

/* Points near the present map, in its coordinates u, and what it leaves of their scores. */
static void see_rest(const wv_bend_pool *p, const wv_bend *b, const wv_bend_seen *s, wv_bend_look *l, wv_arena *arena)
{
    const double least = 0.1;
    size_t D = p->D, mark = wv_arena_mark(arena);
    double *log_p = wv_arena_take(arena, p->n);
    memcpy(log_p, p->log_p, p->n * sizeof *log_p);
    memcpy(s->g, p->g, p->n * D * sizeof *s->g);
    wv_bend_inverse(b, p->n, p->x, s->w, arena);
    wv_bend_pull(b, p->n, s->w, log_p, s->g, arena);
    wv_bend_seen_weigh(p, wv_policy.bend_reach_arguments, s);
    l->n = 0;
    for (size_t i = 0; i < s->n; i++) {
        double *z = l->z + l->n * D, *rho = l->rho + l->n * D, size = 0;
        memcpy(z, s->w + i * D, D * sizeof *z);
        for (size_t k = 0; k < D; k++) {
            rho[k] = s->g[i * D + k] + z[k];
            size += rho[k] * rho[k] + z[k] * z[k];
        }
        l->n += s->weight[i] * (double)s->n > least && isfinite(log_p[i]) && isfinite(size);
    }
    wv_arena_release(arena, mark);
}

/* Looks for more arguments in what the present map leaves of the scores; true: there are some, and the map has been
 * fitted anew with them. */
static bool look_again(wv_bend_pool *p, wv_bend *b, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    wv_bend_seen s = wv_bend_seen_take(p, b->r, arena);
    wv_bend_look l = wv_bend_look_take(p->n, p->D, arena);
    see_rest(p, b, &s, &l, arena);
    bool found = look(&l, b->basis, b->r, b->centre, b, arena);
    wv_arena_release(arena, mark);
    return found;
}

bool wv_bend_tells_arms(const wv_bend_pool *p)
{
    return (double)p->round > wv_policy.bend_rounds_gaussian && !p->lines;
}

void wv_bend_draw(const wv_bend_pool *p, const wv_bend *b, const wv_stream *stream, size_t n, double *x,
                  wv_arena *arena)
{
    enum { WIDTHS = 4 };
    static const double wide[WIDTHS] = {1.3, 1.3, 2, 3}, far[WIDTHS] = {1.3, 4, 3, 4};
    size_t D = b->D, mark = wv_arena_mark(arena);
    double *u = wv_arena_take(arena, n * D);
    wv_rng_normal(stream, 0, n / 2 * D, u);
    for (size_t i = 0; i < n / 2; i++) {
        bool alone = wv_bend_tells_arms(p) && i % 2; /* one argument far out, the others not */
        double by = wv_bend_tells_arms(p) ? far[i % WIDTHS] : wide[p->round > 1 ? i % WIDTHS : 0];
        for (size_t k = 0; k < D; k++) {
            bool wider = p->lines || (alone ? k == i / WIDTHS % b->r : k < b->r);
            u[i * D + k] *= wider ? by : 1;
            u[(n / 2 + i) * D + k] = -u[i * D + k];
        }
    }
    wv_bend_forward(b, n, u, x, NULL, arena);
    wv_arena_release(arena, mark);
}

bool wv_bend_learn(wv_bend_pool *p, wv_bend *b, size_t n, const double *x, const double *log_p, const double *grad,
                   wv_arena *arena)
{
    wv_bend_pool_take(p, n, x, log_p, grad);
    fit_all(p, b, false, arena);
    p->round++;
    p->batch++;
    if (!p->lines && p->round == (size_t)wv_policy.bend_rounds_look && (double)p->looks < wv_policy.bend_looks &&
        look_again(p, b, arena)) {
        p->looks++;
        p->round = 2;
        begin(p, b, arena);
    }
    return (double)p->round > wv_policy.bend_rounds;
}
