"""The exceptions of nabla_mlir and the printer of the user's own source line.

Every message has one form: ``<op> requires <condition>, got <values>.``, then where (the user's line with a
caret), then what to do. Each class derives also from the builtin a caller would expect. This module imports
nothing of the project, so that the deployment runtime can use it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import linecache
import os
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SourceRange:
    """A range in the user's source: file, first line, columns (from 1) and the enclosing function."""

    filename: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""

    def render(self) -> str:
        """The position as text and, if the file can be read, the line with the range underlined."""
        where = f"  --> {self.filename}:{self.line}:{self.column}"
        if self.function:
            where += f" in {self.function}"
        text = linecache.getline(self.filename, self.line).rstrip()
        if not text:
            return where
        number = f"{self.line:5d} | "
        width = max(1, min(self.end_column, len(text) + 1) - self.column) if self.end_column > self.column else 1
        caret = " " * (len(number) - 2) + "| " + " " * max(self.column - 1, 0) + "^" * width
        return f"{where}\n{number}{text}\n{caret}"


class NablaError(Exception):
    """Base of all errors raised by nabla_mlir.

    Args:
      message: one sentence, ``<op> requires <condition>, got <values>.``
      where: the user's source line, if it is known.
      help: advice for the user.
    """

    message: str
    where: SourceRange | None
    help: str

    def __init__(self, message: str, *, where: SourceRange | None = None, help: str = ""):
        """Makes the text of the error from the message, the position `where`, and the advice `help`."""
        self.message, self.where, self.help = message, where, help
        parts = [message]
        if where is not None:
            parts.append(where.render())
        if help:
            parts.append(f"  help: {help}")
        super().__init__("\n".join(parts))


class ShapeError(NablaError, ValueError, TypeError):
    """Shapes do not fit the operation."""


class AxisError(ShapeError, IndexError):
    """An array has no such axis."""


class DtypeError(NablaError, TypeError, ValueError):
    """An element type does not fit the operation."""


class RangeError(DtypeError, OverflowError):
    """An integer lies outside the range of its dtype."""


class IndexingError(NablaError, IndexError):
    """An index lies outside the array, or there are too many."""


class IndexValueError(IndexingError, ValueError):
    """An index among the arguments of a function lies outside the shape."""


class SliceError(IndexingError, ValueError):
    """A slice has a step of 0."""


class CopyError(NablaError, ValueError):
    """A copy was refused that has to be made."""


class DonationError(CopyError, RuntimeError):
    """A donated array is also another argument of the call."""


class DeletedArrayError(NablaError, RuntimeError):
    """An array was used whose memory was given to a call, or set free."""


class ExchangeError(NablaError, BufferError, TypeError):
    """The memory of another system's array cannot be read."""


class TreeError(NablaError, ValueError, TypeError):
    """A pytree does not have the expected structure."""


class TraceError(NablaError, TypeError):
    """The error of a use of a traced value that tracing cannot record."""


class RuleUndefinedError(TraceError, AttributeError):
    """The error of a call of a function that has no custom rule yet."""


class LeakedTracerError(TraceError):
    """A tensor was used after the function or transform that made it had ended."""


class ConcretizationError(TraceError):
    """The error of a request for the number of a traced tensor (`if`, `while`, `float()`, `np.asarray` ...).

    A traced function runs once, on tensors without numbers. Instead of `if` use `nm.numpy.where` or `nm.cond`, of `while`
    `nm.while_loop`, of NumPy's functions those of `nm.numpy`; what is part of the code is a static argument.
    """


class MaskError(TraceError, IndexError):
    """A mask of known values was needed to index with, and a traced one came: the number of elements would depend on it."""


class AssignmentError(TraceError, ValueError):
    """A traced value was assigned to an element of an array of NumPy, which holds numbers alone."""


class StaticArgumentError(TraceError, ValueError):
    """An argument was chosen by a name or a position that the function does not have, or a static one cannot be hashed."""


# The names of jax.errors for these, and for tensors that outlive their trace.
ConcretizationTypeError = TracerBoolConversionError = ConcretizationError
TracerArrayConversionError = TracerIntegerConversionError = ConcretizationError
UnexpectedTracerError = LeakedTracerError
NonConcreteBooleanIndexError = MaskError


class UnboundAxisError(TraceError, NameError):
    """A collective names an axis that no map around it has."""


class RuleMissingError(NablaError, NotImplementedError):
    """The error of an operation without a rule for the requested transform."""


class CapturedValueError(RuleMissingError, LeakedTracerError):
    """A custom rule was used for a value that the function takes from outside, and not as an argument."""


class CallbackError(ShapeError, TreeError, RuntimeError):
    """The results of a Python function are not those that `pure_callback` or `io_callback` promises."""


class CallbackDerivativeError(RuleMissingError, ValueError):
    """A Python function that a program calls was differentiated."""


class PatternError(NablaError, ValueError):
    """A sparsity pattern does not fit in memory, is not that of the function, or a coloring is not valid for it."""


class ImportIRError(NablaError, ValueError):
    """A module given as text or bytecode is not valid, or is not in the supported set."""


class ImportedShapeError(ImportIRError, ShapeError):
    """The shapes of an imported module, or of the arguments of one with dynamic shapes, do not fit together."""


class InstallError(NablaError, ImportError):
    """The mirror cannot have the name `jax`, because JAX itself is imported."""


class PassError(NablaError, ValueError):
    """A pass or a pipeline could not do its work."""


class VerifyError(PassError):
    """The IR breaks a rule of one of our dialects."""


class TargetError(NablaError, ValueError):
    """The target is unknown or does not exist on this machine."""


class CompileError(NablaError, RuntimeError):
    """IREE refused or crashed on a module. `reproducer` is a saved file with the input and the command.

    `fault` is the name of the fault of IREE that caused it, as in passes/iree/faults/table.py; "" if it is not known.
    """

    def __init__(self, message: str, *, where: SourceRange | None = None, help: str = "", reproducer: str = "", fault: str = ""):
        self.reproducer: str = reproducer
        self.fault: str = fault
        super().__init__(message, where=where, help=help)


class MiscompileError(CompileError):
    """The error of a program whose compiled code is wrong with every strategy. `reproducer` is a saved folder."""


class MemoryLimitError(CompileError):
    """A function cannot be compiled so that a call holds as little memory as the target allows: its `memory_limit`."""


def check_function(who: str, value: object, *parameters: str, help: str = "") -> None:
    """Raises TraceError if an argument of a transform is no function, or is known not to accept these parameters.

    Args:
      who: the name of the transform.
      value: the argument.
      *parameters: the names of what the transform passes to it; none are not checked.
      help: advice about the parameters.
    """
    if not callable(value):
        raise TraceError(
            f"{who} requires a function, got {_described(value)}.",
            where=user_frame(),
            help="pass the function itself, without calling it: f rather than f(x).",
        )
    if not parameters:
        return
    try:
        signature = inspect.signature(value, follow_wrapped=False)  # a transform of f has other parameters than f
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        raise TraceError(
            f"{who} requires a function of ({', '.join(parameters)}), got one of {signature}.", where=user_frame(), help=help
        ) from None


def _described(value: object) -> str:
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__} {value!r:.40}" if shape is None else f"an array of shape {tuple(shape)}"


class PerformanceWarning(UserWarning):
    """The warning of a program that is slow for a reason that a change of one line removes."""


class OutOfMemoryError(NablaError, MemoryError):
    """An array does not fit into the memory of the machine, or of the device."""

    def __init__(self, what: str, request: object):
        super().__init__(
            f"{'a function' if what == 'main' else what} requires memory for its arrays, got: {request}.",
            where=user_frame(),
            help="compute less at once: products (nm.hvp, nm.jvp) instead of matrices, nm.map or smaller batches instead of one "
            "map over all.",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return OutOfMemoryError, ("", ""), {**self.__dict__, "args": self.args}


class SaveError(NablaError, OSError):
    """A file cannot be written."""


@contextlib.contextmanager
def writing(path: object) -> Iterator[None]:
    """A context for writing files. It raises SaveError with the path if a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise SaveError(
            f"save requires a path that can be written, got {str(path)!r}: {error.strerror or error}.",
            where=user_frame(),
            help="check that its folder exists, who may write there, and that the disk is not full.",
        ) from None


class NotFiniteError(NablaError, FloatingPointError):
    """NaN or infinity where finite numbers are required."""


class BatchError(NablaError, RuntimeError):
    """The error of one batch of a sum over data, or of one shard. `number` is its index, from zero."""

    def __init__(self, message: str, *, number: int = -1, where: SourceRange | None = None, help: str = ""):
        self.number = number
        super().__init__(message, where=where, help=help)


class DataChangedError(BatchError):
    """A batch is another one than in the first pass over the data."""


class NotFiniteBatchError(BatchError, NotFiniteError):
    """NaN or infinity comes from one batch of a sum over data."""


class DeployError(NablaError, ValueError):
    """An artifact is corrupt, does not fit this runtime, or was called with wrong arguments."""


class WrongNumbersError(DeployError):
    """Code computes other numbers than the reference values that its artifact carries."""


def one_of(what: str, value: Any, values: Sequence[str], error: type[NablaError]) -> Any:
    """The value of a setting; raises an error unless it is one of the values that the setting may have.

    Raises:
      error: it is not.
    """
    if value not in values:
        raise error(f"{what} requires one of {', '.join(values)}, got {value!r}.", where=user_frame())
    return value


def user_frame() -> SourceRange | None:
    """The innermost frame of the Python stack that is not in nabla_mlir, the user's own line; None if there is none."""
    frame = sys._getframe(1)
    while frame is not None and (is_internal(frame.f_code.co_filename) or _is_generated(frame)):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else _range_of(frame.f_code, frame.f_lasti, frame.f_lineno)


def _is_generated(frame: types.FrameType) -> bool:
    """True for code without a file that the standard library makes for a module of nabla_mlir, such as __init__ of a dataclass."""
    return frame.f_code.co_filename == "<string>" and str(frame.f_globals.get("__name__")).startswith("nabla_mlir.")


def raising_frame(error: BaseException) -> SourceRange | None:
    """The user's line that raised an error, or that called the library that raised it; None if there is none."""
    found, step = None, error.__traceback__
    while step is not None:
        if not is_internal(step.tb_frame.f_code.co_filename):
            found = _range_of(step.tb_frame.f_code, step.tb_lasti, step.tb_lineno)
        step = step.tb_next
    return found


def _range_of(code: types.CodeType, instruction: int, line: int) -> SourceRange:
    """The range in the source of an instruction of a code object; only the line if the columns are not known."""
    first, last, column, end_column = next(itertools.islice(code.co_positions(), instruction // 2, None), (None, None, None, None))
    if column is None or end_column is None or last != first:
        return SourceRange(code.co_filename, line, function=code.co_name)
    return SourceRange(code.co_filename, line, column + 1, end_column + 1, code.co_name)


@functools.cache
def is_internal(filename: str) -> bool:
    """True for a file of nabla_mlir, of a library that calls it or that it calls for the user, or of the standard library."""
    path = os.path.realpath(filename)
    ours = path.startswith(INTERNAL_FOLDERS) and path.endswith(".py")  # a file of IR in our folders is the user's
    package = path.partition(f"-packages{os.sep}")[2]
    standard = path.startswith(_STANDARD_LIBRARY) and not package
    return ours or standard or package.startswith(_BETWEEN) or path.startswith(tuple(EXCLUDED)) or filename.startswith("<frozen")


def exclude(path: str) -> None:
    """Counts files as part of the library; errors show the line that called them.

    Args:
      path: a file, or the folder of a package.
    """
    EXCLUDED.append(os.path.realpath(path))
    is_internal.cache_clear()


EXCLUDED: list[str] = []  # the files that packages have named
_AROUND = ("IPython", "ipykernel", "pluggy", "_pytest", "tornado", "traitlets", "xdist")  # what runs the user's program
_BETWEEN = tuple(name + os.sep for name in ("optree", "numpy", "scipy", *_AROUND))
_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "")


def _internal_folders() -> tuple[str, ...]:
    """The folders of nabla_mlir, whose files are not the user's."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    root = os.path.dirname(package)
    # dialects/ and passes/ are next to the package in a checkout, and inside it in a wheel.
    return tuple(os.path.join(p, "") for p in (package, os.path.join(root, "dialects"), os.path.join(root, "passes")))


INTERNAL_FOLDERS = _internal_folders()
