"""The table of patterns: functions that rewrite one operation, by the name of the operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

P = TypeVar("P", bound=Callable[..., Any])


class Patterns(Generic[P]):
    """The patterns of a module, or of a pass, by the names of their operations."""

    def __init__(self, *parts: Patterns[P]):
        """Collects the patterns of several modules, in the order in which they are tried."""
        self.by_name: dict[str, list[P]] = {}
        for part in parts:
            for name, patterns in part.by_name.items():
                self.by_name.setdefault(name, []).extend(patterns)

    def of(self, *names: str) -> Callable[[P], P]:
        """A decorator that registers a function as a pattern of the named operations; their patterns are tried in order.

        Example:
          >>> table = Patterns()
          >>> @table.of("stablehlo.negate")
          ... def negate(op): ...
          >>> [pattern.__name__ for pattern in table.by_name["stablehlo.negate"]]
          ['negate']
        """

        def register(function: P) -> P:
            for name in names:
                self.by_name.setdefault(name, []).append(function)
            return function

        return register
