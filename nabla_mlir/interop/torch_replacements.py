"""Replacements for functions of PyTorch whose Python code reads numbers, or that torch-mlir lacks, by other operations."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from typing import Any

CTC = "nabla_mlir::ctc_loss"


@contextlib.contextmanager
def replaced() -> Iterator[None]:
    """A context in which calls of these functions of PyTorch use the replacements of this file."""
    import torch
    from torch.overrides import TorchFunctionMode

    functional = torch.nn.functional
    functions = {
        functional.gaussian_nll_loss: _gaussian_nll_loss,
        functional.ctc_loss: _ctc_loss,
        functional.embedding_bag: _embedding_bag,
    }
    forwards: dict[Any, Any] = {torch.nn.AdaptiveLogSoftmaxWithLoss: _adaptive_log_softmax, torch.nn.CrossMapLRN2d: _cross_map_norm}

    class Replaced(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return functions.get(function, function)(*args, **(kwargs or {}))

    before = {module: module.forward for module in forwards}
    for module, forward in forwards.items():
        module.forward = forward
    try:
        with Replaced():
            yield
    finally:
        for module, forward in before.items():
            module.forward = forward


def _reduced(losses: Any, reduction: str) -> Any:
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def _gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Any:
    """The Gaussian negative log-likelihood: NaN at negative variances, for which PyTorch raises an error.

    At a variance below eps, the loss is that of eps, with the slope of eps.
    """
    import torch

    if not isinstance(var, torch.Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        losses = 0.5 * (math.log(max(var, eps)) + (input - target) ** 2 / max(var, eps))
    else:
        var = var.unsqueeze(-1) if var.shape == input.shape[:-1] else var
        variance = var + (torch.clamp(var, min=eps) - var).detach()  # clamped, with the derivative of `var`
        variance = torch.where(torch.any(var < 0), math.nan, variance)
        losses = 0.5 * (torch.log(variance) + (input - target) ** 2 / variance)
    return _reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


def _embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or maximum of the rows of each bag; rows with the index `padding_idx` belong to no bag."""
    import torch

    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag requires mode='sum' for per_sample_weights, got {mode!r}")
    positions, number = input.reshape(-1), torch.arange(input.numel())
    if input.ndim == 2:
        bags, count = number // input.shape[1], input.shape[0]
    else:
        starts = offsets[:-1] if include_last_offset else offsets
        bags, count = torch.searchsorted(starts, number, right=True) - 1, starts.shape[0]
    rows = torch.nn.functional.embedding(positions, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1)[:, None]
    is_member = torch.ones_like(positions, dtype=torch.bool) if padding_idx is None else positions != padding_idx % weight.shape[0]
    target, index = rows.new_zeros(count, rows.shape[1]), bags[:, None].expand(rows.shape)
    sizes = rows.new_zeros(count).scatter_reduce(0, bags, is_member.to(rows.dtype), "sum")[:, None]
    if mode == "max":
        largest = (target - torch.inf).scatter_reduce(0, index, torch.where(is_member[:, None], rows, -torch.inf), "amax")
        return torch.where(sizes > 0, largest, target)
    sums = target.scatter_reduce(0, index, torch.where(is_member[:, None], rows, 0.0), "sum")
    return sums if mode == "sum" else sums / sizes.clamp(min=1)


def _ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """The CTC loss of a batch of sequences, or of one, reduced as `reduction` says; a custom operation stands for the computation.

    `torch_operations` lowers the custom operation.
    """
    import torch

    is_batch = log_probs.ndim == 3
    lengths = [torch.as_tensor(n, dtype=torch.int64).reshape(-1) for n in (input_lengths, target_lengths)]
    if not is_batch:
        log_probs, targets = log_probs[:, None], targets.reshape(1, -1)
    losses = _ctc()(log_probs, targets.to(torch.int64), *lengths, blank)
    if zero_infinity:
        losses = torch.where(torch.isinf(losses), torch.zeros_like(losses), losses)
    if reduction == "mean":
        losses = losses / lengths[1].clamp(min=1)
    return _reduced(losses if is_batch else losses[0], reduction)


@functools.cache
def _ctc() -> Any:
    """The custom operation that represents a CTC loss in a captured program; it is never run."""
    import torch

    schema = "(Tensor x, Tensor targets, Tensor lengths, Tensor target_lengths, int blank) -> Tensor"
    loss = torch.library.custom_op(CTC, lambda x, *rest: x.new_zeros(x.shape[1]), mutates_args=(), schema=schema)
    loss.register_fake(lambda x, *rest: x.new_empty(x.shape[1]))
    return torch.ops.nabla_mlir.ctc_loss.default


def _adaptive_log_softmax(self: Any, input: Any, target: Any) -> Any:
    """The forward method of `AdaptiveLogSoftmaxWithLoss`: log-probabilities of the targets, selected from those of all classes, and
    the loss.
    """
    from torch.nn.modules.adaptive import _ASMoutput

    rows, labels = (input, target) if target.ndim else (input[None], target[None])
    output = self.log_prob(rows).gather(1, labels[:, None])[:, 0]
    return _ASMoutput(output if target.ndim else output[0], -output.mean())


def _cross_map_norm(self: Any, input: Any) -> Any:
    """The forward method of `CrossMapLRN2d`: unlike in `LocalResponseNorm`, each sum over channels contains the first channel.

    The result is input * (k + alpha / size * sum of squares over `size` channels)**-beta.
    """
    import torch

    reach = (self.size - 1) // 2 + 1
    channel = torch.arange(input.shape[1])
    distance = channel[:, None] - channel
    is_near = (distance > -reach) & ((distance < reach) | (channel == 0))
    sums = torch.einsum("ij,bjhw->bihw", is_near.to(input.dtype), input * input)
    return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta
