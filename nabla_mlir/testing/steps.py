"""Steps of random programs of all dtypes. A step is (name, condition on its operand, function); it runs in
NumPy and in nabla_mlir.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

import nabla_mlir as nm
from nabla_mlir import numpy as nnp

Numbers = np.random.Generator
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128")


def _kind(*kinds: str) -> Callable[[Any], bool]:
    return lambda x: x.dtype.kind in "".join(kinds)


def _axis(rng: Numbers, x: Any) -> int:
    return int(rng.integers(-x.ndim, x.ndim)) if x.ndim else 0


def unary(name: str, kinds: str, *, shift: float = 0.0) -> Any:
    """A step that applies a function of one array, which is shifted first."""

    def step(xp: Any, rng: Numbers, x: Any) -> Any:
        return getattr(xp, name)(x + x.dtype.type(shift) if shift else x)

    return name, _kind(kinds), step


def with_axis(name: str, kinds: str, *, full: bool = False, choices: Sequence[dict[str, Any]] = ({},)) -> Any:
    """A step of `name` along a random axis, for dtypes of these kinds (`full`: and not empty), with random keyword arguments."""

    def step(xp: Any, rng: Numbers, x: Any) -> Any:
        options = choices[int(rng.integers(len(choices)))]
        return getattr(xp, name)(x, axis=_axis(rng, x), **options)

    return name, lambda x: x.ndim > 0 and x.dtype.kind in kinds and (not full or x.size > 0), step


def binary(name: str, kinds: str) -> Any:
    """A step that applies a function of two arrays."""

    def step(xp: Any, rng: Numbers, x: Any, y: Any) -> Any:
        return getattr(xp, name)(x, y)

    return name, _kind(kinds), step


REAL, ALL, NUMBER = "iuf", "biufc", "iufc"
UNARY = [
    *(unary(n, "fc") for n in ("sin", "cos", "tanh", "exp", "arctan", "sinh", "expm1", "cosh", "tan", "arcsinh", "exp2")),
    *(unary(n, NUMBER) for n in ("negative", "square", "absolute", "sign", "conj", "positive", "real", "imag")),
    *(unary(n, "f", shift=1.5) for n in ("log", "log1p", "log2", "log10", "sqrt", "cbrt", "reciprocal")),
    *(
        unary(n, "f")
        for n in (
            "arcsin",
            "arccos",
            "arctanh",
            "floor",
            "ceil",
            "trunc",
            "rint",
            "isfinite",
            "signbit",
            "deg2rad",
            "i0",
            "sinc",
            "fabs",
            "nan_to_num",
        )
    ),
    *(unary(n, "iub") for n in ("invert",)),
    unary("bitwise_count", "iu"),
    *(
        unary(n, ALL)
        for n in (
            "ravel",
            "transpose",
            "copy",
            "atleast_2d",
            "count_nonzero",
            "logical_not",
            "isnan",
            "zeros_like",
            "ones_like",
            "squeeze",
            "all",
            "any",
            "isreal",
        )
    ),
    *(unary(n, NUMBER) for n in ("sum", "prod", "mean", "var", "std")),
    unary("angle", "c"),
    ("spacing", lambda x: x.dtype.name in ("float32", "float64"), unary("spacing", "f")[2]),  # f16: NumPy drops the sign
]
AXIS = [
    *(with_axis(n, ALL, choices=({}, {"keepdims": True})) for n in ("sum", "prod", "all", "any")),
    *(with_axis(n, REAL + "b", full=True, choices=({}, {"keepdims": True})) for n in ("max", "min", "argmax", "argmin")),
    *(with_axis(n, NUMBER, full=True, choices=({}, {"keepdims": True})) for n in ("mean", "var", "std")),
    *(with_axis(n, REAL, full=True) for n in ("median", "ptp", "nanmax", "nanmean")),
    *(with_axis(n, ALL) for n in ("cumsum", "cumprod", "flip", "count_nonzero")),
    *(with_axis(n, REAL + "b", choices=({}, {"stable": True})) for n in ("sort",)),
    with_axis("argsort", REAL + "b", choices=({"stable": True},)),
    *(with_axis(n, NUMBER) for n in ("diff", "nansum", "nanprod", "expand_dims")),
    with_axis("diff", NUMBER, choices=({"n": 2}, {"n": 0})),
    with_axis("mean", NUMBER, full=True, choices=({"dtype": "float32"}, {"dtype": "complex64"})),
    with_axis("sum", "iub", choices=({"dtype": "int64"}, {"dtype": "float32"}, {"dtype": "uint8"})),
    with_axis("var", NUMBER, full=True, choices=({"ddof": 1},)),
]
BINARY = [
    *(binary(n, NUMBER) for n in ("add", "subtract", "multiply")),
    *(binary(n, "b") for n in ("add", "multiply", "maximum")),
    *(binary(n, REAL + "b") for n in ("maximum", "minimum", "fmax", "fmin", "less", "greater_equal")),
    *(binary(n, "f") for n in ("arctan2", "hypot", "copysign", "logaddexp", "heaviside", "nextafter")),
    *(binary(n, ALL) for n in ("equal", "not_equal", "logical_and", "logical_or", "logical_xor", "array_equal")),
    *(binary(n, "iub") for n in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *(binary(n, "iu") for n in ("gcd", "lcm")),
]


def _guarded(name: str) -> Any:  # a step (name, condition, function) that divides, with 3 in place of zeros in the divisor
    def step(xp: Any, rng: Numbers, x: Any, y: Any) -> Any:
        return getattr(xp, name)(x, xp.where(y == 0, y + y.dtype.type(3), y))

    return name, _kind("iuf"), step


BINARY += [_guarded(n) for n in ("divide", "floor_divide", "remainder", "fmod", "true_divide")]
STEPS: list[tuple[str, Callable[[Any], bool], Any]] = []
F = TypeVar("F", bound=Callable[..., Any])


def step(kinds: str = ALL, *, ndim: int = 0, full: bool = False) -> Callable[[F], F]:
    """Registers a step of one array."""

    def register(function: F) -> F:  # the function itself, after it is added to the table
        holds = lambda x: x.dtype.kind in kinds and x.ndim >= ndim and (not full or x.size > 0)  # noqa: E731
        STEPS.append((function.__name__.strip("_"), holds, function))
        return function

    return register


@step()
def _astype(xp: Any, rng: Numbers, x: Any) -> Any:
    """The array `x` in a random dtype; values that the dtype cannot represent are clipped first."""
    target = np.dtype(str(rng.choice(DTYPES)))
    if x.dtype.kind == "c" and target.kind != "c":
        x = xp.real(x)
    if x.dtype.kind == "f" and target.kind in "iu":
        x = xp.clip(xp.nan_to_num(x, nan=0.0, posinf=1.0, neginf=0.0), 0, 100)
    return x.astype(target)


@step(ndim=1)
def _roll(xp: Any, rng: Numbers, x: Any) -> Any:
    return xp.roll(x, int(rng.integers(-9, 9)), _axis(rng, x) if rng.integers(3) else None)


@step(ndim=1)
def _concatenate(xp: Any, rng: Numbers, x: Any) -> Any:
    return xp.concatenate([x, xp.flip(x), x], _axis(rng, x))


@step()
def _stack(xp: Any, rng: Numbers, x: Any) -> Any:
    return xp.stack([x, x], int(rng.integers(-x.ndim - 1, x.ndim + 1)))


@step()
def _tile(xp: Any, rng: Numbers, x: Any) -> Any:
    return xp.tile(x, tuple(int(n) for n in rng.integers(0, 3, rng.integers(1, 3))))


@step(ndim=1)
def _repeat(xp: Any, rng: Numbers, x: Any) -> Any:  # x with rows repeated, all as often or each a random number of times
    axis = _axis(rng, x)
    return xp.repeat(x, int(rng.integers(3)) if rng.integers(2) else rng.integers(0, 3, x.shape[axis]), axis)


@step()
def _pad(xp: Any, rng: Numbers, x: Any) -> Any:  # x padded by random widths in a random mode
    widths = [(int(a), int(b)) for a, b in rng.integers(0, 3, (x.ndim, 2))]
    modes = ["constant", "edge", "reflect", "symmetric", "wrap"] if x.size else ["constant"]
    return xp.pad(x, widths, mode=str(rng.choice(modes)))


@step(ndim=1)
def _basic_index(xp: Any, rng: Numbers, x: Any) -> Any:
    """A random part of `x`, by integers, slices and new axes. `xp` is NumPy or nabla_mlir.numpy."""
    index: list[Any] = []
    for n in x.shape:
        form = rng.integers(6)
        if form == 0 and n:
            index.append(int(rng.integers(-n, n)))
        elif form in (1, 2):
            a, b = (int(k) for k in rng.integers(-n - 2, n + 3, 2))
            index.append(slice(a, b, int(rng.choice([1, 2, 3, -1, -2]))))
        elif form == 3:
            index += [None, slice(None)]
        else:
            index.append(slice(None))
    return x[tuple(index)]


@step(ndim=1, full=True)
def _array_index(xp: Any, rng: Numbers, x: Any) -> Any:
    """A random part of `x`, by arrays of indices along one or two axes. `xp` is NumPy or nabla_mlir.numpy."""
    index: list[Any] = [slice(None)] * x.ndim
    shape = tuple(int(n) for n in rng.integers(0, 4, rng.integers(1, 3)))
    for axis in rng.choice(x.ndim, min(x.ndim, int(rng.integers(1, 3))), replace=False):
        n = x.shape[axis]
        index[axis] = rng.integers(-n, n, shape) if rng.integers(4) else int(rng.integers(-n, n))
    return x[tuple(index)]


@step(ndim=1, full=True)
def _take_along_axis(xp: Any, rng: Numbers, x: Any) -> Any:
    """Takes elements at random positions along a random axis."""
    axis = _axis(rng, x)
    shape = list(x.shape)
    shape[axis] = int(rng.integers(0, 4))
    return xp.take_along_axis(x, rng.integers(-x.shape[axis], x.shape[axis], shape), axis)


@step(ndim=1, full=True)
def _take(xp: Any, rng: Numbers, x: Any) -> Any:  # three random rows of x
    axis = _axis(rng, x)
    return xp.take(x, rng.integers(0, x.shape[axis], 3), axis)


@step()
def _where(xp: Any, rng: Numbers, x: Any) -> Any:  # x with random elements replaced by zero
    mask = rng.integers(0, 2, x.shape).astype(bool)
    return xp.where(mask, x, xp.zeros_like(x))


@step(NUMBER, ndim=1)
def _matmul(xp: Any, rng: Numbers, x: Any) -> Any:
    return xp.matmul(x, x) if x.ndim == 1 else xp.matmul(x, xp.swapaxes(x, -1, -2))


@step(NUMBER, ndim=1)
def _contraction(xp: Any, rng: Numbers, x: Any) -> Any:  # x in a random contraction with itself
    forms = [
        lambda: xp.outer(x, x[:1]),
        lambda: xp.tensordot(x, x, axes=x.ndim),
        lambda: xp.vdot(x, x),
        lambda: xp.inner(x, x),
        lambda: xp.einsum("...i,...i->...", x, x),
        lambda: xp.kron(x, x[:2]),
        lambda: xp.dot(x, xp.swapaxes(x, -1, -2) if x.ndim > 1 else x),
    ]
    return forms[rng.integers(len(forms))]()


@step(ndim=2)
def _matrix(xp: Any, rng: Numbers, x: Any) -> Any:
    """An operation on matrices that selects or moves elements."""
    k = int(rng.integers(-2, 3))
    forms = [
        lambda: xp.triu(x, k),
        lambda: xp.tril(x, k),
        lambda: xp.trace(x, k),
        lambda: xp.diagonal(x, k),
        lambda: xp.rot90(x, k),
        lambda: xp.swapaxes(x, 0, -1),
        lambda: xp.moveaxis(x, 0, -1),
        lambda: xp.fliplr(x),
        lambda: xp.vstack([x, x]),
        lambda: xp.hstack([x, x]),
        lambda: xp.dstack([x, x]),
        lambda: xp.rollaxis(x, 1),
    ]
    return forms[rng.integers(len(forms))]()


@step(ndim=1)
def _delete(xp: Any, rng: Numbers, x: Any) -> Any:  # x with elements added, repeated or deleted
    axis = _axis(rng, x)
    n = x.shape[axis]
    forms = [
        lambda: xp.append(x, x),
        lambda: xp.insert(x, min(1, n), 1, axis),
        lambda: xp.array_split(x, 3, axis)[int(rng.integers(3))],
        lambda: xp.broadcast_to(x, (2, *x.shape)),
        lambda: xp.resize(x, (2, 3)) if x.size else x,
        lambda: xp.delete(x, slice(0, n, 2), axis),
    ]
    return forms[rng.integers(len(forms))]()


@step(REAL, ndim=1, full=True)
def _order(xp: Any, rng: Numbers, x: Any) -> Any:
    """An operation that depends on the order of the elements, or interpolates."""
    flat = xp.ravel(x)
    q = float(rng.choice([0, 25, 50, 90, 100]))
    forms = [
        lambda: xp.searchsorted(xp.sort(flat), flat, side=str(rng.choice(["left", "right"]))),
        lambda: xp.percentile(x.astype(np.float64), q, axis=_axis(rng, x)),
        lambda: xp.digitize(flat, xp.sort(flat)),
        lambda: xp.interp(flat, xp.arange(4), xp.arange(4) * 2),
        lambda: xp.clip(x, 1, 3),
        lambda: xp.round(x, 1),
        lambda: xp.trapezoid(x.astype(np.float64), axis=_axis(rng, x)),
        lambda: xp.gradient(flat) if flat.size > 1 else flat,
        lambda: xp.convolve(flat[:5], flat[:3]),
        lambda: xp.polyval(flat[:3], flat),
        lambda: xp.select([x > 1, x > 0], [x, -x], 1),
        lambda: xp.average(x.astype(np.float64), axis=_axis(rng, x)),
        lambda: xp.isin(x, flat[:2]),
        lambda: xp.cov(flat.astype(np.float64)) if flat.size > 1 else flat,
        lambda: xp.cross(flat[:3], flat[-3:]) if flat.size >= 3 else flat,
    ]
    return forms[rng.integers(len(forms))]()


@step("iu")
def _shift(xp: Any, rng: Numbers, x: Any) -> Any:  # x with its bits shifted by a random number
    k = x.dtype.type(rng.integers(0, x.dtype.itemsize * 8 - 1))
    return xp.left_shift(x, k) if rng.integers(2) else xp.right_shift(x, k)


@step("iu")
def _power(xp: Any, rng: Numbers, x: Any) -> Any:
    return xp.power(x, x.dtype.type(rng.integers(0, 5)))


@step(NUMBER)
def _scalar(xp: Any, rng: Numbers, x: Any) -> Any:  # x combined with a random scalar of Python or NumPy
    c: Any = [2, 0.5, 1j, True, np.float32(0.5), np.int8(3), np.float64(0.25)][rng.integers(7)]
    forms = [
        lambda: x + c,
        lambda: c * x,
        lambda: x - c if c is not True else x,
        lambda: c - x if c is not True else x,
        lambda: x == c,
        lambda: x / c,
    ]
    return forms[rng.integers(len(forms))]()


@step()
def _update(xp: Any, rng: Numbers, x: Any) -> Any:  # x with ones at a random index
    index: Any = [..., slice(0, 2), slice(None, None, 2), slice(None, None, -1)][rng.integers(4)] if x.ndim else ...
    if xp is np:
        y = np.array(x)
        y[index] = y.dtype.type(1)
        return y
    return x.at[index].set(x.dtype.type(1))


@step(NUMBER)
def _loop(xp: Any, rng: Numbers, x: Any) -> Any:  # x plus 0, 1, ... in a loop
    count = int(rng.integers(0, 4))
    if xp is np:
        for i in range(count):
            x = x + x.dtype.type(i)
        return x
    return nm.fori_loop(0, count, lambda i, c: c + i.astype(c.dtype), x)


@step(NUMBER, ndim=1)
def _scanned(xp: Any, rng: Numbers, x: Any) -> Any:
    """Returns, for each row of x, the sum of the rows before it, by a scan."""
    if xp is np:
        carry, rows = np.zeros(x.shape[1:], x.dtype), []
        for row in x:
            rows.append(carry)
            carry = (carry + row).astype(x.dtype)
        return np.stack(rows) if rows else np.zeros(x.shape, x.dtype)
    return nm.scan(lambda c, row: (c + row, c), nnp.zeros(x.shape[1:], x.dtype), x)[1]


@step()
def _branch(xp: Any, rng: Numbers, x: Any) -> Any:  # x, zeros, or its negation as 0 and 1, by a branch
    k = int(rng.integers(0, 3))
    if xp is np:
        return [x, np.zeros_like(x), np.logical_not(x).astype(x.dtype)][k]
    index = nnp.minimum(nnp.sum(nnp.ones_like(x).astype(np.int32)) * 0 + k, 2)
    return nm.switch(index, [lambda y: y, nnp.zeros_like, lambda y: nnp.logical_not(y).astype(y.dtype)], x)


@step(ndim=1)
def _mapped(xp: Any, rng: Numbers, x: Any) -> Any:
    """A random step, mapped over the rows of x."""
    _, holds, f = (UNARY + AXIS + STEPS)[rng.integers(len(UNARY + AXIS + STEPS))]
    step_seed = int(rng.integers(2**31))
    if not x.shape[0] or not holds(x[0]):
        return x
    apply = lambda row: f(xp, np.random.default_rng(step_seed), row)  # noqa: E731
    return np.stack([apply(row) for row in x]) if xp is np else nm.vmap(apply)(x)
