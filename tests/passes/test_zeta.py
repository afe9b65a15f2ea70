"""The Hurwitz zeta function and polygamma, interpreted and compiled, on both sides of zero, against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.jax.scipy import special
from nabla_mlir.ops import chlo

pytestmark = pytest.mark.slow

POINTS = np.concatenate([np.logspace(-9, 5, 15), -np.logspace(-6.2, 2.53, 18), [-9.75, -12.4, -1000.25, -9.51]])
BOUND = 16  # units in the last place


def _psi(n: int, x: float) -> float:
    return float(mpmath.re(mpmath.psi(n, mpmath.mpf(x))))


def _errors(found: Any, want: np.ndarray) -> np.ndarray:
    found = np.asarray(found)
    want = want.astype(found.dtype)
    finite = np.isfinite(want)
    assert np.array_equal(found[~finite], want[~finite], equal_nan=True)
    size = np.spacing(np.abs(want[finite]))
    return np.abs(found[finite].astype(np.float64) - want[finite]) / size


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_polygamma(dtype: Any) -> None:
    # Powers of what is larger are no normal numbers of f32.
    x = POINTS[(1e6 if dtype is np.float64 else 1e3) > POINTS].astype(dtype)
    functions = {f"order{n}": (lambda x, n=n: special.polygamma(n, x)) for n in (1, 2, 3, 5, 9)}
    functions |= {"slope": nm.vmap(nm.grad(special.digamma)), "curvature": nm.vmap(nm.grad(nm.grad(special.gammaln)))}
    module = nm.module(**{name: nm.trace(f, x, name=name) for name, f in functions.items()}).lower().compile(nm.CPU()).loaded
    with np.errstate(over="ignore"):
        for name, f in functions.items():
            n = int(name[5:]) if name.startswith("order") else 1
            want = np.array([_psi(n, float(v)) for v in x])
            # Between poles the functions of even order vanish: there the bound is of the terms.
            bound = BOUND * (1 if n % 2 else 50)
            for found in (module[name](x), f(x)):
                assert _errors(found, want).max() < bound, name


def test_polygamma_of_an_order_that_is_an_argument_and_at_poles() -> None:
    n, x = np.array([0.0, 1, 2, 3, 1, 2, 1, 1.5, -1, np.inf]), np.array([-12.3, -12.3, -12.3, -12.3, 0.0, -3, -4, 2, 2, 0.5])
    want = np.array([_psi(int(a), float(b)) for a, b in zip(n[:4], x[:4], strict=True)] + [np.inf, -np.inf, np.inf, *[np.nan] * 3])
    for found in (nm.jit(special.polygamma)(n, x), special.polygamma(n, x)):
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zeta(dtype: Any) -> None:
    cases = {
        (2.0, -12.4): None,
        (3.0, -1000.25): None,
        (1.5, 3.0): None,
        (1.001, 0.3): None,
        (30.0, 7.0): None,
        (50.0, -12.4): None,
        (1e15, 2.0): 0.0,
        (1e15, 1.0): 1.0,
        (1e15, 0.5): np.inf,
        (np.inf, 2.0): 0.0,
        (3.0, np.inf): 0.0,
        (3.0, 1e15): None,
        (1.0, 2.0): np.inf,
        (0.5, 2.0): np.nan,
        (2.0, 0.0): np.inf,
        (2.0, -3.0): np.inf,
        (2.5, -0.5): np.nan,
        (np.nan, 2.0): np.nan,
        (2.0, np.nan): np.nan,
        (300.0, 40.0): None,
    }
    s, q = (np.array(v).astype(dtype) for v in zip(*cases, strict=True))

    def truth(s: float, q: float) -> float:
        """For negative q term by term to 0."""
        before = mpmath.fsum(mpmath.mpf(q + k) ** -s for k in range(int(np.ceil(max(-q, 0)))))
        return float(before + mpmath.zeta(mpmath.mpf(s), mpmath.mpf(q) + int(np.ceil(max(-q, 0)))))

    want = np.array([truth(float(a), float(b)) if v is None else v for a, b, v in zip(s, q, cases.values(), strict=True)])
    with np.errstate(over="ignore"):
        for found in (nm.jit(special.zeta)(s, q), special.zeta(s, q)):
            assert _errors(found, want).max() < BOUND


@pytest.mark.parametrize("name", ["polygamma", "zeta", "next_after"])
@pytest.mark.parametrize("axis", [0, 1])
def test_broadcasting_forms_have_the_formulas_of_equal_shapes(name: str, axis: int) -> None:
    """MLIR expands `chlo.broadcast_polygamma` down to its own formulas, whose pole at -0 has the wrong sign."""
    a, b = np.array([[0.0, 2.0], [1.0, -0.0]]), np.array([-0.0, -12.25])
    function = lambda a, b: getattr(chlo, f"broadcast_{name}")(a, b, broadcast_dimensions=(axis,))  # noqa: E731
    wide = np.broadcast_to(b if axis else b[:, None], a.shape)
    want = getattr(special, name, nnp.nextafter)(nnp.asarray(a), nnp.asarray(wide))
    np.testing.assert_allclose(np.asarray(nm.jit(function)(a, b)), np.asarray(want), rtol=1e-13)
