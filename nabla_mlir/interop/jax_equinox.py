"""Functions of Equinox with rules: what JAX knows of them, for the import of functions of JAX.

A rule of Equinox's may ask which of its arguments have tangents. It is told so by `nondifferentiable`, behind which there are
none; a derivative through that is refused by name.
"""

from __future__ import annotations

import sys
from typing import Any

_LOOPS = "equinox.internal._loop.checkpointed"


def computes_its_derivative(root: Any) -> bool:
    """True of a rule that is the derivative of what the function computes, so that ours serves.

    These are a loop that keeps some of its states, which Equinox reverses by a rule since JAX reverses no loop of an unknown
    number of turns, and the identity around it, which makes zeros of JAX's that no number shows.
    """
    loops = sys.modules.get(_LOOPS)
    if loops is None:
        return False
    inside = _captured(root)
    return loops._checkpointed_while_loop in inside or loops._stop_gradient_on_unperturbed_jvp in inside


def refuses_tangents(root: Any) -> bool:
    """True of the rule of `nondifferentiable`, an identity that has no derivative."""
    equinox = sys.modules.get("equinox._ad")
    return equinox is not None and root is equinox._nondifferentiable_jvp


def _captured(function: Any) -> list[Any]:
    return [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
