"""Faults injected into programs: each is one changed operation of a valid module, and the check catches those on rare values."""

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.compiling import reference_check
from nabla_mlir.compiling.lowering import clone_module
from nabla_mlir.compiling.reference_check import check_artifact
from nabla_mlir.compiling.reference_runs import ReferenceRuns
from nabla_mlir.dialects.context import bytecode_of, parse_module
from nabla_mlir.interpreter import Budget, OutOfStepsError, interpreted
from nabla_mlir.interpreter.executable import InterpretedExecutable
from nabla_mlir.interpreter.frames import Cost
from nabla_mlir.testing.injections import FAULTS, inject

X = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -3.0]])


def every_kind(x, i):
    """A program with an operation for each fault."""
    y = nnp.where(x > 0, x, nnp.exp(x) - 1.0) / (2.0 + x * x)
    return nnp.sum(y, axis=0) - nm.fori_loop(0, 2, lambda _, c: c - 0.5 * x[i], x[i]), y[:, ::-1]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_leaves_a_valid_module_with_other_numbers(fault):
    module = nm.trace(every_kind, X, np.int32(0), name="f").lower().module
    before, right = str(module), interpreted(module.operation, "f")([X, np.int32(0)])
    differ = 0
    for k in range(6):
        broken = clone_module(module)
        injection = inject(broken, fault, np.random.RandomState(k))
        assert injection is not None
        assert injection.fault == fault
        assert broken.operation.verify()
        try:
            got = interpreted(broken.operation, "f")([X, np.int32(0)], Budget(1e4))
        except OutOfStepsError:  # of a loop
            differ += 1
        else:
            differ += not all(np.array_equal(a, b) for a, b in zip(got, right, strict=True))
    assert differ
    assert str(module) == before


def test_no_operation_can_have_a_fault():
    module = nm.trace(lambda x: x * x, X, name="f").lower().module
    assert inject(module, "shift index", np.random.RandomState(0)) is None


class Interpreter:
    """The interpreter in the place of compiled code."""

    @staticmethod
    def load(content, driver):
        return InterpretedExecutable(parse_module(content).operation)


# Programs whose values of one sign, of one size, or of 0 and 1 do not show a fault, and the operation that has it.
RARE = {
    "negative numbers": (lambda x: nnp.where(x > 0, x, nnp.exp(x) - 1), np.ones(3), "negate", "stablehlo.exponential"),
    "positive numbers": (
        lambda x: nnp.log(nnp.abs(x)) + nnp.where(x > 0, nnp.exp(x), x),
        np.ones(3),
        "negate",
        "stablehlo.exponential",
    ),
    "sums that saturate": (
        lambda w: nm.grad(lambda w: nnp.sum(nm.nn.sigmoid(nnp.ones((4, 500)) @ w)))(w),
        np.ones(500),
        "negate",
        "stablehlo.subtract",
    ),
    "integers": (lambda i: i // 3 + (i & 4), np.ones(8, np.int32), "skip", "stablehlo.select"),
    "large numbers": (lambda x: nnp.minimum(x, 6.0) * 2, np.ones(4), "skip", "stablehlo.minimum"),
    "huge numbers": (lambda x: nnp.where(nnp.abs(x) > 100, nnp.log(nnp.abs(x)), x), np.ones(3), "negate", "stablehlo.log"),
    "huge sums": (
        lambda x: nm.cond(x.sum() > 500, lambda x: nnp.log(x), lambda x: x * 2, x),
        np.ones(3),
        "negate",
        "stablehlo.log",
    ),
    "tiny numbers": (lambda x: nnp.where(nnp.abs(x) < 1e-3, nnp.cbrt(x), x), np.ones(3), "negate", "stablehlo.cbrt"),
    "zeros": (lambda x: nnp.where(x == 0, nnp.cos(x), x), np.ones(3), "negate", "stablehlo.cosine"),
    "infinities": (lambda x: nnp.where(nnp.isinf(x), nnp.sign(x), x), np.ones(3), "negate", "stablehlo.sign"),
    "NaN": (
        lambda x, y: nnp.where(nnp.isnan(x), nnp.exp(nnp.tanh(y)), x),
        (np.ones(3), np.ones(3)),
        "negate",
        "stablehlo.exponential",
    ),
}


@pytest.mark.parametrize("name", RARE)
def test_faults_on_rare_values_are_caught(name, monkeypatch):
    f, x, fault, operation = RARE[name]
    monkeypatch.setattr(reference_check, "Executable", Interpreter)
    module = nm.trace(f, *(x if isinstance(x, tuple) else (x,)), name="f").lower().module
    caught = 0
    for k in range(40):
        broken = clone_module(module)
        injection = inject(broken, fault, np.random.RandomState(k))
        if injection is None or not injection.operation.startswith(operation):
            continue
        (check,) = check_artifact(module, nm.CPU("host"), bytecode_of(broken)).values()
        assert check.status == "differs", injection
        caught += 1
    assert caught


def loss(w, rows, signs, l2):
    return nnp.mean(nm.nn.softplus(-signs * (rows @ w))) + 0.5 * l2 * nnp.sum(w * w)


def logistic(w, v, *data):
    """A Hessian-vector product for which the interpreter has the time for few sets of arguments."""
    return nm.hvp(loss)(w, v, *data)


LOGISTIC = [nm.spec(500), nm.spec(500), nm.spec((2000, 500)), nm.spec(2000), nm.spec(())]
# Faults in terms that others hide, in what prevents an overflow, and in the first value of a maximum of negative numbers.
LARGE = {
    "a product": (nm.grad(loss), LOGISTIC[1:], "negate", "stablehlo.dot_general"),
    "a row": (logistic, LOGISTIC, "drop row", "stablehlo.subtract"),
    "an overflow": (logistic, LOGISTIC, "reverse comparison", "stablehlo.compare"),
    "a maximum": (
        lambda x, w: nm.nn.log_softmax(x @ w),
        [nm.spec((64, 100)), nm.spec((100, 10))],
        "change initial value",
        "stablehlo.reduce",
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_faults_of_large_programs_are_caught(name, monkeypatch):
    f, types, fault, operation = LARGE[name]
    monkeypatch.setattr(reference_check, "Executable", Interpreter)
    module = nm.trace(f, *types, name="f").lower().module
    caught = set()
    for k in range(40):
        broken = clone_module(module)
        injection = inject(broken, fault, np.random.RandomState(k))
        if injection is None or not injection.operation.startswith(operation) or injection in caught:
            continue
        (check,) = check_artifact(module, nm.CPU("host"), bytecode_of(broken)).values()
        assert check.status == "differs", injection
        caught.add(injection)
    assert caught


def test_other_sets_of_arguments_need_no_perturbed_runs_for_close_results(monkeypatch):
    """The first set takes one perturbed run, and the time for two others is kept."""

    class OffByARounding(InterpretedExecutable):
        def function(self, name):
            right = super().function(name)
            return lambda arguments: [np.asarray(y) + np.float32(1.5e-6) * np.abs(y).max() for y in right(arguments)]

    runs = []
    perturbed = ReferenceRuns.perturbed
    monkeypatch.setattr(ReferenceRuns, "perturbed", lambda self, *args: runs.append(self.draw) or perturbed(self, *args))
    monkeypatch.setattr(Interpreter, "load", lambda content, driver: OffByARounding(parse_module(content).operation))
    monkeypatch.setattr(reference_check, "Executable", Interpreter)
    module = nm.trace(logistic, *LOGISTIC, name="f").lower().module
    (check,) = check_artifact(module, nm.CPU("host"), bytecode_of(module)).values()
    assert str(check).startswith(
        "checked: on random arguments, small numbers of both signs, numbers of both signs, large numbers of both signs"
    )
    assert set(runs) == {"small numbers of both signs"}


def test_a_plain_budget_pays_for_perturbed_runs_when_they_are_made():
    budget = Budget(100.0, is_for_checks=True)
    budget.spend(Cost(10.0, 30.0))
    assert budget.steps == 60
    budget.charge(0)
    assert (budget.steps, budget.reserve) == (90, 0)
    budget.is_plain = True
    budget.spend(Cost(10.0, 30.0))
    budget.charge(0)
    assert (budget.steps, budget.reserve) == (80, 30)
    budget.charge(1)
    assert (budget.steps, budget.reserve) == (50, 0)


def test_the_arguments_of_a_call_are_not_all_that_is_checked(monkeypatch):
    """Zeros show nothing of a product."""
    monkeypatch.setattr(reference_check, "Executable", Interpreter)
    module = nm.trace(lambda x: x * 3.0 - 2.0 * x * x, X, name="f").lower().module
    broken = nm.trace(lambda x: x * 3.0 + 2.0 * x * x, X, name="f").lower().module
    (check,) = check_artifact(module, nm.CPU("host"), bytecode_of(broken), {"f": [0 * X]}).values()
    assert check.status == "differs"


def test_branches_that_no_draw_reaches_are_named(monkeypatch):
    """A side of a selection counts where the results were compared; others are in the detail of the check."""
    monkeypatch.setattr(reference_check, "Executable", Interpreter)

    def detail(f):
        module = nm.trace(f, np.ones(3), name="f").lower().module
        (check,) = check_artifact(module, nm.CPU("host"), bytecode_of(module)).values()
        assert check.status == "checked"
        return check.detail

    assert "side" not in detail(lambda x: nnp.where(x > 0, x, 2 * x))
    assert "huge" not in detail(lambda x: nnp.where(x > 0, x, 2 * x))
    assert "side" not in detail(lambda x: nnp.where(x > 100, x, 2 * x))
    hidden = lambda x: nnp.where(nnp.sin(x) == 0.123, 2.0, x)  # noqa: E731
    assert detail(hidden).endswith("NaN; one side only of 1 selection or branch of the module")
    both = lambda x: nm.cond(nnp.cos(x).sum() == 0.123, hidden, nnp.negative, x)  # noqa: E731
    assert detail(both).endswith("; one side only of 1 selection or branch of the module")
