"""Legalisation of CHLO operations by their stock expansion; the operations of the expansion have other patterns."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from iree.compiler import ir, passmanager  # type: ignore[attr-defined]  # not in the stubs

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.stablehlo import I64Array
from nabla_mlir.passes.iree.math.formats import sign_of, with_sign
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, attributes_of, operands
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import names_with

PATTERNS = Patterns()

_LINEAR = 2.0**-100  # below this, erf(x) is 2 x / sqrt(pi)

_BROADCASTING = names_with(lambda record: record.name.startswith("chlo.broadcast_") and record.name != "chlo.broadcast_select")
_OF_CHLO = [name for name in _BROADCASTING if name.replace("broadcast_", "") in REGISTRY]


@PATTERNS.of(*_OF_CHLO)
def broadcast_operands(op: ir.Operation, target: Target) -> Replacement:
    """The operation without broadcasting, such as `add` for `chlo.broadcast_add`, on operands that are broadcast first.

    The stock expansion would also expand the operation on equal shapes, such as polygamma, which has its own patterns.
    """
    xs, attributes = operands(op), attributes_of(op)
    shape = Val(op.results[0]).shape
    explicit = attributes.get("broadcast_dimensions")
    smaller = min(xs, key=lambda v: v.rank)
    axes = {v.rank: [*range(len(shape) - v.rank, len(shape))] for v in xs}
    if explicit is not None:
        axes[smaller.rank] = [*I64Array.decode(explicit)]
    spread = [b.broadcast(v, shape, axes[v.rank]) for v in xs]
    return b.op(op.name.replace("broadcast_", ""), *spread, type=op.results[0].type)


@PATTERNS.of(*_BROADCASTING)
def expand(op: ir.Operation, target: Target) -> Replacement:
    """The stock expansion, whose operations have other patterns; None for dynamic shapes.

    IREE's own expansion has operations that it computes wrongly (power, sin, log1p), or cannot link in f64.
    """
    return stock_expansion(op) if all(v.static for v in operands(op)) else None


@PATTERNS.of("chlo.broadcast_select")
def broadcast_select(op: ir.Operation, target: Target) -> Replacement:
    """A selection from operands that are broadcast to the static shape of the result; None for dynamic shapes.

    The stock expansion would compute the shape at run time, with types that other passes do not support.
    """
    xs = operands(op)
    if not all(v.static for v in xs):
        return None
    shape = np.broadcast_shapes(*(v.shape for v in xs))
    wide = [b.reshape(v, (1,) * (len(shape) - v.rank) + v.shape) for v in xs]
    return [b.select(*(b.broadcast(v, shape, range(len(shape))) for v in wide))]


@PATTERNS.of("chlo.erf")
def erf(op: ir.Operation, target: Target) -> Replacement:
    """The error function as 2 x / sqrt(pi) near 0 in f32, where IREE's own formula is 0 (below 2^-120); None for other dtypes."""
    (x,) = operands(op)
    if x.dtype != np.float32 or not target.chlo_functions or not x.static:
        return None
    return b.select(abs(x) < _LINEAR, x * (2 / math.sqrt(math.pi)), b.op("chlo.erf", x, type=x.type, final=True))


@PATTERNS.of("chlo.erf_inv")
def erf_inv(op: ir.Operation, target: Target) -> Replacement:
    """The inverse error function in f64, from (1 - |x|) (1 + |x|); None for other dtypes.

    The stock expansion loses digits of 1 - x^2 close to |x| = 1.
    """
    (x,) = operands(op)
    if x.dtype != np.float64 or not x.static:
        return None
    size = abs(x)
    return stock_expansion(op, {"stablehlo.log_plus_one": lambda: b.log((1.0 - size) * (size + 1.0))})


@PATTERNS.of("chlo.erf", "chlo.erf_inv", "chlo.bessel_i1e", "chlo.next_after")
def expand_double(op: ir.Operation, target: Target) -> Replacement:
    """The stock expansion, whose exponential has another pattern, for f64; None for other dtypes that IREE computes.

    IREE's own exponential in f64 is slow on a CPU, and does not compile on Vulkan.
    """
    good = operands(op)[0].dtype != np.float64 and target.chlo_functions
    return None if good else expand(op, target)


@PATTERNS.of("chlo._asin_acos_kernel", "chlo.square")
def expand_complex(op: ir.Operation, target: Target) -> Replacement:
    """The stock expansion for complex operands, for the same reason as `expand`; None for real ones."""
    return expand(op, target) if operands(op)[0].dtype.kind == "c" else None


@PATTERNS.of("chlo.asin", "chlo.asinh", "chlo.atan", "chlo.atanh")
def expand_odd(op: ir.Operation, target: Target) -> Replacement:
    """The stock expansion of an odd complex function, whose parts get the signs of the parts of z; None for real numbers.

    The stock expansion alone loses the signs of zeros, which tell the side of a branch cut.
    """
    (z,) = operands(op)
    if z.dtype.kind != "c" or not z.static:
        return None
    (value,) = stock_expansion(op)
    return b.complex_(_signed(b.real(value), b.real(z)), _signed(b.imag(value), b.imag(z)))


@PATTERNS.of("chlo.acos", "chlo.acosh")
def expand_even(op: ir.Operation, target: Target) -> Replacement:
    """The stock expansion of acos or acosh of a complex number, with the right sign of the imaginary part; else None.

    It is the sign of the imaginary part of z for acosh, and the opposite sign for acos. The stock expansion alone loses the signs
    of zeros, as in `expand_odd`.
    """
    (z,) = operands(op)
    if z.dtype.kind != "c" or not z.static:
        return None
    (value,) = stock_expansion(op)
    return b.complex_(b.real(value), _signed(b.imag(value), b.imag(z) if op.name == "chlo.acosh" else -b.imag(z)))


def _signed(x: Val, sign: Val) -> Val:
    """The absolute value of x with the sign of `sign`, also if that is a zero."""
    return with_sign(abs(x), sign_of(sign))


def stock_expansion(op: ir.Operation, others: Mapping[str, Callable[[], Val]] = MappingProxyType({})) -> list[Val]:
    """The results of an operation with static shapes, by the operations of MLIR's own expansion of it.

    `others` maps names of operations in the expansion to functions that make their replacements.
    """
    block = expansion_of(op)
    values: dict[ir.Value, Val] = dict(zip(block.arguments, operands(op), strict=True))
    for inner in block.operations:
        inner = inner.operation
        arguments = [values[v] for v in inner.operands]
        if inner.name == "func.return":
            return arguments
        if inner.name in others:
            values[inner.results[0]] = others[inner.name]()
            continue
        clone = b.copy(inner, arguments)
        values.update(zip(inner.results, map(Val, clone.results), strict=True))
    raise AssertionError("a function ends in func.return")


def expansion_of(op: ir.Operation) -> ir.Block:
    """The expansion of an operation by MLIR's own pass: a block from its operands to its results."""
    attributes = ", ".join(f"{name} = {value}" for name, value in attributes_of(op).items())
    types = tuple(str(v.type) for v in op.operands)
    module = _expansion(op.name, attributes, types, tuple(str(r.type) for r in op.results))
    return module.body.operations[0].regions[0].blocks[0]


@functools.lru_cache(maxsize=256)
def _expansion(name: str, attributes: str, operand_types: tuple[str, ...], result_types: tuple[str, ...]) -> ir.Module:
    """A module with a function that contains MLIR's expansion of one CHLO operation, given by its name, attributes and types."""
    arguments = ", ".join(f"%{i}: {t}" for i, t in enumerate(operand_types))
    names = ", ".join(f"%{i}" for i in range(len(operand_types)))
    results = ", ".join(result_types)
    text = f"""func.func @f({arguments}) -> ({results}) {{
      %r = "{name}"({names}) {{{attributes}}} : ({", ".join(operand_types)}) -> ({results})
      return %r : {results}
    }}"""
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module.operation)
    return module
