"""The source of NaN and infinity: the first operation that computes them from finite numbers."""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import NotFiniteError
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.interpreter.frames import Arrays

_SHOWN = 5  # values in a message


def is_finite(arrays: Arrays) -> bool:
    """True if the arrays contain neither NaN nor infinity."""
    return all(np.isfinite(_wide(x)).all() for x in arrays)


def stop_at_infinity(op: ir.Operation, operands: Arrays, results: Arrays) -> None:
    """Raises NotFiniteError if the operation `op` has computed NaN or infinity from finite operands.

    The interpreter calls it after each operation. `operands` and `results` are its arrays.

    Raises:
      NotFiniteError: the error has the values at the first such index, and the user's line.
    """
    if is_finite(results) or not is_finite(operands):
        return
    result = next(_wide(y) for y in results if not is_finite([y]))
    position = tuple(int(i) for i in np.argwhere(~np.isfinite(result))[0])
    same = [x for x in operands if np.shape(x) == result.shape]
    values = ", ".join(str(x[position]) for x in same) or ", ".join(_short(x) for x in operands)
    raise NotFiniteError(
        f"{op.name} requires operands with a finite result, got {result[position]} at {position} from {values}.",
        where=source_of(op.location),
        help="look at what this line is given, or mask it before (nnp.where on its argument).",
    )


def _wide(x: np.ndarray) -> np.ndarray:
    """Narrow floats of ml_dtypes as f32."""
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype.kind == "V" else x


def _short(x: np.ndarray) -> str:
    """The first values of an array as text, for errors."""
    values = np.asarray(x).reshape(-1)
    more = ", ..." if values.size > _SHOWN else ""
    return f"[{', '.join(map(str, values[:_SHOWN]))}{more}]"
