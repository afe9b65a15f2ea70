"""Arrays of other systems: NumPy's on the left of an operator, and what has DLPack alone wherever an array is taken."""

import operator
import pickle

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import scipy.sparse
import scipy.special
from support import assert_same

import nabla_mlir as nm
import nabla_mlir.numpy as xp
from nabla_mlir.base.errors import ConcretizationError, CopyError, DtypeError, ExchangeError
from nabla_mlir.runtime.array import Array

BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne", "matmul"]
HOST = np.array([1.0, 4.0, 3.0])


pytestmark = pytest.mark.usefixtures("interpreted")


class Foreign:
    """Another system's array: it has DLPack, and nothing else."""

    def __init__(self, host, device=(1, 0)):
        self.host, self.device = host, device

    def __dlpack__(self, **options):
        return self.host.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


class OldForeign(Foreign):
    """One of the first version of DLPack."""

    def __dlpack__(self, stream=None):
        return self.host.__dlpack__()


class Refusing(Foreign):
    """A tensor that requires a gradient, as PyTorch has it."""

    def __dlpack__(self, **options):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")


class Sparse(Refusing):
    """A sparse tensor, as PyTorch has it."""

    layout = "torch.sparse_coo"


# ---------------------------------------------------------------- NumPy on the left


@pytest.mark.parametrize("name", BINARY)
def test_operators_of_numpy_give_arrays(name) -> None:
    apply, own = getattr(operator, name), np.array([2.0, 3.0, 5.0])
    x = xp.asarray(own)
    for left in (HOST, np.float64(2.0)) if name != "matmul" else (HOST, np.eye(3)):
        got = apply(left, x)
        assert type(got) is Array
        assert_same(got, apply(left, own))
        assert_same(nm.jit(lambda x, left=left: apply(left, x))(own), apply(left, own))


def test_integers_and_truth_values_on_the_left() -> None:
    own = np.array([1, 2, 5])
    for name in ("and_", "or_", "xor", "lshift", "rshift"):
        got = getattr(operator, name)(np.array([4, 6, 7]), xp.asarray(own))
        assert type(got) is Array
        assert_same(got, getattr(operator, name)(np.array([4, 6, 7]), own))
    assert [type(part) for part in divmod(np.array([4, 6, 7]), xp.asarray(own))] == [Array, Array]


def test_functions_of_numpy_on_arrays() -> None:
    x = xp.asarray(HOST)
    for got, kind, want in [
        (np.add(HOST, x), Array, HOST + HOST),
        (np.add(x, HOST), Array, HOST + HOST),
        (np.negative(x), np.ndarray, -HOST),
        (np.sin(x), np.ndarray, np.sin(HOST)),
        (np.sum(x), Array, HOST.sum()),
        (np.add.reduce(x), np.float64, HOST.sum()),
        (scipy.special.erf(x), np.ndarray, scipy.special.erf(HOST)),
        (np.concatenate([x, HOST]), np.ndarray, [*HOST, *HOST]),
        (scipy.sparse.eye_array(3) @ x, np.ndarray, HOST),
        (x @ scipy.sparse.eye_array(3), np.ndarray, HOST),
        (np.linalg.norm(x), np.float64, np.linalg.norm(HOST)),
    ]:
        assert type(got) is kind
        np.testing.assert_allclose(np.asarray(got), want)
    assert pickle.loads(pickle.dumps(x)).tolist() == HOST.tolist()


def test_what_is_assigned_in_place_stays_an_array_of_numpy() -> None:
    total = HOST.copy()
    same = total
    total += xp.asarray(HOST)
    assert same is total
    assert total.tolist() == [2.0, 8.0, 6.0]
    with pytest.raises(TypeError, match=r"np\.add requires an array of NumPy's as out, got Array: write x\[\.\.\.\] ="):
        np.add(HOST, HOST, out=xp.asarray(HOST))


@pytest.mark.parametrize(
    "function",
    [np.sin, np.dot, np.linalg.norm, np.add.reduce, lambda x: np.sin(HOST, where=x > 0), lambda x: np.add(x, 1, dtype=float)],
)
def test_other_functions_of_numpy_say_where_theirs_are(function) -> None:
    arguments = (lambda x: (x, x)) if function is np.dot else (lambda x: (x,))
    with pytest.raises(ConcretizationError, match="a NumPy function requires a concrete value") as error:
        nm.jit(lambda x: function(*arguments(x)))(HOST)
    assert "use the function of the same name in nabla_mlir.numpy" in error.value.help
    assert error.value.where.filename == __file__


def test_arrays_of_numpy_cannot_hold_tensors() -> None:
    def added(x):
        total = np.zeros(3)
        total += x
        return total

    with pytest.raises(ConcretizationError) as error:
        nm.jit(added)(HOST)
    assert "y = y + x for y += x" in error.value.help
    assert "total += x" in str(error.value)


# ---------------------------------------------------------------- DLPack


@pytest.mark.parametrize("make", [Foreign, OldForeign, jnp.asarray, lambda host: Foreign(np.repeat(host, 2)[::2])])
def test_other_arrays_are_taken_wherever_an_array_is(make) -> None:
    host = np.array([1.0, 4.0, 3.0], np.float32)
    x, cubes = make(host), lambda x: (x**3).sum()
    assert_same(nm.grad(cubes)(x), 3 * host**2)
    assert_same(nm.jit(lambda tree: tree["a"][0] * 2)({"a": [x]}), 2 * host)
    assert_same(nm.vmap(lambda e: e * e)(x), host**2)
    assert_same(nm.hvp(cubes)(x, x), 6 * host**2)
    assert_same(nm.vjp(lambda x: x * x, x)[1](x)[0], 2 * host**2)
    assert_same(nm.scan(lambda c, e: (c + e, c), np.float32(0), x)[0], host.sum())
    assert_same(nm.jit(lambda y: y + x)(host), host + host)
    assert_same(xp.sin(x), np.sin(host))
    assert_same(xp.ones(3) + x, 1 + host)
    assert_same(xp.asarray([x, x]), np.stack([host, host]))
    assert_same(xp.isin(x, x), host == host)
    assert_same(xp.arange(5)[make(np.array([1, 2]))], np.array([1, 2], np.int32))
    traced = nm.trace(cubes, x)
    assert_same(traced.compile(nm.Interpreter())(x), (host**3).sum())
    operator_ = nm.HessianOperator(cubes, x)
    assert_same(operator_.apply(x), 6 * host**2)
    assert_same(operator_.update(x)[1], 3 * host**2)
    assert host.tolist() == [1.0, 4.0, 3.0]


def test_torch_like_and_jax_specs() -> None:
    assert_same(
        nm.from_jax(jnp.sin, Foreign(HOST.astype(np.float32)))(Foreign(HOST.astype(np.float32))), np.sin(HOST.astype(np.float32))
    )


@pytest.mark.parametrize("strided", [False, True])
def test_types_that_numpy_lacks(strided) -> None:
    host = np.arange(8.0).astype(ml_dtypes.bfloat16)[:: 2 if strided else 1]

    class Narrow(Foreign):
        def __dlpack__(self, stream=None, **options):
            if options:
                raise TypeError("the first version")
            return jnp.asarray(self.host).__dlpack__()

    for x in (Narrow(host), jnp.asarray(host)):
        assert_same(nm.grad(lambda x: (x * x).sum())(x), (2 * host.astype(np.float32)).astype(ml_dtypes.bfloat16))
        assert xp.asarray(x).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_numpy_lacks_are_given_away(name) -> None:
    x = xp.asarray(np.arange(4.0).astype(name))
    for found in (jnp.from_dlpack(x), xp.from_dlpack(Foreign(x))):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(found, np.float32), np.arange(4.0))


def test_memory_is_shared_where_it_can_be_and_never_written_to() -> None:
    raw = np.zeros(64 + 3 * 8, np.uint8)
    start = -raw.ctypes.data % 64
    host = raw[start : start + 24].view(np.float64)
    x = xp.from_dlpack(Foreign(host))
    host[0] = 5.0
    assert x.tolist() == [5.0, 0.0, 0.0]
    x[1] = 7.0
    assert host.tolist() == [5.0, 0.0, 0.0]
    assert not np.shares_memory(np.asarray(xp.from_dlpack(Foreign(host), copy=True)), host)
    with pytest.raises(CopyError, match="asarray requires memory that it can share"):
        xp.from_dlpack(Foreign(host[::2]), copy=False)


@pytest.mark.parametrize(
    ("x", "message", "help"),
    [
        (Foreign(HOST, (2, 1)), r"in the memory of the host, got Foreign on cuda:1", "x.cpu()"),
        (Foreign(HOST, (99, 0)), r"got Foreign on device 99:0", "x.cpu()"),
        (Refusing(HOST), r"that can be read, got Refusing: Can't export tensors that require gradient", "x.detach()"),
        (Foreign(np.array(["a"], object)), r"that can be read, got Foreign", "dense array of numbers"),
        (Sparse(HOST), r"that can be read, got Sparse", "x.to_dense()"),
    ],
)
def test_what_cannot_be_read_is_refused(x, message, help) -> None:
    compiled = nm.trace(lambda x: x, nm.spec(3, "f64")).compile(nm.Interpreter())
    for use in (
        lambda: nm.grad(lambda x: x.sum())(x),
        lambda: xp.sin(x),
        lambda: xp.ones(3) + x,
        lambda: compiled(x),
        lambda: xp.from_dlpack(x),
        lambda: nm.jit(lambda y: y + x)(HOST),
    ):
        with pytest.raises(ExchangeError, match=message) as error:
            use()
        assert help in error.value.help
        assert error.value.where.filename == __file__


MASKED = np.ma.array([1.0, 999.0, 3.0], mask=[0, 1, 0])


@pytest.mark.parametrize(
    "f",
    [
        lambda: xp.sum(MASKED),
        lambda: xp.ones(3) + MASKED,
        lambda: nm.jit(xp.sum)(MASKED),
        lambda: nm.grad(lambda p: xp.sum(p["a"]))({"a": MASKED}),
        lambda: nm.jit(lambda x: x * MASKED)(np.ones(3)),
        lambda: xp.ones(3).at[:].set(MASKED),
        lambda: xp.ones(3).__setitem__(slice(None), MASKED),
        lambda: xp.ones(3)[np.ma.array([0, 1], mask=[0, 1])],
        lambda: nm.HessianOperator(xp.sum, np.ones(3)) @ MASKED,
        lambda: xp.sum(np.ma.masked),
    ],
)
def test_masked_arrays_are_refused(f) -> None:
    with pytest.raises(DtypeError, match=r"(?s)without a mask, got a masked array.*x\.filled\(np\.nan\)"):
        f()
