"""Finds and loads libwvgd and libwvgd-tools, and calls them.

The libraries are looked for in the directory that WVGD_LIBRARY_DIR names, beside this package, in the tree that it
lies in (a build, an installation), and then where the system looks.

Both use BLAS on small matrices. A BLAS with threads makes that slower, and results then depend on their number. So
OpenBLAS has one thread while a call is under way, and as many as before afterwards: numpy in your function keeps its
threads.
"""

from __future__ import annotations

import ctypes as c
import os
import sysconfig
import threading
from pathlib import Path
from typing import Any, Iterable, Iterator, List, Optional

import numpy as np

from . import _layout
from ._errors import error_of

HERE = Path(__file__).resolve().parent


def _places() -> Iterator[Path]:
    named = os.environ.get("WVGD_LIBRARY_DIR")
    if named:
        yield Path(named)
        return
    yield HERE / "lib"
    for parent in list(HERE.parents)[:5]:
        if (parent / "include" / "wvgd_tools.h").exists() and (parent / "CMakeLists.txt").exists():
            yield parent / "build"
        yield parent / "lib"
        yield parent / "lib" / str(sysconfig.get_config_var("MULTIARCH"))
        yield parent / "lib64"


BUNDLE = HERE / "lib" / "libwvgd-bundle.so"  # of a wheel: both libraries in one, with a BLAS of its own


def _load(name: str, functions: dict) -> c.CDLL:
    found = [place / name for place in _places() if (place / name).exists()]
    if BUNDLE.exists() and not os.environ.get("WVGD_LIBRARY_DIR"):
        found = [BUNDLE]
    try:
        library = c.CDLL(str(found[0]) if found else name)
    except OSError as error:
        raise ImportError(
            f"cannot load {name}: {error}. Build wvgd (make), or set WVGD_LIBRARY_DIR to the directory that has it"
        ) from None
    if found == [BUNDLE]:
        library.wvgd_bundle_begin()
    for function, (result, arguments) in functions.items():
        call = getattr(library, function)
        call.restype, call.argtypes = result, arguments
    return library


core = _load("libwvgd.so.0", _layout.CORE)
_tools: Optional[c.CDLL] = None


def tools() -> c.CDLL:
    """libwvgd-tools, loaded when it is first needed."""
    global _tools
    if _tools is None:
        _tools = _load("libwvgd-tools.so.0", _layout.TOOLS)
    return _tools


def directories() -> List[Path]:
    """Where the libraries were looked for, in order."""
    return list(_places())


class _OneThread:
    """with one_thread: BLAS has one thread, whoever else is inside."""

    def __init__(self) -> None:
        try:
            self.get: Any = core.openblas_get_num_threads
            self.set: Any = core.openblas_set_num_threads
            self.get.restype, self.set.restype, self.set.argtypes = c.c_int, None, [c.c_int]
        except AttributeError:  # another BLAS
            self.get = self.set = None
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        self.lock, self.inside, self.before = threading.Lock(), 0, 1

    def __enter__(self) -> None:
        if self.get is None:
            return
        with self.lock:
            if self.inside == 0:
                self.before = self.get()
                if self.before != 1:
                    self.set(1)
            self.inside += 1

    def __exit__(self, *_: Any) -> None:
        if self.get is None:
            return
        with self.lock:
            self.inside -= 1
            if self.inside == 0 and self.before != 1:
                self.set(self.before)


class _AsBefore:
    """with as_before: inside of one_thread, BLAS has its threads again, for a function of the user's."""

    def __enter__(self) -> None:
        one_thread.__exit__()

    def __exit__(self, *_: Any) -> None:
        one_thread.__enter__()


one_thread = _OneThread()
as_before = _AsBefore()


def call(function: Any, *arguments: Any, doing: str = "") -> None:
    """Calls a function that returns a status and takes an error last; raises what the error says."""
    error = _layout.wvgd_error()
    with one_thread:
        status = function(*arguments, c.byref(error))
    if status != 0:
        raise error_of(status, error.text, doing)


def make(function: Any, *arguments: Any, doing: str = "") -> int:
    """The same for a function that returns a pointer, or NULL."""
    error = _layout.wvgd_error()
    with one_thread:
        pointer = function(*arguments, c.byref(error))
    if not pointer:
        raise error_of(error.code, error.text, doing)
    return pointer


def address(array: np.ndarray) -> int:
    """Where the numbers of a C-contiguous array are. (ctypes.cast, and what numpy makes of it, leaves cycles behind;
    array.ctypes is slower.)"""
    return array.__array_interface__["data"][0]


def copied(pointer: Any, *shape: int) -> np.ndarray:
    """A copy of what the library shows; NaN where it shows nothing."""
    array = np.full(shape, np.nan)
    if pointer and array.size:
        c.memmove(address(array), c.addressof(pointer.contents), array.nbytes)
    return array


def texts(pointer: Any, n: int) -> List[str]:
    return [pointer[i].decode("utf-8", "replace") for i in range(n)] if pointer else []


def text_array(values: Iterable[str]) -> Any:
    encoded = [value.encode() for value in values]
    return (c.c_char_p * len(encoded))(*encoded)


def version() -> str:
    """The version of libwvgd that was loaded."""
    return core.wvgd_version().decode()
