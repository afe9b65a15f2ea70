"""An elementwise operation that is added by one record is treated by every pass as one that was always there.

The added operations are twins of others under names that nothing knows but their records: whatever is made of a program
with a twin is, but for the name, what is made of the program with the original.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.compiling.estimates import estimate
from nabla_mlir.compiling.lowering import clone_module
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.context import context
from nabla_mlir.passes.iree.math.legalize_math import LegalizeMathPass
from nabla_mlir.passes.iree.pattern import operands
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.table.kinds import elementwise
from nabla_mlir.table.registry import REGISTRY, OpDef

TWINS = {"test.tanh": "stablehlo.tanh", "test.square": "chlo.square"}
X, M = nm.spec((8,)), nm.spec((4, 4))


def _twin(name: str, of: OpDef, **facts: Any) -> OpDef:
    """A record as a maintainer writes it; MLIR does not infer the result of an operation that it does not know."""
    facts = {"numpy": of.numpy} | facts
    return elementwise(name, doc=of.doc, result=lambda x: [(x.shape, x.dtype)], sample=of.sample, **facts)


@pytest.fixture(scope="module", autouse=True)
def twins() -> Iterator[None]:
    tanh, square = REGISTRY["stablehlo.tanh"], REGISTRY["chlo.square"]
    _twin("test.tanh", tanh, partials=tanh.partials, instructions=tanh.instructions)
    _twin("test.square", square, partials=square.partials, overflows=square.overflows)
    _twin(
        "test.same",
        REGISTRY["stablehlo.negate"],
        partials=[lambda t, y, x: REGISTRY["test.same"](t)],
        linear="all",
        numpy=np.positive,
    )
    # The one expansion: IREE has none of them.
    patterns = LegalizeMathPass.patterns
    patterns.of("test.tanh")(lambda op, target: b.unary("stablehlo.tanh", operands(op)[0]))
    patterns.of("test.same")(lambda op, target: operands(op)[0])
    yield
    for name in ("test.tanh", "test.square", "test.same"):
        del REGISTRY[name]
        patterns.by_name.pop(name, None)


def _masked(f: OpDef, x: Any) -> Any:
    return nnp.sum(nnp.where(x > 0, nnp.log(f(nnp.reshape(x, (4, 2)))).reshape(8), 0.0))


def _scanned(f: OpDef, x: Any) -> Any:
    return nm.scan(lambda c, row: (f(c * row), c), x[0], x)[0]


def _invariant(f: OpDef, x: Any) -> Any:
    return nm.fori_loop(0, 9, lambda i, c: c * nnp.sum(f(x)), nnp.sum(x))


def _chosen(f: OpDef, x: Any) -> Any:
    return nnp.sum(nm.cond(x[0] > 0, lambda x: f(x) * x, lambda x: f(x), x))


def _kept(policy: Any) -> Callable[[OpDef, Any], Any]:
    return lambda f, x: nnp.sum(nm.checkpoint(lambda x: f(nnp.sin(x)) * x, policy=policy)(x))


# Scalar functions of an array.
PROGRAMS: dict[str, Callable[[OpDef, Any], Any]] = {
    "mask": _masked,
    "chain": lambda f, x: nnp.sum(f(f(x) * x + 1.0)),
    "duplicates": lambda f, x: nnp.sum(f(x) * x + f(x)),
    "broadcast": lambda f, x: nnp.sum(f(nnp.broadcast_to(x[:, None], (8, 3)) * 2.0)),
    "mapped": lambda f, x: nnp.sum(nm.vmap(lambda y: f(y * x) * y)(x)),
    "scan": _scanned,
    "invariant of a loop": _invariant,
    "branch": _chosen,
    "checkpoint": _kept(None),
    "checkpoint of products": _kept(nm.checkpoint_policies.dots_saveable),
    "checkpoint of everything": _kept(nm.checkpoint_policies.everything_saveable),
}


def _generic(module: ir.Module) -> str:
    """The text of a module, with the names of the twins' originals."""
    text = module.operation.get_asm(print_generic_op_form=True)
    for twin, of in TWINS.items():
        text = text.replace(f'"{twin}"', f'"{of}"')
    return text


def _lowered(program: Callable[[OpDef, Any], Any], name: str, transform: Any, *specs: Any) -> Any:
    return nm.trace(transform(lambda x: program(REGISTRY[name], x)), *specs, name="f").lower()


@pytest.mark.parametrize("twin", ["test.tanh", "test.square"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_derivatives_are_lowered_alike(twin: str, program: str) -> None:
    for transform, specs in ((nm.value_and_grad, (X,)), (nm.hvp, (X, X))):
        new, old = (_lowered(PROGRAMS[program], name, transform, *specs) for name in (twin, TWINS[twin]))
        assert transform is nm.hvp or f'"{twin}"' in str(new.module)  # the derivative of a square is none
        assert _generic(new.module) == _generic(old.module)
        assert new.cost() == old.cost()
        assert estimate(_function(new.module)) == estimate(_function(old.module))


def _function(module: ir.Module) -> ir.Operation:
    return module.body.operations[0].operation


@pytest.mark.parametrize("limit", [None, 64])
def test_residuals_are_chosen_alike(limit: int | None) -> None:
    def loss(name: str) -> Any:
        return lambda x: nnp.sum(REGISTRY[name](nnp.sin(x)) * nnp.cumsum(REGISTRY[name](x)))

    entries = ("update", "apply")
    new, old = (
        nm.hvp_module(loss(name), X, max_residual_bytes=limit, entry_points=entries) for name in ("test.tanh", "stablehlo.tanh")
    )
    assert _generic(new.module) == _generic(old.module)


# What IREE runs faster otherwise: slices of cheap values, transposes between elementwise operations, narrow last axes.
SCHEDULED: dict[str, Callable[[OpDef, Any], Any]] = {
    "slices": lambda f, x: (lambda y: nnp.sum(y[1:] * 3.0) + nnp.sum(y[:-1]))(f(x.reshape(-1))),
    "transposes": lambda f, x: nnp.sum(f(x).T * x[0], axis=0),
    "narrow": lambda f, x: nnp.sum(f(x[:, None, :2] - x[None, :, :2]), axis=-1),
}


@pytest.mark.parametrize("twin", ["test.tanh", "test.square"])
@pytest.mark.parametrize("program", SCHEDULED)
def test_what_is_scheduled_for_iree_is_the_same(twin: str, program: str) -> None:
    texts = []
    for name in (twin, TWINS[twin]):
        module = clone_module(_lowered(SCHEDULED[program], name, lambda f: f, nm.spec((96, 96))).module)
        before = _generic(module)
        Pipeline.parse("builtin.module(nabla-order-axes,nabla-push-up-slices,nabla-fold-reshapes,nabla-update-in-place)").run(
            module
        )
        assert _generic(module) != before or (program == "slices" and name in ("test.tanh", "stablehlo.tanh"))
        texts.append(_generic(module))
    assert texts[0] == texts[1]


def test_what_is_not_taken_has_no_derivative_through_it() -> None:
    """The cotangent passes the added operation on its way to the logarithm: 0, where it would be 0/0."""

    def loss(x: Any) -> Any:
        same = REGISTRY["test.same"]
        return nnp.sum(nnp.where(x > 0, same(nnp.log(x)), 0.0))

    x = np.array([-1.0, 0.0, 2.0], np.float32)
    np.testing.assert_allclose(nm.jit(nm.grad(loss))(x), [0, 0, 0.5])
    np.testing.assert_allclose(nm.jit(nm.hvp(loss))(x, np.ones(3, np.float32)), [0, 0, -0.25])


def test_with_one_expansion_it_runs() -> None:
    """A record and an expansion are all that an operation takes."""
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    f = REGISTRY["test.tanh"]
    np.testing.assert_allclose(nm.jit(f)(x), np.tanh(x), rtol=1e-5)
    np.testing.assert_allclose(nm.jit(nm.grad(lambda x: nnp.sum(f(x))))(x), 1 - np.tanh(x) ** 2, rtol=1e-5)
    np.testing.assert_allclose(nm.jit(nm.vmap(nm.grad(f)))(x), 1 - np.tanh(x) ** 2, rtol=1e-5)


def test_the_bodies_of_reductions_may_hold_it() -> None:
    text = """
    func.func @f(%x: tensor<8xf32>) -> tensor<f32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %y = "stablehlo.reduce"(%x, %zero) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = "test.tanh"(%b) : (tensor<f32>) -> tensor<f32>
        %d = stablehlo.add %a, %c : tensor<f32>
        stablehlo.return %d : tensor<f32>
      }) {dimensions = array<i64: 0>} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      return %y : tensor<f32>
    }"""
    texts = []
    for name in ("test.tanh", "stablehlo.tanh"):
        with context():
            module = ir.Module.parse(text.replace("test.tanh", name))
        Pipeline.parse("builtin.module(nabla-normalize,nabla-simplify)").run(module)
        texts.append(_generic(module))
    assert texts[0] == texts[1]
