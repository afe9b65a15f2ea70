"""Constants whose elements are in the resource section of a module; exporters of PyTorch write weights so."""

from __future__ import annotations

import re

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.stablehlo import elements
from nabla_mlir.dialects.types import shape_and_dtype

_CONSTANTS = ("stablehlo.constant", "arith.constant")
_ALIGNMENT = 4  # the first bytes of a resource: the alignment of its elements


def inline_resources(module: ir.Operation) -> None:
    """Moves the elements of constants from resources into the constants: rules read them, and XLA misreads or refuses resources."""
    constants = [op for op in nested(module) if op.name in _CONSTANTS and _name_of(op)]
    if not constants:
        return
    # The bindings have no reader of resources; the text of the module has them, in hexadecimal.
    blobs = dict(re.findall(r'^\s+("[^"\n]+"|\S+): "0x([0-9A-F]+)",?$', str(module), re.MULTILINE))
    for op in constants:
        shape, dtype = shape_and_dtype(op.results[0].type)
        raw = np.frombuffer(bytes.fromhex(blobs[_name_of(op)])[_ALIGNMENT:], np.uint8)
        op.attributes["value"] = elements(_array(raw, dtype, int(np.prod(shape))).reshape(shape))


def _array(raw: np.ndarray, dtype: np.dtype, count: int) -> np.ndarray:
    """The `count` elements of a dtype in raw bytes; booleans have a byte or a bit each."""
    if dtype != np.bool_:
        return raw.view(dtype)
    return (raw if raw.size == count else np.unpackbits(raw, count=count, bitorder="little")).astype(bool)


def _name_of(op: ir.Operation) -> str:
    """The name of the resource that a constant refers to; "" if the constant holds its elements itself."""
    try:
        value = op.attributes["value"]
    except TypeError:  # the bindings cannot return complex elements
        return ""
    text = "" if isinstance(value, ir.DenseElementsAttr) else str(value)
    return text.removeprefix("dense_resource<").partition("> :")[0] if text.startswith("dense_resource") else ""
