"""Dead code and partial evaluation, under the names of `jax.interpreters.partial_eval`."""

from __future__ import annotations

from typing import Any, NamedTuple

from nabla_mlir.base.errors import RuleMissingError, user_frame


class PartialVal(NamedTuple):
    """A value that is known, ``(None, value)``, or of which only shape and dtype are known, ``(aval, None)``."""

    aval: Any
    const: Any

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """A value that is known."""
        return cls(None, const)

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        """A value of which the shape and the dtype are known."""
        return cls(aval, None)

    def is_known(self) -> bool:
        """True for a value that is known."""
        return self.aval is None


def trace_to_jaxpr_nounits(*args: Any, **kwargs: Any) -> Any:
    """Raises RuleMissingError: functions are traced whole here, so no part of them is evaluated before."""
    raise RuleMissingError(
        "trace_to_jaxpr_nounits requires a tracer with partial evaluation, got nabla_mlir.",
        where=user_frame(),
        help="jax.make_jaxpr traces a function whole.",
    )
