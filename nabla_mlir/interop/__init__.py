"""Programs of other systems: StableHLO and its portable form, JAX, PyTorch."""
