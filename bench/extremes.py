"""Compares values and derivatives at infinities, NaN, zeros and kinks, and of empty arrays, with those of NumPy and JAX.

usage: python bench/extremes.py [--write docs/explain/extremes.md]

Each case is an expression of the namespace `np`, and the operands at which it is evaluated, elementwise or as whole arrays.
tests/ops/test_extremes.py checks that the interpreter and compiled code give the numbers of the page.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

inf, nan = math.inf, math.nan
_MARK = "<!-- table: written by python bench/extremes.py --write -->"


@dataclass(frozen=True)
class Case:
    """An expression of `np`, `x` and possibly `y`, with its operands."""

    text: str
    xs: Sequence[Any]
    ys: Sequence[Any] | None = None
    has_derivative: bool = True

    @property
    def operands(self) -> list[np.ndarray]:
        """The operands as arrays."""
        return [np.array(values, np.float64) for values in (self.xs, self.ys) if values is not None]

    def function(self, namespace: Any) -> Callable[..., Any]:
        """The expression in a namespace, as a function of its operands."""
        code = compile(self.text, self.text, "eval")
        return lambda x, y=None: eval(code, {"np": namespace, "x": x, "y": y, "inf": inf, "nan": nan})


_ALL = (inf, -inf, nan, 0.0, -0.0)
_PAIRS = ((0.0, 1.0, inf, inf, -inf, nan, 1.0), (0.0, 0.0, inf, 0.0, 2.0, 1.0, nan))
CASES = (
    Case("x / y", *_PAIRS),
    Case("x * y", *_PAIRS),
    Case("x + y", (inf, inf, nan), (inf, -inf, 1.0)),
    Case("x // y", (1.0, 0.0, inf, 1.0, -1.0, nan), (0.0, 0.0, 2.0, inf, inf, 1.0)),
    Case("x % y", (1.0, 0.0, inf, 1.0, -1.0, nan), (0.0, 0.0, 2.0, inf, inf, 1.0)),
    Case("np.fmod(x, y)", (1.0, inf, 1.0, -1.0, nan), (0.0, 2.0, inf, inf, 1.0)),
    Case("x ** y", (0.0, 0.0, inf, 1.0, nan, -1.0, -8.0, 0.0), (0.0, -1.0, 0.0, nan, 0.0, inf, 1 / 3, 0.5)),
    Case("x ** 2", _ALL),
    Case("x ** 0.5", (*_ALL, -1.0)),
    Case("x ** -1", _ALL),
    Case("np.sqrt(x)", (*_ALL, -1.0)),
    Case("np.cbrt(x)", _ALL),
    Case("np.abs(x)", _ALL),
    Case("np.sign(x)", _ALL),
    Case("np.exp(x)", (*_ALL, 710.0, -746.0)),
    Case("np.expm1(x)", _ALL),
    Case("np.log(x)", (*_ALL, -1.0)),
    Case("np.log1p(x)", (*_ALL, -1.0, -2.0)),
    Case("np.logaddexp(x, y)", (inf, -inf, inf, nan, 1000.0), (inf, -inf, -inf, 1.0, 1000.0)),
    Case("np.sin(x)", _ALL),
    Case("np.tan(x)", _ALL),
    Case("np.arcsin(x)", (1.0, -1.0, 2.0, nan)),
    Case("np.arccos(x)", (1.0, -1.0, 2.0, nan)),
    Case("np.arctan(x)", _ALL),
    Case("np.arctan2(x, y)", (0.0, 0.0, -0.0, inf, inf, nan), (0.0, -1.0, -0.0, inf, -inf, 1.0)),
    Case("np.tanh(x)", (*_ALL, 400.0)),
    Case("np.sinh(x)", (*_ALL, 711.0)),
    Case("np.cosh(x)", (*_ALL, 711.0)),
    Case("np.arctanh(x)", (1.0, -1.0, 2.0, nan)),
    Case("np.arccosh(x)", (1.0, inf, 0.0, nan)),
    Case("np.hypot(x, y)", (0.0, inf, nan, 1e200), (0.0, nan, 1.0, 1e200)),
    Case("np.sinc(x)", (0.0, inf, nan)),
    Case("np.floor(x)", _ALL),
    Case("np.rint(x)", (*_ALL, 0.5, 1.5)),
    Case("np.maximum(x, y)", (nan, 1.0, 1.0, 0.0, inf), (1.0, nan, 1.0, -0.0, inf)),
    Case("np.minimum(x, y)", (nan, 1.0, 1.0, 0.0, -inf), (1.0, nan, 1.0, -0.0, -inf)),
    Case("np.fmax(x, y)", (nan, 1.0, nan), (1.0, nan, nan)),
    Case("np.clip(x, -1, 1)", (inf, -inf, nan, 1.0, -1.0)),
    Case("np.nan_to_num(x)", _ALL),
    Case("np.where(x > 0, np.log(x), 0.0)", (0.0, -1.0, nan, 2.0)),
    Case("np.where(x > 0, np.sqrt(x), 0.0)", (0.0, -1.0, 4.0)),
    Case("np.where(x == 0, 1.0, np.sin(x) / x)", (0.0, 1.0, inf)),
    Case("np.where(x == 0, 0.0, x * np.log(x))", (0.0, 1.0, inf)),
    Case("(x < y) * 1.0", (nan, inf, 0.0), (1.0, inf, -0.0), has_derivative=False),
    Case("(x == y) * 1.0", (nan, inf, 0.0), (nan, inf, -0.0), has_derivative=False),
    Case("np.isfinite(x) * 1.0", _ALL, has_derivative=False),
    Case("np.signbit(x) * 1.0", (0.0, -0.0, -inf), has_derivative=False),
    Case("np.sort(x)", (nan, 1.0, -inf, inf, 0.0)),
    Case("np.argsort(x)", (nan, 1.0, -inf, inf, nan), has_derivative=False),
    Case("np.argmax(x)", (1.0, nan, inf, nan), has_derivative=False),
    Case("np.argmin(x)", (1.0, inf, -inf, -inf), has_derivative=False),
    Case("np.max(x)", (1.0, nan, inf)),
    Case("np.max(x)", (inf, 1.0, inf)),
    Case("np.min(x)", (-inf, 1.0)),
    Case("np.nanmax(x)", (1.0, nan, 3.0)),
    Case("np.nansum(x)", (1.0, nan, 3.0)),
    Case("np.median(x)", (1.0, nan, 3.0)),
    Case("np.sum(x)", ()),
    Case("np.prod(x)", ()),
    Case("np.mean(x)", (), has_derivative=False),
    Case("np.any(x) * 1.0", (), has_derivative=False),
    Case("np.all(x) * 1.0", (), has_derivative=False),
    Case("np.sum(x)", (inf, -inf)),
    Case("np.prod(x)", (0.0, inf)),
    Case("np.prod(x)", (0.0, 0.0, 2.0)),
    Case("np.cumsum(x)", (1.0, inf, -inf)),
    Case("np.cumprod(x)", (2.0, 0.0, 3.0)),
    Case("np.mean(x)", (1.0, inf)),
    Case("np.var(x)", (2.0, 2.0)),
    Case("np.std(x)", (2.0, 2.0)),
    Case("np.std(x)", (1.0, inf)),
    Case("np.linalg.norm(x)", (0.0, 0.0)),
    Case("np.linalg.norm(x)", (inf, 1.0)),
    Case("np.linalg.norm(x)", (3e200, 4e200)),
    Case("np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x)))", (1000.0, 1000.0, -inf)),
    Case("np.max(x) + np.log(np.sum(np.exp(x - np.max(x))))", (1000.0, -1000.0)),
)


def flat(array: Any) -> list[float]:
    """The elements as floats, in order."""
    return [float(v) for v in np.asarray(array).reshape(-1)]


def with_derivatives(case: Case, namespace: Any, grad: Callable[..., Any]) -> Callable[..., list[Any]]:
    """A function of the operands that returns the values, and the derivative of their sum by each operand."""
    f, count = case.function(namespace), len(case.operands)
    if not case.has_derivative:
        return lambda *operands: [f(*operands)]
    slopes = grad(lambda *operands: namespace.sum(f(*operands)), tuple(range(count)))
    return lambda *operands: [f(*operands), *slopes(*operands)]


def interpreted(case: Case) -> list[list[float]]:
    """The values and the derivatives by each operand, computed by the interpreter of nabla_mlir."""
    import nabla_mlir as nm

    return [flat(result) for result in with_derivatives(case, nm.numpy, nm.grad)(*map(nm.numpy.asarray, case.operands))]


def of_jax(case: Case) -> list[list[float]]:
    """The values and the derivatives by each operand, computed by JAX."""
    import jax

    jax.config.update("jax_enable_x64", True)
    with jax.numpy_dtype_promotion("standard"):
        try:
            return [flat(result) for result in with_derivatives(case, jax.numpy, jax.grad)(*map(jax.numpy.asarray, case.operands))]
        except (TypeError, ValueError) as error:
            return [[nan], [nan]] if case.operands[0].size else [[], [str(error)]]  # type: ignore[list-item]


def of_numpy(case: Case) -> list[float] | str:
    """The values of NumPy, or the name of the error that it raises."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return flat(case.function(np)(*case.operands))
        except ValueError as error:
            return type(error).__name__


def shown(values: Sequence[float]) -> str:
    """The text of numbers in the table."""
    return ", ".join("NaN" if math.isnan(v) else format(v, ".4g").replace("+", "") for v in values) or "(empty)"


def row(case: Case) -> str:
    """The line of a case in the table."""
    ours, theirs, plain = interpreted(case), of_jax(case), of_numpy(case)

    def compared(other: Any, mine: Any) -> str:
        text = other if isinstance(other, str) else shown(other)
        return "the same" if text == shown(mine) else text

    slopes, others = "; ".join(map(shown, ours[1:])) or "none", "; ".join(map(shown, theirs[1:])) or "none"
    operands = "; ".join(shown(values) for values in case.operands)
    text = case.text.replace("np.", "").replace("|", "\\|")
    values = f"{shown(ours[0])} | {compared(plain, ours[0])} | {compared(theirs[0], ours[0])}"
    return f"| `{text}` | {operands} | {values} | {slopes} | {'the same' if others == slopes else others} |"


def table() -> str:
    """All lines, with their header."""
    head = "| expression | at x; y | value | NumPy | JAX | derivative in x; y | JAX |\n|---|---|---|---|---|---|---|\n"
    return head + "\n".join(map(row, CASES)) + "\n"


def main() -> None:
    """Prints the table, or writes it into a page after its mark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path, metavar="PAGE")
    page = parser.parse_args().write
    if page is None:
        print(table())
    else:
        page.write_text(page.read_text().partition(_MARK)[0] + f"{_MARK}\n\n{table()}")


if __name__ == "__main__":
    main()
