"""Injects faults into programs, and counts how many of them checked compilation detects.

usage: injections.py [--count N] [--seed S] [--compile] [--parts] [--sample N] [--bits N] [--only NAME]

One operation of each program is changed (`nabla_mlir.testing.injections.FAULTS`). The changed program is compiled, and checked
against the original program like in `.compile()`. Without --compile, the interpreter runs the changed program; this gives the
decision of the check in a hundredth of the time. For a fault that is not detected, the interpreter runs both programs on other
random arguments; if their results are equal, the fault has no effect.

With --parts, programs are checked in parts, with a part for each product and each loop; others are left out.

With --bits, the programs are correct, and single random bits of their executables are changed, each in a separate process.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from frameworks import nabla, nabla_functions
from iree.compiler import ir
from workloads import WORKLOADS
from workloads_sweep import SWEEP

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import NablaError
from nabla_mlir.compiling import reference_check
from nabla_mlir.compiling.comparison import compare
from nabla_mlir.compiling.lowering import clone_module, compile_lowered
from nabla_mlir.compiling.parts import expensive_operations
from nabla_mlir.compiling.reference_check import CHECKED, DIFFERS, check_artifact, check_in_parts
from nabla_mlir.compiling.reference_runs import ReferenceRuns, entries_of
from nabla_mlir.dialects.context import bytecode_of, parse_module
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interpreter import Budget, OutOfStepsError, functions
from nabla_mlir.interpreter.executable import InterpretedExecutable
from nabla_mlir.runtime.array import Array
from nabla_mlir.testing.deep import Deep
from nabla_mlir.testing.injections import FAULTS, inject

CORPUS = Path(__file__).parents[1] / "tests" / "corpus.tar.gz"
WORKLOAD_NAMES = ("rosenbrock-1e3", "logistic", "mlp", "rnn", "mixture", "bundle", "process", "gelu", "lstm", "kalman")
CORPUS_EVERY, DEEP_SEEDS = 15, range(0, 6400, 320)
_STEPS = 1e6
_PROGRAMS = 74  # the approximate number of programs
TARGET = nm.CPU("host")


def programs() -> Iterator[tuple[str, ir.Module]]:
    """Yields names and lowered modules: HVPs of bench/, programs of the corpus and their gradients, and deep programs."""
    for name in WORKLOAD_NAMES:
        workload = next(w for w in (*WORKLOADS, *SWEEP) if w.name == name)
        x, *rest = workload.inputs()
        hvp = nabla_functions(workload, workload.function(nabla()))["hvp"]
        yield f"hvp {name}", nm.trace(hvp, x, x, *rest, name="hvp").lower().module
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(CORPUS) as archive:
            archive.extractall(folder, filter="data")
        root = Path(folder, "corpus")
        for case in json.loads((root / "index.json").read_text())["cases"][::CORPUS_EVERY]:
            yield from _of_case(root / "cases" / case["name"], case["diff"])
    for seed in DEEP_SEEDS:
        yield f"deep {seed}", Deep.of(seed).traced().lower().module


def _of_case(folder: Path, diff: list[int]) -> Iterator[tuple[str, ir.Module]]:
    """A program of the corpus, and the gradient of the squares of its results."""
    data, f = np.load(folder / "data.npz"), nm.from_stablehlo((folder / "f.mlir").read_text(), "main")
    inputs = [data[f"in{i}"] for i in range(sum(key.startswith("in") for key in data))]

    def squares(*xs: Any) -> Any:
        ys = f(*xs)
        return sum(nnp.sum(y * y) for y in (ys if isinstance(ys, (tuple, list)) else [ys]) if y.dtype.kind == "f")

    yield f"corpus {folder.name}", nm.trace(f, *inputs, name="f").lower().module
    if all(inputs[i].dtype.kind == "f" for i in diff):
        yield f"gradient {folder.name}", nm.trace(nm.grad(squares, tuple(diff)), *inputs, name="f").lower().module


def outcome(module: ir.Module, broken: ir.Module, is_compiled: bool, in_parts: bool) -> tuple[str, str]:
    """The status and the details of the check of a module against code that was compiled from another module."""
    vmfb = compile_lowered(broken, TARGET, cache=False) if is_compiled else bytecode_of(broken)
    checks = (check_in_parts if in_parts else check_artifact)(module, TARGET, vmfb)
    statuses = {check.status for check in checks.values()}
    text = "; ".join(map(str, checks.values()))
    if DIFFERS in statuses:
        return "caught", text
    if statuses != {CHECKED}:
        return "not checked", text
    what = effect(module, broken)
    return ("MISSED", f"{text}; {what}") if what else ("no effect", text)


def effect(module: ir.Module, broken: ir.Module) -> str:
    """The first difference of the interpreted results of two modules on random arguments; "" if there is none."""
    other = functions(broken.operation)
    for seed in range(20):
        rng = np.random.RandomState(seed)
        for name, op in entries_of(module).items():
            types = [shape_and_dtype(argument.type) for argument in op.regions[0].blocks[0].arguments]
            arguments = [_argument(rng, *type_) for type_ in types]
            runs = ReferenceRuns(module, {name: arguments}, budget=Budget(_STEPS))
            try:
                wanted, got = runs.call(name), other[name]([x.copy() for x in arguments], Budget(_STEPS))
                found = compare(got[: len(wanted)], wanted, lambda k, runs=runs, name=name: runs.perturbed(name, k))
            except (OutOfStepsError, NablaError):
                continue
            if found.difference is not None:
                return f"on arguments {seed}: {found.difference} ({found.ratio:.1g} times the bound)"
    return ""


def of_bit(module: ir.Module, vmfb: bytes, position: int) -> str:
    """The outcome for an executable with one changed bit, in a separate process, because it may crash or hang."""
    changed = bytearray(vmfb)
    changed[position // 8] ^= 1 << position % 8
    if (child := os.fork()) == 0:
        signal.alarm(60)
        os._exit(_bit_code(module, vmfb, bytes(changed)))
    status = os.waitpid(child, 0)[1]
    return _CODES[os.WEXITSTATUS(status)] if os.WIFEXITED(status) else "crashed"


_CODES = ("no effect", "caught", "refused", "not checked", "MISSED")


def _bit_code(module: ir.Module, vmfb: bytes, changed: bytes) -> int:
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        statuses = {check.status for check in check_artifact(module, TARGET, changed).values()}
        if DIFFERS in statuses:
            return _CODES.index("caught")
        if statuses != {CHECKED}:
            return _CODES.index("not checked")
        return _CODES.index("no effect" if _same_results(module, vmfb, changed) else "MISSED")
    except Exception:
        return _CODES.index("refused")


def _same_results(module: ir.Module, *artifacts: bytes) -> bool:
    """True if executables give equal bits on twenty sets of arguments."""
    executables = [reference_check.Executable.load(vmfb, TARGET.drivers[0]) for vmfb in artifacts]
    for seed in range(20):
        rng = np.random.RandomState(seed)
        for name, op in entries_of(module).items():
            types = [shape_and_dtype(argument.type) for argument in op.regions[0].blocks[0].arguments]
            arguments = [_argument(rng, *type_) for type_ in types]
            right, other = (
                [np.asarray(y).tobytes() for y in e.function(name)([Array.from_numpy(x, e.device) for x in arguments])]
                for e in executables
            )
            if right != other:
                return False
    return True


def bits(count: int, seed: int, only: str) -> int:
    """Changes bits of executables; prints each missed change, then the counts; returns 1 if a change was missed."""
    counts = collections.Counter[str]()
    for name, module in programs():
        if only not in name:
            continue
        rng, vmfb = np.random.RandomState([seed, *name.encode()]), compile_lowered(module, TARGET)
        for position in rng.randint(8 * len(vmfb), size=count):
            word = of_bit(module, vmfb, int(position))
            counts[word] += 1
            if word == "MISSED":
                print(f"MISSED: {name}, bit {position} of {8 * len(vmfb)}", flush=True)
        print(f"{name}: {dict(counts)}", file=sys.stderr, flush=True)
    print("bits:", ", ".join(f"{n} {word}" for word, n in counts.most_common()))
    return int(counts["MISSED"] > 0)


def _argument(rng: np.random.RandomState, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "biu" or "int" in dtype.name:
        return np.asarray(rng.randint(0, 2 if dtype.kind == "b" else int(rng.choice([2, 4, 10])), shape)).astype(dtype)
    low, high = [(0.2, 0.9), (-1, 1), (0.5, 3), (-3, 3)][rng.randint(4)]
    x = rng.uniform(low, high, shape)
    return np.asarray(x + 1j * rng.uniform(low, high, shape) if dtype.kind == "c" else x).astype(dtype)


def main() -> int:
    """Prints each missed fault, then a table; returns 1 if a fault was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=int, default=3, help="injections of each fault into each program (3)")
    parser.add_argument("--seed", type=int, default=0, help="of the operations that are changed (0)")
    parser.add_argument("--compile", action="store_true", help="compile the changed programs by IREE")
    parser.add_argument("--parts", action="store_true", help="check in parts")
    parser.add_argument("--sample", type=int, default=0, help="about as many faults of all programs, drawn by the seed (all)")
    parser.add_argument("--bits", type=int, default=0, help="change so many bits of each executable instead")
    parser.add_argument("--only", default="", help="programs whose names contain this")
    options = parser.parse_args()
    if options.bits:
        return bits(options.bits, options.seed, options.only)
    if not options.compile:
        reference_check.Executable = _Interpreter  # type: ignore[misc, assignment]
    if options.parts:
        thresholds.PART = 0.0
    tables = {fault: collections.Counter[str]() for fault in FAULTS}
    for name, module in programs():
        if options.only not in name or (options.parts and not expensive_operations(module)):
            continue
        start = time.monotonic()
        for fault in FAULTS:
            seen = set()
            for k in range(options.count):
                rng = np.random.RandomState([options.seed, k, *f"{name} {fault}".encode()])
                if options.sample and rng.uniform() > options.sample / (_PROGRAMS * len(FAULTS) * options.count):
                    continue
                broken = clone_module(module)
                if (injection := inject(broken, fault, rng)) is None:
                    break
                if injection in seen:
                    continue
                seen.add(injection)
                try:
                    broken.operation.verify()
                    word, text = outcome(module, broken, options.compile, options.parts)
                except (NablaError, ir.MLIRError) as error:
                    word, text = "refused", str(error)[:200]
                tables[fault][word] += 1
                if word in ("MISSED", "refused"):
                    print(f"{word}: {name}, {injection} ({k}): {text}", flush=True)
        print(f"{name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    total = sum(tables.values(), collections.Counter[str]())
    for fault, counts in {**tables, "all": total}.items():
        print(f"{fault:24}", ", ".join(f"{n} {word}" for word, n in counts.most_common()))
    return int(total["MISSED"] > 0)


class _Interpreter:
    """The interpreter with the interface of compiled code."""

    @staticmethod
    def load(content: bytes, driver: str) -> InterpretedExecutable:
        return InterpretedExecutable(parse_module(content).operation, budget=Budget(_STEPS))


if __name__ == "__main__":
    sys.exit(main())
