"""Damaged files are read as before or refused by name; some of each kind in every run, and what was found and mended."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from nabla_mlir.testing import damage


@pytest.mark.parametrize(("kind", "count"), [("text", 150), ("import", 60), ("zip", 150), ("npy", 150), ("vmfb", 20), ("manifest", 150)])
def test_damaged_files(kind: str, count: int) -> None:
    """A new seed in every run; it is in what a failure says."""
    seed = int(np.random.default_rng().integers(2**30))
    fates = [(number, damage.read(kind, number)) for number in range(seed, seed + count)]
    assert [fate for fate in fates if "FAULT" in fate[1]] == []


def test_damaged_bytecode() -> None:
    """In a process of its own, since the reader of MLIR trusts lengths."""
    counts = damage.survey("bytecode", int(np.random.default_rng().integers(2**30)), 0.05)
    assert [fate for fate in counts if fate.startswith("FAULT")] == []


def test_a_crash_and_an_error_of_others_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setitem(damage.KINDS, "zip", fails)
    assert damage.read("zip", 0).startswith("FAULT KeyError damage.py")
    monkeypatch.setattr(damage.sys, "executable", "false")  # a process that ends at once
    counts = damage.survey("zip", 0, 0.0005)
    assert isinstance(counts, collections.Counter)
    assert set(counts) <= {"FAULT"}


def test_a_seed_is_a_damage() -> None:
    content = bytes(range(200))
    first, second = (damage.damaged(content, np.random.default_rng(3)) for _ in range(2))
    assert first == second != content
    assert damage.altered("a = b\nc = 4\n", np.random.default_rng(1)) == damage.altered("a = b\nc = 4\n", np.random.default_rng(1))
