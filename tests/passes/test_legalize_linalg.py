"""Cholesky, triangular solves and products, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from legalize_support import Program, check_against_jax, legalized

TYPES = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.complex64): "complex<f32>",
    np.dtype(np.complex128): "complex<f64>",
}
rng = np.random.default_rng(0)


def type_of(x: np.ndarray) -> str:
    return f"tensor<{''.join(f'{n}x' for n in x.shape)}{TYPES[x.dtype]}>"


def positive(n: int, dtype: type, batch: tuple[int, ...] = ()) -> np.ndarray:
    a = rng.normal(size=(*batch, n, n)) + (1j * rng.normal(size=(*batch, n, n)) if dtype().dtype.kind == "c" else 0)
    return (a @ np.conj(np.swapaxes(a, -1, -2)) + n * np.eye(n)).astype(dtype)


CHOLESKY = [
    (positive(n, dtype, batch), lower)
    for n, dtype, batch, lower in [
        (1, np.float32, (), True),
        (33, np.float64, (2, 3), False),
        (37, np.complex64, (), True),
        (37, np.complex128, (2,), False),
        (70, np.float32, (), True),
        (128, np.float64, (), True),
    ]
]


@pytest.mark.slow
def test_cholesky() -> None:
    text = ""
    for i, (a, lower) in enumerate(CHOLESKY):
        t = type_of(a)
        text += f"""func.func @f{i}(%a: {t}) -> {t} {{
          %0 = stablehlo.cholesky %a, lower = {str(lower).lower()} : {t}
          return %0 : {t}
        }}\n"""
    program = Program(legalized(text))
    for i, (a, lower) in enumerate(CHOLESKY):
        want = np.linalg.cholesky(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64))
        want = want if lower else np.conj(np.swapaxes(want, -1, -2))
        # The other triangle is not read.
        spoilt = a + np.triu(np.full(a.shape[-1:] * 2, 7), 1) if lower else a + np.tril(np.full(a.shape[-1:] * 2, 7), -1)
        got = program(f"f{i}", spoilt.astype(a.dtype))
        assert np.abs(got - want).max() < 8 * np.finfo(a.dtype).eps * np.abs(want).max(), (a.shape, a.dtype)


@pytest.mark.slow
def test_triangular_solve() -> None:
    cases = []
    options = itertools.product((True, False), (True, False), ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"), range(2))
    for left, lower, transpose, unit in options:
        dtype, batch = ((np.complex64, (2,)), (np.float64, ()))[unit]
        n = 37 if lower else 20
        a = positive(n, dtype, batch) / (8 * n if unit else 1)
        shape = (n, 5) if left else (5, n)
        cases.append((left, lower, transpose, bool(unit), a.astype(dtype), rng.normal(size=(*batch, *shape)).astype(dtype)))
    text = ""
    for i, (left, lower, transpose, unit, a, right) in enumerate(cases):
        text += f"""func.func @f{i}(%a: {type_of(a)}, %b: {type_of(right)}) -> {type_of(right)} {{
          %0 = "stablehlo.triangular_solve"(%a, %b) {{left_side = {str(left).lower()}, lower = {str(lower).lower()},
            unit_diagonal = {str(unit).lower()}, transpose_a = #stablehlo<transpose {transpose}>}}
            : ({type_of(a)}, {type_of(right)}) -> {type_of(right)}
          return %0 : {type_of(right)}
        }}\n"""
    program = Program(legalized(text))
    for i, (left, lower, transpose, unit, a, right) in enumerate(cases):
        matrix = np.tril(a) if lower else np.triu(a)
        if unit:
            matrix = matrix * (1 - np.eye(a.shape[-1])) + np.eye(a.shape[-1])
        matrix = matrix if transpose == "NO_TRANSPOSE" else np.swapaxes(matrix, -1, -2)
        matrix = np.conj(matrix) if transpose == "ADJOINT" else matrix
        got = program(f"f{i}", a, right)
        product = matrix @ got if left else got @ matrix
        assert np.abs(product - right).max() < 100 * np.finfo(a.dtype).eps * np.abs(right).max(), cases[i][:4]


def test_products() -> None:
    import jax.numpy as jnp

    narrow = [jnp.asarray(rng.normal(size=s), jnp.bfloat16) for s in ((5, 300), (300, 4))]
    check_against_jax(
        {
            "empty": (lambda a, b: a @ b, (np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32))),
            "narrow": (lambda a, b: a @ b, tuple(narrow)),
        },
        1e-2,
    )


@pytest.mark.parametrize("op", ["stablehlo.cholesky", "stablehlo.triangular_solve"])
def test_iree_still_cannot_compile(op: str) -> None:
    import iree.compiler

    t = "tensor<4x4xf32>"
    if op == "stablehlo.cholesky":
        body = f"%0 = stablehlo.cholesky %a, lower = true : {t}"
    else:
        body = f"""%0 = "stablehlo.triangular_solve"(%a, %a) {{left_side = true, lower = true, unit_diagonal = false,
          transpose_a = #stablehlo<transpose NO_TRANSPOSE>}} : ({t}, {t}) -> {t}"""
    with pytest.raises(iree.compiler.CompilerToolError):
        Program(f"func.func @f(%a: {t}) -> {t} {{ {body}\n return %0 : {t} }}")
