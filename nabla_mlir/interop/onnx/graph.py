"""Evaluation of graphs of ONNX, node by node: known values are arrays of NumPy, computed values are tensors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ImportIRError, NablaError
from nabla_mlir.interop.onnx.dtypes import array_of
from nabla_mlir.interop.onnx.table import OPSET, OUTPUTS, NeedsValue, Operator, Refusal, operator_for

Values = dict[str, Any]


def domain_of(node: Any) -> str:
    """The domain of operators; the default one has two names."""
    return "" if node.domain == "ai.onnx" else node.domain


@dataclass(frozen=True)
class Library:
    """The definitions that nodes of a model may call: opsets by domain, and the model's functions by domain and name."""

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], Any]

    @classmethod
    def of(cls, imports: Any, functions: Mapping[tuple[str, str], Any]) -> Library:
        return cls({"" if o.domain == "ai.onnx" else o.domain: o.version for o in imports}, functions)

    def opset(self, node: Any) -> int:
        """The opset of the domain of a node."""
        return self.opsets.get(domain_of(node), 1)

    def check(self, nodes: Sequence[Any]) -> Iterator[str]:
        """Yields a description of each of the nodes whose operator nabla_mlir does not support, also in the bodies of control
        flow.
        """
        for node in nodes:
            key, opset = (domain_of(node), node.op_type), self.opset(node)
            local = self.functions.get(key)
            entry = operator_for(*key, opset)
            if local is not None:
                yield from Library.of(local.opset_import, self.functions).check(local.node)
            elif entry is None and not _has_body(node, opset):
                yield f"{'.'.join(filter(None, key))} (node {node.name!r}, opset {opset})"
            for attribute in node.attribute:
                if attribute.type == attribute.GRAPH:
                    yield from self.check(attribute.g.node)

    def evaluate(self, nodes: Sequence[Any], values: Values, attributes: Mapping[str, Any]) -> None:
        """Computes the nodes in order, and adds their results to `values`.

        `attributes` are those of the function whose body has the nodes.
        """
        for i, node in enumerate(nodes):
            inputs = [values[name] if name else None for name in node.input]
            try:
                results = _Node(self, node, values, {a.name: a for a in _attributes_of(node, attributes)}).results(inputs)
            except UnknownValue as unknown:
                raise UnknownValue(unknown.operator, _sources(nodes[:i], unknown.names, values)) from None
            for name, result in zip(node.output, results, strict=False):
                if name:
                    values[name] = result


class UnknownValue(Exception):  # noqa: N818  (it becomes an ImportIRError that names inputs of the model)
    """An operator needs a number that is computed from arguments.

    Args:
      operator: the name of the operator in messages.
      names: the values of the current graph from which the number is computed.
    """

    operator: str
    names: Sequence[str]

    def __init__(self, operator: str, names: Sequence[str]):
        super().__init__(operator, names)
        self.operator, self.names = operator, names


def _sources(nodes: Sequence[Any], names: Sequence[str], values: Values) -> list[str]:
    """The names of the inputs of the graph from which the values `names` are computed by the nodes, without known values."""
    makers = {name: node for node in nodes for name in node.output}
    found, pending = [], list(names)
    while pending:
        name = pending.pop()
        if name in makers:
            pending += [x for x in _names_read(makers[name]) if x and not isinstance(values.get(x), np.ndarray)]
        else:
            found.append(name)
    return list(dict.fromkeys(found))


def _names_read(node: Any) -> Iterator[str]:
    """Yields the names of a node's inputs, and of the outer values that its branches and bodies read."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == attribute.GRAPH:
            inside = {x.name for x in attribute.g.input} | {x for inner in attribute.g.node for x in inner.output}
            yield from (x for inner in attribute.g.node for x in _names_read(inner) if x not in inside)
            yield from (x.name for x in attribute.g.output if x.name not in inside)


def _attributes_of(node: Any, attributes: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the attributes of a node. In the body of a function, a reference is replaced by the attribute of the function."""
    import onnx

    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            yield attribute
        elif attribute.ref_attr_name in attributes:
            copy = onnx.AttributeProto()
            copy.CopyFrom(attributes[attribute.ref_attr_name])
            copy.name = attribute.name
            yield copy


@dataclass(frozen=True)
class _Node:
    """A node with its library, the values around it and its attributes."""

    library: Library
    node: Any
    values: Values
    attributes: Mapping[str, Any]

    def results(self, inputs: list[Any]) -> Sequence[Any]:
        """The results of the node: computed by onnx if its inputs are known, otherwise by our function for it or by the operator's
        body.
        """
        node, key, opset = self.node, (domain_of(self.node), self.node.op_type), self.library.opset(self.node)
        local = self.library.functions.get(key)
        if local is not None:
            return self._call(local, inputs)
        entry = operator_for(*key, opset)
        if (entry is None or entry.is_folded) and inputs and _is_known(inputs):
            answer = self._evaluate_by_onnx(inputs)
            if answer is not None:
                return answer
        try:
            if entry is None:
                return self._call(_body(node, self.attributes.values(), opset, inputs), inputs)
            return self._apply(entry, inputs)
        except NeedsValue as need:
            raise UnknownValue(self.name, [node.input[i] for i in need.positions if node.input[i]]) from None
        except Refusal as refusal:
            raise ImportIRError(f"{self.name} requires {refusal.condition}, got {refusal.got}.") from None
        except ImportIRError:
            raise
        except NablaError as error:
            raise ImportIRError(f"{self.name} cannot be computed: {str(error).partition(chr(10))[0]}") from error

    @property
    def name(self) -> str:
        """The name in messages."""
        label = self.node.name or ", ".join(self.node.output)
        return f"{self.node.op_type} (node {label!r}, opset {self.library.opset(self.node)})"

    def _apply(self, entry: Operator, inputs: list[Any]) -> Sequence[Any]:
        """The results of our function for the operator `entry`, called with the inputs and the node's attributes.

        Raises Refusal if an attribute is not supported.
        """
        options = {name: self._attribute(a) for name, a in self.attributes.items()}
        unknown = sorted(set(options) - entry.attributes)
        if unknown and "attributes" not in entry.attributes:
            raise Refusal("attributes that nabla_mlir supports", ", ".join(unknown))
        count = len(self.node.output)
        options |= {k: v for k, v in ((OUTPUTS, count), (OPSET, self.library.opset(self.node))) if k in entry.attributes}
        arguments = [self._argument(entry, i, x) for i, x in enumerate(inputs)]
        while arguments and arguments[-1] is None and not entry.is_variadic:  # the defaults of our function hold for missing inputs
            arguments.pop()
        result = entry.function(*arguments, **options)
        return result if isinstance(result, tuple) else (result,)

    def _argument(self, entry: Operator, position: int, value: Any) -> Any:
        """The input `value` at `position` of an operator as an array of NumPy or as a tensor.

        Raises NeedsValue if its value must be known and is not, and Refusal for strings. `entry` is the operator's entry in the
        table.
        """
        if value is None:
            return None
        if entry.is_static(position) and not isinstance(value, np.ndarray):
            raise NeedsValue(position)
        if entry.is_raw or entry.is_static(position):
            return value
        if isinstance(value, np.ndarray) and value.dtype.kind in "OUS":
            raise Refusal("numbers", "strings")
        return nnp.asarray(value)

    def _attribute(self, attribute: Any) -> Any:
        """The value of an attribute; a graph becomes a function."""
        import onnx

        if attribute.type == attribute.GRAPH:
            return Body(self.library, attribute.g, self.values)
        value = onnx.helper.get_attribute_value(attribute)
        return value.decode() if isinstance(value, bytes) else value

    def _call(self, function: Any, inputs: Sequence[Any]) -> list[Any]:
        """The results of `function`, a function of the model or one that defines an operator, for the node's inputs."""
        library_of_function = Library.of(function.opset_import, self.library.functions)
        library = Library({**self.library.opsets, **library_of_function.opsets}, library_of_function.functions)
        values = dict(zip(function.input, [*inputs, *[None] * (len(function.input) - len(inputs))], strict=True))
        values |= {"": None}  # an input without a name is missing
        defaults = {a.name: a for a in function.attribute_proto}
        try:
            library.evaluate(function.node, values, {**defaults, **self.attributes})
        except UnknownValue as unknown:
            outside = dict(zip(function.input, self.node.input, strict=False))
            raise UnknownValue(self.name, [outside[name] for name in unknown.names if outside.get(name)]) from None
        return [values.get(name) for name in function.output]

    def _evaluate_by_onnx(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The results of a node with known inputs, computed by onnx; None if onnx cannot compute them."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        if any(a.type == a.GRAPH for a in self.attributes.values()):
            return None
        node = onnx.NodeProto()
        node.CopyFrom(self.node)
        del node.attribute[:]
        node.attribute.extend(self.attributes.values())
        values = {name: x for name, x in zip(node.input, inputs, strict=True) if name}
        # A graph is needed, because a single node would be evaluated with the newest opset.
        begin, end = ([onnx.ValueInfoProto(name=x) for x in names] for names in (values, filter(None, node.output)))
        graph = onnx.helper.make_graph([node], "folded", begin, end)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = ReferenceEvaluator(graph, opsets=dict(self.library.opsets)).run(None, values)
        except Exception:  # onnx raises many classes of errors; the table computes the results instead
            return None
        found = iter([np.asarray(x) if isinstance(x, np.generic) else x for x in results])
        return [next(found) if name else None for name in node.output]  # an output without a name is not computed


@dataclass(frozen=True)
class Body:
    """The graph of a branch or a loop as a function; it sees the values around it."""

    library: Library
    graph: Any
    outside: Values

    @property
    def names(self) -> list[str]:
        """The names of its inputs."""
        return [x.name for x in self.graph.input]

    def __call__(self, *inputs: Any) -> list[Any]:
        """The results of the graph for its inputs; its nodes may also read the values `outside`."""
        values = dict(self.outside) | {t.name: array_of(t) for t in self.graph.initializer}
        values |= dict(zip(self.names, inputs, strict=True))
        self.library.evaluate(self.graph.node, values, {})
        return [values[x.name] for x in self.graph.output]


def _is_known(values: Sequence[Any]) -> bool:
    return all(x is None or isinstance(x, np.ndarray) or (isinstance(x, list) and _is_known(x)) for x in values)


# ---------------------------------------------------------------- operators that onnx defines by other operators


def _schema(node: Any, opset: int) -> Any:
    """The definition of a node's operator in an opset; None if onnx has none."""
    import onnx

    try:
        return onnx.defs.get_schema(node.op_type, opset, domain_of(node))
    except onnx.defs.SchemaError:
        return None


def _has_body(node: Any, opset: int) -> bool:
    """True if onnx defines the operator of a node by a function of other operators."""
    schema = _schema(node, opset)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _body(node: Any, attributes: Any, opset: int, inputs: Sequence[Any]) -> Any:
    """The function of other operators by which onnx defines the operator of a node.

    `opset` is the version of the operators. Raises Refusal if there is none for these inputs.
    """
    import onnx

    schema = _schema(node, opset)
    copy = onnx.NodeProto()  # the node with resolved attributes
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(attributes)
    text = b""
    if schema.has_function:
        text = schema.get_function_with_opset_version(_newest(schema.function_opset_versions, opset))
    elif schema.has_context_dependent_function:
        types = [_type_of(x).SerializeToString() for x in inputs]
        version = _newest(schema.context_dependent_function_opset_versions, opset)
        text = schema.get_context_dependent_function_with_opset_version(version, copy.SerializeToString(), types)
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    if not function.node:
        raise Refusal("a form that onnx defines", f"{node.op_type} of opset {opset}")
    known = {a.name for a in function.attribute_proto}
    function.attribute_proto.extend(
        a.default_value for name, a in schema.attributes.items() if name not in known and a.default_value.name
    )
    return function


def _newest(versions: Sequence[int], opset: int) -> int:
    """The newest version that is not newer than the opset."""
    return max((v for v in versions if v <= opset), default=min(versions))


def _type_of(value: Any) -> Any:
    """The type of a value in ONNX's format; the empty type for None."""
    import onnx

    if value is None:
        return onnx.TypeProto()
    if isinstance(value, list):
        return onnx.helper.make_sequence_type_proto(_type_of(value[0]))
    dtype = value.dtype
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(dtype), value.shape)
