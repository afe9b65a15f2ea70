"""Divides the kernels of a long module among a few libraries, for which LLVM generates machine code in parallel.

IREE links all kernels of a module into one library, and LLVM works on one library with one core: half of the last step
of a compilation. A library for each kernel uses all cores, but costs three times the work, because a library costs as
much as a kernel in addition to its code. So the kernels are grouped before code is generated, and IREE is told not to
link them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.compiling.internals.executables import inside, move_into, name_of, rename_calls
from nabla_mlir.compiling.internals.kernel_library import KernelLibrary
from nabla_mlir.dialects.context import bytecode_of, context
from nabla_mlir.dialects.regions import nested

Rewrite = Callable[[ir.Module], None]


def before_code(
    rewrite: Rewrite | None, module: bytes, may_divide: bool, library: KernelLibrary | None = None
) -> tuple[bytes, bool]:
    """The module (bytecode), rewritten before code is generated, and True if its kernels are divided among several libraries.

    Args:
      rewrite: an additional rewrite of the module, in place; None if there is none.
      module: the module as bytecode.
      may_divide: True if there may be several libraries.
      library: the kernels for which the module has stubs; they stay a separate library.

    Raises:
      ValueError: the module cannot be rewritten.
    """
    if library is not None and not may_divide:
        raise ValueError("stubs of separate kernels in one library with other kernels")
    if rewrite is None and not may_divide:
        return module, False
    with context(), ir.Location.unknown():
        try:
            root = ir.Module.parse(module)
        except ir.MLIRError:  # the compiler reads it next, and reports the error
            return module, False
        if rewrite is not None:
            rewrite(root)
        is_divided = may_divide and divide(root, library)
        if rewrite is None and not is_divided:
            return module, False
        return bytecode_of(root), is_divided


def divide(module: ir.Module, library: KernelLibrary | None = None) -> bool:
    """True if the module now has several libraries; its kernels, before code generation, are grouped into a few executables.

    There are `thresholds.LIBRARIES`, the same number on every machine, so that artifacts do not depend on the machine that
    compiles. Modules that are too small, or that have executables of an unknown form, are not changed. If kernels are in a separate
    library, the others form one executable: to divide them, too, saved no time in eight large programs.

    Raises:
      ValueError: the separate kernels, or the others, do not have the expected form.
    """
    executables = [op.operation for op in module.body.operations if op.operation.name == "hal.executable"]
    if library is not None:
        executables = _others(executables, library)
    sizes = [len(nested(op)) for op in executables]
    count = thresholds.LIBRARIES if library is None and sum(sizes) >= thresholds.DIVIDED_KERNELS else 1
    if len(sizes) <= count or (library is None and count == 1):
        return library is not None
    if not _are_alike(executables):
        if library is not None:
            raise ValueError("executables of a kind that is not known")
        return False
    home_of: dict[str, str] = {}
    for positions in _share_kernels(sizes, count):
        home, *others = (executables[position] for position in positions)
        home_of |= {name_of(other): name_of(home) for other in others}
        move_into(inside(home)[0], [inside(other)[0] for other in others])
        for other in others:
            other.erase()
    rename_calls(module, "stream.cmd.dispatch", home_of)
    return True


def _others(executables: Sequence[ir.Operation], library: KernelLibrary) -> list[ir.Operation]:
    """The executables of a module without that of the stubs; raises ValueError if the stubs are not the library's kernels."""
    stubs = [op for op in executables if name_of(op) == library.name]
    # The last operations are terminators, and the last but one of a variant is the module with the code.
    exports = [name_of(e) for op in stubs for variant in inside(op)[:-1] for e in inside(variant)[:-2]]
    if exports != list(library.names):
        raise ValueError(f"the kernels {', '.join(library.names)}, got {', '.join(exports)}")
    return [op for op in executables if op not in stubs]


def _share_kernels(sizes: Sequence[int], count: int) -> list[list[int]]:
    """The indices of the kernels of each of `count` libraries; the largest kernel comes first, each to the smallest library so far.

    Example:
      >>> _share_kernels([1, 5, 3, 3], 2)
      [[0, 1], [2, 3]]
    """
    shares: list[list[int]] = [[] for _ in range(count)]
    for position in sorted(range(len(sizes)), key=lambda position: -sizes[position]):
        min(shares, key=lambda share: sum(sizes[p] for p in share)).append(position)
    return [sorted(share) for share in shares]


def _are_alike(executables: Sequence[ir.Operation]) -> bool:
    """True if each executable has one variant, all for the same target, and all functions have different names."""
    kinds, functions = [], []
    for executable in executables:
        variant, *others = inside(executable)
        *exports, code, _ = inside(variant)
        if len(others) != 1 or code.name != "builtin.module" or any(op.name != "hal.executable.export" for op in exports):
            return False
        kinds.append([{name: op.attributes[name] for name in op.attributes} for op in (variant, code)])
        functions += [name_of(op) for op in inside(code)]
    return all(kind == kinds[0] for kind in kinds) and len(set(functions)) == len(functions)
