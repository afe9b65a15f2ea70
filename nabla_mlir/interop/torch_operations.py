"""Operations of PyTorch that torch-mlir does not lower, or lowers incorrectly, as functions of tensors of nabla_mlir.

The arguments of each function follow the schema of the operation in ATen: tensors, numbers, strings, tuples or None.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir import random
from nabla_mlir.base.errors import ImportIRError
from nabla_mlir.interop import torch_losses
from nabla_mlir.jax.mirrored import original
from nabla_mlir.jax.scipy import special
from nabla_mlir.numpy import fft, linalg
from nabla_mlir.numpy.reductions import widened
from nabla_mlir.ops import chlo, elementwise
from nabla_mlir.ops.windows import reduce_window, window_params
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.transforms import stop_gradient
from nabla_mlir.transforms.scans import associative_scan

# ---------------------------------------------------------------- arithmetic


def _sum(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x + y * alpha


def _difference(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x - y * alpha


# ---------------------------------------------------------------- order


def _at_rank(x: Tensor, rank: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The element with index `rank` in sorted order, and its index in x; NaNs are sorted last."""
    where = nnp.take(nnp.argsort(x, dim), np.array([rank]), dim)
    values = nnp.take_along_axis(x, where, dim)
    return (values, where) if keepdim else (nnp.squeeze(values, dim), nnp.squeeze(where, dim))


def _median(x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The median, and its index: the lower one of two middle elements; NaN if any element is NaN."""
    values, where = _at_rank(x, (x.shape[dim] - 1) // 2, dim, keepdim)
    return nnp.where(nnp.any(nnp.isnan(x), dim, keepdims=keepdim), np.nan, values).astype(x.dtype), where


def _running(is_better: Callable[[Any, Any], Any]) -> Callable[[Tensor, int], tuple[Tensor, Tensor]]:
    """A function for cummax or cummin: it returns the best element up to each index, and the last index at which it occurs.

    `is_better` compares two arrays element by element.
    """

    def best(a: Any, b: Any) -> Any:
        """The better one of two pairs (value, index)."""
        is_second = is_better(b[0], a[0])
        return nnp.where(is_second, b[0], a[0]), nnp.where(is_second, b[1], a[1])

    def run(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """The best element up to each index along axis `dim`, and the last index at which it occurs."""
        axis = dim % x.ndim
        positions = np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        return associative_scan(best, (x, nnp.broadcast_to(positions, x.shape)), axis=axis)

    return run


def _searchsorted(rows: Any, x: Any, out_int32: bool, right: bool, side: str | None, sorter: Any) -> Tensor:
    """The index at which each element of x is inserted into the sorted rows, before or after equal elements."""
    if sorter is not None:
        rows = nnp.take_along_axis(rows, sorter, -1)
    rows = nnp.reshape(rows, (*rows.shape[:-1], *(1,) * (x.ndim - rows.ndim + 1), rows.shape[-1]))
    before = rows <= x[..., None] if right or side == "right" else rows < x[..., None]
    return nnp.count_nonzero(before if rows.ndim <= x.ndim + 1 else nnp.squeeze(before, -2), -1)


# ---------------------------------------------------------------- indexing


def _diagonal_scatter(x: Any, values: Tensor, offset: int = 0, first: int = 0, second: int = 1) -> Tensor:
    """A copy of x in which `values` replaces the diagonal between the axes `first` and `second`."""
    positions = np.diagonal(np.arange(int(np.prod(x.shape))).reshape(x.shape), offset, first, second)
    return nnp.reshape(x.reshape(-1).at[positions.ravel()].set(nnp.reshape(values, (-1,))), x.shape)


def _unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """All windows of length `size` along an axis, which begin every `step` elements, as a new last axis."""
    axis = dim % x.ndim if x.ndim else 0
    starts = np.arange(0, x.shape[axis] - size + 1, step)
    return nnp.moveaxis(nnp.take(x, starts[:, None] + np.arange(size), axis), axis + 1, -1)


def _scatter_reduce(x: Any, dim: int, index: Tensor, values: Any, reduce: str, include_self: bool = True) -> Tensor:
    """A copy of x in which each value is combined with the element at its index along the axis `dim`."""
    combiners = {"sum": "add", "prod": "multiply", "amax": "max", "amin": "min"}
    if reduce not in combiners or not include_self:
        raise ImportIRError(
            f"from_torch requires a scatter_reduce of {', '.join(combiners)} that includes the tensor "
            f"itself, got {reduce} with include_self={include_self}."
        )
    positions = list(np.indices(index.shape))
    positions[dim % x.ndim] = index
    updates = values[tuple(slice(n) for n in index.shape)]
    return getattr(x.at[tuple(positions)], combiners[reduce])(updates)


def _embedding(
    rows: Tensor, positions: Tensor, padding: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """The rows at some positions; row `padding` gets no gradient, which torch-mlir ignores."""
    if scale_grad_by_freq:
        raise ImportIRError("from_torch requires an embedding whose gradient is not scaled, got scale_grad_by_freq=True.")
    found = nnp.take(rows, positions, 0)
    if padding < 0:
        return found
    return nnp.where((positions == padding)[..., None], stop_gradient(found), found)


# ---------------------------------------------------------------- windows


def _each(value: Sequence[int] | int, rank: int) -> tuple[int, ...]:
    """One number for each of `rank` axes: a single number is repeated. `value` is a number or a list of `rank` numbers."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * rank if len(numbers) == 1 else numbers


def _ends(n: int, window: int, stride: int, pad: int, ceil: bool) -> tuple[int, int]:
    """The padding at the start and at the end of an axis of length n. With `ceil`, the last window may end outside if it starts
    inside.
    """
    steps = (n + 2 * pad - window + (stride - 1 if ceil else 0)) // stride
    if ceil and steps * stride >= n + pad:
        steps -= 1
    return pad, steps * stride + window - n - pad


def _windows(
    x: Tensor,
    body: str,
    start: float,
    windows: Sequence[int],
    strides: Sequence[int],
    ends: Sequence[tuple[int, int]],
    dilations: Sequence[int],
) -> Tensor:
    """The windows of the last axes of x, each reduced by the operation `body` from the value `start`; the first axes stay.

    `ends` has the padding before and after each axis. `windows`, `strides` and `dilations` have one number for each windowed axis.
    """
    ones = (1,) * (x.ndim - len(windows))  # along the first axes, each element is a window of its own
    params = window_params(
        x.ndim,
        window_dimensions=(*ones, *windows),
        window_strides=(*ones, *strides),
        window_dilations=(*ones, *dilations),
        padding=(*((0, 0) for _ in ones), *ends),
    )
    return reduce_window(x, full((), start, x.dtype), body=body, **params)


def _max_pool(rank: int, with_positions: bool = False) -> Callable[..., Any]:
    """A function that computes the max pool over `rank` spatial axes; with `with_positions`, also the index of each largest
    element.
    """

    def pool(x: Tensor, windows: Any, strides: Any = (), pads: Any = 0, dilations: Any = 1, ceil: bool = False) -> Any:
        """The largest element of each window, and its index in the flattened spatial axes if requested."""
        windows, pads, dilations = (_each(value, rank) for value in (windows, pads, dilations))
        strides = _each(strides, rank) or windows
        sizes = x.shape[-rank:]
        spans = [d * (w - 1) + 1 for w, d in zip(windows, dilations, strict=True)]
        ends = [_ends(*of, ceil) for of in zip(sizes, spans, strides, pads, strict=True)]
        best = _windows(x, "max", -np.inf, windows, strides, ends, dilations)
        if not with_positions:
            return best
        steps = [
            np.arange(count)[:, None] * s - p + d * np.arange(w)
            for count, s, p, d, w in zip(best.shape[-rank:], strides, pads, dilations, windows, strict=True)
        ]
        return best, _positions_of_largest(x, sizes, steps)

    return pool


def _positions_of_largest(x: Tensor, sizes: Sequence[int], steps: Sequence[np.ndarray]) -> Tensor:
    """The index of the largest element of each window, in the flattened spatial axes.

    Args:
      x: an array (..., *spatial).
      sizes: the lengths of the spatial axes.
      steps: for each spatial axis, the index of each element of each window, shape (windows, elements); indices may be outside.
    """
    grids = [np.stack(np.meshgrid(*of, indexing="ij")) for of in ([s[:, 0] for s in steps], [s[0] - s[0, 0] for s in steps])]
    rank = len(sizes)
    positions = grids[0].reshape(rank, -1, 1) + grids[1].reshape(rank, 1, -1)  # start of each window + offset inside
    inside = np.all((positions >= 0) & (positions < np.array(sizes).reshape(-1, 1, 1)), axis=0)
    flat = np.where(inside, np.ravel_multi_index(tuple(positions), sizes, mode="clip"), 0)
    rows = nnp.reshape(x, (*x.shape[: x.ndim - rank], -1))
    patches = nnp.where(inside, nnp.take(rows, flat, -1), -np.inf)
    largest = nnp.take_along_axis(nnp.broadcast_to(flat, patches.shape), nnp.argmax(patches, -1)[..., None], -1)
    return nnp.reshape(largest, (*rows.shape[:-1], *grids[0].shape[1:]))


def _avg_pool(rank: int) -> Callable[..., Tensor]:
    """A function that computes the average pool over `rank` spatial axes."""

    def pool(
        x: Tensor,
        windows: Any,
        strides: Any = (),
        pads: Any = 0,
        ceil: bool = False,
        count_pads: bool = True,
        divisor: int | None = None,
    ) -> Tensor:
        """The mean of each window: its sum over the divisor, or over the number of its elements, with or without the padding."""
        windows, pads, ones = (_each(value, rank) for value in (windows, pads, 1))
        strides = _each(strides, rank) or windows
        ends = [_ends(*of, ceil) for of in zip(x.shape[-rank:], windows, strides, pads, strict=True)]
        sums = _windows(widened(x), "add", 0, windows, strides, ends, ones)
        if divisor is not None:
            return (sums / divisor).astype(x.dtype)
        counts = np.ones(())  # the number of elements of each window, as a product over the axes
        for n, window, stride, pad, (_, high) in zip(x.shape[-rank:], windows, strides, pads, ends, strict=True):
            starts = np.arange(-pad, n + high - window + 1, stride)
            low, last = (-pad, n + pad) if count_pads else (0, n)
            counts = counts[..., None] * (np.minimum(starts + window, last) - np.maximum(starts, low))
        return (sums / counts.astype(sums.dtype)).astype(x.dtype)

    return pool


def _adaptive(n: int, count: int) -> list[tuple[int, int]]:
    """The starts and ends of `count` windows that cover an axis of length n."""
    return [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]


def _adaptive_avg_pool(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """The means of windows that cover the spatial axes, with `sizes[i]` windows along spatial axis i."""
    for i, count in enumerate(sizes):
        axis = x.ndim - len(sizes) + i
        parts = [nnp.mean(_between(x, axis, *ends), axis) for ends in _adaptive(x.shape[axis], count)]
        x = nnp.stack(parts, axis)
    return x


def _adaptive_max_pool(x: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The largest elements of `sizes` windows along the spatial axes, and their indices in the flattened spatial axes."""
    spatial = x.shape[-len(sizes) :]
    flat, numbers = x.reshape(*x.shape[: -len(sizes)], -1), np.arange(int(np.prod(spatial))).reshape(spatial)
    positions = []
    for ends in itertools.product(*(_adaptive(n, count) for n, count in zip(spatial, sizes, strict=True))):
        inside = numbers[tuple(slice(*pair) for pair in ends)].ravel()
        positions.append(nnp.take(inside, nnp.argmax(nnp.take(flat, inside, -1), -1)))
    positions_of_largest = nnp.stack(positions, -1)
    shape = (*x.shape[: -len(sizes)], *sizes)
    return nnp.take_along_axis(flat, positions_of_largest, -1).reshape(shape), positions_of_largest.reshape(shape)


def _between(x: Tensor, axis: int, start: int, end: int) -> Tensor:
    return x[tuple(slice(start, end) if i == axis else slice(None) for i in range(x.ndim))]


def _nearest(rank: int) -> Callable[..., Tensor]:
    """A function that resizes `rank` spatial axes to the nearest neighbours."""

    def upsample(x: Tensor, sizes: Any, scales: Any) -> Tensor:
        """x with each spatial axis resized to the sizes, or by the scales."""
        for i, n in enumerate(x.shape[-rank:]):
            length = sizes[i] if sizes is not None else int(n * scales[i])
            ratio = n / length if scales is None else 1 / scales[i]
            positions = np.minimum((np.arange(length) * ratio).astype(np.int64), n - 1)
            x = nnp.take(x, positions, x.ndim - rank + i)
        return x

    return upsample


# ---------------------------------------------------------------- draws: each operation has its own constant key


def _dropout(key: Any, x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """A copy of x in which random elements are zero and the others are divided by 1 - p, and the mask of the others.

    With `train=False` x is unchanged.
    """
    if train is False:
        return x, nnp.ones_like(x, dtype=bool)
    mask = random.bernoulli(key, 1 - p, x.shape)
    return nnp.where(mask, x / (1 - p if p < 1 else 1), nnp.zeros_like(x)), mask


DRAWS: dict[str, Callable[..., Any]] = {
    "torch.aten.native_dropout": _dropout,
    "torch.aten.bernoulli.p": lambda key, x, p, generator=None: random.bernoulli(key, p, x.shape).astype(x.dtype),
    "torch.aten.rand_like": lambda key, x, *_: random.uniform(key, x.shape, x.dtype),
    "torch.aten.randn_like": lambda key, x, *_: random.normal(key, x.shape, x.dtype),
    "torch.aten.rand": lambda key, shape, *_: random.uniform(key, shape),
    "torch.aten.randn": lambda key, shape, *_: random.normal(key, shape),
}

# ---------------------------------------------------------------- linear algebra


def _transposed(a: Tensor) -> Tensor:
    return nnp.swapaxes(a, -1, -2)


def _solve(a: Tensor, b: Tensor, left: bool = True) -> Tensor:
    """The solution of a @ x = b, where b is a vector or a matrix, or of x @ a = b without `left`."""
    if b.ndim == 1 or b.shape == a.shape[:-1]:
        return linalg.solve(a, b[..., None])[..., 0]
    return linalg.solve(a, b) if left else _transposed(linalg.solve(_transposed(a), _transposed(b)))


def _solve_triangular(a: Tensor, b: Tensor, upper: bool, left: bool = True, unit: bool = False) -> Tensor:
    return linalg.triangular_solve(a, b, lower=not upper, left_side=left, unit_diagonal=unit)


def _cholesky_solve(b: Tensor, root: Tensor, upper: bool = False) -> Tensor:
    """The solution of (root @ rootᵀ) x = b; with `upper`, `root` is the transpose of the lower factor."""
    root = _transposed(root) if upper else root
    return _solve_triangular(_transposed(root), _solve_triangular(root, b, False), True)


def _pinv(a: Tensor, *tolerances: Any) -> Tensor:
    """The pseudoinverse of a, with default tolerances; raises ImportIRError for others."""
    if any(tolerances):
        raise ImportIRError(f"from_torch requires linalg_pinv with its default tolerances, got {tolerances}.")
    return linalg.pinv(a)


def _distances(x: Tensor, y: Tensor, p: float = 2.0, mode: int | None = None) -> Tensor:
    return linalg.norm(x[..., :, None, :] - y[..., None, :, :], p, -1)


# ---------------------------------------------------------------- the tables

_ATEN: dict[str, Callable[..., Any]] = {
    **{name: original(f) for name, f in (
        ("erfc", special.erfc), ("erfinv", special.erfinv), ("lgamma", special.gammaln), ("digamma", special.digamma),
        ("polygamma", special.polygamma), ("special_zeta", special.zeta))},
    "special_i1e": chlo.bessel_i1e, "hypot": nnp.hypot,
    "nextafter": chlo.next_after,
    "remainder.Tensor": nnp.remainder, "remainder.Scalar": lambda x, y: nnp.remainder(x, nnp.full((), y, x.dtype)),
    "fmod.Scalar": lambda x, y: nnp.fmod(x, nnp.full((), y, x.dtype)),
    **{f"__{name}__.{kind}": f for kind in ("Scalar", "Tensor") for name, f in (
        ("lshift", nnp.bitwise_left_shift), ("rshift", nnp.bitwise_right_shift))},
    "cumprod": lambda x, dim, dtype=None: nnp.cumprod(x, dim),
    "cummax": _running(operator.ge), "cummin": _running(operator.le),
    "kthvalue": lambda x, k, dim=-1, keepdim=False: _at_rank(x, k - 1, dim, keepdim), "median.dim": _median,
    "median": lambda x: _median(nnp.reshape(x, (-1,)), 0, False)[0], "searchsorted.Tensor": _searchsorted,
    "diagonal": nnp.diagonal, "diagonal_scatter": _diagonal_scatter, "unfold": _unfold,
    "scatter_reduce.two": _scatter_reduce, "cdist": _distances,
    "embedding": _embedding, "multilabel_margin_loss_forward": torch_losses.multilabel_margin_loss,
    **{f"fractional_max_pool{rank}d": torch_losses.fractional_max_pool(rank) for rank in (2, 3)},
    **{f"max_pool{rank}d": _max_pool(rank) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d_with_indices": _max_pool(rank, with_positions=True) for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d": _avg_pool(rank) for rank in (1, 2, 3)},
    "_adaptive_avg_pool3d": _adaptive_avg_pool, "adaptive_max_pool3d": _adaptive_max_pool,
    **{f"upsample_nearest{rank}d.vec": _nearest(rank) for rank in (1, 2, 3)},
    "linalg_inv": linalg.inv, "linalg_det": linalg.det, "linalg_slogdet": linalg.slogdet, "linalg_solve": _solve,
    "linalg_solve_triangular": _solve_triangular, "cholesky_solve": _cholesky_solve,
    "linalg_cholesky": lambda a, upper=False: linalg.cholesky(a, upper=upper, symmetrize_input=False),
    "linalg_qr": linalg.qr, "linalg_svd": lambda a, full=True, driver=None: linalg.svd(a, full),
    "linalg_svdvals": lambda a, driver=None: linalg.svdvals(a), "linalg_eigh": linalg.eigh,
    "linalg_eigvalsh": linalg.eigvalsh, "linalg_matrix_exp": linalg.expm,
    "linalg_pinv": _pinv, "linalg_pinv.atol_rtol_tensor": _pinv, "linalg_pinv.atol_rtol_float": _pinv,
    **{f"fft_{name}": getattr(fft, name) for name in (
        "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn",
        "irfftn", "fftshift", "ifftshift")},
    "complex": elementwise.make_complex,
    "polar": lambda size, arg: elementwise.make_complex(size * nnp.cos(arg), size * nnp.sin(arg)),
    "angle": nnp.angle, "view_as_real": lambda z: nnp.stack([nnp.real(z), nnp.imag(z)], -1),
    "view_as_complex": lambda x: elementwise.make_complex(x[..., 0], x[..., 1]),
}  # fmt: skip

OPERATIONS: dict[str, Callable[..., Any]] = {
    "torch.nabla_mlir.stop_gradient": stop_gradient, "torch.nabla_mlir.ctc_loss": torch_losses.ctc_loss,
    **{f"torch.aten.{name}": f for name, f in _ATEN.items()},
}  # fmt: skip
# Operations that torch-mlir lowers only for real numbers.
COMPLEX: dict[str, Callable[..., Any]] = {
    **{f"torch.aten.{name}.{kind}": f for kind in ("Tensor", "Scalar") for name, f in (
        ("mul", operator.mul), ("div", operator.truediv), ("add", _sum), ("sub", _difference))},
    **{f"torch.aten.{name}": f for name, f in (
        ("neg", nnp.negative), ("abs", nnp.abs), ("exp", nnp.exp), ("conj", nnp.conj), ("_conj", nnp.conj),
        ("conj_physical", nnp.conj), ("real", nnp.real), ("imag", nnp.imag), ("matmul", nnp.matmul), ("mm", nnp.matmul),
        ("bmm", nnp.matmul))},
}  # fmt: skip
