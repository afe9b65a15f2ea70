"""For tests that run on a Vulkan device."""

import pytest

from nabla_mlir.targets.vulkan import vulkan_devices


def need_vulkan() -> None:
    """Skips the test where there is no device, with the reason."""
    try:
        vulkan_devices()
    except OSError as error:
        pytest.skip(f"no Vulkan device: {error}")
