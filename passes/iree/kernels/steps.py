"""The code of a plan: loop nests and compounds, in order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from nabla_mlir.passes.iree.kernels.code import NestWriter
from nabla_mlir.passes.iree.kernels.graph import Compound, Node
from nabla_mlir.passes.iree.kernels.items import Nest, Store, starts_of
from nabla_mlir.passes.iree.kernels.plan import Planner
from nabla_mlir.passes.iree.kernels.writer import Buffer


class StepWriter(NestWriter):
    """Writes the steps of a plan."""

    @abstractmethod
    def compound(self, compound: Compound, outputs: Mapping[int, Buffer]) -> None:
        """Writes a compound; afterwards the values of its results are known. `outputs` is memory for some of them."""

    @contextmanager
    def region(self) -> Iterator[None]:
        """A context for the code of a region, which may not run: values that it has computed are unknown again after it."""
        before = dict(self.values)
        yield
        self.values.clear()
        self.values.update(before)

    def run(self, compounds: Sequence[Compound], stores: Sequence[Store], wanted: Sequence[Node] = ()) -> None:
        """Writes code that runs `compounds` and `stores` (to memory), and that computes the nodes `wanted`, in a planned order."""
        self.steps(Planner(compounds, self.values.__contains__), stores, wanted)

    def steps(
        self,
        planner: Planner,
        stores: Sequence[Store],
        wanted: Sequence[Node],
        outputs: Mapping[int, Buffer] = MappingProxyType({}),
    ) -> None:
        """Writes the steps of `planner` that run `stores` and compute the nodes `wanted`.

        `outputs` is memory for some results of a compound, by their index.
        """
        for step in planner.plan(stores, [], wanted):
            self.step(step, outputs)

    def step(self, step: Nest | Compound, outputs: Mapping[int, Buffer] = MappingProxyType({})) -> None:
        """Writes a nest or a compound; `outputs` is memory for some results of a compound, by their index."""
        if isinstance(step, Compound):
            self.compound(step, outputs)
        else:
            self.nest(step)

    def slot(self, source: Node, buffer: Buffer, update: Node | None = None) -> Store:
        """The store of the node `source` to the memory `buffer`; with the dynamic_update_slice `update`, only of its new part."""
        target = Node("slot", (), source.shape, source.dtype)
        self.buffers[target] = buffer
        if update is None:
            return Store(source, target, source.shape, [0] * len(source.shape))
        return Store(source, target, update.shape, starts_of(update))
