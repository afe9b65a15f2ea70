"""Packings: several residuals of one type as one value, so that a loop has few buffers."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.shape import concatenate, reshape, sliced
from nabla_mlir.passes.split.residuals import Division
from nabla_mlir.table.tensor import Tensor, full, wrap

Mapping = ChainMap[ir.Value, ir.Value]  # from a value of the whole function to its copy in one half


@dataclass(frozen=True)
class Packing:
    """Stored values of one type in the same region, as one value: stacked along a first axis if there are several.

    One tape for many values is one buffer, so the loop has few of them. A mapping stores a packing under its first member.
    """

    members: tuple[ir.Value, ...]
    around: tuple[ir.Value, ...]  # the divided operations that the members stand in, the outermost first

    @property
    def key(self) -> ir.Value:
        """The value that represents the packing in a mapping."""
        return self.members[0]

    @property
    def axis(self) -> int:
        """The axis of a stacked tape along which its rows are counted."""
        return int(len(self.members) > 1)

    def packed(self, values: Mapping, op: ir.Operation) -> Tensor | None:
        """The members of the packing as one tensor, emitted at the end of the region of `op`; None if `values` has no member.

        Args:
          values: the values that the region has computed so far, each with its copy.
          op: the divided operation around the region.
        """
        if self.around[-1] != op.results[0]:
            return wrap(values[self.key]) if self.key in values else None
        members = [wrap(values[v]) if v in values else None for v in self.members]
        if all(x is None for x in members):
            return None
        shape, dtype = shape_and_dtype(self.key.type)
        parts = [full(shape, 0, dtype) if x is None else x for x in members]
        if not self.axis:
            return parts[0]
        return concatenate(*(reshape(x, shape=(1, *shape)) for x in parts), dimension=0)

    def unpacked(self, packing: Tensor, op: ir.Operation) -> dict[ir.Value, ir.Value]:
        """The values of the packing inside `op`, each with its copy, from the tensor `packing`.

        They are the members if these belong to the region of `op`, else the packing itself under its key.
        """
        if not self.axis or self.around[-1] != op.results[0]:
            return {self.key: packing.value}
        rows = [sliced(packing, 0, i, i + 1) for i in range(len(self.members))]
        return {v: reshape(x, shape=packing.shape[1:]).value for v, x in zip(self.members, rows, strict=True)}


def packings_of(values: Sequence[ir.Value], division: Division) -> list[Packing]:
    """The stored values as packings: one for each region and type, and one for each value outside all regions."""
    groups: dict[object, list[ir.Value]] = {}
    for value in values:
        around = division.within.get(value, ())
        groups.setdefault((around, value.type) if around else value, []).append(value)
    return [Packing(tuple(members), division.within.get(members[0], ())) for members in groups.values()]


def inside(outer: Mapping, arguments: Sequence[ir.Value] = (), values: Sequence[Tensor] = ()) -> Mapping:
    """A child of the mapping `outer` for one region, in which `arguments` are mapped to `values`; `outer` never changes."""
    return outer.new_child({a: v.value for a, v in zip(arguments, values, strict=True)})
