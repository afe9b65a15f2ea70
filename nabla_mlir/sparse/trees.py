"""Acyclic colorings: the entries of any two colors form trees, and entries follow by substitution along them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nabla_mlir.sparse.pattern import Pattern


@dataclass(frozen=True)
class Substitution:
    """The plan by which the entries of a symmetric matrix follow from products with the groups of an acyclic coloring.

    The edges of the trees are the entries (i, j), i < j; the entries of the diagonal follow after them.

    Attributes:
      source: the index in the products from which each edge, and each entry of the diagonal, is read: color * n + row.
      rounds: pairs of edges (below, above). In round k the numbers below are added to those above, 2**k further up the
        tree; in the first round they are subtracted. The result is a sum over the subtree with alternating signs, which
        is the entry.
      entry: the index of the edge, or of the diagonal entry, for each entry of the matrix.
    """

    source: np.ndarray
    rounds: tuple[tuple[np.ndarray, np.ndarray], ...]
    entry: np.ndarray


def edges_of(pattern: Pattern, colors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The edges of the trees of two colors: the entries (i, j), i < j, of a symmetric pattern.

    Returns the indices of the entries, and the nodes at both ends as numbers: a node is a pair (vertex, color of the neighbour).
    """
    count = int(colors.max(initial=-1)) + 1
    upper = np.nonzero(pattern.row_of_entry < pattern.indices)[0]
    i, j = pattern.row_of_entry[upper], pattern.indices[upper]
    return upper, i * count + colors[j], j * count + colors[i]


def is_acyclic(pattern: Pattern, colors: np.ndarray) -> bool:
    """True if neighbours have different colors, and the vertices of any two colors form no cycle.

    The pattern is the adjacency of the vertices, and `colors` has the color of each.
    """
    if not pattern.nnz:
        return True
    upper, a, b = edges_of(pattern, colors)
    i, j = pattern.row_of_entry[upper], pattern.indices[upper]
    if (colors[i] == colors[j]).any() or (colors[pattern.indices] < 0).any():
        return False
    return len(peeled(a, b)[0]) == len(upper)


def substitution(pattern: Pattern, colors: np.ndarray) -> Substitution:
    """The substitution plan for an acyclic coloring of a symmetric pattern.

    In the graph of two colors, an entry is an edge, and a product is the sum of the entries at a node. A leaf has one entry, which
    is read; an edge above it is read after the sum of the edges below is subtracted. `rounds` does this for whole paths by
    doubling.
    """
    n = pattern.shape[0]
    row, column = pattern.row_of_entry, pattern.indices
    upper, a, b = edges_of(pattern, colors)
    edges, leaves = (np.array(x, np.int64) for x in peeled(a, b))
    leaf_is_row = np.zeros(len(upper), bool)
    leaf_is_row[edges] = a[edges] == leaves
    # The product that has the entry (i, j): that of the color of the other end, at the row of the leaf.
    i, j = row[upper], column[upper]
    source = np.where(leaf_is_row, colors[j] * n + i, colors[i] * n + j)
    # The edge above an edge is the one whose leaf is the other end of the edge.
    edge_of_leaf = np.full(int(max(a.max(initial=0), b.max(initial=0))) + 1, -1)
    edge_of_leaf[leaves] = edges
    above = edge_of_leaf[np.where(leaf_is_row, b, a)] if len(upper) else np.zeros(0, np.int64)
    above = np.where(above == np.arange(len(upper)), -1, above)
    rounds = []
    while (above >= 0).any():
        below = np.nonzero(above >= 0)[0]
        rounds.append((below.astype(np.int32), above[below].astype(np.int32)))
        above = np.where(above >= 0, above[above], -1)
    diagonal = np.nonzero(row == column)[0]
    entry = np.empty(pattern.nnz, np.int32)
    entry[upper] = np.arange(len(upper))
    entry[np.nonzero(row > column)[0]] = entry[mirror(pattern)[row > column]]
    entry[diagonal] = len(upper) + np.arange(len(diagonal))
    source = np.concatenate([source, colors[row[diagonal]] * n + row[diagonal]])
    return Substitution(source.astype(np.int32), tuple(rounds), entry)


def mirror(pattern: Pattern) -> np.ndarray:
    """For each entry (i, j) of a symmetric pattern, the entry (j, i): sorting by column, then row, gives the mirror images."""
    return np.argsort(pattern.indices, kind="stable")


def depth_of(pattern: Pattern, colors: np.ndarray) -> int:
    """The largest number of entries that follow from each other by substitution.

    The pattern is the adjacency of the vertices, and `colors` has the color of each. The depth is 1 if each entry is read from one
    product, as with a star coloring.
    """
    if not pattern.nnz:
        return 0
    _, a, b = edges_of(pattern, colors)
    heights = [0] * (int(max(a.max(initial=0), b.max(initial=0))) + 1)
    first, second = a.tolist(), b.tolist()
    for edge, leaf in zip(*peeled(a, b), strict=True):
        node = second[edge] if first[edge] == leaf else first[edge]
        heights[node] = max(heights[node], heights[leaf] + 1)
    return max(heights)


def peeled(a: np.ndarray, b: np.ndarray) -> tuple[list[int], list[int]]:
    """The edges of a forest, from the leaves to the roots, and the leaf of each edge; a and b are the ends of the edges.

    Each edge has an end, the leaf, that no later edge has. Leaves are removed layer by layer, so the root of each tree
    is its center. The edges of cycles are not in the result.
    """
    size = int(max(a.max(initial=0), b.max(initial=0))) + 1
    degree = np.bincount(a, minlength=size) + np.bincount(b, minlength=size)
    # The exclusive or of the remaining edges of a node is its last edge when only one remains.
    last = np.zeros(size, np.int64)
    numbers = np.arange(len(a))
    np.bitwise_xor.at(last, a, numbers)
    np.bitwise_xor.at(last, b, numbers)
    degrees, edges, first, second = degree.tolist(), last.tolist(), a.tolist(), b.tolist()
    order: list[int] = []
    leaves: list[int] = []
    waiting = np.nonzero(degree == 1)[0].tolist()
    for leaf in waiting:
        if degrees[leaf] != 1:  # the root: its last edge has been removed
            continue
        edge = edges[leaf]
        order.append(edge)
        leaves.append(leaf)
        node = second[edge] if first[edge] == leaf else first[edge]
        degrees[leaf] = 0
        degrees[node] -= 1
        edges[node] ^= edge
        if degrees[node] == 1:
            waiting.append(node)
    return order, leaves
