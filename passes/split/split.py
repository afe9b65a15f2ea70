"""Partial evaluation: divides a function into the part that some arguments determine, and the rest."""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects.ad import STOP_GRADIENT
from nabla_mlir.dialects.locations import named, source_of
from nabla_mlir.dialects.regions import functions_of, is_private, nested
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.elementwise import add
from nabla_mlir.ops.logic import compare
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.expand import EXPANSIONS, ExpandPass
from nabla_mlir.passes.inline_calls import InlineCallsPass
from nabla_mlir.passes.remove_stop_gradient import RemoveStopGradientPass
from nabla_mlir.passes.simplify.simplify import SimplifyPass, merge_duplicates, simplify_block
from nabla_mlir.passes.split.factor import factor
from nabla_mlir.passes.split.packing import Mapping, Packing, inside, packings_of
from nabla_mlir.passes.split.residuals import Choice, Division, Loop, Residuals, choose, divide, needed_by, only_reads, priced
from nabla_mlir.rules.tapes import INDEX, count_at, read_row, write_row
from nabla_mlir.table.regions import body_of, emit_case, emit_while
from nabla_mlir.table.registry import clone_op
from nabla_mlir.table.tensor import Tensor, full, wrap


@dataclass(frozen=True)
class Split:
    """The result of `split_function`.

    Attributes:
      known: ``(known arguments) -> (known results, residuals)``.
      rest: ``(residuals, the other arguments) -> the other results``.
      early: the indices of the results of the known half.
      late: the indices of the other results.
      nbytes: the bytes of the residuals.
    """

    known: ir.Operation
    rest: ir.Operation
    early: tuple[int, ...]
    late: tuple[int, ...]
    nbytes: int


def split_function(
    func: ir.Operation, known: Sequence[int], max_residual_bytes: int | None = None, collect_factors: bool = True
) -> Split:
    """Divides a function of plain StableHLO into two that are inserted after it in the module; it then calls them.

    Args:
      func: a `func.func` without calls and without operations of `ad` and `batch`.
      known: the indices of the known arguments.
      max_residual_bytes: what the residuals may take; without a limit nothing that the known arguments decide is
        computed in the rest, but for constants, views and reads of tapes.
      collect_factors: multiply known factors of unknown values with each other first, unless the residuals grow.

    Raises:
      PassError: the residuals cannot be made as small as that.
    """
    source = _copy(func)  # also lives in the module, until the halves are made
    if collect_factors:
        _collect_factors(source, known)
        if _state_bytes(source, known) > _state_bytes(func, known):  # a factor that several products shared is now in each of them
            source.erase()
            source = _copy(func)
    split = _split_copy(source, known, max_residual_bytes, func)
    source.erase()
    return split


def _copy(func: ir.Operation) -> ir.Operation:
    """A copy of the function, next to it in its module, in which equal operations are merged."""
    with ir.InsertionPoint.after(func):
        copy = func.clone().operation
    merge_duplicates(copy.regions[0].blocks[0])  # two equal values would be stored twice
    return copy


def _unknown(func: ir.Operation, known: Sequence[int]) -> list[ir.Value]:
    """The arguments of the function whose indices are not in `known`."""
    return [a for i, a in enumerate(func.regions[0].blocks[0].arguments) if i not in set(known)]


def _operations(func: ir.Operation) -> list[ir.Operation]:
    """The operations of the body of a function, without the terminator."""
    return [op.operation for op in func.regions[0].blocks[0].operations][:-1]


def _collect_factors(func: ir.Operation, known: Sequence[int]) -> None:
    """Rewrites a function: multiplies the known factors of unknown values; `known` has the indices of the known arguments."""
    block = func.regions[0].blocks[0]
    factor(block, divide(_operations(func), _unknown(func, known)))
    simplify_block(block)


def _state_bytes(func: ir.Operation, known: Sequence[int]) -> int:
    """The bytes of the residuals, if only free operations are recomputed; `known` has the indices of the known arguments."""
    division = divide(_operations(func), _unknown(func, known))
    return choose(needed_by(_operations(func), division), division, only_reads(division)).nbytes


def _split_copy(source: ir.Operation, known: Sequence[int], max_residual_bytes: int | None, func: ir.Operation) -> Split:
    """The two halves of `func`, made from its copy `source`; the body of `func` becomes calls of them.

    If the residuals exceed the limit, loops and selections stay whole, because their tapes may be too large.
    """
    block = source.regions[0].blocks[0]
    arguments, unknown = list(block.arguments), _unknown(source, known)
    *ops, terminator = (op.operation for op in block.operations)
    outs = list(terminator.operands)
    division = divide(ops, unknown)
    residuals = _residuals(ops, division, max_residual_bytes)
    if residuals is None:  # perhaps the tapes are too large
        division = divide(ops, unknown, regions=False)
        residuals = _residuals(ops, division, max_residual_bytes)
    if residuals is None:
        least = choose(needed_by(ops, division), division, priced(division, 0.0)).nbytes
        raise PassError(
            f"nabla-split requires max-residual-bytes of at least {least}, got {max_residual_bytes}.",
            where=source_of(func.location),
        )
    early = [i for i, v in enumerate(outs) if v not in division.unknown]
    late = [i for i, v in enumerate(outs) if v in division.unknown]
    packings = packings_of(residuals.stored, division)
    halves = _Halves(division, residuals, packings)
    name = func.attributes["sym_name"].value
    keys = [packing.key for packing in packings]

    def run_known(values: Sequence[ir.Value]) -> list[ir.Value]:  # the known results, and the residuals
        mapping = ChainMap(dict(zip([arguments[i] for i in known], values, strict=True)))
        halves.known(ops, mapping)
        return [mapping[v] for v in [*(outs[i] for i in early), *keys]]

    with func.location, ir.InsertionPoint.after(func):
        first = _function(f"{name}_known", [arguments[i].type for i in known], run_known)
    outputs = list(first.regions[0].blocks[0].operations)[-1].operation.operands
    types = [v.type for v in list(outputs)[len(early) :]]  # of the residuals: a tape has another type than its values

    def run_rest(values: Sequence[ir.Value]) -> list[ir.Value]:  # the other results, from the residuals and the unknown arguments
        mapping = ChainMap(dict(zip([*keys, *unknown], values, strict=True)))
        halves.rest(ops, mapping)
        return [mapping[outs[i]] for i in late]

    with func.location, ir.InsertionPoint.after(first):
        second = _function(f"{name}_rest", [*types, *(v.type for v in unknown)], run_rest)
    split = Split(first, second, tuple(early), tuple(late), residuals.nbytes)
    _compose(func, split, known)
    return split


def _residuals(ops: Sequence[ir.Operation], division: Division, limit: int | None) -> Residuals | None:
    """The residuals of at most `limit` bytes from which the rest is cheapest to compute; None if none are so small.

    Bisects for the smallest weight of recomputation: the lower the weight, the more is recomputed and the less is stored.
    """
    needed = needed_by(ops, division)
    best = choose(needed, division, only_reads(division))
    if limit is None or best.nbytes <= limit:
        return best
    residuals = choose(needed, division, priced(division, 0.0))
    if residuals.nbytes > limit:
        return None
    low, high = 0.0, 1024.0  # weights of recomputation: too low a weight, and one with which everything is stored
    for _ in range(24):
        middle = (low + high) / 2
        trial = choose(needed, division, priced(division, middle))
        if trial.nbytes <= limit:
            residuals, low = trial, middle
        else:
            high = middle
    return residuals


@dataclass(frozen=True)
class _Halves:
    """Emits the two halves of straight-line code, and adds each value of the code with its copy to a mapping."""

    division: Division
    residuals: Residuals
    packings: Sequence[Packing]

    def known(self, ops: Iterable[ir.Operation], mapping: Mapping) -> None:
        """Emits the known operations; stored values in regions are mapped to their tapes, or to results of their selections."""
        for op in ops:
            part = self.division.part(op)
            unknown = part.unknown if part else self.division.twice.get(op.results[0]) if len(op.results) else None
            if unknown is None and self.division.is_late(op):
                continue
            with named("split", op.location):
                if unknown is None:
                    clone_op(op, mapping)  # type: ignore[arg-type]  # any mutable mapping does
                elif op.name == "stablehlo.while":
                    self._known_loop(op, unknown, mapping)
                else:
                    self._known_choice(op, unknown, mapping)

    def rest(self, ops: Iterable[ir.Operation], mapping: Mapping) -> None:
        """Emits the unknown and the recomputed operations; `mapping` contains the stored values."""
        for op in ops:
            part = self.division.part(op)
            with named("split", op.location):
                if isinstance(part, Loop):
                    self._rest_loop(op, part, mapping)
                elif isinstance(part, Choice):
                    self._rest_choice(op, part, mapping)
                elif self.division.is_late(op) or any(r in self.residuals.recomputed for r in op.results):
                    clone_op(op, mapping)  # type: ignore[arg-type]

    def stored_in(self, op: ir.Operation) -> list[Packing]:
        """The packings that have values stored in the regions of the divided operation `op`."""
        return [packing for packing in self.packings if op.results[0] in packing.around]

    def empty(self, packing: Packing, op: ir.Operation) -> Tensor:
        """Zeros in the shape of a packing after a divided operation: a row for each iteration."""
        parts = [self.division.parts[o] for o in packing.around[packing.around.index(op.results[0]) :]]
        shape, dtype = shape_and_dtype(packing.key.type)
        rows = [p.counter.trips for p in parts if isinstance(p, Loop)]
        return full((*[len(packing.members)] * packing.axis, *rows, *shape), 0, dtype)

    def _known_loop(self, op: ir.Operation, unknown: Sequence[int], mapping: Mapping) -> None:
        """Emits the loop over the carries that are not `unknown`, which fills a tape for each stored value."""
        tests, test_ops, (predicate,) = body_of(op.regions[0])
        arguments, ops, outputs = body_of(op.regions[1])
        carries = [i for i in range(len(arguments)) if i not in unknown]
        packings, n = self.stored_in(op), len(carries)

        def condition(carry: list[Tensor]) -> Tensor:  # the condition of the loop, on the known carries
            inner = inside(mapping, [tests[i] for i in carries], carry[:n])
            for test in test_ops:
                clone_op(test, inner)  # type: ignore[arg-type]
            return wrap(inner[predicate])

        def body(carry: list[Tensor]) -> list[Tensor]:  # the next known carries, the next number of the row, the tapes
            inner = inside(mapping, [arguments[i] for i in carries], carry[:n])
            self.known(ops, inner)
            rows = []
            for tape, packing in zip(carry[n + 1 :], packings, strict=True):
                row = packing.packed(inner, op)
                assert row is not None
                rows.append(write_row(tape, row, carry[n], packing.axis))
            return [*(wrap(inner[outputs[i]]) for i in carries), add(carry[n], full((), 1, INDEX)), *rows]

        inits = [wrap(mapping[op.operands[i]]) for i in carries]
        tapes = [self.empty(packing, op) for packing in packings]
        results = emit_while([*inits, full((), 0, INDEX), *tapes], condition, body)
        mapping.update((op.results[i], r.value) for i, r in zip(carries, results[:n], strict=True))
        mapping.update((packing.key, r.value) for packing, r in zip(packings, results[n + 1 :], strict=True))

    def _rest_loop(self, op: ir.Operation, part: Loop, mapping: Mapping) -> None:
        """Emits the loop over the unknown carries, which reads the tapes; `mapping` gets its results."""
        arguments, ops, outputs = body_of(op.regions[1])
        counting, packings = arguments[part.counter.carry], self.stored_in(op)

        def condition(carry: list[Tensor]) -> Tensor:  # true while the counter is below the number of trips
            return compare(carry[0], full((), part.counter.trips, INDEX), comparison_direction="LT")

        def body(carry: list[Tensor]) -> list[Tensor]:  # the next counter and unknown carries, from row i of the tapes
            i = carry[0]
            inner = inside(mapping, [arguments[k] for k in part.unknown], carry[1:])
            inner[counting] = count_at(i, part.counter, wrap(counting).dtype).value
            for packing in packings:
                inner.update(packing.unpacked(read_row(wrap(mapping[packing.key]), i, packing.axis), op))
            self.rest(ops, inner)
            return [add(i, full((), 1, INDEX)), *(wrap(inner[outputs[k]]) for k in part.unknown)]

        inits = [wrap(mapping[op.operands[k]]) for k in part.unknown]
        results = emit_while([full((), 0, INDEX), *inits], condition, body)[1:]
        mapping.update((op.results[k], r.value) for k, r in zip(part.unknown, results, strict=True))

    def _known_choice(self, op: ir.Operation, unknown: Sequence[int], mapping: Mapping) -> None:
        """Emits the selection of the known results and of each stored value; a branch without a value returns zeros."""
        early = [i for i in range(len(op.results)) if i not in unknown]
        packings = self.stored_in(op)
        if not early and not packings:
            return

        def branch(region: ir.Region) -> list[Tensor]:  # the known results of a branch, and its stored values
            _, ops, outputs = body_of(region)
            inner = inside(mapping)
            self.known(ops, inner)
            parts = ((packing, packing.packed(inner, op)) for packing in packings)
            values = [self.empty(packing, op) if x is None else x for packing, x in parts]
            return [*(wrap(inner[outputs[i]]) for i in early), *values]

        index = wrap(mapping[op.operands[0]])
        results = emit_case(index, [functools.partial(branch, region) for region in op.regions])
        values = [*(op.results[i] for i in early), *(packing.key for packing in packings)]
        mapping.update((v, r.value) for v, r in zip(values, results, strict=True))

    def _rest_choice(self, op: ir.Operation, part: Choice, mapping: Mapping) -> None:
        """Emits the selection of the unknown results; `mapping` gets them."""

        def branch(region: ir.Region) -> list[Tensor]:  # the unknown results of a branch, from stored values
            _, ops, outputs = body_of(region)
            inner = inside(mapping)
            for packing in self.stored_in(op):
                inner.update(packing.unpacked(wrap(mapping[packing.key]), op))
            self.rest(ops, inner)
            return [wrap(inner[outputs[i]]) for i in part.unknown]

        index = wrap(mapping[op.operands[0]])
        results = emit_case(index, [functools.partial(branch, region) for region in op.regions])
        mapping.update((op.results[i], r.value) for i, r in zip(part.unknown, results, strict=True))


def _function(name: str, inputs: Sequence[ir.Type], make: Callable[[Sequence[ir.Value]], Sequence[ir.Value]]) -> ir.Operation:
    """A new function `name` at the insertion point, whose results `make` computes from its arguments of the types `inputs`."""
    func = ir.Operation.create(
        "func.func", attributes={"sym_name": ir.StringAttr.get(name), "function_type": _function_type(inputs, [])}, regions=1
    )
    block = ir.Block.create_at_start(func.regions[0], list(inputs), [ir.Location.unknown()] * len(inputs))
    with ir.InsertionPoint(block):
        outs = make(list(block.arguments))
        ir.Operation.create("func.return", operands=list(outs))
    func.attributes["function_type"] = _function_type(inputs, [v.type for v in outs])
    merge_duplicates(block)  # before simplifying: the counter of the rows may equal a carry of the loop
    simplify_block(block)
    return func


def _function_type(inputs: Sequence[ir.Type], results: Sequence[ir.Type]) -> ir.Attribute:
    return ir.TypeAttr.get(ir.FunctionType.get(list(inputs), list(results)))


def _compose(func: ir.Operation, split: Split, known: Sequence[int]) -> None:
    """Replaces the body of `func` by calls of the two halves in `split`; `known` has the indices of the known arguments."""
    block, unknown = func.regions[0].blocks[0], _unknown(func, known)
    for op in reversed([o.operation for o in block.operations]):
        op.erase()
    with func.location, ir.InsertionPoint(block):
        first = _call(split.known, [block.arguments[i] for i in known])
        count = len(split.early)
        second = _call(split.rest, [*first[count:], *unknown])
        outs = dict(zip([*split.early, *split.late], [*first[:count], *second], strict=True))
        ir.Operation.create("func.return", operands=[outs[i] for i in range(len(outs))])


def _call(func: ir.Operation, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """The results of a call of a function with these arguments, at the insertion point."""
    results = ir.FunctionType(ir.TypeAttr(func.attributes["function_type"]).value).results
    callee = ir.FlatSymbolRefAttr.get(func.attributes["sym_name"].value)
    call = ir.Operation.create("func.call", operands=list(arguments), results=list(results), attributes={"callee": callee})
    return list(call.results)


@register
@dataclass(frozen=True)
class SplitPass(Pass):
    """Divide a function into the part that its known arguments determine, and the rest (partial evaluation).

    `@f` becomes ``@f_known(known) -> (known results, residuals)`` and ``@f_rest(residuals, others) -> (other results)``, and
    calls both. For `jvp(grad f)(x; v)` with known x, the rest is the linear map of v. The rest computes nothing that the known
    arguments determine, except constants, views and reads of tapes. A loop of known length is divided into one that fills tapes
    and one that reads them, and a selection by a known predicate into two selections. Transforms are expanded and calls inlined
    first.

    Example: tests/filecheck/passes/split.mlir
    """

    name: ClassVar[str] = "nabla-split"
    known: tuple[int, ...] = ()  # indices of the known arguments
    function: str = ""  # the function to divide; the only public one if not given
    collect_factors: bool = True  # multiply known factors with each other first: fewer residuals, other rounding
    max_residual_bytes: int = -1  # recompute in the rest what exceeds this size; -1 for no limit

    def run(self, module: ir.Operation) -> None:
        """Splits the chosen function of the module in place, after calls and transforms are expanded."""
        names = {op.name for op in nested(module)}
        if "func.call" in names:
            InlineCallsPass().run(module)
        if names & {*EXPANSIONS, STOP_GRADIENT}:
            for step in (ExpandPass(), RemoveStopGradientPass(), SimplifyPass()):
                step.run(module)
        func = self._chosen_function(module)
        arguments = len(func.regions[0].blocks[0].arguments)
        if not all(0 <= i < arguments for i in self.known):
            raise PassError(
                f"{self.name} requires known arguments among the {arguments} of the function, got {list(self.known)}.",
                where=source_of(func.location),
            )
        limit = None if self.max_residual_bytes < 0 else self.max_residual_bytes
        split_function(func, self.known, limit, self.collect_factors)

    def _chosen_function(self, module: ir.Operation) -> ir.Operation:
        """The function to divide: the public one with the name in the option, or else the only public one."""
        public = {name: f for name, f in functions_of(module).items() if not is_private(f)}
        if self.function in public:
            return public[self.function]
        if self.function or len(public) != 1:
            raise PassError(f"{self.name} requires the name of one public function, got {self.function!r} among {sorted(public)}.")
        return next(iter(public.values()))
