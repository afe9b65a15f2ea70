"""Compares random nestings of transforms with JAX, interpreted and compiled.

    python -m nabla_mlir.testing.fuzz --of peers --minutes 10 --seed 1
    python -m nabla_mlir.testing.fuzz --of peers --target cpu

A program has three arguments of any dtypes including bfloat16; two of them may be one array. It returns a tree of results of
random functions (`nestings`). A program that JAX refuses is skipped; otherwise JAX gives the correct results. A result is not
compared if JAX gives a number that is not finite, or if the results of JAX and nabla_mlir in a narrow dtype are equally far
from the result in f64. A fault is reported for the smallest depth and the fewest results that have one.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import nabla_mlir as nm
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.interpreter import interpreted
from nabla_mlir.jax.environment import enable_x64
from nabla_mlir.testing.failures import failure
from nabla_mlir.testing.nestings import MOST, function, namespace
from nabla_mlir.testing.operations import Numbers

_WHOLE = ("bool", "int8", "int32", "int64", "uint8", "uint32")
_INEXACT = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
_DRAWN = (*_WHOLE, *_INEXACT, "float32", "float64", "float64", "bfloat16")
NONE = "no program of JAX"
ROUNDED = "rounded in narrow dtypes, by JAX as much"
FINE = ("", NONE, ROUNDED)
_NARROW = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
_SIZES = (0, 1, 1, 2, 3, 3, 4, 5)
_DIGITS = {"bfloat16": 0.1, "float16": 2e-2, "float32": 5e-4, "complex64": 5e-4, "float64": 1e-8, "complex128": 1e-8}


def jax_namespace() -> Any:
    """The module `jax` and its functions as a namespace, with 64-bit dtypes enabled."""
    os.environ.setdefault("XLA_FLAGS", "--xla_allow_excess_precision=false --xla_backend_optimization_level=0")
    import jax
    import jax.nn
    import jax.numpy

    jax.config.update("jax_enable_x64", True)
    return jax, namespace(jax)


class Program:
    """A random program: functions and their arguments, which the seed determines."""

    seed: int
    depth: int
    results: tuple[int, ...]
    arguments: list[np.ndarray]
    functions: list[Callable[..., Any]]
    text: list[str]
    order: list[int]

    def __init__(self, seed: int, depth: int = 3, results: Sequence[int] = (0, 1, 2)):
        """Draws three functions and three arguments; `depth` is the depth of nesting, and `results` are the indices of the
        functions to call.
        """
        self.seed, self.depth, self.results = seed, depth, tuple(results)
        rng = np.random.default_rng([seed, 78])
        self.arguments = [_argument(rng) for _ in range(3)]
        if rng.integers(4) == 0:
            self.arguments[2] = self.arguments[0]
        functions = [function(np.random.default_rng([seed, i]), depth) for i in range(3)]
        self.functions = [f for f, _ in functions]
        self.text = [text for _, text in functions]
        self.order = [int(i) for i in rng.integers(3, size=3)]

    def __call__(self, J: Any, *xs: Any) -> Any:
        """The results, as a tree."""
        values = [self.functions[i](J, xs[self.order[i]]) for i in self.results]
        return {"y": values[0], "z": tuple(values[1:])}

    def __str__(self) -> str:
        operands = [self.arguments[i] for i in self.order]
        return "; ".join(f"{operands[i].dtype}{list(operands[i].shape)} {self.text[i]}" for i in self.results)


def _argument(rng: Numbers) -> np.ndarray:
    """A random array of a random shape and dtype, which may be bfloat16. `rng` makes the random choices."""
    import ml_dtypes

    shape = tuple(int(n) for n in rng.choice(_SIZES, rng.integers(4)))
    name = str(rng.choice(_DRAWN))
    dtype = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    if dtype.kind in "biu":
        return np.asarray(rng.integers(0 if dtype.kind in "ub" else -4, 2 if dtype.kind == "b" else 5, shape)).astype(dtype)
    x = rng.uniform(-1, 1, shape) + (1j * rng.uniform(-1, 1, shape) if dtype.kind == "c" else 0)
    return np.asarray(x).astype(dtype)


def wanted(program: Program) -> list[np.ndarray] | None:
    """JAX's results for a program as a flat list; None if JAX refuses the program."""
    jax, J = jax_namespace()
    run = lambda *xs: program(J, *xs)  # noqa: E731
    try:
        types = jax.tree.leaves(jax.eval_shape(run, *program.arguments))
        if any(t.size > MOST for t in types):
            return None
        return [np.asarray(y) for y in jax.tree.leaves(jax.jit(run)(*program.arguments))]
    except Exception:
        return None


def difference(got: Sequence[Any], right: Sequence[np.ndarray], least: float) -> str:
    """The first number of `got` that differs from `right`, as text; "" if all numbers agree.

    The tolerance is that of the dtype, or `least` if that is larger.
    """
    for i, (a, b) in enumerate(zip(got, right, strict=True)):
        a = np.asarray(a)
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"TYPE result {i} is {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        if b.dtype.kind in "biu":
            wrong = a != b
        else:
            wide = np.complex128 if b.dtype.kind == "c" else np.float64
            with np.errstate(all="ignore"):
                p, q = a.astype(wide), b.astype(wide)
                scale = max(1.0, float(np.abs(np.nan_to_num(q, posinf=0, neginf=0)).max(initial=0.0)))
                digits = max(least, _DIGITS.get(b.dtype.name, 0.0))
                wrong = ~np.isclose(p, q, rtol=digits, atol=digits * scale) & np.isfinite(q)  # NaN and infinities do not count
        if np.any(wrong):
            position = tuple(int(k) for k in np.argwhere(wrong)[0])
            return f"VALUE result {i} is {a[position]} instead of {b[position]} at {list(position)} of {b.dtype}{list(b.shape)}"
    return ""


def precision(traced: str) -> float:
    """The relative error that is allowed for the narrowest dtype in the text of a program."""
    for name, spelling in (("bfloat16", "bf16"), ("float16", "f16"), ("float32", "f32")):
        if f"x{spelling}>" in traced.replace("bf16", "B") if name == "float16" else f"{spelling}>" in traced:
            return _DIGITS[name]
    return _DIGITS["float64"]


def fault_of(program: Program, target: str = "interpreter") -> str:
    """The error of a program, with its cause before a colon; "" if there is none, `NONE` if JAX refuses the program."""
    with np.errstate(all="ignore"), warnings.catch_warnings(), enable_x64():
        warnings.simplefilter("ignore")
        right = wanted(program)
        if right is None:
            return NONE
        try:
            return _fault_of(program, right, target)
        except Exception as error:
            return failure(error)


def _fault_of(program: Program, right: list[np.ndarray], target: str) -> str:
    """The error of the program against the results `right` of JAX, as text; "" if there is none.

    Errors are other types or values, other bits in a second or concurrent call, and changed arguments.
    """
    arguments, before = program.arguments, [x.copy() for x in program.arguments]
    traced = nm.trace(lambda *xs: program(nm.jax, *xs), *arguments, name="f")
    least = precision(str(traced))
    f = _interpreted(traced.lower()) if target == "interpreter" else traced.lower().compile(target, cache=False)
    results = [np.array(y) for y in nm.jax.tree.leaves(f(*arguments))]
    if what := difference(results, right, least):
        is_narrow = least > _DIGITS["float64"] and what.startswith("VALUE")
        return ROUNDED if is_narrow and _is_rounding(program, results, right, least) else what
    with ThreadPoolExecutor(2) as pool:
        for other in [f(*arguments), *pool.map(lambda _: f(*arguments), range(2))]:
            for a, b in zip(results, nm.jax.tree.leaves(other), strict=True):
                if a.tobytes() != np.asarray(b).tobytes():
                    return "AGAIN: another call gives other bits"
    if any(x.tobytes() != y.tobytes() for x, y in zip(arguments, before, strict=True)):
        return "WRITTEN: a call changes an argument"
    return ""


def _is_rounding(program: Program, results: Sequence[Any], right: Sequence[np.ndarray], digits: float) -> bool:
    """True if `results` are about as close to the results in f64 as the results `right` of JAX; `digits` is the relative tolerance.

    `program` computes the results in f64.
    """
    jax, J = jax_namespace()
    text = jax.jit(lambda *xs: program(J, *xs), keep_unused=True).lower(*program.arguments).as_text()
    run = interpreted(parse_module(widened(text)).operation, "main")
    exact = run([x.astype(np.float64) if x.dtype.name in _NARROW.values() else x for x in program.arguments])
    for ours, theirs, value in zip(results, right, exact, strict=True):
        if theirs.dtype.kind in "biu":
            if np.array_equal(np.asarray(ours), theirs):
                continue
            return False
        kind = np.complex128 if theirs.dtype.kind == "c" else np.float64
        a, b = (np.abs(np.asarray(x).astype(kind) - value) for x in (ours, theirs))
        scale, error = (float(np.nan_to_num(np.abs(x), posinf=0).max(initial=0.0)) for x in (value, b))
        if np.any(a > 4 * error + digits * max(1.0, scale)):
            return False
    return True


def widened(text: str) -> str:
    """The text of a module in which all numbers of 32 bits and less are f64, including infinities and NaN."""
    import ml_dtypes

    def number(match: re.Match[str]) -> str:
        """The hexadecimal constant `match` as a constant of f64 with the same value."""
        dtype = np.dtype(ml_dtypes.bfloat16 if match[3] == "bf16" else _NARROW[match[3]])
        bits = np.array(int(match[1], 16), f"u{dtype.itemsize}").view(dtype).astype(np.float64).view(np.uint64)
        return f"dense<0x{int(bits):016X}> : tensor<{match[2]}{match[3]}>"

    text = re.sub(r"dense<(0x[0-9A-Fa-f]+)> : tensor<((?:\d+x)*)(f32|f16|bf16)>", number, text)
    return re.sub(r"(?<![A-Za-z0-9_])((?:\d+x)*)(?:f32|bf16|f16)(?=>)", r"\1f64", text)


def _interpreted(lowered: Any) -> Any:
    """The function "f" of a lowered program in the interpreter."""
    run = interpreted(lowered.module.operation, "f")
    return lambda *xs: run(list(xs))


def shortest(seed: int, target: str = "interpreter") -> tuple[Program, str]:
    """The program of a seed and its error; the program has only one result if the error remains."""
    program = Program(seed, depth=1 + seed % 5)
    fault = fault_of(program, target)
    if fault in FINE:
        return program, fault
    for i in program.results:
        alone = Program(seed, program.depth, [i])
        if (other := fault_of(alone, target)) not in FINE:
            return alone, other
    return program, fault
