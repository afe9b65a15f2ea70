"""Functions of NumPy: each case is an expression in a namespace, run in NumPy's and in ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from function_laws import agree, check_derivatives, check_maps

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors

RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4))
Y = RNG.normal(size=(3, 4))
V = RNG.normal(size=5)
W = RNG.normal(size=3)
P = np.abs(RNG.normal(size=(3, 4))) + 0.5
G = np.array([-1.0, 0.25, 0.5, 2.0])  # in increasing order
IDS = np.array([2, 0, 1, 2])
Z = V + 1j * RNG.normal(size=5)
HOLES = np.where(X > 0.6, np.nan, X)
SQUARE = RNG.normal(size=(3, 3)) + 3 * np.eye(3)

# What is differentiated and mapped: arrays of floating point.
SMOOTH: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "quantile": (lambda m, x: m.quantile(x, 0.3, axis=1), [X]),
    "quantile_several": (lambda m, x: m.quantile(x, np.array([0.2, 0.75]), axis=0), [X]),
    "quantile_keepdims": (lambda m, x: m.quantile(x, np.array([[0.2, 0.75]]), axis=1, keepdims=True), [X]),
    "quantile_of_places": (lambda m, x, q: m.quantile(x, q), [X, np.array([0.21, 0.68])]),
    "percentile": (lambda m, x: m.percentile(x, 35), [X]),
    "percentile_methods": (
        lambda m, x: [m.percentile(x, 35, axis=1, method=k) for k in ("lower", "higher", "midpoint", "nearest")],
        [X],
    ),
    "nanquantile": (lambda m, x: m.nanquantile(x, np.array([0.3, 0.5]), axis=1), [HOLES]),
    "nanpercentile": (lambda m, x: m.nanpercentile(x, 40.0), [HOLES]),
    "nanmedian": (lambda m, x: m.nanmedian(x, axis=0), [HOLES]),
    "median": (lambda m, x: m.median(x, axis=0), [X]),
    "nansum": (lambda m, x: m.nansum(x, axis=1), [HOLES]),
    "nanprod": (lambda m, x: m.nanprod(x, axis=1), [HOLES]),
    "nanmean": (lambda m, x: m.nanmean(x, axis=1), [HOLES]),
    "nanvar": (lambda m, x: m.nanvar(x, axis=1, ddof=1), [HOLES]),
    "nanstd": (lambda m, x: m.nanstd(x, axis=1), [HOLES]),
    "nanmax": (lambda m, x: m.nanmax(x, axis=1), [HOLES]),
    "nanmin": (lambda m, x: m.nanmin(x), [HOLES]),
    "nancumsum": (lambda m, x: m.nancumsum(x, axis=1), [HOLES]),
    "nancumprod": (lambda m, x: m.nancumprod(x), [HOLES]),
    "var_where": (lambda m, x: m.var(x, axis=1, where=np.array([True, False, True, True])), [X]),
    "std_ddof": (lambda m, x: m.std(x, 0, None, ddof=1, keepdims=True), [X]),
    "average_returned": (lambda m, x, w: m.average(x, 0, w, returned=True), [X, np.abs(W) + 1]),
    "cov": (lambda m, x: m.cov(x), [X]),
    "cov_two": (lambda m, x, y: m.cov(x, y, rowvar=False, bias=True), [X, Y]),
    "cov_weights": (
        lambda m, x, w: m.cov(x, fweights=np.array([1, 2, 1, 3]), aweights=w, ddof=1),
        [X, np.array([0.5, 1.0, 2.0, 1.5])],
    ),
    "corrcoef": (lambda m, x: m.corrcoef(x), [X]),
    "histogram_weights": (lambda m, w: m.histogram(np.array([0.5, 1.5, 1.7, 3.0]), 3, (0.0, 3.0), weights=w), [G]),
    "bincount_weights": (lambda m, w: m.bincount(IDS, weights=w, minlength=4), [G]),
    "interp": (lambda m, x, f: m.interp(x, G, f), [np.array([-2.0, -0.3, 0.3, 0.6, 5.0]), W.repeat(2)[:4]]),
    "interp_ends": (lambda m, x: m.interp(x, G, G**2, left=-7.0, right=9.0), [np.array([-2.0, 0.3, 5.0])]),
    "interp_period": (lambda m, x: m.interp(x, np.array([3.0, 0.5, 1.0]), np.array([1.0, 4.0, 2.0]), period=3.5), [V]),
    "trapezoid": (lambda m, x: m.trapezoid(x, dx=0.5), [X]),
    "trapezoid_places": (lambda m, y, x: m.trapezoid(y, x, axis=1), [X, G]),
    "trapezoid_grid": (lambda m, y, x: m.trapezoid(y, x, axis=0), [X, Y]),
    "gradient": (lambda m, x: m.gradient(x, 0.5, axis=1), [X]),
    "gradient_all": (lambda m, x: m.gradient(x), [X]),
    "ediff1d": (lambda m, x: m.ediff1d(x, to_end=x[0], to_begin=np.array([1.0, 2.0])), [V]),
    "unwrap": (lambda m, x: m.unwrap(x), [np.array([0.0, 3.0, 6.5, -1.0, 0.5])]),
    "convolve": (lambda m, a, v: [m.convolve(a, v, mode) for mode in ("full", "same", "valid")], [V, W]),
    "convolve_short_first": (lambda m, a, v: m.convolve(a, v), [W, V]),
    "correlate": (lambda m, a, v: [m.correlate(a, v, mode) for mode in ("full", "same", "valid")], [V, W]),
    "correlate_short_first": (lambda m, a, v: [m.correlate(a, v, mode) for mode in ("full", "same", "valid")], [W, V]),
    "polyval": (lambda m, p, x: m.polyval(p, x), [W, X]),
    "polyadd": (lambda m, a, b: [m.polyadd(a, b), m.polysub(b, a), m.polymul(a, b)], [V, W]),
    "polydiv": (lambda m, a, b: m.polydiv(a, b)[0], [V, W]),
    "polyder": (lambda m, p: [m.polyder(p), m.polyder(p, 2), m.polyint(p), m.polyint(p, 2, [1.0, 2.0])], [V]),
    "poly": (lambda m, x: m.poly(x), [W]),
    "vander": (lambda m, x: [m.vander(x), m.vander(x, 2, increasing=True)], [W]),
    "polyfit": (lambda m, x, y: m.polyfit(x, y, 2), [V, V[::-1] * 2]),
    "polyfit_weights": (lambda m, y: m.polyfit(G, y, 1, w=np.array([1.0, 2.0, 1.0, 0.5]), cov="unscaled"), [G * G]),
    "append": (lambda m, x, y: [m.append(x, y), m.append(x, y, 0)], [X, Y]),
    "block": (lambda m, x, y: m.block([[x, y], [y, x]]), [X, Y]),
    "resize": (lambda m, x: [m.resize(x, (2, 9)), m.resize(x, (2, 2))], [X]),
    "delete": (lambda m, x: [m.delete(x, 1, 0), m.delete(x, [0, 3], 1), m.delete(x, slice(0, 3))], [X]),
    "insert": (lambda m, x, w: [m.insert(x, 1, w, 1), m.insert(x, [0, 3], 2.0, 1), m.insert(w, [1, 1], w[:2])], [X, W]),
    "compress": (lambda m, x: [m.compress(np.array([True, False, True]), x, 0), m.extract(X > 0, x)], [X]),
    "choose": (lambda m, x, y: m.choose(np.array([0, 1, 1, 0]), [x, y]), [X, Y]),
    "partition": (lambda m, x: m.sort(m.partition(x, 2)), [X]),
    "diagflat": (lambda m, x: m.diagflat(x, 1), [W]),
    "rollaxis": (lambda m, x: [m.rollaxis(x, 1), m.rollaxis(x, 0, 2)], [X]),
    "hsplit": (lambda m, x: [*m.hsplit(x, 2), *m.vsplit(x, 3), *m.dsplit(x[..., None], 1)], [X]),
    "matvec": (lambda m, x, v: [m.matvec(x, v), m.vecmat(x[:, 0], x)], [X, G]),
    "linspace": (lambda m, a, b: m.linspace(a, b, 4, axis=1, retstep=True), [W, W * 2]),
    "geomspace": (lambda m, a: m.geomspace(a, 10.0, 4), [np.abs(W)]),
    "logspace": (lambda m, a: m.logspace(a, 1.0, 4, base=2.0), [W]),
    "lstsq": (lambda m, a, b: m.linalg.lstsq(a, b)[0], [X.T, G]),
    "lstsq_wide": (lambda m, a, b: m.linalg.lstsq(a, b, rcond=1e-10)[0], [X, X[:, :2]]),
    "multi_dot": (lambda m, a, b, c: m.linalg.multi_dot([a, b, c]), [W, X, G]),
    "tensorsolve": (
        lambda m, a, b: m.linalg.tensorsolve(a, b),
        [np.eye(6).reshape(2, 3, 6) + 0.1 * RNG.normal(size=(2, 3, 6)), X[:2, :3]],
    ),
    "tensorinv": (lambda m, a: m.linalg.tensorinv(a, 1), [SQUARE]),
    "piecewise": (lambda m, x: m.piecewise(x, [x < 0, x > 1], [lambda v: v * v, 3.0, lambda v: -v]), [X]),
    "apply_along_axis": (lambda m, x: [m.apply_along_axis(lambda v: v * v[0], d, x) for d in (0, 1)], [X]),
    "apply_over_axes": (lambda m, x: m.apply_over_axes(m.sum, x, [0, 1]), [X]),
    "vectorize": (lambda m, x, v: m.vectorize(lambda a, b: (a * b).sum(), signature="(n),(n)->()")(x, v), [X, G]),
    "modf": (lambda m, x: m.modf(x), [X]),
    "ldexp": (lambda m, x: m.ldexp(x, np.array([1, -2, 0, 3])), [X]),
    "frexp": (lambda m, x: m.frexp(x)[0], [X * 10]),
    "nan_to_num": (lambda m, x: m.nan_to_num(x, nan=2.0), [HOLES]),
    "angle_deg": (lambda m, x: m.angle(x + 1j, deg=True), [X]),
    "fill_diagonal": (lambda m, x, w: _copied(m, "fill_diagonal", x, w), [X, W]),
    "put": (lambda m, x, w: _copied(m, "put", x, np.array([0, 5, 7]), w), [X, W]),
    "place": (lambda m, x, w: _copied(m, "place", x, X > 0, w), [X, W]),
    "put_along_axis": (lambda m, x, w: _copied(m, "put_along_axis", x, np.array([[1], [0], [3]]), w[:, None], 1), [X, W]),
}

# What has no derivative, or none to speak of.
WHOLE: dict[str, Callable[[Any], Any]] = {
    "counts": lambda m: [m.bincount(IDS), m.bincount(IDS, minlength=6), m.digitize(V, G), m.digitize(V, G[::-1], right=True)],
    "histogram": lambda m: m.histogram(X, 4),
    "histogram_density": lambda m: m.histogram(V, G, density=True),
    "histogram2d": lambda m: m.histogram2d(V, V[::-1], [2, 3]),
    "histogramdd": lambda m: m.histogramdd(X[:, :3], 2, [(-2, 2)] * 3),
    "edges": lambda m: [m.histogram_bin_edges(X, 3), m.histogram_bin_edges(np.ones(3), 2)],
    "tril_indices": lambda m: [m.tril_indices(3), m.tril_indices(2, 1, 4), m.triu_indices(3, -1), m.triu_indices_from(X)],
    "diag_indices": lambda m: [
        m.diag_indices(3),
        m.diag_indices_from(SQUARE),
        m.tril_indices_from(X),
        m.mask_indices(3, m.triu, 1),
    ],
    "indices": lambda m: [m.indices((2, 3)), m.indices((2, 3), sparse=True), m.ix_([0, 2], [1, 3])],
    "unravel_index": lambda m: [m.unravel_index(IDS, (2, 3)), m.ravel_multi_index((IDS[:2] % 2, IDS[:2]), (2, 3))],
    "ravel_multi_index": lambda m: m.ravel_multi_index((IDS, IDS), (2, 3), mode="wrap", order="F"),
    "grids": lambda m: [m.mgrid[0:3, 1:3], *m.ogrid[0:3, 1:3], m.mgrid[0:1:4j], m.r_[1:4, 7, [5, 6]], m.c_[IDS, IDS]],
    "index_exp": lambda m: [X[m.s_[1:, ::2]] + X[m.index_exp[1:, ::2]], X[(*m.index_exp[1], m.s_[2])]],
    "sets": lambda m: [m.union1d(IDS, [5, 2]), m.intersect1d(IDS, [5, 2]), m.setdiff1d(IDS, [0]), m.setxor1d(IDS, [0, 9])],
    "intersect1d": lambda m: m.intersect1d([3, 1, 2], [2, 3], return_indices=True),
    "gcd": lambda m: [m.gcd([12, -18, 0], 8), m.lcm([12, -18, 0], 8)],
    "gcd_of_the_least": lambda m: [m.gcd(np.array([1, -128, 0, -6, 3], np.int8)[:, None], np.array([-128, 1, -1, 64], np.int8))],
    "bits": lambda m: [m.packbits([1, 0, 1, 1, 0, 0, 0, 0, 1]), m.packbits(X > 0, axis=1, bitorder="little")],
    "unpackbits": lambda m: [m.unpackbits(np.array([131, 7], np.uint8)), m.unpackbits(np.array([[131]], np.uint8), 1, 10)],
    "frexp": lambda m: m.frexp(np.array([6.0, -0.3, 0.0, np.inf, 1e-310])),
    "spacing": lambda m: [m.spacing(np.float64(1.0)), m.spacing(V)],
    "nanarg": lambda m: [m.nanargmax(HOLES, axis=1), m.nanargmin(HOLES)],
    "lexsort": lambda m: [m.lexsort((IDS, IDS[::-1])), m.argpartition(IDS, 1)[1]],
    "complex": lambda m: [m.sort_complex(Z), m.iscomplex(Z), m.isreal(Z), m.iscomplexobj(Z), m.isrealobj(Z)],
    "complex_products": lambda m: [
        m.convolve(Z, V),
        m.correlate(Z, Z, "full"),
        m.cov(np.stack([Z, Z[::-1]])),
        m.vecmat(Z, Z[:, None]),
    ],
    "roots": lambda m: np.sort_complex(np.asarray(m.roots([1.0, -6.0, 11.0, -6.0]))),
    "poly_of_matrix": lambda m: m.real(m.poly(SQUARE)),
    "windows": lambda m: [getattr(m, k)(5) for k in ("bartlett", "blackman", "hamming", "hanning")] + [m.kaiser(5, 2.0)],
    "queries": lambda m: [m.ndim(X), m.shape(X), m.size(X), m.size(X, 1), m.isscalar(3.0), m.iterable(X), m.iterable(3)],
    "issubdtype": lambda m: [m.issubdtype(np.float32, m.floating), m.issubdtype("int32", m.inexact), m.issubdtype(float, m.number)],
    "array_equiv": lambda m: [
        m.array_equiv(np.ones(3), np.ones((2, 3))),
        m.array_equiv(X, V),
        m.array_equal([np.nan], [np.nan], True),
    ],
    "copies": lambda m: [m.copy(X), m.fromfunction(lambda i, j: i - j, (2, 3)), m.fromiter(range(3), np.int32)],
    "trim_zeros": lambda m: [m.trim_zeros(np.array(v), "fb") for v in ([0, 1, 0, 2, 0], [0, 0])] + [m.trim_zeros(IDS[1:3], "b")],
    "isin": lambda m: [m.isin(IDS, [2]), m.isin(IDS, [2], invert=True)],
    "reductions": lambda m: [m.any(X > 0, 1, where=X < 1), m.all(X > 0, 0, where=X > 0), m.linalg.matrix_rank(X)],
    "polyfit_full": lambda m: [np.asarray(v).astype(float) for v in m.polyfit(G, G**2, 1, full=True)],
    "polyfit_cov": lambda m: m.polyfit(V, V**2, 1, cov=True),
    "lstsq": lambda m: [np.asarray(v).reshape(-1) for v in m.linalg.lstsq(X.T, G, rcond=None)],
    "einsum of labels that are integers": lambda m: m.einsum(np.stack([X, -X]), [..., 0, 1], X.T, [1, 2], [..., 2, 0]),
    "einsum of two such without a result": lambda m: m.einsum(X, [5, 7], X, [5, 7]),
    "einsum_path": lambda m: m.einsum_path("ij,jk->ik", X, X.T, optimize="optimal")[0][1:],
    "text": lambda m: [len(m.array_repr(np.ones(2))), len(m.array_str(np.ones(2)))],
}


def _copied(m: Any, name: str, x: Any, *args: Any) -> Any:
    if m is not np:
        return getattr(m, name)(x, *args, inplace=False)
    out = x.copy()
    getattr(np, name)(out, *args)
    return out


pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth(name: str) -> None:
    f, args = SMOOTH[name]
    mine = lambda *xs: f(nnp, *xs)  # noqa: E731
    agree(mine(*args), f(np, *args))
    check_maps(mine, args)
    check_derivatives(mine, args)


@pytest.mark.parametrize("name", WHOLE)
def test_whole(name: str) -> None:
    agree(WHOLE[name](nnp), WHOLE[name](np), 1e-6)


def test_sizes_in_traces() -> None:
    x = np.array([3, 1, 3, 2])
    cases: list[tuple[Any, list[int]]] = [
        (lambda v: nnp.bincount(v, length=3), [0, 1, 1]),
        (lambda v: nnp.union1d(v, [9], size=5, fill_value=-1), [1, 2, 3, 9, -1]),
        (lambda v: nnp.setdiff1d(v, [1], size=3, fill_value=-1), [2, 3, -1]),
        (lambda v: nnp.intersect1d(v, [1, 2], size=3, fill_value=-1), [1, 2, -1]),
        (lambda v: nnp.setxor1d(v, [1, 9], size=4, fill_value=-1), [2, 3, 9, -1]),
        (lambda v: nnp.compress(v > 1, v, size=4, fill_value=-1), [3, 3, 2, -1]),
        (lambda v: nm.jax.ops.segment_sum(v, v, 3), [0, 1, 2]),
    ]
    for f, wanted in cases:
        assert nm.vmap(f)(x[None])[0].tolist() == wanted


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: nnp.quantile(X, 1.5), errors.ShapeError, "0 <= q <= 1"),
    (lambda: nnp.cov(np.ones((1, 1, 1))), errors.ShapeError, "at most two axes"),
    (lambda: nm.vmap(nnp.bincount)(IDS[None]), errors.TraceError, "length="),
    (lambda: nnp.bincount(np.ones((2, 2), int)), errors.ShapeError, "requires a vector"),
    (lambda: nnp.digitize(X, X), errors.ShapeError, "vector of bins"),
    (lambda: nnp.histogram(X, "auto"), errors.DtypeError, "number of bins"),
    (lambda: nnp.histogramdd(V), errors.ShapeError, "a point in each row"),
    (lambda: nnp.histogramdd(X, [1]), errors.ShapeError, "4 axes, got 1"),
    (lambda: nm.vmap(lambda i: nm.jax.ops.segment_sum(i, i))(IDS[None]), errors.TraceError, "num_segments="),
    (lambda: nm.jax.ops.segment_sum(X, IDS), errors.ShapeError, "leading axes are"),
    (lambda: nnp.interp(V, G, W), errors.ShapeError, "vectors of one length"),
    (lambda: nnp.gradient(X, 1.0, 2.0, 3.0), errors.ShapeError, "one distance for each"),
    (lambda: nnp.convolve(X, V), errors.ShapeError, "requires vectors"),
    (lambda: nnp.convolve(V, W, "most"), errors.ShapeError, "mode 'full'"),
    (lambda: nnp.convolve(V, np.ones(0)), errors.ShapeError, "some elements"),
    (lambda: nnp.diag_indices_from(X), errors.ShapeError, "axes of one length"),
    (lambda: nnp.ix_(X), errors.ShapeError, "requires vectors"),
    (lambda: nnp.ravel_multi_index((IDS,), (3,), mode="most"), errors.ShapeError, "mode raise"),
    (lambda: nnp.r_["x", IDS], errors.ShapeError, "up to three integers as string"),
    (lambda: nnp.r_[IDS, "r"], errors.ShapeError, "got a string"),
    (lambda: nm.jit(lambda v: nnp.polymul(v, W, trim_leading_zeros=True))(V), errors.TraceError, "trim_leading_zeros=False"),
    (lambda: nm.jit(lambda v: nnp.polydiv(v, W, trim_leading_zeros=True))(V), errors.TraceError, "trim_leading_zeros=False"),
    (lambda: nnp.polyder(V, -1), errors.ShapeError, "at least 0"),
    (lambda: nnp.polyint(V, -1), errors.ShapeError, "at least 0"),
    (lambda: nnp.polyint(V, 3, [1.0, 2.0]), errors.ShapeError, "one constant or 3"),
    (lambda: nm.jit(lambda v: nnp.roots(v, strip_zeros=True))(V), errors.TraceError, "strip_zeros=False"),
    (lambda: nnp.roots(X), errors.ShapeError, "vector of coefficients"),
    (lambda: nnp.vander(X), errors.ShapeError, "requires a vector"),
    (lambda: nnp.polyfit(X, V, 1), errors.ShapeError, "vectors of one length"),
    (lambda: nnp.polyfit(W, W, 2, cov=True), errors.ShapeError, "more than 3 points"),
    (lambda: nm.vmap(lambda i: nnp.delete(V, i))(IDS[None]), errors.TraceError, "known numbers"),
    (lambda: nnp.choose(IDS, [X], mode="most"), errors.ShapeError, "mode raise"),
    (lambda: nnp.put(X, IDS, V), errors.CopyError, "inplace=False"),
    (lambda: nnp.add.at(X, IDS, V), errors.ShapeError, "inplace=False"),
    (lambda: nnp.subtract.outer(X), TypeError, "missing 1"),
    (lambda: nnp.fill_diagonal(V, 1.0, inplace=False), errors.ShapeError, "axes of one length"),
    (lambda: nnp.partition(V, 9), errors.ShapeError, "kth < 5"),
    (lambda: nm.vmap(lambda i: nnp.setdiff1d(i, i))(IDS[None]), errors.TraceError, "pass size="),
    (lambda: nnp.unpackbits(V), errors.DtypeError, "requires uint8"),
    (lambda: nnp.packbits(IDS, bitorder="huge"), errors.ShapeError, "bitorder"),
    (lambda: nnp.nanargmax(np.float64(1.0)), errors.ShapeError, "with axes"),
    (lambda: nnp.vectorize(nnp.sum, signature="nonsense")(X), errors.ShapeError, "signature such as"),
    (lambda: nnp.vectorize(nnp.sum, signature="(n,m)->()")(V), errors.ShapeError, "with the axes of"),
    (lambda: nnp.piecewise(V, [V > 0], []), errors.ShapeError, "1 functions or one more"),
    (lambda: nnp.linalg.lstsq(V, V), errors.ShapeError, "requires matrices|a matrix"),
    (lambda: nnp.linalg.lstsq(X, V), errors.ShapeError, "as many rows"),
    (lambda: nnp.linalg.tensorsolve(X, W), errors.ShapeError, "as many unknowns"),
    (lambda: nnp.linalg.tensorinv(X), errors.ShapeError, "as many elements before"),
]


@pytest.mark.parametrize("k", range(len(BAD)))
def test_refused(k: int) -> None:
    call, error, text = BAD[k]
    with pytest.raises(error, match=text):
        call()


def test_indices_of_a_function_are_of_the_default_dtypes() -> None:
    with nm.enable_x64():
        assert [nnp.fromfunction(lambda i: i, (2,), dtype=kind).dtype for kind in (float, int, np.int8)] == [
            np.float64,
            np.int64,
            np.int8,
        ]
    assert nnp.fromfunction(lambda i: i, (2,)).dtype == np.float32
