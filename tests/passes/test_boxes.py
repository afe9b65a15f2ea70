"""Slices of parts: numbers, against NumPy's."""

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp


def some_slice(rng: np.random.Generator, size: int) -> slice:
    """Of an axis, perhaps empty."""
    start = int(rng.integers(0, size + 1))
    return slice(start, int(rng.integers(start, size + 1)), int(rng.integers(1, 4)))


@pytest.mark.parametrize("seed", range(40))
def test_slices_of_concatenations_and_pads(seed: int) -> None:
    """Of slices too, with steps, over one part and several, of the padding, and of what has no elements."""
    rng = np.random.default_rng(seed)
    sizes, (low, high) = rng.integers(0, 6, 3), rng.integers(0, 4, 2)
    xs = [rng.standard_normal((2, n)).astype("f4") for n in sizes]
    first, second = some_slice(rng, int(sizes.sum())), some_slice(rng, int(sizes[0] + low + high))
    third = some_slice(rng, len(range(*first.indices(int(sizes.sum())))))

    def of(library):
        def function(*xs):
            whole = library.concatenate(xs, 1)
            return whole[:, first], whole[:, first][:, third], library.pad(xs[0], ((0, 0), (low, high)))[:, second]

        return function

    program = nm.trace(of(nnp), *xs, name="f").lower().compile(nm.Interpreter())
    for ours, wanted in zip(program(*xs), of(np)(*xs), strict=True):
        np.testing.assert_array_equal(ours, wanted)
