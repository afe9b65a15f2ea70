"""Is a product right? Symmetry, linearity, and a finite difference, with the errors that rounding explains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nabla_mlir import numpy as nnp
from nabla_mlir import pytree
from nabla_mlir.dialects.types import is_float
from nabla_mlir.errors import DtypeError, TraceError, user_frame
from nabla_mlir.ops.shape import iota
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.curvature import hessian_product
from nabla_mlir.transforms.gradients import grad
from nabla_mlir.transforms.vectorize import vmap

Map = Callable[[Any], Any]
GOLDEN = 0.6180339887498949


def check_linear_map(
    apply: Map, transposed: Map, v_like: Any, u_like: Any, function: Callable[[Any], Any] | None, x: Any
) -> dict[str, Tensor]:
    """How far a map is from linear, from adjoint to its transposed, and from the derivative of a function at x.

    Inside a trace; the vectors are fixed and look random. With v, w like `v_like`, u like `u_like`, and D the central
    difference of the function along v:

    - linearity: ``|A(v + 2w) - Av - 2Aw| / (|Av| + 2|Aw|)``
    - symmetry: ``|uᵀ(Av) - (Aᵀu)ᵀv| / (|u||Av| + |Aᵀu||v|)``
    - rounding: what is expected of these two: ``16 eps sqrt(n)``
    - finite_difference: ``|Av - D| / (|Av| + |D|)``, and expected_difference: an estimate of the error of D, from the
      difference to D with twice the step (Richardson) and the rounding of the function.
    """
    _require_real(v_like, u_like)
    (v, v_norm), (w, _), (u, u_norm) = (_vector(x, p) for x, p in ((v_like, 1.0), (v_like, 2.0), (u_like, 3.0)))
    three = _map(lambda p, q: nnp.stack([p, q, p + 2.0 * q]), v, w)
    images = vmap(apply)(three)
    av, aw, both = (_map(lambda y, i=i: y[i], images) for i in range(3))
    atu = transposed(u)
    av_norm, dtype = _norm(av), pytree.flatten(av)[0][0].dtype
    eps, tiny = float(nnp.finfo(dtype).eps), float(nnp.finfo(dtype).tiny)
    size = sum(leaf.size for leaf in pytree.flatten(v)[0])
    result = {
        "linearity": _norm(_map(lambda p, q, r: r - p - 2.0 * q, av, aw, both)) / (av_norm + 2.0 * _norm(aw) + tiny),
        "symmetry": nnp.abs(_dot(u, av) - _dot(atu, v)) / (u_norm * av_norm + v_norm * _norm(atu) + tiny),
        "rounding": nnp.full((), 16 * eps * size**0.5, dtype),
    }
    if function is None:
        return result
    step = float(np.cbrt(eps)) * nnp.maximum(1.0, _norm(x)) / v_norm
    at = vmap(lambda s: function(_sum(x, v, s * step)))(nnp.asarray([1.0, -1.0, 2.0, -2.0], step.dtype))
    near, far = (_map(lambda y, i=i, n=n: (y[i] - y[i + 1]) / (2.0 * n * step), at) for i, n in ((0, 1), (2, 2)))
    scale = av_norm + _norm(near) + tiny
    rounding = 4 * eps * _norm(_map(lambda y: y[0], at)) / step
    result["finite_difference"] = _norm(_sum(av, near, -1.0)) / scale
    result["expected_difference"] = (_norm(_sum(far, near, -1.0)) + rounding) / scale + result["rounding"]
    return result


def check_hvp(f: Callable[..., Any], x: Any, *data: Any) -> dict[str, Any]:
    """Checks the Hessian-vector product of a scalar function at x; see `check_linear_map` for the figures.

    Returns:
      linearity, symmetry and rounding; finite_difference and expected_difference. Each of the first two should be
      below `rounding`, and finite_difference below expected_difference.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> report = nm.check_hvp(lambda x: (x ** 4).sum(), np.array([1.0, 2.0]))
      >>> bool(report["finite_difference"] < report["expected_difference"])
      True
    """

    def run(x: Any, *data: Any) -> dict[str, Tensor]:
        apply = lambda v: hessian_product(f)(x, v, *data)[1]  # noqa: E731
        return check_linear_map(apply, apply, x, x, lambda y: grad(f)(y, *data), x)

    return staged(run)(x, *data)


def _require_real(*likes: Any) -> None:
    for like in pytree.flatten(likes)[0]:
        if not is_float(np.dtype(like.dtype)):
            raise DtypeError(f"a check of a linear map requires real vectors, got {like.dtype}.", where=user_frame(),
                             help="leave self_check out of entry_points.")  # fmt: skip


def _map(function: Callable[..., Any], *trees: Any) -> Any:
    leaves, spec = zip(*(pytree.flatten(t) for t in trees), strict=True)
    return pytree.unflatten(spec[0], [function(*group) for group in zip(*leaves, strict=True)])


def _vector(like: Any, phase: float) -> tuple[Any, float]:
    """Numbers between -1 and 1 without a pattern, the multiples of the golden ratio modulo 1; and their norm."""
    leaves, spec = pytree.flatten(like)
    square = 0.0

    def one(i: int, x: Any) -> Tensor:
        nonlocal square
        count = int(np.prod(x.shape, dtype=int))
        exact = (np.arange(count) + phase * (i + 1)) * GOLDEN
        square += float(np.sum((2.0 * (exact - np.floor(exact)) - 1.0) ** 2))
        places = iota(shape=(count,), dtype=np.dtype(x.dtype), iota_dimension=0)
        turns = (places + phase * (i + 1)) * GOLDEN
        return nnp.reshape(2.0 * (turns - nnp.floor(turns)) - 1.0, x.shape)

    return pytree.unflatten(spec, [one(i, x) for i, x in enumerate(leaves)]), max(square, 1e-30) ** 0.5


def _sum(a: Any, b: Any, scale: Any) -> Any:
    return _map(lambda p, q: p + q * scale, a, b)


def _dot(a: Any, b: Any) -> Any:
    return sum(pytree.flatten(_map(lambda p, q: nnp.sum(p * q), a, b))[0])


def _norm(a: Any) -> Any:
    return nnp.sqrt(_dot(a, a))


def check_entry_points(available: Iterable[str], asked: Sequence[str]) -> None:
    """Raises TraceError unless there are all that are asked for."""
    unknown = [n for n in asked if n not in available]
    if unknown:
        raise TraceError(f"a prepared product has the entry points {', '.join(available)}, got {', '.join(unknown)}.",
                         where=user_frame())  # fmt: skip
