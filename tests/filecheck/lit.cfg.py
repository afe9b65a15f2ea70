"""Configuration of lit: `lit tests/filecheck`, or through pytest, which runs it once for all files."""

import os
import sys
from pathlib import Path

import lit.formats

config = config  # noqa: F821  (lit defines it)
ROOT = Path(__file__).resolve().parents[2]

config.name = "nabla-mlir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = str(ROOT / "build" / "filecheck")
# The tools of this very interpreter, and the package as it was found by whoever called lit.
for variable in ("PYTHONPATH", "PYTHONSAFEPATH", "NABLA_MLIR_CACHE_DIR", "HOME"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

IREE_OPT = Path(sys.executable).with_name("iree-opt")
NABLA_OPT = f"{sys.executable} -m nabla_mlir.tools.opt"
config.substitutions += [
    (r"\bnabla-opt\b", NABLA_OPT),
    (r"\bnabla-mlir\b", f"{sys.executable} -m nabla_mlir.tools.main"),
    (r"\biree-opt\b", str(IREE_OPT)),
    # A name that is bound in one function is not known in the next.
    (r"\bfilecheck\b", f"{sys.executable} -m filecheck --enable-var-scope"),
    ("%roundtrip", f"{NABLA_OPT} %s --mlir-print-op-generic | {NABLA_OPT} -"),
    ("%dialects", str(ROOT / "dialects")),
]
