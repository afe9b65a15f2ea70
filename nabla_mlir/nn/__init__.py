"""Functions of neural networks: activations, normalisations, windows (convolution, pooling), losses, initial weights.

Conventions as in JAX: the derivative of relu is 0 at 0, and NaN stays NaN. Losses of a batch keep the batch axes;
take their mean for a scalar. Images have their channels last.
"""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from nabla_mlir.base.names import no_attribute as _no_attribute
from nabla_mlir.nn import initializers as initializers
from nabla_mlir.nn.activations import celu as celu
from nabla_mlir.nn.activations import elu as elu
from nabla_mlir.nn.activations import gelu as gelu
from nabla_mlir.nn.activations import glu as glu
from nabla_mlir.nn.activations import hard_sigmoid as hard_sigmoid
from nabla_mlir.nn.activations import hard_silu as hard_silu
from nabla_mlir.nn.activations import hard_swish as hard_swish
from nabla_mlir.nn.activations import hard_tanh as hard_tanh
from nabla_mlir.nn.activations import identity as identity
from nabla_mlir.nn.activations import leaky_relu as leaky_relu
from nabla_mlir.nn.activations import log1mexp as log1mexp
from nabla_mlir.nn.activations import log_sigmoid as log_sigmoid
from nabla_mlir.nn.activations import log_softmax as log_softmax
from nabla_mlir.nn.activations import mish as mish
from nabla_mlir.nn.activations import relu as relu
from nabla_mlir.nn.activations import relu6 as relu6
from nabla_mlir.nn.activations import selu as selu
from nabla_mlir.nn.activations import sigmoid as sigmoid
from nabla_mlir.nn.activations import silu as silu
from nabla_mlir.nn.activations import soft_sign as soft_sign
from nabla_mlir.nn.activations import softmax as softmax
from nabla_mlir.nn.activations import softplus as softplus
from nabla_mlir.nn.activations import sparse_plus as sparse_plus
from nabla_mlir.nn.activations import sparse_sigmoid as sparse_sigmoid
from nabla_mlir.nn.activations import squareplus as squareplus
from nabla_mlir.nn.activations import swish as swish
from nabla_mlir.nn.activations import tanh as tanh
from nabla_mlir.nn.attention import dot_product_attention as dot_product_attention
from nabla_mlir.nn.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from nabla_mlir.nn.losses import huber as huber
from nabla_mlir.nn.losses import kl_divergence as kl_divergence
from nabla_mlir.nn.losses import mse as mse
from nabla_mlir.nn.losses import one_hot as one_hot
from nabla_mlir.nn.losses import softmax_cross_entropy as softmax_cross_entropy
from nabla_mlir.nn.losses import softmax_cross_entropy_with_integer_labels as softmax_cross_entropy_with_integer_labels
from nabla_mlir.nn.losses import squared_error as squared_error
from nabla_mlir.nn.normalizations import layer_norm as layer_norm
from nabla_mlir.nn.normalizations import rms_norm as rms_norm
from nabla_mlir.nn.normalizations import standardize as standardize
from nabla_mlir.nn.windows import avg_pool as avg_pool
from nabla_mlir.nn.windows import conv as conv
from nabla_mlir.nn.windows import max_pool as max_pool
from nabla_mlir.numpy.reductions import logmeanexp as logmeanexp
from nabla_mlir.numpy.reductions import logsumexp as logsumexp

if not _TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> _Any:
        """Raises AttributeError, with the path of the name if it is elsewhere."""
        raise _no_attribute(f"module {__name__!r}", name, _sys.modules[__name__])
