"""Conversion of captured values of a function to arguments: `closure_convert`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.base.typing import PyTree
from nabla_mlir.dialects import ad
from nabla_mlir.dialects.regions import scratch_op
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import current_trace, results_of, trace_region
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.regions import captures_of
from nabla_mlir.table.registry import Region
from nabla_mlir.table.tensor import CALL_INSIDE, Tensor, current_scope, wrap


def closure_convert(fun: Callable[..., Any], *example_args: PyTree) -> tuple[Callable[..., Any], list[Any]]:
    """A function that takes as arguments what `fun` captures from an enclosing trace; and these captured values.

    A custom rule can only differentiate the arguments of its function. So convert a function that is passed to a custom rule.
    Outside a trace, nothing is captured. Integers, which have no derivative, stay captured.

    Args:
      fun: any function of arrays.
      example_args: arguments with the shapes and dtypes of later calls, or objects of `nm.spec`.

    Returns:
      ``converted`` and the values, with ``converted(*args, *values) == fun(*args)``.

    Example:
      >>> import nabla_mlir as nm
      >>> def f(a):
      ...     scaled, values = nm.closure_convert(lambda x: a * x, 1.0)
      ...     return scaled(2.0, *values)
      >>> float(nm.grad(f)(3.0))
      2.0
    """
    trace = current_trace()
    if trace is None:
        return fun, []
    leaves, in_spec = pytree.flatten(example_args)
    specs = [Spec(s.shape, s.dtype, s.weak) for s in (x if isinstance(x, Spec) else as_tensor(x) for x in leaves)]
    out_spec: Any = None

    def body(*inner: Tensor) -> list[Any]:
        nonlocal out_spec
        outs, out_spec = pytree.flatten(fun(*pytree.unflatten(in_spec, inner)))
        return outs

    known, trace.known = trace.known, None  # a later call may have other values than those known now
    try:
        _, holder, _ = trace_region(body, specs, "the function given to closure_convert")
    finally:
        trace.known = known
    values = [v for v in captures_of(holder) if is_differentiable(wrap(v).dtype)]

    scope = current_scope()

    def converted(*args: Any) -> Any:
        """Calls a copy of the traced function with arguments in place of its captured values."""
        if scope is not None:
            scope.check_open("a function of closure_convert", fun, CALL_INSIDE)
        leaves = pytree.flatten_like(in_spec, args[: len(example_args)], "arguments", "the examples")
        inside = [as_tensor(x).value for x in (*leaves, *args[len(example_args) :])]
        copy = scratch_op(detached=True)
        captures = dict(zip(values, inside[len(leaves) :], strict=True))
        Region(holder.regions[0], captures).clone_into(copy.regions[0])
        op = ad.JvpOp.build(inside[: len(leaves)], [], copy.regions[0].blocks[0], [], []).op
        return pytree.unflatten(out_spec, results_of(op))

    return converted, [wrap(v) for v in values]
