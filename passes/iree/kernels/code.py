"""The code of a kernel's expressions and loop nests.

The innermost loop of a nest runs over whole vectors. The elements that do not fill a vector, the tail, follow as a shorter vector.
A sum therefore has one or two carries: a vector of partial sums, and a scalar for the tail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nabla_mlir.base import thresholds
from nabla_mlir.passes.iree.kernels.graph import Node
from nabla_mlir.passes.iree.kernels.index import (
    LANE,
    ZERO,
    Affine,
    Index,
    NeedsBuffer,
    at_lane,
    lanes_choose,
    linear,
    origin,
    reads,
    symbol,
)
from nabla_mlir.passes.iree.kernels.items import Nest, Reduction, Store
from nabla_mlir.passes.iree.kernels.scalars import (
    BYTES,
    DIRECTIONS,
    ELEMENTWISE,
    VECTOR_COMBINATIONS,
    conversion,
    kind_of,
    literal,
    neutral,
)
from nabla_mlir.passes.iree.kernels.writer import Buffer, Code, Writer, vector_type

# body(loops, lanes, sums) writes one iteration, at the given loop indices; returns the updated sums.
Body = Callable[[list[Affine], int, list[Code]], list[Code]]
Point = tuple[dict[int, Affine], int]  # an element of a result: its index along each dimension, and its lanes

_REGISTERS = {64: 16, 32: 8, 16: 8}  # registers for sums, by their size in bytes: half of all registers
_STACK_BYTES = 16384  # IREE's limit is 32768


class NestWriter:
    """Writes expressions and loop nests.

    `values` has the nodes that are computed: in memory, or as a scalar. `spare` has the buffers that are too large for the stack.
    """

    def __init__(self, vector_bytes: int):
        self.writer: Writer = Writer()
        self.values: dict[Node, Buffer | Code] = {}
        self.buffers: dict[Node, Buffer] = {}  # buffers of values that get memory before they are computed
        self.spare: list[Buffer] = []
        self._vector_bytes = vector_bytes
        self._stack = 0

    def allocate(self, size: int, dtype: str) -> Buffer:
        """A new buffer of `size` elements that lives for the whole kernel: on the stack, or in `spare` if the stack is full."""
        name = f"%m{len(self.writer.levels)}"
        self.writer.levels[name] = 0
        buffer = Buffer(name, dtype, size, ZERO, self.writer.level)
        if self._stack + size * BYTES[dtype] > _STACK_BYTES:
            self.spare.append(buffer)
            return buffer
        self._stack += size * BYTES[dtype]
        self.writer.blocks[0].lines.append(f"{name} = memref.alloca() : {buffer.type}")
        return buffer

    # Expressions.

    def at(self, node: Node, index: Index, lanes: int) -> Code:
        """The element of `node` at `index` as an SSA value (`lanes` 0), or a vector of `lanes` elements; a scalar if all are equal.

        Operands are computed first, from a stack instead of by recursion, because expressions may be deep.
        """
        self.writer.ranges[LANE] = (0, max(lanes, 1) - 1)
        work = [(node, index)]
        while work:
            current, position = work[-1]
            if self._known(current, position, lanes) is None:
                value = self.values.get(current)
                if isinstance(value, Buffer):
                    self._remember(current, position, lanes, self._load(current, linear(position, current.shape), lanes))
                elif value is None:
                    # If each lane reads from another operand, such as at the border of a concatenation, lanes are computed one by
                    # one.
                    of_lanes = [(current, at_lane(position, k)) for k in range(lanes)] if lanes_choose(current, position) else []
                    try:
                        sources = of_lanes or reads(current, position, self.writer.ranges, self._start)
                    except NeedsBuffer as need:
                        # A reshape uses the same memory with other sizes.
                        self._remember(current, position, lanes, self._load(need.node, linear(position, current.shape), lanes))
                        continue
                    codes = [self._known(n, i, lanes) for n, i in sources]
                    missing = [s for s, c in zip(sources, codes, strict=True) if c is None]
                    if missing:
                        work += missing
                        continue
                    found = [c for c in codes if c]
                    element = self.writer.joined(found) if of_lanes else self._compute(current, position, lanes, found)
                    self._remember(current, position, lanes, element)
            work.pop()
        code = self._known(node, index, lanes)
        assert code is not None
        return code

    def scalar(self, node: Node) -> Code:
        """The only element of `node`."""
        return self.at(node, origin(node), 0)

    def _load(self, node: Node, position: Affine, lanes: int) -> Code:
        buffer = self.values[node]
        assert isinstance(buffer, Buffer)
        return self.writer.load(buffer, position, lanes)

    def _key(self, node: Node, index: Index, lanes: int) -> object:
        """The key of an element in the `memo` of a block; the number of lanes matters only if the index differs between lanes."""
        return node, index, lanes if any(i.lane for i in index) else 0

    def _known(self, node: Node, index: Index, lanes: int) -> Code | None:
        """The SSA value of the element if the current block or an outer one has computed the element; else None."""
        value = self.values.get(node)
        if isinstance(value, Code):
            return value
        key = self._key(node, index, lanes)
        return next((b.memo[key] for b in self.writer.blocks if key in b.memo), None)

    def _remember(self, node: Node, index: Index, lanes: int, code: Code) -> None:
        """Records in the `memo` of the block that defines `code` that `code` is the element of `node` at `index`."""
        self.writer.blocks[self.writer.levels[code.name]].memo[self._key(node, index, lanes)] = code

    def _start(self, indices: Node, positions: int, index: Index = ()) -> Affine:
        """The start of a dynamic slice: the element of `indices` at `index` (by default the first), in 0 ... positions - 1."""
        return ZERO if positions == 1 else self.writer.clamped(self.at(indices, index or origin(indices), 0), positions)

    def _compute(self, node: Node, index: Index, lanes: int, operands: list[Code]) -> Code:
        """The element of `node` at `index` as an SSA value; `operands` has the elements from which it is computed."""
        if node.name == "constant":
            return self._constant(literal(node.attributes["value"], node.dtype), node.dtype)
        if node.name == "iota":
            return self._iota(index[node.attributes["iota_dimension"]], node.dtype, lanes)
        if node.name not in ELEMENTWISE and node.name not in ("convert", "bitcast_convert"):
            return operands[0]
        return self.apply(node.name, operands, node.dtype, node.attributes.get("direction", ""))

    def apply(self, name: str, operands: Sequence[Code], dtype: str, direction: str = "") -> Code:
        """The result of an elementwise operation of StableHLO; operands are broadcast to the largest number of lanes first.

        `direction` is that of a comparison, such as LT.
        """
        lanes = max(c.lanes for c in operands)
        operands = [self.writer.widened(c, lanes) for c in operands]
        source, result = operands[-1].type, vector_type(dtype, lanes)
        names = [c.name for c in operands]
        if name == "convert":
            operation = conversion(operands[0].dtype, dtype)
            if not operation:
                return Code(names[0], dtype, lanes)
            text = f"{operation} {names[0]} : {source} to {result}"
        elif name == "bitcast_convert":
            if source == result:
                return Code(names[0], dtype, lanes)
            text = f"arith.bitcast {names[0]} : {source} to {result}"
        else:
            kind = operands[-1].dtype
            operation = DIRECTIONS[kind[0]][direction] if direction else ""
            types = f"{operands[0].type}, {source}" if name == "select" and lanes else source
            text = ELEMENTWISE[name].text(kind).format(*names, t=types, d=operation)
        return self.writer.code(text, operands, dtype, lanes)

    def _constant(self, text: str, dtype: str) -> Code:
        """A scalar constant, from its literal."""
        kind = "" if dtype == "i1" else f" : {vector_type(dtype, 0)}"
        return self.writer.code(f"arith.constant {text}{kind}", (), dtype, 0)

    def _iota(self, position: Affine, dtype: str, lanes: int) -> Code:
        """The index `position` as a number of `dtype`; a vector if it differs between lanes."""
        kind = dtype if dtype[0] in "iu" else "i32"
        base = self.writer.index(position.scalar())
        code = Code(self.writer.pure(f"arith.index_cast {base} : index to {vector_type(kind, 0)}", [base]), kind)
        # Lane k has the index base + position.lane * k.
        if position.lane:
            steps = [position.lane * k for k in range(lanes)]
            vector = vector_type(kind, lanes)
            offsets = self.writer.code(f"arith.constant dense<{steps}> : {vector}", (), kind, lanes)
            code = self.apply("add", (code, offsets), kind)
        return code if kind == dtype else self.apply("convert", (code,), dtype)

    # Loop nests.

    def nest(self, nest: Nest) -> None:
        """Writes a loop nest of a plan; afterwards the values of its items are known.

        For example, ``y = x + 1`` and ``s = sum(y * y)`` over 100 elements with vectors of 8 become a loop over 12
        vectors, which stores y and carries a vector of partial sums; the remaining 4 elements have a separate scalar
        sum.
        """
        if nest.space is None:
            self._reduce(nest.items[0].target)
            return
        space, sizes = nest.space, nest.space.loops
        for item in nest.items:
            if isinstance(item, Store):
                self._buffer(item.target)
        sums = [item.target for item in nest.items if isinstance(item, Reduction)]
        lanes = min(self._lanes(item.source, sizes[-1]) for item in nest.items) if sizes else 0
        has_tail = bool(sizes) and sizes[-1] % lanes > 0
        each = 2 if has_tail else 1  # the number of carries of a sum

        def body(loops: list[Affine], width: int, carried: list[Code]) -> list[Code]:
            """Writes one iteration of all items, with vectors of `width` elements; returns the new sums."""
            totals = list(carried)
            for item in nest.items:
                positions = space.indices(item.domain, loops)
                if isinstance(item, Store):
                    self._store(item, positions, width)
                    continue
                slot = sums.index(item.target) * each
                for position in positions:
                    totals[slot : slot + each] = self._accumulate(item.target, position, width, totals[slot : slot + each])
            return totals

        starts = [c for t in sums for c in self._begin(t, lanes, has_tail)]
        totals = self._each(sizes, lanes, [], starts, body)
        for i, target in enumerate(sums):
            self.values[target] = self._end(target, totals[i * each : (i + 1) * each], 0)
        for item in nest.items:
            if isinstance(item, Store):
                self.values[item.target] = self.buffers[item.target]

    def _lanes(self, node: Node, length: int) -> int:
        """The number of elements of a vector; types narrower than 4 bytes use as many lanes as 4-byte types."""
        return min(length, self._vector_bytes // max(4, BYTES[node.dtype]))

    def _buffer(self, node: Node) -> Buffer:
        if node not in self.buffers:
            self.buffers[node] = self.allocate(node.size, node.dtype)
        return self.buffers[node]

    def _store(self, item: Store, positions: Sequence[Index], lanes: int) -> None:
        """Writes a store of the elements of its source at `positions`; each is a vector of `lanes` elements, or a scalar for 0."""
        offsets = [Affine((), s) if isinstance(s, int) else self._start(*s) for s in item.starts]
        values = [self.at(item.source, position, lanes) for position in positions]
        steps = item.strides or [1] * len(offsets)
        targets = [linear([s + i * n for s, i, n in zip(offsets, p, steps, strict=True)], item.whole) for p in positions]
        self.writer.store(self.buffers[item.target], targets, values, lanes)

    def _each(self, sizes: Sequence[int], lanes: int, loops: list[Affine], carried: list[Code], body: Body) -> list[Code]:
        """The last carried values of nested loops of these sizes; the innermost one runs over vectors, and its tail follows.

        `loops` has the indices of outer loops.
        """
        if not sizes:
            return body(loops, 0, carried)  # 0 lanes: scalars
        size, *inner_sizes = sizes
        if inner_sizes:
            return self._repeat(size, 1, 1, carried, lambda i, c: self._each(inner_sizes, lanes, [*loops, i], c, body))
        carried = self._repeat(
            size // lanes, lanes, thresholds.UNROLLED, carried, lambda i, c: body([*loops, i + symbol(LANE)], lanes, c)
        )
        if tail := size % lanes:
            with self.writer.block(None):
                carried = body([*loops, symbol(LANE) + (size - tail)], tail, carried)
        return carried

    def _repeat(
        self, count: int, step: int, limit: int, carried: list[Code], body: Callable[[Affine, list[Code]], list[Code]]
    ) -> list[Code]:
        """The last carried values of a loop at 0, step, ..., (count - 1) * step, which is unrolled up to `limit` iterations."""
        if count > limit:
            return self.writer.loop(count, step, carried, body)
        for i in range(count):
            with self.writer.block(None):
                carried = body(Affine((), i * step), carried)
        return carried

    # Reductions.

    def _begin(self, target: Node, lanes: int, has_tail: bool) -> list[Code]:
        """The initial values of the sums of a reduction: a vector of neutral elements, and a scalar for a tail, if there is any."""
        start = self._constant(neutral(target.attributes["combine"], target.dtype), target.dtype)
        return [self.writer.widened(start, lanes) if lanes else start, *([start] if has_tail else [])]

    def _accumulate(self, target: Node, position: Index, lanes: int, sums: list[Code]) -> list[Code]:
        """The sums after adding the operand's elements at `position`: `lanes` elements, or one for 0."""
        if lanes == sums[0].lanes:
            return [self._add(target, position, lanes, sums[0]), *sums[1:]]
        element = self.writer.widened(self.at(target.operands[0], position, lanes), lanes)
        return [sums[0], self.apply(target.attributes["combine"], (sums[1], self._within(target, element)), target.dtype)]

    def _add(self, target: Node, position: Index, lanes: int, total: Code) -> Code:
        """`total` combined with the operand's element at index `position`; a sum of products uses fused multiply-add."""
        source, combine = target.operands[0], target.attributes["combine"]
        if source.name != "multiply" or source in self.values or combine != "add" or source.dtype[0] != "f":
            return self.apply(combine, (total, self.at(source, position, lanes)), target.dtype)
        factors = [self.writer.widened(self.at(n, position, lanes), total.lanes) for n in source.operands]
        names = ", ".join(c.name for c in (*factors, total))
        operation = "vector.fma" if total.lanes else "math.fma"
        return self.writer.code(f"{operation} {names} : {total.type}", (*factors, total), total.dtype, total.lanes)

    def _within(self, target: Node, vector: Code) -> Code:
        """The scalar that combines all lanes of a vector, in any order, by the operation of the reduction."""
        kind = kind_of(vector.dtype)
        combination = VECTOR_COMBINATIONS[target.attributes["combine"]][kind]
        order = " fastmath<reassoc>" if kind == "f" and combination in ("add", "mul") else ""
        text = f"vector.reduction <{combination}>, {vector.name}{order} : {vector.type} into {vector_type(vector.dtype, 0)}"
        return self.writer.code(text, (vector,), vector.dtype, 0)

    def _end(self, target: Node, sums: Sequence[Code], lanes: int) -> Code:
        """The result of a reduction: its sums and its initial value, combined.

        The lanes of the first sum are combined, too, if `lanes` is 0; otherwise each lane is a separate result.
        """
        combine = target.attributes["combine"]
        total = self._within(target, sums[0]) if sums[0].lanes and not lanes else sums[0]
        for operand in (*sums[1:], self.scalar(target.operands[1])):
            total = self.apply(combine, (total, operand), target.dtype)
        return total

    def _reduce(self, target: Node) -> None:
        """Writes a reduction with several results as loops over tiles of the result, with inner loops over the reduced dimensions.

        For example, the product of 6x30 and 30x40 with vectors of 8 is a loop over tiles of some rows and some vectors of columns,
        whose sums are in registers; an inner loop over the 30 terms adds to each. Smaller tiles at the borders are written once
        each.
        """
        shape = target.operands[0].shape
        long = [d for d, n in enumerate(shape) if n > 1]
        inner = [d for d in long if d in target.attributes["dimensions"]]
        lane = target.attributes.get("lane")  # the dimension of vectors
        lane = long[-1] if lane is None else lane
        lanes = self._lanes(target.operands[0], shape[lane])
        self._buffer(target)
        outer = [d for d in long if d not in inner and d != lane]
        rows = min(thresholds.SUMMED_ROWS, shape[outer[-1]]) if outer else 1

        def over_positions(dimensions: list[int], points: list[Point]) -> None:
            """Writes loops over these dimensions of the result; `points` has the elements of a tile along earlier dimensions."""
            if not dimensions:
                self._sum(target, points, inner, lane, lanes)
                return
            d, *more = dimensions
            width, length = (
                (lanes, max(_REGISTERS[self._vector_bytes] // rows, 1)) if d == lane else (1, rows if d == outer[-1] else 1)
            )
            vector = symbol(LANE) if d == lane else ZERO
            tiles, left = divmod(shape[d], width * length)

            def tile(first: Affine, carried: list[Code]) -> list[Code]:  # writes one tile, from index `first` on; carries nothing
                positions = [first + k * width + vector for k in range(length)]
                over_positions(more, [(p | {d: position}, width if d == lane else w) for p, w in points for position in positions])
                return carried

            self._repeat(tiles, width * length, 1, [], tile)
            if left:
                ends = [(low, min(width, shape[d] - low)) for low in range(tiles * width * length, shape[d], width)]
                with self.writer.block(None):
                    over_positions(more, [(p | {d: vector + low}, n if d == lane else w) for p, w in points for low, n in ends])

        over_positions(outer if lane in inner else [*outer, lane], [({}, 0)])
        self.values[target] = self.buffers[target]

    def _sum(self, target: Node, points: Sequence[Point], inner: list[int], lane: int, lanes: int) -> None:
        """Writes one tile of a reduction: its sum over the dimensions `inner`, for each of `points`. See `Point`.

        Vectors of `lanes` elements run along the dimension `lane`.
        """
        shape, dimensions = target.operands[0].shape, target.attributes["dimensions"]
        across = lane in inner  # the lanes of a vector are terms of one sum
        order = [*(d for d in inner if d != lane), *([lane] if across else [])]
        has_tail = across and shape[lane] % lanes > 0
        each = 2 if has_tail else 1

        def body(loops: list[Affine], width: int, carried: list[Code]) -> list[Code]:
            """Writes one iteration over the inner dimensions, for all sums of the tile; returns the new sums."""
            terms = dict(zip(order, loops, strict=True))
            sums: list[Code] = []
            for i, (position, w) in enumerate(points):
                index = tuple((position | terms).get(d, ZERO) for d in range(len(shape)))
                sums += self._accumulate(target, index, width if across else w, carried[i * each : (i + 1) * each])
            return sums

        sizes = [shape[d] for d in order]
        starts = [c for _, w in points for c in self._begin(target, lanes if across else w, has_tail)]
        sums = self._each(sizes, lanes, [], starts, body) if across else self._scalars(sizes, [], starts, body)
        for i, (position, w) in enumerate(points):
            value = self._end(target, sums[i * each : (i + 1) * each], w)
            index = [position.get(d, ZERO) for d in range(len(shape)) if d not in dimensions]
            self.writer.store(self.buffers[target], [linear(index, target.shape)], [value], w)

    def _scalars(self, sizes: Sequence[int], loops: list[Affine], carried: list[Code], body: Body) -> list[Code]:
        """The last carried values of nested loops of these sizes, without vectors; `loops` has the indices of outer loops."""
        if not sizes:
            return body(loops, 0, carried)  # 0 lanes: scalars
        size, *inner_sizes = sizes
        return self._repeat(size, 1, thresholds.UNROLLED, carried, lambda i, c: self._scalars(inner_sizes, [*loops, i], c, body))
