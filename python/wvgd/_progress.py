"""Progress of a fit: a line in terminals and notebooks, or a function of the user's."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Union

from . import _layout
from ._results import Progress

Shown = Union[None, bool, Callable[[Progress], Any]]


def _is_notebook() -> bool:
    return "ipykernel" in sys.modules


class Reporter:
    """progress None: a line if stderr is a terminal or a notebook; True, False: always, never; or a function, which is
    called with a Progress after every batch."""

    def __init__(self, progress: Shown) -> None:
        self.function = progress if callable(progress) else None
        if not (self.function or progress is None or isinstance(progress, bool)):
            raise TypeError(f"progress is {progress!r}: expected True, False, None or a function")
        wanted = progress if isinstance(progress, bool) else sys.stderr is not None and (sys.stderr.isatty() or _is_notebook())
        self.line = bool(wanted) and not self.function
        self.shown_at = time.monotonic()
        self.width = 0

    @property
    def wanted(self) -> bool:
        """Whether anybody looks at it."""
        return bool(self.function or self.line)

    def update(self, progress: _layout.wvgd_progress, evaluations: int) -> None:
        now = Progress(progress.stage.decode(), progress.iteration, evaluations, progress.pelbo, progress.ess)
        if self.function:
            self.function(now)
        elif time.monotonic() - self.shown_at > 0.2:
            self.shown_at = time.monotonic()
            self._show(f"{now.stage}: iteration {now.iteration}, {now.evaluations} evaluations, PELBO {now.pelbo:.4g}")

    def _show(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)

    def end(self) -> None:
        if self.width:
            self._show("")
            sys.stderr.write("\r")
            sys.stderr.flush()
