"""The requirements of the array API standard, by family; the public suite is run by hand (docs/array_api.md)."""

import copy
import pickle
import time

import numpy as np
import pytest
from support import assert_same, default_dtypes

import nabla_mlir as nm
import nabla_mlir.numpy as xp
from nabla_mlir.base.errors import AxisError, CopyError, DtypeError, IndexingError
from nabla_mlir.runtime.array import Array

pytestmark = pytest.mark.usefixtures("interpreted")


# ---------------------------------------------------------------- the namespace
def test_the_namespace_says_what_it_offers() -> None:
    info = xp.__array_namespace_info__()
    assert xp.__array_api_version__ == "2025.12"
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() in info.devices()
    assert set(info.dtypes(kind="complex floating")) == {"complex64", "complex128"}
    assert len(info.dtypes()) == 13
    assert not info.dtypes(kind=())
    with default_dtypes(np.float64, np.int64):
        assert info.default_dtypes() == {
            "real floating": np.float64,
            "complex floating": np.complex128,
            "integral": np.int64,
            "indexing": np.int64,
        }


@pytest.mark.parametrize("of", [np.float32, "f32", np.dtype(np.float32), np.zeros(2, np.complex64)], ids=str)
def test_limits_are_numbers_of_python(of) -> None:
    limits = xp.finfo(of)
    assert type(limits.eps) is float
    assert limits.eps == 2.0**-23
    assert limits.dtype == np.float32


def test_limits_of_arrays_and_integers() -> None:
    assert xp.finfo(xp.ones(2)).bits == 32
    assert xp.iinfo(xp.asarray([1])).max == 2**31 - 1
    assert xp.can_cast("int32", "float64")
    assert not xp.can_cast(xp.ones(1), xp.int64)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: xp.zeros(2, device=d),
        lambda d: xp.arange(3, device=d),
        lambda d: xp.asarray([1.0], device=d),
        lambda d: xp.fft.fftfreq(4, device=d),
        lambda d: xp.astype(xp.ones(2), xp.int32, device=d),
        lambda d: xp.ones(2).to_device(d),
        lambda d: xp.from_dlpack(np.ones(2), device=d),
    ],
)
def test_results_lie_on_the_device_that_is_named(make) -> None:
    for device in xp.__array_namespace_info__().devices():
        assert make(device).device is device
    assert nm.jit(lambda x: x + xp.sum(make(x.device) + make(device)))(np.ones(2)).shape == (2,)  # in a trace its target decides


def test_several_results_are_tuples() -> None:
    x = xp.ones((2, 3))
    for results in (xp.unstack(x), xp.meshgrid(x[0], x[1]), xp.broadcast_arrays(x, x[0]), xp.nonzero(x)):
        assert type(results) is tuple
    assert xp.broadcast_shapes((2, 1), (3,)) == (2, 3)


@pytest.mark.parametrize("error", [AxisError, ValueError, IndexError])
def test_an_axis_that_is_not_there_is_an_error_of_both_kinds(error) -> None:
    with pytest.raises(error, match="sum requires an axis of an array with 1 axes, got 3"):
        xp.sum(xp.ones(2), axis=3)


def test_arrays_in_another_dtype() -> None:
    for dtype in (np.float32, np.float64, np.int64):
        for x in (np.arange(3), xp.arange(3), [1, 2]):
            assert xp.asarray(x, dtype=dtype).dtype == dtype
        with pytest.raises(CopyError):
            xp.asarray(xp.arange(3, dtype=xp.int8), dtype=dtype, copy=False)


def test_ranges_between_numbers_of_arrays() -> None:
    for bounds in ((np.int64(3),), (xp.asarray(3),), (0, xp.asarray(3), np.int8(1))):
        assert xp.arange(*bounds).tolist() == [0, 1, 2]
    assert xp.arange(xp.asarray(0.0), stop=np.float64(1.0), step=0.5).tolist() == [0.0, 0.5]


def test_rows_of_a_long_array_one_by_one() -> None:
    x = xp.asarray(np.arange(5000.0))
    assert float(min(x)) == 0.0
    assert sum(map(float, x)) == np.arange(5000.0).sum()
    assert all(type(row) is Array and row.shape == (2,) for row in xp.ones((3, 2)))


@pytest.mark.parametrize("size", [0, 1, 5, 64, 65, 128, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_places_in_sorted_vectors(size, dtype) -> None:
    rng = np.random.default_rng(0)
    a, v = np.sort(rng.integers(-9, 9, size).astype(dtype)), rng.integers(-11, 11, (3, 7)).astype(np.float64)
    if dtype is not np.int64 and size > 3:
        a[-2:], a[-3], a[0] = np.nan, np.inf, -np.inf
        v[0, :3] = np.nan, np.inf, -np.inf
    for side in ("left", "right"):
        want = np.searchsorted(a, v, side)
        assert_same(xp.searchsorted(a, v, side=side).astype(np.int64), want)
        assert_same(nm.vmap(lambda v, side=side: xp.searchsorted(a, v, side=side))(v).astype(np.int64), want)


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_order_of_nan_and_zeros(mode) -> None:
    nm.set_execution(mode)
    x = np.array([1.0, -np.nan, np.nan, 0.0, -0.0, np.inf, -np.inf])
    ordered, positions, descending, median, most = nm.jit(
        lambda x: (xp.sort(x), xp.argsort(x).astype(np.int64), xp.sort(x, descending=True), xp.median(x), xp.top_k(x, 3)[0])
    )(x)
    assert_same(ordered, np.sort(x))
    assert_same(positions, np.argsort(x, stable=True))
    assert np.isnan(np.asarray(descending)).tolist() == [True, True, *[False] * 5]
    assert np.isnan(float(median))
    assert_same(most, np.array([np.nan, np.nan, np.inf]))


def test_a_long_vector_is_ordered_at_once() -> None:
    x = np.random.default_rng(0).normal(size=200_000)
    start = time.perf_counter()
    assert_same(xp.sort(x), np.sort(x))
    assert_same(xp.argsort(x, descending=True).astype(np.int64), np.argsort(-x, stable=True))
    assert time.perf_counter() - start < 5  # comparing one by one took minutes


def test_all_drivers_of_this_cpu_are_one_device() -> None:
    one, other = (xp.ones(2, device=device).device for device in xp.__array_namespace_info__().devices())
    assert one == other
    assert len({one, other}) == 1
    assert one != "local-sync"


def test_scalars_among_elements() -> None:
    x = xp.asarray(np.array([1, 2**31 + 5, 2**32 - 1], np.uint32))
    assert xp.isin(x, 2**31 + 5).tolist() == [False, True, False]
    assert xp.isin(2**31 + 5, x).item() is True
    assert xp.isin(np.array([1.5, 2.0]), 2).tolist() == [False, True]
    assert xp.isin(3, 3, invert=True).item() is False


# ---------------------------------------------------------------- values
ZEROS = [(-0.0, 2.0), (0.0, -2.0), (1.0, 0.1), (-1.0, -2.0), (7.5, -2.0), (-7.5, 2.0), (6.0, 3.0), (-6.0, 3.0)]


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_division_agrees_with_numpy_also_in_the_sign_of_zero(name) -> None:
    x, y = np.array(ZEROS).T
    got, want = np.asarray(getattr(xp, name)(x, y)), getattr(np, name)(x, y)
    assert_same(got, want)
    assert np.array_equal(np.signbit(got), np.signbit(want))


def test_division_of_and_by_infinities_is_that_of_numpy() -> None:
    x, y = np.array([np.inf, -np.inf, 1.0, 1.0, -1.0, 5.0, 1e300]), np.array([2.0, 2.0, 0.0, -0.0, 0.0, -np.inf, 1e-300])
    got = np.asarray(xp.floor_divide(x, y))
    with np.errstate(all="ignore"):
        assert_same(got, np.floor_divide(x, y))


@pytest.mark.parametrize("by", [3.0, -3.0])
def test_derivatives_of_a_remainder_at_multiples_of_the_divisor(by) -> None:
    x = np.array([-3.0, -0.0, 0.0, 3.0, 4.0])
    assert nm.grad(lambda x: xp.remainder(x, by).sum())(x).tolist() == [1.0] * 5
    assert nm.grad(lambda x: xp.floor_divide(x, 0.0).sum())(x).tolist() == [0.0] * 5


def test_signs() -> None:
    x = np.array([-0.0, 0.0, np.nan, -np.nan, -3.0, np.inf])
    for dtype in (np.float16, np.float32, np.float64):
        assert_same(xp.signbit(x.astype(dtype)), np.signbit(x.astype(dtype)))
    assert not np.signbit(np.asarray(xp.sign(-0.0)))
    assert_same(xp.sign(np.array([0, 7], np.uint8)), np.array([0, 1], np.uint8))
    assert_same(xp.copysign(1.0, np.array([-np.nan, np.nan])), np.array([-1.0, 1.0]))


def test_next_numbers() -> None:
    x, y = np.array([1.0, 0.0, -2.0, np.inf]), np.array([2.0, -1.0, -2.0, 0.0])
    assert_same(xp.nextafter(x, y), np.nextafter(x, y), 0)
    assert nm.grad(lambda x: xp.nextafter(x, y[:1]).sum())(x[:1]).tolist() == [1.0]


def test_expm1_of_complex_numbers() -> None:
    z = np.array([0, 1 + 2j, 1e-9 + 0j, -3 - 1j])
    assert_same(xp.expm1(z), np.expm1(z))
    total = lambda z: xp.expm1(z).sum()  # noqa: E731
    first = nm.grad(total, holomorphic=True)
    assert_same(first(z), np.exp(z))
    assert_same(nm.grad(lambda z: first(z).sum(), holomorphic=True)(z), np.exp(z))
    inf, nan = np.inf, np.nan
    z = np.array([complex(inf, 0), complex(-inf, inf), complex(inf, nan), complex(nan, 0)])
    assert_same(xp.expm1(z), np.array([complex(inf, 0), -1, complex(inf, nan), complex(nan, 0)]))


def test_tanh_of_complex_numbers() -> None:
    z = np.array([0.5 - 1j, 2j, -3 + 0.1j])
    assert_same(xp.tanh(z), np.tanh(z))
    assert_same(nm.grad(lambda z: xp.tanh(z).sum(), holomorphic=True)(z), 1 - np.tanh(z) ** 2)
    limits = np.asarray(xp.tanh(np.array([complex(np.inf, 7.7e153), complex(np.inf, -2), complex(-np.inf, 2)])))
    assert limits.real.tolist() == [1.0, 1.0, -1.0]
    assert np.signbit(limits.imag).tolist() == [False, True, False]


def test_lists_of_integers_are_exact() -> None:
    assert xp.asarray([2**63 + 1, 1], dtype=xp.uint64).tolist() == [2**63 + 1, 1]
    with pytest.raises(DtypeError, match="asarray requires integers in the range of int32"):
        xp.asarray([2**63 + 1, 1])


def test_rounding_of_complex_numbers_and_steps_of_arrays() -> None:
    z = np.array([1.26 - 2.5j, 0.5 + 1.5j])
    assert_same(xp.round(z), np.round(z))
    assert_same(xp.round(z, 1), np.round(z, 1))
    x = np.arange(3.0)
    assert_same(xp.repeat(x, xp.asarray([0, 2, 1])), np.repeat(x, [0, 2, 1]))


def test_eigenvalues_of_general_matrices() -> None:
    a = np.random.default_rng(0).normal(size=(2, 3, 3))
    values, vectors = map(np.asarray, xp.linalg.eig(a))
    assert_same(a @ vectors, vectors * values[:, None])
    assert_same(xp.linalg.eigvals(a), np.linalg.eigvals(a).astype(complex))
    # The sum of the squares of eigenvalues is the trace of a @ a, to second order.
    f, g = lambda a: xp.real(xp.sum(xp.linalg.eigvals(a) ** 2)), lambda a: xp.trace(a @ a)
    assert_same(nm.grad(f)(a[0]), nm.grad(g)(a[0]), 1e-8)
    assert_same(nm.hvp(f)(a[0], a[1]), nm.hvp(g)(a[0], a[1]), 1e-8)
    assert_same(nm.vmap(xp.linalg.eigvals)(a), xp.linalg.eigvals(a))


@pytest.mark.parametrize("shapes", [((0, 0), (0,)), ((0, 0), (0, 2)), ((0, 2, 2), (2,)), ((2, 2), (2, 0))])
def test_systems_without_elements(shapes) -> None:
    a, b = (np.ones(shape) for shape in shapes)
    want = np.linalg.solve(a, b[..., None])[..., 0] if b.ndim == 1 else np.linalg.solve(a + np.eye(a.shape[-1]), b)
    assert_same(xp.linalg.solve(a, b), want)


def test_a_diagonal_far_away() -> None:
    assert_same(xp.eye(2, k=2**40), np.eye(2, k=5).astype(np.float32))
    assert_same(xp.tril(np.ones((2, 2)), k=-(2**40)), np.zeros((2, 2)))


# ---------------------------------------------------------------- arrays and other systems
def test_copies_of_arrays() -> None:
    x, host = xp.arange(3.0), np.arange(3.0)
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=False) is x
    assert xp.asarray(x, copy=True) is not x
    assert xp.from_dlpack(x) is x
    assert xp.from_dlpack(x, copy=True) is not x
    mine = xp.asarray(host)
    host[0] = 5.0
    assert mine.tolist() == [0.0, 1.0, 2.0]
    for numbers in ([1.0], host.astype(np.float32)[::2], x):
        with pytest.raises(CopyError, match="asarray requires memory that it can share for copy=False"):
            xp.asarray(numbers, xp.int32, copy=False)


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (2, 0)])
def test_dlpack(version) -> None:
    x = xp.arange(4.0)
    for choice in (None, True, False):
        x.__dlpack__(max_version=version, copy=choice, dl_device=(1, 0))
    assert np.from_dlpack(x).tolist() == x.tolist()
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))


NUMPY = [
    np.sum,
    np.prod,
    np.mean,
    np.var,
    np.std,
    np.max,
    np.min,
    np.any,
    np.all,
    np.cumsum,
    np.argmax,
    np.round,
    np.ptp,
    np.trace,
    np.squeeze,
    np.transpose,
    np.median,
]


@pytest.mark.parametrize("f", NUMPY, ids=lambda f: f.__name__)
def test_functions_of_numpy_take_our_arrays(f) -> None:
    host = np.random.default_rng(0).normal(size=(2, 3))
    np.testing.assert_allclose(np.asarray(f(Array.from_numpy(host))), f(host))


def test_functions_of_numpy_with_arguments() -> None:
    host = np.random.default_rng(0).normal(size=(2, 3))
    x = Array.from_numpy(host)
    assert_same(np.sum(x, axis=1, keepdims=True), np.sum(host, axis=1, keepdims=True))
    assert_same(np.var(x, axis=0, ddof=1, dtype="f4"), np.var(host, axis=0, ddof=1, dtype="f4"))
    with pytest.raises(TypeError, match="sum requires out=None"):
        np.sum(x, axis=0, out=np.zeros(3))


def test_arrays_are_objects_of_python() -> None:
    x = xp.asarray(2.5)
    assert f"{x:.3f}" == "2.500"
    assert f"{x}" == str(x)
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    for other in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert other.item() == 2.5
        assert other is not x
    assert [float(row) for row in xp.arange(2.0)] == [0.0, 1.0]


@pytest.mark.parametrize("index", [True, False, np.array(True), (slice(None), True, 1), (..., False), (None, True, 0)], ids=str)
def test_a_truth_value_is_an_index_with_an_axis_of_its_own(index) -> None:
    host = np.arange(6.0).reshape(2, 3)
    assert_same(xp.asarray(host)[index], host[index])
    assert_same(nm.jit(lambda x: x[index])(host), host[index])


def test_masks_of_another_length() -> None:
    host = np.arange(6.0).reshape(2, 3)
    assert xp.asarray(host)[np.zeros((0, 3), bool)].shape == (0,)
    with pytest.raises(IndexingError, match="a mask as long as the axes it masks, got shape"):
        xp.asarray(host)[np.zeros(3, bool)]


def test_where_there_is_a_kind_that_does_not_fit() -> None:
    with pytest.raises(DtypeError, match="nextafter requires real numbers"):
        xp.nextafter(1j, 2.0)


@pytest.mark.parametrize("size", [3e30, 2e-30, complex(5e16, 1.8e19), 1.0])
def test_qr_of_numbers_whose_squares_are_no_numbers(size) -> None:
    a = np.array([[1.0, 2.0], [3.0, -1.0]], np.complex64 if isinstance(size, complex) else np.float32) * size
    q, r = map(np.asarray, xp.linalg.qr(a))
    np.testing.assert_allclose(q @ (r / abs(size)), a / abs(size), rtol=1e-5)
    assert_same(q.conj().T @ q, np.eye(2, dtype=a.dtype))


@pytest.mark.parametrize("large", [1.5e135, 1e300])
def test_qr_of_columns_of_far_sizes(large) -> None:
    a = np.array([[0, 0], [2j, large * 1j]])
    q, r = map(np.asarray, xp.linalg.qr(a))
    np.testing.assert_allclose(np.abs(r), [[2, large], [0, 0]], rtol=1e-12)
    np.testing.assert_allclose(np.conj(q).T @ q, np.eye(2), atol=1e-12)
