"""Checks the laws of records and passes with the interpreter, without compilation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree
from iree.compiler import ir

from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import NablaError
from nabla_mlir.compiling.lowering import clone_module, lower_module
from nabla_mlir.dialects.regions import functions_of, is_private
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.interpreter import interpreted
from nabla_mlir.interpreter.target import Interpreter
from nabla_mlir.passes.base import Pass
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.passes.verify import VerifyPass
from nabla_mlir.prepared.modules import hvp_module
from nabla_mlir.rules.cost import cost_of_function
from nabla_mlir.staging.specs import spec
from nabla_mlir.staging.stages import trace
from nabla_mlir.table.registry import OpDef
from nabla_mlir.testing.cases import LawCase, law_cases
from nabla_mlir.testing.closure import unruled
from nabla_mlir.testing.laws import STEP, Laws
from nabla_mlir.testing.programs import random_module
from nabla_mlir.tools.values import check_equal, inputs_of, results_of
from nabla_mlir.transforms import hvp, jvp, vjp

Run = Callable[[Callable[..., Any], Sequence[np.ndarray]], Any]  # (a function of tensors, its arguments) -> a tree of arrays


class LawError(NablaError, AssertionError):
    """A record or a pass breaks a law."""


@dataclass(frozen=True)
class Costs:
    """The numbers of floating-point operations of a sample: the value alone, the value with its jvp, and with its vjp."""

    name: str
    value: int
    jvp: int
    vjp: int


def check_record(record: OpDef) -> list[Costs]:
    """Checks all samples of a record in f64, and returns the costs of its derivatives.

    - the value: the result of the NumPy function, if the record names one;
    - the jvp: central differences of order 4; the vjp: <ct, J t> = <Jᵀ ct, t>;
    - second order: jvp of vjp and jvp of jvp are compared with differences, and vjp of both with these;
    - `linearize` and `checkpoint` have the same derivatives;
    - batches: vmap and vmap of vmap of the value and of derivatives are compared with a loop, for every choice of mapped operands;
    - prepared products: `apply` after `update` computes the product of one program;
    - closure: all operations that two transforms emit have rules.

    Args:
      record: a record with samples.

    Raises:
      LawError: the record breaks a law or has no sample; the message names the law, the sample and the numbers.

    Example:
      >>> from nabla_mlir.ops.elementwise import sine
      >>> check_record(sine)[0]
      Costs(name='stablehlo_sine_0', value=6, jvp=18, vjp=18)
    """
    cases = law_cases([record])
    if not cases:
        raise LawError(
            f"check_record requires a record with samples, got {record.name} with none.",
            help="give it `sample`: a Domain for each operand if it is elementwise, else a list of Case.",
        )
    for law in cases:
        check_laws(law)
        check_prepared(law)
        if problems := unruled(law):
            names = ", ".join(f"{name} ({problem})" for name, problem in sorted(problems.items()))
            raise LawError(f"{law.name} requires rules for all that its derivatives and maps emit, got {names}.")
    return [costs_of(law) for law in cases]


def interpret(function: Callable[..., Any], inputs: Sequence[np.ndarray]) -> Any:
    """The results of `function`, which takes tensors, for the arrays `inputs`: it is traced, lowered and interpreted with NumPy."""
    stage = trace(function, *inputs, name="main").lower()
    leaves = interpreted(stage.module.operation, "main")([np.asarray(x) for x in inputs])
    return optree.tree_unflatten(stage.entries[0].out_spec, [np.asarray(y) for y in leaves])


def check_laws(law: LawCase, run: Run = interpret) -> None:
    """Raises LawError unless the rules of a record obey all laws for one sample.

    `law` is the sample, and `run` computes the results of a function of tensors for arrays.
    """
    laws = Laws(law)
    got = run(laws.trace, laws.inputs())
    reference = law.reference(laws.xs)
    if reference is not None:
        expected = list(reference) if isinstance(reference, (tuple, list)) else [reference]
        _check_same(law, "the value of NumPy", got["value"], [np.asarray(y) for y in expected], 1e-10)
    if "jvp" in got:
        _check_same(law, "the jvp that differences give", got["jvp"], _difference(got["moved"]), 1e-7)
        left, right = _pairing(got["cts"], got["jvp"]), _pairing(got["vjp"], laws.t)
        _check_same(law, "the adjoint identity <ct, J t> = <Jᵀ ct, t>", left, right, 1e-10, 1e-2)
        _check_same(law, "the jvp of its vjp that differences give", got["hvp"], _difference(got["pulled"]), 1e-6)
        _check_same(law, "the jvp of its jvp that differences give", got["jvp_jvp"], _difference(got["pushed"]), 1e-6)
        varying = _difference(got["pushed_varying"])
        _check_same(law, "the jvp of its jvp along varying tangents that differences give", got["jvp_varying"], varying, 1e-6)
        uhv, vhu = _pairing(got["hvp"], laws.u), _pairing(got["hvu"], laws.t)
        _check_same(law, "symmetry of second derivatives", uhv, vhu, 1e-9, 1e-2)
        _check_same(law, "a vjp of its vjp that is the jvp of its vjp", got["vjp_vjp"], got["hvu"], 1e-9)
        _check_same(law, "a vjp of its jvp that is the jvp of its vjp", got["vjp_jvp"], got["hvp"], 1e-9)
        _check_same(law, "a linearization that is the jvp", got["linearize"], got["jvp"], 1e-10)
        _check_same(law, "a vjp of its checkpoint that is its vjp", got["vjp_checkpoint"], got["vjp"], 1e-10)
        _check_same(law, "second derivatives of its checkpoint that are its own", got["hvp_checkpoint"], got["hvp"], 1e-9)
    for key in [key for key in got if key.startswith("vmap")]:
        _check_same(law, f"a map that is the loop ({key})", got[key], got[key.replace("vmap", "loop")], 1e-10)


def check_prepared(law: LawCase) -> None:
    """Raises LawError unless `apply` returns the product of `hvp`, from the residuals that `update`
    has stored. `law` is a sample.
    """
    laws = Laws(law)
    if not laws.active:
        return
    others = [i for i in range(len(laws.xs)) if i not in laws.active]
    active, data = [laws.xs[i] for i in laws.active], [laws.xs[i] for i in others]

    def loss(chosen: Sequence[Any], *rest: Any) -> Any:
        """A real number from the results of the sample, as a function of its active operands and its other operands.

        `chosen` are the values of the active operands.
        """
        full = dict(zip([*laws.active, *others], [*chosen, *rest], strict=True))
        results = [y for y in law.apply([full[i] for i in range(len(full))]) if is_differentiable(y.dtype)]
        return sum((nnp.sum(nnp.sin(nnp.real(y) + 0.5 * nnp.imag(y))) for y in results), nnp.zeros(()))

    specs = [spec(x.shape, x.dtype) for x in (*active, *data)]
    stage = hvp_module(loss, specs[: len(active)], *specs[len(active) :], entry_points=("update", "apply"))
    module = stage.compile(Interpreter())
    module.update(active, *data)
    k = len(active)
    expected = interpret(lambda *a: hvp(loss)(list(a[:k]), list(a[k : 2 * k]), *a[2 * k :]), [*active, *laws.t, *data])
    _check_same(law, "a prepared product that is that of one program", module.apply(laws.t), expected, 1e-9)


def _check_same(law: LawCase, what: str, got: Any, expected: Any, tolerance: float, least: float = 1.0) -> None:
    """Raises LawError unless the numbers in two trees agree.

    Args:
      law: the sample, whose name is in the error.
      what: the law that the numbers obey, for the error.
      got, expected: the trees.
      tolerance: relative to the largest element or to `least`, whichever is larger.
    """
    a, b = _flat(got), _flat(expected)
    if a.shape != b.shape:
        raise LawError(f"{law.name} requires {what}, got {a.size} numbers instead of {b.size}.")
    scale = max(least, float(np.abs(b).max(initial=0.0)))
    wrong = np.flatnonzero(~np.isclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
    if wrong.size:
        i = wrong[0]
        raise LawError(f"{law.name} requires {what}, got {a[i]} instead of {b[i]} at {i}, {wrong.size} of {a.size} so.")


def _flat(tree: Any) -> np.ndarray:
    """All elements of the arrays of a tree as one vector, in the order of the leaves."""
    leaves = [np.ravel(x) for x in optree.tree_leaves(tree)]
    return np.concatenate(leaves) if leaves else np.zeros(0)


def _difference(values: Any) -> Any:
    """The central difference of order 4, from the values at -2, -1, 1 and 2 steps."""
    return optree.tree_map(lambda a, b, c, d: (a - 8 * b + 8 * c - d) / (12 * STEP), *values)


def _pairing(a: Any, b: Any) -> float:
    return float(sum(np.sum(x * y).real for x, y in zip(a, b, strict=True)))


def costs_of(law: LawCase) -> Costs:
    """The numbers of floating-point operations of a sample, of its jvp and of its vjp; 0 for derivatives that it does not have.

    `law` is the sample of an operation.
    """
    laws = Laws(law)
    operands, count = laws.inputs(), len(laws.xs)

    def flops(function: Callable[..., Any]) -> int:
        """The number of floating-point operations of a function of the operands."""
        stage = trace(function, *operands, name="main").lower()
        return cost_of_function(functions_of(stage.module.operation)["main"]).flops

    def own(xs: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
        """The floating-point results of the sample as a function of the active operands, and the
        active ones of the operands `xs`.
        """

        def f(*active: Any) -> Any:
            """The floating-point results of the sample as a function of its active operands."""
            full = list(xs)
            for i, x in zip(laws.active, active, strict=True):
                full[i] = x
            return [y for y in law.apply(full) if y.dtype.kind in "fc"]

        return f, [xs[i] for i in laws.active]

    def pushed(*xs: Any) -> Any:
        """The jvp of the sample; `xs` are the operands, then the tangents of the active ones."""
        f, active = own(xs[:count])
        return jvp(f, active, list(xs[count : count + len(active)]))

    def pulled(*xs: Any) -> Any:
        """The results of the sample, and the vjp with the results as cotangents."""
        f, active = own(xs[:count])
        ys, pullback = vjp(f, *active)
        return ys, pullback(ys)

    value = flops(lambda *xs: law.apply(xs[:count]))
    return Costs(law.name, value, flops(pushed), flops(pulled)) if laws.active else Costs(law.name, value, 0, 0)


# ---------------------------------------------------------------- passes


def check_pass(item: Pass | str, modules: Iterable[ir.Module] = (), programs: int = 20) -> int:
    """Checks that a pass leaves valid IR and does not change the results; returns the number of modules that the pass changes.

    Each module is checked before lowering, and also after lowering if it has transforms. The pass runs twice, and both runs
    must leave valid IR.

    Args:
      item: the pass, or the text of a pipeline.
      modules: modules of the caller; they are not changed.
      programs: the number of additional random programs (`random_module`).

    Returns:
      The number of modules that the pass changed; 0 means that the check tested nothing.

    Raises:
      LawError: the IR is not valid or a result changed; the message contains the module.

    Example:
      >>> check_pass("nabla-simplify", programs=5)
      5
    """
    pipeline = Pipeline.parse(item) if isinstance(item, str) else Pipeline((item,))
    count = 0
    for module in [*modules, *(random_module(seed) for seed in range(programs))]:
        forms = [module]
        if any(mark in str(module) for mark in ("ad.", "batch.")):
            forms.append(clone_module(module))
            lower_module(forms[-1])
        changes = [_check_on(pipeline, form) for form in forms]
        count += any(changes)
    return count


def _check_on(pipeline: Pipeline, module: ir.Module) -> bool:
    """True if the passes of `pipeline` change a module; raises LawError if the results differ or the IR is not valid."""
    text, after = str(module), clone_module(module)
    try:
        for _ in range(2):
            pipeline.run(after.operation)
            VerifyPass().run(after.operation)
        for name, function in functions_of(module.operation).items():
            if is_private(function):
                continue
            inputs = inputs_of(module, name, ())
            check_equal(results_of(module, name, inputs), results_of(after, name, inputs), str(pipeline))
    except NablaError as error:
        raise LawError(f"{error.message}\nof this module:\n{text}", where=error.where) from error
    return str(after) != text
