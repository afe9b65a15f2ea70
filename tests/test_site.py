"""The site that `make docs` has built, in a browser: what a newcomer asks is two clicks away, and nothing is broken.

Runs in the stage of CI that builds it; needs Debian's chromium, and `pip install 'nabla-mlir[browser]'`.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from chromium import complaints

SITE = Path(__file__).resolve().parent.parent / "build" / "docs"
if not (SITE / "index.html").exists():
    pytest.skip("the site is not built: make docs", allow_module_level=True)
QUESTIONS = {
    "Hessian of my network": "HessianOperator",
    "recompile": "is compiled again: new shape",
    "error mean": "Instead of if use nm.numpy.where",
    "from C": "save_static_library",
    "fast": "make bench",
    "exact": "What is promised",
    "infinity and NaN": "A finite function has a finite derivative",
    "unsupported": "shapes that depend on values",
    "add an operation": "One record",
    "see the IR": "--mlir-print-ir-tree-dir",
    "my GPU": "nm.CUDA",
}


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.goto((SITE / "index.html").as_uri())
    yield page
    page.close()


def test_questions_are_answered_within_two_clicks(page):
    rows = page.locator("table tr").filter(has=page.locator("a")).count()
    assert rows == len(QUESTIONS) == 11
    for question, answer in QUESTIONS.items():
        page.goto((SITE / "index.html").as_uri())
        page.locator(f"tr:has-text('{question}') a").first.click()
        page.wait_for_load_state()
        assert answer in page.inner_text("article"), question


@pytest.mark.parametrize("width", [390, 1300])
@pytest.mark.parametrize("name", ["index", "learn/ten_minutes", "generated/gallery", "generated/passes", "compared"])
def test_pages_fit_the_screen(page, width, name):
    page.set_viewport_size({"width": width, "height": 900})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((SITE / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert errors == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1300, "light")])
def test_axe_has_nothing_to_say(browser, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = {}
    for path in sorted(SITE.glob("*.html")) + sorted(SITE.glob("learn/*.html")) + [SITE / "generated" / "gallery_newton.html"]:
        page.goto(path.as_uri())
        found[path.name] = complaints(page)
    page.close()
    assert {name: rules for name, rules in found.items() if rules} == {}


def test_every_link_within_the_site_leads_somewhere():
    broken = []
    anchors = {}
    pages = list(SITE.rglob("*.html"))
    for path in pages:
        anchors[path.resolve()] = set(re.findall(r'\bid="([^"]+)"', path.read_text()))
    for path in pages:
        for link in re.findall(r'href="([^"]+)"', path.read_text()):
            parts = urlsplit(link)
            if parts.scheme or link.startswith("#") or not parts.path.endswith(".html"):
                continue
            target = (path.parent / unquote(parts.path)).resolve()
            if target not in anchors or (parts.fragment and unquote(parts.fragment) not in anchors[target]):
                broken.append((path.relative_to(SITE).as_posix(), link))
    assert broken == []


def test_names_of_others_lead_to_their_pages_without_a_network():
    text = (SITE / "howto" / "linear_algebra.html").read_text()
    assert "https://docs.scipy.org/doc/scipy/reference/generated/scipy.sparse.linalg.LinearOperator.html#" in text
    assert (
        "https://numpy.org/doc/stable/reference/generated/numpy.asarray.html#numpy.asarray"
        in (SITE / "howto" / "arrays.html").read_text()
    )
    assert "https://docs.python.org/3/library/logging.html#module-logging" in (SITE / "howto" / "recompiling.html").read_text()
    for project in ("python", "numpy", "scipy", "jax"):  # what intersphinx reads lies beside the pages
        assert (
            (SITE.parent.parent / "docs" / "generated" / f"{project}.inv").read_bytes().startswith(b"# Sphinx inventory version 2")
        )


def test_every_program_of_the_gallery_has_a_picture():
    programs = sorted(path.stem for path in (SITE.parent.parent / "docs" / "gallery").glob("*.py"))
    assert len(programs) >= 9
    for name in programs:
        text = (SITE / "generated" / f"gallery_{name}.html").read_text()
        assert f"{name}.png" in text
        assert (SITE / "_images" / f"{name}.png").stat().st_size > 5000
