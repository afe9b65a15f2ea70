"""The sources of operators: functions, stages and artifacts, as loaded modules."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from nabla_mlir.runtime import Module, load


class StageLike(Protocol):
    """A stage of a prepared product, compiled or not; the classes exist only where the compiler is installed."""

    @property
    def entries(self) -> Any: ...


Source: TypeAlias = Callable[..., Any] | StageLike | Module | str | os.PathLike[str]


def prepared_module(
    source: Any, maker: str, point: tuple[Any, ...], target: Any, *, at_once: bool = False, **options: Any
) -> Module:
    """A module that can be called, from an artifact (a path or a module), a stage, or a function that is made into a stage.

    Args:
      source: one of these, as in `HessianOperator`; a module is returned as it is.
      maker: the name of the function that makes a stage of a function, such as "hvp_module".
      point: the arguments of the function, or specs of them.
      target: where it runs.
      at_once: True compiles now (for this CPU by default), and does not interpret it first.
      options: the options of the maker.
    """
    if isinstance(source, Module):
        return source
    if isinstance(source, (str, os.PathLike)):
        return load(source)
    from nabla_mlir.prepared import instant  # machines that only run artifacts do not have this module

    return (instant.load_compiled if at_once else instant.load_prepared)(source, maker, point, target, **options)


def is_mean_of_rows(f: Callable[..., Any], x: Any, data: tuple[Any, ...]) -> bool:
    """True if a function of x and a batch is a mean over the rows of the batch (`nabla_mlir.prepared.means.is_mean`)."""
    from nabla_mlir.prepared import means  # machines that only run artifacts have no functions, and not this module

    return means.is_mean(f, x, data)
