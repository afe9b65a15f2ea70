"""Taylor mode: derivatives of any order along a curve."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import TreeError, user_frame
from nabla_mlir.compiling.lowering import expand_module
from nabla_mlir.dialects.regions import functions_of, last_of, new_function
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.rules.taylor import Expansion, Series, polynomial
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.tracing import current_trace, trace_region
from nabla_mlir.table.promotion import adopted, as_tensor
from nabla_mlir.table.regions import body_of, captures_of, clone_body
from nabla_mlir.table.tensor import Tensor, full, wrap
from nabla_mlir.transforms.arguments import specs_of


def jet(fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]], **_: Any) -> tuple[Any, Any]:
    """The derivatives of t -> fun(x(t)) at t = 0, from the derivatives of x: ``x(t) = x0 + x1 t + x2 t²/2! + ...``.

    The work grows with the square of the order; with nested `nm.jvp` it doubles with each order. Loops of constant length are
    unrolled. Custom rules are ignored: the code of the function is differentiated.

    Args:
      fun: a function of pytrees of arrays.
      primals: its arguments at t = 0.
      series: for each argument its first, second, ... derivative by t, each like the argument; 0 means zero.

    Returns:
      The value, and the list of its derivatives by t (each a pytree like the value). Their number is that of the longest series.

    Raises:
      TreeError: the number of series differs from the number of arguments.
      RuleMissingError: an operation has no Taylor rule, such as a loop of unknown length.

    Example:
      >>> import nabla_mlir as nm, nabla_mlir.numpy as nnp, numpy as np
      >>> y, (y1, y2, y3) = nm.jax.experimental.jet.jet(nnp.exp, (0.0,), ((1.0, 0.0, 0.0),))
      >>> [float(y), float(y1), float(y2), float(y3)]
      [1.0, 1.0, 1.0, 1.0]
    """
    if len(primals) != len(series):
        raise TreeError(f"jet requires one series for each argument, got {len(series)} for {len(primals)}.", where=user_frame())
    order = max((len(s) for s in series), default=0)

    def run(primals: Any, series: Any) -> Any:
        """Pushes the Taylor coefficients of the arguments through the function; returns its value and derivatives."""
        leaves, spec = pytree.flatten(tuple(primals))
        tensors = [as_tensor(x) for x in leaves]
        terms = [
            [_check_term(term, tensors[i], j, spec) for term in rows]
            for i, (rows, j) in enumerate(_derivatives_of_leaves(series, primals))
        ]
        box: dict[str, Any] = {}

        def body(*inner: Tensor) -> list[Any]:
            """The leaves of the result of the function; also notes the structure of the result."""
            outs, box["spec"] = pytree.flatten(fun(*pytree.unflatten(spec, inner)))
            return outs

        outs = _push_series(body, tensors, terms)
        value = pytree.unflatten(box["spec"], [y.head if isinstance(y, Series) else y for y in outs])
        rows = [pytree.unflatten(box["spec"], [_derivative(y, k) for y in outs]) for k in range(1, order + 1)]
        if box["spec"].is_leaf():
            return value, rows
        return value, pytree.unflatten(box["spec"], [[_derivative(y, k) for k in range(1, order + 1)] for y in outs])

    return staged(run)(tuple(primals), [list(s) for s in series])


def _derivatives_of_leaves(series: Any, primals: Any) -> list[tuple[list[Any], int]]:
    """One pair for each leaf of the arguments: the list of its derivatives along the curve, and the index of its argument.

    `series` holds one list for each argument: its derivatives of order 1, 2, ..., pytrees like the argument or zeros.
    """
    rows = []
    for j, (terms, primal) in enumerate(zip(series, primals, strict=True)):
        count = pytree.flatten(primal)[1].num_leaves
        parts = [[term] * count if _is_zero(term) else pytree.flatten(term)[0] for term in terms]
        rows += [([part[i] for part in parts], j) for i in range(count)]
    return rows


def _is_zero(term: Any) -> bool:
    """True for the number 0, which stands for a zero of any shape."""
    return isinstance(term, (int, float)) and term == 0


def _check_term(term: Any, primal: Tensor, argument: int, spec: Any) -> Tensor | None:
    """The derivative `term` as a tensor like `primal`, or None for zero; raises TreeError if it has another type."""
    if _is_zero(term):
        return None
    tensor = adopted(term, primal.dtype)
    if tensor.shape != primal.shape or tensor.dtype != primal.dtype:
        raise TreeError(
            f"jet requires derivatives like their argument, got {tensor.dtype}{list(tensor.shape)} for "
            f"{primal.dtype}{list(primal.shape)} of argument {argument}.",
            where=user_frame(),
        )
    return tensor


def _push_series(body: Callable[..., Any], tensors: list[Tensor], terms: list[list[Tensor | None]]) -> list[Series | Tensor]:
    """The results of a function as series, after its maps and derivatives are expanded.

    Args:
      body: the function.
      tensors: its arguments at t = 0.
      terms: for each argument, its derivatives by t; None for zero.
    """
    trace = current_trace()
    assert trace is not None
    with trace.known.without_rules() if trace.known is not None else contextlib.nullcontext():
        block, holder, _ = trace_region(body, specs_of(tensors), "the function given to jet", True, tensors)
    captures = captures_of(holder)
    module = _module(block, captures)
    expand_module(module)
    func = functions_of(module.operation)["main"]
    entry = func.regions[0].blocks[0]
    series: dict[ir.Value, Series] = {}
    constants: dict[ir.Value, ir.Value] = {}
    for argument, x, rows in zip(entry.arguments, tensors, terms, strict=False):
        if is_differentiable(x.dtype) and any(row is not None for row in rows):
            coefficients = [_divide(row, math.factorial(k)) for k, row in enumerate(rows, 1)]
            series[argument] = polynomial([x, *coefficients])
        else:
            constants[argument] = x.value
    constants.update(zip(list(entry.arguments)[len(tensors) :], captures, strict=True))
    expansion = Expansion()
    *ops, _ = (op.operation for op in entry.operations)
    expansion.push(ops, series, constants)
    outs: list[Series | Tensor] = [series[v] if v in series else wrap(constants.get(v, v)) for v in last_of(entry).operands]
    longest = max((len(rows) for rows in terms), default=0)
    for out in outs:
        if isinstance(out, Series):
            out.at(longest)  # computes the coefficients now, because the code of the rules is erased below
    for rule in expansion.holders:
        rule.erase()
    return outs


def _module(block: ir.Block, captures: Sequence[ir.Value]) -> ir.Module:
    """A module with a function `main` that has the operations of a block.

    The values `captures`, which the block reads from outside, become more arguments.
    """
    arguments, ops, outputs = body_of(block.region)
    inputs = [*arguments, *captures]
    types = [v.type for v in inputs]
    module = ir.Module.create(ir.Location.unknown())
    with ir.InsertionPoint(module.body):
        entry = new_function("main", types, [v.type for v in outputs])
    with ir.InsertionPoint(entry):
        mapping = dict(zip(inputs, entry.arguments, strict=True))
        clone_body(ops, mapping)
        ir.Operation.create("func.return", operands=[mapping.get(v, v) for v in outputs])
    return module


def _divide(x: Tensor | None, divisor: int) -> Tensor | None:
    """A coefficient divided by an integer; None for zero."""
    return None if x is None else x / full(x.shape, divisor, x.dtype)


def _derivative(y: Series | Tensor, k: int) -> Tensor:
    """The derivative of order `k` of `y`: Taylor coefficient k times k!, or zeros if the series has no such term."""
    coefficient = y.at(k) if isinstance(y, Series) else None
    like = y.head if isinstance(y, Series) else y
    if coefficient is None:
        return full(like.shape, 0, like.dtype)
    return coefficient * full(like.shape, math.factorial(k), like.dtype)
