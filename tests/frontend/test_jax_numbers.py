"""Numbers, dtypes and shapes of everyday calls next to the real JAX: one line for each fault that JAX's own tests found here."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.jax as ours

jax = pytest.importorskip("jax")
for _module in ("cluster.vq", "fft", "linalg", "ndimage", "signal", "special", "stats"):
    importlib.import_module(f"jax.scipy.{_module}")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interpreted", "with_32_bits")]


@pytest.fixture
def with_32_bits() -> Iterator[None]:
    """JAX with 32 bits, its default: other files of tests change it."""
    with jax.enable_x64(False):
        yield


f32 = np.float32
MATRIX = f32([[4, 1], [9, 3]])
X = np.arange(20, dtype=f32).reshape(4, 5)
MASK = np.array([False, False])
WINDOW = np.array([[1, 0, 2], [0, 3, 1]], np.int32)

Case = Callable[[Any], Any]
CASES: dict[str, Case] = {
    "softmax over all": lambda jax: jax.scipy.special.softmax(MATRIX),
    "log_softmax over all": lambda jax: jax.scipy.special.log_softmax(MATRIX),
    "softmax of a scalar": lambda jax: jax.scipy.special.softmax(f32(2)),
    "masked row": lambda jax: jax.nn.softmax(f32([1, 2]), where=MASK),
    "masked row, log": lambda jax: jax.nn.log_softmax(f32([1, 2]), where=MASK),
    "vecdot, axes of each operand": lambda jax: jax.numpy.vecdot(np.ones((2, 2, 2), f32), MATRIX, axis=0),
    "cross of 2-vectors": lambda jax: jax.numpy.cross(MATRIX, MATRIX[::-1]),
    "cross of 2 and 3": lambda jax: jax.numpy.cross(MATRIX, X[:2, :3]),
    "one triangle": lambda jax: jax.scipy.linalg.solve(np.tril(MATRIX), f32([1, 2]), assume_a="pos", lower=True),
    "lower factor": lambda jax: jax.scipy.linalg.cholesky(MATRIX.T, lower=True),
    "upper factor": lambda jax: jax.scipy.linalg.cholesky(MATRIX),
    "falling bins": lambda jax: jax.numpy.digitize(f32([1, 2, 3, 0.5, 3.5]), f32([3, 2, 1])),
    "falling bins, right": lambda jax: jax.numpy.digitize(f32([1, 2, 3, 0.5, 3.5]), f32([3, 2, 1]), right=True),
    "welch of integers": lambda jax: jax.scipy.signal.welch(np.arange(17), nperseg=9)[1],
    "roots": lambda jax: jax.numpy.sort(jax.numpy.roots(f32([0, 1, -3, 2, 0])).real),
    "tridiagonal": lambda jax: jax.scipy.linalg.eigh_tridiagonal(
        np.complex64([1, 1, 4]), np.complex64([1j, 0.5j]), eigvals_only=True
    ),
    "part of them": lambda jax: jax.scipy.linalg.eigh_tridiagonal(
        f32([1, 1, 4]), f32([1, 2]), eigvals_only=True, select="i", select_range=(1, 2)
    ),
    "circulant": lambda jax: jax.scipy.linalg.circulant(MATRIX),
    "toeplitz": lambda jax: jax.scipy.linalg.toeplitz(MATRIX, X[:3, None, :3]),
    "hankel": lambda jax: jax.scipy.linalg.hankel(MATRIX),
    "fiedler": lambda jax: jax.scipy.linalg.fiedler(MATRIX),
    "fiedler_companion": lambda jax: jax.scipy.linalg.fiedler_companion(X[:, 1:]),
    "fiedler_companion, one": lambda jax: jax.scipy.linalg.fiedler_companion(X[:, :1]),
    "companion": lambda jax: jax.scipy.linalg.companion(X[:, 1:]),
    "leslie": lambda jax: jax.scipy.linalg.leslie(X[:2, :3], X[2, :2]),
    "convolution_matrix": lambda jax: jax.scipy.linalg.convolution_matrix(X[:2, :3], 4),
    "sph_harm_y beyond pi": lambda jax: jax.scipy.special.sph_harm_y(np.array([2]), np.array([1]), f32([4]), f32([0.3])),
    "variance": lambda jax: jax.numpy.var(f32([1, 2]), ddof=3),
    "variance, mask": lambda jax: jax.numpy.std(f32([1, 2]), ddof=1, where=np.array([True, False])),
    "covariance of nothing": lambda jax: jax.numpy.cov(np.zeros((2, 0), f32)),
    "no difference": lambda jax: jax.numpy.diff(f32([1, 2]), n=0, prepend=0),
    "step of one number": lambda jax: jax.numpy.linspace(f32([0, 1]), 1, num=1, retstep=True)[1],
    "unique of NaN": lambda jax: jax.numpy.unique(jax.numpy.array([1, np.nan, 2, np.nan], jax.numpy.bfloat16)),
    "halves": lambda jax: jax.scipy.ndimage.map_coordinates(np.arange(6, dtype=np.int32), [f32([0.5, 1.5, 2.5])], 1),
    "fftshift of truth values": lambda jax: jax.numpy.fft.fftshift(np.array([True, False, False])),
    "apply twice": lambda jax: jax.numpy.arange(4.0).at[np.array([1, 1, 3])].apply(lambda x: x * 2 + 1),
    "apply, traced": lambda jax: jax.jit(lambda i: jax.numpy.arange(4.0).at[i].apply(lambda x: 2 * x + 1))(np.array([1, 1, 9])),
    "put nothing": lambda jax: jax.numpy.put(jax.numpy.arange(4.0), 2, jax.numpy.zeros(0), inplace=False),
    "64-bit seed": lambda jax: jax.random.key_data(jax.random.key(np.int64(-3))),
    "combinations of nothing": lambda jax: jax.scipy.special.comb(f32(0), f32(0), repetition=True),
    "ranks of NaN": lambda jax: jax.scipy.stats.rankdata(f32([[1, np.nan, 2], [2, 1, 2]]), axis=1),
    "ranks of integers": lambda jax: jax.scipy.stats.rankdata(np.array([3, 1, 3]), "min"),
    "invalid beta": lambda jax: jax.scipy.stats.beta.logpdf(f32(0.3), f32(-1), f32(2)),
    "invalid truncnorm": lambda jax: jax.scipy.stats.truncnorm.cdf(f32(0.3), f32(2), f32(1)),
    "entropy": lambda jax: jax.scipy.stats.poisson.entropy(f32([-1, 0, 0.5, 9, 50, 300])),
    "complex square": lambda jax: jax.numpy.square(np.complex64([1e25 + 1e25j, 3.4e38 + 3.4e38j, 2 - 3j])),
    "window of bfloat16": lambda jax: jax.lax.reduce_window(
        jax.numpy.ones(5000, jax.numpy.bfloat16), jax.numpy.bfloat16(0), jax.lax.add, (5000,)
    ),
    "complex logsumexp": lambda jax: jax.scipy.special.logsumexp(np.complex64([1 + 2j, 3]), return_sign=True)[0],
    "istft of inner axes": lambda jax: jax.scipy.signal.istft(
        np.exp(X.reshape(5, 4, 1) * np.arange(9) * 1j).astype(np.complex64), time_axis=0, freq_axis=2, nperseg=16
    )[1],
    "complex cosine transform": lambda jax: jax.scipy.fft.idctn(np.exp(X * 1j).astype(np.complex64), s=(3, 6), norm="ortho"),
    "type in small letters": lambda jax: jax.lax.fft(np.exp(X * 1j).astype(np.complex64), "ifft", (5,)),
    "nearest code": lambda jax: jax.scipy.cluster.vq.vq(X, X[1:3] + 1)[1],
    "nearest codes of numbers": lambda jax: jax.scipy.cluster.vq.vq(X[0], f32([1.2, 3.3]))[0],
    "complex gamma": lambda jax: jax.scipy.special.gamma(np.complex64([1 + 1j, -1.5 + 0.1j, 0, -2])),
    "complex loggamma": lambda jax: jax.scipy.special.loggamma(np.complex64([1 + 1j, -1.5 - 0.1j])),
    "complex erfcx": lambda jax: jax.scipy.special.erfcx(np.complex64([1 + 1j, -0.5 - 0.1j])),
    "glorot in a disk": lambda jax: jax.nn.initializers.glorot_uniform()(jax.random.PRNGKey(0), (2, 2), np.complex64),
    "glorot, truncated": lambda jax: jax.nn.initializers.glorot_normal()(jax.random.PRNGKey(0), (2, 2), np.complex64),
}
PARAMETERS: dict[str, Case] = {
    "negative is outside": lambda jax: jax.numpy.arange(5.0).at[np.array([-1, 1])].set(9.0, wrap_negative_indices=False),
    "negative is clamped": lambda jax: jax.numpy.arange(5.0).at[np.array([-1, 1])].get(wrap_negative_indices=False),
    "along an axis": lambda jax: jax.numpy.take_along_axis(X[0], np.array([-1, 1]), 0, wrap_negative_indices=False),
    "filled in a trace": lambda jax: jax.jit(lambda x: jax.numpy.take(x, np.array([12, -1, 2])))(X[0]),
    "filled along an axis": lambda jax: jax.grad(lambda x: jax.numpy.take_along_axis(x, np.array([12, -1]), 0).sum())(X[0]),
    "one_hot": lambda jax: jax.numpy.take_along_axis(X[0], np.array([-1, 1, 7]), 0, mode="one_hot"),
    "hermitian svd": lambda jax: abs(jax.numpy.linalg.svd(f32([[1, 2], [2, -5]]), hermitian=True)[0]),
    "hermitian values": lambda jax: jax.numpy.linalg.svd(f32([[1, 2], [2, -5]]), compute_uv=False, hermitian=True),
    "hermitian pinv": lambda jax: jax.numpy.linalg.pinv(f32([[1, 2], [2, -5]]), hermitian=True),
    "hermitian rank": lambda jax: jax.numpy.linalg.matrix_rank(f32([[1, 2], [2, 4]]), hermitian=True),
    "norm of no rows": lambda jax: jax.numpy.linalg.matrix_norm(X[:0], ord=2),
    "rank of a vector": lambda jax: jax.numpy.linalg.matrix_rank(f32([1, 2])),
    "left eigenvectors": lambda jax: abs(jax.lax.linalg.eig(f32([[1, 2], [3, -5]]))[1]),
    "pivoted qr": lambda jax: jax.scipy.linalg.qr(f32([[1, 2], [3, -5]]), pivoting=True)[2],
    "weighted quantile": lambda jax: jax.numpy.quantile(X, f32([0.3, 0.9]), 1, weights=X + 1, method="inverted_cdf"),
    "inverted_cdf": lambda jax: jax.numpy.nanpercentile(X, 30, method="inverted_cdf", keepdims=True),
    "weights of axes": lambda jax: jax.numpy.average(X[..., None] * f32([1, 2, 3]), (2, 0), X[:3, :4]),
    "narrow sum": lambda jax: jax.numpy.sum(np.ones(3, np.int8), promote_integers=False),
    "known mean": lambda jax: jax.numpy.nanvar(f32([1, 2, np.nan]), mean=f32([2])),
    "unique rows": lambda jax: jax.numpy.unique(WINDOW[[0, 1, 0]], True, True, True, 0, size=3, fill_value=9)[0],
    "unique columns": lambda jax: jax.jit(lambda x: jax.numpy.unique(x, return_inverse=True, axis=1, size=2)[1])(WINDOW),
    "common elements": lambda jax: jax.numpy.intersect1d(WINDOW[0], WINDOW[1], return_indices=True, size=4)[2],
    "fill of each axis": lambda jax: jax.numpy.argwhere(jax.numpy.array(WINDOW), size=7, fill_value=(7, 8)),
    "column order": lambda jax: jax.numpy.reshape(WINDOW, (3, 2), order="F"),
    "traced diagonal": lambda jax: jax.jit(lambda k: jax.numpy.eye(3, 4, k=k) + jax.numpy.tri(3, 4, k))(-1),
    "traced insertion": lambda jax: jax.jit(lambda i: jax.numpy.insert(X, i, f32([7, 8, 9, 10]), axis=1))(-1),
    "odd reflection": lambda jax: jax.numpy.pad(X[0, 1:], (3, 9), mode="reflect", reflect_type="odd"),
    "odd symmetry": lambda jax: jax.numpy.pad(X[0, 1:], (3, 9), mode="symmetric", reflect_type="odd"),
    "padding by a function": lambda jax: jax.numpy.pad(X, 1, lambda row, width, axis, kw: row.at[: width[0]].set(axis + 1.0)),
    "r_ with a string": lambda jax: jax.numpy.r_["1,2,0", X[0], X[1]],
    "c_ with a string": lambda jax: jax.numpy.c_["1,3,0", X[0], X[1]],
    "leading zeros": lambda jax: jax.numpy.polymul(f32([0, 1, 2]), f32([0, 0, 3]), trim_leading_zeros=True),
    "trimmed axis": lambda jax: jax.numpy.trim_zeros(WINDOW * np.array([0, 1, 1], np.int32), axis=1),
    "dtype of positions": lambda jax: jax.numpy.argsort(f32([3, 1]), dtype=np.uint32),
    "array of steps": lambda jax: jax.numpy.trapezoid(X, dx=X[0, 1:]),
    "sizes in an array": lambda jax: jax.lax.split(X, np.array([1, 3]))[1],
    "cuts in an array": lambda jax: jax.numpy.split(X[0], jax.numpy.array([1, 2]))[1],
    "shape in an array": lambda jax: jax.numpy.zeros(jax.numpy.array([2, 3])),
    "maximum and its index": lambda jax: jax.lax.reduce_window(
        (X, np.arange(20, dtype=np.int32).reshape(4, 5)),
        (f32(-1), np.int32(-1)),
        lambda a, b: tuple(jax.numpy.where(a[0] > b[0], u, v) for u, v in zip(a, b, strict=True)),
        (2, 2),
        (1, 1),
        "SAME",
    )[1],
    "groups of rows": lambda jax: jax.lax.ragged_dot_general(
        X.reshape(2, 2, 5),
        np.ones((2, 3, 5, 1), f32),
        np.array([[1, 0, 1], [0, 2, 0]]),
        jax.lax.RaggedDotDimensionNumbers((([2], [2]), ([0], [0])), [1], [1]),
    ),
    "groups of columns": lambda jax: jax.lax.ragged_dot_general(
        X, np.ones((5, 2), f32), np.array([2, 3]), jax.lax.RaggedDotDimensionNumbers((([1], [0]), ([], [])), [1], [])
    ),
    "perturbed": lambda jax: jax.lax.linalg.tridiagonal_solve(
        f32([0, 1, 2]), f32([5, 6, 7]), f32([1, 1, 0]), np.ones((3, 1), f32), perturb_singular=True
    ),
    "None is not mapped": lambda jax: jax.numpy.vectorize(lambda x, y: x if y is None else x + y)(X, None),
}


def same(name: str, case: Case) -> None:
    found, want = case(ours), case(jax)
    assert found.dtype == want.dtype, name
    assert tuple(found.shape) == tuple(want.shape), name
    wide = lambda x: np.asarray(x).astype(f32) if np.asarray(x).dtype.kind == "V" else np.asarray(x)  # noqa: E731
    np.testing.assert_allclose(wide(found), wide(want), rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_jax(name: str) -> None:
    same(name, CASES[name])


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_jax(name: str) -> None:
    same(name, PARAMETERS[name])


REFUSED: dict[str, tuple[type[Exception], Case]] = {
    "index outside": (ValueError, lambda jax: jax.numpy.ravel_multi_index((np.array([5]),), (3,))),
    "where of integers": (ValueError, lambda jax: jax.numpy.sum(f32([1, 2]), where=np.array([1, 0]))),
    "initial of a shape": (ValueError, lambda jax: jax.numpy.max(X, initial=np.zeros(2))),
    "two tolerances": (ValueError, lambda jax: jax.numpy.linalg.pinv(MATRIX, rtol=0.1, rcond=0.1)),
    "dtype of cov": (ValueError, lambda jax: jax.numpy.cov(X, dtype=np.int32)),
    "complex in a real dtype": (ValueError, lambda jax: jax.numpy.var(np.complex64([1j]), dtype=np.float32)),
    "argument of another mode": (ValueError, lambda jax: jax.numpy.pad(X, 1, mode="mean", end_values=3)),
    "integer out of range": (OverflowError, lambda jax: jax.numpy.array(2**40)),
    "traced length": (TypeError, lambda jax: jax.jit(jax.numpy.arange)(3)),
    "complex bounds": (ValueError, lambda jax: jax.numpy.arange(1 + 2j, 5 + 3j)),
    "complex order": (TypeError, lambda jax: jax.lax.lt(1j, 2j)),
    "dtype of an index": (TypeError, lambda jax: jax.lax.argmax(X, 0, np.float32)),
    "axis of an index": (ValueError, lambda jax: jax.lax.argmax(X, -1, np.int32)),
    "empty window": (TypeError, lambda jax: jax.lax.reduce_window(X[0], f32(0), jax.lax.add, (0,))),
    "trees of a reduction": (ValueError, lambda jax: jax.lax.reduce({"x": X}, {"y": f32(0)}, lambda x, y: x, [0])),
    "axes of a broadcast": (TypeError, lambda jax: jax.lax.broadcast_in_dim(MATRIX, (2, 2), (0, 0))),
    "value of a pad": (ValueError, lambda jax: jax.lax.pad(X[0], f32([1, 2]), [(1, 1, 0)])),
    "short companion": (ValueError, lambda jax: jax.scipy.linalg.companion(X[:, :1])),
    "short survival": (ValueError, lambda jax: jax.scipy.linalg.leslie(X[0], X[0])),
    "no survival": (ValueError, lambda jax: jax.scipy.linalg.leslie(X[0, :1], X[0, :0])),
    "real dft": (ValueError, lambda jax: jax.scipy.linalg.dft(4, dtype=np.float32)),
    "negative position": (ValueError, lambda jax: jax.numpy.vectorize(abs, excluded={-1})),
    "sizes of results": (ValueError, lambda jax: jax.numpy.vectorize(jax.numpy.dot, signature="(n,m),(m,k)->(n,n)")(X, X.T[:, :2])),
    "many lengths": (ValueError, lambda jax: jax.scipy.fft.dctn(X, s=(2, 3, 4))),
    "group axis": (
        TypeError,
        lambda jax: jax.lax.ragged_dot_general(
            X, np.ones((5, 2), f32), np.array([2, 2]), jax.lax.RaggedDotDimensionNumbers((([1], [0]), ([], [])), [0], [])
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_class_of_jax(name: str) -> None:
    error, case = REFUSED[name]
    for side in (jax, ours):
        with pytest.raises(error) as caught:
            case(side)
    assert isinstance(caught.value, nm.errors.NablaError)
    assert " requires " in str(caught.value)


SHAPE = (10, 9, 8, 7, 6)
GATHER = {"offset_dims": (4, 5, 6), "collapsed_slice_dims": (0, 1), "start_index_map": (0, 1, 2, 3, 4)}
BAD_GATHERS: list[dict[str, Any]] = [
    {"offset_dims": (4, 6, 5)},
    {"offset_dims": (4, 5, 9)},
    {"start_index_map": (0, 1, 2, 3)},
    {"start_index_map": (0, 1, 2, 3, 7)},
    {"start_index_map": (0, 1, 2, 3, 3)},
    {"collapsed_slice_dims": (1, 0)},
    {"collapsed_slice_dims": (0, 19)},
    {"collapsed_slice_dims": (0, 1, 2)},
    {"operand_batching_dims": (0,), "start_indices_batching_dims": (0,)},
    {"operand_batching_dims": (2,), "start_indices_batching_dims": (4,)},
    {"operand_batching_dims": (2,)},
    {"slice_sizes": (1, 1, 9, 2, 2)},
    {"slice_sizes": (1, 2, 2, 2, 2)},
    {"slice_sizes": (1, 1, 2, 2)},
]
SCATTER = {"update_window_dims": (4, 5, 6), "inserted_window_dims": (0, 1), "scatter_dims_to_operand_dims": (0, 1, 2, 3, 4)}
BAD_SCATTERS: list[dict[str, Any]] = [
    {"update_window_dims": (4, 6, 5)},
    {"update_window_dims": (4, 5, 7)},
    {"update_window_dims": (4, 5)},
    {"inserted_window_dims": (1, 0)},
    {"inserted_window_dims": (0, 11)},
    {"inserted_window_dims": (0,)},
    {"scatter_dims_to_operand_dims": (0, 1, 2, 3)},
    {"scatter_dims_to_operand_dims": (0, 1, 2, 3, 10)},
    {"scatter_dims_to_operand_dims": (0, 1, 2, 2, 3)},
    {"operand_batching_dims": (0,), "scatter_indices_batching_dims": (0,)},
    {"updates": (5, 4, 3, 2, 9, 2, 2)},
    {"updates": (5, 4, 2, 2, 2, 2, 2)},
]


@pytest.mark.parametrize("change", BAD_GATHERS, ids=str)
def test_dimension_numbers_of_gather(change: dict[str, Any]) -> None:
    for side in (jax, ours):
        numbers = {**GATHER, **change}
        sizes = numbers.pop("slice_sizes", (1, 1, 2, 2, 2))
        with pytest.raises(TypeError):
            side.lax.gather(
                np.ones(SHAPE, f32), np.zeros((5, 4, 3, 2, 5), np.int32), side.lax.GatherDimensionNumbers(**numbers), sizes
            )


@pytest.mark.parametrize("change", BAD_SCATTERS, ids=str)
def test_dimension_numbers_of_scatter(change: dict[str, Any]) -> None:
    for side in (jax, ours):
        numbers = {**SCATTER, **change}
        updates = np.ones(numbers.pop("updates", (5, 4, 3, 2, 2, 2, 2)), f32)
        with pytest.raises(TypeError):
            side.lax.scatter_add(
                np.ones(SHAPE, f32), np.zeros((5, 4, 3, 2, 5), np.int32), updates, side.lax.ScatterDimensionNumbers(**numbers)
            )


def test_compiled_numbers() -> None:
    """The same numbers from compiled code: one function for each family of formulas."""
    jnp, special, linalg = ours.numpy, ours.scipy.special, ours.scipy.linalg
    z = np.complex64([1 + 1j, -1.5 + 0.1j])
    functions: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda z: (special.gamma(z), special.loggamma(z), special.erfcx(z)), (z,)),
        (lambda a: (linalg.cholesky(a), linalg.toeplitz(a), jnp.linalg.svd(a + a.T, hermitian=True)[1]), (MATRIX,)),
        (lambda x: (ours.nn.softmax(x, where=x > 30), jnp.unique(x, axis=1, size=3), jnp.var(x, ddof=30)), (X,)),
        (lambda x, i: x.at[i].apply(lambda v: 2 * v + 1), (jnp.array(X), np.array([1, 1, 3]))),
        (lambda m: ours.scipy.stats.poisson.entropy(m), (f32([0.5, 9, 300]),)),
    ]
    for f, args in functions:
        for found, want in zip(ours.tree.leaves(nm.jit(f)(*args)), ours.tree.leaves(f(*args)), strict=True):
            np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-4, atol=1e-5)


def test_eigenvectors_of_complex_tridiagonals() -> None:
    on, above = np.array([1.0, 2.0, 5.0]), np.array([1 + 2j, 0.5 - 1j])
    values, vectors = map(np.asarray, ours.scipy.linalg.eigh_tridiagonal(on, above))
    matrix = np.diag(on) + np.diag(above, 1) + np.diag(above.conj(), -1)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-13)


def test_items_and_bytes() -> None:
    jnp = ours.numpy
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert nm.jit(lambda x: jnp.zeros(x.nbytes + x.itemsize))(x).shape == (14,)
    assert jnp.array(x).tobytes("F") == x.tobytes("F")
    assert jnp.array(bytearray(b"\x2a")).tolist() == [42]
    assert jnp.cumulative_sum(x, axis=1, include_initial=True).tolist() == [[0, 0, 1, 3], [0, 3, 7, 12]]
    for axis, shift in (((0, 1), [1, 2]), (1, [1, 1]), ((0, 1), [2])):
        found = nm.jit(lambda s, axis=axis: jnp.roll(x, s, axis))(np.array(shift))
        np.testing.assert_array_equal(found, np.roll(x, shift, axis))
    with pytest.raises(nm.errors.DtypeError, match="requires an array without a mask"):
        jnp.array(np.ma.masked_array([1.0], [True]))


A = np.array([[4.0, 1.0, 0.3], [0.7, 5.0, -0.2], [0.1, 0.4, 6.0]])
ROW = np.array([0.3, -1.2, 2.5])
UPPER = np.array([True, False, True])


def _weighted(values: Any, left: Any, right: Any) -> Any:
    """A function of eigenvectors that does not depend on the order of the eigenvalues."""
    return ((left * left.conj()).real + (right * right).real) @ values.real


DIFFERENTIABLE: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "cholesky of one triangle": (lambda a: ours.scipy.linalg.cholesky(a, lower=True), A),
    "solve of one triangle": (lambda a: ours.scipy.linalg.solve(a, ROW, assume_a="pos"), A),
    "hermitian svd": (lambda a: ours.numpy.linalg.svd(a, hermitian=True)[1], A),
    "hermitian pinv": (lambda a: ours.numpy.linalg.pinv(a, hermitian=True), A),
    "left eigenvectors": (lambda a: _weighted(*ours.lax.linalg.eig(a)), np.triu(A)),
    "perturbed": (lambda d: ours.lax.linalg.tridiagonal_solve(ROW, d, ROW, A, perturb_singular=True), ROW + 9),
    "toeplitz": (lambda x: ours.scipy.linalg.toeplitz(x**2, x[:, :2]), A),
    "companion": (ours.scipy.linalg.companion, A),
    "cross": (lambda x: ours.numpy.cross(x[0], x[1, :2] ** 2), A),
    "vecdot": (lambda x: ours.numpy.vecdot(x**2, ROW, axis=0), A),
    "masked rows": (lambda x: ours.nn.softmax(x, where=UPPER[:, None] & UPPER), A),
    "masked rows, log": (lambda x: ours.numpy.where(UPPER, ours.nn.log_softmax(x, where=UPPER), 0.0), A),
    "repeated apply": (lambda x: ours.numpy.asarray(x).at[np.array([1, 1, 2])].apply(lambda v: v * v), A),
    "negative outside": (lambda x: ours.numpy.asarray(x).at[np.array([-1, 1])].multiply(ROW, wrap_negative_indices=False), A),
    "odd reflection": (lambda x: ours.numpy.pad(x**2, 4, mode="reflect", reflect_type="odd"), ROW),
    "weights": (lambda x: ours.numpy.average(x**2, (1, 0), A**2), A),
    "known mean": (lambda x: ours.numpy.var(x, mean=x[:1] ** 2), ROW),
    "weighted quantile": (lambda x: ours.numpy.quantile(x**2, 0.4, 1, weights=A + 2, method="inverted_cdf"), A),
    "column order": (lambda x: ours.numpy.reshape(x**2, (9,), order="F"), A),
    "steps": (lambda d: ours.numpy.trapezoid(A, dx=d[:2] ** 2), ROW),
    "groups": (lambda x: ours.lax.ragged_dot(x, np.stack([A, A + 1]), np.array([1, 2])), A),
    "window of pairs": (lambda x: ours.lax.reduce_window((x, x), (1.0, 0.0), lambda a, b: (a[0] * b[0], a[1] + b[1]), (2,)), ROW),
    "sine integral": (lambda x: ours.scipy.special.sici(x)[1], ROW),
    "rank statistics": (lambda x: ours.scipy.stats.beta.logpdf(0.3, x[:1] + 1, x[2:]), ROW),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_of_both_orders_and_maps(name: str) -> None:
    f, x = DIFFERENTIABLE[name]
    ours.test_util.check_grads(f, (x,), order=2, modes=("fwd", "rev"), rtol=1e-4, atol=1e-4)
    both = np.stack([x, x + 0.1])
    slopes = nm.vmap(nm.jacrev(f))(both)
    for k, row in enumerate(both):
        for found, want in zip(ours.tree.leaves(slopes), ours.tree.leaves(nm.jacfwd(f)(row)), strict=True):
            np.testing.assert_allclose(found[k], want, rtol=1e-7, atol=1e-8)


def test_trees_with_paths_and_nodes() -> None:
    util, tree = ours.tree_util, {"a": (1, [2, None]), "b": 3}
    pairs, spec = util.tree_flatten_with_path(tree, lambda path, x: len(path) > 1 or x is None, is_leaf_takes_path=True)
    assert [(util.keystr(path), leaf) for path, leaf in pairs] == [("['a'][0]", 1), ("['a'][1]", [2, None]), ("['b']", 3)]
    assert util.tree_unflatten(spec, [leaf for _, leaf in pairs]) == tree
    assert util.flatten_one_level_with_keys([4, [5]]) == ([(util.SequenceKey(0), 4), (util.SequenceKey(1), [5])], None)
    assert (util.is_tree_node(tuple), util.is_tree_node(int)) == (True, False)
    inner = functools.partial(pow, 2.0)
    assert util.Partial(inner, 3.0).args == (3.0,)
    assert util.Partial(inner, 3.0)() == 8.0
    assert util.Partial(inner).func == util.Partial(inner).func == inner

    @dataclasses.dataclass
    class Pair:
        x: float
        y: float
        kind: str = ours.tree.static(default="plain")

    for fields, text in (
        ((["x"], []), "none of"),
        ((["x", "y"], ["x", "kind"]), "each field once"),
        ((["x", "z"], []), "fields of Pair"),
    ):
        with pytest.raises(nm.errors.TreeError, match=text):
            util.register_dataclass(Pair, *fields)
    assert util.tree_leaves(util.register_dataclass(Pair)(1.0, 2.0)) == [1.0, 2.0]


def test_results_that_pass_through_unchanged_do_not_vary() -> None:
    def looped(x: Any, y: Any) -> Any:
        return ours.lax.fori_loop(0, 2, lambda _, c: (c[0] * 2, c[1]), (x, y))

    x, y = ours.vmap(looped, in_axes=(0, None), out_axes=(0, None))(np.arange(4), f32(5))
    assert (x.tolist(), y.shape, float(y)) == ([0, 4, 8, 12], (), 5.0)
    assert float(ours.grad(lambda y: looped(f32(1), y)[1] * y)(3.0)) == 6.0


def test_errors_of_rules_and_callbacks() -> None:
    rule = nm.custom_vjp(lambda x: x)
    with pytest.raises(AttributeError, match="requires a rule for"):
        rule(1.0)
    whole = nm.ShapeDtypeStruct((), np.int32)
    for result, text in (
        (2.7, "of the dtypes that it promises, got float64 for int32"),
        ((1, 2), "the 1 results that it promises, got 2"),
    ):
        with pytest.raises(RuntimeError, match=text):
            ours.pure_callback(lambda x, result=result: result, whole, 1.0)
    with pytest.raises(ValueError, match="derivative requires a rule for pure_callback"):
        ours.grad(lambda x: ours.pure_callback(np.sin, x, x))(1.0)
    assert ours.lax.map(lambda x: 2 * x, np.arange(3), batch_size=0).tolist() == [0, 2, 4]
    assert pickle.loads(pickle.dumps(ours.numpy.sin)) is ours.numpy.sin
