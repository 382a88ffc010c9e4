#!/usr/bin/env python3
"""fewer_directions.py [STARTS]: do gradients from fewer values pay in the search for modes? Needs numpy.

BFGS ascents on targets like those of bench/nogradient, from starts three times as wide as the target; evaluations until
the gain that is left, g' H^-1 g / 2 by exact derivatives, is below 0.05 nats; medians, and the share of starts from which
it comes within 200 (2 D + 1) values. All differences are central, all kinds share line search and updates:

    all       2 D values at each point
    one side  D values at each point
    reuse 2   all directions at every second point; between, g + B s with the matrix B of BFGS (Broyden's reuse), and the
              slope along the step s measured (2 values); all directions again where a step fails
    reuse 4   the same at every fourth point
    quarter   D / 4 random directions at each point (D / 2 values) and the step's; the others from g + B s
    half      the same with D / 2 directions
"""
import sys

import numpy as np

rng = np.random.default_rng(1)


def gaussian(D, condition, seed):
    r = np.random.default_rng(seed)
    q = np.linalg.qr(r.standard_normal((D, D)))[0]
    p = q @ np.diag(np.logspace(0, np.log10(condition), D)) @ q.T
    return D, lambda x: -0.5 * ((x @ p) * x).sum(1)


def mixture(D, K, apart, seed):
    r = np.random.default_rng(seed)
    mean = apart * r.standard_normal((K, D)) / np.sqrt(2)
    sd = np.exp(0.5 * r.standard_normal((K, D)))

    def f(x):
        parts = -0.5 * (((x[:, None] - mean) / sd) ** 2).sum(2) - np.log(sd).sum(1)
        top = parts.max(axis=1)
        return top + np.log(np.exp(parts - top[:, None]).sum(1))

    return D, f


def rosenbrock(D):
    return D, lambda x: -(10 * (x[:, 1::2] - x[:, ::2] ** 2) ** 2 + (1 - x[:, ::2]) ** 2).sum(1) / 2


def banana(D, b, s):
    return D, lambda x: -0.5 * (x[:, 0] ** 2 / 4 + ((x[:, 1:] - b * (x[:, :1] ** 2 - 4) / 4) ** 2).sum(1) / s)


def log_gamma(D):
    return D, lambda x: (2 * x - np.exp(np.minimum(x, 700))).sum(1)


def student(D):
    return D, lambda x: -0.5 * (5 + D) * np.log1p((x**2 * np.logspace(0, 2, D)).sum(1) / 5)


TARGETS = {
    "Gaussian, condition 100": gaussian(2, 1e2, 3), "Gaussian, condition 1e8": gaussian(10, 1e8, 4),
    "Gaussian, condition 1e4": gaussian(30, 1e4, 5), "mixture of 3": mixture(2, 3, 4, 7), "3 modes": mixture(5, 3, 10, 8),
    "2 modes": mixture(15, 2, 10, 8), "Rosenbrock": rosenbrock(2), "Rosenbrock, two pairs": rosenbrock(4),
    "banana, 3": banana(3, 2, 0.3), "banana, 20": banana(20, 2, 0.1), "log-gamma": log_gamma(8), "Student-t": student(4),
}  # fmt: skip

REUSE = {"reuse 2": 2, "reuse 4": 4}  # points from one full gradient to the next


class Counted:
    def __init__(self, f):
        self.f, self.n = f, 0

    def __call__(self, x):
        self.n += len(x)
        return self.f(x)


def slopes(f, x, directions, scale, one_side=False, at=None):
    """Differences of f along the rows of directions."""
    h = scale * (1e-7 if one_side else 1e-5)
    if one_side:
        return (f(x + h * directions) - at) / h
    return (f(x + h * directions) - f(x - h * directions)) / (2 * h)


def left(f, x):
    """The gain that is left, by a quadratic at x; infinite where it has no top. Its values are not counted."""
    D, h, e = len(x), 1e-4, np.eye(len(x))
    g = slopes(f, x, e, 1.0)
    pairs = [x + h * (a * e[:, None] + b * e) for a in (1, -1) for b in (1, -1)]
    H = sum(c * f(p.reshape(-1, D)).reshape(D, D) for c, p in zip((1, -1, -1, 1), pairs)) / (4 * h * h)
    w, v = np.linalg.eigh((H + H.T) / 2)
    return np.inf if w.max() >= 0 else -0.5 * ((v.T @ g) ** 2 / w).sum()


def bfgs(B, s, y):
    if not s @ y > 1e-12 * np.linalg.norm(s) * np.linalg.norm(y):
        return B
    Bs = B @ s
    return B + np.outer(y, y) / (s @ y) - np.outer(Bs, Bs) / (s @ Bs)


def ascend(f, x, kind, most):
    D = len(x)
    e, B = np.eye(D), np.eye(D)  # B: of -f
    value = f(x[None])[0]
    g = slopes(f, x, e, 1.0, kind == "one side", value)
    fresh, failures, steps = True, 0, 0
    whole = x, g  # the last point whose whole gradient is known
    B *= max(np.abs(g).max(), 1e-3)
    while f.n < most:
        try:
            step = np.linalg.solve(B, g)
        except np.linalg.LinAlgError:
            B = e * max(np.abs(g).max(), 1e-3)
            step = np.linalg.solve(B, g)
        t, gain = 1.0, g @ step
        if gain < 2 and left(f.f, x) < 0.05:
            return True
        for _ in range(12):
            new = f((x + t * step)[None])[0]
            if gain > 0 and np.isfinite(new) and new > value + 1e-4 * t * gain:
                break
            t /= 4
        else:
            failures += 1
            if failures > 20:
                return False
            if fresh:
                B = e * max(np.abs(g).max(), 1e-3) * 10.0**failures
            else:
                g, fresh = slopes(f, x, e, 1.0), True
                B, whole = bfgs(B, x - whole[0], whole[1] - g), (x, g)
            continue
        s = t * step
        x, value, failures, steps = x + s, new, 0, steps + 1
        if kind in ("all", "one side") or (kind in REUSE and steps % REUSE[kind] == 0):
            told, fresh = slopes(f, x, e, 1.0, kind == "one side", value), True
            B = bfgs(B, x - whole[0], whole[1] - told)
            whole = x, told
        else:
            told, fresh = g - B @ s, False  # what BFGS expects
            some = {"quarter": -(-D // 4), "half": -(-D // 2)}.get(kind, 0)
            v = np.linalg.qr(np.column_stack([s, rng.standard_normal((D, some))]))[0].T[: min(D, some + 1)]
            told = told + (slopes(f, x, v, 1.0) - v @ told) @ v
            B = bfgs(B, s, g - told)
        g = told
    return False


def main():
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    kinds = ("all", "one side", *REUSE, "quarter", "half")
    print(f"{'target':<26}{'D':>3}" + "".join(f"{kind:>16}" for kind in kinds))
    np.seterr(all="ignore")
    for name, (D, f) in TARGETS.items():
        spread = 10.0 if "modes" in name or "mixture" in name else 3.0
        begin = spread * np.random.default_rng(9).standard_normal((starts, D))
        row = ""
        for kind in kinds:
            took, came = [], 0
            for x in begin:
                counted = Counted(f)
                came += ascend(counted, x, kind, 200 * (2 * D + 1))
                took.append(counted.n)
            row += f"{np.median(took):>9.0f} ({came / starts:4.0%})"
        print(f"{name:<26}{D:>3}{row}", flush=True)


main()
