"""Orders in which greedy colorings take the vertices of a graph.

natural; largest_first: by degree; smallest_last: the vertex of least degree in what remains comes last (Matula and Beck
1983); incidence_degree: the one with most neighbours before it comes next; dynamic_largest_first: the one of largest
degree in what remains comes next; random: by a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Graph = Sequence[list[int]]


def natural(graph: Graph) -> list[int]:
    """As they are numbered."""
    return list(range(len(graph)))


def largest_first(graph: Graph) -> list[int]:
    """By degree, the largest first."""
    return np.argsort([-len(n) for n in graph], kind="stable").tolist()


def random(graph: Graph) -> list[int]:
    """By chance, the same each time."""
    return np.random.default_rng(0).permutation(len(graph)).tolist()


def smallest_last(graph: Graph) -> list[int]:
    """The vertex of least degree among those that remain is put last, again and again."""
    return _by_buckets(graph, [len(n) for n in graph], -1, largest=False)[::-1]


def dynamic_largest_first(graph: Graph) -> list[int]:
    """The vertex of largest degree among those that remain, again and again."""
    return _by_buckets(graph, [len(n) for n in graph], -1, largest=True)


def incidence_degree(graph: Graph) -> list[int]:
    """The vertex with most neighbours among those that were taken, again and again; at first one of largest degree."""
    return _by_buckets(graph, [0] * len(graph), 1, largest=True)


def _by_buckets(graph: Graph, keys: list[int], change: int, largest: bool) -> list[int]:
    """Takes the vertex of largest or smallest key; the keys of its neighbours change by one."""
    buckets: list[list[int]] = [[] for _ in range(max((len(n) for n in graph), default=0) + 2)]
    by_degree = sorted(range(len(graph)), key=lambda v: len(graph[v]))
    for vertex in by_degree if largest else by_degree[::-1]:
        buckets[keys[vertex]].append(vertex)
    at = len(buckets) - 1 if largest else 0
    step = -1 if largest else 1
    order: list[int] = []
    is_taken = [False] * len(graph)
    while len(order) < len(graph):
        while not buckets[at]:
            at += step
        vertex = buckets[at].pop()
        if is_taken[vertex] or keys[vertex] != at:
            continue  # it has moved to another bucket
        is_taken[vertex] = True
        order.append(vertex)
        for other in graph[vertex]:
            if not is_taken[other]:
                keys[other] += change
                buckets[keys[other]].append(other)
        if change < 0 and not largest:
            at = max(0, at - 1)
        elif change > 0:
            at = min(len(buckets) - 1, at + 1)
    return order


ORDERS: dict[str, Callable[[Graph], list[int]]] = {
    "natural": natural, "largest_first": largest_first, "smallest_last": smallest_last,
    "incidence_degree": incidence_degree, "dynamic_largest_first": dynamic_largest_first, "random": random,
}  # fmt: skip
