/* pass.h - what models do to each element of an array, as vector code, compiled for several instruction sets;
 * which of them runs is decided by the processor. They differ in the last bits only: sums are taken in the same
 * order, but where there are fused multiplications and additions these are used (CMakeLists.txt). Sizes called
 * width and n are multiples of WV_PASS_WIDTH. */
#ifndef WV_PASS_H
#define WV_PASS_H
#include "simd/instructions.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    WV_PASS_WIDTH = 8, /* what is padded is padded to */
    WV_PASS_ROWS = 512 /* rows of softplus at most */
};

/* A Gaussian process, and its times, one or many. */
typedef struct {
    double A, half_precision; /* 1 / (2 s^2) */
} wv_pass_process;

typedef struct {
    const double *t, *cosine, *sine, *alpha;
} wv_pass_time;

typedef struct {
    const char *name;
    wv_instructions needs; /* of the processor */

    /* s [rows][width]: sum[i] += sum_r log(1 + exp(s[r][i])), and s becomes the derivative, sigmoid(s). Exact to
     * rounding for any s; infinite where s is, NaN where s is NaN. */
    void (*softplus)(size_t rows, size_t width, double *s, double *sum);

    /* The same with times[rows]: sum[i] += sum_r times[r] log(1 + exp(s[r][i])), and s becomes times sigmoid(s). */
    void (*softplus_times)(size_t rows, size_t width, const double *times, double *s, double *sum);

    /* s becomes exp(s), and sum[i] the sum of it. Infinite where s is above 700. */
    void (*exp)(size_t rows, size_t width, double *s, double *sum);

    /* Negative binomials of counts y[rows] with weights times[rows]: with u = s - log(shape[i]) and l = log(1 + exp u),
     *     sum[0][i] += sum_r times y l,  sum[1][i] += sum_r times l,  sum[2][i] += sum_r times (y + shape) sigmoid(u),
     * and s becomes the last term. scale: shape[width] and its log[width]. Fast where equal pairs of y and times stand
     * side by side. */
    void (*negbinomial)(size_t rows, size_t width, const double *y, const double *times, const double *scale, double *s,
                        double *sum);

    /* sum[0][i] = sum_k times[k] log(shape[i] + k), k < n, and sum[1] its derivative by the shape; to both is added
     * what far[far_n] counts, larger than n, have more: log Gamma(shape + far) - log Gamma(shape + n), if n is 256. */
    void (*rising)(size_t n, const double *times, size_t far_n, const double *far, const double *far_times,
                   size_t width, const double *shape, double *sum);

    /* Student's t around s: with r = y[rows] - s and v = r^2 scale[i],
     *     sum[0][i] += sum_r times log(1 + v),  sum[1][i] += sum_r times v / (1 + v),
     * and s becomes -times r scale / (1 + v). */
    void (*student)(size_t rows, size_t width, const double *y, const double *times, const double *scale, double *s,
                    double *sum);

    /* x[n] becomes its hyperbolic tangent. */
    void (*tanh)(size_t n, double *x);

    /* The way back through it: T[h][i], a tangent, becomes w[h] df[i] (1 - T^2), h < H, i < n. */
    void (*tanh_back)(size_t H, size_t n, const double *w, const double *df, double *T);

    /* v[d][i] = z[d][i] - mean[d], for D rows of `width`. */
    void (*centre)(size_t D, size_t width, const double *z, const double *mean, double *v);

    /* Adds a Gaussian to a mixture of which log p[i] = top[i] + log(total[i]) and its gradient is
     * grad[d][i] / total[i]: log g[i] = log_weight - |v[.][i]|^2 / 2 is the new one's density, slope[d][i]
     * minus the gradient of that. Where log g is NaN (from overflow: too far away to count) nothing is
     * added. grad and slope: NULL for none. */
    void (*add_gaussian)(size_t D, size_t width, double log_weight, const double *v, const double *slope, double *top,
                         double *total, double *grad);

    /* A row of a covariance: with dt = at->t - times->t[i], decay[i] = A exp(-dt^2 / (2 s^2)) and K[i] = decay[i]
     * cos(omega dt), where cosine and sine are those of omega t. decay is taken for 0 where it is below 1e-100 A. */
    void (*covariance)(size_t n, const wv_pass_process *p, const wv_pass_time *at, const wv_pass_time *times,
                       double *decay, double *K);

    /* What the row adds to a gradient, with weight[i] = (at->alpha times->alpha[i] - inverse[i]) decay[i]: sums of
     * weight cos(omega dt), of it times dt^2, and of weight sin(omega dt) dt. */
    void (*covariance_back)(size_t n, const wv_pass_time *at, const wv_pass_time *times, const double *decay,
                            const double *inverse, double sums[3]);
} wv_pass;

/* The best that the processor has; and number `which` of all, NULL past the last. */
const wv_pass *wv_pass_best(void);
const wv_pass *wv_pass_number(size_t which);

/* n rounded up to a multiple of WV_PASS_WIDTH. */
size_t wv_pass_width(size_t n);
#endif
