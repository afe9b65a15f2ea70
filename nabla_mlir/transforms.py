"""Transforms of Python functions. Each emits a region operation; the passes do the work.

Inside a trace a transform emits into it; outside, the whole call is traced, compiled and run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir import pytree
from nabla_mlir.dialects import ad, batch
from nabla_mlir.dialects.types import is_complex, is_differentiable
from nabla_mlir.errors import DtypeError, ShapeError, TraceError, TreeError, user_frame
from nabla_mlir.eager import staged
from nabla_mlir.ops.promotion import as_tensor, is_scalar
from nabla_mlir.ops.registry import Region
from nabla_mlir.ops.shape import iota, reshape
from nabla_mlir.ops.elementwise import compare, convert
from nabla_mlir.ops.autodiff import stop_gradient as stop_gradient_op
from nabla_mlir.ops.tensor import Tensor, full
from nabla_mlir.tracing import HOLDER, Spec, current_trace, results_of, trace_region

Argnums = int | Sequence[int]


# ---------------------------------------------------------------- gradients


def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The function ``x -> (f(x), df/dx)``, in reverse mode.

    Args:
      f: a function whose result is a scalar of floating point (with `has_aux`: a pair of that and anything).
      argnums: the positional argument(s) to differentiate; a sequence gives a tuple of gradients.
      has_aux: whether `f` returns ``(value, aux)``; the new function then returns ``((value, aux), gradient)``.
      holomorphic: whether `f` is complex-differentiable; needed for complex arguments and results.

    Raises:
      ShapeError: the result is not a scalar.
      DtypeError: an argument or the result is not of floating point.

    Example:
      >>> import nabla_mlir as nm
      >>> value, slope = nm.value_and_grad(lambda x: x ** 2)(3.0)
      >>> float(value), float(slope)
      (9.0, 6.0)
    """

    @functools.wraps(f)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            return _value_and_grad(f, argnums, has_aux, holomorphic, args, kwargs)

        return staged(run)(*args, **kwargs)

    return value_and_grad_f


def grad(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The function ``x -> df/dx``; see `value_and_grad`. With `has_aux` it returns ``(gradient, aux)``.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.grad(nm.grad(lambda x: x ** 3))(2.0))
      12.0
    """
    both = value_and_grad(f, argnums, has_aux, holomorphic)

    @functools.wraps(f)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            value, gradient = both(*args, **kwargs)
            return (gradient, value[1]) if has_aux else gradient

        return staged(run)(*args, **kwargs)

    return grad_f


def _value_and_grad(
    f: Callable[..., Any], argnums: Argnums, has_aux: bool, holomorphic: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    chosen, leaves, spec = _active_arguments("grad", args, argnums)
    tensors = [_differentiable("grad", leaf, path, holomorphic) for leaf, path in zip(leaves, pytree.paths(spec), strict=True)]
    box: dict[str, Any] = {}

    def body(*inner: Tensor) -> list[Any]:
        out = f(*_with_arguments(args, chosen, pytree.unflatten(spec, inner)), **kwargs)
        if has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TreeError("has_aux requires that the function returns (value, aux), "
                                f"got {type(out).__name__}.", where=user_frame())  # fmt: skip
            out, aux = out
            aux_leaves, box["aux"] = pytree.flatten(aux)
        else:
            aux_leaves = []
        return [_scalar(out, holomorphic), *(as_tensor(a) for a in aux_leaves)]

    block, holder, outs = trace_region(body, _specs(tensors), "the function given to grad")
    seed = full((), 1, outs[0].dtype)
    op = ad.VjpOp.build([t.value for t in tensors], [seed.value], block, range(len(tensors)), [0]).op
    holder.erase()
    results = results_of(op)
    gradients = pytree.unflatten(spec, results[len(outs) :])
    gradients = gradients if not isinstance(argnums, int) else gradients[0]
    value = results[0]
    return ((value, pytree.unflatten(box["aux"], results[1 : len(outs)])) if has_aux else value), gradients


def _active_arguments(what: str, args: tuple[Any, ...], argnums: Argnums) -> tuple[list[int], list[Any], pytree.TreeSpec]:
    wanted = [argnums] if isinstance(argnums, int) else list(argnums)
    for i in wanted:
        if not -len(args) <= i < len(args):
            raise TraceError(
                f"{what} requires argnums among the {len(args)} positional arguments, got {i}.", where=user_frame(),
                help="pass the argument by position, not by keyword.",
            )  # fmt: skip
    chosen = [i % len(args) for i in wanted]
    leaves, spec = pytree.flatten(tuple(args[i] for i in chosen))
    return chosen, leaves, spec


def _with_arguments(args: tuple[Any, ...], chosen: Sequence[int], values: Sequence[Any]) -> list[Any]:
    replaced = list(args)
    for i, value in zip(chosen, values, strict=True):
        replaced[i] = value
    return replaced


def _differentiable(what: str, leaf: Any, path: str, holomorphic: bool = False) -> Tensor:
    tensor = as_tensor(leaf)
    if not is_differentiable(tensor.dtype):
        raise DtypeError(
            f"{what} requires arguments of floating point, got {tensor.dtype} at argument {path}.", where=user_frame(),
            help="convert it with astype, or leave it out of argnums.",
        )  # fmt: skip
    if is_complex(tensor.dtype) and not holomorphic and what == "grad":
        raise DtypeError(
            f"{what} requires real arguments, got {tensor.dtype} at argument {path}.", where=user_frame(),
            help="pass holomorphic=True for a complex-differentiable function; for others differentiate with respect "
            "to the real and imaginary parts.",
        )  # fmt: skip
    return tensor


def _scalar(out: Any, holomorphic: bool) -> Tensor:
    leaves, _ = pytree.flatten(out)
    if len(leaves) != 1 or not (pytree.is_array(out) or is_scalar(out)):
        raise ShapeError(f"grad requires a function with one scalar result, got {type(out).__name__}.", where=user_frame(),
                         help="use jacrev for several results, or has_aux=True for additional ones.")  # fmt: skip
    tensor = as_tensor(out)
    if tensor.shape != ():
        raise ShapeError(f"grad requires a scalar result, got shape {tensor.shape}.", where=user_frame(),
                         help="reduce it (sum, mean), or use jacrev or vjp.")  # fmt: skip
    if not is_differentiable(tensor.dtype):
        raise DtypeError(f"grad requires a result of floating point, got {tensor.dtype}.", where=user_frame())
    if is_complex(tensor.dtype) and not holomorphic:
        raise DtypeError(f"grad requires a real result, got {tensor.dtype}.", where=user_frame(),
                         help="take the real part or the modulus, or pass holomorphic=True.")  # fmt: skip
    return tensor


def _specs(tensors: Sequence[Tensor]) -> list[Spec]:
    return [Spec(t.shape, t.dtype, t.weak) for t in tensors]


# ---------------------------------------------------------------- jvp, vjp, linearize


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """``(f(x), df/dx · t)`` in forward mode.

    Args:
      f: any function of arrays.
      primals: its arguments, a tuple or list of pytrees.
      tangents: as `primals`, with the same shapes and dtypes; None stands for a zero tangent, and is what integer
        arguments have.
      has_aux: whether `f` returns ``(out, aux)``; the result is then ``(out, tangent, aux)``.

    Raises:
      TreeError, ShapeError, DtypeError: tangents do not fit the primals.

    Example:
      >>> import nabla_mlir as nm
      >>> y, dy = nm.jvp(lambda x: x * x, (3.0,), (1.0,))
      >>> float(dy)
      6.0
    """

    def run(primals: Any, tangents: Any) -> Any:
        out, push = _linearized(f, tuple(primals), has_aux)
        aux = (out[1],) if has_aux else ()
        return (out[0] if has_aux else out, push(*tangents), *aux)

    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TreeError("jvp requires primals and tangents as tuples of arguments, got "
                        f"{type(primals).__name__} and {type(tangents).__name__}.", where=user_frame())  # fmt: skip
    return staged(run)(tuple(primals), tuple(tangents))


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``f(x)`` and the linear function ``t -> df/dx · t`` at that x, which can be called many times.

    Example:
      >>> import nabla_mlir as nm
      >>> y, push = nm.linearize(lambda x: x * x, 3.0)
      >>> float(push(1.0)), float(push(2.0))
      (6.0, 12.0)
    """
    if current_trace() is not None:
        return _linearized(f, primals, has_aux)
    return _eager_pair(_linearized, f, primals, has_aux)


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``f(x)`` and the pullback ``ct -> ct · df/dx``, which can be called many times.

    Args:
      f: any function of arrays.
      primals: its arguments, pytrees; cotangents of integer leaves are None.
      has_aux: whether `f` returns ``(out, aux)``; the result is then ``(out, pullback, aux)``.

    Returns:
      The result and a function that takes a cotangent like it and returns a tuple with one cotangent per argument.

    Example:
      >>> import nabla_mlir as nm
      >>> y, pull = nm.vjp(lambda x, y: x * y, 3.0, 4.0)
      >>> [float(ct) for ct in pull(1.0)]
      [4.0, 3.0]
    """
    if current_trace() is not None:
        out, pull = _pullback(f, primals, has_aux)
        return (out[0], pull, out[1]) if has_aux else (out, pull)
    out, pull = _eager_pair(_pullback, f, primals, has_aux)
    return (out[0], pull, out[1]) if has_aux else (out, pull)


def _eager_pair(make: Callable[..., Any], f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    """Outside a trace: the value now, and a compiled function of primals and seed for every later call."""
    from nabla_mlir.eager import jit

    out = staged(lambda *primals: make(f, primals, has_aux)[0])(*primals)
    apply = jit(lambda primals, seeds: make(f, primals, has_aux)[1](*seeds))
    return out, lambda *seeds: apply(primals, seeds)


class _Body:
    """A function traced once, whose block is cloned into each derivative that is asked of it."""

    def __init__(self, f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool, what: str):
        self.what, self.has_aux = what, has_aux
        self.leaves, self.in_spec = pytree.flatten(tuple(primals))
        self.tensors = [as_tensor(leaf) for leaf in self.leaves]
        self.active = [i for i, t in enumerate(self.tensors) if is_differentiable(t.dtype)]
        aux_spec = None

        def body(*inner: Tensor) -> list[Any]:
            nonlocal aux_spec
            values: list[Any] = list(self.tensors)
            for i, value in zip(self.active, inner, strict=True):
                values[i] = value
            out = f(*pytree.unflatten(self.in_spec, values))
            aux: list[Any] = []
            if has_aux:
                if not isinstance(out, tuple) or len(out) != 2:
                    raise TreeError("has_aux requires that the function returns (out, aux), "
                                    f"got {type(out).__name__}.", where=user_frame())  # fmt: skip
                out, aux_tree = out
                aux, aux_spec = pytree.flatten(aux_tree)
            leaves, self.out_spec = pytree.flatten(out)
            self.count = len(leaves)
            return [*leaves, *aux]

        specs = _specs([self.tensors[i] for i in self.active])
        self.block, holder, self.outs = trace_region(body, specs, f"the function given to {what}")
        trace = current_trace()
        assert trace is not None
        trace.keep(holder)
        self.aux_spec = aux_spec
        self.of = [i for i, out in enumerate(self.outs[: self.count]) if is_differentiable(out.dtype)]

    def clone(self) -> tuple[ir.Block, ir.Operation]:
        """A copy of the block in a holder of its own at the insertion point."""
        holder = ir.Operation.create(HOLDER, regions=1)
        Region(self.block.region).clone_into(holder.regions[0])
        return holder.regions[0].blocks[0], holder

    def primals(self) -> list[ir.Value]:
        """The values of the active arguments."""
        return [self.tensors[i].value for i in self.active]

    def value(self) -> Any:
        """The result of the function: a copy of the block, inlined. Duplicates are merged by nabla-simplify."""
        block, holder = self.clone()
        op = ad.JvpOp.build(self.primals(), [], block, [], []).op
        holder.erase()
        results = results_of(op)
        out = pytree.unflatten(self.out_spec, results[: self.count])
        if not self.has_aux:
            return out
        assert self.aux_spec is not None
        return out, pytree.unflatten(self.aux_spec, results[self.count :])


def _linearized(f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    body = _Body(f, primals, has_aux, "jvp")

    def push(*tangents: Any) -> Any:
        given = pytree.flatten_like(body.in_spec, tuple(tangents), "tangents", "the primals")
        seeds = {i: _seed("tangent", given[i], body.tensors[i], p)
                 for i, p in enumerate(pytree.paths(body.in_spec))}  # fmt: skip
        wrt = [k for k, i in enumerate(body.active) if seeds[i] is not None]
        block, holder = body.clone()
        values = [seeds[body.active[k]].value for k in wrt]  # type: ignore[union-attr]
        op = ad.JvpOp.build(body.primals(), values, block, wrt, body.of).op
        holder.erase()
        found = dict(zip(body.of, results_of(op)[len(body.outs) :], strict=True))
        return pytree.unflatten(body.out_spec, [found.get(i) for i in range(body.count)])

    return body.value(), push


def _seed(what: str, seed: Any, like: Tensor, path: str) -> Tensor | None:
    """A tangent or cotangent as a tensor like its primal; None for a zero or an integer primal."""
    if seed is None or not is_differentiable(like.dtype):
        return None
    weak = is_scalar(seed)
    tensor = as_tensor(seed, like.dtype if weak else None)
    if tensor.weak and tensor.dtype != like.dtype:
        tensor = as_tensor(tensor, like.dtype)
    if tensor.shape != like.shape:
        raise ShapeError(f"a {what} requires the shape of its primal, got {tensor.shape} for {like.shape} at {path}.",
                         where=user_frame())  # fmt: skip
    if tensor.dtype != like.dtype:
        raise DtypeError(f"a {what} requires the dtype of its primal, got {tensor.dtype} for {like.dtype} at {path}.",
                         where=user_frame(), help="convert it with astype.")  # fmt: skip
    return tensor


def _pullback(f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    body = _Body(f, primals, has_aux, "vjp")

    def pull(cotangent: Any) -> Any:
        given = pytree.flatten_like(body.out_spec, cotangent, "a cotangent", "the result")
        places = pytree.paths(body.out_spec)
        seeds = {i: _seed("cotangent", given[i], body.outs[i], places[i]) for i in body.of}
        of = [i for i in body.of if seeds[i] is not None]
        block, holder = body.clone()
        values = [seeds[i].value for i in of]  # type: ignore[union-attr]
        op = ad.VjpOp.build(body.primals(), values, block, range(len(body.active)), of).op
        holder.erase()
        found = dict(zip(body.active, results_of(op)[len(body.outs) :], strict=True))
        return pytree.unflatten(body.in_spec, [found.get(i) for i in range(len(body.tensors))])

    return body.value(), pull


def stop_gradient(x: Any) -> Any:
    """The value itself, whose derivative is zero; on every leaf of a pytree.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.grad(lambda x: x * nm.stop_gradient(x))(3.0))
      3.0
    """

    def run(x: Any) -> Any:
        leaves, spec = pytree.flatten(x)
        return pytree.unflatten(spec, [stop_gradient_op(as_tensor(leaf)) for leaf in leaves])

    return staged(run)(x)


# ---------------------------------------------------------------- vmap


def vmap(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None, axis_name: str | None = None
) -> Callable[..., Any]:
    """The function that applies `f` to each entry along an axis of its arguments.

    Args:
      f: any function of arrays.
      in_axes: the mapped axis of each positional argument: an int (negative counts from the end) or None (not
        mapped, shared by all entries), or a tuple of ints, None and pytrees of them that are prefixes of the
        arguments. Keyword arguments are mapped over axis 0.
      out_axes: where the mapped axis stands in the results; None for a result that does not vary.
      axis_size: the size, needed where no argument is mapped.
      axis_name: a name for the axis.

    Raises:
      ShapeError: mapped axes have different sizes; each argument is listed with its own.
      TreeError: in_axes or out_axes do not fit.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x, y: x * y, in_axes=(0, None))(np.arange(3.0), 2.0).tolist()
      [0.0, 2.0, 4.0]
    """

    @functools.wraps(f)
    def vmap_f(*args: Any, **kwargs: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            return _vmap(f, in_axes, out_axes, axis_size, axis_name, args, kwargs)

        return staged(run)(*args, **kwargs)

    return vmap_f


def _vmap(
    f: Callable[..., Any], in_axes: Any, out_axes: Any, axis_size: int | None, axis_name: str | None,
    args: tuple[Any, ...], kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise TreeError(f"vmap requires one entry of in_axes per positional argument, got {len(in_axes)} for "
                        f"{len(args)}.", where=user_frame())  # fmt: skip
    leaves, spec = pytree.flatten((args, kwargs))
    per_args = pytree.broadcast_prefix(in_axes, pytree.flatten(args)[1], "in_axes")
    per_kwargs = [0] * (len(leaves) - len(per_args))
    tensors = [as_tensor(leaf) for leaf in leaves]
    names = [_argument_name(f, path) for path in pytree.paths(spec)]
    places = [_place(axis, t, name) for axis, t, name in zip([*per_args, *per_kwargs], tensors, names, strict=True)]
    size = _common_size(places, tensors, names, axis_size)
    mapped = [i for i, place in enumerate(places) if place is not None]
    inner_specs = [Spec(_without(tensors[i].shape, places[i]), tensors[i].dtype) for i in mapped]
    box: dict[str, Any] = {}

    def body(*inner: Tensor) -> list[Any]:
        values: list[Any] = list(tensors)
        for i, value in zip(mapped, inner, strict=True):
            values[i] = value
        inner_args, inner_kwargs = pytree.unflatten(spec, values)
        out_leaves, box["spec"] = pytree.flatten(f(*inner_args, **inner_kwargs))
        return out_leaves

    block, holder, outs = trace_region(body, inner_specs, "the function given to vmap")
    per_out = pytree.broadcast_prefix(out_axes, box["spec"], "out_axes")
    out_places = [_out_place(axis, out) for axis, out in zip(per_out, outs, strict=True)]
    in_places = [[place] for place in places if place is not None]
    op = batch.VmapOp.build(
        [tensors[i].value for i in mapped], block, [axis_name or "i"], [size], in_places, [[p] for p in out_places]
    ).op
    holder.erase()
    return pytree.unflatten(box["spec"], results_of(op))


def _argument_name(f: Callable[..., Any], path: str) -> str:
    import inspect
    import re

    match = re.match(r"\[0\]\[(\d+)\](.*)", path)
    if match is None:
        return path.removeprefix("[1]")
    try:
        names = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        names = []
    i = int(match[1])
    return (names[i] if i < len(names) else f"argument {i}") + match[2]


def _place(axis: Any, x: Tensor, name: str) -> int | None:
    if axis is None:
        return None
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise TreeError(f"in_axes requires ints and None, got {axis!r} for {name}.", where=user_frame())
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"vmap requires an axis of its argument, got axis {axis} for {name} of shape {x.shape}.",
                         where=user_frame())  # fmt: skip
    return axis % x.ndim


def _common_size(places: list[int | None], tensors: list[Tensor], names: list[str], axis_size: int | None) -> int:
    sizes = {n: t.shape[p] for n, t, p in zip(names, tensors, places, strict=True) if p is not None}
    if axis_size is not None:
        sizes["axis_size"] = axis_size
    if not sizes:
        raise ShapeError("vmap requires a mapped argument or axis_size, got neither.", where=user_frame())
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}: {n}" for name, n in sizes.items())
        raise ShapeError(f"vmap requires mapped axes of one size, got {listed}.", where=user_frame(),
                         help="give None in in_axes for arguments that all entries share.")  # fmt: skip
    return next(iter(sizes.values()))


def _without(shape: tuple[int, ...], place: int | None) -> tuple[int, ...]:
    assert place is not None
    return shape[:place] + shape[place + 1 :]


def _out_place(axis: Any, out: Tensor) -> int:
    if axis is None:
        return batch.NOT_CARRIED
    rank = out.ndim + 1
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ShapeError(f"out_axes requires an axis of a result of rank {rank}, got {axis!r}.", where=user_frame())
    return axis % rank


# ---------------------------------------------------------------- Jacobians and Hessians


def _basis(x: Tensor) -> Tensor:
    """The unit vectors of the space of `x`: shape (x.size, *x.shape). Never a loop over them."""
    n = x.size
    rows = iota(shape=(n, n), dtype=np.dtype(np.int32), iota_dimension=0)
    columns = iota(shape=(n, n), dtype=np.dtype(np.int32), iota_dimension=1)
    return reshape(convert(compare(rows, columns, comparison_direction="EQ"), dtype=x.dtype), shape=(n, *x.shape))


def jacfwd(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """The Jacobian of `f` in forward mode: one vmap of jvp over the unit vectors of each argument leaf.

    Returns:
      A function whose result has, for each result leaf of shape S and argument leaf of shape A, a leaf of shape
      S + A; trees nest in that order. The emitted code does not grow with the sizes.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.jacfwd(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
      [[2.0, 0.0], [0.0, 4.0]]
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        chosen, leaves, spec = _active_arguments("jacfwd", args, argnums)
        tensors = [_differentiable("jacfwd", x, p) for x, p in zip(leaves, pytree.paths(spec), strict=True)]

        def g(*inner: Any) -> Any:
            return f(*_with_arguments(args, chosen, pytree.unflatten(spec, inner)), **kwargs)

        out, push = _linearized(g, tuple(tensors), has_aux)
        columns = []
        for k, x in enumerate(tensors):
            def along(v: Tensor, k: int = k) -> Any:
                return push(*(v if j == k else None for j in range(len(tensors))))

            columns.append(vmap(along, out_axes=-1)(_basis(x)))
        per_out = [pytree.flatten(c)[0] for c in columns]
        out_spec = pytree.flatten(columns[0])[1]
        rows = []
        for j in range(out_spec.num_leaves):
            blocks = [reshape(c[j], shape=(*c[j].shape[:-1], *x.shape)) for c, x in zip(per_out, tensors, strict=True)]
            rows.append(_by_argument(pytree.unflatten(spec, blocks), argnums))
        jacobian = pytree.unflatten(out_spec, rows)
        return (jacobian, out[1]) if has_aux else jacobian

    return functools.wraps(f)(lambda *args, **kwargs: staged(run)(*args, **kwargs))


def jacrev(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """The Jacobian of `f` in reverse mode: one vmap of the pullback over the unit vectors of each result leaf.

    The result is laid out as that of `jacfwd`.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.jacrev(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
      [[2.0, 0.0], [0.0, 4.0]]
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        chosen, leaves, spec = _active_arguments("jacrev", args, argnums)
        tensors = [_differentiable("jacrev", x, p) for x, p in zip(leaves, pytree.paths(spec), strict=True)]

        def g(*inner: Any) -> Any:
            return f(*_with_arguments(args, chosen, pytree.unflatten(spec, inner)), **kwargs)

        out, pull = _pullback(g, tuple(tensors), has_aux)
        value = out[0] if has_aux else out
        outs, out_spec = pytree.flatten(value)
        rows = []
        for k, y in enumerate(outs):
            _differentiable("the result of jacrev", y, pytree.paths(out_spec)[k])

            def along(ct: Tensor, k: int = k) -> Any:
                return pull(pytree.unflatten(out_spec, [ct if j == k else None for j in range(len(outs))]))

            cts = pytree.flatten(vmap(along)(_basis(y)))[0]
            blocks = [reshape(ct, shape=(*y.shape, *x.shape)) for ct, x in zip(cts, tensors, strict=True)]
            rows.append(_by_argument(pytree.unflatten(spec, blocks), argnums))
        jacobian = pytree.unflatten(out_spec, rows)
        return (jacobian, out[1]) if has_aux else jacobian

    return functools.wraps(f)(lambda *args, **kwargs: staged(run)(*args, **kwargs))


def _by_argument(blocks: tuple[Any, ...], argnums: Argnums) -> Any:
    return blocks[0] if isinstance(argnums, int) else blocks


_MODES = {"fwd": jacfwd, "rev": jacrev}


def hessian(f: Callable[..., Any], argnums: Argnums = 0, mode: str = "fwd_rev") -> Callable[..., Any]:
    """The Hessian of a scalar function: the Jacobian of the Jacobian.

    Args:
      mode: outer and inner mode: "fwd_rev" (the default, and the cheapest), "rev_rev", "rev_fwd" or "fwd_fwd".

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.hessian(lambda x: (x ** 3).sum())(np.array([1.0, 2.0])).tolist()
      [[6.0, 0.0], [0.0, 12.0]]
    """
    outer, _, inner = mode.partition("_")
    if outer not in _MODES or inner not in _MODES:
        raise TraceError(f"hessian requires mode fwd_rev, rev_rev, rev_fwd or fwd_fwd, got {mode!r}.", where=user_frame())
    return _MODES[outer](_MODES[inner](f, argnums), argnums)


def hvp(f: Callable[..., Any], argnums: int = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The Hessian-vector product ``(x, v) -> (d²f/dx²) v``: forward mode over the gradient.

    Args:
      f: a scalar function of x and further arguments.
      argnums: the position of x among the arguments of `f`.
      has_aux: whether `f` returns ``(value, aux)``; aux is dropped.

    Returns:
      A function of ``(x, v, *rest)``: x and v are pytrees of one structure, `rest` are the other arguments of `f`
      in order.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.hvp(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]), np.array([1.0, 1.0])).tolist()
      [6.0, 12.0]
    """

    def hvp_f(x: Any, v: Any, *rest: Any, **kwargs: Any) -> Any:
        def run(x: Any, v: Any, *rest: Any, **kwargs: Any) -> Any:
            def gradient(x: Any) -> Any:
                args = [*rest[:argnums], x, *rest[argnums:]]
                out = grad(f, argnums, has_aux)(*args, **kwargs)
                return out[0] if has_aux else out

            _, push = _linearized(gradient, (x,), False)
            return push(v)

        return staged(run)(x, v, *rest, **kwargs)

    return functools.wraps(f)(hvp_f)
