"""Buffers that IREE's code for loops gives away before it uses them: found when compiling, and compiled otherwise."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.compiling import compiler, lowering
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.errors import CompileError
from nabla_mlir.targets import CPU

N, BATCH, STEPS = 64, 16, 20
rng = np.random.default_rng(9)
W, H, XS = (rng.normal(size=s).astype(np.float32) / 8 for s in [(N, N), (BATCH, N), (STEPS, BATCH, N)])


def network(lib: Any, xp: Any, **options: Any) -> Any:
    """A recurrent network whose weights are computed: loops in the loops of its derivative capture them."""

    def loss(w: Any, h: Any, xs: Any) -> Any:
        weights = xp.sin(w) @ w
        h, _ = lib.scan(lambda h, x: (xp.tanh(h @ weights + x), None), h, xs, **options)
        return (h * h).mean()

    return loss


def gradient() -> Any:
    return nm.grad(network(nm, nnp, max_residual_bytes=8 * BATCH * N * 4), (0, 1, 2))


def test_iree_still_loses_a_buffer() -> None:
    """When it does not, nabla_mlir/compiling/references.py can go: https://github.com/iree-org/iree/issues/24753."""
    text = str(nm.trace(gradient(), *(nm.spec(x.shape, "f32") for x in (W, H, XS))).lower())
    with pytest.raises(CompileError, match=r"a fault of IREE in \d+ place\(s\): a loop would use a buffer"):
        compile_module(text, CPU(), flags=["--iree-hal-indirect-command-buffers=false"], cache=False)


def test_such_a_loop_runs() -> None:
    expected = jax.grad(network(jax.lax, jnp), (0, 1, 2))(W, H, XS)
    for a, b in zip(nm.jit(gradient())(W, H, XS), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-7)


LOOP = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %n = stablehlo.constant dense<1.0e+02> : tensor<f32>
  %r = stablehlo.while(%a = %x) : tensor<f32>
  cond {
    %p = stablehlo.compare LT, %a, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %b = stablehlo.add %a, %a : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }
  return %r : tensor<f32>
}"""


@pytest.mark.parametrize("times", [1, 99])
def test_other_flags_are_tried(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([["vm.call"]] * times)
    monkeypatch.setattr(compiler, "lost_buffers", lambda _: next(found, []))
    tried: list[list[str]] = []
    run = compiler.run_compiler
    monkeypatch.setattr(compiler, "run_compiler", lambda a, *r, **o: (tried.append(a), run(a, *r, **o))[1])
    if times == 1:
        assert lowering.compile_lowered(parse_module(LOOP), CPU(schedule=False), cache=False)
        assert "--iree-hal-force-indirect-command-buffers" in tried[-1]
        assert len(tried) == 2
        return
    with pytest.raises(CompileError, match=r"a buffer that it has given away"):
        lowering.compile_lowered(parse_module(LOOP), CPU(schedule=False), cache=False)
    assert len({tuple(t) for t in tried}) == 6
