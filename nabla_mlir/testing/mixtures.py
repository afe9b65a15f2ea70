"""Random programs of all dtypes, written for any namespace with NumPy's functions: NumPy itself is the oracle.

    python -m nabla_mlir.testing.mixtures --minutes 10 --seed 1

Each is traced, lowered and interpreted, alone and mapped, and must give NumPy's values, shapes and dtypes in each of its
steps. Of those in f64 the derivatives are compared too: jvp with central differences, vjp with jvp by the adjoint identity,
second derivatives by their symmetry, and nestings of transforms with each other.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.errors import NablaError
from nabla_mlir.testing.checks import interpret

Numbers = np.random.Generator
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128")
_SIZES = (0, 1, 1, 2, 3, 3, 4, 5, 7)
_DIGITS = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 2e-4, "float64": 1e-9, "complex64": 2e-4, "complex128": 1e-9}


def _kind(*kinds: str) -> Callable[[Any], bool]:
    return lambda x: x.dtype.kind in "".join(kinds)


def _any(_x: Any) -> bool:
    return True


def _axis(rng: Numbers, x: Any) -> int:
    return int(rng.integers(-x.ndim, x.ndim)) if x.ndim else 0


def unary(name: str, kinds: str, *, shift: float = 0.0) -> Any:
    def step(np_: Any, rng: Numbers, x: Any) -> Any:
        return getattr(np_, name)(x + x.dtype.type(shift) if shift else x)

    return name, _kind(kinds), step


def with_axis(name: str, kinds: str, *, full: bool = False, choices: Sequence[dict[str, Any]] = ({},)) -> Any:
    def step(np_: Any, rng: Numbers, x: Any) -> Any:
        options = choices[rng.integers(len(choices))]
        return getattr(np_, name)(x, axis=_axis(rng, x), **options)

    return name, lambda x: x.ndim > 0 and x.dtype.kind in kinds and (not full or x.size > 0), step


def binary(name: str, kinds: str) -> Any:
    def step(np_: Any, rng: Numbers, x: Any, y: Any) -> Any:
        return getattr(np_, name)(x, y)

    return name, _kind(kinds), step


REAL, ALL, NUMBER = "iuf", "biufc", "iufc"
UNARY = [
    *(unary(n, "fc") for n in ("sin", "cos", "tanh", "exp", "arctan", "sinh", "expm1", "cosh", "tan", "arcsinh", "exp2")),
    *(unary(n, NUMBER) for n in ("negative", "square", "absolute", "sign", "conj", "positive", "real", "imag", "angle")),
    *(unary(n, "f", shift=1.5) for n in ("log", "log1p", "log2", "log10", "sqrt", "cbrt", "reciprocal")),
    *(unary(n, "f") for n in ("arcsin", "arccos", "arctanh", "floor", "ceil", "trunc", "rint", "isfinite", "signbit", "deg2rad",
                              "i0", "sinc", "fabs", "nan_to_num", "spacing")),
    *(unary(n, "iub") for n in ("invert",)), unary("bitwise_count", "iu"),
    *(unary(n, ALL) for n in ("ravel", "transpose", "copy", "atleast_2d", "count_nonzero", "logical_not", "isnan", "zeros_like",
                              "ones_like", "flatnonzero" if False else "ravel", "squeeze", "all", "any", "isreal")),
    *(unary(n, NUMBER) for n in ("sum", "prod", "mean", "var", "std")),
]  # fmt: skip
AXIS = [
    *(with_axis(n, ALL, choices=({}, {"keepdims": True})) for n in ("sum", "prod", "all", "any")),
    *(with_axis(n, REAL + "b", full=True, choices=({}, {"keepdims": True})) for n in ("max", "min", "argmax", "argmin")),
    *(with_axis(n, NUMBER, full=True, choices=({}, {"keepdims": True})) for n in ("mean", "var", "std")),
    *(with_axis(n, REAL, full=True) for n in ("median", "ptp", "nanmax", "nanmean")),
    *(with_axis(n, ALL) for n in ("cumsum", "cumprod", "flip", "count_nonzero")),
    *(with_axis(n, REAL + "b", choices=({}, {"stable": True})) for n in ("sort",)), with_axis("argsort", REAL + "b", choices=({"stable": True},)),
    *(with_axis(n, NUMBER) for n in ("diff", "nansum", "nanprod", "expand_dims")),
    with_axis("diff", NUMBER, choices=({"n": 2}, {"n": 0})), 
    with_axis("mean", NUMBER, full=True, choices=({"dtype": "float32"}, {"dtype": "complex64"})),
    with_axis("sum", REAL + "b", choices=({"dtype": "int64"}, {"dtype": "float32"}, {"dtype": "uint8"})),
    with_axis("var", NUMBER, full=True, choices=({"ddof": 1},)),
]  # fmt: skip
BINARY = [
    *(binary(n, NUMBER) for n in ("add", "subtract", "multiply")), *(binary(n, "b") for n in ("add", "multiply", "maximum")),
    *(binary(n, REAL + "b") for n in ("maximum", "minimum", "fmax", "fmin", "less", "greater_equal")),
    *(binary(n, "fc" ) for n in ("logaddexp" if False else "add",)), *(binary(n, "f") for n in ("arctan2", "hypot", "copysign", "logaddexp", "heaviside", "nextafter")),
    *(binary(n, ALL) for n in ("equal", "not_equal", "logical_and", "logical_or", "logical_xor", "array_equal")),
    *(binary(n, "iub") for n in ("bitwise_and", "bitwise_or", "bitwise_xor")), *(binary(n, "iu") for n in ("gcd", "lcm")),
]  # fmt: skip


def _guarded(name: str) -> Any:
    def step(np_: Any, rng: Numbers, x: Any, y: Any) -> Any:
        return getattr(np_, name)(x, np_.where(y == 0, y + y.dtype.type(3), y))

    return name, _kind("iuf"), step


BINARY += [_guarded(n) for n in ("divide", "floor_divide", "remainder", "fmod", "true_divide")]
STEPS: list[tuple[str, Callable[[Any], bool], Any]] = []


def step(kinds: str = ALL, *, ndim: int = 0, full: bool = False) -> Any:
    """Registers a step of one array."""

    def register(function: Any) -> Any:
        STEPS.append((function.__name__, lambda x: x.dtype.kind in kinds and x.ndim >= ndim and (not full or x.size > 0), function))
        return function

    return register


@step()
def astype(np_: Any, rng: Numbers, x: Any) -> Any:
    target = np.dtype(str(rng.choice(DTYPES)))
    if x.dtype.kind == "c" and target.kind != "c":
        x = np_.real(x)
    if x.dtype.kind == "f" and target.kind in "iu":
        x = np_.clip(np_.nan_to_num(x, nan=0.0, posinf=1.0, neginf=0.0), 0, 100)
    return x.astype(target)


@step(ndim=1)
def roll(np_: Any, rng: Numbers, x: Any) -> Any:
    return np_.roll(x, int(rng.integers(-9, 9)), _axis(rng, x) if rng.integers(3) else None)


@step(ndim=1)
def concatenate(np_: Any, rng: Numbers, x: Any) -> Any:
    return np_.concatenate([x, np_.flip(x), x], _axis(rng, x))


@step()
def stack(np_: Any, rng: Numbers, x: Any) -> Any:
    return np_.stack([x, x], int(rng.integers(-x.ndim - 1, x.ndim + 1)))


@step()
def tile(np_: Any, rng: Numbers, x: Any) -> Any:
    return np_.tile(x, tuple(int(n) for n in rng.integers(0, 3, rng.integers(1, 3))))


@step(ndim=1)
def repeat(np_: Any, rng: Numbers, x: Any) -> Any:
    axis = _axis(rng, x)
    return np_.repeat(x, int(rng.integers(3)) if rng.integers(2) else rng.integers(0, 3, x.shape[axis]), axis)


@step()
def pad(np_: Any, rng: Numbers, x: Any) -> Any:
    widths = [(int(a), int(b)) for a, b in rng.integers(0, 3, (x.ndim, 2))]
    modes = ["constant", "edge", "reflect", "symmetric", "wrap"] if x.size else ["constant"]
    return np_.pad(x, widths, mode=str(rng.choice(modes)))


@step(ndim=1)
def basic_index(np_: Any, rng: Numbers, x: Any) -> Any:
    index: list[Any] = []
    for n in x.shape:
        way = rng.integers(6)
        if way == 0 and n:
            index.append(int(rng.integers(-n, n)))
        elif way in (1, 2):
            a, b = (int(k) for k in rng.integers(-n - 2, n + 3, 2))
            index.append(slice(a, b, int(rng.choice([1, 2, 3, -1, -2]))))
        elif way == 3:
            index += [None, slice(None)]
        else:
            index.append(slice(None))
    return x[tuple(index)]


@step(ndim=1, full=True)
def array_index(np_: Any, rng: Numbers, x: Any) -> Any:
    index: list[Any] = [slice(None)] * x.ndim
    shape = tuple(int(n) for n in rng.integers(0, 4, rng.integers(1, 3)))
    for axis in rng.choice(x.ndim, min(x.ndim, int(rng.integers(1, 3))), replace=False):
        n = x.shape[axis]
        index[axis] = rng.integers(-n, n, shape) if rng.integers(4) else int(rng.integers(-n, n))
    return x[tuple(index)]


@step(ndim=1, full=True)
def take_along_axis(np_: Any, rng: Numbers, x: Any) -> Any:
    axis = _axis(rng, x)
    shape = list(x.shape)
    shape[axis] = int(rng.integers(0, 4))
    return np_.take_along_axis(x, rng.integers(-x.shape[axis], x.shape[axis], shape), axis)


@step(ndim=1, full=True)
def take(np_: Any, rng: Numbers, x: Any) -> Any:
    axis = _axis(rng, x)
    return np_.take(x, rng.integers(0, x.shape[axis], 3), axis)


@step()
def where(np_: Any, rng: Numbers, x: Any) -> Any:
    mask = rng.integers(0, 2, x.shape).astype(bool)
    return np_.where(mask, x, np_.zeros_like(x))


@step(NUMBER, ndim=1)
def matmul(np_: Any, rng: Numbers, x: Any) -> Any:
    return np_.matmul(x, x) if x.ndim == 1 else np_.matmul(x, np_.swapaxes(x, -1, -2))


@step(NUMBER, ndim=1)
def contraction(np_: Any, rng: Numbers, x: Any) -> Any:
    ways = [lambda: np_.outer(x, x[:1]), lambda: np_.tensordot(x, x, axes=x.ndim), lambda: np_.vdot(x, x), lambda: np_.inner(x, x),
            lambda: np_.einsum("...i,...i->...", x, x), lambda: np_.kron(x, x[:2]), lambda: np_.dot(x, np_.swapaxes(x, -1, -2) if x.ndim > 1 else x)]  # fmt: skip
    return ways[rng.integers(len(ways))]()


@step(ndim=2)
def matrix(np_: Any, rng: Numbers, x: Any) -> Any:
    k = int(rng.integers(-2, 3))
    ways = [lambda: np_.triu(x, k), lambda: np_.tril(x, k), lambda: np_.trace(x, k), lambda: np_.diagonal(x, k), lambda: np_.rot90(x, k),
            lambda: np_.swapaxes(x, 0, -1), lambda: np_.moveaxis(x, 0, -1), lambda: np_.fliplr(x), lambda: np_.vstack([x, x]),
            lambda: np_.hstack([x, x]), lambda: np_.dstack([x, x]), lambda: np_.rollaxis(x, 1)]  # fmt: skip
    return ways[rng.integers(len(ways))]()


@step(ndim=1)
def delete(np_: Any, rng: Numbers, x: Any) -> Any:
    axis = _axis(rng, x)
    n = x.shape[axis]
    ways = [lambda: np_.append(x, x), lambda: np_.insert(x, min(1, n), 1, axis), lambda: np_.array_split(x, 3, axis)[int(rng.integers(3))],
            lambda: np_.broadcast_to(x, (2, *x.shape)), lambda: np_.resize(x, (2, 3)) if x.size else x,
            lambda: np_.delete(x, slice(0, n, 2), axis)]  # fmt: skip
    return ways[rng.integers(len(ways))]()


@step(REAL, ndim=1, full=True)
def order(np_: Any, rng: Numbers, x: Any) -> Any:
    flat = np_.ravel(x)
    q = float(rng.choice([0, 25, 50, 90, 100]))
    ways = [lambda: np_.searchsorted(np_.sort(flat), flat, side=str(rng.choice(["left", "right"]))), lambda: np_.percentile(x, q, axis=_axis(rng, x)),
            lambda: np_.digitize(flat, np_.sort(flat)), lambda: np_.interp(flat, np_.arange(4), np_.arange(4) * 2),
            lambda: np_.clip(x, 1, 3), lambda: np_.round(x, 1), lambda: np_.trapezoid(x, axis=_axis(rng, x)), lambda: np_.gradient(flat) if flat.size > 1 else flat,
            lambda: np_.convolve(flat[:5], flat[:3]), lambda: np_.polyval(flat[:3], flat), lambda: np_.select([x > 1, x > 0], [x, -x], 1),
            lambda: np_.quantile(x, 0.3), lambda: np_.average(x, axis=_axis(rng, x)), lambda: np_.partition(x, 0), lambda: np_.isin(x, flat[:2]),
            lambda: np_.cov(x[:3, ..., 0] if x.ndim == 2 else flat) if flat.size > 1 else flat, lambda: np_.cross(flat[:3], flat[-3:]) if flat.size >= 3 else flat]  # fmt: skip
    return ways[rng.integers(len(ways))]()


@step("iu")
def shift(np_: Any, rng: Numbers, x: Any) -> Any:
    k = x.dtype.type(rng.integers(0, x.dtype.itemsize * 8 - 1))
    return np_.left_shift(x, k) if rng.integers(2) else np_.right_shift(x, k)


@step("iu")
def power(np_: Any, rng: Numbers, x: Any) -> Any:
    return np_.power(x, x.dtype.type(rng.integers(0, 5)))


@step(NUMBER)
def scalar(np_: Any, rng: Numbers, x: Any) -> Any:
    c: Any = [2, 0.5, 1j, True, np.float32(0.5), np.int8(3), np.float64(0.25)][rng.integers(7)]
    ways = [lambda: x + c, lambda: c * x, lambda: x - c if c is not True else x, lambda: c - x if c is not True else x, lambda: x == c, lambda: x / c]
    return ways[rng.integers(len(ways))]()


@step()
def update(np_: Any, rng: Numbers, x: Any) -> Any:
    index: Any = [..., slice(0, 2), slice(None, None, 2), slice(None, None, -1)][rng.integers(4)] if x.ndim else ...
    if np_ is np:
        y = np.array(x)
        y[index] = y.dtype.type(1)
        return y
    return x.at[index].set(x.dtype.type(1))


@step(NUMBER)
def loop(np_: Any, rng: Numbers, x: Any) -> Any:
    count = int(rng.integers(0, 4))
    if np_ is np:
        for i in range(count):
            x = x + x.dtype.type(i)
        return x
    return nm.fori_loop(0, count, lambda i, c: c + i.astype(c.dtype), x)


@step(NUMBER, ndim=1)
def scanned(np_: Any, rng: Numbers, x: Any) -> Any:
    if np_ is np:
        carry, rows = np.zeros(x.shape[1:], x.dtype), []
        for row in x:
            rows.append(carry)
            carry = (carry + row).astype(x.dtype)
        return np.stack(rows) if rows else np.zeros(x.shape, x.dtype)
    return nm.scan(lambda c, row: (c + row, c), nnp.zeros(x.shape[1:], x.dtype), x)[1]


@step()
def branch(np_: Any, rng: Numbers, x: Any) -> Any:
    k = int(rng.integers(0, 3))
    if np_ is np:
        return [x, np.zeros_like(x), np.logical_not(x).astype(x.dtype)][k]
    index = nnp.minimum(nnp.sum(nnp.ones_like(x).astype(np.int32)) * 0 + k, 2)
    return nm.switch(index, [lambda y: y, nnp.zeros_like, lambda y: nnp.logical_not(y).astype(y.dtype)], x)


@step(ndim=1)
def mapped(np_: Any, rng: Numbers, x: Any) -> Any:
    name, holds, f = (UNARY + AXIS + STEPS)[rng.integers(len(UNARY + AXIS + STEPS))]
    own = int(rng.integers(2**31))
    if not x.shape[0] or not holds(x[0]) or name in ("count_nonzero", "basic_index") and False:
        return x
    apply = lambda row: f(np_, np.random.default_rng(own), row)  # noqa: E731
    return np.stack([apply(row) for row in x]) if np_ is np else nm.vmap(apply)(x)


def _arguments(rng: Numbers, dtypes: Sequence[str]) -> list[np.ndarray]:
    xs = []
    for _ in range(3):
        shape = tuple(int(n) for n in rng.choice(_SIZES, rng.integers(4)))
        dtype = np.dtype(str(rng.choice(dtypes)))
        if dtype.kind == "b":
            xs.append(rng.integers(0, 2, shape).astype(bool))
        elif dtype.kind in "iu":
            low = 0 if dtype.kind == "u" else -5
            x = rng.integers(low, 6, shape)
            if rng.integers(4) == 0:  # at the ends of what it holds
                x = rng.choice([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], shape) if dtype.itemsize < 8 else x
            xs.append(np.asarray(x).astype(dtype))
        else:
            x = rng.uniform(-1, 1, shape)
            xs.append(np.asarray(x + 1j * rng.uniform(-1, 1, shape) if dtype.kind == "c" else x).astype(dtype))
    return xs


class Program:
    """A program of some steps, chosen as NumPy runs it."""

    def __init__(self, seed: int, steps: int = 4):
        rng = np.random.default_rng([seed, 77])
        self.seed = seed
        self.dtypes = ("float64",) if seed % 3 == 0 else DTYPES
        self.arguments = _arguments(rng, self.dtypes)
        self.plan: list[tuple[str, Any, list[int], int]] = []
        values: list[Any] = list(self.arguments)
        tables = [UNARY, AXIS, BINARY, STEPS, STEPS]
        for _ in range(20 * steps):
            if len(self.plan) == steps:
                break
            table = tables[rng.integers(len(tables))]
            name, holds, f = table[rng.integers(len(table))]
            operands = [int(rng.integers(len(values)))]
            if table is BINARY:
                first = values[operands[0]]
                others = [i for i, v in enumerate(values) if holds(v) and v.shape in (first.shape, ())]
                operands.append(int(rng.choice(others)) if others else operands[0])
            if not all(holds(values[i]) for i in operands):
                continue
            own = int(rng.integers(2**31))
            try:
                value = np.asarray(f(np, np.random.default_rng(own), *(values[i] for i in operands)))
            except Exception:  # noqa: S112
                continue  # NumPy refuses it
            if value.size > 3000 or value.dtype.kind not in "biufc" or value.dtype.name not in DTYPES:
                continue
            if value.dtype.kind in "fc" and not (np.isfinite(value).all() and np.abs(value).max(initial=0) < 1e3):
                continue
            self.plan.append((name, f, operands, own))
            values.append(value)
        self.values = values[3:]

    def __call__(self, np_: Any, *inputs: Any) -> list[Any]:
        values = [np_.asarray(x) for x in inputs]
        for _name, f, operands, own in self.plan:
            values.append(f(np_, np.random.default_rng(own), *(values[i] for i in operands)))
        return values[3:]

    def __str__(self) -> str:
        head = ", ".join(f"{x.dtype}{list(x.shape)}" for x in self.arguments)
        return f"{head} | " + "; ".join(
            f"v{i + 3}={n}({', '.join(f'v{k}' for k in o)}):{v.dtype}{list(v.shape)}"
            for i, ((n, _, o, _), v) in enumerate(zip(self.plan, self.values, strict=True))
        )


def _worst(values: Sequence[Any]) -> float:
    return max((_DIGITS.get(np.asarray(v).dtype.name, 0.0) for v in values), default=0.0)


def check_values(program: Program) -> str:
    got = interpret(lambda *xs: program(nnp, *xs), program.arguments)
    digits = max(_worst(program.arguments), _worst(program.values))
    for i, (a, b) in enumerate(zip(got, program.values, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"TYPE {program.plan[i][0]}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        if b.dtype.kind in "biu" and not digits:
            wrong = a != b
        else:
            wide = np.complex128 if b.dtype.kind == "c" else np.float64
            scale = max(1.0, float(np.abs(b.astype(wide)).max(initial=0.0)))
            wrong = ~np.isclose(a.astype(wide), b.astype(wide), rtol=digits, atol=digits * scale, equal_nan=True)
        if wrong.any():
            place = tuple(int(k) for k in np.argwhere(wrong)[0])
            return f"VALUE {program.plan[i][0]}: {a[place]} instead of {b[place]} at {list(place)} of {b.dtype}"
    return ""


def check_derivatives(program: Program) -> str:
    """Of the last result in f64, for programs of f64."""
    rng = np.random.default_rng(program.seed)
    last = [i for i, v in enumerate(program.values) if v.dtype == np.float64]
    if not last:
        return ""
    i, xs = last[-1], program.arguments
    t = [rng.uniform(-1, 1, x.shape) for x in xs]
    ct = rng.uniform(-1, 1, program.values[i].shape)
    f = lambda *a: program(nnp, *a)[i]  # noqa: E731

    def everything(*a: Any) -> Any:
        xs, t = a[:3], a[3:6]
        jv = nm.jvp(f, xs, t)[1]
        pull = lambda *x: nm.vjp(f, *x)[1](ct)  # noqa: E731
        lin = nm.linearize(f, *xs)[1](*t)
        total = lambda *x: (f(*x) * ct).sum()  # noqa: E731
        out = {"jvp": jv, "vjp": pull(*xs), "linearize": lin, "grad": nm.grad(total, (0, 1, 2))(*xs), "hvp": nm.jvp(pull, xs, t)[1],
               "vjp of jvp": nm.vjp(lambda *x: nm.jvp(f, x, t)[1], *xs)[1](ct),
               "map": nm.vmap(lambda *x: nm.jvp(f, x, t)[1])(*(nnp.stack([x, x]) for x in xs))[1],
               "map of vjp": [y[1] for y in nm.vmap(pull)(*(nnp.stack([x, x]) for x in xs))],
               "checkpoint": nm.grad(nm.checkpoint(total), (0, 1, 2))(*xs)}  # fmt: skip
        size = int(np.prod(xs[0].shape))
        if 0 < size * ct.size < 300:
            out["jacfwd"], out["jacrev"] = nm.jacfwd(f)(*xs), nm.jacrev(f)(*xs)
        return out

    got = interpret(everything, [*xs, *t])
    same = lambda a, b: a.shape == b.shape and np.allclose(a, b, rtol=1e-8, atol=1e-8 * max(1.0, float(np.abs(b).max(initial=0.0))), equal_nan=True)  # noqa: E731
    for a, b in (("linearize", "jvp"), ("map", "jvp"), ("jacrev", "jacfwd")):
        if a in got and np.isfinite(got[a]).all() and not same(got[a], got[b]):
            return f"DERIVATIVE {a} is not {b}"
    for a, b in (("grad", "vjp"), ("map of vjp", "vjp"), ("checkpoint", "vjp"), ("vjp of jvp", "hvp")):
        if all(np.isfinite(p).all() for p in got[b]) and not all(same(p, q) for p, q in zip(got[a], got[b], strict=True)):
            return f"DERIVATIVE {a} is not {b}"
    if not all(np.isfinite(p).all() for p in (got["jvp"], *got["vjp"])):
        return ""  # a kink of infinite slope
    left, right = float((ct * got["jvp"]).sum()), float(sum((p * q).sum() for p, q in zip(got["vjp"], t, strict=True)))
    if not np.isclose(left, right, rtol=1e-8, atol=1e-8):
        return f"DERIVATIVE adjoint: {left} and {right}"
    h = 1e-5
    steps = [[x + s * h * d for x, d in zip(xs, t, strict=True)] for s in (-2, -1, 1, 2)]
    try:
        a, b, c, d = (np.asarray(program(np, *s)[i]) for s in steps)
    except Exception:
        return ""
    wanted, coarse = (a - 8 * b + 8 * c - d) / (12 * h), (c - b) / (2 * h)
    if not np.allclose(wanted, coarse, rtol=1e-4, atol=1e-4):  # a kink, or a step
        return ""
    if not np.allclose(wanted, got["jvp"], rtol=1e-4, atol=1e-4):
        place = tuple(int(k) for k in np.argwhere(~np.isclose(wanted, got["jvp"], rtol=1e-4, atol=1e-4))[0])
        one_sided = (c - np.asarray(program.values[i])) / h
        if np.isclose(one_sided[place], wanted[place], rtol=1e-3, atol=1e-3):
            return f"DERIVATIVE differences: {got['jvp'][place]} instead of {wanted[place]} at {list(place)}"
    return ""


def fault_of(program: Program) -> str:
    """What is wrong with a program; "" if nothing."""
    before = [x.copy() for x in program.arguments]
    try:
        what = check_values(program)
        if not what and program.seed % 3 == 0:
            what = check_derivatives(program)
    except NablaError as error:
        return f"REFUSED {type(error).__name__}: {error.message[:160]}"
    except Exception as error:
        frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-2:]]
        return f"ERROR {type(error).__name__} {' '.join(frames)}: {str(error)[:140]}"
    if any(x.tobytes() != y.tobytes() for x, y in zip(program.arguments, before, strict=True)):
        return "WRITTEN argument"
    return what


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m nabla_mlir.testing.mixtures")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    nm.set_default_dtypes(float="float64", int="int64")
    np.seterr(all="ignore")
    end, seed, counts = time.monotonic() + 60 * options.minutes, options.seed, collections.Counter()
    while time.monotonic() < end:
        seed = options.only if options.only is not None else seed + 1
        program = Program(seed)
        what = fault_of(program)
        for steps in range(1, len(program.plan)) if what else ():
            shorter = Program(seed, steps)
            if w := fault_of(shorter):
                program, what = shorter, w
                break
        counts[what.split(":")[0]] += 1
        if what:
            print(f"{seed}\t{what}\t{program}", flush=True)
        if options.only is not None:
            break
    print(sum(counts.values()), "programs", counts.most_common(30), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
