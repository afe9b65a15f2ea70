"""Machine code for kernels in Triton's dialect (passes/iree/gpu), from Triton's compiler or from the cache."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling import cache as disk
from nabla_mlir.targets.toolchain import run_process, triton_version

_TIMEOUT = 1800.0
_MOST_SHARED = {80: 163, 90: 227}  # KiB that one block may use, by compute capability; 99 for others


def machine_code(kernels: Sequence[dict[str, Any]], capability: int, cache: bool) -> list[dict[str, Any]]:
    """The machine code of each kernel, from the cache or from Triton's compiler, as ``{"code": base64, "shared": bytes}``.

    "shared" is the size of the shared memory that it needs. `kernels` has the text and the launch parameters of each kernel (see
    `triton_worker`), `capability` is that of the GPU, such as 80, and with `cache` the disk cache is used.

    Raises:
      CompileError: Triton refused a kernel.
    """
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
                raise CompileError(
                    f"compiling requires kernels that Triton accepts, got {code['error']}.",
                    help="compile without them: CUDA(triton=False).",
                )
            codes[key] = code
            if cache:
                disk.write(key, json.dumps(code).encode())
    return [codes[key] for key in keys]


_KEY = "triton-2"  # the version of the form of the entries


def _compile(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The machine code of these kernels, or the error of each, from a separate process that runs Triton.

    Both are in the form of `triton_worker`. Raises CompileError if Triton fails or takes too long.
    """
    worker = Path(__file__).with_name("triton_worker.py")
    result = run_process([sys.executable, str(worker)], json.dumps(requests).encode(), timeout=_TIMEOUT)
    if result.timed_out:
        raise CompileError(f"compiling requires that Triton ends within {_TIMEOUT:g} s, got no result in that time.")
    if result.returncode:
        lines = result.stderr.strip().splitlines()
        raise CompileError(
            f"compiling requires that Triton {triton_version()} runs, got {lines[-1] if lines else 'a crash'}.",
            help="compile without it: CUDA(triton=False).",
        )
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found
