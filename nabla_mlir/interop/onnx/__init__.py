"""Models of ONNX as functions of nabla_mlir: the table of operators by family, and graphs on tensors of nabla_mlir."""

from nabla_mlir.interop.onnx import control as control
from nabla_mlir.interop.onnx import elementwise as elementwise
from nabla_mlir.interop.onnx import indexing as indexing
from nabla_mlir.interop.onnx import layers as layers
from nabla_mlir.interop.onnx import learning as learning
from nabla_mlir.interop.onnx import quantization as quantization
from nabla_mlir.interop.onnx import reductions as reductions
from nabla_mlir.interop.onnx import sampling as sampling
from nabla_mlir.interop.onnx import shapes as shapes
from nabla_mlir.interop.onnx import signals as signals
from nabla_mlir.interop.onnx import trees as trees
from nabla_mlir.interop.onnx import windows as windows
from nabla_mlir.interop.onnx.model import OnnxFunction as OnnxFunction
from nabla_mlir.interop.onnx.model import from_onnx as from_onnx
