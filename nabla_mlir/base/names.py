"""Public names that are imported when they are first used."""

from __future__ import annotations

import importlib
import re
import types
from pathlib import Path
from typing import Any


def public_names(file: str) -> dict[str, str]:
    """The module that defines each public name of a package, as its file `__init__.pyi` says.

    Type checkers read that file, too. It is a list of lines `from nabla_mlir.transforms import grad as grad`.

    Args:
      file: the path of `__init__.py` of the package.

    Example:
      >>> import nabla_mlir
      >>> public_names(nabla_mlir.__file__)["grad"]
      'nabla_mlir.transforms'
    """
    lines = Path(file).with_suffix(".pyi").read_text()
    return {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as", lines, re.M)}


def explained(who: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error of a missing package with advice, if it is one that an installation of the runtime lacks.

    Args:
      who: the name that needs the package.
      error: the error of the import.
    """
    if error.name == "scipy":
        message = f"{who} requires SciPy, got an environment without it: pip install scipy."
    elif error.name in ("iree.compiler", "optree"):
        message = (
            f"{who} requires the compiler, got an installation of the runtime alone (no {error.name}): "
            "install nabla_mlir from the repository or its wheel, as docs/learn/install.md says."
        )
    else:
        return error
    return ModuleNotFoundError(message, name=error.name)


def imported(package: str, home: str, name: str) -> Any:
    """The value of a public name of a package in the module `home` that defines it, or the module of that name in `home`."""
    if home != package and hasattr(module := importlib.import_module(home), name):
        return getattr(module, name)
    return importlib.import_module(f"{home}.{name}")


def module_named(path: str) -> types.ModuleType:
    """The module of a dotted path, imported now."""
    return importlib.import_module(path)
