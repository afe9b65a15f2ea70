"""Regions that use values from outside: derivatives and maps by these are right in every mode, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.jax.experimental.jet import jet
from nabla_mlir.sparse import jacobian_pattern

X = np.array([0.7, 1.3, -0.4, 1.9])
C = np.array(1.2)


@pytest.fixture(params=["interpret", pytest.param("compile", marks=pytest.mark.slow)])
def execution(request: pytest.FixtureRequest) -> Any:
    """The execution of what `_ran` runs; all else is interpreted."""
    before = nm.set_execution("interpret")
    with nm.enable_x64():
        yield request.param
    nm.set_execution(before)


def _ran(execution: str, f: Callable[..., Any], *args: Any) -> Any:
    """The results of a function: compiled as one module, or interpreted."""
    nm.set_execution(execution)
    try:
        return nm.jit(f)(*args) if execution == "compile" else f(*args)
    finally:
        nm.set_execution("interpret")


def _module(body: str, result: str = "4xf64") -> Any:
    return nm.from_stablehlo(
        f"func.func @f(%x: tensor<4xf64>, %c: tensor<f64>) -> tensor<{result}> {{\n{body}\n return %y : tensor<{result}> }}"
    )


def _region(ops: str, arity: int = 2) -> str:
    names = ", ".join(f"%{name}: tensor<f64>" for name in "abde"[:arity])
    return f"({{\n^bb0({names}):\n{ops}\n}})"


def _returned(*names: str) -> str:
    return f'"stablehlo.return"({", ".join(names)}) : ({", ".join(["tensor<f64>"] * len(names))}) -> ()'


_SUM = f"%p = stablehlo.multiply %b, %c : tensor<f64>\n %q = stablehlo.add %a, %p : tensor<f64>\n {_returned('%q')}"
_PRODUCT = f"%p = stablehlo.multiply %a, %b : tensor<f64>\n %q = stablehlo.multiply %p, %c : tensor<f64>\n {_returned('%q')}"
_NEW = f"%p = stablehlo.multiply %b, %c : tensor<f64>\n {_returned('%p')}"
_ONE = "%one = stablehlo.constant dense<1.5> : tensor<f64>"


def _scatter(ops: str, indices: str, unique: str = "false") -> Any:
    return _module(f"""%i = stablehlo.constant dense<{indices}> : tensor<3x1xi32>
      %u = stablehlo.slice %x [1:4] : (tensor<4xf64>) -> tensor<3xf64>
      %v = stablehlo.sine %u : tensor<3xf64>
      %y = "stablehlo.scatter"(%x, %i, %v) <{{indices_are_sorted = false, unique_indices = {unique},
        scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 1>}}> {_region(ops)} : (tensor<4xf64>, tensor<3x1xi32>, tensor<3xf64>) -> tensor<4xf64>""")


PROGRAMS: dict[str, Callable[[], Any]] = {
    "scatter": lambda: _scatter(_SUM, "[[0], [2], [3]]", "true"),
    "scatter, repeated": lambda: _scatter(_SUM, "[[1], [1], [9]]"),
    "scatter, product": lambda: _scatter(_PRODUCT, "[[2], [0], [2]]"),
    "scatter, new": lambda: _scatter(_NEW, "[[3], [0], [3]]"),
    "scatter, capture": lambda: _scatter(_returned("%c"), "[[3], [0], [3]]"),
    "reduce": lambda: _module(
        f"{_ONE}\n"
        f"""%y = "stablehlo.reduce"(%x, %one) <{{dimensions = array<i64: 0>}}>
      {_region(_PRODUCT)} : (tensor<4xf64>, tensor<f64>) -> tensor<f64>""",
        "f64",
    ),
    "reduce of two": lambda: _module(
        f"""{_ONE}
      %s = stablehlo.sine %x : tensor<4xf64>
      %z:2 = "stablehlo.reduce"(%x, %s, %one, %c) <{{dimensions = array<i64: 0>}}> {
            _region(
                f'''%p = stablehlo.multiply %a, %d : tensor<f64>
        %q = stablehlo.multiply %p, %c : tensor<f64>
        %r = stablehlo.add %b, %e : tensor<f64>
        {_returned("%q", "%r")}''',
                4,
            )
        } : (tensor<4xf64>, tensor<4xf64>, tensor<f64>, tensor<f64>) -> (tensor<f64>, tensor<f64>)
      %y = stablehlo.multiply %z#0, %z#1 : tensor<f64>""",
        "f64",
    ),
    "reduce_window": lambda: _module(
        f"""{_ONE}
      %y = "stablehlo.reduce_window"(%x, %one) <{{window_dimensions = array<i64: 2>}}> {_region(_PRODUCT)}
        : (tensor<4xf64>, tensor<f64>) -> tensor<3xf64>""",
        "3xf64",
    ),
    "map": lambda: _module(f"""%y = "stablehlo.map"(%x) <{{dimensions = array<i64: 0>}}> {
        _region(f"%p = stablehlo.multiply %a, %c : tensor<f64> %q = stablehlo.sine %p : tensor<f64> {_returned('%q')}", 1)
    }
        : (tensor<4xf64>) -> tensor<4xf64>"""),
    "sort": lambda: _module(
        f"""%y = "stablehlo.sort"(%x) <{{dimension = 0 : i64, is_stable = true}}> {
            _region(
                '''%p = stablehlo.multiply %a, %c : tensor<f64>
        %q = stablehlo.multiply %b, %c : tensor<f64>
        %r = stablehlo.compare LT, %p, %q : (tensor<f64>, tensor<f64>) -> tensor<i1>
        "stablehlo.return"(%r) : (tensor<i1>) -> ()'''
            )
        } : (tensor<4xf64>) -> tensor<4xf64>"""
    ),
    "select_and_scatter, select": lambda: _module(f"""{_ONE}
      %s = stablehlo.slice %x [0:2] : (tensor<4xf64>) -> tensor<2xf64>
      %t = stablehlo.sine %s : tensor<2xf64>
      %y = "stablehlo.select_and_scatter"(%x, %t, %one) <{{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}}>
        {
        _region('''%p = stablehlo.multiply %a, %c : tensor<f64>
        %q = stablehlo.multiply %b, %c : tensor<f64>
        %r = stablehlo.compare GE, %p, %q : (tensor<f64>, tensor<f64>) -> tensor<i1>
        "stablehlo.return"(%r) : (tensor<i1>) -> ()''').removesuffix(")")
    }, {_region(f"%p = stablehlo.add %a, %b : tensor<f64> {_returned('%p')}").removeprefix("(")}
        : (tensor<4xf64>, tensor<2xf64>, tensor<f64>) -> tensor<4xf64>"""),
    "while": lambda: _module("""%zero = stablehlo.constant dense<0> : tensor<i32>
      %unit = stablehlo.constant dense<1> : tensor<i32>
      %three = stablehlo.constant dense<3> : tensor<i32>
      %z:2 = stablehlo.while(%i = %zero, %w = %x) : tensor<i32>, tensor<4xf64>
        cond { %t = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %t : tensor<i1> }
        do { %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f64>) -> tensor<4xf64>
          %p = stablehlo.multiply %w, %b : tensor<4xf64>
          %s = stablehlo.sine %p : tensor<4xf64>
          %n = stablehlo.add %i, %unit : tensor<i32>
          stablehlo.return %n, %s : tensor<i32>, tensor<4xf64> }
      %y = stablehlo.add %z#1, %x : tensor<4xf64>"""),
    "if": lambda: _module(f"""{_ONE}
      %t = stablehlo.compare LT, %c, %one : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f64>) -> tensor<4xf64>
      %y = "stablehlo.if"(%t) ({{ %p = stablehlo.multiply %x, %b : tensor<4xf64> %q = stablehlo.sine %p : tensor<4xf64>
        "stablehlo.return"(%q) : (tensor<4xf64>) -> () }}, {{ "stablehlo.return"(%x) : (tensor<4xf64>) -> () }})
        : (tensor<i1>) -> tensor<4xf64>"""),
    "case": lambda: _module("""%n = stablehlo.convert %c : (tensor<f64>) -> tensor<i32>
      %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f64>) -> tensor<4xf64>
      %y = "stablehlo.case"(%n) ({ "stablehlo.return"(%x) : (tensor<4xf64>) -> () },
        { %p = stablehlo.multiply %x, %b : tensor<4xf64> %q = stablehlo.sine %p : tensor<4xf64>
        "stablehlo.return"(%q) : (tensor<4xf64>) -> () }, { "stablehlo.return"(%b) : (tensor<4xf64>) -> () })
        : (tensor<i32>) -> tensor<4xf64>"""),
    "checkpoint": lambda: lambda x, c: nm.checkpoint(lambda: nnp.sin(x * c) * c)(),
    "linear_solve": lambda: (
        lambda x, c: nm.jax.lax.custom_linear_solve(
            lambda v: c * v + 0.1 * v.sum(), x * x, lambda f, b: b / c - b.sum() * 0.1 / (c * (c + 0.4)), symmetric=True
        )
    ),
    "scan": lambda: lambda x, c: nm.scan(lambda s, e: (s * c + e, s), c, x)[1],
    "inner grad": lambda: lambda x, c: nm.grad(lambda z: (nnp.sin(z * c) * c).sum())(x),
}


def _weighted(f: Any) -> Callable[[Any], Any]:
    """A number that depends on all results, of a vector that holds both arguments."""

    def g(z: Any) -> Any:
        y = f(z[:4], z[4])
        return (y * y * nnp.arange(1.0, y.size + 1.0).reshape(y.shape)).sum()

    return g


Z = np.array([*X, C])


def _slopes(g: Callable[[Any], Any]) -> np.ndarray:
    step = 1e-5
    ends = [[np.asarray(g(Z + s * step * e)) for s in (1, -1)] for e in np.eye(5)]
    return np.stack([(a - b) / (2 * step) for a, b in ends], -1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_by_captured_values(name: str, execution: str) -> None:
    g = _weighted(PROGRAMS[name]())
    slope = _slopes(g)
    assert abs(slope[4]) > 0.1 or "so" in name or "select" in name, "the program depends on the captured value"
    v = np.array([0.3, -0.2, 0.5, 0.1, 0.7])
    batch = np.stack([Z, Z * 1.01])
    modes = ("fwd_rev", "rev_rev", "rev_fwd", "fwd_fwd") if execution == "interpret" else ("fwd_rev", "rev_rev")
    is_mapped = name != "sort" and "select" not in name

    def derivatives(z: Any) -> Any:
        rows = nm.vmap(nm.grad(g))(nnp.stack([z, z * 1.01])) if is_mapped else None
        return nm.grad(g)(z), nm.jvp(g, (z,), (v,))[1], rows, [nm.hessian(g, mode=mode)(z) for mode in modes]

    gradient, tangent, rows, hessians = _ran(execution, derivatives, Z)
    np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(tangent, slope @ v, rtol=1e-7, atol=1e-7)
    if is_mapped:
        np.testing.assert_allclose(rows, [nm.grad(g)(z) for z in batch], rtol=1e-12)
    curvature = _slopes(nm.grad(g))
    np.testing.assert_allclose(curvature, curvature.T, rtol=1e-5, atol=1e-5)
    for mode, hessian in zip(modes, hessians, strict=True):
        np.testing.assert_allclose(hessian, curvature, rtol=1e-6, atol=1e-6, err_msg=mode)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("sort", "select_and_scatter, select")])
def test_maps_over_captured_values(name: str, execution: str) -> None:
    f = PROGRAMS[name]()
    cs, xs = C * np.array([1.0, 1.05, 0.9]), np.stack([X, X * 1.1, X - 0.1])
    by_capture, by_both, by_argument = _ran(
        execution, lambda xs, cs: (nm.vmap(f, (None, 0))(X, cs), nm.vmap(f)(xs, cs), nm.vmap(f, (0, None))(xs, C)), xs, cs
    )
    np.testing.assert_allclose(by_capture, [f(X, c) for c in cs], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(by_both, [f(x, c) for x, c in zip(xs, cs, strict=True)], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(by_argument, [f(x, C) for x in xs], rtol=1e-12, atol=1e-14)
    if execution == "interpret":
        twice = nm.vmap(nm.vmap(f, (None, 0)), (0, None))(xs, cs)
        np.testing.assert_allclose(twice, [[f(x, c) for c in cs] for x in xs], rtol=1e-12, atol=1e-14)
        slope = nm.jacrev(nm.vmap(f, (None, 0)), argnums=1)(X, cs)
        each = np.stack([nm.jacfwd(f, argnums=1)(X, c) for c in cs])
        for i in range(3):
            np.testing.assert_allclose(slope[i, ..., i], each[i], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["scatter", "scatter, product", "reduce", "reduce of two", "reduce_window", "map", "checkpoint"])
@pytest.mark.parametrize("execution", ["interpret"], indirect=True)
def test_taylor_series_of_captured_values(name: str, execution: str) -> None:
    f = PROGRAMS[name]()
    _, (first, second) = jet(lambda c: f(X, c), (C,), [[1.0, 0.0]])
    np.testing.assert_allclose(first, nm.jacfwd(f, argnums=1)(X, C), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(second, nm.jacfwd(nm.jacfwd(f, argnums=1), argnums=1)(X, C), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("execution", ["interpret"], indirect=True)
def test_patterns_of_captured_values(name: str, execution: str) -> None:
    f = PROGRAMS[name]()
    dense = np.concatenate(
        [np.asarray(nm.jacfwd(f)(X, C)).reshape(-1, 4), np.asarray(nm.jacfwd(f, argnums=1)(X, C)).reshape(-1, 1)], 1
    )
    pattern = jacobian_pattern(lambda z: nnp.ravel(f(z[:4], z[4])), nm.spec(5, "f64"))
    assert pattern.to_dense()[dense != 0].all()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "select_and_scatter": (
        lambda: _module(f"""{_ONE}
      %s = stablehlo.slice %x [0:2] : (tensor<4xf64>) -> tensor<2xf64>
      %y = "stablehlo.select_and_scatter"(%x, %s, %one) <{{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}}>
        {
            _region('''%r = stablehlo.compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
        "stablehlo.return"(%r) : (tensor<i1>) -> ()''').removesuffix(")")
        }, {_region(_SUM).removeprefix("(")}
        : (tensor<4xf64>, tensor<2xf64>, tensor<f64>) -> tensor<4xf64>"""),
        "stablehlo.select_and_scatter",
    ),
    "custom_jvp": (lambda: _with_rule(True), "argument"),
    "custom_vjp": (lambda: _with_rule(False), "argument"),
}


def _with_rule(is_forward: bool) -> Any:
    def f(x: Any, c: Any) -> Any:
        if is_forward:
            inner = nm.custom_jvp(lambda x: x * c)
            inner.defjvp(lambda primals, tangents: (inner(*primals), tangents[0] * c))
        else:
            inner = nm.custom_vjp(lambda x: x * c)
            inner.defvjp(lambda x: (x * c, None), lambda _, ct: (ct * c,))
        return inner(x)

    return f


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("execution", ["interpret"], indirect=True)
def test_refused_by_name(name: str, execution: str) -> None:
    make, message = REFUSED[name]
    g = _weighted(make())
    v = np.ones(5)
    for call in (
        lambda: nm.grad(g)(Z),
        lambda: nm.jvp(g, (Z,), (v,)),
        lambda: nm.hvp(g)(Z, v),
        lambda: nm.vmap(nm.grad(g))(Z[None]),
    ):
        with pytest.raises(RuleMissingError, match=message) as error:
            call()
        assert error.value.help
