"""Mutation testing of the rules of records: each rule is made wrong in turn, and the laws of its record must fail.

    python -m nabla_mlir.testing.mutations                    # all records; prints the rules that no law holds
    python -m nabla_mlir.testing.mutations stablehlo.sine     # some of them

A wrong rule returns the negative of what it should return: a derivative with the wrong sign is the most frequent mistake in a new
rule. (R. A. DeMillo, R. J. Lipton, F. G. Sayward, "Hints on test data selection", Computer 11(4), 1978.)
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base.errors import NablaError
from nabla_mlir.ops.elementwise import negate
from nabla_mlir.ops.logic import logical_not
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.testing.cases import law_cases
from nabla_mlir.testing.checks import check_laws
from nabla_mlir.tools.terminal import Progress

FIELDS = ("jvp", "transpose", "batch")


@dataclass(frozen=True)
class Mutant:
    """One wrong rule.

    Attributes:
      record: the record that has it.
      rule: the name of the field, with the index of the operand for partials.
      field: the field, and its wrong value.
    """

    record: OpDef
    rule: str
    field: tuple[str, Any]

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """A context in which the record has the wrong rule."""
        name, wrong = self.field
        right = getattr(self.record, name)
        setattr(self.record, name, wrong)  # in place, because passes and samples refer to this record
        try:
            yield
        finally:
            setattr(self.record, name, right)


def mutants_of(record: OpDef) -> list[Mutant]:
    """The wrong rules of a record; rules of control flow, and rules that are words such as ZERO, have none.

    Example:
      >>> from nabla_mlir.ops.elementwise import multiply
      >>> [mutant.rule for mutant in mutants_of(multiply)]
      ['jvp', 'batch', 'partials[0]', 'partials[1]']
    """
    rules = {name: rule for name in FIELDS if callable(rule := getattr(record, name))}
    found = [Mutant(record, name, (name, _negative(rule))) for name, rule in rules.items()]
    partials = tuple(record.partials or ())
    for i, partial in enumerate(partials):
        if callable(partial):
            wrong = (*partials[:i], _negative(partial), *partials[i + 1 :])
            found.append(Mutant(record, f"partials[{i}]", ("partials", wrong)))
    return found


def survives(mutant: Mutant) -> bool:
    """True if no sample of the record breaks a law although one rule of the record, that of `mutant`, is wrong."""
    with mutant.installed():
        for law in law_cases([mutant.record]):
            try:
                check_laws(law)
            except NablaError:
                return False
    return True


def survivors(records: Iterable[OpDef]) -> tuple[list[Mutant], int]:
    """The wrong rules that break no law, and the number of all wrong rules.

    `records` are the operations of the table whose rules are changed.
    """
    mutants = [mutant for record in records for mutant in mutants_of(record)]
    return [mutant for mutant in mutants if survives(mutant)], len(mutants)


def _negative(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that returns the negative of what `rule` returns."""

    def wrong(*args: Any, **params: Any) -> Any:
        """The negated results of the rule."""
        return _negated(rule(*args, **params))

    return wrong


def _negated(value: Any) -> Any:
    """The negative of a tensor, or of each tensor in a list; truth values are inverted, and other values are unchanged."""
    if isinstance(value, (list, tuple)):
        return [_negated(v) for v in value]
    if not isinstance(value, Tensor):
        return value
    return logical_not(value) if value.dtype == np.bool_ else negate(value)


def main(names: list[str]) -> int:
    """Prints the wrong rules that no law detects, for the records `names` or for all; returns 1 if there are some, else 0."""
    records = [REGISTRY[name] for name in names] if names else [r for r in REGISTRY.values() if r.sample]
    with Progress().status(f"making the rules of {len(records)} records wrong, one by one"):
        found, count = survivors(records)
    for mutant in found:
        print(f"{mutant.record.name}: no law fails if {mutant.rule} is negated")
    print(f"{count - len(found)} of {count} wrong rules break a law")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
