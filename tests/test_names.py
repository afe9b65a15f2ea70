"""Variables are named by nouns where there is one: no participle that could stand for anything, such as `found`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SOURCES = sorted(p for folder in ("nabla_mlir", "dialects", "passes") for p in (ROOT / folder).rglob("*.py"))

# Participles that are the word of the field for a thing, and adjectives of state.
TERMS = {
    "advanced": "NumPy: advanced indices",
    "asked": "the target that a user asks for, beside the one that fits",
    "compiled": "a stage, as JAX names them",
    "lowered": "a stage",
    "traced": "a stage",
    "carried": "the axes of a map that a value carries",
    "mapped": "operands that carry the axis of a map, and",
    "unmapped": "those that do not",
    "vectorized": "an argument of public functions",
    "completed": "as_completed, as in Dask and concurrent.futures",
    "fixed": "arguments that are not differentiated",
    "computed": "indices that are known when the program runs, beside plain ones",
    "dropped": "axes that an index takes away",
    "expected": "beside got",
    "found": "beside needed",
    "known": "partial evaluation: known and unknown",
    "left": "the side",
    "packed": "LAPACK: a factorisation as it is returned, in one matrix",
    "padded": "an array with its padding",
    "ordered": "a truth value", "signed": "a truth value", "unsigned": "a truth value", "transposed": "a truth value",
    "excluded": "a parameter of NumPy's vectorize", "returned": "a parameter of NumPy's average",
    "onesided": "an attribute of Fourier transforms in ONNX",
    "tiled": "a parameter of JAX's collectives", "unused": "a parameter of JAX's jit: keep_unused",
    "abandoned": "a truth value", "detached": "a truth value", "lent": "a truth value", "wanted": "truth values",
    "seen": "walks of graphs: what has been visited",
    "shared": "what several threads, or several users, share",
    "shifted": "numbers of axes behind a prefix; logits less their largest",
    "stored": "values of a loop that are stored, beside those that are made again",
    # These are nouns, or parts of names of StableHLO and IREE.
    "bound": "", "split": "", "spread": "", "cut": "", "pred": "", "ragged": "", "sorted": "",
}  # fmt: skip
IRREGULAR = {
    "bound", "broken", "built", "chosen", "cut", "done", "drawn", "driven", "felt", "found", "frozen", "given", "gone",
    "grown", "held", "hidden", "kept", "known", "laid", "left", "lent", "lost", "made", "met", "paid", "read", "said",
    "seen", "shown", "spent", "split", "spread", "taken", "thrown", "wound", "written",
}  # fmt: skip
NOUNS = {"bed", "feed", "need", "seed", "speed"}


def participles(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names of variables and parameters whose last word is a participle; `is_shared` says that it is a truth value."""
    fields = {id(n) for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for line in c.body for n in ast.iter_child_nodes(line)}
    for node in ast.walk(tree):
        if id(node) in fields:  # they may be public, and are read behind the name of what has them
            continue
        name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
        if not name or not name.islower() or (isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)):
            continue
        *before, word = name.strip("_").split("_")
        if "is" not in before and word not in NOUNS and (word.endswith("ed") or word in IRREGULAR):
            yield word, node.lineno


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_variables_are_named_by_nouns(path: Path) -> None:
    words = [f"{path.name}:{line}: {word}" for word, line in participles(ast.parse(path.read_text())) if word not in TERMS]
    assert not words, "name what it is; a term of the field, or a truth value, is listed with its reason"


def test_participles_are_found() -> None:
    code = "def f(given, seed, is_shared):\n    found, results_kept = given, seed\n    for moved in found: pass"
    assert sorted(word for word, _ in participles(ast.parse(code))) == ["found", "given", "kept", "moved"]


def test_every_term_is_used() -> None:
    used = {word for path in SOURCES for word, _ in participles(ast.parse(path.read_text()))}
    assert sorted(TERMS) == sorted(used & TERMS.keys())
