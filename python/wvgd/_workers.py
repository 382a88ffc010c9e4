"""A density that several processes evaluate.

They are forked, so that the function needs no pickling. A batch is cut into pieces of CHUNK points, or of one for a
function of one point, whatever the number of processes is: an answer, whose last bits may depend on its piece, does not
depend on that number.
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

from ._answer import Answer, joined
from ._data import count
from ._errors import ModelError

CHUNK = 16  # points of a piece


def piece(vectorized: bool) -> int:
    """Points that a function gets at once."""
    return CHUNK if vectorized else 1


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
    """with Workers(function, n, size) as same: the function of points z [n][dim], which returns an Answer, evaluated by n
    processes in pieces of `size` points."""

    def __init__(self, function: Callable[[np.ndarray], Answer], workers: int, size: int) -> None:
        context = multiprocessing.get_context("fork")
        self.workers, self.size = count(workers, "workers"), size
        self.pool = ProcessPoolExecutor(self.workers, context, _begin, (function, os.getpid()))

    def __enter__(self) -> Callable[[np.ndarray], Answer]:
        return self._evaluate

    def _evaluate(self, z: np.ndarray) -> Answer:
        pieces = [z[i : i + self.size] for i in range(0, len(z), self.size)]
        each = -(-len(pieces) // self.workers)  # that a process is sent at once
        try:
            with _without_interrupts():  # forks when it needs more processes
                answers = self.pool.map(_work, pieces, chunksize=each)
            parts = list(answers)
        except BrokenProcessPool:
            raise ModelError("a worker was terminated: it crashed, or was killed, perhaps for want of memory") from None
        return joined(parts, "the function")

    def __exit__(self, *_: Any) -> None:
        self.pool.shutdown()
