/* weights.c - log-sum-exp, normalised weights, effective sample size, Pareto k-hat (method, sections 3 and 5). */
#include "weights.h"
#include "limit.h"
#include "policy.h"
#include "simd/columns.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* out = exp(x - top), by whole vectors and then one by one. */
static void exponentials(size_t n, double top, const double *x, double *out)
{
    size_t whole = n - n % WV_COLUMNS_WIDTH;
    double tail[WV_COLUMNS_WIDTH];
    wv_columns_best()->exponentials(whole, top, x, out);
    for (size_t i = whole; i < whole + WV_COLUMNS_WIDTH; i++)
        tail[i - whole] = i < n ? x[i] : -INFINITY;
    wv_columns_best()->exponentials(WV_COLUMNS_WIDTH, top, tail, tail);
    memcpy(out + whole, tail, (n - whole) * sizeof *out);
}

void wv_weights_exp(size_t n, double *x)
{
    exponentials(n, 0, x, x);
}

double wv_weights_largest(size_t n, const double *w)
{
    double top = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (w[i] > top)
            top = w[i];
    return top;
}

double wv_weights_lse(size_t n, const double *log_w)
{
    double top = wv_weights_largest(n, log_w), sum = 0;
    if (top == -INFINITY)
        return top;
    for (size_t i = 0; i < n; i++)
        sum += exp(log_w[i] - top);
    return top + log(sum);
}

bool wv_weights_normalise(size_t n, const double *log_w, double *w)
{
    double top = wv_weights_largest(n, log_w), sum = 0;
    if (top == -INFINITY) {
        memset(w, 0, n * sizeof *w);
        return false;
    }
    exponentials(n, top, log_w, w);
    for (size_t i = 0; i < n; i++)
        sum += w[i];
    for (size_t i = 0; i < n; i++)
        w[i] /= sum;
    return true;
}

double wv_weights_ess(size_t n, const double *w)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += w[i];
        squares += w[i] * w[i];
    }
    return squares > 0 ? sum * sum / squares : 0;
}

void wv_weights_add_log(size_t n, double *out, double log_w, const double *log_q)
{
    for (size_t k = 0; k < n; k++) {
        double a = out[k], b = log_w + log_q[k], top = a > b ? a : b;
        if (top > -INFINITY)
            out[k] = top + log1p(exp((a > b ? b : a) - top));
    }
}

/* ---- Pareto k-hat ------------------------------------------------------------------------------------------------ */
static int ascending(const void *a, const void *b, void *key)
{
    const double *w = key;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    return w[i] != w[k] ? (w[i] < w[k] ? -1 : 1) : (i < k ? -1 : i > k);
}

/* The `last` largest of log_w[n] at the end of order[n], sorted, without allocation (heap sort):
 * qsort_r may allocate. */
static void sort_by(size_t n, uint32_t *order, const double *log_w, size_t last)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t end = n, root = n / 2; end > 1 && end > n - last;) {
        uint32_t value;
        if (root > 0)
            value = order[--root];
        else {
            value = order[--end];
            order[end] = order[0];
        }
        size_t at = root;
        for (size_t child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && ascending(&order[child], &order[child + 1], (void *)(uintptr_t)log_w) < 0)
                child++;
            if (ascending(&value, &order[child], (void *)(uintptr_t)log_w) >= 0)
                break;
            order[at] = order[child];
        }
        order[at] = value;
    }
}

/* A merge sort: runs of twice the length, from one array into the other. */
void wv_weights_order(size_t n, const double *w, uint32_t *order, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    uint32_t *from = order, *to = wv_arena_take_index(arena, n);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t first = 0, at = 0; first < n; first += 2 * run) {
            size_t i = first, middle = first + run < n ? first + run : n, k = middle,
                   end = middle + run < n ? middle + run : n;
            while (i < middle && k < end) {
                bool second = w[from[k]] < w[from[i]];
                to[at++] = from[second ? k : i];
                k += second;
                i += !second;
            }
            memcpy(to + at, from + i, (middle - i) * sizeof *to);
            at += middle - i;
            memcpy(to + at, from + k, (end - k) * sizeof *to);
            at += end - k;
        }
        uint32_t *other = from;
        from = to;
        to = other;
    }
    memcpy(order, from, from == order ? 0 : n * sizeof *order);
    wv_arena_release(arena, mark);
}

/* The number of x[n] with so many below it, as in order; x is reordered (quickselect). */
static double of_rank(size_t n, double *x, size_t rank)
{
    for (size_t low = 0, high = n - 1; low < high;) {
        double middle = x[low + (high - low) / 2];
        size_t i = low, k = high;
        for (;; i++, k--) {
            while (x[i] < middle)
                i++;
            while (x[k] > middle)
                k--;
            if (i >= k)
                break;
            double swapped = x[i];
            x[i] = x[k];
            x[k] = swapped;
        }
        if (rank <= k)
            high = k;
        else
            low = k + 1;
    }
    return x[rank];
}

double wv_weights_smallest(size_t n, const double *w, size_t k, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *x = wv_arena_take(arena, n + 1);
    memcpy(x, w, n * sizeof *x);
    double found = k < n ? of_rank(n, x, k) : 0;
    wv_arena_release(arena, mark);
    return found;
}

/* Mean of log(1 - theta x) over the exceedances: logarithms of products of factors, where these are numbers. */
static double shape_at(double theta, size_t m, const double *x)
{
    enum { FACTORS = 16 };
    double sum = 0;
    size_t i = 0;
    for (; i + FACTORS <= m; i += FACTORS) {
        double p[4] = {1, 1, 1, 1}; /* so that they do not wait for each other */
        for (size_t k = i; k < i + FACTORS; k += 4) {
            p[0] *= 1 - theta * x[k];
            p[1] *= 1 - theta * x[k + 1];
            p[2] *= 1 - theta * x[k + 2];
            p[3] *= 1 - theta * x[k + 3];
        }
        double product = p[0] * p[1] * (p[2] * p[3]);
        if (product > 1e-300 && product < INFINITY)
            sum += log(product);
        else
            for (size_t k = i; k < i + FACTORS; k++)
                sum += log1p(-theta * x[k]);
    }
    for (; i < m; i++)
        sum += log1p(-theta * x[i]);
    return sum / (double)m;
}

/* Generalised Pareto fit of sorted exceedances x[m]: the posterior mean of theta on Zhang and Stephens's grid, then
 * shape and scale; shape shrunk towards 1/2 as if by ten more observations. */
static double pareto_fit(size_t m, const double *x, double *scale)
{
    size_t grid = 30 + (size_t)sqrt((double)m);
    double quartile = x[(size_t)((double)m / 4 + 0.5) - 1], top = -INFINITY, theta = 0, total = 0;
    for (size_t i = 1; i <= grid; i++) {
        double t = 1 / x[m - 1] + (1 - sqrt((double)grid / ((double)i - 0.5))) / (3 * quartile);
        double k = shape_at(t, m, x), likelihood = (double)m * (log(-t / k) - k - 1);
        if (likelihood > top) {
            theta *= exp(top - likelihood);
            total *= exp(top - likelihood);
            top = likelihood;
        }
        theta += t * exp(likelihood - top);
        total += exp(likelihood - top);
    }
    theta /= total;
    double k = shape_at(theta, m, x);
    *scale = -k / theta;
    return ((double)m * k + 5) / ((double)m + 10);
}

/* k-hat of the sorted exceedances x[m] of weights whose largest is 1 and which sum to `all`. */
static double exceedance_shape(size_t m, const double *x, double all, double *scale)
{
    if (!(x[m - 1] > 1e-12) || !(x[(size_t)((double)m / 4 + 0.5) - 1] > 0))
        return NAN; /* equal weights have no tail */
    double k = pareto_fit(m, x, scale), above = 0;
    for (size_t i = 0; i < m; i++)
        above += x[i];
    /* nor have weights that are so even one that matters */
    return k > wv_policy.khat_even && above < wv_policy.khat_even_share * all ? NAN : k;
}

/* x[m] <- the exceedances of the m largest weights. */
static void exceed(size_t n, const double *log_w, const uint32_t *order, size_t m, double *x)
{
    double top = log_w[order[n - 1]], cut = log_w[order[n - m - 1]];
    for (size_t i = 0; i < m; i++)
        x[i] = exp(log_w[order[n - m + i]] - top) - exp(cut - top);
}

/* k-hat of the *m largest weights; order: [n], x: [*m] scratch. A Pareto tail has the same shape above any higher
 * threshold. Where that of the upper half is lower by far, the tail begins higher up: below it are weights that are all
 * alike, with exceedances that are next to nothing. *m becomes as many as are left. */
static double stable_shape(size_t n, const double *log_w, const uint32_t *order, double all, size_t *m, double *x,
                           double *scale)
{
    exceed(n, log_w, order, *m, x);
    double k = exceedance_shape(*m, x, all, scale), above;
    for (; *m / 2 >= (size_t)wv_policy.khat_tail_least; k = above, *m /= 2) {
        double spread;
        exceed(n, log_w, order, *m / 2, x);
        above = exceedance_shape(*m / 2, x, all, &spread);
        if (!(k - above > wv_policy.khat_tail_errors * (1 + k) / sqrt((double)*m)))
            break;
        *scale = spread;
    }
    return k;
}

/* k-hat of the m largest weights; order: [n], x: [m] scratch. */
static double pareto_tail(size_t n, const double *log_w, size_t m, double *smoothed, uint32_t *order, double *x)
{
    sort_by(n, order, log_w, m + 1);
    double top = log_w[order[n - 1]], scale = NAN, all = 0;
    if (!(log_w[order[n - m - 1]] > -INFINITY) || !isfinite(top))
        return NAN;
    for (size_t i = 0; i < n; i++)
        all += exp(log_w[i] - top);
    double k = stable_shape(n, log_w, order, all, &m, x, &scale), cut = log_w[order[n - m - 1]];
    if (smoothed && isfinite(k))
        for (size_t i = 0; i < m; i++) {
            double p = ((double)i + 0.5) / (double)m;
            double quantile = fabs(k) > 1e-8 ? scale * expm1(-k * log1p(-p)) / k : -scale * log1p(-p);
            smoothed[order[n - m + i]] = fmin(top + log(quantile + exp(cut - top)), top);
        }
    return k;
}

double wv_weights_tail(double n)
{
    return fmin(0.2 * n, 3 * sqrt(n));
}

double wv_weights_pareto_k(size_t n, const double *log_w, double *smoothed, wv_arena *arena)
{
    if (smoothed)
        memcpy(smoothed, log_w, n * sizeof *smoothed);
    size_t m = (size_t)wv_weights_tail((double)n);
    if (m < 5)
        return NAN;
    size_t mark = wv_arena_mark(arena);
    double k = pareto_tail(n, log_w, m, smoothed, wv_arena_take_index(arena, n), wv_arena_take(arena, m));
    wv_arena_release(arena, mark);
    return k;
}

/* ---- tails of a function ----------------------------------------------------------------------------------------- */
size_t wv_weights_find_large(size_t n, const double *r, double top, size_t most, uint32_t *large)
{
    enum { MANTISSA = 50, BINS = 256 }; /* counted by quarters of powers of two below the largest */
    uint32_t count[BINS] = {0};
    uint64_t first, bits;
    memcpy(&first, &top, sizeof first);
    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, &r[i], sizeof bits);
        uint64_t bin = (first >> MANTISSA) - (bits >> MANTISSA);
        count[bin < BINS ? bin : BINS - 1]++;
    }
    size_t last = 0, found = 0;
    for (size_t sum = count[0]; sum < most && last + 1 < BINS;)
        sum += count[++last];
    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, &r[i], sizeof bits);
        if ((first >> MANTISSA) - (bits >> MANTISSA) <= last || last + 1 == BINS)
            large[found++] = (uint32_t)i;
    }
    return found;
}

/* k-hat of the m largest of r[n], none of which is negative, of largest `top` and that sum. */
static double number_tail(size_t n, const double *r, double top, double sum, size_t m, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    uint32_t *index = wv_arena_take_index(arena, n), *order;
    double *x = wv_arena_take(arena, m), *large, k = NAN, scale;
    size_t found = wv_weights_find_large(n, r, top, m + 1, index);
    large = wv_arena_take(arena, found);
    order = wv_arena_take_index(arena, found);
    for (size_t i = 0; i < found; i++)
        large[i] = r[index[i]];
    wv_weights_order(found, large, order, arena);
    double cut = large[order[found - m - 1]];
    for (size_t i = 0; i < m; i++)
        x[i] = (large[order[found - m + i]] - cut) / top;
    if (cut > 0)
        k = exceedance_shape(m, x, sum / top, &scale);
    wv_arena_release(arena, mark);
    return k;
}

/* k-hat of v (value - mean)^2 as it is drawn, less a standard error or more: about (1 + k) / sqrt(m) for a tail of m
 * draws, before it is shrunk. Where no draw makes up much of the variance its tail does no harm. */
static double drawn_tail(size_t n, const double *v, const double *value, double mean, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *r = wv_arena_take(arena, n), m = floor(wv_weights_tail((double)n)), far = 0, most = 0, sum = 0, k = NAN;
    for (size_t i = 0; i < n; i++) {
        r[i] = v[i] > 0 ? fabs(value[i] - mean) : 0;
        far = r[i] > far ? r[i] : far;
    }
    for (size_t i = 0; i < n; i++) {
        double d = r[i] * (1 / far);
        r[i] = v[i] * d * d;
        most = r[i] > most ? r[i] : most;
        sum += r[i];
    }
    if (m >= 5 && most > 0)
        k = number_tail(n, r, most, sum, (size_t)m, arena);
    wv_arena_release(arena, mark);
    k -= wv_policy.tail_drawn_errors * (1 + k) * sqrt(m) / (m + 10);
    return most / sum > wv_policy.tail_drawn_share ? k : fmin(k, wv_policy.results_khat_limit);
}

/* S draws of equal weight, evenly spaced among those with weights v. */
static void even_draws(size_t n, const double *v, size_t S, uint32_t *even)
{
    double sum = v[0];
    for (size_t k = 0, i = 0; k < S; k++) {
        while (sum < ((double)k + 0.5) / (double)S && i + 1 < n)
            sum += v[++i];
        even[k] = (uint32_t)i;
    }
}

/* Twice k-hat of |value - median| in the posterior, that is k-hat of its square, less a standard error. draw[S]: even
 * draws. */
static double posterior_tail(size_t S, const uint32_t *draw, const double *value, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double m = floor(wv_weights_tail((double)S)), far = 0, sum = 0;
    if (!(m >= 5))
        return NAN;
    double *even = wv_arena_take(arena, S), *spare = wv_arena_take(arena, S);
    for (size_t i = 0; i < S; i++)
        even[i] = spare[i] = value[draw[i]];
    double median = of_rank(S, spare, S / 2);
    for (size_t i = 0; i < S; i++) {
        even[i] = fabs(even[i] - median);
        far = even[i] > far ? even[i] : far;
        sum += even[i];
    }
    double shrunk = far > 0 ? number_tail(S, even, far, sum, (size_t)m, arena) : NAN, k = (shrunk * (m + 10) - 5) / m;
    wv_arena_release(arena, mark);
    return 2 * (k - wv_policy.tail_posterior_errors * (1 + k) / sqrt(m));
}

void wv_weights_tail_indices(size_t n, const double *v, size_t m, const double *value, size_t ld, const double *mean,
                             const double *var, const double *sd_se, double *tail_k, wv_arena *arena)
{
    enum { LINE = 8 }; /* numbers that are read together */
    size_t S = (size_t)wv_weights_ess(n, v), mark = wv_arena_mark(arena);
    double *columns = wv_arena_take(arena, LINE * n); /* [LINE][n] */
    uint32_t *even = wv_arena_take_index(arena, S);
    even_draws(n, v, S, even);
    for (size_t first = 0; first < m; first += LINE) {
        size_t here = m - first < LINE ? m - first : LINE;
        wv_limit_look(arena);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < here; k++)
                columns[k * n + i] = v[i] > 0 ? value[i * ld + first + k] : 0;
        for (size_t k = first; k < first + here; k++) {
            const double *column = columns + (k - first) * n;
            double tail = fmax(drawn_tail(n, v, column, mean[k], arena), posterior_tail(S, even, column, arena));
            bool harmless = !(sd_se[k] / sqrt(var[k]) > wv_policy.tail_harmless);
            tail_k[k] = harmless ? fmin(tail, wv_policy.results_khat_limit) : tail;
        }
    }
    wv_arena_release(arena, mark);
}
