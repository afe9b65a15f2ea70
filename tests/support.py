"""What the tests of the front end share: many small cases compiled as one function, compared with a reference."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

import nabla_mlir.numpy as jnp
from nabla_mlir.staging.jit import jit
from nabla_mlir.table.promotion import Defaults, set_default_dtypes

Case = Callable[[Any, Any], Any]


@contextlib.contextmanager
def default_dtypes(float: Any, int: Any) -> Iterator[None]:
    """Other default dtypes within a block; float64 and int64 are NumPy's own."""
    before = Defaults.float, Defaults.int
    set_default_dtypes(float=float, int=int)
    try:
        yield
    finally:
        set_default_dtypes(float=before[0], int=before[1])


def seed_of_the_day() -> int:
    """For random cases: others every day, and within one the same in every run, so that what is red can be looked at again."""
    return int(time.time() // 86_400) * 1000


class Group:
    """Cases ``f(xp, a)`` on the arrays ``a.name``: run with ``xp = numpy``, and in one jitted function with ours.

    The defaults are NumPy's, so that values, shapes and dtypes all have to agree.
    """

    def __init__(self, inputs: Mapping[str, np.ndarray], cases: Mapping[str, Case], tolerance: float = 1e-10):
        self.inputs, self.cases, self.tolerance = dict(inputs), dict(cases), tolerance
        self._results: dict[str, Any] | Exception | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self.cases)

    def run(self) -> dict[str, Any]:
        if self._results is None:
            try:
                with default_dtypes(np.float64, np.int64):
                    self._results = jit(self._all)(self.inputs)
            except Exception as error:  # kept: a module that fails is not compiled anew for every case
                self._results = error
        if isinstance(self._results, Exception):
            raise self._results
        return self._results

    def _all(self, inputs: Any) -> dict[str, Any]:
        a = SimpleNamespace(**inputs)
        out = {}
        for name, case in self.cases.items():
            try:
                out[name] = case(jnp, a)
            except Exception as error:
                error.add_note(f"in case {name}")
                raise
        return out

    def check(self, name: str) -> None:
        got = self.run()[name]
        with np.errstate(all="ignore"):
            want = self.cases[name](np, SimpleNamespace(**self.inputs))
        assert_same(got, want, self.tolerance)


def assert_same(got: Any, want: Any, tolerance: float = 1e-10) -> None:
    """Values, shapes and dtypes agree; also for lists of arrays."""
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other, tolerance)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    tolerance = max(tolerance, 2e-5 if want.dtype in (np.float32, np.complex64) else 0)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
