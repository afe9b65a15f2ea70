"""The one MLIR context of the process, and the parsing of modules into it."""

from __future__ import annotations

import re
import sys
import types

from iree.compiler import ir
from iree.compiler.ir import Context  # mypy finds the module `ir` in any file only if one imports from it

from nabla_mlir.errors import ImportIRError

# The bindings look for a module of Python classes whenever they hand over an operation, and do not remember that
# there is none: an empty one saves that search, which would be most of the time of every pass.
for _dialect in ("stablehlo", "chlo", "ad", "batch"):
    sys.modules.setdefault(f"iree.compiler.dialects.{_dialect}", types.ModuleType(_dialect))


BYTECODE = b"ML\xefR"  # what it starts with


def _made() -> Context:
    ctx = Context()
    ctx.allow_unregistered_dialects = True
    ctx.enable_multithreading(False)  # a fork of the process would wait for threads that it has not
    return ctx


_context = _made()


def context() -> Context:
    """The context in which all IR of the process lives.

    `ad` and `batch` are known to MLIR only through their IRDL files, so unregistered dialects are allowed;
    `nabla-verify` checks them instead.
    """
    return _context


def parse_module(source: str | bytes, *, filename: str = "<module>") -> ir.Module:
    """Parses MLIR text or bytecode.

    Raises:
      ImportIRError: the source is not valid MLIR, with MLIR's own diagnostics.
    """
    with context():
        try:
            return ir.Module.parse(source)
        except ir.MLIRError as error:
            lines = [f"{d.location}: {d.message}{_excerpt(source, d.location)}" for d in error.error_diagnostics]
            message = f"parsing requires valid MLIR, got an error in {filename}.\n"
            raise ImportIRError(message + "\n".join(lines)) from None
        except (ValueError, RuntimeError) as error:
            raise ImportIRError(f"parsing requires valid MLIR, got an error in {filename}: {error}") from None


def _excerpt(source: str | bytes, location: ir.Location) -> str:
    """The line of a text that a location of the parser points to; the dialect of an operation may be unknown to it."""
    place = re.fullmatch(r'loc\("-":(\d+):(\d+)\)', str(location))
    if place is None or isinstance(source, bytes):
        return ""
    line, column = (int(n) for n in place.groups())
    return f"\n  {source.splitlines()[line - 1]}\n  {' ' * (column - 1)}^"
