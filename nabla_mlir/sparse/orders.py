"""Orders in which greedy colorings visit the vertices of a graph.

natural: by number. largest_first: by degree. smallest_last: the vertex of least degree in the remaining graph becomes
  the last (Matula and Beck 1983). incidence_degree: the vertex with most neighbours that were visited comes next.
  dynamic_largest_first: the vertex of largest degree in the remaining graph comes next. random: with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Graph = Sequence[list[int]]


def natural(graph: Graph) -> list[int]:
    """The vertices in the order of their numbers."""
    return list(range(len(graph)))


def largest_first(graph: Graph) -> list[int]:
    """The vertices by degree, the largest first."""
    return np.argsort([-len(n) for n in graph], kind="stable").tolist()


def random(graph: Graph) -> list[int]:
    """A random order, the same in each call."""
    return np.random.default_rng(0).permutation(len(graph)).tolist()


def smallest_last(graph: Graph) -> list[int]:
    """Repeatedly removes the vertex of least degree from the graph; the order is the reverse of the removals."""
    return _by_buckets(graph, [len(n) for n in graph], -1, largest=False)[::-1]


def dynamic_largest_first(graph: Graph) -> list[int]:
    """Repeatedly removes the vertex of largest degree from the graph; the order is that of the removals."""
    return _by_buckets(graph, [len(n) for n in graph], -1, largest=True)


def incidence_degree(graph: Graph) -> list[int]:
    """Repeatedly visits the vertex with most visited neighbours; the first is a vertex of largest degree."""
    return _by_buckets(graph, [0] * len(graph), 1, largest=True)


def _by_buckets(graph: Graph, keys: list[int], change: int, largest: bool) -> list[int]:
    """The vertices in the order in which they are removed: always the one with the largest (or smallest) key.

    Args:
      graph: the neighbours of each vertex.
      keys: the first key of each vertex.
      change: how much a removal changes the keys of the neighbours.
      largest: True for the largest key.
    """
    buckets: list[list[int]] = [[] for _ in range(max((len(n) for n in graph), default=0) + 2)]
    by_degree = sorted(range(len(graph)), key=lambda v: len(graph[v]))
    for vertex in by_degree if largest else by_degree[::-1]:
        buckets[keys[vertex]].append(vertex)
    at = len(buckets) - 1 if largest else 0
    step = -1 if largest else 1
    order: list[int] = []
    is_removed = [False] * len(graph)
    while len(order) < len(graph):
        while not buckets[at]:
            at += step
        vertex = buckets[at].pop()
        if is_removed[vertex] or keys[vertex] != at:
            continue  # it has moved to another bucket
        is_removed[vertex] = True
        order.append(vertex)
        for other in graph[vertex]:
            if not is_removed[other]:
                keys[other] += change
                buckets[keys[other]].append(other)
        if change < 0 and not largest:
            at = max(0, at - 1)
        elif change > 0:
            at = min(len(buckets) - 1, at + 1)
    return order


ORDERS: dict[str, Callable[[Graph], list[int]]] = {
    "natural": natural,
    "largest_first": largest_first,
    "smallest_last": smallest_last,
    "incidence_degree": incidence_degree,
    "dynamic_largest_first": dynamic_largest_first,
    "random": random,
}
