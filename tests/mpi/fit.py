"""fit.py WHAT: wvgd.fit on all ranks of MPI. Rank 0 prints what each rank has found: one line, the same for any number of
ranks. WHAT: gradient, differences, prior; raise, exit (the function fails, or calls sys.exit, on the last rank), arguments."""

import hashlib
import sys

import numpy as np
from mpi4py import MPI

import wvgd

comm = MPI.COMM_WORLD
what = sys.argv[1]
precision = np.array([[2.0, 0.5], [0.5, 1.0]])


def with_gradient(z):
    return -0.5 * np.einsum("ni,ij,nj->n", z, precision, z), -z @ precision


def without_gradient(z):
    return with_gradient(z)[0]


def likelihood(parameters):
    return 7 * np.log(parameters["p"]) + 3 * np.log1p(-parameters["p"])


class Odd(Exception):
    """An exception that pickle cannot make again."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def fails(z):
    if comm.rank == comm.size - 1 and len(z) > 1:
        raise Odd("no density", comm.rank)
    return with_gradient(z)


def leaves(z):
    if comm.rank == comm.size - 1 and len(z) > 1:
        sys.exit(3)
    return with_gradient(z)


def shown(fit):
    content = [fit.draws(200), fit.mean, fit.sd, fit.particles]
    text = repr((fit.log_evidence, fit.evaluations, fit.verdict, fit.stop, str(fit.summary())))
    return hashlib.sha256(b"".join(part.tobytes() for part in content) + text.encode()).hexdigest()


def refused(error, **arguments):
    try:
        wvgd.fit(**arguments)
    except error as said:
        return str(said)
    raise SystemExit(f"not refused: {arguments}")


if what in ("raise", "exit"):
    said = comm.gather(refused(wvgd.ModelError, model=fails if what == "raise" else leaves, dim=2, comm=comm))
    if comm.rank == 0:
        assert len(set(said)) == 1, said
        print(said[0])
    sys.exit()
if what == "arguments":
    said = [
        refused(TypeError, model=with_gradient, dim=2, comm=3),
        refused(wvgd.ArgumentError, model=with_gradient, dim=2, comm=comm, workers=2),
        refused(wvgd.ArgumentError, model="logistic", data="none.csv", comm=comm),
        refused(wvgd.ArgumentError, model=with_gradient, dim=2, comm=comm, no_such_option=1),
    ]
    if comm.rank == 0:
        print("\n".join(said))
    sys.exit()
fits = {
    "gradient": lambda: wvgd.fit(with_gradient, dim=2, particles=3, comm=comm),
    "differences": lambda: wvgd.fit(without_gradient, dim=2, comm=comm),
    "prior": lambda: wvgd.fit(likelihood, prior=wvgd.Prior(p=wvgd.uniform(0, 1)), comm=comm),
}
fit = fits[what]()
truth = {"gradient": np.log(2 * np.pi / np.sqrt(1.75)), "prior": -np.log(1320.0)}  # p^7 (1 - p)^3: B(8, 4) = 1 / 1320
truth["differences"] = truth["gradient"]
assert abs(fit.log_evidence - truth[what]) < 5 * fit.log_evidence_se + 1e-3, fit.log_evidence
found = comm.gather(shown(fit))
if comm.rank == 0:
    assert len(set(found)) == 1, found
    print(found[0])
