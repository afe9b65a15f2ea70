"""The numbers at which one way becomes better than another: each with its unit, and where it comes from.

They stand here because they are nobody's mathematics: with another machine, or another IREE, they may be others. What is
`Measured` was timed once, on `MACHINE`, and `python bench/measure.py NAME` times it again, beside what stands here. What
is `Chosen` bounds something that is not a matter of speed alone. Read them as `thresholds.NAME` where they are needed, so
that a measurement can change them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, get_type_hints

MACHINE = "2 virtual cores of an Intel Xeon with AVX-512 and 2 MiB of L2 each; IREE 3.13; 2026-11-21 and 22"


@dataclass(frozen=True)
class Measured:
    """How a number was found: by time, in a unit. What it says stands in the comment above it."""

    unit: str
    machine: str = MACHINE


@dataclass(frozen=True)
class Chosen:
    """A number that no clock gives: its unit, and why it is what it is."""

    unit: str
    why: str


# ---------------------------------------------------------------- runtime

# From here on a copy that NumPy makes, and that is then lent to IREE, is faster than one that IREE makes.
DIRECT_COPY: Annotated[int, Measured("bytes")] = 1 << 20
# From here on it is faster to lend the caller's memory for a result than to copy from a buffer.
LENT_RESULT: Annotated[int, Measured("bytes")] = 1 << 16
# What the thread pool costs in a call, and for each dispatch. It takes 40 µs to wake a core of a virtual machine; elsewhere
# less.
POOL_CALL: Annotated[float, Measured("µs")] = 5.0
POOL_DISPATCH: Annotated[float, Measured("µs")] = 50.0
# Calls after which a timeline forgets those that have ended.
OPEN_CALLS: Annotated[int, Chosen("calls", "any number bounds the list; this one is looked through in a microsecond")] = 16

# ---------------------------------------------------------------- staging and transforms

# A captured array up to this size is part of the code; a larger one is an argument.
CAPTURED: Annotated[int, Chosen("elements", "small enough to be read in printed IR")] = 16
# Up to here linspace is a table, exact as NumPy's; longer ones are computed.
LINSPACE_TABLE: Annotated[int, Chosen("elements", "a table is part of the artifact: 32 KiB in f64")] = 4096

# ---------------------------------------------------------------- reverse mode

# Iterations that a loop whose length its values decide keeps at a time: a shorter one runs forward twice, the extra work of
# a longer one grows with the square of their ratio.
LOOP_CHUNK: Annotated[int, Chosen("iterations", "memory against work: the length that is kept without being asked")] = 512

# ---------------------------------------------------------------- prepared products

# Vectors that `apply_block` takes at once.
BLOCK: Annotated[int, Chosen("vectors", "one vector register of f32 with AVX-512")] = 16
# Below this size of a result an operation costs more than its work, so that a block of vectors is one batch.
SMALL_RESULT: Annotated[int, Measured("bytes")] = 1 << 16
# A block of vectors one after the other is written out up to here: a loop costs less to compile, and IREE may refuse our
# schedule in it.
WRITTEN_OUT: Annotated[int, Chosen("operations", "they compile in about ten seconds")] = 6000


def table() -> dict[str, tuple[float, Measured | Chosen]]:
    """Each threshold, its value and its origin, by name.

    Example:
      >>> table()["DIRECT_COPY"][1].unit
      'bytes'
    """
    module = sys.modules[__name__]
    hints = get_type_hints(module, include_extras=True)
    return {name: (getattr(module, name), hint.__metadata__[0]) for name, hint in hints.items()}
