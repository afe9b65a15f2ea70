"""For all tests: each sees the same random numbers, whichever ran before it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

_first: dict[tuple[str, str], Any] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sets the generators of a module of tests back to where they stood when it had been read."""
    module = getattr(item, "module", None)
    for name, generator in vars(module).items() if module else ():
        if isinstance(generator, np.random.Generator):
            state = generator.bit_generator.state
            generator.bit_generator.state = copy.deepcopy(_first.setdefault((module.__name__, name), state))
