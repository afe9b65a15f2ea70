"""Posteriors of laplace-torch on our derivatives, beside those of its own backends. Needs torch, torch-mlir and laplace-torch."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.base.errors import ImportIRError

torch: Any = pytest.importorskip("torch")
laplace: Any = pytest.importorskip("laplace")
curvature: Any = pytest.importorskip("laplace.curvature")
pytest.importorskip("torch_mlir")

THEIRS = {"GGN": "CurvlinopsGGN", "EF": "CurvlinopsEF", "Hessian": "CurvlinopsHessian"}


@pytest.fixture(autouse=True)
def in_doubles() -> Iterator[None]:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def network(outputs: int) -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(2, 6), torch.nn.Tanh(), torch.nn.Linear(6, 4), torch.nn.GELU(), torch.nn.Linear(4, outputs)
    )


def images() -> Any:
    conv = torch.nn.Conv2d(2, 3, 3, stride=2, padding=1, padding_mode="circular")
    return torch.nn.Sequential(
        conv, torch.nn.BatchNorm2d(3, affine=False), torch.nn.SiLU(), torch.nn.Flatten(), torch.nn.Linear(12, 3)
    )


def loader(likelihood: str, outputs: int, rows: int = 11, shape: tuple[int, ...] = (2,)) -> Any:
    """Batches of five, and a short last one."""
    y = torch.randint(0, outputs, (rows,)) if likelihood == "classification" else torch.randn(rows, outputs)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(rows, *shape), y), batch_size=5)


def fit(
    backend: Any, model: Any, likelihood: str, data: Any, subset_of_weights: str = "all", prior: float = 0.7, **options: Any
) -> Any:
    posterior = laplace.Laplace(model, likelihood, subset_of_weights, backend=backend, prior_precision=prior, **options)
    posterior.fit(data)
    return posterior


def dense(matrix: Any) -> np.ndarray:
    return (matrix.to_matrix() if hasattr(matrix, "to_matrix") else matrix).detach().numpy()


def assert_equal(ours: Any, theirs: Any, x: Any, tolerance: float = 1e-10) -> None:
    """The curvature, the posterior, its evidence, and the predictions at x, with the slope of their variance."""
    for what in (lambda p: dense(p.posterior_precision), lambda p: float(p.log_marginal_likelihood()), lambda p: float(p.loss)):
        np.testing.assert_allclose(what(ours), what(theirs), rtol=tolerance, atol=tolerance)
    for mine, own in zip(ours._glm_predictive_distribution(x), theirs._glm_predictive_distribution(x), strict=True):
        np.testing.assert_allclose(mine.detach(), own.detach(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("likelihood", ["classification", "regression"])
@pytest.mark.parametrize("weights", ["all", "last_layer"])
@pytest.mark.parametrize(
    ("kind", "structure"),
    [("GGN", "full"), ("GGN", "diag"), ("GGN", "kron"), ("EF", "full"), ("EF", "diag"), ("EF", "kron"), ("Hessian", "full")],
)
def test_posterior_is_that_of_the_packages_own_backend(kind: str, structure: str, weights: str, likelihood: str) -> None:
    if (kind, structure, weights) == ("EF", "diag", "last_layer"):
        pytest.skip("CurvlinopsEF has none; compared with its full matrix below")
    model, data = network(3), loader(likelihood, 3)
    prior = 40.0 if kind == "Hessian" else 0.7  # the Hessian is indefinite
    options = {"hessian_structure": structure, "subset_of_weights": weights, "prior": prior}
    ours = fit(getattr(nm.interop.laplace, kind), copy.deepcopy(model), likelihood, data, **options)
    theirs = fit(getattr(curvature, THEIRS[kind]), copy.deepcopy(model), likelihood, data, **options)
    assert_equal(ours, theirs, torch.randn(4, 2))


@pytest.mark.parametrize("kind", ["GGN", "EF", "Hessian"])
def test_diagonal_is_that_of_the_full_matrix(kind: str) -> None:
    model, data = network(2), loader("classification", 2)
    for weights in ("all", "last_layer"):
        diagonal, full = (
            fit(
                getattr(nm.interop.laplace, kind),
                copy.deepcopy(model),
                "classification",
                data,
                hessian_structure=structure,
                subset_of_weights=weights,
            ).H
            for structure in ("diag", "full")
        )
        np.testing.assert_allclose(diagonal, full.diagonal(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("approximation", ["expand", "reduce"])
@pytest.mark.parametrize("kind", ["GGN", "EF"])
def test_kronecker_factors_of_convolutions_with_buffers(kind: str, approximation: str) -> None:
    model = images().eval()
    model[1].running_mean += 0.3
    ((x, y),) = [next(iter(loader("classification", 3, shape=(2, 4, 4))))]
    loss, ours = getattr(nm.interop.laplace, kind)(model, "classification").kron(x, y, N=11, kfac_approx=approximation)
    zeros = copy.deepcopy(model)
    zeros[0].padding_mode, zeros[0].padding = "zeros", (0, 0)  # curvlinops knows no circular one: it is done before
    whole = torch.nn.functional.pad(x, (1, 1, 1, 1), mode="circular")
    zeros[0]._reversed_padding_repeated_twice = [0, 0, 0, 0]
    own, theirs = getattr(curvature, THEIRS[kind])(zeros, "classification").kron(whole, y, N=11, kfac_approx=approximation)
    assert abs(loss - own) < 1e-12
    np.testing.assert_allclose(dense(ours), dense(theirs), rtol=1e-10, atol=1e-13)


@pytest.mark.slow
def test_hessian_of_convolutions_compiles() -> None:
    """In blocks: of all 512 parameters at once IREE 3.13 makes one vector, which it refuses."""
    conv = lambda channels, count: torch.nn.Conv2d(channels, count, 3, stride=2)  # noqa: E731
    model = torch.nn.Sequential(
        conv(1, 4), torch.nn.Tanh(), conv(4, 6), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(24, 10)
    ).float()
    x, y = torch.randn(50, 1, 12, 12).float(), torch.randint(0, 10, (50,))
    loss, ours = nm.interop.laplace.Hessian(model, "classification", target=nm.CPU()).full(x, y)
    torch.set_default_dtype(torch.float32)  # in which curvlinops makes its unit vectors
    own, theirs = curvature.CurvlinopsHessian(model, "classification").full(x, y)
    assert ours.shape == (512, 512)
    np.testing.assert_allclose(loss, own.detach(), rtol=1e-5)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["GGN", "EF"])
@pytest.mark.parametrize("structure", ["full", "diag"])
def test_subnetwork(kind: str, structure: str) -> None:
    model, data = network(2), loader("regression", 2)
    indices = torch.tensor([0, 3, 17, 20, 45])
    options = {"hessian_structure": structure, "subset_of_weights": "subnetwork", "subnetwork_indices": indices}
    ours = fit(getattr(nm.interop.laplace, kind), copy.deepcopy(model), "regression", data, **options)
    theirs = fit(getattr(curvature, THEIRS[kind]), copy.deepcopy(model), "regression", data, **options)
    assert_equal(ours, theirs, torch.randn(3, 2))


def test_frozen_parameters_are_held() -> None:
    model, data = network(2), loader("classification", 2)
    for p in model[0].parameters():
        p.requires_grad = False
    ours = fit(nm.interop.laplace.GGN, copy.deepcopy(model), "classification", data, hessian_structure="full")
    theirs = fit(curvature.CurvlinopsGGN, copy.deepcopy(model), "classification", data, hessian_structure="full")
    assert ours.H.shape == (38, 38)
    assert_equal(ours, theirs, torch.randn(3, 2))


def test_factors_are_those_of_the_free_parameters_of_a_layer() -> None:
    model = network(2)
    (x, y), *_ = loader("classification", 2)
    _, both = nm.interop.laplace.GGN(model, "classification").kron(x, y, N=11)
    for p in (model[0].bias, model[2].weight, *model[4].parameters()):
        p.requires_grad = False
    _, some = nm.interop.laplace.GGN(model, "classification").kron(x, y, N=11)
    (inner, *_), ours = [matrix.kfacs for matrix in (both, some)]
    assert [len(part) for part in ours] == [2, 1]
    np.testing.assert_allclose(ours[0][0], inner[0], rtol=1e-12)
    np.testing.assert_allclose(ours[1][0], both.kfacs[3][0], rtol=1e-12)


def test_backends_and_posteriors_are_saved() -> None:
    model, data = network(2), loader("classification", 2)
    posterior = fit(nm.interop.laplace.GGN, model, "classification", data, hessian_structure="diag")
    assert pickle.loads(pickle.dumps(nm.interop.laplace.GGN)) is nm.interop.laplace.GGN
    file = io.BytesIO()
    torch.save(posterior, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert_equal(again, posterior, torch.randn(3, 2))


def test_low_rank_is_the_upper_end_of_the_spectrum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laplace.baselaplace.find_spec", lambda name: name)  # it asks for what its own backend needs
    model, data = network(2), loader("regression", 2)
    options = {"hessian_structure": "lowrank", "backend_kwargs": {"low_rank": 6, "target": nm.Interpreter()}}
    low = fit(nm.interop.laplace.Hessian, copy.deepcopy(model), "regression", data, **options)
    full = fit(nm.interop.laplace.Hessian, copy.deepcopy(model), "regression", data, hessian_structure="full", prior=40.0)
    values = np.linalg.eigvalsh(full.H)
    largest = values[np.argsort(-abs(values))[:6]]
    np.testing.assert_allclose(np.sort(low.H[1]), np.sort(largest[largest > 0]), rtol=1e-8)
    np.testing.assert_allclose(full.H @ low.H[0], low.H[0] * low.H[1], atol=1e-8)
    assert abs(low.loss - full.loss) < 1e-10
    mean, variance = low(torch.randn(3, 2))
    assert mean.shape == (3, 2)
    assert (torch.linalg.eigvalsh(variance) > 0).all()


def test_variance_has_slopes_by_the_inputs() -> None:
    model, data = network(2), loader("regression", 2)

    def slope(backend: Any) -> Any:
        posterior = fit(backend, copy.deepcopy(model), "regression", data, hessian_structure="full", enable_backprop=True)
        x = torch.ones(3, 2, requires_grad=True)
        mean, variance = posterior(x)
        return torch.autograd.grad(mean.sum() + variance.sum(), x)[0]

    np.testing.assert_allclose(slope(nm.interop.laplace.GGN), slope(curvature.CurvlinopsGGN), rtol=1e-10)


def test_inducing_points_take_jacobians_of_chosen_outputs() -> None:
    model, x = network(3), torch.randn(4, 2)
    outputs = torch.tensor([[2, 0], [1, 1], [0, 2], [2, 2]])
    ours = nm.interop.laplace.GGN(model, "classification").selected_output_jacobians(x, outputs)
    theirs = curvature.CurvlinopsGGN(model, "classification").selected_output_jacobians(x, outputs)
    for mine, own in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), own.numpy(), rtol=1e-12, atol=1e-14)


class Reader(torch.nn.Module):
    """Takes a dict of token numbers and masks, as models of Hugging Face do."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 2)

    def forward(self, data: Any) -> Any:
        weights = data["attention_mask"].to(self.table.weight.dtype)[..., None]
        return self.head(torch.tanh((self.table(data["input_ids"]) * weights).sum(1)))


def test_samples_may_be_dicts() -> None:
    model = Reader()
    data = {
        "input_ids": torch.randint(0, 9, (5, 3)),
        "attention_mask": torch.randint(0, 2, (5, 3)),
        "labels": torch.randint(0, 2, (5,)),
    }
    for ours, theirs in (("GGN", "CurvlinopsGGN"), ("Hessian", "CurvlinopsHessian")):
        mine = getattr(nm.interop.laplace, ours)(model, "classification").full(data, data["labels"])
        own = getattr(curvature, theirs)(model, "classification").full(data, data["labels"])
        np.testing.assert_allclose(mine[1].numpy(), own[1].numpy(), rtol=1e-12, atol=1e-14)


def test_training_in_between_needs_no_other_program() -> None:
    """The example of the package: weights and hyperparameters by the evidence, beside its own backend."""
    model, data = network(1), loader("regression", 1)

    def history(backend: Any) -> list[float]:
        *_, evidence, _ = laplace.marglik_training(
            copy.deepcopy(model),
            data,
            "regression",
            "full",
            backend=backend,
            n_epochs=6,
            n_epochs_burnin=2,
            n_hypersteps=5,
            marglik_frequency=2,
        )
        return evidence

    np.testing.assert_allclose(history(nm.interop.laplace.GGN), history(curvature.CurvlinopsGGN), rtol=1e-9)


def test_what_has_no_kronecker_factors_is_refused_by_name() -> None:
    x, y = torch.randn(3, 2), torch.randint(0, 2, (3,))
    with pytest.raises(ImportIRError, match="got the Hessian, which has no Kronecker factors"):
        nm.interop.laplace.Hessian(network(2), "classification").kron(x, y, N=3)
    normal = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2))
    with pytest.raises(ImportIRError, match=r"kron requires layers Linear and Conv2d .*, got LayerNorm.* under '1'"):
        nm.interop.laplace.GGN(normal, "classification").kron(x, y, N=3)
    shared = torch.nn.Linear(2, 2)
    with pytest.raises(ImportIRError, match="kron requires layers that are used once, got a second use of '0'"):
        nm.interop.laplace.GGN(torch.nn.Sequential(shared, torch.nn.Tanh(), shared), "classification").kron(x, y, N=3)
    with pytest.raises(ImportIRError, match="kron requires kfac_approx='expand' or 'reduce', got 'exact'"):
        nm.interop.laplace.GGN(network(2), "classification").kron(x, y, N=3, kfac_approx="exact")
