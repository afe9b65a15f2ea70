"""Functions at infinities, zeros and NaN against NumPy and SciPy, in every dtype, interpreted and compiled for this CPU."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import nabla_mlir as nm
from nabla_mlir import nn
from nabla_mlir import numpy as nnp
from nabla_mlir.jax.scipy import special
from nabla_mlir.testing.checks import interpret

pytestmark = pytest.mark.slow

BF16 = np.dtype(ml_dtypes.bfloat16)
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.0, 3.5])
X, Y = (a.ravel() for a in np.meshgrid(EDGES, EDGES))
FINITE = EDGES[np.isfinite(EDGES)]
COMPLEX = (FINITE[:, None] + 1j * FINITE).ravel()
WHOLE = np.arange(-7, 8, dtype=np.int8)
N, M = (a.ravel() for a in np.meshgrid(WHOLE, WHOLE))
BASES, EXPONENTS = (np.array(v, np.int32) for v in ([3, 3, 3, 2, 5, -1, 7], [31, 64, 127, 64, 2**30 + 65, 2**31 - 1, 0]))
ROWS = np.array([[1.0, np.nan, 3.0, -np.inf], [np.inf, 0.0, 2.0, -np.inf], [-np.inf] * 4, [1.0, 2.0, 3.0, 4.0]])
Function = Callable[..., Any]


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _narrow(f: Function) -> Function:
    """The results of a function in f32, converted to bfloat16."""
    return lambda *xs: f(*(x.astype(np.float32) for x in xs)).astype(BF16)


CASES: dict[str, tuple[Function, Function, tuple[np.ndarray, ...]]] = {
    "a NaN beside an infinity": (nnp.logaddexp, np.logaddexp, (X, Y)),
    "a NaN beside an infinity, base 2": (nnp.logaddexp2, np.logaddexp2, (X, Y)),
    "a NaN in a running sum of exponentials": (lambda x: nnp.cumlogsumexp(x, 1), lambda x: np.logaddexp.accumulate(x, 1), (ROWS,)),
    "softmax": (nn.softmax, _softmax, (ROWS,)),
    "log_softmax": (nn.log_softmax, lambda x: np.log(_softmax(x)), (ROWS[[0, 1, 3], :3],)),
    "remainder of integers, also by 0": (nnp.remainder, np.remainder, (N, M)),
    "fmod of integers, also by 0": (nnp.fmod, np.fmod, (N, M)),
    "fmod of unsigned integers": (nnp.fmod, np.fmod, (N.astype(np.uint8), M.astype(np.uint8))),
    "divmod of truth values": (nnp.divmod, np.divmod, (np.array([True, False]), np.array([True, True]))),
    "powers beyond 63 of int32": (nnp.power, np.power, (BASES, EXPONENTS)),
    "powers beyond 63 of uint64": (nnp.power, np.power, (BASES.astype(np.uint64), EXPONENTS.astype(np.uint64))),
    "log2 of complex numbers": (nnp.log2, np.log2, (COMPLEX,)),
    "log10 of complex numbers": (nnp.log10, np.log10, (COMPLEX,)),
    "incomplete gamma function": (special.gammainc, scipy.special.gammainc, (X, Y)),
    "its complement": (special.gammaincc, scipy.special.gammaincc, (X, Y)),
    "nextafter in bfloat16": (nnp.nextafter, np.nextafter, (X.astype(BF16), Y.astype(BF16))),
    "nan_to_num in bfloat16": (
        lambda x: nnp.nan_to_num(x, nan=2.0, posinf=9.0),
        _narrow(lambda x: np.nan_to_num(x, nan=2.0, posinf=9.0, neginf=-3.38953139e38)),
        (EDGES.astype(BF16),),
    ),
    "frexp in bfloat16": (lambda x: nnp.frexp(x)[0], _narrow(lambda x: np.frexp(x)[0]), (EDGES.astype(BF16),)),
    "ldexp in bfloat16": (lambda x: nnp.ldexp(x, 3), _narrow(lambda x: np.ldexp(x, 3)), (EDGES.astype(BF16),)),
    "spacing in bfloat16": (nnp.spacing, lambda x: np.array([2.0**-7, -(2.0**-7), 2.0**-6], BF16), (np.array([1, -1.5, 3], BF16),)),
    "reduced precision in bfloat16": (
        lambda x: nm.jax.lax.reduce_precision(x, 4, 3),
        lambda x: np.array([1, 1.125, np.inf, 0], BF16),
        (np.array([1, 1.0703125, 300, 1e-5], BF16),),
    ),
    "masked attention in bfloat16": (
        lambda x: nn.dot_product_attention(x, x, x, is_causal=True)[0],
        lambda x: x[0],
        (np.ones((2, 1, 2), BF16),),
    ),
}


@pytest.fixture(scope="module")
def compiled() -> Any:
    """All in one module; what cannot be lowered fails its own test."""
    lowered = {f"f{i}": nm.trace(f, *xs) for i, (f, _, xs) in enumerate(CASES.values())}
    return nm.module(**lowered).lower().compile("cpu").loaded


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("driver", ["interpreter", "cpu"])
def test_edges_are_those_of_numpy(name: str, driver: str, compiled: Any) -> None:
    f, reference, xs = CASES[name]
    found = interpret(f, xs) if driver == "interpreter" else compiled[f"f{list(CASES).index(name)}"](*xs)
    with np.errstate(all="ignore"):
        wanted = reference(*xs)
    for a, b in zip(nm.jax.tree.leaves(found), nm.jax.tree.leaves(wanted), strict=True):
        assert np.asarray(a).dtype == b.dtype
        parts = (np.real, np.imag) if b.dtype.kind == "c" else (lambda v: v.astype(np.float64),)
        for part in parts:
            np.testing.assert_allclose(part(np.asarray(a)), part(b), rtol=1e-12)


def test_places_behind_the_last_element_are_those_of_the_first() -> None:
    values, positions, counts = nnp.unique(np.array([3, 1, 3]), return_index=True, return_counts=True, size=4)
    assert [v.tolist() for v in (values, positions, counts)] == [[1, 3, 1, 1], [1, 0, 1, 1], [1, 2, 0, 0]]
