"""The table of ONNX's operators: a function of tensors for each operator, by its name and its first opset."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

OUTPUTS, OPSET = ("outputs", "opset")  # the keywords of a function for the number of requested results, and for the opset


@dataclass(frozen=True)
class Operator:
    """An operator from an opset on; inputs are positional arguments, attributes are keyword arguments.

    Args:
      function: a function of tensors that returns a tensor or a tuple of tensors.
      since: the first opset of this definition.
      static: the names of the parameters whose values determine shapes; they are passed as arrays of NumPy.
      is_raw: True passes inputs unchanged: known values are arrays of NumPy, and sequences are lists.
      is_folded: True if the result is known when all inputs are known.
    """

    function: Callable[..., Any]
    since: int = 1
    static: tuple[str, ...] = ()
    is_raw: bool = False
    is_folded: bool = True
    names: tuple[str, ...] = field(init=False)  # the names of the inputs
    attributes: frozenset[str] = field(init=False)
    is_variadic: bool = field(init=False)

    def __post_init__(self) -> None:
        """Reads the names of the inputs and attributes from the signature of the function."""
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
    """The error of an operator whose inputs with some indices must be known."""

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
    """Adds an operator to the table; the arguments are the fields of `Operator`.

    `static` are the names of inputs whose values must be known.
    """
    entries = OPERATORS.setdefault((domain, name), [])
    entries.append(Operator(function, since, tuple(static), is_raw, is_folded))
    entries.sort(key=lambda entry: entry.since)


def operator(*names: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds a definition for all operators of `names`."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, unchanged, after it is added to the table under each name."""
        for name in names:
            define(name, function, **options)
        return function

    return decorated


def operator_for(domain: str, name: str, opset: int) -> Operator | None:
    """The definition of an operator for an opset; None if the table has none."""
    entries = [entry for entry in OPERATORS.get((domain, name), ()) if entry.since <= opset]
    return entries[-1] if entries else None
