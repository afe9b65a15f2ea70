"""Advice on errors that Python and NumPy raise in functions that are being traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from nabla_mlir.base.errors import ConcretizationError, NablaError, TraceError, raising_frame
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
        raise TraceError(
            "x[i] = v requires an array of nabla_mlir for a traced value v, got an array of NumPy.", where=raising_frame(error),
            help="make x with nabla_mlir.numpy, such as nnp.zeros, or collect the values in a list for nnp.stack.",
        ) from None  # fmt: skip


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
