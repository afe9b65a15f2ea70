"""The process that runs the kernels of a mock driver: python -m gpu.driver.simulator MEMORY SIZE TO FROM (numbers of open files).

mock.c states the lines that it reads and answers.
"""

from __future__ import annotations

import mmap
import os
import sys
import traceback
from typing import BinaryIO, TextIO

import numpy as np

from gpu.ptx.numbers import BITS, DTYPES
from gpu.ptx.parser import Kernel, parse
from gpu.ptx.simulator import Simulator


def main(memory: int, size: int, source: int, target: int) -> None:
    """Answers until the other process ends."""
    data = np.frombuffer(mmap.mmap(memory, size), np.uint8)
    modules: dict[int, dict[str, Kernel]] = {}
    simulator = Simulator(data, is_counting=False)
    with os.fdopen(source, "rb") as lines, os.fdopen(target, "w") as answers:
        while line := lines.readline():
            try:
                _answer(line.decode().split(), lines, answers, simulator, modules)
            except Exception:
                traceback.print_exc()
                print(line.decode(), file=sys.stderr)
                print(1 if line[:1] in b"ML" else -1, file=answers, flush=True)


def _answer(
    words: list[str], lines: BinaryIO, answers: TextIO, simulator: Simulator, modules: dict[int, dict[str, Kernel]]
) -> None:
    kind, *rest = words
    if kind == "B":
        simulator.base = int(rest[0])
    elif kind == "M":
        modules[int(rest[0])] = parse(lines.read(int(rest[1])).decode())
        print(0, file=answers, flush=True)
    elif kind == "F":
        sizes = [BITS[kind] // 8 for kind, _ in modules[int(rest[0])][rest[1]].parameters]
        print(len(sizes), *sizes, file=answers, flush=True)
    elif kind == "L":
        kernel = modules[int(rest[0])][rest[1]]
        grid, threads, dynamic, *arguments = map(int, rest[2:5]), map(int, rest[5:8]), *map(int, rest[8:])
        values = [
            int(np.uint64(x).astype(DTYPES[f"u{BITS[kind]}"])) for x, (kind, _) in zip(arguments, kernel.parameters, strict=True)
        ]
        simulator.launch(kernel, tuple(grid), values, tuple(threads), dynamic)
        print(0, file=answers, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
