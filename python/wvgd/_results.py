"""What a fit has found. Arrays are copies: they stay when the fit goes."""

from __future__ import annotations

import ctypes as c
import html
import math
import re
import threading
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import _layout
from ._data import count, finite, real_array, stream
from ._errors import ArgumentError
from ._library import address, call, copied, core, texts

LEVELS = (0.05, 0.5, 0.95)


class Progress(NamedTuple):
    """How far a fit has come."""

    stage: str
    iteration: int
    evaluations: int
    pelbo: float  # of the last batch
    ess: float


@dataclass(frozen=True)
class Summary:
    """Posterior of every quantity, a row each; print it, or take columns: summary["mean"], and those that are not
    printed: sd_se, tail_k and the errors of quantiles, summary["95% se"]. A star marks an sd whose tail_k is too large:
    it, and perhaps the mean, cannot be relied on."""

    names: List[str]
    columns: Dict[str, np.ndarray]  # of numbers, [len(names)] each
    verdict: str
    lines: List[str] = field(default_factory=list)  # reasons, warnings
    others: Dict[str, np.ndarray] = field(default_factory=dict)  # columns that are not printed: errors, tail_k
    marked: Sequence[bool] = ()  # [len(names)] the sd, and perhaps the mean, cannot be relied on

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column] if column in self.columns else self.others[column]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a row per quantity, which needs pandas."""
        import pandas

        return pandas.DataFrame({**self.columns, **self.others}, index=list(self.names))

    def _fields(self, i: int) -> List[str]:
        """Row i as texts; a star follows an sd that cannot be relied on."""
        stars = {"sd": "*" if len(self.marked) and self.marked[i] else ""}
        return [f"{column[i]:.4g}{stars.get(name, '')}" for name, column in self.columns.items()]

    def __str__(self) -> str:
        width = max([len(name) for name in self.names] + [9])
        head = f"{'parameter':<{width}}" + "".join(f"{name:>11}" for name in self.columns)
        rows = [
            f"{name:<{width}}" + "".join(f"{text:>11}" for text in self._fields(i))
            for i, name in enumerate(self.names)
        ]
        return "\n".join([head, *rows, "", f"Verdict: {self.verdict}", *[f"  - {line}" for line in self.lines]])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = "".join(f"<th>{html.escape(name)}</th>" for name in ["parameter", *self.columns])
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td>"
            + "".join(f'<td style="text-align: right">{text}</td>' for text in self._fields(i))
            + "</tr>"
            for i, name in enumerate(self.names)
        )
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in self.lines)
        return f"<p><b>Verdict: {html.escape(self.verdict)}</b></p><ul>{lines}</ul><table><tr>{cells}</tr>{rows}</table>"


@dataclass(frozen=True)
class Mode:
    """A mode of the posterior, and the draws that belong to it."""

    mass: float
    mass_se: float
    mean: np.ndarray  # [quantities]
    sd: np.ndarray  # [quantities]
    points: np.ndarray = field(repr=False)  # [n][quantities] its closing draws
    weights: np.ndarray = field(repr=False)  # [n] sum to 1

    def draws(self, n: int = 1000, seed: int = 1) -> np.ndarray:
        """n draws from the posterior in this mode, with equal weights: [n][quantities]."""
        n = count(n, "n")
        chosen = np.random.default_rng(stream(seed)).choice(len(self.points), size=n, p=self.weights)
        return self.points[chosen]


class Resampled(NamedTuple):
    """Closing draws, resampled to equal weights."""

    z: np.ndarray  # [n][dim]
    log_p: np.ndarray  # [n]
    log_weight: np.ndarray  # [n] that the draw had
    cell: np.ndarray  # [n]


def in_python(lines: List[str]) -> List[str]:
    """Sentences that name options as the program does, --init-scale, with the names that they have here, init_scale."""

    def name(found: "re.Match[str]") -> str:
        return found.group(1).replace("-", "_")

    return [re.sub(r"--([a-z][a-z-]*)", name, line) for line in lines]


class Result:
    """Results of a fit: of wvgd.Fit, and of a run of a model by name."""

    _pointer: Optional[int] = None  # to the wvgd_fit
    _lock: threading.RLock  # for whoever reads or changes it: one thread at a time
    names: List[str]  # of the quantities

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: pass on its numbers (to_dict(), draws()), "
            "or write its run directory and wvgd.load it"
        )

    # ---- from the library --------------------------------------------------------------------------------------------
    def _call(self, function: Any, *arguments: Any) -> None:
        with self._lock:
            call(function, *arguments)

    def _view(self) -> _layout.wvgd_results:
        """The results now. What it points to lives until the fit goes on: look at it with _lock only."""
        results = _layout.wvgd_results()
        with self._lock:
            core.wvgd_get_results(self._pointer, c.byref(results))
        return results

    def _array(self, name: str, *shape: str) -> np.ndarray:
        with self._lock:
            view = self._view()
            return copied(getattr(view, name), *[getattr(view, size) for size in shape])

    def _texts(self, name: str, number: str) -> List[str]:
        with self._lock:
            view = self._view()
            return texts(getattr(view, name), getattr(view, number))

    def _ended(self, what: str) -> None:
        if not self.done:
            raise ArgumentError(f"{what}: the fit has not ended; ask and tell until ask returns None")

    def _closing(self) -> Tuple[np.ndarray, np.ndarray]:
        """Closing draws of the parameters [n][D], and normalised log weights [n]."""
        n, z, log_w = c.c_size_t(), _layout.P_DOUBLE(), _layout.P_DOUBLE()
        with self._lock:
            call(core.wvgd_draws, self._pointer, c.byref(n), c.byref(z), None, c.byref(log_w), None)
            return copied(z, n.value, self._view().D), copied(log_w, n.value)

    def _resampled(self, n: int, seed: int) -> Resampled:
        """The points that draws(n, seed) shows, and what is known of them."""
        z, index = np.empty((n, self.dim)), np.empty(n, dtype=np.uintp)
        size, log_p, log_w, cell = c.c_size_t(), _layout.P_DOUBLE(), _layout.P_DOUBLE(), c.POINTER(c.c_uint32)()
        with self._lock:
            call(core.wvgd_resample, self._pointer, seed, n, address(z), address(index))
            call(core.wvgd_draws, self._pointer, c.byref(size), None, c.byref(log_p), c.byref(log_w), c.byref(cell))
            cells = np.array(cell[: size.value], dtype=np.int64)
            return Resampled(z, copied(log_p, size.value)[index], copied(log_w, size.value)[index], cells[index])

    def _quantities(self) -> Tuple[np.ndarray, np.ndarray]:
        """The same for what names names."""
        return self._closing()

    # ---- the verdict -------------------------------------------------------------------------------------------------
    @property
    def done(self) -> bool:
        """Whether the fit has ended."""
        progress = _layout.wvgd_progress()
        with self._lock:
            core.wvgd_get_progress(self._pointer, c.byref(progress))
            return bool(progress.stage == b"done")

    @property
    def reliable(self) -> bool:
        """The verdict: no problems were detected."""
        return bool(self._view().reliable)

    @property
    def reasons(self) -> List[str]:
        """The problems of the result, each with a remedy; if there are none, what was checked."""
        return in_python(self._texts("reason", "reasons"))

    @property
    def warnings(self) -> List[str]:
        """Other warnings, each with a remedy."""
        return in_python(self._texts("warning", "warnings"))

    @property
    def verdict(self) -> str:
        """ "no problems detected", "unreliable", or "not finished"."""
        return "not finished" if not self.done else "no problems detected" if self.reliable else "unreliable"

    @property
    def stop(self) -> str:
        """Why the fit ended: converged, finished (by chains), max_iter, max_evaluations, time_up, stopped; or running."""
        return core.wvgd_stop_name(self._view().stop).decode()

    # ---- numbers -----------------------------------------------------------------------------------------------------
    @property
    def dim(self) -> int:
        """Dimensions of the density."""
        return self._view().D

    @property
    def log_evidence(self) -> float:
        """Log of the integral of the density, by importance sampling."""
        return self._view().evidence.value

    @property
    def log_evidence_se(self) -> float:
        """Standard error of log_evidence."""
        return self._view().evidence.se

    @property
    def pelbo(self) -> float:
        """Lower bound on the log evidence."""
        return self._view().pelbo.value

    @property
    def pelbo_se(self) -> float:
        """Standard error of pelbo."""
        return self._view().pelbo.se

    @property
    def khat(self) -> float:
        """Pareto k-hat of the importance weights; reliable below about 0.7."""
        return self._view().pareto_k

    @property
    def ess(self) -> float:
        """Effective number of closing draws."""
        return self._view().ess

    @property
    def evaluations(self) -> int:
        """Number of evaluations of the density."""
        return self._view().evaluations

    @property
    def bad_points(self) -> int:
        """Points where the log density was NaN or +inf, or the gradient NaN."""
        return self._view().bad_points

    @property
    def mean(self) -> np.ndarray:
        """[dim] posterior means."""
        return self._array("mean", "D")

    @property
    def sd(self) -> np.ndarray:
        """[dim] posterior standard deviations."""
        return np.sqrt(self._array("var", "D"))

    @property
    def mcse(self) -> np.ndarray:
        """[dim] standard errors of the means."""
        return self._array("mcse", "D")

    @property
    def particles(self) -> np.ndarray:
        """[N][dim] particles: each stands for the points nearest to it, its cell."""
        return self._array("z", "N", "D")

    @property
    def beta(self) -> np.ndarray:
        """[N] posterior mass of each cell."""
        return self._array("beta", "N")

    @property
    def beta_se(self) -> np.ndarray:
        """[N] standard errors of beta."""
        return self._array("beta_se", "N")

    @property
    def trace(self) -> np.ndarray:
        """A structured array, a row per iteration."""
        rows = c.c_size_t()
        kinds = [(name, np.int64 if kind is c.c_size_t else float) for name, kind, *_ in _layout.wvgd_trace_row._fields_]
        with self._lock:
            pointer = core.wvgd_trace(self._pointer, c.byref(rows))
            values = [tuple(getattr(pointer[i], name) for name, _ in kinds) for i in range(rows.value)]
        return np.array(values, dtype=kinds)

    # ---- the posterior as a distribution -----------------------------------------------------------------------------
    def draws(self, n: int = 4000, seed: int = 1, source: str = "posterior") -> np.ndarray:
        """n draws with equal weights, [n][quantities].

        source "posterior": closing draws, resampled by their importance weights. "ensemble": from the approximation,
        the particles with their truncated Gaussians. The same seed gives the same draws.

        >>> import wvgd
        >>> fit = wvgd.fit(lambda z: -0.5 * (z**2).sum(axis=1), dim=2, names=["a", "b"])
        >>> fit.draws(1000).shape, fit["b"].shape, sorted(dict(fit))
        ((1000, 2), (4000,), ['a', 'b'])
        """
        self._ended("draws")
        if source not in ("posterior", "ensemble"):
            raise ValueError(f"source is {source!r}: expected 'posterior' or 'ensemble'")
        return self._draws(count(n, "n"), stream(seed), source)

    def _draws(self, n: int, seed: int, source: str) -> np.ndarray:
        z = np.empty((n, self.dim))
        function = core.wvgd_resample if source == "posterior" else core.wvgd_sample
        self._call(function, self._pointer, seed, n, address(z), None)
        return z

    def posterior(self) -> Tuple[np.ndarray, np.ndarray]:
        """The closing draws [n][quantities] and their log weights [n], which sum to 1 as weights."""
        self._ended("posterior")
        return self._quantities()

    def log_q(self, z: Any) -> np.ndarray:
        """Log density of the ensemble at points z [n][dim]: [n]."""
        self._ended("log_q")
        return self._ensemble(self._points(z))

    def _ensemble(self, points: np.ndarray) -> np.ndarray:
        log_q = np.empty(len(points))
        self._call(core.wvgd_log_q, self._pointer, len(points), address(points), address(log_q))
        return log_q

    def cell(self, z: Any) -> np.ndarray:
        """The particle, from 0, whose cell each of the points z [n][dim] is in: [n]."""
        self._ended("cell")
        points = finite(self._points(z), "z")
        cell = np.empty(len(points), dtype=np.uintp)
        self._call(core.wvgd_cell, self._pointer, len(points), address(points), address(cell))
        return cell.astype(np.int64)

    def _points(self, z: Any) -> np.ndarray:
        points = real_array(z, "z")
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ValueError(f"z has shape {points.shape}: expected (n, {self.dim})")
        return points

    def keys(self) -> List[str]:
        """The names of the quantities: dict(fit) has their draws."""
        return list(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, name: str) -> np.ndarray:
        """Draws of one quantity: draws()[:, i]."""
        if name not in self.names:
            raise KeyError(f"{name}: there is no such quantity; there are {', '.join(self.names)}")
        return self.draws()[:, self.names.index(name)]

    @property
    def modes(self) -> List[Mode]:
        """The modes that were found, the heaviest first.

        >>> import numpy as np, wvgd
        >>> fit = wvgd.fit(lambda z: np.logaddexp(-0.5 * (z[:, 0] - 5) ** 2, np.log(3) - 0.5 * (z[:, 0] + 5) ** 2), dim=1)
        >>> [(round(mode.mass, 2), round(float(mode.mean[0]))) for mode in fit.modes]
        [(0.75, -5), (0.25, 5)]
        """
        self._ended("modes")
        found = max(1, self._view().modes)
        z, log_w = self._closing()
        values = self._quantities()[0]
        mode = np.empty(len(z), dtype=np.uintp)
        self._call(core.wvgd_mode, self._pointer, len(z), address(z), address(mode))
        inside = np.ascontiguousarray(mode[:, None] == np.arange(found), dtype=float)
        mass, var, se = np.empty(found), np.empty(found), np.empty(found)
        self._call(core.wvgd_expect, self._pointer, found, address(inside), address(mass), address(var), address(se))
        weight = np.exp(log_w)
        modes = [
            _mode(mass[k], se[k], values[mode == k], weight[mode == k])
            for k in range(found)
            if weight[mode == k].sum() > 0
        ]
        return sorted(modes, key=lambda m: -m.mass)

    def describe(self, values: Any, levels: Sequence[float] = LEVELS) -> Dict[str, np.ndarray]:
        """Posterior of functions of the parameters, from their values [n][m] at the points of posterior().

        Means, sds, quantiles [m][levels] and their standard errors; the mixture and the gradients serve as control
        variates, so that they are sharper than averages over draws.

        >>> import wvgd
        >>> fit = wvgd.fit(lambda z: -0.5 * (z**2).sum(axis=1), dim=2)
        >>> z, log_weight = fit.posterior()
        >>> found = fit.describe((z**2).sum(axis=1), levels=(0.1, 0.9))  # of a chi-square with two degrees of freedom
        >>> [round(float(found[name][0])) for name in ("mean", "sd")], found["quantile"].shape
        ([2, 2], (1, 2))
        """
        self._ended("describe")
        n = self._view().closing_draws
        value = real_array(values, "values")
        value = value[:, None] if value.ndim == 1 else value
        if value.ndim != 2 or len(value) != n:
            raise ValueError(f"values has shape {value.shape}: expected ({n}, m), a row per closing draw")
        value = np.ascontiguousarray(value)
        level = np.atleast_1d(real_array(levels, "levels"))
        if level.ndim != 1 or not ((level > 0) & (level < 1)).all():
            raise ValueError(f"levels is {levels!r}: expected numbers between 0 and 1")
        m = value.shape[1]
        parts: Dict[str, np.ndarray] = {name: np.empty(m) for name in ("mean", "var", "mcse", "sd_se", "tail_k")}
        parts.update({name: np.empty((m, len(level))) for name in ("quantile", "quantile_se")})
        to = _layout.wvgd_description(**{name: address(array) for name, array in parts.items()})
        self._call(core.wvgd_describe, self._pointer, m, address(value), len(level), address(level), c.byref(to))
        parts["sd"] = np.sqrt(parts.pop("var"))
        return parts

    # ---- texts -------------------------------------------------------------------------------------------------------
    def summary(self) -> Summary:
        """A row per quantity: mean, its standard error, sd, quantiles; and the verdict. Print it."""
        self._ended("summary")
        found = self.describe(self._quantities()[0])
        columns = {"mean": found["mean"], "mcse": found["mcse"], "sd": found["sd"]}
        columns.update({f"{100 * level:g}%": found["quantile"][:, k] for k, level in enumerate(LEVELS)})
        others = {name: found[name] for name in ("sd_se", "tail_k")}
        others.update({f"{100 * level:g}% se": found["quantile_se"][:, k] for k, level in enumerate(LEVELS)})
        marked = [bool(k > self._view().tail_k_limit) for k in found["tail_k"]]
        return Summary(list(self.names), columns, self.verdict, self.reasons + self.warnings, others, marked)

    def _bend_map(self) -> Dict[str, Any]:
        """The map to bent coordinates, {"map": ...}, piece by piece as in run.json; empty without one."""
        bend, line, row = _layout.wvgd_bend_map(), _layout.wvgd_bend_line(), _layout.wvgd_bend_row()
        with self._lock:
            if not core.wvgd_get_bend(self._pointer, c.byref(bend)):
                return {}
            others = bend.D - bend.arguments

            def line_at(i: int) -> Optional[Dict[str, Any]]:
                core.wvgd_get_bend_line(self._pointer, i, c.byref(line))
                if not line.knots:
                    return None
                values = {"value": line.value[: line.knots], "second": line.second[: line.knots]}
                return {"low": line.low, "high": line.high, **values}

            def row_at(layer: int, i: int) -> Dict[str, Any]:
                core.wvgd_get_bend_row(self._pointer, layer, i, c.byref(row))
                n = row.parents
                return {
                    "parents": [parent + 1 for parent in row.parent[:n]],
                    "precision": [numbers[: 1 + n] for numbers in row.precision],
                    "location": [numbers[: 1 + 2 * n] for numbers in row.location],
                }

            def affine() -> Optional[Dict[str, Any]]:
                found = _layout.wvgd_bend_affine()
                if not core.wvgd_get_bend_affine(self._pointer, c.byref(found)) or not found.slice:
                    return None
                slices = copied(found.slice, 1 + 2 * found.parents, others, others + 1).tolist()
                parents = [parent + 1 for parent in found.parent[: found.parents]]
                return {"parents": parents, "reach": found.reach, "slices": slices}

            def layer_at(k: int) -> Dict[str, Any]:
                turn = core.wvgd_bend_turn(self._pointer, k)
                basis = {"turn": copied(turn, others, others).tolist()} if turn else {}
                return {**basis, "rows": [row_at(k, i) for i in range(others)]}

            found = {
                "lines": [line_at(i) for i in range(bend.D)],
                "arguments": [row_at(0, i) for i in range(bend.arguments)],
                "affine": affine(),
                "layers": [layer_at(k) for k in range(1, bend.layers + 1)],
                "centre": bend.centre[: bend.D],
                "basis": copied(bend.basis, bend.D, bend.D).tolist(),
                "clip": bend.clip,
                "log_scale": bend.log_scale,
            }
        return {"map": found}

    def to_dict(self) -> Dict[str, Any]:
        """The results as plain numbers, lists and texts, by the keys of run.json (docs/formats.md)."""
        view = self._view()
        found = self.describe(self._quantities()[0]) if self.done else {}
        bend = {
            "arguments": view.bend_arguments,
            "maps": view.bend_maps,
            "evaluations": view.bend_evaluations,
            "particles": "bent" if view.bent else "straight",
            "components": "bent" if view.bent_components else "straight",
            **self._bend_map(),
        }
        pair = lambda estimate: {"value": estimate.value, "se": estimate.se}  # noqa: E731
        return {
            "model": {"dim": self.dim, "names": list(self.names)},
            "stop": self.stop,
            "iterations": view.iterations,
            "evaluations": self.evaluations,
            "bad_points": view.bad_points,
            "zero_points": view.zero_points,
            "evidence": {
                "pelbo": pair(view.pelbo),
                "pelbo_beta": pair(view.pelbo_beta),
                "importance": pair(view.evidence),
            },
            "distortion": pair(view.distortion),
            "diagnostics": {"ess": view.ess, "pareto_k": view.pareto_k, "warnings": self.warnings},
            "certificate": {"walks": view.walks, "outside": view.walks_outside, "evaluations": view.walks_evaluations},
            "finish": {
                "result": (view.finish or b"none").decode(),
                "chains": view.finish_chains,
                "trajectories": view.finish_trajectories,
                "states": view.finish_states,
                "rungs": view.finish_rungs,
                "evaluations": view.finish_evaluations,
                "acceptance": view.finish_acceptance,
                "jumps": view.finish_jumps,
                "mean_se": view.finish_mean_se,
                "sd_se": view.finish_sd_se,
                "rhat": view.finish_rhat,
                "drift": view.finish_drift,
                "autocorrelation": view.finish_tau,
                "missing": view.finish_missing,
            },
            **({"bend": bend} if view.bend_maps else {}),
            "verdict": {"reliable": self.reliable, "reasons": self.reasons},
            "modes": {"starts": view.starts, "found": view.modes, "hit_once": view.hit_once},
            "particles": [
                {"z": z.tolist(), "beta": float(beta), "beta_se": float(se)}
                for z, beta, se in zip(self.particles, self.beta, self.beta_se)
            ],
            "posterior": {"names": list(self.names), **{name: array.tolist() for name, array in found.items()}},
        }

    def to_pandas(self, n: int = 4000, seed: int = 1) -> Any:
        """draws(n, seed) as a pandas.DataFrame, which needs pandas."""
        import pandas

        return pandas.DataFrame(self.draws(n, seed), columns=self.names)

    def _groups(self, n: int, seed: int) -> Dict[str, Dict[str, np.ndarray]]:
        drawn, value = self._resampled(n, seed), self.draws(n, seed)
        coordinates = self.names if len(self.names) == self.dim else [f"z.{i + 1}" for i in range(self.dim)]
        return {
            "posterior": {name: value[None, :, i] for i, name in enumerate(self.names)},
            "unconstrained_posterior": {name: drawn.z[None, :, i] for i, name in enumerate(coordinates)},
            "sample_stats": {
                "lp": drawn.log_p[None],
                "lp_approx": self._ensemble(drawn.z)[None],
                "log_weight": drawn.log_weight[None],
                "cell": drawn.cell[None],
            },
        }

    def to_arviz(self, n: int = 4000, seed: int = 1) -> Any:
        """draws(n, seed), one chain with equal weights, in ArviZ's groups: an object of arviz if that is installed, else
        a dict of groups, each a dict of arrays [1][n].

        posterior; sample_stats with lp (log density of the coordinates), lp_approx (of the ensemble), log_weight (that
        the draw had) and cell; unconstrained_posterior; with a prior also log_prior and log_likelihood.
        """
        self._ended("to_arviz")
        groups = self._groups(count(n, "n"), stream(seed))
        try:
            import arviz
        except ImportError:
            return groups
        if hasattr(arviz, "InferenceData"):
            return arviz.InferenceData(**{name: arviz.dict_to_dataset(group) for name, group in groups.items()})
        return arviz.from_dict(groups)

    # ---- pictures ----------------------------------------------------------------------------------------------------
    def plot_corner(self, names: Optional[Sequence[str]] = None, n: int = 4000, seed: int = 1) -> Any:
        """Draws of every quantity and every pair: a figure of matplotlib."""
        return self._plots("plot_corner").corner(self, names, count(n, "n"), seed)

    def plot_forest(self, names: Optional[Sequence[str]] = None) -> Any:
        """Medians, 50 % and 90 % intervals of the quantities."""
        return self._plots("plot_forest").forest(self, names)

    def plot_cells(self, names: Optional[Sequence[str]] = None, n: int = 4000, seed: int = 1) -> Any:
        """Draws of one or two quantities, coloured by cell, and the particles, by their mass."""
        return self._plots("plot_cells").cells(self, names, count(n, "n"), seed)

    def plot_trace(self) -> Any:
        """The lower bound over the iterations."""
        return self._plots("plot_trace").trace(self)

    def _plots(self, what: str) -> Any:
        from . import _plots

        self._ended(what)
        return _plots

    def __repr__(self) -> str:
        dim = f"{self.dim} dimension{'s' if self.dim > 1 else ''}"
        if not self.done:
            return f"<not finished: wvgd fit of {dim}, {self.evaluations} evaluations>"
        n = len(self.reasons)
        many = f" ({n} reason{'s' * (n > 1)})" if not self.reliable else ""
        value, se = (f"{x:.4f}" if not 1e9 < abs(x) < math.inf else f"{x:.6g}" for x in (self.log_evidence, self.log_evidence_se))
        return f"<{self.verdict}{many}: log evidence {value} +- {se}, {dim}, {self.evaluations} evaluations, {self.stop}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>{self.summary()._repr_html_() if self.done else ''}"


def _mode(mass: float, se: float, points: np.ndarray, weight: np.ndarray) -> Mode:
    weight = weight / weight.sum()
    mean = weight @ points
    sd = np.sqrt(np.maximum(weight @ (points - mean) ** 2, 0))
    return Mode(float(mass), float(se) if math.isfinite(se) else float("nan"), mean, sd, points, weight)
