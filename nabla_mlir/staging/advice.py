"""Advice on traced functions: explains errors of Python and NumPy in them, and warns of forms that are unnecessarily slow."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import sys
import time
import types
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import (
    INTERNAL_FOLDERS,
    AssignmentError,
    ConcretizationError,
    NablaError,
    PerformanceWarning,
    SourceRange,
    TraceError,
    is_internal,
    raising_frame,
    user_frame,
)
from nabla_mlir.table.promotion import is_scalar

TRACEBACK = "NABLA_MLIR_TRACEBACK"
_LIST = "help: an argument is a {} of numbers, which the function gets as it is: pass np.array({}) for an array."


@contextlib.contextmanager
def advised() -> Iterator[None]:
    """A context in which a traced function runs; two errors get the user's line and advice.

    One is an assignment to an array of NumPy: NumPy raises `setting an array element with a sequence`, because the traced value has
    no numbers. The other is a call of a function of JAX.
    """
    try:
        yield
    except TypeError as error:
        if isinstance(error, NablaError) or "is not a valid JAX type" not in str(error):
            raise
        raise ConcretizationError(
            "a function of JAX requires arrays of JAX, got a tensor that nabla_mlir traces.",
            where=raising_frame(error),
            help="use functions of nabla_mlir.numpy, or nm.from_jax(f, *specs) for a whole function.",
        ) from error
    except ValueError as error:
        if isinstance(error, NablaError) or not isinstance(error.__cause__, ConcretizationError):
            raise
        raise AssignmentError(
            "setting an array element (x[i] = v) requires an array of nabla_mlir for a traced value v, got an array of NumPy.",
            where=raising_frame(error),
            help="make x with nabla_mlir.numpy, such as nnp.zeros, or collect the values in a list for nnp.stack.",
        ) from error.__cause__


class users_call:  # noqa: N801  # a context manager
    """A context in which a function of the user runs with `args`.

    Errors of operators on lists of numbers get a note that names arrays. The traceback keeps the frames of the user alone, if
    the error names the user's line (an error of nabla_mlir) or comes from the user's code. NABLA_MLIR_TRACEBACK=full keeps all.

    Example:
      >>> with contextlib.suppress(TypeError), users_call([[1.0, 2.0]]):
      ...     [1.0, 2.0] ** 2
    """

    def __init__(self, args: Sequence[Any]):
        self._args = args

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: types.TracebackType | None) -> None:
        """Adds advice to an error of the traced function, and cuts the frames of this package out of its traceback.

        A TypeError or AttributeError gets advice. NABLA_MLIR_TRACEBACK=full keeps all frames. The three arguments are those of an
        exception, all None if there was none.
        """
        if error is None:
            return
        if isinstance(error, (TypeError, AttributeError)):
            self._advise(error)
            if isinstance(error, TypeError) and trace is not None and trace.tb_next is None and "missing" in str(error):
                count = f"{len(self._args)} argument{'' if len(self._args) == 1 else 's'}"
                error.add_note(f"help: the function got {count}: pass an array for each parameter, in nm.trace nm.spec(shape).")
        if os.environ.get(TRACEBACK) != "full":
            error.__traceback__ = _user_traceback(error, trace)

    def _advise(self, error: BaseException) -> None:
        """Adds a note to an error that is about an argument, if that is None or a list of numbers."""
        position = next((i for i, a in enumerate(self._args) if a is None), None)
        if position is not None and "NoneType" in str(error):
            error.add_note(f"help: argument {position} is None: pass an array or a number.")
        lists = [a for a in self._args if isinstance(a, (list, tuple)) and a and _is_of_numbers(a)]
        is_of_lists = lists and re.search(rf"\b{type(lists[0]).__name__}\b|\bscalar index\b", str(error))
        if is_of_lists or (lists and isinstance(error, ConcretizationError)):
            kind = type(lists[0]).__name__
            error.add_note(_LIST.format(kind, str(lists[0])[:40] if is_scalar(lists[0][0]) else f"the {kind}"))


def _user_traceback(error: BaseException, trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback `trace` of an error without the frames of this package, None if no frame is left.

    All frames stay if the error is a fault of the package itself.
    """
    steps, step = [], trace
    while step is not None:
        steps.append(step)
        step = step.tb_next
    users = [step for step in steps if not step.tb_frame.f_code.co_filename.startswith(INTERNAL_FOLDERS)]
    is_missing_name = bool(steps) and steps[-1].tb_frame.f_code.co_name == "__getattr__"
    if not (isinstance(error, NablaError) or is_missing_name or (users and users[-1] is steps[-1])):
        return trace
    shown: types.TracebackType | None = None
    for step in reversed(users):
        shown = types.TracebackType(shown, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return shown


def _is_of_numbers(x: Any) -> bool:
    """True for a number, or for a list (of lists ...) whose first element is one."""
    if isinstance(x, (list, tuple)):
        return bool(x) and _is_of_numbers(x[0])
    return is_scalar(x) or getattr(x, "shape", None) == ()


# The names of parameters in PyTorch, and in nabla_mlir.
_OF_TORCH = {"dim": "axis", "dims": "axis", "keepdim": "keepdims", "other": "x2", "input": "x"}


def refuse_keywords(name: str, keywords: Iterable[str], accepted: Sequence[str]) -> NoReturn:
    """Raises TraceError for keywords that a function does not have; the error lists `accepted`."""
    unknown = next(keyword for keyword in keywords if keyword not in accepted)
    name_here = _OF_TORCH.get(unknown)
    if name_here is not None and name_here in accepted:
        advice = f"PyTorch's {unknown} is {name_here} in NumPy."
    else:
        alike = difflib.get_close_matches(unknown, accepted, n=1)
        advice = f"did you mean {alike[0]}?" if alike else ""
    raise TraceError(f"{name} requires keywords among {', '.join(accepted)}, got {unknown}.", where=user_frame(), help=advice)


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


class LongTrace:
    """Counts the operations of a trace, and warns if a loop of Python makes thousands of them.

    Each operation is traced, lowered and checked, even if nabla-roll-loops compiles a loop. A function that runs both after half of
    the limit and at the limit has the loop. If it is a function of the library, such as `random.beta`, there is no warning.
    """

    def __init__(self) -> None:
        self._count, self._limit = 0, thresholds.OPERATIONS_OF_A_LOOP
        self._running_frames: set[types.FrameType] = set()

    def __call__(self) -> None:
        """Counts one operation of the trace; a loop of Python that makes very many of them gets a warning."""
        self._count += 1
        if self._count == self._limit // 2:
            self._running_frames = set(_running_frames())
        elif self._count == self._limit:
            running = next((frame for frame in _running_frames() if frame in self._running_frames), None)
            self.end()
            if running is not None and not is_internal(running.f_code.co_filename):
                _warn(
                    f"a loop of Python around this line has made {self._limit} operations in one trace, and each takes time: "
                    "nm.fori_loop and nm.scan trace, differentiate and compile one iteration.",
                    SourceRange(running.f_code.co_filename, running.f_lineno),
                )

    def end(self) -> None:
        """Forgets the functions that were running."""
        self._running_frames = set()


def _running_frames() -> Iterator[types.FrameType]:
    """The functions that are running, the innermost first."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _warn(message: str, where: SourceRange) -> None:
    """Gives a warning at a line of the user."""
    warnings.warn_explicit(message, PerformanceWarning, where.filename, where.line)
