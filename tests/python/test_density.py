"""Fits of functions: answers with and without gradients, results, interrupts, threads, fork, memory."""

import doctest
import gc
import itertools
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import wvgd
from wvgd import _fit, _interrupt, _prior, _results, _run


class Mine(Exception):
    pass


def normal(z):
    return -0.5 * (z**2).sum(axis=1), -z


def without_times(fit):
    """What two fits of the same density have in common."""
    return {key: value for key, value in fit.to_dict().items() if key not in ("seconds", "command")}


def by_hand(fit, density):
    """Ends a wvgd.Fit."""
    while (z := fit.ask()) is not None:
        fit.tell(*density(z))
    return fit


def two_modes(z):
    """0.3 N(-4, 1) + 0.7 N(4, 1) in every coordinate at once; log evidence 0."""
    a, b = z + 4, z - 4
    dim = z.shape[1]
    parts = np.stack([np.log(0.3) - 0.5 * (a**2).sum(1), np.log(0.7) - 0.5 * (b**2).sum(1)])
    log_p = np.logaddexp(*parts)
    share = np.exp(parts - log_p)
    return log_p - 0.5 * dim * np.log(2 * np.pi), -(share[0][:, None] * a + share[1][:, None] * b)


class Density(unittest.TestCase):
    def test_finds_what_is_known(self):
        fit = wvgd.fit(two_modes, dim=2, names=["a", "b"])
        self.assertTrue(fit.reliable, fit.reasons)
        self.assertLess(abs(fit.log_evidence), 5 * fit.log_evidence_se + 1e-3)
        self.assertLess(fit.pelbo, fit.log_evidence + 4 * fit.pelbo_se)
        np.testing.assert_allclose(fit.mean, [1.6, 1.6], atol=0.1)
        self.assertEqual([round(mode.mass, 1) for mode in fit.modes], [0.7, 0.3])
        np.testing.assert_allclose(fit.modes[0].mean, [4, 4], atol=0.2)
        self.assertEqual(fit.modes[1].draws(10).shape, (10, 2))
        self.assertTrue((fit.modes[1].draws(10) < 1).all())
        self.assertAlmostEqual(fit.beta.sum(), 1)
        self.assertEqual(fit.particles.shape, (len(fit.beta), 2))
        self.assertEqual(fit.names, ["a", "b"])
        self.assertEqual(fit.evaluations, fit._view().evaluations)
        self.assertEqual(fit.draws(7).shape, (7, 2))
        np.testing.assert_array_equal(fit.draws(7), fit.draws(7))
        self.assertFalse(np.array_equal(fit.draws(7), fit.draws(7, seed=2)))
        self.assertEqual(fit.draws(7, source="ensemble").shape, (7, 2))
        np.testing.assert_array_equal(fit["b"], fit.draws()[:, 1])
        z, log_weight = fit.posterior()
        self.assertAlmostEqual(np.exp(log_weight).sum(), 1)
        self.assertTrue((fit.cell(fit.particles) == np.arange(len(fit.beta))).all())
        self.assertEqual(fit.log_q(z).shape, (len(z),))
        self.assertGreater(len(fit.trace), 0)
        self.assertTrue((np.diff(fit.trace["evaluations"]) > 0).all())
        np.testing.assert_array_equal(fit.summary()["mean"], fit.mean)
        self.assertIn("Verdict: no problems detected", str(fit.summary()))
        self.assertTrue(repr(fit).startswith("<no problems detected: log evidence"))
        self.assertRegex(fit._repr_html_(), "^<pre>&lt;no problems detected: log evidence")
        square = fit.describe(z[:, 0] ** 2)
        self.assertAlmostEqual(square["mean"][0], 17, delta=0.5)

    def test_same_seed_same_numbers_with_other_orders_of_calls(self):
        first = wvgd.fit(normal, dim=2, seed=5)
        fit = wvgd.Fit(dim=2, seed=5)
        while (z := fit.ask()) is not None:
            np.testing.assert_array_equal(z, fit.ask())
            fit.tell(*normal(z))
        np.testing.assert_array_equal(first.draws(), fit.draws())
        self.assertEqual((first.log_evidence, first.mean.tolist()), (fit.log_evidence, fit.mean.tolist()))
        one = without_times(wvgd.fit(normal, dim=2, seed=5, threads=1))
        one["options"]["threads"] = first.to_dict()["options"]["threads"]
        self.assertEqual(without_times(first), one)
        one = wvgd.fit(lambda z: (-0.5 * z @ z, -z), dim=2, seed=5, vectorized=False)
        self.assertAlmostEqual(one.log_evidence, first.log_evidence, places=10)

    def test_bent_coordinates_are_told_as_in_run_json(self):
        def funnel(z):
            t, away = z[:, 0], z[:, 1:]
            squares = (away**2).sum(1) * np.exp(-t)
            grad = np.column_stack([-t / 4 - 1 + squares / 2, -away * np.exp(-t)[:, None]])
            return -(t**2) / 8 - t - squares / 2, grad

        options = {"dim": 3, "seed": 3, "particles": 4}
        fit = wvgd.Fit(**options)
        self.assertNotIn("bend", fit.to_dict())
        by_hand(fit, funnel)
        found = fit.to_dict()["bend"]
        self.assertEqual(found, wvgd.fit(funnel, **options).to_dict()["bend"])
        self.assertEqual((found["components"], len(found["map"]["arguments"])), ("bent", 1))

    def test_without_gradients(self):
        scale, centre = np.array([1e-3, 1.0, 1e3]), np.array([5.0, 0.0, 1e4])
        fit = wvgd.fit(lambda z: -0.5 * (((z - centre) / scale) ** 2).sum(1), dim=3)
        self.assertTrue(fit.reliable, fit.reasons)
        self.assertAlmostEqual(fit.log_evidence, 1.5 * np.log(2 * np.pi), delta=0.01)
        np.testing.assert_allclose(fit.sd, scale, rtol=0.01)
        asked, points = [], []

        def counted(z):
            asked.append(len(z))
            points.append(z.copy())
            return -0.5 * (z**2).sum(1)

        fit = wvgd.fit(counted, dim=2, max_evaluations=3000)
        self.assertEqual(fit.evaluations, sum(asked))
        self.assertLess(fit.evaluations, 3300)
        single = wvgd.fit(lambda z: np.float32(-0.5 * (z**2).sum(1)), dim=2)
        self.assertTrue(single.reliable, single.reasons)
        self.assertFalse((points[0][:, None] == np.concatenate(points[1:])).all(axis=2).any())  # none is asked for twice
        by_self = wvgd.fit(lambda z: -0.5 * (z**2).sum(1), dim=2, max_evaluations=3000, gradient=False)
        self.assertEqual(by_self.log_evidence, fit.log_evidence)
        self.assertAlmostEqual(single.log_evidence, np.log(2 * np.pi), delta=0.01)

    def test_answers_without_density_or_with_nan(self):
        def box(z):
            inside = ((z > 0) & (z < 1)).all(axis=1)
            answer = np.where(inside, 0.0, -np.inf)
            answer[(~inside) & (z[:, 0] > 1.5)] = np.nan
            return answer

        fit = wvgd.fit(box, dim=1, init_scale=0.5)
        self.assertAlmostEqual(fit.log_evidence, 0, delta=0.05)
        self.assertGreater(fit.bad_points, 0)

    def test_exceptions_come_through(self):
        alone, batches = wvgd.Fit(dim=2), []
        by_hand(alone, lambda z: (batches.append(1), two_modes(z))[1])
        self.assertGreater(len(batches), 100)
        for at in (1, 2, 100, len(batches)):
            calls = []

            def fails(z):
                calls.append(1)
                if len(calls) == at:
                    raise Mine(at)
                return two_modes(z)

            with self.assertRaisesRegex(Mine, str(at)):
                wvgd.fit(fails, dim=2)
            self.assertEqual(len(calls), at)
            fit = wvgd.Fit(dim=2)
            calls.clear()
            with self.assertRaises(Mine):
                by_hand(fit, fails)
            self.assertEqual(by_hand(fit, two_modes).mean.tolist(), alone.mean.tolist())  # it asks for the same again
        with self.assertRaises(KeyError):
            wvgd.fit(normal, dim=2, progress=lambda p: {}[p.stage])
        with self.assertRaises(SystemExit):
            wvgd.fit(lambda z: sys.exit(3), dim=2)

    @mock.patch.object(_interrupt, "AGAIN", 0)
    def test_interrupts(self):
        handler = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            for at, density in itertools.product((1, 2, 5), (two_modes, lambda z: two_modes(z)[0])):
                calls = []

                def interrupted(z, times=1):
                    calls.append(1)
                    if len(calls) == at:
                        for _ in range(times):
                            signal.raise_signal(signal.SIGINT)
                    return density(z)

                fit = wvgd.fit(interrupted, dim=2)
                self.assertTrue(fit.done)
                self.assertEqual(fit.stop, "stopped")
                calls.clear()
                with self.assertRaises(KeyboardInterrupt):
                    wvgd.fit(lambda z: interrupted(z, 2), dim=2)
                self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        finally:
            signal.signal(signal.SIGINT, handler)

    def test_interrupts_in_a_loop_over_fits(self):
        """Each would only end its own fit, so that the loop went on."""

        def interrupted(z):
            signal.raise_signal(signal.SIGINT)
            return normal(z)

        handler = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self.assertRaises(KeyboardInterrupt):
                for _ in range(3):
                    wvgd.fit(interrupted, dim=2)
        finally:
            signal.signal(signal.SIGINT, handler)

    def test_interrupts_at_any_moment(self):
        """In a process of its own: 50 interrupts, each at another moment of a fit."""
        script = Path(__file__).with_name("interrupted.py")
        done = subprocess.run([sys.executable, str(script), "50"], capture_output=True, text=True, timeout=3000)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("50 interrupts", done.stdout)

    def test_run_directories_go_on(self):
        with tempfile.TemporaryDirectory() as place:
            out = os.path.join(place, "run")
            prior = wvgd.Prior(a=wvgd.normal(0, 3), s=wvgd.lognormal(0, 1), p=wvgd.uniform(-1, 2))

            def likelihood(q):
                with np.errstate(divide="ignore"):
                    return -0.5 * (q["a"] - 1) ** 2 - 2 * (np.log(q["s"]) - 0.5) ** 2 + np.log(q["p"] + 1.0)

            calls, total, again = [], [], []
            whole = wvgd.fit(lambda q: (total.append(1), likelihood(q))[1], prior=prior, seed=7)

            def fails(q):
                calls.append(1)
                if len(calls) == 60:
                    raise Mine("cut off")
                return likelihood(q)

            with self.assertRaises(Mine):
                wvgd.fit(fails, prior=prior, seed=7, out=out, resume=True, checkpoint_every=0)
            fit = wvgd.fit(lambda q: (again.append(1), likelihood(q))[1], prior=prior, seed=7, out=out, resume=True)
            self.assertLess(len(again), len(total))
            self.assertEqual((fit.log_evidence, fit.mean.tolist()), (whole.log_evidence, whole.mean.tolist()))
            self.assertEqual(fit.evaluations, whole.evaluations)
            np.testing.assert_array_equal(fit.draws(50), whole.draws(50))
            again.clear()
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a few points show that the function is the same; nothing else is left
                ended = wvgd.fit(lambda q: (again.append(1), likelihood(q))[1], prior=prior, seed=7, out=out, resume=True)
            self.assertEqual((again, ended.mean.tolist()), ([1], whole.mean.tolist()))
            with self.assertWarnsRegex(UserWarning, "the results of the old function; overwrite=True fits again"):
                wvgd.fit(lambda q: likelihood(q) - q["a"], prior=prior, seed=7, out=out, resume=True)
            self.assertEqual(fit.to_dict()["model"]["names"], ["u.a", "u.s", "u.p"])  # what particles.csv has
            loaded = wvgd.load(out)
            self.assertEqual((loaded.names, loaded.mean.tolist()), (["a", "s", "p"], whole.mean.tolist()))
            np.testing.assert_allclose(loaded.particles, whole.particles, rtol=1e-12)
            np.testing.assert_array_equal(loaded.draws(50), whole.draws(50))
            self.assertEqual(wvgd.compare(whole, out)[1]["difference"], 0)
            for words, keywords in (("seed is 8", {"seed": 8}), ("particles is 3", {"particles": 3})):
                with self.assertRaisesRegex(ValueError, words):
                    wvgd.fit(likelihood, prior=prior, out=out, resume=True, **{"seed": 7, **keywords})
            with self.assertRaisesRegex(wvgd.Error, "another prior"):
                wvgd.fit(likelihood, prior=wvgd.Prior(a=wvgd.normal(0, 4), s=wvgd.lognormal(), p=wvgd.uniform()), out=out, resume=True)
            with self.assertRaisesRegex(wvgd.Error, "another number of dimensions"):
                wvgd.fit(normal, dim=2, out=out, resume=True)
            with self.assertRaisesRegex(wvgd.Error, "resume=True"):
                wvgd.resume(out)
            with self.assertRaisesRegex(wvgd.OutputError, "already"):
                wvgd.fit(likelihood, prior=prior, out=out)
            with self.assertRaisesRegex(ValueError, "resume needs out"):
                wvgd.fit(likelihood, prior=prior, resume=True)

    def test_stopped_runs_go_on(self):
        with tempfile.TemporaryDirectory() as place:
            out = os.path.join(place, "run")
            whole = wvgd.fit(two_modes, dim=2)
            short = wvgd.fit(two_modes, dim=2, out=out, max_evaluations=300)
            self.assertEqual(short.stop, "max_evaluations")
            self.assertLess(short.evaluations, 600)
            more = wvgd.fit(two_modes, dim=2, out=out, resume=True, max_evaluations=200000)
            self.assertEqual((more.mean.tolist(), more.stop), (whole.mean.tolist(), "converged"))
            page = Path(place, "page.html")
            try:
                more.report(page)
                self.assertIn("<html", page.read_text()[:2000].lower())
            except wvgd.Error as error:
                self.assertIn("Node", str(error))

    def test_cells_and_ensembles_with_a_prior(self):
        prior = wvgd.Prior(a=wvgd.normal(1, 2), s=wvgd.gamma(3, 2), p=wvgd.uniform(-1, 2))
        fit = wvgd.fit(lambda q: -0.5 * ((q["a"] - 1) / 0.5) ** 2 - q["s"] ** 2, prior=prior)
        self.assertTrue((fit.cell(fit.particles) == np.arange(len(fit.beta))).all())
        drawn = fit.draws(2000, source="ensemble")
        # Its density in the parameters integrates to 1, by importance sampling.
        rng = np.random.default_rng(3)
        x = np.column_stack([rng.normal(1, 1, 40000), rng.gamma(3, 0.5, 40000), rng.uniform(-1, 2, 40000)])
        log_r = -0.5 * (x[:, 0] - 1) ** 2 - 0.5 * np.log(2 * np.pi) + 2 * np.log(x[:, 1]) - 2 * x[:, 1] + np.log(8 / 2) - np.log(3)
        self.assertAlmostEqual(np.exp(fit.log_q(x) - log_r).mean(), 1, delta=0.05)
        self.assertTrue(np.isfinite(fit.log_q(drawn)).all())

    def test_more_dimensions_than_differences(self):
        with self.assertWarnsRegex(UserWarning, "64 dimensions"):
            fit = wvgd.fit(lambda z: -0.5 * (z**2).sum(1), dim=70, max_iter=20)
        self.assertEqual(fit.to_dict()["solver"], "joint")

    def test_threads_and_fork(self):
        alone = without_times(wvgd.fit(two_modes, dim=2))
        found = [None] * 8

        def work(i):
            found[i] = without_times(wvgd.fit(two_modes, dim=2))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [alone] * 8)
        half = wvgd.Fit(dim=2)
        half.tell(*two_modes(half.ask()))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            with os.fdopen(write, "wb") as pipe:
                pickle.dump((by_hand(half, two_modes).draws(), without_times(wvgd.fit(two_modes, dim=2))), pipe)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            draws, other = pickle.load(pipe)
        os.waitpid(child, 0)
        self.assertEqual(other, alone)
        np.testing.assert_array_equal(draws, by_hand(half, two_modes).draws())

    def test_arrays_outlive_the_fit_and_memory_does_not_grow(self):
        fit = wvgd.fit(normal, dim=2)
        particles, draws, before = fit.particles, fit.posterior()[0], fit.particles.copy()
        del fit
        for _ in range(10):
            wvgd.fit(normal, dim=2)
            wvgd.Fit(dim=20)
        gc.disable()
        try:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for _ in range(50):
                wvgd.fit(normal, dim=2)
                wvgd.Fit(dim=20)
            self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak, 8000)  # kilobytes; allocators differ
        finally:
            gc.enable()
        np.testing.assert_array_equal(particles, before)
        self.assertTrue(np.isfinite(draws).all())

    def test_progress_and_limits(self):
        seen = []
        fit = wvgd.fit(normal, dim=2, progress=seen.append)
        self.assertEqual(seen[-1].evaluations, fit.evaluations)
        self.assertEqual(seen[-1].stage, "done")
        fit = wvgd.fit(two_modes, dim=2, max_seconds=1e-9)
        self.assertEqual(fit.stop, "time_up")


class Priors(unittest.TestCase):
    MEANS = (  # a prior, its mean and sd
        (wvgd.normal(3, 2), 3, 2),
        (wvgd.lognormal(0.5, 0.5), np.exp(0.625), np.exp(0.625) * np.sqrt(np.expm1(0.25))),
        (wvgd.uniform(-1, 3), 1, 4 / np.sqrt(12)),
        (wvgd.beta(2, 5), 2 / 7, np.sqrt(10 / 49 / 8)),
        (wvgd.gamma(3, 2), 1.5, np.sqrt(3) / 2),
        (wvgd.exponential(0.5), 2, 2),
        (wvgd.half_normal(2), 2 * np.sqrt(2 / np.pi), 2 * np.sqrt(1 - 2 / np.pi)),
        (wvgd.student_t(8, 1, 2), 1, 2 * np.sqrt(8 / 6)),
        (wvgd.half_cauchy(2), None, None),
    )

    def test_are_normalised_have_their_moments_and_gradients(self):
        u = np.linspace(-12, 12, 4001)
        for made, mean, sd in self.MEANS:
            with self.subTest(repr(made)):
                at = made.at(u)
                mass = np.exp(at.log_p) * (u[1] - u[0])
                self.assertAlmostEqual(mass.sum(), 1, places=4)
                if mean is not None:
                    self.assertAlmostEqual((mass * at.x).sum(), mean, places=4)
                    self.assertAlmostEqual((mass * (at.x - mean) ** 2).sum(), sd**2, delta=2e-3 * sd**2)
                inner = np.abs(u) < 4
                h = 1e-6
                up, down = made.at(u + h), made.at(u - h)
                np.testing.assert_allclose(((up.log_p - down.log_p) / 2 / h)[inner], at.grad[inner], rtol=1e-4, atol=1e-6)
                np.testing.assert_allclose(((up.x - down.x) / 2 / h)[inner], at.slope[inner], rtol=1e-4, atol=1e-6)

    def test_values_are_inside_of_the_limits(self):
        u = np.array([[-1e4], [-600.0], [600.0], [1e4]])
        for made in (wvgd.uniform(-1, 4), wvgd.beta(2, 0.1), wvgd.gamma(0.5, 2), wvgd.half_cauchy(1), wvgd.lognormal(0, 1)):
            prior = wvgd.Prior(x=made)
            with self.subTest(prior):
                x = prior.at(u).x
                self.assertTrue(np.isfinite(prior.inverse(x)).all(), x)
                seen = []
                with np.errstate(divide="ignore"):
                    prior.density(lambda q: seen.append(1 / (q["x"] - x[0, 0])) or 0.0, False)(u)  # 1 / 0 is no exception
                self.assertEqual(len(seen), 4)
        fit = wvgd.fit(lambda q: -q["x"], prior=wvgd.Prior(x=wvgd.beta(1, 0.02)))  # most of it closer to 1 than any other number
        self.assertTrue(np.isfinite(fit.log_q(fit.draws())).all())

    def test_fits_are_in_the_parameters(self):
        heads, flips = 7, 10  # beta(1 + 7, 1 + 3); evidence B(8, 4) / B(1, 1)

        def likelihood(q):
            with np.errstate(divide="ignore"):
                return heads * np.log(q["p"]) + (flips - heads) * np.log1p(-q["p"]) - 0.5 * (q["m"] - 1) ** 2

        def with_gradient(q):
            with np.errstate(divide="ignore"):
                return likelihood(q), {"p": heads / q["p"] - (flips - heads) / (1 - q["p"]), "m": 1 - q["m"]}

        prior = wvgd.Prior(p=wvgd.uniform(0, 1), m=wvgd.normal(0, 1))
        known = np.log(1 / 1320) - 0.25 - 0.5 * np.log(2)
        for function in (likelihood, with_gradient):
            fit = wvgd.fit(function, prior=prior)
            self.assertTrue(fit.reliable, fit.reasons)
            self.assertEqual(fit.names, ["p", "m"])
            self.assertAlmostEqual(fit.log_evidence, known, delta=0.05)
            np.testing.assert_allclose(fit.mean, [8 / 12, 0.5], atol=0.02)
            np.testing.assert_allclose(fit.sd, [np.sqrt(32 / 144 / 13), np.sqrt(0.5)], rtol=0.05)
            self.assertTrue(((fit["p"] > 0) & (fit["p"] < 1)).all())
            self.assertTrue(((fit.particles[:, 0] > 0) & (fit.particles[:, 0] < 1)).all())
            np.testing.assert_array_equal(fit.summary()["mean"], fit.mean)
        one = wvgd.fit(lambda q: float(likelihood(q)), prior=prior, vectorized=False)
        self.assertAlmostEqual(one.log_evidence, known, delta=0.05)

    def test_errors_name_the_argument(self):
        p = wvgd.Prior(a=wvgd.normal())
        for kind, words, call in (
            (ValueError, "normal: sd is 0", lambda: wvgd.normal(0, 0)),
            (ValueError, "uniform: high is 0", lambda: wvgd.uniform(1, 0)),
            (ValueError, "gamma: shape is nan", lambda: wvgd.gamma(np.nan)),
            (TypeError, "Prior: a is 3", lambda: wvgd.Prior(a=3)),
            (ValueError, "Prior: there are no", wvgd.Prior),
            (ValueError, "dim is 2, but the prior", lambda: wvgd.fit(normal, 2, prior=p)),
            (ValueError, r"log_likelihood returned log_p of shape \(\)", lambda: wvgd.fit(lambda q: 1.0, prior=p)),
            (ValueError, "keys a", lambda: wvgd.fit(lambda q: (q["a"], {"b": q["a"]}), prior=p)),
        ):
            with self.subTest(words):
                with self.assertRaisesRegex(kind, words):
                    call()


class Errors(unittest.TestCase):
    def check(self, kind, words, call):
        with self.assertRaisesRegex(kind, words):
            call()

    def test_name_the_argument(self):
        fit = wvgd.fit
        for kind, words, call in (
            (ValueError, "dim is missing", lambda: fit(normal)),
            (ValueError, "dim is 0: expected at least 1", lambda: fit(normal, dim=0)),
            (TypeError, "dim is 2.5", lambda: fit(normal, dim=2.5)),
            (TypeError, "model is int", lambda: fit(3, dim=2)),
            (ValueError, "no option partikles: did you mean particles", lambda: fit(normal, dim=2, partikles=3)),
            (ValueError, "no option ndim: did you mean dim", lambda: fit(normal, ndim=2)),
            (ValueError, "no option random_state: did you mean seed", lambda: fit(normal, dim=2, random_state=3)),
            (ValueError, "no option chains: a fit needs no such setting", lambda: fit(normal, dim=2, chains=4)),
            (ValueError, "particles", lambda: fit(normal, dim=2, particles=0)),
            (ValueError, "family", lambda: fit(normal, dim=2, family="round")),
            (TypeError, "option seed is None", lambda: wvgd.Fit(dim=2, seed=None)),
            (ValueError, "names is", lambda: fit(normal, dim=2, names=["a"])),
            (ValueError, "names has 'a' more than once", lambda: fit(normal, dim=2, names=["a", "a"])),
            (ValueError, r"init has shape \(3, 1\): expected \(particles, 2\)", lambda: fit(normal, dim=2, init=np.zeros((3, 1)))),
            (ValueError, r"init\[1, 0\] is nan", lambda: fit(normal, dim=2, init=[[0, 0], [np.nan, 0]])),
            (ValueError, "init has 2 rows, but particles is 3", lambda: fit(normal, dim=2, init=np.eye(2), particles=3)),
            (ValueError, r"metric has shape \(3, 3\)", lambda: wvgd.Fit(dim=2, metric=np.eye(3))),
            (TypeError, "metric has dtype complex128", lambda: wvgd.Fit(dim=2, metric=1j * np.eye(2))),
            (TypeError, "progress is 3", lambda: fit(normal, dim=2, progress=3)),
            (ValueError, "data is for models by name", lambda: fit(normal, dim=2, data="x.csv")),
            (ValueError, "dim is for functions", lambda: fit("logistic", 3)),
        ):
            with self.subTest(words):
                self.check(kind, words, call)

    def test_name_what_the_function_returned(self):
        for kind, words, function in (
            (ValueError, r"log_p of shape \(\).*vectorized=False", lambda z: -0.5 * (z**2).sum()),
            (ValueError, r"log_p of shape \(\d+, 2\)", lambda z: z),
            (ValueError, "returned a tuple of 3", lambda z: (z, z, z)),
            (TypeError, "returned None", lambda z: None),
            (TypeError, "log_p of log_density has dtype complex128", lambda z: 1j * z[:, 0]),
            (TypeError, "log_p of log_density has dtype <U1", lambda z: ["a"] * len(z)),
            (ValueError, r"grad of log_density has shape", lambda z: (z[:, 0], z[:, :1])),
            (TypeError, "grad of log_density has dtype", lambda z: (z[:, 0], z.astype(str))),
        ):
            with self.subTest(words):
                self.check(kind, words, lambda: wvgd.fit(function, dim=2))

    def test_wrong_use(self):
        fit = wvgd.Fit(dim=2)
        self.check(ValueError, "tell: nothing was asked", lambda: fit.tell([0.0]))
        self.check(ValueError, "draws: the fit has not ended", fit.draws)
        self.check(ValueError, "summary: the fit has not ended", fit.summary)
        n = len(fit.ask())
        self.check(ValueError, r"log_p has shape \(0,\)", lambda: fit.tell([]))
        self.check(ValueError, "grad is missing", lambda: fit.tell(np.zeros(n)))
        self.check(ValueError, "grad has shape", lambda: fit.tell(np.zeros(n), np.zeros((n, 3))))
        self.assertTrue(repr(fit).startswith("<not finished"))
        by_hand(fit, normal)
        self.check(ValueError, "n is 0", lambda: fit.draws(0))
        self.check(ValueError, "source is 'x'", lambda: fit.draws(source="x"))
        self.check(KeyError, "there is no such quantity", lambda: fit["x"])
        self.check(ValueError, "z has shape", lambda: fit.log_q(np.zeros(2)))
        self.check(ValueError, "values has shape", lambda: fit.describe(np.zeros(3)))
        self.check(ValueError, "gradient is True", lambda: wvgd.fit(lambda z: z[:, 0], dim=2, gradient=True))
        self.check(wvgd.ModelError, "", lambda: wvgd.fit(lambda z: np.full(len(z), -np.inf), dim=2))


def load_tests(loader, tests, pattern):
    for module in (wvgd, _fit, _prior, _results, _run):
        tests.addTests(doctest.DocTestSuite(module))
    return tests


if __name__ == "__main__":
    unittest.main()
