"""`jit`: functions that are compiled once for each structure, shape, dtype and static value of their arguments."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import StaticArgumentError, check_function, user_frame
from nabla_mlir.base.log import logger
from nabla_mlir.staging.abstract import eval_shape
from nabla_mlir.staging.advice import users_call
from nabla_mlir.staging.donation import Donation
from nabla_mlir.staging.eager import LIBRARY, Program, kinds_of, signature_of
from nabla_mlir.staging.execution import Execution
from nabla_mlir.staging.positions import check_names, parameters_of, positions
from nabla_mlir.staging.reasons import reason
from nabla_mlir.staging.repetition import OTHER, Call, never
from nabla_mlir.staging.stages import Lowered, Traced, trace
from nabla_mlir.staging.tracing import is_tracing
from nabla_mlir.table.narrowing import all_narrowed, is_narrowing
from nabla_mlir.table.promotion import default_dtypes

_LOG = logger("jit")
_functions: weakref.WeakSet[Any] = weakref.WeakSet()
_RECENT = 4  # the number of recent programs that are tried before a lookup; a trial takes a quarter of a microsecond


class Jitted(Protocol):
    """A function that `jit` returns."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the code that was compiled for arguments of this structure, shape and dtype."""

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The traced stage, for arrays or specs as arguments, and the values of static arguments."""

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The lowered stage, with all transforms expanded."""

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the results."""

    def clear_cache(self) -> None:
        """Frees all programs that were compiled for it in this process."""


class StaticArguments(NamedTuple):
    """The arguments that are part of the code: by position and by name."""

    indices: tuple[int, ...]
    names: frozenset[str]

    @staticmethod
    def of(fun: Callable[..., Any], parameters: list[str] | None, argnums: Any, argnames: Any) -> StaticArguments:
        """The positions and names of the static arguments of `fun`; a position also means the name of its parameter.

        Args:
          fun: the function that `jit` compiles.
          parameters: the names of its positional parameters; None if they are not known.
          argnums: `static_argnums` of `jit`, a number, a sequence or None.
          argnames: `static_argnames` of `jit`, a string, a sequence or None.

        Raises:
          StaticArgumentError: the function has no argument of such a name.
          TraceError: a position does not exist.
        """
        count = None if parameters is None else len(parameters)
        indices = positions("jit", () if argnums is None else argnums, count, "static_argnums")
        names = {argnames} if isinstance(argnames, str) else set(argnames or ())
        check_names(fun, names, "static_argnames")
        names |= {parameters[i] for i in indices} if parameters is not None else set()
        everywhere = {*indices, *(i for i, name in enumerate(parameters or ()) if name in names)}
        return StaticArguments(tuple(sorted(everywhere)), frozenset(names))

    def divided(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[int, Any], dict[str, Any], dict[str, Any]]:
        """Three dicts: the static arguments by position, the static arguments by name, and the other keyword arguments of a call.

        `args` and `kwargs` are the arguments of the call. The example has `indices` (1,) and `names` {"mode"}.

        Example: (x, 3), {"mode": "a", "b": y} gives {1: 3}, {"mode": "a"}, {"b": y}.
        """
        constants = {i % len(args): args[i % len(args)] for i in self.indices if -len(args) <= i < len(args)}
        fixed = {name: kwargs[name] for name in self.names if name in kwargs}
        return constants, fixed, {name: value for name, value in kwargs.items() if name not in fixed}


class _Switch(threading.local):
    is_off = False  # True within `disable_jit`, in this thread
    is_used = False  # True after the first use by any thread; a thread-local value would be slower to read


@contextlib.contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """A context in which `jit` runs functions without compiling, operation by operation, so that debuggers see values.

    Example:
      >>> import nabla_mlir as nm
      >>> with nm.disable_jit():
      ...     float(nm.jit(lambda x: x + 1.0 if x > 0 else x)(2.0))
      3.0
    """
    _Switch.is_used = True
    before, _switch.is_off = _switch.is_off, disable
    try:
        yield
    finally:
        _switch.is_off = before


_switch = _Switch()


def jit(
    fun: Callable[..., Any] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    *,
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    keep_unused: bool = False,
    inline: bool = False,
    memory_limit: int | None = None,
    within: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
) -> Any:
    """A function with the results of `fun`, compiled once for each structure, shape and dtype of its arguments.

    Args:
      fun: a function of pytrees of arrays. It runs only when it is traced, so it must not depend on other values that
        change. Without it, the result is a decorator with the other arguments.
      static_argnums: positions of arguments that are not arrays. The function is compiled for each of their values, which
        must be hashable. Passed by name, they are static, too.
      static_argnames: the same for keyword arguments, which may also be passed by position.
      donate_argnums, donate_argnames: arguments that the caller will not use again. On a CPU the call writes its results
        into their memory if possible, so ``jit(lambda a: a.at[0].set(1.0), donate_argnums=0)`` copies nothing. Such arrays
        cannot be read afterwards. An array that something else may use (a view by `numpy()`, another call) is copied first.
      keep_unused, inline: accepted for programs of JAX. An unused argument costs nothing here, and the call always becomes
        part of a traced function.
      memory_limit: the bytes that a call may allocate at once on a CPU, with results and without arguments. Values are
        recomputed to meet it, as with ``nm.CPU(memory_limit=...)``. It does not limit interpreted calls.
      within: makes a context for traces and for calls that are not the first of their kind.

    Inside another traced function the call becomes part of that one.

    Returns:
      The function. It has JAX's stages ``square.trace(x)``, ``square.lower(x)`` and ``square.lower(x).compile()``, which is
      called without the static arguments. It also has ``square.eval_shape(x)``, and ``square.clear_cache()``, which frees its
      programs.

    Raises:
      MemoryLimitError: at the first call, if every form of the program allocates more than `memory_limit`.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> square = nm.jit(lambda x: x * x)
      >>> square(np.array([1.0, 2.0])).tolist()
      [1.0, 4.0]
      >>> square.lower(nm.spec(2, "f64")).compile(nm.Interpreter())(np.array([3.0, 4.0])).tolist()
      [9.0, 16.0]
    """
    if fun is None:
        return lambda f: jit(
            f,
            static_argnums,
            static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            memory_limit=memory_limit,
            within=within,
        )
    check_function("jit", fun)
    parameters = parameters_of(fun)
    static = StaticArguments.of(fun, parameters, static_argnums, static_argnames)
    donation = Donation.of(fun, parameters, donate_argnums, donate_argnames, static.indices, set(static.names))
    programs: dict[Any, Program] = {}
    recent: tuple[Call, ...] = ()  # most calls have the same key as one of the last calls

    @functools.wraps(fun)
    def jit_f(*args: Any, **kwargs: Any) -> Any:
        """The results of `fun`, from the compiled program for the structure, types and static values of these arguments.

        The most recently used programs are tried first, by functions that check only the arguments.
        """
        nonlocal recent
        if is_tracing() or (_Switch.is_used and _switch.is_off):
            with within():
                return fun(*args, **kwargs)
        for repeat in recent:
            if (result := repeat(args, kwargs)) is not OTHER:
                return result
        with within():
            with users_call(args):
                program, leaves = looked_up(args, kwargs)
            out = program(leaves)
        if program.repeat is not never:
            recent = (program.repeat, *(repeat for repeat in recent if repeat is not program.repeat))[:_RECENT]
        return out

    def looked_up(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Program, list[Any]]:
        """The program for the structure, types and static arguments of a call, and the leaves of its other arguments.

        `args` and `kwargs` are the arguments of the call. A call with new types or static values makes a new program.
        """
        constants: dict[int, Any] = {}
        fixed: dict[str, Any] = {}
        if static.names or static.indices:
            constants, fixed, kwargs = static.divided(args, kwargs)
            args = tuple(None if i in constants else a for i, a in enumerate(args))
        leaves, in_spec = pytree.flatten((args, kwargs))
        if is_narrowing():
            leaves = all_narrowed(leaves)
        key: tuple[Any, ...] = (in_spec, kinds_of(leaves), Execution.mode, default_dtypes())
        if constants or fixed:
            indices = [*sorted(constants.items()), *sorted(fixed.items())]
            key = (*key, tuple((position, type(value), value) for position, value in indices))  # 1 and 1.0 give different code
        try:
            program = programs.get(key)
        except TypeError as error:
            raise StaticArgumentError(
                f"jit requires static arguments that can be hashed, got {error}.", where=user_frame()
            ) from None
        if program is None:

            def flat(*dynamic: Any, **keywords: Any) -> Any:
                """The result of the function for the dynamic arguments, with the static ones filled in."""
                return fun(*(constants.get(i, a) for i, a in enumerate(dynamic)), **keywords, **fixed)

            title = getattr(fun, "__name__", "function")
            _LOG.info("%s", reason(title, key, programs, parameters))
            donated = donation.leaves(in_spec, len(leaves)) if donation else ()
            values: dict[int | str, Any] = {position: value for part in (constants, fixed) for position, value in part.items()}
            program = programs[key] = Program(
                flat,
                in_spec,
                signature_of(leaves),
                is_jitted=True,
                donation=donated,
                title=title,
                constants=values,
                memory_limit=memory_limit,
            )
        return program, leaves

    def bound(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
        """The function without its static arguments, the other positional arguments, and the other keyword arguments of a call."""
        constants, fixed, others = static.divided(args, kwargs)
        dynamic = [a for i, a in enumerate(args) if i not in constants]
        return _bind_arguments(fun, constants, fixed) if constants or fixed else fun, dynamic, others

    def traced(*args: Any, **kwargs: Any) -> Traced:
        """The traced program for the arguments of a call, with the static ones filled in."""
        f, dynamic, others = bound(args, kwargs)
        with within():
            stage = trace(f, *dynamic, **others)
        if donation is None:
            return stage
        return Traced(stage.module, (donation.marked(stage.entries[0], len(args), static.divided(args, kwargs)[0]),))

    def shapes(*args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the results for the arguments of a call."""
        f, dynamic, others = bound(args, kwargs)
        with within():
            return eval_shape(f, *dynamic, **others)

    def clear_cache() -> None:
        """Frees all compiled programs of this function."""
        nonlocal recent
        programs.clear()
        recent = ()

    stages = {"trace": traced, "lower": lambda *args, **kwargs: traced(*args, **kwargs).lower(), "eval_shape": shapes}
    jit_f.__dict__.update(stages, clear_cache=clear_cache)
    _functions.add(jit_f)
    return jit_f


def clear_caches() -> None:
    """Frees all programs of this process: those of `jit`, and those of functions on arrays.

    Compiled modules stay in the cache on disk (`nabla-mlir cache`).

    Example:
      >>> import nabla_mlir as nm
      >>> nm.clear_caches()
    """
    for function in list(_functions):
        function.clear_cache()
    for programs in LIBRARY:
        programs.clear()


def _bind_arguments(fun: Callable[..., Any], constants: Mapping[int, Any], fixed: Mapping[str, Any]) -> Callable[..., Any]:
    """A function of the arguments of `fun` that are not static, with their names in its signature.

    `constants` maps the position of a static argument to its value, `fixed` the name of one.
    """

    @functools.wraps(fun)
    def f(*dynamic: Any, **keywords: Any) -> Any:
        """The result of `fun`, with the static arguments at their positions."""
        remaining = iter(dynamic)
        args = [constants[i] if i in constants else next(remaining) for i in range(len(constants) + len(dynamic))]
        return fun(*args, **keywords, **fixed)

    with contextlib.suppress(TypeError, ValueError):  # a builtin may have no signature
        parameters = enumerate(inspect.signature(fun).parameters.values())
        f.__signature__ = inspect.Signature([p for i, p in parameters if i not in constants and p.name not in fixed])  # type: ignore[attr-defined]
    return f
