"""Linear maps of a function at a point: jvp, linearize, vjp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir import pytree
from nabla_mlir.dialects import ad
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.eager import jit, staged
from nabla_mlir.errors import TreeError, user_frame
from nabla_mlir.ops.promotion import as_tensor
from nabla_mlir.ops.registry import Region
from nabla_mlir.ops.tensor import Tensor
from nabla_mlir.tracing import HOLDER, current_trace, results_of, trace_region
from nabla_mlir.transforms.arguments import seed_of, specs_of
from nabla_mlir.vectorized import per_entry


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
        out, tangent = pushed(f, primals, tangents, has_aux)
        return (out[0], tangent, out[1]) if has_aux else (out, tangent)

    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TreeError("jvp requires primals and tangents as tuples of arguments, got "
                        f"{type(primals).__name__} and {type(tangents).__name__}.", where=user_frame())  # fmt: skip
    return staged(per_entry(run, run))(tuple(primals), tuple(tangents))


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``f(x)`` and the linear function ``t -> df/dx · t`` at that x, which can be called many times.

    Example:
      >>> import nabla_mlir as nm
      >>> y, push = nm.linearize(lambda x: x * x, 3.0)
      >>> float(push(1.0)), float(push(2.0))
      (6.0, 12.0)
    """
    if current_trace() is not None:
        return linearized(f, primals, has_aux)
    return _eager_pair(linearized, f, primals, has_aux)


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
        out, pull = pullback(f, primals, has_aux)
        return (out[0], pull, out[1]) if has_aux else (out, pull)
    out, pull = _eager_pair(pullback, f, primals, has_aux)
    return (out[0], pull, out[1]) if has_aux else (out, pull)


def _eager_pair(make: Callable[..., Any], f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    """Outside a trace: the value now, and a compiled function of primals and seed for every later call."""
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

        specs = specs_of([self.tensors[i] for i in self.active])
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
        return self.result(results_of(op))

    def result(self, outs: Sequence[Tensor]) -> Any:
        """The result of the function, or (result, aux), from the leaves of both."""
        out = pytree.unflatten(self.out_spec, outs[: self.count])
        if not self.has_aux:
            return out
        assert self.aux_spec is not None
        return out, pytree.unflatten(self.aux_spec, outs[self.count : len(self.outs)])

    def push(self, tangents: Any) -> Any:
        """The result, and the tangents of it for tangents of the arguments."""
        given = pytree.flatten_like(self.in_spec, tuple(tangents), "tangents", "the primals")
        seeds = {i: seed_of("tangent", given[i], self.tensors[i], p)
                 for i, p in enumerate(pytree.paths(self.in_spec))}  # fmt: skip
        wrt = [k for k, i in enumerate(self.active) if seeds[i] is not None]
        block, holder = self.clone()
        values = [seeds[self.active[k]].value for k in wrt]  # type: ignore[union-attr]
        op = ad.JvpOp.build(self.primals(), values, block, wrt, self.of).op
        holder.erase()
        results = results_of(op)
        found = dict(zip(self.of, results[len(self.outs) :], strict=True))
        return self.result(results), pytree.unflatten(self.out_spec, [found.get(i) for i in range(self.count)])


def pushed(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool) -> Any:
    """The result of `f` and its tangent, by one operation."""
    return _Body(f, tuple(primals), has_aux, "jvp").push(tangents)


def linearized(f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    """`linearize` inside a trace: f(x) and the function of tangents, each call of which emits an `ad.jvp`."""
    body = _Body(f, primals, has_aux, "jvp")
    return body.value(), lambda *tangents: body.push(tangents)[1]


def pullback(f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    """`vjp` inside a trace: f(x) and the pullback, each call of which emits an `ad.vjp`."""
    body = _Body(f, primals, has_aux, "vjp")

    def pull(cotangent: Any) -> Any:
        given = pytree.flatten_like(body.out_spec, cotangent, "a cotangent", "the result")
        places = pytree.paths(body.out_spec)
        seeds = {i: seed_of("cotangent", given[i], body.outs[i], places[i]) for i in body.of}
        of = [i for i in body.of if seeds[i] is not None]
        block, holder = body.clone()
        values = [seeds[i].value for i in of]  # type: ignore[union-attr]
        op = ad.VjpOp.build(body.primals(), values, block, range(len(body.active)), of).op
        holder.erase()
        found = dict(zip(body.active, results_of(op)[len(body.outs) :], strict=True))
        return pytree.unflatten(body.in_spec, [found.get(i) for i in range(len(body.tensors))])

    return body.value(), pull
