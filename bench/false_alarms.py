"""Counts false alarms of the check: correct evaluations of programs with other rounding that the check refuses.

usage: false_alarms.py [MINUTES] [SEED] [table]

A correct evaluation adds sums in another order (reversed, sequential, in two halves), changes functions by one unit in the last
place, and rounds sums of two numbers as if they were exact. It shares no random number with the perturbed runs. Each program is
evaluated on many arguments; half of them are on a grid, where numbers are equal, zero or not finite. The programs of the table
are followed by random nestings of transforms; with "table", only the programs of the table are repeated.
"""

from __future__ import annotations

import collections
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from iree.compiler import ir

import nabla_mlir as nm
import nabla_mlir.jax.scipy.special as special
import nabla_mlir.numpy as nnp
from nabla_mlir.compiling.comparison import compare
from nabla_mlir.compiling.reference_runs import ReferenceRuns
from nabla_mlir.dialects.types import is_float
from nabla_mlir.interpreter import Budget, OutOfStepsError, functions
from nabla_mlir.interpreter.evaluations import evaluation_of
from nabla_mlir.staging.specs import Spec
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.testing.deep import Deep

la = nnp.linalg
_EXACT = tuple(f"stablehlo.{name}" for name in ("divide", "sqrt", "remainder", "floor", "ceil", "sign"))


class OtherRounding:
    """Evaluates operations with other rounding; the interpreter calls it as its `watch` after each operation."""

    def __init__(self) -> None:
        self.seed(0)

    def seed(self, seed: int) -> None:
        """Starts another evaluation with a seed."""
        self._rng = np.random.RandomState(seed)

    def __call__(self, op: ir.Operation, operands: list[np.ndarray], results: list[np.ndarray]) -> None:
        """Replaces the elements of `results`."""
        name, record = op.name, REGISTRY.get(op.name)
        if record is None or not all(is_float(y.dtype) for y in results):
            return
        if name == "stablehlo.dot_general":
            results[0] = self._product(op, operands, results[0].dtype)
        elif name == "stablehlo.reduce" and len(operands) == 2 and _adds(op):
            axes = tuple(record.read(op)["dimensions"])
            results[0] = (self._sum(operands[0], axes) + operands[1]).astype(results[0].dtype)
        elif record.elementwise and record.instructions >= 8 and name not in _EXACT:
            step = self._rng.randint(-1, 2, results[0].shape)
            results[0] = _moved(results[0], step)
        elif name in ("stablehlo.add", "stablehlo.subtract") and results[0].dtype.itemsize < 8:
            wide = [x.astype(np.float64) for x in operands]
            both = wide[0] + wide[1] if name == "stablehlo.add" else wide[0] - wide[1]
            results[0] = both.astype(results[0].dtype)

    def _product(self, op: ir.Operation, operands: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
        """A product whose terms are added from the last to the first, or in f64."""
        record = REGISTRY[op.name]
        parameters = record.read(op)
        numbers = parameters["dot_dimension_numbers"]
        flipped = [
            np.flip(x, tuple(numbers[f"{side}_contracting_dimensions"])) for x, side in zip(operands, ("lhs", "rhs"), strict=True)
        ]
        if self._rng.randint(2) and dtype.itemsize < 8:
            flipped, parameters = [x.astype(np.float64) for x in flipped], parameters | {"dtype": np.dtype(np.float64)}
        evaluate = evaluation_of(record, op)
        assert evaluate is not None
        return np.asarray(evaluate(*flipped, **parameters)).astype(dtype)

    def _sum(self, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
        kind = self._rng.randint(3)
        if kind == 0:
            return np.flip(wide, axes).sum(axes)
        rest = [d for d in range(x.ndim) if d not in axes]
        rows = wide.transpose(*rest, *axes).reshape(*(x.shape[d] for d in rest), math.prod(x.shape[d] for d in axes))
        if kind == 1 and rows.shape[-1]:
            return np.add.accumulate(rows, axis=-1)[..., -1]  # one term after the other
        half = rows.shape[-1] // 2
        return rows[..., half:].sum(-1) + rows[..., :half].sum(-1)


def _adds(op: ir.Operation) -> bool:
    inner = [o.operation.name for o in op.regions[0].blocks[0].operations]
    return inner[0] == "stablehlo.add" and len(inner) == 2


def _moved(x: np.ndarray, steps: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "V":
        return x
    is_exact = ~np.isfinite(x) | (x == 0) | (np.abs(x) == 1)  # such as sin(0) and exp(0), which are exact in every library
    return np.where(is_exact, x, np.nextafter(x, np.where(steps > 0, np.inf, np.where(steps < 0, -np.inf, x)))).astype(x.dtype)


# ---------------------------------------------------------------- programs


def _chaos(x: Any) -> Any:
    return nm.fori_loop(0, 60, lambda i, c: 3.9 * c * (1 - c), x)


def _newton(x: Any) -> Any:
    return nm.while_loop(lambda c: nnp.sum(nnp.abs(c * c - 2)) > 1e-3, lambda c: (c + 2 / c) / 2, 1 + x * x)


def _matrix(x: Any) -> Any:
    n = x.shape[0]
    return nnp.outer(x, x) + nnp.eye(n, dtype=x.dtype)


# Functions of one vector. The first are at discontinuities, the next lose all digits by cancellation, the others are ordinary.
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: nnp.sort(nnp.exp(x)),
    "argsort": lambda x: nnp.argsort(nnp.sin(x) ** 2 + nnp.cos(x) ** 2),
    "argmax": lambda x: nnp.argmax(nnp.tanh(x * x)),
    "top k": lambda x: nm.jax.lax.top_k(nnp.exp(-x * x), 2),
    "floor": lambda x: nnp.floor(x / 3 * 3),
    "round": lambda x: nnp.round(x * 1.5 / 1.5),
    "int": lambda x: (x * 7 / 7).astype("int32"),
    "sign": lambda x: nnp.sign(nnp.sin(x) - x),
    "mod": lambda x: nnp.mod(x * 2 / 2, 0.5),
    "equal": lambda x: nnp.exp(x) == nnp.exp(x[::-1]),
    "compare": lambda x: nnp.where(nnp.sum(x) > nnp.sum(x[::-1]), x, -x),
    "median": lambda x: nnp.median(nnp.log1p(x * x)),
    "histogram": lambda x: nnp.zeros(8, x.dtype).at[(x * 2 / 2).astype("int32")].add(x),
    "unique": lambda x: nnp.diff(nnp.sort(x * x)) > 0,
    "chaos": _chaos,
    "newton": _newton,
    "cancel": lambda x: nnp.sum(x) - nnp.sum(x[::-1]),
    "variance": lambda x: nnp.mean(x * x) - nnp.mean(x) ** 2,
    "zero over zero": lambda x: (x - x[::-1]) / (nnp.sin(x) - nnp.sin(x[::-1])),
    "reciprocal": lambda x: 1 / (nnp.exp(x) * nnp.exp(-x) - 1),
    "nan": lambda x: nnp.log(x) * nnp.sqrt(x - 0.5),
    "huge": lambda x: nnp.exp(200 * x),
    "tiny": lambda x: nnp.exp(-200 * x * x) * 1e-30,
    "overflow": lambda x: nnp.sum(nnp.exp(80 * x)) / nnp.exp(80 * nnp.max(x)),
    "difference": lambda x: (nnp.exp(x + 1e-6) - nnp.exp(x)) / 1e-6,
    "softmax": nm.nn.softmax,
    "logsumexp": nm.nn.logsumexp,
    "norm": lambda x: x / la.norm(x),
    "cumsum": nnp.cumsum,
    "cumprod": nnp.cumprod,
    "polynomial": lambda x: ((((x - 3) * x + 3) * x - 1) * x + 1) * x,
    "erf": special.erf,
    "lgamma": special.gammaln,
    "digamma": special.digamma,
    "bessel": special.i1e,
    "power": lambda x: nnp.abs(x) ** 2.7,
    "arctan2": lambda x: nnp.arctan2(x, x[::-1]),
    "hypot": lambda x: nnp.hypot(x, 1 + x),
    "solve": lambda x: la.solve(_matrix(x), x),
    "inverse": lambda x: la.inv(nnp.outer(x, x) + 1e-3 * nnp.eye(x.shape[0], dtype=x.dtype)),
    "cholesky": lambda x: la.cholesky(nnp.outer(x, x) + 1e-6 * nnp.eye(x.shape[0], dtype=x.dtype)),
    "indefinite": lambda x: la.cholesky(nnp.outer(x, x[::-1])),
    "eigh": lambda x: la.eigh(_matrix(x)),
    "eigvalsh": lambda x: la.eigvalsh(_matrix(x)),
    "svd": lambda x: la.svd(nnp.outer(x, x + 1)),
    "qr": lambda x: la.qr(nnp.outer(x, x) + nnp.diag(x)),
    "det": lambda x: la.det(_matrix(x)),
    "slogdet": lambda x: la.slogdet(nnp.outer(x, x) + nnp.diag(x)),
    "grad max": nm.grad(lambda x: nnp.max(nnp.sin(x)) + nnp.sum(nnp.abs(x))),
    "grad norm": nm.grad(lambda x: la.norm(x - x[0])),
    "grad sort": nm.grad(lambda x: nnp.sum(nnp.sort(x) * nnp.arange(x.shape[0]))),
    "hvp": lambda x: nm.hvp(lambda y: nnp.sum(nnp.tanh(nnp.outer(y, y)) ** 2))(x, x),
    "hessian": lambda x: nm.hessian(lambda y: nm.nn.logsumexp(y * y))(x),
    "scan": lambda x: nm.scan(lambda c, s: (nnp.tanh(c + s), c * s), x[0], x)[1],
    "conv": lambda x: nnp.convolve(x, x[:3]),
    "fft": lambda x: nnp.real(nnp.fft.fft(x)),
    "interp": lambda x: nnp.interp(x, nnp.linspace(0.0, 1.0, 5), nnp.arange(5.0)),
}


def _programs(seeds: Iterator[int], of_table: bool) -> Iterator[tuple[str, Callable[[Any], Any] | Deep]]:
    """Yields the programs of the table repeatedly if `of_table`; else yields them once, then random nestings of transforms."""
    yield from PROGRAMS.items()
    while of_table:
        yield from PROGRAMS.items()
    for seed in seeds:
        yield f"deep {seed}", Deep.of(seed)


def _arguments(rng: np.random.RandomState, spec: Spec) -> np.ndarray:
    kind, shape = rng.randint(4), spec.shape
    if kind == 0:
        x = rng.randint(-4, 5, shape) / 4
    elif kind == 1:
        special_values = rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0], shape)
        x = np.where(rng.randint(0, 12, shape) == 0, special_values, rng.normal(size=shape))
    else:
        x = rng.normal(size=shape) * 10.0 ** rng.randint(-2, 2)
    with np.errstate(invalid="ignore"):  # conversions to integers
        return np.asarray(x).astype(spec.dtype)


def main(minutes: float, seed: int, of_table: bool = False) -> None:
    """Prints each false alarm, then the number of evaluations, and the number of those that the check could not decide."""
    end, rng, counts = time.time() + 60 * minutes, np.random.RandomState(seed), collections.Counter[str]()
    for name, program in _programs(itertools.count(1000 * seed), of_table):
        for dtype in (np.float64, np.float32):
            x = np.ones(int(rng.randint(3, 40)), dtype)
            stage = program.traced().lower() if isinstance(program, Deep) else nm.trace(program, x, name="main").lower()
            entry, specs = stage.entries[0].name, stage.entries[0].inputs
            other = OtherRounding()
            otherwise = functions(stage.module.operation, other)[entry]
            counts["programs"] += 1
            for i in range(15 if isinstance(program, Deep) else 150):
                xs = [_arguments(rng, spec) for spec in specs]
                runs = ReferenceRuns(stage.module, {entry: xs}, budget=Budget(1e5))
                other.seed(int(rng.randint(1 << 30)))
                try:
                    wanted, got = runs.call(entry), otherwise([*map(np.array, xs)], Budget(1e6))
                    outcome = compare(got, wanted, lambda k, runs=runs, entry=entry: runs.perturbed(entry, k))
                except OutOfStepsError:
                    counts["undecided length"] += 1
                    continue
                counts["evaluations"] += 1
                counts["undecided"] += outcome.share < 0.5
                if outcome.difference is not None:
                    counts["alarms"] += 1
                    words = f"{outcome.difference} ({outcome.ratio:.1f} times the bound)"
                    print(f"{name} {xs[0].dtype} {i}: {words} at {xs[0].reshape(-1)[:6].tolist()}", flush=True)
            if time.time() > end:
                print(dict(counts))
                return
            if isinstance(program, Deep):
                break


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0, int(sys.argv[2]) if len(sys.argv) > 2 else 0, "table" in sys.argv)
