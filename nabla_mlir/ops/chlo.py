"""Operations of CHLO that are not plain elementwise functions, and operations that broadcast as in NumPy."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import RuleMissingError, user_frame
from nabla_mlir.dialects.stablehlo import I64, Codec, DimensionNumbers, I64Array, Raw, parse_attribute
from nabla_mlir.dialects.types import element_dtype
from nabla_mlir.ops import gamma  # noqa: F401  (two of its functions broadcast, too)
from nabla_mlir.ops.contraction import dims as dot_dims
from nabla_mlir.ops.contraction import dot_general
from nabla_mlir.ops.elementwise import absolute, rsqrt, sign
from nabla_mlir.ops.gather import along_axis
from nabla_mlir.ops.logic import compare, logical_and, select
from nabla_mlir.ops.shape import broadcast_in_dim, expand, iota, move_axis, reduce_sum
from nabla_mlir.sparsity import operands as patterns
from nabla_mlir.table.kinds import composite, elementwise, general
from nabla_mlir.table.promotion import broadcast_shapes
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.samples import Case, booleans, integers, reals
from nabla_mlir.table.tensor import Tensor, full, full_like
from nabla_mlir.table.traits import ONE_BY_ONE

Shape = tuple[int, ...]

# ---------------------------------------------------------------- elementwise
is_inf: OpDef = elementwise("chlo.is_inf", doc="True for infinite x.", partials=ZERO, numpy=np.isinf, sample=(reals(),))
is_pos_inf: OpDef = elementwise(
    "chlo.is_pos_inf", doc="True for positive infinity.", partials=ZERO, numpy=np.isposinf, sample=(reals(),)
)
is_neg_inf: OpDef = elementwise(
    "chlo.is_neg_inf", doc="True for negative infinity.", partials=ZERO, numpy=np.isneginf, sample=(reals(),)
)
next_after: OpDef = elementwise(
    "chlo.next_after",
    doc="The next float after x in the direction of y. Its derivative is that of x.",
    partials=[lambda t, z, x, y: t, ZERO],
    numpy=np.nextafter,
    sample=(reals(), reals()),
)
mulhi: OpDef = elementwise(
    "chlo.mulhi",
    doc="The high half of the product of two integers.",
    commutes=True,
    partials=ZERO,
    numpy=lambda a, b: ((a.astype(np.int64) * b.astype(np.int64)) >> 32).astype(np.int32),
    sample=(integers(), integers()),
)
constant_like: OpDef = elementwise(
    "chlo.constant_like", doc="A constant of the shape of x.", partials=ZERO, attributes={"value": Raw}, sample=[]
)


@functools.cache
def _i0e_series() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The coefficients of two Chebyshev series: of exp(-x) I0(x) for x <= 8, and of sqrt(x) exp(-x) I0(x) for x >= 8.

    The variables of the series are x/4 - 1 and 16/x - 1.
    """
    from numpy.polynomial.chebyshev import chebinterpolate

    angles = (np.arange(4096) + 0.5) * np.pi / 4096

    def i0e(x: Any) -> Any:  # the mean of exp(x (cos(angle) - 1)); the midpoint rule is exact up to rounding
        return np.exp(np.multiply.outer(x, np.cos(angles) - 1)).mean(-1)

    near = chebinterpolate(lambda u: i0e(4 * (u + 1)), 29)
    far = chebinterpolate(lambda u: np.sqrt(16 / (u + 1)) * i0e(16 / (u + 1)), 24)
    return tuple(near.tolist()), tuple(far.tolist())


@functools.cache
def _i1e_slope() -> tuple[float, ...]:
    """Chebyshev coefficients of -x**(3/2) times the derivative of exp(-x) I1(x), in 16/x - 1 for x >= 8.

    The formula of the derivative, I0 - I1 - I1/x, is the difference of almost equal numbers there.
    """
    from numpy.polynomial import chebyshev

    angles = (np.arange(4096) + 0.5) * np.pi / 4096

    def i1e(u: Any) -> Any:  # sqrt(x) exp(-x) I1(x)
        x = 16 / (u + 1)
        return np.sqrt(x) * (np.exp(np.multiply.outer(x, np.cos(angles) - 1)) * np.cos(angles)).mean(-1)

    value = chebyshev.chebinterpolate(i1e, 24)
    slope = chebyshev.chebmul(chebyshev.chebder(value), [1.0, 1.0])
    return tuple(chebyshev.chebadd(0.5 * value, slope).tolist())


def _chebyshev(u: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The sum of a Chebyshev series with these coefficients at u, by Clenshaw's recurrence."""
    twice, last, before = u + u, full_like(u, coefficients[-1]), full_like(u, 0)
    for c in coefficients[-2:0:-1]:
        last, before = twice * last - before + c, last
    return u * last - before + coefficients[0]


def i0e(x: Tensor) -> Tensor:
    """exp(-|x|) times the modified Bessel function I0."""
    size = absolute(x)
    near, far = _i0e_series()
    small = compare(size, full_like(size, 8), comparison_direction="LE")
    eight = full_like(size, 8)
    inner, outer = select(small, size, eight), select(small, eight, size)
    return select(small, _chebyshev(inner * 0.25 - 1.0, near), _chebyshev(16.0 / outer - 1.0, far) * rsqrt(outer))


def _i1e_partial(t: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The tangent of y = exp(-|x|) I1(x) for a tangent t of x: a series for |x| > 8, else the recurrence."""
    # The quotient y / x is 1/2 at 0.
    at_zero = compare(x, full_like(x, 0), comparison_direction="EQ")
    safe = select(at_zero, full_like(x, 1), x)
    size, eight = absolute(x), full_like(x, 8)
    is_far = compare(size, eight, comparison_direction="GT")
    far = select(is_far, size, eight)
    slope = -(_chebyshev(16.0 / far - 1.0, _i1e_slope()) * rsqrt(far) / far)
    return t * select(is_far, slope, select(at_zero, full_like(x, 0.5), i0e(x) - y * (sign(x) + 1.0 / safe)))


bessel_i1e: OpDef = elementwise(
    "chlo.bessel_i1e",
    doc="exp(-|x|) times the modified Bessel function I1.",
    instructions=60,
    partials=[_i1e_partial],
    numpy="scipy.special:i1e",
    singular=((0.0,),),
    sample=(reals(-12, 12, avoid=[-8, 0, 8]),),
)


# ---------------------------------------------------------------- top_k


def _top_k_jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, k: int) -> list[MaybeZero]:
    """The tangents at the indices of the k largest elements. `outs` are the results."""
    t = tangents[0]
    return [ZERO if isinstance(t, Zero) else along_axis(t, outs[1], t.ndim - 1), ZERO]


def _top_k_numpy(x: Any, k: int = 2) -> Any:
    order = np.argsort(-x, -1, kind="stable")[..., :k]
    return [np.take_along_axis(x, order, -1), order]


top_k: OpDef = general(
    "chlo.top_k",
    pattern=patterns.trailing(1),
    doc="The k largest elements along the last axis, and their indices.",
    attributes={"k": I64},
    instructions=ONE_BY_ONE,
    result=lambda x, k: [((*x.shape[:-1], k), x.dtype), ((*x.shape[:-1], k), np.dtype(np.int32))],
    jvp=_top_k_jvp,
    batch=lambda xs, mapped, size, k: top_k.apply(xs, {"k": k}),
    multi=True,
    sample=[Case(((3, 4),), {"k": 2}, numpy=_top_k_numpy)],
)

# ---------------------------------------------------------------- ragged_dot

RaggedDims: DimensionNumbers = DimensionNumbers(
    "ragged_dot",
    (
        "lhs_batching_dimensions",
        "rhs_batching_dimensions",
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
        "lhs_ragged_dimensions",
        "rhs_group_dimensions",
    ),
)


def _ragged_text(numbers: Any) -> str:
    """The attribute of the dimension numbers as text."""
    fields = [f"{k} = {[int(i) for i in numbers[k]]}" for k in RaggedDims.lists if len(numbers[k])]
    return f"#chlo.ragged_dot<{', '.join(fields)}>"


def _ragged_numbers(numbers: Any) -> tuple[Shape, Shape, Shape, Shape, int, Shape]:
    """The dimension numbers: batching and contracting axes of lhs and rhs, the ragged axis of lhs, and the group axis of rhs."""
    lb, rb, lc, rc, ragged, group = (tuple(numbers[k]) for k in RaggedDims.lists)
    return lb, rb, lc, rc, ragged[0], group


def _ragged_result(
    lhs: Tensor, rhs: Tensor, sizes: Tensor, *, ragged_dot_dimension_numbers: Any, dtype: np.dtype, **_: Any
) -> list[Any]:
    """A list with the shape and the dtype of a ragged product of `lhs` and `rhs`.

    `sizes` are the lengths of the groups along the ragged axis. If this axis is contracted, the groups are a new leading axis.
    """
    lb, rb, lc, rc, ragged, group = _ragged_numbers(ragged_dot_dimension_numbers)
    shape = [lhs.shape[d] for d in lb] + [n for d, n in enumerate(lhs.shape) if d not in (*lb, *lc)]
    shape += [n for d, n in enumerate(rhs.shape) if d not in (*rb, *rc, *group)]
    return [(((sizes.shape[-1],) if ragged in lc else ()) + tuple(shape), np.dtype(dtype))]


def _ragged_dot(xs: Sequence[Tensor], *, ragged_dot_dimension_numbers: Any, precision_config: Any, dtype: np.dtype) -> list[Tensor]:
    """The ragged product as one dense product: lhs is repeated for each group, with zeros in the rows of other groups."""
    lhs, rhs, sizes = xs
    lb, rb, lc, rc, ragged, group = _ragged_numbers(ragged_dot_dimension_numbers)
    if sizes.ndim != 1:
        raise RuleMissingError(
            f"the derivative of chlo.ragged_dot requires group sizes of one axis, got {sizes.ndim}.", where=user_frame()
        )
    mask = _membership(sizes, lhs.shape[ragged])  # groups x rows
    shape = (mask.shape[0], *lhs.shape)
    in_group = broadcast_in_dim(mask, shape=shape, broadcast_dimensions=(0, ragged + 1))
    spread = select(in_group, expand(lhs, shape, (0,)), full(shape, 0, lhs.dtype))
    params = {"precision_config": None, "dtype": np.dtype(dtype)}
    up = lambda axes: tuple(d + 1 for d in axes)  # noqa: E731  # the axes after the new axis of groups
    if group:  # the group of the row selects the matrix, so the group axis is contracted, too
        return [dot_general(spread, rhs, dot_dimension_numbers=dot_dims((0, *up(lc)), (*group, *rc), up(lb), rb), **params)]
    out = dot_general(spread, rhs, dot_dimension_numbers=dot_dims(up(lc), rc, up(lb), rb), **params)
    out = move_axis(out, len(lb), 0)  # batch, groups, ... -> groups, batch, ...
    # Each batched row belongs to one group; the products of the other groups are zero.
    return [out if ragged in lc else reduce_sum(out, (0,))]


def _membership(sizes: Tensor, rows: int) -> Tensor:
    """A mask of shape (groups, rows): True if the row belongs to the group."""
    n = sizes.shape[0]
    shape = (n, n)
    earlier = compare(
        iota(shape=shape, dtype=sizes.dtype, iota_dimension=1),
        iota(shape=shape, dtype=sizes.dtype, iota_dimension=0),
        comparison_direction="LT",
    )
    summands = select(earlier, expand(sizes, shape, (0,)), full(shape, 0, sizes.dtype))
    start = reduce_sum(summands, (1,))
    row = iota(shape=(n, rows), dtype=sizes.dtype, iota_dimension=1)
    low, high = (expand(v, (n, rows), (1,)) for v in (start, start + sizes))
    return logical_and(compare(row, low, comparison_direction="GE"), compare(row, high, comparison_direction="LT"))


ragged_dot: OpDef = composite(
    "chlo.ragged_dot",
    doc="Products of groups of rows with the matrix of their group.",
    define=_ragged_dot,
    attributes={
        "ragged_dot_dimension_numbers": Codec(lambda v: parse_attribute(_ragged_text(v)), RaggedDims.decode),
        "precision_config": Raw,
    },
    defaults={"precision_config": None},
    result=_ragged_result,
    result_params=lambda op: {"dtype": element_dtype(op.results[0].type)},
    sample=[],  # XLA has no CPU code for it
)

# ---------------------------------------------------------------- implicit broadcasting


def _chlo_enum(kind: str) -> Codec:
    return Codec(lambda word: parse_attribute(f"#chlo<{kind} {word}>"), lambda a: str(a).rstrip(">").split()[-1])


def broadcast_shape(shapes: Sequence[Shape], broadcast_dimensions: Shape | None) -> Shape:
    """The shape of the result of an operation that broadcasts.

    `broadcast_dimensions` are the axes of the result for the axes of the operand of lower rank; by default the last axes. `shapes`
    are the shapes of the operands.
    """
    if broadcast_dimensions is None or len(shapes[0]) == len(shapes[1]):
        return broadcast_shapes("broadcasting", shapes)
    small, large = sorted(shapes, key=len)
    wide = [1] * len(large)
    for axis, d in enumerate(broadcast_dimensions):
        wide[d] = small[axis]
    return broadcast_shapes("broadcasting", [tuple(wide), large])


def _spread(x: Tensor, shape: Shape, broadcast_dimensions: Shape | None) -> Tensor:
    """x, broadcast to a shape by the rules of CHLO."""
    if x.shape == shape:
        return x
    axes = tuple(range(len(shape) - x.ndim, len(shape)))
    if broadcast_dimensions is not None and len(broadcast_dimensions) == x.ndim:
        axes = broadcast_dimensions
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=axes)


def _broadcasting(name: str, base: OpDef, sample: Any, **attributes: Codec) -> OpDef:
    """Registers a CHLO operation that broadcasts its operands, then applies the operation `base` of StableHLO; returns its record.

    `sample` are the inputs of its tests, and `attributes` its further attributes.
    """

    def result(*xs: Tensor, broadcast_dimensions: Shape | None = None, **_: Any) -> list[Any]:
        """A list with the shape and the dtype of the result for the operands `xs`."""
        dtype = xs[-1].dtype  # the first operand of `select` is the predicate
        if name == "compare":
            dtype = np.dtype(bool)
        elif name == "complex":
            dtype = np.result_type(dtype, np.complex64)
        return [(broadcast_shape([x.shape for x in xs], broadcast_dimensions), dtype)]

    def define(xs: Sequence[Tensor], *, broadcast_dimensions: Shape | None = None, **params: Any) -> list[Tensor]:
        shape = broadcast_shape([x.shape for x in xs], broadcast_dimensions)
        return base.apply([_spread(x, shape, broadcast_dimensions) for x in xs], params)

    # These attributes may be missing: `broadcast_dimensions`, which `select` does not have, and `compare_type`.
    own = {} if name == "select" else {"broadcast_dimensions": I64Array}
    return composite(
        f"chlo.broadcast_{name}",
        doc=f"{base.name.split('.')[1]} of operands that broadcast as in NumPy.",
        elementwise=True,
        commutes=base.commutes,
        instructions=base.instructions,
        define=define,
        jvp=ZERO if isinstance(base.jvp, Zero) else None,
        attributes={**own, **attributes},
        defaults=dict.fromkeys([*own, *(k for k in attributes if k == "compare_type")]),
        result=result,
        sample=sample,
    )


_INTEGERS = ("and", "or", "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical")
for _name in (
    "add",
    "atan2",
    "complex",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "next_after",
    "polygamma",
    "power",
    "remainder",
    "subtract",
    "zeta",
    *_INTEGERS,
):
    _base = REGISTRY.get(f"stablehlo.{_name}") or REGISTRY[f"chlo.{_name}"]
    _domains = () if _name == "complex" else tuple(_base.sample)
    _reference = (lambda a, b: a + 1j * b) if _name == "complex" else _base.numpy
    _cases = [Case(((3, 2), (2,)), domains=_domains, numpy=_reference)]
    globals()[f"broadcast_{_name}"] = _broadcasting(_name, _base, _cases)

broadcast_compare: OpDef = _broadcasting(
    "compare",
    compare,
    [Case(((3, 2), (2,)), {"comparison_direction": "LT", "compare_type": None}, numpy=np.less)],
    comparison_direction=_chlo_enum("comparison_direction"),
    compare_type=_chlo_enum("comparison_type"),
)
broadcast_select: OpDef = _broadcasting("select", select, [Case(((2,), (3, 1), ()), domains=(booleans(),), numpy=np.where)])
