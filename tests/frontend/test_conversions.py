"""Numbers of another dtype than that of a program, as arguments, constants and data: nothing is lost silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.conversion import rounded
from nabla_mlir.base.errors import DtypeError, ShapeError
from nabla_mlir.runtime import Array

WANTED = ("float32", "float64")
GIVEN = ("bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64", "complex64", "complex128")
PAIRS = [(g, w) for w in WANTED for g in GIVEN]
DIAGONAL = [6.0, 12.0, 18.0]  # of the Hessian of the sum of x³ at (1, 2, 3)


def vector(dtype: str) -> np.ndarray:
    """Numbers that a cast to a lower kind changes."""
    low = np.dtype(dtype).kind in "biu"
    return np.array([1, 1, 0] if low else [1.25 + (0.5j if dtype[0] == "c" else 0), 1, 0], dtype)


def cubes(x: Any) -> Any:
    return nnp.sum(x * x * x)


@pytest.fixture(scope="module")
def hessians() -> dict[str, Any]:
    return {w: nm.HessianOperator(cubes, np.array([1.0, 2.0, 3.0], w), block=2) for w in WANTED}


@pytest.fixture(scope="module")
def jacobians() -> dict[str, Any]:
    return {w: nm.JacobianOperator(lambda x: x * x * x, np.array([1.0, 2.0, 3.0], w), block=2) for w in WANTED}


# ---------------------------------------------------------------- operators


@pytest.mark.slow
@pytest.mark.parametrize(("given", "wanted"), PAIRS)
def test_products_of_vectors_and_matrices(hessians: Any, jacobians: Any, given: str, wanted: str) -> None:
    H, J, v = hessians[wanted], jacobians[wanted], vector(given)
    expected = np.array(DIAGONAL) * v
    dtype = np.result_type(np.complex64, wanted) if given.startswith("complex") else np.dtype(wanted)
    for y in (H.matvec(v), H.rmatvec(v), H.hessp(H.x, v), H.T @ v, H.H @ v):
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        assert y.dtype == dtype
    block = np.stack([v, 2 * v, v], axis=1)
    np.testing.assert_allclose(H.matmat(block), np.diag(DIAGONAL) @ block, rtol=1e-6)
    slopes = np.diag(np.array(DIAGONAL) * [0.5, 1, 1.5])
    for y in (J.matvec(v), J.rmatvec(v), J.T @ v, J.H @ v):
        np.testing.assert_allclose(y, slopes @ v, rtol=1e-6)
        assert y.dtype == dtype
    for out in (J.matmat(block), J.rmatmat(block)):
        np.testing.assert_allclose(out, slopes @ block, rtol=1e-6)
        assert out.dtype == dtype


@pytest.mark.slow
def test_complex_vectors_are_two_real_products() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    model, squares = lambda x, rows: rows @ x, lambda out, rows: nnp.sum(out * out) / 2
    v = np.array([1 + 2j, -1j])
    sources: dict[str, Any] = {
        "hvp": nm.hvp_module(lambda x, rows: squares(model(x, rows), rows), nm.spec(2, "f64"), rows),
        "ggn": nm.ggnvp_module(model, squares, nm.spec(2, "f64"), rows),
        "fisher": nm.fisher_module(model, "gaussian", nm.spec(2, "f64"), rows),
    }
    for source in sources.values():
        H = nm.HessianOperator(source, np.ones(2), rows, damping=0.5)
        np.testing.assert_allclose(H @ v, rows.T @ rows @ v + 0.5 * v, rtol=1e-12)
        assert H.products == 2
        np.testing.assert_allclose(H @ v[:, None], (rows.T @ rows @ v + 0.5 * v)[:, None], rtol=1e-12)
    assert (H @ np.array([1j, np.inf]))[0].imag == rows.T[0] @ rows[:, 0] + 0.5  # the parts do not meet


@pytest.mark.parametrize("wanted", WANTED)
def test_what_a_product_cannot_hold_is_refused(hessians: Any, wanted: str) -> None:
    H, exact = hessians[wanted], 1 << (np.finfo(wanted).nmant + 1)
    np.testing.assert_allclose(H @ np.array([exact, -exact, 0]), np.array([6, -12, 0.0]) * exact)
    for bad in (np.array([exact + 1, 0, 0]), np.array([0, -exact - 1, 0]), np.array([1, 0, 2**64 - 1], np.uint64)):
        for product in (H.matvec, lambda v: H.matmat(v[:, None]), lambda v: H.hessp(H.x, v), H.update):
            with pytest.raises(DtypeError, match=rf"requires integers that {wanted} holds, from -{exact} to {exact}, got"):
                product(bad)
    for nonsense in (np.array([1, 2, 3], object), np.array(["1", "2", "3"]), np.array([1, 2, 3], "M8[s]")):
        with pytest.raises(DtypeError, match=f"v requires numbers of {wanted}, got"):
            H @ nonsense


def test_numbers_out_of_range_are_refused(hessians: Any) -> None:
    H = hessians["float32"]
    assert (H @ np.array([np.inf, 1e-60, 0.0])).tolist() == [np.inf, 0, 0]  # infinity is held, small ones are rounded
    for product in (H.matvec, lambda v: H.matmat(v[:, None]), H.update, H.objective):
        with pytest.raises(DtypeError, match="requires numbers in the range of float32, got float64 beyond it"):
            product(np.array([1e39, 1, 1]))
    with pytest.raises(DtypeError, match="requires numbers in the range of complex64, got complex128 beyond it"):
        rounded(np.array([1e39j]), np.dtype(np.complex64), "v")


@pytest.mark.parametrize(("given", "wanted"), PAIRS)
def test_points_as_flat_vectors(hessians: Any, given: str, wanted: str) -> None:
    H, x = hessians[wanted].clone(), vector(given)
    if given.startswith("complex"):
        for move in (H.update, H.objective, lambda x: H.hessp(x, x)):
            with pytest.raises(DtypeError, match=f"x requires numbers of {wanted}, got {given}"):
                move(x)
        return
    _, gradient = H.update(x)
    np.testing.assert_allclose(gradient, 3 * vector("float64" if x.dtype.kind == "f" else given).astype(float) ** 2)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_operators_of_narrow_floats(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    H = nm.HessianOperator(cubes, np.array([1.0, 2.0, 3.0]).astype(dtype))
    y, z = H @ np.array([1.0, 1, 1]), H @ np.array([1j, 1, 1])
    assert (y.dtype, z.dtype) == (dtype, np.complex64)
    assert (y.tolist(), z.tolist()) == (DIAGONAL, [6j, 12, 18])
    for bad in (np.array([1e39, 1, 1]), np.array([1, 2**12, 2**12 + 1])):
        with pytest.raises(DtypeError, match=f"v requires .* {name}"):
            H @ bad


def test_damping_is_a_real_number_of_any_width() -> None:
    H = nm.HessianOperator(cubes, np.array([1.0, 2.0, 3.0], np.float32), damping=np.float64(0.5))
    assert (H @ np.ones(3)).dtype == (H @ np.ones((3, 2))).dtype == np.float32
    assert (H @ np.array([1j, 0, 0])).tolist() == [6.5j, 0, 0]
    with pytest.raises(DtypeError, match="damping requires a real number, got 1j"):
        nm.HessianOperator(cubes, np.ones(3), damping=1j)


def test_a_rounded_point_is_the_same_point() -> None:
    H = nm.HessianOperator(cubes, np.array([1.0, 2.0, 3.0], np.float32))
    third = np.full(3, 1 / 3)
    H.objective(third)
    H.hessp(third, third)
    assert H.updates == 2  # the first one is that of the start


def test_solvers_pass_doubles() -> None:
    from scipy.sparse.linalg import cg, lsqr

    H = nm.HessianOperator(cubes, np.array([1.0, 2.0, 3.0], np.float32))
    J = nm.JacobianOperator(lambda x: x * x, np.array([1.0, 2.0, 3.0], np.float32))
    np.testing.assert_allclose(cg(H, np.array(DIAGONAL), rtol=1e-6)[0], np.ones(3), rtol=1e-5)
    np.testing.assert_allclose(lsqr(J, np.array([2.0, 4.0, 6.0]))[0], np.ones(3), rtol=1e-5)


def test_operators_of_complex_functions_are_refused() -> None:
    with pytest.raises(DtypeError, match="a check of a linear map requires real vectors, got complex128"):
        nm.JacobianOperator(lambda x: x * x, np.array([1j, 2.0]))


# ---------------------------------------------------------------- calls that cast nothing


@pytest.mark.parametrize("wanted", [*WANTED, "int32", "uint8", "complex64", "bool"])
def test_compiled_functions_take_their_own_dtype_only(tmp_path: Path, wanted: str) -> None:
    traced = nm.trace(lambda x: x, nm.spec(3, wanted), name="f")
    compiled = traced.lower().compile()
    loaded = nm.load(compiled.save(tmp_path / "f.vmfb"))
    for given in GIVEN:
        for call in (compiled, loaded["f"], traced.lower().function()):
            if given == wanted:
                assert call(vector(given)).tolist() == vector(given).tolist()
                continue
            with pytest.raises(DtypeError, match=rf"{wanted}\[3\].*, got {given}"):
                call(vector(given))


@pytest.mark.parametrize(("given", "wanted"), [p for p in PAIRS if p[0] != p[1]])
def test_trees_and_storage_are_never_cast(hessians: Any, given: str, wanted: str) -> None:
    H = hessians[wanted]
    with pytest.raises(DtypeError, match=rf"v requires {wanted}\[3\], got {given}\[3\]"):
        H.apply(vector(given))
    with pytest.raises(DtypeError, match=rf"v requires {wanted}\[3\], got {given}\[3\]"):
        H.apply(Array.from_numpy(vector(given)))
    x = np.ones(3, wanted)
    for make in (
        lambda t: nm.jvp(cubes, (x,), (t,)),
        lambda t: nm.linearize(cubes, x)[1](t),
        lambda t: nm.hvp(cubes)(x, t),
        lambda t: nm.vjp(lambda y: y * y, x)[1](t),
        lambda t: nm.ggnvp(lambda y: y, cubes)(x, t),
        lambda t: nm.jit(lambda x, t: nm.jvp(cubes, (x,), (t,)))(x, t),
    ):
        with pytest.raises(DtypeError, match=f"requires the dtype of its primal, got {given} for {wanted}"):
            make(vector(given))


def test_trees_of_another_shape_are_named(hessians: Any) -> None:
    for v in (np.ones(4, np.float32), Array.from_numpy(np.ones(4, np.float32))):
        with pytest.raises(ShapeError, match=r"v requires float32\[3\], got float32\[4\]"):
            hessians["float32"].apply(v)


def test_storage_has_the_dtype_of_the_result() -> None:
    module = nm.hvp_module(cubes, nm.spec(3), entry_points=("update", "apply_into")).compile()
    module.entry("update")(np.ones(3, np.float32))
    for dtype in GIVEN:
        v, out = np.ones(3, np.float32), np.zeros(3, dtype)
        if dtype == "float32":
            module.entry("apply_into")(v, out)
            assert out.tolist() == [6, 6, 6]
            continue
        with pytest.raises(DtypeError, match=rf"out requires float32\[3\], got {dtype}"):
            module.entry("apply_into")(v, out)


@pytest.mark.parametrize("given", GIVEN)
def test_jit_is_compiled_for_the_dtype_that_it_meets(given: str) -> None:
    for call in (nm.jit(lambda x: x), nm.vmap(lambda x: x), nnp.ravel):
        assert call(vector(given)).dtype == given
        assert call(vector(given)).tolist() == vector(given).tolist()


# ---------------------------------------------------------------- Python scalars

SCALARS: list[tuple[Any, str]] = [
    (True, ""),
    (3, "bool"),
    (-1, "bool uint8"),
    (300, "bool int8 uint8"),
    (2**40, "bool int8 uint8 int32 float16"),
    (2.5, "bool int8 uint8 int32"),
    (1e300, "bool int8 uint8 int32 float16 float32 complex64"),
    (float("inf"), "bool int8 uint8 int32"),
    (1j, "bool int8 uint8 int32 float16 float32 float64"),
]


@pytest.mark.parametrize("wanted", ["bool", "int8", "uint8", "int32", "float16", "float32", "float64", "complex64"])
def test_scalars_have_the_kind_and_the_range(tmp_path: Path, wanted: str) -> None:
    compiled = nm.trace(lambda x: x, nm.spec((), wanted), name="f").lower().compile()
    loaded = nm.load(compiled.save(tmp_path / "f.vmfb"))
    for value, refused in SCALARS:
        for call in (compiled, loaded["f"]):
            if wanted not in refused.split():
                assert complex(call(value)) == complex(np.array(value, wanted))
                continue
            with pytest.raises(DtypeError, match=r"got (a Python|.*out of its range)"):
                call(value)


def test_scalars_of_calls_have_the_default_dtypes() -> None:
    for call in (nm.jit(lambda x: x), nm.vmap(lambda x: x, None, axis_size=1), lambda x: nm.vjp(lambda y: y, x)[0]):
        for bad in (2**31, -(2**31) - 1, 1e39, 1e39j, 2**2000):
            with pytest.raises(DtypeError, match=r"a Python scalar requires the range of \w+, got .*out of its range"):
                call(bad)


def test_scalar_tangents_are_not_cut() -> None:
    for call in (
        lambda t: nm.jvp(lambda x: x * x, (3.0,), (t,)),
        lambda t: nm.linearize(lambda x: x * x, 3.0)[1](t),
        lambda t: nm.vjp(lambda x: x * x, 3.0)[1](t),
        lambda t: nm.jit(lambda x: nm.jvp(cubes, (x,), (t,)))(3.0),
    ):
        call(1)  # an integer is a float
        with pytest.raises(DtypeError, match=r"a (co)?tangent requires"):
            call(1j)


def test_stored_values_have_the_kind_of_the_array() -> None:
    for dtype, value in (("f4", 1j), ("f4", np.array(1j)), ("i4", 1.5), ("i4", np.array(1.5)), ("?", 2), ("i4", 1j)):
        x = nnp.zeros(3, dtype)
        for put in (x.at[0].set, x.at[np.array([0, 1])].add, x.at[:2].multiply):
            with pytest.raises(DtypeError, match=r"x\.at\[\.\.\.\] requires values of a dtype of the kind of"):
                put(value)
    for dtype, value in (("i4", 2**40), ("u1", -1), ("u1", 256)):
        with pytest.raises(DtypeError, match="a constant requires a number of"):
            nnp.zeros(3, dtype).at[0].set(value)
        with pytest.raises(DtypeError, match="a constant requires a number of"):
            nnp.full(3, value, dtype)
    with pytest.raises(DtypeError, match="a constant requires a number of float32, got 1j"):
        nnp.full(3, 1j, "f4")
    assert nnp.zeros(3, "f4").at[0].set(2**40).tolist() == [2.0**40, 0, 0]


def test_scalars_of_imported_functions() -> None:
    for kind, good, bad in (
        ("i32", (True, 2), (1.5, 1j, 2**40, np.float64(1.5), np.int64(2))),
        ("f32", (2, 1.5), (1j, np.float64(1.5))),
    ):
        f = nm.from_stablehlo(f"func.func @f(%x: tensor<{kind}>) -> tensor<{kind}> {{ return %x : tensor<{kind}> }}")
        for call in (lambda x, f=f: nm.jit(lambda: f(x))(), f):
            for value in good:
                assert call(value) == value
            for value in bad:
                with pytest.raises(DtypeError):
                    call(value)


def test_lengths_are_integers() -> None:
    assert nm.spec(np.int64(2)).shape == nm.spec([2]).shape == nm.spec(np.array([2])).shape == (2,)
    for shape in (2.0, (2.5,), ("2",), None, [1, None]):
        with pytest.raises(ShapeError, match="spec requires lengths that are integers, got"):
            nm.spec(shape)  # type: ignore[arg-type]
    for repeats in (2.5, [1.0, 2.0, 1.0]):
        with pytest.raises(DtypeError, match="repeat requires integers as repeats, got float64"):
            nnp.repeat(np.arange(3), repeats)
