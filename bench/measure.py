"""Measures thresholds again: the numbers in nabla_mlir/base/thresholds.py, next to those of this machine.

usage: python bench/measure.py [NAME ...]
Without a name it measures all thresholds, in a few minutes. If a threshold selects between two strategies, both are timed at
several sizes, and the result is the first size from which on the second is always faster. If a size can be chosen freely, the
result is the fastest size. The script writes no file: thresholds.py is edited by hand, with the machine and the date.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from measuring import console, cores
from rich.table import Table

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir import runtime
from nabla_mlir.base import thresholds
from nabla_mlir.prepared.blocks import in_a_row
from nabla_mlir.runtime.timing import median
from nabla_mlir.runtime.transfer import fill, memory_of

Call = Callable[[], Any]
SECONDS = 0.02  # the time for which each call is repeated in each round
ROUNDS = 5


class Experiment(Protocol):
    """The measurement of a threshold on this machine."""

    def run(self, name: str) -> float:
        """Returns the value in the unit that thresholds.py states."""


@dataclass(frozen=True)
class Crossing:
    """The size from which on the strategy for large sizes is always faster; twice the largest size if it never is.

    Args:
      sizes: increasing sizes in the unit of the threshold.
      call: returns the timed call for a size; it is made with the threshold below and above all sizes.
    """

    sizes: Sequence[int]
    call: Callable[[int], Call]

    def run(self, name: str) -> float:
        ahead: list[bool] = []
        for size in self.sizes:
            with replaced(name, 0):
                low_time = seconds_of(self.call(size))
            with replaced(name, 2 * self.sizes[-1] + 1):
                high_time = seconds_of(self.call(size))
            ahead.append(low_time <= high_time)
            console.print(f"  {size:>12,}: {low_time * 1e6:10.1f} µs with the threshold below, {high_time * 1e6:10.1f} above")
        after = max((i for i, is_ahead in enumerate(ahead) if not is_ahead), default=-1)
        return self.sizes[after + 1] if after + 1 < len(self.sizes) else 2 * self.sizes[-1]


@dataclass(frozen=True)
class Best:
    """The fastest of several values; the present value if none is faster by 5 per cent."""

    values: Sequence[int]
    call: Callable[[], Call]

    def run(self, name: str) -> float:
        times: dict[int, float] = {}
        for value in self.values:
            with replaced(name, value):
                times[value] = seconds_of(self.call())
            console.print(f"  {value:>12,}: {times[value] * 1e6:10.1f} µs")
        fastest, today = min(times, key=times.__getitem__), getattr(thresholds, name)
        return today if times[fastest] > 0.95 * times.get(today, math.inf) else fastest


@dataclass(frozen=True)
class Rate:
    """A threshold that is a measured time."""

    measure: Callable[[], float]

    def run(self, name: str) -> float:
        return self.measure()


@contextmanager
def replaced(name: str, value: float) -> Iterator[None]:
    """A context with another value of a threshold."""
    before = getattr(thresholds, name)
    setattr(thresholds, name, value)
    try:
        yield
    finally:
        setattr(thresholds, name, before)


def seconds_of(call: Call) -> float:
    """The median time in the best of some rounds."""
    return min(median(call, SECONDS) for _ in range(ROUNDS))


def program(f: Callable[..., Any], *arrays: np.ndarray, driver: str = "local-sync") -> Call:
    """Compiles a function, and returns a call of it on arrays of the device."""
    compiled = nm.trace(f, *(nm.spec(x.shape, x.dtype) for x in arrays), name="f").lower().compile()
    executable = runtime.Executable.load(compiled.vmfb, runtime.pooled(driver))
    function, given = executable.function("f"), [runtime.Array.from_numpy(x, executable.device) for x in arrays]

    def call() -> None:
        for result in function(given):
            result.block_until_ready()

    return call


def numbers(*shape: int) -> np.ndarray:
    """Random numbers that are equal in every run."""
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


# ---------------------------------------------------------------- runtime


def copies(size: int) -> Call:
    array = np.zeros(size, np.uint8)
    return lambda: runtime.Array.from_numpy(array)


def results(size: int) -> Call:
    """A call that writes its result to memory of NumPy."""
    memory = np.zeros(size + 64, np.uint8)
    start, where = -memory.ctypes.data % 64, runtime.device("local-sync")
    target = memory[start : start + size]
    return lambda: fill(target, memory_of(target, where), None)


def pool() -> tuple[float, float]:
    """The overhead in microseconds of a call on the thread pool: for the call, and for each dispatch."""
    x = numbers(256, 256)

    def chain(count: int) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            y = x
            for _ in range(count):
                y = y @ x
            return y

        return f

    extra = []
    for count in (1, 9):
        sync, task = (seconds_of(program(chain(count), x, driver=d)) for d in ("local-sync", "local-task"))
        console.print(f"  {count} dispatches: {sync * 1e6:.1f} µs on one thread, {task * 1e6:.1f} on the pool")
        extra.append((task - sync / cores()) * 1e6)
    each = (extra[1] - extra[0]) / 8
    return max(extra[0] - each, 0.0), each


# ---------------------------------------------------------------- prepared products


def block_of_vectors(size: int) -> Call:
    """A chain of elementwise operations on each of 16 vectors with results of this size."""
    x = numbers(size // 4)

    def product(v: Any) -> Any:
        y = v
        for k in range(4):
            y = nnp.tanh(y * (1.0 + k)) + nnp.roll(y, 1)
        return y

    form = nm.vmap if size < thresholds.SMALL_RESULT else in_a_row
    return program(form(product), np.broadcast_to(x, (16, *x.shape)).copy())


# ---------------------------------------------------------------- estimates of calls


def nanoseconds(f: Callable[..., Any], *arrays: np.ndarray, of: int) -> float:
    """The nanoseconds of a call on one thread divided by the number `of`."""
    return seconds_of(program(f, *arrays)) * 1e9 / of


def each_of_a_chain(step: Callable[[Any], Any]) -> float:
    """The nanoseconds for each element of one more elementwise operation in a chain."""

    def chain(count: int) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            for _ in range(count):
                x = step(x)
            return x

        return f

    x = numbers(1 << 17)
    short, long = (nanoseconds(chain(count), x, of=x.size) for count in (4, 20))
    return (long - short) / 16


def scattered() -> float:
    indices = np.random.default_rng(0).integers(0, 1 << 16, 1 << 16).astype(np.int32)
    return nanoseconds(lambda x, y, i: x.at[i].add(y), numbers(1 << 16), numbers(1 << 16), indices, of=1 << 16)


# ---------------------------------------------------------------- products and kernels on a CPU


def product(rows: int, columns: int, length: int, driver: str = "local-sync") -> Call:
    return program(lambda a, b: a @ b, numbers(rows, length), numbers(length, columns), driver=driver)


def cube(multiplications: int) -> Call:
    """A product of three equal sizes."""
    n = round(multiplications ** (1 / 3))
    return product(n, n, n)


def products(multiplications: int) -> Call:
    """50 products whose sizes are not multiples of a vector."""
    length = multiplications // 100
    return program(lambda a, b: a @ b, numbers(50, 10, length), numbers(50, length, 10))


def swapped(rows: int, columns: int) -> Call:
    """A product with a transposed factor."""
    return program(lambda a, b: a @ b.T, numbers(rows, 512), numbers(columns, 512))


def block(multiplications: int) -> Call:
    """Products of a matrix with 16 others, which have too few rows for the large kernel."""
    n = math.isqrt(multiplications // 20)
    return program(nm.vmap(lambda a, b: a @ b, in_axes=(None, 0)), numbers(20, n), numbers(16, n, n))


def kernel_work(operations: int) -> Call:
    """A recurrent network on all cores whose iteration has this number of operations."""

    def f(w: Any, h: Any, xs: Any) -> Any:
        return nm.scan(lambda h, x: (nnp.tanh(h @ w + x), nnp.sum(h)), h, xs)

    rows = operations // (2 * 128 * 128)
    return program(f, numbers(128, 128) / 128, numbers(rows, 128), numbers(20, rows, 128), driver="local-task")


def transform(n: int) -> Call:
    return program(lambda x: nnp.real(nnp.fft.fft(x)), numbers(64, n))


def positive(n: int) -> np.ndarray:
    a = numbers(n, n)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


def recurrence() -> Call:
    """A recurrent network, whose loop is one kernel."""

    def f(w: Any, h: Any, xs: Any) -> Any:
        return nm.scan(lambda h, x: (nnp.tanh(h @ w + x), nnp.sum(h)), h, xs)

    return program(f, numbers(40, 40) / 40, numbers(16, 40), numbers(50, 16, 40))


def powers(first: int, last: int) -> list[int]:
    """Powers of two, by their exponents."""
    return [1 << k for k in range(first, last + 1)]


EXPERIMENTS: Mapping[str, Experiment] = {
    "DIRECT_COPY": Crossing(powers(16, 24), copies),
    "LENT_RESULT": Crossing(powers(12, 22), results),
    "POOL_CALL": Rate(lambda: pool()[0]),
    "POOL_DISPATCH": Rate(lambda: pool()[1]),
    "SMALL_RESULT": Crossing(powers(10, 18), block_of_vectors),
    "FLOP": Rate(lambda: nanoseconds(lambda a: a @ a, numbers(512, 512), of=2 * 512**3)),
    "BYTE": Rate(lambda: nanoseconds(lambda a, v: a @ v, numbers(512, 512), numbers(512), of=4 * 512 * 512)),
    "ELEMENT": Rate(lambda: each_of_a_chain(lambda x: abs(x - 0.5))),
    "FUNCTION_ELEMENT": Rate(lambda: each_of_a_chain(lambda x: nnp.exp(-x))),
    "MOVED_ELEMENT": Rate(lambda: nanoseconds(lambda a: a.T.copy(), numbers(512, 512), of=512 * 512)),
    "SCATTERED_ELEMENT": Rate(scattered),
    "WORKGROUP_WORK": Best(powers(13, 19), lambda: product(256, 512, 512, "local-task")),
    "WORKGROUPS": Best(powers(2, 8), lambda: product(2048, 512, 512, "local-task")),
    "TILED_PRODUCT": Crossing([400, 800, 1600, 3200, 6400, 12800], products),
    "TILED_ROWS": Crossing([2, 3, 4, 5, 6, 8], lambda rows: product(rows, 512, 512)),
    "CACHED_FACTOR": Best(powers(13, 20), lambda: product(1797, 64, 512)),
    "PACKED_PRODUCT": Crossing(powers(16, 24), cube),
    "PACKED_SIDE": Crossing([16, 24, 32, 48, 64], lambda rows: product(rows, 512, 512)),
    "PACKED_TERMS": Best([128, 192, 256, 384, 512], lambda: product(1000, 1000, 1000)),
    "PACKED_ROWS": Best([48, 96, 144, 192, 288], lambda: product(1000, 1000, 1000)),
    "PACKED_GROUPS": Best([2, 4, 8, 16, 32], lambda: product(1000, 1000, 1000, "local-task")),
    "PACKED_GROUP_WORK": Best(powers(16, 22), lambda: product(128, 128, 128, "local-task")),
    "KERNEL_ROWS": Crossing([8, 16, 24, 32, 48, 64], lambda n: program(nnp.linalg.cholesky, positive(n))),
    "CHOLESKY_PANEL": Best([16, 32, 64, 128], lambda: program(nnp.linalg.cholesky, positive(512))),
    "LU_PANEL": Best([32, 64, 96, 128], lambda: program(nnp.linalg.det, positive(512))),
    "UNROLLED": Best([1, 2, 4, 8], recurrence),
    "SUMMED_ROWS": Best([1, 2, 4, 8, 16], recurrence),
    "KERNEL_WORK": Crossing([1 << k for k in range(17, 24)], kernel_work),
    "SEPARATE_PRODUCT": Crossing(powers(13, 20), block),
    "SWAPPED_FACTORS": Crossing([2, 4, 8, 16, 64], lambda ratio: swapped(32, 32 * ratio)),
    "SWAPPED_ROWS": Crossing([8, 16, 24, 32, 48], lambda rows: swapped(rows, 16 * rows)),
    "OWN_DISPATCH": Best(
        [1000, 10_000, 100_000], lambda: program(lambda a, v: 1 / (1 + nnp.exp(-(a @ v))), numbers(2000, 100), numbers(100))
    ),
    "SUM_AS_PRODUCT": Crossing(powers(8, 18), lambda n: program(lambda x: x.sum(axis=0), numbers(n // 16, 16))),
    "SUM_BY_ROWS": Crossing(powers(8, 18), lambda n: program(lambda x: (x * x).sum(), numbers(n // 16, 16))),
    "DENSE_TRANSFORM": Crossing([16, 32, 64, 128, 256], transform),
    "DENSE_PRIME_TRANSFORM": Best([256, 512], lambda: transform(509)),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measures the named thresholds, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(EXPERIMENTS)}")
    names = parser.parse_args(argv).names or list(EXPERIMENTS)
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        parser.error(f"NAME requires a measured threshold, got {', '.join(unknown)}.")
    table = Table("threshold", "today", "here", "unit", "measured on", title="Thresholds", title_justify="left")
    stated = thresholds.table()
    for i, name in enumerate(names):
        console.print(f"{name} ({i + 1} of {len(names)})")
        value, origin = stated[name]
        assert isinstance(origin, thresholds.Measured)
        table.add_row(name, _shown(value), _shown(EXPERIMENTS[name].run(name)), origin.unit, origin.machine)
    console.print(table)
    return 0


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.{max(0, 2 - math.floor(math.log10(abs(value) or 1)))}f}"


if __name__ == "__main__":
    raise SystemExit(main())
