"""Gradients by differences, for densities that have none.

They stand between the fit and the one who answers: `ask` gives every point with its neighbours z +- h e_i, in one batch,
and `tell` makes gradients of the answers. This is work for the Python layer only until the library does it itself.

The step. A central difference errs by h^2 f'''/6 and by e |f| / h, where e is the precision of the answers. With s the
scale on which the log density changes, f''' is about |f''| / s, and f'' is 1 / s^2: the best step is (3 e |f|)^(1/3) s.
The second differences of the same answers give f'', and so the s of each coordinate: the first points are asked
one at a time until s agrees with the answers, and later batches correct it. A step is never smaller than the
coordinate itself can resolve.

At a wall, where one neighbour has no density, the difference is taken on the other side.
Every point that is asked counts as an evaluation.
"""

from __future__ import annotations

import numpy as np

FLOOR = 1e3  # smallest step, in units of the precision of the coordinate
CHANGE = 100.0  # by which the scale of a coordinate may change at once
AGREES = 10.0  # a scale is known when it changes by less
ROUNDS = 12  # in which it should be


class Differences:
    """Neighbours of points and gradients from their answers."""

    def __init__(self, dim: int, scale: float) -> None:
        self.dim = dim
        self.scale = np.full(dim, float(scale))  # [dim] s of each coordinate
        self.precision = float(np.finfo(float).eps)  # of the answers
        self.size = 1.0  # typical |f|
        self.rounds = ROUNDS  # left to find the scales
        self.point = 0  # of the first batch, at which they are looked for
        self.ends = np.empty((0, 2, dim))  # [n][2][dim] coordinate dim of both neighbours

    def calibrating(self, n: int) -> bool:
        """Whether the scales are still looked for, in a first batch of n points."""
        return self.rounds > 0 and self.point < n

    def around(self, z: np.ndarray) -> np.ndarray:
        """The points z [n][dim] and their neighbours: [n (1 + 2 dim)][dim], point by point."""
        n, dim = z.shape
        step = np.cbrt(3 * self.precision * self.size) * self.scale
        step = np.maximum(step, FLOOR * self.precision * np.abs(z))
        self.ends = np.stack([z + step, z - step], axis=1)
        every = np.repeat(z[:, None, :], 1 + 2 * dim, axis=1)
        index = np.arange(dim)
        every[:, 1 + 2 * index, index] = self.ends[:, 0]
        every[:, 2 + 2 * index, index] = self.ends[:, 1]
        return every.reshape(-1, dim)

    def gradients(self, z: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """[n][dim] from the answers at around(z); corrects the scales."""
        n, dim = z.shape
        f = answers.reshape(n, 1 + 2 * dim)
        here, up, down = f[:, :1], f[:, 1::2], f[:, 2::2]
        above, below = self.ends[:, 0] - z, z - self.ends[:, 1]
        with np.errstate(all="ignore"):
            central = (up - down) / (above + below)
            forward, backward = (up - here) / above, (here - down) / below
            curvature = (forward - backward) / (0.5 * (above + below))
        known_up, known_down = np.isfinite(up), np.isfinite(down)
        gradient = np.where(known_up & known_down, central, np.where(known_up, forward, backward))
        gradient[~(np.isfinite(gradient) & np.isfinite(here))] = 0
        self._learn(here[:, 0], curvature, above)
        return gradient

    def calibrated(self, answers: np.ndarray, z: np.ndarray) -> None:
        """Takes the answers at around(z), one point, in the search for the scales."""
        if not np.isfinite(answers[0]):
            self.point += 1  # no density here: another one
            return
        before = self.scale.copy()
        self.gradients(z, answers)
        change = np.max(np.maximum(self.scale / before, before / self.scale))
        self.rounds = 0 if change < AGREES else self.rounds - 1

    def _learn(self, f: np.ndarray, curvature: np.ndarray, step: np.ndarray) -> None:
        finite = np.isfinite(f)
        if not finite.any():
            return
        self.size = max(1.0, float(np.median(np.abs(f[finite]))))
        # A curvature below its rounding error says only that the scale is larger.
        noise = 4 * self.precision * self.size / step**2
        seen = np.where(np.isfinite(curvature), np.maximum(np.abs(curvature), noise), np.nan)[finite]
        for i in range(self.dim):
            values = seen[:, i][np.isfinite(seen[:, i])]
            if values.size:
                scale = 1 / np.sqrt(np.median(values))
                self.scale[i] = np.clip(scale, self.scale[i] / CHANGE, self.scale[i] * CHANGE)
