"""The adapter that the corpus harness calls: public API only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nabla_mlir as nm
from nabla_mlir import numpy as nnp

Arrays = list[np.ndarray]


class CorpusAdapter:
    """Runs programs of StableHLO text, their derivatives and their batches."""

    def parse(self, text: str) -> Callable[..., Any]:
        return nm.from_stablehlo(text, "main")

    def run(self, f: Any, inputs: Arrays) -> Arrays:
        return _run(lambda *xs: _tuple(f(*xs)), inputs)

    def jvp(self, f: Any, inputs: Arrays, argnums: Sequence[int], tangents: Arrays) -> Arrays:
        def run(xs: Any, ts: Any) -> Any:
            g, active = _partial(f, xs, argnums)
            return nm.jvp(g, active, ts)[1]

        return _run(run, inputs, tangents)

    def vjp(self, f: Any, inputs: Arrays, argnums: Sequence[int], cotangents: Arrays) -> Arrays:
        def run(xs: Any, cts: Any) -> Any:
            g, active = _partial(f, xs, argnums)
            return nm.vjp(g, *active)[1](tuple(cts))

        return _run(run, inputs, cotangents)

    def grad(self, f: Any, inputs: Arrays, argnums: Sequence[int]) -> Arrays:
        def run(xs: Any) -> Any:
            g, active = _partial(f, xs, argnums)
            y, pullback = nm.vjp(lambda *a: g(*a)[0], *active)  # not nm.grad, which takes real arguments only
            return pullback(nnp.ones((), y.dtype))

        return _run(run, inputs)

    def hvp(self, f: Any, inputs: Arrays, argnums: Sequence[int], directions: Arrays, cotangents: Any) -> Arrays:
        def run(xs: Any, vs: Any, cts: Any) -> Any:
            g, active = _partial(f, xs, argnums)
            return nm.jvp(lambda *a: _pulled(g, a, cts), active, vs)[1]

        return _run(run, inputs, directions, cotangents)

    def hessian(self, f: Any, inputs: Arrays, argnums: Sequence[int]) -> np.ndarray:
        def run(xs: Any) -> Any:
            h, flat = _raveled(f, xs, argnums)
            return (nm.hessian(lambda v: h(v)[0].reshape(()))(flat),)

        return _run(run, inputs)[0]

    def jacobian(self, f: Any, inputs: Arrays, argnums: Sequence[int]) -> np.ndarray:
        def run(xs: Any) -> Any:
            h, flat = _raveled(f, xs, argnums)
            return (nm.jacrev(lambda v: nnp.concatenate([nnp.ravel(y) for y in h(v)]))(flat),)

        return _run(run, inputs)[0]

    def vmap(self, f: Any, inputs: Arrays, levels: Sequence[Sequence[int | None]]) -> Arrays:
        return _run(lambda *xs: _mapped(lambda *a: _tuple(f(*a)), levels)(*xs), inputs)

    def vmap_grad(self, f: Any, inputs: Arrays, levels: Any, argnums: Sequence[int], cotangents: Any) -> Arrays:
        def run(xs: Any, cts: Any) -> Any:
            def one(*a: Any) -> Any:
                g, active = _partial(f, a, argnums)
                return _pulled(g, active, cts)

            return _mapped(one, levels)(*xs)

        return _run(run, inputs, cotangents)


def _run(function: Callable[..., Any], inputs: Arrays, *more: Any) -> Arrays:
    call = nm.jit(function)
    outs = call(inputs, *more) if more or _takes_list(function) else call(*inputs)
    return [np.asarray(y) for y in outs]


def _takes_list(function: Callable[..., Any]) -> bool:
    return function.__code__.co_argcount == 1 and not function.__code__.co_flags & 4


def _tuple(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


def _partial(f: Any, xs: Sequence[Any], argnums: Sequence[int]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`f` of its differentiated arguments alone, with its floating-point results."""

    def g(*active: Any) -> tuple[Any, ...]:
        full = list(xs)
        for i, a in zip(argnums, active, strict=True):
            full[i] = a
        return tuple(y for y in _tuple(f(*full)) if y.dtype.kind in "fcV")

    return g, tuple(xs[i] for i in argnums)


def _pulled(g: Any, active: Any, cotangents: Any) -> Any:
    """The pullback of the cotangents, or of 1 for the one scalar result."""
    ys, pullback = nm.vjp(g, *active)
    return pullback(tuple(cotangents) if cotangents is not None else tuple(nnp.ones((), y.dtype) for y in ys))


def _raveled(f: Any, xs: Sequence[Any], argnums: Sequence[int]) -> tuple[Callable[..., Any], Any]:
    g, active = _partial(f, xs, argnums)

    def h(flat: Any) -> tuple[Any, ...]:
        parts, start = [], 0
        for a in active:
            size = int(np.prod(a.shape, dtype=int))
            parts.append(flat[start : start + size].reshape(a.shape))
            start += size
        return g(*parts)

    return h, nnp.concatenate([nnp.ravel(a) for a in active])


def _mapped(function: Callable[..., Any], levels: Sequence[Sequence[int | None]]) -> Callable[..., Any]:
    for in_axes in reversed(levels):
        function = nm.vmap(function, in_axes=tuple(in_axes))
    return function
