"""What a pass is: a frozen dataclass with a textual name, whose fields are its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from iree.compiler import ir


@dataclass(frozen=True)
class Pass:
    """A transformation of a module.

    The first line of the docstring is the summary in `nabla-opt --list-passes`, the rest its description;
    fields are options (``nabla-vmap{innermost-only=true}``), and the line ``Example: FILE`` names the test that
    the reference page shows. Valid IR in, valid IR out.
    """

    name: ClassVar[str] = ""

    def run(self, module: ir.Operation) -> None:
        """Rewrites `module` in place."""
        raise NotImplementedError


PASSES: dict[str, type[Pass]] = {}
P = TypeVar("P", bound=type[Pass])


def register(cls: P) -> P:
    """Class decorator: makes a pass known by its textual name."""
    if not cls.name.startswith("nabla-") or cls.name in PASSES:
        raise ValueError(f"a pass requires a new name that starts with 'nabla-', got {cls.name!r}.")
    PASSES[cls.name] = cls
    return cls
