"""Artifacts of releases, as they were written: later ones load them, or refuse them with the version to use.

`python tests/deploy/test_released.py NAME` writes those of the release that it runs with, to tests/deploy/released/NAME-*.zip;
what lies there is never written again.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DeployError
from nabla_mlir.runtime.module import VERSION, _numbers
from nabla_mlir.runtime.storage import Artifact

FOLDER = Path(__file__).parent / "released"
ARCHIVES = sorted(FOLDER.glob("*.zip"))


def loss(w: Any, rows: Any) -> Any:
    """A function of a pytree, an array and a scalar."""
    return nnp.sum(nnp.tanh(rows @ w["w"]) ** 2) * w["scale"]


def write(name: str) -> None:
    """The artifacts of this release: a function of a pytree with its gradient, and a prepared product with its state."""
    spec = {"w": nm.spec(3), "scale": nm.spec()}
    traced = nm.module(value=nm.trace(loss, spec, nm.spec((2, 3))), slopes=nm.trace(nm.grad(loss), spec, nm.spec((2, 3))))
    traced.lower().compile(nm.CPU("generic", triple="x86_64-unknown-linux-gnu")).save(FOLDER / f"{name}-plain.zip")
    cubes = nm.hvp_module(lambda x: nnp.sum(x**3), nm.spec(3), entry_points=("update", "apply"))
    cubes.compile(nm.CPU("generic", triple="x86_64-unknown-linux-gnu")).save(FOLDER / f"{name}-hvp.zip")


W, ROWS = np.array([0.5, -1.0, 2.0], np.float32), np.arange(6, dtype=np.float32).reshape(2, 3) / 4


def check_plain(module: Any) -> None:
    arguments = {"w": W, "scale": np.float32(3.0)}, ROWS
    t = np.tanh(ROWS @ W)
    np.testing.assert_allclose(module.value(*arguments), 3 * (t**2).sum(), rtol=1e-6)
    slopes = module.slopes(*arguments)
    np.testing.assert_allclose(slopes["w"], 3 * (2 * t * (1 - t**2)) @ ROWS, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slopes["scale"], (t**2).sum(), rtol=1e-6)


def check_hvp(module: Any) -> None:
    module.update(W)
    np.testing.assert_allclose(module.apply(ROWS[0]), 6 * W * ROWS[0], rtol=1e-6)


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.stem)
def test_artifacts_of_releases_load_or_name_the_version_to_use(path: Path) -> None:
    check = {"plain": check_plain, "hvp": check_hvp}[path.stem.rpartition("-")[2]]
    first, last = Artifact(path).manifest.iree_range  # the manifest of each release is read
    if not _numbers(first) <= _numbers(VERSION) < _numbers(last):
        with pytest.raises(DeployError, match=re.escape(f'pip install "iree-base-runtime>={first},<{last}"')):
            nm.load(path)
        return
    check(nm.load(path))


@pytest.mark.parametrize("path", [path for path in ARCHIVES if path.stem.endswith("plain")], ids=lambda path: path.stem)
def test_stablehlo_of_releases_is_read(path: Path) -> None:
    lowered = nm.from_stablehlo(Artifact(path).stablehlo(), "value")
    t = np.tanh(ROWS @ W)
    assert len(lowered.inputs) == 3
    by_shape = {(): np.float32(3.0), (3,): W, (2, 3): ROWS}
    np.testing.assert_allclose(lowered(*(by_shape[shape] for shape, _ in lowered.inputs)), 3 * (t**2).sum(), rtol=1e-6)


def test_there_are_some_of_each_kind() -> None:
    assert {path.stem.rpartition("-")[2] for path in ARCHIVES} == {"plain", "hvp"}


if __name__ == "__main__":
    write(sys.argv[1])
