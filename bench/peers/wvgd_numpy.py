"""wvgd_numpy.py - the staged solver in plain numpy, as one would write it first: the same stages with the same numbers of starts, draws, restarts and steps, vectorised over points, for one
mode (which is what logistic regression has).

    wvgd_numpy.py DATA.csv [--particles N] [--evaluations E] [--seed S]

E: evaluations in all; the closing draws take what the stages before have left. Prints one line of JSON."""
import argparse
import sys
import time

import numpy as np
from posterior import Posterior, errors, tell

STARTS, HISTORY, PATH = 17, 30, 300
RESTARTS, ROUNDS, MIXTURE, FREE = 24, 40, 8192, 4096
STEPS, MASSES, BOUND, BOUND_CELL = 30, 10, 100, 16


# ---- Gaussians -----------------------------------------------------------------------------------------------------------------------
def whiten(x, mu, L):
    return np.linalg.solve(L, (x - mu).T).T


def log_normal(x, mu, L):
    v = whiten(x, mu, L)
    return -0.5 * (v * v).sum(axis=1) - np.log(np.diag(L)).sum() - 0.5 * len(mu) * np.log(2 * np.pi)


def log_t(x, mu, L, nu):
    from math import lgamma
    D, v = len(mu), whiten(x, mu, L)
    return (lgamma((nu + D) / 2) - lgamma(nu / 2) - 0.5 * D * np.log(nu * np.pi) - np.log(np.diag(L)).sum()
            - 0.5 * (nu + D) * np.log1p((v * v).sum(axis=1) / nu))


def mirrored(rng, n, D):
    e = rng.standard_normal(((n + 1) // 2, D))
    return np.concatenate([e, -e])[:n]


def orthogonal(rng, D):
    """2 D draws that span every direction, in mirrored pairs."""
    e = np.linalg.qr(rng.standard_normal((D, D)))[0] * np.sqrt(rng.chisquare(D, D))[:, None]
    return np.concatenate([e, -e])


def log_sum(l, axis):
    top = l.max(axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.exp(l - top).sum(axis=axis))


# ---- explore: ascents in lock step -------------------------------------------------------------------------------------------------------
def directions(g, S, Y):
    """L-BFGS, for all paths at once: S, Y are lists of [paths][D]."""
    q, saved = g.copy(), []
    for s, y in zip(reversed(S), reversed(Y)):
        sy = (s * y).sum(axis=1)
        a = np.where(sy > 0, (s * q).sum(axis=1) / np.where(sy > 0, sy, 1), 0)
        saved.append((a, sy))
        q -= a[:, None] * y
    if S:
        sy, yy = (S[-1] * Y[-1]).sum(axis=1), (Y[-1] * Y[-1]).sum(axis=1)
        q *= np.where(sy > 0, sy / np.where(yy > 0, yy, 1), 1)[:, None]
    else:
        q /= np.maximum(np.linalg.norm(q, axis=1), 1)[:, None]
    for s, y, (a, sy) in zip(S, Y, reversed(saved)):
        b = np.where(sy > 0, (y * q).sum(axis=1) / np.where(sy > 0, sy, 1), 0)
        q += np.where(sy > 0, a - b, 0)[:, None] * s
    return q


def ascend(p, x, known):
    """Ends of ascents from x [paths][D]; a path that comes into the bulk of the known mode is cut."""
    log_p, g = p(x)
    S, Y, slow, live = [], [], np.zeros(len(x), int), np.ones(len(x), bool)
    for _ in range(PATH):
        step = directions(g, S, Y)
        slope, length, todo = (g * step).sum(axis=1), np.ones(len(x)), live.copy()
        new_x, new_p, new_g = x.copy(), log_p.copy(), g.copy()
        for _ in range(25):
            if not todo.any():
                break
            trial = x[todo] + length[todo, None] * step[todo]
            l, gt = p(trial)
            good = l >= log_p[todo] + 1e-4 * length[todo] * slope[todo]
            at = np.flatnonzero(todo)
            new_x[at[good]], new_p[at[good]], new_g[at[good]] = trial[good], l[good], gt[good]
            length[at[~good]] *= 0.5
            todo[at[good]] = False
        S, Y = (S + [new_x - x])[-HISTORY:], (Y + [g - new_g])[-HISTORY:]
        slow = np.where(new_p - log_p < 1e-3, slow + 1, 0)
        x, log_p, g = new_x, new_p, new_g
        live &= slow < 3
        if known is not None:
            v = whiten(x, *known)
            live &= (v * v).sum(axis=1) > p.D + 3 * np.sqrt(2 * p.D)
        if not live.any():
            break
    return x, S, Y


def inverse_hessian(S, Y):
    C = None
    for s, y in zip(S, Y):
        s, y = s[0], y[0]
        if s @ y <= 0:
            continue
        if C is None:
            C = np.eye(len(s)) * (s @ y) / (y @ y)
        r, Cy = 1 / (s @ y), C @ y
        C = C + r * (1 + r * (y @ Cy)) * np.outer(s, s) - r * (np.outer(s, Cy) + np.outer(Cy, s))
    return C


# ---- fit: natural gradient steps by regression of gradients --------------------------------------------------------------------------------
def fit(p, rng, mu, L):
    D, before, calm = len(mu), -np.inf, 0
    for _ in range(60):
        e = orthogonal(rng, D)
        x = mu + e @ L.T
        log_p, g = p(x)
        elbo = log_p - log_normal(x, mu, L)
        slope = g @ L                                                       # gradients in whitened coordinates
        C = e.T @ e / len(e)
        A = -np.linalg.solve(C, e.T @ slope / len(e))
        A = 0.5 * (A + A.T)                                                 # precision, in units of the current one
        values, vectors = np.linalg.eigh(A)
        values = np.clip(values, 0.25, 4.0)
        mu = mu + L @ (vectors @ ((vectors.T @ slope.mean(axis=0)) / values))
        L = np.linalg.cholesky(L @ (vectors / values) @ vectors.T @ L.T)
        calm = calm + 1 if abs(elbo.mean() - before) < 0.01 + elbo.std() / np.sqrt(len(e)) else 0
        before = elbo.mean()
        if calm >= 3:
            break
    return mu, L


# ---- close: importance weights, evidence, moments ------------------------------------------------------------------------------------------
def close(p, rng, mu, L, n):
    """Draws, normalised log weights, the log density of the proposal; mean, variance, log evidence."""
    D = len(mu)
    shares = np.array([0.72, 0.18, 0.1])                                     # the Gaussian, its t with 3 degrees of freedom, a wide t
    counts = (2 * np.ceil(shares * n / 2)).astype(int)
    counts[0] -= counts.sum() - n
    x = []
    for count, nu, scale in zip(counts, (0, 3, 3), (1, 1, 2)):
        e = mirrored(rng, count, D)
        if nu:
            e = e / np.sqrt(rng.chisquare(nu, (count + 1) // 2) / nu)[np.arange(count) % ((count + 1) // 2), None]
        x.append(mu + scale * e @ L.T)
    x = np.concatenate(x)
    log_q = np.stack([log_normal(x, mu, L), log_t(x, mu, L, 3), log_t(x, mu, 2 * L, 3)])
    log_m = log_sum(log_q + np.log(counts / n)[:, None], 0)
    log_p, g = p(x)
    log_w = log_p - log_m
    top = log_w.max()
    w = np.exp(log_w - top)
    control = np.exp(log_q[:2] - log_m)                                      # of mean 1
    design = np.column_stack([np.ones(n), (control - 1).T])
    evidence = top + np.log(np.linalg.lstsq(design, w, rcond=None)[0][0])
    w /= w.sum()
    C, mean = L @ L.T, w @ x
    for _ in range(3):                                                       # Stein's identities E[C g] = 0, E[(x - m) (C g)] = -diag C
        Cg = g @ C
        h = np.column_stack([Cg, (x - mean) * Cg + np.diag(C)])
        b = w @ h
        tilted = w * (1 - (h - b) @ np.linalg.lstsq((h - b).T @ ((h - b) * w[:, None]), b, rcond=None)[0])
        mean = tilted @ x
    var = tilted @ (x - mean) ** 2
    return x, log_p, g, w, log_m, mean, var, evidence


# ---- cells: weighted Lloyd, then a truncated component in each -----------------------------------------------------------------------------
def nearest(v, c):
    return ((v * v).sum(axis=1)[:, None] - 2 * v @ c.T + (c * c).sum(axis=1)).argmin(axis=1)


def lloyd(rng, v, w, N):
    best = (np.inf, None)
    for _ in range(RESTARTS):
        c = v[rng.choice(len(v), N, replace=False, p=w)]
        for _ in range(ROUNDS):
            cell = nearest(v, c)
            one = np.zeros((len(v), N))
            one[np.arange(len(v)), cell] = w
            mass = one.sum(axis=0)
            moved = np.where(mass[:, None] > 0, one.T @ v / np.maximum(mass, 1e-300)[:, None], c)
            still = np.abs(moved - c).max() < 1e-4
            c = moved
            if still:
                break
        cost = (w * ((v - c[nearest(v, c)]) ** 2).sum(axis=1)).sum()
        if cost < best[0]:
            best = (cost, c)
    return best[1]


def fit_cell(rng, v, log_m, inside, w, j, c):
    """The component of cell j, in whitened coordinates where the mixture is N(0, I): steps of the regression of log m and its gradient on free draws of it."""
    D = v.shape[1]
    mine = inside == j
    wj = w[mine] / w[mine].sum()
    mu = wj @ v[mine]
    S = (v[mine] - mu).T @ ((v[mine] - mu) * wj[:, None]) + 1e-6 * np.eye(D)
    for _ in range(STEPS):
        L = np.linalg.cholesky(S)
        x = mu + mirrored(rng, FREE, D) @ L.T
        x = x[nearest(x, c) == j]
        if len(x) < 4 * D:
            break
        m = x.mean(axis=0)
        e, g = x - m, -x                                                     # gradient of log N(0, I)
        A = -np.linalg.solve(e.T @ e / len(x) + 1e-6 * np.eye(D), e.T @ g / len(x))
        values, vectors = np.linalg.eigh(0.5 * (A + A.T))
        values = np.clip(values, 0.05, 20.0)
        S = (vectors / values) @ vectors.T
        mu = 0.5 * mu + 0.5 * (m + S @ g.mean(axis=0))
    return mu, np.linalg.cholesky(S)


def quantise(p, rng, mu, L, x, w, log_m, N):
    """Particles, masses, and the bound, with fresh draws of each component inside its cell."""
    D = len(mu)
    v, free = whiten(x, mu, L), mirrored(rng, MIXTURE, D)
    c = lloyd(rng, np.concatenate([v, free]), np.concatenate([0.5 * np.maximum(w, 0) / np.maximum(w, 0).sum(), np.full(MIXTURE, 0.5 / MIXTURE)]), N)
    inside = nearest(v, c)
    beta = np.bincount(inside, weights=w, minlength=N)
    elbo = np.full(N, -np.inf)
    for j in range(N):
        if beta[j] <= 0:
            continue
        m, S = fit_cell(rng, v, log_m, inside, np.maximum(w, 1e-300), j, c)
        drawn = np.concatenate([m + mirrored(rng, FREE, D) @ S.T for _ in range(MASSES)])
        kept = drawn[nearest(drawn, c) == j]
        if not len(kept):
            continue
        fresh = mu + kept[:BOUND // N + BOUND_CELL] @ L.T
        log_p, _ = p(fresh)
        elbo[j] = np.mean(log_p - log_normal(kept[:len(fresh)], m, S)) + np.log(np.diag(L)).sum() + np.log(len(kept) / len(drawn))
    return mu + c @ L.T, beta, float(log_sum(elbo, 0))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("data")
    a.add_argument("--particles", type=int, default=5)
    a.add_argument("--evaluations", type=int, default=5000)
    a.add_argument("--seed", type=int, default=1)
    a = a.parse_args()
    p, rng = Posterior(a.data), np.random.default_rng(a.seed)
    began = time.perf_counter()
    x, S, Y = ascend(p, rng.standard_normal((1, p.D)), None)
    mu, L = fit(p, rng, x[0], np.linalg.cholesky(inverse_hessian(S, Y)))
    others = mu + 2 * rng.standard_normal((STARTS - 1, p.D)) * np.sqrt((L * L).sum(axis=1)) * 2 ** rng.uniform(1, 4, (STARTS - 1, 1))
    ascend(p, others, (mu, L))
    left = a.evaluations - p.evaluations - BOUND - a.particles * BOUND_CELL
    x, _, _, w, log_m, mean, var, evidence = close(p, rng, mu, L, max(left, 400))
    z, beta, pelbo = quantise(p, rng, mu, L, x, w, log_m, a.particles)
    seconds = time.perf_counter() - began
    mean_error, sd_error = errors(mean, np.sqrt(var))
    tell(name="wvgd in numpy", seconds=seconds, model_seconds=p.seconds, evaluations=p.evaluations, mean_error=mean_error, sd_error=sd_error, evidence=evidence, pelbo=pelbo,
         masses=beta.tolist(), version="numpy " + np.__version__)


if __name__ == "__main__":
    sys.exit(main())
