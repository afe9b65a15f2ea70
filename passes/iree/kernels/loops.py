"""The code of a kernel's loops: carries, their memory, and the whole function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from nabla_mlir.passes.iree.internals.executables import binding, executable
from nabla_mlir.passes.iree.kernels.bindings import Position
from nabla_mlir.passes.iree.kernels.code import NestWriter
from nabla_mlir.passes.iree.kernels.graph import Loop, Node
from nabla_mlir.passes.iree.kernels.index import ZERO, Affine
from nabla_mlir.passes.iree.kernels.plan import Nest, Planner, Store, starts_of
from nabla_mlir.passes.iree.kernels.scalars import BYTES
from nabla_mlir.passes.iree.kernels.writer import Buffer, Code

Bound = tuple[Buffer, Position]


@dataclass(frozen=True)
class _Array:
    """A carry in memory: it is updated in place, or stored twice, so that an iteration reads one copy and writes the other."""

    position: int  # its index among the carries
    size: int
    memory: Buffer
    in_place: bool

    def current(self, copy: str, level: int) -> Buffer:
        """The memory that an iteration reads; `copy` is 0 or 1."""
        offset = ZERO if self.in_place else Affine(((copy, self.size),))
        return replace(self.memory, offset=offset, floor=level)

    def other(self, copy: str, level: int) -> Buffer:
        """The memory that an iteration writes."""
        return replace(self.memory, offset=Affine(((copy, -self.size),), self.size), floor=level)


class Kernel(NestWriter):
    """Writes a kernel that runs a loop."""

    def write(self, name: str, loop: Loop, inputs: Mapping[Node, Position], wanted: Mapping[int, Position]) -> tuple[str, int]:
        """The text of an executable with the function, and the bytes of scratch memory that it needs as an additional result.

        Args:
          name: the name of the function.
          loop: the loop that it runs.
          inputs: the captured values of the loop, and their positions in the first bound buffers.
          wanted: the carries that are results, and their positions in the next bound buffers.

        Raises:
          NotSupported: the loop cannot be written as a kernel.
        """
        for i, node in enumerate(inputs):
            self.values[node] = self._binding(f"%in{i}", node)
        outputs = {i: self._binding(f"%out{i}", loop.results[i]) for i in wanted}
        self._steps(Planner([loop], self.values.__contains__), [], [loop.results[0]], outputs)
        values = self.values
        separate = [i for i, b in outputs.items() if not isinstance(v := values[loop.results[i]], Buffer) or v.name != b.name]
        self._run([], [self._slot(loop.results[i], outputs[i]) for i in separate])
        bound = [(b, position) for n, position in inputs.items() if isinstance(b := self.values[n], Buffer)]
        return self._function(name, bound, [(outputs[i], position) for i, position in wanted.items()])

    def loop(self, loop: Loop, outputs: Mapping[int, Buffer]) -> None:
        """Writes a loop; `outputs` is memory for some of its results."""
        writer, all_carries = self.writer, range(len(loop.inits))
        scalars = [i for i in all_carries if loop.inits[i].size == 1]
        arrays = [self._array(loop, i, outputs) for i in all_carries if i not in scalars]
        self._run([], [self._slot(loop.inits[a.position], a.memory) for a in arrays], [loop.inits[i] for i in scalars])
        # The last carry tells which copy of the arrays is current.
        first = [*(self.scalar(loop.inits[i]) for i in scalars), Code(writer.integer(0), "index")]
        test_names, body_names = ([writer.fresh() for _ in first] for _ in range(2))
        result, types = writer.fresh(), ", ".join(c.type for c in first)

        def define(nodes: Sequence[Node], names: Sequence[str]) -> str:
            *values, copy = (writer.named(n, c.dtype) for n, c in zip(names, first, strict=True))
            self.values.update((nodes[i], v) for i, v in zip(scalars, values, strict=True))
            writer.ranges[copy.name] = (0, 1)
            self.values.update((nodes[a.position], a.current(copy.name, writer.level)) for a in arrays)
            return copy.name

        with writer.separate_lines() as before:
            define(loop.condition.arguments, test_names)
            self._run(loop.condition.loops, [], loop.condition.results)
            test = self.scalar(loop.condition.results[0])
            writer.line(f"scf.condition({test.name}) {', '.join(test_names)} : {types}")
        with writer.separate_lines() as after:
            copy = define(loop.body.arguments, body_names)
            self._body(loop, [loop.body.results[i] for i in scalars], arrays, copy)
            one = writer.integer(1)
            other = writer.pure(f"arith.subi {one}, {copy} : index", [one, copy])
            writer.line(f"scf.yield {', '.join([*(self.scalar(loop.body.results[i]).name for i in scalars), other])} : {types}")
        inits = ", ".join(f"{n} = {c.name}" for n, c in zip(test_names, first, strict=True))
        heads = ", ".join(f"{n}: {c.type}" for n, c in zip(body_names, first, strict=True))
        writer.line(f"{result}:{len(first)} = scf.while ({inits}) : ({types}) -> ({types}) {{")
        for line in (*before, "} do {", f"^bb0({heads}):", *after, "}"):
            writer.line(line)
        define(loop.results, [f"{result}#{i}" for i in range(len(first))])

    def _array(self, loop: Loop, position: int, outputs: Mapping[int, Buffer]) -> _Array:
        init, in_place = loop.inits[position], _is_update(loop, position)
        if in_place and position in outputs:
            return _Array(position, init.size, outputs[position], in_place)
        return _Array(position, init.size, self.allocate(init.size * (1 if in_place else 2), init.dtype), in_place)

    def _body(self, loop: Loop, scalars: Sequence[Node], arrays: Sequence[_Array], copy: str) -> None:
        """Writes one iteration. Values that are written in place and also read elsewhere are written last, from scratch memory."""
        region = loop.body
        planner = Planner(region.loops, self.values.__contains__)
        stores: list[Store] = []
        last: list[Store] = []
        wanted = [*scalars]
        for array in arrays:
            new = region.results[array.position]
            if not array.in_place:
                target = array.other(copy, self.writer.level)
                if new in self.buffers or new in self.values or any(new in inner.results for inner in region.loops):
                    stores.append(self._slot(new, target))
                    continue
                if planner.source(new) is None:
                    planner.keep(new)
                self.buffers[new] = target
                wanted.append(new)
            elif _uses(loop, region.arguments[array.position]) == 1:
                stores.append(self._slot(new.operands[1], array.memory, new))
            else:
                part = new.operands[1]
                part = Node("reshape", (part,), part.shape, part.dtype)
                planner.keep(part)
                wanted.append(part)
                last.append(self._slot(part, array.memory, new))
        starts = [s[0] for store in last for s in store.starts if not isinstance(s, int)]
        before = [*scalars, *starts]
        for step in planner.plan(stores, last, [*wanted, *starts]):
            if isinstance(step, Nest) and any(item in last for item in step.items):
                for node in before:  # read before it is overwritten
                    self.scalar(node)
            self._step(step)

    def _run(self, loops: Sequence[Loop], stores: Sequence[Store], wanted: Sequence[Node] = ()) -> None:
        self._steps(Planner(loops, self.values.__contains__), stores, wanted)

    def _steps(
        self,
        planner: Planner,
        stores: Sequence[Store],
        wanted: Sequence[Node],
        outputs: Mapping[int, Buffer] = MappingProxyType({}),
    ) -> None:
        for step in planner.plan(stores, [], wanted):
            self._step(step, outputs)

    def _step(self, step: Nest | Loop, outputs: Mapping[int, Buffer] = MappingProxyType({})) -> None:
        if isinstance(step, Loop):
            self.loop(step, outputs)
        else:
            self.nest(step)

    def _slot(self, source: Node, buffer: Buffer, update: Node | None = None) -> Store:
        """The store of a value to existing memory; for an update, the store of its new part only."""
        target = Node("slot", (), source.shape, source.dtype)
        self.buffers[target] = buffer
        if update is None:
            return Store(source, target, source.shape, [0] * len(source.shape))
        return Store(source, target, update.shape, starts_of(update))

    def _binding(self, name: str, node: Node) -> Buffer:
        self.writer.levels[name] = 0
        return Buffer(name, node.dtype, node.size)

    def _function(self, name: str, inputs: Sequence[Bound], outputs: Sequence[Bound]) -> tuple[str, int]:
        """The text of the function, and the size of its scratch memory."""
        input_count, output_count = (
            1 + max(position.buffer for _, position in bound) if bound else 0 for bound in (inputs, outputs)
        )
        positions = [(b, position.buffer, position.start * BYTES[b.dtype]) for b, position in inputs]
        positions += [(b, input_count + position.buffer, position.start * BYTES[b.dtype]) for b, position in outputs]
        end = 0
        for buffer in self.spare:
            positions.append((buffer, input_count + output_count, end))
            end += -(-buffer.size * BYTES[buffer.dtype] // 64) * 64
        read_only = [True] * input_count + [False] * (output_count + (end > 0))
        lines = []
        for buffer, position, offset in positions:
            start = self.writer.fresh()
            lines.append(f"{start} = arith.constant {offset} : index")
            lines.append(binding(buffer.name, buffer.type, position, start, read_only[position]))
        return executable(name, read_only, [*lines, *self.writer.blocks[0].lines]), end


def _is_update(loop: Loop, i: int) -> bool:
    """True if the carry is updated in place: each iteration replaces a part of it, and nothing else reads the result."""
    new, old = loop.body.results[i], loop.body.arguments[i]
    return new.name == "dynamic_update_slice" and new.operands[0] is old and _uses(loop, new) == 1


def _uses(loop: Loop, node: Node) -> int:
    """The number of uses of a value by operations and results of the body."""
    seen: set[Node] = set()
    count, work = 0, [loop.body]
    while work:
        region = work.pop()
        nodes = list(region.results)
        count += sum(n is node for n in nodes)
        for inner in region.loops:
            work += [inner.condition, inner.body]
            nodes += inner.inits
            count += sum(n is node for n in inner.inits)
        while nodes:
            n = nodes.pop()
            if n not in seen:
                seen.add(n)
                count += sum(o is node for o in n.operands)
                nodes += n.operands
    return count
