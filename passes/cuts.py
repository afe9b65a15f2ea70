"""Minimum cuts of a directed graph with capacities (Dinic's algorithm).

With a minimum cut, `cheapest_cut` finds the cheapest values to store, from which other values can be computed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
INFINITY = 1 << 80


class Network:
    """A flow network; nodes are numbered from 0, where 0 is the source and 1 the sink."""

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]  # by node; edge e has the reverse edge e ^ 1
        self._head: list[int] = []  # by edge: the node that it leads to
        self._remaining: list[int] = []  # by edge: the flow that it can still take

    def node(self) -> int:
        """The number of a node that is added to the network."""
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, tail: int, head: int, capacity: int) -> None:
        """Adds an edge from node `tail` to node `head`; to cut it costs `capacity`."""
        for a, b, free in ((tail, head, capacity), (head, tail, 0)):
            self._edges[a].append(len(self._head))
            self._head.append(b)
            self._remaining.append(free)

    def sink_side(self) -> set[int]:
        """The nodes from which the sink can still be reached after a maximum flow: the side of the sink of a minimum cut.

        It is the smallest such side. An edge of the cut goes from a node outside to a node inside.
        """
        while self._augment():
            pass
        side, work = {self.SINK}, [self.SINK]
        while work:
            for e in self._edges[work.pop()]:
                tail = self._head[e]
                if self._remaining[e ^ 1] and tail not in side:
                    side.add(tail)
                    work.append(tail)
        return side

    def _augment(self) -> bool:
        """True after flow was sent along all shortest paths from the source to the sink; False if no path is left.

        One step of Dinic's algorithm: a breadth-first search numbers the levels, then a depth-first search follows them.
        """
        level = {self.SOURCE: 0}
        queue = deque([self.SOURCE])
        while queue:
            node = queue.popleft()
            for e in self._edges[node]:
                if self._remaining[e] and self._head[e] not in level:
                    level[self._head[e]] = level[node] + 1
                    queue.append(self._head[e])
        if self.SINK not in level:
            return False
        next_edge = [0] * len(self._edges)
        path: list[int] = []
        node = self.SOURCE
        while True:
            if node == self.SINK:
                flow = min(self._remaining[e] for e in path)
                for e in path:
                    self._remaining[e] -= flow
                    self._remaining[e ^ 1] += flow
                path, node = [], self.SOURCE
            elif next_edge[node] < len(self._edges[node]):
                e = self._edges[node][next_edge[node]]
                if self._remaining[e] and level.get(self._head[e]) == level[node] + 1:
                    path.append(e)
                    node = self._head[e]
                else:
                    next_edge[node] += 1
            elif path:
                node = self._head[path.pop() ^ 1]
                next_edge[node] += 1
            else:
                return True


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
    network = Network()
    entries = {value: (network.node(), network.node()) for value in reads}  # the cost joins both nodes of a value
    for value, operands in reads.items():
        entry, exit = entries[value]
        network.edge(entry, exit, costs.get(value, INFINITY))
        if not operands:
            network.edge(Network.SOURCE, entry, INFINITY)
        for operand in operands:
            network.edge(entries[operand][1], entry, INFINITY)
    for value in wanted:
        network.edge(entries[value][1], Network.SINK, INFINITY)
    side = network.sink_side()
    return {value for value, (entry, exit) in entries.items() if exit in side and entry not in side}
