"""For all tests: each sees the same random numbers, whichever ran before it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from chromium import launched

_first: dict[tuple[str, str], Any] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sets the generators of a module of tests back to where they stood when it had been read."""
    module = getattr(item, "module", None)
    for name, generator in vars(module).items() if module else ():
        if isinstance(generator, np.random.Generator):
            state = generator.bit_generator.state
            generator.bit_generator.state = copy.deepcopy(_first.setdefault((module.__name__, name), state))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium, for the tests of a module; they are skipped where it is missing."""
    with launched() as browser:
        yield browser
