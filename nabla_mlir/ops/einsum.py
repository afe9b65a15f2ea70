"""Sums of products in Einstein's notation: each axis has a label, and labels that the result does not have are summed over.

`stablehlo.einsum` and the products in `nabla_mlir.numpy` are built on this module.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.ops.contraction import dims, dot_general
from nabla_mlir.ops.elementwise import convert, multiply
from nabla_mlir.ops.logic import compare
from nabla_mlir.ops.reduction import identity_of, reduce
from nabla_mlir.ops.shape import broadcast_in_dim, reshaped, sliced, transposed
from nabla_mlir.table.tensor import Tensor, full

Shape = tuple[int, ...]
_BOOL, _COUNT = np.dtype(bool), np.dtype(np.int32)


def parse(subscripts: str, shapes: Sequence[Shape], arrow: bool = False) -> tuple[list[str], str]:
    """The labels of each operand and of the result; the axes of an ellipsis get new labels.

    Args:
      subscripts: such as ``"ij,jk->ik"``. Without an arrow, the result has the labels that occur once, in order.
      shapes: the shapes of the operands.
      arrow: True if an arrow is required.

    Raises:
      ShapeError: labels and axes do not fit, or the result has a label twice, or a label that no operand has.
    """
    text = subscripts.replace(" ", "")
    left, separator, output = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes) or (arrow and not separator):
        raise ShapeError(f"einsum requires terms for {len(shapes)} operands, got {subscripts!r}.", where=user_frame())
    if any(set(term.replace("...", "", 1)) - set(string.ascii_letters) for term in [*terms, output]):
        raise ShapeError(f"einsum requires letters, '...', ',' and '->', got {subscripts!r}.", where=user_frame())
    ranks = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes, strict=True)]
    if any(n < 0 if "..." in term else n for n, term in zip(ranks, terms, strict=True)):
        raise ShapeError(f"einsum requires a letter for each axis, got {subscripts!r} for {_listed(shapes)}.", where=user_frame())
    dots = "".join([c for c in string.ascii_letters[::-1] if c not in text][: max(ranks, default=0)])
    labels = [term.replace("...", dots[len(dots) - n :]) for term, n in zip(terms, ranks, strict=True)]
    if separator:
        output = output.replace("...", dots)
    else:
        letters = left.replace(",", "").replace("...", "")
        output = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if len(set(output)) != len(output) or not set(output) <= set("".join(labels)):
        raise ShapeError(
            f"einsum requires each letter of the result once, and in an operand, got {subscripts!r}.", where=user_frame()
        )
    return labels, output


def lengths_of(subscripts: str, terms: Sequence[str], shapes: Sequence[Shape], units: bool = False) -> dict[str, int]:
    """The length of the axis of each label.

    `terms` has the labels of each operand. With `units`, an axis of size 1 fits any length. Raises ShapeError if two lengths
    differ.

    Example: terms ["ij", "jk"] of shapes (2, 3) and (3, 4) give {"i": 2, "j": 3, "k": 4}.
    """
    lengths: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for c, n in zip(term, shape, strict=True):
            length = lengths.setdefault(c, n)
            if length == n or (units and n == 1):
                continue
            if not units or length != 1:
                raise ShapeError(
                    f"einsum requires one size for each letter, got {length} and {n} for {c!r} in "
                    f"{subscripts!r} of {_listed(shapes)}.",
                    where=user_frame(),
                )
            lengths[c] = n
    return lengths


def _listed(shapes: Sequence[Shape]) -> str:
    return " and ".join(map(str, shapes))


def diagonal(x: Tensor, axis1: int, axis2: int, offset: int = 0) -> Tensor:
    """The elements x[i, i + offset] of two axes; they form one axis, the last."""
    rest = [d for d in range(x.ndim) if d not in (axis1, axis2)]
    x = transposed(x, (*rest, axis1, axis2))
    lead, (m, n) = x.shape[:-2], x.shape[-2:]
    length = max(0, min(m, n - offset) if offset >= 0 else min(m + offset, n))
    if not length or not math.prod(lead):
        return full((*lead, length), 0, x.dtype)
    # In row-major order, neighbours on the diagonal have a distance of n + 1 elements.
    start = offset if offset >= 0 else -offset * n
    return sliced(reshaped(x, (*lead, m * n)), len(lead), start, start + (length - 1) * (n + 1) + 1, n + 1)


def without_repeats(x: Tensor, labels: str) -> tuple[Tensor, str]:
    """The array with the diagonal of axes of equal labels, and the labels of its axes, each once: "iij" gives "ji"."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            first = labels.index(c)
            second = labels.index(c, first + 1)
            x = diagonal(x, first, second)
            labels = "".join(k for d, k in enumerate(labels) if d not in (first, second)) + c
    return x, labels


def sum_out(x: Tensor, labels: str, rest: str) -> tuple[Tensor, str]:
    """The sum of `x` (for truth values: or) over the labels that are not in `rest`, and the labels that remain."""
    axes = tuple(d for d, c in enumerate(labels) if c not in rest)
    if not axes:
        return x, labels
    body = "or" if x.dtype == _BOOL else "add"
    start = full((), identity_of(body, x.dtype), x.dtype)
    return reduce(x, start, dimensions=axes, body=body), "".join(c for c in labels if c in rest)


def ordered(x: Tensor, labels: str, out: str) -> Tensor:
    """The array with its axes in the order of `out`."""
    return transposed(x, [labels.index(c) for c in out])


def contract(a: Tensor, la: str, b: Tensor, lb: str, out: str, dtype: np.dtype | None = None) -> tuple[Tensor, str]:
    """The product of two arrays with labels `la` and `lb`, summed over labels that are not in `out`; and the labels of the product.

    Every label has one length, and no operand has a label twice. The labels of the product are those of `out`, in an
    order that needs no transposition if such an order exists. `dtype` is the dtype of the product.
    """
    dtype = a.dtype if dtype is None else dtype
    a, la = sum_out(a, la, lb + out)
    b, lb = sum_out(b, lb, la + out)
    shared = [c for c in la if c in lb]
    batch = sorted((c for c in shared if c in out), key=out.index)
    inner = [c for c in shared if c not in out]
    if not inner and a.dtype == dtype:
        return outer(a, la, b, lb, out), out
    free_a, free_b = ([c for c in own if c not in shared] for own in (la, lb))
    swap = [*batch, *free_a, *free_b] != list(out) and [*batch, *free_b, *free_a] == list(out)
    if swap:
        a, la, free_a, b, lb, free_b = b, lb, free_b, a, la, free_a
    numbers = dims(*([own.index(c) for c in labels] for labels, own in ((inner, la), (inner, lb), (batch, la), (batch, lb))))
    labels = "".join([*batch, *free_a, *free_b])
    if a.dtype == _BOOL:
        a, b = convert(a, dtype=_COUNT), convert(b, dtype=_COUNT)
        counts = dot_general(a, b, dot_dimension_numbers=numbers, dtype=_COUNT)
        return compare(counts, full(counts.shape, 0, _COUNT), comparison_direction="NE"), labels
    return dot_general(a, b, dot_dimension_numbers=numbers, dtype=dtype), labels


def outer(a: Tensor, la: str, b: Tensor, lb: str, out: str) -> Tensor:
    """The product of two arrays with labels `la` and `lb` if no label is summed: elementwise after broadcasting, with the axes
    `out`.
    """
    lengths = dict(zip(la + lb, a.shape + b.shape, strict=True))
    shape = tuple(lengths[c] for c in out)
    return multiply(_broadcast_labels(a, la, out, shape), _broadcast_labels(b, lb, out, shape))


def _broadcast_labels(x: Tensor, labels: str, out: str, shape: Shape) -> Tensor:
    """The array with axes in the order of `out`, broadcast along the labels that it does not have; `shape` is the result's."""
    order = sorted(range(len(labels)), key=lambda d: out.index(labels[d]))
    x = transposed(x, order)
    if x.shape == shape:
        return x
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=tuple(out.index(labels[d]) for d in order))
