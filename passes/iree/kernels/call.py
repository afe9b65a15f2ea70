"""Calls of kernels that are written for the target machine and the dtype of their operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.builder import Val
from nabla_mlir.passes.iree.internals.dispatches import call_kernel
from nabla_mlir.passes.iree.kernels.text import Form, Memory
from nabla_mlir.passes.iree.target import machine

_ELEMENTS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


def has_form(x: Val) -> bool:
    """True if kernels can be written for the target machine and for numbers of this dtype."""
    return machine().vector_bytes > 0 and x.dtype in _ELEMENTS


def form_of(x: Val) -> Form:
    """The vectors and tiles of a kernel for numbers of this dtype."""
    return Form.of(_ELEMENTS[x.dtype], machine().vector_bytes)


def call(name: str, text: str, operands: Sequence[Val], results: Sequence[Memory]) -> list[Val]:
    """The results of a call of a kernel, which is inserted at the current insertion point.

    Args:
      name: the name of the kernel.
      text: the text of its executable.
      operands: its operands.
      results: the buffers of its results, whose types are those of the values; see `call_kernel`.
    """
    types = [ir.Type.parse(m.type.replace("memref", "tensor")) for m in results]
    at = ir.InsertionPoint.current.block.owner.operation
    return [Val(v) for v in call_kernel(name, text, [x.value for x in operands], types, at)]
