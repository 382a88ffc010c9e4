#!/usr/bin/env python3
"""python_overhead.py [FITS]: what Python and the engine take beside the function. A logistic regression on data/cancer.csv
(569 rows, 31 weights), density and gradient by numpy: CPU time of a fit, of it inside the function, and the limit,
1.3 times that plus 20 ms. CPU time of one thread, since other work on the machine does not change it much. Then the
memory of 1,000 fits in one process.

    OPENBLAS_NUM_THREADS=1 PYTHONPATH=python bench/python_overhead.py 30
"""
import resource
import sys
import time
from pathlib import Path

import numpy as np
import wvgd

table = np.genfromtxt(Path(__file__).resolve().parents[1] / "data" / "cancer.csv", delimiter=",", skip_header=1)
y, X = table[:, -1], table[:, :-1]
X = np.hstack([(X - X.mean(axis=0)) / X.std(axis=0, ddof=1), np.ones((len(X), 1))])
inside = 0.0


def log_density(w):
    global inside
    begin = time.thread_time()
    eta = w @ X.T
    e = np.exp(-np.abs(eta))
    log_p = (y * eta - np.maximum(eta, 0) - np.log1p(e)).sum(axis=1) - 0.5 * (w * w).sum(axis=1) - 15.5 * np.log(2 * np.pi)
    gradient = (y - np.where(eta >= 0, 1, e) / (1 + e)) @ X - w
    inside += time.thread_time() - begin
    return log_p, gradient


def normal(z):
    return -0.5 * (z**2).sum(axis=1), -z


def main():
    global inside
    rows = []
    for seed in range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 10)):
        inside, begin = 0.0, time.thread_time()
        fit = wvgd.fit(log_density, dim=31, seed=seed, threads=1)
        rows.append((time.thread_time() - begin, inside, fit.evaluations))
    total, within, evaluations = np.median(np.array(rows), axis=0)
    worst = sum(row[0] > 1.3 * row[1] + 0.02 for row in rows)
    print(f"{total * 1e3:.1f} ms a fit, {within * 1e3:.1f} ms in numpy, limit {1300 * within + 20:.1f} ms: medians of {len(rows)} seeds; "
          f"{worst} above the limit; {evaluations:.0f} evaluations")  # fmt: skip
    for k in range(1100):
        if k == 100:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wvgd.fit(normal, dim=3, seed=k)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"1000 fits: {after - before} KB more than {before} KB")


main()
