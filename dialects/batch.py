"""The dialect `batch`: map this region over named, sized axes. See batch.irdl.mlir for its definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import RegionOp, View, create, nested
from nabla_mlir.dialects.types import is_static_tensor, shape_and_dtype, tensor_type

NOT_CARRIED = -1
Axes = Sequence[Sequence[int]]  # per operand or result: the position of each mapped axis, or NOT_CARRIED


def with_axes(type: ir.Type, positions: Sequence[int], sizes: Sequence[int]) -> ir.Type:
    """The type outside a map of a value that has `type` inside it.

    Args:
      type: the type inside the map.
      positions: for each axis of the map, the dimension outside that is this axis, or NOT_CARRIED.
      sizes: the sizes of the axes.
    """
    shape, dtype = shape_and_dtype(type)
    axes = sorted((p, n) for p, n in zip(positions, sizes, strict=True) if p != NOT_CARRIED)
    out = list(shape)
    for position, size in axes:
        out.insert(position, size)
    return tensor_type(tuple(out), dtype)


def _positions(values: Axes) -> ir.Attribute:
    """The attribute `in_axes` or `out_axes` with these positions."""
    return ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(v), context()) for v in values], context())


class VmapOp(RegionOp):
    """``batch.vmap``: the body for each index of the named axes.

    ``in_axes[i][k]`` is the position of axis k in operand i, or -1 if the operand does not carry it (it is then equal
    for every index, and is not copied); ``out_axes`` likewise for the results.
    """

    name = "batch.vmap"

    @staticmethod
    def build(
        operands: Sequence[ir.Value], block: ir.Block, axes: Sequence[str], sizes: Sequence[int], in_axes: Axes, out_axes: Axes
    ) -> VmapOp:
        """Makes a `batch.vmap` at the insertion point; `block`, the function of one entry, is moved into it.

        `axes` and `sizes` are the names and sizes of the mapped axes. `in_axes` and `out_axes` have, for each operand or result,
        its axis for each mapped axis. `operands` are the arguments of the map.
        """
        outs = [v.type for v in block.operations[len(block.operations) - 1].operation.operands]
        results = [with_axes(t, positions, sizes) for t, positions in zip(outs, out_axes, strict=True)]
        attributes = {
            "axes": ir.ArrayAttr.get([ir.StringAttr.get(a, context()) for a in axes], context()),
            "sizes": ir.DenseI64ArrayAttr.get(list(sizes), context()),
            "in_axes": _positions(in_axes),
            "out_axes": _positions(out_axes),
        }
        return VmapOp(create("batch.vmap", operands, results, attributes, block))

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the mapped axes, outermost first."""
        return tuple(a.value for a in self.items("axes", ir.StringAttr, "a list of names"))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the mapped axes."""
        return self.integers("sizes")

    @property
    def in_axes(self) -> list[tuple[int, ...]]:
        """The positions of the axes in each operand."""
        return self._axes("in_axes")

    @property
    def out_axes(self) -> list[tuple[int, ...]]:
        """The positions of the axes in each result."""
        return self._axes("out_axes")

    def _axes(self, attribute: str) -> list[tuple[int, ...]]:
        """The positions in the attribute `in_axes` or `out_axes`."""
        return [tuple(a) for a in self.items(attribute, ir.DenseI64ArrayAttr, "a list of array<i64: ...>")]

    def verify(self) -> None:
        """Raises VerifyError unless axes, operands and results fit the body."""
        self.verify_body()
        axes, sizes = self.axes, self.sizes
        self.require(len(axes) == len(sizes) > 0, f"one size per axis, got axes {list(axes)} and sizes {list(sizes)}")
        self.require(len(set(axes)) == len(axes), f"distinct axis names, got {list(axes)}")
        self.require(all(n >= 0 for n in sizes), f"sizes that are not negative, got {list(sizes)}")
        inside = [a.type for a in self.block.arguments]
        self._verify_side("operand", [v.type for v in self.op.operands], inside, self.in_axes)
        outputs = [v.type for v in self.terminator.operands]
        self._verify_side("result", [r.type for r in self.op.results], outputs, self.out_axes)

    def _verify_side(self, word: str, outside: list[ir.Type], inside: list[ir.Type], axes: list[tuple[int, ...]]) -> None:
        """Raises VerifyError unless the types outside are those inside with the axes of the map at distinct positions.

        Args:
          word: operand or result.
          outside: the types of the operands, or of the results.
          inside: the types of the arguments of the body, or of the values that it returns.
          axes: the positions of the axes.
        """
        counts = {len(outside), len(inside), len(axes)}
        self.require(
            len(counts) == 1,
            f"as many {word}s as the body has and as axes are given for, got {len(outside)}, {len(inside)}, {len(axes)}",
        )
        sizes = self.sizes
        for i, (out, body, positions) in enumerate(zip(outside, inside, axes, strict=True)):
            carried = [p for p in positions if p != NOT_CARRIED]
            rank = len(shape_and_dtype(body)[0]) + len(carried)
            self.require(
                len(positions) == len(sizes) and len(set(carried)) == len(carried) and all(0 <= p < rank for p in carried),
                f"distinct positions below {rank} for the {len(sizes)} axes of {word} {i}, got {list(positions)}",
            )
            expected = with_axes(body, positions, sizes)
            if out != expected:
                raise self.error(f"{word} {i} of type {expected}, got {out}")


PSUM, PMAX, PMIN = "batch.psum", "batch.pmax", "batch.pmin"
ALL_GATHER, PSUM_SCATTER, AXIS_INDEX = "batch.all_gather", "batch.psum_scatter", "batch.axis_index"
REDUCTIONS = (PSUM, PMAX, PMIN)
COLLECTIVES = (*REDUCTIONS, ALL_GATHER, PSUM_SCATTER, AXIS_INDEX)
# The name of the axis of collectives while this axis is expanded; no axis of a map has this name.
CURRENT = ""


def axis_of(op: ir.Operation) -> str:
    """The name of the axis that a collective works over."""
    return str(ir.StringAttr(op.attributes["axis"]).value)


def collectives(op: ir.Operation, axis: str) -> list[ir.Operation]:
    """The collectives in the regions of the map `op` that use its axis of this name, not an axis of an inner map."""
    result = []
    for inner in (o.operation for region in op.regions for block in region.blocks for o in block.operations):
        if inner.name in COLLECTIVES and axis_of(inner) == axis:
            result.append(inner)
        elif inner.name != VmapOp.name or axis not in VmapOp(inner).axes:
            result += collectives(inner, axis)
    return result


def free_axes(op: ir.Operation) -> set[str]:
    """The names of the axes of maps around `op` that collectives use: `op` itself, or collectives in its regions."""
    if op.name in COLLECTIVES:
        return {axis_of(op)}
    inside = {name for region in op.regions for block in region.blocks for o in block.operations for name in free_axes(o.operation)}
    return inside - set(VmapOp(op).axes) if op.name == VmapOp.name else inside


def bound_axes(op: ir.Operation) -> set[str]:
    """The names of the axes of every map in the regions of `op`."""
    return {axis for inner in nested(op) if inner.name == VmapOp.name for axis in VmapOp(inner).axes}


def rename_axes(op: ir.Operation, names: Mapping[str, str]) -> None:
    """Renames the axes of the collectives that use axes of the map `op`; `names` maps old names to new ones."""
    uses = [(inner, new) for old, new in names.items() for inner in collectives(op, old)]
    for inner, new in uses:
        inner.attributes["axis"] = ir.StringAttr.get(new, context())


class CollectiveOp(View):
    """A typed view of a collective: an operation inside a map that reads every entry of one of its axes."""

    def verify(self) -> None:
        """Raises VerifyError unless the axis is that of a map around it, and the types fit."""
        op = self.op
        self.require(isinstance(self.value_of("axis", "a name"), ir.StringAttr), "the attribute 'axis', a name")
        bound = _axes_around(op)
        self.require(axis_of(op) in bound, f"an axis of a batch.vmap around it, got '{axis_of(op)}' inside {bound}")
        size = bound[axis_of(op)]
        count = 0 if op.name == AXIS_INDEX else 1
        types = [v.type for v in [*op.operands, *op.results]]
        self.require(
            len(op.operands) == count and len(op.results) == 1 and all(map(is_static_tensor, types)),
            f"{count or 'no'} operand and one result, tensors of static shape, got {_listed(types)}",
        )
        if op.name == AXIS_INDEX:
            self.require(str(types[0]) == "tensor<i32>", f"a result of type tensor<i32>, got {types[0]}")
        elif op.name in REDUCTIONS:
            self.require(types[0] == types[1], f"a result of the type of its operand, got {_listed(types)}")
        else:
            entry, whole = types if op.name == ALL_GATHER else reversed(types)
            self._verify_dimension(entry, whole, size)

    def _verify_dimension(self, entry: ir.Type, whole: ir.Type, size: int) -> None:
        """Raises VerifyError unless the type `whole` is `entry` with an axis of this size at the attribute `dimension`."""
        value = self.value_of("dimension", "an integer")
        if not isinstance(value, ir.IntegerAttr):
            raise self.error("the attribute 'dimension', an integer")
        dimension, rank = value.value, len(shape_and_dtype(entry)[0])
        self.require(0 <= dimension <= rank, f"a dimension of its rank {rank + 1}, got {dimension}")
        expected = with_axes(entry, [dimension], [size])
        what = "result" if self.op.name == ALL_GATHER else "operand"
        self.require(whole == expected, f"{what} of type {expected}, got {whole}")


def _axes_around(op: ir.Operation) -> dict[str, int]:
    """The sizes of the axes of the maps around an operation, by name; an inner axis hides an outer one of the same name."""
    bound: dict[str, int] = {}
    parent = op.parent
    while parent is not None:
        around = parent.operation
        if around.name == VmapOp.name:
            view = VmapOp(around)
            bound = {**dict(zip(view.axes, view.sizes, strict=True)), **bound}
        parent = around.parent
    return bound


def _listed(types: Sequence[ir.Type]) -> str:
    return ", ".join(map(str, types))
