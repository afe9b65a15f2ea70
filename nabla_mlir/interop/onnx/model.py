"""Models of ONNX as functions of nabla_mlir."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError, ImportIRError, ShapeError, TraceError, TreeError, user_frame
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.interop.onnx.dtypes import array_of, dtype_of
from nabla_mlir.interop.onnx.graph import Library, UnknownValue, domain_of
from nabla_mlir.interop.onnx.table import Refusal, operator_for
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.promotion import adopted
from nabla_mlir.transforms.vectorized import per_vectorized_entry


@dataclass(frozen=True)
class OnnxFunction:
    """A model as a function of its inputs, in order; if it was imported with parameters, they come first.

    Lengths that the model leaves open are those of each call. All transforms accept it.

    Attributes:
      parameters: the weights by their names: floating-point initializers that do not determine a shape.
      inputs: the names of the arguments.
      outputs: the names of the results.
    """

    model: Any = field(repr=False)
    library: Library = field(repr=False)
    constants: Mapping[str, np.ndarray] = field(repr=False)
    with_parameters: bool
    parameters: dict[str, np.ndarray] = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def __name__(self) -> str:
        return self.model.graph.name or "model"

    def __call__(self, *args: Any) -> Any:
        """The results of the model: a single result as it is, several as a tuple; sequences are lists."""
        count = len(self.inputs) + self.with_parameters
        if len(args) != count:
            raise TraceError(
                f"{self.__name__} requires {count} arguments, got {len(args)}.",
                where=user_frame(),
                help=f"{'a dict of parameters, and ' * self.with_parameters}{', '.join(self.inputs)}.",
            )
        if self.with_parameters and (not isinstance(args[0], Mapping) or set(args[0]) != set(self.parameters)):
            got = sorted(args[0]) if isinstance(args[0], Mapping) else type(args[0]).__name__
            raise TreeError(
                f"{self.__name__} requires a dict of its parameters {sorted(self.parameters)}, got {got}.",
                where=user_frame(),
                help="its attribute `parameters` has those of the model.",
            )
        return staged(per_vectorized_entry(self._emit))(*args)

    def _emit(self, *args: Any) -> Any:
        """The results of a call inside a traced function."""
        weights, args = (args[0], args[1:]) if self.with_parameters else ({}, args)
        declarations = {x.name: x for x in self.model.graph.input}
        lengths: dict[str, int] = {}
        values: dict[str, Any] = {**self.constants, "": None}
        values |= {name: _checked(declarations[name], x, lengths) for name, x in zip(self.inputs, args, strict=True)}
        values |= {name: _weight(name, weights[name], x) for name, x in self.parameters.items() if name in weights}
        try:
            self.library.evaluate(self.model.graph.node, values, {})
        except UnknownValue as unknown:
            raise self._refused(unknown) from None
        results = tuple(_result(name, values[name]) for name in self.outputs)
        return results[0] if len(results) == 1 else results

    def _refused(self, unknown: UnknownValue) -> ImportIRError:
        """The error for a value that must be known at import; `unknown` has the operator and the inputs from which it is
        computed.
        """
        inputs = [name for name in unknown.names if name in self.inputs]
        weights = [name for name in unknown.names if name in self.parameters]
        advice = [f"constants={{{', '.join(f'{name!r}: value' for name in inputs)}}}"] * bool(inputs)
        advice += ["parameters=False, or weights that no shape depends on"] * bool(weights)
        return ImportIRError(
            f"{unknown.operator} requires values that are known when the model is traced, got one that is computed "
            f"from {', '.join(unknown.names)}.",
            help="; ".join(advice),
        )


def from_onnx(model: Any, *, parameters: bool = False, constants: Mapping[str, Any] | None = None) -> OnnxFunction:
    """A model of ONNX as a function that every transform accepts.

    Each operator is a function of arrays of nabla_mlir, or is expanded into the operators by which ONNX defines it. Values that
    depend only on shapes, initializers and `constants` are computed at import, and may determine shapes. Lengths that the model
    leaves open are those of each call. Branches and loops remain, unless their conditions are known. Dropout in inference is
    the identity.

    Args:
      model: a path, the bytes of a file, or an `onnx.ModelProto`.
      parameters: True makes the weights, a dict of arrays by their names, the first argument of the function; its attribute
        ``parameters`` has the weights of the model. Otherwise they are constants.
      constants: values of inputs that cannot be arguments, because they determine shapes or are strings.

    Raises:
      ImportIRError: onnx is not installed, the bytes are not a model, or an operator, an attribute or a type is not supported. The
        message names the operator, its node and the opset. An unknown operator is refused at once, others at the first call.

    Example:
      >>> import nabla_mlir as nm  # doctest: +SKIP
      >>> f = nm.from_onnx("model.onnx", parameters=True)  # doctest: +SKIP
      >>> nm.grad(lambda w, x: f(w, x).sum())(f.parameters, x)  # doctest: +SKIP
    """
    proto = _loaded(model)
    graph = proto.graph
    external = [x.name for x in graph.initializer if x.data_location == x.EXTERNAL]
    if external:
        raise ImportIRError(
            f"from_onnx requires data within the model, got {', '.join(external)} in a separate file.",
            help="give the path of the model instead.",
        )
    functions = {(domain_of(f), f.name): f for f in proto.functions}
    library = Library.of(proto.opset_import, functions)
    unknown = sorted(set(library.check(graph.node)))
    if graph.sparse_initializer:
        unknown.append("sparse initializers")
    if unknown:
        raise ImportIRError(
            f"from_onnx requires operators that it knows, got {', '.join(unknown)}.",
            help="docs/onnx.md lists them; a part of the model can be cut out by onnx.utils.Extractor.",
        )
    initializers = {t.name: array_of(t) for t in graph.initializer}
    values = {name: np.asarray(x) for name, x in (constants or {}).items()}
    names = [x.name for x in graph.input if x.name not in initializers]
    for name in values:
        if name not in names:
            raise ImportIRError(f"from_onnx requires constants that are inputs of the model, got {name!r} among {names}.")
    static = set(_static_names(library, graph))
    weights = {name: x for name, x in initializers.items() if name not in static and is_differentiable(x.dtype)}
    inputs = tuple(name for name in names if name not in values)
    for x in graph.input:
        if x.name in inputs and x.type.WhichOneof("value") == "tensor_type":
            _dtype(x)
    return OnnxFunction(proto, library, initializers | values, parameters, weights, inputs, tuple(x.name for x in graph.output))


def _loaded(model: Any) -> Any:
    """The model from a path, bytes or an `onnx.ModelProto`; raises ImportIRError if onnx is not installed, or the model cannot be
    read.
    """
    try:
        import onnx
    except ImportError:
        raise ImportIRError(
            "from_onnx requires onnx, got an environment without it.", help="pip install 'nabla-mlir[onnx]'"
        ) from None
    if isinstance(model, onnx.ModelProto):
        return model
    try:
        return onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(Path(model))
    except OSError as error:
        raise ImportIRError(f"from_onnx requires a file that can be read, got {error}.") from None
    except Exception as error:
        kind = "bytes" if isinstance(model, bytes) else repr(str(model))
        raise ImportIRError(
            f"from_onnx requires a model of ONNX, got {kind}, which protobuf does not read: {str(error).partition(chr(10))[0]}."
        ) from error


def _static_names(library: Library, graph: Any) -> Iterator[str]:
    """The names of the values that determine shapes, in `graph` and in the bodies of its control flow.

    `library` knows the versions of the operators.
    """
    for node in graph.node:
        entry = operator_for(domain_of(node), node.op_type, library.opset(node))
        if entry is not None and (domain_of(node), node.op_type) not in library.functions:
            yield from (name for i, name in enumerate(node.input) if entry.is_static(i))
        for attribute in node.attribute:
            if attribute.type == attribute.GRAPH:
                yield from _static_names(library, attribute.g)


# ---------------------------------------------------------------- arguments and results


def _checked(declaration: Any, x: Any, lengths: dict[str, int]) -> Any:
    """The argument `x` as a tensor of the type that the model declares; raises DtypeError or ShapeError if it has another type.

    `lengths` has the open lengths that earlier arguments fixed, by name; the same name means the same length.
    """
    if declaration.type.WhichOneof("value") != "tensor_type" or x is None:
        return x
    type, dtype = declaration.type.tensor_type, _dtype(declaration)
    tensor = adopted(x, dtype)
    if tensor.dtype != dtype:
        raise DtypeError(f"the input {declaration.name!r} requires {dtype}, got {tensor.dtype}.", where=user_frame())
    if not type.HasField("shape"):
        return tensor
    wanted = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in type.shape.dim]
    fits = len(wanted) == tensor.ndim and all(
        m is None or n == (lengths.setdefault(m, n) if isinstance(m, str) else m) for m, n in zip(wanted, tensor.shape, strict=True)
    )
    if not fits:
        shape = ", ".join("?" if m is None else str(m) for m in wanted)
        known = f" where {lengths}" if lengths else ""
        raise ShapeError(f"the input {declaration.name!r} requires shape ({shape}){known}, got {tensor.shape}.", where=user_frame())
    return tensor


def _dtype(declaration: Any) -> np.dtype:
    """The dtype of an input of the model; raises ImportIRError if nabla_mlir does not have it."""
    try:
        return dtype_of(declaration.type.tensor_type.elem_type)
    except Refusal as refusal:
        raise ImportIRError(
            f"the input {declaration.name!r} requires {refusal.condition}, got {refusal.got}.",
            help=f"constants={{{declaration.name!r}: value}}, if the value is known.",
        ) from None


def _weight(name: str, x: Any, like: np.ndarray) -> Any:
    """The new value `x` of the parameter `name` as a tensor; raises ShapeError if its shape or
    dtype differs from those of `like`.
    """
    tensor = adopted(x, like.dtype)
    if tensor.shape != like.shape or tensor.dtype != like.dtype:
        raise ShapeError(
            f"the parameter {name!r} requires {like.dtype} of shape {like.shape}, got {tensor.dtype} of shape {tensor.shape}.",
            where=user_frame(),
        )
    return tensor


def _result(name: str, value: Any) -> Any:
    """The result `value` as a tensor, or as a list of tensors; raises ImportIRError if nabla_mlir does not have its dtype."""
    if isinstance(value, list):
        return [_result(name, x) for x in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUS":
        raise ImportIRError(f"the result {name!r} requires numbers, got strings.", help="cut it out by onnx.utils.Extractor.")
    if value is None:  # an optional result that is absent
        return None
    try:
        dtype_named(value.dtype.name)
    except DtypeError:
        raise ImportIRError(f"the result {name!r} requires a dtype of nabla_mlir, got {value.dtype}.") from None
    return nnp.asarray(value)
