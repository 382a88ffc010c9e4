"""posterior.py - what the peers in Python share: the rows of data/cancer.csv as logistic regression sees them, the posterior's log density in numpy, errors against the reference, and the
output. Weights are N(0, 1); features are standardised (n - 1), a column of ones comes last."""
import json
import os
import resource
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def read_rows(path):
    """X' = (1 - 2 y) x, so that the log likelihood is -sum log(1 + exp(X' w))."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1]
    sd = X.std(axis=0, ddof=1)
    X = np.where(sd > 0, (X - X.mean(axis=0)) / np.where(sd > 0, sd, 1.0), 0.0)
    X = np.column_stack([X, np.ones(len(X))])
    return X * (1.0 - 2.0 * y)[:, None]


class Posterior:
    """log p~ and its gradient at points w [n][D]; counts points and time."""

    def __init__(self, path):
        self.X = read_rows(path)
        self.D = self.X.shape[1]
        self.evaluations = 0
        self.seconds = 0.0

    def __call__(self, w):
        began = time.perf_counter()
        s = w @ self.X.T
        t = np.exp(-np.abs(s))
        log_p = -(np.maximum(s, 0.0) + np.log1p(t)).sum(axis=1) - 0.5 * (w * w).sum(axis=1) - 0.5 * self.D * np.log(2 * np.pi)
        grad = -(np.where(s > 0, 1.0, t) / (1.0 + t)) @ self.X - w
        self.evaluations += len(w)
        self.seconds += time.perf_counter() - began
        return log_p, grad


def reference():
    with open(os.path.join(HERE, "..", "reference", "cancer.json")) as file:
        r = json.load(file)
    return np.array(r["mean"]), np.array(r["sd"])


def errors(mean, sd):
    """The largest error of a mean in posterior sds, and of a log sd."""
    m, s = reference()
    return float(np.max(np.abs(mean - m) / s)), float(np.max(np.abs(np.log(sd / s))))


def tell(**result):
    result["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    json.dump(result, sys.stdout)
    print()
