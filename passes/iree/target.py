"""What a module is legalised for. Patterns get the first as an argument; formulas and kernels, deep below them, ask here."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nabla_mlir.targets import Codegen


class Machine(NamedTuple):
    """What IREE does right, and the width of a CPU's vector registers, for which kernels are written; 0: none are."""

    codegen: Codegen
    vector_bytes: int


_machine: contextvars.ContextVar[Machine] = contextvars.ContextVar("machine")
machine: Callable[[], Machine] = _machine.get


@contextlib.contextmanager
def for_target(codegen: Codegen, vector_bytes: int) -> Iterator[None]:
    """Within, this is the `machine()`."""
    token = _machine.set(Machine(codegen, vector_bytes))
    try:
        yield
    finally:
        _machine.reset(token)
