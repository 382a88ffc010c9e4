"""interrupted.py N: N fits, each interrupted (SIGINT) at a random moment. Ctrl-C ends a fit with what there is; a second one
raises KeyboardInterrupt. Whatever comes, the next fit is right."""

import os
import random
import resource
import signal
import sys
import threading
import time

import numpy as np
import wvgd
from wvgd import _interrupt


def density(z):
    return -0.5 * (z**2).sum(axis=1), -z


def slower(z):
    time.sleep(0.0005)
    return density(z)


def interrupt(begun, done, wait, times):
    begun.wait()
    for _ in range(times):
        if not done.wait(wait):
            os.kill(os.getpid(), signal.SIGINT)


def one_fit(begun, done):
    try:
        begun.set()
        fit = wvgd.fit(slower, dim=3)
        done.set()
        assert fit.done and np.isfinite(fit.mean).all()
        return fit.stop
    except KeyboardInterrupt:
        return "raised"
    except wvgd.ModelError as error:  # stopped before there was anything
        assert "stopped" in str(error) or "draw" in str(error), error
        return "stopped"
    finally:
        done.set()


def settle(thread):
    """Waits until no interrupt can come any more."""
    for _ in range(3):
        try:
            thread.join()
            time.sleep(0.001)
        except KeyboardInterrupt:
            pass


def main(times):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _interrupt.AGAIN = 0

    random.seed(1)
    alone = wvgd.fit(density, dim=3).mean.tolist()
    begin = time.perf_counter()
    wvgd.fit(slower, dim=3)
    lasts, seen = time.perf_counter() - begin, {"stopped": 0, "converged": 0, "raised": 0}
    memory = 0
    for k in range(times):
        begun, done = threading.Event(), threading.Event()
        thread = threading.Thread(target=interrupt, args=(begun, done, random.uniform(0, lasts), 2 if k % 3 == 2 else 1))
        thread.start()
        try:
            seen[one_fit(begun, done)] += 1
            settle(thread)
        except KeyboardInterrupt:  # came when the fit had ended
            seen["raised"] += 1
            done.set()
            settle(thread)
        assert wvgd.fit(density, dim=3).mean.tolist() == alone
        if k == times // 2:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    assert grown < 8000, f"{grown} KB more"
    print(f"{times} interrupts: {seen}")


main(int(sys.argv[1]))
