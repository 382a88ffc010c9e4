/* targets.h - models with known truths, for tests.
 *
 * Each constructor fills *model and returns 0, or returns -1 (no memory, or a matrix that is not positive definite)
 * and leaves *model alone. Arrays given are copied. Free with model.close(model.self). All have gradients, are
 * thread safe and evaluate in batches. Unless said otherwise the log density is normalised: the log evidence is 0. */
#ifndef TARGETS_H
#define TARGETS_H

#include <stdint.h>

#include "wvgd_model.h"

/* What is known of a target. */
typedef struct {
    double log_evidence; /* log of the integral of the density; NAN: unknown */
    const double *mean;  /* [D] NULL: unknown, or there is none */
    const double *cov;   /* [D][D] NULL: unknown, or there is none */
} target_truth;

/* The truth of a model made here; valid until the model is closed. */
target_truth target_truth_of(const wvgd_model *model);

/* N(mean, cov), or N(mean, precision^-1). Without `normalised` the log density is -(z-m)' precision (z-m)/2. */
int target_gaussian_cov(wvgd_model *model, size_t D, const double *mean, const double *cov, bool normalised);
int target_gaussian_precision(wvgd_model *model, size_t D, const double *mean, const double *precision,
                              bool normalised);

/* A Gaussian with random axes, whose standard deviations go geometrically from 1 down to
 * 1/sqrt(condition); mean of N(0, 1) entries. */
int target_gaussian_random(wvgd_model *model, size_t D, double condition, uint64_t seed, bool normalised);

/* sum_k weight[k] N(mean[k], cov[k]); mean: [K][D], cov: [K][D][D]. Weights need not sum to 1: the
 * log evidence is the log of their sum. */
int target_mixture(wvgd_model *model, size_t D, size_t K, const double *weight, const double *mean, const double *cov);

/* The same in one dimension; weight, mean, sd: [K]. */
int target_mixture_1d(wvgd_model *model, size_t K, const double *weight, const double *mean, const double *sd);

/* K components with weights U(0.2, 1) normalised, means N(0, spread^2), random axes with standard
 * deviations U(0.3, 1). */
int target_mixture_random(wvgd_model *model, size_t D, size_t K, double spread, uint64_t seed);

/* Fills weight[K] (0.2 to 1, normalised), mean[K][D] (uniform in [-box, box]^D, all at least `apart`
 * apart) and cov[K][D][D] (random axes, standard deviations geometrically from 1 down to 1/sqrt(3):
 * all of one size) for target_mixture. */
void target_separated(size_t D, size_t K, double box, double apart, uint64_t seed, double *weight, double *mean,
                      double *cov);

/* The same mixture in coordinates A z; A: [D][D]. */
void target_transform(size_t D, size_t K, const double *A, double *mean, double *cov);

/* sum_k weight[k] t_nu(mean[k], scale[k]); scale: [K][D][D] is the matrix of the quadratic form's inverse (the
 * covariance is nu/(nu-2) times it). The truth has moments for nu > 2. */
int target_student_mixture(wvgd_model *model, size_t D, size_t K, double nu, const double *weight, const double *mean,
                           const double *scale);

/* Logistic regression with priors N(0, 1) (their constants included): X: [n][D] with the column of ones, if any, in
 * place (the last, by the convention here); y: [n] in {0, 1}. Nothing is known beforehand: see logistic_truth.h. */
int target_logistic(wvgd_model *model, size_t n, size_t D, const double *X, const double *y);

/* Rosenbrock's valley in D/2 independent pairs (D even), density exp(-((1-x)^2 + 100 (y-x^2)^2)/20), normalised. */
int target_rosenbrock(wvgd_model *model, size_t D);

/* Neal's funnel: v = z[0] of N(0, sd^2), z[i] given v of N(0, exp(v)) for i = 1..D-1. */
int target_funnel(wvgd_model *model, size_t D, double sd);

/* The banana: z[0] of N(0, sd^2), z[1] + bend (z[0]^2 - sd^2) of N(0, 1), the other coordinates of N(0, 1); D >= 2. */
int target_banana(wvgd_model *model, size_t D, double sd, double bend);

/* Logs of independent gamma variables of these shapes: z[i] has mean psi(shapes[i]) and variance
 * psi'(shapes[i]), and a longer tail to the left. */
int target_log_gamma(wvgd_model *model, size_t D, const double *shapes);

/* Independent standard Cauchy coordinates: no moments. */
int target_cauchy(wvgd_model *model, size_t D);

/* A cost: sum_i sqrt(1 + (a_i - b_i)^2) - 1. */
double target_smooth_cost(void *self, size_t dim, const double *a, const double *b, double *grad_a);

/* Largest difference, over n points z[n][D], between the model's gradient and central differences of its log
 * density, relative to 1 + the gradient's size. NAN if the model fails. */
double target_gradient_error(const wvgd_model *model, size_t n, const double *z);

/* Log-gammas of shapes 2, 8, 2, 8, 2, 8; one Student-t with 5 degrees of freedom in three dimensions. */
int target_skewed(wvgd_model *model);
int target_student(wvgd_model *model);
#endif
