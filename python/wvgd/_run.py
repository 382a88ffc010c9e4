"""Runs of densities and models, and run directories: what the program wvgd does, by libwvgd-tools."""

from __future__ import annotations

import contextlib
import ctypes as c
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _layout
from ._answer import Answer
from ._data import DataFile, count, flag, option_text, path_text
from ._density import Density, NoGradient
from ._errors import ArgumentError, Error, error_of_exit
from ._fit import assumed_work, is_foreign, no_option, starts
from ._interrupt import Interrupt
from ._library import address, call, core, directories, make, texts, tools
from ._prior import Prior
from ._progress import Reporter, Shown
from ._results import Result, in_python

PathLike = Union[str, "os.PathLike[str]"]
CHECKPOINTS = ("checkpoint", "checkpoint.next")  # files that a run can go on from
CHANGEABLE = ("max-iter", "max-evaluations", "max-seconds", "threads", "checkpoint-every", "output-draws", "data", "model")  # then


class _Request:
    """with _Request(options) as pointer: options by name, and the density that they are for."""

    def __init__(self, options: Dict[str, Any], notes: List[str], density: Optional[Density], called: str) -> None:
        self.options, self.density = options, density
        words = [f"{name}={value!r}" for name, value in options.items() if name not in ("model", "data")]
        self.command = f"wvgd.fit({', '.join([called, *words])})"
        self.note = _layout.NOTE(lambda _, text: notes.append(text.decode("utf-8", "replace")))

    def __enter__(self) -> int:
        self.pointer = tools().wvgd_request_new()
        if not self.pointer:
            raise MemoryError("no memory for a request")
        tools().wvgd_request_notes(self.pointer, self.note, None)
        try:
            if self.density:
                call(tools().wvgd_request_own, self.pointer, c.byref(self.density.own))
            call(tools().wvgd_request_command, self.pointer, self.command.encode("utf-8", "replace"))
            for name, value in self.options.items():
                if is_foreign(name):
                    raise no_option(name)
                if value is not None:
                    text = option_text(name, value)
                    call(tools().wvgd_request_set, self.pointer, name.encode(), os.fsencode(text))
        except BaseException as error:
            self.__exit__()
            if str(error).startswith("unknown option"):
                near = re.search(r": did you mean ([\w-]+)\?$", str(error))
                raise no_option(name, near.group(1) if near else None) from None
            raise
        return self.pointer

    def __exit__(self, *_: Any) -> None:
        tools().wvgd_request_free(self.pointer)


class Run(Result):
    """A run of a density or a model, or one that was loaded. wvgd.fit and wvgd.load make it."""

    def __init__(self, session: int, request: _Request, notes: List[str]) -> None:
        self._lock = threading.RLock()
        self._session = session
        self._request = request  # whose callbacks the session has
        self._notes = notes
        self._directory: Optional[str] = None  # that it was loaded from
        self.prior: Optional[Prior] = request.density.prior if request.density else None
        self._free = weakref.finalize(self, tools().wvgd_session_close, session)
        self._pointer = tools().wvgd_session_fit(session)
        n = c.c_size_t()
        self.names = texts(tools().wvgd_session_names(session, c.byref(n)), n.value)
        self._record: Optional[Dict[str, Any]] = None

    def _run(self, progress: Shown) -> "Run":
        reporter, failed = Reporter(progress), []

        def after_batch(_: Any, now: Any) -> int:  # no exception may leave it
            try:
                reporter.update(now.contents, now.contents.evaluations)
            except BaseException as error:
                failed.append(error)
            return bool(failed)

        density = self._request.density
        callback = _layout.PROGRESS(after_batch) if reporter.wanted else c.cast(0, _layout.PROGRESS)

        def stop() -> None:
            if density:
                density.stopped = True
            core.wvgd_stop_now(self._pointer)

        if density and density.stopped:  # in the batch that showed that it has no gradients
            stop()
        try:
            with Interrupt(stop, lambda: bool(density and density.inside)):
                call(tools().wvgd_session_run, self._session, callback, None)
        except Error:
            if density is None or density.failed is None:
                raise
        finally:
            reporter.end()
            self._warn()
        raised = density.failure() if density else None
        try:
            if raised is not None:
                raise raised  # here, where nothing else is handled, so that it keeps its own cause
        finally:
            del raised  # whose traceback has this frame
        if failed:
            raise failed.pop()
        return self

    def ended_state(self) -> Tuple[bool, float, int, bytes]:
        """What ended_run makes the same run of, in another process."""
        density = self._request.density
        assert density is not None
        buffer = c.create_string_buffer(core.wvgd_save_size(self._pointer))
        call(core.wvgd_save, self._pointer, buffer, len(buffer))
        return density.gradient, density.own.model.work, density.wasted, buffer.raw

    def _warn(self) -> None:
        while self._notes:
            note = in_python([self._notes.pop(0)])[0]
            warnings.warn(re.sub("^warning: ", "", note), stacklevel=_levels_to_caller())

    # ---- what run.json says ------------------------------------------------------------------------------------------
    def _summary(self, kind: int, most: int = 0) -> str:
        text = c.c_char_p()
        with self._lock:
            call(tools().wvgd_session_summary, self._session, kind, most, c.byref(text))
            return (text.value or b"").decode("utf-8", "replace")

    def to_dict(self) -> Dict[str, Any]:
        """run.json (docs/formats.md) as a dict."""
        record: Dict[str, Any] = json.loads(self._summary(_layout.RUN_JSON))
        return record

    @property
    def _json(self) -> Dict[str, Any]:
        if self._record is None:
            self._record = self.to_dict()
        return self._record

    @property
    def text(self) -> str:
        """What `wvgd summary` prints."""
        return self._summary(_layout.SUMMARY_TEXT)

    @property
    def done(self) -> bool:
        return True

    @property
    def reliable(self) -> bool:
        return bool(self._json["verdict"]["reliable"])

    @property
    def reasons(self) -> List[str]:
        return in_python(self._json["verdict"]["reasons"])

    @property
    def warnings(self) -> List[str]:
        return in_python(self._json["diagnostics"]["warnings"])

    @property
    def log_evidence(self) -> float:
        return _number(self._json["evidence"]["importance"]["value"])

    @property
    def log_evidence_se(self) -> float:
        return _number(self._json["evidence"]["importance"]["se"])

    @property
    def mean(self) -> np.ndarray:
        """[quantities] posterior means."""
        return self._posterior("mean")

    @property
    def sd(self) -> np.ndarray:
        """[quantities] posterior standard deviations."""
        return self._posterior("sd")

    @property
    def mcse(self) -> np.ndarray:
        """[quantities] standard errors of the means."""
        return self._posterior("mcse")

    def _posterior(self, name: str) -> np.ndarray:
        return np.array([_number(value) for value in self._json["posterior"][name]])

    @property
    def evaluations(self) -> int:
        """Number of evaluations of the density."""
        density = self._request.density
        return self._view().evaluations + (density.wasted if density else 0)

    # ---- draws -------------------------------------------------------------------------------------------------------
    def _draws(self, n: int, seed: int, source: str) -> np.ndarray:
        kind = _layout.RESAMPLED if source == "posterior" else _layout.ENSEMBLE
        return self._session_draws(kind, seed, n)[0]

    def _session_draws(self, kind: int, seed: int, n: int) -> Tuple[np.ndarray, np.ndarray]:
        value, log_w = np.empty((n, len(self.names))), np.empty(n)
        self._call(tools().wvgd_session_draws, self._session, kind, seed, n, address(value), address(log_w))
        return value, log_w

    def _quantities(self) -> Tuple[np.ndarray, np.ndarray]:
        return self._session_draws(_layout.WEIGHTED, 1, self._view().closing_draws)

    def _values(self, z: np.ndarray) -> np.ndarray:
        """The quantities [n][quantities] of points z [n][dim]."""
        value = np.empty((len(z), len(self.names)))
        self._call(tools().wvgd_session_values, self._session, len(z), address(z), address(value))
        return value

    @property
    def particles(self) -> np.ndarray:
        """[N][quantities] particles: each stands for the points nearest to it, its cell."""
        return self._values(super().particles)

    # ---- with a prior ------------------------------------------------------------------------------------------------
    def _points(self, z: Any) -> np.ndarray:
        points = super()._points(z)
        if self.prior is not None:
            return self.prior.coordinates(points, "z")
        if self._json["model"].get("kind") == "own" and self._json["model"].get("prior"):
            raise ArgumentError("points of a run with a prior need that prior, which a run directory does not have")
        return points

    def log_q(self, z: Any) -> np.ndarray:
        """Log density of the ensemble at points z [n][quantities]: [n]. Outside of what the prior allows it is -inf."""
        if self.prior is None:
            return self._ensemble(self._points(z))
        given = super()._points(z)
        points = self.prior.inverse(given)
        log_q: np.ndarray = np.where(np.isnan(given).any(axis=1), np.nan, -np.inf)
        inside: np.ndarray = np.asarray(np.isfinite(points).all(axis=1))
        slope = self.prior.at(points[inside]).slope
        log_q[inside] = self._ensemble(points[inside]) - np.sum(np.log(slope), axis=1)
        return log_q

    def _groups(self, n: int, seed: int) -> Dict[str, Dict[str, np.ndarray]]:
        groups = super()._groups(n, seed)
        if self.prior is None:
            return groups
        u = self._resampled(n, seed).z
        each = {name: made.at(u[:, i]) for i, (name, made) in enumerate(self.prior.parameters.items())}
        total = np.sum([at.log_p for at in each.values()], axis=0)
        groups["log_prior"] = {name: (at.log_p - np.log(at.slope))[None] for name, at in each.items()}
        groups["log_likelihood"] = {"log_likelihood": groups["sample_stats"]["lp"] - total[None]}
        return groups

    # ---- predictions -------------------------------------------------------------------------------------------------
    def predict(self, data: Any, draws: int = 0) -> np.ndarray:
        """What the fit expects of new rows: a structured array with a row for each.

        data: a file, a data frame, a mapping of names to columns or a structured array with the columns of the fit, in
        any order; others are ignored. Fields: mean, sd, q5, q50, q95 of the mean response over the posterior (for labels
        the probability of the one that counts as 1), lower and upper, between which a new response lies with a
        probability of 90 %. draws: how many draws are averaged; 0: as many as the option output_draws says.
        """
        if self._json["model"]["kind"] == "own":
            raise ArgumentError("predict is for models by name: pass values at the points of posterior() to describe")
        row, rows = c.POINTER(_layout.wvgd_prediction)(), c.c_size_t()
        kinds = np.dtype([(name, np.float64) for name, *_ in _layout.wvgd_prediction._fields_])
        with DataFile(self._table(data), "table", needed=True) as file, self._lock:
            path, most = os.fsencode(file or ""), count(draws, "draws", 0)
            call(tools().wvgd_session_predict, self._session, path, most, c.byref(row), c.byref(rows))
            found: np.ndarray = np.frombuffer(c.string_at(row, rows.value * kinds.itemsize), dtype=kinds).copy()
        return found

    def _table(self, data: Any) -> Any:
        """data, with the names of the columns that the fit has if it is a matrix."""
        if not (isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.names is None):
            return data
        columns = list(self._json.get("data", {}).get("columns", {}))
        if not columns or data.shape[1] != len(columns):
            raise ValueError(f"data has shape {data.shape}: expected the columns {', '.join(columns)}, or a mapping")
        return dict(zip(columns, data.T))

    # ---- files -------------------------------------------------------------------------------------------------------
    def write(self, directory: PathLike, overwrite: bool = False) -> None:
        """Writes the run directory, which `wvgd summary`, `wvgd report` and wvgd.load read."""
        self._call(tools().wvgd_session_write, self._session, os.fsencode(path_text(directory, "directory")), overwrite)

    def report(self, path: PathLike = "report.html") -> Path:
        """Writes one self-contained HTML page about the run; returns its path. Needs the program wvgd."""
        page, to = program("report"), path_text(path, "path")
        with tempfile.TemporaryDirectory() as place:
            run = self._directory or os.path.join(place, "run")
            if self._directory is None:
                self.write(run)
            done = subprocess.run([page, "report", run, "-o", to], capture_output=True, text=True)
        if done.returncode != 0:
            raise error_of_exit(done.returncode, done.stderr.strip() or f"{page} report ended with {done.returncode}")
        return Path(to)


def _levels_to_caller() -> int:
    """How many frames above whoever asks the code is that called this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == "wvgd":
        frame, level = frame.f_back, level + 1
    return level


def _number(value: Optional[float]) -> float:
    return float("nan") if value is None else float(value)


def program(doing: str) -> str:
    """The program wvgd that belongs to the libraries, or the one in PATH."""
    for place in directories():
        for name in (place / "wvgd", place.parent / "bin" / "wvgd", place.parent.parent / "bin" / "wvgd"):
            if name.is_file() and os.access(name, os.X_OK):
                return str(name)
    found = shutil.which("wvgd")
    if not found:
        raise Error(f"{doing}: there is no program wvgd, which does this: build or install it")
    return found


def _open(
    function: Any, options: Dict[str, Any], *before: Any, density: Optional[Density] = None, called: str = "log_density"
) -> Run:
    notes: List[str] = []
    request = _Request(options, notes, density, called)
    with request as pointer:
        run = Run(make(function, *before, pointer), request, notes)
    run._warn()
    return run


def fit_model(model: str, data: Any, progress: Shown, **options: Any) -> Run:
    """wvgd.fit for a model by name."""
    resume = _resumes(options)
    called = [repr(model), *([] if data is None else [f"data={_shown(data)}"])]
    with DataFile(data, model) as path:
        return _begin({"model": model, "data": path, **options}, resume, called=", ".join(called))._run(progress)


def _shown(data: Any) -> str:
    """What the record of a run calls its data."""
    return repr(os.fspath(data)) if isinstance(data, (str, os.PathLike)) else type(data).__name__


def _resumes(options: Dict[str, Any]) -> bool:
    """Takes the option resume out of these."""
    resume = options.pop("resume", None)
    if "out" in options and options["out"] is not None:
        options["out"] = path_text(options["out"], "out")
    if resume is None or not flag(resume, "resume"):
        return False
    if options.get("out") is None or options.get("overwrite"):
        raise ArgumentError("resume needs out, the directory of the run, and not overwrite")
    return True


def _begin(options: Dict[str, Any], resume: bool, density: Optional[Density] = None, called: str = "log_density") -> Run:
    """A new run or, if there is one in `out` and it may, the old one that goes on."""
    out = options.get("out")
    if not (resume and any(os.path.exists(os.path.join(str(out), file)) for file in CHECKPOINTS)):
        return _open(tools().wvgd_open, options, density=density, called=called)
    changed = {name: value for name, value in options.items() if name.replace("_", "-") in CHANGEABLE}
    run = _open(tools().wvgd_resume, changed, os.fsencode(str(out)), density=density, called=called)
    for name, value in options.items():
        text = tools().wvgd_session_option(run._session, name.replace("_", "-").encode())
        if name not in (*changed, "out", "init", "quiet") and value is not None and not _same(text, name, value):
            was = text.decode() if text else "not set"
            run._free()  # the directory, too
            raise ArgumentError(f"{name} is {value!r}, but the run in {out} was begun with {was}: it cannot change")
    return run


def _same(text: Optional[bytes], name: str, value: Any) -> bool:
    given = option_text(name, value)
    if text is None:
        return given == "false"
    try:
        return float(text) == float(given)
    except ValueError:
        return text.decode() in (given, "" if given == "true" else given)


def fit_density(
    function: Callable[[np.ndarray], Answer],
    names: List[str],
    prior: Optional[Prior],
    vectorized: bool,
    progress: Shown,
    options: Dict[str, Any],
    batched: bool = True,
) -> Run:
    """wvgd.fit for a function of points z [n][dim], made of one of the user's, which takes many of them or not. Whether it
    has gradients, its first answer tells."""
    gradient, work = (options.pop(name, None) for name in ("gradient", "work"))
    resume = _resumes(options)
    if gradient is not None:
        gradient = flag(gradient, "gradient")
    if "metric" in options:
        raise ArgumentError("metric is for wvgd.Fit")
    with _with_starts(options, names, prior) as given:
        hopes = gradient is not False
        cost = assumed_work(work, hopes and vectorized)
        density = Density(function, names, vectorized, batched, hopes, cost, prior)
        try:
            return _still_true(_begin(given, resume, density)._run(progress), density)
        except NoGradient:
            if gradient:
                raise ArgumentError("log_density returned no gradients, but gradient is True") from None
        cost = assumed_work(work, False)
        density = Density(function, names, vectorized, batched, False, cost, prior, before=density)
        return _still_true(_begin(given, resume, density)._run(progress), density)


def _still_true(run: Run, density: Density) -> Run:
    """The run, with a warning if it had ended before and the function has changed since."""
    if density.answered:
        return run
    some = run._resampled(8, 1)
    if not np.allclose(density.function(some.z).log_p, some.log_p, rtol=1e-6, atol=1e-6):
        text = (
            "the run in out had ended, and its function gave other log densities than this one: these are the results of "
            "the old function; overwrite=True fits again"
        )
        warnings.warn(text, stacklevel=_levels_to_caller())
    return run


def ended_run(
    function: Callable[[np.ndarray], Answer], names: List[str], prior: Optional[Prior], options: Dict[str, Any], last: Tuple
) -> Run:
    """The run of another process that has ended, from its ended_state()."""
    gradient, work, wasted, state = last
    aside = ("gradient", "resume", "work", "out", "overwrite", "checkpoint_every")
    with _with_starts({k: v for k, v in options.items() if k not in aside}, names, prior) as given:
        density = Density(function, names, True, True, gradient, work, prior)
        density.wasted = wasted
        run = _open(tools().wvgd_open, given, density=density)
    call(core.wvgd_restore, run._pointer, state, len(state))
    return run._run(False)


@contextlib.contextmanager
def _with_starts(options: Dict[str, Any], names: List[str], prior: Optional[Prior]) -> Iterator[Dict[str, Any]]:
    """The options, with starting particles in a file."""
    if not _is_array(options.get("init")):
        yield options
        return
    with tempfile.TemporaryDirectory() as place:
        path, particles = _start_file(options, names, prior, place)
        yield {**options, "init": path, "particles": particles}


def _is_array(init: Any) -> bool:
    return init is not None and not isinstance(init, (str, os.PathLike))


def _start_file(options: Dict[str, Any], names: List[str], prior: Optional[Prior], place: str) -> Tuple[str, int]:
    """Starting particles, an array [N][dim], as the file that the option init takes, and N."""
    z0 = starts(options["init"], len(names), options)
    if prior is not None:
        z0 = prior.coordinates(z0, "init")
    path = os.path.join(place, "init.csv")
    header = ",".join(f"z{i}" for i in range(len(names)))
    np.savetxt(path, z0, fmt="%.17g", delimiter=",", header=header, comments="")
    return path, len(z0)


def load(directory: PathLike, **options: Any) -> Run:
    """A run that has ended, from its directory: results and draws, without model and data.

    trust_model=True lets it load the shared object that the run names, where it needs that.

    >>> import tempfile, wvgd
    >>> with tempfile.TemporaryDirectory() as place:
    ...     fit = wvgd.fit(lambda z: -0.5 * (z**2).sum(axis=1), dim=2, out=place + "/run")
    ...     again = wvgd.load(place + "/run")
    >>> again.log_evidence == fit.log_evidence, bool((again.draws(10) == fit.draws(10)).all())
    (True, True)
    """
    path = path_text(directory, "directory")
    run = _open(tools().wvgd_load, options, os.fsencode(path))
    run._directory = os.path.abspath(path)
    model = run._json["model"]
    if model.get("kind") == "own" and model.get("prior"):
        run.prior = Prior.of_text(model["prior"], run.names)
    return run


def resume(directory: PathLike, *, data: Any = None, progress: Shown = None, **options: Any) -> Run:
    """Continues the run in directory from its checkpoint, as if it had never stopped.

    data: the same data again, if they were not in a file or it has moved. max_iter, max_evaluations, max_seconds,
    threads, checkpoint_every and output_draws may be changed.
    """
    path = path_text(directory, "directory")
    with DataFile(data, "table") as file:
        return _open(tools().wvgd_resume, {"data": file, **options}, os.fsencode(path), called="resume=True")._run(progress)


class Comparison:
    """Runs by their evidence, the best first: print it, or take rows, which are dicts with the columns' names."""

    def __init__(self, rows: List[Dict[str, Any]], notes: List[str], text: str) -> None:
        self.rows, self.notes, self._text = rows, notes, text

    def __getitem__(self, i: int) -> Dict[str, Any]:
        return self.rows[i]

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return "\n".join([self._text.rstrip("\n"), *self.notes])

    __repr__ = __str__


def compare(*runs: Union[Run, PathLike], names: Optional[Sequence[str]] = None) -> Comparison:
    """Compares two runs or more by their evidence: Bayes factors, and probabilities if all were equally probable before.

    runs: what wvgd.fit or wvgd.load returned, or run directories. names: what to call them; by default
    the directory, or "run 1", "run 2" ... in order. Regressions that explain different data are a DataError;
    wvgd cannot see which data a function explains.

    >>> import wvgd
    >>> likelihood = lambda q: -0.5 * (q["a"] - 1) ** 2
    >>> runs = [wvgd.fit(likelihood, prior=wvgd.Prior(a=wvgd.normal(0, sd))) for sd in (1, 10)]
    >>> [(row["run"], round(row["probability"], 2)) for row in wvgd.compare(*runs, names=["narrow", "wide"])]
    [('narrow', 0.85), ('wide', 0.15)]
    """
    called = [_run_name(run, i) for i, run in enumerate(runs)] if names is None else [str(name) for name in names]
    if len(called) != len(runs):
        raise ValueError(f"names has {len(called)} entries: expected {len(runs)}, one per run")
    opened = [run if isinstance(run, Run) else load(run) for run in runs]
    sessions = (c.c_void_p * (len(opened) + 1))(*[run._session for run in opened])
    texts_of = (c.c_char_p * (len(opened) + 1))(*[os.fsencode(name) for name in called])
    comparison = make(tools().wvgd_compare_sessions, len(opened), sessions, texts_of)
    try:
        notes = c.c_size_t()
        lines = tools().wvgd_comparison_notes(comparison, c.byref(notes))
        said = [lines[i].decode("utf-8", "replace") for i in range(notes.value)]
        return Comparison(json.loads(_comparison_text(comparison, True)), in_python(said), _comparison_text(comparison, False))
    finally:
        tools().wvgd_comparison_free(comparison)


def _run_name(run: Any, i: int) -> str:
    if isinstance(run, Run):
        return f"run {i + 1}"
    if isinstance(run, (str, os.PathLike)):
        return os.fspath(run)
    raise TypeError(f"run {i + 1} is {type(run).__name__}: expected what wvgd.fit or wvgd.load returned, or a run directory")


def _comparison_text(comparison: int, as_json: bool) -> str:
    text = c.c_char_p()
    call(tools().wvgd_comparison_text, comparison, as_json, c.byref(text))
    return (text.value or b"").decode("utf-8", "replace")


def models() -> Dict[str, str]:
    """The built-in models, by name, with a description of each.

    >>> "logistic" in models()
    True
    """
    found: Dict[str, str] = {}
    while tools().wvgd_model_describe(len(found)):
        row = tools().wvgd_model_describe(len(found)).contents
        found[row.name.decode()] = row.help.decode()
    return found
