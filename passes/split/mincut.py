"""The minimum cut of a directed graph with capacities (Dinic's algorithm), nearest to the sink."""

from __future__ import annotations

from collections import deque

INFINITY = 1 << 80


class Network:
    """A flow network; nodes are numbered from 0, where 0 is the source and 1 the sink."""

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]  # by node; edge e has the reverse edge e ^ 1
        self._head: list[int] = []
        self._room: list[int] = []

    def node(self) -> int:
        """A new node."""
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, tail: int, head: int, capacity: int) -> None:
        """An edge that costs `capacity` to cut."""
        for a, b, room in ((tail, head, capacity), (head, tail, 0)):
            self._edges[a].append(len(self._head))
            self._head.append(b)
            self._room.append(room)

    def sink_side(self) -> set[int]:
        """The nodes on the side of the sink of a minimum cut, as few as possible."""
        while self._augment():
            pass
        side, work = {self.SINK}, [self.SINK]
        while work:
            for e in self._edges[work.pop()]:
                tail = self._head[e]
                if self._room[e ^ 1] and tail not in side:
                    side.add(tail)
                    work.append(tail)
        return side

    def _augment(self) -> bool:
        """Sends flow along all shortest paths of one length; False if no path exists."""
        level = {self.SOURCE: 0}
        queue = deque([self.SOURCE])
        while queue:
            node = queue.popleft()
            for e in self._edges[node]:
                if self._room[e] and self._head[e] not in level:
                    level[self._head[e]] = level[node] + 1
                    queue.append(self._head[e])
        if self.SINK not in level:
            return False
        next_edge = [0] * len(self._edges)
        path: list[int] = []
        node = self.SOURCE
        while True:
            if node == self.SINK:
                flow = min(self._room[e] for e in path)
                for e in path:
                    self._room[e] -= flow
                    self._room[e ^ 1] += flow
                path, node = [], self.SOURCE
            elif next_edge[node] < len(self._edges[node]):
                e = self._edges[node][next_edge[node]]
                if self._room[e] and level.get(self._head[e]) == level[node] + 1:
                    path.append(e)
                    node = self._head[e]
                else:
                    next_edge[node] += 1
            elif path:
                node = self._head[path.pop() ^ 1]
                next_edge[node] += 1
            else:
                return True
