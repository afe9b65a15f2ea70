"""The stages of what `jit` gives, as JAX has them: the same numbers as its calls, and as JAX's."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import TraceError

X = np.array([1.0, 2.0, 3.0])


def program(lib: Any, xp: Any) -> Any:
    @partial(lib.jit, static_argnums=(1,), static_argnames="scale")
    def power(x: Any, n: int, shift: Any = 0.5, *, scale: int = 1) -> Any:
        return xp.sum(x**n * scale + shift)

    return power


def test_values_are_those_of_calls_and_of_jax() -> None:
    f = program(nm, nnp)
    with jax.enable_x64(True):
        wanted = program(jax, jnp).lower(X, 3, scale=2).compile()(X)
    lowered = f.lower(X, 3, scale=2)
    for target in (nm.Interpreter(), "cpu"):
        np.testing.assert_allclose(lowered.compile(target)(X), wanted, rtol=1e-14)
    assert float(f(X, 3, scale=2)) == pytest.approx(float(wanted), rel=1e-14)
    assert float(f.lower(nm.spec(3, "f64"), 3, 1.0, scale=2).compile(nm.Interpreter())(X, 1.0)) == pytest.approx(
        float(wanted) + 1.5
    )
    by_name = f.lower(x=X, n=3, scale=2).compile(nm.Interpreter())(x=X)
    assert float(by_name) == pytest.approx(float(wanted))


def test_signatures_leave_static_arguments_out() -> None:
    traced = program(nm, nnp).trace(X, 2, scale=3)
    assert traced.entries[0].arguments == ("x",)
    assert traced.entries[0].name == "power"
    assert "stablehlo" in traced.lower().as_text()
    assert program(nm, nnp).eval_shape(nm.spec((2, 3), "f64"), 2) == nm.spec((), "f64")


def test_other_transforms_and_builtins() -> None:
    gradient = nm.jit(nm.grad(lambda x: nnp.sum(x**3)))
    np.testing.assert_allclose(gradient.lower(X).compile(nm.Interpreter())(X), 3 * X**2)
    np.testing.assert_allclose(nm.jit(abs, static_argnums=()).lower(-X).compile(nm.Interpreter())(-X), X)


def test_programs_are_let_go() -> None:
    count = []

    @nm.jit
    def f(x: Any) -> Any:
        count.append(0)
        return x + 1

    for _ in range(3):
        f(X)
    assert len(count) == 1
    f.clear_cache()
    np.testing.assert_array_equal([f(X), f(X)], [X + 1, X + 1])
    assert len(count) == 2


def test_default_dtypes_are_part_of_what_is_compiled() -> None:
    f = nm.jit(lambda x: (nnp.zeros(2), nnp.arange(2) * x))
    x = np.ones(2, np.float32)
    for _ in range(2):
        assert [a.dtype for a in f(x)] == [np.float32, np.float32]
        with nm.enable_x64():
            assert [[a.dtype for a in f(x)] for _ in range(2)] == [[np.float64, np.float64]] * 2


def test_all_programs_are_let_go() -> None:
    count: list[int] = []
    f = nm.jit(lambda x: count.append(0) or x + 1)
    g = nm.jit(lambda x: count.append(1) or x + 2)
    for _ in range(2):
        for h in (f, g, f, nnp.sin):
            h(X)
        nm.clear_caches()
    assert count == [0, 1, 0, 1]


def test_arguments_of_a_stage() -> None:
    f = nm.jit(lambda n, x, y, z: n * x["a"] + y * z, static_argnums=0, donate_argnames=("x", "z"))
    stage = f.lower(3, {"a": np.ones(2, np.float32)}, z=2.0, y=1.0)
    args, by_name = stage.args_info
    assert (args[0]["a"].shape, args[0]["a"].dtype, args[0]["a"].donated) == ((2,), np.float32, True)
    assert {name: info.donated for name, info in by_name.items()} == {"z": True, "y": False}
    assert stage.donate_argnums == (0, 1)
    compiled = nm.jit(lambda x: x + 1.0).lower(np.ones(4, np.float32)).compile()
    assert compiled.memory_analysis()[:2] == (16, 16)
    assert compiled.cost_analysis()["flops"] == 4.0
    assert nm.jax.devices()[0].platform == "cpu"
    (cost,) = stage.cost().values()
    assert stage.cost_analysis() == {"flops": cost.flops, "bytes accessed": cost.bytes}
    assert nm.jit(lambda x: x).lower(1.0).donate_argnums == ()
    assert nm.jit(lambda *xs: xs[0], donate_argnums=-1).lower(1.0, 2.0).donate_argnums == (1,)
    assert f.trace(3, {"a": 1.0}, 1.0, 2.0).lower(lowering_platforms=("tpu",)).args_info[0][2].donated


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="static_argnames requires names of arguments, got 'a'"):  # it has no name for callers
        nm.jit(lambda a, /, b, **others: b, static_argnames=("a", "c"))
    with pytest.raises(ValueError, match="donate_argnames requires names of arguments, got 'xs'"):
        nm.jit(lambda *xs, **others: xs, donate_argnames="xs")
    with pytest.raises(ValueError, match="donate_argnums among the 1 positional arguments, got -2"):
        nm.jit(lambda x: x, donate_argnums=(0, -2))
    with pytest.raises(TraceError, match="static_argnums among the 1 positional arguments, got 1"):
        nm.jit(lambda x: x, static_argnums=1)
    with pytest.raises(TypeError, match="positional argument"):
        program(nm, nnp).lower()
