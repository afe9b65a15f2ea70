"""Modules with dynamic shapes, as `jax.export` writes them: any sizes, against JAX's own numbers and derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ImportedShapeError, ImportIRError, PassError, ShapeError
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.pipeline import Pipeline

pytestmark = pytest.mark.slow


def exported(f: Callable[..., Any], *shapes: str) -> bytes:
    """The portable artifact of a function for symbolic shapes in f32."""
    scope = export.SymbolicScope()
    specs = [jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), np.float32) for shape in shapes]
    return bytes(export.export(jax.jit(f))(*specs).mlir_module_serialized)


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.random.default_rng(i).normal(size=shape).astype(np.float32) for i, shape in enumerate(shapes)]


def flat(outs: Any) -> list[Any]:
    return list(outs) if isinstance(outs, (tuple, list)) else [outs]


def loss(np_: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of a function of all floating-point results."""
    return lambda *xs: sum(np_.sum(np_.sin(y)) for y in flat(f(*xs)) if y.dtype == np.float32)


def computed_sizes(x: Any, w: Any) -> Sequence[Any]:
    n = x.shape[0]
    h = jnp.tanh(x @ w)
    return (
        jnp.concatenate([h, h]).reshape(-1),  # 2 b c
        jnp.pad(h, ((1, 0), (0, 0))),  # b + 1
        jnp.concatenate([h[:-1], h[1:]]),  # 2 b - 2
        h[jnp.arange(n // 2) * 2],  # floor(b / 2)
        jax.nn.softmax(h, axis=0) * jnp.mean(h),
        jnp.arange(n),
        jnp.tile(h, (2, 1))[::-1].at[jnp.arange(n)].add(1.0),
        lax.dynamic_slice(h, (jnp.argmax(h[:, 0]), 0), (n - 1, w.shape[1])),  # a computed start
    )


def regions(x: Any) -> Sequence[Any]:
    carry, rows = lax.scan(lambda c, r: (c + r, jnp.tanh(c * r)), jnp.zeros_like(x[0]), x)
    return (
        carry,
        rows,
        jnp.sort(x, axis=0) * jnp.cumsum(x, axis=0),
        lax.cond(x[0, 0] > 0, lambda x: jnp.sin(x) * 2, lambda x: x * 3, x),
        lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x, x),
    )


def calls(x: Any) -> Sequence[Any]:
    n = x.shape[0]
    return (
        lax.reduce_window(x, -jnp.inf, lax.max, (n, 1), (1, 1), "SAME"),
        lax.cumlogsumexp(x, axis=0),  # a window with a body that has no name
        lax.top_k(x.T, n - 1)[0],
        lax.approx_max_k(x.T, 2)[0],
        lax.approx_max_k(x.T, n - 1)[0],
        lax.conv_general_dilated(x[:, None, :], jnp.ones((2, 1, 3), x.dtype), (2,), "SAME"),
        jnp.linalg.cholesky(x @ x.T + 3 * jnp.eye(n, dtype=x.dtype)),
        x * jax.random.normal(jax.random.key(1, impl="threefry2x32"), x.shape, x.dtype),
        lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.uint16), jnp.float32),
        lax.bitcast_convert_type(jax.random.bits(jax.random.key(1, impl="rbg"), x.shape), jnp.int32).shape[0] + x,
    )


CASES: dict[str, tuple[Callable[..., Any], list[str], list[list[tuple[int, ...]]]]] = {
    "computed sizes": (computed_sizes, ["b, 4", "4, c"], [[(3, 4), (4, 5)], [(6, 4), (4, 2)]]),
    "regions": (regions, ["b, c"], [[(2, 5)], [(4, 3)]]),
    "calls": (calls, ["b+2, c"], [[(3, 6)], [(5, 7)]]),
}


@pytest.mark.parametrize("name", CASES)
def test_any_sizes(name: str) -> None:
    f, shapes, sizes = CASES[name]
    g = nm.from_stablehlo(exported(f, *shapes))
    for size in sizes:
        xs = arrays(*size)
        for got, wanted in zip(g(*xs), f(*xs), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        wanted = jax.jit(jax.grad(loss(jnp, f)))(*xs)
        np.testing.assert_allclose(nm.grad(loss(nnp, g))(*xs), wanted, rtol=1e-3, atol=1e-4)


def test_transforms_and_artifacts() -> None:
    f = lambda x, y: jnp.sum(jnp.tanh(x @ y) ** 2)  # noqa: E731
    g = nm.from_stablehlo(exported(f, "b, c", "c, b"))
    assert g.inputs == (((None, None), np.float32), ((None, None), np.float32))
    assert g.outputs == (((), np.float32),)
    for b, c in ((2, 3), (4, 1)):
        x, y = arrays((b, c), (c, b))
        wanted = jax.jvp(lambda x, y=y: jax.grad(f)(x, y), (x,), (x,))[1]
        np.testing.assert_allclose(nm.hvp(g)(x, x, y), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(nm.jit(nm.grad(g))(x, y), jax.grad(f)(x, y), rtol=1e-4, atol=1e-5)
        rows = nm.vmap(nm.grad(g), in_axes=(0, None))(np.stack([x, 2 * x]), y)
        np.testing.assert_allclose(rows[1], jax.grad(f)(2 * x, y), rtol=1e-4, atol=1e-5)
    traced = nm.trace(nm.grad(g), nm.spec((2, 3)), nm.spec((3, 2)), name="gradient")
    module = nm.load(traced.lower().compile().to_bytes())
    x, y = arrays((2, 3), (3, 2))
    np.testing.assert_allclose(module.gradient(x, y), jax.grad(f)(x, y), rtol=1e-4, atol=1e-5)


def test_wrong_sizes_name_the_argument() -> None:
    g = nm.from_stablehlo(exported(lambda x, y: x * y, "b, 2", "b, 2"))
    with pytest.raises(
        ShapeError, match=r"args\[1\].shape\[0\] \(= 4\) and the specification 'b' \(= 3\)(.|\n)*argument 1 is 4x2xf32"
    ):
        g(*arrays((3, 2), (4, 2)))
    with pytest.raises(ShapeError, match=r"requires shape \(\?, 2\) for argument 1, got \(3, 5\)"):
        g(*arrays((3, 2), (3, 5)))
    with pytest.raises(ShapeError, match=r"requires shape \(\?, 2\) for argument 0, got \(2,\)"):
        g(*arrays((2,), (3, 2)))
    with pytest.raises(ShapeError, match=r"Expected value >= 1 for dimension variable 'b'"):
        g(*arrays((0, 2), (0, 2)))


# ---------------------------------------------------------------- modules of other exporters


RANGE = """func.func @main(%n: tensor<i64>, %x: tensor<?xf32>) -> tensor<?xf32> {
  %s = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
  %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>
  %y = stablehlo.multiply %i, %x : tensor<?xf32>
  return %y : tensor<?xf32> }"""


def test_numbers_that_are_sizes() -> None:
    f = nm.from_stablehlo(RANGE)
    x = np.full(3, 2, np.float32)
    np.testing.assert_array_equal(f(3, x), [0, 2, 4])
    np.testing.assert_array_equal(f(np.int64(3), x), [0, 2, 4])
    np.testing.assert_array_equal(nm.grad(lambda x: nnp.sum(f(3, x)))(x), [0, 1, 2])
    np.testing.assert_array_equal(nm.jit(f, static_argnums=0)(3, x), [0, 2, 4])
    with pytest.raises(ImportIRError, match=r"operand 0 of stablehlo.dynamic_iota(.|\n)*the number in argument 0: give that as a"):
        nm.jit(f)(np.int64(3), x)
    with pytest.raises(ImportedShapeError, match=r"operands that fit together, got stablehlo.multiply(.|\n)*argument 0 is i64=4"):
        f(4, x)
    with pytest.raises(ImportedShapeError, match=r"sizes of 0 or more, got \(-1,\) as operand 0 of stablehlo.dynamic_iota"):
        f(-1, x)


def body(text: str, *, result: str, arguments: str = "%x: tensor<?xf32>") -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{text}\n return %y : {result} }}"


SIZE = """%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>"""

REFUSED = {
    "sizes from elements": (
        body(
            """%i = stablehlo.convert %x : (tensor<?xf32>) -> tensor<?xi32>
            %s = stablehlo.slice %i [0:1] : (tensor<?xi32>) -> tensor<1xi32>
            %y = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>""",
            result="tensor<?xf32>",
        ),
        r"a computed operand 0 of stablehlo.dynamic_iota(.|\n)*:4:18(.|\n)*argument 0 is 2xf32",
    ),
    "a loop that grows": (
        body(
            """%y = stablehlo.while(%a = %x) : tensor<?xf32>
            cond { %t = stablehlo.constant dense<true> : tensor<i1> stablehlo.return %t : tensor<i1> }
            do { %b = stablehlo.concatenate %a, %a, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
                 stablehlo.return %b : tensor<?xf32> }""",
            result="tensor<?xf32>",
        ),
        r"fixed shapes, got tensor<4xf32> for result 0 of stablehlo.while, which is tensor<2xf32>",
    ),
    "sizes of another type": (
        body(
            f"{SIZE} %y = stablehlo.dynamic_reshape %x, %t : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x3xf32>".replace(
                "%s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>",
                "%t = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<i32>) -> tensor<2xi32>\n",
            ),
            result="tensor<?x3xf32>",
        ),
        r"sizes that fit tensor<\?x3xf32>, got \(2, 2\) as operand 1 of stablehlo.dynamic_reshape",
    ),
    "an invalid operation": (
        body(
            """%r = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
            %p = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<i32>) -> tensor<1x2xi32>
            %s = stablehlo.reshape %r : (tensor<i32>) -> tensor<1xi32>
            %o = stablehlo.constant dense<1> : tensor<2xi32>
            %t = stablehlo.concatenate %o, %s, dim = 0 : (tensor<2xi32>, tensor<1xi32>) -> tensor<3xi32>
            %z = stablehlo.dynamic_reshape %x, %t : (tensor<?xf32>, tensor<3xi32>) -> tensor<1x1x?xf32>
            %y = "stablehlo.dynamic_conv"(%z, %z, %p) {batch_group_count = 1 : i64, feature_group_count = 1 : i64,
              dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, window_strides = array<i64: 2, 2>}
              : (tensor<1x1x?xf32>, tensor<1x1x?xf32>, tensor<1x2xi32>) -> tensor<1x1x?xf32>""",
            result="tensor<1x1x?xf32>",
        ),
        r"valid operations, got stablehlo.convolution: expects window-strides to have same dimension-size(.|\n)*:8:18",
    ),
    "a strided slice at a computed start": (
        body(
            f"""{SIZE}
            %l = stablehlo.add %i, %s : tensor<1xi32>
            %y = stablehlo.real_dynamic_slice %x, %i, %l, %s
              : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>""",
            result="tensor<?xf32>",
            arguments="%x: tensor<?xf32>, %i: tensor<1xi32>",
        ),
        r"strides of 1 for a slice with a computed start, got \(2,\) of stablehlo.real_dynamic_slice",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_at_the_call(name: str) -> None:
    source, message = REFUSED[name]
    f = nm.from_stablehlo(source)
    arguments = [np.ones(2, np.float32), np.zeros(1, np.int32)]
    with pytest.raises(ImportIRError, match=message):
        f(*arguments[: len(f.inputs)])


def test_refused_at_the_import() -> None:
    text = """%y = "stablehlo.all_to_all"(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
      replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<?xf32>) -> tensor<?xf32>"""
    with pytest.raises(ImportIRError, match=r"got stablehlo.all_to_all in main: it speaks of several devices"):
        nm.from_stablehlo(body(text, result="tensor<?xf32>"))


def test_sizes_through_loops_and_barriers() -> None:
    text = f"""{SIZE}
      %o = stablehlo.optimization_barrier %s : tensor<1xi32>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %r:3 = stablehlo.while(%k = %z, %m = %o, %a = %x) : tensor<i32>, tensor<1xi32>, tensor<?xf32>
      cond {{ %c = stablehlo.constant dense<2> : tensor<i32>
              %t = stablehlo.compare LT, %k, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %t : tensor<i1> }}
      do {{ %one = stablehlo.constant dense<1> : tensor<i32>
            %next = stablehlo.add %k, %one : tensor<i32>
            %i = stablehlo.dynamic_iota %m, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
            %b = stablehlo.add %a, %i : tensor<?xf32>
            stablehlo.return %next, %m, %b : tensor<i32>, tensor<1xi32>, tensor<?xf32> }}
      %j = stablehlo.dynamic_iota %r#1, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
      %y = stablehlo.add %r#2, %j : tensor<?xf32>"""
    f = nm.from_stablehlo(body(text, result="tensor<?xf32>"))
    np.testing.assert_array_equal(f(np.ones(4, np.float32)), [1, 4, 7, 10])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("i64=3", "requires 2 inputs, got 'i64=3'"),
        ("i64=3,4x2xf32", r"requires an input of type tensor<\?xf32>, got tensor<4x2xf32>"),
        ("i64=3,?xf32", r"requires an input of type tensor<\?xf32>, got tensor<\?xf32>"),
        ("i64=x,4xf32", "requires inputs such as 3x4xf32 or i64=3, got 'i64=x'"),
        ("i64=3,4xf3", "requires inputs such as 3x4xf32 or i64=3, got '4xf3'"),
    ],
)
def test_options_of_the_pass(inputs: str, message: str) -> None:
    with pytest.raises(PassError, match=f"nabla-specialize {message}"):
        Pipeline.parse(f"nabla-specialize{{inputs={inputs}}}").run(parse_module(RANGE))


def test_the_pass_needs_one_function() -> None:
    with pytest.raises(PassError, match="nabla-specialize requires one public function, got 2"):
        Pipeline.parse("nabla-specialize{inputs=f32}").run(parse_module(RANGE + RANGE.replace("@main", "@other")))
