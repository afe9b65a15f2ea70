"""Measures which operations run on which target in which dtype, for the table that `nabla_mlir.tools.reference` writes.

python -m nabla_mlir.tools.coverage [ROOT [OPERATION ...]]

The command compiles the samples of every record in each dtype of the operation; tests/coverage.mlir has the operations
without samples. It runs them on the CPU and, if there is one, on a Vulkan device, and compares with NumPy, which
computes in f64 on the same inputs. Without a CUDA device it only compiles for CUDA. It stores the result in
nabla_mlir/ops/coverage.json: for each operation, target and dtype "yes" (it runs and is correct), "compiles" or "no:
why". A dtype that the operation does not accept, or for which NumPy has no result, is missing. All operations take most
of an hour.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nabla_mlir.ops  # noqa: F401  (fills the table)
from nabla_mlir.base.errors import CompileError, NablaError
from nabla_mlir.compiling.lowering import compile_lowered
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.interop.stablehlo import from_stablehlo
from nabla_mlir.passes.normalize.normalize import REWRITTEN
from nabla_mlir.runtime import Executable
from nabla_mlir.staging.specs import spec
from nabla_mlir.staging.stages import Traced, module, trace
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.samples import Case, Domain
from nabla_mlir.targets import TARGETS, available

MEASURED = Path("nabla_mlir") / "ops" / "coverage.json"
PROGRAMS = Path("tests") / "coverage.mlir"
_MEASURED = {title: found for kind in TARGETS.values() for title, found in kind.measured().items()}
TITLES = {title.lower(): title for title in _MEASURED}  # the targets, by their names in coverage.json
# The allowed error in each dtype, relative to the largest element: sums in samples may cancel. Integers are exact.
DTYPES = {
    "f64": 1e-9,
    "f32": 5e-4,
    "f16": 2e-2,
    "bf16": 1e-1,
    "i32": 0.0,
    "i64": 0.0,
    "i8": 0.0,
    "ui32": 0.0,
    "i1": 0.0,
    "c64": 5e-4,
    "c128": 1e-9,
}
_NUMPY = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i32": "int32",
    "i64": "int64",
    "i8": "int8",
    "ui32": "uint32",
    "i1": "bool",
    "c64": "complex64",
    "c128": "complex128",
}


@dataclass(frozen=True)
class Program:
    """A traced function with its inputs and its expected results.

    If the expected results are None, the function returns them itself, after its own results.
    """

    traced: Traced
    inputs: list[np.ndarray]
    expected: list[np.ndarray] | None


def programs(name: str, source: str, dtype: str) -> list[Program]:
    """The programs that measure an operation in a dtype: samples of its record, or its function in tests/coverage.mlir.

    Raises:
      NablaError, ValueError, TypeError: the operation or NumPy does not accept the dtype.
    """
    record, kind = REGISTRY.get(name), _dtype(dtype)
    rng = np.random.default_rng([*name.encode()])
    with np.errstate(all="ignore"):
        result = [_sampled(record, case, rng, kind) for case in _cases(record)] if record is not None else []
    if record is None or not record.sample:
        text = re.sub(r"\bf32\b|(?<=x)f32\b", {"c64": "complex<f32>", "c128": "complex<f64>"}.get(dtype, dtype), source)
        f = from_stablehlo(_function(text, name.replace(".", "_")), name.replace(".", "_"))
        inputs = [_drawn(rng.uniform(0.2, 0.9, shape), np.dtype(d)) for shape, d in f.inputs]  # type: ignore[attr-defined]
        result.append(Program(_trace(f, inputs), inputs, None))
    return result


def _function(source: str, name: str) -> str:
    """The text of one function of a module without comments, with the private functions that it may call."""
    parts = re.split(r"(?m)^(?=func\.func)", source)
    return "".join(p for p in parts if f"@{name}(" in p.partition("\n")[0] or p.startswith("func.func private"))


def _dtype(name: str) -> np.dtype:
    if name == "bf16":
        return np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    return np.dtype(_NUMPY[name])


def _trace(f: Callable[..., Any], inputs: Sequence[np.ndarray]) -> Traced:
    """The function `f`, traced for arrays like `inputs`; raises an error if the operation does not accept their dtypes."""
    traced = trace(f, *(spec(x.shape, x.dtype) for x in inputs), name="f")
    parse_module(traced.mlir())  # raises an error for operand types that the operation does not accept
    return traced


def _cases(record: OpDef) -> list[Case]:
    """The samples of a record as calls with shapes."""
    samples = record.sample or []
    if samples and all(isinstance(s, Domain) for s in samples):
        return [Case(((3, 2),) * len(samples), domains=tuple(samples))]
    return list(samples)


def _sampled(record: OpDef, case: Case, rng: np.random.Generator, kind: np.dtype) -> Program:
    """The program of one sample of `record` in the dtype `kind`, with its inputs, and results that NumPy computes in f64.

    Raises TypeError if NumPy computes in another dtype. `case` has the operands and parameters of the sample.
    """
    arrays = case.draw(rng, np.dtype(np.complex128 if kind.kind == "c" else np.float64))
    values = [*case.values, *[None] * len(arrays)]
    inputs = [
        x if x.dtype.kind not in "fc" else _drawn(x, kind) if value is None else _stated_value(x, kind)
        for x, value in zip(arrays, values, strict=False)
    ]
    # Parameters that name the dtype of the operands name this one.
    params = {key: _with_dtype(value, kind) for key, value in {**record.defaults, **case.params}.items()}
    if params.get("dtype", 0) is None:
        params["dtype"] = inputs[0].dtype
    reference: Any = case.numpy or record.numpy
    if isinstance(reference, str):
        home, _, attribute = reference.partition(":")
        reference = getattr(importlib.import_module(home), attribute)
    program = _trace(lambda *xs: tuple(record.apply(xs, params)), inputs)
    wide = np.complex128 if kind.kind == "c" else np.float64 if kind.kind in "fV" else kind
    expected = reference(*(x.astype(wide) if x.dtype == kind else x for x in inputs))
    outputs = [np.asarray(y) for y in (expected if isinstance(expected, (tuple, list)) else [expected])]
    for out, want in zip(program.entries[0].outputs, outputs, strict=True):
        if (out.dtype.kind in "biu" and want.dtype.kind in "fc") or (out.dtype.kind == "b") != (want.dtype.kind == "b"):
            raise TypeError(f"NumPy computes {out.dtype} in {want.dtype}")
    return Program(program, inputs, outputs)


def _with_dtype(value: Any, kind: np.dtype) -> Any:
    """The dtype `kind` in place of float64, in which samples state their parameters; other values are unchanged."""
    return kind if isinstance(value, np.dtype) and value == np.float64 else value


def _drawn(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """The random numbers `x` of a sample in the dtype `kind`: for integers they are multiplied by three, rounded, and not 0."""
    if kind.kind in "fVc":
        return x.astype(kind)
    whole = np.rint(3 * x.real)
    whole = np.where(whole == 0, 1, whole)
    return (whole > 0) if kind.kind == "b" else np.abs(whole).astype(kind) if kind.kind == "u" else whole.astype(kind)


def _stated_value(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """The value `x` that a sample states, in the dtype `kind`: infinities become the bounds of integers."""
    if kind.kind not in "iu":
        return x.astype(kind)
    ends = np.iinfo(kind)
    return np.clip(x, float(ends.min), float(ends.max // 2)).astype(kind)


def measure(name: str, source: str, target: str) -> dict[str, str]:
    """For each dtype of an operation: "yes", "compiles", or the reason why the operation fails on a target.

    All dtypes are compiled as one module first; if that fails, each dtype is compiled alone.
    """
    by_dtype: dict[str, list[Program]] = {}
    for dtype in _MEASURED[TITLES[target]][1] or DTYPES:
        try:
            by_dtype[dtype] = programs(name, source, dtype)
        except (NablaError, ValueError, TypeError, ArithmeticError, AttributeError):
            continue  # the operation does not accept this dtype
    try:
        outcome = _outcome(by_dtype, target)
    except NablaError:
        outcome = None
    if outcome is not None:
        return outcome
    words = {dtype: _outcome_alone(dtype, group, target) for dtype, group in by_dtype.items()}
    # An operation of CHLO may accept more dtypes than the operations to which it expands.
    return {dtype: word for dtype, word in words.items() if "must be ranked tensor of" not in word}


def _outcome_alone(dtype: str, group: list[Program], target: str) -> str:
    """The outcome of the programs `group` of one dtype, compiled alone: "yes", "compiles", or "no: " and the reason."""
    try:
        return _outcome({dtype: group}, target)[dtype]
    except NablaError as error:
        detail = error.message.splitlines()[1 if isinstance(error, CompileError) and "\n" in error.message else 0]
        return f"no: {re.sub(r'^.*?error: | at loc.*', '', detail.strip())[:160]}"


def _outcome(by_dtype: Mapping[str, list[Program]], target: str) -> dict[str, str]:
    """The outcome of each dtype, all compiled as one module: "yes", "compiles" (it cannot run here) or "no: wrong numbers".

    `by_dtype` maps each dtype to its programs. Raises NablaError if the module does not compile or run.
    """
    by_name = {f"{dtype}_{i}": p for dtype, group in by_dtype.items() for i, p in enumerate(group)}
    if not by_name:
        return {}
    lowered = module(**{key: p.traced for key, p in by_name.items()}).lower()
    tool = _MEASURED[TITLES[target]][0]
    vmfb = compile_lowered(lowered.module, tool)  # without the check, because this function compares the results
    if not _runs_here(tool.name):
        return dict.fromkeys(by_dtype, "compiles")
    executable = Executable.load(vmfb, tool.drivers[0])
    right = {key: _is_right(executable, key, p, DTYPES[key.partition("_")[0]]) for key, p in by_name.items()}
    return {
        dtype: "yes" if all(right[f"{dtype}_{i}"] for i in range(len(group))) else "no: wrong numbers"
        for dtype, group in by_dtype.items()
    }


@functools.cache
def _runs_here(name: str) -> bool:
    return next(a.runs for a in available() if a.name == name)


def _is_right(executable: Executable, function: str, program: Program, tolerance: float) -> bool:
    """True if the compiled function returns the expected results of the program, within a relative tolerance.

    Without expected results, the program returns the results and then those that are right. `executable` is the loaded code, and
    `function` is the name of one of its functions.
    """
    outs = [np.asarray(y) for y in executable.function(function)(program.inputs)]
    reference = program.expected
    if reference is None:
        outs, reference = outs[: len(outs) // 2], outs[len(outs) // 2 :]
    return all(_agree(a, b, tolerance) for a, b in zip(outs, reference, strict=True))


def _agree(got: np.ndarray, reference: np.ndarray, tolerance: float) -> bool:
    """True if two arrays are equal within the tolerance."""
    if got.dtype.kind not in "fcV" or not tolerance:
        return bool(np.array_equal(got, reference))
    wide = np.complex128 if reference.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), reference.astype(wide)
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=1.0))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def measurable() -> list[str]:
    """The operations that can be compiled, including those that are only defined by others."""
    return sorted(name for name in {*REGISTRY, *REWRITTEN} if name.startswith(("stablehlo.", "chlo.")))


def main(argv: Sequence[str] | None = None) -> int:
    """Measures all operations, or those named, and updates the table in a checkout; returns the exit code 0.

    `argv` is the path of the checkout, by default the current folder, then names of operations.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    root = Path(arguments[0] if arguments else ".").resolve()
    path, source = root / MEASURED, (root / PROGRAMS).read_text()
    if not arguments[1:]:
        return _measure_all(root)
    for name in arguments[1:]:
        words = {target: measure(name, source, target) for target in TITLES}
        _store(path, name, words)
        print(name, *(f"{t}: {_summary(w)}" for t, w in words.items()), sep="; ", flush=True)
    return 0


def _measure_all(root: Path) -> int:
    """Measures all operations in other processes, because an operation may crash its process; returns 0."""
    path, todo = root / MEASURED, measurable()
    path.write_text("{}\n")
    while todo:
        code = subprocess.run([sys.executable, "-m", "nabla_mlir.tools.coverage", root, *todo]).returncode
        todo = [name for name in todo if name not in json.loads(path.read_text())]
        if code and todo:
            _store(path, todo.pop(0), {target: {"f32": "no: the process died"} for target in TITLES})
    return 0


def _store(path: Path, name: str, words: Mapping[str, Mapping[str, str]]) -> None:
    outcomes = json.loads(path.read_text())
    path.write_text(json.dumps(outcomes | {name: words}, indent=1, sort_keys=True) + "\n")


def _summary(words: Mapping[str, str]) -> str:
    marks = {"yes": "", "compiles": "?"}
    return " ".join(dtype + marks.get(word, "!") for dtype, word in words.items())


if __name__ == "__main__":
    sys.exit(main())
