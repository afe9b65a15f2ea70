"""Operations that run their regions: loops, selections, and functions with custom rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from iree.compiler import ir

from nabla_mlir.interpreter.frames import Arrays, Block, Body, Frame
from nabla_mlir.interpreter.iterations import outermost
from nabla_mlir.rules.loops import find_counter

Read = Callable[[int], Block]  # the block of a region, by its number
Control = Callable[[ir.Operation, Read], Body]
F = TypeVar("F", bound=Control)

CONTROL: dict[str, Control] = {}


def control(*names: str) -> Callable[[F], F]:
    """A decorator: the function reads the operations with these names."""

    def add(f: F) -> F:
        """Adds the function to the table."""
        CONTROL.update(dict.fromkeys(names, f))
        return f

    return add


@control("stablehlo.while")
def while_(op: ir.Operation, block_of: Read) -> Body:
    """A function that runs a loop: it repeats region 1 while region 0 returns true.

    `block_of` gives the region with a number as a function. The function takes a frame and the initial state, and returns the last
    state.
    """
    condition, body, counter = block_of(0), block_of(1), find_counter(op)
    total = 0 if counter is None else counter.trips

    def run(frame: Frame, carry: Arrays) -> Arrays:
        """Runs the loop on the carried values; the budget first foresees the cost of its iterations.

        `frame` maps the values outside of the loop to arrays.
        """
        if frame.budget is not None:
            frame.budget.foresee(body.cost, total)
        with outermost(total) as iterations:
            while condition(frame, carry)[0]:
                carry = body(frame, carry)
                iterations.done += 1
        return carry

    return run


@control("stablehlo.if")
def if_(op: ir.Operation, block_of: Read) -> Body:
    """The first region or the second. `block_of` makes a function from a region."""
    then, otherwise = block_of(0), block_of(1)
    return lambda frame, xs: (then if xs[0] else otherwise)(frame, [])


@control("stablehlo.case")
def case(op: ir.Operation, block_of: Read) -> Body:
    """A function that runs the region with the index; an index out of range selects the last region.

    `block_of` gives the region with a number as a function.
    """
    regions = [block_of(i) for i in range(len(op.regions))]

    def run(frame: Frame, xs: Arrays) -> Arrays:
        """The results of the region that the index `xs[0]` selects; the regions have no arguments."""
        index = int(xs[0])
        return regions[index if 0 <= index < len(regions) else -1](frame, [])

    return run


@control("ad.custom_jvp", "ad.custom_vjp", "ad.checkpoint")
def primal(op: ir.Operation, block_of: Read) -> Body:
    """Runs the first region, which computes the value without derivatives."""
    return block_of(0)


@control("ad.linear_solve")
def solve(op: ir.Operation, block_of: Read) -> Body:
    """Runs the region of the solver; `matvec` and the transposed solver are for derivatives only."""
    return block_of(1)
