"""Thresholds: each is used, each has a unit, and what was measured can be measured again."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nabla_mlir.base import thresholds

ROOT = Path(__file__).resolve().parents[2]
TABLE = thresholds.table()


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        return importlib.import_module("measure")
    finally:
        sys.path.remove(str(ROOT / "bench"))


def test_each_is_used() -> None:
    sources = (path.read_text() for folder in ("nabla_mlir", "passes") for path in (ROOT / folder).rglob("*.py"))
    used = {name for text in sources for name in re.findall(r"\bthresholds\.(\w+)", text)}
    assert set(TABLE) <= used


def test_each_constant_has_an_origin() -> None:
    constants = {name for name in vars(thresholds) if name.isupper() and not name.startswith("MACHINE")}
    assert constants == set(TABLE)
    assert all(origin.unit for _, origin in TABLE.values())


def test_what_was_measured_can_be_measured_again(measure: ModuleType) -> None:
    assert set(measure.EXPERIMENTS) == {name for name, (_, how) in TABLE.items() if isinstance(how, thresholds.Measured)}


def test_a_measurement(measure: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of ways whose times are known: the new one takes 3 s, the old one a second for each 100 bytes."""
    times = {0: lambda size: 3.0, 801: lambda size: size / 100}
    monkeypatch.setattr(measure, "seconds_of", lambda call: times[thresholds.DIRECT_COPY](call))
    crossing = measure.Crossing([100, 200, 400], lambda size: size)
    assert crossing.run("DIRECT_COPY") == 400
    monkeypatch.setattr(measure, "EXPERIMENTS", {"DIRECT_COPY": crossing})
    assert measure.main(["DIRECT_COPY"]) == 0
    assert TABLE["DIRECT_COPY"][0] == thresholds.DIRECT_COPY
    assert re.search(r"DIRECT_COPY\W+1,048,576\W+400\W+bytes", capsys.readouterr().out)
    with pytest.raises(SystemExit):
        measure.main(["SPEED"])
