"""Jacobians, Hessians and Hessian-vector products, as maps over unit vectors.

The pass nabla-transform (nabla_mlir/passes/transform.py) has a second implementation, for functions that are IR already. It
builds the operations that traces of `vmap`, `linearized` and `pullback` build here. The code around them differs: trees, named
axes and checks here, blocks and types there. So a common loop would be longer than the two.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, ShapeError, TraceError, TreeError, check_function, user_frame
from nabla_mlir.dialects.types import is_complex, is_differentiable, is_float
from nabla_mlir.ops.shape import reshape, transpose
from nabla_mlir.staging.positions import Argnums, is_one, parameters_of, positions
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.transforms.arguments import active_arguments, differentiable, own, with_arguments
from nabla_mlir.transforms.gradients import grad
from nabla_mlir.transforms.linear import linearized, pullback, pushed
from nabla_mlir.transforms.unit_vectors import checked_batch_size, over_unit_vectors, shown
from nabla_mlir.transforms.vectorized import entrywise, summed_entries
from nabla_mlir.transforms.vectorized_trees import axes_of_leaves


def jacfwd(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    vectorized: str = "union",
    batch_size: int | None = None,
) -> Callable[..., Any]:
    """The Jacobian of `fun` by forward mode: one vmap of jvp over the unit vectors of each argument leaf.

    Args:
      fun: a function with floating-point results.
      argnums: the positional argument(s) to differentiate; a sequence gives a tuple for each result leaf.
      has_aux: True if `fun` returns ``(out, aux)``; the new function then returns ``(jacobian, aux)``.
      holomorphic: True if `fun` is complex-differentiable; needed for complex arguments (`jacrev`: for complex results).
      vectorized: for vectorised tensors, as in `value_and_grad`. "union" means the Jacobian of each entry. "parameter" means
        that of the sums over all entries of the results; it has the axes of its argument.
      batch_size: the number of unit vectors that are mapped over at once, in a loop over such blocks. The default is all of
        them, or as many as fit if their values need more than a gibibyte (`thresholds.UNIT_VECTOR_MEMORY`). The numbers are
        the same.

    Returns:
      A function whose result has, for each result leaf of shape S and argument leaf of shape A, a leaf of shape
      S + A; trees nest in that order. The emitted code does not grow with the sizes.

    Raises:
      DtypeError: an argument or a result is not floating-point, or is complex where it must not be.
      TraceError: a position of argnums does not exist.
      ShapeError: `batch_size` is below 1.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.jacfwd(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
      [[2.0, 0.0], [0.0, 4.0]]
    """
    size = checked_batch_size("jacfwd", batch_size)

    def rows_of(call: _Call) -> Any:
        """The Jacobian, and the value of the function: one derivative along each unit vector of each argument.

        `call` holds the function and the leaves of its differentiated arguments.
        """
        out, push = linearized(call.function, tuple(call.tensors), has_aux)
        outs, out_spec = pytree.flatten(out[0] if has_aux else out)
        for y, path in zip(outs, pytree.paths(out_spec), strict=True):
            _check_result("jacfwd", y, path, holomorphic, real=False)
        columns = []
        for k, x in enumerate(call.tensors):

            def along(v: Tensor, k: int = k) -> Any:
                """The derivative along v in leaf k, and along zero in the other leaves."""
                return push(*(v if j == k else None for j in range(len(call.tensors))))

            columns.append(over_unit_vectors(along, x, size, is_last=True)[0])
        rows = [call.row([c[j] for c in columns], y.shape) for j, y in enumerate(outs)]
        return pytree.unflatten(out_spec, rows), out

    return _jacobian("jacfwd", rows_of, fun, argnums, has_aux, holomorphic, vectorized)


def jacrev(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    vectorized: str = "union",
    batch_size: int | None = None,
) -> Callable[..., Any]:
    """The Jacobian of `fun` by reverse mode: one vmap of the pullback over the unit vectors of each result leaf.

    The arguments and the layout of the result are those of `jacfwd`. Without `holomorphic`, results must be real; arguments
    may be complex, and each row is a gradient as `grad` computes it. `allow_int` allows integers and truth values among the
    arguments; the Jacobian by them is zero, in their dtype.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.jacrev(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
      [[2.0, 0.0], [0.0, 4.0]]
    """
    size = checked_batch_size("jacrev", batch_size)

    def rows_of(call: _Call) -> Any:
        """The Jacobian, and the value of the function: one pullback of each unit vector of each result.

        `call` holds the function and the leaves of its differentiated arguments.
        """
        out, pull = pullback(call.function, tuple(call.tensors), has_aux)
        outs, out_spec = pytree.flatten(out[0] if has_aux else out)
        rows = []
        for k, (y, path) in enumerate(zip(outs, pytree.paths(out_spec), strict=True)):
            _check_result("jacrev", y, path, holomorphic, real=True)

            def along(ct: Tensor, k: int = k) -> Any:
                """The cotangents of the arguments for the cotangent ct of result leaf k, and zero for the other leaves."""
                return pull(pytree.unflatten(out_spec, [ct if j == k else None for j in range(len(outs))]))

            rows.append(call.row(over_unit_vectors(along, y, size)[0], y.shape))
        return pytree.unflatten(out_spec, rows), out

    return _jacobian("jacrev", rows_of, fun, argnums, has_aux, holomorphic, vectorized, allow_int)


class _Call:
    """A call of a function whose Jacobian is computed, with the differentiated arguments as plain tensors.

    Attributes:
      integers: the leaves of these arguments without derivatives, which `allow_int` allows, by their indices.
      positions: the indices of the other leaves.
      tensors: the other leaves, with named axes as ordinary leading ones.
      counts: the number of named axes of each of them.
      one: True if `argnums` is one position, so that the result is no tuple.
      sums: True if the function has summed over named axes of its result.
      function: a function of the tensors; its results are summed over the entries of vectorised tensors.
    """

    def __init__(
        self, what: str, f: Any, argnums: Argnums, has_aux: bool, holomorphic: bool, allow_int: bool, args: Any, kwargs: Any
    ):
        """Separates the differentiated leaves of the arguments from the others; the parameters are those of the transform
        `what`.
        """
        wrt, leaves, self.spec = active_arguments(what, args, argnums)
        paths = pytree.paths(self.spec)
        real = what != "jacrev"  # reverse mode starts from real results, whatever the arguments are
        all_tensors = dict(enumerate(as_tensor(x) for x in leaves)) if allow_int else {}
        self.integers = {i: x for i, x in all_tensors.items() if not is_differentiable(x.dtype)}
        self.positions = [i for i in range(len(leaves)) if i not in self.integers]
        self.tensors = [differentiable(what, leaves[i], paths[i], holomorphic, real) for i in self.positions]
        counts = [len(axes) for axes in axes_of_leaves([args[i] for i in wrt])]
        self.counts = [counts[i] for i in self.positions]
        self.one, self.sums = is_one(argnums), False

        def function(*inner: Any) -> Any:
            """The value of `f`, summed over named axes, and aux; `inner` are new values for the differentiated leaves."""
            values = {**dict(enumerate(leaves)), **dict(zip(self.positions, inner, strict=True))}
            new_arguments = pytree.unflatten(self.spec, [values[i] for i in range(len(leaves))])
            out = f(*with_arguments(own(args), wrt, new_arguments), **own(kwargs))
            if has_aux and not (isinstance(out, tuple) and len(out) == 2):
                return out  # the caller refuses it with an error
            value, aux = out if has_aux else (out, None)
            self.sums = self.sums or any(axes_of_leaves(value))
            return (summed_entries(value), aux) if has_aux else summed_entries(value)

        self.function = function

    def row(self, blocks: Sequence[Tensor], shape: tuple[int, ...]) -> Any:
        """The Jacobian of one leaf of the result, as a pytree like the arguments.

        `blocks` holds one array for each argument leaf, whose axes are those of the result, flattened or not, and of the leaf.
        `shape` is the shape of the result.
        """
        full_blocks = [reshape(b, shape=(*shape, *x.shape)) for b, x in zip(blocks, self.tensors, strict=True)]
        parts = [_entries_first(b, len(shape), n) for b, n in zip(full_blocks, self.counts, strict=True)]
        by_position = {i: full((*shape, *x.shape), 0, x.dtype) for i, x in self.integers.items()}
        by_position.update(zip(self.positions, parts, strict=True))
        row = pytree.unflatten(self.spec, [by_position[i] for i in range(self.spec.num_leaves)])
        return row[0] if self.one else row


def _entries_first(block: Tensor, rank: int, count: int) -> Tensor:
    """The block with the `count` axes after the first `rank` moved to the front."""
    if not rank or not count:
        return block
    order = (*range(rank, rank + count), *range(rank), *range(rank + count, block.ndim))
    return transpose(block, permutation=order)


def _check_result(what: str, y: Tensor, path: str, holomorphic: bool, real: bool) -> None:
    """Raises DtypeError if a result leaf `y` cannot be differentiated; `real` is True if it must be real."""
    fits = is_complex(y.dtype) if holomorphic else is_float(y.dtype) or (is_complex(y.dtype) and not real)
    if not fits:
        kind = "complex" if holomorphic else "real" if real else "floating-point"
        raise DtypeError(
            f"{what} requires {kind} results, got {y.dtype} at result{path}.",
            where=user_frame(),
            help="holomorphic=True is for functions from complex numbers to complex numbers.",
        )


def _jacobian(
    what: str,
    jacobian: Callable[[_Call], Any],
    f: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
    vectorized: str,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that computes the Jacobian of `f`, and returns aux as well if there is any.

    Args:
      what: "jacfwd" or "jacrev".
      jacobian: a function from a call to the Jacobian and the value of the function.
      f: the function; the other arguments are those of `jacfwd`.
    """
    check_function(what, f)
    positions(what, argnums, None)

    def run(*args: Any, **kwargs: Any) -> Any:  # the Jacobian for one entry
        result, out = jacobian(_Call(what, f, argnums, has_aux, holomorphic, allow_int, args, kwargs))
        return (result, out[1]) if has_aux else result

    def together(*args: Any, **kwargs: Any) -> Any:
        """The Jacobian for all entries of vectorised tensors at once; raises TraceError if the function removes named axes."""
        call = _Call(what, f, argnums, has_aux, holomorphic, allow_int, args, kwargs)
        result, out = jacobian(call)
        if call.sums:
            raise TraceError(
                f"{what} of a function that removes vectorised axes requires a result without such axes, got some.",
                where=user_frame(),
                help="call nm.devectorize on the result for all pairs of entries, or pass vectorized='parameter' for "
                "the sums over the entries of the result.",
            )
        return (result, out[1]) if has_aux else result

    call = shown(what, entrywise(what, run, vectorized, together))
    return functools.wraps(f)(lambda *args, **kwargs: call(*args, **kwargs))


jacobian = jacrev
_MODES: dict[str, Callable[..., Any]] = {"fwd": jacfwd, "rev": jacrev}


def hessian(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    mode: str = "fwd_rev",
    vectorized: str = "union",
    batch_size: int | None = None,
) -> Callable[..., Any]:
    """The Hessian of a scalar function: the Jacobian of the Jacobian.

    Args:
      fun: the function.
      argnums: the positional argument(s) to differentiate; a sequence gives a tuple of tuples.
      has_aux: True if `fun` returns ``(value, aux)``; the new function then returns ``(hessian, aux)``.
      holomorphic, vectorized: as in `jacfwd`, for both.
      mode: outer and inner mode: "fwd_rev" (the default, and the cheapest), "rev_rev", "rev_fwd" or "fwd_fwd".
      batch_size: the number of unit vectors that are mapped over at once, as in `jacfwd`.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.hessian(lambda x: (x ** 3).sum())(np.array([1.0, 2.0])).tolist()
      [[6.0, 0.0], [0.0, 12.0]]
    """
    check_function("hessian", fun)
    positions("hessian", argnums, None)
    outer, _, inner = mode.partition("_")
    if outer not in _MODES or inner not in _MODES:
        raise TraceError(f"hessian requires mode fwd_rev, rev_rev, rev_fwd or fwd_fwd, got {mode!r}.", where=user_frame())
    options: dict[str, Any] = {
        "has_aux": has_aux,
        "holomorphic": holomorphic,
        "vectorized": vectorized,
        "batch_size": checked_batch_size("hessian", batch_size),
    }
    return shown("hessian", _MODES[outer](_MODES[inner](fun, argnums, **options), argnums, **options))


def hvp(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, vectorized: str = "union") -> Callable[..., Any]:
    """The Hessian-vector product ``(x, v) -> (d²f/dx²) v``: forward mode over the gradient.

    Args:
      f: a scalar function of x and further arguments.
      argnums: the position of x among the arguments of `f`. For several positions, x and v are tuples of that length.
      has_aux: True if `f` returns ``(value, aux)``; aux is dropped.
      vectorized: for vectorised tensors, as in `value_and_grad`.

    Returns:
      A function of ``(x, v, *rest)``. x and v are pytrees of one structure, and `rest` are the other arguments of `f` in
      order.

    Raises:
      TraceError: a position of argnums does not exist.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.hvp(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]), np.array([1.0, 1.0])).tolist()
      [6.0, 12.0]
    """
    check_function("hvp", f)
    width = len(positions("hvp", argnums, None))
    gradients = grad(f, argnums, has_aux, vectorized=vectorized)

    def run(x: Any, v: Any, *rest: Any, **kwargs: Any) -> Any:
        """The product of the Hessian of `f` at `x` with `v`; `rest` are the other arguments of `f`."""
        wrt = positions("hvp", argnums, len(rest) + width)

        def gradient(x: Any) -> Any:
            out = gradients(*_merge_arguments(wrt, (x,) if is_one(argnums) else x, rest), **kwargs)
            return out[0] if has_aux else out

        _check_direction(x, v)
        return pushed(gradient, (x,), (v,), False)[1]

    call = entrywise("hvp", run, vectorized)

    def hvp_f(x: Any = _MISSING, v: Any = _MISSING, *rest: Any, **kwargs: Any) -> Any:
        """The Hessian-vector product; raises TraceError if the point or the vector is missing."""
        if x is _MISSING or v is _MISSING:
            raise TraceError(
                f"the function of hvp requires a point x and a vector v, got {int(x is not _MISSING)} argument(s).",
                where=user_frame(),
                help="call it with (x, v, *rest): nm.hvp(f)(x, v) is the Hessian at x times v.",
            )
        return call(x, v, *rest, **kwargs)

    hvp_f.__name__, hvp_f.__doc__ = getattr(f, "__name__", "hvp"), getattr(f, "__doc__", None)
    hvp_f.__signature__ = _hvp_signature(f, argnums)  # type: ignore[attr-defined]
    return hvp_f


_MISSING: Any = object()


def _check_direction(x: Any, v: Any) -> None:
    """Raises TreeError or ShapeError if the vector v does not have the structure and the shapes of the point x."""
    leaves, spec = pytree.flatten(x)
    others = pytree.flatten_like(spec, v, "the vector v of hvp", "the point x")
    for at, along, path in zip(leaves, others, pytree.paths(spec), strict=True):
        if isinstance(along, (list, tuple, dict)):
            raise TreeError(
                f"hvp requires a vector v with the structure of x, got a {type(along).__name__} in v{path} for an array.",
                where=user_frame(),
                help="pass an array, such as np.array(v).",
            )
        if along is not None and np.shape(at) != np.shape(along):
            raise ShapeError(
                f"hvp requires a vector v with the shape of x, got v{path} of shape {np.shape(along)} "
                f"for x{path} of shape {np.shape(at)}.",
                where=user_frame(),
            )


def _merge_arguments(wrt: Sequence[int], xs: Sequence[Any], rest: Sequence[Any]) -> list[Any]:
    """All arguments in order: `xs` at the positions `wrt`, and `rest` at the others."""
    others = iter(rest)
    by_position = dict(zip(wrt, xs, strict=True))
    return [by_position[i] if i in by_position else next(others) for i in range(len(wrt) + len(rest))]


def _hvp_signature(f: Callable[..., Any], argnums: Argnums) -> inspect.Signature:
    """The signature (x, v, *rest) of a Hessian-vector product, with the names that `f` has for x and the rest.

    Example: f(rows, w) with `argnums` 1 gives (w, v, rows). Artifacts show these names.
    """
    names = parameters_of(f)
    if names is None:
        return inspect.Signature.from_callable(lambda x, v, *rest, **kwargs: None)
    wrt = {names[i] for i in positions("hvp", argnums, len(names))}
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    rest = [
        p.replace(default=empty, kind=kind if n in names else p.kind)
        for n, p in inspect.signature(f).parameters.items()
        if n not in wrt
    ]
    others = {p.name for p in rest}
    x = next(iter(wrt)) if is_one(argnums) else "x" if "x" not in others else "point"
    v = "v" if "v" not in {*others, x} else "vector"
    return inspect.Signature([inspect.Parameter(x, kind), inspect.Parameter(v, kind), *rest])
