"""Code that computes the offsets in memory of the elements of a tile (a block of the result that one block of threads computes)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nabla_mlir.passes.iree.gpu.contraction import Access, digits
from nabla_mlir.passes.iree.gpu.writer import Code, Writer

Indices = Mapping[int, Code]  # the index along each axis: one number, or one for each row or column of the tile


def split_index(w: Writer, sizes: Sequence[int], axes: Sequence[int], index: Code) -> dict[int, Code]:
    """The index along each of `axes`, from one flat index over these axes, of which the last one changes fastest.

    `sizes` has the size of every axis. For axes of sizes 3 and 5, the index 7 becomes 1 and 2. `w` writes the kernel.
    """
    result = {}
    for axis, (divisor, size) in zip(reversed(axes), digits([sizes[axis] for axis in axes]), strict=True):
        quotient = w.over(index, divisor)
        result[axis] = quotient if axis == axes[0] else w.rest(quotient, size)
    return result


def positions(w: Writer, tile: Code, size: int, total: int) -> Code:
    """The indices of the rows (or columns) in tile number `tile`: a scalar becomes a vector of `size` indices.

    `total` is the number of all indices, and `w` writes the kernel.
    """
    return w.range(size) if total <= size else w.add(w.times(tile, size), w.range(size))


def offset_of(w: Writer, access: Access, indices: Indices) -> tuple[Code | None, list[Code]]:
    """The offset of each element in memory (None for 0), and a list of masks, which are true for elements inside the array.

    `access` describes the addresses, `indices` has the index along each axis, and `w` writes the kernel. A window has one or two
    masks.
    """
    terms = [w.times(indices[axis], factor) for axis, factor in access.linear.items() if factor and axis in indices]
    terms += [w.number(access.base)] if access.base else []
    masks = []
    for window in access.windows:
        parts = [w.times(indices[axis], factor) for axis, factor in window.terms.items() if axis in indices]
        position = w.total([*parts, w.number(window.base)])
        assert position is not None
        masks.append(w.within(position, window.limit))
        if window.dilation == 1:  # a separate term for each axis, so that terms that are equal in all iterations leave the loop
            terms += [w.times(part, window.stride) for part in parts]
            terms += [w.number(window.base * window.stride)] if window.base else []
            continue
        masks.append(w.equal(w.rest(position, window.dilation), 0))
        terms.append(w.times(w.over(position, window.dilation), window.stride))
    return w.total(terms), masks
