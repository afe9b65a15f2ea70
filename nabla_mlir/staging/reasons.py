"""The reason why a function is traced and compiled again: how its new arguments differ from those before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nabla_mlir.base import pytree

Key = tuple[Any, ...]  # structure, kinds of leaves, mode, default dtypes, and static values (position or name, type, value)


def reason(name: str, key: Key, before: Iterable[Key], parameters: Sequence[str] | None) -> str:
    """A sentence that says how a call differs from the most similar one before.

    Args:
      name: the name of the function.
      key: the key of the call.
      before: the keys of the calls that were compiled.
      parameters: the names of the function's parameters, if they are known.
    """
    nearest = min(before, key=lambda other: len(_changes(key, other, parameters)), default=None)
    if nearest is None:
        return f"{name} is compiled: its first call"
    changes = dict.fromkeys(_changes(key, nearest, parameters))
    return f"{name} is compiled again: {'; '.join(list(changes)[:4])}"


def _changes(key: Key, other: Key, parameters: Sequence[str] | None) -> list[str]:
    """Sentences that say how the arguments of a call differ from those of an earlier call.

    Args:
      key: of the new call: the structure, the kinds of the leaves, the execution mode, the default dtypes, and the static
        arguments.
      other: the same of the earlier call.
      parameters: the names of the function's parameters, or None.
    """
    if key[0] != other[0]:
        return [f"new structure {key[0]} where {other[0]} was compiled"] * 99  # a difference that is larger than any other
    changes = []
    names = [_leaf_name(path, parameters) for path in pytree.paths(key[0])]
    for leaf, new, old in zip(names, key[1], other[1], strict=True):
        (shape, dtype), (old_shape, old_dtype) = _kind(new), _kind(old)
        if shape != old_shape:
            changes.append(f"new shape {shape} where {old_shape} was compiled, in {leaf}")
        if dtype != old_dtype:
            changes.append(f"new dtype {dtype} where {old_dtype} was compiled, in {leaf}")
        elif shape == old_shape and new != old:
            changes.append(f"a Python scalar where an array was compiled, or the other way, in {leaf}")
    if key[2] != other[2]:
        changes.append(f"set_execution({key[2]!r}) where it was {other[2]!r}")
    if key[3] != other[3]:
        changes.append(f"default dtypes {_dtype_names(key[3])} where they were {_dtype_names(other[3])}")
    if key[4:] != other[4:]:
        changes.append(f"new static arguments {_static_text(key)} where {_static_text(other)} were compiled")
    return changes


def _dtype_names(defaults: tuple[Any, ...]) -> str:
    """The names of the default dtypes, as text."""
    return " and ".join(dtype.name for dtype in defaults[:2])


def _kind(leaf: Any) -> tuple[Any, Any]:
    """The shape and dtype of the key of a leaf."""
    return leaf if isinstance(leaf, tuple) else (leaf.shape, leaf.dtype)


def _static_text(key: Key) -> str:
    """The static arguments of a key, as text."""
    return ", ".join(f"{name}={value!r}" for part in key[4:] for name, _, value in part) or "none"


def _leaf_name(path: str, parameters: Sequence[str] | None) -> str:
    """The name of a leaf in a message, from its path in ``(args, kwargs)`` and the names of the function's parameters.

    Example: "[0][0]['w']" with parameters ["x"] gives "x['w']"; "[1]['y']" gives "y"; "[0][2]" without a name gives "argument 2".
    """
    which, _, rest = path.removeprefix("[").partition("]")
    index, _, inside = rest.removeprefix("[").partition("]")
    if which == "1":
        return index.strip("'\"") + inside
    position = int(index)
    return (parameters[position] if parameters is not None and position < len(parameters) else f"argument {position}") + inside
