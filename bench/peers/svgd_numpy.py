#!/usr/bin/python3
"""Speed of `wvgd svgd` beside a numpy version of the same algorithm: particles x iterations per second of one core, model included.

    bench/peers/svgd_numpy.py [PROGRAM]        PROGRAM: wvgd, default build/wvgd

The numpy version is written for speed, as ours is: distances from the Gram matrix, one product with [gradient - 2 z/h, 1], the exact median by partition, AdaGrad, float64,
OpenBLAS with one thread, arrays that are used again. The model is a logistic regression with two rows: next to no work. Both do the same number of steps; the time is that of the
processor (so that a busy machine matters less), less that of a run of one step; the best of three counts. Prints a Markdown table; the variances show that both compute the same.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np

CASES = [(50, 2), (100, 5), (100, 50), (500, 5), (500, 50), (2000, 10), (2000, 50)]  # particles, dimensions


def rows(D):
    """X [2][D] and y [2] of the model."""
    return np.vstack([np.linspace(-1, 1, D), np.linspace(1, 0, D)]), np.array([0.0, 1.0])


def svgd(z, steps, X, y, rate=0.5):
    """z [n][D], moved in place by `steps` steps of SVGD."""
    n, D = z.shape
    lower = np.tril_indices(n, -1)
    flat = lower[0] * n + lower[1]
    gram, factor, past = np.empty((n, n)), np.ones((n, D + 1)), np.zeros((n, D))
    for _ in range(steps):
        grad = (y - 1 / (1 + np.exp(-z @ X.T))) @ X - z
        c = z - z.mean(0)
        square = np.einsum("ij,ij->i", c, c)
        np.dot(c, c.T, out=gram)
        gram *= -2
        gram += square[:, None]
        gram += square[None, :]
        np.maximum(gram, 0, out=gram)
        h = np.median(gram.ravel()[flat]) / np.log(n)  # the square of the median distance
        gram *= -1 / h
        np.exp(gram, out=gram)
        factor[:, :D] = grad - 2 / h * c
        total = gram @ factor
        phi = (total[:, :D] + 2 / h * total[:, D:] * c) / n
        past += phi * phi
        z += rate * phi / (np.sqrt(past) + 1e-12)
    return z


def time_numpy(n, D, steps):
    best = np.inf
    for k in range(3):
        z = np.random.default_rng(k).normal(size=(n, D))
        begun = time.process_time()
        svgd(z, steps, *rows(D))
        best = min(best, time.process_time() - begun)
    return best, z.var(0).mean()


def spent():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def time_wvgd(program, n, D, steps, work):
    data, out = os.path.join(work, "data.csv"), os.path.join(work, "run")
    X, y = rows(D)
    with open(data, "w") as f:
        f.write(",".join("x%d" % d for d in range(D)) + ",y\n")
        for x, label in zip(X, y):
            f.write(",".join(repr(float(v)) for v in x) + ",%d\n" % label)

    def run(seed, count):
        before = spent()
        subprocess.run([program, "svgd", "logistic", "--no-intercept", "--data", data, "--particles", str(n), "--init", "normal", "--seed", str(seed), "--tol", "0", "--max-iter", str(count),
                        "--kde-bandwidth", "1", "--threads", "1", "--quiet", "--overwrite", "--out", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return spent() - before

    best = min(run(seed, steps) for seed in range(3)) - min(run(seed, 1) for seed in range(3))
    run(0, steps)
    posterior = json.load(open(os.path.join(out, "run.json")))["posterior"]
    return best, np.mean([sd * sd * (n - 1) / n for sd in posterior["sd"]])


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/wvgd"
    print("| particles | dimensions | steps | wvgd svgd: particles x iterations / s | numpy | ratio | variance, wvgd | numpy |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as work:
        for n, D in CASES:
            steps = max(50, int(5e7 / (n * n + 50 * n)))
            ours, spread = time_wvgd(program, n, D, steps, work)
            theirs, other = time_numpy(n, D, steps)
            print("| %d | %d | %d | %.2g | %.2g | %.1f | %.3f | %.3f |" % (n, D, steps, n * steps / ours, n * steps / theirs, theirs / ours, spread, other), flush=True)


main()
