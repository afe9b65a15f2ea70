"""Axes of Matplotlib, which is imported when a figure is drawn."""

from __future__ import annotations

from typing import Any

from nabla_mlir.base.errors import DeployError, user_frame


def axes_or_new(axes: Any = None) -> Any:
    """The axes that a caller gave, or new axes of Matplotlib.

    Raises:
      DeployError: Matplotlib is not installed.
    """
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise DeployError(
            "plot requires Matplotlib, got an environment without it.", where=user_frame(), help="pip install 'nabla-mlir[plots]'"
        ) from None
    return plt.subplots()[1]
