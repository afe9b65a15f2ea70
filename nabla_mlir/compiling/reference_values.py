"""Reference values for artifacts: the interpreter's results on drawn arguments, and the distances that rounding explains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DeployError
from nabla_mlir.compiling.comparison import FACTOR, RUNS, Arrays, bound_of, share_of, unit_of
from nabla_mlir.compiling.reference_check import allowance_of
from nabla_mlir.compiling.reference_runs import ABSENT, ReferenceRuns, reason_of
from nabla_mlir.dialects.regions import nested
from nabla_mlir.interpreter import Budget
from nabla_mlir.ops.callbacks import calls_python
from nabla_mlir.runtime.drawn import DRAWS, FORM
from nabla_mlir.runtime.reference import Reference, ResultReference, text_of, weighted_sum, weights_of

# The number of stored elements for each result, and for all results of an entry point.
_SAMPLES, _MOST, _LEAST = 8, 96, 2
_MOST_DRAWS = 3


def references_of(module: ir.Module, is_bounded: bool = True) -> dict[str, Reference]:
    """The reference of each entry point of a lowered module, by name: the interpreter's results on drawn arguments.

    `is_bounded` = True skips entry points for which the interpreter would take too long, as checks do.
    """
    found: list[tuple[float, dict[str, Reference]]] = []
    runs, allowance = ReferenceRuns(module), allowance_of(module)
    for draw in DRAWS[:_MOST_DRAWS]:
        samples = _LEAST if found and found[0][0] >= 0.5 else _SAMPLES
        found.append(_references_on_draw(runs, draw, allowance if is_bounded or found else None, samples))
        if found[0][0] < 0.5:
            allowance = allowance_of(module)
    # The first on which rounding decides less than half of the numbers, with the others that the interpreter had time for.
    found.sort(key=lambda item: item[0] < 0.5)
    (_, first), *others = found
    return {
        name: replace(reference, others=tuple(more[name] for share, more in others if share >= 0.5 and not more[name].absence))
        for name, reference in first.items()
    }


def _references_on_draw(runs: ReferenceRuns, draw: str, budget: Budget | None, samples: int) -> tuple[float, dict[str, Reference]]:
    """The smallest share of elements that rounding does not decide, of all entry points; and the reference of each, by name.

    Args:
      runs: the interpreter with the module.
      draw: the name of the random arguments.
      budget: the steps that the interpreter may take; None sets no limit.
      samples: the number of elements to store for each result.
    """
    runs.set_arguments(draw=draw, budget=budget)
    found, smallest = {}, 1.0
    for order, name in enumerate(runs.entries):
        try:
            share, results = _results(runs, name, samples)
            runs.budget.charge(RUNS)
        except ABSENT as error:
            found[name] = Reference(draw, runs.is_definite, order, absence=reason_of(error), form=FORM)
        else:
            found[name] = Reference(draw, runs.is_definite, order, results, form=FORM)
            smallest = min(smallest, share)
    return smallest, found


def _results(runs: ReferenceRuns, name: str, samples: int) -> tuple[float, tuple[ResultReference, ...]]:
    """The share of elements that rounding does not decide, and the reference of each result of an entry point.

    `samples` is the number of elements to store for each result. Raises DeployError if the entry point calls Python.
    """
    if any(map(calls_python, nested(runs.entries[name]))):
        raise DeployError("it calls functions of Python")
    wanted = runs.call(name)
    reruns = [runs.perturbed(name, k) for k in range(RUNS)]
    samples = max(_LEAST, min(samples, _MOST // max(len(wanted), 1)))
    bounds = [bound_of(y, [run[i] for run in reruns]) for i, y in enumerate(wanted)]
    shares = [share_of(y, bound) for y, bound in zip(wanted, bounds, strict=True) if y.size]
    results = (_result(y, bounds[i], [run[i] for run in reruns], samples) for i, y in enumerate(wanted))
    return min(shares, default=1.0), tuple(results)


def _result(wanted: np.ndarray, bound: np.ndarray, reruns: Arrays, samples: int) -> ResultReference:
    """The reference of one result: some elements with their bounds, and a weighted sum of all with its bound.

    There is no sum if rounding decides an element.

    Args:
      wanted: the interpreter's result.
      bound: the largest right distance of each element; infinite if rounding decides it.
      reruns: the result in each perturbed run.
      samples: the number of elements to store.
    """
    flat, bounds = wanted.reshape(-1), bound.reshape(-1)
    indices = [i for i in _indices(flat, samples) if np.isfinite(bounds[i])]
    values, distances = tuple(text_of(flat[i]) for i in indices), tuple(float(f"{bounds[i]:.2e}") for i in indices)
    if not flat.size or not np.isfinite(bounds).all():
        return ResultReference(tuple(indices), values, distances)
    total, sums = weighted_sum(wanted), [weighted_sum(y) for y in reruns]
    size = np.abs(flat.astype(np.complex128))
    size = np.where(np.isfinite(size), size, 1.0)
    weights, unit = weights_of(flat.size), unit_of(wanted.dtype)
    # As for elements: sixteen units of each element, one of the largest (errors of random sign), and the rounding of this sum.
    close = 16 * unit * float(weights @ size) + unit * np.sqrt(flat.size) * float(size.max()) + 1e-14 * float(weights @ size)
    spread = FACTOR * max(abs(other - total) for other in sums)
    if not np.isfinite(total):
        return ResultReference(tuple(indices), values, distances)
    return ResultReference(tuple(indices), values, distances, text_of(total), float(f"{max(close, spread):.2e}"))


def _indices(flat: np.ndarray, samples: int) -> list[int]:
    """The indices of the stored elements of a flat array: all of a short one; else the first, the last, the largest, and others.

    There are at most about `samples` indices.
    """
    n = flat.size
    if n <= samples:
        return [*range(n)]
    size = np.abs(flat.astype(np.complex128))
    # The weights are irregular numbers from 1 to 2, so these are irregular indices from 0 to n - 1.
    spread = (np.floor((weights_of(samples + 1) - 1.0) * n)).astype(int).tolist()
    return sorted({0, n - 1, int(np.argmax(np.where(np.isfinite(size), size, 0))), *spread[1 : max(samples - 2, 1)]})
