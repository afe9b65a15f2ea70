"""Calls that JAX differentiates by a rule, as they are described for the import: their parts, and what has tangents."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base.locks import cached_property
from nabla_mlir.dialects.types import is_differentiable


@dataclass
class Part:
    """A region: what JAX is to lower for it, with what is known of its arguments when it is asked for."""

    function: Callable[..., Any]
    arguments: Callable[[], Sequence[Any]]
    plain: Any = None  # a primitive that is lowered as JAX lowers it
    name: str = ""  # what tells it from others, where its code has addresses in it

    @cached_property
    def avals(self) -> Sequence[Any]:
        """Shapes and dtypes of the arguments."""
        return self.arguments()

    @cached_property
    def code(self) -> str:
        """The code as JAX prints it."""
        import jax

        if self.name:
            return self.name
        return str(jax.make_jaxpr(self.function)(*self.avals))


@dataclass(eq=False)
class Call:
    """A call that JAX differentiates by a rule.

    Attributes:
      root: what the user wrote as the rule; two calls with the same one and the same code are of one function.
      consts: for each part, how many of the operands it has from outside, which have no part in the rule.
      order: the places of the operands in JAX's call, where that has others.
      narrow: the same call if the operands at some places have no tangents, for rules that ask for that.
      key: equal of calls that are imported to the same, where that is known without printing them.
    """

    name: str  # of the operation
    label: str = ""
    parts: Sequence[Part] = ()
    root: Any = None
    consts: Sequence[int] = ()
    wrt: Sequence[int] = ()
    of: Sequence[int] = ()
    order: Sequence[int] = ()
    narrow: Callable[[Sequence[int]], Call] | None = None
    key: Hashable = None

    def is_equal_call(self, other: Call) -> bool:
        """True if the other call, in whose rule this one stands, is of the same function."""
        return self.root is other.root and all(a.code == b.code for a, b in zip(self.parts, other.parts, strict=True))


def positions_of(avals: Sequence[Any]) -> list[int]:
    """The indices of the values that have tangents: no integers, and no keys of random numbers, whose dtype NumPy lacks."""
    return [i for i, x in enumerate(avals) if isinstance(x.dtype, np.dtype) and is_differentiable(x.dtype)]


def primitive_call(
    primitive: Any, params: Any, avals: Sequence[Any], outputs: Sequence[Any], wrt: Sequence[int] | None = None, name: str = ""
) -> Call:
    """A primitive whose rule is another formula than the derivative of what it is lowered to."""
    import jax

    wrt, of = positions_of(avals) if wrt is None else wrt, positions_of(outputs)
    f = functools.partial(primitive.bind, **params)

    def rule(*values: Any) -> list[Any]:
        primals = list(values[: len(avals)])

        def of_active(*active: Any) -> Any:
            return f(*(active[wrt.index(i)] if i in wrt else x for i, x in enumerate(primals)))

        outs, slopes = jax.jvp(of_active, [primals[i] for i in wrt], list(values[len(avals) :]))
        return [*outs, *(slopes[i] for i in of)] if primitive.multiple_results else [outs, slopes]

    of_rule = Part(rule, lambda: [*avals, *(avals[i] for i in wrt)], name=name and f"rule of {name}")
    parts = [Part(f, lambda: avals, primitive, name), of_rule]
    return Call("ad.custom_jvp", primitive.name, parts, primitive, (0, 0), wrt, of)
