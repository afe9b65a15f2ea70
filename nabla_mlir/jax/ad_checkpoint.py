"""Policies for the residuals of reverse mode, under the names of `jax.ad_checkpoint`."""

from nabla_mlir.transforms.checkpointing import checkpoint as checkpoint
from nabla_mlir.transforms.checkpointing import checkpoint_name as checkpoint_name
from nabla_mlir.transforms.checkpointing import checkpoint_policies as checkpoint_policies
from nabla_mlir.transforms.checkpointing import remat as remat
