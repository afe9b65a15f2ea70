"""Linear maps of a function at a point: jvp, linearize, vjp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import TreeError, check_function, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects import ad
from nabla_mlir.dialects.ad_rules import CUSTOM
from nabla_mlir.dialects.regions import nested, scratch_op
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.staging.eager import Halves, as_inputs, staged
from nabla_mlir.staging.specs import Spec, as_spec
from nabla_mlir.staging.tracing import current_trace, is_tracing, results_of, stands_for, trace_function, trace_region
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.registry import Region, zeros
from nabla_mlir.table.tensor import CALL_INSIDE, Tensor, current_scope, full
from nabla_mlir.transforms.arguments import seed_array, seed_of, specs_of
from nabla_mlir.transforms.vectorized import per_vectorized_entry


def jvp(
    fun: Callable[..., Any], primals: Sequence[PyTree], tangents: Sequence[PyTree], has_aux: bool = False
) -> tuple[PyTree, ...]:
    """The pair ``(fun(x), df/dx · t)``, by forward mode.

    Args:
      fun: any function of arrays.
      primals: its arguments, a tuple or list of pytrees.
      tangents: like `primals`, with the same shapes and dtypes. None means a zero tangent, and is the tangent of an integer.
      has_aux: True if `fun` returns ``(out, aux)``; the result is then ``(out, tangent, aux)``.

    Raises:
      TreeError, ShapeError, DtypeError: the tangents do not fit the primals.

    Example:
      >>> import nabla_mlir as nm
      >>> y, dy = nm.jvp(lambda x: x * x, (3.0,), (1.0,))
      >>> float(dy)
      6.0
    """

    def run(primals: Any, tangents: Any) -> Any:
        out, tangent = pushed(fun, primals, tangents, has_aux)
        return (out[0], tangent, out[1]) if has_aux else (out, tangent)

    check_function("jvp", fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TreeError(
            "jvp requires primals and tangents as tuples of arguments, got "
            f"{type(primals).__name__} and {type(tangents).__name__}.",
            where=user_frame(),
        )
    return staged(per_vectorized_entry(run, run))(tuple(primals), tuple(tangents))


def linearize(fun: Callable[..., Any], *primals: PyTree, has_aux: bool = False) -> Any:
    """The value ``fun(x)`` and the linear function ``t -> df/dx · t`` at this x, which can be called many times.

    Outside a trace, `fun` runs once. The residuals for the linear function stay on the device, and each call computes only
    the part that depends on t (see the pass nabla-split).

    Args:
      fun: any function of arrays.
      *primals: its arguments, pytrees.
      has_aux: True if `fun` returns ``(out, aux)``; the result is then ``(out, linear function, aux)``.

    Example:
      >>> import nabla_mlir as nm
      >>> y, push = nm.linearize(lambda x: x * x, 3.0)
      >>> float(push(1.0)), float(push(2.0))
      (6.0, 12.0)
    """
    check_function("linearize", fun)
    if current_trace() is not None:
        out, push = linearized(fun, primals, has_aux)
    else:
        point = _AtPoint("jvp", fun, primals, has_aux)
        out, push = point.value, point.push
    return (out[0], push, out[1]) if has_aux else (out, push)


def vjp(fun: Callable[..., Any], *primals: PyTree, has_aux: bool = False) -> Any:
    """The value ``fun(x)`` and the pullback ``ct -> ct · df/dx``, which can be called many times; `fun` runs once.

    Args:
      fun: any function of arrays.
      primals: its arguments, pytrees; cotangents of integer leaves are None.
      has_aux: True if `fun` returns ``(out, aux)``; the result is then ``(out, pullback, aux)``.

    Returns:
      The result, and a function from a cotangent of the result to a tuple with one cotangent for each argument.

    Example:
      >>> import nabla_mlir as nm
      >>> y, pull = nm.vjp(lambda x, y: x * y, 3.0, 4.0)
      >>> [float(ct) for ct in pull(1.0)]
      [4.0, 3.0]
    """
    check_function("vjp", fun)
    if current_trace() is not None:
        out, pull = pullback(fun, primals, has_aux)
    else:
        point = _AtPoint("vjp", fun, primals, has_aux)
        out, pull = point.value, point.pull
    return (out[0], pull, out[1]) if has_aux else (out, pull)


class _Seed:
    """A placeholder of a tangent or cotangent while a function is traced. Each object is one argument of the trace."""


class _AtPoint:
    """The result of `linearize` or `vjp` outside a trace: the value, and a compiled linear function for later calls."""

    def __init__(self, what: str, f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool):
        """Linearises `f` at the point: the first half of the split program runs now, the second for each vector."""
        self.forward = what == "jvp"
        leaves, in_spec = pytree.flatten(tuple(primals))
        specs = [as_spec(leaf) for leaf in leaves]

        def flat(*tensors: Tensor) -> list[Tensor]:
            """The derivative of `f` at the point with these leaves, along its seeds."""
            return self._trace_linear(_Body(f, pytree.unflatten(in_spec, tensors), has_aux, what))

        arrays = as_inputs(leaves, [s.dtype for s in specs])
        module, captures = trace_function(flat, specs, "main", arrays=arrays)
        lower_module(module)
        inputs = [*arrays, *captures]
        points = [i for i, x in enumerate(inputs) if not isinstance(x, _Seed)]
        self._point = Halves(module, points).at([inputs[i] for i in points])

    def __repr__(self) -> str:
        return "a function at a point"

    def _trace_linear(self, body: _Body) -> list[Tensor]:
        """The leaves of the value of the function, then those of the linear function, in the open trace.

        The tangents or cotangents to which it is applied become arguments of the trace, marked by `_Seed`.
        """
        trace = current_trace()
        assert trace is not None
        outs, self.out_spec = pytree.flatten(body.value())
        self.count = len(outs)
        spec = body.in_spec if self.forward else body.out_spec
        # As a tree of arrays: vectorised tensors and vectorised arrays are nodes of different kinds.
        self.seed_spec = pytree.flatten_any(pytree.unflatten(spec, [0] * spec.num_leaves))[1]
        primals = {i: body.tensors[i] for i in body.active} if self.forward else {i: body.outs[i] for i in body.of}
        self.likes = {i: Spec(t.shape, t.dtype) for i, t in primals.items()}
        seeds = {i: trace.capture(_Seed(), like.shape, like.dtype) for i, like in self.likes.items()}
        tree = pytree.unflatten(self.seed_spec, [seeds.get(i) for i in range(self.seed_spec.num_leaves)])
        linear, self.linear_spec = pytree.flatten(body.push(tree)[1] if self.forward else body.pull(tree))
        return [*outs, *linear]

    @property
    def value(self) -> Any:
        """The result of the function, or (result, aux)."""
        return pytree.unflatten(self.out_spec, [self._point.early[i] for i in range(self.count)])

    def push(self, *tangents: Any) -> Any:
        """The tangents of the result."""
        return self._apply("tangent", pytree.flatten_like(self.seed_spec, tangents, "tangents", "the primals"))

    def pull(self, cotangent: Any) -> Any:
        """The cotangents of the arguments."""
        return self._apply("cotangent", pytree.flatten_like(self.seed_spec, cotangent, "a cotangent", "the result"))

    def _apply(self, word: str, seeds: list[Any]) -> Any:
        """The linear function, applied to the leaves `seeds` of a tangent or cotangent; `word` says which of them, for errors."""
        paths = pytree.paths(self.seed_spec)
        results = self._point([_seed(word, seeds[i], like, paths[i]) for i, like in self.likes.items()])
        return pytree.unflatten(self.linear_spec, [results[self.count + k] for k in range(self.linear_spec.num_leaves)])


def _seed(what: str, seed: Any, like: Spec, path: str) -> Any:
    """A tangent or cotangent with the type of its primal `like`: a tensor inside a trace, and an array outside; zeros if `seed` is
    None.

    `what` ("tangent" or "cotangent") and `path` are for errors.
    """
    if not is_tracing():
        return seed_array(what, seed, like, path)
    tensor = seed_of(what, seed, like, path)
    return full(like.shape, 0, like.dtype) if tensor is None else tensor


class _Body:
    """A function that is traced once. Its block is cloned into each of its derivatives."""

    def __init__(self, f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool, what: str, tangents: Any = None):
        """Traces `f` at `primals`.

        Args:
          f: the function.
          primals: its arguments, pytrees.
          has_aux: True if `f` returns a pair (out, aux).
          what: the name of the transform, for errors.
          tangents: pytrees like the primals; a leaf whose tangent is None is known not to be differentiated.
        """
        self.what, self.has_aux, self.scope = what, has_aux, current_scope()
        self.f = f
        self.leaves, self.in_spec = pytree.flatten(tuple(primals))
        self.tensors = [as_tensor(leaf) for leaf in self.leaves]
        self.active = [i for i, t in enumerate(self.tensors) if is_differentiable(t.dtype)]
        aux_spec = None
        seeds = None if tangents is None else pytree.flatten_like(self.in_spec, tuple(tangents), "tangents", "the primals")

        def body(*inner: Tensor) -> list[Any]:
            """The leaves of the result of the function, and of aux; `inner` are new values for the differentiated leaves of its
            arguments.
            """
            nonlocal aux_spec
            values: list[Any] = list(self.tensors)
            for i, value in zip(self.active, inner, strict=True):
                values[i] = value
                if seeds is not None and seeds[i] is None:
                    stands_for(value, self.tensors[i])
            out = f(*pytree.unflatten(self.in_spec, values))
            aux: list[Any] = []
            if has_aux:
                if not isinstance(out, tuple) or len(out) != 2:
                    raise TreeError(
                        f"has_aux requires that the function returns (out, aux), got {type(out).__name__}.", where=user_frame()
                    )
                out, aux_tree = out
                aux, aux_spec = pytree.flatten(aux_tree)
            leaves, self.out_spec = pytree.flatten(out)
            self.count = len(leaves)
            return [*leaves, *aux]

        active = [self.tensors[i] for i in self.active]
        self.block, _, self.outs = trace_region(body, specs_of(active), f"the function given to {what}", True, active)
        self.aux_spec = aux_spec
        self.of = [i for i, out in enumerate(self.outs[: self.count]) if is_differentiable(out.dtype)]

    def clone(self) -> ir.Block:
        """A copy of the block, for a new operation that holds it."""
        holder = scratch_op(detached=True)
        Region(self.block.region).clone_into(holder.regions[0])
        return holder.regions[0].blocks[0]

    def check_open(self) -> None:
        """Raises LeakedTracerError if the trace of the function has ended."""
        if self.scope is not None:
            self.scope.check_open(f"the linear function of {self.what}", self.f, CALL_INSIDE)

    def primals(self) -> list[ir.Value]:
        """The values of the active arguments."""
        return [self.tensors[i].value for i in self.active]

    def value(self) -> Any:
        """The result of the function: a copy of the block, inlined. Duplicates are merged by nabla-simplify.

        If the function has custom rules, this is the value that the rules return, as in JAX, and later derivatives follow them.
        """
        block = self.clone()
        is_ruled = any(inner.name in CUSTOM for inner in nested(block.owner.operation))
        op = self._derivative_with_rules(block) if is_ruled else ad.JvpOp.build(self.primals(), [], block, [], []).op
        return self.result(results_of(op, self.outs))

    def _derivative_with_rules(self, block: ir.Block) -> ir.Operation:
        """An operation that differentiates the block with zero tangents or cotangents, of which only the value of the function is
        used.
        """
        if self.what == "jvp":
            tangents = [zeros(self.tensors[i]).value for i in self.active]
            return ad.JvpOp.build(self.primals(), tangents, block, range(len(self.active)), self.of).op
        cotangents = [zeros(self.outs[i]).value for i in self.of]
        return ad.VjpOp.build(self.primals(), cotangents, block, range(len(self.active)), self.of).op

    def result(self, outs: Sequence[Tensor]) -> Any:
        """The result of the function, or the pair (result, aux), from the leaves `outs` of both."""
        out = pytree.unflatten(self.out_spec, outs[: self.count])
        if not self.has_aux:
            return out
        assert self.aux_spec is not None
        return out, pytree.unflatten(self.aux_spec, outs[self.count : len(self.outs)])

    def push(self, tangents: Any) -> Any:
        """The result, and its tangents, for tangents of the arguments."""
        self.check_open()
        leaves = pytree.flatten_like(self.in_spec, tuple(tangents), "tangents", "the primals")
        seeds = {i: seed_of("tangent", leaves[i], self.tensors[i], p) for i, p in enumerate(pytree.paths(self.in_spec))}
        wrt = [k for k, i in enumerate(self.active) if seeds[i] is not None]
        block = self.clone()
        values = [seeds[self.active[k]].value for k in wrt]  # type: ignore[union-attr]
        op = ad.JvpOp.build(self.primals(), values, block, wrt, self.of).op
        results = results_of(op, [*self.outs, *(self.outs[i] for i in self.of)])
        by_position = dict(zip(self.of, results[len(self.outs) :], strict=True))
        return self.result(results), pytree.unflatten(self.out_spec, [by_position.get(i) for i in range(self.count)])

    def pull(self, cotangent: Any) -> Any:
        """The cotangents of the arguments for a cotangent of the result."""
        self.check_open()
        leaves = pytree.flatten_like(self.out_spec, cotangent, "a cotangent", "the result")
        positions = pytree.paths(self.out_spec)
        seeds = {i: seed_of("cotangent", leaves[i], self.outs[i], positions[i]) for i in self.of}
        with_seeds = [i for i in self.of if seeds[i] is not None]
        block = self.clone()
        values = [seeds[i].value for i in with_seeds]  # type: ignore[union-attr]
        op = ad.VjpOp.build(self.primals(), values, block, range(len(self.active)), with_seeds).op
        results = results_of(op, [*self.outs, *(self.tensors[i] for i in self.active)])
        by_position = dict(zip(self.active, results[len(self.outs) :], strict=True))
        return pytree.unflatten(self.in_spec, [by_position.get(i) for i in range(len(self.tensors))])


def pushed(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool) -> Any:
    """The result of `f` and its tangent, by one operation."""
    return _Body(f, tuple(primals), has_aux, "jvp", tangents).push(tangents)


def linearized(f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    """The result of `linearize` inside a trace: f(x), and a function of tangents that emits an `ad.jvp` at each call.

    `primals` are the arguments x.
    """
    body = _Body(f, primals, has_aux, "jvp")
    return body.value(), lambda *tangents: body.push(tangents)[1]


def pullback(f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    """The result of `vjp` inside a trace: f(x), and the pullback, which emits an `ad.vjp` at each call.

    `primals` are the arguments x.
    """
    body = _Body(f, primals, has_aux, "vjp")
    return body.value(), body.pull
