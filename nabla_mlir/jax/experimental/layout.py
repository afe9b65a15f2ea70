"""Layouts of arrays in memory, under the names of `jax.experimental.layout`. All arrays here are in row-major order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nabla_mlir.base.errors import TraceError, user_frame


@dataclass(frozen=True)
class Layout:
    """The order of the axes in memory, slowest first.

    Attributes:
      major_to_minor: the axes, which must be in order.

    Raises:
      TraceError: they are not.
    """

    major_to_minor: tuple[int, ...]

    def __post_init__(self) -> None:
        if tuple(self.major_to_minor) != tuple(range(len(self.major_to_minor))):
            raise TraceError(f"Layout requires axes in row-major order, got {self.major_to_minor}.", where=user_frame())


@dataclass(frozen=True)
class Format:
    """A layout and a sharding; either may be None."""

    layout: Any = None
    sharding: Any = None
