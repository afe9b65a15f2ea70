"""Measures which operations run on which target, for the table that `nabla_mlir.tools.reference` writes.

python -m nabla_mlir.tools.coverage [ROOT [OPERATION ...]]

compiles the samples of every record (and tests/coverage.mlir, for what no sample can make) in f32 for CPU, Vulkan and
CUDA, runs them on CPU and, if there is one, on a Vulkan device, and compares with NumPy. What came out is stored in
nabla_mlir/ops/coverage.json.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nabla_mlir.ops  # noqa: F401  (fills the table)
from nabla_mlir.errors import NablaError
from nabla_mlir.importing import from_stablehlo
from nabla_mlir.ops.registry import REGISTRY, OpDef
from nabla_mlir.ops.samples import Case, Domain
from nabla_mlir.passes.normalize import REWRITTEN
from nabla_mlir.stages import spec, trace
from nabla_mlir.targets import CPU, CUDA, Target, Vulkan

MEASURED = Path("nabla_mlir") / "ops" / "coverage.json"
PROGRAMS = Path("tests") / "coverage.mlir"
TARGETS: dict[str, Target] = {"cpu": CPU(), "vulkan": Vulkan(), "cuda": CUDA("sm_80")}
_TOLERANCE = 5e-4  # relative to the largest element, in f32

# A function of tensors, its inputs, and what it returns (None: it returns that itself, behind its results).
Program = tuple[Callable[..., Any], list[np.ndarray], Any]


def programs(name: str, source: str) -> Iterator[Program]:
    """What is compiled for an operation: the samples of its record, or its function in tests/coverage.mlir."""
    record = REGISTRY.get(name)
    rng = np.random.default_rng([*name.encode()])
    for case in _cases(record) if record is not None else ():
        yield _sampled(record, case, rng)  # type: ignore[arg-type]  # there is a record
    if record is None or not record.sample:
        f = from_stablehlo(source, name.replace(".", "_"))
        inputs = [rng.uniform(0.2, 0.9, shape).astype(np.float32).astype(dtype) for shape, dtype in f.inputs]  # type: ignore[attr-defined]
        yield f, inputs, None


def _cases(record: OpDef) -> list[Case]:
    samples = record.sample or []
    if samples and all(isinstance(s, Domain) for s in samples):
        return [Case(((3, 2),) * len(samples), domains=tuple(samples))]
    return list(samples)


def _sampled(record: OpDef, case: Case, rng: np.random.Generator) -> Program:
    wide = any(isinstance(v, np.dtype) for v in case.params.values())  # which belong to operands of f64
    dtype = np.dtype(np.float64 if wide else np.float32)
    inputs = [x.astype(dtype) if x.dtype == np.float64 else x for x in case.draw(rng, dtype)]
    params = {**record.defaults, **case.params}
    if params.get("dtype", 0) is None:
        params["dtype"] = inputs[0].dtype
    reference: Any = case.numpy or record.numpy
    if isinstance(reference, str):
        module, _, attribute = reference.partition(":")
        reference = getattr(importlib.import_module(module), attribute)
    return (lambda *xs: tuple(record.apply(xs, params))), inputs, reference(*inputs)


def measure(name: str, source: str, target: Target) -> str:
    """Why an operation does not compile for a target, or run there and be right; "yes" if it does."""
    try:
        for f, inputs, expected in programs(name, source):
            compiled = trace(f, *(spec(x.shape, x.dtype) for x in inputs)).lower().compile(target)
            if target.name == "cuda":
                continue
            outs = compiled(*inputs)
            outs = [np.asarray(y) for y in (outs if isinstance(outs, tuple) else (outs,))]
            if expected is None:
                outs, expected = outs[: len(outs) // 2], outs[len(outs) // 2 :]
            wanted = list(expected) if isinstance(expected, (tuple, list)) else [expected]
            if not all(_agree(a, np.asarray(b)) for a, b in zip(outs, wanted, strict=True)):
                return "wrong numbers"
    except NablaError as error:
        return f"no: {error.message.splitlines()[0]}"
    return "yes"


def _agree(got: np.ndarray, wanted: np.ndarray) -> bool:
    if got.dtype.kind not in "fc":
        return bool(np.array_equal(got, wanted))
    scale = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0))
    return bool(np.allclose(got, wanted, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True))


def measurable() -> list[str]:
    """The operations that can be compiled, or stand for others that can."""
    return sorted(name for name in {*REGISTRY, *REWRITTEN} if name.startswith(("stablehlo.", "chlo.")))


def main(argv: Sequence[str] | None = None) -> int:
    """Measures all operations, or those named, and updates the file in the checkout ROOT, or else here."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    root = Path(arguments[0] if arguments else ".").resolve()
    source = (root / PROGRAMS).read_text()
    path = root / MEASURED
    found = json.loads(path.read_text()) if arguments[1:] else {}
    for name in arguments[1:] or measurable():
        found[name] = {word: measure(name, source, target) for word, target in TARGETS.items()}
        print(name, *found[name].values(), flush=True)
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
