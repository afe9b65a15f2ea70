"""Compiles kernels in Triton's dialect; a program, which runs in a process of its own.

It reads a list of kernels from the standard input, as JSON: {"text", "warps", "stages", "capability"} each. It writes a list of
{"code", "shared"}: the machine code in base64 and the bytes of shared memory, or {"error"}.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any


def main() -> int:
    """Compiles the kernels on all cores."""
    kernels = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="nabla-triton-") as folder:
        os.environ |= {"TRITON_CACHE_DIR": folder, "TRITON_DEFAULT_FP_FUSION": "1", "TRITON_DISABLE_LINE_INFO": "1"}
        import triton.compiler  # noqa: F401  # once, before the processes divide

        workers = max(1, min(len(kernels), len(os.sched_getaffinity(0))))
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
    """One kernel."""
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


if __name__ == "__main__":
    sys.exit(main())
