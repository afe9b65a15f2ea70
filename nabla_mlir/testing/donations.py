"""Checks that a donated argument changes no number: compiled code may write its results to the memory of the argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nabla_mlir import numpy as nnp
from nabla_mlir.compiling.lowering import compile_lowered
from nabla_mlir.dialects.arguments import mark_donated
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.runtime import Array, Executable
from nabla_mlir.runtime.donation import address, call
from nabla_mlir.staging.stages import Traced, module, trace
from nabla_mlir.targets import CPU
from nabla_mlir.testing.cases import LawCase
from nabla_mlir.testing.checks import LawError
from nabla_mlir.testing.laws import Laws
from nabla_mlir.transforms import vjp

PLAIN, DONATED = "plain_", "donated_"


def check_donation(cases: Iterable[LawCase], derivatives: bool = True, driver: str = "local-sync") -> int:
    """Checks samples of records, compiled: a donation of the first argument changes no result and no other argument.

    Each sample gives a function of its operands. It returns the value, the vjp, and the first operand with a new first element,
    which the compiled code writes to the donated memory. A read that comes after this write would give another number. One
    module has this function of every sample twice, without and with the donation, so that IREE compiles once.

    Args:
      cases: the samples; those without operands are skipped.
      derivatives: False leaves out the vjp.
      driver: the driver that runs the code.

    Returns:
      The number of samples whose first operand was overwritten; 0 means that the check tested nothing.

    Raises:
      LawError: a result or an argument differs; the message names the sample.

    Example:
      >>> from nabla_mlir.ops.elementwise import sine
      >>> from nabla_mlir.testing.cases import law_cases
      >>> check_donation(law_cases([sine])[:1])
      1
    """
    samples = {law.name: Laws(law) for law in cases if law.case.shapes}
    traced: dict[str, Traced] = {}
    for name, laws in samples.items():
        traced[PLAIN + name] = traced[DONATED + name] = trace(_function(laws, derivatives), *laws.xs)
    lowered = module(**traced).lower()
    for name, function in functions_of(lowered.module.operation).items():
        if name.startswith(DONATED):
            mark_donated(function, [0])
    code = Executable.load(compile_lowered(lowered.module, CPU(), title="donations"), driver)
    count = 0
    for name, laws in samples.items():
        expected = [np.asarray(y) for y in code.function(PLAIN + name)([Array.from_numpy(x) for x in laws.xs])]
        inputs = [Array.from_numpy(x) for x in laws.xs]
        memory = address(inputs[0])
        results = call(code.function(DONATED + name), inputs, [0], None)
        count += any(memory and address(y) == memory for y in results)
        _check_equal(name, "the results without a donation", [np.asarray(y) for y in results], expected)
        _check_equal(name, "unchanged arguments", [np.asarray(x) for x in inputs[1:]], laws.xs[1:])
    return count


def _function(laws: Laws, derivatives: bool) -> Callable[..., Any]:
    """A function of a sample's operands that returns three things, the last of which can be written to the first operand's memory.

    They are the results, their vjp for constant cotangents if `derivatives`, and the first operand with another first element. The
    new element depends on the other results, so that the write comes last and needs no copy. `laws` holds the sample.
    """

    def f(*xs: Any) -> Any:
        """The results, their derivatives, and the first operand with one element replaced, whose buffer may be reused.

        The new element is 1 or 2 by the sign of the sum of all results, so it can be written only when they are known.
        """
        outs = laws.law.apply(xs)
        floats = [i for i, y in enumerate(outs) if is_differentiable(y.dtype)]
        slopes: Sequence[Any] = []
        if derivatives and laws.active and floats:

            def differentiable(*active: Any) -> Any:
                """The floating-point results as a function of the active operands; the others are those of the call."""
                operands = dict(enumerate(xs)) | dict(zip(laws.active, active, strict=True))
                results = laws.law.apply([operands[i] for i in range(len(xs))])
                return [results[i] for i in floats]

            ys, pullback = vjp(differentiable, *(xs[i] for i in laws.active))
            slopes = pullback(laws.cotangents(ys))
        total = sum((nnp.sum(nnp.real(y)).astype(np.float64) for y in (*outs, *slopes)), nnp.zeros(()))
        first = nnp.where(total > 0, 1, 2).astype(xs[0].dtype)
        return outs, slopes, xs[0].at[(0,) * xs[0].ndim].set(first) if xs[0].size else xs[0]

    return f


def _check_equal(name: str, what: str, got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Raises LawError unless the arrays are equal bit by bit, except for NaN; `name` and `what` name the sample and the law.

    `got` and `expected` are lists of arrays.
    """
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        if not np.array_equal(a, b, equal_nan=b.dtype.kind in "fc"):
            raise LawError(f"{name} requires {what} if its first argument is donated, got {a} instead of {b} for array {i}.")
