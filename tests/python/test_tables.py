"""Tables from arrays and data frames: what is missing, dates, categories, errors that name rows and columns, runs that go
on with the same table."""

import os
import tempfile
import unittest

import numpy as np
import wvgd

try:
    import pandas
except ImportError:
    pandas = None

N = 60
RNG = np.random.default_rng(0)
X = RNG.standard_normal(N)
BASE = {"x": X, "y": 1 + 2 * X + 0.5 * RNG.standard_normal(N)}
LETTERS = np.array(["u", "v"] * (N // 2))


def fit_with(column, **options):
    return wvgd.fit("linear", data={**BASE, "c": column}, target="y", **options)


class Tables(unittest.TestCase):
    def check(self, kind, words, column):
        with self.assertRaisesRegex(kind, words):
            fit_with(column)

    def test_what_is_missing(self):
        numbers = np.array([1.0, 2.0, 3.0] * (N // 3))
        nan, masked = numbers.copy(), np.ma.masked_array(numbers, numbers == 2)
        nan[numbers == 2] = np.nan
        words = np.array(["u", None, "w"] * (N // 3), dtype=object)
        for column in (nan, masked, words):
            self.check(wvgd.DataError, r"^data, row 1: column c: found an empty field.*20 of 60", column)
        rows = numbers != 2
        kept = wvgd.fit("linear", data={"x": X[rows], "y": BASE["y"][rows], "c": numbers[rows]}, target="y")
        for column in (nan, masked):
            with self.assertWarnsRegex(UserWarning, "dropped 20 of 60 rows"):
                self.assertEqual(fit_with(column, missing="drop").mean.tolist(), kept.mean.tolist())

    def test_options_in_messages_of_several_lines(self):
        data = {**BASE, "id": [f"C{i}" for i in range(N)], "c": np.where(X > 1, np.nan, X)}
        with self.assertRaisesRegex(wvgd.DataError, "\nmissing drop leaves out .*, and ignore id") as caught:
            wvgd.fit("linear", data=data, target="y")
        self.assertNotIn("--", str(caught.exception))

    def test_columns_that_a_table_cannot_have(self):
        self.check(ValueError, r"data\['c'\]\[1\] is inf", np.array([0, np.inf, 1] * (N // 3)))
        self.check(wvgd.DataError, "column c: .*not a date", np.arange("2020-01", "2025-01", dtype="datetime64[M]"))
        self.check(TypeError, r"data\['c'\] has dtype timedelta64", np.arange(N).astype("timedelta64[s]"))
        self.check(TypeError, r"data\['c'\] has dtype complex", 1j * X)
        self.check(ValueError, r"data\['c'\]\[0\] .*UTF-8", np.array(["\ud800", "b"] * (N // 2), dtype=object))
        self.assertIn("c[v]", fit_with(LETTERS.astype("S")).names)
        self.check(wvgd.DataError, "^data: column c: .*control characters", np.array(["u\nu", "v"] * (N // 2)))
        with self.assertRaisesRegex(ValueError, "column with the name 0: expected names"):
            wvgd.fit("linear", data={0: X, 1: X})

    @unittest.skipUnless(pandas, "needs pandas")
    def test_columns_of_pandas(self):
        for column in (
            pandas.array([True, None, False] * (N // 3), dtype="boolean"),
            pandas.array([1, None, 2] * (N // 3), dtype="Int64"),
            pandas.array(["u", None, "v"] * (N // 3), dtype="string"),
        ):
            self.check(wvgd.DataError, "row 1: column c: found an empty field", column)
            self.check(wvgd.DataError, "row 1: column c: found an empty field", pandas.Series(column))
        self.check(wvgd.DataError, "not a date", pandas.Series(pandas.date_range("2020-01-01", periods=N)))
        self.check(ValueError, "categories that are numbers", pandas.Categorical([1, 2] * (N // 2)))
        self.assertIn("c[v]", fit_with(pandas.Categorical(LETTERS)).names)
        frame = pandas.DataFrame(np.zeros((3, 3)), columns=["x", "x", "y"])
        with self.assertRaisesRegex(ValueError, "column 'x' more than once"):
            wvgd.fit("linear", data=frame)

    def test_a_matrix_of_new_rows(self):
        fit = fit_with(X**2)
        rows = {"x": np.array([0.5, 1.0]), "c": np.array([0.25, 2.0])}
        np.testing.assert_array_equal(fit.predict(np.column_stack([rows["x"], rows["c"]])), fit.predict(rows))
        with self.assertRaisesRegex(ValueError, "expected the columns x, c"):
            fit.predict(np.zeros((2, 3)))

    def test_runs_go_on_with_the_same_table(self):
        with tempfile.TemporaryDirectory() as place:
            out = os.path.join(place, "run")
            whole = wvgd.fit("linear", data=BASE)
            short = wvgd.fit("linear", data=BASE, out=out, resume=True, max_evaluations=300)
            self.assertEqual(short.stop, "max_evaluations")
            self.assertIn("dict", short.to_dict()["command"])
            with self.assertRaisesRegex(wvgd.Error, "changed"):
                wvgd.fit("linear", data={**BASE, "x": -X}, out=out, resume=True, max_evaluations=200000)
            with self.assertRaisesRegex(ValueError, "seed is 2"):
                wvgd.fit("linear", data=BASE, out=out, resume=True, seed=2)
            with self.assertRaises(wvgd.Error):
                wvgd.resume(out, max_evaluations=200000)
            more = wvgd.resume(out, data=BASE, max_evaluations=200000)
            self.assertEqual((more.mean.tolist(), more.stop), (whole.mean.tolist(), "converged"))
            again = wvgd.fit("linear", data=BASE, out=out, resume=True)
            self.assertEqual(again.mean.tolist(), whole.mean.tolist())

    def test_priors_of_models(self):
        data = {"x": X, "n": RNG.poisson(3, N)}
        plain = wvgd.fit("glm", data=data, formula="n ~ x", likelihood="poisson")
        empty = wvgd.fit("glm", data=data, formula="n ~ x", likelihood="poisson", prior={})
        self.assertEqual(plain.log_evidence, empty.log_evidence)
        with self.assertRaisesRegex(TypeError, "prior is 5"):
            wvgd.fit("glm", data=data, formula="n ~ x", likelihood="poisson", prior=5)


if __name__ == "__main__":
    unittest.main()
