"""Calls never change what they are given: no argument, no captured array, no state, no result handed out earlier.

Each program is called three times on the same arguments, and all bits are compared after each call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_writes import NO_REVERSE, Library, gradient, random_program
from unchanged import CALLS, bits, call_again, compiled

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.runtime import Array, Executable

pytestmark = pytest.mark.slow

DRIVERS = ("local-sync", "local-task")


def writers(xp: Any, lib: Any, transforms: Any) -> dict[str, Callable[[Any, Any], Any]]:
    """Functions of a matrix and a row that write to a copy of the matrix, or of a view of it."""
    grad, vmap = transforms.grad, transforms.vmap

    def fill(x: Any, v: Any) -> Any:
        return lib.fori_loop(0, x.shape[0], lambda i, c: c.at[i].set(v), x)

    return {
        "row": lambda x, v: x.at[1].set(v),
        "column": lambda x, v: x.at[:, 1].add(v[0]),
        "block": lambda x, v: x.at[1:3, ::2].multiply(v[0]),
        "rows": lambda x, v: x.at[np.array([2, 0, 2])].add(v),
        "elements": lambda x, v: x.at[np.array([1, 2]), np.array([0, 3])].max(v[1]),
        "times one": lambda x, v: (x * 1.0).at[0].set(v),
        "turned": lambda x, v: x[:, :1].T.at[0, 2].set(v[0]),
        "flat": lambda x, v: x.reshape(-1).at[3].set(v[0]),
        "back and forth": lambda x, v: x[::-1][::-1].at[0].set(v),
        "a slice": lambda x, v: x[1:].at[0].set(v),
        "twice": lambda x, v: (x.at[0].set(v), x.at[1].set(v)),
        "and back": lambda x, v: (x.at[0].set(v), x),
        "sorted": lambda x, v: xp.sort(x, axis=0),
        "sorted column": lambda x, v: xp.sort(x.T, axis=-1),
        "loop": fill,
        "loop and more": lambda x, v: (fill(x, v), x + 1.0),
        "choice": lambda x, v: lib.cond(v[0] > 0, lambda x, v: x.at[0].set(v), lambda x, v: x, x, v),
        "gradient": grad(lambda x, v: (x.at[0].set(0.0 * v) ** 2).sum(), (0, 1)),
        "batch": lambda x, v: vmap(lambda r: r.at[1].set(v[0]))(x),
        "batch of one": lambda x, v: vmap(lambda s: x.at[0].set(s * v))(v),
        "cumulative": lambda x, v: xp.cumsum(x, axis=0),
    }


OURS, JAX = writers(nnp, nm, nm), writers(jnp, jax.lax, jax)
SHAPES = {"small": (6, 4), "large": (300, 1024)}  # large ones are lent to IREE, not copied


def operands(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=shape).astype(np.float32), rng.normal(size=shape[1:]).astype(np.float32)


@pytest.fixture(scope="module", params=["small", pytest.param("large", marks=pytest.mark.slow)])
def artifact(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    x, v = operands(SHAPES[request.param])
    stage = compiled({name.replace(" ", "_"): (f, (x, v)) for name, f in OURS.items() if _fits(name, request.param)})
    return request.param, stage, stage.save(tmp_path_factory.mktemp("writers") / f"{request.param}.vmfb")


def _fits(name: str, size: str) -> bool:
    return size == "small" or name != "batch of one"  # which makes a matrix for each element of the row


def kinds_of_arguments(x: np.ndarray, folder: Path) -> dict[str, Any]:
    """One array in all the memory that a user may have it in."""
    aligned = np.frombuffer(bytearray(x.nbytes + 64), np.uint8)
    aligned = aligned[-aligned.ctypes.data % 64 :][: x.nbytes].view(x.dtype).reshape(x.shape)
    aligned[...] = x
    shifted = np.frombuffer(bytearray(x.nbytes + 68), np.uint8)
    shifted = shifted[-shifted.ctypes.data % 64 + 4 :][: x.nbytes].view(x.dtype).reshape(x.shape)
    shifted[...] = x
    fixed = aligned.copy()
    fixed.flags.writeable = False
    np.save(folder / "x.npy", x)
    return {
        "numpy": x.copy(),
        "aligned": aligned,
        "not aligned": shifted,
        "read-only": fixed,
        "fortran": np.asfortranarray(x),
        "memory-mapped": np.load(folder / "x.npy", mmap_mode="r"),
        "device": Array.from_numpy(x),
        "lent": Array.from_numpy(aligned, copy=False),
        "dlpack": np.from_dlpack(jnp.asarray(x)),
        "pool": Array.from_numpy(x, "local-task"),
    }


@pytest.mark.parametrize("driver", DRIVERS)
def test_loaded_artifacts(artifact: tuple[str, Any, Path], driver: str, tmp_path: Path) -> None:
    size, _, path = artifact
    loaded = nm.load(path, driver)
    x, v = operands(SHAPES[size])
    given = kinds_of_arguments(x, tmp_path)
    for number, name in enumerate(filter(lambda n: _fits(n, size), OURS)):
        want = jax.jit(JAX[name])(x, v)
        for kind, argument in given.items():
            # Large ones take turns: each kind meets several programs, and each program several kinds.
            if size == "large" and (number + list(given).index(kind)) % 4:
                continue
            got = call_again(f"{name} of {kind}", loaded[name.replace(" ", "_")], (argument, v))
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), got, want)
    assert set(bits([*given.values()])) == {x.tobytes()}


def test_compiled_stages_and_eager_calls(artifact: tuple[str, Any, Path]) -> None:
    size, stage, _ = artifact
    x, v = map(Array.from_numpy, operands(SHAPES[size]))
    for name in filter(lambda n: _fits(n, size), OURS):
        call_again(name, stage.entry(name.replace(" ", "_")), (x, v))
    if size == "small":
        call_again("jit", nm.jit(lambda *a: [f(*a) for f in OURS.values()]), (x, v))
        for name in ("row", "sorted", "flat", "gradient"):
            call_again(name, OURS[name] if name != "gradient" else nm.jit(OURS[name]), (x, v))


def test_one_array_for_several_arguments() -> None:
    x = Array.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
    f = nm.jit(lambda a, b, c: (a.at[0].set(b[1]), b.at[1].add(a[0]), c.at[2].set(a[1] + b[2])))
    a, b, c = call_again("f", f, (x, x, x))
    values = np.asarray(x)
    np.testing.assert_array_equal(a, jnp.asarray(values).at[0].set(values[1]))
    np.testing.assert_array_equal(b, jnp.asarray(values).at[1].add(values[0]))
    np.testing.assert_array_equal(c, jnp.asarray(values).at[2].set(values[1] + values[2]))


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (1, 1)])
def test_little_to_write(shape: tuple[int, int]) -> None:
    x = Array.from_numpy(np.ones(shape, np.float32))
    call_again("set", nm.jit(lambda x: (x.at[:, 0].set(5.0), x.T.at[0].add(2.0), nnp.sort(x, axis=0))), (x,))


def test_captured_arrays() -> None:
    big, small = (Array.from_numpy(np.ones(shape, np.float32)) for shape in [(512, 1024), (3,)])
    host = np.zeros(7)
    f = nm.jit(lambda i: (big.at[i].set(2.0), small.at[i].set(i * 1.0), nnp.asarray(host).at[i].set(3.0)))
    for i in (0, 1):
        call_again("f", f, (np.int32(i),), [big, small, host])


def test_results_that_are_passed_on() -> None:
    """A result may be the memory of an argument: the next call must not write to either."""
    same, write = nm.jit(lambda x: x), nm.jit(lambda x: x.at[0].set(9.0))
    x = Array.from_numpy(np.arange(4, dtype=np.float32))
    y = same(x)
    z = call_again("write", write, (y,), [x, y])
    call_again("write", write, (z,), [x, y, z])


def test_state() -> None:
    """A product whose residuals are written to; the point, and results of earlier points, stay."""

    def loss(w: Any, x: Any) -> Any:
        return (nnp.sin(w.at[0].set(w[1] * w[2])) * nnp.sort(x * w)).sum()

    w, x, v = (Array.from_numpy(np.linspace(0.1, n, 5)) for n in (1, 2, 3))
    hessian = nm.HessianOperator(loss, w, x)
    first = np.array(hessian @ np.asarray(v))
    for _ in range(CALLS):
        np.testing.assert_array_equal(hessian @ np.asarray(v), first)
    before = bits([w, x, v])
    value, gradient = hessian.update(v)
    stored = bits([value, gradient])
    hessian.update(w)
    np.testing.assert_array_equal(hessian @ np.asarray(v), first)
    assert bits([w, x, v]) == before
    assert bits([value, gradient]) == stored


# ---------------------------------------------------------------- copies are exact


def test_copies_keep_all_bits() -> None:
    """Also those of numbers that arithmetic changes: NaNs with a payload, subnormal numbers, the sign of zero."""
    for dtype, width in [(np.float32, np.uint32), (np.float64, np.uint64), (np.complex64, np.uint32)]:
        patterns = np.array([0, 1, 5, 1 << 31, (1 << 31) + 7, 0x7F800001, 0x7FC12345, 0xFF812345], width)
        if width is np.uint64:
            patterns = patterns << np.uint64(32)
        x = np.resize(patterns, 24).view(dtype).reshape(-1, 4)

        def fill(x: Any, v: Any) -> Any:
            return nm.fori_loop(1, 2, lambda i, c: c.at[i].set(v), x)

        row = x[0].copy()
        for f in (nm.jit(fill), nm.jit(lambda x, v: x.at[1].set(v))):
            got = np.asarray(call_again("fill", f, (Array.from_numpy(x), row)))
            want = x.copy()
            want[1] = row
            assert got.tobytes() == want.tobytes(), dtype


# ---------------------------------------------------------------- random programs


OURS_LIBRARY, JAX_LIBRARY = Library(nnp, nm, nm), Library(jnp, jax.lax, jax)


@pytest.mark.parametrize("first", [pytest.param(first, marks=pytest.mark.slow) for first in (0, 12, 24, 36)])
def test_random_programs_of_views_and_writes(first: int) -> None:
    rng = np.random.default_rng(first)
    x, y, captured = (rng.normal(size=(4, 4)).astype(np.float32) for _ in range(3))
    ours = {seed: random_program(seed, OURS_LIBRARY, captured) for seed in range(first, first + 12)}
    programs = {f"f{seed}": (f, (x, y)) for seed, f in ours.items()}
    programs |= {f"g{seed}": (gradient(f, OURS_LIBRARY), (x, y)) for seed, f in ours.items()}
    vmfb = compiled(programs).vmfb
    arguments = [Array.from_numpy(x), Array.from_numpy(y)]
    for seed, f in ours.items():
        theirs = random_program(seed, JAX_LIBRARY, captured)
        functions = {"f": theirs}
        if not {*f.steps} & {*NO_REVERSE}:
            functions["g"] = gradient(theirs, JAX_LIBRARY)
        # Not jitted: XLA itself writes `t.at[1:].set(t[:-1])` in place and reads what it has written (JAX 0.10.2).
        wanted = {form: function(jnp.asarray(x), jnp.asarray(y)) for form, function in functions.items()}
        for driver in DRIVERS:
            executable = Executable.load(vmfb, driver)
            for form in "fg":
                what = f"{form} of seed {seed} on {driver}: {', '.join(f.steps)}"
                call = executable.function(f"{form}{seed}")
                got = call_again(what, lambda *a, call=call: call(list(a)), arguments, [captured])
                if form in wanted:
                    assert_close(got, wanted[form], what)


def assert_close(got: Any, want: Any, what: str) -> None:
    for a, b in zip(got, want, strict=True):
        scale = max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * scale, err_msg=what)
