"""The forms and strategies in which a module is compiled: each states its reason, and the next one is tried if IREE refuses it."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling import lowering
from nabla_mlir.compiling.strategies import FORMS, STRATEGIES, WHOLE, Program
from nabla_mlir.targets import CPU

SIZE = 130


@pytest.mark.parametrize("table", [FORMS, STRATEGIES], ids=["forms", "strategies"])
def test_each_states_its_reason(table) -> None:
    assert len({entry.name for entry in table}) == len(table)
    assert all(entry.why.endswith(".") for entry in table)
    assert [entry.schedule for entry in table] == sorted((entry.schedule for entry in table), reverse=True)
    assert WHOLE in FORMS


def kind(program: Program) -> str:
    """The form of a program."""
    return "library" if program.library else "buffer" if program.after_streams else "whole"


@pytest.fixture(scope="module")
def network() -> nm.Lowered:
    """A product, sums and a factorisation; all of them have kernels."""

    def f(w, x):
        x = nnp.tanh(x @ w)
        return nnp.linalg.cholesky(x.T @ x + SIZE * nnp.eye(SIZE)), nnp.sum(x * x, axis=1)

    return nm.trace(f, *[nm.spec((SIZE, SIZE))] * 2, name="f").lower()


@pytest.mark.parametrize("refused", range(5))
def test_the_next_form_is_tried(
    refused: int, network: nm.Lowered, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first `refused` forms fail: the numbers stay right, or the error is that of the whole module."""
    monkeypatch.setattr(thresholds, "SEPARATE_KERNELS", 1)
    monkeypatch.setattr(thresholds, "PLACED_TRANSIENTS", 1)
    compile_program, tried = lowering.compile_program, list[Program]()

    def refusing(program: Program, *args, **kwargs) -> bytes:
        tried.append(program)
        if len(tried) <= refused:
            raise CompileError(f"compiling requires another form, got number {len(tried)}.")
        return compile_program(program, *args, **kwargs)

    monkeypatch.setattr(lowering, "compile_program", refusing)
    with caplog.at_level(logging.WARNING, "nabla_mlir.compile"):
        if refused == len(FORMS):
            with pytest.raises(CompileError, match=r"got number 3\."):
                network.compile(CPU(checking="off"), cache=False)
        elif refused == len(FORMS) - 1:
            with pytest.warns(RuntimeWarning, match=r"as nabla-schedule writes it; .* got number 3\."):
                compiled = network.compile(CPU(checking="off"), cache=False)
        else:
            compiled = network.compile(CPU(checking="off"), cache=False)
    assert [kind(program) for program in tried] == ["library", "buffer", "whole", "whole"][: refused + 1]
    assert len({program.text for program in tried}) == len(tried)
    for form in FORMS[: min(refused, 2)]:
        assert f"without {form.name}, which IREE refuses" in caplog.text
    if refused < len(FORMS):
        w, x = (np.random.default_rng(k).normal(size=(SIZE, SIZE)) / 10 for k in range(2))
        factor, sums = compiled(w.astype(np.float32), x.astype(np.float32))
        y = np.tanh(x @ w)
        np.testing.assert_allclose(sums, (y * y).sum(1), rtol=1e-5)
        np.testing.assert_allclose(factor, np.linalg.cholesky(y.T @ y + SIZE * np.eye(SIZE)), rtol=1e-5, atol=1e-5)
