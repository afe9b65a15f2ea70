"""Measures errors of functions in units in the last place against mpmath, for nabla_mlir compiled for this CPU and for JAX.

usage: python bench/accuracy.py [--points N] [--only NAME ...] [--write docs/explain/accuracy.md]

Each function is evaluated at numbers of all sizes (random bits), at ordinary numbers (-20 to 20), and close to 0, 1, -1 and the
integers, if its true value is a finite number of the dtype. A unit in the last place is the distance of floats at the true
value. A result below the smallest normal number is correct if the true value is also below it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import ml_dtypes
import mpmath
import numpy as np
from measuring import console
from rich.progress import track

import nabla_mlir as nm
from nabla_mlir import nn
from nabla_mlir import numpy as nnp
from nabla_mlir.jax import scipy

jax.config.update("jax_enable_x64", True)
DTYPES = (np.dtype(ml_dtypes.bfloat16), np.dtype("f2"), np.dtype("f4"), np.dtype("f8"))
DIGITS = 60  # digits of mpmath: twice the number that quotients of gammas lose


@dataclass(frozen=True)
class Function:
    """A function of both namespaces, and its true value by mpmath."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    truth: Callable[..., Any]
    operands: int = 1


def numpy_function(name: str, truth: Callable[..., Any], operands: int = 1) -> Function:
    """A function that NumPy has too."""
    return Function(name, getattr(nnp, name), getattr(jax.numpy, name), truth, operands)


def special(name: str, truth: Callable[..., Any]) -> Function:
    """A function of scipy.special."""
    return Function(name, getattr(scipy.special, name), getattr(jax.scipy.special, name), truth)


def _log_gamma(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x))) if abs(x) < 1e6 else mpmath.re(mpmath.loggamma(x))


FUNCTIONS = (
    *(numpy_function(name, getattr(mpmath, name)) for name in ("sqrt", "cbrt", "exp", "expm1", "log", "log1p", "log10")),
    *(numpy_function(name, getattr(mpmath, name)) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")),
    *(numpy_function("arc" + name, getattr(mpmath, "a" + name)) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")),
    numpy_function("exp2", lambda x: mpmath.mpf(2) ** x),
    numpy_function("log2", lambda x: mpmath.log(x, 2)),
    numpy_function("sinc", mpmath.sincpi),
    numpy_function("power", lambda x, y: x**y, 2),
    numpy_function("arctan2", mpmath.atan2, 2),
    numpy_function("hypot", mpmath.hypot, 2),
    numpy_function("logaddexp", lambda x, y: max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y))), 2),
    special("erf", mpmath.erf),
    special("erfc", mpmath.erfc),
    special("erfinv", mpmath.erfinv),
    special("gammaln", _log_gamma),
    special("digamma", mpmath.digamma),
    special("ndtr", mpmath.ncdf),
    special("i0e", lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))),
    special("i1e", lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x))),
    Function("sigmoid", nn.sigmoid, jax.nn.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    Function("softplus", nn.softplus, jax.nn.softplus, lambda x: max(x, 0) + mpmath.log1p(mpmath.exp(-abs(x)))),
)


def points(function: Function, dtype: np.dtype, count: int) -> list[np.ndarray]:
    """Operands at which a function is evaluated."""
    rng, shape, kind = np.random.default_rng(len(function.name)), (function.operands, count), f"u{dtype.itemsize}"
    bits = rng.integers(0, np.iinfo(kind).max, shape, kind, endpoint=True).view(dtype)
    near = rng.integers(-9, 10, shape) + rng.normal(size=shape) * 10.0 ** -rng.integers(1, 9, count)
    every = np.concatenate([bits, rng.uniform(-20, 20, shape).astype(dtype), near.astype(dtype)], 1)
    every = np.where(every.view(kind) << 1 == 0, dtype.type(0), every)  # mpmath has no negative zero
    with np.errstate(invalid="ignore"):  # some random bits are NaN
        sizes = np.abs(every.astype("f8"))
    is_normal = np.isfinite(sizes) & ((sizes == 0) | (sizes >= float(ml_dtypes.finfo(dtype).tiny)))
    return list(every[:, is_normal.all(0)])


def truths(function: Function, operands: Sequence[np.ndarray], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """True values as sums of two f64 numbers; NaN where they are not finite in the dtype."""
    largest = float(ml_dtypes.finfo(dtype).max)
    high, low = (np.full(operands[0].shape, np.nan) for _ in range(2))
    for i, x in enumerate(zip(*(o.astype("f8").tolist() for o in operands), strict=True)):
        try:
            value = function.truth(*map(mpmath.mpf, x))
        except (ValueError, ZeroDivisionError, OverflowError, mpmath.libmp.NoConvergence):
            continue
        if isinstance(value, mpmath.mpf) and mpmath.isfinite(value) and abs(value) <= largest:
            high[i] = float(value)
            low[i] = float(value - high[i])
    return high, low


def ulps(found: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Errors in units in the last place; infinite where the result is not finite."""
    info = ml_dtypes.finfo(found.dtype)
    tiny, value = float(info.tiny), found.astype("f8")
    exponents = np.floor(np.log2(np.maximum(np.abs(high), tiny)))
    unit = np.exp2(exponents) * float(info.eps)
    with np.errstate(all="ignore"):
        errors = np.abs((value - high) - low) / unit
    is_small = (np.abs(high) < tiny) & (np.abs(value) <= tiny)
    return np.where(is_small, 0.0, np.where(np.isfinite(value), errors, np.inf))


def _theirs(function: Function, operands: Sequence[np.ndarray]) -> Any:
    try:
        return jax.jit(function.theirs)(*operands)
    except TypeError:  # JAX does not accept the dtype
        return None


def rows(functions: Sequence[Function], count: int) -> Iterator[tuple[str, str, str, str]]:
    """Yields the lines of the table: the name, the dtype, the error of nabla_mlir, the error of JAX."""
    for dtype in DTYPES:
        arguments = {f.name: points(f, dtype, count) for f in functions}
        ours = nm.jit(lambda values: {f.name: f.ours(*values[f.name]) for f in functions})(arguments)
        for f in track(functions, dtype.name, console=console, transient=True):
            high, low = truths(f, arguments[f.name], dtype)
            known = np.isfinite(high)
            words = []
            for result in (ours[f.name], _theirs(f, arguments[f.name])):
                if result is None:
                    words.append("refused")
                    continue
                errors = ulps(np.asarray(result)[known], high[known], low[known])
                index = int(np.argmax(errors))
                at = ", ".join(f"{float(x[known][index]):.3g}" for x in arguments[f.name])
                words.append(f"{errors.max():.3g} at {at}; mean {errors[np.isfinite(errors)].mean():.2g}")
            yield f.name, dtype.name, *words


def main() -> int:
    """Prints the table, or writes it to a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1000, help="of each of the three kinds")
    parser.add_argument("--only", nargs="*", default=[], help="functions")
    parser.add_argument("--write", type=Path, help="the page")
    options = parser.parse_args()
    mpmath.mp.dps = DIGITS
    functions = [f for f in FUNCTIONS if not options.only or f.name in options.only]
    lines = ["| function | dtype | ours, largest | JAX, largest |", "|---|---|---|---|"]
    for row in rows(functions, options.points):
        lines.append(f"| {' | '.join(row)} |")
        if options.write is None:
            print(lines[-1], flush=True)
    if options.write is not None:
        head = options.write.read_text().split("| function |")[0]
        options.write.write_text(head + "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
