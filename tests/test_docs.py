"""The pages in docs/ say what is: their examples run, and their links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if "generated" not in p.parts)


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
