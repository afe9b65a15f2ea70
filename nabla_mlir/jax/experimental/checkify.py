"""Checks of values inside traced functions, under the names of `jax.experimental.checkify`.

`checkify` makes a function that also returns the checks that failed. It collects the checks that the code states by `check`. NaN
and indices are checked by `nm.debug_nans` and by `nm.jit`'s own errors instead.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import NablaError, TraceError, check_function, user_frame
from nabla_mlir.numpy.operands import asarray
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.tracing import current_trace
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor

JaxRuntimeError = NablaError


class CheckError(NablaError, ValueError):
    """The error for a failed check: `check` raises it outside of `checkify`, and `Error.throw` raises it later."""


class ErrorCategory(Exception):  # noqa: N818  # the name of JAX
    """The base class of the kinds of checks that `checkify` can be asked for."""


class FailedCheckError(ErrorCategory):
    """The kind of the checks that code states by `check`."""


class NaNError(ErrorCategory):
    """The kind of the checks for NaN. `nm.debug_nans` makes them."""


class OOBError(ErrorCategory):
    """The kind of the checks that indices are in bounds."""


class DivisionByZeroError(ErrorCategory):
    """The kind of the checks that divisors are not zero."""


Errors = frozenset[type[ErrorCategory]]
user_checks: Errors = frozenset({FailedCheckError})
nan_checks: Errors = frozenset({NaNError})
index_checks: Errors = frozenset({OOBError})
div_checks: Errors = frozenset({DivisionByZeroError})
float_checks: Errors = nan_checks | div_checks
automatic_checks: Errors = float_checks | index_checks
all_checks: Errors = automatic_checks | user_checks


class Error:
    """The results of the checks of one call: for each check, whether it failed, its message, and the values in the message. It is a
    pytree.

    Args:
      failed: a truth value for each check.
      values: the arguments of each message.
      messages: the message of each check.
    """

    def __init__(self, failed: list[Any], values: list[Any], messages: tuple[str, ...]):
        self.failed, self.values, self.messages = failed, values, messages

    def get(self) -> str | None:
        """The message of the first failed check, or None if no check failed."""
        for failed, (args, kwargs), message in zip(self.failed, self.values, self.messages, strict=True):
            if np.asarray(failed).any():
                numbers, spec = pytree.flatten((args, kwargs))
                args, kwargs = pytree.unflatten(spec, list(map(np.asarray, numbers)))
                return message.format(*args, **kwargs)
        return None

    def throw(self) -> None:
        """Raises CheckError if a check failed."""
        if (message := self.get()) is not None:
            raise CheckError(message, where=user_frame())


pytree.register_node(
    Error, lambda e: ((e.failed, e.values), e.messages, ("failed", "values")), lambda messages, xs: Error(xs[0], xs[1], messages)
)


@dataclass
class _Open:
    """The checks that a call has met so far, while it is traced."""

    block: ir.Block
    failed: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


class _State(threading.local):
    """The calls of `checkify` that this thread is tracing, innermost last."""

    calls: tuple[_Open, ...] = ()


_state = _State()


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Checks that a value is true. Within `checkify`, a failure is returned as part of `Error`; elsewhere it is raised.

    Args:
      pred: a truth value.
      msg: the message, a format of `str.format`.
      *fmt_args, **fmt_kwargs: the values in the message.
      debug: True ignores the check outside of `checkify`.

    Raises:
      CheckError: the value is False, outside of `checkify`.
      TraceError: the value is traced, and no `checkify` is directly around the code.

    Example:
      >>> err, y = checkify(lambda x: (check(x > 0, "{} is negative", x), x * 2)[1])(-1.0)
      >>> err.get(), float(y)
      ('-1.0 is negative', -2.0)
    """
    if _state.calls:
        call = _state.calls[-1]
        if ir.InsertionPoint.current.block != call.block:
            raise _nested_check_error()
        call.failed.append(~as_tensor(asarray(pred, bool)))
        call.values.append((list(fmt_args), dict(fmt_kwargs)))
        call.messages.append(msg)
    elif debug:
        return
    elif isinstance(pred, Tensor):
        raise _nested_check_error()
    elif not np.asarray(pred).all():
        raise CheckError(msg.format(*fmt_args, **fmt_kwargs), where=user_frame())


def _nested_check_error() -> TraceError:
    """The error of a check inside of a loop, a map, a derivative or another `jit`."""
    return TraceError(
        "check requires checkify directly around the traced code, got code inside of jit, a loop, a map or a derivative.",
        where=user_frame(),
        help="write jit(checkify(f)), and return the value from the loop or map to check it there.",
    )


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """The same as `check` inside `checkify`, and nothing elsewhere."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Repeats the failed checks of an `Error`: within `checkify` as checks of the current call, elsewhere by raising the first."""
    if _state.calls or current_trace() is not None:
        for failed, (args, kwargs), message in zip(error.failed, error.values, error.messages, strict=True):
            check(~as_tensor(failed), message, *args, **kwargs)
    else:
        error.throw()


def checkify(f: Callable[..., Any], errors: Errors = user_checks) -> Callable[..., tuple[Error, Any]]:
    """A function that returns the checks of `f` as an `Error`, and the result of `f`.

    Args:
      f: a function with calls of `check`.
      errors: `user_checks`.

    Raises:
      TraceError: other kinds of checks are requested.

    Example:
      >>> def f(x):
      ...     check(x > 0, "x is negative")
      ...     return x
      >>> import nabla_mlir as nm
      >>> nm.jit(checkify(f))(-1.0)[0].get()
      'x is negative'
    """
    check_function("checkify", f)
    if not frozenset(errors) <= user_checks:
        names = ", ".join(sorted(kind.__name__ for kind in frozenset(errors) - user_checks))
        raise TraceError(
            f"checkify requires errors=user_checks, got {names}.",
            where=user_frame(),
            help="with nm.debug_nans(): finds the operation that made a NaN.",
        )

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        """Runs `f` as one traced function, and returns its checks with its result."""

        def run(*inner: Any, **keywords: Any) -> tuple[Error, Any]:
            """Calls `f`; returns the checks that its code has made, and its result."""
            call = _Open(ir.InsertionPoint.current.block)
            before, _state.calls = _state.calls, (*_state.calls, call)
            try:
                out = f(*inner, **keywords)
            finally:
                _state.calls = before
            return Error(call.failed, call.values, tuple(call.messages)), out

        return staged(run)(*args, **kwargs)

    return checked
