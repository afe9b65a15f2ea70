"""Adapters that run the programs of the corpus, as they stand, on each target; derivatives add nothing to a target.

harness.py --adapter tests/corpus_targets.py:CPUAdapter --steps primal [--only NAME]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent)]

from xla import run_module

import nabla_mlir as nm
from nabla_mlir.lowering import legalize
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


class CUDAAdapter(_Adapter):
    """Without a GPU: compiles for two generations, and XLA runs the IR that was compiled."""

    targets = (nm.CUDA("sm_80"), nm.CUDA("sm_90"))

    def results(self, lowered: nm.Lowered, compiled: nm.Compiled, inputs: Arrays) -> Arrays:
        return run_module(str(legalize(lowered.module, compiled.target)), inputs)
