"""Taylor mode: pushes truncated power series through operations, with the forward rules of their records.

A series computes a coefficient when it is first read. For a linear operation, coefficient k of the result comes from
coefficient k of the operands. For a product it is Cauchy's sum. For any other operation y = f(x) it follows from the
forward rule y' = jvp(f, x, y, x'): the operations of the rule are pushed through as well, and coefficient k + 1 of y
needs their coefficients up to k. Equal operations on equal series share one series. So the recursion ends for the sine,
whose rule needs the cosine, whose rule needs the sine. Order k costs k² products; k nested forward modes cost 2^k.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir.dialects.ad_rules import CUSTOM, CheckpointOp, LinearSolveOp
from nabla_mlir.dialects.regions import scratch_block
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.table.regions import body_of, captures_by_rule, decomposed, reads_of
from nabla_mlir.table.registry import OpDef, Region, clone_op, missing_rule, record_of
from nabla_mlir.table.rules import UNSUPPORTED, Zero, as_rule
from nabla_mlir.table.tensor import Tensor, full, wrap

_INLINED = (*CUSTOM, CheckpointOp.name)


class Series:
    """The coefficients of x(t) = x0 + x1 t + x2 t² + ..., computed in order by `rule`; None means zero."""

    def __init__(self, rule: Callable[[int], Tensor | None]):
        self._rule = rule
        self._known: list[Tensor | None] = []

    def at(self, k: int) -> Tensor | None:
        """Coefficient k of the series; None for zero."""
        while len(self._known) <= k:
            self._known.append(self._rule(len(self._known)))
        return self._known[k]

    @property
    def head(self) -> Tensor:
        """The first coefficient of the series: its value at t = 0."""
        value = self.at(0)
        assert value is not None
        return value


def polynomial(coefficients: Sequence[Tensor | None]) -> Series:
    """The series with these coefficients; all later ones are zero."""
    return Series(lambda k: coefficients[k] if k < len(coefficients) else None)


def _derivative(x: Series) -> Series:
    """The series of the derivative by t."""
    return Series(lambda k: _scale(x.at(k + 1), k + 1))


def _scale(x: Tensor | None, factor: float) -> Tensor | None:
    """A coefficient times a number; None for zero."""
    return x if x is None or factor == 1 else x * full(x.shape, factor, x.dtype)


def _add_parts(parts: Iterable[Tensor | None]) -> Tensor | None:
    """The sum of coefficients, in which None means zero; None if all are zero."""
    total: Tensor | None = None
    for part in parts:
        total = part if total is None else total if part is None else total + part
    return total


class Expansion:
    """The state of Taylor mode over operations.

    A value that varies with t has a series (`series`). Any other value has a constant at the insertion point (`constants`).
    """

    def __init__(self) -> None:
        self._found: dict[Any, list[Series]] = {}  # by operation, parameters and operands: the series of the results
        self.holders: list[ir.Operation] = []  # scratch operations with the code of rules, to be erased at the end

    def push(self, ops: Iterable[ir.Operation], series: dict[ir.Value, Series], constants: dict[ir.Value, ir.Value]) -> None:
        """Extends `series` and `constants` by the results of operations.

        `series` maps values that vary along the curve to their Taylor series; `constants` maps values of the original code to their
        copies. `ops` are operations in the order in which they run.
        """
        for op in ops:
            if op.name in _INLINED and any(v in series for v in reads_of(op)):
                self._inline(op, 0, list(op.operands), series, constants)
            elif not any(v in series for v in reads_of(op)):
                clone_op(op, constants)
            elif op.name == "stablehlo.while":
                self._unroll(op, series, constants)
            elif op.name == LinearSolveOp.name:
                self._solve(op, series, constants)
            else:
                self._push(op, series, constants)

    def _push(self, op: ir.Operation, series: dict[ir.Value, Series], constants: dict[ir.Value, ir.Value]) -> None:
        """Extends `series` and `constants` by the results of one operation: by linearity, as a product, or by its forward rule."""
        record = record_of(op, "jet")
        if record.control is not None or isinstance(record.jvp, UNSUPPORTED):
            raise missing_rule(op, "jet", "it has no Taylor rule; loops need a constant number of steps")
        if any(v in series for v in captures_by_rule(op, record)):
            self._push_decomposition(op, record, series, constants)
            return
        params = record.read(op)
        for name in record.regions:
            if isinstance(params[name], Region):
                params[name].captures = constants
        operands: list[Series | Tensor] = [series[v] if v in series else wrap(constants.get(v, v)) for v in op.operands]
        values = [x.head if isinstance(x, Series) else x for x in operands]
        if isinstance(record.jvp, Zero):
            constants.update((r, y.value) for r, y in zip(op.results, record.apply(values, params), strict=True))
            return
        key = (
            op.name,
            str(op.attributes),
            tuple(str(r.type) for r in op.results),
            tuple(id(x) if isinstance(x, Series) else x.value for x in operands),
        )
        results_series = None if len(op.regions) else self._found.get(key)
        if results_series is None:
            results_series = self._found[key] = self._series(record, params, operands, values, len(op.results))
        series.update(zip(op.results, results_series, strict=True))

    def _push_decomposition(
        self, op: ir.Operation, record: OpDef, series: dict[ir.Value, Series], constants: dict[ir.Value, ir.Value]
    ) -> None:
        """Pushes an operation whose region captures a varying value through its decomposition into other operations.

        `series` and `constants` are as in `push`. `record` is the operation's entry in the table of operations.
        """
        block = scratch_block()
        self.holders.append(block.owner.operation)
        with ir.InsertionPoint(block):
            outputs = [y.value for y in decomposed(op, record, "jet")]
        self.push([inner.operation for inner in block.operations], series, constants)
        for result, y in zip(op.results, outputs, strict=True):
            if y in series:
                series[result] = series[y]
            else:
                constants[result] = constants.get(y, y)

    def _series(
        self, record: OpDef, params: Any, operands: list[Series | Tensor], values: list[Tensor], count: int
    ) -> list[Series]:
        """The series of the results: by a formula for linear operations and products of two varying operands, else by the forward
        rule.

        `operands` are series where they vary, `values` are their values at t = 0, and `count` is the number of results. `record` is
        the operation's entry in the table of operations.
        """
        varying = [i for i, x in enumerate(operands) if isinstance(x, Series)]
        linear = record.linear_operands(values, params)
        if set(varying) <= set(linear):
            if len(varying) == 1 or record.joint:
                return self._linear(record, params, operands, linear, count)
            if len(varying) == 2 and count == 1:
                return [self._product(record, params, operands, varying)]
        return self._by_rule(record, params, operands, values, varying, count)

    def _linear(
        self, record: OpDef, params: Any, operands: list[Series | Tensor], linear: Sequence[int], count: int
    ) -> list[Series]:
        """The series of the `count` results of an operation that is linear in the operands `linear`: it is applied to each
        coefficient.

        `record` is its entry in the table, and `params` are its parameters.
        """

        def all_of(k: int) -> list[Tensor | None]:
            """Coefficient k of all results of a linear operation: the operation on coefficient k of its linear operands."""
            # In a linear map of several operands, such as a sum, a constant operand has only the coefficient 0.
            xs: list[Tensor | None] = [
                x.at(k) if isinstance(x, Series) else x if k == 0 or i not in linear or not record.joint else None
                for i, x in enumerate(operands)
            ]
            if all(xs[i] is None for i, x in enumerate(operands) if isinstance(x, Series)):
                return [None] * count
            likes = [x.head if isinstance(x, Series) else x for x in operands]
            terms = [full(like.shape, 0, like.dtype) if x is None else x for x, like in zip(xs, likes, strict=True)]
            return list(record.apply(terms, params))

        return _series_of_results(all_of, count)

    def _product(self, record: OpDef, params: Any, operands: list[Series | Tensor], varying: Sequence[int]) -> Series:
        """The series of a product of the two operands with the indices `varying`: coefficient k is the sum of x_n y_(k-n) over n.

        `record` is the operation's entry in the table, and `operands` are series where they vary.
        """
        i, j = varying
        x, y = operands[i], operands[j]
        assert isinstance(x, Series)
        assert isinstance(y, Series)

        def term(a: Tensor | None, b: Tensor | None) -> Tensor | None:
            """The product with `a` and `b` in place of the two varying operands; None if one of them is zero."""
            if a is None or b is None:
                return None
            whole: Any = list(operands)
            whole[i], whole[j] = a, b
            return record.apply(whole, params)[0]

        return Series(lambda k: _add_parts(term(x.at(n), y.at(k - n)) for n in range(k + 1)))

    def _by_rule(
        self, record: OpDef, params: Any, operands: list[Series | Tensor], values: list[Tensor], varying: Sequence[int], count: int
    ) -> list[Series]:
        """The series of the results y by their forward rule: coefficient k is coefficient k - 1 of y', divided by k.

        `values` are the operands at t = 0, `varying` are the indices of those that vary, and `count` is the number of results.
        `record` is the operation's entry in the table of operations.
        """
        heads = record.apply(values, params)
        slopes: list[Series | None] = []

        def coefficient(n: int, k: int) -> Tensor | None:
            """Coefficient `k` of result `n`; None for zero."""
            if k == 0:
                return heads[n]
            if not slopes:
                slopes.extend(self._slopes(record, params, operands, heads, outs, varying))
            slope = slopes[n]
            return None if slope is None else _scale(slope.at(k - 1), 1 / k)

        outs = [Series(functools.partial(coefficient, n)) for n in range(count)]
        return outs

    def _slopes(
        self,
        record: OpDef,
        params: Any,
        operands: list[Series | Tensor],
        heads: list[Tensor],
        outs: list[Series],
        varying: Sequence[int],
    ) -> list[Series | None]:
        """The series of the derivatives of the results by t; None for zero.

        Pushes the operations of the forward rule, on the derivatives of the operands. `heads` are the results at t = 0, `outs` are
        their series, and `varying` are the indices of the operands that vary. `record` is the operation's entry in the table of
        operations.
        """
        xs = [x for x in operands if isinstance(x, Series)]
        types = [y.value.type for y in heads] + 2 * [x.head.value.type for x in xs]
        block = scratch_block(types)
        self.holders.append(block.owner.operation)
        arguments = list(block.arguments)
        ys, ins, tangents = arguments[: len(heads)], arguments[len(heads) : len(heads) + len(xs)], arguments[len(heads) + len(xs) :]
        series = dict(zip(arguments, [*outs, *xs, *(_derivative(x) for x in xs)], strict=True))
        with ir.InsertionPoint(block):
            inner: Any = list(operands)
            seeds: list[Any] = [Zero()] * len(operands)
            for i, x, t in zip(varying, ins, tangents, strict=True):
                inner[i], seeds[i] = wrap(x), wrap(t)
            values = [wrap(y) for y in ys] if record.augmented is None else record.augmented(inner, **params)
            results = as_rule(record.jvp)(values, inner, seeds, **params)
        constants: dict[ir.Value, ir.Value] = {}
        self.push([op.operation for op in block.operations], series, constants)

        def slope(result: Any) -> Series | None:
            """The Taylor series of one derivative `result` that the rule has given; None for zero."""
            if isinstance(result, Zero):
                return None
            return series.get(result.value) or polynomial([wrap(constants.get(result.value, result.value))])

        return [slope(result) for result in results]

    def _inline(
        self,
        op: ir.Operation,
        region: int,
        operands: Sequence[ir.Value],
        series: dict[ir.Value, Series],
        constants: dict[ir.Value, ir.Value],
    ) -> None:
        """Pushes the operations of region number `region` of an operation, as if the operation were replaced by its region.

        The arguments of the region get the series of `operands`, and the results of the operation those of the region's results;
        both are added to `series` (for values that vary) or `constants` (for others).
        """
        arguments, ops, outputs = body_of(op.regions[region])
        self._bind(arguments, operands, series, constants)
        self.push(ops, series, constants)
        self._bind(list(op.results), outputs, series, constants)

    def _unroll(self, op: ir.Operation, series: dict[ir.Value, Series], constants: dict[ir.Value, ir.Value]) -> None:
        """Pushes a loop with a constant number of iterations through its body, once per iteration; extends `series` and
        `constants`.
        """
        counter = find_counter(op)
        if counter is None:
            raise missing_rule(op, "jet", "the number of its steps is not known")
        arguments, ops, outputs = body_of(op.regions[1])
        carry: Sequence[ir.Value] = list(op.operands)
        for _ in range(counter.trips):
            inner, inner_constants = dict(series), dict(constants)
            self._bind(arguments, carry, inner, inner_constants)
            self.push(ops, inner, inner_constants)
            # After each iteration, the results of the loop stand for the values that the iteration returns.
            self._bind(list(op.results), outputs, inner, inner_constants)
            series.update((r, inner[r]) for r in op.results if r in inner)
            for r in op.results:
                if r not in inner:
                    series.pop(r, None)
                    constants[r] = inner_constants[r]
            carry = list(op.results)
        if not counter.trips:
            self._bind(list(op.results), carry, series, constants)

    def _solve(self, op: ir.Operation, series: dict[ir.Value, Series], constants: dict[ir.Value, ir.Value]) -> None:
        """Adds the series of the solution of A(t) x(t) = b(t) to `series`, each coefficient with the solver of the first one, x0.

        A0 x_k = b_k - (A(t) (x0 + ... + x_(k-1) t^(k-1)))_k. `constants` maps values of the original code to their copies.
        """
        count = len(op.results)
        parameters, ops, outputs = body_of(op.regions[LinearSolveOp.region_names.index("matvec")])
        reads = {v: series[v].head.value for v in reads_of(op) if v in series}
        outer, series, constants = series, dict(series), {**constants, **reads}
        known: list[list[Tensor | None]] = []

        def all_of(k: int) -> list[Tensor | None]:
            """Coefficient k of the solution: the solution for b_k minus what A(t) makes of the coefficients before."""
            right = [series[v].at(k) if v in series else wrap(constants.get(v, v)) if k == 0 else None for v in op.operands]
            if k:
                inner, inner_constants = dict(series), dict(constants)
                inner.update((p, polynomial([row[i] for row in known])) for i, p in enumerate(parameters))
                self.push(ops, inner, inner_constants)
                before = [inner[v].at(k) if v in inner else None for v in outputs]
                right = [_add_parts([b, _scale(a, -1)]) for b, a in zip(right, before, strict=True)]
            mapping = dict(constants)
            for v, b, r in zip(op.operands, right, op.results, strict=True):
                shape, dtype = shape_and_dtype(r.type)
                mapping[v] = (full(shape, 0, dtype) if b is None else b).value
            known.append([wrap(r) for r in clone_op(op, mapping).results])
            return known[k]

        outer.update(zip(op.results, _series_of_results(all_of, count), strict=True))

    @staticmethod
    def _bind(
        names: Sequence[ir.Value], values: Sequence[ir.Value], series: dict[ir.Value, Series], constants: dict[ir.Value, ir.Value]
    ) -> None:
        """Gives each of `names` the series or constant of its value in `values`, as a call binds parameters to arguments."""
        found = [(series.get(v), constants.get(v, v)) for v in values]
        for name, (varying, value) in zip(names, found, strict=True):
            if varying is None:
                series.pop(name, None)
                constants[name] = value
            else:
                series[name] = varying


def _series_of_results(all_of: Callable[[int], list[Tensor | None]], count: int) -> list[Series]:
    """One series for each of `count` results; `all_of` computes coefficient k of all results at once, and None means zero."""
    rows: dict[int, list[Tensor | None]] = {}

    def part(n: int, k: int) -> Tensor | None:
        """Coefficient `k` of result `n`; all results are computed when the first one is needed."""
        if k not in rows:
            rows[k] = all_of(k)
        return rows[k][n]

    return [Series(functools.partial(part, n)) for n in range(count)]
