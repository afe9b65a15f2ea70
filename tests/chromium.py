"""Debian's chromium, driven by Playwright, for tests of pages; they are skipped where either is missing."""

from __future__ import annotations

import contextlib
import shutil

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextlib.contextmanager
def launched():
    """A browser."""
    sync_api, path = pytest.importorskip("playwright.sync_api"), shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def complaints(page):
    """The faults that axe-core finds on a page: the rule, and the elements that break it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [(rule["id"], [node["target"] for node in rule["nodes"]][:3]) for rule in found]
