"""Modules of PyTorch: values and gradients as PyTorch's own. Needs `pip install torch torch-mlir`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.errors import ImportIRError

RNG = np.random.default_rng(0)


def test_without_torch_mlir_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_mlir", None)
    with pytest.raises(ImportIRError, match=r"without them(.|\n)*nabla-mlir\[torch\]"):
        nm.from_torch(object(), nm.spec((3,)))


def _modules() -> dict[str, tuple[Any, tuple[int, ...]]]:
    nn = pytest.importorskip("torch").nn
    pytest.importorskip("torch_mlir")
    return {
        "mlp": (nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 2)), (3, 6)),
        "convolutions": (nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 2, 2),
                                       nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()), (2, 1, 6, 6)),
        "attention": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 4, 8)),
        "batch_norm": (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Softmax(-1)), (5, 4)),
        "gru_cell": (nn.GRUCell(3, 4), (2, 3)),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "convolutions", "attention", "batch_norm", "gru_cell"])
def test_gradients_as_in_torch(name: str) -> None:
    module, shape = _modules()[name]
    import torch

    module.eval()
    x = RNG.normal(size=shape).astype(np.float32)
    f = nm.from_torch(module, nm.spec(shape, "f32"), parameters=True)
    weights = {k: v.detach().numpy() for k, v in module.named_parameters()}
    loss = lambda w, x: (f(w, x) ** 2).sum()  # noqa: E731
    value, grads = nm.jit(nm.value_and_grad(loss, (0, 1)))(weights, x)
    given = torch.tensor(x, requires_grad=True)
    wanted = (module(given) ** 2).sum()
    wanted.backward()
    np.testing.assert_allclose(value, wanted.item(), rtol=1e-4)
    np.testing.assert_allclose(grads[1], given.grad.numpy(), rtol=1e-3, atol=1e-5)
    for key, parameter in module.named_parameters():
        np.testing.assert_allclose(grads[0][key], parameter.grad.numpy(), rtol=1e-3, atol=1e-4, err_msg=key)


@pytest.mark.slow
def test_parameters_as_constants() -> None:
    module, shape = _modules()["mlp"]
    import torch

    x = RNG.normal(size=shape).astype(np.float32)
    f = nm.from_torch(module.eval(), nm.spec(shape, "f32"))
    np.testing.assert_allclose(nm.jit(f)(x), module(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-6)
