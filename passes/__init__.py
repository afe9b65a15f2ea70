"""Passes, which transform IR. A module is a pass of the pipeline, or serves several passes; a folder holds the parts of
one pass.
"""

if __name__ != "nabla_mlir.passes":
    raise ImportError(f"{__name__!r} is a second copy of nabla_mlir.passes; import nabla_mlir.passes instead.")

import nabla_mlir.rules  # noqa: F401  (loads every record)
