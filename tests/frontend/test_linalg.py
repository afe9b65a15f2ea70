"""Linear algebra and Fourier transforms against JAX in f64: values, derivatives to second order, batches."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError, ShapeError

RNG = np.random.default_rng(0)


def real(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def both(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def _triangular(a: Any, b: Any, *, left_side: bool = True, **options: Any) -> Any:
    return jax.lax.linalg.triangular_solve(a, b, left_side=left_side, **options)


OURS = SimpleNamespace(np=nnp, la=nnp.linalg, fft=nnp.fft, expm=nnp.linalg.expm, tri=nnp.linalg.triangular_solve)
JAXS = SimpleNamespace(np=jnp, la=jnp.linalg, fft=jnp.fft, expm=jax.scipy.linalg.expm, tri=_triangular)


def definite(x: SimpleNamespace, a: Any) -> Any:
    return x.np.matmul(a, x.np.conj(a).mT) + 2.0 * np.eye(a.shape[-1])


# Functions of the namespaces and arrays; factors enter as combinations that do not depend on signs or phases.
CASES: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "cholesky": (lambda x, a: x.la.cholesky(definite(x, a)), [real(3, 3)]),
    "cholesky_upper": (lambda x, a: x.la.cholesky(definite(x, a), upper=True), [real(2, 3, 3)]),
    "cholesky_complex": (lambda x, a: x.la.cholesky(definite(x, a)), [both(3, 3)]),
    "solve": (lambda x, a, b: x.la.solve(a, b), [real(4, 4), real(4, 2)]),
    "solve_vector": (lambda x, a, b: x.la.solve(a, b), [real(3, 3), real(3)]),
    "solve_stacks": (lambda x, a, b: x.la.solve(a, b), [real(3, 3), real(2, 3, 2)]),
    "solve_complex": (lambda x, a, b: x.la.solve(a, b), [both(3, 3), both(3, 2)]),
    "triangular_lower": (lambda x, a, b: x.tri(a, b, lower=True), [real(3, 3), real(3, 2)]),
    "triangular_transposed": (lambda x, a, b: x.tri(a, b, transpose_a=True), [real(3, 3), real(3, 2)]),
    "triangular_right": (lambda x, a, b: x.tri(a, b, left_side=False, unit_diagonal=True), [real(3, 3), real(2, 3)]),
    "inv": (lambda x, a: x.la.inv(a), [real(2, 3, 3)]),
    "pinv_tall": (lambda x, a: x.la.pinv(a), [real(4, 2)]),
    "pinv_wide": (lambda x, a: x.la.pinv(a), [real(2, 2, 3)]),
    "pinv_deficient": (lambda x, a, b: x.la.pinv(x.np.matmul(a, b)), [real(4, 2), real(2, 3)]),
    "pinv_equal_values": (lambda x, a: x.la.pinv(a), [2 * np.eye(3)[:, :2]]),
    "pinv_complex": (lambda x, a: x.la.pinv(a), [both(3, 2)]),
    "det_2": (lambda x, a: x.la.det(a), [real(3, 2, 2)]),
    "det_3": (lambda x, a: x.la.det(a), [real(3, 3)]),
    "det_singular": (lambda x, a: x.la.det(a), [np.outer([1.0, 2, 3], [1.0, -1, 2])]),
    "det_5": (lambda x, a: x.la.det(a), [real(2, 5, 5)]),
    "det_complex": (lambda x, a: x.la.det(a), [both(4, 4)]),
    "slogdet": (lambda x, a: tuple(x.la.slogdet(a)), [real(2, 4, 4)]),
    "slogdet_complex": (lambda x, a: tuple(x.la.slogdet(a)), [both(3, 3)]),
    "qr": (lambda x, a: tuple(v * v for v in x.la.qr(a)), [real(4, 3)]),
    "qr_complete": (lambda x, a: x.np.matmul(*x.la.qr(a, mode="complete")), [real(2, 3, 3)]),
    "qr_r": (lambda x, a: x.la.qr(a, mode="r") ** 2, [real(4, 3)]),
    "qr_wide": (lambda x, a: tuple(v * v for v in x.la.qr(a[..., :2])), [real(3, 4)]),
    "eigh": (lambda x, a: (lambda w, v: (w, v * v))(*x.la.eigh(a + a.mT)), [real(4, 4)]),
    "eigh_complex": (lambda x, a: (lambda w, v: (w, x.np.abs(v)))(*x.la.eigh(definite(x, a))), [both(3, 3)]),
    "eigvalsh": (lambda x, a: x.la.eigvalsh(a), [(lambda a: a + np.swapaxes(a, -1, -2))(real(2, 3, 3))]),
    "svd": (lambda x, a: (lambda u, s, vh: (u * u, s, vh * vh))(*x.la.svd(a, full_matrices=False)), [real(4, 3)]),
    "svd_wide": (lambda x, a: (lambda u, s, vh: (u * u, s, vh * vh))(*x.la.svd(a, full_matrices=False)), [real(2, 2, 3)]),
    "svd_complex": (lambda x, a: x.la.svd(a, full_matrices=False)[1], [both(3, 2)]),
    "svdvals": (lambda x, a: x.la.svd(a, compute_uv=False), [real(3, 4)]),
    "expm": (lambda x, a: x.expm(a), [real(3, 3)]),
    "expm_large": (lambda x, a: x.expm(a), [real(2, 2, 2) * 20]),
    "expm_zero": (lambda x, a: x.expm(a), [np.zeros((2, 2))]),
    "power": (lambda x, a: (x.la.matrix_power(a, 5), x.la.matrix_power(a, -2), x.la.matrix_power(a, 0)), [real(3, 3)]),
    "norms": (lambda x, a: tuple(x.la.norm(a, o, axis=-1) for o in (None, 1, 2, 3, 0.5, np.inf, -np.inf)), [real(3, 4)]),
    "norms_of_matrices": (
        lambda x, a: tuple(x.la.norm(a, o, axis=(-2, -1)) for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)),
        [real(2, 3, 4)],
    ),
    "norm_kept": (lambda x, a: x.la.norm(a, keepdims=True) + x.la.norm(a, axis=0, keepdims=True), [real(3, 4)]),
    "norm_complex": (lambda x, a: x.la.norm(a, axis=0), [both(3, 2)]),
    "cond": (lambda x, a: (x.la.cond(a), x.la.cond(a, 1)), [real(3, 3)]),
    "fft": (lambda x, a: x.fft.fft(a), [real(2, 5)]),
    "fft_lengths": (lambda x, a: (x.fft.fft(a, 4, 0), x.fft.fft(a, 3, norm="ortho")), [both(2, 5)]),
    "ifft": (lambda x, a: x.fft.ifft(a, norm="forward"), [both(2, 6)]),
    "rfft": (lambda x, a: (x.fft.rfft(a), x.fft.rfft(a, 8, 0, norm="ortho")), [real(5, 6)]),
    "irfft": (lambda x, a: (x.fft.irfft(a), x.fft.irfft(a, 5, axis=0, norm="ortho")), [both(4, 3)]),
    "hfft": (lambda x, a: (x.fft.hfft(a), x.fft.ihfft(x.np.real(a))), [both(2, 4)]),
    "fft2": (lambda x, a: (x.fft.fft2(a), x.fft.ifft2(a, (2, 5))), [both(2, 3, 4)]),
    "fftn": (lambda x, a: (x.fft.fftn(a), x.fft.ifftn(a, (2, 2), (2, 0))), [both(2, 3, 4)]),
    "rfftn": (lambda x, a: (x.fft.rfftn(a), x.fft.rfft2(a, (4, 3), (0, 2))), [real(2, 3, 4)]),
    "irfftn": (lambda x, a: (x.fft.irfftn(a), x.fft.irfft2(a, (3, 5))), [both(2, 3, 3)]),
    "fftshift": (lambda x, a: (x.fft.fftshift(a), x.fft.ifftshift(a, 1), x.fft.ifftshift(x.fft.fftshift(a))), [real(3, 5)]),
}
_FIRST_ORDER = {"norms_of_matrices"}  # JAX has no second derivative of some that is finite


def quantities(x: SimpleNamespace, jvp: Any, vjp: Any, vmap: Any, name: str, *operands: Any) -> dict[str, Any]:
    f, given = CASES[name]
    k = len(given)
    xs, ts = operands[:k], operands[k:]

    def g(*a: Any) -> tuple[Any, ...]:
        y = f(x, *a)
        return tuple(y) if isinstance(y, (tuple, list)) else (y,)

    ys, dys = jvp(g, tuple(xs), tuple(ts))
    rng = np.random.default_rng(3)
    cts = tuple((rng.normal(size=y.shape) + (1j * rng.normal(size=y.shape) if y.dtype.kind == "c" else 0)) for y in ys)
    cts = tuple(x.np.asarray(np.asarray(ct).astype(str(y.dtype))) for ct, y in zip(cts, ys, strict=True))

    def pulled(*a: Any) -> Any:
        return tuple(vjp(g, *a)[1](cts))

    out = {"value": ys, "jvp": dys, "vjp": pulled(*xs)}
    if name not in _FIRST_ORDER:
        out["hvp"] = jvp(pulled, tuple(xs), tuple(ts))[1]
    many = tuple(x.np.stack([a, a * 1.1]) for a in xs)
    out["vmap"] = vmap(lambda *a: (g(*a), pulled(*a)))(*many)
    return out


@pytest.mark.slow  # XLA compiles second derivatives of factorisations for a second each
@pytest.mark.parametrize("name", CASES)
def test_against_jax(name: str) -> None:
    xs = CASES[name][1]
    rng = np.random.default_rng(1)
    ts = [rng.normal(size=x.shape) + (1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else 0) for x in xs]
    got = run_traced(lambda *a: quantities(OURS, nm.jvp, nm.vjp, nm.vmap, name, *a), [*xs, *ts])
    want = jax.jit(lambda *a: quantities(JAXS, jax.jvp, jax.vjp, jax.vmap, name, *a))(*xs, *ts)
    for what in want:
        ours, theirs = (jax.tree_util.tree_leaves(tree[what]) for tree in (got, want))
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            scale = max(1.0, float(np.abs(np.asarray(b)).max(initial=0.0)))
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9 * scale, err_msg=what)


@pytest.mark.slow
def test_compiled_by_iree() -> None:
    a = real(3, 3) + 3 * np.eye(3)
    b, v = real(3), real(2, 8)

    def values(a: Any, b: Any, v: Any) -> dict[str, Any]:
        la, symmetric = nnp.linalg, a + a.mT
        w, vectors = la.eigh(symmetric)
        u, s, vh = la.svd(a)
        return {
            "solve": la.solve(a, b),
            "inv": la.inv(a),
            "det": la.det(a),
            "logdet": la.slogdet(a).logabsdet,
            "qr": nnp.matmul(*la.qr(a)),
            "eigh": nnp.matmul(vectors * w, vectors.mT) - symmetric,
            "svd": nnp.matmul(u * s, vh),
            "pinv": la.pinv(a),
            "norm": la.norm(a),
            "expm": la.expm(a),
            "power": la.matrix_power(a, 3),
            "rfft": nnp.fft.rfft(v),
            "ifft2": nnp.fft.ifft2(v),
            "rank": la.matrix_rank(a),
        }

    def scalar(a: Any) -> Any:
        return nnp.linalg.slogdet(a).logabsdet + nnp.linalg.norm(nnp.linalg.expm(a * 0.1))

    got, gradient = nm.jit(lambda a, b, v: (values(a, b, v), nm.grad(scalar)(a)))(a, b, v)
    want = {
        "solve": np.linalg.solve(a, b),
        "inv": np.linalg.inv(a),
        "det": np.linalg.det(a),
        "logdet": np.linalg.slogdet(a)[1],
        "qr": a,
        "eigh": np.zeros((3, 3)),
        "svd": a,
        "pinv": np.linalg.inv(a),
        "norm": np.linalg.norm(a),
        "expm": jax.scipy.linalg.expm(a),
        "power": np.linalg.matrix_power(a, 3),
        "rfft": np.fft.rfft(v),
        "ifft2": np.fft.ifft2(v),
        "rank": 3,
    }
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-11, err_msg=name)
    reference = jax.grad(lambda a: jnp.linalg.slogdet(a)[1] + jnp.linalg.norm(jax.scipy.linalg.expm(a * 0.1)))(a)
    np.testing.assert_allclose(gradient, reference, rtol=1e-9)


def test_a_pseudo_inverse_is_one_factorisation() -> None:
    """Its derivatives are products with itself: neither the value nor a second derivative solves anything."""
    a, b = nm.spec((9, 4), "f64"), nm.spec(9, "f64")
    gradient = nm.grad(lambda a: nnp.sum(nnp.linalg.pinv(a) ** 2))
    product = lambda a, v: nm.jvp(gradient, (a,), (v,))  # noqa: E731
    texts = [
        nm.trace(f, *specs).lower().mlir() for f, specs in ((nnp.linalg.pinv, [a]), (nnp.linalg.lstsq, [a, b]), (product, [a, a]))
    ]
    assert [(text.count("gesdd"), text.count("getrf"), text.count("triangular_solve")) for text in texts] == [(1, 0, 0)] * 3


@pytest.mark.parametrize("name", ["solve", "inv", "slogdet"])
def test_one_factorisation_serves_every_derivative(name: str) -> None:
    """They are differentiated by their equations, A X = B and d log|A| = trace(A^-1 dA), not through the factors."""
    ours = {
        "solve": lambda a, b: nnp.sum(nnp.linalg.solve(a, b) ** 2),
        "inv": lambda a, b: nnp.sum(nnp.linalg.inv(a) @ b),
        "slogdet": lambda a, b: nnp.linalg.slogdet(a)[1],
    }[name]
    a, b = nm.spec((9, 9), "f64"), nm.spec((9, 2), "f64")
    gradient = nm.grad(ours)
    text = nm.trace(lambda a, b, v: nm.jvp(lambda a: gradient(a, b), (a,), (v,)), a, b, a).lower().mlir()
    assert text.count("getrf") == 1
    assert text.count("stablehlo.triangular_solve") <= {"solve": 8, "inv": 8, "slogdet": 4}[name]
    assert "stablehlo.scatter" not in text


def test_the_norm_of_zero_has_the_derivative_zero() -> None:
    grads = nm.jit(nm.grad(lambda x: nnp.linalg.norm(x) + nnp.linalg.norm(x, 3)))(np.zeros(3))
    np.testing.assert_array_equal(grads, np.zeros(3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: nnp.linalg.solve(a, np.ones(4)), ShapeError, "as many rows as the matrix"),
        (lambda a: nnp.linalg.inv(a[:2]), ShapeError, "inv requires square matrices"),
        (lambda a: nnp.linalg.det(a[0]), ShapeError, "det requires matrices"),
        (lambda a: nnp.linalg.qr(a, mode="raw"), ShapeError, "mode 'reduced', 'complete' or 'r', got 'raw'"),
        (lambda a: nnp.linalg.eigh(a, UPLO="M"), ShapeError, "UPLO 'L', 'U' or None, got 'M'"),
        (lambda a: nnp.linalg.norm(a, "nuclear", (0, 1)), ShapeError, "'fro' or 'nuc' for matrices, got 'nuclear'"),
        (lambda a: nnp.linalg.norm(a[0], "fro"), ShapeError, "a number as the order"),
        (lambda a: nnp.linalg.norm(nnp.stack([a, a]), 2), ShapeError, "one axis or two"),
        (lambda a: nnp.fft.fft(a, 0), ShapeError, "lengths of at least 1"),
        (lambda a: nnp.fft.fft(a, norm="none"), ShapeError, "norm 'backward', 'ortho' or 'forward'"),
        (lambda a: nnp.fft.fftn(a, (2,), (0, 1)), ShapeError, "a length for each"),
        (lambda a: nnp.fft.rfft(a * 1j), DtypeError, "rfft requires real numbers"),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        nm.trace(call, nm.spec((3, 3), "f64"))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_generalised_eigenvalues_read_one_triangle(lower: bool, dtype: type) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(4, 4)) + (1j * rng.normal(size=(4, 4)) if dtype is np.complex128 else 0) for _ in range(2))
    b = b @ b.conj().T + 4 * np.eye(4)
    b += (np.triu if lower else np.tril)(np.ones((4, 4)), 1 if lower else -1)  # the other triangle is not read
    values, vectors = map(np.asarray, nm.jax.scipy.linalg.eigh(a, b, lower=lower))
    np.testing.assert_allclose(values, scipy.linalg.eigh(a, b, lower=lower, eigvals_only=True), rtol=1e-10)
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    matrix = half + half.conj().T + np.diag(np.diag(a).real)
    half = np.tril(b, -1) if lower else np.triu(b, 1)
    metric = half + half.conj().T + np.diag(np.diag(b).real)
    np.testing.assert_allclose(matrix @ vectors, metric @ vectors * values, atol=1e-10)
