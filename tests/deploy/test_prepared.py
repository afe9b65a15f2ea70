"""Prepared products as artifacts: moved, applied, saved, loaded, and compared with JAX in f64."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DeployError, DtypeError, ShapeError, TraceError
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.lowering import legalize
from nabla_mlir.runtime.array import Array

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(1)
BLOCK = 3


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def loss(xp: Any, params: Any, rows: Any, targets: Any) -> Any:
    hidden = xp.tanh(rows @ params["w"] + params["b"])
    return xp.mean((xp.sum(hidden, axis=1) - targets) ** 2)


def ours(params: Any, rows: Any, targets: Any) -> Any:
    """A small network."""
    return loss(nnp, params, rows, targets)


PARAMS = {"w": nm.spec((3, 4), "f64"), "b": nm.spec(4, "f64")}
DATA = nm.spec((10, 3), "f64"), nm.spec(10, "f64")


def point() -> tuple[Any, np.ndarray, np.ndarray]:
    return {"w": normal(3, 4), "b": normal(4)}, normal(10, 3), normal(10)


def direction() -> Any:
    return {"w": normal(3, 4), "b": normal(4)}


def jax_loss(params: Any, rows: Any, targets: Any) -> Any:
    return loss(jnp, params, rows, targets)


def jax_hvp(args: Any, v: Any) -> Any:
    return jax.jvp(lambda p: jax.grad(jax_loss)(p, *args[1:]), (args[0],), (v,))[1]


def close(got: Any, want: Any, tolerance: float = 1e-9) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def stacked(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *xs: np.stack(xs), *trees)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    stage = nm.hvp_module(ours, PARAMS, *DATA, block=BLOCK, entry_points="all")
    return stage.compile(nm.CPU("host")).save(tmp_path_factory.mktemp("prepared") / "hvp.vmfb")


@pytest.fixture
def module(artifact: Path) -> Any:
    return nm.load(artifact).clone()


def test_what_is_compiled_is_called_as_what_is_loaded(artifact: Path, tmp_path: Path) -> None:
    compiled = nm.hvp_module(ours, PARAMS, *DATA, block=BLOCK, entry_points="all").compile(nm.CPU("host"))
    loaded = nm.load(artifact)
    assert set(loaded.entry_points) <= set(dir(compiled))
    args, v = point(), direction()
    close(compiled.update(*args), loaded.update(*args), 0)
    close(compiled.apply(v), loaded.apply(v), 0)
    assert compiled.apply.__doc__ == loaded.apply.__doc__
    with pytest.raises(AttributeError, match=r"this module has the entry points value, gradient, .*, not 'hvp'"):
        compiled.hvp  # noqa: B018
    spec = nm.spec(2, "f64")
    product = nm.trace(nm.hvp(lambda x: (x**3).sum()), spec, spec, name="hvp").lower().compile()
    for holder in (product, nm.load(product.save(tmp_path / "product.vmfb"))):
        assert holder.hvp(np.array([1.0, 2.0]), np.ones(2)).tolist() == [6.0, 12.0]


def test_every_entry_point(module: Any) -> None:
    for _ in range(2):  # the second time at another point, with other data
        args, v = point(), direction()
        value, gradient = jax.value_and_grad(jax_loss)(*args)
        product = jax_hvp(args, v)
        close(module.value(*args), value)
        close(module.gradient(*args), gradient)
        close(module.update(*args), {"value": value, "gradient": gradient})
        close(module.apply(v), product)
        close(module.apply(jax.tree.map(lambda x: -2 * x, v)), jax.tree.map(lambda x: -2 * x, product))
        several = [direction() for _ in range(BLOCK)]
        close(module.apply_block(stacked(several)), stacked([jax_hvp(args, d) for d in several]))
        close(module.quadratic(v), sum(np.vdot(v[k], product[k]) for k in v))
        assert bool(module.is_finite())
        other = point()
        close(module.apply_at(other[0], v, *other[1:]), jax_hvp(other, v))
        at = module.value_grad_hvp(other[0], v, *other[1:])
        close(at["product"], jax_hvp(other, v))
        close(at["value"], jax_loss(*other))
        close(module.apply(v), product)  # the state is where it was


def test_self_check(module: Any) -> None:
    module.update(*point())
    report = {name: float(x) for name, x in module.self_check().items()}
    assert report["linearity"] <= report["rounding"] < 1e-12
    assert report["symmetry"] <= report["rounding"]
    assert report["finite_difference"] <= report["expected_difference"] < 1e-5


def test_apply_before_update_is_an_error(module: Any) -> None:
    for call in (lambda: module.apply(direction()), lambda: module.self_check(), lambda: module.is_finite()):
        with pytest.raises(DeployError, match="requires a point, got a call before the first update") as caught:
            call()
        assert caught.value.where.filename == __file__
        assert "call update(x, ...)" in caught.value.help


def test_results_know_the_version_of_their_point(module: Any) -> None:
    v = direction()
    assert module.update(*point())["value"].version == 1
    assert module.apply(v)["w"].version == 1
    assert module.update(*point())["value"].version == 2
    assert module.apply(v)["w"].version == 2
    assert module.quadratic(v).version == 2
    assert module.value(*point()).version is None


def test_a_point_that_is_not_finite_is_seen(module: Any) -> None:
    params, rows, targets = point()
    rows[0, 0] = np.nan
    module.update(params, rows, targets)
    assert not bool(module.is_finite())


def test_clones_have_a_state_of_their_own(module: Any) -> None:
    first, second, v = point(), point(), direction()
    other = module.clone()
    module.update(*first)
    other.update(*second)
    close(module.apply(v), jax_hvp(first, v))
    close(other.apply(v), jax_hvp(second, v))


def test_eight_threads(module: Any) -> None:
    args, vectors = point(), [direction() for _ in range(8)]
    module.update(*args)
    wrong: list[Any] = []

    def work(v: Any) -> None:
        want = jax.tree.map(np.asarray, module.apply(v))
        for _ in range(50):
            got = module.apply(v)
            wrong.extend(k for k in want if not np.array_equal(want[k], np.asarray(got[k])))

    threads = [threading.Thread(target=work, args=(v,)) for v in vectors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    close(module.apply(vectors[0]), jax_hvp(args, vectors[0]))


def test_repeated_calls_leak_nothing(module: Any) -> None:
    args, v = point(), direction()

    def pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    def rounds(n: int) -> Any:
        for _ in range(n):
            module.update(*args)
            result = module.apply(v)
        return np.asarray(result["w"])

    first = rounds(2000)
    before = pages()
    assert np.array_equal(rounds(8000), first)
    assert pages() - before < 256, "more than a megabyte in 8000 rounds"


def empty(aligned: bool) -> Any:
    """Memory for a product: of the device's kind, or anywhere."""
    shapes = {"w": (3, 4), "b": (4,)}
    return {k: Array.empty(s, "f8") if aligned else np.full(s, np.nan) for k, s in shapes.items()}


@pytest.mark.parametrize("on_device", [True, False])
def test_results_in_memory_of_the_caller(module: Any, on_device: bool) -> None:
    args, v = point(), direction()
    gradient = empty(on_device)
    value = np.zeros(())
    results = module.update_into(*args, out={"value": value, "gradient": gradient})
    want = jax.value_and_grad(jax_loss)(*args)
    close({"value": value, "gradient": gradient}, {"value": want[0], "gradient": want[1]})
    assert results["value"].version == 1
    out = empty(on_device)
    for scale in (1.0, -2.0):
        got = module.apply_into(jax.tree.map(lambda x, s=scale: s * x, v), out)
        close(out, jax.tree.map(lambda x, s=scale: s * x, jax_hvp(args, v)))
        close(got, out)
    assert (got["w"] is out["w"]) == on_device
    assert got["w"].version == 1
    block = stacked([direction() for _ in range(BLOCK)])
    many = jax.tree.map(np.zeros_like, block)
    module.apply_block_into(block, many)
    close(many, module.apply_block(block), 0)


def test_large_memory_of_the_caller_is_written_directly() -> None:
    """Also with what IREE fills or copies instead of computing: here the zeros of a linear part."""
    n = 1 << 14
    like = {"linear": nm.spec(n, "f64"), "cubic": nm.spec(n, "f64")}
    used = ("update", "apply", "apply_into")
    stage = nm.hvp_module(lambda p: nnp.sum(p["linear"]) * 2 + nnp.sum(p["cubic"] ** 3), like, entry_points=used)
    module, ones = stage.compile(), {"linear": np.ones(n), "cubic": np.ones(n)}
    module.entry("update")(ones)
    raw = np.full(2 * n + 16, np.nan)
    start = -raw.ctypes.data % 64 // 8
    out = {"linear": raw[start : start + n], "cubic": np.full(n + 1, np.nan)[1:]}  # aligned, and not
    got = module.entry("apply_into")(ones, out)
    assert np.shares_memory(np.asarray(got["linear"]), raw)
    close(out, {"linear": np.zeros(n), "cubic": np.full(n, 6.0)})
    lent = nm.runtime.Array.from_numpy(out["linear"], copy=False)
    module.entry("apply_into")(ones, {"linear": lent, "cubic": got["cubic"]})
    close(module.entry("apply")(ones), {"linear": np.zeros(n), "cubic": np.full(n, 6.0)})


def test_memory_that_cannot_be_written_is_an_error(module: Any) -> None:
    module.update(*point())
    v, out = direction(), empty(True)
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    both = np.zeros(16)
    for w, b, got in [
        (v["w"], np.zeros(4), "memory that is also an argument"),
        (both[:12].reshape(3, 4), both[8:12], "memory that is also that of another result"),
        (np.zeros((3, 4)), frozen, "an array that is read-only"),
        (np.zeros((4, 3)).T, np.zeros(4), "an array that is not contiguous"),
    ]:
        with pytest.raises(DeployError, match=f"requires memory of its own for each result, got {got}"):
            module.apply_into(v, {"w": w, "b": b})
    with pytest.raises(DeployError, match="memory that is also an argument"):
        module.apply_into(out, out)
    with pytest.raises(ShapeError, match=r"out\['b'\] requires float64\[4\], got float64\[5\]"):
        module.apply_into(v, {"w": np.zeros((3, 4)), "b": np.zeros(5)})
    with pytest.raises(DtypeError, match=r"out\['b'\] requires an array to write, got float"):
        module.apply_into(v, {"w": np.zeros((3, 4)), "b": 1.0})


def test_repeated_calls_allocate_nothing(artifact: Path) -> None:
    """Neither with results of their own nor with the caller's memory; data may change."""
    points, v, out = [point(), point()], direction(), empty(False)
    module = nm.load(artifact)
    allocator = module.executable.device.hal.allocator

    def rounds(n: int) -> Any:
        for i in range(n):
            module.update(*points[i % 2])
            module.apply(v)
            module.apply_into(v, out)
        return jax.tree.map(np.copy, out)

    first = rounds(4)
    before = allocator.statistics["device_bytes_allocated"]
    assert before > 0
    close(rounds(100), first, 0)
    assert allocator.statistics["device_bytes_allocated"] == before


def test_another_process_runs_it(artifact: Path) -> None:
    code = f"""
import sys, numpy as np
from nabla_mlir.runtime import load
module = load({str(artifact)!r})
params = {{"w": np.ones((3, 4)), "b": np.zeros(4)}}
module.update(params, np.ones((10, 3)), np.zeros(10))
print(np.asarray(module.apply(params)["b"]).tolist())
assert "iree.compiler" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    params = {"w": np.ones((3, 4)), "b": np.zeros(4)}
    want = jax_hvp((params, np.ones((10, 3)), np.zeros(10)), params)
    np.testing.assert_allclose(eval(done.stdout), np.asarray(want["b"]), rtol=1e-9)


def test_iree_run_module_runs_it(artifact: Path) -> None:
    tool = Path(sys.executable).with_name("iree-run-module")
    flags = [f"--module={artifact}", "--device=local-sync", "--function=update", "--input=4xf64=0", "--input=3x4xf64=1"]
    done = subprocess.run([tool, *flags, "--input=10x3xf64=1", "--input=10xf64=0"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "i64=1" in done.stdout, "the version of the point"
    done = subprocess.run([tool, *flags[:2], "--function=is_finite"], capture_output=True, text=True)
    assert "requires a point" in done.stderr
    # It calls one function in a process, so a product from nothing is what it has.
    point_and_vector = ["--input=4xf64=0", "--input=3x4xf64=1"] * 2
    whole = [tool, *flags[:2], "--function=value_grad_hvp", *point_and_vector, "--input=10x3xf64=1", "--input=10xf64=0"]
    done = subprocess.run(whole, capture_output=True, text=True)
    found = [[float(x) for x in re.findall(r"-?\d+\.\d+(?:[eE]-?\d+)?", line)] for line in done.stdout.splitlines()]
    params = {"b": np.zeros(4), "w": np.ones((3, 4))}
    args = params, np.ones((10, 3)), np.zeros(10)
    value, gradient = jax.value_and_grad(jax_loss)(*args)
    wanted = [*jax.tree.leaves(gradient), *jax.tree.leaves(jax_hvp(args, params)), value]
    numbers = [line for line in found if line]
    for got, want in zip(numbers, wanted, strict=True):
        np.testing.assert_allclose(got, np.ravel(want), rtol=1e-4)


# ---------------------------------------------------------------- options


def test_several_arguments_and_frozen_ones() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        return nnp.sum(nnp.sin(a) * b * nnp.exp(c))

    def g(a: Any, b: Any, c: Any) -> Any:
        return jnp.sum(jnp.sin(a) * b * jnp.exp(c))

    s = nm.spec(4, "f64")
    module = nm.hvp_module(f, (s, s), s, argnums=(0, 2), entry_points=("update", "apply")).compile()
    a, b, c, u, v = (normal(4) for _ in range(5))
    module.entry("update")((a, c), b)
    want = jax.jvp(lambda x: jax.grad(lambda y: g(y[0], b, y[1]))(x), ((a, c),), ((u, v),))[1]
    close(module.entry("apply")((u, v)), want)
    assert module.entries[0].arguments == ("x", "b")


def test_a_linear_function_has_a_zero_hessian() -> None:
    stage = nm.hvp_module(lambda x: nnp.sum(x) * 2.0, nm.spec(3, "f64"), entry_points=("update", "apply"))
    module = stage.compile()
    module.entry("update")(normal(3))
    assert module.entry("apply")(normal(3)).tolist() == [0.0, 0.0, 0.0]


def test_less_state_on_request() -> None:
    entries = ("update", "apply")
    full = nm.hvp_module(ours, PARAMS, *DATA, entry_points=entries)
    # The data and the targets are 400 bytes, the parameters 128: what lies between them is computed again.
    small = nm.hvp_module(ours, PARAMS, *DATA, max_residual_bytes=600, entry_points=entries)
    assert small.cost()["apply"].state_bytes <= 600 < full.cost()["apply"].state_bytes
    assert small.cost()["apply"].flops > full.cost()["apply"].flops
    module, args, v = small.compile(), point(), direction()
    module.entry("update")(*args)
    close(module.entry("apply")(v), jax_hvp(args, v))


def test_what_does_not_exist_is_an_error() -> None:
    with pytest.raises(TraceError, match=r"requires entry points among value, gradient, .*, got inverse\."):
        nm.hvp_module(ours, PARAMS, *DATA, entry_points=("inverse",))
    with pytest.raises(TraceError, match="requires argnums among the 3 positional arguments, got 3"):
        nm.hvp_module(ours, PARAMS, *DATA, argnums=3)


def test_a_wrong_shape_is_an_error(module: Any) -> None:
    module.update(*point())
    with pytest.raises(ShapeError, match=r"float64\[4,4\]"):
        module.apply({"w": normal(4, 4), "b": normal(4)})


# ---------------------------------------------------------------- the family


def model(xp: Any, params: Any, rows: Any) -> Any:
    return xp.tanh(rows @ params["w"]) + params["b"]


def jacobian(rows: np.ndarray, params: Any) -> np.ndarray:
    flat, unravel = ravel_pytree(params)
    return np.asarray(jax.jacobian(lambda p: model(jnp, unravel(p), rows).ravel())(flat))


def ravel(tree: Any) -> np.ndarray:
    return np.asarray(ravel_pytree(jax.tree.map(np.asarray, tree))[0])


@pytest.mark.slow
def test_gauss_newton() -> None:
    square = lambda out, rows: nnp.sum(nnp.exp(out))  # noqa: E731
    stage = nm.ggnvp_module(lambda p, rows: model(nnp, p, rows), square, PARAMS, DATA[0], block=2, entry_points="all")
    module = stage.compile()
    params, rows, _ = point()
    v = direction()
    byproducts = module.entry("update")(params, rows)
    J, out = jacobian(rows, params), np.asarray(model(np, params, rows))
    close(byproducts["value"], np.exp(out).sum())
    close(ravel(byproducts["gradient"]), J.T @ np.exp(out).ravel())
    close(ravel(module.entry("apply")(v)), J.T @ (np.exp(out).ravel() * (J @ ravel(v))))
    close(module.entry("apply")(v), nm.ggnvp(lambda p, rows: model(nnp, p, rows), square)(params, v, rows))
    assert float(module.entry("self_check")()["symmetry"]) < 1e-13


@pytest.mark.parametrize("name", ["gaussian", "categorical", "bernoulli", "poisson"])
def test_fisher(name: str) -> None:
    """The Fisher matrix is the expectation of the outer product of the score over the distribution."""
    params, rows, _ = point()
    v = direction()
    got = nm.fishervp(lambda p, rows: model(nnp, p, rows), name)(params, v, rows)
    J, out = jacobian(rows, params), np.asarray(model(np, params, rows))
    if name == "categorical":
        p = np.exp(out) / np.exp(out).sum(1, keepdims=True)
        F = jax.scipy.linalg.block_diag(*[np.diag(q) - np.outer(q, q) for q in p])
    else:
        p = 1 / (1 + np.exp(-out))
        F = np.diag({"gaussian": np.ones_like(out), "bernoulli": p * (1 - p), "poisson": np.exp(out)}[name].ravel())
    close(ravel(got), J.T @ np.asarray(F) @ J @ ravel(v))


def test_empirical_fisher() -> None:
    losses = lambda xp: lambda p, rows: xp.sum(model(xp, p, rows) ** 2, axis=1)  # noqa: E731
    params, rows, _ = point()
    v = direction()
    flat, unravel = ravel_pytree(params)
    G = np.asarray(jax.jacobian(lambda p: losses(jnp)(unravel(p), rows))(flat))
    close(ravel(nm.empirical_fishervp(losses(nnp))(params, v, rows)), G.T @ (G @ ravel(v)) / 10)
    stage = nm.empirical_fisher_module(losses(nnp), PARAMS, DATA[0], entry_points=("update", "quadratic"))
    module = stage.compile()
    close(ravel(module.entry("update")(params, rows)["gradient"]), G.mean(0))
    close(module.entry("quadratic")(v), np.sum((G @ ravel(v)) ** 2) / 10)
    with pytest.raises(ShapeError, match=r"a vector with the loss of each sample, got shape \(\)"):
        nm.empirical_fishervp(lambda x: nnp.sum(x))(np.ones(2), np.ones(2))


def test_jacobian_and_its_transpose() -> None:
    stage = nm.jacobian_module(lambda p, rows: model(nnp, p, rows), PARAMS, DATA[0], block=2, entry_points="all")
    module = stage.compile()
    params, rows, _ = point()
    v, u = direction(), normal(10, 4)
    close(module.entry("update")(params, rows)["value"], model(np, params, rows))
    J = jacobian(rows, params)
    close(ravel(module.entry("apply")(v)), J @ ravel(v))
    close(ravel(module.entry("apply_transposed")(u)), J.T @ u.ravel())
    block = module.entry("apply_transposed_block")(np.stack([u, -u]))
    close(ravel(jax.tree.map(lambda x: np.asarray(x)[1], block)), -J.T @ u.ravel())
    report = {name: float(x) for name, x in module.entry("self_check")().items()}
    assert report["symmetry"] <= report["rounding"]
    assert report["finite_difference"] <= report["expected_difference"] < 1e-5


def test_check_hvp() -> None:
    params, rows, targets = point()
    report = {n: float(x) for n, x in nm.check_hvp(ours, params, rows, targets).items()}
    assert report["linearity"] <= report["rounding"]
    assert report["finite_difference"] <= report["expected_difference"] < 1e-5


def test_check_hvp_finds_a_wrong_derivative() -> None:
    """A function that hides a part of itself from differentiation has another finite difference."""
    report = nm.check_hvp(lambda x: nnp.sum(x**3 * nm.stop_gradient(x) ** 2), np.array([1.0, 2.0]))
    assert float(report["finite_difference"]) > 1000 * float(report["expected_difference"])


def test_a_self_check_has_the_kernels_of_the_other_entry_points() -> None:
    """Beside vectors of all leaves it needs none of its own, however many leaves there are."""

    def loss(p: Any, x: Any) -> Any:
        for w, b in p:
            x = nnp.tanh(x @ w + b)
        return (x**2).sum()

    def kernels(sizes: Sequence[int], names: tuple[str, ...]) -> int:
        layers = [(nm.spec((m, n), "f32"), nm.spec(n, "f32")) for m, n in itertools.pairwise(sizes)]
        stage = nm.hvp_module(loss, layers, nm.spec((9, sizes[0]), "f32"), entry_points=names)
        target = nm.CPU("generic")
        flags = ("--compile-to=flow",)
        return compile_module(str(legalize(stage.module, target)), target, flags=flags).count(b"flow.executable private")

    own = [
        kernels(sizes, ("gradient", "apply", "apply_block", "self_check")) - kernels(sizes, ("gradient", "apply", "apply_block"))
        for sizes in ((10, 16, 3), (10, 16, 7, 5, 3))
    ]
    assert own[0] <= 18
    assert own[1] <= own[0] + 2


def test_the_default_is_what_multiplies_needs() -> None:
    stage = nm.hvp_module(ours, PARAMS, *DATA)
    assert [entry.name for entry in stage.entries] == ["value", "gradient", "update", "apply"]
    f = lambda x: nnp.sin(x)  # noqa: E731
    assert [e.name for e in nm.jacobian_module(f, nm.spec(3)).entries] == ["value", "update", "apply", "apply_transposed"]
    assert [e.name for e in nm.hvp_module(ours, PARAMS, *DATA, entry_points="quadratic").entries] == ["quadratic"]
    assert len(nm.hvp_module(ours, PARAMS, *DATA, entry_points="all").entries) == 13
