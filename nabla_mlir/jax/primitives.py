"""Primitives that packages define themselves: a named function with its own rules, as `jax.extend.core.Primitive`.

A primitive is called by `bind`. Its implementation is traced like any function, and its rules are custom rules of
`custom_jvp`, `custom_vmap` and `linear_call`: the tables `primitive_jvps` and so on hold them, as in `jax.interpreters`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nabla_mlir.base.errors import RuleMissingError, user_frame
from nabla_mlir.jax.environment import typeof
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import is_tracing
from nabla_mlir.table.tensor import full
from nabla_mlir.transforms.batching_rules import custom_vmap
from nabla_mlir.transforms.collectives import innermost_axis
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.symbolic_zeros import SymbolicZero

# The rules of primitives, by primitive: the tables of jax.interpreters.ad, batching and mlir.
primitive_jvps: dict[Primitive, Callable[..., Any]] = {}
primitive_transposes: dict[Primitive, Callable[..., Any]] = {}
primitive_batchers: dict[Primitive, Callable[..., Any]] = {}
axis_primitive_batchers: dict[Primitive, Callable[..., Any]] = {}
lowerings: dict[Primitive, Callable[..., Any]] = {}


@dataclass(frozen=True)
class Zero:
    """A tangent or cotangent that is zero everywhere; it has the shape and dtype of `aval`."""

    aval: Spec

    @staticmethod
    def from_primal_value(val: Any) -> Zero:
        """The zero tangent of a value."""
        return Zero(typeof(val))

    def instantiate(self) -> Any:
        """The zero as an array."""
        return full(self.aval.shape, 0, self.aval.dtype)


@dataclass(frozen=True)
class UndefinedPrimal:
    """Stands for a linear argument in a transposition rule, where its value is not known; `aval` has its shape and dtype."""

    aval: Spec


class Primitive:
    """A named function with its own rules for derivatives and maps.

    Attributes:
      name: the name.
      multiple_results: True if the implementation returns a sequence of arrays.

    Args:
      name: the name.

    Example:
      >>> import nabla_mlir as nm
      >>> twice_p = Primitive("twice")
      >>> _ = twice_p.def_impl(lambda x: 2.0 * x)
      >>> primitive_jvps[twice_p] = lambda xs, ts: (twice_p.bind(*xs), 10.0 * ts[0])
      >>> float(twice_p.bind(3.0)), float(nm.grad(twice_p.bind)(3.0))
      (6.0, 10.0)
    """

    multiple_results: bool = False
    call_primitive: bool = False
    map_primitive: bool = False

    def __init__(self, name: str):
        self.name = name
        self.impl: Callable[..., Any] | None = None
        self.abstract_eval: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return self.name

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the implementation ``impl(*arrays, **params)``; usable as a decorator."""
        self.impl = impl
        return impl

    def def_abstract_eval(self, abstract_eval: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the function of shapes and dtypes. It is kept for callers; tracing the implementation finds both."""
        self.abstract_eval = abstract_eval
        return abstract_eval

    def def_effectful_abstract_eval(self, abstract_eval: Callable[..., Any]) -> Callable[..., Any]:
        """The same for a function that also returns effects."""
        self.abstract_eval = lambda *args, **params: abstract_eval(*args, **params)[0]
        return abstract_eval

    def bind(self, *args: Any, **params: Any) -> Any:
        """The result of the primitive for arrays and parameters; derivatives and maps use its rules.

        Raises:
          RuleMissingError: the primitive has no implementation.
        """
        lowering = lowerings.get(self)
        code = getattr(lowering, "lowered", None) if is_tracing() else None
        code = self.impl if code is None else code
        if code is None:
            raise RuleMissingError(
                f"{self.name} requires an implementation, got none.", where=user_frame(), help="define it with def_impl."
            )
        call: Any = functools.partial(code, **params)
        if self in primitive_jvps:
            call = self._with_jvp(call, params)
        if self in primitive_batchers or self in axis_primitive_batchers:
            call = self._with_map(call, params)
        return call(*args) if is_tracing() else staged(call)(*args)

    def _with_jvp(self, call: Callable[..., Any], params: dict[str, Any]) -> Callable[..., Any]:
        """A function that runs `call` and whose derivative is the primitive's forward rule with the parameters `params`."""
        primal = _OfPrimitive(self, lambda *xs: call(*xs))

        def rule(primals: Any, tangents: Any) -> Any:
            """The value and the tangent by the primitive's forward rule; a zero tangent is `Zero` for the rule, and None in the
            result.
            """
            given = [Zero(typeof(x)) if isinstance(t, SymbolicZero) else t for x, t in zip(primals, tangents, strict=True)]
            out, tangent = primitive_jvps[self](primals, given, **params)
            leaves = tangent if self.multiple_results else [tangent]
            found = [None if isinstance(t, Zero) else t for t in leaves]
            if not self.multiple_results:
                return out, found[0]
            return out, found if isinstance(out, list) else tuple(found)

        primal.defjvp(rule, symbolic_zeros=True)
        return primal

    def _with_map(self, call: Callable[..., Any], params: dict[str, Any]) -> Callable[..., Any]:
        """A function that runs `call` and that `vmap` maps by the primitive's batching rule with the parameters `params`."""
        mapped = custom_vmap(lambda *xs: call(*xs))

        @mapped.def_vmap
        def rule(axis_size: int, in_batched: Any, *args: Any) -> Any:
            """The results by the primitive's batching rule, with their mapped axes at the front, and which of them are mapped."""
            dims = [0 if is_batched else None for is_batched in in_batched]
            if self in axis_primitive_batchers:
                # The parameters of such a rule in JAX: size and name of the axis, the main type (always None), arrays, their axes.
                # `custom_vmap` applies a rule to the innermost of the enclosing maps, so the name is that of its axis.
                bound = innermost_axis()
                name = None if bound is None else bound.name
                outs, out_dims = axis_primitive_batchers[self](axis_size, name, None, args, dims, **params)
            else:
                outs, out_dims = primitive_batchers[self](args, dims, **params)
            if not self.multiple_results:
                return _in_front(outs, out_dims), out_dims is not not_mapped
            return [_in_front(x, d) for x, d in zip(outs, out_dims, strict=True)], [d is not not_mapped for d in out_dims]

        return mapped


not_mapped = None


def _in_front(x: Any, axis: int | None) -> Any:
    """The array with the mapped axis as its first axis; unchanged if the axis is None."""
    return x if axis in (None, 0) else moveaxis(x, axis, 0)


class _OfPrimitive(custom_jvp):
    """A `custom_jvp` that calls a primitive. All calls of one primitive count as one function where its rule calls it again."""

    def __init__(self, primitive: Primitive, fun: Callable[..., Any]):
        super().__init__(fun)
        self.primitive = primitive

    def _name(self) -> str:
        """The name of the primitive, for errors."""
        return self.primitive.name

    def _is_same(self, other: Any) -> bool:
        """True if the other function calls the same primitive."""
        return isinstance(other, _OfPrimitive) and other.primitive is self.primitive
