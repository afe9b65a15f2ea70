"""Fixtures of the tests of code for GPUs."""

from __future__ import annotations

import shutil
import sys

import pytest

from gpu.driver.running import MockDriver


@pytest.fixture(scope="session")
def mock_driver(tmp_path_factory: pytest.TempPathFactory) -> MockDriver:
    """The mock driver, compiled once."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("the mock driver requires Linux and a C compiler")
    return MockDriver.compiled(tmp_path_factory.mktemp("mock-driver"), compiler)
