"""The stages of a program, under the names of `jax.stages`."""

from nabla_mlir.base.pytree import TreeSpec as PyTreeDef
from nabla_mlir.staging.compiled import Compiled as Compiled
from nabla_mlir.staging.jit import Jitted as Wrapped
from nabla_mlir.staging.specs import ArgInfo as ArgInfo
from nabla_mlir.staging.stages import Lowered as Lowered
from nabla_mlir.staging.stages import Traced as Traced

__all__ = ["ArgInfo", "Compiled", "Lowered", "PyTreeDef", "Traced", "Wrapped"]
