"""Kernels that our passes write, compiled beside the rest of a module.

Code is generated for them while IREE's first step works on the functions that call them, which keeps one core busy and can
do nothing with kernels. There the functions call stubs: kernels of the same names that do nothing, in a library whose
place in the artifact the real one takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir import thresholds
from nabla_mlir.compiling.archive import with_file
from nabla_mlir.compiling.compiler import UNVERIFIED, compile_module
from nabla_mlir.compiling.executables import inside, move_into, name_of, rename_calls
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import nested
from nabla_mlir.errors import CompileError
from nabla_mlir.targets import Target

_SOURCE = "hal.executable.source"
_LIBRARY = ("--compile-mode=hal-executable", UNVERIFIED)  # makes the library alone


@dataclass(frozen=True)
class KernelLibrary:
    """Kernels without the module that calls them.

    Attributes:
      name: of the library, in the module too.
      names: of the kernels, in their order.
      text: the library as a module.
    """

    name: str
    names: tuple[str, ...]
    text: str


def take_kernels(module: ir.Module) -> KernelLibrary | None:
    """Takes the kernels out of a legalised module, which has stubs instead; None where they are too few to be worth it."""
    sources = [op.operation for op in module.body.operations if op.operation.name == _SOURCE]
    if sum(len(nested(op)) for op in sources) < thresholds.KERNELS_APART or not all(map(_is_alone, sources)):
        return None
    home, *others = sources
    name = name_of(home)
    with context(), ir.Location.unknown():
        callers = {name_of(op): name for op in others}
        move_into(home, others)
        for op in others:
            op.erase()
        rename_calls(module, "flow.dispatch", callers)
        apart = ir.Module.create()
        with ir.InsertionPoint(apart.body):
            whole = home.clone()
        whole.attributes["sym_visibility"] = ir.StringAttr.get("public")
        *exports, code, _ = inside(home)
        for kernel in inside(code):
            *body, _ = kernel.regions[0].blocks[0].operations
            for op in reversed(body):
                op.operation.erase()
    return KernelLibrary(name, tuple(map(name_of, exports)), str(apart))


def with_kernels(
    library: KernelLibrary, compile_rest: Callable[[], bytes], target: Target, flags: Sequence[str], cache: bool
) -> bytes:
    """The artifact of a module with stubs, with the real kernels in their place, which are compiled meanwhile.

    Raises:
      CompileError: one of the two is refused, or IREE has changed the stubs or their library.
    """
    with ThreadPoolExecutor(1) as pool:
        code = pool.submit(compile_module, library.text, target, flags=[*flags, *_LIBRARY], cache=cache)
        artifact = compile_rest()
    try:
        return with_file(artifact, f"{library.name}_", code.result())
    except ValueError as error:
        raise CompileError(f"compiling kernels apart requires a library for them, got {error}.") from None


def _is_alone(source: ir.Operation) -> bool:
    """Whether the one kernel of an executable is all its code."""
    *exports, code, _ = inside(source)
    return list(map(name_of, exports)) == list(map(name_of, inside(code)))
