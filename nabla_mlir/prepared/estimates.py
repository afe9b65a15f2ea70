"""Traces and spectra of operators from random probes: running estimates with their errors, which the caller can stop at any time.

Each probe has its own seed, made from `seed` and its number. So it is the same on every worker, in every repetition, and in blocks
of any size. A block of probes is multiplied at once. For an operator on a cluster, several blocks are computed at the same time,
each as one task for each group of shards.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.figures import axes_or_new
from nabla_mlir.base.typing import Operator
from nabla_mlir.prepared.sums import SummedOperator

T = TypeVar("T")
P = ParamSpec("P")
Run = Generator[np.ndarray, Any, T]  # a generator that yields matrices and receives their products


@dataclass(frozen=True)
class Estimate:
    """The mean of the samples of probes.

    Attributes:
      value: the mean.
      error: the standard error of the mean; infinite for one probe.
      probes: their number.
    """

    value: float
    error: float
    probes: int

    @staticmethod
    def of(samples: Sequence[float]) -> Estimate:
        """The mean of independent samples, with its standard error (infinite for one sample) and the number of samples."""
        count = len(samples)
        error = float(np.std(samples, ddof=1)) / math.sqrt(count) if count > 1 else math.inf
        return Estimate(float(np.mean(samples)), error, count)


class Running(Iterator[T]):
    """An iterator over estimates that improve with each block of probes; `last` returns the final one.

    Args:
      name: the name of the estimator.
      estimates: the estimates, which are computed when they are needed.
    """

    def __init__(self, name: str, estimates: Generator[T, None, None]):
        """Stores the name of the estimator for its repr, and the generator of estimates, which has not started."""
        self._name, self._estimates = name, estimates

    def __next__(self) -> T:
        """The estimate after one more block of probes; StopIteration after the last."""
        return next(self._estimates)

    def close(self) -> None:
        """Ends the computation."""
        self._estimates.close()

    def last(self) -> T:
        """The estimate from all probes; the estimates before it are computed and dropped."""
        *_, estimate = self
        return estimate

    def __repr__(self) -> str:
        return f"<running estimates of {self._name}: iterate over them, or call last()>"


def _running_estimates(method: Callable[P, Generator[T, None, None]]) -> Callable[P, Running[T]]:
    """A decorator for estimators, which are generators of estimates: the decorated function returns them as `Running` estimates.

    It also checks that the first argument is a linear operator.
    """

    @functools.wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> Running[T]:
        """Checks that the first argument is a linear operator, and starts the estimates; raises TraceError otherwise."""
        operator: Any = args[0] if args else kwargs.get("operator")
        if len(getattr(operator, "shape", ())) != 2 or not hasattr(operator, "matmat"):
            raise TraceError(
                f"{method.__name__} requires a linear operator, got {type(operator).__name__}.",
                where=user_frame(),
                help="for example nm.HessianOperator(f, x), or SciPy's aslinearoperator(matrix).",
            )
        return Running(method.__name__, method(*args, **kwargs))

    return run


@_running_estimates
def hutchinson(
    operator: Operator,
    probes: int = 100,
    *,
    tolerance: float = 0.0,
    seed: int = 0,
    block: int | None = None,
    as_completed: bool = False,
) -> Generator[Estimate, None, None]:
    """Running estimates of the trace by Hutchinson's method: the mean of ``vᵀ A v`` over vectors v of random signs.

    Args:
      operator: a square `LinearOperator` of real numbers.
      probes: the largest number of vectors.
      tolerance: it ends when the relative error is at most this; 0 uses all probes.
      seed: the seed of the vectors.
      block: the number of vectors that are multiplied at once; None means as many as the operator does.
      as_completed: True reads blocks of probes as they finish, and a cluster decides their number. An early end then depends on
        the speed of the workers, and does not wait for a slow one.

    Raises:
      ShapeError: the operator is not square.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> H = nm.HessianOperator(lambda x: (x ** 3).sum(), np.array([1.0, 2.0]))
      >>> nm.hutchinson(H, 20).last()
      Estimate(value=18.0, error=0.0, probes=20)
    """
    yield from _running(operator, _blocks(operator, probes, seed, block), tolerance, as_completed)


@_running_estimates
def hutch_plus_plus(
    operator: Operator,
    probes: int = 100,
    *,
    tolerance: float = 0.0,
    seed: int = 0,
    block: int | None = None,
    as_completed: bool = False,
) -> Generator[Estimate, None, None]:
    """Running estimates of the trace by Hutch++ (Meyer, Musco, Musco, Woodruff, 2021): ``tr(Qᵀ A Q)`` plus the mean of ``wᵀ A w``.

    The columns of Q span A times a third of the probes, and their products need another third. w are the remaining probes,
    projected onto the complement of that space. If the eigenvalues have one sign, a relative error of ε needs a number of products
    proportional to 1/ε; `hutchinson` needs 1/ε². The advantage grows if the eigenvalues decay fast. It stores ``probes / 3``
    vectors.

    Args:
      operator, tolerance, seed, block, as_completed: as for `hutchinson`.
      probes: the largest number of products.

    Yields:
      Estimates. `error` is that of the mean, and `probes` counts all products. The estimate is exact if Q is the whole space.

    Raises:
      ShapeError: the operator is not square.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> H = nm.HessianOperator(lambda x: (x[:2] ** 3).sum() + 0.5 * x[2] ** 2, np.array([10.0, 20.0, 0.0]))
      >>> *_, estimate = nm.hutch_plus_plus(H, 9)
      >>> round(estimate.value, 9), estimate.error, estimate.probes
      (181.0, 0.0, 6)
    """
    count = min(probes // 3, operator.shape[0])
    images = [products for _, products in _with_products(operator, _blocks(operator, count, seed, block))]
    basis = np.linalg.qr(np.concatenate([np.empty((operator.shape[0], 0)), *images], axis=1))[0]
    columns = (basis[:, i : i + _width(operator, block)] for i in range(0, count, _width(operator, block)))
    known = sum(float(np.einsum("ij,ij->", vectors, products)) for vectors, products in _with_products(operator, columns))
    if count == operator.shape[0]:
        yield Estimate(known, 0.0, 2 * count)
        return
    others = (v - basis @ (basis.T @ v) for v in _blocks(operator, probes - count, seed, block, start=count))
    for estimate in _running(operator, others, tolerance, as_completed, known):
        yield replace(estimate, probes=2 * count + estimate.probes)


def _running(
    operator: Operator, blocks: Iterator[np.ndarray], tolerance: float, as_completed: bool, known: float = 0.0
) -> Iterator[Estimate]:
    """Yields one estimate for each block of vectors, from all vectors so far: `known` plus the mean of ``vᵀ A v``.

    Args:
      operator: the matrix A, given by its products.
      blocks: the probes v, as the columns of matrices.
      tolerance: it ends when the error relative to the estimate is at most this; 0 uses all blocks.
      as_completed: True takes blocks in the order in which a cluster finishes them.
      known: a part of the trace that is already known exactly.
    """
    samples: list[float] = []
    for vectors, products in _with_products(operator, blocks, as_completed):
        samples += (known + np.einsum("ij,ij->j", vectors, products, dtype=float)).tolist()
        estimate = Estimate.of(samples)
        yield estimate
        if tolerance and estimate.error <= tolerance * abs(estimate.value):
            return


@dataclass(frozen=True, repr=False)
class Spectrum:
    """The distribution of eigenvalues, as a few nodes with weights for each probe.

    Attributes:
      nodes, weights: of shape (probes, steps); the weights of a probe add up to one.
      size: the size of the matrix.
    """

    nodes: np.ndarray
    weights: np.ndarray
    size: int

    def __repr__(self) -> str:
        """The number and range of the eigenvalues, and the numbers of probes and steps, as text."""
        probes, steps = self.nodes.shape
        low, high = self.nodes.min(), self.nodes.max()
        return f"Spectrum({self.size} eigenvalues from {low:.4g} to {high:.4g}, {probes} probes of {steps} steps)"

    def density(self, at: np.ndarray, width: float) -> np.ndarray:
        """The density of eigenvalues at the values `at`, smoothed by Gaussians with the standard deviation `width`; its integral is
        1.
        """
        distances = (np.asarray(at)[..., None] - self.nodes.reshape(-1)) / width
        bells = np.exp(-0.5 * distances**2) / (width * math.sqrt(2 * math.pi))
        return bells @ self.weights.reshape(-1) / len(self.nodes)

    def plot(self, axes: Any = None, width: float | None = None) -> Any:
        """Draws the density of the eigenvalues. The scale is logarithmic, because outliers have little weight.

        Args:
          axes: axes of Matplotlib; by default new ones.
          width: the width of the Gaussians; by default a hundredth of the range.

        Returns:
          The axes.

        Raises:
          DeployError: Matplotlib is not installed.
        """
        axes = axes_or_new(axes)
        low, high = float(self.nodes.min()), float(self.nodes.max())
        width = width or max((high - low) / 100, 1e-12 * max(abs(low), abs(high)), 1e-300)
        points = np.linspace(low - 5 * width, high + 5 * width, 1000)
        density = self.density(points, width)
        axes.semilogy(points, np.maximum(density, density.max() * 1e-8))
        axes.set_xlabel("eigenvalue")
        axes.set_ylabel(f"density of {self.size} eigenvalues")
        axes.grid(visible=True, alpha=0.3)
        return axes

    def trace(self, function: Callable[[np.ndarray], np.ndarray]) -> Estimate:
        """The trace of a function of the matrix, such as `np.log` for the logarithm of its determinant."""
        return Estimate.of((self.size * (self.weights * function(self.nodes)).sum(axis=1)).tolist())


@_running_estimates
def stochastic_lanczos(
    operator: Operator,
    steps: int = 30,
    probes: int = 16,
    *,
    seed: int = 0,
    block: int | None = None,
    as_completed: bool = False,
    tolerance: float = 0.0,
    function: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> Generator[Spectrum, None, None]:
    """Running estimates of the spectrum of a symmetric matrix, by stochastic Lanczos quadrature.

    Each probe runs Lanczos' method with full orthogonalisation. The probes of a block run together, so each step is one product
    with a matrix. It stores ``steps * block`` vectors; on a cluster, where several blocks run at the same time, this many for each
    block.

    Args:
      operator: a symmetric `LinearOperator` of real numbers.
      steps: the number of steps of each probe.
      probes: their number.
      seed: the seed of the vectors.
      block: the number of probes that run together; None means as many as the operator multiplies at once.
      as_completed: as in `hutchinson`.
      tolerance: it ends when the relative error of the trace of `function` of the matrix is at most this; 0 uses all probes.
      function: a function such as `np.log`; by default the identity.

    Raises:
      ShapeError: the operator is not square.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> H = nm.HessianOperator(lambda x: (x ** 3).sum(), np.array([1.0, 2.0]))
      >>> *_, spectrum = nm.stochastic_lanczos(H, steps=2, probes=8)
      >>> spectrum.nodes[0].round(9).tolist(), round(spectrum.trace(np.log).value, 9) == round(float(np.log(72.0)), 9)
      ([6.0, 12.0], True)
    """
    size = operator.shape[0]
    nodes, weights = [], []
    blocks = _blocks(operator, probes, seed, block)
    runs = (_lanczos(vectors / math.sqrt(size), min(steps, size), operator.dtype) for vectors in blocks)
    for lines in _run_together(operator, runs, as_completed):
        for diagonal, off in zip(*lines, strict=True):
            values, directions = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
            nodes.append(values)
            weights.append(directions[0] ** 2)
        spectrum = Spectrum(np.array(nodes), np.array(weights), size)
        yield spectrum
        trace = spectrum.trace(function)
        if tolerance and trace.error <= tolerance * abs(trace.value):
            return


def _lanczos(start: np.ndarray, steps: int, dtype: np.dtype) -> Run[tuple[np.ndarray, np.ndarray]]:
    """The diagonals and off-diagonals of Lanczos' tridiagonal matrices, one row for each column of `start`: (columns, steps) and
    (columns, steps - 1).

    It is a generator: it yields a matrix, is sent the product of the operator with this matrix, and returns the two arrays after
    `steps` products. The columns of `start` must have length one; `dtype` is that of the operator.
    """
    basis = [start]
    diagonal: list[np.ndarray] = []
    off: list[np.ndarray] = []
    while True:
        image = np.asarray((yield basis[-1].astype(dtype)), start.dtype)
        diagonal.append(np.einsum("ij,ij->j", basis[-1], image))
        if len(diagonal) == steps:
            return np.array(diagonal).T, np.array(off).reshape(steps - 1, -1).T
        scale = np.linalg.norm(image, axis=0)
        for _ in range(2):  # the second pass removes rounding errors
            for vectors in basis:
                image = image - vectors * np.einsum("ij,ij->j", vectors, image)
        length = np.linalg.norm(image, axis=0)
        is_over = length <= 1e3 * np.finfo(dtype).eps * scale  # no new direction: the remaining matrix is decoupled
        off.append(np.where(is_over, 0.0, length))
        basis.append(np.where(is_over, 0.0, image / np.where(is_over, 1.0, length)))


def _width(operator: Any, block: int | None) -> int:
    """The number of probes that are multiplied at once: `block`, or the number that the operator prefers if that is None."""
    return block or int(getattr(operator, "block", thresholds.BLOCK))


def _blocks(operator: Any, end: int, seed: int, block: int | None, start: int = 0) -> Iterator[np.ndarray]:
    """Yields the vectors of random signs number `start` to `end` - 1, as the columns of matrices of `block` columns.

    Vector i depends only on `seed` and i. Raises ShapeError if the operator is not square.
    """
    rows, columns = operator.shape
    if rows != columns:
        raise ShapeError(f"an estimate requires a square operator, got one of shape {operator.shape}.")
    width = _width(operator, block)
    for first in range(start, end, width):
        numbers = range(first, min(first + width, end))
        yield np.stack([2.0 * np.random.default_rng([seed, i]).integers(0, 2, rows) - 1.0 for i in numbers], axis=1)


def _with_products(
    operator: Operator, blocks: Iterator[np.ndarray], as_completed: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields pairs: a block of vectors, as the columns of a matrix, and the product of the operator with this matrix.

    With `as_completed`, pairs come in the order in which a cluster finishes them.
    """

    def product(vectors: np.ndarray) -> Run[tuple[np.ndarray, np.ndarray]]:
        """A run of one product, which returns the vectors with their product."""
        products = yield vectors
        return vectors, products

    return _run_together(operator, (product(vectors.astype(operator.dtype)) for vectors in blocks), as_completed)


def _run_together(operator: Any, runs: Iterator[Run[T]], as_completed: bool) -> Iterator[T]:
    """Yields the results of runs. A run is a generator that yields matrices, is sent their products with the operator, and returns.

    A cluster works on `operator.window` runs at the same time, other operators on one. Results are in the order of the runs; with
    `as_completed`, the run whose product ends first continues.
    """
    running: list[tuple[Run[T], Any]] = []
    window, start, finish = 1, lambda matrix: matrix, operator.matmat
    if isinstance(operator, SummedOperator):
        window, start, finish = operator.window, operator.start, operator.finish

    def advance(run: Run[T], image: np.ndarray | None) -> Iterator[T]:
        """Sends a product (None at first) to a run, and starts the next one that it asks for; yields its result if it returned."""
        try:
            running.append((run, start(run.send(image))))
        except StopIteration as end:
            yield end.value

    while True:
        for run in itertools.islice(runs, window - len(running)):
            yield from advance(run, None)
        if not running:
            return
        run, product = running.pop(operator.first([product for _, product in running]) if as_completed and window > 1 else 0)
        yield from advance(run, finish(product))
