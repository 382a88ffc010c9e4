/* models.h - the built-in models, from plain arrays. Each constructor fills *model, copies what it needs, and
 * returns 0; or it returns -1 and leaves *model alone: no memory, sizes that are 0 or beyond BLAS, or as said below.
 * wvgd_model_close frees. Log densities are normalised: their integral is the evidence p(x); all have exact
 * gradients, are thread safe, and evaluate batches; all but mixtures start from draws of their priors; where a point
 * cannot be evaluated the log density is -INFINITY, never NaN. Values of a point do not depend on the other points
 * beyond rounding, and not on the number of threads at all. */
#ifndef WV_MODELS_H
#define WV_MODELS_H
#include "wvgd_model.h"

/* sum_k weight_k N(z; mean_k, cov_k): mean [K][D], cov [K][D][D]. Weights need not sum to 1: the log
 * evidence is the log of their sum. -1 also for a weight that is not positive or a covariance that is not
 * positive definite. Coordinates have no names. */
int wv_model_mixture(wvgd_model *model, size_t D, size_t K, const double *weight, const double *mean,
                     const double *cov);

/* Prior of a parameter. A coefficient has one of the first three; positive parameters have any, cut off at 0. */
typedef enum {
    WV_PRIOR_NORMAL,      /* mean a, sd b */
    WV_PRIOR_STUDENT,     /* a degrees of freedom, location b, scale c */
    WV_PRIOR_CAUCHY,      /* location a, scale b */
    WV_PRIOR_EXPONENTIAL, /* rate a */
    WV_PRIOR_GAMMA,       /* shape a, rate b */
    WV_PRIOR_LOGNORMAL    /* mean a and sd b of the log */
} wv_prior_kind;
typedef struct {
    wv_prior_kind kind;
    double a, b, c;
} wv_prior;

/* Rows of a regression. Features are X [rows][columns] with column names names[columns]. */
typedef struct {
    size_t rows, columns;
    const double *X; /* [rows][columns] */
    const double *y; /* [rows] 0/1 for classification, real for regression */
    const char *const *names;
    bool standardize; /* centre each feature and divide by its sample sd (n - 1); constant columns
                       * become 0. y is left as it is */
    bool intercept;   /* append a column of ones: the LAST weight, named "intercept" */
    double prior_sd;  /* > 0, of every weight: N(0, prior_sd^2); where there is noise, sigma ~ half-Cauchy(prior_sd) */
    const wv_prior *prior; /* of linear: [columns + intercept + 1] of weights, intercept and sigma; NULL: as above */
    bool centred;          /* of linear: the prior of the intercept is for features less their means */
    void (*give_back)(void *memory, size_t bytes); /* takes what of X is not read again; NULL: X stays as it is */
} wv_regression;

/* y_i ~ Bernoulli(sigmoid(x_i . w)). Coordinates: the features' names, intercept. */
int wv_model_logistic(wvgd_model *model, const wv_regression *data);

/* y_i ~ N(x_i . w, sigma^2). Coordinates: the features' names, intercept, log_sigma. */
int wv_model_linear(wvgd_model *model, const wv_regression *data);

/* Generalised linear models: with eta_i = x_i . w + offset_i, the response y_i is
 *     gaussian      N(eta, sigma^2)
 *     student       eta + sigma t, t with nu degrees of freedom
 *     bernoulli     1 with probability sigmoid(eta)
 *     binomial      a number of successes in trials_i, each with probability sigmoid(eta)
 *     poisson       a count of mean exp(eta)
 *     negbinomial   a count of mean m = exp(eta) and variance m + m^2 / shape
 * The log density of each row is multiplied by its weight. */
typedef enum { WV_GAUSSIAN, WV_STUDENT, WV_BERNOULLI, WV_BINOMIAL, WV_POISSON, WV_NEGBINOMIAL } wv_likelihood;

typedef struct {
    wv_likelihood likelihood;
    size_t rows, columns;
    const double *X;          /* [rows][columns] */
    const double *y;          /* [rows] whole numbers, from 0 on, for the last four */
    const double *trials;     /* [rows] of binomial, whole numbers, at least y; NULL for others */
    const double *weight;     /* [rows] not negative; NULL: 1 */
    const double *offset;     /* [rows] NULL: 0 */
    const char *const *names; /* [columns] */
    bool intercept;
    const wv_prior *prior; /* [columns + intercept + parameters] in the order of the coordinates */
    const double *centre;  /* [columns] the prior of the intercept is that of intercept + centre . w; NULL: 0 */
    void (*give_back)(void *memory, size_t bytes); /* of gaussian: takes what of X is not read again, or NULL */
} wv_glm;

/* Coordinates: the columns' names, intercept, then log_sigma (gaussian, student), log_nu (student), log_shape
 * (negbinomial). */
int wv_model_glm(wvgd_model *model, const wv_glm *data);

/* y(t) ~ GP with mean 0 and covariance A exp(-(t-t')^2/(2 s^2)) cos(2 pi f (t-t')) + B [t = t'] (the same
 * observation, not only the same time); coordinates log_A, log_f, log_s, log_B with independent normal priors. */
typedef struct {
    double mean[4], sd[4]; /* of log_A, log_f, log_s, log_B */
} wv_gp_prior;
int wv_model_gp(wvgd_model *model, size_t n, const double *t, const double *y, const wv_gp_prior *prior);

/* One hidden layer of `hidden` tanh units, weights and biases N(0, prior_sd^2); binary: Bernoulli output, else
 * normal with an unknown sigma. Biases are always there: data->intercept is not read. Coordinates: w1[h,i] (all i of
 * unit 1, then of unit 2, ...), b1[h], w2[h], b2 and, unless binary, log_sigma; indices from 1. */
int wv_model_bnn(wvgd_model *model, const wv_regression *data, size_t hidden, bool binary);

/* A cost between weights of a bnn that looks at what they predict: the angle arccos(<f_a, f_b> / (|f_a|
 * |f_b|)) between their outputs f (before the sigmoid, if binary) on the rows of the data. Mirror
 * images, hidden units in another order or with other signs, have cost 0. *model: of wv_model_bnn
 * itself, which must outlive it. NULL: no memory. */
typedef struct wv_bnn_angle wv_bnn_angle;
wv_bnn_angle *wv_bnn_angle_new(const wvgd_model *model);
void wv_bnn_angle_free(wv_bnn_angle *angle); /* accepts NULL */

/* self: a wv_bnn_angle, of one thread at a time. The gradients are 0 where there are none (equal predictions, none
 * at all). For the option cost_batch. */
void wv_bnn_angle_costs(void *self, size_t dim, const double *a, size_t count, const double *b, double *cost,
                        const double *weight, double *grad_a);

/* Makes *model out of *inner, as wvgd_model_threads does: batches pass through and are counted and timed, and on the
 * first batch with a gradient that of up to `points` points (the first ones with a finite log density) is compared
 * with differences of the log density: 4 D evaluations each, which are not counted. Not thread safe: it goes around
 * wvgd_model_threads, not inside. Returns 0, or -1 without memory. */
int wv_model_check(wvgd_model *model, const wvgd_model *inner, size_t points);

typedef struct {
    unsigned long long batches, evaluations; /* passed through */
    double seconds;                          /* spent in them */
    size_t compared;                         /* derivatives: coordinates times points */
    /* the worst |gradient - difference|, less what the difference itself is uncertain by, relative to the larger of
     * the two: below 1e-4 for a right gradient, about 1 for a wrong one, INFINITY for one that is not finite */
    double error;
    size_t coordinate;           /* where that is */
    double gradient, difference; /* and what they are */
} wv_check;

/* What a model made by wv_model_check has seen so far. */
wv_check wv_model_checked(const wvgd_model *model);
#endif
