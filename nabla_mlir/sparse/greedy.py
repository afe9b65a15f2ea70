"""Greedy colorings: each vertex, in a given order, gets the first color that its kind of coloring allows.

A set of colors is an integer with one bit for each color. The forbidden colors are the `or` over neighbours, and the
first allowed color is the lowest zero bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Lists = Sequence[list[int]]


def distance_two(members: Lists, hyperedges: int, order: Sequence[int]) -> list[int]:
    """Colors such that no two vertices of one hyperedge have the same color.

    Args:
      members: the hyperedges of each vertex; for columns, the rows in which they have entries.
      hyperedges: the number of hyperedges.
      order: the vertices in the order of coloring; vertices that are not in it get -1.
    """
    sets = [0] * hyperedges
    colors = [-1] * len(members)
    for vertex in order:
        mask = 0
        for edge in members[vertex]:
            mask |= sets[edge]
        bit = ~mask & (mask + 1)
        for edge in members[vertex]:
            sets[edge] |= bit
        colors[vertex] = bit.bit_length() - 1
    return colors


def star(graph: Lists, order: Sequence[int]) -> list[int]:
    """The color of each vertex: neighbours differ, and each path of four vertices has at least three colors.

    `graph` has the neighbours of each vertex, and `order` the vertices as they get colors. Three sets are stored for each vertex:
    the colors of its neighbours (`once`); the colors that several neighbours have (`often`: the vertex is then the hub of a star
    of two colors); and the colors of those neighbouring hubs whose star contains the vertex as a leaf (`hubs`). The idea is from
    Gebremedhin, Tarafdar, Manne and Pothen 2007; new are the sets of colors as integers.
    """
    n = len(graph)
    color_of, once, often, hubs = [0] * n, [0] * n, [0] * n, [0] * n
    for vertex in order:
        near = graph[vertex]
        mask, twice = once[vertex], often[vertex]
        for w in near:
            bit = color_of[w]
            if bit:
                mask |= hubs[w]
                if bit & twice:  # two neighbours of one color: each of their other neighbours would be the fourth vertex of a path
                    mask |= once[w]
        free_color = ~mask & (mask + 1)
        color_of[vertex] = free_color
        for w in near:
            if often[w] & free_color:
                if color_of[w]:
                    hubs[vertex] |= color_of[w]
            elif once[w] & free_color:
                often[w] |= free_color
                if color_of[w]:
                    for leaf in graph[w]:
                        if color_of[leaf] == free_color:
                            hubs[leaf] |= color_of[w]
            else:
                once[w] |= free_color
            if color_of[w] & twice:
                hubs[w] |= free_color
    return [b.bit_length() - 1 for b in color_of]


def acyclic(graph: Lists, order: Sequence[int], depth: int | None = None) -> list[int]:
    """The color of each vertex: neighbours differ, and the vertices of any two colors form no cycle.

    `graph` has the neighbours of each vertex, and `order` the vertices as they get colors. If two neighbours of a vertex have one
    color and a path of two colors joins them, the vertex must not get the other color of the path. With a depth, no path in a tree
    of two colors has more than twice as many edges.
    """
    n = len(graph)
    colors, bits, once, often = [-1] * n, [0] * n, [0] * n, [0] * n
    trees = Forest()
    for vertex in order:
        near = [w for w in graph[vertex] if bits[w]]
        mask, twice = once[vertex], often[vertex]
        if twice:
            seen = set[tuple[tuple[int, int], int]]()
            for w in near:
                if bits[w] & twice:
                    for color in _colors_in(once[w] & ~mask):
                        root = trees.find((w, color))
                        if (root, color) in seen:
                            mask |= 1 << color
                        seen.add((root, color))
        free_color = ~mask & (mask + 1)
        color = free_color.bit_length() - 1
        while depth is not None and _longest_path(graph, colors, near, color) > 2 * depth:
            mask |= free_color
            free_color = ~mask & (mask + 1)
            color = free_color.bit_length() - 1
        bits[vertex], colors[vertex] = free_color, color
        for w in graph[vertex]:
            often[w] |= once[w] & free_color
            once[w] |= free_color
            if bits[w]:
                trees.join((vertex, colors[w]), (w, color))
    return colors


def _longest_path(graph: Lists, colors: Sequence[int], near: Sequence[int], color: int) -> int:
    """The edges of the longest path in the tree of two colors that arises if a vertex with the neighbours `near` gets `color`.

    `graph` has the neighbours of each vertex.
    """
    longest, arms = 0, dict[int, list[int]]()
    for w in near:
        height, end = _farthest(graph, colors, w, color)
        longest = max(longest, _farthest(graph, colors, end, colors[w] if colors[end] == color else color)[0])
        arms.setdefault(colors[w], []).append(height + 1)
    return max([longest, *(sum(sorted(heights)[-2:]) for heights in arms.values())])


def _farthest(graph: Lists, colors: Sequence[int], start: int, other: int) -> tuple[int, int]:
    """The largest distance from `start` in its tree of the colors of `start` and `other`, and a vertex at that distance.

    `graph` has the neighbours of each vertex.
    """
    wanted = (other, colors[start])
    front, before, distance = [(start, -1)], start, 0
    while True:
        further = [(w, v) for v, parent in front for w in graph[v] if w != parent and colors[w] == wanted[distance % 2]]
        if not further:
            return distance, before
        front, before, distance = further, further[0][0], distance + 1


def _colors_in(mask: int) -> Iterator[int]:
    """The colors in a set, in order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Forest:
    """Disjoint sets of pairs (vertex, color of its neighbours): the trees of two colors to which a vertex belongs."""

    def __init__(self) -> None:
        self._parent: dict[tuple[int, int], tuple[int, int]] = {}

    def find(self, item: tuple[int, int]) -> tuple[int, int]:
        """The representative of the tree of an item, a pair of vertex and color; the path to it is shortened for later calls."""
        parent = self._parent
        root = parent.setdefault(item, item)
        while parent[root] != root:
            root = parent[root]
        while parent[item] != root:
            parent[item], item = root, parent[item]
        return root

    def join(self, a: tuple[int, int], b: tuple[int, int]) -> bool:
        """Joins the trees of the nodes `a` and `b`, pairs of vertex and color; returns False if they were one tree already."""
        first, second = self.find(a), self.find(b)
        self._parent[first] = second
        return first != second
