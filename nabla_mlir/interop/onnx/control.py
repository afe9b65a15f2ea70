"""Control flow of ONNX, and its sequences and optional values, which are lists and None while a program is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.interop.onnx.reductions import numbers
from nabla_mlir.interop.onnx.shapes import parts_of
from nabla_mlir.interop.onnx.table import NeedsValue, Refusal, define, operator
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms import vmap
from nabla_mlir.transforms.control import cond, while_loop
from nabla_mlir.transforms.scans import scan

UNROLLED = 16  # loops with at most this many iterations are unrolled, so that shapes may differ between iterations

# ---------------------------------------------------------------- branches and loops


@operator("If", is_raw=True)
def _if(test: Any, then_branch: Any = None, else_branch: Any = None) -> Any:
    """The results of the branch that `test` selects; both branches, functions, are in the program if `test` is not known."""
    if isinstance(test, np.ndarray):
        return tuple((then_branch if test.item() else else_branch)())

    def arrays(branch: Any) -> tuple[Tensor, ...]:
        """The results of a branch as tensors; raises NeedsValue if one is a sequence or an optional value, which requires a known
        condition.
        """
        values = branch()
        if not _are_arrays(values):
            raise NeedsValue(0)
        return _tensors(values)

    return cond(test.reshape(()), lambda: arrays(then_branch), lambda: arrays(else_branch))


def _are_arrays(values: Sequence[Any]) -> bool:
    return not any(x is None or isinstance(x, list) for x in values)


def _tensors(values: Sequence[Any]) -> tuple[Tensor, ...]:
    return tuple(map(nnp.asarray, values))


@operator("Loop", is_raw=True)
def _loop(limit: Any, test: Any, *begin: Any, body: Any) -> Any:
    """The final values of a loop that starts with the values `begin`, then the rows that it collects; `body` is one iteration.

    It is unrolled, a scan or a `while` loop: this depends on what is known of the number of iterations `limit` and of the condition
    `test`.
    """
    is_bounded, is_endless = isinstance(limit, np.ndarray), limit is None
    if (test is None or isinstance(test, np.ndarray)) and (is_bounded or is_endless):
        count = limit.item() if is_bounded else None
        if count is not None and count > UNROLLED and _keeps_condition(body) and _are_arrays(begin):
            return _counted(count if test is None or test.item() else 0, begin, body)
        return _unrolled(count, True if test is None else bool(test.item()), begin, body)
    return _while(limit, test, begin, body)


def _keeps_condition(body: Any) -> bool:
    """True if the body of a loop returns its condition unchanged."""
    name, sources = body.graph.output[0].name, {x: node for node in body.graph.node for x in node.output}
    while name in sources and sources[name].op_type == "Identity":
        name = sources[name].input[0]
    return name == body.names[1]


def _unrolled(count: int | None, test: bool, begin: Sequence[Any], body: Any) -> tuple[Any, ...]:
    """The final values and the collected rows of a loop whose iterations are written one after the other.

    `count` is their number (None for no limit), `test` the first condition, `begin` the first values, and `body` one iteration.
    From the first iteration with a computed condition, the loop is a `while` loop instead. Raises Refusal if such a loop collects
    rows, or if no iteration collects a row.
    """
    rows: list[Any] = []
    carry, iteration = list(begin), 0
    while test and (count is None or iteration < count):
        after, *outputs = body(np.array(iteration, np.int64), np.array(test), *carry)
        if not isinstance(after, np.ndarray):
            if rows or len(outputs) > len(begin):
                raise Refusal(
                    "a condition that is known in each iteration, because the loop collects a row in each", "a computed condition"
                )
            return _while(None if count is None else np.array(count), np.array(True), begin, body)
        carry, test, iteration = outputs[: len(begin)], bool(after.item()), iteration + 1
        rows.append(outputs[len(begin) :])
    if not rows and len(body.graph.output) > 1 + len(begin):
        raise Refusal("at least one iteration, because the loop collects a row in each", "none")
    return *carry, *(nnp.stack([nnp.asarray(x) for x in column]) for column in zip(*rows, strict=True))


def _counted(count: int, begin: Sequence[Any], body: Any) -> tuple[Any, ...]:
    """The final values and the collected rows of a loop with `count` iterations, as a scan that starts with the values `begin`."""

    def iteration(carry: Any, number: Any) -> Any:
        """The next values and the collected row of one iteration; its condition is known to be true."""
        _, *outputs = body(number, np.array(True), *carry)
        return _tensors(outputs[: len(begin)]), _tensors(outputs[len(begin) :])

    final, rows = scan(iteration, _tensors(begin), nnp.asarray(np.arange(count)))
    return *final, *rows


def _while(limit: Any, test: Any, begin: Sequence[Any], body: Any) -> tuple[Any, ...]:
    """The final values of a loop that runs while its body says so: ONNX's `Loop` with a computed condition.

    `limit` is the largest number of iterations, or None, `test` the first condition, and `begin` the first values. `body` maps the
    iteration, the condition and the values to the next condition and values. Raises NeedsValue if the loop collects rows, whose
    number is not known.
    """
    if len(body.graph.output) > 1 + len(begin) or not _are_arrays(begin):
        raise NeedsValue(*(i for i, x in enumerate((limit, test)) if x is not None and not isinstance(x, np.ndarray)))

    def goes_on(state: Any) -> Any:
        """True if the condition holds and the limit is not reached; the state is (iteration, condition, values)."""
        iteration, is_on, _ = state
        return is_on if limit is None else is_on & (iteration < nnp.asarray(limit).reshape(()))

    def iterated(state: Any) -> Any:
        """The state after one iteration."""
        iteration, is_on, carry = state
        after, *outputs = body(iteration, is_on, *carry)
        return iteration + 1, nnp.asarray(after).reshape(()), _tensors(outputs)

    is_on = nnp.asarray(np.array(True) if test is None else test).reshape(())
    return tuple(while_loop(goes_on, iterated, (nnp.asarray(np.array(0, np.int64)), is_on, _tensors(begin)))[2])


@operator("Scan", since=9, is_raw=True)
def _scan(
    *inputs: Any,
    body: Any,
    num_scan_inputs: int,
    scan_input_axes: Any = None,
    scan_input_directions: Any = None,
    scan_output_axes: Any = None,
    scan_output_directions: Any = None,
) -> tuple[Any, ...]:
    """The final states and the collected rows of ONNX's `Scan`; the last `num_scan_inputs` of `inputs` have the rows, the others
    are the first states.

    `body` maps states and rows to new states and rows. The other parameters have the axis of the rows of each array, and 1 if they
    are read or collected in reverse.
    """
    states = len(inputs) - num_scan_inputs
    begin, columns = _tensors(inputs[:states]), list(_tensors(inputs[states:]))
    count = len(body.graph.output) - states
    for i, (axis, is_back) in enumerate(
        zip(scan_input_axes or [0] * len(columns), scan_input_directions or [0] * len(columns), strict=True)
    ):
        column = nnp.moveaxis(columns[i], axis, 0)
        columns[i] = nnp.flip(column, 0) if is_back else column

    def iteration(carry: Any, rows: Any) -> Any:
        """The new states, and the rows that this iteration adds to the results."""
        outputs = _tensors(body(*carry, *rows))
        return outputs[:states], outputs[states:]

    final, results = scan(iteration, begin, tuple(columns))
    ends = zip(results, scan_output_axes or [0] * count, scan_output_directions or [0] * count, strict=True)
    return *final, *(nnp.moveaxis(nnp.flip(y, 0) if is_back else y, 0, axis) for y, axis, is_back in ends)


@operator("Scan", since=8, is_raw=True)
def _scan_of_batch(lengths: Any, *inputs: Any, body: Any, num_scan_inputs: int, directions: Any = None) -> Any:
    """The results of opset 8's scan over a batch of sequences of one length; raises Refusal for `lengths` other than None.

    The other parameters are as for the scan of later opsets, which is mapped over the batch.
    """
    if lengths is not None:
        raise Refusal("sequences of one length", "sequence_lens")
    return vmap(lambda *xs: _scan(*xs, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions))(
        *_tensors(inputs)
    )


# ---------------------------------------------------------------- sequences

define("SequenceConstruct", lambda *xs: list(xs), is_raw=True, is_folded=False)
define("SequenceEmpty", lambda dtype=1: [], is_raw=True, is_folded=False)
define("SequenceLength", lambda xs: np.array(len(xs), np.int64), is_raw=True, is_folded=False)
define("SequenceAt", lambda xs, position: xs[_index(position)], static=("position",), is_raw=True, is_folded=False)


def _index(position: np.ndarray) -> int:
    return int(position.item())


@operator("SequenceInsert", static=("position",), is_raw=True, is_folded=False)
def _sequence_insert(xs: list[Any], x: Any, position: Any = None) -> list[Any]:
    """The list `xs` with `x` inserted before `position`; at the end by default."""
    index = len(xs) if position is None else _index(position)
    index = index + len(xs) if index < 0 else index
    return [*xs[:index], x, *xs[index:]]


@operator("SequenceErase", static=("position",), is_raw=True, is_folded=False)
def _sequence_erase(xs: list[Any], position: Any = None) -> list[Any]:
    """The list `xs` without the element at `position`, by default the last one."""
    index = (-1 if position is None else _index(position)) % len(xs)
    return [*xs[:index], *xs[index + 1 :]]


@operator("SplitToSequence", static=("split",), is_folded=False)
def _split_to_sequence(x: Tensor, split: Any = None, axis: int = 0, keepdims: int = 1) -> list[Any]:
    """The list of the parts of x along an axis: parts of length 1, of one length, or of the lengths in `split`."""
    n = x.shape[axis]
    if split is None:
        parts = parts_of(x, [1] * n, axis)
        return list(parts) if keepdims else [nnp.squeeze(part, axis) for part in parts]
    lengths = numbers(split)
    if not split.ndim:
        (size,) = lengths
        lengths = tuple(min(size, n - i) for i in range(0, n, size))
    return list(parts_of(x, lengths, axis))


@operator("ConcatFromSequence", is_raw=True, is_folded=False)
def _concat_from_sequence(xs: list[Any], axis: int = 0, new_axis: int = 0) -> Tensor:
    return (nnp.stack if new_axis else nnp.concatenate)([nnp.asarray(x) for x in xs], axis)


# ---------------------------------------------------------------- optional values


@operator("Optional", is_raw=True, is_folded=False)
def _optional(x: Any = None, type: Any = None) -> Any:
    return x


@operator("OptionalHasElement", is_raw=True, is_folded=False)
def _optional_has_element(x: Any = None) -> np.ndarray:
    return np.array(x is not None)


@operator("OptionalGetElement", is_raw=True, is_folded=False)
def _optional_get_element(x: Any) -> Any:
    """The value `x` itself; raises Refusal if it is None, an optional value that is absent."""
    if x is None:
        raise Refusal("a value", "none")
    return x
