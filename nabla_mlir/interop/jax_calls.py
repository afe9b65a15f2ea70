"""Descriptions of calls that JAX differentiates by a rule: their parts, and the arguments with tangents."""

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
    """A region of a call: the function that JAX lowers for it, and the shapes and dtypes of its arguments."""

    function: Callable[..., Any]
    arguments: Callable[[], Sequence[Any]]
    plain: Any = None  # a primitive for which JAX's own lowering is used
    name: str = ""  # a unique name, if the printed code contains addresses

    @cached_property
    def avals(self) -> Sequence[Any]:
        """The shapes and dtypes of the arguments."""
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
      root: the rule from the user; two calls with the same rule and the same code have the same function.
      consts: for each part, the number of operands that it captures from outside; the rule does not use them.
      order: the indices of the operands in JAX's call, if their order differs.
      narrow: returns the call without tangents for the operands at some indices, for rules that depend on that.
      key: a key that is equal for calls with equal imports, if it is known without printing them.
    """

    name: str  # the name of the operation
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
        """True if this call, inside the rule of the other one, calls the same function."""
        return self.root is other.root and all(a.code == b.code for a, b in zip(self.parts, other.parts, strict=True))


def positions_of(avals: Sequence[Any]) -> list[int]:
    """The indices of the values that have tangents: neither integers nor keys of random numbers, whose dtype NumPy lacks."""
    return [i for i, x in enumerate(avals) if isinstance(x.dtype, np.dtype) and is_differentiable(x.dtype)]


def primitive_call(
    primitive: Any, params: Any, avals: Sequence[Any], outputs: Sequence[Any], wrt: Sequence[int] | None = None, name: str = ""
) -> Call:
    """The description of a call of a primitive that has its own formula for the derivative, unlike its lowered code.

    Args:
      primitive, params: the primitive of JAX and its parameters.
      avals, outputs: the shapes and dtypes of the arguments and of the results.
      wrt: the indices of the arguments with tangents; by default all differentiable ones.
      name: a unique name of the call, if its printed code contains addresses.
    """
    import jax

    # `wrt` and `of` are the indices of the arguments with tangents, and of the results with tangents.
    wrt, of = positions_of(avals) if wrt is None else wrt, positions_of(outputs)
    f = functools.partial(primitive.bind, **params)

    def rule(*values: Any) -> list[Any]:
        """The results, followed by the tangents of the differentiable results."""
        primals = list(values[: len(avals)])

        def of_active(*active: Any) -> Any:
            """The results as a function of the arguments at `wrt`."""
            return f(*(active[wrt.index(i)] if i in wrt else x for i, x in enumerate(primals)))

        outs, slopes = jax.jvp(of_active, [primals[i] for i in wrt], list(values[len(avals) :]))
        return [*outs, *(slopes[i] for i in of)] if primitive.multiple_results else [outs, slopes]

    of_rule = Part(rule, lambda: [*avals, *(avals[i] for i in wrt)], name=name and f"rule of {name}")
    parts = [Part(f, lambda: avals, primitive, name), of_rule]
    return Call("ad.custom_jvp", primitive.name, parts, primitive, (0, 0), wrt, of)  # (0, 0): no part has constants
