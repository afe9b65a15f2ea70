"""The vocabulary of the IR: StableHLO emission and attribute codecs, and the dialects `ad` and `batch`.

No rewriting here (that is `nabla_mlir.passes`) and nothing about Python functions (that is `nabla_mlir`).
"""

if __name__ != "nabla_mlir.dialects":
    raise ImportError(f"{__name__!r} is a second copy of nabla_mlir.dialects; import nabla_mlir.dialects instead.")
