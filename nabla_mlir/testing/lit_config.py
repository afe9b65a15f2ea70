"""The configuration of lit for tests of passes: the tools, in warm processes where pytest has started them.

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
    """Sets lit up for the .mlir files of a folder.

    Known in RUN lines are ``nabla-opt``, ``nabla-mlir``, ``filecheck`` (with variables that are known in one function),
    ``iree-opt``, ``%dialects`` (the folder of the IRDL files) and ``%roundtrip`` (printed and read again).

    Args:
      config: lit's.
      file: the lit.cfg.py, which lies in the folder.
      name: of the tests.
      load: files of Python that nabla-opt runs first, relative to the folder: passes and operations from outside.
    """
    import lit.formats  # which only those who test have

    folder = Path(file).resolve().parent
    config.name = name
    config.test_format = lit.formats.ShTest(execute_external=False)
    config.suffixes = [".mlir"]
    config.test_source_root = str(folder)
    config.test_exec_root = os.environ.get("NABLA_MLIR_LIT_OUTPUT") or tempfile.mkdtemp(prefix="nabla-lit-")
    # The tools of this very interpreter, and the package as it was found by whoever called lit.
    config.environment.update({variable: os.environ[variable] for variable in _PASSED_ON if variable in os.environ})
    address = os.environ.get(WARM)
    run = f"{sys.executable} -S -E {Path(__file__).with_name('warm.py')} {address}" if address else f"{sys.executable} -m"
    opt = " ".join([f"{run} nabla_mlir.tools.opt", *(f"--load={folder / path}" for path in load)])
    # The name of a tool may also be that of a folder: first of all, before its path is part of a command.
    config.substitutions += [
        (r"\bfilecheck\b", f"{run} filecheck.__main__ --enable-var-scope"),
        (r"\bnabla-opt\b", opt),
        (r"\bnabla-mlir\b", f"{sys.executable} -m nabla_mlir.tools.main"),
        (r"\biree-opt\b", str(Path(sys.executable).with_name("iree-opt"))),
        ("%roundtrip", f"{opt} %s --mlir-print-op-generic | {opt} -"),
        ("%dialects", str(Path(dialects.__file__).parent)),
    ]
