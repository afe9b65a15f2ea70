"""Structured matrices under the names of `scipy.linalg`: from given numbers, or constants of a given size.

A matrix is made of a vector, the last axis of an array; the other axes are those of a stack of matrices.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.numpy.creation import zeros, zeros_like
from nabla_mlir.numpy.filtering import convolve
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.joining import concatenate
from nabla_mlir.numpy.operands import asarray, convert, in_one_dtype, inexact, tensor
from nabla_mlir.numpy.shapes import atleast_1d, atleast_2d
from nabla_mlir.numpy.special_values import described
from nabla_mlir.numpy.ufuncs import absolute, conj
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, broadcast_shapes, broadcast_to
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.vectorize import vmap


@library
def block_diag(*arrs: Any) -> Tensor:
    """A matrix with these blocks on its diagonal.

    Example:
      >>> block_diag(np.ones((1, 2)), 3.0).tolist()
      [[1.0, 1.0, 0.0], [0.0, 0.0, 3.0]]
    """
    blocks = [atleast_2d(a) for a in arrs]
    dtype = np.result_type(*(b.dtype for b in blocks))
    columns, rows, before = int(np.sum([b.shape[1] for b in blocks])), [], 0
    for b in blocks:
        if b.ndim != 2:
            raise ShapeError(f"block_diag requires matrices, vectors and numbers, got shape {b.shape}.", where=user_frame())
        m, n = b.shape
        rows.append(concatenate([zeros((m, before), dtype), convert(tensor(b), dtype), zeros((m, columns - before - n), dtype)], 1))
        before += n
    return concatenate(rows)


def _stack(a: Tensor, b: Tensor) -> list[Tensor]:
    """Two arrays of vectors in one dtype, whose axes before the last one are broadcast."""
    shape = broadcast_shapes("toeplitz", [a.shape[:-1], b.shape[:-1]])
    return [broadcast_to(tensor(x), (*shape, x.shape[-1])) for x in in_one_dtype(a, b)]


@library
def toeplitz(c: Any, r: Any = None) -> Tensor:
    """The matrix with `c` as first column and `r` as first row (the conjugate of `c` if None), constant along diagonals.

    Example:
      >>> toeplitz(np.array([1.0, 2.0]), np.array([1.0, 3.0])).tolist()
      [[1.0, 3.0], [2.0, 1.0]]
    """
    column = atleast_1d(c)
    column, row = _stack(column, conj(column) if r is None else atleast_1d(r))
    m, n = column.shape[-1], row.shape[-1]
    return take(concatenate([column[..., ::-1], row[..., 1:]], -1), np.arange(m)[::-1, None] + np.arange(n), -1)


@library
def hankel(c: Any, r: Any = None) -> Tensor:
    """The matrix with `c` as first column and `r` as last row (zeros if None), constant along antidiagonals."""
    column = atleast_1d(c)
    column, row = _stack(column, zeros_like(column) if r is None else atleast_1d(r))
    m, n = column.shape[-1], row.shape[-1]
    return take(concatenate([column, row[..., 1:]], -1), np.arange(m)[:, None] + np.arange(n), -1)


@library
def circulant(c: Any) -> Tensor:
    """The matrix whose column k is `c` rotated by k elements."""
    column = atleast_1d(c)
    n = column.shape[-1]
    return take(column, (np.arange(n)[:, None] - np.arange(n)) % n, -1)


@library
def companion(a: Any) -> Tensor:
    """The matrix whose eigenvalues are the zeros of a polynomial."""
    p = _coefficients("companion", a, 2)
    n = p.shape[-1] - 1
    top = reshaped(-p[..., 1:] / p[..., :1], (*p.shape[:-1], 1, n))
    return concatenate([top, broadcast_to(tensor(np.eye(n - 1, n, dtype=p.dtype)), (*p.shape[:-1], n - 1, n))], -2)


def _coefficients(name: str, a: Any, fewest: int) -> Tensor:
    """The coefficients `a` of polynomials as a tensor; raises ShapeError for fewer than `fewest`. `name` is the called function."""
    p = inexact(atleast_1d(a))
    if p.shape[-1] < fewest:
        raise ShapeError(f"{name} requires at least {fewest} coefficients, got shape {p.shape}.", where=user_frame())
    return p


@library
def fiedler(a: Any) -> Tensor:
    """The symmetric matrix with the elements abs(a[i] - a[j]).

    Example:
      >>> fiedler(np.array([1.0, 4.0])).tolist()
      [[0.0, 3.0], [3.0, 0.0]]
    """
    v = tensor(atleast_1d(a))
    return absolute(reshaped(v, (*v.shape, 1)) - reshaped(v, (*v.shape[:-1], 1, v.shape[-1])))


@library
def fiedler_companion(a: Any) -> Tensor:
    """The pentadiagonal matrix whose eigenvalues are the zeros of a polynomial."""
    p = _coefficients("fiedler_companion", a, 1)
    n = p.shape[-1] - 1
    if not n:
        return zeros((*p.shape[:-1], 0, 0), p.dtype)
    positions = np.full((n, n), n + 1)  # the index of each element in the vector [-p / p[0], 0, 1]
    positions[np.arange(3, n, 2), np.arange(1, n - 2, 2)] = n + 2
    positions[np.arange(0, n - 2, 2), np.arange(2, n, 2)] = n + 2
    positions[np.arange(2, n, 2), np.arange(1, n - 1, 2)] = np.arange(3, n + 1, 2)
    positions[np.arange(0, n - 1, 2), np.arange(1, n, 2)] = np.arange(2, n + 1, 2)
    positions[1:2, 0], positions[0, 0] = n + 2, 1
    constants = broadcast_to(tensor(np.array([0.0, 1.0], p.dtype)), (*p.shape[:-1], 2))
    return take(concatenate([-p / p[..., :1], constants], -1), positions, -1)


@library
def leslie(f: Any, s: Any) -> Tensor:
    """The matrix of a population: fecundities in the first row, survival below the diagonal."""
    top, below = inexact(f), inexact(s)
    if not top.ndim or not below.ndim or top.shape[-1] != below.shape[-1] + 1 or top.shape[-1] < 2:
        raise ShapeError(
            f"leslie requires some numbers of survival, and one more of fecundity, got shapes {below.shape} and {top.shape}.",
            where=user_frame(),
        )
    top, below = _stack(top, below)
    stack, n = top.shape[:-1], top.shape[-1]
    low = reshaped(below, (*stack, n - 1, 1)) * np.eye(n - 1, n, dtype=below.dtype)
    return concatenate([reshaped(top, (*stack, 1, n)), low], -2)


@library
def convolution_matrix(a: Any, n: Static[int], mode: str = "full") -> Tensor:
    """The matrix whose product with a vector of length n is the convolution of the vector with `a`."""
    x = tensor(atleast_1d(a))
    matrix = lambda row: vmap(lambda unit: convolve(row, unit, mode), out_axes=1)(np.eye(n, dtype=x.dtype))  # noqa: E731
    for _ in range(x.ndim - 1):
        matrix = vmap(matrix)
    return matrix(x)


def _known(name: str, doc: str, make: Any) -> Any:
    """A function with documentation whose result is a constant matrix that `make` computes in NumPy.

    The matrix has the default float dtype, unless `make` takes a dtype.
    """
    takes_dtype = "dtype" in inspect.signature(make).parameters
    return described(name, doc)(lambda *args, **kwargs: asarray(make(*args, **kwargs), None if takes_dtype else Defaults.float))


def _hilbert(n: int) -> np.ndarray:
    return 1.0 / (np.arange(1, n + 1)[:, None] + np.arange(n))


def _hadamard(n: int, dtype: Any = int) -> np.ndarray:
    """The Hadamard matrix of size n, which is a power of two; raises ShapeError for other sizes."""
    out = np.ones((1, 1), as_dtype(dtype))
    while out.shape[0] < n:
        out = np.block([[out, out], [out, -out]])
    if out.shape[0] != n:
        raise ShapeError(f"hadamard requires a power of two, got {n}.", where=user_frame())
    return out


def _dft(n: int, scale: str | None = None, *, dtype: Any = complex) -> np.ndarray:
    """The matrix of the discrete Fourier transform of length n, divided by the root of n ("sqrtn") or by n ("n") if `scale` says
    so.
    """
    if scale not in (None, "sqrtn", "n"):
        raise ShapeError(f"dft requires scale None, 'sqrtn' or 'n', got {scale!r}.", where=user_frame())
    if np.dtype(as_dtype(complex if dtype is None else dtype)).kind != "c":
        raise ShapeError(f"dft requires a complex dtype, got {dtype}.", where=user_frame())
    powers = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    return (powers / {None: 1.0, "sqrtn": np.sqrt(n), "n": n}[scale]).astype(as_dtype(complex if dtype is None else dtype))


def _helmert(n: int, full: bool = False) -> np.ndarray:
    """The Helmert matrix of size n, without its first row unless `full`; raises ShapeError if n is not positive."""
    if n < 1:
        raise ShapeError(f"helmert requires a positive number, got {n}.", where=user_frame())
    rows = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    rows[0], squares = 1.0, np.arange(n) * np.arange(1.0, n + 1)
    squares[0] = n
    return (rows / np.sqrt(squares)[:, None])[0 if full else 1 :]


def _inverse_hilbert(n: int) -> np.ndarray:
    """The inverse of the Hilbert matrix of size n, which has whole numbers as elements."""

    def element(i: int, j: int) -> int:
        """Element (i, j) of the inverse, counted from 1."""
        return (-1) ** (i + j) * (i + j - 1) * comb(n + i - 1, n - j) * comb(n + j - 1, n - i) * comb(i + j - 2, i - 1) ** 2

    return np.array([[float(element(i, j)) for j in range(1, n + 1)] for i in range(1, n + 1)]).reshape(n, n)


def _of_kind(name: str, kind: str | None, low: Any, product: Any) -> np.ndarray:
    """The lower triangular matrix `low`, its transpose, or the symmetric `product`, as `kind` requests; else raises ShapeError.

    `kind` is "lower", "upper", "symmetric" or None, and `name` is the called function.
    """
    choices = {None: product, "symmetric": product, "lower": low, "upper": low.T}
    if kind not in choices:
        raise ShapeError(f"{name} requires kind symmetric, lower or upper, got {kind!r}.", where=user_frame())
    return choices[kind].astype(float)


def _pascal(n: int, kind: str | None = None) -> np.ndarray:
    """The matrix of binomial coefficients of size n: lower triangular, upper triangular, or their product, as `kind` says."""
    low = np.array([[comb(i, j) for j in range(n)] for i in range(n)], object)
    return _of_kind("pascal", kind, low, low @ low.T)


def _inverse_pascal(n: int, kind: str | None = None) -> np.ndarray:
    """The inverse of the matrix of binomial coefficients of size n and of this kind."""
    low = np.array([[(-1) ** (i + j) * comb(i, j) for j in range(n)] for i in range(n)], object)
    return _of_kind("invpascal", kind, low, low.T @ low)


hilbert: Callable[..., Any] = _known("hilbert", "The n by n matrix with 1 / (i + j + 1).", _hilbert)
hadamard: Callable[..., Any] = _known(
    "hadamard", "The n by n matrix of signs with orthogonal columns, for n a power of two.", _hadamard
)
dft: Callable[..., Any] = _known(
    "dft", "The matrix of the discrete Fourier transform of n numbers, divided by sqrt(n) or n if `scale` says so.", _dft
)
helmert: Callable[..., Any] = _known(
    "helmert", "The matrix with orthonormal rows that are contrasts of n numbers; `full` adds their mean.", _helmert
)
invhilbert: Callable[..., Any] = _known(
    "invhilbert", "The inverse of the n by n Hilbert matrix, of whole numbers.", _inverse_hilbert
)
pascal: Callable[..., Any] = _known("pascal", "The n by n matrix of Pascal's triangle: symmetric, lower or upper.", _pascal)
invpascal: Callable[..., Any] = _known("invpascal", "The inverse of `pascal`.", _inverse_pascal)
