#!/usr/bin/env python3
"""nested_targets.py [--seeds N] [--first S] [--emcee EVALUATIONS]: five targets that nested samplers are shown with, by
wvgd from Python: a likelihood without gradients and a prior. The table of docs/python.md.

    PYTHONPATH=python bench/nested_targets.py --seeds 5 --first 901 --emcee 200000

Truths are closed forms or sums over grids. Columns: evaluations (mean over seeds), largest error of the log evidence and
the standard errors reported, largest error of a mean in sds, modes found and true, reliable fits. With --emcee also
emcee (Debian package python3-emcee): 4 D walkers, 32 at least, from the prior, until the chain has 50 autocorrelation
times or so many evaluations; its first quarter is left out.
"""
import argparse
import math

import numpy as np
import wvgd

LOG_2PI = math.log(2 * math.pi)


def lse(x):
    top = np.max(x)
    return float(top + np.log(np.exp(x - top).sum()))


class Target:
    """names and ranges of uniform priors, a log likelihood of a dict, and the number of modes."""

    def __init__(self, name, ranges, log_likelihood, modes, truth=None, grid=2001):
        self.name, self.ranges, self.f, self.modes, self.grid = name, ranges, log_likelihood, modes, grid
        self.prior = wvgd.Prior(**{key: wvgd.uniform(*range_) for key, range_ in ranges.items()})
        self.log_z, self.mean, self.sd = truth or self.sum()

    def sum(self):
        """Log evidence, means and sds by the midpoint rule, one slab of the first parameter at a time."""
        n = self.grid
        axes = [low + (high - low) * (np.arange(n) + 0.5) / n for low, high in self.ranges.values()]
        others = [a.ravel() for a in np.meshgrid(*axes[1:], indexing="ij")]
        logs, means = [], []
        for x in axes[0]:
            values = self.f(dict(zip(self.ranges, [np.full(others[0].shape, x), *others])))
            total = lse(values)
            weight = np.exp(values - total)
            logs.append(total)
            means.append([[x, *[weight @ a for a in others]], [x * x, *[weight @ a**2 for a in others]]])
        total = lse(np.array(logs))
        first, second = np.tensordot(np.exp(np.array(logs) - total), np.array(means), axes=1)
        return total - len(axes) * math.log(n), first, np.sqrt(second - first**2)


def eggbox(q):
    return (2 + np.cos(q["x"] / 2) * np.cos(q["y"] / 2)) ** 5


def shells(q):
    def one(centre):
        r = np.hypot(q["x"] - centre, q["y"])
        return -0.5 * ((r - 2) / 0.1) ** 2 - 0.5 * LOG_2PI - math.log(0.1)

    return np.logaddexp(one(-3.5), one(3.5))


def rosenbrock(q):
    return -100 * (q["y"] - q["x"] ** 2) ** 2 - (1 - q["x"]) ** 2


def log_gamma(x, at):
    """Log of a gamma(1) variable, moved."""
    return (x - at) - np.exp(np.minimum(x - at, 700))


def gauss(x, at):
    return -0.5 * (x - at) ** 2 - 0.5 * LOG_2PI


def log_gamma_10(q):
    x = list(q.values())
    value = np.logaddexp(log_gamma(x[0], -10), log_gamma(x[0], 10)) - math.log(2)
    value = value + np.logaddexp(gauss(x[1], -10), gauss(x[1], 10)) - math.log(2)
    return value + sum(log_gamma(x[i], 10) for i in range(2, 6)) + sum(gauss(x[i], 10) for i in range(6, 10))


def log_gamma_truth():
    euler, spread = 0.5772156649015329, math.pi / math.sqrt(6)  # mean -euler and sd of the log of an exponential
    mean = [-euler, 0, *[10 - euler] * 4, *[10] * 4]
    sd = [math.sqrt(100 + spread**2), math.sqrt(101), *[spread] * 4, *[1] * 4]
    return -10 * math.log(60), np.array(mean), np.array(sd)


def line_likelihood():
    """A line of known shape on noise of sd 1: 120 channels, a line of height 4 and width 2 at 37."""
    channel, rng = np.arange(120.0), np.random.default_rng(5)
    y = 4 * np.exp(-0.5 * ((channel - 37) / 2) ** 2) + rng.standard_normal(120)

    def f(q):
        model = q["height"][:, None] * np.exp(-0.5 * ((channel - q["centre"][:, None]) / q["width"][:, None]) ** 2)
        return (y * model - 0.5 * model**2).sum(axis=1) - 0.5 * (y**2).sum()

    return f


def targets():
    box = {"x": (0, 10 * math.pi), "y": (0, 10 * math.pi)}
    yield Target("egg box", box, eggbox, 18)
    yield Target("LogGamma, 10-D", {f"x{i}": (-30, 30) for i in range(10)}, log_gamma_10, 4, log_gamma_truth())
    yield Target("Gaussian shells, 2-D", {"x": (-6, 6), "y": (-6, 6)}, shells, 2)
    yield Target("Rosenbrock, 2-D", {"x": (-5, 5), "y": (-5, 5)}, rosenbrock, 1)
    line = {"centre": (0, 120), "height": (0, 10), "width": (0.5, 5)}
    yield Target("spectral line, 3-D", line, line_likelihood(), 1, grid=241)


def by_wvgd(target, seeds):
    fits = [wvgd.fit(target.f, prior=target.prior, seed=seed, progress=False) for seed in seeds]
    errors = [fit.log_evidence - target.log_z for fit in fits]
    se = [fit.log_evidence_se for fit in fits]
    apart = max(np.max(np.abs(fit.mean - target.mean) / target.sd) for fit in fits)
    counts = [len([m for m in fit.modes if m.mass > 1e-3]) for fit in fits]
    print(
        f"| {target.name} | {np.mean([fit.evaluations for fit in fits]):,.0f} | {target.log_z:.3f} | "
        f"{max(map(abs, errors)):.3f} | {min(se):.3f} to {max(se):.3f} | {apart:.2f} | "
        f"{', '.join(sorted({str(n) for n in counts}))} of {target.modes} | {sum(fit.reliable for fit in fits)} of {len(fits)} |",
        flush=True,
    )


def by_emcee(target, seed, most):
    import emcee

    np.random.seed(seed)
    low, high = np.array(list(target.ranges.values())).T
    dim, walkers, count = len(low), max(32, 4 * len(low)), 0

    def density(z):
        nonlocal count
        count += len(z)
        inside = ((z > low) & (z < high)).all(axis=1)
        value = target.f(dict(zip(target.ranges, np.clip(z, low, high).T)))
        return np.where(inside, value, -np.inf)

    sampler = emcee.EnsembleSampler(walkers, dim, density, vectorize=True)
    state, enough, tau = np.random.uniform(low, high, (walkers, dim)), False, math.inf
    while not enough and count < most:
        state = sampler.run_mcmc(state, 250)
        tau = float(np.max(sampler.get_autocorr_time(tol=0)))
        enough = sampler.iteration > 50 * tau
    chain = sampler.get_chain(discard=sampler.iteration // 4, flat=True)
    apart = np.max(np.abs(chain.mean(axis=0) - target.mean) / target.sd)
    print(f"| {target.name} | {count:,} | {len(chain) / tau:.0f} | {'yes' if enough else 'no'} | {apart:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--emcee", type=int, default=0)
    given = parser.parse_args()
    every = list(targets())
    print("| target | evaluations | log evidence | largest error | standard errors | means off, sds | modes | reliable |")
    for target in every:
        by_wvgd(target, range(given.first, given.first + given.seeds))
    if given.emcee:
        print("\n| target | evaluations of emcee | effective draws | chain long enough | means off, sds |")
        for target in every:
            by_emcee(target, given.first, given.emcee)


if __name__ == "__main__":
    main()
