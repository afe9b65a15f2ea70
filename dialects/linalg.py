"""The two operations of `linalg` that passes write.

`iree.compiler.dialects.linalg` has them as well, but brings a language of its own: to import it takes a twentieth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

Body = Callable[[Sequence[ir.Value]], Sequence[ir.Value]]


def generic(
    inputs: Sequence[ir.Value], starts: Sequence[ir.Value], maps: Sequence[ir.AffineMap], sums: Sequence[bool], body: Body
) -> ir.Operation:
    """A loop nest at the insertion point, `linalg.generic`.

    Args:
      inputs: what it reads.
      starts: what its results are before; they are of these types.
      maps: where each input and each result is read and written, by the indices of the loops.
      sums: of each loop, whether it is one of a sum.
      body: from the elements of inputs and results to those of the results.
    """
    kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{'reduction' if is_sum else 'parallel'}>") for is_sum in sums]
    attributes = {
        "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]), "iterator_types": ir.ArrayAttr.get(kinds),
    }  # fmt: skip
    return _structured("linalg.generic", inputs, starts, attributes, body)


def fill(number: ir.Value, start: ir.Value) -> ir.Value:
    """A tensor of one number, `linalg.fill`; `start` is of its type."""
    return _structured("linalg.fill", [number], [start], {}, lambda elements: elements[:1]).results[0]


def _structured(
    name: str, inputs: Sequence[ir.Value], starts: Sequence[ir.Value], attributes: dict[str, ir.Attribute], body: Body
) -> ir.Operation:
    sizes = ir.DenseI32ArrayAttr.get([len(inputs), len(starts)])
    attributes = {**attributes, "operandSegmentSizes": sizes}
    types = [s.type for s in starts]
    op = ir.Operation.create(name, results=types, operands=[*inputs, *starts], attributes=attributes, regions=1)
    elements = [v.type.element_type if isinstance(v.type, ir.ShapedType) else v.type for v in (*inputs, *starts)]
    block = ir.Block.create_at_start(op.regions[0], elements, [ir.Location.current] * len(elements))
    with ir.InsertionPoint(block):
        ir.Operation.create("linalg.yield", operands=body(list(block.arguments)))
    return op
