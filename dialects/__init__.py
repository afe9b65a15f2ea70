"""The vocabulary of the IR: StableHLO emission and attribute codecs, and the dialects `ad` and `batch`.

This room does not rewrite IR (`passes` does) and knows no Python functions (`nabla_mlir` does).
"""

if __name__ != "nabla_mlir.dialects":
    raise ImportError(f"{__name__!r} is a second copy of nabla_mlir.dialects; import nabla_mlir.dialects instead.")
