"""Laws that a function obeys, whoever wrote it: its values, its derivatives to second order, and its maps.

Values are compared with a reference; derivatives with differences of the function's own values (forward mode), with each
other (reverse mode), and with differences of gradients (second order); maps with the function on each entry. All of it is
interpreted, so that a case takes milliseconds, and traced once for arguments of the same shapes (by `jit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nabla_mlir as nm
from nabla_mlir.base import pytree

STEP = 1e-5


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in pytree.flatten(tree)[0]]


def agree(got: Any, wanted: Any, tolerance: float = 1e-9, dtypes: bool = False) -> None:
    mine, theirs = leaves(got), leaves(wanted)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert a.shape == b.shape
        if dtypes:
            assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def check_values(f: Callable[..., Any], args: Sequence[Any], reference: Any, tolerance: float = 1e-9) -> None:
    agree(f(*args), reference, tolerance)


def check_maps(f: Callable[..., Any], args: Sequence[Any], tolerance: float = 1e-9) -> None:
    """vmap over two entries, which differ in the numbers of floating point, is the function on each."""
    other = [a * 0.875 if _moves(a) else a for a in args]
    stacked = [np.stack([a, b]) for a, b in zip(args, other, strict=True)]
    out = leaves(nm.vmap(f)(*stacked))
    whole = nm.jit(f)
    for k, entry in enumerate((args, other)):
        agree([o[k] for o in out], leaves(whole(*entry)), tolerance)


def check_derivatives(f: Callable[..., Any], args: Sequence[Any], tolerance: float = 2e-6, second: bool = True) -> None:
    """Forward against differences, reverse against forward, second order against differences of gradients."""
    positions = [i for i, a in enumerate(args) if _moves(a)]
    rng = np.random.default_rng(0)
    weights: list[np.ndarray] = []

    def scalar(*xs: Any) -> Any:
        full = list(args)
        for i, x in zip(positions, xs, strict=True):
            full[i] = x
        total: Any = 0.0
        outs = [o for o in pytree.flatten(f(*full))[0] if o.dtype.kind in "fc"]
        for k, out in enumerate(outs):
            if len(weights) == k:
                weights.append(np.asarray(rng.normal(size=out.shape)))
            total = total + (out.real * weights[k]).sum() + ((out.imag * weights[k]).sum() if out.dtype.kind == "c" else 0.0)
        return total

    points = [np.asarray(args[i], np.float64) for i in positions]
    directions = [np.asarray(rng.normal(size=p.shape)) for p in points]
    ahead, back = ([p + s * STEP * d for p, d in zip(points, directions, strict=True)] for s in (1, -1))
    whole = nm.jit(scalar)
    difference = (float(whole(*ahead)) - float(whole(*back))) / (2 * STEP)
    _, tangent = nm.jvp(scalar, tuple(points), tuple(directions))
    np.testing.assert_allclose(float(tangent), difference, rtol=tolerance, atol=tolerance)
    gradient = nm.jit(nm.grad(scalar, tuple(range(len(points)))))
    product = sum(float((np.asarray(g) * d).sum()) for g, d in zip(gradient(*points), directions, strict=True))
    np.testing.assert_allclose(product, float(tangent), rtol=1e-9, atol=1e-9)
    if not second:
        return
    curvature = nm.hvp(scalar, tuple(range(len(points))))(tuple(points), tuple(directions))
    above, below = gradient(*ahead), gradient(*back)
    for h, a, b in zip(curvature, above, below, strict=True):
        np.testing.assert_allclose(
            np.asarray(h), (np.asarray(a) - np.asarray(b)) / (2 * STEP), rtol=20 * tolerance, atol=20 * tolerance
        )


def _moves(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.dtype == np.float64
