"""A density that several processes evaluate.

They are forked, so that the function needs no pickling. A batch is cut into pieces of CHUNK points, whatever the number
of processes is: an answer, whose last bits may depend on its piece, does not depend on that number.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import numpy as np

from ._data import count
from ._errors import ModelError

CHUNK = 16  # points of a piece

_function: Any = None  # of a worker: set there only


def _begin(function: Callable[[np.ndarray], Any], parent: int) -> None:
    global _function
    _function = function
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that fits


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are forked here get no SIGINT before they can ignore it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: int) -> None:
    """Linux ends this process when the one that fits is killed, which cannot say goodbye then."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except AttributeError:
        return
    if os.getppid() != parent:
        os._exit(1)


def _work(z: np.ndarray) -> Any:
    try:
        return _function(z)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise ModelError(f"in a worker: {type(error).__name__}: {error}") from None
        raise


class Workers:
    """with Workers(function, n) as same: the function of points z [n][dim], which returns an Answer, evaluated by n
    processes."""

    def __init__(self, function: Callable[[np.ndarray], Any], workers: int) -> None:
        context = multiprocessing.get_context("fork")
        self.workers = count(workers, "workers")
        self.pool = ProcessPoolExecutor(self.workers, context, _begin, (function, os.getpid()))

    def __enter__(self) -> Callable[[np.ndarray], Any]:
        return self._evaluate

    def _evaluate(self, z: np.ndarray) -> Any:
        pieces = [z[i : i + CHUNK] for i in range(0, len(z), CHUNK)]
        each = -(-len(pieces) // self.workers)  # that a process is sent at once
        try:
            with _without_interrupts():  # forks when it needs more processes
                answers = self.pool.map(_work, pieces, chunksize=each)
            parts = list(answers)
        except BrokenProcessPool:
            raise ModelError("a worker was terminated: it crashed, or was killed, perhaps for want of memory") from None
        log_p = np.concatenate([part.log_p for part in parts])
        if any(part.grad is None for part in parts):
            return log_p
        return log_p, np.concatenate([part.grad for part in parts])

    def __exit__(self, *_: Any) -> None:
        self.pool.shutdown()
