"""Advice on traced functions: explains errors of Python and NumPy in them, and warns of forms that are unnecessarily slow."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import (
    AssignmentError,
    ConcretizationError,
    NablaError,
    PerformanceWarning,
    SourceRange,
    raising_frame,
    user_frame,
)
from nabla_mlir.dialects.ad_rules import CUSTOM
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import nested
from nabla_mlir.table.promotion import is_scalar

_LIST = "help: an argument is a {} of numbers, which the function gets as it is: pass np.array({}) for an array."


@contextlib.contextmanager
def advised() -> Iterator[None]:
    """A context in which a traced function runs. An assignment to an array of NumPy is refused with the user's line.

    NumPy raises `setting an array element with a sequence` for it, and its reason is the error of the traced value.
    """
    try:
        yield
    except ValueError as error:
        if isinstance(error, NablaError) or not isinstance(error.__cause__, ConcretizationError):
            raise
        raise AssignmentError(
            "setting an array element (x[i] = v) requires an array of nabla_mlir for a traced value v, got an array of NumPy.",
            where=raising_frame(error),
            help="make x with nabla_mlir.numpy, such as nnp.zeros, or collect the values in a list for nnp.stack.",
        ) from error.__cause__


@contextlib.contextmanager
def advised_on_lists(args: Sequence[Any]) -> Iterator[None]:
    """A context in which a function of `args` runs. Errors of operators on lists of numbers get a note that names arrays.

    Example:
      >>> with contextlib.suppress(TypeError), advised_on_lists([[1.0, 2.0]]):
      ...     [1.0, 2.0] ** 2
    """
    try:
        yield
    except (TypeError, AttributeError) as error:
        lists = [a for a in args if isinstance(a, (list, tuple)) and a and all(map(is_scalar, a))]
        if lists and not isinstance(error, NablaError) and f"'{type(lists[0]).__name__}'" in str(error):
            error.add_note(_LIST.format(type(lists[0]).__name__, str(lists[0])[:40]))
        raise


# ---------------------------------------------------------------- slow forms


@dataclass
class _Repeats:
    """The traces that one line of the user caused."""

    count: int = 0
    seconds: float = 0.0
    is_warned: bool = False


_repeats: dict[tuple[str, int], _Repeats] = {}


@contextlib.contextmanager
def counted_traces() -> Iterator[None]:
    """A context in which a function outside `jit` is traced. A line that has spent seconds on repeated traces gets a warning.

    Outside `jit` each call is traced again, because the function may depend on values that change.
    """
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    where = user_frame()
    if where is None:
        return
    repeats = _repeats.setdefault((where.filename, where.line), _Repeats())
    repeats.count, repeats.seconds = repeats.count + 1, repeats.seconds + seconds
    is_slow = repeats.count >= thresholds.REPEATED_TRACES and repeats.seconds >= thresholds.TRACING_SECONDS
    if is_slow and not repeats.is_warned:
        repeats.is_warned = True
        _warn(
            f"this line has traced its function {repeats.count} times, in {repeats.seconds:.1f} s: outside nm.jit each call is "
            "traced again. Make the function once, for example g = nm.jit(nm.grad(f)), and call g.",
            where,
        )


def advise_on_long_traces(module: ir.Module) -> None:
    """Warns if one line of the user made thousands of operations, as a loop of Python does.

    Compilation takes longer than proportionally to the number of operations.
    """
    operations = nested(module.operation)
    if len(operations) < thresholds.OPERATIONS_OF_A_LINE:
        return
    lines = Counter(where for op in operations if (where := _line(op)) is not None and not _is_of_a_rule(op, where))
    for (filename, line), count in lines.most_common(1):
        if count < thresholds.OPERATIONS_OF_A_LINE:
            continue
        _warn(
            f"this line made {count} operations in one trace, which take long to compile. If a loop of Python runs there, "
            "it is written out: nm.fori_loop and nm.scan compile one iteration.",
            SourceRange(filename, line),
        )


def _line(op: ir.Operation) -> tuple[str, int] | None:
    where = source_of(op.location)
    return None if where is None else (where.filename, where.line)


def _is_of_a_rule(op: ir.Operation, line: tuple[str, int]) -> bool:
    """True for an operation of a function with a custom rule that the line calls: the library's, such as those of `gammainc`.

    The loop of a user's custom function has another line.
    """
    around = op.parent
    while around is not None:
        if around.operation.name in CUSTOM and _line(around.operation) == line:
            return True
        around = around.operation.parent
    return False


def _warn(message: str, where: SourceRange) -> None:
    warnings.warn_explicit(message, PerformanceWarning, where.filename, where.line)
