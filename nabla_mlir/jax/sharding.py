"""Shardings, under the names of `jax.sharding`: each describes that an array lies on one device, which is all there is here.

A mesh may have any number of axes, each of length 1. Programs that state a sharding then run unchanged, and a mesh of
several devices is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import TargetError, TraceError, user_frame
from nabla_mlir.jax.meshes import AbstractMesh as AbstractMesh
from nabla_mlir.jax.meshes import AxisType as AxisType
from nabla_mlir.jax.meshes import Mesh as Mesh
from nabla_mlir.jax.meshes import P as P
from nabla_mlir.jax.meshes import PartitionSpec as PartitionSpec
from nabla_mlir.jax.meshes import get_abstract_mesh as get_abstract_mesh
from nabla_mlir.jax.meshes import get_mesh as get_mesh
from nabla_mlir.jax.meshes import make_mesh as make_mesh
from nabla_mlir.jax.meshes import set_mesh as set_mesh
from nabla_mlir.jax.meshes import use_mesh as use_mesh
from nabla_mlir.runtime.device import Device
from nabla_mlir.runtime.device import device as device_of


class Sharding:
    """The base class of shardings. A sharding names the one device on which a whole array is stored.

    Attributes:
      memory_kind: always None: the device has one memory.
    """

    memory_kind: str | None = None

    @property
    def _device(self) -> Device:
        """The device of the sharding."""
        raise NotImplementedError

    @property
    def device_set(self) -> set[Device]:
        """The device, as a set."""
        return {self._device}

    addressable_devices = device_set

    @property
    def num_devices(self) -> int:
        """The number of devices: 1."""
        return 1

    @property
    def is_fully_replicated(self) -> bool:
        """True: each device, of which there is one, has the whole array."""
        return True

    @property
    def is_fully_addressable(self) -> bool:
        """True: this process reads the whole array."""
        return True

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part on one device: that of the array."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        """The slices of the array that each device has."""
        return {self._device: (slice(None),) * len(global_shape)}

    addressable_devices_indices_map = devices_indices_map

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """True if the other sharding is on the same device."""
        return isinstance(other, Sharding) and self._device == other._device

    def with_memory_kind(self, kind: str | None) -> Sharding:
        """The sharding itself, for the memory of its device.

        Raises:
          TargetError: another memory is named.
        """
        if kind not in (None, "device"):
            raise TargetError(f"a sharding requires the memory 'device', got {kind!r}.", where=user_frame())
        return self


class SingleDeviceSharding(Sharding):
    """The sharding of an array that is stored on one device.

    Args:
      device: the device.
      memory_kind: None or "device".

    Example:
      >>> import nabla_mlir as nm
      >>> SingleDeviceSharding(nm.devices()[0]).num_devices
      1
    """

    def __init__(self, device: Device, *, memory_kind: str | None = None):
        self._on = device
        self.with_memory_kind(memory_kind)

    @property
    def _device(self) -> Device:
        """The device of the sharding."""
        return self._on

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self._on == other._on

    def __hash__(self) -> int:
        return hash(self._on)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._on!r})"


class NamedSharding(Sharding):
    """The sharding of an array on the device of a mesh; its axes are divided along named axes of the mesh.

    Args:
      mesh: the mesh.
      spec: a `PartitionSpec`.
      memory_kind: None or "device".

    Raises:
      TraceError: the spec names an axis that the mesh does not have.

    Example:
      >>> NamedSharding(make_mesh((1,), ("data",)), PartitionSpec("data")).shard_shape((4, 3))
      (4, 3)
    """

    def __init__(self, mesh: Any, spec: Any, *, memory_kind: str | None = None):
        """Stores the mesh and the axes; raises TraceError for an unknown axis."""
        self.mesh, self.spec = mesh, spec if isinstance(spec, PartitionSpec) else PartitionSpec(*(spec or ()))
        if unknown := sorted(self.spec.names() - set(map(str, mesh.axis_names))):
            raise TraceError(
                f"NamedSharding requires names of the axes {mesh.axis_names} of its mesh, got {', '.join(unknown)}.",
                where=user_frame(),
            )
        self.with_memory_kind(memory_kind)

    @property
    def _device(self) -> Device:
        """The device of the mesh, or the default device if the mesh has none."""
        devices = getattr(self.mesh, "devices", None)
        return device_of() if devices is None or devices.size == 0 else devices.flat[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r})"


def device_in(sharding: Any) -> Any:
    """The device that an argument `device` or `sharding` of JAX's functions means: a device, its name, a sharding or None."""
    return sharding._device if isinstance(sharding, Sharding) else sharding


def check_shardings(who: str, shardings: Any) -> None:
    """Raises TargetError unless each leaf of a tree of shardings is None, a device or a sharding of this process."""
    for leaf in pytree.flatten_any(shardings, lambda x: isinstance(x, (Sharding, PartitionSpec)))[0]:
        if not isinstance(leaf, (Sharding, PartitionSpec, Device)):
            raise TargetError(f"{who} requires shardings, got {leaf!r}.", where=user_frame())


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The pytree unchanged: there is only one device.

    Args:
      x: a pytree of arrays.
      shardings: a sharding or a `PartitionSpec`, or a tree of them.

    Raises:
      TargetError: `shardings` holds something else.
    """
    check_shardings("with_sharding_constraint", shardings)
    return x


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The pytree itself, see `with_sharding_constraint`."""
    return with_sharding_constraint(xs, out_shardings)
