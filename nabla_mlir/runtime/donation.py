"""Arguments that are given to a call: it may write its results where they lie. Needs only NumPy and IREE's runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from nabla_mlir.errors import CopyError, user_frame
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import Device
from nabla_mlir.runtime.executable import Types
from nabla_mlir.runtime.memory import Mapped


def check_given_once(arguments: Sequence[Any], donation: Sequence[int]) -> None:
    """Refuses an array that is given away and is another argument as well.

    Raises:
      CopyError: with the places of both.
    """
    for i in donation:
        for j, other in enumerate(arguments):
            if i != j and arguments[i] is other and type(other) is Array:
                raise CopyError(
                    f"donate_argnums requires arrays that are not also another argument, got one as leaves {min(i, j)} and "
                    f"{max(i, j)}.", where=user_frame(), help="pass a copy of it, x.copy(), for one of them.",
                )  # fmt: skip


class Writing(Protocol):
    """A compiled function that writes to the memory of some of its arguments."""

    @property
    def device(self) -> Device:
        """Where it runs."""

    def __call__(self, inputs: Sequence[Any], storage: int = ..., types: Types | None = ..., /) -> list[Array]:
        """The results."""


def call(function: Writing, arguments: Sequence[Any], donation: Sequence[int], types: Types | None) -> list[Array]:
    """The results of a function that was compiled to write to the memory of these arguments, which are deleted.

    What it writes in such memory is the only array there, and can be given away in its turn without a copy.
    """
    inputs, device = list(arguments), function.device
    for i in donation:
        x = inputs[i]
        array = x if type(x) is Array else Array.from_numpy(np.asarray(x), copy=False)
        inputs[i] = array.given_away(device)
    places = {address(inputs[i]) for i in donation if inputs[i].size}
    results = function(inputs, 0, types)
    spans = [(address(y), y.nbytes) for y in results]
    for y, (start, size) in zip(results, spans, strict=True):
        touching = [1 for other, length in spans if other < start + size and start < other + length]
        y.is_alone = start in places and len(touching) == 1
    return results


def address(array: Array) -> int:
    """Where the values of an array begin in the memory of the host; 0 if there are none."""
    if not array.size:
        return 0
    return int(Mapped(array.memory(), array.nbytes, array.device).__array_interface__["data"][0])
