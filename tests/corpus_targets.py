"""Adapters that run the programs of the corpus, as they stand, on each target; derivatives add nothing to a target.

harness.py --adapter tests/corpus_targets.py:CPUAdapter --steps primal [--only NAME]
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nabla_mlir as nm
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.lowering import legalize
from nabla_mlir.runtime import Executable
from nabla_mlir.targets import Target

Arrays = list[np.ndarray]


class _Adapter:
    """Compiles for `targets`, and runs on the last of them."""

    supports = frozenset({"primal"})
    targets: Sequence[Target]

    def parse(self, text: str) -> Callable[..., Any]:
        return nm.from_stablehlo(text, "main")

    def run(self, f: Any, inputs: Arrays) -> Arrays:
        lowered = nm.trace(f, *(nm.spec(x.shape, x.dtype) for x in inputs), name="main").lower()
        compiled = [lowered.compile(target) for target in self.targets]
        return self.results(lowered, compiled[-1], inputs)

    def results(self, lowered: nm.Lowered, compiled: nm.Compiled, inputs: Arrays) -> Arrays:
        outs = compiled(*inputs)
        return [np.asarray(y) for y in (outs if isinstance(outs, tuple) else (outs,))]


class CPUAdapter(_Adapter):
    targets = (nm.CPU(),)


class VulkanAdapter(_Adapter):
    targets = (nm.Vulkan(),)


class CAdapter(_Adapter):
    """Static libraries, built by the C compiler of this machine and called as C."""

    def run(self, f: Any, inputs: Arrays) -> Arrays:
        lowered = nm.trace(f, *(nm.spec(x.shape, x.dtype) for x in inputs), name="main").lower()
        entry = lowered.entries[0]
        outs = [np.empty(out.shape, out.dtype) for out in entry.outputs]
        with tempfile.TemporaryDirectory() as folder:
            nm.save_static_library(lowered, f"{folder}/program")
            cc = ["cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", "program.so"]
            subprocess.run([*cc, "program.c", "program.o", "-lm"], cwd=folder, check=True)
            call = ctypes.CDLL(f"{folder}/program.so").program_main
            status = call(*(ctypes.c_void_p(x.ctypes.data) for x in [*inputs, *outs]))
        if status:
            raise RuntimeError(f"program_main returned {status}")
        return outs


class CUDAAdapter(_Adapter):
    """Without a GPU: compiles for two generations, and the CPU runs the IR that was compiled.

    Not XLA: it takes (x + 1.5 * 2**23) - 1.5 * 2**23, which rounds x, for x.
    """

    targets = (nm.CUDA("sm_80"), nm.CUDA("sm_90"))

    def results(self, lowered: nm.Lowered, compiled: nm.Compiled, inputs: Arrays) -> Arrays:
        code = compile_module(str(legalize(lowered.module, compiled.target)), nm.CPU())
        return [np.asarray(y) for y in Executable.load(code).function("main")(inputs)]
