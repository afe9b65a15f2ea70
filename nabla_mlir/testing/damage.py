"""Damaged files: bytes and lines are changed at random and read in a separate process, which may crash or hang.

    python -m nabla_mlir.testing.fuzz --of zip --minutes 5 --seed 1

The reader must accept a damaged file with its original meaning, or refuse it with an error of nabla_mlir. Another error, a
crash and a hang are faults. `KINDS` lists the kinds of files.
"""

from __future__ import annotations

import collections
import functools
import io
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from iree.compiler import ir

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import NablaError
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects.regions import functions_of, is_private
from nabla_mlir.interop.portable import parse
from nabla_mlir.interpreter import interpreted
from nabla_mlir.passes.base import PASSES
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.runtime.manifest import Leaf
from nabla_mlir.runtime.storage import Artifact
from nabla_mlir.testing.checks import LawError
from nabla_mlir.testing.programs import random_module
from nabla_mlir.tools.inputs import bind
from nabla_mlir.tools.values import check_equal, inputs_of

SECONDS = 60  # the time limit for one file
_WORDS = re.compile(r"[\w.]+|[^\w\s]")
Numbers = np.random.Generator


def damaged(content: bytes, rng: Numbers) -> bytes:
    """The content with some bytes changed, removed or doubled, or with its end removed.

    `rng` makes the random choices.

    Example:
      >>> damaged(b"abcd", np.random.default_rng(0)) != b"abcd"
      True
    """
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        if not data:
            break
        offset, length = int(rng.integers(len(data))), int(rng.integers(1, 9))
        change = rng.integers(6)
        if change == 0:
            data[offset] ^= 1 << int(rng.integers(8))
        elif change == 1:
            data[offset : offset + length] = rng.bytes(length)
        elif change == 2:
            del data[offset : offset + length]
        elif change == 3:
            data[offset:offset] = data[offset : offset + length]
        elif change == 4:
            data[offset : offset + 4] = int(rng.choice([0, 1, 2**31 - 1, 2**32 - 1])).to_bytes(4, "little")
        else:
            del data[offset:]
    return bytes(data) if bytes(data) != content else damaged(content, rng)


def altered(text: str, rng: Numbers) -> str:
    """The text with some words and lines moved, removed or doubled, and with other numbers, as `rng` draws them."""
    for _ in range(int(rng.integers(1, 4))):
        lines = text.splitlines()
        i, j = (int(k) for k in rng.integers(len(lines), size=2))
        words, others = _WORDS.findall(lines[i]), _WORDS.findall(lines[j])
        change = rng.integers(7)
        if change == 0:
            del lines[i]
        elif change == 1:
            lines.insert(i, lines[j])
        elif change == 2:
            lines[i], lines[j] = lines[j], lines[i]
        elif change in (3, 4) and words and others:
            lines[i] = lines[i].replace(words[rng.integers(len(words))], others[rng.integers(len(others))], 1)
        elif change == 5:
            numbers = list(re.finditer(r"\d+", lines[i]))
            if numbers:
                match = numbers[rng.integers(len(numbers))]
                number = rng.choice(["0", "1", "2", "3", "-1", "7", "4294967296", "9223372036854775807"])
                lines[i] = lines[i][: match.start()] + str(number) + lines[i][match.end() :]
        elif words:
            lines[i] = lines[i].replace(words[rng.integers(len(words))], "", 1)
        text = "\n".join(lines) + "\n"
    return text


def _text(rng: Numbers) -> str:
    """The text of a random module, usually altered. `rng` makes the random choices."""
    text = str(random_module(int(rng.integers(400)), int(rng.integers(1, 7))))
    return text if rng.integers(8) == 0 else altered(text, rng)


def _run_passes(module: ir.Module, rng: Numbers) -> None:
    """Runs passes that `rng` draws on a module; raises an error if the results of its functions change."""
    operation = module.operation
    Pipeline.parse("nabla-verify").run(module)
    names = [n for n, f in functions_of(operation).items() if not is_private(f)]
    arguments = {name: inputs_of(module, name, ()) for name in names}

    def results() -> dict[str, list[np.ndarray]]:
        """The results of all functions by name; raises LawError if they run too many operations."""
        count = iter(range(100_000))

        def watch(*_: object) -> None:
            """Counts one operation; raises LawError after 100,000."""
            if next(count, None) is None:
                raise LawError("a program requires fewer operations to be tried.")

        return {n: [np.asarray(y) for y in interpreted(operation, n, watch)(list(arguments[n]))] for n in names}

    with np.errstate(all="ignore"):
        before = results()
        if any(not np.isfinite(y).all() for ys in before.values() for y in ys if y.dtype.kind in "fc"):
            return
        if rng.integers(2):
            lower_module(module)
        sequence = [str(p) for p in rng.choice(_SAFE, int(rng.integers(1, 6)))]
        for name in sequence:
            try:
                Pipeline.parse(name).run(module)
            except NablaError:
                continue
        after = results()
    for name in names:
        try:
            check_equal(before[name], after[name], " ".join(sequence))
        except NablaError as error:
            raise AssertionError(error.message) from error


_SAFE = [
    name
    for name in PASSES
    if name
    not in ("nabla-verify-lowered", "nabla-transform", "nabla-split", "nabla-jvp", "nabla-vjp", "nabla-vmap", "nabla-sparsity")
    and "iree" not in name
]


def _read_text(rng: Numbers, _folder: Path) -> None:
    _run_passes(parse(_text(rng)), rng)


def _read_import(rng: Numbers, _folder: Path) -> None:
    """Imports a damaged StableHLO program from memory, and lowers its jvp; `rng` makes the damage, and the folder is not used."""
    f: Any = nm.from_stablehlo(_text(rng))
    specs = [nm.spec(shape, dtype) for shape, dtype in f.inputs]
    nm.trace(lambda *xs: nm.jvp(f, xs, xs), *specs).lower()


def _read_bytecode(rng: Numbers, _folder: Path) -> None:
    """Runs random passes on a module that is read from damaged bytecode; `rng` draws the damage, and the folder is not used."""
    content, _ = _artifact()
    stablehlo = Artifact(content).stablehlo()
    _run_passes(parse(damaged(stablehlo, rng)), rng)


@functools.cache
def _artifact() -> tuple[bytes, np.ndarray]:
    """The content of a small artifact, and arguments of its function."""
    traced = nm.trace(lambda x: {"y": nnp.sin(x) * 2, "z": (x.sum(), x > 0)}, nm.spec(3, np.float32), name="main")
    compiled = traced.lower().compile()
    x = np.array([0.1, -0.2, 0.3], np.float32)
    return compiled.to_bytes(), x


def _read_zip(rng: Numbers, _folder: Path) -> None:
    """Loads and calls a damaged archive; raises AssertionError if it runs and gives a wrong number. `rng` draws the damage."""
    content, x = _artifact()
    module = nm.load(damaged(content, rng))
    got = module["main"](x)
    np.testing.assert_allclose(np.asarray(got["y"]), np.sin(x) * 2, rtol=1e-5)


def _read_files(rng: Numbers, folder: Path, kind: str) -> None:
    """Loads and calls an artifact in `folder` whose files with names that end in `kind` are damaged; `rng` draws the damage.

    Raises AssertionError if damaged code runs and gives a wrong number.
    """
    content, x = _artifact()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            if name.endswith(kind):
                data = altered(data.decode(), rng).encode() if kind == ".json" and rng.integers(3) else damaged(data, rng)
            (folder / name).write_bytes(data)
    module = nm.load(folder / "artifact.json")
    got = module["main"](x)
    if kind != ".json":  # a damaged manifest may be a valid one with other names
        np.testing.assert_allclose(np.asarray(got["y"]), np.sin(x) * 2, rtol=1e-5)
    module.lower()  # reads the stored StableHLO, which a call does not need


def _read_npy(rng: Numbers, folder: Path) -> None:
    """Reads a damaged .npy file in `folder` as an argument of a function; `rng` draws the damage."""
    path = folder / "x.npy"
    np.save(path, rng.uniform(size=(2, 3)).astype(rng.choice(["f4", "f8", "i4", "c8", "?"])))
    path.write_bytes(damaged(path.read_bytes()[:140], rng) if rng.integers(2) else damaged(path.read_bytes(), rng))
    bind([str(path)], [Leaf("x", (2, 3), "float32")], "main")


KINDS: dict[str, Callable[[Numbers, Path], None]] = {
    "text": _read_text,
    "import": _read_import,
    "bytecode": _read_bytecode,
    "zip": _read_zip,
    "npy": _read_npy,
    "vmfb": lambda rng, folder: _read_files(rng, folder, ".vmfb"),
    "manifest": lambda rng, folder: _read_files(rng, folder, ".json"),
}


def read(kind: str, seed: int) -> str:
    """The outcome of reading one damaged file: "read", "refused (NAME)", or "FAULT" with the error."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            KINDS[kind](np.random.default_rng([seed, *kind.encode()]), Path(folder))
        except NablaError as error:
            return f"refused ({type(error).__name__})"
        except (Exception, RecursionError) as error:
            frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-3:]]
            return f"FAULT {type(error).__name__} {' '.join(frames)}: {str(error)[:200]!r}"
    return "read"


def _child(kind: str, first: int) -> None:
    """Reads damaged inputs of the given kind with the seeds first, first + 1, ..., without end; prints each seed and its outcome.

    An alarm ends the process if one input takes too long, and the parent starts another one.
    """
    seed = first
    while True:
        signal.alarm(SECONDS)
        print(seed, end=" ", flush=True)
        print(read(kind, seed), flush=True)
        seed += 1


def survey(kind: str, seed: int, minutes: float) -> collections.Counter[str]:
    """The number of files for each outcome, after damaged files are read for some minutes; faults are printed at once."""
    end, counts = time.monotonic() + 60 * minutes, collections.Counter[str]()
    while time.monotonic() < end:
        command = [sys.executable, "-m", "nabla_mlir.testing.damage", kind, str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                number, _, fate = line.strip().partition(" ")
                if not fate:
                    break  # the process ended before it sent a result
                seed = int(number) + 1
                counts[fate.partition(":")[0]] += 1
                if fate.startswith("FAULT"):
                    print(kind, number, fate, flush=True)
                if time.monotonic() > end:
                    process.kill()
                    return counts
            fate = f"FAULT: the process ends with {process.wait()}"
            print(kind, seed, fate, flush=True)
            counts[fate.partition(":")[0]] += 1
            seed += 1
    return counts


if __name__ == "__main__":
    _child(sys.argv[1], int(sys.argv[2]))
