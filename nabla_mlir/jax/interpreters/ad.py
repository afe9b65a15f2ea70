"""Derivative rules of primitives, under the names of `jax.interpreters.ad`.

``primitive_jvps[p] = rule`` gives a primitive the rule ``rule(primals, tangents, **params) -> (out, out_tangent)``, and
``primitive_transposes[p] = rule`` the rule ``rule(cotangent, *args, **params) -> cotangents``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nabla_mlir.jax.environment import typeof
from nabla_mlir.jax.primitives import Primitive
from nabla_mlir.jax.primitives import UndefinedPrimal as UndefinedPrimal
from nabla_mlir.jax.primitives import Zero as Zero
from nabla_mlir.jax.primitives import primitive_jvps as primitive_jvps
from nabla_mlir.jax.primitives import primitive_transposes as primitive_transposes


def is_undefined_primal(x: Any) -> bool:
    """True for the position of a linear argument."""
    return isinstance(x, UndefinedPrimal)


def instantiate_zeros(tangent: Any) -> Any:
    """The tangent as an array, also if it is a `Zero`."""
    return tangent.instantiate() if isinstance(tangent, Zero) else tangent


def zeros_like_aval(aval: Any) -> Any:
    """The array of zeros with a shape and a dtype."""
    return Zero(aval).instantiate()


def defjvp(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """Sets the forward rule of a primitive from one function ``rule(tangent, *args, **params)`` for each argument."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        """The value, and the sum of the terms of the arguments that have a tangent."""
        out = primitive.bind(*primals, **params)
        terms = [
            rule(t, *primals, **params)
            for rule, t in zip(rules, tangents, strict=True)
            if rule is not None and not isinstance(t, Zero)
        ]
        total: Any = terms[0] if terms else Zero(typeof(out))
        for term in terms[1:]:
            total = total + term
        return out, total

    primitive_jvps[primitive] = jvp


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """Declares that a primitive is linear in all arguments; the rule is ``transpose_rule(cotangent, **params)``."""
    deflinear2(primitive, lambda ct, *_, **params: transpose_rule(ct, **params))


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """Declares that a primitive is linear in all arguments; the rule is ``transpose_rule(cotangent, *args, **params)``."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        """The value, and the primitive applied to the tangents."""
        dense = [instantiate_zeros(t) for t in tangents]
        return primitive.bind(*primals, **params), primitive.bind(*dense, **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_rule
