"""Selection of arguments by position: argnums, static_argnums, nondiff_argnums."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from nabla_mlir.base.errors import StaticArgumentError, TraceError, user_frame

Argnums = int | Sequence[int]


def is_one(argnums: Any) -> bool:
    """True for one position, False for a tuple of positions, also for a tuple of one."""
    return hasattr(argnums, "__index__") and not getattr(argnums, "shape", ())


def positions(what: str, argnums: Any, count: int | None, word: str = "argnums", may_repeat: bool = False) -> tuple[int, ...]:
    """The positions, counted from 0. A negative position counts from the end of `count` arguments.

    Args:
      what: the name of the caller, for messages.
      argnums: a position or a sequence of them.
      count: the number of arguments; None if it is not fixed.
      word: the name of the parameter, for messages.
      may_repeat: True allows a position twice, such as 0 and -3 of three arguments.

    Raises:
      StaticArgumentError: a position is not that of an argument.
      TraceError: a position is not an integer, or is repeated.
    """
    numbers = [argnums] if is_one(argnums) or not isinstance(argnums, (tuple, list, set, frozenset, range)) else argnums
    result = []
    for i in numbers:
        if not is_one(i) or isinstance(i, bool):
            advice = f"{what}(f) is a function of the arguments of f: write {what}(f)(x)." if word == "argnums" else ""
            raise TraceError(f"{what} requires integers as {word}, got {i!r:.40}.", where=user_frame(), help=advice)
        index = operator.index(i)
        if count is not None and not -count <= index < count:
            raise StaticArgumentError(
                f"{what} requires {word} among the {count} positional arguments, got {index}.",
                where=user_frame(),
                help=_advice_on_position(what, index, count) if word == "argnums" else "the first argument has the position 0.",
            )
        result.append(index if count is None else index % count)
    if may_repeat:
        return tuple(dict.fromkeys(result))
    if len(set(result)) != len(result):
        raise TraceError(f"{what} requires each position once in {word}, got {argnums!r}.", where=user_frame())
    return tuple(result)


def _advice_on_position(what: str, index: int, count: int) -> str:
    """Advice for a call of the transform `what` with `count` arguments by position, none of which has the position `index`."""
    if count == 0:
        return f"pass the arguments of the function by position: {what}(f)(x)."
    given = "one argument, at position 0" if count == 1 else f"{count} arguments, at positions 0 to {count - 1}"
    return f"the call has {given}; pass argument {index} by position, too, or choose another one."


def bind_static(
    who: str, fun: Callable[..., Any], args: Sequence[Any], argnums: Any, word: str = "static_argnums"
) -> tuple[Callable[..., Any], list[Any]]:
    """The function of the arguments that are not static, and these arguments.

    Args:
      who: the name of the caller, for messages.
      fun: a function of all arguments.
      args: the arguments of a call.
      argnums: the positions of the static ones; see `positions`.
      word: the name of that parameter, for messages.

    Example:
      >>> call, rest = bind_static("f", lambda x, n, y: (x, n, y), (1, 2, 3), 1)
      >>> rest, call(4, 5)
      ([1, 3], (4, 2, 5))
    """
    static = {i: args[i] for i in positions(who, argnums, len(args), word)}

    def call(*rest: Any, **kwargs: Any) -> Any:
        """The result of `fun` for the other arguments, with the static ones at their positions."""
        values = iter(rest)
        return fun(*(static[i] if i in static else next(values) for i in range(len(args))), **kwargs)

    return call, [x for i, x in enumerate(args) if i not in static]


def parameters_of(f: Callable[..., Any]) -> list[str] | None:
    """The names of the parameters that may be passed by position; None if `f` has `*args` or no known signature."""
    parameters = _parameters(f)
    if parameters is None or any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return None
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def check_names(f: Callable[..., Any], names: set[str], word: str) -> None:
    """Raises StaticArgumentError unless `f` accepts all of these names by keyword.

    `word` is the name of the parameter that holds the names. With ``**kwargs``, `f` accepts all but those given by position alone.
    """
    parameters = _parameters(f)
    if parameters is None:
        return
    known = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    accepts_others = any(p.kind == p.VAR_KEYWORD for p in parameters)
    nameless = {p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    wrong = names & nameless if accepts_others else names - known
    if wrong:
        raise StaticArgumentError(
            f"{word} requires names of arguments, got {', '.join(map(repr, sorted(wrong)))}.",
            where=user_frame(),
            help=f"there are {', '.join(sorted(known))}.",
        )


def _parameters(f: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """The parameters of a function; None for a builtin without a signature."""
    try:
        return list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return None


def positional(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments of a call of `fun` as a tuple by position, with defaults, as custom rules expect them.

    The arguments that a `functools.partial` holds are part of the function.
    """
    if isinstance(fun, functools.partial) and not kwargs:
        return args
    try:
        bound = inspect.signature(fun).bind(*args, **kwargs)
    except ValueError:  # a builtin without a signature
        return args
    except TypeError as error:
        raise TraceError(
            f"{getattr(fun, '__name__', fun)} requires its own arguments, got others: {error}.", where=user_frame()
        ) from None
    bound.apply_defaults()
    if bound.kwargs:
        raise TraceError(
            f"a custom rule requires arguments that can be given by position, got {', '.join(bound.kwargs)} by keyword.",
            where=user_frame(),
            help="make them positional, or bind them with functools.partial.",
        )
    return bound.args
