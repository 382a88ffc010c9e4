"""Fits by ask and tell, and their options."""

from __future__ import annotations

import ctypes as c
import difflib
import threading
import weakref
from typing import Any, List, Optional, Sequence

import numpy as np

from . import _layout
from ._data import dimensions, finite, flag, option_text, parameter_names, real_array, real_number, shaped
from ._errors import ArgumentError, error_of
from ._library import address, call, copied, core, make, text_array
from ._results import Result

MOST_PARTICLES = "80"  # as many as the program may make, if the number is not given
DIFFERENCES = _layout.CONSTANTS["WVGD_DIFFERENCES"]  # dimensions in which the library makes gradients of values


def option_names() -> List[str]:
    """Names of the options of a fit, with '_' between words."""
    names: List[str] = []
    while core.wvgd_options_describe(len(names)):
        names.append(core.wvgd_options_describe(len(names)).contents.name.decode().replace("-", "_"))
    return names


def options_help() -> str:
    """The options of a fit as text: name, values, default and one line of help each. Defaults are those of wvgd.Fit;
    wvgd.fit takes all cores as threads, and without particles most_particles=80. It also takes names, gradient, work,
    out, resume, overwrite, repeat, checkpoint_every and output_draws.

    >>> print(options_help().splitlines()[1])
    particles (1..100000, default 5): number of particles; each represents one cell of the posterior
    """
    lines = []
    for i, name in enumerate(option_names()):
        row = core.wvgd_options_describe(i).contents
        lines.append(f"{name} ({row.values.decode()}, default {row.initial.decode()}): {row.help.decode()}")
    return "\n".join(lines)


# Names that other packages have for options, and for what there is no option for.
_MEANT = {
    "ndim": "dim",
    "n_dim": "dim",
    "iterations": "max_iter",
    "n_iter": "max_iter",
    "random_state": "seed",
    "rstate": "seed",
    "tolerance": "tol",
    "cores": "threads",
    "n_jobs": "threads",
    "dlogz": "evidence_se",
    "maxcall": "max_evaluations",
    "max_ncalls": "max_evaluations",
    "log_dir": "out",
    "filepath": "out",
    "param_names": "names",
    "queue_size": "workers",
    "pool": "workers",
}
_NEEDLESS = (
    *("chains", "nchains", "walkers", "nwalkers", "nlive", "n_live_points", "min_num_live_points", "warmup", "tune"),
    *("burn_in", "nsteps", "step_size", "bound", "sample", "discard", "thin", "maxiter", "n_eff"),
)
_FUNCTION = ("args", "kwargs", "logl_args", "logl_kwargs", "ptform_args")


def is_foreign(name: str) -> bool:
    """Is it an option of other packages only?"""
    return name in _MEANT or name in _NEEDLESS or name in _FUNCTION


def no_option(name: str, near: Optional[str] = None) -> ArgumentError:
    """What to say of an option that does not exist. near: one with a similar name."""
    if name in _NEEDLESS:
        return ArgumentError(f"there is no option {name}: a fit needs no such setting")
    if name in _FUNCTION:
        return ArgumentError(f"there is no option {name}: write a lambda, or functools.partial, that has the arguments")
    near = _MEANT.get(name, near)
    close = [near] if near else difflib.get_close_matches(name, option_names(), 1)
    hint = f": did you mean {close[0].replace('-', '_')}?" if close else "; wvgd.options_help() lists them"
    return ArgumentError(f"there is no option {name}{hint}")


def _set_options(options: _layout.wvgd_options, given: dict) -> None:
    known = option_names()
    for name, value in given.items():
        if name not in known:
            raise no_option(name)
        error = _layout.wvgd_error()
        status = core.wvgd_options_set(
            c.byref(options), name.encode(), option_text(name, value).encode(), c.byref(error)
        )
        if status:
            raise error_of(status, error.text)


class Fit(Result):
    """A fit of a log density on R^dim, by hand: you evaluate the points that it asks for, wherever you like.

    >>> import math
    >>> fit = Fit(dim=2, seed=3)
    >>> while (z := fit.ask()) is not None:
    ...     fit.tell(-0.5 * (z**2).sum(axis=1), -z)
    >>> fit.verdict, round(fit.log_evidence - math.log(2 * math.pi), 2) + 0
    ('no problems detected', 0.0)

    With gradient=False, tell takes no gradients. Where the fit needs them, in up to 64 dimensions, it also asks for points
    around each point, and uses finite differences.

    names: of the coordinates. init: where particles start, an array [N][dim], or one of the names of the option.
    metric: [dim][dim], symmetric and positive definite, for cost="mahalanobis". work: floating-point operations of an
    evaluation, roughly; if it is small, the fit takes more points rather than more of its own time. All other options by keyword, as in
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
        work: Optional[float] = None,
        **options: Any,
    ) -> None:
        dim = dimensions(dim)
        self._lock = threading.RLock()
        self.names = parameter_names(names, dim)
        made = _layout.wvgd_options()
        core.wvgd_options_init(c.byref(made))
        z0 = None
        if init is not None and not isinstance(init, str):
            z0 = starts(init, dim, options)
            options["particles"] = len(z0)
        elif init is not None:
            options["init"] = init
        if "particles" not in options and "most_particles" not in options:
            options["most_particles"] = MOST_PARTICLES
        gradient = flag(gradient, "gradient")
        if not gradient and dim > DIFFERENCES and "estimator" not in options:
            options["estimator"] = "score"  # as the program has it
        _set_options(made, options)
        if metric is not None:
            metric = finite(shaped(metric, (dim, dim), "metric"), "metric")
            made.metric = address(metric)
        self._kept = (metric, text_array(self.names))  # what the fit points to
        model = _layout.wvgd_model(name=b"density", dim=dim, has_gradient=gradient, names=self._kept[1])
        model.work = assumed_work(work, gradient)
        self._pointer = make(core.wvgd_new, c.byref(model), c.byref(made), address(z0) if z0 is not None else None)
        self._free = weakref.finalize(self, core.wvgd_free, self._pointer)
        self._asked: Optional[np.ndarray] = None  # [n][dim] points that wait for answers
        self._wants_gradient = False

    def ask(self) -> Optional[np.ndarray]:
        """The points to evaluate, [n][dim], or None when the fit has ended. Until tell they stay the same."""
        with self._lock:
            if self._asked is None:
                n, z, gradient = c.c_size_t(), _layout.P_DOUBLE(), c.c_bool()
                call(core.wvgd_ask, self._pointer, c.byref(n), c.byref(z), c.byref(gradient))
                if n.value == 0:
                    return None
                self._asked = copied(z, n.value, len(self.names))
                self._wants_gradient = gradient.value
            return self._asked.copy()

    @property
    def wants_gradient(self) -> bool:
        """Whether tell needs gradients for the points of the last ask."""
        return self._wants_gradient

    def tell(self, log_p: Any, grad: Any = None) -> None:
        """The answers: log_p [n] and, if wants_gradient, grad [n][dim]. -inf: no density there. NaN: a bad point, which
        counts as one without density and is reported."""
        with self._lock:
            if self._asked is None:
                raise ArgumentError("tell: nothing was asked; call ask first")
            log_p = shaped(log_p, (len(self._asked),), "log_p")
            if grad is not None:
                grad = shaped(grad, self._asked.shape, "grad")
            elif self._wants_gradient:
                raise ArgumentError("tell: grad is missing; for a density without gradients make the fit with gradient=False")
            self._asked = None
            call(core.wvgd_tell, self._pointer, address(log_p), address(grad) if self._wants_gradient else None)

    def stop_now(self) -> None:
        """Ends the iterations; what is still asked closes the fit. May be called from another thread."""
        core.wvgd_stop_now(self._pointer)


WORK = 2e5  # assumed operations of a point, if it has a gradient: a few hundred rows with thirty columns take numpy as long


def assumed_work(work: Optional[float], cheap: bool) -> float:
    """Operations that an evaluation takes; 0, unknown, unless it is given or can be assumed to be cheap."""
    given = real_number(work, "work")
    return given if given is not None else WORK if cheap else 0.0


def starts(init: Any, dim: int, options: dict) -> np.ndarray:
    """Starting particles [N][dim], checked."""
    z0 = real_array(init, "init")
    if z0.ndim != 2 or z0.shape[1] != dim or len(z0) == 0:
        raise ValueError(f"init has shape {z0.shape}: expected (particles, {dim})")
    wanted = options.get("particles", len(z0))
    if wanted != len(z0):
        raise ValueError(f"init has {len(z0)} rows, but particles is {wanted}")
    return finite(z0, "init")
