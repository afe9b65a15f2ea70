"""Types of ONNX as dtypes of NumPy, and its tensors as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError
from nabla_mlir.interop.onnx.table import Refusal
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.table.tensor import Tensor

# The largest finite number of each dtype; NumPy has these dtypes only with an additional package.
_LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0}


def dtype_of(number: Any) -> np.dtype:
    """The dtype for a number of an element type of ONNX; raises Refusal if there is no such dtype here."""
    import onnx

    name = onnx.TensorProto.DataType.Name(int(number))
    if name == "STRING":
        raise Refusal("numbers", "strings")
    try:
        return dtype_named(onnx.helper.tensor_dtype_to_np_dtype(int(number)).name)
    except DtypeError:
        raise Refusal("a dtype of nabla_mlir", name) from None


def array_of(tensor: Any) -> np.ndarray:
    """The array in an `onnx.TensorProto`."""
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)


def saturated(x: Tensor, dtype: np.dtype) -> Tensor:
    """x clipped to the finite numbers of a float of 8 bits; NaN stays."""
    largest = _LARGEST.get(dtype.name)
    return x if largest is None else nnp.clip(x, -largest, largest)
