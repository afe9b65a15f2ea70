"""The tests of onnx itself, from its wheel: values of every operator, of stored models, of nine networks; and derivatives."""

from __future__ import annotations

import collections
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper
from onnx_cases import DATA, Case, assert_equal, imported, inputs_of, node_cases, stored_cases, widened

import nabla_mlir as nm
from nabla_mlir.base.errors import ImportIRError

PAGE = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text()
# Operators whose cases are refused, all of them or those of some types, each with a word of the reason.
REFUSED = {
    "Bernoulli": "random",
    "RandomUniformLike": "random",
    "Dropout": "random",
    "NonMaxSuppression": "knows",
    "ImageDecoder": "knows",
    "RegexFullMatch": "knows",
    "StringConcat": "knows",
    "StringNormalizer": "knows",
    "StringSplit": "knows",
    "TfIdfVectorizer": "knows",
    "LabelEncoder": "strings",
    "ai.onnx.preview.training.Adagrad": "knows",
    "ai.onnx.preview.training.Adam": "knows",
    "ai.onnx.preview.training.Momentum": "knows",
    "ai.onnx.preview.training.Gradient": "knows",
    "Cast": "dtype",
    "CastLike": "dtype",
    "QuantizeLinear": "dtype",
    "DequantizeLinear": "dtype",
    "input or result": "dtype",
}


def _refusal(error: ImportIRError) -> tuple[str, str]:
    """The operator that a message names, and its reason."""
    text = str(error).replace("\n", " ")
    unknown = re.search(r"operators that it knows, got (\S+) \(node", text)
    if unknown:
        return unknown[1], "knows"
    named = re.match(r"(\w+) \(node '.*?', opset \d+\)", text)
    reason = next(word for word in ("random", "dtype", "strings") if word in text)
    return (named[1] if named else "input or result"), reason


def _run(cases: Any) -> tuple[collections.Counter[str], set[tuple[str, str]]]:
    counts: collections.Counter[str] = collections.Counter()
    refused = set()
    for case in cases:
        try:
            _, arguments, got = imported(case)
        except ImportIRError as error:
            refused.add(_refusal(error))
            counts["refused"] += 1
            continue
        assert_equal([got] if len(case.outputs) == 1 else list(got), case.outputs, case)
        counts["passed" if arguments or not inputs_of(case.model) else "known"] += 1
    return counts, refused


def test_nodes_give_what_onnx_says_or_are_refused_by_name() -> None:
    counts, refused = _run(node_cases())
    assert all(REFUSED.get(name) == reason for name, reason in refused), refused - set(REFUSED.items())
    assert counts["passed"] > 1700
    if onnx.__version__.startswith("1.23."):
        assert f"{counts['passed']} pass, {counts['known']} more" in PAGE
        assert f"{counts['refused']} are refused" in PAGE


def test_stored_models_give_what_they_gave_in_pytorch() -> None:
    counts, refused = _run(stored_cases())
    assert refused <= set(REFUSED.items())
    assert counts["passed"] >= 132


@pytest.mark.parametrize(
    "name", ["bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "zfnet512"]
)
def test_networks_of_the_model_zoo(name: str) -> None:
    """Their graphs, with constant weights: what onnx's own evaluator gave is in the wheel.

    A softmax of numbers of 10^10 is decided by their last bits, which products of matrices round otherwise on each machine: what
    it is taken of is compared with the logarithm.
    """
    model = onnx.load(DATA / "light" / f"light_{name}.onnx")
    wanted = numpy_helper.to_array(onnx.TensorProto.FromString((DATA / "light" / f"light_{name}_output_0.pb").read_bytes()))
    f = nm.from_onnx(model)
    (image,) = (x for x in model.graph.input if x.name in f.inputs)
    shape = [d.dim_value for d in image.type.tensor_type.shape.dim]
    x = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
    found = np.asarray(f(x))
    if model.graph.node[-1].op_type != "Softmax":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        return
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.sum(), wanted.sum(), rtol=1e-5)
    model.graph.output[0].name = model.graph.node.pop().input[0]
    logits, logarithms = np.asarray(nm.from_onnx(model)(x), np.float64), np.log(wanted, dtype=np.float64)
    np.testing.assert_allclose(
        logits - logits.max(), logarithms - logarithms.max(), rtol=0, atol=1e-6 * max(1.0, np.abs(logits).max())
    )


# ---------------------------------------------------------------- derivatives of nodes

# Their definitions compute in 32 bits, whatever the inputs are.
NARROW = ("test_linear_attention", "test_causal_conv_with_state")


def _is_float(x: Any) -> bool:
    return getattr(x, "dtype", None) == np.float64 and bool(x.size)


def _compared(case: Case, rng: np.random.Generator) -> str:
    """How a directional derivative and an HVP compare with differences: a word for the count."""
    try:
        f, arguments, results = imported(case)
    except ImportIRError:
        return "refused"
    flat = results if isinstance(results, tuple) else (results,)
    wrt = [i for i, x in enumerate(arguments) if _is_float(x)]
    weights = {i: rng.normal(size=x.shape) for i, x in enumerate(flat) if _is_float(x)}
    if not wrt or not weights:
        return "no floats"

    def loss(*xs: Any) -> Any:
        point = list(arguments)
        for i, x in zip(wrt, xs, strict=True):
            point[i] = x
        results = f(*point)
        flat = results if isinstance(results, tuple) else (results,)
        return sum((flat[i] * w).sum() for i, w in weights.items())

    x = [arguments[i] for i in wrt]
    v = [rng.normal(size=a.shape) for a in x]

    def at(step: float) -> tuple[Any, Any]:
        """The value and the gradient, and both along v."""
        both = lambda *y: (loss(*y), nm.grad(loss, tuple(range(len(x))))(*y))  # noqa: E731
        point = tuple(a + step * b for a, b in zip(x, v, strict=True))
        (value, gradient), (slope, product) = nm.jvp(both, point, tuple(v))
        flat = lambda g: np.concatenate([np.ravel(a) for a in g])  # noqa: E731
        return np.append(flat(gradient), value), np.append(flat(product), slope)

    with np.errstate(all="ignore"):
        (here, slope), ahead, behind = at(0), at(STEP)[0], at(-STEP)[0]
    if not np.isfinite(np.concatenate([here, slope, ahead, behind])).all():
        return "not finite"
    forward, backward = (ahead - here) / STEP, (here - behind) / STEP
    scale = 1 + np.abs(slope).max()
    if np.abs(forward - backward).max() > 1e-2 * scale:
        return "kink"
    difference = (forward + backward) / 2
    if np.abs(difference - slope).max() > 1e-4 * scale:
        halved = (at(STEP / 2)[0] - at(-STEP / 2)[0]) / STEP
        if np.abs(halved - difference).max() > 1e-2 * scale:  # a jump counts more over a smaller step
            return "kink"
    np.testing.assert_allclose(difference, slope, rtol=0, atol=1e-4 * scale, err_msg=case.name)
    along = here[:-1] @ np.concatenate([np.ravel(b) for b in v])
    np.testing.assert_allclose(along, slope[-1], rtol=0, atol=1e-8 * scale, err_msg=case.name)
    return "passed"


STEP = 1e-5


def test_derivatives_of_nodes_are_those_of_differences() -> None:
    """Gradients and Hessian-vector products in f64, of every case that has floats and no kink within a step."""
    rng = np.random.default_rng(0)
    counts: collections.Counter[str] = collections.Counter()
    for case in node_cases():
        narrow = any(x.type.tensor_type.elem_type in (10, 16) for x in case.model.graph.input)
        if not narrow and not case.name.endswith(("_expanded", "_expanded_ver18")) and not case.name.startswith(NARROW):
            counts[_compared(widened(case), rng)] += 1
    assert counts["passed"] > 500, counts
    assert counts["kink"] < 0.1 * counts["passed"], counts
    if onnx.__version__.startswith("1.23."):
        assert f"{counts['passed']} of them" in PAGE, counts
