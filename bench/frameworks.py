"""The two sides: from a workload to compiled functions, with the times and sizes on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from measuring import flat

FUNCTIONS = ("value", "gradient", "hvp")


@dataclass
class Built:
    """The functions of a workload on device arrays (by driver for us), and what it cost to make them."""

    calls: dict[str, dict[str, Callable[[], Any]]]
    seconds: dict[str, float]
    operations: int
    chosen: str = ""
    results: dict[str, np.ndarray] = field(default_factory=dict)


def _count(mlir: str) -> int:
    """Operations that compute something."""
    lines = (line.strip() for line in mlir.splitlines())
    return sum(
        " = " in line and ("stablehlo." in line or "chlo." in line) and ".constant" not in line for line in lines
    )


# ---------------------------------------------------------------- ours


def nabla() -> Any:
    """Our names for what the workloads use."""
    import nabla_mlir as nm
    import nabla_mlir.numpy as nnp
    from nabla_mlir import nn

    return SimpleNamespace(np=nnp, nn=nn, scan=nm.scan, conv=nn.conv, logsumexp=nn.logsumexp)


def build_nabla(function: Callable[..., Any], args: tuple[Any, ...], v: Any, path: Path) -> Built:
    """An artifact with the three functions, loaded with both drivers."""
    import jax

    import nabla_mlir as nm
    from nabla_mlir import runtime

    start = time.perf_counter()
    traced = nm.module(
        value=nm.trace(function, *args), gradient=nm.trace(nm.grad(function), *args),
        hvp=nm.trace(nm.hvp(function), args[0], v, *args[1:]),
    )  # fmt: skip
    tracing = time.perf_counter()
    lowered = traced.lower()
    passes = time.perf_counter()
    compiled = lowered.compile(nm.CPU("host"), cache=False)
    end = time.perf_counter()
    compiled.save(path)
    lowered.save_mlir(path.with_suffix(".mlir"))
    alone = nm.trace(nm.hvp(function), args[0], v, *args[1:]).lower()
    calls: dict[str, dict[str, Callable[[], Any]]] = {name: {} for name in FUNCTIONS}
    for driver in compiled.target.drivers:
        module, device = runtime.load(path, driver), runtime.device(driver)
        put = lambda tree, device=device: jax.tree.map(lambda a: runtime.Array.from_numpy(a, device), tree)  # noqa: E731
        x, direction, rest = put(args[0]), put(v), put(args[1:])
        calls["value"][driver] = lambda m=module, x=x, rest=rest: m.value(x, *rest)
        calls["gradient"][driver] = lambda m=module, x=x, rest=rest: m.gradient(x, *rest)
        calls["hvp"][driver] = lambda m=module, x=x, t=direction, rest=rest: m.hvp(x, t, *rest)
    seconds = {"trace": tracing - start, "passes": passes - tracing, "compile": end - passes, "total": end - start}
    built = Built(calls, seconds, _count(alone.mlir()), runtime.load(path).driver)
    built.results = {name: flat(calls[name][built.chosen]()) for name in FUNCTIONS}
    return built


# ---------------------------------------------------------------- JAX


def jax_framework() -> Any:
    """JAX's names for what the workloads use."""
    import jax

    def conv(images: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    nn = SimpleNamespace(softplus=jax.nn.softplus, tanh=jax.numpy.tanh, log_softmax=jax.nn.log_softmax,
                         one_hot=jax.nn.one_hot, softmax=jax.nn.softmax,
                         gelu=jax.nn.gelu, silu=jax.nn.silu)  # fmt: skip
    return SimpleNamespace(np=jax.numpy, nn=nn, scan=jax.lax.scan, conv=conv, logsumexp=jax.nn.logsumexp)


def jax_functions(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """The function, its gradient and its Hessian-vector product, forward over reverse as ours."""
    import jax

    def hvp(x: Any, v: Any, *rest: Any) -> Any:
        return jax.jvp(lambda x: jax.grad(function)(x, *rest), (x,), (v,))[1]

    return {"value": function, "gradient": jax.grad(function), "hvp": hvp}


def build_jax(function: Callable[..., Any], args: tuple[Any, ...], v: Any, path: Path) -> Built:
    """The three functions, jitted and compiled."""
    import jax

    x, direction, rest = (jax.tree.map(jax.device_put, tree) for tree in (args[0], v, args[1:]))
    calls, lowerings, seconds = {}, {}, {"total": 0.0}
    for name, f in jax_functions(function).items():
        inputs = (x, direction, *rest) if name == "hvp" else (x, *rest)
        start = time.perf_counter()
        lowerings[name] = jax.jit(f).lower(*inputs)
        compiled = lowerings[name].compile()
        seconds["total"] += time.perf_counter() - start
        calls[name] = {"jax": lambda c=compiled, inputs=inputs: jax.block_until_ready(c(*inputs))}
    text = lowerings["hvp"].as_text()
    path.with_suffix(".jax.mlir").write_text(text)
    built = Built(calls, seconds, _count(text), "jax")
    built.results = {name: flat(calls[name]["jax"]()) for name in FUNCTIONS}
    return built


def reference(factory: Callable[[Any], Any], args: tuple[Any, ...], v: Any) -> dict[str, np.ndarray]:
    """The results in f64, by JAX."""
    import jax

    with jax.enable_x64(True):
        wide = lambda a: np.asarray(a, np.float64) if np.asarray(a).dtype == np.float32 else a  # noqa: E731
        x, direction, rest = (jax.tree.map(wide, tree) for tree in (args[0], v, args[1:]))
        functions = jax_functions(factory(jax_framework()))
        return {
            name: flat(jax.jit(f)(*((x, direction, *rest) if name == "hvp" else (x, *rest))))
            for name, f in functions.items()
        }
