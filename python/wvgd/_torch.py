"""Gradients by torch."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np


def torch(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A density for wvgd.fit, with gradients by autograd, of one written with torch.

    function gets a float64 tensor z [n, dim], or with a prior a dict of tensors [n], and returns log_p [n].

        fit = wvgd.fit(wvgd.torch(lambda z: -0.5 * (z**2).sum(1)), dim=5)
    """
    import torch as library

    def evaluate(points: Any) -> Any:
        named = isinstance(points, dict)
        given = points if named else {"z": points}
        tensors = {name: library.tensor(np.asarray(x), dtype=library.float64, requires_grad=True) for name, x in given.items()}
        log_p = function(tensors if named else tensors["z"])
        grads = library.autograd.grad(log_p.sum(), list(tensors.values()), allow_unused=True)
        arrays = {
            name: np.zeros(np.shape(given[name])) if grad is None else grad.numpy() for name, grad in zip(tensors, grads)
        }
        return log_p.detach().numpy(), arrays if named else arrays["z"]

    return evaluate
