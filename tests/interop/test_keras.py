"""Models of Keras, weights of safetensors and models of NumPyro come in: value, gradient and HVP are JAX's.

In f64; normalizations, attention and recurrent layers of Keras compute parts in f32 whatever their dtype, and are compared as such.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
for package in ("keras", "safetensors", "numpyro"):
    pytest.importorskip(package)

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

import keras
import ml_dtypes
import numpyro
import numpyro.distributions as dist

import nabla_mlir as nm
from nabla_mlir.base.errors import ImportIRError, ShapeError, TreeError

layers = keras.layers
RNG = np.random.default_rng(0)


def dense() -> Any:
    return [keras.Input((4,)), layers.Dense(5, activation="gelu"), layers.Dense(2, activation="softmax")]


def convolutional() -> Any:
    return [
        keras.Input((8, 8, 2)),
        layers.Conv2D(3, 3, activation="tanh", padding="same"),
        layers.BatchNormalization(),
        layers.MaxPooling2D(),
        layers.DepthwiseConv2D(2),
        layers.GlobalAveragePooling2D(),
        layers.Dense(2),
    ]


def recurrent() -> Any:
    return [keras.Input((5, 3)), layers.Bidirectional(layers.LSTM(2, return_sequences=True)), layers.GRU(3), layers.Dense(1)]


def attention() -> Any:
    x = keras.Input((4, 6))
    y = layers.Add()([x, layers.MultiHeadAttention(2, 3)(x, x)])
    return keras.Model(x, layers.Dense(2)(layers.Flatten()(layers.Dropout(0.5)(y))))


CASES = {
    "dense": (dense, (3, 4)),
    "convolutional": (convolutional, (2, 8, 8, 2)),
    "recurrent": (recurrent, (2, 5, 3)),
    "attention": (attention, (2, 4, 6)),
}


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    before = nm.set_execution("interpret")
    yield
    nm.set_execution(before)


@pytest.fixture(autouse=True)
def wide() -> Any:
    before = keras.config.dtype_policy().name
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    keras.utils.set_random_seed(1)
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy(before)


def compare(ours: Any, theirs: Any, point: Any, rtol: float = 1e-8) -> None:
    """Value, gradient and HVP of scalar functions of a dict of arrays."""
    direction = {name: RNG.normal(size=np.shape(x)) for name, x in point.items()}
    at = jax.tree.map(jnp.asarray, point)
    want = theirs(at), *jax.jvp(jax.grad(theirs), (at,), (jax.tree.map(jnp.asarray, direction),))
    got = ours(point), nm.grad(ours)(point), nm.hvp(ours)(point, direction)
    for a, b in zip(got, want, strict=True):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(np.asarray(x), y, rtol=rtol, atol=rtol), a, b)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_models(name: str, training: bool) -> None:
    make, shape = CASES[name]
    made = make()
    model = keras.Sequential(made) if isinstance(made, list) else made
    x = RNG.normal(size=shape)
    f = nm.interop.keras.from_keras(model, nm.spec(shape, "float64"), training=training)
    weights = nm.interop.keras.weights(model)
    point = {name: w + 0.1 * RNG.normal(size=w.shape) for name, w in weights.items()} | {"x": x}
    state = [v.value for v in model.non_trainable_variables]

    def theirs(p: Any) -> Any:
        return (model.stateless_call([p[name] for name in weights], state, p["x"], training=training)[0] ** 2).sum()

    compare(
        lambda p: (f({name: p[name] for name in weights}, p["x"]) ** 2).sum(), theirs, point, 1e-10 if name == "dense" else 5e-5
    )


def test_errors_of_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
    weights = nm.interop.keras.weights(model)
    assert [name.split(".")[1] for name in weights] == ["kernel", "bias"]
    f = nm.interop.keras.from_keras(model, nm.spec((2, 3), "float64"))
    with pytest.raises(TreeError, match="a model of Keras requires the weights that it has, got others: w"):
        f(weights | {"w": np.ones(2)}, np.ones((2, 3)))
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(ImportIRError, match="requires Keras with the backend JAX, got torch"):
        nm.interop.keras.from_keras(model, nm.spec((2, 3), "float64"))


class Layer(NamedTuple):
    kernel: Any
    bias: Any


def test_safetensors(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    files = nm.interop.safetensors
    tree = {
        "layers": [Layer(RNG.normal(size=(2, 3)).T, np.ones(2, ml_dtypes.bfloat16)), Layer(np.arange(3), np.float32(2))],
        "n": np.array([True]),
    }
    files.save(tree, tmp_path / "w.safetensors", {"step": "3"})
    names = {"layers.0.kernel", "layers.0.bias", "layers.1.kernel", "layers.1.bias", "n"}
    assert set(load_file(tmp_path / "w.safetensors")) == names == set(files.load(tmp_path / "w.safetensors"))
    again = files.load(tmp_path / "w.safetensors", like=tree)
    assert isinstance(again["layers"][0], Layer)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(tree), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)  # transposed arrays too, which its own writer turns round
    save_file({"w": np.ones((2, 2))}, tmp_path / "other.safetensors")
    with pytest.raises(ShapeError, match=r"load requires w of shape \(4,\), got \(2, 2\)"):
        files.load(tmp_path / "other.safetensors", like={"w": nm.spec(4)})
    with pytest.raises(TreeError, match=r"with the names of like, got one without \['v'\] and with \['w'\]"):
        files.load(tmp_path / "other.safetensors", like={"v": nm.spec(4)})
    with pytest.raises(TreeError, match=r"requires a name for each array, got \['a.b'\]"):
        files.save({"a": {"b": np.ones(1)}, "a.b": np.ones(1)}, tmp_path / "x")


def regression(rows: Any, labels: Any = None) -> None:
    scale = numpyro.sample("scale", dist.HalfCauchy(1.0))
    w = numpyro.sample("w", dist.Normal(0, scale).expand([3]).to_event(1))
    numpyro.sample("labels", dist.Bernoulli(logits=rows @ w), obs=labels)


def mixture(y: Any) -> None:
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(2)))
    means = numpyro.sample("means", dist.Normal(0, 3).expand([2]).to_event(1))
    numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(means, 1.0)), obs=y)


@pytest.mark.parametrize("name", ["regression", "mixture"])
def test_numpyro(name: str) -> None:
    from numpyro.infer.util import potential_energy

    rows = RNG.normal(size=(20, 3))
    model, data = {
        "regression": (regression, (rows, (rows @ [1, 2, 3] > 0).astype(int))),
        "mixture": (mixture, (RNG.normal(size=9),)),
    }[name]
    f, x0 = nm.interop.numpyro.log_density(model, *data)
    point = {name: np.asarray(x + RNG.normal(size=x.shape)) for name, x in x0.items()}
    compare(f, lambda x: -potential_energy(model, data, {}, x), point)
    density = nm.interop.samplers.LogDensity(f, x0)
    assert density(density.vectors.vector(point)) == pytest.approx(float(f(point)), rel=1e-12)
