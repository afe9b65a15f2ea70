"""The tools that the RUN lines name: nabla-opt knows what my_passes.py registers."""

from nabla_mlir.testing.lit_config import configure

configure(config, __file__, name="my-passes", load=["../my_passes.py"])  # noqa: F821  (lit defines it)
