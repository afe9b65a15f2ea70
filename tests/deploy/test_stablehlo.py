"""The StableHLO beside an artifact: compiled for another target, and differentiated again."""

import json

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir.base.errors import DeployError, TraceError


def loss(params, data):
    return jnp.sum(jnp.tanh(data @ params["w"] + params["b"]) ** 2)


PARAMS = {"b": np.float32(0.5), "w": np.arange(3, dtype=np.float32)}
DATA = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    traced = nm.module(loss=nm.trace(loss, PARAMS, DATA), gradient=nm.trace(nm.grad(loss), PARAMS, DATA))
    return traced.lower().compile().save(tmp_path_factory.mktemp("saved") / "model.vmfb")


def test_it_is_compiled_for_another_target(saved, tmp_path):
    module = nm.load(saved)
    lowered = module.lower()
    assert lowered.describe() == nm.trace(loss, PARAMS, DATA).describe() + "\n" + lowered.entries[1].describe()
    again = nm.load(lowered.compile(nm.CPU("generic")).save(tmp_path / "generic.vmfb"))
    assert again.code.target["cpu"] == "generic"
    for name in ("b", "w"):
        np.testing.assert_allclose(again.gradient(PARAMS, DATA)[name], module.gradient(PARAMS, DATA)[name], rtol=1e-5)


def test_it_is_differentiated_again(saved):
    f = nm.load(saved).lower().function("loss")
    v = {"b": np.float32(1), "w": np.ones(3, np.float32)}
    found, wanted = nm.hvp(f)(PARAMS, v, DATA), nm.hvp(loss)(PARAMS, v, DATA)
    for name in v:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5)


def test_names(saved):
    lowered = nm.load(saved).lower()
    with pytest.raises(TraceError, match=r"requires a name among \['gradient', 'loss'\], got None"):
        lowered.function()
    with pytest.raises(TraceError, match=r"got 'hessian'"):
        lowered.function("hessian")


def test_missing_and_damaged_files(saved):
    module, file = nm.load(saved), saved.with_suffix(".mlirbc")
    content = file.read_bytes()
    try:
        file.write_bytes(content[:-1])
        with pytest.raises(DeployError, match="requires the content that its manifest names"):
            module.lower()
        file.unlink()
        with pytest.raises(DeployError, match=r"lower requires the file .*model.mlirbc, which does not exist"):
            module.lower()
    finally:
        file.write_bytes(content)
    text = saved.with_suffix(".json").read_text()
    try:
        saved.with_suffix(".json").write_text(json.dumps(json.loads(text) | {"stablehlo": ""}))
        with pytest.raises(DeployError, match="saved without"):
            nm.load(saved).lower()
    finally:
        saved.with_suffix(".json").write_text(text)
