"""What fuzzers say of a program that raises, with its cause before a colon."""

from __future__ import annotations

import traceback
from pathlib import Path

from nabla_mlir.errors import NablaError


def failure(error: Exception) -> str:
    """A refusal by its class, and what nobody refused also by the last two places in the code."""
    name = type(error).__name__
    if isinstance(error, NablaError):
        return f"REFUSED {name}: {error.message[:200]}"
    frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-2:]]
    return f"ERROR {name} {' '.join(frames)}: {str(error)[:140]}"
