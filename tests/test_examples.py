"""The recipes compute what they say, each against dense linear algebra or another exact answer."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy.special import log_expit
from sklearn.linear_model import LogisticRegression

import nabla_mlir as nm

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
jax.config.update("jax_enable_x64", True)


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def test_every_recipe_is_here() -> None:
    text = Path(__file__).read_text() + (EXAMPLES.parent / "tests" / "interop" / "test_ecosystem.py").read_text()
    assert not [p.stem for p in EXAMPLES.glob("*.py") if f'"{p.stem}"' not in text]


@pytest.mark.parametrize("method", ["Newton-CG", "trust-krylov"])
def test_newton(recipe: Any, method: str) -> None:
    result, H = recipe("newton").solve(method)
    rows, signs = recipe("problems").logistic_data()
    margins = signs * (rows @ result.x)
    gradient = -rows.T @ (signs * np.exp(log_expit(-margins))) / len(rows) + 1e-2 * result.x
    assert np.linalg.norm(gradient) < 1e-5
    assert result.fun == pytest.approx(-np.mean(log_expit(margins)) + 0.5e-2 * result.x @ result.x)
    assert H.updates <= result.nfev + 1, "value, gradient and linearisation of a point are computed together"


def test_spectrum(recipe: Any) -> None:
    spectrum = recipe("spectrum")
    H = spectrum.operator()
    values = np.linalg.eigvalsh(H.to_dense())
    largest, smallest = spectrum.lanczos(H)
    np.testing.assert_allclose(largest, values[::-1][:3], rtol=1e-9)
    np.testing.assert_allclose(smallest, values[:3], rtol=1e-9)
    np.testing.assert_allclose(spectrum.blocked(H), values[::-1][:3], rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_eight_schools(recipe: Any) -> None:
    pytest.importorskip("pymc")
    posterior = recipe("eight_schools").sample(200, chains=2)
    assert float(posterior["mu"].mean()) == pytest.approx(4.4, abs=1.5)  # 4.4 by quadrature: tests/interop/test_samplers.py
    assert float(posterior["tau"].mean()) == pytest.approx(3.6, abs=1.5)


@pytest.mark.filterwarnings("ignore")
def test_onnx_surrogate(recipe: Any) -> None:
    pytest.importorskip("skl2onnx")
    example = recipe("onnx_surrogate")
    process, file = example.surrogate()
    found = example.minimum(file, np.array([3.0, 3.0]))
    np.testing.assert_allclose(found.fun, process.predict(found.x[None])[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.x, [np.pi, 2.275], atol=0.05)  # the minimum of the function that it was fitted to
    around = found.x + 1e-3 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    assert (process.predict(around) > process.predict(found.x[None])).all()


@pytest.mark.slow
def test_bundle_adjustment(recipe: Any) -> None:
    bundle = recipe("bundle_adjustment")
    data = bundle.scene(cameras=4, points=60)
    found, calls, _ = bundle.solve(data)
    differences, many, _ = bundle.solve(data, ours=False)
    assert found.success
    assert calls < many
    assert found.cost == pytest.approx(differences.cost, rel=1e-6)
    assert np.sqrt(np.mean(found.fun**2)) < 0.1, "pixels: the noise of what is seen"
    with jax.enable_x64(True):
        matrix = nm.sparse.jacobian(data.residuals)(found.x)
        assert matrix.pattern.nnz == 12 * data.seen.size
        numbers = np.asarray(nm.jacfwd(data.residuals)(found.x))
        np.testing.assert_allclose(matrix.to_dense(), numbers, rtol=1e-9, atol=1e-9 * np.abs(numbers).max())


def test_stochastic(recipe: Any) -> None:
    stochastic = recipe("stochastic")
    H = recipe("spectrum").operator(16)
    A = H @ H.to_dense()  # positive semidefinite: what Hutch++ is made for
    wrapped = sys.modules["scipy.sparse.linalg"].aslinearoperator(A)
    rng = np.random.default_rng(0)
    errors = {
        f: [abs(getattr(stochastic, f)(wrapped, 48, rng) / np.trace(A) - 1) for _ in range(30)]
        for f in ("hutchinson", "hutch_plus_plus")
    }
    assert np.mean(errors["hutchinson"]) < 0.15
    assert np.mean(errors["hutch_plus_plus"]) < 0.2 * np.mean(errors["hutchinson"])
    found, exact = stochastic.diagonal(H, 3200, rng), np.diag(H.to_dense())
    assert np.linalg.norm(found - exact) < 0.1 * np.linalg.norm(exact)


def test_laplace(recipe: Any) -> None:
    _, H = recipe("newton").solve("trust-krylov")
    rows = np.random.default_rng(1).normal(size=(4, H.shape[0]))
    want = np.diag(rows @ np.linalg.inv(H.to_dense()) @ rows.T) / 200
    np.testing.assert_allclose(recipe("laplace_approximation").predictive_variance(H, rows, 200), want, rtol=1e-8)


def test_saddle_free(recipe: Any) -> None:
    saddle_free = recipe("saddle_free")
    H = recipe("spectrum").operator()
    values, vectors = np.linalg.eigh(H.to_dense())
    want = -vectors @ ((vectors.T @ H.gradient) / (np.abs(values) + 1e-2))
    np.testing.assert_allclose(saddle_free.step(H, H.shape[0]), want, rtol=1e-6, atol=1e-9)
    assert values[0] < 0, "the start is near a saddle"
    losses = saddle_free.minimise(20)
    assert losses[-1] < 1e-2 * losses[0]


def test_hypergradient(recipe: Any) -> None:
    module = recipe("hypergradient")
    value, slope = module.hypergradient(1e-2)
    step = 1e-4
    above, below = (module.hypergradient(1e-2 + s)[0] for s in (step, -step))
    assert slope == pytest.approx((above - below) / (2 * step), rel=1e-4)
    assert below != value != above


@pytest.mark.parametrize("name", ["jax", "torch"])
def test_interop(recipe: Any, name: str) -> None:
    framework = pytest.importorskip(name)
    interop = recipe("interop")
    H = interop.prepared()
    out = getattr(interop, f"through_{name}")(H)
    kind = framework.Array if name == "jax" else framework.Tensor
    assert all(isinstance(x, kind) for x in out.values())
    flat = np.concatenate([np.ravel(np.asarray(x)) for _, x in sorted(out.items())])
    np.testing.assert_allclose(flat, H.to_dense() @ np.ones(H.shape[0]), rtol=1e-9)


def test_the_problems_are_what_they_say(recipe: Any) -> None:
    problems = recipe("problems")
    rows, signs = problems.logistic_data()
    w = np.linspace(-1, 1, rows.shape[1])
    loss = nm.jit(problems.logistic_loss)(w, rows, signs, np.float64(0.1))
    assert float(loss) == pytest.approx(-np.mean(log_expit(signs * (rows @ w))) + 0.05 * w @ w)


def test_out_of_core(recipe: Any, tmp_path: Path) -> None:
    example = recipe("out_of_core")
    data, signs = example.generate(tmp_path, 3001, 6)
    result, H = example.solve(data, signs, size=512, max_residual_bytes=40_000)
    assert 0 < H.stored_batches < 6, "some residuals fit, and others are made again"
    seconds, slopes = zip(*result.path, strict=True)
    assert list(seconds) == sorted(seconds)
    assert slopes[-1] == pytest.approx(np.linalg.norm(result.jac), rel=1e-3)
    model = LogisticRegression(C=1 / (example.L2 * len(data)), fit_intercept=False, tol=1e-8).fit(data.astype(float), signs)
    np.testing.assert_allclose(result.x, model.coef_[0], rtol=2e-3, atol=1e-3)
    assert H.rows == 3001


def test_distributed_spectrum(recipe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    example = recipe("distributed_spectrum")
    parts = example.shards(3, 40)
    H = example.operator(parts, target=nm.Interpreter())
    values = np.linalg.eigvalsh(H.to_dense())
    result, _ = example.timed_spectrum("here", H)
    np.testing.assert_allclose([result.nodes.min(), result.nodes.max()], values[[0, -1]], rtol=1e-6)
    assert abs(result.trace(lambda x: x).value - values.sum()) < 4 * result.trace(lambda x: x).error
    rows, targets = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    whole = nm.HessianOperator(recipe("problems").network_loss, recipe("problems").network_data()[0], rows, targets)
    np.testing.assert_allclose(np.linalg.eigvalsh(whole.to_dense()), values, rtol=1e-9, atol=1e-12)
    lines = capsys.readouterr().out
    assert "MB held" in lines
    assert "largest" in lines


def test_a_run_says_what_it_held(recipe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ones = np.ones(1 << 22)
    held, most = recipe("processes").memory()
    assert ones.nbytes < held <= most
    assert recipe("processes").report("adding", lambda: ones.sum())[0] == 1 << 22
    assert re.fullmatch(r"adding: \d+\.\d\d s, \d+ MB held; \d+ MB at most, with pages of files\n", capsys.readouterr().out)
