"""What is done with fits: exports, pictures; workers; Stan programs."""

import os
import shutil
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

import numpy as np
import wvgd

SOURCE = Path(__file__).resolve().parents[2]
IRIS = str(SOURCE / "data" / "iris.csv")


def has(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


def gauss(z):
    return -0.5 * (z**2).sum(axis=1)


def without_times(fit):
    """What two fits of the same density have in common."""
    return {key: value for key, value in fit.to_dict().items() if key not in ("seconds", "command")}


class Mine(Exception):
    pass


class After(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.run_ = wvgd.fit("logistic", data=IRIS, standardize=True)
        cls.fit_ = wvgd.fit(lambda z: (gauss(z), -z), dim=2, names=["a", "b"])
        prior = wvgd.Prior(p=wvgd.uniform(0, 1), m=wvgd.normal(0, 2))
        with np.errstate(divide="ignore"):
            cls.prior_ = wvgd.fit(lambda q: 7 * np.log(q["p"]) + 3 * np.log1p(-q["p"]) - 0.5 * (q["m"] - 1) ** 2, prior=prior)

    def test_densities_do_not_predict(self):
        with self.assertRaisesRegex(ValueError, "describe"):
            self.fit_.predict(IRIS)

    @unittest.skipIf(has("arviz"), "arviz gives an object")
    def test_groups_of_arviz(self):
        for fit in (self.run_, self.fit_, self.prior_):
            groups = fit.to_arviz(500)
            self.assertEqual(list(groups["posterior"]), fit.names)
            self.assertEqual(set(groups["sample_stats"]), {"lp", "lp_approx", "log_weight", "cell"})
            for group in groups.values():
                for name, array in group.items():
                    self.assertEqual(array.shape, (1, 500), name)
                    self.assertTrue(np.isfinite(array).all(), name)
            np.testing.assert_array_equal(groups["posterior"][fit.names[0]][0], fit.draws(500)[:, 0])
        groups = self.run_.to_arviz(500)  # its parameters have no limits
        for name in self.run_.names:
            np.testing.assert_array_equal(groups["posterior"][name], groups["unconstrained_posterior"][name])
        groups = self.fit_.to_arviz(500)
        z = np.stack([groups["posterior"][name][0] for name in "ab"], axis=1)
        np.testing.assert_allclose(groups["sample_stats"]["lp"][0], gauss(z))
        np.testing.assert_array_equal(groups["sample_stats"]["cell"][0], self.fit_.cell(z))
        groups = self.prior_.to_arviz(500)
        p, m = groups["posterior"]["p"], groups["posterior"]["m"]
        np.testing.assert_allclose(groups["log_prior"]["p"], 0, atol=1e-9)
        np.testing.assert_allclose(groups["log_prior"]["m"], -(m**2) / 8 - np.log(2 * np.sqrt(2 * np.pi)))
        known = 7 * np.log(p) + 3 * np.log1p(-p) - 0.5 * (m - 1) ** 2
        np.testing.assert_allclose(groups["log_likelihood"]["log_likelihood"], known, rtol=1e-8)

    def test_objects_of_arviz(self):
        """What either generation of ArviZ is called with, by stand-ins that keep it."""
        old, new = types.ModuleType("arviz"), types.ModuleType("arviz")
        old.InferenceData = lambda **groups: groups
        old.dict_to_dataset = lambda arrays: ("dataset", arrays)
        new.from_dict = lambda groups: ("tree", groups)
        with unittest.mock.patch.dict(sys.modules, arviz=None):
            groups = self.prior_.to_arviz(50)
        self.assertEqual(
            list(groups), ["posterior", "unconstrained_posterior", "sample_stats", "log_prior", "log_likelihood"]
        )
        for arviz in (old, new):
            with unittest.mock.patch.dict(sys.modules, arviz=arviz):
                found = self.prior_.to_arviz(50)
            theirs = {k: v[1] for k, v in found.items()} if arviz is old else found[1]
            self.assertEqual(list(theirs), list(groups))
            for name, arrays in theirs.items():
                for key, array in arrays.items():
                    np.testing.assert_array_equal(array, groups[name][key])

    def test_answers_as_jax_gives_them(self):
        """Arrays of another library, which numpy reads by __array__, in a tuple of values and gradients."""

        class Array:
            def __init__(self, values):
                self.values = values

            def __array__(self, dtype=None, copy=None):
                return np.array(self.values, dtype=dtype)

        fit = wvgd.fit(lambda z: (Array(gauss(z)), Array(-z)), dim=2, names=["a", "b"])
        np.testing.assert_array_equal(fit.mean, self.fit_.mean)
        prior = wvgd.Prior(a=wvgd.normal(0, 1))
        fit = wvgd.fit(lambda q: (Array(-0.5 * q["a"] ** 2), {"a": Array(-q["a"])}), prior=prior)
        self.assertAlmostEqual(fit.sd[0], np.sqrt(0.5), delta=0.02)

    @unittest.skipUnless(has("torch"), "needs torch")
    def test_gradients_by_torch(self):
        fit = wvgd.fit(wvgd.torch(lambda z: -0.5 * (z**2).sum(1)), dim=2, names=["a", "b"])
        np.testing.assert_allclose(fit.mean, self.fit_.mean, atol=1e-9)
        self.assertLess(fit.evaluations, 2000)  # without gradients it takes more
        prior = wvgd.Prior(a=wvgd.normal(0, 1), b=wvgd.uniform(0, 1))
        fit = wvgd.fit(wvgd.torch(lambda q: -0.5 * q["a"] ** 2), prior=prior)
        np.testing.assert_allclose(fit.sd, [np.sqrt(0.5), 1 / np.sqrt(12)], rtol=0.05)
        with self.assertRaisesRegex(ValueError, "shape"):
            wvgd.fit(wvgd.torch(lambda z: -0.5 * (z**2).sum()), dim=2)

    @unittest.skipUnless(has("pandas"), "needs pandas")
    def test_tables_of_pandas(self):
        table = self.fit_.summary().to_pandas()
        self.assertEqual(table.loc["b", "mean"], self.fit_.mean[1])
        self.assertEqual(list(self.fit_.to_pandas(10).columns), ["a", "b"])
        import pandas

        frame = pandas.read_csv(IRIS)
        self.assertEqual(wvgd.fit("logistic", data=frame, standardize=True).mean.tolist(), self.run_.mean.tolist())
        np.testing.assert_array_equal(self.run_.predict(frame), self.run_.predict(IRIS))

    @unittest.skipUnless(has("matplotlib"), "needs matplotlib")
    def test_pictures(self):
        import matplotlib

        matplotlib.use("agg")
        from matplotlib import pyplot

        for fit in (self.run_, self.fit_, self.prior_):
            for made in (fit.plot_corner(n=300), fit.plot_forest(), fit.plot_cells(n=300), fit.plot_trace()):
                made.canvas.draw()
                self.assertIn(fit.verdict, made._suptitle.get_text())
                pyplot.close(made)
        pyplot.close(self.fit_.plot_cells(["b"]))
        names = [f"parameter of the group number {i}" for i in range(3)]
        long = wvgd.fit(lambda z: (gauss(z), -z), dim=3, names=names).plot_forest()
        long.canvas.draw()
        axis = long.axes[0]
        for label in (*axis.get_yticklabels(), axis.xaxis.label):  # all of it is in the picture
            box = label.get_window_extent()
            self.assertTrue(box.x0 >= 0 and box.y0 >= 0, (label.get_text(), box))
        pyplot.close(long)
        with self.assertRaisesRegex(ValueError, "names has 'x'"):
            self.fit_.plot_corner(["x"])
        with self.assertRaisesRegex(ValueError, "expected 1 or 2"):
            self.run_.plot_cells(self.run_.names)

    def test_workers(self):
        def density(z):
            if (z.shape[0] > 16) or os.getpid() == parent:
                raise AssertionError("not in a worker")
            return gauss(z), -z

        parent = os.getpid()
        one, three = (wvgd.fit(density, dim=2, workers=n) for n in (1, 3))
        self.assertEqual(without_times(one), without_times(three))
        prior = wvgd.Prior(p=wvgd.uniform(0, 1))
        each = [wvgd.fit(lambda q: (float(7 * np.log(q["p"])), {"p": 7 / q["p"]}), prior=prior, vectorized=False, workers=n) for n in (None, 1, 2)]
        self.assertAlmostEqual(each[0].log_evidence, np.log(1 / 8), delta=0.05)
        for fit in each[1:]:  # a function of one point gives the same in this process and in others
            self.assertEqual(without_times(fit), without_times(each[0]))

        def fails(z):
            raise Mine("here")

        def fails_oddly(z):
            class Local(Exception):
                pass

            raise Local("there")

        with self.assertRaisesRegex(Mine, "here"):
            wvgd.fit(fails, dim=2, workers=2)
        with self.assertRaisesRegex(wvgd.ModelError, "Local: there"):
            wvgd.fit(fails_oddly, dim=2, workers=2)
        with self.assertRaisesRegex(RuntimeError, "terminated"):
            wvgd.fit(lambda z: os._exit(3), dim=2, workers=2)
        with self.assertRaisesRegex(ValueError, "workers is 0"):
            wvgd.fit(fails, dim=2, workers=0)

    def test_workers_write_over_a_run(self):
        """They are forked while the directory is locked, and the run begins anew when it shows that there are no gradients."""
        with tempfile.TemporaryDirectory() as out:
            found = [wvgd.fit(lambda z: -0.5 * (z**2).sum(1), dim=2, workers=2, out=out + "/run", overwrite=True) for _ in range(2)]
        self.assertEqual(found[0].mean.tolist(), found[1].mean.tolist())

    def test_stan(self):
        with self.assertRaisesRegex(FileNotFoundError, "no.stan"):
            wvgd.stan("no.stan")
        if not shutil.which("Rscript"):
            self.skipTest("there is no toolchain for Stan")
        with tempfile.TemporaryDirectory() as place:
            path = Path(place, "coin.stan")
            path.write_text(
                "data { int n; int k; } parameters { real<lower=0, upper=1> p; } model { target += binomial_lpmf(k | n, p); }\n"
            )
            try:
                model = wvgd.stan(path)
            except wvgd.Error as error:
                self.skipTest(str(error))
            fit = model.fit({"n": 10, "k": 7}, seed=2)
            self.assertEqual(fit.names, ["p"])
            self.assertAlmostEqual(fit.log_evidence, np.log(1 / 11), delta=0.05)
            self.assertAlmostEqual(fit.mean[0], 8 / 12, delta=0.02)


if __name__ == "__main__":
    unittest.main()
