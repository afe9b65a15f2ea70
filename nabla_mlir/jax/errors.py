"""The exceptions of nabla_mlir under the names of `jax.errors`.

A class of JAX may be the same as another here: `ConcretizationTypeError` and `TracerArrayConversionError` are both
`nm.errors.ConcretizationError`, which derives from TypeError as in JAX.
"""

from nabla_mlir.base.errors import ConcretizationTypeError as ConcretizationTypeError
from nabla_mlir.base.errors import DtypeError as JAXTypeError
from nabla_mlir.base.errors import IndexingError as JAXIndexError
from nabla_mlir.base.errors import NablaError as JaxRuntimeError
from nabla_mlir.base.errors import NonConcreteBooleanIndexError as NonConcreteBooleanIndexError
from nabla_mlir.base.errors import TracerArrayConversionError as TracerArrayConversionError
from nabla_mlir.base.errors import TracerBoolConversionError as TracerBoolConversionError
from nabla_mlir.base.errors import TracerIntegerConversionError as TracerIntegerConversionError
from nabla_mlir.base.errors import UnexpectedTracerError as UnexpectedTracerError

__all__ = [
    "ConcretizationTypeError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "NonConcreteBooleanIndexError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
]
