"""PyTorch on the CPU as a peer: the workloads in its names, and Hessian-vector products by torch.func.

An extra of its own, since PyTorch is large: pip install torch, or a folder that has it on PYTHONPATH.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np


def is_installed() -> bool:
    """Whether PyTorch can be imported."""
    return importlib.util.find_spec("torch") is not None


def torch_framework() -> Any:
    """PyTorch's names for what the workloads use, with NumPy's words for axes."""
    import torch
    from torch.nn import functional

    def axes(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
            every = tuple(range(x.ndim)) if axis is None else axis
            return function(x, dim=every, keepdim=keepdims)

        return call

    def conv(images: Any, kernel: Any) -> Any:
        out = functional.conv2d(images.permute(0, 3, 1, 2), kernel.permute(3, 2, 0, 1), padding="same")
        return out.permute(0, 2, 3, 1)

    def scan(step: Callable[..., Any], carry: Any, rows: Any) -> tuple[Any, Any]:
        outs = []
        for row in rows:
            carry, out = step(carry, row)
            outs.append(out)
        return carry, None if outs[0] is None else torch.stack(outs)

    names = SimpleNamespace(
        sum=axes(torch.sum), mean=axes(torch.mean), sqrt=torch.sqrt, log=torch.log, abs=torch.abs, einsum=torch.einsum,
        stack=lambda parts, axis: torch.stack(parts, dim=axis),
    )  # fmt: skip
    nn = SimpleNamespace(
        softplus=functional.softplus, tanh=torch.tanh, silu=functional.silu,
        gelu=lambda x: functional.gelu(x, approximate="tanh"),
        softmax=lambda x, axis=-1: torch.softmax(x, dim=axis),
        log_softmax=lambda x: torch.log_softmax(x, dim=-1),
        one_hot=lambda labels, count: torch.eye(count)[labels.long()],  # functional.one_hot cannot be traced
    )  # fmt: skip
    return SimpleNamespace(
        np=names, nn=nn, scan=scan, conv=conv, logsumexp=lambda x, axis: torch.logsumexp(x, dim=axis)
    )


def torch_calls(factory: Callable[[Any], Any], args: tuple[Any, ...], v: Any) -> dict[str, Callable[[], Any]]:
    """The value, the gradient, the product from scratch, and the marginal one of `torch.func.linearize`."""
    import jax
    import torch

    put = lambda t: jax.tree.map(lambda a: torch.from_numpy(np.array(a)), t)  # noqa: E731
    f, x, tangent, rest = factory(torch_framework()), put(args[0]), put(v), put(args[1:])
    gradient = torch.func.grad(lambda y: f(y, *rest))
    _, push = torch.func.linearize(gradient, x)
    return {
        "value": lambda: f(x, *rest),
        "gradient": lambda: gradient(x),
        "hvp": lambda: torch.func.jvp(gradient, (x,), (tangent,))[1],
        "apply": lambda: push(tangent),
    }
