"""Compile time over depth and length: Hessian-vector products of unrolled recurrences, against jax.jit, in one run.

usage: python bench/depth.py [--quick] [--out FOLDER]
Writes depth.json. A Clenshaw sum reads each of its values twice; a Runge-Kutta step reads its state four times. Compile times
are measured from the Python function to code, with the sides alternating. The exponents are those of a fit over the deeper
half. Calls are timed with arrays on the device, and results are compared with those in f64.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from measuring import HERE, console, flat, interleaved, relative_error, save
from rich.table import Table

import nabla_mlir as nm
from nabla_mlir import runtime

STEPS = (10, 25, 50, 100, 200)
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (4,), (100,), (10000,))
TOLERANCE = {"f4": 1e-3, "f8": 1e-9}


def clenshaw(steps: int) -> Callable[[Any], Any]:
    """A two-term recurrence with an unrolled loop."""
    coefficients = [float(c) for c in np.random.default_rng(0).normal(size=steps) / steps]

    def f(x: Any) -> Any:
        b = c = 0 * x
        for a in coefficients:
            b, c = 2 * x * b - c + a, b
        return (b - x * c).sum()

    return f


def runge_kutta(steps: int) -> Callable[[Any], Any]:
    """The logistic equation by unrolled steps of the Runge-Kutta method of order four."""

    def slope(y: Any) -> Any:
        return y * (1 - y)

    def f(x: Any) -> Any:
        y, h = x, 1 / steps
        for _ in range(steps):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3))
        return y.sum()

    return f


FUNCTIONS = {"Clenshaw": clenshaw, "Runge-Kutta": runge_kutta}


@dataclass
class Result:
    """The measurements of one function at one depth and length; times are in seconds."""

    function: str
    steps: int
    shape: tuple[int, ...]
    dtype: str
    compile: dict[str, float]
    call: dict[str, float]
    error: float


def measure(name: str, steps: int, shape: tuple[int, ...], dtype: str, quick: bool, out: Path) -> Result:
    """Compiles both sides, compares their results, and times alternating calls."""
    f = FUNCTIONS[name](steps)
    x, v = (np.random.default_rng(seed).uniform(0.1, 0.9, size=shape).astype(dtype) for seed in (1, 2))

    def product(x: Any, v: Any) -> Any:
        return jax.jvp(jax.grad(f), (x,), (v,))[1]

    start = time.perf_counter()
    compiled = nm.trace(nm.hvp(f), x, v, name="hvp").lower().compile(nm.CPU(), cache=False)
    seconds = {"nabla": time.perf_counter() - start}
    path = out / "depth.vmfb"
    compiled.save(path)
    driver = runtime.load(path).driver_of("hvp")
    module, device = runtime.load(path, driver), runtime.device(driver)
    ours = [runtime.Array.from_numpy(a, device) for a in (x, v)]
    with jax.enable_x64(True):
        start = time.perf_counter()
        theirs = jax.jit(product).lower(x, v).compile()
        seconds["jax"] = time.perf_counter() - start
        arrays = [jax.device_put(a) for a in (x, v)]
        wanted = jax.jit(product)(x.astype("f8"), v.astype("f8"))
        calls = {"nabla": lambda: module.hvp(*ours), "jax": lambda: jax.block_until_ready(theirs(*arrays))}
        times = interleaved(calls, quick)
    return Result(name, steps, shape, dtype, seconds, times, relative_error(flat(module.hvp(*ours)), flat(wanted)))


def exponent(results: list[Result], side: str) -> float:
    """The power of the depth with which compile time grows, over the deeper half."""
    deep = results[len(results) // 2 :]
    return float(np.polyfit(np.log([r.steps for r in deep]), np.log([r.compile[side] for r in deep]), 1)[0])


def report(rows: list[list[Result]]) -> None:
    """Prints a row for each function, shape and dtype."""
    title = "seconds of compiling, ours / JAX's, by steps; their growth; microseconds of a call with most steps"
    table = Table("", *(f"{r.steps}" for r in rows[0]), "exponent", "JAX's", "call", title=title)
    for row in rows:
        last = row[-1]
        table.add_row(
            f"{last.function} {last.shape} {last.dtype}",
            *(f"{r.compile['nabla']:.2f} / {r.compile['jax']:.2f}" for r in row),
            f"{exponent(row, 'nabla'):.2f}",
            f"{exponent(row, 'jax'):.2f}",
            f"{last.call['nabla'] * 1e6:,.0f} / {last.call['jax'] * 1e6:,.0f}",
        )
    console.print(table)


def main() -> int:
    """Runs all cases; returns 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer depths, lengths and repetitions")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder for the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    steps, shapes = (STEPS[:3], SHAPES[::3]) if options.quick else (STEPS, SHAPES)
    rows = []
    for name in FUNCTIONS:
        for shape in shapes:
            for dtype in ("f4", "f8"):
                with console.status(f"{name} {shape} {dtype} ..."):
                    rows.append([measure(name, n, shape, dtype, options.quick, options.out) for n in steps])
    report(rows)
    results = [r for row in rows for r in row]
    save(options.out / "depth.json", {"results": [asdict(r) for r in results]})
    wrong = [r for r in results if not r.error <= TOLERANCE[r.dtype]]
    for r in wrong:
        console.print(f"{r.function} {r.steps} {r.shape} {r.dtype}: relative error {r.error:.1e}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
