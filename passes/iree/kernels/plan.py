"""The plan of a region of a kernel: a list of steps, in the order in which they run.

A step is a loop nest that computes several items (stores and reductions, see items.py), or a compound (an inner loop, branch,
sort or scatter, see graph.py). A value that no step stores in memory is an expression: the steps that read it recompute it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from nabla_mlir.passes.iree.kernels.graph import Branch, Compound, Node, NotSupported, Shape
from nabla_mlir.passes.iree.kernels.index import LANE, ZERO, Affine, Index, NeedsBuffer, Range, origin, reads, symbol
from nabla_mlir.passes.iree.kernels.index import Start as Reading
from nabla_mlir.passes.iree.kernels.items import SHORT, Item, Nest, Reduction, Space, Store, items_of

# A value that one nest needs at more indices than this is materialised first.
_POSITIONS = 4


class Planner:
    """Plans the steps of a region with some `compounds`; `is_known` is True for a node whose value the kernel has already."""

    def __init__(self, compounds: Iterable[Compound], is_known: Callable[[Node], bool]):
        """Notes the compounds of the region, by their results; no value is planned in memory yet."""
        self._is_known = is_known
        self._compounds = {r: compound for compound in compounds for r in compound.results}
        self._items: dict[Node, list[Item]] = {}
        self._reads: dict[tuple[Node, Index], list[tuple[Node, Index]]] = {}

    def plan(self, stores: Sequence[Store], last: Sequence[Store], wanted: Sequence[Node]) -> list[Nest | Compound]:
        """The steps of a plan, in order: they run `stores`, compute the `wanted` values, and run `last` at the end.

        Planning is repeated with one more value in memory until no step needs one.
        """
        while True:
            try:
                steps = _Steps(self)
                for store in stores:
                    steps.add(store)
                for node in wanted:
                    steps.require(node)
                steps.close()
                for store in last:
                    steps.add(store)
            except NeedsBuffer as need:
                self.keep(need.node)
                continue
            repeated = steps.shared()
            if not repeated:
                return steps.steps
            for node in repeated:
                self.keep(node)

    def keep(self, node: Node) -> None:
        """Plans a store of `node` in memory, so that its readers load it instead of recomputing it.

        Raises:
          NotSupported: the node is in memory already, so memory does not help its reader.
        """
        if self._is_known(node) or node in self._items:
            raise NotSupported(f"{node.name} at these indices")
        self._items[node] = list(items_of(node))

    def source(self, node: Node) -> Compound | list[Item] | None:
        """The items that compute a node in memory, or the compound whose result the node is; None if the node is an expression."""
        if node in self._compounds:
            return self._compounds[node]
        if node.name == "reduce" or node.attributes.get("in_memory"):
            self._items.setdefault(node, list(items_of(node)))
        return self._items.get(node)

    def reads(self, node: Node, index: Index, ranges: Mapping[str, Range], start: Reading) -> list[tuple[Node, Index]]:
        """The elements, as pairs of node and index, from which the element of `node` at `index` is computed.

        They are cached unless they depend on `ranges` (of the symbols) or `start` (which makes an index of a dynamic start).
        """
        if node.name in ("dynamic_slice", "gather", "pad", "concatenate"):
            return reads(node, index, ranges, start)
        if (node, index) not in self._reads:
            self._reads[node, index] = reads(node, index, ranges, start)
        return self._reads[node, index]

    def is_known(self, node: Node) -> bool:
        """True if the node has its value before the region runs."""
        return self._is_known(node) and node not in self._compounds


class _Steps:
    """One attempt at a plan: the steps so far, and the nodes that each step computes, with the indices of their elements."""

    def __init__(self, planner: Planner):
        """Starts with no steps, for the planner of a region."""
        self.planner = planner
        self.steps: list[Nest | Compound] = []
        self._done: dict[Node, int] = {}  # the step after which a node exists
        self._seen: list[dict[Node, set[Index]]] = []  # by step
        self._first = 0

    def close(self) -> None:
        """Ends the current nests: later items start new ones."""
        self._first = len(self.steps)

    def require(self, node: Node) -> None:
        """Adds the step that stores `node`; if it is not planned in memory, the steps that store what its first element reads."""
        for need in _visit([(node, origin(node))], self.planner, set())[1]:
            self._provide(need)

    def shared(self) -> list[Node]:
        """The values that should be in memory, because several steps compute them, or one step does so at many indices.

        A value is left out if the same steps compute another such value from it: it is enough to store the latter.
        """
        steps: dict[Node, list[int]] = {}
        for i, seen in enumerate(self._seen):
            for node, positions in seen.items():
                if node.is_work:
                    # A node that is computed at many indices of one step counts twice.
                    steps.setdefault(node, []).extend([i] * (1 if len(positions) <= _POSITIONS else 2))
        repeated = [n for n, numbers in steps.items() if len(numbers) > 1 and n.name != "reduce"]
        inner = {(o, tuple(steps[n])) for n in repeated for o in _parts(n)}
        return [n for n in repeated if (n, tuple(steps[n])) not in inner and not self.planner.source(n)]

    def _provide(self, node: Node) -> int:
        """Adds the steps that compute a node; returns the number of the step after which it exists."""
        if node in self._done:
            return self._done[node]
        source = self.planner.source(node)
        if isinstance(source, Compound):
            for need in _needs(source, self.planner):
                self._provide(need)
            self.steps.append(source)
            self._seen.append({})
            for result in source.results:
                self._done[result] = len(self.steps)
        else:
            assert source is not None
            for item in source:
                # A second piece would overwrite the first.
                self._done[node] = self.add(item, self._done.get(node, 0))
        return self._done[node]

    def add(self, item: Item, earliest: int = 0) -> int:
        """Adds an item to the first nest with the same loops that may run it, else to a new one; returns the step after the nest.

        The nest is not before the step `earliest`, and not before what the item reads is computed.
        """
        is_alone = isinstance(item, Reduction) and item.target.size > 1  # a reduction to several elements has its own nest
        space = None if is_alone else Space.of(item.domain)
        roots = _roots(item)
        seen, needs = _visit(roots, self.planner, {item.target})
        first = max(self._first, earliest)
        for node, positions in needs.items():
            after = self._provide(node)
            # The item may join the nest of `node`, which is step `after - 1`, if an iteration reads only elements that the same
            # iteration computes.
            first = max(first, after - 1 if space and self._computes_elements(node, positions, after - 1, space) else after)
        for i in range(first, len(self.steps)):
            step = self.steps[i]
            if space is not None and isinstance(step, Nest) and step.space is not None and step.space == space:
                step.items.append(item)
                for node, positions in seen.items():
                    self._seen[i].setdefault(node, set()).update(positions)
                return i + 1
        self.steps.append(Nest(space, [item]))
        self._seen.append(seen)
        return len(self.steps)

    def _computes_elements(self, node: Node, positions: set[Index], step: int, space: Space) -> bool:
        """True if each iteration of step number `step` stores those elements of `node` that an iteration of a new item reads.

        `positions` has their indices, and `space` has the loops of the item.
        """
        if step < self._first or not isinstance(nest := self.steps[step], Nest) or nest.space != space:
            return False
        return any(
            isinstance(i, Store) and i.source is i.target is node and positions <= set(_iteration(i.domain)) for i in nest.items
        )


@functools.lru_cache(maxsize=1024)
def _iteration(domain: Shape) -> list[Index]:
    """The indices of the elements of a tensor of shape `domain` that one iteration computes, by symbols d0, d1, ... of loops.

    For a matrix it is one index, (d0, d1 + the lane of the vector).
    """
    space = Space.of(domain)
    loops = [symbol(f"d{i}") for i in range(len(space.loops))]
    if loops:
        loops[-1] = loops[-1] + symbol(LANE)
    return space.indices(domain, loops)


def _roots(item: Item) -> list[tuple[Node, Index]]:
    """The elements that an item of a plan computes first, as pairs of node and index; the planner goes on to their operands."""
    if isinstance(item, Store):
        starts = [(s[0], origin(s[0])) for s in item.starts if not isinstance(s, int)]
        return [*starts, *((item.source, index) for index in _iteration(item.domain))]
    if item.target.size == 1:
        indices = _iteration(item.domain)
    else:
        indices = [tuple(symbol(f"d{i}") if n > 1 else ZERO for i, n in enumerate(item.domain))]
    return [*((item.source, index) for index in indices), (item.target.operands[1], origin(item.target.operands[1]))]


def _visit(
    roots: Sequence[tuple[Node, Index]], planner: Planner, targets: set[Node]
) -> tuple[dict[Node, set[Index]], dict[Node, set[Index]]]:
    """Two dictionaries from nodes to indices: the elements that a loop nest computes, and the elements that it reads from memory.

    Args:
      roots: the elements that the nest computes first, as pairs of node and index; their operands follow.
      planner: knows which nodes are in memory.
      targets: the nodes that the loop nest itself stores.
    """
    ranges: dict[str, Range] = {LANE: (0, 0)}
    seen: dict[Node, set[Index]] = {}
    needs: dict[Node, set[Index]] = {}
    work = list(roots)

    def start(indices: Node, positions: int, index: Index) -> Affine:
        """A symbol for a dynamic start index in 0 ... positions - 1, whose scalar is visited, too; 0 for one position."""
        if positions == 1:
            return ZERO
        work.append((indices, index or origin(indices)))
        name = f"start{id(indices)}.{positions}.{index}"
        ranges[name] = (0, positions - 1)
        return symbol(name)

    for _, index in roots:
        for position in index:
            for name, _ in position.terms:
                ranges.setdefault(name, (0, 0))
    ranges.update(_ranges(roots))
    while work:
        node, index = work.pop()
        if planner.is_known(node):
            continue
        if node not in targets and planner.source(node) is not None:
            needs.setdefault(node, set()).add(index)
            continue
        if index in seen.setdefault(node, set()):
            continue
        seen[node].add(index)
        if _is_read_often(node) and planner.source(node.operands[0]) is None and not planner.is_known(node.operands[0]):
            raise NeedsBuffer(node.operands[0])
        try:
            work += planner.reads(node, index, ranges, start)
        except NeedsBuffer as need:
            if need.node is node:
                raise
            if not planner.is_known(need.node):
                if planner.source(need.node) is None:
                    raise
                # The whole node is read, so no single index is noted.
                needs.setdefault(need.node, set()).add(())
    return seen, needs


def _is_read_often(node: Node) -> bool:
    """True for a broadcast of a computed value that is read many times; a few reads are enough for a costly function."""
    if node.name != "broadcast_in_dim" or not node.operands[0].is_work:
        return False
    return node.size > node.operands[0].size * (1 if node.operands[0].is_costly else SHORT)


def _ranges(roots: Sequence[tuple[Node, Index]]) -> dict[str, Range]:
    """The range of each loop symbol in the indices of `roots` (pairs of node and index), from the sizes of the dimensions."""
    ranges: dict[str, Range] = {}
    for node, index in roots:
        for position, n in zip(index, node.shape, strict=True):
            for name, _ in position.terms:
                if name != LANE:
                    ranges[name] = (0, n - 1)
    return ranges


def _parts(node: Node) -> Iterable[Node]:
    """The nearest computed nodes (`is_work`) from which `node` is computed; slices, reshapes and the like are skipped."""
    work = list(node.operands)
    while work:
        if (part := work.pop()).is_work:
            yield part
        elif part.size > 1 and part.from_memory:
            work += part.operands


def _needs(compound: Compound, planner: Planner) -> list[Node]:
    """The nodes that must be in memory before a compound runs: its operands, and values that its regions only read."""
    outer: dict[Node, None] = {}
    inside = set(compound.results)
    work = []

    def enter(inner: Compound) -> None:
        """Collects the results of the regions of a compound, and the values that are defined inside, at any depth."""
        for region in inner.regions:
            inside.update(region.arguments)
            work.extend(region.results)
            for deeper in region.compounds:
                inside.update(deeper.results)
                work.extend(deeper.inits)
                enter(deeper)

    enter(compound)
    # A region of a branch may not run, so its own nodes are not computed before.
    local = [region.numbers for region in compound.regions] if isinstance(compound, Branch) else []
    varying: dict[Node, bool] = {}
    for root in work:
        _mark(root, inside, local, varying)
    for node, varies in varying.items():
        if varies:
            outer.update((o, None) for o in node.operands if not varying[o])
    outer.update((n, None) for n in work if not varying[n])
    frontier = [*outer, *compound.inits]
    needs: dict[Node, None] = {}
    seen: set[Node] = set()
    while frontier:
        node = frontier.pop()
        if node in seen or planner.is_known(node):
            continue
        seen.add(node)
        if planner.source(node) is None and not node.is_work:
            frontier += node.operands
            continue
        if planner.source(node) is None:
            planner.keep(node)
        needs[node] = None
    return list(needs)


def _mark(root: Node, inside: set[Node], local: Sequence[range], varying: dict[Node, bool]) -> None:
    """Sets `varying` for `root` and all nodes from which it is computed.

    A node varies if it is one of the nodes `inside`, if its number is in one of the ranges `local`, or if an operand varies.
    """
    work = [root]
    while work:
        node = work[-1]
        unvisited = [] if node in varying or node in inside else [o for o in node.operands if o not in varying]
        if unvisited:
            work += unvisited
            continue
        if node not in varying:
            is_local = any(node.number in numbers for numbers in local)
            varying[node] = is_local or node in inside or any(varying[o] for o in node.operands)
        work.pop()
