"""Odd answers, arguments out of range, threads that share a fit, copies, workers that die, what is freed when."""

import gc
import os
import pickle
import copy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref
from pathlib import Path

import numpy as np
import wvgd
from wvgd._prior import Prior

PACKAGE = Path(wvgd.__file__).parent


def normal(z):
    return -0.5 * (z**2).sum(axis=1), -z


def values(z):
    return normal(z)[0]


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.alone = wvgd.fit(normal, dim=2).mean.tolist()

    def test_layouts_that_mean_the_same(self):
        room = np.empty(100000)

        def strided(z):
            return np.repeat(values(z), 2)[::2], np.asfortranarray(-z)

        def frozen(z):
            answer = values(z), -z
            for array in answer:
                array.flags.writeable = False
            return answer

        def reused(z):
            room[: len(z)] = values(z)
            return room[: len(z)], np.negative(z, out=z)

        def swapped(z):
            return values(z).astype(">f8"), (-z).astype(">f8")

        def inner(z):
            if not inner.busy:
                inner.busy = True
                self.assertEqual(wvgd.fit(normal, dim=2).mean.tolist(), self.alone)
            return normal(z)

        inner.busy = False
        for function in (strided, frozen, reused, swapped, inner):
            self.assertEqual(wvgd.fit(function, dim=2).mean.tolist(), self.alone, function.__name__)

    def test_what_is_no_answer(self):
        prior = wvgd.Prior(a=wvgd.normal())

        def masked(z):
            return np.ma.masked_array(values(z), z[:, 0] > -9)

        for words, function, options in (
            ("masked array", masked, {}),
            ("list of two", lambda z: [values(z), -z], {}),
            ("returned generator", lambda z: (value for value in values(z)), {}),
            (r"shape \(1, 1\).*take \[:, 0\]", lambda z: values(z)[:, None], {}),
            (r"shape \(1,\) for a point: expected a number", lambda z: np.array([-z @ z]), {"vectorized": False}),
            ("returned None", lambda z: None, {"vectorized": False}),
            (r"grad of log_density has shape \(1,\): expected \(2,\)", lambda z: (-z @ z, z[:1]), {"vectorized": False}),
        ):
            with self.subTest(words):
                with self.assertRaisesRegex((TypeError, ValueError), words):
                    wvgd.fit(function, dim=2, **options)
        for words, function in (
            ("log_likelihood returned None", lambda q: None),
            ("log_likelihood returned a tuple of 3", lambda q: (q["a"],) * 3),
            (r"log_likelihood returned log_p of shape \(\)", lambda q: 0.0),
            ("keys a, b: expected", lambda q: (q["a"], {"a": q["a"], "b": q["a"]})),
            (r"gradient in a that log_likelihood returned has shape", lambda q: (q["a"], {"a": 1.0})),
        ):
            with self.subTest(words):
                with self.assertRaisesRegex((TypeError, ValueError), words):
                    wvgd.fit(function, prior=prior)

    def test_points_without_density_need_no_gradient(self):
        def half(z):  # of a normal, for z[0] > -1
            return -np.inf if z[0] < -1 else (-0.5 * z @ z, -z)

        def whole(z):
            return (-np.inf, np.zeros(2)) if z[0] < -1 else half(z)

        found = wvgd.fit(half, dim=2, vectorized=False)
        self.assertEqual(found.draws().tolist(), wvgd.fit(whole, dim=2, vectorized=False).draws().tolist())
        self.assertEqual(found.draws().tolist(), wvgd.fit(half, dim=2, vectorized=False, workers=2).draws().tolist())
        with self.assertRaisesRegex(ValueError, "gradients for some points and none for others"):
            wvgd.fit(lambda z: -0.5 * z @ z if z[0] < -1 else half(z), dim=2, vectorized=False)
        calls = []

        def forgets(z):
            calls.append(1)
            return normal(z) if len(calls) < 3 else values(z)

        with self.assertRaisesRegex(ValueError, "gradients for some points and none for others"):
            wvgd.fit(forgets, dim=2)

    def test_values_in_a_buffer_that_is_used_again(self):
        room = np.empty(100000)

        def reused(z):
            room[: len(z)] = values(z)
            return room[: len(z)]

        self.assertEqual(wvgd.fit(reused, dim=2).draws().tolist(), wvgd.fit(values, dim=2).draws().tolist())

    def test_exceptions_keep_their_cause(self):
        def fails(z):
            try:
                return {}["key"]
            except KeyError as error:
                raise RuntimeError("mine") from error

        for workers in (None, 2):
            with self.assertRaisesRegex(RuntimeError, "mine") as caught:
                wvgd.fit(fails, dim=2, workers=workers)
            self.assertIsNotNone(caught.exception.__cause__)
        self.assertIn("in fails", str(caught.exception.__cause__))  # where in the worker

    def test_an_exception_is_not_taken_for_the_end(self):
        def ends(z):
            raise StopIteration("mine")

        with self.assertRaisesRegex(StopIteration, "mine"):
            wvgd.fit(ends, dim=2, vectorized=False)

    @unittest.skipIf(sys.version_info < (3, 11), "exceptions have no notes")
    def test_functions_of_one_point_are_told_how_they_are_called(self):
        try:
            wvgd.fit(lambda z: -z @ z, dim=2)
        except ValueError as error:
            self.assertIn("vectorized=False", error.__notes__[0])


class Arguments(unittest.TestCase):
    def test_out_of_range(self):
        fit = wvgd.fit(normal, dim=2)
        for kind, words, call in (
            (ValueError, "dim is 1000001: expected at most", lambda: wvgd.fit(normal, dim=1000001)),
            (ValueError, "dim is 1000000000", lambda: wvgd.Fit(dim=10**9)),
            (TypeError, r"dim is array\(\[2\]\)", lambda: wvgd.Fit(dim=np.array([2]))),
            (ValueError, r"levels is \(0.5, 2\)", lambda: fit.describe(fit.posterior()[0], (0.5, 2))),
            (TypeError, "out is 3", lambda: wvgd.fit(normal, dim=2, out=3)),
            (ValueError, "out .* without NUL", lambda: wvgd.fit(normal, dim=2, out="a\0b")),
            (TypeError, "vectorized is 'no'", lambda: wvgd.fit(normal, dim=2, vectorized="no")),
            (TypeError, "gradient is 'no'", lambda: wvgd.fit(normal, dim=2, gradient="no")),
            (TypeError, "resume is 'no'", lambda: wvgd.fit(normal, dim=2, out="x", resume="no")),
            (TypeError, r"names\[1\] is None", lambda: wvgd.fit(normal, dim=2, names=["a", None])),
            (ValueError, r"names\[0\] is '\\ud800'", lambda: wvgd.fit(normal, dim=2, names=["\ud800", "b"])),
            (ValueError, r"names\[0\] is 'a\\n'", lambda: wvgd.fit(normal, dim=2, names=["a\n", "b"])),
            (ValueError, "names is 5", lambda: wvgd.fit(normal, dim=2, names=5)),
            (ValueError, "seed is 18446744073709551616", lambda: fit.draws(3, seed=2**64)),
            (ValueError, "seed is -1", lambda: fit.modes[0].draws(3, seed=-1)),
            (ValueError, r"z\[0, 1\] is nan", lambda: fit.cell([[0, np.nan]])),
            (TypeError, "directory is None", lambda: wvgd.load(None)),
            (ValueError, "prior is list", lambda: wvgd.fit(values, prior=[wvgd.normal()])),
            (TypeError, "expected a distribution", lambda: wvgd.fit(values, prior={"a": 1})),
            (ValueError, "no option pool: did you mean workers", lambda: wvgd.fit(values, prior={"a": wvgd.normal()}, pool=object())),
            (ValueError, "no option args: write a lambda", lambda: wvgd.fit(values, prior={"a": wvgd.normal()}, args=(1,))),
            (ValueError, "mean is 1j", lambda: wvgd.normal(1j)),
            (ValueError, "evidence_se is 'inf'", lambda: wvgd.fit(normal, dim=2, evidence_se=np.inf)),
            (wvgd.ModelError, "set init_scale", lambda: wvgd.fit(lambda z: np.full(len(z), -np.inf), dim=2)),
        ):
            with self.subTest(words):
                with self.assertRaisesRegex(kind, words):
                    call()
        self.assertEqual(dict(fit).keys(), {"z.1", "z.2"})
        self.assertEqual(fit.describe(fit.posterior()[0], 0.5)["quantile"].shape, (2, 1))

    def test_starting_particles_say_nothing_of_files(self):
        fit = wvgd.fit(normal, dim=2, init=np.eye(2))  # a warning would be an error
        self.assertEqual(len(fit.beta), 2)

    def test_a_prior_is_recorded_exactly(self):
        prior = wvgd.Prior(a=wvgd.normal(1 / 3, 2), b=wvgd.uniform(1234567.25, 1234568.5), σ=wvgd.gamma(3, 1e-7))
        again = Prior.of_text(repr(prior), prior.names)
        self.assertEqual(repr(again), repr(prior))
        u = np.linspace(-3, 3, 7)
        for name, made in prior.parameters.items():
            for other in (again.parameters[name], pickle.loads(pickle.dumps(made))):
                np.testing.assert_array_equal(made.at(u).x, other.at(u).x)
                np.testing.assert_array_equal(made.at(u).log_p, other.at(u).log_p)
        self.assertIsNone(Prior.of_text("normal, of mean 0", ["a"]))

    def test_a_loaded_run_has_its_prior(self):
        with tempfile.TemporaryDirectory() as place:
            out = os.path.join(place, "run")
            prior = wvgd.Prior(a=wvgd.normal(1 / 3, 2), p=wvgd.uniform(0, 1))
            fit = wvgd.fit(lambda q: -0.5 * q["a"] ** 2 + np.log1p(q["p"]), prior=prior, out=out)
            loaded = wvgd.load(out)
            z = fit.draws(20)
            np.testing.assert_array_equal(loaded.log_q(z), fit.log_q(z))
            np.testing.assert_array_equal(loaded.cell(z), fit.cell(z))
            mine, theirs = fit.to_arviz(20), loaded.to_arviz(20)
            np.testing.assert_array_equal(mine["log_likelihood"]["log_likelihood"], theirs["log_likelihood"]["log_likelihood"])
            self.assertEqual(loaded.log_q([[0.0, 1.5]])[0], -np.inf)
            for whole, part in ((fit, loaded), (fit.modes[0], loaded.modes[0])):
                np.testing.assert_array_equal(part.mean, whole.mean)
                np.testing.assert_array_equal(part.sd, whole.sd)

    def test_a_loaded_run_has_draws_without_weight(self):
        with tempfile.TemporaryDirectory() as place:
            out = os.path.join(place, "run")
            prior = wvgd.Prior(a=wvgd.normal(0, 1), p=wvgd.uniform(0, 1))
            fit = wvgd.fit(lambda q: np.where(q["a"] > 1, -1e4, 0) + np.log1p(q["p"]), prior=prior, out=out)
            (z, log_weight), (same, _) = fit.posterior(), wvgd.load(out).posterior()
            self.assertTrue((np.exp(log_weight) == 0).any())
            np.testing.assert_array_equal(same, z)
            with self.assertRaisesRegex(ValueError, "expected a value that p=uniform"):
                fit.cell([[0.0, 1.5]])

    def test_heavy_tails_are_marked_in_their_rows(self):
        def cauchy(z):
            return -np.log1p(z[:, 0] ** 2) - 0.5 * z[:, 1] ** 2

        summaries = [wvgd.fit(cauchy, dim=2, seed=seed).summary() for seed in range(1, 7)]  # draws of a fit in three hide the tail
        self.assertTrue(any("*" in str(summary).splitlines()[1] for summary in summaries))
        for summary in summaries:
            self.assertNotIn("*", str(summary).splitlines()[2])
            self.assertGreater(summary["sd_se"][1], 0)


class Sharing(unittest.TestCase):
    def test_threads_that_share_a_fit(self):
        alone, fit, odd = wvgd.fit(normal, dim=3), wvgd.Fit(dim=3), []

        def tell():
            while (z := fit.ask()) is not None:
                try:
                    fit.tell(*normal(z))
                except ValueError as error:  # another thread was faster
                    if "nothing was asked" not in str(error) and "has shape" not in str(error):
                        odd.append(error)

        def read():
            for _ in range(20):
                if (alone.draws(50) != first).any() or alone.to_dict() != record:
                    odd.append("other results")
                alone.summary(), alone.modes, alone.text, alone.to_arviz(10)

        first, record = alone.draws(50), alone.to_dict()
        for work in (tell, read):
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(odd, [])
        self.assertTrue(fit.done)

    def test_copies_are_refused(self):
        for fit in (wvgd.fit(normal, dim=2), wvgd.Fit(dim=2)):
            for copies in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "cannot be copied"):
                    copies(fit)

    def test_functions_are_freed(self):
        class Function:
            def __call__(self, z):
                if self.fails:
                    raise ValueError
                return normal(z)

        gc.disable()
        try:
            for fails in (False, True):
                function = Function()
                function.fails = fails
                seen = weakref.ref(function)
                try:
                    wvgd.fit(function, dim=2)
                except ValueError:
                    pass
                del function
                self.assertIsNone(seen(), fails)
        finally:
            gc.enable()

    def test_workers_that_are_killed(self):
        with self.assertRaisesRegex(wvgd.ModelError, "a worker was terminated"):
            wvgd.fit(lambda z: os.kill(os.getpid(), signal.SIGKILL), dim=2, workers=2)

    @unittest.skipUnless(sys.platform == "linux", "Linux ends them")
    def test_workers_end_with_a_process_that_is_killed(self):
        code = "import os, time, wvgd\ndef f(z):\n    print(os.getpid(), flush=True)\n    time.sleep(60)\nwvgd.fit(f, dim=2, workers=2)\n"
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        worker = int(process.stdout.readline())
        process.kill()
        process.communicate()
        for _ in range(600):
            if not Path(f"/proc/{worker}").exists() or " Z " in Path(f"/proc/{worker}/stat").read_text():
                break
            time.sleep(0.1)
        else:
            os.kill(worker, signal.SIGKILL)
            self.fail("the worker goes on")


class Types(unittest.TestCase):
    def test_hints(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("needs mypy")
        settings = PACKAGE.parent / "pyproject.toml"
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir", cache, str(PACKAGE)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=cache)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
