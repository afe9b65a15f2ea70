"""A call that JAX refuses raises an exception of the same builtin class here, so that `except TypeError` of a program still works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.usefixtures("interpreted")


def cases(jax: Any) -> dict[str, Callable[[], Any]]:
    jnp, lax, x = jax.numpy, jax.lax, jax.numpy.arange(3.0)
    shaped = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    return {
        "bool of tracer": lambda: jax.jit(lambda x: 1 if x > 0 else 2)(1.0),
        "shape tracer": lambda: jax.jit(lambda x, n: jnp.ones(n) * x)(1.0, 3),
        "carry": lambda: lax.scan(lambda c, x: (c.astype(int), None), 1.0, jnp.arange(3.0)),
        "branches": lambda: lax.cond(True, lambda: 1.0, lambda: jnp.ones(2)),
        "item of tracer": lambda: jax.jit(lambda x: x.item())(1.0),
        "float of tracer": lambda: jax.jit(lambda x: float(x))(1.0),
        "int index": lambda: jax.jit(lambda x: [1, 2, 3][x])(1),
        "np of tracer": lambda: jax.jit(lambda x: np.sin(np.asarray(x)))(1.0),
        "iterate": lambda: jax.jit(lambda n: list(range(n)))(3),
        "nonzero": lambda: jax.jit(lambda x: jnp.nonzero(x))(x),
        "boolmask": lambda: jax.jit(lambda x: x[x > 0])(x),
        "unique": lambda: jax.jit(jnp.unique)(x),
        "grad int": lambda: jax.grad(lambda x: x)(1),
        "grad vector": lambda: jax.grad(lambda x: x)(x),
        "grad out int": lambda: jax.grad(lambda x: jnp.int32(1))(1.0),
        "grad complex": lambda: jax.grad(lambda x: x * 1j)(1.0),
        "grad none": lambda: jax.grad(lambda x: None)(1.0),
        "dot shapes": lambda: jnp.dot(jnp.ones(2), jnp.ones(3)),
        "matmul scalar": lambda: jnp.matmul(1.0, x),
        "add shapes": lambda: jnp.ones(2) + jnp.ones(3),
        "concat": lambda: jnp.concatenate([jnp.ones((2, 2)), jnp.ones(3)]),
        "stack": lambda: jnp.stack([jnp.ones(2), jnp.ones(3)]),
        "reshape": lambda: x.reshape(2, 2),
        "axis": lambda: jnp.sum(x, axis=1),
        "transpose": lambda: jnp.transpose(x, (0, 1)),
        "vmap sizes": lambda: jax.vmap(lambda a, b: a + b)(jnp.ones(2), jnp.ones(3)),
        "vmap scalar": lambda: jax.vmap(lambda a: a)(1.0),
        "vmap axes": lambda: jax.vmap(lambda a, b: a, in_axes=(0,))(x, x),
        "vmap none": lambda: jax.vmap(lambda a: a, in_axes=None)(x),
        "jit static list": lambda: jax.jit(lambda x, n: x, static_argnums=1)(x, [1]),
        "jit returns str": lambda: jax.jit(lambda x: "a")(x),
        "einsum": lambda: jnp.einsum("ij,jk->ik", jnp.ones((2, 3)), jnp.ones((2, 3))),
        "einsum2": lambda: jnp.einsum("ij->k", jnp.ones((2, 3))),
        "tree map": lambda: jax.tree.map(lambda a, b: a, {"a": 1}, {"b": 1}),
        "unflatten": lambda: jax.tree.unflatten(jax.tree.structure([0, 0]), [1]),
        "key": lambda: jax.random.normal(x),
        "split": lambda: jax.random.split(1),
        "choice": lambda: jax.random.choice(jax.random.key(0), 3, (5,), replace=False),
        "key+1": lambda: jax.random.key(0) + 1,
        "while cond": lambda: lax.while_loop(lambda c: jnp.ones(2) > 0, lambda c: c, 0.0),
        "lax.dynamic_slice": lambda: lax.dynamic_slice(x, (0, 0), (1,)),
        "lax.reshape": lambda: lax.reshape(x, (2,)),
        "lax.switch": lambda: lax.switch(0.5, [lambda: 1]),
        "cond pred": lambda: lax.cond(jnp.ones(2) > 0, lambda: 1, lambda: 2),
        "jvp tangent shape": lambda: jax.jvp(jnp.sin, (x,), (jnp.ones(2),)),
        "jvp not tuple": lambda: jax.jvp(jnp.sin, x, x),
        "vjp ct": lambda: jax.vjp(jnp.sin, x)[1](jnp.ones(2)),
        "linalg": lambda: jnp.linalg.inv(jnp.ones((2, 3))),
        "solve": lambda: jnp.linalg.solve(jnp.eye(2), jnp.ones(3)),
        "cholesky": lambda: jnp.linalg.cholesky(jnp.ones(3)),
        "dtype name": lambda: jnp.zeros(2, "floaty"),
        "arange": lambda: jnp.arange(),
        "squeeze": lambda: jnp.squeeze(x, 0),
        "expand": lambda: jnp.expand_dims(x, 5),
        "float index": lambda: x[1.5],
        "too many": lambda: x[0, 0],
        "mask len": lambda: x[jnp.array([True, False])],
        "set shape": lambda: x.at[:2].set(jnp.ones(3)),
        "len scalar": lambda: len(jnp.float32(1)),
        "iter scalar": lambda: list(jnp.float32(1)),
        "bool array": lambda: bool(x),
        "float array": lambda: float(x),
        "int slice step": lambda: x[::0],
        "hash": lambda: hash(x),
        "argnums": lambda: jax.grad(lambda x: x, argnums=3)(1.0),
        "static names": lambda: jax.jit(lambda x: x, static_argnames="nope")(1.0),
        "broadcast_to": lambda: jnp.broadcast_to(x, (2,)),
        "array ragged": lambda: jnp.array([[1], [1, 2]]),
        "array str": lambda: jnp.array("abc"),
        "array obj": lambda: jnp.array([object()]),
        "conv": lambda: lax.conv(jnp.ones((1, 2, 3)), jnp.ones((1, 2, 3, 4)), (1,), "SAME"),
        "astype str": lambda: x.astype("abc"),
        "bitwise": lambda: x & 1,
        "shift": lambda: x << 1,
        "invert": lambda: ~x,
        "matmul dims": lambda: jnp.ones((2, 3)) @ jnp.ones((2, 3)),
        "segment": lambda: jax.jit(jax.ops.segment_sum)(x, jnp.array([0, 1, 1])),
        "repeat": lambda: jax.jit(lambda r: jnp.repeat(x, r))(jnp.array([1, 2, 1])),
        "one_hot": lambda: jax.jit(lambda n: jax.nn.one_hot(0, n))(3),
        "psum": lambda: lax.psum(x, "i"),
        "eval_shape": lambda: jax.eval_shape(lambda a, b: a @ b, shaped, shaped),
        "scan lengths": lambda: lax.scan(lambda c, x: (c, None), 0.0, (jnp.ones(2), jnp.ones(3))),
        "scan nolength": lambda: lax.scan(lambda c, x: (c, None), 0.0, None),
        "scan body out": lambda: lax.scan(lambda c, x: c, 0.0, jnp.ones(2)),
        "map scalar": lambda: lax.map(lambda x: x, 1.0),
        "jacfwd int": lambda: jax.jacfwd(lambda x: x)(1),
        "hessian int": lambda: jax.hessian(lambda x: x)(1),
        "where 2 args": lambda: jnp.where(x > 0, x),
        "clip bad": lambda: jnp.clip(x, jnp.ones(2)),
    }


THEIRS, OURS = cases(jax), cases(nm.jax)


@pytest.mark.parametrize("name", OURS)
def test_the_same_class(name: str) -> None:
    with pytest.raises(Exception) as error:  # whatever JAX says
        THEIRS[name]()
    builtin = next(kind for kind in type(error.value).__mro__ if kind.__module__ == "builtins")
    with pytest.raises(builtin):
        OURS[name]()


def test_a_float_is_made_no_integer_by_a_loop() -> None:
    """A Python scalar takes the dtype of what the loop makes of it, if that holds its numbers."""
    with pytest.raises(TypeError, match=r"the carry of scan requires the same structure, shapes and dtypes, got .*int32"):
        nm.scan(lambda c, x: (c.astype(int), None), 0.5, np.arange(3))
    assert nm.scan(lambda c, x: (c + 0.5, None), 1, np.arange(3))[0].dtype == np.float32


def test_names_of_arguments_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"static_argnames requires names of arguments, got 'm'(.|\n)*there are n, x"):
        nm.jit(lambda x, n: x * n, static_argnames=("n", "m"))
    assert float(nm.jit(lambda x, **options: x * options["n"], static_argnames="n")(2.0, n=3)) == 6.0
