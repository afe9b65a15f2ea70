"""nm.random against jax.random: the same numbers for the same keys, in all dtypes and shapes."""

import functools

import jax
import numpy as np
import pytest
from support import default_dtypes

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError, NablaError, ShapeError, TraceError
from nabla_mlir.random.rejection import log_slope

jax.config.update("jax_enable_x64", True)
random = nm.random
A = np.array
SEEDS = (0, 2**31 + 7)
KEY = random.key(42)


@pytest.fixture(autouse=True, scope="module")
def quickly():
    """XLA compiles without optimizations, which do not change values but by rounding."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def same(ours, theirs, exact=True, rtol=0.0):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    ours, theirs = (x if x.dtype.kind in "biuc" else x.astype("f8") for x in (ours, theirs))
    if exact:
        np.testing.assert_array_equal(ours, theirs)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)


# ---------------------------------------------------------------- bits, uniform numbers, integers: to the last bit


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 0)])
def test_bits(shape, dtype):
    for seed in SEEDS:
        same(random.bits(random.key(seed), shape, dtype), jax.random.bits(jax.random.key(seed), shape, dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform(dtype):
    same(random.uniform(KEY, (3, 5), dtype), jax.random.uniform(jax.random.key(42), (3, 5), dtype))
    low = A([[-2.0], [0.5]]).astype(jax.numpy.dtype(dtype))
    ours, theirs = (r.uniform(r.key(42), (2, 5), dtype, low, 4) for r in (random, jax.random))
    same(ours, theirs, exact=False, rtol=float(nnp.finfo(dtype).eps))


def test_a_range_that_is_none_gives_its_lower_bound():
    assert random.uniform(KEY, (2,), minval=5.0, maxval=1.0).tolist() == [5.0, 5.0]
    assert random.randint(KEY, (2,), 5, 1).tolist() == [5, 5]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_randint(dtype):
    info = np.iinfo(dtype)
    largest = min(info.max, 2**63 - 1)
    for low, high in [
        (0, 10),
        (3, 3),
        (7, 2),
        (-1000, 1000),
        (0, largest),
        (info.min, largest),
        (info.min, min(largest + 1, 2**63 - 1)),
    ]:
        ours, theirs = (r.randint(r.key(7), (9,), low, high, dtype) for r in (random, jax.random))
        same(ours, theirs)


def test_randint_has_bounds_that_broadcast_and_cover_the_dtype():
    low = A([[0], [-50]])
    same(
        random.randint(KEY, (2, 3), low, A([60, 70, 2**40]), "int64"),
        jax.random.randint(jax.random.key(42), (2, 3), low, A([60, 70, 2**40]), "int64"),
    )
    whole = random.randint(KEY, (1000,), 0, 2**32, "uint32")
    assert whole.numpy().max() > 2**31
    same(whole, jax.random.randint(jax.random.key(42), (1000,), 0, 2**32, "uint32"))
    assert random.randint(KEY, (50,), 0, 2**64 - 1, "uint64").numpy().max() > 2**62
    assert set(random.randint(KEY, (50,), False, True).tolist()) == {0}


@pytest.mark.parametrize("mode", ["low", "high"])
def test_bernoulli(mode):
    for p, shape in ((A([0.1, 0.5, 0.9]), None), (np.float32(0.3), (40,)), (0.7, (2, 3))):
        with default_dtypes("f64", "i64"):
            same(random.bernoulli(KEY, p, shape, mode), jax.random.bernoulli(jax.random.key(42), p, shape, mode))


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_rademacher(dtype):
    with default_dtypes("f64", "i64"):
        same(random.rademacher(KEY, (20,), dtype), jax.random.rademacher(jax.random.key(42), (20,), dtype))


def test_dtypes_that_are_not_given_are_the_default_ones():
    def drawn(r):
        key = r.key(3)
        return [
            r.bits(key, (2,)),
            r.uniform(key, (2,)),
            r.randint(key, (2,), 0, 9),
            r.rademacher(key, (2,)),
            r.permutation(key, 4),
            r.bernoulli(key, 0.3, (2,)),
        ]

    with default_dtypes("f64", "i64"):
        for ours, theirs in zip(drawn(random), drawn(jax.random), strict=True):
            same(ours, theirs, ours.dtype.kind != "f", 1e-12)
    with jax.enable_x64(False):
        for ours, theirs in zip(drawn(random), drawn(jax.random), strict=True):
            same(ours, theirs, ours.dtype.kind != "f", 1e-6)


# ---------------------------------------------------------------- distributions: to rounding


def continuous(dtype):
    """The arguments behind the key, for each function."""
    a, s = A([[0.3], [2.5]], dtype), (2, 3)
    plain = "normal maxwell exponential cauchy laplace logistic gumbel".split()
    scaled = "lognormal wald pareto rayleigh gamma loggamma chisquare t generalized_normal".split()
    return (
        dict.fromkeys(plain, (s, dtype))
        | dict.fromkeys(scaled, (a, s, dtype))
        | {
            "truncated_normal": (a - 1, a, s, dtype),
            "double_sided_maxwell": (a, a[0], (), dtype),
            "triangular": (-a, a / 2, a, s, dtype),
            "weibull_min": (a, a[0], s, dtype),
            "beta": (a, a[0], s, dtype),
            "f": (a, a + 2, s, dtype),
            "ball": (3, 1.5, s, dtype),
            "dirichlet": (A([0.3, 1, 2], dtype), s, dtype),
        }
    )


def counts(dtype):
    return {
        "poisson": (A([3, 30, 0], dtype), (5, 3)),
        "geometric": (A([0.1, 0.9, 1], dtype), (5, 3)),
        "binomial": (A([5, 300, 20], dtype), A(0.3, dtype), (5, 3), dtype),
        "multinomial": (A([20, 1000], dtype), A([[0.2, 0.3, 0.5], [0.1, 0.9, 0]], dtype)),
    }


LONG = {"loggamma", "beta", "chisquare", "f", "t", "generalized_normal", "ball", "multinomial"}  # others have their loops too


@functools.cache
def of_jax(dtype, is_long):
    def some_of_them(key):
        cases = continuous(dtype) | counts(dtype)
        return {name: getattr(jax.random, name)(key, *args) for name, args in cases.items() if (name in LONG) == is_long}

    compiled = jax.jit(some_of_them)
    return {seed: compiled(jax.random.key(seed)) for seed in SEEDS}


EACH = [
    pytest.param(name, dtype, id=f"{name}-{dtype}", marks=[pytest.mark.slow] * (dtype == "f4" or name in LONG))
    for dtype in ("f8", "f4")
    for name in continuous("f8") | counts("f8")
]


@pytest.mark.parametrize(("name", "dtype"), EACH)
def test_distributions(name, dtype):
    args = (continuous(dtype) | counts(dtype))[name]
    with default_dtypes("f64", "i64"):
        for seed, values in of_jax(dtype, name in LONG).items():
            ours = getattr(random, name)(random.key(seed), *args)
            same(ours, values[name], name in counts(dtype), 1e-11 if dtype == "f8" else 1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats(dtype):
    for name in ("normal", "exponential", "gumbel"):
        ours, theirs = (getattr(r, name)(r.key(1), (50,), dtype) for r in (random, jax.random))
        same(ours, theirs, False, 4 * float(nnp.finfo(dtype).eps))


def test_complex_normal_numbers():
    same(random.normal(KEY, (5,), "complex128"), jax.random.normal(jax.random.key(42), (5,), "complex128"), False, 1e-12)


@pytest.mark.parametrize("mode", ["high", "highest"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gumbel_of_more_bits(mode, dtype):
    ours, theirs = (r.gumbel(r.key(1), (40,), dtype, mode) for r in (random, jax.random))
    same(ours, theirs, False, 1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_multivariate_normal(method):
    mean, cov = A([[0.0, 1, 2], [3, 4, 5]]), A([[2, 0.5, 0], [0.5, 1, 0.3], [0, 0.3, 1.5]])
    ours, theirs = (r.multivariate_normal(r.key(2), mean, cov, (4, 2), method=method) for r in (random, jax.random))
    same(ours, theirs, False, 1e-12)


@pytest.mark.parametrize(("n", "m", "dtype"), [(3, None, "f8"), (2, 4, "f8"), (4, 2, "f4"), (3, None, "c16")])
def test_orthogonal(n, m, dtype):
    ours, theirs = (r.orthogonal(r.key(2), n, (2,), dtype, m) for r in (random, jax.random))
    same(ours, theirs, False, 1e-5 if dtype == "f4" else 1e-12)


@pytest.mark.slow
def test_parameters_without_a_meaning():
    with default_dtypes("f64", "i64"):
        a = A([np.nan, -0.1, 0, np.inf])
        for name in ("gamma", "loggamma"):
            same(*(getattr(r, name)(r.key(0), a) for r in (random, jax.random)), False, 1e-12)
        lam = A([-1, np.nan, 1e-3, 1e6])
        same(*(r.poisson(r.key(0), lam) for r in (random, jax.random)))
        n, p = A([-1, np.nan, np.inf, 20, 20, 7.5, 1e4]), A([0.2, 0.1, 0.3, np.nan, -0.1, 0, 1.1])
        same(*(r.binomial(r.key(0), n, p) for r in (random, jax.random)))
    assert random.poisson(KEY, np.inf).tolist() == -1  # jax.random draws 2**31 times for that


# ---------------------------------------------------------------- order and choice

X = np.arange(24.0).reshape(2, 3, 4)
P = A([0.2, 0.3, 0.5])


@pytest.mark.parametrize(
    "args",
    [(0,), (1,), (7,), (np.int32(5),), (2000,), (X,), (X, 1), (X, -1, True), (X[0, 0], 0, True)],
    ids=lambda args: str(args)[:20],
)
def test_permutation(args):
    with default_dtypes("f64", "i64"):
        same(*(r.permutation(r.key(11), *args) for r in (random, jax.random)))


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("p", [None, P], ids=["equal", "given"])
def test_choice(replace, p):
    with default_dtypes("f64", "i64"):
        for a, shape, axis in ((3, (), 0), (3, (3,), 0), (3, (0,), 0), (X, (2,), 1), (X, (2, 1), 1), (P * 10, (3,), 0)):
            same(*(r.choice(r.key(11), a, shape, replace, p, axis) for r in (random, jax.random)))


def test_choice_with_probabilities():
    with default_dtypes("f64", "i64"):
        p = np.random.default_rng(0).dirichlet(np.full(50, 0.3))
        same(*(r.choice(r.key(11), 50, (300,), p=p) for r in (random, jax.random)))
        same(*(r.choice(r.key(11), 50, (20,), False, p, mode="high") for r in (random, jax.random)))
    assert random.choice(KEY, X, (0,), axis=1).shape == (2, 0, 4)


@pytest.mark.parametrize("axis", [0, -1])
def test_categorical(axis):
    logits = np.log1p(X)
    stack = tuple(np.delete(X.shape, axis))
    with default_dtypes("f64", "i64"):
        for shape in (None, (5, *stack)):
            same(*(r.categorical(r.key(11), logits, axis, shape) for r in (random, jax.random)))
    ours, theirs = (r.categorical(r.key(11), logits, axis, (2, 1, *stack), False) for r in (random, jax.random))
    np.testing.assert_array_equal(ours, theirs)


def test_categorical_repeats_axes_and_takes_a_mode():
    with default_dtypes("f64", "i64"):
        same(*(r.categorical(r.key(1), np.zeros((1, 3)), shape=(20, 7), mode="high") for r in (random, jax.random)))


# ---------------------------------------------------------------- in transforms


def draws(key):
    """Numbers of several functions, as one program."""
    first, second, third, fourth = random.split(key, 4)
    return (
        random.normal(first, (5,)),
        random.randint(second, (5,), 0, 100),
        random.permutation(third, 6),
        random.categorical(fourth, nnp.zeros(7)),
        random.gumbel(random.fold_in(key, 3), (3,), "f4", "highest"),
        random.bits(first, (3,), "uint64"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [random.key, random.PRNGKey])
def test_compiled_code_draws_the_same_numbers(make, tmp_path):
    """In `jit`, and in an artifact that is saved and loaded."""
    compiled = nm.trace(draws, make(0), name="draws").lower().compile()
    loaded = nm.load(compiled.save(tmp_path / "draws.vmfb"))
    for seed in SEEDS:
        expected = draws(make(seed))
        for results in (compiled(make(seed)), loaded.draws(make(seed))):
            for got, want in zip(results, expected, strict=True):
                same(got, np.asarray(want), want.dtype.kind != "f", 1e-5)


@pytest.mark.slow
def test_compiled_loops_draw_the_same_numbers():
    a = A([0.3, 2.5])

    def numbers(key):
        return random.gamma(key, a, dtype="f8"), random.poisson(key, a * 10), random.binomial(key, 300.0, a / 5, dtype="f8")

    for got, want in zip(nm.jit(numbers)(KEY), numbers(KEY), strict=True):
        same(got, np.asarray(want), want.dtype.kind != "f", 1e-12)


def test_a_map_draws_for_each_key_what_it_has_alone():
    for keys in (random.split(KEY, 3), random.split(random.PRNGKey(42), 3)):
        rows = nm.vmap(lambda key, scale: random.gamma(key, scale, (2,)))(keys, A([0.5, 1, 2], np.float32))
        for i, scale in enumerate((0.5, 1.0, 2.0)):
            np.testing.assert_allclose(rows[i], random.gamma(keys[i], scale, (2,)), rtol=1e-6)
    same(nm.vmap(lambda key: random.permutation(key, 5))(keys), np.stack([random.permutation(k, 5) for k in keys]))


def test_a_scan_carries_keys_and_reads_them():
    def step(key, other):
        key, now = random.split(key)
        return key, random.uniform(now) + random.uniform(other)

    others = random.split(random.key(1), 3)
    last, sums = nm.scan(step, KEY, others)
    key = KEY
    for i in range(3):
        key, want = step(key, others[i])
        np.testing.assert_array_equal(sums[i], want)
    assert bool(last == key)


def test_size_of_a_program_does_not_depend_on_how_many_numbers():
    short, long = (str(nm.trace(lambda key, n=n: random.normal(key, (n,)), KEY)) for n in (3, 10**6))
    assert len(short.splitlines()) == len(long.splitlines()) < 200


# ---------------------------------------------------------------- derivatives

C = A([[1.0, -2, 3], [0.5, 2, -1]])
SMOOTH = {
    "uniform": lambda r, key, a: r.uniform(key, (2, 3), "f8", -a, a * 2),
    "truncated_normal": lambda r, key, a: r.truncated_normal(key, -a, a * 2, (2, 3), "f8"),
    "weibull_min": lambda r, key, a: r.weibull_min(key, a, a + 1, (2, 3), "f8"),
    "triangular": lambda r, key, a: r.triangular(key, -a, a / 3, a, (2, 3), "f8"),
    "wald": lambda r, key, a: r.wald(key, a, (2, 3), "f8"),
    "gamma": lambda r, key, a: r.gamma(key, a, (2, 3), "f8"),
    "loggamma": lambda r, key, a: r.loggamma(key, a, (2, 3), "f8"),
    "beta": lambda r, key, a: r.beta(key, a, a[::-1], (2, 3), "f8"),
    "dirichlet": lambda r, key, a: r.dirichlet(key, a, (2,), "f8"),
    "t": lambda r, key, a: r.t(key, a, (2, 3), "f8"),
}


QUICK = ("uniform", "truncated_normal", "gamma", "beta")


@functools.cache
def slopes_of_jax(is_quick):
    a = A([0.4, 2.5, 20.0])

    def losses(a):
        key = jax.random.key(9)
        return {n: (jax.numpy.sin(f(jax.random, key, a)) * C).sum() for n, f in SMOOTH.items() if (n in QUICK) == is_quick}

    return a, jax.jit(jax.jacrev(losses))(a)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in SMOOTH])
def test_derivatives_by_parameters(name):
    a, slopes = slopes_of_jax(name in QUICK)
    loss = lambda a: (nnp.sin(SMOOTH[name](random, random.key(9), a)) * C).sum()  # noqa: E731
    np.testing.assert_allclose(nm.grad(loss)(a), slopes[name], rtol=1e-8)
    _, tangent = nm.jvp(loss, (a,), (np.ones(3),))
    np.testing.assert_allclose(tangent, slopes[name].sum(), rtol=1e-8)


def test_second_derivatives_of_gamma():
    """Against differences of the first ones along the curve that the logarithm moves on, in both forms of the function."""
    a, step = A([0.4, 2.5, 20.0]), 1e-5
    log = random.loggamma(KEY, a, dtype="f8").numpy()
    slope = lambda a, log: nm.vmap(log_slope)(a, log).numpy()  # noqa: E731
    first = slope(a, log)
    difference = (slope(a + step, log + step * first) - slope(a - step, log - step * first)) / (2 * step)
    got = nm.hvp(lambda a: random.loggamma(KEY, a, dtype="f8").sum())(a, np.ones(3))
    np.testing.assert_allclose(got, difference, rtol=1e-6)


def test_slope_of_a_logarithm_too_small_for_its_exponential():
    """There x**a is proportional to the distribution function, so that log(x) moves by -(log(x) - digamma(a + 1)) / a."""
    a = A([1e-4, 2e-4])
    log = random.loggamma(KEY, a, dtype="f8").numpy()
    assert log.max() < -1000
    slope = nm.grad(lambda a: random.loggamma(KEY, a, dtype="f8").sum())(a)
    np.testing.assert_allclose(slope, -(log - np.asarray(jax.scipy.special.digamma(1 + a))) / a, rtol=1e-12)


# ---------------------------------------------------------------- errors

KEYS = random.split(KEY, 3)
ERRORS = [
    (
        lambda: random.uniform(KEY, (2,), int),
        DtypeError,
        "uniform requires a real dtype of floating point with 16, 32 or 64 bits, got int32",
    ),
    (lambda: random.uniform(KEY, (2,), "complex64"), DtypeError, "uniform requires a real dtype .* got complex64"),
    (lambda: random.normal(KEY, (2,), "int32"), DtypeError, "normal requires a real or complex dtype .* got int32"),
    (
        lambda: random.uniform(KEY, (2,), minval=np.zeros(3)),
        ShapeError,
        r"uniform requires parameters that broadcast to the shape \(2,\), got \(3,\)",
    ),
    (lambda: random.uniform(KEY, (2,), minval=1j), DtypeError, "uniform requires real parameters, got a Python complex"),
    (lambda: random.uniform(KEY, (2,), minval=A([1j])), DtypeError, "uniform requires real parameters, got complex128"),
    (lambda: random.uniform(KEY, (-1,)), ShapeError, r"uniform requires lengths that are not negative, got \(-1,\)"),
    (lambda: random.uniform(KEY, (2.5,)), ShapeError, "uniform requires a shape of integers, got"),
    (lambda: random.bits(KEY, (2,), "int32"), DtypeError, "bits requires a dtype of unsigned integers, got int32"),
    (lambda: random.bits(KEY, (2**20, 2**20)), ShapeError, "random numbers require at most"),
    (lambda: random.randint(KEY, (2,), 0, 9, "float32"), DtypeError, "randint requires a dtype of integers, got float32"),
    (
        lambda: random.randint(KEY, (2,), 0, 2**64),
        DtypeError,
        "randint requires bounds of at most 64 bits, got 18446744073709551616",
    ),
    (lambda: random.randint(KEY, (2,), 0.5, 9), DtypeError, "randint requires integers as bounds, got float32"),
    (lambda: random.bernoulli(KEY, 1), DtypeError, "bernoulli requires a probability of floating point, got int32"),
    (lambda: random.bernoulli(KEY, 0.5, (), "middle"), TraceError, "bernoulli requires the mode 'low' or 'high', got 'middle'"),
    (lambda: random.gumbel(KEY, mode="middle"), TraceError, "gumbel requires a mode among highest, high, low, got 'middle'"),
    (
        lambda: random.beta(KEY, np.ones(2), np.ones(3)),
        ShapeError,
        r"beta requires shapes that broadcast together, got \(2,\) and \(3,\)",
    ),
    (
        lambda: random.gamma(KEY, np.ones(2), (3,)),
        ShapeError,
        r"gamma requires parameters that broadcast to the shape \(3,\), got \(2,\)",
    ),
    (lambda: random.dirichlet(KEY, 1.0), ShapeError, "dirichlet requires a vector of parameters, got a scalar"),
    (lambda: random.poisson(KEY, 1.0, (), "float32"), DtypeError, "poisson requires a dtype of integers, got float32"),
    (lambda: random.multinomial(KEY, 3, 0.5), ShapeError, "multinomial requires probabilities in an axis, got a scalar"),
    (
        lambda: random.multivariate_normal(KEY, np.zeros(2), np.eye(3)),
        ShapeError,
        r"multivariate_normal requires a mean .* got \(2,\) and \(3, 3\)",
    ),
    (
        lambda: random.multivariate_normal(KEY, np.zeros(2), np.eye(2), method="lu"),
        TraceError,
        "multivariate_normal requires a method among .* got 'lu'",
    ),
    (lambda: random.orthogonal(KEY, -1), ShapeError, "orthogonal requires lengths that are not negative"),
    (lambda: random.permutation(KEY, 1.5), DtypeError, "permutation requires an array with an axis or an integer, got 1.5"),
    (lambda: random.permutation(KEY, -1), ShapeError, "permutation requires lengths that are not negative"),
    (lambda: random.permutation(KEY, X, 3), ShapeError, "permutation requires an axis of an array with 3 axes, got 3"),
    (lambda: random.choice(KEY, 5, 3), ShapeError, "choice requires a sequence as shape, got 3"),
    (lambda: random.choice(KEY, 0, (1,)), ShapeError, r"choice requires elements to choose from, got none for shape \(1,\)"),
    (
        lambda: random.choice(KEY, 2, (3,), False),
        ShapeError,
        "choice with replace=False requires at least as many elements as are drawn, got 2 for 3",
    ),
    (
        lambda: random.choice(KEY, 2, (3,), p=P),
        ShapeError,
        r"choice requires a probability for each of 2 elements, got shape \(3,\)",
    ),
    (lambda: random.categorical(KEY, A([1, 2])), DtypeError, "categorical requires logits of real floating point, got int64"),
    (
        lambda: random.categorical(KEY, np.zeros((2, 0))),
        ShapeError,
        r"categorical requires categories, got logits of shape \(2, 0\)",
    ),
    (
        lambda: random.categorical(KEY, P, shape=(4,), replace=False),
        ShapeError,
        r"categorical with replace=False requires at most 3 draws .* got shape \(4,\)",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[message[:40] for *_, message in ERRORS])
def test_errors(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert isinstance(caught.value, NablaError)
