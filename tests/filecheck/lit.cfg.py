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
# In a process of their own, or in copies of a warm one where pytest has made that.
WARM = os.environ.get("NABLA_MLIR_WARM")
RUN = f"{sys.executable} -S -E {Path(__file__).with_name('warm.py')} {WARM}" if WARM else f"{sys.executable} -m"
NABLA_OPT = f"{RUN} nabla_mlir.tools.opt"
# The name of a tool is also that of this folder: first of all, before its path is part of a command.
# A name that is bound in one function is not known in the next.
config.substitutions += [
    (r"\bfilecheck\b", f"{RUN} filecheck.__main__ --enable-var-scope"),
    (r"\bnabla-opt\b", NABLA_OPT),
    (r"\bnabla-mlir\b", f"{sys.executable} -m nabla_mlir.tools.main"),
    (r"\biree-opt\b", str(IREE_OPT)),
    ("%roundtrip", f"{NABLA_OPT} %s --mlir-print-op-generic | {NABLA_OPT} -"),
    ("%dialects", str(ROOT / "dialects")),
]
