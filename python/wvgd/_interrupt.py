"""Ctrl-C while a fit runs: the first ends it with the best result so far, the second is a KeyboardInterrupt."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any, Callable


class Interrupt:
    """with Interrupt(stop, inside): the first Ctrl-C calls stop.

    The second raises KeyboardInterrupt at once if inside() says that a function of the user's is under way, else, where
    C code runs that no exception may leave, in the end. Elsewhere than in the main thread, or with a handler of your own, Ctrl-C is as ever.
    """

    def __init__(self, stop: Callable[[], None], inside: Callable[[], bool]) -> None:
        self.stop, self.inside = stop, inside
        self.count = 0
        self.before: Any = None  # the handler there was

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self.before = signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number: int, frame: Any) -> None:
        self.count += 1
        if self.count == 1:
            self.stop()
            os.write(2, b"\nwvgd: interrupted: ending with the results so far (Ctrl-C again: give up)\n")
        elif self.inside():
            raise KeyboardInterrupt

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)
        if self.count > 1 and kind is None:
            raise KeyboardInterrupt
