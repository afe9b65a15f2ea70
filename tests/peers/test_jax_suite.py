"""JAX's own tests: the table in the documentation is that of the counts, and a sample passes if JAX's tests are there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import left_out
import run
import table


def test_the_page_has_the_counts() -> None:
    counts = json.loads((table.HERE / "counts.json").read_text())
    page = table.PAGE.read_text()
    assert table.written(page, counts) == page
    assert all(f"| {name} |" in page for files in counts.values() for name in files)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"status": "failed", "real": [], "message": "Not equal to tolerance", "line": "check(x)"}, None),
        ({"status": "failed", "real": ["add"], "message": "", "line": ""}, "the test utilities called the real JAX"),
        ({"status": "failed", "real": [], "message": '"abc" does not match "x"', "line": ""}, "the words of an error"),
        ({"status": "failed", "real": [], "message": "no attribute", "line": "x.sharding"}, "several devices"),
    ],
)
def test_reasons(result: dict[str, Any], why: str | None) -> None:
    found = left_out.reason(result)
    assert found is None if why is None else found is not None and found.startswith(why)
    expected = (0, 1, 0) if why is None else (0, 0, 1)
    got = run.counts([result])
    assert (got["passed"], got["failed"], got["left_out"]) == expected


@pytest.mark.slow
@pytest.mark.skipif("NABLA_JAX_TESTS" not in os.environ, reason="NABLA_JAX_TESTS names no folder with JAX's tests")
def test_a_sample_of_jaxs_tests_passes() -> None:
    results = run.run(Path(os.environ["NABLA_JAX_TESTS"]), "random_lax_test.py", cases=1, seconds=600)
    got = run.counts(results)
    assert got["passed"] > 50
    assert got["failed"] <= 0.2 * got["passed"]
