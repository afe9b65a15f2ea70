"""The import of this module fails, with advice, where only the runtime is installed.

`import nabla_mlir.numpy` is the first line of many programs, also on machines that only run artifacts.
"""

from __future__ import annotations

from importlib.util import find_spec

from nabla_mlir.base.names import explained


def _check() -> None:
    """Raises an error with the command to install if the compiler's packages are missing."""
    for name in ("iree.compiler", "optree"):
        try:
            if find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        except ModuleNotFoundError as error:
            raise explained("nabla_mlir.numpy", error) from None


_check()
