"""What an operator is made of: a function, a stage, or an artifact."""

from __future__ import annotations

import os
from typing import Any

from nabla_mlir.runtime import Module, load


def prepared_module(
    source: Any, maker: str, point: tuple[Any, ...], target: Any, *, at_once: bool = False, **options: Any
) -> Module:
    """What is run: a loaded artifact as it is; of anything else a module is made, of a function it is traced before.

    Args:
      source: as in `HessianOperator`.
      maker: the name of what makes a stage of a function.
      point: its arguments, or specs of them.
      target: where it runs.
      at_once: compile it now, without a target for this CPU, and do not interpret it first.
      options: those of the maker.
    """
    if isinstance(source, Module):
        return source
    if isinstance(source, (str, os.PathLike)):
        return load(source)
    from nabla_mlir.prepared import instant  # which is not there where artifacts are deployed

    return (instant.load_compiled if at_once else instant.load_prepared)(source, maker, point, target, **options)
