"""Reductions of narrow floating-point types, compiled: of constants and arguments, of lengths up to 70, along each axis.

IREE 3.13 took one lane of each vector of a bfloat16 constant: the sum of 17 ones was 2. The interpreter is the reference.
"""

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.testing.checks import interpret

DTYPES = ["bfloat16", "float16"]
LENGTHS = {"some": (5, 17, 32), "short": range(1, 20), "long": range(20, 71)}
REDUCTIONS = {
    "sum": nnp.sum,
    "max": nnp.max,
    "prod": nnp.prod,
    "exponentials": lambda x, axis=None: nnp.sum(nnp.exp(-x), axis=axis),
    "running": lambda x, axis=None: nnp.cumsum(x, axis=-1 if axis is None else axis),
}
CASES = [
    *[("bfloat16", "sum", "some"), ("bfloat16", "prod", "some")],
    *[pytest.param(d, r, "some", marks=pytest.mark.slow) for d in DTYPES for r in REDUCTIONS if (d, r) != ("bfloat16", "sum")],
    *[pytest.param("bfloat16", "sum", name, marks=pytest.mark.slow) for name in ("short", "long")],
]


def results(lengths, reduction, dtype):
    """A reduction of constants and of arguments, whole and along each axis, for all lengths at once."""
    f, dtype = REDUCTIONS[reduction], np.dtype(getattr(nnp, dtype))

    def each(scale):
        out = []
        for n in lengths:
            base = 1.25 if reduction == "prod" and n < 9 else 1.0
            rows = nnp.full((3, n), base, dtype)
            out += [f(rows[0]), f(rows[0] * scale), f(rows, axis=1), f(rows.T, axis=0)]
        return out

    return each, np.ones((), dtype)


@pytest.mark.parametrize(("dtype", "reduction", "lengths"), CASES)
def test_they_are_the_interpreter_s(dtype, reduction, lengths):
    f, one = results(LENGTHS[lengths], reduction, dtype)
    compiled = nm.trace(f, one).lower().compile(nm.CPU("host"))
    digits = float(nnp.finfo(np.dtype(getattr(nnp, dtype))).eps)
    for got, wanted in zip(compiled(one), interpret(f, [one]), strict=True):
        assert np.asarray(got).dtype == wanted.dtype
        np.testing.assert_allclose(np.asarray(got).astype(float), wanted.astype(float), rtol=4 * digits, atol=4 * digits)


def test_gradients_of_scalars_that_narrow_constants_scale():
    """The gradient of a bias is a sum over a constant."""
    bf16 = nnp.bfloat16
    for n in (5, 17, 100, 5000):
        f = nm.jit(nm.grad(lambda s, n=n: nnp.sum((s * nnp.ones(n, bf16)).astype(np.float32)).astype(bf16)))
        nm.set_execution("compile")
        try:
            assert float(f(np.asarray(2, bf16))) == float(np.asarray(n, bf16))
        finally:
            nm.set_execution("auto")
