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
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from ._data import dimensions, flag, parameter_names
from ._density import evaluate
from ._errors import ArgumentError, DataError, Error, InputError, ModelError, OutOfMemory, OutputError
from ._fit import Fit, no_option, option_names, options_help
from ._library import version
from ._mpi import Ranks, fit_on_ranks
from ._prior import (
    Prior, beta, exponential, gamma, half_cauchy, half_normal, lognormal, normal, student_t, uniform,
)  # fmt: skip
from ._progress import Shown
from ._results import Mode, Progress, Result, Summary
from ._run import Comparison, Run, compare, fit_density, fit_model, load, models, resume
from ._stan import stan
from ._torch import torch
from ._workers import Workers, piece

__version__ = version()
__all__ = [
    "fit", "Fit", "Run", "Result", "Summary", "Mode", "Progress", "load", "resume", "compare", "Comparison", "models", "stan", "torch", "option_names", "options_help",
    "Prior", "normal", "lognormal", "uniform", "beta", "gamma", "half_normal", "half_cauchy", "student_t", "exponential",
    "Error", "ArgumentError", "DataError", "InputError", "OutputError", "ModelError", "OutOfMemory",
]  # fmt: skip


def fit(
    model: Union[Callable[[Any], Any], str, "os.PathLike[str]"],
    dim: Optional[int] = None,
    *,
    prior: Union[Prior, Mapping[str, str], Sequence[str], str, None] = None,
    data: Any = None,
    vectorized: bool = True,
    workers: Optional[int] = None,
    comm: Any = None,
    progress: Shown = None,
    **options: Any,
) -> Run:
    """Fits a log density, or a model by name; returns the fit with its results.

    model: a function that takes points z [n][dim] and returns log_p [n], or a tuple (log_p [n], grad [n][dim]); with
    vectorized=False it takes one point z [dim], and returns log_p, or (log_p, grad [dim]). If it returns no gradients,
    finite differences replace them (see wvgd.Fit), which takes up to 2 dim more evaluations for each. Where the density
    is zero, log_p is -inf.
    With prior=wvgd.Prior(...) the function is a log likelihood: it takes a dict of arrays [n], the parameters by name
    (with vectorized=False a dict of numbers), and a gradient is also a dict. All results are in these parameters.
    Instead of a function: the name of a model (wvgd.models()), or a path to a shared object. data is then a file, or its
    content: a data frame or a mapping of names to columns for models that read tables, a dict for those that read JSON.

    workers: the number of forked processes that evaluate the function; results do not depend on it.
    comm: an mpi4py communicator, such as MPI.COMM_WORLD, whose processes evaluate the function together. All of them make
    the same call, and all get the result, which does not depend on their number.
    progress: None shows a line in terminals and notebooks; a function is called with a wvgd.Progress after every batch.
    Options are keywords, as in docs/options.md with '_' for '-': wvgd.options_help(). Functions also take names, init,
    gradient and work (see wvgd.Fit), and out, resume, overwrite and repeat. Models by name take all options of `wvgd fit`, such as target, standardize, formula,
    likelihood, out; prior is then a mapping of names to texts, such as {"slopes": "normal(0, 1)"}.

    out: a run directory, which wvgd summary, report and wvgd.load read; resume=True goes on with the run in it, or returns
    its results if it has ended; overwrite=True replaces it. repeat: this many independent fits. work: floating-point
    operations of an evaluation, if you know them.

    Exceptions of the function reach you unchanged. Ctrl-C ends the fit with the best result so far; stop is then
    "stopped".

    >>> import numpy as np
    >>> def log_density(z):
    ...     return -0.5 * (z**2).sum(axis=1) - np.log(2 * np.pi)
    >>> f = fit(log_density, dim=2)
    >>> f.reliable, round(abs(f.log_evidence), 3)
    (True, 0.0)
    """
    vectorized = flag(vectorized, "vectorized")
    if callable(model):
        if prior is not None:
            if isinstance(prior, Mapping):
                prior = Prior(prior)
            if not isinstance(prior, Prior):
                raise ArgumentError(f"prior is {type(prior).__name__}: expected wvgd.Prior(a=wvgd.normal(0, 1), ...)")
            for name, value in (("dim", dim), ("names", options.get("names"))):
                if value is not None:
                    raise ArgumentError(f"{name} is {value!r}, but the prior has names and dimensions already: leave it out")
            options.pop("names", None)
            names, function = prior.names, partial(evaluate, prior.density(model, vectorized), vectorized=True)
        elif dim is None:
            for name in options:
                if name in ("ndim", "n_dim"):
                    raise no_option(name)
            raise ArgumentError("dim is missing: how many dimensions does the density have?")
        else:
            dim = dimensions(dim)
            names, function = parameter_names(options.pop("names", None), dim), partial(evaluate, model, vectorized=vectorized)
        if data is not None:
            raise ArgumentError("data is for models by name, not for functions")
        if comm is not None:
            if workers is not None:
                raise ArgumentError("give either comm or workers, not both")
            return fit_on_ranks(Ranks(function, comm, piece(vectorized)), names, prior, vectorized, progress, options)
        if workers is None:
            return fit_density(function, names, prior, vectorized, progress, options, batched=vectorized)
        with Workers(function, workers, piece(vectorized)) as shared:
            return fit_density(shared, names, prior, vectorized, progress, options)
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"model is {type(model).__name__}: expected a function, the name of a model or a path")
    if workers is not None:
        raise ArgumentError("workers is for functions: a model by name has threads")
    if comm is not None:
        raise ArgumentError("comm is for functions: for a model by name there is mpirun -n K wvgd-mpi fit")
    if dim is not None:
        raise ArgumentError("dim is for functions: a model by name has its own")
    if isinstance(prior, Prior):
        raise ArgumentError("a wvgd.Prior is for functions: expected texts, as prior={'intercept': 'normal(0, 5)'}")
    texts = [f"{name}={text}" for name, text in prior.items()] if isinstance(prior, Mapping) else prior
    if texts:
        if not isinstance(texts, (str, list, tuple)) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"prior is {prior!r}: expected texts, as {{'intercept': 'normal(0, 5)'}}")
        options["prior"] = texts if isinstance(texts, str) else ";".join(texts)
    return fit_model(os.fspath(model), data, progress, **options)
