"""The curvature of one network over the same batches, beside curvlinops. Needs torch and curvlinops-for-pytorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

torch: Any = pytest.importorskip("torch")
curvlinops: Any = pytest.importorskip("curvlinops")
ROWS, BATCH = 103, 20


@pytest.fixture(scope="module")
def network() -> tuple[Any, Any, Any]:
    """A module, its loss, and a loader with a short last batch."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()
    data = torch.utils.data.TensorDataset(torch.randn(ROWS, 4).double(), torch.randint(0, 3, (ROWS,)))
    return net, torch.nn.CrossEntropyLoss(), torch.utils.data.DataLoader(data, batch_size=BATCH)


def logits(params: list[Any], rows: Any, labels: Any) -> Any:
    return nnp.tanh(rows @ params[0].T + params[1]) @ params[2].T + params[3]


def cross_entropy(z: Any, rows: Any, labels: Any) -> Any:
    return nnp.mean(nm.nn.logsumexp(z, axis=-1) - nnp.take_along_axis(z, labels[:, None], axis=1)[:, 0])


def loss(params: list[Any], rows: Any, labels: Any) -> Any:
    return cross_entropy(logits(params, rows, labels), rows, labels)


def source(kind: str, params: list[np.ndarray]) -> Any:
    if kind == "Hessian":
        return loss
    shapes = [nm.spec(p.shape, "f64") for p in params], nm.spec((BATCH, 4), "f64"), nm.spec(BATCH, "i64")
    return nm.ggnvp_module(logits, cross_entropy, *shapes, entry_points="all")


@pytest.mark.parametrize("kind", ["Hessian", "GGN"])
def test_a_loader_gives_the_matrix_and_the_spectrum_of_curvlinops(kind: str, network: tuple[Any, Any, Any]) -> None:
    net, criterion, loader = network
    params = list(net.parameters())
    theirs = getattr(curvlinops, f"{kind}LinearOperator")(net, criterion, params, loader).to_scipy(dtype=np.float64)
    point = [p.detach().numpy() for p in params]
    ours = nm.SumOperator(source(kind, point), point, loader, reduction="mean", target=nm.Interpreter())
    eye = np.eye(ours.shape[0])
    matrix = theirs @ eye
    np.testing.assert_allclose(ours @ eye, matrix, rtol=0, atol=1e-14)
    values = np.linalg.eigvalsh(matrix)
    *_, spectrum = nm.stochastic_lanczos(ours, steps=30, probes=4)
    np.testing.assert_allclose(spectrum.nodes.max(axis=1), values[-1], rtol=1e-9)
    *_, estimate = nm.hutch_plus_plus(ours, 48)
    assert abs(estimate.value - values.sum()) < 4 * estimate.error
    assert abs(estimate.value / values.sum() - 1) < 0.1
