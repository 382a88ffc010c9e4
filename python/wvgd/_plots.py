"""Pictures of fits, with matplotlib. Each function returns a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Sequence

import numpy as np

from ._errors import ArgumentError

if TYPE_CHECKING:
    from ._results import Result

MOST = 10  # quantities that a corner shows


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("plots need matplotlib (Debian package python3-matplotlib)") from None
    return pyplot


def _chosen(fit: "Result", names: Optional[Sequence[str]]) -> List[int]:
    wanted = list(fit.names) if names is None else list(names)
    for name in wanted:
        if name not in fit.names:
            raise ArgumentError(f"names has {name!r}: there are {', '.join(fit.names)}")
    return [fit.names.index(name) for name in wanted]


def _bins(draws: np.ndarray) -> int:
    """As many as distinct draws can fill."""
    return int(np.clip(np.sqrt(len(np.unique(draws))), 10, 60))


def _short(name: str, most: int) -> str:
    """A name that does not run into its neighbours."""
    return name if len(name) <= most else name[: most - 1] + "…"


def _titled(fit: "Result", figure: Any) -> Any:
    figure.suptitle(f"{fit.verdict}: log evidence {fit.log_evidence:.3f} ± {fit.log_evidence_se:.3f}", fontsize=10)
    return figure


def corner(fit: "Result", names: Optional[Sequence[str]], n: int, seed: int) -> Any:
    index = _chosen(fit, names)
    if not 0 < len(index) <= MOST:
        raise ArgumentError(f"plot_corner: there are {len(index)} quantities: choose 1 to {MOST} of them by names=")
    pyplot, k = _pyplot(), len(index)
    draws = fit.draws(n, seed)[:, index]
    figure, axes = pyplot.subplots(k, k, figsize=(2 + 1.6 * k, 2 + 1.6 * k), squeeze=False, sharex="col", constrained_layout=True)
    for i in range(k):
        for j in range(k):
            axis = axes[i][j]
            if j > i:
                axis.axis("off")
            elif i == j:
                axis.hist(draws[:, i], bins=_bins(draws[:, i]), color="tab:blue", density=True)
                axis.set_yticks([])
            else:
                axis.hexbin(draws[:, j], draws[:, i], gridsize=35, cmap="Blues", mincnt=1)
                axis.tick_params(labelleft=j == 0)
            if i == k - 1:
                axis.set_xlabel(_short(fit.names[index[j]], 18))
            if j == 0 and i > 0:
                axis.set_ylabel(_short(fit.names[index[i]], 18))
    return _titled(fit, figure)


def forest(fit: "Result", names: Optional[Sequence[str]]) -> Any:
    index = _chosen(fit, names)
    found = fit.describe(fit.posterior()[0][:, index], (0.05, 0.25, 0.5, 0.75, 0.95))["quantile"]
    figure, axis = _pyplot().subplots(figsize=(6, 1.2 + 0.3 * len(index)), constrained_layout=True)
    rows = -np.arange(len(index))
    axis.hlines(rows, found[:, 0], found[:, 4], color="tab:blue", linewidth=1)
    axis.hlines(rows, found[:, 1], found[:, 3], color="tab:blue", linewidth=4)
    axis.plot(found[:, 2], rows, "o", color="white", markeredgecolor="tab:blue")
    axis.set_yticks(rows)
    axis.set_ylim(0.5 - len(index), 0.5)
    axis.set_yticklabels([_short(fit.names[i], 40) for i in index])
    axis.set_xlabel("50 % and 90 % intervals, medians")
    return _titled(fit, figure)


def cells(fit: "Result", names: Optional[Sequence[str]], n: int, seed: int) -> Any:
    index = _chosen(fit, fit.names[:2] if names is None else names)
    if len(index) not in (1, 2):
        raise ArgumentError(f"plot_cells: names has {len(index)} quantities: expected 1 or 2")
    draws, cell = fit.draws(n, seed)[:, index], fit._resampled(n, seed).cell
    figure, axis = _pyplot().subplots(figsize=(6, 5), constrained_layout=True)
    y = draws[:, 1] if len(index) == 2 else np.random.default_rng(seed).uniform(size=n)
    axis.scatter(draws[:, 0], y, c=cell, cmap="tab20", s=4, alpha=0.5)
    if len(fit.names) == fit.particles.shape[1]:
        z = fit.particles[:, index]
        axis.scatter(z[:, 0], z[:, 1] if len(index) == 2 else np.full(len(z), 0.5), s=20 + 400 * fit.beta,
                     facecolor="none", edgecolor="black")  # fmt: skip
    axis.set_xlabel(fit.names[index[0]])
    if len(index) == 2:
        axis.set_ylabel(fit.names[index[1]])
    else:
        axis.set_yticks([])
    return _titled(fit, figure)


def trace(fit: "Result") -> Any:
    rows = fit.trace
    figure, axis = _pyplot().subplots(figsize=(6, 4), constrained_layout=True)
    axis.errorbar(rows["evaluations"], rows["pelbo"], rows["pelbo_se"], color="tab:blue", label="PELBO of an iteration")
    axis.axhline(fit.log_evidence, color="black", linewidth=1, label="log evidence")
    axis.set_xlabel("evaluations")
    axis.legend()
    return _titled(fit, figure)
