"""The files that count as part of a library in the lines that errors show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nabla_mlir.base import errors
from nabla_mlir.jax.extend.source_info_util import register_exclusion as register_exclusion

_exclude_paths: list[str] = errors.EXCLUDED


def api_boundary(fun: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
    """The function itself: errors show the user's line, with the traceback of Python."""
    return fun


def include_frame(f: Any) -> bool:
    """True for a frame of the user's own files."""
    return not errors.is_internal(f.f_code.co_filename)
