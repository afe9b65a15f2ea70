"""A target is added by one class and its registration: it compiles, runs, is saved, loaded, refused and listed as others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import DeployError
from nabla_mlir.passes.iree.pipeline import IreePipeline
from nabla_mlir.targets import TARGETS, Target, available, target
from nabla_mlir.tools.main import main
from nabla_mlir.tools.requests import parse_target

X = np.linspace(-1, 2, 6, dtype=np.float32)


@dataclass(frozen=True)
class Interpreter(Target):
    """IREE's own interpreter of kernels, about whose code generator nothing is stated."""

    speed: str = "slow"

    name: ClassVar[str] = "vmvx"
    drivers: ClassVar[tuple[str, ...]] = ("local-sync",)
    labelled: ClassVar[tuple[str, ...]] = ("speed",)

    @classmethod
    def found(cls) -> Sequence[str]:
        return ["an interpreter"]

    @classmethod
    def check_fit(cls, data: Mapping[str, Any]) -> None:
        if data["speed"] == "fast":
            raise DeployError("the artifact requires a fast interpreter, got none.")

    def _device_flags(self) -> list[str]:
        return ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=vmvx"]


@pytest.fixture(scope="module", autouse=True)
def added() -> Iterator[None]:
    TARGETS[Interpreter.name] = Interpreter
    yield
    del TARGETS[Interpreter.name]


def loss(x: Any) -> Any:
    """A program with operations that IREE computes wrongly, or refuses, for some target: functions, sorts, sums, remainders, reversed products."""
    y = nnp.tanh(x) * nnp.exp(-x) + nnp.log1p(x * x) + nnp.remainder(x, 0.7)
    return (nnp.sort(y) * nnp.arange(6.0, dtype="f4")).sum() + (y[::-1] @ nnp.outer(y, x)).sum()


def test_it_compiles_and_runs() -> None:
    both = nm.trace(nm.value_and_grad(loss), nm.spec(6), name="both").lower()
    for found, wanted in zip(both.compile("vmvx")(X), both.compile("cpu")(X), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5)


def test_it_is_saved_and_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lowered = nm.trace(lambda x: x * 2, nm.spec(6), name="twice").lower()
    path = lowered.compile([Interpreter("fast"), Interpreter()]).save(tmp_path / "twice.zip")
    module = nm.load(path)
    assert module.code.label == "vmvx-slow"
    assert module.driver == "local-sync"
    np.testing.assert_array_equal(module.twice(X), 2 * X)
    with pytest.raises(DeployError, match="requires a fast interpreter, got none"):
        nm.load(path, target="vmvx-fast")
    assert main(["info", str(path)]) == 0
    assert "vmvx-fast" in capsys.readouterr().out


def test_it_is_named_as_others() -> None:
    assert target("vmvx") == parse_target("vmvx:slow") == Interpreter()
    assert Target.from_json(json.loads(json.dumps(Interpreter("fast").to_json()))) == Interpreter("fast")
    assert str(available()[-1]).split() == ["vmvx", "yes", "an", "interpreter"]


def test_nothing_is_taken_for_right_that_it_does_not_say() -> None:
    names = [getattr(p, "name", p) for p in IreePipeline(target="vmvx").passes()]
    assert {"nabla-forget-unique-indices", "nabla-hold-loop-results", "nabla-keep-sorted"} <= set(names)
