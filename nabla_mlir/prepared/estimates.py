"""Traces and spectra of operators from random probes: running estimates with their errors, which end when you have enough.

Each probe has a seed of its own, made of `seed` and its number: it is the same whoever computes it, however often, and in blocks of
any size. Blocks of probes are multiplied at once; of an operator on a cluster several blocks are under way at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nabla_mlir import thresholds
from nabla_mlir.errors import ShapeError
from nabla_mlir.figures import axes_or_new


@dataclass(frozen=True)
class Estimate:
    """The mean of what probes have given.

    Attributes:
      value: the mean.
      error: its standard error; infinite for one probe.
      probes: how many there were.
    """

    value: float
    error: float
    probes: int

    @staticmethod
    def of(samples: Sequence[float]) -> Estimate:
        """The estimate of samples that are independent of each other."""
        count = len(samples)
        error = float(np.std(samples, ddof=1)) / math.sqrt(count) if count > 1 else math.inf
        return Estimate(float(np.mean(samples)), error, count)


def hutchinson(
    operator: Any, probes: int = 100, *, tolerance: float = 0.0, seed: int = 0, block: int | None = None
) -> Iterator[Estimate]:
    """Running estimates of the trace, the mean of ``vᵀ A v`` over vectors v of random signs: Hutchinson's.

    Args:
      operator: a square `LinearOperator` of real numbers.
      probes: how many vectors at most.
      tolerance: it ends when the error is at most this part of the value; 0 takes all probes.
      seed: of the vectors.
      block: how many are multiplied at once; None takes what the operator multiplies at once.

    Raises:
      ShapeError: the operator is not square.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> H = nm.HessianOperator(lambda x: (x ** 3).sum(), np.array([1.0, 2.0]))
      >>> *_, estimate = nm.hutchinson(H, 20)
      >>> estimate
      Estimate(value=18.0, error=0.0, probes=20)
    """
    yield from _running(operator, _blocks(operator, probes, seed, block), tolerance)


def hutch_plus_plus(
    operator: Any, probes: int = 100, *, tolerance: float = 0.0, seed: int = 0, block: int | None = None
) -> Iterator[Estimate]:
    """Running estimates of the trace by Hutch++ (Meyer, Musco, Musco, Woodruff, 2021): ``tr(Qᵀ A Q)`` and the mean of ``wᵀ A w``.

    The columns of Q span A times a third of the probes, and take another third; w are the other probes without their part in
    that space. For a relative error of ε it takes products like 1/ε where the eigenvalues have one sign, `hutchinson` like 1/ε²:
    the better, the faster they fall. It holds ``probes / 3`` vectors.

    Args:
      operator: a square `LinearOperator` of real numbers.
      probes: how many products at most.
      tolerance: it ends when the error is at most this part of the value; 0 takes all probes.
      seed: of the vectors.
      block: how many are multiplied at once; None takes what the operator multiplies at once.

    Yields:
      Estimates, whose `error` is that of the mean and whose `probes` counts all products; an exact one if Q is the whole space.

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
    images = [products for _, products in _multiplied(operator, _blocks(operator, count, seed, block))]
    basis = np.linalg.qr(np.concatenate([np.empty((operator.shape[0], 0)), *images], axis=1))[0]
    columns = (basis[:, i : i + _width(operator, block)] for i in range(0, count, _width(operator, block)))
    known = sum(float(np.einsum("ij,ij->", vectors, products)) for vectors, products in _multiplied(operator, columns))
    if count == operator.shape[0]:
        yield Estimate(known, 0.0, 2 * count)
        return
    others = (v - basis @ (basis.T @ v) for v in _blocks(operator, probes - count, seed, block, start=count))
    for estimate in _running(operator, others, tolerance, known):
        yield replace(estimate, probes=2 * count + estimate.probes)


def _running(operator: Any, blocks: Iterator[np.ndarray], tolerance: float, known: float = 0.0) -> Iterator[Estimate]:
    """Estimates of a number and the mean of ``vᵀ A v``, one more for each block, until the error is small enough."""
    samples: list[float] = []
    for vectors, products in _multiplied(operator, blocks):
        samples += (known + np.einsum("ij,ij->j", vectors, products, dtype=float)).tolist()
        estimate = Estimate.of(samples)
        yield estimate
        if tolerance and estimate.error <= tolerance * abs(estimate.value):
            return


@dataclass(frozen=True)
class Spectrum:
    """The distribution of eigenvalues, as a few points with weights for each probe.

    Attributes:
      nodes, weights: of shape (probes, steps); the weights of a probe add up to one.
      size: of the matrix.
    """

    nodes: np.ndarray
    weights: np.ndarray
    size: int

    def density(self, at: np.ndarray, width: float) -> np.ndarray:
        """How many eigenvalues there are, as a part of all, near some values and per unit: with bells of a standard deviation."""
        distances = (np.asarray(at)[..., None] - self.nodes.reshape(-1)) / width
        bells = np.exp(-0.5 * distances**2) / (width * math.sqrt(2 * math.pi))
        return bells @ self.weights.reshape(-1) / len(self.nodes)

    def plot(self, axes: Any = None, width: float | None = None) -> Any:
        """Draws the density of the eigenvalues, on a logarithmic scale, as outliers have little weight.

        Args:
          axes: of Matplotlib, to draw on; new ones if not given.
          width: of the bells; a hundredth of the range if not given.

        Returns:
          The axes.

        Raises:
          DeployError: Matplotlib is not installed.
        """
        axes = axes_or_new(axes)
        low, high = float(self.nodes.min()), float(self.nodes.max())
        width = width or max((high - low) / 100, 1e-12 * max(abs(low), abs(high)), 1e-300)
        at = np.linspace(low - 5 * width, high + 5 * width, 1000)
        density = self.density(at, width)
        axes.semilogy(at, np.maximum(density, density.max() * 1e-8))
        axes.set_xlabel("eigenvalue")
        axes.set_ylabel(f"density of {self.size} eigenvalues")
        axes.grid(visible=True, alpha=0.3)
        return axes

    def trace(self, function: Callable[[np.ndarray], np.ndarray]) -> Estimate:
        """The trace of a function of the matrix, such as `np.log` for the logarithm of its determinant."""
        return Estimate.of((self.size * (self.weights * function(self.nodes)).sum(axis=1)).tolist())


def stochastic_lanczos(
    operator: Any, steps: int = 30, probes: int = 16, *, seed: int = 0, block: int | None = None
) -> Iterator[Spectrum]:
    """Running estimates of the spectrum of a symmetric matrix, by stochastic Lanczos quadrature.

    Each probe runs Lanczos' method, with all vectors kept orthogonal; the probes of a block go side by side, so that a step is one
    product with a matrix. It holds ``steps * block`` vectors.

    Args:
      operator: a symmetric `LinearOperator` of real numbers.
      steps: of each probe.
      probes: how many.
      seed: of the vectors.
      block: how many go side by side; None takes what the operator multiplies at once.

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
    for vectors in _blocks(operator, probes, seed, block):
        for diagonal, off in zip(*_lanczos(operator, vectors / math.sqrt(size), min(steps, size)), strict=True):
            values, directions = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
            nodes.append(values)
            weights.append(directions[0] ** 2)
        yield Spectrum(np.array(nodes), np.array(weights), size)


def _lanczos(operator: Any, start: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """For each column the diagonal of the tridiagonal matrix and the line beside it."""
    basis = [start]
    diagonal: list[np.ndarray] = []
    off: list[np.ndarray] = []
    while True:
        image = np.asarray(operator.matmat(basis[-1].astype(operator.dtype)), start.dtype)
        diagonal.append(np.einsum("ij,ij->j", basis[-1], image))
        if len(diagonal) == steps:
            return np.array(diagonal).T, np.array(off).reshape(steps - 1, -1).T
        scale = np.linalg.norm(image, axis=0)
        for _ in range(2):  # once more for what rounding has left
            for vectors in basis:
                image = image - vectors * np.einsum("ij,ij->j", vectors, image)
        length = np.linalg.norm(image, axis=0)
        is_over = length <= 1e3 * np.finfo(operator.dtype).eps * scale  # nothing new: the rest of the matrix stands apart
        off.append(np.where(is_over, 0.0, length))
        basis.append(np.where(is_over, 0.0, image / np.where(is_over, 1.0, length)))


def _width(operator: Any, block: int | None) -> int:
    """How many columns are multiplied at once."""
    return block or int(getattr(operator, "block", thresholds.BLOCK))


def _blocks(operator: Any, end: int, seed: int, block: int | None, start: int = 0) -> Iterator[np.ndarray]:
    """The vectors of random signs with the numbers from `start` to before `end`, as columns, some at a time."""
    rows, columns = operator.shape
    if rows != columns:
        raise ShapeError(f"an estimate requires a square operator, got one of shape {operator.shape}.")
    width = _width(operator, block)
    for first in range(start, end, width):
        numbers = range(first, min(first + width, end))
        yield np.stack([2.0 * np.random.default_rng([seed, i]).integers(0, 2, rows) - 1.0 for i in numbers], axis=1)


def _multiplied(operator: Any, blocks: Iterator[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks with their products; of an operator that works ahead several are asked for."""
    arrays = (vectors.astype(operator.dtype) for vectors in blocks)
    if hasattr(operator, "multiplied"):
        return operator.multiplied(arrays)
    return ((vectors, operator.matmat(vectors)) for vectors in arrays)
