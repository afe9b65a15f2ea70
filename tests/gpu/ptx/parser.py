"""The text of a PTX module as kernels, each a list of instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from gpu.ptx.numbers import BITS, Array


class Unsupported(NotImplementedError):
    """The interpreter does not have an instruction, or a form of it; the text names it."""


@dataclass(frozen=True)
class Register:
    """A register, a special value such as %tid.x, or the name of an array."""

    name: str


@dataclass(frozen=True)
class Number:
    """A number in the text: an integer, or the bits of an f32 or f64."""

    value: int
    kind: str = "int"


@dataclass(frozen=True)
class Vector:
    """Several operands in braces."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """Two results, such as those of shfl and setp."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Address:
    """An address: a register or the name of an array, and an offset in bytes."""

    base: str
    offset: int


Operand = Register | Number | Vector | Pair | Address


@dataclass
class Instruction:
    """An instruction, such as `@!%p1 add.rn.f32 %f1, %f2, %f3`: its name, the words after it, its operands and its predicate."""

    name: str
    words: tuple[str, ...]
    operands: list[Operand]
    predicate: str | None
    is_negated: bool
    text: str

    @property
    def kind(self) -> str:
        """The last type among the words."""
        for word in reversed(self.words):
            if word in BITS:
                return word
        raise Unsupported(f"the interpreter has no form of this instruction without a type: {self.text}")

    def has(self, *words: str) -> bool:
        """True if one of these words follows the name."""
        return any(word in self.words for word in words)

    def unsupported(self) -> Unsupported:
        """The error that this form of the instruction is not there."""
        return Unsupported(f"the interpreter does not have this instruction: {self.text}")


@dataclass
class Kernel:
    """A kernel of a module.

    Args:
      parameters: the type and the name of each.
      registers: the type of each register, or of those with one prefix.
      labels: the number of the instruction that each label stands before.
      shared, local: the offset and the size of each array in shared memory and in that of a thread.
      constants: the offset of each array of the module in `numbers`.
      threads: the size of a block, if the text states it.
    """

    name: str
    parameters: list[tuple[str, str]]
    registers: dict[str, str]
    instructions: list[Instruction]
    labels: dict[str, int]
    shared: dict[str, tuple[int, int]]
    local: dict[str, tuple[int, int]]
    constants: dict[str, int]
    numbers: Array
    threads: tuple[int, ...] = ()
    _types: dict[str, str | None] = field(default_factory=dict)

    def register_type(self, name: str) -> str | None:
        """The type of a register; None if there is none of this name."""
        if name not in self._types:
            self._types[name] = self.registers.get(name) or self.registers.get(name.rstrip("0123456789"))
        return self._types[name]

    @property
    def has_atomics(self) -> bool:
        """True if threads of different blocks may wait for each other."""
        return any(i.name in ("atom", "red") or i.has("acquire", "volatile") for i in self.instructions)


def parse(text: str) -> dict[str, Kernel]:
    """The kernels of a module, by name."""
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    shared = _arrays(r"\.shared\s+\.align\s+(\d+)\s+\.b8\s+([\w$.]+)\[(\d*)\]", text)
    constants, numbers = _constants(text)
    kernels = {}
    for match in re.finditer(r"\.entry\s+([\w$.]+)\s*(?:\((.*?)\))?\s*([^{]*?)\{", text, flags=re.S):
        name, parameters, directives = match[1], match[2] or "", match[3]
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        body = re.sub(r"\.loc\s+[^\n]*", "", text[match.end() : end - 1])
        size = re.search(r"\.(?:reqntid|maxntid)\s+([\d,\s]+)", directives)
        threads = tuple(map(int, re.findall(r"\d+", size[1]))) if size else ()
        local = _arrays(r"\.local\s+\.align\s+(\d+)\s+\.b8\s+([\w$]+)\[(\d+)\]", body)
        registers, instructions, labels = _statements(body)
        kernels[name] = Kernel(
            name,
            [_parameter(p) for p in _split(parameters)],
            registers,
            instructions,
            labels,
            shared,
            local,
            constants,
            numbers,
            threads,
        )
    return kernels


def _arrays(pattern: str, text: str) -> dict[str, tuple[int, int]]:
    """The offset and the size of each array that a pattern of alignment, name and size finds."""
    result, end = {}, 0
    for match in re.finditer(pattern, text):
        align, size = int(match[1]), int(match[3] or 0)
        end = -(-end // align) * align
        result[match[2]] = (end, size)
        end += size
    return result


def _constants(text: str) -> tuple[dict[str, int], Array]:
    """The arrays of the module with their numbers: the offset of each, and all bytes."""
    offsets, data = {}, bytearray()
    pattern = r"\.(?:global|const)\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$.]+)(?:\[(\d*)\])?(?:\s*=\s*(\{[^}]*\}|[^;]*))?;"
    for match in re.finditer(pattern, text):
        data += bytes(-len(data) % int(match[1]))
        size = BITS[match[2]] // 8
        given = [int(x, 0) for x in re.findall(r"-?(?:0x[0-9A-Fa-f]+|\d+)", match[5] or "")]
        given += [0] * (int(match[4] or len(given) or 1) - len(given))
        offsets[match[3]] = len(data)
        data += b"".join((x & ((1 << 8 * size) - 1)).to_bytes(size, "little") for x in given)
    return offsets, np.frombuffer(bytes(data) + bytes(16 + -len(data) % 16), np.uint8)


def _parameter(text: str) -> tuple[str, str]:
    words = text.split()
    kinds = [word[1:] for word in words if word[1:] in BITS]
    if not kinds or "[" in words[-1]:
        raise Unsupported(f"the interpreter does not have this parameter: {text}")
    return kinds[0], words[-1]


def _statements(body: str) -> tuple[dict[str, str], list[Instruction], dict[str, int]]:
    """The registers, the instructions and the labels of a kernel; braces of inline assembly are scopes only."""
    registers: dict[str, str] = {}
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for statement in body.split(";"):
        text = " ".join(statement.split())
        while match := re.match(r"[{}]\s*|([$\w%]+):(?!:)\s*", text):
            if match[1]:
                labels[match[1]] = len(instructions)
            text = text[match.end() :]
        if text.startswith(".reg"):
            _, kind, names = text.split(None, 2)
            for name in _split(names):
                name = re.sub(r"<\d+>", "", name)
                if BITS[registers.get(name, kind[1:])] != BITS[kind[1:]]:
                    raise Unsupported(f"the interpreter does not have registers of one name and two sizes: {name}")
                registers[name] = kind[1:]
        elif text and not text.startswith("."):
            instructions.append(_instruction(text))
    return registers, instructions, labels


def _instruction(text: str) -> Instruction:
    predicate = re.match(r"@(!?)(%?\w+)\s+", text)
    rest = text[predicate.end() :] if predicate else text
    head, _, operands = rest.partition(" ")
    name, *words = head.split(".")
    return Instruction(
        name,
        tuple(words),
        [_operand(x) for x in _split(operands)],
        predicate[2] if predicate else None,
        bool(predicate and predicate[1]),
        text,
    )


def _split(text: str) -> list[str]:
    """The parts between commas outside of brackets."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter in "{[(<") - (letter in "}])>")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return [*parts, part.strip()] if part.strip() else parts


def _operand(text: str) -> Operand:
    if text.startswith("{"):
        return Vector(tuple(map(_operand, _split(text[1:-1]))))
    if text.startswith("["):
        base, *offsets = (part.strip() for part in text[1:-1].split("+"))
        return Address(base, sum(int(x, 0) for x in offsets))
    if "|" in text:
        return Pair(tuple(_operand(part.strip()) for part in text.split("|")))
    if match := re.fullmatch(r"0([fFdD])([0-9A-Fa-f]{8}|[0-9A-Fa-f]{16})", text):
        return Number(int(match[2], 16), "f32" if match[1] in "fF" else "f64")
    if re.fullmatch(r"-?(0x[0-9A-Fa-f]+|\d+)U?", text):
        return Number(int(text.rstrip("U"), 0))
    return Register(text)
