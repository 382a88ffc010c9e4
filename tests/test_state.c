/* test_state.c - save and restore: in every stage a new fit that restores goes on bit for bit, and a state that is
 * damaged, cut short, or of another fit is refused and leaves the fit as it was. With either solver. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/edited_state.h"
#include "support/saved.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

static wvgd_model MODEL;   /* a mixture of three Gaussians in two dimensions */
static wvgd_solver SOLVER; /* the one that is being tested */

static int set_up(void **state)
{
    (void)state;
    return target_mixture_random(&MODEL, 2, 3, 4.0, 5);
}

static int tear_down(void **state)
{
    (void)state;
    wvgd_model_close(&MODEL);
    return 0;
}

static wvgd_options options_of(size_t N, wvgd_family family)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = SOLVER;
    o.particles = N;
    o.family = family;
    o.max_iter = 40;
    o.evidence_se = 0.01; /* a closing pass of several batches */
    return o;
}

static void finish(wvgd_fit *fit)
{
    wvgd_error error;
    if (wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
}

static wvgd_status restore(wvgd_fit *fit, const saved *s, wvgd_error *error)
{
    return wvgd_restore(fit, s->bytes, s->size, error);
}

/* ---- equal, but for times ---------------------------------------------------------------------------------------- */
static void same_bits(const char *what, const void *a, const void *b, size_t size)
{
    if (size && memcmp(a, b, size))
        fail_msg("%s differ", what);
}

static void assert_same_results(const wvgd_fit *one, const wvgd_fit *two, wvgd_family family)
{
    wvgd_results a, b;
    wvgd_get_results(one, &a);
    wvgd_get_results(two, &b);
    size_t N = a.N, D = a.D, d = sizeof(double), cov = (family == WVGD_FULL ? N * D * D : N * D) * d;
    assert_int_equal(b.N, N);
    assert_int_equal(b.D, D);
    assert_int_equal(b.rank, a.rank);
    assert_int_equal(b.stop, a.stop);
    assert_int_equal(b.iterations, a.iterations);
    assert_int_equal(b.evaluations, a.evaluations);
    assert_int_equal(b.bad_points, a.bad_points);
    assert_int_equal(b.zero_points, a.zero_points);
    assert_int_equal(b.closing_draws, a.closing_draws);
    assert_int_equal(b.starts, a.starts);
    assert_int_equal(b.modes, a.modes);
    assert_int_equal(b.hit_once, a.hit_once);
    assert_int_equal(b.components, a.components);
    same_bits("component_weight", a.component_weight, b.component_weight, a.components * d);
    same_bits("component_mu", a.component_mu, b.component_mu, a.components * D * d);
    same_bits("component_chol", a.component_chol, b.component_chol, a.components * D * D * d);
    assert_int_equal(b.reliable, a.reliable);
    assert_int_equal(b.reasons, a.reasons);
    for (size_t i = 0; i < a.reasons; i++)
        assert_string_equal(a.reason[i], b.reason[i]);
    same_bits("z", a.z, b.z, N * D * d);
    same_bits("beta", a.beta, b.beta, N * d);
    same_bits("beta_se", a.beta_se, b.beta_se, N * d);
    same_bits("weight", a.weight, b.weight, N * d);
    same_bits("log_Z", a.log_Z, b.log_Z, N * d);
    same_bits("elbo", a.elbo, b.elbo, N * d);
    same_bits("elbo_se", a.elbo_se, b.elbo_se, N * d);
    same_bits("cell_ess", a.cell_ess, b.cell_ess, N * d);
    same_bits("cell_pareto_k", a.cell_pareto_k, b.cell_pareto_k, N * d);
    same_bits("mu", a.mu, b.mu, N * D * d);
    same_bits("sd", a.sd, b.sd, N * D * d);
    if (family == WVGD_FULL)
        same_bits("chol", a.chol, b.chol, N * D * D * d);
    same_bits("cell_cov", a.cell_cov, b.cell_cov, cov);
    same_bits("pelbo", &a.pelbo, &b.pelbo, sizeof a.pelbo);
    same_bits("pelbo_beta", &a.pelbo_beta, &b.pelbo_beta, sizeof a.pelbo);
    same_bits("evidence", &a.evidence, &b.evidence, sizeof a.pelbo);
    same_bits("distortion", &a.distortion, &b.distortion, sizeof a.pelbo);
    same_bits("ess", &a.ess, &b.ess, d);
    same_bits("pareto_k", &a.pareto_k, &b.pareto_k, d);
    same_bits("pareto_k_limit", &a.pareto_k_limit, &b.pareto_k_limit, d);
    same_bits("meanfield_gap", &a.meanfield_gap, &b.meanfield_gap, d);
    same_bits("mean", a.mean, b.mean, D * d);
    same_bits("var", a.var, b.var, D * d);
    same_bits("mcse", a.mcse, b.mcse, D * d);
    assert_int_equal(b.warnings, a.warnings);
    for (size_t i = 0; i < a.warnings; i++)
        assert_string_equal(a.warning[i], b.warning[i]);
}

static void assert_same_trace(const wvgd_fit *one, const wvgd_fit *two)
{
    size_t rows, other;
    const wvgd_trace_row *a = wvgd_trace(one, &rows), *b = wvgd_trace(two, &other);
    wvgd_results r;
    wvgd_get_results(one, &r);
    assert_int_equal(rows, other);
    for (size_t i = 0; i < rows; i++) {
        wvgd_trace_row x = a[i], y = b[i];
        x.seconds = y.seconds = 0;
        same_bits("trace rows", &x, &y, sizeof x);
    }
    same_bits("trace_beta", wvgd_trace_beta(one), wvgd_trace_beta(two), rows * r.N * sizeof(double));
}

/* The distribution too: draws, resampled draws, closing draws. */
static void assert_same_draws(const wvgd_fit *one, const wvgd_fit *two)
{
    enum { n = 50 };
    double a[2 * n], b[2 * n];
    size_t rows, other, ia[n], ib[n];
    const double *za, *zb, *pa, *pb, *wa, *wb;
    const uint32_t *ca, *cb;
    assert_int_equal(wvgd_sample(one, 1, n, a, ia, NULL), WVGD_OK);
    assert_int_equal(wvgd_sample(two, 1, n, b, ib, NULL), WVGD_OK);
    same_bits("samples", a, b, sizeof a);
    same_bits("cells of samples", ia, ib, sizeof ia);
    assert_int_equal(wvgd_log_q(one, n, a, a, NULL), WVGD_OK);
    assert_int_equal(wvgd_log_q(two, n, b, b, NULL), WVGD_OK);
    same_bits("log_q", a, b, n * sizeof *a);
    assert_int_equal(wvgd_resample(one, 1, n, a, ia, NULL), WVGD_OK);
    assert_int_equal(wvgd_resample(two, 1, n, b, ib, NULL), WVGD_OK);
    same_bits("resampled draws", a, b, sizeof a);
    same_bits("indices of resampled draws", ia, ib, sizeof ia);
    assert_int_equal(wvgd_draws(one, &rows, &za, &pa, &wa, &ca, NULL), WVGD_OK);
    assert_int_equal(wvgd_draws(two, &other, &zb, &pb, &wb, &cb, NULL), WVGD_OK);
    assert_int_equal(rows, other);
    same_bits("closing draws", za, zb, 2 * rows * sizeof *za);
    same_bits("their log_p", pa, pb, rows * sizeof *pa);
    same_bits("their log_w", wa, wb, rows * sizeof *wa);
    same_bits("their cells", ca, cb, rows * sizeof *ca);
    same_bits("their weights for moments", wvgd_draw_weights(one), wvgd_draw_weights(two), rows * sizeof *wa);
}

static void assert_same(const wvgd_fit *one, const wvgd_fit *two, wvgd_family family)
{
    assert_string_equal(stage_of(one), stage_of(two));
    assert_same_results(one, two, family);
    assert_same_trace(one, two);
    if (!strcmp(stage_of(one), "done"))
        assert_same_draws(one, two);
}

/* ---- going on ---------------------------------------------------------------------------------------------------- */
/* Saves *first, restores into a new fit, and compares: at once, the next batch asked for, and the end
 * (or, without `whole`, six steps of both). */
static void go_on_from(const wvgd_options *o, const double *z0, wvgd_fit *first, bool wander, const wvgd_fit *whole)
{
    wvgd_fit *second = wvgd_new(&MODEL, o, z0, NULL);
    saved s = save(first);
    if (wander) { /* into a fit that has gone elsewhere meanwhile */
        assert_int_equal(wvgd_step(second, NULL), WVGD_OK);
        assert_int_equal(wvgd_step(second, NULL), WVGD_OK);
    }
    wvgd_error error;
    if (restore(second, &s, &error) != WVGD_OK)
        fail_msg("stage %s: %s", stage_of(first), error.text);
    assert_same(first, second, o->family);
    size_t n, m;
    const double *x, *y;
    bool gradient, other;
    assert_int_equal(wvgd_ask(first, &n, &x, &gradient, NULL), WVGD_OK);
    assert_int_equal(wvgd_ask(second, &m, &y, &other, NULL), WVGD_OK);
    assert_int_equal(n, m);
    assert_int_equal(gradient, other);
    same_bits("points asked for", x, y, n * 2 * sizeof *x);
    for (int i = 0; !whole && i < 6; i++) {
        assert_int_equal(wvgd_step(first, NULL), WVGD_OK);
        assert_int_equal(wvgd_step(second, NULL), WVGD_OK);
    }
    if (whole)
        finish(second);
    assert_same(whole ? whole : first, second, o->family);
    wvgd_free(second);
    free(s.bytes);
}

/* Which steps to save at: where each stage begins, in its middle, and where it ends. */
static size_t plan_stops(wvgd_fit *fit, size_t most, size_t *stop, const char **seen, size_t *stages)
{
    size_t count = 0, begun = 0, step = 0, batches = 0;
    const char *stage = stage_of(fit);
    *stages = 0;
    seen[(*stages)++] = stage;
    stop[count++] = 0;
    while (strcmp(stage_of(fit), "done")) {
        assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
        step++;
        bool closing = !strcmp(stage_of(fit), "close");
        batches += closing;
        if (strcmp(stage, stage_of(fit))) {
            stage = stage_of(fit);
            seen[(*stages)++] = stage;
            if (step - begun > 2 && count + 4 < most)
                stop[count++] = begun + (step - begun) / 2;
            if (count + 4 < most)
                stop[count++] = step;
            begun = step;
        } else if (closing && batches < 6 && count + 4 < most) /* the trial, and the first batches of the final draws */
            stop[count++] = step;
    }
    return count;
}

static bool has(const char *const *seen, size_t stages, const char *stage)
{
    for (size_t i = 0; i < stages; i++)
        if (!strcmp(seen[i], stage))
            return true;
    return false;
}

static void every_stage(const wvgd_options *o, const double *z0, const char *const *wanted)
{
    enum { MOST = 24 };
    size_t stop[MOST], stages;
    const char *seen[16];
    wvgd_fit *whole = wvgd_new(&MODEL, o, z0, NULL);
    assert_non_null(whole);
    size_t count = plan_stops(whole, MOST, stop, seen, &stages);
    for (; *wanted; wanted++)
        if (!has(seen, stages, *wanted))
            fail_msg("the fit never came to stage %s", *wanted);
    wvgd_fit *first = wvgd_new(&MODEL, o, z0, NULL);
    for (size_t i = 0, step = 0; i < count; i++) {
        for (; step < stop[i]; step++)
            assert_int_equal(wvgd_step(first, NULL), WVGD_OK);
        bool to_the_end = i % 3 == 0 || !strcmp(stage_of(first), "close") || !strcmp(stage_of(first), "done");
        go_on_from(o, z0, first, i % 2, to_the_end ? whole : NULL);
        step += to_the_end ? 0 : 6;
    }
    assert_string_equal(stage_of(first), "done");
    assert_same(whole, first, o->family);
    wvgd_free(first);
    wvgd_free(whole);
}

static void goes_on_full(void **state)
{
    (void)state;
    wvgd_options o = options_of(2, WVGD_FULL);
    o.max_iter = 400; /* enough to come to rest */
    o.tol = 0.1;
    if (SOLVER == WVGD_STAGED)
        every_stage(&o, NULL, (const char *const[]){"explore", "fit", "trial", "close", "bound", "done", NULL});
    else
        every_stage(&o, NULL, (const char *const[]){"explore", "fit", "settle", "average", "close", "done", NULL});
}

static void goes_on_diag(void **state)
{
    (void)state;
    wvgd_options o = options_of(3, WVGD_DIAG);
    if (SOLVER == WVGD_STAGED)
        every_stage(&o, NULL, (const char *const[]){"explore", "fit", "trial", "close", "bound", "done", NULL});
    else
        every_stage(&o, NULL, (const char *const[]){"explore", "pilot", "fit", "close", "done", NULL});
}

static void goes_on_in_other_ways(void **state)
{
    (void)state;
    const double z0[] = {0, 0, 1, 1, -2, 3};
    static const char *const wanted[] = {"fit", "close", "done", NULL};
    wvgd_options o = options_of(3, WVGD_LOWRANK);
    o.max_iter = 30;
    o.rank = 1;
    o.cells = WVGD_SOFT;
    every_stage(&o, z0, wanted);
    o = options_of(1, WVGD_FULL);
    o.max_iter = 30;
    o.cost = WVGD_L1;
    every_stage(&o, NULL, (const char *const[]){"explore", "fit", "close", "done", NULL});
    if (SOLVER == WVGD_STAGED)
        return; /* what follows is the joint solver, whatever is asked for */
    o = options_of(3, WVGD_FULL);
    o.max_iter = 30;
    o.estimator = WVGD_REPARAM;
    o.sampler = WVGD_REJECT;
    every_stage(&o, z0, wanted);
    o = options_of(3, WVGD_DIAG);
    o.max_iter = 30;
    o.estimator = WVGD_SCORE;
    o.cost = WVGD_OWN;
    every_stage(&o, z0, wanted);
}

/* ---- every batch ------------------------------------------------------------------------------------------------- */
/* One batch by hand, so that no times are recorded. */
static void take_batch(const wvgd_model *model, wvgd_fit *fit)
{
    size_t n;
    const double *z;
    bool gradient;
    assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, NULL), WVGD_OK);
    double *log_p = malloc(n * sizeof *log_p), *grad = malloc(n * model->dim * sizeof *grad);
    assert_non_null(log_p);
    assert_non_null(grad);
    assert_int_equal(model->log_density(model->self, n, z, log_p, gradient ? grad : NULL), 0);
    assert_int_equal(wvgd_tell(fit, log_p, grad, NULL), WVGD_OK);
    free(log_p);
    free(grad);
}

/* A fit that saves after every batch, of a model whose mixture grows: from each state a new fit takes the same step, to
 * the same bits. Each state thus leads to the next, and all of them to the same end. */
static void every_batch(const wvgd_model *model, const wvgd_options *o, const char *const *wanted)
{
    const char *seen[32];
    size_t stages = 0, batches = 0;
    wvgd_fit *whole = wvgd_new(model, o, NULL, NULL);
    saved now = save(whole);
    while (strcmp(stage_of(whole), "done")) {
        const char *stage = stage_of(whole);
        if (!has(seen, stages, stage))
            seen[stages++] = stage;
        wvgd_fit *fit = wvgd_new(model, o, NULL, NULL);
        assert_int_equal(restore(fit, &now, NULL), WVGD_OK);
        take_batch(model, fit);
        take_batch(model, whole);
        saved after = save(whole), other = save(fit);
        batches++;
        if (other.size != after.size || memcmp(other.bytes, after.bytes, after.size))
            fail_msg("after batch %zu, of stage %s, states differ", batches, stage);
        wvgd_free(fit);
        free(other.bytes);
        free(now.bytes);
        now = after;
    }
    for (; *wanted; wanted++)
        if (!has(seen, stages, *wanted))
            fail_msg("the fit never came to stage %s", *wanted);
    wvgd_free(whole);
    free(now.bytes);
}

static void goes_on_from_every_batch(void **state)
{
    (void)state;
    wvgd_model bent;
    wvgd_options o = options_of(2, WVGD_FULL);
    o.max_iter = 2000;
    o.evidence_se = 0.02;
    assert_int_equal(target_banana(&bent, 2, 1, 1), 0);
    if (SOLVER == WVGD_STAGED) {
        every_batch(&bent, &o, (const char *const[]){"explore", "fit", "trial", "bend", "close", "bound", NULL});
        o.bend = WVGD_BEND_NEVER;
        every_batch(&bent, &o,
                    (const char *const[]){"explore", "fit", "trial", "probe", "close", "certify", "bound", NULL});
    }
    o.max_iter = 30;
    o.family = WVGD_DIAG;
    if (SOLVER == WVGD_JOINT)
        every_batch(&bent, &o, (const char *const[]){"explore", "pilot", "fit", "close", NULL});
    wvgd_model_close(&bent);
}

/* Saving after ask gives the state after the last tell; so does saving twice; neither changes the fit. */
static void saving_changes_nothing(void **state)
{
    (void)state;
    wvgd_options o = options_of(2, WVGD_FULL);
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL), *same = wvgd_new(&MODEL, &o, NULL, NULL);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
        assert_int_equal(wvgd_step(same, NULL), WVGD_OK);
    }
    size_t n;
    const double *z;
    bool gradient;
    saved a = save(fit);
    assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, NULL), WVGD_OK);
    saved b = save(fit);
    assert_int_equal(a.size, b.size);
    same_bits("states", a.bytes, b.bytes, a.size);
    wvgd_fit *other = wvgd_new(&MODEL, &o, NULL, NULL);
    assert_int_equal(restore(other, &b, NULL), WVGD_OK);
    finish(fit);
    finish(same);
    finish(other);
    assert_same(fit, same, o.family);
    assert_same(fit, other, o.family);
    wvgd_free(fit);
    wvgd_free(same);
    wvgd_free(other);
    free(a.bytes);
    free(b.bytes);
}

/* The limits may be raised: that is what going on is for. */
static void limits_may_change(void **state)
{
    (void)state;
    wvgd_options o = options_of(2, WVGD_FULL);
    wvgd_fit *long_one = wvgd_new(&MODEL, &o, NULL, NULL);
    finish(long_one);
    o.max_iter = 35;
    wvgd_fit *short_one = wvgd_new(&MODEL, &o, NULL, NULL);
    for (wvgd_progress p = {.stage = "explore"};
         !strcmp(p.stage, "explore") || (SOLVER == WVGD_JOINT && p.iteration < 30);) {
        assert_int_equal(wvgd_step(short_one, NULL), WVGD_OK);
        wvgd_get_progress(short_one, &p);
    }
    saved s = save(short_one);
    o.max_iter = 40;
    o.max_seconds = 1e6;
    wvgd_fit *going_on = wvgd_new(&MODEL, &o, NULL, NULL);
    assert_int_equal(restore(going_on, &s, NULL), WVGD_OK);
    finish(going_on);
    assert_same(long_one, going_on, o.family);
    wvgd_free(long_one);
    wvgd_free(short_one);
    wvgd_free(going_on);
    free(s.bytes);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */
typedef struct {
    wvgd_options o;
    wvgd_fit *fit; /* in the middle of its iterations, or at its end */
    saved own;     /* its own state, to see that nothing has changed it */
    saved *other;  /* the state to damage */
} victim;

static void assert_refused(victim *v, const void *bytes, size_t size, const char *what)
{
    wvgd_error error = {WVGD_OK, ""};
    wvgd_status status = wvgd_restore(v->fit, bytes, size, &error);
    if (status != WVGD_E_STATE || error.code != WVGD_E_STATE || !strstr(error.text, "state"))
        fail_msg("%s: status %d, %s", what, (int)status, error.text);
    assert_int_equal(wvgd_restore(v->fit, bytes, size, NULL), WVGD_E_STATE);
}

static void assert_unchanged(victim *v)
{
    saved now = save(v->fit);
    assert_int_equal(now.size, v->own.size);
    same_bits("state of the fit", now.bytes, v->own.bytes, now.size);
    free(now.bytes);
}

static victim make_victim(size_t N, size_t steps, saved *other)
{
    victim v = {.o = options_of(N, WVGD_FULL), .other = other};
    v.fit = wvgd_new(&MODEL, &v.o, NULL, NULL);
    for (size_t i = 0; i < steps; i++)
        assert_int_equal(wvgd_step(v.fit, NULL), WVGD_OK);
    v.own = save(v.fit);
    return v;
}

static void end_victim(victim *v)
{
    assert_unchanged(v);
    finish(v->fit); /* still usable */
    wvgd_fit *whole = wvgd_new(&MODEL, &v->o, NULL, NULL);
    finish(whole);
    assert_same(whole, v->fit, v->o.family);
    wvgd_free(whole);
    wvgd_free(v->fit);
    free(v->own.bytes);
}

/* The state of a fit with the same options, `steps` steps in (SIZE_MAX: at its end). */
static saved state_after(size_t N, size_t steps)
{
    wvgd_options o = options_of(N, WVGD_FULL);
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
    for (size_t i = 0; i < steps && strcmp(stage_of(fit), "done"); i++)
        assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
    saved s = save(fit);
    wvgd_free(fit);
    return s;
}

static void flipped_bytes_are_found(void **state)
{
    (void)state;
    enum { HEADER = 64, RANDOM = 100 };
    saved s = state_after(2, 60);
    victim v = make_victim(2, 30, &s);
    test_random random = test_random_seed(11);
    for (size_t i = 0; i < HEADER; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            s.bytes[i] ^= (unsigned char)(1u << bit);
            assert_refused(&v, s.bytes, s.size, "a flipped bit of the header");
            s.bytes[i] ^= (unsigned char)(1u << bit);
        }
    for (size_t i = 0; i < RANDOM; i++) {
        size_t at = (size_t)(test_random_bits(&random) % s.size);
        unsigned char was = s.bytes[at];
        s.bytes[at] ^= (unsigned char)(1 + test_random_bits(&random) % 255);
        assert_refused(&v, s.bytes, s.size, "a changed byte");
        s.bytes[at] = was;
    }
    for (size_t i = s.size - 16; i < s.size; i++) { /* the checksum itself */
        s.bytes[i] ^= 0x80;
        assert_refused(&v, s.bytes, s.size, "a flipped bit of the end");
        s.bytes[i] ^= 0x80;
    }
    end_victim(&v);
    free(s.bytes);
}

static void cut_states_are_found(void **state)
{
    (void)state;
    saved s = state_after(2, SIZE_MAX);
    victim v = make_victim(2, 30, &s);
    for (size_t size = 0; size < s.size; size += size < 400 ? 1 : 1 + s.size / 97) {
        unsigned char *exact = malloc(size ? size : 1); /* of its own, so that reading past it is seen */
        assert_non_null(exact);
        memcpy(exact, s.bytes, size);
        assert_refused(&v, exact, size, "a state cut short");
        free(exact);
    }
    unsigned char *longer = calloc(1, s.size + 8);
    assert_non_null(longer);
    memcpy(longer, s.bytes, s.size);
    assert_refused(&v, longer, s.size + 8, "a state with more behind it");
    assert_refused(&v, longer, s.size + 1, "a state with more behind it");
    free(longer);
    end_victim(&v);
    free(s.bytes);
}

static void garbage_is_found(void **state)
{
    (void)state;
    saved s = state_after(2, 10);
    victim v = make_victim(2, 60, &s);
    test_random random = test_random_seed(12);
    for (size_t k = 0; k < 100; k++) {
        size_t size = (size_t)(test_random_bits(&random) % (2 * s.size)),
               keep = k % 4 == 0 ? 0 : (size_t)(test_random_bits(&random) % 64);
        unsigned char *bytes = malloc(size + 1);
        assert_non_null(bytes);
        for (size_t i = 0; i < size; i++)
            bytes[i] = i < keep && i < s.size ? s.bytes[i] : (unsigned char)test_random_bits(&random);
        assert_refused(&v, bytes, size, "garbage");
        free(bytes);
    }
    end_victim(&v);
    free(s.bytes);
}

static void states_of_other_fits_are_found(void **state)
{
    (void)state;
    saved s = state_after(2, 30);
    static const struct {
        const char *name, *value;
    } rows[] = {{"particles", "3"},   {"family", "diag"},     {"family", "lowrank"}, {"cells", "soft"},
                {"cost", "sqeuclid"}, {"estimator", "score"}, {"sampler", "reject"}, {"draws", "50"},
                {"init", "normal"},   {"init-scale", "2"},    {"tol", "0.1"},        {"evidence-se", "0.5"},
                {"seed", "2"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wvgd_options o = options_of(2, WVGD_FULL);
        assert_int_equal(wvgd_options_set(&o, rows[i].name, rows[i].value, NULL), WVGD_OK);
        wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
        wvgd_error error = {WVGD_OK, ""};
        if (restore(fit, &s, &error) != WVGD_E_STATE)
            fail_msg("%s %s: taken", rows[i].name, rows[i].value);
        assert_non_null(strstr(error.text, "another fit"));
        wvgd_free(fit);
    }
    wvgd_options o = options_of(2, WVGD_FULL);
    const double metric[] = {2, 0, 0, 1}, z0[] = {0, 1, 2, 3};
    o.metric = metric;
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
    assert_int_equal(restore(fit, &s, NULL), WVGD_E_STATE);
    wvgd_free(fit);
    o = options_of(2, WVGD_FULL);
    fit = wvgd_new(&MODEL, &o, z0, NULL); /* a fit that does not explore has no such state */
    wvgd_status status = restore(fit, &s, NULL);
    assert_true(status == WVGD_E_STATE || status == WVGD_OK);
    wvgd_free(fit);
    wvgd_model wider;
    assert_int_equal(target_mixture_random(&wider, 3, 3, 4.0, 5), 0);
    fit = wvgd_new(&wider, &o, NULL, NULL);
    assert_int_equal(restore(fit, &s, NULL), WVGD_E_STATE);
    wvgd_free(fit);
    wvgd_model_close(&wider);
    free(s.bytes);
}

/* ---- forgery ----------------------------------------------------------------------------------------------------- */
/* A checksum protects from accidents, not from somebody who computes it again: whatever counts and indices such a
 * state holds, it is refused, or the fit goes on without touching memory that is not its own. Each try runs in a
 * process of its own, which a crash ends. */
/* How a try ends. */
enum { TAKEN, REFUSED, NO_MEMORY };

static void try_forged(const wvgd_model *model, const wvgd_options *o, const saved *s)
{
    wvgd_fit *fit = wvgd_new(model, o, NULL, NULL);
    double z[20];
    wvgd_results r;
    signal(SIGSEGV, SIG_DFL); /* cmocka's handlers would report the child */
    signal(SIGBUS, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    signal(SIGFPE, SIG_DFL);
    alarm(600);
    if (!fit)
        _exit(NO_MEMORY);
    bool taken = restore(fit, s, NULL) == WVGD_OK;
    if (taken) {
        for (int i = 0; i < 8 && wvgd_step(fit, NULL) == WVGD_OK; i++) {
        }
        wvgd_stop_now(fit);
        for (int i = 0; i < 8 && wvgd_step(fit, NULL) == WVGD_OK; i++) {
        }
        wvgd_get_results(fit, &r);
        wvgd_sample(fit, 1, 10, z, NULL, NULL);
        wvgd_resample(fit, 1, 10, z, NULL, NULL);
        wvgd_draw_weights(fit);
    }
    wvgd_free(fit);
    _exit(taken ? TAKEN : REFUSED);
}

/* One eight-byte word becomes huge, another count nearby, a small number, or anything; mostly one that may be a count,
 * as small whole numbers are. Returns where. */
static size_t forge(saved *s, test_random *random)
{
    size_t end = s->size - sizeof(uint64_t), at;
    bool count = test_random_bits(random) % 4;
    uint64_t word, bits = test_random_bits(random);
    do {
        at = test_random_bits(random) % (end / 8) * 8;
        memcpy(&word, s->bytes + at, sizeof word);
    } while (count && word > 1000000);
    switch (test_random_bits(random) % 6) {
    case 0: word = 1000000007; break;
    case 1: word += 1 + bits % 3; break;
    case 2: word -= 1 + bits % 3; break;
    case 3: word = bits % 70; break;
    case 4: word ^= (bits & 0xff) << 8 * (bits >> 8 & 7); break;
    default: word = bits;
    }
    memcpy(s->bytes + at, &word, sizeof word);
    edited_state_seal(s->bytes, s->size);
    return at;
}

/* States of all stages of a fit whose mixture grows (staged), or of several stages of one that
 * moves particles (joint). */
static void forged_states_do_no_harm(void **state)
{
    (void)state;
    enum { STATES = 6, TRIES = 40 };
    wvgd_model bent;
    wvgd_options o = options_of(2, WVGD_FULL);
    size_t batches = 0, harmed = 0, first = 0, in = 0, taken = 0;
    test_random random = test_random_seed(13 + SOLVER);
    o.evidence_se = 0.05;
    assert_int_equal(target_banana(&bent, 2, 1, 1), 0);
    wvgd_fit *fit = wvgd_new(&bent, &o, NULL, NULL);
    for (; strcmp(stage_of(fit), "done"); batches++)
        assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
    wvgd_free(fit);
    fit = wvgd_new(&bent, &o, NULL, NULL);
    for (size_t batch = 0, k = 0; k < STATES; batch++) {
        if (batch == batches - (batches - 10) * (STATES - 1 - k) / (STATES - 1)) { /* from the tenth batch to the end */
            for (size_t i = 0; i < TRIES; i++) {
                saved s = save(fit);
                int status;
                size_t at = forge(&s, &random);
                pid_t child = fork();
                assert_true(child >= 0);
                if (child == 0)
                    try_forged(&bent, &o, &s);
                assert_int_equal(waitpid(child, &status, 0), child);
                taken += WIFEXITED(status) && WEXITSTATUS(status) == TAKEN;
                if (!WIFEXITED(status) || WEXITSTATUS(status) > REFUSED) {
                    first = harmed ? first : at;
                    in = harmed ? in : batch;
                    harmed++;
                }
                free(s.bytes);
            }
            k++;
        }
        if (strcmp(stage_of(fit), "done"))
            assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
    }
    wvgd_free(fit);
    wvgd_model_close(&bent);
    assert_in_range(taken, STATES * TRIES / 4,
                    STATES * TRIES - 1); /* most changes of a number do no harm, some are seen */
    if (harmed)
        fail_msg("%zu forged states crashed the fit, the first with its eight bytes at %zu changed after batch %zu",
                 harmed, first, in);
}

static void save_wants_the_right_size(void **state)
{
    (void)state;
    wvgd_options o = options_of(2, WVGD_FULL);
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
    size_t size = wvgd_save_size(fit);
    unsigned char *bytes = malloc(size + 1);
    wvgd_error error = {WVGD_OK, ""};
    assert_int_equal(wvgd_save(fit, bytes, size - 1, &error), WVGD_E_ARGUMENT);
    assert_int_equal(error.code, WVGD_E_ARGUMENT);
    assert_int_equal(wvgd_save(fit, bytes, 0, NULL), WVGD_E_ARGUMENT);
    assert_int_equal(wvgd_save(fit, bytes, size, NULL), WVGD_OK);
    free(bytes);
    wvgd_free(fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_full),
        cmocka_unit_test(goes_on_diag),
        cmocka_unit_test(goes_on_in_other_ways),
        cmocka_unit_test(goes_on_from_every_batch),
        cmocka_unit_test(saving_changes_nothing),
        cmocka_unit_test(limits_may_change),
        cmocka_unit_test(flipped_bytes_are_found),
        cmocka_unit_test(cut_states_are_found),
        cmocka_unit_test(garbage_is_found),
        cmocka_unit_test(states_of_other_fits_are_found),
        cmocka_unit_test(save_wants_the_right_size),
        cmocka_unit_test(forged_states_do_no_harm),
    };
    int failed = 0;
    for (SOLVER = WVGD_STAGED; SOLVER <= WVGD_JOINT; SOLVER++)
        failed += cmocka_run_group_tests_name(SOLVER == WVGD_STAGED ? "staged" : "joint", tests, set_up, tear_down);
    return failed;
}
