"""One module compiled for several targets."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nabla_mlir.runtime.fitting import choose

if TYPE_CHECKING:
    from nabla_mlir.staging.stages import Compiled


@dataclass(frozen=True, repr=False)
class Bundle:
    """An artifact for several targets: a machine takes the first of `parts` that it runs. Callable here, too.

    Example:
      >>> import nabla_mlir as nm
      >>> lowered = nm.trace(lambda x: x * x, nm.spec(), name="square").lower()
      >>> both = lowered.compile([nm.CUDA("sm_80"), nm.CPU("generic")])
      >>> both  # doctest: +ELLIPSIS
      <Bundle square for cuda-sm_80, cpu-generic-...>
      >>> float(both(3.0))
      9.0
    """

    parts: tuple[Compiled, ...]

    @functools.cached_property
    def here(self) -> Compiled:
        """The part that this machine takes.

        Raises:
          DeployError: it runs none; the message says why not for each.
        """
        manifest = self._manifest
        return self.parts[manifest.code.index(choose(manifest))]

    @functools.cached_property
    def _manifest(self) -> Any:
        from nabla_mlir.staging.artifact import manifest_of

        return manifest_of(*self.parts)

    def entry(self, name: str) -> Callable[..., Any]:
        """An entry point as a Python function of pytrees."""
        return self.here.entry(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the only entry point."""
        return self.here(*args, **kwargs)

    def describe(self) -> str:
        """The inputs and outputs of every entry point."""
        return self.parts[0].describe()

    def save(self, path: str | Path) -> Path:
        """Writes one file of code for each target and one manifest: in a folder or in a .zip, as the path says."""
        from nabla_mlir.staging.artifact import save_compiled

        return save_compiled(self.parts, path)

    def __repr__(self) -> str:
        names = ", ".join(e.name for e in self.parts[0].entries)
        return f"<Bundle {names} for {', '.join(code.label for code in self._manifest.code)}>"
