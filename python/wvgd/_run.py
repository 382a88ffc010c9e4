"""Fits of models by name, and run directories: what the program wvgd does, by libwvgd-tools."""

from __future__ import annotations

import ctypes as c
import json
import os
import shutil
import subprocess
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from . import _layout
from ._data import data_file, option_text
from ._errors import Error
from ._interrupt import Interrupt
from ._library import address, call, directories, make, texts, tools
from ._progress import Reporter, Shown
from ._results import Result

PathLike = Union[str, "os.PathLike[str]"]


class _Request:
    """with _Request(options) as pointer: options by name."""

    def __init__(self, options: Dict[str, Any], notes: List[str]) -> None:
        self.options = options
        self.note = _layout.NOTE(lambda _, text: notes.append(text.decode("utf-8", "replace")))

    def __enter__(self) -> int:
        self.pointer = tools().wvgd_request_new()
        if not self.pointer:
            raise MemoryError("no memory for a request")
        tools().wvgd_request_notes(self.pointer, self.note, None)
        try:
            for name, value in self.options.items():
                if value is not None:
                    text = option_text(name, value)
                    call(tools().wvgd_request_set, self.pointer, name.encode(), os.fsencode(text))
        except BaseException:
            self.__exit__()
            raise
        return self.pointer

    def __exit__(self, *_: Any) -> None:
        tools().wvgd_request_free(self.pointer)


class Run(Result):
    """A run of a model by name, or one that was loaded. wvgd.fit and wvgd.load make it."""

    def __init__(self, session: int, request: _Request, notes: List[str]) -> None:
        self._session = session
        self._request = request  # whose callback the session has
        self._notes = notes
        self._free = weakref.finalize(self, tools().wvgd_session_close, session)
        self._pointer = tools().wvgd_session_fit(session)
        n = c.c_size_t()
        self.names = texts(tools().wvgd_session_names(session, c.byref(n)), n.value)
        self._record: Optional[Dict[str, Any]] = None

    def _run(self, progress: Shown) -> "Run":
        reporter, failed, stops = Reporter(progress), [], []

        def after_batch(_: Any, now: Any) -> int:  # no exception may leave it
            try:
                reporter.update(now.contents, now.contents.evaluations)
            except BaseException as error:
                failed.append(error)
            return bool(failed or stops)

        try:
            with Interrupt(lambda: stops.append(True), at_once=False):
                call(tools().wvgd_session_run, self._session, _layout.PROGRESS(after_batch), None)
        finally:
            reporter.end()
            self._warn()
        if failed:
            raise failed[0]
        return self

    def _warn(self) -> None:
        while self._notes:
            warnings.warn(self._notes.pop(0), stacklevel=4)

    # ---- what run.json says ------------------------------------------------------------------------------------------
    def _summary(self, kind: int, most: int = 0) -> str:
        text = c.c_char_p()
        call(tools().wvgd_session_summary, self._session, kind, most, c.byref(text))
        return text.value.decode("utf-8", "replace")

    def to_dict(self) -> Dict[str, Any]:
        """run.json (docs/formats.md) as a dict."""
        return json.loads(self._summary(_layout.RUN_JSON))

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
        return self._json["verdict"]["reliable"]

    @property
    def reasons(self) -> List[str]:
        return list(self._json["verdict"]["reasons"])

    @property
    def warnings(self) -> List[str]:
        return list(self._json["diagnostics"]["warnings"])

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

    # ---- draws -------------------------------------------------------------------------------------------------------
    def _draws(self, n: int, seed: int, source: str) -> np.ndarray:
        kind = _layout.RESAMPLED if source == "posterior" else _layout.ENSEMBLE
        return self._session_draws(kind, seed, n)[0]

    def _session_draws(self, kind: int, seed: int, n: int) -> Tuple[np.ndarray, np.ndarray]:
        value, log_w = np.empty((n, len(self.names))), np.empty(n)
        call(tools().wvgd_session_draws, self._session, kind, seed, n, address(value), address(log_w))
        return value, log_w

    def _quantities(self) -> Tuple[np.ndarray, np.ndarray]:
        return self._session_draws(_layout.WEIGHTED, 1, self._view().closing_draws)

    # ---- files -------------------------------------------------------------------------------------------------------
    def write(self, directory: PathLike, overwrite: bool = False) -> None:
        """Writes the run directory, which `wvgd summary`, `wvgd report` and wvgd.load read."""
        call(tools().wvgd_session_write, self._session, os.fsencode(directory), overwrite)

    def report(self, path: PathLike = "report.html") -> Path:
        """Writes one self-contained HTML page about the run; returns its path. Needs the program wvgd."""
        program = _program()
        with tempfile.TemporaryDirectory() as place:
            run = os.path.join(place, "run")
            self.write(run)
            done = subprocess.run([program, "report", run, "-o", os.fspath(path)], capture_output=True, text=True)
        if done.returncode != 0:
            raise Error(done.stderr.strip() or f"{program} report ended with {done.returncode}")
        return Path(path)


def _number(value: Optional[float]) -> float:
    return float("nan") if value is None else float(value)


def _program() -> str:
    """The program wvgd that belongs to the libraries, or the one in PATH."""
    for place in directories():
        for name in (place / "wvgd", place.parent / "bin" / "wvgd", place.parent.parent / "bin" / "wvgd"):
            if name.is_file() and os.access(name, os.X_OK):
                return str(name)
    found = shutil.which("wvgd")
    if not found:
        raise Error("report: there is no program wvgd, which writes the page: build or install it")
    return found


def _open(function: Any, options: Dict[str, Any], *before: Any) -> Run:
    notes: List[str] = []
    request = _Request(options, notes)
    with request as pointer:
        run = Run(make(function, *before, pointer), request, notes)
    run._warn()
    return run


def fit_model(model: str, data: Any, progress: Shown, **options: Any) -> Run:
    """wvgd.fit for a model by name."""
    with tempfile.TemporaryDirectory() as place:
        if data is not None:
            options["data"] = data_file(data, model, place)
        return _open(tools().wvgd_open, {"model": model, **options})._run(progress)


def load(directory: PathLike, **options: Any) -> Run:
    """A run that has ended, from its directory: results and draws, without model and data.

    trust_model=True lets it load the shared object that the run names, where it needs that.
    """
    return _open(tools().wvgd_load, options, os.fsencode(directory))


def resume(directory: PathLike, *, progress: Shown = None, **options: Any) -> Run:
    """Goes on with the run in directory from its checkpoint, as if it had never stopped.

    max_iter, max_seconds, threads, checkpoint_every and output_draws may be changed.
    """
    return _open(tools().wvgd_resume, options, os.fsencode(directory))._run(progress)


def models() -> Dict[str, str]:
    """Models that have a name, and what each is.

    >>> "logistic" in models()
    True
    """
    found = {}
    while tools().wvgd_model_describe(len(found)):
        row = tools().wvgd_model_describe(len(found)).contents
        found[row.name.decode()] = row.help.decode()
    return found
