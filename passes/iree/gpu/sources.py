"""Products and convolutions of StableHLO as contractions."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.passes.iree.gpu.contraction import Access, Contraction, WindowAxis, strides_of
from nabla_mlir.passes.iree.scheduling.windows import Window, groups_of

ELEMENTS = ("f32", "bf16", "f16")


def contraction_of(op: ir.Operation) -> Contraction | None:
    """The contraction that a stablehlo.dot_general or stablehlo.convolution computes; None if its types have no kernel."""
    (left, right), result = (x.type for x in op.operands), op.results[0].type
    element, out = str(left.element_type), str(result.element_type)
    if element not in ELEMENTS or element != str(right.element_type) or out not in {element, "f32"}:
        return None
    if 0 in (*left.shape, *right.shape, *result.shape):
        return None
    build = _dot if op.name == "stablehlo.dot_general" else _convolution
    return build(op, left.shape, right.shape, result.shape, element, out)


def _dot(op: ir.Operation, left: Sequence[int], right: Sequence[int], result: Sequence[int], element: str, out: str) -> Contraction:
    """The contraction of a `dot_general`: the axes of the loop nest, and the strides of both factors and the result.

    `left`, `right` and `result` are shapes; `element` and `out` are the element types of the factors and the result.
    """
    dims = hlo.DotDims.decode(op.attributes["dot_dimension_numbers"])
    left_batch, right_batch, left_inner, right_inner = (dims[name] for name in hlo.DotDims.lists)
    left_free = [d for d in range(len(left)) if d not in left_batch + left_inner]
    right_free = [d for d in range(len(right)) if d not in right_batch + right_inner]
    sizes = [left[d] for d in (*left_batch, *left_free)] + [right[d] for d in right_free] + [left[d] for d in left_inner]
    counts = [len(left_batch), len(left_free), len(right_free), len(left_inner)]
    ends = [sum(counts[: k + 1]) for k in range(4)]
    batch, rows, columns, inner = (tuple(range(end - count, end)) for end, count in zip(ends, counts, strict=True))
    strides = [strides_of(shape) for shape in (left, right)]
    a = dict(zip((*batch, *rows, *inner), (strides[0][d] for d in (*left_batch, *left_free, *left_inner)), strict=True))
    b = dict(zip((*batch, *columns, *inner), (strides[1][d] for d in (*right_batch, *right_free, *right_inner)), strict=True))
    c = dict(zip((*batch, *rows, *columns), strides_of(result), strict=True))
    return Contraction(sizes, batch, rows, columns, inner, Access(a), Access(b), Access(c), element, out)


def _convolution(
    op: ir.Operation, left: Sequence[int], right: Sequence[int], result: Sequence[int], element: str, out: str
) -> Contraction:
    """The contraction of a convolution, whose image is read through a window.

    Batch axis: groups. Rows: images and positions of the result. Columns: features of the result. Inner axes: features of the image
    and positions in the kernel (taps). `left`, `right` and `result` are shapes; `element` and `out` are element types.
    """
    left_dims, right_dims, out_dims = hlo.ConvDims.decode(op.attributes["dimension_numbers"])
    window, (features, batches) = Window.of(op), groups_of(op)
    rank = len(window.strides)
    at_left, at_right, at_out = ({d: k for k, d in enumerate(dims)} for dims in (left_dims, right_dims, out_dims))
    left_steps, right_steps, out_steps = map(strides_of, (left, right, result))
    groups = features * batches  # at most one of them is not 1
    images, channels = left[at_left["b"]] // batches, right[at_right["i"]]
    filters = right[at_right["o"]] // groups
    positions, taps = [result[at_out[d]] for d in range(rank)], [right[at_right[d]] for d in range(rank)]
    sizes = [groups, images, *positions, filters, channels, *taps]
    group, image, filter, channel = 0, 1, 2 + rank, 3 + rank
    position, tap = range(2, 2 + rank), range(4 + rank, 4 + 2 * rank)
    step = left_steps[at_left["f"]]
    a = {image: left_steps[at_left["b"]], channel: step}
    a[group] = channels * step if features > 1 else images * left_steps[at_left["b"]]
    step = right_steps[at_right["o"]]
    b = {group: filters * step, filter: step, channel: right_steps[at_right["i"]]}
    step = out_steps[at_out["f"]]
    c = {group: filters * step, filter: step, image: out_steps[at_out["b"]]}
    windows = []
    for d in range(rank):
        b[tap[d]], c[position[d]] = right_steps[at_right[d]], out_steps[at_out[d]]
        reach = window.dilation[d]
        # Position p and tap t read the element stride * p + factor * t + base of the padded image.
        base, factor = (taps[d] - 1) * reach if window.reversed_axes[d] else 0, -reach if window.reversed_axes[d] else reach
        dilation, length = window.padding[d].interior + 1, left[at_left[d]]
        windows.append(
            WindowAxis(
                {position[d]: window.strides[d], tap[d]: factor},
                base - window.padding[d].low,
                (length - 1) * dilation + 1,
                dilation,
                left_steps[at_left[d]],
            )
        )
    return Contraction(
        sizes,
        (group,),
        (image, *position),
        (filter,),
        (channel, *tap),
        Access(a, tuple(windows)),
        Access(b),
        Access(c),
        element,
        out,
    )
