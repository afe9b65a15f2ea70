"""The cheapest set of values from which other values can be computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
_ALL = 1 << 62
_SOURCE, _SINK = 0, 1


def cheapest_cut(reads: Mapping[T, Sequence[T]], costs: Mapping[T, int], wanted: Iterable[T]) -> set[T]:
    """The set of values with the lowest total storage cost from which the wanted values can be computed.

    The theorem of Ford and Fulkerson: the maximal flow from values without operands to wanted values, where each value
    lets at most its cost pass, equals the cheapest cut. Among several cheapest cuts, the result is the one nearest to
    the wanted values.

    Args:
      reads: the operands of each value.
      costs: the cost of storing a value; a value without a cost is never stored, and must have operands.
      wanted: the values to compute.

    Example:
      >>> cheapest_cut({"x": (), "sin": ("x",), "cos": ("x",)}, {"x": 1, "sin": 1, "cos": 1}, ["sin", "cos"])
      {'x'}
    """
    # Each value is two nodes, input and output, and the capacity between them is its cost.
    numbers = {value: 2 + 2 * i for i, value in enumerate(reads)}
    room: list[dict[int, int]] = [{} for _ in range(2 + 2 * len(numbers))]

    def edge(start: int, end: int, capacity: int) -> None:
        room[start][end] = capacity
        room[end].setdefault(start, 0)

    for value, operands in reads.items():
        number = numbers[value]
        edge(number, number + 1, costs.get(value, _ALL))
        if not operands:
            edge(_SOURCE, number, _ALL)
        for operand in operands:
            edge(numbers[operand] + 1, number, _ALL)
    for value in wanted:
        edge(numbers[value] + 1, _SINK, _ALL)
    while path := _path(room):
        least = min(room[a][b] for a, b in path)
        for a, b in path:
            room[a][b] -= least
            room[b][a] += least
    reaching = _reaching_sink(room)
    return {v for v, number in numbers.items() if number + 1 in reaching and number not in reaching}


def _path(room: Sequence[Mapping[int, int]]) -> list[tuple[int, int]]:
    """The edges of a shortest path from source to sink with remaining capacity."""
    before = {_SOURCE: _SOURCE}
    work = deque([_SOURCE])
    while work and _SINK not in before:
        position = work.popleft()
        for end, left in room[position].items():
            if left and end not in before:
                before[end] = position
                work.append(end)
    path, position = list[tuple[int, int]](), _SINK if _SINK in before else _SOURCE
    while position != _SOURCE:
        path.append((before[position], position))
        position = before[position]
    return path


def _reaching_sink(room: Sequence[Mapping[int, int]]) -> set[int]:
    """The nodes from which more could flow to the sink."""
    found = {_SINK}
    work = [_SINK]
    while work:
        end = work.pop()
        for start in room[end]:
            if start not in found and room[start][end]:
                found.add(start)
                work.append(start)
    return found
