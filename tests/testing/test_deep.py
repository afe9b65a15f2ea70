"""Deep nestings of transforms, compiled: no difference from the interpreter, and one is found where there is a fault."""

from dataclasses import replace

import numpy as np
import pytest

from nabla_mlir.base.errors import DeployError
from nabla_mlir.compiling.lowering import clone_module, compile_lowered
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.interpreter import interpreted
from nabla_mlir.staging.stages import module
from nabla_mlir.testing import deep, deep_batches, fuzz, separate_runs
from nabla_mlir.testing.deep_batches import Count, faults_of, join, shrunk
from nabla_mlir.testing.deep_steps import STEPS

pytestmark = pytest.mark.slow

FLOATS, INTEGERS, COMPLEX = 3, 2, 13  # families


def programs_of(family, count):
    """The first programs of a family, with one step and three transforms."""
    return [replace(program, steps=1, transforms=program.transforms[:3]) for program in deep_batches.family_of(family)[0][:count]]


@pytest.mark.parametrize("family", [FLOATS, INTEGERS, COMPLEX])
def test_programs_agree_with_the_interpreter(family):
    count = Count()
    assert [str(fault) for fault in faults_of(programs_of(family, 4), count=count)] == []
    assert count.compiled["one function"] >= 2
    assert count.left_out + count.compiled.total() == 4


def test_separate_functions_agree_with_the_interpreter():
    count = Count()
    assert [str(fault) for fault in faults_of(programs_of(INTEGERS, 2), is_separate=True, count=count)] == []
    assert count.compiled["separate functions"] >= 1


@pytest.mark.parametrize("seed", [90001137, 90008775])
def test_programs_that_were_wrong(seed):
    """The parts of a number and of its conjugate were read as different values; two pads shared the buffer that they fill."""
    assert [str(fault) for fault in faults_of([deep.Deep.of(seed)])] == []


def test_the_families_have_all_kinds():
    families = [deep.Family.of(number) for number in range(400)]
    assert {family.dtype for family in families} == set(deep._DTYPES)
    assert {family.shape for family in families} == set(deep._SHAPES)
    assert {name for family in families for name in family.steps} == set(STEPS)
    assert {name for family in families for name in family.transforms} == set(deep.TRANSFORMS)
    assert {len(deep.Deep.of(seed).transforms) for seed in range(0, 6400, 64)} == {3, 4, 5}


def test_programs_of_a_family_share_shape_and_dtype():
    arguments = [program.arguments for program in programs_of(FLOATS, 5)]
    assert len({(x.shape, x.dtype, k.shape, k.dtype) for x, k in arguments}) == 1
    assert len({x.tobytes() for x, _ in arguments}) == 5


def test_one_function_has_the_results_of_all():
    stages = {program: program.traced().lower() for program in programs_of(INTEGERS, 3)}
    whole = module(**{program.name: stage for program, stage in stages.items()}).module
    join(whole)
    assert [*functions_of(whole.operation)] == ["all"]
    got = interpreted(whole.operation, "all")([x for program in stages for x in program.arguments])
    right = [y for p, stage in stages.items() for y in interpreted(stage.module.operation, p.name)(p.arguments)]
    assert len(got) == len(right) == 12
    assert all(np.array_equal(a, b) for a, b in zip(got, right, strict=True))


def wrong(module, *arguments, **options):
    """A compiler that adds a value to itself instead of another one."""
    broken = clone_module(module)
    for op in nested(broken.operation):
        if op.name == "stablehlo.add":
            op.operands[1] = op.operands[0]
    return compile_lowered(broken, *arguments, **options)


def test_a_fault_is_found_and_made_shorter(monkeypatch, capsys):
    monkeypatch.setattr(deep_batches, "compile_lowered", wrong)
    program = deep.Deep(64 * INTEGERS, 2, ("checkpoint", "map"))
    (found,) = faults_of([program])
    assert found.programs == (program,)
    assert found.what.startswith("in the first call result ")
    shorter = shrunk(found)
    assert len(shorter.programs) == 1
    assert (len(shorter.programs[0].transforms), shorter.programs[0].steps) == (0, 1)
    assert shorter.what.startswith("in the first call result ")


def test_the_fewest_programs_that_are_wrong_together():
    """Here two of ten are: where both are compiled in one module."""
    programs = [deep.Deep(seed, 1, ()) for seed in range(10)]
    pair = {programs[3], programs[7]}
    fault = deep_batches.Fault(tuple(programs), "in the first call result 0 is wrong")
    smallest = deep_batches._fewest(fault, lambda some: deep_batches.Fault(tuple(some), fault.what) if pair <= {*some} else None)
    assert {*smallest.programs} == pair
    assert "compiled with 7 (" in str(smallest)


def test_a_refused_module_is_divided(monkeypatch):
    """What is wrong is told of the program alone, and the others are compared."""
    programs = programs_of(INTEGERS, 3)
    bad = programs[1].name

    def refuses(module, *arguments, **options):
        if bad in functions_of(module.operation):
            raise deep_batches.NablaError("no such program")
        return compile_lowered(module, *arguments, **options)

    monkeypatch.setattr(deep_batches, "compile_lowered", refuses)
    count = Count()
    (fault,) = faults_of(programs, is_separate=True, count=count)
    assert fault.programs == (programs[1],)
    assert fault.what == "fails: no such program"
    assert count.compiled.total() == 2


def test_the_command_says_what_was_compiled(capsys, monkeypatch):
    monkeypatch.setattr(deep_batches, "compile_lowered", wrong)
    monkeypatch.setattr(deep.Deep, "of", lambda seed: deep.Deep(seed, 1, ("checkpoint",)))  # no loop, which would not end
    assert fuzz.main(["--of", "deep", "--only", str(64 * INTEGERS)]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("1 programs compiled as one function, 0 too long, 0 undecided, ")
    assert "programs a minute" in out
    assert out.endswith("1 faults\n")
    assert "shrunk: 128 (int64[8], 1 steps, no transform): in the first call result" in err
    assert "func.func @f128" in err


def endless(module, *arguments, **options):
    """A compiler that writes loops that do not end: their values do not change."""
    broken = clone_module(module)
    for op in nested(broken.operation):
        if op.name == "stablehlo.while":
            *_, end = op.regions[1].blocks[0].operations
            for i, value in enumerate(op.regions[1].blocks[0].arguments):
                end.operation.operands[i] = value
    return compile_lowered(broken, *arguments, **options)


def test_a_loop_that_does_not_end_is_a_fault(monkeypatch):
    """It is told with its seed, and what is tried next runs in another process."""
    program = deep.Deep(64 * INTEGERS, 1, ("while",))
    with monkeypatch.context() as patch:
        patch.setattr(deep_batches, "compile_lowered", endless)
        patch.setattr(separate_runs, "SECONDS", 5.0)
        (found,) = faults_of([program])
    assert found.programs == (program,)
    assert found.what == "hangs: calls of a module require at most 5 s, got one that goes on."
    assert faults_of([program]) == []


def test_a_process_that_crashes_is_a_fault():
    process = separate_runs._Process()
    process._open()
    process._process.kill()
    process._process.join()
    with pytest.raises(separate_runs.EndedError, match="got exit status -9") as caught:
        process.run(b"", "local-sync", [], 60.0)
    assert caught.value.what == "crashes"
    with pytest.raises(DeployError):  # of the next process
        process.run(b"no module", "local-sync", [], 60.0)
    process.end()


def test_programs_donate_their_arrays_and_keep_the_others(monkeypatch):
    stages = {p: p.traced().lower() for p in [deep.Deep(128, 1, ()), deep.Deep(129, 1, ())]}
    (call,) = deep_batches._calls(stages, False)
    assert call.donated == (2,)
    assert [c.donated for c in deep_batches._calls(stages, True)] == [(), (0,)]
    run = deep_batches.run

    def spoiled(*arguments):
        return [replace(result, changed=(3,)) for result in run(*arguments)]

    monkeypatch.setattr(deep_batches, "run", spoiled)
    (found,) = faults_of([*stages])
    assert found.programs[0].seed == 129
    assert found.what == "changes arguments that are not donated: [1]"
