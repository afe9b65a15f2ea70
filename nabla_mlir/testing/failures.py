"""The text of fuzzers for a program that raises an error: the cause before a colon."""

from __future__ import annotations

import traceback
from pathlib import Path

from nabla_mlir.base.errors import NablaError


def failure(error: Exception) -> str:
    """The class of the error; for an unexpected error also its last two positions in the code."""
    name = type(error).__name__
    if isinstance(error, NablaError):
        return f"REFUSED {name}: {error.message[:200]}"
    frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-2:]]
    return f"ERROR {name} {' '.join(frames)}: {str(error)[:140]}"
