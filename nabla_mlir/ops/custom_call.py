"""Custom calls: one record, which finds its rules by the name of the target.

The rules of LAPACK's routines, as JAX calls them, are in `lapack.py`; users register their own with
`register_custom_call`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError, user_frame
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.stablehlo import Raw, String
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.table.batching import all_prefixed
from nabla_mlir.table.kinds import general
from nabla_mlir.table.registry import OpDef
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.table.traits import ONE_BY_ONE

# The other attributes of a call. Aliases and shardings refer to the shapes of this one call.
_LAYOUTS = ("operand_layouts", "result_layouts")
_FIXED = ("output_operand_aliases", "sdy.sharding_rule", "mhlo.frontend_attributes")
_OTHERS = (
    "backend_config",
    "mhlo.backend_config",
    "api_version",
    "has_side_effect",
    "called_computations",
    "custom_call_schedule",
    "mhlo.sharding",
)


@dataclass(frozen=True)
class Rules:
    """The rules of one target; None means that there is no such rule."""

    jvp: Callable[..., list[MaybeZero]] | None
    batch: Callable[..., list[Tensor]] | None
    flops: Callable[..., int] | None = None


_rules: dict[str, Rules] = {}


def register_custom_call(
    target: str,
    *,
    jvp: Callable[..., list[MaybeZero]] | None = None,
    batch: Callable[..., list[Tensor]] | str | None = None,
    flops: Callable[..., int] | None = None,
) -> None:
    """Adds the rules of a custom call.

    Args:
      target: the `call_target_name` of the calls.
      jvp: ``(results, operands, tangents, **attributes) -> [tangent of each result]``; a tangent may be `ZERO`, and
        must be linear in the tangents of the operands. Reverse mode is its transpose.
      batch: ``(operands, mapped, size, **attributes) -> results``; the mapped axis leads in the mapped operands and in
        every result. "leading" means that the target itself accepts any number of leading axes.
      flops: ``(results, operands, **attributes) -> floating-point operations``; the number decides if results are
        stored or recomputed. The default is one for each element.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.register_custom_call("my_double", jvp=lambda outs, xs, ts, **_: [ts[0] + ts[0]], batch="leading")
    """
    _rules[target] = Rules(jvp, batch_of_leading_axes if batch == "leading" else batch, flops)  # type: ignore[arg-type]


def _rule(params: Any, transform: str) -> Any:
    """The registered rule of a custom call for `transform` ("jvp", "transpose" or "batch"); raises RuleMissingError if there is
    none.

    `params` are the attributes of the call, among them the name of its target.
    """
    target = params["call_target_name"]
    rules = _rules.get(target)
    rule = getattr(rules, transform) if rules is not None else None
    if rule is None:
        name = {"batch": "vmap"}.get(transform, transform)
        raise RuleMissingError(
            f"{name} requires a rule for every custom call, got the target {target!r}, which has none.",
            where=user_frame(),
            help="add it with nm.register_custom_call.",
        )
    return rule


def _jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, **params: Any) -> list[MaybeZero]:
    """The tangents of the results `outs` by the registered rule; zeros if all tangents of the operands `xs` are zero."""
    if all(isinstance(t, Zero) for t in tangents):
        return [ZERO] * len(outs)
    return list(_rule(params, "jvp")(outs, xs, tangents, **params))


def _batch(xs: Tensors, mapped: Sequence[bool], size: int, **params: Any) -> list[Tensor]:
    return list(_rule(params, "batch")(xs, mapped, size, **params))


def _flops(outs: Tensors, xs: Tensors, **params: Any) -> int:
    """The number of floating-point operations by the registered function; else one for each element of the largest array.

    `xs` are the operands and `outs` the results.
    """
    rules = _rules.get(params["call_target_name"])
    if rules is not None and rules.flops is not None:
        return rules.flops(outs, xs, **params)
    return max((x.size for x in (*outs, *xs)), default=0)


def batch_of_leading_axes(xs: Tensors, mapped: Sequence[bool], size: int, *, results: Any, **params: Any) -> list[Tensor]:
    """The results of the call for all `size` entries: the batch rule of a target that accepts any number of leading axes.

    `mapped` is True for each operand of `xs` with the mapped axis, and `results` are pairs of shape and dtype.
    """
    params |= dict.fromkeys(_FIXED) | {name: _add_leading_axis(params[name]) for name in _LAYOUTS}
    wide = [((size, *shape), dtype) for shape, dtype in results]
    return custom_call.apply(all_prefixed(xs, mapped, size), {**params, "results": wide})


def _add_leading_axis(layouts: ir.Attribute | None) -> ir.Attribute | None:
    """The layouts of arrays with a new leading axis, the slowest one; None for None, the default layouts.

    A layout is the order of axes in memory, the fastest first. Example: [1, 0] gives [2, 1, 0].
    """
    if layouts is None:
        return None
    orders = [[d + 1 for d in np.asarray(layout).tolist()] + [0] for layout in ir.ArrayAttr(layouts)]
    return layouts_of(orders)


def layouts_of(orders: Sequence[Sequence[int]]) -> ir.Attribute:
    """The attribute for orders of axes in memory; each order lists the fastest axis first."""
    text = ", ".join(f"dense<{list(order)}> : tensor<{len(order)}xindex>" for order in orders)
    return ir.Attribute.parse(f"[{text}]", context())


def call(target: str, xs: Sequence[Tensor], results: Sequence[tuple[tuple[int, ...], np.dtype]], **attributes: Any) -> list[Tensor]:
    """Emits a custom call of `target`; returns the results, whose shapes and dtypes are `results`."""
    absent = dict.fromkeys([*_LAYOUTS, *_FIXED, *_OTHERS])
    return custom_call.apply(xs, {**absent, **attributes, "call_target_name": target, "results": list(results)})


custom_call: OpDef = general(
    "stablehlo.custom_call",
    doc="A call of an external routine; its rules are found by the name of its target.",
    sequential=True,
    instructions=ONE_BY_ONE,
    flops=_flops,
    attributes={"call_target_name": String} | dict.fromkeys((*_LAYOUTS, *_FIXED, *_OTHERS), Raw),
    result=lambda *xs, results, **_: results,
    result_params=lambda op: {"results": [shape_and_dtype(r.type) for r in op.results]},
    jvp=_jvp,
    batch=_batch,
    multi=True,
    sample=[],
)


def _identity(name: str) -> None:
    """Registers a custom call whose results are its operands."""
    register_custom_call(
        name, jvp=lambda outs, xs, ts, **_: list(ts), batch=lambda xs, mapped, size, **_: all_prefixed(xs, mapped, size)
    )


for _name in ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"):
    _identity(_name)
