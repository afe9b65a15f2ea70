"""Messages about the expansion of transforms, on standard error, for the environment variable NABLA_MLIR_DEBUG.

The variable holds topics, separated by commas: `batch` (each map that is expanded, with its axes and the values that carry
them), `ad` (each derivative that is expanded), `ops` (each operation to which a rule is applied, with its types).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from iree.compiler import ir

from nabla_mlir.dialects.locations import source_of

VARIABLE = "NABLA_MLIR_DEBUG"


def wanted(topic: str) -> bool:
    """True if the variable of the environment has a topic."""
    topics = os.environ.get(VARIABLE, "")
    return topic in topics.split(",") if topics else False


def say(topic: str, text: str, location: ir.Location | None = None) -> None:
    """Prints a line on standard error, with its topic, and with the position in the user's source if it is known.

    The position is that of `location`, an MLIR location or None.
    """
    source = source_of(location) if location is not None else None
    where = f"  ({source.filename}:{source.line})" if source is not None else ""
    print(f"[nabla {topic}] {text}{where}", file=sys.stderr)


def types(values: Iterable[ir.Value], active: Iterable[ir.Value] = ()) -> str:
    """The types of values, with a star at mapped or active ones."""
    stars = set(active)
    return "(" + ", ".join(f"{v.type}{'*' if v in stars else ''}" for v in values) + ")"
