"""Arrays in the memory of a device. Needs only NumPy and IREE's runtime."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Literal

import numpy as np
from iree.runtime import BufferUsage, HalBufferView, MemoryType, VmRef

from nabla_mlir.base import thresholds
from nabla_mlir.base.array_methods import AnyArray, ArrayMethods
from nabla_mlir.base.errors import DeletedArrayError, OutOfMemoryError, ShapeError, user_frame
from nabla_mlir.base.exchange import lent
from nabla_mlir.base.locks import new_lock
from nabla_mlir.runtime.assignment import assign
from nabla_mlir.runtime.device import Device, reason
from nabla_mlir.runtime.device import device as _device  # for functions that have a parameter `device`
from nabla_mlir.runtime.element_types import dtype_of, element_type
from nabla_mlir.runtime.memory import Mapped, Shared, aligned_copy, copied, is_mappable, lend, staged
from nabla_mlir.runtime.timeline import Timepoint

Shape = tuple[int, ...]

_deletion = new_lock()  # if two threads donate one array, one is refused


class _OfAllArrays(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, AnyArray)


class Array(ArrayMethods, metaclass=_OfAllArrays):
    """An array in the memory of a device.

    It converts to NumPy without a copy if the host can read the memory; a few numbers are copied, because that is faster. The
    array of NumPy is read-only. ``x[i] = v`` gives the array new memory, so that nothing which shares the old memory changes.

    `Array.from_numpy` makes an array, and calls of compiled functions return arrays. A module that was compiled with
    `asynchronous=True` returns them before their values are computed; reading waits for them.

    For `isinstance`, values of a trace, arrays with named axes and keys are instances, too, as in JAX. Values of a trace are also
    instances of `core.Tracer`.

    Example:
      >>> Array.from_numpy(np.arange(3, dtype=np.float32))
      Array([0., 1., 2.], dtype=float32, device='local-sync')
    """

    # In the order in which Python clears them: the buffer before its owners.
    __slots__ = (
        *("__weakref__", "_host", "_target", "_view", "device", "dtype", "is_alone", "owners", "pending", "shape", "version"),
        "weak",
    )
    device: Device
    owners: tuple[object, ...]  # a tuple, because the garbage collector clears it after a device
    pending: Timepoint | None
    version: int | None
    _view: HalBufferView | VmRef | None  # in the form of the call that returned it, until it is read

    def __init__(
        self,
        view: HalBufferView | VmRef,
        device: Device,
        version: int | None = None,
        lent: bool = False,
        type: tuple[Shape, np.dtype] | None = None,
        pending: Timepoint | None = None,
    ):
        """An array of this buffer; `lent` is True for memory that belongs to NumPy, and `type` is the shape and dtype if known."""
        self._view, self.device, self.owners = view, device, device.owners
        self.pending = pending  # the end of the call that writes it, until it has been waited for
        self._target = None if lent else view  # the memory to which a call may write
        self.weak = False  # True for a result of Python scalars alone: as they do, it takes the dtype of other operands
        self.is_alone = False  # True if nothing else can refer to this memory: then it is donated without a copy
        # The version of the state from which it was computed; None if there is no state.
        self.version = version
        self.shape: Shape
        self.dtype: np.dtype
        self.shape, self.dtype = type or (tuple(view.shape), dtype_of(int(view.element_type)))
        self._host: np.ndarray | None = None

    @classmethod
    def from_numpy(cls, array: Any, device: str | Device = "local-sync", *, copy: bool = True) -> Array:
        """A device array with the values of a NumPy array.

        Args:
          array: any object that NumPy converts to an array; its dtype stays.
          device: the device or the name of its driver.
          copy: False shares the memory instead of copying it, if it is on the host, contiguous, writable and aligned to 64
            bytes; otherwise it is copied. The caller must not write to shared memory while the array, or a value computed
            from it, is live. The memory itself stays alive.

        Raises:
          DtypeError: the dtype has no counterpart on the device.
        """
        where = device if type(device) is Device else _device(device)
        array = np.asarray(array)
        element = element_type(array.dtype)
        if not array.flags.c_contiguous or not array.dtype.isnative:
            array, copy = np.array(array, array.dtype.newbyteorder("="), order="C"), True
        size = array.nbytes
        if where.is_host and size and (not copy or size >= thresholds.DIRECT_COPY):
            view = None if copy else lend(array, where, element)
            if view is None and size >= thresholds.DIRECT_COPY:
                view = lend(aligned_copy(array), where, element)
            if view is not None:
                return cls(view, where, lent=True)
        return cls.owned(array, where)

    @classmethod
    def owned(cls, array: np.ndarray, device: Device) -> Array:
        """A copy of a contiguous array in memory of IREE, which IREE's threads can free without Python."""
        copy = cls(copied(array, device, element_type(array.dtype)), device, type=(array.shape, array.dtype))
        copy.is_alone = True  # nothing else refers to the memory, so a call may donate it without a copy
        return copy

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: Any, device: str | Device = "local-sync") -> Array:
        """An array without values: memory for the results of a call, which is passed as ``out``.

        Raises OutOfMemoryError if the device has too little memory.
        """
        where, dtype = _device(device), np.dtype(dtype)
        size = max(math.prod(shape) * dtype.itemsize, 1)  # memory for no elements is one byte: a buffer has an address
        try:
            buffer = where.on(where.hal.allocator.allocate_buffer)(MemoryType.DEVICE_LOCAL, where.usage, size)
        except RuntimeError as error:
            raise OutOfMemoryError("Array.empty", f"{size} bytes, {reason(error)}") from None
        return cls(HalBufferView(buffer, shape, element_type(dtype)), where)

    @classmethod
    def lent(cls, array: np.ndarray, device: Device) -> Array | None:
        """An array that shares the memory of a NumPy array; None if that is not aligned to 64 bytes, or not on the device."""
        view = lend(array, device, element_type(array.dtype)) if device.is_host and array.nbytes else None
        return None if view is None else cls(view, device, lent=True)

    def donated(self, device: Device) -> Array:
        """The values in memory that IREE may write to, for one receiver; this array cannot be read afterwards.

        It is the memory of the array if nothing else can refer to this memory, and otherwise a copy. If two threads donate the
        array, one gets an error.
        """
        self.block_until_ready()
        memory, is_native = self.memory(), self._target is not None
        self.delete()
        if is_native and self.is_alone:  # tested after `delete`, when no other thread can get the memory
            result = Array(memory, device, type=(self.shape, self.dtype))
        else:
            result = Array.empty(self.shape, self.dtype, device)
            if self.size:
                source, target = (np.asarray(Mapped(x, self.nbytes, device)) for x in (memory, result.memory()))
                np.copyto(target, source)
        result.is_alone = True
        return result

    def delete(self) -> None:
        """Frees its memory, unless something else refers to it. The array cannot be read afterwards.

        Raises:
          DeletedArrayError: the array is deleted already.
        """
        with _deletion:
            self.memory()
            self._view = self._target = self._host = None

    def is_deleted(self) -> bool:
        """True if its memory was donated (`jit(f, donate_argnums=...)`) or freed."""
        return self._view is None

    def memory(self) -> HalBufferView:
        """The buffer of its values. Raises DeletedArrayError if the array was deleted."""
        view = self._view
        if view is None:
            raise DeletedArrayError(
                f"an array requires its memory, got {self.dtype}{list(self.shape)} whose memory was given to a call, or deleted.",
                where=user_frame(),
                help="donate_argnums donates arguments: read the result of the call, or pass a copy, x.copy().",
            )
        if type(view) is VmRef:
            view = self._view = view.deref(HalBufferView)
        return view

    def handle(self) -> VmRef:
        """The memory in the form that calls accept and return, in which it is stored."""
        self._view = self.memory().ref
        return self._view

    def to_write(self) -> HalBufferView | VmRef:
        """The memory of the array, into which a call writes its result. The array must live during the call."""
        if self._target is None:  # IREE cannot clear or copy to a buffer from DLPack
            raw = (ctypes.c_ubyte * self.nbytes).from_address(self.numpy().ctypes.data)
            memory, usage = MemoryType.DEVICE_LOCAL | MemoryType.HOST_VISIBLE, BufferUsage.DEFAULT | BufferUsage.MAPPING
            buffer = self.device.hal.allocator.import_host_allocation(raw, int(memory), int(usage))
            self._target = HalBufferView(buffer, self.shape, element_type(self.dtype))
        return self._target

    def written(self, version: int | None, pending: Timepoint | None = None) -> None:
        """Records that a call has written its result into this array, or will have when `pending` is reached."""
        self.version, self.pending = version, pending
        if not self.device.is_host:
            self._host = None  # the old content

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def is_ready(self) -> bool:
        """True if the values are computed, so that reading does not wait."""
        return self.pending is None or self.pending.is_reached()

    def devices(self) -> set[Device]:
        """The set of its devices, which is one device, under the name of JAX."""
        return {self.device}

    def block_until_ready(self) -> Array:
        """Waits until the values are computed, and returns the array.

        Raises:
          DeployError: the call that computes them failed on the device.
        """
        if self.pending is not None:
            self.pending.wait()
            self.pending = None
        return self

    def numpy(self) -> np.ndarray:
        """The values as a read-only NumPy array. It is a view of the device's memory if the host can read it."""
        self.block_until_ready()
        if self._host is None:
            self.is_alone = False
            host = self._read()
            host.flags.writeable = False
            self._host = host
        return self._host

    def own(self, *, copy: bool = True) -> np.ndarray:
        """The values as a NumPy array that the caller may change.

        Args:
          copy: False returns the memory itself, if NumPy knows the dtype. The caller must know that nothing else reads it.
        """
        if not copy and self.dtype.kind != "V":  # NumPy's array interface has no names for dtypes of ml_dtypes
            return np.asarray(Shared(self.numpy()))
        if self._host is not None or not self.device.is_host or self.dtype.kind == "V" or not self.size:
            return self.numpy().copy()
        self.block_until_ready()
        values = np.frombuffer(self.memory().map(), self.dtype, self.size)  # faster than a view, which is not needed afterwards
        return values.reshape(self.shape).copy()

    def known_memory(self) -> np.ndarray | None:
        """The result of `numpy` without waiting. It is None if the values are not computed and this memory was never read."""
        return self.numpy() if self.pending is None else self._host

    def to(self, device: str | Device) -> Array:
        """The array on another device, or the array itself if it is there already."""
        where = _device(device)
        if where is self.device:
            return self
        if where.is_host and self.device.is_host:
            self.is_alone = False
            return Array(self.memory(), where, pending=self.pending)  # both drivers of a CPU use the same memory
        return Array.from_numpy(self.numpy(), where)

    def to_device(self, device: str | Device, /, *, stream: None = None) -> Array:
        """The array on another device, under the name of the array API standard; there are no streams."""
        return self.to(device)

    def item(self, *index: int) -> Any:
        """The element at an index as a Python scalar. One integer is an index of the flat array; without index the size must be 1.

        Raises:
          ValueError: there is no index, and the size is not 1.
        """
        if index:
            return self.numpy().item(*index)
        if self.size != 1:
            raise ShapeError(f"item requires an array of size 1, got shape {self.shape}.")
        self.block_until_ready()
        if self._host is not None or not self.device.is_host or self.dtype.kind == "V":
            return self.numpy().item()
        return np.frombuffer(self.memory().map(), self.dtype, 1).item()  # no view remains

    def tobytes(self, order: Literal["C", "F", "A"] | None = "C") -> bytes:
        """The bytes of the elements, in row-major ("C") or column-major ("F") order."""
        return self.numpy().tobytes(order)

    def tolist(self) -> Any:
        """The values as nested lists of Python scalars, or one scalar if the array has no dimension."""
        return self.numpy().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The values for NumPy, read-only if they share the memory; a few numbers are copied, because that is faster."""
        if dtype is None or np.dtype(dtype) == self.dtype:
            if copy:
                return self.own()
            is_small = self.device.is_host and self._target is not None and self.nbytes <= thresholds.COPIED_READ
            if copy is None and self._host is None and is_small:
                host = self.own()
                host.setflags(write=False)
                return host
            return self.numpy()
        if copy is False:
            raise ValueError(f"an array of another dtype requires a copy, got copy=False, {self.dtype} to {dtype}.")
        return self.numpy().astype(dtype)

    def copy(self) -> Array:
        """A copy in separate memory."""
        return Array.from_numpy(self.numpy(), self.device)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Writes the value to the elements at the index, in new memory: what shares the old memory does not change."""
        host = np.array(self.numpy())
        assign(host, _host_index(index), value)
        new = Array.from_numpy(host, self.device)
        for slot in ("_view", "_target", "_host", "is_alone", "pending", "version"):
            setattr(self, slot, getattr(new, slot))

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        # Only DLPack 1.0 can mark memory as read-only. Consumers with older versions get a copy, unless they refuse it.
        if max_version is not None and tuple(max_version) >= (1, 0) and self.dtype.isbuiltin == 1:
            return self.numpy().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        return lent(self.own(copy=copy is not False), stream=stream, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the host, through which the memory of other devices is read

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() requires an array with a dimension, got shape ().")
        return self.shape[0]

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError(f"an index requires an integer array of shape (), got {self.dtype} of shape {self.shape}.")
        return int(self.item())

    def __format__(self, form: str) -> str:
        return str(self) if not form else format(self.item() if not self.shape else self.numpy(), form)

    def __str__(self) -> str:
        """The numbers as NumPy prints them."""
        return repr(self) if self.is_deleted() else str(self.numpy())

    def __repr__(self) -> str:
        """The elements, dtype and device as text."""
        if self.is_deleted():
            return f"Array({self.dtype}{list(self.shape)}, deleted)"
        values = np.array2string(self.numpy(), separator=", ", prefix="Array(", threshold=64)
        return f"Array({values}, dtype={self.dtype}, device={self.device.driver!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """The values and the driver, from which pickle makes the array."""
        return Array.from_numpy, (np.array(self.numpy()), self.device.driver)

    def _read(self) -> np.ndarray:
        """A read-only NumPy array that shares the memory if the host can read it, and is a copy otherwise."""
        memory = self.memory()
        if not self.size:
            return np.empty(self.shape, self.dtype)
        if not self.device.is_host and not is_mappable(buffer := memory.get_buffer()):
            memory = self.device.on(staged)(buffer, self.device)
        return np.asarray(Mapped(memory, self.nbytes, self.device)).view(self.dtype).reshape(self.shape)


def _host_index(index: Any) -> Any:
    """The index in a form that NumPy accepts: arrays of devices become NumPy arrays, also in a tuple."""
    if isinstance(index, tuple):
        return tuple(map(_host_index, index))
    return index.numpy() if type(index) is Array else index
