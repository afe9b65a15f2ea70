"""Implicit differentiation: solutions of equations, differentiated by the equation, not through the solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, TreeError, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.stablehlo import Bool
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.ops.autodiff import stop_gradient as stop_gradient_op
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import current_trace, results_of, trace_region
from nabla_mlir.table.promotion import adopted, as_tensor
from nabla_mlir.table.regions import body_of, captures_of, clone_body
from nabla_mlir.table.tensor import Tensor, wrap
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.gradients import stop_gradient
from nabla_mlir.transforms.linear import jvp, vjp
from nabla_mlir.transforms.symbolic_zeros import SymbolicZero
from nabla_mlir.transforms.vectorized import per_vectorized_entry

Linear = Callable[[Any], Any]


def custom_linear_solve(
    matvec: Linear,
    b: PyTree,
    solve: Callable[[Linear, Any], Any],
    transpose_solve: Callable[[Linear, Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> PyTree:
    """The solution x of ``matvec(x) = b``, found by `solve` and differentiated implicitly: dx = A^-1 (db - dA x).

    Args:
      matvec: a linear function of a pytree like `b`. Values that it uses from outside may be differentiated.
      b: the right-hand side, a pytree of floating-point arrays.
      solve: ``solve(matvec, b) -> x``; any code, also code without derivative (loops until convergence).
      transpose_solve: ``transpose_solve(vecmat, b) -> x`` for the transposed system; needed in reverse mode.
      symmetric: True if the matrix is symmetric; `solve` then also solves the transposed system.
      has_aux: True if the solvers return ``(x, aux)``; so does this function then. aux has no derivative.

    Raises:
      TreeError: the result of matvec or of a solver differs from `b` in its type.

    Example:
      >>> import nabla_mlir as nm
      >>> def root(a):
      ...     return nm.custom_linear_solve(lambda x: a * x, 6.0, lambda _, b: b / a, symmetric=True)
      >>> float(root(2.0)), float(nm.grad(root)(2.0))
      (3.0, -1.5)
    """
    if has_aux:
        transposed_alone = None if transpose_solve is None else _without_aux(transpose_solve)
        x = custom_linear_solve(matvec, b, _without_aux(solve), transposed_alone, symmetric)
        return x, stop_gradient(solve(matvec, stop_gradient(b))[1])

    def run(b: Any) -> Any:
        """The solution for `b`: the result of an emitted `ad.linear_solve`, or of `solve` if values are computed at once."""
        leaves, spec = pytree.flatten(b)
        tensors = [as_tensor(leaf) for leaf in leaves]
        for t in tensors:
            if not is_differentiable(t.dtype):
                raise DtypeError(f"custom_linear_solve requires b of floating point, got {t.dtype}.", where=user_frame())
        specs = [Spec(t.shape, t.dtype) for t in tensors]
        trace = current_trace()
        if trace is not None and trace.is_value:
            return pytree.unflatten(spec, _check_like_b("solve", spec, tensors, solve(matvec, b)))

        def region(what: str, f: Callable[[Any], Any]) -> ir.Block:
            """The block of the function `f` of a vector like b, whose result must be like b; `what` names it for errors."""

            def body(*inner: Tensor) -> list[Tensor]:
                """The result of the function for a vector with these leaves, checked to be like b."""
                return _check_like_b(what, spec, tensors, f(pytree.unflatten(spec, inner)))

            return trace_region(body, specs, what)[0]

        def vecmat(x: Any) -> Any:  # the product of the transposed matrix with x
            return vjp(matvec, x)[1](x)[0]

        def transposed(x: Any) -> Any:  # the solution of the transposed system for the right-hand side x
            return solve(matvec, x) if transpose_solve is None else transpose_solve(vecmat, x)

        blocks = [region("matvec", matvec), region("solve", lambda x: solve(matvec, x)), region("transpose_solve", transposed)]
        transposable = Bool.encode(symmetric or transpose_solve is not None)
        op = stablehlo.emit(
            "ad.linear_solve",
            [t.value for t in tensors],
            results=[t.value.type for t in tensors],
            attributes={"transposable": transposable},
            regions=len(blocks),
        )
        for target, block in zip(op.regions, blocks, strict=True):
            block.append_to(target)
        return pytree.unflatten(spec, results_of(op))

    return staged(per_vectorized_entry(run))(b)


def _check_like_b(what: str, spec: pytree.TreeSpec, likes: list[Tensor], out: Any) -> list[Tensor]:
    """The leaves of `out` as tensors; raises TreeError unless `out` has the type of the right-hand side b.

    `spec` and `likes` are the structure and the leaves of b, and `what` names the function that returned `out`.
    """
    leaves, got = pytree.flatten(out)
    tensors = [adopted(x, like.dtype) for x, like in zip(leaves, likes, strict=False)]
    if got != spec or [(t.shape, t.dtype) for t in tensors] != [(t.shape, t.dtype) for t in likes]:
        lines = [
            str(pytree.unflatten(s, [str(Spec(t.shape, t.dtype)) for t in ts])).replace("'", "")
            for s, ts in ((got, tensors), (spec, likes))
        ]
        raise TreeError(
            f"custom_linear_solve requires of {what} a result like b, got {lines[0]} instead of {lines[1]}.", where=user_frame()
        )
    return tensors


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: PyTree,
    solve: Callable[[Callable[..., Any], Any], Any],
    tangent_solve: Callable[[Linear, Any], Any],
    has_aux: bool = False,
) -> PyTree:
    """The solution x of ``f(x) = 0``, found by `solve` and differentiated by the implicit function theorem.

    If f depends on parameters p from outside: dx = -(df/dx)^-1 (df/dp) dp, at the solution.

    Args:
      f: a function from a pytree like `initial_guess` to one of the same type.
      initial_guess: the start of `solve`; the derivative by it is zero.
      solve: ``solve(f, initial_guess) -> x``; any code, also a loop until convergence, which is not differentiated.
      tangent_solve: ``tangent_solve(g, y) -> x`` with g(x) = y for the linear function g; for scalars
        ``lambda g, y: y / g(1.0)``. It is differentiated, so for reverse mode it must not contain loops of unknown length;
        use `custom_linear_solve` there.
      has_aux: True if `solve` returns ``(x, aux)``; so does this function then. aux has no derivative.

    Example:
      >>> import nabla_mlir as nm
      >>> def newton(f, x):
      ...     return nm.fori_loop(0, 20, lambda _, x: x - f(x) / nm.grad(f)(x), x)
      >>> def sqrt(a):
      ...     return nm.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
      >>> float(sqrt(4.0)), float(nm.grad(sqrt)(4.0))
      (2.0, 0.25)
    """

    def run(guess: Any) -> Any:
        """Emits the search for the root, and a rule that differentiates the equation at the root."""
        leaves, spec = pytree.flatten(guess)
        start = [stop_gradient_op(as_tensor(leaf)) for leaf in leaves]
        start_tree = pytree.unflatten(spec, [as_tensor(x, x.dtype) for x in start])
        g, parameters = _close_over(f, start_tree)

        # The captures of the solver influence the path to the root, but not the root.
        search, outside = _close_over(lambda p: solve(lambda x: g(x, p), start_tree), tuple(parameters))
        fixed = [stop_gradient_op(x) for x in outside]

        def solution(*parameters: Any) -> Any:  # the root, as a function of the values that `f` captures
            return search(parameters, fixed)

        def rule(primals: Any, tangents: Any) -> Any:
            """The root, and its tangent -(dg/dx)^-1 (dg/dp) dp, where p are the parameters that `f` captures."""
            found = root(*primals)
            x = found[0] if has_aux else found
            _, rhs = jvp(lambda *p: g(x, p), primals, tangents)
            step = tangent_solve(lambda v: jvp(lambda x: g(x, primals), (x,), (v,))[1], rhs)
            steps, out_spec = pytree.flatten(step)
            dx = pytree.unflatten(out_spec, [-as_tensor(s) for s in steps])
            return found, (dx, _symbolic_zeros(found[1])) if has_aux else dx

        root = custom_jvp(solution)
        root.defjvp(rule)
        return root(*parameters)

    return staged(per_vectorized_entry(run))(initial_guess)


def _without_aux(solve: Callable[[Linear, Any], Any]) -> Callable[[Linear, Any], Any]:
    """A solver that returns the solution alone."""
    return lambda matvec, b: solve(matvec, b)[0]


def _symbolic_zeros(tree: Any) -> Any:
    """A tree with a symbolic zero for each leaf."""
    leaves, spec = pytree.flatten(tree)
    return pytree.unflatten(spec, [SymbolicZero.of(x) for x in leaves])


def _close_over(f: Callable[[Any], Any], example: Any) -> tuple[Callable[[Any, Any], Any], list[Tensor]]:
    """The function `f` with its captures as a second argument, and these captures.

    `example` is an argument of `f`, whose shapes and dtypes are used.
    """
    leaves, spec = pytree.flatten(example)
    out: dict[str, Any] = {}

    def body(*inner: Tensor) -> list[Any]:
        """The leaves of the result for the leaves of the argument; also notes the structure of the result."""
        results, out["spec"] = pytree.flatten(f(pytree.unflatten(spec, inner)))
        return results

    specs = [Spec(x.shape, x.dtype) for x in leaves]
    block, holder, _ = trace_region(body, specs, "the function given to custom_root")
    captures = captures_of(holder)

    def g(x: Any, parameters: Any) -> Any:
        """The result of the traced function at `x`, with `parameters` in place of the values that it captured."""
        arguments, ops, outputs = body_of(block.region)
        values = [as_tensor(leaf) for leaf in pytree.flatten(x)[0]]
        tensors = [as_tensor(p) for p in parameters]
        mapping = {a: v.value for a, v in zip([*arguments, *captures], [*values, *tensors], strict=True)}
        clone_body(ops, mapping)
        return pytree.unflatten(out["spec"], [wrap(mapping.get(v, v)) for v in outputs])

    return g, [wrap(v) for v in captures]
