"""Comparison of derivatives with finite differences, under the names of `jax.test_util`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy.operands import asarray
from nabla_mlir.transforms.linear import jvp, vjp

_STEP = {2: 1e-1, 4: 1e-2, 8: 1e-4}  # by the bytes of a real number: about the cube root of its precision
_CLOSE = {2: 1e-1, 4: 2e-3, 8: 1e-5}


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compares forward mode with central differences in one random direction.

    Args:
      f: a function of pytrees of floating-point arrays.
      f_jvp: the jvp of `f`: ``functools.partial(nm.jvp, f)``.
      args: the point.
      atol, rtol: the tolerances; the defaults are 1e-5 in float64 and 2e-3 in float32.
      eps: half the distance of the two points of the difference.
      err_msg: the beginning of the message.

    Raises:
      AssertionError: the derivatives differ.

    Example:
      >>> check_jvp(lambda x: x * x, lambda xs, ts: jvp(lambda x: x * x, xs, ts), (np.array([1.0, 2.0]),))
    """
    args = _arrays(args)
    direction = _drawn(args)
    value, tangent = f_jvp(args, direction)
    _compare(value, f(*args), atol, rtol, f"{err_msg} primal")
    _compare(tangent, _difference(f, args, direction, eps), atol, rtol, f"{err_msg} tangent")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compares reverse mode with central differences, by the product of a random cotangent and a random direction.

    `f_vjp` is ``functools.partial(nm.vjp, f)``; the other arguments are those of `check_jvp`.
    """
    args = _arrays(args)
    value, pull = f_vjp(*args)
    _compare(value, f(*args), atol, rtol, f"{err_msg} primal")
    direction, cotangent = _drawn(args), _drawn(value)
    along = _product(direction, pull(cotangent))
    _compare(along, _product(_difference(f, args, direction, eps), cotangent), atol, rtol, f"{err_msg} cotangent projection")


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compares derivatives of `f` up to an order with central differences of the next lower derivative.

    Args:
      f: a function of pytrees of floating-point arrays.
      args: the point.
      order: the highest order; all sequences of the modes up to this order are checked.
      modes: "fwd", "rev", or both.
      atol, rtol, eps: see `check_jvp`.

    Raises:
      AssertionError: the derivatives differ.
      ShapeError: a mode is unknown.

    Example:
      >>> check_grads(lambda x: x**3, (2.0,), order=2)
    """
    if not set(modes) <= {"fwd", "rev"}:
        raise ShapeError(f"check_grads requires modes 'fwd' and 'rev', got {tuple(modes)}.", where=user_frame())

    def check(f: Callable[..., Any], args: Sequence[Any], left: int, where: str) -> None:
        """Checks the first derivatives of `f` in each mode, then those of its jvp and vjp, `left` orders deep.

        `args` are the arguments of `f`.
        """
        if not left:
            return
        if "fwd" in modes:
            f_jvp = functools.partial(jvp, f)
            check_jvp(f, f_jvp, args, atol, rtol, eps, f"{where}jvp of f:")
            check(lambda primals, tangents: f_jvp(primals, tangents), (args, _drawn(args)), left - 1, f"{where}jvp of ")
        if "rev" in modes:
            f_vjp = functools.partial(vjp, f)
            check_vjp(f, f_vjp, args, atol, rtol, eps, f"{where}vjp of f:")
            cotangent = _drawn(f(*args))
            check(lambda *primals: f_vjp(*primals)[1](cotangent), args, left - 1, f"{where}vjp of ")

    check(f, _arrays(args), order, "")


# ---------------------------------------------------------------- words
def _mapped(g: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree with `g` applied to the NumPy arrays of corresponding leaves."""
    leaves, spec = pytree.flatten(tree)
    columns = [pytree.flatten_like(spec, other, "a tree", "the first one") for other in others]
    return pytree.unflatten(spec, [g(*map(np.asarray, row)) for row in zip(leaves, *columns, strict=True)])


def _arrays(args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments with each leaf as a NumPy array."""
    leaves, spec = pytree.flatten(tuple(args))
    return tuple(pytree.unflatten(spec, [np.asarray(asarray(leaf)) for leaf in leaves]))


def _drawn(tree: Any) -> Any:
    """A tree of random normal numbers with the shapes and dtypes of `tree`; the same for each call."""
    draw = np.random.default_rng(0).normal

    def like(x: np.ndarray) -> np.ndarray:
        numbers = draw(size=x.shape) + (1j * draw(size=x.shape) if x.dtype.kind == "c" else 0)
        return np.asarray(numbers).astype(x.dtype)

    return _mapped(like, tree)


def _bytes_of(tree: Any) -> int:
    """The number of bytes of a real number in the narrowest dtype of the tree."""
    return min((np.asarray(x).real.dtype.itemsize for x in pytree.flatten(tree)[0]), default=8)


def _difference(f: Callable[..., Any], args: Sequence[Any], direction: Any, eps: float | None) -> Any:
    """The central difference of `f` at `args` along a direction, with step `eps` or the default of the dtype."""
    eps = _STEP[_bytes_of(args)] if eps is None else eps
    ends = [f(*_mapped(lambda x, t, s=s: (x + s * t).astype(x.dtype), args, direction)) for s in (eps, -eps)]
    return _mapped(lambda a, b: np.where(a == b, 0, a - b) * (0.5 / eps), *ends)


def _product(xs: Any, ys: Any) -> float:
    """The real part of the sum of products of corresponding elements of two trees."""
    pairs = zip(pytree.flatten(xs)[0], pytree.flatten(ys)[0], strict=True)
    return float(sum(np.sum(np.asarray(x) * np.asarray(y)).real for x, y in pairs))


def _compare(mine: Any, theirs: Any, atol: float | None, rtol: float | None, what: str) -> None:
    """Raises AssertionError unless the trees `mine` and `theirs` agree within the tolerances; `what` begins the message."""
    default = _CLOSE[_bytes_of(mine)]
    atol, rtol = (default if t is None else t for t in (atol, rtol))
    _mapped(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol * max(b.size, 1), atol=atol * max(a.size, 1), err_msg=what),
        mine,
        theirs,
    )
