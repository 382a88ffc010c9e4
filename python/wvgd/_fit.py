"""Fits of densities that Python computes, by ask and tell."""

from __future__ import annotations

import ctypes as c
import difflib
import time
import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import _layout
from ._data import count, finite, option_text, parameter_names, real_array, shaped
from ._differences import Differences
from ._errors import ArgumentError, error_of
from ._interrupt import Interrupt
from ._library import address, call, copied, core, make, text_array
from ._progress import Reporter, Shown
from ._results import Result

MOST_PARTICLES = "20"  # as many as the program may make, if the number is not given


def option_names() -> List[str]:
    """Names of the options of a fit, with '_' between words."""
    names = []
    while core.wvgd_options_describe(len(names)):
        names.append(core.wvgd_options_describe(len(names)).contents.name.decode().replace("-", "_"))
    return names


def options_help() -> str:
    """The options of a fit as text: name, values, default and one line of help each.

    >>> print(options_help().splitlines()[1])
    particles (1..100000, default 5): number of particles; each represents one cell of the posterior
    """
    lines = []
    for i, name in enumerate(option_names()):
        row = core.wvgd_options_describe(i).contents
        lines.append(f"{name} ({row.values.decode()}, default {row.initial.decode()}): {row.help.decode()}")
    return "\n".join(lines)


def _set_options(options: _layout.wvgd_options, given: dict) -> None:
    known = option_names()
    for name, value in given.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f": did you mean {close[0]}?" if close else "; wvgd.options_help() lists them"
            raise ArgumentError(f"there is no option {name}{hint}")
        error = _layout.wvgd_error()
        status = core.wvgd_options_set(
            c.byref(options), name.encode(), option_text(name, value).encode(), c.byref(error)
        )
        if status:
            raise error_of(status, error.text)


class Fit(Result):
    """A fit of a log density on R^dim. You evaluate the points that it asks for, wherever you like.

    >>> import numpy as np
    >>> fit = Fit(dim=2, seed=3)
    >>> while (z := fit.ask()) is not None:
    ...     fit.tell(-0.5 * (z**2).sum(axis=1), -z)
    >>> fit.verdict, round(fit.log_evidence - np.log(2 * np.pi), 2) + 0
    ('no problems detected', 0.0)

    With gradient=False no gradients are told: ask then gives each point with its neighbours, 1 + 2 dim points, and
    gradients are made of the differences of the answers. For now the Python layer does this; see _differences.py. All
    points count as evaluations.

    names: of the coordinates. init: where particles start, an array [N][dim], or one of the names of the option.
    metric: [dim][dim], symmetric and positive definite, for cost="mahalanobis". All other options by keyword, as in
    docs/options.md with '_' for '-': particles=8, family="diag", evidence_se=0.01, seed=2.
    """

    def __init__(
        self,
        dim: int,
        *,
        names: Optional[Sequence[str]] = None,
        gradient: bool = True,
        init: Any = None,
        metric: Any = None,
        **options: Any,
    ) -> None:
        dim = count(dim, "dim")
        self.names = parameter_names(names, dim)
        made = _layout.wvgd_options()
        core.wvgd_options_init(c.byref(made))
        z0 = None
        if init is not None and not isinstance(init, str):
            z0 = _starts(init, dim, options)
            options["particles"] = len(z0)
        elif init is not None:
            options["init"] = init
        if "particles" not in options and "most_particles" not in options:
            options["most_particles"] = MOST_PARTICLES
        _set_options(made, options)
        if not gradient and made.max_evaluations:
            made.max_evaluations = max(1, made.max_evaluations // (1 + 2 * dim))
        if metric is not None:
            metric = finite(shaped(metric, (dim, dim), "metric"), "metric")
            made.metric = address(metric)
        self._kept = (metric, text_array(self.names))  # what the fit points to
        model = _layout.wvgd_model(name=b"density", dim=dim, has_gradient=True, names=self._kept[1])
        self._pointer = make(core.wvgd_new, c.byref(model), c.byref(made), address(z0) if z0 is not None else None)
        self._free = weakref.finalize(self, core.wvgd_free, self._pointer)
        self._differences = None if gradient else Differences(dim, made.init_scale)
        self._asked: Optional[np.ndarray] = None  # [n][dim] points of the fit that wait for answers
        self._given: Optional[np.ndarray] = None  # [m][dim] what ask has returned for them
        self._told = 0  # answers so far
        self._wants_gradient = False
        self._max_seconds = made.max_seconds
        self._seconds_up = False

    # ---- ask and tell ------------------------------------------------------------------------------------------------
    def ask(self) -> Optional[np.ndarray]:
        """The points to evaluate, [n][dim], or None when the fit has ended. Until tell they stay the same."""
        if self._given is None:
            n, z, gradient = c.c_size_t(), _layout.P_DOUBLE(), c.c_bool()
            call(core.wvgd_ask, self._pointer, c.byref(n), c.byref(z), c.byref(gradient))
            if n.value == 0:
                return None
            self._asked = copied(z, n.value, len(self.names))
            self._wants_gradient = gradient.value
            self._given = self._with_neighbours(self._asked)
        return self._given.copy()

    def _with_neighbours(self, z: np.ndarray) -> np.ndarray:
        d = self._differences
        if d is None or not self._wants_gradient:
            return z
        return d.around(z[d.point : d.point + 1] if d.calibrating(len(z)) else z)

    @property
    def wants_gradient(self) -> bool:
        """Whether tell needs gradients for the points of the last ask."""
        return self._wants_gradient and self._differences is None

    def tell(self, log_p: Any, grad: Any = None) -> None:
        """The answers: log_p [n] and, if wants_gradient, grad [n][dim]. -inf: no density there. NaN: a bad point, which
        counts as one without density and is reported."""
        if self._given is None or self._asked is None:
            raise ArgumentError("tell: nothing was asked; call ask first")
        log_p = shaped(log_p, (len(self._given),), "log_p")
        if grad is not None and self._differences is None:
            grad = shaped(grad, self._given.shape, "grad")
        elif self.wants_gradient:
            raise ArgumentError("tell: grad is missing; for a density without gradients make the fit with gradient=False")
        self._told += len(log_p)
        if self._differences is not None and self._wants_gradient:
            if self._differences.calibrating(len(self._asked)):
                return self._calibrate(log_p)
            grad = self._differences.gradients(self._asked, log_p)
            log_p = np.ascontiguousarray(log_p.reshape(len(self._asked), -1)[:, 0])
        self._given = None
        call(core.wvgd_tell, self._pointer, address(log_p), address(grad) if grad is not None else None)

    def _calibrate(self, log_p: np.ndarray) -> None:
        d = self._differences
        d.calibrated(log_p, self._asked[d.point : d.point + 1])
        self._given = self._with_neighbours(self._asked)

    def stop_now(self) -> None:
        """Ends the iterations; what is still asked closes the fit. May be called from another thread."""
        core.wvgd_stop_now(self._pointer)

    @property
    def evaluations(self) -> int:
        """Density values that were told, those for differences included."""
        return self._told

    @property
    def stop(self) -> str:
        stop = super().stop
        return "time_up" if self._seconds_up and stop == "stopped" else stop

    # ---- with a function ---------------------------------------------------------------------------------------------
    def run(self, log_density: Callable[[np.ndarray], Any], *, vectorized: bool = True, progress: Shown = None) -> "Fit":
        """Asks and tells until the fit has ended, or Ctrl-C ends it; returns it. An exception of the function leaves
        the fit as it was before the batch: run goes on there."""
        reporter = Reporter(progress)
        begin = time.monotonic()
        now = _layout.wvgd_progress()
        with Interrupt(self.stop_now, at_once=True):
            try:
                while (z := self.ask()) is not None:
                    answer = evaluate(log_density, z, vectorized)
                    if answer.grad is None and self.wants_gradient:
                        raise _NoGradient(len(z))
                    if self._needs_wider_steps(answer):
                        continue
                    self.tell(answer.log_p, answer.grad)
                    core.wvgd_get_progress(self._pointer, c.byref(now))
                    reporter.update(now, self.evaluations)
                    if self._max_seconds and time.monotonic() - begin > self._max_seconds and not self._seconds_up:
                        self._seconds_up = True
                        self.stop_now()
            finally:
                reporter.end()
        return self

    def _needs_wider_steps(self, answer: "Answer") -> bool:
        """Answers that are less precise than double (float32, say) need wider steps, with which ask begins anew."""
        d = self._differences
        if d is None or d.precision >= answer.precision:
            return False
        d.precision = answer.precision
        self._told += len(answer.log_p)
        self._given = self._with_neighbours(self._asked)
        return True


class _NoGradient(Exception):
    """The function gives no gradients, which it has shown at so many points."""


def _starts(init: Any, dim: int, options: dict) -> np.ndarray:
    z0 = real_array(init, "init")
    if z0.ndim != 2 or z0.shape[1] != dim or len(z0) == 0:
        raise ValueError(f"init has shape {z0.shape}: expected (particles, {dim})")
    wanted = options.get("particles", len(z0))
    if wanted != len(z0):
        raise ValueError(f"init has {len(z0)} rows, but particles is {wanted}")
    return finite(z0, "init")


class Answer(NamedTuple):
    """What a function has said of n points."""

    log_p: np.ndarray  # [n]
    grad: Optional[np.ndarray]  # [n][dim]
    precision: float  # of log_p, relative


def _answer(answer: Any) -> Tuple[Any, Any]:
    """(log_p, grad or None) of what a function has returned."""
    if not isinstance(answer, tuple):
        return answer, None
    if len(answer) != 2:
        raise ValueError(f"log_density returned {len(answer)} values: expected log_p, or (log_p, grad)")
    return answer


def evaluate(log_density: Callable[[np.ndarray], Any], z: np.ndarray, vectorized: bool) -> Answer:
    """log_density at z [n][dim], checked."""
    n = len(z)
    if vectorized:
        values, grads = _answer(log_density(z))
    else:
        each = [_answer(log_density(point)) for point in z]
        values = [value for value, _ in each]
        grads = None if any(grad is None for _, grad in each) else [grad for _, grad in each]
    if values is None:
        raise TypeError("log_density returned None: expected log_p, or (log_p, grad)")
    raw = np.asarray(values)
    if raw.shape != (n,):
        hint = "; for a function of one point pass vectorized=False" if vectorized and raw.ndim < 2 else ""
        raise ValueError(f"log_density returned log_p of shape {raw.shape} for {n} points: expected ({n},){hint}")
    log_p = shaped(raw, (n,), "log_p of log_density")
    grad = None if grads is None else shaped(grads, z.shape, "grad of log_density")
    precision = np.finfo(raw.dtype).eps if raw.dtype.kind == "f" else 0.0
    return Answer(log_p, grad, max(float(precision), float(np.finfo(float).eps)))


def fit_density(
    make_fit: Callable[..., Fit], log_density: Callable, vectorized: bool, progress: Shown, options: Dict[str, Any]
) -> Fit:
    """wvgd.fit for a function: a fit with gradients, or, if the function has none, one without."""
    try:
        return make_fit(**options).run(log_density, vectorized=vectorized, progress=progress)
    except _NoGradient as shown:
        if options.get("gradient"):
            raise ArgumentError("log_density returned no gradients, but gradient is True") from None
        tried = shown.args[0]
    made = make_fit(**{**options, "gradient": False})
    made._told = tried
    return made.run(log_density, vectorized=vectorized, progress=progress)
