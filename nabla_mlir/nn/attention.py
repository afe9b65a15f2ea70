"""Attention: averages of values, weighted by how well keys fit queries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.conversion import limits_of
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.nn.activations import softmax
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import inexact, tensor
from nabla_mlir.numpy.products import einsum
from nabla_mlir.numpy.reductions import logsumexp
from nabla_mlir.numpy.repeats import repeat
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor


@library
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: Static[Any] = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(scale * query key^T + bias) value, for each head: ``y[b, t, n] = sum over s of p[b, n, t, s] v[b, s, n]``.

    Args:
      query: (batch, T, heads, H), or without batch.
      key, value: (batch, S, groups, H); each of the groups serves heads / groups heads.
      bias: added to the logits, of a shape that broadcasts to (batch, heads, T, S).
      mask: truth values of such a shape; logits where they are False are left out.
      scale: 1 / sqrt(H) if not given.
      is_causal: whether element t sees the elements up to t only.
      query_seq_lengths: how many elements of each query there are; the others give 0.
      key_value_seq_lengths: how many elements of each key there are.
      local_window_size: (left, right): how far an element sees; one number for both.
      implementation: accepted for programs that say it: None, "xla" or "cudnn"; this is the only one.
      return_residual: whether to return also the logarithms of the sums of exponentials, (batch, T, heads).

    Raises:
      ShapeError: the shapes do not fit each other.

    Example:
      >>> dot_product_attention(np.ones((3, 1, 2)), np.ones((4, 1, 2)), np.ones((4, 1, 2))).shape
      (3, 1, 2)
    """
    q, k, v = (inexact(x) for x in (query, key, value))
    rank = q.ndim
    if rank not in (3, 4) or k.ndim != rank or v.ndim != rank:
        raise ShapeError(
            f"dot_product_attention requires (batch, T, heads, H) three times, got {q.shape}, {k.shape} and {v.shape}.",
            where=user_frame(),
        )
    q, k, v = (reshaped(x, (1, *x.shape)) if rank == 3 else x for x in (q, k, v))
    (batch, t, heads, width), (_, s, groups, _) = q.shape, k.shape
    if k.shape != (batch, s, groups, width) or v.shape[:3] != k.shape[:3] or heads % groups:
        raise ShapeError(
            f"dot_product_attention requires keys and values with the batch and the width of queries, and heads in "
            f"groups, got {q.shape}, {k.shape} and {v.shape}.",
            where=user_frame(),
        )
    k, v = (repeat(x, heads // groups, 2) for x in (k, v))
    logits = einsum("btnh,bsnh->bnts", q, k) * (1.0 / math.sqrt(width) if scale is None else scale)
    logits = logits if bias is None else logits + tensor(bias)
    pairs = _visible(t, s, is_causal, local_window_size)
    visible = None if pairs is None else tensor(pairs)
    for part in (mask, _within(key_value_seq_lengths, s, (batch, 1, 1, s)), _within(query_seq_lengths, t, (batch, 1, t, 1))):
        if part is not None:
            visible = tensor(part) if visible is None else visible & tensor(part)
    logits = logits if visible is None else where(visible, logits, _LOWEST * float(limits_of(logits.dtype).max))
    out = einsum("bnts,bsnh->btnh", softmax(logits), v)
    if query_seq_lengths is not None:
        out = where(_within(query_seq_lengths, t, (batch, t, 1, 1)), out, 0.0)
    out = reshaped(out, out.shape[1:]) if rank == 3 else out
    if not return_residual:
        return out
    sums = einsum("bnt->btn", logsumexp(logits, -1))
    return out, reshaped(sums, sums.shape[1:]) if rank == 3 else sums


_LOWEST = -0.7  # of the largest number: logits that are left out, so that a row without any other has equal weights, as in JAX


def _visible(t: int, s: int, is_causal: bool, window: Any) -> np.ndarray | None:
    """True for each pair of one of `t` queries and `s` keys where the query sees the key; None if it is true for all.

    `window` is the number of keys that a query sees on each side of its position, or a pair: before and after it.
    """
    rows, columns = np.arange(t)[:, None], np.arange(s)
    visible = np.ones((t, s), bool)
    if is_causal:
        visible &= rows >= columns
    if window is not None:
        left, right = window if isinstance(window, (tuple, list)) else (window, window)
        visible &= (columns >= rows - left) & (columns <= rows + right)
    return None if visible.all() else visible


def _within(lengths: Any, n: int, shape: tuple[int, ...]) -> Tensor | None:
    """True for each of n positions that is below the length of its batch element; None without lengths.

    `shape` is that of the result with any batch size: n along one axis, and 1 along the others.
    """
    if lengths is None:
        return None
    positions = np.arange(n).reshape((1, *shape[1:]))
    counts = tensor(lengths)
    return tensor(positions) < reshaped(counts, (counts.size, *(1,) * (len(shape) - 1)))
