"""Large Fourier transforms as kernels, for every width of vectors, against NumPy's in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from legalize_support import Program, jax_text, legalized

SLOW = pytest.mark.slow
FORMS = [("f4", 64), pytest.param("f8", 64, marks=SLOW), pytest.param("f4", 32, marks=SLOW), pytest.param("f8", 16, marks=SLOW)]
rng = np.random.default_rng(11)

Case = tuple[Callable[..., Any], np.ndarray]


def numbers(*shape: int, dtype: str, real: bool = False) -> np.ndarray:
    """Normal ones; complex but for `real`."""
    x = rng.normal(size=shape)
    return x.astype(dtype) if real else (x + 1j * rng.normal(size=shape)).astype(np.result_type(dtype, np.complex64))


def along(name: str, **options: Any) -> Callable[..., Any]:
    """The transform of that name, of JAX's arrays or NumPy's."""
    return lambda x: getattr(jnp.fft if isinstance(x, jax.Array) else np.fft, name)(x, **options)


def cases(dtype: str) -> dict[str, Case]:
    """Rows and columns that fill no whole vector, lengths of all primes up to 13, long ones, in one axis and in several."""
    c = lambda *shape: numbers(*shape, dtype=dtype)  # noqa: E731
    r = lambda *shape: numbers(*shape, dtype=dtype, real=True)  # noqa: E731
    return {
        "rows": (along("fft"), c(37, 120)),
        "rows_back": (along("ifft"), c(2, 19, 77)),
        "columns": (along("fft", axis=1), c(3, 26, 35)),
        "columns_back": (along("ifft", axis=0), c(64, 51)),
        "few_columns": (along("fft", axis=1), c(20, 44, 3)),
        "long": (along("fft"), c(2, 2310)),
        "long_back": (along("ifft"), c(4096)),
        "whole": (along("fftn"), c(7, 18, 39)),
        "whole_back": (along("ifftn"), c(9, 16, 33)),
        "real": (along("rfft"), r(41, 90)),
        "real_odd": (along("rfft"), r(50, 63)),
        "real_pairs": (along("rfft"), r(1500, 2)),
        "real_long": (along("rfft"), r(8192)),
        "real_whole": (along("rfftn"), r(5, 22, 42)),
        "to_real": (along("irfft"), c(41, 46)),
        "to_odd": (along("irfft", n=75), c(40, 38)),
        "to_pairs": (along("irfft", n=2), c(1500, 2)),
        "to_real_long": (along("irfft"), c(4097)),
        "to_real_whole": (along("irfftn"), c(6, 21, 22)),
        "prime": (along("fft"), c(3, 1009)),
        "large_prime_of_a_length": (along("fft"), c(20, 17 * 16)),
    }


STAY = "large_prime_of_a_length"  # products with matrices


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "vector_bytes"), FORMS)
def test_transforms_are_numpys(dtype: str, vector_bytes: int) -> None:
    made = cases(dtype)
    text = legalized(jax_text({name: (f, (x,)) for name, (f, x) in made.items()}), vector_bytes=vector_bytes)
    assert "stablehlo.fft" not in text
    bodies = {part.split("(")[0]: part for part in text.split("func.func @")[1:]}
    assert [name for name in made if "flow.dispatch" not in bodies[name]] == [STAY]
    program, bound = Program(text), 16 * np.finfo(dtype).eps
    for name, (f, x) in made.items():
        true = f(x.astype(np.result_type(x.dtype, np.float64)))
        before, found = x.copy(), []
        for _ in range(2):
            found.append(np.array(program(name, x)))
        assert np.abs(found[0] - true).max() <= bound * np.abs(true).max(), name
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(x, before)


@pytest.mark.slow
def test_in_loops_and_beside_other_uses() -> None:
    """Transforms along further axes take the place of the one before, which nothing else may read."""
    x = numbers(40, 70, dtype="f8")
    made: dict[str, Case] = {
        "loop": (lambda x: jax.lax.fori_loop(0, 5, lambda i, y: jnp.fft.ifft2(jnp.fft.fft2(y) * 0.5), x), x),
        "other_uses": (lambda x: jnp.fft.fft2(x) * x + jnp.fft.fft(x) + jnp.fft.fft2(x, axes=(1, 0)), x),
        "gradient": (jax.grad(lambda y: jnp.sum(jnp.abs(jnp.fft.rfft2(y)) ** 4)), np.ascontiguousarray(x.real)),
    }
    text = legalized(jax_text({name: (f, (a,)) for name, (f, a) in made.items()}), vector_bytes=64)
    program = Program(text)
    for name, (f, argument) in made.items():
        true = np.asarray(jax.jit(f)(argument))
        found = np.asarray(program(name, argument))
        assert np.abs(found - true).max() <= 1e-14 * np.abs(true).max(), name


def test_what_are_no_kernels() -> None:
    """Small ones, and all without a known width of vectors."""
    f = along("fft")
    assert "flow.dispatch" not in legalized(jax_text({"small": (f, (numbers(4, 30, dtype="f4"),))}), vector_bytes=64)
    assert "flow.dispatch" not in legalized(jax_text({"large": (f, (numbers(400, 30, dtype="f4"),))}), vector_bytes=0)


def test_ends_of_a_real_spectrum_are_real() -> None:
    """Exactly; and imaginary parts there do not count on the way back."""
    x, spectrum = numbers(33, 64, dtype="f4", real=True), numbers(33, 33, dtype="f4")
    text = legalized(jax_text({"to": (along("rfft"), (x,)), "back": (along("irfft"), (spectrum,))}), vector_bytes=64)
    program = Program(text)
    found = np.asarray(program("to", x))
    assert not found[:, [0, -1]].imag.any()
    real = spectrum.copy()
    real[:, [0, -1]] = real[:, [0, -1]].real
    np.testing.assert_array_equal(program("back", spectrum), program("back", real))
