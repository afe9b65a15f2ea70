"""Large reductions as kernels, against NumPy: axes, sizes, kinds, what they are computed from, and derivatives."""

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.passes.iree.kernels.sums_as_kernels import SumsAsKernelsPass

rng = np.random.default_rng(4)


def batch_norm(np_, x):
    mean, variance = np_.mean(x, axis=(0, 1, 2)), np_.var(x, axis=(0, 1, 2))
    return np_.sum(np_.tanh((x - mean) / np_.sqrt(variance + 1e-3)), axis=(1, 2, 3))


PROGRAMS = {
    "columns": ((2100, 521), lambda np_, x: (np_.sum(x, axis=0), np_.sum(np_.exp(x) * x, axis=0))),
    "kinds": ((2100, 521), lambda np_, x: (np_.max(x, axis=0), np_.min(np_.abs(x), axis=0), np_.prod(1 + x / 1000, axis=0))),
    "rows of squares": ((2100, 521), lambda np_, x: (np_.sum(x * x, axis=1), np_.var(x, axis=1))),
    "outer axes": (
        (9, 37, 61, 53),
        lambda np_, x: (np_.sum(x, axis=(0, 2, 3)), np_.sum(x * x, axis=(1, 2)), np_.max(x, axis=(0, 1, 2))),
    ),
    "ones": ((1, 1200, 1, 900), lambda np_, x: np_.sum(np_.sin(x), axis=1)),
    "few columns": ((400_009, 3), lambda np_, x: (np_.sum(x * x, axis=0), np_.sum(x * x), np_.max(x, axis=0))),
    "long": ((1_100_003,), lambda np_, x: (np_.sum(x * x), np_.sum(x * x * (x > 0)))),
    "one behind the other": ((2100, 521), lambda np_, x: np_.sum((x - np_.max(x, axis=0)) ** 2, axis=0)),
    "batch norm": ((16, 32, 32, 65), batch_norm),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_reductions(name, dtype):
    shape, f = PROGRAMS[name]
    x = rng.normal(size=shape).astype(dtype)
    compiled = nm.trace(lambda x: f(nnp, x), x, name="f").lower().compile()
    ours, theirs = compiled(x), f(np, x.astype("f8"))
    for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (ours, theirs)), strict=True):
        tolerance = 2e-5 if dtype == "f4" else 1e-12
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.max(np.abs(b)))


@pytest.mark.slow
def test_nan_and_infinity():
    """They are where NumPy has them, also behind the last whole vector and in the last workgroup."""
    x = rng.normal(size=(2100, 521)).astype("f4")
    x[[0, 1000, 2099], [3, 520, 77]] = np.nan
    x[[5, 2099], [4, 519]] = np.inf
    x[:, 100] = -np.inf
    f = lambda np_, x: (np_.sum(x, axis=0), np_.max(x, axis=0), np_.min(x, axis=0))  # noqa: E731
    for ours, theirs in zip(nm.jit(lambda x: f(nnp, x))(x), f(np, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.slow
def test_derivatives_are_those_without_kernels(monkeypatch):
    x = rng.normal(size=(16, 32, 32, 65)).astype("f4")
    loss = lambda x: nnp.sum(batch_norm(nnp, x) ** 2)  # noqa: E731
    lowered = nm.trace(nm.hvp(loss), x, x, name="f").lower()
    with_kernels = lowered.compile(cache=False)(x, x)
    monkeypatch.setattr(SumsAsKernelsPass, "run", lambda self, module: None)
    without = lowered.compile(cache=False)(x, x)
    np.testing.assert_allclose(with_kernels, without, rtol=1e-3, atol=1e-4 * np.max(np.abs(without)))


@pytest.mark.slow
def test_in_loops_and_maps():
    """In the body of a loop, in a branch, and mapped; the argument stays as it is."""
    x = rng.normal(size=(1100, 1000))

    def centered(x):
        return nm.fori_loop(0, 3, lambda i, x: x - nnp.sum(x * x, axis=0) / 1e4, x)

    def chosen(x):
        return nm.cond(x[0, 0] > 10, lambda x: nnp.sum(x, axis=0), lambda x: nnp.max(x, axis=0), x)

    mapped = nm.vmap(lambda x: nnp.sum(x * x, axis=0))
    before, wanted = x.copy(), x
    for _ in range(3):
        wanted = wanted - np.sum(wanted * wanted, axis=0) / 1e4
    for _ in range(2):
        ours = nm.jit(lambda x: (centered(x), chosen(x), mapped(x.reshape(11, 100, 1000))))(x)
        stacked = np.sum(x.reshape(11, 100, 1000) ** 2, axis=1)
        for a, b in zip(ours, (wanted, np.max(x, axis=0), stacked), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(x, before)
