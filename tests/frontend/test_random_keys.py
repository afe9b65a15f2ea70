"""Keys of nm.random: made of seeds and of other keys as in JAX, as arrays, as pytrees, as arguments."""

import jax
import numpy as np
import pytest
from support import default_dtypes

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError, NablaError, ShapeError, TraceError

jax.config.update("jax_enable_x64", True)
random = nm.random
KEY, RAW = random.key(5), random.PRNGKey(5)
KEYS = random.split(KEY, (2, 3))


def words(keys):
    return np.asarray(random.key_data(keys))


@pytest.mark.parametrize(
    "seed", [0, 7, -1, 2**31, 2**40 + 3, -(2**50), True, np.int8(-3), np.uint32(9), np.int64(-(2**40)), np.uint64(2**63 + 5)]
)
def test_seeds(seed):
    """A Python integer is of the default integer dtype, in which JAX loses what is above 32 bits."""
    with default_dtypes("f64", "i64"):
        expected = jax.random.key_data(jax.random.key(seed))
        np.testing.assert_array_equal(words(random.key(seed)), expected)
        np.testing.assert_array_equal(random.PRNGKey(seed), expected)
    if isinstance(seed, int):
        with jax.enable_x64(False):
            np.testing.assert_array_equal(words(random.key(seed)), jax.random.key_data(jax.random.key(seed)))


@pytest.mark.parametrize("num", [2, 1, 0, 5, (2, 3), (), np.int64(4), [2, 1]])
def test_split(num):
    expected = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(5), num)))
    np.testing.assert_array_equal(words(random.split(KEY, num)), expected)
    raw = random.split(RAW, num)
    np.testing.assert_array_equal(raw, expected)
    assert raw.dtype == np.uint32


@pytest.mark.parametrize("data", [0, 1, 2**32 - 1, True, np.int64(-2), np.uint8(9)])
def test_fold_in(data):
    expected = jax.random.key_data(jax.random.fold_in(jax.random.key(5), data))
    np.testing.assert_array_equal(words(random.fold_in(KEY, data)), expected)
    np.testing.assert_array_equal(random.fold_in(RAW, data), expected)


def test_words_and_keys():
    assert words(random.wrap_key_data(words(KEYS))).tolist() == words(KEYS).tolist()
    assert random.key_data(RAW).tolist() == RAW.tolist() == words(KEY).tolist()
    assert random.clone(KEY) is KEY
    assert random.key_impl(KEY) == random.key_impl(RAW) == "threefry2x32"
    assert random.key(0, impl="threefry2x32").dtype == random.key(0, dtype=KEY.dtype).dtype == random.key_dtype()
    assert len({random.key_dtype(), KEY.dtype}) == 1


def test_keys_look_like_an_array():
    theirs = jax.random.split(jax.random.key(5), (2, 3))
    assert (KEYS.shape, KEYS.ndim, KEYS.size, len(KEYS)) == (theirs.shape, theirs.ndim, theirs.size, len(theirs))
    assert (str(KEYS.dtype), KEYS.itemsize, KEYS.nbytes) == (theirs.dtype.name, theirs.itemsize, theirs.nbytes)
    for f in (
        lambda k: k[0],
        lambda k: k[1, 2],
        lambda k: k[:, ::2],
        lambda k: k[..., -1],
        lambda k: k[np.array([1, 0])],
        lambda k: k.reshape(3, 2),
        lambda k: k.reshape((-1,)),
        lambda k: k.ravel(),
        lambda k: k.flatten(),
        lambda k: k.T,
        lambda k: k.transpose(1, 0),
        lambda k: k.swapaxes(0, 1),
        lambda k: k[:1].squeeze(),
        lambda k: k[:1].squeeze(0),
        lambda k: k.take(np.array([0, 5, 1])),
        lambda k: k.copy(),
        lambda k: next(iter(k)),
        lambda k: list(k)[1],
    ):
        ours = f(KEYS)
        assert ours.shape == f(theirs).shape
        np.testing.assert_array_equal(words(ours), jax.random.key_data(f(theirs)))
    assert (KEYS[0] == KEYS).tolist() == (theirs == theirs[0]).tolist()
    assert (KEYS[0] != KEYS).tolist() == (theirs != theirs[0]).tolist()
    assert "KeyArray((), dtype=key<fry>) of the words" in repr(KEY)
    assert KEY != 3


def test_keys_in_a_trace_look_the_same():
    def f(keys, place):
        first, *rest = keys[0]
        assert repr(keys) == "KeyArray((2, 3), dtype=key<fry>)"
        return random.key_data(first), [random.uniform(k) for k in rest], keys[place].reshape(3, 1), keys == keys[1]

    traced = nm.jit(f)
    before = nm.set_execution("interpret")
    try:
        data, numbers, row, same = traced(KEYS, 1)
    finally:
        nm.set_execution(before)
    np.testing.assert_array_equal(data, words(KEYS[0, 0]))
    np.testing.assert_array_equal(numbers, [random.uniform(KEYS[0, 1]), random.uniform(KEYS[0, 2])])
    np.testing.assert_array_equal(words(row), words(KEYS[1])[:, None])
    assert same.tolist() == [[False] * 3, [True] * 3]


def test_maps_take_and_give_keys_along_any_axis():
    pairs = nm.vmap(lambda key: random.split(key, 4), out_axes=-1)(KEYS[0])
    assert pairs.shape == (4, 3)
    for i in range(3):
        np.testing.assert_array_equal(words(pairs[:, i]), words(random.split(KEYS[0, i], 4)))
    numbers = nm.vmap(nm.vmap(random.uniform), in_axes=-1)(KEYS)
    assert numbers.shape == (3, 2)
    assert float(numbers[2, 0]) == float(random.uniform(KEYS[0, 2]))
    np.testing.assert_array_equal(words(nm.vmap(random.key)(np.arange(3))), words(random.key(0)) + [[0, 0], [0, 1], [0, 2]])


def test_loops_and_branches_carry_keys():
    last = nm.fori_loop(0, 3, lambda i, key: random.fold_in(key, i), KEY)
    key = KEY
    for i in range(3):
        key = random.fold_in(key, i)
    np.testing.assert_array_equal(words(last), words(key))
    taken = nm.cond(True, lambda key: random.split(key)[0], lambda key: key, KEY)
    np.testing.assert_array_equal(words(taken), words(random.split(KEY)[0]))


def test_a_gradient_does_not_see_the_key():
    f = lambda x, key: (x * random.normal(key, (3,))).sum()  # noqa: E731
    assert float(nm.grad(f)(1.0, KEY)) == pytest.approx(float(random.normal(KEY, (3,)).sum()))


ERRORS = [
    (lambda: random.key(1.5), DtypeError, "key requires an integer as seed, got 1.5"),
    (lambda: random.PRNGKey(np.float32(2)), DtypeError, "PRNGKey requires an integer as seed, got an array of float32"),
    (lambda: random.key("seed"), DtypeError, "key requires an integer as seed, got 'seed'"),
    (lambda: random.key(KEY), DtypeError, "key requires an integer as seed, got an array of key<fry>"),
    (lambda: random.key(2**63), DtypeError, "key requires a seed of at most 64 bits, got 9223372036854775808"),
    (lambda: random.key(np.arange(2)), ShapeError, r"key requires a single seed, got an array of shape \(2,\)"),
    (lambda: random.key(0, impl="rbg"), TraceError, "key requires the generator 'threefry2x32', got 'rbg'"),
    (lambda: random.key_dtype("rbg"), TraceError, "key_dtype requires the generator 'threefry2x32', got 'rbg'"),
    (lambda: random.uniform(3), DtypeError, "uniform requires a key, got 3"),
    (lambda: random.uniform(None), DtypeError, "uniform requires a key, got None"),
    (lambda: random.normal(np.zeros(2)), DtypeError, "normal requires a key, or its words in uint32, got an array of float64"),
    (
        lambda: random.bits(np.zeros(3, np.uint32)),
        ShapeError,
        r"bits requires the two words of a key in the last axis, got shape \(3,\)",
    ),
    (lambda: random.split(np.uint32(3)), ShapeError, r"split requires the two words of a key in the last axis, got shape \(\)"),
    (lambda: random.uniform(KEYS), ShapeError, r"uniform requires a single key, got keys of shape \(2, 3\)"),
    (lambda: random.uniform(random.key_data(KEYS)), ShapeError, r"uniform requires a single key, got keys of shape \(2, 3, 2\)"),
    (
        lambda: random.uniform(random.KeyArray(1.0, 2.0)),
        DtypeError,
        "uniform requires keys of two words of uint32, got 1.0 and 2.0",
    ),
    (lambda: random.split(KEY, -1), ShapeError, r"split requires lengths that are not negative, got \(-1,\)"),
    (lambda: random.split(KEY, 1.5), ShapeError, "split requires a shape of integers, got 1.5"),
    (lambda: random.fold_in(KEY, -1), DtypeError, "fold_in requires a number of uint32, got -1"),
    (lambda: random.fold_in(KEY, 1.5), DtypeError, "fold_in requires an integer, got 1.5"),
    (lambda: random.fold_in(KEY, np.arange(2)), ShapeError, r"fold_in requires a single number, got an array of shape \(2,\)"),
    (lambda: random.clone(3), DtypeError, "clone requires a key, got 3"),
    (lambda: np.asarray(KEYS), DtypeError, r"an array of numbers requires numbers, got keys of shape \(2, 3\)"),
    (lambda: nnp.stack([KEY, KEY]), DtypeError, "an array of numbers requires numbers, got keys"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[message[:50] for *_, message in ERRORS])
def test_errors(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert isinstance(caught.value, NablaError)


@pytest.mark.parametrize(
    "call", [lambda: KEY + 1, lambda: bool(KEY), lambda: hash(KEY), lambda: len(KEY), lambda: iter(KEY), lambda: -KEY]
)
def test_keys_are_no_numbers(call):
    with pytest.raises(TypeError):
        call()


def test_all_names_of_jax_are_there():
    names = {n for n in dir(jax.random) if not n.startswith("_")}
    assert {n for n in names if not hasattr(random, n)} == {"random_gamma_p"}  # a primitive of JAX's
