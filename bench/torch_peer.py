"""PyTorch on the CPU as a peer: the workloads with its functions, and Hessian-vector products by torch.func.

PyTorch is a separate extra, because it is large: pip install 'nabla-mlir[bench-peers]', or put its folder on PYTHONPATH.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from workload import Workload


def torch_framework() -> Any:
    """The functions of PyTorch that the workloads use, with the axis parameters of NumPy."""
    import torch
    from torch.nn import functional

    def axes(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
            every = tuple(range(x.ndim)) if axis is None else axis
            return function(x, dim=every, keepdim=keepdims)

        return call

    def spatial(function: Callable[..., Any], images: Any, *rest: Any, **options: Any) -> Any:
        """Converts channels, which are the second axis in PyTorch and the last axis in the workloads."""
        return function(images.movedim(-1, 1), *rest, **options).movedim(1, -1)

    def conv(images: Any, kernel: Any, strides: int = 1, groups: int = 1) -> Any:
        rank = images.ndim - 2
        pads = []  # the padding "SAME", which PyTorch does not accept with strides
        for n, width in zip(reversed(images.shape[1:-1]), reversed(kernel.shape[:-2]), strict=True):
            needed = max((-(-n // strides) - 1) * strides + width - n, 0)
            pads += [needed // 2, needed - needed // 2]
        apply = getattr(functional, f"conv{rank}d")
        turned = kernel.movedim((-1, -2), (0, 1))
        return spatial(lambda x: apply(functional.pad(x, pads), turned, stride=strides, groups=groups), images)

    def pool(kind: str) -> Callable[..., Any]:
        return lambda x, size: spatial(getattr(functional, f"{kind}_pool{x.ndim - 2}d"), x, size)

    def scan(step: Callable[..., Any], carry: Any, rows: Any) -> tuple[Any, Any]:
        outs = []
        for row in rows:
            carry, out = step(carry, row)
            outs.append(out)
        return carry, None if outs[0] is None else torch.stack(outs)

    names = SimpleNamespace(
        **{
            name: getattr(torch, name)
            for name in ("sqrt", "log", "exp", "sin", "cos", "tanh", "abs", "einsum", "where", "zeros", "eye", "cumsum", "diagonal")
        },
        sum=axes(torch.sum),
        mean=axes(torch.mean),
        stack=lambda parts, axis: torch.stack(parts, dim=axis),
        concatenate=lambda parts, axis=0: torch.cat(parts, dim=axis),
        cross=torch.linalg.cross,
        split=lambda x, count, axis=0: torch.tensor_split(x, count, dim=axis),
        maximum=lambda x, y: torch.clamp(x, min=y),
        linalg=SimpleNamespace(cholesky=torch.linalg.cholesky),
    )
    nn = SimpleNamespace(
        **{name: getattr(functional, name) for name in ("softplus", "silu", "relu", "elu")},
        tanh=torch.tanh,
        sigmoid=torch.sigmoid,
        gelu=lambda x: functional.gelu(x, approximate="tanh"),
        softmax=lambda x, axis=-1: torch.softmax(x, dim=axis),
        log_softmax=lambda x: torch.log_softmax(x, dim=-1),
        # functional.one_hot cannot be traced
        one_hot=lambda labels, count, dtype=None: torch.eye(count, dtype=dtype)[labels.long()],
    )
    return SimpleNamespace(
        np=names,
        nn=nn,
        scan=scan,
        conv=conv,
        max_pool=pool("max"),
        avg_pool=pool("avg"),
        logsumexp=lambda x, axis: torch.logsumexp(x, dim=axis),
        solve_lower=lambda a, b: torch.linalg.solve_triangular(a, b[:, None], upper=False)[:, 0],
    )


def torch_functions(workload: Workload) -> dict[str, Callable[..., Any]]:
    """The function, its gradient and its Hessian-vector product by forward over reverse mode (or its Hessians)."""
    import torch

    f = workload.function(torch_framework())
    gradient = torch.func.grad(f)
    if workload.mapped:
        over = lambda g: lambda x, *rest: torch.func.vmap(lambda y: g(y, *rest))(x)  # noqa: E731
        hessians = over(torch.func.hessian(f))
        return {"value": over(f), "gradient": over(gradient), "hvp": lambda x, v, *rest: hessians(x, *rest)}

    def hvp(x: Any, v: Any, *rest: Any) -> Any:
        return torch.func.jvp(lambda y: gradient(y, *rest), (x,), (v,))[1]

    return {"value": f, "gradient": gradient, "hvp": hvp}


def on_torch(tree: Any) -> Any:
    """Converts the arrays of a pytree to tensors."""
    import jax
    import torch

    return jax.tree.map(lambda a: torch.from_numpy(np.array(a)), tree)


def torch_calls(workload: Workload, args: tuple[Any, ...], v: Any) -> dict[str, Callable[[], Any]]:
    """The value, the gradient and the product in eager mode."""
    return _calls(torch_functions(workload), args, v)


def compiled_calls(workload: Workload, args: tuple[Any, ...], v: Any) -> dict[str, Callable[[], Any]]:
    """The value, the gradient and the product by torch.compile, which compiles at the first call."""
    import torch

    functions = torch_functions(workload)
    return _calls({name: torch.compile(f, fullgraph=True, dynamic=False) for name, f in functions.items()}, args, v)


def _calls(functions: dict[str, Callable[..., Any]], args: tuple[Any, ...], v: Any) -> dict[str, Callable[[], Any]]:
    x, tangent, rest = on_torch(args[0]), on_torch(v), on_torch(args[1:])
    return {
        "value": lambda: functions["value"](x, *rest),
        "gradient": lambda: functions["gradient"](x, *rest),
        "hvp": lambda: functions["hvp"](x, tangent, *rest),
    }


def linearized_call(workload: Workload, args: tuple[Any, ...], v: Any) -> Callable[[], Any]:
    """The product of `torch.func.linearize` at a fixed point."""
    import torch

    gradient, tangent, rest = torch_functions(workload)["gradient"], on_torch(v), on_torch(args[1:])
    _, push = torch.func.linearize(lambda y: gradient(y, *rest), on_torch(args[0]))
    return lambda: push(tangent)
