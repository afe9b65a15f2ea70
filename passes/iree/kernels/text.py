"""The text of kernels for whole matrices: loops over tiles of a few rows and a few vectors, which stay in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from nabla_mlir.passes.iree.internals.executables import argument, binding, executable
from nabla_mlir.passes.iree.kernels.scalars import BYTES

Index = str | int
Tile = list[list[str]]  # vectors by row


@dataclass(frozen=True)
class Memory:
    """A buffer that a kernel reads or writes: stacked matrices, or rows of numbers."""

    name: str
    shape: tuple[int, ...]  # -1: a size that is an argument of the kernel
    element: str
    read_only: bool = False
    given: tuple[str, ...] = ()  # the values of these sizes

    @property
    def type(self) -> str:
        """The type of the buffer in the kernel."""
        return f"memref<{'x'.join('?' if n < 0 else str(n) for n in self.shape)}x{self.element}>"


@dataclass(frozen=True)
class Form:
    """The form of vectors and tiles for a CPU and one dtype: lanes of a vector, rows and vectors of a tile."""

    element: str
    lanes: int
    rows: int
    vectors: int = 2

    @staticmethod
    def of(element: str, vector_bytes: int) -> Form:
        """The form for registers of that width. AVX-512 has 32 registers, others have 16; a tile uses half of them."""
        return Form(element, vector_bytes // BYTES[element], 8 if vector_bytes >= 64 else 4)

    @property
    def width(self) -> int:
        """The columns of a tile."""
        return self.lanes * self.vectors

    @property
    def vector(self) -> str:
        """The type of a vector."""
        return f"vector<{self.lanes}x{self.element}>"


def round_up(n: int, multiple: int) -> int:
    """The smallest multiple that is not below n."""
    return -(-n // multiple) * multiple


class Text:
    """Writes the operations of a kernel, in the order in which they run."""

    def __init__(self, form: Form):
        self.form = form
        self._constants: dict[tuple[str, str], str] = {}
        self._lines: list[str] = []
        self._arguments: list[str] = []
        self._count = 0

    # ---------------------------------------------------------------- operations

    def line(self, text: str) -> None:
        """Writes an operation without results."""
        self._lines.append(text)

    def op(self, text: str) -> str:
        """Writes an operation; returns the name of its result."""
        name = self._fresh()
        self.line(f"{name} = {text}")
        return name

    def constant(self, value: object, type: str) -> str:
        """A constant; each is written once."""
        key = str(value), type
        if key not in self._constants:
            self._constants[key] = f"%k{len(self._constants)}"
        return self._constants[key]

    def index(self, x: Index) -> str:
        """An index as a value."""
        return x if isinstance(x, str) else self.constant(x, "index")

    def number(self, x: float) -> str:
        """A scalar constant."""
        return self.constant(f"{x:.17e}", self.form.element)

    def number_argument(self, name: str) -> str:
        """An argument that is a number: i32 in the call, an index in the kernel."""
        self._arguments.append(f"%{name}")
        return self._arguments[-1]

    def zeros(self) -> str:
        """A vector of zeros."""
        return self.constant("dense<0.0>", self.form.vector)

    def compare(self, relation: str, x: Index, y: Index) -> str:
        """An i1: a comparison of two indices by a predicate of `arith.cmpi`, such as eq or sle."""
        return self.op(f"arith.cmpi {relation}, {self.index(x)}, {self.index(y)} : index")

    def mul(self, x: Index, y: Index) -> Index:
        """The product of two indices."""
        if isinstance(x, int) and isinstance(y, int):
            return x * y
        return x if y == 1 else y if x == 1 else self.of_indices("muli", x, y)

    def add(self, x: Index, y: Index) -> Index:
        """The sum of two indices."""
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        return x if y == 0 else y if x == 0 else self.op(f"arith.addi {self.index(x)}, {self.index(y)} : index")

    def of_indices(self, operation: str, x: Index, y: Index) -> str:
        """An operation of `arith` on two indices: subi, muli, divui, minsi."""
        return self.op(f"arith.{operation} {self.index(x)}, {self.index(y)} : index")

    def chosen(self, condition: str, x: Index, y: Index) -> str:
        """The index x if the condition holds, else y."""
        return self.op(f"arith.select {condition}, {self.index(x)}, {self.index(y)} : index")

    def multiple(self, x: Index, of: int) -> str:
        """The largest multiple of `of` that is at most x."""
        return self.of_indices("muli", self.of_indices("divui", x, of), of)

    def scalar(self, operation: str, *operands: str) -> str:
        """An operation on scalars of the kernel's dtype."""
        return self.op(f"{operation} {', '.join(operands)} : {self.form.element}")

    # ---------------------------------------------------------------- memory

    def load(self, memory: Memory, *position: Index) -> str:
        """Loads one element."""
        return self.op(f"memref.load {memory.name}{self._at(position)} : {memory.type}")

    def store(self, x: str, memory: Memory, *position: Index) -> None:
        """Stores one element."""
        self.line(f"memref.store {x}, {memory.name}{self._at(position)} : {memory.type}")

    def vector(self, memory: Memory, *position: Index) -> str:
        """Loads a vector that begins at an index."""
        return self.op(f"vector.load {memory.name}{self._at(position)} : {memory.type}, {self.form.vector}")

    def put(self, x: str, memory: Memory, *position: Index) -> None:
        """Stores a vector."""
        self.line(f"vector.store {x}, {memory.name}{self._at(position)} : {memory.type}, {self.form.vector}")

    def prefetch(self, memory: Memory, *position: Index) -> None:
        """Prefetches an index for writing; an index out of range is allowed."""
        self.line(f"memref.prefetch {memory.name}{self._at(position)}, write, locality<3>, data : {memory.type}")

    def mask(self, count: Index) -> str:
        """A mask of the first `count` lanes: all lanes if it is larger, none if it is negative."""
        return self.op(f"vector.create_mask {self.index(count)} : vector<{self.form.lanes}xi1>")

    def masked_vector(self, mask: str, memory: Memory, *position: Index) -> str:
        """Loads the lanes in the mask; other lanes are 0 and are not read."""
        types = f"{memory.type}, vector<{self.form.lanes}xi1>, {self.form.vector} into {self.form.vector}"
        return self.op(f"vector.maskedload {memory.name}{self._at(position)}, {mask}, {self.zeros()} : {types}")

    def masked_put(self, mask: str, x: str, memory: Memory, *position: Index) -> None:
        """Stores the lanes in the mask."""
        types = f"{memory.type}, vector<{self.form.lanes}xi1>, {self.form.vector}"
        self.line(f"vector.maskedstore {memory.name}{self._at(position)}, {mask}, {x} : {types}")

    def row(self, memory: Memory, *position: Index) -> list[str]:
        """Loads the vectors of one row of a tile."""
        *before, column = position
        return [self.vector(memory, *before, self.add(column, v * self.form.lanes)) for v in range(self.form.vectors)]

    def put_row(self, row: Sequence[str], memory: Memory, *position: Index) -> None:
        """Stores the vectors of one row of a tile."""
        *before, column = position
        for v, x in enumerate(row):
            self.put(x, memory, *before, self.add(column, v * self.form.lanes))

    def _at(self, position: Sequence[Index]) -> str:
        return f"[{', '.join(map(self.index, position))}]"

    # ---------------------------------------------------------------- arithmetic of vectors

    def splat(self, x: str) -> str:
        """A scalar in every lane."""
        return self.op(f"vector.broadcast {x} : {self.form.element} to {self.form.vector}")

    def lane_sum(self, x: str) -> str:
        """The sum of the lanes of a vector."""
        return self.op(f"vector.reduction <add>, {x} : {self.form.vector} into {self.form.element}")

    def multiplied(self, x: str, y: str) -> str:
        """The products of two vectors."""
        return self.op(f"arith.mulf {x}, {y} fastmath<contract> : {self.form.vector}")

    def plus(self, x: str, y: str) -> str:
        """The sum of two vectors; a product in it is not rounded separately if the CPU has fused multiply-add."""
        return self.op(f"arith.addf {x}, {y} fastmath<contract> : {self.form.vector}")

    def minus(self, x: str, y: str) -> str:
        """The difference of two vectors, with the same rounding as `plus`."""
        return self.op(f"arith.subf {x}, {y} fastmath<contract> : {self.form.vector}")

    def scaled(self, row: Sequence[str], factor: str) -> list[str]:
        """A row times a scalar."""
        factors = self.splat(factor)
        return [self.op(f"arith.mulf {x}, {factors} : {self.form.vector}") for x in row]

    def sums(self, row: Sequence[str], other: Sequence[str]) -> list[str]:
        """The sum of two rows."""
        return [self.op(f"arith.addf {x}, {y} : {self.form.vector}") for x, y in zip(row, other, strict=True)]

    def minus_product(self, row: Sequence[str], factor: str, other: Sequence[str]) -> list[str]:
        """A row minus a scalar times another row, with one rounding if the CPU has fused multiply-add."""
        return self._with_product("arith.subf", row, factor, other)

    def _with_product(self, operation: str, row: Sequence[str], factor: str, other: Sequence[str]) -> list[str]:
        factors, kind = self.splat(factor), f"fastmath<contract> : {self.form.vector}"
        products = [self.op(f"arith.mulf {factors}, {y} {kind}") for y in other]
        return [self.op(f"{operation} {x}, {p} {kind}") for x, p in zip(row, products, strict=True)]

    def shuffled(self, x: str, y: str, lanes: Sequence[int]) -> str:
        """Some lanes of two vectors as one vector; the lanes of the second are numbered after those of the first."""
        return self.op(f"vector.shuffle {x}, {y} {list(lanes)} : {self.form.vector}, {self.form.vector}")

    def lane(self, x: str, lane: int) -> str:
        """The scalar in a lane of a vector."""
        return self.op(f"vector.extract {x}[{lane}] : {self.form.element} from {self.form.vector}")

    def transposed(self, vectors: Sequence[str]) -> list[str]:
        """The transpose of as many vectors as each has lanes, by exchanges for each bit of the index."""
        lanes, rows = self.form.lanes, list(vectors)
        bit = 1
        while bit < lanes:
            for i in (i for i in range(lanes) if not i & bit):
                x, y = rows[i], rows[i + bit]
                low = [lanes + lane - bit if lane & bit else lane for lane in range(lanes)]
                high = [lanes + lane if lane & bit else lane + bit for lane in range(lanes)]
                rows[i], rows[i + bit] = self.shuffled(x, y, low), self.shuffled(x, y, high)
            bit *= 2
        return rows

    # ---------------------------------------------------------------- control

    @contextmanager
    def loop(self, start: Index, stop: Index, step: Index = 1) -> Iterator[str]:
        """A loop; the code inside runs for each index."""
        name = self._fresh()
        self.line(f"scf.for {name} = {self.index(start)} to {self.index(stop)} step {self.index(step)} {{")
        yield name
        self.line("}")

    def carried(
        self,
        start: Index,
        stop: Index,
        inits: Sequence[str],
        types: Sequence[str],
        body: Callable[[str, list[str]], Sequence[str]],
        step: int = 1,
    ) -> list[str]:
        """The last values of a loop; the body computes new values from the index and the old values."""
        result, index, arguments = self._fresh(), self._fresh(), [self._fresh() for _ in inits]
        bounds = f"{self.index(start)} to {self.index(stop)} step {self.index(step)}"
        pairs = ", ".join(f"{a} = {x}" for a, x in zip(arguments, inits, strict=True))
        self.line(f"{result}:{len(inits)} = scf.for {index} = {bounds} iter_args({pairs}) -> ({', '.join(types)}) {{")
        new = body(index, arguments)
        self.line(f"scf.yield {', '.join(new)} : {', '.join(types)}")
        self.line("}")
        return [f"{result}#{i}" for i in range(len(inits))]

    def repeated(
        self,
        inits: Sequence[str],
        types: Sequence[str],
        goes_on: Callable[[list[str]], str],
        body: Callable[[list[str]], Sequence[str]],
    ) -> list[str]:
        """The last values of a loop that runs while a condition on them holds."""
        result, tests, arguments = self._fresh(), [self._fresh() for _ in inits], [self._fresh() for _ in inits]
        pairs = ", ".join(f"{a} = {x}" for a, x in zip(tests, inits, strict=True))
        kinds = ", ".join(types)
        self.line(f"{result}:{len(inits)} = scf.while ({pairs}) : ({kinds}) -> ({kinds}) {{")
        self.line(f"scf.condition({goes_on(tests)}) {', '.join(tests)} : {kinds}")
        self.line("} do {")
        self.line(f"^bb0({', '.join(f'{a}: {type}' for a, type in zip(arguments, types, strict=True))}):")
        self.line(f"scf.yield {', '.join(body(arguments))} : {kinds}")
        self.line("}")
        return [f"{result}#{i}" for i in range(len(inits))]

    @contextmanager
    def branch(self, condition: str) -> Iterator[Callable[[], None]]:
        """A branch: the code inside runs if the condition holds; code after a call of the yielded function runs otherwise."""
        self.line(f"scf.if {condition} {{")
        yield lambda: self.line("} else {")
        self.line("}")

    def minus_products(
        self, tile: Tile, terms: tuple[Index, Index], factor: Callable[[int, str], str], other: Callable[[str], list[str]]
    ) -> Tile:
        """A tile minus the sum of the products of `factor(row, p)` and the row `other(p)`, for p in a range."""
        return self._with_products("arith.subf", tile, terms, factor, other)

    def plus_products(
        self, tile: Tile, terms: tuple[Index, Index], factor: Callable[[int, str], str], other: Callable[[str], list[str]]
    ) -> Tile:
        """A tile plus the sum of these products."""
        return self._with_products("arith.addf", tile, terms, factor, other)

    def _with_products(
        self,
        operation: str,
        tile: Tile,
        terms: tuple[Index, Index],
        factor: Callable[[int, str], str],
        other: Callable[[str], list[str]],
    ) -> Tile:
        """The tile plus or minus a sum of products, as a loop over the terms."""
        vectors = self.form.vectors

        def body(p: str, values: list[str]) -> list[str]:
            row, new = other(p), []
            for i in range(len(tile)):
                new += self._with_product(operation, values[vectors * i : vectors * (i + 1)], factor(i, p), row)
            return new

        flat = [x for row in tile for x in row]
        sums = self.carried(*terms, flat, [self.form.vector] * len(flat), body)
        return [sums[vectors * i : vectors * (i + 1)] for i in range(len(tile))]

    def bind(self, memory: Memory, position: int) -> None:
        """Defines a buffer, whose sizes are arguments, from binding number `position`."""
        type = f"{memory.type}{{{', '.join(memory.given)}}}"
        self.line(binding(memory.name, type, position, self.index(0), memory.read_only))

    def kernel(self, name: str, memories: Sequence[Memory], counts: Sequence[int]) -> str:
        """The text of the executable: a function of these buffers with the operations, for a fixed number of workgroups."""
        start = self.index(0)
        bindings = [binding(m.name, m.type, i, start, m.read_only) for i, m in enumerate(memories)]
        return executable(name, [m.read_only for m in memories], [*self._beginning(), *bindings, *self._lines], counts)

    def kernel_of_sizes(self, name: str, memories: Sequence[Memory]) -> str:
        """The text of the executable for buffers that are bound already; the call gives the number of workgroups in x and y."""
        lines = [*self._beginning(), *self._lines]
        return executable(name, [m.read_only for m in memories], lines, None, len(self._arguments))

    def _beginning(self) -> list[str]:
        lines = [f"{k} = arith.constant {value} : {type}" for (value, type), k in self._constants.items()]
        for i, name in enumerate(self._arguments):
            lines += argument(name, i)
        return lines

    def _fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"
