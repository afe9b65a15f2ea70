"""The dialect `batch`: map this region over named, sized axes. See batch.irdl.mlir for its definition."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import RegionOp, create
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type

NOT_CARRIED = -1
Axes = Sequence[Sequence[int]]  # per operand or result: the place of each mapped axis, or NOT_CARRIED


def with_axes(type: ir.Type, places: Sequence[int], sizes: Sequence[int]) -> ir.Type:
    """The type outside the map of a value that has `type` inside and carries axes at `places`."""
    shape, dtype = shape_and_dtype(type)
    carried = sorted((p, n) for p, n in zip(places, sizes, strict=True) if p != NOT_CARRIED)
    out = list(shape)
    for place, size in carried:
        out.insert(place, size)
    return tensor_type(tuple(out), dtype)


def _places(values: Axes) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(v), context()) for v in values], context())


class VmapOp(RegionOp):
    """``batch.vmap``: the body for each index of the named axes.

    ``in_axes[i][k]`` is the place of axis k in operand i, or -1 if the operand does not carry it (it is then the
    same for every index, and is not copied); ``out_axes`` likewise for the results.
    """

    name = "batch.vmap"

    @staticmethod
    def build(
        operands: Sequence[ir.Value],
        block: ir.Block,
        axes: Sequence[str],
        sizes: Sequence[int],
        in_axes: Axes,
        out_axes: Axes,
    ) -> VmapOp:
        """Makes the operation at the insertion point; `block` is moved into it."""
        outs = [v.type for v in block.operations[len(block.operations) - 1].operation.operands]
        results = [with_axes(t, places, sizes) for t, places in zip(outs, out_axes, strict=True)]
        attributes = {
            "axes": ir.ArrayAttr.get([ir.StringAttr.get(a, context()) for a in axes], context()),
            "sizes": ir.DenseI64ArrayAttr.get(list(sizes), context()),
            "in_axes": _places(in_axes),
            "out_axes": _places(out_axes),
        }
        return VmapOp(create("batch.vmap", operands, results, attributes, block))

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the mapped axes, outermost first."""
        self.require("axes" in self.op.attributes, "the attribute 'axes'")
        value = self.op.attributes["axes"]
        self.require(
            isinstance(value, ir.ArrayAttr) and all(isinstance(a, ir.StringAttr) for a in value),
            f"'axes' as a list of names, got {value}",
        )
        return tuple(a.value for a in value)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the mapped axes."""
        return self.integers("sizes")

    @property
    def in_axes(self) -> list[tuple[int, ...]]:
        """Where each operand carries each axis."""
        return self._axes("in_axes")

    @property
    def out_axes(self) -> list[tuple[int, ...]]:
        """Where each result carries each axis."""
        return self._axes("out_axes")

    def _axes(self, attribute: str) -> list[tuple[int, ...]]:
        self.require(attribute in self.op.attributes, f"the attribute '{attribute}'")
        value = self.op.attributes[attribute]
        self.require(
            isinstance(value, ir.ArrayAttr) and all(isinstance(a, ir.DenseI64ArrayAttr) for a in value),
            f"'{attribute}' as a list of array<i64: ...>, got {value}",
        )
        return [tuple(a) for a in value]

    def verify(self) -> None:
        """Raises VerifyError unless axes, operands and results fit the body."""
        self.verify_body()
        axes, sizes = self.axes, self.sizes
        self.require(len(axes) == len(sizes) > 0, f"one size per axis, got axes {list(axes)} and sizes {list(sizes)}")
        self.require(len(set(axes)) == len(axes), f"distinct axis names, got {list(axes)}")
        self.require(all(n >= 0 for n in sizes), f"sizes that are not negative, got {list(sizes)}")
        inside = [a.type for a in self.block.arguments]
        self._verify_side("operand", [v.type for v in self.op.operands], inside, self.in_axes)
        returned = [v.type for v in self.terminator.operands]
        self._verify_side("result", [r.type for r in self.op.results], returned, self.out_axes)

    def _verify_side(
        self, word: str, outside: list[ir.Type], inside: list[ir.Type], axes: list[tuple[int, ...]]
    ) -> None:
        counts = {len(outside), len(inside), len(axes)}
        self.require(
            len(counts) == 1,
            f"as many {word}s as the body has and as axes are given for, "
            f"got {len(outside)}, {len(inside)}, {len(axes)}",
        )
        for i, (out, body, places) in enumerate(zip(outside, inside, axes, strict=True)):
            carried = [p for p in places if p != NOT_CARRIED]
            rank = len(shape_and_dtype(body)[0]) + len(carried)
            self.require(
                len(places) == len(self.sizes)
                and len(set(carried)) == len(carried)
                and all(0 <= p < rank for p in carried),
                f"distinct places below {rank} for the {len(self.sizes)} axes of {word} {i}, got {list(places)}",
            )
            expected = with_axes(body, places, self.sizes)
            self.require(out == expected, f"{word} {i} of type {expected}, got {out}")
