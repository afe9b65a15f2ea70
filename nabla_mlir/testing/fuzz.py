"""Compares random programs and their derivatives with the interpreter: traced, lowered, and compiled for a target.

    python -m nabla_mlir.testing.fuzz --minutes 10 --seed 1
    python -m nabla_mlir.testing.fuzz --only 4217        # repeats one program and prints the difference
    python -m nabla_mlir.testing.fuzz --of mixtures      # programs of all dtypes against NumPy; --target cpu compiles them too
    python -m nabla_mlir.testing.fuzz --of deep          # deep nestings of transforms on small vectors, compiled
    python -m nabla_mlir.testing.fuzz --of text          # damaged files: text, zip ...
    python -m nabla_mlir.testing.fuzz --of peers         # nestings of transforms against JAX; --target cpu compiles them
    python -m nabla_mlir.testing.fuzz --of promotions    # operands of different dtypes against JAX

Each program is drawn with one of the transforms below and runs in three forms. The interpreter runs the traced program, and
the lowered program. IREE compiles the lowered programs, many in one module, and each is called twice with arguments that must
not change. A program that differs, fails or crashes is shortened while the fault remains, and saved.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import NablaError
from nabla_mlir.interpreter import interpreted
from nabla_mlir.staging.stages import Lowered, Traced, module, trace
from nabla_mlir.testing import damage, deep, deep_batches, mixtures, peers, promotions
from nabla_mlir.testing.programs import random_function
from nabla_mlir.transforms import grad, jvp, vjp, vmap

BATCH = 24  # programs in one compiled module
STEPS = 8
_TOLERANCE = {"float64": 1e-9, "float32": 2e-3}
Function = Callable[..., Any]


def _gradient(f: Function) -> Function:
    """The gradient of the sum of all results of f, with respect to its three arguments."""
    return grad(lambda *xs: sum(nnp.sum(y) for y in f(*xs)), (0, 1, 2))


TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "value": lambda f: f,
    "gradient": _gradient,
    "jvp": lambda f: lambda *xs: jvp(f, xs, tuple(nnp.sin(x) for x in xs)),
    "vjp": lambda f: lambda *xs: (lambda ys, pull: pull(ys))(*vjp(f, *xs)),
    "hvp": lambda f: lambda *xs: jvp(_gradient(f), xs, tuple(nnp.cos(x) for x in xs))[1],
    "map": lambda f: lambda *xs: vmap(f)(*(nnp.stack([x, 0.5 * x]) for x in xs)),
    "map of gradient": lambda f: lambda x, y, z: vmap(_gradient(f), (0, None, 0))(nnp.stack([x] * 2), y, nnp.stack([z] * 2)),
    "gradient of map": lambda f: _gradient(lambda *xs: vmap(f, (0, None, None))(nnp.stack([xs[0], xs[0] * 0.5]), *xs[1:])),
}


@dataclass(frozen=True)
class Sample:
    """One random program: the seed determines all choices except the number of steps."""

    seed: int
    steps: int = STEPS

    @property
    def transform(self) -> str:
        """The name of the transform."""
        return list(TRANSFORMS)[self.seed % len(TRANSFORMS)]

    @property
    def dtype(self) -> str:
        """The dtype of all values."""
        return "float32" if self.seed // len(TRANSFORMS) % 4 == 3 else "float64"

    def traced(self) -> tuple[Traced, list[np.ndarray]]:
        """The transformed function and its arguments."""
        f, inputs = random_function(self.seed, self.dtype, self.steps)
        return trace(TRANSFORMS[self.transform](f), *inputs, name=f"f{self.seed}"), inputs

    def shorter(self) -> Iterator[Sample]:
        """Yields the program with fewer steps, the shortest first."""
        return (Sample(self.seed, steps) for steps in range(1, self.steps))


@dataclass(frozen=True)
class Fault:
    """The error of a program: the stage at which it appears, and its text."""

    sample: Sample
    where: str
    what: str

    def __str__(self) -> str:
        s = self.sample
        return f"{s.seed} ({s.transform}, {s.dtype}, {s.steps} steps), {self.where}: {self.what}"


def difference(got: Sequence[Any], wanted: Sequence[Any], dtype: str) -> str:
    """The first number of `got` that differs from `wanted`, as text; "" if all agree within the tolerance of `dtype`."""
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"result {i} is {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        scale = max(1.0, float(np.abs(np.nan_to_num(b)).max(initial=0.0)))
        wrong = ~np.isclose(a, b, rtol=_TOLERANCE[dtype], atol=_TOLERANCE[dtype] * scale, equal_nan=True)
        if wrong.any():
            position = tuple(int(k) for k in np.argwhere(wrong)[0])
            return f"result {i} is {a[position]} instead of {b[position]} at {list(position)}"
    return ""


def interpret(sample: Sample) -> tuple[Lowered | None, list[np.ndarray], list[np.ndarray], Fault | None]:
    """The lowered program, its arguments, its results, and None; or the fault that appears before compilation in place of None.

    With a fault, the program is None and the lists are empty. `sample` is the random program with its arguments.
    """
    try:
        traced, inputs = sample.traced()
        lowered = traced.lower()
        name = f"f{sample.seed}"
        wanted = [np.array(y) for y in interpreted(lowered.module.operation, name)(inputs)]
        direct = interpreted(traced.module.operation, name)(inputs)
    except NablaError as error:
        return None, [], [], Fault(sample, "before compiling", f"{type(error).__name__}: {error.message}")
    if what := difference(direct, wanted, sample.dtype):
        return None, [], [], Fault(sample, "traced against lowered", what)
    return lowered, inputs, wanted, None


def run(samples: Sequence[Sample], target: str = "cpu") -> list[Fault]:
    """The faults of the programs `samples`, which are compiled together for a target; if that fails, both halves are tried."""
    faults, stages = [], {}
    for sample in samples:
        lowered, inputs, wanted, fault = interpret(sample)
        if fault is not None:
            faults.append(fault)
        elif lowered is not None:
            stages[sample] = lowered, inputs, wanted
    if not stages:
        return faults
    try:
        together = module(**{f"f{sample.seed}": stage for sample, (stage, _, _) in stages.items()})  # type: ignore[arg-type]
        compiled = Lowered(together.module, together.entries).compile(target, cache=False).loaded
    except NablaError as error:
        if len(stages) > 1:
            half = len(stages) // 2
            parts = list(stages)
            return [*faults, *run(parts[:half], target), *run(parts[half:], target)]
        return [*faults, Fault(next(iter(stages)), "compiling", f"{type(error).__name__}: {error.message[:300]}")]
    for sample, (_, inputs, wanted) in stages.items():
        if what := _error_of_calls(compiled[f"f{sample.seed}"], inputs, wanted, sample.dtype):
            faults.append(Fault(sample, f"compiled for {target}", what))
    return faults


def _error_of_calls(function: Function, inputs: Sequence[np.ndarray], wanted: Sequence[np.ndarray], dtype: str) -> str:
    """The error of two calls of a compiled function, as text; "" if both are correct.

    `inputs` are the arguments, `wanted` the right results, and `dtype` names the tolerance.
    """
    before = [x.copy() for x in inputs]
    for call in ("first", "second"):
        try:
            result = function(*inputs)
        except NablaError as error:
            return f"the {call} call fails: {error.message[:300]}"
        if what := difference(_leaves(result), wanted, dtype):
            return f"in the {call} call {what}"
        if any(not np.array_equal(x, y) for x, y in zip(inputs, before, strict=True)):
            return f"the {call} call changes its arguments"
    return ""


def _leaves(tree: Any) -> list[Any]:
    return [leaf for item in tree for leaf in _leaves(item)] if isinstance(tree, (tuple, list)) else [tree]


def shrunk(fault: Fault, target: str) -> Fault:
    """The fault of the shortest program with the same seed that still has a fault at the same stage."""
    for sample in fault.sample.shorter():
        for shorter in run([sample], target):
            if shorter.where == fault.where:
                return shorter
    return fault


def main(argv: Sequence[str] | None = None) -> int:
    """Tries random programs until the time is over; returns 1 if there was a fault, else 0. `argv` are the command's arguments."""
    parser = argparse.ArgumentParser(prog="python -m nabla_mlir.testing.fuzz", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--seed", type=int, default=0, help="of the first program (0); the next ones follow")
    parser.add_argument("--only", type=int, action="append", help="the seed of a program; may be given several times")
    parser.add_argument("--target", help="what is compiled for (programs: cpu, others: interpreter); interpreter: nothing is")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="where faults are saved (out/fuzz)")
    subjects = ("programs", "deep", "mixtures", "peers", "promotions", *damage.KINDS)
    parser.add_argument("--of", choices=subjects, default="programs", help="what is tried (programs)")
    options = parser.parse_args(argv)
    if options.of in ("mixtures", "peers", "promotions"):
        subject = {"mixtures": mixtures, "peers": peers, "promotions": promotions}[options.of]
        shortest = lambda n: subject.shortest(n, options.target or "interpreter")  # noqa: E731
        return _one_by_one(shortest, options.only, options.seed, options.minutes)
    options.target = options.target or "cpu"
    if options.of == "deep":
        return _deep(options.only, options.seed, options.minutes, options.target)
    if options.of != "programs":
        counts = damage.survey(options.of, options.seed, options.minutes)
        return _print_counts(counts, sum(count for fate, count in counts.items() if fate.startswith("FAULT")))
    end, seed, count, faults = time.monotonic() + 60 * options.minutes, options.seed, 0, []
    while options.only or time.monotonic() < end:
        samples = [Sample(s) for s in options.only or range(seed, seed + BATCH)]
        if options.target == "interpreter":
            found = [fault for sample in samples if (fault := interpret(sample)[3])]
        else:
            found = [shrunk(fault, options.target) for fault in run(samples, options.target)]
        for fault in found:
            faults.append(fault)
            print(fault, file=sys.stderr)
            _save(fault, options.out)
        seed, count = seed + BATCH, count + len(samples)
        if options.only:
            break
    print(f"{count} programs, {len(faults)} faults")
    return int(bool(faults))


def _one_by_one(shortest: Function, only: Sequence[int] | None, seed: int, minutes: float) -> int:
    """Checks programs one after the other and prints their faults; returns 1 if there was a fault, else 0.

    `shortest` gives the shortest faulty program of a seed and its fault. The seeds are those in `only`, or all from `seed` on
    until the time is over.
    """
    end, counts = time.monotonic() + 60 * minutes, collections.Counter[str]()
    for number in only or itertools.count(seed):
        program, fault = shortest(number)
        counts[fault.partition(":")[0] or "right"] += 1
        if fault not in peers.FINE:
            print(number, fault, program, sep="; ", file=sys.stderr)
        if time.monotonic() > end:
            break
    return _print_counts(counts, sum(counts.values()) - counts["right"] - sum(counts[fate] for fate in peers.FINE))


def _deep(only: Sequence[int] | None, seed: int, minutes: float, target: str) -> int:
    """Checks families of programs from `seed` on until the time is over, or the programs of the seeds `only`; returns 1 if there
    was a fault.
    """
    end, count, faults = time.monotonic() + 60 * minutes, deep_batches.Count(), 0
    with contextlib.suppress(KeyboardInterrupt):  # a long run can be interrupted, and still prints its numbers
        for number in itertools.count(seed // deep.FAMILY):
            programs, is_separate = ([deep.Deep.of(n) for n in only], False) if only else deep_batches.family_of(number)
            for fault in deep_batches.faults_of(programs, target, is_separate, count):
                faults += 1
                print(fault, file=sys.stderr, flush=True)
                shortest = deep_batches.shrunk(fault, target)
                print(f"  shrunk: {shortest}\n{shortest.text}", file=sys.stderr, flush=True)
            if only or time.monotonic() > end:
                break
    print(f"{count}; {faults} faults")
    return int(bool(faults))


def _print_counts(counts: collections.Counter[str], faults: int) -> int:
    """Prints the number of programs for each cause; returns 1 if there was a fault, else 0.

    `counts` maps each cause to its number of programs, and `faults` is the number of faults.
    """
    for cause, count in counts.most_common():
        print(f"{count:8} {cause}")
    print(f"{sum(counts.values())} tried, {faults} faults")
    return int(bool(faults))


def _save(fault: Fault, folder: Path) -> None:
    """Writes the program of a fault as MLIR, with the fault as a comment."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        text = str(fault.sample.traced()[0])
    except NablaError as error:
        text = f"// not traced: {error.message}\n"
    lines = str(fault).splitlines()
    (folder / f"{fault.sample.seed}.mlir").write_text("".join(f"// {line}\n" for line in lines) + text)


if __name__ == "__main__":
    sys.exit(main())
