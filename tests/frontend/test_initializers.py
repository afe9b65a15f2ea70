"""nn.initializers against jax.nn.initializers: the same weights for the same keys."""

import jax
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.base.errors import AxisError, DtypeError, ShapeError, TraceError

jax.config.update("jax_enable_x64", True)
ours, theirs = nm.nn.initializers, jax.nn.initializers
KEY, RAW = nm.random.key(5), nm.random.PRNGKey(5)


def assert_equal(make, shape, dtype="float64", rtol=1e-12):
    got, want = (np.asarray(make(m)(m_key, shape, dtype)) for m, m_key in ((ours, KEY), (theirs, jax.random.key(5))))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    "name",
    "glorot_uniform glorot_normal lecun_uniform lecun_normal he_uniform he_normal xavier_uniform xavier_normal "
    "kaiming_uniform kaiming_normal uniform normal truncated_normal orthogonal delta_orthogonal".split(),
)
def test_weights(name):
    assert_equal(lambda m: getattr(m, name)(), (3, 2, 4))


def test_weights_in_single_precision():
    assert_equal(lambda m: m.he_normal(), (3, 4), "float32", 1e-6)
    assert ours.he_normal()(KEY, (3, 4)).dtype == ours.he_normal(dtype="f4")(RAW, (3, 4)).dtype == np.float32
    assert ours.he_normal(dtype="f8")(KEY, (3, 4)).dtype == np.float64


@pytest.mark.parametrize("mode", ["fan_in", "fan_out", "fan_avg", "fan_geo_avg"])
def test_variance_scaling(mode):
    for distribution, axes in (("uniform", {}), ("normal", {"in_axis": (0, 1), "out_axis": 2, "batch_axis": 3})):
        assert_equal(lambda m, d=distribution, a=axes: m.variance_scaling(2.0, mode, d, **a), (2, 3, 4, 5))


def test_options():
    assert_equal(lambda m: m.orthogonal(2.0, 0), (6, 3))
    assert_equal(lambda m: m.orthogonal(), (3, 4), "complex128")
    assert_equal(lambda m: m.truncated_normal(0.5, lower=-1.0, upper=0.5), (6,))
    assert_equal(lambda m: m.constant(np.arange(3.0)), (2, 3))
    assert_equal(lambda m: m.zeros, (2, 3))
    assert_equal(lambda m: m.ones, (2, 3))
    assert ours.zeros(None, (2, 0)).shape == ours.orthogonal()(KEY, (2, 0)).shape == ours.he_normal()(KEY, (2, 0)).shape == (2, 0)


def test_weights_in_a_trace():
    init = ours.lecun_normal()
    rows = nm.vmap(lambda key: init(key, (3, 2)))(nm.random.split(KEY, 2))
    np.testing.assert_allclose(rows[1], init(nm.random.split(KEY)[1], (3, 2)), rtol=1e-6)


ERRORS = [
    (lambda: ours.variance_scaling(1.0, "fan", "normal"), TraceError, "variance_scaling requires a mode among .* got 'fan'"),
    (
        lambda: ours.variance_scaling(1.0, "fan_in", "cauchy"),
        TraceError,
        "variance_scaling requires a distribution among .* got 'cauchy'",
    ),
    (
        lambda: ours.he_normal()(KEY, (3,)),
        ShapeError,
        r"variance_scaling requires two axes, or others than the default ones, got shape \(3,\)",
    ),
    (lambda: ours.he_normal(in_axis=4)(KEY, (3, 2)), AxisError, "variance_scaling requires an axis of an array with 2 axes, got 4"),
    (lambda: ours.he_normal()(KEY, (3, 2), "int32"), DtypeError, "variance_scaling requires a real or complex .* got int32"),
    (lambda: ours.orthogonal()(KEY, (3,)), ShapeError, r"orthogonal requires a shape of at least two axes, got \(3,\)"),
    (
        lambda: ours.delta_orthogonal()(KEY, (3, 4, 2)),
        ShapeError,
        r"delta_orthogonal requires a shape of three to five axes.* got \(3, 4, 2\)",
    ),
    (lambda: ours.delta_orthogonal()(KEY, (3, 4)), ShapeError, "delta_orthogonal requires a shape of three to five axes"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[message[:50] for *_, message in ERRORS])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
