"""Random nestings of transforms: compositions, loops, branches, maps, custom rules and derivatives of random operations."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from nabla_mlir.testing.operations import Function, Numbers, axis_of, bounded, kind, operation, rng_of

MOST = 400  # the largest number of elements of a value


def total(J: Any, y: Any) -> Any:
    """The sum of the real parts of `y`, in at least 32 bits: a number that depends on every element. `J` is JAX or
    nabla_mlir.jax.
    """
    y = J.numpy.real(y)
    wide = np.dtype(y.dtype).name in ("float32", "float64")
    return J.numpy.sum(y if wide else y.astype(np.float32))


def _same(J: Any, y: Any, x: Any) -> Any:
    """An array of the shape and dtype of `x` that depends on `x` and `y`. `J` is JAX or nabla_mlir.jax."""
    if kind(y) == "c" and kind(x) != "c":
        y = J.numpy.real(y)
    if kind(x) in "biu" and kind(y) in "fc":
        y = J.numpy.isfinite(y)
    if kind(y) == "b" or kind(x) == "b":
        return x ^ J.numpy.any(y.astype(bool)) if kind(x) == "b" else x + J.numpy.any(y).astype(x.dtype)
    return bounded(J, x + (y if y.shape == x.shape else J.numpy.sum(y)).astype(x.dtype))


def _direction(J: Any, x: Any) -> Any:
    return J.numpy.cos(x)


def _composed(f: Function, g: Function, rng: Numbers) -> Function:
    """The function g(f(x))."""
    return lambda J, x: g(J, f(J, x))


def _added(f: Function, g: Function, rng: Numbers) -> Function:
    """A function of (J, x) that combines f(J, x) and g(J, x) in one array; J is JAX or nabla_mlir.jax, and `rng` makes
    the choices.
    """

    def apply(J: Any, x: Any) -> Any:
        """The value of `g` with that of `f` added, in the shape and dtype of f(J, x)."""
        y, z = f(J, x), g(J, x)
        return _same(J, z, y)

    return apply


def _jitted(f: Function, g: Function, rng: Numbers) -> Function:
    """The function f under `jit` or `checkpoint`. `rng` makes the random choices."""
    form = rng.integers(2)
    return lambda J, x: (J.jit if form else J.checkpoint)(lambda x: f(J, x))(x)


def _mapped(f: Function, g: Function, rng: Numbers) -> Function:
    """A function of (J, x) that maps `f` along an axis of x, by `vmap` or `lax.map`; J is JAX or nabla_mlir.jax, and `rng` makes
    the choices.
    """
    seed = int(rng.integers(2**31))

    def apply(J: Any, x: Any) -> Any:
        """The results of `f` for the slices of `x` along a random axis, by one of four forms of a map."""
        if not x.ndim or not x.size:
            return f(J, x)
        step_rng = rng_of(seed, x)
        axis, form = axis_of(step_rng, x), step_rng.integers(4)
        if form == 0:  # with a value that is not mapped
            first = J.numpy.take(x, 0, axis=axis)
            return J.vmap(lambda a, b: _same(J, f(J, a), b), (axis, None))(x, first)
        if form == 1:
            return J.lax.map(lambda row: f(J, row), x)
        if form == 2:
            return J.vmap(lambda tree: {"y": f(J, tree["x"][0])}, in_axes=({"x": (axis,)},))({"x": (x,)})["y"]
        return J.vmap(lambda row: f(J, row), in_axes=axis)(x)

    return apply


def _looped(f: Function, g: Function, rng: Numbers) -> Function:
    """A function of (J, x) that calls `f` in a loop, a scan or an associative scan; J is JAX or nabla_mlir.jax, and `rng` makes the
    choices.
    """
    form, count = int(rng.integers(6)), int(rng.integers(0, 4))

    def apply(J: Any, x: Any) -> Any:
        """The result of a loop of `count` iterations over `f`, of the kind that `form` numbers; f(J, x) if x does not admit this
        kind.

        The forms are: 0 fori_loop, 1 while_loop, 2 scan over rows, 3 scan without inputs, 4 associative_scan, 5 while_loop with a
        data-dependent end.
        """
        if form == 0:
            return J.lax.fori_loop(0, count, lambda i, c: _same(J, f(J, c), c), x)
        if form == 1:
            return J.lax.while_loop(lambda c: c[0] < count, lambda c: (c[0] + 1, _same(J, f(J, c[1]), c[1])), (0, x))[1]
        if form == 2 and x.ndim and x.shape[0]:
            last, rows = J.lax.scan(lambda c, row: (_same(J, f(J, row), c), g(J, c)), x[0], x, reverse=bool(count % 2))
            return _same(J, rows, last)
        if form == 3:
            (a, _), rows = J.lax.scan(lambda c, _: ((c[1], _same(J, f(J, c[0]), c[0])), c[0]), (x, x), None, length=count)
            return _same(J, rows, a)
        if form == 4 and x.ndim and x.shape[0] and kind(x) != "b":
            return J.lax.associative_scan(lambda a, b: a * b if count % 2 else a + b, f(J, x)[:5] if f(J, x).ndim else x[:5])
        if form == 5 and kind(x) in "f":
            stop = lambda c: (c[0] < 4) & (J.numpy.sum(c[1]).astype(np.float32) < 100)  # noqa: E731
            return J.lax.while_loop(stop, lambda c: (c[0] + 1, _same(J, f(J, c[1]), c[1])), (0, x))[1]
        return f(J, x)

    return apply


def _branched(f: Function, g: Function, rng: Numbers) -> Function:
    """A function of (J, x): a branch between `f`, `g` and the identity; J is JAX or nabla_mlir.jax, and `rng` makes the choices."""
    form, k = rng.integers(2), int(rng.integers(-1, 4))

    def apply(J: Any, x: Any) -> Any:
        """The result of the branch that an index selects; the index is `k`, computed from `x` so that it is not a constant."""
        index = J.numpy.sum(J.numpy.zeros_like(x)).real.astype(np.int32) + k
        branches = [lambda x: _same(J, f(J, x), x), lambda x: _same(J, g(J, x), x), lambda x: x]
        if form:
            return J.lax.switch(index, branches, x)
        return J.lax.cond(index > 1, branches[0], lambda y: _same(J, g(J, x), y), x)

    return apply


def _ruled(f: Function, g: Function, rng: Numbers) -> Function:
    """A function of (J, x): `f` with a custom rule, whose derivatives differ from the true ones, so that a missing call of it is
    visible.

    J is JAX or nabla_mlir.jax. A rule that calls the function itself uses the true derivative: JAX applies the rule to such a call,
    except inside loops. `rng` makes the random choices.
    """
    form = rng.integers(3)

    def apply(J: Any, x: Any) -> Any:
        """The result of `f` as a function with a custom rule; without the rule if `x` has no derivatives.

        The forms are: 0 custom_jvp with the true derivative, 1 custom_vjp with a wrong one, 2 custom_jvp of two arguments with a
        wrong one.
        """
        if kind(x) not in "fc":
            return f(J, x)
        if form == 0:
            h = J.custom_jvp(lambda x: f(J, x))
            h.defjvp(lambda xs, ts: (h(*xs), J.jvp(lambda x: f(J, x), xs, ts)[1]))
        elif form == 1:
            h = J.custom_vjp(lambda x: _same(J, f(J, x), x))
            h.defvjp(lambda x: (_same(J, f(J, x), x), {"x": x, "n": 3}), lambda residuals, ct: (ct * J.numpy.sin(residuals["x"]),))
        else:
            h = J.custom_jvp(lambda x, y: _same(J, x, y))
            h.defjvp(lambda xs, ts: (_same(J, *xs), ts[0] * 3))
            return h(x, _same(J, f(J, x), x))
        return h(x)

    return apply


def _third(J: Any, number: Any, x: Any, forward: bool) -> Any:
    """The third derivative of `number` in one direction twice; `forward` selects forward mode for the last derivative.

    `number` is a function with a number as its result, and `J` is JAX or nabla_mlir.jax.
    """
    slope = J.grad(number)
    curvature = lambda x: J.jvp(slope, (x,), (_direction(J, x),))[1]  # noqa: E731
    if forward:
        return J.jvp(curvature, (x,), (_direction(J, x),))[1]
    return J.grad(lambda x: total(J, curvature(x)))(x)


def _derived(f: Function, g: Function, rng: Numbers) -> Function:
    """A function of (J, x): a derivative of `f` by a random transform; J is JAX or nabla_mlir.jax, and `rng` makes the choices."""
    form = int(rng.integers(11))

    def apply(J: Any, x: Any) -> Any:
        """The derivative of `f` at `x` by the transform with number `form`; f(J, x) if `x` has no derivatives."""
        if kind(x) not in "fc":
            return f(J, x)
        h = lambda x: f(J, x)  # noqa: E731
        number = lambda x: total(J, h(x))  # noqa: E731
        if form == 0:
            return J.grad(number)(x)
        if form == 1:
            y, t = J.jvp(h, (x,), (_direction(J, x),))
            return t if kind(y) in "fc" else y
        if form == 2:
            y, pull = J.vjp(h, x)
            return pull(_direction(J, y))[0] if kind(y) in "fc" else y
        if form == 3:
            y, push = J.linearize(h, x)
            return push(_direction(J, x)) if kind(y) in "fc" else y
        if form == 4:
            return J.jvp(J.grad(number), (x,), (_direction(J, x),))[1]
        if form == 5 and x.size < 12 and kind(x) == "f" and kind(h(x)) == "f":
            return [J.jacfwd, J.jacrev][x.size % 2](h)(x)
        if form == 6:
            _, slope = J.value_and_grad(lambda x: (number(x["a"]), x["a"]), has_aux=True)({"a": x})
            return slope["a"]
        if form == 7 and x.size < 6 and kind(x) == "f":
            return J.hessian(number)(x)
        if form == 8 and x.ndim and x.shape[0]:
            return J.vmap(J.grad(number))(x)
        if form in (9, 10) and x.size < 40:
            return _third(J, number, x, forward=form == 9)
        return J.grad(number)(x)

    return apply


_COMBINED = (_composed, _composed, _added, _jitted, _mapped, _looped, _branched, _ruled, _derived, _derived)


def function(rng: Numbers, depth: int) -> tuple[Function, str]:
    """A random function of one array, as nested transforms of random operations, and its description.

    `depth` is the largest number of nested transforms; at depth 0 it is one operation, which its seed describes. `rng` makes the
    random choices.

    Example: the description "looped(17, mapped(4))".
    """
    if not depth:
        seed = int(rng.integers(2**31))
        return operation(seed), str(seed)
    f, first = function(rng, int(rng.integers(depth)))
    g, second = function(rng, depth - 1)
    form = _COMBINED[rng.integers(len(_COMBINED))]
    name = form.__name__.strip("_")
    if form in (_composed, _added, _looped, _branched):
        return form(f, g, rng), f"{name}({first}, {second})"
    return form(g, f, rng), f"{name}({second})"


_NAMES = (
    "jit",
    "checkpoint",
    "vmap",
    "grad",
    "jvp",
    "vjp",
    "linearize",
    "jacfwd",
    "jacrev",
    "hessian",
    "value_and_grad",
    "custom_jvp",
    "custom_vjp",
    "numpy",
    "lax",
    "nn",
)


def namespace(jax: Any) -> Any:
    """JAX as the module whose functions programs call; nabla_mlir is already such a module."""
    return types.SimpleNamespace(**{name: getattr(jax, name) for name in _NAMES})
