"""Arrays that a user writes on the command line."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.conversion import rounded
from nabla_mlir.base.errors import DeployError
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.runtime.manifest import Leaf

# The errors of `numpy.load` for a damaged file: the header is Python, and its shape may need more memory than
# available.
_UNREADABLE = (OSError, ValueError, EOFError, SyntaxError, tokenize.TokenError, MemoryError, OverflowError, TypeError)

_NAME = re.compile(r"[A-Za-z_][\w.]*")  # of an argument


class InputError(DeployError):
    """An input of the command line is not valid."""


def bind(texts: Sequence[str], leaves: Sequence[Leaf], entry: str) -> list[Any]:
    """The value of each leaf: values with names are assigned first, and the other values fill the remaining leaves in order.

    Args:
      texts: a .npy file, a number or a list, or NAME=VALUE.
      leaves: the name, the shape and the dtype of each leaf.
      entry: the name of the entry point, for errors.

    Raises:
      InputError: there are too many or too few inputs, or one cannot be read.
      DtypeError: a value would be lost in the dtype.
    """
    names = {leaf.name: i for i, leaf in enumerate(leaves)}
    values: list[Any] = [None] * len(leaves)
    for text in texts:
        name, separator, value = text.partition("=")
        has_name = bool(separator) and name in names
        if separator and not has_name and _NAME.fullmatch(name):
            raise InputError(f"--input requires an argument among {', '.join(names)}, got {name}.")
        free = [i for i, v in enumerate(values) if v is None]
        if not has_name and not free:
            raise InputError(f"{entry} requires {len(leaves)} inputs, got {len(texts)}.")
        i = names[name] if has_name else free[0]
        values[i] = read_value(value if has_name else text, leaves[i])
    missing = [leaf.name for leaf, value in zip(leaves, values, strict=True) if value is None]
    if missing:
        raise InputError(f"{entry} requires an --input for each array, got none for {', '.join(missing)}.")
    return values


def read_value(text: str, leaf: Leaf) -> Any:
    """An array from a .npy file, a number or a list; a number in the dtype of the leaf, if the dtype can represent it.

    Raises:
      InputError: the text is none of these.
      DtypeError: the dtype cannot represent the value.
    """
    if text.endswith(".npy"):
        try:
            return np.load(text)
        except _UNREADABLE as error:
            raise InputError(f"--input requires a NumPy file for {leaf.name}, got {text}: {error}.") from None
    try:
        array = np.asarray(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError):
        raise InputError(f"--input requires a .npy file, a number or a list for {leaf.name}: {leaf}, got {text!r}.") from None
    return rounded(array, dtype_named(leaf.dtype), f"--input {leaf.name}")
