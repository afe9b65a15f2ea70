"""Machine code for the kernels in Triton's dialect that a module holds (passes/iree/gpu)."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iree.compiler import ir

from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling import cache as disk
from nabla_mlir.passes.iree.gpu.executable import TRITON
from nabla_mlir.targets import Target
from nabla_mlir.targets.toolchain import run_compiler, triton_version

_TIMEOUT = 1800.0
_MOST_SHARED = {80: 163, 90: 227}  # KiB that one block may use, by compute capability; 99 for others


def put_machine_code(module: ir.Module, target: Target, cache: bool = True) -> None:
    """Replaces the text of kernels by machine code for the target, in place.

    Raises:
      CompileError: Triton refused a kernel.
    """
    sources = [op.operation for op in module.body.operations if TRITON in op.operation.attributes]
    if not sources:
        return
    kernels = [json.loads(ir.StringAttr(op.attributes[TRITON]).value) for op in sources]
    description = _executable_target(tuple(target.flags()))
    for op, code in zip(sources, _codes(kernels, target.triton_capability(), cache), strict=True):
        machine_code = base64.b64decode(code["code"])
        data = f'dense<"0x{machine_code.hex().upper()}"> : vector<{len(machine_code)}xi8>'
        objects = f'#hal.executable.objects<{{{description} = [#hal.executable.object<{{path = "kernel", data = {data}}}>]}}>'
        del op.attributes[TRITON]
        op.attributes["objects"] = ir.Attribute.parse(objects, context=module.context)
        export = op.regions[0].blocks[0].operations[0]
        export.attributes["workgroup_local_memory"] = ir.IntegerAttr.get(ir.IndexType.get(module.context), code["shared"])


def _codes(kernels: Sequence[dict[str, Any]], capability: int, cache: bool) -> list[dict[str, Any]]:
    """The machine code of each kernel; those that are not in the cache are compiled together."""
    version = triton_version()
    # From 90 on, Triton's instructions exist on one architecture only. PTX for older ones runs on all newer GPUs.
    form = "cubin" if capability >= 90 else "ptx"
    requests = [{**k, "capability": capability, "format": form} for k in kernels]
    keys = [hashlib.sha256(json.dumps([_KEY, version, request], sort_keys=True).encode()).hexdigest() for request in requests]
    codes: dict[str, dict[str, Any]] = {}
    if cache:
        codes = {key: json.loads(found) for key in keys if (found := disk.read(key)) is not None}
    missing = {key: request for key, request in zip(keys, requests, strict=True) if key not in codes}
    if missing:
        for key, code in zip(missing, _compile(list(missing.values())), strict=True):
            if "error" not in code and code["shared"] > _MOST_SHARED.get(capability, 99) * 1024:
                code = {"error": f"{code['shared']} bytes of shared memory"}
            if "error" in code:
                raise CompileError(f"compiling requires kernels that Triton accepts, got {code['error']}.",
                                   help="compile without them: CUDA(triton=False).")  # fmt: skip
            codes[key] = code
            if cache:
                disk.write(key, json.dumps(code).encode())
    return [codes[key] for key in keys]


_KEY = "triton-2"  # the version of the form of the entries


def _compile(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    worker = Path(__file__).with_name("triton_worker.py")
    try:
        result = subprocess.run([sys.executable, str(worker)], input=json.dumps(requests).encode(), capture_output=True,
                                timeout=_TIMEOUT)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CompileError(f"compiling requires that Triton ends within {_TIMEOUT:g} s, got no result in that time.") from None
    if result.returncode:
        lines = result.stderr.decode(errors="replace").strip().splitlines()
        raise CompileError(f"compiling requires that Triton {triton_version()} runs, got {lines[-1] if lines else 'a crash'}.",
                           help="compile without it: CUDA(triton=False).")  # fmt: skip
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


@functools.cache
def _executable_target(flags: tuple[str, ...]) -> str:
    """The description of the target of executables, as IREE prints it for these flags."""
    result = run_compiler([*flags, "--compile-to=preprocessing", "-", "-o", "-"], b"module {}", timeout=60)
    text = result.stdout.decode()
    start = text.index("#hal.executable.target<", text.index(" = #hal.device.target<"))
    depth = 0
    for end in range(start, len(text)):
        depth += {"<": 1, ">": -1}.get(text[end], 0)
        if depth == 0 and text[end] == ">":
            return text[start : end + 1]
    raise CompileError("compiling requires a target that IREE describes, got none.")
