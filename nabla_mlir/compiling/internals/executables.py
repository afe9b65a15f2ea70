"""Executables in IR: moves kernels and their functions from several executables into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.regions import last_of, nested


def move_into(home: ir.Operation, executables: Sequence[ir.Operation]) -> None:
    """Moves the kernels of executables (or of their variants) to the end of those of `home`: their exports and their functions."""
    *exports, code, _ = inside(home)
    number = len(exports)
    last = last_of(code.regions[0].blocks[0])
    for executable in executables:
        *exports, own, _ = inside(executable)
        for export in exports:
            export.attributes["ordinal"] = ir.IntegerAttr.get(ir.IndexType.get(), number)
            export.move_before(code)
            number += 1
        for function in inside(own):
            function.move_after(last)
            last = function


def rename_calls(module: ir.Module, call: str, home_of: Mapping[str, str]) -> None:
    """Updates the calls of kernels that have moved: `home_of` has the new executable of each old one, by name.

    `call` is the name of the calling operation. Example with {"b": "a"}: ``@b::@kernel`` -> ``@a::@kernel``.
    """
    for op in nested(module.operation):
        if op.name == call:
            paths = [ir.SymbolRefAttr(entry).value for entry in op.attributes["entry_points"]]
            entries = [ir.SymbolRefAttr.get([home_of.get(name, name), *path]) for name, *path in paths]
            op.attributes["entry_points"] = ir.ArrayAttr.get(entries)


def inside(op: ir.Operation) -> list[ir.Operation]:
    """The operations in the only block of an operation with one region."""
    return [inner.operation for inner in op.regions[0].blocks[0].operations]


def name_of(op: ir.Operation) -> str:
    """The name of a symbol."""
    return str(ir.StringAttr(op.attributes["sym_name"]).value)
