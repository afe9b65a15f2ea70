"""Steps of small programs: functions of two values of one shape and dtype and of a vector of indices; the result has this shape.

A step is named after its function. `STEPS` gives the kinds of dtypes of each step: f (floating point), c (complex), i
(integers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.jax import lax

Numbers = np.random.Generator
Map = Callable[[Any], Any]  # a function from a value to a value of the same type


@dataclass(frozen=True)
class Step:
    """One kind of step.

    Args:
      kinds: the kinds of dtypes, as letters.
      apply: the function of random numbers, two values and indices of rows.
      is_costly: True if its f64 code is a polynomial of dozens of operations.
    """

    kinds: str
    apply: Callable[[Numbers, Any, Any, Any], Any]
    is_costly: bool = False


STEPS: dict[str, Step] = {}


def _step(kinds: str = "fci", is_costly: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds a step for dtypes of these kinds to the table, under the function's name."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself, after it is added to the table."""
        STEPS[function.__name__.strip("_")] = Step(kinds, function, is_costly)
        return function

    return register


def kind_of(x: Any) -> str:
    """The letter of a dtype: c (complex), i (integers), f (floating point)."""
    kind = np.dtype(x.dtype).kind
    return kind if kind in "ci" else "f"


def bounded(x: Any) -> Any:
    """The array with bounded values of the same dtype: integers modulo 16, and x / (1 + |x|²) for other dtypes."""
    if kind_of(x) == "i":
        return x & 15
    return x / (1 + (x * nnp.conj(x) if kind_of(x) == "c" else x * x))


def real(x: Any) -> Any:
    """The real part of a complex value; other values do not change."""
    return nnp.real(x) if kind_of(x) == "c" else x


def mask_of(rng: Numbers, x: Any) -> np.ndarray:
    """Random truth values for the elements of an array."""
    return rng.integers(0, 2, x.shape).astype(bool)


# ---------------------------------------------------------------- arithmetic


@_step()
def _product(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    return x * y


@_step()
def _difference(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    return x - (y * 3 if kind_of(x) == "i" else 0.7 * y)


@_step("fc")
def _quotient(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    return x / (1.5 + y * nnp.conj(y)) if kind_of(x) == "c" else x / (1.5 + y * y)


@_step("f")
def _root(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    return (nnp.sqrt(1.2 + x * x), nnp.hypot(x, y), nnp.hypot(x, x[::-1]), nnp.abs(x) * y)[int(rng.integers(4))]


@_step("f", is_costly=True)
def _function(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """A random elementwise function of x, or of x and y; `rng` makes the choices, and `k` is not read."""
    functions = (
        lambda: nnp.sin(x),
        lambda: nnp.tanh(x) + y,
        lambda: nnp.exp(-x * x),
        lambda: nnp.logaddexp(x, y),
        lambda: nnp.log1p(y * y),
        lambda: nnp.arctan2(x, 1 + y * y),
        lambda: nm.nn.sigmoid(x) * y,
    )
    return functions[int(rng.integers(len(functions)))]()


@_step("fc")
def _power(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    return bounded(x) ** int(rng.integers(2, 4)) + y


@_step("c")
def _parts(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """A random operation on the real and imaginary parts of x and y; `rng` makes the choices, and `k` is not read."""
    parts = (
        lambda: nnp.conj(x) * y,
        lambda: nnp.real(x) + 1j * nnp.imag(y),
        lambda: nnp.abs(1.5 + x) * y,
        lambda: 1j * x - nnp.real(y),
        lambda: nnp.where(nnp.real(x) > 0, x, nnp.conj(y)),
    )
    return parts[int(rng.integers(len(parts)))]()


@_step("i")
def _bits(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    return (x ^ y, x & y, x | (y >> 1), x // (1 + (y & 3)), x % (2 + (y & 7)), -x, nnp.abs(x))[int(rng.integers(7))]


@_step("f")
def _rounded(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """A random operation that rounds x, or whose derivative is zero; `rng` makes the choices, and `k` is not read."""
    kinds = (
        lambda: x - 0.5 * nnp.floor(x),
        lambda: nnp.sign(x) * y,
        lambda: nm.stop_gradient(x) * y,
        lambda: x.astype(np.float32).astype(x.dtype) * y,
        lambda: nnp.floor(3 * x).astype(np.int32).astype(x.dtype) + y,
    )
    return kinds[int(rng.integers(len(kinds)))]()


# ---------------------------------------------------------------- selections


@_step("fi")
def _compared(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """A random selection between x and y by a comparison; `rng` makes the choices, and `k` is not read."""
    kinds = (
        lambda: nnp.where(x > 0, x, y),
        lambda: nnp.maximum(x, y),
        lambda: nnp.minimum(x, y * y),
        lambda: nnp.clip(x, -1, y * y),
        lambda: nnp.where((x > 0) & (y < 1), x, 1),
        lambda: nnp.where(nnp.any(x > y), x, y),
        lambda: nnp.where(x > y, nnp.where(x > 0, x, y), y),
        lambda: (x > y).astype(x.dtype) * y,
    )
    return kinds[int(rng.integers(len(kinds)))]().astype(x.dtype)


@_step()
def _masked(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """A selection between x, y and another value by random masks; `rng` makes the choices, and `k` is not read."""
    mask = mask_of(rng, x)
    other = (y, 0, 1, x * y)[int(rng.integers(4))]
    return nnp.where(mask & mask_of(rng, x), nnp.where(mask, x, y), other).astype(x.dtype)


@_step("f")
def _guarded(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """A quotient and a root with masked singular points, as users write them. `rng` makes the random choices."""
    safe = nnp.where(x > 0, x, 1)
    return nnp.where(x > 0, (nnp.sqrt(safe), y / safe)[int(rng.integers(2))], y).astype(x.dtype)


# ---------------------------------------------------------------- shapes


@_step()
def _reversed(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    return (x[::-1], x[::-1] * y, nnp.roll(x, 1, 0) + y, nnp.flip(x) - y[::-1])[int(rng.integers(4))]


@_step()
def _joined(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """Parts of x and y, joined, stacked, padded or repeated at random, in the shape of x; `rng` makes the choices, and `k` is not
    read.
    """
    cut = int(rng.integers(x.shape[0] + 1))
    kinds = (
        lambda: nnp.concatenate([x[cut:], y[:cut]]),
        lambda: nnp.concatenate([x, y, x])[cut : cut + x.shape[0]],
        lambda: nnp.pad(x[cut:], [(cut, 0), *[(0, 0)] * (x.ndim - 1)]) + y,
        lambda: nnp.stack([x, y, x * y]).sum(0),
        lambda: nnp.repeat(x, 2, 0)[1::2] - y,
        lambda: nnp.stack([x, y])[1] * x,
    )
    return kinds[int(rng.integers(len(kinds)))]().astype(x.dtype)


@_step()
def _rearranged(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """The elements of x or y in another order: reversed, or transposed."""
    return (x.reshape(-1)[::-1].reshape(x.shape) + y, (x.T * y.T).T, x.T.reshape(x.shape) - y)[int(rng.integers(3))]


@_step("fc")
def _outer(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """A random sum of products of x and y, in the shape of x; `rng` makes the choices, and `k` is not read."""
    kinds = (
        lambda: (x.reshape(-1)[:, None] * y.reshape(-1)[None]).sum(1).reshape(x.shape),
        lambda: nnp.sum(x * y) * x,
        lambda: nnp.tensordot(x, y, x.ndim) + y,
        lambda: (x.T @ y) * x if x.ndim == 1 else x @ (y.T @ x),
        lambda: nnp.convolve(x, y, mode="same") if x.ndim == 1 and x.size else x * y,
        lambda: x - nnp.mean(y),
    )
    return kinds[int(rng.integers(len(kinds)))]().astype(x.dtype)


@_step()
def _running(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """A random running sum, maximum or window of x, or its combination with y; `rng` makes the choices, and `k` is not read."""
    kinds = [lambda: nnp.cumsum(x, 0), lambda: nnp.flip(nnp.cumsum(y, x.ndim - 1)), lambda: nnp.sum(x, 0) + y]
    if kind_of(x) == "f" and x.size:
        others = (1,) * (x.ndim - 1)
        kinds += [
            lambda: lax.cummax(x, 0),
            lambda: nnp.max(x, 0) + y,
            lambda: bounded(nnp.cumprod(x, 0)),
            lambda: lax.reduce_window(x, 0.0, lax.add, (2, *others), (1, *others), [(1, 0), *[(0, 0)] * len(others)]),
            lambda: lax.reduce_window(x, -np.inf, lax.max, (3, *others), (1, *others), "SAME"),
        ]
    return kinds[int(rng.integers(len(kinds)))]().astype(x.dtype)


# ---------------------------------------------------------------- indices


@_step()
def _scattered(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """An update of x with elements of x or y, at the indices `k` or at random ones. `rng` makes the random choices."""
    if not x.size:
        return x * y
    at = x.at[k if rng.integers(2) else rng.integers(0, x.shape[0], x.shape[0])]
    kinds = [
        lambda: at.add(y),
        lambda: at.add(x),
        lambda: at.set(y[0]),
        lambda: at.multiply(y),
        lambda: x.at[::2].set(y[::2]),
        lambda: x.at[0].set(x[-1]),
        lambda: x.at[1:].add(x[:-1]),
    ]
    if kind_of(x) != "c":
        kinds += [lambda: at.max(y), lambda: at.min(y[::-1])]
    return kinds[int(rng.integers(len(kinds)))]()


@_step()
def _gathered(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """An indexed read of x at the indices `k`, in a random form, often combined with y. `rng` makes the random choices."""
    if not x.size:
        return x + y
    kinds = (
        lambda: x[k] * y,
        lambda: nnp.take(x, (k + 1) % x.shape[0], 0) + y,
        lambda: nm.segment_sum(x, k, x.shape[0]) - y,
        lambda: lax.dynamic_slice_in_dim(nnp.concatenate([x, y]), k[0], x.shape[0]),
        lambda: lax.dynamic_update_slice_in_dim(x, y[:1], k[-1], 0),
        lambda: x[nnp.argsort(k)],
        lambda: x[k][::-1] + x[k[::-1]],
    )
    return kinds[int(rng.integers(len(kinds)))]()


@_step("fi")
def _sorted(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """One of five combinations of x and y with sort, argsort or argmax; `rng` makes the choices, and `k` is not read."""
    if not x.size:
        return x - y
    kinds = (
        lambda: nnp.sort(x, 0),
        lambda: nnp.sort(x, 0)[::-1] + y,
        lambda: y[nnp.argsort(x.reshape(x.shape[0], -1)[:, 0])],
        lambda: nnp.sort(nnp.concatenate([x, y]), 0)[: x.shape[0]],
        lambda: x[nnp.argmax(y.reshape(x.shape[0], -1)[:, 0])] + y,
    )
    return kinds[int(rng.integers(len(kinds)))]()


# ---------------------------------------------------------------- loops, branches, rules


@_step()
def _looped(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """The result of a random loop or scan over x and y; the vector of indices `k` is read by one of them.

    `rng` makes the random choices.
    """
    kinds = (
        lambda: nm.fori_loop(0, 2, lambda i, c: bounded(c * y + i.astype(c.dtype)), x),
        lambda: nm.scan(lambda c, s: (bounded(c * s + s), c + s), x[0], y)[1] if x.size else x,
        lambda: nm.scan(nm.checkpoint(lambda c, _: (bounded(c * y), c)), x, None, length=2)[0],
        lambda: nm.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, bounded(c[1] + y)), (0, x))[1],
        lambda: nm.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[2], bounded(c[1] * y)), (0, x, y))[2],
        lambda: nm.scan(lambda c, i: (nm.cond(i > 1, lambda: bounded(c * y), lambda: c), None), x, k)[0],
        lambda: nm.map(lambda row: row * row + y.sum(), x) if x.size else x,
        lambda: nm.associative_scan(lambda a, b: a * b if kind_of(x) == "i" else bounded(a) + b, x) if x.size else x,
        lambda: nm.fori_loop(0, 2, lambda i, c: c.at[i % max(x.shape[0], 1)].add(y.sum()) if x.size and x.ndim == 1 else c + y, x),
    )
    return kinds[int(rng.integers(len(kinds)))]().astype(x.dtype)


@_step()
def _branched(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """The result of a random branch between functions of x and y; the first index of `k` selects one of them.

    `rng` makes the random choices.
    """
    index = k[0] if k.size else 1
    kinds = (
        lambda: nm.cond(real(x).sum() > 0, lambda: x * y, lambda: y - x),
        lambda: nm.switch(index % 3, [lambda a: a * y, lambda a: a[::-1], lambda a: y], x),
        lambda: nm.cond(real(y).sum() > 0, lambda a, b: (b, a), lambda a, b: (a * b, b), x, y)[0] + x,
    )
    return kinds[int(rng.integers(len(kinds)))]()


@nm.custom_jvp
def _with_tangent(x: Any, y: Any) -> Any:
    return x * y


@_with_tangent.defjvp
def _with_tangent_jvp(primals: Any, tangents: Any) -> Any:
    """The value, and a tangent that differs from the true one, so that a missing call of the rule is visible."""
    (x, y), (dx, dy) = primals, tangents
    return _with_tangent(x, y), y * dx + 0.5 * x * dy


@_step("f")
def _ruled(rng: Numbers, x: Any, y: Any, k: Any) -> Any:
    """A random use of x and y in a function with a custom tangent, or in a checkpoint; `k` is not read."""
    kinds = (lambda: _with_tangent(x, y), lambda: nm.checkpoint(lambda a: bounded(a * y))(x) + x)
    return kinds[int(rng.integers(len(kinds)))]()
