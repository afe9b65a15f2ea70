"""Public names that are imported when they are first used."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from types import ModuleType
from typing import Any


def public_names(package: str) -> dict[str, str]:
    """The module that defines each public name of a package, as its file `__init__.pyi` says.

    The file is what type checkers read: a list of lines `from nabla_mlir.transforms import grad as grad`.

    Example:
      >>> public_names("nabla_mlir")["grad"]
      'nabla_mlir.transforms'
    """
    stub = pkgutil.get_data(package, "__init__.pyi")
    assert stub is not None, f"the installation lacks __init__.pyi of {package}"
    statements = ast.parse(stub).body
    return {alias.name: str(s.module) for s in statements if isinstance(s, ast.ImportFrom) for alias in s.names}


def imported(home: str, name: str) -> Any:
    """The value of a name in the module that defines it, or the module of that name in a package."""
    module: ModuleType = importlib.import_module(home)
    try:
        return getattr(module, name)
    except AttributeError:
        return importlib.import_module(f"{home}.{name}")
