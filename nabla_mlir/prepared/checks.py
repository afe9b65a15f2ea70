"""Checks of products: symmetry, linearity, and a finite difference, next to the errors that rounding explains."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nabla_mlir import numpy as nnp
from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, TraceError, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.dialects.types import is_float
from nabla_mlir.ops.barrier import optimization_barrier
from nabla_mlir.ops.shape import iota
from nabla_mlir.prepared.blocks import Form, columns, in_a_row, one_by_one
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.tensor import Tensor, constant, full_like
from nabla_mlir.transforms.curvature import hessian_product
from nabla_mlir.transforms.gradients import grad
from nabla_mlir.transforms.vectorize import vmap

Map = Callable[[Any], Any]
_MULTIPLIERS = (0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35)  # odd multipliers; the first is 2^32 over the golden ratio (Knuth's hashing)


def check_linear_map(
    apply: Map,
    transposed: Map | None,
    v_like: Any,
    u_like: Any,
    function: Map | None,
    x: Any,
    form: Form = vmap,
    size: int | None = None,
    form_of_function: Form = vmap,
) -> dict[str, Tensor]:
    """The deviations of a map from linearity, from its transpose, and from the derivative of a function at x.

    It is called inside a trace. The vectors are fixed pseudo-random ones. With v, w like `v_like`, u like `u_like`, and D the
    central difference of the function along v:

    - linearity: ``|A(v + 2w) - Av - 2Aw| / (|Av| + 2|Aw|)``
    - symmetry: ``|uᵀ(Av) - (Aᵀu)ᵀv| / (|u||Av| + |Aᵀu||v|)``
    - rounding: the expected size of these two, ``16 eps sqrt(n)``
    - finite_difference: ``|Av - D| / (|Av| + |D|)``, and expected_difference: an estimate of the error of D, from the
      difference to D with twice the step (Richardson) and the rounding of the function.

    Without `transposed`, the map is its own transpose. The checks work on vectors of all leaves, so the code does not grow
    with their number. The products have the `form` and the `size` of other entry points, and are separated by barriers, so
    that they use the same kernels.
    """
    _require_real(v_like, u_like)
    infos = [nnp.finfo(leaf.dtype) for leaf in pytree.flatten((v_like, u_like))[0]]
    eps, tiny = (max(float(getattr(info, field)) for info in infos) for field in ("eps", "tiny"))
    v, w = (_numbers(v_like, multiplier) for multiplier in _MULTIPLIERS[:2])
    u = _numbers(u_like, _MULTIPLIERS[2])
    images = lambda *vectors: _images(apply, v_like, vectors, form, size)  # noqa: E731
    if transposed is None:
        av, aw, both, atu = images(v, w, v + 2.0 * w, u)
    else:
        (av, aw, both), (atu,) = images(v, w, v + 2.0 * w), _images(transposed, u_like, [u], form, size)
    misfit, point = both - av - 2.0 * aw, _flat(x)
    products = _products((u, av), (atu, v), *((a, a) for a in (av, aw, u, misfit, v, atu, point)))
    through, back = products[:2]
    av_norm, aw_norm, u_norm, misfit_norm, v_norm, atu_norm, at_norm = map(nnp.sqrt, products[2:])
    result = {
        "linearity": misfit_norm / (av_norm + 2.0 * aw_norm + tiny),
        "symmetry": nnp.abs(through - back) / (u_norm * av_norm + v_norm * atu_norm + tiny),
        "rounding": nnp.full((), 16 * eps * v.size**0.5, av.dtype),
    }
    if function is None:
        return result
    step = float(np.cbrt(eps)) * nnp.maximum(1.0, at_norm) / (v_norm + tiny)
    steps = step * constant(np.array([1.0, -1.0, 2.0, -2.0], v.dtype))
    (points,) = optimization_barrier(point + nnp.reshape(steps, (4, 1)) * v)
    found = _images(function, x, [points[i] for i in range(4)], form_of_function)
    near, far = (found[0] - found[1]) / (2.0 * step), (found[2] - found[3]) / (4.0 * step)
    squares = _products(*((a, a) for a in (near, found[0], av - near, far - near)))
    near_norm, found_norm, misfit_norm, curvature = map(nnp.sqrt, squares)
    scale = av_norm + near_norm + tiny
    result["finite_difference"] = misfit_norm / scale
    result["expected_difference"] = (curvature + 4 * eps * found_norm / step) / scale + result["rounding"]
    return result


def check_hvp(f: Callable[..., Any], x: PyTree, *data: PyTree) -> dict[str, Any]:
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
        """The figures of the check, inside a trace."""
        apply = lambda v: hessian_product(f)(x, v, *data)[1]  # noqa: E731
        return check_linear_map(apply, None, x, x, lambda y: grad(f)(y, *data), x)

    return staged(run)(x, *data)


def _require_real(*likes: Any) -> None:
    """Raises DtypeError unless all leaves are real floating-point arrays."""
    for like in pytree.flatten(likes)[0]:
        if not is_float(np.dtype(like.dtype)):
            raise DtypeError(
                f"a check of a linear map requires real vectors, got {like.dtype}.",
                where=user_frame(),
                help="leave self_check out of entry_points.",
            )


def _numbers(like: Any, multiplier: int) -> Tensor:
    """A flat vector of pseudo-random numbers in [-1, 1), one for each element of the arrays in the tree `like`.

    Number i is ``(i + 1) * multiplier`` modulo 2^32, scaled; an odd multiplier makes the sequence irregular.
    """
    leaves, _ = pytree.flatten(like)
    dtype = functools.reduce(np.promote_types, [leaf.dtype for leaf in leaves], leaves[0].dtype)
    # The barrier keeps IREE from compiling a separate program that computes the numbers at compile time.
    (positions,) = optimization_barrier(iota(shape=(sum(map(_size, leaves)),), dtype=np.dtype(np.uint32), iota_dimension=0))
    spread = (positions + full_like(positions, 1)) * full_like(positions, multiplier)
    wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype  # the largest f16 is below 2^32
    return (spread.astype(wide) * 2.0**-31 - 1.0).astype(dtype)


def _flat(tree: Any) -> Tensor:
    """The elements of all arrays of a pytree, one array after the other, as one vector."""
    return nnp.concatenate([nnp.reshape(leaf, (-1,)) for leaf in pytree.flatten(tree)[0]])


def _images(function: Map, like: Any, vectors: Sequence[Tensor], form: Form, size: int | None = None) -> list[Tensor]:
    """The images of flat vectors under a function of pytrees, again as flat vectors.

    `form` transforms the function to a function of several vectors along a leading axis. It is called on blocks of `size` vectors,
    the last of which is padded with zeros. `like` is an argument of the function, or the specs of one: it gives the structure.
    """
    leaves, spec = pytree.flatten(like)
    ends = list(itertools.accumulate(map(_size, leaves), initial=0))
    if form is in_a_row:  # without blocks: the calls are written out one after the other
        trees = [
            pytree.unflatten(
                spec,
                [
                    nnp.reshape(vector[start:end], leaf.shape).astype(leaf.dtype)
                    for leaf, start, end in zip(leaves, ends, ends[1:], strict=False)
                ],
            )
            for vector in vectors
        ]
        first, *others = trees
        *images, last = one_by_one(function, [columns(first), *others])
        return [_flat(image) for image in (*images, columns(last))]
    size = len(vectors) if size is None else size
    if len(vectors) > size:
        return [*_images(function, like, vectors[:size], form, size), *_images(function, like, vectors[size:], form, size)]
    # Whole rows of vectors and images are copied; a copy of a part of a row would need one more dispatch.
    rows = [*optimization_barrier(*vectors), *[nnp.zeros_like(vectors[0])] * (size - len(vectors))]
    parts = [
        nnp.reshape(nnp.stack([row[start:end] for row in rows]), (size, *leaf.shape)).astype(leaf.dtype)
        for leaf, start, end in zip(leaves, ends, ends[1:], strict=False)
    ]
    images = optimization_barrier(*pytree.flatten(form(function)(pytree.unflatten(spec, optimization_barrier(*parts))))[0])
    return [_flat([image[i] for image in images]) for i in range(len(vectors))]


def _size(leaf: Any) -> int:
    """The number of elements of an array or a spec."""
    return math.prod(leaf.shape)


def _products(*pairs: tuple[Tensor, Tensor]) -> list[Tensor]:
    """The inner product of each pair of vectors, in the order of the pairs; pairs of equal size are computed by one reduction."""
    products: dict[int, Tensor] = {}
    for size in dict.fromkeys(a.size for a, _ in pairs):
        positions = [i for i, (a, _) in enumerate(pairs) if a.size == size]
        left, right = (nnp.stack([pairs[i][side] for i in positions]) for side in (0, 1))
        products |= zip(positions, nnp.sum(left * right, axis=1), strict=True)
    return [products[i] for i in range(len(pairs))]


def chosen_entry_points(available: Iterable[str], asked: Sequence[str] | str, default: Sequence[str]) -> list[str]:
    """The names of the entry points of a module, in the order of `available`.

    Args:
      available: all names.
      asked: the requested names, "all", or nothing for the default.
      default: the default; names that do not exist are left out.

    Raises:
      TraceError: a requested entry point does not exist.
    """
    if asked == "all":
        return list(available)
    asked = [asked] if isinstance(asked, str) else asked
    check_entry_points(available, asked)
    return [name for name in available if name in (asked or default)]


def check_entry_points(available: Iterable[str], asked: Sequence[str]) -> None:
    """Raises TraceError, with all names, if one of the names in `asked` is not in `available`."""
    unknown = [n for n in asked if n not in available]
    if unknown:
        raise TraceError(
            f"a prepared product requires entry points among {', '.join(available)}, got {', '.join(unknown)}.", where=user_frame()
        )
