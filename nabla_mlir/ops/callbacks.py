"""Calls of Python functions from within programs: custom calls that only the interpreter can run.

A call holds the number of its function in this process. Compiled code cannot call Python: IREE's HAL runs machine code
of executables and commands of devices. Programs with such calls are interpreted, and `compile` refuses them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import CallbackDerivativeError, RuleMissingError, user_frame
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.stablehlo import String
from nabla_mlir.ops.custom_call import call, register_custom_call
from nabla_mlir.table.rules import ZERO, MaybeZeros, Tensors
from nabla_mlir.table.tensor import Tensor

TARGET = "nabla_python"
Callback = Callable[..., Sequence[Any]]  # arrays of NumPy -> arrays

_callbacks: dict[str, Callback] = {}
_numbers: dict[Hashable, str] = {}
_count = itertools.count()


def calls_python(op: ir.Operation) -> bool:
    """True if an operation calls a Python function."""
    return op.name == "stablehlo.custom_call" and String.decode(op.attributes["call_target_name"]) == TARGET


def number_of(callback: Callback, key: Hashable = None) -> str:
    """The number of the Python function `callback`, as text; functions with an equal `key` share one number."""
    if key is not None and key in _numbers:
        return _numbers[key]
    number = str(next(_count))
    _callbacks[number] = callback
    if key is not None:
        _numbers[key] = number
    return number


def callback_of(number: str) -> Callback:
    """The function with this number. Raises RuleMissingError if it belongs to another process."""
    if number not in _callbacks:
        raise RuleMissingError(
            "a call of Python requires the process that traced it, got another one.",
            where=user_frame(),
            help="trace the function here.",
        )
    return _callbacks[number]


def emit_callback(
    number: str, xs: Sequence[Tensor], results: Sequence[tuple[tuple[int, ...], np.dtype]], has_effect: bool
) -> list[Tensor]:
    """Emits the call of a Python function; returns its results. A call with an effect runs even if nothing reads its results.

    `number` is the function's number, `xs` are the arguments, and `results` are pairs of shape and dtype.
    """
    config = ir.StringAttr.get(number, context())
    return call(TARGET, xs, results, backend_config=config, has_side_effect=ir.BoolAttr.get(has_effect, context()))


def _jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, **params: Any) -> list[Any]:
    """Raises CallbackDerivativeError, because a Python function has no derivative; a call without results needs none.

    `outs` are the results.
    """
    if outs:
        raise CallbackDerivativeError(
            "the derivative requires a rule for pure_callback, got none.",
            where=user_frame(),
            help="wrap it in nm.custom_jvp or nm.custom_vjp, or in nm.stop_gradient.",
        )
    return [ZERO] * len(outs)


def _batch(xs: Tensors, mapped: Sequence[bool], size: int, *, results: Any, **params: Any) -> list[Tensor]:
    """Emits one call with the mapped axis in front; its function calls the original function once for each of `size` entries.

    `mapped` is True for each argument that has the axis, and `results` are pairs of shape and dtype.
    """
    one = callback_of(String.decode(params["backend_config"]))
    for_all = getattr(one, "batched", _one_by_one)(one, tuple(mapped), size)
    has_effect = bool(params["has_side_effect"].value)
    return emit_callback(number_of(for_all), xs, [((size, *shape), dtype) for shape, dtype in results], has_effect)


def _one_by_one(callback: Callback, mapped: tuple[bool, ...], size: int) -> Callback:
    """A function of stacked arrays that calls `callback` once for each of `size` entries, and stacks the results.

    `mapped` is True for each argument with an axis of entries; the others are passed unchanged.
    """

    def each(*arrays: np.ndarray) -> list[np.ndarray]:
        rows = [callback(*(x[i] if m else x for x, m in zip(arrays, mapped, strict=True))) for i in range(size)]
        return [np.stack(parts) for parts in zip(*rows, strict=True)]

    return each


register_custom_call(TARGET, jvp=_jvp, batch=_batch)
