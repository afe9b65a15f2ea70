"""The code of a kernel's loops: the carries (values that a loop passes to the next iteration), their memory, and the function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nabla_mlir.passes.iree.internals.executables import binding, executable
from nabla_mlir.passes.iree.kernels.bindings import Position
from nabla_mlir.passes.iree.kernels.graph import Branch, Compound, Loop, Node, Scatter, Sort
from nabla_mlir.passes.iree.kernels.index import ZERO, Affine
from nabla_mlir.passes.iree.kernels.inner_scatters import write_scatter
from nabla_mlir.passes.iree.kernels.inner_sorts import write_sort
from nabla_mlir.passes.iree.kernels.items import Nest, Store
from nabla_mlir.passes.iree.kernels.plan import Planner
from nabla_mlir.passes.iree.kernels.scalars import BYTES
from nabla_mlir.passes.iree.kernels.steps import StepWriter
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
        """The memory that an iteration reads; `copy` is the SSA value of 0 or 1, the number of the current copy."""
        offset = ZERO if self.in_place else Affine(((copy, self.size),))
        return replace(self.memory, offset=offset, floor=level)

    def other(self, copy: str, level: int) -> Buffer:
        """The memory that an iteration writes: the copy that is not current."""
        return replace(self.memory, offset=Affine(((copy, -self.size),), self.size), floor=level)


class Kernel(StepWriter):
    """Writes a kernel that runs a loop."""

    def write(self, name: str, loop: Loop, inputs: Mapping[Node, Position], wanted: Mapping[int, Position]) -> tuple[str, int]:
        """The text of an executable with the function, and the number of bytes of an additional result, its scratch memory.

        Args:
          name: the name of the function.
          loop: the loop that it runs.
          inputs: the captured values of the loop, and their positions in the first bound buffers.
          wanted: the carries that are results, by their index, and their positions in the next bound buffers.

        Raises:
          NotSupported: the loop cannot be written as a kernel.
        """
        for i, node in enumerate(inputs):
            self.values[node] = self._binding(f"%in{i}", node)
        outputs = {i: self._binding(f"%out{i}", loop.results[i]) for i in wanted}
        self.steps(Planner([loop], self.values.__contains__), [], [loop.results[0]], outputs)
        values = self.values
        # The results that the loop did not compute in the memory of their outputs are copied there.
        separate = [i for i, b in outputs.items() if not isinstance(v := values[loop.results[i]], Buffer) or v.name != b.name]
        self.run([], [self.slot(loop.results[i], outputs[i]) for i in separate])
        bound = [(b, position) for n, position in inputs.items() if isinstance(b := self.values[n], Buffer)]
        return self._function(name, bound, [(outputs[i], position) for i, position in wanted.items()])

    def compound(self, compound: Compound, outputs: Mapping[int, Buffer]) -> None:
        """Writes a loop, branch, sort or scatter; `outputs` is memory for some results of a loop, by their index."""
        if isinstance(compound, Loop):
            self._loop(compound, outputs)
        elif isinstance(compound, Branch):
            self._branch(compound)
        elif isinstance(compound, Sort):
            write_sort(self, compound)
        elif isinstance(compound, Scatter):
            write_scatter(self, compound)

    def _loop(self, loop: Loop, outputs: Mapping[int, Buffer]) -> None:
        """Writes a loop; `outputs` is memory for some of its results, by their index.

        Scalar carries and the number of the current copy are values of an `scf.while`; arrays are in memory.
        """
        writer, all_carries = self.writer, range(len(loop.inits))
        scalars = [i for i in all_carries if loop.inits[i].size == 1]
        arrays = [self._array(loop, i, outputs) for i in all_carries if i not in scalars]
        self.run([], [self.slot(loop.inits[a.position], a.memory) for a in arrays], [loop.inits[i] for i in scalars])
        # The last carry tells which copy of the arrays is current.
        first = [*(self.scalar(loop.inits[i]) for i in scalars), writer.number(0)]

        def define(nodes: Sequence[Node], carries: list[Code]) -> str:
            """Makes the carries the values of `nodes`; returns the name of the number of the current copy."""
            *values, copy = carries
            self.values.update((nodes[i], v) for i, v in zip(scalars, values, strict=True))
            writer.ranges[copy.name] = (0, 1)
            self.values.update((nodes[a.position], a.current(copy.name, writer.level)) for a in arrays)
            return copy.name

        def test(carries: list[Code]) -> Code:
            """Writes the condition of the loop; returns its result, an i1."""
            with self.region():
                define(loop.condition.arguments, carries)
                self.run(loop.condition.compounds, [], loop.condition.results)
                return self.scalar(loop.condition.results[0])

        def iterate(carries: list[Code]) -> list[Code]:
            """Writes one iteration; returns the new scalars, and the number of the copy that now is current."""
            with self.region():
                copy = define(loop.body.arguments, carries)
                self._body(loop, [loop.body.results[i] for i in scalars], arrays, copy)
                other = writer.combined("subi", writer.number(1), carries[-1])
                return [*(self.scalar(loop.body.results[i]) for i in scalars), other]

        define(loop.results, writer.repeat_while(first, test, iterate))

    def _branch(self, branch: Branch) -> None:
        """Writes a branch as nested `scf.if`: its arrays are stored by the region that runs, and its scalars are results."""
        writer, results = self.writer, branch.results
        scalars = [i for i, r in enumerate(results) if r.size == 1]
        arrays = {i: self.allocate(r.size, r.dtype) for i, r in enumerate(results) if i not in scalars}
        self.run([], [], branch.inits)
        choice, last = self.scalar(branch.inits[0]), len(branch.branches) - 1

        def region(k: int) -> list[Code]:
            """Writes region k of the branch, which stores the arrays; returns its scalars."""
            inner = branch.branches[k]
            with self.region():
                stores = [self.slot(inner.results[i], memory) for i, memory in arrays.items()]
                self.run(inner.compounds, stores, [inner.results[i] for i in scalars])
                return [self.scalar(inner.results[i]) for i in scalars]

        def from_region(k: int) -> list[Code]:
            """The scalars of region k if the index chooses this region; else the scalars of one of the later regions."""
            if k == last:  # also for an index that is out of range
                return region(k)
            test = choice
            if choice.dtype != "i1":
                number = writer.integer(k, choice.type)
                test = writer.code(f"arith.cmpi eq, {choice.name}, {number} : {choice.type}", (choice,), "i1", 0)
            return writer.choose(test, lambda: region(k), lambda: from_region(k + 1))

        values = from_region(0)
        self.values.update((results[i], v) for i, v in zip(scalars, values, strict=True))
        self.values.update((results[i], memory) for i, memory in arrays.items())

    def _array(self, loop: Loop, position: int, outputs: Mapping[int, Buffer]) -> _Array:
        """The memory of a carry: the given output if it is updated in place, else new memory, for two copies if needed."""
        init, in_place = loop.inits[position], _is_update(loop, position)
        if in_place and position in outputs:
            return _Array(position, init.size, outputs[position], in_place)
        return _Array(position, init.size, self.allocate(init.size * (1 if in_place else 2), init.dtype), in_place)

    def _body(self, loop: Loop, scalars: Sequence[Node], arrays: Sequence[_Array], copy: str) -> None:
        """Writes one iteration of a loop, which computes the new `scalars` and stores the new `arrays`.

        `copy` is the SSA value of the number of the current copy of arrays that are not updated in place. A part of an array whose
        old elements other operations read is computed in scratch memory, and stored last.
        """
        region = loop.body
        planner = Planner(region.compounds, self.values.__contains__)
        stores: list[Store] = []
        last: list[Store] = []
        wanted = [*scalars]
        for array in arrays:
            new = region.results[array.position]
            # The new array is computed into the other copy.
            if not array.in_place:
                target = array.other(copy, self.writer.level)
                if new in self.buffers or new in self.values or any(new in inner.results for inner in region.compounds):
                    stores.append(self.slot(new, target))
                    continue
                if planner.source(new) is None:
                    planner.keep(new)
                self.buffers[new] = target
                wanted.append(new)
            elif _uses(loop, region.arguments[array.position]) == 1:
                # Only the updated part of the array is written, directly.
                stores.append(self.slot(new.operands[1], array.memory, new))
            else:
                part = new.operands[1]
                part = Node("reshape", (part,), part.shape, part.dtype)  # a new node, so that only this copy is in scratch memory
                planner.keep(part)
                wanted.append(part)
                last.append(self.slot(part, array.memory, new))
        starts = [s[0] for store in last for s in store.starts if not isinstance(s, int)]
        before = [*scalars, *starts]
        for step in planner.plan(stores, last, [*wanted, *starts]):
            if isinstance(step, Nest) and any(item in last for item in step.items):
                for node in before:  # read before it is overwritten
                    self.scalar(node)
            self.step(step)

    def _binding(self, name: str, node: Node) -> Buffer:
        """The buffer of an argument of the kernel, for the elements of `node`."""
        self.writer.levels[name] = 0
        return Buffer(name, node.dtype, node.size)

    def _function(self, name: str, inputs: Sequence[Bound], outputs: Sequence[Bound]) -> tuple[str, int]:
        """The text of the executable, and the number of bytes of its scratch memory, which holds the buffers of `spare`.

        `inputs` and `outputs` have the buffers of the arguments, with their positions in the buffers that IREE binds.
        """
        input_count, output_count = (
            1 + max(position.buffer for _, position in bound) if bound else 0 for bound in (inputs, outputs)
        )
        positions = [(b, position.buffer, position.start * BYTES[b.dtype]) for b, position in inputs]
        positions += [(b, input_count + position.buffer, position.start * BYTES[b.dtype]) for b, position in outputs]
        end = 0
        for buffer in self.spare:
            positions.append((buffer, input_count + output_count, end))
            # Buffers in scratch memory begin at multiples of 64 bytes.
            end += -(-buffer.size * BYTES[buffer.dtype] // 64) * 64
        read_only = [True] * input_count + [False] * (output_count + (1 if end else 0))
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
    """The number of uses of a node as an operand or a result in the body of a loop, regions inside it included."""
    seen: set[Node] = set()
    count, work = 0, [loop.body]
    while work:
        region = work.pop()
        nodes = list(region.results)
        count += sum(n is node for n in nodes)
        for inner in region.compounds:
            work += inner.regions
            nodes += inner.inits
            count += sum(n is node for n in inner.inits)
        while nodes:
            n = nodes.pop()
            if n not in seen:
                seen.add(n)
                count += sum(o is node for o in n.operands)
                nodes += n.operands
    return count
