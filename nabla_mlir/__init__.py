"""nabla_mlir: differentiable programs as StableHLO, compiled ahead of time by IREE."""
