"""Models by name: the same bits as the program, tables from arrays, run directories."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import wvgd
from wvgd import _interrupt

SOURCE = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ["WVGD_LIBRARY_DIR"], "wvgd")
IRIS = str(SOURCE / "data" / "iris.csv")


def without_times(record):
    """What two runs of the same fit have in common."""
    return {key: record[key] for key in ("evaluations", "evidence", "particles", "posterior", "verdict", "modes", "stop")}


class Models(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name

    def test_the_same_bits_as_the_program(self):
        run = os.path.join(self.place, "run")
        command = [PROGRAM, "fit", "logistic", "--data", IRIS, "--standardize", "--seed", "3", "--quiet", "--out", run]
        subprocess.run(command, check=True, capture_output=True)
        theirs = json.loads(Path(run, "run.json").read_text())
        fit = wvgd.fit("logistic", data=IRIS, standardize=True, seed=3)
        self.assertEqual(without_times(fit.to_dict()), without_times(theirs))
        self.assertEqual(fit.mean.tolist(), theirs["posterior"]["mean"])
        self.assertEqual(fit.log_evidence, theirs["evidence"]["importance"]["value"])
        self.assertEqual(fit.particles.tolist(), [particle["z"] for particle in theirs["particles"]])
        sample = subprocess.run([PROGRAM, "sample", run, "-n", "20"], check=True, capture_output=True, text=True).stdout
        rows = [line.split(",")[4:] for line in sample.splitlines() if not line.startswith("#")]
        self.assertEqual(rows[0], fit.names)
        np.testing.assert_array_equal(np.array(rows[1:], dtype=float), fit.draws(20))
        loaded = wvgd.load(run)
        self.assertEqual(without_times(loaded.to_dict()), without_times(theirs))
        np.testing.assert_array_equal(loaded.draws(20), fit.draws(20))
        self.assertEqual([m.mass for m in loaded.modes], [m.mass for m in fit.modes])

    def test_tables_from_arrays(self):
        from_file = wvgd.fit("logistic", data=IRIS, standardize=True)
        table = np.genfromtxt(IRIS, delimiter=",", names=True, dtype=None, encoding=None)
        columns = {name: table[name] for name in table.dtype.names}
        for data in (table, columns):
            fit = wvgd.fit("logistic", data=data, standardize=True)
            self.assertEqual(fit.mean.tolist(), from_file.mean.tolist())
        rng = np.random.default_rng(1)
        x = rng.standard_normal(40)
        columns = {"x": x, "y": (x + rng.standard_normal(40) > 0).astype(int)}
        path = os.path.join(self.place, "table.csv")
        np.savetxt(path, np.column_stack(list(columns.values())), fmt=["%.17g", "%d"], delimiter=",", header="x,y", comments="")
        self.assertEqual(wvgd.fit("logistic", data=columns).mean.tolist(), wvgd.fit("logistic", data=path).mean.tolist())
        mixture = {"weights": np.array([1.0, 3.0]), "means": np.array([-3.0, 3.0]), "sds": [1, 1]}
        fit = wvgd.fit("mixture", data=mixture, particles=2)
        self.assertAlmostEqual(fit.log_evidence, np.log(4), delta=0.05)
        self.assertTrue(repr(fit).startswith("<no problems detected"), fit)
        self.assertIn("Verdict", str(fit.summary()))
        self.assertIn("log evidence", fit.text)

    def test_run_directories(self):
        out = os.path.join(self.place, "out")
        fit = wvgd.fit("logistic", data=IRIS, out=out)
        with self.assertRaises(wvgd.OutputError):
            wvgd.fit("logistic", data=IRIS, out=out)
        with self.assertRaises(wvgd.OutputError):
            fit.write(out)
        again = wvgd.load(out)
        self.assertEqual(again.to_dict()["evidence"], fit.to_dict()["evidence"])
        fit.write(os.path.join(self.place, "copy"))
        self.assertEqual(wvgd.load(os.path.join(self.place, "copy")).mean.tolist(), fit.mean.tolist())
        short = os.path.join(self.place, "short")
        wvgd.fit("logistic", data=IRIS, out=short, max_iter=1)
        self.assertEqual(wvgd.resume(short, max_iter=2000).mean.tolist(), fit.mean.tolist())

    def test_predictions(self):
        run, new, out = (os.path.join(self.place, name) for name in ("run", "new.csv", "out.csv"))
        rng = np.random.default_rng(2)
        x = rng.standard_normal(50)
        plan = np.array(["basic", "pro"])[rng.integers(0, 2, 50)]
        data = {"x": x, "plan": plan, "y": 1 + 2 * x + (plan == "pro") + 0.3 * rng.standard_normal(50)}
        fit = wvgd.fit("linear", data=data, prior_sd=5)
        rows = {"plan": ["pro", "basic"], "x": [0.5, -1.0], "other": ["u", "v"]}
        found = fit.predict(rows)
        w = dict(zip(fit.names, fit.draws(1000).T))  # as many, and the same, as draws.csv has
        by_hand = w["intercept"] + 0.5 * w["x"] + w["plan[pro]"]
        self.assertAlmostEqual(found["mean"][0], by_hand.mean(), places=12)
        self.assertAlmostEqual(found["sd"][0], by_hand.std(ddof=1), places=12)
        self.assertAlmostEqual(found["q95"][0], np.quantile(by_hand, 0.95), places=12)
        self.assertTrue(np.all(found["lower"] < found["q5"]) and np.all(found["q95"] < found["upper"]))
        fit.write(run)
        Path(new).write_text("x,plan\n0.5,pro\n-1,basic\n")
        subprocess.run([PROGRAM, "predict", run, "--data", new, "--out", out], check=True, capture_output=True)
        theirs = np.genfromtxt(out, delimiter=",", names=True)
        rounded = np.abs(np.array(found.tolist()) - np.array(theirs.tolist())) / found["sd"][:, None]  # to five digits of the sd
        self.assertLess(rounded.max(), 5.1e-5)
        np.testing.assert_array_equal(wvgd.load(run).predict(new), found)
        with self.assertRaisesRegex(wvgd.DataError, "no column \"plan\""):
            fit.predict({"x": [1.0]})
        with self.assertRaisesRegex(wvgd.DataError, "gold"):
            fit.predict({"x": [1.0], "plan": ["gold"]})

    def test_glm(self):
        rng = np.random.default_rng(6)
        x, group = rng.standard_normal(200), np.array(["a", "b"])[rng.integers(0, 2, 200)]
        data = {"x": x, "group": group, "y": rng.poisson(np.exp(0.5 + 0.3 * x + (group == "b")))}
        fit = wvgd.fit("glm", data=data, formula="y ~ x + group", likelihood="poisson")
        self.assertEqual(list(fit.names), ["intercept", "x", "group[b]"])
        self.assertTrue(np.all(np.abs(fit.mean - [0.5, 0.3, 1]) < 4 * fit.sd))
        found = fit.predict({"x": [0.0, 1.0], "group": ["a", "b"]})
        draws = np.array([fit[name] for name in fit.names])
        self.assertTrue(abs(found["mean"][1] / np.exp(fit.mean.sum()) - 1) < 0.05)
        self.assertEqual(draws.shape[0], 3)
        narrow = wvgd.fit("glm", data=data, formula="y ~ x + group", likelihood="poisson", prior={"slopes": "normal(0, 1)"})
        self.assertGreater(narrow.log_evidence, fit.log_evidence)
        with self.assertRaisesRegex(wvgd.ArgumentError, "no parameter \"z\""):
            wvgd.fit("glm", data=data, formula="y ~ x", likelihood="poisson", prior=["z=normal(0, 1)"])
        with self.assertRaisesRegex(wvgd.DataError, "\"c\""):
            fit.predict({"x": [0.0], "group": ["c"]})

    def test_comparison(self):
        run = os.path.join(self.place, "run")
        rng = np.random.default_rng(4)
        x = rng.standard_normal(60)
        data = {"x": x, "noise": rng.standard_normal(60), "y": 3 * x + rng.standard_normal(60)}
        both, useful = wvgd.fit("linear", data=data), wvgd.fit("linear", data=data, features="x")
        useless = wvgd.fit("linear", data=data, features="noise", out=run)
        found = wvgd.compare(both, useful, run)
        self.assertEqual([row["run"] for row in found.rows], ["run 2", "run 1", run])
        self.assertAlmostEqual(found[1]["difference"], both.log_evidence - useful.log_evidence, places=12)
        self.assertAlmostEqual(found[1]["difference_se"], np.hypot(both.log_evidence_se, useful.log_evidence_se), places=12)
        self.assertAlmostEqual(sum(row["probability"] for row in found.rows), 1, places=12)
        self.assertTrue(str(found).startswith("run"))
        self.assertEqual(wvgd.compare(useless, both, names=["a", "b"])[0]["run"], "b")
        with self.assertRaisesRegex(wvgd.DataError, "explain different data"):
            wvgd.compare(both, wvgd.fit("linear", data={**data, "y": x * x}))
        with self.assertRaisesRegex(TypeError, "run 2 is int"):
            wvgd.compare(both, 3)
        with self.assertRaisesRegex(ValueError, "expected 2"):
            wvgd.compare(both, useful, names=["a"])

    def test_report(self):
        fit = wvgd.fit("logistic", data=IRIS)
        try:
            page = fit.report(os.path.join(self.place, "page.html"))
        except wvgd.Error as error:
            self.skipTest(str(error))
        self.assertIn("<html", page.read_text()[:2000].lower())
        with self.assertRaisesRegex(wvgd.OutputError, "^cannot create .*: its directory does not exist$"):
            fit.report(os.path.join(self.place, "nowhere", "page.html"))

    def test_interrupts_and_exceptions(self):
        handler = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            fit = wvgd.fit("logistic", data=IRIS, progress=lambda p: p.iteration == 0 and signal.raise_signal(2) or None)
        except KeyboardInterrupt:  # came twice
            pass
        else:
            self.assertEqual(fit.stop, "stopped")
        finally:
            signal.signal(signal.SIGINT, handler)
        with self.assertRaises(ZeroDivisionError):
            wvgd.fit("logistic", data=IRIS, progress=lambda p: 1 / 0)

    @mock.patch.object(_interrupt, "AGAIN", 0)
    def test_interrupts_while_no_python_runs(self):
        """Without a line of progress the library calls nothing of Python's before the fit has ended."""
        t = np.linspace(0, 3, 250)
        data = {"t": t, "y": np.sin(4 * t) + 0.1 * np.random.default_rng(0).standard_normal(250)}
        handler = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        begin, done = time.process_time(), threading.Event()

        def interrupt():  # inside the fit, which takes many seconds of the processor, however busy the machine is
            while time.process_time() < begin + 0.3:
                if done.wait(0.01):
                    return
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Thread(target=interrupt)
        try:
            timer.start()
            fit = wvgd.fit("gp", data=data, evidence_se=0.001, max_evaluations=10**7, max_seconds=600, progress=False)
            self.assertEqual(fit.stop, "stopped")
        finally:
            done.set()
            timer.join()
            signal.signal(signal.SIGINT, handler)

    def test_errors_name_the_argument(self):
        for kind, words, call in (
            (wvgd.InputError, "no.csv", lambda: wvgd.fit("logistic", data="no.csv")),
            (FileNotFoundError, "no.csv", lambda: wvgd.fit("logistic", data="no.csv")),
            (ValueError, "logistick", lambda: wvgd.fit("logistick", data=IRIS)),
            (ValueError, "did you mean standardize", lambda: wvgd.fit("logistic", data=IRIS, standardise=True)),
            (wvgd.DataError, "no column .none.", lambda: wvgd.fit("logistic", data=IRIS, target="none")),
            (TypeError, "data is int", lambda: wvgd.fit("logistic", data=3)),
            (ValueError, r"data\['b'\] has 2 rows", lambda: wvgd.fit("logistic", data={"a": [1, 2, 3], "b": [0, 1]})),
            (ValueError, r"data, row 1: column a: found an empty field", lambda: wvgd.fit("logistic", data={"a": [1, np.nan], "b": [0, 1]})),
            (ValueError, r"data\['a'\]\[1\] is inf", lambda: wvgd.fit("logistic", data={"a": [1, np.inf], "b": [0, 1]})),
            (ValueError, r"data\['a'\] has shape", lambda: wvgd.fit("logistic", data={"a": np.eye(2), "b": [0, 1]})),
            (wvgd.Error, "nothing", lambda: wvgd.load("nothing")),
        ):
            with self.subTest(words):
                with self.assertRaisesRegex(kind, words):
                    call()


class Guide(unittest.TestCase):
    def test_its_code_runs(self):
        self.check("python.md", 6)

    def test_code_for_those_who_come_from_elsewhere_runs(self):
        self.check("coming-from.md", 2)

    def check(self, page, verdicts):
        blocks = re.findall(r"```python\n(.*?)```", (SOURCE / "docs" / page).read_text(), flags=re.S)
        self.assertGreater(len(blocks), 2)
        before, seen = os.getcwd(), {}
        os.chdir(SOURCE)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                for block in blocks:
                    exec(block, seen)
        finally:
            os.chdir(before)
        # reliable or not (rounding decides in one fit of five), each fit and each summary that is printed has a verdict
        said = re.findall(r"^(?:<|Verdict: )(?:no problems detected|unreliable)", said.getvalue(), flags=re.M)
        self.assertEqual(len(said), verdicts)


if __name__ == "__main__":
    unittest.main()
