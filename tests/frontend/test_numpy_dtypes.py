"""Promotion, default dtypes, and errors of the array namespace."""

import itertools

import numpy as np
import pytest
from support import default_dtypes

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir.base.errors import ConcretizationError, DtypeError, ShapeError, TraceError

DTYPES = [np.dtype(d) for d in "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()]


def dtype_of(f, *dtypes):
    out = []
    nm.trace(lambda *xs: out.append(f(*xs)) or out[0], *(nm.spec((2,), d) for d in dtypes))
    return out[0].dtype


def test_arrays_promote_by_numpys_table_where_new_arrays_have_64_bits():
    with default_dtypes(np.float64, np.int64):
        for a, b in itertools.product(DTYPES, repeat=2):
            assert dtype_of(jnp.add, a, b) == np.promote_types(a, b), (a, b)


def test_integers_take_the_floating_point_beside_them_where_new_arrays_have_32_bits():
    for a, b in itertools.product(DTYPES, repeat=2):
        floats = [d for d in (a, b) if d.kind in "fc"]
        want = floats[0] if len(floats) == 1 else np.promote_types(a, b)
        assert dtype_of(jnp.add, a, b) == jnp.promote_types(a, b) == jnp.result_type(a, b) == want, (a, b)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("integer", ["bool", "uint8", "int32"])
def test_integers_meet_floating_point_as_in_jax(name, integer):
    jax = pytest.importorskip("jax")
    functions = (
        lambda np, x, n: x * n,
        lambda np, x, n: np.where(n > 1, x, n),
        lambda np, x, n: np.concatenate([n, x]),
        lambda np, x, n: x @ n,
        lambda np, x, n: np.polyadd(x, n),
        lambda np, x, n: n / x,
        lambda np, x, n: n**x,
        lambda np, x, n: np.einsum("i,i", x, n),
    )
    with jax.enable_x64(False):
        for f in functions:
            x, n = jax.numpy.ones(3, name), jax.numpy.ones(3, integer)
            want = jax.eval_shape(lambda x, n: f(jax.numpy, x, n), x, n).dtype  # noqa: B023
            assert nm.eval_shape(lambda x, n: f(jnp, x, n), jnp.ones(3, name), jnp.ones(3, integer)).dtype == want  # noqa: B023


def test_powers_of_integer_matrices_and_rint_have_numpys_kinds():
    a = np.array([[1, 2**31], [0, 1]])
    for n in (0, 1, 3):
        got = np.asarray(jnp.linalg.matrix_power(a, n))
        assert got.dtype == a.dtype
        assert (got == np.linalg.matrix_power(a, n)).all()
    assert jnp.linalg.matrix_power(a, -1).dtype == jnp.rint(a).dtype == np.float32
    assert jnp.sort_complex(a).dtype == np.complex64


@pytest.mark.parametrize("scalar", [True, 2, 2.5, 1j])
def test_python_scalars_are_weak(scalar):
    for dtype in DTYPES:
        want = np.result_type(dtype, scalar)
        if dtype.kind in "biu" and isinstance(scalar, float):
            want = np.dtype(np.float32)  # the default float, where NumPy has float64 (for bool and integers)
        if dtype.kind in "biu" and isinstance(scalar, complex):
            want = np.dtype(np.complex64)
        if dtype.kind == "b" and type(scalar) is int:
            want = np.dtype(np.int32)
        assert dtype_of(lambda x: x * scalar, dtype) == want, dtype


def test_bfloat16():
    assert dtype_of(lambda x: x * 2.5 + 1, "bf16").name == "bfloat16"
    assert dtype_of(jnp.add, "bf16", "f32") == np.float32
    with nm.enable_x64():  # NumPy has no dtype in which the two meet
        assert dtype_of(lambda x: x * np.arange(1) + np.ones(1, "uint64"), "bf16").name == "bfloat16"
    assert jnp.finfo(jnp.bfloat16).bits == 16
    assert jnp.ones(2, jnp.bfloat16).dtype.name == "bfloat16"


def test_default_dtypes():
    def made():
        return [
            a.dtype.name
            for a in (
                jnp.zeros(2),
                jnp.arange(3),
                jnp.array([1, 2]),
                jnp.array([1.0]),
                jnp.sin(np.arange(2)),
                jnp.arange(2) / 2,
                jnp.argmax(np.zeros(2)),
                jnp.full(2, 1.5),
                jnp.array([1j]),
            )
        ]

    assert made() == ["float32", "int32", "int32", "float32", "float32", "float32", "int32", "float32", "complex64"]
    with default_dtypes(np.float64, np.int64):
        assert made() == ["float64", "int64", "int64", "float64", "float64", "float64", "int64", "float64", "complex128"]


def test_numpy_arrays_keep_their_dtype():
    assert jnp.asarray(np.arange(3)).dtype == np.int64
    assert jnp.sum(np.ones(3)).dtype == np.float64
    assert jnp.sum(np.ones(3, np.int8)).dtype == np.int32
    assert jnp.sum(np.ones(3, np.uint8)).dtype == np.uint32
    assert (np.float32(1) + jnp.ones(2)).dtype == np.float32
    assert (np.ones(2) + jnp.ones(2)).dtype == np.float64


def test_numbers_of_numpys_have_32_bits_beside_arrays():
    x, n = jnp.ones(2), jnp.arange(2)
    f = lambda x, n: (x / np.sqrt(2), np.float64(1) + x, n * np.sqrt(2), n + np.int64(1), x * np.complex128(1j))  # noqa: E731
    for got in (f(x, n), nm.jit(f)(x, n)):
        assert [a.dtype.name for a in got] == ["float32"] * 3 + ["int32", "complex64"]
    assert jnp.add(np.float64(1), np.float64(1)).dtype == jnp.sin(np.float64(1)).dtype == np.float64
    assert nm.grad(lambda x: x * 2)(np.float64(1)).dtype == np.float64
    for number in (np.float32(2), np.float64(2)):
        assert (number * jnp.ones(2, "float16")).dtype == (jnp.ones(2, "float16") / number).dtype == np.float32
    with default_dtypes(np.float64, np.int64):
        assert (jnp.ones(2, "float32") / np.sqrt(2)).dtype == np.float64


def test_namespace_of_arrays():
    assert jnp.ones(2).__array_namespace__() is jnp
    with pytest.raises(TypeError, match="unhashable"):
        hash(jnp.ones(2))


MATRIX, CUBE = nm.spec((3, 4)), nm.spec((2, 4, 3))


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x, y: x @ x, ShapeError, r"matmul requires equal inner lengths, got \(3, 4\) and \(3, 4\)(.|\n)*transpose"),
        (lambda x, y: x @ y[0, 0, 0], ShapeError, r"matmul requires operands with axes, got \(3, 4\) and \(\)"),
        (lambda x, y: jnp.concatenate([x, x.T]), ShapeError, r"differ in axis 0 only, got \(3, 4\) and \(4, 3\)"),
        (lambda x, y: jnp.concatenate([]), ShapeError, r"at least one array, got none"),
        (lambda x, y: jnp.stack([x, y]), ShapeError, r"one shape, got \(3, 4\) and \(2, 4, 3\)"),
        (lambda x, y: x.reshape(5, 2), ShapeError, r"same number of elements, got \(3, 4\) \(12\) to \(5, 2\)"),
        (lambda x, y: x.reshape(5, -1), ShapeError, r"\(5, -1\)"),
        (lambda x, y: x + y, ShapeError, r"add requires shapes that broadcast together, got \(3, 4\) and \(2, 4, 3\)"),
        (
            lambda x, y: jnp.einsum("ij,jk->ik", x, x),
            ShapeError,
            r"one size for each letter, got 4 and 3 for 'j'(.|\n)*\(3, 4\) and \(3, 4\)",
        ),
        (lambda x, y: jnp.einsum("ij,jk->ik", x), ShapeError, r"1 operands, got 'ij,jk->ik'"),
        (lambda x, y: jnp.einsum("ijk->ik", x), ShapeError, r"a letter for each axis, got 'ijk->ik' for \(3, 4\)"),
        (lambda x, y: jnp.einsum("ij->ik", x), ShapeError, r"each label of the result once"),
        (lambda x, y: jnp.tensordot(x, y, 1), ShapeError, r"\(3, 4\) and \(2, 4, 3\)"),
        (lambda x, y: x.sum(axis=2), ShapeError, r"sum requires an axis of an array with 2 axes, got 2"),
        (lambda x, y: x.sum(axis=(0, -2)), ShapeError, r"different axes, got \(0, -2\)"),
        (lambda x, y: x.sum(axis="a"), ShapeError, r"integer as axis, got 'a'"),
        (lambda x, y: x.transpose(0), ShapeError, r"all 2 axes"),
        (lambda x, y: jnp.squeeze(x, 0), ShapeError, r"axes of size 1, got axis 0 of shape \(3, 4\)"),
        (lambda x, y: jnp.broadcast_to(x, (3, 5)), ShapeError, r"\(3, 4\)(.|\n)*\(3, 5\)"),
        (lambda x, y: jnp.split(x, 2), ShapeError, r"divides the length 3, got 2"),
        (lambda x, y: jnp.pad(x, -1), ShapeError, r"widths that are not negative, got -1"),
        (lambda x, y: jnp.pad(x, 1, mode="magic"), ShapeError, r"got 'magic'"),
        (lambda x, y: jnp.zeros((-1,)), ShapeError, r"lengths that are not negative, got \(-1,\)"),
        (lambda x, y: jnp.max(x[:0]), ShapeError, r"max requires at least one element, got shape \(0, 4\)"),
        (lambda x, y: x & 1, DtypeError, r"bitwise_and requires integers or truth values, got float32"),
        (lambda x, y: -(x > 0), DtypeError, r"negation requires numbers, got bool"),
        (lambda x, y: jnp.percentile(x * 1j, 50), DtypeError, r"percentile requires real numbers, got complex64"),
        (lambda x, y: jnp.floor(x * 1j), DtypeError, r"floor requires real numbers"),
        (lambda x, y: jnp.arange(3, dtype="i1") + 300, DtypeError, r"Python integer requires the range of int8, got 300"),
        (lambda x, y: jnp.arange(3) ** -2, DtypeError, r"exponent of at least 0 for int32, got -2"),
        (lambda x, y: jnp.array([300], dtype=np.int8), DtypeError, r"range of int8, got 300"),
        (lambda x, y: jnp.arange(x[0, 0]), ConcretizationError, r"concrete bounds"),
        (lambda x, y: jnp.sin("a"), TraceError, r"requires arrays or numbers, got 'a'"),
        (lambda x, y: jnp.where(x > 0), TraceError, r"does not depend on values(.|\n)*give x and y"),
        (lambda x, y: jnp.unique(x), TraceError, r"unique requires a result whose shape"),
    ],
)
def test_errors_name_the_user_line(f, error, message):
    with pytest.raises(error, match=message) as caught:
        nm.trace(f, MATRIX, CUBE)
    assert caught.value.where.filename == __file__


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "bfloat16"])
def test_constants_of_narrow_floats_are_interpreted(name):
    """The bindings of MLIR read none of them."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numbers = np.array([1, 2, -0.5], np.float32).astype(getattr(ml_dtypes, name))
    f = nm.trace(lambda x: x * jnp.asarray(numbers).astype(np.float32), nm.spec(3, "f4")).lower()
    np.testing.assert_array_equal(f.compile(nm.Interpreter())(np.ones(3, np.float32)), [1, 2, -0.5])


@pytest.mark.parametrize(("floating", "integer"), [("float32", "int32"), ("float64", "int64")])
def test_pythons_types_are_the_default_dtypes(floating, integer):
    with default_dtypes(np.dtype(floating), np.dtype(integer)):
        made = [jnp.zeros(2, float), jnp.arange(3, dtype=float), jnp.arange(3).astype(float), jnp.array([1], float)]
        assert {a.dtype.name for a in made} == {floating, jnp.dtype(float).name, nm.spec(3, float).dtype.name}
        made = [jnp.zeros(2, int), jnp.ones(2).astype(int), jnp.linspace(0, 4, 3, dtype=int), jnp.full(2, 1, dtype=int)]
        assert {a.dtype.name for a in made} == {integer}
        assert jnp.zeros(2, complex).dtype == np.promote_types(floating, "complex64")
        assert (jnp.zeros(2, bool).dtype, jnp.zeros(2, "float64").dtype) == (np.bool_, np.float64)


@pytest.mark.parametrize("name", ["float32", "complex64"])
def test_functions_of_matrices_keep_their_precision(name):
    linalg, a = nm.jax.scipy.linalg, np.array([[4, 1, 0], [1, 3, 0.5], [0, 0.5, 2]], name)
    results = [
        linalg.sqrtm(a),
        linalg.funm(a, jnp.exp),
        *linalg.schur(a),
        *linalg.rsf2csf(*linalg.schur(a)),
        linalg.solve_sylvester(a, a, a),
        linalg.expm(a),
        *linalg.hessenberg(a, calc_q=True),
        linalg.convolution_matrix(a[0], 3),
    ]
    assert {x.dtype.name for x in results} <= {name, "complex64"}
    made = [linalg.hilbert(3), linalg.pascal(3), linalg.helmert(3), linalg.invhilbert(2), linalg.hadamard(2), linalg.dft(3)]
    assert [x.dtype.name for x in made] == ["float32"] * 4 + ["int32", "complex64"]
    with nm.enable_x64():
        assert [linalg.hadamard(2, np.float64).dtype, linalg.dft(2, dtype=np.complex128).dtype] == [np.float64, np.complex128]
