"""Small programs of many kinds: functions of one tree of arrays to differentiate, and of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

lax = nm.jax.lax
RNG = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


@dataclass(frozen=True)
class Program:
    """A scalar function, its arguments, and what may not grow in one call for value, gradient and Hessian-vector product.

    Args:
      most: the launches, copies, allocations and host waits.
      bound: the relative difference to the interpreter's numbers (Frobenius norm).
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    most: tuple[int, int, int, int]
    bound: float = 2e-6

    def all(self, x: Any, v: Any, *rest: Any) -> Any:
        """The value, the gradient and the product of the Hessian with v."""
        (value, gradient), (_, product) = nm.jvp(lambda y: nm.value_and_grad(self.function)(y, *rest), (x,), (v,))
        return value, gradient, product


def mlp(p: Any, x: Any, y: Any) -> Any:
    h = nnp.tanh(x @ p["a"] + p["b"])
    return nnp.mean((h @ p["c"] - y) ** 2)


def attention(p: Any, x: Any) -> Any:
    q, k, v = x @ p["q"], x @ p["k"], x @ p["v"]
    return nnp.sum(nm.nn.softmax(nnp.einsum("bsd,btd->bst", q, k) / 4, axis=-1) @ v * x)


def convolution(w: Any, x: Any) -> Any:
    y = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return nnp.mean(nm.nn.gelu(y) ** 2)


def recurrence(w: Any, x: Any) -> Any:
    def step(h: Any, xt: Any) -> Any:
        h = nnp.tanh(h @ w + xt)
        return h, h

    return nnp.mean(nm.scan(step, nnp.zeros((4, 16)), x)[1] ** 2)


def gather_and_scatter(x: Any, i: Any) -> Any:
    rows = nnp.sin(x[i])
    return nnp.sum(nnp.zeros((9, 5)).at[i % 9].add(rows) ** 3)


def cholesky(a: Any) -> Any:
    s = a @ a.T + 8 * nnp.eye(8)
    return nnp.sum(nnp.log(nnp.diagonal(nnp.linalg.cholesky(s))))


def fourier(x: Any) -> Any:
    return nnp.sum(nnp.abs(nnp.fft.rfft(x * x)) ** 2) / 100


def sort(x: Any) -> Any:
    return nnp.sum(nnp.sort(x) * nnp.arange(40.0) ** 2 * x)


def normalisation(p: Any, x: Any) -> Any:
    y = (x - x.mean(-1, keepdims=True)) / nnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return nnp.mean(nnp.tanh(y * p["scale"] + p["shift"]) ** 2)


def reduction(x: Any) -> Any:
    return nnp.sum(nm.nn.logsumexp(x, axis=1) ** 2) + nnp.max(x * x) + nnp.prod(1 + x[0] / 10)


def narrow_product(a: Any, b: Any) -> Any:
    return nnp.sum((a.astype("bfloat16") @ b).astype("float32") ** 2) / 100


def complex_product(a: Any, b: Any) -> Any:
    c = (a + 1j * a[::-1]) @ b
    return nnp.sum(nnp.abs(c) ** 2 + (c * c).real)


def random_numbers(x: Any, key: Any) -> Any:
    noise = nm.jax.random.normal(key, (24,))
    return nnp.mean((nnp.tanh(x) + noise) ** 4)


def wide_product(a: Any, b: Any) -> Any:
    return nnp.sum(nnp.tanh(a @ b) ** 2)


PROGRAMS = {
    "mlp": Program(
        mlp, ({"a": normal(20, 24) / 4, "b": normal(24), "c": normal(24, 6)}, normal(32, 20), normal(32, 6)), (26, 15, 17, 16)
    ),
    "attention": Program(attention, ({k: normal(16, 16) / 4 for k in "qkv"}, normal(2, 12, 16)), (41, 14, 16, 15)),
    "convolution": Program(convolution, (normal(3, 3, 8, 12) / 8, normal(2, 8, 8, 8)), (7, 6, 8, 7)),
    "recurrence": Program(recurrence, (normal(16, 16) / 3, normal(3, 4, 16)), (40, 20, 14, 11)),
    "gather and scatter": Program(
        gather_and_scatter, (normal(12, 5), np.array([3, 0, 3, 11, 7, 5, 5, 5], np.int32)), (42, 6, 20, 15)
    ),
    "cholesky": Program(cholesky, (normal(8, 8) / 4,), (93, 5, 7, 6)),
    "fourier": Program(fourier, (normal(48),), (26, 9, 7, 6)),
    "sort": Program(sort, (normal(40),), (13, 6, 14, 11)),
    "normalisation": Program(normalisation, ({"scale": normal(24), "shift": normal(24)}, normal(6, 24)), (14, 10, 12, 11)),
    "reduction": Program(reduction, (normal(7, 50),), (53, 29, 7, 6)),
    "bf16 product": Program(narrow_product, (normal(24, 20), normal(20, 28).astype(ml_dtypes.bfloat16)), (12, 6, 8, 7), 0.01),
    "complex product": Program(
        complex_product, (normal(12, 10), (normal(10, 8) + 1j * normal(10, 8)).astype(np.complex64)), (33, 6, 8, 7)
    ),
    "random numbers": Program(random_numbers, (normal(24), np.array([1, 2], np.uint32)), (9, 6, 8, 7)),
    "f64 product": Program(wide_product, (normal(12, 20, dtype=np.float64), normal(20, 8, dtype=np.float64)), (9, 6, 8, 7), 1e-13),
}
