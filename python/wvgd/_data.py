"""Arguments: densities' answers, options, arrays and tables, checked; errors name the argument."""

from __future__ import annotations

import csv
import json
import operator
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ._errors import ArgumentError, Error


def real_array(value: Any, name: str) -> np.ndarray:
    """value as a C-contiguous float64 array of the same shape; TypeError if it holds no real numbers."""
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.c_contiguous:
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{name} is a masked array: fill what is masked, as in .filled(-np.inf)")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name} is not an array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {array.dtype}: expected real numbers (float64)")
    return np.asarray(array, dtype=np.float64, order="C")


def shaped(value: Any, shape: Tuple[int, ...], name: str) -> np.ndarray:
    """real_array with exactly this shape."""
    array = real_array(value, name)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}: expected {shape}")
    return array


def finite(array: np.ndarray, name: str) -> np.ndarray:
    """The array; ValueError if an entry is NaN or infinite."""
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        at = ", ".join(str(int(i)) for i in bad[0])
        raise ValueError(f"{name}[{at}] is {array[tuple(bad[0])]}: expected finite numbers")
    return array


def real_number(value: Any, name: str) -> Optional[float]:
    """A number of at least 0, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name} is {value!r}: expected a number")
    if not 0 <= float(value) < np.inf:
        raise ValueError(f"{name} is {value!r}: expected a number of at least 0")
    return float(value)


def count(value: Any, name: str, least: int = 1, most: int = 2**63 - 1) -> int:
    """A whole number between least and most."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}: expected a whole number")
    if number < least:
        raise ValueError(f"{name} is {number}: expected at least {least}")
    if number > most:
        raise ValueError(f"{name} is {number}: expected at most {most}")
    return number


def stream(seed: Any) -> int:
    """The number of a stream of draws."""
    return count(seed, "seed", 0, 2**64 - 1)


def dimensions(dim: Any) -> int:
    """A number of dimensions that a fit can have."""
    return count(dim, "dim", 1, 1000000)


def flag(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r}: expected True or False")
    return bool(value)


def path_text(value: Any, name: str) -> str:
    """The path of a file or directory, as text."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} is {value!r}: expected a path")
    return os.fsdecode(value)


def parameter_names(names: Optional[Sequence[str]], dim: int) -> List[str]:
    """names, or z.1, z.2 ..., as the program calls them."""
    if names is None:
        return [f"z.{i + 1}" for i in range(dim)]
    result = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if len(result) != dim or result == [names]:
        raise ValueError(f"names is {names!r}: expected {dim} of them, one per dimension")
    for i, name in enumerate(result):
        if not isinstance(name, str):
            raise TypeError(f"names[{i}] is {name!r}: expected text")
        if not 0 < len(encoded(name, f"names[{i}]")) < 256:
            raise ValueError(f"names[{i}] is {name[:40]!r}: expected 1 to 255 bytes")
        if any(ord(letter) < 32 for letter in name):
            raise ValueError(f"names[{i}] is {name!r}: expected no control characters")
    double = sorted({name for name in result if result.count(name) > 1})
    if double:
        raise ValueError(f"names has {double[0]!r} more than once")
    return result


def encoded(text: str, name: str) -> bytes:
    """The text in UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is {text!r}: expected text that UTF-8 can hold") from None


def option_text(name: str, value: Any) -> str:
    """The value of an option as the library reads it; round trips."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (str, os.PathLike)):
        text = os.fsdecode(value)
        if "\0" in text:
            raise ValueError(f"{name} is {text!r}: expected text without NUL")
        return text
    if isinstance(value, (list, tuple)):
        return ",".join(option_text(name, part) for part in value)
    raise TypeError(f"option {name} is {value!r}: expected text, a number or True")


# ---- tables ----------------------------------------------------------------------------------------------------------
def _columns(data: Any) -> Dict[str, Any]:
    """Columns by name, of a data frame, a mapping, a structured array or a matrix."""
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):  # pandas, polars
        names = [str(name) for name in data.columns]
        columns = {str(name): data[name] for name in data.columns}
    elif isinstance(data, Mapping):
        names = [str(name) for name in data]
        columns = {str(name): column for name, column in data.items()}
    elif isinstance(data, np.ndarray) and data.dtype.names:
        names = list(data.dtype.names)
        columns = {name: data[name] for name in names}
    else:
        raise TypeError(
            f"data is {type(data).__name__}: expected a file, a data frame, a mapping of names to columns or a structured array"
        )
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise ValueError(f"data has the column {double[0]!r} more than once")
    number = next((name for name in names if re.fullmatch(r"[-+]?[0-9.]+", name)), None)
    if number is not None:
        raise ArgumentError(f"data has a column with the name {number}: expected names, not numbers")
    return columns


def _cells(column: Any, name: str) -> List[str]:
    """A column as the fields of a CSV file: what is missing is empty."""
    _refuse_categories(column, name)
    array = np.ma.asarray(column) if isinstance(column, np.ma.MaskedArray) else np.asarray(column)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}: expected one dimension")
    if array.dtype.kind in "cmV":
        raise TypeError(f"{name} has dtype {array.dtype}: expected numbers, text, True or False")
    if array.dtype.kind == "M":
        array = np.where(np.isnat(array), "", np.datetime_as_string(array.astype("datetime64[s]")))
    if array.dtype.kind == "f":
        infinite = np.flatnonzero(np.isinf(np.ma.filled(array, 0)))
        if infinite.size:
            raise ValueError(f"{name}[{infinite[0]}] is {array[infinite[0]]}: expected finite numbers")
    missing = np.ma.getmaskarray(array)
    return ["" if missing[i] else _cell(value, f"{name}[{i}]") for i, value in enumerate(np.ma.getdata(array).tolist())]


def _refuse_categories(column: Any, name: str) -> None:
    """A table takes labels that are numbers for numbers."""
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if categories is not None and len(categories) and np.asarray(categories).dtype.kind in "fiu":
        raise ValueError(
            f"{name} has categories that are numbers, which a table takes for numbers: give them other labels, or make the "
            "column numeric (a formula has factor() for those)"
        )


def _cell(value: Any, name: str) -> str:
    if value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    text = str(value)
    encoded(text, name)
    return text


def _write_table(data: Any, path: Path) -> bool:
    """Writes a table; returns whether every row is one line."""
    columns: Dict[str, List[str]] = {}
    for name, column in _columns(data).items():
        columns[name] = _cells(column, f"data[{name!r}]")
        rows = len(next(iter(columns.values())))
        if len(columns[name]) != rows:
            raise ValueError(f"data[{name!r}] has {len(columns[name])} rows: the columns before it have {rows}")
    if not columns:
        raise ValueError("data has no columns")
    with open(path, "w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values()))
    return not any("\n" in cell or "\r" in cell for cells in columns.values() for cell in cells)


def _plain(value: Any) -> Any:
    for convert in ("tolist", "to_list"):  # of numpy and pandas, of polars
        if hasattr(value, convert):
            return getattr(value, convert)()
    raise TypeError(f"data holds {type(value).__name__}, which JSON has not")


class DataFile:
    """with DataFile(data, model) as path: data as a file, the one given or one to which arrays are written; None for
    None. Errors that name the latter name the rows of the arrays instead."""

    def __init__(self, data: Any, model: str, needed: bool = False) -> None:
        self.data, self.model, self.needed = data, model, needed
        self.place: Optional[tempfile.TemporaryDirectory[str]] = None
        self.path, self.rows = "", False  # whether row i of the data is line i + 2 of the file

    def __enter__(self) -> Optional[str]:
        if self.data is None and not self.needed:
            return None
        if isinstance(self.data, (str, os.PathLike)):
            return path_text(self.data, "data")
        self.place = tempfile.TemporaryDirectory()
        try:
            as_json = self.model == "mixture" or self.model.endswith(".so")
            self.path = os.path.join(self.place.name, "data.json" if as_json else "data.csv")
            if as_json:
                self._write_json()
            else:
                self.rows = _write_table(self.data, Path(self.path))
        except BaseException:
            self.place.cleanup()
            raise
        return self.path

    def _write_json(self) -> None:
        try:
            Path(self.path).write_text(json.dumps(self.data, default=_plain, allow_nan=False), encoding="utf-8")
        except ValueError as error:
            raise ArgumentError(f"data: {error}") from None

    def in_words(self, text: str) -> str:
        """A sentence of the library, about the file, as one about the data."""
        if not self.path:
            return text

        def row(found: "re.Match[str]") -> str:
            line = int(found.group(1))
            return f"data, row {line - 2}:" if self.rows and line > 1 else "data:"

        return re.sub(re.escape(self.path) + r":(\d+):", row, text).replace(self.path, "data")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.place is not None:
            self.place.cleanup()
        if isinstance(error, Error) and error.args:
            error.args = (self.in_words(str(error.args[0])), *error.args[1:])
