"""Arguments and results of calls: conversion of values to arrays, and memory of the caller for results.

Needs only NumPy and IREE's runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from iree.runtime import HalBufferView

from nabla_mlir.base import thresholds
from nabla_mlir.base.conversion import range_of, scalar_misfit
from nabla_mlir.base.errors import (
    ConcretizationError,
    DeployError,
    DtypeError,
    ExchangeError,
    LeakedTracerError,
    ShapeError,
    TreeError,
    user_frame,
)
from nabla_mlir.base.exchange import readable
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import Device
from nabla_mlir.runtime.element_types import element_type
from nabla_mlir.runtime.manifest import Leaf
from nabla_mlir.runtime.memory import copied
from nabla_mlir.runtime.timeline import Timepoint

# ---------------------------------------------------------------- values


class DeployShapeError(DeployError, ShapeError):
    """The error of an array with another shape than the artifact was compiled for."""


class DeployTreeError(DeployError, TreeError):
    """The error of arguments with another structure than the artifact was compiled for."""


class DeployDtypeError(DeployError, DtypeError):
    """The error of an array with another dtype than the artifact was compiled for."""


class Kind(NamedTuple):
    """The kind of an argument: an array with a shape and a dtype, or a Python scalar.

    Attributes:
      shape: the shape; None for a scalar.
      enter: copies an argument that is not a device array to a device; returns None if it has another kind.
    """

    shape: tuple[int, ...] | None
    dtype: np.dtype
    enter: Callable[[Any, Device], HalBufferView | None]

    @staticmethod
    def of_array(shape: tuple[int, ...], dtype: np.dtype) -> Kind:
        """The kind of arrays with this shape and dtype."""
        size = math.prod(shape) * dtype.itemsize
        is_small, element = 0 < size < thresholds.DIRECT_COPY and dtype.kind != "V" and dtype.isnative, element_type(dtype)

        def enter(array: Any, device: Device) -> HalBufferView | None:
            """A buffer of the device with the values of the array; None if it is no NumPy array of this shape and dtype."""
            if type(array) is not np.ndarray or array.shape != shape or array.dtype != dtype:
                return None
            if is_small and array.flags.c_contiguous:
                return device.buffer_of(array, element)
            return Array.from_numpy(array, device).memory()

        return Kind(shape, dtype, enter)

    @staticmethod
    def of_scalar(scalar: type, dtype: np.dtype) -> Kind:
        """The kind of arguments that are Python scalars of the type `scalar`, and that become arrays of this dtype without axes."""
        element = element_type(dtype)
        known = range_of(scalar, dtype)

        def enter(number: Any, device: Device) -> HalBufferView | None:
            """A buffer of the device with the number; None if it has another type, or the dtype cannot hold its value."""
            if type(number) is not scalar:
                return None
            if (known is None or not known[0] <= number <= known[1]) and scalar_misfit(number, dtype) is not None:
                return None
            return device.buffer_of(np.array(number, dtype), element)

        return Kind(None, dtype, enter)


def handed(array: np.ndarray, device: Device) -> HalBufferView:
    """A buffer of a device with the values of a NumPy array: a small one is copied, a large one shared if that is possible."""
    if array.nbytes < thresholds.DIRECT_COPY and array.flags.c_contiguous and array.dtype.isnative:
        return copied(array, device, element_type(array.dtype))  # as below, without an array object
    return Array.from_numpy(array, device).memory()


def as_array(value: Any, spec: Leaf, dtype: np.dtype, problems: list[tuple[type[Exception], str]]) -> Any:
    """A NumPy array of an argument; a Python scalar gets the declared dtype if its kind and its range fit.

    If the value does not fit, a problem (the class of an error and its text) is added to `problems`, and the result is zeros.
    Raises ConcretizationError if the argument is traced.

    Args:
      value: the argument, or one of its leaves.
      spec: the name, shape and dtype that the function requires.
      dtype: the dtype of `spec`, as an object.
      problems: the list to which a problem is added.
    """
    if type(value) not in (bool, int, float, complex):
        try:
            array = np.asarray(readable(value))
            return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        except (LeakedTracerError, ExchangeError):
            raise
        except ConcretizationError:
            raise ConcretizationError(
                f"a compiled function requires numbers, got the traced tensor {value!r} for {spec.name}.",
                where=user_frame(),
                help="call it outside of jit and grad; for its derivative trace the Python function instead.",
            ) from None
        except (TypeError, ValueError):
            problems.append((DtypeError, f"{spec.name} requires {spec}, got {type(value).__name__}"))
            return np.zeros(spec.shape, dtype)
    problem = scalar_misfit(value, dtype)
    if problem is not None:
        problems.append((DtypeError, f"{spec.name} requires {spec}, got {problem}"))
    return np.zeros(spec.shape, dtype) if problem else np.array(value, dtype)


def mismatch(leaf: Any, spec: Leaf) -> tuple[type[Exception], str]:
    """The class of the error, and its message, for an array with another shape or dtype."""
    got = Leaf(spec.name, leaf.shape, leaf.dtype.name)
    kind: type[Exception] = DtypeError if got.dtype != spec.dtype else ShapeError
    return kind, f"{spec.name} requires {spec}, got {got}"


# ---------------------------------------------------------------- memory for results


def memory_of(target: Any, where: Device) -> Array:
    """The array to which a call on device `where` writes the result for `target`, an array of the caller.

    It is `target` itself if that is a device array; an array that shares its memory if it is large and aligned; otherwise a new
    array.
    """
    if type(target) is Array:
        return target
    view = Array.lent(target, where) if target.nbytes >= thresholds.LENT_RESULT else None
    return Array.empty(target.shape, target.dtype, where) if view is None else view


def fill(target: Any, memory: Array, version: int | None, pending: Timepoint | None = None) -> Array:
    """The result of a call that has written to `memory`; its values are copied to `target`, if NumPy's array is not there.

    `version` is that of the state from which it was computed, and `pending` the end of the call if it has not ended.
    """
    memory.written(version, pending)
    if isinstance(target, np.ndarray) and not np.may_share_memory(target, memory.numpy()):
        np.copyto(target, memory.numpy())
    return memory


def check_storage(name: str, targets: Sequence[Any], inputs: Sequence[Any], where: Device) -> None:
    """Raises DeployError for arrays to which results cannot be written, and for memory that is also an argument or another result.

    Args:
      name: the name of the function, for the error.
      targets: the array of the caller for each result.
      inputs: the arguments of the call.
      where: the device on which it runs.

    Raises:
      DeployError: a target is refused; the message has the reason.
    """
    for i, target in enumerate(targets):
        problem = _problem(target, where)
        if problem is None and any(_overlap(target, x) for x in inputs):
            problem = "memory that is also an argument"
        if problem is None and any(_overlap(target, x) for x in targets[:i]):
            problem = "memory that is also that of another result"
        if problem is not None:
            raise DeployError(
                f"{name} requires memory of its own for each result, got {problem}.",
                help="give contiguous, writable NumPy arrays, or Array.empty(shape, dtype, device).",
            )


def _problem(target: Any, where: Device) -> str | None:
    """The reason, as text, why a call on device `where` cannot write a result to `target`; None if it can."""
    if type(target) is Array:
        on_host = target.device.is_host and where.is_host
        return None if target.device is where or on_host else f"an array on {target.device.driver}"
    if not isinstance(target, np.ndarray):
        return f"{type(target).__name__}, which has none"
    if not target.flags.writeable:
        return "an array that is read-only"
    if not target.flags.c_contiguous or not target.dtype.isnative:
        return "an array that is not contiguous"
    return None


def _overlap(a: Any, b: Any) -> bool:
    """True if two arrays share memory. Only host memory can be compared; a device array overlaps only with itself.

    A value that a call still computes and that was never read is in separate memory.
    """
    if a is b:
        return True
    left, right = (x.known_memory() if type(x) is Array and x.device.is_host else x for x in (a, b))
    # `known_memory` is None for a value that is not computed yet and was never read.
    return isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and np.may_share_memory(left, right)
