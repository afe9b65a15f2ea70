"""Selection, checks and replacement of arguments, for all transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.dialects.types import is_complex, is_differentiable
from nabla_mlir.staging.positions import Argnums, positions
from nabla_mlir.staging.specs import Spec
from nabla_mlir.table.narrowing import is_narrowing, narrowed
from nabla_mlir.table.promotion import adopted, as_tensor, is_scalar, scalar_array
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.table.vectorized import separate


def active_arguments(what: str, args: tuple[Any, ...], argnums: Argnums) -> tuple[tuple[int, ...], list[Any], pytree.TreeSpec]:
    """The positions of the differentiated arguments, their leaves, and the structure of the tuple of these arguments.

    `what` is the name of the transform, for errors. `args` are all arguments of a call, and `argnums` is a position or several.
    """
    wrt = positions(what, argnums, len(args))
    leaves, spec = pytree.flatten(tuple(args[i] for i in wrt))
    return wrt, leaves, spec


def with_arguments(args: tuple[Any, ...], wrt: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """The arguments, with `values` in place of those at the positions `wrt`. `args` are all arguments of a call."""
    result = list(args)
    for i, value in zip(wrt, values, strict=True):
        result[i] = value
    return result


def own(tree: Any) -> Any:
    """A copy of the pytree with a new tensor for each tensor: a function may assign to its arguments without changing the
    caller's.
    """
    leaves, spec = pytree.flatten_any(tree)
    if not any(isinstance(leaf, Tensor) for leaf in leaves):
        return tree
    return pytree.unflatten(spec, [separate(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves])


def differentiable(what: str, leaf: Any, path: str, holomorphic: bool = False, real: bool = True) -> Tensor:
    """A leaf of an argument as a tensor that can be differentiated.

    Args:
      what: the name of the transform, for errors.
      leaf: the leaf.
      path: the path of the leaf, for errors.
      holomorphic: True if the leaf must be complex.
      real: True if the leaf must not be complex, unless `holomorphic`.

    Raises:
      DtypeError: the leaf has another dtype.
    """
    tensor = as_tensor(leaf)
    if not is_differentiable(tensor.dtype):
        raise DtypeError(
            f"{what} requires arguments of floating point, got {tensor.dtype} at argument {path}.",
            where=user_frame(),
            help="write 3.0 for the number 3, convert an array with astype, or leave the argument out of argnums"
            + {"grad": "; allow_int=True gives None for it.", "jacrev": "; allow_int=True gives zeros for it."}.get(what, "."),
        )
    if real and is_complex(tensor.dtype) and not holomorphic:
        raise DtypeError(
            f"{what} requires real arguments, got {tensor.dtype} at argument {path}.",
            where=user_frame(),
            help="pass holomorphic=True for a complex-differentiable function; grad and jacrev take others whose result is real.",
        )
    if holomorphic and not is_complex(tensor.dtype):
        raise DtypeError(
            f"{what} with holomorphic=True requires complex arguments, got {tensor.dtype} at argument {path}.",
            where=user_frame(),
            help="convert it with astype, or leave holomorphic out.",
        )
    return tensor


def specs_of(tensors: Sequence[Tensor]) -> list[Spec]:
    """The types of tensors, and whether each is weak."""
    return [Spec(t.shape, t.dtype, t.weak) for t in tensors]


def seed_of(what: str, seed: Any, like: Tensor | Spec, path: str) -> Tensor | None:
    """A tangent or cotangent as a tensor with the type of its primal `like`; None for a zero, and for an integer primal.

    Args:
      what: "tangent" or "cotangent", for errors.
      seed: the user's array or number, or None for zero.
      like: the primal, or its type.
      path: the path of the leaf in its pytree, for errors.
    """
    if seed is None or not is_differentiable(like.dtype):
        return None
    tensor = adopted(seed, like.dtype)
    _check_seed(what, tensor, like, path)
    return tensor


def seed_array(what: str, seed: Any, like: Spec, path: str) -> Any:
    """A tangent or cotangent outside a trace as an array with the type of its primal `like`; zeros if `seed` is None.

    `what` ("tangent" or "cotangent") and `path`, the path of the leaf in its pytree, are for errors.
    """
    if seed is None:
        return np.zeros(like.shape, like.dtype)
    if is_scalar(seed):
        array = scalar_array(seed, like.dtype, f"a {what} requires {like.dtype} at {path}")
    else:
        array = seed if pytree.is_array(seed) else np.asarray(seed)
        array = narrowed(array) if is_narrowing() else array
    _check_seed(what, array, like, path)
    return array


def _check_seed(what: str, seed: Any, like: Tensor | Spec, path: str) -> None:
    """Raises ShapeError or DtypeError unless the tangent or cotangent `seed` has the shape and dtype of its primal `like`.

    `what` ("tangent" or "cotangent") and `path`, the path of the leaf in its pytree, are for errors.
    """
    if tuple(seed.shape) != like.shape:
        raise ShapeError(
            f"a {what} requires the shape of its primal, got {tuple(seed.shape)} for {like.shape}{path and ' at '}{path}.",
            where=user_frame(),
        )
    if seed.dtype != like.dtype:
        raise DtypeError(
            f"a {what} requires the dtype of its primal, got {seed.dtype} for {like.dtype}{path and ' at '}{path}.",
            where=user_frame(),
            help="convert it with astype.",
        )
