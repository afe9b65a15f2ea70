"""Functions of nabla_mlir as functions of JAX: one primitive, with rules for jvp, transposition, vmap and jit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DeployError, DtypeError, user_frame
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.interop.families import Family, Program, callable_of
from nabla_mlir.staging.specs import Spec


def function(source: Any, *, entry: str | None = None, target: Any = None) -> Callable[..., Any]:
    """A function of nabla_mlir as a function of JAX, for all its transforms in any order: jit, grad, jvp, vjp, vmap, hessian.

    Each call is one primitive. nabla_mlir computes its derivatives of every order, in forward and reverse mode, and its maps.
    Inside `jax.jit` a call is a callback to the host. Outside, arrays on the CPU are passed without a copy.

    Args:
      source: a function of pytrees of arrays; or a stage, or an artifact, loaded or as a path, whose StableHLO is differentiated.
      entry: the entry point of an artifact; needed if there are several.
      target: where it runs, such as ``nm.CPU()``. With None it is interpreted until compiling pays.

    Returns:
      A function of pytrees of arrays of JAX and NumPy, and of numbers. Arguments and results have JAX's dtypes: float32, unless
      `jax_enable_x64` is set.

    Raises:
      DeployError: JAX is not installed.
      DtypeError: at a call, an argument is neither an array nor a number.

    Example:
      >>> import nabla_mlir as nm, nabla_mlir.numpy as nnp, jax  # doctest: +SKIP
      >>> f = nm.interop.jax.function(lambda x: nnp.sum(nnp.sin(x["a"])))  # doctest: +SKIP
      >>> jax.jit(jax.grad(f))({"a": np.zeros(2)})["a"].tolist()  # doctest: +SKIP
      [1.0, 1.0]
    """
    primitive = _primitive()
    f = callable_of("function", source, entry)
    families: dict[Any, Family] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        """The results of the function for pytrees of JAX's arrays, in the dtypes that JAX allows."""
        import jax

        leaves, tree = jax.tree.flatten((args, kwargs))
        arrays = [_array(leaf) for leaf in leaves]
        family = families.get(tree)
        if family is None:

            def of_leaves(*tensors: Any) -> Any:
                """The results of the function, from the leaves of its arguments."""
                parts, keywords = jax.tree.unflatten(tree, tensors)
                return f(*parts, **keywords)

            family = families[tree] = Family(of_leaves, len(leaves), target)
        if any(isinstance(x, jax.core.Tracer) for x in arrays):
            results = primitive.bind(*arrays, family=family, linear=0)
        else:  # without tracing, a direct call is faster than the primitive
            results = _run(*arrays, family=family, linear=0)
        return _program(family, arrays).unflatten(results)

    return functools.wraps(f)(call) if hasattr(f, "__name__") else call


def _array(leaf: Any) -> Any:
    """The leaf as an array of JAX; raises DtypeError if it is neither an array nor a number."""
    import jax

    if isinstance(leaf, jax.Array):
        return leaf
    try:
        return jax.numpy.asarray(leaf)
    except (TypeError, ValueError):
        raise DtypeError(
            f"function requires arrays and numbers, got {type(leaf).__name__}.",
            where=user_frame(),
            help="bind other arguments with functools.partial(f, ...).",
        ) from None


# ---------------------------------------------------------------- the primitive

# `linear` is the number of last arguments in which a call is linear: the tangents or cotangents of a derivative.


@functools.cache
def _primitive() -> Any:
    """The primitive of JAX, which is created once. Its parameters are a family of functions and `linear`. Raises DeployError if JAX
    is not installed.

    `linear` is the number of last arguments in which the call is linear: tangents or cotangents.
    """
    try:
        from jax.extend.core import Primitive
        from jax.interpreters import ad, batching, mlir
    except ImportError:
        raise DeployError(
            "function requires JAX, got an environment without it.", where=user_frame(), help="pip install jax"
        ) from None
    primitive = Primitive("nabla_mlir")
    primitive.multiple_results = True
    primitive.def_impl(_run)
    primitive.def_abstract_eval(_abstract)
    ad.primitive_jvps[primitive] = functools.partial(_pushed, primitive)
    ad.primitive_transposes[primitive] = functools.partial(_pulled, primitive)
    batching.primitive_batchers[primitive] = functools.partial(_mapped, primitive)
    mlir.register_lowering(primitive, _lowered)
    return primitive


def _run(*args: Any, family: Family, linear: int) -> list[Any]:
    """The results of a call as arrays of JAX, computed at once: JAX's rule for evaluation; `linear` is not used here."""
    import jax

    return [jax.numpy.asarray(x) for x in _on_host(family, args)]


def _on_host(family: Family, args: Sequence[Any]) -> list[np.ndarray]:
    """The results of a family's function for the arrays `args` as arrays of NumPy, in the dtypes that JAX allows."""
    arrays = [np.asarray(x) for x in args]
    program = _program(family, arrays)
    return [x.astype(dtype, copy=False) for x, dtype in zip(program(arrays), _dtypes(program), strict=True)]


def _lowered(context: Any, *args: Any, family: Family, linear: int) -> Any:
    """The results of a call inside `jax.jit`: a callback to Python with arrays of NumPy.

    `context` is JAX's lowering context, and `linear` is not used here. `jax.pure_callback` would first convert to arrays of JAX.
    `family` has the compiled programs of the function and of its derivatives.
    """
    from jax.interpreters import mlir

    run = lambda *arrays: tuple(_on_host(family, arrays))  # noqa: E731
    results, _, _ = mlir.emit_python_callback(
        context, run, None, list(args), context.avals_in, context.avals_out, has_side_effect=False, returns_token=False
    )
    return results


def _abstract(*args: Any, family: Family, linear: int) -> list[Any]:
    """The shapes and dtypes of the results of a call, for arguments with these shapes and dtypes; `linear` is not used here."""
    from jax.core import ShapedArray

    program = _program(family, args)
    return [ShapedArray(s.shape, d) for s, d in zip(program.outputs, _dtypes(program), strict=True)]


def _pushed(primitive: Any, primals: Sequence[Any], tangents: Sequence[Any], *, family: Family, linear: int) -> Any:
    """The results of a call, and their tangents: JAX's rule for jvp.

    `linear` is the number of last arguments in which the call is linear. `family` has the compiled programs of the function and of
    its derivatives.
    """
    import jax
    from jax.interpreters import ad

    primals = [_sized(x) for x in primals]
    results = primitive.bind(*primals, family=family, linear=linear)
    wrt = tuple(i for i, t in enumerate(tangents) if type(t) is not ad.Zero and is_differentiable(primals[i].dtype))
    zeros = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
    if not wrt:
        return results, zeros
    slopes = iter(primitive.bind(*primals, *(tangents[i] for i in wrt), family=family.pushed(wrt), linear=len(wrt)))
    return results, [next(slopes) if is_differentiable(y.dtype) else zero for y, zero in zip(results, zeros, strict=True)]


def _pulled(primitive: Any, cotangents: Sequence[Any], *args: Any, family: Family, linear: int) -> list[Any]:
    """The cotangents of the unknown arguments of a call that is linear in them, None for the others: JAX's rule for transposition.

    The values of the unknown arguments do not matter, so zeros replace them. `family` has the compiled programs of the function and
    of its derivatives.
    """
    import jax
    from jax.interpreters import ad

    wrt = tuple(i for i, x in enumerate(args) if ad.is_undefined_primal(x))
    inputs = [jax.numpy.zeros(x.aval.shape, x.aval.dtype) if i in wrt else _sized(x) for i, x in enumerate(args)]
    outputs = _program(family, inputs).outputs
    seeds = [ad.instantiate_zeros(ct) for ct, spec in zip(cotangents, outputs, strict=True) if is_differentiable(spec.dtype)]
    family = family.pulled(wrt, len(seeds))
    results = iter(primitive.bind(*inputs, *seeds, family=family, linear=len(seeds)))
    return [next(results) if i in wrt else None for i in range(len(args))]


def _mapped(primitive: Any, args: Sequence[Any], axes: Sequence[Any], *, family: Family, linear: int) -> Any:
    """The results of a call under `jax.vmap`, and their mapped axes, which are 0; `axes` are the mapped axes of the arguments.

    `family` has the compiled programs of the function and of its derivatives.
    """
    numbers = tuple(axis if isinstance(axis, int) else None for axis in axes)
    results = primitive.bind(*map(_sized, args), family=family.mapped(numbers), linear=linear)
    return results, (0,) * len(results)


def _sized(x: Any) -> Any:
    """The number `x` from a program of JAX as an array of its dtype; arrays are returned unchanged."""
    import jax

    return x if hasattr(x, "shape") else np.asarray(x, jax.typeof(x).dtype)


def _program(family: Family, args: Sequence[Any]) -> Program:
    return family.at(tuple([(x.shape, x.dtype) for x in args]), _specs)


def _specs(kinds: tuple[Any, ...]) -> tuple[Spec, ...]:
    return tuple(Spec(tuple(map(int, shape)), np.dtype(dtype)) for shape, dtype in kinds)


def _dtypes(program: Program) -> list[np.dtype]:
    """The dtypes of the program's results in JAX, which have at most 32 bits without `jax_enable_x64`."""
    import jax

    return [jax.dtypes.canonicalize_dtype(s.dtype) for s in program.outputs]
