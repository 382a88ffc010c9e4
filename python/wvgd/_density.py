"""Densities that Python computes, as models that the library calls."""

from __future__ import annotations

import ctypes as c
import weakref
from typing import Any, Callable, List, Optional, Tuple

import numpy as np

from . import _layout
from ._answer import Answer, gradient_array, gradient_of, of_all, of_each
from ._library import address, as_before, text_array
from ._prior import Prior


def evaluate(log_density: Callable[[np.ndarray], Any], z: np.ndarray, vectorized: bool) -> Answer:
    """log_density at z [n][dim], checked."""
    gradients = gradient_array(z.shape[1], "log_density")
    if vectorized:
        return of_all(log_density(z), len(z), "log_density", gradients)
    return of_each([log_density(point) for point in z], "log_density", gradients)


def _is_ours(error: BaseException) -> bool:
    """An exception of this package: about what the function has returned."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith("wvgd.")


class NoGradient(Exception):
    """The function gives no gradients, though the fit has asked for some."""


class Density:
    """A wvgd_own_model of a function of points z [n][dim] that returns an Answer: evaluated in place, exceptions kept for
    whoever runs the fit. batched: what it says of a point may depend, in its last bits, on the others.

    A function whose first answer has no gradients is not asked for the same points again: what it said is remembered
    for the fit without gradients, whose first points these are.
    """

    def __init__(
        self,
        function: Callable[[np.ndarray], Answer],
        names: List[str],
        vectorized: bool,
        batched: bool,
        gradient: bool,
        work: float,
        prior: Optional[Prior] = None,
        before: Optional["Density"] = None,
    ) -> None:
        self.prior = prior
        self.function, self.dim, self.vectorized, self.gradient = function, len(names), vectorized, gradient
        self.failed: Optional[BaseException] = None
        self.inside = False  # the function is under way: an exception may come
        self.answered = False  # at least once, without an exception
        self.has_gradients = False  # at least one answer had
        self.stopped: bool = before.stopped if before else False  # Ctrl-C was pressed
        self.tried: Optional[Tuple[np.ndarray, np.ndarray]] = before.tried if before else None  # points, log_p
        self.wasted = 0  # points whose answers could not be used
        here = weakref.ref(self)  # no cycle: what the function holds is freed with the run
        self._callback = _layout.LOG_DENSITY(lambda *arguments: here()._evaluate(*arguments))  # type: ignore[union-attr]
        self._names = text_array(names)
        self._curves = (_layout.wvgd_curve * len(names))(*prior.curves()) if prior is not None else None
        model = _layout.wvgd_model(
            name=b"density",
            dim=self.dim,
            log_density=c.cast(self._callback, c.c_void_p),
            has_gradient=gradient,
            names=self._names,
            batched=batched,
            work=work,
        )
        self.own = _layout.wvgd_own_model(model=model, prior=repr(prior).encode() if prior is not None else None)
        if self._curves:
            self.own.curve = self._curves

    def _evaluate(self, _: Any, n: int, z: int, log_p: int, grad: Optional[int]) -> int:  # no exception may leave it
        try:
            points = np.empty((n, self.dim))
            c.memmove(address(points), z, points.nbytes)
            with as_before:
                answer = self._ask(points)
            if grad is not None:
                if answer.grad is None and not self.has_gradients:
                    self.tried = points, answer.log_p.copy()  # which the function may write over
                    raise NoGradient
                gradient = gradient_of(answer, self.dim, "the function")
                self.has_gradients = True
                c.memmove(grad, address(gradient), gradient.nbytes)
            c.memmove(log_p, address(answer.log_p), answer.log_p.nbytes)
        except BaseException as error:
            self.failed = error
            return 1
        return 0

    def _ask(self, points: np.ndarray) -> Answer:
        try:
            self.inside = True
            answer = self._reuse(points) or self.function(points)
            self.answered = True
            return answer
        except Exception as error:
            if not self.answered and hasattr(error, "add_note") and not _is_ours(error):
                error.add_note(f"wvgd calls the function with {self.takes}")
            raise
        finally:
            self.inside = False

    @property
    def takes(self) -> str:
        """What the user's function gets, in words."""
        if not self.vectorized:
            return f"one point at a time, {f'an array z [{self.dim}]' if self.prior is None else 'a dict of numbers'}"
        what = f"many points at once, an array z [n, {self.dim}]" if self.prior is None else "a dict of arrays [n], many points at once"
        return f"{what}; for a function of one point pass vectorized=False"

    def failure(self) -> Optional[BaseException]:
        """The exception of the function, if there was one. It is forgotten, so that it keeps nothing alive."""
        failed, self.failed = self.failed, None
        return failed

    def _reuse(self, points: np.ndarray) -> Optional[Answer]:
        """The answers at points that begin with those tried before."""
        if self.tried is None or self.gradient:
            return None
        (z, known), self.tried = self.tried, None
        if not np.array_equal(points[: len(z)], z):
            self.wasted = len(z)
            return None
        if len(points) == len(z):
            return Answer(known, None)
        others = self.function(points[len(z) :])
        return Answer(np.concatenate([known, others.log_p]), None)
