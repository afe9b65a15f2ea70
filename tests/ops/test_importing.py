"""Imports: what is rewritten gives the right numbers and derivatives, and what is refused is named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).parent.parent)]

from xla import run_traced

import nabla_mlir as nm
from nabla_mlir.base.errors import ImportIRError, RuleMissingError
from nabla_mlir.dialects.context import bytecode_of, parse_module

X = np.array([0.5, -1.0, 2.0], np.float32)


def gradient(text: str, x: np.ndarray = X) -> np.ndarray:
    """The pullback of ones."""
    f = nm.from_stablehlo(text, "f")
    return np.asarray(nm.jit(lambda x: nm.vjp(f, x)[1](f(x) * 0 + 1)[0])(x))


def test_tuples_are_flattened() -> None:
    f = nm.from_stablehlo("""func.func @f(%x: tensor<3xf32>) -> tuple<tensor<3xf32>, tensor<3xf32>> {
      %t = stablehlo.tuple %x, %x : tuple<tensor<3xf32>, tensor<3xf32>>
      %a = stablehlo.get_tuple_element %t[1] : (tuple<tensor<3xf32>, tensor<3xf32>>) -> tensor<3xf32>
      %b = stablehlo.sine %a : tensor<3xf32>
      %r = stablehlo.tuple %b, %a : tuple<tensor<3xf32>, tensor<3xf32>>
      return %r : tuple<tensor<3xf32>, tensor<3xf32>> }""")
    y, x = nm.jit(f)(X)
    np.testing.assert_allclose(y, np.sin(X), rtol=1e-6)
    np.testing.assert_array_equal(x, X)


def test_composite_is_what_defines_it() -> None:
    text = """
    func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.composite "my.square" %x {decomposition = @impl} : (tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32> }
    func.func private @impl(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.multiply %x, %x : tensor<3xf32>
      return %0 : tensor<3xf32> }"""
    np.testing.assert_allclose(gradient(text), 2 * X, rtol=1e-6)


def test_shapes_that_are_constants_are_resolved() -> None:
    text = """func.func @f(%x: tensor<3xf32>) -> tensor<?x?xf32> {
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<3xf32>) -> tensor<i32>
      %m = stablehlo.constant dense<2> : tensor<1xi32>
      %a = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %s = stablehlo.concatenate %m, %a, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
      %z = stablehlo.sine %y : tensor<?x?xf32>
      return %z : tensor<?x?xf32> }"""
    np.testing.assert_allclose(gradient(text), 2 * np.cos(X), rtol=1e-6)


def test_bodies_without_a_name() -> None:
    body = """^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %p = stablehlo.multiply %a, %b : tensor<f32>
        %s = stablehlo.add %a, %b : tensor<f32>
        %r = stablehlo.add %s, %p : tensor<f32>
        stablehlo.return %r : tensor<f32>"""
    window = f"""func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%x, %z) ({{ {body} }}) {{window_dimensions = array<i64: 3>,
        padding = dense<[[2, 0]]> : tensor<1x2xi64>}} : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
      return %0 : tensor<3xf32> }}"""
    # a + b + a b = (1 + a)(1 + b) - 1: a cumulative product of 1 + x.
    f = nm.from_stablehlo(window, "f")
    np.testing.assert_allclose(nm.jit(f)(X), np.cumprod(1 + X) - 1, rtol=1e-6)
    parts = [sum(np.prod(np.delete(1 + X[:n], i)) for n in range(i + 1, 4)) for i in range(3)]
    np.testing.assert_allclose(gradient(window), parts, rtol=1e-6)


def test_map_older_names_and_a_bitcast_that_changes_nothing() -> None:
    text = """func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = "stablehlo.map"(%x) ({ ^bb0(%a: tensor<f32>):
        %c = stablehlo.constant dense<2.0> : tensor<f32>
        %s = stablehlo.sine %a : tensor<f32>
        %m = stablehlo.multiply %s, %c : tensor<f32>
        stablehlo.return %m : tensor<f32> }) {dimensions = array<i64: 0>} : (tensor<3xf32>) -> tensor<3xf32>
      %1 = stablehlo.custom_call @mhlo.sinh(%0) : (tensor<3xf32>) -> tensor<3xf32>
      %2 = stablehlo.bitcast_convert %1 : (tensor<3xf32>) -> tensor<3xf32>
      return %2 : tensor<3xf32> }"""
    np.testing.assert_allclose(gradient(text), np.cosh(2 * np.sin(X)) * 2 * np.cos(X), rtol=1e-5)


def test_the_checks_of_a_test_suite_are_left_out() -> None:
    text = """func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = call @expected() : () -> tensor<3xf32>
      %1 = stablehlo.sine %x : tensor<3xf32>
      stablehlo.custom_call @check.expect_close(%1, %0) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
      return %1 : tensor<3xf32>
    }
    func.func private @expected() -> tensor<3xf32> {
      %0 = stablehlo.constant dense<[0.5, -0.8, 0.9]> : tensor<3xf32>
      return %0 : tensor<3xf32>
    }"""
    np.testing.assert_allclose(gradient(text), np.cos(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("%0 = stablehlo.replica_id : tensor<ui32>", "stablehlo.replica_id"),
        ('%0 = "foo.bar"(%x) : (tensor<3xf32>) -> tensor<3xf32>', "foo.bar"),
        ("check.expect_eq %x, %x : tensor<3xf32>", r"check.expect_eq %x, %x : .*\n +\^"),
        ("%0 = stablehlo.create_token : !stablehlo.token", "stablehlo.create_token"),
        ("%0 = stablehlo.custom_call @strange(%x) : (tensor<3xf32>) -> tensor<?xf32>", "tensor<?xf32>"),
    ],
)
def test_refusals_name_the_operation(text: str, named: str) -> None:
    with pytest.raises(ImportIRError, match=named.replace("?", r"\?")):
        nm.from_stablehlo(f"func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {{ {text} return %x : tensor<3xf32> }}")


def test_an_unknown_custom_call_is_named() -> None:
    text = """func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.custom_call @my_target(%x) : (tensor<3xf32>) -> tensor<3xf32> return %0 : tensor<3xf32> }"""
    with pytest.raises(RuleMissingError, match="my_target"):
        gradient(text)


def test_rules_of_users_for_a_custom_call() -> None:
    nm.register_custom_call("Sharding_like", jvp=lambda outs, xs, ts, **_: [ts[0] * 3.0], batch="leading")
    text = """func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.custom_call @Sharding_like(%x) : (tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32> }"""
    f = nm.from_stablehlo(text, "f")
    np.testing.assert_allclose(nm.jit(lambda x: nm.jvp(f, (x,), (x,))[1])(X), 3 * X)


def test_unary_einsum_and_broadcasting_select() -> None:
    text = """func.func @f(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
      %p = stablehlo.constant dense<[true, false]> : tensor<2xi1>
      %z = stablehlo.constant dense<5.0> : tensor<f32>
      %0 = "stablehlo.unary_einsum"(%x) {einsum_config = "ij->ji"} : (tensor<2x3xf32>) -> tensor<3x2xf32>
      %1 = chlo.broadcast_select %p, %0, %z : (tensor<2xi1>, tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
      return %1 : tensor<3x2xf32> }"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(nm.jit(nm.from_stablehlo(text, "f"))(x), np.where([True, False], x.T, 5))
    np.testing.assert_array_equal(gradient(text, x), [[1, 1, 1], [0, 0, 0]])


def test_constant_like_under_a_map() -> None:
    f = nm.from_stablehlo("""func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = "chlo.constant_like"(%x) {value = 2.0 : f32} : (tensor<3xf32>) -> tensor<3xf32>
      %1 = stablehlo.multiply %0, %x : tensor<3xf32>
      return %1 : tensor<3xf32> }""")
    np.testing.assert_array_equal(nm.jit(nm.vmap(f))(np.stack([X, -X])), 2 * np.stack([X, -X]))


def test_transforms_in_a_module_and_functions_that_call_each_other() -> None:
    text = """
      func.func private @twice(%x: tensor<f64>) -> tensor<f64> { %y = stablehlo.add %x, %x : tensor<f64> return %y : tensor<f64> }
      func.func private @slope(%x0: tensor<f64>) -> tensor<f64> {
        %x = func.call @twice(%x0) : (tensor<f64>) -> tensor<f64>
        %one = stablehlo.constant dense<1.0> : tensor<f64>
        %y, %dx = "ad.vjp"(%x, %one) ({
        ^bb0(%a: tensor<f64>):
          %c = stablehlo.multiply %a, %a : tensor<f64>
          stablehlo.return %c : tensor<f64>
        }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f64>, tensor<f64>) -> (tensor<f64>, tensor<f64>)
        return %dx : tensor<f64>
      }
      func.func @main(%x: tensor<f64>) -> tensor<f64> {
        %0 = func.call @slope(%x) : (tensor<f64>) -> tensor<f64>
        %1 = func.call @slope(%0) : (tensor<f64>) -> tensor<f64>
        return %1 : tensor<f64>
      }"""
    f = nm.from_stablehlo(text)
    assert float(nm.jit(f)(np.float64(3.0))) == 48.0  # 4 (4 x)
    assert float(nm.grad(f)(np.float64(3.0))) == 16.0


def test_a_function_that_calls_itself_is_refused() -> None:
    text = """
      func.func private @f(%x: tensor<f32>) -> tensor<f32> {
        %y = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
        return %y : tensor<f32>
      }
      func.func @main(%x: tensor<f32>) -> tensor<f32> {
        %y = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
        return %y : tensor<f32>
      }"""
    with pytest.raises(ImportIRError, match=r"functions that do not call themselves, got @f"):
        nm.from_stablehlo(text, "main")


def test_sources_that_are_no_module_are_named() -> None:
    with pytest.raises(ImportIRError, match=r"requires the text or the bytes of a module, got int 3\."):
        nm.from_stablehlo(3)  # type: ignore[arg-type]
    with pytest.raises(ImportIRError, match=r"valid MLIR, got an error in the module, line 2, column 3: .*'garbage'"):
        nm.from_stablehlo("\n  garbage")


def test_an_imported_function_shows_its_types() -> None:
    text = "func.func @f(%x: tensor<2x?xf32>, %n: tensor<i32>) -> tensor<2x?xf32> { return %x : tensor<2x?xf32> }"
    assert repr(nm.from_stablehlo(text)) == "<f(float32[2,?], int32[]) -> float32[2,?]>"


TWO = """
  func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> { %0 = call @double(%x) : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32> }
  func.func @g(%x: tensor<3xf32>) -> tensor<3xf32> { %0 = stablehlo.sine %x : tensor<3xf32>
    return %0 : tensor<3xf32> }
  func.func private @double(%x: tensor<3xf32>) -> tensor<3xf32> { %0 = stablehlo.add %x, %x : tensor<3xf32>
    return %0 : tensor<3xf32> }"""


def test_several_entry_points() -> None:
    np.testing.assert_array_equal(nm.jit(nm.from_stablehlo(TWO, "f"))(X), 2 * X)
    np.testing.assert_allclose(nm.jit(nm.from_stablehlo(TWO, "g"))(X), np.sin(X), rtol=1e-6)
    with pytest.raises(ImportIRError, match=r"one public function, got \['f', 'g'\](.|\n)*entry=name"):
        nm.from_stablehlo(TWO)
    with pytest.raises(ImportIRError, match=r"got 'h' among \['f', 'g'\]"):
        nm.from_stablehlo(TWO, "h")


def test_bytecode() -> None:
    np.testing.assert_array_equal(nm.jit(nm.from_stablehlo(bytecode_of(parse_module(TWO)), "f"))(X), 2 * X)


@pytest.fixture
def exported() -> Any:
    """A portable artifact as `jax.export` writes it."""
    jax = pytest.importorskip("jax")
    from jax import export

    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", False)
    try:
        f = jax.jit(lambda x: jax.numpy.sin(x) * jax.nn.softmax(x))
        yield export.export(f)(jax.ShapeDtypeStruct((3,), np.float32)).mlir_module_serialized
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)


def test_portable_artifacts(exported: bytes) -> None:
    shares = np.exp(X) / np.exp(X).sum()
    f = nm.from_stablehlo(exported, "main")
    np.testing.assert_allclose(nm.jit(f)(X), np.sin(X) * shares, rtol=1e-5)
    back = np.cos(X) * shares + shares * (np.sin(X) - (np.sin(X) * shares).sum())
    np.testing.assert_allclose(nm.jit(lambda x: nm.grad(lambda x: f(x).sum())(x))(X), back, rtol=1e-4, atol=1e-6)


def test_an_artifact_of_an_unknown_version_or_cut_short(exported: bytes) -> None:
    with pytest.raises(ImportIRError, match=r"written as StableHLO_v\d+\.\d+\.\d+: is it whole"):
        nm.from_stablehlo(exported[: len(exported) // 2], "main")
    with pytest.raises(ImportIRError, match=r"vhlo\.add_v99"):
        nm.from_stablehlo('"vhlo.add_v99"() : () -> ()')


def test_shardings_and_callbacks_of_jax() -> None:
    jax = pytest.importorskip("jax")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    f = nm.from_jax(lambda x: jax.lax.with_sharding_constraint(jax.numpy.sin(x), rows) * x, X)
    got = nm.jit(nm.grad(lambda x: f(x).sum()))(X)  # there is one device
    np.testing.assert_allclose(got, np.cos(X) * X + np.sin(X), rtol=1e-5)
    with pytest.raises(ImportIRError, match=r"callbacks to Python, got .*python_cpu_callback"):
        nm.from_jax(lambda x: jax.pure_callback(np.sin, x, x), X)


def test_symbolic_shapes_that_are_called_with_static_ones() -> None:
    jax = pytest.importorskip("jax")
    from jax import export

    def f(x: Any) -> Any:
        rows = jax.nn.softmax(x) * jax.numpy.arange(x.shape[0])[:, None]
        again = jax.lax.fori_loop(0, 2, lambda _, v: jax.numpy.sin(v) + rows, x)
        return jax.lax.cond(again[0, 0] > 9, lambda: again, lambda: jax.numpy.concatenate([x, again])[::2]).mean(1)

    n, m = export.symbolic_shape("n, m", constraints=["n >= 2"])
    with jax.enable_x64(True):
        symbolic = export.export(jax.jit(f))(jax.ShapeDtypeStruct((n, m), np.float64))
        module = export.export(jax.jit(symbolic.call))(jax.ShapeDtypeStruct((4, 3), np.float64))
        x = np.linspace(-1, 1, 12).reshape(4, 3)
        wanted = jax.grad(lambda x: f(x).sum())(x)
    g = nm.from_stablehlo(module.mlir_module_serialized)
    np.testing.assert_allclose(run_traced(nm.grad(lambda x: g(x).sum()), [x]), wanted, rtol=1e-12, atol=1e-14)


_SIGN = """func.func @f(%z: tensor<3xcomplex<f64>>) -> tensor<3xcomplex<f64>> {
  %0 = stablehlo.sign %z : tensor<3xcomplex<f64>> return %0 : tensor<3xcomplex<f64>> }"""


@pytest.mark.parametrize("f", [nm.from_stablehlo(_SIGN), nm.numpy.sign], ids=["imported", "traced"])
def test_the_sign_of_a_complex_number_has_a_derivative(f: Any) -> None:
    z, t = np.array([1 - 2j, 0, -3j]), np.array([0.5 + 1j, 1, 2])
    y, dy = run_traced(lambda z, t: nm.jvp(f, (z,), (t,)), [z, t])
    unit = z / np.where(z == 0, 1, np.abs(z))
    np.testing.assert_allclose(y, unit, rtol=1e-12)
    turned = (t - unit * (np.conj(unit) * t).real) / np.where(z == 0, np.inf, np.abs(z))
    np.testing.assert_allclose(dy, np.where(z == 0, np.nan, turned), rtol=1e-12, atol=1e-15)  # it jumps at 0


def test_an_assertion_on_shapes_that_fails() -> None:
    text = """func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<3xf32>) -> tensor<i32>
      %four = stablehlo.constant dense<4> : tensor<i32>
      %p = stablehlo.compare GE, %n, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.custom_call @shape_assertion(%p, %n) {error_message = "n must be 4 or more, not {0}.",
        has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
      return %x : tensor<3xf32> }"""
    with pytest.raises(ImportIRError, match=r"'shape_assertion' fails: n must be 4 or more, not 3\."):
        nm.from_stablehlo(text)


def test_emitted_custom_calls() -> None:
    nm.register_custom_call("my_double", jvp=lambda outs, xs, ts, **_: [ts[0] + ts[0]], batch="leading")
    f = lambda x: nm.custom_call("my_double", x, results=nm.spec((3,), "f32"), backend_config="twice")  # noqa: E731
    text = str(nm.trace(nm.vmap(f), nm.spec((2, 3), "f32")).lower())
    assert "stablehlo.custom_call @my_double" in text
    assert 'backend_config = "twice"' in text
    assert "tensor<2x3xf32>) -> tensor<2x3xf32>" in text
    derivative = str(nm.trace(lambda x, ct: nm.vjp(f, x)[1](ct)[0], *[nm.spec((3,), "f32")] * 2).lower())
    assert "custom_call" not in derivative  # 2 ct


def test_selected_positions_outside_are_clamped_in_compiled_code_too() -> None:
    text = """func.func @f(%x: tensor<4xf64>, %i: tensor<5xi32>) -> tensor<5xf64> {
      %0 = "stablehlo.torch_index_select"(%x, %i) {dim = 0 : i64, batch_dims = 0 : i64} : (tensor<4xf64>, tensor<5xi32>) -> tensor<5xf64>
      return %0 : tensor<5xf64> }"""
    x, i = np.arange(4.0), np.array([-1, -9, 2, 9, 3], np.int32)
    compiled = nm.trace(nm.from_stablehlo(text, "f"), x, i, name="f").lower().compile()
    np.testing.assert_array_equal(compiled(x, i), x[np.clip(i, 0, 3)])
