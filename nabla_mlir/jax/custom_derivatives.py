"""Custom rules for derivatives, under the names of `jax.custom_derivatives`."""

from nabla_mlir.jax.primitives import Primitive as _Primitive
from nabla_mlir.transforms.closures import closure_convert as closure_convert
from nabla_mlir.transforms.custom import custom_jvp as custom_jvp
from nabla_mlir.transforms.custom import custom_vjp as custom_vjp
from nabla_mlir.transforms.special import custom_gradient as custom_gradient
from nabla_mlir.transforms.special import linear_call as linear_call
from nabla_mlir.transforms.symbolic_zeros import CustomVJPPrimal as CustomVJPPrimal
from nabla_mlir.transforms.symbolic_zeros import SymbolicZero as SymbolicZero
from nabla_mlir.transforms.symbolic_zeros import custom_vjp_primal_tree_values as custom_vjp_primal_tree_values
from nabla_mlir.transforms.symbolic_zeros import zero_from_primal as zero_from_primal

custom_jvp_call_p: _Primitive = _Primitive("custom_jvp_call")  # the name of a call in `make_jaxpr(f)(x).eqns`
