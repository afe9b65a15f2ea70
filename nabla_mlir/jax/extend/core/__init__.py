"""Primitives and the parts of a traced function, under the names of `jax.extend.core`."""

from __future__ import annotations

from nabla_mlir.jax.core import TraceTag as TraceTag
from nabla_mlir.jax.core import get_opaque_trace_state as get_opaque_trace_state
from nabla_mlir.jax.core import set_current_trace as set_current_trace
from nabla_mlir.jax.core import take_current_trace as take_current_trace
from nabla_mlir.jax.extend.core import primitives as primitives
from nabla_mlir.jax.jaxprs import ClosedJaxpr as ClosedJaxpr
from nabla_mlir.jax.jaxprs import DropVar as DropVar
from nabla_mlir.jax.jaxprs import Jaxpr as Jaxpr
from nabla_mlir.jax.jaxprs import JaxprEqn as JaxprEqn
from nabla_mlir.jax.jaxprs import Literal as Literal
from nabla_mlir.jax.jaxprs import Var as Var
from nabla_mlir.jax.jaxprs import jaxpr_as_fun as jaxpr_as_fun
from nabla_mlir.jax.jaxprs import mapped_aval as mapped_aval
from nabla_mlir.jax.jaxprs import unmapped_aval as unmapped_aval
from nabla_mlir.jax.primitives import Primitive as Primitive
from nabla_mlir.jax.refs import Effect as Effect
