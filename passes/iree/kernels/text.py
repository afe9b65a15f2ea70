"""The text of kernels for whole matrices: loops over tiles of a few rows and a few vectors, which stay in registers.

A tile is a block of the matrix; a row of a tile is a list of vectors, each in one register. A name such as ``%12`` is an SSA value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from nabla_mlir.passes.iree.emitter import Block, Emitter, load, store
from nabla_mlir.passes.iree.internals.executables import argument, binding, executable
from nabla_mlir.passes.iree.kernels.scalars import BYTES

Index = str | int  # the SSA value of an index, or a constant
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
        """The form for vector registers of `vector_bytes`. AVX-512 has 32 registers, others have 16; a tile uses half of them."""
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


class Text(Emitter):
    """Writes the operations of a kernel, in the order in which they run. Constants precede them, in the outermost block."""

    def __init__(self, form: Form):
        super().__init__()
        self.form = form
        self.blocks.append(Block())
        self._arguments: list[str] = []

    # ---------------------------------------------------------------- operations

    def index(self, x: Index) -> str:
        """The SSA value of an index; a constant is defined if necessary."""
        return x if isinstance(x, str) else self.constant(x, "index")

    def number(self, x: float) -> str:
        """The SSA value of a scalar constant of the dtype of the kernel."""
        return self.constant(f"{x:.17e}", self.form.element)

    def number_argument(self, name: str) -> str:
        """The SSA value of a new argument of the kernel that is a number: i32 in the call, an index in the kernel."""
        self._arguments.append(f"%{name}")
        return self._arguments[-1]

    def zeros(self) -> str:
        """A vector of zeros."""
        return self.constant("dense<0.0>", self.form.vector)

    def compare(self, relation: str, x: Index, y: Index) -> str:
        """An i1: a comparison of two indices by a predicate of `arith.cmpi`, such as eq or sle."""
        return self.result(f"arith.cmpi {relation}, {self.index(x)}, {self.index(y)} : index")

    def mul(self, x: Index, y: Index) -> Index:
        """The product of two indices."""
        if isinstance(x, int) and isinstance(y, int):
            return x * y
        return x if y == 1 else y if x == 1 else self.of_indices("muli", x, y)

    def add(self, x: Index, y: Index) -> Index:
        """The sum of two indices."""
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        return x if y == 0 else y if x == 0 else self.of_indices("addi", x, y)

    def of_indices(self, operation: str, x: Index, y: Index) -> str:
        """An operation of `arith` on two indices: subi, muli, divui, minsi."""
        return self.result(f"arith.{operation} {self.index(x)}, {self.index(y)} : index")

    def chosen(self, condition: str, x: Index, y: Index) -> str:
        """The SSA value of an index: x if the i1 `condition` is true, else y."""
        return self.result(f"arith.select {condition}, {self.index(x)}, {self.index(y)} : index")

    def multiple(self, x: Index, of: int) -> str:
        """The largest multiple of `of` that is at most x."""
        return self.of_indices("muli", self.of_indices("divui", x, of), of)

    def scalar(self, operation: str, *operands: str) -> str:
        """An operation on scalars of the kernel's dtype."""
        return self.result(f"{operation} {', '.join(operands)} : {self.form.element}")

    # ---------------------------------------------------------------- memory

    def load(self, memory: Memory, *position: Index) -> str:
        """The SSA value of one element of a buffer, loaded at the indices `position`."""
        return self.result(load(memory.name, memory.type, self._at(position)))

    def store(self, x: str, memory: Memory, *position: Index) -> None:
        """Stores the scalar `x` in a buffer, at the indices `position`."""
        self.line(store(x, memory.name, memory.type, self._at(position)))

    def vector(self, memory: Memory, *position: Index) -> str:
        """The SSA value of a vector of adjacent elements of a buffer, loaded from the indices `position` on."""
        return self.result(load(memory.name, memory.type, self._at(position), self.form.vector))

    def put(self, x: str, memory: Memory, *position: Index) -> None:
        """Stores the vector `x` in adjacent elements of a buffer, from the indices `position` on."""
        self.line(store(x, memory.name, memory.type, self._at(position), self.form.vector))

    def prefetch(self, memory: Memory, *position: Index) -> None:
        """Writes a prefetch of the cache line at the indices `position`, for writing; indices out of range are allowed."""
        self.line(f"memref.prefetch {memory.name}[{self._at(position)}], write, locality<3>, data : {memory.type}")

    def mask(self, count: Index) -> str:
        """A mask of the first `count` lanes: of all lanes for a larger count, and of no lane for a negative one."""
        return self.result(f"vector.create_mask {self.index(count)} : vector<{self.form.lanes}xi1>")

    def masked_vector(self, mask: str, memory: Memory, *position: Index) -> str:
        """A vector whose lanes in the mask are loaded from `position` on; the other lanes are 0, and their memory is not read."""
        types = f"{memory.type}, vector<{self.form.lanes}xi1>, {self.form.vector} into {self.form.vector}"
        return self.result(f"vector.maskedload {memory.name}[{self._at(position)}], {mask}, {self.zeros()} : {types}")

    def masked_put(self, mask: str, x: str, memory: Memory, *position: Index) -> None:
        """Stores those lanes of the vector `x` that are in the mask, in memory from `position` on."""
        types = f"{memory.type}, vector<{self.form.lanes}xi1>, {self.form.vector}"
        self.line(f"vector.maskedstore {memory.name}[{self._at(position)}], {mask}, {x} : {types}")

    def row(self, memory: Memory, *position: Index) -> list[str]:
        """The vectors of one row of a tile, loaded from the indices `position` on."""
        *before, column = position
        return [self.vector(memory, *before, self.add(column, v * self.form.lanes)) for v in range(self.form.vectors)]

    def put_row(self, row: Sequence[str], memory: Memory, *position: Index) -> None:
        """Stores the vectors of one row of a tile, from the indices `position` on."""
        *before, column = position
        for v, x in enumerate(row):
            self.put(x, memory, *before, self.add(column, v * self.form.lanes))

    def _at(self, position: Sequence[Index]) -> str:
        return ", ".join(map(self.index, position))

    # ---------------------------------------------------------------- arithmetic of vectors

    def splat(self, x: str) -> str:
        """A vector with the scalar `x` in every lane."""
        return self.result(f"vector.broadcast {x} : {self.form.element} to {self.form.vector}")

    def lane_sum(self, x: str) -> str:
        """The sum of the lanes of a vector."""
        return self.result(f"vector.reduction <add>, {x} : {self.form.vector} into {self.form.element}")

    def multiplied(self, x: str, y: str) -> str:
        """The products of two vectors."""
        return self.result(f"arith.mulf {x}, {y} fastmath<contract> : {self.form.vector}")

    def plus(self, x: str, y: str) -> str:
        """The sum of two vectors; a product in it is not rounded separately if the CPU has fused multiply-add."""
        return self.result(f"arith.addf {x}, {y} fastmath<contract> : {self.form.vector}")

    def minus(self, x: str, y: str) -> str:
        """The difference of two vectors, with the same rounding as `plus`."""
        return self.result(f"arith.subf {x}, {y} fastmath<contract> : {self.form.vector}")

    def scaled(self, row: Sequence[str], factor: str) -> list[str]:
        """A row of a tile (a list of vectors) times a scalar."""
        factors = self.splat(factor)
        return [self.result(f"arith.mulf {x}, {factors} : {self.form.vector}") for x in row]

    def sums(self, row: Sequence[str], other: Sequence[str]) -> list[str]:
        """The sum of two rows of a tile, vector by vector."""
        return [self.result(f"arith.addf {x}, {y} : {self.form.vector}") for x, y in zip(row, other, strict=True)]

    def minus_product(self, row: Sequence[str], factor: str, other: Sequence[str]) -> list[str]:
        """`row` minus the scalar `factor` times the row `other`, with one rounding if the CPU has fused multiply-add."""
        return self._with_product("arith.subf", row, factor, other)

    def _with_product(self, operation: str, row: Sequence[str], factor: str, other: Sequence[str]) -> list[str]:
        """A row plus or minus (by `operation`) a scalar times another row."""
        factors, kind = self.splat(factor), f"fastmath<contract> : {self.form.vector}"
        products = [self.result(f"arith.mulf {factors}, {y} {kind}") for y in other]
        return [self.result(f"{operation} {x}, {p} {kind}") for x, p in zip(row, products, strict=True)]

    def shuffled(self, x: str, y: str, lanes: Sequence[int]) -> str:
        """Some lanes of two vectors as one vector; the lanes of the second are numbered after those of the first."""
        return self.result(f"vector.shuffle {x}, {y} {list(lanes)} : {self.form.vector}, {self.form.vector}")

    def lane(self, x: str, lane: int) -> str:
        """The scalar in a lane of a vector."""
        return self.result(f"vector.extract {x}[{lane}] : {self.form.element} from {self.form.vector}")

    def transposed(self, vectors: Sequence[str]) -> list[str]:
        """The transpose of a square matrix whose n rows are vectors of n lanes, in log2(n) steps of shuffles.

        The step for bit k exchanges parts of the rows whose indices differ in that bit.
        """
        lanes, rows = self.form.lanes, list(vectors)
        bit = 1
        while bit < lanes:
            for i in (i for i in range(lanes) if not i & bit):
                x, y = rows[i], rows[i + bit]
                # A lane number below `lanes` means a lane of x, else a lane of y.
                low = [lanes + lane - bit if lane & bit else lane for lane in range(lanes)]
                high = [lanes + lane if lane & bit else lane + bit for lane in range(lanes)]
                rows[i], rows[i + bit] = self.shuffled(x, y, low), self.shuffled(x, y, high)
            bit *= 2
        return rows

    # ---------------------------------------------------------------- control

    @contextmanager
    def loop(self, start: Index, stop: Index, step: Index = 1) -> Iterator[str]:
        """A context whose code is written into an `scf.for`; it yields the SSA value of the index, from `start` to `stop`
        exclusively.
        """
        name = self.fresh()
        self.levels[name] = self.level + 1
        with self.block(f"scf.for {name} = {self.index(start)} to {self.index(stop)} step {self.index(step)} {{"):
            yield name

    def carried(
        self,
        start: Index,
        stop: Index,
        inits: Sequence[str],
        types: Sequence[str],
        body: Callable[[str, list[str]], Sequence[str]],
        step: int = 1,
    ) -> list[str]:
        """The last carried values of a loop.

        Args:
          start, stop, step: the bounds of the loop, without `stop`, and its step.
          inits: the carried values before the loop.
          types: their types.
          body: computes the new carried values from the index and the old values.
        """
        return self.for_loop([self.index(start), self.index(stop), self.index(step)], inits, types, body)

    @contextmanager
    def if_holds(self, condition: str) -> Iterator[Callable[[], None]]:
        """A context whose code is written into an `scf.if`, for a true `condition`.

        It yields a function: the code that is written after a call of this function is in the else region.
        """
        with self.block(f"scf.if {condition} {{"):
            yield lambda: self.line("} else {")

    def minus_products(
        self, tile: Tile, terms: tuple[Index, Index], factor: Callable[[int, str], str], other: Callable[[str], list[str]]
    ) -> Tile:
        """A tile minus, in each row r, the sum over p of the scalar `factor(r, p)` times the row `other(p)`.

        p goes from the first of `terms` to the second one, exclusively.
        """
        return self._with_products("arith.subf", tile, terms, factor, other)

    def plus_products(
        self, tile: Tile, terms: tuple[Index, Index], factor: Callable[[int, str], str], other: Callable[[str], list[str]]
    ) -> Tile:
        """A tile plus the sums of products that `minus_products` subtracts."""
        return self._with_products("arith.addf", tile, terms, factor, other)

    def _with_products(
        self,
        operation: str,
        tile: Tile,
        terms: tuple[Index, Index],
        factor: Callable[[int, str], str],
        other: Callable[[str], list[str]],
    ) -> Tile:
        """The tile plus or minus (by `operation`) sums of products, as a loop over the terms.

        For row r of the tile and term p, the product is the scalar `factor(r, p)` times the row `other(p)`.
        """
        vectors = self.form.vectors

        def body(p: str, values: list[str]) -> list[str]:
            """The sums of all rows of the tile, as one flat list, after term p."""
            row, new = other(p), []
            for i in range(len(tile)):
                new += self._with_product(operation, values[vectors * i : vectors * (i + 1)], factor(i, p), row)
            return new

        flat = [x for row in tile for x in row]
        sums = self.carried(*terms, flat, [self.form.vector] * len(flat), body)
        return [sums[vectors * i : vectors * (i + 1)] for i in range(len(tile))]

    def bind(self, memory: Memory, position: int) -> None:
        """Writes the definition of a buffer whose sizes are arguments of the kernel, for the binding with number `position`."""
        type = f"{memory.type}{{{', '.join(memory.given)}}}"
        self.line(binding(memory.name, type, position, self.index(0), memory.read_only))

    def kernel(self, name: str, memories: Sequence[Memory], counts: Sequence[int]) -> str:
        """The text of an executable whose function has the buffers `memories` and all operations written so far.

        `counts` is the number of workgroups in each dimension.
        """
        start = self.index(0)
        bindings = [binding(m.name, m.type, i, start, m.read_only) for i, m in enumerate(memories)]
        return executable(name, [m.read_only for m in memories], self._lines(bindings), counts)

    def kernel_of_sizes(self, name: str, memories: Sequence[Memory]) -> str:
        """The text of an executable whose function has the operations written so far, which already bind the buffers `memories`.

        The caller of the kernel gives the number of workgroups in x and y.
        """
        return executable(name, [m.read_only for m in memories], self._lines(), None, len(self._arguments))

    def _lines(self, bindings: Sequence[str] = ()) -> list[str]:
        """The lines of a kernel's function: constants, arguments, `bindings` (lines that define buffers), and the operations."""
        constants, body = (block.lines for block in self.blocks)
        return [*constants, *(line for i, name in enumerate(self._arguments) for line in argument(name, i)), *bindings, *body]
