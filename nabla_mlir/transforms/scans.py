"""Loops over the leading axis of arrays: scan, map, associative_scan. The signatures are JAX's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, TreeError, check_function, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.shape import concatenate, reshape, row, sliced, transpose
from nabla_mlir.rules.tapes import read_row, write_row
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import trace_region
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.transforms.arguments import specs_of
from nabla_mlir.transforms.control import INDEX, adapted, advice_for, describe, while_loop
from nabla_mlir.transforms.recurrences import affine_leaves, linear_recurrence, running_product
from nabla_mlir.transforms.vectorize import vmap
from nabla_mlir.transforms.vectorized import per_vectorized_entry
from nabla_mlir.transforms.vectorized_trees import axes_of_spec, leaves_of


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    max_residual_bytes: int | None = None,
) -> tuple[PyTree, PyTree]:
    """The last carry and the stacked results of a loop over the leading axis of `xs`.

    It computes ``carry, ys[i] = f(carry, xs[i])`` for i = 0 ... length - 1, from the end if `reverse`.

    Args:
      f: a function from a carry and one slice of xs to a carry of the same type and one slice of ys.
      init: the first carry.
      xs: a pytree of arrays with a common leading axis, or None.
      length: the number of iterations, needed if xs has no arrays.
      reverse: True runs from the last entry to the first; ys have the order of xs.
      unroll: the number of calls of f in one iteration of the loop. With all of them, True or 0 there is no loop; False is 1.
      max_residual_bytes: the bytes that reverse mode may store for the loop; see `while_loop`.

    Raises:
      TreeError: the carry changes its type; ShapeError: leading axes differ.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> total, sums = nm.scan(lambda c, x: (c + x, c + x), 0.0, np.array([1.0, 2.0, 3.0], np.float32))
      >>> sums.tolist()
      [1.0, 3.0, 6.0]
    """
    check_function("scan", f, "carry", "x")

    def run(init: Any, xs: Any) -> Any:
        """Emits the scan as a loop that reads a row of each input and writes a row of each output."""
        x_leaves, x_spec = pytree.flatten(xs)
        rows = [as_tensor(x) for x in x_leaves]
        steps = _length(rows, pytree.paths(x_spec), length)
        c_leaves, c_spec = pytree.flatten(init)
        carry = [as_tensor(c) for c in c_leaves]
        carry, y_specs, y_spec = _scan_types(f, c_spec, c_leaves, carry, x_spec, rows)
        unroll = requested or max(steps, 1)
        if 0 < steps < 2 * unroll:  # a loop would have one iteration
            order = range(steps - 1, -1, -1) if reverse else range(steps)
            carry, ys = _unroll(f, order, (carry, c_spec), (rows, x_spec))
            return pytree.unflatten(c_spec, carry), _result_tree(y_spec, ys)
        tapes = [full((steps, *s.shape), 0, s.dtype) for s in y_specs]
        if steps == 0:
            return pytree.unflatten(c_spec, carry), _result_tree(y_spec, tapes)
        zero = full((), 0, INDEX)

        def step(i: Tensor, state: list[Tensor], tapes: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            """The state and the stacked results after iteration `i`, which reads row `i` of the inputs, or row steps - 1 - i in
            reverse.

            `tapes` holds one array for each result of the step, with a row for each iteration.
            """
            index = ew.subtract(full((), steps - 1, INDEX), i) if reverse else i
            entry = [read_row(x, index) for x in rows]
            new, y = f(pytree.unflatten(c_spec, state), pytree.unflatten(x_spec, entry))
            ys = [as_tensor(leaf) for leaf in pytree.flatten(y)[0]]
            new_tapes = [write_row(t, y, index) for t, y in zip(tapes, ys, strict=True)]
            return [as_tensor(leaf) for leaf in pytree.flatten(new)[0]], new_tapes

        def body(c: tuple[Tensor, list[Tensor], list[Tensor]]) -> Any:
            """Runs `unroll` iterations; `c` is the triple of the first iteration's number, the leaves of the state, and the stacked
            results.
            """
            i, state, tapes = c
            for k in range(unroll):
                state, tapes = step(i if k == 0 else ew.add(i, full((), k, INDEX)), state, tapes)
            return ew.add(i, full((), unroll, INDEX)), state, tapes

        whole = steps - steps % unroll
        limit = full((), whole, INDEX)
        _, carry, tapes = while_loop(
            lambda c: lg.compare(c[0], limit, comparison_direction="LT"), body, (zero, carry, tapes), max_residual_bytes
        )
        for k in range(whole, steps):
            carry, tapes = step(full((), k, INDEX), carry, tapes)
        return pytree.unflatten(c_spec, carry), _result_tree(y_spec, tapes)

    if not isinstance(unroll, int) or unroll < 0:
        raise ShapeError(f"scan requires unroll of at least 0, got {unroll!r}.", where=user_frame())
    # As a number of calls, where 0 stands for all.
    requested = (0 if unroll else 1) if isinstance(unroll, bool) else unroll
    return staged(per_vectorized_entry(run))(init, xs)


def _result_tree(spec: pytree.TreeSpec, ys: Sequence[Tensor]) -> Any:
    """The stacked results `ys` as a pytree; the axis of the iterations comes after the named axes that the step has given.

    `spec` is the structure of this pytree.
    """
    counts = [len(axes) for axes in axes_of_spec(spec)]
    orders = [(*range(1, n + 1), 0, *range(n + 1, y.ndim)) for y, n in zip(ys, counts, strict=True)]
    columns = [transpose(y, permutation=order) if n else y for y, order, n in zip(ys, orders, counts, strict=True)]
    return pytree.unflatten(spec, columns)


def _unroll(f: Any, order: Sequence[int], init: tuple[Any, Any], xs: tuple[Any, Any]) -> Any:
    """The last carry and the stacked results, by code without a loop.

    Args:
      f: the step.
      order: the indices of the entries, in the order of the iterations.
      init: the leaves and the structure of the first carry.
      xs: the leaves and the structure of the inputs.
    """
    (carry, c_spec), (rows, x_spec) = init, xs
    results: dict[int, list[Tensor]] = {}
    for k in order:
        new, y = f(pytree.unflatten(c_spec, carry), pytree.unflatten(x_spec, [row(x, k) for x in rows]))
        carry, results[k] = ([as_tensor(leaf) for leaf in pytree.flatten(tree)[0]] for tree in (new, y))
    parts = zip(*(results[k] for k in sorted(results)), strict=True)
    return carry, [concatenate(*(reshape(y, shape=(1, *y.shape)) for y in each), dimension=0) for each in parts]


def _length(rows: Sequence[Tensor], names: Sequence[str], length: int | None) -> int:
    """The number of iterations: the size of the leading axes of `rows`, or `length`; raises ShapeError if they differ.

    `names` are the paths of the arrays in their pytree, for errors.
    """
    sizes = {f"xs{name}": x.shape[0] if x.ndim else None for name, x in zip(names, rows, strict=True)}
    if length is not None:
        sizes["length"] = length
    if not sizes:
        raise ShapeError("scan requires xs or length, got neither.", where=user_frame())
    if None in sizes.values() or len(set(sizes.values())) > 1:
        text = ", ".join(f"{k}: {v if v is not None else 'a scalar'}" for k, v in sizes.items())
        raise ShapeError(f"scan requires leading axes of one size, got {text}.", where=user_frame())
    return next(iter(sizes.values()))  # type: ignore[return-value]


def _scan_types(f: Any, c_spec: Any, leaves: Sequence[Any], carry: list[Tensor], x_spec: Any, rows: list[Tensor]) -> Any:
    """The first state, the specs of one iteration's results, and the structure of these results.

    Traces the step once, into a separate region. Python numbers in the state get the dtype that the step returns.

    Args:
      f: the step, a function (carry, x) -> (carry, y).
      c_spec: the structure of the state.
      leaves: the user's leaves of the first state.
      carry: the same leaves as tensors.
      x_spec: the structure of the inputs.
      rows: the leaves of the inputs, with the axis of iterations first.
    """
    box: dict[str, Any] = {}

    def probe(*values: Tensor) -> list[Any]:
        """The leaves of the next state and of the results of one step; notes their structures in `box`. `values` are
        state and inputs.
        """
        state, entry = values[: len(carry)], values[len(carry) :]
        out = f(pytree.unflatten(c_spec, state), pytree.unflatten(x_spec, entry))
        if not isinstance(out, tuple) or len(out) != 2:
            raise TreeError(
                f"scan requires a step that returns (carry, y), got {type(out).__name__}.",
                where=user_frame(),
                help="a step without results for each entry returns (carry, None).",
            )
        c, box["c_spec"] = pytree.flatten(out[0])
        y, box["y_spec"] = pytree.flatten(out[1])
        box["count"] = len(c)
        return [*c, *y]

    entries = [Spec(x.shape[1:], x.dtype) for x in rows]
    _, _, outs = trace_region(probe, [*specs_of(carry), *entries], "the step of scan")
    new = outs[: box["count"]]
    wider = [adapted(*each) for each in zip(leaves, carry, new, strict=False)]
    if any(a is not c for a, c in zip(wider, carry, strict=False)):
        return _scan_types(f, c_spec, leaves, wider, x_spec, rows)
    if (
        len(new) != len(carry)
        or c_spec != box["c_spec"]
        or [(a.shape, a.dtype) for a in carry] != [(o.shape, o.dtype) for o in new]
    ):
        raise TreeError(
            f"the carry of scan requires the same structure, shapes and dtypes, got "
            f"{describe(box['c_spec'], new)} instead of {describe(c_spec, carry)}.",
            where=user_frame(),
            help=advice_for(carry, new),
        )
    return carry, [Spec(y.shape, y.dtype) for y in outs[box["count"] :]], box["y_spec"]


def map(f: Callable[[Any], Any], xs: PyTree, *, batch_size: int | None = None) -> PyTree:
    """The results of `f` for each entry along the leading axis of `xs`, one after the other (`nm.vmap`: all at once).

    Args:
      f: a function of an entry.
      xs: a pytree of arrays with a common leading axis.
      batch_size: the number of entries that are computed at once; None means one, and 0 all.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.map(lambda x: x * 2.0, np.array([1.0, 2.0])).tolist()
      [2.0, 4.0]
    """
    check_function("map", f)
    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    if batch_size < 0:
        raise ShapeError(f"map requires a batch_size of at least 0, got {batch_size}.", where=user_frame())
    if batch_size == 0:
        return vmap(f)(xs)

    def run(xs: Any) -> Any:
        """The results of `f` for the rows of `xs`, computed in blocks of `batch_size` rows and a smaller last block."""
        leaves, spec = pytree.flatten(xs)
        rows = [as_tensor(x) for x in leaves]
        n = _length(rows, pytree.paths(spec), None)
        whole = n - n % batch_size
        parts = []
        if whole:
            cut = [sliced(x, 0, 0, whole) for x in rows]
            blocks = [reshape(x, shape=(whole // batch_size, batch_size, *x.shape[1:])) for x in cut]
            out, out_spec = leaves_of(scan(lambda _, x: (None, vmap(f)(x)), None, pytree.unflatten(spec, blocks))[1])
            parts.append([reshape(y, shape=(whole, *y.shape[2:])) for y in out])
        if n - whole or not n:
            out, out_spec = leaves_of(vmap(f)(pytree.unflatten(spec, [sliced(x, 0, whole, n) for x in rows])))
            parts.append([as_tensor(y) for y in out])
        each = zip(*parts, strict=True)
        return pytree.unflatten(out_spec, [ys[0] if len(ys) == 1 else concatenate(*ys, dimension=0) for ys in each])

    return staged(per_vectorized_entry(run))(xs)


def associative_scan(fn: Callable[[Any, Any], Any], elems: PyTree, reverse: bool = False, axis: int = 0) -> PyTree:
    """The running combinations of the elements by an associative operation, in log2(n) operations on whole arrays.

    If it composes functions h -> a h + b, as pairs (a, b), the result is a linear recurrence. It and its derivatives store a few
    arrays, and are a kernel on a CPU.

    Args:
      fn: an associative function from two pytrees of arrays to one, entry by entry along `axis`.
      elems: a pytree of arrays whose `axis` has one length.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.associative_scan(lambda a, b: a * b, np.array([1.0, 2.0, 3.0, 4.0])).tolist()
      [1.0, 2.0, 6.0, 24.0]
    """

    def run(elems: Any) -> Any:
        """All partial combinations of the rows of `elems`, in log2(n) rounds that double the number of combined rows."""
        leaves, spec = pytree.flatten(elems)
        xs = [as_tensor(x) for x in leaves]
        if any(x.ndim == 0 for x in xs):
            raise ShapeError("associative_scan requires arrays with an axis, got a scalar.", where=user_frame())
        positions = [axis % x.ndim for x in xs]
        lengths = {x.shape[p] for x, p in zip(xs, positions, strict=True)}
        if len(lengths) != 1:
            raise ShapeError(f"associative_scan requires one length, got {sorted(lengths)}.", where=user_frame())
        n = lengths.pop()

        step = 1
        while step < n:
            # Entry i already combines `step` entries; now it is combined with as many before them.
            cut = [(sliced(x, p, 0, n - step), sliced(x, p, step, n)) for x, p in zip(xs, positions, strict=True)]
            first, second = ([c[k] for c in cut] for k in ((1, 0) if reverse else (0, 1)))
            both = fn(pytree.unflatten(spec, first), pytree.unflatten(spec, second))
            out = [as_tensor(x) for x in pytree.flatten(both)[0]]
            if (affine := affine_leaves(first, second, out)) is not None:
                a, b = affine
                along = positions[a], -1 if reverse else 1
                xs[b], xs[a] = linear_recurrence(xs[a], xs[b], *along), running_product(xs[a], *along)
                break
            # The entries at the end without as many entries before them do not change.
            if reverse:
                ends = [sliced(x, p, n - step, n) for x, p in zip(xs, positions, strict=True)]
                xs = [concatenate(j, e, dimension=p) for j, e, p in zip(out, ends, positions, strict=True)]
            else:
                ends = [sliced(x, p, 0, step) for x, p in zip(xs, positions, strict=True)]
                xs = [concatenate(e, j, dimension=p) for j, e, p in zip(out, ends, positions, strict=True)]
            step *= 2
        return pytree.unflatten(spec, xs)

    return staged(per_vectorized_entry(run))(elems)
