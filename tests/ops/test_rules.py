"""The conventions of rules: control flow is never changed by its rule, and a record states every rule that it needs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.dialects.regions import nested
from nabla_mlir.table.kinds import general
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.rules import UNSUPPORTED, Batch, ControlRules, as_rule, sole

ROOT = Path(__file__).resolve().parents[2]
X = np.array([0.5, 1.5])


def _ruled() -> Callable[[Any], Any]:
    f = nm.custom_vjp(lambda x: nnp.sin(x) * x)
    f.defvjp(lambda x: (nnp.sin(x) * x, x), lambda x, ct: (ct * (nnp.cos(x) * x + nnp.sin(x)),))
    return f


def _pushed() -> Callable[[Any], Any]:
    f = nm.custom_jvp(lambda x: nnp.tanh(x))
    f.defjvp(lambda p, t: (f(p[0]), t[0] * (1 - f(p[0]) ** 2)))
    return f


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "loop": lambda x: nm.fori_loop(0, 3, lambda i, c: nnp.sin(c) * x, x),
    "loop of unknown length": lambda x: nm.while_loop(lambda c: c.sum() < 9, lambda c: c * c + x + 1, x),
    "loop with a rule": lambda x: nm.scan(lambda c, e: (_ruled()(c) + _pushed()(e), c), x[0], x)[0],
    "loop with a checkpoint": lambda x: nm.fori_loop(0, 3, lambda i, c: nm.checkpoint(lambda d: _ruled()(nnp.exp(-d)))(c), x),
    "choice": lambda x: nm.cond(x[0] > 0, lambda y: nnp.log(y) * x, lambda y: y, x),
    "choice with a rule": lambda x: nm.cond(x[0] > 0, _ruled(), lambda y: y, x),
    "checkpoint": lambda x: nm.checkpoint(lambda y: nnp.sin(y @ np.eye(2)) * x, policy=nm.checkpoint_policies.dots_saveable)(x),
    "forward rule": lambda x: _pushed()(x) * x,
    "reverse rule": lambda x: _ruled()(x) * x,
    "sort": lambda x: nnp.sort(nnp.sin(x)) * x,
}
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "jvp": lambda f: lambda x: nm.jvp(f, (x,), (x,))[1],
    "value and gradient": lambda f: lambda x: nm.value_and_grad(f)(x),
    "hvp": lambda f: lambda x: nm.hvp(f)(x, x),
    "gradient of value and gradient": lambda f: nm.grad(lambda x: (r := nm.value_and_grad(f)(x))[0] + (r[1] ** 2).sum()),
    "gradient of jvp": lambda f: nm.grad(lambda x: nm.jvp(f, (x,), (x,))[1]),
}


def _structure(op: ir.Operation) -> list[Any]:
    """An operation and those inside it: names, attributes, operands and results."""
    ops = [op, *nested(op)]
    return [(o.name, {k: o.attributes[k] for k in o.attributes}, list(o.operands), list(o.results)) for o in ops]


def _readers(op: ir.Operation) -> list[tuple[int, ir.Operation]]:
    """The index of each result, with each operation that reads it."""
    return [(i, use.owner.operation) for i, r in enumerate(op.results) for use in r.uses]


def _watched(rule: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    """The rule; it fails if a call changes the operation, or takes its results from an operation that reads them."""

    def call(op: ir.Operation, *args: Any) -> Any:
        structure, readers = _structure(op), _readers(op)
        out = rule(op, *args)
        assert _structure(op) == structure, op.name
        assert all(reader in _readers(op) for reader in readers), op.name
        calls.append(op.name)
        return out

    return call


@pytest.fixture
def watched() -> Iterator[list[str]]:
    """The names of operations whose rules were called."""
    calls: list[str] = []
    records = [(record, record.control) for record in REGISTRY.values() if record.control is not None]
    for record, rules in records:
        record.control = replace(rules, jvp=_watched(rules.jvp, calls), vjp=_watched(rules.vjp, calls))
    yield calls
    for record, rules in records:
        record.control = rules


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_rule_does_not_change_the_operation(watched: list[str], program: str, transform: str) -> None:
    nm.trace(TRANSFORMS[transform](lambda x: PROGRAMS[program](x).sum()), X).lower()
    assert watched or program == "sort"  # which is no control flow


def test_no_operation_of_a_mark_is_left() -> None:
    """Values are not followed through the IR by operations of their own."""
    text = str(nm.trace(nm.grad(lambda x: PROGRAMS["loop with a rule"](x).sum()), X).lower())
    assert "ad." not in text


def test_control_flow_has_rules_of_its_own_and_no_others() -> None:
    control = [record for record in REGISTRY.values() if record.control is not None]
    assert len(control) == 7
    assert all(isinstance(record.control, ControlRules) for record in control)
    assert all(record.jvp is record.transpose is record.batch is record.collective is None for record in control)


def test_a_record_without_a_rule_does_not_load() -> None:
    with pytest.raises(TypeError, match=r"record 'example.none' requires jvp, batch \(a rule or the word for it\)."):
        general("example.none", doc="Nothing.")
    with pytest.raises(TypeError, match="a record requires a rule here, got UNSUPPORTED"):
        as_rule(UNSUPPORTED("no reason"))
    assert "example.none" not in REGISTRY


WRONG = """
from collections.abc import Sequence
from typing import Any
from nabla_mlir.table.kinds import general
from nabla_mlir.table.rules import MaybeZero
from nabla_mlir.table.rules import Batch, ControlRules
from nabla_mlir.table.tensor import Tensor

Tensors = Sequence[Tensor]
Tangents = Sequence[MaybeZero]
def right(outs: Tensors, xs: Tensors, tangents: Tangents, *, axis: int) -> list[MaybeZero]: return []
def few(outs: Tensors, xs: Tensors, **params: Any) -> list[MaybeZero]: return []
def narrow(outs: Tensors, xs: Tensors, tangents: Tensors) -> list[MaybeZero]: return []
def one(outs: Tensors, xs: Tensors, tangents: Tangents) -> Tensor: return outs[0]
def unmapped(xs: Tensors, size: int) -> list[Tensor]: return []
def control(op: Any, batch: Batch) -> int: return 1

general("a", doc="", jvp=right)
general("a", doc="", jvp=few)
general("a", doc="", jvp=narrow)
general("a", doc="", jvp=one)
general("a", doc="", batch=unmapped)
ControlRules(control, control, control)
"""


def test_mypy_checks_the_signatures_of_rules(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(tmp_path / "wrong.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    errors = re.findall(r"wrong.py:(\d+): error: Argument", done.stdout)
    first = WRONG.splitlines().index('general("a", doc="", jvp=right)') + 1
    assert [int(line) - first for line in errors] == [1, 2, 3, 4, 5, 5, 5], done.stdout


def test_the_tangent_of_the_only_operand() -> None:
    def f(x: Any) -> Any:
        assert sole([x]) is x
        return x

    nm.trace(f, X)


def test_a_batch_binds_values_inside_a_region_only() -> None:
    def f(x: Any, y: Any) -> Any:
        outer = Batch(2, {x.value: y})
        inner = outer.inner(live=y)
        inner.bind(y.value, x, carries=False)
        assert x.value in outer
        assert y.value not in outer
        assert [b[y.value].value for b in (outer, inner)] == [y.value, x.value]
        assert [b.live for b in (outer, inner, inner.inner())] == [None, y, y]
        assert outer[x.value].value == y.value
        return x

    nm.trace(f, X, X)


def test_the_record_of_sort_states_its_residuals() -> None:
    """The order of the elements is computed with the sorted values; forward mode reads it."""
    record: OpDef = REGISTRY["stablehlo.sort"]
    assert record.augmented is not None
    text = str(nm.trace(lambda x: nm.jvp(nnp.sort, (x,), (x,)), X).lower())
    assert text.count("stablehlo.sort") == 1
