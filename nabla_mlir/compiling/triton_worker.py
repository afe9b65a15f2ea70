"""Compiles kernels in Triton's dialect; a program, which runs in a process of its own.

It reads a list of kernels from the standard input, as JSON: {"text", "warps", "stages", "capability"} each. It writes a list of
{"code", "shared"}: the machine code in base64 and the bytes of shared memory, or {"error"}.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any


def main() -> int:
    """Compiles the kernels of the standard input on all cores, and writes their machine code; returns the exit code 0."""
    kernels = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="nabla-triton-") as folder:
        os.environ |= {"TRITON_CACHE_DIR": folder, "TRITON_DEFAULT_FP_FUSION": "1", "TRITON_DISABLE_LINE_INFO": "1"}
        import triton  # once, before the processes divide

        triton.knobs.runtime.add_stages_inspection_hook = _without_scratch
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = max(1, min(len(kernels), cores))
        paths = []
        for number, kernel in enumerate(kernels):
            path = Path(folder, f"{number}.ttir")
            path.write_text(kernel["text"])
            paths.append(str(path))
        with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
            results = list(pool.map(compiled, paths, kernels))
    json.dump(results, sys.stdout)
    return 0


def compiled(path: str, kernel: dict[str, Any]) -> dict[str, Any]:
    """``{"code", "shared"}`` of one kernel, or ``{"error"}`` if Triton refuses it; the module describes the fields.

    `path` is the file of its text, and `kernel` has its parameters.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    options = {"num_warps": kernel["warps"], "num_stages": kernel["stages"], "ptx_version": 83}
    try:
        result = triton.compile(path, target=GPUTarget("cuda", kernel["capability"], 32), options=options)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:2000]}
    code = result.asm[kernel["format"]]
    code = code.encode() if isinstance(code, str) else code
    return {"code": base64.b64encode(code).decode(), "shared": result.metadata.shared}


def _without_scratch(_: Any = None, stages: dict[str, Any] | None = None, *__: Any) -> tuple[str, str] | None:
    """A hook of Triton, which removes two arguments from the PTX of each kernel; Triton adds them, and IREE passes none for them.

    Triton calls it with the functions of its stages, of which it replaces the one that writes PTX. Without stages Triton asks for a
    key of its cache and a description.
    """
    if stages is None:  # Triton asks what distinguishes these stages
        return "nabla", "without scratch"
    write = stages["ptx"]
    stages["ptx"] = lambda source, metadata: without_scratch(write(source, metadata))
    return None


def without_scratch(ptx: str) -> str:
    """The PTX of a kernel without its last two parameters: pointers to scratch memory, which it does not read.

    Raises:
      ValueError: it reads them.
    """
    entry = re.search(r"\.entry (\w+)\(\n(.*?)\n\)", ptx, re.DOTALL)
    if entry is None:
        raise ValueError("the text has no kernel")
    parameters = entry[2].split(",\n")
    for number in (len(parameters) - 2, len(parameters) - 1):
        if ptx.count(f"{entry[1]}_param_{number}") != 1:
            raise ValueError("the kernel reads scratch memory")
    return ptx.replace(entry[2], ",\n".join(parameters[:-2]))


if __name__ == "__main__":
    sys.exit(main())
