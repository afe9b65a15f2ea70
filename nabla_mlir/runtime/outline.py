"""Short lists of many named arrays: neighbours with equal types share one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

MOST = 24  # the largest number of lines
_STEP = re.compile(r"^\w+|\[[^\]]*\]|\.\w+|.")


def outline(names: Sequence[str], types: Sequence[Any], indent: str = "") -> list[str]:
    r"""One line for each array, or fewer: equal parts of a tree are written once.

    Args:
      names: paths in Python syntax, such as ``params['w'][0]``.
      types: the text after each name.
      indent: the indentation of each line.

    Example:
      >>> names = [f"p[{i}]['{k}']" for i in range(20) for k in "bw"]
      >>> print("\n".join(outline(names, ["f32[3]", "f32[3,3]"] * 20)))
      p[0] ... p[19]: 20 of ['b']: f32[3], ['w']: f32[3,3]
    """
    lines = [f"{indent}{name}: {kind}" for name, kind in zip(names, types, strict=True)]
    if len(lines) <= MOST:
        return lines
    tree: dict[str, Any] = {}
    for name, kind in zip(names, types, strict=True):
        *steps, last = _STEP.findall(name)
        node = tree
        for step in steps:
            node = node.setdefault(step, {})
        node[last] = str(kind)
    lines = [f"{indent}{line}" for line in _lines_of(tree, "")]
    if len(lines) > MOST:
        lines = [*lines[: MOST - 1], f"{indent}... and {len(lines) - MOST + 1} lines more ({len(names)} arrays)"]
    return lines


def _lines_of(node: dict[str, Any], path: str) -> list[str]:
    """The lines for a tree below `path`; three or more neighbours with equal subtrees become one line.

    A node maps each step of a path, such as "['w']", to a node or to the text of a type. Example with the path "p": ``{"[0]":
    "f32[3]", "[1]": "f32[3]", "[2]": "f32[3]"}`` -> ``["p[0] ... p[2]: 3 of f32[3]"]``.
    """
    lines = []
    for _, group in groupby(node.items(), key=lambda item: repr(item[1])):
        (first, child), *others = group
        description = child if isinstance(child, str) else ", ".join(_lines_of(child, ""))
        if len(others) > 1 and len(description) < 100:
            lines.append(f"{path}{first} ... {path}{others[-1][0]}: {len(others) + 1} of {description}")
            continue
        for key, subtree in [(first, child), *others]:
            lines += [f"{path}{key}: {subtree}"] if isinstance(subtree, str) else _lines_of(subtree, path + key)
    return lines
