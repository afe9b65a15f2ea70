"""Builds the compiled functions of a workload for nabla_mlir and JAX, and measures times and sizes of each step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from bounds import xla_figures
from measuring import flat
from workload import Workload

if TYPE_CHECKING:
    from sizes import Size  # this module needs the compiler; a process of JAX does not

FUNCTIONS = ("value", "gradient", "hvp")


@dataclass
class Built:
    """The functions of a workload on device arrays (for nabla_mlir by driver), and the costs of building them."""

    calls: dict[str, dict[str, Callable[[], Any]]]
    seconds: dict[str, float]
    size: Size | None
    chosen: dict[str, str] = field(default_factory=dict)
    results: dict[str, np.ndarray] = field(default_factory=dict)
    xla: tuple[int, int] = (0, 0)  # JAX only: kernels and bytes of the hvp
    barriers: int = 0  # nabla_mlir only: the number of barriers in the hvp


# ---------------------------------------------------------------- nabla_mlir


def nabla() -> Any:
    """The functions of nabla_mlir that the workloads use."""
    import nabla_mlir as nm
    import nabla_mlir.numpy as nnp
    from nabla_mlir import nn

    return SimpleNamespace(
        np=nnp,
        nn=nn,
        scan=nm.scan,
        conv=nn.conv,
        logsumexp=nn.logsumexp,
        max_pool=nn.max_pool,
        avg_pool=nn.avg_pool,
        solve_lower=lambda a, b: nnp.linalg.triangular_solve(a, b, lower=True),
    )


def nabla_functions(workload: Workload, function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """The function, its gradient and its Hessian-vector product (or Hessians)."""
    import nabla_mlir as nm

    if not workload.mapped:
        return {"value": function, "gradient": nm.grad(function), "hvp": nm.hvp(function)}
    over = lambda f: lambda x, *rest: nm.vmap(lambda y: f(y, *rest))(x)  # noqa: E731
    hessians = over(nm.hessian(function))
    return {"value": over(function), "gradient": over(nm.grad(function)), "hvp": lambda x, v, *rest: hessians(x, *rest)}


def build_nabla(workload: Workload, args: tuple[Any, ...], v: Any, path: Path) -> Built:
    """An artifact with the three functions, loaded with both drivers."""
    import jax
    from sizes import barriers_of, size_of

    import nabla_mlir as nm
    from nabla_mlir import runtime

    functions = nabla_functions(workload, workload.function(nabla()))
    start = time.perf_counter()
    traced = nm.module(
        **{name: nm.trace(f, *((args[0], v, *args[1:]) if name == "hvp" else args)) for name, f in functions.items()}
    )
    tracing = time.perf_counter()
    lowered = traced.lower()
    passes = time.perf_counter()
    compiled = lowered.compile(nm.CPU("host"), cache=False)
    end = time.perf_counter()
    compiled.save(path)
    lowered.save_mlir(path.with_suffix(".mlir"))
    alone = nm.trace(functions["hvp"], args[0], v, *args[1:]).lower()
    calls: dict[str, dict[str, Callable[[], Any]]] = {name: {} for name in FUNCTIONS}
    for driver in compiled.target.drivers:
        module, device = runtime.load(path, driver), runtime.device(driver)
        put = lambda tree, device=device: jax.tree.map(lambda a: runtime.Array.from_numpy(a, device), tree)  # noqa: E731
        x, direction, rest = put(args[0]), put(v), put(args[1:])
        calls["value"][driver] = lambda m=module, x=x, rest=rest: m.value(x, *rest)
        calls["gradient"][driver] = lambda m=module, x=x, rest=rest: m.gradient(x, *rest)
        calls["hvp"][driver] = lambda m=module, x=x, t=direction, rest=rest: m.hvp(x, t, *rest)
    seconds = {"trace": tracing - start, "passes": passes - tracing, "compile": end - passes, "total": end - start}
    module = runtime.load(path)
    built = Built(calls, seconds, size_of(alone.mlir()), {name: module.driver_of(name) for name in FUNCTIONS})
    built.barriers = barriers_of(alone.module, compiled.target)
    built.results = {name: flat(calls[name][built.chosen[name]]()) for name in FUNCTIONS}
    return built


# ---------------------------------------------------------------- JAX


def jax_framework() -> Any:
    """The functions of JAX that the workloads use."""
    import jax

    lax = jax.lax

    def conv(x: Any, kernel: Any, strides: int = 1, groups: int = 1) -> Any:
        layout = ("NHWC", "HWIO", "NHWC") if x.ndim == 4 else ("NWC", "WIO", "NWC")
        return lax.conv_general_dilated(
            x, kernel, (strides,) * (x.ndim - 2), "SAME", dimension_numbers=layout, feature_group_count=groups
        )

    def pool(x: Any, start: float, combine: Any, size: int) -> Any:
        window = (1, *(size,) * (x.ndim - 2), 1)
        return lax.reduce_window(x, x.dtype.type(start), combine, window, window, "VALID")

    return SimpleNamespace(
        np=jax.numpy,
        nn=jax.nn,
        scan=lax.scan,
        conv=conv,
        logsumexp=jax.nn.logsumexp,
        max_pool=lambda x, size: pool(x, -np.inf, lax.max, size),
        avg_pool=lambda x, size: pool(x, 0, lax.add, size) / size ** (x.ndim - 2),
        solve_lower=lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
    )


def jax_functions(workload: Workload) -> dict[str, Callable[..., Any]]:
    """The function, its gradient and its Hessian-vector product by forward over reverse mode (or its Hessians)."""
    import jax

    function = workload.function(jax_framework())
    if workload.mapped:
        over = lambda f: lambda x, *rest: jax.vmap(lambda y: f(y, *rest))(x)  # noqa: E731
        hessians = over(jax.hessian(function))
        return {"value": over(function), "gradient": over(jax.grad(function)), "hvp": lambda x, v, *rest: hessians(x, *rest)}

    def hvp(x: Any, v: Any, *rest: Any) -> Any:
        return jax.jvp(lambda x: jax.grad(function)(x, *rest), (x,), (v,))[1]

    return {"value": function, "gradient": jax.grad(function), "hvp": hvp}


def build_jax(workload: Workload, args: tuple[Any, ...], v: Any, path: Path) -> Built:
    """The three functions, jitted and compiled."""
    import jax

    with jax.enable_x64(any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(args))):
        return _build_jax(workload, args, v, path)


def _build_jax(workload: Workload, args: tuple[Any, ...], v: Any, path: Path) -> Built:
    import jax
    from sizes import size_of

    x, direction, rest = (jax.tree.map(jax.device_put, tree) for tree in (args[0], v, args[1:]))
    calls, lowerings, seconds = {}, {}, {"total": 0.0}
    for name, f in jax_functions(workload).items():
        inputs = (x, direction, *rest) if name == "hvp" else (x, *rest)
        start = time.perf_counter()
        lowerings[name] = jax.jit(f).lower(*inputs)
        compiled = lowerings[name].compile()
        seconds["total"] += time.perf_counter() - start
        calls[name] = {"jax": lambda c=compiled, inputs=inputs: jax.block_until_ready(c(*inputs))}
    text = lowerings["hvp"].as_text()
    path.with_suffix(".jax.mlir").write_text(text)
    built = Built(calls, seconds, size_of(text), xla=xla_figures(compiled))  # `compiled` is that of the last function, the hvp
    built.results = {name: flat(calls[name]["jax"]()) for name in FUNCTIONS}
    return built


def reference(workload: Workload, args: tuple[Any, ...], v: Any) -> dict[str, np.ndarray]:
    """The results in f64, by JAX."""
    import jax

    with jax.enable_x64(True):
        wide = lambda a: np.asarray(a, np.float64) if np.asarray(a).dtype == np.float32 else a  # noqa: E731
        x, direction, rest = (jax.tree.map(wide, tree) for tree in (args[0], v, args[1:]))
        functions = jax_functions(workload)
        return {name: flat(jax.jit(f)(*((x, direction, *rest) if name == "hvp" else (x, *rest)))) for name, f in functions.items()}
