"""Models by name: the same bits as the program, tables from arrays, run directories."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import wvgd

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

    def test_report(self):
        fit = wvgd.fit("logistic", data=IRIS)
        try:
            page = fit.report(os.path.join(self.place, "page.html"))
        except wvgd.Error as error:
            self.skipTest(str(error))
        self.assertIn("<html", page.read_text()[:2000].lower())

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

    def test_errors_name_the_argument(self):
        for kind, words, call in (
            (wvgd.InputError, "no.csv", lambda: wvgd.fit("logistic", data="no.csv")),
            (FileNotFoundError, "no.csv", lambda: wvgd.fit("logistic", data="no.csv")),
            (ValueError, "logistick", lambda: wvgd.fit("logistick", data=IRIS)),
            (ValueError, "standardise", lambda: wvgd.fit("logistic", data=IRIS, standardise=True)),
            (wvgd.DataError, "no column .none.", lambda: wvgd.fit("logistic", data=IRIS, target="none")),
            (TypeError, "data is int", lambda: wvgd.fit("logistic", data=3)),
            (ValueError, r"data\['b'\] has 2 rows", lambda: wvgd.fit("logistic", data={"a": [1, 2, 3], "b": [0, 1]})),
            (ValueError, r"data\['a'\]\[1\] is nan", lambda: wvgd.fit("logistic", data={"a": [1, np.nan], "b": [0, 1]})),
            (ValueError, r"data\['a'\] has shape", lambda: wvgd.fit("logistic", data={"a": np.eye(2), "b": [0, 1]})),
            (wvgd.Error, "nothing", lambda: wvgd.load("nothing")),
        ):
            with self.subTest(words):
                with self.assertRaisesRegex(kind, words):
                    call()


class Guide(unittest.TestCase):
    def test_its_code_runs(self):
        blocks = re.findall(r"```python\n(.*?)```", (SOURCE / "docs" / "python.md").read_text(), flags=re.S)
        self.assertGreater(len(blocks), 3)
        before, seen = os.getcwd(), {}
        os.chdir(SOURCE)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                for block in blocks:
                    exec(block, seen)
        finally:
            os.chdir(before)
        self.assertEqual(said.getvalue().count("no problems detected"), 5)


if __name__ == "__main__":
    unittest.main()
