"""Buffers of a device in IREE's IR: allocation, values that are computed in a buffer, and marks that later phases read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.stablehlo import emit
from nabla_mlir.runtime.scratch import REFLECTED

PLACED = "hal.tensor.alias"
TRANSIENTS = "hal.tensor.transients"
# Exactly the bits of host heaps, because a caching allocator does not reuse memory with other bits.
_MEMORY = 0x30  # device-visible, device-local
_USAGE = 0x9000C03  # transfers, dispatches, mapping
# The only device reaches its own memory.
TOPOLOGY = "#hal.device.topology<links = [(@__device_0 -> @__device_0 = {unified_memory = true, transparent_access = true})]>"
UNKNOWN = 0x6E61626C61  # represents the size of a buffer, which IREE knows after it has laid out the buffer
_REFLECTION, _LATER = "iree.reflection", "later"


def buffers_of(sizes: Sequence[int]) -> list[ir.Value]:
    """The SSA values of new buffers of these sizes in bytes, from the allocator of the only device."""
    device = _make("!hal.device", "hal.devices.get", [_number(0, "index")])
    allocator = _make("!hal.allocator", "hal.device.allocator", [device])
    queues = _number(-1, "i64")  # any queue
    kind = [_number(_MEMORY, "i32", "hal.memory_type", "type"), _number(_USAGE, "i32", "hal.buffer_usage", "usage")]
    return [_make("!hal.buffer", "hal.allocator.allocate", [allocator, queues, *kind, _number(size, "index")]) for size in sizes]


def _number(number: int, type: str, name: str = "arith.constant", attribute: str = "value") -> ir.Value:
    """The result of an operation that is defined by an integer attribute, such as a constant."""
    return _make(type, name, attributes={attribute: ir.IntegerAttr.get(ir.Type.parse(type), number)})


def _make(
    type: str, name: str, operands: Sequence[ir.Value] = (), attributes: Mapping[str, ir.Attribute] | None = None
) -> ir.Value:
    """The only result, of this type, of a new operation."""
    return emit(name, operands, results=[ir.Type.parse(type)], attributes=attributes).results[0]


def placed_in(value: ir.Value, buffer: ir.Value) -> ir.Value:
    """The value, marked so that IREE computes it in the buffer."""
    sizes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 1, 0])}
    return emit(PLACED, [value, buffer], results=[value.type], attributes=sizes).results[0]


def with_transients(value: ir.Value, buffer: ir.Value) -> ir.Value:
    """The value, marked so that IREE stores the intermediate values of its computation in the buffer."""
    return emit(TRANSIENTS, [value, buffer], results=[value.type]).results[0]


def mark(func: ir.Operation) -> None:
    """Marks a function for a buffer that is laid out after the stream phase."""
    func.attributes[_REFLECTION] = ir.DictAttr.get({REFLECTED: ir.StringAttr.get(_LATER)})


def is_marked(func: ir.Operation) -> bool:
    """True if a function, in any phase of IREE, is marked for a buffer that is laid out after the stream phase."""
    if _REFLECTION not in func.attributes:
        return False
    reflection = func.attributes[_REFLECTION]
    return REFLECTED in reflection and bool(reflection[REFLECTED].value == _LATER)


def share_memory(module: ir.Operation) -> None:
    """Tells IREE that the only device reaches its own memory; otherwise it copies the arguments of loops."""
    module.attributes["stream.topology"] = ir.Attribute.parse(TOPOLOGY, module.context)
