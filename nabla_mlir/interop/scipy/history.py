"""The history of a solver: a table of its iterations, a plot, and a line on the terminal while it runs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DeployError, user_frame
from nabla_mlir.base.figures import axes_or_new
from nabla_mlir.base.progress import own_line, watch

_COLUMNS = ("value", "gradient", "step", "seconds", "fun", "jac", "hess")


class History:
    """The iterations of a solver, in order.

    Attributes:
      value: the value of the objective, shape (iterations,), like the others.
      gradient: the largest entry of the gradient; NaN if the method needs none.
      step: the distance from the iterate before.
      seconds: the time since the start.
      fun, jac, hess: the numbers of evaluations so far; `hess` also counts products.

    Example:
      >>> import nabla_mlir as nm
      >>> found = nm.minimize(lambda x: ((x - 1.0) ** 4).sum(), np.zeros(2), method="Newton-CG")
      >>> len(found.history) == found.nit, bool(found.history.value[-1] == found.fun)
      (True, True)
    """

    value: np.ndarray
    gradient: np.ndarray
    step: np.ndarray
    seconds: np.ndarray
    fun: np.ndarray
    jac: np.ndarray
    hess: np.ndarray

    def __init__(self) -> None:
        self._rows: list[tuple[float, ...]] = []
        self._start = time.perf_counter()

    def add(self, value: float, gradient: float, step: float, evaluations: dict[str, int]) -> None:
        """Adds the numbers of one iteration.

        Args:
          value: the value of the objective.
          gradient: the largest entry of the gradient.
          step: the distance from the iterate before.
          evaluations: the numbers of evaluations so far, of `fun`, `jac`, `hess` and `hessp`.
        """
        counts = evaluations["fun"], evaluations["jac"], evaluations["hess"] + evaluations["hessp"]
        self._rows.append((value, gradient, step, time.perf_counter() - self._start, *counts))

    def __len__(self) -> int:
        return len(self._rows)

    def __getattr__(self, name: str) -> np.ndarray:
        """The column with this name, as an array with one number for each iteration."""
        if name not in _COLUMNS:
            raise AttributeError(f"a history has no {name!r}")
        column = _COLUMNS.index(name)
        return np.array([row[column] for row in self._rows], np.int64 if column > 3 else np.float64)

    def __repr__(self) -> str:
        if not self._rows:
            return "History(0 iterations)"
        return f"History({len(self)} iterations, {self.value[0]:.6g} to {self.value[-1]:.6g} in {self.seconds[-1]:.3g} s)"

    def plot(self, axes: Any = None) -> Any:
        """Draws the distance of the value from its minimum, and the gradient, by iteration.

        Args:
          axes: axes of Matplotlib; by default new ones.

        Returns:
          The axes.

        Raises:
          DeployError: Matplotlib is not installed.
        """
        axes = axes_or_new(axes)
        iterations, excess = np.arange(1, len(self) + 1), self.value - self.value.min(initial=np.inf)
        for numbers, label in ((excess, "value above the lowest"), (self.gradient, "largest entry of the gradient")):
            if np.any(numbers > 0):
                axes.semilogy(iterations, np.where(numbers > 0, numbers, np.nan), marker=".", label=label)
        axes.set_xlabel("iteration")
        axes.grid(visible=True, alpha=0.3)
        if axes.get_legend_handles_labels()[1]:
            axes.legend()
        return axes


@contextlib.contextmanager
def watched(title: str, is_wanted: bool) -> Iterator[Any]:
    """A function that shows the last iteration of a history on standard error, on a terminal or in a notebook.

    Args:
      title: the name of the solver.
      is_wanted: True shows each iteration, and leaves the last one; False shows a line after one second, which says the iteration
        once a second.

    Raises:
      DeployError: rich is not installed.
    """
    if not is_wanted:
        latest = _Latest()
        with watch(title, latest):
            yield latest.set
        return
    try:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text
    except ImportError:
        raise DeployError(
            "progress requires rich, got an environment without it.", where=user_frame(), help="pip install 'nabla-mlir[solvers]'"
        ) from None
    console = Console(file=sys.stderr)
    if not (console.is_terminal or console.is_jupyter):
        yield lambda history: None
        return
    with own_line(), Live(console=console, refresh_per_second=8) as live:
        yield lambda history: live.update(Text(f"{title}: {_line(history)}"))


class _Latest:
    """The last iteration of a history, as text."""

    history: History | None = None

    def set(self, history: History) -> None:
        self.history = history

    def __str__(self) -> str:
        return f": {_line(self.history)}" if self.history else ""


def _line(history: History) -> str:
    """The last iteration of a history as one line of text."""
    value, gradient, _, seconds, calls, *_ = history._rows[-1]
    slope = "" if np.isnan(gradient) else f", gradient {gradient:.2e}"
    return f"iteration {len(history)}, value {value:.10g}{slope}, {calls:.0f} calls, {seconds:.1f} s"
