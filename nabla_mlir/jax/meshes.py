"""Meshes of the one device: arrays of devices with named axes of length 1, and the names along which arrays are divided."""

from __future__ import annotations

import contextlib
import enum
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, TargetError, user_frame
from nabla_mlir.runtime.device import Device
from nabla_mlir.runtime.device import device as device_of


class AxisType(enum.Enum):
    """The modes in which JAX uses an axis of a mesh. With one device, all modes have the same effect."""

    Auto = 0
    Explicit = 1
    Manual = 2


class PartitionSpec:
    """The mesh axes along which each axis of an array is divided, by name; None stands for an axis that is not divided.

    Args:
      *partitions: for each axis of the array a name, a tuple of names, or None.

    Example:
      >>> tuple(PartitionSpec("data", None))
      ('data', None)
    """

    UNCONSTRAINED = object()

    def __init__(self, *partitions: Any):
        self._partitions = tuple(partitions)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, index: Any) -> Any:
        return self._partitions[index]

    def __eq__(self, other: object) -> bool:
        return tuple(other) == self._partitions if isinstance(other, (PartitionSpec, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._partitions)

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self._partitions))})"

    def names(self) -> set[str]:
        """The names of mesh axes that occur."""
        entries = [p if isinstance(p, (tuple, list)) else (p,) for p in self._partitions]
        return {name for entry in entries for name in entry if isinstance(name, str)}


P = PartitionSpec


class AbstractMesh:
    """A mesh without devices: the lengths and names of its axes. Each length is 1.

    Args:
      axis_sizes: the lengths.
      axis_names: the names.
      axis_types: the uses of the axes.

    Raises:
      TargetError: a length is not 1.
    """

    def __init__(self, axis_sizes: Sequence[int] = (), axis_names: Any = (), axis_types: Any = None):
        """Stores the axes; raises TargetError for more than one device."""
        self.axis_sizes: tuple[int, ...] = tuple(axis_sizes)
        self.axis_names: tuple[Any, ...] = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if len(self.axis_sizes) != len(self.axis_names):
            raise ShapeError(
                f"a mesh requires a name for each axis, got axes {self.axis_sizes} and names {self.axis_names}.", where=user_frame()
            )
        if math.prod(self.axis_sizes) > 1:
            raise TargetError(
                f"a mesh requires one device, got axes of lengths {self.axis_sizes}.",
                where=user_frame(),
                help="nm.vmap(..., axis_name=...) computes the shards on one device; nm.distributed sums over several machines.",
            )
        types = (AxisType.Auto,) * len(self.axis_names) if axis_types is None else axis_types
        self.axis_types: tuple[Any, ...] = tuple(types) if isinstance(types, Sequence) else (types,) * len(self.axis_names)

    @property
    def shape(self) -> OrderedDict[Any, int]:
        """The length of each axis, by its name."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """The name and the length of each axis."""
        return tuple(self.shape.items())

    @property
    def size(self) -> int:
        """The number of devices: 1, or 0 for a mesh without axes."""
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        """True for a mesh without axes."""
        return not self.axis_names

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, AbstractMesh) and other.shape_tuple == self.shape_tuple

    def __hash__(self) -> int:
        return hash(self.shape_tuple)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name!r}: {n}' for name, n in self.shape_tuple)})"


class _Active(threading.local):
    """The mesh that `set_mesh` selected in this thread."""

    mesh: Mesh | None = None


class Mesh(AbstractMesh):
    """A mesh with one device: an array that holds the device and has named axes of length 1.

    As a context, it is the mesh that `get_mesh` returns.

    Args:
      devices: the device, in nested lists or an array with as many axes as there are names.
      axis_names: the names of the axes.
      axis_types: the uses of the axes.

    Example:
      >>> import nabla_mlir as nm
      >>> Mesh([nm.devices()[0]], "data").shape["data"]
      1
    """

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None):
        self.devices: np.ndarray = np.asarray(devices, object)
        super().__init__(self.devices.shape, axis_names, axis_types)

    @property
    def device_ids(self) -> np.ndarray:
        """The number of each device."""
        return np.zeros(self.devices.shape, int)

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return list(self.devices.flat)

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh in this process, which is all of it."""
        return self

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its device."""
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    def __enter__(self) -> Mesh:
        self._before = _active.mesh
        _active.mesh = self
        return self

    def __exit__(self, *_: object) -> None:
        _active.mesh = self._before


_active = _Active()
_EMPTY = AbstractMesh()


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[str], axis_types: Any = None, *, devices: Any = None) -> Mesh:
    """A mesh with one device.

    Args:
      axis_shapes: the lengths of the axes, each 1.
      axis_names: their names.
      axis_types: the uses of the axes.
      devices: the device; the default is this CPU.

    Raises:
      TargetError: a length is not 1.

    Example:
      >>> make_mesh((1, 1), ("data", "model"))
      Mesh('data': 1, 'model': 1)
    """
    shape = AbstractMesh(axis_shapes, axis_names).axis_sizes
    one = device_of() if devices is None else next(iter(np.asarray(devices, object).flat))
    return Mesh(np.full(shape, one, object), axis_names, axis_types)


def get_mesh() -> Any:
    """The mesh of the innermost context ``with mesh:``; without one, a mesh that is empty."""
    return _EMPTY if _active.mesh is None else _active.mesh


def get_abstract_mesh() -> AbstractMesh:
    """The mesh of the innermost context, without its device."""
    return _EMPTY if _active.mesh is None else _active.mesh.abstract_mesh


class set_mesh(contextlib.AbstractContextManager[Any]):  # noqa: N801  # a function of JAX that is a context, too
    """Makes a mesh that of `get_mesh`, until the context ends if there is one."""

    def __init__(self, mesh: Mesh):
        self._before, _active.mesh = _active.mesh, mesh

    def __enter__(self) -> Any:
        return _active.mesh

    def __exit__(self, *_: object) -> None:
        _active.mesh = self._before


use_mesh = set_mesh
