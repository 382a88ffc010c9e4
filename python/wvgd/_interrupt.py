"""Ctrl-C while a fit runs: the first ends it with the best result so far, the second is a KeyboardInterrupt."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any, Callable

AGAIN = 2.0  # seconds in which a Ctrl-C is the second one, though the first has ended another fit
_last = -AGAIN  # when a first one came
MESSAGE = b"\nwvgd: interrupted: ending with the results so far (Ctrl-C again: give up)\n"


class Interrupt:
    """with Interrupt(stop, inside): the first Ctrl-C calls stop.

    Python calls a signal handler only between its own instructions, so not before C code returns. But a byte for each
    signal comes through a pipe at once (signal.set_wakeup_fd), and a thread that reads it calls stop.
    The second Ctrl-C raises KeyboardInterrupt at once if inside() says that a function of the user's is under way, else, where
    C code runs that no exception may leave, in the end. It may also come in the next fit, so that a loop over short fits can
    be left. Elsewhere than in the main thread, or with a handler of your own, Ctrl-C is as ever.
    """

    def __init__(self, stop: Callable[[], None], inside: Callable[[], bool]) -> None:
        self.stop, self.inside = stop, inside
        self.handled = self.heard = 0  # signals, by the handler and by the thread
        self.earlier = 0  # those that another fit has had just before
        self.first = threading.Lock()  # whoever takes it is the first
        self.process = os.getpid()
        self.before: Any = None  # the handler there was

    @property
    def count(self) -> int:
        """How often Ctrl-C was pressed. (Python joins signals that come before it calls the handler.)"""
        return self.earlier + max(self.handled, self.heard)

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self.out, self.into = os.pipe()
                os.set_blocking(self.into, False)
                self.watcher = threading.Thread(target=self._watch, name="wvgd-interrupt", daemon=True)
                try:
                    self.watcher.start()
                except BaseException:  # there is no memory for a thread
                    os.close(self.into)
                    os.close(self.out)
                    raise
                self.before = signal.signal(signal.SIGINT, self._handle)
                self.others = signal.set_wakeup_fd(self.into, warn_on_full_buffer=False)
        return self

    def _begin(self) -> None:
        global _last
        if self.first.acquire(blocking=False):
            now = time.monotonic()
            self.earlier, _last = int(now - _last < AGAIN), now
            self.stop()
            os.write(2, MESSAGE)

    def _watch(self) -> None:
        """Reads numbers of signals until a 0 comes."""
        while True:
            number = os.read(self.out, 1)
            if number in (b"\0", b""):
                return
            if number[0] == signal.SIGINT:
                self.heard += 1
                self._begin()
            if self.others >= 0:  # an event loop that wants to hear of signals, too
                try:
                    os.write(self.others, number)
                except OSError:
                    pass

    def _handle(self, number: int, frame: Any) -> None:
        if os.getpid() != self.process:  # forked meanwhile
            raise KeyboardInterrupt
        self._begin()
        self.handled += 1
        if self.earlier + self.handled > 1 and self.inside():
            raise KeyboardInterrupt

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self.before is None:
            return
        signal.set_wakeup_fd(self.others)
        os.write(self.into, b"\0")  # not only closed: a child of the user's may have it open
        self.watcher.join()
        os.close(self.into)
        os.close(self.out)
        signal.signal(signal.SIGINT, self.before)
        if self.count > 1 and kind is None:
            raise KeyboardInterrupt
