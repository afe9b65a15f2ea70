"""The name of `jax.experimental.jet`."""

from nabla_mlir.transforms.jets import jet as jet
