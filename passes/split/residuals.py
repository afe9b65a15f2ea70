"""The choice of the residuals between two halves of a function: which operations run early, and which values the late ones need.

`divide` marks the values that depend on the unknown arguments, through loops and branches. `choose` then finds the
values to store, the residuals: a minimum cut of the graph of the known values. Storing a value costs its bytes;
recomputing it costs the price of the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import is_scalar_integer
from nabla_mlir.passes.cuts import INFINITY, Network
from nabla_mlir.rules.cost import cost_of
from nabla_mlir.rules.loops import Counter, find_counter
from nabla_mlir.table.regions import body_of, fixed_point, reads_of
from nabla_mlir.table.traits import bytes_of, is_choice, is_free


@dataclass(frozen=True)
class Loop:
    """A counted loop that is divided: the carries that depend on unknown values."""

    counter: Counter
    unknown: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """A selection by a known predicate that is divided: the results that depend on unknown values."""

    unknown: tuple[int, ...]


@dataclass
class Division:
    """A function divided by the dependence on its unknown arguments.

    Attributes:
      unknown: the values that depend on unknown arguments.
      late: the operations that read unknown values and are not divided themselves.
      parts: the divided operations with regions.
      twice: late operations with some known results, and the indices of the other results: they run early too.
      within: the divided operations around a value, the outermost first.

    An operation is represented by its first result: the hash of an operation changes with its operands.
    """

    unknown: set[ir.Value]
    late: set[ir.Value] = field(default_factory=set)
    parts: dict[ir.Value, Loop | Choice] = field(default_factory=dict)
    twice: dict[ir.Value, tuple[int, ...]] = field(default_factory=dict)
    within: dict[ir.Value, tuple[ir.Value, ...]] = field(default_factory=dict)

    def is_late(self, op: ir.Operation) -> bool:
        """True if an operation reads unknown values and is not divided."""
        return len(op.results) > 0 and op.results[0] in self.late

    def part(self, op: ir.Operation) -> Loop | Choice | None:
        """The division of an operation; None if it is not divided."""
        return self.parts.get(op.results[0]) if len(op.results) else None

    def copies(self, value: ir.Value) -> int:
        """The number of values that a value of the code stands for at run time: one for each iteration of the loops around it."""
        count = 1
        for key in self.within.get(value, ()):
            part = self.parts[key]
            count *= part.counter.trips if isinstance(part, Loop) else 1
        return count


def divide(ops: Sequence[ir.Operation], unknown: Iterable[ir.Value], regions: bool = True) -> Division:
    """The division of straight-line code, with its loops and selections, by the dependence on `unknown` values.

    If not `regions`, loops and selections run late as a whole.
    """
    division = Division(set(unknown))
    _divide(ops, division, regions)
    _note_enclosing(ops, division, ())
    return division


def _divide(ops: Iterable[ir.Operation], division: Division, regions: bool = True) -> None:
    """Adds the unknown values, and the late and divided operations among `ops`, to `division`."""
    for op in ops:
        if not any(v in division.unknown for v in reads_of(op)):
            continue
        if not len(op.results):
            raise PassError(f"nabla-split requires operations with results, got {op.name}.", where=source_of(op.location))
        part: Loop | Choice | None = None
        if op.name == "stablehlo.while" and regions:
            part = _divide_loop(op, division)
        elif is_choice(op) and regions and op.operands[0] not in division.unknown:
            part = _divide_choice(op, division)
        if part is None:
            division.late.add(op.results[0])
            unknown = _unknown_results(op, division)
            division.unknown.update(op.results[i] for i in unknown)
            if len(unknown) < len(op.results):
                division.twice[op.results[0]] = unknown
        else:
            division.parts[op.results[0]] = part
            division.unknown.update(op.results[i] for i in part.unknown)


def _unknown_results(op: ir.Operation, division: Division) -> tuple[int, ...]:
    """The indices of the unknown results of an operation that is not divided.

    They are all results, except for two operations: a loop whose number of iterations is known, and a selection by a known
    predicate. They also compute known results.
    """
    if op.name == "stablehlo.while":
        unknown = _unknown_carries(op, division)
        tests, ops, _ = body_of(op.regions[0])
        decisive = {v for test in ops for v in reads_of(test)}
        if not any(tests[i] in decisive for i in unknown) and not decisive & division.unknown:
            return unknown
    elif is_choice(op) and op.operands[0] not in division.unknown:
        return _divide_choice(op, division).unknown
    return tuple(range(len(op.results)))


def _divide_loop(op: ir.Operation, division: Division) -> Loop | None:
    """The division of a loop; None for a loop of unknown length or without iterations, which has no tape."""
    counter = find_counter(op)
    if counter is None or counter.trips == 0:
        return None
    return Loop(counter, _unknown_carries(op, division))


def _unknown_carries(op: ir.Operation, division: Division) -> tuple[int, ...]:
    """The indices of the carries that depend on unknown values after any number of iterations (a fixed point over the body)."""
    arguments, ops, outputs = body_of(op.regions[1])

    def iterate(unknown: set[int]) -> set[int]:
        """The unknown carries after one more iteration."""
        division.unknown.update(arguments[i] for i in unknown)
        _divide(ops, division)
        return unknown | {i for i, value in enumerate(outputs) if value in division.unknown}

    first = {i for i, init in enumerate(op.operands) if init in division.unknown}
    found = fixed_point(first, iterate)
    return tuple(sorted(found))


def _divide_choice(op: ir.Operation, division: Division) -> Choice:
    """The division of a selection: a result is unknown if a branch returns an unknown value for it."""
    unknown: set[int] = set()
    for region in op.regions:
        _, ops, outputs = body_of(region)
        _divide(ops, division)
        unknown.update(i for i, value in enumerate(outputs) if value in division.unknown)
    return Choice(tuple(sorted(unknown)))


def _note_enclosing(ops: Iterable[ir.Operation], division: Division, around: tuple[ir.Value, ...]) -> None:
    """Records in `division.within` the divided loops and branches around each value; `around` has those around all of `ops`."""
    for op in ops:
        if around:
            division.within.update((result, around) for result in op.results)
        if division.part(op) is None:
            continue
        inner = (*around, op.results[0])
        # Of a loop, only the body: no value of its condition is stored.
        for region in list(op.regions)[-1:] if op.name == "stablehlo.while" else op.regions:
            arguments, body, _ = body_of(region)
            division.within.update((argument, inner) for argument in arguments)
            _note_enclosing(body, division, inner)


# ---------------------------------------------------------------- the choice

Price = Callable[[ir.Operation], int | None]  # the price of recomputing an operation in the late half; None: not allowed


@dataclass
class Residuals:
    """The known values that the late half needs: stored ones, and recomputed ones."""

    stored: list[ir.Value]
    recomputed: set[ir.Value]
    nbytes: int


def needed_by(ops: Iterable[ir.Operation], division: Division) -> list[ir.Value]:
    """The known values that the late half reads.

    These are operands of late operations, and known initial values and results of divided loops and selections.
    """
    needed: dict[ir.Value, None] = {}

    def need(values: Iterable[ir.Value]) -> None:
        """Notes the known ones among these values."""
        needed.update((v, None) for v in values if v not in division.unknown)

    def visit(ops: Iterable[ir.Operation]) -> None:
        """Notes the values that these operations need, and those in their regions."""
        for op in ops:
            part = division.part(op)
            if division.is_late(op):
                need(reads_of(op))
            elif isinstance(part, Loop):
                _, body, outputs = body_of(op.regions[1])
                need(op.operands[i] for i in part.unknown)
                need(outputs[i] for i in part.unknown)
                visit(body)
            elif isinstance(part, Choice):
                need([op.operands[0]])
                for region in op.regions:
                    _, body, outputs = body_of(region)
                    need(outputs[i] for i in part.unknown)
                    visit(body)

    visit(ops)
    return list(needed)


def choose(needed: Sequence[ir.Value], division: Division, price: Price) -> Residuals:
    """The cheapest residuals from which all needed values can be computed.

    A value is a pair of nodes, joined by an edge with its bytes as capacity. If the edge is cut, the value is stored.
    If also its first node is on the side of the sink, the value is recomputed in the late half for its price, from
    operands that are stored or recomputed.
    """
    network = Network()
    nodes: dict[ir.Value, int] = {}
    work = list(needed)
    for value in work:
        nodes[value] = _add_value(network, value, division)
        network.edge(nodes[value] + 1, Network.SINK, INFINITY)  # from the second node of the value
    while work:
        value = work.pop()
        cost = _price_of(value, division, price)
        network.edge(Network.SOURCE, nodes[value], INFINITY if cost is None else cost)
        op = made_by(value)
        if cost is None or op is None:
            continue
        for operand in reads_of(op):
            if operand in division.unknown:
                continue  # only operations that run late in any case read it
            if operand not in nodes:
                nodes[operand] = _add_value(network, operand, division)
                work.append(operand)
            network.edge(nodes[operand] + 1, nodes[value], INFINITY)
    late = network.sink_side()
    recomputed = {v for v, node in nodes.items() if node in late}
    values = [v for v, node in nodes.items() if node + 1 in late and node not in late]
    return Residuals(values, recomputed, sum(bytes_of(v) * division.copies(v) for v in values))


def _add_value(network: Network, value: ir.Value, division: Division) -> int:
    """Adds the two nodes of a value to the network, joined by an edge; returns the first node, and the second is the next number.

    To cut the edge is to store the value: its capacity is the bytes of all copies.
    """
    entry, exit = network.node(), network.node()
    # One more than its bytes: of equal cuts, the one with fewer values is selected.
    network.edge(entry, exit, (bytes_of(value) * division.copies(value) + 1) * UNIT)
    return entry


UNIT = 1 << 20  # the capacity of one byte: capacities are integers, and a price may be a small fraction of a byte


def _price_of(value: ir.Value, division: Division, price: Price) -> int | None:
    """The price of computing a value in the late half, in all iterations of the loops around it; None if it must be stored.

    The price is zero for values that the late half computes in any case. `price` gives that of an operation.
    """
    op = made_by(value)
    if op is None:
        return 0 if is_counter(value, division) else None
    if op.results[0] in division.twice:
        return 0
    if division.part(op) is not None:
        return None
    recomputed = price(op)
    return None if recomputed is None else recomputed * division.copies(value)


def is_counter(value: ir.Value, division: Division) -> bool:
    """True for the counter of a divided loop, which the late loop counts itself."""
    around = division.within.get(value)
    if not around:
        return False
    part, op = division.parts[around[-1]], made_by(around[-1])
    assert op is not None
    return isinstance(part, Loop) and value == body_of(op.regions[1])[0][part.counter.carry]


def only_reads(division: Division) -> Price:
    """The policy that recomputes only free operations: constants, views, and reads of tapes.

    A policy is a function from an operation to the price of recomputing it, or None if its results must be stored.
    """

    def price(op: ir.Operation) -> int | None:
        """0 for an operation that the late half may repeat; None for one that it must not."""
        if is_free(op):
            return 0
        if not division.within.get(op.results[0]):
            return None
        around = division.within[op.results[0]]
        if op.name == "stablehlo.dynamic_slice" and division.within.get(op.operands[0], ()) != around:
            return 0  # a row of a tape that an earlier loop filled
        return 0 if all(is_scalar_integer(v.type) for v in [*reads_of(op), *op.results]) else None

    return price


def priced(division: Division, weight: float) -> Price:
    """The policy that recomputes any operation for `weight` times its cost (bytes moved and operations).

    A policy is a function from an operation to the price of recomputing it.
    """
    free = only_reads(division)

    def price(op: ir.Operation) -> int | None:
        """The cost of an operation as an integer capacity of the cut; 0 if it is free."""
        if free(op) == 0:
            return 0
        cost = cost_of(op)
        return int((cost.bytes + cost.flops) * weight * UNIT) + 1

    return price
