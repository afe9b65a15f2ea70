"""Transforms of Python functions. Each emits a region operation, and passes expand it.

Inside a trace, a transform emits into the trace. Outside, the whole call is traced, compiled and run.
"""

from nabla_mlir.transforms import physical as physical
from nabla_mlir.transforms.curvature import empirical_fishervp as empirical_fishervp
from nabla_mlir.transforms.curvature import fishervp as fishervp
from nabla_mlir.transforms.curvature import ggnvp as ggnvp
from nabla_mlir.transforms.gradients import grad as grad
from nabla_mlir.transforms.gradients import stop_gradient as stop_gradient
from nabla_mlir.transforms.gradients import value_and_grad as value_and_grad
from nabla_mlir.transforms.jacobians import hessian as hessian
from nabla_mlir.transforms.jacobians import hvp as hvp
from nabla_mlir.transforms.jacobians import jacfwd as jacfwd
from nabla_mlir.transforms.jacobians import jacrev as jacrev
from nabla_mlir.transforms.linear import jvp as jvp
from nabla_mlir.transforms.linear import linearize as linearize
from nabla_mlir.transforms.linear import vjp as vjp
from nabla_mlir.transforms.vectorize import vmap as vmap
