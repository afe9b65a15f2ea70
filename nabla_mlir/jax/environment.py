"""The machine and the settings, under the names of JAX: devices, `config`, and functions that move arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.typing import ArrayLike, PyTree
from nabla_mlir.jax.numpy.constructors import asarray
from nabla_mlir.jax.sharding import check_shardings, device_in
from nabla_mlir.random.keys import KeyArray
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import Device
from nabla_mlir.runtime.device import device as device_of
from nabla_mlir.staging.execution import debug_nans
from nabla_mlir.staging.specs import Spec, as_spec
from nabla_mlir.table.narrowing import narrowing
from nabla_mlir.table.promotion import Defaults, default_dtypes, set_default_dtypes


# ---------------------------------------------------------------- arrays
def _mapped(f: Callable[[Any], Any], tree: Any) -> Any:
    leaves, spec = pytree.flatten(tree)
    return pytree.unflatten(spec, [f(leaf) for leaf in leaves])


def device_put(x: PyTree, device: Any = None, *, src: Any = None, donate: bool = False, may_alias: bool | None = None) -> PyTree:
    """The leaves of a pytree as arrays on a device; inside a trace, the target decides the device.

    Args:
      x: a pytree of arrays and numbers.
      device: one of `nm.devices()`, the name of a driver, or a sharding, which names a device. By default arrays stay on their
        device, and numbers go to the host.
      src, donate: accepted for programs of JAX.
      may_alias: False copies an array that is on the device already; else it stays the same object.

    Raises:
      ShapeError: `may_alias` and `donate` are both True.
      TreeError: `device` is a tree that is no prefix of that of `x`.
      DeletedArrayError: an array was donated to a call.

    Example:
      >>> device_put({"w": [1.0]}, "local-sync")["w"][0].tolist()
      1.0
    """
    if may_alias and donate:
        raise ShapeError("device_put requires one of may_alias and donate, got both.", where=user_frame())
    if isinstance(device, (dict, list, tuple)):
        pytree.broadcast_prefix(device, pytree.flatten(x)[1], "device_put")
    check_shardings("device_put", None if isinstance(device, str) else device)
    where = device_in(device)
    with narrowing():
        return _mapped(lambda leaf: _placed(leaf, where, may_alias), x)


def _placed(leaf: Any, device: Any, may_alias: bool | None) -> Any:
    """A leaf as an array on a device, copied if `may_alias` is False; an array of keys stays one."""
    if isinstance(leaf, KeyArray):
        return KeyArray(*(_placed(word, device, may_alias) for word in (leaf.high, leaf.low)))
    if type(leaf) is Array:
        leaf.memory()  # raises an error if it was deleted
    return asarray(leaf, device=None if device is None else device_of(device), copy=True if may_alias is False else None)


def copy_to_host_async(x: PyTree) -> PyTree:
    """The pytree itself, after a call of the method of this name of each leaf that has one: it starts a copy to the host.

    Example:
      >>> x = [device_put(1.0), "a"]
      >>> copy_to_host_async(x) is x
      True
    """
    for leaf in pytree.flatten_as_is(x)[0]:
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def device_get(x: PyTree) -> PyTree:
    """The leaves of a pytree as NumPy arrays.

    Example:
      >>> device_get({"w": np.ones(2)})
      {'w': array([1., 1.])}
    """
    return _mapped(np.asarray, x)


def block_until_ready(x: PyTree) -> PyTree:
    """Waits until all arrays of a pytree are computed, and returns the pytree."""
    return _mapped(lambda leaf: leaf.block_until_ready() if type(leaf) is Array else leaf, x)


def typeof(x: ArrayLike) -> Spec:
    """The shape and dtype of an array as an object that prints both.

    Example:
      >>> print(typeof(np.ones((2, 3))))
      float64[2,3]
    """
    return Spec(x.shape, x.dtype) if isinstance(x, KeyArray) else as_spec(x)  # type: ignore[arg-type]  # a dtype of keys


# ---------------------------------------------------------------- devices
def devices(backend: str | None = None) -> list[Device]:
    """The devices that run functions outside `jit`: this CPU only. A backend is "cpu" or the name of a driver.

    Example:
      >>> len(devices())
      1
    """
    return [device_of("local-sync" if backend in (None, "cpu") else backend)]


def local_devices(process_index: int | None = None, backend: str | None = None, host_id: int | None = None) -> list[Device]:
    """The devices of this process; see `devices`."""
    return devices(backend)


def device_count(backend: str | None = None) -> int:
    """The number of devices."""
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """The number of devices of this process."""
    return len(devices(backend))


def default_backend() -> str:
    """The name of the backend that runs functions: "cpu"."""
    return "cpu"


def process_index(backend: str | None = None) -> int:
    """The number of this process: 0."""
    return 0


def process_count(backend: str | None = None) -> int:
    """The number of processes that share arrays: 1."""
    return 1


def effects_barrier() -> None:
    """Does nothing: functions print their output before they return, so no output is pending."""


@contextlib.contextmanager
def default_device(new_val: Any = None) -> Iterator[None]:
    """A context for the device of new arrays, which is always this CPU; arrays move to a GPU by ``x.to("cuda")``.

    Args:
      new_val: one of `nm.devices()`, the name of its driver, "cpu" or None.

    Raises:
      TraceError: `new_val` is another device.

    Example:
      >>> with default_device(devices()[0]):
      ...     float(asarray(3.0))
      3.0
    """
    if new_val not in (None, "cpu") and device_of(new_val) != device_of():
        raise TraceError(
            f"default_device requires this CPU, got {new_val}.",
            where=user_frame(),
            help="arrays move by x.to(device), and functions are computed where their arguments are.",
        )
    yield


@contextlib.contextmanager
def default_matmul_precision(new_val: Any) -> Iterator[None]:
    """A context that changes nothing: products are computed in the dtype of their operands, which is the highest precision.

    Example:
      >>> with default_matmul_precision("highest"):
      ...     float(asarray([3.0]) @ asarray([2.0]))
      6.0
    """
    yield


@contextlib.contextmanager
def numpy_dtype_promotion(new_val: str) -> Iterator[None]:
    """A context for JAX's setting `jax_numpy_dtype_promotion`; "standard" is the only value that exists here.

    Raises:
      TraceError: it is something else.

    Example:
      >>> with numpy_dtype_promotion("standard"):
      ...     pass
    """
    config.update("jax_numpy_dtype_promotion", new_val)
    yield


@contextlib.contextmanager
def numpy_rank_promotion(new_val: str) -> Iterator[None]:
    """A context for JAX's setting `jax_numpy_rank_promotion`, which must be "allow".

    Raises:
      TraceError: it is something else.
    """
    config.update("jax_numpy_rank_promotion", new_val)
    yield


@contextlib.contextmanager
def transfer_guard(new_val: str) -> Iterator[None]:
    """A context for JAX's setting `jax_transfer_guard`, which must be "allow": host and device have one memory.

    Raises:
      TraceError: it is something else.
    """
    config.update("jax_transfer_guard", new_val)
    yield


# ---------------------------------------------------------------- names
@contextlib.contextmanager
def named_scope(name: str) -> Iterator[None]:
    """A context that names traced operations in JAX. Here it does nothing, because errors and IR show the user's lines.

    Raises:
      TraceError: the name is no string.

    Example:
      >>> with named_scope("encoder"):
      ...     pass
    """
    if not isinstance(name, str):
        raise TraceError(f"named_scope requires a string, got {name!r}.", where=user_frame())
    yield


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """The function itself; see `named_scope`."""
    return fun


# ---------------------------------------------------------------- settings
class Config:
    """The settings of JAX that nabla_mlir supports.

    Attributes:
      jax_enable_x64: True if new arrays and Python numbers have 64 bits.
      jax_debug_nans: True if functions report the source of a NaN or an infinity; see `nm.debug_nans`.

    Example:
      >>> config.update("jax_enable_x64", config.jax_enable_x64)
    """

    # Settings that programs change, but whose requested behaviour nabla_mlir always has.
    _granted = (
        "jax_platform_name",
        "jax_platforms",
        "jax_default_matmul_precision",
        "jax_traceback_filtering",
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_log_compiles",
        "jax_explain_cache_misses",
        "jax_check_tracer_leaks",
        "jax_enable_checks",
        "jax_enable_custom_prng",
        "jax_threefry_partitionable",
        "jax_default_prng_impl",
        "jax_numpy_rank_promotion",
        "jax_numpy_dtype_promotion",
        "jax_transfer_guard",
    )
    _values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "jax_platform_name": ("cpu",),
        "jax_platforms": ("cpu",),
        "jax_threefry_partitionable": (True,),
        "jax_default_prng_impl": ("threefry2x32",),
        "jax_numpy_rank_promotion": ("allow",),
        "jax_numpy_dtype_promotion": ("standard",),
        "jax_transfer_guard": ("allow",),
    }

    def __init__(self) -> None:
        self._finite: Any = None

    @property
    def jax_enable_x64(self) -> bool:
        """True if new arrays and Python numbers have 64 bits."""
        return Defaults.float == np.float64

    @property
    def x64_enabled(self) -> bool:
        """The older name of `jax_enable_x64`."""
        return self.jax_enable_x64

    @property
    def jax_debug_nans(self) -> bool:
        """True if functions report the source of a NaN."""
        return self._finite is not None

    def read(self, name: str) -> Any:
        """The value of a setting of JAX.

        Raises:
          TraceError: nabla_mlir has no such setting.
        """
        if name in ("jax_enable_x64", "jax_debug_nans"):
            return getattr(self, name)
        if name in self._granted:
            return self._values.get(name, (None,))[0]
        raise TraceError(f"config.read requires a setting that there is here, got {name!r}.", where=user_frame())

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._granted:
            return self.read(name)
        raise AttributeError(f"'Config' object has no attribute {name!r}")

    def update(self, name: str, val: Any) -> None:
        """Changes a setting of JAX.

        Raises:
          TraceError: nabla_mlir has no such setting.
        """
        if name == "jax_enable_x64":
            set_default_dtypes(float=np.float64 if val else np.float32, int=np.int64 if val else np.int32)
        elif name in ("jax_debug_nans", "jax_debug_infs"):
            self._watch(bool(val))
        elif name not in self._granted or (val is not None and val not in self._values.get(name, (val,))):
            raise TraceError(
                f"config.update requires a setting that there is here, got {name!r} = {val!r}.",
                where=user_frame(),
                help="these are jax_enable_x64 and jax_debug_nans; nm.set_default_dtypes and nm.set_execution have more.",
            )

    def _watch(self, is_on: bool) -> None:
        """Enters or leaves `nm.debug_nans()`, so that `jax_debug_nans` is `is_on`."""
        if is_on == self.jax_debug_nans:
            return
        if is_on:
            self._finite = debug_nans()
            self._finite.__enter__()
        else:
            self._finite.__exit__(None, None, None)
            self._finite = None


config: Config = Config()


@contextlib.contextmanager
def checking_leaks() -> Iterator[None]:
    """A context that changes nothing: a tensor outside its trace always raises an error with the line that uses it.

    Example:
      >>> with checking_leaks():
      ...     float(asarray(1.0))
      1.0
    """
    yield


debug_infs = debug_nans


@contextlib.contextmanager
def enable_x64(new_val: bool = True) -> Iterator[None]:
    """A context in which new arrays and Python numbers have 64 bits.

    Example:
      >>> with enable_x64():
      ...     asarray(1.0).dtype
      dtype('float64')
    """
    before = default_dtypes()
    config.update("jax_enable_x64", new_val)
    try:
        yield
    finally:
        set_default_dtypes(float=before[0], int=before[1])
