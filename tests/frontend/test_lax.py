"""The rooms `lax`, `nn`, `scipy` and `ops` against JAX in float64: all cases of JAX are compiled at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from function_laws import agree, check_derivatives, check_maps

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors
from nabla_mlir.jax import lax

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
V, W = RNG.normal(size=5), RNG.normal(size=3)
P = np.abs(X) + 0.3
U = 1 / (1 + np.exp(-X))
N = np.array([5, -7, 3], np.int64)
S = RNG.normal(size=(3, 3))
POSITIVE = S @ S.T + np.eye(3)
IMAGE, KERNEL = RNG.normal(size=(2, 2, 5, 4)), RNG.normal(size=(4, 2, 3, 2))
Q, K = RNG.normal(size=(2, 3, 4, 5)), RNG.normal(size=(2, 6, 2, 5))
PLACES = np.array([[0], [2], [9]])


def _windows_of(j: Any, word: str, x: Any, z: Any, *geometry: Any) -> Any:
    own = {"own": lambda a, b: a + b + a * b}
    return j.lax.reduce_window(x, z, own[word] if word in own else getattr(j.lax, word), *geometry)


# Functions of arrays of floating point, which are also differentiated and mapped.
SMOOTH: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "dot_general": (lambda j, a, b: j.lax.dot_general(a, b, (((1,), (1,)), ((0,), (0,)))), [X, Y]),
    "dot": (lambda j, a, b: [j.lax.dot(a, b.T), j.lax.batch_matmul(a[None], b.T[None])], [X, Y]),
    "conv": (lambda j, x, k: j.lax.conv(x, k, (1, 2), "SAME"), [IMAGE, KERNEL]),
    "conv_general": (
        lambda j, x, k: j.lax.conv_general_dilated(
            x, k, (2, 1), [(1, 2), (0, 1)], (1, 2), (1, 2), ("NCHW", "OIHW", "NHWC"), preferred_element_type=np.float64
        ),
        [IMAGE, KERNEL],
    ),
    "conv_groups": (
        lambda j, x, k: j.lax.conv_general_dilated(x, k[:, :1], (1, 1), "VALID", feature_group_count=2),
        [IMAGE, KERNEL],
    ),
    "conv_transpose": (
        lambda j, x, k: [
            j.lax.conv_transpose(x, k, (2, 2), p, dimension_numbers=("NCHW", "OIHW", "NCHW")) for p in ("SAME", "VALID")
        ],
        [IMAGE, KERNEL],
    ),
    "conv_transpose_kernel": (
        lambda j, x, k: j.lax.conv_transpose(
            x, k, (2, 1), [(1, 1), (0, 2)], dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True
        ),
        [IMAGE[:, [0, 1, 0, 1]], KERNEL],
    ),
    "reduce_window": (
        lambda j, x: [
            j.lax.reduce_window(x, -np.inf, j.lax.max, (2, 2), (1, 2), "SAME"),
            j.lax.reduce_window(x, 0.0, j.lax.add, (2, 3)),
        ],
        [X],
    ),
    "reduce_window_initial": (
        lambda j, x, z: [
            f(x, z, *w)
            for f in (partial(_windows_of, j, b) for b in ("add", "mul", "max", "min", "own"))
            for w in (
                ((2, 3), (1, 1), ((1, 0), (0, 2))),
                ((3, 1), (1, 1), ((2, 0), (0, 0))),
                ((2, 2), (1, 2), "SAME", (2, 1), (1, 2)),
                ((3, 1), (1, 1), ((4, 0), (0, 0))),
                ((2, 2),),
            )
        ],
        [X, np.array(0.7)],
    ),
    "reduce_window_own": (
        lambda j, x: j.lax.reduce_window(x, 1.0, lambda a, b: a * b, (2, 2), None, [(0, 1), (1, 0)], (1, 2), (2, 1)),
        [X],
    ),
    "reduce": (
        lambda j, x: [j.lax.reduce(x, np.float64(0), j.lax.add, (1,)), j.lax.reduce(x, np.float64(2), lambda a, b: a * b, (0, 1))],
        [X],
    ),
    "reduce_several": (
        lambda j, x, y: j.lax.reduce((x, y), (np.float64(1), np.float64(0)), lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (0,)),
        [X, Y],
    ),
    "reductions": (lambda j, x: [getattr(j.lax, f"reduce_{k}")(x, (1,)) for k in ("sum", "prod", "max", "min")], [X]),
    "cumulative": (
        lambda j, x: [
            getattr(j.lax, f"cum{k}")(x, 1, reverse=r) for k in ("sum", "prod", "max", "min", "logsumexp") for r in (False, True)
        ],
        [X],
    ),
    "select": (lambda j, x, y: [j.lax.select(X > 0, x, y), j.lax.select_n(np.int32(2), x, y, x * y)], [X, Y]),
    "clamp": (lambda j, x: j.lax.clamp(-0.5, x, 0.7), [X]),
    "powers": (lambda j, x: [j.lax.integer_pow(x, 3), j.lax.integer_pow(x, -2), j.lax.square(x), j.lax.rsqrt(x * x + 1)], [P]),
    "divisions": (lambda j, x, y: [j.lax.div(x, y), j.lax.rem(x, y), j.lax.reciprocal(y)], [X, P]),
    "complex": (lambda j, x, y: j.lax.abs(j.lax.complex(x, y)), [X, Y]),
    "shapes": (
        lambda j, x: [
            j.lax.broadcast(x, (2,)),
            j.lax.broadcast_in_dim(x, (3, 2, 4), (0, 2)),
            j.lax.collapse(x, 0, 2),
            j.lax.rev(x, (1,)),
            j.lax.expand_dims(x, (0, 3)),
            j.lax.reshape(x, (2, 6), (1, 0)),
            j.lax.squeeze(x[None], (0,)),
            j.lax.transpose(x, (1, 0)),
            j.lax.pad(x, 0.5, [(1, -1, 1), (0, 2, 0)]),
            j.lax.slice(x, (0, 1), (3, 4), (2, 1)),
            j.lax.slice_in_dim(x, 1, None, axis=1),
            *j.lax.split(x, (1, 3), 1),
            j.lax.index_in_dim(x, -1, 1, False),
            j.lax.concatenate([x, x], 1),
            j.lax.broadcast_to_rank(x, 3),
        ],
        [X],
    ),
    "dynamic": (
        lambda j, x, y: [
            j.lax.dynamic_slice(x, (np.int32(1), np.int32(7)), (2, 2)),
            j.lax.dynamic_update_slice(x, y[:1], (np.int32(1), np.int32(0))),
            j.lax.dynamic_slice_in_dim(x, np.int32(-2), 2, 1),
            j.lax.dynamic_index_in_dim(x, np.int32(1), 1, False),
            j.lax.dynamic_update_slice_in_dim(x, y[:, :2], np.int32(1), 1),
            j.lax.dynamic_update_index_in_dim(x, y[0], np.int32(2), 0),
            j.lax.index_take(x, (np.array([0, 2]), np.array([1, 1])), (0, 1)),
        ],
        [X, Y],
    ),
    "gather": (
        lambda j, x: [
            j.lax.gather(x, PLACES, j.lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4), mode=m, fill_value=v)
            for m, v in ((None, None), ("fill", 7.0), (j.lax.GatherScatterMode.CLIP, None))
        ],
        [X],
    ),
    "scatter": (
        lambda j, x, y: [
            getattr(j.lax, name)(x, PLACES, y, j.lax.ScatterDimensionNumbers((1,), (0,), (0,)), mode=m)
            for name in ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")
            for m in (None, "clip")
        ][:11],
        [X, Y],
    ),
    "sort": (
        lambda j, x, y: [*j.lax.sort((x, y), 1), *j.lax.sort_key_val(x, y, 0), *j.lax.sort((np.sign(X), x), num_keys=2)],
        [X, Y],
    ),
    "top_k": (lambda j, x: [j.lax.top_k(x, 2)[0], j.lax.approx_min_k(x, 2)[0]], [X]),
    "map": (lambda j, x: j.lax.map(lambda r: r * r.sum(), x, batch_size=2), [X]),
    "linalg": (
        lambda j, a, b: [
            j.lax.linalg.cholesky(a),
            j.lax.linalg.triangular_solve(a, b[:, :3], lower=True),
            j.lax.linalg.lu(a)[0],
            j.lax.linalg.symmetric_product(a, a, alpha=2.0, beta=0.5, symmetrize_output=True),
            j.lax.linalg.eigh(a)[1],
            j.lax.linalg.cholesky_update(j.numpy.linalg.cholesky(a, upper=True), a[0]),
        ],
        [POSITIVE, X],
    ),
    "tridiagonal": (lambda j, d, b: j.lax.linalg.tridiagonal_solve(W * 0.1, d, W * 0.2, b), [W + 3, X]),
    "gammas": (lambda j, x, y: [j.lax.igamma(x, y), j.lax.igammac(y, x)], [P[0], P[1] + 0.1]),
    "betas": (lambda j, x, y, u: [j.lax.betainc(x, y, u)], [P[0], P[1] * 3, U[0]]),
    "bessel": (lambda j, x: [j.scipy.special.i0(x), j.scipy.special.i1(x), j.lax.bessel_i0e(9 * x), j.lax.bessel_i1e(9 * x)], [X]),
    "normal": (lambda j, x, u: [j.scipy.special.ndtr(x), j.scipy.special.log_ndtr(12 * x), j.scipy.special.ndtri(u)], [X, U]),
    "special": (
        lambda j, x, y: [
            j.scipy.special.gamma(x + 1),
            j.scipy.special.xlog1py(x, y),
            j.scipy.special.entr(x),
            j.scipy.special.rel_entr(x, y),
            j.scipy.special.kl_div(x, y),
            j.scipy.special.boxcox(x, 0.3),
            j.scipy.special.boxcox1p(x, 0.3),
            j.scipy.special.poch(x, 1.5),
            j.scipy.special.multigammaln(x + 3, 2),
            j.scipy.special.factorial(x),
            j.scipy.special.logsumexp(x, 1, b=y),
            j.scipy.special.zeta(x + 1.5, 1.0),
            j.scipy.special.loggamma(x),
            j.scipy.special.gammasgn(-x),
        ],
        [P, P[::-1]],
    ),
    "activations": (
        lambda j, x: (
            [
                getattr(j.nn, k)(x)
                for k in ("mish", "soft_sign", "squareplus", "sparse_plus", "sparse_sigmoid", "identity", "softmax")
            ]
            + [
                j.nn.log1mexp(x * x + 0.1),
                j.nn.logmeanexp(x, 1),
                j.nn.softmax(x, where=X > -1),
                j.nn.standardize(x, 1, where=X > -1, epsilon=0.1),
            ]
        ),
        [X],
    ),
    "solvers": (
        lambda j, a, b: [
            j.scipy.linalg.solve_triangular(a, b, trans="T", lower=True),
            j.scipy.linalg.cho_solve(j.scipy.linalg.cho_factor(a), b),
            j.scipy.linalg.lu_solve(j.scipy.linalg.lu_factor(a), b, 1),
            j.scipy.linalg.solve(a, b, assume_a="pos"),
            j.scipy.linalg.expm(a / 4),
            j.scipy.linalg.block_diag(a, b),
            j.scipy.linalg.toeplitz(b[:, 0]),
        ],
        [POSITIVE, X],
    ),
    "densities": (
        lambda j, x, y: [
            j.scipy.stats.norm.logpdf(x, 0.1, y),
            j.scipy.stats.gamma.logpdf(y, 2.5),
            j.scipy.stats.beta.cdf(x / 9 + 0.5, 2.0, 3.0),
            j.scipy.stats.t.logpdf(x, 3.0),
            j.scipy.stats.poisson.logpmf(np.array([0.0, 1.0, 2.0, 5.0]), y),
            j.scipy.stats.multivariate_normal.logpdf(x[:, :3], np.zeros(3), POSITIVE),
            j.scipy.stats.logistic.cdf(x),
            j.scipy.stats.truncnorm.logpdf(x, -5.0, 6.0),
            j.scipy.stats.sem(x),
        ],
        [X, P],
    ),
    "convolutions": (
        lambda j, x, y: [j.scipy.signal.convolve(x, y, "same"), j.scipy.signal.correlate(x, y), j.scipy.signal.detrend(x)],
        [X, Y],
    ),
    "segments": (
        lambda j, x: [getattr(j.ops, f"segment_{k}")(x, np.array([1, 0, 1]), 2) for k in ("sum", "prod", "max", "min")],
        [X],
    ),
    "at_modes": (
        lambda j, x: [
            j.numpy.asarray(x).at[np.array([0, 2])].multiply(2.0),
            j.numpy.asarray(x).at[1].get(mode="clip"),
            j.numpy.asarray(x).at[j.numpy.array([1, 7])].add(x[:2], mode="drop"),
            j.numpy.take(x, j.numpy.array([1, 7]), 1, mode="fill", fill_value=3.0),
            j.numpy.asarray(x).at[:, j.numpy.array([1, 9])].get(mode="fill", fill_value=0.0),
            j.numpy.asarray(x).at[j.numpy.array([-1, 9])].set(5.0, mode="clip"),
        ],
        [X],
    ),
}

WHOLE: dict[str, Callable[[Any], Any]] = {
    "gammas": lambda j: [j.scipy.special.gammainc(20 * P, 20 * P[::-1]), j.scipy.special.gammaincc(20 * P, 20 * P[::-1])],
    "integers": lambda j: [j.lax.div(N, np.int64(2)), j.lax.rem(N, np.int64(2)), j.lax.clz(N), j.lax.population_count(abs(N))],
    "shifts": lambda j: [
        j.lax.shift_left(N, np.int64(2)),
        j.lax.shift_right_arithmetic(N, np.int64(1)),
        j.lax.shift_right_logical(N, np.int64(60)),
    ],
    "bits": lambda j: [j.lax.reduce_and(N, (0,)), j.lax.reduce_or(N, (0,)), j.lax.reduce_xor(N, (0,)), j.lax.bitwise_xor(N, N + 1)],
    "conversions": lambda j: [
        j.lax.convert_element_type(X, np.int32),
        j.lax.bitcast_convert_type(X, np.int64),
        j.lax.bitcast_convert_type(X, np.uint32),
        j.lax.bitcast_convert_type(np.ones((2, 2), np.uint32), np.float64),
        j.lax.reduce_precision(X, 5, 10),
    ],
    "rounding": lambda j: [j.lax.round(X * 2), j.lax.round(np.array([0.5, 1.5]), j.lax.RoundingMethod.TO_NEAREST_EVEN)],
    "places": lambda j: [j.lax.argmax(X, 1, np.int32), j.lax.argmin(X, 0, np.int32), j.lax.top_k(X, 2)[1]],
    "filled": lambda j: [
        j.lax.full((2,), 3.0),
        j.lax.full_like(X, 2),
        j.lax.iota(np.int32, 4),
        j.lax.broadcasted_iota(np.float64, (2, 3), 1),
    ],
    "pivots": lambda j: [j.lax.linalg.lu(POSITIVE)[1:], j.lax.linalg.lu_pivots_to_permutation(np.array([2, 2, 2], np.int32), 3)],
    "pads": lambda j: [j.lax.padtype_to_pads((5,), (2,), (2,), p) for p in ("SAME", "SAME_LOWER", "VALID")],
    "numbers": lambda j: j.lax.conv_dimension_numbers((1, 5, 5, 3), (2, 2, 3, 4), ("NHWC", "HWIO", "NHWC")).rhs_spec,
    "qr": lambda j: [np.abs(v) if j is nm else abs(v) for v in j.lax.linalg.qr(X.T, full_matrices=False)],
    "qr_pivoting": lambda j: j.lax.linalg.qr(X.T, pivoting=True, full_matrices=False)[2],
    "attention": lambda j: [
        j.numpy.round(v, 4)
        for v in (
            j.nn.dot_product_attention(Q, K, K, is_causal=True),
            j.nn.dot_product_attention(Q, K, K, scale=0.2, mask=np.ones((2, 1, 3, 6)) > 0),
            j.nn.dot_product_attention(
                Q, K, K, key_value_seq_lengths=np.array([2, 6], np.int32), query_seq_lengths=np.array([3, 1], np.int32)
            ),
            j.nn.dot_product_attention(Q, K, K, local_window_size=(1, 0)),
            j.nn.dot_product_attention(Q[0], K[0], K[0]),
        )
    ],
    "ranks": lambda j: [j.scipy.stats.rankdata(N, m) for m in ("average", "min", "max", "dense", "ordinal")],
    "mode": lambda j: j.scipy.stats.mode(np.array([3, 1, 3, 2])),
    "take_modes": lambda j: [j.numpy.take(X, np.array([0, -1, 5]), 1, mode=m) for m in ("clip", "wrap", "fill")],
    "discrete": lambda j: [j.scipy.stats.binom.pmf(np.arange(4.0), 3.0, 0.3), j.scipy.stats.bernoulli.logpmf(np.arange(3), 0.3)],
}


pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture(scope="module")
def theirs() -> Iterator[dict[str, Any]]:
    jax = pytest.importorskip("jax")
    for name in ("scipy.linalg", "scipy.special", "scipy.stats", "scipy.signal"):
        pytest.importorskip(f"jax.{name}")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    cases = {k: partial(f, jax, *a) for k, (f, a) in SMOOTH.items()} | {f"whole_{k}": partial(f, jax) for k, f in WHOLE.items()}
    yield jax.jit(lambda: {k: jax.tree.map(jax.numpy.asarray, f()) for k, f in cases.items()})()
    jax.config.update("jax_enable_x64", before)


LONG = ("gammas", "betas", "densities")  # their third derivatives take the interpreter ten seconds


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in SMOOTH])
def test_smooth(name: str, theirs: dict[str, Any]) -> None:
    f, args = SMOOTH[name]
    mine = lambda *xs: f(nm.jax, *xs)  # noqa: E731
    agree(mine(*args), theirs[name], 1e-8)
    check_maps(mine, args, 1e-8)
    check_derivatives(mine, args, 1e-5)


@pytest.mark.parametrize("name", WHOLE)
def test_whole(name: str, theirs: dict[str, Any]) -> None:
    with nm.enable_x64():
        agree(WHOLE[name](nm.jax), theirs[f"whole_{name}"])


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lax.clamp(np.ones(2), X, 1.0), errors.ShapeError, "bounds that are scalars"),
    (lambda: lax.select_n(X > 0, X, X, X), errors.ShapeError, "one or two cases"),
    (lambda: lax.select_n(np.ones(2, np.int32), X, X), errors.ShapeError, "a scalar or shape"),
    (lambda: lax.bitcast_convert_type(np.ones((2, 3), np.uint16), np.float32), errors.ShapeError, "a last axis of 2"),
    (lambda: lax.bitcast_convert_type(X + 1j, np.float64), errors.DtypeError, "real dtypes"),
    (lambda: lax.dot_general(X, Y, (((1,), (0,)), ((), ()))), errors.ShapeError, "paired axes"),
    (lambda: lax.dot(np.ones((2, 2, 2)), X), errors.ShapeError, "vectors or matrices"),
    (lambda: lax.batch_matmul(V, V), errors.ShapeError, "at least two"),
    (lambda: lax.conv(IMAGE, KERNEL[:, :1], (1, 1), "SAME"), errors.ShapeError, "features that fit"),
    (lambda: lax.conv(IMAGE, KERNEL, (1, 1), "MOST"), errors.ShapeError, "'SAME', 'SAME_LOWER'"),
    (lambda: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), ("NHC", "HWI", "NHC")), errors.ShapeError, "words of 3 letters"),
    (lambda: lax.conv_transpose(np.ones((1, 1)), np.ones((1, 1)), (), "SAME"), errors.ShapeError, "one to three spatial axes"),
    (
        lambda: lax.conv_transpose(IMAGE, KERNEL, (1, 1), "MOST", dimension_numbers=("NCHW", "OIHW", "NCHW")),
        errors.ShapeError,
        "widths",
    ),
    (lambda: lax.reduce((X, V), (0.0, 0.0), lambda a, b: a, (0,)), errors.ShapeError, "arrays of one shape"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2,)), errors.ShapeError, "a window for each axis"),
    (lambda: lax.sort((X, V)), errors.ShapeError, "arrays of one shape"),
    (lambda: lax.broadcast_in_dim(X, (3, 5), (0, 1)), errors.ShapeError, "for each of"),
    (lambda: lax.pad(X, 0.0, [(0, 0, 0)]), errors.ShapeError, "low, high, interior"),
    (lambda: lax.slice(X, (0, 0), (9, 9)), errors.ShapeError, "0 <= start"),
    (lambda: lax.split(X, (1, 1), 1), errors.ShapeError, "add up to 4"),
    (lambda: nnp.asarray(X).at[0].get(mode="most"), errors.ShapeError, "mode 'clip'"),
    (
        lambda: lax.scatter_apply(X, PLACES, lambda v: v, lax.ScatterDimensionNumbers((1,), (0,), (0,))),
        errors.ShapeError,
        "update_shape",
    ),
    (lambda: lax.linalg.cholesky_update(X, V), errors.ShapeError, "a vector of its length"),
    (lambda: lax.linalg.tridiagonal_solve(V, V, W, X), errors.ShapeError, "three diagonals"),
    (lambda: nm.nn.dot_product_attention(X, X, X), errors.ShapeError, "batch, T, heads"),
    (lambda: nm.nn.dot_product_attention(Q, K[:, :, :, :2], K), errors.ShapeError, "in groups"),
    (lambda: nm.jax.scipy.linalg.solve_triangular(S, W, trans=3), errors.ShapeError, "trans 0, 1, 2"),
    (lambda: nm.jax.scipy.linalg.solve(S, W, assume_a="most"), errors.ShapeError, "assume_a"),
    (lambda: nm.jax.scipy.linalg.qr(S, mode="most"), errors.ShapeError, "mode full"),
    (lambda: nm.jax.scipy.linalg.eigh(S, type=2), errors.ShapeError, "type=1"),
    (lambda: nm.jax.scipy.linalg.eigh_tridiagonal(W, W), errors.ShapeError, "n - 1 elements"),
    (lambda: nm.jax.scipy.linalg.polar(S, "top"), errors.ShapeError, "'right' or 'left'"),
    (lambda: nm.jax.scipy.linalg.block_diag(np.ones((1, 1, 1))), errors.ShapeError, "matrices, vectors and numbers"),
    (lambda: nm.jax.scipy.linalg.hadamard(3), errors.ShapeError, "a power of two"),
    (lambda: nm.jax.scipy.signal.fftconvolve(X, Y, axes=(0,)), errors.ShapeError, "axes=None"),
    (lambda: nm.jax.scipy.signal.convolve2d(V, V), errors.ShapeError, "requires matrices"),
    (lambda: nm.jax.scipy.signal.detrend(X, type="most"), errors.ShapeError, "type linear"),
    (lambda: nm.jax.scipy.stats.rankdata(V, "most"), errors.ShapeError, "method average"),
    (lambda: nm.jax.scipy.stats.sem(V, nan_policy="omit"), errors.ShapeError, "nan_policy"),
    (lambda: nm.jax.scipy.stats.norm.logpdf(), errors.TraceError, "requires the arguments"),
    (lambda: nm.jax.scipy.stats.multivariate_normal.logpdf(X, np.zeros(3), POSITIVE), errors.ShapeError, "vectors of one length"),
    (lambda: nm.jax.scipy.stats.dirichlet.logpdf(V, W), errors.ShapeError, "vectors of 3 elements"),
    (lambda: nm.jax.scipy.special.factorial(3, exact=True), errors.DtypeError, "exact=False"),
    (lambda: nm.jax.scipy.special.i0(X + 1j), errors.DtypeError, "real numbers"),
    (lambda: nm.vmap(lambda x: nm.ppermute(x, "i", [(0, 0), (1, 0)]), axis_name="i")(W), errors.ShapeError, "different entries"),
    (lambda: nm.vmap(lambda x: nm.all_to_all(x, "i", 0, 0), axis_name="i")(X), errors.ShapeError, "divided among 3"),
    (lambda: nm.vmap(lambda x: nm.psum_scatter(x, "i"), axis_name="i")(X), errors.ShapeError, "divided among 3"),
    (lambda: nm.config.update("jax_nonsense", 1), errors.TraceError, "a setting that there is"),
    (lambda: nm.jax.tree.map(lambda a, b: a, [1], {"x": 1}), errors.TreeError, "the structure of the first tree"),
    (lambda: nm.jax.tree.reduce_associative(lambda a, b: a, []), errors.TreeError, "a leaf or an identity"),
    (lambda: nm.jax.tree.unflatten(nm.jax.tree.structure([0, 0]), [1]), errors.TreeError, "as many leaves"),
    (lambda: nm.jax.tree_util.flatten_one_level(1), errors.TreeError, "got int, which is a leaf"),
    (lambda: nm.jax.lax.platform_dependent(1.0, tpu=abs), errors.RuleMissingError, "a function for cpu, got tpu"),
    (lambda: nm.jax.flatten_util.ravel_pytree([X])[1](V), errors.ShapeError, "a vector of 12"),
    (lambda: nm.named_scope(3).__enter__(), errors.TraceError, "requires a string"),
]


@pytest.mark.parametrize("k", range(len(BAD)))
def test_refused(k: int) -> None:
    call, error, text = BAD[k]
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
def test_convolution_matrix(mode: str) -> None:
    matrix = nm.jax.scipy.linalg.convolution_matrix(V, 4, mode)
    np.testing.assert_allclose(matrix, scipy.linalg.convolution_matrix(V, 4, mode))
    vector = np.arange(4.0)
    np.testing.assert_allclose(matrix @ vector, np.convolve(V, vector, mode)[: matrix.shape[0]])


def test_jit_decorates_with_arguments() -> None:
    calls = []

    @nm.jit(static_argnames="power")
    def f(x: Any, power: int) -> Any:
        calls.append(power)
        return x**power

    with nm.disable_jit():
        assert float(f(2.0, 3)) == float(f(2.0, power=3)) == 8.0
    assert calls == [3, 3]
    before = nm.set_execution("interpret")
    try:
        assert float(f(2.0, 2)) == float(f(2.0, power=2)) == float(f(3.0, 2)) - 5.0
    finally:
        nm.set_execution(before)


def test_second_derivatives_along_the_axes() -> None:
    f = lambda p: (p["a"] ** 3).sum() * p["b"]  # noqa: E731
    point = {"a": np.array([1.0, 2.0]), "b": np.float64(2.0)}
    diagonal = nm.hessian_diagonal(f)(point)
    assert diagonal["a"].tolist() == [12.0, 24.0]
    assert diagonal["b"].tolist() == 0.0
    assert float(nm.laplacian(f)(point)) == 36.0
    heat = nm.vmap(nm.laplacian(lambda x: nnp.sin(x[0]) * x[1] ** 2))(X)
    np.testing.assert_allclose(heat, -np.sin(X[:, 0]) * X[:, 1] ** 2 + 2 * np.sin(X[:, 0]))


def test_trees_of_ones_own() -> None:
    u = nm.jax.tree_util

    class Pair:
        def __init__(self, a: Any, b: Any):
            self.a, self.b = a, b

    u.register_pytree_with_keys(Pair, lambda p: (((u.GetAttrKey("a"), p.a), (u.GetAttrKey("b"), p.b)), None), lambda _, c: Pair(*c))
    paths = [u.keystr(path) for path, _ in u.tree_leaves_with_path({"p": Pair(1, [2])})]
    assert paths == ["['p'].a", "['p'].b[0]"]
    compiled = nm.trace(lambda p: Pair(2 * p.b, p.a), Pair(1.0, 2.0), name="swap").lower().compile(nm.Interpreter())
    assert compiled.manifest.entry_points[0].arguments[0].tree.paths("p") == ["p.a", "p.b"]  # the keys are written as names
    assert u.keystr((u.DictKey("w"), u.SequenceKey(0)), simple=True, separator="/") == "w/0"
    half = u.Partial(lambda scale, x: scale * x, 3.0)
    assert float(nm.vjp(lambda f, x: f(x), half, 2.0)[1](1.0)[0].args[0]) == 2.0
    assert nm.jax.tree.broadcast({"a": 1, "b": 2}, {"a": [0, 0], "b": 0}) == {"a": [1, 1], "b": 2}
    assert u.all_leaves([1, 2])
    assert not u.all_leaves([1, [2]])
    assert u.treedef_children(u.treedef_tuple([nm.jax.tree.structure(1)])) == [nm.jax.tree.structure(1)]
    assert nm.jax.tree.reduce(lambda a, b: a + b, [1, 2], 10) == 13


def test_custom_gradient_and_transposes() -> None:
    f = nm.custom_gradient(lambda x, y: (x * y, lambda ct: (ct * 10.0, ct * y)))
    assert [float(g) for g in nm.grad(f, (0, 1))(2.0, 3.0)] == [10.0, 3.0]
    (ct,) = nm.linear_transpose(lambda x: nnp.dot(X, x), nm.spec(4, "f64"))(W)
    np.testing.assert_allclose(ct, X.T @ W)


def test_a_transform_of_other_lengths_is_refused() -> None:
    with pytest.raises(errors.ShapeError, match=r"fft requires axes of \(3,\) for lengths \(4,\), got the shape \(4,\)"):
        lax.fft(np.ones(4, complex), lax.FftType.IRFFT, 4)
