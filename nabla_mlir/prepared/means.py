"""Recognises functions of a batch that are means over its rows, of which a sum over batches is rarely meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.typing import PyTree
from nabla_mlir.interpreter.target import Interpreter
from nabla_mlir.staging.stages import trace

_ROWS = 8  # the number of rows on which a function is computed, and those of both halves


def is_mean(f: Callable[..., Any], x: PyTree, data: Sequence[Any]) -> bool:
    """True if the value of a function for a few rows is the mean, and not the sum, of its values for both halves of them.

    Only the interpreter runs, on the first rows of a batch. False for a function that does not accept fewer rows.

    Args:
      f: a function of x and the arrays of a batch.
      x: a point.
      data: a batch.

    Example:
      >>> rows = np.arange(8.0).reshape(4, 2)
      >>> is_mean(lambda x, rows: ((rows @ x) ** 2).mean(), np.ones(2), (rows,))
      True
      >>> is_mean(lambda x, rows: ((rows @ x) ** 2).sum(), np.ones(2), (rows,))
      False
    """
    leaves, spec = pytree.flatten(tuple(data))
    arrays = [np.asarray(readable(leaf)) for leaf in leaves]
    length = next((a.shape[0] for a in arrays if a.ndim), 0)
    half = min(length, _ROWS) // 2
    if not half:
        return False

    def value(start: int, stop: int) -> float:
        """The value of the function for the rows of the batch from `start` up to `stop`."""
        rows = [a[start:stop] if a.ndim and a.shape[0] == length else a for a in arrays]
        return _value(f, (x, *pytree.unflatten(spec, rows)))

    try:
        both, first, second = value(0, 2 * half), value(0, half), value(half, 2 * half)
    except Exception:  # of any class: the user's function may require the rows of a whole batch
        return False
    close = np.sqrt(np.finfo(np.float32).eps) * (abs(first) + abs(second))
    # It must be near the mean and not near the sum: zeros are near both.
    return bool(abs(both - (first + second) / 2) <= close < abs(both - (first + second)))


def _value(f: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """The value of a scalar function, by the interpreter."""
    return float(np.asarray(trace(f, *arguments).compile(Interpreter())(*arguments)))
