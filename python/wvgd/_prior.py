"""Priors by name, and fits of likelihoods under them.

A parameter x with a prior is x(u) for a coordinate u on the whole line, in which the prior has about mean 0 and sd 1:
x = c + k u, x = c exp(k u), or x = low + width / (1 + exp(-c - k u)). The fit is in u, with the density of the prior in
u, that of x times dx/du. Priors are normalised, so that the log evidence is that of the likelihood.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ._data import shaped
from ._errors import ArgumentError
from ._fit import Fit
from ._library import copied


class At(NamedTuple):
    """A prior at coordinates u [n]."""

    x: np.ndarray  # [n] values of the parameter
    slope: np.ndarray  # [n] dx/du
    log_p: np.ndarray  # [n] log density of u
    grad: np.ndarray  # [n] its derivative


class Distribution:
    """A prior of one parameter: wvgd.normal and the others make it."""

    def __init__(self, text: str, at: Callable[[np.ndarray], At]) -> None:
        self.text, self.at = text, at

    def __repr__(self) -> str:
        return self.text


def _number(name: str, argument: str, value: float, positive: bool = False) -> float:
    if isinstance(value, (str, bytes)) or not np.isscalar(value) or not math.isfinite(value):
        raise ArgumentError(f"{name}: {argument} is {value!r}: expected a finite number")
    if positive and value <= 0:
        raise ArgumentError(f"{name}: {argument} is {value}: expected more than 0")
    return float(value)


def _line(text: str, c: float, k: float, log_p: Callable[[np.ndarray], Tuple[np.ndarray, np.ndarray]]) -> Distribution:
    """x = c + k u. log_p(u): log density of u, and its derivative."""

    def at(u: np.ndarray) -> At:
        return At(c + k * u, np.full_like(u, k), *log_p(u))

    return Distribution(text, at)


def _positive(text: str, c: float, k: float, log_p: Callable[[np.ndarray], Tuple[np.ndarray, np.ndarray]]) -> Distribution:
    """x = c exp(k u). log_p(x): log density of log x, and its derivative in log x."""

    def at(u: np.ndarray) -> At:
        with np.errstate(over="ignore", invalid="ignore"):
            x = c * np.exp(k * u)
            value, grad = log_p(x)
        return At(x, k * x, value + math.log(k), k * grad)

    return Distribution(text, at)


def _between(text: str, low: float, high: float, a: float, b: float, c: float, k: float) -> Distribution:
    """x between low and high, with density (x - low)^(a-1) (high - x)^(b-1) there."""
    log_norm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + math.log(k)

    def at(u: np.ndarray) -> At:
        t = c + k * u
        log_s, log_r = -np.logaddexp(0, -t), -np.logaddexp(0, t)  # of the share s, and of 1 - s
        s, r = np.exp(log_s), np.exp(log_r)
        x = np.where(t < 0, low + (high - low) * s, high - (high - low) * r)
        return At(x, (high - low) * k * s * r, log_norm + a * log_s + b * log_r, k * (a * r - b * s))

    return Distribution(text, at)


HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _standard(u: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    return -0.5 * u**2 - HALF_LOG_2PI, -u


def normal(mean: float = 0, sd: float = 1) -> Distribution:
    """Normal with this mean and sd."""
    mean, sd = _number("normal", "mean", mean), _number("normal", "sd", sd, True)
    return _line(f"normal({mean:g}, {sd:g})", mean, sd, _standard)


def student_t(nu: float, location: float = 0, scale: float = 1) -> Distribution:
    """Student's t with nu degrees of freedom."""
    nu, scale = _number("student_t", "nu", nu, True), _number("student_t", "scale", scale, True)
    location = _number("student_t", "location", location)
    norm = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)

    def log_p(u: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        return norm - 0.5 * (nu + 1) * np.log1p(u**2 / nu), -(nu + 1) * u / (nu + u**2)

    return _line(f"student_t({nu:g}, {location:g}, {scale:g})", location, scale, log_p)


def lognormal(mean: float = 0, sd: float = 1) -> Distribution:
    """The log is normal with this mean and sd."""
    mean, sd = _number("lognormal", "mean", mean), _number("lognormal", "sd", sd, True)

    def at(u: np.ndarray) -> At:
        with np.errstate(over="ignore"):
            x = np.exp(mean + sd * u)
        return At(x, sd * x, *_standard(u))

    return Distribution(f"lognormal({mean:g}, {sd:g})", at)


def gamma(shape: float, rate: float = 1) -> Distribution:
    """Gamma with density proportional to x^(shape - 1) exp(-rate x)."""
    shape, rate = _number("gamma", "shape", shape, True), _number("gamma", "rate", rate, True)
    norm = shape * math.log(rate) - math.lgamma(shape)
    return _positive(
        f"gamma({shape:g}, {rate:g})",
        shape / rate,
        1 / math.sqrt(shape),
        lambda x: (norm + shape * np.log(x) - rate * x, shape - rate * x),
    )


def exponential(rate: float = 1) -> Distribution:
    """Exponential with mean 1/rate."""
    rate = _number("exponential", "rate", rate, True)
    made = gamma(1, rate)
    return Distribution(f"exponential({rate:g})", made.at)


def half_normal(sd: float = 1) -> Distribution:
    """The absolute value of a normal with mean 0."""
    sd = _number("half_normal", "sd", sd, True)
    norm = math.log(2) - HALF_LOG_2PI - math.log(sd)
    return _positive(
        f"half_normal({sd:g})", 0.7 * sd, 1.0, lambda x: (norm - 0.5 * (x / sd) ** 2 + np.log(x), 1 - (x / sd) ** 2)
    )


def half_cauchy(scale: float = 1) -> Distribution:
    """The absolute value of a Cauchy around 0."""
    scale = _number("half_cauchy", "scale", scale, True)
    norm = math.log(2 / math.pi) - math.log(scale)

    def log_p(x: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        r = (x / scale) ** 2
        return norm - np.log1p(r) + np.log(x), 1 - 2 * r / (1 + r)

    return _positive(f"half_cauchy({scale:g})", scale, 1.5, log_p)


def uniform(low: float = 0, high: float = 1) -> Distribution:
    """Uniform between low and high."""
    low, high = _number("uniform", "low", low), _number("uniform", "high", high)
    if low >= high:
        raise ArgumentError(f"uniform: high is {high}: expected more than low, {low}")
    return _between(f"uniform({low:g}, {high:g})", low, high, 1, 1, 0, 1.7)


def beta(a: float, b: float) -> Distribution:
    """Beta with density proportional to x^(a-1) (1-x)^(b-1)."""
    a, b = _number("beta", "a", a, True), _number("beta", "b", b, True)
    return _between(f"beta({a:g}, {b:g})", 0, 1, a, b, math.log(a / b), math.sqrt(1 / a + 1 / b))


class Prior:
    """Independent priors of parameters, by name.

    >>> prior = Prior(a=normal(0, 5), s=lognormal(0, 1), p=uniform(0, 1))
    >>> prior
    Prior(a=normal(0, 5), s=lognormal(0, 1), p=uniform(0, 1))
    """

    def __init__(self, **parameters: Distribution) -> None:
        if not parameters:
            raise ArgumentError("Prior: there are no parameters")
        for name, distribution in parameters.items():
            if not isinstance(distribution, Distribution):
                raise TypeError(f"Prior: {name} is {distribution!r}: expected a distribution, such as wvgd.normal(0, 1)")
        self.parameters = parameters

    def __repr__(self) -> str:
        return "Prior(" + ", ".join(f"{name}={made}" for name, made in self.parameters.items()) + ")"

    @property
    def names(self) -> List[str]:
        return list(self.parameters)

    def at(self, u: np.ndarray) -> At:
        """All of them at coordinates u [n][dim]; log_p is their sum [n]."""
        each = [made.at(u[:, i]) for i, made in enumerate(self.parameters.values())]
        column = lambda name: np.stack([getattr(one, name) for one in each], axis=1)  # noqa: E731
        return At(column("x"), column("slope"), column("log_p").sum(axis=1), column("grad"))

    def density(self, log_likelihood: Callable[[Dict[str, Any]], Any], vectorized: bool) -> Callable[[np.ndarray], Any]:
        """The log density in u, with its gradient if the likelihood has one."""
        names = self.names

        def log_density(u: np.ndarray) -> Any:
            prior = self.at(u)
            answer, grads = _ask(log_likelihood, names, prior.x, vectorized)
            log_p = np.where(np.isneginf(prior.log_p), -np.inf, prior.log_p + answer)
            if grads is None:
                return log_p
            return log_p, prior.grad + prior.slope * grads

        return log_density


def _ask(function: Callable, names: List[str], x: np.ndarray, vectorized: bool) -> Tuple[np.ndarray, Optional[np.ndarray]]:
    """(log likelihood [n], gradient [n][dim] or None) at x [n][dim], checked."""
    if vectorized:
        answer = function({name: x[:, i].copy() for i, name in enumerate(names)})
        value, grads = answer if isinstance(answer, tuple) else (answer, None)
    else:
        each = [function(dict(zip(names, map(float, point)))) for point in x]
        pairs = [one if isinstance(one, tuple) else (one, None) for one in each]
        value = [one for one, _ in pairs]
        grads = None if any(grad is None for _, grad in pairs) else {k: [g[k] for _, g in pairs] for k in names}
    value = shaped(value, (len(x),), "what log_likelihood returned")
    if grads is None:
        return value, None
    if not isinstance(grads, dict) or set(grads) != set(names):
        raise ValueError(f"the gradient that log_likelihood returned is not a dict with the keys {', '.join(names)}")
    columns = [shaped(grads[name], (len(x),), f"the gradient in {name} that log_likelihood returned") for name in names]
    return value, np.stack(columns, axis=1)


class PriorFit(Fit):
    """A fit of a likelihood under a Prior. All that it reports is in the parameters themselves."""

    def __init__(self, prior: Prior, **options: Any) -> None:
        super().__init__(len(prior.names), names=prior.names, **options)
        self.prior = prior

    def _quantities(self) -> Tuple[np.ndarray, np.ndarray]:
        u, log_w = self._closing()
        return self.prior.at(u).x, log_w

    def _draws(self, n: int, seed: int, source: str) -> np.ndarray:
        return self.prior.at(super()._draws(n, seed, source)).x

    @property
    def particles(self) -> np.ndarray:
        view = self._view()
        return self.prior.at(copied(view.z, view.N, view.D)).x

    @property
    def mean(self) -> np.ndarray:
        return self.describe(self._quantities()[0])["mean"]

    @property
    def sd(self) -> np.ndarray:
        return self.describe(self._quantities()[0])["sd"]

    @property
    def mcse(self) -> np.ndarray:
        return self.describe(self._quantities()[0])["mcse"]

    def cell(self, z: Any) -> np.ndarray:
        raise ArgumentError("cell: not available with a prior yet; the cells are in other coordinates")

    def log_q(self, z: Any) -> np.ndarray:
        raise ArgumentError("log_q: not available with a prior yet; the ensemble is in other coordinates")
