"""Transforms of an entry point: the function becomes the body of `ad` and `batch` operations.

nabla_mlir/transforms/jacobians.py computes the same Jacobians from Python functions by tracing. This module works on
blocks and types, jacobians.py on trees and named axes; one implementation for both would be longer than two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects import builder, stablehlo
from nabla_mlir.dialects.ad import JvpOp, VjpOp, is_differentiable_type
from nabla_mlir.dialects.batch import NOT_CARRIED, VmapOp, with_axes
from nabla_mlir.dialects.regions import functions_of, is_private, scratch_block
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.linalg import unit_vectors
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.table.registry import clone_op

Values = list[ir.Value]


@register
@dataclass(frozen=True)
class TransformPass(Pass):
    """Wrap an entry point in a transform. Its arguments and results become those of the derivative or the map.

    - `jvp` takes tangents, and returns tangents after the results.
    - `vjp` takes cotangents, and returns those of `wrt` after the results.
    - `grad` and `value_and_grad` need one scalar result.
    - `hvp` takes a direction for each argument of `wrt`.
    - `jacfwd`, `jacrev` and `hessian` return one block for each result and each argument of `wrt`.
    - `vmap` maps over a leading axis of `size`.

    Repeat the pass to compose transforms, the first one innermost. `nabla-expand` then expands them.

    Example: tests/filecheck/passes/transform.mlir
    """

    name: ClassVar[str] = "nabla-transform"
    apply: str = "grad"  # jvp, vjp, grad, value_and_grad, hvp, jacfwd, jacrev, hessian or vmap
    entry: str = ""  # the function; may be left out if only one is public
    wrt: tuple[int, ...] = (0,)  # the arguments that are differentiated
    size: int = 0  # of the mapped axis
    in_axes: tuple[int, ...] = ()  # where each argument carries the mapped axis, -1: not at all; leading if left out

    def run(self, module: ir.Operation) -> None:
        """Replaces the entry function by one whose body is the transform."""
        if self.apply not in _TRANSFORMS:
            raise PassError(f"{self.name} requires one of {', '.join(_TRANSFORMS)}, got {self.apply!r}.")
        function = self._entry_function(module)
        with function.location, ir.InsertionPoint(function):
            holder, body = _copy_body(function.regions[0].blocks[0])
            types, make = _TRANSFORMS[self.apply](self, body)
            attributes = {k: function.attributes[k] for k in ("sym_name", "sym_visibility") if k in function.attributes}
            attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], []))
            wrapper = ir.Operation.create("func.func", regions=1, attributes=attributes)
            block = ir.Block.create_at_start(wrapper.regions[0], types, [function.location] * len(types))
            with ir.InsertionPoint(block):
                outs = make(list(block.arguments))
                ir.Operation.create("func.return", operands=outs)
        kind = ir.FunctionType.get(types, [v.type for v in outs])
        wrapper.attributes["function_type"] = ir.TypeAttr.get(kind)
        holder.erase()
        function.erase()

    def _entry_function(self, module: ir.Operation) -> ir.Operation:
        """The function that a transform is applied to; raises if the module has several."""
        functions = functions_of(module)
        candidates = [f for name, f in functions.items() if (name == self.entry if self.entry else not is_private(f))]
        if len(candidates) != 1:
            raise PassError(
                f"{self.name} requires one entry point, got {self.entry!r} among {sorted(functions)}.",
                help="choose it with entry=NAME.",
            )
        return candidates[0]

    def require(self, condition: bool, what: str) -> None:
        """Raises PassError unless the condition holds."""
        if not condition:
            raise PassError(f"{self.name}{{apply={self.apply}}} requires {what}.")


# ---------------------------------------------------------------- bodies: blocks that end in stablehlo.return


def _copy_body(block: ir.Block) -> tuple[ir.Operation, ir.Block]:
    """The operation that holds a copy of a block, and the copy, which is the body of a region operation."""

    def make(arguments: Values) -> Values:
        """Emits a copy of the operations of `block` on these arguments; returns the copies of its results."""
        mapping: dict[ir.Value, ir.Value] = dict(zip(block.arguments, arguments, strict=True))
        *operations, last = (op.operation for op in block.operations)
        for op in operations:
            clone_op(op, mapping)
        return [mapping.get(v, v) for v in last.operands]

    return _make_body([a.type for a in block.arguments], make)


def _make_body(types: Sequence[ir.Type], make: Callable[[Values], Values]) -> tuple[ir.Operation, ir.Block]:
    """The operation that holds a new block, and the block, which is the body of a region operation.

    The block has arguments of the given types, and returns the values of `make`, which is called with the arguments.
    """
    block = scratch_block(types)
    with ir.InsertionPoint(block):
        stablehlo.emit("stablehlo.return", make(list(block.arguments)), results=[])
    return block.owner.operation, block


def _types(body: ir.Block) -> tuple[list[ir.Type], list[ir.Type]]:
    """The types of the arguments and of the results of a body."""
    return [a.type for a in body.arguments], [v.type for v in body.operations[len(body.operations) - 1].operands]


def _check_wrt(item: TransformPass, body: ir.Block) -> tuple[list[ir.Type], list[ir.Type], list[int]]:
    """The types of the arguments and of the results of a body, and the indices of the results that can be differentiated.

    Raises PassError if `wrt` of the pass names an argument that does not exist, or that cannot be differentiated.
    """
    arguments, results = _types(body)
    for i in item.wrt:
        item.require(0 <= i < len(arguments), f"indices below {len(arguments)} in wrt, got {i}")
        item.require(is_differentiable_type(arguments[i]), f"a floating-point argument at each index of wrt, got {arguments[i]}")
    return arguments, results, [i for i, t in enumerate(results) if is_differentiable_type(t)]


# ---------------------------------------------------------------- transforms

# The argument types of the transformed function, and a function from its arguments to its results, which emits the code.
Transformed = tuple[list[ir.Type], Callable[[Values], Values]]


def _jvp(item: TransformPass, body: ir.Block, keep_results: bool = True) -> Transformed:
    """The argument types and the code of the transform `jvp`; `keep_results` is False if only tangents are returned."""
    arguments, results, differentiable = _check_wrt(item, body)

    def make(values: Values) -> Values:
        """The results of the transform for its arguments: the primal values, then the tangents."""
        n = len(arguments)
        outs = list(JvpOp.build(values[:n], values[n:], body, item.wrt, differentiable).op.results)
        return outs if keep_results else outs[len(results) :]

    return [*arguments, *(arguments[i] for i in item.wrt)], make


def _vjp(item: TransformPass, body: ir.Block) -> Transformed:
    """The argument types and the code of the transform `vjp`: cotangents of the results follow the arguments."""
    arguments, results, differentiable = _check_wrt(item, body)

    def make(values: Values) -> Values:
        n = len(arguments)
        return list(VjpOp.build(values[:n], values[n:], body, item.wrt, differentiable).op.results)

    return [*arguments, *(results[i] for i in differentiable)], make


def _grad(item: TransformPass, body: ir.Block, with_value: bool = False) -> Transformed:
    """The argument types and the code of the transform `grad`, a vjp with the cotangent 1; `with_value` returns the value, too."""
    arguments, results, differentiable = _check_wrt(item, body)
    shape, dtype = shape_and_dtype(results[0])
    item.require(
        len(results) == len(differentiable) == 1 and shape == () and dtype.kind != "c",
        f"one real scalar result, got {', '.join(map(str, results))}",
    )

    def make(values: Values) -> Values:
        """The results of the transform for its arguments: the value, if it is wanted, and the gradients."""
        one = builder.full(1, (), dtype).value
        outs = list(VjpOp.build(values, [one], body, item.wrt, [0]).op.results)
        return outs if with_value else outs[1:]

    return arguments, make


def _hvp(item: TransformPass, body: ir.Block) -> Transformed:
    """The argument types and the code of the transform `hvp`: the jvp of the gradient."""
    holder, gradient = _make_body(*_grad(item, body))
    types, make = _jvp(item, gradient, keep_results=False)
    return types, _then_erase(make, holder)


def _hessian(item: TransformPass, body: ir.Block) -> Transformed:
    """The argument types and the code of the transform `hessian`: the forward-mode Jacobian of the gradient."""
    holder, gradient = _make_body(*_grad(item, body))
    types, make = _jacfwd(item, gradient)
    return types, _then_erase(make, holder)


def _then_erase(make: Callable[[Values], Values], holder: ir.Operation) -> Callable[[Values], Values]:
    """A function like `make` that erases the holder of the body afterwards."""

    def run(values: Values) -> Values:
        outs = make(values)
        holder.erase()
        return outs

    return run


def _over_basis(type: ir.Type, out_positions: Sequence[int], make: Callable[[ir.Value], Values]) -> Values:
    """The results of a map of `make` over the unit vectors of a tensor type.

    `out_positions` has the axis at which each result carries the mapped axis.
    """
    basis = unit_vectors(*shape_and_dtype(type))
    holder, block = _make_body([type], lambda values: make(values[0]))
    op = VmapOp.build([basis.value], block, ["basis"], [basis.shape[0]], [[0]], [[p] for p in out_positions]).op
    holder.erase()
    return list(op.results)


def _reshape_to_block(value: ir.Value, result: ir.Type, argument: ir.Type) -> ir.Value:
    """A block of a Jacobian in its final shape: the axes of the result type, then those of the argument type."""
    shape = (*shape_and_dtype(result)[0], *shape_and_dtype(argument)[0])
    return builder.reshape(builder.Val(value), shape).value


def _jacfwd(item: TransformPass, body: ir.Block) -> Transformed:
    """The argument types and the code of `jacfwd`: a map of `ad.jvp` over unit tangents for each argument of `wrt`."""
    arguments, results, differentiable = _check_wrt(item, body)

    def make(values: Values) -> Values:
        """The results of the transform for its arguments: a block of the Jacobian for each result and argument."""
        columns = []
        for i in item.wrt:
            holder, copy = _copy_body(body)  # JvpOp moves the block into the new operation; the holder is empty then
            ranks = [len(shape_and_dtype(results[o])[0]) for o in differentiable]

            def push(t: ir.Value, copy: ir.Block = copy, i: int = i) -> Values:
                """The tangents of the results for the tangent t of argument i."""
                return list(JvpOp.build(values, [t], copy, [i], differentiable).op.results)[len(results) :]

            columns.append(_over_basis(arguments[i], ranks, push))
            holder.erase()
        return [
            _reshape_to_block(column[k], results[o], arguments[i])
            for k, o in enumerate(differentiable)
            for i, column in zip(item.wrt, columns, strict=True)
        ]

    return arguments, make


def _jacrev(item: TransformPass, body: ir.Block) -> Transformed:
    """The argument types and the code of the transform `jacrev`: a map of `ad.vjp` over unit cotangents for each result."""
    arguments, results, differentiable = _check_wrt(item, body)

    def make(values: Values) -> Values:
        """The results of the transform for its arguments: a block of the Jacobian for each result and argument."""
        blocks: Values = []
        for o in differentiable:
            holder, copy = _copy_body(body)

            def pull(ct: ir.Value, copy: ir.Block = copy, o: int = o) -> Values:
                """The cotangents of the arguments for the cotangent ct of result o."""
                return list(VjpOp.build(values, [ct], copy, item.wrt, [o]).op.results)[len(results) :]

            rows = _over_basis(results[o], [0] * len(item.wrt), pull)
            holder.erase()
            blocks += [_reshape_to_block(row, results[o], arguments[i]) for row, i in zip(rows, item.wrt, strict=True)]
        return blocks

    return arguments, make


def _vmap(item: TransformPass, body: ir.Block) -> Transformed:
    """The argument types and the code of `vmap`: a map of the body over a leading axis, or over the axes `in_axes`."""
    arguments, results = _types(body)
    positions = item.in_axes or (0,) * len(arguments)
    item.require(item.size > 0, f"the size of the mapped axis, got {item.size}")
    item.require(len(positions) == len(arguments), f"a position for each of {len(arguments)} arguments, got {list(positions)}")
    for position, type in zip(positions, arguments, strict=True):
        rank = len(shape_and_dtype(type)[0])
        item.require(NOT_CARRIED <= position <= rank, f"positions from -1 to {rank} for {type}, got {position}")

    def make(values: Values) -> Values:
        """The results of the transform for its arguments: the mapped results, with the mapped axis first."""
        in_axes, out_axes = [[p] for p in positions], [[0]] * len(results)
        return list(VmapOp.build(values, body, ["batch"], [item.size], in_axes, out_axes).op.results)

    return [with_axes(t, [p], [item.size]) for t, p in zip(arguments, positions, strict=True)], make


_TRANSFORMS: dict[str, Callable[..., Transformed]] = {
    "jvp": _jvp,
    "vjp": _vjp,
    "grad": _grad,
    "value_and_grad": lambda item, body: _grad(item, body, with_value=True),
    "hvp": _hvp,
    "jacfwd": _jacfwd,
    "jacrev": _jacrev,
    "hessian": _hessian,
    "vmap": _vmap,
}
