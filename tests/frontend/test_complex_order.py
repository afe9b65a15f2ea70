"""Complex numbers in order: NumPy's order in every function that has one, and JAX's derivatives."""

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError
from nabla_mlir.interpreter import interpreted

NAN = complex(np.nan, np.nan)
TIES = np.array([[3 + 1j, 1 + 2j, 1 - 5j, 3 + 1j], [0, -1j, -0.0 + 1j, 2], [1 - 5j, 1 - 5j, 0, 7j]])
ABSENT = np.array(
    [3 + 1j, 1, complex(2, np.nan), NAN, complex(np.nan, 1), np.inf, complex(-np.inf, np.inf), complex(np.nan, -2), -1j]
)

SAME_AS_NUMPY = {
    "sort": lambda np, x: np.sort(x),
    "sort along": lambda np, x: np.sort(x, 0),
    "sort flat": lambda np, x: np.sort(x, None),
    "argsort": lambda np, x: np.argsort(x, stable=True),
    "argsort along": lambda np, x: np.argsort(x, 0, stable=True),
    "max": lambda np, x: np.max(x),
    "max along": lambda np, x: np.max(x, 0, keepdims=True),
    "min": lambda np, x: x.min(),
    "min along": lambda np, x: np.min(x, -1),
    "axes": lambda np, x: np.max(x[None], (0, -1)),
    "initial": lambda np, x: np.max(x, initial=2 + 9j),
    "where": lambda np, x: np.min(x, initial=0, where=x.real > 1),
    "argmax": lambda np, x: np.argmax(x),
    "argmax along": lambda np, x: np.argmax(x, 0),
    "argmin": lambda np, x: x.argmin(-1),
    "maximum": lambda np, x: np.maximum(x, np.flip(x)),
    "minimum": lambda np, x: np.minimum(x, np.flip(x)),
    "fmax": lambda np, x: np.fmax(x, np.flip(x)),
    "fmin": lambda np, x: np.fmin(x, np.flip(x)),
    "less": lambda np, x: x < np.flip(x),
    "less_equal": lambda np, x: x <= np.flip(x),
    "greater": lambda np, x: x > np.flip(x),
    "greater_equal": lambda np, x: x >= np.flip(x),
    "nanmax": lambda np, x: np.nanmax(x),
    "nanmin": lambda np, x: np.nanmin(x),
    "nanargmax": lambda np, x: np.nanargmax(x),
    "nanargmin": lambda np, x: np.nanargmin(x),
    "left": lambda np, x: np.searchsorted(np.sort(x, None), x),
    "right": lambda np, x: np.searchsorted(np.sort(x, None), x, "right"),
    "lexsort": lambda np, x: np.lexsort((x.real, np.flip(x))),
    "sort_complex": lambda np, x: np.sort_complex(x),
    "running": lambda np, x: np.maximum.accumulate(x, 0),
    "median": lambda np, x: np.median(x),
    "median along": lambda np, x: np.median(x, 0, keepdims=True),
    "nanmedian": lambda np, x: np.nanmedian(x),
    "nanmedian along": lambda np, x: np.nanmedian(x, -1),
    "clip": lambda np, x: np.clip(x, -1j, 2 + 1j),
    "clip up": lambda np, x: x.clip(1 + 1j, None),
    "clip down": lambda np, x: np.clip(x, None, np.flip(x)),
    "clip crossed": lambda np, x: np.clip(x, 2, np.flip(x)),
    "clip of reals": lambda np, x: np.clip(x.real, x, 2),
}


ARRAYS = {"ties": TIES, "NaN": ABSENT, "complex64": TIES.astype(np.complex64)}


def check(names, x, run):
    f = nm.trace(lambda x: [SAME_AS_NUMPY[name](nnp, x) for name in names], x, name="f").lower()
    with np.errstate(invalid="ignore"):
        for name, got in zip(names, run(f)(x), strict=True):
            wanted = np.asarray(SAME_AS_NUMPY[name](np, x))
            np.testing.assert_array_equal(np.asarray(got), wanted, err_msg=name)
            assert np.asarray(got).dtype == wanted.dtype or wanted.dtype.kind == "i", name


@pytest.mark.parametrize("kind", ARRAYS)
def test_complex_numbers_are_ordered_as_in_numpy(kind):
    check(list(SAME_AS_NUMPY), ARRAYS[kind], lambda f: lambda x: interpreted(f.module.operation, "f")([x]))


def test_compiled_ones_too():
    check(["sort", "argmax", "maximum", "less", "nanmin"], ABSENT, lambda f: f.compile())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ARRAYS)
def test_all_compiled_ones(kind):
    check(list(SAME_AS_NUMPY), ARRAYS[kind], lambda f: f.compile())


def test_a_long_row_of_few_numbers_is_sorted_stably():
    numbers = np.random.default_rng(5)
    x = numbers.integers(-2, 3, (3, 400)) + 1j * numbers.integers(-2, 3, (3, 400))
    np.testing.assert_array_equal(np.asarray(nnp.argsort(x)), np.argsort(x, stable=True))
    falling = np.asarray(nnp.argsort(x, descending=True))
    np.testing.assert_array_equal(falling, np.argsort(-x, stable=True))
    values, positions = nm.jit(lambda x: nnp.unique(x, return_inverse=True, size=25))(x)
    np.testing.assert_array_equal(np.asarray(values), np.unique(x))
    np.testing.assert_array_equal(np.asarray(values)[np.asarray(positions)], x)


SAME_AS_JAX = {
    "sort": lambda J, x: J.numpy.sort(x, 0),
    "max": lambda J, x: J.numpy.max(x, 0),
    "all": lambda J, x: J.numpy.min(x),
    "maximum": lambda J, x: J.numpy.maximum(x, x[::-1]),
    "minimum": lambda J, x: J.numpy.minimum(x * x, x),
    "reduce_max": lambda J, x: J.lax.reduce_max(x, (0, 1)),
    "reduce_min": lambda J, x: J.lax.reduce_min(x, (1,)),
    "ptp": lambda J, x: J.numpy.ptp(x, 1),
    "lax.max": lambda J, x: J.lax.max(x, 1 - x),
    "reduce": lambda J, x: J.lax.reduce(x, np.complex128(9 + 9j), J.lax.min, (1,)),
    "window": lambda J, x: J.lax.cummax(x, 1),
}


def derivatives(J, f, x, t, u):
    g = lambda x: f(J, x)  # noqa: E731
    y, dy = J.jvp(g, (x,), (t,))
    slope = J.grad(lambda x: ((J.numpy.real(g(x)) ** 2 + J.numpy.imag(g(x)) ** 2) * 0.5).sum())  # JAX loses that of |0|²
    return y, dy, slope(x), J.jvp(slope, (x,), (t,))[1], J.vmap(g)(J.numpy.stack([x, u])), J.vmap(slope)(J.numpy.stack([u, x]))


@pytest.fixture(scope="module")
def derivatives_of_all():
    """Ours and JAX's of each function, compiled as one program."""
    jax = pytest.importorskip("jax")
    numbers = np.random.default_rng(3)
    xs = TIES, *(numbers.normal(size=(2, 3, 4)) + 1j * numbers.normal(size=(2, 3, 4)))
    with jax.enable_x64(True):
        return [
            J.jit(lambda *xs, J=J: {name: derivatives(J, f, *xs) for name, f in SAME_AS_JAX.items()})(*xs) for J in (nm.jax, jax)
        ]


@pytest.mark.slow
@pytest.mark.parametrize("name", SAME_AS_JAX)
def test_derivatives_are_jaxs_also_where_numbers_are_equal(name, derivatives_of_all):
    got, wanted = (results[name] for results in derivatives_of_all)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12, atol=1e-12)


def test_what_has_no_order_is_refused_by_its_own_name():
    calls = {
        "top_k": lambda x: nnp.top_k(x, 1),
        "quantile": lambda x: nnp.quantile(x, 0.5),
        "percentile": lambda x: nnp.percentile(x, 5),
        "nanquantile": lambda x: nnp.nanquantile(x, 0.5),
        "nanpercentile": lambda x: nnp.nanpercentile(x, 5),
        "heaviside": lambda x: nnp.heaviside(x, x),
        "histogram": nnp.histogram,
        "isposinf": nnp.isposinf,
        "isneginf": nnp.isneginf,
    }
    for name, call in calls.items():
        with pytest.raises(DtypeError, match=f"^{name} requires real numbers, got complex128"):
            call(TIES)
    with pytest.raises(nm.errors.ShapeError, match="ptp requires at least one element"):
        nnp.ptp(TIES[:0])


def test_rint_rounds_both_parts_and_packbits_takes_integers():
    np.testing.assert_array_equal(np.asarray(nnp.rint(TIES * 0.5)), np.rint(TIES * 0.5))
    with pytest.raises(DtypeError, match=r"^packbits requires integers or truth values, got complex128"):
        nnp.packbits(TIES)
