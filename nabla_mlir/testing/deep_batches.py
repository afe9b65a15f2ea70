"""Compiles many deep programs (`nabla_mlir.testing.deep`) at once, and compares them with the interpreter.

The passes of IREE cost about 40 ms for each function and 15 ms for each kernel, even for small ones. So most families become
one function, whose equal kernels are compiled once; the programs of the other families are separate functions. Half of the
programs donate their array. A call must not change the other arrays and the indices. Compiled code runs in a separate process
with a time limit.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from iree.compiler import ir

from nabla_mlir.base.errors import NablaError
from nabla_mlir.compiling.comparison import compare
from nabla_mlir.compiling.lowering import compile_lowered
from nabla_mlir.compiling.reference_runs import ReferenceRuns
from nabla_mlir.dialects.arguments import mark_donated
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.passes.inline_calls import InlineCallsPass
from nabla_mlir.staging.stages import Lowered, module
from nabla_mlir.targets import target as as_target
from nabla_mlir.testing.deep import FAMILY, Deep
from nabla_mlir.testing.separate_runs import Call, EndedError, Result, run

MOST_OPERATIONS = 150  # the largest number of operations of a compiled program
SEPARATE_EVERY = 8  # one of eight families has an entry point for each program
_ALL = "all"


@dataclass
class Count:
    """The numbers of a run.

    Args:
      compiled: the number of compared programs, by "one function" and "separate functions".
      left_out: the number of programs that are too long and are not compiled.
      undecided: the number of compiled programs that are not compared, because rounding dominates their results.
      seconds: the time of each stage.
    """

    compiled: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    undecided: int = 0
    seconds: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        """The numbers of programs by the way in which they were compiled, the programs left out, and the times, in one line."""
        total = sum(self.seconds.values())
        rate = 60 * sum(self.compiled.values()) / total if total else 0.0
        parts = [f"{n} programs compiled as {how}" for how, n in sorted(self.compiled.items())] or ["no program compiled"]
        times = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in self.seconds.most_common())
        others = f"{self.left_out} too long, {self.undecided} undecided"
        return f"{', '.join(parts)}, {others}, {rate:.0f} programs a minute ({times})"


@dataclass(frozen=True)
class Fault:
    """An error of some programs that are compiled together.

    Args:
      programs: the programs; the results of the first one differ.
      what: the error in words.
    """

    programs: tuple[Deep, ...]
    what: str
    is_separate: bool = False

    @property
    def text(self) -> str:
        """The first program after lowering; "" if that fails."""
        try:
            return str(self.programs[0].traced().lower())
        except NablaError:
            return ""

    def __str__(self) -> str:
        others = f", compiled with {', '.join(map(str, self.programs[1:]))}" if self.programs[1:] else ""
        return f"{self.programs[0]}{others}{' as separate functions' if self.is_separate else ''}: {self.what}"


def family_of(number: int) -> tuple[list[Deep], bool]:
    """The programs of a family, and True if they are compiled as separate functions."""
    return [Deep.of(seed) for seed in range(FAMILY * number, FAMILY * (number + 1))], number % SEPARATE_EVERY == 0


def faults_of(programs: Sequence[Deep], target: str = "cpu", is_separate: bool = False, count: Count | None = None) -> list[Fault]:
    """The faults of programs that are compiled as one module: programs that fail, or whose numbers differ.

    Args:
      programs: programs of one family.
      is_separate: True if each program is an entry point; otherwise one function calls all of them.
      count: the counts to which their number and the times are added.
    """
    count = count or Count()
    faults, stages = [], dict[Deep, Lowered]()
    with _timed(count, "lowering"):
        for program in programs:
            try:
                stage = program.traced().lower()
            except NablaError as error:
                faults.append(Fault((program,), f"not lowered: {type(error).__name__}: {error.message[:200]}", is_separate))
                continue
            if len(nested(stage.module.operation)) > MOST_OPERATIONS:
                count.left_out += 1
            else:
                stages[program] = stage
    return [*faults, *_faults_of_module(stages, target, is_separate, count)] if stages else faults


def _faults_of_module(stages: dict[Deep, Lowered], target: str, is_separate: bool, count: Count) -> list[Fault]:
    """The faults of programs that are compiled as one module; if this module fails, both halves are tried.

    Args:
      stages: maps each program to its lowered form.
      target: what to compile for.
      is_separate: True if each program stays a function, False if all become one function.
      count: the statistics, which are updated.
    """
    machine = as_target(target)
    try:
        with _timed(count, "compiling"):
            together = module(**{program.name: stage for program, stage in stages.items()}).module  # type: ignore[arg-type]
            if not is_separate:
                join(together)
            calls = _calls(stages, is_separate)
            for call in calls:
                mark_donated(functions_of(together.operation)[call.name], call.donated)
            vmfb = compile_lowered(together, machine, cache=False)
        with _timed(count, "running"):
            results = run(vmfb, machine.drivers[0], [*calls, *calls])  # twice: a fault may show in the second call only
            got = [_by_program(stages, calls, some) for some in (results[: len(calls)], results[len(calls) :])]
    except NablaError as error:
        parts = list(stages.items())
        if len(parts) == 1:
            what = error.what if isinstance(error, EndedError) else "fails"
            return [Fault((parts[0][0],), f"{what}: {error.message[:300]}", is_separate)]
        half = len(parts) // 2
        return [
            fault for part in (parts[:half], parts[half:]) for fault in _faults_of_module(dict(part), target, is_separate, count)
        ]
    count.compiled["separate functions" if is_separate else "one function"] += len(stages)
    with _timed(count, "comparing"):
        return [
            Fault((program, *(other for other in stages if other is not program)), what, is_separate)
            for program, stage in stages.items()
            if (what := _difference(program, stage, [results[program] for results in got], count))
        ]


@contextlib.contextmanager
def _timed(count: Count, stage: str) -> Iterator[None]:
    """A context whose duration is added to the seconds of `stage` in the statistics `count`."""
    start = time.monotonic()
    try:
        yield
    finally:
        count.seconds[stage] += time.monotonic() - start  # type: ignore[assignment]


def join(whole: ir.Module) -> None:
    """Adds to a module a function with the arguments and results of all its functions, and inlines their bodies into it."""
    functions = functions_of(whole.operation)
    types = [ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value) for op in functions.values()]
    inputs, results = [t for f in types for t in f.inputs], [t for f in types for t in f.results]
    with context(), ir.Location.unknown(), ir.InsertionPoint(whole.body):
        entry = ir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(_ALL),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, results)),
            },
        )
        block = entry.regions[0].blocks.append(*inputs, arg_locs=[ir.Location.unknown()] * len(inputs))
        with ir.InsertionPoint(block):
            values, arguments = [], iter(block.arguments)
            for (name, op), kind in zip(functions.items(), types, strict=True):
                op.attributes["sym_visibility"] = ir.StringAttr.get("private")
                callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
                operands = [next(arguments) for _ in kind.inputs]
                call = ir.Operation.create("func.call", results=kind.results, operands=operands, attributes=callee)
                values += call.results
            ir.Operation.create("func.return", operands=values)
    InlineCallsPass().run(whole.operation)


def _calls(stages: dict[Deep, Lowered], is_separate: bool) -> list[Call]:
    """The calls that run all programs of `stages`: one call of the joined function, or one call for each program if
    `is_separate`.
    """
    each = [Call(p.name, tuple(p.arguments), (0,) if p.is_donating else ()) for p in stages]
    if is_separate:
        return each
    donated = [2 * i for i, call in enumerate(each) if call.donated]  # the first of the two arguments of a program
    return [Call(_ALL, tuple(x for call in each for x in call.arguments), tuple(donated))]


def _by_program(stages: dict[Deep, Lowered], calls: list[Call], results: list[Result]) -> dict[Deep, Result]:
    """The results of each program of `stages`, from the results of the calls.

    Each program has two arguments, so numbers 2 i and 2 i + 1 of the joined function are those of program i.
    """
    if calls[0].name != _ALL:
        return dict(zip(stages, results, strict=True))
    (joint,) = results  # the only call is that of the joined function
    values, found = iter(joint.values), {}
    for i, (program, stage) in enumerate(stages.items()):
        own = tuple(next(values) for _ in _returned(program, stage))
        found[program] = Result(own, tuple(k - 2 * i for k in joint.changed if k // 2 == i))
    return found


def _returned(program: Deep, stage: Lowered) -> Sequence[ir.Type]:
    """The types of the results of a program."""
    kind = functions_of(stage.module.operation)[program.name].attributes["function_type"]
    return ir.FunctionType(ir.TypeAttr(kind).value).results


def _difference(program: Deep, stage: Lowered, calls: Sequence[Result], count: Count) -> str:
    """The first fault in the results of two calls of a program, as text; "" if there is none. `count` counts undecided
    comparisons.
    """
    runs = ReferenceRuns(stage.module, {program.name: program.arguments})
    wanted = runs.call(program.name)
    first, second = (compare(got.values, wanted, lambda k: runs.perturbed(program.name, k)) for got in calls)
    count.undecided += first.share < 0.5
    for call, outcome in {"first": first, "second": second}.items():
        if outcome.difference is not None:
            return f"in the {call} call {outcome.difference}"
    changed = sorted({i for got in calls for i in got.changed})
    return f"changes arguments that are not donated: {changed}" if changed else ""


# ---------------------------------------------------------------- shrinking


def shrunk(fault: Fault, target: str = "cpu") -> Fault:
    """A smaller example of a fault: few programs with few steps and transforms."""
    kind = fault.what.partition(" ")[0]

    def fault_of_part(programs: Sequence[Deep]) -> Fault | None:
        """The first fault of the same kind that these programs alone show; None if there is none."""
        found = faults_of(programs, target, fault.is_separate)
        return next((other for other in found if other.what.partition(" ")[0] == kind), None)

    fault = _fewest(fault, fault_of_part)
    for i, program in enumerate(fault.programs):
        for shorter in program.shorter():
            others = [*fault.programs[:i], shorter, *fault.programs[i + 1 :]]
            if (smaller := fault_of_part(others)) is not None:
                fault = replace(smaller, programs=tuple(others))
                break
    return fault


def _fewest(fault: Fault, fault_of_part: Callable[[Sequence[Deep]], Fault | None]) -> Fault:
    """The fault with the fewest programs that still shows: single programs, halves, and all except one are tried in turn.

    `fault_of_part` gives the fault that some programs alone show, or None.
    """
    programs = list(fault.programs)
    for some in _smaller(programs):
        if (smaller := fault_of_part(some)) is not None:
            return _fewest(smaller, fault_of_part) if len(some) > 1 else smaller
    return fault


def _smaller(programs: list[Deep]) -> Iterator[list[Deep]]:
    """Yields shorter lists of programs, in which a fault may remain."""
    if len(programs) < 2:
        return
    half = len(programs) // 2
    yield programs[:1]
    if len(programs) > 3:
        yield from (programs[:half], programs[half:])
    for i in range(len(programs)):
        yield programs[:i] + programs[i + 1 :]
