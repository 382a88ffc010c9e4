#!/usr/bin/python3
"""gp_reference.py - the hyper-posterior of the experiment gp by quadrature, independent of the program (numpy only).

    python3 gp_reference.py simulate SEED > data/gp_simulated.csv
    python3 gp_reference.py search FIRST COUNT             # how the seed was chosen
    python3 gp_reference.py integrate SERIES.csv PRIOR_MEANS PRIOR_SDS [options] > data/gp_..._reference.json

Model: y ~ N(0, A R(f, s) + B I), R_ij = exp(-(t_i - t_j)^2 / (2 s^2)) cos(2 pi f (t_i - t_j)), independent normal priors of log A, log f, log s, log B.
A trapezoidal rule on a grid in these four: with R = U diag(l) U' and c = (U'y)^2 the log likelihood is
    -1/2 sum_i ( log(A l_i + B) + c_i / (A l_i + B) ) - n/2 log 2 pi = -1/2 ( n log A + S1(r) + S2(r) / A ) - ...,   r = B / A,
so that one eigendecomposition serves all A and B, and, with log A and log B on one lattice, S1 and S2 are needed at the differences only.
Interpretations: oscillation where f s > 1 (more than a period within the length scale of the envelope) and A > B (more signal than noise), else smooth or noise.
The rule is done twice, with steps half as large the second time: their difference is the error that is reported (of means: where an interpretation has 1 % of the mass or more)."""
import json
import sys
import numpy as np

NAMES = ["log_A", "log_f", "log_s", "log_B"]


def simulate(seed):
    """A series by a random design: number and times of observations, frequency, length scale and noise; A = 1."""
    rng = np.random.default_rng(seed)
    n = rng.choice([20, 24, 30])
    span = n * rng.choice([0.3, 0.4, 0.5])
    f, s, B = rng.choice([0.8, 1.0, 1.3]), rng.choice([1.0, 2.0, 3.0]), rng.choice([0.05, 0.15, 0.4])
    t = np.sort(np.round(rng.uniform(0, span, n), 2))
    dt = t[:, None] - t
    K = np.exp(-dt**2 / 2 / s**2) * np.cos(2 * np.pi * f * dt) + (B + 1e-10) * np.eye(n)
    y = np.round(np.linalg.cholesky(K) @ rng.standard_normal(n), 3)
    return t, y, {"A": 1.0, "f": float(f), "s": float(s), "B": float(B)}


def spectra(t, y, f, s):
    """Eigenvalues of R [S][n] and squares of y in its eigenvectors [S][n], for one f and all s [S]."""
    dt = t[:, None] - t
    R = np.exp(-dt**2 / (2 * s[:, None, None] ** 2)) * np.cos(2 * np.pi * f * dt)
    l, U = np.linalg.eigh(R)
    return np.maximum(l, 0) + 1e-10, np.einsum("kij,i->kj", U, y) ** 2


def lattice(low, high, step):
    return np.arange(int(np.ceil(low / step)), int(np.floor(high / step)) + 1) * step


def integrate(t, y, mean, sd, box, steps):
    """Mass, mean and sd by interpretation, and the log evidence. box [4][2]: limits; steps: of log A and log B (one lattice), log f, log s."""
    la, lf, ls, lb = (lattice(*box[k], h) for k, h in zip(range(4), (steps[0], steps[1], steps[2], steps[0])))
    n, step = len(t), steps[0]
    shift = np.rint((lb[None, :] - la[:, None]) / step).astype(int)  # of B against A, in steps
    r = np.exp(np.arange(shift.min(), shift.max() + 1) * step)
    prior = [-0.5 * ((g - m) / d) ** 2 - np.log(d) - 0.5 * np.log(2 * np.pi) for g, m, d in zip((la, lf, ls, lb), mean, sd)]
    grid = [la[None, :, None], ls[:, None, None], lb[None, None, :]]
    top, total, sums, squares = -np.inf, np.zeros(2), np.zeros((2, 4)), np.zeros((2, 4))
    for i, x in enumerate(lf):
        l, c = spectra(t, y, np.exp(x), np.exp(ls))
        v = l[:, None, :] + r[:, None]  # [S][r][n]
        S1, S2 = np.log(v).sum(2)[:, shift - shift.min()], (c[:, None, :] / v).sum(2)[:, shift - shift.min()]
        log_p = -0.5 * (n * grid[0] + S1 + S2 * np.exp(-grid[0])) + prior[0][None, :, None] + prior[2][:, None, None] + prior[3][None, None, :]
        log_p += prior[1][i] - 0.5 * n * np.log(2 * np.pi)
        if log_p.max() > top:  # keep everything relative to the highest value so far
            scale = np.exp(top - log_p.max())
            total, sums, squares, top = total * scale, sums * scale, squares * scale, log_p.max()
        p = np.exp(log_p - top)
        oscillates = (x + grid[1] > 0) & (grid[0] > grid[2])
        for k, w in enumerate((p * oscillates, p * ~oscillates)):
            z = (grid[0], np.array(x), grid[1], grid[2])
            total[k] += w.sum()
            sums[k] += [(w * g).sum() for g in z]
            squares[k] += [(w * g * g).sum() for g in z]
    volume = steps[0] ** 2 * steps[1] * steps[2]
    means = sums / total[:, None]
    return {
        "log_evidence": float(top + np.log(total.sum() * volume)),
        "mass": (total / total.sum()).tolist(),
        "mean": means.tolist(),
        "sd": np.sqrt(squares / total[:, None] - means**2).tolist(),
        "points": int(len(la) * len(lf) * len(ls) * len(lb)),
    }


def search(first, count):
    """Series with 20 % to 80 % of the mass in either interpretation, by a coarse rule."""
    mean, sd = np.log([1, 0.1, 2.0, 0.3]), np.array([1, 0.7, 0.5, 1.25])
    for seed in range(first, first + count):
        t, y, truth = simulate(seed)
        r = integrate(t, y, mean, sd, np.stack([mean - 3.5 * sd, mean + 4 * sd], 1), (0.4, 0.02, 0.3))
        if 0.2 < r["mass"][0] < 0.8:
            apart = (r["mean"][1][3] - r["mean"][0][3]) / np.hypot(r["sd"][0][3], r["sd"][1][3])
            print(seed, len(t), truth, "mass of oscillation %.3f, log B apart by %.1f sd" % (r["mass"][0], apart), flush=True)


def main(arguments):
    if arguments[0] == "simulate":
        t, y, _ = simulate(int(arguments[1]))
        print("t,y")
        for row in zip(t, y):
            print("%.2f,%.3f" % row)
    elif arguments[0] == "search":
        search(int(arguments[1]), int(arguments[2]))
    elif arguments[0] == "integrate":
        data = np.loadtxt(arguments[1], delimiter=",", skiprows=1)
        mean, sd = (np.array([float(x) for x in text.split(",")]) for text in arguments[2:4])
        box = np.array([float(x) for x in arguments[4].split(",")]).reshape(4, 2)
        steps = np.array([float(x) for x in arguments[5].split(",")])
        coarse, fine = (integrate(data[:, 0], data[:, 1], mean, sd, box, steps / k) for k in (1, 2))
        counts = np.array(fine["mass"]) > 0.01
        error = {"log_evidence": abs(fine["log_evidence"] - coarse["log_evidence"]), "mass": abs(fine["mass"][0] - coarse["mass"][0]),
                 "mean_in_sd": float(np.max((np.abs(np.array(fine["mean"]) - coarse["mean"]) / fine["sd"])[counts]))}
        print(json.dumps({"note": "made by gp_reference.py integrate", "names": NAMES, "interpretations": ["oscillation", "smooth or noise"],
                          "prior_mean": mean.tolist(), "prior_sd": sd.tolist(), "box": box.tolist(), "steps": (steps / 2).tolist(), **fine, "error": error}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
