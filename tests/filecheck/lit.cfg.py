"""Configuration of lit: `lit tests/filecheck`, or through pytest, which runs it once for all files."""

from nabla_mlir.testing.lit_config import configure

configure(config, __file__)  # noqa: F821  (lit defines it)
