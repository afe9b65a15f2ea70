"""Reductions of segments, under the names of `jax.ops`."""

from nabla_mlir.numpy.segments import segment_max as segment_max
from nabla_mlir.numpy.segments import segment_min as segment_min
from nabla_mlir.numpy.segments import segment_prod as segment_prod
from nabla_mlir.numpy.segments import segment_sum as segment_sum
