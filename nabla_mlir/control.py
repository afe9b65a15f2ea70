"""Control flow that is recorded as such: cond, switch, while_loop, fori_loop, scan, map, associative_scan.

The signatures are JAX's. A loop stays one loop through every transform; Python's own `if` and `while` on traced
values are errors that point here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir import pytree
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.stablehlo import I64
from nabla_mlir.dialects.types import is_integer
from nabla_mlir.eager import staged
from nabla_mlir.errors import DtypeError, ShapeError, TreeError, user_frame
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.promotion import as_tensor, is_scalar
from nabla_mlir.ops.regions import MAX_RESIDUAL_BYTES
from nabla_mlir.ops.shape import concatenate, dynamic_slice, dynamic_update_slice, reshape, slice_
from nabla_mlir.ops.tensor import Tensor, full
from nabla_mlir.tracing import Spec, results_of, trace_region
from nabla_mlir.vectorized import per_entry

INDEX = np.dtype(np.int32)


def _specs(tensors: Sequence[Tensor]) -> list[Spec]:
    return [Spec(t.shape, t.dtype, t.weak) for t in tensors]


def _types(tensors: Sequence[Tensor]) -> list[ir.Type]:
    return [t.value.type for t in tensors]


def _describe(spec: pytree.TreeSpec, tensors: Sequence[Tensor]) -> str:
    leaves = [str(Spec(t.shape, t.dtype)) for t in tensors]
    return str(pytree.unflatten(spec, leaves)).replace("'", "")


def _same(
    what: str, spec: pytree.TreeSpec, tensors: Sequence[Tensor], other: pytree.TreeSpec, got: Sequence[Tensor]
) -> None:
    if spec != other or _types(tensors) != _types(got):
        raise TreeError(f"{what} requires the same structure, shapes and dtypes, got {_describe(other, got)} "
                        f"instead of {_describe(spec, tensors)}.", where=user_frame(),
                        help="convert with astype or reshape so that both agree.")  # fmt: skip


# ---------------------------------------------------------------- choices


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """``true_fun(*operands) if pred else false_fun(*operands)``; only the chosen one runs.

    Args:
      pred: a scalar truth value (a number counts as true unless it is 0).
      true_fun, false_fun: functions of the operands with results of the same structure, shapes and dtypes.

    Under vmap with a mapped `pred` both run, and each entry takes its own.

    Raises:
      TreeError: the branches return different things; both are shown.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 3.0))
      4.0
    """

    def run(pred: Any, *operands: Any) -> Any:
        test = _scalar("cond", pred)
        if test.dtype.kind != "b":
            test = ew.compare(test, full((), 0, test.dtype), comparison_direction="NE")
        return _choose("stablehlo.if", test, (true_fun, false_fun), operands, "cond")

    return staged(per_entry(run))(pred, *operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``; the index is clamped to the branches there are.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.switch(7, [lambda x: x, lambda x: x * 10.0], 3.0))
      30.0
    """

    def run(index: Any, *operands: Any) -> Any:
        number = _scalar("switch", index)
        if not is_integer(number.dtype):
            raise DtypeError(f"switch requires an integer index, got {number.dtype}.", where=user_frame())
        number = number if number.dtype == INDEX else ew.convert(number, dtype=INDEX)
        inside = ew.clamp(full((), 0, INDEX), number, full((), len(branches) - 1, INDEX))
        return _choose("stablehlo.case", inside, branches, operands, "switch")

    if not branches:
        raise TreeError("switch requires at least one branch, got none.", where=user_frame())
    return staged(per_entry(run))(index, *operands)


def _scalar(what: str, x: Any) -> Tensor:
    tensor = as_tensor(x)
    if tensor.shape != ():
        raise ShapeError(f"{what} requires a scalar to decide by, got shape {tensor.shape}.", where=user_frame(),
                         help="use nm.vmap for one decision per entry, or nm.numpy.where.")  # fmt: skip
    return tensor


def _choose(name: str, by: Tensor, branches: Sequence[Callable[..., Any]], operands: Any, what: str) -> Any:
    blocks, first = [], None
    for branch in branches:
        box: dict[str, Any] = {}

        def body(branch: Callable[..., Any] = branch, box: dict[str, Any] = box) -> list[Any]:
            leaves, box["spec"] = pytree.flatten(branch(*operands))
            return [_unweakened(leaf) for leaf in leaves]

        block, holder, outs = trace_region(body, [], f"a branch of {what}")
        blocks.append((block, holder))
        if first is None:
            first = (box["spec"], outs)
        else:
            _same(f"the branches of {what}", *first, box["spec"], outs)
    assert first is not None
    op = stablehlo.emit(name, [by.value], results=_types(first[1]), regions=len(blocks))
    for region, (block, holder) in zip(op.regions, blocks, strict=True):
        block.append_to(region)
        holder.erase()
    return pytree.unflatten(first[0], results_of(op))


def _unweakened(leaf: Any) -> Tensor:
    tensor = as_tensor(leaf)
    tensor.weak = False
    return tensor


# ---------------------------------------------------------------- loops


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any,
    max_residual_bytes: int | None = None,
) -> Any:  # fmt: skip
    """``while cond_fun(val): val = body_fun(val)``.

    Args:
      cond_fun: from the carry to a scalar truth value.
      body_fun: from the carry to a carry of the same structure, shapes and dtypes.
      init_val: the first carry, any pytree; its Python scalars take the dtype that the body gives them.
      max_residual_bytes: how much reverse mode may store for this loop. Where its iterations need more, some are run
        again: from states that are kept (periodic or binomial checkpointing) if their number is known.

    Forward and reverse mode both work, also where the number of iterations depends on data: it is then found by
    running the loop, and iterations are kept in chunks.

    Raises:
      TreeError: the body changes the carry's type; both trees are shown.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, 3.0))
      192.0
    """

    def run(init: Any) -> Any:
        leaves, spec = pytree.flatten(init)
        carry = [as_tensor(leaf) for leaf in leaves]
        block, holder, outs, out_spec = _trace_body(body_fun, spec, carry)
        if any(c.weak and c.dtype != o.dtype and c.shape == o.shape for c, o in zip(carry, outs, strict=False)):
            carry = [_adapted(*each) for each in zip(leaves, carry, outs, strict=True)]
            holder.erase()
            block, holder, outs, out_spec = _trace_body(body_fun, spec, carry)
        _same("the carry of while_loop", spec, carry, out_spec, outs)

        def test(*state: Tensor) -> list[Tensor]:
            pred = _scalar("while_loop", cond_fun(pytree.unflatten(spec, state)))
            if pred.dtype.kind != "b":
                raise DtypeError(f"while_loop requires a condition that is bool, got {pred.dtype}.", where=user_frame())
            return [pred]

        test_block, test_holder, _ = trace_region(test, _specs(carry), "the condition of while_loop")
        op = stablehlo.emit(
            "stablehlo.while", [c.value for c in carry], results=_types(carry),
            attributes={} if max_residual_bytes is None else {MAX_RESIDUAL_BYTES: I64.encode(max_residual_bytes)},
            regions=2,
        )  # fmt: skip
        test_block.append_to(op.regions[0])
        block.append_to(op.regions[1])
        test_holder.erase()
        holder.erase()
        return pytree.unflatten(spec, results_of(op))

    return staged(per_entry(run))(init_val)


def _adapted(leaf: Any, carry: Tensor, new: Tensor) -> Tensor:
    """A carry that was a Python scalar in the dtype that the body gives it, to all its digits."""
    if not carry.weak or carry.dtype == new.dtype:
        return carry
    return as_tensor(leaf, new.dtype) if is_scalar(leaf) else ew.convert(carry, dtype=new.dtype)


def _trace_body(body_fun: Any, spec: pytree.TreeSpec, carry: Sequence[Tensor]) -> Any:
    box: dict[str, Any] = {}

    def body(*state: Tensor) -> list[Any]:
        leaves, box["spec"] = pytree.flatten(body_fun(pytree.unflatten(spec, state)))
        return leaves

    block, holder, outs = trace_region(body, _specs(carry), "the body of while_loop")
    return block, holder, outs, box["spec"]


def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, max_residual_bytes: int | None = None
) -> Any:
    """``for i in range(lower, upper): val = body_fun(i, val)``.

    The bounds may be traced integers; where they are Python integers, reverse mode needs no second run;
    `max_residual_bytes` is that of `while_loop`.

    Example:
      >>> import nabla_mlir as nm
      >>> int(nm.fori_loop(0, 5, lambda i, total: total + i, 0))
      10
    """

    def run(lower: Any, upper: Any, init: Any) -> Any:
        first, last = as_tensor(lower), as_tensor(upper)
        dtype = first.dtype if not first.weak else last.dtype
        first, last = as_tensor(first, dtype), as_tensor(last, dtype)
        one = full((), 1, dtype)
        _, result = while_loop(
            lambda c: ew.compare(c[0], last, comparison_direction="LT"),
            lambda c: (ew.add(c[0], one), body_fun(c[0], c[1])),
            (first, init), max_residual_bytes,
        )  # fmt: skip
        return result

    if isinstance(lower, int) and isinstance(upper, int):
        return staged(per_entry(lambda init: run(lower, upper, init)))(init_val)
    return staged(per_entry(run))(lower, upper, init_val)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None,
    reverse: bool = False, unroll: int = 1, max_residual_bytes: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """A loop over the leading axis of `xs` that carries a state and stacks its results.

    Computes ``carry, ys[i] = f(carry, xs[i])`` for i = 0 ... length - 1 (from the end if `reverse`).

    Args:
      f: from a carry and one slice of xs to a carry of the same type and one slice of ys.
      init: the first carry.
      xs: a pytree of arrays with a common leading axis, or None.
      length: the number of steps, needed where xs has no arrays.
      reverse: whether to run from the last entry to the first; ys stand in the order of xs.
      unroll: how many steps one iteration of the loop does.
      max_residual_bytes: how much reverse mode may store for the loop; see `while_loop`.

    Raises:
      TreeError: the carry changes its type; ShapeError: leading axes differ.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> total, sums = nm.scan(lambda c, x: (c + x, c + x), 0.0, np.array([1.0, 2.0, 3.0], np.float32))
      >>> sums.tolist()
      [1.0, 3.0, 6.0]
    """

    def run(init: Any, xs: Any) -> Any:
        x_leaves, x_spec = pytree.flatten(xs)
        rows = [as_tensor(x) for x in x_leaves]
        steps = _length(rows, pytree.paths(x_spec), length)
        c_leaves, c_spec = pytree.flatten(init)
        carry = [as_tensor(c) for c in c_leaves]
        carry, y_specs, y_spec = _scan_types(f, c_spec, c_leaves, carry, x_spec, rows)
        tapes = [full((steps, *s.shape), 0, s.dtype) for s in y_specs]
        if steps == 0:
            return pytree.unflatten(c_spec, carry), pytree.unflatten(y_spec, tapes)
        n, zero = len(carry), full((), 0, INDEX)

        def step(i: Tensor, state: list[Tensor], filled: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            at = ew.subtract(full((), steps - 1, INDEX), i) if reverse else i
            sliced = [_entry(x, at) for x in rows]
            new, y = f(pytree.unflatten(c_spec, state), pytree.unflatten(x_spec, sliced))
            ys = [as_tensor(leaf) for leaf in pytree.flatten(y)[0]]
            written = [
                dynamic_update_slice(t, reshape(y, shape=(1, *y.shape)), at, *([zero] * y.ndim))
                for t, y in zip(filled, ys, strict=True)
            ]
            return [as_tensor(leaf) for leaf in pytree.flatten(new)[0]], written

        def body(c: tuple[Tensor, list[Tensor], list[Tensor]]) -> Any:
            i, state, filled = c
            for k in range(unroll):
                state, filled = step(i if k == 0 else ew.add(i, full((), k, INDEX)), state, filled)
            return ew.add(i, full((), unroll, INDEX)), state, filled

        whole = steps - steps % unroll
        limit = full((), whole, INDEX)
        _, carry, tapes = while_loop(
            lambda c: ew.compare(c[0], limit, comparison_direction="LT"), body, (zero, carry, tapes),
            max_residual_bytes,
        )
        for k in range(whole, steps):
            carry, tapes = step(full((), k, INDEX), carry, tapes)
        assert len(carry) == n
        return pytree.unflatten(c_spec, carry), pytree.unflatten(y_spec, tapes)

    if not isinstance(unroll, int) or unroll < 1:
        raise ShapeError(f"scan requires unroll of at least 1, got {unroll!r}.", where=user_frame())
    return staged(per_entry(run))(init, xs)


def _length(rows: Sequence[Tensor], names: Sequence[str], length: int | None) -> int:
    sizes = {f"xs{name}": x.shape[0] if x.ndim else None for name, x in zip(names, rows, strict=True)}
    if length is not None:
        sizes["length"] = length
    if not sizes:
        raise ShapeError("scan requires xs or length, got neither.", where=user_frame())
    if None in sizes.values() or len(set(sizes.values())) > 1:
        listed = ", ".join(f"{k}: {v if v is not None else 'a scalar'}" for k, v in sizes.items())
        raise ShapeError(f"scan requires leading axes of one size, got {listed}.", where=user_frame())
    return next(iter(sizes.values()))  # type: ignore[return-value]


def _entry(x: Tensor, i: Tensor) -> Tensor:
    zero = full((), 0, i.dtype)
    row = dynamic_slice(x, i, *([zero] * (x.ndim - 1)), slice_sizes=(1, *x.shape[1:]))
    return reshape(row, shape=x.shape[1:])


def _scan_types(
    f: Any, c_spec: Any, leaves: Sequence[Any], carry: list[Tensor], x_spec: Any, rows: list[Tensor]
) -> Any:
    """Runs the step once on the side, to learn the types of carry and results; weak scalars of the carry adapt."""
    box: dict[str, Any] = {}

    def probe(*values: Tensor) -> list[Any]:
        state, entry = values[: len(carry)], values[len(carry) :]
        out = f(pytree.unflatten(c_spec, state), pytree.unflatten(x_spec, entry))
        if not isinstance(out, tuple) or len(out) != 2:
            raise TreeError(
                f"scan requires a step that returns (carry, y), got {type(out).__name__}.", where=user_frame()
            )
        c, box["c_spec"] = pytree.flatten(out[0])
        y, box["y_spec"] = pytree.flatten(out[1])
        box["count"] = len(c)
        return [*c, *y]

    entries = [Spec(x.shape[1:], x.dtype) for x in rows]
    _, holder, outs = trace_region(probe, [*_specs(carry), *entries], "the step of scan")
    new = outs[: box["count"]]
    holder.erase()
    adapted = [_adapted(*each) for each in zip(leaves, carry, new, strict=False)]
    if any(a is not c for a, c in zip(adapted, carry, strict=False)):
        return _scan_types(f, c_spec, leaves, adapted, x_spec, rows)
    if (
        len(new) != len(carry)
        or c_spec != box["c_spec"]
        or [(a.shape, a.dtype) for a in carry] != [(o.shape, o.dtype) for o in new]
    ):
        raise TreeError(f"the carry of scan requires the same structure, shapes and dtypes, got "
                        f"{_describe(box['c_spec'], new)} instead of {_describe(c_spec, carry)}.",
                        where=user_frame())  # fmt: skip
    return carry, [Spec(y.shape, y.dtype) for y in outs[box["count"] :]], box["y_spec"]


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """``f`` of each entry along the leading axis of `xs`, one after the other (`nm.vmap` does them together).

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.map(lambda x: x * 2.0, np.array([1.0, 2.0])).tolist()
      [2.0, 4.0]
    """
    return scan(lambda _, x: (None, f(x)), None, xs)[1]


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefix results of an associative operation, in log2(n) steps of whole arrays.

    Args:
      fn: associative, from two pytrees of arrays to one, entry by entry along `axis`.
      elems: a pytree of arrays whose `axis` has one length.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.associative_scan(lambda a, b: a * b, np.array([1.0, 2.0, 3.0, 4.0])).tolist()
      [1.0, 2.0, 6.0, 24.0]
    """

    def run(elems: Any) -> Any:
        leaves, spec = pytree.flatten(elems)
        xs = [as_tensor(x) for x in leaves]
        places = [axis % x.ndim for x in xs]
        lengths = {x.shape[p] for x, p in zip(xs, places, strict=True)}
        if len(lengths) != 1:
            raise ShapeError(f"associative_scan requires one length, got {sorted(lengths)}.", where=user_frame())
        n = lengths.pop()

        def part(x: Tensor, p: int, start: int, stop: int) -> Tensor:
            starts, limits = [0] * x.ndim, list(x.shape)
            starts[p], limits[p] = start, stop
            return slice_(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=(1,) * x.ndim)

        step = 1
        while step < n:
            # Entry i already covers `step` entries; it takes in those before them.
            cut = [(part(x, p, 0, n - step), part(x, p, step, n)) for x, p in zip(xs, places, strict=True)]
            low, high = (pytree.unflatten(spec, [c[k] for c in cut]) for k in (0, 1))
            joined = pytree.flatten(fn(high, low) if reverse else fn(low, high))[0]
            if reverse:
                ends = [part(x, p, n - step, n) for x, p in zip(xs, places, strict=True)]
                xs = [concatenate(as_tensor(j), e, dimension=p) for j, e, p in zip(joined, ends, places, strict=True)]
            else:
                ends = [part(x, p, 0, step) for x, p in zip(xs, places, strict=True)]
                xs = [concatenate(e, as_tensor(j), dimension=p) for j, e, p in zip(joined, ends, places, strict=True)]
            step *= 2
        return pytree.unflatten(spec, xs)

    return staged(per_entry(run))(elems)
