"""Kernels that passes write, compiled in parallel with the rest of a module.

Machine code for the kernels is generated while IREE's first step, which uses one core and does not change kernels,
works on the functions that call them. In that step the functions call stubs: empty kernels with the same names, in a
separate library. The real library then replaces the library of stubs in the artifact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.internals.archive import with_file
from nabla_mlir.compiling.internals.executables import inside, move_into, name_of, rename_calls
from nabla_mlir.compiling.internals.phases import LIBRARY_ALONE
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import nested
from nabla_mlir.passes.iree.internals.dispatches import DISPATCH
from nabla_mlir.passes.iree.internals.executables import EXECUTABLE
from nabla_mlir.targets import Target


@dataclass(frozen=True)
class KernelLibrary:
    """Kernels without the module that calls them.

    Attributes:
      name: the name of the library, also in the module.
      names: the names of the kernels, in order.
      text: the library as a module.
    """

    name: str
    names: tuple[str, ...]
    text: str


def take_kernels(module: ir.Module) -> KernelLibrary | None:
    """The kernels of a legalised module as a library; empty stubs with their names stay in the module.

    All executables of the module are joined to the first one, `home`. None if the kernels are too small to pay off, or if an
    executable has functions other than its kernels; the module is then as before.
    """
    sources = [op.operation for op in module.body.operations if op.operation.name == EXECUTABLE]
    if sum(len(nested(op)) for op in sources) < thresholds.SEPARATE_KERNELS or not all(map(_is_alone, sources)):
        return None
    home, *others = sources
    name = name_of(home)
    with context(), ir.Location.unknown():
        home_of = {name_of(op): name for op in others}
        move_into(home, others)
        for op in others:
            op.erase()
        rename_calls(module, DISPATCH, home_of)
        kernels_module = ir.Module.create()
        with ir.InsertionPoint(kernels_module.body):
            copy = home.clone()
        copy.attributes["sym_visibility"] = ir.StringAttr.get("public")
        # The kernels that stay in the module become stubs: all operations except the terminator are erased.
        *exports, code, _ = inside(home)
        for kernel in inside(code):
            *body, _ = kernel.regions[0].blocks[0].operations
            for op in reversed(body):
                op.operation.erase()
    return KernelLibrary(name, tuple(map(name_of, exports)), str(kernels_module))


def with_kernels(
    library: KernelLibrary, compile_rest: Callable[[], bytes], target: Target, flags: Sequence[str], cache: bool
) -> bytes:
    """The artifact of a module in which the real kernels replace the stubs; both are compiled at the same time.

    Args:
      library: the kernels.
      compile_rest: returns the artifact of the module with stubs.
      target, flags: what they are compiled for, and additional flags of iree-compile.
      cache: True reads the kernels from the cache, and stores them there.

    Raises:
      CompileError: one of the two is refused, or IREE has changed the stubs or their library.
    """
    with ThreadPoolExecutor(1) as pool:
        code = pool.submit(compile_module, library.text, target, flags=[*flags, *LIBRARY_ALONE], cache=cache)
        artifact = compile_rest()
    try:
        return with_file(artifact, f"{library.name}_", code.result())
    except ValueError as error:
        raise CompileError(f"compiling kernels separately requires a library for them, got {error}.") from None


def _is_alone(source: ir.Operation) -> bool:
    """True if the executable contains no functions other than its kernels."""
    *exports, code, _ = inside(source)
    return list(map(name_of, exports)) == list(map(name_of, inside(code)))
