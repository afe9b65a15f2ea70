"""No record writes to its arguments: itself, its pullback and its pushforward, each compiled on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from unchanged import call_again, compiled, specs

import nabla_mlir as nm
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.runtime import Array
from nabla_mlir.testing.cases import LawCase, active_operands, law_cases

GROUPS = 12  # that many modules hold all records


def forms(law: LawCase) -> Iterator[tuple[str, Callable[..., Any], list[np.ndarray]]]:
    """The operation itself, its pullback and its pushforward, with their arguments."""
    xs = law.draw()
    count, active = len(xs), active_operands(law, xs)

    def results(*full: Any) -> list[Any]:
        return [y for y in law.apply(full) if is_differentiable(y.dtype)]

    def f(full: Sequence[Any]) -> Callable[..., Any]:
        def of_active(*chosen: Any) -> list[Any]:
            given = dict(zip(active, chosen, strict=True))
            return results(*(given.get(i, x) for i, x in enumerate(full)))

        return of_active

    yield "value", lambda *a: law.apply(a), xs
    outs = nm.trace(results, *specs(xs)).entries[0].outputs if active else ()
    if not outs:
        return
    rng = np.random.default_rng(1)
    cts = [rng.normal(size=y.shape).astype(y.dtype) for y in outs]
    ts = [rng.normal(size=xs[i].shape).astype(xs[i].dtype) for i in active]
    own = lambda a: [a[i] for i in active]  # noqa: E731
    yield "vjp", lambda *a: nm.vjp(f(a[:count]), *own(a))[1](list(a[count:])), [*xs, *cts]
    yield "jvp", lambda *a: nm.jvp(f(a[:count]), own(a), list(a[count:]))[1], [*xs, *ts]


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_no_record_writes_its_arguments(group: int) -> None:
    cases = law_cases()
    chosen = cases[group * len(cases) // GROUPS : (group + 1) * len(cases) // GROUPS]
    programs = {f"{law.name}_{form}": (f, xs) for law in chosen for form, f, xs in forms(law)}
    assert len(programs) >= len(chosen) > 0
    artifact = compiled(programs)
    for name, (_, xs) in programs.items():
        call_again(name, artifact.entry(name), [Array.from_numpy(x) for x in xs])
