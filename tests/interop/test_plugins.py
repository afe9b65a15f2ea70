"""Plugins are found by entry points, also those of packages that nabla_mlir does not know."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import nabla_mlir as nm
from nabla_mlir.base.errors import DeployError
from nabla_mlir.base.plugins import GROUP, plugin, plugins

ROOT = Path(__file__).resolve().parents[2]


def test_those_of_this_package_are_installed() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    assert {name: plugins()[name].value for name in declared} == declared
    assert set(declared) <= set(dir(nm.interop))


def test_one_of_another_package(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("def answer():\n    return 42\n")
    about = tmp_path / "elsewhere-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\nfar = elsewhere\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import nabla_mlir as nm; print(nm.interop.far.answer(), 'far' in dir(nm.interop))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "42 True\n"


def test_one_that_is_not_installed() -> None:
    with pytest.raises(AttributeError, match=r"module 'nabla_mlir\.interop' has no attribute 'nope'"):
        nm.interop.nope  # noqa: B018
    with pytest.raises(
        DeployError, match="the plugin 'nope' requires an installed package with this entry point, got casadi, explorer"
    ):
        plugin("nope")
