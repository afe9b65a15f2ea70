"""The writer of the operations of loop nests: typed values, and elements of buffers at affine indices.

A level is the number of blocks (loop bodies, branches) around an operation; 0 is the body of the function. An operation is
written into the outermost block in which its operands are known, so that a loop does not repeat it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nabla_mlir.passes.iree.emitter import Emitter, load, store
from nabla_mlir.passes.iree.kernels.graph import NotSupported
from nabla_mlir.passes.iree.kernels.index import ZERO, Affine, Range, symbol
from nabla_mlir.passes.iree.kernels.scalars import DTYPES


@dataclass(frozen=True)
class Code:
    """An SSA value of a kernel. `lanes` is 0 for a scalar."""

    name: str
    dtype: str
    lanes: int = 0

    @property
    def type(self) -> str:
        """The MLIR type."""
        return vector_type(self.dtype, self.lanes)


@dataclass(frozen=True)
class Buffer:
    """Elements in memory, in row-major order.

    Args:
      name: the SSA value of the memref.
      dtype: the type of the elements; booleans are stored as i8.
      size: the number of elements of the memref.
      offset: the index of the first element in the memref.
      floor: the level of the block in which elements may change, so that loads are not moved out of this block.
    """

    name: str
    dtype: str
    size: int
    offset: Affine = ZERO
    floor: int = 0

    @property
    def type(self) -> str:
        """The MLIR type."""
        return f"memref<{self.size}x{DTYPES[self.dtype]}>"


At = Mapping[int, Affine]  # indices, by dimension
Body = Callable[[Affine, list[Code]], list[Code]]


def vector_type(element: str, lanes: int) -> str:
    """The MLIR type of a scalar if `lanes` is 0, else of a vector: ``vector<8xf32>``; MLIR's integers have no sign."""
    element = element.removeprefix("u")
    return f"vector<{lanes}x{element}>" if lanes else element


class Writer(Emitter):
    """Writes operations on `Code`, and the accesses of buffers at affine indices, which are proved to be inside."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: dict[str, Range] = {}

    def code(self, text: str, operands: Sequence[Code], dtype: str, lanes: int) -> Code:
        """The result, of the given dtype and lanes, of the operation with the given text, which has no side effects.

        It is written in the outermost block in which all `operands` are known; see `Emitter.pure`.
        """
        return Code(self.pure(text, [o.name for o in operands]), dtype, lanes)

    def integer(self, value: int, kind: str = "index") -> str:
        """The SSA value of an integer constant of the type `kind`."""
        return self.constant(value, kind)

    def number(self, value: int) -> Code:
        """An integer constant of type index."""
        return Code(self.integer(value), "index")

    def as_index(self, x: Code) -> Code:
        """A scalar integer, converted to the type index."""
        cast = "arith.index_castui" if x.dtype[0] == "u" else "arith.index_cast"
        return self.code(f"{cast} {x.name} : {x.type} to index", (x,), "index", 0)

    def combined(self, operation: str, x: Code, y: Code) -> Code:
        """The result of an operation of `arith`, such as addi or minui, on two scalars of one type."""
        return self.code(f"arith.{operation} {x.name}, {y.name} : {x.type}", (x, y), x.dtype, 0)

    def compared(self, relation: str, x: Code, y: Code) -> Code:
        """The i1 result of a comparison of two integers by a predicate of `arith.cmpi`, such as eq or ult."""
        return self.code(f"arith.cmpi {relation}, {x.name}, {y.name} : {x.type}", (x, y), "i1", 0)

    def selected(self, test: Code, x: Code, y: Code) -> Code:
        """The scalar x if the test holds, else y."""
        return self.code(f"arith.select {test.name}, {x.name}, {y.name} : {x.type}", (test, x, y), x.dtype, 0)

    def index(self, position: Affine) -> str:
        """The SSA value of an affine expression; a partial sum of symbols from outer blocks is computed in the outer block."""
        total = None if position.constant and position.terms else self.integer(position.constant)
        for name, factor in sorted(position.terms, key=lambda t: self.levels[t[0]]):
            term = name if factor == 1 else self.pure(f"arith.muli {name}, {self.integer(factor)} : index", [name])
            is_zero = not position.constant and total == self.integer(0)
            total = term if is_zero or total is None else self.pure(f"arith.addi {total}, {term} : index", [total, term])
        if position.constant and position.terms:
            constant = self.integer(position.constant)
            total = self.pure(f"arith.addi {total}, {constant} : index", [str(total)])
        return str(total)

    def clamped(self, start: Code, positions: int) -> Affine:
        """The scalar integer `start`, clamped to 0 ... positions - 1, as an affine index."""
        if positions == 1:
            return ZERO
        zero, last = self.integer(0), self.integer(positions - 1)
        name = self.as_index(start).name
        name = self.pure(f"arith.maxsi {name}, {zero} : index", [name])
        name = self.pure(f"arith.minsi {name}, {last} : index", [name])
        self.ranges[name] = (0, positions - 1)
        return symbol(name)

    def widened(self, x: Code, lanes: int) -> Code:
        """`x` as a vector of `lanes` elements: a scalar is broadcast, and a vector of that length is returned as it is."""
        if x.lanes == lanes:
            return x
        return self.code(f"vector.broadcast {x.name} : {x.type} to {vector_type(x.dtype, lanes)}", (x,), x.dtype, lanes)

    def load(self, buffer: Buffer, position: Affine, lanes: int) -> Code:
        """A vector of `lanes` elements, from `position` on with stride `position.lane`; a scalar if the stride is 0."""
        step, first = position.lane, position.scalar()
        if step == 0:
            return self._load(buffer, first, 0)
        if step == 1:
            return self._load(buffer, first, lanes)
        if 2 <= step <= 4:
            # For small strides, adjacent elements are loaded, and every step-th one is chosen.
            base = first + -(first.constant % step)
            low, high = (base + buffer.offset).range(self.ranges)  # a read outside, even of unused lanes, is undefined
            if low >= 0 and high + step * lanes <= buffer.size:
                elements = self._load(buffer, base, step * lanes)
                return self.shuffled(elements, [first.constant % step + step * i for i in range(lanes)])
        return self.joined([self._load(buffer, first + step * i, 0) for i in range(lanes)])

    def joined(self, parts: Sequence[Code]) -> Code:
        """A vector whose lanes are these scalars."""
        dtype, lanes = parts[0].dtype, len(parts)
        return self.code(
            f"vector.from_elements {', '.join(p.name for p in parts)} : {vector_type(dtype, lanes)}", parts, dtype, lanes
        )

    def _load(self, buffer: Buffer, position: Affine, lanes: int) -> Code:
        """The scalar at `position` (0 lanes), or a vector of adjacent elements from it on; an i8 of memory becomes an i1."""
        stored = DTYPES[buffer.dtype]
        index = self._inside(buffer, position, lanes)
        text = load(buffer.name, buffer.type, index, vector_type(stored, lanes) if lanes else "")
        name = self.pure(text, [buffer.name, index], buffer.floor)
        if buffer.dtype == "i1":
            to = f"{vector_type(stored, lanes)} to {vector_type(buffer.dtype, lanes)}"
            name = self.pure(f"arith.trunci {name} : {to}", [name])
        return Code(name, buffer.dtype, lanes)

    def _inside(self, buffer: Buffer, position: Affine, lanes: int) -> str:
        """The SSA value of the index in the memref of the element at `position`, or of the first of `lanes` adjacent elements.

        Raises:
          NotSupported: an element may be outside the memref; LLVM may assume that none is.
        """
        low, high = (position + buffer.offset).range(self.ranges)
        if low < 0 or high + max(lanes, 1) > buffer.size:
            raise NotSupported(f"an index from {low} to {high} in {buffer.size} elements")
        return self.index(position + buffer.offset)

    def shuffled(self, x: Code, order: Sequence[int]) -> Code:
        """A vector of lanes of `x`, in the order of the numbers in `order`."""
        return self.code(f"vector.shuffle {x.name}, {x.name} {list(order)} : {x.type}, {x.type}", (x,), x.dtype, len(order))

    def store(self, buffer: Buffer, positions: Sequence[Affine], values: Sequence[Code], lanes: int) -> None:
        """Stores each of `values` at its index in `positions`.

        With `lanes`, a value is a vector, and its lanes are stored at distances of `position.lane`.
        """
        step, first = positions[0].lane, positions[0].scalar()
        is_contiguous = all(p == positions[0] + i for i, p in enumerate(positions))
        # Several vectors whose lanes alternate in memory become one wide vector.
        if lanes and is_contiguous and step == len(values):
            self._store(buffer, first, self._interleaved([self.widened(x, lanes) for x in values]))
            return
        for x, position in zip(values, positions, strict=True):
            if not lanes:
                self._store(buffer, position, x)
                continue
            vector = self.widened(x, lanes)
            for k in range(lanes):
                text = f"vector.extract {vector.name}[{k}] : {vector_type(x.dtype, 0)} from {vector.type}"
                element = self.code(text, (vector,), x.dtype, 0)
                self._store(buffer, position.scalar() + k * position.lane, element)

    def _interleaved(self, vectors: Sequence[Code]) -> Code:
        """One vector with lane 0 of all vectors, then lane 1 of all vectors, and so on: (a, b), (c, d) -> (a, c, b, d)."""
        joined, lanes, n = vectors[0], vectors[0].lanes, len(vectors)
        for x in vectors[1:]:
            order = list(range(joined.lanes + lanes))
            text = f"vector.shuffle {joined.name}, {x.name} {order} : {joined.type}, {x.type}"
            joined = self.code(text, (joined, x), x.dtype, len(order))
        return joined if n == 1 else self.shuffled(joined, [lanes * j + i for i in range(lanes) for j in range(n)])

    def _store(self, buffer: Buffer, position: Affine, x: Code) -> None:
        """Stores a scalar at `position`, or a vector in adjacent elements from it on; an i1 becomes an i8 in memory."""
        stored, name = DTYPES[buffer.dtype], x.name
        if x.dtype == "i1":
            to = f"{x.type} to {vector_type(stored, x.lanes)}"
            name = self.pure(f"arith.extui {name} : {to}", [name])
        index = self._inside(buffer, position, x.lanes)
        self.line(store(name, buffer.name, buffer.type, index, vector_type(stored, x.lanes) if x.lanes else ""))

    def loop(self, blocks: int, step: int, carried: Sequence[Code], body: Body, part: tuple[str, str] | None = None) -> list[Code]:
        """The last carried values of a loop that runs `body` at the indices 0, step, ..., (blocks - 1) * step.

        `body` gets the index and the carried values, and returns the new values. With `part`, the loop runs from the first of
        these indices to the second one, exclusively.
        """
        upper = blocks * step
        bounds = [*(part or (self.integer(0), self.integer(upper))), self.integer(step)]

        def iterate(index: str, olds: list[str]) -> list[str]:
            """Writes one iteration; returns the names of the new carried values."""
            self.ranges[index] = (0, upper - step)
            return [c.name for c in body(symbol(index), _with_types(olds, carried))]

        return _with_types(self.for_loop(bounds, *_names_and_types(carried), iterate), carried)

    def each(self, shape: Sequence[int], dimensions: Sequence[int], body: Callable[[At], None], at: At | None = None) -> None:
        """Writes nested loops over some dimensions of a shape; `body` writes one iteration.

        `body` gets the loop indices by dimension, together with the indices in `at`, which are those of other dimensions.
        """
        known = at or {}
        if not dimensions:
            body(known)
            return
        first, *rest = dimensions

        def inside(i: Affine, _: list[Code]) -> list[Code]:
            """Writes the loops over the other dimensions, at index i of the first one; nothing is carried."""
            self.each(shape, rest, body, {**known, first: i})
            return []

        if shape[first] == 1:
            inside(ZERO, [])
        else:
            self.loop(shape[first], 1, [], inside)

    def repeat_while(
        self, inits: Sequence[Code], condition: Callable[[list[Code]], Code], body: Callable[[list[Code]], list[Code]]
    ) -> list[Code]:
        """The last values of scalars, from `inits` on, of a loop that runs `body` as long as `condition` holds.

        Both functions get the current values; `body` returns the next ones, and `condition` an i1.
        """
        new = self.while_loop(
            *_names_and_types(inits),
            lambda olds: condition(_with_types(olds, inits)).name,
            lambda olds: [c.name for c in body(_with_types(olds, inits))],
        )
        return _with_types(new, inits)

    def choose(self, test: Code, yes: Callable[[], list[Code]], no: Callable[[], list[Code]]) -> list[Code]:
        """The results of an `scf.if`: the scalars that `yes` returns if the i1 `test` is true, else those of `no`."""
        outer, self.branch_level = self.branch_level, self.level + 1
        with self.separate_lines() as then:
            names, types = _names_and_types(values := yes())
            self.write_yield(names, types)
        with self.separate_lines() as otherwise:
            self.write_yield([c.name for c in no()], types)
        self.branch_level = outer
        result, head = self.fresh(), f"scf.if {test.name}"
        if values:
            head = f"{result}:{len(values)} = {head} -> ({', '.join(types)})"
        for line in (f"{head} {{", *then, "} else {", *otherwise, "}"):
            self.line(line)
        return _with_types(self.results(result, len(values)), values)

    def named(self, name: str, dtype: str, lanes: int = 0) -> Code:
        """A `Code` for an SSA value that exists already, such as an argument; it is known from the innermost block on."""
        self.levels[name] = self.level
        return Code(name, dtype, lanes)


def _names_and_types(values: Sequence[Code]) -> tuple[list[str], list[str]]:
    """The names of SSA values, and their MLIR types."""
    return [c.name for c in values], [c.type for c in values]


def _with_types(names: Sequence[str], like: Sequence[Code]) -> list[Code]:
    """The SSA values `names`, each with the type of the value in `like` at the same index."""
    return [Code(name, c.dtype, c.lanes) for name, c in zip(names, like, strict=True)]
