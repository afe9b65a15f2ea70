"""Donated arguments: a call may write its results to their memory. Needs only NumPy and IREE's runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from nabla_mlir.base.errors import DonationError, user_frame
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import Device
from nabla_mlir.runtime.executable import Types
from nabla_mlir.runtime.memory import Mapped


def check_given_once(arguments: Sequence[Any], donation: Sequence[int]) -> None:
    """Raises DonationError if a donated array is also another argument; `donation` has the indices of donated arguments.

    Raises:
      DonationError: an array is passed twice; the message has both indices.
    """
    for i in donation:
        for j, other in enumerate(arguments):
            if i != j and arguments[i] is other and type(other) is Array:
                raise DonationError(
                    f"donate_argnums requires arrays that are not also another argument, got one as leaves {min(i, j)} and "
                    f"{max(i, j)}.",
                    where=user_frame(),
                    help="pass a copy of it, x.copy(), for one of them.",
                )


class Writing(Protocol):
    """A compiled function that writes its results to the memory of some of its arguments."""

    @property
    def device(self) -> Device:
        """The device on which it runs."""

    def __call__(self, inputs: Sequence[Any], storage: int = ..., types: Types | None = ..., /) -> list[Array]:
        """The results."""


def call(function: Writing, arguments: Sequence[Any], donation: Sequence[int], types: Types | None) -> list[Array]:
    """The results of a compiled function; its arguments with the indices `donation` are donated: their memory may become results.

    Donated arrays are deleted. A result that is alone in donated memory is marked so: it can be donated later without a copy.
    `types` has the shape and dtype of each result, if they are known.
    """
    inputs, device = list(arguments), function.device
    for i in donation:
        x = inputs[i]
        array = x if type(x) is Array else Array.from_numpy(np.asarray(x), copy=False)
        inputs[i] = array.donated(device)
    positions = {address(inputs[i]) for i in donation if inputs[i].size}
    results = function(inputs, 0, types)
    spans = [(address(y), y.nbytes) for y in results]
    for y, (start, size) in zip(results, spans, strict=True):
        touching = [1 for other, length in spans if other < start + size and start < other + length]
        y.is_alone = start in positions and len(touching) == 1  # it overlaps with no result except itself
    return results


def address(array: Array) -> int:
    """The address of the values of an array in host memory; 0 for an array without elements."""
    if not array.size:
        return 0
    return int(Mapped(array.memory(), array.nbytes, array.device).__array_interface__["data"][0])
