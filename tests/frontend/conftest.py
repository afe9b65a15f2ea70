"""Fixtures that several tests of the front end share."""

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


@pytest.fixture(scope="module")
def interpreted_in_f64() -> Iterator[None]:
    """The same for all tests of a file, with the defaults of 64 bits here and in JAX."""
    import jax

    before = nm.set_execution("interpret")
    with nm.enable_x64(), jax.enable_x64(True):
        yield
    nm.set_execution(before)
