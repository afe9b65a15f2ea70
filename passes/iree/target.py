"""The current target of legalisation, which rewrites operations into operations that IREE compiles rightly.

Patterns get its `Codegen` as an argument; formulas and kernels deep below them call `machine()`.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nabla_mlir.targets import Codegen


class Machine(NamedTuple):
    """The target: the operations that IREE compiles rightly, and the bytes of the CPU's vector registers (0: no kernels)."""

    codegen: Codegen
    vector_bytes: int


_machine: contextvars.ContextVar[Machine] = contextvars.ContextVar("machine")
machine: Callable[[], Machine] = _machine.get


@contextlib.contextmanager
def for_target(codegen: Codegen, vector_bytes: int) -> Iterator[None]:
    """A context in which `machine()` returns the target with these operations and this width of vector registers."""
    token = _machine.set(Machine(codegen, vector_bytes))
    try:
        yield
    finally:
        _machine.reset(token)
