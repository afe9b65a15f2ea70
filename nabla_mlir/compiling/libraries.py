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
from nabla_mlir.compiling.executables import inside, move_into, name_of, rename_calls
from nabla_mlir.compiling.kernel_library import KernelLibrary
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import nested

Rewrite = Callable[[ir.Module], None]


def before_code(
    rewrite: Rewrite | None, module: bytes, may_divide: bool, library: KernelLibrary | None = None
) -> tuple[bytes, bool]:
    """A module, as it is before code is generated for it, with its kernels in several libraries; and whether they are.

    Args:
      rewrite: what else is to be done to it.
      module: the module as bytecode.
      may_divide: whether there may be several.
      library: that of the kernels of which there are stubs, which stays one of its own.

    Raises:
      ValueError: it cannot be rewritten.
    """
    if library is not None and not may_divide:
        raise ValueError("stubs of kernels that are compiled apart, in one library with others")
    if rewrite is None and not may_divide:
        return module, False
    with context(), ir.Location.unknown():
        try:
            root = ir.Module.parse(module)
        except ir.MLIRError:  # the compiler, which reads it next, says what is wrong
            return module, False
        if rewrite is not None:
            rewrite(root)
        is_divided = may_divide and divide(root, library)
        if rewrite is None and not is_divided:
            return module, False
        bytecode = io.BytesIO()
        root.operation.write_bytecode(bytecode)
    return bytecode.getvalue(), is_divided


def divide(module: ir.Module, library: KernelLibrary | None = None) -> bool:
    """Puts the kernels of a module before code generation into `thresholds.LIBRARIES` executables; returns whether it did.

    They are as many on every machine, so that artifacts do not depend on where they are made. Left alone is what is not worth
    it, and a module with executables of a kind that is not known here. Beside kernels that are apart, few others are one
    executable.

    Raises:
      ValueError: the kernels that are apart, or those beside them, are not as they should be.
    """
    executables = [op.operation for op in module.body.operations if op.operation.name == "hal.executable"]
    if library is not None:
        executables = _others(executables, library)
    sizes = [len(nested(op)) for op in executables]
    count = thresholds.LIBRARIES if sum(sizes) >= thresholds.DIVIDED_KERNELS else 1
    if len(sizes) <= count or (library is None and count == 1):
        return library is not None
    if not _are_alike(executables):
        if library is not None:
            raise ValueError("executables of a kind that is not known")
        return False
    home_of: dict[str, str] = {}
    for places in _shares(sizes, count):
        home, *others = (executables[place] for place in places)
        home_of |= {name_of(other): name_of(home) for other in others}
        move_into(inside(home)[0], [inside(other)[0] for other in others])
        for other in others:
            other.erase()
    rename_calls(module, "stream.cmd.dispatch", home_of)
    return True


def _others(executables: Sequence[ir.Operation], library: KernelLibrary) -> list[ir.Operation]:
    """The executables beside the one of the kernels that are apart."""
    stubs = [op for op in executables if name_of(op) == library.name]
    exports = [name_of(e) for op in stubs for variant in inside(op)[:-1] for e in inside(variant)[:-2]]
    if exports != list(library.names):
        raise ValueError(f"the kernels {', '.join(library.names)}, got {', '.join(exports)}")
    return [op for op in executables if op not in stubs]


def _shares(sizes: Sequence[int], count: int) -> list[list[int]]:
    """The places of the kernels of each library: the largest first, each to the library with the least so far.

    Example:
      >>> _shares([1, 5, 3, 3], 2)
      [[0, 1], [2, 3]]
    """
    shares: list[list[int]] = [[] for _ in range(count)]
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        min(shares, key=lambda share: sum(sizes[p] for p in share)).append(place)
    return [sorted(share) for share in shares]


def _are_alike(executables: Sequence[ir.Operation]) -> bool:
    """Whether each is one variant, for the same target, of exports and of functions that no other names so."""
    kinds, functions = [], []
    for executable in executables:
        variant, *others = inside(executable)
        *exports, code, _ = inside(variant)
        if (
            len(others) != 1
            or code.name != "builtin.module"
            or any(op.name != "hal.executable.export" for op in exports)
        ):
            return False
        kinds.append([{name: op.attributes[name] for name in op.attributes} for op in (variant, code)])
        functions += [name_of(op) for op in inside(code)]
    return all(kind == kinds[0] for kind in kinds) and len(set(functions)) == len(functions)
