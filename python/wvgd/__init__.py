"""Bayesian inference by Wasserstein variational gradient descent.

    import wvgd
    fit = wvgd.fit(log_density, dim=5)      # f(z[n, dim]) -> log_p[n], or (log_p[n], grad[n, dim])
    fit.log_evidence, fit.mean, fit.sd, fit.draws(4000)
    print(fit.summary())

docs/python.md is the guide.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Callable, Optional, Union

import numpy as np

from ._errors import ArgumentError, DataError, Error, InputError, ModelError, OutOfMemory, OutputError
from ._fit import Fit, fit_density, option_names, options_help
from ._library import version
from ._prior import (
    Prior, PriorFit, beta, exponential, gamma, half_cauchy, half_normal, lognormal, normal, student_t, uniform,
)  # fmt: skip
from ._progress import Shown
from ._results import Mode, Progress, Result, Summary
from ._run import Run, fit_model, load, models, resume

__version__ = version()
__all__ = [
    "fit", "Fit", "Run", "Result", "Summary", "Mode", "Progress", "load", "resume", "models", "option_names", "options_help",
    "Prior", "normal", "lognormal", "uniform", "beta", "gamma", "half_normal", "half_cauchy", "student_t", "exponential",
    "Error", "ArgumentError", "DataError", "InputError", "OutputError", "ModelError", "OutOfMemory",
]  # fmt: skip


def fit(
    model: Union[Callable[[np.ndarray], Any], str, "os.PathLike[str]"],
    dim: Optional[int] = None,
    *,
    prior: Optional[Prior] = None,
    data: Any = None,
    vectorized: bool = True,
    progress: Shown = None,
    **options: Any,
) -> Result:
    """Fits a log density, or a model by name; returns the fit with its results.

    model: a function, which is called with points z [n][dim] and returns log_p [n], or a tuple (log_p [n],
    grad [n][dim]); with vectorized=False it is called with one point z [dim], and returns log_p, or (log_p, grad [dim]).
    Without gradients, they are made of differences (see wvgd.Fit), which takes 2 dim more evaluations for each. Where
    there is no density, log_p is -inf.
    With prior=wvgd.Prior(...) it is a log likelihood, and is called with a dict of arrays [n], the parameters by name
    (with vectorized=False a dict of numbers); a gradient is a dict likewise. All results are in these parameters.
    Or the name of a model (wvgd.models()), or a path to a shared object. data is then a file, or what would be in it: a
    data frame or a mapping of names to columns for models that read tables, a dict for those that read JSON.

    progress: None shows a line in terminals and notebooks; a function is called with a wvgd.Progress after every batch.
    Options by keyword, as in docs/options.md with '_' for '-': wvgd.options_help(). For a function also names, init,
    metric, gradient: see wvgd.Fit. With models by name all that `wvgd fit` has, such as target, standardize, out.

    An exception of the function comes through as it is. Ctrl-C ends the fit with the best result so far; stop is then
    "stopped".

    >>> import numpy as np
    >>> def log_density(z):
    ...     return -0.5 * (z**2).sum(axis=1) - np.log(2 * np.pi)
    >>> f = fit(log_density, dim=2)
    >>> f.reliable, round(abs(f.log_evidence), 3)
    (True, 0.0)
    """
    if callable(model):
        if prior is not None:
            if not isinstance(prior, Prior) or dim is not None or "names" in options:
                raise ArgumentError("prior: expected a wvgd.Prior, which has dim and names")
        elif dim is None:
            raise ArgumentError("dim is missing: how many dimensions does the density have?")
        for name, value in (("data", data), ("out", options.get("out"))):
            if value is not None:
                raise ArgumentError(f"{name} is for models by name, not for functions")
        if prior is not None:
            return fit_density(partial(PriorFit, prior), prior.density(model, vectorized), True, progress, options)
        return fit_density(partial(Fit, dim), model, vectorized, progress, options)
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"model is {type(model).__name__}: expected a function, the name of a model or a path")
    if dim is not None or prior is not None:
        raise ArgumentError("dim and prior are for functions: a model by name has its own")
    return fit_model(os.fspath(model), data, progress, **options)
