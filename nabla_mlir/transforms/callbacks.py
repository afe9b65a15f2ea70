"""Python functions that programs call at each run: `pure_callback`, and the functions of `nabla_mlir.jax.debug`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import CallbackError, RuleMissingError, TraceError, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.ops.callbacks import Callback, emit_callback, number_of
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.specs import as_spec
from nabla_mlir.staging.tracing import is_tracing
from nabla_mlir.table.narrowing import is_narrowing, is_wide
from nabla_mlir.table.promotion import as_tensor, is_scalar
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.vectorized import per_vectorized_entry

_METHODS = (None, "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: PyTree,
    *args: PyTree,
    sharding: None = None,
    vmap_method: str | None = None,
    **kwargs: PyTree,
) -> PyTree:
    """The results of a function of NumPy arrays, which is called whenever the program runs. Such a program is interpreted.

    Args:
      callback: a function without effects. It may be called more often than it is written, or not at all.
      result_shape_dtypes: a pytree of objects with the shape and dtype of each result, such as `nm.ShapeDtypeStruct`.
      *args, **kwargs: pytrees of arrays.
      sharding: must be None.
      vmap_method: the rule for `vmap`. "sequential" calls the function for each entry. "expand_dims" and "broadcast_all"
        call it once, with a leading axis for all arguments; for arguments that do not vary, this axis has size 1 or the full
        size. With None, `vmap` raises RuleMissingError.

    Raises:
      TraceError: there is no such method.
      CallbackError: its results are not those of `result_shape_dtypes`, or it does not accept the arguments.
      RuleMissingError: it is differentiated without an enclosing custom rule, or compiled for IREE, which cannot call Python.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> f = nm.jit(lambda x: 2 * nm.pure_callback(np.sort, x, x))
      >>> f(np.array([3.0, 1.0])).tolist()
      [2.0, 6.0]
    """
    return _call_python(callback, result_shape_dtypes, args, kwargs, vmap_method, has_effect=False)


def io_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: None = None, ordered: bool = False, **kwargs: Any
) -> Any:
    """The results of a Python function with effects, which the program calls once for each call in the code, in order.

    The arguments are those of `pure_callback`.
    """
    return _call_python(callback, result_shape_dtypes, args, kwargs, "sequential", has_effect=True)


def _call_python(
    callback: Callable[..., Any], shapes: Any, args: Any, kwargs: Any, vmap_method: str | None, has_effect: bool
) -> Any:
    """The results of the Python function `callback`, as tensors of a call that is emitted into the trace.

    Args:
      callback: the function.
      shapes: a pytree like the results, whose leaves have a shape and a dtype.
      args, kwargs: the arguments of the function.
      vmap_method: the rule for `vmap`, a name as in `pure_callback`, or None.
      has_effect: True if the call must not be removed or repeated.
    """
    if vmap_method not in _METHODS:
        raise TraceError(
            f"pure_callback requires vmap_method among {', '.join(map(repr, _METHODS))}, got {vmap_method!r}.", where=user_frame()
        )
    likes, out_spec = pytree.flatten(shapes)
    specs = [as_spec(s) for s in likes]
    if is_narrowing() and any(is_wide(s.dtype) for s in specs):
        raise CallbackError(
            f"pure_callback requires dtypes of at most 32 bits, got {', '.join(map(str, specs))}.",
            where=user_frame(),
            help='jax.config.update("jax_enable_x64", True) allows 64 bits.',
        )

    def run(*leaves: Any) -> list[np.ndarray]:
        """Calls `callback` with arrays; returns the leaves of its result."""
        inner_args, inner_kwargs = pytree.unflatten(in_spec, leaves)
        try:
            out = callback(*inner_args, **inner_kwargs)
        except TypeError as error:
            _check_accepts(callback, inner_args, inner_kwargs, error)
            raise
        got = pytree.flatten(out)[0]
        if len(got) != len(specs):
            raise CallbackError(
                f"pure_callback requires the {len(specs)} results that it promises, got {len(got)}.", where=user_frame()
            )
        return got

    def emit(*leaves: Any) -> Any:
        tensors = [as_tensor(x) for x in leaves]
        outs = emit_callback(number_of(_with_method(run, vmap_method)), tensors, [(s.shape, s.dtype) for s in specs], has_effect)
        return pytree.unflatten(out_spec, outs)

    leaves, in_spec = pytree.flatten((args, kwargs))
    return staged(per_vectorized_entry(emit))(*leaves)


def _check_accepts(callback: Callable[..., Any], args: Any, kwargs: Any, error: TypeError) -> None:
    """Raises CallbackError, caused by `error`, if the function does not accept these arguments."""
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as mismatch:
        raise CallbackError(
            f"pure_callback requires a function of the arguments that it passes, got a mismatch: {mismatch}.", where=user_frame()
        ) from error


def _with_method(run: Callback, vmap_method: str | None) -> Callback:
    """The function `run` with an attribute `batched`, which `vmap` calls; without this attribute `vmap` calls `run` once for each
    entry.

    `vmap_method` is None ("refuse"), "sequential" or "sequential_unrolled" (no attribute), "expand_dims" or "broadcast_all".
    """
    call = functools.wraps(run)(lambda *arrays: run(*arrays))
    if vmap_method is None:
        call.batched = _refuse  # type: ignore[attr-defined]
    elif not vmap_method.startswith("sequential"):
        call.batched = functools.partial(_call_at_once, vmap_method == "broadcast_all")  # type: ignore[attr-defined]
    return call


def _refuse(callback: Callback, mapped: Any, size: int) -> Callback:
    """Raises RuleMissingError: `vmap` of a `pure_callback` needs a `vmap_method`, and the user chose none."""
    raise RuleMissingError(
        "vmap of pure_callback requires vmap_method, got None.",
        where=user_frame(),
        help='give vmap_method="sequential", or "expand_dims" if the function takes leading axes.',
    )


def _call_at_once(is_full: bool, callback: Callback, mapped: tuple[bool, ...], size: int) -> Callback:
    """A function that calls `callback` once for all `size` entries, with a leading axis for all arguments.

    `mapped` says for each argument if it has this axis already. Other arguments get an axis of `size` entries if `is_full`, else of
    1.
    """

    def all_entries(*arrays: np.ndarray) -> Sequence[Any]:
        """The results of `callback` for all entries, with the axis of the entries in front."""
        wide = [x if m else np.broadcast_to(x, (size if is_full else 1, *x.shape)) for x, m in zip(arrays, mapped, strict=True)]
        return callback(*wide)

    return _with_method(all_entries, "broadcast_all" if is_full else "expand_dims")


def effect(callback: Callable[..., Any], args: Any, kwargs: Any, key: Hashable = None) -> None:
    """Calls a Python function for its effect: now, or inside a trace whenever the program runs.

    Args:
      callback: the function.
      args, kwargs: its arguments; leaves that are not arrays are passed on unchanged.
      key: calls with equal keys share one function in the IR.
    """
    leaves, spec = pytree.flatten((args, kwargs))
    is_array = [isinstance(x, Tensor) or pytree.is_array(x) or is_scalar(x) for x in leaves]

    def run(*arrays: Any) -> list[Any]:
        """Calls `callback` with `arrays` in place of the leaves that are arrays; returns no results."""
        remaining_arrays = iter(arrays)
        values = [next(remaining_arrays) if a else x for a, x in zip(is_array, leaves, strict=True)]
        inner_args, inner_kwargs = pytree.unflatten(spec, values)
        callback(*inner_args, **inner_kwargs)
        return []

    def emit(*arrays: Any) -> tuple[()]:
        shared_key = key if key is None or not all(is_array) else (key, spec)
        emit_callback(number_of(run, shared_key), [as_tensor(x) for x in arrays], [], has_effect=True)
        return ()

    if not is_tracing():
        run(*(np.asarray(x) for x, a in zip(leaves, is_array, strict=True) if a))
        return
    staged(per_vectorized_entry(emit))(*(x for x, a in zip(leaves, is_array, strict=True) if a))
