"""Modules that are found by a name: connections to other systems, and rooms above the code that asks for them.

A package offers one by an entry point, which its pyproject.toml declares:

    [project.entry-points."nabla_mlir.plugins"]
    my_solver = "my_package.solver"     # nm.interop.my_solver
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, distributions
from types import ModuleType

from nabla_mlir.base.errors import DeployError, user_frame

GROUP = "nabla_mlir.plugins"


@functools.cache
def plugins() -> dict[str, EntryPoint]:
    """The entry points of all installed packages in the group of plugins, by name."""
    # `entry_points` reads the first of two packages of one name: an old *.egg-info in a checkout would hide the installed one.
    found: dict[str, EntryPoint] = {}
    for package in distributions():
        for point in package.entry_points.select(group=GROUP):
            found.setdefault(point.name, point)
    return found


def plugin(name: str) -> ModuleType:
    """The module of the plugin with this name, which is imported now.

    Raises:
      DeployError: no installed package has an entry point of this name.

    Example:
      >>> plugin("scipy").__name__
      'nabla_mlir.interop.scipy'
    """
    if name not in plugins():
        known = ", ".join(sorted(plugins())) or "none"
        raise DeployError(
            f"the plugin {name!r} requires an installed package with this entry point, got {known}.",
            where=user_frame(),
            help=f"install a package that declares it in the group {GROUP}, such as nabla-mlir itself.",
        )
    module: ModuleType = plugins()[name].load()
    return module
