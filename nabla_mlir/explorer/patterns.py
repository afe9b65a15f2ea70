"""The sparsity pattern of a derivative, with its coloring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nabla_mlir.base.errors import PatternError, user_frame
from nabla_mlir.sparse import cheapest, hessian_pattern, jacobian_pattern

_PATTERNS = {"hessian": hessian_pattern, "jacobian": jacobian_pattern}
_MOST = 200_000  # the largest number of entries that is drawn


def pattern_of(f: Any, specs: Sequence[Any], kind: str) -> dict[str, Any]:
    """The JSON of the pattern of the Jacobian or the Hessian of `f` by its first argument, with a coloring.

    `specs` are the types of the arguments, and `kind` is "jacobian" or "hessian".

    Raises:
      PatternError: there is no such kind, or the pattern has more entries than can be drawn.
    """
    if kind not in _PATTERNS:
        raise PatternError(f"explain requires a sparsity of {', '.join(_PATTERNS)}, got {kind!r}.", where=user_frame())
    if not callable(f) or not specs:
        raise PatternError(
            "the sparsity requires a function with specs, got a stage.",
            where=user_frame(),
            help="give the function itself: nm.explain(f, *specs, sparsity=...).",
        )
    pattern = _PATTERNS[kind](f, *specs)
    if pattern.nnz > _MOST:
        raise PatternError(
            f"explain requires a pattern of at most {_MOST} entries, got {pattern.nnz}.",
            where=user_frame(),
            help="explain a smaller problem of the same form.",
        )
    coloring = cheapest(pattern)
    return {
        "kind": kind,
        "rows": pattern.shape[0],
        "columns": pattern.shape[1],
        "row": pattern.row_of_entry.tolist(),
        "column": pattern.indices.tolist(),
        "coloring": coloring.kind,
        "colors": coloring.num_colors,
        "color_of_column": coloring.columns.tolist(),
        "color_of_row": coloring.rows.tolist(),
        "causes": list(pattern.causes),
    }
