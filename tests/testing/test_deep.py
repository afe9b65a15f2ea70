"""Deep nestings of transforms, compiled: no difference from the interpreter, and one is found where there is a fault."""

import pytest

from nabla_mlir.compiling.lowering import clone_module, compile_lowered
from nabla_mlir.dialects.regions import nested
from nabla_mlir.testing import deep


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 8, 16])
def test_programs_agree_with_the_interpreter(first):
    assert deep.faults_of([deep.Deep.of(seed) for seed in range(first, first + deep.BATCH)]) == []


def test_the_program_in_which_an_array_was_its_own_update():
    assert deep.faults_of([deep.Deep(5015, 2, ())]) == []


def test_a_fault_is_found_and_made_shorter(monkeypatch):
    """A compiler that adds a value to itself instead of another one."""

    def wrong(module, *arguments, **options):
        broken = clone_module(module)
        for op in nested(broken.operation):
            if op.name == "stablehlo.add":
                op.operands[1] = op.operands[0]
        return compile_lowered(broken, *arguments, **options)

    monkeypatch.setattr(deep, "compile_lowered", wrong)
    program = deep.Deep(23, 3, ("checkpoint",))
    ((found, what),) = deep.faults_of([program])
    assert found == program
    assert what.startswith("in the first call result ")
    shorter, other = deep.shrunk(found, what)
    assert (len(shorter.transforms), shorter.steps) <= (1, 3)
    assert other.startswith("in the first call result ")
