"""A density that the processes of an MPI communicator evaluate, for `mpirun -n 4 python script.py`.

Every process calls wvgd.fit with the same arguments. That of rank 0 fits; the others evaluate the points that it sends
them, and in the end get its result. A batch is cut into pieces as for workers, whatever the number of processes is, so
that results do not depend on that number. Only methods of the communicator are used: mpi4py is not imported here.
"""

from __future__ import annotations

import pickle
from typing import Any, Callable, Dict, List

import numpy as np

from ._answer import Answer, joined
from ._errors import ModelError
from ._progress import Shown
from ._run import Run, ended_run, fit_density


def _sendable(error: BaseException) -> Exception:
    """The exception, or, if it cannot be sent, one that says what it said."""
    try:
        if isinstance(error, Exception) and isinstance(pickle.loads(pickle.dumps(error)), type(error)):
            return error
    except Exception:
        pass
    return ModelError(f"{type(error).__name__}: {error}")


def _checked(comm: Any) -> Any:
    missing = [name for name in ("Get_rank", "Get_size", "bcast", "scatter", "gather") if not hasattr(comm, name)]
    if missing:
        raise TypeError(f"comm is {type(comm).__name__}: expected a communicator of mpi4py, such as MPI.COMM_WORLD")
    return comm


def _pieces(z: np.ndarray, piece: int, size: int) -> List[List[np.ndarray]]:
    """z in pieces of so many points, for each of `size` ranks the next ones, as evenly as pieces go."""
    pieces = [z[i : i + piece] for i in range(0, len(z), piece)]
    cuts = [-(-len(pieces) * k // size) for k in range(size + 1)]  # rounded up: few are for rank 0
    return [pieces[cuts[k] : cuts[k + 1]] for k in range(size)]


class Ranks:
    """The function of points z [n][dim], evaluated by all ranks: call it on rank 0 while the others serve."""

    def __init__(self, function: Callable[[np.ndarray], Answer], comm: Any, piece: int) -> None:
        self.function, self.comm, self.piece = function, _checked(comm), piece
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    def _evaluate(self, pieces: List[np.ndarray]) -> Any:
        """Answers for pieces, or an exception that can be sent; and the exception itself, or None. Others wait for an
        answer even if the function has called sys.exit."""
        try:
            return [self.function(z) for z in pieces], None
        except BaseException as error:
            return _sendable(error), error

    def __call__(self, z: np.ndarray) -> Answer:
        mine = self.comm.scatter(_pieces(z, self.piece, self.size), root=0)
        answer, error = self._evaluate(mine)
        parts = self.comm.gather(answer, root=0)
        if isinstance(error, KeyboardInterrupt):
            raise error
        for rank, part in enumerate(parts):
            if isinstance(part, Exception):
                raise ModelError(f"on rank {rank}: {type(part).__name__}: {part}") from part
        return joined([answer for part in parts for answer in part], "the function")

    def serve(self) -> Any:
        """Other ranks: answers until rank 0 has ended; returns what it has sent then."""
        while True:
            mine = self.comm.scatter(None, root=0)
            if not isinstance(mine, list):
                return mine
            self.comm.gather(self._evaluate(mine)[0], root=0)

    def end(self, last: Any) -> None:
        """Rank 0: sends its last word to all."""
        self.comm.scatter([last] * self.size, root=0)


def fit_on_ranks(
    ranks: Ranks, names: List[str], prior: Any, vectorized: bool, progress: Shown, options: Dict[str, Any]
) -> Run:
    """The fit of rank 0, on every rank."""
    if ranks.rank == 0:
        try:
            fit = fit_density(ranks, names, prior, vectorized, progress, options)
            last = fit.ended_state()
        except BaseException as error:
            ranks.end(_sendable(error))
            raise
        ranks.end(last)
        return fit
    last = ranks.serve()
    if isinstance(last, Exception):
        raise last
    return ended_run(ranks.function, names, prior, options, last)
