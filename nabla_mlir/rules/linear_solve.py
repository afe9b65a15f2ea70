"""`ad.linear_solve`: the solution of a linear system, differentiated implicitly.

With A x = b: dx = A^-1 (db - dA x). For a cotangent c of x, let A^T l = c: the cotangent of b is l. The cotangents of the
values in A are the pullback of -l through A x. The solves in dx and l have the same regions as the original, so derivatives
of every order exist (Giles, "An extended collection of matrix derivative results", 2008, section 2.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.ad_rules import LinearSolveOp
from nabla_mlir.dialects.stablehlo import Bool
from nabla_mlir.ops.elementwise import negate, subtract
from nabla_mlir.rules.control import control
from nabla_mlir.rules.custom_regions import emit_rule
from nabla_mlir.rules.custom_rules import batched_region, prefixed_type
from nabla_mlir.rules.reverse import accumulate, active_values, pull_back, transposed
from nabla_mlir.table.batching import with_axis
from nabla_mlir.table.forward import push_forward, recorded
from nabla_mlir.table.regions import Fill, captures_of, fill
from nabla_mlir.table.registry import OpDef, materialize, missing_rule
from nabla_mlir.table.rules import ZERO, Batch, ControlRules, Cotangents, MaybeZero, Pulled, Pushed, Tangents, Zero
from nabla_mlir.table.tensor import Tensor, wrap

MATVEC, SOLVE, TRANSPOSE_SOLVE = range(3)
_TRANSPOSED = "pass transpose_solve to nm.custom_linear_solve, or symmetric=True if the matrix is symmetric."


def emit_linear_solve(b: Sequence[Tensor], matvec: Fill, solve: Fill, transpose_solve: Fill) -> list[Tensor]:
    """Emits the solution x of A x = b. The regions compute A x, the solution of A x = b and that of A^T x = b."""
    return _emit(Bool.encode(True), b, matvec, solve, transpose_solve)


def _emit(transposable: ir.Attribute, b: Sequence[Tensor], *regions: Fill) -> list[Tensor]:
    """Emits an `ad.linear_solve` of `b` whose regions are filled by `regions`; returns the solution."""
    types = [x.value.type for x in b]
    op = _create_solve(transposable, [x.value for x in b], types)
    for region, make in zip(op.regions, regions, strict=True):
        fill(region, types, make)
    return [wrap(r) for r in op.results]


def _create_solve(transposable: ir.Attribute, operands: Sequence[ir.Value], results: Sequence[ir.Type]) -> ir.Operation:
    """Creates an `ad.linear_solve` with empty regions.

    `operands` are the right-hand sides, and `results` the types of the solutions.
    """
    attributes = {"transposable": transposable}
    return stablehlo.emit(LinearSolveOp.name, operands, results=results, attributes=attributes, regions=3)


def _emit_region_of(op: ir.Operation, region: int) -> Callable[[list[Tensor]], list[Tensor]]:
    """A function that emits a copy of a region of `op` on other arguments."""
    return lambda xs: emit_rule(op, region, [x.value for x in xs])


def _jvp(op: ir.Operation, tangents: Tangents) -> Pushed:
    """The solution x, and its tangent dx: the solution of A dx = db - dA x with the same regions. `tangents` maps values to their
    tangents.
    """
    xs, matvec = [wrap(r) for r in op.results], _emit_region_of(op, MATVEC)
    with ir.InsertionPoint.after(op):
        products, new_ops = recorded(lambda: matvec(xs))
        all_tangents = dict(tangents)  # x has no tangent here, so the tangent of A x is dA x
        replacements = push_forward(new_ops, all_tangents)
        rhs = []
        for b, ax in zip(op.operands, products, strict=True):
            db, dax = tangents.get(b, ZERO), all_tangents.get(replacements.get(ax.value, ax.value), ZERO)
            rhs_tangent = materialize(db, wrap(b))
            rhs.append(rhs_tangent if isinstance(dax, Zero) else subtract(rhs_tangent, dax))
        x_tangents = _emit(
            op.attributes["transposable"], rhs, *(_emit_region_of(op, region) for region in (MATVEC, SOLVE, TRANSPOSE_SOLVE))
        )
    return Pushed(xs, x_tangents)


def _vjp(op: ir.Operation, active: set[ir.Value], cts: Sequence[MaybeZero]) -> Pulled:
    """The cotangents l of b, from A^T l = c, and those of the values that A captures: the pullback of -l through A x.

    `cts` are the cotangents c of the solution x, and `active` are the differentiated values.
    """
    if not op.attributes["transposable"].value:
        raise missing_rule(op, "vjp", "it has no solver of the transposed system", _TRANSPOSED)
    xs, matvec = [wrap(r) for r in op.results], _emit_region_of(op, MATVEC)
    seeds = [materialize(ct, x) for ct, x in zip(cts, xs, strict=True)]

    def vecmat(cts: list[Tensor]) -> list[Tensor]:
        """The products of the transpose of A with vectors, with zeros for structural zeros."""
        products = transposed("the transpose of a linear solve", matvec, cts, cts)
        return [materialize(x, like) for x, like in zip(products, cts, strict=True)]

    # In the transposed system, the solvers of the system and of its transpose exchange their roles.
    multipliers = _emit(
        op.attributes["transposable"], seeds, vecmat, _emit_region_of(op, TRANSPOSE_SOLVE), _emit_region_of(op, SOLVE)
    )
    result: Cotangents = {}
    for b, ct in zip(op.operands, multipliers, strict=True):
        accumulate(result, b, ct, active)
    captures = [v for v in captures_of(op) if v in active]
    outs, new_ops = recorded(lambda: matvec(xs))
    varying = active_values(new_ops, captures)
    cotangents: Cotangents = {}
    for ax, ct in zip(outs, multipliers, strict=True):
        accumulate(cotangents, ax.value, negate(ct), varying)
    pull_back(new_ops, varying, cotangents)
    for v in captures:
        accumulate(result, v, cotangents.get(v, ZERO), active)
    return Pulled(result)


def _batch(op: ir.Operation, batch: Batch) -> None:
    """Emits one solve for all entries of the map `batch`; right-hand sides and solutions carry its axis."""
    b = [with_axis(batch, v) for v in op.operands]
    results = [prefixed_type(r.type, batch.size) for r in op.results]
    new = _create_solve(op.attributes["transposable"], [x.value for x in b], results)
    every = [True] * len(b)
    for old_region, new_region in zip(op.regions, new.regions, strict=True):
        batched_region(old_region, new_region, every, every, batch)
    for old, r in zip(op.results, new.results, strict=True):
        batch.bind(old, wrap(r))


linear_solve: OpDef = control(
    LinearSolveOp.name, "The solution of a linear system, differentiated implicitly.", ControlRules(_jvp, _vjp, _batch)
)
