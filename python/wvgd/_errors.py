"""What can go wrong, as exceptions. All of them are wvgd.Error, and the Python exception that fits."""

from __future__ import annotations

import re
from typing import Union

from . import _layout
from ._layout import CONSTANTS


class Error(Exception):
    """Something that wvgd cannot do. The text names the thing, the value and the rule."""


class ArgumentError(Error, ValueError):
    """An argument or option is out of range, or a call comes too early."""


class DataError(Error, ValueError):
    """A file or table has the wrong content."""


class InputError(Error, FileNotFoundError):
    """A file does not exist or cannot be opened."""


class OutputError(Error, OSError):
    """A file or directory cannot be created, read or written."""


class ModelError(Error, RuntimeError):
    """The model failed, or no draw had a finite density."""


class OutOfMemory(Error, MemoryError):
    """There is not enough memory."""


_KINDS = {
    "WVGD_E_ARGUMENT": ArgumentError,
    "WVGD_E_MEMORY": OutOfMemory,
    "WVGD_E_MODEL": ModelError,
    "WVGD_E_NO_DRAWS": ModelError,
    "WVGD_E_DATA": DataError,
    "WVGD_E_NO_INPUT": InputError,
    "WVGD_E_CREATE": OutputError,
    "WVGD_E_IO": OutputError,
}


# What options are called by the libraries, where that differs: those of a fit, and of the program that Python has, too.
_OTHERS = ("output-draws", "checkpoint-every", "check-gradient", "trust-model", "no-intercept", "prior-sd", "prior-sds", "prior-means")
_HYPHENATED = [name.replace("_", "-") for name, *_ in _layout.wvgd_options._fields_ if "_" in name] + list(_OTHERS)
_OPTION = re.compile(rf"(?<![\w/.\"-])({'|'.join(_HYPHENATED)})(?![\w/.\"-])")


def _in_python(sentence: str) -> str:
    """A sentence with the names that options have here: init_scale for init-scale. (Commands of the program keep theirs.)"""
    return _OPTION.sub(lambda found: found.group(1).replace("-", "_"), sentence)


def error_of(status: int, text: Union[bytes, str], doing: str = "") -> Error:
    """The exception for a status of the library and its sentence."""
    name = next((name for name, value in CONSTANTS.items() if value == status and name.startswith("WVGD_E_")), "")
    sentence = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    said = _in_python(sentence)
    if name == "WVGD_E_MODEL" and re.match("(no|not enough) memory", sentence):  # outside of the fit, as wvgd_tools.h says
        name = "WVGD_E_MEMORY"
    return _KINDS.get(name, Error)(f"{doing}: {said}" if doing else said)


_EXITS = {64: ArgumentError, 65: DataError, 66: InputError, 70: ModelError, 73: OutputError, 74: OutputError}


def error_of_exit(code: int, text: str) -> Error:
    """The exception for an exit code of the program wvgd (sysexits.h), and what it has printed."""
    return _EXITS.get(code, Error)(re.sub("^wvgd: ", "", text, flags=re.M))
