"""Factorisations as another correct routine would return them: with rounding errors, and with random free choices.

A routine is backward stable: its factors are exact for a matrix whose elements are off by some units of its norm, of
its columns, or of its rows and columns (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., theorems 10.3
and 19.4). In addition, a factorisation leaves choices open: phases of eigenvectors and of pairs of singular vectors,
bases of spaces with equal values, the order of the eigenvalues of a general matrix, and every element of a factor that
does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.stablehlo import String
from nabla_mlir.dialects.types import is_complex, shape_and_dtype
from nabla_mlir.interpreter.evaluations import evaluation_of
from nabla_mlir.interpreter.frames import Arrays
from nabla_mlir.table.registry import REGISTRY

Scale = Callable[[np.ndarray], np.ndarray]
Open = Callable[[np.random.Generator, Arrays], Arrays]  # results with random free choices


def routine_of(op: ir.Operation) -> str:
    """The LAPACK routine of a factorisation or a solver without the letter of its dtype; "" for another operation.

    Example: a custom call of "lapack_dgetrf_ffi" gives "getrf".
    """
    if op.name in _STABLEHLO:
        return _STABLEHLO[op.name]
    if op.name != "stablehlo.custom_call":
        return ""
    target = re.fullmatch(r"lapack_[sdcz](\w+)_ffi", String.decode(op.attributes["call_target_name"]))
    return target[1] if target and target[1] in _SCALES else ""


_STABLEHLO = {"stablehlo.cholesky": "cholesky", "stablehlo.triangular_solve": "trsm"}


def factored_anew(op: ir.Operation, operands: Arrays, unit: float, rng: np.random.Generator) -> Arrays:
    """The results of a factorisation of randomly perturbed operands, with random free choices such as signs of eigenvectors.

    `unit` is the largest relative perturbation of an element.
    """
    routine, record = routine_of(op), REGISTRY[op.name]
    evaluate = evaluation_of(record, op)
    assert evaluate is not None  # it has been evaluated
    matrix, *others = operands
    arrays = [matrix + _noise(rng, matrix, unit * _SCALES[routine](matrix))]
    arrays += [x + _noise(rng, x, unit * np.abs(x)) if x.dtype.kind in "fc" else x for x in others]
    found = evaluate(*(y.astype(x.dtype) for x, y in zip(operands, arrays, strict=True)), **record.read(op))
    results = found if isinstance(found, list) else [found]
    if routine in _OPEN:
        results = _OPEN[routine](rng, results)
    types = [shape_and_dtype(value.type) for value in op.results]
    return [np.asarray(y).reshape(shape).astype(dtype) for y, (shape, dtype) in zip(results, types, strict=True)]


def _noise(rng: np.random.Generator, x: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Random errors in the shape of `x`, of magnitude at most `size`; 0 where `size` is not finite."""
    size = np.where(np.isfinite(size), size, 0.0)
    noise = rng.uniform(-1, 1, x.shape) * size
    return noise + 1j * rng.uniform(-1, 1, x.shape) * size if is_complex(x.dtype) else noise


# ---------------------------------------------------------------- the sizes by which elements may be off


def _largest(a: np.ndarray, axis: int) -> np.ndarray:
    return np.abs(a).max(axis, keepdims=True, initial=0)


def _column_norms(a: np.ndarray) -> np.ndarray:
    """The length of each column, computed without overflow or underflow of the squares."""
    size = _largest(a, -2)
    return size * np.linalg.norm(a / np.where(size > 0, size, 1), axis=-2, keepdims=True)


def _matrix_norm(a: np.ndarray) -> np.ndarray:
    """The Frobenius norm."""
    return np.broadcast_to(_column_norms(_column_norms(a).swapaxes(-1, -2)), a.shape)


def _row_and_column_sizes(a: np.ndarray) -> np.ndarray:
    return np.sqrt(_largest(a, -2)) * np.sqrt(_largest(a, -1))


_SCALES: dict[str, Scale] = {
    "cholesky": _row_and_column_sizes,
    "potrf": _row_and_column_sizes,
    "trsm": _row_and_column_sizes,
    "getrf": _row_and_column_sizes,
    "gtsv": np.abs,
    "geqrf": _column_norms,
    "geqp3": _column_norms,
    "orgqr": _column_norms,
    "ungqr": _column_norms,
    "syevd": _matrix_norm,
    "heevd": _matrix_norm,
    "gesdd": _matrix_norm,
    "geev": _matrix_norm,
    "gees": _matrix_norm,
    "gehrd": _matrix_norm,
    "sytrd": _matrix_norm,
    "hetrd": _matrix_norm,
}


# ---------------------------------------------------------------- choices


def _phases(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Random signs, or for complex dtypes random numbers of absolute value one."""
    return np.exp(2j * np.pi * rng.uniform(size=shape)) if is_complex(dtype) else rng.choice([-1.0, 1.0], shape)


def _random_for_nan(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """The factor x with random numbers instead of NaN, because some routines leave arbitrary numbers if a factor does not exist."""
    return np.where(np.isnan(x), rng.normal(size=x.shape), x)


def _factor(rng: np.random.Generator, results: Arrays) -> Arrays:
    return [_random_for_nan(rng, results[0]), *results[1:]]


def _eigenvectors(rng: np.random.Generator, results: Arrays) -> Arrays:
    """The results of an eigenvalue routine with a random phase for each eigenvector, which is again an eigenvector."""
    vectors, *others = results
    return [vectors * _phases(rng, vectors.shape[:-2] + (1, vectors.shape[-1]), vectors.dtype), *others]


def _singular_vectors(rng: np.random.Generator, results: Arrays) -> Arrays:
    """The results of gesdd with a random phase for each pair of singular vectors, and a random basis of the null spaces.

    `results` are the operand, the singular values, the left and the right vectors, and the code of success.
    """
    a, s, u, vt, info = results
    # A = U S Vh stays if column k of U is multiplied by a phase, and row k of Vh by its conjugate.
    pairs = _phases(rng, (*s.shape, 1), a.dtype)
    u, vt = u.copy(), vt.copy()
    for x, phases in ((u.swapaxes(-1, -2), pairs), (vt, np.conj(pairs))):
        k = min(s.shape[-1], x.shape[-2])
        x[..., :k, :] *= phases[..., :k, :]
        x[..., k:, :] = _unitary(rng, x.shape[-2] - k, x.dtype) @ x[..., k:, :]  # vectors without a singular value: any basis fits
    return [a, s, u, vt, info]


def _unitary(rng: np.random.Generator, n: int, dtype: np.dtype) -> np.ndarray:
    """A random unitary matrix of size n, orthogonal for a real dtype."""
    x = rng.normal(size=(n, n)) + (1j * rng.normal(size=(n, n)) if is_complex(dtype) else 0)
    return np.linalg.qr(x)[0] if n else x


def _general_eigenvectors(rng: np.random.Generator, results: Arrays) -> Arrays:
    """The results of geev with a random order of the eigenvalues, in which conjugate ones stay together, and random signs of the
    vectors.

    `results` are the eigenvalues (real and imaginary parts for a real matrix), the left and the right vectors, and the code of
    success. The largest entry of a vector is real. A real matrix has left and right vectors whose products are positive.
    """
    *values, left, right, info = (y.copy() for y in results)
    n, is_real = left.shape[-1], len(values) == 2
    for index in np.ndindex(left.shape[:-2]):  # one matrix of the batch
        imaginary = values[1][index] if is_real else np.zeros(n)
        groups = [[i, i + 1] if imaginary[i] > 0 and i + 1 < n else [i] for i in range(n) if not imaginary[i] < 0]
        order = [i for k in rng.permutation(len(groups)) for i in groups[k]]
        order += [i for i in range(n) if i not in order]  # values that are not finite have no partner
        signs = rng.choice([-1.0, 1.0], (2, n))  # for a real matrix only the first row is used, so that products stay positive
        for value in values:
            value[index] = value[index][order]
        for side, vectors in enumerate((left, right)):
            vectors[index] = vectors[index][:, order] * (_signs_of_pairs(signs[0], imaginary[order]) if is_real else signs[side])
    return [*values, left, right, info]


def _signs_of_pairs(signs: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """The signs; the second of two conjugate eigenvectors gets the sign of the first."""
    return np.where(imaginary < 0, np.roll(signs, 1), signs)


_OPEN: dict[str, Open] = {
    "cholesky": _factor,
    "potrf": _factor,
    "syevd": _eigenvectors,
    "heevd": _eigenvectors,
    "gesdd": _singular_vectors,
    "geev": _general_eigenvectors,
}
