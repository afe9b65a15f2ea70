"""The table of ONNX's operators: for each a function of our tensors, by its name and the opset from which on it holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

OUTPUTS, OPSET = ("outputs", "opset")  # keywords by which a function is told how many results are asked for, and the opset


@dataclass(frozen=True)
class Operator:
    """An operator since an opset: inputs come by position, attributes by their names.

    Args:
      function: tensors in, a tensor or a tuple of them out.
      since: the first opset in which it is this one.
      static: the inputs, by the names of the parameters, whose values decide shapes: they come as arrays of NumPy.
      is_raw: the inputs come as they are: arrays of NumPy where they are known, lists where they are sequences.
      is_folded: the result is known where all inputs are.
    """

    function: Callable[..., Any]
    since: int = 1
    static: tuple[str, ...] = ()
    is_raw: bool = False
    is_folded: bool = True
    names: tuple[str, ...] = field(init=False)  # of the inputs
    attributes: frozenset[str] = field(init=False)
    is_variadic: bool = field(init=False)

    def __post_init__(self) -> None:
        parameters = inspect.signature(self.function).parameters.values()
        positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        object.__setattr__(self, "names", tuple(positional))
        object.__setattr__(self, "attributes", frozenset(p.name for p in parameters if p.kind is not p.VAR_POSITIONAL))
        object.__setattr__(self, "is_variadic", any(p.kind is p.VAR_POSITIONAL for p in parameters))

    def is_static(self, position: int) -> bool:
        """True if the value of an input must be known."""
        return position < len(self.names) and self.names[position] in self.static


class Refusal(Exception):  # noqa: N818  (it becomes an ImportIRError with the name of the node)
    """The requirement of an operator, and the value that it got."""

    condition: str
    got: Any

    def __init__(self, condition: str, got: Any):
        super().__init__(condition, got)
        self.condition, self.got = condition, got


class NeedsValue(Exception):  # noqa: N818  (it becomes an ImportIRError that names inputs of the model)
    """An input, by its position, has to be known."""

    def __init__(self, *positions: int):
        super().__init__(*positions)
        self.positions = positions


OPERATORS: dict[tuple[str, str], list[Operator]] = {}


def define(
    name: str,
    function: Callable[..., Any],
    since: int = 1,
    domain: str = "",
    static: Sequence[str] = (),
    is_raw: bool = False,
    is_folded: bool = True,
) -> None:
    """Adds an operator to the table."""
    entries = OPERATORS.setdefault((domain, name), [])
    entries.append(Operator(function, since, tuple(static), is_raw, is_folded))
    entries.sort(key=lambda entry: entry.since)


def operator(*names: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds a definition for all operators of `names`."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            define(name, function, **options)
        return function

    return decorated


def operator_for(domain: str, name: str, opset: int) -> Operator | None:
    """The operator that holds in an opset; None if the table has none."""
    entries = [entry for entry in OPERATORS.get((domain, name), ()) if entry.since <= opset]
    return entries[-1] if entries else None
