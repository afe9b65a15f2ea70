"""Applies Python functions to parts of arrays."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy.axes import axis_of
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import asarray, operand
from nabla_mlir.numpy.shapes import broadcast_to, expand_dims
from nabla_mlir.transforms.vectorize import vmap


def vectorize(pyfunc: Callable[..., Any], *, excluded: Any = frozenset(), signature: str | None = None) -> Callable[..., Any]:
    """Maps a function over the additional axes of its arguments, which broadcast.

    Args:
      pyfunc: a function of scalars, or of arrays with the axes of `signature`.
      excluded: positions of arguments and names of keywords that are not mapped.
      signature: the axes of arguments and results, such as ``"(n,m),(m)->(n)"``.

    Raises:
      ShapeError: the signature is not valid, or an argument has too few axes.

    Example:
      >>> vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(np.ones((2, 3)), np.ones(3)).tolist()
      [3.0, 3.0]
    """
    if any(not isinstance(e, (int, str)) for e in excluded) or any(isinstance(e, int) and e < 0 for e in excluded):
        raise ShapeError(f"vectorize requires positions from 0 and names as excluded, got {set(excluded)}.", where=user_frame())
    axes = None if signature is None else _axes(signature)

    @functools.wraps(pyfunc)
    def call(*args: Any, **kwargs: Any) -> Any:
        """The results of the function for all entries of the arguments, whose other axes broadcast."""
        absent = [i for i, a in enumerate(args) if a is None and i not in excluded]
        if absent and axes is not None:
            raise ShapeError(f"vectorize with a signature requires arrays, got None at the positions {absent}.", where=user_frame())
        static = {i: a for i, a in enumerate(args) if i in excluded or i in absent}
        options = {n: v for n, v in kwargs.items() if n in excluded}
        positions = [i for i in range(len(args)) if i not in static]
        arrays = [asarray(args[i]) for i in positions] + [asarray(kwargs[n]) for n in kwargs if n not in options]
        names = [n for n in kwargs if n not in options]
        core = [0] * len(arrays) if axes is None else [len(part) for part in axes[0]]
        if len(core) != len(arrays) or any(a.ndim < r for a, r in zip(arrays, core, strict=True)):
            raise ShapeError(
                f"vectorize requires arguments with the axes of {signature!r}, got shapes "
                f"{', '.join(str(a.shape) for a in arrays)}.",
                where=user_frame(),
            )
        lengths: dict[str, int] = {}
        if axes is not None:
            _check_lengths(axes[0], [a.shape[a.ndim - r :] for a, r in zip(arrays, core, strict=True)], lengths)

        def inner(*values: Any) -> Any:
            """The result of the function for the parts of the arrays that belong to one entry."""
            by_position = {**static, **dict(zip(positions, values, strict=False))}
            keywords = dict(zip(names, values[len(positions) :], strict=True))
            out = pyfunc(*(by_position[i] for i in range(len(args))), **keywords, **options)
            if axes is not None:
                _check_results(axes[1], out, dict(lengths))
            return out

        outer = np.broadcast_shapes(*(a.shape[: a.ndim - r] for a, r in zip(arrays, core, strict=True)))
        full = [broadcast_to(a, (*outer, *a.shape[a.ndim - r :])) for a, r in zip(arrays, core, strict=True)]
        f: Callable[..., Any] = inner
        for _ in outer:
            f = vmap(f)
        return f(*full)

    return call


def _axes(signature: str) -> tuple[list[list[str]], list[list[str]]]:
    """The names of the axes of each argument and of each result of a signature, else ShapeError.

    Example: "(n,m),(m)->(n)" gives [["n", "m"], ["m"]] and [["n"]].
    """
    groups = r"\([\w,\s]*\)"
    if not re.fullmatch(rf"\s*{groups}(\s*,\s*{groups})*\s*->\s*{groups}(\s*,\s*{groups})*\s*", signature):
        raise ShapeError(f"vectorize requires a signature such as '(n,m),(m)->(n)', got {signature!r}.", where=user_frame())
    left, _, right = signature.partition("->")
    read = lambda text: [[n.strip() for n in g[1:-1].split(",") if n.strip()] for g in re.findall(groups, text)]  # noqa: E731
    return read(left), read(right)


def _check_lengths(names: Sequence[Sequence[str]], shapes: Sequence[Sequence[int]], lengths: dict[str, int]) -> None:
    """Raises ShapeError unless axes of one name have one length; adds the lengths of new names to `lengths`.

    `names` has the names of the axes of each array. `shapes` are the shapes of the arrays.
    """
    for labels, shape in zip(names, shapes, strict=True):
        if len(labels) != len(shape):
            raise ShapeError(
                f"vectorize requires results with the axes ({', '.join(labels)}), got shape {tuple(shape)}.", where=user_frame()
            )
        for name, n in zip(labels, shape, strict=True):
            if lengths.setdefault(name, n) != n:
                raise ShapeError(
                    f"vectorize requires axes {name!r} of one length, got {lengths[name]} and {n}.", where=user_frame()
                )


def _check_results(names: Sequence[Sequence[str]], out: Any, lengths: dict[str, int]) -> None:
    """Raises ShapeError unless the result `out` of a vectorized function has as many arrays as `names`, with fitting axes.

    `lengths` maps names of axes to their lengths.
    """
    outs = out if len(names) > 1 else [out]
    if not isinstance(outs, (list, tuple)) or len(outs) != len(names):
        got = len(out) if isinstance(out, (list, tuple)) else "one array"
        raise ShapeError(f"vectorize requires a tuple of {len(names)} results, got {got}.", where=user_frame())
    _check_lengths(names, [np.shape(o) for o in outs], lengths)


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Applies a function of vectors along one axis; the axes of its result replace this axis.

    Example:
      >>> apply_along_axis(lambda v: v.sum(), 1, np.ones((2, 3))).tolist()
      [3.0, 3.0]
    """
    x = operand(arr)
    axis_number = axis_of("apply_along_axis", axis, np.ndim(x))
    f: Callable[..., Any] = lambda v: func1d(v, *args, **kwargs)  # noqa: E731
    for _ in range(np.ndim(x) - 1 - axis_number):
        f = vmap(f, in_axes=-1, out_axes=-1)
    for _ in range(axis_number):
        f = vmap(f)
    return f(x)


def apply_over_axes(func: Callable[..., Any], a: Any, axes: int | Sequence[int]) -> Any:
    """Applies ``func(x, axis)`` for one axis after the other; an axis that it removes is added again with size 1."""
    x = operand(a)
    for axis in axes if isinstance(axes, Sequence) else (axes,):
        out = func(x, axis)
        x = out if np.ndim(out) == np.ndim(x) else expand_dims(out, axis_of("apply_over_axes", axis, np.ndim(x)))
    return x


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """Computes each element by the last function whose condition is true; otherwise by one more function, or 0.

    Args:
      x: an array.
      condlist: a boolean array for each condition.
      funclist: functions of `x`, or numbers: one for each condition, and optionally one for the other elements.
      *args, **kw: further arguments of the functions.

    Raises:
      ShapeError: the number of functions is wrong.

    Example:
      >>> x = np.array([-1.0, 2.0])
      >>> piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * v]).tolist()
      [1.0, 4.0]
    """
    x = asarray(x)
    several = isinstance(condlist, (list, tuple)) or np.ndim(condlist) > np.ndim(x)
    conditions = list(condlist) if several else [condlist]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ShapeError(f"piecewise requires {len(conditions)} functions or one more, got {len(funclist)}.", where=user_frame())
    value = lambda f: f(x, *args, **kw) if callable(f) else f  # noqa: E731
    out: Any = value(funclist[-1]) if len(funclist) > len(conditions) else 0
    for condition, f in zip(conditions, funclist, strict=False):
        out = where(condition, value(f), out)
    return out.astype(x.dtype)
