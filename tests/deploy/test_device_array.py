import copy
import gc
import pickle
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from deploy_support import DTYPES
from vulkan import need_vulkan

import nabla_mlir as nm
from nabla_mlir.base.errors import DeployError, DtypeError
from nabla_mlir.runtime import Executable
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import Device, device
from nabla_mlir.runtime.element_types import dtype_named

DRIVERS = ["local-sync", "local-task", pytest.param("vulkan", marks=pytest.mark.vulkan)]


@pytest.fixture(params=DRIVERS)
def driver(request):
    if request.param == "vulkan":
        need_vulkan()
    return request.param


def aligned(size, memory=None):
    raw = np.frombuffer(memory or bytearray(size * 4 + 64), np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * 4].view(np.float32)


@pytest.mark.parametrize("name", DTYPES)
def test_values_survive_in_every_dtype_and_shape(driver, name):
    base = np.array([[0, 1, 0], [1, 1, 0]]).astype(dtype_named(name))
    big = np.ones((600, 700), base.dtype)
    for x in (base, base.T, base[:, ::2], base[0, 1], base[:0], big, big[::-2]):
        a = Array.from_numpy(x, driver)
        assert (a.shape, a.dtype, a.ndim, a.size, a.nbytes) == (x.shape, x.dtype, x.ndim, x.size, x.nbytes)
        assert np.array_equal(a.numpy(), x)


def test_later_writes_to_the_source_do_not_show(driver):
    for size in (4, 500_000):  # copied by IREE, copied by NumPy
        x = aligned(size)
        a = Array.from_numpy(x, driver)
        x[:] = 7
        assert not a.numpy().any()


def test_it_is_read_only(driver):
    a = Array.from_numpy(np.zeros(3), driver)
    with pytest.raises(ValueError, match="read-only"):
        a.numpy()[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(a)[0] = 1
    np.array(a)[0] = 1
    assert not a.numpy().any()


def test_no_copy_to_numpy_where_the_host_sees_the_memory():
    a = Array.from_numpy(np.arange(4.0))
    assert a.numpy() is a.numpy()
    assert np.asarray(a).ctypes.data == a._view.map().asarray((4,), np.dtype("f8")).ctypes.data
    assert np.shares_memory(np.from_dlpack(a), a.numpy())
    host = a.numpy()
    del a
    gc.collect()
    assert host.tolist() == [0, 1, 2, 3]


def test_views_keep_the_memory_alive():
    class Memory(bytearray):
        pass

    memory = Memory(4064)
    alive = weakref.ref(memory)
    row = Array.from_numpy(aligned(1000, memory).reshape(10, 100), copy=False).numpy()[1]
    del memory
    gc.collect()
    assert alive() is not None  # only what NumPy made of the array is left
    del row
    gc.collect()
    assert alive() is None


def test_lent_memory_is_not_copied_and_kept_alive():
    class Memory(bytearray):
        pass

    memory = Memory(4064)
    alive = weakref.ref(memory)
    x = aligned(1000, memory)
    a = Array.from_numpy(x, copy=False)
    assert np.shares_memory(a.numpy(), x)
    b = Array(a._view, a.device)  # what a function that returns its argument makes
    del memory, x, a
    gc.collect()
    assert alive() is not None
    assert not b.numpy().any()
    del b
    gc.collect()
    assert alive() is None


def test_what_cannot_be_lent_is_copied():
    x = aligned(1001)
    frozen = aligned(8)
    frozen.flags.writeable = False
    for y in (x[1:], x[::2], frozen, x[:0]):
        assert not np.shares_memory(Array.from_numpy(y, copy=False).numpy(), y)


def test_other_byte_orders_are_converted():
    assert Array.from_numpy(np.array([1, 2], ">i4")).tolist() == [1, 2]


def test_scalars():
    a = Array.from_numpy(np.float32(2.5))
    assert (float(a), int(a), bool(a), a.item(), a.tolist(), complex(a)) == (2.5, 2, True, 2.5, 2.5, 2.5)
    assert [10, 20, 30][Array.from_numpy(np.int32(1))] == 20
    assert float(Array.from_numpy(np.ones((1, 1)))) == 1
    assert not Array.from_numpy(np.zeros(1))
    for convert in (float, int, bool, Array.item):
        with pytest.raises(ValueError, match="size 1, got shape \\(3,\\)"):
            convert(Array.from_numpy(np.zeros(3)))
    for bad in (np.float32(1), np.ones(1, np.int32)):
        with pytest.raises(TypeError, match="an index requires an integer array"):
            range(3)[Array.from_numpy(bad)]


def test_len():
    assert len(Array.from_numpy(np.zeros((5, 2)))) == 5
    with pytest.raises(TypeError, match="requires an array with a dimension"):
        len(Array.from_numpy(np.zeros(())))


def test_array_protocol():
    a = Array.from_numpy(np.arange(3, dtype=np.int32))
    assert np.asarray(a, np.float64).dtype == np.float64
    assert np.add(a, 1).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="requires a copy"):
        np.array(a, np.float64, copy=False)


def test_dlpack_for_an_old_consumer_is_a_copy():
    a = Array.from_numpy(np.arange(3.0))

    class Old:
        def __dlpack__(self, **_):
            return a.__dlpack__()

        def __dlpack_device__(self):
            return a.__dlpack_device__()

    assert np.from_dlpack(Old()).tolist() == [0, 1, 2]
    assert not np.shares_memory(np.from_dlpack(Old()), a.numpy())


def test_repr_pickle_and_copy(driver):
    a = Array.from_numpy(np.arange(3, dtype=np.float32), driver)
    assert repr(a) == f"Array([0., 1., 2.], dtype=float32, device='{driver}')"
    for b in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a)):
        assert (b.tolist(), b.device) == ([0, 1, 2], a.device)
    assert len(repr(Array.from_numpy(np.zeros(100_000)))) < 200


def test_moving_between_devices():
    a = Array.from_numpy(np.arange(3.0), "local-sync")
    assert a.to("local-sync") is a
    assert a.to("local-task").device is device("local-task")
    assert a.to("local-task").tolist() == [0, 1, 2]


def test_dtypes_that_no_device_has():
    for x in (np.array(["a"]), np.array([None]), np.array([1], "M8[s]"), np.zeros(2, ml_dtypes.int4)):
        with pytest.raises(DtypeError, match="an array requires a numeric dtype, got"):
            Array.from_numpy(x)


def test_devices_are_one_object_each_and_unknown_ones_an_error(driver):
    assert device(driver) is device(driver) is device(device(driver))
    with pytest.raises(DeployError, match="requires a known driver, got 'abacus'"):
        device("abacus")


def test_drivers_of_one_cpu_share_memory():
    x = Array.from_numpy(np.arange(6.0), "local-sync")
    y = x.to("local-task")
    assert y.device is device("local-task")
    assert np.shares_memory(x.numpy(), y.numpy())


@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3), (64, 64)])
@pytest.mark.parametrize("dtype", ["bool", "i1", "u4", "f2", "f4", "f8", "c8", "c16"])
def test_what_numpy_gets_cannot_be_written_and_stays(shape: tuple[int, ...], dtype: str) -> None:
    """Few numbers are copied, many are seen where they are; both outlive the array."""
    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    a = Array.from_numpy(values)
    for host in (np.asarray(a), a.numpy(), np.asarray(a)):
        assert not host.flags.writeable
        assert (host.dtype, host.shape) == (values.dtype, values.shape)
    own = a.own()
    own[...] = 1
    first = np.asarray(Array.from_numpy(values))
    del a
    np.testing.assert_array_equal(host, values)
    np.testing.assert_array_equal(first, values)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(Array.from_numpy(values), np.longdouble, copy=False)


def test_a_thread_enters_a_device_before_it_uses_it() -> None:
    """As CUDA's contexts ask; IREE enters them where it computes, and not where it allocates."""
    calls = []
    host = device("local-sync")
    guarded = Device("local-sync", host.hal, host.pool, enter=lambda: calls.append(threading.get_ident()))
    code = nm.trace(lambda x: x + 1, np.ones(3, np.float32), name="f").lower().compile(nm.CPU()).vmfb
    function = Executable.load(code, guarded).function("f")
    steps = (
        lambda: Array.from_numpy(np.ones(3, np.float32), guarded),
        lambda: Array.empty((3,), np.float32, guarded),
        lambda: function([np.ones(3, np.float32)]),
    )
    for step in steps:
        before = len(calls)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(step).result()
        assert len(calls) > before
        assert calls[-1] != threading.get_ident()
