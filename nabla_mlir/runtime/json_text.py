"""Readable JSON: a value that fits on one line is written on one line."""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any, indent: str = "", key: str = "") -> str:
    """The value as JSON; a part that fits on a line of about 100 characters, and a list of integers, is written on one line.

    `indent` is the indentation of the value, and `key` is the text before it on its first line.
    """
    line = json.dumps(value)
    is_short = len(indent) + len(key) + len(line) <= 99 or not isinstance(value, (dict, list, tuple))
    if is_short or (not isinstance(value, dict) and all(isinstance(item, int) for item in value)):
        return line
    inner = indent + "  "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {dumps(item, inner, json.dumps(key) + ': ')}" for key, item in value.items()]
    else:
        items = [dumps(item, inner) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(inner + item for item in items) + f"\n{indent}{closing}"
