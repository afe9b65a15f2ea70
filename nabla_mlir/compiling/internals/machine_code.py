"""Machine code in the executables of a module, in place of kernels in Triton's dialect."""

from __future__ import annotations

import base64
import functools
import json

from iree.compiler import ir

from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling.triton_kernels import machine_code
from nabla_mlir.passes.iree.internals.triton_sources import TRITON
from nabla_mlir.targets import Target
from nabla_mlir.targets.toolchain import run_compiler


def put_machine_code(module: ir.Module, target: Target, cache: bool = True) -> None:
    """Replaces the text of Triton's kernels in a module by machine code for the target, in place.

    With `cache`, machine code is read from the cache and stored there.

    Raises:
      CompileError: Triton refused a kernel.
    """
    sources = [op.operation for op in module.body.operations if TRITON in op.operation.attributes]
    if not sources:
        return
    kernels = [json.loads(ir.StringAttr(op.attributes[TRITON]).value) for op in sources]
    description = _executable_target(tuple(target.flags()))
    for op, code in zip(sources, machine_code(kernels, target.triton_capability(), cache), strict=True):
        content = base64.b64decode(code["code"])
        data = f'dense<"0x{content.hex().upper()}"> : vector<{len(content)}xi8>'
        objects = f'#hal.executable.objects<{{{description} = [#hal.executable.object<{{path = "kernel", data = {data}}}>]}}>'
        del op.attributes[TRITON]
        op.attributes["objects"] = ir.Attribute.parse(objects, context=module.context)
        export = op.regions[0].blocks[0].operations[0]
        export.attributes["workgroup_local_memory"] = ir.IntegerAttr.get(ir.IndexType.get(module.context), code["shared"])


@functools.cache
def _executable_target(flags: tuple[str, ...]) -> str:
    """The attribute that describes the target of executables for these flags of iree-compile, as IREE prints it.

    It is the text "#hal.executable.target<...>". Raises CompileError if IREE prints none.
    """
    result = run_compiler([*flags, "--compile-to=preprocessing", "-", "-o", "-"], b"module {}", timeout=60)
    text = result.stdout.decode()
    start = text.index("#hal.executable.target<", text.index(" = #hal.device.target<"))
    depth = 0
    for end in range(start, len(text)):
        depth += {"<": 1, ">": -1}.get(text[end], 0)
        if depth == 0 and text[end] == ">":
            return text[start : end + 1]
    raise CompileError("compiling requires a target that IREE describes, got none.")
