"""What a function of the user's says of points, checked: errors name the function and what it returned."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ._data import real_array, shaped


class Answer(NamedTuple):
    """What a function has said of n points."""

    log_p: np.ndarray  # [n]
    grad: Optional[np.ndarray]  # [n][dim]


Gradients = Callable[[Any, Tuple[int, ...]], np.ndarray]  # what is said of them at points of this shape, as [n][dim]


def _parts(answer: Any, called: str) -> Tuple[Any, Any]:
    """(log_p, grad or None) of what a function has returned."""
    if not isinstance(answer, tuple):
        return answer, None
    if len(answer) != 2:
        raise ValueError(f"{called} returned a tuple of {len(answer)}: expected log_p, or (log_p, grad)")
    return answer[0], answer[1]


def _numbers(value: Any, called: str) -> np.ndarray:
    """log_p as numbers of any shape."""
    if value is None:
        raise TypeError(f"{called} returned None: expected log_p, or (log_p, grad)")
    if not (hasattr(value, "__array__") or np.isscalar(value) or isinstance(value, Sequence)):
        raise TypeError(f"{called} returned {type(value).__name__}: expected log_p, or a tuple (log_p, grad)")
    if isinstance(value, list) and len(value) == 2 and np.ndim(value[0]) != np.ndim(value[1]):
        raise TypeError(f"{called} returned a list of two: expected log_p, or a tuple (log_p, grad)")
    return real_array(value, f"log_p of {called}")


def of_all(answer: Any, n: int, called: str, gradients: Gradients) -> Answer:
    """What a function has returned for n points at once."""
    value, grad = _parts(answer, called)
    log_p = _numbers(value, called)
    if log_p.shape != (n,):
        hint = ""
        if log_p.shape == (n, 1):
            hint = "; take [:, 0], or sum over axis=1"
        elif log_p.ndim < 2:
            hint = "; for a function of one point pass vectorized=False"
        raise ValueError(f"{called} returned log_p of shape {log_p.shape} for {n} point{'s' * (n > 1)}: expected ({n},){hint}")
    return Answer(log_p, None if grad is None else gradients(grad, (n,)))


def of_each(answers: Iterable[Any], called: str, gradients: Gradients) -> Answer:
    """What a function has returned for points, one after the other."""
    each: List[Answer] = []
    for answer in answers:
        value, grad = _parts(answer, called)
        log_p = _numbers(value, called)
        if log_p.ndim:
            raise ValueError(f"{called} returned log_p of shape {log_p.shape} for a point: expected a number")
        each.append(Answer(log_p.reshape(1), None if grad is None else gradients(grad, ())))
    return joined(each, called)


def joined(parts: Sequence[Answer], called: str) -> Answer:
    """Answers for some points after others, as one; with gradients if any of them has some."""
    log_p = np.concatenate([part.log_p for part in parts])
    given = next((part.grad for part in parts if part.grad is not None), None)
    if given is None:
        return Answer(log_p, None)
    return Answer(log_p, np.concatenate([gradient_of(part, given.shape[1], called) for part in parts]))


def gradient_of(answer: Answer, dim: int, called: str) -> np.ndarray:
    """The gradients of an answer of a function that returns some, which points without density need not have: [n][dim]."""
    if answer.grad is not None:
        return answer.grad
    if np.isfinite(answer.log_p).any():
        raise ValueError(f"{called} returned gradients for some points and none for others: it may leave them out only where log_p is -inf")
    return np.zeros((len(answer.log_p), dim))


def gradient_array(dim: int, called: str) -> Gradients:
    """Gradients as arrays [n][dim], or [dim] of one point."""
    return lambda grad, points: shaped(grad, (*points, dim), f"grad of {called}").reshape(-1, dim)


def gradient_dict(names: Sequence[str], called: str) -> Gradients:
    """Gradients as dicts by name, of arrays [n], or of numbers of one point."""

    def array(grad: Any, points: Tuple[int, ...]) -> np.ndarray:
        if not isinstance(grad, Mapping) or set(grad) != set(names):
            what = f"has the keys {', '.join(map(str, grad))}" if isinstance(grad, Mapping) else f"is {type(grad).__name__}"
            raise ValueError(f"the gradient that {called} returned {what}: expected a dict with the keys {', '.join(names)}")
        columns = [shaped(grad[name], points, f"the gradient in {name} that {called} returned") for name in names]
        return np.stack(columns, axis=-1).reshape(-1, len(names))

    return array
