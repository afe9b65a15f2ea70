"""Control flow in the IR: cond, switch, while_loop, fori_loop (scan, map: `nabla_mlir.transforms.scans`).

The signatures are JAX's. A loop remains one loop through every transform. Python's own `if` and `while` on traced values
are errors whose messages name these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, ShapeError, TreeError, check_function, user_frame
from nabla_mlir.base.typing import ArrayLike, PyTree
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.stablehlo import I64
from nabla_mlir.dialects.types import is_complex, is_float, is_integer
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import results_of, trace_region
from nabla_mlir.table.promotion import Defaults, as_tensor, is_scalar, promote_dtypes
from nabla_mlir.table.regions import MAX_RESIDUAL_BYTES
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.transforms.arguments import specs_of
from nabla_mlir.transforms.vectorized import per_vectorized_entry

INDEX = np.dtype(np.int32)
_ABSENT: Any = ...  # which help() shows as Ellipsis


def _types(tensors: Sequence[Tensor]) -> list[ir.Type]:
    """The types of tensors in the IR."""
    return [t.value.type for t in tensors]


def describe(spec: pytree.TreeSpec, tensors: Sequence[Tensor]) -> str:
    """The text of a tree of tensors, for errors.

    `spec` is the structure of the tree, and `tensors` are its leaves. Example: {x: float32[2]}.
    """
    leaves = [str(Spec(t.shape, t.dtype)) for t in tensors]
    return str(pytree.unflatten(spec, leaves)).replace("'", "")


def _require_same(
    what: str, spec: pytree.TreeSpec, tensors: Sequence[Tensor], other: pytree.TreeSpec, got: Sequence[Tensor]
) -> None:
    """Raises TreeError unless two pytrees have the same structure, shapes and dtypes.

    Args:
      what: the values that must agree, for the error, such as "the carry of while_loop".
      spec, tensors: the structure and the leaves of the first pytree.
      other, got: the structure and the leaves of the second one.
    """
    if spec != other or _types(tensors) != _types(got):
        raise TreeError(
            f"{what} requires the same structure, shapes and dtypes, got {describe(other, got)} "
            f"instead of {describe(spec, tensors)}.",
            where=user_frame(),
            help=advice_for(tensors, got),
        )


def advice_for(tensors: Sequence[Tensor], got: Sequence[Tensor]) -> str:
    """Advice for an error about tensors `got` whose types differ from those of `tensors`; names the default dtypes if they are the
    cause.
    """
    general = "convert with astype or reshape so that both agree."
    for word, default in (("float", Defaults.float), ("int", Defaults.int)):
        for pair in zip(tensors, got, strict=False):
            kinds, dtypes = {t.dtype.kind for t in pair}, {t.dtype for t in pair}
            if len(dtypes) == 2 and default in dtypes and kinds == {default.kind}:
                (other,) = dtypes - {default}
                return (
                    f"Python numbers and new arrays such as zeros are {default}, data of NumPy {other}: call "
                    f'nm.set_default_dtypes({word}="{other}") first, or {general}'
                )
    return general


# ---------------------------------------------------------------- choices


def cond(
    pred: ArrayLike, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: PyTree, operand: PyTree = _ABSENT
) -> PyTree:
    """The result of ``true_fun(*operands) if pred else false_fun(*operands)``; only the selected function runs.

    Args:
      pred: a scalar truth value (a number counts as true unless it is 0).
      true_fun, false_fun: functions of the operands with results of the same structure, shapes and dtypes.
      *operands: pytrees of arrays.
      operand: the only operand, in an older form of JAX; ``cond(pred, x, true_fun, y, false_fun)`` is an even older form.

    Under vmap with a mapped `pred` both run, and each entry selects its result.

    Raises:
      TreeError: the results of the branches have different types; both are shown.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 3.0))
      4.0
    """
    if not callable(true_fun) and len(operands) == 2 and callable(false_fun) and callable(operands[1]):
        (x, first), (y, second) = (true_fun, false_fun), operands
        return cond(pred, lambda x, y: first(x), lambda x, y: second(y), x, y)

    check_function("cond", true_fun)
    check_function("cond", false_fun)

    def run(pred: Any, *operands: Any) -> Any:
        """The result of the branch that the scalar `pred` chooses; a number other than 0 is true."""
        test = _scalar("cond", pred)
        if test.dtype.kind != "b":
            test = lg.compare(test, full((), 0, test.dtype), comparison_direction="NE")
        return _emit_choice("stablehlo.if", test, (true_fun, false_fun), operands, "cond")

    return staged(per_vectorized_entry(run))(pred, *(operands if operand is _ABSENT else (operand,)))


def switch(index: ArrayLike, branches: Sequence[Callable[..., Any]], *operands: PyTree, operand: PyTree = _ABSENT) -> PyTree:
    """The result of ``branches[index](*operands)``. The index is clamped to the range of the branches.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.switch(7, [lambda x: x, lambda x: x * 10.0], 3.0))
      30.0
    """

    def run(index: Any, *operands: Any) -> Any:
        """The result of branch `index`, which is clamped to the existing branches."""
        number = _scalar("switch", index)
        if not is_integer(number.dtype):
            raise DtypeError(f"switch requires an integer index, got {number.dtype}.", where=user_frame())
        number = number if number.dtype == INDEX else ew.convert(number, dtype=INDEX)
        inside = lg.clamp(full((), 0, INDEX), number, full((), len(branches) - 1, INDEX))
        return _emit_choice("stablehlo.case", inside, branches, operands, "switch")

    if not branches:
        raise TreeError("switch requires at least one branch, got none.", where=user_frame())
    return staged(per_vectorized_entry(run))(index, *(operands if operand is _ABSENT else (operand,)))


def _scalar(what: str, x: Any) -> Tensor:
    """A predicate or index as a tensor; raises ShapeError unless it is a scalar."""
    tensor = as_tensor(x)
    if tensor.shape != ():
        raise ShapeError(
            f"{what} requires a scalar predicate, got shape {tensor.shape}.",
            where=user_frame(),
            help="use nm.vmap for one decision per entry, or nm.numpy.where.",
        )
    return tensor


def _emit_choice(name: str, selector: Tensor, branches: Sequence[Callable[..., Any]], operands: Any, what: str) -> Any:
    """The result of the branch that `selector` selects; all branches are traced, and their results must have equal types.

    Args:
      name: the operation, `stablehlo.if` or `stablehlo.case`.
      selector: a truth value, or an integer.
      branches: functions of the operands.
      operands: their arguments.
      what: the name of the user's function, for errors.
    """
    blocks, first = [], None
    results: list[list[Tensor]] = []
    for branch in branches:
        box: dict[str, Any] = {}

        def body(branch: Callable[..., Any] = branch, box: dict[str, Any] = box) -> list[Any]:
            leaves, box["spec"] = pytree.flatten(branch(*operands))
            return leaves

        block, _, outs = trace_region(body, [], f"a branch of {what}")
        blocks.append(block)
        results.append(outs)
        if first is None:
            first = (box["spec"], outs)
        else:
            _require_same(f"each branch of {what}", *first, box["spec"], outs)
    assert first is not None
    op = stablehlo.emit(name, [selector.value], results=_types(first[1]), regions=len(blocks))
    for region, block in zip(op.regions, blocks, strict=True):
        block.append_to(region)
    return pytree.unflatten(first[0], results_of(op, *results))


# ---------------------------------------------------------------- loops


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: PyTree, max_residual_bytes: int | None = None
) -> PyTree:
    """The last value of the loop ``while cond_fun(val): val = body_fun(val)``.

    Args:
      cond_fun: a function from the carry to a scalar truth value.
      body_fun: a function from the carry to a carry of the same structure, shapes and dtypes.
      init_val: the first carry, any pytree. Its Python scalars get the dtype that the body returns.
      max_residual_bytes: the bytes that reverse mode may store for this loop. If its iterations need more, some of them run
        again, from stored states (periodic or binomial checkpointing) if their number is known.

      Forward and reverse mode both work, even if the number of iterations depends on data. The number is then found by
      running the loop. Iterations are stored in chunks of at most 512, within a gibibyte unless the limit is higher.

    Raises:
      TreeError: the body changes the type of the carry; both trees are shown.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, 3.0))
      192.0
    """
    check_function("while_loop", cond_fun, "val")
    check_function("while_loop", body_fun, "val")
    return _loop("while_loop", cond_fun, body_fun, init_val, max_residual_bytes)


def _loop(what: str, cond_fun: Any, body_fun: Any, init_val: PyTree, max_residual_bytes: int | None) -> PyTree:
    """The final state of a while loop, which is emitted into the trace.

    If the body returns wider types for Python numbers in `init_val`, the body is traced a second time with these types.

    Args:
      what: the name of the loop, for errors.
      cond_fun, body_fun: the condition and the body, functions of the state.
      init_val: the first state, a pytree.
      max_residual_bytes: the bytes that reverse mode may store for this loop; None for no limit.
    """

    def run(init: Any) -> Any:
        """The final state for the first state `init`; emits the loop."""
        leaves, spec = pytree.flatten(init)
        carry = [as_tensor(leaf) for leaf in leaves]
        block, outs, out_spec = _trace_body(body_fun, spec, carry)
        if any(c.weak and c.dtype != o.dtype and c.shape == o.shape for c, o in zip(carry, outs, strict=False)):
            carry = [adapted(*each) for each in zip(leaves, carry, outs, strict=True)]
            block, outs, out_spec = _trace_body(body_fun, spec, carry)
        _require_same(f"the carry of {what}", spec, carry, out_spec, outs)

        def test(*state: Tensor) -> list[Tensor]:
            """The condition for the leaves of the state, as a list of one boolean tensor."""
            pred = _scalar("while_loop", cond_fun(pytree.unflatten(spec, state)))
            if pred.dtype.kind != "b":
                raise DtypeError(f"while_loop requires a condition that is bool, got {pred.dtype}.", where=user_frame())
            return [pred]

        test_block, _, _ = trace_region(test, specs_of(carry), "the condition of while_loop")
        op = stablehlo.emit(
            "stablehlo.while",
            [c.value for c in carry],
            results=_types(carry),
            attributes={} if max_residual_bytes is None else {MAX_RESIDUAL_BYTES: I64.encode(max_residual_bytes)},
            regions=2,
        )
        test_block.append_to(op.regions[0])
        block.append_to(op.regions[1])
        results = results_of(op, carry, outs)
        for result, argument, out, first in zip(results, op.regions[1].blocks[0].arguments, outs, carry, strict=True):
            if out.value == argument:  # the body does not change it
                result.value = first.value
        return pytree.unflatten(spec, results)

    return staged(per_vectorized_entry(run))(init_val)


def _kind(dtype: np.dtype) -> int:
    """The rank of a dtype among truth values, integers, real and complex numbers, in the order of promotion."""
    return 3 if is_complex(dtype) else 2 if is_float(dtype) else 1 if is_integer(dtype) else 0


def adapted(leaf: Any, carry: Tensor, new: Tensor) -> Tensor:
    """The first carry of a loop in the dtype that the body returns, if it was a Python scalar (`leaf`); else unchanged.

    A float never becomes an integer.
    """
    if not carry.weak or carry.dtype == new.dtype or _kind(carry.dtype) > _kind(new.dtype):
        return carry
    return as_tensor(leaf, new.dtype) if is_scalar(leaf) else ew.convert(carry, dtype=new.dtype)


def _trace_body(body_fun: Any, spec: pytree.TreeSpec, carry: Sequence[Tensor]) -> Any:
    """The block of the traced body of a loop, the tensors that it returns, and their structure.

    `spec` and `carry` are the structure and the leaves of the state, which the body takes.
    """
    box: dict[str, Any] = {}

    def body(*state: Tensor) -> list[Any]:  # the leaves of the next state; notes their structure
        leaves, box["spec"] = pytree.flatten(body_fun(pytree.unflatten(spec, state)))
        return leaves

    block, _, outs = trace_region(body, specs_of(carry), "the body of while_loop")
    return block, outs, box["spec"]


def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, Any], Any],
    init_val: PyTree,
    max_residual_bytes: int | None = None,
    *,
    unroll: int | bool | None = None,
) -> PyTree:
    """The last value of the loop ``for i in range(lower, upper): val = body_fun(i, val)``.

    The bounds may be traced integers. With Python integers, reverse mode needs no second run. `max_residual_bytes` is that of
    `while_loop`. `unroll` has no effect here: use `scan` for it.

    Raises:
      DtypeError: a bound is not an integer.

    Example:
      >>> import nabla_mlir as nm
      >>> int(nm.fori_loop(0, 5, lambda i, total: total + i, 0))
      10
    """
    check_function("fori_loop", body_fun, "i", "val")

    def run(lower: Any, upper: Any, init: Any) -> Any:
        """The value of the loop after the iterations lower, ..., upper - 1, as a while loop over the pair of counter and value."""
        dtype = promote_dtypes([lower, upper])
        if dtype.kind not in "iu":
            raise DtypeError(
                f"fori_loop requires integers as bounds, got {dtype}.", where=user_frame(), help="round them, or use nm.while_loop."
            )
        first, last = as_tensor(lower, dtype), as_tensor(upper, dtype)
        one = full((), 1, dtype)
        _, result = _loop(
            "fori_loop (i, val)",
            lambda c: lg.compare(c[0], last, comparison_direction="LT"),
            lambda c: (ew.add(c[0], one), body_fun(c[0], c[1])),
            (first, init),
            max_residual_bytes,
        )
        return result

    if isinstance(lower, int) and isinstance(upper, int):
        return staged(per_vectorized_entry(lambda init: run(lower, upper, init)))(init_val)
    return staged(per_vectorized_entry(run))(lower, upper, init_val)
