"""The code of a kernel's loops: what is carried, where it lies, and the whole function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from nabla_mlir.passes.kernel_code import NestWriter
from nabla_mlir.passes.kernel_graph import Loop, Node, NotSupported, Region
from nabla_mlir.passes.kernel_index import ZERO, Affine
from nabla_mlir.passes.kernel_plan import Planner, Store, starts_of
from nabla_mlir.passes.kernel_scalars import BYTES
from nabla_mlir.passes.kernel_writer import Buffer, Code

MAX_BINDINGS = 30


class Kernel(NestWriter):
    """Writes a kernel that runs a loop."""

    def write(self, name: str, loop: Loop, inputs: Sequence[Node], wanted: Sequence[int]) -> tuple[str, int]:
        """The text of an executable with the function, and the bytes of memory that it needs as a last result.

        The other results are the wanted carries.

        Raises:
          NotSupported: it cannot be written.
        """
        for i, node in enumerate(inputs):
            self.values[node] = self._binding(f"%in{i}", node)
        outputs = {i: self._binding(f"%out{i}", loop.results[i]) for i in wanted}
        self._steps(Planner([loop], self.values.__contains__), [], [], [loop.results[0]], outputs)
        found = self.values
        apart = [
            i for i, b in outputs.items() if not isinstance(v := found[loop.results[i]], Buffer) or v.name != b.name
        ]
        self._run([], [self._slot(loop.results[i], outputs[i]) for i in apart])
        if len(inputs) + len(outputs) >= MAX_BINDINGS:
            raise NotSupported("more than 30 buffers")
        bound = [b for n in inputs if isinstance(b := self.values[n], Buffer)]
        return self._function(name, bound, list(outputs.values()))

    def loop(self, loop: Loop, outputs: Mapping[int, Buffer]) -> None:
        """Writes a loop; `outputs` are memory for some of its results."""
        writer = self.writer
        scalars = [i for i, n in enumerate(loop.inits) if n.size == 1]
        in_place = {i for i in range(len(loop.inits)) if i not in scalars and _is_update(loop, i)}
        arrays = [i for i in range(len(loop.inits)) if i not in scalars]
        memory = {}
        for i in arrays:
            node = loop.inits[i]
            memory[i] = outputs.get(i) if i in in_place else None
            memory[i] = memory[i] or self.allocate(node.size * (1 if i in in_place else 2), node.dtype)
        self._run([], [self._slot(loop.inits[i], memory[i]) for i in arrays], [loop.inits[i] for i in scalars])
        first = [self.scalar(loop.inits[i]) for i in scalars]
        # All other arrays lie twice in memory: an iteration reads one copy and writes the other.
        first.append(writer.named(writer.integer(0), "index"))
        types = ", ".join(c.type for c in first)
        names = [[writer.fresh() for _ in first] for _ in range(2)]
        result = writer.fresh()

        def enter(region: Region, names: list[str]) -> Code:
            carried = [writer.named(n, c.dtype) for n, c in zip(names, first, strict=True)]
            for i, code in zip(scalars, carried, strict=False):
                self.values[region.arguments[i]] = code
            writer.ranges[names[-1]] = (0, 1)
            for i in arrays:
                self.values[region.arguments[i]] = self._copy(loop.inits[i], memory[i], i in in_place, names[-1])
            return carried[-1]

        inits = ", ".join(f"{n} = {c.name}" for n, c in zip(names[0], first, strict=True))
        with writer.apart() as before:
            enter(loop.condition, names[0])
            self._run(loop.condition.loops, [], loop.condition.results)
            test = self.scalar(loop.condition.results[0])
            writer.line(f"scf.condition({test.name}) {', '.join(names[0])} : {types}")
        head = ", ".join(f"{n}: {c.type}" for n, c in zip(names[1], first, strict=True))
        with writer.apart() as after:
            parity = enter(loop.body, names[1])
            self._body(loop, scalars, arrays, in_place, memory, parity)
            one = writer.integer(1)
            other = writer.pure(f"arith.subi {one}, {parity.name} : index", [one, parity.name])
            new = [*(self.scalar(loop.body.results[i]).name for i in scalars), other]
            writer.line(f"scf.yield {', '.join(new)} : {types}")
        lines = [f"{result}:{len(first)} = scf.while ({inits}) : ({types}) -> ({types}) {{", *before, "} do {"]
        for line in (*lines, f"^bb0({head}):", *after, "}"):
            writer.line(line)
        for place, i in enumerate(scalars):
            self.values[loop.results[i]] = writer.named(f"{result}#{place}", loop.inits[i].dtype)
        last = writer.named(f"{result}#{len(scalars)}", "index").name
        writer.ranges[last] = (0, 1)
        for i in arrays:
            self.values[loop.results[i]] = self._copy(loop.inits[i], memory[i], i in in_place, last)

    def _body(
        self,
        loop: Loop,
        scalars: list[int],
        arrays: list[int],
        in_place: set[int],
        memory: dict[int, Buffer],
        parity: Code,
    ) -> None:
        region = loop.body
        planner = Planner(region.loops, self.values.__contains__)
        stores, last, wanted = [], [], [region.results[i] for i in scalars]
        for i in arrays:
            new = region.results[i]
            if i in in_place:
                update = new.operands[1]
                is_read = _uses(loop, region.arguments[i]) > 1
                if is_read:
                    update = Node("reshape", (update,), update.shape, update.dtype)
                    planner.keep(update)
                    wanted.append(update)
                slot = self._slot(update, memory[i], new.shape, starts_of(new))
                (last if is_read else stores).append(slot)
                continue
            target = self._other_copy(loop.inits[i], memory[i], parity)
            if new in self.buffers or new in self.values or any(new in inner.results for inner in region.loops):
                stores.append(self._slot(new, target))
                continue
            if planner.source(new) is None:
                planner.keep(new)
            self.buffers[new] = target
            wanted.append(new)
        self._steps(planner, stores, last, wanted)

    def _run(self, loops: Sequence[Loop], stores: Sequence[Store], wanted: Sequence[Node] = ()) -> None:
        self._steps(Planner(loops, self.values.__contains__), stores, [], wanted)

    def _steps(
        self, planner: Planner, stores: Sequence[Store], last: Sequence[Store], wanted: Sequence[Node],
        outputs: Mapping[int, Buffer] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        for step in planner.plan(stores, last, wanted):
            if isinstance(step, Loop):
                self.loop(step, outputs)
            else:
                self.nest(step)

    def _slot(self, source: Node, buffer: Buffer, whole: tuple[int, ...] = (), starts: Sequence = ()) -> Store:
        """The store of a value in memory that is there."""
        target = Node("slot", (), source.shape, source.dtype)
        self.buffers[target] = buffer
        return Store(source, target, whole or source.shape, starts or [0] * len(source.shape))

    def _copy(self, node: Node, memory: Buffer, in_place: bool, parity: str) -> Buffer:
        offset = ZERO if in_place else Affine(((parity, node.size),))
        return Buffer(memory.name, memory.dtype, memory.size, offset, self.writer.level)

    def _other_copy(self, node: Node, memory: Buffer, parity: Code) -> Buffer:
        offset = Affine(((parity.name, -node.size),), node.size)
        return Buffer(memory.name, memory.dtype, memory.size, offset, self.writer.level)

    def _binding(self, name: str, node: Node) -> Buffer:
        self.writer.levels[name] = 0
        return Buffer(name, node.dtype, node.size)

    def _function(self, name: str, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> tuple[str, int]:
        places, end = [], 0
        for buffer in self.spare:
            places.append((buffer, len(inputs) + len(outputs), end))
            end += -(-buffer.size * BYTES[buffer.dtype] // 64) * 64
        flags = [", ReadOnly"] * len(inputs) + [""] * (len(outputs) + (end > 0))
        kinds = ", ".join(f"#hal.pipeline.binding<storage_buffer{flag}>" for flag in flags)
        lines = []
        for buffer, binding, offset in [*((b, i, 0) for i, b in enumerate((*inputs, *outputs))), *places]:
            flag = " flags(ReadOnly)" if binding < len(inputs) else ""
            start = self.writer.fresh()
            lines.append(f"{start} = arith.constant {offset} : index")
            memory = f"hal.interface.binding.subspan layout(#layout) binding({binding}) offset({start}){flag}"
            lines.append(f"{buffer.name} = {memory} : {buffer.type}")
        lines += self.writer.blocks[0].lines
        return _EXECUTABLE.format(name=name, kinds=kinds, lines="\n".join(f"      {line}" for line in lines)), end


_EXECUTABLE = """#layout = #hal.pipeline.layout<bindings = [{kinds}]>
hal.executable.source private @{name} {{
  hal.executable.export public @{name} ordinal(0) layout(#layout) count(%d: !hal.device) -> (index, index, index) {{
    %one = arith.constant 1 : index
    hal.return %one, %one, %one : index, index, index
  }}
  builtin.module {{
    func.func @{name}() attributes {{translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<Default>>}} {{
{lines}
      return
    }}
  }}
}}
"""


def _is_update(loop: Loop, i: int) -> bool:
    """True if the carry is written in place: a part of it is new in each iteration, and nothing reads the result."""
    new, old = loop.body.results[i], loop.body.arguments[i]
    return new.name == "dynamic_update_slice" and new.operands[0] is old and _uses(loop, new) == 1


def _uses(loop: Loop, node: Node) -> int:
    """How many operations of the body, and results, use a value."""
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
