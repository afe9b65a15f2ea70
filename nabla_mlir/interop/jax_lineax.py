"""Linear solves of Lineax, for the import of functions of JAX; their factors have no derivatives."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from nabla_mlir.interop.jax_calls import Call, Part, positions_of, primitive_call


def solve_of_lineax(primitive: Any, params: Any, avals: Sequence[Any], outputs: Sequence[Any]) -> Call:
    """The description of a solve of Lineax for the import.

    It is a linear solve if the matrix is square with full rank, otherwise a call with the rule for least squares.

    Args:
      primitive: the primitive of Lineax.
      params: the parameters of the call: the structure of its arguments, and the arguments that are not arrays.
      avals, outputs: the shapes and dtypes of the arguments and of the results.
    """
    inner = sys.modules["equinox.internal._primitive"]
    operator, state, vector, *_ = (child.num_leaves for child in params["treedef"].children())
    # The leaves that are arrays, then the arguments that belong to the right-hand side.
    arrays = [i for i, x in enumerate(params["static"]) if x is inner._missing_dynamic]
    right = [i for i, position in enumerate(arrays) if operator + state <= position < operator + state + vector]
    constants = [i for i in range(len(avals)) if i not in right]
    same = [(a.shape, a.dtype) for a in outputs[: len(right)]] == [(avals[i].shape, avals[i].dtype) for i in right]
    solver = _arguments(params, avals)[4]
    if not same or not solver.assume_full_rank():
        wrt = [i for i in positions_of(avals) if i in right or arrays[i] < operator]
        name = str(([str(a) for a in avals], params["treedef"], params["static"]))
        call = primitive_call(primitive, params, avals, outputs, wrt, name)
        call.key = _key(params, avals, wrt)
        return call

    def region(work: Callable[..., Any]) -> Part:
        """A part of the linear solve: `work` as a function of the constants, followed by the right-hand side."""

        def of_vector(*values: Any) -> list[Any]:
            """The results of `work`, after the values are put in the order of the call's arguments."""
            by_position = dict(zip([*constants, *right], values, strict=True))
            return work([by_position[i] for i in range(len(avals))])

        return Part(of_vector, lambda: [avals[i] for i in (*constants, *right)], primitive)

    works = (_product, _transposed_product, _solution, _transposed_solution)
    parts = [region(functools.partial(work, primitive, params)) for work in works]
    return Call("ad.linear_solve", parts=parts, consts=(len(constants),) * 4, order=(*constants * 4, *right))


def _key(params: Any, avals: Sequence[Any], wrt: Sequence[int]) -> Hashable:
    """A hashable key that is equal for calls of Lineax with the same functions and shapes; None if the call cannot be hashed.

    `params` are the parameters of the call, `avals` the types of its arguments, and `wrt` the differentiated ones.
    """
    key = (params["treedef"], params["static"], tuple(map(type, params["static"])), tuple(avals), tuple(wrt))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _arguments(params: Any, values: Sequence[Any]) -> Any:
    """The operator, its state, the right-hand side, the options, the solver, and the flag for errors of a linear solve.

    `params` are the parameters of the call, and `values` its arrays.
    """
    import jax

    return jax.tree.unflatten(params["treedef"], sys.modules["equinox.internal._primitive"]._combine(values, params["static"]))


def _product(primitive: Any, params: Any, values: Sequence[Any]) -> list[Any]:
    """The product of the operator with the vector in place of the right-hand side, as leaves; `primitive` is not used.

    `params` and `values` are the parameters and the arrays of JAX's call, which hold the operator and the vector.
    """
    import jax

    operator, _, x, *_ = _arguments(params, values)
    return jax.tree.leaves(operator.mv(x))


def _transposed_product(primitive: Any, params: Any, values: Sequence[Any]) -> list[Any]:
    """The product of the transposed operator with the vector in place of the right-hand side, as leaves; `primitive` is not used.

    `params` and `values` are the parameters and the arrays of JAX's call, which hold the operator and the vector.
    """
    import jax

    operator, _, x, *_ = _arguments(params, values)
    return jax.tree.leaves(operator.transpose().mv(x))


def _solution(primitive: Any, params: Any, values: Sequence[Any]) -> list[Any]:
    return list(primitive.bind(*values, **params))


def _transposed_solution(primitive: Any, params: Any, values: Sequence[Any]) -> list[Any]:
    """The solution of the transposed system, as leaves; `primitive` is Lineax's primitive of a linear solve."""
    import equinox.internal
    import jax

    operator, state, x, options, solver, _ = _arguments(params, values)
    state, options = solver.transpose(state, options)
    bind = equinox.internal.filter_primitive_bind
    return jax.tree.leaves(bind(primitive, operator.transpose(), state, x, options, solver, True)[0])
