"""The cheapest set of values from which others can be made."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
_ALL = 1 << 62


def cheapest_cut(reads: Mapping[T, Sequence[T]], costs: Mapping[T, int], wanted: Iterable[T]) -> set[T]:
    """The values to hold, of the lowest total cost, from which the wanted ones can be made.

    By the theorem of Ford and Fulkerson: what flows from the values that read nothing to those that are wanted, through
    each at most its cost, is as much as the cheapest cut. Of several the one nearest to what is wanted.

    Args:
      reads: what each value is made of.
      costs: of holding a value; one that is not there is never held, and reads something.
      wanted: the values to be made.

    Example:
      >>> cheapest_cut({"x": (), "sin": ("x",), "cos": ("x",)}, {"x": 1, "sin": 1, "cos": 1}, ["sin", "cos"])
      {'x'}
    """
    # Each value is two places, what comes in and what goes out, with its cost in between.
    room: dict[object, dict[object, int]] = {}

    def edge(start: object, end: object, capacity: int) -> None:
        room.setdefault(start, {})[end] = capacity
        room.setdefault(end, {}).setdefault(start, 0)

    for value, operands in reads.items():
        edge(("in", value), ("out", value), costs.get(value, _ALL))
        if not operands:
            edge("source", ("in", value), _ALL)
        for operand in operands:
            edge(("out", operand), ("in", value), _ALL)
    for value in wanted:
        edge(("out", value), "sink", _ALL)
    while path := _path(room):
        least = min(room[a][b] for a, b in path)
        for a, b in path:
            room[a][b] -= least
            room[b][a] += least
    reaching = _reaching_sink(room)
    return {v for v in reads if ("out", v) in reaching and ("in", v) not in reaching}


def _path(room: Mapping[object, Mapping[object, int]]) -> list[tuple[object, object]]:
    """The edges of a shortest way from the source to the sink on which something more can flow."""
    before: dict[object, object] = {"source": None}
    work: deque[object] = deque(["source"] if "source" in room else [])
    while work and "sink" not in before:
        place = work.popleft()
        for end, left in room[place].items():
            if left and end not in before:
                before[end] = place
                work.append(end)
    path, place = list[tuple[object, object]](), "sink" if "sink" in before else None
    while place is not None and before[place] is not None:
        path.append((before[place], place))
        place = before[place]
    return path


def _reaching_sink(room: Mapping[object, Mapping[object, int]]) -> set[object]:
    """The places from which more could flow to the sink."""
    found: set[object] = {"sink"}
    work: list[object] = ["sink"]
    while work:
        end = work.pop()
        for start in room.get(end, ()):
            if start not in found and room[start][end]:
                found.add(start)
                work.append(start)
    return found
