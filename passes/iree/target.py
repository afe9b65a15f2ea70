"""The current target of legalisation.

Patterns get its `Codegen` as an argument; formulas and kernels deep below them call `machine()`.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nabla_mlir.targets import Codegen


class Machine(NamedTuple):
    """The operations that IREE compiles rightly, and the width of the CPU's vector registers for kernels; 0 means no kernels."""

    codegen: Codegen
    vector_bytes: int


_machine: contextvars.ContextVar[Machine] = contextvars.ContextVar("machine")
machine: Callable[[], Machine] = _machine.get


@contextlib.contextmanager
def for_target(codegen: Codegen, vector_bytes: int) -> Iterator[None]:
    """A context in which `machine()` returns this machine."""
    token = _machine.set(Machine(codegen, vector_bytes))
    try:
        yield
    finally:
        _machine.reset(token)
