"""Ensembles of trees of ONNX's domain ai.onnx.ml: all rows go down all trees at the same time, with one gather for each level.

A tree is constant in each of its cells: its derivatives by the rows are zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.interop.onnx.dtypes import array_of
from nabla_mlir.interop.onnx.learning import POST, integers
from nabla_mlir.interop.onnx.table import Refusal, operator
from nabla_mlir.table.tensor import Tensor

_ML = "ai.onnx.ml"
_TESTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "BRANCH_LEQ": lambda x, t: x <= t,
    "BRANCH_LT": lambda x, t: x < t,
    "BRANCH_GTE": lambda x, t: x >= t,
    "BRANCH_GT": lambda x, t: x > t,
    "BRANCH_EQ": lambda x, t: x == t,
    "BRANCH_NEQ": lambda x, t: x != t,
}
_MODES = (*_TESTS, "BRANCH_MEMBER")  # the modes in the order of their numbers in ONNX
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_POSTS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True)
class Forest:
    """The nodes of all trees in one list; a leaf is a node that leads to itself.

    Attributes:
      features, thresholds, modes: for each node, the column that it tests, the threshold and the kind of test.
      is_true_of_nan: True for the nodes whose test a missing value passes.
      passed, failed: for each node, the next node if the test passes or fails.
      members: for each node, a set of values, padded with NaN.
      leaves: for each weight, its node, its target and the weight.
      roots: the roots of the trees.
      count: the number of targets.
    """

    features: np.ndarray
    thresholds: np.ndarray
    modes: Sequence[str]
    is_true_of_nan: np.ndarray
    passed: np.ndarray
    failed: np.ndarray
    members: np.ndarray
    leaves: tuple[np.ndarray, np.ndarray, np.ndarray]
    roots: np.ndarray
    count: int

    def __post_init__(self) -> None:
        """Refuses nodes and targets that do not exist."""
        size, targets = len(self.features), self.leaves[1]
        for position in np.concatenate([self.passed, self.failed, self.roots, self.leaves[0]]):
            if not 0 <= position < size:
                raise Refusal(f"children, roots and leaves among its {size} nodes", f"node {position}")
        if any(not 0 <= target < self.count for target in targets):
            raise Refusal(f"weights of {self.count} targets", f"targets up to {targets.max()}")

    def total(self, x: Tensor, how: str) -> Tensor:
        """The sum of the leaves that each row of `x` reaches in all trees, shape (rows, targets); or another aggregate, as `how`
        says.

        `how` is "SUM", "AVERAGE", "MIN" or "MAX".
        """
        if x.ndim != 2 or self.features.max(initial=0) >= x.shape[1]:
            raise Refusal(f"rows with {self.features.max(initial=0) + 1} columns", f"shape {x.shape}")
        if how not in _AGGREGATES:
            raise Refusal(f"an aggregate among {', '.join(_AGGREGATES)}", how)
        nodes, targets, weights = self.leaves
        limits = np.finfo(weights.dtype)
        both, start = {"MIN": (np.minimum, limits.max), "MAX": (np.maximum, limits.min)}.get(how, (np.add, 0))
        table = np.full((len(self.features), self.count), start, weights.dtype)
        both.at(table, (nodes, targets), weights)
        found = nnp.take(table, self._reached(x), 0)
        if how in ("MIN", "MAX"):
            return nnp.min(found, 1) if how == "MIN" else nnp.max(found, 1)
        return nnp.sum(found, 1) / (len(self.roots) if how == "AVERAGE" else 1)

    def _reached(self, x: Tensor) -> Tensor:
        """The index of the leaf that each row of x reaches in each tree, shape (rows, trees)."""
        nodes: Any = np.broadcast_to(self.roots, (x.shape[0], len(self.roots)))
        for _ in range(self._depth()):  # a leaf leads to itself
            nodes = nnp.where(self._is_passed(x, nodes), nnp.take(self.passed, nodes), nnp.take(self.failed, nodes))
        return nodes

    def _is_passed(self, x: Tensor, nodes: Any) -> Tensor:
        """True where the test of the node at which a row of `x` is passes; `nodes` has this node for each row and tree."""
        value = nnp.take_along_axis(x, nnp.take(self.features, nodes), 1)
        numbers = np.array([_MODES.index(mode) for mode in self.modes])
        branches = numbers[self._is_branch()]
        # Each kind of test is computed for all nodes; then each node selects the result of its own kind.
        answers = {int(i): self._answer(_MODES[i], value, nodes) for i in np.unique(branches)}
        choose = lambda one, i: nnp.where(nnp.take(numbers, nodes) == i, answers[i], one)  # noqa: E731
        is_passed = functools.reduce(choose, list(answers)[1:], next(iter(answers.values())))
        if not self.is_true_of_nan.any() and "BRANCH_NEQ" not in self.modes:
            return is_passed  # a comparison with NaN is false, so the result is already correct
        return nnp.where(nnp.isnan(value), nnp.take(self.is_true_of_nan, nodes), is_passed)

    def _answer(self, mode: str, value: Tensor, nodes: Any) -> Tensor:
        """The result of the test `mode` on `value` for each row and tree, as if all nodes had this kind of test; `nodes` has
        their nodes.
        """
        if mode == "BRANCH_MEMBER":
            return nnp.any(value[..., None] == nnp.take(self.members, nodes, 0), -1)
        return _TESTS[mode](value, nnp.take(self.thresholds, nodes))

    def _is_branch(self) -> np.ndarray:
        """True for the nodes that are not leaves."""
        numbers_of_nodes = np.arange(len(self.features))
        return (self.passed != numbers_of_nodes) | (self.failed != numbers_of_nodes)

    def _depth(self) -> int:
        """The number of branches on the longest path."""
        nodes, count, is_branch = set(self.roots.tolist()), 0, self._is_branch()
        while any(is_branch[i] for i in nodes):
            nodes, count = {int(j) for i in nodes for j in (self.passed[i], self.failed[i])}, count + 1
            if count > len(self.features):
                raise Refusal("trees", "a cycle of nodes")
        return count


def _rows(x: Tensor) -> Tensor:
    """The rows in the dtype in which they are compared."""
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _forest_of_lists(weights: tuple[Any, Any, Any, Any], count: int, nodes: dict[str, Any]) -> Forest:
    """The forest from the attributes of the operators before opset 5, which name a node by its tree and its number in the tree.

    Args:
      weights: for each weight of a leaf, its tree, its node, its target and the weight.
      count: the number of targets.
      nodes: the attributes that begin with `nodes_`, each with one element for each node.
    """

    def column(name: str, dtype: Any, default: Any = 0) -> np.ndarray:
        """The attribute with this name as an array; the default if it is missing."""
        tensor = nodes.pop(f"{name}_as_tensor", None)
        numbers = nodes.pop(name, ())
        if tensor is not None:
            return array_of(tensor)
        return np.array(numbers, dtype) if len(numbers) else np.full(size, default, dtype)

    trees, ids = nodes.pop("nodes_treeids"), nodes.pop("nodes_nodeids")
    modes = [m.decode() if isinstance(m, bytes) else m for m in nodes.pop("nodes_modes")]
    size, positions = len(modes), {pair: i for i, pair in enumerate(zip(trees, ids, strict=True))}

    def position(tree: int, node: int) -> int:
        """The index of a node in the list of all nodes."""
        if (tree, node) not in positions:
            raise Refusal("children and leaves among its nodes", f"node {node} of tree {tree}")
        return positions[tree, node]

    if unknown := set(modes) - {*_TESTS, "LEAF"}:
        raise Refusal(f"modes among {', '.join(_TESTS)}", ", ".join(sorted(unknown)))

    def child(name: str) -> np.ndarray:
        """The index of the child of each node, from the attribute `name`; a leaf is its own child."""
        targets = zip(trees, modes, nodes.pop(name), strict=True)
        return np.array([i if mode == "LEAF" else position(tree, to) for i, (tree, mode, to) in enumerate(targets)])

    roots: dict[Any, int] = {}
    for i, tree in enumerate(trees):
        roots.setdefault(tree, i)
    of_trees, of_nodes, targets, values = weights
    leaves = np.array([position(*pair) for pair in zip(of_trees, of_nodes, strict=True)], int), np.array(targets, int), values
    return Forest(
        column("nodes_featureids", int),
        column("nodes_values", np.float32),
        ["BRANCH_LEQ" if m == "LEAF" else m for m in modes],
        column("nodes_missing_value_tracks_true", bool),
        child("nodes_truenodeids"),
        child("nodes_falsenodeids"),
        np.zeros((size, 0), np.float32),
        leaves,
        np.array(list(roots.values())),
        count,
    )


def _floats(values: Any, tensor: Any) -> np.ndarray:
    return np.array(values, np.float32) if tensor is None else array_of(tensor)


@operator("TreeEnsembleRegressor", domain=_ML)
def _tree_ensemble_regressor(
    x: Tensor,
    *,
    target_treeids: Any = (),
    target_nodeids: Any = (),
    target_ids: Any = (),
    target_weights: Any = (),
    target_weights_as_tensor: Any = None,
    n_targets: int = 1,
    base_values: Any = (),
    base_values_as_tensor: Any = None,
    aggregate_function: str = "SUM",
    post_transform: str = "NONE",
    **attributes: Any,
) -> Tensor:
    """The sums, or another aggregate, of the leaves that each row of x reaches in the trees, plus the base values.

    The lists `target_...` have the tree, the node, the target and the weight of each leaf; `attributes` has the lists of the nodes.
    A function `post_transform` is applied at the end.
    """
    weights = target_treeids, target_nodeids, target_ids, _floats(target_weights, target_weights_as_tensor)
    total = _forest_of_lists(weights, n_targets, attributes).total(_rows(x), aggregate_function)
    base = _floats(base_values, base_values_as_tensor)
    return POST[post_transform](total + base if base.size else total).astype(np.float32)


@operator("TreeEnsembleClassifier", domain=_ML)
def _tree_ensemble_classifier(
    x: Tensor,
    *,
    class_treeids: Any = (),
    class_nodeids: Any = (),
    class_ids: Any = (),
    class_weights: Any = (),
    class_weights_as_tensor: Any = None,
    classlabels_int64s: Any = None,
    classlabels_strings: Any = None,
    base_values: Any = (),
    base_values_as_tensor: Any = None,
    post_transform: str = "NONE",
    **attributes: Any,
) -> tuple[Tensor, Tensor]:
    """The class of each row and the scores. If only one of two classes has weights, the other score is the complement.

    The lists `class_...` have the tree, the node, the class and the weight of each leaf; `attributes` has the lists of the nodes,
    and `classlabels_...` the labels. A function `post_transform` is applied to the scores.
    """
    labels = integers(classlabels_int64s, classlabels_strings)
    weights = class_treeids, class_nodeids, class_ids, _floats(class_weights, class_weights_as_tensor)
    scores = _forest_of_lists(weights, max(len(labels), *(i + 1 for i in class_ids)), attributes).total(_rows(x), "SUM")
    base = _floats(base_values, base_values_as_tensor)
    scores = scores + base if base.size else scores
    if len(set(class_ids)) == 1:
        if len(labels) > 2 or labels.tolist() == [0]:
            raise Refusal("weights of every class, or of one class out of two", f"{len(labels)} labels and weights of one")
        one = scores[:, class_ids[0], None]
        scores = nnp.concatenate([1 - one if post_transform in ("NONE", "PROBIT") else -one, one], -1)
        labels = np.array([0, labels[0]]) if len(labels) == 1 else labels
    scores = POST[post_transform](scores.astype(np.float32))
    return nnp.take(labels, nnp.argmax(scores, -1)), scores


@operator("TreeEnsemble", domain=_ML, since=5)
def _tree_ensemble(
    x: Tensor,
    nodes_splits: Any = None,
    nodes_featureids: Any = (),
    nodes_modes: Any = None,
    nodes_truenodeids: Any = (),
    nodes_falsenodeids: Any = (),
    nodes_trueleafs: Any = (),
    nodes_falseleafs: Any = (),
    leaf_targetids: Any = (),
    leaf_weights: Any = None,
    tree_roots: Any = (),
    post_transform: int = 0,
    aggregate_function: int = 1,
    nodes_hitrates: Any = None,
    nodes_missing_value_tracks_true: Any = None,
    membership_values: Any = None,
    n_targets: int = 1,
) -> Tensor:
    """The sums, or another aggregate, of the leaves that each row of x reaches; the nodes are numbered as branches, then the
    leaves.

    Node i goes to its first child if the feature nodes_featureids[i] compares with nodes_splits[i] as nodes_modes[i] says. The
    lists `..._trueleafs` and `..._falseleafs` are 1 where the child is a leaf. The other parameters are ONNX's attributes.
    """
    splits, weights, modes = array_of(nodes_splits), array_of(leaf_weights), [_MODES[i] for i in array_of(nodes_modes)]
    count, size = len(splits), len(splits) + len(weights)
    leaves = np.arange(count, size)
    # A leaf is numbered after all branches, and its own children are itself; its other attributes have no meaning.
    child = lambda ids, is_leaf: np.append(np.add(ids, np.multiply(is_leaf, count)), leaves)  # noqa: E731
    padding = lambda numbers, dtype: np.append(np.asarray(numbers, dtype), np.zeros(len(weights), dtype))  # noqa: E731
    is_true_of_nan = [0] * count if nodes_missing_value_tracks_true is None else nodes_missing_value_tracks_true
    forest = Forest(
        padding(nodes_featureids, int),
        padding(splits, splits.dtype),
        modes + ["BRANCH_LEQ"] * len(weights),
        padding(is_true_of_nan, bool),
        child(nodes_truenodeids, nodes_trueleafs),
        child(nodes_falsenodeids, nodes_falseleafs),
        _sets(modes, size, splits.dtype, membership_values),
        (leaves, np.array(leaf_targetids), weights),
        np.array(tree_roots),
        n_targets,
    )
    return POST[_POSTS[post_transform]](forest.total(x, _AGGREGATES[aggregate_function])).astype(x.dtype)


def _sets(modes: Sequence[str], size: int, dtype: np.dtype, tensor: Any) -> np.ndarray:
    """The set of numbers of each membership node, padded with NaN, which equals no value; in `tensor`, each set ends with NaN.

    `modes` are the kinds of tests of the nodes, and `size` is the number of nodes and leaves.
    """
    values = np.zeros(0) if tensor is None else array_of(tensor)
    ends = np.nonzero(np.isnan(values))[0]
    nodes = [i for i, mode in enumerate(modes) if mode == "BRANCH_MEMBER"]
    if len(ends) != len(nodes):
        raise Refusal("membership values for each node with the mode BRANCH_MEMBER", f"{len(ends)} for {len(nodes)}")
    sets = [part[~np.isnan(part)] for part in np.split(values, ends + 1)[: len(nodes)]]
    members = np.full((size, max(map(len, sets), default=0)), np.nan, dtype)
    for i, part in zip(nodes, sets, strict=True):
        members[i, : len(part)] = part
    return members
