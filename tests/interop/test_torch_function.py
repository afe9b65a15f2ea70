"""Functions of ours inside PyTorch: its own checks of derivatives and of custom operations, and its own functions beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.interop import torch_function

torch = pytest.importorskip("torch")
function = nm.interop.torch.function


def energy(p: Any, scale: Any, steps: Any = 1.0) -> Any:
    """A function of a pytree, with a result that has no derivative."""
    values = nnp.tanh(p["w"] @ p["b"]) * scale
    return {"sum": (values**2).sum() * steps, "values": values, "signs": (values > 0).astype("int32")}


def in_torch(p: Any, scale: Any, steps: Any = 1.0) -> Any:
    values = torch.tanh(p["w"] @ p["b"]) * scale
    return {"sum": (values**2).sum() * steps, "values": values, "signs": (values > 0).to(torch.int32)}


def inputs(dtype: Any = None, gradients: bool = True) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: (  # noqa: E731
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype or torch.float64).requires_grad_(gradients)
    )
    return {"w": make(3, 2), "b": make(2)}, make(3)


def test_first_and_second_derivatives() -> None:
    f = function(energy)
    p, scale = inputs()
    flat = lambda w, b, scale: tuple(f({"w": w, "b": b}, scale)[name] for name in ("sum", "values"))  # noqa: E731
    assert torch.autograd.gradcheck(flat, (p["w"], p["b"], scale))
    assert torch.autograd.gradgradcheck(flat, (p["w"], p["b"], scale))
    assert torch.autograd.gradcheck(flat, (p["w"], p["b"], scale), check_forward_ad=True)
    ours, theirs = f(p, scale), in_torch(p, scale)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value)
    assert not ours["signs"].requires_grad


def test_derivatives_of_any_order() -> None:
    f = function(lambda x: nnp.sin(x) * x)
    x = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    for order in range(1, 5):
        ours, theirs = f(x), torch.sin(x) * x
        for _ in range(order):
            ours, theirs = (torch.autograd.grad(y.sum(), x, create_graph=True)[0] for y in (ours, theirs))
        torch.testing.assert_close(ours, theirs)


def test_transforms_of_torch_func() -> None:
    f = function(lambda x, y: (nnp.exp(x) * y).sum())
    g = lambda x, y: (torch.exp(x) * y).sum()  # noqa: E731
    x, y = torch.rand(4, 3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    func = torch.func
    for transform in (
        lambda f: func.grad(f, argnums=(0, 1))(x[0], y),
        lambda f: func.hessian(f)(x[0], y),
        lambda f: func.jacrev(func.jacrev(f))(x[0], y),
        lambda f: func.jvp(f, (x[0], y), (y, x[0])),
        lambda f: func.vmap(f, in_dims=(0, None))(x, y),
        lambda f: func.vmap(func.grad(f), in_dims=(1, 0))(x, x.T[0][None].expand(3, 4)[:, :4]),
        lambda f: func.vmap(func.vmap(f, in_dims=(0, None)), in_dims=(None, 0))(x, torch.stack([y, 2 * y])),
        lambda f: func.vmap(func.hessian(f), in_dims=(0, None))(x, y),
    ):
        torch.testing.assert_close(transform(f), transform(g))


def test_official_checks_of_the_operation() -> None:
    f = function(lambda p, scale: [energy(p, scale)[name] for name in ("sum", "values")])
    p, scale = inputs()
    f(p, scale)
    key = next(reversed([name for name, family in torch_function._FAMILIES.items() if family.count == 3]))
    for tensors in ([p["b"], p["w"], scale], [p["b"].detach(), p["w"].detach(), scale.detach()]):
        torch.library.opcheck(torch.ops.nabla_mlir.call.default, (tensors, key))


@pytest.mark.parametrize("dynamic", [None, True])
def test_graphs_are_not_broken(dynamic: bool | None) -> None:
    f = function(energy)
    p, scale = inputs()

    def step(w: Any, b: Any, scale: Any, of: Any) -> Any:
        results = of({"w": w * 2, "b": b}, scale)
        return results["sum"] * results["values"] + 1

    compiled = torch.compile(lambda *args: step(*args, f), fullgraph=True, backend="aot_eager", dynamic=dynamic)
    ours, theirs = compiled(p["w"], p["b"], scale), step(p["w"], p["b"], scale, in_torch)
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(*(torch.autograd.grad(y.sum(), (p["w"], p["b"], scale)) for y in (ours, theirs)), strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.slow
def test_the_compiler_of_pytorch() -> None:
    f = function(lambda x: nnp.sin(x) * 2)
    x = torch.linspace(0, 1, 6, requires_grad=True)
    compiled = torch.compile(lambda x: f(x.relu() + 1).sum(), fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x), torch.autograd.grad((torch.sin(x.relu() + 1) * 2).sum(), x))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex128"])
def test_dtypes(dtype: str) -> None:
    x = torch.linspace(0.5, 1, 4, dtype=torch.float32).to(getattr(torch, dtype)).requires_grad_()
    f = function(lambda x: (x * x * x).sum().real if dtype == "complex128" else (x * x * x).sum())
    g = (lambda x: (x * x * x).sum().real) if dtype == "complex128" else lambda x: (x * x * x).sum()
    torch.testing.assert_close(f(x), g(x), check_stride=False)
    if dtype == "complex128":
        assert torch.autograd.gradcheck(f, (x * (1 + 2j)).detach().requires_grad_())
        return
    torch.testing.assert_close(torch.autograd.grad(f(x), x), torch.autograd.grad(g(x), x), check_stride=False)


def test_memory_is_shared_and_never_written() -> None:
    large, small = torch.rand(20000), torch.rand(3)
    assert torch_function._array(large).ctypes.data == large.data_ptr()
    assert nm.interop.families._direct(torch_function._array(large)).numpy().ctypes.data == large.data_ptr()
    f = function(lambda x, y: (x, x, y[1:], x.T))
    for x in (torch.rand(200, 200), torch.rand(200, 200).T, torch.rand(400, 400)[::2, ::2]):
        before, versions = x.clone(), (x._version, small._version)
        results = f(x, small)
        assert len({x.data_ptr(), small.data_ptr(), *(y.data_ptr() for y in results)}) >= 5  # nothing is an alias
        for result in results:
            result += 1
        torch.testing.assert_close(x, before, rtol=0, atol=0)
        assert (x._version, small._version) == versions
    torch.testing.assert_close(f(torch.rand(0, 2), small)[0], torch.zeros(0, 2))


def test_numbers_are_constants() -> None:
    f = function(energy)
    p, scale = inputs()
    for steps in (1.0, 2.0, 3):
        torch.testing.assert_close(f(p, scale, steps=steps), in_torch(p, scale, steps=steps))
    torch.testing.assert_close(f(p, 2.0), in_torch(p, 2.0))


def test_artifacts(tmp_path: Path) -> None:
    stage = nm.module(
        loss=nm.trace(lambda x, y: {"l": ((x - y) ** 3).sum()}, nm.spec(3, "f64"), nm.spec(3, "f64")),
        other=nm.trace(nnp.sin, nm.spec(2)),
    )
    stage.lower().compile().save(tmp_path / "loss.vmfb")
    x, y = torch.rand(3, dtype=torch.float64, requires_grad=True), torch.rand(3, dtype=torch.float64)
    for source in (tmp_path / "loss.vmfb", nm.load(tmp_path / "loss.vmfb"), stage.lower()):
        f = function(source, entry="loss")
        torch.testing.assert_close(f(x, y)["l"], ((x - y) ** 3).sum())
        torch.testing.assert_close(torch.autograd.grad(f(x, y)["l"], x)[0], 3 * (x - y).detach() ** 2)
    with pytest.raises(nm.errors.TraceError, match=r"requires a name among \['loss', 'other'\], got None"):
        function(tmp_path / "loss.vmfb")


def test_a_network_of_pytorch_is_trained_through_it() -> None:
    torch.manual_seed(0)
    rows = torch.randn(64, 3)
    targets = torch.sin(rows.sum(1, keepdim=True))
    network = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    loss = function(lambda out, targets: nnp.mean((out - targets) ** 2), target=nm.CPU("host"))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-2)
    values = []
    for _ in range(60):
        optimizer.zero_grad()
        value = loss(network(rows), targets)
        value.backward()
        optimizer.step()
        values.append(float(value.detach()))
    assert values[-1] < 0.1 * values[0]


def test_errors() -> None:
    f = function(lambda x, y: x + y)
    x = torch.ones(2)
    with pytest.raises(nm.errors.DtypeError, match="requires tensors of PyTorch and Python's numbers, got ndarray"):
        f(x, np.ones(2))
    with pytest.raises(nm.errors.ExchangeError, match="requires tensors on the CPU, got one on meta"):
        torch_function._array(torch.ones(2, device="meta"))
    with pytest.raises(nm.errors.ShapeError, match="broadcast"):
        f(x, torch.ones(3))
    with pytest.raises(nm.errors.TraceError, match="requires a function, or an artifact or stage with an entry, got list"):
        function([x])
    with pytest.raises(nm.errors.TraceError, match="got function and entry='f'"):
        function(lambda x: x, entry="f")
    with pytest.raises(nm.errors.TraceError, match="requires an entry point without state, got apply"):
        function(nm.hvp_module(lambda x: (x**4).sum(), nm.spec(2), entry_points=("update", "apply")), entry="apply")
