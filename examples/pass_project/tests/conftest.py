"""Every .mlir file is a test."""

from nabla_mlir.testing.plugin import pytest_collect_file as pytest_collect_file
