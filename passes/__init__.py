"""IR to IR: every module here is one pass of the pipeline. Nothing here knows of Python functions."""

if __name__ != "nabla_mlir.passes":
    raise ImportError(f"{__name__!r} is a second copy of nabla_mlir.passes; import nabla_mlir.passes instead.")
