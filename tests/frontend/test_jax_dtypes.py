"""Programs of JAX by a changed import, with JAX's defaults of 32 bits: the same numbers in the same dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.table import narrowing

jax = pytest.importorskip("jax")
pytest.importorskip("jax.scipy.linalg")


def positions(jax: Any) -> Any:
    jnp = jax.numpy
    place, column = jnp.arange(6)[:, None], jnp.arange(4)[None]
    angle = place / jnp.power(10000, 2 * (column // 2) / 4)
    return jnp.where(column % 2 == 0, jnp.sin(angle), jnp.cos(angle)), jnp.arange(6) * jnp.linspace(0, 1, 6)


def attention(jax: Any) -> Any:
    jnp = jax.numpy
    x = jax.random.normal(jax.random.key(0), (2, 5, 4))
    score = jnp.einsum("bqd,bkd->bqk", x, x) / np.sqrt(4)
    score = jnp.where(jnp.tril(jnp.ones((5, 5), bool)), score, jnp.finfo(score.dtype).min)
    return jax.nn.softmax(score, -1) @ x, x * np.prod(x.shape), x / np.float64(3), jnp.arange(3) + np.prod((2, 3))


def loops(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    carry = lax.scan(lambda c, x: (c + x * jnp.arange(3), c), jnp.zeros(3), jnp.ones((4, 3)))
    return (
        carry,
        lax.fori_loop(0, 5, lambda i, x: x.at[i].set(i), jnp.zeros(5, int)),
        lax.fori_loop(0, 9, lambda i, c: c + i * 0.1, 0.0),
    )


def adam(jax: Any) -> Any:
    jnp = jax.numpy

    def step(state: Any, _: Any) -> Any:
        p, m, v, t = state
        g, t = jax.grad(lambda p: ((p - 3) ** 2).sum())(p), t + 1
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        p = p - 0.1 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return (p, m, v, t), p

    return jax.lax.scan(step, (jnp.zeros(2), jnp.zeros(2), jnp.zeros(2), 0), None, length=5)


def accuracy(jax: Any) -> Any:
    jnp = jax.numpy
    logits, labels = jnp.array(np.linspace(-1, 1, 20).reshape(4, 5), jnp.float32), jnp.array([0, 3, 2, 1])
    right = jnp.argmax(logits, -1) == labels
    return right.mean(), right.astype(float).mean(), right.sum() / len(labels), jnp.mean(labels), jnp.std(labels), labels.var()


def integers(jax: Any) -> Any:
    jnp = jax.numpy
    n, u = jnp.arange(6), jnp.arange(6, dtype=jnp.uint8)
    return [
        n / 2,
        n // 2,
        n**2,
        2.0**n,
        n * 2.5,
        u + 1,
        n * u,
        jnp.where(n > 2, n, 0.0),
        jnp.concatenate([n, n * 1.0]),
        jnp.sqrt(n),
        n @ n,
        jnp.median(n),
        jnp.linalg.norm(n),
        jnp.rint(n),
        jnp.histogram(n, 3),
        jnp.searchsorted(n, 2.5),
        jnp.polyval(n, 2.0),
        jnp.exp(u),
        n.astype(jnp.float16) * n,
        jnp.minimum(n, 2.5),
        jnp.cov(n),
        jnp.linspace(0, 10, 5, dtype=int),
        jnp.arange(3, dtype=float),
    ]


def halves(jax: Any) -> Any:
    jnp = jax.numpy
    x = jnp.ones((2, 3), jnp.bfloat16)
    return [
        x * jnp.arange(3),
        x + np.arange(3, dtype=np.int32),
        x / np.sqrt(2),
        x.mean(),
        x.at[0].add(1),
        jnp.where(x > 0, x, -jnp.inf),
        x / x.sum(),
        jax.nn.softmax(x),
        x @ jnp.ones((3, 2)),
        jnp.clip(x, 0, 1),
        jnp.mean(x, dtype=jnp.float32),
    ]


def matrices(jax: Any) -> Any:
    jnp, linalg = jax.numpy, jax.scipy.linalg
    a = jnp.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
    return (
        linalg.sqrtm(a),
        linalg.hilbert(3),
        linalg.expm(a / 10),
        jnp.linalg.matrix_power(jnp.arange(4).reshape(2, 2), 3),
        round(a[0, 0] / 3, 2),
    )


PROGRAMS = (positions, attention, loops, adam, accuracy, integers, halves, matrices)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_same_numbers_in_the_same_dtypes(program: Callable[[Any], Any]) -> None:
    with jax.enable_x64(False):
        theirs = jax.tree.leaves(program(jax))
    mine = nm.jax.tree.leaves(program(nm.jax))
    assert [(a.shape, a.dtype.name) for a in mine] == [(b.shape, b.dtype.name) for b in theirs]
    for a, b in zip(mine, theirs, strict=True):
        kind = complex if a.dtype.kind == "c" else float
        tolerance = 1e-2 if a.dtype.itemsize < 4 else 1e-5
        np.testing.assert_allclose(np.asarray(a).astype(kind), np.asarray(b).astype(kind), rtol=tolerance, atol=tolerance)


WIDE = np.linspace(0.0, 1.0, 3)
DOOR: dict[str, Callable[[Any], Any]] = {
    "arrays": lambda jax: (jax.numpy.asarray(WIDE), jax.numpy.array([WIDE, WIDE]), jax.device_put(WIDE), jax.numpy.int64(3)),
    "functions": lambda jax: (
        jax.numpy.sin(WIDE),
        jax.numpy.stack([WIDE, WIDE]),
        jax.numpy.linalg.inv(np.eye(2)),
        jax.nn.relu(WIDE),
    ),
    "stated dtypes": lambda jax: (
        jax.numpy.zeros(2, np.float64),
        jax.numpy.arange(3, dtype="int64"),
        jax.lax.full((2,), 1, np.uint64),
    ),
    "carries": lambda jax: jax.lax.scan(lambda c, x: (c + x.sum(), c * x), 0.0, np.ones((3, 2))),
    "branches": lambda jax: jax.lax.cond(True, lambda x: x, lambda x: 2 * x, WIDE),
    "captured": lambda jax: jax.jit(lambda x: x * WIDE + np.arange(3))(np.arange(3)),
    "derivatives": lambda jax: (jax.grad(lambda x: (x * WIDE).sum())(WIDE), jax.jvp(jax.numpy.sin, (WIDE,), (WIDE,))),
    "pullbacks": lambda jax: jax.vjp(lambda x: x * x, WIDE)[1](WIDE),
    "promotion": lambda jax: jax.numpy.add(np.uint32([3]), np.int32([-4])),
    "distributions": lambda jax: jax.scipy.stats.norm.logpdf(WIDE),
}
WEAK: dict[str, Callable[[Any], Any]] = {
    "root": lambda jax: jax.numpy.ones(3, jax.numpy.bfloat16) / jax.numpy.sqrt(2),
    "array": lambda jax: jax.numpy.ones(3, jax.numpy.float16) * jax.numpy.asarray(2.0),
    "mask": lambda jax: jax.numpy.ones(3, jax.numpy.float16) * jax.numpy.where(np.array([True, False, True]), 1.0, 0.0),
    "integers": lambda jax: jax.numpy.ones(3, np.int8) * jax.numpy.full((3,), 2),
    "sum": lambda jax: jax.numpy.ones(3, jax.numpy.float16) * jax.numpy.mean(jax.numpy.asarray(2.0)),
    "stated": lambda jax: jax.numpy.ones(3, jax.numpy.float16) * jax.numpy.sqrt(2).astype(np.float32),
    "jit": lambda jax: jax.numpy.ones(3, jax.numpy.bfloat16) * jax.jit(lambda x: 2 * x)(3.0),
    "loop": lambda jax: jax.lax.fori_loop(0, 3, lambda _, x: x * jax.numpy.sqrt(2), jax.numpy.ones(3, jax.numpy.bfloat16)),
    "carry": lambda jax: jax.lax.scan(lambda c, x: (c * x, x), jax.numpy.asarray(1.0), jax.numpy.ones(3, jax.numpy.bfloat16)),
}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules of JAX hold everywhere, as after `nabla_mlir.jax.install()`."""
    monkeypatch.setattr(narrowing._Mode, "is_on", True)
    monkeypatch.setattr(narrowing._mode, "is_on", True)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
@pytest.mark.parametrize("name", [*DOOR, *WEAK])
def test_dtypes_at_the_door_of_the_mirror(name: str, interpreted: None, installed: None) -> None:
    with jax.enable_x64(False):
        want = jax.tree.leaves(({**DOOR, **WEAK}[name])(jax))
    found = nm.jax.tree.leaves(({**DOOR, **WEAK}[name])(nm.jax))
    assert [(x.dtype.name, x.weak_type) for x in found] == [(x.dtype.name, x.weak_type) for x in want]
    for x, y in zip(found, want, strict=True):
        np.testing.assert_allclose(np.asarray(x, np.float64), np.asarray(y, np.float64), rtol=1e-6)


def test_dtypes_elsewhere_are_those_of_numpy() -> None:
    nnp, one = nm.numpy, nm.jax.numpy.ones(3)
    assert nnp.sin(WIDE).dtype == nm.jit(lambda x: x)(WIDE).dtype == (one * WIDE).dtype == np.float64
    assert (nnp.ones(3, "float16") * nnp.sqrt(2)).dtype == np.float32
    with nm.enable_x64():
        assert nm.jax.numpy.sin(WIDE).dtype == nm.jax.jit(lambda x: x * WIDE)(WIDE).dtype == np.float64
    assert nm.jax.numpy.sin(WIDE).dtype == np.float64  # JAX is not installed in this process


def test_integers_outside_of_32_bits_are_refused(installed: None) -> None:
    with pytest.raises(nm.errors.RangeError, match="requires the range of int32"):
        nm.jax.numpy.asarray(np.array([2**40]))
    with pytest.raises(ValueError, match="dtypes of at most 32 bits, got float64"):
        nm.jax.pure_callback(lambda x: x, nm.ShapeDtypeStruct((), np.float64), 1.0)


def test_zeros_of_integers() -> None:
    zero = np.zeros((), nm.jax.float0)
    assert nm.jax.grad(lambda x: x + 0.0, allow_int=True)(1) == zero
    _, pull = nm.jax.vjp(lambda x, i: x[i], np.ones(2), 1)
    for slopes in (pull(2.0), nm.jax.jit(pull)(2.0)):
        assert slopes[0].tolist() == [0.0, 2.0]
        assert slopes[1] == zero
    assert nm.jax.jvp(nm.jax.jit(lambda x: x + 1), (2,), (zero,))[1] == zero
    assert nm.jax.linearize(lambda x: (2.0 * x, x), 3)[1](zero)[1] == zero
    assert nm.jax.numpy.zeros(2, nm.jax.float0).dtype == nm.jax.float0
