"""What depends on the platform, or on the compiler: `platform_dependent`, `dce_sink`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nabla_mlir.base.errors import RuleMissingError, user_frame
from nabla_mlir.jax.environment import default_backend


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Nothing, for programs of JAX: there it keeps the code of a value, which no result here needs.

    Args:
      val: a value or a pytree.
      prevent_mlir_dce: has no effect.
    """


def platform_dependent(*args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]) -> Any:
    """Calls the function for the platform on which functions run, "cpu", and returns its result.

    Args:
      *args: the arguments of all functions.
      default: the function for platforms that are not named.
      **per_platform: functions by the name of a platform of JAX, such as ``cpu`` or ``cuda``.

    Raises:
      RuleMissingError: there is no function for this platform, and no default.

    Example:
      >>> platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x)
      3.0
    """
    function = per_platform.get(default_backend(), default)
    if function is None:
        raise RuleMissingError(
            f"platform_dependent requires a function for {default_backend()}, got {', '.join(per_platform) or 'none'}.",
            where=user_frame(),
            help="give default=, the function for other platforms.",
        )
    return function(*args)
