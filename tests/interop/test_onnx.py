"""Models of ONNX as functions: parameters, open lengths, control flow, models of scikit-learn and PyTorch, errors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.base.errors import DtypeError, ImportIRError, ShapeError, TraceError, TreeError

RNG = np.random.default_rng(0)


def test_without_onnx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportIRError, match=r"without it(.|\n)*nabla-mlir\[onnx\]"):
        nm.from_onnx(b"")


def _parsed(text: str, **initializers: np.ndarray) -> Any:
    """A model from onnx's text form, with initializers."""
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(x, name) for name, x in initializers.items())
    return model


W, B = RNG.normal(size=(3, 2)), RNG.normal(size=2)
LAYER = "layer (double[batch, 3] x) => (double[batch, 2] y) { h = MatMul(x, w) z = Add(h, b) y = Tanh(z) }"


def test_weights_are_parameters_and_open_lengths_those_of_a_call() -> None:
    f = nm.from_onnx(_parsed(LAYER, w=W, b=B), parameters=True)
    assert (f.inputs, f.outputs, sorted(f.parameters)) == (("x",), ("y",), ["b", "w"])
    for batch in (1, 4):
        x = RNG.normal(size=(batch, 3))
        y = np.tanh(x @ W + B)
        np.testing.assert_allclose(f(f.parameters, x), y, rtol=1e-12)
        gradient = nm.grad(lambda p, x: f(p, x).sum())(f.parameters, x)
        np.testing.assert_allclose(gradient["w"], x.T @ (1 - y**2), rtol=1e-12)
        np.testing.assert_allclose(gradient["b"], (1 - y**2).sum(0), rtol=1e-12)
    product = nm.hvp(lambda x: f(f.parameters, x).sum())(x, x)
    np.testing.assert_allclose(product, (-2 * y * (1 - y**2) * (x @ W)) @ W.T, rtol=1e-11)
    np.testing.assert_allclose(nm.vmap(lambda row: f(f.parameters, row[None])[0])(x), y, rtol=1e-12)


def test_files_bytes_and_external_data(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    model, x = _parsed(LAYER, w=W, b=B), RNG.normal(size=(2, 3))
    onnx.save(model, tmp_path / "apart.onnx", save_as_external_data=True, size_threshold=0)
    onnx.save(_parsed(LAYER, w=W, b=B), tmp_path / "one.onnx")
    for source in (tmp_path / "apart.onnx", str(tmp_path / "one.onnx"), (tmp_path / "one.onnx").read_bytes()):
        np.testing.assert_allclose(nm.from_onnx(source)(x), np.tanh(x @ W + B), rtol=1e-12)
    with pytest.raises(ImportIRError, match=r"data within the model, got .* in a separate file"):
        nm.from_onnx((tmp_path / "apart.onnx").read_bytes())


def test_loops_that_depend_on_numbers_are_loops() -> None:
    """Newton's square root: the turns are counted by a condition, and the derivative runs through them."""
    model = _parsed("""root (double x) => (double y) {
      start = Constant<value: tensor = double {1.0}>()  yes = Constant<value: tensor = bool {1}>()
      half = Constant<value: tensor = double {0.5}>()  small = Constant<value: tensor = double {1e-12}>()
      y = Loop(, yes, start) <body = turn (int64 i, bool c, double r) => (bool go, double next) {
        q = Div(x, r)  s = Add(q, r)  next = Mul(s, half)  d = Sub(next, r)  a = Abs(d)  go = Greater(a, small) }> }""")
    f = nm.from_onnx(model)
    np.testing.assert_allclose(f(np.array(3.0)), np.sqrt(3), rtol=1e-12)
    np.testing.assert_allclose(nm.grad(f)(np.array(3.0)), 0.5 / np.sqrt(3), rtol=1e-9)


def test_branches_that_depend_on_numbers_are_branches() -> None:
    model = _parsed("""g (double[3] x) => (double[3] y) {
      s = ReduceSum<keepdims = 0>(x)  zero = Constant<value: tensor = double {0.0}>()  c = Greater(s, zero)
      y = If(c) <then_branch = a () => (double[3] p) { p = Sin(x) }, else_branch = b () => (double[3] q) { q = Mul(x, x) }> }""")
    slope = nm.grad(lambda x: nm.from_onnx(model)(x).sum())
    x = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(slope(x), np.cos(x), rtol=1e-12)
    np.testing.assert_allclose(slope(-x), -2 * x, rtol=1e-12)


def test_counted_loops_of_many_turns_stay_loops() -> None:
    model = _parsed("""power (double x) => (double y, double[n] row) {
      n = Constant<value: tensor = int64 {40}>()  yes = Constant<value: tensor = bool {1}>()
      start = Constant<value: tensor = double {1.0}>()
      y, row = Loop(n, yes, start) <body = turn (int64 i, bool c, double r) => (bool go, double next, double out) {
        go = Identity(c)  next = Mul(r, x)  out = Identity(next) }> }""")
    f = nm.from_onnx(model)
    text = str(nm.trace(f, nm.spec((), "f64")))
    assert "stablehlo.while" in text
    assert text.count("stablehlo.multiply") < 5
    np.testing.assert_allclose(f(np.array(1.1))[1], 1.1 ** np.arange(1, 41), rtol=1e-12)
    np.testing.assert_allclose(nm.grad(lambda x: f(x)[0])(np.array(1.1)), 40 * 1.1**39, rtol=1e-12)


# ---------------------------------------------------------------- models of scikit-learn


def _learned() -> dict[str, Any]:
    pytest.importorskip("skl2onnx")
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    return {
        "ridge": make_pipeline(StandardScaler(), Ridge()),
        "logistic": LogisticRegression(),
        "svr": SVR(),
        "mlp": MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", max_iter=50, random_state=0),
        "mlp_classifier": MLPClassifier((8,), activation="logistic", max_iter=50, random_state=0),
        "gaussian_process": GaussianProcessRegressor(RBF(2.0), alpha=1e-2, optimizer=None),
        "forest": RandomForestRegressor(5, max_depth=4, random_state=0),
    }


@pytest.mark.parametrize("name", ["ridge", "logistic", "svr", "mlp", "mlp_classifier", "gaussian_process", "forest"])
@pytest.mark.filterwarnings("ignore")
def test_models_of_scikit_learn(name: str) -> None:
    """Values as its own; gradients by inputs as differences of its own."""
    estimator = _learned()[name]
    from skl2onnx import to_onnx

    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, 4))
    target = rows[:, 0] * np.sin(rows[:, 1]) + rows[:, 2]
    is_classifier = "logistic" in name or "classifier" in name
    estimator.fit(rows, (target > 0).astype(int) if is_classifier else target)
    options = {"zipmap": False} if is_classifier else None
    f = nm.from_onnx(to_onnx(estimator, rows[:1], options=options and {id(estimator): options}, target_opset=18))
    predict = lambda x: estimator.predict_proba(x) if is_classifier else estimator.predict(x).reshape(-1, 1)  # noqa: E731
    results = lambda x: f(x)[1] if is_classifier else f(x)  # noqa: E731
    x = rng.normal(size=(5, 4))
    np.testing.assert_allclose(results(x), predict(x), rtol=2e-4, atol=2e-5)
    gradient = np.asarray(nm.grad(lambda x: results(x)[:, -1].sum())(x))
    v, step = rng.normal(size=x.shape), 1e-5
    wanted = (predict(x + step * v)[:, -1] - predict(x - step * v)[:, -1]) / (2 * step)
    np.testing.assert_allclose((gradient * v).sum(1), wanted, rtol=2e-3, atol=2e-4)


# ---------------------------------------------------------------- models of PyTorch


def _exported() -> dict[str, tuple[Any, Any]]:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    nn = torch.nn

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.cell(x)[0]

    return {
        "convolutions": (
            nn.Sequential(
                nn.Conv2d(1, 3, 3, padding=1),
                nn.BatchNorm2d(3),
                nn.GELU(),
                nn.AvgPool2d(2),
                nn.ConvTranspose2d(3, 2, 2),
                nn.Flatten(),
                nn.Linear(50, 3),
                nn.LogSoftmax(-1),
            ),
            (2, 1, 8, 8),
        ),
        "attention": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu"), (2, 4, 8)),
        "lstm": (Recurrent(), (2, 5, 3)),
    }


@pytest.mark.parametrize("name", ["convolutions", "attention", "lstm"])
@pytest.mark.filterwarnings("ignore")
def test_models_that_torch_exports(name: str, tmp_path: Path) -> None:
    """Gradients by every weight and the input, and an HVP, as PyTorch's, for a batch of another length than the one exported."""
    module, shape = _exported()[name]
    import torch

    module, rtol = module.double().eval(), 1e-5 if name == "attention" else 1e-8
    atol = (
        1e-6 if name == "attention" else 0
    )  # ONNX normalizes layers in 32 bits: numbers of size 1 have an error of 1e-7, small ones too
    batch = torch.export.Dim("batch", min=2)
    torch.onnx.export(
        module,
        (torch.ones(shape, dtype=torch.float64),),
        tmp_path / "model.onnx",
        dynamo=True,
        optimize=False,
        verbose=False,
        dynamic_shapes=({0: batch},),
        opset_version=20,
    )
    f = nm.from_onnx(tmp_path / "model.onnx", parameters=True)
    x = torch.tensor(RNG.normal(size=(3, *shape[1:])), requires_grad=True)
    np.testing.assert_allclose(f(f.parameters, x.detach().numpy()), module(x).detach().numpy(), rtol=rtol, atol=atol)

    loss = lambda x: (module(x) ** 3).sum()  # noqa: E731
    v = torch.tensor(RNG.normal(size=x.shape))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the only one with second derivatives
        (slope,) = torch.autograd.grad(loss(x), x, create_graph=True)
        (product,) = torch.autograd.grad((slope * v).sum(), x)
    ours = lambda p, x: (f(p, x) ** 3).sum()  # noqa: E731
    weights, gradient = nm.grad(ours, (0, 1))(f.parameters, x.detach().numpy())
    np.testing.assert_allclose(gradient, slope.detach().numpy(), rtol=10 * rtol, atol=10 * rtol)
    hvp = nm.hvp(lambda x: ours(f.parameters, x))(x.detach().numpy(), v.numpy())
    np.testing.assert_allclose(hvp, product.numpy(), rtol=10 * rtol, atol=10 * rtol)
    named = dict(zip(dict(module.named_parameters()), torch.autograd.grad(loss(x), list(module.parameters())), strict=True))
    shared = [k for k in named if k in weights and weights[k].shape == tuple(named[k].shape)]
    assert shared or name == "lstm"
    for key in shared:
        np.testing.assert_allclose(weights[key], named[key].numpy(), rtol=10 * rtol, atol=10 * rtol, err_msg=key)


# ---------------------------------------------------------------- refusals


def test_unknown_operators_are_all_named_at_once() -> None:
    model = _parsed("f (double[2] x) => (double[2] y) { [first] h = StringNormalizer(x) y = NonMaxSuppression(h, x) }")
    with pytest.raises(
        ImportIRError, match=r"NonMaxSuppression \(node '', opset 21\), StringNormalizer \(node 'first', opset 21\)"
    ):
        nm.from_onnx(model)


def test_values_that_decide_shapes_are_asked_for_by_name() -> None:
    model = _parsed("f (double[6] x, int64[2] shape) => (double[a, b] y) { two = Identity(shape) y = Reshape(x, two) }")
    with pytest.raises(
        ImportIRError, match=r"Reshape \(node 'y', opset 21\) requires values that are known(.|\n)*constants=\{'shape': value\}"
    ):
        nm.from_onnx(model)(np.ones(6), np.array([2, 3]))
    assert nm.from_onnx(model, constants={"shape": [3, 2]})(np.ones(6)).shape == (3, 2)
    with pytest.raises(ImportIRError, match=r"constants that are inputs of the model, got 'other' among \['x', 'shape'\]"):
        nm.from_onnx(model, constants={"other": 1})


def test_arguments_that_do_not_fit() -> None:
    f = nm.from_onnx(
        _parsed("f (double[n, 3] x, double[n] y) => (double[n, 3] z) { u = Unsqueeze(y, one) z = Add(x, u) }", one=np.array([1])),
        parameters=True,
    )
    x = np.ones((2, 3))
    assert f({}, x, np.ones(2)).shape == (2, 3)
    with pytest.raises(ShapeError, match=r"'y' requires shape \(n\) where \{'n': 2\}, got \(3,\)"):
        f({}, x, np.ones(3))
    with pytest.raises(ShapeError, match=r"'x' requires shape \(n, 3\) where \{'n': 3\}, got \(3, 2\)"):
        f({}, np.ones((3, 2)), np.ones(3))
    with pytest.raises(DtypeError, match="'x' requires float64, got float32"):
        f({}, x.astype(np.float32), np.ones(2))
    with pytest.raises(TraceError, match=r"f requires 3 arguments, got 1(.|\n)*a dict of parameters, and x, y"):
        f({})
    g = nm.from_onnx(_parsed(LAYER, w=W, b=B), parameters=True)
    with pytest.raises(TreeError, match=r"a dict of its parameters \['b', 'w'\], got \['w'\]"):
        g({"w": W}, x)
    with pytest.raises(ShapeError, match=r"parameter 'b' requires float64 of shape \(2,\), got float64 of shape \(3,\)"):
        g({"w": W, "b": np.ones(3)}, x)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "f (double[2] x) => (double[2] y) { y = Gelu<other = 1>(x) }",
            r"Gelu \(node 'y', opset 21\) requires attributes that nabla_mlir supports, got other",
        ),
        (
            "f (double[2] x) => (double[2] y) { y = RandomNormalLike(x) }",
            "requires no random numbers, because ONNX does not define them",
        ),
        ("f (double[2] x) => (int4[2] y) { y = Cast<to = 22>(x) }", "requires a dtype of nabla_mlir, got INT4"),
        (
            "f (double[2] x, double[3] z) => (double[2] y) { y = Add(x, z) }",
            r"Add \(node 'y', opset 21\) cannot be computed: .*broadcast",
        ),
    ],
)
def test_refusals_name_the_node(text: str, message: str) -> None:
    f = nm.from_onnx(_parsed(text))
    with pytest.raises(ImportIRError, match=message):
        f(*(np.ones(n) for n in (2, 3)[: len(f.inputs)]))


def test_strings_and_files_that_are_no_models() -> None:
    with pytest.raises(ImportIRError, match=r"input 'x' requires numbers, got strings(.|\n)*constants=\{'x': value\}"):
        nm.from_onnx(_parsed("f (string[2] x) => (int64[1] y) { y = Shape(x) }"))
    with pytest.raises(ImportIRError, match=r"a model of ONNX, got bytes, which protobuf does not read"):
        nm.from_onnx(b"\xff\xff")
    with pytest.raises(ImportIRError, match="a file that can be read"):
        nm.from_onnx("missing.onnx")
