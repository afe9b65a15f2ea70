"""The statements of a record about its operation are true: checked on its samples, against NumPy or on the emitted operations."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir

from nabla_mlir.dialects.context import context
from nabla_mlir.table import traits
from nabla_mlir.table.regions import dependents
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.testing.cases import LawCase, law_cases

ROOT = Path(__file__).resolve().parents[2]
CASES = [law for law in law_cases() if law.case.numpy is not None or law.record.numpy is not None]


def _cases(holds: Callable[[OpDef], bool]) -> list[LawCase]:
    return [law for law in CASES if holds(law.record)]


def _names(laws: Sequence[LawCase]) -> Any:
    return pytest.mark.parametrize("law", laws, ids=lambda law: law.name)


def _value(law: LawCase, xs: Sequence[Any]) -> np.ndarray:
    found = law.reference(xs)
    return np.asarray(found[0] if isinstance(found, (list, tuple)) else found)


def _same(a: Any, b: Any) -> bool:
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)


# ---------------------------------------------------------------- on samples


@_names([law for law in _cases(lambda record: record.elementwise) if len(law.draw()) == 2])
def test_operands_may_be_exchanged_where_the_record_says_so(law: LawCase) -> None:
    x, y = law.draw()
    a, b = np.broadcast_arrays(x, y)
    if not a.size:
        return
    a, b = a.ravel(), b.ravel()
    if a.dtype.kind == "f":  # a guarded product is that of any two finite numbers
        a, b = np.append(a, 0.0), np.append(b, np.inf)
    both = [np.concatenate([a, b]), np.concatenate([b, a])]
    with np.errstate(all="ignore"):
        commutes = _same(_value(law, both), _value(law, both[::-1]))
    by_attribute = "compare" in law.record.name  # EQ does, LT does not
    assert commutes == law.record.commutes or by_attribute or a.size == 1


@_names(_cases(lambda record: record.elementwise))
def test_elements_are_made_of_those_at_their_place(law: LawCase) -> None:
    xs = law.draw()
    y = _value(law, xs)
    assert y.shape == np.broadcast_shapes(*(x.shape for x in xs))
    if y.ndim and y.shape[0] > 1:
        flipped = [x[::-1] if x.shape[:1] == y.shape[:1] and x.ndim == y.ndim else x for x in xs]
        assert _same(_value(law, flipped), y[::-1])


@_names(_cases(lambda record: record.moves))
def test_moved_elements_are_those_of_the_operands(law: LawCase) -> None:
    xs = [x.astype(float) if x.dtype.kind == "f" else x for x in law.draw()]
    linear = law.record.linear
    sources = xs if linear in ("all", ()) else [xs[i] for i in linear]
    given = {n for x in sources for n in np.ravel(x).tolist()}
    assert set(np.ravel(_value(law, xs)).tolist()) <= given


@_names(_cases(lambda record: record.view))
def test_a_view_has_the_bits_of_its_operand(law: LawCase) -> None:
    xs = law.draw()
    assert _value(law, xs).tobytes() == xs[0].tobytes()


@_names(_cases(lambda record: record.elementwise and bool(record.linear) and record.name != "stablehlo.convert"))
def test_elementwise_operations_are_linear_where_the_record_says_so(law: LawCase) -> None:
    xs, others = law.draw(0), law.draw(1)
    linear = range(len(xs)) if law.record.linear == "all" else law.record.linear
    for group in [linear] if law.record.joint else [[i] for i in linear]:
        sums = [x + 2 * z if i in group else x for i, (x, z) in enumerate(zip(xs, others, strict=True))]
        alone = [z if i in group else x for i, (x, z) in enumerate(zip(xs, others, strict=True))]
        assert _same(_value(law, sums), _value(law, xs) + 2 * _value(law, alone))


# ---------------------------------------------------------------- on the IR


@pytest.fixture
def block() -> Iterator[ir.Block]:
    """An empty block, at whose end operations are made."""
    with context(), ir.Location.unknown():
        holder = ir.Operation.create("test.holder", regions=1)
        made = ir.Block.create_at_start(holder.regions[0])
        with ir.InsertionPoint(made):
            yield made


def _emitted(law: LawCase) -> ir.Operation:
    xs = [full(x.shape, 1, x.dtype) for x in law.draw()]
    return law.apply(xs)[0].value.owner


@_names([law for law in _cases(lambda r: r.partials is not None and r.joint and r.linear == "all") if law.number == 0])
def test_the_partials_of_sums_do_not_read_the_operands(law: LawCase, block: ir.Block) -> None:
    """So that they are finite, and no mask is needed."""
    xs = [full(x.shape, 1, x.dtype) for x in law.draw()]
    count = len(list(block.operations))
    t = full(xs[0].shape, 2, xs[0].dtype)
    for partial in law.record.partials or ():
        pulled = partial(t, None, *xs)
        assert isinstance(pulled, Tensor)
        ops = [op.operation for op in block.operations][count:]
        assert pulled.value not in dependents(ops, [x.value for x in xs])


@_names(CASES)
def test_questions_are_answered_by_the_record(law: LawCase, block: ir.Block) -> None:
    op, record = _emitted(law), law.record
    assert traits.is_elementwise(op) == record.elementwise
    assert traits.is_cheap(op) <= (record.elementwise and not traits.is_long(op))
    assert bool(traits.moved(op)) == record.moves
    assert traits.is_free(op) >= traits.is_view(op)
    assert all(0 <= i < len(op.operands) for i in traits.updated(op))
    flops = traits.flops_of(op)
    assert isinstance(flops, int)
    assert flops >= 0
    if record.free or (record.moves and not record.elementwise):
        assert flops == 0
    if record.reduces and all(n for v in (*op.operands, *op.results) for n in v.type.shape):
        assert flops > 0


def test_what_has_no_record_has_no_traits() -> None:
    with context(), ir.Location.unknown():
        op = ir.Operation.create("test.unknown")
    asked = [
        traits.is_elementwise,
        traits.is_cheap,
        traits.is_long,
        traits.is_free,
        traits.is_view,
        traits.is_part,
        traits.is_reduction,
        traits.is_sum,
        traits.is_choice,
        traits.returns_of_regions,
        traits.moved,
    ]
    assert not any(question(op) or question(None) for question in asked)
    assert not traits.runs_regions(op)
    assert traits.flops_of(op) == 0
    assert traits.CHEAP < traits.FUNCTION < traits.OWN_LOOP < traits.LONG < traits.ONE_BY_ONE


def test_an_elementwise_operation_that_is_linear_needs_no_transpose() -> None:
    linear = [record for record in REGISTRY.values() if record.kind == "elementwise" and record.linear]
    assert linear
    assert all(record.transpose is None and record.partials for record in linear)


# ---------------------------------------------------------------- in the sources

# What IREE folds or fuses, and what kernels have code for, which are no facts of the operations.
NAMED = ("passes/iree/faults/aliasing.py", "passes/iree/faults/separate_parts.py", "passes/iree/kernels/")
MOST = 2  # names of operations that a condition may list


def _lists(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """The lists, tuples and sets of words, but for those of a decorator: they say what a rewrite is for."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    decorators = {id(node) for f in functions for d in f.decorator_list for node in ast.walk(d)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)) and id(node) not in decorators:
            yield node.lineno, [e.value for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]


@pytest.mark.parametrize("room", ["nabla_mlir/rules", "nabla_mlir/compiling", "nabla_mlir/staging", "passes"])
def test_no_list_of_operations_stands_beside_the_records(room: str) -> None:
    found = []
    for path in sorted((ROOT / room).rglob("*.py")):
        for line, names in _lists(ast.parse(path.read_text())):
            known = [name for name in names if {name, f"stablehlo.{name}", f"chlo.{name}"} & REGISTRY.keys()]
            if len(known) > MOST and not str(path.relative_to(ROOT)).startswith(NAMED):
                found.append(f"{path.relative_to(ROOT)}:{line} lists {known}")
    assert not found, "ask nabla_mlir.table.traits: " + "; ".join(found)
