"""The configuration of lit for tests of passes; the tools run in a warm process if pytest has started one.

from nabla_mlir.testing.lit_config import configure

configure(config, __file__)
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nabla_mlir import dialects

WARM = "NABLA_MLIR_WARM"  # the variable with the address of the warm process
_PASSED_ON = ("PYTHONPATH", "PYTHONSAFEPATH", "NABLA_MLIR_CACHE_DIR", "HOME", WARM)


def configure(config: Any, file: str, name: str = "nabla-mlir", load: Sequence[str] = ()) -> None:
    """Configures lit for the .mlir files of a folder.

    RUN lines can use ``nabla-opt``, ``nabla-mlir``, ``filecheck`` (a variable is valid inside one function), ``iree-opt``,
    ``%dialects`` (the folder of the IRDL files) and ``%roundtrip`` (prints the module and parses the text).

    Args:
      config: the configuration object of lit.
      file: the path of the lit.cfg.py in the folder.
      name: the name of the test suite.
      load: Python files that nabla-opt runs first, relative to the folder; they define passes and operations of other projects.
    """
    import lit.formats  # lit is a dependency of tests only

    folder = Path(file).resolve().parent
    config.name = name
    config.test_format = lit.formats.ShTest(execute_external=False)
    config.suffixes = [".mlir"]
    config.test_source_root = str(folder)
    config.test_exec_root = os.environ.get("NABLA_MLIR_LIT_OUTPUT") or tempfile.mkdtemp(prefix="nabla-lit-")
    # The tests use the tools of this Python interpreter and the package that the caller of lit imports.
    config.environment.update({variable: os.environ[variable] for variable in _PASSED_ON if variable in os.environ})
    address = os.environ.get(WARM)
    run = f"{sys.executable} -S -E {Path(__file__).with_name('warm.py')} {address}" if address else f"{sys.executable} -m"
    opt = " ".join([f"{run} nabla_mlir.tools.opt", *(f"--load={folder / path}" for path in load)])
    # The name of a tool can also be part of a path. So tools are substituted first, before a command contains paths.
    config.substitutions += [
        (r"\bfilecheck\b", f"{run} filecheck.__main__ --enable-var-scope"),
        (r"\bnabla-opt\b", opt),
        (r"\bnabla-mlir\b", f"{sys.executable} -m nabla_mlir.tools.main"),
        (r"\biree-opt\b", str(Path(sys.executable).with_name("iree-opt"))),
        ("%roundtrip", f"{opt} %s --mlir-print-op-generic | {opt} -"),
        ("%dialects", str(Path(dialects.__file__).parent)),
    ]
