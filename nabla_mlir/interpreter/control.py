"""Operations that run their regions as they stand: loops, choices, and functions with rules of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from iree.compiler import ir

from nabla_mlir.interpreter.frames import Arrays, Block, Body, Frame

Control = Callable[[ir.Operation, Sequence[Block]], Body]
F = TypeVar("F", bound=Control)

CONTROL: dict[str, Control] = {}


def control(*names: str) -> Callable[[F], F]:
    """Decorator: the function reads the operations of these names, whose regions have been read."""

    def add(f: F) -> F:
        CONTROL.update(dict.fromkeys(names, f))
        return f

    return add


@control("stablehlo.while")
def while_(op: ir.Operation, regions: Sequence[Block]) -> Body:
    """The second region as long as the first says so."""
    condition, body = regions

    def run(frame: Frame, carry: Arrays) -> Arrays:
        while condition(frame, carry)[0]:
            carry = body(frame, carry)
        return carry

    return run


@control("stablehlo.if")
def if_(op: ir.Operation, regions: Sequence[Block]) -> Body:
    """The first region or the second."""
    then, otherwise = regions
    return lambda frame, xs: (then if xs[0] else otherwise)(frame, [])


@control("stablehlo.case")
def case(op: ir.Operation, regions: Sequence[Block]) -> Body:
    """An index that is out of range means the last one."""

    def run(frame: Frame, xs: Arrays) -> Arrays:
        index = int(xs[0])
        return regions[index if 0 <= index < len(regions) else -1](frame, [])

    return run


@control("ad.custom_jvp", "ad.custom_vjp", "ad.checkpoint")
def primal(op: ir.Operation, regions: Sequence[Block]) -> Body:
    """What it is before anybody differentiates it: its first region."""
    return regions[0]


@control("ad.linear_solve")
def solve(op: ir.Operation, regions: Sequence[Block]) -> Body:
    """The region that solves; `matvec` and that of the transposed system are for derivatives."""
    return regions[1]
