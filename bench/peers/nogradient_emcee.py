#!/usr/bin/env python3
"""nogradient_emcee.py NOGRADIENT [SEED] [SECONDS]: emcee beside wvgd, on the classics of bench/nogradient.

NOGRADIENT is build/bench/nogradient (target bench_nogradient); both samplers call the same density. emcee has 4 D
walkers (32 at least) that start from the prior, and stops when its chain is 50 autocorrelation times long, or after
SECONDS (30). Columns: evaluations and verdict of wvgd; evaluations of emcee, effective draws, whether the chain was
long enough, and the largest difference between the two means, in sds. emcee gives no evidence.
"""
import subprocess
import sys
import time

import emcee
import numpy as np


class Density:
    """Log densities of a classic, by a process that answers points."""

    def __init__(self, program, name):
        self.process = subprocess.Popen([program, "density", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.count = 0

    def __call__(self, z):
        z = np.ascontiguousarray(np.atleast_2d(z), dtype=float)
        self.count += len(z)
        self.process.stdin.write(np.uint64(len(z)).tobytes() + z.tobytes())
        self.process.stdin.flush()
        return np.frombuffer(self.process.stdout.read(8 * len(z)))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def fit(program, name, seed):
    run = subprocess.run([program, "one", name, "--first", str(seed)], check=True, capture_output=True, text=True)
    head, *rows = run.stdout.splitlines()
    size, evaluations, reliable = map(int, head.split())
    mean, sd = np.array([row.split() for row in rows], dtype=float).T
    return size, evaluations, bool(reliable), mean, sd


def sample(density, size, seed, seconds):
    walkers, end = max(32, 4 * size), time.monotonic() + seconds
    np.random.seed(seed)
    sampler = emcee.EnsembleSampler(walkers, size, density, vectorize=True)
    state, enough, tau = np.random.standard_normal((walkers, size)), False, np.inf
    while not enough and time.monotonic() < end:
        state = sampler.run_mcmc(state, 500)
        tau = np.max(sampler.get_autocorr_time(tol=0))
        enough = sampler.iteration > 50 * tau
    chain = sampler.get_chain(discard=sampler.iteration // 4, flat=True)
    return enough, len(chain) / tau, chain.mean(axis=0)


def main():
    program, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 401
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 30
    print("%-14s %3s %10s %-13s %10s %10s %-8s %s"
          % ("classic", "D", "wvgd", "verdict", "emcee", "effective", "enough", "means apart, sds"))
    for name in "egg box", "log-gamma", "two shells", "spectral line", "correlated":
        size, evaluations, reliable, mean, sd = fit(program, name, seed)
        density = Density(program, name)
        enough, effective, other = sample(density, size, seed, seconds)
        density.close()
        print("%-14s %3d %10d %-13s %10d %10.0f %-8s %.2f"
              % (name, size, evaluations, "reliable" if reliable else "not reliable", density.count, effective,
                 "yes" if enough else "no", np.max(np.abs(other - mean) / sd)), flush=True)


if __name__ == "__main__":
    main()
