"""The rule table. Importing this package loads every record; an incomplete one fails here."""

from nabla_mlir.ops import (
    autodiff as autodiff,
)
from nabla_mlir.ops import (
    chlo as chlo,
)
from nabla_mlir.ops import (
    composites as composites,
)
from nabla_mlir.ops import (
    contraction as contraction,
)
from nabla_mlir.ops import (
    control as control,
)
from nabla_mlir.ops import (
    convolution as convolution,
)
from nabla_mlir.ops import (
    custom_call as custom_call,
)
from nabla_mlir.ops import (
    elementwise as elementwise,
)
from nabla_mlir.ops import (
    fourier as fourier,
)
from nabla_mlir.ops import (
    indexing as indexing,
)
from nabla_mlir.ops import (
    lapack as lapack,
)
from nabla_mlir.ops import (
    linalg as linalg,
)
from nabla_mlir.ops import (
    misc as misc,
)
from nabla_mlir.ops import (
    promotion as promotion,
)
from nabla_mlir.ops import (
    reduction as reduction,
)
from nabla_mlir.ops import (
    shape as shape,
)
from nabla_mlir.ops import (
    windows as windows,
)
