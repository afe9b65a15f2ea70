"""Functions of stacks of matrices and vectors, each argument of theirs, against NumPy; masks of the wrong length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import IndexingError, ShapeError

R = np.random.default_rng(0)
A = R.normal(size=(2, 5, 3, 3))
B = R.normal(size=(2, 5, 3, 4))
S = A @ A.swapaxes(-1, -2) + np.eye(3)
V = R.normal(size=(2, 5, 3))
W = R.normal(size=(5, 3))
INTEGERS = R.integers(0, 9, size=(2, 3, 3), dtype=np.int8)

Case = Callable[[Any, Any], Any]  # of numpy and numpy.linalg
CASES: dict[str, Case] = {
    "trace": lambda n, la: [la.trace(B), la.trace(B[0]), la.trace(A, offset=1), la.trace(B, offset=-2), la.trace(A[0, 0])],
    "trace of a dtype": lambda n, la: [la.trace(B, dtype=np.float32), la.trace(INTEGERS, dtype=np.int8)],
    "numpy.trace": lambda n, la: [n.trace(B), n.trace(B, 1, -1, -2), n.trace(B, axis1=1, axis2=3), n.trace(B, dtype="f4")],
    "diagonal": lambda n, la: [la.diagonal(B), la.diagonal(B, offset=2), la.diagonal(B[0], offset=-1)],
    "numpy.diagonal": lambda n, la: [n.diagonal(B), n.diagonal(B, -1, 1, 2), n.diagonal(B, 0, -1, 0)],
    "cross": lambda n, la: [la.cross(V, V[::-1]), la.cross(B, B[::-1], axis=-2), n.cross(V.T, V[::-1].T, axis=0), la.cross(V, W)],
    "outer": lambda n, la: [la.outer(V[0, 0], W[:, 0]), n.outer(A[0], W)],
    "vecdot": lambda n, la: [la.vecdot(V, V[::-1]), la.vecdot(B, B[::-1], axis=-2), n.vecdot(V, W), la.vecdot(V, W[0])],
    "tensordot": lambda n, la: [la.tensordot(A, B, axes=([3], [2])), n.tensordot(A, A, axes=((0, 1), (0, 1)))],
    "matmul": lambda n, la: [la.matmul(A, B), n.matmul(A, W.T), n.matmul(W, A[0]), n.dot(A, B[0]), n.inner(B, B[0])],
    "kron": lambda n, la: [n.kron(A[0], B[0, 0]), n.kron(V, W)],
    "matrix_transpose": lambda n, la: [la.matrix_transpose(B), n.matrix_transpose(B[0])],
    "norm": lambda n, la: [la.norm(B), la.norm(B, axis=1), la.norm(B, axis=(0, 2)), la.norm(B, 3, axis=0, keepdims=True)],
    "norm of matrices": lambda n, la: [
        la.norm(B, o, axis=a, keepdims=k)
        for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
        for a, k in (((-2, -1), False), ((3, 1), True), ((0, 2), False))
    ],
    "matrix_norm": lambda n, la: [la.matrix_norm(B), la.matrix_norm(B, ord=1, keepdims=True), la.matrix_norm(B, ord="nuc")],
    "vector_norm": lambda n, la: [
        la.vector_norm(B),
        la.vector_norm(B, axis=(2, 1)),
        la.vector_norm(B, axis=(0, 3), ord=1, keepdims=True),
        la.vector_norm(B, axis=-1, ord=np.inf),
        la.vector_norm(B, axis=(1,), ord=0),
    ],
    "cond": lambda n, la: [la.cond(A, p) for p in (None, 1, -1, 2, -2, np.inf, "fro", "nuc")] + [la.cond(B)],
    "matrix_rank": lambda n, la: [la.matrix_rank(B), la.matrix_rank(B, rtol=0.5), la.matrix_rank(B[0], rtol=np.linspace(0, 1, 5))],
    "pinv": lambda n, la: [la.pinv(B), la.pinv(B, rcond=0.5), la.pinv(B[0], rcond=np.linspace(0, 0.9, 5))],
    "det": lambda n, la: [la.det(A), *la.slogdet(A), la.inv(A)],
    "solve": lambda n, la: [la.solve(A, B), la.solve(A, W[0]), la.solve(A[0, 0], B), la.solve(A, W.T)],
    "eigenvalues": lambda n, la: [la.eigvalsh(S), la.eigh(A, UPLO="U")[0], la.eigvalsh(A, UPLO="L"), la.svdvals(B), la.svd(B)[1]],
    "factors": lambda n, la: [la.cholesky(S), la.cholesky(S, upper=True), n.abs(la.qr(B)[1]), n.abs(la.qr(B, mode="r"))],
    "matrix_power": lambda n, la: [la.matrix_power(A, k) for k in (-2, 0, 1, 3)],
    "triangles": lambda n, la: [n.tril(B, 1), n.triu(B, -1)],
}


# A decomposition for each call, and those whose programs take longest to compile.
SLOW = (
    "norm of matrices",
    "cond",
    "pinv",
    "eigenvalues",
    "solve",
    "matrix_rank",
    "matrix_norm",
    "factors",
    "matrix_power",
    "det",
    "matmul",
    "cross",
    "vecdot",
    "norm",
    "vector_norm",
    "tensordot",
    "numpy.trace",
)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in CASES])
def test_stacks_as_in_numpy(name: str) -> None:
    found, wanted = CASES[name](nnp, nnp.linalg), CASES[name](np, np.linalg)
    for a, b in zip(found, wanted, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_traces_have_the_dtype_that_is_asked_for() -> None:
    assert nnp.linalg.trace(B, dtype="f4").dtype == nnp.trace(B, dtype="f4").dtype == np.float32
    assert nnp.linalg.trace(INTEGERS, dtype=np.int8).dtype == np.int8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nnp.linalg.outer(W, W[0]), r"linalg\.outer requires two vectors, got shapes \(5, 3\) and \(3,\)"),
        (lambda: nnp.vecdot(np.ones(3), np.ones(1)), "vecdot requires vectors of one length, got 3 and 1 along axis -1"),
        (lambda: nnp.vecdot(np.ones((1, 3)), np.ones((4, 3)), axis=0), "vecdot requires vectors of one length, got 1 and 4"),
        (lambda: nnp.cross(np.ones(3), np.ones(1)), "cross requires vectors of one length, got 3 and 1 along axis -1"),
        (lambda: nnp.diagonal(B, 0, 1, 1), r"diagonal requires different axes, got \(1, 1\)"),
        (lambda: nnp.trace(B, 0, 1, -3), r"diagonal requires different axes, got \(1, -3\)"),
        (lambda: nnp.linalg.norm(B, axis=(1, 1)), r"norm requires different axes, got \(1, 1\)"),
    ],
)
def test_shapes_that_numpy_refuses(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        call()


# ---------------------------------------------------------------- masks

X = np.arange(24.0).reshape(2, 3, 4)
MASKS: list[Any] = [  # along an axis of another length, or axes
    np.array([True]),
    np.array([True, False, True]),
    [True],
    [True, False, False],
    (np.array([True]), 1),
    (slice(None), np.array([True, False])),
    (slice(None), np.array([True] * 4)),
    (..., np.array([True] * 3)),
    (1, np.array([True] * 4)),
    np.ones((2, 4), bool),
    np.ones((3, 3), bool),
    (0, np.ones((4, 3), bool)),
    (None, np.array([True] * 3)),
    (..., np.ones((3, 3), bool)),
    (np.array([0, 1]), np.array([True, False])),
    (np.ones((2, 2), bool), slice(None)),
    (np.array([False]), slice(None)),
    np.zeros(3, bool),
]
FITTING: list[Any] = [
    np.array([True, False]),
    [False, True],
    (slice(None), np.array([True, False, True])),
    (..., np.array([True] * 4)),
    (1, np.array([False, True, True])),
    np.ones((2, 3), bool),
    (0, X[0] > 3),
    (None, np.array([True, False])),
    (..., X[0] > 3),
    (np.array([True, True]), 1),
    X > 7,
    (slice(None), 1, np.array([True, False, True, True])),
    (np.array([[0], [1]]), np.array([True, False, True])),
]


@pytest.mark.parametrize("index", MASKS)
def test_masks_of_another_length_are_refused(index: Any) -> None:
    with pytest.raises(IndexError):
        X[index]
    uses: list[Any] = [
        lambda x: x[index],
        lambda x: x.at[index].set(0.0),
        lambda x: x.at[index].add(1.0),
        lambda x: x.at[index].get(),
    ]
    for call in (*uses, *map(nm.jit, uses), *map(nm.jacfwd, uses)):
        with pytest.raises(IndexingError, match="indexing requires a mask as long as the axes it masks, got shape"):
            call(nnp.asarray(X))


def test_traced_masks_of_another_length_are_refused() -> None:
    for use in (lambda x, m: x[m], lambda x, m: x.at[:, m].set(0.0)):
        with pytest.raises(IndexingError, match="indexing requires a mask as long as the axes it masks, got shape"):
            nm.jit(use)(X, np.ones(7, bool))


@pytest.mark.slow
@pytest.mark.parametrize("index", FITTING)
def test_masks_that_fit(index: Any) -> None:
    x, changed = nnp.asarray(X), X.copy()
    np.testing.assert_array_equal(x[index], X[index])
    changed[index] = -1
    np.testing.assert_array_equal(x.at[index].set(-1.0), changed)
    np.testing.assert_array_equal(nm.jit(lambda x: x.at[index].set(-1.0))(x), changed)
