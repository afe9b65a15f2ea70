"""nabla-opt on numbers: the results of a module, and their comparison before and after its passes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects.regions import functions_of, is_private
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interpreter import interpreted
from nabla_mlir.passes.inline_calls import check_calls
from nabla_mlir.runtime.manifest import Leaf
from nabla_mlir.tools.inputs import InputError, bind

_DIGITS = {2: 2, 4: 4, 8: 10}  # the number of digits that must agree, by the bytes of the float
_MOST_ELEMENTS = 1 << 27  # the largest number of 64-bit elements of a generated argument


def entries_of(module: ir.Module, name: str | None, file: str) -> list[str]:
    """The names of the functions to run: the function with this name, or all public functions.

    Raises:
      InputError: the module of the file named `file` has no such function, or none with a body.
      ImportIRError: a function calls itself.
    """
    functions = functions_of(module.operation)
    names = [n for n, f in functions.items() if not is_private(f) and len(f.regions[0].blocks)]
    if not names:
        file = "the standard input" if file == "-" else file
        raise InputError(f"--run and --check-values require a public function with a body, got none in {file}.")
    if name is not None and name not in names:
        raise InputError(f"--entry requires a function of the module, got {name} among {', '.join(names)}.")
    check_calls(functions)
    return names if name is None else [name]


def inputs_of(module: ir.Module, entry: str, texts: Sequence[str]) -> list[np.ndarray]:
    """The arguments of a function: the values in the texts, or without texts random numbers that are equal in every run. Raises
    InputError if a value has another dtype or shape.
    """
    arguments = functions_of(module.operation)[entry].regions[0].blocks[0].arguments
    types = [shape_and_dtype(argument.type) for argument in arguments]
    if texts or not types:
        leaves = [Leaf(f"arg{i}", shape, dtype.name) for i, (shape, dtype) in enumerate(types)]
        inputs = [np.asarray(x) for x in bind(texts, leaves, entry)]
        for x, leaf in zip(inputs, leaves, strict=True):
            if (x.shape, x.dtype.name) != (leaf.shape, leaf.dtype):
                raise InputError(f"--input requires {leaf} for {leaf.name}, got {x.dtype}{list(x.shape)}.")
        return inputs
    rng = np.random.default_rng(0)
    return [_numbers(rng, shape, dtype) for shape, dtype in types]


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Random numbers of a shape and a dtype, drawn by `rng`; raises InputError if there are too many."""
    if math.prod(shape) > _MOST_ELEMENTS:
        raise InputError(f"values require arguments of at most {_MOST_ELEMENTS} elements, got {dtype.name}{list(shape)}.")
    if dtype.kind in "iub":
        return rng.integers(0, 2 if dtype.kind == "b" else 5, shape).astype(dtype)
    numbers = rng.normal(size=shape)
    return (numbers + 1j * rng.normal(size=shape) if dtype.kind == "c" else numbers).astype(dtype)


def results_of(module: ir.Module, entry: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a function, computed by the interpreter."""
    return [np.asarray(y) for y in interpreted(module.operation, entry)(list(inputs))]


def shown(results: Mapping[str, Sequence[np.ndarray]]) -> str:
    """A line of text for each result of each function, with as many digits as distinguish its numbers.

    Example:
      >>> print(shown({"main": [np.float32([0.1, 2]), np.int64(3)]}), end="")
      main 0: float32[2] = [0.1, 2.0]
      main 1: int64[] = 3
    """
    lines = []
    for name, arrays in results.items():
        for i, y in enumerate(arrays):
            text = np.array2string(y, separator=", ", formatter={"all": str}, max_line_width=10**9, threshold=1000)
            lines.append(f"{name} {i}: {Leaf('', y.shape, y.dtype.name)} = {text}\n")
    return "".join(lines)


def check_equal(before: Sequence[np.ndarray], after: Sequence[np.ndarray], passes: str) -> None:
    """Raises PassError unless the results of a module before and after passes are equal; it names the first difference.

    Raises:
      PassError: the results or their types differ; the error names the first difference.
    """
    if len(before) != len(after):
        raise PassError(f"{passes} requires the same results before and after, got {len(before)} and {len(after)}.")
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise PassError(
                f"{passes} requires the same types before and after, got {a.dtype}{list(a.shape)} and "
                f"{b.dtype}{list(b.shape)} for result {i}."
            )
        tolerance = 10.0 ** -_DIGITS.get(a.real.dtype.itemsize, 1) if a.dtype.kind in "fcV" else 0.0
        x, y = (z.astype(np.complex128 if z.dtype.kind == "c" else np.float64) for z in (a, b))
        scale = float(np.abs(np.nan_to_num(x)).max(initial=0.0))
        wrong = ~np.isclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
        if wrong.any():
            position = tuple(int(k) for k in np.argwhere(wrong)[0])
            raise PassError(
                f"{passes} requires the same values before and after, got {a[position]} and {b[position]} at {list(position)} of "
                f"result {i}.",
                help="--run without the passes, and with each of them alone, says where it changes.",
            )
