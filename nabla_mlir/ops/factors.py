"""Products in which a root cancels: one factor is divided by the root, and the other is a multiple of the root.

The derivative of y = sqrt(x) is 1 / (2 y), infinite at 0; the derivative of y * y is 2 y. Their product is 1, also at
0, where floating point computes 0 * inf = NaN. So rules multiply with `times`, which looks for a common root in both
factors. The product without the root has all its derivatives at 0. Examples are a squared norm, and a kernel of a
squared distance. In this module, y is the root.

A divisor that is no root cancels only if it is the other factor itself: the derivative of ``x * log(x)`` contains
``x * (1 / x)``, whose own derivative would contain 1 / x**2, which overflows or underflows long before x does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iree.compiler import ir

from nabla_mlir.dialects.regions import before_reshapes, made_by
from nabla_mlir.table.registry import REGISTRY, operation, record_of
from nabla_mlir.table.tensor import Tensor, full_like, splat_of, wrap

ROOTS = ("stablehlo.sqrt", "ad.root", "ad.hypot")
_SLOPE = "ad.slope"
_QUOTIENTS = ("stablehlo.divide", "ad.quotient", _SLOPE)
_PRODUCTS = ("stablehlo.multiply", "ad.product", "ad.radial")
_SUMS = ("stablehlo.add", "stablehlo.subtract")
_MOVES = ("stablehlo.broadcast_in_dim", "stablehlo.transpose", "stablehlo.slice", "stablehlo.reverse")
_MOST = 24  # the largest number of operations that are examined in each factor
_FIRST = 6  # the number of operations that are examined first: most factors have no root
_DEEP = 8  # the depth to which two roots are compared
_LOOKED = 200  # the largest number of operations in which one search looks for a root


def times(t: Tensor, c: Tensor) -> Tensor:
    """t * c; if a root cancels (see `cancelled`), the product without it."""
    short = cancelled(t, c)
    return t * c if short is None else short


def cancelled(t: Tensor, c: Tensor) -> Tensor | None:
    """t * c without a root, if one factor is divided by the root and the other is a multiple of it; else None.

    For example, ``(s / y) * (y + y)`` with y = sqrt(x) becomes ``s * 2``. Also ``(s / x) * x`` becomes ``s`` for any x.

    Args:
      t: a tangent or a cotangent.
      c: the factor by which a rule multiplies t.
    """
    for a, b in ((t, c), (c, t)):
        rest = _times_divisor(b.value, a.value)
        if rest is not None:
            return rest
    if not _has_root(c.value):
        return None
    for a, b in ((t, c), (c, t)):
        for y in dict.fromkeys(_divisors(b.value)):
            rest = _over_root(a.value, y)
            share = None if rest is None else _times_root(b.value, y)
            if rest is not None and share is not None:
                return rest * share
    return None


def _times_divisor(value: ir.Value, x: ir.Value) -> Tensor | None:
    """value * x, if `value` is a quotient by x or a constant multiple of one, as the derivative of log2(x) is; else None."""
    op = made_by(value)
    if op is None or op.name not in ("stablehlo.divide", "stablehlo.multiply"):
        return None
    above, below = (wrap(v) for v in op.operands)
    if op.name == "stablehlo.divide" and below.value == x:
        return above
    if splat_of(below) is None:
        return None
    rest = _times_divisor(above.value, x)
    return None if rest is None else REGISTRY[op.name](rest, below)


def divided(t: Tensor, y: Tensor) -> Tensor | None:
    """t / y, if y is a root and t is recognised as a multiple of it; else None."""
    return _over_root(t.value, y.value) if is_root(y.value) else None


def has_slope(ct: Tensor) -> bool:
    """True if the cotangent `ct` contains the slope of a root (`ad.slope`), which may be infinite.

    The slope may be moved, masked or multiplied, but not by `ad.radial`, which makes the product finite.
    """
    work, left = [ct.value], _MOST
    while work and left:
        left -= 1
        value = work.pop()
        op = made_by(value)
        if op is None:
            continue
        if op.name == _SLOPE:
            return True
        if op.name in _LINEAR and (value == ct.value or not _is_in_radial(value)):
            work += op.operands
    return False


def _is_in_radial(value: ir.Value) -> bool:
    """True if an `ad.radial` reads the value as first operand; the derivative of that operation puts it into other cotangents."""
    return any(use.owner.name == "ad.radial" and use.operand_number == 0 for use in value.uses)


def is_root(value: ir.Value) -> bool:
    """True for a root, a modulus, the length of a vector, and powers or reshapes of them."""
    maker = made_by(value)
    while maker is not None and (maker.name in _MOVES or maker.name in ("stablehlo.reshape", "stablehlo.power")):
        maker = made_by(maker.operands[0])
    return maker is not None and (maker.name in ROOTS or _is_modulus(maker))


def _is_modulus(op: ir.Operation) -> bool:
    """True for the absolute value of complex numbers."""
    return op.name == "stablehlo.abs" and op.operands[0].type != op.results[0].type


_ROOT_OPS = frozenset((*ROOTS, "stablehlo.abs"))
_INNER = frozenset(
    (*_PRODUCTS, *_QUOTIENTS, *_SUMS, *_MOVES, "stablehlo.power", "stablehlo.negate", "stablehlo.reshape", "stablehlo.select")
)
_LINEAR = frozenset(
    (
        "stablehlo.multiply",
        "ad.product",
        *_MOVES,
        "stablehlo.divide",
        "stablehlo.negate",
        "stablehlo.reshape",
        "stablehlo.convert",
        "stablehlo.select",
    )
)


def _has_root(value: ir.Value) -> bool:
    """True if a factor may contain a root, or be divided by one."""
    work, left = [value], _FIRST
    while work and left:
        left -= 1
        op = made_by(work.pop())
        if op is None:
            continue
        name = op.name
        if name in _ROOT_OPS:
            return True
        if name in _INNER:
            work += op.operands
    return False


def _factors_and_terms(value: ir.Value) -> Iterator[tuple[ir.Value, ir.Operation | None]]:
    """The value, then the factors and terms that it is made of; each with the operation that makes it."""
    work, seen = [value], 0
    while work and seen < _MOST:
        current = work.pop()
        seen += 1
        op = made_by(current)
        yield current, op
        if op is None:
            continue
        if op.name in (*_PRODUCTS, *_SUMS):
            work += op.operands
        elif op.name in _QUOTIENTS or op.name in ("stablehlo.negate", "stablehlo.reshape", *_MOVES):
            work.append(op.operands[0])
        elif op.name == "stablehlo.select":
            work += list(op.operands)[1:]


def _roots(value: ir.Value) -> Iterator[ir.Value]:
    """The roots among the factors and terms of a value, including the bases of powers of roots."""
    for part, op in _factors_and_terms(value):
        if is_root(part):
            yield part
        elif op is not None and op.name == "stablehlo.power" and is_root(op.operands[0]):
            yield op.operands[0]


def _divisors(value: ir.Value) -> Iterator[ir.Value]:
    """The roots by which factors and terms of a value are divided."""
    for _, op in _factors_and_terms(value):
        if op is not None and op.name in _QUOTIENTS and is_root(op.operands[1]):
            yield op.operands[1]


Build = Callable[..., Tensor]


class _Search:
    """The search for a value without a root y. It looks at each operation once, and emits nothing unless the root cancels.

    Args:
      end: ``(value, its operation, y)`` -> a function that emits the value without the root, if the root cancels in the value as
        a whole; None if the search has to go on in the operands. The operation is None for an argument of a block.
    """

    def __init__(self, end: Callable[[ir.Value, ir.Operation | None, ir.Value], Build | None]):
        self._end, self._left = end, _LOOKED
        self._found: dict[tuple[ir.Value, ir.Value], bool] = {}
        self._built: dict[tuple[ir.Value, ir.Value], Tensor] = {}

    def __call__(self, value: ir.Value, y: ir.Value) -> Tensor | None:
        """The value without the root y; None if the search does not find that the root cancels."""
        return self._build(value, y) if self.finds(value, y) else None

    def finds(self, value: ir.Value, y: ir.Value) -> bool:
        """True if the root y cancels in the value. Each pair is searched once; after `_LOOKED` pairs the answer is False."""
        key = (value, y)
        if key not in self._found:
            self._found[key] = False
            self._left -= 1
            self._found[key] = self._left >= 0 and self._cancels_in_parts(value, y)
        return self._found[key]

    def _cancels_in_parts(self, value: ir.Value, y: ir.Value) -> bool:
        """True if the root `y` cancels in `value`: in the value as a whole (`end`), or in operands of its operation.

        In a product, one factor is enough. In other operations the root must cancel in all operands that `_parts` lists: all terms
        of a sum, both cases of a selection, the numerator of a quotient, the operand of a negation, a reshape or a move.
        """
        op = made_by(value)
        if self._end(value, op, y) is not None:
            return True
        if op is None:
            return False
        if splat_of(wrap(value)) == 0:  # 0 without a root, or times a root, is 0
            return True
        parts, _ = _parts(op, y)  # empty if the root cannot cancel in this operation
        found = (self.finds(*part) for part in parts)
        return any(found) if op.name in _PRODUCTS else bool(parts) and all(found)

    def _build(self, value: ir.Value, y: ir.Value) -> Tensor:
        """The tensor `value` without the root `y`; it is emitted once for each pair."""
        key = (value, y)
        if key not in self._built:
            self._built[key] = self._emit(value, y)
        return self._built[key]

    def _emit(self, value: ir.Value, y: ir.Value) -> Tensor:
        """Emits `value` without the root `y`, from the operands of its operation without the root; returns it."""
        op = made_by(value)
        end = self._end(value, op, y)
        if end is not None:
            return end()
        if op is None or splat_of(wrap(value)) == 0:
            return wrap(value)
        parts, build = _parts(op, y)
        if op.name not in _PRODUCTS:
            return build(*(self._build(*part) for part in parts))
        first, second = op.operands
        part, rest = (first, second) if self.finds(first, y) else (second, first)
        return self._build(part, y) * wrap(rest)


def _parts(op: ir.Operation, y: ir.Value) -> tuple[list[tuple[ir.Value, ir.Value]], Build]:
    """The operands in which a root `y` has to cancel, each with the root in its shape; and a function that emits the result without
    it.

    The root has to cancel in one factor of a product, and in all terms of a sum. The list is empty if it cannot cancel. The
    arguments of the function are the operands without the root.
    """
    operands = list(op.operands)
    if op.name in (*_PRODUCTS, *_SUMS):
        return [(v, y) for v in operands], lambda *parts: REGISTRY[op.name](*parts)
    if op.name in _QUOTIENTS:
        record = REGISTRY[op.name]
        return [(operands[0], y)], lambda above: record.apply([above, wrap(operands[1])], record.read(op))[0]
    if op.name == "stablehlo.negate":
        return [(operands[0], y)], lambda inner: -inner
    if op.name == "stablehlo.select":
        return [(v, y) for v in operands[1:]], lambda *cases: REGISTRY[op.name](wrap(operands[0]), *cases)
    if op.name == "stablehlo.reshape":
        return [(operands[0], before_reshapes(y))], lambda inner: REGISTRY[op.name](inner, shape=wrap(op.results[0]).shape)
    maker = made_by(y)
    if op.name in _MOVES and maker is not None and maker.name == op.name:
        record = record_of(op, "vjp")
        if record.read(op) == record.read(maker):
            return [(operands[0], maker.operands[0])], lambda inner: record.apply([inner], record.read(op))[0]
    return [], wrap


def _is_same(value: ir.Value, y: ir.Value) -> bool:
    """True if the value is the root y, or a reshape of it."""
    return _are_equal(before_reshapes(value), before_reshapes(y), _DEEP)


def _end_of_multiple(value: ir.Value, op: ir.Operation | None, y: ir.Value) -> Build | None:
    """A function that emits 1 if `value` is the root y itself, or a lower power if it is a power of y; else None.

    `op` is the operation that makes `value`. Example: for y, the value y ** 3 gives a function that emits y ** 2.
    """
    if _is_same(value, y):
        return lambda: full_like(wrap(value), 1)
    if op is None or op.name != "stablehlo.power":
        return None
    base, exponent = _power(op)
    if exponent is None or exponent < 1:
        return None
    if _are_equal(base.value, y, _DEEP):
        return lambda: _raised(base, exponent - 1)
    maker, divisor = made_by(base.value), made_by(y)
    root, degree = _power(divisor) if divisor is not None and divisor.name == "stablehlo.power" else (wrap(y), 1)
    if maker is None or maker.name not in _PRODUCTS or degree is None or exponent < degree:
        return None
    search = _Search(_end_of_multiple)
    if not search.finds(base.value, root.value):
        return None

    def rest() -> Tensor:
        share = search(base.value, root.value)
        assert share is not None
        return _raised(share, degree) * _raised(base, exponent - degree)

    return rest


def _power(op: ir.Operation) -> tuple[Tensor, float | None]:
    """The base of a power, and its exponent if that is a constant."""
    exponent = splat_of(wrap(op.operands[1]))
    return wrap(op.operands[0]), exponent if isinstance(exponent, float | int) else None


def _raised(base: Tensor, exponent: float) -> Tensor:
    """A power with a constant exponent; the base for exponent 1."""
    return base if exponent == 1 else operation("power")(base, full_like(base, exponent))


def _end_of_quotient(value: ir.Value, op: ir.Operation | None, y: ir.Value) -> Build | None:
    """A function that emits a if `value` is a quotient a / y by the root y; else None. `op` is the operation that makes `value`."""
    if op is None or op.name not in _QUOTIENTS or not _are_equal(op.operands[1], y, _DEEP):
        return None
    return lambda: wrap(op.operands[0])


def _over_root(value: ir.Value, y: ir.Value) -> Tensor | None:
    """value / y, if the search finds that the value is a multiple of the root y; else None."""
    return _Search(_end_of_multiple)(value, y)


def _times_root(value: ir.Value, y: ir.Value) -> Tensor | None:
    """value * y, if the search finds that the value is divided by the root y; else None."""
    return _Search(_end_of_quotient)(value, y)


def _are_equal(a: ir.Value, b: ir.Value, depth: int) -> bool:
    """True if both values are one value, or if equal operations make them from equal values, at most `depth` operations deep."""
    if a == b:
        return True
    first, second = made_by(a), made_by(b)
    if first is None or second is None or first.name != second.name or depth == 0 or a.type != b.type:
        return False
    record = REGISTRY.get(first.name)
    if record is None:
        return first.name == "stablehlo.constant" and first.attributes["value"] == second.attributes["value"]
    if not record.pure or record.control is not None or len(first.operands) != len(second.operands) or len(first.results) != 1:
        return False
    if record.has_params and record.read(first) != record.read(second):
        return False
    return all(_are_equal(x, y, depth - 1) for x, y in zip(first.operands, second.operands, strict=True))
