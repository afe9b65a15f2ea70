"""Trial imports of untrusted modules in a separate process, so that a crash affects only that process."""

from __future__ import annotations

import pickle
import subprocess
import sys

from nabla_mlir.base.errors import ImportIRError

_PROGRAM = """
import pickle, sys
from nabla_mlir.base.errors import NablaError
from nabla_mlir.interop.stablehlo import from_stablehlo
source, entry = pickle.load(sys.stdin.buffer)
try:
    from_stablehlo(source, entry)
except NablaError as error:
    sys.exit(str(error))
"""


def try_import(source: str | bytes, entry: str | None, seconds: float) -> None:
    """Imports a module in a separate process, and raises if that fails.

    Args:
      source: the source of the module.
      entry: the name of its function.
      seconds: the time limit of the import.

    Raises:
      ImportIRError: the import takes longer, crashes, or is refused.
    """
    if not seconds > 0:
        raise ImportIRError(f"importing requires a time_limit greater than 0, got {seconds}.")
    try:
        process = subprocess.run(
            [sys.executable, "-c", _PROGRAM], input=pickle.dumps((source, entry)), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        message = f"importing requires at most {seconds:g} s, as time_limit says, got a module that takes longer."
        raise ImportIRError(message) from None
    if process.returncode < 0:
        message = f"importing requires a module that can be read, got one that ends its process (signal {-process.returncode})."
        raise ImportIRError(message)
    if process.returncode:
        text = process.stderr.decode(errors="replace").strip()[-2000:]
        raise ImportIRError(f"importing requires a module that can be read, got: {text}")
