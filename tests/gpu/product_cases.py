"""Products and convolutions of each family, in small sizes, with NumPy's numbers in f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nabla_mlir.passes.iree.gpu.tiles import Tiling

Array = NDArray[Any]
DTYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
SMALL = Tiling(64, 32, 32)


@dataclass(frozen=True)
class Case:
    """An operation on two arrays: its text in StableHLO, and its numbers in f64."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    text: str
    numbers: Callable[[Array, Array], Array]
    tiling: Tiling = SMALL
    element: str = "f32"
    result: str = "f32"

    def arrays(self) -> tuple[Array, Array]:
        """Random factors."""
        rng = np.random.default_rng(0)
        return tuple(rng.standard_normal(shape).astype(DTYPES[self.element]) for shape in (self.left, self.right))  # type: ignore[return-value]

    def module(self, shape: Sequence[int]) -> str:
        """A module with the operation, whose result has this shape."""
        left, right = (_type(s, self.element) for s in (self.left, self.right))
        result = _type(shape, self.result)
        return f"func.func @f(%a: {left}, %b: {right}) -> {result} {{\n  %0 = {self.text} : ({left}, {right}) -> {result}\n  return %0 : {result}\n}}"


def _type(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


def dot(
    left: tuple[int, ...],
    right: tuple[int, ...],
    inner: tuple[list[int], list[int]],
    einsum: str,
    batch: tuple[list[int], list[int]] | None = None,
    **options: Any,
) -> Case:
    """A dot_general with its formula for numpy.einsum."""
    batching = f"batching_dims = {batch[0]} x {batch[1]}, " if batch else ""
    text = f"stablehlo.dot_general %a, %b, {batching}contracting_dims = {inner[0]} x {inner[1]}"
    return Case(left, right, text, lambda a, b: np.einsum(einsum, a, b), **options)


def convolution(
    left: tuple[int, ...],
    right: tuple[int, ...],
    dims: str,
    *,
    stride: Sequence[int] = (1, 1),
    pad: Sequence[Sequence[int]] = ((0, 0), (0, 0)),
    lhs: Sequence[int] = (1, 1),
    rhs: Sequence[int] = (1, 1),
    reverse: Sequence[bool] = (False, False),
    features: int = 1,
    batches: int = 1,
    **options: Any,
) -> Case:
    """A convolution; `dims` are those of StableHLO, such as [b,0,1,f]x[0,1,i,o]->[b,0,1,f]."""
    window = (
        f"window = {{stride = {list(stride)}, pad = {[list(p) for p in pad]}, lhs_dilate = {list(lhs)}, rhs_dilate = {list(rhs)}, "
        f"reverse = {str([bool(r) for r in reverse]).lower()}}}"
    )
    groups = f"{{batch_group_count = {batches} : i64, feature_group_count = {features} : i64}}"
    text = f"stablehlo.convolution(%a, %b) dim_numbers = {dims}, {window} {groups}"

    def numbers(a: Array, b: Array) -> Array:
        return _convolved(a, b, dims, stride, pad, lhs, rhs, reverse, features, batches)

    return Case(left, right, text, numbers, **options)


def _convolved(
    a: Array,
    b: Array,
    dims: str,
    stride: Sequence[int],
    pad: Sequence[Sequence[int]],
    lhs: Sequence[int],
    rhs: Sequence[int],
    reverse: Sequence[bool],
    features: int,
    batches: int,
) -> Array:
    """The definition of a convolution: images are padded and dilated, and each tap of the kernel is one product."""
    names = [part.strip("[]").split(",") for part in dims.replace("->", "x").split("x")]
    rank = len(stride)
    axes = [str(d) for d in range(rank)]
    x = a.transpose([names[0].index(n) for n in ("b", "f", *axes)])
    w = b.transpose([names[1].index(n) for n in ("o", "i", *axes)])
    for d in range(rank):
        if reverse[d]:
            w = np.flip(w, 2 + d)
        x, w = (_dilated(y, 2 + d, n) for y, n in ((x, lhs[d]), (w, rhs[d])))
    x = np.pad(x, [(0, 0), (0, 0), *((max(low, 0), max(high, 0)) for low, high in pad)])
    x = x[(slice(None), slice(None), *(slice(max(-low, 0), min(high, 0) or None) for low, high in pad))]
    group = max(features, batches)
    parts = []
    for g, filters in enumerate(np.split(w, group)):
        images = np.split(x, batches)[g] if batches > 1 else np.split(x, features, axis=1)[g]
        windows = np.lib.stride_tricks.sliding_window_view(images, w.shape[2:], tuple(range(2, 2 + rank)))
        windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in stride))]
        letters = "xyz"[:rank]
        parts.append(np.einsum(f"bi{letters}{letters.upper()},oi{letters.upper()}->bo{letters}", windows, filters))
    result = np.concatenate(parts, axis=1)
    return result.transpose([("b", "f", *axes).index(n) for n in names[2]])


def _dilated(x: Array, axis: int, factor: int) -> Array:
    shape = list(x.shape)
    shape[axis] = (shape[axis] - 1) * factor + 1
    result = np.zeros(shape, x.dtype)
    result[(slice(None),) * axis + (slice(None, None, factor),)] = x
    return result


NHWC, NCHW = "[b,0,1,f]x[0,1,i,o]->[b,0,1,f]", "[b,f,0,1]x[o,i,0,1]->[b,f,0,1]"
SAME = ((1, 1), (1, 1))
CASES = {
    "plain": dot((64, 64), (64, 64), ([1], [0]), "ij,jk->ik"),
    "left transposed": dot((40, 72), (40, 48), ([0], [0]), "ji,jk->ik"),
    "right transposed": dot((72, 40), (48, 40), ([1], [1]), "ij,kj->ik"),
    "both transposed": dot((40, 72), (48, 40), ([0], [1]), "ji,kj->ik"),
    "batched": dot((3, 40, 36), (3, 36, 44), ([2], [1]), "bij,bjk->bik", ([0], [0])),
    "heads": dot((2, 20, 3, 16), (2, 24, 3, 16), ([3], [3]), "bshd,bthd->bhst", ([0, 2], [0, 2])),
    "odd sizes": dot((67, 29), (29, 53), ([1], [0]), "ij,jk->ik"),
    "few rows": dot((5, 70), (70, 64), ([1], [0]), "ij,jk->ik", tiling=Tiling(16, 64, 64)),
    "splits": dot((40, 300), (300, 36), ([1], [0]), "ij,jk->ik", tiling=Tiling(64, 32, 32, splits=4)),
    "several inner axes": dot((30, 6, 10), (10, 28, 6), ([1, 2], [2, 0]), "ijk,klj->il"),
    "several free axes": dot((4, 9, 32), (32, 5, 8), ([2], [0]), "ijk,klm->ijlm"),
    "large tiles": dot((130, 50), (50, 70), ([1], [0]), "ij,jk->ik", tiling=Tiling(128, 64, 32)),
    "long inner tiles": dot((64, 130), (130, 64), ([1], [0]), "ij,jk->ik", tiling=Tiling(64, 64, 64)),
    "wide tiles": dot((64, 70), (70, 130), ([1], [0]), "ij,jk->ik", tiling=Tiling(64, 128, 32)),
    "bf16": dot((70, 90), (90, 50), ([1], [0]), "ij,jk->ik", element="bf16", tiling=Tiling(64, 64, 32)),
    "bf16 to bf16": dot((70, 90), (90, 50), ([1], [0]), "ij,jk->ik", element="bf16", result="bf16", tiling=Tiling(64, 64, 32)),
    "f16 to f16": dot((90, 70), (90, 50), ([0], [0]), "ji,jk->ik", element="f16", result="f16", tiling=Tiling(64, 128, 32)),
    "convolution": convolution((2, 7, 8, 12), (3, 3, 12, 20), NHWC, pad=SAME),
    "strided": convolution((2, 9, 8, 8), (3, 3, 8, 16), NHWC, stride=(2, 2), pad=SAME),
    "kernel dilated": convolution((1, 10, 9, 8), (3, 2, 8, 16), NHWC, rhs=(2, 3), pad=SAME),
    "images dilated": convolution((2, 5, 4, 8), (3, 3, 8, 16), NHWC, lhs=(2, 2), pad=((2, 1), (1, 2))),
    "both dilated": convolution((1, 5, 4, 8), (3, 3, 8, 16), NHWC, lhs=(2, 3), rhs=(2, 1), pad=((2, 2), (1, 1))),
    "reversed": convolution((2, 6, 6, 8), (3, 3, 8, 16), NHWC, reverse=(True, True), pad=SAME),
    "groups of features": convolution((2, 6, 7, 12), (3, 3, 4, 18), NHWC, features=3, pad=SAME),
    "groups of images": convolution((6, 6, 7, 5), (3, 3, 5, 18), NHWC, batches=3, pad=SAME),
    "gradient of the kernel": convolution((2, 8, 9, 6), (2, 8, 9, 20), "[f,0,1,b]x[i,0,1,o]->[0,1,b,f]", pad=SAME),
    "gradient of a strided kernel": convolution(
        (2, 8, 8, 6), (2, 4, 4, 20), "[f,0,1,b]x[i,0,1,o]->[0,1,b,f]", pad=((1, 0), (1, 0)), rhs=(2, 2)
    ),
    "channels first": convolution((2, 12, 7, 8), (20, 12, 3, 3), NCHW, pad=SAME),
    "one axis": convolution(
        (3, 40, 10), (5, 10, 24), "[b,0,f]x[0,i,o]->[b,0,f]", stride=(3,), pad=((2, 2),), lhs=(1,), rhs=(1,), reverse=(False,)
    ),
    "padding below zero": convolution((2, 9, 9, 8), (3, 3, 8, 16), NHWC, pad=((-1, 0), (1, -2))),
}
