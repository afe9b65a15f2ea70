"""Functions of Equinox with rules, for the import of functions of JAX.

A rule of Equinox may depend on which of its arguments have tangents. The results of `nondifferentiable` have none; a derivative
through it raises an error with its name.
"""

from __future__ import annotations

import sys
from typing import Any

_LOOPS = "equinox.internal._loop.checkpointed"


def computes_its_derivative(root: Any) -> bool:
    """True if the rule `root` is the plain derivative of its function, so that nabla_mlir can differentiate the function itself.

    Two functions of Equinox have such a rule: the loop that stores some of its states, because JAX cannot reverse a loop with an
    unknown number of iterations, and the identity around it, which replaces symbolic zeros by arrays.
    """
    loops = sys.modules.get(_LOOPS)
    if loops is None:
        return False
    inside = _captured(root)
    return loops._checkpointed_while_loop in inside or loops._stop_gradient_on_unperturbed_jvp in inside


def refuses_tangents(root: Any) -> bool:
    """True if a rule belongs to `nondifferentiable`, an identity without a derivative."""
    equinox = sys.modules.get("equinox._ad")
    return equinox is not None and root is equinox._nondifferentiable_jvp


def _captured(function: Any) -> list[Any]:
    return [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
