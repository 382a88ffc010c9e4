/* test_decisions.c - what the staged solver does next, decided from a few numbers: no fit is run. Expected values are
 * worked out by hand from docs and from the rows of the policy table, whose form is checked, too. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "policy.h"
#include "staged/decisions.h"
#include "support/near.h"

/* Growth that goes on: each test spoils one fact. */
static wv_growth_facts going_on(void)
{
    return (wv_growth_facts){
        .running = true, .rounds = 2, .K = 6, .room = 80, .spent = 500, .budget = 30000, .elbo = -10, .last = -10.2};
}

static wv_trial_facts cheap_trial(void)
{
    return (wv_trial_facts){.finite = true,
                            .cost = 300,
                            .weight_quantile = 1,
                            .lognormal_quantile = 1,
                            .round_price = 700,
                            .growth_price = 1400,
                            .probes = 3};
}

/* ---- the table --------------------------------------------------------------------------------------------------- */
static void rows_are_complete(void **state)
{
    (void)state;
    size_t rows = 0;
    for (const wv_policy_row *r; (r = wv_policy_describe(rows)); rows++) {
        if (!*r->name || !*r->unit || !*r->why || !*r->where || !isfinite(r->value))
            fail_msg("row %zu (%s) lacks a unit, a reason, a place or a finite value", rows, r->name);
        /* a reason of its own, not the second half of the row above */
        if (!strncmp(r->why, "and ", 4) || !strncmp(r->why, "the same", 8) || r->why[strlen(r->why) - 1] == ',')
            fail_msg("%s: the reason continues another row's", r->name);
        for (size_t i = 0; i < rows; i++)
            assert_string_not_equal(wv_policy_describe(i)->name, r->name);
    }
    assert_true(rows > 40);
    assert_null(wv_policy_describe(rows));
    assert_null(wv_policy_describe(SIZE_MAX));
}

/* ---- how many draws ---------------------------------------------------------------------------------------------- */
static void trials(void **state)
{
    (void)state;
    assert_int_equal(wv_decide_trial_draws(1, 0), 160);
    assert_int_equal(wv_decide_trial_draws(9, 0), 320);
    assert_int_equal(wv_decide_trial_draws(10, 0), 340); /* 240 + 10 K goes on where 140 + 20 K ends */
    assert_int_equal(wv_decide_trial_draws(80, 0), 1040);
    assert_int_equal(wv_decide_trial_draws(1, 400), 400);   /* cheap draws are made, */
    assert_int_equal(wv_decide_trial_draws(1, 1e9), 512);   /* but no more of them than tell the price */
    assert_int_equal(wv_decide_trial_draws(80, 1e9), 1040); /* and never fewer than the components need */
}

static void draws_for_a_standard_error(void **state)
{
    (void)state;
    assert_near(wv_decide_wanted_se(0.02), 0.017, 1e-15);
    assert_near(wv_decide_draws_needed(0.034, 200, 0.02), 800, 1e-9); /* half the error: four times the draws */
    assert_near(wv_decide_draws_needed(0.017, 200, 0.02), 200, 1e-9);
    assert_true(wv_decide_converged(0.021, 0.02) && wv_decide_converged(0.05, 0.001));
    assert_false(wv_decide_converged(0.051, 0.02));
    assert_true(wv_decide_converged(0.1, 0.1));
}

static void least_draws(void **state)
{
    (void)state;
    assert_near(wv_decide_least_final(1, 10, 0, 160, false), 320, 1e-9);  /* 32 D */
    assert_near(wv_decide_least_final(1, 10, 0, 160, true), 160, 1e-9);   /* less the trial's, 160 at least */
    assert_near(wv_decide_least_final(100, 10, 0, 0, false), 800, 1e-9);  /* 8 for each cell */
    assert_near(wv_decide_least_final(5, 1, 0, 0, false), 3000, 1e-9);    /* 600 for each in one dimension */
    assert_near(wv_decide_least_final(1, 2, 2048, 0, false), 2048, 1e-9); /* cheap ones */
    assert_int_equal(wv_decide_final_draws(0, 200, 4096), 200);
    assert_int_equal(wv_decide_final_draws(1000, 200, 4096), 1000);
    assert_int_equal(wv_decide_final_draws(1e6, 200, 4096), 1365); /* a third of a chunk, then it is looked at again */
    assert_int_equal(wv_decide_final_draws(0, 1e6, 4096), 4096);
}

/* Quantile 0.995 of lognormal weights: with ESS = n / exp(s^2) their log has standard deviation s, and under the
 * posterior mean s^2 / 2. */
static void lognormal_weights(void **state)
{
    (void)state;
    double s = 0.7;
    assert_near(wv_decide_lognormal_quantile(1000, 1000), 0, 1e-12);
    assert_near(wv_decide_lognormal_quantile(1000, 1000 / exp(s * s)), s * s / 2 + 2.576 * s, 1e-9);
}

/* ---- prices ------------------------------------------------------------------------------------------------------ */
static void price_of_growth(void **state)
{
    (void)state;
    wv_prices p = {.K = 1, .D = 20, .draw_budget = 30000};
    double round = 240 + 10 * 5 + 8 * 5 * 10; /* a trial, and eight iterations with five components of ten draws */
    assert_near(wv_decide_round_price(p), round, 1e-9);
    assert_near(wv_decide_growth_price(p, 0), round, 1e-9);
    assert_near(wv_decide_growth_price(p, 1), 2 * round, 1e-9);
    assert_false(wv_decide_draws_expensive(p, 10 * round));
    assert_true(wv_decide_draws_expensive(p, 10 * round + 1));
    p.work = 1; /* evaluations that cost nothing: draws are preferred up to a quarter of the budget */
    assert_near(wv_decide_growth_price(p, 0), 7500, 1e-9);
    p.work = 1e30; /* and ones that cost everything */
    assert_near(wv_decide_growth_price(p, 0), round, 1e-6);
}

static void tails_after_growth(void **state)
{
    (void)state;
    assert_near(wv_decide_tail_error(0), 0, 1e-15);
    assert_near(wv_decide_tail_error(3), 0.009, 1e-15);
    assert_near(wv_decide_tail_error(12), 0.02, 1e-15);
}

/* ---- growth ------------------------------------------------------------------------------------------------------ */
static void end_of_growth(void **state)
{
    (void)state;
    wv_growth_facts g = going_on();
    assert_false(wv_decide_exhausted(&g));
    g.running = false;
    assert_true(wv_decide_exhausted(&g));
    g = going_on(), g.rounds = 12;
    assert_true(wv_decide_exhausted(&g));
    g = going_on(), g.fails = 2;
    assert_true(wv_decide_exhausted(&g));
    g = going_on(), g.K = g.room;
    assert_true(wv_decide_exhausted(&g));
    g = going_on(), g.spent = g.budget;
    assert_true(wv_decide_exhausted(&g));
    g = going_on(), g.spent = 2501;
    assert_false(wv_decide_growth_stalled(&g));
    g.last = g.elbo - 0.04;
    assert_true(wv_decide_growth_stalled(&g) && !wv_decide_split(&g));
    g.rounds = 0;
    assert_true(wv_decide_split(&g)); /* the first time always */
    g.spent = 2500;
    assert_false(wv_decide_growth_stalled(&g));
}

static void success_of_growth(void **state)
{
    (void)state;
    wv_growth_facts g = going_on();
    assert_true(wv_decide_growth_helped(&g, 0.1, 0.1, false)); /* by the ELBO */
    g.last = g.elbo;
    assert_false(wv_decide_growth_helped(&g, 0.11, 0.1, false));
    assert_true(wv_decide_growth_helped(&g, 0.13, 0.1, false)); /* by effective draws, */
    assert_false(wv_decide_growth_helped(&g, 0.13, 0.1, true)); /* unless it was undone */
    assert_true(wv_decide_undo(-10.2, -10) && !wv_decide_undo(-10.05, -10) && !wv_decide_undo(-9, -10));
}

static void after_a_trial(void **state)
{
    (void)state;
    wv_growth_facts g = going_on();
    wv_trial_facts t = cheap_trial();
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_CLOSE);
    t.cost = 1401; /* growth is cheaper */
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_GROW);
    t.finite = false; /* but there is nothing to grow from */
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_CLOSE);
    t = cheap_trial(), t.weight_quantile = 1.4; /* a tail heavier than a lognormal's, while growth pays */
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_GROW);
    g.K = 40; /* not with many components, */
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_CLOSE);
    g = going_on(), g.last = g.elbo - 0.04; /* nor if the last round gained little, */
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_CLOSE);
    g = going_on(), g.rounds = 0; /* nor before growth has begun */
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_CLOSE);
    g = going_on(), t = cheap_trial(), t.cost = 1e9, g.fails = 2;
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_CLOSE);
}

/* Seven batches of 80 points, or of 5 D, and a trial of 160 draws; the fit's own work counts where the model's is
 * known. */
static void bends(void **state)
{
    (void)state;
    wv_prices p = {.K = 1, .D = 10};
    assert_near(wv_decide_bend_price(p), 720, 1e-9);
    p.D = 40;
    assert_near(wv_decide_bend_price(p), 1560, 1e-9);
    p.work = 1e6;
    assert_near(wv_decide_bend_price(p), 1560 + 2400, 1e-9);
    assert_true(wv_decide_look_for_bend(2161, 720, 0, 0, true) && !wv_decide_look_for_bend(2159, 720, 0, 0, true));
    assert_true(wv_decide_look_for_bend(4321, 720, 1, 0, true) && !wv_decide_look_for_bend(4319, 720, 1, 0, true));
    assert_true(wv_decide_look_for_bend(721, 720, 0, 0, false) && !wv_decide_look_for_bend(719, 720, 0, 0, false));
    assert_true(wv_decide_more_maps(2, 1) && !wv_decide_more_maps(3, 1));
    assert_true(wv_decide_more_maps(0, 2) && !wv_decide_more_maps(1, 2));
    assert_true(wv_decide_look_for_bend(1e9, 720, 0, 0.04, true) && !wv_decide_look_for_bend(1e9, 720, 0, 0.06, true));
    assert_int_equal(wv_decide_sure_draws(8000, 1024), 1000);
    assert_int_equal(wv_decide_sure_draws(80000, 1024), 1024);
    /* weights with the log variance log 2 have the variance 1: 1.3 / (0.85 * 0.02)^2 draws */
    assert_near(wv_decide_lognormal_wanted(sqrt(log(2)), 0.02), 1.3 / (0.017 * 0.017), 1e-6);
    assert_true(wv_decide_bend(39, 100, 1) && !wv_decide_bend(41, 100, 1));
    assert_true(wv_decide_tails_unbent(0.5) && !wv_decide_tails_unbent(0.8));
    assert_true(wv_decide_bend(9, 100, 2) && !wv_decide_bend(11, 100, 2));
    assert_true(wv_decide_give_up_bend(13) && !wv_decide_give_up_bend(12));
}

static void walks(void **state)
{
    (void)state;
    wv_growth_facts g = going_on();
    wv_trial_facts t = cheap_trial();
    t.probes = 0; /* growth was needed */
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_PROBE);
    g.rounds = 0;
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_CLOSE);
    t.cost = 701; /* or would have been, but for its price */
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_PROBE);
    t = cheap_trial(), t.probes = 1, t.probe_elbo = -10.04, t.probe_K = 5, g = going_on();
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_PROBE); /* again while they help */
    t.probe_elbo = -10.02;
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_CLOSE);
    t.probe_elbo = -10.04, t.probe_K = 6;
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_CLOSE);
    t.probe_K = 5, t.probes = 3;
    assert_int_equal(wv_decide_after_trial(&g, &t), WV_DECIDE_CLOSE);
}

/* ---- the final batch --------------------------------------------------------------------------------------------- */
static void back_to_growth(void **state)
{
    (void)state;
    wv_growth_facts g = going_on();
    wv_final_facts c = {.first = true, .finite = true, .left = 2000, .growth_price = 1400};
    assert_true(wv_decide_return(&g, &c));
    c.first = false;
    assert_false(wv_decide_return(&g, &c));
    c.first = true, c.returns = 2;
    assert_false(wv_decide_return(&g, &c));
    c.returns = 0, c.left = 1000;
    assert_false(wv_decide_return(&g, &c));
    c.tails = true; /* uncovered tails send it back whatever the price, */
    assert_true(wv_decide_return(&g, &c));
    g.spent = 2501, g.last = g.elbo; /* unless growth has stalled; */
    assert_false(wv_decide_return(&g, &c));
    c.left = 2000, c.expensive = true; /* expensive draws do even then */
    assert_true(wv_decide_return(&g, &c));
    c.expensive = false;
    assert_false(wv_decide_return(&g, &c));
}

/* 500 draws that tell an sd to 6 % want 1.2 (6/5)^2 - 1 times as many; a piece at most trebles them. */
static void draws_for_sds(void **state)
{
    (void)state;
    assert_int_equal(wv_decide_sd_draws(0.06, 500, 0, 4096), 364);
    assert_int_equal(wv_decide_sd_draws(0.05, 500, 0, 4096), 0);
    assert_int_equal(wv_decide_sd_draws(0.051, 500, 0, 4096), 200); /* a batch has its price */
    assert_int_equal(wv_decide_sd_draws(1, 500, 3, 4096), 500);
    assert_int_equal(wv_decide_sd_draws(1, 500, 4, 4096), 0); /* four times at most */
    assert_int_equal(wv_decide_sd_draws(1, 5000, 0, 4096), 4096);
    assert_int_equal(wv_decide_sd_draws(NAN, 500, 0, 4096), 0);
    assert_true(wv_decide_sd_counts(0.5) && wv_decide_sd_counts(NAN)); /* the squares have a variance */
    assert_false(wv_decide_sd_counts(0.51));
}

static void extensions(void **state)
{
    (void)state;
    wv_growth_facts g = going_on();
    wv_final_facts c = {
        .finite = true, .room = true, .se = 0.06, .wanted_se = 0.015, .n = 500, .least = 200, .left = 900};
    assert_int_equal(wv_decide_extension(&g, &c, 4096), 900);
    c.left = 10;
    assert_int_equal(wv_decide_extension(&g, &c, 4096), 200);
    c.left = 1e6;
    assert_int_equal(wv_decide_extension(&g, &c, 4096), 4096);
    g.spent = 20000; /* an error below 0.05 is worth half of the budget only */
    assert_int_equal(wv_decide_extension(&g, &c, 4096), 4096);
    c.se = 0.04;
    assert_int_equal(wv_decide_extension(&g, &c, 4096), 0);
    g = going_on(), c.se = 0.01, c.least = 700;
    assert_int_equal(wv_decide_extension(&g, &c, 4096), 200);
    c.least = 500;
    assert_int_equal(wv_decide_extension(&g, &c, 4096), 0);
    c.least = 700, c.room = false;
    assert_int_equal(wv_decide_extension(&g, &c, 4096), 0);
    c.room = true, g.running = false;
    assert_int_equal(wv_decide_extension(&g, &c, 4096), 0);
    g.running = true, c.finite = false;
    assert_int_equal(wv_decide_extension(&g, &c, 4096), 0);
}

static void use_of_the_trial(void **state)
{
    (void)state;
    assert_true(wv_decide_trial_useful(100, 160, 0.9));
    assert_false(wv_decide_trial_useful(2, 160, 0.9)); /* a draw or two of huge weight */
    assert_true(wv_decide_trial_useful(2, 160, 0.02)); /* no worse than the final batch */
}

/* ---- walks and modes --------------------------------------------------------------------------------------------- */
static void places_that_walks_have_found(void **state)
{
    (void)state;
    assert_true(wv_decide_point_matters(log(2), 0.02)); /* 0.04 of the posterior may be missing */
    assert_false(wv_decide_point_matters(log(2), 0.01));
    assert_true(wv_decide_point_matters(3, 0.002)); /* little lies below, but there is 20 times too little density */
    assert_false(wv_decide_point_matters(-INFINITY, 1));
    assert_true(wv_decide_tails_uncovered(2.1, 1)); /* a factor of seven, */
    assert_false(wv_decide_tails_uncovered(1.9, 1));
    assert_false(wv_decide_tails_uncovered(2.1, 2)); /* and more than the trial's own draws have */
    assert_true(wv_decide_tails_uncovered(2.4, 2));
    assert_false(wv_decide_tails_uncovered(-INFINITY, INFINITY)); /* no place matters */
}

static void modes_that_the_proposal_has_lost(void **state)
{
    (void)state;
    assert_true(wv_decide_mode_matters(true, -15, -10));
    assert_false(wv_decide_mode_matters(false, -15, -10));
    assert_false(wv_decide_mode_matters(true, -15.6, -10)); /* 0.4 % of the evidence */
    assert_true(wv_decide_put_back(4.1, 0, 3, 80));
    assert_false(wv_decide_put_back(3.9, 0, 3, 80));
    assert_false(wv_decide_put_back(4.1, 2, 3, 80)); /* twice at most */
    assert_false(wv_decide_put_back(4.1, 0, 80, 80));
    assert_near(wv_decide_put_back_weight(-10, -10 + log(4)), 0.25, 1e-12);
    assert_near(wv_decide_put_back_weight(-20, -10), 0.05, 1e-12);
    assert_near(wv_decide_put_back_weight(-10, -10), 0.5, 1e-12);
}

static void cells_for_an_ensemble_that_is_not_good_enough(void **state)
{
    (void)state;
    assert_int_equal(wv_decide_more_cells(5, 6, 0), 6); /* as many for each mode */
    assert_int_equal(wv_decide_more_cells(6, 6, 1), 12);
    assert_int_equal(wv_decide_more_cells(5, 2, 0), 6);
    assert_int_equal(wv_decide_more_cells(5, 1, 0), 8);
    assert_int_equal(wv_decide_more_cells(5, 0, 0), 8); /* modes were not looked for */
    assert_int_equal(wv_decide_more_cells(5, 1, 2), 8);
    assert_int_equal(wv_decide_more_cells(5, 1, 3), 10); /* twice as many the last time */
    assert_int_equal(wv_decide_more_cells(10, 2, 3), 20);
    assert_int_equal(wv_decide_more_cells(5, 6, 4), 0);
    assert_int_equal(wv_decide_redraw(700, 0, 0, 4096), 700); /* twice as many draws, and twice as many again; */
    assert_int_equal(wv_decide_redraw(9000, 1, 0, 4096), 4096);
    assert_int_equal(wv_decide_redraw(700, 2, 0, 4096), 0);
    assert_int_equal(wv_decide_redraw(700, 2, 1, 4096), 700); /* once more with more cells */
    assert_int_equal(wv_decide_redraw(700, 3, 3, 4096), 0);
}

static void chains_of_a_certificate(void **state)
{
    (void)state;
    assert_true(wv_decide_exact(1e-7)); /* the mixture is the posterior */
    assert_false(wv_decide_exact(1e-3));
    assert_false(wv_decide_exact(INFINITY));
    assert_true(fabs(wv_decide_outside(300, 64) - log(32)) < 1e-12);
    assert_true(fabs(wv_decide_outside(12800, 64) - log(200)) < 1e-12);
    assert_true(wv_decide_walk_on(3, 0, INFINITY));
    assert_false(wv_decide_walk_on(4, 0, 1.5)); /* none has come near */
    assert_true(wv_decide_walk_on(4, 0, 0.5));
    assert_true(wv_decide_walk_on(11, 5, -3));
    assert_false(wv_decide_walk_on(12, 5, -3));
    assert_false(wv_decide_walk_on(5, 6, -3)); /* it is decided */
    assert_true(wv_decide_walk_on(3, 6, -3));
    assert_false(wv_decide_refuted(5));
    assert_true(wv_decide_refuted(6));
    assert_true(wv_decide_grow_outside(2));
    assert_false(wv_decide_grow_outside(3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(trials),
        cmocka_unit_test(draws_for_a_standard_error),
        cmocka_unit_test(least_draws),
        cmocka_unit_test(lognormal_weights),
        cmocka_unit_test(price_of_growth),
        cmocka_unit_test(tails_after_growth),
        cmocka_unit_test(end_of_growth),
        cmocka_unit_test(success_of_growth),
        cmocka_unit_test(after_a_trial),
        cmocka_unit_test(bends),
        cmocka_unit_test(walks),
        cmocka_unit_test(back_to_growth),
        cmocka_unit_test(draws_for_sds),
        cmocka_unit_test(extensions),
        cmocka_unit_test(use_of_the_trial),
        cmocka_unit_test(places_that_walks_have_found),
        cmocka_unit_test(modes_that_the_proposal_has_lost),
        cmocka_unit_test(chains_of_a_certificate),
        cmocka_unit_test(cells_for_an_ensemble_that_is_not_good_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
