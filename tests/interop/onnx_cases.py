"""The test cases that onnx's wheel carries, run by `nm.from_onnx`: what came out, and what was refused."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import nabla_mlir as nm
from nabla_mlir.base.errors import ImportIRError

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


@dataclass(frozen=True)
class Case:
    """A model, and for its inputs the results."""

    name: str
    model: Any
    inputs: list[Any]
    outputs: list[Any]
    rtol: float
    atol: float


@functools.cache
def node_cases() -> tuple[Case, ...]:
    """One operator each, as onnx specifies them by examples."""
    from onnx.backend.test import loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(
            Case(case.name, case.model, list(map(_array, inputs)), list(map(_array, outputs)), case.rtol, case.atol)
            for case in loader.load_model_tests(kind="node")
            for inputs, outputs in case.data_sets
        )


def stored_cases() -> Iterator[Case]:
    """Models with files of data: small ones, and what PyTorch exported years ago."""
    for folder in sorted(x for kind in ("simple", "pytorch-operator", "pytorch-converted") for x in (DATA / kind).iterdir()):
        model = onnx.load(folder / "model.onnx")
        for data in sorted(folder.glob("test_data_set_*")):
            inputs = [_read(data / f"input_{i}.pb", x.type) for i, x in enumerate(inputs_of(model))]
            outputs = [_read(data / f"output_{i}.pb", x.type) for i, x in enumerate(model.graph.output)]
            yield Case(folder.name, model, inputs, outputs, 1e-3, 1e-5)


def inputs_of(model: Any) -> list[Any]:
    """The inputs that are no initializers."""
    held = {x.name for x in model.graph.initializer}
    return [x for x in model.graph.input if x.name not in held]


def _read(path: Path, type: Any) -> Any:
    if type.WhichOneof("value") == "sequence_type":
        sequence = onnx.SequenceProto.FromString(path.read_bytes())
        return [numpy_helper.to_array(x) for x in sequence.tensor_values]
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def _array(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_array, value))
    value = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
    return np.asarray(value) if isinstance(value, np.generic) else value


def imported(case: Case) -> tuple[Any, list[Any], Any]:
    """The function, its arguments and its results; what an error asks for is held constant."""
    names = [x.name for x in inputs_of(case.model)]
    constants: dict[str, Any] = {}
    while True:
        try:
            f = nm.from_onnx(case.model, constants=constants)
            arguments = [x for name, x in zip(names, case.inputs, strict=False) if name not in constants]
            return f, arguments, f(*arguments)
        except ImportIRError as error:
            wanted = re.search(r"constants=\{'(.+?)'", str(error))
            if wanted is None or wanted[1] not in names or wanted[1] in constants:
                raise
            constants[wanted[1]] = case.inputs[names.index(wanted[1])]


def assert_equal(got: Any, wanted: Any, case: Case) -> None:
    """The same structure, dtype, shape and numbers."""
    if wanted is None or isinstance(wanted, list):
        assert (got is None) if wanted is None else len(got) == len(wanted), case.name
        for x, y in zip(got or (), wanted or (), strict=True):
            assert_equal(x, y, case)
        return
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), case.name
    # Sums in narrow floats depend on their order: two right ones differ by a unit in the last place each.
    rtol = {"bfloat16": 2**-6, "float16": 2**-9}.get(wanted.dtype.name, case.rtol)
    kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(kind), wanted.astype(kind), rtol=rtol, atol=case.atol, err_msg=case.name)


# ---------------------------------------------------------------- in double precision


def widened(case: Case) -> Case:
    """The same case with f64 in the place of f32."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    _widen_graph(model.graph)
    return Case(case.name, model, list(map(_wide, case.inputs)), case.outputs, case.rtol, case.atol)


def _wide(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_wide, value))
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype == np.float32 else value


def _widen_graph(graph: Any) -> None:
    for x in [*graph.input, *graph.output]:
        if x.type.WhichOneof("value") == "tensor_type" and x.type.tensor_type.elem_type == 1:
            x.type.tensor_type.elem_type = 11
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        for attribute in list(node.attribute):
            _widen_attribute(node, attribute)
        if node.op_type in ("LayerNormalization", "GroupNormalization", "RMSNormalization") and not any(
            a.name == "stash_type" for a in node.attribute
        ):
            node.attribute.append(onnx.helper.make_attribute("stash_type", 11))


def _widen_attribute(node: Any, attribute: Any) -> None:
    if attribute.type == attribute.TENSOR:
        _widen_tensor(attribute.t)
    if attribute.type == attribute.GRAPH:
        _widen_graph(attribute.g)
    if attribute.name in ("to", "dtype", "stash_type", "softmax_precision", "output_dtype") and attribute.i == 1:
        attribute.i = 11
    if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        value = numpy_helper.from_array(np.array(onnx.helper.get_attribute_value(attribute), np.float64))
        node.attribute.remove(attribute)
        node.attribute.append(onnx.helper.make_attribute("value", value))


def _widen_tensor(tensor: Any) -> None:
    if tensor.data_type == 1:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
