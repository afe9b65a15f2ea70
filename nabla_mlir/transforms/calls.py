"""Custom calls: emission, and the user's rules for their targets."""

from __future__ import annotations

from typing import Any

from iree.compiler import ir

from nabla_mlir.base.typing import ArrayLike, PyTree
from nabla_mlir.dialects.context import context
from nabla_mlir.ops.custom_call import call
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.specs import Spec
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor


def custom_call(target: str, *operands: ArrayLike, results: PyTree, backend_config: str = "") -> PyTree:
    """Emits ``stablehlo.custom_call @target``; `nm.register_custom_call` gives its derivative and batch rules.

    The module can be transformed, printed and saved. It compiles if the target is implemented.

    Args:
      target: the name of the called function.
      operands: arrays.
      results: a spec for each result, or one spec.
      backend_config: a text for the target.

    Returns:
      The result, or a tuple of them if `results` is a sequence.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.register_custom_call("my_double", jvp=lambda outs, xs, ts, **_: [ts[0] + ts[0]], batch="leading")
      >>> f = lambda x: nm.custom_call("my_double", x, results=nm.spec((3,), "f32"))
      >>> "my_double" in str(nm.trace(nm.jacfwd(f), nm.spec((3,), "f32")))
      True
    """
    single = isinstance(results, Spec)
    specs = [results] if single else list(results)

    def run(*xs: Any) -> list[Tensor]:
        config = {"backend_config": ir.StringAttr.get(backend_config, context())} if backend_config else {}
        return call(target, [as_tensor(x) for x in xs], [(s.shape, s.dtype) for s in specs], **config)

    outs = staged(run)(*operands)
    return outs[0] if single else tuple(outs)
