"""Modules of PyTorch: values and gradients as PyTorch's own. Needs `pip install torch torch-mlir`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from xla import run_traced

import nabla_mlir as nm
from nabla_mlir.base.errors import ExchangeError, ImportIRError, TreeError

RNG = np.random.default_rng(0)


def test_without_torch_mlir_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_mlir", None)
    with pytest.raises(ImportIRError, match=r"without (PyTorch|torch-mlir|them)\.(.|\n)*nabla-mlir\[torch\]"):
        nm.from_torch(object(), nm.spec((3,)))


def _modules() -> dict[str, tuple[Any, tuple[int, ...]]]:
    nn = pytest.importorskip("torch").nn
    pytest.importorskip("torch_mlir")
    return {
        "mlp": (nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 2)), (3, 6)),
        "convolutions": (
            nn.Sequential(
                nn.Conv2d(1, 3, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(3, 2, 2),
                nn.Tanh(),
                nn.AvgPool2d(2),
                nn.Flatten(),
            ),
            (2, 1, 6, 6),
        ),
        "attention": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 4, 8)),
        "batch_norm": (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Softmax(-1)), (5, 4)),
        "gru_cell": (nn.GRUCell(3, 4), (2, 3)),
    }


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
def test_parameters_are_in_the_order_of_torch() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    x = RNG.normal(size=(5, 3))
    f = nm.from_torch(net, nm.spec((5, 3), "f64"), parameters=True)
    H = nm.HessianOperator(lambda w: (f(w, x) ** 2).sum(), f.parameters)
    assert list(H.names) == [name for name, _ in net.named_parameters()]
    v = torch.nn.utils.parameters_to_vector(net.parameters())
    loss = lambda *ps: (torch.func.functional_call(net, dict(zip(H.names, ps, strict=False)), (torch.tensor(x),)) ** 2).sum()  # noqa: E731
    _, wanted = torch.autograd.functional.hvp(loss, tuple(net.parameters()), tuple(p.detach() for p in net.parameters()))
    np.testing.assert_allclose(H @ v.detach(), torch.nn.utils.parameters_to_vector(wanted).numpy(), rtol=1e-10)


@pytest.mark.slow
def test_the_row_of_the_padding_has_no_gradient() -> None:
    """Nor a second derivative; a gradient that is scaled by counts is refused."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")
    positions = np.array([[0, 2, 1, 2], [4, 2, 0, 0]])
    module = torch.nn.Embedding(5, 3, padding_idx=2).double()
    f = nm.from_torch(module, nm.spec(positions.shape, "i64"), parameters=True)
    w = {"weight": RNG.normal(size=(5, 3))}
    scale = RNG.normal(size=(2, 4, 3))
    loss = lambda w: (f(w, positions) ** 3 * scale).sum()  # noqa: E731
    gradient, product = nm.grad(loss)(w)["weight"], nm.hvp(loss)(w, w)["weight"]
    given = torch.tensor(w["weight"], requires_grad=True)
    rows = torch.nn.functional.embedding(torch.tensor(positions), given, padding_idx=2)
    (wanted,) = torch.autograd.grad((rows**3 * torch.tensor(scale)).sum(), given)
    np.testing.assert_allclose(gradient, wanted.numpy(), rtol=1e-12)
    np.testing.assert_allclose(product, 2 * wanted.numpy(), rtol=1e-12)  # of third powers, at the point itself
    assert not np.asarray(gradient)[2].any()
    with pytest.raises(ImportIRError, match=r"gradient is not scaled, got scale_grad_by_freq=True"):
        nm.from_torch(torch.nn.Embedding(5, 3, scale_grad_by_freq=True), nm.spec(positions.shape, "i64"))


@pytest.mark.slow
def test_parameters_as_constants() -> None:
    module, shape = _modules()["mlp"]
    import torch

    x = RNG.normal(size=shape).astype(np.float32)
    f = nm.from_torch(module.eval(), nm.spec(shape, "f32"))
    np.testing.assert_allclose(nm.jit(f)(x), module(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-6)


# ---------------------------------------------------------------- what torch-mlir leaves to us


def _functions() -> dict[str, tuple[Any, list[np.ndarray]]]:
    """Functions of f64 arrays, all of them differentiated."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")
    F, linalg, fft = torch.nn.functional, torch.linalg, torch.fft

    def held(x: Any, y: Any) -> Any:
        with torch.no_grad():
            z = x * y.sin()
        return z * x + y.detach() * y

    def ordered(x: Any) -> Any:
        return x.kthvalue(2, 1)[0] * x.median(0)[0].sum() + x.cummax(1)[0].sum(1) * x.cumprod(0).sum() + x.cummin(0)[0].sum()

    def solved(a: Any, b: Any) -> Any:
        spd = a @ a.mT + 3 * torch.eye(3, dtype=a.dtype)
        root = linalg.cholesky(spd)
        x = linalg.solve(spd, b) + linalg.inv(spd) @ b + torch.cholesky_solve(b, root)
        y = linalg.solve_triangular(root, b, upper=False) + linalg.solve(spd, b.mT, left=False).mT
        return x.sum(), y, linalg.slogdet(spd)[1], linalg.eigvalsh(spd), linalg.svdvals(a), linalg.qr(a)[1], linalg.pinv(a)

    def transformed(x: Any) -> Any:
        z = fft.rfft(x) * 2 * torch.complex(x[:, :4], -x[:, :4])
        return torch.view_as_real(z / (1 + z)), z.abs(), fft.irfft(z, n=6), z.conj().angle()

    def pooled(x: Any) -> Any:
        return (
            F.max_pool2d(x, 2, ceil_mode=True),
            F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, True, False),
            F.max_pool2d(x, 2, 3, 1, 2),
            F.avg_pool2d(x, 2, divisor_override=3),
            F.max_pool2d(x, 2, padding=1, ceil_mode=True, return_indices=True)[1] * x.mean(),
        )

    def placed(x: Any) -> Any:
        positions = torch.tensor([[0, 1], [2, 2], [1, 0]])
        return (
            x.tril() @ torch.diag(x.diagonal()),
            F.pad(x[None], (1, 2), mode="circular"),
            x.unfold(1, 2, 1),
            torch.scatter_reduce(x, 1, positions, x[:, :2], "prod"),
            torch.as_strided(x, (2, 2), (1, 2)),
            torch.diagonal_scatter(x, x[0] * 2),
            x % 0.7 + x.remainder(-x.abs() - 1),
            F.interpolate(x[None], scale_factor=2),
        )

    def special(x: Any) -> Any:
        y = torch.special
        return (
            x.lgamma()
            + x.digamma() * x.erfc()
            + y.polygamma(1, x)
            + y.zeta(x.detach() + 2, x.detach())
            + y.i1e(x)
            + torch.hypot(x, x + 1)
        )

    return {
        "held": (held, [RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))]),
        "ordered": (ordered, [RNG.normal(size=(3, 3))]),
        "solved": (solved, [RNG.normal(size=(3, 3)), RNG.normal(size=(3, 2))]),
        "transformed": (transformed, [RNG.normal(size=(2, 6))]),
        "pooled": (pooled, [RNG.normal(size=(1, 2, 5, 6))]),
        "placed": (placed, [RNG.normal(size=(3, 3))]),
        "special": (special, [RNG.uniform(0.5, 2, (2, 3))]),
        "buffers": (
            torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0], dtype=torch.float64)),
            [RNG.normal(size=(4, 2)), RNG.uniform(0.1, 0.9, (4, 2))],
        ),
        "training": (torch.nn.BatchNorm1d(3, dtype=torch.float64).train(), [RNG.normal(size=(4, 3))]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["held", "ordered", "solved", "transformed", "pooled", "placed", "special", "buffers", "training"])
def test_second_derivatives_as_in_torch(name: str) -> None:
    function, xs = _functions()[name]
    import torch

    count, directions = range(len(xs)), [RNG.normal(size=x.shape) for x in xs]
    f = nm.from_torch(function, *(nm.spec(x.shape, "f64") for x in xs))

    def flat(y: Any) -> Any:
        return list(y) if isinstance(y, (tuple, list)) else [y]

    def loss(*inputs: Any) -> Any:
        return sum((y * y * 0.5 + y).sum() for y in flat(f(*inputs)))

    def gradient(*inputs: Any) -> Any:
        return list(nm.grad(loss, tuple(count))(*inputs))

    def everything(*inputs: Any) -> Any:
        at, along = inputs[: len(xs)], inputs[len(xs) :]
        pairs = [nm.numpy.stack([x, 2 * x]) for x in at]
        mapped = nm.vmap(lambda *a: gradient(*a))(*pairs)
        return flat(f(*at)), gradient(*at), nm.jvp(gradient, tuple(at), tuple(along))[1], mapped

    values, grads, products, mapped = run_traced(everything, [*xs, *directions])

    def reference(scale: float) -> tuple[Any, Any, Any]:
        at = [torch.tensor(scale * x, requires_grad=True) for x in xs]
        outs = flat(function(*at))
        first = torch.autograd.grad(sum((y * y * 0.5 + y).sum() for y in outs), at, create_graph=True)
        along = sum((g * torch.tensor(v)).sum() for g, v in zip(first, directions, strict=True))
        return outs, first, torch.autograd.grad(along, at)

    outs, first, second = reference(1.0)
    _, doubled, _ = reference(2.0)
    for found, wanted in ((values, outs), (grads, first), (products, second), ([m[1] for m in mapped], doubled)):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-8, atol=1e-8)


# ---------------------------------------------------------------- arguments and refusals


def test_arguments_are_trees() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")
    spec = nm.spec((2,), "f64")
    f = nm.from_torch(lambda x, state: (x * state["c"], torch.sin(state["h"][0])), spec, {"h": [spec], "c": spec})
    x, c, h = (np.array([i, i + 0.5]) for i in (1.0, 2.0, 3.0))
    product, sine = run_traced(lambda x, c, h: f(x, {"c": c, "h": [h]}), [x, c, h])
    np.testing.assert_allclose(product, x * c)
    np.testing.assert_allclose(sine, np.sin(h))
    with pytest.raises(TreeError, match="the specs of from_torch"):
        f(x, {"c": c})


def _bessel(torch: Any) -> Any:
    class Bessel(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.i0(x)

    return Bessel()


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (_bessel, r"got torch\.aten\.i0\.\n.*test_torch\.py:\d+(.|\n)*return torch\.i0\(x\)(.|\n)*nabla_mlir\.numpy"),
        (
            lambda torch: lambda x: torch.embedding_bag(x, torch.tensor([0, 1]), torch.tensor([0]), False, 1)[0],
            r"got torch\.aten\.embedding_bag",
        ),
        (lambda torch: lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), "got .*Higher-order operation 'cond'"),
        (lambda torch: lambda x: x if x.sum() > 0 else -x, r"torch\.export captures, got GuardOnDataDependent(.|\n)*torch\.where"),
        (
            lambda torch: lambda x: torch.scatter_reduce(x, 0, torch.tensor([[0, 1]]), x, "mean"),
            "requires a scatter_reduce of sum.*got mean",
        ),
    ],
    ids=["operation", "several", "branches", "data", "variant"],
)
def test_what_is_refused_is_named(make: Any, named: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")
    with pytest.raises(ImportIRError, match=named):
        nm.from_torch(make(torch), nm.spec((3, 2), "f32"))


def test_a_function_has_no_parameters() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")
    with pytest.raises(ImportIRError, match=r"requires a torch\.nn\.Module where parameters=True, got builtin_function"):
        nm.from_torch(torch.sin, nm.spec((3,)), parameters=True)


# ---------------------------------------------------------------- tensors of PyTorch as arrays


def test_tensors_are_taken_wherever_an_array_is() -> None:
    torch = pytest.importorskip("torch")
    before = nm.set_execution("interpret")
    x = torch.tensor([1.0, 4.0, 3.0], dtype=torch.float64)
    try:
        for tensor, scale in ((x, 1.0), (torch.stack([x, 2 * x], 1)[:, 1], 2.0), (x.bfloat16(), 1.0)):
            gradient = nm.grad(lambda y: (y**3).sum())(tensor)
            np.testing.assert_allclose(np.asarray(gradient, np.float64), 3 * (scale * x.numpy()) ** 2)
            assert gradient.dtype.name == str(tensor.dtype).removeprefix("torch.")
        assert nm.jit(lambda tree: tree["a"] + x)({"a": x}).tolist() == [2.0, 8.0, 6.0]
        assert nm.numpy.from_dlpack(x).tolist() == (nm.numpy.zeros(3) + x).tolist() == x.tolist()
        for bad, message in ((x.clone().requires_grad_(), "require gradient"), (x.to("meta"), "meta"), (x.to_sparse(), "layout")):
            with pytest.raises(ExchangeError, match=rf"that can be read, got Tensor: .*{message}"):
                nm.grad(lambda y: y.sum())(bad)
    finally:
        nm.set_execution(before)
    assert x.tolist() == [1.0, 4.0, 3.0]


def test_tensors_as_specs_and_arguments_of_modules() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")
    layer, x = torch.nn.Linear(3, 2).double(), torch.ones(1, 3, dtype=torch.float64)
    before = nm.set_execution("interpret")
    try:
        f = nm.from_torch(layer, x)
        np.testing.assert_allclose(np.asarray(f(x)), layer(x).detach().numpy())
        np.testing.assert_allclose(np.asarray(nm.grad(lambda x: f(x).sum())(x)), layer.weight.detach().numpy().sum(0)[None])
    finally:
        nm.set_execution(before)
