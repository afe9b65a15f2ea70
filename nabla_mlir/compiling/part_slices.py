"""Slices of products and convolutions: some rows and all columns, all rows and some columns, some matrices of a batch.

Together they reach each row and each column of a result, at a small part of the cost of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.ops.convolution import positions

# The number of indices of a slice. Shorter axes are not cut.
_INDICES = 8


@dataclass(frozen=True)
class Cut:
    """An axis of the result of a product along which the product of a slice is a slice of the product.

    Args:
      axes: the axis of each operand, None where the operand has no such axis.
      result: the axis of the result.
    """

    axes: tuple[int | None, int | None]
    result: int

    def parts(self, x: np.ndarray, y: np.ndarray, result: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Slices of both operands and of the result `x · y`, at up to eight indices that are distributed over the axis.

        The product of the first two slices is the third.
        """
        n = result.shape[self.result]
        indices = np.unique(np.linspace(0, n - 1, _INDICES).round().astype(int))
        a, b = (v if axis is None else v.take(indices, axis) for v, axis in zip((x, y), self.axes, strict=True))
        return a, b, result.take(indices, self.result)


def cuts_of(name: str, parameters: Mapping[str, Any], ranks: tuple[int, int], shape: tuple[int, ...]) -> list[Cut]:
    """The long axes of the result along which a product can be cut; an empty list if it has to be computed as a whole.

    Args:
      name: stablehlo.dot_general or stablehlo.convolution.
      parameters: those of the operation, by name.
      ranks: the numbers of axes of the operands.
      shape: the shape of the result.
    """
    cuts = _cuts_of_convolution(parameters) if name == "stablehlo.convolution" else _cuts_of_product(parameters, ranks)
    return [cut for cut in cuts if shape[cut.result] > _INDICES]


def _cuts_of_product(parameters: Mapping[str, Any], ranks: tuple[int, int]) -> Iterator[Cut]:
    """Yields a cut for each axis of the result of a product, in order: batch axes, free axes of the left operand, and of the right.

    `parameters` are those of the dot_general, by name, and `ranks` the numbers of axes of the operands.
    """
    numbers = parameters["dot_dimension_numbers"]
    batch = [numbers[f"{side}_batching_dimensions"] for side in ("lhs", "rhs")]
    terms = [numbers[f"{side}_contracting_dimensions"] for side in ("lhs", "rhs")]
    x_free, y_free = ([d for d in range(ranks[i]) if d not in {*batch[i], *terms[i]}] for i in (0, 1))
    axes = [*zip(*batch, strict=True), *((d, None) for d in x_free), *((None, d) for d in y_free)]
    for result, pair in enumerate(axes):
        yield Cut(pair, result)


def _cuts_of_convolution(parameters: Mapping[str, Any]) -> Iterator[Cut]:
    """Yields a cut for the images of a batch, and one for the features of the result, unless these are in groups.

    `parameters` are those of the convolution, by name.
    """
    image, kernel, result = positions(parameters["dimension_numbers"])
    if parameters["batch_group_count"] > 1:
        return
    yield Cut((image[0], None), result[0])
    if parameters["feature_group_count"] == 1:
        yield Cut((None, kernel[0]), result[1])
