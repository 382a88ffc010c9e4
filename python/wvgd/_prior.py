"""Priors by name, and fits of likelihoods under them.

A parameter x with a prior is x(u) for a coordinate u on the whole line, in which the prior has about mean 0 and sd 1:
x = c + k u, x = c exp(k u), or x = low + width / (1 + exp(-c - k u)). The fit is in u, with the density of the prior in
u, that of x times dx/du. Priors are normalised, so that the log evidence is that of the likelihood.
"""

from __future__ import annotations

import math
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from . import _layout
from ._answer import gradient_dict, of_all, of_each
from ._data import finite
from ._errors import ArgumentError


class At(NamedTuple):
    """A prior at coordinates u [n]."""

    x: np.ndarray  # [n] values of the parameter
    slope: np.ndarray  # [n] dx/du
    log_p: np.ndarray  # [n] log density of u
    grad: np.ndarray  # [n] its derivative


class Curve(NamedTuple):
    """x(u), with s = centre + scale u: s itself, exp(s), or low + (high - low) / (1 + exp(-s))."""

    kind: str  # LINE, POSITIVE, BETWEEN
    centre: float
    scale: float
    low: float = 0.0
    high: float = 0.0

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """u of x; infinite or NaN outside of its range."""
        with np.errstate(all="ignore"):
            if self.kind == "POSITIVE":
                x = np.log(x)
            elif self.kind == "BETWEEN":
                x = np.log((x - self.low) / (self.high - x))
            return (x - self.centre) / self.scale


def _inside(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """x, never rounded to a limit, where the likelihood may have no value."""
    return np.clip(x, np.nextafter(low, high), np.nextafter(high, low))


TINY, HUGE = float(np.finfo(float).tiny), float(np.finfo(float).max)


class Distribution:
    """A prior of one parameter: wvgd.normal and the others make it. text, such as "normal(0, 5)", makes the same again."""

    def __init__(self, text: str, curve: Curve, at: Callable[[np.ndarray], At]) -> None:
        self.text, self.curve, self.at = text, curve, at

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> Tuple[Any, ...]:
        return distribution, (self.text,)


def _text(name: str, *numbers: float) -> str:
    """name(1, 2.5, ...), from which exactly the same numbers can be read."""
    return f"{name}({', '.join(f'{x:g}' if float(f'{x:g}') == x else repr(x) for x in numbers)})"


def _number(name: str, argument: str, value: float, positive: bool = False) -> float:
    if isinstance(value, (bool, complex)) or not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
        raise ArgumentError(f"{name}: {argument} is {value!r}: expected a finite number")
    if positive and value <= 0:
        raise ArgumentError(f"{name}: {argument} is {value}: expected more than 0")
    return float(value)


def _line(text: str, c: float, k: float, log_p: Callable[[np.ndarray], Tuple[np.ndarray, np.ndarray]]) -> Distribution:
    """x = c + k u. log_p(u): log density of u, and its derivative."""

    def at(u: np.ndarray) -> At:
        return At(c + k * u, np.full_like(u, k), *log_p(u))

    return Distribution(text, Curve("LINE", c, k), at)


def _positive(text: str, c: float, k: float, log_p: Callable[[np.ndarray], Tuple[np.ndarray, np.ndarray]]) -> Distribution:
    """x = c exp(k u). log_p(x): log density of log x, and its derivative in log x."""

    def at(u: np.ndarray) -> At:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            x = np.clip(np.exp(math.log(c) + k * u), TINY, HUGE)
            value, grad = log_p(x)
            slope = np.minimum(k * x, HUGE)
        return At(x, slope, value + math.log(k), k * grad)

    return Distribution(text, Curve("POSITIVE", math.log(c), k), at)


def _between(text: str, low: float, high: float, a: float, b: float, c: float, k: float) -> Distribution:
    """x between low and high, with density (x - low)^(a-1) (high - x)^(b-1) there."""
    log_norm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + math.log(k)

    def at(u: np.ndarray) -> At:
        t = c + k * u
        log_s, log_r = -np.logaddexp(0, -t), -np.logaddexp(0, t)  # of the share s, and of 1 - s
        s, r = np.exp(log_s), np.exp(log_r)
        x = _inside(np.where(t < 0, low + (high - low) * s, high - (high - low) * r), low, high)
        return At(x, (high - low) * k * s * r, log_norm + a * log_s + b * log_r, k * (a * r - b * s))

    return Distribution(text, Curve("BETWEEN", c, k, low, high), at)


HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _standard(u: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    return -0.5 * u**2 - HALF_LOG_2PI, -u


def normal(mean: float = 0, sd: float = 1) -> Distribution:
    """Normal with this mean and sd."""
    mean, sd = _number("normal", "mean", mean), _number("normal", "sd", sd, True)
    return _line(_text("normal", mean, sd), mean, sd, _standard)


def student_t(nu: float, location: float = 0, scale: float = 1) -> Distribution:
    """Student's t with nu degrees of freedom."""
    nu, scale = _number("student_t", "nu", nu, True), _number("student_t", "scale", scale, True)
    location = _number("student_t", "location", location)
    norm = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)

    def log_p(u: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        return norm - 0.5 * (nu + 1) * np.log1p(u**2 / nu), -(nu + 1) * u / (nu + u**2)

    return _line(_text("student_t", nu, location, scale), location, scale, log_p)


def lognormal(mean: float = 0, sd: float = 1) -> Distribution:
    """The log is normal with this mean and sd."""
    mean, sd = _number("lognormal", "mean", mean), _number("lognormal", "sd", sd, True)

    def at(u: np.ndarray) -> At:
        with np.errstate(over="ignore"):
            x = np.clip(np.exp(mean + sd * u), TINY, HUGE)
            slope = np.minimum(sd * x, HUGE)
        return At(x, slope, *_standard(u))

    return Distribution(_text("lognormal", mean, sd), Curve("POSITIVE", mean, sd), at)


def gamma(shape: float, rate: float = 1) -> Distribution:
    """Gamma with density proportional to x^(shape - 1) exp(-rate x)."""
    shape, rate = _number("gamma", "shape", shape, True), _number("gamma", "rate", rate, True)
    norm = shape * math.log(rate) - math.lgamma(shape)
    return _positive(
        _text("gamma", shape, rate),
        shape / rate,
        1 / math.sqrt(shape),
        lambda x: (norm + shape * np.log(x) - rate * x, shape - rate * x),
    )


def exponential(rate: float = 1) -> Distribution:
    """Exponential with mean 1/rate."""
    rate = _number("exponential", "rate", rate, True)
    made = gamma(1, rate)
    return Distribution(_text("exponential", rate), made.curve, made.at)


def half_normal(sd: float = 1) -> Distribution:
    """The absolute value of a normal with mean 0."""
    sd = _number("half_normal", "sd", sd, True)
    norm = math.log(2) - HALF_LOG_2PI - math.log(sd)
    return _positive(
        _text("half_normal", sd), 0.7 * sd, 1.0, lambda x: (norm - 0.5 * (x / sd) ** 2 + np.log(x), 1 - (x / sd) ** 2)
    )


def half_cauchy(scale: float = 1) -> Distribution:
    """The absolute value of a Cauchy around 0."""
    scale = _number("half_cauchy", "scale", scale, True)
    norm = math.log(2 / math.pi) - math.log(scale)

    def log_p(x: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        r = (x / scale) ** 2
        return norm - np.log1p(r) + np.log(x), 1 - 2 * r / (1 + r)

    return _positive(_text("half_cauchy", scale), scale, 1.5, log_p)


def uniform(low: float = 0, high: float = 1) -> Distribution:
    """Uniform between low and high."""
    low, high = _number("uniform", "low", low), _number("uniform", "high", high)
    if low >= high:
        raise ArgumentError(f"uniform: high is {high}: expected more than low, {low}")
    return _between(_text("uniform", low, high), low, high, 1, 1, 0, 1.7)


def beta(a: float, b: float) -> Distribution:
    """Beta with density proportional to x^(a-1) (1-x)^(b-1)."""
    a, b = _number("beta", "a", a, True), _number("beta", "b", b, True)
    return _between(_text("beta", a, b), 0, 1, a, b, math.log(a / b), math.sqrt(1 / a + 1 / b))


NAMED: Dict[str, Callable[..., Distribution]] = {
    "normal": normal, "student_t": student_t, "lognormal": lognormal, "gamma": gamma, "exponential": exponential,
    "half_normal": half_normal, "half_cauchy": half_cauchy, "uniform": uniform, "beta": beta,
}  # fmt: skip


def distribution(text: str) -> Distribution:
    """The distribution of a text such as "normal(0, 5)"."""
    match = re.fullmatch(r"(\w+)\(([^()]*)\)", text)
    if not match or match.group(1) not in NAMED:
        raise ArgumentError(f"{text!r} is not a prior: expected one of {', '.join(NAMED)}, with numbers in parentheses")
    return NAMED[match.group(1)](*map(float, match.group(2).split(",")))


class Prior:
    """Independent priors of parameters, by name, in keywords or a mapping.

    The distributions are wvgd.normal(mean, sd), student_t(nu, location, scale), lognormal(mean, sd) of the log,
    gamma(shape, rate), exponential(rate), half_normal(sd), half_cauchy(scale), uniform(low, high) and beta(a, b). A
    log likelihood for wvgd.fit(..., prior=prior) gets the parameters as a dict of arrays [n], or of numbers with
    vectorized=False. A parameter that is log-uniform is the exponential of one with a uniform prior.

    >>> prior = Prior(a=normal(0, 5), s=lognormal(0, 1), p=uniform(0, 1))
    >>> prior
    Prior(a=normal(0, 5), s=lognormal(0, 1), p=uniform(0, 1))
    """

    def __init__(self, mapping: Optional[Mapping[str, Distribution]] = None, /, **parameters: Distribution) -> None:
        parameters = {**(mapping or {}), **parameters}
        if not parameters:
            raise ArgumentError("Prior: there are no parameters")
        for name, distribution in parameters.items():
            if not isinstance(distribution, Distribution):
                raise TypeError(f"Prior: {name} is {distribution!r}: expected a distribution, such as wvgd.normal(0, 1)")
        self.parameters = parameters

    def __repr__(self) -> str:
        return "Prior(" + ", ".join(f"{name}={made}" for name, made in self.parameters.items()) + ")"

    @classmethod
    def of_text(cls, text: str, names: List[str]) -> Optional["Prior"]:
        """The prior with these names whose repr is text, or None if there is none."""
        rest, found = text.replace("Prior(", "", 1), {}
        for name in names:
            match = re.match(re.escape(name) + r"=(\w+\([^()]*\))(?:, |\)$)", rest)
            if not match:
                return None
            try:
                found[name], rest = distribution(match.group(1)), rest[match.end() :]
            except (ValueError, TypeError):
                return None
        return cls(**found) if not rest else None

    @property
    def names(self) -> List[str]:
        return list(self.parameters)

    def at(self, u: np.ndarray) -> At:
        """All of them at coordinates u [n][dim]; log_p is their sum [n]."""
        with np.errstate(all="ignore"):  # far out: the log density is -inf there
            each = [made.at(u[:, i]) for i, made in enumerate(self.parameters.values())]
        column = lambda name: np.stack([getattr(one, name) for one in each], axis=1)  # noqa: E731
        return At(column("x"), column("slope"), column("log_p").sum(axis=1), column("grad"))

    def coordinates(self, x: np.ndarray, called: str) -> np.ndarray:
        """inverse(x) of finite values x [n][dim]; ValueError if one is outside of the range of its prior."""
        u = np.ascontiguousarray(self.inverse(finite(x, called)))
        outside = np.argwhere(~np.isfinite(u))
        if outside.size:
            row, column = map(int, outside[0])
            name, made = list(self.parameters.items())[column]
            raise ValueError(f"{called}[{row}, {column}] is {x[row, column]}: expected a value that {name}={made} allows")
        return u

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """Coordinates u [n][dim] of values x [n][dim] of the parameters; not finite outside of their ranges."""
        return np.stack([made.curve.inverse(x[:, i]) for i, made in enumerate(self.parameters.values())], axis=1)

    def curves(self) -> List[_layout.wvgd_curve]:
        """The same for the library."""
        kinds = {kind: _layout.CONSTANTS[f"WVGD_CURVE_{kind}"] for kind in ("LINE", "POSITIVE", "BETWEEN")}
        every = [made.curve for made in self.parameters.values()]
        return [_layout.wvgd_curve(kinds[v.kind], v.centre, v.scale, v.low, v.high) for v in every]

    def density(self, log_likelihood: Callable[[Dict[str, Any]], Any], vectorized: bool) -> Callable[[np.ndarray], Any]:
        """The log density in u, with its gradient if the likelihood has one."""
        names = self.names
        gradients = gradient_dict(names, "log_likelihood")

        def log_density(u: np.ndarray) -> Any:
            prior = self.at(u)
            if vectorized:
                said = log_likelihood({name: prior.x[:, i].copy() for i, name in enumerate(names)})
                answer = of_all(said, len(u), "log_likelihood", gradients)
            else:
                each = [log_likelihood(dict(zip(names, point))) for point in prior.x]  # of numpy: 1 / 0 is inf
                answer = of_each(each, "log_likelihood", gradients)
            log_p = np.where(np.isneginf(prior.log_p), -np.inf, prior.log_p + answer.log_p)
            if answer.grad is None:
                return log_p
            return log_p, prior.grad + prior.slope * answer.grad

        return log_density
