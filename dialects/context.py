"""The one MLIR context of the process, and the parsing of modules into it."""

from __future__ import annotations

import io
import re
import sys
import types

from iree.compiler import ir
from iree.compiler.ir import Context  # mypy finds the module `ir` in any file only if one imports from it

from nabla_mlir.base.errors import ImportIRError

# The bindings search for a module of Python classes whenever they return an operation, and do not cache a failure. An
# empty module avoids this search, which would take most of the time of every pass.

for _dialect in ("stablehlo", "chlo", "ad", "batch"):
    sys.modules.setdefault(f"iree.compiler.dialects.{_dialect}", types.ModuleType(_dialect))


BYTECODE = b"ML\xefR"  # the first bytes of bytecode


def _new_context() -> Context:
    """The context of the process; see `context`."""
    ctx = Context()
    ctx.allow_unregistered_dialects = True
    ctx.enable_multithreading(False)  # a forked process would wait for threads that do not exist in it
    return ctx


_context = _new_context()


def context() -> Context:
    """The single MLIR context of the process.

    MLIR knows `ad` and `batch` only through their IRDL files, so unregistered dialects are allowed; `nabla-verify`
    checks them instead.
    """
    return _context


def bytecode_of(module: ir.Module | ir.Operation) -> bytes:
    """A module as MLIR bytecode, with its locations."""
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    return file.getvalue()


def parse_module(source: str | bytes, *, filename: str = "the module") -> ir.Module:
    """Parses MLIR text or bytecode.

    Raises:
      ImportIRError: the source is not valid MLIR, with MLIR's own diagnostics.
    """
    with context():
        try:
            return ir.Module.parse(source)
        except ir.MLIRError as error:
            lines = [f"{_position_text(d.location)}{d.message}{_excerpt(source, d.location)}" for d in error.error_diagnostics]
            message = f"parsing requires valid MLIR, got an error in {filename}, "
            raise ImportIRError(message + "\n".join(lines)) from None
        except (ValueError, RuntimeError) as error:
            raise ImportIRError(f"parsing requires valid MLIR, got an error in {filename}: {error}") from None


def _position_text(location: ir.Location) -> str:
    """The position of a diagnostic of the parser, as the beginning of its line."""
    position = _POSITION.fullmatch(str(location))
    return f"line {position[1]}, column {position[2]}: " if position else f"{location}: "


_POSITION = re.compile(r'loc\("-":(\d+):(\d+)\)')


def _excerpt(source: str | bytes, location: ir.Location) -> str:
    """The line of the source at a location of the parser, with a mark at the column; "" if the location or the text is unknown."""
    position = _POSITION.fullmatch(str(location))
    if position is None or isinstance(source, bytes):
        return ""
    line, column = (int(n) for n in position.groups())
    return f"\n  {source.splitlines()[line - 1]}\n  {' ' * (column - 1)}^"
