"""The pages in docs/ say what is: their examples run, and their links lead somewhere."""

from __future__ import annotations

import doctest
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nabla_mlir.passes.base import PASSES

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if "generated" not in p.parts)
NOTEBOOKS = [p for p in PAGES if "file_format: mystnb" in p.read_text()]
_CELL = re.compile(r"^```\{code-cell\} python\n(?::tags: \[([\w, -]*)\]\n)?(.*?)^```$", re.M | re.S)


@pytest.fixture
def own_passes_go() -> Iterator[None]:
    yield
    for name in [name for name in PASSES if name.startswith("demo-")]:
        del PASSES[name]


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_cells_of_notebooks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_passes_go: None) -> None:
    """What they compute is asserted in them, some of it in cells that the site does not show."""
    monkeypatch.chdir(tmp_path)
    text, names = page.read_text(), {"__name__": "__main__"}
    cells = list(_CELL.finditer(text))
    assert len(cells) == text.count("```{code-cell}")
    assert sum(cell[2].count("assert ") for cell in cells) >= 1
    for cell in cells:
        if cell[1] == "plot" and importlib.util.find_spec("matplotlib") is None:
            continue  # nothing depends on a picture; the build of the site draws it in any case
        line = text.count("\n", 0, cell.start(2))
        exec(compile("\n" * line + cell[2], str(page), "exec"), names)


def test_the_pages_of_learn_are_notebooks() -> None:
    assert [p for p in PAGES if p.parent.name == "learn" and p.stem != "index"] == NOTEBOOKS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples(page: Path) -> None:
    code = "\n\n".join(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S))
    test = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_named_exists(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for link in re.findall(r"\]\((?!http)([^)#]+)", text):
        if "generated/" in link:  # made by docs/site_pages.py
            assert (ROOT / "docs" / "site_pages.py").exists()
            continue
        assert (page.parent / link).exists(), link
    for path in re.findall(r"`((?:nabla_mlir|passes|dialects|tests|bench|docs)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path


def test_every_environment_variable_is_on_its_page() -> None:
    sources = [path.read_text() for folder in ("nabla_mlir", "passes", "dialects") for path in (ROOT / folder).rglob("*.py")]
    names = {name for text in sources for name in re.findall(r"\bNABLA_MLIR_[A-Z_]*[A-Z]\b", text)}
    page = (ROOT / "docs" / "environment.md").read_text()
    assert names
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_messages_of_errors_are_read_with_their_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import error_pages

    found = error_pages.messages()
    assert ("explain requires a pattern of at most … entries, got ….", "explain a smaller problem of the same form.") in found[
        "PatternError"
    ]
    assert sum(map(len, found.values())) > 500
    assert error_pages.table([("f requires a|b, got …", "write `a`")]) == (
        "| message | what to do |\n|---|---|\n| f requires a\\|b, got … | write \\`a\\` |\n\n"
    )


def test_names_of_others_are_links_but_for_code_headings_and_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import inventories

    page = "# `jax.jit`\n\n`np.asarray` and `jnp.linalg.solve()`, [`jax.jit`](x.md), `mine`.\n\n```python\n`np.asarray`\n```\n"
    assert inventories.linked(page) == page.replace(
        "`np.asarray` and `jnp.linalg.solve()`",
        ("[`np.asarray`](inv:numpy:py:obj#numpy.asarray) and [`jnp.linalg.solve()`](inv:jax:py:obj#jax.numpy.linalg.solve)"),
    )
