"""Random operations on one array, written once for every module with JAX's names.

An operation draws its choices in each call, from a seed and the shape and dtype of the array. So the same function can
be mapped, differentiated, or called on a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Numbers = np.random.Generator
Function = Callable[[Any, Any], Any]  # a function of (the module whose functions it calls, an array)


def rng_of(seed: int, x: Any) -> Numbers:
    """Random numbers that depend only on the seed, shape and dtype."""
    return np.random.default_rng([seed, *x.shape, *str(x.dtype).encode()])


def kind(x: Any) -> str:
    """NumPy's letter of the kind of dtype; "f" also for bfloat16."""
    name = np.dtype(x.dtype).name
    return "f" if name.startswith("bfloat") else np.dtype(x.dtype).kind


def axis_of(rng: Numbers, x: Any) -> int:
    """A random axis of an array; 0 if it has none."""
    return int(rng.integers(x.ndim)) if x.ndim else 0


def bounded(J: Any, x: Any) -> Any:
    """The array `x` scaled to moderate size, so that later steps do not overflow; integers are unchanged, because they wrap
    equally.
    """
    if kind(x) == "f":
        return J.numpy.tanh(x)
    return x / (1 + J.numpy.abs(x)).astype(x.dtype) if kind(x) == "c" else x


# ---------------------------------------------------------------- operations

ANY: list[Callable[[Any, Numbers, Any], Any]] = []
INEXACT: list[Callable[[Any, Numbers, Any], Any]] = []
REAL: list[Callable[[Any, Numbers, Any], Any]] = []
WHOLE: list[Callable[[Any, Numbers, Any], Any]] = []
SHAPED: list[Callable[[Any, Numbers, Any], Any]] = []  # these need an axis with elements
SHARP: list[
    Callable[[Any, Numbers, Any], Any]
] = []  # functions with steps or ties, which rounding can change; only for exact numbers and f64


def _unary(table: list[Any], *names: str, of: str = "numpy") -> None:
    """Adds the functions with these names, of one array, to a table of operations."""

    def named(name: str) -> Any:
        """The operation that calls the function `name` of the namespace `of`."""

        def operation(J: Any, rng: Numbers, x: Any) -> Any:
            return getattr(getattr(J, of), name)(x)

        operation.__name__ = name
        return operation

    table += [named(name) for name in names]


_unary(INEXACT, "sin", "cos", "tanh", "exp", "sinh", "expm1", "cosh", "square", "negative", "conj", "arctan", "arcsinh")
_unary(REAL, "abs", "cbrt", "logistic", "erf", "erfc", "lgamma", "bessel_i0e", of="lax")
_unary(REAL, "softplus", "silu", "gelu", "elu", "softmax", "log_softmax", "logsumexp", "selu", "relu", of="nn")
_unary(SHARP, "floor", "ceil", "sign", "round", "isfinite", "trunc", "signbit")
_unary(ANY, "ravel", "zeros_like", "ones_like", "squeeze", "atleast_2d", "copy", "real")
_unary(WHOLE, "negative", "square", "abs", "sign", "invert", "bitwise_count")


def _operation(table: list[Any]) -> Callable[[Any], Any]:
    """A decorator that adds an operation to a table."""

    def add(function: Any) -> Any:
        """The operation itself, after it is added to the table."""
        table.append(function)
        return function

    return add


@_operation(INEXACT)
def _scaled(J: Any, rng: Numbers, x: Any) -> Any:
    """A random operation of x and a number, or a small power. `rng` makes the random choices."""
    c = [2, 0.5, -1.5, np.float32(0.25), 3][rng.integers(5)]
    return [lambda: x * c, lambda: c - x, lambda: x / 2, lambda: x + c, lambda: x**2, lambda: x**3][rng.integers(6)]()


@_operation(REAL)
def _away_from_singular_points(J: Any, rng: Numbers, x: Any) -> Any:
    """A random function of the floats `x` that avoids its singular points, such as the root of x * x + 1; `J` is JAX or
    nabla_mlir.jax.

    `rng` makes the random choices.
    """
    n, y = J.numpy, x * x + 1
    forms: list[Any] = [
        lambda: n.sqrt(y),
        lambda: n.log(y),
        lambda: J.lax.rsqrt(y),
        lambda: 1 / y,
        lambda: n.log1p(x * x),
        lambda: y**0.5,
        lambda: n.power(y, x),
        lambda: n.arctan2(x, y),
        lambda: n.hypot(x, y),
        lambda: n.logaddexp(x, y),
        lambda: x / y,
        lambda: n.arcsin(x / y),
        lambda: n.arccosh(y + 1),
        lambda: n.arctanh(x / (y + 1)),
        lambda: J.lax.digamma(y),
        lambda: n.sinc(x) if _is_exact(x) else x,
        lambda: J.lax.rem(x, y),
        lambda: n.mod(x, y),
    ]
    return forms[rng.integers(len(forms))]()


@_operation(ANY)
def _formed(J: Any, rng: Numbers, x: Any) -> Any:
    """The array `x` after a random operation that changes the shape and not the numbers; `J` is JAX or nabla_mlir.jax, and `rng`
    makes the choices.
    """
    n = J.numpy
    forms: list[Any] = [
        lambda: n.transpose(x),
        lambda: n.reshape(x, (-1,)),
        lambda: n.expand_dims(x, int(rng.integers(x.ndim + 1))),
        lambda: n.stack([x, x], int(rng.integers(x.ndim + 1))),
        lambda: n.broadcast_to(x, (2, *x.shape)),
        lambda: n.pad(x, 1),
        lambda: n.where(rng.integers(0, 2, x.shape).astype(bool), x, n.zeros_like(x)),
        lambda: n.reshape(x, x.shape[::-1]),
        lambda: n.tile(x, 2),
        lambda: n.full_like(x, 1) + x if kind(x) != "b" else x,
        lambda: J.lax.stop_gradient(x),
        lambda: J.lax.optimization_barrier(x),
    ]
    return forms[rng.integers(len(forms))]()


@_operation(WHOLE)
def _counted(J: Any, rng: Numbers, x: Any) -> Any:
    """The integers or truth values `x` after a random operation for them; `J` is JAX or nabla_mlir.jax, and `rng` makes
    the choices.
    """
    if kind(x) == "b":
        return [lambda: ~x, lambda: x & ~x, lambda: x | True, lambda: x ^ x][rng.integers(4)]()
    n, three = J.numpy, np.dtype(x.dtype).type(3)
    forms: list[Any] = [
        lambda: x + three,
        lambda: x * three,
        lambda: x // three,
        lambda: x % three,
        lambda: x - three,
        lambda: x ^ three,
        lambda: n.maximum(x, three),
        lambda: n.left_shift(x, three),
        lambda: n.right_shift(x, three),
        lambda: x == three,
        lambda: J.lax.clz(x),
        lambda: J.lax.div(x, three),
        lambda: J.lax.rem(x, three),
        lambda: x**2,
        lambda: n.clip(x, 1, three),
        lambda: J.lax.shift_right_logical(x, three),
        lambda: J.lax.population_count(x),
        lambda: x < three,
    ]
    return forms[rng.integers(len(forms))]()


@_operation(SHAPED)
def _moved(J: Any, rng: Numbers, x: Any) -> Any:
    """The array `x` with elements moved, repeated or padded along a random axis; `J` is JAX or nabla_mlir.jax, and `rng` makes the
    choices.
    """
    n, axis, k = J.numpy, axis_of(rng, x), int(rng.integers(-3, 4))
    size = x.shape[axis]
    forms: list[Any] = [
        lambda: n.flip(x, axis),
        lambda: n.roll(x, k, axis),
        lambda: n.concatenate([x, n.flip(x, axis)], axis),
        lambda: n.moveaxis(x, axis, 0),
        lambda: n.repeat(x, 2, axis),
        lambda: n.repeat(x, rng.integers(0, 3, size), axis, total_repeat_length=4),
        lambda: J.lax.slice_in_dim(x, 0, size, 2, axis),
        lambda: n.swapaxes(x, 0, axis),
        lambda: n.split(x, [min(1, size)], axis)[1],
        lambda: J.lax.pad(
            x,
            np.dtype(x.dtype).type(0),
            [
                (int(a), int(b), int(c))
                for a, b, c in zip(*rng.integers(-1, 3, (2, x.ndim)), rng.integers(0, 3, x.ndim), strict=True)
            ],
        ),
        lambda: n.diagonal(x) if x.ndim > 1 else n.diag(x),
        lambda: n.tril(x) if x.ndim > 1 else x,
        lambda: n.delete(x, 0, axis) if size else x,
    ]
    return forms[rng.integers(len(forms))]()


@_operation(SHAPED)
def _indexed(J: Any, rng: Numbers, x: Any) -> Any:
    """The elements of `x` at random indices, or `x` with new elements there; `J` is JAX or nabla_mlir.jax, and `rng` makes the
    choices.
    """
    size, n = x.shape[0], J.numpy
    if not size:
        return x[1:]
    rows, row = rng.integers(-size, size, rng.integers(1, 5)), int(rng.integers(size))
    start = J.numpy.asarray(int(rng.integers(-2, size + 2)), np.int32)
    one = np.dtype(x.dtype).type(1)
    at = x.at[rows]
    forms: list[Any] = [
        lambda: x[row],
        lambda: x[rows],
        lambda: x[::-1],
        lambda: x[row:],
        lambda: x[..., None],
        lambda: at.set(one),
        lambda: n.take(x, rows, axis=0, mode="wrap"),
        lambda: J.lax.dynamic_slice_in_dim(x, start, min(2, size), 0),
        lambda: J.lax.dynamic_update_slice_in_dim(x, x[:1], start, 0),
        lambda: J.lax.dynamic_index_in_dim(x, start, 0),
        lambda: x[start],
        lambda: x.at[start % size].set(x[0]),
        lambda: x.at[rows].get(mode="fill", fill_value=0),
        lambda: x.at[rows + size].set(one, mode="drop"),
        lambda: n.take_along_axis(x, rng.integers(0, size, (2, *x.shape[1:])), 0),
        lambda: x[rows, ..., 0] if x.ndim > 1 and x.shape[-1] else x,
        lambda: x[None, row],
        lambda: x[np.arange(size) % 2 == 0],
    ]
    if kind(x) != "b":
        forms += [lambda: at.add(one), lambda: at.multiply(one), lambda: at.add(x[rows]), lambda: at.multiply(x[0])]
    if kind(x) in "fiu":
        forms += [lambda: at.max(one), lambda: at.min(x[row])]
    return forms[rng.integers(len(forms))]()


@_operation(SHAPED)
def _reduced(J: Any, rng: Numbers, x: Any) -> Any:
    """A random reduction of `x` along an axis, or a running one; `J` is JAX or nabla_mlir.jax, and `rng` makes the choices."""
    n, axis, keep = J.numpy, axis_of(rng, x), bool(rng.integers(2))
    if kind(x) == "b":
        return [n.all, n.any][rng.integers(2)](x, axis, keepdims=keep)
    forms: list[Any] = [
        lambda: n.sum(x, axis, keepdims=keep),
        lambda: n.prod(x, axis, keepdims=keep),
        lambda: n.cumsum(x, axis),
        lambda: n.sum(x),
        lambda: n.cumprod(x, axis),
        lambda: J.lax.cumsum(x, axis, reverse=keep),
        lambda: n.sum(x, axis, where=rng.integers(0, 2, x.shape).astype(bool)),
        lambda: n.diff(x, axis=axis),
        lambda: n.count_nonzero(x, axis=axis),
        lambda: n.count_nonzero(x),
    ]
    if x.size and kind(x) != "c":
        forms += [
            lambda: n.max(x, axis, keepdims=keep),
            lambda: n.min(x),
            lambda: J.lax.cummax(x, axis),
            lambda: J.lax.cummin(x, axis, reverse=keep),
            lambda: n.ptp(x, axis),
            lambda: n.max(x, axis, initial=0, where=rng.integers(0, 2, x.shape).astype(bool)),
        ]
    if x.size and kind(x) in "fc":
        forms += [lambda: n.mean(x, axis, keepdims=keep), lambda: n.var(x, axis), lambda: n.mean(x), lambda: n.linalg.norm(x)]
    if x.size and kind(x) == "f":
        forms += [lambda: J.lax.cumlogsumexp(x, axis), lambda: J.nn.softmax(x, axis), lambda: J.nn.logsumexp(x, axis=axis)]
    return forms[rng.integers(len(forms))]()


@_operation(SHAPED)
def _multiplied(J: Any, rng: Numbers, x: Any) -> Any:
    """A random product of `x` with itself: a matrix product, an outer product, a convolution; `J` is JAX or nabla_mlir.jax, and
    `rng` makes the choices.
    """
    if kind(x) == "b":
        return x
    n = J.numpy
    flat = n.reshape(x, (-1,))[:20]
    forms: list[Any] = [
        lambda: n.outer(flat, flat),
        lambda: flat @ flat,
        lambda: n.einsum("...i,...i->...", x, x),
        lambda: n.kron(flat[:5], flat[:2]),
        lambda: n.tensordot(x, x, x.ndim),
        lambda: n.convolve(flat[:6], flat[:3]) if flat.shape[0] > 2 and kind(x) in "fc" else flat,
        lambda: x @ n.swapaxes(x, -1, -2) if x.ndim > 1 else x @ x,
        lambda: n.vdot(flat, flat),
        lambda: n.inner(x, x),
        lambda: n.einsum("ij,ik->jk", x, x) if x.ndim == 2 else x,
    ]
    return forms[rng.integers(len(forms))]()


@_operation(SHARP)
def _ordered(J: Any, rng: Numbers, x: Any) -> Any:
    """The result of a random operation that depends on the order of the elements of `x`, such as a sort; `J` is JAX or
    nabla_mlir.jax.

    `rng` makes the random choices.
    """
    if not x.ndim or not x.size or kind(x) not in "fiu":
        return x
    n, axis, flat = J.numpy, axis_of(rng, x), J.numpy.reshape(x, (-1,))
    forms: list[Any] = [
        lambda: n.sort(x, axis),
        lambda: n.argsort(x, axis),
        lambda: n.argmax(x, axis),
        lambda: n.argmin(x),
        lambda: n.sort(x, axis)[::-1],
        lambda: n.searchsorted(n.sort(flat), flat),
        lambda: n.median(x.astype(np.float64), axis),
        lambda: J.lax.top_k(x, min(2, x.shape[-1]))[0],
        lambda: n.clip(x, 0, 1),
        lambda: n.percentile(x.astype(np.float64), 30.0),
        lambda: n.unique(flat, size=4, fill_value=0),
        lambda: n.where(x > 0, x, 0 * x),
        lambda: n.maximum(x, n.flip(x, axis)),
        lambda: J.lax.sort((x, -x), dimension=axis, num_keys=1)[1],
        lambda: n.interp(flat, n.arange(4.0), n.arange(4.0) ** 2).astype(flat.dtype),
        lambda: n.digitize(flat, np.array([-0.5, 0.5])),
    ]
    return forms[rng.integers(len(forms))]()


def _converted(J: Any, rng: Numbers, x: Any) -> Any:
    """The array `x` in a random dtype; unchanged if rounding could decide the result. `J` is JAX or nabla_mlir.jax, and `rng` makes
    the choices.
    """
    name = str(
        rng.choice(["int32", "uint8", "int64", "float32", "float64", "bfloat16", "float16", "complex64", "complex128", "bool"])
    )
    if kind(x) == "c" and not name.startswith("c"):
        x = J.numpy.real(x)
    if name.startswith(("u", "i", "b")) and name != "bfloat16" and kind(x) == "f":  # rounding may change it
        return x
    return x.astype(J.numpy.dtype(name))


def _with_common_dtype(y: Any, x: Any) -> Any:
    """The result y of an operation on x in a dtype that does not depend on how a library promotes integers."""
    if kind(x) == "b" or (kind(x) in "fc" and kind(y) in "iu"):
        return y if kind(y) == "b" else y.astype(np.int32)
    if kind(x) in "iu" and kind(y) != "b":
        return y.astype(x.dtype if kind(y) in "iu" else np.float32)
    return y


def _is_exact(x: Any) -> bool:
    return kind(x) in "biu" or np.dtype(x.dtype).name == "float64"


def operation(seed: int) -> Function:
    """An operation that is defined for arrays of every shape and dtype."""

    def apply(J: Any, x: Any) -> Any:
        """The result of an operation on `x` that the seed and the type of `x` choose; `J` is JAX or nabla_mlir.jax."""
        rng = rng_of(seed, x)
        tables = [ANY]
        if kind(x) in "fc":
            tables += [INEXACT] * 2
        if kind(x) == "f":
            tables += [REAL] * 2
        if kind(x) in "iub":
            tables += [WHOLE] * 2
        if x.ndim:
            tables += [SHAPED] * 3
        if _is_exact(x) and kind(x) in "fiu":
            tables.append(SHARP)
        table = tables[rng.integers(len(tables))]
        if rng.integers(14) == 0:
            return _converted(J, rng, x)
        choice = table[rng.integers(len(table))]
        if choice.__name__ in ("relu", "abs") and not _is_exact(x):
            return x
        if kind(x) == "b" and choice.__name__ in ("negative", "square", "bitwise_count", "sign", "abs"):
            return x
        return bounded(J, _with_common_dtype(choice(J, rng, x), x))

    return apply
