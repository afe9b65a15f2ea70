"""Convolutions of an image with zeros between its elements, as convolutions without them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.pattern import attributes_of
from nabla_mlir.passes.iree.scheduling.nests import replace_product
from nabla_mlir.passes.iree.scheduling.packed_factors import packed_product
from nabla_mlir.passes.iree.scheduling.views import Padding
from nabla_mlir.passes.iree.scheduling.windows import Window


@register
@dataclass(frozen=True)
class SplitDilatedConvolutionsPass(Pass):
    """Replace each large convolution of an image with d - 1 zeros between neighbours by d convolutions of the image itself.

    The gradient of a strided convolution with respect to its image has this form. The positions p = d t + r with one r read every
    d-th element of the kernel, from a start that depends on r. So y[d t + r] is a separate convolution over t, and no product
    with a zero is left. Two axes with d = 2 need a quarter of the multiplications.

    Example: tests/filecheck/passes/split_dilated_convolutions.mlir
    """

    name: ClassVar[str] = "nabla-split-dilated-convolutions"
    vector_bytes: int = 64  # width of the CPU's vector registers

    def run(self, module: ir.Operation) -> None:
        """Replaces large convolutions of images with zeros between elements, in place."""
        for op in nested_in_functions(module):
            if op.name == "stablehlo.convolution" and self._has_large_parts(op):
                _split(op)

    def _has_large_parts(self, op: ir.Operation) -> bool:
        """True if the convolutions without zeros (one for each phase) are large enough for the kernel."""
        if (large := packed_product(op, self.vector_bytes)) is None:
            return False
        phases = math.prod(_phases(Window.of(op), axis) for axis in range(len(op.results[0].type.shape) - 2))
        product = large.product
        return phases > 1 and math.prod((*product.batch, *product.sizes)) >= phases**2 * thresholds.PACKED_PRODUCT


def _phases(window: Window, axis: int) -> int:
    """The number d of phases of a window along a spatial axis (see `Phase`); 1 if the axis is not split."""
    step = window.padding[axis].interior + 1
    return step if window.strides[axis] == 1 and math.gcd(step, window.dilation[axis]) == 1 else 1


class Phase(NamedTuple):
    """The positions r, r + d, r + 2 d, ... along an axis, as a convolution of the image without its zeros.

    Args:
      first: the first element of the kernel that they read; they read every d-th element.
      taps: the number of elements of the kernel that they read.
      before: the number of zeros in front of the image that the first position reads; negative if it skips elements of
        the image.
      reach: the number of elements of the image and of these zeros that all positions read together.
    """

    first: int
    taps: int
    before: int
    reach: int


def _phase(window: Window, axis: int, r: int, positions: int, size: int) -> Phase:
    """The phase r of a window along an axis, for `positions` positions of the result and a kernel of `size` elements.

    Position d t + r reads element q of the kernel at index d t + r + q * dilation - low of the image with zeros. That index is an
    element of the image itself if d divides it. This holds for every d-th q, and the index divided by d is then the index in the
    image.
    """
    step, dilation, low = _phases(window, axis), window.dilation[axis], window.padding[axis].low
    elements = [q for q in range(size) if (r + q * dilation - low) % step == 0] if step > 1 else list(range(size))
    if not elements:
        return Phase(0, 0, 0, 0)
    before = (low - r - elements[0] * dilation) // step
    return Phase(elements[0], len(elements), before, (positions - 1) * window.strides[axis] + (len(elements) - 1) * dilation + 1)


def _split(op: ir.Operation) -> None:
    """Replaces a convolution by convolutions of its phases, which read slices of one padded image."""
    window, dims = Window.of(op), hlo.ConvDims.decode(op.attributes["dimension_numbers"])
    x, w, shape = Val(op.operands[0]), Val(op.operands[1]), list(Val(op.results[0]).shape)
    positions = [[names.index(axis) for axis in range(x.rank - 2)] for names in dims]
    split = [axis for axis in range(x.rank - 2) if _phases(window, axis) > 1]
    counts = [-(-shape[positions[2][axis]] // _phases(window, axis)) for axis in split]
    phases = [
        [_phase(window, axis, r, count, w.shape[positions[1][axis]]) for r in range(_phases(window, axis))]
        for axis, count in zip(split, counts, strict=True)
    ]
    with ir.InsertionPoint(op), op.location:
        low = [max(p.before for p in of_axis if p.taps) for of_axis in phases]
        padded_sizes = [max(n - p.before + p.reach for p in of_axis if p.taps) for n, of_axis in zip(low, phases, strict=True)]
        first_edges, last_edges = [0] * x.rank, [0] * x.rank
        for axis, n, size in zip(split, low, padded_sizes, strict=True):
            position = positions[0][axis]
            first_edges[position], last_edges[position] = n, size - n - x.shape[position]
        image = b.pad(x, first_edges, last_edges)
        attributes = attributes_of(op) | _without_zeros(window, split)
        part_shape = list(shape)
        for axis, count in zip(split, counts, strict=True):
            part_shape[positions[2][axis]] = count

        def convolution(choice: Sequence[Phase]) -> Val | None:
            """The convolution of one combination of phases; None if it reads no element of the kernel."""
            if not all(p.taps for p in choice):
                return None
            # The starts and limits of the slices of the image, and of the kernel; only the latter has steps.
            starts, limits, steps = ([0] * x.rank, [0] * x.rank), (list(image.shape), list(w.shape)), [1] * x.rank
            for axis, n, p in zip(split, low, choice, strict=True):
                image_axis, kernel_axis, step = positions[0][axis], positions[1][axis], _phases(window, axis)
                starts[0][image_axis], limits[0][image_axis] = n - p.before, n - p.before + p.reach
                last = p.first + (p.taps - 1) * step
                starts[1][kernel_axis] = w.shape[kernel_axis] - 1 - last if window.reversed_axes[axis] else p.first
                limits[1][kernel_axis] = starts[1][kernel_axis] + last - p.first + 1
                steps[kernel_axis] = step
            operands = b.slice_(image, starts[0], limits[0]), b.slice_(w, starts[1], limits[1], steps)
            type = tensor_type(tuple(part_shape), x.dtype)
            return Val(b.make(op.name, operands, [type], attributes).results[0])

        result = _interleaved(phases, [positions[2][axis] for axis in split], convolution)
        assert result is not None, "a kernel has an element, which some phase sees"
        for axis in split:  # the last phases may have computed one position too many
            result = b.cut(result, positions[2][axis], 0, shape[positions[2][axis]])
        replace_product(op, result)


def _without_zeros(window: Window, split: Sequence[int]) -> dict[str, ir.Attribute]:
    """The attributes of the convolution of one phase: no padding and no dilation of the image along the axes `split`.

    The image is already padded along these axes, and a phase reads no zeros between its elements.
    """
    padding = [Padding() if axis in split else p for axis, p in enumerate(window.padding)]
    return {
        "padding": hlo.Padding.encode(tuple((p.low, p.high) for p in padding)),
        "lhs_dilation": hlo.I64Array.encode([p.interior + 1 for p in padding]),
    }


def _interleaved(
    phases: Sequence[Sequence[Phase]],
    positions: Sequence[int],
    part: Callable[[Sequence[Phase]], Val | None],
    choice: tuple[Phase, ...] = (),
) -> Val | None:
    """The results of all combinations of phases, interleaved along each axis; None if all are zero.

    Args:
      phases: the phases of each axis.
      positions: the axes of the result.
      part: the result of one combination of phases; None if it is zero.
      choice: the phases of the first axes, if they are chosen already.
    """
    if len(choice) == len(phases):
        return part(choice)
    position = positions[len(choice)]
    parts = [_interleaved(phases, positions, part, (*choice, phase)) for phase in phases[len(choice)]]
    if not (seen := [x for x in parts if x is not None]):
        return None
    shape = seen[0].shape
    between = (*shape[: position + 1], 1, *shape[position + 1 :])
    pieces = [b.full(0, shape, seen[0].dtype) if x is None else x for x in parts]
    whole = b.concat([b.reshape(x, between) for x in pieces], position + 1)
    return b.reshape(whole, (*shape[:position], shape[position] * len(parts), *shape[position + 1 :]))
