"""Kernels for Triton, compiled ahead of time and run in the interpreter of PTX."""

from __future__ import annotations

import base64
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu.product_cases import DTYPES, Case
from gpu.ptx.parser import parse
from gpu.ptx.simulator import Simulator
from nabla_mlir.compiling import triton_kernels
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.passes.iree.gpu.contraction import Contraction
from nabla_mlir.passes.iree.gpu.product_kernel import product_kernel
from nabla_mlir.passes.iree.gpu.sources import contraction_of

Array = NDArray[Any]


@dataclass(frozen=True)
class Compiled:
    """The PTX of a case's kernel, and the bytes of shared memory that it asks for."""

    case: Case
    contraction: Contraction
    ptx: str
    shared: int

    def run(self, left: Array, right: Array) -> tuple[Array, Counter[str]]:
        """The result in the interpreter, the parts of its sums added in f64, and the counters."""
        c, t = self.contraction, self.case.tiling
        batch, rows, columns, _ = c.shape
        shape = self.case.numbers(np.zeros(self.case.left), np.zeros(self.case.right)).shape
        stored = DTYPES[self.case.result] if t.splits == 1 else np.dtype(np.float32)
        simulator = Simulator(np.zeros(1 << 22, np.uint8))
        factors = [simulator.put(x) for x in ((right, left) if c.is_exchanged else (left, right))]
        result = simulator.put(np.zeros((t.splits, *shape), stored))
        blocks = t.splits * batch * -(-rows // t.rows) * -(-columns // t.columns)
        simulator.launch(parse(self.ptx)["k"], (blocks,), [*factors, result], (32 * t.warps,), self.shared)
        parts = simulator.get(result, (t.splits, *shape), stored)
        return (parts[0] if t.splits == 1 else parts.astype(np.float64).sum(0)), simulator.counts

    def spills(self, ptxas: Path, folder: Path) -> tuple[int, int]:
        """The bytes of registers that ptxas stores elsewhere, and loads."""
        source = folder / "kernel.ptx"
        source.write_text(self.ptx)
        target = re.search(r"\.target (\w+)", self.ptx)
        assert target
        command = [str(ptxas), "-v", "--gpu-name", target[1], str(source), "-o", str(folder / "kernel.cubin")]
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        found = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", result.stderr)
        assert found
        return int(found[1]), int(found[2])


def compiled(cases: Sequence[Case], capability: int) -> list[Compiled]:
    """The kernels of several cases, which one process compiles."""
    contractions = [_contraction(case) for case in cases]
    requests = [
        {
            "text": product_kernel("k", c, case.tiling),
            "warps": case.tiling.warps,
            "stages": case.tiling.stages,
            "capability": capability,
            "format": "ptx",
        }
        for c, case in zip(contractions, cases, strict=True)
    ]
    result = []
    for case, c, code in zip(cases, contractions, triton_kernels._compile(requests), strict=True):
        assert "error" not in code, code["error"]
        result.append(Compiled(case, c, base64.b64decode(code["code"]).decode(), code["shared"]))
    return result


def _contraction(case: Case) -> Contraction:
    shape = case.numbers(np.zeros(case.left), np.zeros(case.right)).shape
    module = parse_module(case.module(shape))
    (found,) = [contraction_of(op) for op in nested_in_functions(module.operation) if op.name.startswith("stablehlo.")]
    assert found is not None
    return found.canonical()
