"""Modules that no one chose: every sample in every dtype, and elementwise ones in odd shapes, through every transform.

A transform gives valid IR or an error of ours that names the operation; it never crashes and never raises anything else.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import NablaError
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import trace_function
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.samples import Case, Domain
from nabla_mlir.testing.cases import LawCase, law_cases

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.int8, np.uint8, np.int64, np.uint32, np.bool_, np.complex64]
SHAPES = [(), (1,), (0,), (2, 0, 3), (1, 1, 1), (3, 1), (2, 1, 4, 1, 2)]


def _transforms(f: Any, inputs: Any) -> dict[str, Any]:
    active = [i for i, x in enumerate(inputs) if is_differentiable(x.dtype)]

    def g(*own: Any) -> Any:
        full = list(inputs)
        for i, x in zip(active, own, strict=True):
            full[i] = x
        return f(*full)

    own = [inputs[i] for i in active]

    def vjp() -> Any:
        ys, pullback = nm.vjp(g, *own)
        return pullback(ys)

    return {
        "value": lambda: f(*inputs),
        "jvp": lambda: nm.jvp(g, own, own)[1],
        "vjp": vjp,
        "vmap": lambda: nm.vmap(f)(*(nnp.stack([x, x]) for x in inputs)),
        "vmap of jvp": lambda: nm.vmap(lambda *a: nm.jvp(g, a, a)[1])(*(nnp.stack([x, x]) for x in own)),
    }


def _check(law: LawCase, specs: list[Spec]) -> str:
    """The fate of all transforms of one call: "valid", or "refused" if the call itself is."""
    for name in ("value", "jvp", "vjp", "vmap", "vmap of jvp"):

        def function(*inputs: Any, name: str = name) -> Any:
            return [y for y in _leaves(_transforms(lambda *xs: law.apply(xs), inputs)[name]()) if y is not None]

        needed = specs if name in ("value", "vmap") else [s for s in specs if is_differentiable(s.dtype)]
        if not needed and name != "value":
            continue
        try:
            module, _ = trace_function(function, specs, "main")
            lower_module(module)
        except NablaError as error:
            if name == "value":
                return "refused"  # MLIR's own verifier says why
            if not re.search(r"(stablehlo|chlo)\.\w+", error.message):
                error.add_note(f"in {name} of {law.name} on {specs}")
                raise
            continue
        assert module.operation.verify()
    return "valid"


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in _leaves(item)]
    return [tree]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_samples_in_every_dtype(dtype: Any) -> None:
    fates = []
    for law in law_cases():
        xs = law.draw()
        kind = np.dtype(dtype)
        specs = [Spec(x.shape, kind if x.dtype == np.float64 else x.dtype) for x in xs]
        fates.append(_check(law, specs))
    assert fates.count("valid") > 50


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elementwise_samples_in_odd_shapes(shape: tuple[int, ...]) -> None:
    for record in REGISTRY.values():
        if not record.sample or not all(isinstance(s, Domain) for s in record.sample):
            continue
        law = LawCase(record, Case((shape,) * len(record.sample), domains=tuple(record.sample)), 0)
        specs = [Spec(x.shape, x.dtype) for x in law.draw()]
        assert _check(law, specs) == "valid"


def test_a_module_is_the_same_each_time() -> None:
    # The order of tapes once followed the addresses of operations.
    def f(x: Any) -> Any:
        def body(s: Any) -> Any:
            y, z, n = s
            for _ in range(6):
                y, z = nnp.sin(z) * y, nnp.tanh(y * z)
            return y, z, n + 1

        return nm.while_loop(lambda s: (s[0].sum() < 50) & (s[2] < 4), body, (x, x, 0))[0].sum()

    assert len({str(nm.trace(nm.grad(f), nm.spec((3,), "float64")).lower().mlir()) for _ in range(12)}) == 1


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (0,), (2, 0, 3)])
def test_orders_of_nothing_have_derivatives(shape: tuple[int, ...]) -> None:
    """Sorts, elements along an axis, the largest: forward, in reverse, mapped."""
    x = np.zeros(shape)

    def f(x: Any) -> Any:
        return nnp.sort(x, -1), nnp.sort(x, 0), nnp.take_along_axis(x, nnp.argsort(x, 0), 0)

    def g(x: Any) -> Any:
        ys, pullback = nm.vjp(f, x)
        return nm.jvp(f, (x,), (x,)), pullback(ys), nm.vmap(nm.grad(lambda r: nnp.sort(r).sum()))(nnp.stack([x, x]))

    (ys, dys), (pulled,), mapped = g(x)
    assert [y.shape for y in (*ys, *dys, pulled)] == [shape] * 7
    assert mapped.shape == (2, *shape)
