"""Losses and pools of PyTorch that need loops, as functions of tensors of nabla_mlir."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir import nn
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms import stop_gradient
from nabla_mlir.transforms.scans import scan

_NEVER = -1e30  # the logarithm of probability zero; with an infinity, derivatives would be NaN


def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """The multi-label margin loss, reduced by PyTorch's code (0 none, 1 mean, 2 sum), and the mask of the labels.

    A row with n classes has the loss: the sum over labels y and classes j that are no label of max(0, 1 - (x[y] - x[j])) / n.
    Labels after the first -1 of a row do not count; PyTorch's own decomposition counts them.
    """
    n = x.shape[-1]
    rows, positions, labels = x.reshape(-1, n), np.arange(n), target.reshape(-1, n)
    is_label = positions < nnp.min(nnp.where(labels == -1, positions, n), -1, keepdims=True)
    labels = nnp.where(is_label, labels, 0)
    is_target = nnp.any(is_label[:, :, None] & (labels[:, :, None] == positions), 1)
    margins = nn.relu(1 - (nnp.take_along_axis(rows, labels, -1)[:, :, None] - rows[:, None]))
    losses = nnp.sum(margins * (is_label[:, :, None] & ~is_target[:, None]), (1, 2)) / n
    total = [losses.reshape(x.shape[:-1]), nnp.mean(losses), nnp.sum(losses)][reduction]
    return total, is_target.astype(x.dtype).reshape(x.shape)


def ctc_loss(log_probs: Tensor, targets: Tensor, lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    """The negative logarithm of the probability of all alignments of each sequence, by the forward recursion over time.

    Args:
      log_probs: logarithms of probabilities, by time, sequence and class.
      targets: the labels, one row for each sequence, or all sequences concatenated.
      lengths, target_lengths: the number of time steps and of labels of each sequence.
      blank: the class between labels.

    Source: Graves et al., Connectionist temporal classification, ICML 2006, section 4.1.
    """
    steps = log_probs.shape[0]
    if targets.ndim == 1:
        starts = nnp.cumsum(target_lengths) - target_lengths
        targets = nnp.take(targets, starts[:, None] + np.arange(targets.shape[0]), mode="clip")
    positions = np.arange(2 * targets.shape[1] + 1)
    labels = nnp.where(positions % 2 == 0, blank, nnp.take(nnp.pad(targets, ((0, 0), (0, 1))), positions // 2, 1))
    # A step may skip the blank between two different labels.
    skips = (labels != blank) & (labels != nnp.pad(labels, ((0, 0), (2, 0)))[:, :-2]) & (positions > 1)
    emissions = nnp.take_along_axis(log_probs, nnp.broadcast_to(labels, (steps, *labels.shape)), 2)

    def moved(a: Tensor, by: int) -> Tensor:
        """The log-probabilities shifted by some positions of the labels; those that come from outside are `_NEVER`."""
        return nnp.pad(a, ((0, 0), (by, 0)), constant_values=_NEVER)[:, : a.shape[1]]

    def step(a: Tensor, item: Any) -> Any:
        """The log-probabilities of all prefixes of alignments after one more time step; sequences that have ended do not change.

        `item` has the log-probabilities of the labels at this time step, and its index.
        """
        emission, t = item
        sources = nnp.stack([a, moved(a, 1), nnp.where(skips, moved(a, 2), _NEVER)])
        return nnp.where((t < lengths)[:, None], nn.logsumexp(sources, 0) + emission, a), ()

    first = nnp.where(positions < 2, emissions[0], _NEVER)
    last, _ = scan(step, first, (emissions[1:], np.arange(1, steps)))
    ends = 2 * target_lengths[:, None]
    is_end = (positions == ends) | ((positions == ends - 1) & (ends > 0))
    total = nn.logsumexp(nnp.where(is_end, last, _NEVER), 1)
    return nnp.where(total < _NEVER / 2, np.inf, -total)


def fractional_max_pool(rank: int) -> Any:
    """A function for a max pool whose windows start at pseudo-random indices.

    The indices are computed from draws in [0, 1) for each image and channel.
    """

    def pool(x: Tensor, windows: Sequence[int], sizes: Sequence[int], draws: Tensor) -> tuple[Tensor, Tensor]:
        """The largest element of each window, and its index among the flattened spatial axes.

        `windows` and `sizes` are the length and the number of the windows along each axis, and `draws` has a number in [0, 1) for
        each image, channel and axis.
        """
        spatial, batch = x.shape[-rank:], x.shape[:-rank]  # batch: the axes of images and channels
        draws = stop_gradient(draws).reshape(*batch, rank)
        flat: Any = np.zeros((*batch, *(1,) * 2 * rank), np.int64)
        for i, (n, window, count) in enumerate(zip(spatial, windows, sizes, strict=True)):
            draw = draws[..., i if rank == 3 else rank - 1 - i, None]  # PyTorch's order: width before height in two dimensions
            gap = (n - window) / (count - 1) if count > 1 else 0.0
            starts = nnp.floor((np.arange(count) + draw) * gap) - nnp.floor(draw * gap)
            starts = nnp.where(np.arange(count) == count - 1, n - window, starts).astype(np.int64)
            positions = starts[..., None] + np.arange(window)
            shape = [1] * (2 * rank)
            shape[i], shape[rank + i] = count, window
            # The flat index of each element of each window, built axis by axis.
            flat = flat * n + positions.reshape(*batch, *shape)
        flat = nnp.broadcast_to(flat, (*batch, *sizes, *windows)).reshape(*batch, int(np.prod(sizes)), int(np.prod(windows)))
        rows = x.reshape(*batch, 1, -1)
        patches = nnp.take_along_axis(nnp.broadcast_to(rows, (*batch, flat.shape[-2], rows.shape[-1])), flat, -1)
        best = nnp.argmax(patches, -1)[..., None]
        values, positions_of_best = (nnp.take_along_axis(a, best, -1).reshape(*batch, *sizes) for a in (patches, flat))
        return values, positions_of_best

    return pool
