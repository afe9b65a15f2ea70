"""Stages as they are traced: maps run entry after entry, the oracle of nabla-vmap; derivatives by their expansion."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.dialects.regions import nested
from nabla_mlir.interpreter import interpreted

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
from nabla_mlir.testing.cases import LawCase, law_cases

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4))
W = RNG.normal(size=4)


def both(f: Callable[..., Any], *xs: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """The results of a function as it is traced, and lowered; each is called twice."""
    traced = nm.trace(f, *xs, name="main")
    stages = [stage.compile(nm.Interpreter()) for stage in (traced, traced.lower())]
    for stage in stages:
        stage.loaded["main"](*xs)
    runs = [interpreted(stage.module.operation, "main")([np.asarray(x) for x in xs]) for stage in (traced, traced.lower())]
    return list(zip(*runs, strict=True))


@pytest.mark.parametrize("law", [c for c in law_cases() if c.case.shapes], ids=lambda c: c.name)
def test_maps_of_records_are_those_of_their_rules(law: LawCase) -> None:
    """One operand mapped, then all of them, over an axis behind the first."""
    xs, others = law.draw(), law.draw(1)
    for mapped in [[i == 0 for i in range(len(xs))], [True] * len(xs)]:
        wide = [np.stack([x, y], axis=min(1, x.ndim)) if m else x for x, y, m in zip(xs, others, mapped, strict=True)]
        axes = tuple(min(1, x.ndim) if m else None for x, m in zip(xs, mapped, strict=True))
        for a, b in both(nm.vmap(lambda *ys: law.apply(ys), in_axes=axes), *wide):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def collective(a: Any) -> Any:
    total = nm.psum(a * W[0], "i")
    own = nm.axis_index("i") * a
    return total, own, nm.pmax(a, "i") - nm.pmin(a, "i"), nm.all_gather(a, "i"), nm.pmean(a, "i")


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "nested": (nm.vmap(nm.vmap(lambda a, b: nnp.sin(a) * b, in_axes=(0, None)), in_axes=(0, None), out_axes=1), (X, 2.0)),
    "axes": (nm.vmap(lambda a, w: (a @ w, a + 1), in_axes=(1, None), out_axes=(0, 1)), (X.T, W)),
    "collectives": (nm.vmap(collective, axis_name="i"), (X,)),
    "collective over the outer axis": (nm.vmap(lambda r: nm.vmap(lambda a: nm.psum(a, "o") * a)(r), axis_name="o"), (X,)),
    "collective in a loop": (nm.vmap(lambda r: nm.fori_loop(0, 3, lambda i, c: c + nm.psum(c, "i"), r), axis_name="i"), (X,)),
    "gradient in a map": (nm.vmap(nm.grad(lambda r: (nnp.tanh(r) * W).sum())), (X,)),
    "map in a gradient": (nm.grad(lambda x: nm.vmap(lambda r: nnp.sin(r) @ W)(x).sum()), (X,)),
    "hessian": (nm.hessian(lambda w: (nnp.exp(X @ w)).sum()), (W,)),
    "jvp of a loop": (lambda x: nm.jvp(lambda y: nm.fori_loop(0, 4, lambda i, c: nnp.sin(c) * y, y), (x,), (x,)), (X,)),
    "checkpoint": (nm.value_and_grad(lambda x: nm.checkpoint(lambda y: nnp.sin(y) ** 2)(x).sum()), (X,)),
    "no entries": (nm.vmap(lambda r: (r.sum(), r * 2)), (np.zeros((0, 4)),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f, xs = PROGRAMS[name]
    for a, b in both(f, *xs):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_functions_with_rules_of_their_own() -> None:
    @nm.custom_vjp
    def halved(x: Any) -> Any:
        return x * x

    halved.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * x,))

    def f(x: Any) -> Any:
        solved = nm.custom_linear_solve(lambda v: 2.0 * v, x, lambda matvec, b: b / 2.0, symmetric=True)
        return halved(x).sum() + solved.sum()

    for a, b in both(lambda x: (f(x), nm.grad(f)(x), nm.vmap(f)(x)), X):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    ((_, gradient),) = both(nm.grad(lambda x: halved(x).sum()), X)
    np.testing.assert_allclose(gradient, X)


def test_maps_stand_when_they_run() -> None:
    """The oracle of nabla-vmap does not call it: the module that runs has the region."""
    traced = nm.trace(nm.vmap(lambda r: r * r), X, name="main")
    before = str(traced.module)
    seen: list[str] = []
    result = traced.compile(nm.Interpreter(watch=lambda op, xs, ys: seen.append(f"{op.name} {np.shape(xs[0])}")))(X)
    np.testing.assert_allclose(result, X * X)
    assert seen == [*["stablehlo.multiply (4,)"] * 3, "batch.vmap (3, 4)"]
    assert str(traced.module) == before
    assert any(op.name == "batch.vmap" for op in nested(traced.module.operation))
