"""The emitter of kernels: MLIR text with SSA values in nested blocks, and loops.

Three writers extend it: `kernels/writer.py` for loop nests, `kernels/text.py` for matrices, `gpu/writer.py` for Triton's dialect.
CONTRIBUTING has the measured reasons for text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Names = list[str]


@dataclass
class Block:
    """The operations and the known values of a block."""

    lines: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)  # the name of each result, by the text of its operation
    memo: dict[object, Any] = field(default_factory=dict)  # other values, by keys of a writer


class Emitter:
    """Writes operations. The level of a value is the nesting depth of its block.

    An operation without effects is written once, in the outermost block that has its operands:

      >>> emitter = Emitter()
      >>> with emitter.block("scf.execute_region {"):
      ...     x = emitter.constant("1", "index")
      ...     y = emitter.constant("1", "index")
      >>> x == y, emitter.blocks[0].lines
      (True, ['%v1 = arith.constant 1 : index', 'scf.execute_region {', '}'])
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = [Block()]
        self.levels: dict[str, int] = {}
        self._count = 0
        self.branch_level = 0  # the level of the innermost region of a branch

    @property
    def level(self) -> int:
        """The level of the innermost block."""
        return len(self.blocks) - 1

    def fresh(self) -> str:
        """A new name for a value of the innermost block."""
        return self._fresh(self.level)

    def _fresh(self, level: int) -> str:
        """A new name for a value of a block at nesting depth `level`."""
        self._count += 1
        name = f"%v{self._count}"
        self.levels[name] = level
        return name

    def line(self, text: str) -> None:
        """Writes an operation with effects, or without results, to the innermost block."""
        self.blocks[-1].lines.append(text)

    def result(self, text: str) -> str:
        """The name of the result of an operation, which is written to the innermost block."""
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name

    def pure(self, text: str, operands: Sequence[str], floor: int = 0) -> str:
        """The name of the result of an operation without effects, which is written unless the same one exists.

        It is written to the outermost block that has the operands and has at least the level `floor`.
        """
        level = max([floor, *(self.levels[o] for o in operands)])
        block = self.blocks[level]
        if text not in block.known and level < self.branch_level:  # other regions of the branch do not need it
            level, block = self.branch_level, self.blocks[self.branch_level]
        if text not in block.known:
            block.known[text] = self._fresh(level)
            block.lines.append(f"{block.known[text]} = {text}")
        return block.known[text]

    def constant(self, value: object, type: str) -> str:
        """The name of a constant of `arith`, which is written once."""
        return self.pure(f"arith.constant {value} : {type}", ())

    # ---------------------------------------------------------------- blocks

    @contextmanager
    def separate_lines(self) -> Iterator[list[str]]:
        """A context whose code is written to a new list, which it yields; values of this code are not reused after it."""
        inner = Block()
        self.blocks.append(inner)
        yield inner.lines
        self.blocks.pop()

    @contextmanager
    def block(self, head: str | None) -> Iterator[None]:
        """A context whose code is written between `head` and a closing brace; values of this code are not reused afterwards.

        Without `head`, the code is written without a frame.
        """
        with self.separate_lines() as lines:
            yield
        self.blocks[-1].lines += lines if head is None else [head, *(f"  {t}" for t in lines), "}"]

    def results(self, name: str, count: int) -> Names:
        """The names of the `count` results of the operation `name` with regions, as values of the innermost block."""
        names = [f"{name}#{i}" for i in range(count)]
        self.levels.update(dict.fromkeys(names, self.level))
        return names

    def for_loop(
        self, bounds: Sequence[str], inits: Sequence[str], types: Sequence[str], body: Callable[[str, Names], Sequence[str]]
    ) -> Names:
        """The values after an `scf.for` from a start to an end by a step.

        Args:
          bounds: the start, the end, the step; a fourth text is the type of the index.
          inits: the values before the loop.
          types: their types.
          body: writes an iteration: computes the new values from the index and the old values.
        """
        start, end, step, *kind = bounds
        index, olds, result = self.fresh(), [self.fresh() for _ in inits], self.fresh()
        self.levels.update(dict.fromkeys((index, *olds), self.level + 1))
        head, kinds = f"scf.for {index} = {start} to {end} step {step}", ", ".join(types)
        if inits:
            head = f"{result}:{len(inits)} = {head} iter_args({_pairs(olds, inits)}) -> ({kinds})"
        with self.block(f"{head}{''.join(f' : {k}' for k in kind)} {{"):
            self.write_yield(body(index, olds), types)
        return self.results(result, len(inits))

    def while_loop(
        self, inits: Sequence[str], types: Sequence[str], condition: Callable[[Names], str], body: Callable[[Names], Sequence[str]]
    ) -> Names:
        """The values after a loop that runs as long as a condition holds.

        Args:
          inits: the values before the loop.
          types: their types.
          condition: computes an i1 from the values.
          body: writes an iteration: computes the new values from the old ones.
        """
        tests, olds = ([self.fresh() for _ in inits] for _ in range(2))
        self.levels.update(dict.fromkeys((*tests, *olds), self.level + 1))
        result, kinds = self.fresh(), ", ".join(types)
        with self.separate_lines() as before:
            self.line(f"scf.condition({condition(tests)}) {', '.join(tests)} : {kinds}")
        with self.separate_lines() as after:
            self.write_yield(body(olds), types)
        heads = ", ".join(f"{name}: {type}" for name, type in zip(olds, types, strict=True))
        self.line(f"{result}:{len(inits)} = scf.while ({_pairs(tests, inits)}) : ({kinds}) -> ({kinds}) {{")
        for line in (*before, "} do {", f"^bb0({heads}):", *after, "}"):
            self.line(line)
        return self.results(result, len(inits))

    def write_yield(self, values: Sequence[str], types: Sequence[str]) -> None:
        """Writes the end of a region with the results `values` of these types; nothing for a region without results."""
        if values:
            self.line(f"scf.yield {', '.join(values)} : {', '.join(types)}")


def _pairs(names: Sequence[str], values: Sequence[str]) -> str:
    """The text of initial values in the head of a loop: ``%v1 = %a, %v2 = %b``."""
    return ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))


def load(memory: str, type: str, index: str, vector: str = "") -> str:
    """The text of an operation that loads an element, or, with the type of a vector, the vector that begins at an index."""
    return f"vector.load {memory}[{index}] : {type}, {vector}" if vector else f"memref.load {memory}[{index}] : {type}"


def store(x: str, memory: str, type: str, index: str, vector: str = "") -> str:
    """The text of an operation that stores an element, or a vector that begins at an index."""
    return f"vector.store {x}, {memory}[{index}] : {type}, {vector}" if vector else f"memref.store {x}, {memory}[{index}] : {type}"
