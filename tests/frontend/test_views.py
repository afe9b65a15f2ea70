"""Arrays under another dtype beside NumPy's views, and products in a preferred dtype beside JAX's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import ShapeError

pytestmark = pytest.mark.usefixtures("interpreted_in_f64")

ARRAYS = [
    np.arange(16, dtype=np.int8).reshape(2, 8),
    np.arange(8.0).reshape(2, 4),
    np.arange(8).reshape(2, 4) - 3j,
    np.arange(4) > 1,
    np.arange(4, dtype=np.complex64),
]
DTYPES = ("int8", "uint8", "float32", "float64", "complex64", "complex128", "int32")


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_are_those_of_numpy(dtype: str) -> None:
    for x in ARRAYS:
        try:
            wanted = x.view(dtype)
        except ValueError:
            with pytest.raises(ShapeError, match="view requires a last axis of whole elements"):
                nnp.asarray(x).view(dtype)
            continue
        for got in (nnp.asarray(x).view(dtype), nm.jit(lambda x: x.view(dtype))(x)):
            assert got.dtype == wanted.dtype
            assert np.asarray(got).tobytes() == wanted.tobytes()
            assert got.shape == wanted.shape


def test_views_of_complex_numbers_have_derivatives() -> None:
    z = np.array([1.0 + 2j, 3j])
    got = nm.grad(lambda x: (x.view("complex128") ** 2).real.sum())(z.view("float64"))
    np.testing.assert_allclose(got, [2, -4, 0, -6])


def test_elements_by_their_place() -> None:
    x = nnp.asarray(ARRAYS[1])
    assert (x.item(3), x.item(1, 2), x.itemsize) == (3.0, 6.0, 8)
    np.testing.assert_array_equal(x.nonzero(), ARRAYS[1].nonzero())


PRODUCTS: dict[str, Any] = {
    "dot": lambda j, a, b, d: j.dot(a, b, preferred_element_type=d),
    "matmul": lambda j, a, b, d: j.matmul(a, b, preferred_element_type=d),
    "einsum": lambda j, a, b, d: j.einsum("ij,jk->ik", a, b, preferred_element_type=d),
    "tensordot": lambda j, a, b, d: j.tensordot(a, b, 1, preferred_element_type=d),
    "inner": lambda j, a, b, d: j.inner(a, b, preferred_element_type=d),
    "vdot": lambda j, a, b, d: j.vdot(a, b, preferred_element_type=d),
    "vecdot": lambda j, a, b, d: j.vecdot(a, b, preferred_element_type=d),
    "convolve": lambda j, a, b, d: j.convolve(a[0], b[0], preferred_element_type=d),
    "correlate": lambda j, a, b, d: j.correlate(a[0], b[0], preferred_element_type=d),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(("own", "preferred"), [("int8", "int32"), ("bfloat16", "float32"), ("float32", "float64")])
def test_products_have_the_preferred_dtype(name: str, own: str, preferred: str) -> None:
    a, b = (np.random.default_rng(i).integers(-90, 90, (3, 3)) for i in (0, 1))
    got = PRODUCTS[name](nnp, *(nnp.asarray(x).astype(own) for x in (a, b)), preferred)
    wanted = PRODUCTS[name](jnp, *(jnp.asarray(x).astype(own) for x in (a, b)), preferred)
    assert str(got.dtype) == preferred
    np.testing.assert_array_equal(got, wanted)  # sums of these numbers are exact


def test_halves_promote_as_in_jax() -> None:
    assert nnp.promote_types("bfloat16", "float16") == jnp.promote_types("bfloat16", "float16") == np.float32
    halves = [j.ones(2, "bfloat16") + j.ones(2, "float16") for j in (nnp, jnp)]
    assert [x.dtype for x in halves] == [np.float32] * 2


def test_names_of_dtypes_and_types() -> None:
    assert nm.jax.dtypes.canonicalize_dtype(float) == jax.dtypes.canonicalize_dtype(float) == np.float64
    assert nm.jax.dtypes.canonicalize_dtype("int8") == np.int8
    assert nm.jax.dtypes.float0 == jax.dtypes.float0
    assert isinstance(nnp.ones(2), nm.jax.typing.ArrayLike)


def test_what_is_known_is_computed_at_once_in_a_trace() -> None:
    def f(x: Any) -> Any:
        with nm.ensure_compile_time_eval():
            n = int(nnp.sum(np.arange(3)))
        return x * n + nnp.sum(np.arange(3))

    assert float(nm.jit(f)(2.0)) == 9.0
    assert float(nm.jit(nm.grad(f))(2.0)) == 3.0
