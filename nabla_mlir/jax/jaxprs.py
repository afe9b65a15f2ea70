"""Traced functions as values, under the names of JAX: `make_jaxpr`, and the parts of its result.

A `ClosedJaxpr` prints as IR and has the methods of `nm.Traced`. Its equations are a view of that IR.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import check_function
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.dialects.stablehlo import constant_array
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.jax.environment import typeof
from nabla_mlir.jax.operations import primitive
from nabla_mlir.jax.primitives import Primitive
from nabla_mlir.staging.abstract import eval_shape
from nabla_mlir.staging.positions import bind_static
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.stages import Traced, entry_name_of, trace
from nabla_mlir.transforms.closures import closure_convert

_NAMES = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "negate": "neg", "exponential": "exp", "log": "log",
    "exponential_minus_one": "expm1", "log_plus_one": "log1p", "sine": "sin", "cosine": "cos", "tangent": "tan", "tanh": "tanh",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "power": "pow", "maximum": "max", "minimum": "min", "abs": "abs",
    "sign": "sign", "logistic": "logistic", "select": "select_n", "compare": "compare", "convert": "convert_element_type",
    "broadcast_in_dim": "broadcast_in_dim", "reshape": "reshape", "transpose": "transpose", "dot_general": "dot_general",
    "concatenate": "concatenate", "slice": "slice", "reduce": "reduce", "while": "while", "case": "cond", "reverse": "rev",
    "pad": "pad", "gather": "gather", "scatter": "scatter", "dynamic_slice": "dynamic_slice", "convolution": "conv_general_dilated",
    "dynamic_update_slice": "dynamic_update_slice", "iota": "iota", "floor": "floor", "ceil": "ceil", "erf": "erf",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Var:
    """A value of a traced function, with its shape and dtype `aval`."""

    aval: Spec


class DropVar(Var):
    """A result that is not used. No equation has one: the IR holds only operations with results that are."""


@dataclass(frozen=True, eq=False)
class Literal:
    """A constant of a traced function: an array `val` with the shape and dtype `aval`."""

    val: Any
    aval: Spec


@dataclass(frozen=True)
class JaxprEqn:
    """An operation of a traced function.

    Attributes:
      primitive: its name, as a primitive.
      invars: the values and constants that it reads.
      outvars: the values that it computes.
      params: its attributes.
    """

    primitive: Any
    invars: list[Any]
    outvars: list[Var]
    params: dict[str, Any]


@dataclass(frozen=True)
class _View:
    """The values and the equations of a module, as objects with JAX's names."""

    invars: list[Any] = field(default_factory=list)
    outvars: list[Any] = field(default_factory=list)
    eqns: list[JaxprEqn] = field(default_factory=list)


class Jaxpr:
    """A function of constants and arguments, as leaves.

    Args:
      call: the function, from constants and arguments to a list of leaves.
      traced: a function without arguments that traces it for its types.
      in_avals: the shapes and dtypes of the arguments.
      out_avals: those of the results.
    """

    def __init__(self, call: Callable[..., list[Any]], traced: Callable[[], Traced], in_avals: list[Spec], out_avals: list[Spec]):
        self._call, self._trace, self.in_avals, self.out_avals = call, traced, in_avals, out_avals

    @functools.cached_property
    def traced(self) -> Traced:
        """The traced function."""
        return self._trace()

    @functools.cached_property
    def _view(self) -> _View:
        return _view_of(self.traced)

    @property
    def eqns(self) -> list[JaxprEqn]:
        """The operations of the IR, in order; constants are literals of the operations that read them."""
        return self._view.eqns

    @property
    def invars(self) -> list[Any]:
        """The arguments."""
        return self._view.invars

    @property
    def outvars(self) -> list[Any]:
        """The results."""
        return self._view.outvars

    @property
    def constvars(self) -> list[Any]:
        """Empty: constants are literals."""
        return []

    @property
    def effects(self) -> frozenset[Any]:
        """Empty: the operations in the IR that print or call Python say so themselves."""
        return frozenset()

    def __str__(self) -> str:
        return str(self.traced)

    __repr__ = __str__


class ClosedJaxpr:
    """A traced function with the values that it captured.

    Attributes:
      jaxpr: the function of these values and of its arguments.
      consts: the captured values of an enclosing trace, outside of which there are none.
    """

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()):
        self.jaxpr, self.consts = jaxpr, list(consts)

    literals = property(lambda self: self.consts)

    @property
    def in_avals(self) -> list[Spec]:
        """The shapes and dtypes of the arguments."""
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[Spec]:
        """The shapes and dtypes of the results."""
        return self.jaxpr.out_avals

    @property
    def eqns(self) -> list[JaxprEqn]:
        """The operations, as `Jaxpr.eqns`."""
        return self.jaxpr.eqns

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "jaxpr":
            raise AttributeError(name)
        return getattr(self.jaxpr.traced, name)  # the methods of nm.Traced

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__


def make_jaxpr(
    fun: Callable[..., Any], static_argnums: int | tuple[int, ...] = (), axis_env: Any = None, return_shape: bool = False
) -> Callable[..., Any]:
    """A function that traces `fun` for its arguments. Its result prints as IR; see `nm.trace`.

    Args:
      fun: a function of pytrees of arrays.
      static_argnums: positions of arguments that are not arrays.
      axis_env: must be None; a function with a collective is traced inside `vmap`.
      return_shape: True also returns the shapes and dtypes of the results.

    Example:
      >>> import nabla_mlir as nm
      >>> traced = make_jaxpr(lambda x: nm.numpy.sin(x) * 2.0)(1.0)
      >>> [str(eqn.primitive) for eqn in traced.eqns], "stablehlo.sine" in str(traced)
      (['sin', 'mul'], True)
    """
    check_function("make_jaxpr", fun)

    @functools.wraps(fun)
    def make(*args: Any, **kwargs: Any) -> Any:
        """Traces the function for the arguments, and returns its equations."""
        dynamic, rest = bind_static("make_jaxpr", fun, args, static_argnums)
        leaves, in_spec = pytree.flatten((rest, kwargs))
        structure: dict[str, Any] = {}

        def flat(*inner: Any) -> list[Any]:
            """The leaves of the results, from the leaves of the arguments; also notes the structure of the results."""
            values, keywords = pytree.unflatten(in_spec, inner)
            outs, structure["out"] = pytree.flatten(dynamic(*values, **keywords))
            return outs

        outs = eval_shape(flat, *leaves)
        converted, consts = closure_convert(flat, *leaves)
        in_avals = [typeof(leaf) for leaf in leaves]
        jaxpr = Jaxpr(
            lambda consts, *inner: converted(*inner, *consts),
            lambda: trace(flat, *leaves, name=entry_name_of(fun)),
            in_avals,
            list(outs),
        )
        closed = ClosedJaxpr(jaxpr, consts)
        return (closed, pytree.unflatten(structure["out"], outs)) if return_shape else closed

    return make


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """The leaves of the result of a traced function, for values of its captures and arguments.

    Example:
      >>> closed = make_jaxpr(lambda x: 2 * x)(1.0)
      >>> float(eval_jaxpr(closed.jaxpr, closed.consts, 3.0)[0])
      6.0
    """
    return jaxpr._call(consts, *args)


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A traced function as a function of the leaves of its arguments."""
    return functools.partial(eval_jaxpr, closed_jaxpr.jaxpr, closed_jaxpr.consts)


def mapped_aval(size: int, axis: int | None, aval: Spec) -> Spec:
    """The shape and dtype of one entry of a map over an axis; unchanged if the axis is None.

    Example:
      >>> import nabla_mlir as nm
      >>> print(mapped_aval(3, 0, nm.spec((3, 2))))
      float32[2]
    """
    return aval if axis is None else aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])


def unmapped_aval(size: int, axis: int | None, aval: Spec) -> Spec:
    """The shape and dtype of all entries of a map with one more axis; None is no axis."""
    return aval if axis is None else aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def equation(op: ir.Operation, known: dict[ir.Value, Any] | None = None) -> JaxprEqn:
    """An operation of the IR as an equation with JAX's names.

    Args:
      op: the operation.
      known: the objects of the values so far; those of its results are added.
    """
    values: dict[ir.Value, Any] = {} if known is None else known
    short = op.name.partition(".")[2]
    name = _NAMES.get(short, short)
    invars = [values[v] if v in values else Var(Spec(*shape_and_dtype(v.type))) for v in op.operands]
    outvars = [Var(Spec(*shape_and_dtype(v.type))) for v in op.results]
    values.update(zip(op.results, outvars, strict=True))
    params = {name: op.attributes[name] for name in op.attributes}
    return JaxprEqn(primitive(name) or Primitive(name), invars, outvars, params)


def _view_of(traced: Traced) -> _View:
    """The variables and equations of a traced function, in the order of its operations."""
    (function,) = functions_of(traced.module.operation).values()
    block = function.regions[0].blocks[0]
    known: dict[ir.Value, Any] = {a: Var(Spec(*shape_and_dtype(a.type))) for a in block.arguments}
    view = _View(list(known.values()))
    for op in (op.operation for op in block.operations):
        if op.name == "stablehlo.constant":
            known[op.results[0]] = Literal(constant_array(op), Spec(*shape_and_dtype(op.results[0].type)))
        elif op.name == "func.return":
            view.outvars.extend(known[v] for v in op.operands)
        else:
            view.eqns.append(equation(op, known))
    return view
