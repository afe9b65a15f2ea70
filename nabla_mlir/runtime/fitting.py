"""Choice of the code of an artifact that fits this machine. Each target decides if its code fits."""

from __future__ import annotations

from typing import Any

from nabla_mlir.base.errors import DeployError
from nabla_mlir.runtime.manifest import Code, Manifest
from nabla_mlir.targets import TARGETS, drivers_of


def choose(manifest: Manifest, asked: str | None = None, driver: str | None = None) -> Code:
    """The first code that fits this machine, among the requested ones.

    Args:
      manifest: the manifest of the artifact.
      asked: the name or label of a target; None means any.
      driver: only code that this driver runs.

    Raises:
      DeployError: none fits; the message gives the reason for each.
    """
    fitting = [c for c in manifest.code if asked is None or c.is_for(asked)]
    fitting = [c for c in fitting if driver is None or driver in drivers_of(c.kind)] or fitting
    if not fitting:
        labels = ", ".join(c.label for c in manifest.code)
        raise DeployError(f"load requires a target that the artifact has, got {asked!r}.", help=f"use one of {labels}.")
    reasons = []
    for code in fitting:
        try:
            check_fit(code.target)
        except DeployError as error:
            reasons.append((code, error))
        else:
            return code
    if len(reasons) == 1:
        raise reasons[0][1]
    lines = "".join(f"\n    {code.label}: {error.message}" for code, error in reasons)
    raise DeployError(
        f"load requires code that fits this machine, got none among {len(reasons)}:{lines}",
        help="compile it for this machine too, or for CPU('generic').",
    )


def check_fit(target: dict[str, Any]) -> None:
    """Raises DeployError, which says what is missing, if this machine cannot run code for a target.

    `target` is the JSON of a target in a manifest, such as ``{"name": "cuda", "arch": "sm_80"}``.
    """
    if target.get("name") not in TARGETS:
        raise DeployError(f"the manifest requires a target among {', '.join(TARGETS)}, got {target.get('name')!r}.")
    TARGETS[target["name"]].check_fit(target)
