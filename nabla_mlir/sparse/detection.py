"""Detection of the patterns of derivatives, on the IR of the derivative, with respect to its tangent."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, NablaError, PatternError, ShapeError, TraceError, user_frame
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.ad import JvpOp
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import functions_of, last_of, made_by, new_function
from nabla_mlir.dialects.types import is_float
from nabla_mlir.numpy import concatenate
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.passes.canonicalize_batch import CanonicalizeBatchPass
from nabla_mlir.passes.dce import DcePass
from nabla_mlir.passes.dependence.analysis import DerivativeNeeded, dependence_of, results_of
from nabla_mlir.passes.dependence.values import LinesNeeded
from nabla_mlir.passes.expand import ExpandPass
from nabla_mlir.passes.inline_rules import InlineRulesPass
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.passes.remove_stop_gradient import RemoveStopGradientPass
from nabla_mlir.passes.sparsity import causes
from nabla_mlir.passes.verify import VerifyPass
from nabla_mlir.sparse.pattern import DENSE, Pattern
from nabla_mlir.sparsity.relation import Relation
from nabla_mlir.staging.eager import Halves, as_inputs
from nabla_mlir.staging.positions import Argnums, positions
from nabla_mlir.staging.specs import Spec, as_spec
from nabla_mlir.staging.tracing import Trace, current_trace, trace_function, trace_region
from nabla_mlir.table.regions import captures_of
from nabla_mlir.table.registry import clone_op
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.table.traits import CONSTANT
from nabla_mlir.transforms.arguments import active_arguments, differentiable, specs_of, with_arguments
from nabla_mlir.transforms.gradients import grad
from nabla_mlir.transforms.linear import pushed

# Lowering passes that only improve speed are left out, because they take longer than the analysis.
_EXPANDED = Pipeline((VerifyPass(), DcePass(), CanonicalizeBatchPass(), ExpandPass()))
_DERIVED = Pipeline((ExpandPass(), InlineRulesPass(), RemoveStopGradientPass()))


class FlatCall:
    """A call of a function as a function from vector to vector: the leaves are concatenated in row-major order.

    Attributes:
      tensors: the leaves of the arguments that are differentiated.
    """

    what: str

    def __init__(self, what: str, f: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...], kwargs: Any):
        """Separates the differentiated arguments of a call of `f` from the others; `what` names the caller in errors."""
        self.what, self._f, self._args, self._kwargs = what, f, args, kwargs
        self._active, leaves, self._spec = active_arguments(what, args, argnums)
        paths = pytree.paths(self._spec)
        self.tensors: list[Tensor] = [differentiable(what, x, p, False) for x, p in zip(leaves, paths, strict=True)]
        self.sizes: list[int] = [t.size for t in self.tensors]

    def __call__(self, *leaves: Tensor) -> Tensor:
        """The results as one vector."""
        args = with_arguments(self._args, self._active, pytree.unflatten(self._spec, leaves))
        return self.flat(self._f(*args, **self._kwargs))

    def gradient(self, *leaves: Tensor) -> Tensor:
        """The gradient of a scalar function as one vector."""

        def scalar(*inner: Tensor) -> Any:
            """The scalar result of the function; `inner` are new leaves of the differentiated arguments."""
            args = with_arguments(self._args, self._active, pytree.unflatten(self._spec, inner))
            out = self._f(*args, **self._kwargs)
            if shape := tuple(getattr(out, "shape", ())):
                raise ShapeError(f"{self.what} requires a scalar result, got shape {shape}.", where=user_frame())
            return out

        return self.flat(grad(scalar, tuple(range(len(leaves))))(*leaves))

    def flat(self, out: Any) -> Tensor:
        """A pytree as one vector."""
        return flat(self.what, out)

    def parts(self, vector: Tensor) -> list[Tensor]:
        """A vector as tensors with the shapes of the differentiated leaves."""
        return parts(vector, self.tensors)


def flat(what: str, out: Any) -> Tensor:
    """A pytree `out` of real results as one vector: its leaves, concatenated in row-major order. `what` names the transform for
    errors.
    """
    leaves, spec = pytree.flatten(out)
    for y, path in zip(leaves, pytree.paths(spec), strict=True):
        if not is_float(np.dtype(y.dtype)):
            raise DtypeError(f"{what} requires real results, got {y.dtype} at result{path}.", where=user_frame())
    vectors = [reshaped(y, (y.size,)) for y in leaves]
    return vectors[0] if len(vectors) == 1 else concatenate(vectors)


def parts(vector: Tensor, likes: Sequence[Any]) -> list[Tensor]:
    """A vector as arrays with the shapes and dtypes of `likes`."""
    ends = np.cumsum([0, *(math.prod(like.shape) for like in likes)]).tolist()
    return [reshaped(vector[a:b].astype(like.dtype), like.shape) for a, b, like in zip(ends[:-1], ends[1:], likes, strict=True)]


def pattern_at(function: Callable[..., Tensor], tensors: Sequence[Tensor], symmetric: bool = False) -> Pattern:
    """The pattern of the derivative of a function of tensors of the trace, whose result is a vector.

    It is searched on the function itself, then with its transforms expanded. If neither is enough, for example because of custom
    rules, it is found on the derivative, with respect to its tangent.
    """
    specs = specs_of(tensors)
    trace = current_trace()
    assert trace is not None, "patterns are looked for inside a trace"
    _, holder, _ = trace_region(lambda *xs: [function(*xs)], specs, "the sparsity of a derivative", is_differentiated=True)
    relation, reasons = _analyse(holder, len(specs), trace)
    return _to_pattern(relation, reasons, specs, symmetric)


def _analyse(holder: ir.Operation, count: int, trace: Trace) -> tuple[Relation, list[str]]:
    """The pattern of the derivative of a block by its arguments, and the operations that made it dense.

    `holder` has the block in its region, `count` is the number of arguments, and `trace` has the arrays that the block captures.
    """
    outside = set(captures_of(holder)) if trace.captures else set()
    arrays = {c.value: np.asarray(c.array) for c in trace.captures.values() if c.value in outside}
    with contextlib.suppress(DerivativeNeeded):
        found = dependence_of(holder, range(count), numbers=arrays, is_derivative=False, has_lines=trace.has_lines)
        return results_of(holder, found)[0], causes(found)
    module = _separate_module(holder, arrays)
    _EXPANDED.run(module, verify_each=False)
    func = functions_of(module.operation)["main"]
    with contextlib.suppress(DerivativeNeeded):
        found = dependence_of(func, range(count), module.operation, is_derivative=False, has_lines=trace.has_lines)
        return results_of(func, found)[0], causes(found)
    func = _differentiate(func, count)
    _DERIVED.run(module, verify_each=False)
    found = dependence_of(func, range(-count, 0), module.operation, has_lines=trace.has_lines)
    return results_of(func, found)[0], causes(found)


def _to_pattern(relation: Relation, reasons: list[str], specs: Sequence[Spec], symmetric: bool) -> Pattern:
    """The relation of a derivative as a pattern; `specs` are the types of the arguments, `reasons` the causes of dense rows."""
    grids = [relation.layout] if math.prod(relation.shape) == relation.columns else []
    grids += [specs[0].shape] if len(specs) == 1 else []
    try:
        pattern = Pattern(relation.rows, tuple(grids), tuple(reasons))
    except PatternError as error:
        what = f" It is made dense by {', '.join(reasons)}." if reasons else ""
        raise PatternError(error.message + what, where=error.where, help=DENSE if reasons else error.help) from None
    return pattern.symmetric_part() if symmetric else pattern


def _pattern_at_point(what: str, f: Callable[..., Any], args: Sequence[Any], argnums: Argnums, symmetric: bool) -> Pattern:
    """The pattern of a derivative of `f` at the point `args`; of the Hessian if `symmetric`.

    The derivative is split into the half that the point determines and the half that depends on the tangent. The first half is run,
    and the second half is analysed with its numbers. `argnums` are the positions of the differentiated arguments.
    """
    leaves, in_spec = pytree.flatten(tuple(args), is_leaf=lambda x: isinstance(x, Spec))
    if any(isinstance(leaf, Spec) for leaf in leaves):
        raise TraceError(
            f"{what} with local=True requires the arrays of a point, got nm.spec.",
            where=user_frame(),
            help="a local pattern holds only at these arguments; without local=True it holds for all.",
        )
    specs = [as_spec(leaf) for leaf in leaves]
    active = [as_spec(leaf) for leaf in active_arguments(what, tuple(args), argnums)[1]]
    rows: list[int] = []

    def push(*tensors: Tensor) -> list[Tensor]:
        """A list with one vector: the derivative of `f`, or of its gradient. `tensors` are the arguments, then their tangents."""
        call = FlatCall(what, f, argnums, pytree.unflatten(in_spec, tensors[: len(specs)]), {})
        function = call.gradient if symmetric else call
        out = pushed(lambda *xs: function(*xs), call.tensors, tensors[len(specs) :], False)[1]
        rows.append(out.size)
        return [out]

    module, captures = trace_function(push, [*specs, *active], "main")
    lower_module(module)
    tangents = range(len(specs), len(specs) + len(active))
    halves = Halves(module, [*range(len(specs)), *range(tangents.stop, tangents.stop + len(captures))])
    numbers = [np.asarray(x) for x in halves.at([*as_inputs(leaves, [s.dtype for s in specs]), *captures]).residuals]
    columns = range(len(numbers), len(numbers) + len(active))
    known = dict(zip(halves.split.rest.regions[0].blocks[0].arguments, numbers, strict=False))
    found = dependence_of(halves.split.rest, columns, module.operation, known)
    results = results_of(halves.split.rest, found) or [Relation.none((rows[0],), found.columns)]
    return _to_pattern(results[0], causes(found), active, symmetric)


def _separate_module(holder: ir.Operation, arrays: Mapping[ir.Value, np.ndarray]) -> ir.Module:
    """A module with a function `main` that is a copy of the block in `holder`.

    Captured values become constants, with the numbers `arrays` if they have some, or further arguments.
    """
    block = holder.regions[0].blocks[0]
    outside = captures_of(holder)
    constants = [v for v in outside if v in arrays or _is_constant(made_by(v))]
    others = [v for v in outside if v not in set(constants)]
    operations = [op.operation for op in block.operations]
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            body = new_function("main", [v.type for v in (*block.arguments, *others)], [v.type for v in operations[-1].operands])
        mapping = dict(zip((*block.arguments, *others), body.arguments, strict=True))
        with ir.InsertionPoint(body):
            for value in constants:
                if value in arrays:
                    literal = stablehlo.elements(arrays[value])
                    mapping[value] = stablehlo.emit("stablehlo.constant", [], attributes={"value": literal}).results[0]
                else:
                    clone_op(value.owner.operation, mapping)
            for op in operations[:-1]:
                clone_op(op, mapping)
            ir.Operation.create("func.return", operands=[mapping[v] for v in operations[-1].operands])
    return module


def _differentiate(func: ir.Operation, count: int) -> ir.Operation:
    """Replaces a function by its derivative; the tangents of its first `count` arguments are its last arguments."""
    block = func.regions[0].blocks[0]
    types = [a.type for a in block.arguments]
    end = last_of(block)
    with context(), ir.Location.unknown():
        with ir.InsertionPoint(end):
            stablehlo.emit("stablehlo.return", list(end.operands), results=[])
        end.erase()
        with ir.InsertionPoint(func):
            body = new_function("main", [*types, *types[:count]], [v.type for v in last_of(block).operands])
        with ir.InsertionPoint(body):
            values = list(body.arguments)
            derivative = JvpOp.build(values[: len(types)], values[len(types) :], block, range(count), [0]).op
            ir.Operation.create("func.return", operands=[derivative.results[1]])
    func.erase()
    return body.owner.operation


def _is_constant(op: ir.Operation | None) -> bool:
    return op is not None and op.name == CONSTANT


def _pattern(what: str, f: Callable[..., Any], specs: Sequence[Any], argnums: Argnums, symmetric: bool, local: bool) -> Pattern:
    """The pattern of the Jacobian of `f`, or of the Hessian if `symmetric`.

    Args:
      what: the name of the transform, for errors.
      f: the function.
      specs: the specs of its arguments; with `local` their arrays, the point.
      argnums: the positions of the differentiated arguments.
      symmetric: True for the Hessian.
      local: True for the pattern at the point, which may lack entries elsewhere.
    """
    positions(what, argnums, len(specs))  # only checks `argnums`: raises TraceError for a position without an argument
    if local:
        return _pattern_at_point(what, f, specs, argnums, symmetric)
    # The first trace has no source locations, which saves time; if an error or a warning needs one, a second trace has them.
    with contextlib.suppress(NablaError, LinesNeeded):
        return _pattern_by_trace(what, f, specs, argnums, symmetric, has_lines=False)
    return _pattern_by_trace(what, f, specs, argnums, symmetric, has_lines=True)


def _pattern_by_trace(
    what: str, f: Callable[..., Any], specs: Sequence[Any], argnums: Argnums, symmetric: bool, has_lines: bool
) -> Pattern:
    """The pattern of the Jacobian of `f`, or of its gradient if `symmetric`, from a trace with these specs.

    With `has_lines`, operations have the user's lines. `argnums` are the positions of the differentiated arguments.
    """
    leaves, in_spec = pytree.flatten(tuple(specs), is_leaf=lambda x: isinstance(x, Spec))
    patterns: list[Pattern] = []

    def detect(*tensors: Tensor) -> list[Tensor]:
        call = FlatCall(what, f, argnums, pytree.unflatten(in_spec, tensors), {})
        patterns.append(pattern_at(call.gradient if symmetric else call, call.tensors, symmetric))
        return []

    trace_function(detect, [as_spec(leaf) for leaf in leaves], "main", has_lines=has_lines)
    return patterns[0]


def jacobian_pattern(f: Callable[..., Any], *specs: Any, argnums: Argnums = 0, local: bool = False) -> Pattern:
    """The sparsity pattern of the Jacobian of `f`, found on the IR: the entries that can be nonzero at any x.

    Rows are the elements of the results, and columns those of the arguments at `argnums`, one leaf after the other, each in
    row-major order. The pattern never lacks an entry. It can have an entry too many, from indices that are not known before the
    program runs, and from values that happen to be zero (``x * (y - y)``). Custom rules count as they are written.
    Products with constant zeros, and branches that constant conditions do not select, are left out.

    Args:
      f: a function of pytrees of arrays.
      specs: for each argument a pytree of `nm.spec(...)`, or arrays.
      argnums: the positional argument(s) to differentiate.
      local: True finds the pattern at one point, whose arrays are passed instead of specs. Branches that where, min, max, abs
        and relu do not select there, and products with values that are zero there, add nothing. Indices that depend on data
        are known. The pattern holds only at this point.

    Raises:
      PatternError: the pattern has too many entries to be written down.
      DtypeError: an argument or a result is not floating-point.
      TraceError: a local pattern is requested for specs.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.sparse.jacobian_pattern(lambda x: x[1:] - x[:-1], nm.spec(100))
      Pattern(99x100, nnz=198)
      >>> nm.sparse.jacobian_pattern(nm.nn.relu, np.array([-1.0, 2.0, 3.0]), local=True)
      Pattern(3x3, nnz=2)
    """
    return _pattern("jacobian_pattern", f, specs, argnums, symmetric=False, local=local)


def hessian_pattern(f: Callable[..., Any], *specs: Any, argnums: Argnums = 0, local: bool = False) -> Pattern:
    """The sparsity pattern of the Hessian of a scalar function `f`: the entries that can be nonzero at any x.

    It is the pattern of the Jacobian of the gradient, without entries whose mirror images are not in it. A linear term adds
    nothing. The arguments and errors are those of `jacobian_pattern`.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.sparse.hessian_pattern(lambda x: (x[1:] * x[:-1]).sum() + x.sum(), nm.spec(4)).to_dense().astype(int)
      array([[0, 1, 0, 0],
             [1, 0, 1, 0],
             [0, 1, 0, 1],
             [0, 0, 1, 0]])
    """
    return _pattern("hessian_pattern", f, specs, argnums, symmetric=True, local=local)
