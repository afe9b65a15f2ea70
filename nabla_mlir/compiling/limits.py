"""Programs under a memory limit: how much a program must recompute is found by compiling it repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import MemoryLimitError
from nabla_mlir.base.log import logger
from nabla_mlir.compiling.internals.memory import allocated_at_once
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import functions_of, is_private
from nabla_mlir.passes.iree.scheduling.limit_memory import held_at_once, set_limits
from nabla_mlir.table.traits import bytes_of
from nabla_mlir.targets.toolchain import disassembled

_LOG = logger("compile")
_SHOWN = 3  # the number of values in an error message


def within(module: ir.Module, limit: int, attempts: int, compile: Callable[[ir.Module], bytes]) -> bytes:
    """The artifact of a module in which no entry point allocates more than `limit` bytes at once.

    A pass can only estimate the memory, because fusion comes later. So the memory of each artifact is measured, and the next
    attempt gets a smaller limit. The limit is reduced by the excess, but not by more than a fraction, because the smallest possible
    value is not known; and by at least the size of one value.

    Args:
      module: a lowered module; the limits of the attempts are written into it.
      limit: the bytes.
      attempts: the largest number of compilations.
      compile: returns the artifact of the module for the limits in it.

    Raises:
      MemoryLimitError: no attempt met the limit, or a program does not state its allocations.
    """
    limits: dict[str, int] = {}
    best: dict[str, int] = {}
    for _ in range(attempts):
        with context():
            set_limits(module.operation, limits)
        artifact = compile(module)
        found = _allocated(artifact, module)
        excess = {name: size - limit for name, size in found.items() if size > limit}
        if not excess:
            return artifact
        _LOG.info("%s", ", ".join(f"{name} allocates {found[name]} bytes, {more} too many" for name, more in excess.items()))
        best = {name: min(size, best.get(name, size)) for name, size in found.items()}
        for name, more in excess.items():
            last = limits.get(name)
            part = 1.0 if last is None else min(max(1 - more / last, thresholds.LIMIT_LARGEST), thresholds.LIMIT_SMALLEST)
            limits[name] = int(part * (last or limit))
    raise _error(module, limit, best)


def _allocated(artifact: bytes, module: ir.Module) -> dict[str, int]:
    """The bytes that each public function of an artifact allocates at once, by name; `module` is its source.

    Raises MemoryLimitError if one of them depends on values.
    """
    known = allocated_at_once(disassembled(artifact))
    functions = [name for name, op in functions_of(module.operation).items() if not is_private(op)]
    if unknown := [name for name in functions if name not in known]:
        raise MemoryLimitError(f"{unknown[0]} requires sizes that do not depend on values, to be held to a limit of memory.")
    return {name: known[name] for name in functions}


def _error(module: ir.Module, limit: int, best: Mapping[str, int]) -> MemoryLimitError:
    """The error for a memory limit that no attempt met; it names the function with the largest need and its largest live values.

    `best` has the smallest number of bytes that an attempt reached for each function.
    """
    name = max(best, key=best.__getitem__)
    values = held_at_once(functions_of(module.operation)[name])[:_SHOWN]
    where = [source_of(value.owner.operation.location) for value in values]
    largest = ", ".join(
        f"{value.type} ({bytes_of(value) / 1e6:.1f} MB{f', line {position.line}' if position else ''})"
        for value, position in zip(values, where, strict=True)
    )
    return MemoryLimitError(
        f"{name} requires {best[name] / 1e6:.1f} MB in the smallest form that was found, got memory_limit={limit}.",
        where=next(filter(None, where), None),
        help=f"the largest live values are {largest}. Allow more; compute less at once (smaller batches, nm.map, "
        "products instead of matrices); or let loops store less: nm.scan(..., max_residual_bytes=...).",
    )
