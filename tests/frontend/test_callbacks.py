"""Programs that call Python: what is printed, called and returned, in every transform, as JAX does; and what IREE gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors
from nabla_mlir.jax.experimental import io_callback


@pytest.fixture(autouse=True, scope="module")
def wide() -> Iterator[None]:
    with nm.enable_x64(), jax.enable_x64(True):
        yield


def steps(lib: Any, xp: Any, x: Any) -> Any:
    lib.debug.print("x = {x}, sine = {}", xp.sin(x), x=x)

    def body(i: Any, c: Any) -> Any:
        lib.debug.print("{i}: {c:.3f}", i=i, c=c)
        return c * 2

    z = lib.lax.fori_loop(0, 3, body, x)
    lib.lax.cond(x > 1, lambda: lib.debug.print("large"), lambda: lib.debug.print("small"))
    return lib.lax.while_loop(lambda c: c < 30.0, lambda c: (lib.debug.print("at {}", c), c * 3)[1], z)


MODES: dict[str, Callable[[Any, Any], Any]] = {
    "as it stands": lambda lib, xp: steps(lib, xp, 2.0),
    "jit": lambda lib, xp: lib.jit(lambda x: steps(lib, xp, x))(2.0),
    "derivative": lambda lib, xp: lib.jvp(lambda x: steps(lib, xp, x), (0.5,), (1.0,)),
    "gradient": lambda lib, xp: lib.grad(lambda x: (lib.debug.print("{}", x), x * x)[1])(3.0),
    "map": lambda lib, xp: lib.vmap(lambda x, y: (lib.debug.print("{} {}", x, y), x)[1], (0, None))(xp.arange(3), 7),
    "scan": lambda lib, xp: lib.lax.scan(lambda c, x: (c + x, lib.debug.print("{}", c)), 0, xp.arange(3))[0],
}


@pytest.mark.parametrize("mode", MODES)
def test_what_is_printed_is_what_jax_prints(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = MODES[mode](jax, jnp)
    jax.effects_barrier()
    wanted = capsys.readouterr().out
    got = MODES[mode](nm.jax, nnp)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(wanted.splitlines())
    assert lines == wanted.splitlines() or mode == "jit"  # where JAX prints in any order
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b)


def test_a_callback_is_called_at_every_run() -> None:
    seen: list[float] = []
    f = nm.jit(lambda x: (nm.jax.debug.callback(lambda v, k: seen.append(float(v) + k), x, k=1), x + 1)[1])
    assert [float(f(1.0)), float(f(2.0))] == [2.0, 3.0]
    assert seen == [2.0, 3.0]


def test_pure_callbacks_return_arrays() -> None:
    calls: list[tuple[int, ...]] = []

    def host(x: Any) -> Any:
        calls.append(x.shape)
        return np.sort(x, axis=-1)

    x = np.array([[3.0, 1.0], [0.0, -1.0]])
    run = lambda method: nm.vmap(lambda row: nm.pure_callback(host, row, row, vmap_method=method) * 2)  # noqa: E731
    for method, shapes in (("sequential", [(2,), (2,)]), ("expand_dims", [(2, 2)]), ("broadcast_all", [(2, 2)])):
        calls.clear()
        np.testing.assert_array_equal(run(method)(x), 2 * np.sort(x))
        assert calls == shapes
    with pytest.raises(NotImplementedError, match=r"vmap of pure_callback requires vmap_method, got None"):
        run(None)(x)
    np.testing.assert_array_equal(nm.jax.pmap(lambda row: nm.pure_callback(host, row, row))(x[:1]), np.sort(x[:1]))
    with pytest.raises(RuntimeError, match=r"function of the arguments that it passes, got a mismatch: missing.*'y'"):
        nm.pure_callback(lambda x, y: x, np.float64(0), 1.0)
    with pytest.raises(TypeError, match="ufunc 'add'"):  # of the function itself
        nm.pure_callback(lambda x: x + "1", np.float64(0), 1.0)
    with pytest.raises(errors.TraceError, match=r"requires vmap_method among .*got 'all'"):
        run("all")(x)

    @nm.custom_jvp
    def sine(x: Any) -> Any:
        return nm.pure_callback(np.sin, x, x)

    sine.defjvp(lambda p, t: (sine(*p), nnp.cos(p[0]) * t[0]))
    np.testing.assert_allclose(nm.grad(nm.jit(sine))(0.3), np.cos(0.3))
    with pytest.raises(errors.RuleMissingError, match=r"derivative requires a rule for pure_callback, got none"):
        nm.grad(lambda x: nm.pure_callback(np.sin, x, x))(0.3)
    with pytest.raises(errors.ShapeError, match=r"shapes that it promises, got \(1,\) for \(\)"):
        nm.pure_callback(lambda x: np.ones(1), np.float64(0), 1.0)


def test_trees_and_what_is_no_array(capsys: pytest.CaptureFixture[str]) -> None:
    nm.jit(lambda x: nm.jax.debug.print("{name}: {a[b]} {}", x, a={"b": 2 * x}, name="point"))(np.arange(2))
    assert capsys.readouterr().out == "point: [0 2] [0 1]\n"


def test_io_callbacks_keep_their_order() -> None:
    log: list[int] = []

    def note(i: Any) -> Any:
        log.append(int(i))
        return np.int64(len(log))

    assert int(nm.jit(lambda: nm.fori_loop(0, 4, lambda i, c: c + io_callback(note, np.int64(0), i, ordered=True), 0))()) == 10
    assert log == [0, 1, 2, 3]


def test_compiled_code_cannot_call_python() -> None:
    traced = nm.trace(lambda x: (nm.jax.debug.print("{}", x), x)[1], nm.spec((), "f64"), name="f")
    with pytest.raises(
        errors.RuleMissingError, match=r"compiling requires a program without calls of Python .*, got one"
    ) as caught:
        traced.lower().compile(nm.CPU())
    assert "test_callbacks.py" in str(caught.value)
    assert float(traced.compile(nm.Interpreter())(np.float64(2.0))) == 2.0


def test_a_format_that_does_not_fit() -> None:
    for fmt, args in (("{} {}", (1,)), ("{}", (1, 2)), ("{x}", (1,))):
        with pytest.raises(errors.TraceError, match=r"debug.print requires a field for each value and a value for each field, got"):
            nm.jax.debug.print(fmt, *args)
