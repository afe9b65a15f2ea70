"""What NABLA_MLIR_DEBUG shows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as jnp

X = np.ones((2, 3))


def lines(topics: str, monkeypatch: Any, capsys: Any) -> list[str]:
    monkeypatch.setenv("NABLA_MLIR_DEBUG", topics)
    run_traced(nm.vmap(nm.hvp(lambda x: jnp.sin(x).sum())), [X, X])
    return capsys.readouterr().err.splitlines()


def test_nothing_is_shown_unless_asked_for(monkeypatch: Any, capsys: Any) -> None:
    assert lines("", monkeypatch, capsys) == []


def test_maps(monkeypatch: Any, capsys: Any) -> None:
    (line,) = lines("batch", monkeypatch, capsys)
    assert line.startswith("[nabla batch] vmap over i = 2 of ")
    assert "operands (tensor<2x3xf64>, tensor<2x3xf64>) carry it at [0, 0]" in line
    assert re.search(r"\(\S+\.py:\d+\)$", line)  # the user's place


def test_derivatives(monkeypatch: Any, capsys: Any) -> None:
    inner, outer = lines("ad", monkeypatch, capsys)
    assert inner.startswith("[nabla ad] vjp of ")
    assert outer.startswith("[nabla ad] jvp of ")
    assert "at (tensor<3xf64>), wrt [0], of [0]" in inner


@pytest.mark.parametrize(
    "wanted",
    [
        "vjp stablehlo.sine (tensor<3xf64>*), * is active",
        "jvp stablehlo.cosine (tensor<3xf64>*), * has a tangent",
        "vmap stablehlo.multiply (tensor<3xf64>*, tensor<3xf64>*), * carries the axis",
    ],
)
def test_operations(wanted: str, monkeypatch: Any, capsys: Any) -> None:
    found = lines("ops,batch", monkeypatch, capsys)
    assert any(wanted in line for line in found), found
