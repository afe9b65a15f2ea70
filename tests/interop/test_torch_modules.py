"""The modules of torch.nn and small architectures: value, gradient and HVP by weights and inputs are those of torch.func, in f64."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

from torch_architectures import ARCHITECTURES
from torch_modules import MODULES, OTHERS

import nabla_mlir as nm

PAGE = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text()
# PyTorch has no second derivatives of these, which are compared with differences.
ONCE = {
    "CTCLoss",
    "CrossMapLRN2d",
    "EmbeddingBag",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "Hardsigmoid",
    "MultiLabelMarginLoss",
    "MultiMarginLoss",
}
# PyTorch's gradients of these are not those of its values: the backward pass takes the first channel out of windows that hold it.
WRONG = {"CrossMapLRN2d"}


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    before = nm.set_execution("interpret")
    yield
    nm.set_execution(before)


def _floats(y: Any) -> list[Any]:
    return [a for a in optree.tree_leaves(y) if isinstance(a, torch.Tensor) and a.is_floating_point()]


def _compare(name: str, module: Any, inputs: tuple[Any, ...], rtol: float = 1e-8) -> None:
    """By all parameters, and by the floats among the inputs."""
    leaves, tree = optree.tree_flatten(inputs)
    is_target = name in ("SoftMarginLoss", "MultiLabelSoftMarginLoss")  # whose last input PyTorch holds constant
    wrt = [i for i, a in enumerate(leaves) if a.is_floating_point() and not (is_target and i)]
    specs = [nm.spec(tuple(a.shape), str(a.dtype).removeprefix("torch.")) for a in leaves]
    f = nm.from_torch(module, *optree.tree_unflatten(tree, specs), parameters=True)

    leaves = [a.clone().requires_grad_() if i in wrt else a for i, a in enumerate(leaves)]
    variables = [*module.parameters(), *(leaves[i] for i in wrt)]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the only one with second derivatives
        results = _floats(module(*optree.tree_unflatten(tree, leaves)))
        factors = [torch.randn_like(y) for y in results]
        loss = sum(((y * y * 0.5 + y) * c).sum() for y, c in zip(results, factors, strict=True))
        slopes = torch.autograd.grad(loss, variables, create_graph=name not in ONCE, allow_unused=True) if variables else []
        slopes = [torch.zeros_like(v) if s is None else s for s, v in zip(slopes, variables, strict=True)]
        directions = [torch.randn_like(v) for v in variables]
        along = sum((s * d).sum() for s, d in zip(slopes, directions, strict=True))
        products = [None] * len(variables)
        if variables and along.requires_grad:
            products = torch.autograd.grad(along, variables, allow_unused=True)
        products = [torch.zeros_like(v) if p is None else p for p, v in zip(products, variables, strict=True)]

    weights = {k: v.detach().numpy() for k, v in module.named_parameters()}
    point = [a.detach().numpy() for a in leaves]
    scales = [c.numpy() for c in factors]

    def outputs(weights: Any, active: Any) -> list[Any]:
        values = list(point)
        for i, x in zip(wrt, active, strict=True):
            values[i] = x
        y = f(weights, *optree.tree_unflatten(tree, values))
        return [y for y in (y if isinstance(y, tuple) else (y,)) if y.dtype.kind == "f"]

    def ours(weights: Any, active: Any) -> Any:
        return sum(((y * y * 0.5 + y) * c).sum() for y, c in zip(outputs(weights, active), scales, strict=True))

    active = [point[i] for i in wrt]
    for got, wanted in zip(outputs(weights, active), results, strict=True):
        np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=rtol, atol=rtol, err_msg="value")
    if not variables:
        return
    vectors = [d.numpy() for d in directions]
    tangents = dict(zip(weights, vectors, strict=False)), vectors[len(weights) :]
    slope = nm.grad(ours, (0, 1))
    gradient, product = nm.jvp(slope, (weights, active), tangents)
    if name in ONCE:
        ahead, behind = (optree.tree_map(lambda x, d, h=h: x + h * d, (weights, active), tangents) for h in (1e-6, -1e-6))
        difference = optree.tree_map(lambda a, b: (a - b) / 2e-6, slope(*ahead), slope(*behind))
        for got, wanted in zip(optree.tree_leaves(product), optree.tree_leaves(difference), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6, err_msg="product")
    if name in WRONG:
        h, x = 1e-6, list(map(torch.tensor, active))
        values = [(((y := module(x[0] + s * directions[0])) ** 2 * 0.5 + y) * factors[0]).sum().item() for s in (h, -h)]
        np.testing.assert_allclose(np.vdot(gradient[1][0], vectors[0]), (values[0] - values[1]) / (2 * h), rtol=1e-7)
    for what, (named, rest), wanted in (("gradient", gradient, slopes), ("product", product, products)):
        if (what == "product" and name in ONCE) or name in WRONG:
            continue
        for got, tensor in zip([*(named[k] for k in weights), *rest], wanted, strict=True):
            np.testing.assert_allclose(got, tensor.detach().numpy(), rtol=100 * rtol, atol=10 * rtol, err_msg=what)


def test_every_module_is_in_the_table() -> None:
    nn = torch.nn
    names = {n for n in dir(nn) if inspect.isclass(getattr(nn, n)) and issubclass(getattr(nn, n), nn.Module)}
    assert names == set(MODULES) | OTHERS
    assert f"all {len(MODULES)} modules" in PAGE


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore")
def test_modules(name: str) -> None:
    torch.manual_seed(0)
    make, inputs = MODULES[name]
    _compare(name, make().double().eval(), inputs())


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.filterwarnings("ignore")
def test_architectures(name: str) -> None:
    torch.manual_seed(0)
    make, inputs = ARCHITECTURES[name]
    _compare(name, make().double().eval(), inputs())


@pytest.mark.parametrize("kind", ["BatchNorm2d", "InstanceNorm2d", "Dropout"])
def test_training_mode(kind: str) -> None:
    """Batch statistics take part in the derivatives; what is drawn is the same at each call, and each entry is 0 or x/(1 - p)."""
    torch.manual_seed(0)
    x = torch.randn(3, 4, 5, 5, dtype=torch.float64)
    if kind != "Dropout":
        _compare(kind, getattr(torch.nn, kind)(4, affine=True).double().train(), (x,))
        return
    f = nm.from_torch(torch.nn.Dropout(0.25).train(), nm.spec(x.shape, "f64"))
    y = np.asarray(f(x.numpy()))
    assert 0.1 < np.mean(y == 0) < 0.4
    np.testing.assert_allclose(y[y != 0], x.numpy()[y != 0] / 0.75, rtol=1e-12)
    np.testing.assert_array_equal(y, f(x.numpy()))
    np.testing.assert_allclose(nm.grad(lambda x: f(x).sum())(x.numpy()), (y != 0) / 0.75, rtol=1e-12)


def test_without_specs_every_batch_is_taken() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    weights = {k: v.detach().numpy() for k, v in module.named_parameters()}
    f = nm.from_torch(module, parameters=True)
    for batch in (1, 5):
        x = torch.randn(batch, 3, dtype=torch.float64)
        np.testing.assert_allclose(f(weights, x.numpy()), module(x).detach().numpy(), rtol=1e-12)
        slope = nm.grad(lambda w, x: f(w, x).sum())(weights, x.numpy())["0.weight"]
        (wanted,) = torch.autograd.grad(module(x).sum(), module[0].weight)
        np.testing.assert_allclose(slope, wanted.numpy(), rtol=1e-10)


def test_draws_are_those_of_a_distribution_and_the_same_at_each_call() -> None:
    def draws(x: Any) -> Any:
        twice = torch.nn.functional.dropout(x, 0.5, True), torch.nn.functional.dropout(x, 0.5, True)
        return (
            *twice,
            torch.rand_like(x),
            torch.randn_like(x),
            torch.rand(4, 500) + x * 0,
            torch.nn.functional.alpha_dropout(x, 0.5, True),
        )

    f = nm.from_torch(draws, nm.spec((4, 500), "f64"))
    x = np.ones((4, 500))
    first, second, uniform, normal, other, _ = map(np.asarray, f(x))
    assert 0.2 < np.mean((first != 0) & (second != 0)) < 0.3, "two draws are independent"
    for numbers in (uniform, other):
        assert 0 <= numbers.min() < 0.01 < 0.99 < numbers.max() < 1
        assert abs(numbers.mean() - 0.5) < 0.03
    np.testing.assert_allclose([normal.mean(), normal.std()], [0, 1], atol=0.1)
    np.testing.assert_array_equal(f(x)[3], normal)


def test_constants_compared_with_integers() -> None:
    """torch-mlir ends the process at these by itself."""
    f = nm.from_torch(lambda x: torch.where(torch.full_like(x, 0.7) < 0, 1.0, x), nm.spec(3, "f64"))
    np.testing.assert_array_equal(f(np.arange(3.0)), np.arange(3.0))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "softmin"])
def test_operations_along_an_axis_of_a_scalar(name: str) -> None:
    """torch-mlir does not come back from some of these by itself."""
    operation = getattr(torch.nn.functional, name, None) or getattr(torch, name)
    f = nm.from_torch(lambda x: operation(x.sum(), -1) + x * x, nm.spec((3,), "f64"))
    x = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(f(x), operation(torch.tensor(x.sum()), -1).numpy() + x * x, rtol=1e-12)
    slope = 3.0 if name == "logsumexp" else 0.0
    np.testing.assert_allclose(nm.grad(lambda x: f(x).sum())(x), slope + 2 * x, rtol=1e-12)


BAGS = {
    "sum of weighed rows": ({"mode": "sum"}, [0, 2, 2, 5], True),
    "mean, the last end given": ({"mode": "mean", "include_last_offset": True}, [0, 2, 2, 8], False),
    "largest": ({"mode": "max", "padding_idx": 3}, [0, 2, 2, 5], False),
    "mean without padding": ({"mode": "mean", "padding_idx": -4}, [0, 3, 7], False),
}


@pytest.mark.parametrize("name", BAGS)
def test_bags(name: str) -> None:
    """Empty ones too."""
    torch.manual_seed(0)
    options, offsets, is_weighed = BAGS[name]
    bag = torch.nn.EmbeddingBag(7, 3, **options).double()
    arguments = [torch.tensor([3, 3, 1, 0, 3, 6, 2, 2]), torch.tensor(offsets)]
    _compare("EmbeddingBag", bag, (*arguments, *([torch.rand(8, dtype=torch.float64)] if is_weighed else [])))


def test_bags_are_checked_as_pytorch_does() -> None:
    bag = torch.nn.EmbeddingBag(7, 3, mode="mean")
    with pytest.raises(nm.errors.ImportIRError, match="requires mode='sum' for per_sample_weights"):
        nm.from_torch(bag, nm.spec((2, 4), "i64"), None, nm.spec((2, 4), "f32"))


@pytest.mark.parametrize("options", [{"reduction": "sum"}, {"reduction": "none", "blank": 3}, {"zero_infinity": True}])
@pytest.mark.parametrize("form", ["rows", "behind each other", "one"])
def test_ctc(form: str, options: Any) -> None:
    """Blanks elsewhere, targets in each form, and sequences that are too short for theirs."""
    torch.manual_seed(0)
    targets, lengths = torch.tensor([[1, 1, 2], [2, 1, 0]]), torch.tensor([3, 2])
    times = torch.tensor([3, 6] if "zero_infinity" in options else [5, 6])  # equal labels need a blank between
    scores = torch.randn(6, 2, 4, dtype=torch.float64)
    if form == "behind each other":
        targets = torch.cat([targets[0], targets[1, :2]])
    if form == "one":
        scores, targets, lengths, times = scores[:, 0], targets[0], lengths[0], times[0]

    def loss(x: Any) -> Any:
        return torch.nn.functional.ctc_loss(x.log_softmax(-1), targets, times, lengths, **options)

    x = scores.requires_grad_()
    wanted = loss(x)
    f = nm.from_torch(loss, nm.spec(scores.shape, "f64"))
    np.testing.assert_allclose(f(scores.detach().numpy()), wanted.detach().numpy(), rtol=1e-10)
    (slope,) = torch.autograd.grad(wanted.sum(), x)
    np.testing.assert_allclose(nm.grad(lambda x: f(x).sum())(scores.detach().numpy()), slope.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{"full": True}, {"reduction": "sum", "eps": 0.4}])
@pytest.mark.parametrize("shape", [(4, 3), (4, 1), (4,), None])
def test_gaussian_losses(shape: Any, options: Any) -> None:
    """Variances of each form; those that are too small have the slope of the bound; of negative ones the loss is NaN."""
    torch.manual_seed(0)
    x, y = torch.randn(2, 4, 3, dtype=torch.float64)
    variance = 0.7 if shape is None else torch.rand(shape, dtype=torch.float64)
    loss = lambda x, *rest: torch.nn.functional.gaussian_nll_loss(x, y, *(rest or (variance,)), **options)  # noqa: E731
    points = [x] if shape is None else [x, variance]
    points = [p.requires_grad_() for p in points]
    wanted = loss(*points)
    f = nm.from_torch(loss, *(nm.spec(p.shape, "f64") for p in points))
    arrays = [p.detach().numpy() for p in points]
    np.testing.assert_allclose(f(*arrays), wanted.detach().numpy(), rtol=1e-10)
    for got, slope in zip(nm.grad(f, tuple(range(len(points))))(*arrays), torch.autograd.grad(wanted, points), strict=True):
        np.testing.assert_allclose(got, slope.numpy(), rtol=1e-9)
    if shape is not None:
        assert np.isnan(f(arrays[0], -arrays[1]))
