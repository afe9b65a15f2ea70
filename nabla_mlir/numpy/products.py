"""Products of arrays; all are contractions of labelled axes."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.numpy.axes import axes_of, axis_of, padded
from nabla_mlir.numpy.creation import diagonal
from nabla_mlir.numpy.operands import common_dtype, convert, meet, tensor
from nabla_mlir.numpy.reductions import sum
from nabla_mlir.numpy.shapes import moveaxis, roll
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.einsum import contract, lengths_of, ordered, parse, sum_out, without_repeats
from nabla_mlir.ops.einsum import outer as outer_product
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_shapes, common_type
from nabla_mlir.table.tensor import Tensor


# ---------------------------------------------------------------- operands with labelled axes
def _product(a: Tensor, la: str, b: Tensor, lb: str, out: str) -> Tensor:
    """The product of `a` with labels `la` and `b` with labels `lb`, summed over labels that are not in `out`, as an array with
    labels `out`.

    As in NumPy, an axis of size 1 matches any length of its label.
    """
    lengths = dict(zip(la, a.shape, strict=True))
    for c, n in zip(lb, b.shape, strict=True):
        lengths[c] = n if lengths.get(c, 1) == 1 else lengths[c]
    (a, la), (b, lb) = _without_units(a, la, lengths), _without_units(b, lb, lengths)
    return ordered(*contract(a, la, b, lb, out), out)


def _without_units(x: Tensor, labels: str, lengths: dict[str, int]) -> tuple[Tensor, str]:
    """The array without the axes of size 1 whose label has a longer length in the other operand, and its remaining labels. `labels`
    has a letter for each axis of `x`, and `lengths` maps letters to their longest length.
    """
    axes = [d for d, c in enumerate(labels) if x.shape[d] == lengths[c]]
    return reshaped(x, tuple(x.shape[d] for d in axes)), "".join(labels[d] for d in axes)


def pair(name: str, a: ArrayLike, b: Any, preference: Any = None) -> tuple[Tensor, Tensor]:
    """Promotes both factors to one dtype, at least to the preferred dtype of the result."""
    dtype = _at_least(common_dtype([a, b]), preference)
    return convert(tensor(a), dtype), convert(tensor(b), dtype)


def _at_least(dtype: np.dtype, preference: Any) -> np.dtype:
    """The dtype of the sum: at least as wide as the preferred dtype of the result, if one is given."""
    return dtype if preference is None else common_type(dtype, as_dtype(preference))


def as_preferred(x: Tensor, preference: Any) -> Tensor:
    """Converts a result to its preferred dtype, if one is given."""
    return x if preference is None else convert(x, as_dtype(preference))


def _vectors(name: str, a: Any, b: Any, axis: int) -> list[Tensor]:
    """Both operands with the axis of the vectors, which have one length, at the end, and the other axes broadcast.

    Raises ShapeError if the lengths differ. `name` is the called function.
    """
    lengths = [np.shape(x)[axis_of(name, axis, np.ndim(x))] for x in (a, b)]
    if lengths[0] != lengths[1]:
        raise ShapeError(
            f"{name} requires vectors of one length, got {lengths[0]} and {lengths[1]} along axis {axis}.", where=user_frame()
        )
    return meet(name, *(moveaxis(tensor(x), axis, -1) for x in (a, b)))


def _labels(n: int, start: int = 0) -> str:
    """`n` letters as labels of axes, from number `start` on."""
    return string.ascii_letters[start : start + n]


# ---------------------------------------------------------------- products
@library
def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> Tensor:
    """The matrix product of the last two axes; the other axes broadcast.

    A vector on the left is a row; a vector on the right is a column.

    Raises:
      ShapeError: the inner lengths differ, or an operand is a scalar.

    Example:
      >>> import numpy as np
      >>> matmul(np.eye(2), np.array([1.0, 2.0])).tolist()
      [1.0, 2.0]
    """
    a, b = pair("matmul", a, b, preferred_element_type)
    if not a.ndim or not b.ndim:
        raise ShapeError(f"matmul requires operands with axes, got {a.shape} and {b.shape}.", where=user_frame(), help="use *.")
    if a.shape[-1] != b.shape[-min(b.ndim, 2)]:
        raise ShapeError(
            f"matmul requires equal inner lengths, got {a.shape} and {b.shape}.",
            where=user_frame(),
            help="transpose one of them (x.T, x.mT) if its axes are in the other order.",
        )
    batch_a, batch_b = a.shape[:-2], b.shape[:-2]
    rank = len(broadcast_shapes("matmul", [batch_a, batch_b]))
    letters = _labels(rank)
    rows, columns = "X" if a.ndim > 1 else "", "Z" if b.ndim > 1 else ""
    la = letters[rank - len(batch_a) :] + rows + "Y"
    lb = letters[rank - len(batch_b) :] + "Y" + columns
    return as_preferred(_product(a, la, b, lb, letters + rows + columns), preferred_element_type)


@library
def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> Tensor:
    """The sum of products over the last axis of a and the second-last (for a vector: the only) axis of b."""
    a, b = pair("dot", a, b, preferred_element_type)
    if not a.ndim or not b.ndim:
        return as_preferred(ew.multiply(*meet("dot", a, b)), preferred_element_type)
    return as_preferred(_tensordot("dot", a, b, (a.ndim - 1,), (max(b.ndim - 2, 0),)), preferred_element_type)


@library
def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> Tensor:
    """The sum of products over the last axes."""
    a, b = pair("inner", a, b, preferred_element_type)
    if not a.ndim or not b.ndim:
        return as_preferred(ew.multiply(*meet("inner", a, b)), preferred_element_type)
    return as_preferred(_tensordot("inner", a, b, (a.ndim - 1,), (b.ndim - 1,)), preferred_element_type)


@library
def tensordot(
    a: ArrayLike, b: ArrayLike, axes: Static[Any] = 2, *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The sum of products over pairs of axes: the last n of a with the first n of b, or two lists of axes.

    Raises:
      ShapeError: paired axes have different lengths.
    """
    a, b = pair("tensordot", a, b, preferred_element_type)
    if isinstance(axes, (list, tuple)):
        left, right = (
            axes_of("tensordot", part if isinstance(part, (list, tuple)) else (part,), x.ndim)
            for part, x in zip(axes, (a, b), strict=True)
        )
    else:
        if axes > min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot requires {axes} axes in both operands, got {a.shape} and {b.shape}.", where=user_frame())
        left, right = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    return as_preferred(_tensordot("tensordot", a, b, left, right), preferred_element_type)


def _tensordot(name: str, a: Tensor, b: Tensor, left: Sequence[int], right: Sequence[int]) -> Tensor:
    """The sum of products over pairs of axes, `left` of a and `right` of b: first the other axes of a, then those of b.

    Raises ShapeError if paired axes differ in length.
    """
    if [a.shape[d] for d in left] != [b.shape[d] for d in right]:
        raise ShapeError(
            f"{name} requires equal lengths of the axes {tuple(left)} and {tuple(right)}, got shapes {a.shape} and {b.shape}.",
            where=user_frame(),
        )
    labels_a, labels_b = _labels(a.ndim), list(_labels(b.ndim, a.ndim))
    for i, j in zip(left, right, strict=True):
        labels_b[j] = labels_a[i]
    out = [c for c in labels_a if c not in labels_b] + [c for c in labels_b if c not in labels_a]
    return ordered(*contract(a, labels_a, b, "".join(labels_b), "".join(out)), "".join(out))


@library
def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> Tensor:
    """The sum of conj(a) * b over all elements."""
    a, b = pair("vdot", a, b, preferred_element_type)
    a, b = reshaped(a, (a.size,)), reshaped(b, (b.size,))
    a = ew.conj(a) if a.dtype.kind == "c" else a
    return as_preferred(_tensordot("vdot", a, b, (0,), (0,)), preferred_element_type)


@library
def vecdot(
    a: ArrayLike, b: ArrayLike, /, *, axis: Static[int] = -1, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The sum of conj(a) * b along one axis; the others broadcast."""
    a, b = _vectors("vecdot", a, b, axis)
    a, b = pair("vecdot", a, b, preferred_element_type)
    labels = _labels(a.ndim)
    out = labels[:-1]
    a = ew.conj(a) if a.dtype.kind == "c" else a
    return as_preferred(ordered(*contract(a, labels, b, labels, out), out), preferred_element_type)


@library
def outer(a: ArrayLike, b: ArrayLike) -> Tensor:
    """The matrix of the products of all elements of a with all elements of b."""
    a, b = pair("outer", a, b)
    return outer_product(reshaped(a, (a.size,)), "i", reshaped(b, (b.size,)), "j", "ij")


@library
def kron(a: ArrayLike, b: ArrayLike) -> Tensor:
    """The Kronecker product: every element of a is replaced by its product with b."""
    a, b = pair("kron", a, b)
    n = max(a.ndim, b.ndim)
    a, b = (reshaped(x, (1,) * (n - x.ndim) + x.shape) for x in (a, b))
    la, lb = _labels(n), _labels(n, n)
    out = "".join(c for pair in zip(la, lb, strict=True) for c in pair)
    return reshaped(outer_product(a, la, b, lb, out), tuple(i * j for i, j in zip(a.shape, b.shape, strict=True)))


@library
def trace(
    a: ArrayLike, offset: Static[int] = 0, axis1: Static[int] = 0, axis2: Static[int] = 1, dtype: DTypeLike | None = None
) -> Tensor:
    """The sum of a diagonal of two axes, which the result does not have; `dtype` is the dtype of the sum."""
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype=dtype)


@library
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: Static[int] = -1,
    axisb: Static[int] = -1,
    axisc: Static[int] = -1,
    axis: Static[int | None] = None,
) -> Tensor:
    """The vector product of vectors with three elements along an axis; the other axes broadcast.

    Args:
      a, b: the vectors.
      axisa, axisb, axisc: the axis of a, of b, and of the result.
      axis: the same for all three.

    Raises:
      ShapeError: the axes have another length than 3.
    """
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    x, y = (moveaxis(tensor(v), d, -1) for v, d in ((a, axisa), (b, axisb)))
    if {x.shape[-1], y.shape[-1]} - {2, 3}:
        raise ShapeError(f"cross requires vectors of 2 or 3 elements, got shapes {x.shape} and {y.shape}.", where=user_frame())
    is_flat = x.shape[-1] == y.shape[-1] == 2
    x, y = meet("cross", *(v if is_flat or v.shape[-1] == 3 else padded(v, v.ndim - 1, 0, 1) for v in (x, y)))
    if is_flat:
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    # (a x b)[i] = a[i+1] b[i+2] - a[i+2] b[i+1] = roll(a * roll(b, -1) - roll(a, -1) * b, -1)
    return moveaxis(roll(x * roll(y, -1, -1) - roll(x, -1, -1) * y, -1, -1), -1, axisc)


@library
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The products of matrices (..., m, n) and vectors (..., n)."""
    return einsum("...ij,...j->...i", x1, x2)


@library
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The products of conjugate vectors (..., m) and matrices (..., m, n)."""
    x = tensor(x1)
    return einsum("...i,...ij->...j", ew.conj(x) if x.dtype.kind == "c" else x, x2)


@library
def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Tensor:
    """The product of several matrices in the cheapest order; the first and the last may be vectors.

    Example:
      >>> import numpy as np
      >>> multi_dot([np.ones(2), np.ones((2, 3)), np.ones(3)]).tolist()
      6.0
    """
    letters = _labels(len(arrays) + 1)
    names = [letters[k : k + 2] for k in range(len(arrays))]
    names[0], names[-1] = names[0][-np.ndim(arrays[0]) :], names[-1][: np.ndim(arrays[-1])]
    out = names[0][:-1] + names[-1][1:]
    return einsum(f"{','.join(names)}->{out}", *arrays)


# ---------------------------------------------------------------- einsum
@library
def einsum(
    subscripts: Any, /, *operands: Any, optimize: Any = "auto", precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """A sum of products in Einstein notation, such as ``"ij,jk->ik"``.

    Args:
      subscripts: a label for each axis of each operand, then ``->`` and the labels of the result. Without ``->``, the result
        has the labels that occur once, in alphabetical order. A repeated label of one operand selects the diagonal;
        ``...`` means axes that broadcast. Alternatively, the first array.
      *operands: the arrays. If `subscripts` is an array, each array is followed by a list of integer labels, and the last
        list has the labels of the result.
      optimize: "auto" contracts more than two operands in the cheapest order, False from left to right.
      precision: has no effect; every product has the precision of its dtype.
      preferred_element_type: the dtype of the result; sums are computed in it if it is wider.

    Raises:
      ShapeError: the subscripts do not fit the shapes.
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _lettered([subscripts, *operands])
    shapes = [np.shape(x) for x in operands]
    inputs, output = parse(subscripts, shapes)
    dtype = _at_least(common_dtype(operands), preferred_element_type)
    tensors = [convert(tensor(x), dtype) for x in operands]
    lengths = lengths_of(subscripts, inputs, shapes, units=True)
    parts = [without_repeats(*_without_units(x, part_labels, lengths)) for x, part_labels in zip(tensors, inputs, strict=True)]
    for pair in _order(inputs, output, tensors, optimize):
        pair_operands = [parts.pop(i) for i in sorted(pair, reverse=True)][::-1]
        rest = output + "".join(part_labels for _, part_labels in parts)
        if len(pair_operands) == 1:
            parts.append(sum_out(*pair_operands[0], rest))
            continue
        (a, la), (b, lb) = pair_operands
        rest_labels = output if not parts else "".join(dict.fromkeys(c for c in la + lb if c in rest))
        parts.append(contract(a, la, b, lb, "".join(c for c in rest_labels if c in la + lb)))
    x, labels = parts[0]
    x, labels = sum_out(x, labels, output)
    missing = [c for c in output if c not in labels]  # labels of dropped axes of size 1
    x = reshaped(x, (*(1 for _ in missing), *x.shape))
    return as_preferred(ordered(x, "".join(missing) + labels, output), preferred_element_type)


def _lettered(parts: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Subscripts with letters, and the arrays, from arrays that are each followed by a list of integer labels.

    Example: (x, [0, 1], y, [1], [0]) gives "ab,b->a" and (x, y).
    """

    def letters(labels: Sequence[Any]) -> str:
        """The labels of one array as letters; an ellipsis becomes three dots."""
        return "".join("..." if label is Ellipsis else string.ascii_letters[label] for label in labels)

    end = len(parts) // 2 * 2  # of the arrays with their labels; the labels of the result may follow
    text = ",".join(map(letters, parts[1:end:2]))
    return text + "".join(f"->{letters(labels)}" for labels in parts[end:]), tuple(parts[:end:2])


def einsum_path(subscripts: str, /, *operands: Any, optimize: Any = "auto") -> Any:
    """The order in which `numpy.einsum` contracts operands, and a report of the costs."""
    dummies = [np.broadcast_to(np.empty((), np.float32), np.shape(x)) for x in operands]
    return np.einsum_path(subscripts, *dummies, optimize="optimal" if optimize == "auto" else optimize)


def _order(inputs: Sequence[str], output: str, tensors: Sequence[Tensor], optimize: Any) -> list[tuple[int, ...]]:
    """The pairs of operands in the order in which an einsum contracts them.

    `inputs` and `output` are the labels of the operands and of the result, and `optimize` is False for the order from left to
    right. A pair has the positions of its operands in the list of those that remain; the result of a pair is appended to the list.
    """
    n = len(inputs)
    if n <= 2:
        return [tuple(range(n))]
    if not optimize:
        return [(0, 1), *((0, n - 1 - k) for k in range(1, n - 1))]
    if len(set("".join(inputs))) > 52:
        raise TraceError("einsum requires at most 52 labels, got more.", where=user_frame())
    dummies = [np.broadcast_to(np.empty((), np.float32), x.shape) for x in tensors]  # these have shapes but no memory
    path, _ = np.einsum_path(f"{','.join(inputs)}->{output}", *dummies, optimize="optimal" if n <= 5 else "greedy")
    pairs: list[tuple[int, ...]] = []
    count = n
    for step in path[1:]:  # NumPy may contract several operands at once; here they are contracted in pairs, from the end
        step = tuple(step)
        while len(step) > 2:
            high, low = sorted(step)[-1], sorted(step)[-2]
            pairs.append((low, high))
            count -= 1
            step = (*sorted(step)[:-2], count - 1)
        pairs.append(step)
        count -= len(step) - 1
    return pairs
