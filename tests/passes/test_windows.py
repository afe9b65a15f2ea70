"""Several windows of one module, compiled, against the interpreter: IREE 3.13 gave them one buffer for their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.compiling.lowering import compile_lowered
from nabla_mlir.compiling.reference_check import check_artifact
from nabla_mlir.jax import lax
from nabla_mlir.staging.stages import module
from nabla_mlir.targets import target


def added(x: Any, start: Any = 0.0) -> Any:
    """The sums of neighbours."""
    return lax.reduce_window(x, start, lax.add, (2,), (1,), ((1, 0),))


def largest(x: Any) -> Any:
    """The larger of two neighbours."""
    return lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), ((1, 0),))


def pooled(x: Any, of: Any = lax.add, start: float = 0.0) -> Any:
    """Pools of an image that is made from a vector."""
    return lax.reduce_window(nnp.outer(x, x)[None, :, :, None], start, of, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


CASES: dict[str, Callable[[Any], Any]] = {
    "two": lambda x: (added(x), added(x * 2)),
    "three": lambda x: (added(x), added(x * 2), added(nnp.sin(x))),
    "one_initial_value": lambda x: (added(x, x[0]), added(x * 2, x[0])),
    "largest": lambda x: (largest(x), largest(-x)),
    "pools": lambda x: (pooled(x), pooled(x * 2), pooled(x, lax.max, -np.inf), pooled(-x, lax.max, -np.inf)),
    "integers": lambda x: tuple(lax.reduce_window(x.astype(np.int32) * n, 0, lax.add, (2,), (1,), ((1, 0),)) for n in (1, 2)),
    "in_a_loop": lambda x: nm.fori_loop(0, 3, lambda i, c: (added(nnp.sin(c[0])), added(c[1] * c[0])), (x, x + 1)),
    "gradient": nm.grad(lambda x: nnp.sum(largest(x) * largest(x * x) * added(x) * added(nnp.cos(x)))),
    "map": lambda x: nm.vmap(lambda a: added(a) * added(a * a))(nnp.stack([x, x + 1])),
    "of_a_constant": lambda x: (added(x), added(nnp.ones(8, np.float32)) * x, added(np.ones(8, np.float32)) + added(x * x)),
    "beside_a_product": lambda x: (added(x), nnp.outer(x, x) @ x, added(x * x)),
}


@pytest.mark.parametrize("name", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_windows_do_not_share_their_results(name: str) -> None:
    stages = {case: nm.trace(f, nm.spec(8, "f4"), name=case).lower() for case, f in CASES.items()}
    whole, machine = module(**stages).module, target(name)  # type: ignore[arg-type]
    checks = check_artifact(whole, machine, compile_lowered(whole, machine, cache=False), is_bounded=False)
    assert {case: check.status for case, check in checks.items()} == dict.fromkeys(CASES, "checked"), checks
