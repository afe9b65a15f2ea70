"""Numbers that IREE's bytecode overwrites before it copies them to the next block: found when compiling, and copied in another order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import iree.runtime as rt
import pytest

from nabla_mlir.compiling import compiler
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.internals.block_arguments import in_order, overwritten, reordered
from nabla_mlir.targets import CPU
from nabla_mlir.targets.toolchain import disassembled, run_compiler

CONSTANTS = 6, 2**32 + 5
# The results are the constants, unless both conditions hold.
BRANCHES = f"""func.func @f(%c: i1, %d: i1, %x: i32, %y: i64) -> (i32, i64) {{
  %small = arith.constant {CONSTANTS[0]} : i32
  %large = arith.constant {CONSTANTS[1]} : i64
  cf.cond_br %c, ^bb1, ^bb2(%small, %large : i32, i64)
^bb1:
  %u = arith.addi %x, %x : i32
  %v = arith.muli %y, %y : i64
  %s = arith.addi %x, %u : i32
  %t = arith.muli %y, %v : i64
  cf.cond_br %d, ^bb2(%s, %t : i32, i64), ^bb2(%small, %large : i32, i64)
^bb2(%p: i32, %q: i64):
  return %p, %q : i32, i64
}}"""
CASES = {(1, 1, 3, 5): (9, 125), (1, 0, 3, 5): CONSTANTS, (0, 1, 3, 5): CONSTANTS}


def called(artifact: bytes) -> Callable[..., Any]:
    config = rt.Config("local-sync")
    context = rt.SystemContext(config=config)
    context.add_vm_module(rt.VmModule.copy_buffer(context.instance, artifact))
    return context.modules.module["f"]


@pytest.fixture(scope="module")
def plain() -> bytes:
    """The code that IREE alone makes."""
    return run_compiler([*CPU().flags(), "-"], BRANCHES.encode()).stdout


def test_iree_still_overwrites_a_number(plain: bytes) -> None:
    """When it does not, nabla_mlir/compiling/internals/block_arguments.py can go."""
    assert overwritten(disassembled(plain))
    assert any(called(plain)(*xs) != ys for xs, ys in CASES.items())


def test_another_order_gives_the_right_numbers(plain: bytes) -> None:
    right = reordered(plain, disassembled(plain))
    assert overwritten(disassembled(right)) == []
    assert {xs: tuple(called(right)(*xs)) for xs in CASES} == CASES
    assert reordered(right, disassembled(right)) == right


def test_compilation_corrects_the_order() -> None:
    artifact = compile_module(BRANCHES + " // stablehlo.if", CPU(), cache=False)
    assert {xs: tuple(called(artifact)(*xs)) for xs in CASES} == CASES


def test_what_cannot_be_corrected_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "reordered", lambda artifact, _: artifact)
    with pytest.raises(compiler.CompileError, match="a branch would overwrite a number before it copies it") as caught:
        compile_module(BRANCHES + " // stablehlo.if", CPU(), cache=False)
    assert caught.value.fault == "overwritten_number"


def results(moves: Any, size: int) -> list[int]:
    """The registers after the copies of a list, one after the other."""
    registers = list(range(size))
    for x, y in moves:
        registers[int(y[2:])] = registers[int(x[2:])]
    return registers


@pytest.mark.parametrize("seed", range(200))
def test_any_copies_at_once(seed: int) -> None:
    """Registers 8 and above are spare; the compiler has used as many of them as the list has cycles."""
    rng = random.Random(seed)
    targets = rng.sample(range(8), rng.randint(2, 8))
    moves = [(x, y) for y in targets if (x := rng.randrange(8)) != y]
    spares = [(moves[0][0], 8), (8, moves[0][1])] if moves and rng.random() < 0.5 else []
    listed = [spares[0], *moves[1:], spares[1]] if spares else moves
    found = in_order(tuple((f"%i{x}", f"%i{y}") for x, y in listed), 8)
    wanted = list(range(8))
    for x, y in moves:
        wanted[y] = x
    cycles = cycles_of({y: x for x, y in moves})
    if found is None:
        assert cycles > len(spares) // 2
    else:
        assert len(found) == len(listed)
        assert results(found, 16)[:8] == wanted


def cycles_of(sources: dict[int, int]) -> int:
    """The number of cycles of copies."""
    count, seen = 0, set[int]()
    for start in sources:
        path, at = [], start
        while at in sources and at not in seen:
            seen.add(at)
            path.append(at)
            at = sources[at]
        count += at in path
    return count
