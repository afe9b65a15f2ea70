"""Operations that kernels compute by a formula of other operations, as functions from operand nodes to the node of the result."""

from __future__ import annotations

import math
from collections.abc import Callable

from nabla_mlir.passes.iree.kernels.graph import Node
from nabla_mlir.passes.iree.kernels.scalars import BYTES


def _full(value: float, like: Node, dtype: str = "") -> Node:
    """A constant filled with a number, with the shape and (by default) the dtype of `like`."""
    return Node("constant", (), like.shape, dtype or like.dtype, {"value": value})


def _not(x: Node) -> Node:
    """The complement: all bits flipped, or the logical not of booleans."""
    ones = (1 << 8 * BYTES[x.dtype]) - 1 if x.dtype[0] == "u" else -1
    return Node("xor", (x, _full(True if x.dtype == "i1" else ones, x)), x.shape, x.dtype)


def _negative(x: Node) -> Node:
    """The negative -x; for integers 0 - x, since `arith` has no negation of integers."""
    if x.dtype[0] == "f":
        return Node("negate", (x,), x.shape, x.dtype)
    return Node("subtract", (_full(0, x), x), x.shape, x.dtype)


def _is_finite(x: Node) -> Node:
    """A boolean, true for elements that are neither infinite nor NaN: |x| < inf."""
    size = Node("abs", (x,), x.shape, x.dtype)
    return Node("compare", (size, _full(math.inf, x)), x.shape, "i1", {"direction": "LT"})


def _sign(x: Node) -> Node:
    """The sign: -1 or 1; zeros and NaN are returned unchanged."""
    result = x
    for value, direction in ((-1, "LT"), (1, "GT")):
        test = Node("compare", (x, _full(0, x)), x.shape, "i1", {"direction": direction})
        result = Node("select", (test, _full(value, x), result), x.shape, x.dtype)
    return result


def _clamped(low: Node, x: Node, high: Node) -> Node:
    """The elements of x, limited to low ... high."""
    return Node("minimum", (Node("maximum", (x, low), x.shape, x.dtype), high), x.shape, x.dtype)


def _logistic(x: Node) -> Node:
    """The logistic function 1 / (1 + exp(-x))."""
    one = _full(1.0, x)
    power = Node("exponential", (_negative(x),), x.shape, x.dtype)
    return Node("divide", (one, Node("add", (one, power), x.shape, x.dtype)), x.shape, x.dtype)


def _quotient(x: Node, y: Node) -> Node:
    """The quotient x / y; a quotient of integers is rounded towards zero, and has all bits set if y is 0.

    Machine instructions trap for y = 0 and for the smallest integer / -1, so other divisors are put in place of 0 and -1.
    """
    if x.dtype[0] == "f":
        return Node("divide", (x, y), x.shape, x.dtype)
    quotient = Node("divide", (x, _divisor(y)), x.shape, x.dtype)
    if _is_safe(y):
        return quotient
    if x.dtype[0] == "i":
        quotient = Node("select", (_equals(y, -1), _negative(x), quotient), x.shape, x.dtype)
    return Node("select", (_equals(y, 0), _not(_full(0, x)), quotient), x.shape, x.dtype)


def _remainder(x: Node, y: Node) -> Node:
    """The remainder x - trunc(x / y) y; for integers it is x if y is 0."""
    if x.dtype[0] == "f":
        return Node("remainder", (x, y), x.shape, x.dtype)
    remainder = Node("remainder", (x, _divisor(y)), x.shape, x.dtype)
    return remainder if _is_safe(y) else Node("select", (_equals(y, 0), x, remainder), x.shape, x.dtype)


def _divisor(y: Node) -> Node:
    """The integer divisor with 1 instead of 0 and -1, because a processor ends a program at x / 0 and min / -1.

    The callers select the results for 0 and -1.
    """
    if _is_safe(y):
        return y
    for value in (0, -1) if y.dtype[0] == "i" else (0,):
        y = Node("select", (_equals(y, value), _full(1, y), y), y.shape, y.dtype)
    return y


def _is_safe(y: Node) -> bool:
    """True for a constant divisor other than 0 and -1, by which every integer can be divided."""
    return y.name == "constant" and y.attributes["value"] not in (0, -1)


def is_nonzero(x: Node) -> Node:
    """A boolean for each element: true if it is not 0, also for NaN."""
    return Node("compare", (x, _full(0, x)), x.shape, "i1", {"direction": "NE"})


def total_order(x: Node, y: Node, direction: str) -> Node:
    """The comparison of floats, by a `direction` such as LT, in total order: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    return Node("compare", (_ordered(x), _ordered(y)), x.shape, "i1", {"direction": direction})


def _ordered(x: Node) -> Node:
    """An integer for each float, in the same order: the bits of the float; if it is negative, all bits but the sign are flipped."""
    kind = f"i{8 * BYTES[x.dtype]}"
    bits = Node("bitcast_convert", (x,), x.shape, kind)
    all_but_sign = (1 << 8 * BYTES[x.dtype] - 1) - 1
    is_negative = Node("compare", (bits, _full(0, bits)), x.shape, "i1", {"direction": "LT"})
    reverse = Node("xor", (bits, _full(all_but_sign, bits)), x.shape, kind)
    return Node("select", (is_negative, reverse, bits), x.shape, kind)


def _equals(x: Node, value: int) -> Node:
    """A boolean for each element: true if it is equal to the number `value`."""
    return Node("compare", (x, _full(value, x)), x.shape, "i1", {"direction": "EQ"})


def _shifted(name: str) -> Callable[[Node, Node], Node]:
    """A function that makes the node of a shift by the operation `name`.

    If the amount is at least the number of bits, the result is 0 (or all sign bits in an arithmetic shift).
    """

    def make(x: Node, n: Node) -> Node:
        """The shift of x by n; an n of at least the number of bits, or a negative one, gives 0 or (arithmetic shift) copies of the
        sign bit.
        """
        bits = 8 * BYTES[x.dtype]
        # As an unsigned number, a negative n is large, too.
        amount = Node("bitcast_convert", (n,), n.shape, f"ui{bits}")
        if name == "shift_right_arithmetic":
            limited = Node("minimum", (amount, _full(bits - 1, amount)), n.shape, amount.dtype)
            return Node(name, (x, limited), x.shape, x.dtype)
        small = Node("compare", (amount, _full(bits, amount)), x.shape, "i1", {"direction": "LT"})
        return Node("select", (small, Node(name, (x, n), x.shape, x.dtype), _full(0, x)), x.shape, x.dtype)

    return make


# The formulas by the name of the operation.
FORMULAS: dict[str, Callable[..., Node]] = {
    "square": lambda x: Node("multiply", (x, x), x.shape, x.dtype),
    "is_finite": _is_finite,
    "not": _not,
    "negate": _negative,
    "sign": _sign,
    "clamp": _clamped,
    "divide": _quotient,
    "remainder": _remainder,
    "logistic": _logistic,
    **{name: _shifted(name) for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")},
}
