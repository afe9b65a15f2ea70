"""Arguments chosen by their positions, in everything that takes argnums: from the end, several, and what is refused."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError, TraceError
from nabla_mlir.tools.requests import apply_transforms, imported_specs, jvp_of, vjp_of

jax.config.update("jax_enable_x64", True)
X, Y, Z = np.array([1.0, 2.0]), np.array([3.0, 0.5]), np.array([0.2, 0.7])


def loss(x: Any, y: Any, z: Any) -> Any:
    return ((x * y) ** 2 * z).sum() + (z * z * y).sum()


def elements(x: Any, y: Any, z: Any) -> Any:
    return x * y * y * z


GRADIENTS = ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian"]


@pytest.mark.slow
@pytest.mark.parametrize("argnums", [0, -1, -3, (0, 2), (2, 0), (-1, 0), [1], np.int64(1), (np.int32(-2),)])
@pytest.mark.parametrize("name", GRADIENTS)
def test_positions_as_in_jax(name: str, argnums: Any) -> None:
    f = elements if name.startswith("jac") else loss
    ours, theirs = (getattr(m, name)(f, argnums=a) for m, a in ((nm, argnums), (jax, _plain(argnums))))
    found, wanted = jax.tree.leaves(ours(X, Y, Z)), jax.tree.leaves(theirs(X, Y, Z))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def _plain(argnums: Any) -> Any:
    return int(argnums) if hasattr(argnums, "__index__") else tuple(int(i) for i in argnums)


@pytest.mark.parametrize("argnums", [1, -1, (0, 1), (2, 0), (-1,), [1, 2]])
def test_products_of_several_arguments(argnums: Any) -> None:
    values, chosen = (X, Y, Z), [i % 3 for i in ([argnums] if isinstance(argnums, int) else argnums)]
    xs, vs = tuple(values[i] for i in chosen), tuple(np.cos(values[i]) for i in chosen)
    rest = [a for i, a in enumerate(values) if i not in chosen]
    slopes = lambda *xs: oracle.grad(loss, tuple(chosen))(*nm_merged(chosen, xs, rest))  # noqa: E731
    wanted = oracle.jvp(slopes, xs, vs)[1]
    one = isinstance(argnums, int)
    found = nm.hvp(loss, argnums)(xs[0] if one else xs, vs[0] if one else vs, *rest)
    module = nm.hvp_module(loss, xs[0] if one else xs, *rest, argnums=argnums, entry_points=("update", "apply"))
    prepared = module.compile(nm.Interpreter())
    prepared.entry("update")(xs[0] if one else xs, *rest)
    for out in (found, prepared.entry("apply")(vs[0] if one else vs)):
        for a, b in zip([out] if one else out, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def nm_merged(chosen: list[int], xs: Any, rest: Any) -> list[Any]:
    others, given = iter(rest), dict(zip(chosen, xs, strict=True))
    return [given[i] if i in given else next(others) for i in range(len(xs) + len(rest))]


def test_names_of_the_arguments_of_a_product() -> None:
    names = lambda f, argnums: list(inspect.signature(nm.hvp(f, argnums)).parameters)  # noqa: E731
    assert names(loss, -1) == ["z", "v", "x", "y"]
    assert names(loss, (0, 1)) == ["x", "v", "z"]
    assert names(lambda x, v, w: x, (1, 2)) == ["point", "v", "x"]
    assert names(lambda x, v: x, 0) == ["x", "vector", "v"]
    assert names(lambda x, y, /: x, 1) == ["y", "v", "x"]
    assert names(lambda *xs: xs, -1) == ["x", "v", "rest", "kwargs"]


BAD = [
    (0.5, r"requires integers as argnums, got 0\.5"),
    (np.array([0, 1]), r"requires integers as argnums, got array\(\[0, 1\]\)"),
    ((0, None), "requires integers as argnums, got None"),
    (True, "requires integers as argnums, got True"),
    ("x", "requires integers as argnums, got 'x'"),
    ((0, 0), r"requires each position once in argnums, got \(0, 0\)"),
    ((0, -3), r"requires each position once in argnums, got \(0, -3\)"),
    (3, "requires argnums among the 3 positional arguments, got 3"),
    ((0, -4), "requires argnums among the 3 positional arguments, got -4"),
]


@pytest.mark.parametrize(("argnums", "message"), BAD)
def test_bad_positions_are_refused_by_name(argnums: Any, message: str) -> None:
    for name in (*GRADIENTS, "hvp"):
        who = {"value_and_grad": "value_and_grad|grad", "hessian": "hessian|jacfwd|jacrev"}.get(name, name)
        with pytest.raises(TraceError, match=f"({who}) {message}"):
            getattr(nm, name)(elements if name.startswith("jac") else loss, argnums)(X, Y, Z)
    for maker in (nm.hvp_module, nm.jacobian_module):
        xs = (X,) * (len(argnums) if isinstance(argnums, tuple) else 1)
        with pytest.raises(TraceError, match=f"a prepared product {message}"):
            maker(loss, X if len(xs) == 1 else xs, *[Y] * (3 - len(xs)), argnums=argnums)
    for maker in (jvp_of, vjp_of):
        with pytest.raises(TraceError, match=message):
            maker(loss, argnums)(X, Y, Z, X)
    static = message.replace("argnums", "static_argnums")
    for f in (lambda x, y, z: x, lambda x, y, z=1, *, w=2: x):
        with pytest.raises(TraceError, match=f"jit {static}"):
            nm.jit(f, static_argnums=argnums)(X, Y, Z)
    with pytest.raises(TraceError, match=f"checkpoint {static}"):
        nm.checkpoint(loss, static_argnums=argnums)(X, Y, Z)
    for rule in (nm.custom_jvp, nm.custom_vjp):
        with pytest.raises(TraceError, match=rule.__name__ + " " + message.replace("argnums", "nondiff_argnums")):
            rule(loss, nondiff_argnums=argnums)


def test_static_arguments() -> None:
    calls: list[Any] = []

    def power(x: Any, n: int) -> Any:
        calls.append(n)
        assert isinstance(n, int)
        return x**n

    for argnums in (1, -1, (1,), np.int64(-1)):
        f = nm.jit(power, static_argnums=argnums)
        calls.clear()
        assert f(X, 2).tolist() == f(X, n=2).tolist() == [1, 4]  # by name they are as static
        assert f(X, 3).tolist() == [1, 8]
        assert set(calls) == {2, 3}
    assert nm.jit(lambda *xs: xs[0] ** xs[-1], static_argnums=-1)(X, 3).tolist() == [1, 8]
    assert nm.grad(nm.checkpoint(lambda x, n: (x**n).sum(), static_argnums=-1))(X, 3).tolist() == [3, 12]


def test_rules_of_ones_own_count_from_the_end() -> None:
    @nm.custom_vjp
    def scale(x: Any, k: Any) -> Any:
        return x * k

    scale.nondiff_argnums = (-1,)
    scale.defvjp(lambda x, k: (x * k, None), lambda k, _, ct: (ct * (k + 1),))
    assert nm.grad(lambda x: scale(x, 2.0).sum())(X).tolist() == [3, 3]


@pytest.mark.parametrize("argnums", ["-1", "(0, 2)", "(1,)", "1"])
def test_transforms_of_the_command_line(argnums: str) -> None:
    source = """func.func @f(%x: tensor<2xf64>, %y: tensor<3xf64>, %z: tensor<4xf64>) -> tensor<f64> {
      %zero = stablehlo.constant dense<0.0> : tensor<f64>
      %a = stablehlo.multiply %x, %x : tensor<2xf64>
      %b = stablehlo.multiply %y, %y : tensor<3xf64>
      %c = stablehlo.multiply %z, %z : tensor<4xf64>
      %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
      %1 = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
      %2 = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<f64>
      %3 = stablehlo.multiply %0, %1 : tensor<f64>
      %4 = stablehlo.multiply %3, %2 : tensor<f64>
      return %4 : tensor<f64>
    }"""
    f = nm.from_stablehlo(source)
    for name in ("hvp", "jvp", "vjp", "grad"):
        text = f"{name}{{argnums={argnums}}}"
        specs = imported_specs(f, [text])
        traced = nm.trace(apply_transforms(f, [text]), *specs)  # they fit
        assert traced.entries[0].outputs
    with pytest.raises(TraceError, match="hvp requires argnums among the 3 positional arguments, got 3"):
        imported_specs(f, ["hvp{argnums=3}"])


# ---------------------------------------------------------------- holomorphic

COMPLEX = np.array([0.3 + 0.4j, -0.2 + 1.1j])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jacfwd", "jacrev"])
def test_holomorphic_jacobians_as_in_jax(name: str) -> None:
    f = lambda xp: lambda z: xp.exp(z) * z[0]  # noqa: E731
    found = getattr(nm, name)(f(nnp), holomorphic=True)(COMPLEX)
    np.testing.assert_allclose(found, getattr(jax, name)(f(jnp), holomorphic=True)(COMPLEX), rtol=1e-12)
    mode = name[3:] + "_rev"
    total = lambda xp: lambda z: xp.sum(xp.exp(z) * z[0])  # noqa: E731
    found = nm.hessian(total(nnp), mode=mode, holomorphic=True)(COMPLEX)
    np.testing.assert_allclose(found, oracle.hessian(total(jnp), holomorphic=True)(COMPLEX), rtol=1e-12)


def test_a_complex_function_of_real_arguments_has_a_forward_jacobian_only() -> None:
    f = lambda x: x * (1 + 2j)  # noqa: E731
    np.testing.assert_allclose(nm.jacfwd(f)(X), np.eye(2) * (1 + 2j))
    with pytest.raises(DtypeError, match="jacrev requires real results, got complex128 at result"):
        nm.jacrev(f)(X)


@pytest.mark.parametrize("transform", [nm.jacfwd, nm.jacrev, nm.grad])
def test_what_is_not_holomorphic_is_refused(transform: Any) -> None:
    square = lambda z: nnp.sum(z * z)  # noqa: E731
    without = "requires real arguments, got complex128 at argument" if transform is nm.jacfwd else "requires (a )?real results?"
    with pytest.raises(DtypeError, match=without):
        transform(square)(COMPLEX)
    with pytest.raises(DtypeError, match="with holomorphic=True requires complex arguments, got float64 at argument"):
        transform(square, holomorphic=True)(X)
    with pytest.raises(DtypeError, match=r"requires (a )?complex results?, got float64"):
        transform(lambda z: nnp.sum(z.real), holomorphic=True)(COMPLEX)


@pytest.mark.parametrize("trace", [nm.make_jaxpr, nm.jax.make_jaxpr])
def test_static_arguments_of_traces(trace: Any) -> None:
    f = lambda x, n: x * n  # noqa: E731
    assert str(trace(f, static_argnums=-1)(1.0, 3)) == str(trace(f, static_argnums=(1,))(1.0, 3))
    with pytest.raises(TraceError, match="make_jaxpr requires static_argnums among the 2 positional arguments, got 2"):
        trace(f, static_argnums=2)(1.0, 3)
    with pytest.raises(TraceError, match="pmap requires static_broadcasted_argnums among the 2 positional arguments, got 5"):
        nm.jax.pmap(lambda *xs: xs[0], static_broadcasted_argnums=5)(np.ones(1), 3)
    assert float(nm.jax.pmap(f, in_axes=(0, None), static_broadcasted_argnums=1)(np.ones(1), 3)[0]) == 3.0
