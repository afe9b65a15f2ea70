"""Emission of operations, and codecs between their attributes and plain Python values.

StableHLO is registered in the compiler's bindings but has no Python classes there, so operations are created by name. A
codec converts a Python value to an attribute and back: ``decode(encode(v)) == v``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DtypeError, user_frame
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.locations import here
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type

OPTIMIZATION_BARRIER = "stablehlo.optimization_barrier"
COMPUTE_BARRIERS = ("iree_tensor_ext.compute_barrier.start", "iree_tensor_ext.compute_barrier.end")
BARRIERS = (OPTIMIZATION_BARRIER, *COMPUTE_BARRIERS)  # operations that return their operands
SLICES = ("stablehlo.slice", "stablehlo.dynamic_slice")  # the result is a window of the first operand


def emit(
    name: str,
    operands: Sequence[ir.Value],
    *,
    results: Sequence[ir.Type] | None = None,
    attributes: Mapping[str, ir.Attribute] | None = None,
    regions: int = 0,
) -> ir.Operation:
    """Creates the operation `name` at the current insertion point. Without `results`, MLIR infers their types.

    `regions` is the number of its regions, which are empty.
    """
    return ir.Operation.create(
        name, results=results, operands=operands, attributes=attributes, regions=regions, infer_type=results is None, loc=here()
    )


@functools.lru_cache(maxsize=4096)
def parse_attribute(text: str) -> ir.Attribute:
    """Parses an attribute; cached, since parsing costs about 100 us."""
    return ir.Attribute.parse(text, context())


def elements(array: np.ndarray) -> ir.Attribute:
    """The dense attribute that holds `array`; a constant array becomes a splat."""
    array = np.asarray(array, order="C")
    with context():
        if array.dtype == np.bool_:
            return ir.DenseElementsAttr.get(array)
        type = tensor_type(array.shape, array.dtype)
        if array.dtype.name in ("int4", "uint4", "int2", "uint2"):
            return ir.Attribute.parse(f"dense<{array.astype(int).tolist()}> : {type}")
        # The bindings read standard formats only; the bits of any other type travel as unsigned integers.
        raw = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind not in "iufc" else array
        return ir.DenseElementsAttr.get(raw, type=type)


def splat(value: complex | float | int | bool, shape: tuple[int, ...], dtype: np.dtype) -> ir.Attribute:
    """The dense attribute of `shape` with `value` for every element; its size does not depend on the shape."""
    if type(value) not in (bool, int, float, complex):  # a number of NumPy, or a member of an enum.IntEnum
        value = np.asarray(value).item()
    return _splat(repr(value), shape, dtype)


@functools.lru_cache(maxsize=8192)
def _splat(text: str, shape: tuple[int, ...], dtype: np.dtype) -> ir.Attribute:
    """The attribute of an array filled with one number, whose text is the key of the cache.

    `text` is the number as text, such as "1.5".
    """
    # repr separates -0.0 from 0.0 and True from 1, which compare equal as cache keys.
    value = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}.get(text)
    if value is None:
        value = _literal(text)
    if _is_lost(value, dtype):
        raise DtypeError(f"a constant requires a number of {dtype}, got {value!r}.", where=user_frame())
    scalar = elements(np.asarray(value).astype(dtype))
    if not shape:
        return scalar
    if dtype.kind == "c":  # the bindings cannot return a parsed complex attribute
        return elements(np.full(shape, value, dtype))
    return ir.Attribute.parse(f"{str(scalar).rsplit(':', 1)[0]}: {tensor_type(shape, dtype)}", context())


def _is_lost(value: Any, dtype: np.dtype) -> bool:
    """True for a complex number in a real dtype, and an integer out of the range of an integer dtype."""
    if isinstance(value, complex):
        return dtype.kind != "c"
    if not isinstance(value, int) or dtype.kind not in "iu":
        return False
    info = np.iinfo(dtype)
    return not info.min <= value <= info.max


def _literal(text: str) -> Any:
    """The Python number with this `repr`."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text)
    except ValueError:
        return complex(text) if text.endswith(("j", "j)")) else float(text)


def array_of(attribute: ir.Attribute) -> np.ndarray:
    """The NumPy array that a dense attribute holds (a read-only view of one element for a splat)."""
    shape, dtype = shape_and_dtype(attribute.type)
    if 0 in shape:
        return np.zeros(shape, dtype)
    if dtype.kind in "biuf" and dtype.isbuiltin == 1:
        if attribute.is_splat and shape:
            return _repeated(np.asarray(splat_value(attribute), dtype), shape)
        return np.array(attribute).astype(dtype, copy=False).reshape(shape)
    return _parsed_elements(attribute, shape, dtype)


def _repeated(number: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A read-only array that repeats one number: `np.broadcast_to` takes ten times as long."""
    array = np.ndarray(shape, number.dtype, number, strides=(0,) * len(shape))
    array.flags.writeable = False
    return array


def _parsed_elements(attribute: ir.Attribute, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The array that a dense attribute holds, from the text of the attribute."""
    # The bindings have no reader for complex and narrow types; their text is exact (hexadecimal when long).
    body = str(attribute).removeprefix("dense<").removesuffix(f"> : {attribute.type}")
    hexadecimal = re.fullmatch(r'"0x([0-9A-Fa-f]*)"', body)
    if hexadecimal:
        return np.frombuffer(bytes.fromhex(hexadecimal[1]), dtype).reshape(shape)
    if dtype.kind == "c":
        pairs = re.findall(r"\(([^,()]+),([^,()]+)\)", body)
        flat = np.array([complex(_number(re_, dtype), _number(im, dtype)) for re_, im in pairs]).astype(dtype)
    else:
        flat = np.array([_number(n, dtype) for n in re.findall(r"[^\s,\[\]]+", body)]).astype(dtype)
    return np.broadcast_to(flat.reshape(()), shape) if flat.size == 1 else flat.reshape(shape)


def _number(text: str, dtype: np.dtype) -> float:
    """The number that MLIR prints as decimal digits, or as the bits of the dtype in hexadecimal digits."""
    text = text.strip()
    if not text.startswith("0x"):
        return float(text)
    parts: dict[str, np.dtype] = {"complex64": np.dtype(np.float32), "complex128": np.dtype(np.float64)}
    part = parts.get(dtype.name, dtype)
    return float(np.array(int(text, 16), f"u{part.itemsize}").view(part))


def constant_array(op: ir.Operation) -> np.ndarray:
    """The NumPy array of a `stablehlo.constant`."""
    return array_of(constant_attribute(op))


def constant_splat(op: ir.Operation) -> complex | float | int | bool | None:
    """The value of a `stablehlo.constant` with equal elements, as a Python number; else None."""
    return splat_value(constant_attribute(op))


def integer_constant(value: ir.Value) -> int | None:
    """The number of an integer scalar that is a constant of StableHLO or of the dialect `arith`; None for other values."""
    op = made_by(value)
    if op is not None and op.name == "arith.constant" and isinstance(value.type, (ir.IndexType, ir.IntegerType)):
        return int(ir.IntegerAttr(op.attributes["value"]).value)
    if op is None or op.name != "stablehlo.constant" or value.type.shape:
        return None
    number = constant_splat(op)
    return int(number) if isinstance(number, int) and not isinstance(number, bool) else None


@dataclass(frozen=True)
class _ComplexElements:
    """A dense attribute of complex numbers as text, because the bindings of IREE 3.13 cannot return the attribute."""

    text: str
    type: ir.Type

    def __str__(self) -> str:
        return self.text


def constant_attribute(op: ir.Operation) -> Any:
    """The value of a `stablehlo.constant`, equal for equal constants."""
    try:
        return op.attributes["value"]
    except TypeError:
        copy = op.clone(ip=False).operation  # a clone, because printing an operation numbers all values of its function
        text = copy.get_asm(large_elements_limit=1 << 40, use_local_scope=True)
        return _ComplexElements(text[text.index("dense<") :].split(" loc(")[0].strip(), op.results[0].type)


def splat_value(attribute: ir.Attribute) -> complex | float | int | bool | None:
    """The value of a splat constant as a Python number, or None if the attribute is not one."""
    if not isinstance(attribute, (ir.DenseElementsAttr, _ComplexElements)):
        return None
    return _splat_value(attribute)


@functools.lru_cache(maxsize=8192)
def _splat_value(attribute: Any) -> complex | float | int | bool | None:
    """The number of an array of equal elements; None for other arrays and for empty ones."""
    shape, dtype = shape_and_dtype(attribute.type)
    if dtype.kind == "c":
        array = _parsed_elements(attribute, shape, dtype)
        return array.flat[0].item() if array.size and (array == array.flat[0]).all() else None
    if not attribute.is_splat:
        return None
    if 0 in shape:
        return None
    if dtype.kind in "biu" or (dtype.kind == "f" and dtype.name in np.sctypeDict):
        value = attribute.get_splat_value().value
        if dtype.kind == "u" and value < 0:
            value += 1 << (8 * dtype.itemsize)
        return value
    return _parsed_elements(attribute, shape, dtype).reshape(-1)[0].item()


@dataclass(frozen=True)
class Codec:
    """A conversion between a Python value and an attribute. `decode(encode(v)) == v` (tested for every record)."""

    encode: Callable[[Any], ir.Attribute]
    decode: Callable[[ir.Attribute], Any]


def _i64_array(values: Sequence[int]) -> ir.Attribute:
    return _i64_tuple(tuple(values))


@functools.lru_cache(maxsize=4096)
def _i64_tuple(values: tuple[int, ...]) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get([int(v) for v in values], context())


@functools.lru_cache(maxsize=4096)
def _integers(attribute: ir.Attribute) -> tuple[int, ...]:
    return tuple(attribute)


def _enum_encode(kind: str) -> Callable[[str], ir.Attribute]:
    """A function from a word to the attribute of an enumeration."""
    return lambda word: parse_attribute(f"#stablehlo<{kind} {word}>")


@functools.lru_cache(maxsize=1024)
def _enum_word(text: str) -> str:
    """The word in the text of an attribute of an enumeration."""
    return text.rstrip(">").split()[-1]


def enum(kind: str) -> Codec:
    """An enumeration such as `#stablehlo<comparison_direction LT>`, as its word."""
    return Codec(_enum_encode(kind), lambda attribute: _enum_word(str(attribute)))


def _integer_type(width: int) -> ir.Type:
    return ir.IntegerType.get_signless(width, context())


I64Array: Codec = Codec(_i64_array, _integers)
BoolArray: Codec = Codec(lambda v: ir.DenseBoolArrayAttr.get([bool(x) for x in v], context()), lambda a: tuple(bool(x) for x in a))
I64 = Codec(lambda v: ir.IntegerAttr.get(_integer_type(64), int(v)), lambda a: a.value)
I32 = Codec(lambda v: ir.IntegerAttr.get(_integer_type(32), int(v)), lambda a: a.value)
Bool: Codec = Codec(lambda v: ir.BoolAttr.get(bool(v), context()), lambda a: bool(a.value))
String: Codec = Codec(lambda v: ir.StringAttr.get(v, context()), lambda a: a.value)
Raw: Codec = Codec(lambda v: v, lambda a: a)
Padding: Codec = Codec(
    lambda v: elements(np.asarray(v, np.int64).reshape(len(v), 2)),
    lambda a: tuple((int(lo), int(hi)) for lo, hi in array_of(a).reshape(-1, 2)),
)


@dataclass(frozen=True)
class DimensionNumbers:
    """Codec of a struct attribute `#stablehlo.<name><field = [..], field = n>` as a dict of tuples and ints.

    The printer omits fields that are empty lists (and scalars, for `implicit_one`), so decoding adds them.
    """

    name: str
    lists: tuple[str, ...]
    scalars: tuple[str, ...] = ()

    def encode(self, value: Mapping[str, Any]) -> ir.Attribute:
        """The attribute with the fields `value`, by name; raises ValueError for an unknown field."""
        unknown = set(value) - set(self.lists) - set(self.scalars)
        if unknown:
            names = self.lists + self.scalars
            raise ValueError(f"#stablehlo.{self.name} requires fields {names}, got {sorted(unknown)}.")
        fields = [f"{k} = {[int(i) for i in value[k]]}" for k in self.lists if len(value.get(k, ()))]
        fields += [f"{k} = {int(value[k])}" for k in self.scalars]
        return parse_attribute(f"#stablehlo.{self.name}<{', '.join(fields)}>")

    def decode(self, attribute: ir.Attribute) -> dict[str, Any]:
        """The fields of the attribute."""
        return dict(_struct_fields(str(attribute), self.lists, self.scalars))


@functools.lru_cache(maxsize=4096)
def _struct_fields(text: str, lists: tuple[str, ...], scalars: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    """The fields of a struct attribute from its text: lists as tuples, empty if they are not in the text, and integers.

    `lists` and `scalars` are the names of the fields.

    Example: "<offset_dims = [0], index_vector_dim = 1>" gives ("offset_dims", (0,)), ("index_vector_dim", 1).
    """
    fields: dict[str, Any] = dict.fromkeys(lists, ()) | dict.fromkeys(scalars, 0)
    for name, items in re.findall(r"(\w+) = \[([^\]]*)\]", text):
        fields[name] = tuple(int(i) for i in items.split(",")) if items.strip() else ()
    for name, item in re.findall(r"(\w+) = (-?\d+)", text):
        fields[name] = int(item)
    return tuple(fields.items())


DotDims: DimensionNumbers = DimensionNumbers(
    "dot", ("lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions", "rhs_contracting_dimensions")
)
GatherDims: DimensionNumbers = DimensionNumbers(
    "gather",
    ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map"),
    ("index_vector_dim",),
)
ScatterDims: DimensionNumbers = DimensionNumbers(
    "scatter",
    (
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
    ),
    ("index_vector_dim",),
)


def _conv_encode(value: tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]) -> ir.Attribute:
    lhs, rhs, out = ("[" + ", ".join(str(d) for d in dims) + "]" for dims in value)
    return parse_attribute(f"#stablehlo.conv<{lhs}x{rhs}->{out}>")


@functools.lru_cache(maxsize=1024)
def _conv_decode(text: str) -> tuple[tuple[Any, ...], ...]:
    groups = re.findall(r"\[([^\]]*)\]", text)
    return tuple(tuple(int(d) if d.strip().isdigit() else d.strip() for d in g.split(",")) for g in groups)


# The meaning of each dimension of lhs, rhs and result of a convolution: ("b", 0, 1, "f"), (0, 1, "i", "o"), ("b", 0, 1, "f").
ConvDims: Codec = Codec(_conv_encode, lambda a: _conv_decode(str(a)))
