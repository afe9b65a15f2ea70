"""Names are the nouns of the field: a word of the table in CONTRIBUTING is not part of a name in the code."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SOURCES = sorted(p for folder in ("nabla_mlir", "dialects", "passes") for p in (ROOT / folder).rglob("*.py"))

# Names that users see: attributes of public classes, and functions of NumPy.
PUBLIC = {"place": "numpy.place, and an attribute of the difference that a check reports"}


def banned() -> dict[str, str]:
    """The words of the table of names in CONTRIBUTING, each with the words to write instead."""
    table = (ROOT / "CONTRIBUTING.md").read_text().split("| not in a name | write |\n|---|---|\n")[1].split("\n\n")[0]
    rows = [re.split(r" *\| *", line.strip("| ")) for line in table.splitlines()]
    return {word: right for left, right in rows for word in left.split(", ")}


@functools.cache
def names(path: Path) -> list[tuple[str, int]]:
    """The names of the module, and of its variables, parameters, functions and classes, with their lines."""
    return [(path.stem, 1), *_names_within(path)]


def _names_within(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node.lineno


def bad_words(name: str, words: dict[str, str]) -> list[str]:
    """The banned words in a name. `in_place` is a term, and `place_results` begins with a verb."""
    parts = name.strip("_").lower().replace("in_place", "").split("_")
    return [part for i, part in enumerate(parts) if part in words and not (i == 0 and part == "place" and len(parts) > 1)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_are_nouns_of_the_field(path: Path) -> None:
    words = banned()
    faults = [
        f"{path.name}:{line}: {name}: say {words[word]} instead of {word}"
        for name, line in names(path)
        if name not in PUBLIC
        for word in bad_words(name, words)
    ]
    assert not faults, "\n".join(faults)


def test_a_banned_word_is_found() -> None:
    words = banned()
    assert words["turn"] == "iteration; rotation"
    assert bad_words("_turn_of", words) == ["turn"]
    assert bad_words("by_place", words) == ["place"]
    assert not any(bad_words(name, words) for name in ("in_place", "place_results", "return_value", "placed"))


def test_every_exception_is_used() -> None:
    used = {name for path in SOURCES for name, _ in names(path)}
    assert PUBLIC.keys() <= used
