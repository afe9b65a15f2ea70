"""What several files of tests of the front end share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import nabla_mlir as nm


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Functions are interpreted, in `jit` too."""
    before = nm.set_execution("interpret")
    yield
    nm.set_execution(before)
