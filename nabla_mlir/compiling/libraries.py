"""The kernels of a long module in a few libraries, of which LLVM makes the machine code side by side.

IREE links all kernels of a module into one library, and LLVM works on a library with one core: half of the last step of a
compilation. A library for each kernel uses all cores, but takes three times the work, for a library costs as much besides
its code as a kernel does. So we put the kernels together, before there is code for them, and tell IREE to leave them so.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from iree.compiler import ir

from nabla_mlir import thresholds
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import last_of, nested

Rewrite = Callable[[ir.Module], None]


def before_code(rewrite: Rewrite | None, module: bytes, may_divide: bool) -> tuple[bytes, bool]:
    """A module, as it is before code is generated for it, with its kernels in several libraries; and whether they are.

    Args:
      rewrite: what else is to be done to it.
      module: the module as bytecode.
      may_divide: whether there may be several.

    Raises:
      ValueError: it cannot be rewritten.
    """
    if rewrite is None and not may_divide:
        return module, False
    with context(), ir.Location.unknown():
        try:
            root = ir.Module.parse(module)
        except ir.MLIRError:  # the compiler, which reads it next, says what is wrong
            return module, False
        if rewrite is not None:
            rewrite(root)
        is_divided = may_divide and divide(root)
        if rewrite is None and not is_divided:
            return module, False
        bytecode = io.BytesIO()
        root.operation.write_bytecode(bytecode)
    return bytecode.getvalue(), is_divided


def divide(module: ir.Module) -> bool:
    """Puts the kernels of a module before code generation into `thresholds.LIBRARIES` executables; returns whether it did.

    They are as many on every machine, so that artifacts do not depend on where they are made. Left alone is what is not worth
    it, and a module with executables of a kind that is not known here.
    """
    executables = [op.operation for op in module.body.operations if op.operation.name == "hal.executable"]
    sizes = [len(nested(op)) for op in executables]
    if len(sizes) <= thresholds.LIBRARIES or sum(sizes) < thresholds.DIVIDED_KERNELS or not _are_alike(executables):
        return False
    home_of: dict[str, str] = {}
    for places in _shares(sizes):
        home, *others = (executables[place] for place in places)
        home_of |= {_name(other): _name(home) for other in others}
        _move(others, home)
    for op in nested(module.operation):
        if op.name == "stream.cmd.dispatch":
            paths = [ir.SymbolRefAttr(entry).value for entry in op.attributes["entry_points"]]
            entries = [ir.SymbolRefAttr.get([home_of.get(name, name), *path]) for name, *path in paths]
            op.attributes["entry_points"] = ir.ArrayAttr.get(entries)
    return True


def _shares(sizes: Sequence[int]) -> list[list[int]]:
    """The places of the kernels of each library: the largest first, each to the library with the least so far.

    Example:
      >>> _shares([1, 5, 3, 3])
      [[0, 1], [2, 3]]
    """
    shares: list[list[int]] = [[] for _ in range(thresholds.LIBRARIES)]
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        min(shares, key=lambda share: sum(sizes[p] for p in share)).append(place)
    return [sorted(share) for share in shares]


def _are_alike(executables: Sequence[ir.Operation]) -> bool:
    """Whether each is one variant, for the same target, of exports and of functions that no other names so."""
    kinds, functions = [], []
    for executable in executables:
        variant, *others = _inside(executable)
        *exports, code, _ = _inside(variant)
        if len(others) != 1 or code.name != "builtin.module" or any(op.name != "hal.executable.export" for op in exports):
            return False
        kinds.append([{name: op.attributes[name] for name in op.attributes} for op in (variant, code)])
        functions += [_name(op) for op in _inside(code)]
    return all(kind == kinds[0] for kind in kinds) and len(set(functions)) == len(functions)


def _move(executables: Sequence[ir.Operation], home: ir.Operation) -> None:
    """Moves the exports and functions of executables to the end of those of another one."""
    *exports, code, _ = _inside(_inside(home)[0])
    number = len(exports)
    last = last_of(code.regions[0].blocks[0])
    for executable in executables:
        *exports, own, _ = _inside(_inside(executable)[0])
        for export in exports:
            export.attributes["ordinal"] = ir.IntegerAttr.get(ir.IndexType.get(), number)
            export.move_before(code)
            number += 1
        for function in _inside(own):
            function.move_after(last)
            last = function
        executable.erase()


def _inside(op: ir.Operation) -> list[ir.Operation]:
    return [inner.operation for inner in op.regions[0].blocks[0].operations]


def _name(op: ir.Operation) -> str:
    return str(ir.StringAttr(op.attributes["sym_name"]).value)
