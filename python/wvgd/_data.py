"""Arguments: densities' answers, options, arrays and tables, checked; errors name the argument."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ._errors import ArgumentError


def real_array(value: Any, name: str) -> np.ndarray:
    """value as a C-contiguous float64 array; TypeError if it holds no real numbers."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name} is not an array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {array.dtype}: expected real numbers (float64)")
    return np.ascontiguousarray(array, dtype=np.float64)


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


def count(value: Any, name: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}: expected a whole number")
    number = value.__index__()
    if number < least:
        raise ValueError(f"{name} is {number}: expected at least {least}")
    return number


def parameter_names(names: Optional[Sequence[str]], dim: int) -> List[str]:
    """names, or z.1, z.2 ..., as the program calls them."""
    if names is None:
        return [f"z.{i + 1}" for i in range(dim)]
    if isinstance(names, str) or len(names) != dim:
        raise ValueError(f"names is {names!r}: expected {dim} of them, one per dimension")
    result = [str(name) for name in names]
    double = sorted({name for name in result if result.count(name) > 1})
    if double:
        raise ValueError(f"names has {double[0]!r} more than once")
    return result


def option_text(name: str, value: Any) -> str:
    """The value of an option as the library reads it; round trips."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return ",".join(option_text(name, part) for part in value)
    raise TypeError(f"option {name} is {value!r}: expected text, a number or True")


def _columns(data: Any) -> Dict[str, Any]:
    """Columns by name, of a data frame, a mapping or a structured array."""
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):  # pandas, polars
        return {str(name): np.asarray(data[name]) for name in data.columns}
    if isinstance(data, Mapping):
        return {str(name): np.asarray(column) for name, column in data.items()}
    if isinstance(data, np.ndarray) and data.dtype.names:
        return {name: data[name] for name in data.dtype.names}
    raise TypeError(
        f"data is {type(data).__name__}: expected a file, a data frame, a mapping of names to columns or a structured array"
    )


def _cell(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, np.generic):
        return str(value.item())
    return "" if value is None else str(value)


def _write_table(data: Any, path: Path) -> None:
    columns = _columns(data)
    if not columns:
        raise ValueError("data has no columns")
    length = None
    for name, column in columns.items():
        if column.ndim != 1:
            raise ValueError(f"data[{name!r}] has shape {column.shape}: expected one dimension")
        if length is not None and len(column) != length:
            raise ValueError(f"data[{name!r}] has {len(column)} rows: the columns before it have {length}")
        if column.dtype.kind == "c":
            raise TypeError(f"data[{name!r}] has dtype {column.dtype}: expected real numbers or text")
        if column.dtype.kind == "f":
            finite(column, f"data[{name!r}]")
        length = len(column)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in zip(*columns.values()))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"data holds {type(value).__name__}, which JSON has not")


def data_file(data: Any, model: str, directory: str) -> str:
    """A path to data: the one given, or that of a file in directory to which arrays were written."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    if model == "mixture" or model.endswith(".so"):
        path = Path(directory, "data.json")
        try:
            path.write_text(json.dumps(data, default=_plain, allow_nan=False), encoding="utf-8")
        except ValueError as error:
            raise ArgumentError(f"data: {error}") from None
    else:
        path = Path(directory, "data.csv")
        _write_table(data, path)
    return str(path)
