"""Scatters whose updates are the array itself, compiled: each element is read before it is written."""

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

X = np.array([-0.58, -0.18, 0.7], np.float32)
PLACES = np.array([1, 2, 0])
UPDATES = {
    "add": (lambda at, c: at.add(c), lambda c: c + c[[2, 0, 1]]),
    "multiply": (lambda at, c: at.multiply(c), lambda c: c * c[[2, 0, 1]]),
    "max": (lambda at, c: at.max(c), lambda c: np.maximum(c, c[[2, 0, 1]])),
    "set": (lambda at, c: at.set(c), lambda c: c[[2, 0, 1]]),
}


@pytest.mark.parametrize("update", UPDATES)
def test_an_array_that_is_its_own_update(update):
    """`c` is one of two results of a dispatch; the deep fuzzer found that it was overwritten while it was read."""
    ours, truth = UPDATES[update]

    def f(x):
        c = nnp.cos(x)
        return nnp.logaddexp(x, c) + ours(c.at[PLACES], c)

    compiled = nm.trace(f, X).lower().compile(nm.CPU("host"))
    c = np.cos(X)
    np.testing.assert_allclose(np.asarray(compiled(X)), np.logaddexp(X, c) + truth(c), rtol=1e-6)
