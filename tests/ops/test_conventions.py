"""Operations that the laws cannot sample: windows at ties, complex transforms and factorisations, random numbers."""

from __future__ import annotations

import numpy as np
from xla import run_traced

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.ops.chlo import RaggedDims, ragged_dot
from nabla_mlir.ops.custom_call import call
from nabla_mlir.ops.fourier import fft
from nabla_mlir.ops.lapack import _config
from nabla_mlir.ops.linalg import adjoint, cholesky, matmul, triangular_solve
from nabla_mlir.ops.select_and_scatter import select_and_scatter
from nabla_mlir.ops.windows import reduce_window, window_params
from nabla_mlir.table.tensor import full

RNG = np.random.default_rng(3)


def _complex(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def test_the_first_of_equal_elements_of_a_window_takes_the_derivative() -> None:
    x = np.array([1.0, 2.0, 2.0, 0.0, 2.0])

    def pool(x: nm.Tensor) -> nm.Tensor:
        params = window_params(1, window_dimensions=(3,))
        return reduce_window(x, full((), -np.inf, x.dtype), body="max", **params)

    def back(x: nm.Tensor, ct: nm.Tensor) -> nm.Tensor:
        params = {k: v for k, v in window_params(1, window_dimensions=(3,)).items() if "dilations" not in k}
        return select_and_scatter(x, ct, full((), 0, x.dtype), select="GE", scatter="add", **params)

    ct = np.array([1.0, 10.0, 100.0])
    pulled, scattered = nm.jit(lambda x, ct: (nm.vjp(pool, x)[1](ct)[0], back(x, ct)))(x, ct)
    np.testing.assert_array_equal(pulled, [0, 11, 100, 0, 0])
    np.testing.assert_array_equal(scattered, [0, 11, 100, 0, 0])


def test_transforms_are_transposed_plainly() -> None:
    x, ct = _complex(2, 6), _complex(2, 6)
    half = _complex(2, 4)

    def all_of(x: nm.Tensor, ct: nm.Tensor, half: nm.Tensor, real_ct: nm.Tensor) -> list[nm.Tensor]:
        outs = []
        for kind in ("FFT", "IFFT"):
            f = lambda v, kind=kind: fft(v, fft_type=kind, fft_length=(6,))  # noqa: E731
            outs += [nm.jvp(f, (x,), (x,))[1] * ct, x * nm.vjp(f, x)[1](ct)[0]]
        back = lambda v: fft(v, fft_type="IRFFT", fft_length=(6,))  # noqa: E731
        return [*outs, nm.jvp(back, (half,), (half,))[1] * real_ct, half * nm.vjp(back, half)[1](real_ct)[0]]

    sums = [np.asarray(v).sum() for v in run_traced(all_of, [x, ct, half, RNG.normal(size=(2, 6))])]
    for pushed, pulled in zip(sums[::2], sums[1::2], strict=True):
        np.testing.assert_allclose(np.real(pushed), np.real(pulled), rtol=1e-12)


def _identities(a: nm.Tensor, square: nm.Tensor) -> dict[str, nm.Tensor]:
    """Functions of a matrix that return it, or a smooth function of it that is known."""
    m, n = a.shape
    letter = "z" if a.dtype.kind == "c" else "d"
    orthogonal = "ungqr" if letter == "z" else "orgqr"
    symmetric = "heevd" if letter == "z" else "syevd"
    real, info = np.dtype(np.float64), ((), np.dtype(np.int32))
    packed, taus = call(
        f"lapack_{letter}geqrf_ffi", [a], [(a.shape, a.dtype), ((n,), a.dtype)], **{"mhlo.backend_config": _config()}
    )
    q = call(f"lapack_{letter}{orthogonal}_ffi", [packed, taus], [(a.shape, a.dtype)], **{"mhlo.backend_config": _config()})[0]
    r = nnp.where(np.triu(np.ones((n, n), bool)), packed[:n], 0)
    _, s, u, vt, _ = call(
        f"lapack_{letter}gesdd_ffi",
        [a],
        [(a.shape, a.dtype), ((n,), real), ((m, n), a.dtype), ((n, n), a.dtype), info],
        **{"mhlo.backend_config": _config(mode="S")},
    )
    v, w, _ = call(
        f"lapack_{letter}{symmetric}_ffi",
        [square],
        [((n, n), a.dtype), ((n,), real), info],
        **{"mhlo.backend_config": _config(mode="V", uplo="L")},
    )
    low = cholesky(square, lower=True)
    solved = triangular_solve(low, low, left_side=True, lower=True, unit_diagonal=False, transpose_a="NO_TRANSPOSE")
    return {
        "qr": matmul(q, r),
        "svd": matmul(u * s, vt),
        "eigh": matmul(v * w, adjoint(v)),
        "cholesky": matmul(low, adjoint(low)),
        "solve": solved,
    }


def test_factors_multiplied_again_have_the_tangent_of_the_matrix() -> None:
    for a, t in ((RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))),):
        square, change = a.T @ a, a.T @ t + t.T @ a
        (values, tangents), (_, seconds) = run_traced(
            lambda a, s, t, c: (
                nm.jvp(_identities, (a, s), (t, c)),
                nm.jvp(lambda *x: nm.jvp(_identities, x, (t, c))[1], (a, s), (t, c)),
            ),
            [a, square, t, change],
        )
        for name, value in values.items():
            wanted = {"qr": (a, t), "svd": (a, t), "solve": (np.eye(3), 0 * square)}.get(name, (square, change))
            np.testing.assert_allclose(value, wanted[0], atol=1e-10, err_msg=name)
            np.testing.assert_allclose(tangents[name], wanted[1], atol=1e-9, err_msg=name)
            np.testing.assert_allclose(seconds[name], 0 * wanted[0], atol=1e-7, err_msg=name)


def test_each_entry_of_a_map_draws_from_its_own_state() -> None:
    f = nm.from_stablehlo("""func.func @f(%s: tensor<2xui64>) -> tensor<3xui32> {
      %0:2 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>)
        -> (tensor<2xui64>, tensor<3xui32>)
      return %0#1 : tensor<3xui32> }""")
    states = np.array([[1, 2], [3, 4], [1, 2]], np.uint64)
    bits = np.asarray(nm.jit(nm.vmap(f))(states))
    np.testing.assert_array_equal(bits, [np.asarray(nm.jit(f)(s)) for s in states])


def test_a_draw_held_fixed_moves_with_its_bounds() -> None:
    f = nm.from_stablehlo("""func.func @f(%a: tensor<f32>, %b: tensor<f32>) -> tensor<40xf32> {
      %s = stablehlo.constant dense<40> : tensor<1xi64>
      %0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>)
        -> tensor<40xf32>
      return %0 : tensor<40xf32> }""")
    one = np.float32(1)
    y, t = nm.jit(lambda a, b: nm.jvp(f, (a, b), (one, one * 3)))(np.float32(0), np.float32(2))
    np.testing.assert_allclose(t, 1 + np.asarray(y), rtol=1e-5)  # a' + (b' - a') (y - a) / (b - a)


def test_ragged_products_are_products_of_their_groups() -> None:
    x, w, v = RNG.normal(size=(5, 3)), RNG.normal(size=(2, 3, 2)), RNG.normal(size=(5, 2))
    sizes, t = np.array([2, 3], np.int32), RNG.normal(size=(5, 3))
    rows = dict.fromkeys(RaggedDims.lists, ()) | {
        "lhs_contracting_dimensions": (1,),
        "rhs_contracting_dimensions": (1,),
        "lhs_ragged_dimensions": (0,),
        "rhs_group_dimensions": (0,),
    }
    sums = rows | {"lhs_contracting_dimensions": (0,), "rhs_contracting_dimensions": (0,), "rhs_group_dimensions": ()}

    def product(x: nm.Tensor, w: nm.Tensor, numbers: dict) -> nm.Tensor:
        return ragged_dot(x, w, nnp.asarray(sizes), ragged_dot_dimension_numbers=numbers, dtype=np.dtype(np.float64))

    def by_rows(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[:2] @ w[0], x[2:] @ w[1]])

    def by_sums(x: np.ndarray) -> np.ndarray:
        return np.stack([x[:2].T @ v[:2], x[2:].T @ v[2:]])

    def all_of(x: nm.Tensor, w: nm.Tensor, v: nm.Tensor, t: nm.Tensor) -> list[nm.Tensor]:
        first, second = (lambda x: product(x, w, rows)), (lambda x: product(x, v, sums))
        pairs = [nm.jvp(f, (x,), (t,)) for f in (first, second)]
        many = nm.vmap(lambda x: nm.vjp(first, x)[1](first(x))[0])(nnp.stack([x, t]))
        return [*pairs[0], *pairs[1], many]

    outs = run_traced(all_of, [x, w, v, t])
    for got, wanted in zip(outs, [by_rows(x), by_rows(t), by_sums(x), by_sums(t)], strict=False):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
    back = [np.concatenate([by_rows(a)[:2] @ w[0].T, by_rows(a)[2:] @ w[1].T]) for a in (x, t)]
    np.testing.assert_allclose(outs[4], back, rtol=1e-12, atol=1e-12)


def test_derivatives_of_complex_functions_in_every_quadrant() -> None:
    """On the branch that the value is on: one root of a product is not the product of the roots."""
    functions = {
        "acos": np.arccos,
        "acosh": np.arccosh,
        "asin": np.arcsin,
        "asinh": np.arcsinh,
        "atan": np.arctan,
        "atanh": np.arctanh,
        "cos": np.cos,
        "cosh": np.cosh,
        "exp": np.exp,
        "expm1": np.expm1,
        "log": np.log,
        "log1p": np.log1p,
        "reciprocal": np.reciprocal,
        "sin": np.sin,
        "sinh": np.sinh,
        "sqrt": np.sqrt,
        "tan": np.tan,
        "tanh": np.tanh,
    }
    z = np.array([2 + 1j, -2 + 1j, -0.5 - 2j, 0.5 - 0.3j, -3 - 0.1j, -0.4 + 0.2j])
    t, h = np.array([1, 1j, 1 - 2j, -1, 0.5j, 1]), 1e-4
    got = run_traced(lambda z, t: [nm.jvp(getattr(nnp, name), (z,), (t,))[1] for name in functions], [z, t])
    for name, dy in zip(functions, got, strict=True):
        far, near = (functions[name](z + k * h * t) - functions[name](z - k * h * t) for k in (2, 1))
        np.testing.assert_allclose(dy, (8 * near - far) / (12 * h), rtol=1e-9, err_msg=name)
