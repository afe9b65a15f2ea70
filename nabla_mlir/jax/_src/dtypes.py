"""`jax.dtypes` under its private name."""

from nabla_mlir.jax.dtypes import ExtendedDType as ExtendedDType
from nabla_mlir.jax.dtypes import TypePromotionError as TypePromotionError
from nabla_mlir.jax.dtypes import canonicalize_dtype as canonicalize_dtype
from nabla_mlir.jax.dtypes import extended as extended
from nabla_mlir.jax.dtypes import finfo as finfo
from nabla_mlir.jax.dtypes import iinfo as iinfo
from nabla_mlir.jax.dtypes import issubdtype as issubdtype
from nabla_mlir.jax.dtypes import result_type as result_type
from nabla_mlir.jax.typing import DTypeLike

DType = DTypeLike
dtype = result_type
